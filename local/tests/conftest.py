"""A stack for the tests of one worker, and the small things to build on it: roles, functions, images, state machines."""

import io
import json
import os
import pathlib
import sys
import textwrap
import uuid
import zipfile

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))
from local.stack import ACCOUNT, REGION, Stack, wait_for  # noqa: E402

# A Lambda runtime in a few lines: `handle(event)` is the test's own; an exception becomes the invocation's error.
RUNTIME = '''\
#!{python}
import json, os, sys, urllib.request
API = "http://" + os.environ["AWS_LAMBDA_RUNTIME_API"] + "/2018-06-01/runtime/invocation/"
{body}
while True:
    with urllib.request.urlopen(API + "next") as answer:
        request, event = answer.headers["Lambda-Runtime-Aws-Request-Id"], json.load(answer)
    try:
        kind, result = "response", handle(event)
    except Exception as error:
        kind, result = "error", {{"errorType": type(error).__name__, "errorMessage": str(error)}}
    post = urllib.request.Request(API + request + "/" + kind, json.dumps(result).encode(), method="POST")
    urllib.request.urlopen(post).read()
'''


@pytest.fixture(scope="session")
def stack():
    worker = os.environ.get("PYTEST_XDIST_WORKER", "main")
    with Stack.start(f"contract-{worker}-{os.getpid()}") as running:
        yield running


@pytest.fixture
def lab(stack):
    return Lab(stack)


