"""What no function of the control plane may do, called as each of their roles on the laptop stack: changing the gate itself, its estate's
workspaces, its audit and its alarms. Whatever is not here and is somebody's work stands in test_permissions.py, by whose it is.
"""

import botocore.exceptions
import pytest
from deployed import CONTROL, OURS
from templates import of_type, template

GATE = template("gate.yaml")
RUN = "run-01aaaaaaaaaaaaaaaaaaaaaaaa"
TABLES = {"plangate": "the record", "plangate-audit": "the audit"}


def calls(gate):
    """Each call that must be refused: (name, service, operation, arguments). Not here: deleting an event source mapping, which the
    emulator lets everybody do."""
    machine, outputs = gate.outputs["MachineApplicableArn"], gate.outputs
    state = gate.ours["StateBucket"]
    function, apply_role = outputs["AuthorizeFunctionArn"], gate.ours["ApplyRoleArn"]
    trail = [(table, {"TableName": table}) for table in TABLES]
    found = [
        # becoming somebody
        ("iam:CreateRole", "iam", "create_role", {"RoleName": "x", "Path": "/plangate/apply/", "AssumeRolePolicyDocument": "{}"}),
        ("iam:PutRolePolicy", "iam", "put_role_policy", {"RoleName": "plangate-api", "PolicyName": "x", "PolicyDocument": "{}"}),
        ("iam:AttachRolePolicy", "iam", "attach_role_policy", {"RoleName": "plangate-api", "PolicyArn": "arn:aws:iam::aws:policy/AdministratorAccess"}),
        ("iam:UpdateAssumeRolePolicy", "iam", "update_assume_role_policy", {"RoleName": f"{OURS}-apply", "PolicyDocument": "{}"}),
        ("iam:TagRole", "iam", "tag_role", {"RoleName": f"{OURS}-apply", "Tags": [{"Key": "plangate-workspace", "Value": "x"}]}),
        ("iam:DeleteRolePermissionsBoundary", "iam", "delete_role_permissions_boundary", {"RoleName": "plangate-api"}),
        ("iam:CreateAccessKey", "iam", "create_access_key", {"UserName": "x"}),
        ("sts:AssumeRole", "sts", "assume_role", {"RoleArn": apply_role, "RoleSessionName": "test"}),
        # running something else
        ("lambda:UpdateFunctionCode", "lambda", "update_function_code", {"FunctionName": function, "S3Bucket": "code", "S3Key": "x"}),
        ("lambda:UpdateFunctionConfiguration", "lambda", "update_function_configuration", {"FunctionName": function, "Timeout": 1}),
        ("lambda:AddPermission", "lambda", "add_permission", {"FunctionName": function, "StatementId": "x", "Action": "lambda:InvokeFunction", "Principal": "*"}),
        ("lambda:InvokeFunction", "lambda", "invoke", {"FunctionName": function, "InvocationType": "DryRun"}),
        ("ecs:RunTask", "ecs", "run_task", {"cluster": "plangate", "taskDefinition": outputs["TaskDefinition"], "overrides": {"taskRoleArn": apply_role}}),
        ("ecs:RegisterTaskDefinition", "ecs", "register_task_definition", {"family": "plangate-runner", "containerDefinitions": [{"name": "runner", "image": "evil"}]}),
        ("ecs:ExecuteCommand", "ecs", "execute_command", {"cluster": "plangate", "task": "0" * 32, "command": "sh", "interactive": True}),
        ("states:UpdateStateMachine", "stepfunctions", "update_state_machine", {"stateMachineArn": machine, "definition": "{}"}),
        ("states:DeleteStateMachine", "stepfunctions", "delete_state_machine", {"stateMachineArn": machine}),
        ("cloudformation:DeleteStack", "cloudformation", "delete_stack", {"StackName": "gate"}),
        # the keys
        *[(f"kms:{name}", "kms", operation, {"KeyId": outputs[key], **more}) for key in ("GateKeyArn", "DocumentKeyArn", "OrderKeyArn") for name, operation, more in (
            ("PutKeyPolicy", "put_key_policy", {"Policy": "{}"}), ("ScheduleKeyDeletion", "schedule_key_deletion", {}), ("DisableKey", "disable_key", {}),
            ("CreateGrant", "create_grant", {"GranteePrincipal": apply_role, "Operations": ["Decrypt"]}))],
        ("kms:GenerateDataKey", "kms", "generate_data_key", {"KeyId": gate.ours["SealedKeyArn"], "KeySpec": "AES_256"}),
        # the record and the audit
        *[(f"dynamodb:{name} of {TABLES[table]}", "dynamodb", operation, {**named, **more}) for table, named in trail for name, operation, more in (
            ("Scan", "scan", {}), ("DeleteTable", "delete_table", {}), ("UpdateTable", "update_table", {"DeletionProtectionEnabled": False}),
            ("UpdateContinuousBackups", "update_continuous_backups", {"PointInTimeRecoverySpecification": {"PointInTimeRecoveryEnabled": False}}),
            ("UpdateItem", "update_item", {"Key": {"pk": {"S": "x"}, "sk": {"S": "x"}}}), ("DeleteItem", "delete_item", {"Key": {"pk": {"S": "x"}, "sk": {"S": "x"}}}),
            ("PutItem", "put_item", {"Item": {"pk": {"S": "RUN#x"}, "sk": {"S": "RUN"}}}))],
        # the buckets
        *[(f"s3:{name} of {bucket}", "s3", operation, {"Bucket": bucket, **more}) for bucket in (outputs["ExchangeBucket"], outputs["ArchiveBucket"], state)
          for name, operation, more in (
            ("PutBucketPolicy", "put_bucket_policy", {"Policy": "{}"}), ("DeleteBucketPolicy", "delete_bucket_policy", {}), ("DeleteBucket", "delete_bucket", {}),
            ("PutBucketVersioning", "put_bucket_versioning", {"VersioningConfiguration": {"Status": "Suspended"}}),
            ("DeleteObject", "delete_object", {"Key": f"events/run/{RUN}"}))],
        ("s3:GetObject of a state", "s3", "get_object", {"Bucket": state, "Key": "state/terraform.tfstate"}),
        ("s3:PutObject of a state", "s3", "put_object", {"Bucket": state, "Key": "state/terraform.tfstate", "Body": b""}),
        ("s3:PutObject of a receipt", "s3", "put_object", {"Bucket": gate.bucket, "Key": f"receipts/{OURS}/{RUN}/apply.json", "Body": b"", "IfNoneMatch": "*"}),
        ("s3:PutObject of a release", "s3", "put_object", {"Bucket": "code", "Key": "release/api.zip", "Body": b""}),
        # secrets
        ("ssm:GetParameter of a workspace", "ssm", "get_parameter", {"Name": f"/plangate/{OURS}/password", "WithDecryption": True}),
        ("ssm:PutParameter", "ssm", "put_parameter", {"Name": "/slack/bot-token", "Value": "x", "Type": "SecureString", "Overwrite": True}),
        # going unseen
        *[(f"events:DisableRule of {name}", "events", "disable_rule", {"Name": f"plangate-{name}"}) for name in ("sweep", "drift")],
        ("events:PutRule", "events", "put_rule", {"Name": "plangate-sweep", "ScheduleExpression": "rate(365 days)"}),
        ("events:RemoveTargets", "events", "remove_targets", {"Rule": "plangate-sweep", "Ids": ["sweep"]}),
        *[(f"cloudwatch:DeleteAlarms of {name}", "cloudwatch", "delete_alarms", {"AlarmNames": [f"plangate-{name}"]}) for name in ("audit-tampering", "announce-failures")],
        *[(f"sqs:PurgeQueue of {name}", "sqs", "purge_queue", {"QueueUrl": gate.stack.client("sqs").get_queue_url(QueueName=f"plangate-{name}-failures")["QueueUrl"]})
          for name in ("archive", "announce")],
        ("logs:DeleteLogGroup", "logs", "delete_log_group", {"logGroupName": "/plangate/functions"}),
        ("logs:PutRetentionPolicy", "logs", "put_retention_policy", {"logGroupName": "/plangate/functions", "retentionInDays": 1}),
        ("logs:DeleteMetricFilter", "logs", "delete_metric_filter", {"logGroupName": "/plangate/functions", "filterName": "x"}),
    ]
    return found


