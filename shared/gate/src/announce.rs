//! What other systems are told of a run: one announcement for each change of its status (`R54`). Identifiers, counts,
//! digests and codes, and nothing else: no address, no value, no text or name of a person.
//!
//! It is made of the run's chain of events and of what is fixed in its record. So the same event is always told in the
//! same words, whenever that is, and what is told twice has one id.

use serde::{Deserialize, Serialize};

use crate::audit::{AuditEvent, What};
use crate::digest::Digest;
use crate::failure::FailureReason;
use crate::ids::{RunId, WorkspaceId};
use crate::lifecycle::Status;
use crate::run::{ChainHead, Choice, Counts, Kind, Origin, Run};
use crate::time::Timestamp;

/// Who tells it, as rules match it.
pub const SOURCE: &str = "plangate";

/// The one schema of announcements.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum AnnouncementSchema {
    /// The first.
    #[serde(rename = "plangate.run-status.v1")]
    V1,
}

/// A change of a run's status.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Announcement {
    /// Always `plangate.run-status.v1`.
    pub schema: AnnouncementSchema,
    /// The same however often this change is told: `RUN:SEQ`.
    pub id: String,
    /// The run.
    pub run: RunId,
    /// Its workspace.
    pub workspace: WorkspaceId,
    /// Whether it may ever be applied.
    pub kind: Kind,
    /// What it came from.
    pub origin: Origin,
    /// Where it stood before; none of a run that begins.
    pub before: Option<Status>,
    /// Where it stands since.
    pub after: Status,
    /// When it changed.
    pub at: Timestamp,
    /// The digest of its projection, once there is one: what is decided on.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub projection: Option<Digest>,
    /// The projection's counts.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub counts: Option<Counts>,
    /// Why it failed, if it did.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub failure: Option<FailureReason>,
    /// The place and digest of the audit event that this was made of.
    pub event: ChainHead,
}

impl Announcement {
    /// What rules match besides the source: one for each status.
    #[must_use]
    pub const fn detail_type(&self) -> &'static str {
        detail_type(self.after)
    }
}

/// The detail-type under which runs that come to `status` are told.
#[must_use]
pub const fn detail_type(status: Status) -> &'static str {
    match status {
        Status::Proposed => "Run proposed",
        Status::Queued => "Run queued",
        Status::Planning => "Run planning",
        Status::Evaluating => "Run evaluating",
        Status::Reviewing => "Run reviewing",
        Status::AwaitingApproval => "Run awaiting approval",
        Status::Approved => "Run approved",
        Status::Applying => "Run applying",
        Status::NoChanges => "Run without changes",
        Status::Planned => "Run planned",
        Status::Applied => "Run applied",
        Status::Rejected => "Run rejected",
        Status::Expired => "Run expired",
        Status::Failed => "Run failed",
        Status::Canceled => "Run canceled",
    }
}

/// Goes along a run's chain from its first event on, and tells each change of its status.
#[derive(Debug)]
pub struct Announcer<'a> {
    run: &'a Run,
    kind: Kind,
    origin: Origin,
    status: Option<Status>,
    projection: Option<Digest>,
    counts: Option<Counts>,
}

impl<'a> Announcer<'a> {
    /// At the beginning of the chain of `run`. Of its record only that is used which never changes once it is there.
    #[must_use]
    pub const fn new(run: &'a Run) -> Self {
        Self { run, kind: run.kind, origin: run.origin, status: None, projection: None, counts: None }
    }

    /// Takes the next event, whose bytes have this digest. Gives what it has changed, if it has changed the status.
    pub fn next(&mut self, event: &AuditEvent, digest: Digest) -> Option<Announcement> {
        let mut failure = None;
        let after = match &event.what {
            What::RunProposed { kind, origin, .. } => {
                (self.kind, self.origin) = (*kind, *origin);
                Status::Proposed
            }
            What::RunQueued { .. } => Status::Queued,
            What::RunAdmitted { .. } => Status::Planning,
            What::PlanReceived { .. } => Status::Evaluating,
            What::PlanProjected { projection, counts, .. } => {
                (self.projection, self.counts) = (Some(*projection), Some(*counts));
                return None;
            }
            What::GuardrailsEvaluated { outcome } if self.run.is_to_be_reviewed(self.kind, outcome) => {
                Status::Reviewing
            }
            What::ApprovalRequested { .. } => Status::AwaitingApproval,
            What::Decided { decision } if decision.choice == Choice::Approve => Status::Approved,
            What::ApplyOrdered { .. } => Status::Applying,
            What::RunEnded { status, failure: why, .. } => {
                failure = why.as_ref().map(|why| why.reason);
                *status
            }
            // A rejection ends the run, and the end is told by itself.
            What::GuardrailsEvaluated { .. }
            | What::Decided { .. }
            | What::PlanOrdered { .. }
            | What::Reviewed { .. }
            | What::DecisionWithoutEffect { .. }
            | What::ApplyReceived { .. }
            | What::NotificationFailed { .. }
            | What::CancelRequested { .. }
            | What::RunAnnotated { .. }
            | What::RunOpened { .. }
            | What::RunClosed { .. }
            | What::LockQuarantined { .. }
            | What::LockAcknowledged { .. }
            | What::ChangedOutsideGate { .. }
            | What::DriftFound { .. }
            | What::DriftGone { .. }
            | What::DriftNotSeen { .. }
            | What::Frozen { .. }
            | What::FreezeLifted { .. }
            | What::DocumentChanged { .. }
            | What::AutomaticApprovalSwitchedOn { .. }
            | What::StrangerRefused { .. }
            | What::StrangersLeftOut { .. } => return None,
        };
        let before = self.status.replace(after);
        Some(Announcement {
            schema: AnnouncementSchema::V1,
            id: format!("{}:{}", self.run.id, event.seq),
            run: self.run.id.clone(),
            workspace: self.run.workspace.clone(),
            kind: self.kind,
            origin: self.origin,
            before,
            after,
            at: event.at,
            projection: self.projection,
            counts: self.counts,
            failure,
            event: ChainHead { seq: event.seq, digest },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_status_is_told_under_a_name_of_its_own() {
        let mut names: Vec<_> = Status::ALL.iter().map(|status| detail_type(*status)).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), Status::ALL.len());
        assert!(names.iter().all(|name| name.starts_with("Run ") && name.len() <= 128));
    }

    #[test]
    fn what_is_documented_is_what_is_told() {
        let document = include_str!("../../../docs/notifications.md");
        for status in Status::ALL {
            assert!(document.contains(&format!("`{}`", detail_type(*status))), "{status}");
        }
        let example = document.split("```json\n").nth(1).unwrap().split("```").next().unwrap();
        let read: Announcement = crate::untrusted::parse("example", example.as_bytes(), 4096).unwrap();
        let fields = |json: &str| -> Vec<String> {
            let value: serde_json::Value = serde_json::from_str(json).unwrap();
            value.as_object().unwrap().keys().cloned().collect()
        };
        assert_eq!(fields(&serde_json::to_string(&read).unwrap()), fields(example), "no field is left out");
        assert_eq!(read.id, format!("{}:{}", read.run, read.event.seq));
    }
}
