"""Authorization of API requests: condition keys and further permissions that AWS looks at.

AWS: a request is judged with all condition keys that its service defines, and some requests need more than one permission: iam:PassRole
for a role that is handed over, the KMS key's for what is encrypted, s3:ListBucket to learn that an object does not exist. An HTTP API
refuses with one word. The emulator: knows a part of the keys and one permission a request, and refuses everywhere as a service does.
"""

import contextvars
import json
import os

from ministack.core import iam_actions, iam_evaluator

from . import assume_role, conditions, decisions, encryption, pass_role, request

_enforce, _access_denied_response = iam_evaluator.enforce, iam_actions.access_denied_response
# The further permission that was missing, and its resource: what the refusal has to name.
_missing = contextvars.ContextVar("missing_permission", default=None)


def install():
    """Puts the supplement in place."""
    iam_evaluator.enforce = enforce
    iam_actions.access_denied_response = access_denied_response
    iam_evaluator.is_root_access_key = is_root_access_key


def is_root_access_key(key):
    """Only the stack's own root key is root; the emulator takes `test`, twelve digits and no key at all for it too."""
    return key == os.environ["AWS_ACCESS_KEY_ID"]


def enforce(access_key, action, service, region, resource_arn="*", service_context=None):
    """The emulator's check with all condition keys, then those of the further permissions."""
    _missing.set(None)
    if not access_key and action.split(":")[-1] in iam_actions.unsigned_operations(service):
        return None  # a token is shown instead, and the role's trust says whose
    current = request.current.get()
    context = {**(service_context or {}), **conditions.keys(action, resource_arn, current)}
    if isinstance(operation := context.get("dynamodb:EnclosingOperation"), list):
        context["dynamodb:EnclosingOperation"] = operation[0]  # AWS: one string
    denied = _enforce(access_key, action, service, region, resource_arn=resource_arn, service_context=context)
    caller = decisions.of_key(access_key)
    decisions.note(caller, action, resource_arn, denied is None)
    if denied is not None:
        return denied
    for further, resource, keys in (
            *pass_role.permissions(action, current), *encryption.permissions(action, resource_arn, current),
            *conditions.permissions(action, resource_arn, current), *assume_role.permissions(action, resource_arn, current)):
        denied = _enforce(access_key, further, further.split(":")[0], region, resource_arn=resource, service_context=keys)
        decisions.note(caller, further, resource, denied is None)
        if denied is not None:
            _missing.set((further, resource))
            return denied
    return None


def access_denied_response(service, action, *rest, **named):
    """The emulator's refusal, naming the permission that is missing; of an API that is called, as API Gateway refuses."""
    if action.startswith("execute-api:"):
        return 403, {"Content-Type": "application/json"}, json.dumps({"message": "Forbidden"}).encode()
    if (missing := _missing.get()) is not None and not named.get("error_code"):
        action, named = missing[0], {**named, "resource_arn": missing[1]}
        named["message"] = f"User: {rest[0]} is not authorized to perform: {missing[0]} on resource: {missing[1]}"
    return _access_denied_response(service, action, *rest, **named)
