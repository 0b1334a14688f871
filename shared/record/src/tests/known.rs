//! What the gate knows of a state, and what it tells when somebody has changed it around the gate.

use std::cell::RefCell;

use plangate_gate::audit::{Chain, What};
use plangate_gate::ids::RunId;
use plangate_gate::known::{Compared, Known, Sighting};
use plangate_gate::order::Phase;
use plangate_gate::receipt::PlanExit;
use plangate_gate::run::{Choice, Kind};
use plangate_gate::state::StateIdentity;
use plangate_wire::AcknowledgeRequest;

use super::busy::Busy;
use super::schedule::{Schedule, draw, pause};
use super::world::{Faults, NOTHING, World, at, futures};
use crate::acknowledge::acknowledge;
use crate::error::Error;
use crate::known::KnownRow;

async fn known(world: &World) -> Known {
    KnownRow::load(world, &world.workspace).await.unwrap().known
}

fn state(sighting: &Sighting) -> &StateIdentity {
    &sighting.state
}

/// What the ledger tells of changes outside: who noticed, and both states.
async fn told(world: &World) -> Vec<(RunId, StateIdentity, StateIdentity)> {
    let chain = world.chain(Chain::Workspace(world.workspace.clone())).await;
    let change = |what| match what {
        What::ChangedOutsideGate { run, before, after } => Some((run, before.state, after.state)),
        _ => None,
    };
    chain.into_iter().filter_map(change).collect()
}

#[tokio::test]
async fn a_state_that_was_changed_around_the_gate_is_told_once_with_both_identities() {
    let world = World::new().await;
    let applied = world.applied_run(1).await;
    let left = world.state(&world.workspace);
    let seen = known(&world).await.seen.unwrap();
    assert_eq!((state(&seen), &seen.run, seen.phase), (&left, &applied, Phase::Apply));
    let first = world.looking(2).await;
    assert_eq!(world.looks(&first, None).await.compared, Some(Compared::AsKnown));

    let forged = world.write_state(&world.workspace, "by hand");
    let noticed = world.looking(3).await;
    let run = world.looks(&noticed, None).await;
    let change = run.outside().unwrap();
    assert_eq!((state(&change.before), state(&change.after)), (&left, &forged));
    assert_eq!((&change.after.run, change.after.phase), (&noticed, Phase::Plan));
    let once = vec![(noticed.clone(), left, forged.clone())];
    assert_eq!(told(&world).await, once);

    let again = world.looking(4).await;
    assert_eq!(world.looks(&again, None).await.compared, Some(Compared::AsKnown));
    world.applied_run(5).await;
    assert_eq!(told(&world).await, once);
    assert_eq!(known(&world).await.outside.unwrap().after.state, forged, "it stays to be seen");
}

#[tokio::test]
async fn a_plan_that_was_ordered_before_an_apply_ended_says_nothing() {
    let world = World::new().await;
    world.applied_run(1).await;
    let before = world.state(&world.workspace);
    // It reads what was there before, and is taken in after the apply has ended.
    let early = world.looking(2).await;
    world.runner_has_planned(&early, NOTHING, PlanExit::NoChanges, before);
    // It reads what the apply has saved so far, and is taken in while that goes on.
    let during = world.looking(3).await;
    let applying = world.propose(Kind::Applicable, 4).await;
    world.to_applying(&applying).await;
    world.write_state(&world.workspace, "half of it");
    let known_before = known(&world).await;
    assert_eq!(world.looks(&during, None).await.compared, Some(Compared::Unclear));
    world.runner_applies(&applying, 0);
    assert_eq!(known(&world).await, known_before);
    world.conclude(&applying, None).await.unwrap();
    let left = known(&world).await;
    assert_eq!(world.ends_planned(&early).await.compared, Some(Compared::Unclear));
    assert_eq!(known(&world).await, left);
    assert_eq!(told(&world).await, []);
    let next = world.looking(5).await;
    assert_eq!(world.looks(&next, None).await.compared, Some(Compared::AsKnown));
}

#[tokio::test]
async fn an_apply_that_failed_is_of_the_gate_too() {
    let world = World::new().await;
    let run = world.propose(Kind::Applicable, 1).await;
    world.to_applying(&run).await;
    world.runner_applies(&run, 1);
    world.conclude(&run, None).await.unwrap();
    let known = known(&world).await;
    assert_eq!((known.seen.map(|seen| seen.state), known.applied), (Some(world.state(&world.workspace)), None));
    let next = world.looking(2).await;
    assert_eq!(world.looks(&next, None).await.compared, Some(Compared::AsKnown));
}

