//! Configuration: workspaces, policies, grants and principals, read and written as documents.

use std::io::Read as _;
use std::path::Path;

use http::Method;
use plangate_gate::documents::{DocumentKind, EngineName};
use plangate_gate::ids::{RunId, WorkspaceId};
use plangate_gate::untrusted;
use plangate_wire::{AcknowledgeRequest, Document, DocumentAnswer, DocumentPut, DocumentsAnswer, Reason};
use serde::Deserialize;

use crate::api::{Api, Repeat};
use crate::args::{DocumentCommand, Put};
use crate::console::{Console, Tone};
use crate::error::CliError;
use crate::exit::Exit;
use crate::random;
use crate::standing::sheet;
use crate::text::{inert, table};

/// The most bytes of a document's file.
const FILE_LIMIT: usize = 128 * 1024;

/// A document's file. What `get --json` prints inside `document` is one too: etag and kind are then held against what
/// is there, and how the workspace stands, which is no configuration, is passed over.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct DocumentFile {
    id: String,
    namespace: String,
    owner: String,
    spec: serde_json::Value,
    #[serde(default)]
    etag: Option<String>,
    #[serde(default)]
    kind: Option<DocumentKind>,
    #[serde(default, rename = "lock")]
    _lock: serde::de::IgnoredAny,
    #[serde(default, rename = "known")]
    _known: serde::de::IgnoredAny,
    #[serde(default, rename = "drift")]
    _drift: serde::de::IgnoredAny,
}

/// The kind's place in addresses.
const fn collection(kind: DocumentKind) -> &'static str {
    match kind {
        DocumentKind::Workspace => "workspaces",
        DocumentKind::Policy => "policies",
        DocumentKind::Grant => "grants",
        DocumentKind::Principal => "principals",
    }
}

/// Reads, lists or writes documents of a kind.
///
/// # Errors
/// The gate refuses, or the file is no document.
pub(crate) fn documents(
    api: &Api<'_>,
    console: &Console,
    kind: DocumentKind,
    command: &DocumentCommand,
) -> Result<Exit, CliError> {
    match command {
        DocumentCommand::Get { id } => {
            let answer: DocumentAnswer = api.get(&["v1", collection(kind), id], &[])?;
            if console.json {
                console.out_json(&answer)?;
            } else {
                console.out(&sheet(console.paint, &answer.document)?)?;
            }
        }
        DocumentCommand::List => {
            let documents = all(api, kind)?;
            if console.json {
                console.out_json(&DocumentsAnswer { documents, cursor: None })?;
            } else if documents.is_empty() {
                console.note(&format!("no {}", collection(kind)));
            } else {
                console.out(&listing(console, kind, &documents))?;
            }
        }
        DocumentCommand::Put(args) => put(api, console, kind, args)?,
    }
    Ok(Exit::Success)
}

/// Every document of a kind that may be seen.
fn all(api: &Api<'_>, kind: DocumentKind) -> Result<Vec<Document>, CliError> {
    let mut documents = Vec::new();
    let mut cursor: Option<String> = None;
    loop {
        let query: Vec<(&str, &str)> = cursor.iter().map(|cursor| ("cursor", cursor.as_str())).collect();
        let page: DocumentsAnswer = api.get(&["v1", collection(kind)], &query)?;
        documents.extend(page.documents);
        cursor = page.cursor;
        if cursor.is_none() {
            return Ok(documents);
        }
    }
}

fn put(api: &Api<'_>, console: &Console, kind: DocumentKind, args: &Put) -> Result<(), CliError> {
    let path = args.file.to_string_lossy().into_owned();
    let bytes = read_file(&args.file, FILE_LIMIT as u64)?;
    let invalid = |detail: String| CliError::File { path: inert(&path), detail };
    let file: DocumentFile =
        untrusted::parse("document", &bytes, FILE_LIMIT).map_err(|error| invalid(error.to_string()))?;
    if file.kind.is_some_and(|named| named != kind) {
        return Err(invalid(format!("this is no {}", kind.as_str())));
    }
    let address = ["v1", collection(kind), file.id.as_str()];
    let etag = match args.etag.as_deref() {
        Some("none") => None,
        Some(etag) => Some(etag.to_owned()),
        None if file.etag.is_some() => file.etag,
        None => match api.get::<DocumentAnswer>(&address, &[]) {
            Ok(answer) => Some(answer.document.etag),
            Err(error) if error.is(Reason::NotFound) => None,
            Err(error) => return Err(error),
        },
    };
    let request = DocumentPut {
        etag,
        request_id: random::request_id()?,
        validate_only: args.validate_only,
        namespace: file.namespace,
        owner: file.owner,
        spec: file.spec,
    };
    let answer: DocumentAnswer = api.send(&Method::PUT, &address, &request, Repeat::Always)?;
    if console.json {
        console.out_json(&answer)?;
    }
    let word = if answer.committed { "written" } else { "valid, and not written" };
    console.note(&format!("{} {} {word}", kind.as_str(), inert(&answer.document.id)));
    Ok(())
}

/// Reads a file of at most `limit` bytes; `-` is standard input.
///
/// # Errors
/// It cannot be read, or is larger.
pub(crate) fn read_file(path: &Path, limit: u64) -> Result<Vec<u8>, CliError> {
    let shown = || inert(&path.to_string_lossy());
    let mut bytes = Vec::new();
    let read = if path == Path::new("-") {
        std::io::stdin().lock().take(limit + 1).read_to_end(&mut bytes)
    } else {
        std::fs::File::open(path).and_then(|file| file.take(limit + 1).read_to_end(&mut bytes))
    };
    read.map_err(|source| CliError::read(shown(), source))?;
    if bytes.len() as u64 > limit {
        return Err(CliError::File { path: shown(), detail: format!("more than {limit} bytes") });
    }
    Ok(bytes)
}

