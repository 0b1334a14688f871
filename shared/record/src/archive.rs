//! The archive of events in the locked bucket: what the table's stream tells is written there once, and what does not
//! fit is written down beside it (`R52`). Streams last a day: what they lost is filled in from the table.

use plangate_gate::audit::archive::{Tampering, TamperingKind, TamperingSchema, event_key, parse_place, place_key};
use plangate_gate::audit::{AuditEvent, Chain, EVENT_LIMIT};
use plangate_gate::digest::Digest;
use plangate_gate::measure::{Measurement, Metric};
use plangate_gate::time::Timestamp;
use plangate_gate::untrusted;
use serde::Serialize;

use crate::error::Error;
use crate::heads::moved_since;
use crate::objects::{ObjectError, Objects, PutOutcome};
use crate::store::{Store, StoredEvent};
use crate::watched::tell;

/// An item of the audit table as the stream shows it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Image {
    /// The event's bytes, if the item has any.
    pub event: Option<String>,
    /// The digest that stands beside them.
    pub digest: Option<String>,
}

/// A change of the audit table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// The stream's own id of the record; the same however often it is told.
    pub id: String,
    /// The item's partition key: the chain.
    pub pk: String,
    /// Its sort key: the place.
    pub sk: String,
    /// As it was, if it was there.
    pub before: Option<Image>,
    /// As it is, if it is there.
    pub after: Option<Image>,
}

/// What became of events.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Archived {
    /// Written now.
    pub written: u64,
    /// There already, and the same.
    pub present: u64,
    /// Written down as tampering.
    pub tampering: u64,
}

/// What came of one event.
enum Put {
    Written,
    Present,
    /// Another stands there, with this digest if S3 tells one.
    Another(Option<Digest>),
}

/// Archives changes of the audit table in their order. May be told of one again and again. What it wrote `now` was so old.
///
/// # Errors
/// The bucket does not answer; what was archived until then stays.
pub async fn archive(objects: &dyn Objects, changes: &[Change], now: Timestamp) -> Result<Archived, Error> {
    let mut archived = Archived::default();
    let mut oldest: Option<Timestamp> = None;
    for change in changes {
        let before = archived.written;
        take(objects, change, &mut archived).await?;
        let written = (archived.written > before).then(|| change.after.as_ref()?.event.as_deref().and_then(moment));
        oldest = oldest.into_iter().chain(written.flatten()).min();
    }
    if let Some(oldest) = oldest {
        tell(&Measurement::of(Metric::ArchiveLag, f64::from(oldest.seconds_until(now))));
    }
    Ok(archived)
}

async fn take(objects: &dyn Objects, change: &Change, archived: &mut Archived) -> Result<(), Error> {
    let place = place(&change.pk, &change.sk);
    let digest = |image: &Option<Image>| image.as_ref().and_then(|image| image.event.as_deref()).map(of);
    let found = change.after.as_ref().and_then(|image| image.event.clone());
    let noticed = |kind, before, after| Tampering {
        schema: TamperingSchema::V1,
        kind,
        pk: change.pk.clone(),
        sk: change.sk.clone(),
        before,
        after,
        found: found.clone(),
        stream_record: Some(change.id.clone()),
    };
    let (before, after) = (digest(&change.before), digest(&change.after));
    // What was there before comes first, should the archive not have it yet: a place is filled once.
    let image = change.before.as_ref().or(change.after.as_ref());
    let sound = match (&place, image.and_then(sound)) {
        (Some((chain, seq)), Some(bytes)) => {
            match put(objects, chain, *seq, bytes).await? {
                Put::Written => archived.written += 1,
                Put::Present => archived.present += 1,
                Put::Another(there) => {
                    let record = noticed(TamperingKind::Different, there, after);
                    note(objects, &record, archived).await?;
                }
            }
            true
        }
        _ => false,
    };
    let kind = match (&change.before, &change.after) {
        (Some(_), Some(_)) => Some(TamperingKind::Modified),
        (Some(_), None) => Some(TamperingKind::Removed),
        (None, _) if !sound => Some(TamperingKind::Invalid),
        (None, _) => None,
    };
    if let Some(kind) = kind {
        note(objects, &noticed(kind, before, after), archived).await?;
    }
    Ok(())
}

/// The chain and place of an item's keys, if they are those of an event.
fn place(pk: &str, sk: &str) -> Option<(Chain, u64)> {
    let chain: Chain = pk.parse().ok()?;
    Some((chain, parse_place(sk)?))
}

/// The bytes of an image, if their digest is the one beside them.
fn sound(image: &Image) -> Option<&str> {
    let bytes = image.event.as_deref().filter(|bytes| bytes.len() <= EVENT_LIMIT)?;
    (image.digest.as_deref() == Some(of(bytes).to_string().as_str())).then_some(bytes)
}

fn of(bytes: &str) -> Digest {
    Digest::of(bytes.as_bytes())
}

