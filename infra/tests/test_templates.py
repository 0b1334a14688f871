"""What the templates must not lose. Each rule gives what breaks it; below, each rule is shown a template that it must refuse."""

import copy
import fnmatch
import json
import re

import pytest
from templates import INFRA, arns, branches, listed, of_type, permissions, state_machine, statements, template, texts

GATE, WORKSPACE = template("gate.yaml"), template("workspace.yaml")
FUNCTIONS = ["Admit", "Announce", "Api", "Archive", "Authorize", "Conclude", "Drift", "Guard", "Intake", "Notify", "Prepare", "Project", "RequestApproval", "Review", "Slack", "Sweep", "Witness"]
ROLES = "arn:aws:iam::111122223333:role/plangate"
TO_TASKS = {"StringEquals": {"iam:PassedToService": "ecs-tasks.amazonaws.com"}}
# What reads a table or its stream and changes nothing.
READS = {f"dynamodb:{name}" for name in ("GetItem", "BatchGetItem", "Query", "Scan", "DescribeStream", "GetRecords", "GetShardIterator", "ListStreams")}
ALARMS = {"Fn::Sub": "arn:${AWS::Partition}:cloudwatch:${AWS::Region}:${AWS::AccountId}:alarm:${GateName}-*"}
# A workspace as the control plane might meet it: its bucket, an object there, a secret, its key.
OF_A_WORKSPACE = [
    "arn:aws:s3:::plangate-ws-0123456789abcdef-111122223333",
    "arn:aws:s3:::plangate-ws-0123456789abcdef-111122223333/state/terraform.tfstate",
    "arn:aws:ssm:eu-central-1:111122223333:parameter/plangate/ws-0123456789abcdef/password",
    "arn:aws:kms:eu-central-1:111122223333:key/sealed",
]


def passes_only_to_tasks(found):
    """iam:PassRole reaches workspace roles and the agent's role, for ECS tasks, and is the machines' alone."""
    known = {f"{ROLES}/plan/*", f"{ROLES}/apply/*", "${ExecutionRole.Arn}"}
    for owner, statement in statements(found):
        if "iam:PassRole" in listed(statement["Action"]):
            if not owner.startswith("Machine"):
                yield f"{owner} passes roles"
            if set(arns(statement["Resource"])) - known or listed(statement["Action"]) != ["iam:PassRole"]:
                yield f"{owner} passes more than workspace roles"
            if statement.get("Condition") != TO_TASKS:
                yield f"{owner} passes roles to others than ECS tasks"


def plan_only_cannot_apply(found):
    """R7: the machine of plan-only runs has no apply role to pass and no decision to ask for."""
    role = texts(of_type(found, "AWS::StepFunctions::StateMachine")["MachinePlanOnly"]["RoleArn"])[0].strip("${}").split(".")[0]
    for statement in permissions(found, role):
        for resource in arns(statement["Resource"]):
            if "iam:PassRole" in listed(statement["Action"]) and fnmatch.fnmatchcase(f"{ROLES}/apply/ws-x-apply", resource):
                yield f"{role} may pass apply roles"
            if resource == "*" and all(action.startswith("xray:") for action in listed(statement["Action"])):
                continue  # traces: what they know no narrower resource for
            if resource in ("*", "${AuthorizeFunction.Arn}", "${RequestApprovalFunction.Arn}", "${ReviewFunction.Arn}"):
                yield f"{role} reaches {resource}"


def every_function_has_its_own_role(found):
    """One role a function and a machine; no role is shared."""
    kinds = ("AWS::Lambda::Function", "AWS::StepFunctions::StateMachine")
    users = [(name, texts(each.get("Role") or each.get("RoleArn"))[0]) for kind in kinds for name, each in of_type(found, kind).items()]
    for name, role in users:
        if [other for _, other in users].count(role) != 1:
            yield f"{name} shares {role}"


def control_plane_cannot_touch_workspaces(found):
    """No function or machine is allowed anything of a workspace, and functions are denied its bucket and secrets besides."""
    for owner, statement in statements(found):
        services = {action.split(":")[0] for action in listed(statement["Action"])}
        for thing in OF_A_WORKSPACE:
            if thing.split(":")[2] in services and any(fnmatch.fnmatchcase(thing, each) for each in arns(statement["Resource"])):
                yield f"{owner} is allowed {thing}"
    denied = [each for owner, each in statements(found, "Deny") if owner == "FunctionBasePolicy"]
    for thing in OF_A_WORKSPACE[:3]:
        action = f"{thing.split(':')[2]}:*"
        if not any(action in listed(each["Action"]) and any(fnmatch.fnmatchcase(thing, one) for one in arns(each["Resource"])) for each in denied):
            yield f"functions are not denied {thing}"
    for name, function in of_type(found, "AWS::Lambda::Function").items():
        role = of_type(found, "AWS::IAM::Role")[texts(function["Role"])[0].strip("${}").split(".")[0]]
        if "${FunctionBasePolicy}" not in texts(role.get("ManagedPolicyArns", [])):
            yield f"{name} has none of the denials"


def enclosed(statement):
    """Whether a statement holds within a transaction alone."""
    return statement.get("Condition", {}).get("ForAnyValue:StringEquals") == {"dynamodb:EnclosingOperation": ["TransactWriteItems"]}


def written(statement):
    """The partition keys that a statement on a table lets write. A request that names no key must not pass for one that does."""
    condition = statement.get("Condition", {})
    if condition.get("Null") != {"dynamodb:LeadingKeys": "false"}:
        return {"*"}
    return set(condition.get("ForAllValues:StringLike", {}).get("dynamodb:LeadingKeys", ["*"]))


