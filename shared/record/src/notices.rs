//! What people were told of a run in a place outside: which message, and what it shows. One function at a time changes it,
//! so that a late change never takes the place of a newer one.

use plangate_gate::audit::{Chain, What};
use plangate_gate::digest::Digest;
use plangate_gate::ids::RunId;
use plangate_gate::run::{Actor, Surface};
use plangate_gate::time::Timestamp;
use serde::{Deserialize, Serialize};

use crate::attempt::Attempts;
use crate::error::Error;
use crate::rows::{self, ChainRow};
use crate::store::{Item, Key, Store, StoreError, Write};

/// A run's message in a place outside.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Notice {
    /// The place.
    pub channel: String,
    /// What names the message there, once it was posted.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub posted: Option<String>,
    /// What it shows, or what was given up on.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub shown: Option<Digest>,
    /// Since when the next change fails, if it does.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub failing_since: Option<Timestamp>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Stored {
    notice: Notice,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    held: Option<Hold>,
}

#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Hold {
    by: String,
    until: Timestamp,
}

/// What a message is about. A run has one message of each at most.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Topic {
    /// The run itself, from its approval to its end.
    Run,
    /// A change of the state that the run has noticed, and that is none of the gate's.
    Outside,
    /// What the run has found of drift.
    Drift,
}

/// The right to change a run's message, for a while. Only [`hold`] gives it.
#[derive(Debug)]
pub struct Held {
    run: RunId,
    topic: Topic,
    version: u64,
    /// The message as it was last left.
    pub notice: Notice,
}

impl Held {
    /// The run that the message is about.
    #[must_use]
    pub const fn run(&self) -> &RunId {
        &self.run
    }
}

fn key(run: &RunId, topic: Topic) -> Key {
    let sk = match topic {
        Topic::Run => "NOTICE",
        Topic::Outside => "OUTSIDE",
        Topic::Drift => "DRIFT",
    };
    Key::new(format!("NOTICE#{run}"), sk)
}

fn put(key: Key, stored: &Stored, version: u64) -> Result<Write, Error> {
    let mut item = Item::new(key, rows::write("a notice", stored)?);
    item.version = version;
    Ok(Write::Put(item))
}

/// What people were told of a run on a topic, if anything was.
///
/// # Errors
/// The table does not answer, or the notice is damaged.
pub async fn find(store: &dyn Store, run: &RunId, topic: Topic) -> Result<Option<Notice>, Error> {
    let Some(item) = store.get(&key(run, topic)).await? else { return Ok(None) };
    let stored: Stored = rows::read(&item)?;
    Ok(Some(stored.notice))
}

/// Takes hold of a run's message for `seconds`: longer than whoever takes it can live. `by` is another for each call;
/// `channel` is where a message goes that was never posted. Whoever holds it reads the run afterwards, and so never shows
/// an older state than the one before did.
///
/// # Errors
/// `Contended` while somebody else holds it. The table does not answer.
pub async fn hold(
    store: &dyn Store,
    run: &RunId,
    topic: Topic,
    channel: &str,
    by: &str,
    seconds: u32,
    now: Timestamp,
) -> Result<Held, Error> {
    let mut attempts = Attempts::new(by);
    loop {
        let item = store.get(&key(run, topic)).await?;
        let version = item.as_ref().map_or(0, |item| item.version);
        let stored: Option<Stored> = item.as_ref().map(rows::read).transpose()?;
        let (notice, held) = stored.map_or((None, None), |stored| (Some(stored.notice), stored.held));
        let fresh = || Notice { channel: channel.to_owned(), posted: None, shown: None, failing_since: None };
        let notice = notice.unwrap_or_else(fresh);
        if let Some(held) = held.filter(|held| held.until > now) {
            if held.by == by {
                // Ours, of an attempt whose answer was lost.
                return Ok(Held { run: run.clone(), topic, version, notice });
            }
            return Err(Error::Contended);
        }
        let hold = Hold { by: by.to_owned(), until: now.plus_seconds(seconds) };
        let stored = Stored { notice, held: Some(hold) };
        if attempts.settle(store.transact(vec![put(key(run, topic), &stored, version)?]).await).await?.is_some() {
            return Ok(Held { run: run.clone(), topic, version: version + 1, notice: stored.notice });
        }
    }
}

/// Leaves a run's message as it is now. A `problem` for which people could not be told is recorded in the run's chain, in
/// the same transaction.
///
/// # Errors
/// `Contended` if somebody else has taken hold of it since. The table does not answer.
pub async fn leave(store: &dyn Store, held: Held, problem: Option<&str>, now: Timestamp) -> Result<(), Error> {
    let Held { run, topic, version, notice } = held;
    let stored = Stored { notice, held: None };
    let written = rows::write("a notice", &stored)?;
    let mut attempts = Attempts::new(run.as_str());
    loop {
        let mut writes = vec![put(key(&run, topic), &stored, version)?];
        if let Some(problem) = problem {
            let mut chain = ChainRow::load(store, Chain::Run(run.clone())).await?;
            let what = What::NotificationFailed { surface: Surface::Slack, problem: problem.to_owned() };
            chain.append(now, &Actor::gate("notify"), what)?;
            writes.extend(chain.writes()?);
        }
        let outcome = store.transact(writes).await;
        if matches!(outcome, Err(StoreError::Conflict | StoreError::Unavailable(_))) {
            let found = store.get(&key(&run, topic)).await?;
            match found {
                Some(item) if item.version == version + 1 && item.body == written => return Ok(()),
                Some(item) if item.version != version => return Err(Error::Contended),
                _ => {}
            }
        }
        if attempts.settle(outcome).await?.is_some() {
            return Ok(());
        }
    }
}

/// Records in a run's chain that somebody could not be told something.
///
/// # Errors
/// The table does not answer.
pub async fn untold(store: &dyn Store, run: &RunId, problem: &str, now: Timestamp) -> Result<(), Error> {
    let mut attempts = Attempts::new(run.as_str());
    loop {
        let mut chain = ChainRow::load(store, Chain::Run(run.clone())).await?;
        if chain.head().is_none() {
            // A word about a run that there is not.
            return Ok(());
        }
        let what = What::NotificationFailed { surface: Surface::Slack, problem: problem.to_owned() };
        chain.append(now, &Actor::gate("notify"), what)?;
        if attempts.settle(store.transact(chain.writes()?).await).await?.is_some() {
            return Ok(());
        }
    }
}
