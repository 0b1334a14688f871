"""Services act as their roles, and roles are handed over only by who may."""

import json

import botocore.exceptions
import pytest

from local.stack import ACCOUNT, REGION

from .conftest import only, run_permissions, task_state

RULE = f"arn:aws:events:{REGION}:{ACCOUNT}:rule/StepFunctionsGetEventsForECSTaskRule"
ANYTHING = {"Type": "Pass", "End": True}


def invoke(function, suffix=""):
    return {"Type": "Task", "Resource": f"arn:aws:states:::lambda:invoke{suffix}", "End": True, "TimeoutSeconds": 60,
            "Arguments": {"FunctionName": function, "Payload": {"token": "{% $states.context.Execution.Name %}"}}}


def refused(call):
    with pytest.raises(botocore.exceptions.ClientError) as caught:
        call()
    error = caught.value.response["Error"]
    assert error["Code"].startswith("AccessDenied"), error
    return error["Message"]


@pytest.mark.parametrize("suffix", ["", ".waitForTaskToken"])
def test_an_execution_calls_only_functions_that_its_role_may_call(lab, suffix):
    function = lab.function("any", "def handle(event): return 1")
    ended = lab.run(lab.machine(only(invoke(function, suffix))))
    assert (ended["status"], ended["error"]) == ("FAILED", "Lambda.AWSLambdaException")
    assert "lambda:InvokeFunction" in ended["cause"] and function in ended["cause"]


def test_an_execution_runs_only_tasks_that_its_role_may_run(lab):
    cluster, definition = lab.task(lab.image("exit 0"))
    ended = lab.run(lab.machine(only(task_state(cluster, definition))))
    assert (ended["status"], ended["error"]) == ("FAILED", "ECS.AccessDeniedException")


def test_an_execution_passes_only_roles_under_its_path(lab):
    plan = lab.role("plan", "ecs-tasks.amazonaws.com", path="/plangate/plan/")
    apply = lab.role("apply", "ecs-tasks.amazonaws.com", path="/plangate/apply/")
    cluster, definition = lab.task(lab.image("exit 0"), task_role=plan)
    state = task_state(cluster, definition, Arguments={"Overrides": {"TaskRoleArn": "{% $states.input.role %}"}})
    machine = lab.machine(only(state), *run_permissions(definition, f"arn:aws:iam::{ACCOUNT}:role/plangate/plan/*"))
    assert lab.run(machine, {"role": plan})["status"] == "SUCCEEDED"
    ended = lab.run(machine, {"role": apply})
    assert (ended["status"], ended["error"]) == ("FAILED", "ECS.AccessDeniedException")
    assert "iam:PassRole" in ended["cause"]


def test_running_tasks_can_be_kept_to_a_cluster(lab):
    cluster, definition = lab.task(lab.image("exit 0"))
    role = lab.ecs.describe_task_definition(taskDefinition=definition)["taskDefinition"]["taskRoleArn"]
    within = {"ArnEquals": {"ecs:cluster": cluster}}
    other = lab.ecs.create_cluster(clusterName=f"other-{lab.id}")["cluster"]["clusterArn"]
    machine = lab.machine(only(task_state("{% $states.input.cluster %}", definition)), ("iam:PassRole", role), ("ecs:RunTask", definition, within))
    assert lab.run(machine, {"cluster": cluster})["status"] == "SUCCEEDED"
    assert lab.run(machine, {"cluster": other})["error"] == "ECS.AccessDeniedException"
    user = lab.user(("ecs:RunTask", "*", within), ("iam:PassRole", "*")).client("ecs")
    user.run_task(cluster=cluster, taskDefinition=definition)
    refused(lambda: user.run_task(cluster=other, taskDefinition=definition))


def test_requests_about_tasks_are_judged_by_task(lab):
    cluster, definition = lab.task(lab.image("exit 0"))
    within = {"ArnEquals": {"ecs:cluster": cluster}}
    first, second = (lab.ecs.run_task(cluster=cluster, taskDefinition=definition)["tasks"][0]["taskArn"] for _ in range(2))
    user = lab.user(("ecs:RunTask", definition), ("iam:PassRole", "*"), (["ecs:DescribeTasks", "ecs:StopTask"], first, within),
                    ("ecs:ListTasks", "*", within)).client("ecs")
    user.run_task(cluster=cluster, taskDefinition=definition.rpartition(":")[0].rpartition("/")[2])
    user.list_tasks(cluster=cluster)
    user.describe_tasks(cluster=cluster, tasks=[first.rpartition("/")[2]])
    user.stop_task(cluster=cluster, task=first)
    for call in (lambda: user.describe_tasks(cluster=cluster, tasks=[second]), lambda: user.describe_tasks(cluster=cluster, tasks=[first, second]),
                 lambda: user.stop_task(cluster=cluster, task=second)):
        refused(call)


