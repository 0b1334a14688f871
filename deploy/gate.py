"""Deploys a gate, or brings it to another release: `make deploy`.

    python -m deploy.gate SETTINGS [--release FOLDER] [--yes]

Uploads the release under a prefix of its own, makes a change set, shows it, asks, carries it out. Runs in flight go on: the revisions of the
runner that they name stay allowed, and an update that would take something else from under them is refused (docs/upgrade.md).
"""

import argparse
import dataclasses
import pathlib
import sys

from . import DeployError, changes
from .account import Account, agreed, say
from .in_flight import InFlight
from .package import OUT
from .release import Release
from .settings import Settings, load

REPOSITORY = "plangate-runner"


@dataclasses.dataclass
class Deployment:
    """One gate, to be brought to one release."""

    account: Account
    settings: Settings
    release: Release

    @property
    def bucket(self):
        """The bucket of the releases."""
        return self.account.code_bucket(self.settings.stack)

    def upload(self):
        """Puts the release where CloudFormation reads it; gives how many files were not there yet."""
        bucket, prefix = self.bucket, self.release.prefix
        # The programs for people and for the image are no part of what CloudFormation reads. The manifest is last: with it the release is whole.
        names = [name for name in sorted(self.release.manifest["files"]) if name.endswith((".zip", ".json", ".yaml"))]
        return sum(self.account.upload(bucket, f"{prefix}/{name}", self.release.folder / name) for name in (*names, "manifest.json"))

    def in_flight(self, found):
        """The runs in flight of the gate as it stands."""
        told = changes.outputs(found)
        return InFlight.find(self.account.client("stepfunctions"), [told["MachinePlanOnlyArn"], told["MachineApplicableArn"]])

    def parameters(self, found, earlier):
        """The parameters of the stack: those of the settings, and the deployment's own; `earlier` are the revisions of the runner to allow still."""
        stands = changes.parameters(found) if found else {}
        nowhere = f"{self.account.number}.dkr.ecr.{self.account.region}.amazonaws.com/{self.settings.parameters.get('RunnerRepository', REPOSITORY)}:none"
        given = {"RunnerImage": stands.get("RunnerImage") or nowhere, **self.settings.parameters}
        return {**given, "GateName": self.settings.stack, "CodeBucket": self.bucket, "CodePrefix": self.release.prefix,
                "Architecture": self.release.manifest["architecture"], "EarlierTaskDefinitions": ",".join(sorted(earlier))}

    def change_set(self, found, flying, retire=False):
        """Makes the change set of this release. Allowed besides the runner's new revision are those that runs name, unless all are to be retired."""
        cloudformation, url = self.account.client("cloudformation"), self.account.url(self.bucket, f"{self.release.prefix}/gate.yaml")
        def make(earlier):
            return changes.make(cloudformation, self.settings.stack, url, self.parameters(found, earlier), self.settings.gate_tags, self.account.pause)
        if retire or not found:
            return make(set())
        now, named = changes.outputs(found)["TaskDefinition"], flying.task_definitions()
        made = make(named - {now})
        if not any(change["LogicalResourceId"] == "TaskDefinition" for change in made.lost()):
            return made
        # The present one is replaced. Runs that begin until the last moment name it.
        changes.discard(cloudformation, made)
        return make(named | {now})

    def objections(self, change_set, flying, retire):
        """What an update would take from runs in flight, and what it would take from everybody: reasons not to carry it out."""
        lost = [f"{change['LogicalResourceId']} ({change['ResourceType']}) would be replaced: what is in it would stay behind"
                for change in change_set.lost() if change.get("PolicyAction") in ("ReplaceAndRetain", "Retain") and change["ResourceType"] in KEEPERS]
        if not flying:
            return lost
        definition = (self.release.folder / "run.asl.json").read_text()
        stranded = [f"{revision} would no longer be allowed" for revision in sorted(flying.task_definitions())] if retire else []
        return [*lost, *flying.lacks(definition), *flying.loses(change_set), *stranded]


# What holds what the gate remembers. Another one in its place would be empty.
KEEPERS = ("AWS::DynamoDB::Table", "AWS::S3::Bucket")


def deploy(account, settings, release, yes=False, retire=False, anyway=False):
    """The whole of `make deploy`; gives the outputs of the stack. Nothing is changed before the change set was agreed to."""
    one, cloudformation = Deployment(account, settings, release), account.client("cloudformation")
    found = changes.describe(cloudformation, settings.stack)
    say(f"plangate {release.told}, release {release.digest[:16]}, for {release.manifest['architecture']}")
    say(f"into account {account.number}, {account.region}, as {account.caller['Arn']}")
    put = one.upload()
    say(f"uploaded {put} files to s3://{one.bucket}/{release.prefix}/" if put else f"s3://{one.bucket}/{release.prefix}/ is there already")
    flying = one.in_flight(found) if found else None
    change_set = one.change_set(found, flying, retire)
    say(f"\n{'makes' if change_set.creates else 'changes'} the stack `{settings.stack}`:")
    say("\n".join(changes.show(change_set)))
    if flying and flying.runs:
        say(f"\n{len(flying.runs)} runs are in flight and go on: {', '.join(flying.runs[:5])}{' and more' if len(flying.runs) > 5 else ''}")
    if against := one.objections(change_set, flying, retire):
        say("\nthis update takes something away:\n" + "\n".join(f"  {line}" for line in against))
        if not anyway:
            changes.discard(cloudformation, change_set)
            raise DeployError("nothing was changed. Wait until those runs have ended, or cancel them; --anyway carries it out, and they fail")
    if change_set.changes and not (yes or agreed("\nCarry this out?", "yes")):
        changes.discard(cloudformation, change_set)
        raise DeployError("nothing was changed")
    outputs = changes.outputs(changes.execute(cloudformation, change_set, account.pause))
    tell(settings, change_set, outputs)
    return outputs


def tell(settings, change_set, outputs):
    """What there is now, and what comes next."""
    say(f"\nthe stack `{settings.stack}` is as it was to be" + ("" if change_set.changes else "; nothing had to change") + ":")
    for name in ("ApiUrl", "Table", "AuditTable", "ExchangeBucket", "ArchiveBucket", "TaskDefinition"):
        say(f"  {name}: {outputs[name]}")
    if change_set.parameters.get("RunnerImage", "").endswith(":none"):
        say("\nnext: make image PUSH=1, write the image that it names into `parameters.RunnerImage`, and make deploy again. No run starts before.")
    else:
        say(f"\nnext: make onboard NAME=... for each workspace; people use PLANGATE_API={outputs['ApiUrl']}")


def main():
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m deploy.gate", description=__doc__.splitlines()[0])
    parser.add_argument("settings", type=pathlib.Path)
    parser.add_argument("--release", type=pathlib.Path, default=OUT, help="the release's folder")
    parser.add_argument("--yes", action="store_true", help="carry the change set out without asking")
    parser.add_argument("--retire-runners", action="store_true", help="allow no earlier revision of the runner, even if runs name it: see docs/key-rotation.md")
    parser.add_argument("--anyway", action="store_true", help="carry out an update that takes something from runs in flight")
    parser.add_argument("--pause", type=float, default=5, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    try:
        settings = load(arguments.settings)
        deploy(Account.of(settings.region, arguments.pause), settings, Release.load(arguments.release), arguments.yes, arguments.retire_runners, arguments.anyway)
    except DeployError as error:
        sys.exit(f"error: {error}")


if __name__ == "__main__":
    main()
