"""The life of a run, in all the ways in which it may end without anybody's mischief."""

import contextlib
import json

import pytest
from mischief import engine_held

PLANNED = ["run-proposed", "run-admitted", "plan-ordered", "plan-received", "plan-projected"]
ASKED = [*PLANNED, "guardrails-evaluated", "approval-requested"]


def test_what_another_person_approves_is_applied_and_the_record_shows_all_of_it(world, workspace):
    shop = workspace()
    run = shop.waiting()
    shown = run.record
    run.approve()
    run.ended_well("applied")
    assert run.happened() == [*ASKED, "decided", "apply-ordered", "apply-received", "run-ended"]
    record = run.record
    # Who.
    assert record["proposer"]["person"] == "alice" and ":assumed-role/alice/" in record["proposer"]["arn"]
    assert record["decision"]["by"]["person"] == "bob" and ":assumed-role/bob/" in record["decision"]["by"]["arn"]
    # What: the plan that was shown is the plan that was applied.
    assert record["decision"]["projection"] == shown["projection"]["object"]["digest"]
    assert record["plan"] == shown["plan"] and record["bundle"] == shown["bundle"] and record["projection"] == shown["projection"]
    assert all(record["plan"][each]["version_id"] for each in ("artifact", "document"))
    # By which engine, as whom.
    assert record["plan"]["engine"] == {"name": world.gate.engine.name, "version": world.gate.engine.version}
    assert f"/{shop.id}-plan/" in record["plan"]["caller"] and f"/{shop.id}-apply/" in record["apply"]["caller"]
    assert record["plan"]["lock_file"] == "none"
    # From which state to which.
    content, version = shop.state()
    state = json.loads(content)
    after = record["apply"]["state_after"]
    assert record["apply"]["state_before"] == record["plan"]["state"] == {"state": "none"}
    assert (after["version_id"], after["serial"], after["lineage"]) == (version, state["serial"], state["lineage"])
    assert {resource["name"] for resource in state["resources"]} == {"shop", "release", "database", "banner"}
    assert shop.secret in json.dumps(state, ensure_ascii=False) or json.dumps(shop.secret)[1:-1] in json.dumps(state)
    # Both logs are kept, without the secret (which the end of each test searches for).
    for phase in ("plan", "apply"):
        lines = run.log(phase)
        assert lines and world.object(f"logs/{shop.id}/{run.id}/{phase}.log").decode().splitlines() == lines
    assert any("Apply complete" in line for line in run.log("apply"))


def test_the_projection_masks_the_secret_and_shows_the_rest(workspace):
    run = workspace().waiting()
    text = run.world.person("bob").cli("show", run.id).out
    projection = json.dumps(run.projection())
    for word in ("terraform_data.database", "terraform_data.shop", "shop:1.4.2", "password"):
        assert word in projection and word in text


def test_a_plan_without_changes_asks_nobody(workspace):
    shop = workspace()
    shop.applied().settled()
    version = shop.state()[1]
    run = shop.propose().ended_well("no_changes")
    assert run.happened() == [*PLANNED[:-1], "run-ended"]
    assert shop.state()[1] == version


def test_a_changed_secret_is_an_update_and_neither_value_is_shown(workspace):
    shop = workspace()
    shop.applied().settled()
    old, new = shop.secret, shop.renew_secret()
    run = shop.waiting()
    document = json.loads(run.world.object(run.record["plan"]["document"]["key"]))
    change = next(each["change"] for each in document["resource_changes"] if each["address"] == "terraform_data.database")
    assert change["before"]["output"]["password"] == old and change["after"]["input"]["password"] == new
    assert run.record["projection"]["counts"] == {"create": 0, "update": 1, "delete": 0, "replace": 0}
    run.approve()
    run.ended_well("applied")


def test_a_plan_only_run_ends_planned_and_nobody_can_decide_on_it(world, workspace):
    shop = workspace()
    run = shop.propose("--plan-only").ended_well("planned")
    assert run.happened() == [*PLANNED, "guardrails-evaluated", "run-ended"]
    assert (shop.lock()["fence"], run.record["fence"]) == (0, 0)
    tried = [run.decision(), run.decision("reject"), run.decision(by="alice"), run.decision(projection="sha256:" + "0" * 64)]
    assert {(status, answer["error"]["reason"]) for status, answer in tried} == {(409, "run-plan-only")}
    assert run.approve(expect=3).reason == "run-plan-only"
    assert run.happened()[-5:] == ["decision-without-effect"] * 5
    assert run.one_terminal_status() == "planned"
    assert shop.state() is None and world.keys(f"orders/{shop.id}/{run.id}/") == [f"orders/{shop.id}/{run.id}/plan.json"]


