//! Each reason, on a plan that gives it and on one that does not.

use super::*;
use crate::policy::{AccessWidening, MaxChanges};
use crate::projection::Withhold;

fn plan(rows: &str, more: &str) -> String {
    format!(r#"{{"format_version":"1.2","resource_changes":[{rows}]{more}}}"#)
}

fn row(kind: &str, change: &str) -> String {
    format!(r#"{{"address":"{kind}.x","type":"{kind}","provider_name":"p/{kind}","change":{{{change}}}}}"#)
}

fn judge(document: &str, policy: &Policy) -> Outcome {
    judge_in(document, policy, &GuardContext::default())
}

fn judge_in(document: &str, policy: &Policy, context: &GuardContext) -> Outcome {
    let document = PlanDocument::parse_untrusted(document.as_bytes()).unwrap();
    let projection = Projection::of(&document, &Withhold::nothing());
    Guardrails::evaluate(Ok(&document), Some(&projection), policy, context)
}

fn reasons(document: &str, policy: &Policy) -> Vec<String> {
    judge(document, policy).findings().iter().map(ToString::to_string).collect()
}

/// A policy that holds nothing against any plan but what is asked for.
fn lenient() -> Policy {
    Policy {
        protect: Vec::new(),
        max_changes: MaxChanges::default(),
        deny_drift: false,
        deny_moves_and_imports: false,
        deny_program_execution: false,
        access_widening: AccessWidening::Allow,
        ..Policy::default()
    }
}

fn policy(text: &str) -> Policy {
    Policy::parse_untrusted(format!(r#"{{"schema":"plangate.policy.v1",{text}}}"#).as_bytes()).unwrap()
}

const UPDATE: &str = r#""actions":["update"],"before":{"prefix":"a"},"after":{"prefix":"b"}"#;

#[test]
fn an_ordinary_update_is_eligible_under_the_default_policy() {
    let policy = Policy::default();
    let Outcome::Eligible(eligible) = judge(&plan(&row("random_pet", UPDATE), ""), &policy) else {
        panic!("ineligible")
    };
    assert_eq!(eligible.policy(), policy.digest());
}

#[test]
fn protection_names_what_would_be_done() {
    let deletes = policy(r#""protect":[{"types":["random_*"],"on":["delete"]}]"#);
    let anything = policy(r#""protect":[{"addresses":["*.x"],"on":["any"]}]"#);
    let forgets = policy(r#""protect":[{"types":["random_pet"],"on":["forget"]}]"#);
    for (actions, deleting, any, forgetting) in [
        (r#"["delete"]"#, Some("deleted"), Some("deleted"), None),
        (r#"["delete","create"]"#, Some("replaced"), Some("replaced"), None),
        (r#"["create","delete"]"#, Some("replaced"), Some("replaced"), None),
        (r#"["forget"]"#, None, Some("forgotten"), Some("forgotten")),
        (r#"["forget","create"]"#, None, Some("replaced"), Some("replaced")),
        (r#"["create"]"#, None, Some("changed"), None),
        (r#"["no-op"]"#, None, None, None),
    ] {
        let document = plan(&row("random_pet", &format!(r#""actions":{actions}"#)), "");
        let expected = |word: Option<&str>| {
            word.map(|w| format!("protected-resource-{w} random_pet.x")).into_iter().collect::<Vec<_>>()
        };
        assert_eq!(reasons(&document, &deletes), expected(deleting), "delete, {actions}");
        assert_eq!(reasons(&document, &anything), expected(any), "any, {actions}");
        assert_eq!(reasons(&document, &forgets), expected(forgetting), "forget, {actions}");
    }
}

#[test]
fn what_moves_away_from_a_protected_address_is_protected_still() {
    let document = plan(
        r#"{"address":"app_db.spare","previous_address":"app_db.main","type":"app_db","change":{"actions":["delete"]}},
           {"address":"app_db.kept","previous_address":"app_db.other","type":"app_db","change":{"actions":["no-op"]}}"#,
        "",
    );
    let protected =
        |on: &str| policy(&format!(r#""protect":[{{"addresses":["app_db.main","app_db.other"],"on":["{on}"]}}]"#));
    let protect = |on: &str| Policy { protect: protected(on).protect, ..lenient() };
    assert_eq!(reasons(&document, &protect("delete")), ["protected-resource-deleted app_db.spare"]);
    assert_eq!(
        reasons(&document, &protect("any")),
        ["protected-resource-deleted app_db.spare", "protected-resource-changed app_db.kept"]
    );
    let gate = Policy { gate_resources: policy(r#""gate_resources":["app_db.main"]"#).gate_resources, ..lenient() };
    assert_eq!(reasons(&document, &gate), ["touches-gate app_db.spare"]);
    let odd = document.replace(r#""app_db.other""#, "7");
    assert_eq!(reasons(&odd, &lenient()), ["guardrail-error app_db.kept"], "an address that is none");
}

#[test]
fn the_default_policy_protects_everything_from_being_lost() {
    for (actions, word) in
        [(r#"["delete"]"#, "deleted"), (r#"["delete","create"]"#, "replaced"), (r#"["forget"]"#, "forgotten")]
    {
        let document = plan(&row("random_pet", &format!(r#""actions":{actions}"#)), "");
        assert_eq!(reasons(&document, &Policy::default()), [format!("protected-resource-{word} random_pet.x")]);
    }
}

#[test]
fn changes_are_counted_whatever_kind_they_are() {
    let rows = |n: usize, actions: &str| vec![row("random_pet", &format!(r#""actions":{actions}"#)); n].join(",");
    let most = Policy { max_changes: MaxChanges { total: Some(10), ..MaxChanges::default() }, ..lenient() };
    for actions in [r#"["create"]"#, r#"["read"]"#, r#"["forget"]"#, r#"["delete","create"]"#] {
        assert!(judge(&plan(&rows(10, actions), ""), &most).is_eligible(), "{actions}");
        assert_eq!(reasons(&plan(&rows(11, actions), ""), &most), ["change-count-exceeded"], "{actions}");
    }
    assert!(judge(&plan(&rows(50, r#"["no-op"]"#), ""), &most).is_eligible());
    let no_deletes = Policy { max_changes: MaxChanges { delete: Some(0), ..MaxChanges::default() }, ..lenient() };
    assert_eq!(reasons(&plan(&rows(1, r#"["delete"]"#), ""), &no_deletes), ["change-count-exceeded"]);
    assert!(judge(&plan(&rows(1, r#"["delete","create"]"#), ""), &no_deletes).is_eligible(), "a replacement is none");
}

#[test]
fn what_is_not_understood_is_never_eligible() {
    let lenient = lenient();
    let dance = plan(&row("random_pet", r#""actions":["dance"]"#), "");
    assert_eq!(reasons(&dance, &lenient), ["unknown-action random_pet.x"]);
    assert_eq!(reasons(&plan("", r#","output_changes":{"o":{"actions":["dance"]}}"#), &lenient), ["unknown-action o"]);
    assert_eq!(reasons(&plan("", r#","checks":7"#), &lenient), ["guardrail-error checks"]);
    assert_eq!(reasons(&plan("", r#","complete":false"#), &lenient), ["plan-incomplete"]);
    assert_eq!(reasons(&plan("", r#","errored":true"#), &lenient), ["plan-errored"]);
    assert_eq!(
        reasons(&plan("", r#","checks":[{"address":{"to_display":"check.c"},"status":"fail"}]"#), &lenient),
        ["check-failed check.c"]
    );
    assert!(
        judge(&plan("", r#","checks":[{"address":{"to_display":"check.c"},"status":"unknown"}]"#), &lenient)
            .is_eligible()
    );
}

#[test]
fn a_plan_that_cannot_be_read_is_ineligible_for_the_same_reason() {
    for (text, reason) in [("{", "plan-unparseable"), (r#"{"format_version":"2.0"}"#, "plan-format-unsupported")] {
        let error = PlanDocument::parse_untrusted(text.as_bytes()).unwrap_err();
        let outcome = Guardrails::evaluate(Err(&error), None, &lenient(), &GuardContext::default());
        assert_eq!(
            outcome.findings(),
            [Finding::plan(Reason::ALL.iter().copied().find(|r| r.code() == reason).unwrap())]
        );
    }
}

#[test]
fn a_rule_that_cannot_be_evaluated_is_a_reason() {
    let text = plan(&row("random_pet", UPDATE), "");
    let document = PlanDocument::parse_untrusted(text.as_bytes()).unwrap();
    let without = Guardrails::evaluate(Ok(&document), None, &lenient(), &GuardContext::default());
    assert_eq!(without.findings(), [Finding::plan(Reason::GuardrailError)], "no projection to measure");
    let unsound = Policy { projection_budget_bytes: u64::MAX, ..lenient() };
    assert_eq!(reasons(&text, &unsound), ["guardrail-error"]);
}

#[test]
fn a_projection_over_budget_is_ineligible_to_the_byte() {
    let text = plan(&row("random_pet", UPDATE), "");
    let document = PlanDocument::parse_untrusted(text.as_bytes()).unwrap();
    let size = Projection::of(&document, &Withhold::nothing()).bytes().len() as u64;
    let budget = |bytes| Policy { projection_budget_bytes: bytes, ..lenient() };
    assert!(judge(&text, &budget(size)).is_eligible());
    assert_eq!(reasons(&text, &budget(size - 1)), ["projection-over-budget"]);
}

#[test]
fn lists_of_what_is_allowed_are_exhaustive() {
    let document = plan(&row("random_pet", UPDATE), "");
    let types = |names: &str| Policy {
        allowed_types: policy(&format!(r#""allowed_types":{names}"#)).allowed_types,
        ..lenient()
    };
    assert!(judge(&document, &types(r#"["random_*"]"#)).is_eligible());
    assert_eq!(reasons(&document, &types("[]")), ["type-not-allowed random_pet.x"]);
    let providers = |names: &str| Policy {
        allowed_providers: policy(&format!(r#""allowed_providers":{names}"#)).allowed_providers,
        ..lenient()
    };
    assert!(judge(&document, &providers(r#"["p/*"]"#)).is_eligible());
    assert_eq!(reasons(&document, &providers(r#"["q/*"]"#)), ["provider-not-allowed random_pet.x"]);
    let unnamed = document.replace(r#""provider_name":"p/random_pet","#, "");
    assert_eq!(reasons(&unnamed, &providers(r#"["p/*"]"#)), ["provider-not-allowed random_pet.x"]);
    let configured = plan("", r#","configuration":{"provider_config":{"q":{"name":"q","full_name":"q/q"}}}"#);
    assert_eq!(reasons(&configured, &providers(r#"["p/*"]"#)), ["provider-not-allowed q/q"]);
}

#[test]
fn outputs_drift_moves_and_programs_are_held_against_a_plan_if_the_policy_says_so() {
    let document = plan(
        r#"{"address":"a.b","previous_address":"a.c","type":"a","change":{"actions":["no-op"]}}"#,
        r#","output_changes":{"o":{"actions":["create"],"after":1},"same":{"actions":["no-op"],"after":1}},
            "resource_drift":[{"address":"d.e","change":{"actions":["update"]}},{"address":"moved.only","change":{"actions":["no-op"]}}],
            "action_invocations":[{"address":"action.x.y"}],
            "configuration":{"root_module":{"resources":[
                {"address":"data.external.e","mode":"data","type":"external"},
                {"address":"null_resource.n","mode":"managed","type":"null_resource","provisioners":[{"type":"local-exec"}]}]}}"#,
    );
    assert!(judge(&document, &lenient()).is_eligible());
    let strict = Policy { deny_output_changes: true, ..Policy::default() };
    assert_eq!(
        reasons(&document, &strict),
        [
            "output-changed o",
            "drift-present d.e",
            "moved-or-imported a.b",
            "program-execution",
            "program-execution data.external.e",
            "program-execution null_resource.n"
        ]
    );
}

#[test]
fn the_gate_s_own_workspace_is_never_eligible() {
    let document = plan(&row("random_pet", UPDATE), "");
    let context = GuardContext { manages_gate: true, ..GuardContext::default() };
    assert_eq!(judge_in(&document, &lenient(), &context).findings(), [Finding::plan(Reason::ManagesGate)]);
}

#[test]
fn a_plan_that_touches_what_the_gate_rests_on_is_not_eligible() {
    let arn = "arn:aws:iam::123456789012:role/plangate/apply/ws-1-apply";
    let context = GuardContext { own: vec![arn.to_owned()], ..GuardContext::default() };
    let touching = |value: &str| {
        plan(
            &row(
                "aws_x",
                &format!(r#""actions":["update"],"before":{{"l":[{{"k":"a"}}]}},"after":{{"l":[{{"k":"{value}"}}]}}"#),
            ),
            "",
        )
    };
    for value in [arn, "ws-1-apply", "prefix ws-1-apply suffix"] {
        let findings = judge_in(&touching(value), &lenient(), &context).findings().to_vec();
        assert_eq!(findings, [Finding::at(Reason::TouchesGate, "aws_x.x").attribute("l")], "{value}");
    }
    assert!(judge_in(&touching("ws-2-apply"), &lenient(), &context).is_eligible());
    let by_policy =
        Policy { gate_resources: policy(r#""gate_resources":["plangate-*","aws_x.*"]"#).gate_resources, ..lenient() };
    assert_eq!(reasons(&touching("plangate-table"), &by_policy), ["touches-gate aws_x.x", "touches-gate aws_x.x l"]);
}

#[test]
fn what_looks_like_access_is_not_understood_whatever_is_done_to_it() {
    let open = Policy { access_widening: AccessWidening::Deny, ..lenient() };
    for kind in [
        "aws_verifiedaccess_group",
        "google_compute_security_policy",
        "kubernetes_role_binding_v1",
        "azurerm_role_assignment",
        "aws_opensearchserverless_access_policy",
    ] {
        for actions in [r#"["create"]"#, r#"["update"]"#, r#"["delete"]"#, r#"["delete","create"]"#] {
            let document =
                plan(&row(kind, &format!(r#""actions":{actions},"before":{{"a":1}},"after":{{"a":2}}"#)), "");
            assert_eq!(reasons(&document, &open), [format!("access-not-understood {kind}.x")], "{actions}");
            assert!(judge(&document, &lenient()).is_eligible());
        }
        let read = plan(&row(kind, r#""actions":["read"],"after":{"a":2}"#), "");
        assert!(judge(&read, &open).is_eligible());
    }
}

#[test]
fn attributes_that_speak_of_access_are_held_against_any_type() {
    let open = Policy { access_widening: AccessWidening::Deny, ..lenient() };
    let update = |before: &str, after: &str, more: &str| {
        reasons(
            &plan(&row("aws_thing", &format!(r#""actions":["update"],"before":{before},"after":{after}{more}"#)), ""),
            &open,
        )
    };
    let found = |path: &str| vec![format!("access-not-understood aws_thing.x {path}")];
    assert_eq!(update(r#"{"policy":"a"}"#, r#"{"policy":"b"}"#, ""), found("policy"));
    assert_eq!(
        update(r#"{"permissions_boundary":"a"}"#, r#"{"permissions_boundary":null}"#, ""),
        ["access-widened aws_thing.x permissions_boundary"]
    );
    assert_eq!(
        update(r#"{"v":[{"security_group_ids":["a"]}]}"#, r#"{"v":[{"security_group_ids":["a","b"]}]}"#, ""),
        found("v")
    );
    assert_eq!(update(r#"{"role":"a"}"#, "{}", r#","after_unknown":{"role":true}"#), found("role"));
    assert_eq!(update(r#"{"v":{"role":"a"}}"#, "{}", r#","after_unknown":{"v":true}"#), found("v"));
    assert!(update(r#"{"policy":"a","x":1}"#, r#"{"policy":"a","x":2}"#, "").is_empty());
    assert!(update(r#"{"roles":[]}"#, r#"{"roles":null}"#, "").is_empty());
    assert!(update(r#"{"x":1}"#, r#"{"x":2}"#, r#","after_unknown":{"id":true}"#).is_empty());
}

#[test]
fn access_that_plainly_gets_wider_is_called_so() {
    let open = Policy { access_widening: AccessWidening::Deny, ..lenient() };
    let change = |kind: &str, change: &str| reasons(&plan(&row(kind, change), ""), &open);
    for range in ["0.0.0.0/0", "::/0", "0::0/00"] {
        assert_eq!(
            change(
                "aws_security_group",
                &format!(
                    r#""actions":["update"],"before":{{"ingress":[{{"cidr_blocks":["10.0.0.0/8"]}}]}},"after":{{"ingress":[{{"cidr_blocks":["10.0.0.0/8","{range}"]}}]}}"#
                )
            ),
            ["access-widened aws_security_group.x ingress"],
            "{range}"
        );
    }
    let database = |after: &str, more: &str| {
        change(
            "aws_db_instance",
            &format!(r#""actions":["update"],"before":{{"publicly_accessible":false}},"after":{{{after}}}{more}"#),
        )
    };
    let widened = ["access-widened aws_db_instance.x publicly_accessible"];
    assert_eq!(database(r#""publicly_accessible":true"#, ""), widened);
    assert_eq!(database("", r#","after_unknown":{"publicly_accessible":true}"#), widened, "unknown means ineligible");
    assert_eq!(
        database(r#""publicly_accessible":false"#, r#","after_sensitive":{"publicly_accessible":true}"#),
        widened,
        "hidden too"
    );
    assert!(database(r#""publicly_accessible":false"#, "").is_empty());
    assert_eq!(
        change(
            "aws_s3_bucket_public_access_block",
            r#""actions":["delete"],"before":{"block_public_acls":true},"after":null"#
        ),
        ["access-widened aws_s3_bucket_public_access_block.x"]
    );
    assert_eq!(
        change("aws_s3_bucket", r#""actions":["update"],"before":{"acl":"private"},"after":{"acl":"public-read"}"#),
        ["access-widened aws_s3_bucket.x acl"]
    );
}

#[test]
fn a_record_brings_eligibility_back_only_if_it_is_clean_and_by_these_rules() {
    let policy = Policy::default();
    let record = judge(&plan(&row("random_pet", UPDATE), ""), &policy).record(policy.digest(), None);
    assert_eq!(Eligible::recorded(&record).map(|eligible| eligible.policy()), Some(policy.digest()));
    let ineligible =
        judge(&plan(&row("random_pet", r#""actions":["delete"]"#), ""), &policy).record(policy.digest(), None);
    assert_eq!((ineligible.eligible, ineligible.findings_total), (false, 1));
    assert_eq!(Eligible::recorded(&ineligible), None);
    assert_eq!(Eligible::recorded(&GuardrailRecord { eligible: true, ..ineligible }), None);
    let other = RuleSetRecord { version: "0".to_owned(), ..record.rule_set.clone() };
    assert_eq!(Eligible::recorded(&GuardrailRecord { rule_set: other, ..record }), None);
}

#[test]
fn a_changed_table_is_another_rule_set() {
    // If this fails, the rules changed: give them a new version, then write its digest here.
    let rules = Guardrails::rule_set();
    assert_eq!((rules.id, rules.version), ("plangate.guardrails", "3"));
    assert_eq!(rules.digest.to_string(), "sha256:d7e3d140f9751fedf8bccc634aba8433260305828bb56d390de55193c83f0f89");
}

/// An engine that gives one answer whatever it is asked.
struct Says(Option<Vec<Denial>>);

impl RuleEngine for Says {
    fn denials(&self, _rules: &crate::policy::OwnRules, input: &[u8]) -> Option<Vec<Denial>> {
        assert!(String::from_utf8_lossy(input).contains("random_pet.x"));
        self.0.clone()
    }
}

#[test]
fn own_rules_add_reasons_and_silence_is_one() {
    let modules = [("a.rego".to_owned(), "package main".to_owned())].into();
    let own = Policy { own_rules: Some(crate::policy::OwnRules { modules }), ..lenient() };
    let text = plan(&row("random_pet", UPDATE), "");
    let document = PlanDocument::parse_untrusted(text.as_bytes()).unwrap();
    let projection = Projection::of(&document, &Withhold::nothing());
    let judged = |engine: &dyn RuleEngine, policy: &Policy| {
        let context = GuardContext::default();
        let outcome = Guardrails::evaluate_with(engine, Ok(&document), Some(&projection), policy, &context);
        outcome.findings().iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    let denial = |rule: &str, address: &str| Denial { rule: rule.to_owned(), address: Some(address.to_owned()) };
    assert!(judged(&Says(Some(Vec::new())), &own).is_empty());
    assert_eq!(judged(&Says(None), &own), ["own-rule-error"]);
    assert_eq!(judged(&NoRuleEngine, &own), ["own-rule-error"], "nobody evaluated them");
    assert_eq!(
        judged(&Says(Some(vec![denial("tags", "random_pet.x"), denial("a value?", "other.y")])), &own),
        ["own-rule-denied deny", "own-rule-denied random_pet.x tags"]
    );
    let strict = Policy { max_changes: MaxChanges { total: Some(0), ..MaxChanges::default() }, ..own };
    assert_eq!(judged(&Says(Some(Vec::new())), &strict), ["change-count-exceeded"], "they take none away");
}
