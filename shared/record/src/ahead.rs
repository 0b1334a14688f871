//! Reading ahead: what a step or a request is going to read anyway, in one call of the table instead of one for each item.
//!
//! For what the step's write holds by its version, for what never changes once it is written, and for who only looks, and for nothing else:
//! an item may be read here a little before the step looks at it, and what was written meanwhile is refused by the write. A freeze is therefore
//! never read ahead of the lock by who writes: it has to be read after it (`freeze.rs`).

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use async_trait::async_trait;
use plangate_gate::audit::Chain;
use plangate_gate::documents::DocumentKind;
use plangate_gate::ids::{RunId, WorkspaceId};

use crate::freeze::gate_key;
use crate::known::known_key;
use crate::rows::{head_key, lock_key, run_key};
use crate::store::{Item, Key, Over, Store, StoreError, Write};
use crate::{documents, drift};

/// A run and the end of its chain: what every change of it begins with.
#[must_use]
pub fn of_run(run: &RunId) -> Vec<Key> {
    vec![run_key(run), head_key(&Chain::Run(run.clone()))]
}

/// A workspace and how it stands, for who only looks: its freeze is read with its lock.
#[must_use]
pub fn of_workspace(workspace: &WorkspaceId) -> Vec<Key> {
    let document = documents::key(DocumentKind::Workspace, workspace.as_str());
    let [look, drift] = drift::keys(workspace);
    vec![document, lock_key(workspace), known_key(workspace), gate_key(), look, drift]
}

/// A table of which some items were read already. Each is given out once: whoever asks again reads it anew.
pub struct Ahead<'a> {
    store: &'a dyn Store,
    read: Mutex<BTreeMap<Key, Option<Item>>>,
}

impl<'a> Ahead<'a> {
    /// Reads these, of which none stands there twice.
    ///
    /// # Errors
    /// The table does not answer, or what stands there is damaged.
    pub async fn of(store: &'a dyn Store, keys: &[Key]) -> Result<Self, StoreError> {
        let ahead = Self { store, read: Mutex::default() };
        ahead.also(keys).await?;
        Ok(ahead)
    }

    /// Reads a run and the end of its chain: what every step begins with.
    pub(crate) async fn of_run(store: &'a dyn Store, run: &RunId) -> Result<Self, StoreError> {
        Self::of(store, &of_run(run)).await
    }

    /// Reads more.
    pub(crate) async fn also(&self, keys: &[Key]) -> Result<(), StoreError> {
        let items = if keys.is_empty() { Vec::new() } else { self.store.get_all(keys).await? };
        self.held().extend(keys.iter().cloned().zip(items));
        Ok(())
    }

    fn held(&self) -> std::sync::MutexGuard<'_, BTreeMap<Key, Option<Item>>> {
        self.read.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl Over for Ahead<'_> {
    fn under(&self) -> &dyn Store {
        self.store
    }

    async fn read(&self, key: &Key) -> Result<Option<Item>, StoreError> {
        let held = self.held().remove(key);
        match held {
            Some(item) => Ok(item),
            None => self.store.get(key).await,
        }
    }

    async fn read_all(&self, keys: &[Key]) -> Result<Vec<Option<Item>>, StoreError> {
        let held: Vec<_> = keys.iter().map(|key| self.held().remove(key)).collect();
        let missing: Vec<Key> =
            keys.iter().zip(&held).filter(|(_, held)| held.is_none()).map(|(key, _)| key.clone()).collect();
        let read = if missing.is_empty() { Vec::new() } else { self.store.get_all(&missing).await? };
        let mut read = read.into_iter();
        Ok(held.into_iter().map(|item| item.or_else(|| read.next()).flatten()).collect())
    }

    async fn write(&self, writes: Vec<Write>) -> Result<(), StoreError> {
        // What was read before a write, whoever's, is no longer what stands there.
        self.held().clear();
        self.store.transact(writes).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::MemoryStore;

    const KEY: fn() -> Key = || Key::new("RUN#run-0123456789abcdefghjkmnpqrs", "RUN");

    const OTHER: fn() -> Key = || Key::new("OTHER", "RUN");

    fn run() -> RunId {
        "run-0123456789abcdefghjkmnpqrs".parse().unwrap()
    }

    #[tokio::test]
    async fn what_was_read_ahead_is_given_out_once_and_after_a_write_not_at_all() {
        let store = MemoryStore::default();
        let ahead = Ahead::of_run(&store, &run()).await.unwrap();
        store.transact(vec![Write::Put(Item::new(KEY(), "1".to_owned()))]).await.unwrap();
        assert_eq!(ahead.get(&KEY()).await.unwrap(), None, "as it was read");
        assert!(ahead.get(&KEY()).await.unwrap().is_some(), "read anew");

        let ahead = Ahead::of_run(&store, &run()).await.unwrap();
        store.transact(vec![Write::Put(Item::new(OTHER(), "1".to_owned()))]).await.unwrap();
        let all = ahead.get_all(&[OTHER(), KEY()]).await.unwrap();
        assert!(all.iter().all(Option::is_some), "one was held, the other not");

        let ahead = Ahead::of_run(&store, &run()).await.unwrap();
        let mut item = store.get(&KEY()).await.unwrap().unwrap();
        item.body = "2".to_owned();
        ahead.transact(vec![Write::Put(item)]).await.unwrap();
        assert_eq!(ahead.get(&KEY()).await.unwrap().unwrap().body, "2");
    }
}
