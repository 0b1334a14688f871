"""Who may have something applied: the gate's signed order, once, and nothing else: no token, no task by hand, no changed record."""

import base64
import dataclasses
import hashlib
import json

import pytest
from mischief import elsewhere, engine_held, exit_code, nothing_applied, order_key, replace, said, start_by_hand, swept, task_held

from gate import wait_until
from deploy.image import pem
from local import deploy


def changed(order):
    """The same order, but on whatever the artifact shows."""
    document = json.loads(order)
    document["approved"]["projection"] = "sha256:" + "0" * 64
    return json.dumps(document, separators=(",", ":")).encode()


def signature(world, key, content, claimed=None):
    """A list of signatures by a KMS key over an order; it may claim to be another key's."""
    digest = hashlib.sha256(content).digest()
    made = world.stack.client("kms").sign(KeyId=key, Message=digest, MessageType="DIGEST", SigningAlgorithm="ECDSA_SHA_256")["Signature"]
    each = {"key_id": claimed or key, "algorithm": "ECDSA_SHA_256", "signature": base64.b64encode(made).decode()}
    return json.dumps({"signatures": [each]}, separators=(",", ":")).encode()


@pytest.fixture
def ordered(world, workspace):
    """A run whose apply is ordered and whose task waits before its runner starts, and the post at which it does."""
    shop = workspace()
    run = shop.waiting()
    with task_held(world, "apply") as post:
        run.approve()
        post.reached()
        yield run, post
        post.open()


def refuses(run, post):
    """Lets the runner start; asserts that it refuses its order and that nothing is applied, now or later."""
    post.open()
    run.ended_well("failed", "order-invalid")
    nothing_applied(run)
    assert run.workspace.state() is None
    assert run.world.object(f"claims/{run.workspace.id}/{run.id}"), "the claim must be closed"


# -- the order -----------------------------------------------------------------------------------------------------


def test_an_order_that_was_changed_after_it_was_signed_is_refused(world, ordered):
    run, post = ordered
    replace(world, order_key(run), changed(world.object(order_key(run))))
    refuses(run, post)


@pytest.mark.parametrize("claims_to_be_the_gates", [False, True], ids=["openly", "in the gate's name"])
def test_an_order_signed_by_another_key_is_refused(world, ordered, claims_to_be_the_gates):
    run, post = ordered
    key = world.stack.client("kms").create_key(KeySpec="ECC_NIST_P256", KeyUsage="SIGN_VERIFY")["KeyMetadata"]["Arn"]
    order = changed(world.object(order_key(run)))
    claimed = world.outputs["OrderKeyArn"] if claims_to_be_the_gates else None
    replace(world, order_key(run), order)
    replace(world, order_key(run, "apply.sig.json"), signature(world, key, order, claimed))
    refuses(run, post)


def test_an_order_without_a_signature_is_refused(world, ordered):
    run, post = ordered
    world.stack.client("s3").delete_object(Bucket=world.outputs["ExchangeBucket"], Key=order_key(run, "apply.sig.json"))
    refuses(run, post)


def test_an_order_of_another_run_is_refused_though_the_gate_has_signed_it(world, workspace):
    shop = workspace()
    first = shop.applied().settled()
    shop.edit("replicas = 2", "replicas = 5")
    run = shop.waiting()
    version = shop.state()[1]
    with task_held(world, "apply") as post:
        run.approve()
        post.reached()
        for name in ("apply.json", "apply.sig.json"):
            replace(world, order_key(run, name), world.object(order_key(first, name)))
        post.open()
        run.ended_well("failed", "order-invalid")
    nothing_applied(run)
    assert shop.state()[1] == version


def test_an_order_that_stands_there_before_the_gate_writes_it_is_noticed(world, workspace):
    shop = workspace()
    run = shop.waiting()
    replace(world, order_key(run), b'{"mine":true}')
    run.approve()
    run.ended_well("failed", "apply-not-started")
    nothing_applied(run)
    assert world.object(order_key(run, "apply.sig.json")) is None, "the gate has signed what is not its own"


