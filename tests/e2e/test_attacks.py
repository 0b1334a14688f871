"""Attacks with tasks, orders, receipts and objects: strangers' tasks, neighbours, whatever is put in another's place at each moment. Each
ends in a refusal or a failed run, and never in an apply that nobody has approved."""

import json
import time

import pytest
from attackers import refused, stolen
from mischief import (
    artifact, digest_of, elsewhere, exit_code, nothing_applied, order_key, receipt_key, replace, said, start_by_hand, state_versions, stop_task, swept,
    task_held, untouched)

from gate import wait_until


def copy_orders(world, theirs, ours):
    """Puts the signed order of one run in the place of another's."""
    for name in ("apply.json", "apply.sig.json"):
        replace(world, order_key(ours, name), world.object(order_key(theirs, name)))


# -- tasks and what they are told ----------------------------------------------------------------------------------


def test_a_task_that_is_told_something_else_than_a_run_of_its_role_does_nothing(world, workspace):
    shop, other = workspace(), workspace()
    theirs = other.applied().settled()
    run = shop.waiting()
    role = shop.outputs["ApplyRoleArn"]
    cases = {
        "another phase": (shop.id, run.id, "destroy", {}),
        "no run": (shop.id, "../../x", "apply", {}),
        "no workspace": ("..", run.id, "apply", {}),
        "another workspace's run": (other.id, theirs.id, "apply", {}),
        "that run as one's own": (shop.id, theirs.id, "apply", {}),
        "a run of nobody": (shop.id, "run-" + "0" * 26, "apply", {}),
        "somebody's own keys": (shop.id, run.id, "apply", {"AWS_ACCESS_KEY_ID": world.stack.root_key, "AWS_SECRET_ACCESS_KEY": world.stack.root_secret}),
    }
    with untouched(shop, other):
        tasks = {name: start_by_hand(world, place, told, phase, role, **more) for name, (place, told, phase, more) in cases.items()}
        codes = {name: exit_code(world, task) for name, task in tasks.items()}
    assert codes == dict.fromkeys(cases, 1), {name: said(world, task) for name, task in tasks.items()}
    assert run.status == "awaiting_approval"
    run.reject()
    run.ended_well("rejected")
    nothing_applied(run)


def test_a_task_s_environment_has_no_say_in_what_is_applied(world, workspace):
    """Somebody starts the very task that is due, under its role, with an environment that would turn an engine or an SDK round."""
    shop = workspace()
    trace = world.stack.directory / "posts" / "trace"
    nowhere = "http://127.0.0.1:9"
    hostile = {
        "TF_CLI_ARGS": "-destroy", "TF_CLI_ARGS_apply": "-destroy -auto-approve", "TF_VAR_database_password": "theirs", "TF_LOG": "TRACE",
        "TF_LOG_PATH": str(trace), "TF_DATA_DIR": "/nonexistent", "TF_CLI_CONFIG_FILE": "/nonexistent", "TF_WORKSPACE": "theirs", "PATH": "/nonexistent",
        "HTTP_PROXY": nowhere, "http_proxy": nowhere, "AWS_ENDPOINT_URL": nowhere, "AWS_ENDPOINT_URL_S3": nowhere, "AWS_PROFILE": "theirs",
        "AWS_CONFIG_FILE": "/nonexistent", "AWS_REGION": "us-east-1", "PLANGATE_TABLE": "theirs", "LD_PRELOAD": "/nonexistent.so"}
    run = shop.waiting()
    with task_held(world, "apply") as post:
        run.approve()
        post.reached()
        with world.runner():
            elsewhere(world, run.id)
            theirs = start_by_hand(world, shop.id, run.id, "apply", shop.outputs["ApplyRoleArn"], **hostile)
            assert exit_code(world, theirs) == 0, said(world, theirs)
        after = state_versions(shop)
        post.open()  # the task that the gate has started finds the claim taken
        run.ended_well("applied")
    assert state_versions(shop) == after and len(after) == 1
    names = sorted(f"{each['type']}.{each['name']}" for each in json.loads(shop.state()[0])["resources"])
    assert names == sorted(each["address"] for each in run.projection()["resources"])
    assert shop.secret.split('"')[0] in shop.state()[0].decode() and "theirs" not in shop.state()[0].decode()
    assert not trace.exists()


