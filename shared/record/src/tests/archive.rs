//! The archive and the witnesses over a real story: what was written is found whole, and what is tampered with is written down.

use std::collections::BTreeMap;

use plangate_gate::audit::archive::{Tampering, TamperingKind, event_key, witness_key};
use plangate_gate::audit::history::{ArchivedEvent, Report, TableEvent, Verifier};
use plangate_gate::audit::witness::Witness;
use plangate_gate::audit::{Chain, SealedEvent};
use plangate_gate::run::{Choice, Kind};
use plangate_gate::time::Timestamp;

use super::world::{World, at};
use crate::archive::{Archived, Change, Image, archive, backfill};
use crate::memory::MemoryObjects;
use crate::objects::Objects;
use crate::rows::head_key;
use crate::store::Store;
use crate::witness::witness;

/// Two runs, one of which is approved, and one rejected.
async fn story() -> World {
    let world = World::new().await;
    for (number, choice) in [(1, Choice::Reject), (2, Choice::Approve)] {
        let run = world.propose(Kind::Applicable, number).await;
        world.to_approval(&run).await;
        world.decide("bob", &run, choice, at(7)).await.unwrap();
    }
    world
}

fn inserted(event: &SealedEvent) -> Change {
    Change {
        id: format!("{} {}", event.chain, event.seq),
        pk: event.chain.to_string(),
        sk: format!("{:010}", event.seq),
        before: None,
        after: Some(image(event)),
    }
}

fn image(event: &SealedEvent) -> Image {
    Image { event: Some(event.bytes.clone()), digest: Some(event.digest.to_string()) }
}

async fn archive_all(world: &World, bucket: &MemoryObjects) -> Archived {
    let changes: Vec<Change> = world.store.all_events().iter().map(inserted).collect();
    archive(bucket, &changes, at(100)).await.unwrap()
}

async fn tampering(bucket: &MemoryObjects) -> Vec<Tampering> {
    let mut found = Vec::new();
    for key in bucket.keys().iter().filter(|key| key.starts_with("tampering/")) {
        let object = Objects::get(bucket, key, None, 1 << 20).await.unwrap().unwrap();
        found.push(serde_json::from_slice(&object.bytes).unwrap());
    }
    found
}

/// Holds table, archive and witnesses against each other, as an auditor does.
async fn verify(world: &World, bucket: &MemoryObjects, began: Timestamp) -> Report {
    let mut verifier = Verifier::new(began, 900);
    let mut seq = 1;
    while let Some(object) = Objects::get(bucket, &witness_key(seq), None, 1 << 20).await.unwrap() {
        verifier.witness(seq, 0, std::str::from_utf8(&object.bytes).unwrap());
        seq += 1;
    }
    let mut chains: BTreeMap<(bool, String), Vec<TableEvent>> = BTreeMap::new();
    for event in world.store.all_events() {
        let place = (matches!(event.chain, Chain::Run(_)), event.chain.to_string());
        let stored = TableEvent { seq: event.seq, digest: event.digest.to_string(), event: event.bytes };
        chains.entry(place).or_default().push(stored);
    }
    for ((_, name), events) in chains {
        let chain: Chain = name.parse().unwrap();
        let mut archived = Vec::new();
        for seq in 1..=100 {
            if let Some(object) = Objects::get(bucket, &event_key(&chain, seq), None, 1 << 20).await.unwrap() {
                let event = String::from_utf8(object.bytes).unwrap();
                archived.push(Ok::<_, ()>(ArchivedEvent { seq, later_versions: 0, event }));
            }
        }
        let head = Store::get(&world.store, &head_key(&chain)).await.unwrap().map(|item| item.body);
        verifier.chain(&chain, events.into_iter().map(Ok), archived.into_iter(), head.as_deref()).unwrap();
    }
    verifier.finish()
}

#[tokio::test]
async fn what_happened_is_archived_once_witnessed_and_verified() {
    let (world, bucket) = (story().await, MemoryObjects::default());
    let events = world.store.all_events().len() as u64;
    let written = archive_all(&world, &bucket).await;
    assert_eq!(written, Archived { written: events, present: 0, tampering: 0 });
    // A stream may tell twice.
    assert_eq!(archive_all(&world, &bucket).await, Archived { written: 0, present: events, tampering: 0 });

    let first = witness(&world, &bucket, at(60)).await.unwrap();
    assert_eq!((first.seq, first.heads, first.written), (1, 4, true));
    let run = world.propose(Kind::PlanOnly, 3).await;
    archive_all(&world, &bucket).await;
    let second = witness(&world, &bucket, at(7200)).await.unwrap();
    assert_eq!(second.seq, 2);
    let third = witness(&world, &bucket, at(90_000)).await.unwrap();
    assert_eq!((third.seq, third.heads), (3, 0), "nothing has moved, and that is witnessed too");
    let bytes = Objects::get(&bucket, &witness_key(2), None, 1 << 20).await.unwrap().unwrap().bytes;
    assert!(Witness::parse(&bytes).unwrap().heads.iter().any(|head| head.chain == Chain::Run(run.clone())));

    let report = verify(&world, &bucket, at(100_000)).await;
    assert_eq!((report.findings, report.witnesses, report.pending), (Vec::new(), 3, 0));
}

