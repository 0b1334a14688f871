"""Executions: begun once, ended once, and in time."""

import json

import pytest

from .conftest import only


def waiting(lab):
    return lab.machine(only({"Type": "Wait", "Seconds": 3600, "End": True}))


def test_starting_again_by_the_same_name_and_input_is_one_execution(lab):
    machine, name = waiting(lab), f"run-{lab.id}"
    first = lab.states.start_execution(stateMachineArn=machine, name=name, input='{"run": 1}')
    again = lab.states.start_execution(stateMachineArn=machine, name=name, input='{"run": 1}')
    assert (first["executionArn"], first["startDate"]) == (again["executionArn"], again["startDate"])
    with pytest.raises(lab.states.exceptions.ExecutionAlreadyExists):
        lab.states.start_execution(stateMachineArn=machine, name=name, input='{"run": 2}')
    lab.states.stop_execution(executionArn=first["executionArn"])
    with pytest.raises(lab.states.exceptions.ExecutionAlreadyExists):
        lab.states.start_execution(stateMachineArn=machine, name=name, input='{"run": 1}')


def test_a_failure_after_the_end_changes_nothing(lab):
    function = lab.function("slow", f'''
import boto3, time
def handle(event):
    ssm = boto3.client("ssm")
    ssm.put_parameter(Name="/started/{lab.id}", Value="yes", Type="String")
    while True:
        try:
            ssm.get_parameter(Name="/go/{lab.id}")
            raise RuntimeError("too late")
        except ssm.exceptions.ParameterNotFound:
            time.sleep(0.05)
''', (["ssm:PutParameter", "ssm:GetParameter"], "*"))
    state = {"Type": "Task", "Resource": "arn:aws:states:::lambda:invoke", "Arguments": {"FunctionName": function}, "End": True}
    execution = lab.start(lab.machine(only(state), ("lambda:InvokeFunction", function)))
    from local.stack import wait_for
    ssm = lab.stack.client("ssm")
    wait_for(lambda: ssm.get_parameters(Names=[f"/started/{lab.id}"])["Parameters"], 20, "the function's start")
    lab.states.stop_execution(executionArn=execution, error="Canceled", cause="by its owner")
    ssm.put_parameter(Name=f"/go/{lab.id}", Value="yes", Type="String")
    wait_for(lambda: any(lab.logs.describe_log_streams(logGroupName=group["logGroupName"])["logStreams"] for group in
                         lab.logs.describe_log_groups(logGroupNamePrefix=f"/aws/lambda/slow-{lab.id}")["logGroups"]), 20, "the function's end")
    ended = lab.states.describe_execution(executionArn=execution)
    assert (ended["status"], ended["error"]) == ("ABORTED", "Canceled")
    assert lab.states.get_execution_history(executionArn=execution)["events"][-1]["type"] == "ExecutionAborted"


def test_a_machine_has_a_time_limit_of_its_own(lab):
    machine = lab.machine(only({"Type": "Wait", "Seconds": 2, "End": True}, TimeoutSeconds=1))
    ended = lab.run(machine)
    assert ended["status"] == "TIMED_OUT"
    assert lab.states.get_execution_history(executionArn=ended["executionArn"])["events"][-1]["type"] == "ExecutionTimedOut"


def test_a_time_limit_that_is_no_number_fails_the_state_and_can_be_caught(lab):
    function = lab.function("any", "def handle(event): return 1")
    state = {"Type": "Task", "Resource": "arn:aws:states:::lambda:invoke", "Arguments": {"FunctionName": function}, "End": True,
             "TimeoutSeconds": "{% $states.input.left %}",
             "Catch": [{"ErrorEquals": ["States.QueryEvaluationError"], "Output": "caught", "Next": "Caught"}]}
    definition = only(state)
    definition["States"]["Caught"] = {"Type": "Succeed"}
    machine = lab.machine(definition, ("lambda:InvokeFunction", function))
    assert json.loads(lab.run(machine, {"left": "soon"})["output"]) == "caught"
    assert json.loads(lab.run(machine, {"left": 0})["output"]) == "caught"
    assert json.loads(lab.run(machine, {"left": 60})["output"])["Payload"] == 1


