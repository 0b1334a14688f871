"""Two who end a run, or begin it, at the same moment: one of them does, the other finds it done, and nothing is applied twice."""

import datetime
import json
import time

import pytest
from mischief import abort, elsewhere, engine_held, exit_code, nothing_applied, said, start_by_hand, state_versions, swept, task_held, together, untouched

from gate import wait_until


def kept(run):
    """All that a run's record, its chain and its workspace's objects say of it."""
    world, workspace = run.world, run.workspace
    keys = [key for folder in ("orders", "claims", "results", "projections", "documents") for key in world.keys(f"{folder}/{workspace.id}/{run.id}")]
    return run.record, run.events(), sorted(keys)


def conclude(run, error="States.TaskFailed"):
    """Calls the function that concludes as the workflow does; gives its answer."""
    answer = run.world.stack.client("lambda").invoke(
        FunctionName=run.world.outputs["ConcludeFunctionArn"], Payload=json.dumps({"run": run.id, "error": error}).encode())
    return json.loads(answer["Payload"].read())


def redriven(run):
    """Lets the ended execution of a run go on where it was, until it has ended again."""
    run.world.stack.client("stepfunctions").redrive_execution(executionArn=run.execution)
    return run.settled()


# -- approval and time ---------------------------------------------------------------------------------------------


def test_an_approval_when_the_time_is_up_is_in_time_or_it_is_none(world, workspace):
    """Four runs whose plans live for some seconds; the approvals come about the very end of that, while the executions time out."""
    shops = [workspace() for _ in range(4)]
    with task_held(world, "plan") as post:
        runs = [shop.propose() for shop in shops]
        for run in runs:
            wait_until(lambda run=run: run.record.get("pinned"), "the workspace to be pinned")
            run.edit(lambda record: record["pinned"]["spec"].update(plan_expiry_seconds=16))
        post.open()
        for run in runs:
            run.wait("awaiting_approval")
    offsets = (-1.2, -0.3, -0.05, 0.05)

    def approve(number):
        expires_at = runs[number].record["plan"]["expires_at"].replace("Z", "+00:00")
        moment = datetime.datetime.fromisoformat(expires_at).timestamp() + offsets[number]
        wait_until(lambda: time.time() >= moment, "the moment", pause=0.005)
        return runs[number].decision()

    for run, (status, answer) in zip(runs, together(4, approve), strict=True):
        end = (status, run.end(), run.failure)
        if status == 200:
            assert end in ((200, "applied", None), (200, "failed", "plan-expired"))
            assert run.record["decision"]["at"] < run.record["plan"]["expires_at"]
        else:
            assert end == (409, "expired", None) and answer["error"]["reason"] in ("plan-expired", "run-ended")
        run.one_terminal_status()
        run.workspace.no_lock_left()
        if end[1] != "applied":
            nothing_applied(run)
            assert state_versions(run.workspace) == []


# -- withdrawal and grant ------------------------------------------------------------------------------------------


def test_a_run_withdrawn_at_the_moment_of_its_grant_leaves_the_lock_to_the_next(workspace):
    shop = workspace()
    holder = shop.waiting()
    line = [shop.propose().wait("queued") for _ in range(4)]
    # While the holder ends: the head of the line is withdrawn from it, or has just been given the lock.
    acts = [lambda: holder.decision("reject"), lambda: shop.world.person("alice").call("POST", f"/v1/runs/{line[0].id}/cancel", {})]
    assert [status for status, _ in together(2, lambda number: acts[number]())] == [200, 200]
    assert (holder.end(), line[0].end()) == ("rejected", "canceled")
    # Just after: as soon as it is seen to have been granted the lock.
    line[1].wait("awaiting_approval").reject()
    line[2].wait("planning").cancel()
    assert (line[1].end(), swept(line[2]).end()) == ("rejected", "canceled")
    line[3].wait("awaiting_approval").reject()
    line[3].ended_well("rejected")
    for run in (holder, *line):
        run.one_terminal_status()
    fences = [run.record["fence"] for run in (holder, *line) if run.record["fence"]]
    assert fences == list(range(1, len(fences) + 1)) and shop.lock()["fence"] == len(fences)


# -- sweepers and conclusions --------------------------------------------------------------------------------------


def test_many_sweepers_at_once_end_each_dead_run_once(world, workspace):
    """Executions that die in line, at the question, after the approval, and before the claim; each death is an event that
    wakes a sweeper, and four more come at the same moment."""
    shops = [workspace() for _ in range(3)]
    with task_held(world, "apply") as post:
        asked, approved, ordered = (shop.propose() for shop in shops)
        queued = shops[0].propose()
        for run in (asked, approved, ordered):
            run.wait("awaiting_approval")
        queued.wait("queued")
        approved.lose_token()
        approved.approve()
        ordered.approve()
        post.reached()
        dead = [queued, asked, approved, ordered]
        with untouched(*shops):
            together(8, lambda number: abort(dead[number]) if number < 4 else world.sweep())
            together(4, lambda _: world.sweep())
            for run in dead:
                swept(run).end()
    assert [run.failure for run in dead] == [*["execution-aborted"] * 3, "apply-not-started"]
    for run in dead:
        assert run.one_terminal_status() == "failed"
        nothing_applied(run)
        run.workspace.no_lock_left()
    assert json.loads(world.object(f"claims/{shops[2].id}/{ordered.id}"))["holder"] == "gate"


