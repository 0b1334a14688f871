//! The items of the table as types: runs, locks, places in the line, ends of chains.

use plangate_gate::audit::{Chain, SealedEvent, What};
use plangate_gate::ids::{RunId, WorkspaceId};
use plangate_gate::lock::Lock;
use plangate_gate::run::{Actor, ChainHead, Run};
use plangate_gate::time::Timestamp;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::error::Error;
use crate::heads;
use crate::store::{Item, Key, Store, StoreError, StoredEvent, Write};

/// The key of a run.
#[must_use]
pub fn run_key(run: &RunId) -> Key {
    Key::new(format!("RUN#{run}"), "RUN")
}

/// The key of a run's one decision, by who took it: partitions of their own. IAM lets `api` and `slack` alone write those of people,
/// and `review` alone those that the gate took in nobody's stead, so that neither can take the other's.
#[must_use]
pub fn decision_key(run: &RunId, by: &Actor) -> Key {
    match by {
        Actor::Automatic => Key::new(format!("AUTO#{run}"), "DEC"),
        Actor::Person { .. } | Actor::Slack { .. } | Actor::Gate { .. } => Key::new(format!("DEC#{run}"), "DEC"),
    }
}

/// The key of a workspace's lock.
#[must_use]
pub fn lock_key(workspace: &WorkspaceId) -> Key {
    Key::new(format!("WS#{workspace}"), "LOCK")
}

/// The key of a place in a workspace's line.
#[must_use]
pub fn place_key(workspace: &WorkspaceId, place: u64) -> Key {
    Key::new(format!("WS#{workspace}"), format!("Q#{place:020}"))
}

/// The key of a chain's end.
pub(crate) fn head_key(chain: &Chain) -> Key {
    Key::new(format!("CHAIN#{chain}"), "HEAD")
}

/// The list of a workspace's runs.
#[must_use]
pub fn runs_list(workspace: &WorkspaceId) -> String {
    format!("RUNS#{workspace}")
}

/// Reads a body of ours. What does not follow its schema was not written by this code.
pub(crate) fn read<T: DeserializeOwned>(item: &Item) -> Result<T, StoreError> {
    serde_json::from_str(&item.body).map_err(|_| StoreError::Corrupt(format!("{}/{}", item.key.pk, item.key.sk)))
}

/// Writes a body of ours.
pub(crate) fn write<T: Serialize>(what: &'static str, value: &T) -> Result<String, Error> {
    serde_json::to_string(value).map_err(|error| Error::RecordInvalid { what, error: error.to_string() })
}

/// A run as it stands in the table.
#[derive(Debug, Clone)]
pub struct RunRow {
    /// The record.
    pub run: Run,
    /// How often it was written; 0: not yet.
    pub version: u64,
    /// The token with which its execution waits, if it waits.
    pub token: Option<String>,
    /// When the function was called that left the token.
    pub token_at: Option<Timestamp>,
}

impl RunRow {
    /// Reads a run.
    ///
    /// # Errors
    /// The table does not answer, there is no such run, or its record is damaged.
    pub async fn load(store: &dyn Store, run: &RunId) -> Result<Self, Error> {
        Self::find(store, run).await?.ok_or(Error::NoSuchRun)
    }

    /// Reads a run, if there is one.
    ///
    /// # Errors
    /// The table does not answer, or the record is damaged.
    pub async fn find(store: &dyn Store, run: &RunId) -> Result<Option<Self>, Error> {
        store.get(&run_key(run)).await?.as_ref().map(Self::from_item).transpose()
    }

    /// Reads a run from its item.
    ///
    /// # Errors
    /// Its record is damaged.
    pub fn from_item(item: &Item) -> Result<Self, Error> {
        let run: Run = read(item)?;
        let token_at = item.attributes.get("token_at").and_then(|at| at.parse().ok());
        Ok(Self { run, version: item.version, token: item.attributes.get("token").cloned(), token_at })
    }

    /// Leaves the token of a function that was called at `now`, if no later call has left another: one that the workflow
    /// gave up may still go on, and nobody waits with its token any more. Tells whether it did: not where it stands already.
    pub(crate) fn wait_with(&mut self, token: &str, now: Timestamp) -> bool {
        let later = self.token.is_some() && self.token_at.is_some_and(|at| at > now);
        if later || self.token.as_deref() == Some(token) {
            return false;
        }
        self.token = Some(token.to_owned());
        self.token_at = Some(now);
        true
    }

    /// The write that stores the run as it is now, if nobody wrote it since it was read.
    pub(crate) fn put(&self) -> Result<Write, Error> {
        let run = &self.run;
        let mut item = Item::new(run_key(&run.id), write("a run", run)?);
        item.version = self.version;
        item.lists = Some((runs_list(&run.workspace), run.id.to_string()));
        let shown = [
            ("status", run.status.to_string()),
            ("workspace", run.workspace.to_string()),
            ("kind", run.kind.to_string()),
        ];
        item.attributes.extend(shown.map(|(name, value)| (name.to_owned(), value)));
        if !run.status.is_terminal() {
            item.open = Some(("OPEN".to_owned(), run.updated_at.to_string()));
            if let Some(token) = &self.token {
                item.attributes.insert("token".to_owned(), token.clone());
                item.attributes.extend(self.token_at.iter().map(|at| ("token_at".to_owned(), at.to_string())));
            }
        }
        Ok(Write::Put(item))
    }
}

