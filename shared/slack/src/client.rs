//! Calls of Slack's Web API: bounded in time and size, and each failure of one of two kinds.

use std::time::Duration;

use serde::Deserialize;
use serde_json::{Value, json};
use ureq::Agent;

use crate::message::Message;
use crate::text::{TEXT_LIMIT, escaped, length, section};

/// The most bytes of an answer.
const ANSWER_LIMIT: u64 = 1024 * 1024;

/// A bot's token. It is shown nowhere.
#[derive(Clone)]
pub struct Token(String);

impl Token {
    /// A token from a parameter's value. None where that cannot be one.
    #[must_use]
    pub fn new(value: &str) -> Option<Self> {
        let value = value.trim();
        let good = !value.is_empty() && value.len() <= 1024 && value.bytes().all(|b| b.is_ascii_graphic());
        good.then(|| Self(value.to_owned()))
    }
}

impl std::fmt::Debug for Token {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Token")
    }
}

/// Why there is no client.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no address of an API: expected `https://HOST/PATH`")]
pub struct ClientError(String);

/// Why a call did nothing, as far as that is known.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CallError {
    /// It may work later: Slack is slow, down, or asked for less. Whether the call was done may be unknown.
    #[error("slack did not do it now: {code}")]
    Later {
        /// The kind of failure, a stable word.
        code: String,
        /// How many seconds Slack wants to be left alone.
        after: Option<u32>,
    },
    /// It will not work until somebody changes something.
    #[error("slack refused: {code}")]
    Never {
        /// Slack's word for it.
        code: String,
    },
}

impl CallError {
    /// The kind of failure, a stable word.
    #[must_use]
    pub fn code(&self) -> &str {
        match self {
            Self::Later { code, .. } | Self::Never { code } => code,
        }
    }

    /// Whether Slack does not take the token: it may have been replaced.
    #[must_use]
    pub fn is_of_the_token(&self) -> bool {
        matches!(self.code(), "invalid_auth" | "not_authed" | "token_revoked" | "token_expired" | "account_inactive")
    }

    fn later(code: impl Into<String>) -> Self {
        Self::Later { code: code.into(), after: None }
    }
}

/// Calls Slack with a bot's token.
#[derive(Debug, Clone)]
pub struct Client {
    agent: Agent,
    api: String,
    token: Token,
}

#[derive(Deserialize)]
struct Answer {
    ok: bool,
    #[serde(default)]
    error: Option<String>,
    #[serde(default)]
    ts: Option<String>,
}

impl Client {
    /// A client of the API at `api`, such as `https://slack.com/api`; each call takes at most `within`.
    ///
    /// # Errors
    /// The address is none, or the token would go to another machine unprotected.
    pub fn new(api: &str, token: Token, within: Duration) -> Result<Self, ClientError> {
        let bad = || ClientError(api.to_owned());
        let uri: http::Uri = api.parse().map_err(|_| bad())?;
        let here = uri.host().is_some_and(|host| host == "127.0.0.1" || host == "localhost");
        if !(uri.scheme_str() == Some("https") || (uri.scheme_str() == Some("http") && here)) || uri.query().is_some() {
            return Err(bad());
        }
        let config = Agent::config_builder()
            .http_status_as_error(false)
            .max_redirects(0)
            .timeout_global(Some(within))
            .user_agent(concat!("plangate/", env!("CARGO_PKG_VERSION")))
            .build();
        Ok(Self { agent: Agent::new_with_config(config), api: api.trim_end_matches('/').to_owned(), token })
    }

    /// Posts a message into a channel; gives what names it there.
    ///
    /// # Errors
    /// Slack did not, or nobody knows whether it did.
    pub async fn post(&self, channel: &str, message: &Message) -> Result<String, CallError> {
        let body = json!({
            "channel": channel, "text": message.text, "blocks": message.blocks, "parse": "none", "link_names": false,
            "unfurl_links": false, "unfurl_media": false
        });
        let answer = self.call("chat.postMessage", &body).await?;
        let named = |ts: &String| (1..=64).contains(&ts.len()) && ts.bytes().all(|b| b.is_ascii_digit() || b == b'.');
        answer.ts.filter(named).ok_or_else(|| CallError::later("no_timestamp"))
    }

