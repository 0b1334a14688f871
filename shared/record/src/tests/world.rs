//! A gate in memory, with people, a workspace, a workflow that is stepped by hand, and a runner that does as it is told.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;
use plangate_gate::audit::{self, AuditEvent, Chain, What};
use plangate_gate::digest::Digest;
use plangate_gate::documents::{DocumentKind, LONGEST_PLAN_EXPIRY, ReviewerBinding};
use plangate_gate::failure::FailureReason;
use plangate_gate::ids::{RunId, WorkspaceId};
use plangate_gate::lock::LockState;
use plangate_gate::measure::{Measurement, Metric};
use plangate_gate::order::{Phase, Signature, SignatureAlgorithm, StoredObject, WorkOrder};
use plangate_gate::receipt::{
    Applied, ApplyResult, Claim, ClaimHolder, ClaimSchema, Isolation, PlanExit, Planned, Receipt, ReceiptAudience,
    ReceiptSchema, ResultSchema, StateLockEvidence,
};
use plangate_gate::run::{Actor, Kind, LockFile, Proposer, Run, Surface, failure};
use plangate_gate::state::StateIdentity;
use plangate_gate::time::Timestamp;
use plangate_reviewer::{AlwaysEscalate, Reviewer};
use plangate_wire::{DecisionRequest, DocumentPut, ProposeRequest};
use serde_json::json;

use crate::access::{Caller, CallerIdentity, identify};
use crate::authorize::{Signer, authorize};
use crate::conclude::conclude;
use crate::error::Error;
use crate::memory::{MemoryObjects, MemoryStore, MemoryTasks, MemoryWorkflow};
use crate::objects::{
    Object, ObjectError, Objects, PutOutcome, artifact_key, bundle_key, claim_key, document_key, log_key, order_key,
    receipt_key, result_key,
};
use crate::rows::{LockRow, PlaceRow, RunRow};
use crate::store::{Key, Over, Store, StoreError, StoredEvent, Write};
use crate::watched::told;
use crate::workflow::WorkflowError;
use crate::{admit, decide, guard, intake, prepare, project, propose, review};

pub(crate) const ADMINISTRATOR: &str = "arn:aws:iam::111122223333:role/administrator";
pub(crate) const BUCKET: &str = "exchange";

/// A plan document in which one resource is created.
pub(crate) const CREATES: &str = r#"{"format_version":"1.2","resource_changes":[{"address":"terraform_data.a","mode":"managed","type":"terraform_data","name":"a","provider_name":"terraform.io/builtin/terraform","change":{"actions":["create"],"before":null,"after":{"input":"x"},"after_unknown":{"id":true},"before_sensitive":false,"after_sensitive":{}}}]}"#;
/// A plan document that changes nothing.
pub(crate) const NOTHING: &str = r#"{"format_version":"1.2","planned_values":{"root_module":{}}}"#;

/// Who configures.
pub(crate) fn administrator() -> Actor {
    Actor::Person { person: "administrator".parse().unwrap(), arn: ADMINISTRATOR.to_owned() }
}

pub(crate) fn at(seconds: u32) -> Timestamp {
    "2026-11-30T05:00:00Z".parse::<Timestamp>().unwrap().plus_seconds(seconds)
}

/// The reviewer that always asks a person, whatever a workspace says.
pub(crate) struct Always;

impl review::Reviewers for Always {
    fn of<'a>(&'a self, _: &WorkspaceId, _: &RunId, _: &ReviewerBinding) -> Box<dyn Reviewer + 'a> {
        Box::new(AlwaysEscalate)
    }
}

/// A table in which one write may be made to fail: before it happened, or after.
#[derive(Default)]
pub(crate) struct Faults {
    calls: AtomicUsize,
    fail_at: AtomicUsize,
    happened: bool,
}

impl Faults {
    pub(crate) fn at(call: usize, happened: bool) -> Self {
        Self { calls: AtomicUsize::new(0), fail_at: AtomicUsize::new(call), happened }
    }

