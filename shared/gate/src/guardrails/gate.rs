//! Whether a plan touches what the gate itself rests on: its own resources, and the roles, state and keys of the
//! workspace (`R35`).

use crate::document::{Change, PlanDocument};
use crate::guardrails::GuardContext;
use crate::guardrails::finding::{Finding, Reason};
use crate::pattern::Pattern;
use crate::policy::Policy;
use crate::value::Value;

/// Adds a finding for each changed resource in which a name of the gate stands.
pub(super) fn check(document: &PlanDocument<'_>, policy: &Policy, context: &GuardContext, findings: &mut Vec<Finding>) {
    let own: Vec<&str> = context.own.iter().flat_map(|name| [Some(name.as_str()), last_part(name)]).flatten().collect();
    let names = Names { patterns: &policy.gate_resources, own: &own };
    if names.patterns.is_empty() && names.own.is_empty() {
        return;
    }
    for (row, facts) in document.planned().rows.iter().zip(&document.facts().rows) {
        if row.change.actions.is_no_op() && !facts.moved && !facts.imported {
            continue;
        }
        if names.in_text(&row.address) || facts.previous.as_deref().is_some_and(|old| names.in_text(old)) {
            findings.push(Finding::at(Reason::TouchesGate, row.address.as_ref()));
        }
        for attribute in names.attributes(&row.change) {
            findings.push(Finding::at(Reason::TouchesGate, row.address.as_ref()).attribute(attribute));
        }
    }
}

/// The name at the end of an ARN: many attributes hold it alone.
fn last_part(name: &str) -> Option<&str> {
    let arn = name.strip_prefix("arn:")?;
    arn.rsplit(['/', ':']).next().filter(|part| part.len() > 3)
}

struct Names<'n> {
    patterns: &'n [Pattern],
    own: &'n [&'n str],
}

impl Names<'_> {
    fn in_text(&self, text: &str) -> bool {
        self.own.iter().any(|name| text.contains(name)) || self.patterns.iter().any(|pattern| pattern.matches(text))
    }

    fn in_value(&self, value: &Value<'_>) -> bool {
        value.text().is_some_and(|text| self.in_text(text))
            || value.elements().iter().any(|item| self.in_value(item))
            || value.fields().iter().any(|(key, field)| self.in_text(key) || self.in_value(field))
    }

    fn attributes<'c>(&self, change: &'c Change<'_>) -> Vec<&'c str> {
        let sides = [&change.before, &change.after].into_iter().flatten();
        let fields = sides.flat_map(Value::fields).filter(|(key, value)| self.in_text(key) || self.in_value(value));
        fields.map(|(key, _)| key.as_ref()).collect()
    }
}
