"""What each role can do, tried as that role on the laptop stack with these very templates. Evidence about our policies, not about AWS."""

import botocore.exceptions
import pytest
from conftest import ACCOUNT, CONTROL, OURS, THEIRS

RUN = "run-01aaaaaaaaaaaaaaaaaaaaaaaa"
DOCUMENT = f"documents/{OURS}/{RUN}.json"


@pytest.fixture(scope="module", autouse=True)
def stored(gate):
    """A state, an artifact, a document and an order, each written by the role that writes it."""
    plan, bucket = gate.client(f"{OURS}-plan", "s3"), gate.ours["StateBucket"]
    gate.client(f"{OURS}-apply", "s3").put_object(Bucket=bucket, Key="state/terraform.tfstate", Body=b"state")
    plan.put_object(Bucket=bucket, Key=f"artifacts/{RUN}/plan.tfplan", Body=b"plan", IfNoneMatch="*")
    plan.put_object(Bucket=gate.bucket, Key=DOCUMENT, Body=b"{}", IfNoneMatch="*", ServerSideEncryption="aws:kms", SSEKMSKeyId=gate.outputs["DocumentKeyArn"])
    gate.client("plangate-prepare", "s3").put_object(Bucket=gate.bucket, Key=f"orders/{OURS}/{RUN}/plan.json", Body=b"{}", IfNoneMatch="*")


def refused(call, *arguments, **named):
    """Whether a call is refused for want of permission; any other failure is a failure of the test."""
    try:
        call(*arguments, **named)
    except botocore.exceptions.ClientError as error:
        if error.response["Error"]["Code"] in ("AccessDenied", "AccessDeniedException"):
            return True
        raise
    return False


@pytest.mark.parametrize("name", CONTROL)
def test_no_function_reaches_a_workspace(gate, name):
    role = f"plangate-{name}"
    s3, bucket = gate.client(role, "s3"), gate.ours["StateBucket"]
    assert refused(s3.get_object, Bucket=bucket, Key="state/terraform.tfstate")
    assert refused(s3.put_object, Bucket=bucket, Key="state/terraform.tfstate", Body=b"forged")
    assert refused(s3.get_object, Bucket=bucket, Key=f"artifacts/{RUN}/plan.tfplan")
    assert refused(s3.put_object, Bucket=bucket, Key=f"artifacts/{RUN}/other.tfplan", Body=b"forged", IfNoneMatch="*")
    assert refused(s3.list_objects_v2, Bucket=bucket)
    assert refused(gate.client(role, "ssm").get_parameters, Names=[f"/plangate/{OURS}/password"], WithDecryption=True)
    assert refused(gate.client(role, "sts").assume_role, RoleArn=f"arn:aws:iam::{ACCOUNT}:role/estate", RoleSessionName="test")
    assert refused(gate.client(role, "ecs").run_task, cluster="plangate", taskDefinition=gate.outputs["TaskDefinition"])


@pytest.mark.parametrize("name", CONTROL)
def test_no_function_forges_what_the_runner_says(gate, name):
    s3 = gate.client(f"plangate-{name}", "s3")
    for key in (f"receipts/{OURS}/{RUN}/plan.json", f"receipts/{OURS}/{RUN}/apply.json", f"results/{OURS}/{RUN}.json"):
        assert refused(s3.put_object, Bucket=gate.bucket, Key=key, Body=b"{}", IfNoneMatch="*")
    assert refused(s3.put_object, Bucket=gate.bucket, Key=f"documents/{OURS}/forged.json", Body=b"{}", IfNoneMatch="*",
                   ServerSideEncryption="aws:kms", SSEKMSKeyId=gate.outputs["DocumentKeyArn"])
    assert refused(s3.delete_object, Bucket=gate.bucket, Key=DOCUMENT)


@pytest.mark.parametrize("name", CONTROL)
def test_documents_are_open_to_project_and_guard_alone(gate, name):
    s3 = gate.client(f"plangate-{name}", "s3")
    assert refused(s3.get_object, Bucket=gate.bucket, Key=DOCUMENT) == (name not in ("project", "guard"))


def test_a_plan_role_cannot_open_its_own_document_again(gate):
    assert refused(gate.client(f"{OURS}-plan", "s3").get_object, Bucket=gate.bucket, Key=DOCUMENT)


