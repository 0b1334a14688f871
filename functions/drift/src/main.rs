//! Looks for drift: proposes plan-only runs for the workspaces that are due, on a schedule (`R55`).

use plangate_gate::time::Timestamp;
use plangate_lambda::{Clients, FunctionError};
use plangate_record::drift::{Looked, look};
use serde::Deserialize;

/// What wakes it, a schedule, is not looked at.
#[derive(Deserialize)]
struct Anything {}

/// What this function works on besides what all do.
const NEEDS: &[&str] = &["PLANGATE_MACHINE_PLAN_ONLY"];

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), lambda_runtime::Error> {
    plangate_lambda::serve(NEEDS, handle).await
}

async fn handle(clients: &'static Clients, _: Anything, now: Timestamp) -> Result<Looked, FunctionError> {
    let noise = || plangate_lambda::random().and_then(|bytes| bytes.first_chunk().copied());
    let Clients { store, objects, workflow, .. } = clients;
    let looked = look(store, objects, workflow, objects.bucket(), noise, now).await?;
    tracing::info!(
        seen = looked.seen,
        proposed = looked.proposed,
        waiting = looked.waiting,
        failed = looked.failed,
        "looked for drift"
    );
    Ok(looked)
}
