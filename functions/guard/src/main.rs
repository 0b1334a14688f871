//! Judges a run's plan by the guardrails.

use std::process::ExitCode;

use plangate_gate::time::Timestamp;
use plangate_lambda::{Clients, FunctionError, StepInput};
use plangate_record::guard;
use plangate_rules::Sandbox;

fn main() -> Result<ExitCode, lambda_runtime::Error> {
    // Rules of a workspace's own are evaluated by this program, started again.
    if let Some(exit) = plangate_rules::serve() {
        return Ok(exit);
    }
    start()?;
    Ok(ExitCode::SUCCESS)
}

#[tokio::main(flavor = "current_thread")]
async fn start() -> Result<(), lambda_runtime::Error> {
    plangate_lambda::run(&[], handle).await
}

async fn handle(clients: &'static Clients, input: StepInput, now: Timestamp) -> Result<guard::Guarded, FunctionError> {
    let engine = Sandbox::of_this_program();
    Ok(guard::guard(&clients.store, &clients.objects, &engine, &input.run, now).await?)
}
