"""An estate in another account: which roles lead there, and from where; tried on the laptop stack with two accounts, and read in the templates."""

import copy
import json

import pytest
from deployed import CONTROL, OURS, THEIRS
from templates import listed, of_type, statements, template, texts
from test_templates import everything_is_sealed, roles_bear_their_workspace

from local.stack import SECOND_ACCOUNT, refused

ESTATE, WORKSPACE = template("estate.yaml"), template("workspace.yaml")
RUN = "run-01aaaaaaaaaaaaaaaaaaaaaaaa"


def estates_roles_trust_their_hub(found):
    """Each role is assumed by the workspace's role of its own phase, for this workspace and naming a run, and by nobody else."""
    runs = {"sts:SourceIdentity": "run-" + "?" * 26}
    for phase in ("plan", "apply"):
        hub = f"arn:${{AWS::Partition}}:iam::${{GateAccountId}}:role/plangate/{phase}/${{WorkspaceId}}-{phase}"
        role = of_type(found, "AWS::IAM::Role")[f"{phase.capitalize()}Role"]
        if role["Path"] != f"/plangate/estate/{phase}/":
            yield f"the {phase} role is at {role['Path']}"
        expected = {"sts:AssumeRole": {"StringEquals": {"sts:ExternalId": {"Ref": "WorkspaceId"}}, "StringLike": runs},
                    "sts:SetSourceIdentity": {"StringLike": runs}}
        trusted = {each["Action"]: each.get("Condition") for each in role["AssumeRolePolicyDocument"]["Statement"] if texts(each["Principal"].get("AWS", [])) == [hub]}
        if trusted != expected or len(role["AssumeRolePolicyDocument"]["Statement"]) != 2:
            yield f"the {phase} role trusts {trusted}"
    if set(of_type(found, "AWS::IAM::Role")) != {"PlanRole", "ApplyRole"}:
        yield "there are other roles"


def hubs_lead_to_their_phase(found):
    """A workspace's role leads to the estate's role of its own phase, and no other role of the template assumes anything."""
    for owner, statement in statements(found):
        assumes = {action for action in listed(statement["Action"]) if action.startswith("sts:")}
        phase = owner.removeprefix("Estate").removesuffix("Policy")
        if assumes and (assumes != {"sts:AssumeRole", "sts:SetSourceIdentity"} or texts(statement["Resource"]) != [f"${{Estate{phase}RoleArn}}"]):
            yield f"{owner} assumes {texts(statement['Resource'])}"
        if assumes and texts(found["Resources"][owner]["Properties"]["Roles"]) != [f"${{{phase}Role}}"]:
            yield f"{owner} is of {found['Resources'][owner]['Properties']['Roles']}"
    for phase in ("plan", "apply"):
        if f"role/plangate/estate/{phase}/.+" not in found["Parameters"][f"Estate{phase.capitalize()}RoleArn"]["AllowedPattern"]:
            yield f"the {phase} role may lead to another phase"


@pytest.mark.parametrize("rule", [estates_roles_trust_their_hub, everything_is_sealed, roles_bear_their_workspace], ids=lambda rule: rule.__name__)
def test_an_estate_keeps_the_rule(rule):
    assert list(rule(ESTATE)) == []


def test_a_workspaces_roles_lead_to_the_estates_role_of_their_own_phase_alone():
    assert list(hubs_lead_to_their_phase(WORKSPACE)) == []


def trust(found):
    return found["Resources"]["ApplyRole"]["Properties"]["AssumeRolePolicyDocument"]["Statement"]


def leads(found):
    return found["Resources"]["EstatePlanPolicy"]["Properties"]


@pytest.mark.parametrize(("found", "rule", "change"), [
    (ESTATE, estates_roles_trust_their_hub, lambda t: trust(t)[0]["Condition"].pop("StringEquals")),
    (ESTATE, estates_roles_trust_their_hub, lambda t: trust(t)[0]["Condition"]["StringLike"].update({"sts:SourceIdentity": "*"})),
    (ESTATE, estates_roles_trust_their_hub, lambda t: trust(t)[1].pop("Condition")),
    (ESTATE, estates_roles_trust_their_hub, lambda t: trust(t)[0].update(Principal={"AWS": {"Fn::Sub": "arn:${AWS::Partition}:iam::${GateAccountId}:root"}})),
    (ESTATE, estates_roles_trust_their_hub, lambda t: trust(t).append({"Effect": "Allow", "Principal": {"AWS": "*"}, "Action": "sts:TagSession"})),
    (WORKSPACE, hubs_lead_to_their_phase, lambda t: leads(t)["PolicyDocument"]["Statement"][0].update(Resource={"Ref": "EstateApplyRoleArn"})),
    (WORKSPACE, hubs_lead_to_their_phase, lambda t: leads(t)["Roles"].append({"Ref": "ApplyRole"})),
    (WORKSPACE, hubs_lead_to_their_phase, lambda t: t["Parameters"]["EstatePlanRoleArn"].update(AllowedPattern="arn:.+")),
])
def test_a_rule_about_estates_sees_what_breaks_it(found, rule, change):
    broken = copy.deepcopy(found)
    change(broken)
    assert list(rule(broken)) != []


