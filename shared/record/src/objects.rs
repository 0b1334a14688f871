//! The exchange bucket: what runner and gate hand each other. Everything the gate writes is written once.

use async_trait::async_trait;
use plangate_gate::digest::Digest;
pub use plangate_gate::keys::{
    artifact_key, bundle_key, claim_key, document_key, log_key, order_key, projection_key, receipt_key, result_key,
    signatures_key,
};

/// An object that was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Object {
    /// Its bytes.
    pub bytes: Vec<u8>,
    /// Its version, in a versioned bucket.
    pub version_id: Option<String>,
}

/// What came of a write that must be the first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PutOutcome {
    /// It was.
    Written {
        /// The version that was written.
        version_id: Option<String>,
    },
    /// Something stood there already; nothing was written.
    Exists,
}

/// Why the bucket did not do what it was asked.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ObjectError {
    /// AWS did not answer, or refused.
    #[error("the object `{key}` cannot be reached: {error}")]
    Unavailable {
        /// Which.
        key: String,
        /// The kind of error, without any content.
        error: String,
    },
    /// It is larger than its kind may be.
    #[error("the object `{key}` is larger than the {limit} bytes allowed")]
    TooLarge {
        /// Which.
        key: String,
        /// The most that is allowed.
        limit: u64,
    },
}

/// The exchange bucket.
#[async_trait]
pub trait Objects: Send + Sync {
    /// An object's size, and the SHA-256 that S3 itself took of it, if it was asked to.
    async fn head(&self, key: &str) -> Result<Option<(u64, Option<Digest>)>, ObjectError>;

    /// Reads an object of at most `limit` bytes, of one version if that is named.
    async fn get(&self, key: &str, version: Option<&str>, limit: u64) -> Result<Option<Object>, ObjectError>;

    /// Writes an object where nothing stands yet.
    async fn put_new(&self, key: &str, bytes: Vec<u8>) -> Result<PutOutcome, ObjectError>;
}

/// A presigned request: the address, and the headers that must be sent as they are.
#[derive(Debug, Clone)]
pub struct Presigned {
    /// The address.
    pub url: String,
    /// The headers.
    pub headers: Vec<(String, String)>,
}

/// Who signs addresses for others to use.
#[async_trait]
pub trait Presigner: Send + Sync {
    /// A presigned `PUT` of exactly the bytes with this digest and length (`R4`).
    async fn put(&self, key: &str, digest: &Digest, bytes: u64) -> Result<Presigned, ObjectError>;

    /// A presigned `GET`.
    async fn get(&self, key: &str) -> Result<Presigned, ObjectError>;
}

/// Writes `bytes` where nothing stands yet, or finds exactly them there: what a step does that may be repeated.
///
/// # Errors
/// The bucket does not answer; or, as `Ok(false)`, something else stands there.
pub async fn put_same(objects: &dyn Objects, key: &str, bytes: &[u8]) -> Result<bool, ObjectError> {
    match objects.put_new(key, bytes.to_vec()).await? {
        PutOutcome::Written { .. } => Ok(true),
        PutOutcome::Exists => {
            let limit = bytes.len() as u64;
            match objects.get(key, None, limit).await {
                Ok(Some(found)) => Ok(found.bytes == bytes),
                Ok(None) | Err(ObjectError::TooLarge { .. }) => Ok(false),
                Err(error) => Err(error),
            }
        }
    }
}
