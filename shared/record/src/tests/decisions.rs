//! Decisions: who, when, on what, and only once.

use plangate_gate::audit::{Chain, What};
use plangate_gate::digest::Digest;
use plangate_gate::documents::DocumentKind;
use plangate_gate::lifecycle::Status;
use plangate_gate::projection::ProjectionView;
use plangate_gate::run::{Choice, Kind};
use plangate_wire::Reason;

use super::world::{CREATES, NOTHING, World, at};
use crate::error::Error;
use crate::guard::Route;
use crate::objects::Objects;
use crate::store::{Store, Write};
use plangate_gate::receipt::PlanExit;

pub(super) fn reason<T: std::fmt::Debug>(outcome: Result<T, Error>) -> Reason {
    match outcome {
        Err(Error::Refused(refusal)) => refusal.reason,
        other => panic!("expected a refusal, got {other:?}"),
    }
}

#[tokio::test]
async fn another_person_approves_and_the_proposer_does_not() {
    let world = World::new().await;
    let run = world.propose(Kind::Applicable, 1).await;
    world.to_approval(&run).await;
    assert_eq!(reason(world.decide("ana", &run, Choice::Approve, at(7)).await), Reason::NotPermitted);
    let (record, decision) = world.decide("bob", &run, Choice::Approve, at(7)).await.unwrap();
    assert_eq!(record.status, Status::Approved);
    assert_eq!(decision.projection, record.projection.unwrap().object.digest);
    assert_eq!(*world.workflow.woken.lock().unwrap().last().unwrap(), format!("ask {run}"));
}

#[tokio::test]
async fn a_proposer_who_may_approve_still_needs_another_person() {
    for (distinct, refused) in [(true, true), (false, false)] {
        let world = World::with(|spec| spec["distinct_approver"] = distinct.into()).await;
        let id = world.workspace.to_string();
        let grant =
            serde_json::json!({ "person": "ana", "workspaces": [id], "actions": ["read", "propose", "approve"] });
        world.put(DocumentKind::Grant, "ana", grant).await;
        let run = world.propose(Kind::Applicable, 1).await;
        world.to_approval(&run).await;
        let outcome = world.decide("ana", &run, Choice::Approve, at(7)).await;
        if refused {
            assert_eq!(reason(outcome), Reason::DistinctApproverRequired);
            assert_eq!(world.run(&run).await.status, Status::AwaitingApproval);
            let chain = world.chain(Chain::Run(run)).await;
            assert!(
                matches!(chain.last(), Some(What::DecisionWithoutEffect { reason, .. }) if reason == "distinct-approver-required")
            );
        } else {
            outcome.unwrap();
        }
    }
}

#[tokio::test]
async fn the_first_decision_is_the_decision_and_the_second_is_recorded() {
    let world = World::new().await;
    let run = world.propose(Kind::Applicable, 1).await;
    world.to_approval(&run).await;
    world.decide("bob", &run, Choice::Approve, at(7)).await.unwrap();
    assert_eq!(reason(world.decide("cleo", &run, Choice::Reject, at(8)).await), Reason::AlreadyDecided);
    let record = world.run(&run).await;
    assert_eq!((record.status, record.decision.unwrap().choice), (Status::Approved, Choice::Approve));
    let chain = world.chain(Chain::Run(run)).await;
    assert!(matches!(chain.last(), Some(What::DecisionWithoutEffect { reason, .. }) if reason == "already-decided"));
}

#[tokio::test]
async fn a_decision_after_the_end_is_recorded_and_leaves_the_record_as_it_was() {
    let world = World::new().await;
    let run = world.propose(Kind::Applicable, 1).await;
    world.to_approval(&run).await;
    world.decide("bob", &run, Choice::Reject, at(7)).await.unwrap();
    let before = world.store.items().into_iter().find(|item| item.key == crate::rows::run_key(&run)).unwrap();
    assert_eq!(reason(world.decide("cleo", &run, Choice::Approve, at(8)).await), Reason::AlreadyDecided);
    let after = world.store.items().into_iter().find(|item| item.key == crate::rows::run_key(&run)).unwrap();
    assert_eq!(before, after);
    assert!(matches!(world.chain(Chain::Run(run)).await.last(), Some(What::DecisionWithoutEffect { .. })));
}

#[tokio::test]
async fn a_decision_on_another_projection_or_a_dead_plan_is_refused() {
    let world = World::new().await;
    let run = world.propose(Kind::Applicable, 1).await;
    world.to_approval(&run).await;
    let other = Digest::of(b"another projection");
    assert_eq!(reason(world.decide_on("bob", &run, Choice::Approve, other, at(7)).await), Reason::ProjectionMismatch);
    assert_eq!(reason(world.decide("bob", &run, Choice::Approve, at(4000)).await), Reason::PlanExpired);
    assert_eq!(world.run(&run).await.status, Status::AwaitingApproval);
    assert!(matches!(world.authorize(&run, at(4000)).await, Err(Error::Ended { status: Status::Expired })));
    assert_eq!(world.check_ended(&run).await.status, Status::Expired);
}

