//! The API over stores in memory: what IAM identity may see what, and how large things are answered.

use async_trait::async_trait;
use plangate_gate::audit::Chain;
use plangate_gate::digest::Digest;
use plangate_gate::documents::DocumentKind;
use plangate_gate::ids::{RunId, WorkspaceId};
use plangate_gate::order::{Phase, StoredObject};
use plangate_gate::run::{Actor, Counts, Kind, ProjectionRecord, Proposer, Run};
use plangate_gate::time::Timestamp;
use plangate_record::logs::{LiveLogs, LogPage};
use plangate_record::memory::{MemoryObjects, MemoryStore, MemoryWorkflow};
use plangate_record::objects::{ObjectError, Presigned, Presigner, bundle_key, projection_key};
use plangate_record::rows::run_key;
use plangate_record::store::{Item, Key, Over, Store, StoreError, Write};
use plangate_record::strangers::Strangers;
use plangate_record::workflow::WorkflowError;
use plangate_record::{documents, propose};
use plangate_wire::{DocumentPut, ProposeRequest};
use serde_json::{Value, json};

use crate::gate::Gate;
use crate::routes;

const ADMINISTRATOR: &str = "arn:aws:iam::111122223333:role/administrator";

/// Signs nothing, and says what it was asked to sign.
struct Addresses;

#[async_trait]
impl Presigner for Addresses {
    async fn put(&self, key: &str, digest: &Digest, bytes: u64) -> Result<Presigned, ObjectError> {
        Ok(Presigned { url: format!("https://put/{key}"), headers: vec![(digest.to_string(), bytes.to_string())] })
    }
    async fn get(&self, key: &str) -> Result<Presigned, ObjectError> {
        Ok(Presigned { url: format!("https://get/{key}"), headers: Vec::new() })
    }
}

/// A task that has not said anything.
struct Silence;

#[async_trait]
impl LiveLogs for Silence {
    async fn page(&self, _: &RunId, _: Phase, _: Option<&str>) -> Result<LogPage, WorkflowError> {
        Ok(LogPage::default())
    }
}

#[derive(Default)]
struct World {
    store: MemoryStore,
    objects: MemoryObjects,
    workflow: MemoryWorkflow,
    strangers: Strangers,
    /// An item in which nobody can read.
    damaged: Option<Key>,
}

#[async_trait]
impl Over for World {
    fn under(&self) -> &dyn Store {
        &self.store
    }
    async fn read(&self, key: &Key) -> Result<Option<Item>, StoreError> {
        self.read_all(std::slice::from_ref(key)).await.map(|mut items| items.remove(0))
    }
    async fn read_all(&self, keys: &[Key]) -> Result<Vec<Option<Item>>, StoreError> {
        match self.damaged.as_ref().filter(|key| keys.contains(key)) {
            Some(key) => Err(StoreError::Corrupt(key.pk.clone())),
            None => self.store.get_all(keys).await,
        }
    }
}

fn now() -> Timestamp {
    "2026-11-30T05:00:00Z".parse().unwrap()
}

fn workspace() -> WorkspaceId {
    WorkspaceId::new([5; 10])
}

impl World {
    /// `ana` may read and propose in one workspace; `eve` is known and may do nothing.
    async fn new() -> Self {
        let world = Self::default();
        let id = workspace().to_string();
        world.put(DocumentKind::Policy, "default", json!({ "schema": "plangate.policy.v1" })).await;
        world.workspace(&id, "payments").await;
        for person in ["ana", "eve"] {
            let iam = json!([{ "account": "111122223333", "role": person }]);
            world.put(DocumentKind::Principal, person, json!({ "person": person, "iam": iam })).await;
        }
        let grant = json!({ "person": "ana", "workspaces": [id], "actions": ["read", "read-logs", "propose"] });
        world.put(DocumentKind::Grant, "ana", grant).await;
        world
    }

