//! What is measured of a gate: the closed vocabulary of metrics, and what an event tells of them.
//!
//! A metric is told apart by the gate and by at most one thing more, whose values are few: each combination is a metric that
//! costs money for as long as it is told. Runs and workspaces are properties, for whoever searches, and never dimensions.

mod events;
mod words;

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use crate::ids::{RunId, WorkspaceId};
use crate::lifecycle::Status;
use crate::run::{Choice, Run};

pub use events::measured;
pub use words::{Class, Doubt, Outcome, Phase};

/// The namespace of all metrics, of all gates of an account.
pub const NAMESPACE: &str = "plangate";
/// The dimension that every metric has: the gate's name.
pub const GATE: &str = "Gate";

macro_rules! metrics {
    ($($(#[doc = $doc:literal])+ $name:ident, $unit:ident, $by:expr, $total:literal;)*) => {
        /// What is measured. The names are stable: alarms and dashboards of others may be made of them.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        pub enum Metric {
            $($(#[doc = $doc])+ $name,)*
        }

        impl Metric {
            /// Every metric there is.
            pub const ALL: &'static [Self] = &[$(Self::$name,)*];

            /// Its name.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $(Self::$name => stringify!($name),)* }
            }

            /// Its unit.
            #[must_use]
            pub const fn unit(self) -> Unit {
                match self { $(Self::$name => Unit::$unit,)* }
            }

            /// What tells it apart beside the gate, if anything does.
            #[must_use]
            pub const fn by(self) -> Option<By> {
                match self { $(Self::$name => $by,)* }
            }

            /// Whether it is told for the gate as a whole, too. Of what has no [`By`] it always is.
            #[must_use]
            pub const fn total(self) -> bool {
                match self { $(Self::$name => $total,)* }
            }

            /// What it means, for people.
            #[must_use]
            pub const fn meaning(self) -> &'static str {
                match self { $(Self::$name => concat!($($doc),+),)* }
            }
        }
    };
}

metrics! {
    /// Runs that were proposed.
    RunsProposed, Count, None, true;
    /// Runs that ended, each counted once, by whoever ended it.
    RunsEnded, Count, Some(By::Status), true;
    /// Runs that failed, by whose affair it is.
    RunsFailed, Count, Some(By::Class), false;
    /// Runs that the sweeper had to end, since nobody else was left who would.
    RunsReaped, Count, None, true;
    /// How long a run took from its proposal to its end.
    TimeOfRun, Seconds, Some(By::Status), false;
    /// How long the gate, the engine or the reviewer worked on a phase of a run.
    TimeInPhase, Seconds, Some(By::Phase), false;
    /// How long a run waited: for its workspace's lock, from its proposal; for a decision of people, from its plan's receipt.
    TimeWaiting, Seconds, Some(By::Wait), false;
    /// Outcomes of the guardrails.
    GuardrailOutcomes, Count, Some(By::Eligibility), false;
    /// What came of asking a reviewer.
    Reviews, Count, Some(By::Outcome), false;
    /// Decisions that had effect, those of nobody among them.
    Decisions, Count, Some(By::Choice), false;
    /// Requests that the gate refused, by the reason that it gave.
    Refusals, Count, Some(By::Reason), true;
    /// Requests to the address for Slack that were not taken for what somebody did in Slack.
    CallbacksRefused, Count, Some(By::Doubt), true;
    /// Runs of which people could not be told.
    NotificationsFailed, Count, None, true;
    /// Workspaces that were closed, since nobody knows what a run has applied.
    LocksClosed, Count, None, true;
    /// Calls of a function that ended with an error by which a workflow waits or turns, such as `Frozen`: no failure.
    StepsPutOff, Count, Some(By::Function), false;
    /// Calls of a function that ended with an error of its own that is a failure; what died without one is Lambda's to count.
    FunctionFailures, Count, Some(By::Function), false;
    /// Sweeps over all open runs that came to their end.
    Sweeps, Count, None, true;
    /// Runs that a sweep could not see to; the next one looks again.
    RunsNotSeenTo, Count, None, true;
    /// Open runs whose record, or whose lock's, is not what this code writes: they cannot go on until somebody has looked.
    ItemsUnreadable, Count, None, true;
    /// Open runs, at a sweep.
    RunsOpen, Count, None, true;
    /// Runs that wait in line, at a sweep.
    RunsInLine, Count, None, true;
    /// Runs in the longest line of a workspace, at a sweep.
    LongestLine, Count, None, true;
    /// How long the lock that is held longest has been held since the plan of its run was ordered, at a sweep.
    LockHeldLongest, Seconds, None, true;
    /// For how long, at a sweep, a run has held its workspace's lock past the moment by which it should have gone on: the end of its
    /// plan's life, or of the time that its task may take; of all runs the longest.
    LockOverdue, Seconds, None, true;
    /// How old an audit event was when it came to the archive by the table's stream: the oldest of a batch.
    ArchiveLag, Seconds, None, true;
    /// Audit events that the stream had not brought to the archive, and the backfill did.
    AuditGaps, Count, None, true;
    /// Audit events that were changed, replaced or removed.
    AuditTampering, Count, None, true;
}

/// A unit, by the name that CloudWatch has for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Unit {
    /// Things.
    Count,
    /// Time.
    Seconds,
}

