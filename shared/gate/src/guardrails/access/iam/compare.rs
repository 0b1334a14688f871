//! Whether one document permits more than another.

use std::collections::BTreeSet;

use crate::guardrails::access::iam::condition::Condition;
use crate::guardrails::access::iam::document::{Document, Statement};
use crate::guardrails::access::steps::Steps;

/// Whether `after` may permit anything that `before` did not, alone or beside other policies: also when it denies less,
/// since another policy may allow what is no longer denied. What cannot be shown to be no wider is wider.
pub(in crate::guardrails::access) fn widens(before: &Document, after: &Document, steps: &Steps) -> bool {
    let of = |document: &Document, allow: bool| -> Vec<Statement> {
        document.statements.iter().filter(|statement| statement.allow == allow).cloned().collect()
    };
    let denied = of(after, false);
    // Whatever was denied is denied still.
    if !of(before, false).iter().all(|deny| covered(deny, &denied, steps)) {
        return true;
    }
    // Whatever is allowed was allowed, or is denied anyway.
    let mut known = of(before, true);
    known.extend(denied);
    !of(after, true).iter().all(|allow| covered(allow, &known, steps))
}

/// Whether every request of which `statement` speaks is spoken of by one of `others`, whatever their effect.
///
/// A statement is cut into its parts, one for each principal, action and resource; each must lie within one other
/// statement whose conditions hold wherever its own do.
fn covered(statement: &Statement, others: &[Statement], steps: &Steps) -> bool {
    if others.iter().any(|other| {
        (&other.principals, &other.actions, &other.resources, &other.conditions)
            == (&statement.principals, &statement.actions, &statement.resources, &statement.conditions)
    }) {
        return true;
    }
    let holds = |other: &&Statement| {
        let wanted = |one| statement.conditions.iter().any(|known| Condition::holds_where(one, known, steps));
        other.conditions.iter().all(wanted)
    };
    let others: Vec<&Statement> = others.iter().filter(holds).collect();
    // For each part of a kind, the statements that cover it; parts that are covered alike are looked at once.
    let sets = |covers: &dyn Fn(&Statement) -> Vec<bool>| -> BTreeSet<Vec<bool>> {
        let by_statement: Vec<Vec<bool>> = others.iter().map(|other| covers(other)).collect();
        let parts = by_statement.first().map_or(0, Vec::len);
        (0..parts).map(|part| by_statement.iter().map(|row| row.get(part) == Some(&true)).collect()).collect()
    };
    if others.is_empty() {
        return false;
    }
    let (principals, actions, resources) =
        (statement.principals.parts(), statement.actions.parts(), statement.resources.parts());
    let principals = sets(&|other| principals.iter().map(|part| other.principals.covers(part)).collect());
    let actions = sets(&|other| actions.iter().map(|part| other.actions.covers(part, steps)).collect());
    let resources = sets(&|other| resources.iter().map(|part| other.resources.covers(part, steps)).collect());
    principals.iter().all(|who| {
        actions.iter().all(|what| {
            resources.iter().all(|which| {
                who.iter().zip(what).zip(which).any(|((who, what), which)| steps.take() && *who && *what && *which)
            })
        })
    })
}

#[cfg(test)]
#[path = "compare_tests.rs"]
mod tests;
