//! A store that is watched: what a function's lines say that they are about, and what is measured, follow from what is read
//! and recorded. No step of a run knows of it.
//!
//! Measurements come from transactions that the table has taken, and from whoever made them: so the end of a run is counted
//! once, however many tried to end it. Where a process dies in that moment, or the answer is lost, it is not counted: the
//! record is the authority, and numbers are for watching.

use std::collections::BTreeMap;

use async_trait::async_trait;
use plangate_gate::audit::{AuditEvent, Chain};
use plangate_gate::ids::RunId;
use plangate_gate::measure::{Measurement, measured};
use plangate_gate::run::Run;
use tracing::Span;

use crate::rows::{read, run_key};
use crate::store::{Item, Key, Over, Store, StoreError, Write};

/// The target of the events that carry a measurement, as JSON in the field `measurement`. Whoever takes in a process's
/// events brings them where numbers are kept.
pub const MEASURED: &str = "plangate::measured";

/// Tells a measurement.
pub fn tell(measurement: &Measurement) {
    if let Ok(text) = serde_json::to_string(measurement) {
        tracing::info!(target: MEASURED, measurement = text);
    }
}

/// A store, watched.
#[derive(Debug, Clone)]
pub struct Watched<S, T = fn(&Measurement)> {
    store: S,
    tell: T,
}

impl<S> Watched<S> {
    /// The store, whose measurements go where [`tell`] brings them.
    pub const fn new(store: S) -> Self {
        Self { store, tell }
    }
}

impl<S, T> Watched<S, T> {
    /// The store, whose measurements `tell` takes.
    pub const fn telling(store: S, tell: T) -> Self {
        Self { store, tell }
    }
}

/// Notes in the current span which run and which workspace it is about, if the item tells; what stands there already stays.
fn note(item: &Item) {
    let (span, key) = (Span::current(), &item.key);
    if let (Some(run), "RUN") = (key.pk.strip_prefix("RUN#"), key.sk.as_str()) {
        span.record("run", run);
        if let Some(workspace) = item.attributes.get("workspace") {
            span.record("workspace", workspace);
        }
    } else if let (Some(workspace), "LOCK") = (key.pk.strip_prefix("WS#"), key.sk.as_str()) {
        span.record("workspace", workspace);
    }
}

/// What a transaction tells once it has been taken.
pub(crate) fn told(writes: &[Write]) -> Vec<Measurement> {
    let mut runs: BTreeMap<RunId, Run> = BTreeMap::new();
    let mut events: Vec<AuditEvent> = Vec::new();
    for write in writes {
        match write {
            Write::Put(item) if item.key.sk == "RUN" => {
                let run = read::<Run>(item).ok().filter(|run| run_key(&run.id) == item.key);
                runs.extend(run.map(|run| (run.id.clone(), run)));
            }
            Write::Event(event) => events.extend(serde_json::from_str::<AuditEvent>(&event.bytes).ok()),
            Write::Put(_) | Write::Delete(..) | Write::Check(..) => {}
        }
    }
    let run_of = |event: &AuditEvent| match &event.chain {
        Chain::Run(id) => runs.get(id),
        Chain::Workspace(_) | Chain::Gate | Chain::Strangers => None,
    };
    events.iter().flat_map(|event| measured(event, run_of(event))).collect()
}

#[async_trait]
impl<S: Store, T: Fn(&Measurement) + Send + Sync> Over for Watched<S, T> {
    fn under(&self) -> &dyn Store {
        &self.store
    }

    async fn read(&self, key: &Key) -> Result<Option<Item>, StoreError> {
        let found = self.store.get(key).await?;
        found.iter().for_each(note);
        Ok(found)
    }

    async fn read_all(&self, keys: &[Key]) -> Result<Vec<Option<Item>>, StoreError> {
        let found = self.store.get_all(keys).await?;
        found.iter().flatten().for_each(note);
        Ok(found)
    }

    async fn write(&self, writes: Vec<Write>) -> Result<(), StoreError> {
        let written = writes.iter().filter_map(|write| if let Write::Put(item) = write { Some(item) } else { None });
        written.for_each(note);
        let told = told(&writes);
        self.store.transact(writes).await?;
        told.iter().for_each(&self.tell);
        Ok(())
    }
}
