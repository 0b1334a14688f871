//! Races, with the true steps: who comes first is drawn by a seed, call by call. A test prints its seeds; `PLANGATE_SEED=N`
//! runs that one alone.

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};

use plangate_gate::audit::{Chain, What};
use plangate_gate::documents::{DocumentKind, LONGEST_PLAN_EXPIRY};
use plangate_gate::ids::RunId;
use plangate_gate::lifecycle::Status;
use plangate_gate::lock::LockState;
use plangate_gate::order::Phase;
use plangate_gate::receipt::PlanExit;
use plangate_gate::run::{Choice, Kind};
use plangate_wire::{AnnotateRequest, Reason};

use super::busy::{Busy, now};
use super::schedule::{Schedule, clock, draw, pause};
use super::world::{CREATES, World, at, futures};
use crate::annotate::{ANNOTATIONS, annotate};
use crate::authorize::authorize;
use crate::conclude::conclude;
use crate::error::Error;
use crate::objects::order_key;
use crate::workflow::Execution;
use crate::{admit, decide, guard, intake, prepare, project};

/// Runs a race once with each of so many seeds, or with the one that is asked for.
fn race(count: u64, run: impl Fn(u64)) {
    let asked = std::env::var("PLANGATE_SEED").ok().map(|seed| seed.parse().expect("PLANGATE_SEED is a number"));
    for seed in asked.map_or(1..=count, |seed| seed..=seed) {
        println!("PLANGATE_SEED={seed}");
        run(seed);
    }
}

/// A run of a fresh gate that waits for a decision.
fn waiting(gate: &Busy) -> RunId {
    let run = futures(gate.propose(&gate.workspace(0), Kind::Applicable));
    futures(gate.world.to_approval(&run));
    gate.take_in();
    run
}

// -- many proposals ------------------------------------------------------------------------------------------------

/// `each` proposals to each of so many workspaces at once. Of four runs one is withdrawn at some moment, the others are
/// decided on; of twenty wake-ups one is lost. Gives how many ended as what.
fn crowd(seed: u64, workspaces: u16, each: usize) -> BTreeMap<&'static str, usize> {
    let gate = &Busy { loses_a_wake_up_of: 20, ..Busy::new(workspaces) };
    let all = usize::from(workspaces) * each;
    let mut schedule = Schedule::new(seed);
    for number in (0..workspaces).flat_map(|number| std::iter::repeat_n(number, each)) {
        schedule.start(gate.any_execution());
        schedule.start(async move {
            let run = gate.propose(&gate.workspace(number), Kind::Applicable).await;
            if draw(4) == 0 {
                // From the very start until long after most have ended.
                pause(draw(1000 * each as u64)).await;
                let refused = gate.cancel(&run).await.err();
                assert!(matches!(refused, None | Some(Reason::AlreadyApplying | Reason::RunEnded)), "{refused:?}");
            }
            gate.until(|| gate.status(&run) == Some(Status::AwaitingApproval) || gate.ended(&run)).await;
            if !gate.ended(&run) {
                let choice = if draw(2) == 0 { Choice::Approve } else { Choice::Reject };
                let refused = gate.decide("bob", &run, choice).await.err();
                assert!(matches!(refused, None | Some(Reason::RunEnded)), "{refused:?}");
            }
        });
    }
    schedule.start(gate.sweeper(all));
    schedule.run();
    let counted = gate.check_all_ended();
    assert_eq!(counted.values().sum::<usize>(), all);
    gate.check_all_announced();
    counted
}

/// Nobody has failed: whoever was not withdrawn was served, however many came at once.
fn all_were_served(counted: &BTreeMap<&str, usize>) {
    let ends: BTreeSet<&str> = counted.keys().copied().collect();
    assert_eq!(ends, BTreeSet::from(["applied", "canceled", "rejected"]), "{counted:?}");
}

#[test]
fn of_two_hundred_proposals_to_one_workspace_at_once_each_has_its_turn() {
    race(1, |seed| all_were_served(&crowd(seed, 1, 200)));
}

