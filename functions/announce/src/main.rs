//! Tells others, on an event bus, how runs stand. It follows the stream of the audit, so no step of a run waits for it or fails
//! with it, and no change of a status passes by it.

mod stream;

use plangate_gate::time::Timestamp;
use plangate_lambda::{Clients, FunctionError};
use plangate_record::announce::announce;

use stream::{Answer, Event};

/// What this function works on besides what all do.
const NEEDS: &[&str] = &["PLANGATE_EVENT_BUS"];

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), lambda_runtime::Error> {
    plangate_lambda::serve(NEEDS, handle).await
}

async fn handle(clients: &'static Clients, event: Event, _now: Timestamp) -> Result<Answer, FunctionError> {
    let announced = announce(&clients.store, &clients.bus(), &event.inserted()).await;
    Ok(event.answer(announced.again_from))
}
