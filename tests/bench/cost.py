"""What a run costs at list prices (prices.json): counted on the stack, the units as AWS counts them.

DynamoDB counts a write by each begun kilobyte of an item, twice in a transaction; what is told here is the most that it can be, from the
bytes that were sent. Lambda's seconds are this machine's. What lies still (storage), the tasks' seconds, which are the engine's, and logs are not in it.
"""

import math
import re

from .calls import by_group, by_service

KILOBYTE = 1024


def history(stack, run):
    """The events of a run's execution."""
    pages = stack.client("stepfunctions").get_paginator("get_execution_history").paginate(executionArn=run.execution)
    return [event for page in pages for event in page["events"]]


def transitions(events):
    """How many states an execution with this history has entered: what Step Functions bills."""
    return sum(event["type"].endswith("StateEntered") for event in events)


def _seconds(events, started, ended):
    """The seconds between each event that ends something and the one that began it."""
    total, open_since = 0.0, None
    for event in events:
        if event["type"] in started:
            open_since = event["timestamp"]
        elif event["type"] in ended and open_since is not None:
            total += (event["timestamp"] - open_since).total_seconds()
            open_since = None
    return total


def price(stack, events, calls, prices):
    """Dollars for a run with this history and these calls, by service."""
    functions = stack.client("lambda").list_functions()["Functions"]
    memory = max(function["MemorySize"] for function in functions) / KILOBYTE
    invocations = sum(event["type"] == "LambdaFunctionScheduled" or event["type"] == "TaskScheduled" for event in events)
    busy = _seconds(events, {"TaskScheduled", "LambdaFunctionScheduled"}, {"TaskSucceeded", "LambdaFunctionSucceeded", "TaskFailed"})
    api = [call for call in calls if call.process == "plangate-api"]
    table = [call for call in calls if call.service == "dynamodb"]
    writes = sum(2 * (math.ceil(call.sent / KILOBYTE) + len(re.findall(r" \w+\(", call.site))) for call in table if "Transact" in call.operation)
    reads = sum(max(1, math.ceil(call.received / (4 * KILOBYTE)), call.site.count(" ")) for call in table if "Transact" not in call.operation)
    store = [call for call in calls if call.service == "s3"]
    put = sum("Put" in call.operation or "PUT" in call.operation for call in store)
    sign = sum(call.operation == "kms.Sign" for call in calls)
    return {
        "Step Functions": transitions(events) * prices["step_functions"]["transition"],
        "Lambda": (invocations + len(api)) * prices["lambda"]["request"] + busy * memory * prices["lambda"]["gigabyte_second"],
        "DynamoDB": writes * prices["dynamodb"]["write_unit"] + reads * prices["dynamodb"]["read_unit"],
        "S3": put * prices["s3"]["write"] + (len(store) - put) * prices["s3"]["read"],
        "KMS": sign * prices["kms"]["asymmetric"] + 2 * len(store) * prices["kms"]["symmetric"],
        "API Gateway": 3 * prices["api_gateway"]["request"],
    }


def table(calls, transitions, price):
    """What is printed."""
    lines = [f"transitions {transitions}", f"calls of AWS {len(calls)}"]
    lines += [f"   {name:16} {count:4}" for name, count in [*by_group(calls), *by_service(calls)]]
    sent, received = sum(call.sent for call in calls), sum(call.received for call in calls)
    lines += [f"bytes sent {sent}, received {received}"]
    lines += [f"dollars for a thousand runs {1000 * sum(price.values()):.2f}"]
    lines += [f"   {service:15} {1000 * dollars:8.3f}" for service, dollars in price.items()]
    return "\n".join(lines)
