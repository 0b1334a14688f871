//! A small estate's history, whole and tampered with in every way there is.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::time::Instant;

use proptest::prelude::*;

use super::*;
use crate::audit::archive::{TamperingKind, TamperingSchema};
use crate::audit::witness::WitnessedHead;
use crate::audit::{SealedEvent, What};
use crate::ids::{RunId, WorkspaceId};
use crate::lifecycle::Status;
use crate::run::Actor;

const LAG: u32 = 900;

fn at(minute: u32) -> Timestamp {
    let start: Timestamp = "2026-11-30T05:00:00Z".parse().unwrap();
    start.plus_seconds(60 * minute)
}

/// The stores, as an auditor has read them.
#[derive(Debug, Clone, Default)]
struct Stores {
    table: BTreeMap<String, Vec<TableEvent>>,
    archive: BTreeMap<String, Vec<ArchivedEvent>>,
    heads: BTreeMap<String, ChainHead>,
    witnesses: Vec<String>,
    noticed: Vec<String>,
}

fn in_table(event: &SealedEvent) -> TableEvent {
    TableEvent { seq: event.seq, digest: event.digest.to_string(), event: event.bytes.clone() }
}

fn archived(event: &SealedEvent) -> ArchivedEvent {
    ArchivedEvent { seq: event.seq, later_versions: 0, event: event.bytes.clone() }
}

fn run(number: u8) -> RunId {
    RunId::new(at(0), [number; 10])
}

fn ledger() -> Chain {
    Chain::Workspace(WorkspaceId::new([1; 10]))
}

impl Stores {
    fn append(&mut self, chain: &Chain, minute: u32, what: What) {
        let name = chain.to_string();
        let head = self.heads.get(&name);
        let event = SealedEvent::next(chain.clone(), head, at(minute), Actor::gate("admit"), what).unwrap();
        self.heads.insert(name.clone(), event.head());
        self.table.entry(name.clone()).or_default().push(in_table(&event));
        self.archive.entry(name).or_default().push(archived(&event));
    }

    fn witness(&mut self, minute: u32) {
        let heads = self.heads.iter().map(|(chain, head)| WitnessedHead {
            chain: chain.parse().unwrap(),
            seq: head.seq,
            digest: head.digest,
        });
        let last = self.witnesses.last();
        let before =
            last.map(|bytes| ChainHead { seq: self.witnesses.len() as u64, digest: Digest::of(bytes.as_bytes()) });
        let witness = Witness::next(before.as_ref(), at(minute), heads.collect());
        self.witnesses.push(witness.to_bytes().unwrap());
    }

    /// Three runs of one workspace that end one after the other, with as many events as asked for; two witnesses.
    fn of(lengths: [u64; 3]) -> Self {
        let mut stores = Self::default();
        for place in 1..=4 {
            stores.append(&Chain::Gate, 0, What::RunQueued { place });
        }
        stores.append(&Chain::Strangers, 0, What::StrangersLeftOut { since: at(0), at_least: 7 });
        for (number, length) in (1..).zip(lengths) {
            let chain = Chain::Run(run(number));
            stores.append(&ledger(), 1, What::RunOpened { run: run(number) });
            for place in 1..=length {
                stores.append(&chain, 1, What::RunQueued { place });
            }
            if number < 3 {
                let head = stores.heads[&chain.to_string()].clone();
                stores.append(&ledger(), 2, What::RunClosed { run: run(number), status: Status::Planned, chain: head });
            }
            if number > 1 {
                stores.witness(3);
            }
        }
        stores
    }

    fn verify(&self) -> Report {
        let mut verifier = Verifier::new(at(60), LAG);
        for (seq, bytes) in (1..).zip(&self.witnesses) {
            verifier.witness(seq, 0, bytes);
        }
        let mut chains: Vec<&String> = self.table.keys().chain(self.archive.keys()).collect();
        chains.sort_by_key(|name| (name.starts_with("run/"), name.as_str()));
        chains.dedup();
        for name in chains {
            let table = self.table.get(name).cloned().unwrap_or_default().into_iter().map(Ok::<_, Infallible>);
            let archive = self.archive.get(name).cloned().unwrap_or_default().into_iter().map(Ok);
            let head = self.heads.get(name).map(|head| serde_json::to_string(head).unwrap());
            verifier.chain(&name.parse().unwrap(), table, archive, head.as_deref()).unwrap();
        }
        for bytes in &self.noticed {
            verifier.noticed(bytes);
        }
        verifier.finish()
    }

