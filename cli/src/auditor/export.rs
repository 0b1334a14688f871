//! Reads the stores as they are, with the auditor's own credentials: no part of the gate runs.
//!
//! The order makes sure that what goes on meanwhile looks like nothing else: first the witnesses, then the archive, then the
//! table, which thus has at least what the others have; and at last the ends of the chains, with the events that have come
//! until then.

use std::collections::{BTreeMap, HashMap};

use aws_sdk_dynamodb::types::AttributeValue;
use plangate_gate::audit::archive::{
    EVENTS, TAMPERING, WITNESSES, parse_event_key, parse_place, parse_witness_key, place_key,
};
use plangate_gate::audit::history::{ArchivedEvent, TableEvent};
use plangate_gate::audit::{Chain, EVENT_LIMIT, witness};
use plangate_gate::run::ChainHead;

use super::folder::{ExportSchema, Folder, Head, Noticed, Store, Stray, Summary};
use crate::args::Stores;
use crate::console::Console;
use crate::error::CliError;
use crate::sign;
use crate::watch::now;

/// How many objects are fetched at the same time.
const AT_ONCE: usize = 16;
/// How often the events after the last one are asked for, while the chain's end says that there are some.
const CATCHES: usize = 5;

/// Exports the stores to `folder`.
///
/// # Errors
/// A store does not answer or refuses, or a file cannot be written.
pub(super) fn export(stores: &Stores, folder: &Folder, console: &Console) -> Result<Summary, CliError> {
    let bucket = stores.archive.clone().filter(|name| !name.is_empty()).ok_or_else(|| {
        CliError::Usage(
            "no archive: set --archive, or PLANGATE_ARCHIVE, to the bucket's name (output ArchiveBucket of the gate's stack)"
                .to_owned(),
        )
    })?;
    let (runtime, config) = sign::aws(None)?;
    let clients = Clients {
        dynamodb: aws_sdk_dynamodb::Client::new(&config),
        s3: aws_sdk_s3::Client::new(&config),
        table: stores.gate.clone(),
        audit_table: format!("{}-audit", stores.gate),
        bucket,
        console,
    };
    runtime.block_on(clients.export(folder))
}

struct Clients<'a> {
    dynamodb: aws_sdk_dynamodb::Client,
    s3: aws_sdk_s3::Client,
    table: String,
    audit_table: String,
    bucket: String,
    console: &'a Console,
}

/// An object: its oldest version, and how many lie over it.
#[derive(Debug, Clone, Default)]
struct Found {
    oldest: Option<String>,
    versions: u64,
    markers: u64,
}

type Chains = BTreeMap<(bool, String), (Chain, u64)>;

