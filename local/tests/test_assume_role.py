"""Source identities, chained sessions, and what another account opens."""

import base64
import json

import botocore
import botocore.config
import botocore.exceptions
import pytest

from local.stack import ACCOUNT, SECOND_ACCOUNT, refused

from .conftest import only, task_state

RUN = "run-01aaaaaaaaaaaaaaaaaaaaaaaa"


def session(lab, role, **asked):
    keys = lab.user(("sts:AssumeRole", "*"), ("sts:SetSourceIdentity", "*")).client("sts").assume_role(
        RoleArn=role, RoleSessionName="test", **asked)["Credentials"]
    return lab.stack.session(keys["AccessKeyId"], keys["SecretAccessKey"], keys["SessionToken"])


def role(iam, name, *trusted, account=ACCOUNT, allowed=("sts:AssumeRole", "sts:SetSourceIdentity"), condition=None):
    trust = [{"Effect": "Allow", "Principal": {"AWS": f"arn:aws:iam::{account}:root"}, "Action": list(trusted), **({"Condition": condition} if condition else {})}]
    arn = iam.create_role(RoleName=name, AssumeRolePolicyDocument=json.dumps({"Version": "2012-10-17", "Statement": trust}))["Role"]["Arn"]
    own = [{"Effect": "Allow", "Action": list(allowed), "Resource": "*"}]
    iam.put_role_policy(RoleName=name, PolicyName="own", PolicyDocument=json.dumps({"Version": "2012-10-17", "Statement": own}))
    return arn


def test_a_source_identity_needs_a_permission_of_its_own_on_both_sides(lab):
    both = role(lab.iam, f"both-{lab.id}", "sts:AssumeRole", "sts:SetSourceIdentity")
    one = role(lab.iam, f"one-{lab.id}", "sts:AssumeRole")
    may, may_not = lab.user(("sts:AssumeRole", "*"), ("sts:SetSourceIdentity", "*")), lab.user(("sts:AssumeRole", "*"))
    asked = {"RoleSessionName": "test", "SourceIdentity": RUN}
    assert may.client("sts").assume_role(RoleArn=both, **asked)["SourceIdentity"] == RUN
    assert refused(may.client("sts").assume_role, RoleArn=one, **asked)
    assert refused(may_not.client("sts").assume_role, RoleArn=both, **asked)
    assert "SourceIdentity" not in may_not.client("sts").assume_role(RoleArn=both, RoleSessionName="test")


def test_a_trust_may_ask_for_an_external_id_and_a_source_identity(lab):
    condition = {"StringEquals": {"sts:ExternalId": "ours"}, "StringLike": {"sts:SourceIdentity": "run-*"}}
    arn = role(lab.iam, f"asks-{lab.id}", "sts:AssumeRole", "sts:SetSourceIdentity", condition=condition)
    call = lab.user(("sts:AssumeRole", "*"), ("sts:SetSourceIdentity", "*")).client("sts").assume_role
    asked = {"RoleArn": arn, "RoleSessionName": "test"}
    assert not refused(call, **asked, ExternalId="ours", SourceIdentity=RUN)
    assert refused(call, **asked, ExternalId="ours") and refused(call, **asked, SourceIdentity=RUN)
    assert refused(call, **asked, ExternalId="theirs", SourceIdentity=RUN) and refused(call, **asked, ExternalId="ours", SourceIdentity="me")


def test_a_session_passes_its_source_identity_on_and_makes_sessions_of_an_hour_at_most(lab):
    first, second = (role(lab.iam, f"{name}-{lab.id}", "sts:AssumeRole", "sts:SetSourceIdentity") for name in ("first", "second"))
    sts = session(lab, first, SourceIdentity=RUN).client("sts")
    assert sts.assume_role(RoleArn=second, RoleSessionName="test")["SourceIdentity"] == RUN
    assert refused(sts.assume_role, RoleArn=second, RoleSessionName="test", SourceIdentity="another")
    with pytest.raises(botocore.exceptions.ClientError, match="1 hour session limit"):
        sts.assume_role(RoleArn=second, RoleSessionName="test", DurationSeconds=3601)


