//! Opening a form in Slack: the one call that cannot wait, since what allows it is good for three seconds.

use std::time::Duration;

use async_trait::async_trait;
use plangate_lambda::{Cached, named};
use plangate_record::parameters::Parameters;
use plangate_slack::{CallError, Client, Token};
use serde_json::Value;

/// How long the token is kept.
const KEPT: Duration = Duration::from_secs(300);

/// How long Slack may take to open a form.
const WITHIN: Duration = Duration::from_millis(1_500);

/// Where forms are opened.
#[async_trait]
pub(crate) trait Forms: Send + Sync {
    /// Opens a form for whoever caused `trigger`.
    async fn open(&self, trigger: &str, view: Value) -> Result<(), CallError>;
}

/// Slack, with what is kept of it.
#[derive(Debug)]
pub(crate) struct SlackForms(Cached<Client>);

/// Slack, and where its token is read.
pub(crate) struct Reached<'a> {
    kept: &'a Cached<Client>,
    parameters: &'a dyn Parameters,
}

impl SlackForms {
    pub(crate) const fn new() -> Self {
        Self(Cached::new())
    }

    pub(crate) const fn with<'a>(&'a self, parameters: &'a dyn Parameters) -> Reached<'a> {
        Reached { kept: &self.0, parameters }
    }
}

impl Reached<'_> {
    async fn client(&self) -> Result<Client, String> {
        let client = self.kept.get_or_read(KEPT, async || {
            let token = self.parameters.secret(&named("PLANGATE_SLACK_BOT_TOKEN")).await.map_err(|e| e.to_string())?;
            let token = token.as_deref().and_then(Token::new).ok_or("there is no bot token")?;
            Client::new(&named("PLANGATE_SLACK_API"), token, WITHIN).map_err(|error| error.to_string())
        });
        client.await
    }
}

#[async_trait]
impl Forms for Reached<'_> {
    async fn open(&self, trigger: &str, view: Value) -> Result<(), CallError> {
        let client = self.client().await.map_err(|error| {
            tracing::error!(error, "slack cannot be called");
            CallError::Never { code: "no_client".to_owned() }
        })?;
        let called = client.open(trigger, &view).await;
        if called.as_ref().is_err_and(CallError::is_of_the_token) {
            self.kept.forget();
        }
        called
    }
}
