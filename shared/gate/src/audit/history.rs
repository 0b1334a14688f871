//! The verification of a whole history: table, archive and witnesses held against each other (`R52`).
//!
//! Trusts nobody: each store is read by the auditor, and each must tell the same. One chain is looked at after the other,
//! event by event; what is kept meanwhile is what witnesses and ledgers say of ends, some hundred bytes each, and no event.
//! Where table and archive differ and both fit, the archive is right: it is locked.

mod event;
mod finding;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::iter::Peekable;

use event::{Anchor, Envelope, Misfit};
pub use finding::{Fault, Finding, Source, Teller};
use serde::{Deserialize, Serialize};

use super::Chain;
use super::archive::Tampering;
use super::witness::Witness;
use crate::digest::Digest;
use crate::run::ChainHead;
use crate::time::Timestamp;
use crate::untrusted;

/// An event as it was read from the table.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TableEvent {
    /// Its place.
    pub seq: u64,
    /// The digest that stands beside it.
    pub digest: String,
    /// Its bytes.
    pub event: String,
}

/// An event as it was read from the archive: the oldest version of its object, which nobody can have changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ArchivedEvent {
    /// Its place.
    pub seq: u64,
    /// How many further versions and delete markers lie over it: none, unless somebody could get round the bucket's policy.
    pub later_versions: u64,
    /// Its bytes.
    pub event: String,
}

/// What came of a verification.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Report {
    /// How many chains there are.
    pub chains: u64,
    /// How many events fit.
    pub events: u64,
    /// How many witnesses there are.
    pub witnesses: u64,
    /// When the last witness saw the ends of the chains; what is younger has the archive alone to hold it.
    pub witnessed_at: Option<Timestamp>,
    /// Events that are too young to be missed in the archive.
    pub pending: u64,
    /// The first thing of each chain that does not fit, in the order in which the chains were looked at.
    pub findings: Vec<Finding>,
}

/// What somebody says of a chain: at this place stood the event with this digest.
#[derive(Debug, Clone)]
struct Point {
    seq: u64,
    digest: Digest,
    teller: Teller,
}

/// Holds the stores against each other. First the witnesses in their order, then the chains: `gate`, `strangers` and the
/// ledgers of workspaces before runs, since ledgers tell which runs there are and how their chains ended.
#[derive(Debug)]
pub struct Verifier {
    began: Timestamp,
    lag_seconds: u32,
    report: Report,
    last_witness: Option<ChainHead>,
    witnesses_broken: bool,
    points: BTreeMap<String, Vec<Point>>,
    opened: BTreeMap<String, (String, u64, Timestamp)>,
    runs: BTreeMap<String, Timestamp>,
    ledger_broken: bool,
    named: BTreeSet<String>,
}

impl Verifier {
    /// A verifier of what was read from the moment `began` on. An event that is no older than `lag_seconds` then may
    /// still be on its way to the archive.
    #[must_use]
    pub const fn new(began: Timestamp, lag_seconds: u32) -> Self {
        let (events, chains, witnesses, pending) = (0, 0, 0, 0);
        Self {
            began,
            lag_seconds,
            report: Report { chains, events, witnesses, witnessed_at: None, pending, findings: Vec::new() },
            last_witness: None,
            witnesses_broken: false,
            points: BTreeMap::new(),
            opened: BTreeMap::new(),
            runs: BTreeMap::new(),
            ledger_broken: false,
            named: BTreeSet::new(),
        }
    }

    fn find(&mut self, chain: &str, seq: u64, source: Source, fault: Fault) {
        self.named.insert(chain.to_owned());
        self.report.findings.push(Finding { chain: chain.to_owned(), seq, source, fault });
    }

    fn young(&self, at: Timestamp) -> bool {
        at.seconds_until(self.began) < self.lag_seconds
    }