    /// Whether this call fails.
    fn strikes(&self) -> bool {
        self.calls.fetch_add(1, Ordering::SeqCst) + 1 == self.fail_at.load(Ordering::SeqCst)
    }

    pub(crate) fn struck(&self) -> bool {
        self.calls.load(Ordering::SeqCst) >= self.fail_at.load(Ordering::SeqCst)
    }
}

pub(crate) struct World {
    pub(crate) store: MemoryStore,
    pub(crate) objects: MemoryObjects,
    pub(crate) workflow: MemoryWorkflow,
    pub(crate) tasks: MemoryTasks,
    pub(crate) workspace: WorkspaceId,
    pub(crate) faults: Faults,
    /// The states of the workspaces, as they stand in their buckets.
    states: Mutex<BTreeMap<WorkspaceId, StateIdentity>>,
    /// What was told of the transactions that were taken.
    pub(crate) told: Mutex<Vec<Measurement>>,
}

#[async_trait]
impl Over for World {
    fn under(&self) -> &dyn Store {
        &self.store
    }
    async fn write(&self, writes: Vec<Write>) -> Result<(), StoreError> {
        let mut keys: Vec<String> = writes.iter().map(|write| format!("{:?}", key_of(write))).collect();
        keys.sort();
        let before = keys.len();
        keys.dedup();
        assert_eq!(keys.len(), before, "DynamoDB takes no item twice in one transaction: {keys:?}");
        assert!(before <= 100, "DynamoDB takes at most 100 writes");
        if self.faults.strikes() {
            if self.faults.happened {
                self.store.transact(writes).await?;
            }
            return Err(StoreError::Corrupt("the process died here".to_owned()));
        }
        let told = told(&writes);
        self.store.transact(writes).await?;
        self.told.lock().unwrap().extend(told);
        Ok(())
    }
}

fn key_of(write: &Write) -> Key {
    match write {
        Write::Put(item) => item.key.clone(),
        Write::Delete(key, _) | Write::Check(key, _) => key.clone(),
        Write::Event(event) => Key::new(format!("audit {}", event.chain), event.seq.to_string()),
    }
}

#[async_trait]
impl Objects for World {
    async fn head(&self, key: &str) -> Result<Option<(u64, Option<Digest>)>, ObjectError> {
        self.objects.head(key).await
    }
    async fn get(&self, key: &str, version: Option<&str>, limit: u64) -> Result<Option<Object>, ObjectError> {
        Objects::get(&self.objects, key, version, limit).await
    }
    async fn put_new(&self, key: &str, bytes: Vec<u8>) -> Result<PutOutcome, ObjectError> {
        if self.faults.strikes() {
            if self.faults.happened {
                self.objects.put_new(key, bytes).await?;
            }
            return Err(ObjectError::Unavailable { key: key.to_owned(), error: "the process died here".to_owned() });
        }
        self.objects.put_new(key, bytes).await
    }
}

#[async_trait]
impl Signer for World {
    async fn sign(&self, digest: &Digest) -> Result<Signature, WorkflowError> {
        Ok(Signature { key_id: "k".into(), algorithm: SignatureAlgorithm::EcdsaSha256, signature: digest.hex() })
    }
}

impl World {
    /// A gate with one workspace, and `ana`, who proposes, `bob` and `cleo`, who approve, and `dora`, a stranger.
    pub(crate) async fn new() -> Self {
        Self::with(|_| {}).await
    }

    /// The spec of a workspace of that id and name, with a state, a bucket and roles of its own.
    pub(crate) fn spec(id: &str, name: &str, sealed: &str) -> serde_json::Value {
        json!({
            "name": name, "engine": { "name": "opentofu", "version": "1.11.6" },
            "state": { "bucket": sealed, "key": "state/terraform.tfstate", "region": "eu-central-1" },
            "plan_role": format!("arn:aws:iam::111122223333:role/plangate/plan/{id}-plan"),
            "apply_role": format!("arn:aws:iam::111122223333:role/plangate/apply/{id}-apply"),
            "sealed_bucket": sealed, "sealed_key": "arn:aws:kms:eu-central-1:111122223333:key/1", "policy": "default",
        })
    }

