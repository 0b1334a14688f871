"""Task tokens: `.waitForTaskToken` states and the calls that answer them.

AWS: if the function that received the token fails, the state fails with the function's error at once; the first answer counts, and a
token that was answered or has expired is TaskTimedOut; HeartbeatSeconds is kept. The emulator: swallows the function's failure, lets the
last of two quick answers win, says TaskDoesNotExist, and ignores heartbeats.
"""

import contextvars
import json
import threading
import time

from ministack.core.responses import error_response_json, json_response
from ministack.services import stepfunctions as sf

_condition = threading.Condition()
_closed = set()


def install():
    """Puts the supplements in place."""
    sf._send_task_success = send_task_success
    sf._send_task_failure = send_task_failure
    sf._send_task_heartbeat = send_task_heartbeat


def wait(attempt, data, token, seconds):
    """Calls the function and waits for the token's answer; gives the answer's output."""
    from . import workflow

    task = {"event": threading.Event(), "answer": None, "execution": attempt.execution["executionArn"], "beat": time.monotonic()}
    heartbeat = attempt.state.get("HeartbeatSeconds")
    with _condition:
        sf._task_tokens[token] = task
    threading.Thread(
        target=contextvars.copy_context().run, args=(_call, data, task), daemon=True, name="waitForTaskToken").start()
    deadline = None if seconds is None else time.monotonic() + seconds
    try:
        with _condition:
            while task["answer"] is None and not attempt.ended():
                limits = [limit for limit in (deadline, heartbeat and task["beat"] + heartbeat) if limit]
                left = min(limits) - time.monotonic() if limits else None
                if left is not None and left <= 0:
                    late = deadline is not None and time.monotonic() >= deadline
                    raise sf._ExecutionError("States.Timeout" if late else "States.HeartbeatTimeout", "")
                _condition.wait(left)
    finally:
        with _condition:
            sf._task_tokens.pop(token, None)
            _closed.add(token)
    workflow.leave_if_ended(attempt)
    if isinstance(task["answer"], sf._ExecutionError):
        raise task["answer"]
    return task["answer"][0]


def _call(data, task):
    """Calls the function; what it returns means nothing, a failure ends the wait."""
    try:
        function = sf._resolve_lambda_function_ref(data.get("FunctionName", ""), optimized=True)
        sf._call_lambda(function, data.get("Payload", {}))
    except sf._ExecutionError as error:
        _answer(task, error)
    except Exception as error:  # the emulator itself failed: say so rather than wait for ever
        _answer(task, sf._ExecutionError("Lambda.Unknown", str(error)))


def _answer(task, answer):
    with _condition:
        if task["answer"] is not None:
            return False
        task["answer"] = answer
        _condition.notify_all()
        return True


def wake(execution_arn):
    """Lets those who wait for a callback in this execution see that it has ended."""
    with _condition:
        _condition.notify_all()


def _respond(token, answer):
    task = sf._task_tokens.get(token)
    if task is not None and _answer(task, answer):
        return json_response({})
    if task is not None or token in _closed:
        return error_response_json("TaskTimedOut", "Task Timed Out: 'Provided task does not exist anymore'", 400)
    return error_response_json("InvalidToken", "Invalid Token: 'Invalid token'", 400)


def send_task_success(data):
    """SendTaskSuccess."""
    try:
        output = json.loads(data.get("output", ""))
    except ValueError:
        return error_response_json("InvalidOutput", "Invalid Output: the output is not JSON", 400)
    return _respond(data.get("taskToken"), (output,))


def send_task_failure(data):
    """SendTaskFailure."""
    error = sf._ExecutionError(data.get("error") or "States.TaskFailed", data.get("cause") or "")
    return _respond(data.get("taskToken"), error)


def send_task_heartbeat(data):
    """SendTaskHeartbeat."""
    task = sf._task_tokens.get(data.get("taskToken"))
    if task is None:
        return _respond(data.get("taskToken"), None)
    with _condition:
        task["beat"] = time.monotonic()
    return json_response({})