def test_plan_only_runs_neither_take_the_lock_nor_wait_for_it(workspace):
    shop = workspace()
    holder = shop.waiting()
    shop.propose("--plan-only").end()
    assert holder.status == "awaiting_approval" and shop.lock()["lock"] == {"state": "held", "run": holder.id}
    holder.cancel()
    holder.ended_well("canceled")


def test_a_rejected_run_is_never_applied(workspace):
    shop = workspace()
    run = shop.waiting()
    run.reject(reason="two replicas are too few")
    run.ended_well("rejected")
    assert run.happened() == [*ASKED, "decided", "run-ended"]
    assert run.record["decision"]["reason"] == "two replicas are too few"
    assert shop.state() is None
    assert run.approve(expect=3).reason == "already-decided"


def test_a_rejection_says_why(workspace):
    run = workspace().waiting()
    status, answer = run.decision("reject", reason=None)
    assert (status, answer["error"]["reason"], run.status) == (400, "invalid-request", "awaiting_approval")


def expire(run):
    """The plan's life ends: its end is moved into the past, as if an hour had gone by."""
    run.edit(lambda record: record["plan"].update(expires_at=record["plan"]["received_at"]))


def test_a_plan_on_which_nobody_decides_expires(world, workspace):
    shop = workspace()
    run = shop.waiting()
    expire(run)
    status, answer = run.decision()
    assert (status, answer["error"]["reason"]) == (409, "plan-expired")
    world.sweep()
    run.ended_well("expired")
    assert run.happened() == [*ASKED, "decision-without-effect", "run-ended"]
    assert shop.state() is None


def test_a_plan_that_expires_after_its_approval_fails(workspace):
    shop = workspace()
    run = shop.waiting()
    token = run.lose_token()  # whoever decides cannot wake the run: time goes by
    run.approve()
    expire(run)
    run.wake(token)
    run.ended_well("failed", "plan-expired")
    assert run.happened() == [*ASKED, "decided", "run-ended"]
    assert shop.state() is None


def test_an_approved_run_that_was_not_woken_is_woken_by_the_sweeper(world, workspace):
    run = workspace().waiting()
    token = run.lose_token()
    run.approve()
    run.find_token(token)
    assert run.status == "approved"
    world.sweep()
    run.ended_well("applied")


def test_the_proposer_cannot_approve_and_other_sessions_of_the_same_person_neither(world, workspace):
    run = workspace().waiting()
    assert run.approve(by="alice", expect=3).reason == "distinct-approver-required"
    other = world.stranger("alice")  # the same role; another session
    status, reason = other.refused("POST", f"/v1/runs/{run.id}/decision", {"decision": "approve", "projection": run.digest})
    assert (status, reason) == (403, "distinct-approver-required")
    assert run.happened() == [*ASKED, "decision-without-effect", "decision-without-effect"]
    run.approve()
    run.ended_well("applied")


def test_the_proposer_may_reject(workspace):
    run = workspace().waiting()
    run.reject(by="alice")
    run.ended_well("rejected")


def test_where_one_person_is_enough_the_proposer_may_approve(workspace):
    run = workspace(spec={"distinct_approver": False}).waiting()
    run.approve(by="alice")
    run.ended_well("applied")