    /// The first finding: where, and what.
    fn first(&self) -> Finding {
        let report = self.verify();
        report.findings.first().cloned().unwrap_or_else(|| panic!("nothing was found"))
    }

    fn table(&mut self, chain: &Chain) -> &mut Vec<TableEvent> {
        self.table.get_mut(&chain.to_string()).unwrap()
    }

    fn archive(&mut self, chain: &Chain) -> &mut Vec<ArchivedEvent> {
        self.archive.get_mut(&chain.to_string()).unwrap()
    }

    /// Makes the chain anew from `seq` on, as one who can compute digests would; its end too. In the table alone.
    fn rewrite(&mut self, chain: &Chain, seq: u64) {
        let index = (seq - 1) as usize;
        let name = chain.to_string();
        let length = self.table[&name].len();
        let before = index.checked_sub(1).map(|before| &self.table[&name][before]);
        let mut head = before.map(|event| ChainHead { seq: event.seq, digest: event.digest.parse().unwrap() });
        for place in index..length {
            let what = What::RunQueued { place: 1000 + place as u64 };
            let event = SealedEvent::next(chain.clone(), head.as_ref(), at(1), Actor::gate("x"), what).unwrap();
            head = Some(event.head());
            self.table(chain)[place] = in_table(&event);
        }
        self.heads.insert(name, head.unwrap());
    }
}

fn found(finding: &Finding) -> (&str, u64, Source) {
    (&finding.chain, finding.seq, finding.source)
}

#[test]
fn a_whole_history_fits() {
    let stores = Stores::of([5, 3, 4]);
    let report = stores.verify();
    assert_eq!(report.findings, []);
    assert_eq!((report.chains, report.events, report.witnesses, report.pending), (6, 22, 2, 0));
    assert_eq!(report.witnessed_at, Some(at(3)));
    assert_eq!(Stores::default().verify().findings, []);
}

#[test]
fn a_young_event_may_be_on_its_way_and_an_old_one_may_not() {
    let mut stores = Stores::of([5, 3, 4]);
    stores.append(&Chain::Gate, 55, What::RunQueued { place: 5 });
    stores.archive(&Chain::Gate).pop();
    let report = stores.verify();
    assert_eq!((report.findings.len(), report.pending), (0, 1));
    stores.append(&Chain::Gate, 56, What::RunQueued { place: 6 });
    assert_eq!((found(&stores.first()), stores.first().fault), (("gate", 5, Source::Archive), Fault::Missing));

    let mut stores = Stores::of([5, 3, 4]);
    stores.append(&Chain::Gate, 30, What::RunQueued { place: 5 });
    stores.archive(&Chain::Gate).pop();
    assert_eq!(found(&stores.first()), ("gate", 5, Source::Archive));
    assert_eq!(stores.first().fault, Fault::NotArchived);
}

#[test]
fn a_note_behind_the_anchor_of_a_run_fits_and_is_held_like_every_event() {
    let (mut stores, chain) = (Stores::of([5, 3, 4]), Chain::Run(run(1)));
    let name = chain.to_string();
    let anchored = stores.heads[&name].clone();
    stores.append(&chain, 50, What::RunAnnotated { note: "the ticket was 17".to_owned(), corrects: Some(2) });
    assert_eq!(stores.verify().findings, []);
    // Gone from the table, with the end set back to the anchor: the archive has it.
    let mut cut = stores.clone();
    cut.table(&chain).pop();
    cut.heads.insert(name.clone(), anchored);
    assert_eq!(
        (found(&cut.first()), cut.first().fault),
        ((name.as_str(), 6, Source::Table), Fault::CutOff { teller: Teller::Archive })
    );
    // Gone everywhere: the next witness has seen it.
    stores.witness(51);
    cut.witnesses = stores.witnesses.clone();
    cut.archive(&chain).pop();
    assert_eq!(
        (found(&cut.first()), cut.first().fault),
        ((name.as_str(), 6, Source::Both), Fault::CutOff { teller: Teller::Witness(3) })
    );
    // Another in its place.
    stores.rewrite(&chain, 6);
    assert_eq!(
        (found(&stores.first()), stores.first().fault),
        ((name.as_str(), 6, Source::Table), Fault::Rewritten { teller: Teller::Archive })
    );
}

