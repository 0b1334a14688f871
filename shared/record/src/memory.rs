//! The stores in memory: the same conditions, for tests of the protocols without AWS.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use plangate_gate::audit::{Chain, SealedEvent};
use plangate_gate::digest::Digest;
use plangate_gate::ids::RunId;
use plangate_gate::order::Phase;
use plangate_gate::run::Kind;

use crate::objects::{Object, ObjectError, Objects, PutOutcome};
use crate::store::{Item, Key, OpenPage, Store, StoreError, StoredEvent, Write};
use crate::tasks::{TaskState, Tasks};
use crate::workflow::{Execution, Workflow, WorkflowError};

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The table in memory.
#[derive(Debug, Default)]
pub struct MemoryStore {
    items: Mutex<BTreeMap<Key, Item>>,
    events: Mutex<BTreeMap<(String, u64), SealedEvent>>,
}

impl MemoryStore {
    /// Every item, as it stands.
    pub fn items(&self) -> Vec<Item> {
        locked(&self.items).values().cloned().collect()
    }

    /// Every event, as it stands.
    pub fn all_events(&self) -> Vec<SealedEvent> {
        locked(&self.events).values().cloned().collect()
    }

    /// Writes over an event as somebody would who is not bound by the gate; `None` removes it.
    pub fn replace_event(&self, chain: &Chain, seq: u64, event: Option<SealedEvent>) {
        let mut events = locked(&self.events);
        match event {
            Some(event) => events.insert((chain.to_string(), seq), event),
            None => events.remove(&(chain.to_string(), seq)),
        };
    }
}

#[async_trait]
impl Store for MemoryStore {
    async fn get(&self, key: &Key) -> Result<Option<Item>, StoreError> {
        Ok(locked(&self.items).get(key).cloned())
    }

    async fn partition(&self, pk: &str, prefix: &str, limit: usize) -> Result<Vec<Item>, StoreError> {
        let found = |key: &Key| key.pk == pk && key.sk.starts_with(prefix);
        let items = locked(&self.items);
        let from = items.range(Key::new(pk, prefix)..).take_while(|(key, _)| found(key));
        Ok(from.take(limit).map(|(_, item)| item.clone()).collect())
    }

    async fn list(
        &self,
        list: &str,
        before: Option<&str>,
        newest_first: bool,
        limit: usize,
    ) -> Result<Vec<Item>, StoreError> {
        let mut found: Vec<(String, Item)> = locked(&self.items)
            .values()
            .filter_map(|item| match &item.lists {
                Some((pk, sk)) if pk == list => Some((sk.clone(), item.clone())),
                _ => None,
            })
            .collect();
        found.sort_by(|a, b| a.0.cmp(&b.0));
        if newest_first {
            found.reverse();
        }
        let beyond = |sk: &str| before.is_none_or(|b| if newest_first { sk < b } else { sk > b });
        Ok(found.into_iter().filter(|(sk, _)| beyond(sk)).take(limit).map(|(_, item)| item).collect())
    }

    async fn open(&self, page: Option<OpenPage>) -> Result<(Vec<Key>, Option<OpenPage>), StoreError> {
        /// Small, so that tests see more than one page.
        const PAGE: usize = 3;
        let items = locked(&self.items);
        let mut found: Vec<OpenPage> =
            items.values().filter_map(|item| Some((item.open.clone()?.1, item.key.clone()))).collect();
        found.sort();
        found.retain(|place| page.as_ref().is_none_or(|page| place > page));
        let more = found.len() > PAGE;
        found.truncate(PAGE);
        let next = found.last().filter(|_| more).cloned();
        Ok((found.into_iter().map(|(_, key)| key).collect(), next))
    }

    async fn transact(&self, writes: Vec<Write>) -> Result<(), StoreError> {
        let mut items = locked(&self.items);
        let mut events = locked(&self.events);
        let version = |items: &BTreeMap<Key, Item>, key: &Key| items.get(key).map_or(0, |item| item.version);
        for write in &writes {
            let holds = match write {
                Write::Put(item) => version(&items, &item.key) == item.version,
                Write::Delete(key, expected) | Write::Check(key, expected) => version(&items, key) == *expected,
                Write::Event(event) => !events.contains_key(&(event.chain.to_string(), event.seq)),
            };
            if !holds {
                return Err(StoreError::Conflict);
            }
        }
        for write in writes {
            match write {
                Write::Put(mut item) => {
                    item.version += 1;
                    items.insert(item.key.clone(), item);
                }
                Write::Delete(key, _) => {
                    items.remove(&key);
                }
                Write::Check(..) => {}
                Write::Event(event) => {
                    events.insert((event.chain.to_string(), event.seq), event);
                }
            }
        }
        Ok(())
    }

