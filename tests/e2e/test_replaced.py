"""What was planned, shown and approved is what is applied, or nothing is: whatever is put in its place meanwhile is noticed."""

import json

import pytest
from mischief import archive, artifact, bundle_key, digest_of, forge_receipt, nothing_applied, propose, replace, swept, task_held, upload

SCRIPTED = """
terraform {
  required_version = ">= 1.9"
}
variable "database_password" {
  type      = string
  sensitive = true
}
resource "terraform_data" "release" {
  triggers_replace = filesha256("release.sh")
  provisioner "local-exec" {
    command = "sh ./release.sh"
  }
}
"""


def refused_after_approval(run, reason):
    """Approves a run and asserts that nothing of it was applied, and why."""
    run.approve()
    run.ended_well("failed", reason)
    nothing_applied(run)


# -- the state -----------------------------------------------------------------------------------------------------


def moved(content):
    """A state as it is after somebody else's apply."""
    state = json.loads(content)
    return json.dumps({**state, "serial": state["serial"] + 1}).encode()


def test_a_state_that_moved_between_plan_and_approval_is_not_applied_to(workspace):
    shop = workspace()
    shop.applied().settled()
    shop.edit("replicas = 2", "replicas = 5")
    run = shop.waiting()
    theirs = shop.put_state(moved(shop.state()[0]))
    refused_after_approval(run, "state-identity-mismatch")
    assert shop.state()[1] == theirs


def test_a_state_that_appeared_between_plan_and_approval_is_not_applied_to(workspace):
    shop = workspace()
    run = shop.waiting()
    theirs = shop.put_state(b'{"version":4,"terraform_version":"1.11.4","serial":1,"lineage":"theirs","outputs":{},"resources":[]}')
    refused_after_approval(run, "state-identity-mismatch")
    assert shop.state()[1] == theirs


def test_a_state_that_was_restored_and_written_anew_to_the_same_serial_is_another(workspace):
    shop = workspace()
    shop.applied().settled()
    shop.edit("replicas = 2", "replicas = 5")
    run = shop.waiting()
    content, version = shop.state()
    shop.put_state(moved(content))
    theirs = shop.put_state(content)  # lineage, serial and every byte agree; it is another version all the same
    assert shop.state()[0] == content and theirs != version
    refused_after_approval(run, "state-identity-mismatch")
    assert shop.state()[1] == theirs


# -- the artifact --------------------------------------------------------------------------------------------------


def test_an_artifact_of_another_plan_is_not_applied(workspace):
    shop = workspace()
    run = shop.waiting()
    shop.edit("Summer sale", "Everything must go")
    # A whole plan of the same workspace, made by the same engine, which nobody has approved.
    other = shop.propose("--plan-only")
    assert other.end() == "planned"
    (bucket, key), (_, theirs) = artifact(run), artifact(other)
    replace(run.world, key, run.world.object(theirs, bucket), bucket)
    refused_after_approval(run, "object-replaced")
    assert shop.state() is None


def test_an_artifact_that_was_written_again_is_not_applied_even_if_its_bytes_are_the_same(workspace):
    shop = workspace()
    run = shop.waiting()
    bucket, key = artifact(run)
    replace(run.world, key, run.world.object(key, bucket), bucket)
    refused_after_approval(run, "object-replaced")
    assert shop.state() is None


def test_an_artifact_that_is_gone_is_not_applied(workspace):
    shop = workspace()
    run = shop.waiting()
    bucket, key = artifact(run)
    run.world.stack.client("s3").delete_object(Bucket=bucket, Key=key)
    refused_after_approval(run, "object-replaced")
    assert shop.state() is None


# -- the document --------------------------------------------------------------------------------------------------


def showing_less(document):
    """The same plan document without one of its changes."""
    plan = json.loads(document)
    assert len(plan["resource_changes"]) == 4
    plan["resource_changes"] = [each for each in plan["resource_changes"] if each["address"] != "terraform_data.banner"]
    return json.dumps(plan, separators=(",", ":")).encode()


def replace_document(run):
    """Puts a document that shows less in the place of the one that the plan task has left; gives what a receipt would say of it."""
    key = f"documents/{run.workspace.id}/{run.id}.json"
    less = showing_less(run.world.object(key))
    return {"version_id": replace(run.world, key, less), "digest": digest_of(less), "bytes": len(less)}


def test_a_document_replaced_after_the_plan_is_not_read_the_recorded_version_is(world, workspace):
    shop = workspace()
    with task_held(world, "plan", after=True) as post:
        run = shop.propose()
        post.reached()
        replace_document(run)
        post.open()
        run.wait("awaiting_approval")
    assert run.record["projection"]["counts"]["create"] == 4
    assert "terraform_data.banner" in json.dumps(run.projection())
    run.approve()
    run.ended_well("applied")


def test_a_document_whose_recorded_version_was_destroyed_is_missed(world, workspace):
    shop = workspace()
    with task_held(world, "plan", after=True) as post:
        run = shop.propose()
        post.reached()
        key = f"documents/{shop.id}/{run.id}.json"
        version = world.stack.client("s3").head_object(Bucket=world.outputs["ExchangeBucket"], Key=key)["VersionId"]
        replace_document(run)
        world.stack.client("s3").delete_object(Bucket=world.outputs["ExchangeBucket"], Key=key, VersionId=version)
        post.open()
        run.ended_well("failed", "object-replaced")
    assert "approval-requested" not in run.happened()


