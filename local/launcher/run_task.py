"""ecs:runTask and ecs:runTask.sync as Step Functions does them.

AWS: the call is made under the execution role, iam:PassRole included; the answer is in PascalCase; `.sync` gives the stopped Task, fails
with States.TaskFailed and the Task as cause if a container exited other than 0 or the task failed to start, waits as long as it takes,
and stops the task when the execution is stopped or the state times out. The emulator: runs as root, gives camelCase,
lets every exit code succeed, gives up after ten minutes, and leaves the task running.
"""

import datetime
import json
import re
import threading

from ministack.services import ecs
from ministack.services import stepfunctions as sf

from . import definitions, pass_role, resources, tasks

POLL_SECONDS = 0.05


def invoke(attempt, data, wait):
    """Runs a task for a state; gives the state's result."""
    if (field := definitions.unsupported(data)) is not None:  # arguments that were computed
        raise sf._ExecutionError("States.Runtime", f'The field "{field}" is not supported by Step Functions')
    request = sf._pascal_to_camel(data)
    request.setdefault("startedBy", "AWS Step Functions")
    authorize(attempt, request)
    status, _, body = ecs._run_task(request)
    answer = json.loads(body)
    if status >= 400:
        raise sf._ExecutionError(f"ECS.{answer['__type'].rpartition('#')[2]}", answer.get("message", ""))
    if not wait:
        return pascal(answer)
    return finish(attempt, ecs._tasks[answer["tasks"][0]["taskArn"]])


def authorize(attempt, request):
    """Fails the state unless the execution role may run this task and pass its roles."""
    cluster, denied = resources.cluster_arn(request), "ECS.AccessDeniedException"
    attempt.require("ecs:RunTask", resources.task_resources("RunTask", request)[0], denied, {"ecs:cluster": cluster})
    if request.get("tags") or request.get("propagateTags", "NONE") != "NONE":
        attempt.require("ecs:TagResource", f"{cluster.replace(':cluster/', ':task/')}/*", denied,
                        {"ecs:CreateAction": "RunTask"})
    for role in tasks.task_roles(request):
        attempt.require("iam:PassRole", role, denied, {"iam:PassedToService": pass_role.ECS_TASKS})


def finish(attempt, task):
    """Waits until the task has stopped."""
    from . import workflow

    pause = threading.Event()
    while task["lastStatus"] != "STOPPED":
        if attempt.ended():
            stop(attempt, task)
            raise workflow.ExecutionEnded
        pause.wait(POLL_SECONDS)
    workflow.leave_if_ended(attempt)
    result = pascal(json.loads(json.dumps(ecs._sanitize(task))))
    failed = any(container.get("ExitCode") != 0 for container in result["Containers"])
    if failed or result.get("StopCode") == "TaskFailedToStart":
        raise sf._ExecutionError("States.TaskFailed", json.dumps(result))
    return result


def stop(attempt, task):
    """Stops a task that nobody waits for any more, if the execution role may; otherwise it goes on, as on AWS."""
    try:
        attempt.require("ecs:StopTask", task["taskArn"], "ECS.AccessDeniedException", {"ecs:cluster": task["clusterArn"]})
    except sf._ExecutionError:
        return
    tasks.request_stop(task, "Stopped by AWS Step Functions", "UserInitiated")


def pascal(value, name=""):
    """An ECS answer as Step Functions shows it: keys begin with a capital, times are milliseconds."""
    if isinstance(value, dict):
        return {key[:1].upper() + key[1:]: pascal(inner, key) for key, inner in value.items()}
    if isinstance(value, list):
        return [pascal(inner, name) for inner in value]
    if re.search(r"[a-z]At$", name) and isinstance(value, str):
        return round(datetime.datetime.fromisoformat(value.replace("Z", "+00:00")).timestamp() * 1000)
    return value
