"""That every grant of the templates is as narrow as IAM can say it. What single policies must not lose is in test_templates.py;
here stands what holds of all of them, those included that somebody adds: a new function, role or store has to be placed first.
"""

import copy
import fnmatch
import json
import re

import pytest
from templates import INFRA, arns, branches, listed, of_type, statements, template, texts

TEMPLATES = {name: template(name) for name in sorted(path.name for path in INFRA.glob("*.yaml"))}
GATE = TEMPLATES["gate.yaml"]
ACCOUNT = "111122223333"

# What roles of the control plane act on beside the gate's own resources, and why. Each has to be in use.
NOT_THE_GATES = {
    f"arn:aws:lambda:eu-central-1:{ACCOUNT}:function:plangate-review-ws-*": "review functions of workspaces, whose names onboarding alone can give",
    f"arn:aws:iam::{ACCOUNT}:role/plangate/plan/*": "passed to ECS tasks; onboarding alone makes roles there (R20)",
    f"arn:aws:iam::{ACCOUNT}:role/plangate/apply/*": "passed to ECS tasks; onboarding alone makes roles there (R20)",
    f"arn:aws:events:eu-central-1:{ACCOUNT}:rule/StepFunctionsGetEventsForECSTaskRule": "the rule that Step Functions itself keeps for runTask.sync",
    f"arn:aws:ecr:eu-central-1:{ACCOUNT}:repository/${{RunnerRepository}}": "the one repository of the runner's image, by a parameter",
    f"arn:aws:ssm:eu-central-1:{ACCOUNT}:parameter${{SlackSigningSecretParameter}}": "Slack's secret, by a parameter",
    f"arn:aws:ssm:eu-central-1:{ACCOUNT}:parameter${{SlackPreviousSecretParameter}}": "Slack's secret, by a parameter",
    f"arn:aws:ssm:eu-central-1:{ACCOUNT}:parameter${{SlackBotTokenParameter}}": "Slack's token, by a parameter",
    "${ReviewModelArns}": "models of Bedrock, by a parameter; none by default",
    "${EarlierTaskDefinitions}": "the runner's revisions before, by a parameter, for runs in flight",
    f"arn:aws:events:eu-central-1:{ACCOUNT}:event-bus/${{EventBusName}}": "the one bus that changes of runs are announced on, by a parameter",
    "${ExistingGateKeyArn}": "the gate's key, where one was given",
    "${ExistingDocumentKeyArn}": "the documents' key, where one was given",
}
# Resources with a wildcard inside, and why no narrower one would do. Each has to be in use. The resource `*` is Metadata's to explain.
WILDCARDS = {
    r"\$\{\w+Bucket\.Arn\}/[a-z]+/\*(/[a-z*]+\.json)?": "objects of one folder: keys hold ids that do not exist yet",
    r"\$\{ArchiveBucket\.Arn\}/\*": "the auditor reads the whole archive",
    r"arn:aws:s3:::\S+/\*(\.tflock|/[a-z*]+\.(json|log))?": "objects of one folder of a workspace: keys hold ids of runs",
    r"arn:aws:logs:\S+:log-group:[^*]+:\*": "the streams of one log group: Lambda and ECS name them",
    r"arn:aws:ecs:\S+:task/\$\{Cluster\}/\*": "tasks of the one cluster: ECS names them",
    r"arn:aws:states:\S+:execution:\$\{GateName\}-(plan-only|applicable):\*": "executions of one machine: named by runs",
    r"\$\{MainTable\.Arn\}/stream/\*": "the table's stream: AWS names it by the time of its making",
    r"arn:aws:iam::\d+:role/plangate/(plan|apply)/\*": "roles of workspaces (R20)",
    r"arn:aws:lambda:\S+:function:plangate-review-ws-\*": "review functions of workspaces",
    r"arn:aws:ssm:\S+:parameter/plangate/(reviewer/)?\$\{WorkspaceId\}/\*": "parameters of one workspace",
}
# How each kind of resource keeps what it is given. A kind that is not here has to be placed before it is used.
SEALED_BY = {
    "AWS::S3::Bucket": "BucketEncryption", "AWS::DynamoDB::Table": "SSESpecification", "AWS::Logs::LogGroup": "KmsKeyId",
    "AWS::SQS::Queue": "SqsManagedSseEnabled", "AWS::SNS::Topic": "KmsMasterKeyId",
}
KEEPS_NOTHING = {
    "AWS::KMS::Key", "AWS::KMS::Alias", "AWS::S3::BucketPolicy", "AWS::SNS::TopicPolicy", "AWS::IAM::ManagedPolicy", "AWS::IAM::Role",
    "AWS::Lambda::Function", "AWS::Lambda::EventSourceMapping", "AWS::Lambda::Permission", "AWS::Lambda::Alias", "AWS::Lambda::Version",
    "AWS::Events::Rule", "AWS::Logs::MetricFilter", "AWS::CloudWatch::Alarm", "AWS::CloudWatch::Dashboard", "AWS::Glue::Database", "AWS::Glue::Table",
    # An execution's data are ids; the definition is public.
    "AWS::StepFunctions::StateMachine", "AWS::StepFunctions::StateMachineVersion", "AWS::StepFunctions::StateMachineAlias",
    "AWS::ECS::Cluster", "AWS::ECS::TaskDefinition", "AWS::EC2::VPC", "AWS::EC2::InternetGateway", "AWS::EC2::VPCGatewayAttachment",
    "AWS::EC2::RouteTable", "AWS::EC2::Route", "AWS::EC2::Subnet", "AWS::EC2::SubnetRouteTableAssociation", "AWS::EC2::SecurityGroup",
    "AWS::ApiGatewayV2::Api", "AWS::ApiGatewayV2::Integration", "AWS::ApiGatewayV2::Route", "AWS::ApiGatewayV2::Stage",
}
# Services that a role may be assumed by, and what its trust has to be bound to beside.
SERVICES = {"lambda.amazonaws.com": None, "states.amazonaws.com": "states", "ecs-tasks.amazonaws.com": "ecs"}