#[test]
fn two_hundred_workspaces_with_five_proposals_each_at_once_do_not_stand_in_each_others_way() {
    race(1, |seed| all_were_served(&crowd(seed, 200, 5)));
}

// -- decisions -----------------------------------------------------------------------------------------------------

#[test]
fn of_fifty_decisions_at_once_one_is_the_decision() {
    race(10, |seed| {
        let gate = &Busy::new(1);
        let run = &waiting(gate);
        let (effective, refused) = (&Cell::new(None), &Cell::new(0));
        let mut schedule = Schedule::new(seed);
        for number in 0..50 {
            let who = format!("decider-{number}");
            gate.approver(&who);
            schedule.start(async move {
                let choice = if number % 2 == 0 { Choice::Approve } else { Choice::Reject };
                match gate.decide(&who, run, choice).await {
                    Ok(()) => assert_eq!(effective.replace(Some(choice)), None, "a second decision had effect"),
                    Err(Reason::AlreadyDecided) => refused.set(refused.get() + 1),
                    Err(reason) => panic!("{reason:?}"),
                }
            });
        }
        schedule.run();
        let choice = effective.get().expect("one had effect");
        let record = futures(gate.world.run(run));
        assert_eq!((record.decision.unwrap().choice, refused.get()), (choice, 49));
        let chain = futures(gate.world.chain(Chain::Run(run.clone())));
        let of = |is: fn(&What) -> bool| chain.iter().filter(|what| is(what)).count();
        assert_eq!(of(|what| matches!(what, What::Decided { .. })), 1);
        assert_eq!(of(|what| matches!(what, What::DecisionWithoutEffect { .. })), 49, "the late ones are recorded");
    });
}

#[test]
fn an_approval_at_the_moment_at_which_the_plan_expires_is_in_time_or_it_is_none() {
    let ends = &std::cell::RefCell::new(BTreeMap::<_, usize>::new());
    race(300, |seed| {
        let gate = &Busy::new(1);
        let id = gate.workspace(0).to_string();
        let mut spec = World::spec(&id, "payments", "sealed");
        spec["plan_expiry_seconds"] = 60.into();
        futures(gate.world.put(DocumentKind::Workspace, &id, spec));
        let mut schedule = Schedule::new(seed);
        let approved = &Cell::new(None);
        schedule.start(async move {
            let run = gate.propose(&gate.workspace(0), Kind::Applicable).await;
            gate.until(|| gate.status(&run) == Some(Status::AwaitingApproval)).await;
            // Within the last moments before the end, or the first after it.
            let expiry = gate.seen.lock().unwrap().runs[&run].plan.as_ref().unwrap().expires_at;
            let last = clock() + u64::from(now().seconds_until(expiry)) * 1000 - clock() % 1000;
            pause(last - clock() - 100 + draw(200)).await;
            approved.set(Some(gate.decide("bob", &run, Choice::Approve).await));
        });
        schedule.start(gate.any_execution());
        schedule.start(gate.sweeper(1));
        schedule.run();
        let counted = gate.check_all_ended();
        let run = gate.seen.lock().unwrap().runs.values().next().unwrap().clone();
        let failure = run.failure.as_ref().map(|failure| failure.reason.code());
        match (run.status, failure, approved.get().unwrap()) {
            (Status::Applied, None, Ok(())) | (Status::Failed, Some("plan-expired"), Ok(())) => {}
            (Status::Expired, None, Err(Reason::PlanExpired | Reason::RunEnded)) => assert!(run.decision.is_none()),
            other => panic!("{other:?}"),
        }
        let expiry = run.plan.as_ref().unwrap().expires_at;
        assert!(run.decision.is_none_or(|decision| decision.at < expiry), "decided while the plan lived");
        assert!(run.apply.is_none_or(|apply| apply.ordered_at < expiry), "ordered while the plan lived");
        *ends.borrow_mut().entry(*counted.first_key_value().unwrap().0).or_default() += 1;
    });
    if std::env::var("PLANGATE_SEED").is_err() {
        let ends = ends.borrow();
        assert!(ends.len() == 3 && ends.values().all(|count| *count >= 5), "the race is not close enough: {ends:?}");
    }
}

