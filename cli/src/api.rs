//! The API as functions: what is asked, what is answered, when it is asked again.

use std::time::{Duration, SystemTime};

use http::{Method, Uri};
use plangate_gate::digest::Digest;
use plangate_wire::{ApiError, Reason};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::address::Base;
use crate::console::Console;
use crate::error::CliError;
use crate::http_client::{Answer, HttpClient, SendError};
use crate::sign::Signer;
use crate::text::inert;

/// How often a request is sent at most.
const ATTEMPTS: u32 = 6;

/// When a request may be sent again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Repeat {
    /// Always: reading, or a request that carries its own id.
    Always,
    /// Only if it is known that the one before changed nothing.
    IfUnchanged,
}

/// The gate's API, with whom to speak as.
pub(crate) struct Api<'a> {
    base: Base,
    client: HttpClient,
    signer: Signer,
    console: &'a Console,
}

impl<'a> Api<'a> {
    /// The API at `base`, spoken to with the credentials of the chain.
    ///
    /// # Errors
    /// No region or no chain.
    pub(crate) fn new(base: Base, console: &'a Console) -> Result<Self, CliError> {
        let signer = Signer::from_chain(base.region())?;
        Ok(Self { base, client: HttpClient::new(), signer, console })
    }

    /// Reads something.
    ///
    /// # Errors
    /// A refusal, no answer, or one that is not of the type.
    pub(crate) fn get<T: DeserializeOwned>(&self, path: &[&str], query: &[(&str, &str)]) -> Result<T, CliError> {
        self.decode(&self.get_raw(path, query)?)
    }

    /// Reads something whose exact bytes matter.
    ///
    /// # Errors
    /// As [`Api::get`].
    pub(crate) fn get_raw(&self, path: &[&str], query: &[(&str, &str)]) -> Result<Vec<u8>, CliError> {
        self.ask(&Method::GET, &self.base.join(path, query)?, &[], Repeat::Always)
    }

    /// Sends something.
    ///
    /// # Errors
    /// As [`Api::get`]; besides, that the answer was lost and may not be asked for again.
    pub(crate) fn send<T: DeserializeOwned>(
        &self,
        method: &Method,
        path: &[&str],
        body: &impl Serialize,
        repeat: Repeat,
    ) -> Result<T, CliError> {
        let body = serde_json::to_vec(body).map_err(|error| CliError::Machine(error.to_string()))?;
        self.decode(&self.ask(method, &self.base.join(path, &[])?, &body, repeat)?)
    }

    /// Puts `bytes` to an address that the gate gave, with the headers that its signature covers.
    ///
    /// # Errors
    /// The store does not answer or does not take them.
    pub(crate) fn upload(
        &self,
        address: &str,
        headers: &[(String, String)],
        bytes: &[u8],
        tell: &mut dyn FnMut(u64),
    ) -> Result<(), CliError> {
        let uri = given(address)?;
        // These two the client writes itself, from the address and the body.
        let own = |name: &str| name.eq_ignore_ascii_case("host") || name.eq_ignore_ascii_case("content-length");
        let headers: Vec<_> = headers.iter().filter(|(name, _)| !own(name)).cloned().collect();
        let answer = self.persist(&place(&uri), Repeat::Always, || self.client.upload(&uri, &headers, bytes, tell))?;
        match answer.status {
            // 412: the very bundle has come there meanwhile; `admit` holds it against its digest.
            200..300 | 412 => Ok(()),
            status => Err(CliError::Upload { status, message: store_code(&answer.body) }),
        }
    }

    /// Gets `length` bytes from an address that the gate gave, and holds them against `digest`.
    ///
    /// # Errors
    /// The store does not answer, or gives other bytes.
    pub(crate) fn download(&self, address: &str, length: u64, digest: Digest) -> Result<Vec<u8>, CliError> {
        let uri = given(address)?;
        let answer = self.persist(&place(&uri), Repeat::Always, || self.client.download(&uri, length))?;
        if !(200..300).contains(&answer.status) {
            let detail = format!("status {}", answer.status);
            return Err(CliError::NoAnswer { place: place(&uri), detail });
        }
        let found = Digest::of(&answer.body);
        if found == digest {
            Ok(answer.body)
        } else {
            Err(CliError::DigestMismatch { what: "projection", expected: digest, found })
        }
    }

    /// Reads an answer of the API.
    ///
    /// # Errors
    /// It is not of the type.
    pub(crate) fn decode<T: DeserializeOwned>(&self, body: &[u8]) -> Result<T, CliError> {
        // By way of a tree: numbers that keep their digits cannot be read straight into flattened records.
        serde_json::from_slice(body).and_then(serde_json::from_value::<T>).map_err(|error| self.not_the_gate(&error))
    }

    /// Reads an answer whose parts keep their exact bytes.
    ///
    /// # Errors
    /// It is not of the type.
    pub(crate) fn decode_exact<T: DeserializeOwned>(&self, body: &[u8]) -> Result<T, CliError> {
        serde_json::from_slice(body).map_err(|error| self.not_the_gate(&error))
    }

    fn not_the_gate(&self, error: &serde_json::Error) -> CliError {
        let kind = match error.classify() {
            serde_json::error::Category::Data => "a field that is missing or other than expected",
            _ => "not JSON",
        };
        CliError::NotTheGate { place: self.base.origin().to_owned(), detail: kind.to_owned() }
    }