/// A workspace's id from its id or its name.
///
/// # Errors
/// No workspace, or more than one, is called so.
pub(crate) fn resolve(api: &Api<'_>, text: &str) -> Result<WorkspaceId, CliError> {
    if let Ok(id) = text.parse() {
        return Ok(id);
    }
    let documents = all(api, DocumentKind::Workspace)?;
    let called = |document: &&Document| name(document) == Some(text);
    let ids: Vec<&str> = documents.iter().filter(called).map(|document| document.id.as_str()).collect();
    match ids.as_slice() {
        [id] => id.parse().map_err(|_| CliError::NotTheGate {
            place: "the gate".to_owned(),
            detail: "a workspace with an id that is none".to_owned(),
        }),
        [] => Err(CliError::Usage(format!(
            "no workspace that you may see is called `{}`; see `plangate workspace list`",
            inert(text)
        ))),
        _ => Err(CliError::Usage(format!("more than one workspace is called `{}`: use the id", inert(text)))),
    }
}

/// A workspace's id, and its engine where that may be seen: who may propose may not always read.
///
/// # Errors
/// As [`resolve`].
pub(crate) fn with_engine(api: &Api<'_>, text: &str) -> Result<(WorkspaceId, Option<EngineName>), CliError> {
    let id = resolve(api, text)?;
    let engine = match api.get::<DocumentAnswer>(&["v1", collection(DocumentKind::Workspace), id.as_str()], &[]) {
        Ok(answer) => answer.document.spec.pointer("/engine/name").cloned(),
        Err(CliError::Refused(_) | CliError::Turned { status: 403, .. }) => None,
        Err(error) => return Err(error),
    };
    Ok((id, engine.and_then(|name| serde_json::from_value(name).ok())))
}

fn name(document: &Document) -> Option<&str> {
    document.spec.get("name").and_then(|name| name.as_str())
}

/// Lifts a quarantine.
///
/// # Errors
/// The gate refuses.
pub(crate) fn acknowledge(
    api: &Api<'_>,
    console: &Console,
    workspace: &str,
    run: RunId,
    note: String,
) -> Result<Exit, CliError> {
    let id = resolve(api, workspace)?;
    let request = AcknowledgeRequest { request_id: random::request_id()?, run, note };
    let path = ["v1", "workspaces", id.as_str(), "acknowledge"];
    let answer: serde_json::Value = api.send(&Method::POST, &path, &request, Repeat::Always)?;
    if console.json {
        console.out_json(&answer)?;
    }
    console.note(&format!("the quarantine of {id} is lifted"));
    Ok(Exit::Success)
}

fn listing(console: &Console, kind: DocumentKind, documents: &[Document]) -> String {
    let text = |value: Option<&serde_json::Value>| inert(value.and_then(|value| value.as_str()).unwrap_or("-"));
    let list = |value: Option<&serde_json::Value>| {
        let items = value.and_then(|value| value.as_array()).into_iter().flatten();
        inert(&items.filter_map(|item| item.as_str()).collect::<Vec<_>>().join(", "))
    };
    let last = match kind {
        DocumentKind::Workspace => ["NAME", "ENGINE", "LOCK"].as_slice(),
        DocumentKind::Policy => &[],
        DocumentKind::Grant => &["PERSON", "ACTIONS", "WORKSPACES"],
        DocumentKind::Principal => &["PERSON"],
    };
    let headings: Vec<&str> = ["ID", "OWNER"].into_iter().chain(last.iter().copied()).collect();
    // Where the lock stands is told of one workspace, as a rule, and not of all.
    let locks = documents.iter().any(|document| document.lock.is_some());
    let headings: Vec<&str> = headings.into_iter().filter(|name| locks || *name != "LOCK").collect();
    let rows: Vec<Vec<String>> = documents
        .iter()
        .map(|document| {
            let spec = &document.spec;
            let mut row = vec![inert(&document.id), inert(&document.owner)];
            match kind {
                DocumentKind::Workspace => row.extend([
                    text(spec.get("name")),
                    format!("{} {}", text(spec.pointer("/engine/name")), text(spec.pointer("/engine/version"))),
                    document.lock.as_ref().map_or_else(|| "-".to_owned(), |lock| inert(&lock.state)),
                ]),
                DocumentKind::Policy => {}
                DocumentKind::Grant => {
                    row.extend([text(spec.get("person")), list(spec.get("actions")), list(spec.get("workspaces"))]);
                }
                DocumentKind::Principal => row.push(text(spec.get("person"))),
            }
            row.truncate(headings.len());
            row
        })
        .collect();
    let paint = console.paint;
    let painted = |_: usize, column: usize, cell: &str| match (column, cell) {
        (4, "quarantined") => paint.tone(Tone::Bad, cell),
        _ => cell.to_owned(),
    };
    table(&headings, &rows, painted, |name| paint.tone(Tone::Dim, name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_get_prints_can_be_put_again() {
        let printed = r#"{"kind":"workspace","id":"ws-1","namespace":"n","owner":"o","etag":"e1","spec":{},"lock":{"state":"free","fence":0,"waiting":0},"known":{},"drift":{"hours":24}}"#;
        let file: DocumentFile = untrusted::parse("document", printed.as_bytes(), FILE_LIMIT).unwrap();
        assert_eq!((file.etag.as_deref(), file.kind), (Some("e1"), Some(DocumentKind::Workspace)));
        let typo = r#"{"id":"ws-1","namespace":"n","owner":"o","specs":{}}"#;
        assert!(untrusted::parse::<DocumentFile>("document", typo.as_bytes(), FILE_LIMIT).is_err());
    }
}
