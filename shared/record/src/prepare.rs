//! Preparing the plan: the workspace's configuration is pinned, and the runner's order written (`R5`, `R10`, `R16`).

use plangate_gate::audit::{Chain, What};
use plangate_gate::digest::Digest;
use plangate_gate::documents::DocumentKind;
use plangate_gate::ids::RunId;
use plangate_gate::lifecycle::Status;
use plangate_gate::order::{OrderAudience, OrderSchema, Phase, Roles, Sealed, WorkOrder};
use plangate_gate::run::{Actor, Kind, PinnedWorkspace, Run};
use plangate_gate::time::Timestamp;
use serde::Serialize;

use crate::ahead::Ahead;
use crate::attempt::Attempts;
use crate::documents;
use crate::error::Error;
use crate::freeze::{self, gate_key};
use crate::known::{KnownRow, known_key};
use crate::objects::{Objects, order_key, put_same};
use crate::rows::{ChainRow, LockRow, RunRow, lock_key, write};
use crate::store::Store;

/// How long a plan order is good for, in seconds: longer than a plan may take, shorter than a day's work.
const PLAN_ORDER_SECONDS: u32 = 2 * 3600;

/// What the workflow needs to start a phase's task. The order is where the runner looks for all else.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct TaskParameters {
    /// The role that the task runs under.
    pub task_role: String,
    /// The workspace.
    pub workspace: String,
    /// The run.
    pub run: String,
}

impl TaskParameters {
    pub(crate) fn of(run: &Run, role: &str) -> Self {
        Self { task_role: role.to_owned(), workspace: run.workspace.to_string(), run: run.id.to_string() }
    }
}

/// Pins the workspace on an admitted run and orders its plan. Called again, it orders the same.
///
/// # Errors
/// `NotAdmitted` for a run that waits for the lock; `Frozen` while a freeze stands and the plan is not ordered yet; its workspace is not what it must be; or AWS does not answer.
pub async fn prepare(
    store: &dyn Store,
    objects: &dyn Objects,
    run: &RunId,
    now: Timestamp,
) -> Result<TaskParameters, Error> {
    let mut attempts = Attempts::new(run.as_str());
    loop {
        let ahead = Ahead::of_run(store, run).await?;
        let store: &dyn Store = &ahead;
        let mut row = RunRow::load(store, run).await?;
        match row.run.status {
            // Withdrawn meanwhile: nothing is planned any more.
            Status::Planning if row.run.cancel.is_some() => return Err(not_ready(row.run.status)),
            Status::Planning => {}
            // Somebody completed the token of a run that waits: it goes on waiting.
            Status::Proposed | Status::Queued => return Err(Error::NotAdmitted),
            status => return Err(not_ready(status)),
        }
        let workspace = row.run.workspace.clone();
        // The workspace is pinned as it is read, and what is known noted; the lock is held by its version.
        let spec = documents::key(DocumentKind::Workspace, workspace.as_str());
        ahead.also(&[lock_key(&workspace), known_key(&workspace), spec]).await?;
        let lock = LockRow::load(store, &workspace).await?;
        if row.run.kind == Kind::Applicable && !lock.lock.held_by(run, row.run.fence) {
            return Err(Error::NotReady { status: row.run.status });
        }
        if row.run.plan_order.is_some() {
            return hand_out(objects, &row.run).await;
        }
        let (etag, spec) = documents::workspace(store, &workspace).await?;
        // The gate's freeze counts as it stands after the lock was read.
        ahead.also(&[gate_key(), documents::key(DocumentKind::Policy, spec.policy.as_str())]).await?;
        if freeze::stands(store, &lock).await?.is_some() {
            return Err(Error::Frozen);
        }
        let (policy, store_policy) = documents::pin_policy(store, &spec.policy).await?;
        let pinned = PinnedWorkspace { etag: etag.clone(), spec, policy };
        row.run.updated_at = now;
        let order = Digest::of(&plan_order(&row.run, &pinned, now)?);
        let roles = Roles { plan: pinned.spec.plan_role.clone(), apply: pinned.spec.apply_role.clone() };
        row.run.pinned = Some(pinned);
        row.run.plan_order = Some(order);
        row.run.plan_ordered_at = Some(now);
        // Read before the order is recorded: what the plan reads, it reads after this.
        row.run.known_moves = Some(KnownRow::load(store, &row.run.workspace).await?.known.moves);
        row.token = None;
        let mut chain = ChainRow::load(store, Chain::Run(run.clone())).await?;
        chain.append(now, &Actor::gate("prepare"), What::PlanOrdered { order, workspace_etag: etag, roles })?;
        let mut writes = vec![row.put()?, lock.check()];
        writes.extend(store_policy);
        writes.extend(chain.writes()?);
        if attempts.settle(store.transact(writes).await).await?.is_some() {
            return hand_out(objects, &row.run).await;
        }
    }
}

