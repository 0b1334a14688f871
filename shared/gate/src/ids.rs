//! Identifiers: of runs, of workspaces, of persons. Each is checked where it is read and cannot be made otherwise.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::time::Timestamp;

const CROCKFORD: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";

/// A text that is not an identifier of the kind that was asked for.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("not a {kind}: expected {expected}")]
pub struct IdError {
    kind: &'static str,
    expected: &'static str,
}

macro_rules! id {
    ($(#[$doc:meta])* $name:ident, $kind:literal, $expected:literal, $check:expr) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(String);

        impl $name {
            /// The identifier as text.
            #[must_use]
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl FromStr for $name {
            type Err = IdError;

            fn from_str(text: &str) -> Result<Self, IdError> {
                let check: fn(&str) -> bool = $check;
                if check(text) { Ok(Self(text.to_owned())) } else { Err(IdError { kind: $kind, expected: $expected }) }
            }
        }

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(&self.0)
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
            }
        }
    };
}

fn crockford(text: &str, length: usize) -> bool {
    text.len() == length && text.bytes().all(|b| CROCKFORD.contains(&b))
}

id!(
    /// A run's identifier: `run-` and 26 characters, the first ten of which tell the time, so that runs sort by age.
    RunId, "run id", "`run-` and 26 characters of 0-9 a-z without i, l, o, u",
    |text| text.strip_prefix("run-").is_some_and(|rest| crockford(rest, 26))
);

id!(
    /// A workspace's identifier, stable and not made from its name (`R1`): `ws-` and 16 characters.
    WorkspaceId, "workspace id", "`ws-` and 16 characters of 0-9 a-z without i, l, o, u",
    |text| text.strip_prefix("ws-").is_some_and(|rest| crockford(rest, 16))
);

id!(
    /// The name by which control-plane configuration knows a person or a bot (`R45`, `R50`).
    Person, "person", "1 to 64 characters of a-z 0-9 . _ - @, beginning with a letter or digit",
    |text| (1..=64).contains(&text.len())
        && text.bytes().next().is_some_and(|b| b.is_ascii_lowercase() || b.is_ascii_digit())
        && text.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b"._-@".contains(&b))
);

id!(
    /// The identifier of a policy, grant or principal document.
    DocumentId, "document id", "1 to 64 characters of a-z 0-9 -, beginning with a letter or digit",
    |text| (1..=64).contains(&text.len())
        && text.bytes().next().is_some_and(|b| b.is_ascii_lowercase() || b.is_ascii_digit())
        && text.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
);

id!(
    /// What a caller names a request by, so that sending it again is harmless: 8 to 64 characters.
    RequestId, "request id", "8 to 64 characters of A-Z a-z 0-9 _ -",
    |text| (8..=64).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-')
);

impl RunId {
    /// The identifier of a run proposed at `now`, from ten bytes of `randomness`.
    #[must_use]
    pub fn new(now: Timestamp, randomness: [u8; 10]) -> Self {
        let milliseconds = u128::from(now.unix_seconds().unsigned_abs()) * 1000;
        let noise = randomness.iter().fold(0_u128, |bits, byte| bits << 8 | u128::from(*byte));
        Self(format!("run-{}", encode::<26>(milliseconds << 80 | noise)))
    }

    /// When the identifier says that the run was proposed; nothing if it says no such moment.
    #[must_use]
    pub fn proposed_at(&self) -> Option<Timestamp> {
        let digit = |byte: u8| CROCKFORD.iter().position(|other| *other == byte).map(|digit| digit as u64);
        let time = self.0.bytes().skip(4).take(10);
        let milliseconds = time.map(digit).try_fold(0_u64, |bits, digit| Some(bits << 5 | digit?))?;
        Timestamp::from_unix_seconds(i64::try_from(milliseconds / 1000).ok()?).ok()
    }
}

impl Person {
    /// The gate itself, where it proposes. Nobody else is called so.
    #[must_use]
    pub fn gate() -> Self {
        Self("plangate".to_owned())
    }
}

impl WorkspaceId {
    /// A new identifier from ten bytes of `randomness`.
    #[must_use]
    pub fn new(randomness: [u8; 10]) -> Self {
        let noise = randomness.iter().fold(0_u128, |bits, byte| bits << 8 | u128::from(*byte));
        Self(format!("ws-{}", encode::<16>(noise)))
    }
}

/// The lowest `5 * N` bits as `N` characters.
fn encode<const N: usize>(bits: u128) -> String {
    (0..N)
        .rev()
        .filter_map(|place| CROCKFORD.get((bits >> (5 * place) & 31) as usize))
        .map(|byte| char::from(*byte))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn later_runs_sort_behind_earlier_ones() {
        let early = RunId::new("2026-11-30T05:00:00Z".parse().unwrap(), [255; 10]);
        let late = RunId::new("2026-11-30T05:00:01Z".parse().unwrap(), [0; 10]);
        assert!(early < late);
        assert_eq!(early.as_str().parse::<RunId>().unwrap(), early);
        assert_eq!(early.proposed_at().unwrap().to_string(), "2026-11-30T05:00:00Z");
        let never: RunId = "run-zzzzzzzzzzzzzzzzzzzzzzzzzz".parse().unwrap();
        assert_eq!(never.proposed_at(), None);
    }

    #[test]
    fn a_workspace_id_cannot_be_a_name() {
        assert_eq!(WorkspaceId::new([7; 10]).as_str().parse::<WorkspaceId>().unwrap(), WorkspaceId::new([7; 10]));
        for bad in
            ["payments-prod", "ws-payments", "ws-00000000000000000", "ws-000000000000000u", "WS-0000000000000000"]
        {
            assert!(bad.parse::<WorkspaceId>().is_err(), "`{bad}`");
        }
    }
}
