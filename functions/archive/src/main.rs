//! Archives the audit: what the table's stream brings, and on a schedule what it did not bring.

mod stream;

use plangate_gate::time::Timestamp;
use plangate_lambda::{Clients, FunctionError};
use plangate_record::archive::{Archived, archive, backfill};

use stream::Event;

/// What this function works on besides what all do.
const NEEDS: &[&str] = &["PLANGATE_ARCHIVE"];

/// How far back the backfill looks, in seconds: three days, where a stream keeps one.
const LOOKED_BACK: u32 = 3 * 86_400;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), lambda_runtime::Error> {
    plangate_lambda::serve(NEEDS, handle).await
}

async fn handle(clients: &'static Clients, event: Event, now: Timestamp) -> Result<Archived, FunctionError> {
    let (store, objects) = (&clients.store, &clients.archive());
    match event.changes().map_err(FunctionError::InvalidInput)? {
        Some(changes) => Ok(archive(objects, &changes, now).await?),
        None => Ok(backfill(store, objects, now.minus_seconds(LOOKED_BACK), now).await?),
    }
}
