"""ecs:runTask.sync: a task's outcome is the state's outcome."""

import json

import pytest

from .conftest import only, run_permissions, task_state


def machine_for(lab, script, **more):
    cluster, definition = lab.task(lab.image(script), stop_timeout=more.pop("stop_timeout", None))
    role = lab.ecs.describe_task_definition(taskDefinition=definition)["taskDefinition"]["taskRoleArn"]
    return cluster, lab.machine(only(task_state(cluster, definition, **more)), *run_permissions(definition, role))


def test_a_task_that_exits_with_zero_gives_the_stopped_task_in_pascal_case(lab):
    cluster, machine = machine_for(lab, "echo planned; exit 0")
    ended = lab.run(machine)
    assert ended["status"] == "SUCCEEDED", ended
    task = json.loads(ended["output"])
    assert task["LastStatus"] == "STOPPED"
    assert task["StopCode"] == "EssentialContainerExited"
    assert task["Containers"][0]["ExitCode"] == 0
    assert task["StartedBy"] == "AWS Step Functions"
    assert isinstance(task["StoppedAt"], int)
    assert task["ClusterArn"] == cluster


def test_a_task_that_exits_otherwise_fails_the_state_with_the_task_as_cause(lab):
    _, machine = machine_for(lab, "exit 3")
    ended = lab.run(machine)
    assert (ended["status"], ended["error"]) == ("FAILED", "States.TaskFailed")
    assert json.loads(ended["cause"])["Containers"][0]["ExitCode"] == 3


def test_a_task_whose_image_cannot_be_had_fails_the_state(lab):
    cluster, definition = lab.task("nowhere:1")
    role = lab.ecs.describe_task_definition(taskDefinition=definition)["taskDefinition"]["taskRoleArn"]
    ended = lab.run(lab.machine(only(task_state(cluster, definition)), *run_permissions(definition, role)))
    assert (ended["status"], ended["error"]) == ("FAILED", "States.TaskFailed")
    assert json.loads(ended["cause"])["StopCode"] == "TaskFailedToStart"


def test_a_killed_container_reports_137(lab):
    _, machine = machine_for(lab, "kill -9 $$")
    ended = lab.run(machine)
    assert json.loads(ended["cause"])["Containers"][0]["ExitCode"] == 137


def test_stopping_the_execution_stops_its_task(lab):
    cluster, machine = machine_for(lab, "trap 'echo stopping; exit 5' TERM; echo ready; while :; do sleep 0.1; done")
    execution = lab.start(machine)
    task = lab.running_task(cluster)
    lab.lines(task["taskArn"], until="ready")
    lab.states.stop_execution(executionArn=execution)
    assert lab.ended(execution)["status"] == "ABORTED"
    stopped = lab.running_task(cluster, "STOPPED")
    assert stopped["containers"][0]["exitCode"] == 5
    assert lab.states.describe_execution(executionArn=execution)["status"] == "ABORTED"
    history = lab.states.get_execution_history(executionArn=execution)["events"]
    assert history[-1]["type"] == "ExecutionAborted"


def test_a_state_that_times_out_stops_its_task(lab):
    cluster, machine = machine_for(lab, "trap 'exit 0' TERM; while :; do sleep 0.1; done", TimeoutSeconds="{% 1 %}")
    ended = lab.run(machine)
    assert (ended["status"], ended["error"]) == ("FAILED", "States.Timeout")
    lab.running_task(cluster, "STOPPED")


def test_a_retry_after_a_time_out_runs_a_task_of_its_own(lab):
    script = f"mkdir {lab.stack.directory}/tmp/first-{lab.id} 2>/dev/null || exit 0; trap 'exit 0' TERM; while :; do sleep 0.1; done"
    retry = [{"ErrorEquals": ["States.Timeout"], "IntervalSeconds": 1, "MaxAttempts": 1}]
    _, machine = machine_for(lab, script, TimeoutSeconds=2, Retry=retry)
    ended = lab.run(machine)
    assert ended["status"] == "SUCCEEDED", ended


@pytest.mark.parametrize(("field", "deep"), [("StartedBy", False), ("StartedBy", True), ("ClientToken", False), ("cluster", False)])
def test_a_parameter_that_step_functions_does_not_take_makes_no_definition(lab, field, deep):
    cluster, definition = lab.task(lab.image("exit 0"))
    machine = only(task_state(cluster, definition, Arguments={field: "run-1/plan"}))
    if deep:
        machine = only({"Type": "Parallel", "End": True, "Branches": [machine]})
    with pytest.raises(lab.states.exceptions.InvalidDefinition, match=f'"{field}" is not supported'):
        lab.machine(machine)


def test_a_parameter_that_step_functions_does_not_take_fails_the_state_where_it_is_computed(lab):
    cluster, definition = lab.task(lab.image("exit 0"))
    state = {**task_state(cluster, definition), "Arguments": "{% $states.input %}"}
    machine = lab.machine(only(state), *run_permissions(definition))
    ended = lab.run(machine, {"Cluster": cluster, "TaskDefinition": definition, "StartedBy": "run-1/plan"})
    assert (ended["status"], ended["error"]) == ("FAILED", "States.Runtime")