def test_sweepers_and_conclusions_at_once_tell_one_end_and_a_redrive_of_it_applies_nothing_again(world, workspace):
    shop = workspace()
    with task_held(world, "apply", after=True) as post:
        run = shop.waiting()
        run.approve()
        post.reached()  # the runner has told what it did, and its task has not ended
        before = state_versions(shop)
        assert len(before) == 1
        abort(run)
        together(6, lambda number: conclude(run) if number % 2 else world.sweep())
    swept(run).ended_well("applied")
    record, events, keys = kept(run)
    # The apply is started once more, by the execution itself. Its own work has moved the state, and the claim is taken besides.
    redriven(run)
    assert kept(run) == (record, events, keys) and state_versions(shop) == before
    assert any("state-identity-mismatch" in said(world, task) for task in run.tasks("apply", "STOPPED"))


# -- redrive -------------------------------------------------------------------------------------------------------


def test_a_redrive_of_an_ended_execution_finds_the_end_wherever_it_goes_on(world, workspace):
    """RedriveExecution starts with the state that was not got through, and with what the execution knew then."""
    shop = workspace()
    holder = shop.propose().wait("awaiting_approval")
    queued, last = shop.propose().wait("queued"), shop.propose().wait("queued")
    abort(queued)
    assert swept(queued).end() == "failed"
    seen = kept(queued)
    redriven(queued)  # Admit
    assert kept(queued) == seen and shop.line() == [last.id]

    abort(holder)
    assert swept(holder).end() == "failed"
    seen = kept(holder)
    last.wait("awaiting_approval")
    redriven(holder)  # RequestApproval
    assert kept(holder) == seen and world.keys(f"orders/{shop.id}/{holder.id}/apply") == []
    assert holder.approve(expect=3).reason == "run-ended"
    assert (last.status, shop.lock()["lock"]) == ("awaiting_approval", {"state": "held", "run": last.id})

    with task_held(world, "apply") as post:
        last.approve()
        post.reached()
        abort(last)
        swept(last).ended_well("failed", "apply-not-started")
    seen = kept(last)
    redriven(last)  # Apply, with an order that is signed and has not expired
    assert kept(last) == seen
    assert any("claim-taken" in said(world, task) for task in last.tasks("apply", "STOPPED"))
    for run in (queued, holder, last):
        run.one_terminal_status()
        nothing_applied(run)
    assert state_versions(shop) == []


def test_a_redrive_of_an_ended_plan_plans_for_nobody(world, workspace):
    shop = workspace()
    with engine_held(world, "plan") as post:
        run = shop.propose()
        post.reached()
        following = shop.propose().wait("queued")
        abort(run)
        assert (swept(run).end(), run.failure) == ("failed", "execution-aborted")
        post.open()
    seen = (run.record, run.events())
    following.wait("awaiting_approval")
    redriven(run)
    assert (run.record, run.events()) == seen and world.keys(f"projections/{shop.id}/{run.id}") == []
    assert following.status == "awaiting_approval"
    following.approve()
    following.ended_well("applied")


# -- the same plan twice -------------------------------------------------------------------------------------------


def test_of_the_same_plan_started_twice_no_half_of_each_is_put_together(world, workspace):
    """The second task is quicker and leaves all that a plan leaves; the first finds its places taken."""
    shop = workspace()
    with engine_held(world, "plan") as post:
        run = shop.propose()
        post.reached()
        with world.runner():
            elsewhere(world, run.id)
            second = start_by_hand(world, shop.id, run.id, "plan", shop.outputs["PlanRoleArn"])
            assert exit_code(world, second) == 0
        assert run.status == "planning"
        post.open()
        run.ended_well("failed", "plan-task-failed")
    assert not {"plan-received", "approval-requested"} & set(run.happened())
    shop.applied().ended_well("applied")


@pytest.mark.parametrize("phase", ["plan", "apply"])
def test_a_task_started_again_while_people_think_changes_nothing(world, workspace, phase):
    shop = workspace()
    run = shop.waiting()
    seen = kept(run)
    with untouched(shop):
        again = start_by_hand(world, shop.id, run.id, phase, shop.outputs[f"{phase.capitalize()}RoleArn"])
        assert exit_code(world, again) == 1
    assert kept(run) == seen and run.status == "awaiting_approval"
    run.approve()
    run.ended_well("applied")
