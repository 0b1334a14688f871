//! The lock and the line.

use plangate_gate::audit::Chain;
use plangate_gate::ids::RunId;
use plangate_gate::lifecycle::Status;
use plangate_gate::lock::LockState;
use plangate_gate::receipt::PlanExit;
use plangate_gate::run::{Choice, Kind};
use plangate_wire::CancelRequest;

use super::world::{CREATES, World, at};
use crate::admit::Admission;
use crate::cancel::cancel;
use crate::error::Error;
use crate::store::Store;
use crate::sweep::{sweep, sweep_one};
use crate::workflow::Execution;

#[tokio::test]
async fn the_second_run_waits_and_is_given_the_lock_when_the_first_ends() {
    let world = World::new().await;
    let (first, second) = (world.propose(Kind::Applicable, 1).await, world.propose(Kind::Applicable, 2).await);
    assert_eq!(world.admit(&first).await.unwrap(), Admission::Admitted);
    assert_eq!(world.admit(&second).await.unwrap(), Admission::Parked);
    assert_eq!(world.run(&second).await.status, Status::Queued);
    assert!(matches!(world.prepare(&second).await, Err(Error::NotAdmitted)), "nobody plans without the lock");

    world.to_approval(&first).await;
    world.decide("bob", &first, Choice::Reject, at(7)).await.unwrap();
    world.check_ended(&first).await;
    assert_eq!(world.lock().await, LockState::Held { run: second.clone() });
    let granted = world.run(&second).await;
    assert_eq!((granted.status, granted.fence), (Status::Planning, 2));
    world.conclude(&first, None).await.unwrap();
    assert!(world.workflow.woken.lock().unwrap().contains(&format!("admit {second}")), "the holder was woken");
}

#[tokio::test]
async fn twenty_at_once_have_one_holder_and_lose_nobody_from_the_line() {
    let world = World::new().await;
    let mut runs = Vec::new();
    for number in 1..=20 {
        runs.push(world.propose(Kind::Applicable, number).await);
    }
    let mut order: Vec<RunId> = Vec::new();
    for run in &runs {
        if world.admit(run).await.unwrap() == Admission::Parked {
            order.push(run.clone());
        }
    }
    assert_eq!(order.len(), 19);
    assert_eq!(world.line().await, order, "first in, first out");
    let mut served = vec![runs[0].clone()];
    while let LockState::Held { run } = world.lock().await {
        if served.last() != Some(&run) {
            served.push(run.clone());
        }
        world.conclude(&run, Some("States.TaskFailed")).await.unwrap();
        world.check_ended(&run).await;
    }
    assert_eq!(served, runs);
    assert_eq!(world.lock().await, LockState::Free);
}

#[tokio::test]
async fn a_parked_run_that_asks_again_keeps_its_place() {
    let world = World::new().await;
    let (first, second) = (world.propose(Kind::Applicable, 1).await, world.propose(Kind::Applicable, 2).await);
    world.admit(&first).await.unwrap();
    world.admit(&second).await.unwrap();
    let again = crate::admit::admit(&world, &world, &world.workflow, &second, "another token", at(4000)).await.unwrap();
    assert_eq!(again, Admission::Parked);
    assert_eq!(world.line().await, std::slice::from_ref(&second));
    world.conclude(&first, None).await.unwrap();
    assert!(world.workflow.woken.lock().unwrap().contains(&"another token".to_owned()));
}

#[tokio::test]
async fn who_withdraws_from_the_line_is_skipped() {
    let world = World::new().await;
    let runs = [
        world.propose(Kind::Applicable, 1).await,
        world.propose(Kind::Applicable, 2).await,
        world.propose(Kind::Applicable, 3).await,
    ];
    for run in &runs {
        world.admit(run).await.unwrap();
    }
    let ana = world.caller("ana").await;
    cancel(&world, &world.workflow, &ana, &runs[1], &CancelRequest::default(), at(5)).await.unwrap();
    assert_eq!(world.check_ended(&runs[1]).await.status, Status::Canceled);
    world.conclude(&runs[0], None).await.unwrap();
    assert_eq!(world.lock().await, LockState::Held { run: runs[2].clone() });
}