// -- withdrawals ---------------------------------------------------------------------------------------------------

/// One run holds the lock, two wait in line. The holder is rejected, and the first of the line is withdrawn so many
/// milliseconds after `from` says so; gives whether it had been granted the lock before its end.
fn withdrawn(seed: u64, from: fn(&Busy, &RunId) -> bool, milliseconds: u64) -> bool {
    let gate = &Busy::new(1);
    let holder = &waiting(gate);
    let [second, third] = &[(); 2].map(|()| futures(gate.propose(&gate.workspace(0), Kind::Applicable)));
    for run in [second, third] {
        futures(gate.world.admit(run)).unwrap();
    }
    gate.take_in();
    let mut schedule = Schedule::new(seed);
    schedule.start(gate.execution(second));
    schedule.start(gate.execution(third));
    schedule.start(async move {
        pause(draw(30)).await;
        gate.decide("bob", holder, Choice::Reject).await.unwrap();
        gate.conclude(holder, None).await;
    });
    schedule.start(async move {
        while !from(gate, second) {
            pause(1).await;
        }
        pause(draw(milliseconds)).await;
        gate.cancel(second).await.expect("a run that is not being applied can be withdrawn");
    });
    schedule.start(async move {
        gate.until(|| gate.status(third) == Some(Status::AwaitingApproval)).await;
        gate.decide("bob", third, Choice::Approve).await.unwrap();
    });
    schedule.start(gate.sweeper(3));
    schedule.run();
    gate.check_all_ended();
    let ends = [holder, second, third].map(|run| gate.status(run).unwrap());
    assert_eq!(ends, [Status::Rejected, Status::Canceled, Status::Applied]);
    gate.seen.lock().unwrap().runs[second].fence > 0
}

#[test]
fn a_run_withdrawn_while_it_is_granted_the_lock_leaves_it_to_the_next() {
    let granted = Cell::new(0);
    race(100, |seed| granted.set(granted.get() + u64::from(withdrawn(seed, |_, _| true, 60))));
    if std::env::var("PLANGATE_SEED").is_err() {
        assert!((10..=90).contains(&granted.get()), "granted before it was withdrawn: {} of 100", granted.get());
    }
}

#[test]
fn a_run_withdrawn_just_after_it_was_granted_the_lock_leaves_it_to_the_next() {
    let granted = |gate: &Busy, run: &RunId| gate.status(run) != Some(Status::Queued);
    race(100, |seed| assert!(withdrawn(seed, granted, 900)));
}

// -- conclusions ---------------------------------------------------------------------------------------------------

/// The stages at which the execution of a run dies.
const STAGES: [&str; 6] = ["queued", "planning", "evaluating", "awaiting", "approved", "ordered"];

/// A run whose execution has died at a stage.
fn died(gate: &Busy, stage: &str) -> RunId {
    let world = &gate.world;
    if stage == "queued" {
        // Whoever holds the lock has died as well.
        let holder = futures(gate.propose(&gate.workspace(0), Kind::Applicable));
        futures(world.admit(&holder)).unwrap();
    }
    let run = futures(gate.propose(&gate.workspace(0), Kind::Applicable));
    match stage {
        "queued" => drop(futures(world.admit(&run)).unwrap()),
        "planning" | "evaluating" => {
            futures(world.admit(&run)).unwrap();
            futures(world.prepare(&run)).unwrap();
        }
        _ => futures(world.to_approval(&run)),
    }
    if stage == "evaluating" {
        world.runner_plans(&run, CREATES, PlanExit::Changes);
        futures(world.intake(&run)).unwrap();
    }
    if matches!(stage, "approved" | "ordered") {
        futures(gate.decide("bob", &run, Choice::Approve)).unwrap();
    }
    if stage == "ordered" {
        futures(world.authorize(&run, now())).unwrap();
    }
    gate.take_in();
    for execution in world.workflow.executions.lock().unwrap().values_mut() {
        *execution = Execution::Ended;
    }
    run
}

