//! What has been seen of the runs, and what must always be so.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use plangate_gate::ids::{RunId, WorkspaceId};
use plangate_gate::lifecycle::Status;
use plangate_gate::run::{Kind, Run};

/// What has been seen so far.
#[derive(Default)]
pub(crate) struct Seen {
    /// Where each run stands.
    pub(crate) runs: BTreeMap<RunId, Run>,
    /// Where each has stood, one status after the other.
    pub(crate) lives: BTreeMap<RunId, Vec<Status>>,
    /// Who holds each workspace's lock.
    pub(crate) holders: BTreeMap<WorkspaceId, RunId>,
    /// Who waits in each line.
    pub(crate) lines: BTreeMap<WorkspaceId, VecDeque<RunId>>,
    /// The last fence of each workspace.
    pub(crate) fences: BTreeMap<WorkspaceId, u64>,
    /// How often an engine was started for each run's apply.
    pub(crate) engines: BTreeMap<RunId, u32>,
    /// Whose engine runs now.
    pub(crate) running: BTreeSet<RunId>,
}

impl Seen {
    /// Takes in that a run is now so.
    pub(crate) fn see(&mut self, run: Run) {
        let before = self.runs.get(&run.id).map_or(Status::Proposed, |run| run.status);
        let (id, workspace, after) = (run.id.clone(), run.workspace.clone(), run.status);
        assert!(!before.is_terminal(), "{id} was `{before}` and is `{after}`: an end is never left");
        assert!(!(after.is_terminal() && self.running.contains(&id)), "{id} has ended, and its engine runs");
        if run.kind == Kind::Applicable {
            let line = self.lines.entry(workspace.clone()).or_default();
            match (before, after) {
                (Status::Proposed, Status::Queued) => line.push_back(id.clone()),
                (Status::Queued, after) if after.is_terminal() => line.retain(|each| *each != id),
                _ => {}
            }
            if !before.holds_lock() && after.holds_lock() {
                if before == Status::Queued {
                    assert_eq!(line.pop_front().as_ref(), Some(&id), "who came first is granted the lock first");
                } else {
                    assert!(line.is_empty(), "{id} has passed by those who wait in line");
                }
                let fence = self.fences.entry(workspace.clone()).or_default();
                *fence += 1;
                assert_eq!(run.fence, *fence, "each grant has the next fence");
                let other = self.holders.insert(workspace, id.clone());
                assert_eq!(other, None, "{id} was granted a lock that somebody holds");
            } else if before.holds_lock() && !after.holds_lock() {
                assert_eq!(self.holders.remove(&workspace).as_ref(), Some(&id));
            }
        }
        let life = self.lives.entry(id.clone()).or_default();
        if life.last() != Some(&after) {
            life.push(after);
        }
        self.runs.insert(id, run);
    }
}
