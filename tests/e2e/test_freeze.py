"""Freezes: nothing is admitted, approved or started while one stands; what runs ends; and nobody is lost when it is lifted."""

import contextlib
import json

import pytest
from mischief import nothing_applied, task_held

from gate import wait_until

WHY = "an incident"


def place(workspace):
    """What the command line tool calls a workspace, or (None) the gate as a whole."""
    return (workspace.id,) if workspace else ("--gate",)


@pytest.fixture
def no_clock(world):
    """The sweeper comes when it is called, and not by its clock."""
    events, rule = world.stack.client("events"), f"{world.gate.name}-sweep"
    events.disable_rule(Name=rule)
    yield
    events.enable_rule(Name=rule)


@pytest.fixture
def freeze(world):
    """Freezes a workspace, or the gate as a whole, as the administrator; gives what lifts it. Whatever a test leaves frozen is lifted."""
    lifts = []

    def make(workspace=None):
        world.admin.cli("freeze", *place(workspace), "--reason", WHY)

        def lift():
            if lift in lifts:
                lifts.remove(lift)
                world.admin.cli("unfreeze", *place(workspace), "--reason", "it is over")

        lifts.append(lift)
        return lift

    yield make
    for each in list(lifts):
        with contextlib.suppress(AssertionError):
            each()


def entered(run):
    """How many states the execution has entered so far."""
    history = run.world.stack.client("stepfunctions").get_execution_history(executionArn=run.execution, maxResults=1000)["events"]
    return sum(event["type"].endswith("StateEntered") for event in history)


def parked(run, token=None):
    """Waits until the run's execution waits with another token than this."""
    wait_until(lambda: run.token not in (None, token), f"{run.id} to wait")
    return run.token


def stays(run):
    """Asserts that the run waits without going round: the sweeper leaves it asleep, and its execution enters no further state."""
    token, before = run.token, entered(run)
    for _ in range(2):
        run.world.sweep()
    assert (run.token, entered(run)) == (token, before)


def recorded(events):
    """What a chain tells of freezes: who, what, why."""
    kinds = ("frozen", "freeze-lifted")
    return [(event["actor"]["person"], event["what"]["type"], event["what"]["reason"]) for event in events if event["what"]["type"] in kinds]


def test_a_frozen_workspace_admits_nobody_and_goes_on_in_order(world, workspace, freeze):
    shop, other = workspace(), workspace()
    lift = freeze(shop)
    first, second = shop.propose().wait("queued"), shop.propose().wait("queued")
    looker = shop.propose("--plan-only")
    parked(looker)
    assert (looker.status, shop.line(), shop.lock()["lock"]) == ("proposed", [first.id, second.id], {"state": "free"})
    for run in (first, looker):
        stays(run)
        assert world.keys(f"orders/{shop.id}/{run.id}") == []
        shown, = world.person("bob").cli("show", run.id).json["run"]["frozen"]
        assert (shown["scope"], shown["by"], shown["reason"]) == ("workspace", "administrator", WHY)
    lock = world.admin.cli("workspace", "get", shop.id).json["document"]["lock"]
    assert (lock["state"], lock["waiting"], [each["reason"] for each in lock["frozen"]]) == ("free", 2, [WHY])
    other.propose().wait("awaiting_approval").reject()

    lift()
    assert looker.end() == "planned"
    first.wait("awaiting_approval").reject()
    second.wait("awaiting_approval").reject()
    second.ended_well("rejected")
    assert recorded(shop.ledger()) == [("administrator", "frozen", WHY), ("administrator", "freeze-lifted", "it is over")]


def test_a_plan_that_runs_ends_and_is_not_approved(world, workspace, freeze):
    shop = workspace()
    with task_held(world, "plan") as post:
        run = shop.propose()
        post.reached()
        lift = freeze(shop)
        post.open()
        run.wait("awaiting_approval")
    assert run.approve(expect=3).reason == "frozen"
    assert run.happened()[-1] == "decision-without-effect" and run.status == "awaiting_approval"
    lift()
    run.approve()
    run.ended_well("applied")


def test_to_reject_and_to_withdraw_stay_possible(world, workspace, freeze):
    shop = workspace()
    run, other = shop.waiting(), shop.propose().wait("queued")
    freeze(shop)
    run.reject()
    other.cancel()
    other.ended_well("canceled")
    run.ended_well("rejected")


