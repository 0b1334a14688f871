"""What plangate relies on and the emulator does by itself: if an upgrade loses it, this says so."""

import base64
import hashlib
import json
import urllib.error
import urllib.request

import pytest
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import load_der_public_key

from local.stack import REGION

from .conftest import only


@pytest.fixture
def bucket(lab):
    name, s3 = f"bucket-{lab.id}", lab.stack.client("s3")
    s3.create_bucket(Bucket=name, CreateBucketConfiguration={"LocationConstraint": REGION})
    s3.put_bucket_versioning(Bucket=name, VersioningConfiguration={"Status": "Enabled"})
    return name


def put(url, body, checksum):
    request = urllib.request.Request(url, data=body, method="PUT", headers={"x-amz-checksum-sha256": checksum})
    try:
        return urllib.request.urlopen(request).status
    except urllib.error.HTTPError as error:
        return error.code


def test_a_presigned_upload_takes_only_the_bytes_it_was_signed_for(lab, bucket):
    s3 = lab.user(("s3:PutObject", f"arn:aws:s3:::{bucket}/bundles/*")).client("s3")
    checksum = base64.b64encode(hashlib.sha256(b"bundle").digest()).decode()
    url = s3.generate_presigned_url("put_object", ExpiresIn=60, Params={
        "Bucket": bucket, "Key": "bundles/a", "ChecksumSHA256": checksum, "ContentLength": 6})
    assert put(url, b"bandle", checksum) == 400
    assert put(url, b"bundles", checksum) == 403
    assert put(url, b"bundle", base64.b64encode(hashlib.sha256(b"bandle").digest()).decode()) == 403
    assert put(url, b"bundle", checksum) == 200
    elsewhere = s3.generate_presigned_url("put_object", ExpiresIn=60, Params={"Bucket": bucket, "Key": "claims/a", "ChecksumSHA256": checksum})
    assert put(elsewhere, b"bundle", checksum) == 403


def test_versions_stay_readable_and_writes_can_depend_on_them(lab, bucket):
    s3 = lab.stack.client("s3")
    first = s3.put_object(Bucket=bucket, Key="state", Body=b"1")
    second = s3.put_object(Bucket=bucket, Key="state", Body=b"2", IfMatch=first["ETag"])
    assert s3.get_object(Bucket=bucket, Key="state", VersionId=first["VersionId"])["Body"].read() == b"1"
    assert s3.head_object(Bucket=bucket, Key="state")["VersionId"] == second["VersionId"]
    with pytest.raises(s3.exceptions.ClientError, match="PreconditionFailed"):
        s3.put_object(Bucket=bucket, Key="state", Body=b"3", IfMatch=first["ETag"])


def test_an_order_is_signed_and_verified_with_the_public_key(lab):
    kms = lab.stack.client("kms")
    key = kms.create_key(KeySpec="ECC_NIST_P256", KeyUsage="SIGN_VERIFY")["KeyMetadata"]["Arn"]
    signer = lab.user(("kms:Sign", key)).client("kms")
    with pytest.raises(kms.exceptions.ClientError, match="AccessDenied"):
        lab.user(("kms:Verify", key)).client("kms").sign(KeyId=key, Message=b"order", MessageType="RAW", SigningAlgorithm="ECDSA_SHA_256")
    signature = signer.sign(KeyId=key, Message=hashlib.sha256(b"order").digest(), MessageType="DIGEST", SigningAlgorithm="ECDSA_SHA_256")["Signature"]
    public = kms.get_public_key(KeyId=key)
    assert public["KeySpec"] == "ECC_NIST_P256"
    load_der_public_key(public["PublicKey"]).verify(signature, b"order", ec.ECDSA(hashes.SHA256()))


def test_a_transaction_over_two_tables_is_all_or_nothing(lab):
    dynamodb, tables = lab.stack.client("dynamodb"), [f"main-{lab.id}", f"audit-{lab.id}"]
    for table in tables:
        dynamodb.create_table(TableName=table, BillingMode="PAY_PER_REQUEST", KeySchema=[{"AttributeName": "pk", "KeyType": "HASH"}],
                              AttributeDefinitions=[{"AttributeName": "pk", "AttributeType": "S"}])

    def write(table, pk):
        return {"Put": {"TableName": table, "Item": {"pk": {"S": pk}}, "ConditionExpression": "attribute_not_exists(pk)",
                        "ReturnValuesOnConditionCheckFailure": "ALL_OLD"}}
    dynamodb.transact_write_items(TransactItems=[write(tables[0], "a"), write(tables[1], "a")])
    with pytest.raises(dynamodb.exceptions.TransactionCanceledException) as caught:
        dynamodb.transact_write_items(TransactItems=[write(tables[0], "b"), write(tables[1], "a")])
    reasons = caught.value.response["CancellationReasons"]
    assert [reason["Code"] for reason in reasons] == ["None", "ConditionalCheckFailed"]
    assert reasons[1]["Item"] == {"pk": {"S": "a"}}
    assert "Item" not in dynamodb.get_item(TableName=tables[0], Key={"pk": {"S": "b"}}, ConsistentRead=True)


def test_a_permission_stops_at_the_roles_boundary(lab, bucket):
    boundary = lab.iam.create_policy(PolicyName=f"boundary-{lab.id}", PolicyDocument=json.dumps({
        "Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": "s3:GetObject", "Resource": "*"}]}))["Policy"]["Arn"]
    lab.stack.client("s3").put_object(Bucket=bucket, Key="a", Body=b"a")
    session = lab.user(("s3:*", "*"))
    session.client("s3").put_object(Bucket=bucket, Key="a", Body=b"a")
    name = session.client("sts").get_caller_identity()["Arn"].rsplit("/", 1)[-1]
    lab.iam.put_user_permissions_boundary(UserName=name, PermissionsBoundary=boundary)
    assert session.client("s3").get_object(Bucket=bucket, Key="a")["Body"].read() == b"a"
    with pytest.raises(session.client("s3").exceptions.ClientError, match="AccessDenied"):
        session.client("s3").put_object(Bucket=bucket, Key="a", Body=b"a")


def test_a_named_error_of_a_function_is_retried_and_caught_by_name(lab):
    function = lab.function("named", '''
class Unavailable(Exception): pass
class PlanFailed(Exception): pass
calls = []
def handle(event):
    calls.append(1)
    raise Unavailable("again") if len(calls) == 1 else PlanFailed("for good")
''')
    state = {"Type": "Task", "Resource": "arn:aws:states:::lambda:invoke", "Arguments": {"FunctionName": function}, "End": True,
             "Retry": [{"ErrorEquals": ["Unavailable"], "IntervalSeconds": 1, "MaxAttempts": 2}],
             "Catch": [{"ErrorEquals": ["PlanFailed"], "Output": "{% $states.errorOutput.Error %}", "Next": "Caught"}]}
    definition = only(state)
    definition["States"]["Caught"] = {"Type": "Succeed"}
    ended = lab.run(lab.machine(definition, ("lambda:InvokeFunction", function)))
    assert json.loads(ended["output"]) == "PlanFailed"
