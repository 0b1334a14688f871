//! The table: versioned items, conditional writes, one transaction at a time, and the append-only audit events.

use std::collections::BTreeMap;

use async_trait::async_trait;
use plangate_gate::audit::{Chain, SealedEvent};
use plangate_gate::digest::Digest;

/// The key of an item.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    /// The partition key.
    pub pk: String,
    /// The sort key.
    pub sk: String,
}

impl Key {
    /// A key from its two parts.
    pub fn new(pk: impl Into<String>, sk: impl Into<String>) -> Self {
        Self { pk: pk.into(), sk: sk.into() }
    }
}

/// An item. Its meaning is the body's, strict JSON; the rest finds it again and shows it to people.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Item {
    /// Its key.
    pub key: Key,
    /// How often it was written.
    pub version: u64,
    /// What it says.
    pub body: String,
    /// Further text attributes: for people, and the task token, which is in no body.
    pub attributes: BTreeMap<String, String>,
    /// Its place in the listing index.
    pub lists: Option<(String, String)>,
    /// Its place in the sparse index of open runs.
    pub open: Option<(String, String)>,
    /// When DynamoDB may drop it, in seconds since 1970.
    pub ttl: Option<i64>,
}

impl Item {
    /// An item with a key and a body and nothing else; not yet written.
    pub fn new(key: Key, body: String) -> Self {
        Self { key, version: 0, body, attributes: BTreeMap::new(), lists: None, open: None, ttl: None }
    }
}

/// One write of a transaction. A transaction happens whole or not at all, and holds no item twice.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Write {
    /// Writes an item whose stored version is still `item.version` (0: that is not there yet), as the next version.
    Put(Item),
    /// Removes an item whose version is still this.
    Delete(Key, u64),
    /// Requires that an item's version is still this; 0: that it is not there.
    Check(Key, u64),
    /// Appends an event, whose place must be empty.
    Event(SealedEvent),
}

/// Why the table did not do what it was asked.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    /// Something that the transaction relied on has changed. Nothing was written: read again.
    #[error("something changed meanwhile")]
    Conflict,
    /// AWS did not answer, or its answer was lost: the transaction may or may not have happened. Read again.
    #[error("the table cannot be reached: {0}")]
    Unavailable(String),
    /// What stands in the table is not what this code writes.
    #[error("the item `{0}` is not what it must be")]
    Corrupt(String),
}

/// Where a page of the index of open runs begins: behind this place and key.
pub type OpenPage = (String, Key);

/// An event as it is stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredEvent {
    /// Its place in the chain.
    pub seq: u64,
    /// Its exact bytes.
    pub bytes: String,
    /// The digest that was recorded with it.
    pub digest: Digest,
}

/// The table of the gate and its audit table.
#[async_trait]
pub trait Store: Send + Sync {
    /// Reads one item, consistently.
    async fn get(&self, key: &Key) -> Result<Option<Item>, StoreError>;

    /// Reads several items, each consistently, but not all at one moment; in the order of `keys`, of which none may stand there
    /// twice and which are at most a hundred.
    async fn get_all(&self, keys: &[Key]) -> Result<Vec<Option<Item>>, StoreError> {
        let mut items = Vec::with_capacity(keys.len());
        for key in keys {
            items.push(self.get(key).await?);
        }
        Ok(items)
    }

    /// Reads the items of a partition whose sort keys begin with `prefix`, in their order, at most `limit`, consistently.
    async fn partition(&self, pk: &str, prefix: &str, limit: usize) -> Result<Vec<Item>, StoreError>;

    /// Reads a list from the listing index: descending from below `before` if `newest_first`, else ascending from above
    /// it; at most `limit`. May lag a little behind.
    async fn list(
        &self,
        list: &str,
        before: Option<&str>,
        newest_first: bool,
        limit: usize,
    ) -> Result<Vec<Item>, StoreError>;

    /// Reads a page of the index of open runs, oldest change first, from `page` on, and where the next page begins: no
    /// next page, and only that, means that this was the last. May lag a little behind.
    async fn open(&self, page: Option<OpenPage>) -> Result<(Vec<Key>, Option<OpenPage>), StoreError>;

    /// Does all of `writes`, or none.
    async fn transact(&self, writes: Vec<Write>) -> Result<(), StoreError>;

    /// Reads a chain's events from place `from` on, at most `limit`, consistently.
    async fn events(&self, chain: &Chain, from: u64, limit: usize) -> Result<Vec<StoredEvent>, StoreError>;
}

/// A table over another: it sees what passes, and does itself what differs. The rest the other does.
#[async_trait]
pub trait Over: Send + Sync {
    /// The other.
    fn under(&self) -> &dyn Store;

    /// What [`Store::get`] does.
    async fn read(&self, key: &Key) -> Result<Option<Item>, StoreError> {
        self.under().get(key).await
    }

    /// What [`Store::get_all`] does.
    async fn read_all(&self, keys: &[Key]) -> Result<Vec<Option<Item>>, StoreError> {
        self.under().get_all(keys).await
    }

    /// What [`Store::transact`] does.
    async fn write(&self, writes: Vec<Write>) -> Result<(), StoreError> {
        self.under().transact(writes).await
    }
}

#[async_trait]
impl<O: Over> Store for O {
    async fn get(&self, key: &Key) -> Result<Option<Item>, StoreError> {
        self.read(key).await
    }

    async fn get_all(&self, keys: &[Key]) -> Result<Vec<Option<Item>>, StoreError> {
        self.read_all(keys).await
    }

    async fn partition(&self, pk: &str, prefix: &str, limit: usize) -> Result<Vec<Item>, StoreError> {
        self.under().partition(pk, prefix, limit).await
    }

    async fn list(
        &self,
        list: &str,
        before: Option<&str>,
        newest_first: bool,
        limit: usize,
    ) -> Result<Vec<Item>, StoreError> {
        self.under().list(list, before, newest_first, limit).await
    }

    async fn open(&self, page: Option<OpenPage>) -> Result<(Vec<Key>, Option<OpenPage>), StoreError> {
        self.under().open(page).await
    }

    async fn transact(&self, writes: Vec<Write>) -> Result<(), StoreError> {
        self.write(writes).await
    }

    async fn events(&self, chain: &Chain, from: u64, limit: usize) -> Result<Vec<StoredEvent>, StoreError> {
        self.under().events(chain, from, limit).await
    }
}
