//! A process dies before or after each single write of a run's life; the workflow tries the step again, or the sweeper
//! comes. Nothing is lost, nothing is done twice.

use plangate_gate::lifecycle::Status;
use plangate_gate::lock::LockState;
use plangate_gate::receipt::PlanExit;
use plangate_gate::run::{Choice, Kind};

use super::world::{CREATES, Faults, World, at};
use crate::error::Error;
use crate::sweep::sweep;

/// Runs `step` as the workflow does: once more after an error.
macro_rules! step {
    ($step:expr) => {
        match $step.await {
            Err(Error::Store(_) | Error::Objects(_)) => $step.await.unwrap(),
            other => other.unwrap(),
        }
    };
}

/// A whole run, every step tried again after its process died.
async fn approved_run(world: &World) {
    let run = step!(world.try_propose(Kind::Applicable, 1)).id;
    step!(world.admit(&run));
    step!(world.prepare(&run));
    world.runner_plans(&run, CREATES, PlanExit::Changes);
    step!(world.intake(&run));
    step!(world.project(&run));
    step!(world.guard(&run));
    step!(world.ask(&run));
    step!(world.decide("bob", &run, Choice::Approve, at(7)));
    step!(world.authorize(&run, at(7)));
    world.runner_applies(&run, 0);
    step!(world.conclude(&run, None));
    let ended = world.check_ended(&run).await;
    assert_eq!(ended.status, Status::Applied);
    assert_eq!(world.lock().await, LockState::Free);
}

#[tokio::test]
async fn a_run_survives_the_death_of_any_process_before_or_after_any_write() {
    for happened in [false, true] {
        let mut deaths = 0;
        for call in 1.. {
            let mut world = World::new().await;
            world.faults = Faults::at(call, happened);
            approved_run(&world).await;
            if !world.faults.struck() {
                break;
            }
            deaths += 1;
        }
        // propose, admit, prepare and its order, intake, the projection and its record, guard, ask, decide, authorize
        // and its order and signatures, conclude.
        assert_eq!(deaths, 14, "every write of the story was a place to die");
    }
}

#[tokio::test]
async fn an_execution_that_died_anywhere_is_ended_by_the_sweeper() {
    for dies_after in 0..9 {
        let world = World::new().await;
        let run = world.propose(Kind::Applicable, 1).await;
        for step in 0..dies_after {
            match step {
                0 => drop(world.admit(&run).await.unwrap()),
                1 => drop(world.prepare(&run).await.unwrap()),
                2 => {
                    world.runner_plans(&run, CREATES, PlanExit::Changes);
                    world.intake(&run).await.unwrap();
                }
                3 => drop(world.project(&run).await.unwrap()),
                4 => drop(world.guard(&run).await.unwrap()),
                5 => world.ask(&run).await.unwrap(),
                6 => drop(world.decide("bob", &run, Choice::Approve, at(7)).await.unwrap()),
                7 => drop(world.authorize(&run, at(7)).await.unwrap()),
                other => panic!("there is no step {other}"),
            }
        }
        crate::workflow::Workflow::stop(&world.workflow, Kind::Applicable, &run).await.unwrap();
        let (swept, ended) = sweep(&world, &world, &world.workflow, &world.tasks, at(20)).await.unwrap();
        assert_eq!((swept.concluded, ended.len()), (1, 1), "died after {dies_after} steps");
        assert_eq!(world.check_ended(&run).await.status, Status::Failed);
        assert_eq!(world.lock().await, LockState::Free);
        let (again, _) = sweep(&world, &world, &world.workflow, &world.tasks, at(21)).await.unwrap();
        assert_eq!(again.seen, 0, "what has ended is no longer open");
    }
}

#[tokio::test]
async fn the_sweeper_starts_what_was_never_started_and_wakes_what_sleeps() {
    let world = World::new().await;
    let run = world.propose(Kind::Applicable, 1).await;
    world.workflow.executions.lock().unwrap().clear();
    let (swept, _) = sweep(&world, &world, &world.workflow, &world.tasks, at(20)).await.unwrap();
    assert_eq!(swept.started, 1);
    world.to_approval(&run).await;
    world.decide("bob", &run, Choice::Approve, at(7)).await.unwrap();
    world.workflow.woken.lock().unwrap().clear();
    let (swept, _) = sweep(&world, &world, &world.workflow, &world.tasks, at(20)).await.unwrap();
    assert_eq!(swept.woken, 1);
    assert_eq!(*world.workflow.woken.lock().unwrap(), [format!("ask {run}")]);
}
