//! Looking for drift: on a schedule, workspaces that ask for it get an ordinary plan-only run of the configuration that was last
//! applied there (`R55`), and what it finds is told once, until it is another.
//!
//! When a workspace was last looked at stands in an item of its own, written with the proposal in one transaction: so whoever
//! dies anywhere, and whoever looks at the same time, leaves one run and no second.

use plangate_gate::audit::What;
use plangate_gate::drift::{Drift, DriftWord, LastLook};
use plangate_gate::failure::FailureReason;
use plangate_gate::ids::{RunId, WorkspaceId};
use plangate_gate::known::Compared;
use plangate_gate::lifecycle::Status;
use plangate_gate::run::{Actor, Kind, Origin, Proposer, Run};
use plangate_gate::time::Timestamp;
use serde::Serialize;

use crate::attempt::Attempts;
use crate::documents;
use crate::error::Error;
use crate::freeze;
use crate::known::{KnownRow, applying};
use crate::objects::Objects;
use crate::propose::{self, Proposal};
use crate::rows::{RunRow, read, write};
use crate::store::{Item, Key, Store, StoreError, Write};
use crate::workflow::Workflow;

/// How many runs one call proposes at most; who has waited longest comes first, and the next call goes on.
const MOST: u64 = 50;

fn look_key(workspace: &WorkspaceId) -> Key {
    Key::new(format!("DRIFT#{workspace}"), "LOOK")
}

/// The two items of a workspace's drift: when it was last looked for, and what stands.
pub(crate) fn keys(workspace: &WorkspaceId) -> [Key; 2] {
    [look_key(workspace), drift_key(workspace)]
}

fn drift_key(workspace: &WorkspaceId) -> Key {
    Key::new(format!("WS#{workspace}"), "DRIFT")
}

/// What a call of the schedule did.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Looked {
    /// Workspaces that there are.
    pub seen: u64,
    /// Runs that were proposed.
    pub proposed: u64,
    /// Workspaces that are due and have to wait: they are frozen, something is being applied, or others have waited longer.
    pub waiting: u64,
    /// Workspaces that could not be seen to; the next call looks again.
    pub failed: u64,
}

/// When a workspace was last looked at.
struct LookRow {
    last: Option<LastLook>,
    version: u64,
}

impl LookRow {
    async fn load(store: &dyn Store, workspace: &WorkspaceId) -> Result<Self, Error> {
        Ok(match store.get(&look_key(workspace)).await? {
            Some(item) => Self { last: Some(read(&item)?), version: item.version },
            None => Self { last: None, version: 0 },
        })
    }

    fn put(&self, workspace: &WorkspaceId, look: &LastLook) -> Result<Write, Error> {
        let mut item = Item::new(look_key(workspace), write("a look for drift", look)?);
        item.version = self.version;
        Ok(Write::Put(item))
    }
}

/// When a workspace was last looked at for drift, and the run that looked.
///
/// # Errors
/// The table does not answer, or what stands there is damaged.
pub async fn last_look(store: &dyn Store, workspace: &WorkspaceId) -> Result<Option<LastLook>, Error> {
    Ok(LookRow::load(store, workspace).await?.last)
}

/// What stands of a workspace's drift; none before the first look that said something.
///
/// # Errors
/// The table does not answer, or what stands there is damaged.
pub async fn standing(store: &dyn Store, workspace: &WorkspaceId) -> Result<Option<Drift>, Error> {
    Ok(store.get(&drift_key(workspace)).await?.as_ref().map(read).transpose()?)
}

/// Proposes a run for each workspace that is due. `bucket` is the exchange bucket; `noise` is drawn for each run's id.
///
/// # Errors
/// The list of workspaces cannot be read, or `noise` gives none.
pub async fn look(
    store: &dyn Store,
    objects: &dyn Objects,
    workflow: &dyn Workflow,
    bucket: &str,
    mut noise: impl FnMut() -> Option<[u8; 10]>,
    now: Timestamp,
) -> Result<Looked, Error> {
    let mut looked = Looked::default();
    let mut due = Vec::new();
    for workspace in freeze::workspaces(store).await? {
        looked.seen += 1;
        match due_since(store, &workspace, now).await {
            Ok(since) => due.extend(since.map(|(since, _)| (since, workspace))),
            Err(error) => looked.fails(&workspace, &error),
        }
    }
    due.sort();
    for (place, (_, workspace)) in due.iter().enumerate() {
        // Who has to wait takes nobody's turn.
        if looked.proposed >= MOST {
            looked.waiting += due.len().saturating_sub(place) as u64;
            break;
        }
        let none = || StoreError::Unavailable("the machine has no randomness to give".to_owned());
        let run = RunId::new(now, noise().ok_or_else(none)?);
        match propose(store, objects, workflow, bucket, workspace, run, now).await {
            Ok(Turn::Proposed) => looked.proposed += 1,
            Ok(Turn::Waits) => looked.waiting += 1,
            Ok(Turn::NotDue) => {}
            Err(error) => looked.fails(workspace, &error),
        }
    }
    Ok(looked)
}

impl Looked {
    fn fails(&mut self, workspace: &WorkspaceId, error: &Error) {
        self.failed += 1;
        tracing::warn!(%workspace, %error, "a workspace could not be looked at for drift");
    }
}

