//! The end of a run: its terminal status, its anchor in the ledger, and the lock passed on, in one transaction.

use plangate_gate::audit::{Chain, GuardrailWord, What};
use plangate_gate::failure::FailureReason;
use plangate_gate::ids::{RunId, WorkspaceId};
use plangate_gate::lifecycle::Status;
use plangate_gate::lock::LockState;
use plangate_gate::receipt::PhaseFailure;
use plangate_gate::run::{Actor, Run};
use plangate_gate::time::Timestamp;

use crate::ahead::Ahead;
use crate::error::Error;
use crate::known::known_key;
use crate::rows::{ChainRow, LockRow, PlaceRow, RunRow, head_key, lock_key, place_key};
use crate::store::{Store, StoreError, Write};
use crate::workflow::Workflow;
use crate::{drift, freeze, known};

/// How a run ends.
#[derive(Debug, Clone)]
pub(crate) struct Ending {
    /// The terminal status.
    pub(crate) status: Status,
    /// Why, if it failed.
    pub(crate) failure: Option<PhaseFailure>,
    /// Why, in the words of who withdrew it.
    pub(crate) note: Option<String>,
    /// Events that belong before the end.
    pub(crate) before: Vec<What>,
    /// Writes that belong into the same transaction.
    pub(crate) with: Vec<Write>,
    /// Who ends it.
    pub(crate) actor: Actor,
}

impl Ending {
    pub(crate) const fn new(status: Status, actor: Actor) -> Self {
        Self { status, failure: None, note: None, before: Vec::new(), with: Vec::new(), actor }
    }

    pub(crate) fn failed(failure: PhaseFailure, actor: Actor) -> Self {
        Self { failure: Some(failure), ..Self::new(Status::Failed, actor) }
    }
}

/// A run that has ended.
#[derive(Debug)]
pub(crate) struct Finished {
    /// The run.
    pub(crate) run: Run,
    /// Whether another holds the workspace's lock now, who may still sleep.
    pub(crate) passed_on: bool,
}

/// Ends the run that was read as `row`, changed as the ending needs, and gives it. One try: `Conflict` means read again.
///
/// Condition: the run and the lock are as they were read. If the run holds the lock, the head of the line gets it in the
/// same transaction (`R3`); a run whose outcome nobody knows closes it instead. What is known of the state follows an apply, and
/// what stands of drift a run that looked for it (`R55`, `R56`).
pub(crate) async fn finish(
    store: &dyn Store,
    mut row: RunRow,
    ending: Ending,
    now: Timestamp,
) -> Result<Result<Finished, StoreError>, Error> {
    let before = row.run.status;
    row.run.step(ending.status, now)?;
    row.run.failure = ending.failure.clone();
    row.token = None;
    let id = row.run.id.clone();
    let workspace = row.run.workspace.clone();

    let (own, opened) = (Chain::Run(id.clone()), Chain::Workspace(workspace.clone()));
    let mut keys = vec![head_key(&own), head_key(&opened), lock_key(&workspace)];
    if before == Status::Applying {
        keys.push(known_key(&workspace));
    }
    let store: &dyn Store = &Ahead::of(store, &keys).await?;
    let mut chain = ChainRow::load(store, own).await?;
    for what in ending.before {
        chain.append(now, &ending.actor, what)?;
    }
    let guardrails = match &row.run.guardrails {
        Some(outcome) if outcome.eligible => GuardrailWord::Eligible,
        Some(_) => GuardrailWord::Ineligible,
        None => GuardrailWord::NotEvaluated,
    };
    let (status, failure) = (ending.status, ending.failure.clone());
    chain.append(now, &ending.actor, What::RunEnded { status, failure, guardrails, note: ending.note })?;

    let mut ledger = ChainRow::load(store, opened).await?;
    if let Some(head) = chain.head() {
        ledger.append(now, &ending.actor, What::RunClosed { run: id.clone(), status, chain: head.clone() })?;
    }

    let unknown = ending.failure.as_ref().is_some_and(|f| f.reason == FailureReason::ApplyOutcomeUnknown);
    let known = if before == Status::Applying { known::follow(store, &row.run, unknown, now).await? } else { None };
    // The failure stands on the run by now.
    let found = drift::take_in(store, &mut row.run, now).await?;
    if let Some(what) = found.told {
        ledger.append(now, &ending.actor, what)?;
    }
    let mut writes = vec![row.put()?];
    writes.extend(known.into_iter().chain(found.writes));
    if let (Status::Queued, Some(place)) = (before, row.run.queued_as) {
        writes.push(Write::Delete(place_key(&workspace, place), 1));
    }
    let mut passed_on = false;
    // Whoever was ever granted the lock has a fence, whatever the record says of its kind now.
    if row.run.fence > 0 && before.holds_lock() {
        let mut lock = LockRow::load(store, &workspace).await?;
        if lock.lock.held_by(&id, row.run.fence) {
            if unknown {
                lock.lock.lock = LockState::Quarantined { run: id.clone(), since: now };
                let reason = FailureReason::ApplyOutcomeUnknown;
                ledger.append(now, &ending.actor, What::LockQuarantined { run: id.clone(), reason })?;
            } else {
                writes.extend(pass_on(store, &mut lock, &ending.actor, now).await?);
            }
            passed_on = matches!(lock.lock.lock, LockState::Held { .. });
            writes.push(lock.put()?);
        }
    }
    writes.extend(chain.writes()?);
    writes.extend(ledger.writes()?);
    writes.extend(ending.with);
    let run = row.run;
    Ok(store.transact(writes).await.map(|()| Finished { run, passed_on }))
}

