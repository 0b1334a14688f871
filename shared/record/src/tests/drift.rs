//! The schedule that looks for drift: who is due, what a run of it is, and what is told of what it finds.

use plangate_gate::audit::{Chain, What};
use plangate_gate::documents::DocumentKind;
use plangate_gate::drift::DriftWord;
use plangate_gate::ids::RunId;
use plangate_gate::known::Compared;
use plangate_gate::lifecycle::Status;
use plangate_gate::run::{Choice, Kind, Origin, Proposer, Run};
use plangate_gate::time::Timestamp;
use plangate_wire::{FreezeRequest, Reason};

use super::world::{BUCKET, CREATES, Faults, World, at};
use crate::drift::{Looked, last_look, look, standing};
use crate::error::Error;
use crate::freeze::{freeze, lift};

const HOUR: u32 = 3600;

/// Another drift than the one of [`CREATES`].
const OTHER: &str = r#"{"format_version":"1.2","resource_changes":[{"address":"terraform_data.b","mode":"managed","type":"terraform_data","name":"b","provider_name":"terraform.io/builtin/terraform","change":{"actions":["create"],"before":null,"after":{"input":"y"},"after_unknown":{"id":true},"before_sensitive":false,"after_sensitive":{}}}]}"#;

/// A gate whose workspace is looked at every day, with one run that was applied.
async fn watched() -> (World, RunId) {
    let world = World::with(|spec| spec["drift_hours"] = 24.into()).await;
    let applied = world.applied_run(1).await;
    (world, applied)
}

/// The schedule strikes.
async fn strikes(world: &World, now: Timestamp) -> Looked {
    let mut drawn = 100;
    let noise = || {
        drawn += 1;
        Some([drawn; 10])
    };
    look(world, world, &world.workflow, BUCKET, noise, now).await.unwrap()
}

/// The run that looked last, or looks.
async fn looker(world: &World) -> RunId {
    last_look(world, &world.workspace).await.unwrap().expect("somebody has looked").run
}

/// The schedule strikes, and the run that comes of it ends with this plan.
async fn finds(world: &World, now: Timestamp, document: Option<&str>) -> Run {
    assert_eq!(strikes(world, now).await.proposed, 1);
    let run = looker(world).await;
    world.admit(&run).await.unwrap();
    world.prepare(&run).await.unwrap();
    world.looks(&run, document).await
}

/// What the ledger tells of drift: the run, and whether it found something.
async fn told(world: &World) -> Vec<(RunId, bool)> {
    let chain = world.chain(Chain::Workspace(world.workspace.clone())).await;
    let news = |what| match what {
        What::DriftFound { run, .. } => Some((run, true)),
        What::DriftGone { run, .. } => Some((run, false)),
        _ => None,
    };
    chain.into_iter().filter_map(news).collect()
}

#[tokio::test]
async fn who_asks_for_it_is_looked_at_by_an_ordinary_plan_only_run_of_what_was_applied() {
    let (world, applied) = watched().await;
    assert_eq!(strikes(&world, at(100)).await, Looked { seen: 1, proposed: 1, ..Looked::default() });
    let run = world.run(&looker(&world).await).await;
    assert_eq!((run.kind, run.status, run.origin), (Kind::PlanOnly, Status::Proposed, Origin::Drift));
    assert_eq!((&run.proposer, &run.derived_from), (&Proposer::drift(), &Some(applied.clone())));
    assert_eq!(run.bundle.digest, world.run(&applied).await.bundle.digest);
    assert!(world.workflow.executions.lock().unwrap().contains_key(&run.id));
    // Nobody decides on it, as on any plan-only run.
    let refused = world.decide("bob", &run.id, Choice::Approve, at(101)).await;
    assert!(matches!(refused, Err(Error::Refused(refusal)) if refusal.reason == Reason::RunPlanOnly));
    // While it is open there is no second, and after it none before the day is over.
    assert_eq!(strikes(&world, at(100 + 48 * HOUR)).await.proposed, 0);
    world.admit(&run.id).await.unwrap();
    world.prepare(&run.id).await.unwrap();
    world.looks(&run.id, None).await;
    assert_eq!(strikes(&world, at(99 + 24 * HOUR)).await.proposed, 0);
    assert_eq!(strikes(&world, at(100 + 24 * HOUR)).await.proposed, 1);
}

