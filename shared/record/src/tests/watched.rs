//! What is measured of runs: each thing once, by whoever's transaction was taken.

use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use plangate_gate::audit::Chain;
use plangate_gate::ids::RunId;
use plangate_gate::lifecycle::Status;
use plangate_gate::measure::{Measurement, Metric};
use plangate_gate::run::{Choice, Kind};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

use super::world::{CREATES, World, at};
use crate::archive::{Change, Image, archive, backfill};
use crate::conclude::conclude;
use crate::memory::{MemoryObjects, MemoryStore};
use crate::rows::run_key;
use crate::store::{Item, Key, Over, Store, StoreError, Write};
use crate::sweep::sweep;
use crate::watched::{MEASURED, Watched};

/// A table whose calls take a moment, in which others have their turn.
struct Slow<'a>(&'a MemoryStore);

#[async_trait]
impl Over for Slow<'_> {
    fn under(&self) -> &dyn Store {
        self.0
    }
    async fn read(&self, key: &Key) -> Result<Option<Item>, StoreError> {
        tokio::task::yield_now().await;
        self.0.get(key).await
    }
    async fn write(&self, writes: Vec<Write>) -> Result<(), StoreError> {
        tokio::task::yield_now().await;
        self.0.transact(writes).await
    }
}

impl World {
    /// What was told of a run so far: metric, what tells it apart, how much.
    fn story(&self, run: &RunId) -> Vec<(Metric, String, f64)> {
        let told = self.told.lock().unwrap();
        let of_it = told.iter().filter(|told| told.run.as_ref() == Some(run));
        of_it.map(|told| (told.metric, told.by.clone().unwrap_or_default().into_owned(), told.value)).collect()
    }
}

#[tokio::test]
async fn an_applied_run_is_told_phase_by_phase_with_the_times_of_its_record() {
    use Metric as M;
    let world = World::new().await;
    let run = world.propose(Kind::Applicable, 1).await;
    world.to_approval(&run).await;
    world.decide("bob", &run, Choice::Approve, at(7)).await.unwrap();
    world.authorize(&run, at(8)).await.unwrap();
    world.runner_applies(&run, 0);
    world.conclude(&run, None).await.unwrap();
    world.conclude(&run, None).await.unwrap();
    let expected = [
        (M::RunsProposed, "", 1.0),
        (M::TimeWaiting, "line", 1.0),
        (M::TimeInPhase, "plan", 2.0),
        (M::GuardrailOutcomes, "eligible", 1.0),
        (M::TimeInPhase, "evaluate", 1.0),
        (M::Decisions, "approve", 1.0),
        (M::TimeWaiting, "decision", 2.0),
        (M::RunsEnded, "applied", 1.0),
        (M::TimeOfRun, "applied", 9.0),
        (M::TimeInPhase, "apply", 2.0),
    ];
    assert_eq!(world.story(&run), expected.map(|(metric, by, value)| (metric, by.to_owned(), value)));
    let told = world.told.lock().unwrap();
    assert!(told.iter().all(|told| told.workspace.as_ref() == Some(&world.workspace)), "each names its workspace");
}

#[tokio::test]
async fn who_waits_in_line_is_told_when_the_lock_is_given_by_whoever_gave_it() {
    let world = World::new().await;
    let (first, second) = (world.propose(Kind::Applicable, 1).await, world.propose(Kind::Applicable, 2).await);
    world.to_approval(&first).await;
    world.admit(&second).await.unwrap();
    assert_eq!(world.counted(Metric::TimeWaiting, &second), 0);
    world.decide("bob", &first, Choice::Reject, at(70)).await.unwrap();
    assert!(world.story(&second).contains(&(Metric::TimeWaiting, "line".to_owned(), 69.0)));
    assert!(world.story(&first).contains(&(Metric::RunsEnded, "rejected".to_owned(), 1.0)));
    assert!(world.story(&first).contains(&(Metric::Decisions, "reject".to_owned(), 1.0)));
}

