//! SHA-256 digests in the one form in which plangate writes them: `sha256:` and 64 lower-case hex digits.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use sha2::{Digest as _, Sha256};

/// A SHA-256 digest of some exact bytes. Configuration, artifact, document, projection, policy and audit event are
/// all named by one (`R4`, `R5`, `R42`, `R52`).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Digest([u8; 32]);

impl Digest {
    /// The digest of `bytes`.
    #[must_use]
    pub fn of(bytes: &[u8]) -> Self {
        Self(Sha256::digest(bytes).into())
    }

    /// A digest from its 32 raw bytes, for those who hashed elsewhere.
    #[must_use]
    pub const fn from_raw(raw: [u8; 32]) -> Self {
        Self(raw)
    }

    /// The 32 raw bytes.
    #[must_use]
    pub const fn raw(&self) -> &[u8; 32] {
        &self.0
    }

    /// The 64 hex digits alone, as they stand in object keys.
    #[must_use]
    pub fn hex(&self) -> String {
        hex::encode(self.0)
    }
}

/// Hashes a stream piece by piece.
#[derive(Default, Clone)]
pub struct Hasher(Sha256);

impl Hasher {
    /// A hasher that has seen nothing.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes the next piece.
    pub fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// The digest of all pieces in their order.
    #[must_use]
    pub fn finish(self) -> Digest {
        Digest(self.0.finalize().into())
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "sha256:{}", self.hex())
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A text that is not `sha256:` and 64 lower-case hex digits.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("not a digest: expected `sha256:` and 64 lower-case hex digits")]
pub struct DigestError;

impl FromStr for Digest {
    type Err = DigestError;

    fn from_str(text: &str) -> Result<Self, DigestError> {
        let digits = text.strip_prefix("sha256:").ok_or(DigestError)?;
        if digits.bytes().any(|b| b.is_ascii_uppercase()) {
            return Err(DigestError);
        }
        let mut raw = [0; 32];
        hex::decode_to_slice(digits, &mut raw).map_err(|_| DigestError)?;
        Ok(Self(raw))
    }
}

impl Serialize for Digest {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Digest {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_digest_reads_back_what_it_wrote_and_nothing_else() {
        let digest = Digest::of(b"plan");
        assert_eq!(digest.to_string().parse::<Digest>().unwrap(), digest);
        for bad in
            ["", "sha256:", &digest.hex(), &digest.to_string().to_uppercase(), "sha256:00", &format!("{digest}0")]
        {
            assert_eq!(bad.parse::<Digest>(), Err(DigestError), "`{bad}`");
        }
    }

    #[test]
    fn pieces_hash_like_the_whole() {
        let mut hasher = Hasher::new();
        hasher.update(b"pl");
        hasher.update(b"an");
        assert_eq!(hasher.finish(), Digest::of(b"plan"));
    }
}