def resources_of(statement):
    """A statement's resources, with the account's parts of their ARNs filled in."""
    return arns(statement.get("Resource", statement.get("NotResource", [])))


def is_own(found, resource):
    """Whether a resource is one that this template makes, or bears the gate's name."""
    named = re.match(r"\$\{(\w+)(\.\w+)?\}", resource)
    if named and named[1] in found["Resources"]:
        return True
    made = re.search(r":(log-group:|task/)\$\{(\w+)\}", resource)
    return bool(made and made[2] in found["Resources"]) or "${GateName}-" in resource


def gate_acts_on_its_own(found):
    """A role of the control plane acts on the gate's own resources, and on those others that are listed with a reason."""
    used = set()
    for owner, statement in statements(found):
        for resource in resources_of(statement):
            if resource in NOT_THE_GATES:
                used.add(resource)
            elif resource != "*" and not is_own(found, resource):  # `*` is Metadata's to explain (test_templates.py)
                yield f"{owner}: {statement.get('Sid')} acts on {resource}: narrow it, or list it in NOT_THE_GATES with a reason"
    yield from (f"{other} is acted on by nobody: take it out of NOT_THE_GATES" for other in set(NOT_THE_GATES) - used)


def wildcards_have_a_reason(found):
    """A resource with a wildcard is of a kind for which it is said why."""
    for owner, statement in statements(found):
        for resource in resources_of(statement):
            if "*" in resource and resource != "*" and not any(re.fullmatch(kind, resource) for kind in WILDCARDS):
                yield f"{owner}: {statement.get('Sid')} takes {resource}: narrow it, or add its kind to WILDCARDS with a reason"


def stores_are_sealed(found):
    """Whatever keeps data keeps it encrypted; a kind of resource that nobody has thought about is refused."""
    for name, resource in found["Resources"].items():
        kind = resource["Type"]
        if kind in SEALED_BY:
            if not resource["Properties"].get(SEALED_BY[kind]):
                yield f"{name} is not encrypted: give it {SEALED_BY[kind]}"
        elif kind not in KEEPS_NOTHING:
            yield f"{name} is a {kind}: say in SEALED_BY how it is encrypted, or in KEEPS_NOTHING that it keeps nothing"


