"""CloudFormation: a template's bucket and table are what it says, and a failure tells why."""

import json

import pytest

from local.stack import REGION, StackError

BUCKET = {"Type": "AWS::S3::Bucket", "Properties": {
    "VersioningConfiguration": {"Status": "Enabled"}, "ObjectLockEnabled": True,
    "ObjectLockConfiguration": {"ObjectLockEnabled": "Enabled", "Rule": {"DefaultRetention": {"Mode": "COMPLIANCE", "Days": 1}}},
    "BucketEncryption": {"ServerSideEncryptionConfiguration": [
        {"BucketKeyEnabled": False, "ServerSideEncryptionByDefault": {"SSEAlgorithm": "aws:kms", "KMSMasterKeyID": {"Fn::GetAtt": ["Key", "Arn"]}}}]},
    "LifecycleConfiguration": {"Rules": [
        {"Id": "old", "Status": "Enabled", "Prefix": "artifacts/", "ExpirationInDays": {"Ref": "Days"}, "NoncurrentVersionExpiration": {"NoncurrentDays": 1}}]}}}
TABLE = {"Type": "AWS::DynamoDB::Table", "Properties": {
    "BillingMode": "PAY_PER_REQUEST", "AttributeDefinitions": [{"AttributeName": "pk", "AttributeType": "S"}],
    "KeySchema": [{"AttributeName": "pk", "KeyType": "HASH"}], "TimeToLiveSpecification": {"AttributeName": "ttl", "Enabled": True},
    "PointInTimeRecoverySpecification": {"PointInTimeRecoveryEnabled": True}}}


def deploy(lab, tmp_path, resources, outputs=(), parameters=None):
    template = tmp_path / "template.json"
    template.write_text(json.dumps({
        "Parameters": {name: {"Type": "String"} for name in parameters or {}}, "Resources": resources,
        "Outputs": {name: {"Value": {"Ref": name}} for name in outputs}}))
    return lab.stack.deploy(template, f"stack-{lab.id}", parameters)


def test_a_bucket_has_the_encryption_the_lifecycle_and_the_lock_of_its_template(lab, tmp_path):
    s3, resources = lab.stack.client("s3"), {"Key": {"Type": "AWS::KMS::Key", "Properties": {}}, "Bucket": BUCKET}
    bucket = deploy(lab, tmp_path, resources, ["Bucket", "Key"], {"Days": "90"})
    name = bucket["Bucket"]
    rule = s3.get_bucket_encryption(Bucket=name)["ServerSideEncryptionConfiguration"]["Rules"][0]
    assert rule["ApplyServerSideEncryptionByDefault"]["KMSMasterKeyID"].endswith(bucket["Key"])
    rule = s3.get_bucket_lifecycle_configuration(Bucket=name)["Rules"][0]
    assert (rule["Expiration"], rule["Filter"]) == ({"Days": 90}, {"Prefix": "artifacts/"})
    retention = s3.get_object_lock_configuration(Bucket=name)["ObjectLockConfiguration"]["Rule"]["DefaultRetention"]
    assert retention == {"Mode": "COMPLIANCE", "Days": 1}
    deploy(lab, tmp_path, resources, ["Bucket", "Key"], {"Days": "30"})
    assert s3.get_bucket_lifecycle_configuration(Bucket=name)["Rules"][0]["Expiration"] == {"Days": 30}


def test_a_table_has_the_recovery_and_the_expiry_of_its_template(lab, tmp_path):
    table, dynamodb = deploy(lab, tmp_path, {"Table": TABLE}, ["Table"])["Table"], lab.stack.client("dynamodb")
    backups = dynamodb.describe_continuous_backups(TableName=table)["ContinuousBackupsDescription"]
    assert backups["PointInTimeRecoveryDescription"]["PointInTimeRecoveryStatus"] == "ENABLED"
    assert dynamodb.describe_time_to_live(TableName=table)["TimeToLiveDescription"] == {"TimeToLiveStatus": "ENABLED", "AttributeName": "ttl"}


def role(service):
    trust = {"Effect": "Allow", "Principal": {"Service": service}, "Action": "sts:AssumeRole"}
    return {"Type": "AWS::IAM::Role", "Properties": {"AssumeRolePolicyDocument": {"Version": "2012-10-17", "Statement": [trust]}}}


@pytest.mark.parametrize(("resource", "why"), [
    ({"Type": "AWS::Lambda::Function", "Properties": {
        "Runtime": "provided.al2023", "Handler": "bootstrap", "Code": {"ZipFile": "x"}, "Role": {"Fn::GetAtt": ["Stranger", "Arn"]}}}, "cannot be assumed by Lambda"),
    ({"Type": "AWS::StepFunctions::StateMachine", "Properties": {
        "DefinitionString": '{"StartAt":"A","States":{"A":{"Type":"Succeed"}}}', "RoleArn": {"Fn::GetAtt": ["Stranger", "Arn"]}}}, "states.amazonaws.com"),
    ({"Type": "AWS::Scheduler::Schedule", "Properties": {
        "ScheduleExpression": "rate(1 hour)", "FlexibleTimeWindow": {"Mode": "OFF"}, "Target": {
            "Arn": f"arn:aws:lambda:{REGION}:111122223333:function:none", "RoleArn": {"Fn::GetAtt": ["Stranger", "Arn"]}}}}, "EventBridge Scheduler"),
], ids=["function", "machine", "schedule"])
def test_a_template_whose_role_does_not_trust_the_service_fails_and_says_so(lab, tmp_path, resource, why):
    with pytest.raises(StackError, match=why):
        deploy(lab, tmp_path, {"Stranger": role("ec2.amazonaws.com"), "Resource": resource})
