"""What an account chooses: each template under its defaults and under the other choice of each condition."""

import copy

import pytest
from templates import HEARD, INFRA, of_type, resolved, template

TEMPLATES = {name: template(name) for name in sorted(path.name for path in INFRA.glob("*.yaml"))}
GATE, WORKSPACE, ESTATE = TEMPLATES["gate.yaml"], TEMPLATES["workspace.yaml"], TEMPLATES["estate.yaml"]
BOUNDARY = {"Fn::If": ["HasBoundary", {"Ref": "PermissionsBoundaryArn"}, {"Ref": "AWS::NoValue"}]}
# What an account must say, because nobody else can know it.
REQUIRED = {
    "gate.yaml": {"CodeBucket", "CodePrefix", "RunnerImage", "AdministratorRoleArn"},
    "workspace.yaml": {"WorkspaceId", "ExchangeBucket", "DocumentKeyArn"},
    "estate.yaml": {"WorkspaceId", "GateAccountId"},
}
ELSEWHERE = "arn:aws:iam::444455556666:role/plangate/estate"
KEY = "arn:aws:kms:eu-central-1:111122223333:key/11111111-2222-3333-4444-555555555555"


def roles_have_the_boundary(found):
    """Every role is under the account's boundary, if there is one."""
    for name, role in of_type(found, "AWS::IAM::Role").items():
        if role.get("PermissionsBoundary") != BOUNDARY:
            yield f"{name} is under no boundary: give it PermissionsBoundary, as its neighbours have it"


def parameters_are_told(found):
    """Each parameter says what it is, and is used; one that must be given has no default."""
    text = str({part: found[part] for part in found if part != "Parameters"})
    for name, parameter in found["Parameters"].items():
        if "Description" not in parameter and name not in ("Architecture", "RunnerCpu", "RunnerMemory", "ReviewerArchitecture"):
            yield f"{name} has no description"
        if f"'{name}'" not in text and f"${{{name}}}" not in text:
            yield f"{name} is not used"


def alarms_are_heard(found):
    """Every alarm tells the topic, whether it was given or made."""
    for name, alarm in of_type(found, "AWS::CloudWatch::Alarm").items():
        if alarm.get("AlarmActions") != HEARD:
            yield f"{name} tells nobody: give it the AlarmActions of its neighbours"


def references_are_there(found):
    """Under this choice nothing refers to a resource that is not made; `found` is a template resolved."""
    there = set(found["Resources"]) | set(found["Parameters"])

    def missing(part):
        if isinstance(part, dict):
            if set(part) == {"Ref"} and not part["Ref"].startswith("AWS::") and part["Ref"] not in there:
                yield part["Ref"]
            if set(part) == {"Fn::GetAtt"} and part["Fn::GetAtt"][0] not in there:
                yield part["Fn::GetAtt"][0]
            for each in part.values():
                yield from missing(each)
        elif isinstance(part, list):
            for each in part:
                yield from missing(each)

    for name, resource in found["Resources"].items():
        yield from (f"{name} refers to {other}, which is not made" for other in missing(resource))
    for name, output in found["Outputs"].items():
        yield from (f"the output {name} refers to {other}, which is not made" for other in missing(output))


