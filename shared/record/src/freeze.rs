//! Freezing the gate or one workspace: nothing is admitted, approved or started until the freeze is lifted; what runs ends.
//!
//! A workspace's freeze stands in its lock, the gate's in an item of its own. Whoever admits, approves or orders reads the
//! lock, **then** the gate's freeze, and writes under the condition that the lock has not changed. The gate's item is in no
//! condition: all workspaces' transactions would contend for it, and the freeze itself would have to get past them.
//! Instead, who freezes the gate writes its item, and then writes every lock once more as it is: whoever had read a lock
//! before is refused by the table and reads again. So a freeze that was answered holds from then on.

use futures_util::stream::{self, StreamExt as _, TryStreamExt as _};
use plangate_gate::audit::{Chain, What};
use plangate_gate::documents::Action;
use plangate_gate::freeze::{Frozen, GateFreeze};
use plangate_gate::ids::WorkspaceId;
use plangate_gate::lifecycle::Status;
use plangate_gate::lock::LockState;
use plangate_gate::run::Actor;
use plangate_gate::time::Timestamp;
use plangate_wire::{FreezeRequest, FreezeScope, FreezeView, Reason};

use crate::access::Caller;
use crate::attempt::Attempts;
use crate::documents;
use crate::error::{Error, Refusal};
use crate::finish::{pass_on, wake, wake_holder};
use crate::requests::Remembered;
use crate::rows::{self, ChainRow, LockRow, RunRow, runs_list};
use crate::store::{Item, Key, Store, Write};
use crate::workflow::Workflow;

/// How many of a workspace's newest runs are woken at once when a freeze is lifted; the sweeper wakes the others.
const WOKEN: usize = 100;

/// How many workspaces are seen to at the same time.
const AT_ONCE: usize = 16;

/// The partition that lists every workspace there is, for who must not miss one: an index lags behind.
const WORKSPACES: &str = "WORKSPACES";

pub(crate) fn gate_key() -> Key {
    Key::new("FREEZE#gate", "FREEZE")
}

/// The write that lists a workspace, if it is not listed yet.
pub(crate) async fn list_workspace(store: &dyn Store, id: &str) -> Result<Option<Write>, Error> {
    let key = Key::new(WORKSPACES, id);
    Ok(match store.get(&key).await? {
        Some(_) => None,
        None => Some(Write::Put(Item::new(key, rows::write("a workspace", &id)?))),
    })
}

/// The gate's freeze as it stands in the table.
struct GateRow {
    freeze: GateFreeze,
    version: u64,
}

impl GateRow {
    async fn load(store: &dyn Store) -> Result<Self, Error> {
        match store.get(&gate_key()).await? {
            Some(item) => Ok(Self { freeze: rows::read(&item)?, version: item.version }),
            None => Ok(Self { freeze: GateFreeze::none(), version: 0 }),
        }
    }

    fn put(&self) -> Result<Write, Error> {
        let mut item = Item::new(gate_key(), rows::write("the gate's freeze", &self.freeze)?);
        item.version = self.version;
        Ok(Write::Put(item))
    }
}

/// The freeze that stands over a workspace whose lock has been read: its own, else the gate's. The answer holds for a
/// transaction that requires that lock to be as it was read.
///
/// # Errors
/// The table does not answer, or the gate's freeze is damaged.
pub async fn stands(store: &dyn Store, lock: &LockRow) -> Result<Option<Frozen>, Error> {
    match &lock.lock.frozen {
        Some(own) => Ok(Some(own.clone())),
        None => Ok(GateRow::load(store).await?.freeze.frozen),
    }
}

/// The same for a workspace whose lock has not been read, and for whoever writes nothing by it.
///
/// # Errors
/// The table does not answer, or what stands there is damaged.
pub(crate) async fn over(store: &dyn Store, workspace: &WorkspaceId) -> Result<Option<Frozen>, Error> {
    stands(store, &LockRow::load(store, workspace).await?).await
}

/// All freezes that stand over a workspace, for people.
///
/// # Errors
/// The table does not answer, or the gate's freeze is damaged.
pub async fn views(store: &dyn Store, lock: &LockRow) -> Result<Vec<FreezeView>, Error> {
    let lift = format!("plangate unfreeze {} --reason TEXT", lock.lock.workspace);
    let own = lock.lock.frozen.as_ref().map(|frozen| view(FreezeScope::Workspace, frozen, lift));
    Ok(own.into_iter().chain(gate_view(store).await?).collect())
}

/// The gate's freeze, if one stands, for people.
///
/// # Errors
/// The table does not answer, or it is damaged.
pub async fn gate_view(store: &dyn Store) -> Result<Option<FreezeView>, Error> {
    Ok(GateRow::load(store)
        .await?
        .freeze
        .frozen
        .as_ref()
        .map(|frozen| view(FreezeScope::Gate, frozen, "plangate unfreeze --gate --reason TEXT".to_owned())))
}

