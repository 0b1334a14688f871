//! Deciding through a surface of its own: who somebody is, each message once, each action once.

use plangate_gate::audit::{Chain, What};
use plangate_gate::digest::Digest;
use plangate_gate::documents::DocumentKind;
use plangate_gate::ids::RunId;
use plangate_gate::lifecycle::Status;
use plangate_gate::run::{Actor, Choice, Kind, Surface};
use plangate_wire::{DecisionRequest, Reason};
use serde_json::json;

use super::world::{Faults, World, at};
use crate::access::{Caller, approvers, identify_slack};
use crate::callbacks::{Answer, Word, decide_once, heard_first, leave_word, word};
use crate::error::Error;

const TEAM: &str = "T0AAAAAAA";

/// A gate whose people have users in Slack, named as they are, and one that waits for a decision.
async fn waiting() -> (World, RunId) {
    let world = World::new().await;
    for person in ["ana", "bob", "cleo"] {
        let spec = json!({
            "person": person, "iam": [{ "account": "111122223333", "role": person }],
            "slack": [{ "team": TEAM, "user": user(person) }]
        });
        world.put(DocumentKind::Principal, person, spec).await;
    }
    let run = world.propose(Kind::Applicable, 1).await;
    world.to_approval(&run).await;
    (world, run)
}

fn user(person: &str) -> String {
    format!("U0{}", person.to_uppercase())
}

async fn slack(world: &World, person: &str) -> Caller {
    identify_slack(world, TEAM, &user(person)).await.unwrap()
}

async fn act(
    world: &World,
    person: &str,
    run: &RunId,
    choice: Choice,
    action: &str,
    now: u32,
) -> Result<Answer, Error> {
    let projection = world.run(run).await.projection.unwrap().object.digest;
    let request = DecisionRequest { decision: choice, projection, reason: Some("as agreed".to_owned()) };
    let (caller, action) = (slack(world, person).await, Digest::of(action.as_bytes()));
    decide_once(world, &world.workflow, &caller, &action, run, &request, Surface::Slack, at(now)).await
}

fn refused(answer: Answer) -> Reason {
    match answer {
        Answer::Refused(refusal) => refusal.reason,
        Answer::Decided { decision } => panic!("decided: {decision:?}"),
    }
}

#[tokio::test]
async fn a_user_of_slack_is_who_configuration_says_and_nobody_else() {
    let (world, _) = waiting().await;
    assert_eq!(slack(&world, "bob").await.person().as_str(), "bob");
    for (team, user) in [("T0ZZZZZZZ", "U0BOB"), (TEAM, "U0DORA"), ("", ""), (TEAM, "bob")] {
        let found = identify_slack(&world, team, user).await;
        assert!(matches!(found, Err(Error::Refused(r)) if r.reason == Reason::NotPermitted), "{team}/{user}");
    }
    // Taken out of the document, they are nobody any more.
    let spec = json!({ "person": "bob", "iam": [{ "account": "111122223333", "role": "bob" }] });
    world.put(DocumentKind::Principal, "bob", spec).await;
    assert!(identify_slack(&world, TEAM, "U0BOB").await.is_err());
    assert_eq!(world.caller("bob").await.person().as_str(), "bob", "the IAM identity stays");
}

#[tokio::test]
async fn slack_gives_no_authority_that_the_person_does_not_have_elsewhere() {
    let (world, run) = waiting().await;
    assert_eq!(refused(act(&world, "ana", &run, Choice::Approve, "a", 7).await.unwrap()), Reason::NotPermitted);
    let id = world.workspace.to_string();
    let grant = json!({ "person": "ana", "workspaces": [id], "actions": ["read", "propose", "approve"] });
    world.put(DocumentKind::Grant, "ana", grant).await;
    let again = act(&world, "ana", &run, Choice::Approve, "b", 7).await.unwrap();
    assert_eq!(refused(again), Reason::DistinctApproverRequired);
    assert_eq!(world.run(&run).await.status, Status::AwaitingApproval);
    let names: Vec<String> =
        approvers(&world, &world.workspace).await.unwrap().iter().map(ToString::to_string).collect();
    assert_eq!(names, ["ana", "bob", "cleo"]);
}

