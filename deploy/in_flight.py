"""Runs in flight, and what an update would take from under them.

An execution keeps the definition that it began with: it calls the functions that stand there, by what they are called, reads from their answers
what it read then, and starts the revision of the runner that stands there. So whatever a definition in flight asks must still be given.
"""

import dataclasses
import json
import re

_ANSWERED = re.compile(r"\$states\.result\.Payload\.(\w+)")
# Errors that AWS names itself; all others are names of ours, which a function gives.
_NOT_OURS = ("States.", "Lambda.", "Runtime.", "Sandbox.", "ECS.")


@dataclasses.dataclass(frozen=True)
class Asked:
    """What a definition asks of one function: the fields that it sends, those that it reads, the errors that it knows by name."""

    sends: frozenset
    reads: frozenset
    errors: frozenset

    def union(self, other):
        """What either asks."""
        return Asked(self.sends | other.sends, self.reads | other.reads, self.errors | other.errors)


@dataclasses.dataclass
class InFlight:
    """The executions that have not ended, by the definition that they began with."""

    definitions: dict

    @classmethod
    def find(cls, states, machines):
        """Asks Step Functions for the executions of these machines, and for the definition of each."""
        definitions = {}
        for machine in machines:
            for page in states.get_paginator("list_executions").paginate(stateMachineArn=machine, statusFilter="RUNNING"):
                for execution in page["executions"]:
                    told = states.describe_state_machine_for_execution(executionArn=execution["executionArn"])
                    definitions.setdefault(told["definition"], []).append(execution["name"])
        return cls(definitions)

    @property
    def runs(self):
        """The runs, sorted."""
        return sorted(run for runs in self.definitions.values() for run in runs)

    def task_definitions(self):
        """The revisions of the runner that they start."""
        return {state["Arguments"]["TaskDefinition"] for text in self.definitions for state in _states(text) if "TaskDefinition" in state.get("Arguments", {})}

    def functions(self):
        """The ARNs of the functions that they call."""
        return {state["Arguments"]["FunctionName"] for text in self.definitions for state in _states(text) if "FunctionName" in state.get("Arguments", {})}

    def lacks(self, definition):
        """What they ask that the functions of a release with this definition need not give any more, as lines for people."""
        given, lacking = asked(definition), {}
        for text, runs in self.definitions.items():
            for line in missing(asked(text), given):
                lacking.setdefault(line, []).extend(runs)
        return [f"{line}: {', '.join(sorted(runs)[:5])}{' and more' if len(runs) > 5 else ''}" for line, runs in sorted(lacking.items())]

    def loses(self, change_set):
        """The functions that they call and that a change set takes away."""
        called = {arn.split(":")[6] for arn in self.functions()}
        return [f"{change['LogicalResourceId']} would be {'removed' if change['Action'] == 'Remove' else 'replaced'}"
                for change in change_set.lost() if change["ResourceType"] == "AWS::Lambda::Function" and change.get("PhysicalResourceId") in called]


def asked(definition):
    """What a definition asks, by function: `request-approval`, however the definition names it."""
    found = {}
    for state in _states(definition):
        arguments = state.get("Arguments", {})
        if "FunctionName" not in arguments:
            continue
        payload = arguments.get("Payload", {})
        routed = [name for rule in (*state.get("Catch", []), *state.get("Retry", [])) for name in rule["ErrorEquals"]]
        one = Asked(frozenset(payload if isinstance(payload, dict) else [payload]), frozenset(_ANSWERED.findall(json.dumps(state))),
                    frozenset(name for name in routed if not name.startswith(_NOT_OURS)))
        name = function_name(arguments["FunctionName"])
        found[name] = one.union(found[name]) if name in found else one
    return found


def missing(before, after):
    """What one definition asks and another does not, as lines for people."""
    for name, one in sorted(before.items()):
        if name not in after:
            yield f"nothing calls the function `{name}` any more"
            continue
        for what, old, new in (("is sent", one.sends, after[name].sends), ("answers", one.reads, after[name].reads), ("fails by the name of", one.errors, after[name].errors)):
            yield from (f"`{name}` {what} `{field}` no longer" for field in sorted(old - new))


def function_name(name):
    """`request-approval` of `${RequestApprovalFunction}` and of `arn:aws:lambda:...:function:plangate-request-approval`."""
    if placeholder := re.fullmatch(r"\$\{(\w+)Function\}", name):
        return re.sub("(?<!^)(?=[A-Z])", "-", placeholder[1]).lower()
    return name.split(":")[6].split("-", 1)[1] if name.startswith("arn:") else name


def _states(definition):
    return json.loads(definition)["States"].values()
