//! A gate under load: many processes call its steps at once. Every call takes a moment, some wake-ups are lost, and whoever
//! watches sees each transaction as it happens and breaks off at the first that must not be.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Mutex;
use std::time::Duration;

use async_trait::async_trait;
use plangate_gate::audit::{Chain, What};
use plangate_gate::digest::Digest;
use plangate_gate::documents::DocumentKind;
use plangate_gate::guardrails::NoRuleEngine;
use plangate_gate::ids::{RunId, WorkspaceId};
use plangate_gate::lifecycle::Status;
use plangate_gate::order::{Phase, Signature};
use plangate_gate::receipt::PlanExit;
use plangate_gate::run::{Choice, Kind, Proposer, Run, Surface};
use plangate_gate::time::Timestamp;
use plangate_wire::{CancelRequest, DecisionRequest, ProposeRequest, Reason};
use serde_json::json;

use super::schedule::{clock, draw, pause, sleep, turn};
use super::world::{BUCKET, CREATES, World, at, futures};
use crate::authorize::{Signer, authorize};
use crate::conclude::conclude;
use crate::error::Error;
use crate::objects::{Object, ObjectError, Objects, PutOutcome, bundle_key};
use crate::store::{Item, Key, OpenPage, Store, StoreError, StoredEvent, Write};
use crate::sweep::sweep;
use crate::tasks::{TaskState, Tasks};
use crate::workflow::{Execution, Workflow, WorkflowError};
use crate::{admit, cancel, decide, guard, intake, prepare, project, propose, review};

/// What has been seen so far.
#[derive(Default)]
pub(crate) struct Seen {
    /// Where each run stands.
    pub(crate) runs: BTreeMap<RunId, Run>,
    /// Who holds each workspace's lock.
    pub(crate) holders: BTreeMap<WorkspaceId, RunId>,
    /// Who waits in each line.
    pub(crate) lines: BTreeMap<WorkspaceId, VecDeque<RunId>>,
    /// The last fence of each workspace.
    pub(crate) fences: BTreeMap<WorkspaceId, u64>,
    /// How often an engine was started for each run's apply.
    pub(crate) engines: BTreeMap<RunId, u32>,
    /// Whose engine runs now.
    running: BTreeSet<RunId>,
}

/// A gate, its workflow and its runners, with many at work.
pub(crate) struct Busy {
    pub(crate) world: World,
    pub(crate) seen: Mutex<Seen>,
    /// Of so many wake-ups one is lost; 0: none.
    pub(crate) loses_a_wake_up_of: u64,
    pub(crate) proposed: Mutex<u64>,
    pub(crate) started: Mutex<VecDeque<RunId>>,
    /// The tasks that run, and whether they were asked to stop.
    pub(crate) tasks: Mutex<BTreeMap<(RunId, &'static str), bool>>,
}

/// The time of the schedule's clock.
pub(crate) fn now() -> Timestamp {
    at(10 + u32::try_from(clock() / 1000).unwrap())
}

impl Busy {
    /// A gate of so many workspaces, in which everybody may do everything everywhere.
    pub(crate) fn new(workspaces: u16) -> Self {
        let world = futures(World::new());
        for number in 1..workspaces {
            let id = workspace(number).to_string();
            let spec = World::spec(&id, &format!("workspace-{number}"), &format!("sealed-{number}"));
            futures(world.put(DocumentKind::Workspace, &id, spec));
        }
        for (person, actions) in [("ana", json!(["read", "propose"])), ("bob", json!(["read", "approve"]))] {
            let grant = json!({ "person": person, "workspaces": ["*"], "actions": actions });
            futures(world.put(DocumentKind::Grant, &format!("{person}-everywhere"), grant));
        }
        Self {
            world,
            seen: Mutex::default(),
            loses_a_wake_up_of: 0,
            proposed: Mutex::default(),
            started: Mutex::default(),
            tasks: Mutex::default(),
        }
    }