#[tokio::test]
async fn who_does_not_ask_or_has_nothing_applied_is_not_looked_at() {
    let world = World::new().await;
    world.applied_run(1).await;
    assert_eq!(strikes(&world, at(100)).await, Looked { seen: 1, ..Looked::default() });
    let world = World::with(|spec| spec["drift_hours"] = 24.into()).await;
    assert_eq!(strikes(&world, at(100)).await, Looked { seen: 1, ..Looked::default() });
    assert_eq!(last_look(&world, &world.workspace).await.unwrap(), None);
}

#[tokio::test]
async fn who_is_frozen_or_being_applied_to_is_looked_at_afterwards_and_who_is_closed_at_once() {
    let (world, _) = watched().await;
    let administrator = world.caller("administrator").await;
    let request = |id: &str| FreezeRequest { request_id: id.parse().unwrap(), reason: "an incident".into() };
    freeze(&world, &administrator, Some(&world.workspace), &request("freeze-1"), at(90)).await.unwrap();
    assert_eq!(strikes(&world, at(100)).await, Looked { seen: 1, waiting: 1, ..Looked::default() });
    lift(&world, &world.workflow, &administrator, Some(&world.workspace), &request("lift-111"), at(110)).await.unwrap();
    freeze(&world, &administrator, None, &request("freeze-2"), at(120)).await.unwrap();
    assert_eq!(strikes(&world, at(130)).await.waiting, 1);
    lift(&world, &world.workflow, &administrator, None, &request("lift-222"), at(140)).await.unwrap();

    let run = world.propose(Kind::Applicable, 2).await;
    world.to_applying(&run).await;
    assert_eq!(strikes(&world, at(150)).await.waiting, 1);
    assert!(world.runner_claims(&run));
    world.conclude(&run, Some("States.TaskFailed")).await.unwrap();
    // Closed: a fresh plan is what whoever opens it needs.
    assert_eq!(strikes(&world, at(160)).await.proposed, 1);
}

#[tokio::test]
async fn one_workspaces_trouble_does_not_keep_the_others_from_being_looked_at() {
    let (world, applied) = watched().await;
    for number in 1..=3_u8 {
        let id = plangate_gate::ids::WorkspaceId::new([number; 10]).to_string();
        world.put(DocumentKind::Workspace, &id, World::spec(&id, &format!("w-{number}"), &format!("b-{number}"))).await;
    }
    let bundle = world.run(&applied).await.bundle.key;
    world.objects.replace(&bundle, b"another");
    assert_eq!(strikes(&world, at(100)).await, Looked { seen: 4, failed: 1, ..Looked::default() });
}

#[tokio::test]
async fn whoever_dies_while_it_proposes_leaves_one_run_and_no_second() {
    for happened in [false, true] {
        let (mut world, _) = watched().await;
        world.faults = Faults::at(1, happened);
        assert_eq!(strikes(&world, at(100)).await.failed, 1);
        let again = strikes(&world, at(101)).await.proposed;
        assert_eq!(again, u64::from(!happened));
        let opened = world.chain(Chain::Workspace(world.workspace.clone())).await;
        let opened = opened.iter().filter(|what| matches!(what, What::RunOpened { .. })).count();
        assert_eq!(opened, 2, "the one that was applied, and the one that looks");
    }
}