#[tokio::test]
async fn a_woken_run_that_nobody_approved_is_not_applied() {
    let world = World::new().await;
    let run = world.propose(Kind::Applicable, 1).await;
    world.to_approval(&run).await;
    assert!(matches!(world.authorize(&run, at(7)).await, Err(Error::NotApproved)));
    assert_eq!(world.run(&run).await.status, Status::AwaitingApproval, "a token is no authority");
}

#[tokio::test]
async fn a_plan_only_run_cannot_be_decided_or_applied_under_any_input() {
    let world = World::new().await;
    let run = world.propose(Kind::PlanOnly, 1).await;
    world.admit(&run).await.unwrap();
    world.prepare(&run).await.unwrap();
    world.runner_plans(&run, CREATES, PlanExit::Changes);
    world.intake(&run).await.unwrap();
    world.project(&run).await.unwrap();
    for choice in [Choice::Approve, Choice::Reject] {
        assert_eq!(reason(world.decide("bob", &run, choice, at(7)).await), Reason::RunPlanOnly);
    }
    assert!(world.ask(&run).await.is_err());
    assert_eq!(world.guard(&run).await.unwrap().route, Route::Planned);
    assert_eq!(world.check_ended(&run).await.status, Status::Planned);
    assert!(world.authorize(&run, at(7)).await.is_err());
}

#[tokio::test]
async fn no_changes_ends_without_guardrails_or_approval() {
    let world = World::new().await;
    let run = world.propose(Kind::Applicable, 1).await;
    world.admit(&run).await.unwrap();
    world.prepare(&run).await.unwrap();
    world.runner_plans(&run, NOTHING, PlanExit::NoChanges);
    world.intake(&run).await.unwrap();
    assert_eq!(world.project(&run).await.unwrap(), crate::project::Projected::NoChanges);
    let ended = world.check_ended(&run).await;
    assert_eq!((ended.status, ended.guardrails, ended.projection), (Status::NoChanges, None, None));
}

#[tokio::test]
async fn a_projection_over_budget_is_stored_whole_and_a_person_decides_on_it() {
    let world = World::with(|workspace| workspace["automatic_approval"] = true.into()).await;
    let policy = serde_json::json!({ "schema": "plangate.policy.v1", "projection_budget_bytes": 10 });
    world.put(DocumentKind::Policy, "default", policy).await;
    let run = world.propose(Kind::Applicable, 1).await;
    world.to_approval(&run).await;
    let record = world.run(&run).await;
    let (outcome, shown) = (record.guardrails.unwrap(), record.projection.unwrap().object);
    assert!(!outcome.eligible && outcome.findings.iter().any(|finding| finding.reason == "projection-over-budget"));
    let stored = Objects::get(&world.objects, &shown.key, None, 1 << 20).await.unwrap().unwrap().bytes;
    assert!(ProjectionView::parse(&stored).is_ok(), "whole");
    assert_eq!((Digest::of(&stored), stored.len() as u64), (shown.digest, shown.bytes));
    world.decide("bob", &run, Choice::Approve, at(7)).await.unwrap();
}