    async fn workspace(&self, id: &str, name: &str) {
        let spec = json!({
            "name": name, "engine": { "name": "opentofu", "version": "1.11.6" },
            "state": { "bucket": name, "key": "state/terraform.tfstate", "region": "eu-central-1" },
            "plan_role": format!("arn:aws:iam::111122223333:role/plangate/plan/{id}-plan"),
            "apply_role": format!("arn:aws:iam::111122223333:role/plangate/apply/{id}-apply"),
            "sealed_bucket": name, "sealed_key": "arn:aws:kms:eu-central-1:111122223333:key/1", "policy": "default",
        });
        self.put(DocumentKind::Workspace, id, spec).await;
    }

    async fn put(&self, kind: DocumentKind, id: &str, spec: Value) {
        let request_id = format!("put-{}-{id}", kind.as_str()).parse().unwrap();
        let (namespace, owner) = ("default".to_owned(), "platform".to_owned());
        let put = DocumentPut { etag: None, request_id, validate_only: false, namespace, owner, spec };
        let actor = Actor::Person { person: "administrator".parse().unwrap(), arn: ADMINISTRATOR.to_owned() };
        documents::put(&self.store, kind, id, &put, &"administrator".parse().unwrap(), &actor, now()).await.unwrap();
    }

    async fn run(&self, number: u8) -> Run {
        let bundle = Digest::of(b"bundle");
        self.objects.replace(&bundle_key(&workspace(), &bundle), b"bundle");
        let request = ProposeRequest {
            request_id: format!("request-{number}").parse().unwrap(),
            workspace: workspace(),
            kind: Kind::Applicable,
            bundle,
            origin: Default::default(),
            derived_from: None,
            on_behalf_of: None,
        };
        let proposer = Proposer { person: "ana".parse().unwrap(), arn: "arn".into(), on_behalf_of: None };
        let id = RunId::new(now(), [number; 10]);
        let Self { store, objects, workflow, .. } = self;
        propose::propose(store, objects, workflow, "exchange", &request, &proposer, id, now()).await.unwrap()
    }

    /// Gives a run a projection of these bytes, as `project` does.
    async fn project(&self, run: &Run, bytes: &[u8]) {
        let key = projection_key(&run.workspace, &run.id);
        self.objects.replace(&key, bytes);
        let digest = Digest::of(bytes);
        let object =
            StoredObject { bucket: "exchange".into(), key, version_id: None, digest, bytes: bytes.len() as u64 };
        let projection = Some(ProjectionRecord { object, counts: Counts::default() });
        let stored = self.store.get(&run_key(&run.id)).await.unwrap().unwrap();
        let body = serde_json::to_string(&Run { projection, ..run.clone() }).unwrap();
        self.store.transact(vec![Write::Put(Item { body, ..stored })]).await.unwrap();
    }

    async fn ask(&self, role: &str, method: &str, path: &str, body: Option<Value>) -> (u16, String) {
        let arn = format!("arn:aws:sts::111122223333:assumed-role/{role}/session");
        let (raw_path, query) = path.split_once('?').unwrap_or((path, ""));
        let query: serde_json::Map<String, Value> =
            query.split('&').filter_map(|p| p.split_once('=')).map(|(k, v)| (k.to_owned(), v.into())).collect();
        let event = json!({
            "version": "2.0", "rawPath": raw_path, "queryStringParameters": query,
            "requestContext": {
                "requestId": "r", "http": { "method": method, "path": raw_path },
                "authorizer": { "iam": { "userArn": arn, "userId": "AROAEXAMPLEEXAMPLE:session", "accountId": "111122223333" } },
            },
            "body": body.map(|body| body.to_string()), "isBase64Encoded": false,
        });
        let gate = Gate {
            store: self,
            objects: &self.objects,
            presigner: &Addresses,
            workflow: &self.workflow,
            logs: &Silence,
            strangers: &self.strangers,
            bucket: "exchange",
            administrator: ADMINISTRATOR,
            longest_plan_expiry: 7200,
            now: now(),
        };
        let answer = routes::answer(&gate, &serde_json::from_value(event).unwrap()).await;
        (answer.status_code, answer.body)
    }

