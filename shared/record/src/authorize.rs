//! Authorising the apply: the record says approved, alive and holder of the lock; then the signed order (`R3`, `R7`, `R9`, `R13`).

use async_trait::async_trait;
use plangate_gate::audit::{Chain, What};
use plangate_gate::digest::Digest;
use plangate_gate::failure::FailureReason;
use plangate_gate::ids::RunId;
use plangate_gate::lifecycle::Status;
use plangate_gate::order::{ApprovedPlan, Phase, Signature, Signatures};
use plangate_gate::review::automatically_approved;
use plangate_gate::run::{Actor, ApplyRecord, Choice, DecisionRecord, Kind, Run, Surface, failure};
use plangate_gate::time::Timestamp;

use crate::ahead::Ahead;
use crate::attempt::Attempts;
use crate::documents::{self, pinned_policy, policy_key};
use crate::error::Error;
use crate::finish::{Ending, finish};
use crate::freeze::{self, gate_key};
use crate::objects::{Objects, signatures_key};
use crate::prepare::{self, TaskParameters, not_ready};
use crate::rows::{self, ChainRow, LockRow, RunRow, decision_key, lock_key, write};
use crate::store::Store;
use crate::workflow::WorkflowError;

/// Who signs apply orders.
#[async_trait]
pub trait Signer: Send + Sync {
    /// Signs bytes by their SHA-256.
    async fn sign(&self, digest: &Digest) -> Result<Signature, WorkflowError>;
}

/// Turns an approved run into one that is applying, and orders the apply. Called again, it orders the same.
///
/// # Errors
/// `Ended` where it ends the run (expired, or not what it says it is); `NotApproved` where nobody has decided and the
/// plan still lives; `Frozen` where an approved run must wait until a freeze is lifted; or AWS does not answer.
pub async fn authorize(
    store: &dyn Store,
    objects: &dyn Objects,
    signer: &dyn Signer,
    run: &RunId,
    now: Timestamp,
) -> Result<TaskParameters, Error> {
    let actor = Actor::gate("authorize");
    let mut attempts = Attempts::new(run.as_str());
    loop {
        let ahead = Ahead::of_run(store, run).await?;
        let store: &dyn Store = &ahead;
        let mut row = RunRow::load(store, run).await?;
        match row.run.status {
            Status::Applying => {
                let ordered_at = row.run.apply.as_ref().map_or(now, |apply| apply.ordered_at);
                let bytes = apply_order(store, &row.run, ordered_at).await?;
                return hand_out(objects, signer, &row.run, &bytes, Signed::Perhaps).await;
            }
            Status::AwaitingApproval if !row.run.plan_expired(now) => return Err(Error::NotApproved),
            Status::AwaitingApproval | Status::Approved => {}
            status => return Err(not_ready(status)),
        }
        // The lock is held by its version; a decision that was taken and a pinned policy never change.
        let mut keys = vec![lock_key(&row.run.workspace)];
        keys.extend(row.run.decision.as_ref().map(|decision| decision_key(run, &decision.by)));
        ahead.also(&keys).await?;
        let lock = LockRow::load(store, &row.run.workspace).await?;
        // The gate's freeze counts as it stands after the lock was read.
        let mut keys = vec![gate_key()];
        keys.extend(row.run.pinned.as_ref().map(|pinned| policy_key(&pinned.policy)));
        ahead.also(&keys).await?;
        let ending = match row.run.status {
            Status::AwaitingApproval => Some(Ending::new(Status::Expired, actor.clone())),
            _ if row.run.kind != Kind::Applicable => {
                let detail = "the record's kind is not one that may be applied";
                Some(Ending::failed(failure(FailureReason::KindMismatch, detail), actor.clone()))
            }
            _ if row.run.plan_expired(now) => {
                let detail = "the plan expired after it was approved";
                Some(Ending::failed(failure(FailureReason::PlanExpired, detail), actor.clone()))
            }
            _ if !lock.lock.held_by(run, row.run.fence) => {
                let detail = "the run does not hold its workspace's lock";
                Some(Ending::failed(failure(FailureReason::LockLost, detail), actor.clone()))
            }
            _ if freeze::stands(store, &lock).await?.is_some() => return Err(Error::Frozen),
            _ => None,
        };
        match ending {
            Some(ending) => {
                let status = ending.status;
                let ended = finish(store, row, ending, now).await?;
                if attempts.settle(ended).await?.is_some() {
                    return Err(Error::Ended { status });
                }
            }
            None => {
                check_decision(store, &row.run).await?;
                row.run.step(Status::Applying, now)?;
                let bytes = apply_order(store, &row.run, now).await?;
                let digest = Digest::of(&bytes);
                row.run.apply = Some(ApplyRecord {
                    order: digest,
                    ordered_at: now,
                    caller: None,
                    estate_caller: None,
                    exit_code: None,
                    state_before: None,
                    state_after: None,
                    errored_state: None,
                    state_lock: None,
                    log: None,
                });
                row.token = None;
                let (artifact, projection) = decided_on(&row.run)?;
                let mut chain = ChainRow::load(store, Chain::Run(run.clone())).await?;
                chain.append(now, &actor, What::ApplyOrdered { order: digest, artifact, projection })?;
                // The lock as it was read: it is the run's, and nothing was frozen meanwhile.
                let mut writes = vec![row.put()?, lock.check()];
                writes.extend(chain.writes()?);
                let outcome = store.transact(writes).await;
                if attempts.settle(outcome).await?.is_some() {
                    return hand_out(objects, signer, &row.run, &bytes, Signed::NotYet).await;
                }
            }
        }
    }
}