#[tokio::test]
async fn after_an_unknown_outcome_nothing_is_told_until_somebody_has_looked() {
    let world = World::new().await;
    world.applied_run(1).await;
    let run = world.propose(Kind::Applicable, 2).await;
    world.to_applying(&run).await;
    assert!(world.runner_claims(&run));
    let saved = world.engine(&run, 0).state_after;
    world.conclude(&run, Some("States.TaskFailed")).await.unwrap();
    assert_eq!(known(&world).await.unsettled, Some(run));

    let looker = world.try_propose_at(Kind::PlanOnly, 3, at(11)).await.unwrap().id;
    world.admit(&looker).await.unwrap();
    world.prepare(&looker).await.unwrap();
    assert_eq!(world.looks(&looker, None).await.compared, Some(Compared::Unsettled));
    // Put right by hand after they have looked: what they have looked at is what they have answered for.
    world.write_state(&world.workspace, "put right");
    let other = world.looking(4).await;
    assert_eq!(world.looks(&other, None).await.compared, Some(Compared::Unsettled));
    let administrator = world.caller("administrator").await;
    let request = AcknowledgeRequest {
        request_id: "acknowledge-1".parse().unwrap(),
        run: looker.clone(),
        note: "all there".into(),
    };
    acknowledge(&world, &world.workflow, &administrator, &world.workspace, &request, at(20)).await.unwrap();
    let settled = known(&world).await;
    assert_eq!(
        (settled.unsettled, settled.seen.map(|seen| (seen.state, seen.run))),
        (None, Some((saved.clone(), looker)))
    );
    assert_eq!(told(&world).await, []);
    let chain = world.chain(Chain::Workspace(world.workspace.clone())).await;
    let looked_at = chain.iter().find_map(|what| match what {
        What::LockAcknowledged { state, .. } => state.clone(),
        _ => None,
    });
    assert_eq!(looked_at.as_ref(), Some(&saved));

    let next = world.looking(5).await;
    world.looks(&next, None).await;
    assert_eq!(told(&world).await, [(next, saved, world.state(&world.workspace))]);
}

#[tokio::test]
async fn whoever_dies_while_it_is_told_leaves_it_told_once() {
    for happened in [false, true] {
        let mut world = World::new().await;
        world.applied_run(1).await;
        world.write_state(&world.workspace, "by hand");
        let run = world.looking(2).await;
        world.runner_plans(&run, NOTHING, PlanExit::NoChanges);
        world.faults = Faults::at(1, happened);
        assert!(matches!(world.intake(&run).await, Err(Error::Store(_))));
        assert_eq!(told(&world).await.len(), usize::from(happened));
        assert!(world.ends_planned(&run).await.outside().is_some());
        assert_eq!(told(&world).await.len(), 1);
    }
}

/// Plan-only runs and runs that are applied, many at once, and somebody who writes the state by hand now and then.
#[test]
fn however_plans_applies_and_hands_cross_only_what_a_hand_has_written_is_told_and_that_once() {
    let mut all = 0;
    for seed in 1..=40 {
        println!("PLANGATE_SEED={seed}");
        let gate = &Busy::new(1);
        let workspace = gate.workspace(0);
        let by_hand = &RefCell::new(Vec::new());
        let mut schedule = Schedule::new(seed);
        let runs = 14;
        for number in 0..runs {
            schedule.start(gate.any_execution());
            let workspace = workspace.clone();
            schedule.start(async move {
                pause(draw(6000)).await;
                let kind = if number % 3 == 0 { Kind::Applicable } else { Kind::PlanOnly };
                let run = gate.propose(&workspace, kind).await;
                if kind == Kind::Applicable {
                    let waits = plangate_gate::lifecycle::Status::AwaitingApproval;
                    gate.until(|| gate.status(&run) == Some(waits) || gate.ended(&run)).await;
                    if !gate.ended(&run) {
                        gate.decide("bob", &run, Choice::Approve).await.unwrap();
                    }
                }
            });
        }
        let hand = workspace.clone();
        schedule.start(async move {
            for _ in 0..3 {
                pause(draw(3000)).await;
                // An engine that applies holds the state's own lock: nobody writes beside it.
                gate.until(|| gate.seen.lock().unwrap().running.is_empty()).await;
                by_hand.borrow_mut().push(gate.world.write_state(&hand, "by hand"));
            }
        });
        schedule.start(gate.sweeper(runs));
        schedule.run();

        let world = &gate.world;
        let mut seen: Vec<StateIdentity> = Vec::new();
        for (_, before, after) in futures(told(world)) {
            assert!(by_hand.borrow().contains(&after), "{after} was written by an engine of the gate");
            assert!(!seen.contains(&after), "{after} is told twice");
            assert_ne!(before, after);
            seen.push(after);
        }
        all += seen.len();
        // A last one, and nobody beside it: it is told whatever has happened before.
        let last = world.write_state(&workspace, "at last");
        let run = futures(gate.propose(&workspace, Kind::PlanOnly));
        futures(async {
            world.admit(&run).await.unwrap();
            world.prepare(&run).await.unwrap();
            world.looks(&run, None).await
        });
        let end = futures(told(world));
        assert_eq!((end.len(), end.last().map(|(run, _, after)| (run, after))), (seen.len() + 1, Some((&run, &last))));
        assert_eq!(futures(known(world)).seen.unwrap().state, last);
    }
    assert!(all >= 40, "the hands are hardly ever noticed: {all}");
}