/// A lock as it stands in the table.
#[derive(Debug, Clone)]
pub struct LockRow {
    /// The lock.
    pub lock: Lock,
    /// How often it was written; 0: not yet.
    pub version: u64,
}

impl LockRow {
    /// Reads a workspace's lock; a fresh one if it never had a run.
    ///
    /// # Errors
    /// The table does not answer, or the lock is damaged.
    pub async fn load(store: &dyn Store, workspace: &WorkspaceId) -> Result<Self, Error> {
        match store.get(&lock_key(workspace)).await? {
            Some(item) => Ok(Self { lock: read(&item)?, version: item.version }),
            None => Ok(Self { lock: Lock::fresh(workspace.clone()), version: 0 }),
        }
    }

    /// The condition that nobody has written the lock since it was read.
    pub(crate) fn check(&self) -> Write {
        Write::Check(lock_key(&self.lock.workspace), self.version)
    }

    /// The write that stores the lock as it is now, if nobody wrote it since it was read.
    pub(crate) fn put(&self) -> Result<Write, Error> {
        let mut item = Item::new(lock_key(&self.lock.workspace), write("a lock", &self.lock)?);
        item.version = self.version;
        Ok(Write::Put(item))
    }
}

/// A place in the line as it stands in the table.
#[derive(Debug, Clone)]
pub struct PlaceRow {
    /// Its key.
    pub key: Key,
    /// Whose place it is.
    pub run: RunId,
    /// Its version.
    pub version: u64,
}

impl PlaceRow {
    /// Reads the line of a workspace from its head, at most `limit` places.
    ///
    /// # Errors
    /// The table does not answer, or a place is damaged.
    pub async fn line(store: &dyn Store, workspace: &WorkspaceId, limit: usize) -> Result<Vec<Self>, Error> {
        let items = store.partition(&format!("WS#{workspace}"), "Q#", limit).await?;
        let row = |item: &Item| Ok(Self { key: item.key.clone(), run: read(item)?, version: item.version });
        items.iter().map(row).collect()
    }

    /// The write that puts `run` into the line at `place`.
    pub(crate) fn append(workspace: &WorkspaceId, place: u64, run: &RunId) -> Result<Write, Error> {
        Ok(Write::Put(Item::new(place_key(workspace, place), write("a place in the line", run)?)))
    }
}

/// How many events of a chain are read at a time.
const PAGE: usize = 100;

/// Reads the events of a chain from its first to the one at `end`.
pub(crate) async fn events_until(store: &dyn Store, chain: &Chain, end: u64) -> Result<Vec<StoredEvent>, StoreError> {
    let mut found: Vec<StoredEvent> = Vec::new();
    loop {
        let from = found.last().map_or(1, |last| last.seq + 1);
        let left = usize::try_from((end + 1).saturating_sub(from)).unwrap_or(PAGE).min(PAGE);
        let page = if left == 0 { Vec::new() } else { store.events(chain, from, left).await? };
        if page.is_empty() {
            return Ok(found);
        }
        found.extend(page.into_iter().filter(|event| event.seq <= end));
    }
}

/// A chain of events that is being extended: its end as read, and the events to come.
#[derive(Debug)]
pub(crate) struct ChainRow {
    chain: Chain,
    head: Option<ChainHead>,
    version: u64,
    moved_at: Option<Timestamp>,
    events: Vec<SealedEvent>,
}

impl ChainRow {
    /// Reads where a chain ends.
    pub(crate) async fn load(store: &dyn Store, chain: Chain) -> Result<Self, Error> {
        let (head, version) = match store.get(&head_key(&chain)).await? {
            Some(item) => (Some(read(&item)?), item.version),
            None => (None, 0),
        };
        Ok(Self { chain, head, version, moved_at: None, events: Vec::new() })
    }

    /// A chain that is begun.
    pub(crate) const fn fresh(chain: Chain) -> Self {
        Self { chain, head: None, version: 0, moved_at: None, events: Vec::new() }
    }

    /// Adds an event.
    pub(crate) fn append(&mut self, at: Timestamp, actor: &Actor, what: What) -> Result<(), Error> {
        let event = SealedEvent::next(self.chain.clone(), self.head.as_ref(), at, actor.clone(), what)?;
        self.head = Some(event.head());
        self.moved_at = Some(at);
        self.events.push(event);
        Ok(())
    }

    /// Where the chain ends with all that was added.
    pub(crate) const fn head(&self) -> Option<&ChainHead> {
        self.head.as_ref()
    }

    /// The writes of all that was added: the events and the chain's new end.
    pub(crate) fn writes(self) -> Result<Vec<Write>, Error> {
        let mut writes: Vec<Write> = self.events.into_iter().map(Write::Event).collect();
        if let (Some(head), false) = (&self.head, writes.is_empty()) {
            let mut item = Item::new(head_key(&self.chain), write("the end of a chain", head)?);
            item.version = self.version;
            item.lists = self.moved_at.map(|at| heads::place(&self.chain, at));
            writes.push(Write::Put(item));
        }
        Ok(writes)
    }
}