#[tokio::test]
async fn a_finding_is_told_once_until_it_is_another_and_that_it_is_gone_is_told_too() {
    let (world, _) = watched().await;
    let day = |number: u32| at(100 + number * 24 * HOUR);
    assert_eq!(finds(&world, day(0), None).await.drift, Some(DriftWord::Nothing));
    assert!(told(&world).await.is_empty());

    let first = finds(&world, day(1), Some(CREATES)).await;
    assert_eq!(first.drift, Some(DriftWord::Found { previous: None }));
    let stands = finds(&world, day(2), Some(CREATES)).await;
    assert_eq!(stands.drift, Some(DriftWord::Standing { first: first.id.clone() }));
    let finding = standing(&world, &world.workspace).await.unwrap().unwrap().finding.unwrap();
    assert_eq!((finding.run, finding.counts.create), (first.id.clone(), 1));
    assert_eq!(Some(finding.projection), stands.projection.map(|made| made.object.digest));
    assert_eq!(told(&world).await, [(first.id.clone(), true)]);

    let other = finds(&world, day(3), Some(OTHER)).await;
    assert_eq!(other.drift, Some(DriftWord::Found { previous: Some(finding.projection) }));
    let gone = finds(&world, day(4), None).await;
    assert!(matches!(gone.drift, Some(DriftWord::Gone { .. })));
    assert_eq!(finds(&world, day(5), None).await.drift, Some(DriftWord::Nothing));
    assert_eq!(told(&world).await, [(first.id, true), (other.id, true), (gone.id, false)]);
    assert_eq!(standing(&world, &world.workspace).await.unwrap().unwrap().finding, None);
}

#[tokio::test]
async fn a_person_s_plan_says_nothing_of_drift() {
    let (world, _) = watched().await;
    finds(&world, at(100), Some(CREATES)).await;
    let before = standing(&world, &world.workspace).await.unwrap();
    let run = world.looking(2).await;
    assert_eq!(world.looks(&run, Some(OTHER)).await.drift, None);
    assert_eq!(standing(&world, &world.workspace).await.unwrap(), before);
}

#[tokio::test]
async fn a_run_that_another_apply_has_overtaken_says_nothing_and_is_made_again_soon() {
    let (world, _) = watched().await;
    // Ordered before an apply that ends while it is planned.
    strikes(&world, at(100)).await;
    let run = looker(&world).await;
    world.admit(&run).await.unwrap();
    world.prepare(&run).await.unwrap();
    let applied = world.applied_run(2).await;
    let ended = world.looks(&run, Some(CREATES)).await;
    assert_eq!((ended.compared, ended.drift), (Some(Compared::Unclear), Some(DriftWord::Unclear)));

    // Planned before it, and judged afterwards: what it would change is no drift, but what has been applied since.
    assert_eq!(strikes(&world, at(100 + 899)).await.proposed, 0);
    assert_eq!(strikes(&world, at(100 + 900)).await.proposed, 1);
    let run = looker(&world).await;
    assert_eq!(world.run(&run).await.derived_from, Some(applied));
    world.admit(&run).await.unwrap();
    world.prepare(&run).await.unwrap();
    world.runner_plans(&run, CREATES, plangate_gate::receipt::PlanExit::Changes);
    world.intake(&run).await.unwrap();
    world.applied_run(3).await;
    let ended = world.ends_planned(&run).await;
    assert_eq!((ended.compared, ended.drift), (Some(Compared::AsKnown), Some(DriftWord::Unclear)));
    assert!(told(&world).await.is_empty() && standing(&world, &world.workspace).await.unwrap().is_none());
}

#[tokio::test]
async fn that_drift_cannot_be_looked_for_any_more_is_told_once() {
    let (world, _) = watched().await;
    let mut told = Vec::new();
    for number in 0..3 {
        strikes(&world, at(100 + number * 24 * HOUR)).await;
        let run = looker(&world).await;
        world.admit(&run).await.unwrap();
        world.prepare(&run).await.unwrap();
        world.conclude(&run, Some("States.TaskFailed")).await.unwrap();
        told.push(world.check_ended(&run).await.drift.unwrap());
    }
    let chain = world.chain(Chain::Workspace(world.workspace.clone())).await;
    let not_seen = |what: &What| match what {
        What::DriftNotSeen { run, reason } => Some((run.clone(), reason.code())),
        _ => None,
    };
    let first: Vec<_> = chain.iter().filter_map(not_seen).collect();
    let [(run, "plan-task-failed")] = first.as_slice() else { panic!("{first:?}") };
    let still = DriftWord::StillFailing { first: run.clone() };
    assert_eq!(told, [DriftWord::Failing, still.clone(), still]);
    assert_eq!(standing(&world, &world.workspace).await.unwrap().unwrap().failing.unwrap().run, *run);
}