    /// Takes the witness that stood at place `seq`, over which `later_versions` others lie. In order.
    pub fn witness(&mut self, seq: u64, later_versions: u64, bytes: &str) {
        const NAME: &str = "witnesses";
        self.report.witnesses += 1;
        let expected = self.last_witness.as_ref().map_or(1, |last| last.seq + 1);
        let previous = self.last_witness.as_ref().map(|last| last.digest);
        let read = Witness::parse(bytes.as_bytes());
        self.last_witness = Some(ChainHead { seq, digest: Digest::of(bytes.as_bytes()) });
        let fault = match &read {
            _ if seq != expected && seq < expected => Some(Fault::Inserted),
            _ if seq != expected => Some(Fault::Missing),
            Err(error) => Some(Fault::Unreadable { why: error.to_string() }),
            Ok(witness) if witness.seq != seq => Some(Fault::Replaced { by: format!("{NAME} {}", witness.seq) }),
            Ok(witness) if witness.previous != previous => Some(Fault::Unlinked),
            Ok(_) if later_versions > 0 => Some(Fault::Covered { later_versions }),
            Ok(_) => None,
        };
        if let (Some(fault), false) = (fault, self.witnesses_broken) {
            self.witnesses_broken = true;
            let at = if fault == Fault::Missing { expected } else { seq };
            self.find(NAME, at, Source::Witnesses, fault);
        }
        // One that cannot be trusted is still listened to: it can only tell of more that does not fit.
        let Ok(witness) = read else { return };
        self.report.witnessed_at = Some(witness.at);
        for head in witness.heads {
            let point = Point { seq: head.seq, digest: head.digest, teller: Teller::Witness(seq) };
            self.points.entry(head.chain.to_string()).or_default().push(point);
        }
    }

    /// Takes something that stands in a store and belongs to no chain.
    pub fn stray(&mut self, source: Source, key: &str) {
        self.find(key, 0, source, Fault::Stray);
    }

    /// Takes a record of what the gate itself noticed of tampering. After the chains: what they show themselves comes first.
    pub fn noticed(&mut self, bytes: &str) {
        match untrusted::parse::<Tampering>("record of tampering", bytes.as_bytes(), 4 * super::EVENT_LIMIT) {
            Ok(told) => {
                let seq = told.sk.parse().unwrap_or_default();
                self.find(&told.pk, seq, Source::Archive, Fault::Noticed { kind: told.kind });
            }
            Err(error) => self.find("tampering", 0, Source::Archive, Fault::Unreadable { why: error.to_string() }),
        }
    }

    /// Takes a chain: its events in the order of their places from the table and from the archive, and its end as the
    /// table's item says. The first thing that does not fit is a finding; the rest of the chain is then not looked at.
    ///
    /// # Errors
    /// What reading the events gives.
    pub fn chain<E>(
        &mut self,
        chain: &Chain,
        table: impl Iterator<Item = Result<TableEvent, E>>,
        archive: impl Iterator<Item = Result<ArchivedEvent, E>>,
        head: Option<&str>,
    ) -> Result<(), E> {
        self.report.chains += 1;
        let name = chain.to_string();
        let mut points = self.points.remove(&name).unwrap_or_default();
        points.sort_by_key(|point| point.seq);
        let mut walk = Walk { chain, name: &name, points: points.into_iter().peekable(), end: None, began_at: None };
        let found = walk.events(self, table.peekable(), archive.peekable())?;
        let found = found.or_else(|| walk.last(head));
        if let (Chain::Run(_), Some(at)) = (chain, walk.began_at) {
            self.runs.insert(name.clone(), at);
        }
        if let Some((seq, source, fault)) = found {
            self.ledger_broken |= matches!(chain, Chain::Workspace(_));
            self.runs.entry(name.clone()).or_insert(self.began);
            self.find(&name, seq, source, fault);
        }
        Ok(())
    }

