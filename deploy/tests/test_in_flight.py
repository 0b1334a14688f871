"""What runs in flight ask, and what a release must not take from under them."""

import json

import pytest

from deploy import in_flight
from deploy.changes import ChangeSet, show
from deploy.in_flight import InFlight, asked, missing
from deploy.release import ROOT, functions

DEFINITION = (ROOT / "statemachine/run.asl.json").read_text()


def deployed(text=DEFINITION):
    """The definition as Step Functions has it: with ARNs."""
    told = json.loads(text)
    for state in told["States"].values():
        if "FunctionName" in state.get("Arguments", {}):
            name = in_flight.function_name(state["Arguments"]["FunctionName"])
            state["Arguments"]["FunctionName"] = f"arn:aws:lambda:eu-central-1:111122223333:function:plangate-{name}"
    return json.dumps(told)


def without(change):
    told = json.loads(DEFINITION)
    change(told["States"])
    return json.dumps(told)


def test_what_the_state_machine_asks_is_found_under_the_functions_own_names():
    found = asked(DEFINITION)
    assert set(found) <= set(functions())
    assert found["request-approval"].sends == {"run", "token"}
    assert found["guard"].reads == {"route", "seconds_left"}
    assert found["authorize"].reads == {"task_role", "workspace", "run"}
    assert found["authorize"].errors == {"Unavailable", "NotApproved", "Frozen"}
    assert asked(deployed()) == found


def test_a_release_that_asks_the_same_takes_nothing_away():
    flying = InFlight({deployed(): ["run-1"]})
    assert flying.lacks(DEFINITION) == []
    more = without(lambda states: states["Guard"]["Assign"].update(more="{% $states.result.Payload.more %}"))
    assert flying.lacks(more) == [], "more may always be asked"
    assert list(missing(asked(more), asked(DEFINITION))) == ["`guard` answers `more` no longer"]


@pytest.mark.parametrize(("change", "line"), [
    (lambda states: states["Guard"]["Assign"].pop("seconds_left"), "`guard` answers `seconds_left` no longer: run-1, run-2"),
    (lambda states: states["Authorize"]["Catch"][0]["ErrorEquals"].remove("Frozen"), "`authorize` fails by the name of `Frozen` no longer: run-1, run-2"),
    (lambda states: states["RequestApproval"]["Arguments"]["Payload"].pop("token"), "`request-approval` is sent `token` no longer: run-1, run-2"),
    (lambda states: states.pop("Review"), "nothing calls the function `review` any more: run-1, run-2"),
])
def test_what_a_release_no_longer_gives_is_named_with_the_runs_that_ask_it(change, line):
    assert InFlight({deployed(): ["run-2", "run-1"]}).lacks(without(change)) == [line]
    assert InFlight({}).lacks(without(change)) == []


def test_a_function_that_an_update_would_remove_or_replace_is_noticed_if_a_run_calls_it():
    def change(action, physical, **more):
        return {"Action": action, "LogicalResourceId": "X", "ResourceType": "AWS::Lambda::Function", "PhysicalResourceId": physical, **more}
    def of(*changes):
        return ChangeSet("plangate", "", False, list(changes), {}, {})
    flying = InFlight({deployed(): ["run-1"]})
    assert flying.loses(of(change("Remove", "plangate-review"))) == ["X would be removed"]
    assert flying.loses(of(change("Modify", "plangate-review", Replacement="True"))) == ["X would be replaced"]
    assert flying.loses(of(change("Modify", "plangate-review", Replacement="False"), change("Remove", "plangate-notify"))) == []


def test_a_change_set_tells_first_what_is_lost():
    def change(action, name, kind="AWS::Lambda::Function", **more):
        return {"Action": action, "LogicalResourceId": name, "ResourceType": kind, **more}
    code = {"Replacement": "False", "Details": [{"Target": {"Attribute": "Properties", "Name": "Code"}}]}
    changes = [change("Modify", "BFunction", **code), change("Modify", "AFunction", **code), change("Add", "New", "AWS::IAM::Role"),
               change("Modify", "TaskDefinition", "AWS::ECS::TaskDefinition", Replacement="True", PolicyAction="ReplaceAndRetain",
                      Details=[{"Target": {"Attribute": "Properties", "Name": "ContainerDefinitions"}}]),
               change("Remove", "OrderKey", "AWS::KMS::Key", PolicyAction="Retain"), change("Remove", "Old", "AWS::SQS::Queue", PolicyAction="Delete")]
    assert show(ChangeSet("plangate", "", False, changes, {"CodePrefix": "new", "Same": "1", "Given": "x"}, {"CodePrefix": "old", "Same": "1", "Gone": "y"})) == [
        "  parameter CodePrefix: old -> new", "  parameter Given: (nothing) -> x", "  parameter Gone: y -> (nothing)",
        "  - REMOVED AWS::SQS::Queue: Old", "  ! REPLACED AWS::ECS::TaskDefinition: TaskDefinition (ContainerDefinitions)",
        "  - LEAVES THE STACK, IS KEPT AWS::KMS::Key: OrderKey", "  + added AWS::IAM::Role: New", "  ~ changed AWS::Lambda::Function: AFunction, BFunction (Code)"]
    assert show(ChangeSet("plangate", "", False, [], {}, {})) == ["  nothing changes"]
