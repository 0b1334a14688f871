//! An export: a folder of plain files with one JSON value a line, readable without this program.
//!
//! `export.json` says when it was begun; `table/` and `archive/` have a file a chain; `heads.jsonl` the ends as the table
//! says them, `witnesses.jsonl`, `noticed.jsonl` (what the gate wrote down of tampering), and `strays.jsonl` (what stands in
//! a store and belongs to no chain).

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, ErrorKind, Read as _, Write as _};
use std::path::{Path, PathBuf};

use plangate_gate::audit::history::{ArchivedEvent, Source, TableEvent};
use plangate_gate::audit::{Chain, EVENT_LIMIT, witness};
use plangate_gate::time::Timestamp;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::error::CliError;
use crate::text::inert;

/// The most bytes that a line may have: an escaped event; a witness may be larger.
const LINE_LIMIT: u64 = 8 * EVENT_LIMIT as u64;
const WITNESS_LINE_LIMIT: u64 = 2 * witness::WITNESS_LIMIT as u64;

/// The one schema of exports.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum ExportSchema {
    /// The first.
    #[serde(rename = "plangate.audit-export.v1")]
    V1,
}

/// `export.json`
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Summary {
    /// Always `plangate.audit-export.v1`.
    pub(super) schema: ExportSchema,
    /// When the first store was asked.
    pub(super) began_at: Timestamp,
    /// The table of events.
    pub(super) audit_table: String,
    /// The bucket.
    pub(super) archive_bucket: String,
    /// How many events the table had.
    pub(super) table: u64,
    /// How many events the archive had.
    pub(super) archive: u64,
    /// How many witnesses there were.
    pub(super) witnesses: u64,
}

/// A line of `heads.jsonl`: a chain and its end, as it stands there.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Head {
    pub(super) chain: String,
    pub(super) head: String,
}

/// A line of `noticed.jsonl`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Noticed {
    pub(super) key: String,
    pub(super) record: String,
}

/// The store of a stray.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Store {
    Table,
    Archive,
}

impl From<Store> for Source {
    fn from(store: Store) -> Self {
        match store {
            Store::Table => Self::Table,
            Store::Archive => Self::Archive,
        }
    }
}

/// A line of `strays.jsonl`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Stray {
    pub(super) source: Store,
    pub(super) key: String,
}

/// The folder of an export.
#[derive(Debug)]
pub(super) struct Folder {
    path: PathBuf,
}

fn shown(path: &Path) -> String {
    inert(&path.to_string_lossy())
}

fn broken(path: &Path, detail: impl Into<String>) -> CliError {
    CliError::File { path: shown(path), detail: detail.into() }
}

impl Folder {
    /// A new folder, which must not be there yet, for its owner's eyes.
    pub(super) fn create(path: &Path) -> Result<Self, CliError> {
        let mut builder = fs::DirBuilder::new();
        #[cfg(unix)]
        std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
        builder.create(path).map_err(|source| CliError::Write { path: shown(path), source })?;
        Ok(Self { path: path.to_owned() })
    }

    /// The folder of an earlier export.
    pub(super) fn open(path: &Path) -> Result<Self, CliError> {
        let folder = Self { path: path.to_owned() };
        folder.began().map(|_| folder)
    }

    /// When the export was begun.
    pub(super) fn began(&self) -> Result<Timestamp, CliError> {
        let path = self.path.join("export.json");
        let text = fs::read(&path).map_err(|source| CliError::read(shown(&path), source))?;
        let summary: Summary =
            serde_json::from_slice(&text).map_err(|_| broken(&path, "is no description of an export"))?;
        Ok(summary.began_at)
    }

    /// Writes `export.json`.
    pub(super) fn describe(&self, summary: &Summary) -> Result<(), CliError> {
        let path = self.path.join("export.json");
        let told = |source| CliError::Write { path: shown(&path), source };
        let text = serde_json::to_string_pretty(summary).map_err(|error| told(error.into()))?;
        fs::write(&path, text + "\n").map_err(told)
    }

    /// A chain's file below `table` or `archive`.
    pub(super) fn of(store: &str, chain: &Chain) -> String {
        format!("{store}/{chain}.jsonl")
    }