    /// The report, once all has been taken.
    #[must_use]
    pub fn finish(mut self) -> Report {
        for (name, points) in std::mem::take(&mut self.points) {
            // Told of by somebody, and in neither table nor archive.
            self.ledger_broken |= name.starts_with("ws/");
            if let (Some(point), false) = (points.first(), self.named.contains(&name)) {
                self.find(&name, 1, Source::Both, Fault::CutOff { teller: point.teller.clone() });
            }
        }
        for (run, (ledger, seq, at)) in std::mem::take(&mut self.opened) {
            if self.runs.remove(&run).is_none() && !self.named.contains(&run) && !self.young(at) {
                let teller = Teller::Event { chain: ledger, seq };
                self.find(&run, 1, Source::Both, Fault::CutOff { teller });
            }
        }
        // A ledger that is not whole may have lost the opening.
        if !self.ledger_broken {
            for (run, at) in std::mem::take(&mut self.runs) {
                if !self.named.contains(&run) && !self.young(at) {
                    self.find(&run, 1, Source::Both, Fault::NeverOpened);
                }
            }
        }
        self.report
    }

    fn anchor(&mut self, ledger: &str, seq: u64, at: Timestamp, anchor: Anchor) {
        let teller = Teller::Event { chain: ledger.to_owned(), seq };
        match anchor {
            Anchor::Opened(run) => {
                self.opened.insert(format!("run/{run}"), (ledger.to_owned(), seq, at));
            }
            Anchor::Closed(run, head) => {
                let point = Point { seq: head.seq, digest: head.digest, teller };
                self.points.entry(format!("run/{run}")).or_default().push(point);
            }
        }
    }
}

/// Place, source, and what is wrong there.
type Wrong = (u64, Source, Fault);

/// The way along one chain.
struct Walk<'a> {
    chain: &'a Chain,
    name: &'a str,
    points: Peekable<std::vec::IntoIter<Point>>,
    end: Option<ChainHead>,
    began_at: Option<Timestamp>,
}

