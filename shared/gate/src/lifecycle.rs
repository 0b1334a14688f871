//! The life of a run: a closed set of statuses and the one table of allowed transitions (`R2`).

use serde::{Deserialize, Serialize};

use crate::run::Kind;

/// Where a run stands. The set is closed; the last seven are terminal and never left (`R2`, `R6`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// Recorded; its workflow is about to look at it.
    Proposed,
    /// In the line for its workspace's lock.
    Queued,
    /// The engine is planning. An applicable run holds the lock from here until its end.
    Planning,
    /// There is a plan; it is being projected and judged.
    Evaluating,
    /// Eligible, and a reviewer looks at it.
    Reviewing,
    /// A person is asked.
    AwaitingApproval,
    /// Somebody who may said yes.
    Approved,
    /// The apply order is written.
    Applying,
    /// The plan changes nothing (`R14`).
    NoChanges,
    /// A plan-only run has its projection and its guardrail outcome.
    Planned,
    /// The approved plan was applied.
    Applied,
    /// Somebody who may said no.
    Rejected,
    /// Nobody decided while the plan lived (`R13`).
    Expired,
    /// Something went wrong; the record says what.
    Failed,
    /// Withdrawn before it was applied.
    Canceled,
}

impl Status {
    /// Every status there is.
    pub const ALL: &'static [Self] = &[
        Self::Proposed,
        Self::Queued,
        Self::Planning,
        Self::Evaluating,
        Self::Reviewing,
        Self::AwaitingApproval,
        Self::Approved,
        Self::Applying,
        Self::NoChanges,
        Self::Planned,
        Self::Applied,
        Self::Rejected,
        Self::Expired,
        Self::Failed,
        Self::Canceled,
    ];

    /// Whether a run ends here.
    #[must_use]
    pub const fn is_terminal(self) -> bool {
        matches!(
            self,
            Self::NoChanges
                | Self::Planned
                | Self::Applied
                | Self::Rejected
                | Self::Expired
                | Self::Failed
                | Self::Canceled
        )
    }

    /// Whether an applicable run holds its workspace's lock here (`R3`).
    #[must_use]
    pub const fn holds_lock(self) -> bool {
        matches!(
            self,
            Self::Planning
                | Self::Evaluating
                | Self::Reviewing
                | Self::AwaitingApproval
                | Self::Approved
                | Self::Applying
        )
    }

    /// The status as it is stored.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Proposed => "proposed",
            Self::Queued => "queued",
            Self::Planning => "planning",
            Self::Evaluating => "evaluating",
            Self::Reviewing => "reviewing",
            Self::AwaitingApproval => "awaiting_approval",
            Self::Approved => "approved",
            Self::Applying => "applying",
            Self::NoChanges => "no_changes",
            Self::Planned => "planned",
            Self::Applied => "applied",
            Self::Rejected => "rejected",
            Self::Expired => "expired",
            Self::Failed => "failed",
            Self::Canceled => "canceled",
        }
    }
}

