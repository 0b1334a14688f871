//! Vectors: what a decision core has to say about given inputs. The cases of `vectors/`, run on this one.
//!
//! The files come as bytes; who reads them from a folder stands outside.

use serde::Deserialize;

use crate::digest::Digest;
use crate::document::{DocumentError, PlanDocument, PlanExit, PlanOutcome};
use crate::documents::Withheld;
use crate::guardrails::{GuardContext, Guardrails, RuleEngine};
use crate::policy::Policy;
use crate::projection::{Projection, ProjectionView, Withhold};
use crate::run::FindingRecord;
use crate::untrusted::{self, UntrustedError};
use crate::verdict::{Judgement, Verdict};

/// The most that `case.json` may have, in bytes.
const CASE_LIMIT: usize = 256 * 1024;

/// The files of one case; all but `case.json` may be absent.
#[derive(Debug, Clone, Copy, Default)]
pub struct CaseFiles<'f> {
    /// `case.json`: the inputs that are no files, and what is expected.
    pub case: &'f [u8],
    /// `document.json`: the plan document.
    pub document: Option<&'f [u8]>,
    /// `policy.json`: the policy that judges.
    pub policy: Option<&'f [u8]>,
    /// `verdict.json`: a reviewer's answer.
    pub verdict: Option<&'f [u8]>,
    /// `projection.json`: the projection's exact bytes.
    pub projection: Option<&'f [u8]>,
}

/// A case that holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Held {
    /// What the case shows.
    pub title: String,
    /// How many things it expected.
    pub checks: usize,
}

