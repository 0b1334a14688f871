//! Admits a run: it holds its workspace's lock, waits in line, or needs neither.

use plangate_gate::time::Timestamp;
use plangate_lambda::{Clients, FunctionError, WaitingInput};
use plangate_record::admit;
use serde::Serialize;

/// Nothing to tell: what was done stands in the record.
#[derive(Serialize)]
struct Done {}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), lambda_runtime::Error> {
    plangate_lambda::run(&[], handle).await
}

async fn handle(clients: &'static Clients, input: WaitingInput, now: Timestamp) -> Result<Done, FunctionError> {
    admit::admit(&clients.store, &clients.objects, &clients.workflow, &input.run, &input.token, now).await?;
    Ok(Done {})
}