async fn put(objects: &dyn Objects, chain: &Chain, seq: u64, bytes: &str) -> Result<Put, Error> {
    let key = event_key(chain, seq);
    match objects.put_new(&key, bytes.as_bytes().to_vec()).await? {
        PutOutcome::Written { .. } => Ok(Put::Written),
        PutOutcome::Exists => compare(objects, &key, &of(bytes)).await,
    }
}

/// What stands in the archive under a key, held against a digest.
async fn compare(objects: &dyn Objects, key: &str, digest: &Digest) -> Result<Put, Error> {
    match objects.head(key).await? {
        Some((_, Some(there))) if there == *digest => Ok(Put::Present),
        Some((_, there)) => Ok(Put::Another(there)),
        // Refused as there, and then not there: a delete marker, or a write that was given up.
        None => Err(ObjectError::Unavailable { key: key.to_owned(), error: "it came and went".to_owned() }.into()),
    }
}

/// Writes tampering down, once, and says so where an alarm hears it.
async fn note(objects: &dyn Objects, record: &Tampering, archived: &mut Archived) -> Result<(), Error> {
    let (key, bytes) = record.seal()?;
    objects.put_new(&key, bytes.into_bytes()).await?;
    archived.tampering += 1;
    tell(&Measurement::of(Metric::AuditTampering, 1.0));
    let run = record.pk.strip_prefix("run/");
    tracing::error!(run, chain = record.pk, place = record.sk, kind = ?record.kind, "tampering with the audit was noticed");
    Ok(())
}

/// How many events are read at a time.
const PAGE: u64 = 100;

/// Holds table and archive against each other: the events since `since` of all chains that have moved since. What the
/// archive lacks is filled in.
///
/// # Errors
/// AWS does not answer.
pub async fn backfill(
    store: &dyn Store,
    objects: &dyn Objects,
    since: Timestamp,
    now: Timestamp,
) -> Result<Archived, Error> {
    let mut archived = Archived::default();
    for (chain, head) in moved_since(store, since, now).await? {
        let mut until = head.seq;
        // From the end backwards, page by page, as far as `since`.
        while until > 0 {
            let from = until.saturating_sub(PAGE - 1).max(1);
            let limit = usize::try_from(until + 1 - from).unwrap_or(usize::MAX);
            let events = store.events(&chain, from, limit).await?;
            for seq in from..=until {
                match events.iter().find(|event| event.seq == seq) {
                    Some(event) => fill(objects, &chain, event, &mut archived).await?,
                    None => lacking(objects, &chain, seq, &mut archived).await?,
                }
            }
            if events.first().is_some_and(|event| older(event, since)) {
                break;
            }
            until = from - 1;
        }
    }
    let gaps = f64::from(u32::try_from(archived.written).unwrap_or(u32::MAX));
    tell(&Measurement::of(Metric::AuditGaps, gaps));
    if archived.written > 0 {
        tracing::error!(events = archived.written, "the archive lacked events: the stream did not bring them");
    }
    Ok(archived)
}

fn older(event: &StoredEvent, since: Timestamp) -> bool {
    moment(&event.bytes).is_some_and(|at| at < since)
}

/// When an event happened, if its bytes are one.
fn moment(bytes: &str) -> Option<Timestamp> {
    untrusted::parse::<AuditEvent>("audit event", bytes.as_bytes(), EVENT_LIMIT).ok().map(|event| event.at)
}

async fn fill(objects: &dyn Objects, chain: &Chain, event: &StoredEvent, archived: &mut Archived) -> Result<(), Error> {
    let digest = of(&event.bytes);
    let key = event_key(chain, event.seq);
    let outcome = match objects.head(&key).await? {
        Some((_, Some(there))) if there == digest => Put::Present,
        Some((_, there)) => Put::Another(there),
        None if digest == event.digest => put(objects, chain, event.seq, &event.bytes).await?,
        None => Put::Another(None),
    };
    match outcome {
        Put::Written => archived.written += 1,
        Put::Present => archived.present += 1,
        Put::Another(there) => {
            let kind = if digest == event.digest { TamperingKind::Different } else { TamperingKind::Invalid };
            let found = Some(event.bytes.clone());
            note(objects, &seen(chain, event.seq, kind, there, Some(digest), found), archived).await?;
        }
    }
    Ok(())
}

async fn lacking(objects: &dyn Objects, chain: &Chain, seq: u64, archived: &mut Archived) -> Result<(), Error> {
    let there = objects.head(&event_key(chain, seq)).await?.and_then(|(_, digest)| digest);
    note(objects, &seen(chain, seq, TamperingKind::Missing, there, None, None), archived).await
}

fn seen(
    chain: &Chain,
    seq: u64,
    kind: TamperingKind,
    before: Option<Digest>,
    after: Option<Digest>,
    found: Option<String>,
) -> Tampering {
    let (schema, pk, sk) = (TamperingSchema::V1, chain.to_string(), place_key(seq));
    Tampering { schema, kind, pk, sk, before, after, found, stream_record: None }
}
