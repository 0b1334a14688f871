"""Change sets of CloudFormation: made, read, shown, carried out. Everything that is deployed goes through here."""

import dataclasses
import time
import uuid

from . import DeployError

SECONDS, PAUSE = 3600, 5
_SETTLED = ("CREATE_COMPLETE", "UPDATE_COMPLETE")
_NOTHING = ("didn't contain changes", "No updates are to be performed")


@dataclasses.dataclass(frozen=True)
class ChangeSet:
    """A change set that is ready, or that has nothing to do (`changes` is empty then)."""

    stack: str
    identity: str
    creates: bool
    changes: list
    parameters: dict
    before: dict

    def lost(self):
        """The changes that take something away: removed, or put in the place of what is there."""
        return [each for each in self.changes if each["Action"] == "Remove" or each.get("Replacement") in ("True", "Conditional")]


def describe(cloudformation, stack):
    """A stack as it stands; None if there is none, or only one that waits for its first change set."""
    try:
        found = cloudformation.describe_stacks(StackName=stack)["Stacks"][0]
    except cloudformation.exceptions.ClientError as error:
        if "does not exist" not in str(error):
            raise
        return None
    return None if found["StackStatus"] == "REVIEW_IN_PROGRESS" else found


def outputs(found):
    """The outputs of a described stack, by name."""
    return {output["OutputKey"]: output["OutputValue"] for output in found.get("Outputs", [])}


def parameters(found):
    """The parameters of a described stack, by name."""
    return {each["ParameterKey"]: each["ParameterValue"] for each in found.get("Parameters", [])}


def make(cloudformation, stack, template_url, wanted, tags, pause=PAUSE):
    """Makes a change set and waits until it is ready; a DeployError with CloudFormation's reason if it cannot be."""
    found = describe(cloudformation, stack)
    if found and found["StackStatus"] == "ROLLBACK_COMPLETE":
        raise DeployError(f"`{stack}` was never made whole and cannot be updated; delete it and deploy again: aws cloudformation delete-stack --stack-name {stack}")
    identity = cloudformation.create_change_set(
        StackName=stack, ChangeSetName=f"plangate-{uuid.uuid4().hex}", ChangeSetType="UPDATE" if found else "CREATE", TemplateURL=template_url,
        Capabilities=["CAPABILITY_NAMED_IAM"], Parameters=[{"ParameterKey": name, "ParameterValue": value} for name, value in wanted.items()],
        Tags=[{"Key": name, "Value": value} for name, value in tags.items()])["Id"]
    changes, told = _ready(cloudformation, identity, stack, pause)
    now = {each["ParameterKey"]: each["ParameterValue"] for each in told.get("Parameters", [])}
    return ChangeSet(stack, identity, not found, changes, now, parameters(found) if found else {})


def _ready(cloudformation, identity, stack, pause):
    deadline = time.monotonic() + SECONDS
    while True:
        pages = list(cloudformation.get_paginator("describe_change_set").paginate(ChangeSetName=identity))
        told = pages[0]
        if told["Status"] == "FAILED":
            reason = told.get("StatusReason", "")
            if any(each in reason for each in _NOTHING):
                return [], told
            raise DeployError(f"the change set of `{stack}` failed: {reason}")
        if told["Status"] == "CREATE_COMPLETE":
            return [change["ResourceChange"] for page in pages for change in page.get("Changes", [])], told
        if time.monotonic() > deadline:
            raise DeployError(f"the change set of `{stack}` is {told['Status']} for {SECONDS} s")
        time.sleep(pause)


def show(change_set):
    """A change set as a person reads it: what is lost first, what is alike in one line."""
    lines = []
    for name in sorted({*change_set.parameters, *change_set.before}):
        old, new = change_set.before.get(name), change_set.parameters.get(name)
        if old != new and not (change_set.creates and not new):
            lines.append(f"  parameter {name}: {_told(new)}" if change_set.creates else f"  parameter {name}: {_told(old)} -> {_told(new)}")
    groups = {}
    for change in change_set.changes:
        names = sorted({_property(detail["Target"]) for detail in change.get("Details", [])})
        groups.setdefault((_sort(change), change["ResourceType"], tuple(names)), []).append(change["LogicalResourceId"])
    for ((_, mark, word), kind, names), members in sorted(groups.items()):
        lines.append(f"  {mark} {word} {kind}: {', '.join(sorted(members))}" + (f" ({', '.join(names)})" if names else ""))
    return lines or ["  nothing changes"]


def _sort(change):
    if change["Action"] == "Remove":
        kept = change.get("PolicyAction") in ("Retain", "Snapshot")
        return (1, "-", "LEAVES THE STACK, IS KEPT") if kept else (0, "-", "REMOVED")
    if change["Action"] in ("Add", "Import"):
        return (3, "+", "added")
    replaced = {"True": (1, "!", "REPLACED"), "Conditional": (2, "!", "MAY BE REPLACED")}
    return replaced.get(change.get("Replacement"), (4, "~", "changed"))


def _property(target):
    return target.get("Name") or target.get("Attribute", "")


def _told(value):
    return "(nothing)" if value in (None, "") else value


def discard(cloudformation, change_set):
    """Takes a change set back, and the stack that it would have made."""
    cloudformation.delete_change_set(ChangeSetName=change_set.identity)
    if change_set.creates:
        cloudformation.delete_stack(StackName=change_set.stack)


def execute(cloudformation, change_set, pause=PAUSE):
    """Carries a change set out and waits for its end; gives the stack. A DeployError tells each resource that failed, and why."""
    if not change_set.changes:
        cloudformation.delete_change_set(ChangeSetName=change_set.identity)
        return describe(cloudformation, change_set.stack)
    cloudformation.execute_change_set(ChangeSetName=change_set.identity)
    return settled(cloudformation, change_set.stack, pause)


def settled(cloudformation, stack, pause=PAUSE, seconds=SECONDS, done=_SETTLED):
    """Waits until a stack is at rest, and as it was to be (one of `done`); gives it."""
    deadline = time.monotonic() + seconds
    while (found := cloudformation.describe_stacks(StackName=stack)["Stacks"][0])["StackStatus"].endswith("_IN_PROGRESS"):
        if time.monotonic() > deadline:
            raise DeployError(f"`{stack}` is {found['StackStatus']} for {seconds} s")
        time.sleep(pause)
    if found["StackStatus"] not in done:
        raise DeployError("\n  ".join([f"`{stack}` is {found['StackStatus']}", *failures(cloudformation, stack)]))
    return found


def failures(cloudformation, stack):
    """What failed in a stack, oldest first, each with its reason."""
    events = [event for page in cloudformation.get_paginator("describe_stack_events").paginate(StackName=stack) for event in page["StackEvents"]]
    return [f"{event['LogicalResourceId']}: {event['ResourceStatusReason']}"
            for event in reversed(events) if "FAILED" in event["ResourceStatus"] and event.get("ResourceStatusReason")]
