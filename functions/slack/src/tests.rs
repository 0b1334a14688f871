//! What comes of interactions, over the stores in memory.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;
use hmac::{Hmac, KeyInit as _, Mac as _};
use plangate_gate::audit::Chain;
use plangate_gate::digest::Digest;
use plangate_gate::documents::DocumentKind;
use plangate_gate::ids::{RunId, WorkspaceId};
use plangate_gate::lifecycle::Status;
use plangate_gate::run::{Actor, Kind, Proposer, Run};
use plangate_gate::time::Timestamp;
use plangate_record::memory::{MemoryObjects, MemoryStore, MemoryWorkflow};
use plangate_record::objects::bundle_key;
use plangate_record::parameters::Parameters;
use plangate_record::rows::run_key;
use plangate_record::store::{Store, Write};
use plangate_record::workflow::WorkflowError;
use plangate_record::{documents, propose};
use plangate_slack::{CallError, SignatureError};
use plangate_wire::{DocumentPut, ProposeRequest};
use serde_json::{Value, json};

use crate::event::{Answer, Event};
use crate::hear::Desk;
use crate::keys::Keys;
use crate::open::Forms;

const TEAM: &str = "T0AAAAAAA";

fn now() -> Timestamp {
    "2026-11-30T05:00:00Z".parse().unwrap()
}