    /// Makes a message that was posted be another.
    ///
    /// # Errors
    /// Slack did not, or nobody knows whether it did.
    pub async fn update(&self, channel: &str, posted: &str, message: &Message) -> Result<(), CallError> {
        let body = json!({
            "channel": channel, "ts": posted, "text": message.text, "blocks": message.blocks, "parse": "none",
            "link_names": false
        });
        self.call("chat.update", &body).await.map(drop)
    }

    /// Tells one user something in a channel, which nobody else sees.
    ///
    /// # Errors
    /// Slack did not, or nobody knows whether it did.
    pub async fn tell(&self, channel: &str, user: &str, text: &str) -> Result<(), CallError> {
        let shown: String = if length(text) > TEXT_LIMIT { text.chars().take(1000).collect() } else { text.to_owned() };
        let body = json!({
            "channel": channel, "user": user, "text": escaped(&shown), "blocks": [section(&shown)], "parse": "none",
            "link_names": false
        });
        self.call("chat.postEphemeral", &body).await.map(drop)
    }

    /// Opens a modal for whoever caused `trigger`, within three seconds of it.
    ///
    /// # Errors
    /// Slack did not, or nobody knows whether it did.
    pub async fn open(&self, trigger: &str, view: &Value) -> Result<(), CallError> {
        self.call("views.open", &json!({ "trigger_id": trigger, "view": view })).await.map(drop)
    }

    /// Makes a call, on a thread of its own: the client blocks.
    async fn call(&self, method: &str, body: &Value) -> Result<Answer, CallError> {
        let bytes = serde_json::to_vec(body).map_err(|_| CallError::Never { code: "unwritable".to_owned() })?;
        let (client, address) = (self.clone(), format!("{}/{method}", self.api));
        let called = tokio::task::spawn_blocking(move || client.send(&address, &bytes)).await;
        called.unwrap_or_else(|_| Err(CallError::later("no_answer")))
    }

    fn send(&self, address: &str, bytes: &[u8]) -> Result<Answer, CallError> {
        let mut response = self
            .agent
            .post(address)
            .header("authorization", format!("Bearer {}", self.token.0))
            .header("content-type", "application/json; charset=utf-8")
            .send(bytes)
            .map_err(|error| CallError::later(unanswered(&error)))?;
        let status = response.status().as_u16();
        if status == 429 {
            let after = response.headers().get("retry-after").and_then(|value| value.to_str().ok()?.parse().ok());
            return Err(CallError::Later { code: "ratelimited".to_owned(), after });
        }
        if status != 200 {
            return Err(CallError::later(format!("http_{status}")));
        }
        let answer = response.body_mut().with_config().limit(ANSWER_LIMIT).read_to_vec();
        let answer = answer.map_err(|error| CallError::later(unanswered(&error)))?;
        let answer: Answer = serde_json::from_slice(&answer).map_err(|_| CallError::later("no_answer"))?;
        if answer.ok { Ok(answer) } else { Err(refused(answer.error.as_deref().unwrap_or_default())) }
    }
}

const fn unanswered(error: &ureq::Error) -> &'static str {
    match error {
        ureq::Error::Timeout(_) => "timeout",
        _ => "no_answer",
    }
}

/// What an error of Slack's is. Those of the platform itself pass, and so may those of a token that is being replaced; all
/// others are about what was asked.
fn refused(code: &str) -> CallError {
    const PASSING: &[&str] = &[
        "ratelimited",
        "rate_limited",
        "internal_error",
        "fatal_error",
        "service_unavailable",
        "request_timeout",
        "team_added_to_org",
        "accesslimited",
    ];
    let part = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_';
    let word = (1..=64).contains(&code.len()) && code.bytes().all(part);
    let code = if word { code.to_owned() } else { "unknown".to_owned() };
    let error = CallError::Never { code };
    let passing = PASSING.contains(&error.code()) || error.is_of_the_token();
    if passing { CallError::later(error.code()) } else { error }
}

#[cfg(test)]
#[path = "client_tests.rs"]
mod tests;
