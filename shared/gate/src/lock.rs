//! A workspace's lock: who may reach apply, and under which fence (`R3`).

use serde::{Deserialize, Serialize};

use crate::freeze::Frozen;
use crate::ids::{RunId, WorkspaceId};
use crate::time::Timestamp;
use crate::untrusted;

/// The one schema of locks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum LockSchema {
    /// The first.
    #[serde(rename = "plangate.lock.v1")]
    V1,
}

/// How a lock stands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "state", rename_all = "lowercase", deny_unknown_fields)]
pub enum LockState {
    /// Nobody holds it. Somebody waits for it only while a freeze stands, or until the line goes on after one.
    #[serde(deserialize_with = "untrusted::no_fields")]
    Free,
    /// One run holds it.
    Held {
        /// Which.
        run: RunId,
    },
    /// Nobody knows what a run has applied. Nothing applicable is admitted until somebody has looked.
    Quarantined {
        /// Which run.
        run: RunId,
        /// Since when.
        since: Timestamp,
    },
}

/// The lock of a workspace.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Lock {
    /// Always `plangate.lock.v1`.
    pub schema: LockSchema,
    /// Whose lock.
    pub workspace: WorkspaceId,
    /// How it stands.
    pub lock: LockState,
    /// How often it was taken; each holder's orders carry theirs.
    pub fence: u64,
    /// The last place in the line that was given out.
    pub tail: u64,
    /// For which version of the gate's freeze the lock was last written again, so that who is broken off goes on behind it.
    #[serde(default)]
    pub gate_freeze: u64,
    /// The workspace's own freeze, if one stands; however the lock stands.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub frozen: Option<Frozen>,
}

impl Lock {
    /// The lock of a workspace that never had a run.
    #[must_use]
    pub const fn fresh(workspace: WorkspaceId) -> Self {
        Self {
            schema: LockSchema::V1,
            workspace,
            lock: LockState::Free,
            fence: 0,
            tail: 0,
            gate_freeze: 0,
            frozen: None,
        }
    }

    /// Gives the lock to `run` and tells its fence.
    pub fn grant(&mut self, run: &RunId) -> u64 {
        self.fence += 1;
        self.lock = LockState::Held { run: run.clone() };
        self.fence
    }

    /// Whether `run` holds it under `fence`.
    #[must_use]
    pub fn held_by(&self, run: &RunId, fence: u64) -> bool {
        self.fence == fence && matches!(&self.lock, LockState::Held { run: holder } if holder == run)
    }
}