def code(call, arguments):
    """The code of an error; empty if the call was answered."""
    try:
        call(**arguments)
    except botocore.exceptions.ClientError as error:
        return error.response["Error"]["Code"]
    return ""


@pytest.mark.parametrize("name", CONTROL)
def test_a_function_can_change_neither_the_gate_nor_a_workspace_nor_what_is_seen_of_it(gate, name):
    answered = {}
    for what, service, operation, arguments in calls(gate):
        said = code(getattr(gate.client(f"plangate-{name}", service), operation), arguments)
        if said not in ("AccessDenied", "AccessDeniedException"):
            answered[what] = said or "done"
    assert answered == {}


def test_every_function_of_the_template_is_tried():
    there = {properties["FunctionName"]["Fn::Sub"].removeprefix("${GateName}-") for properties in of_type(GATE, "AWS::Lambda::Function").values()}
    assert there == set(CONTROL), "name the function in CONTROL (infra/tests/conftest.py): then its role is tried here and in test_permissions.py"


def test_what_is_refused_to_functions_is_a_call_that_somebody_could_make(gate):
    """The calls are well formed: refused for what they ask and not for how. Root is asked, who may do all, those that end nothing."""
    harmless = {"lambda:InvokeFunction", "s3:GetObject of a state", "dynamodb:Scan of the record", "dynamodb:Scan of the audit"}
    tried = {what: code(getattr(gate.stack.client(service), operation), arguments)
             for what, service, operation, arguments in calls(gate) if what in harmless}
    assert set(tried) == harmless and not {"AccessDenied", "AccessDeniedException"} & set(tried.values()) - {tried["s3:GetObject of a state"]}