    /// The same, with the workspace's spec changed.
    pub(crate) async fn with(change: impl FnOnce(&mut serde_json::Value)) -> Self {
        let world = Self {
            store: MemoryStore::default(),
            objects: MemoryObjects::default(),
            workflow: MemoryWorkflow::default(),
            tasks: MemoryTasks::default(),
            workspace: WorkspaceId::new([5; 10]),
            faults: Faults::default(),
            states: Mutex::default(),
            told: Mutex::default(),
        };
        let id = world.workspace.to_string();
        world.put(DocumentKind::Policy, "default", json!({ "schema": "plangate.policy.v1" })).await;
        let mut spec = Self::spec(&id, "payments", "sealed");
        change(&mut spec);
        world.put(DocumentKind::Workspace, &id, spec).await;
        for (person, actions) in [
            ("ana", json!(["read", "propose"])),
            ("bob", json!(["read", "approve"])),
            ("cleo", json!(["read", "approve"])),
        ] {
            let iam = json!([{ "account": "111122223333", "role": person }]);
            world.put(DocumentKind::Principal, person, json!({ "person": person, "iam": iam })).await;
            let grant = json!({ "person": person, "workspaces": [id], "actions": actions });
            world.put(DocumentKind::Grant, person, grant).await;
        }
        world
    }

    pub(crate) async fn put(&self, kind: DocumentKind, id: &str, spec: serde_json::Value) {
        let etag = crate::documents::get(self, kind, id).await.unwrap().map(|document| document.etag);
        let request_id = format!("put-{}-{id}-{}", kind.as_str(), etag.as_deref().unwrap_or("new")).parse().unwrap();
        let (namespace, owner) = ("default".to_owned(), "platform".to_owned());
        let put = DocumentPut { etag, request_id, validate_only: false, namespace, owner, spec };
        crate::documents::put(self, kind, id, &put, &"administrator".parse().unwrap(), &administrator(), at(0))
            .await
            .unwrap();
    }

    pub(crate) async fn caller(&self, role: &str) -> Caller {
        let arn = format!("arn:aws:sts::111122223333:assumed-role/{role}/session");
        identify(self, &CallerIdentity::parse(&arn, None).unwrap(), ADMINISTRATOR).await.unwrap()
    }

    pub(crate) async fn propose(&self, kind: Kind, number: u8) -> RunId {
        self.try_propose(kind, number).await.unwrap().id
    }

    pub(crate) async fn try_propose(&self, kind: Kind, number: u8) -> Result<Run, Error> {
        self.try_propose_at(kind, number, at(1)).await
    }

    pub(crate) async fn try_propose_at(&self, kind: Kind, number: u8, now: Timestamp) -> Result<Run, Error> {
        let bundle = Digest::of(b"bundle");
        self.objects.replace(&bundle_key(&self.workspace, &bundle), b"bundle");
        let proposer = Proposer {
            person: "ana".parse().unwrap(),
            arn: "arn:aws:sts::111122223333:assumed-role/ana/session".into(),
            on_behalf_of: None,
        };
        let request = ProposeRequest {
            request_id: format!("request-{number}").parse().unwrap(),
            workspace: self.workspace.clone(),
            kind,
            bundle,
            origin: Default::default(),
            derived_from: None,
            on_behalf_of: None,
        };
        let id = RunId::new(now, [number; 10]);
        propose::propose(self, self, &self.workflow, BUCKET, &request, &proposer, id, now).await
    }

    pub(crate) async fn run(&self, run: &RunId) -> Run {
        RunRow::load(self, run).await.unwrap().run
    }

    pub(crate) async fn lock(&self) -> LockState {
        self.lock_of(&self.workspace).await
    }

    pub(crate) async fn lock_of(&self, workspace: &WorkspaceId) -> LockState {
        LockRow::load(self, workspace).await.unwrap().lock.lock
    }

