"""Step Functions: executions act as their role, wait as long as they were told, and end when they are ended.

AWS: a state machine calls services under its execution role; StartExecution with the same name and input is idempotent while
the execution runs; a stopped execution stays stopped; TimeoutSeconds of the machine ends it as TIMED_OUT; a state's TimeoutSeconds
may be a JSONata expression or, as TimeoutSecondsPath, come from the input; DescribeStateMachineForExecution tells the definition and the role
that an execution began with. The emulator: calls as root, refuses the repeated start, lets a failure overwrite ABORTED, takes numbers only, and
tells the definition that the machine has now.
"""

import contextvars
import dataclasses
import json
import threading

from ministack.core.responses import get_account_id, get_region, json_response, now_iso
from ministack.services import stepfunctions as sf

from . import callback, redrive, roles, run_task

MAXIMUM_SECONDS = 99_999_999

_execute_task, _fail_execution, _run_execution, _add_event = (
    sf._execute_task, sf._fail_execution, sf._run_execution, sf._add_event)
_start_execution, _stop_execution, _invoke_resource = sf._start_execution, sf._stop_execution, sf._invoke_resource
_describe_state_machine_for_execution = sf._describe_state_machine_for_execution
# By the execution's ARN, what its machine was when it began.
_begun = {}
_TERMINAL_EVENTS = ("ExecutionAborted", "ExecutionTimedOut", "ExecutionFailed", "ExecutionSucceeded")


class ExecutionEnded(SystemExit):
    """Leaves the thread of an execution that has been stopped: no Catch and no Retry applies."""


@dataclasses.dataclass
class Attempt:
    """The state that a thread is working at."""

    execution: dict
    role: str
    state: dict
    raw_input: object
    context: dict
    # Set when the state's time is up, so that what it started can be stopped.
    over: threading.Event = dataclasses.field(default_factory=threading.Event)

    def ended(self):
        """Whether there is nobody left to work for."""
        return self.over.is_set() or self.execution["status"] != "RUNNING"

    def require(self, action, resource, error, context=None):
        """Fails the state with the service's error name unless the execution role may do this."""
        try:
            roles.require(self.role, self.execution["name"][:64], action, resource, context)
        except roles.AccessDenied as denied:
            raise sf._ExecutionError(error, str(denied)) from None

    def seconds(self):
        """What the state's TimeoutSeconds or TimeoutSecondsPath comes to; None if it has neither."""
        if "TimeoutSecondsPath" in self.state:
            value = sf._resolve_path_or_ctx(self.state["TimeoutSecondsPath"], self.raw_input, self.context)
        elif "TimeoutSeconds" not in self.state:
            return None
        elif sf._state_query_language(self.state, self.context) == "JSONata":
            value = sf._jsonata_state_field(self.state, "TimeoutSeconds", "number", self.raw_input, self.context)
        else:
            value = self.state["TimeoutSeconds"]
        if not sf._is_num(value) or value != int(value) or not 0 < value <= MAXIMUM_SECONDS:
            name = "States.QueryEvaluationError" if "TimeoutSeconds" in self.state else "States.Runtime"
            raise sf._ExecutionError(name, f"TimeoutSeconds must be a whole number from 1 to {MAXIMUM_SECONDS}, not {value}")
        return int(value)


current = contextvars.ContextVar("attempt")


def install():
    """Puts the supplements in place."""
    sf._execute_task = execute_task
    sf._invoke_resource = invoke_resource
    sf._invoke_resource_with_timeout = invoke_resource_with_timeout
    sf._invoke_with_callback = invoke_with_callback
    sf._run_execution = run_execution
    sf._fail_execution = fail_execution
    sf._add_event = add_event
    sf._start_execution = start_execution
    sf._stop_execution = stop_execution
    sf._describe_state_machine_for_execution = describe_state_machine_for_execution
    callback.install()
    redrive.install()


def execute_task(state, raw_input, execution, context):
    """A Task state, with what the attempt needs to know at hand."""
    if (goes_on := redrive.entered(execution, raw_input, context)) is not None:
        return goes_on
    machine = sf._state_machines.get(execution["stateMachineArn"]) or {}
    if "TimeoutSecondsPath" in state:
        # The emulator looks at this field alone to decide whether the state has a timeout.
        state = {**state, "TimeoutSeconds": None}
    attempt = Attempt(execution, machine.get("roleArn", ""), state, raw_input, context)
    if "TimeoutSecondsPath" in state:
        attempt.state = {key: value for key, value in state.items() if key != "TimeoutSeconds"}
    token = current.set(attempt)
    try:
        return _execute_task(state, raw_input, execution, context)
    finally:
        current.reset(token)


def invoke_resource(resource, data):
    """One call of a service, under the execution role."""
    attempt = current.get()
    if resource.startswith("arn:aws:states:::ecs:runTask"):
        return run_task.invoke(attempt, data, wait=resource.endswith(".sync"))
    if resource == "arn:aws:states:::lambda:invoke" or ":function:" in resource:
        require_function(attempt, resource, data)
        return _invoke_resource(resource, data)
    raise not_checked(resource)