    /// One more person who may approve.
    pub(crate) fn approver(&self, name: &str) {
        let iam = json!([{ "account": "111122223333", "role": name }]);
        futures(self.world.put(DocumentKind::Principal, name, json!({ "person": name, "iam": iam })));
        let grant = json!({ "person": name, "workspaces": ["*"], "actions": ["read", "approve"] });
        futures(self.world.put(DocumentKind::Grant, name, grant));
    }

    /// Its workspaces.
    pub(crate) fn workspace(&self, number: u16) -> WorkspaceId {
        if number == 0 { self.world.workspace.clone() } else { workspace(number) }
    }

    pub(crate) fn status(&self, run: &RunId) -> Option<Status> {
        self.seen.lock().unwrap().runs.get(run).map(|run| run.status)
    }

    pub(crate) fn ended(&self, run: &RunId) -> bool {
        self.status(run).is_some_and(Status::is_terminal)
    }

    /// How many have ended.
    pub(crate) fn ends(&self) -> usize {
        self.seen.lock().unwrap().runs.values().filter(|run| run.status.is_terminal()).count()
    }

    /// Waits until `condition` holds, looking again and again.
    pub(crate) async fn until(&self, condition: impl Fn() -> bool) {
        while !condition() {
            pause(20 + draw(60)).await;
        }
    }

    /// Takes in how everything stands that was not done under this watch.
    pub(crate) fn take_in(&self) {
        let mut seen = Seen::default();
        let runs = self.world.store.items().into_iter().filter(|item| item.key.pk.starts_with("RUN#"));
        for run in runs.map(|item| serde_json::from_str::<Run>(&item.body).unwrap()) {
            if run.kind == Kind::Applicable && run.status.holds_lock() {
                seen.holders.insert(run.workspace.clone(), run.id.clone());
            }
            let fence = seen.fences.entry(run.workspace.clone()).or_default();
            *fence = run.fence.max(*fence);
            seen.runs.insert(run.id.clone(), run);
        }
        let workspaces: Vec<WorkspaceId> = seen.fences.keys().cloned().collect();
        for workspace in workspaces {
            let line = futures(self.world.line_of(&workspace)).into();
            seen.lines.insert(workspace, line);
        }
        *self.seen.lock().unwrap() = seen;
    }

    /// Holds what a transaction has changed against what must always be so.
    fn watch(&self, writes: &[Write]) {
        let mut seen = self.seen.lock().unwrap();
        let run = |write: &Write| match write {
            Write::Put(item) if item.key.pk.starts_with("RUN#") => Some(serde_json::from_str(&item.body).unwrap()),
            _ => None,
        };
        let (ended, open): (Vec<Run>, Vec<Run>) =
            writes.iter().filter_map(run).partition(|run: &Run| run.status.is_terminal());
        // A transaction happens at once: who ends has made room for who follows.
        for run in ended.into_iter().chain(open) {
            seen.see(run);
        }
    }

    // -- what people do, with the patience of a client: `Unavailable` is asked again ---------------------------------

    /// Proposes; gives the run.
    pub(crate) async fn propose(&self, workspace: &WorkspaceId, kind: Kind) -> RunId {
        let number = {
            let mut proposed = self.proposed.lock().unwrap();
            *proposed += 1;
            *proposed
        };
        let bundle = Digest::of(b"bundle");
        self.world.objects.replace(&bundle_key(workspace, &bundle), b"bundle");
        let arn = "arn:aws:sts::111122223333:assumed-role/ana/session".into();
        let proposer = Proposer { person: "ana".parse().unwrap(), arn, on_behalf_of: None };
        let request = ProposeRequest {
            request_id: format!("request-{number}").parse().unwrap(),
            workspace: workspace.clone(),
            kind,
            bundle,
            origin: Default::default(),
            derived_from: None,
            on_behalf_of: None,
        };
        let mut noise = [0; 10];
        noise[..8].copy_from_slice(&number.to_be_bytes());
        loop {
            let id = RunId::new(now(), noise);
            match propose::propose(self, self, self, BUCKET, &request, &proposer, id, now()).await {
                Ok(run) => return run.id,
                Err(error) => self.again(&error).await,
            }
        }
    }

