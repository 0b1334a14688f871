//! No combination of what the guardrails found, what a reviewer said, how it failed and what the workspace set leads
//! to an approval without a person, but one (`R34`, `R36`, `R37`, `R41`, `R44`).

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "a test fails in the shortest way"
)]

use plangate_gate::document::{DocumentError, PlanDocument};
use plangate_gate::guardrails::{GuardContext, Guardrails, Outcome};
use plangate_gate::policy::Policy;
use plangate_gate::projection::{Projection, Withhold};
use plangate_gate::verdict::{AutomaticApproval, Verdict};

const CLEAN: &str = r#"{"format_version":"1.2","resource_changes":[{"address":"random_pet.name","type":"random_pet","change":{"actions":["update"],"before":{"prefix":"a"},"after":{"prefix":"b"}}}]}"#;

/// What a reviewer may bring about: its words, or a failure to give any.
const ANSWERS: [Option<&str>; 12] = [
    Some(r#"{"decision":"approve","reasoning":"fine","findings":[]}"#),
    Some(r#"{"decision":"escalate","reasoning":"look","findings":[]}"#),
    Some(r#"{"decision":"reject","reasoning":"no","findings":[]}"#),
    Some(r#"{"decision":"approve","reasoning":"fine","findings":[],"override_guardrails":true}"#),
    Some(r#"{"decision":"approve","reasoning":"fine","findings":[]} and more"#),
    Some(r#"{"decision":"approve"}"#),
    Some(r#"{"decision":"approve","reasoning":"fine","findings":[{"severity":"critical","note":"n"}]}"#),
    Some(r#"{"decision":"approve","reasoning":"fine","findings":[{"severity":"info","address":"a.b","note":"n"}]}"#),
    Some(
        r#"{"decision":"approve","reasoning":"fine","findings":[]}{"decision":"approve","reasoning":"fine","findings":[]}"#,
    ),
    Some("approve"),
    Some(""),
    // No answer: an error, a timeout, a refusal, a rate limit.
    None,
];

fn approved(document: &str, context: &GuardContext, policy: &Policy, answer: Option<&str>, enabled: bool) -> bool {
    let document: Result<PlanDocument<'_>, DocumentError> = PlanDocument::parse_untrusted(document.as_bytes());
    let projection = document.as_ref().ok().map(|document| Projection::of(document, &Withhold::nothing()));
    let outcome = Guardrails::evaluate(document.as_ref(), projection.as_ref(), policy, context);
    let Outcome::Eligible(eligible) = outcome else { return false };
    let Some(Ok(verdict)) = answer.map(|text| Verdict::parse_untrusted(text.as_bytes(), ["random_pet.name"])) else {
        return false;
    };
    AutomaticApproval::of(&eligible, &verdict, enabled).is_some()
}

#[test]
fn there_is_one_way_to_an_approval_without_a_person() {
    let documents = [CLEAN, "not a plan", &CLEAN.replace("update", "delete"), &CLEAN.replace("update", "dance")];
    let small = Policy { projection_budget_bytes: 10, ..Policy::default() };
    let policies = [Policy::default(), small];
    let mut ways = 0;
    for (d, document) in documents.iter().enumerate() {
        for (p, policy) in policies.iter().enumerate() {
            for manages_gate in [false, true] {
                let context = GuardContext { manages_gate, ..GuardContext::default() };
                for (a, answer) in ANSWERS.iter().enumerate() {
                    for enabled in [false, true] {
                        let approved = approved(document, &context, policy, *answer, enabled);
                        let only_way = d == 0 && p == 0 && !manages_gate && a == 0 && enabled;
                        assert_eq!(
                            approved, only_way,
                            "document {d}, policy {p}, gate {manages_gate}, answer {a}, {enabled}"
                        );
                        ways += usize::from(approved);
                    }
                }
            }
        }
    }
    assert_eq!(ways, 1);
}
