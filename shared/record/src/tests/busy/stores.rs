//! What the steps see of the world: every call takes a moment, in which others have their turn.

use async_trait::async_trait;
use plangate_gate::audit::Chain;
use plangate_gate::digest::Digest;
use plangate_gate::ids::RunId;
use plangate_gate::order::{Phase, Signature};
use plangate_gate::run::Kind;

use super::super::schedule::{draw, turn};
use super::Busy;
use crate::authorize::Signer;
use crate::objects::{Object, ObjectError, Objects, PutOutcome};
use crate::store::{Item, Key, OpenPage, Store, StoreError, StoredEvent, Write};
use crate::tasks::{TaskState, Tasks};
use crate::workflow::{Execution, Workflow, WorkflowError};

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
