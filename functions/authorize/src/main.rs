//! Turns an approved run into one that is applying, and signs its order.

use plangate_gate::time::Timestamp;
use plangate_lambda::{Clients, FunctionError, StepInput};
use plangate_record::{authorize, prepare};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), lambda_runtime::Error> {
    plangate_lambda::run(handle).await
}

async fn handle(
    clients: &'static Clients,
    input: StepInput,
    now: Timestamp,
) -> Result<prepare::TaskParameters, FunctionError> {
    Ok(authorize::authorize(&clients.store, &clients.objects, &clients.signer, &input.run, now).await?)
}
