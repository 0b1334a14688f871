//! A workspace's own rules: written in Rego, part of the policy, and evaluated outside of this crate.
//!
//! They see what a projection shows, in the shape of a plan document, and nothing else. They can only add reasons; where
//! they give no answer, that is a reason (`R32`).

use std::collections::BTreeSet;

use crate::guardrails::finding::{Finding, Reason};
use crate::policy::OwnRules;
use crate::projection::{Projection, ProjectionView, plan_shape};

/// The most that a rule's id may have, in bytes.
const LONGEST_ID: usize = 64;

/// What a rule of a workspace holds against a plan. What it says in words is not kept: a finding never holds a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Denial {
    /// The rule's id: letters, digits, `.`, `_` and `-`; anything else is replaced by `deny`.
    pub rule: String,
    /// The address of the resource. Kept only if the projection has it.
    pub address: Option<String>,
}

/// What evaluates own rules. It must answer from its arguments alone: no network, no time, no randomness.
pub trait RuleEngine: Sync {
    /// What the rules hold against a plan: `input` is a JSON text in the shape of a plan document. None if they give no
    /// answer: an error, an undefined result, a limit exceeded.
    fn denials(&self, rules: &OwnRules, input: &[u8]) -> Option<Vec<Denial>>;
}

/// The engine of those who have none: a policy with own rules is then never satisfied.
#[derive(Debug, Clone, Copy)]
pub struct NoRuleEngine;

impl RuleEngine for NoRuleEngine {
    fn denials(&self, _rules: &OwnRules, _input: &[u8]) -> Option<Vec<Denial>> {
        None
    }
}

/// Adds what the workspace's own rules hold against the plan.
pub(super) fn check(engine: &dyn RuleEngine, rules: &OwnRules, projection: &Projection, findings: &mut Vec<Finding>) {
    let view = ProjectionView::parse(projection.bytes()).ok();
    let input = view.as_ref().and_then(plan_shape);
    let (Some(view), Some(input)) = (view, input) else {
        findings.push(Finding::plan(Reason::OwnRuleError));
        return;
    };
    let Some(denials) = engine.denials(rules, &input) else {
        findings.push(Finding::plan(Reason::OwnRuleError));
        return;
    };
    let known: BTreeSet<&str> = view.resources.iter().map(|resource| resource.address.as_ref()).collect();
    findings.extend(denials.into_iter().map(|denial| Finding {
        address: denial.address.filter(|address| known.contains(address.as_str())),
        path: Some(if is_id(&denial.rule) { denial.rule } else { "deny".to_owned() }),
        ..Finding::plan(Reason::OwnRuleDenied)
    }));
}

fn is_id(text: &str) -> bool {
    let plain = text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte));
    plain && (1..=LONGEST_ID).contains(&text.len())
}