    /// Adds lines to a file.
    pub(super) fn append<T: Serialize>(&self, file: &str, lines: &[T]) -> Result<(), CliError> {
        let path = self.path.join(file);
        let told = |source| CliError::Write { path: shown(&path), source };
        let mut text = Vec::new();
        for line in lines {
            serde_json::to_writer(&mut text, line).map_err(|error| told(error.into()))?;
            text.push(b'\n');
        }
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent).map_err(told)?;
        }
        let mut opened = File::options().create(true).append(true).open(&path).map_err(told)?;
        opened.write_all(&text).map_err(told)
    }

    /// All chains of table and archive, those that tell of others first.
    pub(super) fn chains(&self) -> Result<Vec<Chain>, CliError> {
        let mut found = BTreeMap::new();
        for store in ["table", "archive"] {
            for kind in ["", "ws", "run"] {
                let folder = self.path.join(store).join(kind);
                let entries = match fs::read_dir(&folder) {
                    Ok(entries) => entries,
                    Err(error) if error.kind() == ErrorKind::NotFound => continue,
                    Err(source) => return Err(CliError::read(shown(&folder), source)),
                };
                for entry in entries {
                    let path = entry.map_err(|source| CliError::read(shown(&folder), source))?.path();
                    if path.is_dir() {
                        continue;
                    }
                    let stem = path.file_name().and_then(|name| name.to_str()).and_then(|n| n.strip_suffix(".jsonl"));
                    let stem = stem.unwrap_or_default();
                    let name = if kind.is_empty() { stem.to_owned() } else { format!("{kind}/{stem}") };
                    let chain: Chain = name.parse().map_err(|_| broken(&path, "is the file of no chain"))?;
                    found.insert((matches!(chain, Chain::Run(_)), name), chain);
                }
            }
        }
        Ok(found.into_values().collect())
    }

    /// A chain's events of the table.
    pub(super) fn table(&self, chain: &Chain) -> Result<Lines<TableEvent>, CliError> {
        self.lines(&Self::of("table", chain), LINE_LIMIT)
    }

    /// A chain's events of the archive.
    pub(super) fn archive(&self, chain: &Chain) -> Result<Lines<ArchivedEvent>, CliError> {
        self.lines(&Self::of("archive", chain), LINE_LIMIT)
    }

    /// The witnesses.
    pub(super) fn witnesses(&self) -> Result<Lines<ArchivedEvent>, CliError> {
        self.lines("witnesses.jsonl", WITNESS_LINE_LIMIT)
    }

    /// What belongs to no chain.
    pub(super) fn strays(&self) -> Result<Lines<Stray>, CliError> {
        self.lines("strays.jsonl", LINE_LIMIT)
    }

    /// What the gate noticed.
    pub(super) fn noticed(&self) -> Result<Lines<Noticed>, CliError> {
        self.lines("noticed.jsonl", LINE_LIMIT)
    }

    /// The ends, by chain.
    pub(super) fn heads(&self) -> Result<BTreeMap<String, String>, CliError> {
        let lines: Lines<Head> = self.lines("heads.jsonl", LINE_LIMIT)?;
        lines.map(|line| line.map(|line| (line.chain, line.head))).collect()
    }

    fn lines<T>(&self, file: &str, limit: u64) -> Result<Lines<T>, CliError> {
        let path = self.path.join(file);
        let reader = match File::open(&path) {
            Ok(file) => Some(BufReader::new(file)),
            Err(error) if error.kind() == ErrorKind::NotFound => None,
            Err(source) => return Err(CliError::read(shown(&path), source)),
        };
        Ok(Lines { path, reader, limit, number: 0, kind: std::marker::PhantomData })
    }
}

/// The lines of a file, read one at a time. A file that is not there has none.
#[derive(Debug)]
pub(super) struct Lines<T> {
    path: PathBuf,
    reader: Option<BufReader<File>>,
    limit: u64,
    number: u64,
    kind: std::marker::PhantomData<T>,
}

impl<T: DeserializeOwned> Iterator for Lines<T> {
    type Item = Result<T, CliError>;

    fn next(&mut self) -> Option<Self::Item> {
        let mut line = Vec::new();
        let read = self.reader.as_mut()?.take(self.limit).read_until(b'\n', &mut line);
        self.number += 1;
        match read {
            Ok(0) => None,
            Err(source) => Some(Err(CliError::read(shown(&self.path), source))),
            Ok(_) if line.last() != Some(&b'\n') => {
                Some(Err(broken(&self.path, format!("line {} is too long or not whole", self.number))))
            }
            Ok(_) => {
                let told = |_| broken(&self.path, format!("line {} is not what an export has there", self.number));
                Some(serde_json::from_slice(&line).map_err(told))
            }
        }
    }
}
