//! Taking in a plan's receipt: held strictly against the order it answers, then recorded (`R5`, `R8`, `R12`, `R13`).

use plangate_gate::audit::{Chain, What};
use plangate_gate::digest::Digest;
use plangate_gate::failure::FailureReason;
use plangate_gate::identity::is_session_of;
use plangate_gate::ids::RunId;
use plangate_gate::lifecycle::Status;
use plangate_gate::order::{Phase, StoredObject};
use plangate_gate::receipt::{Planned, RECEIPT_LIMIT, Receipt};
use plangate_gate::run::{Actor, PlanRecord, Run, failure};
use plangate_gate::time::Timestamp;

use crate::ahead::Ahead;
use crate::attempt::Attempts;
use crate::error::Error;
use crate::finish::{Ending, finish};
use crate::known::{self, known_key};
use crate::objects::{Objects, artifact_key, document_key, log_key, receipt_key};
use crate::prepare::not_ready;
use crate::rows::{ChainRow, RunRow, lock_key};
use crate::store::Store;

/// Takes in the receipt of a run's plan. A plan that failed ends the run here. The plan lives as long as its workspace says, and
/// at most `longest` seconds (`R13`): the workspace may have been written when the gate allowed more.
///
/// # Errors
/// `Ended` where the plan failed; or AWS does not answer.
pub async fn intake(
    store: &dyn Store,
    objects: &dyn Objects,
    run: &RunId,
    longest: u32,
    now: Timestamp,
) -> Result<(), Error> {
    let actor = Actor::gate("intake");
    let mut attempts = Attempts::new(run.as_str());
    loop {
        let ahead = Ahead::of_run(store, run).await?;
        let store: &dyn Store = &ahead;
        let mut row = RunRow::load(store, run).await?;
        match row.run.status {
            // Withdrawn meanwhile: the conclusion sees that the task has stopped, and ends it so.
            Status::Planning if row.run.cancel.is_some() => return Err(not_ready(row.run.status)),
            Status::Planning => {}
            Status::Evaluating => return Ok(()),
            status => return Err(not_ready(status)),
        }
        let key = receipt_key(&row.run.workspace, run, Phase::Plan);
        let read = match objects.get(&key, None, RECEIPT_LIMIT as u64).await? {
            None => Err(failure(FailureReason::PlanTaskFailed, "the plan task left no receipt")),
            Some(object) => match Receipt::parse_untrusted(&object.bytes) {
                Err(error) => Err(failure(FailureReason::ReceiptInvalid, error.to_string())),
                Ok(receipt) => answers_plan(&row.run, receipt)
                    .map(|(receipt, planned)| (Digest::of(&object.bytes), receipt, planned)),
            },
        };
        let (digest, receipt, planned) = match read {
            Ok(read) => read,
            Err(failure) => {
                let ended = finish(store, row, Ending::failed(failure, actor.clone()), now).await?;
                if attempts.settle(ended).await?.is_some() {
                    return Err(Error::Ended { status: Status::Failed });
                }
                continue;
            }
        };
        let life = row.run.pinned.as_ref().map_or(0, |pinned| pinned.spec.plan_expiry_seconds.min(longest));
        let plan = PlanRecord {
            receipt: digest,
            caller: receipt.caller,
            estate_caller: receipt.estate_caller,
            engine: receipt.engine,
            lock_file: planned.lock_file,
            exit_code: planned.exit_code,
            artifact: planned.artifact,
            document: planned.document,
            plan_format: planned.plan_format,
            state: planned.state,
            state_lock: receipt.state_lock,
            isolation: receipt.isolation,
            log: receipt.log.filter(|log| is_log_of(&row.run, Phase::Plan, log)),
            received_at: now,
            expires_at: now.plus_seconds(life),
        };
        row.run.plan = Some(plan.clone());
        row.run.step(Status::Evaluating, now)?;
        ahead.also(&[known_key(&row.run.workspace), lock_key(&row.run.workspace)]).await?;
        let (known, told) = known::compare(store, &mut row.run, now).await?;
        let mut chain = ChainRow::load(store, Chain::Run(run.clone())).await?;
        chain.append(now, &actor, What::PlanReceived { plan: Box::new(plan) })?;
        let mut writes = vec![row.put()?];
        writes.extend(chain.writes()?);
        writes.extend(known);
        if let Some(what) = told {
            let mut ledger = ChainRow::load(store, Chain::Workspace(row.run.workspace.clone())).await?;
            ledger.append(now, &actor, what)?;
            writes.extend(ledger.writes()?);
        }
        if attempts.settle(store.transact(writes).await).await?.is_some() {
            return Ok(());
        }
    }
}