def enters(gate, role, phase, **asked):
    """Whether this role of the gate's account becomes the estate's role of this phase."""
    asked = {"RoleSessionName": RUN, "ExternalId": OURS, "SourceIdentity": RUN, **asked}
    asked = {name: value for name, value in asked.items() if value is not None}
    return not refused(gate.client(role, "sts").assume_role, RoleArn=gate.estate()[f"{phase.capitalize()}RoleArn"], **asked)


@pytest.mark.parametrize("phase", ["plan", "apply"])
def test_a_workspaces_role_enters_the_estate_as_the_role_of_its_phase_naming_workspace_and_run(gate, phase):
    other = {"plan": "apply", "apply": "plan"}[phase]
    assert enters(gate, f"{OURS}-{phase}", phase)
    assert not enters(gate, f"{OURS}-{phase}", other), "the other phase's role"
    for external in (None, THEIRS, OURS.upper()):
        assert not enters(gate, f"{OURS}-{phase}", phase, ExternalId=external), external
    for source in (None, "administrator", "run-", RUN[:-1], f"{RUN}x"):
        assert not enters(gate, f"{OURS}-{phase}", phase, SourceIdentity=source), source
    assert not enters(gate, f"{THEIRS}-{phase}", phase), "another workspace's role, whose policies are far too wide"
    assert not enters(gate, f"{OURS}-review", phase)


def test_nobody_else_of_the_gates_account_enters_the_estate(gate):
    gate.person("wanderer")
    for phase in ("plan", "apply"):
        assert not enters(gate, "wanderer", phase)
        for name in CONTROL:
            assert not enters(gate, f"plangate-{name}", phase), name


def test_in_the_estate_a_session_says_which_run_it_is_and_can_say_no_other(gate):
    arn = gate.estate()["PlanRoleArn"]
    given = gate.client(f"{OURS}-plan", "sts").assume_role(RoleArn=arn, RoleSessionName=RUN, ExternalId=OURS, SourceIdentity=RUN)
    assert given["SourceIdentity"] == RUN and given["AssumedRoleUser"]["Arn"] == f"arn:aws:sts::{SECOND_ACCOUNT}:assumed-role/{OURS}-plan/{RUN}"
    keys = given["Credentials"]
    there = gate.stack.session(keys["AccessKeyId"], keys["SecretAccessKey"], keys["SessionToken"])
    assert there.client("sts").get_caller_identity()["Account"] == SECOND_ACCOUNT
    # Where it leads on, in its own account: with the same name or not at all.
    iam = gate.stack.second_account().client("iam")
    allowed = {"Effect": "Allow", "Action": ["sts:AssumeRole", "sts:SetSourceIdentity"]}
    further = iam.create_role(RoleName="further", AssumeRolePolicyDocument=json.dumps(
        {"Version": "2012-10-17", "Statement": [{**allowed, "Principal": {"AWS": f"arn:aws:iam::{SECOND_ACCOUNT}:root"}}]}))["Role"]["Arn"]
    iam.put_role_policy(RoleName=f"{OURS}-plan", PolicyName="on", PolicyDocument=json.dumps(
        {"Version": "2012-10-17", "Statement": [{**allowed, "Resource": further}]}))
    on = {"RoleArn": further, "RoleSessionName": "on"}
    assert there.client("sts").assume_role(**on)["SourceIdentity"] == RUN
    assert refused(there.client("sts").assume_role, **on, SourceIdentity="run-02bbbbbbbbbbbbbbbbbbbbbbbb")


def test_a_state_that_the_estates_account_keeps_is_for_the_workspaces_roles_alone(gate):
    bucket, key = gate.estate()["StateBucket"], {"ServerSideEncryption": "aws:kms", "SSEKMSKeyId": gate.ours["SealedKeyArn"]}
    state = {"Bucket": bucket, "Key": "state/terraform.tfstate"}
    apply, plan = gate.client(f"{OURS}-apply", "s3"), gate.client(f"{OURS}-plan", "s3")
    apply.put_object(**state, Body=b"state", **key)
    assert plan.get_object(**state)["Body"].read() == apply.get_object(**state)["Body"].read() == b"state"
    assert refused(plan.put_object, **state, Body=b"forged", **key)
    assert refused(plan.delete_object, **state) and refused(apply.delete_object, **state)
    assert refused(apply.put_object, **state, Body=b"plain", ServerSideEncryption="AES256")
    lock = {"Bucket": bucket, "Key": "state/terraform.tfstate.tflock"}
    apply.put_object(**lock, Body=b"{}", IfNoneMatch="*", **key)
    apply.delete_object(**lock)
    # Nobody of the estate's account reads it, the estate's own roles included; nor does another workspace.
    assert refused(gate.client(f"{THEIRS}-apply", "s3").get_object, **state)
    given = apply_session(gate)
    assert refused(given.client("s3").get_object, **state)


def apply_session(gate):
    """In the estate as its apply role, with every right on buckets that its account can give."""
    gate.stack.second_account().client("iam").put_role_policy(RoleName=f"{OURS}-apply", PolicyName="wide", PolicyDocument=json.dumps(
        {"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": ["s3:*", "kms:*"], "Resource": "*"}]}))
    keys = gate.client(f"{OURS}-apply", "sts").assume_role(
        RoleArn=gate.estate()["ApplyRoleArn"], RoleSessionName=RUN, ExternalId=OURS, SourceIdentity=RUN)["Credentials"]
    return gate.stack.session(keys["AccessKeyId"], keys["SecretAccessKey"], keys["SessionToken"])
