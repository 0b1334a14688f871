//! The API: decode, find out who asks and whether they may, do it, answer. Every refusal says what to do next.

use std::sync::LazyLock;

use plangate_gate::time::Timestamp;
use plangate_lambda::{Clients, FunctionError};
use plangate_record::strangers::Strangers;

mod configuration;
mod decode;
mod freezes;
mod gate;
mod reading;
mod routes;
mod runs;
mod standing;
#[cfg(test)]
mod tests;
mod trail;

use gate::Gate;

/// What this process remembers of those who may not.
static STRANGERS: LazyLock<Strangers> = LazyLock::new(Strangers::new);

/// What this function works on besides what all do.
const NEEDS: &[&str] = &[
    "PLANGATE_MACHINE_PLAN_ONLY",
    "PLANGATE_MACHINE_APPLICABLE",
    "PLANGATE_CLUSTER",
    "PLANGATE_LOG_GROUP",
    "PLANGATE_ADMINISTRATOR",
    "PLANGATE_LONGEST_PLAN_EXPIRY",
];

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), lambda_runtime::Error> {
    plangate_lambda::serve(NEEDS, handle).await
}

async fn handle(
    clients: &'static Clients,
    event: decode::Event,
    now: Timestamp,
) -> Result<decode::Answer, FunctionError> {
    plangate_lambda::requested(event.request_id());
    let Clients { store, objects, workflow, logs, administrator, longest_plan_expiry, .. } = clients;
    let bucket = objects.bucket();
    let strangers = &*STRANGERS;
    let gate = Gate {
        store,
        objects,
        presigner: objects,
        workflow,
        logs,
        strangers,
        bucket,
        administrator,
        longest_plan_expiry: *longest_plan_expiry,
        now,
    };
    Ok(routes::answer(&gate, &event).await)
}