def test_a_document_that_shows_less_than_the_artifact_does_is_found_out_by_the_apply(world, workspace):
    shop = workspace()
    with task_held(world, "plan", after=True) as post:
        run = shop.propose()
        post.reached()
        # The plan role's own word, before the gate has taken it in: nothing that is stored contradicts it.
        less = replace_document(run)
        forge_receipt(run, "plan", lambda receipt: receipt["planned"]["document"].update(less))
        post.open()
        run.wait("awaiting_approval")
    assert run.record["projection"]["counts"]["create"] == 3
    assert "terraform_data.banner" not in json.dumps(run.projection())
    refused_after_approval(run, "projection-mismatch")
    assert shop.state() is None


# -- the bundle ----------------------------------------------------------------------------------------------------


def scripted(line):
    """The files of a configuration that runs a script of its bundle when it is applied."""
    return {"main.tf": SCRIPTED, "release.sh": f"{line}\n"}


def test_a_script_of_the_bundle_that_changed_between_plan_and_apply_is_not_run(world, workspace):
    shop = workspace()
    for name, text in scripted("true").items():
        shop.configure(text, name)
    run = shop.waiting()
    ran = world.stack.directory / "posts" / f"ran-{run.id}"
    other = archive(scripted(f"touch {ran}"))
    replace(world, run.record["bundle"]["key"], other)
    refused_after_approval(run, "bundle-invalid")
    assert shop.state() is None and not ran.exists()


def test_a_bundle_that_was_replaced_before_the_plan_is_not_planned(world, workspace):
    shop = workspace()
    with task_held(world, "plan") as post:
        run = shop.propose()
        post.reached()
        replace(world, run.record["bundle"]["key"], archive(scripted("true")))
        post.open()
        run.ended_well("failed", "bundle-invalid")
    assert world.keys(f"documents/{shop.id}/") == []


def test_a_bundle_that_was_replaced_before_the_proposal_is_as_good_as_none(world, workspace):
    shop = workspace()
    content = archive(scripted("true"))
    assert upload(shop, content) == 200
    replace(world, bundle_key(shop, digest_of(content)), archive(scripted("false")))
    body = {"request_id": "a-replaced-bundle", "workspace": shop.id, "kind": "applicable", "bundle": digest_of(content)}
    assert world.person("alice").refused("POST", "/v1/runs", body) == (409, "bundle-missing")


def test_a_bundle_that_was_replaced_while_its_run_waited_in_line_is_not_planned(world, workspace):
    shop = workspace()
    holder = shop.waiting()
    content = archive(scripted("true"))
    assert upload(shop, content) == 200
    run = propose(shop, digest_of(content), "applicable").wait("queued")
    replace(world, run.record["bundle"]["key"], archive(scripted("false")))
    holder.reject()
    run.ended_well("failed", "bundle-invalid")


# -- receipts ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("change", "reason"), [
    (lambda receipt: receipt.update(unknown=1), "receipt-invalid"),
    (lambda receipt: receipt.update(kind="plan-only"), "receipt-invalid"),
    (lambda receipt: receipt.update(fence=receipt["fence"] + 1), "receipt-invalid"),
    (lambda receipt: receipt.update(caller=receipt["caller"].replace("-plan/", "-apply/")), "receipt-invalid"),
    (lambda receipt: receipt["planned"]["artifact"].update(key="artifacts/run-00000000000000000000000000/plan.tfplan"), "receipt-invalid"),
    (lambda receipt: receipt["planned"].update(exit_code=0), "plan-inconsistent"),
], ids=["unknown-field", "kind", "fence", "caller", "artifact", "exit-code"])
def test_a_forged_plan_receipt_is_not_believed(world, workspace, change, reason):
    shop = workspace()
    with task_held(world, "plan", after=True) as post:
        run = shop.propose()
        post.reached()
        forge_receipt(run, "plan", change)
        post.open()
        run.ended_well("failed", reason)
    assert "approval-requested" not in run.happened()


def test_a_receipt_that_names_another_state_ends_in_nothing(world, workspace):
    shop = workspace()
    with task_held(world, "plan", after=True) as post:
        run = shop.propose()
        post.reached()
        there = {"state": "present", "lineage": "theirs", "serial": 7, "version_id": "v", "digest": digest_of(b"")}
        forge_receipt(run, "plan", lambda receipt: receipt["planned"].update(state=there))
        post.open()
        run.wait("awaiting_approval")
    refused_after_approval(run, "state-identity-mismatch")
    assert shop.state() is None


def test_a_record_whose_approval_is_of_another_projection_is_not_applied(workspace):
    shop = workspace()
    run = shop.waiting()
    token = run.lose_token()
    run.approve()
    run.edit(lambda record: record["projection"]["object"].update(digest=digest_of(b"another")))
    run.wake(token)
    run.ended_well("failed", "gate-error")
    assert swept(run).world.keys(f"orders/{shop.id}/{run.id}/apply") == []
