//! HTTP as this program needs it: bounded in time and size, no redirects, loopback names resolved here.

use std::io::Read;
use std::net::SocketAddr;
use std::time::Duration;

use http::{Method, Request, Uri};
use ureq::unversioned::resolver::{DefaultResolver, ResolvedSocketAddrs, Resolver};
use ureq::unversioned::transport::{DefaultConnector, NextTimeout};
use ureq::{Agent, Error, Proxy, SendBody, Timeout};

use crate::address;

/// The most bytes of one answer of the API: a projection of five million bytes and what surrounds it.
pub(crate) const ANSWER_LIMIT: u64 = 16 * 1024 * 1024;

/// How long one question to the API may take, from resolving the name to the last byte.
const CALL: Duration = Duration::from_secs(60);

/// Below this many bytes a second a transfer is given up.
const SLOWEST: u64 = 10_000;

/// An answer.
#[derive(Debug)]
pub(crate) struct Answer {
    /// The HTTP status.
    pub(crate) status: u16,
    /// The body.
    pub(crate) body: Vec<u8>,
}

/// No answer.
#[derive(Debug)]
pub(crate) struct SendError {
    /// Whether the request may have reached the other side.
    pub(crate) reached: bool,
    /// How it failed, in one line.
    pub(crate) detail: String,
}

/// What sends requests.
#[derive(Debug)]
pub(crate) struct HttpClient {
    agent: Agent,
}

/// Names below `localhost` are this machine (RFC 6761); all others are asked for as ever.
#[derive(Debug, Default)]
struct LoopbackResolver(DefaultResolver);

impl Resolver for LoopbackResolver {
    fn resolve(
        &self,
        uri: &Uri,
        config: &ureq::config::Config,
        timeout: NextTimeout,
    ) -> Result<ResolvedSocketAddrs, Error> {
        let Some(addresses) = uri.host().and_then(address::loopback) else {
            // A name that cannot be looked up is a request that was not sent.
            return self.0.resolve(uri, config, timeout).map_err(|error| match error {
                Error::Io(_) => Error::HostNotFound,
                other => other,
            });
        };
        let port = uri.port_u16().unwrap_or(if uri.scheme_str() == Some("https") { 443 } else { 80 });
        let mut resolved = self.empty();
        for ip in addresses {
            resolved.push(SocketAddr::new(ip, port));
        }
        Ok(resolved)
    }
}

/// Gives a body piece by piece and tells how far it is.
struct Progress<'a> {
    rest: &'a [u8],
    sent: u64,
    tell: &'a mut dyn FnMut(u64),
}

impl Read for Progress<'_> {
    fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
        let read = self.rest.read(into)?;
        self.sent += read as u64;
        (self.tell)(self.sent);
        Ok(read)
    }
}

impl HttpClient {
    /// A client with the machine's proxy settings.
    pub(crate) fn new() -> Self {
        let config = Agent::config_builder()
            .http_status_as_error(false)
            .max_redirects(0)
            .proxy(Proxy::try_from_env())
            .timeout_resolve(Some(Duration::from_secs(10)))
            .timeout_connect(Some(Duration::from_secs(10)))
            .user_agent(concat!("plangate/", env!("CARGO_PKG_VERSION")))
            .build();
        Self { agent: Agent::with_parts(config, DefaultConnector::default(), LoopbackResolver::default()) }
    }

    /// Asks once, with a small body, and reads at most [`ANSWER_LIMIT`] bytes.
    ///
    /// # Errors
    /// No answer in time, or one that is too large.
    pub(crate) fn call(
        &self,
        method: &Method,
        uri: &Uri,
        headers: &[(String, String)],
        body: &[u8],
    ) -> Result<Answer, SendError> {
        if body.is_empty() && method == Method::GET {
            return self.send(method, uri, headers, None, SendBody::none(), CALL, ANSWER_LIMIT);
        }
        let mut reader = body;
        let sent = SendBody::from_reader(&mut reader);
        self.send(method, uri, headers, Some(body.len() as u64), sent, CALL, ANSWER_LIMIT)
    }