#[tokio::test]
async fn a_failure_has_its_class_and_its_code_and_a_workspace_that_is_closed_is_told() {
    let world = World::new().await;
    let run = world.propose(Kind::Applicable, 1).await;
    world.to_approval(&run).await;
    world.decide("bob", &run, Choice::Approve, at(7)).await.unwrap();
    world.authorize(&run, at(8)).await.unwrap();
    assert!(world.runner_claims(&run), "the claim, and then the runner dies");
    world.conclude(&run, Some("States.TaskFailed")).await.unwrap();
    assert!(world.story(&run).contains(&(Metric::RunsFailed, "unknown".to_owned(), 1.0)));
    assert_eq!(world.counted(Metric::LocksClosed, &run), 1);
    let told = world.told.lock().unwrap();
    let failed = told.iter().find(|told| told.metric == Metric::RunsFailed).unwrap();
    assert_eq!(failed.code.as_deref(), Some("apply-outcome-unknown"));
}

#[tokio::test]
async fn who_is_asked_by_a_reviewer_is_told_as_such() {
    let world = World::with(|spec| spec["automatic_approval"] = true.into()).await;
    let run = world.propose(Kind::Applicable, 1).await;
    world.to_judgement(&run, CREATES).await;
    world.review(&run).await.unwrap();
    world.review(&run).await.unwrap();
    assert!(world.story(&run).contains(&(Metric::Reviews, "escalated".to_owned(), 1.0)));
    assert_eq!(world.counted(Metric::Reviews, &run), 1);
}

#[tokio::test]
async fn a_run_that_the_sweeper_ends_is_reaped_and_one_that_somebody_else_ended_is_not() {
    let world = World::new().await;
    let (dead, ended) = (world.propose(Kind::PlanOnly, 1).await, world.propose(Kind::PlanOnly, 2).await);
    for run in [&dead, &ended] {
        world.admit(run).await.unwrap();
    }
    world.conclude(&ended, Some("States.TaskFailed")).await.unwrap();
    world.workflow.executions.lock().unwrap().insert(dead.clone(), crate::workflow::Execution::Ended);
    for seconds in [20, 21] {
        sweep(&world, &world, &world.workflow, &world.tasks, at(seconds)).await.unwrap();
    }
    assert_eq!((world.counted(Metric::RunsReaped, &dead), world.counted(Metric::RunsReaped, &ended)), (1, 0));
    world.check_ended(&dead).await;
}

#[tokio::test]
async fn a_transaction_that_the_table_did_not_take_tells_nothing_and_one_that_it_took_tells_once() {
    let world = World::new().await;
    let run = world.propose(Kind::PlanOnly, 1).await;
    world.admit(&run).await.unwrap();
    let told: Mutex<Vec<Measurement>> = Mutex::default();
    let tell = |measurement: &Measurement| told.lock().unwrap().push(measurement.clone());
    let watched = Watched::telling(Slow(&world.store), tell);
    let (objects, workflow, tasks) = (&world.objects, &world.workflow, &world.tasks);
    // Many find that it is dead; each reads, and only one write is taken.
    let end = || conclude(&watched, objects, workflow, tasks, &run, Some("x"), "conclude", at(9));
    let ends = tokio::join!(end(), end(), end(), end());
    for ended in [ends.0, ends.1, ends.2, ends.3] {
        assert_eq!(ended.unwrap().status, Status::Failed);
    }
    let missing = vec![Write::Check(Key::new("RUN#nobody", "RUN"), 7)];
    assert_eq!(watched.transact(missing).await, Err(StoreError::Conflict));
    let counted = |metric| told.lock().unwrap().iter().filter(|told| told.metric == metric).count();
    assert_eq!((counted(Metric::RunsEnded), counted(Metric::RunsFailed)), (1, 1));
}

/// Takes in the measurements that are told by no transaction.
#[derive(Default)]
struct Heard(Arc<Mutex<Vec<Measurement>>>);

impl Visit for Heard {
    fn record_str(&mut self, _: &Field, value: &str) {
        self.0.lock().unwrap().push(serde_json::from_str(value).unwrap());
    }
    fn record_debug(&mut self, field: &Field, _: &dyn std::fmt::Debug) {
        panic!("a measurement has no {field}");
    }
}

impl Subscriber for Heard {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target() == MEASURED
    }
    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }
    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn event(&self, event: &Event<'_>) {
        event.record(&mut Self(Arc::clone(&self.0)));
    }
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

/// What is told by no transaction while `act` is done.
async fn heard(act: impl Future<Output = ()>) -> Vec<(Metric, f64)> {
    let kept = Arc::default();
    let guard = tracing::subscriber::set_default(Heard(Arc::clone(&kept)));
    act.await;
    drop(guard);
    let kept = kept.lock().unwrap();
    kept.iter().map(|told: &Measurement| (told.metric, told.value)).collect()
}