    async fn reason(&self, role: &str, method: &str, path: &str, body: Option<Value>) -> String {
        let (_, body) = self.ask(role, method, path, body).await;
        let body: Value = serde_json::from_str(&body).unwrap();
        body["error"]["reason"].as_str().unwrap_or("none").to_owned()
    }
}

#[tokio::test]
async fn who_may_not_learns_nothing_of_what_exists() {
    let world = World::new().await;
    let run = world.run(1).await.id;
    let absent = RunId::new(now(), [9; 10]);
    let elsewhere = WorkspaceId::new([9; 10]);
    for role in ["eve", "nobody"] {
        let mut answers = Vec::new();
        for id in [run.as_str(), absent.as_str(), "run-nonsense"] {
            answers.push(world.ask(role, "GET", &format!("/v1/runs/{id}"), None).await);
            answers.push(world.ask(role, "GET", &format!("/v1/runs/{id}/audit"), None).await);
            answers.push(world.ask(role, "POST", &format!("/v1/runs/{id}/cancel"), Some(json!({}))).await);
            let note = json!({ "request_id": "request-1", "note": "a word" });
            answers.push(world.ask(role, "POST", &format!("/v1/runs/{id}/annotations"), Some(note)).await);
        }
        for id in [workspace(), elsewhere.clone()] {
            answers.push(world.ask(role, "GET", &format!("/v1/workspaces/{id}"), None).await);
            let bundle = json!({ "workspace": id, "digest": Digest::of(b"x"), "bytes": 1 });
            answers.push(world.ask(role, "POST", "/v1/bundles", Some(bundle)).await);
        }
        answers.dedup();
        assert_eq!(answers.len(), 1, "{role} could tell: {answers:?}");
        assert_eq!(answers[0].0, 403);
    }
    assert_eq!(world.ask("ana", "GET", &format!("/v1/runs/{run}"), None).await.0, 200);
}

#[tokio::test]
async fn who_is_unknown_does_not_learn_that_something_is_damaged() {
    let mut world = World::new().await;
    let run = world.run(1).await.id;
    world.damaged = Some(run_key(&run));
    for (method, path) in [("GET", format!("/v1/runs/{run}")), ("POST", format!("/v1/runs/{run}/decision"))] {
        assert_eq!(world.reason("nobody", method, &path, None).await, "not-permitted");
    }
    assert_eq!(world.reason("ana", "GET", &format!("/v1/runs/{run}"), None).await, "internal");
}

#[tokio::test]
async fn a_small_projection_is_answered_to_the_byte_and_a_large_one_by_its_address() {
    let world = World::new().await;
    let (small, large) = (world.run(1).await, world.run(2).await);
    let path = |run: &Run| format!("/v1/runs/{}/projection", run.id);
    assert_eq!(world.reason("ana", "GET", &path(&small), None).await, "not-there-yet");

    // Digits and escapes that a reader and writer of JSON would not keep.
    let exact = br#"{"format":1,"n":1.50000000000000000000,"s":"\u0041"}"#;
    world.project(&small, exact).await;
    let (status, body) = world.ask("ana", "GET", &path(&small), None).await;
    assert_eq!(status, 200);
    assert!(body.contains(std::str::from_utf8(exact).unwrap()), "{body}");

    let many = format!("{{\"format\":1,\"s\":\"{}\"}}", "x".repeat(5_000_000));
    world.project(&large, many.as_bytes()).await;
    let (status, body) = world.ask("ana", "GET", &path(&large), None).await;
    let answer: plangate_wire::ProjectionAnswer = serde_json::from_str(&body).unwrap();
    assert_eq!((status, answer.bytes, answer.digest), (200, many.len() as u64, Digest::of(many.as_bytes())));
    assert!(answer.projection.is_none() && answer.url.unwrap().starts_with("https://get/projections/"));

    world.project(&world.run(3).await, exact).await;
    world.objects.replace(&projection_key(&workspace(), &world.run(3).await.id), b"{}");
    assert_eq!(world.reason("ana", "GET", &path(&world.run(3).await), None).await, "internal", "another is not shown");
}