#[tokio::test]
async fn a_decision_in_slack_is_the_decision_and_shows_whose_and_where() {
    let (world, run) = waiting().await;
    let Answer::Decided { decision } = act(&world, "bob", &run, Choice::Approve, "a", 7).await.unwrap() else {
        panic!()
    };
    let record = world.run(&run).await;
    assert_eq!((record.status, record.decision.as_ref()), (Status::Approved, Some(&*decision)));
    let who = Actor::Slack { person: "bob".parse().unwrap(), team: TEAM.to_owned(), user: "U0BOB".to_owned() };
    assert_eq!((decision.by, decision.surface), (who, Surface::Slack));
    assert_eq!(*world.workflow.woken.lock().unwrap().last().unwrap(), format!("ask {run}"));
    // The other surface finds it decided, and so does the same one.
    let late = world.decide("cleo", &run, Choice::Reject, at(8)).await;
    assert!(matches!(late, Err(Error::Refused(r)) if r.reason == Reason::AlreadyDecided && r.message.contains("bob")));
    assert_eq!(refused(act(&world, "cleo", &run, Choice::Reject, "b", 9).await.unwrap()), Reason::AlreadyDecided);
}

#[tokio::test]
async fn the_same_action_told_again_is_answered_as_before_and_leaves_nothing_more() {
    let (world, run) = waiting().await;
    let first = act(&world, "bob", &run, Choice::Approve, "a", 7).await.unwrap();
    let refusal = act(&world, "cleo", &run, Choice::Reject, "b", 8).await.unwrap();
    let chain = world.chain(Chain::Run(run.clone())).await;
    assert_eq!(act(&world, "bob", &run, Choice::Approve, "a", 200).await.unwrap(), first);
    assert_eq!(act(&world, "cleo", &run, Choice::Reject, "b", 200).await.unwrap(), refusal);
    assert_eq!(world.chain(Chain::Run(run.clone())).await, chain);
    // The same person, pressing once more, is another action.
    assert_eq!(refused(act(&world, "bob", &run, Choice::Approve, "c", 201).await.unwrap()), Reason::AlreadyDecided);
    assert_eq!(world.chain(Chain::Run(run)).await.len(), chain.len() + 1);
}

#[tokio::test]
async fn an_action_that_died_between_any_two_writes_decides_once_when_it_is_told_again() {
    for call in 1..=3 {
        for happened in [false, true] {
            let (mut world, run) = waiting().await;
            world.faults = Faults::at(call, happened);
            let died = act(&world, "bob", &run, Choice::Approve, "a", 7).await;
            assert!(world.faults.struck() && (died.is_err() || call == 3), "write {call}: {died:?}");
            let again = act(&world, "bob", &run, Choice::Approve, "a", 60).await.unwrap();
            assert!(matches!(again, Answer::Decided { .. }), "write {call}, {happened}: {again:?}");
            let decided = |what: &&What| matches!(what, What::Decided { .. } | What::DecisionWithoutEffect { .. });
            let chain = world.chain(Chain::Run(run.clone())).await;
            assert_eq!(chain.iter().filter(decided).count(), 1, "write {call}, {happened}");
        }
    }
}

#[tokio::test]
async fn an_action_heard_in_time_and_told_again_after_the_plan_died_approves_nothing() {
    let (mut world, run) = waiting().await;
    world.faults = Faults::at(2, false);
    act(&world, "bob", &run, Choice::Approve, "a", 7).await.unwrap_err();
    assert_eq!(refused(act(&world, "bob", &run, Choice::Approve, "a", 100_000).await.unwrap()), Reason::PlanExpired);
}

#[tokio::test]
async fn a_message_is_heard_once_whoever_sends_it_again() {
    let world = World::new().await;
    assert!(heard_first(&world, &[7; 32], "request-1", 3600, at(0)).await.unwrap());
    for (request, later) in [("request-2", 0), ("request-3", 3599), ("request-4", 999_999)] {
        assert!(!heard_first(&world, &[7; 32], request, 3600, at(later)).await.unwrap(), "{request}");
    }
    assert!(heard_first(&world, &[8; 32], "request-5", 3600, at(0)).await.unwrap());
    let items = world.store.items();
    let heard = items.iter().find(|item| item.key.pk.starts_with("MAC#")).unwrap();
    assert_eq!(heard.ttl, Some(at(3600).unix_seconds()));
}

#[tokio::test]
async fn a_word_left_again_is_another_change_of_the_table() {
    let (world, run) = waiting().await;
    let action = Digest::of(b"a");
    let said = Word { run, channel: "C0CHANGES".into(), user: "U0BOB".into(), text: "no".into() };
    for version in 1..=2 {
        leave_word(&world, &action, &said, at(1)).await.unwrap();
        let item = world.store.items().into_iter().find(|item| item.key.pk.starts_with("WORD#")).unwrap();
        assert_eq!(item.version, version);
    }
    assert_eq!(word(&world, &action.hex()).await.unwrap(), Some(said));
    assert_eq!(word(&world, "another").await.unwrap(), None);
}
