"""Configuration: documents with an etag, a request id and a rehearsal, each change audited."""

import json
import secrets

import pytest

POLICY = {"schema": "plangate.policy.v1"}


@pytest.fixture
def name():
    return f"policy-{secrets.token_hex(6)}"


def body(etag=None, spec=None, **more):
    return {"etag": etag, "request_id": secrets.token_hex(8), "namespace": "tests", "owner": "administrator", "spec": spec or POLICY, **more}


def test_a_write_names_the_etag_that_it_read(world, name):
    put = lambda expect, **fields: world.admin.ask("PUT", f"/v1/policies/{name}", body(**fields), expect)  # noqa: E731
    first = put(200)["document"]
    assert world.admin.ask("GET", f"/v1/policies/{name}")["document"] == first
    assert put(412)["error"]["reason"] == "etag-mismatch"
    second = put(200, etag=first["etag"], spec={**POLICY, "max_changes": {"total": 3}})["document"]
    assert second["etag"] != first["etag"]
    stale = put(412, etag=first["etag"])["error"]
    assert (stale["reason"], stale["details"]) == ("etag-mismatch", {"etag": second["etag"]})
    assert world.admin.ask("GET", f"/v1/policies/{name}")["document"] == second


def test_the_same_request_gives_the_first_answer_and_another_is_refused(world, name):
    request = body()
    first = world.admin.ask("PUT", f"/v1/policies/{name}", request)
    assert world.admin.ask("PUT", f"/v1/policies/{name}", request) == first
    changed = {**request, "owner": "somebody-else"}
    assert world.admin.refused("PUT", f"/v1/policies/{name}", changed) == (409, "request-id-reused")
    assert world.admin.refused("PUT", f"/v1/policies/{name}-2", request) == (409, "request-id-reused")


def test_a_rehearsal_goes_the_whole_way_and_writes_nothing(world, name):
    rehearsed = world.admin.ask("PUT", f"/v1/policies/{name}", body(validate_only=True))
    assert rehearsed["committed"] is False and rehearsed["document"]["spec"] == POLICY
    assert world.admin.refused("GET", f"/v1/policies/{name}") == (404, "not-found")
    assert world.admin.refused("PUT", f"/v1/policies/{name}", body(validate_only=True, spec={"schema": "other"})) == (400, "invalid-document")
    # The request id of a rehearsal is free for the performance.
    request = body(validate_only=True)
    world.admin.ask("PUT", f"/v1/policies/{name}", request)
    assert world.admin.ask("PUT", f"/v1/policies/{name}", {**request, "validate_only": False})["committed"] is True


def test_each_change_is_audited_with_what_was_before_and_after(world, name):
    etag = world.admin.ask("PUT", f"/v1/policies/{name}", body())["document"]["etag"]
    after = world.admin.ask("PUT", f"/v1/policies/{name}", body(etag, {**POLICY, "max_changes": {"total": 3}}))["document"]
    changes = [event["what"] for event in world.chain("gate") if event["what"].get("id") == name]
    assert [change["type"] for change in changes] == ["document-changed"] * 2
    assert changes[1] == {
        "type": "document-changed", "document": "policy", "id": name, "before": etag, "after": after["etag"], "spec_before": POLICY,
        "spec_after": {**POLICY, "max_changes": {"total": 3}}}


def test_a_workspace_keeps_its_own_ledger(world, workspace):
    shop = workspace()
    etag = shop.etag
    shop.change(plan_expiry_seconds=600)
    changes = [event for event in shop.ledger() if event["what"]["type"] == "document-changed"]
    assert [(event["what"].get("before"), event["what"]["after"], event["actor"]["person"]) for event in changes] == [
        (None, etag, "administrator"), (etag, shop.etag, "administrator")]


def test_the_command_line_tool_writes_what_it_reads(world, workspace):
    shop = workspace()
    shown = world.admin.cli("workspace", "get", shop.name).json["document"]
    shown["spec"]["plan_expiry_seconds"] = 120
    text = json.dumps(shown)
    rehearsed = world.admin.cli("workspace", "put", "-", "--validate-only", stdin=text).json
    assert rehearsed["committed"] is False
    written = world.admin.cli("workspace", "put", "-", stdin=text).json["document"]
    assert written["spec"]["plan_expiry_seconds"] == 120
    assert world.admin.cli("workspace", "put", "-", stdin=text, expect=3).reason == "etag-mismatch"
    assert world.admin.cli("workspace", "put", "-", "--etag", "none", stdin=text, expect=3).reason == "etag-mismatch"


@pytest.mark.parametrize(("field", "value"), [
    ("engine", {"name": "terraform", "version": "~> 1.11"}), ("plan_expiry_seconds", 59), ("plan_role", "arn:aws:iam::111122223333:role/administrator"),
    ("secrets", [{"variable": "a", "parameter": "/somebody/elses"}]), ("secrets", [{"variable": "a", "value": "in the clear"}]), ("unknown", True),
    ("reviewer", {"binding": "always-approve"})])
def test_a_workspace_that_says_what_it_may_not_is_refused(world, workspace, field, value):
    shop = workspace()
    request = body(shop.etag, {**shop.spec, field: value})
    status, answer = world.admin.call("PUT", f"/v1/workspaces/{shop.id}", request)
    assert (status, answer["error"]["reason"]) == (400, "invalid-document")
    assert "in the clear" not in json.dumps(answer)
    assert world.admin.ask("GET", f"/v1/workspaces/{shop.id}")["document"]["spec"] == shop.spec


@pytest.mark.parametrize("shared", ["name", "state", "plan_role", "apply_role"])
def test_a_name_a_state_and_a_role_are_one_workspaces_alone(world, workspace, shared):
    ours, theirs = workspace(), workspace()
    if shared.endswith("_role"):
        # A role names its workspace, so another's is refused for that already.
        expected = (400, "invalid-document")
    else:
        expected = (409, "not-unique")
    request = body(theirs.etag, {**theirs.spec, shared: ours.spec[shared]})
    assert world.admin.refused("PUT", f"/v1/workspaces/{theirs.id}", request) == expected


def test_a_policy_that_is_not_there_cannot_be_named(world, workspace):
    shop = workspace()
    request = body(shop.etag, {**shop.spec, "policy": "no-such-policy"})
    assert world.admin.refused("PUT", f"/v1/workspaces/{shop.id}", request) == (409, "missing-reference")


def test_an_identity_is_one_persons_alone(world):
    world.person("bob")
    request = body(spec={"person": "impostor", "iam": [{"account": "111122223333", "role": "bob"}]})
    assert world.admin.refused("PUT", "/v1/principals/impostor", request) == (409, "not-unique")


def test_a_grant_that_is_taken_back_no_longer_holds(world, workspace):
    shop = workspace(grants={"alice": ("read", "propose")})
    run, carol = shop.waiting(), world.person("carol")
    grant = f"g-{secrets.token_hex(6)}"
    spec = {"person": "carol", "workspaces": [shop.id], "actions": ["read"]}
    etag = world.document("grant", grant, spec)["document"]["etag"]
    carol.ask("GET", f"/v1/runs/{run.id}")
    world.document("grant", grant, {**spec, "actions": ["propose"]}, etag)
    assert carol.refused("GET", f"/v1/runs/{run.id}") == (403, "not-permitted")