@pytest.mark.parametrize("name", CONTROL)
def test_the_audit_is_appended_inside_a_transaction_alone(gate, name):
    role = f"plangate-{name}"
    dynamodb, table = gate.client(role, "dynamodb"), gate.outputs["AuditTable"]
    key = {"pk": {"S": f"run/{role}"}, "sk": {"S": "0000000001"}}
    assert refused(dynamodb.put_item, TableName=table, Item=key)
    assert not refused(dynamodb.transact_write_items, TransactItems=[
        {"Put": {"TableName": gate.outputs["Table"], "Item": {"pk": {"S": role}, "sk": {"S": "x"}}}},
        {"Put": {"TableName": table, "Item": key, "ConditionExpression": "attribute_not_exists(pk)"}}])
    assert refused(dynamodb.delete_item, TableName=table, Key=key)
    assert refused(dynamodb.transact_write_items, TransactItems=[{"Delete": {"TableName": table, "Key": key}}])
    assert refused(dynamodb.update_item, TableName=table, Key=key, UpdateExpression="SET event = :e", ExpressionAttributeValues={":e": {"S": "x"}})
    assert dynamodb.get_item(TableName=table, Key=key)["Item"] == key


@pytest.mark.parametrize("name", CONTROL)
def test_authorize_alone_signs_orders(gate, name):
    kms = gate.client(f"plangate-{name}", "kms")
    order = {"KeyId": gate.outputs["OrderKeyArn"], "Message": b"order", "MessageType": "RAW", "SigningAlgorithm": "ECDSA_SHA_256"}
    assert refused(kms.sign, **order) == (name != "authorize")


def test_a_record_is_written_once(gate):
    s3, key = gate.client("plangate-prepare", "s3"), f"orders/{OURS}/{RUN}/plan.json"
    assert refused(s3.put_object, Bucket=gate.bucket, Key=key, Body=b"other")
    with pytest.raises(botocore.exceptions.ClientError, match="PreconditionFailed"):
        s3.put_object(Bucket=gate.bucket, Key=key, Body=b"other", IfNoneMatch="*")
    claim = {"Bucket": gate.bucket, "Key": f"claims/{OURS}/{RUN}", "Body": b"", "IfNoneMatch": "*"}
    gate.client("plangate-conclude", "s3").put_object(**claim)
    with pytest.raises(botocore.exceptions.ClientError, match="PreconditionFailed"):
        gate.client(f"{OURS}-apply", "s3").put_object(**claim)


def test_a_document_is_under_the_documents_key_or_not_at_all(gate):
    s3 = gate.client(f"{OURS}-plan", "s3")
    assert refused(s3.put_object, Bucket=gate.bucket, Key=f"documents/{OURS}/plain.json", Body=b"{}", IfNoneMatch="*")


def test_plan_reads_the_state_and_cannot_write_it(gate):
    s3, bucket = gate.client(f"{OURS}-plan", "s3"), gate.ours["StateBucket"]
    assert s3.get_object(Bucket=bucket, Key="state/terraform.tfstate")["Body"].read() == b"state"
    for key in ("state/terraform.tfstate", "state/terraform.tfstate.tflock", f"sealed/{RUN}/errored.tfstate"):
        assert refused(s3.put_object, Bucket=bucket, Key=key, Body=b"x")
    assert refused(s3.delete_object, Bucket=bucket, Key="state/terraform.tfstate")
    assert refused(s3.put_object, Bucket=bucket, Key=f"artifacts/{RUN}/plan.tfplan", Body=b"swapped")
    assert refused(s3.put_object, Bucket=gate.bucket, Key=f"claims/{OURS}/{RUN}-plan", Body=b"", IfNoneMatch="*")


def test_apply_locks_and_writes_the_state(gate):
    s3, bucket = gate.client(f"{OURS}-apply", "s3"), gate.ours["StateBucket"]
    lock = {"Bucket": bucket, "Key": "state/terraform.tfstate.tflock"}
    key = {"ServerSideEncryption": "aws:kms", "SSEKMSKeyId": gate.ours["SealedKeyArn"]}
    s3.put_object(**lock, **key, Body=b"{}", IfNoneMatch="*")
    s3.put_object(Bucket=bucket, Key="state/terraform.tfstate", Body=b"state", **key)
    s3.delete_object(**lock)
    assert s3.get_object(Bucket=bucket, Key=f"artifacts/{RUN}/plan.tfplan")["Body"].read() == b"plan"
    assert refused(s3.put_object, Bucket=bucket, Key="state/terraform.tfstate", Body=b"state", ServerSideEncryption="AES256")
    assert refused(s3.delete_object, Bucket=bucket, Key="state/terraform.tfstate")
    assert refused(s3.delete_object, Bucket=bucket, Key=f"artifacts/{RUN}/plan.tfplan")
    assert refused(s3.put_object, Bucket=bucket, Key=f"artifacts/{RUN}/plan.tfplan", Body=b"swapped", IfNoneMatch="*")


