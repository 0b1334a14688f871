//! Admission: an applicable run holds its workspace's lock, or stands in its line; a plan-only run needs neither (`R3`).
//! While a freeze stands nobody is admitted: applicable runs go into the line, plan-only ones wait where they are.

use plangate_gate::audit::{Chain, What};
use plangate_gate::failure::FailureReason;
use plangate_gate::ids::RunId;
use plangate_gate::lifecycle::Status;
use plangate_gate::lock::LockState;
use plangate_gate::run::{Actor, Kind, failure};
use plangate_gate::time::Timestamp;

use crate::ahead::Ahead;
use crate::attempt::Attempts;
use crate::error::Error;
use crate::finish::{Ending, finish};
use crate::freeze;
use crate::objects::Objects;
use crate::rows::{ChainRow, LockRow, PlaceRow, RunRow};
use crate::store::{Store, Write};
use crate::workflow::Workflow;

/// What admission came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Admission {
    /// The run may go on; its execution was woken.
    Admitted,
    /// The run stands in the line, or behind a freeze; whoever ends before it, or lifts that, wakes its execution.
    Parked,
}

/// Admits a run whose execution waits with `token`. Called again, it reads again: a run that was granted the lock
/// meanwhile goes on, another only has its token replaced.
///
/// # Errors
/// AWS does not answer, or others went first every time.
pub async fn admit(
    store: &dyn Store,
    objects: &dyn Objects,
    workflow: &dyn Workflow,
    run: &RunId,
    token: &str,
    now: Timestamp,
) -> Result<Admission, Error> {
    let actor = Actor::gate("admit");
    let mut attempts = Attempts::new(run.as_str());
    loop {
        let store: &dyn Store = &Ahead::of_run(store, run).await?;
        let mut row = RunRow::load(store, run).await?;
        // What the call came to once that is written.
        let mut then = Admission::Parked;
        let outcome = match row.run.status {
            Status::Proposed if !bundle_intact(objects, &row).await? => {
                let detail = format!("the bundle `{}` is not there whole", row.run.bundle.digest);
                let ending = Ending::failed(failure(FailureReason::BundleInvalid, detail), actor.clone());
                then = Admission::Admitted; // there is nothing to wait for, and the next step looks for itself
                finish(store, row, ending, now).await?.map(drop)
            }
            Status::Proposed => {
                let mut writes = Vec::new();
                let mut parked = false;
                let mut lock = LockRow::load(store, &row.run.workspace).await?;
                let frozen = freeze::stands(store, &lock).await?.is_some();
                if row.run.kind == Kind::PlanOnly {
                    if frozen {
                        let Some(write) = waits(&mut row, token, now)? else { return Ok(Admission::Parked) };
                        attempts.settle(store.transact(vec![write]).await).await?;
                        continue;
                    }
                    // It takes no lock; that the lock has not changed tells that nothing was frozen meanwhile.
                    writes.push(lock.check());
                } else {
                    let line = PlaceRow::line(store, &row.run.workspace, 1).await?;
                    if !frozen && lock.lock.lock == LockState::Free && line.is_empty() {
                        row.run.fence = lock.lock.grant(run);
                    } else {
                        parked = true;
                        lock.lock.tail += 1;
                        row.run.queued_as = Some(lock.lock.tail);
                        row.wait_with(token, now);
                        writes.push(PlaceRow::append(&row.run.workspace, lock.lock.tail, run)?);
                    }
                    writes.push(lock.put()?);
                }
                let mut chain = ChainRow::load(store, Chain::Run(run.clone())).await?;
                if parked {
                    row.run.step(Status::Queued, now)?;
                    chain.append(now, &actor, What::RunQueued { place: row.run.queued_as.unwrap_or_default() })?;
                } else {
                    row.run.step(Status::Planning, now)?;
                    chain.append(now, &actor, What::RunAdmitted { fence: row.run.fence })?;
                    then = Admission::Admitted;
                }
                writes.push(row.put()?);
                writes.extend(chain.writes()?);
                store.transact(writes).await
            }
            Status::Queued => {
                let Some(write) = waits(&mut row, token, now)? else { return Ok(Admission::Parked) };
                store.transact(vec![write]).await
            }
            // Admitted, and frozen before its plan was ordered.
            Status::Planning
                if row.run.plan_order.is_none() && freeze::over(store, &row.run.workspace).await?.is_some() =>
            {
                let Some(write) = waits(&mut row, token, now)? else { return Ok(Admission::Parked) };
                store.transact(vec![write]).await
            }
            // The lock is mine, or there is nothing to wait for: on, and the next step looks for itself.
            _ => {
                workflow.wake(token).await?;
                return Ok(Admission::Admitted);
            }
        };
        if attempts.settle(outcome).await?.is_some() {
            if then == Admission::Admitted {
                workflow.wake(token).await?;
            }
            return Ok(then);
        }
    }
}

/// The write that leaves the token of a run that waits; none where it stands already, or a later call waits: then this
/// one was given up.
fn waits(row: &mut RunRow, token: &str, now: Timestamp) -> Result<Option<Write>, Error> {
    if row.wait_with(token, now) { row.put().map(Some) } else { Ok(None) }
}

/// Whether the bundle that was proposed is there, whole, by S3's own checksum (`R4`).
async fn bundle_intact(objects: &dyn Objects, row: &RunRow) -> Result<bool, Error> {
    let bundle = &row.run.bundle;
    Ok(
        matches!(objects.head(&bundle.key).await?, Some((bytes, Some(digest))) if bytes == bundle.bytes && digest == bundle.digest),
    )
}
