//! What people see of a run, whatever Slack does meanwhile.

use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use plangate_gate::audit::{Chain, What};
use plangate_gate::digest::Digest;
use plangate_gate::documents::DocumentKind;
use plangate_gate::drift::DriftWord;
use plangate_gate::ids::{RunId, WorkspaceId};
use plangate_gate::known::{Compared, Outside, Sighting};
use plangate_gate::lifecycle::Status;
use plangate_gate::order::Phase;
use plangate_gate::run::{Actor, Kind, Proposer, Run};
use plangate_gate::state::StateIdentity;
use plangate_gate::time::Timestamp;
use plangate_record::callbacks::{Word, leave_word};
use plangate_record::memory::{MemoryObjects, MemoryStore, MemoryWorkflow};
use plangate_record::notices::Topic;
use plangate_record::objects::bundle_key;
use plangate_record::rows::{RunRow, run_key};
use plangate_record::store::{Store, Write};
use plangate_record::{Error, documents, notices, propose};
use plangate_slack::{CallError, Message};
use plangate_wire::{DocumentPut, ProposeRequest};
use serde_json::json;

use crate::board::{Board, Patience};
use crate::event::{Change, Event};
use crate::news::news;
use crate::show::{HOLD_SECONDS, show};
use crate::tell::tell;

const PROJECTION: &[u8] =
    br#"{"counts":{"create":0,"delete":0,"replace":0,"update":0},"format":1,"outputs":[],"resources":[]}"#;

fn at(seconds: u32) -> Timestamp {
    "2026-11-30T05:00:00Z".parse::<Timestamp>().unwrap().plus_seconds(seconds)
}

/// A place that does what it is told to, and remembers what was asked of it.
#[derive(Clone, Default)]
struct Wall {
    answers: Arc<Mutex<Vec<CallError>>>,
    calls: Arc<Mutex<Vec<String>>>,
}

impl Wall {
    fn fails(&self, times: usize, error: &CallError) {
        self.answers.lock().unwrap().extend(vec![error.clone(); times]);
    }

    fn asked(&self, call: String) -> Result<(), CallError> {
        self.calls.lock().unwrap().push(call);
        self.answers.lock().unwrap().pop().map_or(Ok(()), Err)
    }

    fn calls(&self) -> Vec<String> {
        std::mem::take(&mut *self.calls.lock().unwrap())
    }
}

fn headline(message: &Message) -> &str {
    message.blocks[0]["text"]["text"].as_str().unwrap()
}

#[async_trait]
impl Board for Wall {
    async fn post(&self, channel: &str, message: &Message) -> Result<String, CallError> {
        self.asked(format!("post {channel}: {}", headline(message))).map(|()| "1.2".to_owned())
    }
    async fn update(&self, channel: &str, posted: &str, message: &Message) -> Result<(), CallError> {
        self.asked(format!("update {channel}/{posted}: {}", headline(message)))
    }
    async fn tell(&self, channel: &str, user: &str, text: &str) -> Result<(), CallError> {
        self.asked(format!("tell {channel}/{user}: {text}"))
    }
}

fn later() -> CallError {
    CallError::Later { code: "timeout".to_owned(), after: None }
}

fn never() -> CallError {
    CallError::Never { code: "channel_not_found".to_owned() }
}

struct World {
    store: MemoryStore,
    objects: MemoryObjects,
    wall: Wall,
    run: RunId,
}

impl World {
    /// A workspace with a channel, or without, and a run in it that is being planned.
    async fn new(channel: Option<&str>) -> Self {
        let (store, objects, workflow) = (MemoryStore::default(), MemoryObjects::default(), MemoryWorkflow::default());
        let id = WorkspaceId::new([5; 10]);
        let mut spec = json!({
            "name": "payments", "engine": { "name": "opentofu", "version": "1.11.6" },
            "state": { "bucket": "sealed", "key": "state/terraform.tfstate", "region": "eu-central-1" },
            "plan_role": format!("arn:aws:iam::111122223333:role/plangate/plan/{id}-plan"),
            "apply_role": format!("arn:aws:iam::111122223333:role/plangate/apply/{id}-apply"),
            "sealed_bucket": "sealed", "sealed_key": "arn:aws:kms:eu-central-1:111122223333:key/1", "policy": "default",
        });
        if let Some(channel) = channel {
            spec["slack"] = json!({ "channel": channel });
        }
        let policy = json!({ "schema": "plangate.policy.v1" });
        for (kind, name, spec) in
            [(DocumentKind::Policy, "default", policy), (DocumentKind::Workspace, id.as_str(), spec)]
        {
            let request_id = format!("put-{name}").parse().unwrap();
            let (namespace, owner) = ("default".to_owned(), "platform".to_owned());
            let put = DocumentPut { etag: None, request_id, validate_only: false, namespace, owner, spec };
            let actor = Actor::gate("test");
            documents::put(&store, kind, name, &put, &"administrator".parse().unwrap(), &actor, at(0)).await.unwrap();
        }
        let bundle = Digest::of(b"bundle");
        objects.replace(&bundle_key(&id, &bundle), b"bundle");
        objects.replace("projections/p", PROJECTION);
        let request = ProposeRequest {
            request_id: "request-1".parse().unwrap(),
            workspace: id,
            kind: Kind::Applicable,
            bundle,
            origin: Default::default(),
            derived_from: None,
            on_behalf_of: None,
        };
        let proposer = Proposer { person: "ana".parse().unwrap(), arn: "arn".into(), on_behalf_of: None };
        let run = RunId::new(at(0), [1; 10]);
        propose::propose(&store, &objects, &workflow, "exchange", &request, &proposer, run.clone(), at(0))
            .await
            .unwrap();
        Self { store, objects, wall: Wall::default(), run }
    }

