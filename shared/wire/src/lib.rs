//! The words of the API: requests, answers and refusals, as the command line sends and the gate reads them.
//!
//! Requests deny unknown fields; answers are open to new ones, so that an older command line goes on working.

mod reason;

pub use reason::{ApiError, ApiErrorBody, Reason};

use plangate_gate::digest::Digest;
use plangate_gate::documents::DocumentKind;
use plangate_gate::drift::Finding;
use plangate_gate::ids::{Person, RequestId, RunId, WorkspaceId};
use plangate_gate::known::Sighting;
use plangate_gate::lifecycle::Status;
use plangate_gate::run::{Actor, Choice, DecisionRecord, Kind, Origin, Run};
use plangate_gate::time::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

/// `POST /v1/bundles`: where to put a bundle (`R4`).
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BundleRequest {
    /// The workspace that it is proposed for.
    pub workspace: WorkspaceId,
    /// The archive's digest.
    pub digest: Digest,
    /// The archive's size in bytes.
    pub bytes: u64,
}

/// Where a bundle goes: one `PUT` of exactly those bytes.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct BundleAnswer {
    /// Whether the very bundle is there already: nothing to upload.
    pub present: bool,
    /// The presigned address, if it is not.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub url: Option<String>,
    /// The headers that the signature covers; they must be sent as they are.
    #[serde(default)]
    pub headers: Vec<(String, String)>,
}

/// `POST /v1/runs`: a proposal.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProposeRequest {
    /// Sent again, the same request gives the same run.
    pub request_id: RequestId,
    /// The workspace.
    pub workspace: WorkspaceId,
    /// Whether the run may ever be applied (`R7`).
    pub kind: Kind,
    /// The bundle's digest; it was uploaded before.
    pub bundle: Digest,
    /// What the run came from.
    #[serde(default)]
    pub origin: Origin,
    /// The run that it was derived from.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub derived_from: Option<RunId>,
    /// The person whom a bot speaks for.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub on_behalf_of: Option<Person>,
}

/// A run, with what to do about a failure.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct RunView {
    /// The record.
    #[serde(flatten)]
    pub run: Run,
    /// What to do next, where the run ended badly.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub next_step: Option<String>,
    /// The freezes that the run waits behind; told of one run that is asked for, and not in lists.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub frozen: Vec<FreezeView>,
}

impl From<Run> for RunView {
    fn from(run: Run) -> Self {
        let next_step = run.failure.as_ref().map(|failure| failure.reason.next_step().to_owned());
        Self { run, next_step, frozen: Vec::new() }
    }
}

/// The answer that holds one run.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct RunAnswer {
    /// The run.
    pub run: RunView,
}

/// A page of runs, newest first.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct RunsAnswer {
    /// The runs.
    pub runs: Vec<RunView>,
    /// Where the next page begins; none: this was the last.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub cursor: Option<String>,
}

/// A projection: its exact bytes, or where to fetch them when they are many.
#[derive(Debug, Serialize, Deserialize)]
pub struct ProjectionAnswer {
    /// The digest over the exact bytes; a decision names it.
    pub digest: Digest,
    /// How many bytes.
    pub bytes: u64,
    /// The bytes.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub projection: Option<Box<RawValue>>,
    /// A presigned address, for more than five million bytes.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub url: Option<String>,
}

/// A page of a phase's log.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct LogAnswer {
    /// The lines.
    pub lines: Vec<String>,
    /// Where to go on; none once everything there will ever be was read.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub cursor: Option<String>,
    /// Whether the log is whole: the phase has ended and nothing follows.
    pub complete: bool,
}

/// One audit event: exact bytes and recorded digest.
#[derive(Debug, Serialize, Deserialize)]
pub struct EventView {
    /// The canonical bytes.
    pub event: Box<RawValue>,
    /// Their digest, as recorded.
    pub digest: Digest,
}

/// A page of a run's audit chain, from its first event on.
#[derive(Debug, Serialize, Deserialize)]
pub struct AuditAnswer {
    /// The events.
    pub events: Vec<EventView>,
    /// Where the next page begins.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub cursor: Option<String>,
}

/// `POST /v1/runs/{id}/decision`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DecisionRequest {
    /// What.
    pub decision: Choice,
    /// The digest of the projection that was seen.
    pub projection: Digest,
    /// Why; asked for with a rejection.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub reason: Option<String>,
}

/// The decision that now stands.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct DecisionAnswer {
    /// The run.
    pub run: RunView,
    /// The decision.
    pub decision: DecisionRecord,
}

/// `POST /v1/runs/{id}/cancel`.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CancelRequest {
    /// Why.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub reason: Option<String>,
}

/// `POST /v1/runs/{id}/annotations`: a note to what is recorded of a run, ended or not (`R6`).
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AnnotateRequest {
    /// Sent again, it is noted once.
    pub request_id: RequestId,
    /// What there is to say: one line of 1 to 1,000 characters.
    pub note: String,
    /// The event of the run's chain that it corrects.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub corrects: Option<u64>,
}

/// A note to what is recorded of a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AnnotationView {
    /// Its place in the run's chain.
    pub seq: u64,
    /// Who noted it.
    pub by: Actor,
    /// When.
    pub at: Timestamp,
    /// What they have to say.
    pub note: String,
    /// The event that it corrects.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub corrects: Option<u64>,
}