#[tokio::test]
async fn a_document_that_contradicts_the_exit_code_or_is_none_fails_the_run() {
    let cases = [
        (CREATES, PlanExit::NoChanges, "plan-inconsistent"),
        (NOTHING, PlanExit::Changes, "plan-inconsistent"),
        ("not json", PlanExit::Changes, "plan-unparseable"),
        (r#"{"format_version":"9.0","resource_changes":[]}"#, PlanExit::Changes, "plan-format-unsupported"),
    ];
    for (document, exit, expected) in cases {
        let world = World::new().await;
        let run = world.propose(Kind::Applicable, 1).await;
        world.admit(&run).await.unwrap();
        world.prepare(&run).await.unwrap();
        world.runner_plans(&run, document, exit);
        world.intake(&run).await.unwrap();
        assert!(world.project(&run).await.is_err());
        let ended = world.check_ended(&run).await;
        assert_eq!((ended.status, ended.failure.unwrap().reason.code()), (Status::Failed, expected));
        let outcome = ended.guardrails.expect("recorded as ineligible");
        assert_eq!((outcome.eligible, outcome.findings[0].reason.as_str()), (false, expected));
    }
}

#[tokio::test]
async fn a_document_replaced_after_it_was_recorded_is_not_judged() {
    let world = World::new().await;
    let run = world.propose(Kind::Applicable, 1).await;
    world.admit(&run).await.unwrap();
    world.prepare(&run).await.unwrap();
    world.runner_plans(&run, CREATES, PlanExit::Changes);
    world.intake(&run).await.unwrap();
    // A new version does not matter: the recorded one is read. A bucket that lies about versions does.
    world.objects.replace(&crate::objects::document_key(&world.workspace, &run), NOTHING.as_bytes());
    assert_eq!(world.project(&run).await.unwrap(), crate::project::Projected::Changes);
}

/// The recorded version's bytes are others when they are judged than when they were shown: nobody can have written that
/// version again, but whoever could finds the rules silent, and a person asked.
#[tokio::test]
async fn a_document_that_is_another_when_it_is_judged_makes_nothing_eligible() {
    let world = World::with(|spec| spec["automatic_approval"] = true.into()).await;
    let run = world.propose(Kind::Applicable, 1).await;
    world.admit(&run).await.unwrap();
    world.prepare(&run).await.unwrap();
    world.runner_plans(&run, CREATES, PlanExit::Changes);
    world.intake(&run).await.unwrap();
    world.project(&run).await.unwrap();
    let mut item = world.store.get(&crate::rows::run_key(&run)).await.unwrap().unwrap();
    let mut record = world.run(&run).await;
    record.plan.as_mut().unwrap().document.digest = Digest::of(b"another document");
    item.body = serde_json::to_string(&record).unwrap();
    world.store.transact(vec![Write::Put(item)]).await.unwrap();
    assert_eq!(world.guard(&run).await.unwrap().route, Route::Ask);
    let outcome = world.run(&run).await.guardrails.unwrap();
    assert_eq!((outcome.eligible, outcome.findings[0].reason.as_str()), (false, "guardrail-error"));
}

#[tokio::test]
async fn the_always_escalate_reviewer_asks_a_person_even_where_automatic_approval_is_on() {
    let world = World::with(|spec| spec["automatic_approval"] = true.into()).await;
    let run = world.propose(Kind::Applicable, 1).await;
    world.to_approval(&run).await;
    let record = world.run(&run).await;
    assert_eq!(record.status, Status::AwaitingApproval);
    assert!(record.guardrails.unwrap().eligible, "the change is eligible by the default policy");
    assert_eq!(record.review.unwrap().cause, Some(plangate_gate::review::Cause::AlwaysEscalate));
}

#[tokio::test]
async fn a_bot_does_not_approve() {
    let world = World::new().await;
    let iam = serde_json::json!([{ "account": "111122223333", "role": "robot" }]);
    let robot = serde_json::json!({ "person": "robot", "bot": true, "iam": iam });
    world.put(DocumentKind::Principal, "robot", robot).await;
    let grant =
        serde_json::json!({ "person": "robot", "workspaces": [world.workspace], "actions": ["read", "approve"] });
    world.put(DocumentKind::Grant, "robot", grant).await;
    let run = world.propose(Kind::Applicable, 1).await;
    world.to_approval(&run).await;
    let refused = world.decide("robot", &run, Choice::Approve, at(7)).await;
    assert_eq!(reason(refused), Reason::DistinctApproverRequired);
    world.decide("robot", &run, Choice::Reject, at(7)).await.unwrap();
}

/// Somebody writes an approval into the run's record: it was never taken, so it is none.
#[tokio::test]
async fn an_approval_that_stands_in_the_record_alone_is_none() {
    let world = World::new().await;
    let run = world.propose(Kind::Applicable, 1).await;
    world.to_approval(&run).await;
    let forged = {
        let other = World::new().await;
        let twin = other.propose(Kind::Applicable, 1).await;
        other.to_approval(&twin).await;
        other.decide("bob", &twin, Choice::Approve, at(7)).await.unwrap().1
    };
    let mut item = world.store.get(&crate::rows::run_key(&run)).await.unwrap().unwrap();
    let mut record = world.run(&run).await;
    record.status = Status::Approved;
    record.decision = Some(forged);
    item.body = serde_json::to_string(&record).unwrap();
    world.store.transact(vec![Write::Put(item)]).await.unwrap();
    assert!(matches!(world.authorize(&run, at(7)).await, Err(Error::RecordInvalid { .. })));
    assert_eq!(world.run(&run).await.status, Status::Approved, "no order was written");
}

#[tokio::test]
async fn a_call_that_was_given_up_does_not_put_its_token_over_that_of_its_successor() {
    let world = World::new().await;
    let run = world.propose(Kind::Applicable, 1).await;
    world.to_approval(&run).await;
    let ask = |token: &'static str, now| crate::decide::request_approval(&world, &world.workflow, &run, token, now);
    ask("the successor's", at(20)).await.unwrap();
    ask("the given-up call's", at(19)).await.unwrap();
    world.decide("bob", &run, Choice::Approve, at(30)).await.unwrap();
    assert_eq!(*world.workflow.woken.lock().unwrap().last().unwrap(), "the successor's");
}
