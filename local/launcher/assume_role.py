"""Assuming roles: the source identity, chained sessions, and a second account.

AWS: a request that sets a source identity needs sts:SetSourceIdentity besides sts:AssumeRole, of the caller's policies and of the role's trust;
sts:SourceIdentity, sts:ExternalId and sts:RoleSessionName are condition keys of both. A session keeps its source identity, passes it on to every
session that is made of it, and can make none with another. A session that another session has made lasts an hour at most. The emulator knows external
id and session name, in trust policies alone.
"""

import dataclasses
import os
import time
import urllib.parse

from ministack.core import iam_evaluator
from ministack.services import sts

from . import request

CHAINED_SECONDS = 3600
_evaluate_trust_policy, _handle_request = iam_evaluator.evaluate_trust_policy, sts.handle_request


def install():
    """Puts the supplements in place, and the root of the second account, if the stack has one."""
    iam_evaluator.evaluate_trust_policy = evaluate_trust_policy
    sts.handle_request = handle_request
    if second := os.environ.pop("LOCAL_SECOND_ROOT", ""):
        account, key, secret, token = second.split(":")
        # The emulator goes by the account in a session's ARN: so this account's root is a session, that never ends.
        sts.register_session(key, {
            "Arn": f"arn:aws:iam::{account}:root", "UserId": account, "AccountId": account, "PrincipalType": "Root",
            "SecretAccessKey": secret, "SessionToken": token, "Expiration": time.time() + 365 * 86400})


def asked(body):
    """The parameters of a request in STS's form; empty if it is something else."""
    return {name: values[0] for name, values in urllib.parse.parse_qs((body or b"").decode("utf-8", "replace")).items()}


def keys(body):
    """The condition keys that a request to assume a role has."""
    parameters = asked(body)
    return {f"sts:{name}": parameters[name] for name in ("ExternalId", "RoleSessionName", "SourceIdentity") if name in parameters}


def permissions(action, resource, current):
    """The further permission of a request that sets a source identity."""
    found = keys(current.body) if action == "sts:AssumeRole" else {}
    return [("sts:SetSourceIdentity", resource, found)] if "sts:SourceIdentity" in found else []


def evaluate_trust_policy(document, caller, context=None):
    """The emulator's own, with the source identity as a key, and asked for that as well where there is one."""
    if context is None or context.action != "sts:AssumeRole":
        return _evaluate_trust_policy(document, caller, context)
    found = {name.lower(): value for name, value in keys(request.current.get().body).items()}
    context = dataclasses.replace(context, service_context={**context.service_context, **found})
    if not _evaluate_trust_policy(document, caller, context):
        return False
    return "sts:sourceidentity" not in found or _evaluate_trust_policy(
        document, caller, dataclasses.replace(context, action="sts:SetSourceIdentity"))


async def handle_request(method, path, headers, body, query):
    """STS; a session's source identity is kept, told and passed on."""
    parameters = asked(body)
    if parameters.get("Action") != "AssumeRole":
        return await _handle_request(method, path, headers, body, query)
    caller = sts._sessions.get(sts.extract_access_key_id(headers, query)) or {}
    own, wanted = caller.get("SourceIdentity"), parameters.get("SourceIdentity")
    if own and wanted and own != wanted:
        return sts._error(403, "AccessDenied", "The source identity of a session cannot be changed", ns="sts")
    if ":assumed-role/" in caller.get("Arn", "") and int(parameters.get("DurationSeconds") or CHAINED_SECONDS) > CHAINED_SECONDS:
        problem = "The requested DurationSeconds exceeds the 1 hour session limit for roles assumed by role chaining"
        return sts._error(400, "ValidationError", problem, ns="sts")
    status, told, answer = await _handle_request(method, path, headers, body, query)
    identity = wanted or own
    if status != 200 or not identity:
        return status, told, answer
    text = answer.decode() if isinstance(answer, bytes) else answer
    key = text.partition("<AccessKeyId>")[2].partition("<")[0]
    sts._sessions[key]["SourceIdentity"] = identity
    text = text.replace("</AssumeRoleResult>", f"<SourceIdentity>{identity}</SourceIdentity></AssumeRoleResult>")
    return status, told, text.encode() if isinstance(answer, bytes) else text