# -- orders --------------------------------------------------------------------------------------------------------


def test_an_order_of_another_workspace_is_refused_though_the_gate_has_signed_it(world, workspace):
    shop, other = workspace(), workspace()
    theirs = other.applied().settled()
    run = shop.waiting()
    with task_held(world, "apply") as post, untouched(shop, other):
        run.approve()
        post.reached()
        copy_orders(world, theirs, run)
        post.open()
        run.ended_well("failed", "order-invalid")
    nothing_applied(run)


def test_an_old_order_is_refused_when_its_plan_has_expired(world, workspace):
    """Whoever holds a task back until later gains nothing by it."""
    shop = workspace()
    with task_held(world, "plan") as post:
        run = shop.propose()
        wait_until(lambda: run.record.get("pinned"), "the workspace to be pinned")
        run.edit(lambda record: record["pinned"]["spec"].update(plan_expiry_seconds=12))
        post.open()
        run.wait("awaiting_approval")
    with task_held(world, "apply") as post, untouched(shop):
        run.approve()
        post.reached()
        order = json.loads(world.object(order_key(run)))
        wait_until(lambda: time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()) >= order["expires_at"], "the order to expire", 30)
        post.open()
        run.ended_well("failed", "plan-expired")
    nothing_applied(run)


# -- what runners say ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("renamed", [False, True])
def test_a_neighbour_s_roles_write_nothing_about_a_run_and_what_they_would_write_is_not_believed(world, workspace, renamed):
    shop, other = workspace(), workspace()
    theirs = other.applied().settled()
    run = shop.waiting()
    with task_held(world, "apply") as post, untouched(shop):
        run.approve()
        post.reached()
        keys = [f"claims/{shop.id}/{run.id}", f"results/{shop.id}/{run.id}.json", receipt_key(run, "apply"), receipt_key(run, "plan"), order_key(run),
                f"documents/{shop.id}/{run.id}.json", f"bundles/{shop.id}/x.tar.zst", f"logs/{shop.id}/{run.id}/apply.log"]
        for phase in ("Plan", "Apply"):
            s3 = stolen(world, other.outputs[f"{phase}RoleArn"]).client("s3")
            for key in keys:
                where = {"Bucket": world.outputs["ExchangeBucket"], "Key": key, "Body": b"{}"}
                assert refused(s3.put_object, **where) and refused(s3.put_object, **where, IfNoneMatch="*"), key
            for key in (shop.state_key, f"artifacts/{run.id}/plan.tfplan", f"sealed/{run.id}/errored.tfstate"):
                assert refused(s3.put_object, Bucket=shop.bucket, Key=key, Body=b"{}", IfNoneMatch="*"), key
        # As if they could: what their own apply left, word for word, or with this run's name on it.
        for kind in ("results/{}/{}.json", "receipts/{}/{}/apply.json"):
            told = world.object(kind.format(other.id, theirs.id))
            if renamed:
                told = told.replace(theirs.id.encode(), run.id.encode()).replace(other.id.encode(), shop.id.encode())
            replace(world, kind.format(shop.id, run.id), told)
        stop_task(run, "apply")
        swept(run).ended_well("failed", "apply-not-started")
    assert json.loads(world.object(f"claims/{shop.id}/{run.id}"))["holder"] == "gate", "a task of this run could still apply"


def test_a_plan_role_tells_nothing_of_an_apply_and_an_apply_role_nothing_of_a_plan(world, workspace):
    shop = workspace()
    run = shop.waiting()
    plan, apply = (stolen(world, shop.outputs[f"{phase}RoleArn"]).client("s3") for phase in ("Plan", "Apply"))
    bucket = world.outputs["ExchangeBucket"]
    for s3, key in ((plan, receipt_key(run, "apply")), (plan, f"results/{shop.id}/{run.id}.json"), (plan, f"claims/{shop.id}/{run.id}"),
                    (plan, order_key(run)), (apply, receipt_key(run, "plan")), (apply, order_key(run)), (apply, f"documents/{shop.id}/{run.id}.json"),
                    (apply, f"bundles/{shop.id}/x.tar.zst")):
        assert refused(s3.put_object, Bucket=bucket, Key=key, Body=b"{}", IfNoneMatch="*"), key
    assert refused(plan.put_object, Bucket=shop.bucket, Key=shop.state_key, Body=b"{}")
    run.approve()
    run.ended_well("applied")


