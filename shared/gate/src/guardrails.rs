//! The guardrails: deterministic rules over a plan document and a policy, and the only judge of eligibility
//! (`R30`-`R35`).
//!
//! Every rule can only add reasons. No reason at all makes an [`Eligible`], which nothing else can make; and whatever
//! cannot be evaluated is a reason itself (`R32`).

mod access;
mod finding;
mod gate;
mod own;
mod rules;

use crate::digest::Digest;
use crate::document::{DocumentError, PlanDocument};
use crate::policy::Policy;
use crate::projection::Projection;
use crate::run::{FindingRecord, GuardrailRecord, RuleSetRecord};

pub use finding::{Finding, Reason};
pub use own::{Denial, NoRuleEngine, RuleEngine};

/// The findings that a run's record keeps; how many there were in all it says besides.
const RECORDED: usize = 100;
/// And how many bytes these may have there, as JSON.
const RECORDED_BYTES: usize = 64 * 1024;

/// The version of the rules below. It changes whenever any plan could be judged differently.
const VERSION: &str = "3";

/// The rules, as a set with a name: what a run's record says that it was judged by (`R33`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RuleSet {
    /// The name.
    pub id: &'static str,
    /// The version.
    pub version: &'static str,
    /// The digest over name, version, the reasons there are and the tables they go by.
    pub digest: Digest,
}

/// What the guardrails know of a run besides its document and its policy. It comes from the control plane's records,
/// never from the proposer.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct GuardContext {
    /// Whether the workspace manages the gate's own infrastructure, its rules or its policy (`R35`).
    pub manages_gate: bool,
    /// Names and ARNs of what the workspace itself rests on: its roles, state bucket, keys. A changed resource in which
    /// one of them stands touches the gate.
    pub own: Vec<String>,
}

/// What the guardrails decided.
#[derive(Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Automatic approval may be considered. Not itself an approval.
    Eligible(Eligible),
    /// A person decides. Never empty.
    Ineligible(Vec<Finding>),
}

/// Proof that the guardrails found a run eligible. Only they can make it: a reviewer cannot be called without it
/// (`R36`), and it cannot be made from what a reviewer says (`R37`, `R44`).
#[derive(Debug, PartialEq, Eq)]
pub struct Eligible {
    policy: Digest,
}

impl Eligible {
    /// The digest of the policy that judged.
    #[must_use]
    pub const fn policy(&self) -> Digest {
        self.policy
    }

    /// What the guardrails wrote into a run's record, taken up again by another step of that run. Outside of this crate
    /// such a record is made by [`Outcome::record`], or read from where it was stored.
    ///
    /// None unless the record says eligible without any finding, by exactly the rules that are in force here.
    #[must_use]
    pub fn recorded(record: &GuardrailRecord) -> Option<Self> {
        let clean = record.eligible && record.findings.is_empty() && record.findings_total == 0;
        (clean && record.rule_set == Guardrails::rule_set().into()).then_some(Self { policy: record.policy })
    }
}

/// The guardrails.
#[derive(Debug)]
pub struct Guardrails;

impl Guardrails {
    /// The rules in force.
    #[must_use]
    pub fn rule_set() -> RuleSet {
        const ID: &str = "plangate.guardrails";
        let mut text = format!("{ID}\n{VERSION}\n");
        let reasons = Reason::ALL.iter().map(|reason| reason.code());
        let access = access::lines();
        for line in reasons.chain(access.iter().map(String::as_str)).chain(rules::PROGRAMS.iter().copied()) {
            text.push_str(line);
            text.push('\n');
        }
        RuleSet { id: ID, version: VERSION, digest: Digest::of(text.as_bytes()) }
    }

    /// Judges a plan. `document` is what reading it gave, `projection` is what was made of it; where there is a
    /// document there must be a projection.
    ///
    /// A policy with rules of its own is never satisfied here: those need [`Guardrails::evaluate_with`].
    #[must_use]
    pub fn evaluate(
        document: Result<&PlanDocument<'_>, &DocumentError>,
        projection: Option<&Projection>,
        policy: &Policy,
        context: &GuardContext,
    ) -> Outcome {
        Self::evaluate_with(&NoRuleEngine, document, projection, policy, context)
    }