def test_a_stranger_is_refused_and_learns_nothing(world, workspace):
    shop = workspace()
    run = shop.waiting()
    before = run.happened()
    absent, nowhere = "run-" + "0" * 26, "ws-" + "0" * 16
    decision = {"decision": "approve", "projection": run.digest}
    spec = {"etag": None, "request_id": "stranger-0001", "namespace": "n", "owner": "o", "spec": shop.spec}
    proposal = {"request_id": "stranger-0002", "kind": "applicable", "bundle": run.record["bundle"]["digest"]}
    requests = [
        *[("GET", f"/v1/runs/%s{part}", None) for part in ("", "/projection", "/audit", "/log/plan", "/log/apply")],
        ("POST", "/v1/runs/%s/decision", decision), ("POST", "/v1/runs/%s/cancel", {})]
    for person in (world.person("mallory"), world.stranger("eve")):
        for method, path, body in requests:
            there, not_there = person.call(method, path % run.id, body), person.call(method, path % absent, body)
            assert there == not_there and there[0] == 403 and there[1]["error"]["reason"] == "not-permitted", (person.name, path, there)
        for identity in (shop.id, nowhere):
            assert person.refused("GET", f"/v1/workspaces/{identity}") == (403, "not-permitted")
            assert person.refused("PUT", f"/v1/workspaces/{identity}", spec) == (403, "not-permitted")
            assert person.refused("POST", "/v1/runs", {**proposal, "workspace": identity}) == (403, "not-permitted")
            assert person.refused("POST", "/v1/bundles", {"workspace": identity, "digest": run.digest, "bytes": 1}) == (403, "not-permitted")
            assert person.refused("GET", f"/v1/runs?workspace={identity}") == (403, "not-permitted")
        assert person.refused("PUT", "/v1/policies/default", spec) == (403, "not-permitted")
    assert world.person("mallory").ask("GET", "/v1/runs") == {"runs": []}
    assert world.person("mallory").ask("GET", "/v1/workspaces") == {"documents": []}
    assert run.happened() == before and run.status == "awaiting_approval"


@pytest.mark.parametrize(("action", "may"), [
    ("read", {"read"}), ("read-logs", {"log"}), ("propose", {"propose"}), ("approve", {"approve"}), ("administer", {"administer"})])
def test_each_grant_is_its_own(world, workspace, action, may):
    shop = workspace(grants={"alice": ("read", "propose"), "bob": ("approve", "read"), "carol": (action,)})
    run, carol = shop.waiting(), world.person("carol")
    tried = {
        "read": carol.call("GET", f"/v1/runs/{run.id}"),
        "log": carol.call("GET", f"/v1/runs/{run.id}/log/plan"),
        "propose": carol.call("POST", "/v1/bundles", {"workspace": shop.id, "digest": run.record["bundle"]["digest"], "bytes": run.record["bundle"]["bytes"]}),
        "approve": carol.call("POST", f"/v1/runs/{run.id}/decision", {"decision": "approve", "projection": "sha256:" + "0" * 64}),
        "administer": carol.call("PUT", f"/v1/workspaces/{shop.id}", {
            "etag": shop.etag, "request_id": f"grant-{action}", "validate_only": True, "namespace": "tests", "owner": "o", "spec": shop.spec}),
    }
    # A decision on another projection gets as far as the projection: that is what may decide.
    allowed = {name for name, (status, answer) in tried.items() if status == 200 or answer["error"]["reason"] == "projection-mismatch"}
    assert allowed == may
    assert all(tried[name][1]["error"]["reason"] == "not-permitted" for name in tried.keys() - may)


def test_a_decision_on_another_projection_is_refused_and_recorded(workspace):
    run = workspace().waiting()
    answer = run.approve(projection="sha256:" + "5" * 64, expect=3)
    assert answer.reason == "projection-mismatch" and run.status == "awaiting_approval"
    recorded = run.events()[-1]
    assert recorded["what"]["type"] == "decision-without-effect" and recorded["what"]["reason"] == "projection-mismatch"
    assert recorded["what"]["decision"]["projection"] == "sha256:" + "5" * 64 and recorded["actor"]["person"] == "bob"
    run.approve()
    run.ended_well("applied")


def test_the_second_decision_is_recorded_and_changes_nothing(world, workspace):
    shop = workspace(grants={"alice": ("read", "propose"), "bob": ("read", "approve"), "carol": ("read", "approve")})
    run = shop.waiting()
    run.approve()
    status, answer = run.decision("reject", by="carol")
    assert (status, answer["error"]["reason"], answer["error"]["details"]["by"]) == (409, "already-decided", "bob")
    run.end()
    assert run.approve(by="carol", expect=3).reason == "already-decided"
    late = [event for event in run.events() if event["what"]["type"] == "decision-without-effect"]
    assert [(event["actor"]["person"], event["what"]["reason"], event["what"]["decision"]["choice"]) for event in late] == [
        ("carol", "already-decided", "reject"), ("carol", "already-decided", "approve")]
    assert run.record["decision"]["by"]["person"] == "bob"
    run.ended_well("applied")