def roles_trust_one_service(found):
    """A role is assumed by one service, bound to this account where AWS can; or by people, as test_templates.py says."""
    for name, role in of_type(found, "AWS::IAM::Role").items():
        for statement in branches(role["AssumeRolePolicyDocument"]["Statement"]):
            principal, condition = statement["Principal"], statement.get("Condition", {})
            if set(principal) == {"AWS"} and condition:
                continue
            service = principal.get("Service") if isinstance(principal, dict) and set(principal) == {"Service"} else None
            if service not in SERVICES or statement["Action"] != "sts:AssumeRole":
                yield f"{name} is assumed by {principal}"
            elif (bound := SERVICES[service]) is not None:
                sources = arns(condition.get("ArnLike", {}).get("aws:SourceArn", "*"))
                if condition.get("StringEquals") != {"aws:SourceAccount": {"Ref": "AWS::AccountId"}} or not all(
                        source.startswith(f"arn:aws:{bound}:eu-central-1:{ACCOUNT}:") for source in sources):
                    yield f"{name} is assumed by {service} for anybody"


def roles_have_policies_of_their_template(found):
    """No role has a policy that stands elsewhere, but for what a workspace's estate needs, which its parameters name."""
    for name, role in of_type(found, "AWS::IAM::Role").items():
        for policy in texts(role.get("ManagedPolicyArns", [])):
            own = policy.strip("${}")
            if own not in found["Resources"] and own not in ("PlanPolicyArns", "ApplyPolicyArns"):
                yield f"{name} has {policy}"


def nobody_is_everybody(found):
    """What a resource's own policy allows to everybody it allows under a condition on who that is; a service, for this account."""
    for kind, document in (("AWS::KMS::Key", "KeyPolicy"), ("AWS::S3::BucketPolicy", "PolicyDocument"), ("AWS::SNS::TopicPolicy", "PolicyDocument"),
                           ("AWS::SQS::QueuePolicy", "PolicyDocument")):
        for name, each in of_type(found, kind).items():
            for statement in (one for one in each[document]["Statement"] if one["Effect"] == "Allow"):
                keys = {key for condition in statement.get("Condition", {}).values() for key in condition}
                principal = statement["Principal"]
                if principal in ("*", {"AWS": "*"}) and not {"kms:CallerAccount", "aws:PrincipalArn"} <= keys:
                    yield f"{name}: {statement.get('Sid')} is for everybody"
                if "Service" in principal and not keys & {"aws:SourceArn", "kms:EncryptionContext:aws:logs:arn"}:
                    yield f"{name}: {statement.get('Sid')} is for {principal} on anybody's behalf"
    for name, permission in of_type(found, "AWS::Lambda::Permission").items():
        if not any(":${AWS::AccountId}:" in text or is_own(found, text) for text in texts(permission.get("SourceArn", []))):
            yield f"{name} lets {permission['Principal']} call on anybody's behalf"


def passed_roles_are_tasks_roles(found):
    """R20: who passes a role passes one of a workspace, or the agent's, and to ECS alone."""
    for owner, statement in statements(found):
        for action in listed(statement["Action"]):
            if fnmatch.fnmatchcase("iam:PassRole", action):
                condition = statement.get("Condition", {}).get("StringEquals", {})
                if condition.get("iam:PassedToService") != "ecs-tasks.amazonaws.com":
                    yield f"{owner} passes roles to other services"
                if set(resources_of(statement)) - {f"arn:aws:iam::{ACCOUNT}:role/plangate/{phase}/*" for phase in ("plan", "apply")} - {"${ExecutionRole.Arn}"}:
                    yield f"{owner} passes {resources_of(statement)}"


def conditions_name_what_they_ask(found):
    """A condition on the table's keys does not hold for a request that names none."""
    for owner, statement in statements(found):
        condition = statement.get("Condition", {})
        for operator in condition:
            if operator.startswith("ForAllValues:") and condition.get("Null") != {key: "false" for key in condition[operator]}:
                yield f"{owner}: {statement.get('Sid')} holds for a request that names nothing"


EVERYWHERE = [wildcards_have_a_reason, stores_are_sealed, roles_trust_one_service, roles_have_policies_of_their_template, nobody_is_everybody,
              passed_roles_are_tasks_roles, conditions_name_what_they_ask]


@pytest.mark.parametrize("rule", EVERYWHERE, ids=lambda rule: rule.__name__)
@pytest.mark.parametrize("name", TEMPLATES)
def test_least_privilege_holds_in_every_template(name, rule):
    assert list(rule(TEMPLATES[name])) == []


