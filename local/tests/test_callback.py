"""lambda:invoke.waitForTaskToken: the answer, the failure and the end of waiting."""

import json

import pytest

from .conftest import only

ANSWER = '''
import boto3
states = boto3.client("stepfunctions")
def handle(event):
    states.send_task_success(taskToken=event["token"], output=json.dumps({"from": event["run"]}))
    return "means nothing"
'''
KEEP = '''
import boto3
def handle(event):
    boto3.client("ssm").put_parameter(Name=event["name"], Value=event["token"], Type="String", Overwrite=True)
'''


def waiting(function, **more):
    return {"Type": "Task", "Resource": "arn:aws:states:::lambda:invoke.waitForTaskToken", "End": True,
            "Arguments": {"FunctionName": function, "Payload": {
                "token": "{% $states.context.Task.Token %}", "run": "run-1", "name": "{% $states.context.Execution.Name %}"}}, **more}


def held_token(lab, execution):
    from local.stack import wait_for
    ssm, name = lab.stack.client("ssm"), execution.rsplit(":", 1)[-1]

    def look():
        try:
            return ssm.get_parameter(Name=name)["Parameter"]["Value"]
        except ssm.exceptions.ParameterNotFound:
            return None
    return wait_for(look, 20, "the token")


def test_a_function_may_answer_before_it_returns(lab):
    function = lab.function("answer", ANSWER, ("states:SendTaskSuccess", "*"))
    ended = lab.run(lab.machine(only(waiting(function)), ("lambda:InvokeFunction", function)))
    assert ended["status"] == "SUCCEEDED", ended
    assert json.loads(ended["output"]) == {"from": "run-1"}


def test_a_function_that_fails_fails_the_state_at_once_with_its_error(lab):
    function = lab.function("broken", "class NotAdmitted(Exception): pass\ndef handle(event): raise NotAdmitted('no bundle')")
    ended = lab.run(lab.machine(only(waiting(function, TimeoutSeconds=3600)), ("lambda:InvokeFunction", function)))
    assert (ended["status"], ended["error"]) == ("FAILED", "NotAdmitted")
    assert json.loads(ended["cause"])["errorMessage"] == "no bundle"


def test_a_token_is_answered_once(lab):
    function = lab.function("keep", KEEP, ("ssm:PutParameter", "*"))
    execution = lab.start(lab.machine(only(waiting(function)), ("lambda:InvokeFunction", function)))
    token = held_token(lab, execution)
    lab.states.send_task_success(taskToken=token, output='"first"')
    with pytest.raises(lab.states.exceptions.TaskTimedOut):
        lab.states.send_task_success(taskToken=token, output='"second"')
    assert json.loads(lab.ended(execution)["output"]) == "first"
    with pytest.raises(lab.states.exceptions.TaskTimedOut):
        lab.states.send_task_failure(taskToken=token, error="Late")
    with pytest.raises(lab.states.exceptions.InvalidToken):
        lab.states.send_task_success(taskToken="made up", output="{}")


@pytest.mark.parametrize("timeout", [
    {"TimeoutSeconds": "{% $states.input.left %}"}, {"TimeoutSeconds": 1},
    {"QueryLanguage": "JSONPath", "TimeoutSecondsPath": "$.left"}], ids=["expression", "number", "path"])
def test_a_state_waits_as_long_as_it_was_told(lab, timeout):
    function = lab.function("idle", "def handle(event): pass")
    state = waiting(function, **timeout)
    if "QueryLanguage" in timeout:
        state["Parameters"] = {"FunctionName": state.pop("Arguments")["FunctionName"], "Payload": {"token.$": "$$.Task.Token"}}
    ended = lab.run(lab.machine(only(state), ("lambda:InvokeFunction", function)), {"left": 1})
    assert (ended["status"], ended["error"]) == ("FAILED", "States.Timeout"), ended


def test_each_attempt_of_a_retry_has_a_token_of_its_own(lab):
    function = lab.function("twice", '''
import boto3
class Unavailable(Exception): pass
seen = []
def handle(event):
    seen.append(event["token"])
    if len(seen) == 1:
        raise Unavailable("once")
    boto3.client("stepfunctions").send_task_success(taskToken=event["token"], output=json.dumps(seen))
''', ("states:SendTaskSuccess", "*"))
    retry = [{"ErrorEquals": ["Unavailable"], "IntervalSeconds": 1, "MaxAttempts": 2}]
    ended = lab.run(lab.machine(only(waiting(function, Retry=retry)), ("lambda:InvokeFunction", function)))
    tokens = json.loads(ended["output"])
    assert len(set(tokens)) == 2


def test_a_stopped_execution_waits_no_longer(lab):
    function = lab.function("keep", KEEP, ("ssm:PutParameter", "*"))
    execution = lab.start(lab.machine(only(waiting(function)), ("lambda:InvokeFunction", function)))
    token = held_token(lab, execution)
    lab.states.stop_execution(executionArn=execution)
    assert lab.ended(execution)["status"] == "ABORTED"
    with pytest.raises(lab.states.exceptions.TaskTimedOut):
        lab.states.send_task_success(taskToken=token, output="{}")


def test_a_heartbeat_that_stays_away_fails_the_state(lab):
    function = lab.function("idle", "def handle(event): pass")
    state = waiting(function, TimeoutSeconds=3600, HeartbeatSeconds=1)
    ended = lab.run(lab.machine(only(state), ("lambda:InvokeFunction", function)))
    assert ended["error"] == "States.HeartbeatTimeout"
