//! An event as far as a verification must understand it: its links, and what a ledger says of runs. What happened is not
//! interpreted, so that events of a later version can be verified too.

use serde::Deserialize;
use serde_json::Value;

use super::super::{Chain, EVENT_LIMIT};
use super::finding::Fault;
use crate::digest::Digest;
use crate::run::ChainHead;
use crate::time::Timestamp;

/// What every event has.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Envelope {
    #[serde(rename = "schema")]
    _schema: super::super::EventSchema,
    chain: Chain,
    seq: u64,
    previous: Option<Digest>,
    pub(super) at: Timestamp,
    #[serde(rename = "actor")]
    _actor: Value,
    what: Value,
}

/// What a ledger says of a run.
pub(super) enum Anchor {
    /// It was opened.
    Opened(String),
    /// It was closed, and there its chain ended.
    Closed(String, ChainHead),
}

/// Why bytes are not the event that belongs here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Misfit {
    /// They are no event at all, or not in the one form.
    Unreadable(String),
    /// They are the event of another place.
    Elsewhere(String),
    /// They are an event of this place that does not follow the one before.
    Unlinked,
}

impl Misfit {
    /// The fault, if another store has the event that fits: then this one was changed.
    pub(super) fn changed(self) -> Fault {
        match self {
            Self::Elsewhere(by) => Fault::Replaced { by },
            Self::Unreadable(_) | Self::Unlinked => Fault::Changed,
        }
    }
}

impl From<Misfit> for Fault {
    fn from(misfit: Misfit) -> Self {
        match misfit {
            Misfit::Unreadable(why) => Self::Unreadable { why },
            Misfit::Elsewhere(by) => Self::Replaced { by },
            Misfit::Unlinked => Self::Unlinked,
        }
    }
}

/// Reads the event that must be number `seq` of `chain` and follow the one with the digest `previous`.
pub(super) fn read(bytes: &str, chain: &Chain, seq: u64, previous: Option<Digest>) -> Result<Envelope, Misfit> {
    let unreadable = |why: &str| Misfit::Unreadable(why.to_owned());
    if bytes.len() > EVENT_LIMIT {
        return Err(unreadable("it is larger than an event may be"));
    }
    let value: Value = serde_json::from_str(bytes).map_err(|_| unreadable("it is not JSON"))?;
    // A tree writes itself in the one form: sorted, without white space, each key once.
    if serde_json::to_string(&value).ok().as_deref() != Some(bytes) {
        return Err(unreadable("it is not in canonical form"));
    }
    let event: Envelope = serde_json::from_value(value).map_err(|_| unreadable("it does not follow its schema"))?;
    if event.chain != *chain || event.seq != seq {
        return Err(Misfit::Elsewhere(format!("{} {}", event.chain, event.seq)));
    }
    if event.previous != previous {
        return Err(Misfit::Unlinked);
    }
    Ok(event)
}

impl Envelope {
    /// What the event, as one of a ledger, says of a run.
    pub(super) fn anchor(&self) -> Option<Anchor> {
        let text = |name: &str| self.what.get(name).and_then(Value::as_str);
        let run = text("run")?.to_owned();
        match text("type")? {
            "run-opened" => Some(Anchor::Opened(run)),
            "run-closed" => {
                let head = serde_json::from_value(self.what.get("chain")?.clone()).ok()?;
                Some(Anchor::Closed(run, head))
            }
            _ => None,
        }
    }
}