/// Lets `processes` end a run whose execution has died, at each stage, while the task that it had goes on; it ends once, as
/// what its stores tell. Gives the ends that there were.
fn ended_by(count: u64, processes: impl for<'a> Fn(&mut Schedule<'a>, &'a Busy, &'a RunId)) -> BTreeSet<String> {
    let ends = std::cell::RefCell::new(BTreeSet::new());
    race(count, |seed| {
        for stage in STAGES {
            let gate = &Busy::new(1);
            let run = &died(gate, stage);
            let mut schedule = Schedule::new(seed);
            match stage {
                "planning" => schedule.start(gate.plan_task(run)),
                "ordered" => schedule.start(gate.apply_task(run)),
                _ => {}
            }
            processes(&mut schedule, gate, run);
            schedule.run();
            let record = futures(gate.world.check_ended(run));
            let failure = record.failure.as_ref().map(|failure| failure.reason.code());
            let engines = gate.seen.lock().unwrap().engines.get(run).copied().unwrap_or_default();
            let lock = futures(gate.world.lock());
            match (record.status, failure, engines) {
                (Status::Applied, None, 1) | (Status::Failed, Some("execution-aborted" | "apply-not-started"), 0) => {
                    assert_eq!(lock, LockState::Free, "{stage}");
                }
                (Status::Failed, Some("apply-outcome-unknown"), 1) => {
                    assert!(matches!(lock, LockState::Quarantined { .. }), "{stage}");
                }
                other => panic!("{stage}: {other:?}"),
            }
            if gate.world.objects.keys().contains(&order_key(&gate.workspace(0), run, Phase::Apply)) {
                assert!(!gate.world.runner_claims(run), "{stage}: another task could still apply");
            }
            ends.borrow_mut().insert(format!("{stage}: {}", failure.unwrap_or("applied")));
        }
    });
    ends.into_inner()
}

/// All ends that a run can come to whose execution has died.
const ENDS: [&str; 8] = [
    "approved: execution-aborted",
    "awaiting: execution-aborted",
    "evaluating: execution-aborted",
    "ordered: applied",
    "ordered: apply-not-started",
    "ordered: apply-outcome-unknown",
    "planning: execution-aborted",
    "queued: execution-aborted",
];

#[test]
fn two_sweepers_at_once_end_a_run_once() {
    let ends = ended_by(60, |schedule, gate, run| {
        for _ in 0..2 {
            schedule.start(async move {
                pause(draw(400)).await;
                while !gate.ended(run) {
                    gate.sweep().await;
                    pause(draw(50)).await;
                }
                gate.sweep().await;
            });
        }
    });
    assert!(std::env::var("PLANGATE_SEED").is_ok() || ends.iter().eq(ENDS.iter()), "{ends:?}");
}

#[test]
fn a_sweep_and_a_conclusion_at_once_end_a_run_once() {
    let ends = ended_by(60, |schedule, gate, run| {
        schedule.start(async move {
            pause(draw(400)).await;
            while !gate.ended(run) {
                gate.sweep().await;
                pause(draw(50)).await;
            }
            gate.sweep().await;
        });
        // The execution's own last step, which goes on although the execution is over.
        schedule.start(async move {
            pause(draw(400)).await;
            gate.conclude(run, None).await;
        });
    });
    assert!(std::env::var("PLANGATE_SEED").is_ok() || ends.iter().eq(ENDS.iter()), "{ends:?}");
}

// -- redrive -------------------------------------------------------------------------------------------------------

/// Everything that is stored, byte for byte.
fn everything(gate: &Busy) -> Vec<String> {
    let World { store, objects, .. } = &gate.world;
    let object = |key: &String| {
        let object = futures(crate::objects::Objects::get(objects, key, None, 1 << 20)).unwrap().unwrap();
        format!("{key} {:?} {:?}", object.version_id, object.bytes)
    };
    store.items().iter().map(|item| format!("{item:?}")).chain(objects.keys().iter().map(object)).collect()
}