fn view(scope: FreezeScope, frozen: &Frozen, lift: String) -> FreezeView {
    let (by, reason) = (frozen.by.name().to_owned(), frozen.reason.clone());
    FreezeView { scope, by, at: frozen.at, reason, lift: Some(lift) }
}

/// The refusal of what cannot be done while `frozen` stands.
pub(crate) fn refusal(frozen: &Frozen) -> Refusal {
    told(Reason::Frozen, "frozen", frozen)
}

fn told(reason: Reason, word: &str, frozen: &Frozen) -> Refusal {
    let (by, at) = (frozen.by.name(), frozen.at);
    let details = serde_json::json!({ "by": by, "at": at, "reason": frozen.reason });
    Refusal::new(reason, format!("{word} by `{by}` since {at}")).with(details)
}

/// Whether the caller may freeze and lift there, and what they say is fit to be kept.
fn checked(caller: &Caller, scope: Option<&WorkspaceId>, request: &FreezeRequest) -> Result<(), Refusal> {
    caller.require(Action::Administer, scope)?;
    Refusal::unless_said("reason", &request.reason)
}

/// Freezes a workspace, or (none) the gate as a whole, on behalf of `caller`. Once this has answered, nothing there is
/// admitted, approved or ordered until it is lifted. Runs that are being planned or applied end as they would.
///
/// # Errors
/// A refusal (`already-frozen`, which also holds from then on), or AWS does not answer: the same request again goes on.
pub async fn freeze(
    store: &dyn Store,
    caller: &Caller,
    scope: Option<&WorkspaceId>,
    request: &FreezeRequest,
    now: Timestamp,
) -> Result<(), Error> {
    checked(caller, scope, request)?;
    let actor = caller.actor().clone();
    let frozen = Frozen { by: actor.clone(), at: now, reason: request.reason.clone() };
    let remembered = Remembered::new(caller.person(), &request.request_id, &("freeze", scope, request), now)?;
    let mut attempts = Attempts::new(caller.identity());
    let outcome = loop {
        if remembered.first_answer(store).await?.is_some() {
            break Ok(());
        }
        let (standing, place, chain) = match scope {
            Some(workspace) => {
                documents::known_workspace(store, workspace).await?;
                let mut lock = LockRow::load(store, workspace).await?;
                let standing = lock.lock.frozen.replace(frozen.clone());
                (standing, lock.put()?, Chain::Workspace(workspace.clone()))
            }
            None => {
                let mut gate = GateRow::load(store).await?;
                let standing = gate.freeze.frozen.replace(frozen.clone());
                (standing, gate.put()?, Chain::Gate)
            }
        };
        if let Some(standing) = standing {
            break Err(told(Reason::AlreadyFrozen, "frozen already", &standing).into());
        }
        let mut chain = ChainRow::load(store, chain).await?;
        chain.append(now, &actor, What::Frozen { reason: request.reason.clone() })?;
        let mut writes = vec![place, remembered.write("frozen")?];
        writes.extend(chain.writes()?);
        if attempts.settle(store.transact(writes).await).await?.is_some() {
            break Ok(());
        }
    };
    if scope.is_none() {
        // Also for who comes second, or again: whoever went first may have died on the way.
        let version = GateRow::load(store).await?.version;
        for_each_workspace(store, |workspace| async move {
            rewrite_lock(store, &workspace, None, Some(version), now).await.map(drop)
        })
        .await?;
    }
    outcome
}

/// Lifts the freeze of a workspace, or (none) of the gate, on behalf of `caller`; whoever waits goes on, in their order.
///
/// # Errors
/// A refusal (`not-frozen`), or AWS does not answer: the same request again goes on, and so does the sweeper.
pub async fn lift(
    store: &dyn Store,
    workflow: &dyn Workflow,
    caller: &Caller,
    scope: Option<&WorkspaceId>,
    request: &FreezeRequest,
    now: Timestamp,
) -> Result<(), Error> {
    checked(caller, scope, request)?;
    let actor = caller.actor().clone();
    let remembered = Remembered::new(caller.person(), &request.request_id, &("lift", scope, request), now)?;
    let mut attempts = Attempts::new(caller.identity());
    loop {
        if remembered.first_answer(store).await?.is_some() {
            break;
        }
        let (standing, mut writes, chain) = match scope {
            Some(workspace) => {
                let mut lock = LockRow::load(store, workspace).await?;
                let standing = lock.lock.frozen.take();
                let mut writes = line_goes_on(store, &mut lock, &actor, now).await?;
                writes.push(lock.put()?);
                (standing, writes, Chain::Workspace(workspace.clone()))
            }
            None => {
                let mut gate = GateRow::load(store).await?;
                let standing = gate.freeze.frozen.take();
                (standing, vec![gate.put()?], Chain::Gate)
            }
        };
        if standing.is_none() {
            return Err(Refusal::new(Reason::NotFrozen, "no freeze stands there").into());
        }
        let mut chain = ChainRow::load(store, chain).await?;
        chain.append(now, &actor, What::FreezeLifted { reason: request.reason.clone() })?;
        writes.push(remembered.write("lifted")?);
        writes.extend(chain.writes()?);
        if attempts.settle(store.transact(writes).await).await?.is_some() {
            break;
        }
    }
    if let Some(workspace) = scope {
        let lock = LockRow::load(store, workspace).await?.lock.lock;
        return wake_waiting(store, workflow, workspace, &lock).await;
    }
    let version = GateRow::load(store).await?.version;
    let actor = &actor;
    for_each_workspace(store, |workspace| async move {
        // Written even where nobody waits: who has read that the gate is frozen reads again.
        match rewrite_lock(store, &workspace, Some(actor), Some(version), now).await? {
            Some(lock) => wake_waiting(store, workflow, &workspace, &lock).await,
            None => Ok(()),
        }
    })
    .await
}

