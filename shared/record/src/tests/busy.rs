//! A gate under load: many processes call its steps at once. Every call takes a moment, some wake-ups are lost, and whoever
//! watches sees each transaction as it happens and breaks off at the first that must not be.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Mutex;

use plangate_gate::audit::{Chain, What};
use plangate_gate::digest::Digest;
use plangate_gate::documents::DocumentKind;
use plangate_gate::ids::{RunId, WorkspaceId};
use plangate_gate::lifecycle::Status;
use plangate_gate::run::{Choice, Kind, Proposer, Run, Surface};
use plangate_gate::time::Timestamp;
use plangate_wire::{CancelRequest, DecisionRequest, ProposeRequest, Reason};
use serde_json::json;

use super::schedule::{clock, draw, pause};
use super::world::{BUCKET, World, at, futures};
use crate::error::Error;
use crate::objects::bundle_key;
use crate::store::Write;
use crate::{cancel, decide, propose};

mod execution;
mod seen;
mod stores;

use seen::Seen;

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

    /// Everything must have been made known: of each run exactly the statuses that it was seen to come to, in their order.
    pub(crate) fn check_all_announced(&self) {
        for (run, life) in &self.seen.lock().unwrap().lives {
            let told = futures(super::announce::told(&self.world, run));
            assert_eq!(&told.into_iter().map(|each| each.after).collect::<Vec<_>>(), life, "{run}");
        }
    }
}

fn workspace(number: u16) -> WorkspaceId {
    let [high, low] = number.to_be_bytes();
    WorkspaceId::new([6, 6, 6, 6, 6, 6, 6, 6, high, low])
}