def test_another_account_is_another_and_its_bucket_opens_to_the_very_role(lab):
    root = lab.stack.second_account()
    assert root.client("sts").get_caller_identity()["Account"] == SECOND_ACCOUNT
    ours, other = (role(lab.iam, f"{name}-{lab.id}", "sts:AssumeRole", "sts:SetSourceIdentity", allowed=["s3:GetObject"]) for name in ("ours", "other"))
    bucket, s3 = f"elsewhere-{lab.id}", root.client("s3")
    s3.create_bucket(Bucket=bucket, CreateBucketConfiguration={"LocationConstraint": "eu-central-1"})
    s3.put_object(Bucket=bucket, Key="open/x", Body=b"x")
    s3.put_object(Bucket=bucket, Key="shut/x", Body=b"x")
    s3.put_bucket_policy(Bucket=bucket, Policy=json.dumps({"Version": "2012-10-17", "Statement": [
        {"Effect": "Allow", "Principal": {"AWS": ours}, "Action": "s3:GetObject", "Resource": f"arn:aws:s3:::{bucket}/open/*"}]}))
    reads = session(lab, ours).client("s3").get_object
    assert reads(Bucket=bucket, Key="open/x")["Body"].read() == b"x"
    assert refused(reads, Bucket=bucket, Key="shut/x")
    assert refused(session(lab, other).client("s3").get_object, Bucket=bucket, Key="open/x")
    # What is made there is there, under the same names.
    role(root.client("iam"), f"ours-{lab.id}", "sts:AssumeRole", account=SECOND_ACCOUNT)
    assert lab.iam.get_role(RoleName=f"ours-{lab.id}")["Role"]["Arn"] == ours


def test_a_task_that_is_tagged_as_it_is_started_needs_that_permission(lab):
    cluster, definition = lab.task(lab.image("exit 0"))
    passed = lab.ecs.describe_task_definition(taskDefinition=definition)["taskDefinition"]["taskRoleArn"]
    statements = [("ecs:RunTask", definition), ("ecs:DescribeTasks", "*"), ("iam:PassRole", passed)]
    state = task_state(cluster, definition, Arguments={"PropagateTags": "TASK_DEFINITION"})
    machine = lab.machine(only(state), *statements)
    ended = lab.run(machine)
    assert (ended["status"], ended["error"]) == ("FAILED", "ECS.AccessDeniedException")
    events = (["events:PutTargets", "events:PutRule", "events:DescribeRule"], "*")
    lab.allow(lab.states.describe_state_machine(stateMachineArn=machine)["roleArn"], *statements, events, ("ecs:TagResource", "*"))
    assert lab.run(machine)["status"] == "SUCCEEDED"


def test_an_identity_token_is_enough_for_a_role_that_trusts_its_provider_and_its_subject(lab):
    lab.iam.create_open_id_connect_provider(Url="https://forge.example", ClientIDList=["sts.amazonaws.com"])
    trust = {"Effect": "Allow", "Principal": {"Federated": f"arn:aws:iam::{ACCOUNT}:oidc-provider/forge.example"}, "Action": "sts:AssumeRoleWithWebIdentity",
             "Condition": {"StringEquals": {"forge.example:aud": "sts.amazonaws.com", "forge.example:sub": "repo:ours"}}}
    arn = lab.iam.create_role(RoleName=f"job-{lab.id}", AssumeRolePolicyDocument=json.dumps({"Version": "2012-10-17", "Statement": [trust]}))["Role"]["Arn"]
    unsigned = lab.stack.session().client("sts", config=botocore.config.Config(signature_version=botocore.UNSIGNED))

    def taken(subject, audience="sts.amazonaws.com"):
        claims = base64.urlsafe_b64encode(json.dumps({"iss": "https://forge.example", "aud": audience, "sub": subject}).encode()).rstrip(b"=").decode()
        return unsigned.assume_role_with_web_identity(RoleArn=arn, RoleSessionName="test", WebIdentityToken=f"e30.{claims}.c2lnbmVk")
    keys = taken("repo:ours")["Credentials"]
    job = lab.stack.session(keys["AccessKeyId"], keys["SecretAccessKey"], keys["SessionToken"])
    assert job.client("sts").get_caller_identity()["Arn"].endswith(f":assumed-role/job-{lab.id}/test")
    assert refused(taken, "repo:theirs") and refused(taken, "repo:ours", "another")
    with pytest.raises(botocore.exceptions.ClientError, match="InvalidClientTokenId|MissingAuthenticationToken"):
        unsigned.assume_role(RoleArn=arn, RoleSessionName="test")