/// Since when a workspace is due, and its last look as it was read; none if it is not.
async fn due_since(
    store: &dyn Store,
    workspace: &WorkspaceId,
    now: Timestamp,
) -> Result<Option<(Timestamp, LookRow)>, Error> {
    let spec = documents::find_workspace(store, workspace).await?;
    let Some(hours) = spec.and_then(|spec| spec.drift_hours) else { return Ok(None) };
    let row = LookRow::load(store, workspace).await?;
    let since = match &row.last {
        None => now,
        Some(last) => {
            let run = RunRow::load(store, &last.run).await?.run;
            if !run.status.is_terminal() {
                return Ok(None);
            }
            last.next(hours, said(&run))
        }
    };
    Ok((since <= now).then_some((since, row)))
}

/// Whether a run that looked has said something. One during which the state moved has not, wherever that was noticed: it is
/// made again soon.
#[must_use]
pub fn said(run: &Run) -> bool {
    run.drift != Some(DriftWord::Unclear)
}

/// What a workspace's turn came to.
enum Turn {
    Proposed,
    Waits,
    NotDue,
}

/// Proposes the run of one workspace, if it is still due.
async fn propose(
    store: &dyn Store,
    objects: &dyn Objects,
    workflow: &dyn Workflow,
    bucket: &str,
    workspace: &WorkspaceId,
    run: RunId,
    now: Timestamp,
) -> Result<Turn, Error> {
    let mut attempts = Attempts::new(run.as_str());
    let (proposer, actor) = (Proposer::drift(), Actor::gate("drift"));
    loop {
        if RunRow::find(store, &run).await?.is_some() {
            // Ours, of an attempt whose answer was lost.
            return Ok(Turn::Proposed);
        }
        let Some((_, row)) = due_since(store, workspace, now).await? else { return Ok(Turn::NotDue) };
        let Some(applied) = KnownRow::load(store, workspace).await?.known.applied else { return Ok(Turn::NotDue) };
        if freeze::over(store, workspace).await?.is_some() || applying(store, workspace).await? {
            return Ok(Turn::Waits);
        }
        let proposal = Proposal {
            workspace,
            kind: Kind::PlanOnly,
            bundle: RunRow::load(store, &applied).await?.run.bundle.digest,
            origin: Origin::Drift,
            derived_from: Some(&applied),
            proposer: &proposer,
            actor: &actor,
        };
        let look = row.put(workspace, &LastLook { run: run.clone(), at: now })?;
        let (proposed, outcome) = propose::record(store, objects, bucket, &proposal, &run, vec![look], now).await?;
        if attempts.settle(outcome).await?.is_some() {
            propose::start(workflow, &proposed).await;
            return Ok(Turn::Proposed);
        }
    }
}

/// What the end of a run adds to the transaction that records it.
#[derive(Debug, Default)]
pub(crate) struct Found {
    pub(crate) writes: Vec<Write>,
    pub(crate) told: Option<What>,
}

/// Takes in what `run`, which ends here, has found of drift, and notes on it what is new about that. Nothing for a run that did
/// not look for drift, or did not come so far.
pub(crate) async fn take_in(store: &dyn Store, run: &mut Run, now: Timestamp) -> Result<Found, Error> {
    if !run.looks_for_drift() || !matches!(run.status, Status::Planned | Status::NoChanges | Status::Failed) {
        return Ok(Found::default());
    }
    let item = store.get(&drift_key(&run.workspace)).await?;
    let before: Option<Drift> = item.as_ref().map(read).transpose()?;
    let put = |after: &Drift| {
        let mut put = Item::new(drift_key(&run.workspace), write("what stands of drift", after)?);
        put.version = item.as_ref().map_or(0, |item| item.version);
        Ok::<_, Error>(Write::Put(put))
    };
    if let Some(reason) = run.failure.as_ref().map(|failure| failure.reason) {
        if reason == FailureReason::StateMovedDuringPlan {
            run.drift = Some(DriftWord::Unclear);
            return Ok(Found::default());
        }
        let (after, word) = Drift::after_failure(before.as_ref(), &run.workspace, &run.id, reason, now);
        let told = (word == DriftWord::Failing).then(|| What::DriftNotSeen { run: run.id.clone(), reason });
        let writes = vec![put(&after)?];
        run.drift = Some(word);
        return Ok(Found { writes, told });
    }
    let known = KnownRow::load(store, &run.workspace).await?;
    let moved = matches!(run.compared, None | Some(Compared::Unclear));
    // Another configuration has been applied since: what this one would change is no drift.
    let another = known.known.applied.is_none() || known.known.applied != run.derived_from;
    if moved || another {
        run.drift = Some(DriftWord::Unclear);
        return Ok(Found::default());
    }
    let projection = run.projection.as_ref().filter(|_| run.status == Status::Planned);
    let (after, word) = Drift::after(before.as_ref(), &run.workspace, &run.id, projection, now);
    let told = match (&word, &after.finding) {
        (DriftWord::Found { previous }, Some(finding)) => {
            let (projection, counts) = (finding.projection, finding.counts);
            Some(What::DriftFound { run: run.id.clone(), projection, counts, previous: *previous })
        }
        (DriftWord::Gone { previous }, _) => Some(What::DriftGone { run: run.id.clone(), previous: *previous }),
        _ => None,
    };
    let writes = vec![known.check(), put(&after)?];
    run.drift = Some(word);
    Ok(Found { writes, told })
}
