//! What a run has noticed on its way, told once: that the state was changed outside of the gate, and what is new of drift.

use std::future::Future;

use plangate_gate::lifecycle::Status;
use plangate_gate::run::Run;
use plangate_gate::time::Timestamp;
use plangate_record::notices::Topic;
use plangate_record::objects::Objects;
use plangate_record::store::Store;
use plangate_record::{Error, documents, notices};
use plangate_slack::{CallError, Message, Subject};

use crate::board::{Board, Patience};
use crate::show::{HOLD_SECONDS, left, projection};

/// Tells in the workspace's channel what a run has noticed and nobody was told yet. `by` is another for each call.
///
/// # Errors
/// AWS or Slack does not answer: the stream tells of the run again.
pub(crate) async fn news<B, F>(
    store: &dyn Store,
    objects: &dyn Objects,
    board: impl Fn() -> F,
    patience: &Patience,
    run: &Run,
    by: &str,
    now: Timestamp,
) -> Result<(), Error>
where
    B: Board,
    F: Future<Output = Result<B, CallError>>,
{
    let drift = run.drift.as_ref().is_some_and(plangate_gate::drift::DriftWord::is_news);
    if run.outside().is_none() && !drift {
        return Ok(());
    }
    let Some(workspace) = documents::find_workspace(store, &run.workspace).await? else { return Ok(()) };
    let Some(slack) = workspace.slack else { return Ok(()) };
    let shown = if run.status == Status::Planned && drift { projection(objects, run).await? } else { None };
    let subject = Subject { run, workspace: &workspace.name, projection: shown.as_deref() };
    let messages = [(Topic::Outside, Message::outside(&subject)), (Topic::Drift, Message::drift(&subject))];
    for (topic, message) in messages {
        let Some(message) = message else { continue };
        if notices::find(store, &run.id, topic).await?.is_some_and(|notice| notice.shown.is_some()) {
            continue;
        }
        let held = notices::hold(store, &run.id, topic, &slack.channel, by, HOLD_SECONDS, now).await?;
        if held.notice.shown.is_some() {
            notices::leave(store, held, None, now).await?;
            continue;
        }
        let channel = held.notice.channel.clone();
        let called = match board().await {
            Err(error) => Err(error),
            Ok(board) => patience.with(|| board.post(&channel, &message)).await,
        };
        left(store, held, called, message.digest(), patience, now).await?;
    }
    Ok(())
}