def test_an_execution_that_did_not_succeed_goes_on_where_it_was(lab):
    function = lab.function("picky", f'''
import boto3
def handle(event):
    if event.get("asks"):
        boto3.client("ssm").get_parameter(Name="/go/{lab.id}")
    return event
''', ("ssm:GetParameter", "*"))
    call = {"Type": "Task", "Resource": "arn:aws:states:::lambda:invoke"}
    definition = {"QueryLanguage": "JSONata", "StartAt": "First", "States": {
        "First": {**call, "Arguments": {"FunctionName": function, "Payload": {"name": "first"}}, "Next": "Picky",
                  "Assign": {"kept": "{% $states.result.Payload.name %}"}, "Output": {"from": "first"}},
        "Picky": {**call, "Arguments": {"FunctionName": function, "Payload": {"asks": True}}, "End": True,
                  "Output": {"kept": "{% $kept %}", "came": "{% $states.input %}", "started": "{% $states.context.Execution.Input %}"}}}}
    execution = lab.start(lab.machine(definition, ("lambda:InvokeFunction", function)), {"run": 1})

    def entered():
        events = lab.states.get_execution_history(executionArn=execution, maxResults=100)["events"]
        return [event["stateEnteredEventDetails"]["name"] for event in events if event["type"] == "TaskStateEntered"]

    assert lab.ended(execution)["status"] == "FAILED"
    lab.states.redrive_execution(executionArn=execution)
    assert lab.ended(execution)["status"] == "FAILED" and entered() == ["First", "Picky", "Picky"], "what was done is not done again"
    lab.stack.client("ssm").put_parameter(Name=f"/go/{lab.id}", Value="yes", Type="String")
    lab.states.redrive_execution(executionArn=execution)
    done = lab.ended(execution)
    assert done["status"] == "SUCCEEDED" and entered() == ["First", "Picky", "Picky", "Picky"]
    assert json.loads(done["output"]) == {"kept": "first", "came": {"from": "first"}, "started": {"run": 1}}
    with pytest.raises(lab.states.exceptions.ExecutionNotRedrivable):
        lab.states.redrive_execution(executionArn=execution)


def test_an_execution_that_was_stopped_and_goes_on_has_one_thread(lab):
    """The wait that was ended by hand does not come back with the other."""
    function = lab.function("any", "def handle(event): return 1")
    wait = {"Type": "Task", "Resource": "arn:aws:states:::lambda:invoke.waitForTaskToken", "End": True, "TimeoutSeconds": 2,
            "Arguments": {"FunctionName": function, "Payload": {"token": "{% $states.context.Task.Token %}"}}}
    execution = lab.start(lab.machine(only(wait), ("lambda:InvokeFunction", function)))
    from local.stack import wait_for

    def types():
        listed = [event["type"] for event in lab.states.get_execution_history(executionArn=execution, maxResults=100)["events"]]
        return [each for each in listed if each.startswith("Execution") or each == "TaskStateEntered"]

    wait_for(lambda: "TaskStateEntered" in types(), 20, "the state")
    lab.states.stop_execution(executionArn=execution)
    lab.states.redrive_execution(executionArn=execution)
    assert lab.ended(execution)["status"] == "FAILED"
    assert types() == ["ExecutionStarted", "TaskStateEntered", "ExecutionAborted", "ExecutionRedriven", "TaskStateEntered", "ExecutionFailed"]


def test_an_execution_tells_what_its_machine_was_when_it_began(lab):
    machine = waiting(lab)
    before = lab.start(machine)
    begun = lab.states.describe_state_machine(stateMachineArn=machine)
    role = lab.role("another", "states.amazonaws.com")
    lab.states.update_state_machine(stateMachineArn=machine, definition=json.dumps(only({"Type": "Wait", "Seconds": 1800, "End": True})), roleArn=role)
    told = lab.states.describe_state_machine_for_execution(executionArn=before)
    assert (told["definition"], told["roleArn"]) == (begun["definition"], begun["roleArn"])
    after = lab.states.describe_state_machine_for_execution(executionArn=lab.start(machine))
    assert '"Seconds": 1800' in after["definition"] and after["roleArn"] == role
