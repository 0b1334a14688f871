"""RedriveExecution: an execution that did not succeed goes on where it was.

AWS: an execution that has failed, timed out or was ended by hand runs again, under its name and with its input and variables, from the
state that it did not get through; its history goes on. The emulator: no such call. Here for machines whose states that fail are tasks.
"""

import contextvars
import copy
import json
import threading

from ministack.core.responses import error_response_json, json_response, now_iso
from ministack.services import stepfunctions as sf

_handle_request, _add_event = sf.handle_request, sf._add_event


def install():
    """Puts the supplement in place."""
    sf.handle_request = handle_request


async def handle_request(method, path, headers, body, query_params):
    """The emulator's own, with one more call."""
    if headers.get("x-amz-target", "").endswith(".RedriveExecution"):
        return sf._finalize_response(redrive_execution(json.loads(body or b"{}")))
    return await _handle_request(method, path, headers, body, query_params)


def redrive_execution(data):
    """RedriveExecution."""
    arn = data.get("executionArn")
    ended = sf._executions.get(arn)
    if ended is None:
        return error_response_json("ExecutionDoesNotExist", f"Execution Does Not Exist: '{arn}'", 400)
    if ended["status"] not in ("FAILED", "ABORTED", "TIMED_OUT") or "left" not in ended:
        return error_response_json("ExecutionNotRedrivable", f"Execution is {ended['status']} and cannot be redriven", 400)
    # Another record: a thread that still works at the old one sees that it has ended.
    execution = {**ended, "status": "RUNNING", "stopDate": None, "output": None, "events": [*ended["events"]], "again": True, "unsaid": 2}
    for name in ("error", "cause"):
        execution.pop(name, None)
    sf._executions[arn] = execution
    count = execution["redrives"] = ended.get("redrives", 0) + 1
    _add_event(execution, "ExecutionRedriven", {"executionRedrivenEventDetails": {"redriveCount": count}})
    sf._emit_execution_status_event(execution)
    threading.Thread(target=contextvars.copy_context().run, args=(sf._run_execution, arn), daemon=True, name="redrive").start()
    return json_response({"redriveDate": now_iso()})


def entered(execution, raw_input, context):
    """Notes the task that an execution is in. Where it was redriven, gives where it goes on instead, as (input, name); else None."""
    if execution.pop("again", False):
        name, raw_input, variables = execution["left"]
        context["variables"].update(copy.deepcopy(variables))
        return raw_input, name
    execution["left"] = (context["State"]["Name"], raw_input, copy.deepcopy(context["variables"]))
    return None


def unsaid(execution):
    """Whether the next event is not for the history: the emulator enters and leaves the first state before it goes on."""
    left = execution.get("unsaid", 0)
    execution["unsaid"] = max(0, left - 1)
    return left > 0
