//! Freezes: nothing is admitted, approved or started while one stands; what runs ends; nobody is lost when it is lifted.

use std::sync::atomic::{AtomicBool, Ordering};

use async_trait::async_trait;
use plangate_gate::audit::{Chain, What};
use plangate_gate::documents::DocumentKind;
use plangate_gate::ids::{RunId, WorkspaceId};
use plangate_gate::lifecycle::Status;
use plangate_gate::lock::LockState;
use plangate_gate::receipt::PlanExit;
use plangate_gate::review::Cause;
use plangate_gate::run::{Choice, Kind};
use plangate_wire::{FreezeRequest, FreezeScope, Reason};

use super::review::{APPROVES, Saying, automatic, reviewing};
use super::world::{Faults, NOTHING, World, at};
use crate::admit::Admission;
use crate::error::Error;
use crate::freeze::{freeze, gate_key, lift, views};
use crate::guard::Route;
use crate::rows::LockRow;
use crate::store::{Item, Key, Over, Store, StoreError, Write};
use crate::sweep::{Swept, sweep};

fn because(id: &str) -> FreezeRequest {
    FreezeRequest { request_id: format!("request-{id}").parse().unwrap(), reason: "an incident".to_owned() }
}

async fn try_freeze(world: &World, scope: Option<&WorkspaceId>, id: &str) -> Result<(), Error> {
    freeze(world, &world.caller("administrator").await, scope, &because(id), at(6)).await
}

async fn try_lift(world: &World, scope: Option<&WorkspaceId>, id: &str) -> Result<(), Error> {
    lift(world, &world.workflow, &world.caller("administrator").await, scope, &because(id), at(8)).await
}

async fn frozen(world: &World) {
    try_freeze(world, Some(&world.workspace), "freeze-1").await.unwrap();
}

async fn lifted(world: &World) {
    try_lift(world, Some(&world.workspace), "lift-1").await.unwrap();
}

fn woken(world: &World) -> Vec<String> {
    world.workflow.woken.lock().unwrap().clone()
}

async fn swept(world: &World, seconds: u32) -> Swept {
    sweep(world, world, &world.workflow, &world.tasks, at(seconds)).await.unwrap().0
}

fn reason<T: std::fmt::Debug>(outcome: Result<T, Error>) -> Reason {
    match outcome {
        Err(Error::Refused(refusal)) => refusal.reason,
        other => panic!("expected a refusal, got {other:?}"),
    }
}

/// The scopes that freeze the world's workspace.
fn scopes(world: &World) -> [Option<WorkspaceId>; 2] {
    [Some(world.workspace.clone()), None]
}

#[tokio::test]
async fn who_is_not_admitted_waits_and_goes_on_in_order_once_the_freeze_is_lifted() {
    for scope in scopes(&World::new().await) {
        let world = World::new().await;
        try_freeze(&world, scope.as_ref(), "freeze-1").await.unwrap();
        let runs = [world.propose(Kind::Applicable, 1).await, world.propose(Kind::Applicable, 2).await];
        let looker = world.propose(Kind::PlanOnly, 3).await;
        for run in runs.iter().chain([&looker]) {
            assert_eq!(world.admit(run).await.unwrap(), Admission::Parked);
            assert_eq!(world.admit(run).await.unwrap(), Admission::Parked, "called again, it waits on");
        }
        assert_eq!((world.line().await, world.lock().await), (runs.to_vec(), LockState::Free));
        assert_eq!(world.run(&looker).await.status, Status::Proposed);
        assert_eq!((swept(&world, 7).await.woken, woken(&world).len()), (0, 0), "who is frozen is left asleep");

        try_lift(&world, scope.as_ref(), "lift-1").await.unwrap();
        assert_eq!(world.lock().await, LockState::Held { run: runs[0].clone() });
        assert_eq!(world.line().await, [runs[1].clone()]);
        assert_eq!(woken(&world), [format!("admit {}", runs[0]), format!("admit {looker}")]);
        assert!(matches!(world.prepare(&looker).await, Err(Error::NotAdmitted)), "woken, it is admitted first");
        assert_eq!(world.admit(&looker).await.unwrap(), Admission::Admitted);
        world.prepare(&looker).await.unwrap();
        world.to_approval(&runs[0]).await;
    }
}

