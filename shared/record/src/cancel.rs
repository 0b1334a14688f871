//! Withdrawing a run before it is applied.

use plangate_gate::audit::{Chain, What};
use plangate_gate::documents::{Action, WORDS_LIMIT, plain};
use plangate_gate::ids::RunId;
use plangate_gate::lifecycle::Status;
use plangate_gate::run::{CancelRecord, Run};
use plangate_gate::time::Timestamp;
use plangate_wire::{CancelRequest, Reason};

use crate::access::{Caller, not_permitted};
use crate::attempt::Attempts;
use crate::error::{Error, Refusal};
use crate::finish::{Ending, finish, wake, wake_holder};
use crate::rows::{ChainRow, RunRow};
use crate::store::Store;
use crate::workflow::Workflow;

/// Withdraws a run on behalf of `caller`: its proposer, or whoever approves or administers. One whose plan is being made
/// is marked and ends once the plan has stopped; its lock is not freed before.
///
/// # Errors
/// A refusal (`already-applying` once the apply is ordered), or AWS does not answer.
pub async fn cancel(
    store: &dyn Store,
    workflow: &dyn Workflow,
    caller: &Caller,
    run: &RunId,
    request: &CancelRequest,
    now: Timestamp,
) -> Result<Run, Error> {
    if !request.reason.as_deref().is_none_or(|text| text.is_empty() || plain(text, WORDS_LIMIT)) {
        let message = "`reason` is at most 1000 characters without control characters";
        return Err(Refusal::new(Reason::InvalidRequest, message).into());
    }
    let actor = caller.actor().clone();
    let mut attempts = Attempts::new(caller.identity());
    loop {
        let mut row = match RunRow::load(store, run).await {
            Err(Error::NoSuchRun) => return Err(not_permitted().into()),
            other => other?,
        };
        let workspace = Some(&row.run.workspace);
        let own = row.run.proposer.person == *caller.person() && caller.may(Action::Propose, workspace);
        if !own && !caller.may(Action::Approve, workspace) && !caller.may(Action::Administer, workspace) {
            return Err(not_permitted().into());
        }
        let (kind, token) = (row.run.kind, row.token.clone());
        let outcome = match row.run.status {
            // Asked again, perhaps because what follows was lost: done again.
            Status::Canceled => Ok(()),
            Status::Planning if row.run.cancel.is_some() => Ok(()),
            Status::Applying => {
                return Err(Refusal::new(Reason::AlreadyApplying, "the run is being applied").into());
            }
            status if status.is_terminal() => {
                return Err(Refusal::new(Reason::RunEnded, format!("the run has ended as `{status}`")).into());
            }
            Status::Planning => {
                row.run.updated_at = now;
                row.run.cancel = Some(CancelRecord { by: actor.clone(), reason: request.reason.clone(), at: now });
                let mut chain = ChainRow::load(store, Chain::Run(run.clone())).await?;
                chain.append(now, &actor, What::CancelRequested { note: request.reason.clone() })?;
                let mut writes = vec![row.put()?];
                writes.extend(chain.writes()?);
                store.transact(writes).await
            }
            _ => {
                let ending = Ending { note: request.reason.clone(), ..Ending::new(Status::Canceled, actor.clone()) };
                finish(store, row, ending, now).await?.map(drop)
            }
        };
        if attempts.settle(outcome).await?.is_none() {
            continue;
        }
        let row = RunRow::load(store, run).await?;
        // Hints, all of them: the record stands, and the sweeper sees to what is lost here.
        if let Err(error) = workflow.stop(kind, run).await {
            tracing::warn!(%run, %error, "the withdrawn run's execution was not stopped");
            if let Some(token) = token {
                wake(workflow, run, &token).await;
            }
        }
        wake_holder(store, workflow, &row.run.workspace).await?;
        return Ok(row.run);
    }
}
