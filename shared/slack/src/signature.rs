//! Whether a request is Slack's (`R49`): HMAC-SHA256 over its raw bytes and its time, in scheme `v0`.

use hmac::{Hmac, KeyInit as _, Mac as _};
use plangate_gate::time::Timestamp;
use sha2::Sha256;

/// How far a request's time may be from ours, in seconds, either way.
pub const WINDOW_SECONDS: u32 = 300;

/// How long a MAC must be remembered after it was seen, in seconds: the whole window, both ways, and then some.
pub const REMEMBERED_SECONDS: u32 = 3600;

/// The most bytes that a request's body may have.
pub const BODY_LIMIT: usize = 256 * 1024;

/// A signing secret. It is shown nowhere.
#[derive(Clone)]
pub struct Secret(String);

impl Secret {
    /// A signing secret from a parameter's value. None where the value is empty: no secret at all must check nothing.
    #[must_use]
    pub fn new(value: &str) -> Option<Self> {
        let value = value.trim();
        (!value.is_empty()).then(|| Self(value.to_owned()))
    }
}

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Secret")
    }
}

/// The secrets that may have signed a request: the present one, and while it is being replaced the one before.
#[derive(Debug, Clone)]
pub struct Secrets {
    /// The present one.
    pub current: Secret,
    /// The one before it.
    pub previous: Option<Secret>,
}

/// A request as it came in: nothing of it is believed yet.
#[derive(Debug, Clone, Copy)]
pub struct Signed<'a> {
    /// The header `X-Slack-Request-Timestamp`.
    pub timestamp: Option<&'a str>,
    /// The header `X-Slack-Signature`.
    pub signature: Option<&'a str>,
    /// The raw bytes of the body.
    pub body: &'a [u8],
}

/// Why a request is not taken for Slack's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SignatureError {
    /// The body is larger than any request of Slack's that is meant for us.
    #[error("the body is larger than {BODY_LIMIT} bytes")]
    TooLarge,
    /// There is no timestamp, or it is no number of seconds.
    #[error("the timestamp is missing or is none")]
    NoTimestamp,
    /// There is no signature, or it is none of scheme `v0`.
    #[error("the signature is missing or is not of scheme v0")]
    NoSignature,
    /// The request is too old, or from the future.
    #[error("the timestamp is more than {WINDOW_SECONDS} seconds away")]
    OutsideWindow,
    /// The signature is not one by a secret of ours over these bytes and this time.
    #[error("the signature is not by our signing secret over these bytes")]
    Mismatch,
}

/// A request that Slack has signed lately. Only [`Signed::check`] makes one.
#[derive(Debug, Clone, Copy)]
pub struct Verified<'a> {
    body: &'a [u8],
    mac: [u8; 32],
}

impl<'a> Verified<'a> {
    /// The bytes that were signed.
    #[must_use]
    pub const fn body(&self) -> &'a [u8] {
        self.body
    }

    /// The signature's bytes, by which the request is known if it comes again.
    #[must_use]
    pub const fn mac(&self) -> &[u8; 32] {
        &self.mac
    }
}

impl<'a> Signed<'a> {
    /// Checks the signature at the moment `now`, in constant time for each secret.
    ///
    /// # Errors
    /// Why the request is not taken for Slack's. The sender is not to be told which.
    pub fn check(self, secrets: &Secrets, now: Timestamp) -> Result<Verified<'a>, SignatureError> {
        if self.body.len() > BODY_LIMIT {
            return Err(SignatureError::TooLarge);
        }
        let timestamp = self.timestamp.ok_or(SignatureError::NoTimestamp)?;
        let at = seconds(timestamp).ok_or(SignatureError::NoTimestamp)?;
        let mac = self.signature.and_then(mac_of).ok_or(SignatureError::NoSignature)?;
        if at.abs_diff(now.unix_seconds()) > u64::from(WINDOW_SECONDS) {
            return Err(SignatureError::OutsideWindow);
        }
        let by = |secret: &Secret| {
            // An HMAC takes a key of any length.
            let Ok(mut hmac) = Hmac::<Sha256>::new_from_slice(secret.0.as_bytes()) else { return false };
            hmac.update(b"v0:");
            hmac.update(timestamp.as_bytes());
            hmac.update(b":");
            hmac.update(self.body);
            hmac.verify_slice(&mac).is_ok()
        };
        if by(&secrets.current) || secrets.previous.as_ref().is_some_and(by) {
            Ok(Verified { body: self.body, mac })
        } else {
            Err(SignatureError::Mismatch)
        }
    }
}

/// Seconds since 1970 as Slack writes them: digits alone.
fn seconds(text: &str) -> Option<i64> {
    let digits = (1..=12).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_digit());
    if digits { text.parse().ok() } else { None }
}