/// Whether an object stands where the log of a phase belongs.
pub(crate) fn is_log_of(run: &Run, phase: Phase, object: &StoredObject) -> bool {
    object.bucket == run.bundle.bucket && object.key == log_key(&run.workspace, &run.id, phase)
}

/// Whether a receipt is the one that this run's order for `phase` asks for.
pub(crate) fn answers(run: &Run, phase: Phase, order: Option<Digest>, receipt: &Receipt) -> Result<(), &'static str> {
    let pinned = run.pinned.as_ref().ok_or("the run was not prepared")?;
    let role = match phase {
        Phase::Plan => &pinned.spec.plan_role,
        Phase::Apply => &pinned.spec.apply_role,
    };
    // Whoever was given another order than the gate's says so himself, and nothing comes of it but the end of the run.
    let refused = receipt.failure.as_ref().is_some_and(|f| f.reason == FailureReason::OrderInvalid)
        && receipt.applied.is_none()
        && receipt.planned.is_none();
    let roles = receipt.roles.plan == pinned.spec.plan_role && receipt.roles.apply == pinned.spec.apply_role;
    let estate = match (&pinned.spec.estate, &receipt.estate_caller) {
        (None, caller) => caller.is_none(),
        (Some(estate), Some(caller)) => is_session_of(caller, estate.role(phase)),
        // It came to nothing before the engine was anybody there.
        (Some(_), None) => receipt.planned.is_none() && receipt.applied.is_none(),
    };
    let checks = [
        (receipt.run == run.id && receipt.workspace == run.workspace, "it is another run's"),
        (receipt.phase == phase, "it is another phase's"),
        (refused || receipt.kind == run.kind, "it is of another kind"),
        (refused || receipt.fence == run.fence, "its fence is another"),
        (refused || Some(receipt.order) == order, "it answers another order"),
        (refused || roles, "its roles are others"),
        (refused || receipt.bundle == run.bundle.digest, "its bundle is another"),
        (receipt.failure.is_some() || receipt.engine == pinned.spec.engine, "its engine is another"),
        // A run that was refused for its identity says so itself; any other ran as the workspace.
        (
            receipt.failure.as_ref().is_some_and(|f| f.reason == FailureReason::IdentityMismatch)
                || is_session_of(&receipt.caller, role),
            "it was written under another identity",
        ),
        (refused || estate, "its engine was somebody else in the estate"),
    ];
    checks.iter().find(|(holds, _)| !holds).map_or(Ok(()), |(_, problem)| Err(problem))
}

/// Whether a receipt is the one that was asked for, and of a plan that succeeded.
fn answers_plan(run: &Run, receipt: Receipt) -> Result<(Receipt, Planned), plangate_gate::receipt::PhaseFailure> {
    let invalid = |problem: &str| failure(FailureReason::ReceiptInvalid, problem);
    answers(run, Phase::Plan, run.plan_order, &receipt).map_err(invalid)?;
    if let Some(failure) = receipt.failure {
        return Err(failure);
    }
    let planned = receipt.planned.clone().ok_or_else(|| invalid("it says nothing"))?;
    let sealed = run.pinned.as_ref().map(|pinned| pinned.spec.sealed_bucket.as_str());
    if Some(planned.artifact.bucket.as_str()) != sealed || planned.artifact.key != artifact_key(&run.id) {
        return Err(invalid("its artifact stands elsewhere"));
    }
    if planned.document.bucket != run.bundle.bucket || planned.document.key != document_key(&run.workspace, &run.id) {
        return Err(invalid("its document stands elsewhere"));
    }
    Ok((receipt, planned))
}