@pytest.mark.parametrize("phase", ["plan", "apply"])
def test_a_workspace_does_not_reach_another(gate, phase):
    s3 = gate.client(f"{THEIRS}-{phase}", "s3")
    assert refused(s3.get_object, Bucket=gate.ours["StateBucket"], Key="state/terraform.tfstate")
    assert refused(s3.put_object, Bucket=gate.ours["StateBucket"], Key="state/terraform.tfstate", Body=b"forged")
    kms = gate.client(f"{THEIRS}-{phase}", "kms")
    assert refused(kms.generate_data_key, KeyId=gate.ours["SealedKeyArn"], KeySpec="AES_256")
    assert refused(kms.sign, KeyId=gate.outputs["OrderKeyArn"], Message=b"order", SigningAlgorithm="ECDSA_SHA_256")
    assert refused(s3.put_object, Bucket=gate.bucket, Key=f"receipts/{OURS}/{RUN}/{phase}.json", Body=b"{}", IfNoneMatch="*")
    assert refused(s3.put_object, Bucket=gate.bucket, Key=f"claims/{OURS}/{RUN}-{phase}", Body=b"", IfNoneMatch="*")
    assert refused(s3.get_object, Bucket=gate.bucket, Key=f"orders/{OURS}/{RUN}/plan.json")
    assert refused(gate.client(f"{THEIRS}-{phase}", "ssm").get_parameters, Names=[f"/plangate/{OURS}/password"], WithDecryption=True)


@pytest.mark.parametrize(("machine", "role", "allowed"), [
    ("plan-only", f"plangate/plan/{OURS}-plan", True),
    ("plan-only", f"plangate/apply/{OURS}-apply", False),
    ("plan-only", "administrator", False),
    ("applicable", f"plangate/plan/{OURS}-plan", True),
    ("applicable", f"plangate/apply/{OURS}-apply", True),
    ("applicable", "administrator", False),
    ("applicable", "plangate/control/plangate-authorize", False),
])
def test_a_machine_runs_tasks_under_its_kind_of_role_alone(gate, machine, role, allowed):
    # A task that nothing can start ends at once; what counts is whether the request for it is admitted.
    ecs = gate.client(f"plangate-machine-{machine}", "ecs")
    asked = {"cluster": "plangate", "launchType": "FARGATE", "overrides": {"taskRoleArn": f"arn:aws:iam::{ACCOUNT}:role/{role}"}}
    assert refused(ecs.run_task, taskDefinition=gate.outputs["TaskDefinition"], **asked) == (not allowed)


def test_a_machine_runs_this_definition_in_this_cluster_alone(gate):
    ecs = gate.client("plangate-machine-applicable", "ecs")
    overrides = {"taskRoleArn": gate.ours["PlanRoleArn"]}
    other = gate.outputs["TaskDefinition"].rpartition(":")[0] + ":2"
    assert refused(ecs.run_task, cluster="plangate", taskDefinition=other, overrides=overrides)
    assert refused(ecs.run_task, cluster="default", taskDefinition=gate.outputs["TaskDefinition"], overrides=overrides)
    assert refused(ecs.register_task_definition, family="plangate-runner", containerDefinitions=[{"name": "runner", "image": "evil"}])


@pytest.mark.parametrize(("machine", "function", "allowed"), [
    ("plan-only", "conclude", True), ("plan-only", "authorize", False), ("plan-only", "request-approval", False), ("applicable", "api", False)])
def test_a_machine_calls_the_functions_of_its_runs_alone(gate, machine, function, allowed):
    call = gate.client(f"plangate-machine-{machine}", "lambda").invoke
    assert refused(call, FunctionName=f"plangate-{function}", InvocationType="DryRun") == (not allowed)


@pytest.mark.parametrize("name", CONTROL)
def test_tasks_are_stopped_by_conclude_and_sweep_alone(gate, name):
    ecs, may = gate.client(f"plangate-{name}", "ecs"), name in ("conclude", "sweep")
    if may:
        assert ecs.list_tasks(cluster="plangate", startedBy=f"{RUN}/plan")["taskArns"] == []
    assert refused(ecs.describe_tasks, cluster="plangate", tasks=["0" * 32]) == (not may)
    assert refused(ecs.list_tasks, cluster="default") is True


@pytest.mark.parametrize("name", CONTROL)
def test_runs_are_started_by_api_and_sweep_alone(gate, name):
    states = gate.client(f"plangate-{name}", "stepfunctions")
    machine = gate.outputs["MachineApplicableArn"]
    if name not in ("api", "sweep"):
        assert refused(states.start_execution, stateMachineArn=machine, name=RUN, input="{}")
    assert refused(states.update_state_machine, stateMachineArn=machine, definition="{}")


def test_the_glass_is_not_broken_without_a_second_factor(gate):
    arn = f"arn:aws:iam::{ACCOUNT}:role/plangate/break-glass/{THEIRS}-break-glass"
    assert refused(gate.stack.session_for_role, arn, "night")
    iam = gate.stack.client("iam")
    attached = [[each["PolicyArn"] for each in iam.list_attached_role_policies(RoleName=f"{THEIRS}-{role}")["AttachedPolicies"]] for role in ("apply", "break-glass")]
    assert sorted(attached[0]) == sorted(attached[1])