impl Clients<'_> {
    async fn export(&self, folder: &Folder) -> Result<Summary, CliError> {
        let began_at = now()?;
        let witnesses = self.witnesses(folder).await?;
        self.noticed(folder).await?;
        let mut chains = Chains::new();
        let archive = self.archive(folder, &mut chains).await?;
        let mut table = self.table(folder, &mut chains).await?;
        // Ledgers before runs: what a ledger tells of a run has happened to the run when that is read.
        for (chain, last) in chains.values() {
            table += self.end(folder, chain, *last).await?;
        }
        let summary = Summary {
            schema: ExportSchema::V1,
            began_at,
            audit_table: self.audit_table.clone(),
            archive_bucket: self.bucket.clone(),
            table,
            archive,
            witnesses,
        };
        folder.describe(&summary)?;
        Ok(summary)
    }

    async fn witnesses(&self, folder: &Folder) -> Result<u64, CliError> {
        let mut number = 0;
        let mut pages = Pages::new(WITNESSES);
        while let Some(page) = self.page(&mut pages).await? {
            for piece in page.chunks(AT_ONCE) {
                for (key, found, bytes) in self.fetch(piece, witness::WITNESS_LIMIT as u64).await? {
                    match parse_witness_key(&key) {
                        Some(seq) => {
                            number += 1;
                            folder.append("witnesses.jsonl", &[archived(seq, &found, bytes)])?;
                        }
                        None => folder.append("strays.jsonl", &[Stray { source: Store::Archive, key }])?,
                    }
                }
            }
        }
        Ok(number)
    }

    async fn noticed(&self, folder: &Folder) -> Result<(), CliError> {
        let mut pages = Pages::new(TAMPERING);
        while let Some(page) = self.page(&mut pages).await? {
            for piece in page.chunks(AT_ONCE) {
                for (key, _, record) in self.fetch(piece, 4 * EVENT_LIMIT as u64).await? {
                    folder.append("noticed.jsonl", &[Noticed { key, record }])?;
                }
            }
        }
        Ok(())
    }

    async fn archive(&self, folder: &Folder, chains: &mut Chains) -> Result<u64, CliError> {
        let mut number = 0;
        let mut pages = Pages::new(EVENTS);
        while let Some(page) = self.page(&mut pages).await? {
            for piece in page.chunks(AT_ONCE) {
                let mut lines: BTreeMap<String, Vec<ArchivedEvent>> = BTreeMap::new();
                for (key, found, bytes) in self.fetch(piece, EVENT_LIMIT as u64).await? {
                    let Some((chain, seq)) = parse_event_key(&key) else {
                        folder.append("strays.jsonl", &[Stray { source: Store::Archive, key }])?;
                        continue;
                    };
                    number += 1;
                    lines.entry(Folder::of("archive", &chain)).or_default().push(archived(seq, &found, bytes));
                    chains.entry((matches!(chain, Chain::Run(_)), chain.to_string())).or_insert((chain, 0));
                }
                for (file, lines) in lines {
                    folder.append(&file, &lines)?;
                }
                self.console.status(&format!("archive: {number} events"));
            }
        }
        Ok(number)
    }

    /// The next page of a listing: keys with their oldest version, in order.
    async fn page(&self, pages: &mut Pages) -> Result<Option<Vec<(String, Found)>>, CliError> {
        loop {
            if pages.done {
                let rest: Vec<_> = std::mem::take(&mut pages.held).into_iter().collect();
                return Ok(if rest.is_empty() { None } else { Some(rest) });
            }
            let answer = self
                .s3
                .list_object_versions()
                .bucket(&self.bucket)
                .prefix(pages.prefix)
                .set_key_marker(pages.key.take())
                .set_version_id_marker(pages.version.take())
                .send()
                .await
                .map_err(|error| refused(&self.bucket, &error))?;
            for version in answer.versions.unwrap_or_default() {
                let found = pages.held.entry(version.key.unwrap_or_default()).or_default();
                // Newest first: the last that is told of is the oldest.
                found.oldest = version.version_id;
                found.versions += 1;
            }
            for marker in answer.delete_markers.unwrap_or_default() {
                pages.held.entry(marker.key.unwrap_or_default()).or_default().markers += 1;
            }
            pages.done = !answer.is_truncated.unwrap_or_default();
            pages.key = answer.next_key_marker;
            pages.version = answer.next_version_id_marker;
            // The last key may have more versions on the next page.
            let last = pages.held.pop_last();
            let page: Vec<_> = std::mem::take(&mut pages.held).into_iter().collect();
            pages.held.extend(last);
            if !page.is_empty() {
                return Ok(Some(page));
            }
        }
    }

    /// The oldest version of each of these objects. One of which only delete markers are left counts as empty.
    async fn fetch(&self, piece: &[(String, Found)], limit: u64) -> Result<Vec<(String, Found, String)>, CliError> {
        let mut handles: Vec<tokio::task::JoinHandle<Result<String, CliError>>> = Vec::new();
        for (key, found) in piece {
            let request = self.s3.get_object().bucket(&self.bucket).key(key).set_version_id(found.oldest.clone());
            let (bucket, there) = (self.bucket.clone(), found.versions > 0);
            handles.push(tokio::spawn(async move {
                if !there {
                    return Ok(String::new());
                }
                let mut answer = request.send().await.map_err(|error| refused(&bucket, &error))?;
                let mut bytes = Vec::new();
                while let Some(piece) = answer.body.next().await {
                    let piece = piece.map_err(|_| unanswered(&bucket, "the answer was cut off"))?;
                    bytes.extend_from_slice(&piece);
                    if bytes.len() as u64 > limit {
                        // Too large to be what belongs there; what is kept is enough to see that.
                        break;
                    }
                }
                Ok(String::from_utf8_lossy(&bytes).into_owned())
            }));
        }
        let mut fetched = Vec::new();
        for ((key, found), handle) in piece.iter().zip(handles) {
            let bytes = handle.await.map_err(|error| CliError::Machine(error.to_string()))??;
            fetched.push((key.clone(), found.clone(), bytes));
        }
        Ok(fetched)
    }

    async fn table(&self, folder: &Folder, chains: &mut Chains) -> Result<u64, CliError> {
        let mut number = 0;
        let mut start = None;
        loop {
            let scan = self.dynamodb.scan().table_name(&self.audit_table).consistent_read(true);
            let answer =
                scan.set_exclusive_start_key(start).send().await.map_err(|error| refused(&self.audit_table, &error))?;
            let mut lines: BTreeMap<String, Vec<TableEvent>> = BTreeMap::new();
            for item in answer.items.unwrap_or_default() {
                let (pk, sk) = (text(&item, "pk"), text(&item, "sk"));
                let (Ok(chain), Some(event)) = (pk.parse::<Chain>(), stored(&item)) else {
                    folder.append("strays.jsonl", &[Stray { source: Store::Table, key: format!("{pk} {sk}") }])?;
                    continue;
                };
                number += 1;
                let place = (matches!(chain, Chain::Run(_)), pk);
                lines.entry(Folder::of("table", &chain)).or_default().push(event.clone());
                chains.entry(place).or_insert((chain, 0)).1 = event.seq;
            }
            for (file, lines) in lines {
                folder.append(&file, &lines)?;
            }
            self.console.status(&format!("table: {number} events"));
            start = answer.last_evaluated_key;
            if start.is_none() {
                return Ok(number);
            }
        }
    }

    /// Writes a chain's end, and the events that have come since its chain was read; gives how many.
    async fn end(&self, folder: &Folder, chain: &Chain, mut last: u64) -> Result<u64, CliError> {
        let mut number = 0;
        let mut head = None;
        for _ in 0..CATCHES {
            let key = |value: String| AttributeValue::S(value);
            let answer = self
                .dynamodb
                .get_item()
                .table_name(&self.table)
                .key("pk", key(format!("CHAIN#{chain}")))
                .key("sk", key("HEAD".to_owned()))
                .consistent_read(true)
                .send()
                .await
                .map_err(|error| refused(&self.table, &error))?;
            head = answer.item.map(|item| text(&item, "body"));
            let end = head.as_deref().and_then(|body| serde_json::from_str::<ChainHead>(body).ok());
            if end.is_none_or(|end| end.seq <= last) {
                break;
            }
            let answer = self
                .dynamodb
                .query()
                .table_name(&self.audit_table)
                .consistent_read(true)
                .key_condition_expression("pk = :chain AND sk > :last")
                .expression_attribute_values(":chain", key(chain.to_string()))
                .expression_attribute_values(":last", key(place_key(last)))
                .send()
                .await
                .map_err(|error| refused(&self.audit_table, &error))?;
            let events: Vec<TableEvent> = answer.items.unwrap_or_default().iter().filter_map(stored).collect();
            let Some(event) = events.last() else { break };
            last = event.seq;
            number += events.len() as u64;
            folder.append(&Folder::of("table", chain), &events)?;
        }
        if let Some(head) = head {
            folder.append("heads.jsonl", &[Head { chain: chain.to_string(), head }])?;
        }
        Ok(number)
    }
}

