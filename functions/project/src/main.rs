//! Projects a run's plan document.

use plangate_gate::time::Timestamp;
use plangate_lambda::{Clients, FunctionError, StepInput};
use plangate_record::project;
use serde::Serialize;

/// Whether the plan changes anything; the rest stands in the record.
#[derive(Serialize)]
struct Answer {
    changes: bool,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), lambda_runtime::Error> {
    plangate_lambda::run(&[], handle).await
}

async fn handle(clients: &'static Clients, input: StepInput, now: Timestamp) -> Result<Answer, FunctionError> {
    let projected = project::project(&clients.store, &clients.objects, &input.run, now).await?;
    Ok(Answer { changes: projected == project::Projected::Changes })
}