#[tokio::test]
async fn a_request_says_what_its_schema_says_and_nothing_else() {
    let world = World::new().await;
    let digest = Digest::of(b"x");
    let cases = [
        (
            "POST",
            "/v1/bundles",
            json!({ "workspace": workspace(), "digest": digest, "bytes": 1, "force": true }),
            "invalid-request",
        ),
        ("POST", "/v1/bundles", json!({ "workspace": workspace(), "digest": "sha1:x", "bytes": 1 }), "invalid-request"),
        (
            "POST",
            "/v1/bundles",
            json!({ "workspace": workspace(), "digest": digest, "bytes": 1_u64 << 40 }),
            "bundle-too-large",
        ),
        (
            "POST",
            "/v1/runs",
            json!({ "request_id": "request-1", "workspace": workspace(), "kind": "applicable", "bundle": digest }),
            "bundle-missing",
        ),
        (
            "POST",
            "/v1/runs",
            json!({ "request_id": "request-1", "workspace": workspace(), "kind": "forced", "bundle": digest }),
            "invalid-request",
        ),
        (
            "POST",
            "/v1/runs",
            json!({ "request_id": "request-1", "workspace": workspace(), "kind": "applicable", "bundle": digest, "on_behalf_of": "cleo" }),
            "invalid-request",
        ),
        ("DELETE", "/v1/runs", json!({}), "no-such-route"),
        ("GET", "/v2/runs", json!({}), "no-such-route"),
        ("GET", "/v1/runs?limit=0", json!({}), "invalid-request"),
        ("GET", "/v1/runs?sort=age", json!({}), "invalid-request"),
        ("GET", "/v1/runs?cursor=1", json!({}), "invalid-request"),
        ("GET", "/v1/workspaces?cursor=", json!({}), "invalid-request"),
        ("GET", "/v1/workspaces?cursor=default", json!({}), "invalid-request"),
        ("GET", "/v1/policies?cursor=", json!({}), "invalid-request"),
    ];
    for (method, path, body, expected) in cases {
        assert_eq!(world.reason("ana", method, path, Some(body.clone())).await, expected, "{method} {path} {body}");
    }
}