    pub(crate) async fn line(&self) -> Vec<RunId> {
        self.line_of(&self.workspace).await
    }

    pub(crate) async fn line_of(&self, workspace: &WorkspaceId) -> Vec<RunId> {
        PlaceRow::line(self, workspace, 100).await.unwrap().into_iter().map(|place| place.run).collect()
    }

    pub(crate) async fn admit(&self, run: &RunId) -> Result<admit::Admission, Error> {
        admit::admit(self, self, &self.workflow, run, &format!("admit {run}"), at(2)).await
    }

    pub(crate) async fn prepare(&self, run: &RunId) -> Result<prepare::TaskParameters, Error> {
        prepare::prepare(self, self, run, at(3)).await
    }

    /// The workspace of a run.
    pub(crate) fn of(&self, run: &RunId) -> WorkspaceId {
        futures(RunRow::load(&self.store, run)).unwrap().run.workspace
    }

    fn order(&self, run: &RunId, phase: Phase) -> (WorkOrder, Digest) {
        let key = order_key(&self.of(run), run, phase);
        let bytes =
            futures(Objects::get(&self.objects, &key, None, 1 << 20)).unwrap().expect("the order is there").bytes;
        (WorkOrder::parse_untrusted(&bytes).unwrap(), Digest::of(&bytes))
    }

    /// The receipt of a phase, as the runner writes it, still without an outcome.
    pub(crate) fn receipt(&self, run: &RunId, phase: Phase) -> Receipt {
        let (order, digest) = self.order(run, phase);
        let workspace = self.of(run);
        let name = format!("{workspace}-{phase}");
        Receipt {
            schema: ReceiptSchema::V1,
            audience: ReceiptAudience::Gate,
            run: run.clone(),
            workspace,
            kind: order.kind,
            phase,
            attempt: 1,
            fence: order.fence,
            order: digest,
            roles: order.roles,
            caller: format!("arn:aws:sts::111122223333:assumed-role/{name}/task"),
            estate_caller: order
                .estate
                .as_ref()
                .map(|_| format!("arn:aws:sts::444455556666:assumed-role/{name}/{run}")),
            engine: order.engine,
            bundle: order.bundle.digest,
            isolation: Isolation::SeparateUser,
            state_lock: StateLockEvidence { locking: phase == Phase::Apply, orphan: None },
            started_at: at(4),
            finished_at: at(5),
            log: Some(StoredObject {
                bucket: BUCKET.into(),
                key: log_key(&self.of(run), run, phase),
                version_id: None,
                digest: Digest::of(b"a log"),
                bytes: 5,
            }),
            planned: None,
            applied: None,
            failure: None,
        }
    }

    pub(crate) fn write_receipt(&self, receipt: &Receipt) {
        let key = receipt_key(&self.of(&receipt.run), &receipt.run, receipt.phase);
        let bytes = serde_json::to_vec(receipt).unwrap();
        // The runner dies or not on its own account: its writes are not what is made to fail here.
        let _ = futures(Objects::put_new(&self.objects, &key, bytes)).unwrap();
    }

    /// The state of a workspace as it stands.
    pub(crate) fn state(&self, workspace: &WorkspaceId) -> StateIdentity {
        self.states.lock().unwrap().get(workspace).cloned().unwrap_or(StateIdentity::None)
    }

    /// Somebody writes a workspace's state: an engine, or a person around the gate. Gives what stands then.
    pub(crate) fn write_state(&self, workspace: &WorkspaceId, text: &str) -> StateIdentity {
        let mut states = self.states.lock().unwrap();
        let serial = match states.get(workspace) {
            Some(StateIdentity::Present { serial, .. }) => serial + 1,
            _ => 1,
        };
        let (version_id, digest) = (format!("{text}-{serial}"), Digest::of(text.as_bytes()));
        let state = StateIdentity::Present { lineage: "l".into(), serial, version_id, digest };
        states.insert(workspace.clone(), state.clone());
        state
    }