#[test]
fn what_the_gate_noticed_is_told_too() {
    let mut stores = Stores::of([5, 3, 4]);
    let noticed = Tampering {
        schema: TamperingSchema::V1,
        kind: TamperingKind::Modified,
        pk: "gate".to_owned(),
        sk: "0000000002".to_owned(),
        before: None,
        after: None,
        found: None,
        stream_record: None,
    };
    stores.noticed.push(noticed.seal().unwrap().1);
    let first = stores.first();
    assert_eq!(
        first.to_string(),
        "event 2 of `gate` in the archive was seen by the gate itself to be written over in the table"
    );
}

#[test]
fn a_chain_that_is_gone_everywhere_is_missed_by_witness_and_ledger() {
    let mut stores = Stores::of([5, 3, 4]);
    let name = Chain::Run(run(1)).to_string();
    stores.table.remove(&name);
    stores.archive.remove(&name);
    stores.heads.remove(&name);
    assert_eq!(found(&stores.first()), (name.as_str(), 1, Source::Both));
    stores.witnesses.clear();
    assert!(matches!(stores.first().fault, Fault::CutOff { teller: Teller::Event { .. } }));
}

#[test]
fn a_chain_that_nobody_opened_was_put_there() {
    let mut stores = Stores::of([5, 3, 4]);
    stores.append(&Chain::Run(run(9)), 1, What::RunQueued { place: 1 });
    let name = Chain::Run(run(9)).to_string();
    assert_eq!((found(&stores.first()), stores.first().fault), ((name.as_str(), 1, Source::Both), Fault::NeverOpened));
}

#[test]
fn witnesses_are_a_chain_of_their_own() {
    let good = Stores::of([5, 3, 4]);
    let broken = |change: fn(&mut Vec<String>)| {
        let mut stores = good.clone();
        stores.witness(4);
        change(&mut stores.witnesses);
        let first = stores.first();
        (first.chain, first.seq, first.fault)
    };
    let named = |seq: u64, fault: Fault| ("witnesses".to_owned(), seq, fault);
    assert_eq!(broken(|all| drop(all.remove(0))), named(1, Fault::Replaced { by: "witnesses 2".to_owned() }));
    assert_eq!(broken(|all| all.swap(1, 2)), named(2, Fault::Replaced { by: "witnesses 3".to_owned() }));
    assert_eq!(broken(|all| all[1] = all[1].replace("05:03", "05:02")), named(3, Fault::Unlinked));
    assert!(matches!(broken(|all| all[1].push(' ')), (_, 2, Fault::Unreadable { .. })));
}

#[test]
fn a_thousand_events_are_verified_in_no_time() {
    let stores = Stores::of([320, 330, 340]);
    let began = Instant::now();
    let report = stores.verify();
    let seconds = began.elapsed().as_secs_f64();
    assert_eq!((report.findings.len(), report.events >= 1000), (0, true));
    println!("{} events verified in {seconds:.3} s, {:.0} a second", report.events, report.events as f64 / seconds);
    assert!(seconds < 10.0, "{seconds}");
}

