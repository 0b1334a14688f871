"""Attacks on the gate's own processes: executions, inputs and tokens in strangers' hands, functions that lie, stolen roles at the table.
Each ends in a refusal or a failed run, and never in an apply that nobody has approved."""

import json

import pytest
from attackers import FUNCTIONS, lying, refused, role_of, stolen
from mischief import abort, nothing_applied, order_key, said, swept, task_held, untouched

from gate import wait_until


# -- executions, their inputs and their tokens ---------------------------------------------------------------------


@pytest.mark.parametrize("told", [
    {"task_role": "arn:aws:iam::111122223333:role/administrator", "order": {"task_role": "x"}, "changes": True, "route": "approved", "verdict": "approved"},
    {"error": "NotApproved", "approved": True}], ids=["a route of its own", "an error of its own"])
def test_an_execution_that_a_stranger_starts_for_a_run_gets_nothing_applied(world, workspace, told):
    """Step Functions changes no input of an execution that runs; what can be done is to start another, with any input."""
    shop, states = workspace(), world.stack.client("stepfunctions")
    run = shop.waiting()
    with untouched(shop):
        theirs = states.start_execution(
            stateMachineArn=world.outputs["MachineApplicableArn"], name=f"theirs-{run.id}", input=json.dumps({"run": run.id, **told}))["executionArn"]
        wait_until(lambda: states.describe_execution(executionArn=theirs)["status"] != "RUNNING", "the stranger's execution to end")
        run.wait("failed")
        abort(run)  # its own execution would wait until the plan is dead, and then find the end
        run.ended_well("failed", "gate-error")
    nothing_applied(run)
    assert world.keys(order_key(run, "apply")) == []
    assert run.approve(expect=3).reason == "run-ended"


def test_an_applicable_execution_of_a_plan_only_run_applies_nothing(world, workspace):
    shop, states = workspace(), world.stack.client("stepfunctions")
    with task_held(world, "plan") as post, untouched(shop):
        run = shop.propose("--plan-only")
        post.reached()
        theirs = states.start_execution(
            stateMachineArn=world.outputs["MachineApplicableArn"], name=run.id, input=json.dumps({"run": run.id}))["executionArn"]
        post.open()
        wait_until(lambda: states.describe_execution(executionArn=theirs)["status"] != "RUNNING", "the stranger's execution to end")
        assert run.end() in ("planned", "failed")
    run.one_terminal_status()
    nothing_applied(run)
    assert world.keys(order_key(run, "apply")) == [] and "approval-requested" not in run.happened()


def answers(run, **answer):
    """A stranger answers the token with which a run waits: with a failure, or by a heartbeat; gives the token."""
    states, token = run.world.stack.client("stepfunctions"), run.token
    if answer:
        states.send_task_failure(taskToken=token, **answer)
    else:
        states.send_task_heartbeat(taskToken=token)
    return token


@pytest.mark.parametrize("error", ["States.Timeout", "NotApproved", "Invented", None])
def test_a_stolen_token_of_a_question_answered_with_a_failure_or_a_heartbeat_approves_nothing(world, workspace, error):
    shop = workspace()
    run = shop.waiting()
    with untouched(shop):
        token = answers(run, **({"error": error, "cause": "approved"} if error else {}))
        if error == "States.Timeout":
            # Time is looked at where the record is: the run goes on waiting.
            wait_until(lambda: run.token not in (None, token), "the run to wait with another token")
        elif error:
            run.ended_well("failed", "gate-error")
        assert world.keys(order_key(run, "apply")) == [] and "decided" not in run.happened()
        nothing_applied(run)
    if error in ("States.Timeout", None):
        assert run.status == "awaiting_approval"
        run.approve()
        run.ended_well("applied")


@pytest.mark.parametrize("error", ["States.Timeout", "Invented", None])
def test_a_stolen_token_of_the_line_answered_with_a_failure_or_a_heartbeat_gets_nobody_past_it(world, workspace, error):
    shop = workspace()
    holder = shop.waiting()
    run, last = shop.propose().wait("queued"), shop.propose().wait("queued")
    token = answers(run, **({"error": error, "cause": "admitted"} if error else {}))
    if error == "States.Timeout":
        wait_until(lambda: run.token not in (None, token), "the run to wait with another token")
    elif error:
        assert (run.end(), run.failure) == ("failed", "gate-error")
    assert world.keys(order_key(run, "plan")) == []
    assert shop.line() == ([last.id] if error == "Invented" else [run.id, last.id])
    assert shop.lock()["lock"] == {"state": "held", "run": holder.id}
    for each in (holder, run, last):
        if each.status not in ("failed", "rejected"):
            each.wait("awaiting_approval").reject()
            each.end()
        each.one_terminal_status()
    shop.no_lock_left()


# -- functions that lie --------------------------------------------------------------------------------------------