/// A listing of versions, page by page.
struct Pages {
    prefix: &'static str,
    key: Option<String>,
    version: Option<String>,
    held: BTreeMap<String, Found>,
    done: bool,
}

impl Pages {
    const fn new(prefix: &'static str) -> Self {
        Self { prefix, key: None, version: None, held: BTreeMap::new(), done: false }
    }
}

fn archived(seq: u64, found: &Found, event: String) -> ArchivedEvent {
    ArchivedEvent { seq, later_versions: found.versions.saturating_sub(1) + found.markers, event }
}

fn text(item: &HashMap<String, AttributeValue>, name: &str) -> String {
    item.get(name).and_then(|value| value.as_s().ok()).cloned().unwrap_or_default()
}

/// An item as an event, if its key is that of one. What it says beyond that is the verification's to judge.
fn stored(item: &HashMap<String, AttributeValue>) -> Option<TableEvent> {
    let seq = parse_place(&text(item, "sk"))?;
    Some(TableEvent { seq, digest: text(item, "digest"), event: text(item, "event") })
}

fn unanswered(place: &str, detail: &str) -> CliError {
    CliError::Store { place: place.to_owned(), detail: detail.to_owned() }
}

/// The code of a refusal alone.
fn refused<E, R>(place: &str, error: &aws_sdk_s3::error::SdkError<E, R>) -> CliError
where
    E: aws_sdk_s3::error::ProvideErrorMetadata,
{
    use aws_sdk_s3::error::SdkError;
    let detail = match error {
        SdkError::ServiceError(service) => service.err().code().unwrap_or("an error without a code"),
        SdkError::TimeoutError(_) => "no answer in time",
        SdkError::DispatchFailure(_) => "no connection, or no credentials",
        _ => "an answer that cannot be read",
    };
    unanswered(place, detail)
}
