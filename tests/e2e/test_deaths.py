"""Engines, runners, tasks and executions that die, at every stage: each leaves one end, a whole trail, and no lock but one that is meant."""

import json

import pytest
from mischief import (
    Post, abort, engine_held, exit_code, hold_in_configuration, kill_engine, kill_runner, nothing_applied, own_mirror, provider_configuration,
    provider_lock, said, stop_task, swept, task_held)

from gate import wait_until

# Two resources, one after the other: the first waits at a post while it is made.
TWO = """
terraform {{
  required_version = ">= 1.9"
}}
variable "database_password" {{
  type      = string
  sensitive = true
}}
resource "terraform_data" "first" {{
  input = var.database_password
  {hold}
}}
resource "terraform_data" "second" {{
  input = terraform_data.first.id
}}
"""


@pytest.fixture
def applying(world, workspace):
    """A workspace, a run of it whose engine is in the middle of an apply, and the post at which it waits."""
    shop, post = workspace(), Post(world, "first")
    shop.configure(TWO.format(hold=hold_in_configuration(post)))
    run = shop.waiting()
    run.approve()
    post.reached()
    yield shop, run, post
    post.open()


def resources(shop):
    """The names of the resources in a workspace's state."""
    found = shop.state()
    return sorted(resource["name"] for resource in json.loads(found[0])["resources"]) if found else []


def claimed(run):
    """Whether a runner has taken the claim of a run."""
    claim = run.world.object(f"claims/{run.workspace.id}/{run.id}")
    return claim is not None and json.loads(claim)["holder"] == "runner"


# -- the engine ----------------------------------------------------------------------------------------------------


def test_an_engine_killed_while_it_plans_fails_the_plan(world, workspace, mirror):
    shop, post, provider = workspace(), Post(world, "plan"), own_mirror(world, mirror)
    shop.configure(provider_configuration(f'resource "sample_thing" "one" {{\n  name = "one"\n  hold_until = "{post.path}"\n}}'))
    shop.configure(provider_lock(provider), ".terraform.lock.hcl")
    with world.runner(provider_mirror=provider):
        run = shop.propose()
        post.reached()
        kill_engine(run)
        run.ended_well("failed", "plan-errored")
    assert "137" in run.record["failure"]["detail"]
    assert world.keys(f"documents/{shop.id}/") == []


def test_an_engine_killed_while_it_applies_closes_the_workspace_and_the_lock_it_left_is_told_of_and_not_touched(world, applying):
    shop, run, post = applying
    lock = f"{shop.state_key}.tflock"
    assert world.object(lock, shop.bucket)
    kill_engine(run)
    # It could not save what it did: nobody knows what that was.
    assert (run.end(), run.failure) == ("failed", "apply-outcome-unknown")
    assert run.record["apply"]["exit_code"] == 137
    # The engine's own lock on the state is somebody's to release who has looked.
    left = json.loads(world.object(lock, shop.bucket))
    assert run.record["apply"]["state_lock"]["orphan"]["id"] == left["ID"]
    assert any(lock in line and left["ID"] in line for line in run.log("apply"))
    run.ended_well("failed", "apply-outcome-unknown", quarantined=True)
    world.stack.client("s3").delete_object(Bucket=shop.bucket, Key=lock)
    look = shop.propose("--plan-only")
    assert look.end() == "planned"
    world.admin.cli("workspace", "acknowledge", shop.id, "--run", look.id, "--note", "nothing was made")
    post.open()
    shop.applied().ended_well("applied")


# -- the runner ----------------------------------------------------------------------------------------------------


def test_a_runner_killed_while_it_plans_leaves_a_failed_run(world, workspace):
    shop = workspace()
    with engine_held(world, "plan") as post:
        run = shop.propose()
        post.reached()
        kill_runner(run)
        run.ended_well("failed", "plan-task-failed")
    # What it had said until then is kept.
    assert any("init ended with exit code 0" in line for line in run.log("plan"))


def test_a_runner_killed_before_the_claim_has_applied_nothing_and_never_will(world, workspace):
    shop = workspace()
    run = shop.waiting()
    with engine_held(world, "show") as post:
        run.approve()
        post.reached()
        kill_runner(run)
        run.ended_well("failed", "apply-not-started")
    nothing_applied(run)
    assert json.loads(world.object(f"claims/{shop.id}/{run.id}"))["holder"] == "gate"
    assert shop.state() is None
    shop.applied().ended_well("applied")


