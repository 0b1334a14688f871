//! Reading ahead: what a step is going to read anyway, in one call of the table instead of one for each item.
//!
//! For what the step's write holds by its version, and for what never changes once it is written, and for nothing else: an item may
//! be read here a little before the step looks at it, and what was written meanwhile is refused by the write. A freeze is therefore never read
//! ahead of the lock: it has to be read after it (`freeze.rs`).

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use async_trait::async_trait;
use plangate_gate::audit::Chain;
use plangate_gate::ids::RunId;

use crate::rows::{head_key, run_key};
use crate::store::{Item, Key, Over, Store, StoreError, Write};

/// A table of which some items were read already. Each is given out once: whoever asks again reads it anew.
pub(crate) struct Ahead<'a> {
    store: &'a dyn Store,
    read: Mutex<BTreeMap<Key, Option<Item>>>,
}

impl<'a> Ahead<'a> {
    /// Reads these.
    pub(crate) async fn of(store: &'a dyn Store, keys: &[Key]) -> Result<Self, StoreError> {
        let ahead = Self { store, read: Mutex::default() };
        ahead.also(keys).await?;
        Ok(ahead)
    }

    /// Reads a run and the end of its chain: what every step begins with.
    pub(crate) async fn of_run(store: &'a dyn Store, run: &RunId) -> Result<Self, StoreError> {
        Self::of(store, &[run_key(run), head_key(&Chain::Run(run.clone()))]).await
    }

    /// Reads more.
    pub(crate) async fn also(&self, keys: &[Key]) -> Result<(), StoreError> {
        let items = self.store.get_all(keys).await?;
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
        let mut item = store.get(&KEY()).await.unwrap().unwrap();
        item.body = "2".to_owned();
        ahead.transact(vec![Write::Put(item)]).await.unwrap();
        assert_eq!(ahead.get(&KEY()).await.unwrap().unwrap().body, "2");
    }
}