    /// Decides; gives the reason of a refusal, if it is one.
    pub(crate) async fn decide(&self, who: &str, run: &RunId, choice: Choice) -> Result<(), Reason> {
        let caller = self.world.caller(who).await;
        let projection = self.world.run(run).await.projection.map_or(Digest::of(b"nothing"), |p| p.object.digest);
        let request = DecisionRequest { decision: choice, projection, reason: Some("as agreed".to_owned()) };
        loop {
            match decide::decide(self, self, &caller, run, &request, Surface::Api, now()).await {
                Ok(_) => return Ok(()),
                Err(Error::Refused(refusal)) => return Err(refusal.reason),
                Err(error) => self.again(&error).await,
            }
        }
    }

    /// Withdraws; gives the reason of a refusal, if it is one.
    pub(crate) async fn cancel(&self, run: &RunId) -> Result<(), Reason> {
        let caller = self.world.caller("ana").await;
        loop {
            match cancel::cancel(self, self, &caller, run, &CancelRequest::default(), now()).await {
                Ok(_) => return Ok(()),
                Err(Error::Refused(refusal)) => return Err(refusal.reason),
                Err(error) => self.again(&error).await,
            }
        }
    }

    async fn again(&self, error: &Error) {
        assert_eq!(error.name(), "Unavailable", "{error}");
        pause(draw(1000)).await;
    }

    // -- what the gate's own processes do --------------------------------------------------------------------------

    /// The sweeper, by its schedule, until so many runs have ended.
    pub(crate) async fn sweeper(&self, ends: usize) {
        while self.ends() < ends {
            sleep(Duration::from_secs(30 + draw(120))).await;
            self.sweep().await;
        }
    }

    /// One sweep.
    pub(crate) async fn sweep(&self) {
        sweep(self, self, self, self, now()).await.unwrap();
    }

    /// Conclude, as the state machine calls it: again where it says that something has to be waited for.
    pub(crate) async fn conclude(&self, run: &RunId, error: Option<&str>) {
        while let Err(failed) = conclude(self, self, self, self, run, error, "conclude", now()).await {
            assert!(matches!(failed.name(), "Unavailable" | "StillRunning"), "{failed}");
            pause(1000 + draw(1000)).await;
        }
    }

    /// An execution: begins when one is started, and is that one.
    pub(crate) async fn any_execution(&self) {
        let run = loop {
            let next = self.started.lock().unwrap().pop_front();
            match next {
                Some(run) => break run,
                None => pause(20 + draw(60)).await,
            }
        };
        self.execution(&run).await;
    }

    /// The execution of a run, from its start, as `statemachine/run.asl.json` has it.
    pub(crate) async fn execution(&self, run: &RunId) {
        let outcome = self.states(run).await;
        if self.aborted(run) {
            return;
        }
        self.conclude(run, outcome.err()).await;
        let mut executions = self.world.workflow.executions.lock().unwrap();
        executions.insert(run.clone(), Execution::Ended);
    }

    fn aborted(&self, run: &RunId) -> bool {
        self.world.workflow.executions.lock().unwrap().get(run) == Some(&Execution::Ended)
    }

    /// Calls a step as the state machine does: again while AWS does not answer, six times.
    async fn step<T>(&self, run: &RunId, call: impl AsyncFn() -> Result<T, Error>) -> Result<T, &'static str> {
        for tried in 0.. {
            if self.aborted(run) {
                return Err("aborted");
            }
            match call().await {
                Ok(done) => return Ok(done),
                Err(error) if error.name() == "Unavailable" && tried < 6 => pause(draw(2000 << tried)).await,
                Err(error) => return Err(error.name()),
            }
        }
        Err("aborted")
    }

