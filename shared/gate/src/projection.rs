//! The projection: the only representation of a change that may leave (`R23`-`R29`).
//!
//! It is made of the allow-listed fields of a plan document and of nothing else; every value in it is known, unknown
//! or sensitive. Its canonical bytes are what everyone gets, reviewer, chat and command line alike (`R28`), and their
//! digest is what an approval names.

mod marks;
mod names;
mod plan_shape;
mod shape;
mod view;
mod write;

use crate::digest::Digest;
use crate::document::PlanDocument;
use crate::documents::Withheld;
use crate::echo::Masked;
use crate::pattern::{Pattern, PatternError};

pub(crate) use names::Names;
pub(crate) use plan_shape::plan_shape;
pub(crate) use shape::count;
pub use shape::{Attribute, Counts, OutputChange, ResourceChange, Shown};
pub use view::{ProjectionView, ViewError};

use marks::{Lens, collect};

/// Attributes that a workspace never shows, whatever the engine says of them. A further mask: it can hide and never
/// reveal.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Withhold {
    rules: Vec<(Vec<Pattern>, Vec<Pattern>)>,
}

impl Withhold {
    /// Nothing is withheld besides what the engine masks.
    #[must_use]
    pub const fn nothing() -> Self {
        Self { rules: Vec::new() }
    }

    /// Withholds what the rules of a policy or a work order say.
    ///
    /// # Errors
    /// If one of the patterns is none.
    pub fn of(rules: &[Withheld]) -> Result<Self, PatternError> {
        let patterns = |texts: &[String]| texts.iter().map(Pattern::new).collect::<Result<Vec<_>, _>>();
        let rules = rules.iter().map(|rule| Ok((patterns(&rule.types)?, patterns(&rule.paths)?)));
        Ok(Self { rules: rules.collect::<Result<_, _>>()? })
    }

    /// Also withholds what stands at or under a path matching one of `paths` in resources whose type matches one of
    /// `types`.
    #[must_use]
    pub fn and(mut self, types: Vec<Pattern>, paths: Vec<Pattern>) -> Self {
        self.rules.push((types, paths));
        self
    }

    /// The path patterns that hold for resources of the type `kind`.
    fn paths_for(&self, kind: &str) -> Vec<&Pattern> {
        let rules = self.rules.iter().filter(|(types, _)| types.iter().any(|pattern| pattern.matches(kind)));
        rules.flat_map(|(_, paths)| paths).collect()
    }
}

/// A projection, as canonical bytes. It is always whole: there is no way to make a truncated one (`R27`).
#[derive(Clone, PartialEq, Eq)]
pub struct Projection {
    bytes: Vec<u8>,
    counts: Counts,
    names: Names,
}

impl Projection {
    /// Projects a plan document. The same document gives the same bytes on every machine.
    #[must_use]
    pub fn of(document: &PlanDocument<'_>, withhold: &Withhold) -> Self {
        let planned = document.planned();
        let mut masked = Masked::default();
        for row in &planned.rows {
            let withheld = withhold.paths_for(&row.kind);
            if row.is_masked() || !withheld.is_empty() {
                collect(&row.with_values(!withheld.is_empty()), &withheld, &mut masked);
            }
        }
        for output in &planned.outputs {
            if let (false, Some(after)) = (output.after_sensitive.is_clear(), &output.after) {
                masked.take(after);
            }
        }
        let echoes = masked.echoes();
        // What is only in findings comes last, and so changes no byte of what is shown.
        let facts = document.facts();
        let rows = planned.rows.iter().map(|row| &row.address);
        let names = Names::of(rows.chain(&facts.drift).chain(&facts.failed_checks).map(AsRef::as_ref), &echoes);

        let shown = || planned.rows.iter().filter(|row| !row.change.actions.is_no_op());
        let counts = count(shown().map(|row| &row.change.actions));
        let mut bytes = Vec::new();
        write::open(&mut bytes, counts);
        write::outputs(&mut bytes, planned.outputs.iter().map(|output| marks::output(output, &echoes)));
        write::resources(
            &mut bytes,
            shown().map(|row| {
                let withheld = withhold.paths_for(&row.kind);
                ResourceChange {
                    address: names.shown(&row.address).into(),
                    kind: row.kind.as_ref().into(),
                    actions: row.change.actions.clone(),
                    attributes: Lens::new(&echoes, &withheld).attributes(&row.change),
                }
            }),
        );
        write::close(&mut bytes);
        Self { bytes, counts, names }
    }

    /// The canonical bytes, for every consumer (`R28`).
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The canonical bytes, given away.
    #[must_use]
    pub fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }

    /// The digest of the bytes: what an approver approves and what a reviewer's record names (`R42`).
    #[must_use]
    pub fn digest(&self) -> Digest {
        Digest::of(&self.bytes)
    }

    /// The addresses of the document as they are shown, in findings too.
    pub(crate) const fn names(&self) -> &Names {
        &self.names
    }

    /// How many resources are created, updated, deleted and replaced.
    #[must_use]
    pub const fn counts(&self) -> Counts {
        self.counts
    }
}

/// A projection may be shown to everyone it is meant for, but debug output ends in logs.
impl std::fmt::Debug for Projection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Projection").field("bytes", &self.bytes.len()).field("counts", &self.counts).finish()
    }
}

#[cfg(test)]
mod tests;
