//! Opening a quarantined lock again: somebody has looked, and a plan-only run has recorded the state since. What that run has
//! read is what is known from then on.

use plangate_gate::audit::{Chain, What};
use plangate_gate::documents::Action;
use plangate_gate::ids::WorkspaceId;
use plangate_gate::lifecycle::Status;
use plangate_gate::lock::LockState;
use plangate_gate::run::Kind;
use plangate_gate::time::Timestamp;
use plangate_wire::{AcknowledgeRequest, Reason};

use crate::access::Caller;
use crate::attempt::Attempts;
use crate::error::{Error, Refusal};
use crate::finish::{pass_on, wake_holder};
use crate::known;
use crate::requests::Remembered;
use crate::rows::{ChainRow, LockRow, RunRow};
use crate::store::Store;
use crate::workflow::Workflow;

/// Opens the lock of `workspace` on behalf of `caller`, and gives it to the head of the line.
///
/// # Errors
/// A refusal, or AWS does not answer.
pub async fn acknowledge(
    store: &dyn Store,
    workflow: &dyn Workflow,
    caller: &Caller,
    workspace: &WorkspaceId,
    request: &AcknowledgeRequest,
    now: Timestamp,
) -> Result<(), Error> {
    caller.require(Action::Administer, Some(workspace))?;
    Refusal::unless_said("note", &request.note)?;
    let refuse = |message: &str| Error::from(Refusal::new(Reason::NothingToAcknowledge, message));
    let actor = caller.actor().clone();
    let remembered = Remembered::new(caller.person(), &request.request_id, &(workspace, request), now)?;
    let mut attempts = Attempts::new(workspace.as_str());
    loop {
        if remembered.first_answer(store).await?.is_some() {
            return wake_holder(store, workflow, workspace).await;
        }
        let mut lock = LockRow::load(store, workspace).await?;
        let since = match &lock.lock.lock {
            LockState::Quarantined { since, .. } => Some(*since),
            // Held by a run that has ended: somebody has changed one of the two, and nobody else can free it.
            LockState::Held { run } => RunRow::load(store, run).await?.run.ended_at,
            LockState::Free => None,
        };
        let Some(since) = since else {
            return Err(refuse("the workspace's lock is neither quarantined nor held by a run that has ended"));
        };
        let shown = match RunRow::load(store, &request.run).await {
            Err(Error::NoSuchRun) => return Err(refuse("there is no such run")),
            other => other?.run,
        };
        let looked = shown.workspace == *workspace
            && shown.kind == Kind::PlanOnly
            && matches!(shown.status, Status::Planned | Status::NoChanges)
            && shown.proposed_at >= since
            && shown.plan.is_some();
        if !looked {
            return Err(refuse(
                "that run is not a plan-only run of this workspace, made since the quarantine and ended well",
            ));
        }
        let mut writes = pass_on(store, &mut lock, &actor, now).await?;
        writes.push(lock.put()?);
        writes.push(remembered.write("acknowledged")?);
        let mut ledger = ChainRow::load(store, Chain::Workspace(workspace.clone())).await?;
        let state = shown.plan.as_ref().map(|plan| plan.state.clone());
        let (note, run) = (request.note.clone(), request.run.clone());
        ledger.append(now, &actor, What::LockAcknowledged { note, run, state })?;
        writes.extend(known::settle(store, &shown, now).await?);
        writes.extend(ledger.writes()?);
        if attempts.settle(store.transact(writes).await).await?.is_some() {
            return wake_holder(store, workflow, workspace).await;
        }
    }
}