def choices(found):
    """Parameters that bring each condition about both ways, beginning with the defaults."""
    gate = [
        {}, {"VpcId": "vpc-1", "Subnets": "subnet-1"}, {"AuditorPrincipalArns": "arn:aws:iam::111122223333:role/auditor"},
        {"AlarmTopicArn": "arn:aws:sns:eu-central-1:111122223333:told"}, {"AlarmEmail": "platform@example.com"},
        {"Architecture": "x86_64"}, {"EarlierTaskDefinitions": "arn:aws:ecs:eu-central-1:111122223333:task-definition/plangate-runner:1"},
        {"OrderKeys": "first-second"}, {"OrderKeys": "second-first"}, {"OrderKeys": "second"},
        {"SlackSigningSecretParameter": "/s", "SlackBotTokenParameter": "/t"},
        {"SlackSigningSecretParameter": "/s", "SlackBotTokenParameter": "/t", "SlackPreviousSecretParameter": "/p"},
        {"ReviewModelArns": "arn:aws:bedrock:eu-central-1::foundation-model/m"}, {"ApiConcurrency": 20}, {"SweepConcurrency": 2},
        {"PermissionsBoundaryArn": "arn:aws:iam::111122223333:policy/boundary"}, {"ExistingGateKeyArn": KEY}, {"ExistingDocumentKeyArn": KEY},
        {"ExistingGateKeyArn": KEY, "AlarmEmail": "platform@example.com"},
    ]
    workspace = [
        {}, {"PlanPolicyArns": "arn:aws:iam::aws:policy/ReadOnlyAccess"}, {"ApplyPolicyArns": "arn:aws:iam::aws:policy/PowerUserAccess"},
        {"PermissionsBoundaryArn": "arn:aws:iam::111122223333:policy/boundary"}, {"BreakGlassPrincipalArns": "arn:aws:iam::111122223333:role/people"},
        {"BreakGlassPermissionSet": "Emergency"}, {"ReviewerCodeBucket": "code", "ReviewerCodePrefix": "releases/1"},
        {"EstatePlanRoleArn": f"{ELSEWHERE}/plan/p", "EstateApplyRoleArn": f"{ELSEWHERE}/apply/a"},
        {"EstatePlanRoleArn": f"{ELSEWHERE}/plan/p", "EstateApplyRoleArn": f"{ELSEWHERE}/apply/a", "EstateStateBucket": "there"},
    ]
    estate = [
        {}, {"PlanPolicyArns": "arn:aws:iam::aws:policy/ReadOnlyAccess"}, {"ApplyPolicyArns": "arn:aws:iam::aws:policy/PowerUserAccess"},
        {"PermissionsBoundaryArn": "arn:aws:iam::444455556666:policy/boundary"}, {"SealedKeyArn": KEY},
    ]
    return next(each for name, each in (("GateName", gate), ("GateAccountId", estate), ("WorkspaceId", workspace)) if name in found["Parameters"])


CHOSEN = [(name, chosen) for name, found in TEMPLATES.items() for chosen in choices(found)]


@pytest.mark.parametrize("name", TEMPLATES)
def test_every_role_is_under_the_accounts_boundary(name):
    assert list(roles_have_the_boundary(TEMPLATES[name])) == []


@pytest.mark.parametrize("name", TEMPLATES)
def test_every_parameter_is_told_and_used_and_only_what_nobody_can_know_has_to_be_given(name):
    assert list(parameters_are_told(TEMPLATES[name])) == []
    assert {key for key, each in TEMPLATES[name]["Parameters"].items() if "Default" not in each} == REQUIRED[name]


def test_every_alarm_is_heard():
    assert of_type(GATE, "AWS::CloudWatch::Alarm") and list(alarms_are_heard(GATE)) == []


@pytest.mark.parametrize(("name", "chosen"), CHOSEN, ids=[f"{name}-{'-'.join(chosen) or 'defaults'}" for name, chosen in CHOSEN])
def test_a_choice_leaves_nothing_that_refers_to_what_is_not_made(name, chosen):
    assert list(references_are_there(resolved(TEMPLATES[name], chosen))) == []


@pytest.mark.parametrize("name", TEMPLATES)
def test_every_condition_is_tried_both_ways(name):
    seen = {condition: set() for condition in TEMPLATES[name]["Conditions"]}
    for chosen in choices(TEMPLATES[name]):
        for condition, holds in resolved(TEMPLATES[name], chosen)["Conditions"].items():
            seen[condition].add(holds)
    assert {condition for condition, values in seen.items() if values != {True, False}} == set()


def made(chosen, kind):
    return set(of_type(resolved(GATE, chosen), kind))


def test_what_is_given_is_not_made():
    assert {"Vpc"} == made({}, "AWS::EC2::VPC") and not made({"VpcId": "vpc-1", "Subnets": "subnet-1"}, "AWS::EC2::VPC")
    assert made({}, "AWS::KMS::Key") == {"GateKey", "DocumentKey", "OrderKey"}
    assert made({"ExistingGateKeyArn": KEY, "ExistingDocumentKeyArn": KEY}, "AWS::KMS::Key") == {"OrderKey"}
    assert made({"AlarmEmail": "platform@example.com"}, "AWS::SNS::Topic") == {"AlarmTopic"}
    assert not made({}, "AWS::SNS::Topic")
    assert not made({"AlarmEmail": "platform@example.com", "AlarmTopicArn": "arn:aws:sns:eu-central-1:111122223333:told"}, "AWS::SNS::Topic")


