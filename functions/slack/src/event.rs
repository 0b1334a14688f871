//! A request as API Gateway hands it on (HTTP API, payload 2.0), and an answer as it takes it.

use std::borrow::Cow;
use std::collections::BTreeMap;

use plangate_slack::Signed;
use serde::{Deserialize, Serialize};

/// What is read of the event. API Gateway adds what it likes.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Event {
    #[serde(default)]
    headers: BTreeMap<String, String>,
    request_context: RequestContext,
    #[serde(default)]
    body: Option<String>,
    #[serde(default)]
    is_base64_encoded: bool,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct RequestContext {
    request_id: String,
}

impl Event {
    /// API Gateway's own name for the request.
    pub(crate) fn request_id(&self) -> &str {
        &self.request_context.request_id
    }

    /// The raw bytes of the body; none where it is not what its encoding says.
    pub(crate) fn body(&self) -> Option<Cow<'_, [u8]>> {
        plangate_lambda::gateway::body(self.body.as_deref(), self.is_base64_encoded)
    }

    /// The request, with the bytes of its body, as it was signed. API Gateway writes the names of headers in lower case,
    /// and joins one that came twice with a comma.
    pub(crate) fn signed<'a>(&'a self, body: &'a [u8]) -> Signed<'a> {
        let header = |name: &str| self.headers.get(name).map(String::as_str);
        Signed { timestamp: header("x-slack-request-timestamp"), signature: header("x-slack-signature"), body }
    }
}

/// An answer.
#[derive(Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Answer {
    pub(crate) status_code: u16,
    headers: BTreeMap<&'static str, &'static str>,
    pub(crate) body: String,
}

impl Answer {
    /// An answer without a body: 200 takes note, all else tells whoever asks as little as can be.
    pub(crate) fn status(status_code: u16) -> Self {
        Self { status_code, headers: BTreeMap::from([("cache-control", "no-store")]), body: String::new() }
    }

    /// What Slack is to do with the modal that was submitted.
    pub(crate) fn modal(value: &serde_json::Value) -> Self {
        let headers = BTreeMap::from([("cache-control", "no-store"), ("content-type", "application/json")]);
        Self { status_code: 200, headers, body: value.to_string() }
    }
}
