//! What the runner needs of the cloud, as a trait, so that the phases are the same over AWS and over a test's memory.

use std::collections::BTreeMap;
use std::fmt;

use plangate_gate::digest::Digest;
use plangate_gate::order::StoredObject;

use crate::error::{Result, RunnerError};

/// A secret's value. It prints as nothing but that (`R22`).
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Takes a value.
    #[must_use]
    pub const fn new(value: String) -> Self {
        Self(value)
    }

    /// The value, for the masker and for the engine's variable file alone.
    #[must_use]
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("(secret)")
    }
}

/// An object's place.
#[derive(Debug, Clone, Copy)]
pub struct Place<'a> {
    /// The bucket.
    pub bucket: &'a str,
    /// The key.
    pub key: &'a str,
}

impl fmt::Display for Place<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "s3://{}/{}", self.bucket, self.key)
    }
}

/// An object that was read whole.
#[derive(Debug, Clone)]
pub struct Fetched {
    /// Its bytes.
    pub bytes: Vec<u8>,
    /// Its version, in a bucket that has versions.
    pub version_id: Option<String>,
}

/// Under which key an object is written.
#[derive(Debug, Clone, Copy)]
pub enum Protection<'a> {
    /// As the bucket says.
    Bucket,
    /// Under the KMS key with this ARN (`R15`).
    Key(&'a str),
}

/// What came of writing an object that must not exist yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Put {
    /// It was written.
    Written {
        /// Its version, in a bucket that has versions.
        version_id: Option<String>,
    },
    /// An object stands there already.
    Exists,
}

/// The services that the runner calls, under the role of its task.
pub trait Cloud: Send + Sync {
    /// The ARN of the caller (`sts:GetCallerIdentity`).
    ///
    /// # Errors
    /// The service cannot be reached or refuses.
    fn caller(&self) -> Result<String>;

    /// The decrypted values of those of the named parameters that exist and may be read.
    ///
    /// # Errors
    /// The service cannot be reached or refuses.
    fn parameters(&self, names: &[String]) -> Result<BTreeMap<String, Secret>>;

    /// The current version of an object of at most `limit` bytes; none if it does not exist.
    ///
    /// # Errors
    /// It is larger, or the service cannot be reached or refuses: not being allowed to look is not "does not exist".
    fn fetch(&self, place: Place<'_>, limit: u64) -> Result<Option<Fetched>>;

    /// Writes an object on condition that none exists. May be sent several times: whoever must know whether it was the
    /// one to write uses [`Self::claim`].
    ///
    /// # Errors
    /// The service cannot be reached or refuses.
    fn put_new(&self, place: Place<'_>, bytes: &[u8], protection: Protection<'_>) -> Result<Put>;

    /// Writes an object on condition that none exists, and asks exactly once: [`Put::Written`] means that this call
    /// and no other wrote it.
    ///
    /// # Errors
    /// The service refuses, or the outcome is unknown.
    fn claim(&self, place: Place<'_>, bytes: &[u8]) -> Result<Put>;
}

/// Stores an object for good and tells its place and content. An object that is there already is taken for ours if it
/// has the very same bytes: then an answer was lost on the way.
///
/// # Errors
/// Something else stands there, or the service fails.
pub fn store(cloud: &dyn Cloud, place: Place<'_>, bytes: &[u8], protection: Protection<'_>) -> Result<StoredObject> {
    let digest = Digest::of(bytes);
    let size = bytes.len() as u64;
    let version_id = match cloud.put_new(place, bytes, protection)? {
        Put::Written { version_id } => version_id,
        Put::Exists => match cloud.fetch(place, size) {
            Ok(Some(there)) if Digest::of(&there.bytes) == digest => there.version_id,
            _ => return Err(RunnerError::gate(format!("`{place}` exists already, and is not of this task"))),
        },
    };
    Ok(StoredObject { bucket: place.bucket.to_owned(), key: place.key.to_owned(), version_id, digest, bytes: size })
}
