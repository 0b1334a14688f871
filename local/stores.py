"""Everything that a stack has stored, logged or remembers, as bytes: for a search for what must not be there."""

import contextlib
import json


def everything(stack, known=None, since=0):
    """Yields (place, content) for each thing in the stack that a service keeps; secrets in SSM as stored, not decrypted.

    A set `known` collects what does not change again; what is in it is left out, as are log lines from before `since`.
    """
    known = set() if known is None else known
    yield from objects(stack, known)
    yield from items(stack)
    yield from log_lines(stack, since)
    yield from parameters(stack)
    yield from executions(stack, known)
    yield from configurations(stack)
    yield from files(stack, known)


def note(stack, known):
    """Adds to `known` what is there for good, as `everything` would, unread: a search that begins now leaves it out, and every copy of it."""
    for _ in (*objects(stack, known, read=False), *files(stack, known, read=False)):
        pass


def _pages(client, operation, key, **arguments):
    for page in client.get_paginator(operation).paginate(**arguments):
        yield from page.get(key) or ()


def objects(stack, known, read=True):
    """Every version of every object, and its metadata; of a copy of what was noted before it was read, the metadata alone."""
    s3 = stack.client("s3")
    for bucket in s3.list_buckets()["Buckets"]:
        name = bucket["Name"]
        for version in _pages(s3, "list_object_versions", "Versions", Bucket=name):
            where = {"Bucket": name, "Key": version["Key"], "VersionId": version["VersionId"]}
            identity = (name, version["Key"], version["VersionId"], version["ETag"])
            if identity in known:
                continue
            known.add(identity)
            content = (version["ETag"], version["Size"])
            if not read:
                known.add(content)
                continue
            place = f"s3://{name}/{version['Key']}"
            if content in known:
                found = s3.head_object(**where)
            else:
                found = s3.get_object(**where)
                yield place, found["Body"].read()
            tags = []
            with contextlib.suppress(s3.exceptions.NoSuchKey):  # the emulator knows no tags of what was deleted since
                tags = s3.get_object_tagging(**where)["TagSet"]
            yield f"{place} (metadata)", json.dumps([version["Key"], found["Metadata"], tags]).encode()


def items(stack):
    """Every item of every table."""
    dynamodb = stack.client("dynamodb")
    for table in _pages(dynamodb, "list_tables", "TableNames"):
        for item in _pages(dynamodb, "scan", "Items", TableName=table, ConsistentRead=True):
            key = "/".join(str(value) for name in ("pk", "sk") for value in item.get(name, {}).values())
            yield f"dynamodb://{table}/{key}", json.dumps(item, default=lambda value: bytes(value).decode("latin-1")).encode()


def log_lines(stack, since):
    """Every line of every log group, by stream."""
    logs = stack.client("logs")
    for group in _pages(logs, "describe_log_groups", "logGroups"):
        for event in _pages(logs, "filter_log_events", "events", logGroupName=group["logGroupName"], startTime=int(since * 1000)):
            yield f"logs://{group['logGroupName']}/{event['logStreamName']}", event["message"].encode()


def parameters(stack):
    """Every parameter with its history, SecureStrings as they are at rest."""
    ssm = stack.client("ssm")
    for found in _pages(ssm, "describe_parameters", "Parameters"):
        for version in _pages(ssm, "get_parameter_history", "Parameters", Name=found["Name"]):
            yield f"ssm://{found['Name']}", json.dumps(version, default=str).encode()


def executions(stack, known):
    """Every execution's history, and every task's description."""
    states, ecs = stack.client("stepfunctions"), stack.client("ecs")
    for machine in _pages(states, "list_state_machines", "stateMachines"):
        for execution in _pages(states, "list_executions", "executions", stateMachineArn=machine["stateMachineArn"]):
            if execution["executionArn"] in known:
                continue
            if execution["status"] != "RUNNING":
                known.add(execution["executionArn"])
            for event in _pages(states, "get_execution_history", "events", executionArn=execution["executionArn"]):
                yield f"states://{execution['name']}/{event['id']}", json.dumps(event, default=str).encode()
    for cluster in _pages(ecs, "list_clusters", "clusterArns"):
        for status in ("RUNNING", "STOPPED"):
            for task in _pages(ecs, "list_tasks", "taskArns", cluster=cluster, desiredStatus=status):
                if task in known:
                    continue
                if status == "STOPPED":
                    known.add(task)
                yield f"ecs://{task.rsplit('/', 1)[-1]}", json.dumps(ecs.describe_tasks(cluster=cluster, tasks=[task])["tasks"], default=str).encode()


def configurations(stack):
    """Every function's configuration and every stack's parameters and outputs."""
    for function in _pages(stack.client("lambda"), "list_functions", "Functions"):
        yield f"lambda://{function['FunctionName']}", json.dumps(function, default=str).encode()
    for deployed in _pages(stack.client("cloudformation"), "describe_stacks", "Stacks"):
        yield f"cloudformation://{deployed['StackName']}", json.dumps(deployed, default=str).encode()


def files(stack, known, read=True):
    """Every file of the stack on disk: the emulator's log, images, what tasks left behind."""
    for path in sorted(stack.directory.rglob("*")):
        with contextlib.suppress(FileNotFoundError):  # gone meanwhile
            if path.is_file() and not path.is_symlink():
                found = path.stat()
                identity = (found.st_dev, found.st_ino, found.st_mtime_ns, found.st_size)  # by whatever name
                if identity not in known:
                    known.add(identity)
                    if not read:
                        continue
                    yield f"file://{path.relative_to(stack.directory)}", path.read_bytes()