#[tokio::test]
async fn a_place_that_nobody_waits_in_keeps_nobody_waiting() {
    let world = World::new().await;
    let (first, second) = (world.propose(Kind::Applicable, 1).await, world.propose(Kind::Applicable, 2).await);
    world.admit(&first).await.unwrap();
    let stranger = RunId::new(at(0), [77; 10]);
    world.store.transact(vec![crate::rows::PlaceRow::append(&world.workspace, 0, &stranger).unwrap()]).await.unwrap();
    world.admit(&second).await.unwrap();
    world.conclude(&first, None).await.unwrap();
    assert_eq!(world.lock().await, LockState::Held { run: second });
    assert!(world.line().await.is_empty());
}

/// However many: nothing but foreign writes leaves any.
#[tokio::test]
async fn many_places_that_nobody_waits_in_keep_nobody_waiting() {
    let world = World::new().await;
    let (first, second) = (world.propose(Kind::Applicable, 1).await, world.propose(Kind::Applicable, 2).await);
    world.admit(&first).await.unwrap();
    let mut lock = crate::rows::LockRow::load(&world, &world.workspace).await.unwrap();
    lock.lock.tail = 70;
    world.store.transact(vec![lock.put().unwrap()]).await.unwrap();
    for place in 1..=70 {
        let stranger = RunId::new(at(0), [place; 10]);
        let write = crate::rows::PlaceRow::append(&world.workspace, place.into(), &stranger).unwrap();
        world.store.transact(vec![write]).await.unwrap();
    }
    world.admit(&second).await.unwrap();
    world.conclude(&first, None).await.unwrap();
    assert_eq!(world.lock().await, LockState::Held { run: second.clone() });
    assert_eq!(world.line().await.len(), 50, "a transaction removes no more than twenty");

    // Nobody waits at all: who comes then stands behind them, and the sweeper lets the line go on.
    world.conclude(&second, None).await.unwrap();
    let third = world.propose(Kind::Applicable, 3).await;
    assert_eq!((world.lock().await, world.admit(&third).await.unwrap()), (LockState::Free, Admission::Parked));
    let (swept, _) = sweep(&world, &world, &world.workflow, &world.tasks, at(20)).await.unwrap();
    assert_eq!(swept.granted, 1);
    assert_eq!(world.lock().await, LockState::Held { run: third.clone() });
    assert!(world.workflow.woken.lock().unwrap().contains(&format!("admit {third}")));
}

#[tokio::test]
async fn a_run_withdrawn_while_it_is_planned_keeps_the_lock_until_its_task_has_stopped() {
    let world = World::new().await;
    let run = world.propose(Kind::Applicable, 1).await;
    world.admit(&run).await.unwrap();
    world.prepare(&run).await.unwrap();
    world.tasks.tasks.lock().unwrap().insert((run.clone(), "plan"), crate::tasks::TaskState::Stopping);
    let ana = world.caller("ana").await;
    cancel(&world, &world.workflow, &ana, &run, &CancelRequest::default(), at(5)).await.unwrap();
    assert!(matches!(world.conclude(&run, None).await, Err(Error::StillRunning)));
    assert_eq!(world.lock().await, LockState::Held { run: run.clone() });
    world.conclude(&run, None).await.unwrap();
    assert_eq!(world.check_ended(&run).await.status, Status::Canceled);
    assert_eq!(world.lock().await, LockState::Free);
}