/// What tells a metric apart beside the gate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum By {
    /// A terminal status.
    Status,
    /// A class of failures.
    Class,
    /// A phase of a run.
    Phase,
    /// What was waited for.
    Wait,
    /// What the guardrails found.
    Eligibility,
    /// What came of a review.
    Outcome,
    /// What was decided.
    Choice,
    /// The stable reason of a refusal.
    Reason,
    /// Why a callback was doubted.
    Doubt,
    /// A function.
    Function,
}

impl By {
    /// The dimension's name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Status => "Status",
            Self::Class => "Class",
            Self::Phase => "Phase",
            Self::Wait => "For",
            Self::Eligibility | Self::Outcome => "Outcome",
            Self::Choice => "Choice",
            Self::Reason | Self::Doubt => "Reason",
            Self::Function => "Function",
        }
    }

    /// The values that it has; none where another room has their list.
    #[must_use]
    pub fn values(self) -> Option<Vec<&'static str>> {
        Some(match self {
            Self::Status => Status::ALL.iter().filter(|s| s.is_terminal()).map(|s| s.as_str()).collect(),
            Self::Class => Class::ALL.iter().map(|class| class.as_str()).collect(),
            Self::Phase => Phase::ALL.iter().map(|phase| phase.as_str()).collect(),
            Self::Wait => vec![LINE, DECISION],
            Self::Eligibility => vec![ELIGIBLE, INELIGIBLE],
            Self::Outcome => Outcome::ALL.iter().map(|outcome| outcome.as_str()).collect(),
            Self::Choice => vec![choice(Choice::Approve), choice(Choice::Reject)],
            Self::Doubt => Doubt::ALL.iter().map(|doubt| doubt.as_str()).collect(),
            Self::Reason | Self::Function => return None,
        })
    }
}

const LINE: &str = "line";
const DECISION: &str = "decision";
const ELIGIBLE: &str = "eligible";
const INELIGIBLE: &str = "ineligible";

const fn choice(choice: Choice) -> &'static str {
    match choice {
        Choice::Approve => "approve",
        Choice::Reject => "reject",
    }
}

/// A measurement: so much of a metric, and of what. Identifiers and stable words, never a value of the estate.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Measurement {
    /// Of what.
    pub metric: Metric,
    /// How much, in the metric's unit.
    pub value: f64,
    /// What tells it apart: the value of the dimension that [`Metric::by`] names.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub by: Option<Cow<'static, str>>,
    /// The run that it is about, where it is about one.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub run: Option<RunId>,
    /// The workspace that it is about, where it is about one.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub workspace: Option<WorkspaceId>,
    /// The stable code that it comes from, where it is finer than what tells it apart.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub code: Option<Cow<'static, str>>,
}

impl Measurement {
    /// So many of what is told for the gate as a whole alone.
    #[must_use]
    pub const fn of(metric: Metric, value: f64) -> Self {
        Self { metric, value, by: None, run: None, workspace: None, code: None }
    }

    /// One, or so many seconds, of what is told apart.
    #[must_use]
    pub const fn by(metric: Metric, value: f64, by: &'static str) -> Self {
        Self { metric, value, by: Some(Cow::Borrowed(by)), run: None, workspace: None, code: None }
    }

    /// A request that was refused for a stable reason.
    #[must_use]
    pub const fn refusal(reason: &'static str) -> Self {
        Self::by(Metric::Refusals, 1.0, reason)
    }

    /// A callback that was doubted.
    #[must_use]
    pub const fn doubt(doubt: Doubt) -> Self {
        Self::by(Metric::CallbacksRefused, 1.0, doubt.as_str())
    }

    /// A call of a function that ended with the error of this name, which either is a failure or puts a step off.
    #[must_use]
    pub fn of_call(function: String, error: &'static str, puts_off: bool) -> Self {
        let metric = if puts_off { Metric::StepsPutOff } else { Metric::FunctionFailures };
        let (by, code) = (Some(Cow::Owned(function)), Some(Cow::Borrowed(error)));
        Self { metric, value: 1.0, by, run: None, workspace: None, code }
    }

    fn about(mut self, run: &Run) -> Self {
        self.run = Some(run.id.clone());
        self.workspace = Some(run.workspace.clone());
        self
    }

    fn with_code(mut self, code: &'static str) -> Self {
        self.code = Some(Cow::Borrowed(code));
        self
    }
}

#[cfg(test)]
mod tests;