    /// Puts `bytes` to `uri`, telling how many have gone.
    ///
    /// # Errors
    /// No answer in time.
    pub(crate) fn upload(
        &self,
        uri: &Uri,
        headers: &[(String, String)],
        bytes: &[u8],
        tell: &mut dyn FnMut(u64),
    ) -> Result<Answer, SendError> {
        let length = bytes.len() as u64;
        let mut reader = Progress { rest: bytes, sent: 0, tell };
        let body = SendBody::from_reader(&mut reader);
        self.send(&Method::PUT, uri, headers, Some(length), body, CALL + slow(length), ANSWER_LIMIT)
    }

    /// Gets exactly `length` bytes, or an error's body.
    ///
    /// # Errors
    /// No answer in time, or one that is larger.
    pub(crate) fn download(&self, uri: &Uri, length: u64) -> Result<Answer, SendError> {
        self.send(
            &Method::GET,
            uri,
            &[],
            None,
            SendBody::none(),
            CALL + slow(length),
            length.saturating_add(1).max(64 * 1024),
        )
    }

    #[expect(clippy::too_many_arguments, reason = "one place where a request is put together; all callers are above")]
    fn send(
        &self,
        method: &Method,
        uri: &Uri,
        headers: &[(String, String)],
        length: Option<u64>,
        body: SendBody<'_>,
        within: Duration,
        limit: u64,
    ) -> Result<Answer, SendError> {
        if !address::protected(uri) {
            return Err(SendError { reached: false, detail: "the address is not protected by TLS".to_owned() });
        }
        let mut request = Request::builder().method(method).uri(uri);
        for (name, value) in headers {
            request = request.header(name, value);
        }
        if let Some(length) = length {
            // Stores refuse a body of unknown length.
            request = request.header(http::header::CONTENT_LENGTH, length);
        }
        let request = request.body(body).map_err(|error| SendError { reached: false, detail: error.to_string() })?;
        let mut configured = self.agent.configure_request(request).timeout_global(Some(within));
        if uri.host().and_then(address::loopback).is_some() {
            configured = configured.proxy(None);
        }
        let mut response = self.agent.run(configured.build()).map_err(failed)?;
        let status = response.status().as_u16();
        let body = response.body_mut().with_config().limit(limit).read_to_vec().map_err(|error| {
            // Whatever was asked has been answered; only the answer is lost.
            SendError { reached: true, ..failed(error) }
        })?;
        Ok(Answer { status, body })
    }
}

fn slow(bytes: u64) -> Duration {
    Duration::from_secs(bytes / SLOWEST)
}

fn failed(error: Error) -> SendError {
    use std::io::ErrorKind;
    let unsent = match &error {
        Error::HostNotFound | Error::ConnectionFailed | Error::ConnectProxyFailed(_) | Error::Tls(_) => true,
        Error::Rustls(_) | Error::BadUri(_) | Error::TlsRequired | Error::InvalidProxyUrl => true,
        Error::Timeout(at) => matches!(at, Timeout::Resolve | Timeout::Connect),
        Error::Io(error) => matches!(
            error.kind(),
            ErrorKind::ConnectionRefused | ErrorKind::NetworkUnreachable | ErrorKind::HostUnreachable
        ),
        _ => false,
    };
    let detail = match &error {
        Error::HostNotFound => "the host is not found".to_owned(),
        Error::Timeout(_) => "no answer in time".to_owned(),
        Error::Io(error) if error.kind() == ErrorKind::ConnectionRefused => "the connection is refused".to_owned(),
        Error::Io(error) if matches!(error.kind(), ErrorKind::UnexpectedEof | ErrorKind::ConnectionReset) => {
            "the connection was closed".to_owned()
        }
        Error::Protocol(_) => "the connection was closed in the middle of an answer".to_owned(),
        // Not repeated: a presigned address is a credential.
        Error::BadUri(_) => "the address is none".to_owned(),
        Error::BodyExceedsLimit(limit) => format!("the answer has more than {limit} bytes"),
        other => other.to_string(),
    };
    SendError { reached: !unsent, detail: crate::text::inert(&detail) }
}