def items_have_their_writers(found):
    """Each role writes its own kinds of items, within transactions; what a stolen role can overwrite ends there."""
    runs, line = {"RUN#*", "CHAIN#run/*"}, {"CHAIN#ws/*", "WS#*"}
    configuration = {"CHAIN#gate", "CHAIN#strangers", "DOC#*", "GRANTED#*", "IDENTITY#*", "UNIQUE#*", "REQ#*", "DEC#*", "FREEZE#gate", "WORKSPACES"}
    kinds = {"Api": runs | line | configuration, "Prepare": runs | {"POLICY#*"}, "Review": runs | {"AUTO#*"}, "RequestApproval": runs, "Archive": set(), "Announce": set(), "Witness": set(),
             "Drift": runs | {"CHAIN#ws/*", "DRIFT#*"}, "Slack": runs | line | {"DEC#*", "MAC#*", "ACT#*", "WORD#*"}, "Notify": {"CHAIN#run/*", "NOTICE#*"}}
    for name in FUNCTIONS:
        allowed, audited = set(), set()
        for statement in permissions(found, f"{name}Role"):
            actions = {each for each in listed(statement["Action"]) if each.startswith("dynamodb:")} - READS
            if not actions:
                continue
            if actions == {"dynamodb:ConditionCheckItem"} and enclosed(statement):
                if written(statement) != {"Prepare": {"WS#*"}, "Review": {"DOC#workspace#*", "WS#*"}, "Slack": {"DOC#workspace#*", "WS#*"}}.get(name):
                    yield f"{name} holds its writes against {sorted(written(statement))}"
                continue
            if actions - {"dynamodb:PutItem", "dynamodb:DeleteItem", "dynamodb:ConditionCheckItem"} or not enclosed(statement):
                yield f"{name} may {sorted(actions)}"
            (audited if "${AuditTable.Arn}" in texts(statement["Resource"]) else allowed).update(written(statement))
        if allowed != kinds.get(name, runs | line):
            yield f"{name} writes {sorted(allowed)}"
        chains = {key.removeprefix("CHAIN#") for key in allowed if key.startswith("CHAIN#")}
        if audited != chains:
            yield f"{name} appends to {sorted(audited)} and keeps the ends of {sorted(chains)}"


def reviewers_are_asked_by_review_alone(found):
    """R20, R21: the gate's review function calls the review functions of workspaces and models that were named; nobody else does either."""
    for owner, statement in statements(found):
        actions = listed(statement["Action"])
        if "lambda:InvokeFunction" in actions and not owner.startswith("Machine"):
            if (owner, arns(statement["Resource"])) != ("ReviewRole", ["arn:aws:lambda:eu-central-1:111122223333:function:plangate-review-ws-*"]):
                yield f"{owner} calls {arns(statement['Resource'])}"
        if any(action.startswith("bedrock:") for action in actions):
            if (owner, actions, texts(statement["Resource"])) != ("ReviewModelsPolicy", ["bedrock:InvokeModel"], ["${ReviewModelArns}"]):
                yield f"{owner} asks {texts(statement['Resource'])}"
    if texts(properties(found, "ReviewModelsPolicy")["Roles"]) != ["${ReviewRole}"] or found["Parameters"]["ReviewModelArns"]["Default"] != "":
        yield "models are asked by others, or without having been named"


def reviewer_reads_its_own(found):
    """R21, R39: a workspace's reviewer reads that workspace's projections and its model's key, writes its log, and can do nothing else."""
    reads = {
        ("s3:GetObject", "arn:aws:s3:::${ExchangeBucket}/projections/${WorkspaceId}/*"),
        ("ssm:GetParameter", "arn:aws:ssm:eu-central-1:111122223333:parameter/plangate/reviewer/${WorkspaceId}/*"),
        ("kms:Decrypt", "${SealedKey.Arn}"),
        ("logs:CreateLogStream", "arn:aws:logs:eu-central-1:111122223333:log-group:/plangate/review/${WorkspaceId}:*"),
        ("logs:PutLogEvents", "arn:aws:logs:eu-central-1:111122223333:log-group:/plangate/review/${WorkspaceId}:*"),
    }
    has = {(action, resource) for each in permissions(found, "ReviewRole") for action in listed(each["Action"]) for resource in arns(each["Resource"])}
    if has != reads:
        yield f"the reviewer may {sorted(has ^ reads)}"
    for statement in properties(found, "SealedKey")["KeyPolicy"]["Statement"]:
        if "review" in json.dumps(statement.get("Condition", {}).get("ArnEquals", {}).get("aws:PrincipalArn", "")):
            keys = statement["Condition"]
            parameter = arns(keys.get("StringLike", {}).get("kms:EncryptionContext:PARAMETER_ARN", "*"))
            through = arns(keys.get("StringEquals", {}).get("kms:ViaService", "*"))
            if (statement["Action"], parameter, through) != (
                    "kms:Decrypt", ["arn:aws:ssm:eu-central-1:111122223333:parameter/plangate/reviewer/${WorkspaceId}/*"], ["ssm.eu-central-1.amazonaws.com"]):
                yield "the reviewer opens more than its model's key"


def documents_expire(found):
    """What holds secrets ends, the versions that nobody sees any more too, and not before a plan does (7 days)."""
    for bucket, prefix in (("ExchangeBucket", "documents/"), ("StateBucket", "artifacts/")):
        for name, properties in of_type(found, "AWS::S3::Bucket").items():
            rules = {each.get("Prefix"): each for each in properties.get("LifecycleConfiguration", {}).get("Rules", []) if "ExpirationInDays" in each}
            if name == bucket:
                days = texts(rules[prefix]["ExpirationInDays"])[0].strip("${}") if prefix in rules else None
                if days is None or found["Parameters"][days].get("MinValue", 0) <= 7 or "NoncurrentVersionExpiration" not in rules[prefix]:
                    yield f"{name}: {prefix} stays, or goes too early"
                if set(rules) != {prefix}:
                    yield f"{name}: {sorted(set(rules) - {prefix})} expire too"


