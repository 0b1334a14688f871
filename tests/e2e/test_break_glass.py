"""The way around the gate: its control plane is gone, and a workspace is changed by hand, with what `plangate break-glass print` prints."""

import json
import subprocess
import time

import pytest
from gate import PATIENCE, gate_of_its_own, wait_until

from local import deploy, otp
from local.stack import ACCOUNT, REGION, ROOT

NAMED, OTHER = "nora", "oscar"


@pytest.fixture(scope="module")
def world():
    """A gate of its own: it is going to be taken away."""
    with gate_of_its_own("glass") as world:
        yield world


@pytest.fixture(autouse=True)
def secrets_stay_where_they_belong(world):
    """As everywhere; only that at the end there is no gate that could come to rest."""
    yield
    world.scan_for_secrets()


class Engineer:
    """Somebody with an IAM user and an MFA device, at a terminal: no gate, no credentials of a role."""

    def __init__(self, world, name):
        assume = {"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": "sts:AssumeRole", "Resource": "*"}]}
        self.world, self.name, self.session = world, name, world.stack.user(name, assume)
        self.device, self.arn = otp.Device.of(world.stack, name), f"arn:aws:iam::{ACCOUNT}:user/{name}"
        self.home, self._last = world.stack.directory / f"home-of-{name}", 0
        self.home.mkdir()

    def code(self):
        """The code that the device shows, or the next if that was used: one that is taken for half a minute yet, however slow the script is."""
        now = int(time.time()) // otp.SECONDS
        self._last = max(now, self._last + 1)
        assert self._last <= now + 1, "more than two codes in half a minute"
        return self.device.code(self._last * otp.SECONDS)

    def prints(self, *arguments):
        """What `plangate break-glass print` prints where nothing of AWS or the gate is known: no address, no credentials, no region."""
        command = [str(deploy.binary("plangate", "dev")), "break-glass", "print", *map(str, arguments)]
        return subprocess.run(command, env={"PATH": "/nonexistent"}, check=True, capture_output=True, text=True).stdout

    def runs(self, script, *answers):
        """Runs a script as it is, with these answers to what it asks; gives (exit code, what it said)."""
        path = self.home / "by-hand.sh"
        path.write_text(script)
        places = [str(deploy.binary("plangate", "dev").parent), str(ROOT / ".venv/bin"), "/usr/bin:/bin"]
        environment = {
            **self.world.stack.environment(self.session), "PATH": ":".join(places), "HOME": str(self.home), "TMPDIR": str(self.home),
            "PLANGATE_ENGINE": self.world.gate.engine.path, "TF_VAR_database_password": "not-from-here", "TF_WORKSPACE": "elsewhere"}
        done = subprocess.run(
            ["/bin/bash", str(path)], env=environment, input="".join(f"{answer}\n" for answer in answers), capture_output=True, text=True, timeout=2 * PATIENCE)
        self.world.heard(f"{self.name}$ bash by-hand.sh", done.stdout + done.stderr)
        return done.returncode, done.stdout + done.stderr


def take_away_the_gate(world):
    """Deletes the gate's stack, and shows that of the control plane nothing is left, while what holds something is."""
    stack, outputs = world.stack, dict(world.outputs)
    cloudformation = stack.client("cloudformation")
    arn = cloudformation.describe_stacks(StackName=world.gate.name)["Stacks"][0]["StackId"]
    cloudformation.delete_stack(StackName=world.gate.name)

    def gone():
        status = cloudformation.describe_stacks(StackName=arn)["Stacks"][0]["StackStatus"]
        assert status != "DELETE_FAILED", cloudformation.describe_stack_events(StackName=arn)["StackEvents"]
        return status == "DELETE_COMPLETE"
    wait_until(gone, "the gate's stack to be gone")
    assert stack.client("lambda").list_functions()["Functions"] == []
    assert stack.client("stepfunctions").list_state_machines()["stateMachines"] == []
    assert stack.client("apigatewayv2").get_apis()["Items"] == []
    assert stack.client("iam").list_roles(PathPrefix="/plangate/control/")["Roles"] == []
    assert {outputs["ExchangeBucket"], outputs["ArchiveBucket"]} <= {found["Name"] for found in stack.client("s3").list_buckets()["Buckets"]}
    assert {outputs["Table"], outputs["AuditTable"]} <= set(stack.client("dynamodb").list_tables()["TableNames"])
    for name in ("GateKeyArn", "DocumentKeyArn", "OrderKeyArn"):
        assert stack.client("kms").describe_key(KeyId=outputs[name])["KeyMetadata"]["KeyState"] == "Enabled"


def test_with_the_gate_gone_a_named_person_with_a_second_factor_plans_and_applies_by_hand(world, tmp_path):
    named, other = Engineer(world, NAMED), Engineer(world, OTHER)
    workspace = world.workspace(tmp_path / "folder", template={"BreakGlassPrincipalArns": named.arn})
    workspace.applied().settled()
    # Kept for such a night, as docs/break-glass.md advises.
    saved = tmp_path / "workspace.json"
    saved.write_text(world.admin.cli("workspace", "get", workspace.id).out)
    before = json.loads(workspace.state()[0])
    take_away_the_gate(world)

    script = named.prints(workspace.id, "--account", ACCOUNT, "--region", REGION, "--mfa-serial", named.device.serial)
    assert script.replace("name=''", f"name='{workspace.name}'") == named.prints(saved, "--mfa-serial", named.device.serial)

    # Nobody else, and nobody without the second factor.
    code, said = other.runs(other.prints(saved, "--mfa-serial", other.device.serial), other.code())
    assert code != 0 and "AccessDenied" in said, said
    code, said = named.runs(script, named.device.code(0))
    assert code != 0 and "AccessDenied" in said, said
    code, said = named.runs(named.prints(saved, "--identity-center"))
    assert code != 0 and "AccessDenied" in said, said

    # The plan is shown, and applied only by who says so.
    secret = workspace.renew_secret()
    code, said = named.runs(script, named.code(), "", "yes")
    assert code != 0 and "nothing was applied" in said and "1 to change" in said, said
    assert json.loads(workspace.state()[0]) == before
    code, said = named.runs(script, named.code(), "", workspace.id)
    assert code == 0, said
    after = json.loads(workspace.state()[0])
    assert (after["lineage"], after["serial"] > before["serial"]) == (before["lineage"], True)
    assert secret in json.dumps(after, ensure_ascii=False).replace('\\\\', '\\') or json.dumps(secret)[1:-1] in json.dumps(after)
    assert world.object(f"{workspace.state_key}.tflock", workspace.bucket) is None