/// The bytes of a signature `v0=` and 64 lower-case hex digits.
fn mac_of(text: &str) -> Option<[u8; 32]> {
    let digits = text.strip_prefix("v0=")?;
    if digits.len() != 64 || !digits.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b)) {
        return None;
    }
    hex::decode(digits).ok()?.try_into().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    // The example of Slack's documentation, "Verifying requests from Slack".
    const SECRET: &str = "8f742231b10e8888abcd99yyyzzz85a5";
    const AT: &str = "1531420618";
    const SIGNATURE: &str = "v0=a2114d57b48eac39b9ad189dd8316235a7b4a8d21a10bd27519666489c69b503";
    const BODY: &str = "token=xyzz0WbapA4vBCDEFasx0q6G&team_id=T1DC2JH3J&team_domain=testteamnow&channel_id=G8PSS9T3V\
        &channel_name=foobar&user_id=U2CERLKJA&user_name=roadrunner&command=%2Fwebhook-collect&text=\
        &response_url=https%3A%2F%2Fhooks.slack.com%2Fcommands%2FT1DC2JH3J%2F397700885554%2F96rGlfmibIGlgcZRskXaIFfN\
        &trigger_id=398738663015.47445629121.803a0bc887a14d10d2c447fce8b6703c";

    fn secrets(current: &str, previous: Option<&str>) -> Secrets {
        Secrets { current: Secret::new(current).unwrap(), previous: previous.and_then(Secret::new) }
    }

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_unix_seconds(seconds).unwrap()
    }

    fn check(change: impl Fn(&mut Signed<'static>), now: i64) -> Result<[u8; 32], SignatureError> {
        let mut signed = Signed { timestamp: Some(AT), signature: Some(SIGNATURE), body: BODY.as_bytes() };
        change(&mut signed);
        signed.check(&secrets(SECRET, None), at(now)).map(|verified| *verified.mac())
    }

    #[test]
    fn slacks_own_example_is_slacks() {
        let mac = check(|_| {}, 1_531_420_618).unwrap();
        assert_eq!(format!("v0={}", hex::encode(mac)), SIGNATURE);
    }

    #[test]
    fn a_request_is_taken_for_five_minutes_either_way_and_no_second_longer() {
        for (now, good) in [(-301, false), (-300, true), (300, true), (301, false)] {
            let found = check(|_| {}, 1_531_420_618 + now);
            assert_eq!(found.err(), (!good).then_some(SignatureError::OutsideWindow), "{now}");
        }
    }

    #[test]
    fn whatever_is_not_exactly_what_was_signed_is_refused() {
        let now = 1_531_420_618;
        let refused = |change: fn(&mut Signed<'static>)| check(change, now).unwrap_err();
        assert_eq!(refused(|s| s.signature = None), SignatureError::NoSignature);
        assert_eq!(refused(|s| s.signature = Some("")), SignatureError::NoSignature);
        assert_eq!(refused(|s| s.timestamp = None), SignatureError::NoTimestamp);
        assert_eq!(refused(|s| s.timestamp = Some("+531420618")), SignatureError::NoTimestamp);
        assert_eq!(refused(|s| s.timestamp = Some("1531420618 ")), SignatureError::NoTimestamp);
        assert_eq!(refused(|s| s.timestamp = Some("1531420617")), SignatureError::Mismatch);
        assert_eq!(refused(|s| s.timestamp = Some("01531420618")), SignatureError::Mismatch);
        assert_eq!(refused(|s| s.body = b""), SignatureError::Mismatch);
        // The same form, written in another way.
        assert_eq!(refused(|s| s.body = BODY.replace("%2F", "%2f").leak().as_bytes()), SignatureError::Mismatch);
        assert_eq!(refused(|s| s.signature = Some(SIGNATURE.to_uppercase().leak())), SignatureError::NoSignature);
        assert_eq!(
            refused(|s| s.signature = Some(SIGNATURE.replace("v0=", "v1=").leak())),
            SignatureError::NoSignature
        );
        assert_eq!(refused(|s| s.signature = Some(&SIGNATURE[..66])), SignatureError::NoSignature);
        assert_eq!(refused(|s| s.body = vec![b'a'; BODY_LIMIT + 1].leak()), SignatureError::TooLarge);
        let last = if SIGNATURE.ends_with('3') { "4" } else { "3" };
        let other = format!("{}{last}", &SIGNATURE[..66]);
        assert_eq!(check(|s| s.signature = Some(other.clone().leak()), now), Err(SignatureError::Mismatch));
    }

    #[test]
    fn while_a_secret_is_replaced_both_are_good_and_no_other() {
        let signed = Signed { timestamp: Some(AT), signature: Some(SIGNATURE), body: BODY.as_bytes() };
        let now = at(1_531_420_618);
        assert!(signed.check(&secrets("another", Some(SECRET)), now).is_ok());
        assert!(signed.check(&secrets(SECRET, Some("another")), now).is_ok());
        let found = signed.check(&secrets("another", Some("a third")), now);
        assert_eq!(found.unwrap_err(), SignatureError::Mismatch);
    }

    #[test]
    fn no_secret_signs_nothing() {
        assert!(Secret::new("").is_none() && Secret::new(" \n").is_none());
        assert_eq!(format!("{:?}", Secret::new(SECRET).unwrap()), "Secret");
    }
}