#[tokio::test]
async fn what_runs_ends_and_nobody_comes_after_it() {
    let world = World::new().await;
    let (first, second) = (world.propose(Kind::Applicable, 1).await, world.propose(Kind::Applicable, 2).await);
    world.admit(&first).await.unwrap();
    world.prepare(&first).await.unwrap();
    world.admit(&second).await.unwrap();
    frozen(&world).await;
    world.prepare(&first).await.expect("what was ordered is ordered");
    world.to_approval(&first).await;
    assert_eq!(reason(world.decide("bob", &first, Choice::Approve, at(7)).await), Reason::Frozen);
    let chain = world.chain(Chain::Run(first.clone())).await;
    assert!(matches!(chain.last(), Some(What::DecisionWithoutEffect { reason, .. }) if reason == "frozen"));

    world.decide("bob", &first, Choice::Reject, at(7)).await.expect("to reject stays possible");
    world.check_ended(&first).await;
    assert_eq!((world.lock().await, world.run(&second).await.status), (LockState::Free, Status::Queued));
    let ana = world.caller("ana").await;
    let third = world.propose(Kind::Applicable, 3).await;
    world.admit(&third).await.unwrap();
    crate::cancel::cancel(&world, &world.workflow, &ana, &third, &Default::default(), at(7)).await.unwrap();
    assert_eq!(world.check_ended(&third).await.status, Status::Canceled, "to withdraw too");

    lifted(&world).await;
    assert_eq!(world.lock().await, LockState::Held { run: second.clone() });
    assert!(woken(&world).contains(&format!("admit {second}")));
}

#[tokio::test]
async fn an_apply_that_was_ordered_ends_as_it_would() {
    let world = World::new().await;
    let (first, second) = (world.propose(Kind::Applicable, 1).await, world.propose(Kind::Applicable, 2).await);
    world.to_approval(&first).await;
    world.admit(&second).await.unwrap();
    world.decide("bob", &first, Choice::Approve, at(7)).await.unwrap();
    world.authorize(&first, at(7)).await.unwrap();
    frozen(&world).await;
    world.authorize(&first, at(7)).await.expect("called again, it orders the same");
    world.runner_applies(&first, 0);
    world.conclude(&first, None).await.unwrap();
    assert_eq!(world.check_ended(&first).await.status, Status::Applied);
    assert_eq!(world.run(&second).await.status, Status::Queued);
}

#[tokio::test]
async fn who_was_admitted_and_is_not_planned_yet_waits() {
    for kind in [Kind::Applicable, Kind::PlanOnly] {
        let world = World::new().await;
        let run = world.propose(kind, 1).await;
        world.admit(&run).await.unwrap();
        frozen(&world).await;
        let before = woken(&world).len();
        assert!(matches!(world.prepare(&run).await, Err(Error::Frozen)));
        assert_eq!(world.admit(&run).await.unwrap(), Admission::Parked);
        assert_eq!((swept(&world, 7).await.woken, woken(&world).len()), (0, before));
        assert!(world.objects.keys().iter().all(|key| !key.starts_with("orders/")), "no order was written");
        lifted(&world).await;
        assert_eq!(*woken(&world).last().unwrap(), format!("admit {run}"));
        world.prepare(&run).await.unwrap();
    }
}

#[tokio::test]
async fn an_approved_run_waits_until_the_freeze_is_lifted() {
    let world = World::new().await;
    let run = world.propose(Kind::Applicable, 1).await;
    world.to_approval(&run).await;
    world.decide("bob", &run, Choice::Approve, at(7)).await.unwrap();
    frozen(&world).await;
    assert!(matches!(world.authorize(&run, at(7)).await, Err(Error::Frozen)));
    crate::decide::request_approval(&world, &world.workflow, &run, "waits again", at(7)).await.unwrap();
    assert_eq!(world.run(&run).await.status, Status::Approved);
    assert_eq!(swept(&world, 7).await.woken, 0);
    lifted(&world).await;
    assert_eq!(*woken(&world).last().unwrap(), "waits again");
    world.authorize(&run, at(9)).await.unwrap();
}