def require_function(attempt, resource, data):
    """Fails the state unless the execution role may call the function."""
    function = data.get("FunctionName", "") if "states:::lambda:invoke" in resource else resource
    if not function.startswith("arn:"):
        function = f"arn:aws:lambda:{get_region()}:{get_account_id()}:function:{function}"
    attempt.require("lambda:InvokeFunction", function, "Lambda.AWSLambdaException")


def not_checked(resource):
    """The refusal of an integration that would run as root."""
    return sf._ExecutionError("States.Runtime", f"{resource}: the laptop stack checks the execution role for lambda and ecs:runTask alone")


def invoke_resource_with_timeout(resource, data, _):
    """A service call with a time limit; what it started is told when the time is up."""
    # A retry is another call: the end of this one must not be its end.
    attempt = dataclasses.replace(current.get(), over=threading.Event())
    seconds = attempt.seconds()
    outcome, done = {}, threading.Event()

    def work():
        current.set(attempt)
        try:
            outcome["result"] = sf._invoke_resource(resource, data)
        except BaseException as error:  # carried over to the thread that waits
            outcome["error"] = error
        done.set()

    threading.Thread(target=contextvars.copy_context().run, args=(work,), daemon=True, name="task").start()
    if not done.wait(seconds):
        attempt.over.set()
        raise sf._ExecutionError("States.Timeout", f"Task timed out after {seconds} seconds")
    if "error" in outcome:
        raise outcome["error"]
    return outcome["result"]


def invoke_with_callback(resource, data, token, _):
    """A `.waitForTaskToken` state."""
    attempt = current.get()
    service = resource.removesuffix(".waitForTaskToken")
    if service != "arn:aws:states:::lambda:invoke":
        raise not_checked(resource)
    require_function(attempt, service, data)
    try:
        return callback.wait(attempt, data, token, attempt.seconds())
    finally:
        # Each attempt of a Retry has a token of its own.
        attempt.context["Task"]["Token"] = sf.new_uuid()


def leave_if_ended(attempt):
    """Leaves the thread if the execution has been stopped meanwhile."""
    if attempt.execution["status"] != "RUNNING":
        raise ExecutionEnded


def run_execution(execution_arn):
    """An execution from start to end, with the time limit of its machine."""
    execution = sf._executions.get(execution_arn)
    machine = sf._state_machines.get(execution["stateMachineArn"]) if execution else None
    limit = json.loads(machine["definition"]).get("TimeoutSeconds") if machine else None
    if limit:
        timer = threading.Timer(limit, contextvars.copy_context().run, (time_out, execution))
        timer.daemon = True
        timer.start()
    _run_execution(execution_arn)


def time_out(execution):
    """Ends an execution whose machine's TimeoutSeconds have passed."""
    if execution["status"] != "RUNNING":
        return
    execution.update(status="TIMED_OUT", stopDate=now_iso(), error="States.Timeout", cause="")
    sf._add_event(execution, "ExecutionTimedOut", {"executionTimedOutEventDetails": {"error": "States.Timeout"}})
    sf._emit_execution_status_event(execution)
    callback.wake(execution["executionArn"])


def fail_execution(execution, error, cause):
    """A failure; one that comes after the end changes nothing."""
    if execution["status"] == "RUNNING":
        _fail_execution(execution, error, cause)


def add_event(execution, event_type, details=None):
    """Adds to an execution's history, which its end closes."""
    last = execution["events"][-1] if execution["events"] else {}
    return last if last.get("type") in _TERMINAL_EVENTS or redrive.unsaid(execution) else _add_event(execution, event_type, details)


def start_execution(data):
    """StartExecution, idempotent by name and input while the execution runs; what it begins with is remembered."""
    status, headers, body = _start_execution(data)
    told = json.loads(body)
    if status == 400 and told.get("__type") == "ExecutionAlreadyExists":
        machine = sf._state_machines[sf._resolve_state_machine_arn(data["stateMachineArn"])]
        arn = f"arn:aws:states:{get_region()}:{get_account_id()}:execution:{machine['name']}:{data['name']}"
        running = sf._executions.get(arn)
        if running["status"] == "RUNNING" and running["input"] == data.get("input", "{}"):
            return json_response({"executionArn": arn, "startDate": running["startDate"]})
    if status == 200:
        machine = sf._state_machines[sf._executions[told["executionArn"]]["stateMachineArn"]]
        _begun[told["executionArn"]] = {name: machine[name] for name in ("definition", "roleArn")}
    return status, headers, body


def describe_state_machine_for_execution(data):
    """DescribeStateMachineForExecution, with what the execution began with."""
    status, headers, body = _describe_state_machine_for_execution(data)
    return (status, headers, body) if status != 200 else json_response({**json.loads(body), **_begun.get(data.get("executionArn"), {})})


def stop_execution(data):
    """StopExecution; whoever waits for a callback is woken."""
    response = _stop_execution(data)
    callback.wake(data.get("executionArn"))
    return response