impl Walk<'_> {
    /// Goes along the events as far as they fit.
    fn events<E>(
        &mut self,
        verifier: &mut Verifier,
        mut table: Peekable<impl Iterator<Item = Result<TableEvent, E>>>,
        mut archive: Peekable<impl Iterator<Item = Result<ArchivedEvent, E>>>,
    ) -> Result<Option<Wrong>, E> {
        for seq in 1.. {
            let at_table = table.peek().and_then(|event| event.as_ref().ok()).map(|event| event.seq);
            let at_archive = archive.peek().and_then(|event| event.as_ref().ok()).map(|event| event.seq);
            for (place, source) in [(at_table, Source::Table), (at_archive, Source::Archive)] {
                if let Some(place) = place.filter(|place| *place < seq) {
                    return Ok(Some((place, source, Fault::Inserted)));
                }
            }
            let ours = |event: &Result<TableEvent, E>| event.as_ref().map_or(true, |event| event.seq == seq);
            let stored = table.next_if(ours).transpose()?;
            let ours = |event: &Result<ArchivedEvent, E>| event.as_ref().map_or(true, |event| event.seq == seq);
            let archived = archive.next_if(ours).transpose()?;
            let wrong = match (stored, archived) {
                (Some(stored), Some(archived)) => self.both(verifier, seq, &stored, &archived),
                (Some(stored), None) => self.stored_alone(verifier, seq, &stored, at_archive.is_some()),
                (None, None) if at_table.is_none() && at_archive.is_none() => None,
                (None, None) => Some((seq, Source::Both, Fault::Missing)),
                (None, Some(_)) if at_table.is_some() => Some((seq, Source::Table, Fault::Missing)),
                (None, Some(_)) => Some((seq, Source::Table, Fault::CutOff { teller: Teller::Archive })),
            };
            if wrong.is_some() || (at_table.is_none() && at_archive.is_none()) {
                return Ok(wrong);
            }
        }
        Ok(None)
    }

    fn both(
        &mut self,
        verifier: &mut Verifier,
        seq: u64,
        stored: &TableEvent,
        archived: &ArchivedEvent,
    ) -> Option<Wrong> {
        let theirs = self.read(seq, &archived.event);
        if stored.event == archived.event {
            let envelope = match theirs {
                Err(misfit) => return Some((seq, Source::Both, misfit.into())),
                Ok(envelope) => envelope,
            };
            let digest = Digest::of(stored.event.as_bytes());
            if stored.digest != digest.to_string() {
                return Some((seq, Source::Table, Fault::Changed));
            }
            if archived.later_versions > 0 {
                let later_versions = archived.later_versions;
                return Some((seq, Source::Archive, Fault::Covered { later_versions }));
            }
            return self.take(verifier, seq, digest, envelope, Source::Both);
        }
        Some(match (self.read(seq, &stored.event), theirs) {
            (Ok(_), Ok(_)) if stored.digest != Digest::of(stored.event.as_bytes()).to_string() => {
                (seq, Source::Table, Fault::Changed)
            }
            (Ok(_), Ok(_)) => (seq, Source::Table, Fault::Rewritten { teller: Teller::Archive }),
            (Ok(_), Err(misfit)) => (seq, Source::Archive, misfit.changed()),
            (Err(misfit), _) => (seq, Source::Table, misfit.changed()),
        })
    }

    /// An event that the archive lacks, while it goes on or ends before.
    fn stored_alone(&mut self, verifier: &mut Verifier, seq: u64, stored: &TableEvent, goes_on: bool) -> Option<Wrong> {
        let envelope = match self.read(seq, &stored.event) {
            Err(misfit) => return Some((seq, Source::Table, misfit.into())),
            Ok(envelope) => envelope,
        };
        let digest = Digest::of(stored.event.as_bytes());
        if stored.digest != digest.to_string() {
            return Some((seq, Source::Table, Fault::Changed));
        }
        // A stream keeps the order of a chain: what it brings late, it brings with all that follows.
        if goes_on {
            return Some((seq, Source::Archive, Fault::Missing));
        }
        if !verifier.young(envelope.at) {
            return Some((seq, Source::Archive, Fault::NotArchived));
        }
        verifier.report.pending += 1;
        self.take(verifier, seq, digest, envelope, Source::Table)
    }

    fn read(&self, seq: u64, bytes: &str) -> Result<Envelope, Misfit> {
        event::read(bytes, self.chain, seq, self.end.as_ref().map(|end| end.digest))
    }

    /// Takes an event that fits, and holds it against what others say of this place.
    fn take(
        &mut self,
        verifier: &mut Verifier,
        seq: u64,
        digest: Digest,
        envelope: Envelope,
        source: Source,
    ) -> Option<Wrong> {
        while let Some(point) = self.points.next_if(|point| point.seq <= seq) {
            if point.seq < seq || point.digest != digest {
                return Some((point.seq, source, Fault::Rewritten { teller: point.teller }));
            }
        }
        self.end = Some(ChainHead { seq, digest });
        self.began_at.get_or_insert(envelope.at);
        verifier.report.events += 1;
        if let (Chain::Workspace(_), Some(anchor)) = (self.chain, envelope.anchor()) {
            verifier.anchor(self.name, seq, envelope.at, anchor);
        }
        None
    }

    /// Holds the chain's last event against its end in the table and against what others know of later ones.
    fn last(&mut self, head: Option<&str>) -> Option<Wrong> {
        let seq = self.end.as_ref().map_or(0, |end| end.seq);
        if let Some(point) = self.points.next() {
            return Some((seq + 1, Source::Both, Fault::CutOff { teller: point.teller }));
        }
        let told = match head.map(serde_json::from_str::<ChainHead>) {
            None if seq == 0 => return None,
            None => return Some((seq, Source::End, Fault::Missing)),
            Some(Err(_)) => {
                return Some((seq, Source::End, Fault::Unreadable { why: "it is no end of a chain".to_owned() }));
            }
            Some(Ok(told)) => told,
        };
        match told.seq.cmp(&seq) {
            std::cmp::Ordering::Greater => Some((seq + 1, Source::Both, Fault::CutOff { teller: Teller::End })),
            std::cmp::Ordering::Less => Some((told.seq + 1, Source::End, Fault::BeyondTheEnd)),
            std::cmp::Ordering::Equal if self.end.as_ref() == Some(&told) => None,
            std::cmp::Ordering::Equal => Some((seq, Source::End, Fault::Changed)),
        }
    }
}
