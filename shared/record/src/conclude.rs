//! Concluding a run whose workflow has nothing more to do, or has died: what it came to is found out from the record and
//! the stores, never from what the workflow says. The authority on runs that are dead.

use plangate_gate::audit::What;
use plangate_gate::digest::Digest;
use plangate_gate::failure::FailureReason;
use plangate_gate::ids::RunId;
use plangate_gate::lifecycle::Status;
use plangate_gate::order::Phase;
use plangate_gate::receipt::{
    Applied, ApplyResult, Claim, ClaimHolder, ClaimSchema, PhaseFailure, RECEIPT_LIMIT, Receipt,
};
use plangate_gate::run::{Actor, ApplyRecord, CancelRecord, Run, failure};
use plangate_gate::time::Timestamp;

use crate::attempt::Attempts;
use crate::error::Error;
use crate::finish::{Ending, finish, wake_holder};
use crate::intake::{answers, is_log_of};
use crate::objects::{Objects, PutOutcome, claim_key, receipt_key, result_key};
use crate::rows::{RunRow, write};
use crate::store::Store;
use crate::tasks::{TaskState, Tasks};
use crate::workflow::Workflow;

/// Ends a run that has not ended yet, and wakes whoever holds the workspace's lock now. `error` is the name of what the
/// workflow caught, `function` who concludes.
///
/// # Errors
/// `StillRunning` while a task of the run has not stopped: no lock is freed before. Or AWS does not answer.
#[expect(clippy::too_many_arguments, reason = "time, identity and place are parameters, each of its own type")]
pub async fn conclude(
    store: &dyn Store,
    objects: &dyn Objects,
    workflow: &dyn Workflow,
    tasks: &dyn Tasks,
    run: &RunId,
    error: Option<&str>,
    function: &str,
    now: Timestamp,
) -> Result<Run, Error> {
    let actor = Actor::gate(function);
    let mut attempts = Attempts::new(run.as_str());
    loop {
        let row = RunRow::load(store, run).await?;
        if row.run.status.is_terminal() {
            // Whoever ended it may have died before it woke the next.
            wake_holder(store, workflow, &row.run.workspace).await?;
            return Ok(row.run);
        }
        let (row, ending) = match row.run.status {
            Status::Applying => settle_apply(objects, tasks, row, &actor, now).await?,
            Status::Planning => {
                if tasks.stop(run, Phase::Plan).await? == TaskState::Stopping {
                    return Err(Error::StillRunning);
                }
                let ending = dead_plan(&row.run, error, &actor);
                (row, ending)
            }
            Status::AwaitingApproval if row.run.plan_expired(now) => (row, Ending::new(Status::Expired, actor.clone())),
            Status::Approved if row.run.plan_expired(now) => {
                let failure = failure(FailureReason::PlanExpired, "the plan expired after it was approved");
                (row, Ending::failed(failure, actor.clone()))
            }
            status => {
                let ending = match &row.run.cancel {
                    Some(cancel) => withdrawn(cancel),
                    None => Ending::failed(dead(status, error), actor.clone()),
                };
                (row, ending)
            }
        };
        let outcome = finish(store, row, ending, now).await?;
        if let Some(ended) = attempts.settle(outcome).await? {
            if ended.passed_on {
                wake_holder(store, workflow, &ended.run.workspace).await?;
            }
            return Ok(ended.run);
        }
    }
}

/// Why a run is dead that was neither planning nor applying.
fn dead(status: Status, error: Option<&str>) -> PhaseFailure {
    match error {
        Some(name) => failure(FailureReason::GateError, format!("the run stopped while `{status}`: {name}")),
        None => failure(FailureReason::ExecutionAborted, format!("the run's execution ended while it was `{status}`")),
    }
}

fn withdrawn(cancel: &CancelRecord) -> Ending {
    Ending { note: cancel.reason.clone(), ..Ending::new(Status::Canceled, cancel.by.clone()) }
}

/// How a run ends whose plan never came to a receipt that was taken in. Its task is stopped.
fn dead_plan(run: &Run, error: Option<&str>, actor: &Actor) -> Ending {
    if let Some(cancel) = &run.cancel {
        return withdrawn(cancel);
    }
    let failure = match error {
        Some("States.Timeout") => failure(FailureReason::PlanTimedOut, "the plan task took longer than it may"),
        Some(name) => {
            failure(FailureReason::PlanTaskFailed, format!("the plan left no receipt that was taken in: {name}"))
        }
        None => failure(FailureReason::ExecutionAborted, "the run's execution ended while its plan was being made"),
    };
    Ending::failed(failure, actor.clone())
}