def key_serves_its_gate(found):
    """The gate's key is used for the gate's log groups, by its alarms, and for its tables by functions alone."""
    for statement in of_type(found, "AWS::KMS::Key")["GateKey"]["KeyPolicy"]["Statement"]:
        condition = statement.get("Condition", {})
        if statement["Principal"] == {"Service": "cloudwatch.amazonaws.com"}:
            ours = {"StringEquals": {"aws:SourceAccount": {"Ref": "AWS::AccountId"}}, "ArnLike": {"aws:SourceArn": ALARMS}}
            if condition != ours or set(statement["Action"]) != {"kms:Decrypt", "kms:GenerateDataKey"}:
                yield "the key serves other alarms"
        elif "Service" in statement["Principal"]:
            named = condition.get("ArnLike", {}).get("kms:EncryptionContext:aws:logs:arn", "*")
            if arns(named) != ["arn:aws:logs:eu-central-1:111122223333:log-group:/${GateName}/*"]:
                yield "the key locks other logs"
        elif statement["Principal"] == {"AWS": "*"}:
            through, who = arns(condition["StringEquals"]["kms:ViaService"]), arns(condition["ArnLike"]["aws:PrincipalArn"])
            if (through, who) not in ((["s3.eu-central-1.amazonaws.com"], [f"{ROLES}/*"]), (["dynamodb.eu-central-1.amazonaws.com"], [f"{ROLES}/control/*"])):
                yield f"the key serves {who} through {through}"


def settings_are_read(found):
    """A function is told the tables, the bucket and what it says that it needs (in its main.rs), and nothing else."""
    for name, function in of_type(found, "AWS::Lambda::Function").items():
        crate = function["FunctionName"]["Fn::Sub"].removeprefix("${GateName}-")
        needs = set(re.findall(r'"(PLANGATE_\w+)"', (INFRA.parent / f"functions/{crate}/src/main.rs").read_text()))
        told = set(function["Environment"]["Variables"]) - {"PLANGATE_TABLE", "PLANGATE_AUDIT_TABLE", "PLANGATE_BUCKET"}
        if told != needs:
            yield f"{name} is told {sorted(told - needs)} for nothing and lacks {sorted(needs - told)}"


def audit_is_only_appended(found):
    """Beside reading, the audit table is put to inside a transaction, and nothing else."""
    for owner, statement in statements(found):
        if any("AuditTable" in each or each == "*" for each in texts(statement["Resource"])):
            writes = [each for each in listed(statement["Action"]) if each.startswith("dynamodb:") and each not in READS]
            if writes and (writes != ["dynamodb:PutItem"] or not enclosed(statement)):
                yield f"{owner} may {writes} the audit table"


def authorize_alone_signs(found):
    """Sign is in one role and, whatever other policies say, open to that role alone."""
    signers = [owner for owner, statement in statements(found) if "kms:Sign" in listed(statement["Action"])]
    if signers != ["AuthorizeRole"]:
        yield f"{signers} may sign"
    keys = of_type(found, "AWS::KMS::Key")
    for statement in (each for key in ("OrderKey", "SecondOrderKey") for each in keys[key]["KeyPolicy"]["Statement"]):
        if "kms:Sign" in statement["Action"] and arns(statement.get("Condition", {}).get("ArnEquals", {}).get("aws:PrincipalArn", [])) != [f"{ROLES}/control/${{GateName}}-authorize"]:
            yield "the order key signs for others"


def nothing_is_wild(found):
    """No action with a wildcard in a policy that allows, and no resource `*` without a reason; no reason without a use."""
    reasons, used = found.get("Metadata", {}).get("Reasons", {}), set()
    for owner, statement in statements(found):
        for action in listed(statement["Action"]):
            if "*" in action or "NotAction" in statement:
                yield f"{owner}: {action}"
        if "*" in texts(statement["Resource"]):
            used.add(statement.get("Sid"))
            if statement.get("Sid") not in reasons:
                yield f"{owner}: {statement.get('Sid')} has the resource * and no reason"
    yield from (f"the reason {each} has no use" for each in set(reasons) - used)
    for name, key in of_type(found, "AWS::KMS::Key").items():
        for statement in key["KeyPolicy"]["Statement"]:
            if name != "GateKey" and any("*" in action for action in listed(statement["Action"])):
                yield f"{name} gives {statement['Action']} to whoever has a policy for it"


def everything_is_sealed(found):
    """Buckets: a KMS key, versions, nothing public, TLS. Tables: a KMS key and recovery. Log groups: a KMS key and an end."""
    guarded = {texts(each["Bucket"])[0].strip("${}"): each["PolicyDocument"]["Statement"] for each in of_type(found, "AWS::S3::BucketPolicy").values()}
    for name, bucket in of_type(found, "AWS::S3::Bucket").items():
        rule = bucket.get("BucketEncryption", {}).get("ServerSideEncryptionConfiguration", [{}])[0]
        default = rule.get("ServerSideEncryptionByDefault", {})
        if default.get("SSEAlgorithm") != "aws:kms" or "KMSMasterKeyID" not in default or rule.get("BucketKeyEnabled"):
            yield f"{name} is not under a key of its own"
        if bucket.get("VersioningConfiguration", {}).get("Status") != "Enabled":
            yield f"{name} keeps no versions"
        if list(bucket.get("PublicAccessBlockConfiguration", {}).values()) != [True] * 4:
            yield f"{name} may be public"
        if not any(each["Effect"] == "Deny" and each.get("Condition") == {"Bool": {"aws:SecureTransport": "false"}} for each in guarded.get(name, [])):
            yield f"{name} speaks without TLS"
    for name, table in of_type(found, "AWS::DynamoDB::Table").items():
        if table.get("SSESpecification", {}).get("SSEType") != "KMS" or not table.get("PointInTimeRecoverySpecification", {}).get("PointInTimeRecoveryEnabled"):
            yield f"{name} has no key or no recovery"
    for name, group in of_type(found, "AWS::Logs::LogGroup").items():
        if "KmsKeyId" not in group or "RetentionInDays" not in group:
            yield f"{name} has no key or no end"


