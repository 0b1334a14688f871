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
    /// An object stands there already, and it is not of this call.
    Exists,
    /// An object stands there already, and may be of this call: the answer to an earlier request of it was lost.
    Perhaps,
}

/// A session of a role in another account.
#[derive(Debug, Clone)]
pub struct Session {
    /// The session's ARN.
    pub caller: String,
    /// The id of its key.
    pub access_key_id: String,
    /// The key itself.
    pub secret_access_key: Secret,
    /// What makes it a session.
    pub session_token: Secret,
}

/// The services that the runner calls, under the role of its task.
pub trait Cloud: Send + Sync {
    /// The ARN of the caller (`sts:GetCallerIdentity`).
    ///
    /// # Errors
    /// The service cannot be reached or refuses.
    fn caller(&self) -> Result<String>;

    /// A session of an estate's role, of [`crate::estate::SESSION`], for the workspace `external_id`: `run` is its name and its
    /// source identity (`sts:AssumeRole`).
    ///
    /// # Errors
    /// The service cannot be reached or refuses.
    fn assume(&self, role: &str, external_id: &str, run: &str) -> Result<Session>;

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

    /// Writes an object on condition that none exists. Whoever must know whether it was the one to write uses
    /// [`Self::claim`].
    ///
    /// # Errors
    /// The service cannot be reached or refuses.
    fn put_new(&self, place: Place<'_>, bytes: &[u8], protection: Protection<'_>) -> Result<Put>;

    /// Writes an object on condition that none exists: [`Put::Written`] means that this call and no other wrote it, and
    /// [`Put::Perhaps`] is no answer.
    ///
    /// # Errors
    /// The service refuses, or who wrote what stands there cannot be found out.
    fn claim(&self, place: Place<'_>, bytes: &[u8]) -> Result<Put>;
}

/// Stores an object for good and tells its place and content. An object that is there already is taken for ours if it
/// has the very same bytes. Where an answer was lost and the role may not look, it is taken for ours too: whoever reads
/// it holds it against the digest that is told here.
///
/// # Errors
/// Something else stands there, or the service fails.
pub fn store(cloud: &dyn Cloud, place: Place<'_>, bytes: &[u8], protection: Protection<'_>) -> Result<StoredObject> {
    let version_id = match cloud.put_new(place, bytes, protection)? {
        Put::Written { version_id } => version_id,
        Put::Exists => look(cloud, place, bytes)??,
        Put::Perhaps => look(cloud, place, bytes).unwrap_or(Ok(None))?,
    };
    let (digest, size) = (Digest::of(bytes), bytes.len() as u64);
    Ok(StoredObject { bucket: place.bucket.to_owned(), key: place.key.to_owned(), version_id, digest, bytes: size })
}

/// Stores an object whose digest nobody is told, so that it must be certain that it is the one that stands there.
///
/// # Errors
/// Something else stands there, or whether it does cannot be seen, or the service fails.
pub fn tell(cloud: &dyn Cloud, place: Place<'_>, bytes: &[u8]) -> Result<()> {
    match cloud.put_new(place, bytes, Protection::Bucket)? {
        Put::Written { .. } => Ok(()),
        Put::Exists | Put::Perhaps => look(cloud, place, bytes)?.map(drop),
    }
}

/// Looks whether exactly `bytes` stand at `place`, and gives their version; an error inside says that they do not.
///
/// # Errors
/// It cannot be seen.
fn look(cloud: &dyn Cloud, place: Place<'_>, bytes: &[u8]) -> Result<Result<Option<String>>> {
    let foreign = || RunnerError::gate(format!("`{place}` exists already, and is not of this task"));
    match cloud.fetch(place, bytes.len() as u64) {
        Ok(Some(there)) if there.bytes == bytes => Ok(Ok(there.version_id)),
        Ok(_) | Err(RunnerError::TooLarge { .. }) => Ok(Err(foreign())),
        Err(error) => {
            let detail = format!("`{place}` exists already, and whether it is of this task cannot be seen: {error}");
            Err(RunnerError::gate(detail))
        }
    }
}
