"""ECS tasks: the environment, the roles and the end of a task.

AWS: a task whose role does not trust ECS is refused; a container gets the credentials of the (overridden) task role and no endpoint
of any emulator; overrides are capped; StopTask answers at once, sends SIGTERM, waits the container's stopTimeout (30 s unless set),
then kills, and the exit code is what the process made of it. The emulator: gives the account's credentials, blocks while it
stops, waits five seconds, and reports exit code 0 before the container has ended.
"""

import json
import threading

from ministack.core.concurrency import resource_lock
from ministack.core.responses import error_response_json, get_account_id, get_region, json_response, new_uuid, request_scope
from ministack.services import ecs

from . import roles
from .credentials import Endpoint
from .functions import faults

OVERRIDES_LIMIT = 8192
STOP_TIMEOUT_SECONDS = 30

_endpoint = None
_run_task, _build_run_kwargs = ecs._run_task, ecs._build_run_kwargs
_maybe_mark_stopped, _mark_task_stopped, _cleanup = (
    ecs._maybe_mark_stopped, ecs._mark_task_stopped, ecs._cleanup_task_resources)


def install():
    """Puts the supplements in place."""
    global _endpoint
    _endpoint = Endpoint()
    ecs._run_task = run_task
    ecs._stop_task = stop_task
    ecs._build_run_kwargs = build_run_kwargs
    ecs._maybe_mark_stopped = maybe_mark_stopped
    ecs._mark_task_stopped = mark_task_stopped
    ecs._cleanup_task_resources = cleanup
    ecs._ACTION_MAP.update({"RunTask": run_task, "StopTask": stop_task})


def task_roles(data):
    """The roles that a RunTask request passes: those of the override, else those of the task definition."""
    definition = ecs._task_defs.get(ecs._resolve_td_key(data.get("taskDefinition", "")) or "") or {}
    overrides = data.get("overrides") or {}
    found = (overrides.get(key) or definition.get(key) for key in ("taskRoleArn", "executionRoleArn"))
    return [role for role in found if role]


def run_task(data):
    """RunTask, refused if the overrides are too large or a role does not trust ECS."""
    overrides = data.get("overrides") or {}
    if len(json.dumps(overrides, separators=(",", ":"))) > OVERRIDES_LIMIT:
        return error_response_json(
            "InvalidParameterException", f"Container Overrides length must be at most {OVERRIDES_LIMIT}", 400)
    cluster = ecs._resolve_cluster_name(data.get("cluster", "default"))
    if cluster is None or cluster not in ecs._clusters:
        return error_response_json("ClusterNotFoundException", "Cluster not found.", 400)
    source = f"arn:aws:ecs:{get_region()}:{get_account_id()}:task/{cluster}/{new_uuid().replace('-', '')}"
    for role in task_roles(data):
        if not roles.trusts(role, "ecs-tasks.amazonaws.com", source):
            return error_response_json(
                "ClientException", f"ECS was unable to assume the role '{role}' that was provided for this task. Please verify "
                "that the role being passed has the proper trust relationship and permissions and that your IAM user has "
                "permissions to pass this role.", 400)
    return _run_task(data)


def build_run_kwargs(definition, task_definition, environment, ports, network, host_mode, task_id, task_arn, *rest):
    """The container's settings, with the environment that Fargate gives."""
    task = ecs._tasks.get(task_arn) or {}
    environment = {key: value for key, value in environment.items() if key not in (
        "AWS_CONTAINER_CREDENTIALS_FULL_URI", "AWS_CONTAINER_AUTHORIZATION_TOKEN", "ECS_CONTAINER_METADATA_URI_V4")}
    # The emulator adds its own address; one that the task itself was given stays.
    if not _declares(task, task_definition, definition["name"], "AWS_ENDPOINT_URL"):
        environment.pop("AWS_ENDPOINT_URL", None)
    environment.update(AWS_EXECUTION_ENV="AWS_ECS_FARGATE", AWS_REGION=get_region(), AWS_DEFAULT_REGION=get_region(), **faults())
    role = (task.get("overrides") or {}).get("taskRoleArn") or task_definition.get("taskRoleArn")
    if role:
        environment.update(_endpoint.grant(role, task_id, get_account_id(), get_region()))
    settings = _build_run_kwargs(
        definition, task_definition, environment, ports, network, host_mode, task_id, task_arn, *rest)
    if definition.get("entryPoint"):
        settings["entrypoint"] = definition["entryPoint"]
    settings.pop("platform", None)  # a local process has the platform of the machine
    return settings