/// Finds out what became of an apply: by what the runner says that it did; else by the claim, which whoever writes it
/// first has for good. Nothing is concluded from time alone, and a receipt that says that nothing was done is believed
/// only once the claim is the gate's: another task of the run may have left another word, or still apply.
async fn settle_apply(
    objects: &dyn Objects,
    tasks: &dyn Tasks,
    mut row: RunRow,
    actor: &Actor,
    now: Timestamp,
) -> Result<(RunRow, Ending), Error> {
    if let Some(ending) = told(objects, &mut row.run, actor).await? {
        return Ok((row, ending));
    }
    let run = &row.run;
    let tombstone = Claim {
        schema: ClaimSchema::V1,
        run: run.id.clone(),
        workspace: run.workspace.clone(),
        holder: ClaimHolder::Gate,
        fence: run.fence,
        at: now,
    };
    let key = claim_key(&run.workspace, &run.id);
    let bytes = write("a claim", &tombstone)?.into_bytes();
    let claimed = match objects.put_new(&key, bytes).await? {
        PutOutcome::Written { .. } => false,
        PutOutcome::Exists => {
            let claim = objects.get(&key, None, RECEIPT_LIMIT as u64).await?;
            let claim = claim.and_then(|object| Claim::parse_untrusted(&object.bytes).ok());
            // What cannot be read may have been a runner's.
            claim.is_none_or(|claim| claim.holder == ClaimHolder::Runner)
        }
    };
    let stopped = tasks.stop(&run.id, Phase::Apply).await? == TaskState::Stopped;
    if !claimed {
        // Nothing was applied, and nothing ever will be.
        let refused = receipt(objects, &row.run).await?.and_then(|receipt| take(&mut row.run, receipt));
        let not_started = || failure(FailureReason::ApplyNotStarted, "the apply task ended before it took the claim");
        let ending = match refused {
            Some(refused) if refused.reason != FailureReason::ClaimTaken => ending(&row.run, Some(refused), actor),
            _ => Ending::failed(not_started(), actor.clone()),
        };
        return Ok((row, ending));
    }
    if !stopped {
        return Err(Error::StillRunning);
    }
    // It may have had its last word between the first look and its end.
    if let Some(ending) = told(objects, &mut row.run, actor).await? {
        return Ok((row, ending));
    }
    let unknown = match receipt(objects, &row.run).await?.and_then(|receipt| receipt.failure) {
        Some(unknown) if unknown.reason == FailureReason::ApplyOutcomeUnknown => unknown,
        _ => failure(FailureReason::ApplyOutcomeUnknown, "the apply took the claim and left no result"),
    };
    Ok((row, Ending::failed(unknown, actor.clone())))
}

/// The ending of an apply of which the runner has told what it did.
async fn told(objects: &dyn Objects, run: &mut Run, actor: &Actor) -> Result<Option<Ending>, Error> {
    match receipt(objects, run).await? {
        Some(receipt) if receipt.applied.is_some() => {
            let failure = take(run, receipt);
            Ok(Some(ending(run, failure, actor)))
        }
        _ => by_result(objects, run, actor).await,
    }
}

/// The receipt of a run's apply, if there is one that can be believed.
async fn receipt(objects: &dyn Objects, run: &Run) -> Result<Option<Receipt>, Error> {
    let key = receipt_key(&run.workspace, &run.id, Phase::Apply);
    let Some(object) = objects.get(&key, None, RECEIPT_LIMIT as u64).await? else { return Ok(None) };
    let Ok(receipt) = Receipt::parse_untrusted(&object.bytes) else {
        tracing::error!(run = %run.id, "the apply receipt cannot be read; the result and the claim decide");
        return Ok(None);
    };
    if let Err(problem) = answers(run, Phase::Apply, run.apply.as_ref().map(|apply| apply.order), &receipt) {
        tracing::error!(run = %run.id, problem, "the apply receipt is not this run's; the result and the claim decide");
        return Ok(None);
    }
    Ok(Some(receipt))
}

/// Records what a receipt says; gives its failure. An outcome that nobody can know is none that may pass for known.
fn take(run: &mut Run, receipt: Receipt) -> Option<PhaseFailure> {
    let log = receipt.log.filter(|log| is_log_of(run, Phase::Apply, log));
    if let Some(apply) = &mut run.apply {
        apply.log = log;
        apply.caller = Some(receipt.caller);
        apply.estate_caller = receipt.estate_caller;
        apply.state_lock = Some(receipt.state_lock);
    }
    let unknown = receipt.applied.as_ref().is_some_and(|applied| !applied.outcome_is_known());
    if let Some(applied) = receipt.applied {
        record(run, applied);
    }
    match receipt.failure {
        Some(told) if unknown => Some(PhaseFailure { reason: FailureReason::ApplyOutcomeUnknown, ..told }),
        None if unknown => {
            Some(failure(FailureReason::ApplyOutcomeUnknown, "the state does not tell what the engine did"))
        }
        told => told,
    }
}

async fn by_result(objects: &dyn Objects, run: &mut Run, actor: &Actor) -> Result<Option<Ending>, Error> {
    let key = result_key(&run.workspace, &run.id);
    let Some(object) = objects.get(&key, None, RECEIPT_LIMIT as u64).await? else { return Ok(None) };
    let Ok(result) = ApplyResult::parse_untrusted(&object.bytes) else { return Ok(None) };
    let order: Option<Digest> = run.apply.as_ref().map(|apply| apply.order);
    let mine = result.run == run.id && result.workspace == run.workspace && result.fence == run.fence;
    if !mine || Some(result.order) != order {
        return Ok(None);
    }
    let code = result.applied.exit_code;
    let reason = match (code, result.applied.outcome_is_known()) {
        (0, true) => None,
        (_, true) => Some(FailureReason::ApplyErrored),
        (_, false) => Some(FailureReason::ApplyOutcomeUnknown),
    };
    record(run, result.applied);
    let failure = reason.map(|reason| failure(reason, format!("the engine's apply ended with exit code {code}")));
    Ok(Some(ending(run, failure, actor)))
}

fn record(run: &mut Run, applied: Applied) {
    if let Some(apply) = &mut run.apply {
        apply.exit_code = Some(applied.exit_code);
        apply.state_before = Some(applied.state_before);
        apply.state_after = Some(applied.state_after);
        apply.errored_state = applied.errored_state;
    }
}

fn ending(run: &Run, failure: Option<PhaseFailure>, actor: &Actor) -> Ending {
    let mut ending = match failure {
        None => Ending::new(Status::Applied, actor.clone()),
        Some(failure) => Ending::failed(failure, actor.clone()),
    };
    let apply: Option<ApplyRecord> = run.apply.clone();
    ending.before.extend(apply.map(|apply| What::ApplyReceived { apply: Box::new(apply) }));
    ending
}