/// Holds the decision in the run's record against the one that was taken: they were written in one transaction, and a
/// record that was changed since is no authority. One that nobody took has to have all that it rests on besides, and a
/// workspace that still approves without a person.
async fn check_decision(store: &dyn Store, run: &Run) -> Result<(), Error> {
    let invalid = |error: &str| Error::RecordInvalid { what: "an approved run", error: error.to_owned() };
    let decision = run.decision.as_ref().ok_or_else(|| invalid("it has no decision"))?;
    let taken = store.get(&decision_key(&run.id, &decision.by)).await?;
    let taken: DecisionRecord = rows::read(&taken.ok_or_else(|| invalid("its decision was never taken"))?)?;
    if *decision != taken {
        return Err(invalid("its decision is not the one that was taken"));
    }
    if decision.by == Actor::Automatic || decision.surface == Surface::Automatic {
        let (_, workspace) = documents::workspace(store, &run.workspace).await?;
        if !automatically_approved(run) || !workspace.approves_automatically() {
            return Err(invalid("nothing allows an approval of it without a person"));
        }
    }
    Ok(())
}

/// The digests of artifact and projection, if a recorded approval is on that very projection.
fn decided_on(run: &Run) -> Result<(Digest, Digest), Error> {
    let invalid = |error: &str| Error::RecordInvalid { what: "an approved run", error: error.to_owned() };
    let plan = run.plan.as_ref().ok_or_else(|| invalid("it has no plan"))?;
    let projection = run.projection.as_ref().ok_or_else(|| invalid("it has no projection"))?.object.digest;
    let decision = run.decision.as_ref().ok_or_else(|| invalid("it has no decision"))?;
    if decision.choice != Choice::Approve || decision.projection != projection {
        return Err(invalid("its decision is not an approval of its projection"));
    }
    Ok((plan.artifact.digest, projection))
}

async fn apply_order(store: &dyn Store, run: &Run, ordered_at: Timestamp) -> Result<Vec<u8>, Error> {
    let invalid = |error: &str| Error::RecordInvalid { what: "an approved run", error: error.to_owned() };
    let (_, projection) = decided_on(run)?;
    let pinned = run.pinned.as_ref().ok_or_else(|| invalid("it was not prepared"))?;
    let plan = run.plan.as_ref().ok_or_else(|| invalid("it has no plan"))?;
    let policy = pinned_policy(store, &pinned.policy).await?;
    let mut order = prepare::order(run, pinned, Phase::Apply, ordered_at, plan.expires_at)?;
    order.approved = Some(ApprovedPlan {
        artifact: plan.artifact.clone(),
        projection,
        withhold: policy.withhold,
        lock_file: plan.lock_file.clone(),
        state: plan.state.clone(),
    });
    prepare::bytes(&order)
}

/// Whether the signatures of an order may stand there already.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Signed {
    NotYet,
    Perhaps,
}

/// Writes the order `bytes` of a run that is applying, and its signatures: the same bytes however often.
async fn hand_out(
    objects: &dyn Objects,
    signer: &dyn Signer,
    run: &Run,
    bytes: &[u8],
    signed: Signed,
) -> Result<TaskParameters, Error> {
    let invalid = |error: &str| Error::RecordInvalid { what: "an apply order", error: error.to_owned() };
    let apply = run.apply.as_ref().ok_or_else(|| invalid("the run has none"))?;
    prepare::put_order(objects, run, Phase::Apply, &apply.order, bytes).await?;
    let key = signatures_key(&run.workspace, &run.id);
    if signed == Signed::NotYet || objects.head(&key).await?.is_none() {
        let signatures = Signatures { signatures: vec![signer.sign(&apply.order).await?] };
        // Whoever signs at the same time signs the same bytes: either signature will do.
        objects.put_new(&key, write("signatures", &signatures)?.into_bytes()).await?;
    }
    let role = run.pinned.as_ref().ok_or_else(|| invalid("the run was not prepared"))?.spec.apply_role.clone();
    Ok(TaskParameters::of(run, &role))
}
