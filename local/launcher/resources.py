"""The resource that a request of ECS, SSM or CloudWatch Logs is authorized on.

AWS: RunTask is authorized on the revision of the task definition, StopTask and DescribeTasks on each task, ListTasks on none; the cluster is a
condition. GetParameters is authorized on each parameter. A request for log events is authorized on the stream, or on `GROUP:*`. The emulator
takes the cluster, `*`, and the group.
"""

import json

from ministack.core import iam_actions
from ministack.core.responses import get_account_id, get_region
from ministack.services import ecs

_extract_resource_arn = iam_actions.extract_resource_arn


def install():
    """Puts the supplement in place."""
    iam_actions.extract_resource_arn = extract_resource_arn


def extract_resource_arn(service, method, path, headers, body, *rest):
    """The emulator's own, but for the tasks of ECS, for several parameters of SSM and for log events."""
    if service in ("ecs", "ssm", "logs"):
        action = headers.get("x-amz-target", "").rpartition(".")[2]
        try:
            data = json.loads(body or b"{}")
        except ValueError:
            data = {}
        if not isinstance(data, dict):
            data = {}
        if service == "ecs" and action in ("RunTask", "StopTask", "DescribeTasks", "ListTasks"):
            return task_resources(action, data)[0]
        if service == "ssm" and action == "GetParameters":
            return parameter_resources(data)[0]
        if service == "logs" and action in ("GetLogEvents", "PutLogEvents", "FilterLogEvents"):
            return log_resource(action, data)
    return _extract_resource_arn(service, method, path, headers, body, *rest)


def task_resources(action, data):
    """The resources of a request about tasks, all of which have to be permitted."""
    if action == "ListTasks":
        return ["*"]
    if action == "RunTask":
        definition = ecs._task_defs.get(ecs._resolve_td_key(data.get("taskDefinition", "")) or "") or {}
        return [definition.get("taskDefinitionArn", "*")]
    cluster = cluster_arn(data)
    named = data.get("tasks") if action == "DescribeTasks" else [data.get("task")]
    return [
        task if task.startswith("arn:") else f"{cluster.replace(':cluster/', ':task/')}/{task}"
        for task in named or [] if isinstance(task, str)
    ] or ["*"]


def parameter_resources(data):
    """The parameters of a GetParameters, all of which have to be permitted."""
    names = [name.rpartition(":parameter")[2] or name for name in data.get("Names") or [] if isinstance(name, str)]
    return [f"arn:aws:ssm:{get_region()}:{get_account_id()}:parameter/{name.lstrip('/')}" for name in names] or ["*"]


def log_resource(action, data):
    """The stream that a request reads or writes; a search goes over a whole group."""
    group = f"arn:aws:logs:{get_region()}:{get_account_id()}:log-group:{data.get('logGroupName', '')}"
    return f"{group}:*" if action == "FilterLogEvents" else f"{group}:log-stream:{data.get('logStreamName', '')}"


def cluster_arn(data):
    """The ARN of the cluster that a request names; empty if there is none of that name."""
    cluster = ecs._clusters.get(ecs._resolve_cluster_name(data.get("cluster", "default")) or "") or {}
    return cluster.get("clusterArn", "")
