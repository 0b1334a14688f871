//! What does not fit, in words for people and codes for machines.

use std::fmt;

use serde::Serialize;

use super::super::archive::TamperingKind;

/// Where it was seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Source {
    /// The table of events.
    Table,
    /// The locked bucket.
    Archive,
    /// Table and archive alike.
    Both,
    /// The item that says where the chain ends.
    End,
    /// The witnesses.
    Witnesses,
}

/// Who knows better.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Teller {
    /// The archive.
    Archive,
    /// The item that says where the chain ends.
    End,
    /// The witness of that number.
    Witness(u64),
    /// An event of a ledger.
    Event {
        /// The ledger.
        chain: String,
        /// The place.
        seq: u64,
    },
}

/// What is wrong.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "code", rename_all = "kebab-case")]
pub enum Fault {
    /// The bytes are no event.
    Unreadable {
        /// Why.
        why: String,
    },
    /// The event was changed.
    Changed,
    /// The event is missing, and later ones are there.
    Missing,
    /// The event does not belong there: its place was passed already.
    Inserted,
    /// A valid event of another place, or an older copy, stands there.
    Replaced {
        /// Which event it is.
        by: String,
    },
    /// The event is valid in itself and does not follow the one before it.
    Unlinked,
    /// From here on it is a history of its own, with digests that fit: somebody else tells of another event.
    Rewritten {
        /// Who.
        teller: Teller,
    },
    /// The events from here on are gone.
    CutOff {
        /// Who knows of them.
        teller: Teller,
    },
    /// Events stand behind the end that the table says: they were put there, or the end was replaced by an older one.
    BeyondTheEnd,
    /// The event never came to the archive, and is too old to be on its way.
    NotArchived,
    /// Something was written or a delete marker laid over a locked object. The oldest version is what counts.
    Covered {
        /// How many versions and markers.
        later_versions: u64,
    },
    /// The run's chain is opened in no workspace's ledger.
    NeverOpened,
    /// It belongs to no chain.
    Stray,
    /// The gate itself noticed it, and wrote it down.
    Noticed {
        /// What.
        kind: TamperingKind,
    },
}

/// The first thing of a chain that does not fit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// The chain; or the key of what belongs to none.
    pub chain: String,
    /// The place in it; 0 where there is none.
    pub seq: u64,
    /// Where it was seen.
    pub source: Source,
    /// What is wrong.
    pub fault: Fault,
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Table => "in the table",
            Self::Archive => "in the archive",
            Self::Both => "in table and archive",
            Self::End => "at the chain's end in the table",
            Self::Witnesses => "among the witnesses",
        })
    }
}

impl fmt::Display for Teller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Archive => f.write_str("the archive"),
            Self::End => f.write_str("the chain's end in the table"),
            Self::Witness(seq) => write!(f, "witness {seq}"),
            Self::Event { chain, seq } => write!(f, "event {seq} of `{chain}`"),
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreadable { why } => write!(f, "cannot be read: {why}"),
            Self::Changed => f.write_str("was changed"),
            Self::Missing => f.write_str("is missing"),
            Self::Inserted => f.write_str("was inserted: its place was passed already"),
            Self::Replaced { by } => write!(f, "was replaced by `{by}`"),
            Self::Unlinked => f.write_str("does not follow the event before it"),
            Self::Rewritten { teller } => write!(f, "was rewritten: {teller} has another"),
            Self::CutOff { teller } => write!(f, "was cut off with all after it: {teller} knows of it"),
            Self::BeyondTheEnd => f.write_str("stands behind the end: it was inserted, or the end was set back"),
            Self::NotArchived => f.write_str("never came there"),
            Self::Covered { later_versions } => write!(f, "was covered by {later_versions} later versions"),
            Self::NeverOpened => f.write_str("was inserted: no ledger opens this run"),
            Self::Stray => f.write_str("was inserted: it belongs to no chain"),
            Self::Noticed { kind } => {
                let what = match kind {
                    TamperingKind::Modified => "written over in the table",
                    TamperingKind::Removed => "removed from the table",
                    TamperingKind::Different => "another in the archive than in the table",
                    TamperingKind::Missing => "missing in the table",
                    TamperingKind::Invalid => "no event, or not that of its digest",
                };
                write!(f, "was seen by the gate itself to be {what}")
            }
        }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { chain, seq, source, fault } = self;
        match (source, seq) {
            (_, 0) => write!(f, "`{chain}` {source} {fault}"),
            (Source::Witnesses, _) => write!(f, "witness {seq} {fault}"),
            (Source::End, _) if !matches!(fault, Fault::BeyondTheEnd) => {
                write!(f, "the end of `{chain}` at event {seq} {fault}")
            }
            _ => write!(f, "event {seq} of `{chain}` {source} {fault}"),
        }
    }
}