    /// Makes the run stand at `status`, as its steps would.
    async fn becomes(&self, status: Status) {
        let mut item = self.store.get(&run_key(&self.run)).await.unwrap().unwrap();
        let mut run: Run = serde_json::from_str(&item.body).unwrap();
        run.status = status;
        let object = json!({
            "bucket": "exchange", "key": "projections/p", "digest": Digest::of(PROJECTION), "bytes": PROJECTION.len()
        });
        let projection = json!({ "object": object, "counts": { "create": 0, "update": 0, "delete": 0, "replace": 0 } });
        run.projection = Some(serde_json::from_value(projection).unwrap());
        item.body = serde_json::to_string(&run).unwrap();
        self.store.transact(vec![Write::Put(item)]).await.unwrap();
    }

    /// Makes the run have noticed something.
    async fn notices(&self, compared: Option<Compared>, drift: Option<DriftWord>) {
        let mut item = self.store.get(&run_key(&self.run)).await.unwrap().unwrap();
        let mut run: Run = serde_json::from_str(&item.body).unwrap();
        (run.compared, run.drift) = (compared, drift);
        item.body = serde_json::to_string(&run).unwrap();
        self.store.transact(vec![Write::Put(item)]).await.unwrap();
    }

    async fn record(&self) -> Run {
        RunRow::load(&self.store, &self.run).await.unwrap().run
    }

    async fn told(&self, now: u32) -> Result<(), Error> {
        let board = || async { Ok::<_, CallError>(self.wall.clone()) };
        let run = self.record().await;
        news(&self.store, &self.objects, board, &Patience::none(60), &run, &format!("call-{now}"), at(now)).await
    }

    async fn changed(&self, now: u32) -> Result<(), Error> {
        let board = || async { Ok::<_, CallError>(self.wall.clone()) };
        let run = self.record().await;
        show(&self.store, &self.objects, board, &Patience::none(60), &run, &format!("call-{now}"), at(now)).await
    }

    async fn recorded(&self) -> Vec<String> {
        let events = self.store.events(&Chain::Run(self.run.clone()), 1, 100).await.unwrap();
        let problem =
            |event: &plangate_record::store::StoredEvent| {
                match serde_json::from_str::<plangate_gate::audit::AuditEvent>(&event.bytes).unwrap().what {
                    What::NotificationFailed { problem, .. } => Some(problem),
                    _ => None,
                }
            };
        events.iter().filter_map(problem).collect()
    }
}

#[tokio::test]
async fn a_run_is_shown_once_it_waits_and_followed_to_its_end() {
    let world = World::new(Some("C0CHANGES")).await;
    world.changed(1).await.unwrap();
    assert!(world.wall.calls().is_empty(), "nobody is told of a plan that is being made");
    let mut seen = Vec::new();
    for (now, status) in [
        (2, Status::AwaitingApproval),
        (3, Status::AwaitingApproval),
        (4, Status::Approved),
        (5, Status::Applying),
        (6, Status::Applied),
        (7, Status::Applied),
    ] {
        world.becomes(status).await;
        world.changed(now).await.unwrap();
        seen.extend(world.wall.calls());
    }
    assert_eq!(
        seen,
        [
            "post C0CHANGES: A change waits for approval",
            "update C0CHANGES/1.2: Approved",
            "update C0CHANGES/1.2: Being applied",
            "update C0CHANGES/1.2: Applied",
        ]
    );
    assert!(world.recorded().await.is_empty());
}

