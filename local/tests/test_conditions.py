"""Condition keys: what a policy can tell apart."""

import json

import botocore.exceptions
import pytest

from local.stack import ACCOUNT, REGION


def code(call):
    """The error code of a call that fails; None if it does not."""
    try:
        call()
    except botocore.exceptions.ClientError as error:
        return error.response["Error"]["Code"]
    return None


@pytest.fixture
def bucket(lab):
    name = f"bucket-{lab.id}"
    lab.stack.client("s3").create_bucket(Bucket=name, CreateBucketConfiguration={"LocationConstraint": REGION})
    return name


@pytest.fixture
def table(lab):
    name = f"table-{lab.id}"
    lab.stack.client("dynamodb").create_table(
        TableName=name, BillingMode="PAY_PER_REQUEST",
        AttributeDefinitions=[{"AttributeName": key, "AttributeType": "S"} for key in ("pk", "sk", "list")],
        KeySchema=[{"AttributeName": "pk", "KeyType": "HASH"}, {"AttributeName": "sk", "KeyType": "RANGE"}],
        GlobalSecondaryIndexes=[{"IndexName": "lists", "Projection": {"ProjectionType": "ALL"}, "KeySchema": [
            {"AttributeName": "list", "KeyType": "HASH"}, {"AttributeName": "sk", "KeyType": "RANGE"}]}])
    return name


def item(pk):
    return {"pk": {"S": pk}, "sk": {"S": "x"}}


def deny(bucket, action, prefix, condition):
    return {"Effect": "Deny", "Principal": "*", "Action": action, "Resource": f"arn:aws:s3:::{bucket}/{prefix}*", "Condition": condition}


def set_policy(lab, bucket, *statements):
    lab.stack.client("s3").put_bucket_policy(Bucket=bucket, Policy=json.dumps({"Version": "2012-10-17", "Statement": statements}))


def test_a_bucket_can_demand_conditional_writes(lab, bucket):
    set_policy(lab, bucket, deny(bucket, "s3:PutObject", "claims/", {
        "Null": {"s3:if-none-match": "true"}, "Bool": {"s3:ObjectCreationOperation": "true"}}))
    s3 = lab.user(("s3:*", "*")).client("s3")
    assert code(lambda: s3.put_object(Bucket=bucket, Key="claims/run", Body=b"a")) == "AccessDenied"
    assert code(lambda: s3.put_object(Bucket=bucket, Key="claims/run", Body=b"a", IfNoneMatch="*")) is None
    assert code(lambda: s3.put_object(Bucket=bucket, Key="claims/run", Body=b"b", IfNoneMatch="*")) == "PreconditionFailed"
    assert code(lambda: s3.put_object(Bucket=bucket, Key="elsewhere", Body=b"a")) is None
    # The parts of a multipart upload cannot carry the header; its completion has to.
    upload = s3.create_multipart_upload(Bucket=bucket, Key="claims/parts")["UploadId"]
    part = s3.upload_part(Bucket=bucket, Key="claims/parts", UploadId=upload, PartNumber=1, Body=b"a")["ETag"]
    completion = {"Bucket": bucket, "Key": "claims/parts", "UploadId": upload, "MultipartUpload": {"Parts": [{"ETag": part, "PartNumber": 1}]}}
    assert code(lambda: s3.complete_multipart_upload(**completion)) == "AccessDenied"
    assert code(lambda: s3.complete_multipart_upload(**completion, IfNoneMatch="*")) is None


def test_a_bucket_can_demand_its_key_by_name(lab, bucket):
    key = lab.stack.client("kms").create_key()["KeyMetadata"]["Arn"]
    set_policy(lab, bucket, deny(bucket, "s3:PutObject", "", {
        "StringNotEquals": {"s3:x-amz-server-side-encryption-aws-kms-key-id": key}}))
    s3 = lab.user((["s3:*", "kms:*"], "*")).client("s3")
    assert code(lambda: s3.put_object(Bucket=bucket, Key="a", Body=b"a")) == "AccessDenied"
    assert code(lambda: s3.put_object(Bucket=bucket, Key="a", Body=b"a", ServerSideEncryption="aws:kms", SSEKMSKeyId=key)) is None


def test_a_bucket_closed_to_plain_http_is_open_to_the_stack(lab, bucket):
    set_policy(lab, bucket, deny(bucket, "s3:*", "", {"Bool": {"aws:SecureTransport": "false"}}))
    assert code(lambda: lab.user(("s3:*", "*")).client("s3").put_object(Bucket=bucket, Key="a", Body=b"a")) is None