/// Sees to every workspace, to some of them at the same time: one after the other, an estate of thousands would take longer than a
/// request has.
async fn for_each_workspace<F: Future<Output = Result<(), Error>>>(
    store: &dyn Store,
    see_to: impl Fn(WorkspaceId) -> F,
) -> Result<(), Error> {
    let all = stream::iter(workspaces(store).await?).map(see_to);
    all.buffer_unordered(AT_ONCE).try_for_each(|()| std::future::ready(Ok(()))).await
}

/// Gives a lock that nobody holds to the head of the line, if nothing is frozen: what who lifted a freeze may have left
/// undone. Tells whether there was somebody to give it to.
///
/// # Errors
/// AWS does not answer, or others went first every time.
pub(crate) async fn resume(
    store: &dyn Store,
    workflow: &dyn Workflow,
    workspace: &WorkspaceId,
    function: &str,
    now: Timestamp,
) -> Result<bool, Error> {
    let lock = LockRow::load(store, workspace).await?;
    if lock.lock.lock != LockState::Free || stands(store, &lock).await?.is_some() {
        return Ok(false);
    }
    let lock = rewrite_lock(store, workspace, Some(&Actor::gate(function)), None, now).await?;
    wake_holder(store, workflow, workspace).await?;
    Ok(matches!(lock, Some(LockState::Held { .. })))
}

/// Every workspace there is, read consistently.
pub(crate) async fn workspaces(store: &dyn Store) -> Result<Vec<WorkspaceId>, Error> {
    let items = store.partition(WORKSPACES, "", usize::MAX).await?;
    items.iter().map(|item| Ok(rows::read(item)?)).collect()
}

/// Writes a lock as it is, as its next version; with `passing` the line goes on besides, on behalf of that actor. Gives
/// how it then stands; nothing where it was written already for this `version` of the gate's freeze, or a later one.
async fn rewrite_lock(
    store: &dyn Store,
    workspace: &WorkspaceId,
    passing: Option<&Actor>,
    version: Option<u64>,
    now: Timestamp,
) -> Result<Option<LockState>, Error> {
    let mut attempts = Attempts::new(workspace.as_str());
    loop {
        let mut lock = LockRow::load(store, workspace).await?;
        if let Some(version) = version {
            if lock.lock.gate_freeze >= version {
                return Ok(None);
            }
            lock.lock.gate_freeze = version;
        }
        let mut writes = match passing {
            Some(actor) => line_goes_on(store, &mut lock, actor, now).await?,
            None => Vec::new(),
        };
        writes.push(lock.put()?);
        if attempts.settle(store.transact(writes).await).await?.is_some() {
            return Ok(Some(lock.lock.lock));
        }
    }
}

/// The writes by which the head of the line gets a lock that nobody holds. `pass_on` looks whether anything is frozen.
async fn line_goes_on(
    store: &dyn Store,
    lock: &mut LockRow,
    actor: &Actor,
    now: Timestamp,
) -> Result<Vec<Write>, Error> {
    if lock.lock.lock == LockState::Free { pass_on(store, lock, actor, now).await } else { Ok(Vec::new()) }
}

/// Wakes the runs of a workspace that a freeze has kept waiting. Hints: the sweeper finds whom these miss.
async fn wake_waiting(
    store: &dyn Store,
    workflow: &dyn Workflow,
    workspace: &WorkspaceId,
    lock: &LockState,
) -> Result<(), Error> {
    let mut waiting = Vec::new();
    if let LockState::Held { run } = lock {
        waiting.push(RunRow::load(store, run).await?);
    }
    for item in store.list(&runs_list(workspace), None, true, WOKEN).await? {
        let row = RunRow::from_item(&item)?;
        if waiting.iter().all(|other| other.run.id != row.run.id) {
            waiting.push(row);
        }
    }
    for row in waiting {
        if let (Status::Proposed | Status::Planning | Status::Approved, Some(token)) = (row.run.status, &row.token) {
            wake(workflow, &row.run.id, token).await;
        }
    }
    Ok(())
}