def test_a_task_goes_on_if_the_role_may_not_stop_it(lab):
    cluster, definition = lab.task(lab.image("echo ready; while [ ! -e go ]; do sleep 0.05; done; exit 0"))
    role = lab.ecs.describe_task_definition(taskDefinition=definition)["taskDefinition"]["taskRoleArn"]
    machine = lab.machine(only(task_state(cluster, definition)), ("ecs:RunTask", definition), ("iam:PassRole", role))
    execution = lab.start(machine)
    task = lab.running_task(cluster)
    lab.states.stop_execution(executionArn=execution)
    (lab.container(cluster, task["taskArn"]) / "go").touch()
    ended = lab.running_task(cluster, "STOPPED")
    assert (ended["stopCode"], ended["containers"][0]["exitCode"]) == ("EssentialContainerExited", 0)


def test_an_integration_that_would_run_unchecked_is_refused(lab):
    state = {"Type": "Task", "Resource": "arn:aws:states:::dynamodb:putItem", "Arguments": {}, "End": True}
    ended = lab.run(lab.machine(only(state)))
    assert (ended["status"], ended["error"]) == ("FAILED", "States.Runtime")


def test_handing_a_role_to_a_service_needs_pass_role_for_that_service(lab):
    machine_role, function_role = lab.role("m", "states.amazonaws.com"), lab.role("f", "lambda.amazonaws.com")
    task_role, schedule_role = lab.role("t", "ecs-tasks.amazonaws.com"), lab.role("s", "scheduler.amazonaws.com")
    cluster, definition = lab.task(lab.image("exit 0"), task_role=task_role)

    def attempts(session):
        return [
            lambda: session.client("stepfunctions").create_state_machine(
                name=f"passed-{lab.id}", roleArn=machine_role, definition=json.dumps(only(ANYTHING))),
            lambda: session.client("lambda").create_function(
                FunctionName=f"passed-{lab.id}", Role=function_role, Runtime="provided.al2023", Handler="bootstrap", Code={"ZipFile": b"PK\5\6" + bytes(18)}),
            lambda: session.client("ecs").register_task_definition(
                family=f"passed-{lab.id}", taskRoleArn=task_role, containerDefinitions=[{"name": "a", "image": "b"}]),
            lambda: session.client("ecs").run_task(cluster=cluster, taskDefinition=definition),
            lambda: session.client("scheduler").create_schedule(
                Name=f"passed-{lab.id}", ScheduleExpression="rate(1 hour)", FlexibleTimeWindow={"Mode": "OFF"},
                Target={"Arn": f"arn:aws:lambda:{REGION}:{ACCOUNT}:function:none", "RoleArn": schedule_role}),
        ]

    everything = ["states:*", "lambda:*", "ecs:*", "scheduler:*"]
    without = lab.user((everything, "*"))
    elsewhere = lab.user((everything, "*"), ("iam:PassRole", "*", {"StringEquals": {"iam:PassedToService": "ec2.amazonaws.com"}}))
    services = ["states.amazonaws.com", "lambda.amazonaws.com", "ecs-tasks.amazonaws.com", "scheduler.amazonaws.com"]
    with_it = lab.user((everything, "*"), ("iam:PassRole", "*", {"StringEquals": {"iam:PassedToService": services}}))
    for session in (without, elsewhere):
        for attempt in attempts(session):
            assert "iam:PassRole" in refused(attempt)
    for attempt in attempts(with_it):
        attempt()


def test_a_service_takes_only_a_role_that_trusts_it(lab):
    stranger = lab.role("stranger", "ec2.amazonaws.com")
    assert "states.amazonaws.com" in refused(lambda: lab.machine(only(ANYTHING), role=stranger))
    with pytest.raises(lab.lambdas.exceptions.InvalidParameterValueException, match="cannot be assumed by Lambda"):
        lab.function("f", "", role=stranger)
    scheduler = lab.stack.client("scheduler")
    with pytest.raises(scheduler.exceptions.ValidationException, match="must allow AWS EventBridge Scheduler"):
        scheduler.create_schedule(
            Name=f"s-{lab.id}", ScheduleExpression="rate(1 hour)", FlexibleTimeWindow={"Mode": "OFF"},
            Target={"Arn": f"arn:aws:lambda:{REGION}:{ACCOUNT}:function:none", "RoleArn": stranger})


def test_a_machine_that_waits_for_tasks_needs_the_managed_rule(lab):
    cluster, definition = lab.task(lab.image("exit 0"))
    bare = lab.role("bare", "states.amazonaws.com", ("events:PutRule", RULE))
    assert "managed-rule" in refused(lambda: lab.machine(only(task_state(cluster, definition)), role=bare))
    lab.allow(bare, (["events:PutRule", "events:PutTargets", "events:DescribeRule"], RULE))
    lab.machine(only(task_state(cluster, definition)), role=bare)


def test_only_the_stacks_own_root_key_is_root(lab):
    for key in ("test", ACCOUNT):
        with pytest.raises(botocore.exceptions.ClientError):
            lab.stack.session(key, "anything").client("s3").list_buckets()
    assert "Buckets" in lab.stack.client("s3").list_buckets()
