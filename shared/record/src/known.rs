//! What the gate knows of a workspace's state, as it stands in the table beside the lock: compared with each plan, and moved
//! by each apply, in the transaction that records the plan or the end (`R56`).

use plangate_gate::audit::What;
use plangate_gate::ids::WorkspaceId;
use plangate_gate::known::{Compared, Known, Sighting};
use plangate_gate::lifecycle::Status;
use plangate_gate::lock::LockState;
use plangate_gate::order::Phase;
use plangate_gate::run::{Kind, Run};
use plangate_gate::time::Timestamp;

use crate::error::Error;
use crate::rows::{LockRow, RunRow, read, write};
use crate::store::{Item, Key, Store, Write};

/// The key of what is known of a workspace.
pub(crate) fn known_key(workspace: &WorkspaceId) -> Key {
    Key::new(format!("WS#{workspace}"), "KNOWN")
}

/// What is known, as it stands in the table.
#[derive(Debug, Clone)]
pub struct KnownRow {
    /// What is known.
    pub known: Known,
    version: u64,
}

impl KnownRow {
    /// Reads what is known; nothing of a workspace that never had a plan.
    ///
    /// # Errors
    /// The table does not answer, or the item is damaged.
    pub async fn load(store: &dyn Store, workspace: &WorkspaceId) -> Result<Self, Error> {
        match store.get(&known_key(workspace)).await? {
            Some(item) => Ok(Self { known: read(&item)?, version: item.version }),
            None => Ok(Self { known: Known::nothing(workspace.clone()), version: 0 }),
        }
    }

    /// The condition that nobody has written it since it was read.
    pub(crate) fn check(&self) -> Write {
        Write::Check(known_key(&self.known.workspace), self.version)
    }

    /// The write that stores it as it is now, if nobody wrote it since it was read.
    pub(crate) fn put(&self) -> Result<Write, Error> {
        let mut item = Item::new(known_key(&self.known.workspace), write("what is known", &self.known)?);
        item.version = self.version;
        Ok(Write::Put(item))
    }
}

/// Compares the state that the plan of `run` has read with what is known, and notes on the run what came of it. Gives the
/// write that the transaction needs, and what the ledger has to tell.
///
/// The caller has read the receipt before: an apply that begins afterwards has nothing to do with it.
pub(crate) async fn compare(
    store: &dyn Store,
    run: &mut Run,
    now: Timestamp,
) -> Result<(Option<Write>, Option<What>), Error> {
    let (Some(sighting), Some(moves)) = (run.sighting(now), run.known_moves) else { return Ok((None, None)) };
    // A run that may be applied holds the lock itself.
    let applying = run.kind == Kind::PlanOnly && applying(store, &run.workspace).await?;
    let mut row = KnownRow::load(store, &run.workspace).await?;
    let before = row.known.clone();
    let compared = row.known.planned(sighting, moves, applying);
    let told = match &compared {
        Compared::ChangedOutside { change } => {
            let (before, after) = (change.before.clone(), change.after.clone());
            Some(What::ChangedOutsideGate { run: run.id.clone(), before, after })
        }
        _ => None,
    };
    run.compared = Some(compared);
    let write = if row.known == before { None } else { Some(row.put()?) };
    Ok((write, told))
}

/// Whether an apply of the gate is at work on a workspace, as far as its lock tells.
pub(crate) async fn applying(store: &dyn Store, workspace: &WorkspaceId) -> Result<bool, Error> {
    let LockState::Held { run } = LockRow::load(store, workspace).await?.lock.lock else { return Ok(false) };
    let row = RunRow::find(store, &run).await?;
    Ok(row.is_some_and(|row| row.run.status == Status::Applying))
}

/// The write by which what is known follows the apply of `run`, which ends here: `unknown` is whether nobody knows what it did.
/// None where no engine was started.
pub(crate) async fn follow(
    store: &dyn Store,
    run: &Run,
    unknown: bool,
    now: Timestamp,
) -> Result<Option<Write>, Error> {
    let Some(apply) = &run.apply else { return Ok(None) };
    if apply.state_after.is_none() && !unknown {
        return Ok(None);
    }
    let mut row = KnownRow::load(store, &run.workspace).await?;
    match &apply.state_after {
        Some(state) if !unknown => {
            let (state, run, phase) = (state.clone(), run.id.clone(), Phase::Apply);
            row.known.left(Sighting { state, run, phase, from: apply.ordered_at, to: now });
        }
        _ => row.known.lost(run.id.clone()),
    }
    if run.status == Status::Applied {
        row.known.applied = Some(run.id.clone());
    }
    row.put().map(Some)
}

/// The write by which what `run` has read is what is known, after somebody has looked; none where nothing is to be settled.
pub(crate) async fn settle(store: &dyn Store, run: &Run, now: Timestamp) -> Result<Option<Write>, Error> {
    let mut row = KnownRow::load(store, &run.workspace).await?;
    let at = run.plan.as_ref().map_or(now, |plan| plan.received_at);
    match run.sighting(at) {
        Some(sighting) if row.known.unsettled.is_some() => {
            row.known.settle(sighting);
            row.put().map(Some)
        }
        _ => Ok(None),
    }
}