    async fn events(&self, chain: &Chain, from: u64, limit: usize) -> Result<Vec<StoredEvent>, StoreError> {
        let chain = chain.to_string();
        Ok(locked(&self.events)
            .range((chain.clone(), from)..)
            .take_while(|((name, _), _)| *name == chain)
            .take(limit)
            .map(|((_, seq), event)| StoredEvent { seq: *seq, bytes: event.bytes.clone(), digest: event.digest })
            .collect())
    }
}

/// The bucket in memory.
#[derive(Debug, Default)]
pub struct MemoryObjects {
    objects: Mutex<BTreeMap<String, Vec<Vec<u8>>>>,
}

impl MemoryObjects {
    /// Writes as somebody would who is not bound by the gate: a new version over whatever stands there.
    pub fn replace(&self, key: &str, bytes: &[u8]) {
        locked(&self.objects).entry(key.to_owned()).or_default().push(bytes.to_vec());
    }

    /// The keys that there are.
    pub fn keys(&self) -> Vec<String> {
        locked(&self.objects).keys().cloned().collect()
    }
}

#[async_trait]
impl Objects for MemoryObjects {
    async fn head(&self, key: &str) -> Result<Option<(u64, Option<Digest>)>, ObjectError> {
        let found = locked(&self.objects).get(key).and_then(|versions| versions.last()).cloned();
        Ok(found.map(|bytes| (bytes.len() as u64, Some(Digest::of(&bytes)))))
    }

    async fn get(&self, key: &str, version: Option<&str>, limit: u64) -> Result<Option<Object>, ObjectError> {
        let objects = locked(&self.objects);
        let Some(versions) = objects.get(key) else { return Ok(None) };
        let place = version.and_then(|text| text.parse().ok()).unwrap_or(versions.len().saturating_sub(1));
        let Some(bytes) = versions.get(place).cloned() else { return Ok(None) };
        if bytes.len() as u64 > limit {
            return Err(ObjectError::TooLarge { key: key.to_owned(), limit });
        }
        Ok(Some(Object { bytes, version_id: Some(place.to_string()) }))
    }

    async fn put_new(&self, key: &str, bytes: Vec<u8>) -> Result<PutOutcome, ObjectError> {
        let mut objects = locked(&self.objects);
        if objects.contains_key(key) {
            return Ok(PutOutcome::Exists);
        }
        objects.insert(key.to_owned(), vec![bytes]);
        Ok(PutOutcome::Written { version_id: Some("0".to_owned()) })
    }
}

/// The workflow in memory: remembers who was started, woken and stopped.
#[derive(Debug, Default)]
pub struct MemoryWorkflow {
    /// The executions, by run.
    pub executions: Mutex<BTreeMap<RunId, Execution>>,
    /// The tokens that were woken, in their order.
    pub woken: Mutex<Vec<String>>,
}

#[async_trait]
impl Workflow for MemoryWorkflow {
    async fn start(&self, _kind: Kind, run: &RunId) -> Result<(), WorkflowError> {
        locked(&self.executions).entry(run.clone()).or_insert(Execution::Running);
        Ok(())
    }

    async fn execution(&self, _kind: Kind, run: &RunId) -> Result<Execution, WorkflowError> {
        Ok(locked(&self.executions).get(run).copied().unwrap_or(Execution::Absent))
    }

    async fn stop(&self, _kind: Kind, run: &RunId) -> Result<(), WorkflowError> {
        locked(&self.executions).insert(run.clone(), Execution::Ended);
        Ok(())
    }

    async fn wake(&self, token: &str) -> Result<(), WorkflowError> {
        locked(&self.woken).push(token.to_owned());
        Ok(())
    }
}

/// The tasks in memory.
#[derive(Debug, Default)]
pub struct MemoryTasks {
    /// How each phase of each run stands.
    pub tasks: Mutex<BTreeMap<(RunId, &'static str), TaskState>>,
}

#[async_trait]
impl Tasks for MemoryTasks {
    async fn stop(&self, run: &RunId, phase: Phase) -> Result<TaskState, WorkflowError> {
        let mut tasks = locked(&self.tasks);
        let state = tasks.entry((run.clone(), phase.as_str())).or_insert(TaskState::Stopped);
        // Stopping takes a moment: who asks once more finds it stopped.
        Ok(std::mem::replace(state, TaskState::Stopped))
    }
}
