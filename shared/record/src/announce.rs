//! Telling others, on an event bus, how runs stand: what the audit's stream brings is made into announcements (`R54`).
//!
//! Each status change of a run has its event in the run's chain, whoever made it, so that none passes by here. Told at
//! least once: a change that the bus did not take is tried again, here and then by whoever called.

use std::collections::BTreeMap;
use std::time::Duration;

use async_trait::async_trait;
use plangate_gate::announce::{Announcement, Announcer};
use plangate_gate::audit::archive::parse_place;
use plangate_gate::audit::{AuditEvent, Chain, EVENT_LIMIT};
use plangate_gate::ids::RunId;
use plangate_gate::untrusted;

use crate::error::Error;
use crate::rows::{RunRow, events_until};
use crate::store::{Store, StoreError};
#[cfg(test)]
use crate::tests::schedule::sleep;
use crate::workflow::WorkflowError;
#[cfg(not(test))]
use tokio::time::sleep;

/// How many announcements a bus takes at once.
const AT_ONCE: usize = 10;
/// How often one that the bus did not take is given to it before the caller is told.
const TRIES: u32 = 4;

/// Whether an announcement was taken; else why not, as the bus's own code.
pub type Taken = Result<(), String>;

/// An event bus, as far as the gate uses it.
#[async_trait]
pub trait Bus: Send + Sync {
    /// Puts at most ten announcements on the bus, and says of each whether it was taken.
    async fn put(&self, announcements: &[&Announcement]) -> Result<Vec<Taken>, WorkflowError>;
}

/// An item that came into the audit table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Inserted {
    /// Its partition key: the chain.
    pub pk: String,
    /// Its sort key: the place.
    pub sk: String,
}

/// What came of it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Announced {
    /// How many announcements the bus has taken.
    pub told: u64,
    /// The first of the items that is to be brought again, with all behind it: it could not be told.
    pub again_from: Option<usize>,
}

/// Tells what `items` have changed, in their order. Those of other chains than runs' tell nothing here.
pub async fn announce(store: &dyn Store, bus: &dyn Bus, items: &[Inserted]) -> Announced {
    let mut announced = Announced::default();
    let mut told: Vec<(usize, Announcement)> = Vec::new();
    let mut chains: BTreeMap<RunId, BTreeMap<u64, Announcement>> = BTreeMap::new();
    for (place, item) in items.iter().enumerate() {
        let Some((run, seq)) = of_run(item) else { continue };
        if !chains.contains_key(&run) {
            // As far as the last of its events in this batch.
            let until = items.iter().filter_map(of_run).filter(|(other, _)| *other == run).map(|(_, seq)| seq).max();
            match changes(store, &run, until.unwrap_or(seq)).await {
                Ok(found) => drop(chains.insert(run.clone(), found)),
                Err(error) => {
                    tracing::warn!(%run, %error, "how the run stands was not read");
                    announced.again_from = Some(place);
                    break;
                }
            }
        }
        told.extend(chains.get_mut(&run).and_then(|found| found.remove(&seq)).map(|change| (place, change)));
    }
    for some in told.chunks(AT_ONCE) {
        let (taken, left) = put(bus, some).await;
        announced.told += taken;
        if let Some(first) = left {
            announced.again_from = Some(first);
            break;
        }
    }
    announced
}

/// The run and place of an item, if it is an event of a run's chain.
fn of_run(item: &Inserted) -> Option<(RunId, u64)> {
    match item.pk.parse() {
        Ok(Chain::Run(run)) => Some((run, parse_place(&item.sk)?)),
        _ => None,
    }
}

/// The status changes of a run, by the places of their events, as far as `until`.
async fn changes(store: &dyn Store, run: &RunId, until: u64) -> Result<BTreeMap<u64, Announcement>, Error> {
    let mut found = BTreeMap::new();
    let row = match RunRow::load(store, run).await {
        Ok(row) => row,
        // Not written by this code, so that nothing can be said of it; the sweeper and the archive look into that.
        Err(error @ (Error::NoSuchRun | Error::Store(StoreError::Corrupt(_)))) => {
            tracing::error!(%run, %error, "the run has no record that could be read: its changes are not announced");
            return Ok(found);
        }
        Err(error) => return Err(error),
    };
    let mut announcer = Announcer::new(&row.run);
    for stored in events_until(store, &Chain::Run(run.clone()), until).await? {
        match untrusted::parse::<AuditEvent>("audit event", stored.bytes.as_bytes(), EVENT_LIMIT) {
            Ok(event) => found.extend(announcer.next(&event, stored.digest).map(|change| (stored.seq, change))),
            Err(error) => tracing::error!(%run, place = stored.seq, %error, "an event cannot be read: passed over"),
        }
    }
    Ok(found)
}

/// Puts announcements on the bus until it has taken all, or will not: how many it took, and where the first stood that it did
/// not.
async fn put(bus: &dyn Bus, told: &[(usize, Announcement)]) -> (u64, Option<usize>) {
    let mut left: Vec<&(usize, Announcement)> = told.iter().collect();
    let mut taken = 0;
    for tried in 1..=TRIES {
        let outcome = bus.put(&left.iter().map(|(_, change)| change).collect::<Vec<_>>()).await;
        let answers = match outcome {
            Ok(answers) => answers,
            // The client has tried as often as it does. What it gave may have been taken: it is told again then.
            Err(error) => {
                tracing::warn!(%error, "the event bus did not answer");
                break;
            }
        };
        let before = left.len();
        let mut answers = answers.into_iter();
        left.retain(|(_, change)| match answers.next() {
            Some(Ok(())) => false,
            Some(Err(code)) => {
                tracing::warn!(run = %change.run, place = change.event.seq, code, "the event bus did not take it");
                true
            }
            None => true,
        });
        taken += (before - left.len()) as u64;
        if left.is_empty() {
            return (taken, None);
        }
        if tried < TRIES {
            sleep(Duration::from_millis(100 << tried)).await;
        }
    }
    (taken, left.first().map(|(place, _)| *place))
}
