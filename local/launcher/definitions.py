"""What a state machine may ask of ecs:runTask.

AWS: the integration takes a part of RunTask's parameters; a definition that names another (StartedBy, which Step Functions sets itself) is no
definition. The emulator passes everything on.
"""

import json

from ministack.core.responses import error_response_json
from ministack.services import stepfunctions as sf
from ministack.services.cloudformation import provisioners

from . import pass_role

TAKEN = {
    "CapacityProviderStrategy", "Cluster", "EnableECSManagedTags", "EnableExecuteCommand", "Group", "LaunchType", "NetworkConfiguration", "Overrides",
    "PlacementConstraints", "PlacementStrategy", "PlatformVersion", "PropagateTags", "Tags", "TaskDefinition",
}


def install():
    """Puts the supplement in place, around what is there already."""
    create, update = sf._create_state_machine, sf._update_state_machine
    sf._create_state_machine = lambda data: refusal(data) or create(data)
    sf._update_state_machine = lambda data: refusal(data) or update(data)
    handlers = provisioners._RESOURCE_HANDLERS["AWS::StepFunctions::StateMachine"]
    handlers["create"] = pass_role._checked(handlers["create"], lambda properties: problem(provisioners._sfn_definition(properties)))


def refusal(data):
    """The answer to Create- or UpdateStateMachine if the definition asks for more; None if it does not."""
    found = problem(data.get("definition") or "{}")
    return error_response_json("InvalidDefinition", found, 400) if found else None


def problem(definition):
    """What a definition asks for and cannot have; None if there is nothing."""
    try:
        states = list(task_states(json.loads(definition)))
    except ValueError:
        return None  # the emulator says so itself
    for name, state in states:
        if (field := unsupported(state.get("Arguments") or state.get("Parameters") or {})) is not None:
            return f"Invalid State Machine Definition: 'SCHEMA_VALIDATION_FAILED: The field \"{field}\" is not supported by Step Functions at /States/{name}'"
    return None


def unsupported(arguments):
    """A field of these arguments that ecs:runTask does not take; None if there is none, or if they are still to be computed."""
    names = arguments if isinstance(arguments, dict) else {}
    return next((name for name in sorted(names) if name.removesuffix(".$") not in TAKEN), None)


def task_states(part):
    """Every state of a definition that runs a task of ECS, however deep, with its name."""
    for name, state in (part.get("States") or {}).items():
        if str(state.get("Resource", "")).startswith("arn:aws:states:::ecs:runTask"):
            yield name, state
        for inner in [*(state.get("Branches") or []), state.get("ItemProcessor") or {}, state.get("Iterator") or {}]:
            yield from task_states(inner)
