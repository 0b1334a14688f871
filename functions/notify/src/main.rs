//! Shows in Slack how runs stand and what they have noticed, and tells people what came of what they did there. It follows the table's changes, so no
//! step of a run waits for it or fails with it.

use plangate_gate::time::Timestamp;
use plangate_lambda::{Clients, FunctionError, named};
use plangate_record::rows::RunRow;
use tracing::Instrument as _;
use tracing::field::Empty;

mod board;
mod event;
mod news;
mod show;
mod tell;
#[cfg(test)]
mod tests;

use board::{Patience, SlackBoard};
use event::{Change, Event};

/// What this function works on besides what all do.
const NEEDS: &[&str] = &["PLANGATE_SLACK_BOT_TOKEN", "PLANGATE_SLACK_API", "PLANGATE_SLACK_RETRY_SECONDS"];

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), lambda_runtime::Error> {
    plangate_lambda::serve(NEEDS, handle).await
}

async fn handle(clients: &'static Clients, event: Event, now: Timestamp) -> Result<(), FunctionError> {
    let give_up_after = named("PLANGATE_SLACK_RETRY_SECONDS").parse().unwrap_or_default();
    let patience = Patience::of_lambda(give_up_after);
    let (token, api) = (named("PLANGATE_SLACK_BOT_TOKEN"), named("PLANGATE_SLACK_API"));
    let parameters = clients.parameters();
    let board = || SlackBoard::reach(&parameters, &token, &api);
    for change in event.changes() {
        match change {
            Change::Run(run) => {
                let by = hex::encode(plangate_lambda::random().ok_or(FunctionError::Clock)?);
                let (store, objects) = (&clients.store, &clients.objects);
                let about = tracing::info_span!("run", run = %run, workspace = Empty);
                let told = async {
                    let Some(RunRow { run, .. }) = RunRow::find(store, &run).await? else { return Ok(()) };
                    let shown = show::show(store, objects, board, &patience, &run, &by, now).await;
                    // The one is told whatever comes of the other.
                    news::news(store, objects, board, &patience, &run, &by, now).await?;
                    shown
                };
                told.instrument(about).await?;
            }
            Change::Word(action) => {
                tell::tell(&clients.store, board, &patience, &action, now).await?;
            }
        }
    }
    Ok(())
}
