//! The identity of a state: what tells that nothing has changed between the plan and its apply (`R12`).

use serde::{Deserialize, Serialize};

use crate::digest::Digest;
use crate::untrusted;

/// Which state object stood there. Lineage and serial alone can be made to recur, so the object's version and digest
/// belong to it; that there was none is a value of its own.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "state", rename_all = "lowercase", deny_unknown_fields)]
pub enum StateIdentity {
    /// There was no state object.
    #[serde(deserialize_with = "untrusted::no_fields")]
    None,
    /// There was one.
    Present {
        /// The engine's lineage of the state.
        lineage: String,
        /// The engine's counter.
        serial: u64,
        /// The S3 version of the object.
        version_id: String,
        /// The digest of the object's bytes.
        digest: Digest,
    },
}

impl std::fmt::Display for StateIdentity {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::None => f.write_str("no state"),
            Self::Present { lineage, serial, version_id, digest } => {
                write!(f, "serial {serial}, lineage {lineage}, version {version_id}, {digest}")
            }
        }
    }
}
