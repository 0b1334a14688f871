"""KMS permissions on what S3 and SSM encrypt."""

import json

import botocore.exceptions
import pytest

from local.stack import ACCOUNT, REGION


def denied(call):
    with pytest.raises(botocore.exceptions.ClientError) as caught:
        call()
    assert caught.value.response["Error"]["Code"].startswith("AccessDenied")
    return caught.value.response["Error"]["Message"]


@pytest.fixture
def key(lab):
    return lab.stack.client("kms").create_key()["KeyMetadata"]["Arn"]


def through(service):
    return {"StringEquals": {"kms:ViaService": f"{service}.{REGION}.amazonaws.com"}}


def test_an_object_needs_its_key_to_be_written_and_read(lab, key):
    bucket, root = f"sealed-{lab.id}", lab.stack.client("s3")
    root.create_bucket(Bucket=bucket, CreateBucketConfiguration={"LocationConstraint": REGION})
    root.put_bucket_encryption(Bucket=bucket, ServerSideEncryptionConfiguration={"Rules": [
        {"ApplyServerSideEncryptionByDefault": {"SSEAlgorithm": "aws:kms", "KMSMasterKeyID": key}}]})
    objects, here = ("s3:*", "*"), {"Bucket": bucket, "Key": "plan"}
    nobody, writer = lab.user(objects), lab.user(objects, ("kms:GenerateDataKey", key))
    reader = lab.user(objects, ("kms:Decrypt", key, through("s3")))
    assert "kms:GenerateDataKey" in denied(lambda: nobody.client("s3").put_object(**here, Body=b"x"))
    assert writer.client("s3").put_object(**here, Body=b"x")["SSEKMSKeyId"] == key
    assert key in denied(lambda: writer.client("s3").get_object(**here))
    assert reader.client("s3").get_object(**here)["Body"].read() == b"x"
    other = lab.stack.client("kms").create_key()["KeyMetadata"]["Arn"]
    named = {"ServerSideEncryption": "aws:kms", "SSEKMSKeyId": other}
    assert other in denied(lambda: writer.client("s3").put_object(**here, Body=b"x", **named))


def test_the_keys_policy_decides_too(lab):
    administration = {"Effect": "Allow", "Principal": {"AWS": f"arn:aws:iam::{ACCOUNT}:root"}, "Action": ["kms:Encrypt", "kms:PutKeyPolicy"], "Resource": "*"}
    key = lab.stack.client("kms").create_key(Policy=json.dumps({"Version": "2012-10-17", "Statement": [administration]}))["KeyMetadata"]["Arn"]
    ssm = lab.user((["ssm:*", "kms:*"], "*")).client("ssm")
    ssm.put_parameter(Name=f"/sealed/{lab.id}", Value="secret", Type="SecureString", KeyId=key)
    assert "kms:Decrypt" in denied(lambda: ssm.get_parameter(Name=f"/sealed/{lab.id}", WithDecryption=True))


def test_a_secret_parameter_needs_its_key(lab, key):
    name, parameters = f"/secret/{lab.id}/token", (["ssm:PutParameter", "ssm:GetParameter*"], "*")
    put = {"Name": name, "Value": "secret", "Type": "SecureString", "KeyId": key}
    nobody = lab.user(parameters).client("ssm")
    holder = lab.user(parameters, (["kms:Encrypt", "kms:Decrypt"], key, through("ssm"))).client("ssm")
    assert "kms:Encrypt" in denied(lambda: nobody.put_parameter(**put))
    holder.put_parameter(**put)
    for read in (lambda ssm: ssm.get_parameter(Name=name, WithDecryption=True)["Parameter"],
                 lambda ssm: ssm.get_parameters(Names=[name], WithDecryption=True)["Parameters"][0],
                 lambda ssm: ssm.get_parameters_by_path(Path=f"/secret/{lab.id}", WithDecryption=True)["Parameters"][0]):
        assert "kms:Decrypt" in denied(lambda: read(nobody))
        assert read(holder)["Value"] == "secret"
    assert "secret" not in nobody.get_parameter(Name=name)["Parameter"]["Value"]