def test_a_given_key_is_in_the_place_of_the_one_that_is_made():
    given = resolved(GATE, {"ExistingGateKeyArn": KEY})["Resources"]
    here = {"Ref": "ExistingGateKeyArn"}
    assert given["MainTable"]["Properties"]["SSESpecification"]["KMSMasterKeyId"] == here
    assert given["ExchangeBucket"]["Properties"]["BucketEncryption"]["ServerSideEncryptionConfiguration"][0]["ServerSideEncryptionByDefault"]["KMSMasterKeyID"] == here
    assert given["FunctionLogGroup"]["Properties"]["KmsKeyId"] == here
    documents = resolved(GATE, {"ExistingDocumentKeyArn": KEY})["Resources"]["ExchangeBucketPolicy"]["Properties"]["PolicyDocument"]["Statement"]
    under = next(each for each in documents if each["Sid"] == "DocumentsUnderTheirKey")
    assert under["Condition"]["StringNotEquals"] == {"s3:x-amz-server-side-encryption-aws-kms-key-id": {"Ref": "ExistingDocumentKeyArn"}}


def test_concurrency_is_reserved_where_it_is_asked_for():
    reserved = "ReservedConcurrentExecutions"
    assert reserved not in resolved(GATE, {})["Resources"]["ApiFunction"]["Properties"]
    assert resolved(GATE, {"ApiConcurrency": 20})["Resources"]["ApiFunction"]["Properties"][reserved] == {"Ref": "ApiConcurrency"}
    assert resolved(GATE, {"SweepConcurrency": 2})["Resources"]["SweepFunction"]["Properties"][reserved] == {"Ref": "SweepConcurrency"}


def test_tags_of_the_stack_reach_its_tasks():
    from templates import state_machine

    tasks = [state for state in state_machine()["States"].values() if state.get("Resource", "").startswith("arn:aws:states:::ecs:runTask")]
    assert len(tasks) == 2 and all(state["Arguments"]["PropagateTags"] == "TASK_DEFINITION" for state in tasks)


def test_an_operator_finds_what_there_is():
    assert {"ApiUrl", "Table", "AuditTable", "ExchangeBucket", "ArchiveBucket", "AlarmTopicArn", "GateKeyArn", "DocumentKeyArn"} <= set(GATE["Outputs"])
    assert {"StateBucket", "PlanRoleArn", "ApplyRoleArn", "SealedKeyArn"} <= set(WORKSPACE["Outputs"])
    assert {"StateBucket", "PlanRoleArn", "ApplyRoleArn"} == set(ESTATE["Outputs"])


def properties(found, name):
    return found["Resources"][name]["Properties"]


@pytest.mark.parametrize(("rule", "change"), [
    (roles_have_the_boundary, lambda t: properties(t, "SweepRole").pop("PermissionsBoundary")),
    (roles_have_the_boundary, lambda t: properties(t, "ExecutionRole").update(PermissionsBoundary={"Ref": "PermissionsBoundaryArn"})),
    (parameters_are_told, lambda t: t["Parameters"].update(Forgotten={"Type": "String", "Default": "", "Description": "Nothing."})),
    (parameters_are_told, lambda t: t["Parameters"]["AlarmEmail"].pop("Description")),
    (alarms_are_heard, lambda t: properties(t, "GapAlarm").pop("AlarmActions")),
    (references_are_there, lambda t: t["Resources"]["AlarmTopicPolicy"].pop("Condition")),
    (references_are_there, lambda t: properties(t, "AuditTable")["SSESpecification"].update(KMSMasterKeyId={"Fn::GetAtt": ["GateKey", "Arn"]})),
])
def test_a_rule_about_parameters_sees_what_breaks_it(rule, change):
    broken = copy.deepcopy(GATE)
    change(broken)
    if rule is references_are_there:
        assert any(list(rule(resolved(broken, chosen))) for chosen in choices(GATE))
    else:
        assert list(rule(broken)) != []