/// Writes the order of a run whose plan was ordered: the same bytes however often.
async fn hand_out(objects: &dyn Objects, run: &Run) -> Result<TaskParameters, Error> {
    let invalid = |error: &str| Error::RecordInvalid { what: "a plan order", error: error.to_owned() };
    let (Some(pinned), Some(digest), Some(at)) = (&run.pinned, run.plan_order, run.plan_ordered_at) else {
        return Err(invalid("what it is made of is not all recorded"));
    };
    put_order(objects, run, Phase::Plan, &digest, &plan_order(run, pinned, at)?).await?;
    Ok(TaskParameters::of(run, &pinned.spec.plan_role))
}

/// Writes an order whose digest was recorded: these bytes and no others, however often.
pub(crate) async fn put_order(
    objects: &dyn Objects,
    run: &Run,
    phase: Phase,
    recorded: &Digest,
    bytes: &[u8],
) -> Result<(), Error> {
    let what = match phase {
        Phase::Plan => "a plan order",
        Phase::Apply => "an apply order",
    };
    let invalid = |error: &str| Err(Error::RecordInvalid { what, error: error.to_owned() });
    if Digest::of(bytes) != *recorded {
        return invalid("its digest is another than was recorded");
    }
    if !put_same(objects, &order_key(&run.workspace, &run.id, phase), bytes).await? {
        return invalid("another order stands in its place");
    }
    Ok(())
}

pub(crate) const fn not_ready(status: Status) -> Error {
    if status.is_terminal() { Error::Ended { status } } else { Error::NotReady { status } }
}

fn plan_order(run: &Run, pinned: &PinnedWorkspace, issued_at: Timestamp) -> Result<Vec<u8>, Error> {
    order(run, pinned, Phase::Plan, issued_at, issued_at.plus_seconds(PLAN_ORDER_SECONDS))
        .and_then(|order| bytes(&order))
}

/// An order for a run, without what only an apply has.
pub(crate) fn order(
    run: &Run,
    pinned: &PinnedWorkspace,
    phase: Phase,
    issued_at: Timestamp,
    expires_at: Timestamp,
) -> Result<WorkOrder, Error> {
    let spec = &pinned.spec;
    Ok(WorkOrder {
        schema: OrderSchema::V1,
        audience: OrderAudience::Runner,
        run: run.id.clone(),
        workspace: run.workspace.clone(),
        kind: run.kind,
        phase,
        attempt: 1,
        fence: run.fence,
        issued_at,
        expires_at,
        roles: Roles { plan: spec.plan_role.clone(), apply: spec.apply_role.clone() },
        estate: spec.estate.clone(),
        bundle: run.bundle.clone(),
        engine: spec.engine.clone(),
        state: spec.state.clone(),
        secrets: spec.secrets.clone(),
        sealed: Sealed { bucket: spec.sealed_bucket.clone(), key_arn: spec.sealed_key.clone() },
        approved: None,
    })
}

pub(crate) fn bytes(order: &WorkOrder) -> Result<Vec<u8>, Error> {
    write("an order", order).map(String::into_bytes)
}