def test_a_session_is_known_by_its_role_with_its_path(lab, bucket):
    trust = {"Effect": "Allow", "Principal": {"AWS": f"arn:aws:iam::{ACCOUNT}:root"}, "Action": "sts:AssumeRole"}

    def role(path):
        name = f"{path.strip('/').replace('/', '-')}-{lab.id}"
        arn = lab.iam.create_role(RoleName=name, Path=path, AssumeRolePolicyDocument=json.dumps(
            {"Version": "2012-10-17", "Statement": [trust]}))["Role"]["Arn"]
        lab.allow(arn, ("s3:*", "*"))
        return lab.stack.session_for_role(arn, "task").client("s3")

    set_policy(lab, bucket, deny(bucket, "s3:PutObject", "", {
        "ArnNotLike": {"aws:PrincipalArn": f"arn:aws:iam::{ACCOUNT}:role/plangate/plan/*"}}))
    assert code(lambda: role("/plangate/plan/").put_object(Bucket=bucket, Key="a", Body=b"a")) is None
    assert code(lambda: role("/plangate/apply/").put_object(Bucket=bucket, Key="a", Body=b"a")) == "AccessDenied"


def test_who_may_not_list_a_bucket_does_not_learn_what_is_missing(lab, bucket):
    objects, whole = f"arn:aws:s3:::{bucket}/*", f"arn:aws:s3:::{bucket}"
    blind = lab.user((["s3:GetObject", "s3:PutObject"], objects)).client("s3")
    seeing = lab.user(("s3:GetObject", objects), ("s3:ListBucket", whole)).client("s3")
    assert code(lambda: blind.get_object(Bucket=bucket, Key="missing")) == "AccessDenied"
    assert code(lambda: blind.head_object(Bucket=bucket, Key="missing")) == "403"
    assert code(lambda: seeing.get_object(Bucket=bucket, Key="missing")) == "NoSuchKey"
    assert code(lambda: seeing.head_object(Bucket=bucket, Key="missing")) == "404"
    blind.put_object(Bucket=bucket, Key="there", Body=b"a")
    assert code(lambda: blind.get_object(Bucket=bucket, Key="there")) is None


def test_a_role_can_be_kept_to_its_own_partition_keys(lab, table):
    dynamodb = lab.user(("dynamodb:*", "*", {"ForAllValues:StringLike": {"dynamodb:LeadingKeys": ["ws/1*"]}})).client("dynamodb")
    own, other, denied = item("ws/1"), item("ws/2"), "AccessDeniedException"
    change = {"TableName": table, "UpdateExpression": "SET a = :a", "ExpressionAttributeValues": {":a": {"S": "1"}}}

    def query(pk, **more):
        return lambda: dynamodb.query(TableName=table, KeyConditionExpression="#k = :k", ExpressionAttributeValues={":k": {"S": pk}},
                                      **{"ExpressionAttributeNames": {"#k": "pk"}, **more})

    def both(*pks):
        return lambda: dynamodb.transact_write_items(TransactItems=[{"Put": {"TableName": table, "Item": item(pk)}} for pk in pks])

    assert code(lambda: dynamodb.put_item(TableName=table, Item=own)) is None
    assert code(lambda: dynamodb.put_item(TableName=table, Item=other)) == denied
    assert code(lambda: dynamodb.update_item(Key=own, **change)) is None
    assert code(lambda: dynamodb.update_item(Key=other, **change)) == denied
    assert code(lambda: dynamodb.get_item(TableName=table, Key=other)) == denied
    assert code(lambda: dynamodb.batch_get_item(RequestItems={table: {"Keys": [own, other]}})) == denied
    assert code(lambda: dynamodb.batch_write_item(RequestItems={table: [{"PutRequest": {"Item": other}}]})) == denied
    assert code(query("ws/1")) is None
    assert code(query("ws/2")) == denied
    assert code(query("ws/2", IndexName="lists", ExpressionAttributeNames={"#k": "list"})) == denied
    assert code(both("ws/1", "ws/11")) is None
    assert code(both("ws/1", "ws/2")) == denied


@pytest.mark.parametrize("operator", ["ForAnyValue:StringEquals", "StringEquals"])
def test_a_write_can_be_bound_to_a_transaction(lab, table, operator):
    dynamodb = lab.user(
        ("dynamodb:PutItem", "*", {operator: {"dynamodb:EnclosingOperation": ["TransactWriteItems"]}})).client("dynamodb")
    assert code(lambda: dynamodb.put_item(TableName=table, Item=item("a"))) == "AccessDeniedException"
    put = {"Put": {"TableName": table, "Item": item("a")}}
    assert code(lambda: dynamodb.transact_write_items(TransactItems=[put])) is None
    delete = {"Delete": {"TableName": table, "Key": item("a")}}
    assert code(lambda: dynamodb.transact_write_items(TransactItems=[delete])) == "AccessDeniedException"


def test_several_parameters_need_permission_for_each(lab):
    ssm, mine, theirs = lab.stack.client("ssm"), f"/mine/{lab.id}", f"/theirs/{lab.id}"
    for name in (mine, theirs):
        ssm.put_parameter(Name=name, Value="value", Type="String")
    reader = lab.user(("ssm:GetParameters", f"arn:aws:ssm:{REGION}:{ACCOUNT}:parameter{mine}")).client("ssm")
    assert reader.get_parameters(Names=[mine])["Parameters"][0]["Value"] == "value"
    with pytest.raises(botocore.exceptions.ClientError, match="ssm:GetParameters"):
        reader.get_parameters(Names=[mine, theirs])