    async fn states(&self, run: &RunId) -> Result<(), &'static str> {
        loop {
            let (token, from) = self.token(run, "admit");
            self.step(run, async || admit::admit(self, self, self, run, &token, now()).await).await?;
            if !self.woken(run, &token, from, 3600).await {
                continue;
            }
            match self.step(run, async || prepare::prepare(self, self, run, now()).await).await {
                Err("NotAdmitted") => {}
                prepared => break drop(prepared?),
            }
        }
        self.plan_task(run).await;
        self.step(run, async || intake::intake(self, self, run, now()).await).await?;
        self.step(run, async || project::project(self, self, run, now()).await).await?;
        let engine = NoRuleEngine;
        let mut guarded = self.step(run, async || guard::guard(self, self, &engine, run, now()).await).await?;
        if guarded.route == guard::Route::Review {
            let reviewer = plangate_reviewer::AlwaysEscalate;
            guarded = self.step(run, async || review::review(self, self, &reviewer, run, now()).await).await?;
        }
        if guarded.route != guard::Route::Ask {
            return Ok(());
        }
        loop {
            let (token, from) = self.token(run, "ask");
            let ask = async || decide::request_approval(self, self, run, &token, now()).await;
            self.step(run, ask).await?;
            self.woken(run, &token, from, guarded.seconds_left.into()).await;
            match self.step(run, async || authorize(self, self, self, run, now()).await).await {
                Err("NotApproved") => {}
                authorized => break drop(authorized?),
            }
        }
        self.apply_task(run).await;
        Ok(())
    }

    /// A token of its own for each call, and how many wake-ups there have been before.
    fn token(&self, run: &RunId, state: &str) -> (String, usize) {
        (format!("{state} {run} {}", draw(1 << 40)), self.world.workflow.woken.lock().unwrap().len())
    }

    /// Waits until the token is completed, or its time is up; tells whether it was completed.
    async fn woken(&self, run: &RunId, token: &str, mut from: usize, seconds: u64) -> bool {
        let end = clock() + seconds * 1000;
        while clock() < end && !self.aborted(run) {
            {
                let woken = self.world.workflow.woken.lock().unwrap();
                if woken[from..].iter().any(|each| each == token) {
                    return true;
                }
                from = woken.len();
            }
            // As exact as a clock: who times out does so at the moment at which somebody may still decide.
            pause((end - clock()).min(20 + draw(60))).await;
        }
        false
    }

    /// A task begins.
    fn begins(&self, run: &RunId, phase: Phase) {
        self.tasks.lock().unwrap().insert((run.clone(), phase.as_str()), false);
    }

    /// A task ends.
    fn ends_task(&self, run: &RunId, phase: Phase) {
        self.tasks.lock().unwrap().remove(&(run.clone(), phase.as_str()));
    }

    /// Whether a task was asked to stop.
    fn asked(&self, run: &RunId, phase: Phase) -> bool {
        self.tasks.lock().unwrap()[&(run.clone(), phase.as_str())]
    }

    /// The plan's task: it may be stopped before it has left anything.
    pub(crate) async fn plan_task(&self, run: &RunId) {
        self.begins(run, Phase::Plan);
        pause(200 + draw(400)).await;
        if !self.asked(run, Phase::Plan) {
            self.world.runner_plans(run, CREATES, PlanExit::Changes);
        }
        self.ends_task(run, Phase::Plan);
    }

    /// The apply's task: it may be stopped at any point, and once it has the claim its engine runs.
    pub(crate) async fn apply_task(&self, run: &RunId) {
        self.begins(run, Phase::Apply);
        pause(100 + draw(200)).await;
        if !self.asked(run, Phase::Apply) && self.world.runner_claims(run) {
            self.engine(run).await;
        }
        self.ends_task(run, Phase::Apply);
    }

    /// The engine, and what the runner tells of it: nothing, if it was stopped before it had ended.
    async fn engine(&self, run: &RunId) {
        {
            let mut seen = self.seen.lock().unwrap();
            let record = &seen.runs[run];
            let decision = record.decision.as_ref().expect("an engine applies what somebody has decided on");
            assert_eq!(decision.choice, Choice::Approve);
            assert_eq!(Some(decision.projection), record.projection.as_ref().map(|made| made.object.digest));
            assert_eq!(seen.holders.get(&record.workspace), Some(run), "an engine applies under the lock");
            seen.running.insert(run.clone());
            *seen.engines.entry(run.clone()).or_default() += 1;
        }
        pause(draw(300)).await;
        let stopped = self.asked(run, Phase::Apply);
        self.seen.lock().unwrap().running.remove(run);
        if stopped {
            return;
        }
        self.world.runner_results(run, 0);
        pause(draw(20)).await;
        if !self.asked(run, Phase::Apply) {
            let mut receipt = self.world.receipt(run, Phase::Apply);
            receipt.applied = Some(World::applied(0));
            self.world.write_receipt(&receipt);
        }
    }

    /// What must hold once all have ended: each once, nobody holds a lock or waits, and what is said to be applied was.
    pub(crate) fn check_all_ended(&self) -> BTreeMap<&'static str, usize> {
        let mut counted = BTreeMap::new();
        let mut workspaces = BTreeMap::<WorkspaceId, BTreeSet<RunId>>::new();
        let runs: Vec<RunId> = self.seen.lock().unwrap().runs.keys().cloned().collect();
        for run in runs {
            let record = futures(self.world.check_record(&run));
            *counted.entry(record.status.as_str()).or_default() += 1;
            let engines = self.seen.lock().unwrap().engines.get(&run).copied().unwrap_or_default();
            assert_eq!(engines, u32::from(record.status == Status::Applied), "{run} is {}", record.status);
            workspaces.entry(record.workspace).or_default().insert(run);
        }
        for (workspace, runs) in &workspaces {
            let mut closed = BTreeSet::new();
            for what in futures(self.world.chain(Chain::Workspace(workspace.clone()))) {
                if let What::RunClosed { run, .. } = what {
                    assert!(closed.insert(run), "the ledger tells each end once");
                }
            }
            assert_eq!(&closed, runs);
            let lock = futures(crate::rows::LockRow::load(&self.world, workspace)).unwrap().lock;
            assert_eq!(lock.lock, plangate_gate::lock::LockState::Free);
            assert_eq!(Some(&lock.fence), self.seen.lock().unwrap().fences.get(workspace).or(Some(&0)));
            assert!(futures(self.world.line_of(workspace)).is_empty());
        }
        counted
    }
}

