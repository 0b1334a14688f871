"""Takes a gate out of its account: `make destroy`. State, audit and keys stay.

    python -m deploy.destroy SETTINGS [--confirm STACK]

Says first what goes and what stays, and is told to by the stack's own name. Afterwards it lists what is there still, and how each would be removed.
"""

import argparse
import pathlib
import sys

import yaml

from . import DeployError, changes
from .account import Account, agreed, say
from .in_flight import InFlight
from .onboard import NAME, stacks
from .settings import load

# How somebody removes for good what a stack has left; {0} is its physical id.
REMOVAL = {
    "AWS::DynamoDB::Table": "aws dynamodb update-table --table-name {0} --no-deletion-protection-enabled; aws dynamodb delete-table --table-name {0}",
    "AWS::S3::Bucket": "aws s3api delete-bucket --bucket {0}, once no version is left in it; what is under object lock cannot be deleted before its time",
    "AWS::S3::BucketPolicy": "goes with its bucket",
    "AWS::KMS::Key": "aws kms schedule-key-deletion --key-id {0}: what it sealed can never be read again",
}


class _Template(yaml.SafeLoader):
    """CloudFormation's short forms are passed over: only DeletionPolicy is looked at."""


_Template.add_multi_constructor("!", lambda loader, tag, node: (
    loader.construct_mapping(node) if isinstance(node, yaml.MappingNode)
    else loader.construct_sequence(node) if isinstance(node, yaml.SequenceNode) else loader.construct_scalar(node)))


def kept(cloudformation, stack):
    """What a stack leaves behind when it is deleted: logical id, type and physical id of each, as the template that is deployed says."""
    body = cloudformation.get_template(StackName=stack)["TemplateBody"]
    resources = (body if isinstance(body, dict) else yaml.load(body, _Template))["Resources"]
    there = [each for page in cloudformation.get_paginator("list_stack_resources").paginate(StackName=stack) for each in page["StackResourceSummaries"]]
    return [(each["LogicalResourceId"], each["ResourceType"], each["PhysicalResourceId"]) for each in there
            if resources.get(each["LogicalResourceId"], {}).get("DeletionPolicy", "Delete") != "Delete"]


def destroy(account, settings, confirm=None):
    """The whole of `make destroy`; gives what is kept, by stack."""
    cloudformation = account.client("cloudformation")
    gate = changes.describe(cloudformation, settings.stack)
    if gate is None:
        raise DeployError(f"there is no stack `{settings.stack}`")
    told = changes.outputs(gate)
    machines = [told["MachinePlanOnlyArn"], told["MachineApplicableArn"]]
    # One that was begun to be deleted, and was not, may have no machines any more.
    flying = InFlight({}) if gate["StackStatus"] == "DELETE_FAILED" else InFlight.find(account.client("stepfunctions"), machines)
    if flying.runs:
        raise DeployError(f"{len(flying.runs)} runs are in flight: {', '.join(flying.runs[:5])}. Freeze the gate (plangate freeze --gate), "
                          "and wait until they have ended or cancel them")
    workspaces = [(tags[NAME], found["StackName"]) for tags, found in stacks(cloudformation, settings.stack)]
    order = [*(stack for _, stack in sorted(workspaces)), settings.stack]
    stays = {stack: kept(cloudformation, stack) for stack in order}
    say(f"deletes from account {account.number}, {account.region}: {', '.join(order)}")
    say(f"with the workspaces: {', '.join(name for name, _ in sorted(workspaces)) or 'none'}. What they have built stays as it is.")
    say("\nstays:")
    for stack, things in stays.items():
        say("\n".join(f"  {stack}: {kind} {physical}" for _, kind, physical in things))
    if confirm is None:
        confirm = settings.stack if agreed("\nDelete these stacks?", settings.stack) else ""
    if confirm != settings.stack:
        raise DeployError(f"nothing was deleted: that is not the stack's name, `{settings.stack}`")
    for stack in order:
        delete(cloudformation, stack, account.pause)
        say(f"deleted {stack}")
    say("\nstill there, and how each would be removed for good:")
    for things in stays.values():
        say("\n".join(f"  {kind} {physical}\n      {REMOVAL.get(kind, 'in the console').format(physical)}" for _, kind, physical in things))
    say("docs/deploy.md says how a new gate takes them over.")
    return stays


def delete(cloudformation, stack, pause):
    """Deletes a stack and waits until it is gone; a DeployError tells what would not go."""
    identity = cloudformation.describe_stacks(StackName=stack)["Stacks"][0]["StackId"]
    cloudformation.delete_stack(StackName=stack)
    # By its id: a deleted stack has no name any more.
    try:
        changes.settled(cloudformation, identity, pause, done=("DELETE_COMPLETE",))
    except DeployError as error:
        raise DeployError(f"{error}\nremove what stands in the way, and make destroy again: it goes on") from None


def main():
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m deploy.destroy", description=__doc__.splitlines()[0])
    parser.add_argument("settings", type=pathlib.Path)
    parser.add_argument("--confirm", metavar="STACK", help="the stack's name, instead of being asked for it")
    parser.add_argument("--pause", type=float, default=5, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    try:
        settings = load(arguments.settings)
        destroy(Account.of(settings.region, arguments.pause), settings, arguments.confirm)
    except DeployError as error:
        sys.exit(f"error: {error}")


if __name__ == "__main__":
    main()
