"""Estates in another account: a run plans and applies there as the estate's own roles, and the gate's account keeps the rest."""

import json

from local.stack import ACCOUNT, REGION, ROOT, SECOND_ACCOUNT

# What the plan reads in the estate. The engine's own data source takes the credentials that every provider takes.
CONFIGURATION = """
terraform {{
  required_version = ">= 1.9"
}}
variable "database_password" {{
  type      = string
  sensitive = true
}}
data "terraform_remote_state" "network" {{
  backend = "s3"
  config = {{ bucket = "{bucket}", key = "network.tfstate", region = "{region}" }}
}}
resource "terraform_data" "shop" {{
  input = {{ vpc = data.terraform_remote_state.network.outputs.said, password = var.database_password }}
}}
"""
# What the apply alone may read, once the first resource is made.
FOR_APPLY = """
data "terraform_remote_state" "secrets" {{
  backend    = "s3"
  config     = {{ bucket = "{bucket}", key = "for-apply.tfstate", region = "{region}" }}
  depends_on = [terraform_data.shop]
}}
resource "terraform_data" "after" {{
  input = data.terraform_remote_state.secrets.outputs.said
}}
"""


class Estate:
    """A workspace's estate in the second account: something to read there, and the roles that lead to it."""

    def __init__(self, shop, more="", **parameters):
        self.shop, self.world = shop, shop.world
        self.root = self.world.stack.second_account()
        self.bucket = f"estate-{shop.id}"
        s3 = self.root.client("s3")
        s3.create_bucket(Bucket=self.bucket, CreateBucketConfiguration={"LocationConstraint": REGION})
        for key, said in (("network.tfstate", "vpc-1"), ("for-apply.tfstate", "made there")):
            s3.put_object(Bucket=self.bucket, Key=key, Body=json.dumps({
                "version": 4, "terraform_version": "1.9.0", "serial": 1, "lineage": "l", "resources": [],
                "outputs": {"said": {"value": said, "type": "string"}}}))
        reads, writes = self._policy("reads", "network.tfstate"), self._policy("writes", "*.tfstate")
        # First the workspace's roles, which the estate's trust.
        elsewhere = f"arn:aws:iam::{SECOND_ACCOUNT}:role/plangate/estate"
        self.roles = {f"{phase}_role": f"{elsewhere}/{phase}/{shop.id}-{phase}" for phase in ("plan", "apply")}
        keeps = {"EstateStateBucket": f"plangate-{shop.id}-{SECOND_ACCOUNT}"} if "SealedKeyArn" in parameters else {}
        self.world.gate.workspace(shop.id, EstatePlanRoleArn=self.roles["plan_role"], EstateApplyRoleArn=self.roles["apply_role"], **keeps)
        self.outputs = self.world.stack.deploy(ROOT / "infra/estate.yaml", f"estate-{shop.id}", {
            "WorkspaceId": shop.id, "GateAccountId": ACCOUNT, "PlanPolicyArns": reads, "ApplyPolicyArns": writes, **parameters}, session=self.root)
        assert self.roles == {"plan_role": self.outputs["PlanRoleArn"], "apply_role": self.outputs["ApplyRoleArn"]}
        shop.configure((CONFIGURATION + more).format(bucket=self.bucket, region=REGION))
        shop.change(estate=self.roles)

    def _policy(self, name, key):
        document = {"Version": "2012-10-17", "Statement": [
            {"Effect": "Allow", "Action": "s3:GetObject", "Resource": f"arn:aws:s3:::{self.bucket}/{key}"},
            {"Effect": "Allow", "Action": "s3:ListBucket", "Resource": f"arn:aws:s3:::{self.bucket}"}]}
        return self.root.client("iam").create_policy(PolicyName=f"{self.shop.id}-{name}", PolicyDocument=json.dumps(document))["Policy"]["Arn"]

    def caller(self, phase, run):
        """Who the engine is there in a phase of a run."""
        return f"arn:aws:sts::{SECOND_ACCOUNT}:assumed-role/{self.shop.id}-{phase}/{run.id}"


