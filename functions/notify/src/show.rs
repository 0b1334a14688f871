//! A run's message: put up when the run waits for a decision, and kept in step with its record from then on.

use std::future::Future;

use plangate_gate::digest::Digest;
use plangate_gate::lifecycle::Status;
use plangate_gate::run::Run;
use plangate_gate::time::Timestamp;
use plangate_record::notices::{Held, Topic};
use plangate_record::objects::Objects;
use plangate_record::rows::RunRow;
use plangate_record::store::Store;
use plangate_record::{Error, documents, notices};
use plangate_slack::message::PROJECTION_LIMIT;
use plangate_slack::{CallError, Message, Subject};

use crate::board::{Board, Patience};

/// How long a message is held, in seconds: longer than this function lives.
pub(crate) const HOLD_SECONDS: u32 = 75;

/// Makes a run's message show how the run stands; `run` is how it was read. `by` is another for each call.
///
/// # Errors
/// AWS or Slack does not answer: the stream tells of the change again. What fails for longer than it is tried is recorded
/// in the run's chain, and is no error any more.
pub(crate) async fn show<B, F>(
    store: &dyn Store,
    objects: &dyn Objects,
    board: impl FnOnce() -> F,
    patience: &Patience,
    run: &Run,
    by: &str,
    now: Timestamp,
) -> Result<(), Error>
where
    B: Board,
    F: Future<Output = Result<B, CallError>>,
{
    let known = notices::find(store, &run.id, Topic::Run).await?;
    if known.is_none() && run.status != Status::AwaitingApproval {
        return Ok(());
    }
    let Some(workspace) = documents::find_workspace(store, &run.workspace).await? else { return Ok(()) };
    let channel = known.map(|notice| notice.channel).or(workspace.slack.map(|slack| slack.channel));
    let Some(channel) = channel else { return Ok(()) };

    let held = notices::hold(store, &run.id, Topic::Run, &channel, by, HOLD_SECONDS, now).await?;
    // Read once it is held: nobody shows an older state after this.
    let Some(RunRow { run, .. }) = RunRow::find(store, &run.id).await? else { return Ok(()) };
    let posted = held.notice.posted.clone();
    let projection = projection(objects, &run).await?;
    let message = Message::of(&Subject { run: &run, workspace: &workspace.name, projection: projection.as_deref() });
    let digest = message.digest();
    let decided_unseen = posted.is_none() && run.status != Status::AwaitingApproval;
    if decided_unseen || held.notice.shown == Some(digest) {
        return notices::leave(store, held, None, now).await;
    }
    let channel = held.notice.channel.clone();
    let called = match (board().await, &posted) {
        (Err(error), _) => Err(error),
        (Ok(board), Some(posted)) => {
            let update = || board.update(&channel, posted, &message);
            patience.with(update).await.map(|()| posted.clone())
        }
        (Ok(board), None) => patience.with(|| board.post(&channel, &message)).await,
    };
    left(store, held, called, digest, patience, now).await
}

/// Leaves a message after it was put up, or could not be: `digest` is what was to be shown.
///
/// # Errors
/// AWS does not answer, or Slack does not and is to be asked again.
pub(crate) async fn left(
    store: &dyn Store,
    mut held: Held,
    called: Result<String, CallError>,
    digest: Digest,
    patience: &Patience,
    now: Timestamp,
) -> Result<(), Error> {
    match called {
        Ok(posted) => {
            held.notice.posted = Some(posted);
            held.notice.shown = Some(digest);
            held.notice.failing_since = None;
            notices::leave(store, held, None, now).await
        }
        Err(error) => {
            tracing::warn!(run = %held.run(), %error, "people were not told");
            let since = *held.notice.failing_since.get_or_insert(now);
            let passing = matches!(error, CallError::Later { .. });
            if passing && since.plus_seconds(patience.give_up_after) > now {
                notices::leave(store, held, None, now).await?;
                // The stream tells of it again.
                return Err(Error::Contended);
            }
            // Given up on what the run is now; its next state is another attempt.
            held.notice.shown = Some(digest);
            held.notice.failing_since = None;
            notices::leave(store, held, Some(error.code()), now).await
        }
    }
}

/// The projection's exact bytes, if they could be shown at all.
pub(crate) async fn projection(objects: &dyn Objects, run: &Run) -> Result<Option<Vec<u8>>, Error> {
    let Some(stored) = run.projection.as_ref().map(|projection| &projection.object) else { return Ok(None) };
    if stored.bytes > PROJECTION_LIMIT {
        return Ok(None);
    }
    let found = objects.get(&stored.key, stored.version_id.as_deref(), PROJECTION_LIMIT).await?;
    Ok(found.map(|object| object.bytes))
}