/// The answer that holds one note.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct AnnotationAnswer {
    /// The run.
    pub run: RunId,
    /// The note.
    pub annotation: AnnotationView,
}

/// `PUT /v1/{kind}s/{id}`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DocumentPut {
    /// The etag that was read; none for a document that is new.
    pub etag: Option<String>,
    /// Sent again, the same request gives the first answer.
    pub request_id: RequestId,
    /// The whole path, without the commit.
    #[serde(default)]
    pub validate_only: bool,
    /// Where it belongs, for people.
    pub namespace: String,
    /// Who answers for it.
    pub owner: String,
    /// What it says.
    pub spec: serde_json::Value,
}

/// A document.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Document {
    /// Its kind.
    pub kind: DocumentKind,
    /// Its id.
    pub id: String,
    /// Where it belongs.
    pub namespace: String,
    /// Who answers for it.
    pub owner: String,
    /// Names exactly this state of it.
    pub etag: String,
    /// What it says.
    pub spec: serde_json::Value,
    /// A workspace's lock: who holds it, who waits.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub lock: Option<LockView>,
    /// What is known of a workspace's state.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub known: Option<KnownView>,
    /// How a workspace stands with drift.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub drift: Option<DriftView>,
}

/// A workspace's lock, for people.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LockView {
    /// `free`, `held` or `quarantined`.
    pub state: String,
    /// The run that holds it or closed it.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub run: Option<RunId>,
    /// The fence.
    pub fence: u64,
    /// How many wait.
    pub waiting: u64,
    /// The freezes that stand over the workspace: its own, the gate's.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub frozen: Vec<FreezeView>,
    /// Since when it is closed, or held by a run that has ended.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub since: Option<Timestamp>,
    /// Why it is closed, as a stable code.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub reason: Option<String>,
    /// The same in a line for people.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub detail: Option<String>,
    /// What is known of it, and where it stands.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub evidence: Vec<Evidence>,
    /// What to do, where something is to be done.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub next_step: Option<String>,
    /// The same, one by one, each with its command.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub steps: Vec<Step>,
}

/// Something that is known, and where it stands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Evidence {
    /// What it is, in words.
    pub what: String,
    /// An object's address, a state's identity, or a line.
    pub value: String,
}

/// Something to do, or to ask.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Step {
    /// What it is for, in words.
    pub what: String,
    /// The command, or the query.
    pub command: String,
}

/// What is known of a workspace's state, for people (`R56`).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct KnownView {
    /// The state as it was last seen; none until a plan has read it.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub seen: Option<Sighting>,
    /// The run of whose apply nobody knows what it did, until somebody has looked.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub unsettled: Option<RunId>,
    /// The last change that was none of the gate's.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub outside: Option<OutsideView>,
}

/// A change that was none of the gate's, and how to find who made it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OutsideView {
    /// What the gate knew, and when it was last seen.
    pub before: Sighting,
    /// What stands there instead, and the run that noticed.
    pub after: Sighting,
    /// What to ask CloudTrail.
    pub who: Vec<Step>,
}

/// How a workspace stands with drift, for people (`R55`).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DriftView {
    /// How often it is looked at, in hours; none: not any more.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub hours: Option<u16>,
    /// The run that looked last, or looks.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub run: Option<RunId>,
    /// Where that run stands.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub status: Option<Status>,
    /// Why it failed, as a stable code.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub failure: Option<String>,
    /// When the next look is due; the schedule comes by every quarter of an hour.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub due: Option<Timestamp>,
    /// When a look last said something.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub looked_at: Option<Timestamp>,
    /// What has drifted.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub finding: Option<Finding>,
    /// Why nothing can be looked at, where that is so.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub note: Option<String>,
}

/// What a freeze is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FreezeScope {
    /// The gate as a whole.
    Gate,
    /// One workspace.
    Workspace,
}

/// A freeze that stands, for people.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FreezeView {
    /// Of what.
    pub scope: FreezeScope,
    /// Who froze.
    pub by: String,
    /// When.
    pub at: Timestamp,
    /// Why.
    pub reason: String,
    /// The command that lifts it.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub lift: Option<String>,
}

/// `POST /v1/freeze`, `/v1/unfreeze`, and the same of a workspace: `POST /v1/workspaces/{id}/freeze`, `.../unfreeze`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FreezeRequest {
    /// Sent again, it changes nothing more.
    pub request_id: RequestId,
    /// Why.
    pub reason: String,
}

/// The gate as a whole.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GateAnswer {
    /// The freeze, if one stands.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub frozen: Option<FreezeView>,
}

/// The answer that holds one document.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct DocumentAnswer {
    /// The document.
    pub document: Document,
    /// Whether it was written (`false`: read, or only validated).
    pub committed: bool,
}

/// A page of documents.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct DocumentsAnswer {
    /// The documents.
    pub documents: Vec<Document>,
    /// Where the next page begins.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub cursor: Option<String>,
}

/// `POST /v1/workspaces/{id}/acknowledge`: somebody has looked at the estate after an unknown outcome.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AcknowledgeRequest {
    /// Sent again, it changes nothing more.
    pub request_id: RequestId,
    /// A plan-only run that has ended `planned` or `no_changes` since, and so recorded the state's identity.
    pub run: RunId,
    /// What was found.
    pub note: String,
}