class Lab:
    """One test's corner of the stack: what it makes has names of its own."""

    def __init__(self, stack):
        self.stack, self.id = stack, uuid.uuid4().hex[:12]
        self.iam, self.ecs, self.states = (stack.client(name) for name in ("iam", "ecs", "stepfunctions"))
        self.lambdas, self.logs = stack.client("lambda"), stack.client("logs")

    def role(self, name, service, *statements, path="/", condition=None):
        """A role that `service` may assume, with these (action, resource) pairs."""
        trust = {"Effect": "Allow", "Principal": {"Service": service}, "Action": "sts:AssumeRole"}
        if condition:
            trust["Condition"] = condition
        full = f"{name}-{self.id}"
        arn = self.iam.create_role(
            RoleName=full, Path=path, AssumeRolePolicyDocument=json.dumps({"Version": "2012-10-17", "Statement": [trust]}))["Role"]["Arn"]
        if statements:
            self.allow(arn, *statements)
        return arn

    def allow(self, role, *statements):
        """Replaces what the role may do."""
        self.iam.put_role_policy(RoleName=role.rsplit("/", 1)[-1], PolicyName="own", PolicyDocument=policy(*statements))

    def user(self, *statements):
        """A user's session with these permissions."""
        return self.stack.user(f"user-{uuid.uuid4().hex[:12]}", json.loads(policy(*statements)))

    def function(self, name, body, *statements, environment=None, role=None, timeout=20):
        """A function whose `handle(event)` is `body`; gives its ARN."""
        source = RUNTIME.format(python=sys.executable, body=textwrap.dedent(body))
        archive = io.BytesIO()
        with zipfile.ZipFile(archive, "w") as package:
            entry = zipfile.ZipInfo("bootstrap")
            entry.external_attr = 0o755 << 16
            package.writestr(entry, source)
        return self.lambdas.create_function(
            FunctionName=f"{name}-{self.id}", Runtime="provided.al2023", Handler="bootstrap", Timeout=timeout,
            Role=role or self.role(f"fn-{name}", "lambda.amazonaws.com", *statements), Code={"ZipFile": archive.getvalue()},
            Environment={"Variables": environment or {}})["FunctionArn"]

    def image(self, script):
        """An image whose entrypoint is a shell script; gives its name."""
        return self.program(f"#!/bin/sh\n{textwrap.dedent(script)}")

    def program(self, source):
        """An image whose entrypoint is a program text with its own first line."""
        directory = self.stack.images / f"image-{uuid.uuid4().hex[:12]}"
        directory.mkdir()
        (directory / "runner").write_text(source)
        (directory / "runner").chmod(0o755)
        return f"{directory.name}:local"

    def task(self, image, *statements, task_role=None, stop_timeout=None, command=None):
        """A cluster and a task definition; gives both ARNs. Log group /tasks/<id>, stream prefix `runner`."""
        self.log_group = f"/tasks/{self.id}"
        try:
            self.logs.create_log_group(logGroupName=self.log_group)
        except self.logs.exceptions.ResourceAlreadyExistsException:
            pass
        container = {
            "name": "runner", "image": image, "essential": True,
            "environment": [{"name": "FROM_DEFINITION", "value": "yes"}],
            "logConfiguration": {"logDriver": "awslogs", "options": {
                "awslogs-group": self.log_group, "awslogs-region": REGION, "awslogs-stream-prefix": "runner"}},
            **({"stopTimeout": stop_timeout} if stop_timeout else {}), **({"command": command} if command else {}),
        }
        cluster = self.ecs.create_cluster(clusterName=f"cluster-{self.id}")["cluster"]["clusterArn"]
        role = task_role or self.role(f"task-{uuid.uuid4().hex[:6]}", "ecs-tasks.amazonaws.com", *statements)
        definition = self.ecs.register_task_definition(
            family=f"family-{self.id}", networkMode="awsvpc", requiresCompatibilities=["FARGATE"], cpu="256", memory="512",
            taskRoleArn=role, containerDefinitions=[container])["taskDefinition"]["taskDefinitionArn"]
        return cluster, definition

    def machine(self, definition, *statements, role=None):
        """A state machine; its role may do these, and what every machine with `.sync` tasks needs."""
        role = role or self.role(
            "machine", "states.amazonaws.com", ("events:*", f"arn:aws:events:{REGION}:{ACCOUNT}:rule/StepFunctions*"), *statements)
        return self.states.create_state_machine(
            name=f"machine-{uuid.uuid4().hex[:12]}", roleArn=role, definition=json.dumps(definition))["stateMachineArn"]

    def start(self, machine, data=None):
        """Starts an execution; gives its ARN."""
        return self.states.start_execution(stateMachineArn=machine, input=json.dumps(data or {}))["executionArn"]

    def ended(self, execution, seconds=30):
        """Waits for the end of an execution and describes it."""
        def look():
            found = self.states.describe_execution(executionArn=execution)
            return found if found["status"] != "RUNNING" else None
        return wait_for(look, seconds, "the execution's end")

    def run(self, machine, data=None):
        """Starts an execution and waits for its end."""
        return self.ended(self.start(machine, data))

    def running_task(self, cluster, status="RUNNING"):
        """Waits for the one task of a cluster to reach a status and describes it."""
        def look():
            arns = self.ecs.list_tasks(cluster=cluster)["taskArns"] + self.ecs.list_tasks(
                cluster=cluster, desiredStatus="STOPPED")["taskArns"]
            if not arns:
                return None
            found = self.ecs.describe_tasks(cluster=cluster, tasks=arns[:1])["tasks"][0]
            return found if found["lastStatus"] == status else None
        return wait_for(look, 30, f"a task that is {status}")

    def container(self, cluster, task):
        """The directory of a task's container."""
        found = self.ecs.describe_tasks(cluster=cluster, tasks=[task])["tasks"][0]["containers"][0]["runtimeId"]
        return next((self.stack.directory / "containers").glob(f"{found}*"))

    def lines(self, task, until=None):
        """The log of a task's container; waits for the line `until` if one is named."""
        stream = f"runner/runner/{task.rsplit('/', 1)[-1]}"
        def look():
            try:
                events = self.logs.get_log_events(
                    logGroupName=self.log_group, logStreamName=stream, startFromHead=True)["events"]
            except self.logs.exceptions.ResourceNotFoundException:
                return None
            found = [event["message"] for event in events]
            return found if until is None or until in found else None
        return wait_for(look, 20, f"the log line {until}")


def policy(*statements):
    """A policy document of (action, resource[, condition]) triples, all allowed."""
    return json.dumps({"Version": "2012-10-17", "Statement": [
        {"Effect": "Allow", "Action": action, "Resource": resource, **({"Condition": rest[0]} if rest else {})}
        for action, resource, *rest in statements]})


def task_state(cluster, definition, **more):
    """An ecs:runTask.sync state that ends the machine."""
    arguments = {"Cluster": cluster, "TaskDefinition": definition, "LaunchType": "FARGATE", **more.pop("Arguments", {})}
    return {"Type": "Task", "Resource": "arn:aws:states:::ecs:runTask.sync", "Arguments": arguments, "End": True, **more}


def only(state, **more):
    """A machine of one state."""
    return {"QueryLanguage": "JSONata", "StartAt": "Only", "States": {"Only": state}, **more}


def run_permissions(definition, *roles):
    """What a machine's role needs to run a task."""
    return [("ecs:RunTask", definition), (["ecs:StopTask", "ecs:DescribeTasks"], "*"),
            *[("iam:PassRole", role, {"StringEquals": {"iam:PassedToService": "ecs-tasks.amazonaws.com"}}) for role in roles]]
