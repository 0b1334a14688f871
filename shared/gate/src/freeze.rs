//! A freeze of the gate or of one workspace: nothing is admitted, approved or started until it is lifted; what runs ends.

use serde::{Deserialize, Serialize};

use crate::run::Actor;
use crate::time::Timestamp;

/// The one schema of the gate's freeze.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum FreezeSchema {
    /// The first.
    #[serde(rename = "plangate.freeze.v1")]
    V1,
}

/// A freeze that stands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Frozen {
    /// Who froze.
    pub by: Actor,
    /// When.
    pub at: Timestamp,
    /// Why.
    pub reason: String,
}

/// The freeze of the gate as a whole. A workspace's own stands in its lock.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GateFreeze {
    /// Always `plangate.freeze.v1`.
    pub schema: FreezeSchema,
    /// The freeze, if one stands.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub frozen: Option<Frozen>,
}

impl GateFreeze {
    /// A gate that nobody ever froze.
    #[must_use]
    pub const fn none() -> Self {
        Self { schema: FreezeSchema::V1, frozen: None }
    }
}