    /// What the runner does in the plan phase, with this document and exit code.
    pub(crate) fn runner_plans(&self, run: &RunId, document: &str, exit_code: PlanExit) {
        self.runner_has_planned(run, document, exit_code, self.state(&self.of(run)));
    }

    /// The same, of a state that it has read before.
    pub(crate) fn runner_has_planned(&self, run: &RunId, document: &str, exit_code: PlanExit, state: StateIdentity) {
        let (order, _) = self.order(run, Phase::Plan);
        let key = document_key(&order.workspace, run);
        let _ = futures(Objects::put_new(&self.objects, &key, document.as_bytes().to_vec())).unwrap();
        let object = |bucket: &str, key: String, bytes: &[u8]| StoredObject {
            bucket: bucket.into(),
            key,
            version_id: Some("0".into()),
            digest: Digest::of(bytes),
            bytes: bytes.len() as u64,
        };
        let mut receipt = self.receipt(run, Phase::Plan);
        receipt.planned = Some(Planned {
            exit_code,
            artifact: object(&order.sealed.bucket, artifact_key(run), b"artifact"),
            document: object(BUCKET, key, document.as_bytes()),
            plan_format: "1.2".into(),
            lock_file: LockFile::None,
            state,
        });
        self.write_receipt(&receipt);
    }

    /// The runner takes the claim; whether it was the first.
    pub(crate) fn runner_claims(&self, run: &RunId) -> bool {
        let (order, _) = self.order(run, Phase::Apply);
        let (workspace, fence) = (self.of(run), order.fence);
        let claim = Claim {
            schema: ClaimSchema::V1,
            run: run.clone(),
            workspace,
            holder: ClaimHolder::Runner,
            fence,
            at: at(8),
        };
        let bytes = serde_json::to_vec(&claim).unwrap();
        let put = futures(Objects::put_new(&self.objects, &claim_key(&self.of(run), run), bytes)).unwrap();
        matches!(put, PutOutcome::Written { .. })
    }

    pub(crate) fn applied(exit_code: i32) -> Applied {
        let state_after =
            StateIdentity::Present { lineage: "l".into(), serial: 1, version_id: "1".into(), digest: Digest::of(b"s") };
        Applied { exit_code, state_before: StateIdentity::None, state_after, errored_state: None }
    }

    /// The engine applies, and saves the state.
    pub(crate) fn engine(&self, run: &RunId, exit_code: i32) -> Applied {
        let workspace = self.of(run);
        let state_before = self.state(&workspace);
        let state_after = self.write_state(&workspace, run.as_str());
        Applied { exit_code, state_before, state_after, errored_state: None }
    }

    /// The runner's first word after the engine has ended.
    pub(crate) fn runner_results(&self, run: &RunId, exit_code: i32) -> Applied {
        let applied = self.engine(run, exit_code);
        self.runner_tells(run, applied.clone());
        applied
    }

    pub(crate) fn runner_tells(&self, run: &RunId, applied: Applied) {
        let (order, digest) = self.order(run, Phase::Apply);
        let result = ApplyResult {
            schema: ResultSchema::V1,
            run: run.clone(),
            workspace: self.of(run),
            fence: order.fence,
            order: digest,
            applied,
            at: at(9),
        };
        let bytes = serde_json::to_vec(&result).unwrap();
        let _ = futures(Objects::put_new(&self.objects, &result_key(&self.of(run), run), bytes)).unwrap();
    }

    /// The runner's whole apply, if it gets the claim.
    pub(crate) fn runner_applies(&self, run: &RunId, exit_code: i32) {
        if self.runner_claims(run) {
            let applied = self.runner_results(run, exit_code);
            let mut receipt = self.receipt(run, Phase::Apply);
            receipt.applied = Some(applied);
            if exit_code != 0 {
                receipt.failure = Some(failure(FailureReason::ApplyErrored, "the engine failed"));
            }
            self.write_receipt(&receipt);
        }
    }

