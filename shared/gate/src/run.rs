//! The record of a run: who, what, which versions, which identities, what was decided and how it ended (`R5`, `R52`).

use serde::{Deserialize, Serialize};

use crate::digest::Digest;
use crate::documents::{Engine, WorkspaceSpec};
use crate::drift::DriftWord;
use crate::failure::FailureReason;
use crate::ids::{Person, RunId, WorkspaceId};
use crate::known::{Compared, Outside, Sighting};
use crate::lifecycle::{self, Status, TransitionError};
use crate::order::{Phase, StoredObject};
use crate::receipt::{Isolation, PhaseFailure, PlanExit, StateLockEvidence};
use crate::state::StateIdentity;
use crate::time::Timestamp;
use crate::untrusted;

pub use crate::review::ReviewRecord;

/// Whether a run may ever be applied. Fixed at proposal (`R7`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// May be applied, once approved.
    Applicable,
    /// Looks, and never applies.
    PlanOnly,
}

impl std::fmt::Display for Kind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Applicable => "applicable",
            Self::PlanOnly => "plan-only",
        })
    }
}

/// What a run came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Origin {
    /// A person at a terminal.
    #[default]
    Person,
    /// A pipeline.
    Ci,
    /// The drift schedule.
    Drift,
    /// Made by putting another run together anew.
    Reassembly,
}

/// The digest of the bundle's dependency lock, or that it needs none (`R11`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LockFile {
    /// The bundle has no dependency lock, and names no provider that needs one.
    None,
    /// The digest of the file's bytes.
    Present(Digest),
}

impl Serialize for LockFile {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::None => serializer.serialize_str("none"),
            Self::Present(digest) => digest.serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for LockFile {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        if text == "none" {
            return Ok(Self::None);
        }
        text.parse().map(Self::Present).map_err(serde::de::Error::custom)
    }
}

/// Who did something: a person by their IAM identity, or a part of the gate.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Actor {
    /// A person or bot.
    Person {
        /// As configuration knows them (`R50`).
        person: Person,
        /// The IAM identity that the request had.
        arn: String,
    },
    /// A person who acted in Slack.
    Slack {
        /// As configuration knows them (`R50`).
        person: Person,
        /// The team of the Slack user whom configuration maps to the person.
        team: String,
        /// The Slack user.
        user: String,
    },
    /// A part of the gate.
    Gate {
        /// Which function.
        function: String,
    },
    /// The gate in nobody's stead: a run was found eligible, a reviewer had nothing against it, and its workspace approves
    /// such runs without a person (`R34`).
    #[serde(deserialize_with = "untrusted::no_fields")]
    Automatic,
}

impl Actor {
    /// A part of the gate.
    #[must_use]
    pub fn gate(function: &str) -> Self {
        Self::Gate { function: function.to_owned() }
    }

    /// What people call it: the person, the function, or `automatic`.
    #[must_use]
    pub fn name(&self) -> &str {
        match self {
            Self::Person { person, .. } | Self::Slack { person, .. } => person.as_str(),
            Self::Gate { function } => function,
            Self::Automatic => "automatic",
        }
    }
}

/// Who proposed, and on whose behalf.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Proposer {
    /// The proposing identity (`R5`).
    pub person: Person,
    /// The IAM identity that the request had.
    pub arn: String,
    /// Whom a bot claims to speak for.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub on_behalf_of: Option<Person>,
}

impl Proposer {
    /// The gate's own schedule, which looks for drift (`R55`). No IAM identity is called so.
    #[must_use]
    pub fn drift() -> Self {
        Self { person: Person::gate(), arn: "gate:drift".to_owned(), on_behalf_of: None }
    }
}

/// The workspace's configuration as it was when the plan began: both phases go by it (`R10`).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PinnedWorkspace {
    /// The document's etag.
    pub etag: String,
    /// Its spec.
    pub spec: WorkspaceSpec,
    /// The digest of the policy that judges this run; the policy is stored under it (`R33`).
    pub policy: Digest,
}