impl Seen {
    /// Takes in that a run is now so.
    fn see(&mut self, run: Run) {
        let before = self.runs.get(&run.id).map_or(Status::Proposed, |run| run.status);
        let (id, workspace, after) = (run.id.clone(), run.workspace.clone(), run.status);
        assert!(!before.is_terminal(), "{id} was `{before}` and is `{after}`: an end is never left");
        assert!(!(after.is_terminal() && self.running.contains(&id)), "{id} has ended, and its engine runs");
        if run.kind == Kind::Applicable {
            let line = self.lines.entry(workspace.clone()).or_default();
            match (before, after) {
                (Status::Proposed, Status::Queued) => line.push_back(id.clone()),
                (Status::Queued, after) if after.is_terminal() => line.retain(|each| *each != id),
                _ => {}
            }
            if !before.holds_lock() && after.holds_lock() {
                if before == Status::Queued {
                    assert_eq!(line.pop_front().as_ref(), Some(&id), "who came first is granted the lock first");
                } else {
                    assert!(line.is_empty(), "{id} has passed by those who wait in line");
                }
                let fence = self.fences.entry(workspace.clone()).or_default();
                *fence += 1;
                assert_eq!(run.fence, *fence, "each grant has the next fence");
                let other = self.holders.insert(workspace, id.clone());
                assert_eq!(other, None, "{id} was granted a lock that somebody holds");
            } else if before.holds_lock() && !after.holds_lock() {
                assert_eq!(self.holders.remove(&workspace).as_ref(), Some(&id));
            }
        }
        self.runs.insert(id, run);
    }
}

