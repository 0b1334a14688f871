//! Judges a run's plan by the guardrails.

use plangate_gate::time::Timestamp;
use plangate_lambda::{Clients, FunctionError, StepInput};
use plangate_record::guard;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), lambda_runtime::Error> {
    plangate_lambda::run(&[], handle).await
}

async fn handle(clients: &'static Clients, input: StepInput, now: Timestamp) -> Result<guard::Guarded, FunctionError> {
    Ok(guard::guard(&clients.store, &clients.objects, &input.run, now).await?)
}