#[tokio::test]
async fn an_approval_that_a_freeze_outlives_ends_with_its_plan() {
    let world = World::new().await;
    let run = world.propose(Kind::Applicable, 1).await;
    world.to_approval(&run).await;
    world.decide("bob", &run, Choice::Approve, at(7)).await.unwrap();
    frozen(&world).await;
    crate::decide::request_approval(&world, &world.workflow, &run, "waits again", at(7)).await.unwrap();
    assert_eq!(swept(&world, 4000).await.woken, 1, "its plan is dead: nobody has to lift anything");
    assert!(matches!(world.authorize(&run, at(4000)).await, Err(Error::Ended { status: Status::Failed })));
    assert_eq!(world.check_ended(&run).await.failure.unwrap().reason.code(), "plan-expired");
}

/// When a freeze overtakes a step.
#[derive(Clone, Copy, PartialEq)]
enum Moment {
    /// Right after the step has seen that the gate is not frozen: if it reads the lock only then, nothing refuses it any more.
    Looked,
    /// At the last moment before its transaction.
    Writes,
}

/// A table in which the whole gate, or the workspace, is frozen, and that answered, at such a moment.
struct Overtaken<'w> {
    world: &'w World,
    scope: Option<WorkspaceId>,
    moment: Moment,
    done: AtomicBool,
}

impl<'w> Overtaken<'w> {
    fn by((scope, moment): &(Option<WorkspaceId>, Moment), world: &'w World) -> Self {
        Self { world, scope: scope.clone(), moment: *moment, done: AtomicBool::new(false) }
    }

    async fn comes(&self, moment: Moment) {
        if moment == self.moment && !self.done.swap(true, Ordering::SeqCst) {
            try_freeze(self.world, self.scope.as_ref(), "overtaken").await.unwrap();
        }
    }
}

#[async_trait]
impl Over for Overtaken<'_> {
    fn under(&self) -> &dyn Store {
        self.world
    }
    async fn read(&self, key: &Key) -> Result<Option<Item>, StoreError> {
        let found = Store::get(self.world, key).await;
        if *key == gate_key() {
            self.comes(Moment::Looked).await;
        }
        found
    }
    async fn read_all(&self, keys: &[Key]) -> Result<Vec<Option<Item>>, StoreError> {
        let found = self.world.get_all(keys).await;
        if keys.contains(&gate_key()) {
            self.comes(Moment::Looked).await;
        }
        found
    }
    async fn write(&self, writes: Vec<Write>) -> Result<(), StoreError> {
        self.comes(Moment::Writes).await;
        self.world.transact(writes).await
    }
}

#[tokio::test]
async fn a_freeze_that_was_answered_holds_against_what_was_read_before() {
    let scopes = scopes(&World::new().await);
    for freeze in scopes.iter().flat_map(|scope| [Moment::Looked, Moment::Writes].map(|moment| (scope.clone(), moment)))
    {
        for (kind, status) in [(Kind::Applicable, Status::Queued), (Kind::PlanOnly, Status::Proposed)] {
            let world = World::new().await;
            let run = world.propose(kind, 1).await;
            let admission =
                crate::admit::admit(&Overtaken::by(&freeze, &world), &world, &world.workflow, &run, "t", at(7)).await;
            assert_eq!((admission.unwrap(), world.run(&run).await.status), (Admission::Parked, status));
        }

        let world = World::new().await;
        let first = world.propose(Kind::Applicable, 1).await;
        world.admit(&first).await.unwrap();
        let prepared = crate::prepare::prepare(&Overtaken::by(&freeze, &world), &world, &first, at(7)).await;
        assert!(matches!(prepared, Err(Error::Frozen)));

        let world = World::new().await;
        let first = world.propose(Kind::Applicable, 1).await;
        world.to_approval(&first).await;
        let store = Overtaken::by(&freeze, &world);
        let (bob, digest) = (world.caller("bob").await, world.run(&first).await.projection.unwrap().object.digest);
        let request = |decision| plangate_wire::DecisionRequest {
            decision,
            projection: digest,
            reason: Some("as agreed".to_owned()),
        };
        let surface = plangate_gate::run::Surface::Api;
        let approve = request(Choice::Approve);
        let decided = crate::decide::decide(&store, &world.workflow, &bob, &first, &approve, surface, at(7)).await;
        assert_eq!(reason(decided), Reason::Frozen);
        assert_eq!(world.run(&first).await.status, Status::AwaitingApproval);

        let world = World::new().await;
        let (first, second) = (world.propose(Kind::Applicable, 1).await, world.propose(Kind::Applicable, 2).await);
        world.to_approval(&first).await;
        world.admit(&second).await.unwrap();
        let reject = request(Choice::Reject);
        let store = Overtaken::by(&freeze, &world);
        crate::decide::decide(&store, &world.workflow, &bob, &first, &reject, surface, at(7)).await.unwrap();
        assert_eq!((world.lock().await, world.run(&second).await.status), (LockState::Free, Status::Queued));

        let world = World::new().await;
        let run = world.propose(Kind::Applicable, 1).await;
        world.to_approval(&run).await;
        world.decide("bob", &run, Choice::Approve, at(7)).await.unwrap();
        let ordered = crate::authorize::authorize(&Overtaken::by(&freeze, &world), &world, &world, &run, at(7)).await;
        assert!(matches!(ordered, Err(Error::Frozen)));
        assert_eq!(world.run(&run).await.status, Status::Approved);

        let world = World::with(automatic).await;
        let run = reviewing(&world).await;
        let store = Overtaken::by(&freeze, &world);
        let reviewed = crate::review::review(&store, &world, &Saying::text(APPROVES), &run, at(7)).await.unwrap();
        assert_eq!((reviewed.route, world.run(&run).await.status), (Route::Ask, Status::Reviewing));
        assert_eq!(world.run(&run).await.review.unwrap().cause, Some(Cause::Frozen));
    }
}