/// Parameter Store, with what it was asked counted.
#[derive(Default)]
struct Shelf {
    values: Mutex<Vec<(&'static str, String)>>,
    asked: AtomicUsize,
}

impl Shelf {
    fn holding(values: &[(&'static str, &str)]) -> Self {
        let shelf = Self::default();
        shelf.put(values);
        shelf
    }

    fn put(&self, values: &[(&'static str, &str)]) {
        *self.values.lock().unwrap() = values.iter().map(|(name, value)| (*name, (*value).to_owned())).collect();
    }
}

#[async_trait]
impl Parameters for Shelf {
    async fn secret(&self, name: &str) -> Result<Option<String>, WorkflowError> {
        self.asked.fetch_add(1, Ordering::SeqCst);
        let values = self.values.lock().unwrap();
        Ok(values.iter().find(|(known, _)| *known == name).map(|(_, value)| value.clone()))
    }
}

/// Slack, as far as forms go.
#[derive(Default)]
struct Opened {
    views: Mutex<Vec<Value>>,
    broken: bool,
}

#[async_trait]
impl Forms for Opened {
    async fn open(&self, trigger: &str, view: Value) -> Result<(), CallError> {
        assert_eq!(trigger, "1.2.3");
        if self.broken {
            return Err(CallError::Later { code: "timeout".to_owned(), after: None });
        }
        self.views.lock().unwrap().push(view);
        Ok(())
    }
}

#[derive(Default)]
struct World {
    store: MemoryStore,
    objects: MemoryObjects,
    workflow: MemoryWorkflow,
    forms: Opened,
    shelf: Shelf,
    requests: AtomicUsize,
}

fn workspace() -> WorkspaceId {
    WorkspaceId::new([5; 10])
}

fn digest() -> Digest {
    Digest::of(b"projection")
}

fn run() -> RunId {
    RunId::new(now(), [1; 10])
}

impl World {
    /// A run of `ana`'s waits for a decision; `ana`, `bob` and `cleo` may approve, `eve` is known and may do nothing.
    async fn new() -> Self {
        let world = Self { shelf: Shelf::holding(&[("current", "secret")]), ..Self::default() };
        let id = workspace().to_string();
        world.put(DocumentKind::Policy, "default", json!({ "schema": "plangate.policy.v1" })).await;
        let spec = json!({
            "name": "payments", "engine": { "name": "opentofu", "version": "1.11.6" },
            "state": { "bucket": "sealed", "key": "state/terraform.tfstate", "region": "eu-central-1" },
            "plan_role": format!("arn:aws:iam::111122223333:role/plangate/plan/{id}-plan"),
            "apply_role": format!("arn:aws:iam::111122223333:role/plangate/apply/{id}-apply"),
            "sealed_bucket": "sealed", "sealed_key": "arn:aws:kms:eu-central-1:111122223333:key/1", "policy": "default",
            "slack": { "channel": "C0CHANGES" }
        });
        world.put(DocumentKind::Workspace, &id, spec).await;
        for person in ["ana", "bob", "cleo", "eve"] {
            let slack = json!([{ "team": TEAM, "user": format!("U0{}", person.to_uppercase()) }]);
            let iam = json!([{ "account": "111122223333", "role": person }]);
            let spec = json!({ "person": person, "iam": iam, "slack": slack });
            world.put(DocumentKind::Principal, person, spec).await;
            if person != "eve" {
                let grant = json!({ "person": person, "workspaces": [id], "actions": ["read", "propose", "approve"] });
                world.put(DocumentKind::Grant, person, grant).await;
            }
        }
        world.waits().await;
        world
    }

    async fn put(&self, kind: DocumentKind, id: &str, spec: Value) {
        let request_id = format!("put-{}-{id}", kind.as_str()).parse().unwrap();
        let (namespace, owner) = ("default".to_owned(), "platform".to_owned());
        let put = DocumentPut { etag: None, request_id, validate_only: false, namespace, owner, spec };
        let actor = Actor::gate("test");
        documents::put(&self.store, kind, id, &put, &"administrator".parse().unwrap(), &actor, now()).await.unwrap();
    }

    async fn waits(&self) {
        let bundle = Digest::of(b"bundle");
        self.objects.replace(&bundle_key(&workspace(), &bundle), b"bundle");
        let request = ProposeRequest {
            request_id: "request-1".parse().unwrap(),
            workspace: workspace(),
            kind: Kind::Applicable,
            bundle,
            origin: Default::default(),
            derived_from: None,
            on_behalf_of: None,
        };
        let proposer = Proposer { person: "ana".parse().unwrap(), arn: "arn".into(), on_behalf_of: None };
        let Self { store, objects, workflow, .. } = self;
        propose::propose(store, objects, workflow, "exchange", &request, &proposer, run(), now()).await.unwrap();
        let mut item = self.store.get(&run_key(&run())).await.unwrap().unwrap();
        let mut run: Run = serde_json::from_str(&item.body).unwrap();
        run.status = Status::AwaitingApproval;
        let object = json!({ "bucket": "b", "key": "k", "digest": digest(), "bytes": 10 });
        let projection = json!({ "object": object, "counts": { "create": 1, "update": 0, "delete": 0, "replace": 0 } });
        run.projection = Some(serde_json::from_value(projection).unwrap());
        item.body = serde_json::to_string(&run).unwrap();
        self.store.transact(vec![Write::Put(item)]).await.unwrap();
    }

    async fn run(&self) -> Run {
        serde_json::from_str(&self.store.get(&run_key(&run())).await.unwrap().unwrap().body).unwrap()
    }

    async fn events(&self) -> usize {
        self.store.events(&Chain::Run(run()), 1, 100).await.unwrap().len()
    }

    /// What people were told, by user.
    fn told(&self) -> Vec<(String, String)> {
        let words = self.store.items().into_iter().filter(|item| item.key.pk.starts_with("WORD#"));
        let word = |body: String| serde_json::from_str::<Value>(&body).unwrap();
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        words.map(|item| word(item.body)).map(|word| (text(&word["user"]), text(&word["text"]))).collect()
    }

    /// Sends an event as API Gateway does.
    async fn send(&self, event: Value) -> Answer {
        let request = format!("request-{}", self.requests.fetch_add(1, Ordering::SeqCst));
        let mut event = event;
        event["requestContext"] = json!({ "requestId": request, "http": { "method": "POST" } });
        let event: Event = serde_json::from_value(event).unwrap();
        let Some(body) = event.body() else { return Answer::status(400) };
        let keys = Keys::new();
        let verified = match keys.check(&self.shelf, ("current", "previous"), event.signed(&body), now()).await.unwrap()
        {
            Ok(verified) => verified,
            Err(_) => return Answer::status(401),
        };
        let desk = Desk { store: &self.store, workflow: &self.workflow, forms: &self.forms, now: now() };
        desk.hear(&verified, event.request_id()).await
    }

    async fn press(&self, button: &str, person: &str, press: &str) -> Answer {
        self.send(signed(&pressed(button, person, press), 0)).await
    }
}

fn encoded(payload: &Value) -> String {
    let text: String = payload.to_string().bytes().map(|b| format!("%{b:02X}")).collect();
    format!("payload={text}")
}

/// A payload, signed `ago` seconds ago.
fn signed(payload: &Value, ago: i64) -> Value {
    signed_body(&encoded(payload), "secret", ago)
}

fn signed_body(body: &str, secret: &str, ago: i64) -> Value {
    let timestamp = now().unix_seconds() - ago;
    let mut hmac = Hmac::<sha2::Sha256>::new_from_slice(secret.as_bytes()).unwrap();
    hmac.update(format!("v0:{timestamp}:{body}").as_bytes());
    let signature = format!("v0={}", hex::encode(hmac.finalize().into_bytes()));
    json!({
        "headers": { "x-slack-request-timestamp": timestamp.to_string(), "x-slack-signature": signature },
        "body": body, "isBase64Encoded": false
    })
}

fn user(person: &str) -> Value {
    json!({ "id": format!("U0{}", person.to_uppercase()), "name": "somebody", "team_id": TEAM })
}

fn pressed(button: &str, person: &str, press: &str) -> Value {
    json!({
        "type": "block_actions", "trigger_id": "1.2.3", "team": { "id": TEAM }, "user": user(person),
        "channel": { "id": "C0CHANGES" },
        "actions": [{ "type": "button", "action_id": format!("plangate.{button}"), "action_ts": press,
            "value": format!("v1 {} {}", run(), digest()) }]
    })
}

fn submission(person: &str, reason: Value) -> Value {
    json!({
        "type": "view_submission", "team": { "id": TEAM }, "user": user(person),
        "view": { "id": "V1", "callback_id": "plangate.reason", "private_metadata": format!("v1 {} {}", run(), digest()),
            "state": { "values": { "reason": { "reason": { "type": "plain_text_input", "value": reason } } } } }
    })
}

#[tokio::test]
async fn an_approver_presses_approve_and_it_is_approved() {
    let world = World::new().await;
    assert_eq!(world.press("approve", "bob", "1.1").await, Answer::status(200));
    let record = world.run().await;
    assert_eq!(record.status, Status::Approved);
    assert!(matches!(record.decision.unwrap().by, Actor::Slack { person, .. } if person.as_str() == "bob"));
    assert!(world.told().is_empty(), "the message tells it");
}

#[tokio::test]
async fn a_body_in_base64_is_the_same_request() {
    use base64::Engine as _;
    let world = World::new().await;
    let mut event = signed(&pressed("approve", "bob", "1.1"), 0);
    let body = event["body"].as_str().unwrap().to_owned();
    event["body"] = base64::engine::general_purpose::STANDARD.encode(body).into();
    event["isBase64Encoded"] = true.into();
    assert_eq!(world.send(event.clone()).await.status_code, 200);
    assert_eq!(world.run().await.status, Status::Approved);
    event["body"] = "no base64".into();
    assert_eq!(world.send(event).await.status_code, 400);
}

#[tokio::test]
async fn the_same_bytes_again_are_refused_and_the_same_action_signed_again_is_answered_as_before() {
    let world = World::new().await;
    let event = signed(&pressed("approve", "bob", "1.1"), 0);
    assert_eq!(world.send(event.clone()).await.status_code, 200);
    let events = world.events().await;
    assert_eq!(world.send(event).await.status_code, 409);
    assert_eq!(world.send(signed(&pressed("approve", "bob", "1.1"), 5)).await, Answer::status(200));
    assert_eq!((world.events().await, world.told().len()), (events, 0));
}

#[tokio::test]
async fn a_refusal_is_told_to_whoever_acted_in_words() {
    let world = World::new().await;
    for (person, press, part) in [
        ("ana", "1.1", "Who may approve: bob, cleo."),
        ("eve", "1.2", "You may not decide on this run, or there is no such run. Ask whoever administers"),
        ("dora", "1.3", "plangate does not know you: no principal has the Slack user U0DORA of team T0AAAAAAA."),
    ] {
        assert_eq!(world.press("approve", person, press).await, Answer::status(200));
        let found = world.told();
        let told = found.iter().find(|(user, _)| *user == format!("U0{}", person.to_uppercase()));
        assert!(told.is_some_and(|(_, text)| text.contains(part)), "{person}: {found:?}");
    }
    assert_eq!(world.run().await.status, Status::AwaitingApproval);
    world.press("approve", "bob", "2.1").await;
    world.press("approve", "cleo", "2.2").await;
    assert!(world.told().iter().any(|(user, text)| user == "U0CLEO" && text.contains("`bob` approved this run at")));
}

#[tokio::test]
async fn strangers_leave_no_trace_in_the_run() {
    let world = World::new().await;
    let events = world.events().await;
    for person in ["eve", "dora"] {
        world.press("approve", person, person).await;
        world.press("reject", person, person).await;
        world.send(signed(&submission(person, json!("no")), 0)).await;
    }
    assert_eq!(world.events().await, events);
    assert!(world.forms.views.lock().unwrap().is_empty(), "no form for whoever may not decide");
}

#[tokio::test]
async fn rejecting_asks_for_the_reason_and_is_done_with_it() {
    let world = World::new().await;
    assert_eq!(world.press("reject", "bob", "1.1").await, Answer::status(200));
    let view = world.forms.views.lock().unwrap().pop().unwrap();
    assert_eq!(view["private_metadata"], format!("v1 {} {}", run(), digest()));
    assert_eq!(world.run().await.status, Status::AwaitingApproval);
    for reason in [Value::Null, json!("  "), json!("two\nlines")] {
        let answer = world.send(signed(&submission("bob", reason), 0)).await;
        let told: Value = serde_json::from_str(&answer.body).unwrap();
        assert_eq!((answer.status_code, &told["response_action"]), (200, &json!("errors")), "{told}");
    }
    assert_eq!(world.send(signed(&submission("bob", json!("too much at once")), 0)).await, Answer::status(200));
    let record = world.run().await;
    assert_eq!(
        (record.status, record.decision.unwrap().reason.as_deref()),
        (Status::Rejected, Some("too much at once"))
    );
    // The form of somebody else who was slower says who decided.
    let late = world.send(signed(&submission("cleo", json!("not like this")), 0)).await;
    assert!(late.body.contains("`bob` rejected this run at"), "{}", late.body);
}

#[tokio::test]
async fn a_form_that_does_not_open_is_told_of() {
    let mut world = World::new().await;
    world.forms.broken = true;
    world.press("reject", "bob", "1.1").await;
    assert!(world.told()[0].1.contains("plangate reject run-"), "{:?}", world.told());
}

#[tokio::test]
async fn what_was_not_signed_is_not_read_and_what_is_not_ours_is_not_done() {
    let world = World::new().await;
    let good = signed(&pressed("approve", "bob", "1.1"), 0);
    let with = |pointer: &str, to: Value| {
        let mut event = good.clone();
        *event.pointer_mut(pointer).unwrap() = to;
        event
    };
    let other = encoded(&pressed("approve", "cleo", "1.1"));
    for event in [
        with("/headers", json!({})),
        with("/headers/x-slack-signature", json!(format!("v0={}", "0".repeat(64)))),
        with("/body", json!(other)),
        with("/body", Value::Null),
        signed(&pressed("approve", "bob", "1.1"), 301),
        signed(&pressed("approve", "bob", "1.1"), -301),
        signed_body(&encoded(&pressed("approve", "bob", "1.1")), "another secret", 0),
    ] {
        assert_eq!(world.send(event.clone()).await.status_code, 401, "{event}");
    }
    for body in ["payload=%7B%7D", "payload=nonsense", "other=1", ""] {
        assert_eq!(world.send(signed_body(body, "secret", 0)).await.status_code, 400, "{body}");
    }
    assert_eq!(world.run().await.status, Status::AwaitingApproval);
    assert!(world.told().is_empty());
}

#[tokio::test]
async fn secrets_are_read_again_when_a_signature_is_by_another_and_not_for_each_stranger() {
    let shelf = Shelf::holding(&[("current", "old")]);
    let keys = Keys::new();
    let check = async |secret: &str| {
        let event: Event = serde_json::from_value({
            let mut event = signed_body("payload=", secret, 0);
            event["requestContext"] = json!({ "requestId": "r" });
            event
        })
        .unwrap();
        let body = event.body().unwrap();
        keys.check(&shelf, ("current", "previous"), event.signed(&body), now()).await.unwrap().map(drop)
    };
    assert_eq!(check("old").await, Ok(()));
    assert_eq!(shelf.asked.load(Ordering::SeqCst), 2);
    for _ in 0..20 {
        assert_eq!(check("strange").await, Err(SignatureError::Mismatch));
    }
    assert_eq!(shelf.asked.load(Ordering::SeqCst), 2, "they were read a moment ago");
    // While a secret is replaced, both are good.
    shelf.put(&[("current", "new"), ("previous", "old")]);
    let fresh = Keys::new();
    for secret in ["new", "old"] {
        let event = signed_body("payload=", secret, 0);
        let header = |name: &str| event["headers"][name].as_str();
        let signed = plangate_slack::Signed {
            timestamp: header("x-slack-request-timestamp"),
            signature: header("x-slack-signature"),
            body: b"payload=",
        };
        assert!(fresh.check(&shelf, ("current", "previous"), signed, now()).await.unwrap().is_ok(), "{secret}");
    }
    // No secret at all checks nothing, and takes nothing for Slack's.
    let none = Shelf::holding(&[("current", " ")]);
    let signed = plangate_slack::Signed { timestamp: None, signature: None, body: b"" };
    assert!(Keys::new().check(&none, ("current", ""), signed, now()).await.is_err());
}