/// Why a case does not hold.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Broken {
    /// `case.json` does not follow its schema.
    #[error(transparent)]
    Case(#[from] UntrustedError),
    /// It cannot be run, or expects nothing.
    #[error("the case {0}")]
    Unfit(&'static str),
    /// Something else was given than is expected.
    #[error("{what}: expected {expected}, got {given}")]
    Differs {
        /// Of what.
        what: &'static str,
        /// What the case says.
        expected: String,
        /// What this core says.
        given: String,
    },
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    title: String,
    shows: Vec<String>,
    exit_code: Option<u8>,
    #[serde(default)]
    withhold: Vec<Withheld>,
    #[serde(default)]
    manages_gate: bool,
    expected: Expected,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Expected {
    document: Option<String>,
    outcome: Option<String>,
    projection: Option<Digest>,
    eligible: Option<bool>,
    #[serde(default)]
    findings: Vec<FindingRecord>,
    verdict: Option<String>,
    #[serde(default)]
    absent: Vec<String>,
}

impl CaseFiles<'_> {
    /// Runs the case; `engine` evaluates rules of a workspace's own.
    ///
    /// # Errors
    /// [`Broken`]: the first thing that is not as the case says.
    pub fn run(&self, engine: &dyn RuleEngine) -> Result<Held, Broken> {
        let case: Case = untrusted::parse("case", self.case, CASE_LIMIT)?;
        if case.title.is_empty() || case.shows.is_empty() {
            return Err(Broken::Unfit("does not say what it shows"));
        }
        let mut checks = 0;
        if let Some(bytes) = self.document {
            checks += self.document(engine, bytes, &case)?;
        } else if self.policy.is_some() || self.projection.is_some() {
            return Err(Broken::Unfit("has no document"));
        }
        if let Some(bytes) = self.verdict {
            let said = match Verdict::parse_untrusted(bytes, []).map(|verdict| verdict.decision()) {
                Ok(Judgement::Approve) => "approve",
                Ok(Judgement::Escalate) | Err(_) => "escalate",
            };
            same("the verdict", case.expected.verdict.as_deref(), Some(said))?;
            checks += 1;
        } else if case.expected.verdict.is_some() {
            return Err(Broken::Unfit("has no verdict"));
        }
        if checks == 0 {
            return Err(Broken::Unfit("expects nothing"));
        }
        Ok(Held { title: case.title, checks })
    }

    fn document(&self, engine: &dyn RuleEngine, bytes: &[u8], case: &Case) -> Result<usize, Broken> {
        let expected = &case.expected;
        let document = PlanDocument::parse_untrusted(bytes);
        let reason = document.as_ref().err().map(DocumentError::reason);
        same("the document", expected.document.as_deref(), reason)?;
        let mut checks = usize::from(reason.is_some());
        let withhold =
            Withhold::of(&case.withhold).map_err(|_| Broken::Unfit("withholds by a pattern that is none"))?;
        let projection = document.as_ref().ok().map(|document| Projection::of(document, &withhold));
        let mut failed = None;
        if let (Some(code), Ok(document)) = (case.exit_code, &document) {
            let exit =
                PlanExit::try_from(code).map_err(|_| Broken::Unfit("has an exit code that is neither 0 nor 2"))?;
            let outcome = match document.outcome(exit) {
                Ok(PlanOutcome::Changes) => "changes",
                Ok(PlanOutcome::NoChanges) => "no_changes",
                Err(error) => failed.insert(error).reason(),
            };
            same("the outcome", expected.outcome.as_deref(), Some(outcome))?;
            checks += 1;
        } else if expected.outcome.is_some() {
            return Err(Broken::Unfit("expects an outcome and has no exit code"));
        }
        checks += self.projection(projection.as_ref(), expected)?;
        if let Some(bytes) = self.policy {
            let policy = Policy::parse_untrusted(bytes).map_err(|_| Broken::Unfit("has a policy that is none"))?;
            let context = GuardContext { manages_gate: case.manages_gate, ..GuardContext::default() };
            // A run that fails is judged by why: its document gives no projection to anybody.
            let (judged, shown) = match &failed {
                Some(error) => (Err(error), None),
                None => (document.as_ref(), projection.as_ref()),
            };
            let outcome = Guardrails::evaluate_with(engine, judged, shown, &policy, &context);
            same("the findings", Some(&expected.findings), Some(&outcome.record(policy.digest(), None).findings))?;
            same("eligibility", expected.eligible, Some(outcome.is_eligible()))?;
            checks += 1;
        } else if expected.eligible.is_some() || !expected.findings.is_empty() {
            return Err(Broken::Unfit("has no policy"));
        }
        Ok(checks)
    }

    fn projection(&self, projection: Option<&Projection>, expected: &Expected) -> Result<usize, Broken> {
        let Some(bytes) = self.projection else {
            let speaks_of_it = expected.projection.is_some() || !expected.absent.is_empty();
            return if speaks_of_it { Err(Broken::Unfit("has no projection")) } else { Ok(0) };
        };
        let given = projection.map(Projection::bytes).map(String::from_utf8_lossy);
        same("the projection", Some(String::from_utf8_lossy(bytes)), given)?;
        same("the projection's digest", expected.projection, projection.map(Projection::digest))?;
        ProjectionView::parse(bytes).map_err(|_| Broken::Unfit("has a projection that cannot be read back"))?;
        let shown = String::from_utf8_lossy(bytes);
        if expected.absent.iter().any(|text| shown.contains(text)) {
            return Err(Broken::Unfit("shows in its projection what may not stand there"));
        }
        Ok(1)
    }
}

/// Requires that what is given is what is expected.
fn same<T: PartialEq + std::fmt::Debug>(
    what: &'static str,
    expected: Option<T>,
    given: Option<T>,
) -> Result<(), Broken> {
    if expected == given {
        return Ok(());
    }
    let told = |side: Option<T>| side.map_or_else(|| "nothing".to_owned(), |side| format!("{side:?}"));
    Err(Broken::Differs { what, expected: told(expected), given: told(given) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::guardrails::NoRuleEngine;

    const DOCUMENT: &[u8] = br#"{"format_version":"1.2","resource_changes":[]}"#;

    fn run(case: &str, document: Option<&[u8]>) -> Result<Held, Broken> {
        CaseFiles { case: case.as_bytes(), document, ..CaseFiles::default() }.run(&NoRuleEngine)
    }

    #[test]
    fn a_case_that_expects_something_else_is_broken() {
        let case = |outcome: &str| {
            format!(r#"{{"title":"t","shows":["V13"],"exit_code":0,"expected":{{"outcome":"{outcome}"}}}}"#)
        };
        assert_eq!(run(&case("no_changes"), Some(DOCUMENT)).unwrap().checks, 1);
        assert_eq!(
            run(&case("changes"), Some(DOCUMENT)).unwrap_err().to_string(),
            r#"the outcome: expected "changes", got "no_changes""#
        );
    }

    #[test]
    fn a_case_that_expects_nothing_holds_nothing() {
        let nothing = r#"{"title":"t","shows":["V13"],"expected":{}}"#;
        assert_eq!(run(nothing, Some(DOCUMENT)), Err(Broken::Unfit("expects nothing")));
        let untold = r#"{"title":"t","shows":["V13"],"expected":{"eligible":true}}"#;
        assert_eq!(run(untold, Some(DOCUMENT)), Err(Broken::Unfit("has no policy")));
        assert!(matches!(run(r#"{"title":"t","shows":[],"expectd":{}}"#, None), Err(Broken::Case(_))));
    }
}