    /// As [`Guardrails::evaluate`], with an engine for the rules of the workspace's own.
    #[must_use]
    pub fn evaluate_with(
        engine: &dyn RuleEngine,
        document: Result<&PlanDocument<'_>, &DocumentError>,
        projection: Option<&Projection>,
        policy: &Policy,
        context: &GuardContext,
    ) -> Outcome {
        let mut findings = Vec::new();
        if context.manages_gate {
            findings.push(Finding::plan(Reason::ManagesGate));
        }
        match document {
            Ok(document) => {
                rules::check(document, policy, &mut findings);
                gate::check(document, policy, context, &mut findings);
                access::check(document, policy, &mut findings);
            }
            Err(error) => findings.push(Finding::plan(match error {
                DocumentError::Unparseable { .. } => Reason::PlanUnparseable,
                DocumentError::FormatUnsupported => Reason::PlanFormatUnsupported,
                DocumentError::Errored => Reason::PlanErrored,
                DocumentError::Inconsistent => Reason::PlanInconsistent,
            })),
        }
        if policy.validate().is_err() || projection.is_none() && document.is_ok() {
            findings.push(Finding::plan(Reason::GuardrailError));
        }
        let size = projection.map_or(0, |projection| projection.bytes().len());
        if u64::try_from(size).is_ok_and(|size| size > policy.projection_budget_bytes) {
            // What is too large for people is too large for rules.
            findings.push(Finding::plan(Reason::ProjectionOverBudget));
        } else if let (Some(rules), Some(projection)) = (&policy.own_rules, projection) {
            own::check(engine, rules, projection, &mut findings);
        }
        // What is not shown in the projection is not told in a finding: an address may hold an echo.
        for finding in &mut findings {
            let shown = |address: String| projection.map(|made| made.names().shown(&address).to_owned());
            finding.address = finding.address.take().and_then(shown);
        }
        if findings.is_empty() {
            return Outcome::Eligible(Eligible { policy: policy.digest() });
        }
        findings.sort_unstable();
        findings.dedup();
        Outcome::Ineligible(findings)
    }
}

impl Outcome {
    /// What is decided where the rules cannot be asked at all: a person looks (`R32`).
    #[must_use]
    pub fn not_judged() -> Self {
        Self::Ineligible(vec![Finding::plan(Reason::GuardrailError)])
    }

    /// Whether automatic approval may be considered.
    #[must_use]
    pub const fn is_eligible(&self) -> bool {
        matches!(self, Self::Eligible(_))
    }

    /// Why not; empty where it may.
    #[must_use]
    pub fn findings(&self) -> &[Finding] {
        match self {
            Self::Eligible(_) => &[],
            Self::Ineligible(findings) => findings,
        }
    }

    /// What the run's record keeps. `policy` is the digest of the policy that judged, `own_rules` that of its own rules.
    #[must_use]
    pub fn record(&self, policy: Digest, own_rules: Option<Digest>) -> GuardrailRecord {
        let findings = self.findings();
        let mut bytes = 0;
        // However long its names are and however they are escaped, an outcome fits into the record of its run.
        let fits = |finding: &FindingRecord| {
            bytes += serde_json::to_string(finding).map_or(0, |text| text.len());
            bytes <= RECORDED_BYTES
        };
        GuardrailRecord {
            rule_set: Guardrails::rule_set().into(),
            policy,
            own_rules,
            eligible: self.is_eligible(),
            findings: findings.iter().take(RECORDED).map(FindingRecord::from).take_while(fits).collect(),
            findings_total: findings.len() as u64,
        }
    }
}

impl From<RuleSet> for RuleSetRecord {
    fn from(rules: RuleSet) -> Self {
        Self { id: rules.id.to_owned(), version: rules.version.to_owned(), digest: rules.digest }
    }
}

#[cfg(test)]
mod tests;
