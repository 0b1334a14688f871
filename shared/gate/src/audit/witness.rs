//! Witnesses: where the chains end, seen from time to time and written where nobody can change it.
//!
//! A witness holds the ends that have moved since the one before it, and that one's digest; together they tell where each
//! chain ended at each time. A tail that is cut off afterwards, or a history that is swapped, no longer fits them.

use serde::{Deserialize, Serialize};

use super::{Chain, canonical_of};
use crate::digest::Digest;
use crate::run::ChainHead;
use crate::time::Timestamp;
use crate::untrusted::{self, UntrustedError};

/// The most bytes that a witness may have.
pub const WITNESS_LIMIT: usize = 64 * 1024 * 1024;

/// The one schema of witnesses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum WitnessSchema {
    /// The first.
    #[serde(rename = "plangate.witness.v1")]
    V1,
}

/// Where a chain ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WitnessedHead {
    /// The chain.
    pub chain: Chain,
    /// The place of its last event.
    pub seq: u64,
    /// The digest of its last event.
    pub digest: Digest,
}

/// The ends of chains at one time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Witness {
    /// Always `plangate.witness.v1`.
    pub schema: WitnessSchema,
    /// Its place among the witnesses, from 1.
    pub seq: u64,
    /// The digest of the witness before; none for the first.
    pub previous: Option<Digest>,
    /// When.
    pub at: Timestamp,
    /// The ends that have moved since the witness before, by chain; for the first, all.
    pub heads: Vec<WitnessedHead>,
}

impl Witness {
    /// The witness that follows `before` (its place and the digest of its bytes), of `heads`.
    #[must_use]
    pub fn next(before: Option<&ChainHead>, at: Timestamp, mut heads: Vec<WitnessedHead>) -> Self {
        heads.sort_by_cached_key(|head| head.chain.to_string());
        Self {
            schema: WitnessSchema::V1,
            seq: before.map_or(1, |before| before.seq + 1),
            previous: before.map(|before| before.digest),
            at,
            heads,
        }
    }

    /// The canonical bytes.
    ///
    /// # Errors
    /// It cannot be written as JSON, or is larger than a witness may be.
    pub fn to_bytes(&self) -> Result<String, UntrustedError> {
        canonical_of("witness", self, WITNESS_LIMIT)
    }

    /// Reads a witness, which must be in canonical form.
    ///
    /// # Errors
    /// It is too large, does not follow its schema, or is written in another form.
    pub fn parse(bytes: &[u8]) -> Result<Self, UntrustedError> {
        let witness: Self = untrusted::parse("witness", bytes, WITNESS_LIMIT)?;
        if witness.to_bytes()?.as_bytes() == bytes {
            Ok(witness)
        } else {
            let detail = "it is not in canonical form".to_owned();
            Err(UntrustedError::Malformed { what: "witness", detail })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn witnesses_follow_one_another_and_read_back_in_one_form_alone() {
        let at: Timestamp = "2026-11-30T05:00:00Z".parse().unwrap();
        let head = |chain: &str| WitnessedHead { chain: chain.parse().unwrap(), seq: 2, digest: Digest::of(b"e") };
        let first = Witness::next(None, at, vec![head("strangers"), head("gate")]);
        let bytes = first.to_bytes().unwrap();
        assert_eq!(Witness::parse(bytes.as_bytes()).unwrap(), first);
        assert_eq!(first.heads[0].chain, Chain::Gate);
        let end = ChainHead { seq: first.seq, digest: Digest::of(bytes.as_bytes()) };
        let second = Witness::next(Some(&end), at, Vec::new());
        assert_eq!((second.seq, second.previous), (2, Some(end.digest)));
        assert!(Witness::parse(bytes.replace(':', ": ").as_bytes()).is_err());
    }
}