def test_log_events_are_read_by_stream(lab):
    logs, group = lab.stack.client("logs"), f"/lab/{lab.id}"
    logs.create_log_group(logGroupName=group)
    for stream in ("mine", "theirs"):
        logs.create_log_stream(logGroupName=group, logStreamName=stream)
    prefix = f"arn:aws:logs:{REGION}:{ACCOUNT}:log-group:{group}"

    def reads(resource, stream):
        reader = lab.user(("logs:GetLogEvents", resource)).client("logs")
        return code(lambda: reader.get_log_events(logGroupName=group, logStreamName=stream)) is None

    assert reads(f"{prefix}:*", "mine") and reads(f"{prefix}:log-stream:mine", "mine")
    assert not reads(prefix, "mine") and not reads(f"{prefix}:log-stream:mine", "theirs")


def test_a_policy_can_go_by_the_tags_of_a_role(lab, bucket):
    trust = {"Effect": "Allow", "Principal": {"AWS": f"arn:aws:iam::{ACCOUNT}:root"}, "Action": "sts:AssumeRole"}

    def role(name, *tags):
        arn = lab.iam.create_role(RoleName=f"{name}-{lab.id}", Path="/tagged/", Tags=[{"Key": "team", "Value": tag} for tag in tags],
                                  AssumeRolePolicyDocument=json.dumps({"Version": "2012-10-17", "Statement": [trust]}))["Role"]["Arn"]
        lab.allow(arn, ("s3:*", "*"))
        return lab.stack.session_for_role(arn, "task").client("s3")

    tagged = {"ArnLike": {"aws:PrincipalArn": f"arn:aws:iam::{ACCOUNT}:role/tagged/*"}}
    elsewhere = {**deny(bucket, "s3:*", "", tagged), "NotResource": f"arn:aws:s3:::{bucket}/${{aws:PrincipalTag/team}}/*"}
    del elsewhere["Resource"]
    set_policy(lab, bucket, elsewhere)
    blue, untagged = role("blue", "blue"), role("none")
    assert code(lambda: blue.put_object(Bucket=bucket, Key="blue/a", Body=b"a")) is None
    assert code(lambda: blue.put_object(Bucket=bucket, Key="red/a", Body=b"a")) == "AccessDenied"
    assert code(lambda: blue.list_objects_v2(Bucket=bucket)) == "AccessDenied"
    # Without the tag the variable has no value, and the statement does not apply: to deny that too takes one of its own.
    assert code(lambda: untagged.put_object(Bucket=bucket, Key="red/a", Body=b"a")) is None
    set_policy(lab, bucket, elsewhere, deny(bucket, "s3:*", "", {"Null": {"aws:PrincipalTag/team": "true"}}))
    assert code(lambda: untagged.put_object(Bucket=bucket, Key="red/a", Body=b"a")) == "AccessDenied"
    assert code(lambda: blue.put_object(Bucket=bucket, Key="blue/b", Body=b"a")) is None
    # In a role's own policy, and in a condition.
    own = lab.iam.get_role(RoleName=f"blue-{lab.id}")["Role"]["Arn"]
    set_policy(lab, bucket)
    lab.allow(own, ("s3:PutObject", f"arn:aws:s3:::{bucket}/${{aws:PrincipalTag/team}}/*"),
              ("s3:ListBucket", f"arn:aws:s3:::{bucket}", {"StringEquals": {"s3:prefix": "${aws:PrincipalTag/team}"}}))
    assert code(lambda: blue.put_object(Bucket=bucket, Key="blue/c", Body=b"a")) is None
    assert code(lambda: blue.put_object(Bucket=bucket, Key="red/c", Body=b"a")) == "AccessDenied"
    assert code(lambda: blue.list_objects_v2(Bucket=bucket, Prefix="blue")) is None
    assert code(lambda: blue.list_objects_v2(Bucket=bucket, Prefix="red")) == "AccessDenied"


def test_events_can_be_kept_to_a_source(lab):
    wanted = {"Effect": "Allow", "Action": "events:PutEvents", "Resource": f"arn:aws:events:{REGION}:{ACCOUNT}:event-bus/default",
              "Condition": {"ForAllValues:StringEquals": {"events:source": ["ours"]}, "Null": {"events:source": "false"}}}
    events = lab.stack.user(f"teller-{lab.id}", {"Version": "2012-10-17", "Statement": [wanted]}).client("events")
    put = lambda *sources, bus="default": code(lambda: events.put_events(Entries=[  # noqa: E731
        {"Source": source, "DetailType": "x", "Detail": "{}", "EventBusName": bus} for source in sources]))
    assert put("ours", "ours") is None
    assert put("theirs") == put("ours", "theirs") == put("ours", bus="other") == "AccessDeniedException"
