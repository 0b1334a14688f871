//! Asks a person to decide on a run.

use plangate_gate::time::Timestamp;
use plangate_lambda::{Clients, FunctionError, WaitingInput};
use plangate_record::decide;
use serde::Serialize;

/// Nothing to tell: what was done stands in the record.
#[derive(Serialize)]
struct Done {}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), lambda_runtime::Error> {
    plangate_lambda::run(&[], handle).await
}

async fn handle(clients: &'static Clients, input: WaitingInput, now: Timestamp) -> Result<Done, FunctionError> {
    decide::request_approval(&clients.store, &clients.workflow, &input.run, &input.token, now).await?;
    Ok(Done {})
}
