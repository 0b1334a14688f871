"""Roles: what a service may do with a role that was given to it, and whether the role trusts that service at all.

AWS: a service assumes a role only if the role's trust policy names the service, and then acts within the role's policies,
its permissions boundary and the policies of what it touches. The emulator: services act as root, and trust policies are read for STS alone.
"""

import json
import secrets
import time

from ministack.core import iam_evaluator
from ministack.core.responses import get_account_id, get_region
from ministack.services import iam, sts

from . import decisions

SESSION_SECONDS = 3600


class AccessDenied(Exception):
    """A refusal, worded as AWS words it."""


def _parts(role_arn):
    """The account and the name in a role's ARN; a path is no part of the name."""
    fields = role_arn.split(":", 5)
    if len(fields) != 6 or fields[2] != "iam" or not fields[5].startswith("role/"):
        raise AccessDenied(f"{role_arn} is not the ARN of a role")
    return fields[4], fields[5].rsplit("/", 1)[-1]


def _record(role_arn):
    account, name = _parts(role_arn)
    role = iam._roles.get_scoped(account, None, name)
    return role if role and role.get("Arn") == role_arn else None


def trusts(role_arn, service, source_arn):
    """Whether the role can be assumed by `service` (such as `ecs-tasks.amazonaws.com`) on behalf of `source_arn`."""
    role = _record(role_arn)
    if role is None:
        return False
    document = role.get("AssumeRolePolicyDocument") or {}
    document = json.loads(document) if isinstance(document, str) else document
    statements = document.get("Statement", [])
    context = iam_evaluator.EvalContext(
        principal_arn=service, principal_type="Service", principal_account=get_account_id(), action="sts:AssumeRole",
        resource_arn=role_arn, region=get_region(),
        service_context={"aws:sourceaccount": get_account_id(), "aws:sourcearn": source_arn})
    verdicts = {
        statement.get("Effect")
        for statement in ([statements] if isinstance(statements, dict) else statements)
        if _names_service(statement.get("Principal"), service)
        and iam_evaluator._action_matches("sts:AssumeRole", _list(statement.get("Action")), _list(statement.get("NotAction")))
        and iam_evaluator._conditions_met(statement.get("Condition", {}), context)
    }
    return verdicts == {"Allow"}


def _list(value):
    return [value] if isinstance(value, str) else list(value or [])


def _names_service(principal, service):
    return principal == "*" or isinstance(principal, dict) and service in _list(principal.get("Service"))


def require(role_arn, session_name, action, resource, context=None):
    """Refuses, with AWS's words, unless the role may do `action` on `resource`."""
    account, name = _parts(role_arn)
    arn = f"arn:aws:sts::{account}:assumed-role/{name}/{session_name}"
    principal = iam_evaluator.EvalContext(
        principal_arn=arn, principal_type="AssumedRole", principal_account=account, action=action, resource_arn=resource,
        region=get_region(), service_context={key.lower(): value for key, value in (context or {}).items()})
    limits = iam_evaluator._permissions_boundary(iam._roles, name, account)
    policies = iam_evaluator._gather_role_policies(name, account) if _record(role_arn) else []
    result = iam_evaluator.evaluate(principal, policies, *limits)
    service = action.split(":")[0]
    if (found := iam_evaluator._resource_policy(service, resource)) is not None:
        result = iam_evaluator.combine_resource_policy(
            result, principal, *found, required=service in iam_evaluator._POLICY_REQUIRED, limits=limits)
    decisions.note(arn, action, resource, result.decision == "Allow")
    if result.decision != "Allow":
        why = ("with an explicit deny in a policy" if result.decision == "Deny"
               else f"because no identity-based policy allows the {action} action")
        raise AccessDenied(f"User: {arn} is not authorized to perform: {action} on resource: {resource} {why}")


def session(role_arn, session_name):
    """Credentials of a session of the role, in the shape that a container's credential endpoint answers with."""
    account, name = _parts(role_arn)
    role = _record(role_arn)
    if role is None:
        raise AccessDenied(f"the role {role_arn} does not exist")
    expiration = time.time() + SESSION_SECONDS
    key, secret, token = f"ASIA{secrets.token_hex(8).upper()}", secrets.token_urlsafe(30), secrets.token_urlsafe(64)
    sts.register_session(key, {
        "Arn": f"arn:aws:sts::{account}:assumed-role/{name}/{session_name}",
        "UserId": f"{role.get('RoleId', name)}:{session_name}",
        "AccountId": account, "SecretAccessKey": secret, "SessionToken": token, "Expiration": expiration,
    })
    return {
        "RoleArn": role_arn, "AccessKeyId": key, "SecretAccessKey": secret, "Token": token,
        "Expiration": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(expiration)),
    }