/// What one who tampers does. Places are taken modulo what there is.
#[derive(Debug, Clone, Copy)]
enum Deed {
    Change,
    ChangeWithDigest,
    Remove,
    Swap,
    Duplicate,
    Append,
    CutOff,
    CutOffWithEnd,
    PutOlder,
    PutOfAnotherChain,
    Rewrite,
    RewriteEverywhere,
    SetEndBack,
    ChangeEnd,
    DropEnd,
    ChangeArchived,
    RemoveArchived,
    CutOffArchive,
    CutOffEverywhere,
    Cover,
    AppendArchived,
}

const DEEDS: &[Deed] = &[
    Deed::Change,
    Deed::ChangeWithDigest,
    Deed::Remove,
    Deed::Swap,
    Deed::Duplicate,
    Deed::Append,
    Deed::CutOff,
    Deed::CutOffWithEnd,
    Deed::PutOlder,
    Deed::PutOfAnotherChain,
    Deed::Rewrite,
    Deed::RewriteEverywhere,
    Deed::SetEndBack,
    Deed::ChangeEnd,
    Deed::DropEnd,
    Deed::ChangeArchived,
    Deed::RemoveArchived,
    Deed::CutOffArchive,
    Deed::CutOffEverywhere,
    Deed::Cover,
    Deed::AppendArchived,
];

