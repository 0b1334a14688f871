//! A request as API Gateway hands it on (HTTP API, payload 2.0), and an answer as it takes it.

use std::collections::BTreeMap;

use plangate_gate::untrusted;
use plangate_record::Refusal;
use plangate_record::access::CallerIdentity;
use plangate_wire::{ApiError, ApiErrorBody, Reason};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// The most bytes that a request's body may have.
const BODY_LIMIT: usize = 256 * 1024;

/// What the gate reads of the event. API Gateway adds what it likes, so other fields are passed over here; a request's
/// own body is strict.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Event {
    raw_path: String,
    #[serde(default)]
    query_string_parameters: BTreeMap<String, String>,
    request_context: RequestContext,
    #[serde(default)]
    body: Option<String>,
    #[serde(default)]
    is_base64_encoded: bool,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct RequestContext {
    #[serde(default)]
    request_id: String,
    http: Http,
    #[serde(default)]
    authorizer: Option<Authorizer>,
}

#[derive(Debug, Deserialize)]
struct Http {
    method: String,
}

#[derive(Debug, Deserialize)]
struct Authorizer {
    #[serde(default)]
    iam: Option<Iam>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Iam {
    user_arn: String,
    #[serde(default)]
    user_id: Option<String>,
}

impl Event {
    pub(crate) fn method(&self) -> &str {
        &self.request_context.http.method
    }

    pub(crate) fn request_id(&self) -> &str {
        &self.request_context.request_id
    }

    /// The parts of the path.
    pub(crate) fn path(&self) -> Vec<&str> {
        self.raw_path.trim_matches('/').split('/').collect()
    }

    fn iam(&self) -> Option<&Iam> {
        self.request_context.authorizer.as_ref()?.iam.as_ref()
    }

    /// The identity that IAM has checked, whatever it is.
    pub(crate) fn identity(&self) -> Option<&str> {
        Some(self.iam()?.user_arn.as_str())
    }

    /// Who asks, by the identity that IAM has checked (`R45`).
    pub(crate) fn caller(&self) -> Option<CallerIdentity> {
        let iam = self.iam()?;
        CallerIdentity::parse(&iam.user_arn, iam.user_id.as_deref())
    }

    /// The query's parameters, if they are all among `known`.
    pub(crate) fn query(&self, known: &[&str]) -> Result<&BTreeMap<String, String>, Refusal> {
        match self.query_string_parameters.keys().find(|name| !known.contains(&name.as_str())) {
            None => Ok(&self.query_string_parameters),
            Some(_) => {
                let message = format!("the query has a parameter besides {}", known.join(", "));
                Err(Refusal::new(Reason::InvalidRequest, message))
            }
        }
    }

    /// The body, strictly.
    pub(crate) fn body<T: DeserializeOwned>(&self) -> Result<T, Refusal> {
        let invalid = |message: String| Refusal::new(Reason::InvalidRequest, message);
        let bytes = plangate_lambda::gateway::body(self.body.as_deref(), self.is_base64_encoded);
        let bytes = bytes.ok_or_else(|| invalid("the body is not what its encoding says".to_owned()))?;
        untrusted::parse("body", &bytes, BODY_LIMIT).map_err(|error| invalid(error.to_string()))
    }
}

/// An answer.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Answer {
    pub(crate) status_code: u16,
    headers: BTreeMap<&'static str, &'static str>,
    pub(crate) body: String,
}

impl Answer {
    /// An answer that holds `value`.
    pub(crate) fn of<T: Serialize>(status_code: u16, value: &T) -> Result<Self, Refusal> {
        let body = serde_json::to_string(value)
            .map_err(|_| Refusal::new(Reason::Internal, "the answer could not be written"))?;
        Ok(Self::json(status_code, body))
    }

    /// A refusal, with what to do next.
    pub(crate) fn refusal(refusal: Refusal) -> Self {
        let Refusal { reason, message, details } = refusal;
        let message = format!("{message}; {}", reason.next_step());
        let error = ApiError { error: ApiErrorBody { reason, message, details } };
        let fallback = || format!("{{\"error\":{{\"reason\":\"{reason}\",\"message\":\"{}\"}}}}", reason.next_step());
        Self::json(reason.status(), serde_json::to_string(&error).unwrap_or_else(|_| fallback()))
    }

    fn json(status_code: u16, body: String) -> Self {
        let headers = BTreeMap::from([
            ("content-type", "application/json"),
            ("cache-control", "no-store"),
            ("x-content-type-options", "nosniff"),
        ]);
        Self { status_code, headers, body }
    }
}