def test_a_runner_killed_after_the_claim_closes_the_workspace_until_somebody_has_looked(world, workspace):
    shop, post = workspace(), Post(world, "first")
    world.grant("carol", [shop.id], ("read", "administer"))
    shop.configure(TWO.format(hold=hold_in_configuration(post)))
    run = shop.waiting()
    run.approve()
    post.reached()
    waiting = shop.propose().wait("queued")
    kill_runner(run)
    world.stack.client("s3").delete_object(Bucket=shop.bucket, Key=f"{shop.state_key}.tflock")
    run.ended_well("failed", "apply-outcome-unknown", quarantined=True)
    post.open()
    assert "lock-quarantined" in [event["what"]["type"] for event in shop.ledger()]
    # Nobody gets the lock: not who waited, not who comes now, not by the sweeper.
    later = shop.propose().wait("queued")
    world.sweep()
    assert (waiting.status, later.status, shop.line()) == ("queued", "queued", [waiting.id, later.id])
    shop.quarantined_by(run)

    def acknowledge(seen, by="carol", expect=0):
        return world.person(by).cli("workspace", "acknowledge", shop.id, "--run", seen.id, "--note", "looked, and all is well", expect=expect)

    # To look, a plan-only run is made: those go on. Nothing older will do, nor a run that did not look.
    assert acknowledge(run, expect=3).reason == "nothing-to-acknowledge"
    assert acknowledge(waiting, expect=3).reason == "nothing-to-acknowledge"
    look = shop.propose("--plan-only")
    assert look.end() == "planned"
    assert acknowledge(look, by="bob", expect=3).reason == "not-permitted"
    acknowledge(look)
    waiting.wait("awaiting_approval")
    assert shop.lock()["lock"] == {"state": "held", "run": waiting.id}
    acknowledged, = [event for event in shop.ledger() if event["what"]["type"] == "lock-acknowledged"]
    assert (acknowledged["actor"]["person"], acknowledged["what"]["run"], acknowledged["what"]["note"]) == ("carol", look.id, "looked, and all is well")
    assert acknowledge(look, expect=3).reason == "nothing-to-acknowledge"
    waiting.approve()
    assert waiting.end() == "applied"
    later.ended_well("no_changes")
    assert resources(shop) == ["first", "second"]
    for each in (run, waiting, look):
        each.one_terminal_status()


# -- the task ------------------------------------------------------------------------------------------------------


def test_a_task_stopped_while_it_plans_says_so(world, workspace):
    with engine_held(world, "plan") as post:
        run = workspace().propose()
        post.reached()
        stop_task(run, "plan")
        run.ended_well("failed", "plan-errored")
    assert "stop" in run.record["failure"]["detail"]


def test_a_task_stopped_before_the_claim_has_applied_nothing(world, workspace):
    shop = workspace()
    run = shop.waiting()
    with engine_held(world, "show") as post:
        run.approve()
        post.reached()
        stop_task(run, "apply")
        run.ended_well("failed", "apply-not-started")
    nothing_applied(run)
    assert shop.state() is None


def stopped_engine(world, run, end):
    """Ends a task by `end` and waits until the engine has been told and has said so."""
    task, = run.tasks("apply")
    end()
    wait_until(lambda: "plangate: the engine is told to stop" in said(world, task), "the engine to be told")
    # The engine's own words; in between it may not have come to hear of it.
    wait_until(lambda: "nterrupt" in said(world, task) or "topping" in said(world, task), "the engine to have heard")


def test_a_task_stopped_while_it_applies_saves_what_it_did_and_says_what_that_was(world, applying):
    shop, run, post = applying
    stopped_engine(world, run, lambda: stop_task(run, "apply"))
    post.open()
    run.ended_well("failed", "apply-errored")
    assert claimed(run) and resources(shop) == ["first"]
    after = run.record["apply"]["state_after"]
    assert after["version_id"] == shop.state()[1] and run.record["apply"]["exit_code"] != 0


# -- the execution -------------------------------------------------------------------------------------------------