#[tokio::test]
async fn without_a_channel_nothing_happens_and_nothing_fails() {
    let world = World::new(None).await;
    world.becomes(Status::AwaitingApproval).await;
    world.changed(1).await.unwrap();
    assert!(
        world.wall.calls().is_empty() && notices::find(&world.store, &world.run, Topic::Run).await.unwrap().is_none()
    );
}

#[tokio::test]
async fn a_run_that_was_decided_before_anybody_saw_it_is_not_shown() {
    let world = World::new(Some("C0CHANGES")).await;
    world.becomes(Status::AwaitingApproval).await;
    world.wall.fails(3, &later());
    world.changed(1).await.unwrap_err();
    world.becomes(Status::Approved).await;
    world.wall.calls();
    world.changed(2).await.unwrap();
    assert!(world.wall.calls().is_empty());
}

#[tokio::test]
async fn what_passes_is_tried_again_and_the_last_state_is_what_is_shown() {
    let world = World::new(Some("C0CHANGES")).await;
    world.becomes(Status::AwaitingApproval).await;
    world.wall.fails(2, &later());
    world.changed(1).await.unwrap();
    assert_eq!(world.wall.calls().len(), 3);
    world.becomes(Status::Approved).await;
    world.wall.fails(3, &later());
    world.changed(2).await.unwrap_err();
    world.becomes(Status::Applied).await;
    world.wall.calls();
    world.changed(3).await.unwrap();
    assert_eq!(world.wall.calls(), ["update C0CHANGES/1.2: Applied"]);
    assert!(world.recorded().await.is_empty());
}

#[tokio::test]
async fn what_goes_on_failing_is_given_up_in_time_and_recorded_once_for_each_state() {
    let world = World::new(Some("C0CHANGES")).await;
    world.becomes(Status::AwaitingApproval).await;
    world.wall.fails(100, &later());
    for now in [1, 30, 60] {
        world.changed(now).await.unwrap_err();
    }
    assert!(world.recorded().await.is_empty());
    world.changed(61).await.unwrap();
    world.changed(62).await.unwrap();
    assert_eq!(world.recorded().await, ["timeout"]);
    assert_eq!(world.wall.calls().len(), 4 * 3);
}

#[tokio::test]
async fn what_will_never_work_is_recorded_at_once() {
    let world = World::new(Some("C0CHANGES")).await;
    world.becomes(Status::AwaitingApproval).await;
    world.wall.fails(1, &never());
    world.changed(1).await.unwrap();
    world.changed(2).await.unwrap();
    assert_eq!((world.recorded().await, world.wall.calls().len()), (vec!["channel_not_found".to_owned()], 1));
}

#[tokio::test]
async fn a_place_that_cannot_be_reached_is_a_failure_like_any_other() {
    let world = World::new(Some("C0CHANGES")).await;
    world.becomes(Status::AwaitingApproval).await;
    let nowhere = || async { Err::<Wall, _>(CallError::Later { code: "no_token".to_owned(), after: None }) };
    let (store, objects, patience) = (&world.store, &world.objects, Patience::none(60));
    let run = world.record().await;
    show(store, objects, nowhere, &patience, &run, "call-1", at(1)).await.unwrap_err();
    show(store, objects, nowhere, &patience, &run, "call-2", at(61)).await.unwrap();
    assert_eq!(world.recorded().await, ["no_token"]);
}

#[tokio::test]
async fn two_at_once_never_cross() {
    let world = World::new(Some("C0CHANGES")).await;
    world.becomes(Status::AwaitingApproval).await;
    world.changed(1).await.unwrap();
    // Somebody died while he held it, or goes on: the next one waits until he cannot be alive.
    notices::hold(&world.store, &world.run, Topic::Run, "C0CHANGES", "somebody", HOLD_SECONDS, at(2)).await.unwrap();
    world.becomes(Status::Applied).await;
    world.wall.calls();
    assert!(matches!(world.changed(2 + HOLD_SECONDS - 1).await, Err(Error::Contended)));
    assert!(world.wall.calls().is_empty());
    world.changed(2 + HOLD_SECONDS).await.unwrap();
    assert_eq!(world.wall.calls(), ["update C0CHANGES/1.2: Applied"]);
}

fn outside(run: &RunId) -> Compared {
    let sighting = |second: u32| Sighting {
        state: StateIdentity::Present {
            lineage: "l".into(),
            serial: second.into(),
            version_id: "v".into(),
            digest: Digest::of(&second.to_be_bytes()),
        },
        run: run.clone(),
        phase: Phase::Plan,
        from: at(second),
        to: at(second),
    };
    Compared::ChangedOutside { change: Box::new(Outside { before: sighting(1), after: sighting(2) }) }
}