def test_an_apply_role_that_claims_before_the_gate_has_ordered_only_closes_its_own_workspace(world, workspace):
    """Its word is worth as much as the role: it may change the estate anyway. It gets nothing applied by the gate."""
    shop = workspace()
    run = shop.waiting()
    apply = stolen(world, shop.outputs["ApplyRoleArn"]).client("s3")
    claim = {"schema": "plangate.claim.v1", "run": run.id, "workspace": shop.id, "holder": "runner", "fence": 1, "at": run.record["updated_at"]}
    with untouched(shop):
        apply.put_object(Bucket=world.outputs["ExchangeBucket"], Key=f"claims/{shop.id}/{run.id}", Body=json.dumps(claim).encode(), IfNoneMatch="*")
        run.approve()
        run.ended_well("failed", "apply-outcome-unknown", quarantined=True)
    assert any("claim-taken" in said(world, task) for task in run.tasks("apply", "STOPPED"))


# -- objects replaced at each moment -------------------------------------------------------------------------------


def showing_less(projection):
    """The same projection without one of its resources."""
    shown = json.loads(projection)
    shown["resources"] = shown["resources"][1:]
    return json.dumps(shown, separators=(",", ":")).encode()


def test_a_projection_that_was_replaced_is_shown_to_nobody_and_approving_it_approves_nothing(world, workspace):
    shop = workspace()
    run = shop.waiting()
    key = f"projections/{shop.id}/{run.id}.json"
    true = world.object(key)
    less = showing_less(true)
    replace(world, key, less)
    status, answer = world.person("bob").call("GET", f"/v1/runs/{run.id}/projection")
    assert status == 500 and "projection" not in answer, answer
    assert world.person("bob").cli("show", run.id, expect=None).code != 0
    # Whoever was shown it all the same approves something that this run is not.
    status, answer = run.decision(projection=digest_of(less))
    assert (status, answer["error"]["reason"]) == (409, "projection-mismatch")
    assert run.status == "awaiting_approval"
    replace(world, key, true)
    run.approve()
    run.ended_well("applied")


def test_a_projection_that_stands_there_before_the_gate_has_made_it_fails_the_run(world, workspace):
    shop = workspace()
    with task_held(world, "plan", after=True) as post:
        run = shop.propose()
        post.reached()
        replace(world, f"projections/{shop.id}/{run.id}.json", b'{"theirs":true}')
        post.open()
        run.ended_well("failed", "gate-error")
    assert "approval-requested" not in run.happened()


def test_an_artifact_or_a_bundle_that_was_replaced_after_the_order_was_signed_is_not_applied(world, workspace):
    shops = [workspace() for _ in range(2)]
    runs = [shop.waiting() for shop in shops]
    with task_held(world, "apply") as post, untouched(*shops):
        for run in runs:
            run.approve()
            run.wait("applying")
        bucket, key = artifact(runs[0])
        replace(world, key, world.object(key, bucket), bucket)
        replace(world, runs[1].record["bundle"]["key"], b"theirs")
        post.open()
        for run, reason in zip(runs, ("object-replaced", "bundle-invalid"), strict=True):
            run.ended_well("failed", reason)
            nothing_applied(run)


def test_an_artifact_that_stands_there_before_the_plan_has_made_it_is_not_taken_for_it(world, workspace):
    shop = workspace()
    with task_held(world, "plan") as post:
        run = shop.propose()
        post.reached()
        replace(world, f"artifacts/{run.id}/plan.tfplan", b"theirs", shop.bucket)
        post.open()
        assert run.end() == "failed"
    assert "approval-requested" not in run.happened()
    run.one_terminal_status()
    shop.no_lock_left()


def test_a_document_that_stands_there_before_the_plan_has_made_it_is_not_taken_for_it(world, workspace):
    shop = workspace()
    with task_held(world, "plan") as post:
        run = shop.propose()
        post.reached()
        replace(world, f"documents/{shop.id}/{run.id}.json", b'{"format_version":"1.2","resource_changes":[]}')
        post.open()
        assert run.end() == "failed"
    assert not {"plan-projected", "approval-requested"} & set(run.happened())
    run.one_terminal_status()
    shop.no_lock_left()
