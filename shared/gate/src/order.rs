//! Work orders: what a runner is told to do, as exact bytes; for an apply with detached signatures.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::digest::Digest;
use crate::documents::{Engine, Estate, Reference, SecretReference, Withheld};
use crate::ids::{RunId, WorkspaceId};
use crate::run::{Kind, LockFile};
use crate::state::StateIdentity;
use crate::time::Timestamp;
use crate::untrusted::{self, UntrustedError};

/// The most bytes that an order may have.
pub const ORDER_LIMIT: usize = 256 * 1024;

/// The phases of a run that execute under a workspace's identity.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Phase {
    /// Makes the plan, under the role that cannot change the estate (`R18`).
    Plan,
    /// Applies that very plan.
    Apply,
}

impl Phase {
    /// The phase's name as it stands in keys and in the runner's environment.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Plan => "plan",
            Self::Apply => "apply",
        }
    }
}

impl std::fmt::Display for Phase {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

impl std::str::FromStr for Phase {
    type Err = UntrustedError;

    fn from_str(text: &str) -> Result<Self, UntrustedError> {
        match text {
            "plan" => Ok(Self::Plan),
            "apply" => Ok(Self::Apply),
            _ => Err(UntrustedError::Malformed { what: "phase", detail: "expected `plan` or `apply`".to_owned() }),
        }
    }
}

/// The one schema of orders.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum OrderSchema {
    /// The first.
    #[serde(rename = "plangate.work-order.v1")]
    V1,
}

/// For whom an order is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum OrderAudience {
    /// The runner, and nobody else.
    #[serde(rename = "plangate-runner")]
    Runner,
}

/// An object by its place and its content.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StoredObject {
    /// The bucket.
    pub bucket: String,
    /// The key.
    pub key: String,
    /// The version that was written, where the writer was told one.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub version_id: Option<String>,
    /// The digest of its bytes.
    pub digest: Digest,
    /// How many bytes.
    pub bytes: u64,
}

/// Both identities of a workspace (`R16`, `R18`).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Roles {
    /// The ARN of the role that plans.
    pub plan: String,
    /// The ARN of the role that applies.
    pub apply: String,
}

/// Where a workspace's own, sealed things stand.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sealed {
    /// The workspace's bucket: state, artifacts, what an engine could not save.
    pub bucket: String,
    /// The KMS key of these (`R15`).
    pub key_arn: String,
}

/// What a runner is to do.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WorkOrder {
    /// Always `plangate.work-order.v1`.
    pub schema: OrderSchema,
    /// Always `plangate-runner`.
    pub audience: OrderAudience,
    /// The run.
    pub run: RunId,
    /// The run's workspace.
    pub workspace: WorkspaceId,
    /// The run's kind: a plan-only run is never applied (`R7`).
    pub kind: Kind,
    /// What to do.
    pub phase: Phase,
    /// Always 1: nothing of a run is tried twice.
    pub attempt: u32,
    /// The fence under which the run holds its lock; 0 for a plan-only run.
    pub fence: u64,
    /// When the order was written.
    pub issued_at: Timestamp,
    /// After this moment the order is void. For an apply: when the plan expires (`R13`).
    pub expires_at: Timestamp,
    /// The workspace's roles; the phase's own must be the caller's.
    pub roles: Roles,
    /// Where the estate is in another account: the roles there, of which the engine gets the phase's own.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub estate: Option<Estate>,
    /// The configuration (`R4`).
    pub bundle: StoredObject,
    /// The engine, exactly (`R10`).
    pub engine: Engine,
    /// The state's place.
    pub state: Reference,
    /// Variables whose values the runner reads itself (`R21`).
    pub secrets: Vec<SecretReference>,
    /// Where artifact and sealed leftovers go.
    pub sealed: Sealed,
    /// What the approved plan is; there if and only if the phase is apply.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub approved: Option<ApprovedPlan>,
}

/// The plan that was approved, by everything that makes it that plan.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ApprovedPlan {
    /// The artifact (`R9`).
    pub artifact: StoredObject,
    /// The digest of the projection that was decided on.
    pub projection: Digest,
    /// What was withheld from it beyond the masks: the same again gives the same digest.
    pub withhold: Vec<Withheld>,
    /// The dependency lock (`R11`).
    pub lock_file: LockFile,
    /// The state that the plan was made against (`R12`).
    pub state: StateIdentity,
}

impl WorkOrder {
    /// The settings of the state's `s3` backend (`R1`): the workspace's place, its sealed key, and a lock object beside the
    /// state, as the engine takes them and later shows them.
    #[must_use]
    pub fn backend_settings(&self) -> BTreeMap<&'static str, Value> {
        BTreeMap::from([
            ("bucket", Value::from(self.state.bucket.as_str())),
            ("key", Value::from(self.state.key.as_str())),
            ("region", Value::from(self.state.region.as_str())),
            ("use_lockfile", Value::from(true)),
            ("encrypt", Value::from(true)),
            ("kms_key_id", Value::from(self.sealed.key_arn.as_str())),
        ])
    }

    /// The same as `init` takes them, one `-backend-config=` each: `name=value`.
    pub fn backend_arguments(&self) -> impl Iterator<Item = String> {
        self.backend_settings().into_iter().map(|(name, value)| match value {
            Value::String(text) => format!("{name}={text}"),
            other => format!("{name}={other}"),
        })
    }

    /// Reads an order from exact stored bytes. Whether it is meant for the reader is for the reader to check.
    ///
    /// # Errors
    /// Bytes that are no order, or whose phase and content do not fit each other.
    pub fn parse_untrusted(bytes: &[u8]) -> Result<Self, UntrustedError> {
        let order: Self = untrusted::parse("work order", bytes, ORDER_LIMIT)?;
        let malformed = |detail: &str| Err(UntrustedError::Malformed { what: "work order", detail: detail.to_owned() });
        match (order.phase, order.kind, order.approved.is_some()) {
            (Phase::Plan, _, false) | (Phase::Apply, Kind::Applicable, true) => {}
            (Phase::Apply, Kind::PlanOnly, _) => return malformed("a plan-only run is never applied"),
            _ => return malformed("phase and `approved` do not fit"),
        }
        if order.attempt != 1 {
            return malformed("`attempt` is not 1");
        }
        Ok(order)
    }
}

/// How a signature was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum SignatureAlgorithm {
    /// ECDSA over P-256 and SHA-256, DER.
    #[serde(rename = "ECDSA_SHA_256")]
    EcdsaSha256,
}

/// One signature over an order's exact bytes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Signature {
    /// The ARN of the key.
    pub key_id: String,
    /// How it was made.
    pub algorithm: SignatureAlgorithm,
    /// The signature, in base64.
    pub signature: String,
}

/// The detached signatures of an order.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Signatures {
    /// One or more; one good one by a known key suffices.
    pub signatures: Vec<Signature>,
}

impl Signatures {
    /// Reads detached signatures.
    ///
    /// # Errors
    /// Bytes that are no list of one to eight signatures.
    pub fn parse_untrusted(bytes: &[u8]) -> Result<Self, UntrustedError> {
        let signatures: Self = untrusted::parse("list of signatures", bytes, 16 * 1024)?;
        if signatures.signatures.is_empty() || signatures.signatures.len() > 8 {
            let detail = "expected one to eight signatures".to_owned();
            return Err(UntrustedError::Malformed { what: "list of signatures", detail });
        }
        Ok(signatures)
    }
}