    fn ask(&self, method: &Method, uri: &Uri, body: &[u8], repeat: Repeat) -> Result<Vec<u8>, CliError> {
        const JSON: (&str, &str) = ("content-type", "application/json");
        let once = || -> Result<Result<Answer, SendError>, CliError> {
            let headers: &[_] = if body.is_empty() { &[] } else { &[JSON] };
            let mut signed = self.signer.headers(method, uri, headers, body, SystemTime::now())?;
            signed.extend(headers.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())));
            Ok(self.client.call(method, uri, &signed, body))
        };
        // A signature is good for minutes and made anew for each attempt; what makes it may fail by itself.
        let mut failure = None;
        let answer = self.persist(self.base.origin(), repeat, || match once() {
            Ok(outcome) => outcome,
            Err(error) => {
                failure = Some(error);
                Ok(Answer { status: 0, body: Vec::new() })
            }
        })?;
        if let Some(error) = failure {
            return Err(error);
        }
        if (200..300).contains(&answer.status) { Ok(answer.body) } else { Err(self.refused(&answer)) }
    }

    fn refused(&self, answer: &Answer) -> CliError {
        if let Ok(error) = serde_json::from_slice::<ApiError>(&answer.body) {
            return CliError::Refused(Box::new(error.error));
        }
        let status = answer.status;
        let message = gateway_message(&answer.body);
        let next = match status {
            401 | 403 => {
                "check the credentials, the permission execute-api:Invoke, the region and this machine's clock"
            }
            404 => "check PLANGATE_API",
            429 | 500..600 => "try again",
            _ => "check PLANGATE_API and this program's version",
        };
        CliError::Turned { status, message, next }
    }

    /// Sends until there is an answer that is not "later", as far as that is harmless.
    fn persist(
        &self,
        place: &str,
        repeat: Repeat,
        mut send: impl FnMut() -> Result<Answer, SendError>,
    ) -> Result<Answer, CliError> {
        let mut attempt = 1;
        loop {
            let outcome = send();
            let (later, harmless, detail) = match &outcome {
                Ok(answer) => later(answer),
                Err(error) => (true, !error.reached, error.detail.clone()),
            };
            let again = later && (harmless || repeat == Repeat::Always);
            if !again || attempt == ATTEMPTS {
                return match outcome {
                    Ok(answer) if harmless || !later || repeat == Repeat::Always => Ok(answer),
                    Err(error) if harmless || repeat == Repeat::Always => {
                        Err(CliError::NoAnswer { place: place.to_owned(), detail: error.detail })
                    }
                    _ => Err(CliError::AnswerLost { detail }),
                };
            }
            attempt += 1;
            let dim = |text: &str| self.console.err_paint.tone(crate::console::Tone::Dim, text);
            self.console.note(&dim(&format!("`{place}`: {detail}; trying again ({attempt} of {ATTEMPTS})")));
            std::thread::sleep(pause(attempt));
        }
    }
}

/// Whether an answer means "later", whether it is then known that nothing was changed, and what it says.
fn later(answer: &Answer) -> (bool, bool, String) {
    if let Ok(error) = serde_json::from_slice::<ApiError>(&answer.body) {
        let unavailable = error.error.reason == Reason::Unavailable;
        return (unavailable, unavailable, "the gate is busy".to_owned());
    }
    match answer.status {
        429 => (true, true, "too many requests".to_owned()),
        status @ (502..=504) => (true, false, format!("status {status}")),
        _ => (false, true, String::new()),
    }
}

/// A quarter of a second, and twice as long each time.
fn pause(attempt: u32) -> Duration {
    Duration::from_millis(125 * (1 << attempt.min(6)))
}

fn given(address: &str) -> Result<Uri, CliError> {
    address.parse().map_err(|_| CliError::NotTheGate {
        place: "the gate".to_owned(),
        detail: "an address that is none".to_owned(),
    })
}

/// Scheme and host: the rest of a presigned address is a credential.
fn place(uri: &Uri) -> String {
    format!("{}://{}", uri.scheme_str().unwrap_or_default(), uri.authority().map_or("", |authority| authority.as_str()))
}

/// What API Gateway says in its own refusals, made inert.
fn gateway_message(body: &[u8]) -> String {
    let value: serde_json::Value = serde_json::from_slice(body).unwrap_or_default();
    let message = value.get("message").or_else(|| value.get("Message")).and_then(|message| message.as_str());
    inert(&message.unwrap_or_default().chars().take(200).collect::<String>())
}

/// The code in a refusal of S3, which may quote credentials elsewhere.
fn store_code(body: &[u8]) -> String {
    let text = String::from_utf8_lossy(body);
    let code = text.split("<Code>").nth(1).and_then(|rest| rest.split("</Code>").next()).unwrap_or_default();
    code.chars().filter(char::is_ascii_alphanumeric).take(60).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_presigned_address_is_told_without_its_signature() {
        let uri = given("https://bucket.s3.amazonaws.com/key?X-Amz-Signature=abc").unwrap();
        assert_eq!(place(&uri), "https://bucket.s3.amazonaws.com");
    }

    #[test]
    fn refusals_from_elsewhere_are_told_inert_and_short() {
        assert_eq!(gateway_message(b"{\"message\":\"Forbid\\u001bden\"}"), "Forbid\\u{1b}den");
        assert_eq!(gateway_message(b"<html>"), "");
        assert_eq!(
            store_code(b"<Error><Code>AccessDenied</Code><AWSAccessKeyId>AKIA</AWSAccessKeyId>"),
            "AccessDenied"
        );
    }

    #[test]
    fn the_pauses_grow_and_end() {
        let all: Duration = (2..=ATTEMPTS).map(pause).sum();
        assert!(all > Duration::from_secs(5) && all < Duration::from_secs(30), "{all:?}");
    }
}