def test_an_apply_that_was_ordered_ends_and_nobody_comes_after_it(world, workspace, freeze):
    shop = workspace()
    run, second = shop.waiting(), shop.propose().wait("queued")
    with task_held(world, "apply") as post:
        run.approve()
        post.reached()
        lift = freeze(shop)
        post.open()
        assert run.end() == "applied"
    assert (second.status, shop.line(), shop.lock()["lock"]) == ("queued", [second.id], {"state": "free"})
    stays(second)
    lift()
    assert second.end() == "no_changes"
    shop.no_lock_left()


@pytest.fixture
def approved(workspace, freeze):
    """A run that was approved a moment before its workspace was frozen, and which waits; and what lifts the freeze."""
    shop = workspace()
    run = shop.waiting()
    token = run.lose_token()
    run.approve()
    lift = freeze(shop)
    lost = run.token
    run.wake(token)
    parked(run, lost)
    assert run.status == "approved"
    return run, lift


def test_an_approved_run_waits_until_the_freeze_is_lifted(world, approved):
    run, lift = approved
    stays(run)
    assert world.keys(f"orders/{run.workspace.id}/{run.id}/apply") == []
    lift()
    run.ended_well("applied")


def test_an_approval_that_the_freeze_outlives_ends_with_its_plan(world, approved):
    run, _ = approved
    run.edit(lambda record: record["plan"].update(expires_at=record["plan"]["received_at"]))
    world.sweep()
    run.ended_well("failed", "plan-expired")
    nothing_applied(run)


def test_the_whole_gate_is_frozen_and_lifted(world, workspace, freeze):
    shops = [workspace(), workspace()]
    running = shops[0].waiting()
    lift = freeze()
    assert world.admin.cli("gate").json["frozen"]["reason"] == WHY
    runs = [shops[0].propose().wait("queued"), shops[1].propose().wait("queued")]
    assert running.approve(expect=3).reason == "frozen"
    running.reject()
    assert running.end() == "rejected"
    assert [shop.lock()["lock"] for shop in shops] == [{"state": "free"}] * 2
    for run in runs:
        stays(run)
        assert [each["scope"] for each in world.person("bob").cli("show", run.id).json["run"]["frozen"]] == ["gate"]
    assert world.admin.cli("freeze", "--gate", "--reason", "again", expect=3).reason == "already-frozen"
    lift()
    for run in runs:
        run.wait("awaiting_approval").reject()
        run.ended_well("rejected")
    assert recorded(world.chain("gate"))[-2:] == [("administrator", "frozen", WHY), ("administrator", "freeze-lifted", "it is over")]
    assert world.admin.cli("unfreeze", "--gate", "--reason", "again", expect=3).reason == "not-frozen"


def test_whom_a_lift_leaves_behind_the_sweeper_finds(world, workspace, freeze, no_clock):
    """Who lifts dies after the first write: nobody was given a lock, and nobody was woken."""
    shop = workspace()
    freeze()
    run, looker = shop.propose().wait("queued"), shop.propose("--plan-only")
    parked(looker)
    world.edit("FREEZE#gate", "FREEZE", lambda body: body.pop("frozen"))
    assert (run.status, looker.status) == ("queued", "proposed")
    swept = world.sweep()
    assert (swept["granted"], swept["woken"]) == (1, 1), swept
    assert looker.end() == "planned"
    run.wait("awaiting_approval").reject()
    run.ended_well("rejected")


def test_who_administers_a_workspace_freezes_it_and_not_the_gate(world, workspace):
    shop, other = workspace(), workspace()
    world.grant("carol", [shop.id], ["administer", "read"])
    carol, alice = world.person("carol"), world.person("alice")
    for person, where in ((alice, place(shop)), (alice, place(None)), (carol, place(other)), (carol, place(None))):
        for verb in ("freeze", "unfreeze"):
            assert person.cli(verb, *where, "--reason", WHY, expect=3).reason == "not-permitted"
    assert carol.cli("gate", expect=3).reason == "not-permitted"
    carol.cli("freeze", shop.name, "--reason", WHY)
    request = json.dumps({"request_id": "twice-is-once", "reason": WHY}).encode()
    assert carol.refused("POST", f"/v1/workspaces/{shop.id}/freeze", request) == (409, "already-frozen")
    carol.cli("unfreeze", shop.name, "--reason", "it is over")
    assert [who for who, _, _ in recorded(shop.ledger())] == ["carol", "carol"]
    assert world.admin.refused("POST", "/v1/workspaces/ws-0000000000000000/freeze", request)[1] == "not-found"
