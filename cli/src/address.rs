//! Addresses: where the gate is, how paths are written, and which hosts are this very machine.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use http::Uri;

use crate::error::CliError;

/// The gate's base address, checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Base {
    origin: String,
    prefix: String,
    host: String,
}

/// The addresses of `host`, if it is this machine by its name alone: `localhost`, a name below it (RFC 6761), or a
/// loopback address. The resolver of the C library does not know the names below.
pub(crate) fn loopback(host: &str) -> Option<Vec<IpAddr>> {
    let host = host.strip_suffix('.').unwrap_or(host).to_ascii_lowercase();
    if host == "localhost" || host.ends_with(".localhost") {
        return Some(vec![Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()]);
    }
    let bare = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(&host);
    bare.parse().ok().filter(IpAddr::is_loopback).map(|address| vec![address])
}

/// Whether a request may go to `uri`: over TLS, or to this very machine.
pub(crate) fn protected(uri: &Uri) -> bool {
    match (uri.scheme_str(), uri.host()) {
        (Some("https"), Some(_)) => true,
        (Some("http"), Some(host)) => loopback(host).is_some(),
        _ => false,
    }
}

impl Base {
    /// The address as it is written, without a slash at its end.
    pub(crate) fn url(&self) -> String {
        format!("{}{}", self.origin, self.prefix)
    }

    /// Reads the gate's address.
    ///
    /// # Errors
    /// No absolute address, something besides scheme, host, port and a plain path, or plain HTTP to another machine.
    pub(crate) fn parse(text: &str) -> Result<Self, CliError> {
        let shown = crate::text::inert(text);
        let refuse = |problem: &str| CliError::Usage(format!("the gate's address `{shown}` {problem}"));
        let uri: Uri = text.trim().parse().map_err(|_| refuse("is no address such as `https://abc.example`"))?;
        let (Some(scheme), Some(authority)) = (uri.scheme_str(), uri.authority()) else {
            return Err(refuse("does not begin with `https://`"));
        };
        if authority.as_str().contains('@') {
            // Not repeated: it may be a password.
            return Err(CliError::Usage("the gate's address carries a user name; leave it out".to_owned()));
        }
        if uri.query().is_some() {
            return Err(refuse("has a query; leave it out"));
        }
        if !protected(&uri) {
            return Err(refuse("is not `https://`, and is not on this machine either"));
        }
        let prefix = uri.path().trim_end_matches('/');
        let plain = |c: char| c.is_ascii_alphanumeric() || "/-_.~$".contains(c);
        if !prefix.chars().all(plain) || prefix.contains("//") || prefix.split('/').any(|part| part == "..") {
            return Err(refuse("has a path that is not plain"));
        }
        let host = authority.host().to_ascii_lowercase();
        let default = if scheme == "https" { 443 } else { 80 };
        let port = authority.port_u16().filter(|port| *port != default);
        let origin = port.map_or_else(|| format!("{scheme}://{host}"), |port| format!("{scheme}://{host}:{port}"));
        Ok(Self { origin, prefix: prefix.to_owned(), host })
    }

    /// The address without path, for messages.
    pub(crate) fn origin(&self) -> &str {
        &self.origin
    }

    /// The region that the host's name tells, if it is an API's own name in AWS.
    pub(crate) fn region(&self) -> Option<&str> {
        let mut parts = self.host.split('.').skip_while(|part| *part != "execute-api").skip(1);
        let region = parts.next()?;
        (parts.next() == Some("amazonaws")).then_some(region)
    }

    /// The address of `segments` below the base, with `query`; everything is encoded as RFC 3986 asks, so that the
    /// address, its canonical form and its signature agree.
    ///
    /// # Errors
    /// None in practice: what is encoded is always an address.
    pub(crate) fn join(&self, segments: &[&str], query: &[(&str, &str)]) -> Result<Uri, CliError> {
        let mut text = format!("{}{}", self.origin, self.prefix);
        for segment in segments {
            text.push('/');
            text += &encode(segment);
        }
        for (place, (name, value)) in query.iter().enumerate() {
            text.push(if place == 0 { '?' } else { '&' });
            text += &format!("{}={}", encode(name), encode(value));
        }
        text.parse().map_err(|_| CliError::Usage(format!("`{}` is no address", crate::text::inert(&text))))
    }
}

/// Percent-encodes everything but the unreserved characters.
fn encode(text: &str) -> String {
    text.bytes().fold(String::new(), |mut encoded, byte| {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            encoded.push(char::from(byte));
        } else {
            encoded += &format!("%{byte:02X}");
        }
        encoded
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_http_goes_to_this_machine_alone() {
        for good in [
            "https://abc.execute-api.eu-central-1.amazonaws.com",
            "http://127.0.0.1:4566",
            "http://abc.execute-api.localhost:4566/",
            "http://localhost",
            "http://[::1]:80/prod",
        ] {
            assert!(Base::parse(good).is_ok(), "`{good}`");
        }
        for bad in [
            "",
            "abc.example",
            "ftp://abc.example",
            "http://abc.example",
            "http://localhost.example",
            "http://notlocalhost",
            "https://abc.example/?x=1",
            "https://abc.example/a/../b",
            "https://ana:hunter2@abc.example",
        ] {
            let error = Base::parse(bad).unwrap_err().to_string();
            assert!(!error.contains("hunter2"), "{error}");
        }
    }

    #[test]
    fn an_address_is_written_once_and_in_one_way() {
        let base = Base::parse("https://ABC.example:443/prod/").unwrap();
        let uri = base.join(&["v1", "runs"], &[("workspace", "ws-1"), ("cursor", "a b/+=é")]).unwrap();
        assert_eq!(uri, "https://abc.example/prod/v1/runs?workspace=ws-1&cursor=a%20b%2F%2B%3D%C3%A9");
        assert_eq!(base.join(&["v1", "../x"], &[]).unwrap(), "https://abc.example/prod/v1/..%2Fx");
    }

    #[test]
    fn an_api_s_own_name_tells_its_region() {
        let region = |text: &str| Base::parse(text).unwrap().region().map(str::to_owned);
        assert_eq!(region("https://abc.execute-api.eu-central-1.amazonaws.com").as_deref(), Some("eu-central-1"));
        assert_eq!(region("https://abc.execute-api.cn-north-1.amazonaws.com.cn").as_deref(), Some("cn-north-1"));
        assert_eq!(region("http://abc.execute-api.localhost:4566"), None);
        assert_eq!(region("https://gate.example"), None);
    }

    #[test]
    fn names_below_localhost_are_this_machine() {
        assert!(loopback("abc.execute-api.localhost").is_some_and(|all| all.iter().all(IpAddr::is_loopback)));
        assert!(loopback("[::1]").is_some() && loopback("127.8.8.8").is_some() && loopback("LOCALHOST.").is_some());
        assert!(loopback("10.0.0.1").is_none() && loopback("localhost.example").is_none());
    }
}