def made(content):
    """What the resources of a state hold, by their names."""
    return {each["name"]: each["instances"][0]["attributes"]["input"]["value"] for each in json.loads(content)["resources"] if each["mode"] == "managed"}


def test_a_run_plans_and_applies_in_the_estates_account_as_the_role_of_each_phase(world, workspace):
    shop = workspace()
    estate = Estate(shop, FOR_APPLY)
    run = shop.waiting()
    run.approve()
    run.ended_well("applied")
    record = run.record
    for phase in ("plan", "apply"):
        assert record[phase]["estate_caller"] == estate.caller(phase, run)
        assert record[phase]["caller"].startswith(f"arn:aws:sts::{ACCOUNT}:assumed-role/{shop.id}-{phase}/")
    found = made(shop.state()[0])
    assert found["shop"]["vpc"] == "vpc-1" and found["after"] == "made there"
    # The plan's role could not have read what the apply read; nor could anybody of the gate's account.
    shop.edit("for-apply.tfstate", "network.tfstate")
    shop.edit('key = "network.tfstate", region', 'key = "for-apply.tfstate", region')
    shop.propose("--plan-only").ended_well("failed", "plan-errored")


def test_an_estate_that_does_not_let_the_workspace_in_is_told_and_nothing_is_applied(world, workspace):
    shop = workspace()
    estate = Estate(shop)
    run = shop.waiting()
    # Somebody in the estate's account has another workspace in mind.
    iam, name = estate.root.client("iam"), f"{shop.id}-apply"
    trust = iam.get_role(RoleName=name)["Role"]["AssumeRolePolicyDocument"]
    trust["Statement"][0]["Condition"]["StringEquals"]["sts:ExternalId"] = "ws-0000000000000000"
    iam.update_assume_role_policy(RoleName=name, PolicyDocument=json.dumps(trust))
    run.approve()
    run.ended_well("failed", "estate-unavailable")
    assert "AssumeRole" in run.record["failure"]["detail"] and shop.state() is None
    assert world.object(f"claims/{shop.id}/{run.id}") is None or json.loads(world.object(f"claims/{shop.id}/{run.id}"))["holder"] != "runner"
    # An estate is one workspace's alone, and never in the gate's own account.
    other = workspace()
    spec = {**other.spec, "estate": estate.roles}
    answer = world.document("workspace", other.id, spec, other.etag, expect=400)
    assert (answer["error"]["reason"], "estate.plan_role" in answer["error"]["message"]) == ("invalid-document", True)
    home = {key: value.replace(SECOND_ACCOUNT, ACCOUNT).replace(shop.id, other.id) for key, value in estate.roles.items()}
    assert world.document("workspace", other.id, {**other.spec, "estate": home}, other.etag, expect=400)["error"]["reason"] == "invalid-document"


def test_the_state_may_stand_in_the_estates_account_under_the_workspaces_key(world, workspace):
    shop = workspace()
    estate = Estate(shop, SealedKeyArn=shop.outputs["SealedKeyArn"])
    there = estate.outputs["StateBucket"]
    assert there.endswith(SECOND_ACCOUNT)
    shop.change(state={"bucket": there, "key": shop.state_key, "region": REGION})
    run = shop.waiting()
    run.approve()
    assert run.end() == "applied", run.story()
    root = estate.root.client("s3")
    found = root.head_object(Bucket=there, Key=shop.state_key)
    assert found["SSEKMSKeyId"] == shop.outputs["SealedKeyArn"] and shop.state() is None
    assert run.record["apply"]["state_after"]["version_id"] == found["VersionId"]
    assert [each["Key"] for each in root.list_objects_v2(Bucket=there)["Contents"]] == [shop.state_key], "no lock is left"
    # What is planned next is planned against it.
    shop.propose().ended_well("no_changes")
