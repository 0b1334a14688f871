"""Condition keys of callers and of S3, DynamoDB, ECS and EventBridge requests, and s3:ListBucket for what does not exist.

AWS: aws:PrincipalArn of a session is its role, path and all; s3:if-none-match tells conditional writes from others, s3:ObjectCreationOperation
a write from a part of one; dynamodb:LeadingKeys holds the partition keys that a request names, so that a role can be kept to its own items;
ecs:cluster is the cluster of a task; events:source and events:detail-type are those of the events that are put; and who may not list a bucket learns 403, not 404, of an object that is not there. The emulator has none
of these: a Deny unless s3:if-none-match denies all, ForAllValues on LeadingKeys allows all. It is reached without TLS, which on AWS
is always there for an SDK: aws:SecureTransport is true here.
"""

import re

from ministack.core import iam_evaluator
from ministack.services import dynamodb, iam, s3

from . import assume_role, resources

_ITEM_ACTIONS = {
    "dynamodb:PutItem": "Put", "dynamodb:UpdateItem": "Update", "dynamodb:DeleteItem": "Delete", "dynamodb:GetItem": "Get",
    "dynamodb:ConditionCheckItem": "ConditionCheck",
}
_resolve_condition_key = iam_evaluator._resolve_condition_key


def install():
    """Puts the supplements in place."""
    iam_evaluator._resolve_condition_key = resolve_condition_key


def resolve_condition_key(key, context):
    """The emulator's own, but for what it gets wrong about the caller."""
    name = key.lower()
    if name == "aws:securetransport":
        return "true"
    if name == "aws:principalarn" and context.principal_type == "AssumedRole":
        role = iam._roles.get_scoped(
            context.principal_account, None, iam_evaluator._role_name_from_assumed_arn(context.principal_arn))
        return role["Arn"] if role else None
    return _resolve_condition_key(key, context)


def keys(action, resource, request):
    """The condition keys that the emulator leaves out."""
    if action == "s3:PutObject":
        return write_keys(request)
    if action == "sts:AssumeRole":
        return assume_role.keys(request.body)
    if action.startswith("dynamodb:"):
        found = leading_keys(action, resource, request.json())
        return {"dynamodb:LeadingKeys": found} if found else {}
    if action in ("ecs:RunTask", "ecs:StopTask", "ecs:DescribeTasks", "ecs:ListTasks"):
        return {"ecs:cluster": resources.cluster_arn(request.json())}
    if action == "events:PutEvents":
        entries = [entry for entry in request.json().get("Entries", []) if isinstance(entry, dict)]
        return {key: found for key, field in (("events:source", "Source"), ("events:detail-type", "DetailType"))
                if (found := [entry[field] for entry in entries if field in entry])}
    return {}


def write_keys(request):
    """The keys of a request that writes an object, a part of one included."""
    part = "partNumber" in request.params or "uploads" in request.params
    found = {"s3:ObjectCreationOperation": "false" if part else "true"}
    for key, header in (("s3:if-none-match", "if-none-match"), ("s3:if-match", "if-match"),
                        ("s3:x-amz-server-side-encryption-aws-kms-key-id", "x-amz-server-side-encryption-aws-kms-key-id")):
        if value := request.headers.get(header):
            found[key] = value
    return found


def permissions(action, resource, request):
    """s3:ListBucket, where an object is asked for that does not exist; the others of a request about several tasks or parameters."""
    if action == "ecs:DescribeTasks":
        return [(action, other, keys(action, other, request)) for other in resources.task_resources("DescribeTasks", request.json())[1:]]
    if action == "ssm:GetParameters":
        return [(action, other, keys(action, other, request)) for other in resources.parameter_resources(request.json())[1:]]
    if action != "s3:GetObject" or not resource.startswith("arn:aws:s3:::"):
        return []
    bucket, _, key = resource.removeprefix("arn:aws:s3:::").partition("/")
    record = s3._buckets.get(bucket)
    if record is None or key in record["objects"]:
        return []
    return [("s3:ListBucket", f"arn:aws:s3:::{bucket}", {"s3:prefix": key})]


def leading_keys(action, resource, data):
    """The partition keys that the request names in this table, those of each of its items that needs this action."""
    name = resource.partition(":table/")[2].split("/")[0]
    table = dynamodb._tables.get(name)
    if table is None:
        return []
    if action == "dynamodb:Query":
        return query_keys(table, data)
    key, found = table["pk_name"], []
    if "TransactItems" in data:
        items = [item[member] for item in data["TransactItems"] for member in [_ITEM_ACTIONS.get(action)] if member in item]
    elif action in ("dynamodb:BatchGetItem", "dynamodb:BatchWriteItem"):
        requests = (data.get("RequestItems") or {}).get(name) or {}
        if isinstance(requests, dict):
            items = [{"Key": item, "TableName": name} for item in requests.get("Keys", [])]
        else:
            items = [{**inner, "TableName": name} for entry in requests for inner in entry.values()]
    else:
        items = [data]
    for item in items:
        value = (item.get("Item") or item.get("Key") or {}).get(key)
        if isinstance(value, dict) and _same_table(item.get("TableName"), name):
            found.extend(str(inner) for inner in value.values())
    return found


def query_keys(table, data):
    """The partition key of a Query, of the table or of the index that it names."""
    key = table["pk_name"]
    for index in [*table["GlobalSecondaryIndexes"], *table["LocalSecondaryIndexes"]]:
        if index["IndexName"] == data.get("IndexName"):
            key = next(entry["AttributeName"] for entry in index["KeySchema"] if entry["KeyType"] == "HASH")
    names, values = data.get("ExpressionAttributeNames") or {}, data.get("ExpressionAttributeValues") or {}
    for name, value in re.findall(r"([#\w.-]+)\s*=\s*(:\w+)", data.get("KeyConditionExpression") or ""):
        if names.get(name, name) == key and value in values:
            return [str(inner) for inner in values[value].values()]
    return []


def _same_table(given, name):
    return isinstance(given, str) and given.rpartition("/")[2] == name