def _declares(task, task_definition, container, name):
    overrides = (task.get("overrides") or {}).get("containerOverrides") or []
    sources = [entry for entry in [*task_definition.get("containerDefinitions", []), *overrides] if entry.get("name") == container]
    return any(variable.get("name") == name for source in sources for variable in source.get("environment") or [])


def stop_task(data):
    """StopTask: answers at once; the container is stopped in the background."""
    cluster = ecs._resolve_cluster_name(data.get("cluster", "default"))
    if cluster is None:
        return error_response_json("ClusterNotFoundException", "Cluster not found.", 400)
    task = ecs._resolve_task(data.get("task", ""), cluster)
    if not task:
        return error_response_json("InvalidParameterException", "The referenced task was not found.", 400)
    request_stop(task, data.get("reason") or "Task stopped by user", "UserInitiated")
    with resource_lock("ecs-task", task["taskArn"]):
        return json_response({"task": ecs._sanitize(task)})


def request_stop(task, reason, code):
    """Begins the end of a task, once."""
    with resource_lock("ecs-task", task["taskArn"]):
        if task.get("_stop_requested") or task["lastStatus"] == "STOPPED":
            return
        task["_stop_requested"] = True
        task["desiredStatus"] = "STOPPED"
        task["stoppingAt"] = ecs._iso()
        task["stopCode"], task["stoppedReason"] = code, reason
        containers = dict(zip(task["_docker_ids"], task["containers"]))
    threading.Thread(
        target=_stop, args=(task, containers, reason, code, get_account_id(), get_region()), daemon=True,
        name=f"stop-{task['taskArn'].rsplit('/', 1)[-1][:8]}").start()


def _stop(task, containers, reason, code, account, region):
    with request_scope(account, region):
        definition = ecs._task_defs.get(ecs._resolve_td_key(task["taskDefinitionArn"]) or "") or {}
        waits = {entry["name"]: entry.get("stopTimeout", STOP_TIMEOUT_SECONDS)
                 for entry in definition.get("containerDefinitions", [])}
        threads = [
            threading.Thread(target=_stop_container, args=(container_id, record, waits.get(record["name"], STOP_TIMEOUT_SECONDS)))
            for container_id, record in containers.items()
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        with resource_lock("ecs-task", task["taskArn"]):
            # The emulator ends only what is meant to run.
            task["desiredStatus"] = "RUNNING"
            task["_stopped_for_good"] = True
        mark_task_stopped(task["taskArn"], task, reason, code)
        ecs._cleanup_task_resources(task, ecs._get_docker())


def _stop_container(container_id, record, timeout):
    try:
        container = ecs._get_docker().containers.get(container_id)
    except Exception:  # it has been removed: there is nothing to stop
        return
    container.stop(timeout=timeout)
    record["exitCode"] = container.wait()["StatusCode"]
    record["lastStatus"] = "STOPPED"


def maybe_mark_stopped(task, docker_client=None):
    """The emulator's own look at the containers, unless StopTask is at it: that one knows the reason."""
    if not task.get("_stop_requested"):
        _maybe_mark_stopped(task, docker_client)


def mark_task_stopped(task_arn, task, reason, stop_code, exit_code=None):
    """The emulator's transition to STOPPED; the credentials end with it."""
    if task.get("_stop_requested") and not task.get("_stopped_for_good"):
        return False
    _endpoint.revoke(task_arn.rsplit("/", 1)[-1])
    return _mark_task_stopped(task_arn, task, reason, stop_code, exit_code)


def cleanup(task, docker_client, extra_container=None):
    """The emulator's removal of a task's containers, unless StopTask is waiting for them to end by themselves."""
    if not task.get("_stop_requested") or task.get("_stopped_for_good"):
        _cleanup(task, docker_client, extra_container)
    elif extra_container is not None:
        ecs._remove_docker_container(docker_client, extra_container)