def records_are_create_only(found):
    """What is written once stays: no put without If-None-Match, and no delete by a role of ours."""
    prefixes = {"ExchangeBucket": ["orders", "receipts", "documents", "projections", "claims", "results", "logs"], "ArchiveBucket": ["events", "witnesses", "tampering"], "StateBucket": ["artifacts"]}
    once = {"Null": {"s3:if-none-match": "true"}, "Bool": {"s3:ObjectCreationOperation": "true"}}
    for policy in of_type(found, "AWS::S3::BucketPolicy").values():
        bucket = texts(policy["Bucket"])[0].strip("${}")
        denied = [each for each in policy["PolicyDocument"]["Statement"] if each["Effect"] == "Deny" and each["Principal"] == "*"]
        for resource in (f"${{{bucket}.Arn}}/{prefix}/*" for prefix in prefixes[bucket]):
            here = [each for each in denied if resource in texts(each.get("Resource", []))]
            if not any(each["Action"] == "s3:PutObject" and each.get("Condition") == once for each in here):
                yield f"{resource} can be put over"
            if not any(set(listed(each["Action"])) >= {"s3:DeleteObject", "s3:DeleteObjectVersion"} for each in here):
                yield f"{resource} can be deleted"


def the_archive_is_locked(found):
    """Under a lock that nobody lifts (compliance), for as long as a parameter says; each folder has one writer; an auditor reads alone."""
    bucket = of_type(found, "AWS::S3::Bucket")["ArchiveBucket"]
    lock = bucket.get("ObjectLockConfiguration", {}).get("Rule", {}).get("DefaultRetention", {})
    if not bucket.get("ObjectLockEnabled") or lock.get("Mode") != "COMPLIANCE" or texts(lock.get("Days", [])) != ["${ArchiveDays}"]:
        yield "the archive is not locked"
    statements_ = of_type(found, "AWS::S3::BucketPolicy")["ArchiveBucketPolicy"]["PolicyDocument"]["Statement"]
    for folder, writer in (("events", "archive"), ("tampering", "archive"), ("witnesses", "witness")):
        resource = f"${{ArchiveBucket.Arn}}/{folder}/*"
        who = [arns(each["Condition"]["ArnNotEquals"]["aws:PrincipalArn"]) for each in statements_
               if resource in texts(each.get("Resource", [])) and "ArnNotEquals" in each.get("Condition", {}) and each["Effect"] == "Deny"]
        if who != [[f"{ROLES}/control/${{GateName}}-{writer}"]]:
            yield f"{folder} is written by {who}"
    for owner, statement in statements(found):
        here = any("ArchiveBucket" in each for each in texts(statement["Resource"]))
        if here and "s3:PutObject" in listed(statement["Action"]) and owner not in ("ArchiveRole", "WitnessRole"):
            yield f"{owner} may write to the archive"
        if owner == "AuditorPolicy" and any(not re.search(r":(Get|List|Query|Scan|Decrypt)", each) for each in listed(statement["Action"])):
            yield f"an auditor may {statement['Action']}"
    mapping = of_type(found, "AWS::Lambda::EventSourceMapping")["ArchiveMapping"]
    if mapping["StartingPosition"] != "TRIM_HORIZON" or not mapping.get("BisectBatchOnFunctionError") or "DestinationConfig" not in mapping:
        yield "the stream loses events and does not tell"


def changes_are_announced_by_one_in_our_name(found):
    """R54: announce alone puts events, on the one bus that is named and as plangate; what it cannot tell is kept and heard of, and none is missed."""
    putters = [(owner, statement) for owner, statement in statements(found) if "events:PutEvents" in listed(statement["Action"])]
    bus, as_us = "arn:aws:events:eu-central-1:111122223333:event-bus/${EventBusName}", {"ForAllValues:StringEquals": {"events:source": ["plangate"]}, "Null": {"events:source": "false"}}
    if [(owner, listed(each["Action"]), arns(each["Resource"]), each.get("Condition")) for owner, each in putters] != [("AnnounceRole", ["events:PutEvents"], [bus], as_us)]:
        yield f"{[owner for owner, _ in putters]} put events, or elsewhere, or in another's name"
    mapping = of_type(found, "AWS::Lambda::EventSourceMapping")["AnnounceMapping"]
    if mapping["StartingPosition"] != "TRIM_HORIZON" or mapping.get("FunctionResponseTypes") != ["ReportBatchItemFailures"] or "DestinationConfig" not in mapping:
        yield "changes are lost and nobody is told"
    patterns = [json.loads(each["Pattern"]) for each in mapping.get("FilterCriteria", {}).get("Filters", [])]
    if patterns != [{"eventName": ["INSERT"], "dynamodb": {"Keys": {"pk": {"S": [{"prefix": "run/"}]}}}}]:
        yield "more than new events of runs is announced"
    alarm = of_type(found, "AWS::CloudWatch::Alarm")["AnnounceFailuresAlarm"]
    if texts(alarm["Dimensions"][0]["Value"]) != ["${AnnounceFailures.QueueName}"]:
        yield "what could not be announced is kept and nobody hears of it"


def workspace_roles_trust_tasks_alone(found):
    """Plan and apply roles are for ECS tasks of this account and for nobody else; only break-glass is for people, with MFA, or of a permission set."""
    ours = {"StringEquals": {"aws:SourceAccount": {"Ref": "AWS::AccountId"}},
            "ArnLike": {"aws:SourceArn": {"Fn::Sub": "arn:${AWS::Partition}:ecs:${AWS::Region}:${AWS::AccountId}:*"}}}
    for name, role in of_type(found, "AWS::IAM::Role").items():
        for statement in branches(role["AssumeRolePolicyDocument"]["Statement"]):
            if role.get("Path") in ("/plangate/plan/", "/plangate/apply/"):
                if statement["Principal"] != {"Service": "ecs-tasks.amazonaws.com"} or statement.get("Condition") != ours:
                    yield f"{name} trusts others than this account's ECS tasks"
            elif "AWS" in statement["Principal"] and not asks_for_a_second_factor(statement.get("Condition", {})):
                yield f"{name} trusts people without MFA"


