"""Rules of a workspace's own, in Rego, where the deployed gate judges plans: they only ever add reasons."""

DENIES_SHOPS = """package main

deny contains {"id": "no-shops", "address": r.address} if {
  some r in input.resource_changes
  endswith(r.address, ".shop")
}
"""
ENDLESS = """package main

deny contains n if {
  some a in numbers.range(1, 10000)
  some b in numbers.range(1, 10000)
  n := a * b
  n < 0
}
"""


def judged(world, workspace, policy, rules):
    world.document("policy", policy, {"schema": "plangate.policy.v1", "own_rules": {"modules": {"own.rego": rules}}})
    run = workspace(policy=policy).propose("--plan-only")
    run.ended_well("planned")
    return run.record["guardrails"]


def test_a_rule_of_the_workspace_s_own_is_a_reason_with_its_name_and_the_resource(world, workspace):
    outcome = judged(world, workspace, "no-shops", DENIES_SHOPS)
    assert not outcome["eligible"] and outcome["own_rules"].startswith("sha256:")
    assert [(finding["reason"], finding["address"]) for finding in outcome["findings"]] == [("own-rule-denied", "terraform_data.shop")]


def test_a_rule_that_finds_no_end_is_a_reason_and_keeps_nobody_waiting(world, workspace):
    outcome = judged(world, workspace, "endless", ENDLESS)
    assert not outcome["eligible"]
    assert [finding["reason"] for finding in outcome["findings"]] == ["own-rule-error"]
