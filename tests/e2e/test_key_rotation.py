"""The key of apply orders is replaced (docs/key-rotation.md) while runs are in flight: none is stopped, and a retired key orders nothing."""

import json
import shutil

import pytest
from mischief import exit_code, nothing_applied, said, start_by_hand, task_held

from local import deploy


@pytest.fixture
def rotate(world):
    """Updates the gate to another choice of order keys, and its image with it; gives the ARN that signs then. Afterwards all is as before."""
    begun = world.outputs["TaskDefinition"]

    def update(keys, retired=(), earlier=begun):
        world.gate.update(OrderKeys=keys, EarlierTaskDefinitions=earlier)
        deploy.build_image(world.stack, world.outputs, [world.gate.engine], "dev", retired=retired)
        return world.outputs["OrderKeyArn"]

    yield update
    world.quiet()
    update("first", earlier="")


def in_image(world, post):
    """Gives the tasks that wait at a post the configuration of the image as it is now: as if they had been started from it."""
    image = world.stack.images / deploy.IMAGE.split(":")[0]
    shutil.copy2(image / "runner.json", image / post.path.name)


def signer(run):
    """The key that signed a run's order."""
    signatures = json.loads(run.world.object(f"orders/{run.workspace.id}/{run.id}/apply.sig.json"))["signatures"]
    return [each["key_id"] for each in signatures]


def test_orders_by_the_old_key_and_by_the_new_one_are_applied_while_both_are_accepted(world, workspace, rotate):
    shop = workspace()
    first, run = world.outputs["OrderKeyArn"], shop.waiting()
    with task_held(world, "apply") as post:
        run.approve()
        post.reached()
        assert rotate("first-second") == first, "a new key signs nothing before every image knows it"
        second = rotate("second-first")
        assert second != first
        in_image(world, post)
        post.open()
        run.ended_well("applied")
    shop.edit("replicas = 2", "replicas = 3")
    later = shop.applied().ended_well("applied")
    assert (signer(run), signer(later)) == ([first], [second])


def test_an_order_by_a_key_that_was_retired_is_refused_and_its_run_ends(world, workspace, rotate):
    shop = workspace()
    first, run = world.outputs["OrderKeyArn"], shop.waiting()
    with task_held(world, "apply") as post:
        run.approve()
        post.reached()
        rotate("second-first", retired=[first])
        in_image(world, post)
        post.open()
        run.ended_well("failed", "order-key-retired")
    nothing_applied(run)
    assert (signer(run), shop.state()) == ([first], None)
    # The very order again, once somebody accepts the key again: the claim is closed.
    rotate("second-first")
    again = start_by_hand(world, shop.id, run.id, "apply", shop.outputs["ApplyRoleArn"])
    exit_code(world, again)
    assert "claim-taken" in said(world, again)
    assert shop.state() is None and run.one_terminal_status() == "failed"
    later = shop.applied().ended_well("applied")
    assert signer(later) == [world.outputs["OrderKeyArn"]] != [first]


def test_a_run_that_waits_for_its_approval_across_a_whole_rotation_is_applied(world, workspace, rotate):
    shop = workspace()
    first, run = world.outputs["OrderKeyArn"], shop.waiting()
    behind = shop.propose().wait("queued")
    rotate("first-second")
    rotate("second-first", retired=[first])
    second = rotate("second", retired=[first])
    assert world.stack.client("kms").describe_key(KeyId=first)["KeyMetadata"]["Enabled"], "what it signed can still be verified"
    run.approve()
    assert run.end() == "applied"
    assert signer(run) == [second] != [first]
    assert behind.end() == "no_changes"
    shop.no_lock_left()
