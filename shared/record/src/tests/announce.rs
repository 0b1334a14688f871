//! What others are told of runs: each change of a status, once, in words that are always the same; and told again where the
//! bus did not take it.

use std::collections::VecDeque;
use std::sync::Mutex;

use async_trait::async_trait;
use plangate_gate::announce::Announcement;
use plangate_gate::audit::Chain;
use plangate_gate::digest::Digest;
use plangate_gate::failure::FailureReason;
use plangate_gate::ids::RunId;
use plangate_gate::lifecycle::{self, Status};
use plangate_gate::receipt::PlanExit;
use plangate_gate::run::{Choice, Counts, Kind};

use super::review::{APPROVES, Saying, automatic};
use super::world::{CREATES, NOTHING, World, at};
use crate::admit::Admission;
use crate::announce::{Announced, Bus, Inserted, Taken, announce};
use crate::rows::run_key;
use crate::store::{Store, Write};
use crate::workflow::WorkflowError;

/// A bus that takes all, but for what it is told to answer.
#[derive(Default)]
struct Ears {
    heard: Mutex<Vec<Announcement>>,
    calls: Mutex<Vec<Vec<String>>>,
    answers: Mutex<VecDeque<Result<Vec<Taken>, WorkflowError>>>,
}

impl Ears {
    fn answering(answers: impl IntoIterator<Item = Result<Vec<Taken>, WorkflowError>>) -> Self {
        Self { answers: Mutex::new(answers.into_iter().collect()), ..Self::default() }
    }

    fn calls(&self) -> Vec<usize> {
        self.calls.lock().unwrap().iter().map(Vec::len).collect()
    }
}

#[async_trait]
impl Bus for Ears {
    async fn put(&self, announcements: &[&Announcement]) -> Result<Vec<Taken>, WorkflowError> {
        assert!((1..=10).contains(&announcements.len()));
        self.calls.lock().unwrap().push(announcements.iter().map(|each| each.id.clone()).collect());
        let taken = match self.answers.lock().unwrap().pop_front() {
            Some(answer) => answer?,
            None => vec![Ok(()); announcements.len()],
        };
        for (each, taken) in announcements.iter().zip(&taken) {
            if taken.is_ok() {
                self.heard.lock().unwrap().push((*each).clone());
            }
        }
        Ok(taken)
    }
}

/// Every event that there is, as the stream brings it.
fn all(world: &World) -> Vec<Inserted> {
    let events = world.store.all_events();
    events.iter().map(|event| Inserted { pk: event.chain.to_string(), sk: format!("{:010}", event.seq) }).collect()
}

/// What is told of a run.
pub(super) async fn told(world: &World, run: &RunId) -> Vec<Announcement> {
    let ears = Ears::default();
    let events = world.store.events(&Chain::Run(run.clone()), 1, 10_000).await.unwrap();
    let brought = |seq| Inserted { pk: format!("run/{run}"), sk: format!("{seq:010}") };
    let items: Vec<Inserted> = events.iter().map(|event| brought(event.seq)).collect();
    assert_eq!(announce(world, &ears, &items).await.again_from, None);
    ears.heard.into_inner().unwrap()
}

/// The statuses that are told of a run, which must be a life: each follows the one before, and the last is the record's.
async fn life(world: &World, run: &RunId) -> Vec<Status> {
    let told = told(world, run).await;
    let record = world.run(run).await;
    let mut before = None;
    for each in &told {
        assert_eq!(each.before, before);
        if let Some(before) = before {
            lifecycle::check(each.kind, before, each.after).unwrap();
        }
        assert_eq!((&each.workspace, each.kind, each.origin), (&record.workspace, record.kind, record.origin));
        before = Some(each.after);
    }
    assert_eq!(before, Some(record.status));
    told.into_iter().map(|each| each.after).collect()
}

async fn waiting(world: &World, number: u8) -> RunId {
    let run = world.propose(Kind::Applicable, number).await;
    world.to_approval(&run).await;
    run
}

