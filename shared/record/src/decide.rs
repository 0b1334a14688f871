//! Asking for a decision, and deciding: one function, whatever the surface (`R45`-`R48`, `R51`).

use plangate_gate::audit::{Chain, What};
use plangate_gate::digest::Digest;
use plangate_gate::documents::{Action, DocumentKind};
use plangate_gate::ids::RunId;
use plangate_gate::lifecycle::Status;
use plangate_gate::review::automatically_approved;
use plangate_gate::run::{Actor, ChainHead, Choice, DecisionRecord, Kind, Run, Surface};
use plangate_gate::time::Timestamp;
use plangate_gate::verdict::AutomaticApproval;
use plangate_wire::{DecisionRequest, Reason};

use crate::access::Caller;
use crate::ahead::Ahead;
use crate::attempt::Attempts;
use crate::documents;
use crate::error::{Error, Refusal};
use crate::finish::{Ending, finish, wake};
use crate::freeze;
use crate::prepare::not_ready;
use crate::rows::{self, ChainRow, LockRow, RunRow, decision_key, lock_key};
use crate::store::{Item, Store, StoreError, Write};
use crate::workflow::Workflow;

/// Asks a person: the run waits for a decision with `token`. Called again, only the token is replaced. An approved run
/// that must not be started while a freeze stands waits here too, as long as its plan lives.
///
/// # Errors
/// The run is not where this begins, or AWS does not answer.
pub async fn request_approval(
    store: &dyn Store,
    workflow: &dyn Workflow,
    run: &RunId,
    token: &str,
    now: Timestamp,
) -> Result<(), Error> {
    let actor = Actor::gate("request-approval");
    let mut attempts = Attempts::new(run.as_str());
    loop {
        let store: &dyn Store = &Ahead::of_run(store, run).await?;
        let mut row = RunRow::load(store, run).await?;
        let mut writes = Vec::new();
        match row.run.status {
            Status::Evaluating | Status::Reviewing => {
                let (Some(projection), Some(plan)) = (&row.run.projection, &row.run.plan) else {
                    return Err(Error::NotReady { status: row.run.status });
                };
                let what =
                    What::ApprovalRequested { projection: projection.object.digest, expires_at: plan.expires_at };
                row.run.step(Status::AwaitingApproval, now)?;
                let mut chain = ChainRow::load(store, Chain::Run(run.clone())).await?;
                chain.append(now, &actor, what)?;
                writes.extend(chain.writes()?);
            }
            Status::AwaitingApproval => {}
            Status::Approved
                if !row.run.plan_expired(now) && freeze::over(store, &row.run.workspace).await?.is_some() => {}
            // Decided, or ended: nothing to wait for. The next step reads the record.
            status if status == Status::Approved || status.is_terminal() => {
                workflow.wake(token).await?;
                return Ok(());
            }
            status => return Err(not_ready(status)),
        }
        if !row.wait_with(token, now) {
            // It waits already, or a later call does: then this one was given up.
            return Ok(());
        }
        writes.push(row.put()?);
        if attempts.settle(store.transact(writes).await).await?.is_some() {
            return Ok(());
        }
    }
}

/// Decides on a run, on behalf of `caller`. The first decision that the table takes is the decision (`R46`); who comes
/// second is recorded and refused.
///
/// Condition: nobody has decided, the run waits, its projection is the one that was seen, its plan lives; to approve, that
/// nothing is frozen.
///
/// # Errors
/// A refusal, or AWS does not answer.
pub async fn decide(
    store: &dyn Store,
    workflow: &dyn Workflow,
    caller: &Caller,
    run: &RunId,
    request: &DecisionRequest,
    surface: Surface,
    now: Timestamp,
) -> Result<(Run, DecisionRecord), Error> {
    decide_as_of(store, workflow, caller, run, request, surface, now, now).await
}

