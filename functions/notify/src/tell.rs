//! A word to one person, who alone sees it.

use std::future::Future;

use plangate_gate::time::Timestamp;
use plangate_record::store::Store;
use plangate_record::{Error, callbacks, notices};
use plangate_slack::CallError;

use crate::board::{Board, Patience};

/// Tells what came of `action` to whoever acted. Tried for as long as this invocation lasts: later it would be about
/// something that nobody remembers.
///
/// # Errors
/// AWS does not answer.
pub(crate) async fn tell<B, F>(
    store: &dyn Store,
    board: impl FnOnce() -> F,
    patience: &Patience,
    action: &str,
    now: Timestamp,
) -> Result<(), Error>
where
    B: Board,
    F: Future<Output = Result<B, CallError>>,
{
    let Some(word) = callbacks::word(store, action).await? else { return Ok(()) };
    let told = match board().await {
        Ok(board) => patience.with(|| board.tell(&word.channel, &word.user, &word.text)).await,
        Err(error) => Err(error),
    };
    if let Err(error) = told {
        tracing::warn!(run = %word.run, %error, "a person was not told");
        notices::untold(store, &word.run, error.code(), now).await?;
    }
    Ok(())
}
