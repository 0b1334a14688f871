//! HTTP as a binding needs it: one request, bounded in time and size, to one address, no redirects.

use std::time::Duration;

use http::HeaderValue;
use plangate_gate::review::Cause;
use ureq::Agent;

/// The most bytes of an answer that are read: a verdict of the greatest size, escaped, and what surrounds it.
const ANSWER_LIMIT: u64 = 512 * 1024;

/// A provider's key. It is shown nowhere.
#[derive(Clone, PartialEq, Eq)]
pub struct Key(String);

impl Key {
    /// A key, if it can be one: visible characters, as a header takes them.
    #[must_use]
    pub fn new(text: &str) -> Option<Self> {
        let text = text.trim();
        let fit = (1..=4096).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_graphic());
        fit.then(|| Self(text.to_owned()))
    }

    /// The key as a header's value behind `scheme`; whatever logs headers leaves it out.
    pub(crate) fn header(&self, scheme: &str) -> Result<HeaderValue, Cause> {
        let mut value = HeaderValue::from_str(&format!("{scheme}{}", self.0)).map_err(|_| Cause::KeyUnavailable)?;
        value.set_sensitive(true);
        Ok(value)
    }
}

impl std::fmt::Debug for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Key(hidden)")
    }
}

/// Posts JSON and gives the body of a success. The body of a failure is not read: it is nobody's business.
pub(crate) async fn post(
    url: String,
    headers: Vec<(&'static str, HeaderValue)>,
    body: Vec<u8>,
    within: Duration,
) -> Result<Vec<u8>, Cause> {
    let sent = tokio::task::spawn_blocking(move || send(&url, headers, &body, within)).await;
    sent.unwrap_or(Err(Cause::Unavailable))
}

fn send(url: &str, headers: Vec<(&'static str, HeaderValue)>, body: &[u8], within: Duration) -> Result<Vec<u8>, Cause> {
    let agent: Agent = Agent::config_builder()
        .http_status_as_error(false)
        .max_redirects(0)
        .proxy(None)
        .timeout_global(Some(within))
        .user_agent(concat!("plangate/", env!("CARGO_PKG_VERSION")))
        .build()
        .into();
    let mut request = agent.post(url).header(http::header::CONTENT_TYPE, "application/json");
    for (name, value) in headers {
        request = request.header(name, value);
    }
    let mut response = request.send(body).map_err(|error| failed(&error))?;
    match response.status().as_u16() {
        200 => {}
        429 => return Err(Cause::Throttled),
        408 | 500..=599 => return Err(Cause::Unavailable),
        _ => return Err(Cause::RequestRefused),
    }
    response.body_mut().with_config().limit(ANSWER_LIMIT).read_to_vec().map_err(|error| failed(&error))
}

fn failed(error: &ureq::Error) -> Cause {
    match error {
        ureq::Error::Timeout(_) => Cause::TimedOut,
        ureq::Error::BodyExceedsLimit(_) => Cause::AnswerTooLarge,
        ureq::Error::Io(error) if error.kind() == std::io::ErrorKind::TimedOut => Cause::TimedOut,
        ureq::Error::BadUri(_) | ureq::Error::Http(_) => Cause::RequestRefused,
        _ => Cause::Unavailable,
    }
}

/// `path` behind a base address.
pub(crate) fn join(base: &str, path: &str) -> String {
    format!("{}{path}", base.trim_end_matches('/'))
}
