//! Sweeps the open runs: concludes what is dead, wakes what waits in vain, starts what was never started.

use plangate_gate::order::Phase;
use plangate_gate::time::Timestamp;
use plangate_lambda::{Clients, FunctionError};
use plangate_record::{logs, sweep};
use serde::Deserialize;
use tracing::Instrument as _;

/// What wakes the sweeper: its schedule, which names nothing, or an event, which names an execution. Only a hint of where to
/// look: what does not name a run is the schedule's.
#[derive(Deserialize)]
struct Hint {
    #[serde(default)]
    run: Option<String>,
}

/// What this function works on besides what all do.
const NEEDS: &[&str] =
    &["PLANGATE_MACHINE_PLAN_ONLY", "PLANGATE_MACHINE_APPLICABLE", "PLANGATE_CLUSTER", "PLANGATE_LOG_GROUP"];

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), lambda_runtime::Error> {
    plangate_lambda::serve(NEEDS, handle).await
}

async fn handle(clients: &'static Clients, hint: Hint, now: Timestamp) -> Result<sweep::Swept, FunctionError> {
    let Clients { store, objects, workflow, tasks, .. } = clients;
    let (swept, ended) = match hint.run.and_then(|run| run.parse().ok()) {
        Some(run) => sweep::sweep_one(store, objects, workflow, tasks, &run, now).await,
        None => sweep::sweep(store, objects, workflow, tasks, now).await?,
    };
    for run in ended {
        let about = tracing::info_span!("run", run = %run.id, workspace = %run.workspace);
        for phase in [Phase::Plan, Phase::Apply] {
            let archived = logs::archive(objects, &clients.logs, &run, phase);
            if let Err(error) = archived.instrument(about.clone()).await {
                tracing::warn!(run = %run.id, %phase, %error, "the log was not archived");
            }
        }
    }
    Ok(swept)
}
