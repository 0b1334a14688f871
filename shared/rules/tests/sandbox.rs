//! Own rules in their process: they answer, and what goes round in circles or eats memory ends itself alone.

#![allow(clippy::unwrap_used, reason = "a test fails in the shortest way")]

use plangate_gate::document::PlanDocument;
use plangate_gate::guardrails::{GuardContext, Guardrails, RuleEngine as _};
use plangate_gate::policy::{AccessWidening, OwnRules, Policy};
use plangate_gate::projection::{Projection, Withhold};
use plangate_rules::Sandbox;

const PLAN: &str = r#"{"format_version":"1.2","resource_changes":[{"address":"aws_db_instance.orders","type":"aws_db_instance","change":{"actions":["update"],"before":{"password":"hunter2-hunter2","tags":{"owner":"a"}},"after":{"password":"hunter2-hunter2","tags":{}},"before_sensitive":{"password":true},"after_sensitive":{"password":true}}}]}"#;

fn rules(text: &str) -> OwnRules {
    OwnRules { modules: [("own.rego".to_owned(), format!("package main\nimport rego.v1\n{text}"))].into() }
}

fn sandbox() -> Sandbox {
    Sandbox::of(env!("CARGO_BIN_EXE_plangate-rules").into())
}

fn judged(text: &str) -> Vec<String> {
    let policy = Policy { own_rules: Some(rules(text)), access_widening: AccessWidening::Allow, ..Policy::default() };
    let document = PlanDocument::parse_untrusted(PLAN.as_bytes()).unwrap();
    let projection = Projection::of(&document, &Withhold::nothing());
    let context = GuardContext::default();
    let outcome = Guardrails::evaluate_with(&sandbox(), Ok(&document), Some(&projection), &policy, &context);
    outcome.findings().iter().map(ToString::to_string).collect()
}

#[test]
fn a_workspace_s_rule_holds_a_missing_tag_against_a_plan_and_sees_no_password() {
    let tags = r#"deny contains {"id": "owner-tag", "address": r.address} if { some r in input.resource_changes; not r.change.after.tags.owner }"#;
    assert_eq!(judged(tags), ["own-rule-denied aws_db_instance.orders owner-tag"]);
    let password =
        r#"deny contains "seen" if { some r in input.resource_changes; contains(r.change.after.password, "hunter2") }"#;
    assert!(judged(password).is_empty());
    let masked = r#"deny contains "masked" if { some r in input.resource_changes; r.change.after_sensitive.password }"#;
    assert_eq!(judged(masked), ["own-rule-denied deny"]);
}

#[test]
fn rules_that_never_end_or_eat_memory_give_no_answer_and_harm_nobody() {
    let circles = "f(x) := f(x + 1)\ndeny contains msg if { msg := f(1) }";
    assert_eq!(judged(circles), ["own-rule-error"]);
    let doubling: String = (1..40).map(|n| format!("s{n} := concat(\"\", [s{}, s{}])\n", n - 1, n - 1)).collect();
    let memory = format!("s0 := \"0123456789abcdef\"\n{doubling}deny contains s39");
    assert_eq!(judged(&memory), ["own-rule-error"]);
    assert_eq!(judged("deny contains 1 if { time.now_ns() > 0 }"), ["own-rule-error"]);
}

#[test]
fn rules_are_bounded_in_depth_and_in_what_they_say() {
    let nested = format!("deny contains {}1{}", "[".repeat(10_000), "]".repeat(10_000));
    assert_eq!(judged(&nested), ["own-rule-error"], "a module that is nested without end");
    let flood = "deny contains {\"id\": sprintf(\"r%d-%s\", [n, concat(\"\", [s | some i in numbers.range(1, 50); s := \"0123456789\"])])} if some n in numbers.range(1, 20000)";
    assert_eq!(judged(flood), ["own-rule-error"], "more denials than an answer may have");
    let many = judged("deny contains {\"id\": sprintf(\"r%d\", [n])} if some n in numbers.range(1, 500)");
    assert_eq!(many.len(), 500, "many are all counted");
}

#[test]
fn a_program_that_is_no_evaluator_gives_no_answer() {
    assert_eq!(Sandbox::of("/nowhere/to/be/found".into()).denials(&rules("deny contains 1"), b"{}"), None);
    assert_eq!(Sandbox::of("/bin/true".into()).denials(&rules("deny contains 1"), b"{}"), None);
}
