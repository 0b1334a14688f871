//! Where people are told, and how long that is tried.

use std::future::Future;
use std::time::Duration;

use async_trait::async_trait;
use plangate_lambda::Cached;
use plangate_record::parameters::Parameters;
use plangate_slack::{CallError, Client, Message, Token};

/// A place where people are told.
#[async_trait]
pub(crate) trait Board: Send + Sync {
    /// Puts up a message; gives what names it.
    async fn post(&self, channel: &str, message: &Message) -> Result<String, CallError>;
    /// Changes a message that was put up.
    async fn update(&self, channel: &str, posted: &str, message: &Message) -> Result<(), CallError>;
    /// Tells one person something.
    async fn tell(&self, channel: &str, user: &str, text: &str) -> Result<(), CallError>;
}

/// How long the token is kept.
const KEPT: Duration = Duration::from_secs(300);

/// How long one call of Slack may take.
const WITHIN: Duration = Duration::from_secs(8);

static CLIENT: Cached<Client> = Cached::new();

/// Slack.
pub(crate) struct SlackBoard(Client);

fn later(code: &str) -> CallError {
    CallError::Later { code: code.to_owned(), after: None }
}

impl SlackBoard {
    /// Slack at the address `api`, with the token that the parameter `token` holds now.
    ///
    /// # Errors
    /// There is no token, or no such address: somebody has yet to put it right.
    pub(crate) async fn reach(parameters: &dyn Parameters, token: &str, api: &str) -> Result<Self, CallError> {
        let client = CLIENT.get_or_read(KEPT, async || {
            let read = parameters.secret(token).await.map_err(|error| {
                tracing::error!(%error, "the bot token cannot be read");
                later("token_unreadable")
            })?;
            let token = read.as_deref().and_then(Token::new).ok_or_else(|| later("no_token"))?;
            Client::new(api, token, WITHIN).map_err(|error| {
                tracing::error!(%error, "slack cannot be called");
                later("no_client")
            })
        });
        client.await.map(Self)
    }
}

/// What came of a call. Where the token was not taken, it may have been replaced: it is read anew next time.
fn seen<T>(called: Result<T, CallError>) -> Result<T, CallError> {
    if called.as_ref().is_err_and(CallError::is_of_the_token) {
        CLIENT.forget();
    }
    called
}

#[async_trait]
impl Board for SlackBoard {
    async fn post(&self, channel: &str, message: &Message) -> Result<String, CallError> {
        seen(self.0.post(channel, message).await)
    }

    async fn update(&self, channel: &str, posted: &str, message: &Message) -> Result<(), CallError> {
        seen(self.0.update(channel, posted, message).await)
    }

    async fn tell(&self, channel: &str, user: &str, text: &str) -> Result<(), CallError> {
        seen(self.0.tell(channel, user, text).await)
    }
}

/// How long a call is tried.
#[derive(Debug, Clone)]
pub(crate) struct Patience {
    /// The pauses between attempts of one invocation.
    pauses: Vec<Duration>,
    /// The longest pause that Slack may ask for within one.
    longest: Duration,
    /// After how many seconds of failing a change is given up.
    pub(crate) give_up_after: u32,
}

impl Patience {
    /// Three attempts an invocation: with the time that a call may take they end before the function does.
    pub(crate) fn of_lambda(give_up_after: u32) -> Self {
        let pauses = vec![Duration::from_secs(1), Duration::from_secs(3)];
        Self { pauses, longest: Duration::from_secs(10), give_up_after }
    }

    /// No pause at all.
    #[cfg(test)]
    pub(crate) fn none(give_up_after: u32) -> Self {
        Self { pauses: vec![Duration::ZERO; 2], longest: Duration::ZERO, give_up_after }
    }

    /// Calls until it is done, cannot be done, or there are no more attempts.
    pub(crate) async fn with<T, F>(&self, mut call: impl FnMut() -> F) -> Result<T, CallError>
    where
        F: Future<Output = Result<T, CallError>>,
    {
        for pause in &self.pauses {
            match call().await {
                Err(CallError::Later { after, code }) => {
                    let asked = after.map_or(*pause, |seconds| Duration::from_secs(u64::from(seconds)));
                    tracing::warn!(code, "slack did not do it now; once more");
                    tokio::time::sleep(asked.min(self.longest)).await;
                }
                settled => return settled,
            }
        }
        call().await
    }
}
