//! Concludes a run: its terminal status, its lock passed on, its logs archived.

use plangate_gate::lifecycle::Status;
use plangate_gate::order::Phase;
use plangate_gate::time::Timestamp;
use plangate_lambda::{Clients, ConcludeInput, FunctionError};
use plangate_record::{conclude, logs};
use serde::Serialize;

/// How the run ended, for whoever reads the execution's history.
#[derive(Serialize)]
struct Answer {
    status: Status,
}

/// What this function works on besides what all do.
const NEEDS: &[&str] = &["PLANGATE_CLUSTER", "PLANGATE_LOG_GROUP"];

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), lambda_runtime::Error> {
    plangate_lambda::run(NEEDS, handle).await
}

async fn handle(clients: &'static Clients, input: ConcludeInput, now: Timestamp) -> Result<Answer, FunctionError> {
    let Clients { store, objects, workflow, tasks, .. } = clients;
    let error = input.error.as_deref();
    let run = conclude::conclude(store, objects, workflow, tasks, &input.run, error, "conclude", now).await?;
    for phase in [Phase::Plan, Phase::Apply] {
        // The run has ended, whatever becomes of its logs.
        if let Err(error) = logs::archive(objects, &clients.logs, &run, phase).await {
            tracing::warn!(run = %run.id, %phase, %error, "the log was not archived");
        }
    }
    Ok(Answer { status: run.status })
}