#[tokio::test]
async fn who_dies_while_freezing_the_gate_is_asked_again_and_freezes_it_once() {
    for happened in [false, true] {
        for call in [1, 2] {
            let mut world = World::new().await;
            world.faults = Faults::at(call, happened);
            let before = LockRow::load(&world, &world.workspace).await.unwrap().version;
            try_freeze(&world, None, "freeze-1").await.unwrap_err();
            try_freeze(&world, None, "freeze-1").await.unwrap();
            let after = LockRow::load(&world, &world.workspace).await.unwrap();
            assert_eq!(after.version, before + 1, "every lock is written again before it is answered, and once");
            assert!(crate::freeze::stands(&world, &after).await.unwrap().is_some());
            let frozen = |what: &What| matches!(what, What::Frozen { .. });
            assert_eq!(world.chain(Chain::Gate).await.iter().filter(|what| frozen(what)).count(), 1);
        }
    }
}

#[tokio::test]
async fn who_dies_while_lifting_the_gate_s_freeze_leaves_nobody_behind() {
    for happened in [false, true] {
        let mut deaths = 0;
        for call in 1.. {
            let mut world = World::new().await;
            let runs = [world.propose(Kind::Applicable, 1).await, world.propose(Kind::Applicable, 2).await];
            for run in &runs {
                world.admit(run).await.unwrap();
            }
            try_freeze(&world, None, "freeze-1").await.unwrap();
            world.conclude(&runs[0], None).await.unwrap();
            assert_eq!((world.lock().await, world.line().await.len()), (LockState::Free, 1));
            world.faults = Faults::at(call, happened);
            let lifted = try_lift(&world, None, "lift-1").await;
            world.workflow.woken.lock().unwrap().clear();
            swept(&world, 20).await;
            let lock = LockRow::load(&world, &world.workspace).await.unwrap();
            if crate::freeze::stands(&world, &lock).await.unwrap().is_some() {
                assert!(lifted.is_err() && !happened, "only who has written nothing has lifted nothing");
                assert_eq!(world.lock().await, LockState::Free);
            } else {
                assert_eq!(world.lock().await, LockState::Held { run: runs[1].clone() });
                assert!(woken(&world).contains(&format!("admit {}", runs[1])), "died at write {call}");
            }
            if lifted.is_ok() {
                break;
            }
            deaths += 1;
        }
        assert_eq!(deaths, 2, "the gate's freeze, and the one lock that there is");
    }
}