    pub(crate) async fn project(&self, run: &RunId) -> Result<project::Projected, Error> {
        project::project(self, self, run, at(6)).await
    }

    pub(crate) async fn guard(&self, run: &RunId) -> Result<guard::Guarded, Error> {
        guard::guard(self, self, &plangate_gate::guardrails::NoRuleEngine, run, at(6)).await
    }

    pub(crate) async fn review(&self, run: &RunId) -> Result<guard::Guarded, Error> {
        self.review_by(&Always, run).await
    }

    pub(crate) async fn review_by(
        &self,
        reviewers: &dyn review::Reviewers,
        run: &RunId,
    ) -> Result<guard::Guarded, Error> {
        review::review(self, self, reviewers, run, at(6)).await
    }

    pub(crate) async fn intake(&self, run: &RunId) -> Result<(), Error> {
        intake::intake(self, self, run, LONGEST_PLAN_EXPIRY, at(5)).await
    }

    pub(crate) async fn ask(&self, run: &RunId) -> Result<(), Error> {
        decide::request_approval(self, &self.workflow, run, &format!("ask {run}"), at(6)).await
    }

    /// Takes a fresh run, whose plan is `document`, to where guardrails have judged it.
    pub(crate) async fn to_judgement(&self, run: &RunId, document: &str) -> guard::Guarded {
        self.admit(run).await.unwrap();
        self.prepare(run).await.unwrap();
        self.runner_plans(run, document, PlanExit::Changes);
        self.intake(run).await.unwrap();
        self.project(run).await.unwrap();
        self.guard(run).await.unwrap()
    }

    /// Takes a fresh run to where a person is asked.
    pub(crate) async fn to_approval(&self, run: &RunId) {
        if self.run(run).await.status == plangate_gate::lifecycle::Status::Proposed {
            self.admit(run).await.unwrap();
        }
        self.prepare(run).await.unwrap();
        self.runner_plans(run, CREATES, PlanExit::Changes);
        self.intake(run).await.unwrap();
        self.project(run).await.unwrap();
        let guarded = self.guard(run).await.unwrap();
        if guarded.route == guard::Route::Review {
            self.review(run).await.unwrap();
        }
        self.ask(run).await.unwrap();
    }

    /// Takes a fresh run to where its apply is ordered.
    pub(crate) async fn to_applying(&self, run: &RunId) {
        self.to_approval(run).await;
        self.decide("bob", run, plangate_gate::run::Choice::Approve, at(7)).await.unwrap();
        self.authorize(run, at(7)).await.unwrap();
    }

    /// A run that is applied, from its proposal to its end.
    pub(crate) async fn applied_run(&self, number: u8) -> RunId {
        let run = self.propose(Kind::Applicable, number).await;
        self.to_applying(&run).await;
        self.runner_applies(&run, 0);
        assert_eq!(self.conclude(&run, None).await.unwrap().status, plangate_gate::lifecycle::Status::Applied);
        run
    }

    /// A plan-only run whose plan was ordered.
    pub(crate) async fn looking(&self, number: u8) -> RunId {
        let run = self.propose(Kind::PlanOnly, number).await;
        self.admit(&run).await.unwrap();
        self.prepare(&run).await.unwrap();
        run
    }

    /// Takes a run whose plan was ordered, and only that, to its end; what it plans is `document`, if that is something.
    pub(crate) async fn looks(&self, run: &RunId, document: Option<&str>) -> Run {
        let exit = if document.is_some() { PlanExit::Changes } else { PlanExit::NoChanges };
        self.runner_plans(run, document.unwrap_or(NOTHING), exit);
        self.ends_planned(run).await
    }

    /// The same, once its receipt is there.
    pub(crate) async fn ends_planned(&self, run: &RunId) -> Run {
        self.intake(run).await.unwrap();
        if self.project(run).await.unwrap() == project::Projected::Changes {
            self.guard(run).await.unwrap();
        }
        self.check_ended(run).await
    }