def test_a_plan_order_that_was_changed_plans_nothing_that_is_believed(world, workspace):
    """It is not signed: what it makes is held against the gate's own order."""
    shop = workspace()
    with task_held(world, "plan") as post:
        run = shop.propose()
        post.reached()
        order = json.loads(world.object(order_key(run, "plan.json")))
        order["fence"] += 1
        replace(world, order_key(run, "plan.json"), json.dumps(order).encode())
        post.open()
        run.ended_well("failed", "receipt-invalid")
    assert "approval-requested" not in run.happened()


def test_the_runner_verifies_with_the_gates_own_key(world):
    """What the image carries is the public half of the key that only `authorize` may use."""
    configuration = json.loads((world.stack.images / deploy.IMAGE.split(":")[0] / "runner.json").read_text())
    public = world.stack.client("kms").get_public_key(KeyId=world.outputs["OrderKeyArn"])["PublicKey"]
    assert configuration["order_keys"] == [{"key_id": world.outputs["OrderKeyArn"], "public_key_pem": pem(public), "state": "accepted"}]


# -- tasks by hand -------------------------------------------------------------------------------------------------


def test_an_apply_started_by_hand_before_the_approval_finds_no_order(world, workspace):
    shop = workspace()
    run = shop.waiting()
    task = start_by_hand(world, shop.id, run.id, "apply", shop.outputs["ApplyRoleArn"])
    assert exit_code(world, task) == 1
    assert "no receipt was written" in said(world, task)
    assert run.status == "awaiting_approval" and shop.state() is None
    run.reject()
    run.ended_well("rejected")


def test_an_apply_of_a_plan_only_run_started_by_hand_finds_no_order(world, workspace):
    shop = workspace()
    run = shop.propose("--plan-only").ended_well("planned")
    task = start_by_hand(world, shop.id, run.id, "apply", shop.outputs["ApplyRoleArn"])
    assert exit_code(world, task) == 1
    nothing_applied(run)
    assert shop.state() is None


def test_a_task_under_another_workspace_s_role_cannot_even_read_the_order(world, workspace):
    shop, other = workspace(), workspace()
    run = shop.waiting()
    with task_held(world, "apply") as post:
        run.approve()
        post.reached()
        task = start_by_hand(world, shop.id, run.id, "apply", other.outputs["ApplyRoleArn"])
        post.open()
        assert exit_code(world, task) == 1
        run.ended_well("applied")


def test_an_apply_under_the_plan_role_is_refused(world, workspace):
    """The plan role reads the order, and is not who it is for."""
    shop = workspace()
    run = shop.applied().settled()
    before = shop.state()
    task = start_by_hand(world, shop.id, run.id, "apply", shop.outputs["PlanRoleArn"])
    assert exit_code(world, task) == 1
    assert shop.state() == before and run.one_terminal_status() == "applied"


# -- twice ---------------------------------------------------------------------------------------------------------


def test_the_same_apply_started_twice_is_applied_once(world, workspace):
    shop = workspace()
    run = shop.waiting()
    with engine_held(world, "apply") as post:
        run.approve()
        post.reached()  # the first has the claim, and its engine begins
        with world.runner():
            elsewhere(world, run.id)
            second = start_by_hand(world, shop.id, run.id, "apply", shop.outputs["ApplyRoleArn"])
            assert exit_code(world, second) == 0
        assert "claim-taken" in said(world, second)
        assert run.status == "applying" and shop.state() is None
        post.open()
        # The second one's receipt came first. It says nothing of what the first one did.
        run.ended_well("applied")
    assert run.record["apply"]["state_after"]["version_id"] == shop.state()[1]


def test_a_second_task_that_fails_early_does_not_speak_for_the_first(world, workspace):
    shop = workspace()
    run = shop.waiting()
    with engine_held(world, "apply") as post:
        run.approve()
        post.reached()
        with world.runner(engines=[dataclasses.replace(world.gate.engine, sha256="0" * 64)]):
            second = start_by_hand(world, shop.id, run.id, "apply", shop.outputs["ApplyRoleArn"])
            assert exit_code(world, second) == 0
        assert "engine-version-mismatch" in said(world, second)
        post.open()
        run.ended_well("applied")


