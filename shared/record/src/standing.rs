//! How a gate stands at a sweep: how many runs are open, how long its lines are, and how long a lock has been held.

use std::collections::BTreeMap;

use plangate_gate::ids::WorkspaceId;
use plangate_gate::lifecycle::Status;
use plangate_gate::measure::{Measurement, Metric};
use plangate_gate::run::{Kind, Run};
use plangate_gate::time::Timestamp;

/// What a sweep has seen of the open runs, each as it was before anything was done about it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Standing {
    open: u32,
    lines: BTreeMap<WorkspaceId, u32>,
    held_longest: u32,
    overdue: u32,
}

/// How long a task of a run may take in seconds, and the machine lets it (`statemachine/run.asl.json`).
const TASK_SECONDS: u32 = 3600;

/// The moment by which a run that holds its lock should have gone on; none where nothing has begun yet.
fn due(run: &Run) -> Option<Timestamp> {
    let ordered = |at: Timestamp| at.plus_seconds(TASK_SECONDS);
    match run.status {
        Status::Applying => run.apply.as_ref().map(|apply| ordered(apply.ordered_at)),
        Status::Planning => run.plan_ordered_at.map(ordered),
        _ => run.plan.as_ref().map(|plan| plan.expires_at),
    }
}

impl Standing {
    /// Takes an open run in.
    pub(crate) fn take(&mut self, run: &Run, now: Timestamp) {
        self.open += 1;
        if run.status == Status::Queued {
            *self.lines.entry(run.workspace.clone()).or_default() += 1;
        }
        if run.kind == Kind::Applicable && run.status.holds_lock() {
            let since = run.plan_ordered_at.unwrap_or(run.updated_at);
            self.held_longest = self.held_longest.max(since.seconds_until(now));
            self.overdue = self.overdue.max(due(run).map_or(0, |due| due.seconds_until(now)));
        }
    }

    /// What there is to tell of it, also where it is nothing: who does not tell has not swept.
    pub(crate) fn measured(&self) -> [Measurement; 6] {
        [
            (Metric::Sweeps, 1),
            (Metric::RunsOpen, self.open),
            (Metric::RunsInLine, self.lines.values().sum()),
            (Metric::LongestLine, self.lines.values().copied().max().unwrap_or_default()),
            (Metric::LockHeldLongest, self.held_longest),
            (Metric::LockOverdue, self.overdue),
        ]
        .map(|(metric, value)| Measurement::of(metric, f64::from(value)))
    }
}
