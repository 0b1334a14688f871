//! The plan document, read into types that have no field for anything that nobody may see (`R23`, `R24`).
//!
//! Two readings are kept apart. [`Planned`] is what a projection is made of: the fields of the specification's
//! allow-list and no other. [`GuardFacts`] is what the guardrails may know besides, and holds no value of any
//! attribute. Everything else in the document is passed over and never held.

mod configuration;
mod facts;
mod outcome;
mod rows;

use std::fmt;

use crate::json::{Kind, Read, ReadError, Reader};

pub(crate) use facts::GuardFacts;
pub use outcome::{PlanExit, PlanOutcome};
pub(crate) use rows::{Change, Output, Planned, Row};

/// Why a plan document gives no projection, or no outcome. Says where and never what: the text may be a secret.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DocumentError {
    /// It is not a plan document at all (V12).
    #[error("the plan document cannot be read: {problem} at byte {offset}{}", in_place(.place))]
    Unparseable {
        /// What is wrong.
        problem: &'static str,
        /// Byte offset from the start of the document.
        offset: usize,
        /// The place, in the format's own names and positions; empty at the top.
        place: String,
    },
    /// It says that it is of another format version than 1, or does not say.
    #[error("the plan document's format version is not 1")]
    FormatUnsupported,
    /// The engine says in it that planning failed.
    #[error("the plan document says that planning failed")]
    Errored,
    /// The engine's exit code says the opposite of the document (`R14`).
    #[error("the engine's exit code and its plan document disagree on whether there are changes")]
    Inconsistent,
}

fn in_place(place: &str) -> String {
    if place.is_empty() { String::new() } else { format!(", in `{place}`") }
}

impl DocumentError {
    /// The stable code for records, findings and answers.
    #[must_use]
    pub const fn reason(&self) -> &'static str {
        match self {
            Self::Unparseable { .. } => "plan-unparseable",
            Self::FormatUnsupported => "plan-format-unsupported",
            Self::Errored => "plan-errored",
            Self::Inconsistent => "plan-inconsistent",
        }
    }
}

impl From<ReadError> for DocumentError {
    fn from(error: ReadError) -> Self {
        if error.problem == FORMAT {
            return Self::FormatUnsupported;
        }
        Self::Unparseable { problem: error.problem, offset: error.offset, place: error.place }
    }
}

const FORMAT: &str = "a format version that is not supported";

/// A plan document that has been read. It borrows from the bytes it was read from.
pub struct PlanDocument<'a> {
    planned: Planned<'a>,
    facts: GuardFacts<'a>,
    errored: bool,
}

impl<'a> PlanDocument<'a> {
    /// Reads the engine's machine-readable plan (`show -json`), of format version 1.
    ///
    /// # Errors
    /// [`DocumentError::Unparseable`] if it is not exactly one JSON object of that shape, in UTF-8: a state, a log line
    /// before it, text after it, a key twice in an object that is read, a mask that is no mask.
    /// [`DocumentError::FormatUnsupported`] if the version is another or missing.
    pub fn parse_untrusted(bytes: &'a [u8]) -> Result<Self, DocumentError> {
        let mut reader = Reader::new(bytes)?;
        let mut format = false;
        // A state, a provider schema and a plan all carry a format version; only a plan has one of these.
        let mut plan = false;
        let mut state = false;
        let mut errored = false;
        let mut planned = Planned::default();
        let mut facts = GuardFacts::default();
        reader.object(|r, key| {
            let name = key.as_ref();
            plan |= matches!(name, "resource_changes" | "output_changes" | "planned_values" | "configuration");
            state |= matches!(name, "values" | "lineage");
            match name {
                "format_version" => {
                    supported(r)?;
                    format = true;
                    Ok(())
                }
                "errored" => {
                    errored = r.bool()?;
                    Ok(())
                }
                "resource_changes" => planned.read_rows(r, &mut facts),
                "output_changes" => planned.read_outputs(r),
                other => facts.read_section(other, r),
            }
            .map_err(|error| if is_section(name) { error.within(name) } else { error })
        })?;
        reader.end()?;
        let elsewhere = |problem| Err(DocumentError::Unparseable { problem, offset: 0, place: String::new() });
        if state {
            return elsewhere("a state and not a plan");
        }
        if !format {
            return Err(DocumentError::FormatUnsupported);
        }
        if !plan {
            return elsewhere("a JSON document that is not a plan");
        }
        Ok(Self { planned, facts, errored })
    }

    /// What a projection is made of.
    pub(crate) const fn planned(&self) -> &Planned<'a> {
        &self.planned
    }

    /// What guardrails may know besides.
    pub(crate) const fn facts(&self) -> &GuardFacts<'a> {
        &self.facts
    }

    /// Whether the engine says that planning failed.
    #[must_use]
    pub const fn errored(&self) -> bool {
        self.errored
    }
}

/// Tells how much was read and nothing of it.
impl fmt::Debug for PlanDocument<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PlanDocument")
            .field("rows", &self.planned.rows.len())
            .field("outputs", &self.planned.outputs.len())
            .field("errored", &self.errored)
            .finish_non_exhaustive()
    }
}

/// Whether an error may name this top-level key: the format's own names only.
fn is_section(name: &str) -> bool {
    const SECTIONS: [&str; 10] = [
        "format_version",
        "errored",
        "resource_changes",
        "output_changes",
        "resource_drift",
        "configuration",
        "checks",
        "complete",
        "deferred_changes",
        "action_invocations",
    ];
    SECTIONS.contains(&name)
}

fn supported(reader: &mut Reader<'_>) -> Read<()> {
    let wrong = reader.error(FORMAT);
    if reader.kind()? != Kind::String {
        return Err(wrong);
    }
    let version = reader.string()?;
    let minor = version.strip_prefix("1.").unwrap_or_default();
    if !minor.is_empty() && minor.len() <= 6 && minor.bytes().all(|b| b.is_ascii_digit()) { Ok(()) } else { Err(wrong) }
}

#[cfg(test)]
mod tests;
