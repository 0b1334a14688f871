"""Takes a workspace in: `make onboard NAME=payments`. Again after a break, it goes on where it stopped; again after it was done, it changes nothing.

    python -m deploy.onboard SETTINGS NAME [--release FOLDER] [--yes]

The workspace's id is made up once and kept in a tag of its stack, which is found by the workspace's name.
"""

import argparse
import json
import os
import pathlib
import re
import subprocess
import sys

from . import DeployError, changes
from .account import Account, agreed, say
from .package import OUT
from .release import Release
from .settings import load

GATE, NAME, ID = "plangate:gate", "plangate:name", "plangate:id"


def stacks(cloudformation, gate):
    """The stacks of a gate's workspaces, as they stand: those that bear its tag and a workspace's."""
    for page in cloudformation.get_paginator("describe_stacks").paginate():
        for found in page["Stacks"]:
            tags = {tag["Key"]: tag["Value"] for tag in found.get("Tags", [])}
            if tags.get(GATE) == gate and ID in tags:
                yield tags, found


def document(identity, name, told, outputs, region):
    """The workspace as the gate is told of it, of the settings and of the stack's outputs."""
    secrets = [{"variable": each["variable"], "parameter": f"{outputs['SecretPrefix']}{each['parameter']}"} for each in told.get("secrets", [])]
    spec = {"name": name, "engine": told["engine"], "policy": told["policy"],
            "state": {"bucket": outputs["StateBucket"], "key": outputs["StateKey"], "region": region},
            "plan_role": outputs["PlanRoleArn"], "apply_role": outputs["ApplyRoleArn"],
            "sealed_bucket": outputs["StateBucket"], "sealed_key": outputs["SealedKeyArn"], "secrets": secrets}
    return {"id": identity, "namespace": told.get("namespace", name), "owner": told.get("owner", "platform"), "spec": spec}


class Administrator:
    """The command line, under the role of the gate's administrator: whoever deploys need not be one."""

    def __init__(self, account, role, api, program):
        self.program, self.api, self.environment = str(program), api, dict(os.environ)
        # assumed-role/NAME/SESSION is a session of role/[PATH/]NAME
        if account.caller["Arn"].split(":")[5].split("/")[:2] != ["assumed-role", role.rsplit("/", 1)[-1]]:
            sts = account.client("sts")
            try:
                given = sts.assume_role(RoleArn=role, RoleSessionName="plangate-onboard")["Credentials"]
            except sts.exceptions.ClientError as error:
                raise DeployError(f"{role} administers the gate, and this is {account.caller['Arn']}, which may not take that role: {error}. "
                                  "Run this as the administrator") from None
            self.environment.update(AWS_ACCESS_KEY_ID=given["AccessKeyId"], AWS_SECRET_ACCESS_KEY=given["SecretAccessKey"], AWS_SESSION_TOKEN=given["SessionToken"])
            self.environment.pop("AWS_PROFILE", None)
        self.environment.update(PLANGATE_API=api, AWS_REGION=account.region)

    def ask(self, *arguments, stdin=None, missing=False):
        """What a command answers; None, if `missing` says so, where the gate knows nothing of that name."""
        done = subprocess.run([self.program, "--json", *arguments], env=self.environment, input=stdin, capture_output=True, text=True, check=False)
        if done.returncode == 0:
            return json.loads(done.stdout)
        if missing and '"not-found"' in done.stdout:
            return None
        raise DeployError(f"`plangate {' '.join(arguments)}` failed: {done.stderr.strip()}")


def onboard(account, settings, release, name, program, api=None, yes=False):
    """The whole of `make onboard`; gives the workspace's id and the outputs of its stack."""
    told, cloudformation = settings.workspace(name), account.client("cloudformation")
    gate = changes.describe(cloudformation, settings.stack)
    if gate is None:
        raise DeployError(f"there is no stack `{settings.stack}`: make deploy first")
    shared, stands = changes.outputs(gate), changes.parameters(gate)
    administrator = Administrator(account, stands["AdministratorRoleArn"], api or shared["ApiUrl"], program)

    begun = [tags[ID] for tags, _ in stacks(cloudformation, settings.stack) if tags.get(NAME) == name]
    if len(begun) > 1:
        raise DeployError(f"more than one stack is of a workspace `{name}`: {', '.join(sorted(begun))}; delete those that are not in use")
    identity = begun[0] if begun else administrator.ask("workspace", "new-id")["id"]
    if not re.fullmatch("ws-[0-9a-hjkmnp-tv-z]{16}", identity):
        raise DeployError(f"`{identity}` is no workspace's id")
    say(f"the workspace `{name}` is {identity}" + (", begun before" if begun else ""))

    bucket = account.code_bucket(settings.stack)
    account.upload(bucket, f"{release.prefix}/workspace.yaml", release.folder / "workspace.yaml")
    change_set = changes.make(
        cloudformation, f"{settings.stack}-{identity}", account.url(bucket, f"{release.prefix}/workspace.yaml"),
        {**told.get("parameters", {}), "WorkspaceId": identity, "ExchangeBucket": shared["ExchangeBucket"], "DocumentKeyArn": shared["DocumentKeyArn"]},
        {**settings.gate_tags, NAME: name, ID: identity}, account.pause)
    say(f"\n{'makes' if change_set.creates else 'changes'} the stack `{change_set.stack}`:")
    say("\n".join(changes.show(change_set)))
    if change_set.changes and not (yes or agreed("\nCarry this out?", "yes")):
        changes.discard(cloudformation, change_set)
        raise DeployError("nothing was changed")
    outputs = changes.outputs(changes.execute(cloudformation, change_set, account.pause))

    written = document(identity, name, told, outputs, account.region)
    there = administrator.ask("workspace", "get", identity, missing=True)
    if there is None:
        administrator.ask("workspace", "put", "-", "--etag", "none", stdin=json.dumps(written))
        say(f"\nthe gate knows the workspace `{name}`")
    else:
        spec = there["document"]["spec"]
        other = sorted(field for field, value in written["spec"].items() if spec.get(field) != value)
        say(f"\nthe gate knows the workspace `{name}` already" + (f"; other than in the settings, and left so: {', '.join(other)}" if other else ""))
    for secret in written["spec"]["secrets"]:
        say(f"  the value of `{secret['variable']}`: aws ssm put-parameter --type SecureString --key-id {outputs['SealedKeyArn']} --name {secret['parameter']} --value file://...")
    say("  who may propose and approve: plangate principal put, plangate grant put")
    return identity, outputs


def main():
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m deploy.onboard", description=__doc__.splitlines()[0])
    parser.add_argument("settings", type=pathlib.Path)
    parser.add_argument("name", help="the workspace, as it stands in the settings")
    parser.add_argument("--release", type=pathlib.Path, default=OUT, help="the release's folder")
    parser.add_argument("--program", type=pathlib.Path, help="the command line `plangate`; default: the release's")
    parser.add_argument("--api", default=os.environ.get("PLANGATE_API"), help="the gate's address, if it is another than the stack's ApiUrl (PLANGATE_API)")
    parser.add_argument("--yes", action="store_true", help="carry the change set out without asking")
    parser.add_argument("--pause", type=float, default=5, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    try:
        settings, release = load(arguments.settings), Release.load(arguments.release)
        program = arguments.program or release.folder / "plangate"
        onboard(Account.of(settings.region, arguments.pause), settings, release, arguments.name, program, arguments.api, arguments.yes)
    except DeployError as error:
        sys.exit(f"error: {error}")


if __name__ == "__main__":
    main()
