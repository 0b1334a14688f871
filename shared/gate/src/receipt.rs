//! Receipts, claims and results: what a runner says it did. Strictly read, and believed only as far as it was asked.

use serde::{Deserialize, Serialize};

use crate::digest::Digest;
use crate::documents::Engine;
use crate::failure::FailureReason;
use crate::ids::{RunId, WorkspaceId};
use crate::order::{Phase, Roles, StoredObject};
use crate::run::{Kind, LockFile};
use crate::state::StateIdentity;
use crate::time::Timestamp;
use crate::untrusted::{self, UntrustedError};

/// The most bytes that a receipt, a claim or a result may have.
pub const RECEIPT_LIMIT: usize = 64 * 1024;

/// The one schema of receipts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum ReceiptSchema {
    /// The first.
    #[serde(rename = "plangate.receipt.v1")]
    V1,
}

/// For whom a receipt is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum ReceiptAudience {
    /// The gate.
    #[serde(rename = "plangate-gate")]
    Gate,
}

/// The engine's exit code of `plan -detailed-exitcode`, of a plan that succeeded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "u8", try_from = "u8")]
pub enum PlanExit {
    /// 0: the engine says that nothing changes.
    NoChanges,
    /// 2: the engine says that something changes.
    Changes,
}

impl From<PlanExit> for u8 {
    fn from(exit: PlanExit) -> Self {
        match exit {
            PlanExit::NoChanges => 0,
            PlanExit::Changes => 2,
        }
    }
}

impl TryFrom<u8> for PlanExit {
    type Error = &'static str;

    fn try_from(code: u8) -> Result<Self, &'static str> {
        match code {
            0 => Ok(Self::NoChanges),
            2 => Ok(Self::Changes),
            _ => Err("expected exit code 0 or 2"),
        }
    }
}

/// Whether the engine ran as another user than the runner.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Isolation {
    /// Another user: the runner's memory and environment are out of its reach.
    SeparateUser,
    /// The same user: the platform gave no other.
    SameUser,
}

/// A lock object that was found beside the state after the engine had ended. It is reported, never released.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OrphanedLock {
    /// The engine's id of the lock.
    pub id: String,
    /// What the engine was doing.
    pub operation: String,
    /// When it took the lock, in the engine's words.
    pub created: String,
}

/// What was seen of the state's own lock.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StateLockEvidence {
    /// Whether this phase locks: a plan does not (`-lock=false`), an apply does.
    pub locking: bool,
    /// A lock object that stood there after the engine had ended.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub orphan: Option<OrphanedLock>,
}

/// Why a phase did not do what it was asked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PhaseFailure {
    /// The stable code.
    pub reason: FailureReason,
    /// One line for people: names, codes and digests, never a value. At most 500 characters.
    pub detail: String,
}

/// What a plan phase made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Planned {
    /// The engine's exit code, 0 or 2.
    pub exit_code: PlanExit,
    /// The artifact.
    pub artifact: StoredObject,
    /// The plan document.
    pub document: StoredObject,
    /// The document's `format_version`.
    pub plan_format: String,
    /// The dependency lock of the bundle (`R11`).
    pub lock_file: LockFile,
    /// The state that the plan was made against (`R12`).
    pub state: StateIdentity,
}

/// What an apply phase did.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Applied {
    /// The engine's exit code.
    pub exit_code: i32,
    /// The state right before.
    pub state_before: StateIdentity,
    /// The state afterwards.
    pub state_after: StateIdentity,
    /// Where the state went that the engine could not save, if so.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub errored_state: Option<StoredObject>,
}

impl Applied {
    /// Whether the state tells what the engine did. It does not where the engine could not save it, or was killed: what
    /// came since it last saved is then in the estate and nowhere else.
    #[must_use]
    pub const fn outcome_is_known(&self) -> bool {
        self.errored_state.is_none() && matches!(self.exit_code, 0 | 1)
    }
}

