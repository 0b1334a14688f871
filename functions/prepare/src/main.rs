//! Prepares a run's plan: pins the workspace and writes the runner's order.

use plangate_gate::time::Timestamp;
use plangate_lambda::{Clients, FunctionError, StepInput};
use plangate_record::prepare;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), lambda_runtime::Error> {
    plangate_lambda::run(&[], handle).await
}

async fn handle(
    clients: &'static Clients,
    input: StepInput,
    now: Timestamp,
) -> Result<prepare::TaskParameters, FunctionError> {
    Ok(prepare::prepare(&clients.store, &clients.objects, &input.run, now).await?)
}