/// As [`decide`], for somebody who decided at the moment `at` and is heard `now`. To hear the same decision again is no
/// second one.
///
/// # Errors
/// As [`decide`].
#[expect(clippy::too_many_arguments, reason = "time, identity and place are parameters, each of its own type")]
pub(crate) async fn decide_as_of(
    store: &dyn Store,
    workflow: &dyn Workflow,
    caller: &Caller,
    run: &RunId,
    request: &DecisionRequest,
    surface: Surface,
    at: Timestamp,
    now: Timestamp,
) -> Result<(Run, DecisionRecord), Error> {
    let actor = caller.actor().clone();
    let decision = DecisionRecord {
        choice: request.decision,
        by: actor.clone(),
        surface,
        projection: request.projection,
        reason: reason(request)?,
        at,
    };
    let mut attempts = Attempts::new(caller.identity());
    loop {
        let ahead = Ahead::of_run(store, run).await?;
        let store: &dyn Store = &ahead;
        let row = match RunRow::load(store, run).await {
            Err(Error::NoSuchRun) => return Err(crate::access::not_permitted().into()),
            other => other?,
        };
        caller.require(Action::Approve, Some(&row.run.workspace))?;
        if row.run.decision.as_ref() == Some(&decision) {
            // Ours, of an attempt whose answer was lost.
            if let Some(token) = &row.token {
                wake(workflow, run, token).await;
            }
            return Ok((row.run, decision));
        }
        let workspace = &row.run.workspace;
        ahead.also(&[lock_key(workspace), documents::key(DocumentKind::Workspace, workspace.as_str())]).await?;
        let (_, current, unchanged) = documents::workspace_and_check(store, workspace).await?;
        let distinct =
            current.distinct_approver || row.run.pinned.as_ref().is_some_and(|pinned| pinned.spec.distinct_approver);
        if let Some(refusal) = refused(&row.run, caller, request, distinct, now) {
            record_without_effect(store, &row.run, &actor, decision, refusal.reason, now).await?;
            return Err(refusal.into());
        }
        let outcome = match request.decision {
            Choice::Reject => {
                let mut changed = row.clone();
                changed.run.decision = Some(decision.clone());
                let mut ending = Ending::new(Status::Rejected, actor.clone());
                ending.before.push(What::Decided { decision: decision.clone() });
                ending.with.extend([taken(run, &decision)?, unchanged]);
                finish(store, changed, ending, now).await?.map(|ended| ended.run)
            }
            Choice::Approve => {
                let lock = LockRow::load(store, workspace).await?;
                if let Some(refusal) = freeze::stands(store, &lock).await?.as_ref().map(freeze::refusal) {
                    record_without_effect(store, &row.run, &actor, decision, refusal.reason, now).await?;
                    return Err(refusal.into());
                }
                approve(store, row.clone(), &decision, None, [unchanged, lock.check()], now).await?
            }
        };
        if let Some(decided) = attempts.settle(outcome).await? {
            if let Some(token) = &row.token {
                wake(workflow, run, token).await;
            }
            return Ok((decided, decision));
        }
    }
}

/// Approves a run in nobody's stead (`R34`): a decision like any other, of the gate's own. Its ground is what alone allows
/// it, `row` has the review that it rests on, `reviewed` tells of that review in the same transaction, and `unchanged` are
/// the checks that the workspace's configuration and lock are what they were when that was found. One try: `Conflict` means read
/// again.
///
/// Condition: nobody has decided, the run is being reviewed, its plan lives, and nothing read has changed.
pub(crate) async fn approve_automatically(
    store: &dyn Store,
    row: RunRow,
    _ground: AutomaticApproval,
    reviewed: What,
    unchanged: [Write; 2],
    now: Timestamp,
) -> Result<Result<Run, StoreError>, Error> {
    let invalid = |error: &str| Error::RecordInvalid { what: "an eligible run", error: error.to_owned() };
    let projection = row.run.projection.as_ref().ok_or_else(|| invalid("it has no projection"))?.object.digest;
    let decision = DecisionRecord {
        choice: Choice::Approve,
        by: Actor::Automatic,
        surface: Surface::Automatic,
        projection,
        reason: None,
        at: now,
    };
    if let Some(refusal) = not_decidable(&row.run, Status::Reviewing, projection, now) {
        return Err(refusal.into());
    }
    // Whoever applies asks the record the same; what would not stand then is not written now.
    let mut after = row.run.clone();
    after.decision = Some(decision.clone());
    if !automatically_approved(&after) {
        return Err(invalid("what an approval without a person rests on is not all in its record"));
    }
    approve(store, row, &decision, Some(reviewed), unchanged, now).await
}

/// The write of a run's one decision.
fn taken(run: &RunId, decision: &DecisionRecord) -> Result<Write, Error> {
    Ok(Write::Put(Item::new(decision_key(run, &decision.by), rows::write("a decision", decision)?)))
}

