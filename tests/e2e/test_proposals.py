"""Proposing, listing and reading: requests that are sent again, that say what they may not, and pages."""

import json

import pytest


def test_the_same_request_is_the_same_run_and_another_one_is_refused(world, workspace):
    shop = workspace()
    run = shop.waiting()
    alice = world.person("alice")
    body = {"request_id": "again-and-again", "workspace": shop.id, "kind": "plan-only", "bundle": run.record["bundle"]["digest"]}
    first = alice.ask("POST", "/v1/runs", body, 201)["run"]["id"]
    assert alice.ask("POST", "/v1/runs", body, 201)["run"]["id"] == first
    assert alice.refused("POST", "/v1/runs", {**body, "kind": "applicable"}) == (409, "request-id-reused")
    # Another person's request of the same name is another request.
    other = world.person("bob").ask("POST", "/v1/runs", body, 201)["run"]["id"]
    assert other != first
    listed = [each["id"] for each in alice.ask("GET", f"/v1/runs?workspace={shop.id}")["runs"]]
    assert listed == sorted([run.id, first, other], reverse=True)


@pytest.mark.parametrize(("change", "status", "reason"), [
    ({"unknown": 1}, 400, "invalid-request"), ({"kind": "destroy"}, 400, "invalid-request"), ({"request_id": "x"}, 400, "invalid-request"),
    ({"bundle": "sha256:" + "0" * 64}, 409, "bundle-missing"), ({"on_behalf_of": "carol"}, 400, "invalid-request")])
def test_a_proposal_that_says_what_it_may_not_is_refused(world, workspace, change, status, reason):
    shop = workspace()
    bundle = shop.propose("--plan-only").record["bundle"]["digest"]
    body = {"request_id": "a-proposal", "workspace": shop.id, "kind": "plan-only", "bundle": bundle}
    assert world.person("alice").refused("POST", "/v1/runs", {**body, **change}) == (status, reason)
    assert world.person("alice").refused("POST", "/v1/runs", b"{") == (400, "invalid-request")
    twice = json.dumps(body)[:-1] + ',"kind":"applicable"}'
    assert world.person("alice").refused("POST", "/v1/runs", twice.encode()) == (400, "invalid-request")


def test_listings_page_by_cursor(world, workspace):
    shop, alice = workspace(), world.person("alice")
    runs = [shop.propose("--plan-only").id for _ in range(5)]
    seen, cursor = [], ""
    while True:
        page = alice.ask("GET", f"/v1/runs?workspace={shop.id}&limit=2{cursor}")
        seen += [run["id"] for run in page["runs"]]
        if "cursor" not in page:
            break
        cursor = f"&cursor={page['cursor']}"
    assert seen == sorted(runs, reverse=True)
    assert alice.refused("GET", f"/v1/runs?workspace={shop.id}&limit=0") == (400, "invalid-request")
    assert alice.refused("GET", f"/v1/runs?workspace={shop.id}&before=1") == (400, "invalid-request")
    assert alice.refused("GET", "/v1/nothing") == (404, "no-such-route")


def test_the_command_line_tool_lists_shows_and_verifies(world, workspace):
    shop = workspace()
    run = shop.waiting()
    bob = world.person("bob")
    assert [each["id"] for each in bob.cli("runs", "--workspace", shop.name).json["runs"]] == [run.id]
    assert bob.cli("watch", run.id, expect=8).json["run"]["status"] == "awaiting_approval"
    assert len(bob.cli("audit", run.id).json["events"]) == len(run.events())
    assert bob.cli("workspace", "get", shop.name).json["document"]["lock"]["run"] == run.id
    run.reject()
    assert bob.cli("watch", run.id, expect=5).json["run"]["status"] == "rejected"