impl std::fmt::Display for Status {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The one table: from, to, and whether a plan-only run may take the step. What is not in it does not happen. Any run may
/// fail from wherever it is: also one whose record was made plan-only where a plan-only run never comes to.
pub const TRANSITIONS: &[(Status, Status, bool)] = {
    use Status as S;
    &[
        (S::Proposed, S::Queued, false),
        (S::Proposed, S::Planning, true),
        (S::Proposed, S::Failed, true),
        (S::Proposed, S::Canceled, true),
        (S::Queued, S::Planning, false),
        (S::Queued, S::Failed, true),
        (S::Queued, S::Canceled, false),
        (S::Planning, S::Evaluating, true),
        (S::Planning, S::Failed, true),
        (S::Planning, S::Canceled, true),
        (S::Evaluating, S::NoChanges, true),
        (S::Evaluating, S::Planned, true),
        (S::Evaluating, S::Reviewing, false),
        (S::Evaluating, S::AwaitingApproval, false),
        (S::Evaluating, S::Failed, true),
        (S::Evaluating, S::Expired, false),
        (S::Evaluating, S::Canceled, true),
        (S::Reviewing, S::AwaitingApproval, false),
        (S::Reviewing, S::Approved, false),
        (S::Reviewing, S::Failed, true),
        (S::Reviewing, S::Expired, false),
        (S::Reviewing, S::Canceled, false),
        (S::AwaitingApproval, S::Approved, false),
        (S::AwaitingApproval, S::Rejected, false),
        (S::AwaitingApproval, S::Expired, false),
        (S::AwaitingApproval, S::Failed, true),
        (S::AwaitingApproval, S::Canceled, false),
        (S::Approved, S::Applying, false),
        (S::Approved, S::Expired, false),
        (S::Approved, S::Failed, true),
        (S::Approved, S::Canceled, false),
        (S::Applying, S::Applied, false),
        (S::Applying, S::Failed, true),
    ]
};

/// A step that the table does not have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a run of kind `{kind}` does not go from `{from}` to `{to}`")]
pub struct TransitionError {
    /// The run's kind.
    pub kind: Kind,
    /// Where it stands.
    pub from: Status,
    /// Where it was to go.
    pub to: Status,
}

/// Checks a step against the table (`R2`, `R6`, `R7`): a terminal status is never left, a plan-only run never reaches
/// approval or apply.
///
/// # Errors
/// The step is not in the table.
pub fn check(kind: Kind, from: Status, to: Status) -> Result<(), TransitionError> {
    let allowed =
        TRANSITIONS.iter().any(|(f, t, plan_only)| *f == from && *t == to && (kind == Kind::Applicable || *plan_only));
    // `planned` is what a plan-only run ends as; an applicable one goes on to be decided.
    if allowed && !(kind == Kind::Applicable && to == Status::Planned) {
        Ok(())
    } else {
        Err(TransitionError { kind, from, to })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reachable(kind: Kind) -> Vec<Status> {
        let mut seen = vec![Status::Proposed];
        let mut next = 0;
        while next < seen.len() {
            let from = seen[next];
            next += 1;
            for to in Status::ALL {
                if check(kind, from, *to).is_ok() && !seen.contains(to) {
                    seen.push(*to);
                }
            }
        }
        seen
    }

    #[test]
    fn a_terminal_status_is_never_left_and_every_other_can_end() {
        for kind in [Kind::Applicable, Kind::PlanOnly] {
            for from in reachable(kind) {
                let exits = Status::ALL.iter().filter(|to| check(kind, from, **to).is_ok()).count();
                assert_eq!(exits == 0, from.is_terminal(), "{kind} {from}");
                if !from.is_terminal() {
                    assert!(check(kind, from, Status::Failed).is_ok(), "{kind} {from} cannot fail");
                }
            }
        }
    }

    #[test]
    fn a_run_can_fail_wherever_it_is_whatever_its_record_says_of_its_kind() {
        for from in Status::ALL.iter().filter(|status| !status.is_terminal()) {
            for kind in [Kind::Applicable, Kind::PlanOnly] {
                assert!(check(kind, *from, Status::Failed).is_ok(), "{kind} {from}");
            }
        }
    }

    #[test]
    fn a_plan_only_run_cannot_be_approved_or_applied_under_any_input() {
        let reached = reachable(Kind::PlanOnly);
        for never in [
            Status::Queued,
            Status::Reviewing,
            Status::AwaitingApproval,
            Status::Approved,
            Status::Applying,
            Status::Applied,
        ] {
            assert!(!reached.contains(&never), "plan-only reached {never}");
        }
        assert!(!reachable(Kind::Applicable).contains(&Status::Planned));
    }

    #[test]
    fn nothing_is_applied_that_was_not_approved() {
        let before: Vec<_> =
            Status::ALL.iter().filter(|s| check(Kind::Applicable, **s, Status::Applying).is_ok()).collect();
        assert_eq!(before, [&Status::Approved]);
        let before: Vec<_> =
            Status::ALL.iter().filter(|s| check(Kind::Applicable, **s, Status::Applied).is_ok()).collect();
        assert_eq!(before, [&Status::Applying]);
        assert!(
            check(Kind::Applicable, Status::Applying, Status::Canceled).is_err(),
            "cancel is refused once applying"
        );
    }

    #[test]
    fn the_stored_word_is_the_displayed_one() {
        for status in Status::ALL {
            assert_eq!(serde_json::to_string(status).unwrap(), format!("\"{status}\""));
        }
    }
}
