"""iam:PassRole, and whether a role trusts the service that it is passed to.

AWS: whoever gives a role to a service needs iam:PassRole on it, narrowed by iam:PassedToService; Lambda, Step Functions and Scheduler
refuse a role that does not trust them; and the role of a state machine with `.sync` tasks must be allowed the events rule that Step Functions
keeps for them. The emulator checks none of this, for templates no more than for direct calls.
"""

import re
import urllib.parse

from ministack.core.responses import error_response_json, get_account_id, get_region
from ministack.services import lambda_svc, scheduler
from ministack.services import stepfunctions as sf
from ministack.services.cloudformation import provisioners

from . import roles, tasks

ECS_TASKS = "ecs-tasks.amazonaws.com"
MANAGED_RULE = "StepFunctionsGetEventsForECSTaskRule"


def _members(*names):
    return lambda request: [value for value in map(request.json().get, names) if isinstance(value, str) and value]


def _target(request):
    return [target["RoleArn"] for target in [request.json().get("Target") or {}] if target.get("RoleArn")]


def _targets(request):
    return [target["RoleArn"] for target in request.json().get("Targets") or [] if target.get("RoleArn")]


def _form(request):
    return urllib.parse.parse_qs(request.body.decode("utf-8", "replace")).get("RoleARN", [])


# Which roles a request passes, and to which service.
PASSED = {
    "states:CreateStateMachine": (_members("roleArn"), "states.amazonaws.com"),
    "states:UpdateStateMachine": (_members("roleArn"), "states.amazonaws.com"),
    "lambda:CreateFunction": (_members("Role"), "lambda.amazonaws.com"),
    "lambda:UpdateFunctionConfiguration": (_members("Role"), "lambda.amazonaws.com"),
    "ecs:RegisterTaskDefinition": (_members("taskRoleArn", "executionRoleArn"), ECS_TASKS),
    "ecs:RunTask": (lambda request: tasks.task_roles(request.json()), ECS_TASKS),
    "scheduler:CreateSchedule": (_target, "scheduler.amazonaws.com"),
    "scheduler:UpdateSchedule": (_target, "scheduler.amazonaws.com"),
    "events:PutTargets": (_targets, "events.amazonaws.com"),
    "cloudformation:CreateStack": (_form, "cloudformation.amazonaws.com"),
    "cloudformation:UpdateStack": (_form, "cloudformation.amazonaws.com"),
    "cloudformation:CreateChangeSet": (_form, "cloudformation.amazonaws.com"),
}

_create_function, _create_state_machine, _update_state_machine = (
    lambda_svc._create_function, sf._create_state_machine, sf._update_state_machine)
_create_schedule = scheduler._create_schedule


def install():
    """Puts the supplements in place."""
    lambda_svc._create_function = create_function
    sf._create_state_machine = lambda data: machine_refusal(data) or _create_state_machine(data)
    sf._update_state_machine = lambda data: machine_refusal(data) or _update_state_machine(data)
    scheduler._create_schedule = create_schedule
    for kind, check in (("AWS::Lambda::Function", _function_resource), ("AWS::StepFunctions::StateMachine", _machine_resource),
                        ("AWS::Scheduler::Schedule", _schedule_resource)):
        handlers = provisioners._RESOURCE_HANDLERS[kind]
        handlers["create"] = _checked(handlers["create"], check)


def permissions(action, request):
    """The iam:PassRole checks of a request."""
    passed, service = PASSED.get(action, (None, None))
    return [("iam:PassRole", role, {"iam:PassedToService": service}) for role in passed(request)] if passed else []


def _trusted(role, service, source):
    return roles.trusts(role, f"{service}.amazonaws.com", f"arn:aws:{service}:{get_region()}:{get_account_id()}:{source}")


# -- Lambda ------------------------------------------------------------------------------------------------------------

LAMBDA_REFUSAL = "The role defined for the function cannot be assumed by Lambda."


def create_function(data, *rest):
    """CreateFunction, refused if the role does not trust Lambda."""
    if data.get("Role") and not _trusted(data["Role"], "lambda", f"function:{data.get('FunctionName', '')}"):
        return error_response_json("InvalidParameterValueException", LAMBDA_REFUSAL, 400)
    return _create_function(data, *rest)


def _function_resource(properties):
    return None if _trusted(properties["Role"], "lambda", f"function:{properties.get('FunctionName', '')}") else LAMBDA_REFUSAL


# -- Step Functions ----------------------------------------------------------------------------------------------------

def machine_problem(role, name, definition):
    """Why Step Functions would not take this role for this definition; None if it would."""
    if not _trusted(role, "states", f"stateMachine:{name}"):
        return "Neither the global service principal states.amazonaws.com, nor the regional one is authorized to assume the provided role."
    if re.search(r'"arn:aws[\w-]*:states:::ecs:runTask\.sync"', definition):
        rule = f"arn:aws:events:{get_region()}:{get_account_id()}:rule/{MANAGED_RULE}"
        try:
            for action in ("events:PutTargets", "events:PutRule", "events:DescribeRule"):
                roles.require(role, "states", action, rule)
        except roles.AccessDenied:
            return f"'{role}' is not authorized to create managed-rule."
    return None


def machine_refusal(data):
    """The answer to Create- or UpdateStateMachine if the role will not do; None if it will."""
    known = sf._state_machines.get(data.get("stateMachineArn", "")) or {}
    role, definition = data.get("roleArn") or known.get("roleArn"), data.get("definition") or known.get("definition") or ""
    problem = machine_problem(role, data.get("name") or known.get("name"), definition) if role else None
    return error_response_json("AccessDeniedException", problem, 400) if problem else None


def _machine_resource(properties):
    return machine_problem(properties["RoleArn"], properties.get("StateMachineName", ""), provisioners._sfn_definition(properties))


# -- Scheduler ---------------------------------------------------------------------------------------------------------

SCHEDULER_REFUSAL = "The execution role you provide must allow AWS EventBridge Scheduler to assume the role."


def create_schedule(name, body):
    """CreateSchedule, refused if the role does not trust Scheduler."""
    role = (body.get("Target") or {}).get("RoleArn")
    if role and not _trusted(role, "scheduler", f"schedule/{body.get('GroupName', 'default')}/{name}"):
        return scheduler._error(400, "ValidationException", SCHEDULER_REFUSAL)
    return _create_schedule(name, body)


def _schedule_resource(properties):
    role, name = properties["Target"]["RoleArn"], properties.get("Name", "")
    trusted = _trusted(role, "scheduler", f"schedule/{properties.get('GroupName', 'default')}/{name}")
    return None if trusted else SCHEDULER_REFUSAL


# -- CloudFormation ----------------------------------------------------------------------------------------------------

def _checked(create, problem):
    def checked(logical_id, properties, stack_name):
        if (reason := problem(properties)) is not None:
            raise ValueError(reason)
        return create(logical_id, properties, stack_name)
    return checked
