"""Buckets of another account: their policies.

AWS: who comes from another account is judged by his own policies and by the bucket's, the very role in it and all condition keys. The
emulator takes him for the root of his account, without keys.
"""

from ministack.core import iam_evaluator
from ministack.core.responses import get_account_id, get_region, request_scope
from ministack.core.router import extract_access_key_id
from ministack.services import s3

from . import conditions, request

_foreign_bucket_allows = s3._foreign_bucket_allows


def install():
    """Puts the supplement in place."""
    s3._foreign_bucket_allows = foreign_bucket_allows


def foreign_bucket_allows(owner, bucket, key, method, query, caller, headers=None):
    """The emulator's own for whoever does not sign; for the others the bucket's policy, as it is evaluated within an account."""
    from ministack.core.iam_actions import _s3_action, s3_service_context

    current = request.current.get()
    credential = caller and iam_evaluator.resolve_credential(extract_access_key_id(current.headers, current.params) or "", get_account_id())
    if not isinstance(credential, iam_evaluator.ResolvedCredential):
        return _foreign_bucket_allows(owner, bucket, key, method, query, caller, headers)
    path = f"/{bucket}/{key}" if key else f"/{bucket}"
    action, resource = f"s3:{_s3_action(method, path, query)}", f"arn:aws:s3:::{path[1:]}"
    with request_scope(owner, get_region()):
        found = {**s3_service_context(action, query, path, headers or {}), **conditions.keys(action, resource, current)}
    context = iam_evaluator.EvalContext(
        principal_arn=credential.principal_arn, principal_type=credential.principal_type, principal_account=credential.account_id,
        action=action, resource_arn=resource, region=get_region(), principal_keys=iam_evaluator._principal_keys(credential),
        service_context={name.lower(): value for name, value in found.items()})
    return iam_evaluator.evaluate_resource_policy(s3._bucket_policies.get_scoped(owner, None, bucket), context).decision == "Allow"
