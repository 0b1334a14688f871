"""The resource that an ECS request is authorized on.

AWS: RunTask is authorized on the revision of the task definition, StopTask and DescribeTasks on each task, ListTasks on none; the cluster is a
condition. The emulator takes the cluster for all of them.
"""

import json

from ministack.core import iam_actions
from ministack.services import ecs

_extract_resource_arn = iam_actions.extract_resource_arn


def install():
    """Puts the supplement in place."""
    iam_actions.extract_resource_arn = extract_resource_arn


def extract_resource_arn(service, method, path, headers, body, *rest):
    """The emulator's own, but for the tasks of ECS."""
    if service == "ecs":
        action = headers.get("x-amz-target", "").rpartition(".")[2]
        try:
            data = json.loads(body or b"{}")
        except ValueError:
            data = {}
        if action in ("RunTask", "StopTask", "DescribeTasks", "ListTasks") and isinstance(data, dict):
            return task_resources(action, data)[0]
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


def cluster_arn(data):
    """The ARN of the cluster that a request names; empty if there is none of that name."""
    cluster = ecs._clusters.get(ecs._resolve_cluster_name(data.get("cluster", "default")) or "") or {}
    return cluster.get("clusterArn", "")
