//! Asks the reviewer about an eligible run.

use plangate_gate::time::Timestamp;
use plangate_lambda::{Clients, FunctionError, StepInput};
use plangate_record::{guard, review};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), lambda_runtime::Error> {
    plangate_lambda::run(&[], handle).await
}

async fn handle(clients: &'static Clients, input: StepInput, now: Timestamp) -> Result<guard::Guarded, FunctionError> {
    Ok(review::review(&clients.store, &clients.objects, &clients.reviewers(), &input.run, now).await?)
}