#[tokio::test]
async fn runs_come_newest_first_in_pages_that_lose_none() {
    let world = World::new().await;
    let mut all = Vec::new();
    for number in 1..=5 {
        all.insert(0, world.run(number).await.id.to_string());
    }
    let mut seen = Vec::new();
    let mut path = "/v1/runs?limit=2".to_owned();
    loop {
        let (_, body) = world.ask("ana", "GET", &path, None).await;
        let page: plangate_wire::RunsAnswer = serde_json::from_str(&body).unwrap();
        seen.extend(page.runs.iter().map(|view| view.run.id.to_string()));
        let Some(cursor) = page.cursor else { break };
        path = format!("/v1/runs?limit=2&cursor={cursor}");
    }
    assert_eq!(seen, all);
    let (_, body) = world.ask("eve", "GET", "/v1/runs", None).await;
    assert_eq!(body, r#"{"runs":[]}"#);
}

#[test]
fn a_page_fits_into_an_answer_and_is_never_empty() {
    let items: Vec<String> = (0..5).map(|_| "x".repeat(1_500_000)).collect();
    assert_eq!(crate::reading::within(&items, 100), 2);
    assert_eq!(crate::reading::within(&items, 1), 1);
    assert_eq!(
        crate::reading::within(&["x".repeat(9_000_000)], 100),
        1,
        "one that is too large is not lost in silence"
    );
    assert_eq!(crate::reading::within(&Vec::<String>::new(), 100), 0);
}

#[tokio::test]
async fn a_bot_names_the_person_it_speaks_for() {
    let world = World::new().await;
    let iam = json!([{ "account": "111122223333", "role": "pipeline" }]);
    world.put(DocumentKind::Principal, "pipeline", json!({ "person": "pipeline", "bot": true, "iam": iam })).await;
    let grant = json!({ "person": "pipeline", "workspaces": [workspace()], "actions": ["propose", "approve"] });
    world.put(DocumentKind::Grant, "pipeline", grant).await;
    let bundle = Digest::of(b"bundle");
    world.objects.replace(&bundle_key(&workspace(), &bundle), b"bundle");
    let mut proposal = json!({ "request_id": "request-1", "workspace": workspace(), "kind": "applicable", "bundle": bundle, "origin": "ci" });
    assert_eq!(world.reason("pipeline", "POST", "/v1/runs", Some(proposal.clone())).await, "invalid-request");
    proposal["on_behalf_of"] = "ana".into();
    let (status, body) = world.ask("pipeline", "POST", "/v1/runs", Some(proposal)).await;
    assert_eq!(status, 201, "{body}");
    let answer: plangate_wire::RunAnswer = serde_json::from_str(&body).unwrap();
    assert_eq!(answer.run.run.proposer.on_behalf_of.unwrap().as_str(), "ana");
}

#[tokio::test]
async fn a_note_is_taken_from_who_approves_or_administers_and_answered_as_it_stands_in_the_chain() {
    let world = World::new().await;
    let run = world.run(1).await.id;
    let path = format!("/v1/runs/{run}/annotations");
    let note = |more: Value| {
        let mut body = json!({ "request_id": "request-1", "note": "the ticket was 17" });
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        Some(body)
    };
    // The proposer may not; the first administrator may.
    assert_eq!(world.reason("ana", "POST", &path, note(json!({}))).await, "not-permitted");
    for wrong in
        [json!({ "force": true }), json!({ "corrects": -1 }), json!({ "corrects": "1" }), json!({ "note": null })]
    {
        assert_eq!(world.reason("administrator", "POST", &path, note(wrong)).await, "invalid-request");
    }
    let (status, body) = world.ask("administrator", "POST", &path, note(json!({ "corrects": 1 }))).await;
    let answer: plangate_wire::AnnotationAnswer = serde_json::from_str(&body).unwrap();
    let (seq, corrects) = (answer.annotation.seq, answer.annotation.corrects);
    assert_eq!((status, answer.run, seq, corrects), (201, run.clone(), 2, Some(1)));
    assert_eq!(world.ask("administrator", "POST", &path, note(json!({ "corrects": 1 }))).await, (201, body));
    let (_, chain) = world.ask("ana", "GET", &format!("/v1/runs/{run}/audit"), None).await;
    assert_eq!(chain.matches("the ticket was 17").count(), 1, "{chain}");
}

#[tokio::test]
async fn a_freeze_is_shown_to_who_may_read_and_made_by_who_may_administer() {
    let world = World::new().await;
    let run = world.run(1).await.id;
    let id = workspace();
    let request = |number: u8| Some(json!({ "request_id": format!("request-{number}"), "reason": "an incident" }));
    let (own, whole) = (format!("/v1/workspaces/{id}"), "/v1".to_owned());
    for place in [&own, &whole] {
        for verb in ["freeze", "unfreeze"] {
            for role in ["ana", "eve", "nobody"] {
                let reason = world.reason(role, "POST", &format!("{place}/{verb}"), request(1)).await;
                assert_eq!(reason, "not-permitted", "{role} {verb}");
            }
        }
    }
    assert_eq!(world.reason("ana", "GET", "/v1/gate", None).await, "not-permitted");
    let more = Some(json!({ "request_id": "request-1", "reason": "x", "force": true }));
    assert_eq!(world.reason("administrator", "POST", "/v1/freeze", more).await, "invalid-request");

    let frozen = |body: &str, place: &str| -> Vec<String> {
        let body: Value = serde_json::from_str(body).unwrap();
        let shown = body.pointer(place).and_then(Value::as_array).cloned().unwrap_or_default();
        shown.iter().map(|each| format!("{} {}", each["scope"].as_str().unwrap(), each["reason"])).collect()
    };
    let (status, body) = world.ask("administrator", "POST", &format!("{own}/freeze"), request(2)).await;
    assert_eq!((status, frozen(&body, "/frozen")), (200, vec!["workspace \"an incident\"".to_owned()]));
    let (status, body) = world.ask("administrator", "POST", "/v1/freeze", request(3)).await;
    assert_eq!(status, 200, "{body}");
    assert_eq!(world.ask("administrator", "GET", "/v1/gate", None).await.1, body);
    let both = ["workspace \"an incident\"", "gate \"an incident\""];
    assert_eq!(frozen(&world.ask("ana", "GET", &own, None).await.1, "/document/lock/frozen"), both);
    assert_eq!(frozen(&world.ask("ana", "GET", &format!("/v1/runs/{run}"), None).await.1, "/run/frozen"), both);

    assert_eq!(world.ask("administrator", "POST", "/v1/unfreeze", request(4)).await, (200, "{}".to_owned()));
    let (_, body) = world.ask("administrator", "POST", &format!("{own}/unfreeze"), request(5)).await;
    assert_eq!(frozen(&body, "/frozen"), [""; 0]);
    let again = world.reason("administrator", "POST", &format!("{own}/unfreeze"), request(6)).await;
    assert_eq!(again, "not-frozen");
}

#[tokio::test]
async fn who_is_refused_because_they_may_not_is_recorded_apart_and_nobody_else_is() {
    let world = World::new().await;
    let run = world.run(1).await.id;
    let path = format!("/v1/runs/{run}");
    assert_eq!(world.reason("nobody", "GET", &path, None).await, "not-permitted");
    assert_eq!(world.reason("eve", "GET", &path, None).await, "not-permitted");
    assert_eq!(world.reason("ana", "GET", "/v1/nothing/here/at/all", None).await, "no-such-route");
    let events = world.store.events(&Chain::Strangers, 1, 10).await.unwrap();
    let told: Vec<Value> = events.iter().map(|event| serde_json::from_str(&event.bytes).unwrap()).collect();
    let told: Vec<(&Value, &Value)> = told.iter().map(|e| (&e["what"]["identity"], &e["what"]["asked"])).collect();
    let asked = json!(format!("GET:v1/runs/{run}"));
    let nobody = json!("arn:aws:sts::111122223333:assumed-role/nobody/session");
    let eve = json!("arn:aws:sts::111122223333:assumed-role/eve/session");
    assert_eq!(told, [(&nobody, &asked), (&eve, &asked)]);
}

#[tokio::test]
async fn a_listing_names_nothing_that_its_reader_may_not_read_and_leaves_out_nothing_that_they_may() {
    let world = World::new().await;
    for number in 10..240_u8 {
        world.workspace(WorkspaceId::new([number; 10]).as_str(), &format!("other-{number}")).await;
    }
    let listed = async |role: &str, cursor: Option<&str>| -> plangate_wire::DocumentsAnswer {
        let path = cursor.map_or("/v1/workspaces".to_owned(), |cursor| format!("/v1/workspaces?cursor={cursor}"));
        let (status, body) = world.ask(role, "GET", &path, None).await;
        assert_eq!(status, 200, "{body}");
        serde_json::from_str(&body).unwrap()
    };
    for (role, readable) in [("eve", 0), ("ana", 1)] {
        let page = listed(role, None).await;
        assert_eq!((page.documents.len(), page.cursor), (readable, None), "{role}");
    }
    let (mut all, mut cursor, mut pages) = (0, None::<String>, 0);
    loop {
        let page = listed("administrator", cursor.as_deref()).await;
        pages += 1;
        assert!(page.cursor.is_none() || page.cursor == page.documents.last().map(|last| last.id.clone()));
        all += page.documents.len();
        cursor = page.cursor;
        if cursor.is_none() {
            break;
        }
    }
    assert_eq!((all, pages), (231, 3));
}

#[tokio::test]
async fn a_lock_that_an_ended_run_still_holds_says_so_and_how_it_is_opened() {
    let world = World::new().await;
    let run = world.run(1).await;
    let hold = |version: u64| {
        let body = json!({
            "schema": "plangate.lock.v1", "workspace": workspace(), "lock": { "state": "held", "run": run.id }, "fence": 1, "tail": 0
        });
        let mut item = Item::new(plangate_record::rows::lock_key(&workspace()), body.to_string());
        item.version = version;
        Write::Put(item)
    };
    world.store.transact(vec![hold(0)]).await.unwrap();
    let lock = async || -> Value {
        let (status, body) = world.ask("ana", "GET", &format!("/v1/workspaces/{}", workspace()), None).await;
        assert_eq!(status, 200, "{body}");
        serde_json::from_str::<Value>(&body).unwrap()["document"]["lock"].clone()
    };
    let held = lock().await;
    assert_eq!((&held["state"], &held["reason"], &held["steps"]), (&json!("held"), &Value::Null, &Value::Null));

    let stored = world.store.get(&run_key(&run.id)).await.unwrap().unwrap();
    let ended = Run { status: plangate_gate::lifecycle::Status::Failed, ended_at: Some(now()), ..run.clone() };
    let body = serde_json::to_string(&ended).unwrap();
    world.store.transact(vec![Write::Put(Item { body, ..stored })]).await.unwrap();
    let held = lock().await;
    assert_eq!((&held["reason"], &held["since"]), (&json!("held-by-an-ended-run"), &json!(now())));
    let commands: Vec<&str> =
        held["steps"].as_array().unwrap().iter().map(|step| step["command"].as_str().unwrap()).collect();
    let id = workspace();
    assert_eq!(commands.last().unwrap(), &format!("plangate workspace acknowledge {id} --run RUN --note TEXT"));
    assert!(commands[2].contains("--plan-only"), "first somebody looks, then it is opened: {commands:?}");
}

#[tokio::test]
async fn only_the_schedule_looks_for_drift() {
    let world = World::new().await;
    let run = world.run(1).await;
    let proposal = |origin: &str| {
        json!({
            "request_id": format!("request-{origin}"), "workspace": workspace(), "kind": "plan-only",
            "bundle": run.bundle.digest, "origin": origin
        })
    };
    assert_eq!(world.reason("ana", "POST", "/v1/runs", Some(proposal("drift"))).await, "invalid-request");
    assert_eq!(world.reason("ana", "POST", "/v1/runs", Some(proposal("ci"))).await, "none");
}

#[tokio::test]
async fn no_workspace_asks_for_a_longer_life_of_its_plans_than_the_gate_gives() {
    let world = World::new().await;
    let path = format!("/v1/workspaces/{}", workspace());
    let (_, body) = world.ask("administrator", "GET", &path, None).await;
    let document = serde_json::from_str::<Value>(&body).unwrap()["document"].take();
    for (number, (seconds, reason)) in [(7201, "invalid-document"), (7200, "none")].into_iter().enumerate() {
        let mut spec = document["spec"].clone();
        spec["plan_expiry_seconds"] = seconds.into();
        let put = json!({ "etag": document["etag"], "request_id": format!("longer-life-{number}"), "namespace": "default",
                          "owner": "platform", "spec": spec });
        assert_eq!(world.reason("administrator", "PUT", &path, Some(put)).await, reason, "{seconds}");
    }
}