#[tokio::test]
async fn the_archive_tells_how_far_behind_it_is_what_it_lacked_and_what_was_tampered_with() {
    let world = World::new().await;
    let run = world.propose(Kind::PlanOnly, 1).await;
    let chain = Chain::Run(run);
    let event = world.store.events(&chain, 1, 1).await.unwrap().remove(0);
    let image = |bytes: &str| Image { event: Some(bytes.to_owned()), digest: Some(event.digest.to_string()) };
    let (pk, sk) = (chain.to_string(), plangate_gate::audit::archive::place_key(1));
    let change =
        |before: Option<Image>, after| Change { id: "1".into(), pk: pk.clone(), sk: sk.clone(), before, after };
    let bucket = MemoryObjects::default();
    // It was recorded at 1, and comes by the stream at 31; once more, it is not late but there.
    let put = [change(None, Some(image(&event.bytes)))];
    let told = heard(async {
        archive(&bucket, &put, at(31)).await.unwrap();
        archive(&bucket, &put, at(99)).await.unwrap();
    });
    assert_eq!(told.await, [(Metric::ArchiveLag, 30.0)]);
    let over = [change(Some(image(&event.bytes)), Some(image("{}")))];
    let told = heard(async {
        archive(&bucket, &over, at(32)).await.unwrap();
    })
    .await;
    assert_eq!(told, [(Metric::AuditTampering, 1.0)]);
    // What the stream did not bring is counted; where nothing lacks, that is told as well.
    let empty = MemoryObjects::default();
    let filled = heard(async {
        backfill(&world, &empty, at(0), at(40)).await.unwrap();
    })
    .await;
    assert!(matches!(filled.as_slice(), [(Metric::AuditGaps, events)] if *events > 1.0), "{filled:?}");
    let again = heard(async {
        backfill(&world, &empty, at(0), at(40)).await.unwrap();
    })
    .await;
    assert_eq!(again, [(Metric::AuditGaps, 0.0)]);
}

#[tokio::test]
async fn a_sweep_tells_how_the_gate_stands_and_what_it_cannot_read() {
    let world = World::new().await;
    let runs = [1, 2, 3].map(|number| (number, Kind::Applicable));
    let mut ids = Vec::new();
    for (number, kind) in runs {
        ids.push(world.propose(kind, number).await);
        world.admit(ids.last().unwrap()).await.unwrap();
    }
    world.prepare(&ids[0]).await.unwrap();
    let mut standing = crate::standing::Standing::default();
    for run in &ids {
        standing.take(&world.run(run).await, at(63));
    }
    let told = standing.measured().map(|told| (told.metric, told.value));
    let expected = [
        (Metric::Sweeps, 1.0),
        (Metric::RunsOpen, 3.0),
        (Metric::RunsInLine, 2.0),
        (Metric::LongestLine, 2.0),
        (Metric::LockHeldLongest, 60.0),
        (Metric::LockOverdue, 0.0),
    ];
    assert_eq!(told, expected);
    // Its task should have been over by then.
    let mut late = crate::standing::Standing::default();
    late.take(&world.run(&ids[0]).await, at(3 + 3600 + 30));
    assert_eq!(late.measured().map(|told| told.value).last(), Some(&30.0));

    // A record that nobody can read: the sweep goes on with the others, and says so.
    let item = world.store.get(&run_key(&ids[1])).await.unwrap().unwrap();
    world.store.transact(vec![Write::Put(Item { body: "{}".to_owned(), ..item })]).await.unwrap();
    let told = heard(async {
        let (swept, _) = sweep(&world, &world, &world.workflow, &world.tasks, at(64)).await.unwrap();
        assert_eq!((swept.seen, swept.failed, swept.unreadable), (3, 1, 1));
    });
    let mut expected = Vec::from(expected);
    expected.splice(
        1..5,
        [
            (Metric::RunsOpen, 2.0),
            (Metric::RunsInLine, 1.0),
            (Metric::LongestLine, 1.0),
            (Metric::LockHeldLongest, 61.0),
        ],
    );
    expected.extend([(Metric::RunsNotSeenTo, 1.0), (Metric::ItemsUnreadable, 1.0)]);
    assert_eq!(told.await, expected);
}