#[tokio::test]
async fn a_withdrawal_whose_stop_was_lost_is_still_one() {
    let world = World::new().await;
    let run = world.propose(Kind::Applicable, 1).await;
    world.admit(&run).await.unwrap();
    world.prepare(&run).await.unwrap();
    let ana = world.caller("ana").await;
    cancel(&world, &world.workflow, &ana, &run, &CancelRequest::default(), at(5)).await.unwrap();
    // The execution was not stopped, and goes on: with a plan, and without a new one.
    world.workflow.executions.lock().unwrap().insert(run.clone(), Execution::Running);
    world.runner_plans(&run, CREATES, PlanExit::Changes);
    assert!(world.intake(&run).await.is_err());
    assert!(world.prepare(&run).await.is_err());
    let (swept, _) = sweep(&world, &world, &world.workflow, &world.tasks, at(20)).await.unwrap();
    assert_eq!(swept.stopped, 1);
    let (swept, _) = sweep(&world, &world, &world.workflow, &world.tasks, at(21)).await.unwrap();
    assert_eq!(swept.concluded, 1);
    assert_eq!(world.check_ended(&run).await.status, Status::Canceled);
}

#[tokio::test]
async fn a_plan_only_run_neither_takes_the_lock_nor_waits_for_it() {
    let world = World::new().await;
    let (holder, looker) = (world.propose(Kind::Applicable, 1).await, world.propose(Kind::PlanOnly, 2).await);
    world.admit(&holder).await.unwrap();
    assert_eq!(world.admit(&looker).await.unwrap(), Admission::Admitted);
    assert_eq!(world.run(&looker).await.fence, 0);
    assert_eq!(world.lock().await, LockState::Held { run: holder });
}

#[tokio::test]
async fn a_bundle_that_is_not_there_whole_is_not_planned() {
    let world = World::new().await;
    let run = world.propose(Kind::Applicable, 1).await;
    let key = world.run(&run).await.bundle.key;
    world.objects.replace(&key, b"another bundle");
    world.admit(&run).await.unwrap();
    let ended = world.check_ended(&run).await;
    assert_eq!(ended.failure.unwrap().reason.code(), "bundle-invalid");
    assert_eq!(world.chain(Chain::Run(run)).await.len(), 2);
}

#[tokio::test]
async fn a_call_that_was_given_up_does_not_wait_in_place_of_its_successor() {
    let world = World::new().await;
    let first = world.propose(Kind::Applicable, 1).await;
    let second = world.propose(Kind::Applicable, 2).await;
    world.admit(&first).await.unwrap();
    let admit = |token: &'static str, now| crate::admit::admit(&world, &world, &world.workflow, &second, token, now);
    admit("the successor's", at(20)).await.unwrap();
    assert_eq!(admit("the given-up call's", at(19)).await.unwrap(), Admission::Parked);
    world.conclude(&first, Some("States.TaskFailed")).await.unwrap();
    assert_eq!(*world.workflow.woken.lock().unwrap().last().unwrap(), "the successor's");
}

#[tokio::test]
async fn what_is_heard_of_one_execution_is_a_reason_to_look_at_one_run() {
    let world = World::new().await;
    let (first, second) = (world.propose(Kind::Applicable, 1).await, world.propose(Kind::PlanOnly, 2).await);
    for run in [&first, &second] {
        world.admit(run).await.unwrap();
        world.workflow.executions.lock().unwrap().insert(run.clone(), Execution::Ended);
    }
    let one = |run: RunId| {
        let world = &world;
        async move { sweep_one(world, world, &world.workflow, &world.tasks, &run, at(20)).await }
    };
    let (swept, ended) = one(second.clone()).await;
    assert_eq!((swept.seen, swept.concluded, ended.len()), (1, 1, 1));
    assert_eq!(world.check_ended(&second).await.status, Status::Failed);
    assert_eq!(world.run(&first).await.status, Status::Planning);
    // Heard of again, or of a run that never was: nothing.
    for run in [second, RunId::new(at(0), [77; 10])] {
        let (swept, ended) = one(run).await;
        assert_eq!((swept.seen, swept.concluded, swept.failed, ended.len()), (1, 0, 0, 0));
    }
}