def asks_for_a_second_factor(condition):
    """By the key that says so; or, for the sessions of IAM Identity Center, which lack it, by the permission set that was named for this."""
    center = "arn:aws:iam::111122223333:role/aws-reserved/sso.amazonaws.com/"
    sets = {f"{center}{region}AWSReservedSSO_${{BreakGlassPermissionSet}}_{'?' * 16}" for region in ("", "*/")}
    return condition.get("Bool") == {"aws:MultiFactorAuthPresent": "true"} or set(arns(condition.get("ArnLike", {}).get("aws:PrincipalArn", []))) == sets


def plan_role_cannot_write_state(found):
    """R18: the plan role writes artifacts in the workspace's bucket and nothing else there."""
    for statement in permissions(found, "PlanRole"):
        writes = [action for action in listed(statement["Action"]) if action.startswith(("s3:Put", "s3:Delete"))]
        for resource in arns(statement["Resource"]):
            if writes and "s3:::plangate-${WorkspaceId}" in resource and not resource.endswith("/artifacts/*"):
                yield f"the plan role may {writes} {resource}"


def roles_bear_their_workspace(found):
    """The exchange bucket's policy tells workspaces apart by this tag."""
    for name, role in of_type(found, "AWS::IAM::Role").items():
        if role.get("Tags") != [{"Key": "plangate-workspace", "Value": {"Ref": "WorkspaceId"}}]:
            yield f"{name} is nobody's"


def slack_is_off_unless_it_is_configured(found):
    """What belongs to Slack is there under a condition, and its route is throttled, its function's concurrency reserved and its secrets are two roles'."""
    slack = {"SlackRole", "SlackFunction", "NotifyRole", "NotifyFunction", "NotifySource", "SlackIntegration", "SlackRoute", "SlackPermission",
             "CallbacksRefusedAlarm", "NotificationsFailingAlarm", "SlackThrottledAlarm", "SlackErrorsAlarm", "NotifyErrorsAlarm"}
    for name, resource in found["Resources"].items():
        if (name in slack) != (resource.get("Condition") == "HasSlack"):
            yield f"{name} is there or not whatever Slack is"
        if name not in slack and name not in ("ApiStage", "Dashboard") and re.search(r"Slack", json.dumps(resource)):
            yield f"{name} knows of Slack"
    if "ReservedConcurrentExecutions" not in of_type(found, "AWS::Lambda::Function")["SlackFunction"]:
        yield "no concurrency is reserved"
    settings = of_type(found, "AWS::ApiGatewayV2::Stage")["ApiStage"].get("RouteSettings", {}).get("Fn::If", [None, {}])[1]
    route = of_type(found, "AWS::ApiGatewayV2::Route")["SlackRoute"]["RouteKey"]
    if not {"ThrottlingBurstLimit", "ThrottlingRateLimit"} <= set(settings.get(route, {})):
        yield "the route is not throttled"
    if any(found["Parameters"][name]["Default"] for name in ("SlackSigningSecretParameter", "SlackBotTokenParameter", "SlackPreviousSecretParameter")):
        yield "Slack is on by default"


def one_route_is_open(found):
    """Every route asks for IAM's signature, but the one on which Slack's own is checked (R49)."""
    for name, route in of_type(found, "AWS::ApiGatewayV2::Route").items():
        if route["AuthorizationType"] != ("NONE" if name == "SlackRoute" else "AWS_IAM"):
            yield f"{name} is {route['AuthorizationType']}"
    if of_type(found, "AWS::ApiGatewayV2::Route")["SlackRoute"]["RouteKey"] != "POST /slack/interactions":
        yield "the open route is another"
    if of_type(found, "AWS::DynamoDB::Table")["MainTable"]["StreamSpecification"] != {"StreamViewType": "KEYS_ONLY"}:
        yield "the stream tells more than which items have changed"


def substitutions_fit(found):
    """Every placeholder of the state machine is filled by both machines, and nothing else is."""
    used = set(re.findall(r"\$\{(\w+)\}", json.dumps(state_machine())))
    for name, machine in of_type(found, "AWS::StepFunctions::StateMachine").items():
        if used != set(machine["DefinitionSubstitutions"]):
            yield f"{name}: {used ^ set(machine['DefinitionSubstitutions'])}"


GATE_RULES = [passes_only_to_tasks, plan_only_cannot_apply, every_function_has_its_own_role, control_plane_cannot_touch_workspaces,
              audit_is_only_appended, authorize_alone_signs, nothing_is_wild, everything_is_sealed, records_are_create_only,
              workspace_roles_trust_tasks_alone, substitutions_fit, items_have_their_writers, documents_expire, key_serves_its_gate, settings_are_read, the_archive_is_locked, changes_are_announced_by_one_in_our_name,
              slack_is_off_unless_it_is_configured, one_route_is_open,
              reviewers_are_asked_by_review_alone]
WORKSPACE_RULES = [nothing_is_wild, everything_is_sealed, records_are_create_only, workspace_roles_trust_tasks_alone, plan_role_cannot_write_state,
                   documents_expire, roles_bear_their_workspace, reviewer_reads_its_own]


@pytest.mark.parametrize("rule", GATE_RULES, ids=lambda rule: rule.__name__)
def test_the_gate_keeps_the_rule(rule):
    assert list(rule(GATE)) == []


@pytest.mark.parametrize("rule", WORKSPACE_RULES, ids=lambda rule: rule.__name__)
def test_a_workspace_keeps_the_rule(rule):
    assert list(rule(WORKSPACE)) == []