#[tokio::test]
async fn what_the_stream_lost_is_filled_in_from_the_table() {
    let (world, bucket) = (story().await, MemoryObjects::default());
    let all = world.store.all_events();
    let told: Vec<Change> = all.iter().filter(|event| event.seq % 3 != 0).map(inserted).collect();
    archive(&bucket, &told, at(100)).await.unwrap();
    let report = verify(&world, &bucket, at(100_000)).await;
    assert!(!report.findings.is_empty());
    let filled = backfill(&world, &bucket, at(0), at(100_000)).await.unwrap();
    let lost = all.iter().filter(|event| event.seq % 3 == 0).count() as u64;
    assert_eq!(filled, Archived { written: lost, present: all.len() as u64 - lost, tampering: 0 });
    assert_eq!(verify(&world, &bucket, at(100_000)).await.findings, Vec::new());
    // What has not moved for long is not looked at again.
    assert_eq!(backfill(&world, &bucket, at(90_000), at(100_000)).await.unwrap(), Archived::default());
}

#[tokio::test]
async fn an_event_that_is_written_over_or_removed_is_written_down_with_both_digests() {
    let (world, bucket) = (story().await, MemoryObjects::default());
    archive_all(&world, &bucket).await;
    let events = world.store.all_events();
    let (event, other) = (events.first().unwrap(), events.last().unwrap());
    let over = Change { before: Some(image(event)), after: Some(image(other)), id: "9".into(), ..inserted(event) };
    let gone = Change { before: Some(image(event)), after: None, id: "10".into(), ..inserted(event) };
    for _ in 0..2 {
        let told = archive(&bucket, &[over.clone(), gone.clone()], at(100)).await.unwrap();
        assert_eq!((told.written, told.tampering), (0, 2));
    }
    let mut told = tampering(&bucket).await;
    told.sort_by_key(|record| record.stream_record.clone());
    assert_eq!(told.len(), 2, "told twice, it is one record");
    assert_eq!((told[0].kind, told[0].before, told[0].after), (TamperingKind::Removed, Some(event.digest), None));
    assert_eq!(
        (told[1].kind, told[1].before, told[1].after),
        (TamperingKind::Modified, Some(event.digest), Some(other.digest))
    );
    assert_eq!(told[1].found.as_ref(), Some(&other.bytes));
}

#[tokio::test]
async fn a_change_that_comes_before_its_event_archives_what_was_there_first() {
    let (world, bucket) = (story().await, MemoryObjects::default());
    let event = world.store.all_events().first().cloned().unwrap();
    let gone = Change { before: Some(image(&event)), after: None, ..inserted(&event) };
    let told = archive(&bucket, &[gone], at(100)).await.unwrap();
    assert_eq!((told.written, told.tampering), (1, 1));
    let there = Objects::get(&bucket, &event_key(&event.chain, event.seq), None, 1 << 20).await.unwrap().unwrap();
    assert_eq!(there.bytes, event.bytes.into_bytes());
}

#[tokio::test]
async fn what_is_no_event_comes_to_no_place_of_the_archive() {
    let (world, bucket) = (story().await, MemoryObjects::default());
    let event = world.store.all_events().first().cloned().unwrap();
    let forged = Image { event: Some("{}".to_owned()), digest: Some(event.digest.to_string()) };
    let changes = [
        Change { pk: "runs".into(), ..inserted(&event) },
        Change { sk: "1".into(), ..inserted(&event) },
        Change { after: Some(forged), ..inserted(&event) },
        Change { after: Some(Image::default()), ..inserted(&event) },
    ];
    let told = archive(&bucket, &changes, at(100)).await.unwrap();
    assert_eq!((told.written, told.tampering), (0, 4));
    assert!(tampering(&bucket).await.iter().all(|record| record.kind == TamperingKind::Invalid));
    assert!(!bucket.keys().iter().any(|key| key.starts_with("events/")));
}

#[tokio::test]
async fn the_backfill_writes_down_what_differs_and_what_the_table_lacks() {
    let (world, bucket) = (story().await, MemoryObjects::default());
    archive_all(&world, &bucket).await;
    let chain = Chain::Workspace(world.workspace.clone());
    let event = world.store.all_events().into_iter().find(|event| event.chain == chain && event.seq == 2).unwrap();
    let other = SealedEvent { bytes: event.bytes.replace("plan", "plot"), ..event.clone() };
    let other = SealedEvent { digest: plangate_gate::digest::Digest::of(b"x"), bytes: other.bytes + " ", ..other };
    world.store.replace_event(&chain, 2, Some(other));
    world.store.replace_event(&chain, 3, None);
    let told = backfill(&world, &bucket, at(0), at(10)).await.unwrap();
    assert_eq!((told.written, told.tampering), (0, 2));
    let mut kinds: Vec<_> = tampering(&bucket).await.into_iter().map(|r| (r.sk, r.kind, r.before)).collect();
    kinds.sort_by(|a, b| a.0.cmp(&b.0));
    assert_eq!(kinds[0], ("0000000002".to_owned(), TamperingKind::Invalid, Some(event.digest)));
    assert_eq!((kinds[1].0.as_str(), kinds[1].1), ("0000000003", TamperingKind::Missing));
}
