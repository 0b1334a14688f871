//! Changes that may widen access (`R31`): both sides of a change are compared by what they permit. What cannot be
//! compared is wider; what looks like access and is not known here is not understood; neither is eligible.

mod iam;
mod judge;
mod names;
mod network;
mod read;
mod shape;
mod sides;
mod steps;
mod table;

use crate::actions::Actions;
use crate::document::{PlanDocument, Row};
use crate::guardrails::access::judge::Found;
use crate::guardrails::access::sides::Both;
use crate::guardrails::access::steps::Steps;
use crate::guardrails::finding::{Finding, Reason};
use crate::policy::{AccessWidening, Policy};
use crate::value::Value;

/// All tables as lines of text, for the rule set's digest.
pub(super) fn lines() -> Vec<String> {
    let words = names::TABLES.iter().flat_map(|table| table.iter().copied());
    table::lines().into_iter().chain(words.map(str::to_owned)).collect()
}

/// Adds a finding for each change that widens access, or that may.
pub(super) fn check(document: &PlanDocument<'_>, policy: &Policy, findings: &mut Vec<Finding>) {
    if policy.access_widening == AccessWidening::Allow {
        return;
    }
    let steps = Steps::new();
    for row in &document.planned().rows {
        // Reading, opening and letting go grant nothing. Unknown actions are looked at as if they were changes.
        if matches!(row.change.actions, Actions::NoOp | Actions::Read | Actions::Forget | Actions::Open) {
            continue;
        }
        let both = Both::of(&row.change);
        let found = match table::find(&row.kind) {
            Some(kind) => judge::row(kind, both, &steps),
            None => by_name(row, both, &steps),
        };
        findings.extend(found.into_iter().map(|(reason, attribute)| {
            let finding = Finding::at(reason, row.address.as_ref());
            attribute.map_or(finding.clone(), |name| finding.attribute(name))
        }));
    }
}

/// Judges a change of a resource whose type no table knows: by attributes that mean the same everywhere, else by names.
fn by_name<'c>(row: &Row<'_>, both: Both<'c, '_>, steps: &Steps) -> Vec<Found<'c>> {
    let not_understood = vec![(Reason::AccessNotUnderstood, None)];
    let grants = names::grants(&row.kind);
    if both.removed {
        return if grants { not_understood } else { Vec::new() };
    }
    if !both.is_readable() {
        return not_understood;
    }
    let attributes = || both.names().into_iter().map(|name| (name, both.attribute(name)));
    let mut found: Vec<Found<'c>> = Vec::new();
    for (name, sides) in attributes() {
        let opened = || !sides.before.is_some_and(holds_everything) && sides.after.is_some_and(holds_everything);
        if table::anywhere(name).is_some_and(|judge| judge.widens(&sides, steps)) || grants && opened() {
            found.push((Reason::AccessWidened, Some(name)));
        }
    }
    if found.is_empty() && grants {
        return not_understood;
    }
    let judged = |name| grants || table::anywhere(name).is_some();
    let touched = attributes()
        .filter(|(name, sides)| !judged(name) && names::differs(name, sides.before, sides.after, sides.unknown));
    found.extend(touched.map(|(name, _)| (Reason::AccessNotUnderstood, Some(name))));
    found
}

/// Whether a range of all addresses of a family stands in a value: anything with a prefix of no bits.
fn holds_everything(value: &Value<'_>) -> bool {
    let everything = |text: &str| {
        text.split(',').any(|range| {
            range.trim().split_once('/').is_some_and(|(address, bits)| {
                !bits.is_empty() && bits.bytes().all(|b| b == b'0') && address.parse::<std::net::IpAddr>().is_ok()
            })
        })
    };
    value.text().is_some_and(everything)
        || value.elements().iter().any(holds_everything)
        || value.fields().iter().any(|(_, field)| holds_everything(field))
}

#[cfg(test)]
mod tests;