fn workspace(number: u16) -> WorkspaceId {
    let [high, low] = number.to_be_bytes();
    WorkspaceId::new([6, 6, 6, 6, 6, 6, 6, 6, high, low])
}

#[async_trait]
impl Store for Busy {
    async fn get(&self, key: &Key) -> Result<Option<Item>, StoreError> {
        turn().await;
        Store::get(&self.world, key).await
    }
    async fn partition(&self, pk: &str, prefix: &str, limit: usize) -> Result<Vec<Item>, StoreError> {
        turn().await;
        self.world.partition(pk, prefix, limit).await
    }
    async fn list(
        &self,
        list: &str,
        before: Option<&str>,
        newest: bool,
        limit: usize,
    ) -> Result<Vec<Item>, StoreError> {
        turn().await;
        self.world.list(list, before, newest, limit).await
    }
    async fn open(&self, page: Option<OpenPage>) -> Result<(Vec<Key>, Option<OpenPage>), StoreError> {
        turn().await;
        self.world.open(page).await
    }
    async fn transact(&self, writes: Vec<Write>) -> Result<(), StoreError> {
        turn().await;
        Store::transact(&self.world, writes.clone()).await?;
        self.watch(&writes);
        turn().await;
        Ok(())
    }
    async fn events(&self, chain: &Chain, from: u64, limit: usize) -> Result<Vec<StoredEvent>, StoreError> {
        turn().await;
        self.world.events(chain, from, limit).await
    }
}

#[async_trait]
impl Objects for Busy {
    async fn head(&self, key: &str) -> Result<Option<(u64, Option<Digest>)>, ObjectError> {
        turn().await;
        self.world.head(key).await
    }
    async fn get(&self, key: &str, version: Option<&str>, limit: u64) -> Result<Option<Object>, ObjectError> {
        turn().await;
        Objects::get(&self.world, key, version, limit).await
    }
    async fn put_new(&self, key: &str, bytes: Vec<u8>) -> Result<PutOutcome, ObjectError> {
        turn().await;
        self.world.put_new(key, bytes).await
    }
}

#[async_trait]
impl Workflow for Busy {
    async fn start(&self, kind: Kind, run: &RunId) -> Result<(), WorkflowError> {
        turn().await;
        let fresh = !self.world.workflow.executions.lock().unwrap().contains_key(run);
        if fresh {
            self.started.lock().unwrap().push_back(run.clone());
        }
        self.world.workflow.start(kind, run).await
    }
    async fn execution(&self, kind: Kind, run: &RunId) -> Result<Execution, WorkflowError> {
        turn().await;
        self.world.workflow.execution(kind, run).await
    }
    async fn stop(&self, kind: Kind, run: &RunId) -> Result<(), WorkflowError> {
        turn().await;
        self.world.workflow.stop(kind, run).await
    }
    async fn wake(&self, token: &str) -> Result<(), WorkflowError> {
        turn().await;
        if self.loses_a_wake_up_of > 0 && draw(self.loses_a_wake_up_of) == 0 {
            return Err(WorkflowError { call: "SendTaskSuccess", error: "lost".to_owned() });
        }
        self.world.workflow.wake(token).await
    }
}

#[async_trait]
impl Tasks for Busy {
    async fn stop(&self, run: &RunId, phase: Phase) -> Result<TaskState, WorkflowError> {
        turn().await;
        // Stopping takes a moment. A task that is listed may still do anything.
        Ok(match self.tasks.lock().unwrap().get_mut(&(run.clone(), phase.as_str())) {
            Some(asked) => {
                *asked = true;
                TaskState::Stopping
            }
            None => TaskState::Stopped,
        })
    }
}

#[async_trait]
impl Signer for Busy {
    async fn sign(&self, digest: &Digest) -> Result<Signature, WorkflowError> {
        turn().await;
        self.world.sign(digest).await
    }
}