def test_an_execution_aborted_in_line_leaves_the_line_as_it_was_without_it(workspace):
    shop = workspace()
    first = shop.waiting()
    second, third = shop.propose().wait("queued"), shop.propose().wait("queued")
    abort(second)
    assert (swept(second).end(), second.failure) == ("failed", "execution-aborted")
    assert second.one_terminal_status() == "failed" and shop.line() == [third.id]
    first.reject()
    third.wait("awaiting_approval").cancel()
    third.ended_well("canceled")


def test_an_execution_aborted_while_it_plans_ends_the_task_first(world, workspace):
    shop = workspace()
    with engine_held(world, "plan") as post:
        run = shop.propose()
        post.reached()
        abort(run)
        swept(run).ended_well("failed", "execution-aborted")


def test_an_execution_aborted_while_people_think_about_it_ends_the_run(workspace):
    shop = workspace()
    run = shop.waiting()
    second = shop.propose().wait("queued")
    abort(run)
    assert (swept(run).end(), run.failure) == ("failed", "execution-aborted")
    assert run.approve(expect=3).reason == "run-ended"
    assert run.one_terminal_status() == "failed"
    second.wait("awaiting_approval").reject()
    second.ended_well("rejected")


def test_a_dead_execution_is_heard_of_by_its_event_without_waiting_for_the_sweeper_s_clock(workspace):
    shop = workspace()
    run = shop.waiting()
    abort(run)
    run.ended_well("failed", "execution-aborted")


def test_an_execution_aborted_after_the_approval_applies_nothing(workspace):
    shop = workspace()
    run = shop.waiting()
    run.lose_token()
    run.approve()
    abort(run)
    swept(run).ended_well("failed", "execution-aborted")
    nothing_applied(run)
    assert shop.state() is None


def test_an_execution_aborted_before_the_claim_applies_nothing(world, workspace):
    shop = workspace()
    run = shop.waiting()
    with task_held(world, "apply") as post:
        run.approve()
        post.reached()
        abort(run)
        swept(run).ended_well("failed", "apply-not-started")
    nothing_applied(run)
    assert shop.state() is None


def test_an_execution_aborted_while_it_applies_is_concluded_by_what_its_task_left(world, workspace, mirror):
    shop, post, provider = workspace(), Post(world, "first"), own_mirror(world, mirror)
    shop.configure(provider_configuration(f"""
resource "sample_thing" "first" {{
  name             = "first"
  hold_apply_until = "{post.path}"
}}
resource "sample_thing" "second" {{
  name = sample_thing.first.id
}}"""))
    shop.configure(provider_lock(provider), ".terraform.lock.hcl")
    with world.runner(provider_mirror=provider):
        run = shop.waiting()
        run.approve()
        post.reached()
        # A provider in the middle of a change is let finish.
        stopped_engine(world, run, lambda: abort(run))
    world.sweep()
    assert run.status == "applying" and shop.lock()["lock"] == {"state": "held", "run": run.id}
    post.open()
    swept(run).ended_well("failed", "apply-errored")
    assert resources(shop) == ["first"] and run.record["apply"]["state_after"]["version_id"] == shop.state()[1]


def test_an_execution_aborted_and_its_runner_killed_while_it_applies_closes_the_workspace(world, applying):
    shop, run, post = applying
    kill = run.tasks("apply")
    abort(run)
    kill_runner(run)
    assert exit_code(world, kill[0]) == 137
    world.stack.client("s3").delete_object(Bucket=shop.bucket, Key=f"{shop.state_key}.tflock")
    swept(run).ended_well("failed", "apply-outcome-unknown", quarantined=True)
    post.open()


def test_a_run_whose_execution_was_never_started_is_started_by_the_sweeper(world, workspace):
    shop, iam = workspace(), world.stack.client("iam")
    api = world.outputs["ApiRoleArn"].rsplit("/", 1)[-1]
    deny = {"Version": "2012-10-17", "Statement": [{"Effect": "Deny", "Action": "states:StartExecution", "Resource": "*"}]}
    iam.put_role_policy(RoleName=api, PolicyName="test-no-start", PolicyDocument=json.dumps(deny))
    try:
        run = shop.propose()
    finally:
        iam.delete_role_policy(RoleName=api, PolicyName="test-no-start")
    assert run.status == "proposed" and run.happened() == ["run-proposed"]
    world.sweep()
    run.wait("awaiting_approval").reject()
    run.ended_well("rejected")