impl Deed {
    /// Does it at `seq` (from 2 on) of a chain of `length`; gives the place that must be named, and a word of the fault.
    fn does(self, stores: &mut Stores, chain: &Chain, seq: u64, length: u64) -> (u64, &'static str) {
        let index = (seq - 1) as usize;
        let name = chain.to_string();
        let change = |event: &mut String| {
            let whole = event.clone();
            *event = whole.replace("\"function\":\"admit\"", "\"function\":\"adroit\"");
            assert_ne!(*event, whole);
        };
        match self {
            Self::Change => {
                change(&mut stores.table(chain)[index].event);
                (seq, "changed")
            }
            Self::ChangeWithDigest => {
                let event = &mut stores.table(chain)[index];
                change(&mut event.event);
                event.digest = Digest::of(event.event.as_bytes()).to_string();
                // It follows the one before it: a history of its own begins.
                (seq, "rewritten")
            }
            Self::Remove if seq == length => {
                stores.table(chain).pop();
                (seq, "cut off")
            }
            Self::Remove => {
                stores.table(chain).remove(index);
                (seq, "missing")
            }
            Self::Swap => {
                let events = stores.table(chain);
                let (one, other) = (events[index - 1].clone(), events[index].clone());
                (events[index - 1].event, events[index].event) = (other.event, one.event);
                (seq - 1, "replaced by")
            }
            Self::Duplicate => {
                let again = stores.table(chain)[index].clone();
                stores.table(chain).insert(index, again);
                (seq, "inserted")
            }
            Self::Append => {
                let head = stores.heads[&name].clone();
                let what = What::RunQueued { place: 99 };
                let event = SealedEvent::next(chain.clone(), Some(&head), at(1), Actor::gate("x"), what).unwrap();
                stores.table(chain).push(in_table(&event));
                (length + 1, "never came there")
            }
            Self::AppendArchived => {
                let head = stores.heads[&name].clone();
                let what = What::RunQueued { place: 99 };
                let event = SealedEvent::next(chain.clone(), Some(&head), at(1), Actor::gate("x"), what).unwrap();
                stores.table(chain).push(in_table(&event));
                stores.archive(chain).push(archived(&event));
                (length + 1, "behind the end")
            }
            Self::CutOff => {
                stores.table(chain).truncate(index);
                (seq, "cut off")
            }
            Self::CutOffWithEnd => {
                stores.table(chain).truncate(index);
                let last = &stores.table[&name][index - 1];
                let end = ChainHead { seq: last.seq, digest: last.digest.parse().unwrap() };
                stores.heads.insert(name, end);
                (seq, "cut off")
            }
            Self::PutOlder => {
                let older = stores.table(chain)[index - 1].clone();
                let event = &mut stores.table(chain)[index];
                (event.event, event.digest) = (older.event, older.digest);
                (seq, "replaced by")
            }
            Self::PutOfAnotherChain => {
                let other = stores.table(&Chain::Gate)[3].clone();
                let event = &mut stores.table(chain)[index];
                (event.event, event.digest) = (other.event, other.digest);
                (seq, "replaced by")
            }
            Self::Rewrite => {
                stores.rewrite(chain, seq);
                (seq, "rewritten")
            }
            Self::RewriteEverywhere => {
                stores.rewrite(chain, seq);
                let copies = stores.table[&name].iter().map(|event| ArchivedEvent {
                    seq: event.seq,
                    later_versions: 0,
                    event: event.event.clone(),
                });
                let copies = copies.collect();
                stores.archive.insert(name, copies);
                // Witness and ledger know the end alone.
                (length, "rewritten")
            }
            Self::SetEndBack => {
                let older = &stores.table[&name][index - 1];
                let end = ChainHead { seq: older.seq, digest: older.digest.parse().unwrap() };
                stores.heads.insert(name, end);
                (seq, "behind the end")
            }
            Self::ChangeEnd => {
                stores.heads.get_mut(&name).unwrap().digest = Digest::of(b"other");
                (length, "changed")
            }
            Self::DropEnd => {
                stores.heads.remove(&name);
                (length, "missing")
            }
            Self::ChangeArchived => {
                change(&mut stores.archive(chain)[index].event);
                // Both follow the one before it, and the archive is right unless a witness says otherwise.
                (seq, "rewritten")
            }
            Self::RemoveArchived if seq == length => {
                stores.archive(chain).pop();
                (seq, "never came there")
            }
            Self::RemoveArchived => {
                stores.archive(chain).remove(index);
                (seq, "missing")
            }
            Self::CutOffArchive => {
                stores.archive(chain).truncate(index);
                (seq, "never came there")
            }
            Self::CutOffEverywhere => {
                stores.table(chain).truncate(index);
                stores.archive(chain).truncate(index);
                let last = &stores.table[&name][index - 1];
                let end = ChainHead { seq: last.seq, digest: last.digest.parse().unwrap() };
                stores.heads.insert(name, end);
                (seq, "cut off")
            }
            Self::Cover => {
                stores.archive(chain)[index].later_versions = 1;
                (seq, "covered")
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]

    #[test]
    fn each_deed_is_found_where_it_was_done(
        lengths in [2_u64..12, 2_u64..12, 2_u64..12],
        which in 0_usize..3,
        place in 0_u64..100,
        deed in proptest::sample::select(DEEDS),
    ) {
        let mut stores = Stores::of(lengths);
        prop_assert_eq!(stores.verify().findings, Vec::new());
        let (chain, length) = (Chain::Run(run(which as u8 + 1)), lengths[which]);
        let seq = 2 + place % (length - 1);
        let (expected, word) = deed.does(&mut stores, &chain, seq, length);
        let report = stores.verify();
        prop_assert_eq!(report.findings.len(), 1, "{:?}", report.findings);
        let first = &report.findings[0];
        prop_assert_eq!((&first.chain, first.seq), (&chain.to_string(), expected), "{}", first);
        prop_assert!(first.to_string().contains(word), "{} of {:?}", first, deed);
    }

    /// Whatever single byte of whatever event of either store is another, its chain is named.
    #[test]
    fn no_byte_can_change(
        in_archive: bool,
        chain in 0_usize..6,
        place in 0_usize..100,
        byte in 0_usize..1000,
        with in 0_u8..128,
    ) {
        let mut stores = Stores::of([3, 4, 5]);
        let name = stores.table.keys().nth(chain).cloned().unwrap();
        let events = stores.table[&name].len();
        let event = if in_archive {
            &mut stores.archive.get_mut(&name).unwrap()[place % events].event
        } else {
            &mut stores.table.get_mut(&name).unwrap()[place % events].event
        };
        let mut bytes = event.clone().into_bytes();
        let byte = byte % bytes.len();
        prop_assume!(bytes[byte] != with);
        bytes[byte] = with;
        *event = String::from_utf8(bytes).unwrap();
        let first = stores.first();
        prop_assert_eq!((first.chain, first.seq), (name, (place % events) as u64 + 1));
    }
}