#[tokio::test]
async fn a_freeze_is_asked_for_once_by_who_may_and_recorded_with_its_reason() {
    let world = World::new().await;
    let id = world.workspace.to_string();
    let spec = serde_json::json!({ "person": "cleo", "workspaces": [id], "actions": ["administer"] });
    world.put(DocumentKind::Grant, "cleo-2", spec).await;
    let (bob, cleo) = (world.caller("bob").await, world.caller("cleo").await);
    let own = Some(&world.workspace);
    assert_eq!(reason(freeze(&world, &bob, own, &because("freeze-b"), at(6)).await), Reason::NotPermitted);
    assert_eq!(reason(freeze(&world, &cleo, None, &because("freeze-c"), at(6)).await), Reason::NotPermitted);
    let mut empty = because("freeze-d");
    empty.reason = " ".to_owned();
    assert_eq!(reason(freeze(&world, &cleo, own, &empty, at(6)).await), Reason::InvalidRequest);
    let elsewhere = WorkspaceId::new([9; 10]);
    assert_eq!(reason(try_freeze(&world, Some(&elsewhere), "freeze-e").await), Reason::NotFound);

    for _ in 0..2 {
        freeze(&world, &cleo, own, &because("freeze-f"), at(6)).await.expect("asked again, it is the same answer");
    }
    assert_eq!(reason(try_freeze(&world, own, "freeze-g").await), Reason::AlreadyFrozen);
    try_freeze(&world, None, "freeze-h").await.unwrap();
    let lock = LockRow::load(&world, &world.workspace).await.unwrap();
    let shown: Vec<_> =
        views(&world, &lock).await.unwrap().into_iter().map(|view| (view.scope, view.by, view.reason)).collect();
    let (cleo_s, gate_s) = (FreezeScope::Workspace, FreezeScope::Gate);
    let why = || "an incident".to_owned();
    assert_eq!(shown, [(cleo_s, "cleo".to_owned(), why()), (gate_s, "administrator".to_owned(), why())]);

    assert_eq!(reason(lift(&world, &world.workflow, &cleo, None, &because("l-a"), at(8)).await), Reason::NotPermitted);
    try_lift(&world, None, "lift-gate").await.unwrap();
    lifted(&world).await;
    assert_eq!(reason(try_lift(&world, own, "lift-9").await), Reason::NotFrozen);
    let told = |chain: Vec<What>| -> Vec<String> {
        let word = |what| match what {
            What::Frozen { reason } => Some(format!("frozen: {reason}")),
            What::FreezeLifted { reason } => Some(format!("lifted: {reason}")),
            _ => None,
        };
        chain.into_iter().filter_map(word).collect()
    };
    let both = ["frozen: an incident", "lifted: an incident"];
    assert_eq!(told(world.chain(Chain::Workspace(world.workspace.clone())).await), both);
    assert_eq!(told(world.chain(Chain::Gate).await), both);
}

#[tokio::test]
async fn a_quarantine_that_is_opened_under_a_freeze_lets_nobody_in() {
    let world = World::new().await;
    let run: RunId = world.propose(Kind::Applicable, 1).await;
    world.to_approval(&run).await;
    world.decide("bob", &run, Choice::Approve, at(7)).await.unwrap();
    world.authorize(&run, at(7)).await.unwrap();
    assert!(world.runner_claims(&run));
    world.conclude(&run, Some("States.TaskFailed")).await.unwrap();
    let waiting = world.propose(Kind::Applicable, 2).await;
    world.admit(&waiting).await.unwrap();
    let looker = world.try_propose_at(Kind::PlanOnly, 3, at(11)).await.unwrap().id;
    world.admit(&looker).await.unwrap();
    world.prepare(&looker).await.unwrap();
    world.runner_plans(&looker, NOTHING, PlanExit::NoChanges);
    world.intake(&looker).await.unwrap();
    world.project(&looker).await.unwrap();
    frozen(&world).await;
    let request = plangate_wire::AcknowledgeRequest {
        request_id: "acknowledge-1".parse().unwrap(),
        run: looker,
        note: "looked".to_owned(),
    };
    let administrator = world.caller("administrator").await;
    let workspace = world.workspace.clone();
    crate::acknowledge::acknowledge(&world, &world.workflow, &administrator, &workspace, &request, at(20))
        .await
        .unwrap();
    assert_eq!((world.lock().await, world.run(&waiting).await.status), (LockState::Free, Status::Queued));
    lifted(&world).await;
    assert_eq!(world.lock().await, LockState::Held { run: waiting });
}
