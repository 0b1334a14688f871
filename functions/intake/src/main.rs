//! Takes in the receipt of a run's plan.

use plangate_gate::time::Timestamp;
use plangate_lambda::{Clients, FunctionError, StepInput};
use plangate_record::intake;
use serde::Serialize;

/// Nothing to tell: what was done stands in the record.
#[derive(Serialize)]
struct Done {}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), lambda_runtime::Error> {
    plangate_lambda::run(&["PLANGATE_LONGEST_PLAN_EXPIRY"], handle).await
}

async fn handle(clients: &'static Clients, input: StepInput, now: Timestamp) -> Result<Done, FunctionError> {
    intake::intake(&clients.store, &clients.objects, &input.run, clients.longest_plan_expiry, now).await?;
    Ok(Done {})
}
