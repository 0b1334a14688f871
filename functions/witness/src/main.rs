//! Witnesses where the chains end, on a schedule.

use plangate_gate::time::Timestamp;
use plangate_lambda::{Clients, FunctionError};
use plangate_record::witness::{Witnessed, witness};
use serde::Deserialize;

/// What wakes the witness, a schedule, is not looked at.
#[derive(Deserialize)]
struct Anything {}

/// What this function works on besides what all do.
const NEEDS: &[&str] = &["PLANGATE_ARCHIVE"];

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), lambda_runtime::Error> {
    plangate_lambda::serve(NEEDS, handle).await
}

async fn handle(clients: &'static Clients, _: Anything, now: Timestamp) -> Result<Witnessed, FunctionError> {
    Ok(witness(&clients.store, &clients.archive(), now).await?)
}