def test_what_others_rely_on_is_given():
    assert sorted(of_type(GATE, "AWS::Lambda::Function")) == [f"{name}Function" for name in FUNCTIONS]
    expected = {"ApiUrl", "ApiId", "DashboardName", "Table", "AuditTable", "ExchangeBucket", "ArchiveBucket", "AuditorPolicyArn", "AlarmTopicArn", "DocumentKeyArn", "OrderKeyArn", "OtherOrderKeyArn", "Cluster", "TaskDefinition", "GateKeyArn",
                "MachinePlanOnlyArn", "MachineApplicableArn", "LogGroup", *(f"{name}{part}Arn" for name in FUNCTIONS for part in ("Function", "Role"))}
    assert set(GATE["Outputs"]) == expected
    assert set(WORKSPACE["Outputs"]) == {"StateBucket", "StateKey", "SealedKeyArn", "PlanRoleArn", "ApplyRoleArn", "SecretPrefix", "ReviewerKeyPrefix"}


def test_state_and_records_outlive_their_stack():
    for found, names in ((GATE, ("MainTable", "AuditTable", "ExchangeBucket", "ArchiveBucket", "DocumentKey", "OrderKey", "SecondOrderKey", "GateKey")), (WORKSPACE, ("StateBucket", "SealedKey"))):
        for name in names:
            assert found["Resources"][name]["DeletionPolicy"] == found["Resources"][name]["UpdateReplacePolicy"] == "Retain"


def test_who_breaks_the_glass_is_one_of_the_permission_set_or_has_a_second_factor():
    trusted = {each["Sid"]: each for each in branches(WORKSPACE["Resources"]["BreakGlassRole"]["Properties"]["AssumeRolePolicyDocument"]["Statement"])}
    assert set(trusted) == {"PeopleWithMfa", "PeopleOfThePermissionSet"}
    assert WORKSPACE["Parameters"]["BreakGlassPermissionSet"]["Default"] == WORKSPACE["Parameters"]["BreakGlassPrincipalArns"]["Default"] == ""


def own(found, role):
    return found["Resources"][role]["Properties"]["Policies"][0]["PolicyDocument"]["Statement"]


def base(found, policy):
    return found["Resources"][policy]["Properties"]["PolicyDocument"]["Statement"]


def named(statements, sid):
    """The statement of this name."""
    return next(each for each in statements if each.get("Sid") == sid)


def properties(found, name):
    return found["Resources"][name]["Properties"]


