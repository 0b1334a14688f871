//! Refusals of those who may not: a chain of their own, bounded an hour, so that noise neither floods the audit nor stands
//! in anybody's way. One try, no waiting: what cannot be written at once is counted.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use plangate_gate::audit::{Chain, What};
use plangate_gate::run::Actor;
use plangate_gate::time::Timestamp;
use serde::{Deserialize, Serialize};

use crate::error::Error;
use crate::rows::{self, ChainRow};
use crate::store::{Item, Key, Store, Write};

/// How long a window is, in seconds.
const WINDOW: i64 = 3600;
/// How many refusals of a window are recorded one by one.
const RECORDED: u64 = 50;
/// How long the record may keep a refusal waiting.
const PATIENCE: Duration = Duration::from_millis(500);
/// How many characters of what a stranger says are kept.
const LENGTH: usize = 200;

/// A refusal of somebody who may not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stranger<'a> {
    /// Which function refused.
    pub function: &'a str,
    /// The IAM identity of the request, if it had one.
    pub identity: Option<&'a str>,
    /// What was asked: a method and a path, or the name of a surface.
    pub asked: &'a str,
    /// The stable code of the refusal.
    pub reason: &'a str,
}

/// What a window has seen, as it stands in the table.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Window {
    /// Its number since 1970.
    window: i64,
    recorded: u64,
    left_out: u64,
}

/// What this process has counted and not written.
#[derive(Debug, Default)]
struct Counted {
    /// The window that is known to be full.
    full: i64,
    /// Refusals that are written nowhere yet.
    pending: u64,
    /// How many there must be before the count is written the next time.
    next: u64,
}

/// Keeps record of strangers. One a process.
#[derive(Debug, Default)]
pub struct Strangers(Mutex<Counted>);

impl Strangers {
    /// A record that has counted nothing.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    fn counted<T>(&self, act: impl FnOnce(&mut Counted) -> T) -> T {
        act(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Records a refusal, or counts it. Never fails and never keeps its caller for longer than half a second.
    pub async fn refused(&self, store: &dyn Store, stranger: &Stranger<'_>, now: Timestamp) {
        let window = now.unix_seconds() / WINDOW;
        // In a full window the table is asked less and less often: what is counted doubles from one time to the next.
        let asks = self.counted(|counted| {
            if counted.full == window && counted.pending + 1 < counted.next {
                counted.pending += 1;
                return false;
            }
            true
        });
        if !asks {
            return;
        }
        let pending = self.counted(|counted| std::mem::take(&mut counted.pending));
        let outcome = tokio::time::timeout(PATIENCE, write(store, stranger, pending, window, now)).await;
        match outcome {
            Ok(Ok(full)) => self.counted(|counted| {
                if full && counted.full != window {
                    counted.next = 1;
                }
                if full {
                    counted.full = window;
                    counted.next = counted.next.saturating_mul(2);
                }
            }),
            Ok(Err(error)) => {
                tracing::warn!(%error, "a refusal of a stranger was counted and not recorded");
                self.counted(|counted| counted.pending += pending + 1);
            }
            // Whether it was written is not known; counted twice is better than not at all.
            Err(_) => self.counted(|counted| counted.pending += pending + 1),
        }
    }
}

/// What a stranger says, made harmless: short, and of plain characters.
fn plain(text: &str) -> String {
    text.chars().map(|c| if c.is_ascii_graphic() { c } else { '?' }).take(LENGTH).collect()
}

/// One try to write a refusal, with what was counted before it; tells whether the window is full now.
async fn write(
    store: &dyn Store,
    stranger: &Stranger<'_>,
    pending: u64,
    window: i64,
    now: Timestamp,
) -> Result<bool, Error> {
    let key = Key::new(format!("CHAIN#{}", Chain::Strangers), "WINDOW");
    let item = store.get(&key).await?;
    let version = item.as_ref().map_or(0, |item| item.version);
    let mut seen: Window = item.as_ref().map(rows::read).transpose()?.unwrap_or_default();
    let mut writes = Vec::new();
    let actor = Actor::gate(stranger.function);
    seen.left_out += pending;
    if seen.window < window || seen.recorded < RECORDED {
        let mut chain = ChainRow::load(store, Chain::Strangers).await?;
        if seen.window < window {
            // Of no window before: what was counted belongs to this one.
            let mut left_out = seen.left_out;
            if seen.window > 0 && left_out > 0 {
                let since = Timestamp::from_unix_seconds(seen.window * WINDOW).unwrap_or(now);
                chain.append(now, &actor, What::StrangersLeftOut { since, at_least: left_out })?;
                left_out = 0;
            }
            seen = Window { window, recorded: 0, left_out };
        }
        let what = What::StrangerRefused {
            identity: stranger.identity.map(plain),
            asked: plain(stranger.asked),
            reason: stranger.reason.to_owned(),
        };
        chain.append(now, &actor, what)?;
        seen.recorded += 1;
        writes.extend(chain.writes()?);
    } else {
        seen.left_out += 1;
    }
    let mut item = Item::new(key, rows::write("a window of strangers", &seen)?);
    item.version = version;
    writes.push(Write::Put(item));
    store.transact(writes).await?;
    Ok(seen.recorded >= RECORDED)
}