#[tokio::test]
async fn each_life_of_a_run_is_told_status_by_status() {
    use Status::*;
    let asked = [Proposed, Planning, Evaluating, AwaitingApproval];

    let world = World::new().await;
    let applied = waiting(&world, 1).await;
    let queued = world.propose(Kind::Applicable, 2).await;
    assert_eq!(world.admit(&queued).await.unwrap(), Admission::Parked);
    world.decide("bob", &applied, Choice::Approve, at(7)).await.unwrap();
    world.decide("cleo", &applied, Choice::Approve, at(7)).await.unwrap_err();
    world.authorize(&applied, at(7)).await.unwrap();
    world.runner_applies(&applied, 0);
    world.conclude(&applied, None).await.unwrap();
    assert_eq!(life(&world, &applied).await, [&asked[..], &[Approved, Applying, Applied]].concat());

    // Whoever waited in line, and is rejected.
    assert_eq!(life(&world, &queued).await, [Proposed, Queued, Planning]);
    world.to_approval(&queued).await;
    world.decide("bob", &queued, Choice::Reject, at(7)).await.unwrap();
    world.decide("cleo", &queued, Choice::Approve, at(8)).await.unwrap_err();
    assert_eq!(life(&world, &queued).await, [Proposed, Queued, Planning, Evaluating, AwaitingApproval, Rejected]);

    let expired = waiting(&world, 3).await;
    world.authorize(&expired, at(4000)).await.unwrap_err();
    assert_eq!(life(&world, &expired).await, [&asked[..], &[Expired]].concat());

    let failed = waiting(&world, 4).await;
    world.decide("bob", &failed, Choice::Approve, at(7)).await.unwrap();
    world.authorize(&failed, at(7)).await.unwrap();
    world.conclude(&failed, Some("States.TaskFailed")).await.unwrap();
    assert_eq!(life(&world, &failed).await, [&asked[..], &[Approved, Applying, Failed]].concat());

    for (number, kind, document, exit, end) in [
        (5, Kind::Applicable, NOTHING, PlanExit::NoChanges, NoChanges),
        (6, Kind::PlanOnly, CREATES, PlanExit::Changes, Planned),
    ] {
        let run = world.propose(kind, number).await;
        world.admit(&run).await.unwrap();
        world.prepare(&run).await.unwrap();
        world.runner_plans(&run, document, exit);
        world.intake(&run).await.unwrap();
        world.project(&run).await.unwrap();
        if end == Planned {
            world.guard(&run).await.unwrap();
        }
        assert_eq!(life(&world, &run).await, [Proposed, Planning, Evaluating, end]);
    }
}

#[tokio::test]
async fn a_review_is_told_where_there_is_one() {
    use Status::*;
    let world = World::with(automatic).await;
    let run = world.propose(Kind::Applicable, 1).await;
    world.to_judgement(&run, CREATES).await;
    assert_eq!(life(&world, &run).await, [Proposed, Planning, Evaluating, Reviewing]);
    world.review_by(&Saying::text(APPROVES), &run).await.unwrap();
    assert_eq!(life(&world, &run).await, [Proposed, Planning, Evaluating, Reviewing, Approved]);
    // One that only looks is judged by the same rules, and nobody reviews it.
    let run = world.propose(Kind::PlanOnly, 2).await;
    world.to_judgement(&run, CREATES).await;
    assert_eq!(life(&world, &run).await, [Proposed, Planning, Evaluating, Planned]);
}

#[tokio::test]
async fn what_is_told_are_identifiers_counts_digests_and_codes_and_it_is_always_the_same() {
    let world = World::new().await;
    let run = waiting(&world, 1).await;
    let early = told(&world, &run).await;
    world.decide("bob", &run, Choice::Approve, at(7)).await.unwrap();
    world.authorize(&run, at(7)).await.unwrap();
    world.conclude(&run, Some("States.TaskFailed")).await.unwrap();
    let late = told(&world, &run).await;
    // What was told before the end is told in the same words after it.
    assert_eq!(early[..], late[..early.len()]);
    let ids: Vec<&str> = late.iter().map(|each| each.id.as_str()).collect();
    assert!(ids.iter().all(|id| id.starts_with(&format!("{run}:"))) && ids.windows(2).all(|two| two[0] != two[1]));

    let record = world.run(&run).await;
    let last = late.last().unwrap();
    let events = world.store.events(&Chain::Run(run.clone()), 1, 100).await.unwrap();
    let end = events.last().unwrap();
    let (projection, of) = (record.projection.unwrap().object.digest, &world.workspace);
    let expected = serde_json::json!({
        "schema": "plangate.run-status.v1", "id": format!("{run}:{}", end.seq), "run": run, "workspace": of,
        "kind": "applicable", "origin": "person", "before": "applying", "after": "failed", "at": "2026-11-30T05:00:10Z",
        "projection": projection, "counts": { "create": 1, "update": 0, "delete": 0, "replace": 0 },
        "failure": "apply-not-started", "event": { "seq": end.seq, "digest": Digest::of(end.bytes.as_bytes()) },
    });
    assert_eq!(serde_json::to_value(last).unwrap(), expected);
    assert_eq!((last.failure, last.detail_type()), (Some(FailureReason::ApplyNotStarted), "Run failed"));
    assert_eq!((late[0].before, late[0].projection, late[0].counts), (None, None, None::<Counts>));
}

