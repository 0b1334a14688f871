//! Notes to what is recorded of a run: by whom, of what, how many, and that nothing else is touched by one.

use plangate_gate::audit::{Chain, What};
use plangate_gate::documents::DocumentKind;
use plangate_gate::ids::RunId;
use plangate_gate::run::{Choice, Kind};
use plangate_wire::{AnnotateRequest, AnnotationView, Reason};
use serde_json::json;

use super::decisions::reason;
use super::world::{Faults, World, at};
use crate::annotate::{ANNOTATIONS, annotate};
use crate::error::Error;
use crate::rows::head_key;

fn request(number: u32, note: &str, corrects: Option<u64>) -> AnnotateRequest {
    AnnotateRequest { request_id: format!("annotate-{number}").parse().unwrap(), note: note.to_owned(), corrects }
}

async fn note(world: &World, who: &str, run: &RunId, request: &AnnotateRequest) -> Result<AnnotationView, Error> {
    annotate(world, &world.caller(who).await, run, request, at(100)).await
}

/// A run that was rejected, in a world where dora administers, and a bot may approve.
async fn ended() -> (World, RunId) {
    let world = World::new().await;
    for (person, bot, actions) in [("dora", false, json!(["administer"])), ("robot", true, json!(["read", "approve"]))]
    {
        let iam = json!([{ "account": "111122223333", "role": person }]);
        world.put(DocumentKind::Principal, person, json!({ "person": person, "bot": bot, "iam": iam })).await;
        let grant = json!({ "person": person, "workspaces": [world.workspace.to_string()], "actions": actions });
        world.put(DocumentKind::Grant, person, grant).await;
    }
    let run = world.propose(Kind::Applicable, 1).await;
    world.to_approval(&run).await;
    world.decide("bob", &run, Choice::Reject, at(7)).await.unwrap();
    (world, run)
}

#[tokio::test]
async fn a_note_to_a_run_that_has_ended_is_an_event_more_and_changes_nothing_else() {
    let (world, run) = ended().await;
    let before = world.store.items();
    let length = world.chain(Chain::Run(run.clone())).await.len() as u64;
    let view = note(&world, "bob", &run, &request(1, "the ticket was 17, not 71", Some(length))).await.unwrap();
    assert_eq!((view.seq, view.at, view.corrects), (length + 1, at(100), Some(length)));
    assert_eq!(view.by, *world.caller("bob").await.actor());
    let chain = world.chain(Chain::Run(run.clone())).await;
    let told = What::RunAnnotated { note: "the ticket was 17, not 71".to_owned(), corrects: Some(length) };
    assert_eq!(chain.last(), Some(&told));
    // Besides the end of the chain and the remembered request not one item is another.
    let own = [head_key(&Chain::Run(run.clone()))];
    let kept = |items: Vec<crate::store::Item>| -> Vec<_> {
        items.into_iter().filter(|item| !own.contains(&item.key) && item.key.pk != "REQ#bob").collect()
    };
    assert_eq!(kept(before), kept(world.store.items()));
    world.check_ended(&run).await;
}

#[tokio::test]
async fn a_run_that_goes_on_is_annotated_too_and_goes_on() {
    let (world, _) = ended().await;
    let run = world.propose(Kind::Applicable, 2).await;
    world.to_approval(&run).await;
    note(&world, "dora", &run, &request(1, "wait for the backup", None)).await.unwrap();
    world.decide("bob", &run, Choice::Approve, at(7)).await.unwrap();
    assert!(world.chain(Chain::Run(run)).await.iter().any(|what| matches!(what, What::RunAnnotated { .. })));
}

#[tokio::test]
async fn a_note_is_the_word_of_a_person_who_answers_for_the_workspace() {
    let (world, run) = ended().await;
    for who in ["bob", "cleo", "dora"] {
        note(&world, who, &run, &request(1, "a word", None)).await.unwrap();
    }
    for who in ["ana", "robot"] {
        assert_eq!(reason(note(&world, who, &run, &request(1, "a word", None)).await), Reason::NotPermitted, "{who}");
    }
    let absent = RunId::new(at(1), [9; 10]);
    assert_eq!(reason(note(&world, "bob", &absent, &request(2, "a word", None)).await), Reason::NotPermitted);
}

#[tokio::test]
async fn what_is_no_line_or_corrects_nothing_is_refused() {
    let (world, run) = ended().await;
    let end = world.chain(Chain::Run(run.clone())).await.len() as u64;
    let long = "x".repeat(1001);
    for (text, corrects) in [
        ("", None),
        (" ", None),
        ("two\nlines", None),
        ("\u{1b}[2J", None),
        (&long, None),
        ("x", Some(0)),
        ("x", Some(end + 1)),
    ] {
        let outcome = note(&world, "bob", &run, &request(1, text, corrects)).await;
        assert_eq!(reason(outcome), Reason::InvalidRequest, "{text:?} {corrects:?}");
    }
    assert_eq!(world.chain(Chain::Run(run)).await.len() as u64, end);
}

#[tokio::test]
async fn the_same_request_is_noted_once_and_answered_alike() {
    let (world, run) = ended().await;
    let first = note(&world, "bob", &run, &request(1, "a word", None)).await.unwrap();
    let caller = world.caller("bob").await;
    let again = annotate(&world, &caller, &run, &request(1, "a word", None), at(200)).await.unwrap();
    assert_eq!(first, again);
    let other = annotate(&world, &caller, &run, &request(1, "another", None), at(200)).await;
    assert_eq!(reason(other), Reason::RequestIdReused);
    // As much if the first attempt happened and nobody heard of it.
    let (mut world, run) = ended().await;
    world.faults = Faults::at(1, true);
    note(&world, "bob", &run, &request(1, "a word", None)).await.unwrap_err();
    world.faults = Faults::default();
    note(&world, "bob", &run, &request(1, "a word", None)).await.unwrap();
    let chain = world.chain(Chain::Run(run)).await;
    assert_eq!(chain.iter().filter(|what| matches!(what, What::RunAnnotated { .. })).count(), 1);
}

#[tokio::test]
async fn a_run_has_so_many_notes_and_no_more_whoever_writes_them() {
    let (world, run) = ended().await;
    for number in 0..ANNOTATIONS {
        let who = if number % 2 == 0 { "bob" } else { "cleo" };
        note(&world, who, &run, &request(u32::try_from(number).unwrap(), "a word", None)).await.unwrap();
    }
    assert_eq!(reason(note(&world, "dora", &run, &request(1000, "more", None)).await), Reason::TooManyAnnotations);
    // What was noted is answered all the same, if it is sent once more.
    note(&world, "bob", &run, &request(0, "a word", None)).await.unwrap();
    let chain = world.chain(Chain::Run(run.clone())).await;
    assert_eq!(chain.iter().filter(|what| matches!(what, What::RunAnnotated { .. })).count(), ANNOTATIONS);
}