def test_the_second_run_waits_in_line_and_plans_afresh(workspace):
    shop = workspace()
    first = shop.waiting()
    shop.edit("replicas = 2", "replicas = 5")
    second = shop.propose().wait("queued")
    shop.edit("replicas = 5", "replicas = 7")
    third = shop.propose().wait("queued")
    assert shop.line() == [second.id, third.id]
    assert "plan" not in second.record
    first.approve()
    first.end()
    second.wait("awaiting_approval")
    assert second.record["plan"]["state"] == first.record["apply"]["state_after"]
    assert second.record["projection"]["counts"] == {"create": 0, "update": 1, "delete": 0, "replace": 0}
    assert third.status == "queued" and second.record["fence"] == first.record["fence"] + 1
    second.approve()
    second.end()
    third.wait("awaiting_approval").approve()
    third.ended_well("applied")
    assert third.record["plan"]["state"] == second.record["apply"]["state_after"]
    for run in (first, second, third):
        assert run.one_terminal_status() == "applied"


# -- withdrawing ---------------------------------------------------------------------------------------------------


def test_a_run_is_withdrawn_while_it_waits_in_line_and_who_waits_behind_it_moves_up(workspace):
    shop = workspace()
    first = shop.waiting()
    second, third = shop.propose().wait("queued"), shop.propose().wait("queued")
    second.cancel()
    assert second.end() == "canceled" and shop.line() == [third.id]
    first.cancel()
    first.end()
    third.wait("awaiting_approval").cancel()
    third.ended_well("canceled")
    assert [run.one_terminal_status() for run in (first, second, third)] == ["canceled"] * 3


def test_a_run_is_withdrawn_while_it_waits_for_approval(workspace):
    shop = workspace()
    run = shop.waiting()
    run.cancel(by="bob")
    run.ended_well("canceled")
    assert run.approve(expect=3).reason == "run-ended"
    assert run.events()[-2]["what"]["note"] == "no longer wanted"
    assert shop.state() is None


def test_a_run_is_withdrawn_after_its_approval_as_long_as_no_apply_is_ordered(workspace):
    shop = workspace()
    run = shop.waiting()
    run.lose_token()
    run.approve()
    run.cancel()
    run.ended_well("canceled")
    assert shop.state() is None


@contextlib.contextmanager
def not_admitted(world):
    """Within this block executions come no further than to their first step: they may not call it."""
    iam, role = world.stack.client("iam"), "plangate-machine-applicable"
    no = {"Effect": "Deny", "Action": "lambda:InvokeFunction", "Resource": world.outputs["AdmitFunctionArn"]}
    iam.put_role_policy(RoleName=role, PolicyName="no", PolicyDocument=json.dumps({"Version": "2012-10-17", "Statement": [no]}))
    try:
        yield
    finally:
        iam.delete_role_policy(RoleName=role, PolicyName="no")


def test_a_run_is_withdrawn_before_it_is_admitted(world, workspace):
    shop = workspace()
    with not_admitted(world):
        run = shop.propose()
        run.cancel()
        run.ended_well("canceled")
    assert run.happened() == ["run-proposed", "run-ended"] and shop.lock()["fence"] == 0


def test_a_run_that_is_withdrawn_while_it_plans_ends_once_its_plan_has_stopped(world, workspace):
    shop = workspace()
    with engine_held(world, "plan") as post:
        first = shop.propose()
        post.reached()
        second = shop.propose().wait("queued")
        answer = first.cancel()
        assert answer.json["run"]["cancel"]["by"]["person"] == "alice"
        if first.status == "planning":
            # The lock is not passed on before the task is gone.
            assert shop.lock()["lock"] == {"state": "held", "run": first.id} and second.status == "queued"
        world.sweep()
        first.wait("canceled")
        assert not first.tasks()
        post.open()
    second.wait("awaiting_approval").cancel()
    second.ended_well("canceled")
    assert first.one_terminal_status() == "canceled" and "plan-received" not in first.happened()


def test_a_run_that_is_being_applied_cannot_be_withdrawn(world, workspace):
    run = workspace().waiting()
    with engine_held(world, "apply") as post:
        run.approve()
        post.reached()
        assert run.cancel(expect=3).reason == "already-applying"
        post.open()
        run.ended_well("applied")


def test_a_run_that_has_ended_cannot_be_withdrawn(workspace):
    run = workspace().applied()
    run.end()
    assert run.cancel(expect=3).reason == "run-ended"
    assert run.one_terminal_status() == "applied"