/// How many places in which nobody waits any more are removed at once: a transaction has its limit.
const REMOVED: usize = 20;

/// Gives the lock to the head of the line, or frees it: while a freeze stands nobody is admitted, and the line goes on once
/// that is lifted. The caller has read the lock, and writes it itself.
///
/// A place whose run is gone or does not wait was left by nobody here; it must not keep the others waiting for ever, however
/// many there are.
pub(crate) async fn pass_on(
    store: &dyn Store,
    lock: &mut LockRow,
    actor: &Actor,
    now: Timestamp,
) -> Result<Vec<Write>, Error> {
    let mut writes = Vec::new();
    let workspace = lock.lock.workspace.clone();
    let mut line = PlaceRow::line(store, &workspace, REMOVED).await?;
    if line.is_empty() || freeze::stands(store, lock).await?.is_some() {
        lock.lock.lock = LockState::Free;
        return Ok(writes);
    }
    let mut waiting = first_waiting(store, &line).await?;
    if waiting.is_none() && line.len() == REMOVED {
        line = PlaceRow::line(store, &workspace, usize::MAX).await?;
        waiting = first_waiting(store, &line).await?;
    }
    let passed_over = waiting.as_ref().map_or(line.len(), |(place, _)| *place);
    let removed = line.iter().take(passed_over).take(REMOVED);
    writes.extend(removed.map(|place| Write::Delete(place.key.clone(), place.version)));
    let Some((place, mut next)) = waiting else {
        lock.lock.lock = LockState::Free;
        return Ok(writes);
    };
    writes.extend(line.get(place).map(|place| Write::Delete(place.key.clone(), place.version)));
    let id = next.run.id.clone();
    next.run.fence = lock.lock.grant(&id);
    next.run.queued_as = None;
    next.run.step(Status::Planning, now)?;
    let mut chain = ChainRow::load(store, Chain::Run(id)).await?;
    chain.append(now, actor, What::RunAdmitted { fence: next.run.fence })?;
    writes.push(next.put()?);
    writes.extend(chain.writes()?);
    Ok(writes)
}

/// The first place in `line` whose run waits, and the run.
async fn first_waiting(store: &dyn Store, line: &[PlaceRow]) -> Result<Option<(usize, RunRow)>, Error> {
    for (place, row) in line.iter().enumerate() {
        match RunRow::load(store, &row.run).await {
            Ok(next) if next.run.status == Status::Queued => return Ok(Some((place, next))),
            Ok(_) | Err(Error::NoSuchRun | Error::Store(StoreError::Corrupt(_))) => {
                tracing::error!(run = %row.run, "a place in the line holds nobody who waits: passed over");
            }
            Err(error) => return Err(error),
        }
    }
    Ok(None)
}

/// Wakes the run that holds the workspace's lock, if it may still sleep. The grant is the data and this is a hint: if it
/// is lost, the sweeper sends another.
pub(crate) async fn wake_holder(
    store: &dyn Store,
    workflow: &dyn Workflow,
    workspace: &WorkspaceId,
) -> Result<(), Error> {
    let LockState::Held { run } = LockRow::load(store, workspace).await?.lock.lock else { return Ok(()) };
    let row = RunRow::load(store, &run).await?;
    if let (Status::Planning, Some(token)) = (row.run.status, &row.token) {
        wake(workflow, &run, token).await;
    }
    Ok(())
}

/// Wakes a run that waits with `token`, as a hint.
pub(crate) async fn wake(workflow: &dyn Workflow, run: &RunId, token: &str) {
    if let Err(error) = workflow.wake(token).await {
        tracing::warn!(%run, %error, "the run was not woken; the sweeper will");
    }
}