ALLOWED = {"Sid": "New", "Effect": "Allow"}
BROKEN = [
    (GATE, passes_only_to_tasks, lambda t: own(t, "MachineApplicableRole")[1].pop("Condition")),
    (GATE, passes_only_to_tasks, lambda t: own(t, "MachineApplicableRole")[1].update(Resource="arn:aws:iam::111122223333:role/*")),
    (GATE, passes_only_to_tasks, lambda t: own(t, "SweepRole").append(named(base(t, "MachineBasePolicy"), "PassTheAgentsRole"))),
    (GATE, plan_only_cannot_apply, lambda t: base(t, "MachineBasePolicy").append(own(t, "MachineApplicableRole")[1])),
    (GATE, plan_only_cannot_apply, lambda t: base(t, "MachineBasePolicy").append(own(t, "MachineApplicableRole")[0])),
    (GATE, plan_only_cannot_apply, lambda t: properties(t, "MachinePlanOnly").update(RoleArn={"Fn::GetAtt": ["MachineApplicableRole", "Arn"]})),
    (GATE, every_function_has_its_own_role, lambda t: properties(t, "GuardFunction").update(Role={"Fn::GetAtt": ["ProjectRole", "Arn"]})),
    (GATE, control_plane_cannot_touch_workspaces, lambda t: own(t, "IntakeRole").append({**ALLOWED, "Action": "s3:GetObject", "Resource": "arn:aws:s3:::plangate-*/*"})),
    (GATE, control_plane_cannot_touch_workspaces, lambda t: properties(t, "IntakeRole").pop("ManagedPolicyArns")),
    (GATE, control_plane_cannot_touch_workspaces, lambda t: base(t, "FunctionBasePolicy").__delitem__(slice(-4, None))),
    (GATE, audit_is_only_appended, lambda t: base(t, "RunWriterPolicy")[1].pop("Condition")),
    (GATE, items_have_their_writers, lambda t: base(t, "RunWriterPolicy")[0].pop("Condition")),
    (GATE, items_have_their_writers, lambda t: base(t, "RunEnderPolicy")[0]["Condition"].pop("Null")),
    (GATE, items_have_their_writers, lambda t: base(t, "RunEnderPolicy")[0]["Condition"].pop("ForAnyValue:StringEquals")),
    (GATE, items_have_their_writers, lambda t: base(t, "RunEnderPolicy")[0]["Condition"]["ForAllValues:StringLike"]["dynamodb:LeadingKeys"].append("DOC#*")),
    (GATE, items_have_their_writers, lambda t: base(t, "RunEnderPolicy")[1]["Condition"]["ForAllValues:StringLike"]["dynamodb:LeadingKeys"].append("gate")),
    (GATE, items_have_their_writers, lambda t: own(t, "PrepareRole")[0].update(Action=["dynamodb:PutItem", "dynamodb:UpdateItem"])),
    (GATE, items_have_their_writers, lambda t: properties(t, "ReviewRole")["ManagedPolicyArns"].append({"Ref": "RunEnderPolicy"})),
    (GATE, items_have_their_writers, lambda t: own(t, "ReviewRole")[0]["Condition"]["ForAllValues:StringLike"]["dynamodb:LeadingKeys"].append("DEC#*")),
    (GATE, items_have_their_writers, lambda t: own(t, "ReviewRole")[1]["Condition"]["ForAllValues:StringLike"]["dynamodb:LeadingKeys"].append("DEC#*")),
    (GATE, items_have_their_writers, lambda t: own(t, "ReviewRole")[1].update(Action=["dynamodb:ConditionCheckItem", "dynamodb:PutItem"])),
    (GATE, reviewers_are_asked_by_review_alone, lambda t: own(t, "ReviewRole")[3].update(Resource="arn:aws:lambda:eu-central-1:111122223333:function:plangate-*")),
    (GATE, reviewers_are_asked_by_review_alone, lambda t: own(t, "GuardRole").append(own(t, "ReviewRole")[3])),
    (GATE, reviewers_are_asked_by_review_alone, lambda t: base(t, "ReviewModelsPolicy")[0].update(Resource="arn:aws:bedrock:*::foundation-model/*")),
    (GATE, reviewers_are_asked_by_review_alone, lambda t: properties(t, "ReviewModelsPolicy")["Roles"].append({"Ref": "ApiRole"})),
    (WORKSPACE, reviewer_reads_its_own, lambda t: own(t, "ReviewRole")[1].update(Resource="arn:aws:ssm:eu-central-1:111122223333:parameter/plangate/*")),
    (WORKSPACE, reviewer_reads_its_own, lambda t: own(t, "ReviewRole").append({**ALLOWED, "Action": "s3:PutObject", "Resource": "arn:aws:s3:::x/*"})),
    (WORKSPACE, reviewer_reads_its_own, lambda t: properties(t, "SealedKey")["KeyPolicy"]["Statement"][2]["Condition"].pop("StringLike")),
    (GATE, documents_expire, lambda t: properties(t, "ExchangeBucket")["LifecycleConfiguration"]["Rules"].pop(1)),
    (GATE, documents_expire, lambda t: properties(t, "ExchangeBucket")["LifecycleConfiguration"]["Rules"][1].pop("NoncurrentVersionExpiration")),
    (GATE, documents_expire, lambda t: properties(t, "ExchangeBucket")["LifecycleConfiguration"]["Rules"].append({"Prefix": "bundles/", "ExpirationInDays": 30})),
    (GATE, documents_expire, lambda t: t["Parameters"]["DocumentDays"].update(MinValue=7)),
    (GATE, key_serves_its_gate, lambda t: properties(t, "GateKey")["KeyPolicy"]["Statement"][3].pop("Condition")),
    (GATE, key_serves_its_gate, lambda t: properties(t, "GateKey")["KeyPolicy"]["Statement"][4]["Condition"].pop("ArnLike")),
    (GATE, key_serves_its_gate, lambda t: properties(t, "GateKey")["KeyPolicy"]["Statement"][2]["Condition"].update(properties(t, "GateKey")["KeyPolicy"]["Statement"][1]["Condition"], StringEquals=properties(t, "GateKey")["KeyPolicy"]["Statement"][2]["Condition"]["StringEquals"])),
    (GATE, settings_are_read, lambda t: properties(t, "GuardFunction")["Environment"]["Variables"].update(PLANGATE_DOCUMENT_KEY="key")),
    (GATE, settings_are_read, lambda t: properties(t, "AuthorizeFunction")["Environment"]["Variables"].update(PLANGATE_CLUSTER="cluster")),
    (GATE, settings_are_read, lambda t: properties(t, "SweepFunction")["Environment"]["Variables"].pop("PLANGATE_CLUSTER")),
    (GATE, audit_is_only_appended, lambda t: own(t, "SweepRole").append({**ALLOWED, "Action": "dynamodb:DeleteItem", "Resource": {"Fn::GetAtt": ["AuditTable", "Arn"]}})),
    (GATE, authorize_alone_signs, lambda t: own(t, "SweepRole").append(own(t, "AuthorizeRole")[-1])),
    (GATE, authorize_alone_signs, lambda t: properties(t, "OrderKey")["KeyPolicy"]["Statement"][1].pop("Condition")),
    (GATE, authorize_alone_signs, lambda t: properties(t, "SecondOrderKey")["KeyPolicy"]["Statement"][1].pop("Condition")),
    (GATE, items_have_their_writers, lambda t: own(t, "PrepareRole")[1]["Condition"]["ForAllValues:StringLike"]["dynamodb:LeadingKeys"].append("RUN#*")),
    (GATE, nothing_is_wild, lambda t: own(t, "IntakeRole")[0].update(Action="s3:Get*")),
    (GATE, nothing_is_wild, lambda t: own(t, "IntakeRole")[0].update(Resource="*")),
    (GATE, nothing_is_wild, lambda t: t["Metadata"]["Reasons"].update(Gone="no longer")),
    (GATE, everything_is_sealed, lambda t: properties(t, "RunnerLogGroup").pop("KmsKeyId")),
    (GATE, everything_is_sealed, lambda t: properties(t, "AuditTable").pop("SSESpecification")),
    (GATE, everything_is_sealed, lambda t: properties(t, "ExchangeBucket").pop("BucketEncryption")),
    (GATE, records_are_create_only, lambda t: properties(t, "ExchangeBucketPolicy")["PolicyDocument"]["Statement"][1]["Resource"].pop()),
    (GATE, records_are_create_only, lambda t: properties(t, "ExchangeBucketPolicy")["PolicyDocument"]["Statement"].pop(2)),
    (GATE, records_are_create_only, lambda t: properties(t, "ArchiveBucketPolicy")["PolicyDocument"]["Statement"].pop(2)),
    (GATE, the_archive_is_locked, lambda t: properties(t, "ArchiveBucket")["ObjectLockConfiguration"]["Rule"]["DefaultRetention"].update(Mode="GOVERNANCE")),
    (GATE, the_archive_is_locked, lambda t: properties(t, "ArchiveBucketPolicy")["PolicyDocument"]["Statement"].pop(3)),
    (GATE, the_archive_is_locked, lambda t: properties(t, "ArchiveBucketPolicy")["PolicyDocument"]["Statement"][4]["Condition"].update(ArnNotEquals={"aws:PrincipalArn": "*"})),
    (GATE, the_archive_is_locked, lambda t: own(t, "SweepRole").append(named(own(t, "ArchiveRole"), "WriteEventsAndCompareThem"))),
    (GATE, the_archive_is_locked, lambda t: base(t, "AuditorPolicy")[0]["Action"].append("dynamodb:PutItem")),
    (GATE, the_archive_is_locked, lambda t: properties(t, "ArchiveMapping").pop("DestinationConfig")),
    (GATE, changes_are_announced_by_one_in_our_name, lambda t: own(t, "SweepRole").append(named(own(t, "AnnounceRole"), "TellInOurName"))),
    (GATE, changes_are_announced_by_one_in_our_name, lambda t: named(own(t, "AnnounceRole"), "TellInOurName").pop("Condition")),
    (GATE, changes_are_announced_by_one_in_our_name, lambda t: named(own(t, "AnnounceRole"), "TellInOurName")["Resource"].update({"Fn::Sub": "arn:${AWS::Partition}:events:${AWS::Region}:${AWS::AccountId}:event-bus/*"})),
    (GATE, changes_are_announced_by_one_in_our_name, lambda t: properties(t, "AnnounceMapping").pop("FunctionResponseTypes")),
    (GATE, changes_are_announced_by_one_in_our_name, lambda t: properties(t, "AnnounceMapping").pop("FilterCriteria")),
    (GATE, changes_are_announced_by_one_in_our_name, lambda t: properties(t, "AnnounceMapping").update(StartingPosition="LATEST")),
    (GATE, changes_are_announced_by_one_in_our_name, lambda t: properties(t, "AnnounceFailuresAlarm")["Dimensions"][0].update(Value="other")),
    (GATE, audit_is_only_appended, lambda t: base(t, "AuditorPolicy")[0]["Action"].append("dynamodb:PutItem")),
    (GATE, workspace_roles_trust_tasks_alone, lambda t: properties(t, "AuditorRole")["AssumeRolePolicyDocument"]["Statement"][0].pop("Condition")),
    (GATE, items_have_their_writers, lambda t: own(t, "SlackRole")[0]["Condition"]["ForAllValues:StringLike"]["dynamodb:LeadingKeys"].append("DOC#*")),
    (GATE, items_have_their_writers, lambda t: own(t, "NotifyRole")[1]["Condition"]["ForAllValues:StringLike"]["dynamodb:LeadingKeys"].append("RUN#*")),
    (GATE, slack_is_off_unless_it_is_configured, lambda t: t["Resources"]["SlackRoute"].pop("Condition")),
    (GATE, slack_is_off_unless_it_is_configured, lambda t: t["Resources"]["SweepRole"].update(Condition="HasSlack")),
    (GATE, slack_is_off_unless_it_is_configured, lambda t: properties(t, "SlackFunction").pop("ReservedConcurrentExecutions")),
    (GATE, slack_is_off_unless_it_is_configured, lambda t: properties(t, "ApiStage").pop("RouteSettings")),
    (GATE, slack_is_off_unless_it_is_configured, lambda t: t["Parameters"]["SlackBotTokenParameter"].update(Default="/slack/bot-token")),
    (GATE, one_route_is_open, lambda t: properties(t, "ApiRoute").update(AuthorizationType="NONE")),
    (GATE, one_route_is_open, lambda t: properties(t, "MainTable")["StreamSpecification"].update(StreamViewType="NEW_IMAGE")),
    (GATE, substitutions_fit, lambda t: properties(t, "MachineApplicable")["DefinitionSubstitutions"].pop("Subnets")),
    (WORKSPACE, everything_is_sealed, lambda t: properties(t, "StateBucketPolicy")["PolicyDocument"]["Statement"].pop(0)),
    (WORKSPACE, nothing_is_wild, lambda t: properties(t, "SealedKey")["KeyPolicy"]["Statement"][0].update(Action="kms:*")),
    (WORKSPACE, workspace_roles_trust_tasks_alone, lambda t: properties(t, "ApplyRole")["AssumeRolePolicyDocument"]["Statement"][0].pop("Condition")),
    (WORKSPACE, workspace_roles_trust_tasks_alone, lambda t: properties(t, "PlanRole")["AssumeRolePolicyDocument"]["Statement"].append({"Effect": "Allow", "Principal": {"AWS": "*"}, "Action": "sts:AssumeRole"})),
    (WORKSPACE, workspace_roles_trust_tasks_alone, lambda t: branches(properties(t, "BreakGlassRole")["AssumeRolePolicyDocument"]["Statement"])[0].pop("Condition")),
    (WORKSPACE, workspace_roles_trust_tasks_alone, lambda t: branches(properties(t, "BreakGlassRole")["AssumeRolePolicyDocument"]["Statement"])[1].pop("Condition")),
    (WORKSPACE, roles_bear_their_workspace, lambda t: properties(t, "ApplyRole").pop("Tags")),
    (WORKSPACE, documents_expire, lambda t: t["Parameters"]["ArtifactDays"].update(MinValue=1)),
    (WORKSPACE, plan_role_cannot_write_state, lambda t: own(t, "PlanRole")[1].update(Action=["s3:GetObject", "s3:PutObject"])),
    (WORKSPACE, plan_role_cannot_write_state, lambda t: properties(t, "ApplyPolicy")["Roles"].append({"Ref": "PlanRole"})),
]


@pytest.mark.parametrize(("found", "rule", "change"), BROKEN, ids=[f"{rule.__name__}-{number}" for number, (_, rule, _) in enumerate(BROKEN)])
def test_a_rule_sees_what_breaks_it(found, rule, change):
    broken = copy.deepcopy(found)
    change(broken)
    assert list(rule(broken)) != []
