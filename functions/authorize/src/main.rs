//! Turns an approved run into one that is applying, and signs its order.

use plangate_gate::time::Timestamp;
use plangate_lambda::{Clients, FunctionError, StepInput};
use plangate_record::{authorize, prepare};

/// What this function works on besides what all do.
const NEEDS: &[&str] = &["PLANGATE_ORDER_KEY"];

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), lambda_runtime::Error> {
    plangate_lambda::run(NEEDS, handle).await
}

async fn handle(
    clients: &'static Clients,
    input: StepInput,
    now: Timestamp,
) -> Result<prepare::TaskParameters, FunctionError> {
    Ok(authorize::authorize(&clients.store, &clients.objects, &clients.signer, &input.run, now).await?)
}