def test_a_lying_prepare_has_nothing_planned(world, workspace):
    shop, other = workspace(), workspace()
    with lying(world, "prepare", {"task_role": other.outputs["ApplyRoleArn"], "workspace": other.id, "run": "run-" + "0" * 26}), untouched(shop, other):
        run = shop.propose()
        run.ended_well("failed", "plan-task-failed")
    nothing_applied(run)


def test_a_lying_project_has_nobody_asked(world, workspace):
    shop = workspace()
    with lying(world, "project", {"changes": True}), untouched(shop):
        run = shop.propose()
        run.ended_well("failed", "gate-error")
    assert not {"plan-projected", "approval-requested"} & set(run.happened())


def test_a_lying_review_approves_nothing(world, workspace):
    """It says what only a person may say, in a workspace where what is eligible needs none."""
    shop = workspace(spec={"automatic_approval": True})
    shop.configure('variable "database_password" {\n  type      = string\n  sensitive = true\n}\nresource "terraform_data" "one" {\n  input = 1\n}\n')
    with lying(world, "review", {"route": "approved", "seconds_left": 600}), untouched(shop):
        run = shop.propose()
        assert run.end() == "failed" and run.failure == "gate-error", run.story()
    assert run.record["guardrails"]["eligible"], "the review was not asked"
    assert "decided" not in run.happened() and world.keys(order_key(run, "apply")) == []
    nothing_applied(run)
    run.one_terminal_status()


def test_a_lying_authorize_starts_a_task_that_finds_no_order(world, workspace):
    shop = workspace()
    run = shop.waiting()
    told = {"task_role": shop.outputs["ApplyRoleArn"], "workspace": shop.id, "run": run.id}
    with lying(world, "authorize", told), untouched(shop):
        run.wake(run.token)
        run.ended_well("failed", "gate-error")
    task = run.tasks("apply", "STOPPED")[0]
    assert "no receipt was written" in said(world, task)
    nothing_applied(run)


# -- the table -----------------------------------------------------------------------------------------------------


def write(world, pk, sk, body, **more):
    """One write of a transaction, as a function of the gate makes it."""
    item = {"pk": {"S": pk}, "sk": {"S": sk}, "body": {"S": json.dumps(body, separators=(",", ":"))}, **more}
    return {"Put": {"TableName": world.outputs["Table"], "Item": item}}


def test_no_function_but_those_in_which_people_decide_writes_a_decision_and_one_that_stands_in_a_record_is_none(world, workspace):
    shop = workspace()
    run = shop.waiting()
    record, plain = world.item(f"RUN#{run.id}", "RUN")
    decision = {"choice": "approve", "by": {"kind": "person", "person": "bob", "arn": world.person("bob").arn}, "surface": "api", "projection": run.digest, "at": record["updated_at"]}
    approved = {**record, "status": "approved", "decision": decision}
    token = run.lose_token()
    kept = {"version": {"N": str(int(plain["version"]) + 1)}, **{name: {"S": plain[name]} for name in ("lists_pk", "lists_sk", "open_pk", "open_sk", "workspace", "kind")}}
    as_approved = write(world, f"RUN#{run.id}", "RUN", approved, status={"S": "approved"}, token={"S": token}, **kept)
    with untouched(shop):
        for function in FUNCTIONS:
            if function in ("api", "slack"):
                continue
            table = stolen(world, role_of(world, function)).client("dynamodb")
            together = [write(world, f"DEC#{run.id}", "DEC", decision, version={"N": "1"}), as_approved]
            assert refused(table.transact_write_items, TransactItems=together), function
            assert refused(table.transact_write_items, TransactItems=together[:1]), function
            assert refused(table.put_item, TableName=world.outputs["Table"], Item=as_approved["Put"]["Item"]), function
        assert run.status == "awaiting_approval"
        # A record alone it may write, for it writes records. What stands there was never decided.
        stolen(world, role_of(world, "guard")).client("dynamodb").transact_write_items(TransactItems=[as_approved])
        assert run.status == "approved"
        run.wake(token)
        swept(run).ended_well("failed", "gate-error")
    nothing_applied(run)
    assert world.keys(order_key(run, "apply")) == []


def test_no_role_of_the_gate_or_of_a_workspace_calls_the_api(world, workspace):
    shop = workspace()
    run = shop.waiting()
    roles = [*(role_of(world, function) for function in FUNCTIONS), shop.outputs["PlanRoleArn"], shop.outputs["ApplyRoleArn"]]
    thief = world.stranger("thief")
    for role in roles:
        thief.session = stolen(world, role)
        status, _ = thief.call("POST", f"/v1/runs/{run.id}/decision", {"decision": "approve", "projection": run.digest})
        assert status == 403, role
    assert run.happened()[-1] == "approval-requested"
    run.reject()
    run.ended_well("rejected")