    pub(crate) async fn decide(
        &self,
        who: &str,
        run: &RunId,
        choice: plangate_gate::run::Choice,
        now: Timestamp,
    ) -> Result<(Run, plangate_gate::run::DecisionRecord), Error> {
        let projection = self.run(run).await.projection.map_or(Digest::of(b"nothing"), |p| p.object.digest);
        self.decide_on(who, run, choice, projection, now).await
    }

    pub(crate) async fn decide_on(
        &self,
        who: &str,
        run: &RunId,
        choice: plangate_gate::run::Choice,
        projection: Digest,
        now: Timestamp,
    ) -> Result<(Run, plangate_gate::run::DecisionRecord), Error> {
        let reason = Some("as agreed".to_owned());
        let request = DecisionRequest { decision: choice, projection, reason };
        let caller = self.caller(who).await;
        decide::decide(self, &self.workflow, &caller, run, &request, Surface::Api, now).await
    }

    pub(crate) async fn authorize(&self, run: &RunId, now: Timestamp) -> Result<prepare::TaskParameters, Error> {
        authorize(self, self, self, run, now).await
    }

    pub(crate) async fn conclude(&self, run: &RunId, error: Option<&str>) -> Result<Run, Error> {
        conclude(self, self, &self.workflow, &self.tasks, run, error, "conclude", at(10)).await
    }

    /// The events of a chain, which must be whole.
    pub(crate) async fn chain(&self, chain: Chain) -> Vec<What> {
        let stored = self.store.events(&chain, 1, 10_000).await.unwrap();
        audit::verify(&chain, stored.iter().map(|event| (event.bytes.as_str(), event.digest))).unwrap();
        let what = |event: &StoredEvent| serde_json::from_str::<AuditEvent>(&event.bytes).unwrap().what;
        stored.iter().map(what).collect()
    }

    /// What must hold whatever happened: one terminal status, told once; whole chains; nothing of the run left behind.
    pub(crate) async fn check_ended(&self, run: &RunId) -> Run {
        let record = self.check_record(run).await;
        let closes = |what: &&What| matches!(what, What::RunClosed { run: closed, .. } if closed == run);
        let ledger = self.chain(Chain::Workspace(record.workspace.clone())).await;
        assert_eq!(ledger.iter().filter(closes).count(), 1);
        assert!(!self.line_of(&record.workspace).await.contains(run));
        assert_ne!(self.lock_of(&record.workspace).await, LockState::Held { run: run.clone() });
        record
    }

    /// How often a metric was told of a run.
    pub(crate) fn counted(&self, metric: Metric, run: &RunId) -> usize {
        let told = self.told.lock().unwrap();
        told.iter().filter(|told| told.metric == metric && told.run.as_ref() == Some(run)).count()
    }

    /// The part of it that is the run's own.
    pub(crate) async fn check_record(&self, run: &RunId) -> Run {
        let record = self.run(run).await;
        assert!(record.status.is_terminal(), "{run} is {}", record.status);
        let ends = |whats: &[What]| whats.iter().filter(|what| matches!(what, What::RunEnded { .. })).count();
        assert_eq!(ends(&self.chain(Chain::Run(run.clone())).await), 1);
        // Counted once, by whoever ended it; not at all where he died of it.
        let counted = self.counted(Metric::RunsEnded, run);
        assert!(counted == 1 || (counted == 0 && self.faults.happened), "the end of {run} was counted {counted} times");
        let item = self.store.get(&crate::rows::run_key(run)).await.unwrap().unwrap();
        assert!(item.open.is_none() && !item.attributes.contains_key("token"));
        record
    }
}

/// Drives a future that never waits: the stores in memory answer at once.
pub(crate) fn futures<T>(future: impl Future<Output = T>) -> T {
    let mut future = std::pin::pin!(future);
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    match future.as_mut().poll(&mut context) {
        std::task::Poll::Ready(value) => value,
        std::task::Poll::Pending => panic!("a store in memory waited"),
    }
}
