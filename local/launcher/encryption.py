"""KMS permissions on what other services encrypt: S3 objects and SSM parameters.

AWS: writing an object under a KMS key needs kms:GenerateDataKey on it, reading kms:Decrypt, by way of S3 and bound to the object;
a SecureString needs kms:Encrypt and kms:Decrypt, by way of SSM. The key's policy counts too. The emulator asks for neither.
"""

from ministack.core.responses import get_account_id, get_region
from ministack.services import kms, s3, ssm

KEY_ID = "x-amz-server-side-encryption-aws-kms-key-id"


def permissions(action, resource, request):
    """The (action, key, condition keys) that this request needs on KMS keys."""
    if action in ("s3:PutObject", "s3:GetObject", "s3:GetObjectVersion"):
        if request.method == "HEAD":
            return []
        return _object(action, resource, request)
    if action in ("ssm:GetParameter", "ssm:GetParameters", "ssm:GetParametersByPath", "ssm:PutParameter"):
        return _parameters(action, request.json())
    return []


def _object(action, resource, request):
    bucket, _, name = resource.removeprefix("arn:aws:s3:::").partition("/")
    if action == "s3:PutObject":
        key = request.headers.get(KEY_ID)
        if key is None and not request.headers.get("x-amz-server-side-encryption"):
            key = s3._bucket_default_sse_headers(bucket).get(KEY_ID)
        needed = "kms:GenerateDataKey"
    else:
        record = (s3._buckets.get(bucket) or {}).get("objects", {}).get(name) or {}
        key, needed = s3._stored_sse_headers(record).get(KEY_ID), "kms:Decrypt"
    return _needed(needed, key, "s3", {"kms:EncryptionContext:aws:s3:arn": resource})


def _parameters(action, data):
    if action == "ssm:PutParameter":
        key = data.get("KeyId") if data.get("Type") == "SecureString" else None
        return _needed("kms:Encrypt", key, "ssm", {})
    if not data.get("WithDecryption"):
        return []
    if action == "ssm:GetParametersByPath":
        path = data.get("Path", "").rstrip("/") + "/"
        records = [record for name, record in ssm._parameters.items() if name.startswith(path)]
    else:
        names = data.get("Names") or [data.get("Name") or ""]
        records = [ssm._parameters.get(name.rpartition(":parameter")[2] or name) for name in names]
    return [
        permission for record in records if record and record["Type"] == "SecureString"
        for permission in _needed("kms:Decrypt", record["KeyId"], "ssm", {"kms:EncryptionContext:PARAMETER_ARN": record["ARN"]})
    ]


def _needed(action, key, service, context):
    """One permission; none for an AWS managed key, whose policy admits everyone in the account."""
    record = kms._resolve_key(key or "")
    if record is None:
        return []
    via = {"kms:ViaService": f"{service}.{get_region()}.amazonaws.com", "kms:CallerAccount": get_account_id()}
    return [(action, record["Arn"], {**via, **context})]
