//! Audits of so many events, and how fast they are verified whole: table, archive, ends, witness and ledger.

use std::convert::Infallible;
use std::time::Instant;

use plangate_gate::audit::history::{ArchivedEvent, TableEvent, Verifier};
use plangate_gate::audit::witness::{Witness, WitnessedHead};
use plangate_gate::audit::{Chain, SealedEvent, What};
use plangate_gate::ids::{RunId, WorkspaceId};
use plangate_gate::lifecycle::Status;
use plangate_gate::run::{Actor, ChainHead};
use plangate_gate::time::Timestamp;

use crate::Outcome;

/// How many events the two audits have, about.
const SIZES: [usize; 2] = [1_000, 10_000];
/// How many events a run has: as many as one that is approved and applied.
const OF_A_RUN: usize = 12;
/// How often each is verified, by turns; the shortest counts.
const ROUNDS: usize = 7;
/// What an event tells, in characters: with what stands around it about as long as an event is on average.
const TOLD: usize = 500;

/// An audit as an auditor has read it.
struct Audit {
    began: Timestamp,
    chains: Vec<(Chain, Vec<SealedEvent>)>,
    witness: String,
}

fn append(events: &mut Vec<SealedEvent>, chain: &Chain, at: Timestamp, what: What) -> Outcome<ChainHead> {
    let head = events.last().map(SealedEvent::head);
    let event = SealedEvent::next(chain.clone(), head.as_ref(), at, Actor::gate("bench"), what)?;
    let head = event.head();
    events.push(event);
    Ok(head)
}

impl Audit {
    /// Runs of one workspace, one after the other, with `events` events in all.
    fn of(events: usize) -> Outcome<Self> {
        let began: Timestamp = "2026-11-30T05:00:00Z".parse()?;
        let (ledger, mut opened) = (Chain::Workspace(WorkspaceId::new([1; 10])), Vec::new());
        let mut chains = Vec::new();
        for number in 0..u64::try_from(events / (OF_A_RUN + 2))? {
            let mut name = [0; 10];
            name[..8].copy_from_slice(&number.to_be_bytes());
            let run = RunId::new(began, name);
            let (chain, mut of_run) = (Chain::Run(run.clone()), Vec::new());
            append(&mut opened, &ledger, began, What::RunOpened { run: run.clone() })?;
            for _ in 0..OF_A_RUN {
                let what = What::RunAnnotated { note: "x".repeat(TOLD), corrects: None };
                append(&mut of_run, &chain, began, what)?;
            }
            let end = of_run.last().map(SealedEvent::head).ok_or("a run without events")?;
            append(&mut opened, &ledger, began, What::RunClosed { run, status: Status::Applied, chain: end })?;
            chains.push((chain, of_run));
        }
        chains.insert(0, (ledger, opened));
        let ends = chains.iter().filter_map(|(chain, events)| {
            let SealedEvent { seq, digest, .. } = events.last()?;
            Some(WitnessedHead { chain: chain.clone(), seq: *seq, digest: *digest })
        });
        let witness = Witness::next(None, began, ends.collect()).to_bytes()?;
        Ok(Self { began: began.plus_seconds(86_400), chains, witness })
    }

    /// Verifies all of it; how many events there were, and how long that took in seconds.
    fn verify(&self) -> Outcome<(u64, f64)> {
        // What is read is read by then: it is no part of what is measured.
        let read: Vec<_> =
            self.chains.iter().map(|(chain, events)| (chain, table(events), archive(events), end(events))).collect();
        let start = Instant::now();
        let mut verifier = Verifier::new(self.began, 0);
        verifier.witness(1, 0, &self.witness);
        for (chain, table, archive, end) in read {
            verifier.chain(
                chain,
                table.into_iter().map(Ok::<_, Infallible>),
                archive.into_iter().map(Ok),
                end.as_deref(),
            )?;
        }
        let report = verifier.finish();
        let seconds = start.elapsed().as_secs_f64();
        if report.findings.is_empty() {
            Ok((report.events, seconds))
        } else {
            Err(format!("{:?}", report.findings[0]).into())
        }
    }
}

fn table(events: &[SealedEvent]) -> Vec<TableEvent> {
    let stored = |event: &SealedEvent| TableEvent {
        seq: event.seq,
        digest: event.digest.to_string(),
        event: event.bytes.clone(),
    };
    events.iter().map(stored).collect()
}

fn archive(events: &[SealedEvent]) -> Vec<ArchivedEvent> {
    events.iter().map(|event| ArchivedEvent { seq: event.seq, later_versions: 0, event: event.bytes.clone() }).collect()
}

fn end(events: &[SealedEvent]) -> Option<String> {
    serde_json::to_string(&events.last()?.head()).ok()
}

/// Verifies a small and a large audit and prints at which rate; how many times as long an event of the large one takes.
pub(crate) fn compare() -> Outcome<f64> {
    let audits = [Audit::of(SIZES[0])?, Audit::of(SIZES[1])?];
    let (mut shortest, mut events) = ([f64::INFINITY; 2], [0; 2]);
    for _ in 0..ROUNDS {
        for (place, audit) in audits.iter().enumerate() {
            let (counted, seconds) = audit.verify()?;
            (events[place], shortest[place]) = (counted, shortest[place].min(seconds));
        }
    }
    let per_event = [shortest[0] / events[0] as f64, shortest[1] / events[1] as f64];
    println!(
        "audit verified: {} events in {:.1} ms, {:.0} a second; {} in {:.1} ms, {:.0} a second",
        events[0],
        shortest[0] * 1e3,
        1.0 / per_event[0],
        events[1],
        shortest[1] * 1e3,
        1.0 / per_event[1]
    );
    Ok(per_event[1] / per_event[0])
}