#[tokio::test]
async fn what_a_run_has_noticed_is_told_once_each_in_a_message_of_its_own() {
    let world = World::new(Some("C0CHANGES")).await;
    world.notices(Some(Compared::AsKnown), Some(DriftWord::Nothing)).await;
    world.told(1).await.unwrap();
    assert!(world.wall.calls().is_empty());
    world.notices(Some(outside(&world.run)), None).await;
    for now in 2..5 {
        world.told(now).await.unwrap();
    }
    assert_eq!(world.wall.calls(), ["post C0CHANGES: State changed outside of the gate"]);
    world.becomes(Status::Planned).await;
    world.notices(Some(outside(&world.run)), Some(DriftWord::Found { previous: None })).await;
    for now in 5..8 {
        world.told(now).await.unwrap();
    }
    assert_eq!(world.wall.calls(), ["post C0CHANGES: Drift: the estate is not as it was applied"]);
    // The run's own message is another matter.
    assert_eq!(notices::find(&world.store, &world.run, Topic::Run).await.unwrap(), None);
    assert!(world.recorded().await.is_empty());
}

#[tokio::test]
async fn what_stands_is_not_told_again_and_without_a_channel_nothing_is() {
    let world = World::new(Some("C0CHANGES")).await;
    world.becomes(Status::Planned).await;
    for word in [DriftWord::Standing { first: world.run.clone() }, DriftWord::Unclear, DriftWord::Nothing] {
        world.notices(Some(Compared::AsKnown), Some(word)).await;
        world.told(1).await.unwrap();
    }
    assert!(world.wall.calls().is_empty());
    let world = World::new(None).await;
    world.notices(Some(outside(&world.run)), None).await;
    world.told(1).await.unwrap();
    assert!(world.wall.calls().is_empty());
}

#[tokio::test]
async fn news_that_cannot_be_told_now_are_told_later_or_that_is_recorded() {
    let world = World::new(Some("C0CHANGES")).await;
    world.notices(Some(outside(&world.run)), None).await;
    world.wall.fails(3, &later());
    world.told(1).await.unwrap_err();
    world.wall.calls();
    world.told(2).await.unwrap();
    assert_eq!(world.wall.calls(), ["post C0CHANGES: State changed outside of the gate"]);
    let world = World::new(Some("C0CHANGES")).await;
    world.notices(Some(outside(&world.run)), None).await;
    world.wall.fails(1, &never());
    world.told(1).await.unwrap();
    world.told(2).await.unwrap();
    assert_eq!((world.recorded().await, world.wall.calls().len()), (vec!["channel_not_found".to_owned()], 1));
}

#[tokio::test]
async fn a_person_is_told_and_what_cannot_be_told_is_recorded() {
    let world = World::new(Some("C0CHANGES")).await;
    let action = Digest::of(b"a");
    let said = |text: &str| Word {
        run: world.run.clone(),
        channel: "C0CHANGES".into(),
        user: "U0BOB".into(),
        text: text.into(),
    };
    let board = || async { Ok::<_, CallError>(world.wall.clone()) };
    leave_word(&world.store, &action, &said("no"), at(1)).await.unwrap();
    tell(&world.store, board, &Patience::none(60), &action.hex(), at(1)).await.unwrap();
    assert_eq!(world.wall.calls(), ["tell C0CHANGES/U0BOB: no"]);
    world.wall.fails(3, &later());
    tell(&world.store, board, &Patience::none(60), &action.hex(), at(2)).await.unwrap();
    assert_eq!(world.recorded().await, ["timeout"]);
    world.wall.calls();
    tell(&world.store, board, &Patience::none(60), "another", at(3)).await.unwrap();
    assert!(world.wall.calls().is_empty());
}

#[test]
fn of_the_stream_runs_and_words_matter_and_what_is_gone_does_not() {
    let record = |name: &str, pk: &str| {
        json!({
            "eventID": "1", "eventName": name, "eventSource": "aws:dynamodb",
            "dynamodb": { "Keys": { "pk": { "S": pk }, "sk": { "S": "RUN" } }, "SequenceNumber": "1" }
        })
    };
    let run = RunId::new(at(0), [1; 10]);
    let event: Event = serde_json::from_value(json!({ "Records": [
        record("INSERT", &format!("RUN#{run}")), record("MODIFY", "WORD#abc"), record("REMOVE", "WORD#abc"),
        record("INSERT", "MAC#abc"), record("MODIFY", "RUN#none"),
    ]}))
    .unwrap();
    assert_eq!(event.changes(), [Change::Run(run), Change::Word("abc".to_owned())]);
}
