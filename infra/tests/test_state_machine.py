"""What the run's state machine must not lose."""

import json

import pytest
from templates import state_machine

DEFINITION = state_machine()
STATES = DEFINITION["States"]
TASKS = {name: state for name, state in STATES.items() if state["Type"] == "Task"}


def test_every_failure_but_the_conclusions_own_leads_to_the_conclusion_or_to_a_person():
    ends = {name: [(catch["ErrorEquals"], catch["Next"]) for catch in state.get("Catch", [])] for name, state in TASKS.items()}
    everything = ["States.ALL"]
    assert ends.pop("Conclude") == []  # a failed conclusion fails the execution, and the sweeper hears of it
    assert ends.pop("Review") == [(everything, "RequestApproval")]
    assert ends.pop("Admit") == [(["States.Timeout"], "Admit"), (everything, "Conclude")]
    # A token that somebody else completed is no admission and no approval: the run waits on.
    assert ends.pop("PreparePlan") == [(["NotAdmitted"], "Admit"), (everything, "Conclude")]
    assert ends.pop("Authorize") == [(["NotApproved"], "RequestApproval"), (everything, "Conclude")]
    assert ends.pop("RequestApproval") == [(["States.Timeout"], "Authorize"), (everything, "Conclude")]
    assert set(map(str, ends.values())) == {str([(everything, "Conclude")])}


def test_an_engine_is_never_started_again_by_the_machine():
    engines = {name for name, state in TASKS.items() if state["Resource"] == "arn:aws:states:::ecs:runTask.sync"}
    assert engines == {"Plan", "Apply"}
    assert not any("Retry" in TASKS[name] for name in engines)


def test_functions_are_called_again_only_when_they_or_an_aws_service_died_or_a_task_has_not_stopped_yet():
    for name, state in TASKS.items():
        for retry in state.get("Retry", []):
            again = {"Unavailable", "Lambda.ServiceException", "Lambda.AWSLambdaException", "Lambda.SdkClientException",
                     "Lambda.TooManyRequestsException", "Lambda.ClientExecutionTimeoutException",
                     # A process that died, under each name that Lambda has for that.
                     "Lambda.Unknown", "Runtime.ExitError", "Sandbox.Timedout"}
            assert set(retry["ErrorEquals"]) == again | ({"StillRunning"} if name == "Conclude" else set()), name


def test_a_conclusion_waits_longer_than_a_task_may_take_to_stop():
    (retry,) = TASKS["Conclude"]["Retry"]
    pauses = [min(retry["IntervalSeconds"] * retry["BackoffRate"] ** n, retry["MaxDelaySeconds"]) for n in range(retry["MaxAttempts"])]
    assert sum(pauses) > 120  # ECS's longest grace


def test_nothing_waits_for_ever():
    assert [name for name, state in TASKS.items() if "TimeoutSeconds" not in state] == []
    assert [name for name, state in STATES.items() if state["Type"] == "Choice" and "Default" not in state] == []


def test_no_cause_travels():
    text = json.dumps(DEFINITION)
    assert "Cause" not in text
    assert {json.dumps(catch["Output"]) for state in TASKS.values() for catch in state.get("Catch", [])} == {
        "{}", json.dumps({"error": "{% $states.errorOutput.Error %}"})}


def paths(name, seen=()):
    """Every way from a state to the end without a failure and without coming back."""
    state, seen = STATES[name], (*seen, name)
    following = {choice["Next"] for choice in state.get("Choices", [])} | {state.get("Default"), state.get("Next")}
    for catch in state.get("Catch", []):
        if catch["ErrorEquals"] == ["States.Timeout"]:
            following.add(catch["Next"])
    onward = [each for each in following if each and each not in seen]
    if not onward:
        yield seen
    for each in onward:
        yield from paths(each, seen)


def test_no_way_is_longer_than_fourteen_states_and_none_applies_without_authorize():
    ways = list(paths("Admit"))
    assert max(map(len, ways)) == 14
    applied = [way for way in ways if "Apply" in way]
    assert applied
    assert all(way[way.index("Apply") - 1] == "Authorize" and way[-1] == "Conclude" for way in applied)
    assert all(way[-1] == "Conclude" for way in ways)


@pytest.mark.parametrize("phase", ["plan", "apply"])
def test_a_task_can_be_found_by_the_run_and_the_phase_that_it_was_told(phase):
    arguments = STATES[phase.capitalize()]["Arguments"]
    assert "StartedBy" not in arguments  # which Step Functions sets itself
    (runner,) = arguments["Overrides"]["ContainerOverrides"]
    assert {each["Name"]: each["Value"] for each in runner["Environment"]} == {
        "PLANGATE_WORKSPACE": "{% $order.workspace %}", "PLANGATE_RUN": "{% $order.run %}", "PLANGATE_PHASE": "{% $order.phase %}"}
    ordered = STATES[{"plan": "PreparePlan", "apply": "Authorize"}[phase]]["Assign"]["order"]
    assert (ordered["run"], ordered["phase"]) == ("{% $states.result.Payload.run %}", phase)