/// RedriveExecution lets an execution that has failed or was ended go on with the state that it was in: each step is called
/// for a run that has ended, and its task may be started once more.
#[test]
fn a_redrive_of_an_ended_execution_finds_the_end_and_changes_nothing() {
    for stage in STAGES {
        let gate = &Busy::new(1);
        let run = &died(gate, stage);
        while !gate.ended(run) {
            futures(gate.sweep());
        }
        let before = everything(gate);
        let mut woken = 0;
        let tokens = || gate.world.workflow.woken.lock().unwrap().len();
        for token in ["again", "and again"] {
            // Whoever waits for nothing any more is woken at once, and the next step looks for itself.
            let from = tokens();
            futures(admit::admit(gate, gate, gate, run, token, now())).unwrap();
            futures(decide::request_approval(gate, gate, run, token, now())).unwrap();
            woken += tokens() - from;
        }
        assert_eq!(woken, 4);
        let names = [
            futures(prepare::prepare(gate, gate, run, now())).unwrap_err().name(),
            futures(intake::intake(gate, gate, run, LONGEST_PLAN_EXPIRY, now())).unwrap_err().name(),
            futures(project::project(gate, gate, run, now())).unwrap_err().name(),
            futures(guard::guard(gate, gate, &plangate_gate::guardrails::NoRuleEngine, run, now())).unwrap_err().name(),
            futures(authorize(gate, gate, gate, run, now())).unwrap_err().name(),
        ];
        assert_eq!(names, ["Ended"; 5], "{stage}");
        if stage == "ordered" {
            assert!(!gate.world.runner_claims(run), "a task that is started once more meets the claim");
        }
        let ended = futures(conclude(gate, gate, gate, gate, run, Some("States.TaskFailed"), "conclude", at(500)));
        assert_eq!(ended.unwrap().status, Status::Failed);
        assert_eq!(everything(gate), before, "{stage}");
    }
}

// -- notes ---------------------------------------------------------------------------------------------------------

#[test]
fn notes_that_are_written_at_once_all_stand_beside_the_decision_and_are_never_too_many() {
    race(60, |seed| {
        let gate = &Busy::new(1);
        let run = &waiting(gate);
        let note = |number: usize| AnnotateRequest {
            request_id: format!("annotate-{number}").parse().unwrap(),
            note: "a word".to_owned(),
            corrects: None,
        };
        for number in 2..ANNOTATIONS {
            futures(async { annotate(&gate.world, &gate.world.caller("bob").await, run, &note(number), at(50)).await })
                .unwrap();
        }
        // Two places are left, of all who ask for one; and somebody decides meanwhile.
        let refused = &Cell::new(0);
        let mut schedule = Schedule::new(seed);
        for (number, who) in [(1000, "bob"), (1001, "cleo"), (1002, "cleo"), (1003, "bob")] {
            let request = note(number);
            schedule.start(async move {
                let caller = gate.world.caller(who).await;
                match annotate(gate, &caller, run, &request, now()).await {
                    Ok(_) => {}
                    Err(Error::Refused(refusal)) => {
                        assert_eq!(refusal.reason, Reason::TooManyAnnotations);
                        refused.set(refused.get() + 1);
                    }
                    Err(error) => panic!("{error}"),
                }
            });
        }
        schedule.start(async move { gate.decide("bob", run, Choice::Approve).await.unwrap() });
        schedule.run();
        let chain = futures(gate.world.chain(Chain::Run(run.clone())));
        let count = |wanted: fn(&What) -> bool| chain.iter().filter(|what| wanted(what)).count();
        let notes = count(|what| matches!(what, What::RunAnnotated { .. }));
        let decisions = count(|what| matches!(what, What::Decided { .. }));
        assert_eq!((notes, decisions, refused.get()), (ANNOTATIONS, 1, 2));
    });
}
