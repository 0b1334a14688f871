//! The rules that look at actions, counts and facts.

use crate::actions::Actions;
use crate::document::PlanDocument;
use crate::guardrails::finding::{Finding, Reason};
use crate::pattern::Pattern;
use crate::policy::{MaxChanges, Policy, Protect, ProtectedFrom};
use crate::projection::count;

/// Types that run programs by being read, opened or made. A remote state's backend can be configured to run one.
pub(super) const PROGRAMS: [&str; 6] =
    ["external", "terraform_remote_state", "shell_script", "local_command", "local_exec", "aws_lambda_invocation"];

/// Adds the reasons that a document gives.
pub(super) fn check(document: &PlanDocument<'_>, policy: &Policy, findings: &mut Vec<Finding>) {
    if document.errored() {
        findings.push(Finding::plan(Reason::PlanErrored));
    }
    rows(document, policy, findings);
    bounds(document, &policy.max_changes, findings);
    facts(document, policy, findings);
    if policy.deny_output_changes {
        let changed = document.planned().outputs.iter().filter(|output| !output.actions.is_no_op());
        findings.extend(changed.map(|output| Finding::at(Reason::OutputChanged, output.name.as_ref())));
    }
    let unknown = document.planned().outputs.iter().filter(|output| matches!(output.actions, Actions::Unknown(_)));
    findings.extend(unknown.map(|output| Finding::at(Reason::UnknownAction, output.name.as_ref())));
}

fn rows(document: &PlanDocument<'_>, policy: &Policy, findings: &mut Vec<Finding>) {
    for (row, facts) in document.planned().rows.iter().zip(&document.facts().rows) {
        let actions = &row.change.actions;
        let address = row.address.as_ref();
        let mut found = |reason| findings.push(Finding::at(reason, address));
        let relocated = facts.moved || facts.imported;
        if matches!(actions, Actions::Unknown(_)) {
            found(Reason::UnknownAction);
        }
        if relocated && policy.deny_moves_and_imports {
            found(Reason::MovedOrImported);
        }
        if facts.not_understood {
            found(Reason::GuardrailError);
        }
        if actions.is_no_op() && !relocated {
            continue;
        }
        let covered = |rule: &&Protect| {
            rule.covers(&row.kind, address) || facts.previous.as_deref().is_some_and(|old| rule.covers(&row.kind, old))
        };
        for rule in policy.protect.iter().filter(covered) {
            if let Some(reason) = protected(&rule.on, actions) {
                found(reason);
            }
        }
        if !allowed(policy.allowed_types.as_deref(), Some(&row.kind)) {
            found(Reason::TypeNotAllowed);
        }
        if !allowed(policy.allowed_providers.as_deref(), facts.provider.as_deref()) {
            found(Reason::ProviderNotAllowed);
        }
        if policy.deny_program_execution && PROGRAMS.contains(&row.kind.as_ref()) {
            found(Reason::ProgramExecution);
        }
    }
}

/// What protection says of an action set. The reason names what is done, whichever word of the policy forbids it.
fn protected(on: &[ProtectedFrom], actions: &Actions) -> Option<Reason> {
    let any = on.contains(&ProtectedFrom::Any);
    let guarded = |from: ProtectedFrom| any || on.contains(&from);
    if actions.replaces() {
        let destroyed = actions.destroys() && guarded(ProtectedFrom::Delete);
        let forgotten = actions.forgets() && guarded(ProtectedFrom::Forget);
        return (destroyed || forgotten || guarded(ProtectedFrom::Replace)).then_some(Reason::ProtectedReplaced);
    }
    if actions.destroys() {
        return guarded(ProtectedFrom::Delete).then_some(Reason::ProtectedDeleted);
    }
    if actions.forgets() {
        return guarded(ProtectedFrom::Forget).then_some(Reason::ProtectedForgotten);
    }
    any.then_some(Reason::ProtectedChanged)
}

fn allowed(patterns: Option<&[Pattern]>, name: Option<&str>) -> bool {
    patterns.is_none_or(|patterns| name.is_some_and(|name| patterns.iter().any(|pattern| pattern.matches(name))))
}

fn bounds(document: &PlanDocument<'_>, most: &MaxChanges, findings: &mut Vec<Finding>) {
    let changes =
        || document.planned().rows.iter().map(|row| &row.change.actions).filter(|actions| !actions.is_no_op());
    let counts = count(changes());
    let total = changes().count() as u64;
    let exceeded = [
        (most.total, total),
        (most.create, counts.create),
        (most.update, counts.update),
        (most.delete, counts.delete),
        (most.replace, counts.replace),
    ];
    if exceeded.iter().any(|(most, count)| most.is_some_and(|most| *count > most)) {
        findings.push(Finding::plan(Reason::ChangeCountExceeded));
    }
}

fn facts(document: &PlanDocument<'_>, policy: &Policy, findings: &mut Vec<Finding>) {
    let facts = document.facts();
    if let Some(section) = facts.not_understood {
        findings.push(Finding { path: Some(section.to_owned()), ..Finding::plan(Reason::GuardrailError) });
    }
    if facts.complete == Some(false) || facts.deferred > 0 {
        findings.push(Finding::plan(Reason::PlanIncomplete));
    }
    findings.extend(facts.failed_checks.iter().map(|name| Finding::at(Reason::CheckFailed, name.as_ref())));
    if policy.deny_drift {
        findings.extend(facts.drift.iter().map(|address| Finding::at(Reason::DriftPresent, address.as_ref())));
    }
    if policy.deny_program_execution {
        findings.extend(facts.provisioners.iter().map(|(address, _)| Finding::at(Reason::ProgramExecution, address)));
        let sources = PROGRAMS.iter().filter_map(|kind| facts.sources.get(*kind));
        findings.extend(sources.map(|address| Finding::at(Reason::ProgramExecution, address)));
        if facts.invocations > 0 {
            findings.push(Finding::plan(Reason::ProgramExecution));
        }
    }
    let foreign = facts.providers.iter().filter(|name| !allowed(policy.allowed_providers.as_deref(), Some(name)));
    findings.extend(foreign.map(|name| Finding::at(Reason::ProviderNotAllowed, name.as_ref())));
}
