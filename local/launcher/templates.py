"""CloudFormation: properties of buckets and tables that the emulator accepts and forgets.

AWS: a template's bucket has the encryption, the lifecycle and the object lock that it says, its table the point-in-time recovery and the
time to live. The emulator makes the bucket and the table without them.
"""

from xml.sax.saxutils import escape

from ministack.services import dynamodb, s3
from ministack.services.cloudformation import provisioners


def install():
    """Puts the supplements in place."""
    for kind, configure in (("AWS::S3::Bucket", configure_bucket), ("AWS::DynamoDB::Table", configure_table)):
        handlers = provisioners._RESOURCE_HANDLERS[kind]
        handlers["create"] = _then(handlers["create"], lambda arguments: arguments[1], configure)
        handlers["update"] = _then(handlers["update"], lambda arguments: arguments[2], configure)


def _then(handler, properties, configure):
    def handle(*arguments, **named):
        result = handler(*arguments, **named)
        configure(result[0], properties(arguments))
        return result
    return handle


def _accepted(response, what):
    if response[0] >= 400:
        raise ValueError(f"{what}: {response[2]!r}")


def _xml(value):
    """A CloudFormation value as S3's XML: lists repeat their element."""
    if isinstance(value, dict):
        return "".join(
            f"<{name}>{_xml(item)}</{name}>" for name, inner in value.items()
            for item in (inner if isinstance(inner, list) else [inner]))
    return escape(str(value).lower() if isinstance(value, bool) else str(value))


def configure_bucket(name, properties):
    """Applies what the emulator leaves out of a bucket's properties."""
    namespace = 'xmlns="http://s3.amazonaws.com/doc/2006-03-01/"'
    if encryption := properties.get("BucketEncryption"):
        rules = [{"ApplyServerSideEncryptionByDefault": rule.get("ServerSideEncryptionByDefault", {}),
                  "BucketKeyEnabled": rule.get("BucketKeyEnabled", False)}
                 for rule in encryption["ServerSideEncryptionConfiguration"]]
        body = f"<ServerSideEncryptionConfiguration {namespace}>{_xml({'Rule': rules})}</ServerSideEncryptionConfiguration>"
        _accepted(s3._put_bucket_encryption(name, body.encode()), "BucketEncryption")
    if lifecycle := properties.get("LifecycleConfiguration"):
        body = f"<LifecycleConfiguration {namespace}>{_xml({'Rule': [_lifecycle(rule) for rule in lifecycle['Rules']]})}</LifecycleConfiguration>"
        _accepted(s3._put_bucket_lifecycle(name, body.encode()), "LifecycleConfiguration")
    if properties.get("ObjectLockEnabled"):
        rule = properties.get("ObjectLockConfiguration") or {"ObjectLockEnabled": "Enabled"}
        body = f"<ObjectLockConfiguration {namespace}>{_xml(rule)}</ObjectLockConfiguration>"
        _accepted(s3._put_object_lock_configuration(name, body.encode()), "ObjectLockConfiguration")


def _lifecycle(rule):
    """A lifecycle rule in the names of the S3 API."""
    names = {"Id": "ID", "ExpirationInDays": None, "Prefix": None}
    told = {names.get(key, key): value for key, value in rule.items() if names.get(key, key)}
    told["Filter"] = {"Prefix": rule.get("Prefix", "")}
    if "ExpirationInDays" in rule:
        told["Expiration"] = {"Days": rule["ExpirationInDays"]}
    return told


def configure_table(name, properties):
    """Applies what the emulator leaves out of a table's properties."""
    if recovery := properties.get("PointInTimeRecoverySpecification"):
        _accepted(dynamodb._update_continuous_backups(
            {"TableName": name, "PointInTimeRecoverySpecification": recovery}), "PointInTimeRecoverySpecification")
    if expiry := properties.get("TimeToLiveSpecification"):
        _accepted(dynamodb._update_ttl({"TableName": name, "TimeToLiveSpecification": expiry}), "TimeToLiveSpecification")