/// What a phase says it did.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Receipt {
    /// Always `plangate.receipt.v1`.
    pub schema: ReceiptSchema,
    /// Always `plangate-gate`.
    pub audience: ReceiptAudience,
    /// The run.
    pub run: RunId,
    /// Its workspace.
    pub workspace: WorkspaceId,
    /// Its kind.
    pub kind: Kind,
    /// The phase that this is the receipt of.
    pub phase: Phase,
    /// Always 1.
    pub attempt: u32,
    /// The order's fence.
    pub fence: u64,
    /// The digest of the order's exact bytes.
    pub order: Digest,
    /// The roles of the order.
    pub roles: Roles,
    /// The ARN that the runner really was, as STS told it.
    pub caller: String,
    /// Where the estate is in another account: who the engine was there, as STS told it; there once it was anybody.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub estate_caller: Option<String>,
    /// The engine that ran.
    pub engine: Engine,
    /// The bundle's digest.
    pub bundle: Digest,
    /// Whether the engine was another user.
    pub isolation: Isolation,
    /// The state's lock.
    pub state_lock: StateLockEvidence,
    /// When the runner began.
    pub started_at: Timestamp,
    /// When it wrote this.
    pub finished_at: Timestamp,
    /// The phase's log.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub log: Option<StoredObject>,
    /// What was planned; there if a plan phase succeeded.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub planned: Option<Planned>,
    /// What was applied; there if the engine was started with the artifact, whether it succeeded or not.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub applied: Option<Applied>,
    /// Why not, if not.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub failure: Option<PhaseFailure>,
}

impl Receipt {
    /// Reads a receipt from exact stored bytes. Whether it is the one that was asked for is for the reader to check.
    ///
    /// # Errors
    /// Bytes that are no receipt, or whose parts do not fit each other.
    pub fn parse_untrusted(bytes: &[u8]) -> Result<Self, UntrustedError> {
        let receipt: Self = untrusted::parse("receipt", bytes, RECEIPT_LIMIT)?;
        let fits = match (receipt.phase, &receipt.planned, &receipt.applied, &receipt.failure) {
            (Phase::Plan, Some(_), None, None) | (Phase::Plan | Phase::Apply, None, None, Some(_)) => true,
            (Phase::Apply, None, Some(applied), None) => applied.exit_code == 0,
            (Phase::Apply, None, Some(_), Some(_)) => true,
            _ => false,
        };
        let bounded = receipt.failure.as_ref().is_none_or(|failure| failure.detail.chars().count() <= 500);
        if fits && bounded && receipt.attempt == 1 {
            Ok(receipt)
        } else {
            let detail = "phase, outcome, attempt and detail do not fit each other".to_owned();
            Err(UntrustedError::Malformed { what: "receipt", detail })
        }
    }
}

/// Who may hold a claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ClaimHolder {
    /// The runner, about to apply.
    Runner,
    /// The gate, which has found the run dead: a tombstone, nothing can ever apply.
    Gate,
}

/// The one schema of claims.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum ClaimSchema {
    /// The first.
    #[serde(rename = "plangate.claim.v1")]
    V1,
}

/// The right to apply a run's plan, taken once by whoever first writes it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Claim {
    /// Always `plangate.claim.v1`.
    pub schema: ClaimSchema,
    /// The run.
    pub run: RunId,
    /// Its workspace.
    pub workspace: WorkspaceId,
    /// Who took it.
    pub holder: ClaimHolder,
    /// The order's fence.
    pub fence: u64,
    /// When.
    pub at: Timestamp,
}

/// The one schema of results.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum ResultSchema {
    /// The first.
    #[serde(rename = "plangate.result.v1")]
    V1,
}

/// The first word after an engine's apply has ended: written at once, before the receipt, so that little can be lost.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ApplyResult {
    /// Always `plangate.result.v1`.
    pub schema: ResultSchema,
    /// The run.
    pub run: RunId,
    /// Its workspace.
    pub workspace: WorkspaceId,
    /// The order's fence.
    pub fence: u64,
    /// The digest of the order's exact bytes.
    pub order: Digest,
    /// What was done.
    pub applied: Applied,
    /// When.
    pub at: Timestamp,
}

impl Claim {
    /// Reads a claim.
    ///
    /// # Errors
    /// Bytes that are no claim.
    pub fn parse_untrusted(bytes: &[u8]) -> Result<Self, UntrustedError> {
        untrusted::parse("claim", bytes, RECEIPT_LIMIT)
    }
}

impl ApplyResult {
    /// Reads a result.
    ///
    /// # Errors
    /// Bytes that are no result.
    pub fn parse_untrusted(bytes: &[u8]) -> Result<Self, UntrustedError> {
        untrusted::parse("apply result", bytes, RECEIPT_LIMIT)
    }
}