def test_an_apply_started_again_after_its_end_changes_nothing(world, workspace):
    shop = workspace()
    run = shop.applied().settled()
    before = shop.state()
    again = start_by_hand(world, shop.id, run.id, "apply", shop.outputs["ApplyRoleArn"])
    exit_code(world, again)
    assert shop.state() == before and run.one_terminal_status() == "applied"


def test_the_order_of_a_refused_apply_cannot_be_used_once_more(world, workspace):
    """What kept it from being applied has gone again; the order is signed and has not expired."""
    shop = workspace()
    run = shop.waiting()
    with world.runner(engines=[dataclasses.replace(world.gate.engine, sha256="0" * 64)]):
        run.approve()
        run.ended_well("failed", "engine-version-mismatch")
    again = start_by_hand(world, shop.id, run.id, "apply", shop.outputs["ApplyRoleArn"])
    exit_code(world, again)
    assert "claim-taken" in said(world, again)
    assert shop.state() is None and run.one_terminal_status() == "failed"


# -- tokens and records --------------------------------------------------------------------------------------------


INVENTED = json.dumps({"Payload": {"route": "approved", "seconds_left": 60}, "approved": True, "task_role": "arn:aws:iam::111122223333:role/administrator"})


def complete(run):
    """A stranger completes the token with which a run waits, with output of their own; gives the token."""
    token = run.token
    run.world.stack.client("stepfunctions").send_task_success(taskToken=token, output=INVENTED)
    return token


def test_a_stranger_who_completes_a_token_approves_nothing(world, workspace):
    shop = workspace()
    run = shop.waiting()
    token = complete(run)
    wait_until(lambda: run.token not in (None, token), "the run to wait with another token")
    assert run.status == "awaiting_approval" and world.keys(order_key(run, "apply")) == []
    assert run.happened()[-1] == "approval-requested"
    run.approve()
    run.ended_well("applied")


def test_a_stranger_who_completes_a_token_gets_nobody_past_the_line(world, workspace):
    shop = workspace()
    first = shop.waiting()
    second = shop.propose().wait("queued")
    token = complete(second)
    wait_until(lambda: second.token not in (None, token), "the run to wait with another token")
    assert second.status == "queued" and shop.line() == [second.id]
    assert world.keys(order_key(second, "plan")) == []
    first.reject()
    second.wait("awaiting_approval").reject()
    second.ended_well("rejected")


def test_a_plan_only_run_whose_record_was_made_applicable_is_not_applied(world, workspace):
    shop = workspace()
    with task_held(world, "plan") as post:
        run = shop.propose("--plan-only")
        post.reached()
        run.edit(lambda record: record.update(kind="applicable"))
        post.open()
        run.ended_well("failed", "receipt-invalid")
    assert "approval-requested" not in run.happened() and shop.state() is None


def test_an_approved_run_whose_record_was_made_plan_only_is_not_applied_and_gives_its_lock_back(workspace):
    shop = workspace()
    run = shop.waiting()
    second = shop.propose().wait("queued")
    token = run.lose_token()
    run.approve()
    run.edit(lambda record: record.update(kind="plan-only"))
    run.wake(token)
    assert (run.end(), run.failure) == ("failed", "kind-mismatch")
    assert run.one_terminal_status() == "failed" and shop.state() is None
    second.wait("awaiting_approval").reject()
    second.ended_well("rejected")


def test_a_record_that_was_made_approved_without_a_decision_is_not_applied(workspace):
    shop = workspace()
    run = shop.waiting()
    token = run.lose_token()
    run.edit(lambda record: record.update(status="approved"))
    run.wake(token)
    swept(run).ended_well("failed", "gate-error")
    nothing_applied(run)
    assert shop.state() is None


def test_a_run_that_lost_its_lock_is_not_applied(world, workspace):
    shop = workspace()
    run = shop.waiting()
    token = run.lose_token()
    run.approve()
    world.edit(f"WS#{shop.id}", "LOCK", lambda lock: lock.update(fence=lock["fence"] + 1))
    run.wake(token)
    assert (run.end(), run.failure) == ("failed", "lock-lost")
    nothing_applied(run)
    assert shop.state() is None