/// The one way in which a run becomes approved, whoever decides: the decision, the status and the events in one
/// transaction, on condition of `unchanged` and of the run as it was read.
async fn approve(
    store: &dyn Store,
    mut row: RunRow,
    decision: &DecisionRecord,
    reviewed: Option<What>,
    unchanged: [Write; 2],
    now: Timestamp,
) -> Result<Result<Run, StoreError>, Error> {
    row.run.decision = Some(decision.clone());
    row.run.step(Status::Approved, now)?;
    let mut chain = ChainRow::load(store, Chain::Run(row.run.id.clone())).await?;
    if let Some(what) = reviewed {
        chain.append(now, &Actor::gate("review"), what)?;
    }
    chain.append(now, &decision.by, What::Decided { decision: decision.clone() })?;
    let mut writes = vec![row.put()?, taken(&row.run.id, decision)?];
    writes.extend(unchanged);
    writes.extend(chain.writes()?);
    Ok(store.transact(writes).await.map(|()| row.run))
}

/// The reason that a decider gave, if it is fit to be kept.
fn reason(request: &DecisionRequest) -> Result<Option<String>, Refusal> {
    match &request.reason {
        Some(text) => Refusal::unless_said("reason", text).map(|()| request.reason.clone()),
        None if request.decision == Choice::Reject => {
            Err(Refusal::new(Reason::InvalidRequest, "a rejection says why: give a `reason`"))
        }
        None => Ok(None),
    }
}

/// Why nobody's decision on `projection` can be the decision, if it cannot: the run has to be where `from` says.
fn not_decidable(run: &Run, from: Status, projection: Digest, now: Timestamp) -> Option<Refusal> {
    if run.kind == Kind::PlanOnly {
        return Some(Refusal::new(Reason::RunPlanOnly, "a plan-only run is never applied, so nobody decides on it"));
    }
    if let Some(decision) = &run.decision {
        let who = decision.by.name();
        let choice = if decision.choice == Choice::Approve { "approved" } else { "rejected" };
        let message = format!("`{who}` {choice} this run at {}", decision.at);
        let details = serde_json::json!({ "by": who, "decision": decision.choice, "at": decision.at });
        return Some(Refusal::new(Reason::AlreadyDecided, message).with(details));
    }
    if run.status.is_terminal() {
        return Some(Refusal::new(Reason::RunEnded, format!("the run has ended as `{}`", run.status)));
    }
    if run.status != from {
        return Some(Refusal::new(Reason::NotAwaitingApproval, format!("the run is `{}`", run.status)));
    }
    if run.plan_expired(now) {
        return Some(Refusal::new(Reason::PlanExpired, "the plan has expired"));
    }
    if run.projection.as_ref().map(|projection| projection.object.digest) != Some(projection) {
        let message = format!("the run's projection is not `{projection}`");
        return Some(Refusal::new(Reason::ProjectionMismatch, message));
    }
    None
}

/// Why this caller's decision cannot be the decision, if it cannot.
fn refused(run: &Run, caller: &Caller, request: &DecisionRequest, distinct: bool, now: Timestamp) -> Option<Refusal> {
    if let Some(refusal) = not_decidable(run, Status::AwaitingApproval, request.projection, now) {
        return Some(refusal);
    }
    if caller.is_bot() && request.decision == Choice::Approve {
        let message = format!("`{}` is a bot, and an approval is a person's", caller.person());
        return Some(Refusal::new(Reason::DistinctApproverRequired, message));
    }
    let own = run.proposer.person == *caller.person() || run.proposer.on_behalf_of.as_ref() == Some(caller.person());
    (distinct && own && request.decision == Choice::Approve).then(|| {
        let message = format!("`{}` proposed this run, and this workspace asks for another approver", caller.person());
        Refusal::new(Reason::DistinctApproverRequired, message)
    })
}

/// Records a decision that changed nothing. The run's record is not touched: only its chain grows.
async fn record_without_effect(
    store: &dyn Store,
    run: &Run,
    actor: &Actor,
    decision: DecisionRecord,
    reason: Reason,
    now: Timestamp,
) -> Result<(), Error> {
    let mut attempts = Attempts::new(run.id.as_str());
    let mut tried: Option<ChainHead> = None;
    loop {
        let mut chain = ChainRow::load(store, Chain::Run(run.id.clone())).await?;
        if tried.is_some() && chain.head() == tried.as_ref() {
            // Ours, of an attempt whose answer was lost.
            return Ok(());
        }
        let what = What::DecisionWithoutEffect { decision: decision.clone(), reason: reason.code().to_owned() };
        chain.append(now, actor, what)?;
        tried = chain.head().cloned();
        if attempts.settle(store.transact(chain.writes()?).await).await?.is_some() {
            return Ok(());
        }
    }
}