/// What the plan phase made, from its receipt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PlanRecord {
    /// The digest of the receipt's bytes.
    pub receipt: Digest,
    /// The identity that the plan ran as (`R5`, `R16`).
    pub caller: String,
    /// Who the engine was in the estate's account, where that is another.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub estate_caller: Option<String>,
    /// The engine that planned.
    pub engine: Engine,
    /// The dependency lock (`R11`).
    pub lock_file: LockFile,
    /// The engine's exit code.
    pub exit_code: PlanExit,
    /// The artifact (`R8`).
    pub artifact: StoredObject,
    /// The plan document.
    pub document: StoredObject,
    /// The document's `format_version`.
    pub plan_format: String,
    /// The state that was read (`R12`).
    pub state: StateIdentity,
    /// What was seen of the state's lock.
    pub state_lock: StateLockEvidence,
    /// Whether the engine was another user than the runner.
    pub isolation: Isolation,
    /// The log, where the runner has stored it.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub log: Option<StoredObject>,
    /// When the receipt was taken in.
    pub received_at: Timestamp,
    /// When the plan dies (`R13`).
    pub expires_at: Timestamp,
}

/// How many resources a projection creates, updates, deletes and replaces.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Counts {
    /// Created.
    pub create: u64,
    /// Changed in place.
    pub update: u64,
    /// Destroyed.
    pub delete: u64,
    /// Destroyed and created anew.
    pub replace: u64,
}

/// Where the projection stands and what it is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProjectionRecord {
    /// The exact bytes.
    pub object: StoredObject,
    /// Its counts.
    pub counts: Counts,
}

/// The rule set that judged (`R33`).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RuleSetRecord {
    /// Its name.
    pub id: String,
    /// Its version.
    pub version: String,
    /// The digest over its rules.
    pub digest: Digest,
}

/// A reason for which a run is not eligible. Codes, addresses and paths, never a value.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FindingRecord {
    /// The stable code.
    pub reason: String,
    /// The resource, where there is one.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub address: Option<String>,
    /// The attribute's path, where there is one.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub path: Option<String>,
}

/// What the guardrails found (`R30`-`R33`).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct GuardrailRecord {
    /// The rules.
    pub rule_set: RuleSetRecord,
    /// The policy's digest; the policy itself is stored under it.
    pub policy: Digest,
    /// The digest of the workspace's own rules, where the policy has any. They are part of the policy.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub own_rules: Option<Digest>,
    /// Whether the run is eligible.
    pub eligible: bool,
    /// Why not: the first hundred findings.
    pub findings: Vec<FindingRecord>,
    /// How many findings there were in all.
    pub findings_total: u64,
}

/// What was decided.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Choice {
    /// Apply it.
    Approve,
    /// Do not.
    Reject,
}

/// Where a decision was given.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Surface {
    /// The API, the command line included.
    Api,
    /// A message in Slack.
    Slack,
    /// Nowhere: the gate itself, after a review.
    Automatic,
}

/// The one decision of a run (`R46`).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DecisionRecord {
    /// What.
    pub choice: Choice,
    /// By whom (`R45`).
    pub by: Actor,
    /// Where it was given.
    pub surface: Surface,
    /// The digest of the projection that was seen.
    pub projection: Digest,
    /// Why, in the decider's words.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub reason: Option<String>,
    /// When.
    pub at: Timestamp,
}

/// The apply, from the order to what came of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ApplyRecord {
    /// The digest of the order's bytes.
    pub order: Digest,
    /// When it was ordered.
    pub ordered_at: Timestamp,
    /// The identity that the apply ran as (`R5`, `R16`).
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub caller: Option<String>,
    /// Who the engine was in the estate's account, where that is another.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub estate_caller: Option<String>,
    /// The engine's exit code.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub exit_code: Option<i32>,
    /// The state right before.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub state_before: Option<StateIdentity>,
    /// The state afterwards.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub state_after: Option<StateIdentity>,
    /// Where the state went that the engine could not save.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub errored_state: Option<StoredObject>,
    /// What was seen of the state's lock.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub state_lock: Option<StateLockEvidence>,
    /// The log, where the runner has stored it.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub log: Option<StoredObject>,
}

/// The one schema of run records.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum RunSchema {
    /// The first.
    #[serde(rename = "plangate.run.v1")]
    V1,
}

/// Where a chain of audit events ends so far.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ChainHead {
    /// The sequence number of the last event, from 1.
    pub seq: u64,
    /// The digest of the last event.
    pub digest: Digest,
}