#[tokio::test]
async fn only_what_the_bus_did_not_take_is_given_to_it_again() {
    let world = World::new().await;
    let run = waiting(&world, 1).await;
    let no = || Err("ThrottlingException".to_owned());
    let ears = Ears::answering([Ok(vec![Ok(()), no(), Ok(()), no()]), Ok(vec![Ok(()), no()]), Ok(vec![Ok(())])]);
    let announced = announce(&world, &ears, &all(&world)).await;
    assert_eq!(announced, Announced { told: 4, again_from: None });
    assert_eq!(ears.calls(), [4, 2, 1]);
    let mut heard: Vec<String> = ears.heard.into_inner().unwrap().into_iter().map(|each| each.id).collect();
    heard.sort();
    let mut expected: Vec<String> = told(&world, &run).await.into_iter().map(|each| each.id).collect();
    expected.sort();
    assert_eq!(heard, expected, "each once");
}

#[tokio::test]
async fn what_the_bus_will_not_take_is_to_be_brought_again_from_there_on() {
    let world = World::new().await;
    let run = waiting(&world, 1).await;
    let items = all(&world);
    let place = |status: Status, told: &[Announcement]| {
        let seq = told.iter().find(|each| each.after == status).unwrap().event.seq;
        let wanted = Inserted { pk: format!("run/{run}"), sk: format!("{seq:010}") };
        items.iter().position(|item| *item == wanted).unwrap()
    };
    let told = told(&world, &run).await;
    let no = || Err("InternalFailure".to_owned());
    let never = [Ok(vec![Ok(()), Ok(()), no(), Ok(())]), Ok(vec![no()]), Ok(vec![no()]), Ok(vec![no()])];
    let ears = Ears::answering(never);
    let announced = announce(&world, &ears, &items).await;
    assert_eq!(announced, Announced { told: 3, again_from: Some(place(Status::Evaluating, &told)) });
    // A bus that does not answer has taken nothing that anybody knows of.
    let gone = || Err(WorkflowError { call: "PutEvents", error: "gone".to_owned() });
    let announced = announce(&world, &Ears::answering([gone()]), &items).await;
    assert_eq!(announced, Announced { told: 0, again_from: Some(place(Status::Proposed, &told)) });
    // Nor has one that answers of fewer than it was given.
    let announced = announce(&world, &Ears::answering([Ok(vec![Ok(())]), gone()]), &items).await;
    assert_eq!(announced, Announced { told: 1, again_from: Some(place(Status::Planning, &told)) });
}

#[tokio::test]
async fn more_than_a_bus_takes_at_once_is_told_in_several_goes_in_its_order() {
    let world = World::new().await;
    for number in 1..=6 {
        let run = waiting(&world, number).await;
        world.decide("bob", &run, Choice::Reject, at(7)).await.unwrap();
    }
    let ears = Ears::default();
    let items = all(&world);
    assert_eq!(announce(&world, &ears, &items).await, Announced { told: 30, again_from: None });
    assert_eq!(ears.calls(), [10, 10, 10]);
    // A part of a chain is told as it is within the whole.
    let half = Ears::default();
    announce(&world, &half, &items[items.len() / 2..]).await;
    let (half, whole) = (half.heard.into_inner().unwrap(), ears.heard.into_inner().unwrap());
    assert!(!half.is_empty() && half.iter().all(|each| whole.contains(each)));
}

#[tokio::test]
async fn what_cannot_be_read_holds_up_nothing_else() {
    let world = World::new().await;
    let (broken, whole) = (world.propose(Kind::PlanOnly, 1).await, world.propose(Kind::PlanOnly, 2).await);
    let item = Store::get(&world.store, &run_key(&broken)).await.unwrap().unwrap();
    world.store.transact(vec![Write::Put(crate::store::Item { body: "{}".to_owned(), ..item })]).await.unwrap();
    let mut items = all(&world);
    items.push(Inserted { pk: format!("run/{whole}"), sk: "nowhere".to_owned() });
    items.push(Inserted { pk: "somebody".to_owned(), sk: "0000000001".to_owned() });
    let ears = Ears::default();
    assert_eq!(announce(&world, &ears, &items).await, Announced { told: 1, again_from: None });
    assert_eq!(ears.heard.into_inner().unwrap()[0].run, whole);
}