def test_the_control_plane_acts_on_the_gates_own_resources_alone():
    assert list(gate_acts_on_its_own(GATE)) == []


def test_no_reason_has_outlived_its_wildcard():
    seen = {resource for found in TEMPLATES.values() for _, statement in statements(found) for resource in resources_of(statement)}
    assert [kind for kind in WILDCARDS if not any(re.fullmatch(kind, resource) for resource in seen)] == []


def own(found, role):
    return found["Resources"][role]["Properties"]["Policies"][0]["PolicyDocument"]["Statement"]


def properties(found, name):
    return found["Resources"][name]["Properties"]


def trust(found, role):
    """The statements of a role's trust, as a list that can be changed."""
    document = properties(found, role)["AssumeRolePolicyDocument"]
    document["Statement"] = listed(document["Statement"])
    return document["Statement"]


@pytest.mark.parametrize(("rule", "change"), [
    (gate_acts_on_its_own, lambda t: own(t, "IntakeRole")[0].update(Resource="arn:aws:s3:::somebody-elses/*")),
    (gate_acts_on_its_own, lambda t: own(t, "AdmitRole").append({"Sid": "New", "Effect": "Allow", "Action": "sqs:SendMessage", "Resource": "arn:aws:sqs:eu-central-1:111122223333:q"})),
    (gate_acts_on_its_own, lambda t: t["Resources"].pop("ReviewModelsPolicy")),
    (wildcards_have_a_reason, lambda t: own(t, "ReviewRole")[3].update(Resource="arn:aws:lambda:eu-central-1:111122223333:function:plangate-*")),
    (wildcards_have_a_reason, lambda t: own(t, "IntakeRole")[0].update(Resource={"Fn::Sub": "${ExchangeBucket.Arn}/*"})),
    (stores_are_sealed, lambda t: properties(t, "ArchiveFailures").pop("SqsManagedSseEnabled")),
    (stores_are_sealed, lambda t: properties(t, "AlarmTopic").pop("KmsMasterKeyId")),
    (stores_are_sealed, lambda t: properties(t, "FunctionLogGroup").pop("KmsKeyId")),
    (stores_are_sealed, lambda t: properties(t, "MainTable").pop("SSESpecification")),
    (stores_are_sealed, lambda t: properties(t, "ExchangeBucket").pop("BucketEncryption")),
    (stores_are_sealed, lambda t: t["Resources"].update(New={"Type": "AWS::Kinesis::Stream", "Properties": {}})),
    (roles_trust_one_service, lambda t: trust(t, "GuardRole")[0].update(Principal={"Service": "ec2.amazonaws.com"})),
    (roles_trust_one_service, lambda t: trust(t, "GuardRole")[0].update(Principal={"AWS": "arn:aws:iam::444455556666:root"})),
    (roles_trust_one_service, lambda t: trust(t, "MachineApplicableRole")[0].pop("Condition")),
    (roles_trust_one_service, lambda t: trust(t, "ExecutionRole")[0]["Condition"].pop("StringEquals")),
    (roles_have_policies_of_their_template, lambda t: properties(t, "SweepRole")["ManagedPolicyArns"].append("arn:aws:iam::aws:policy/AdministratorAccess")),
    (nobody_is_everybody, lambda t: properties(t, "GateKey")["KeyPolicy"]["Statement"][1].pop("Condition")),
    (nobody_is_everybody, lambda t: properties(t, "AlarmTopicPolicy")["PolicyDocument"]["Statement"][0].pop("Condition")),
    (nobody_is_everybody, lambda t: properties(t, "SweepPermission").pop("SourceArn")),
    (passed_roles_are_tasks_roles, lambda t: own(t, "MachineApplicableRole")[1].update(Resource="arn:aws:iam::111122223333:role/*")),
    (passed_roles_are_tasks_roles, lambda t: own(t, "MachineApplicableRole")[1].pop("Condition")),
    (passed_roles_are_tasks_roles, lambda t: own(t, "SweepRole")[0].update(Action="iam:*")),
    (conditions_name_what_they_ask, lambda t: own(t, "ApiRole")[0]["Condition"].pop("Null")),
])
def test_a_rule_of_least_privilege_sees_what_breaks_it(rule, change):
    broken = copy.deepcopy(GATE)
    change(broken)
    assert json.dumps(broken) != json.dumps(GATE)
    assert list(rule(broken)) != []