/// A run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Run {
    /// Always `plangate.run.v1`.
    pub schema: RunSchema,
    /// Its identifier, which also names its execution.
    pub id: RunId,
    /// Its workspace.
    pub workspace: WorkspaceId,
    /// Whether it may ever be applied (`R7`).
    pub kind: Kind,
    /// Where it stands.
    pub status: Status,
    /// Who proposed it.
    pub proposer: Proposer,
    /// What it came from.
    pub origin: Origin,
    /// The run that it was derived from.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub derived_from: Option<RunId>,
    /// When it was proposed.
    pub proposed_at: Timestamp,
    /// When anything of it last changed.
    pub updated_at: Timestamp,
    /// Its configuration (`R4`, `R5`).
    pub bundle: StoredObject,
    /// The fence under which it holds its workspace's lock; 0 before that, and for a plan-only run always.
    pub fence: u64,
    /// Its place in the line, while it waits.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub queued_as: Option<u64>,
    /// The workspace as it was when the plan began.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub pinned: Option<PinnedWorkspace>,
    /// The plan order's digest.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub plan_order: Option<Digest>,
    /// When the plan was ordered.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub plan_ordered_at: Option<Timestamp>,
    /// How often what is known of the state had become another when the plan was ordered.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub known_moves: Option<u64>,
    /// The plan.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub plan: Option<PlanRecord>,
    /// What the plan's state was to what is known (`R56`).
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub compared: Option<Compared>,
    /// The projection.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub projection: Option<ProjectionRecord>,
    /// The guardrails' outcome.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub guardrails: Option<GuardrailRecord>,
    /// The review.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub review: Option<ReviewRecord>,
    /// The decision.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub decision: Option<DecisionRecord>,
    /// The apply.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub apply: Option<ApplyRecord>,
    /// What it has added to what is known of drift, if it looked for that.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub drift: Option<DriftWord>,
    /// Why it failed, if it did.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub failure: Option<PhaseFailure>,
    /// Who asked to withdraw it while its plan was being made.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub cancel: Option<CancelRecord>,
    /// When it ended.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub ended_at: Option<Timestamp>,
}

/// A wish to withdraw a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CancelRecord {
    /// Who.
    pub by: Actor,
    /// Why.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub reason: Option<String>,
    /// When.
    pub at: Timestamp,
}

impl Run {
    /// Takes a step of the run's life, if the table has it, at `now`.
    ///
    /// # Errors
    /// The table does not have it; the run is as it was.
    pub fn step(&mut self, to: Status, now: Timestamp) -> Result<(), TransitionError> {
        lifecycle::check(self.kind, self.status, to)?;
        self.status = to;
        self.updated_at = now;
        if to.is_terminal() {
            self.ended_at = Some(now);
        }
        Ok(())
    }

    /// Whether the gate's schedule proposed it, to look for drift (`R55`).
    #[must_use]
    pub fn looks_for_drift(&self) -> bool {
        self.origin == Origin::Drift && self.proposer == Proposer::drift()
    }

    /// The change outside of the gate that its plan has noticed, if it has.
    #[must_use]
    pub fn outside(&self) -> Option<&Outside> {
        match &self.compared {
            Some(Compared::ChangedOutside { change }) => Some(change),
            _ => None,
        }
    }

    /// The state that its plan has read, as a sighting that was taken in at `now`; none without a plan.
    #[must_use]
    pub fn sighting(&self, now: Timestamp) -> Option<Sighting> {
        let (state, run, phase) = (self.plan.as_ref()?.state.clone(), self.id.clone(), Phase::Plan);
        Some(Sighting { state, run, phase, from: self.plan_ordered_at?, to: now })
    }

    /// Whether a reviewer is asked about it, as a run of this `kind`, once the guardrails have found `outcome`: it is eligible, in
    /// a workspace that approves such runs without a person (`R31`, `R34`).
    #[must_use]
    pub fn is_to_be_reviewed(&self, kind: Kind, outcome: &GuardrailRecord) -> bool {
        let allowed = self.pinned.as_ref().is_some_and(|pinned| pinned.spec.automatic_approval);
        allowed && kind == Kind::Applicable && outcome.eligible
    }

    /// Whether its plan is dead at `now` (`R13`). A run without a plan has nothing that could be dead.
    #[must_use]
    pub fn plan_expired(&self, now: Timestamp) -> bool {
        self.plan.as_ref().is_some_and(|plan| plan.expires_at <= now)
    }
}

/// A failure with its one-line detail.
#[must_use]
pub fn failure(reason: FailureReason, detail: impl Into<String>) -> PhaseFailure {
    let detail: String = detail.into();
    let detail = detail.chars().map(|c| if c.is_control() { ' ' } else { c }).take(500).collect();
    PhaseFailure { reason, detail }
}
