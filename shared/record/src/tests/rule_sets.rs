//! Another rule set judges what comes after it and nothing that has been (`R33`).

use plangate_gate::audit::{Chain, What};
use plangate_gate::documents::DocumentKind;
use plangate_gate::guardrails::Guardrails;
use plangate_gate::ids::RunId;
use plangate_gate::run::{Choice, Kind};
use serde_json::json;

use super::world::{World, at};
use crate::documents::pinned_policy;
use crate::objects::Objects;
use crate::rows::run_key;
use crate::store::{Store, Write};

/// Everything that stands about a run and the policy that it is pinned to: items, objects, events, byte for byte.
async fn everything_of(world: &World, run: &RunId) -> Vec<String> {
    let policy = world.run(run).await.pinned.unwrap().policy;
    let of_it = |text: &str| text.contains(run.as_str()) || text.contains(&policy.hex());
    let mut found: Vec<String> =
        world.store.items().iter().filter(|item| of_it(&item.key.pk)).map(|item| format!("{item:?}")).collect();
    assert!(found.len() >= 2, "the run and its policy at least: {found:?}");
    for key in world.objects.keys().into_iter().filter(|key| of_it(key)) {
        let object = Objects::get(&world.objects, &key, None, 1 << 20).await.unwrap().unwrap();
        found.push(format!("{key} {:?} {}", object.version_id, String::from_utf8_lossy(&object.bytes)));
    }
    for event in world.store.events(&Chain::Run(run.clone()), 1, 1000).await.unwrap() {
        found.push(format!("{} {}", event.digest, event.bytes));
    }
    found
}

/// Takes a run to its end: judged, refused by a person, concluded.
async fn to_the_end(world: &World, number: u8) -> RunId {
    let run = world.propose(Kind::Applicable, number).await;
    world.to_approval(&run).await;
    world.decide("bob", &run, Choice::Reject, at(7)).await.unwrap();
    world.conclude(&run, None).await.unwrap();
    world.check_ended(&run).await;
    run
}

#[tokio::test]
async fn another_policy_leaves_the_record_of_completed_runs_byte_for_byte() {
    let world = World::new().await;
    let first = to_the_end(&world, 1).await;
    let before = everything_of(&world, &first).await;
    let judged = world.run(&first).await.guardrails.unwrap();
    assert!(judged.eligible && judged.own_rules.is_none(), "{judged:?}");

    let rules = json!({ "modules": { "own.rego": "package main\n\ndeny contains \"everything\"\n" } });
    let strict = json!({ "schema": "plangate.policy.v1", "max_changes": { "total": 0 }, "own_rules": rules });
    world.put(DocumentKind::Policy, "default", strict).await;
    let second = to_the_end(&world, 2).await;

    let other = world.run(&second).await.guardrails.unwrap();
    assert!(!other.eligible && other.own_rules.is_some());
    assert!(other.findings.iter().any(|finding| finding.reason == "change-count-exceeded"), "{other:?}");
    assert_ne!(other.policy, judged.policy);
    assert_eq!(everything_of(&world, &first).await, before);
    let kept = pinned_policy(&world, &judged.policy).await.unwrap();
    assert_eq!(kept.digest(), judged.policy, "the policy that judged it can still be read");
}

#[tokio::test]
async fn a_run_that_another_version_of_the_rules_judged_keeps_what_they_said() {
    let world = World::new().await;
    let first = to_the_end(&world, 1).await;
    // As a gate with another version of the built-in rules left it.
    let mut item = world.store.get(&run_key(&first)).await.unwrap().unwrap();
    let ours = Guardrails::rule_set().digest.to_string();
    let theirs = format!("sha256:{}", "0a".repeat(32));
    assert!(item.body.contains(&ours), "the record says which rules judged");
    item.body = item.body.replace(&ours, &theirs);
    world.store.transact(vec![Write::Put(item)]).await.unwrap();
    let before = everything_of(&world, &first).await;

    let second = to_the_end(&world, 2).await;
    assert_eq!(everything_of(&world, &first).await, before);
    assert_eq!(world.run(&first).await.guardrails.unwrap().rule_set.digest.to_string(), theirs);
    assert_eq!(world.run(&second).await.guardrails.unwrap().rule_set.digest.to_string(), ours);
    let judged = |what: &What| matches!(what, What::GuardrailsEvaluated { .. });
    assert_eq!(world.chain(Chain::Run(first)).await.iter().filter(|what| judged(what)).count(), 1, "once and for all");
}
