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


def steps(events):
    """How long each call of a function took, in seconds, as the execution's history has it."""
    found, begun = [], None
    for event in events:
        if event["type"] == "TaskScheduled":
            begun = event["timestamp"] if event["taskScheduledEventDetails"]["resourceType"] == "lambda" else None
        elif event["type"] in ("TaskSucceeded", "TaskFailed") and begun is not None:
            found.append((event["timestamp"] - begun).total_seconds())
            begun = None
    return found


def price(stack, events, calls, prices):
    """Dollars for a run with this history and these calls, by service."""
    functions = stack.client("lambda").list_functions()["Functions"]
    memory = max(function["MemorySize"] for function in functions) / KILOBYTE
    took = steps(events)
    requests = sum("IDENTITY#" in call.site for call in calls)  # each begins with who asks
    followed = 2 * sum(call.process == "plangate-archive" for call in calls)  # archive and announce, at most once an event
    invocations = len(took) + requests + followed
    busy = invocations * sum(took) / len(took)  # the others take no longer than a step
    table = [call for call in calls if call.service == "dynamodb"]
    writes = sum(2 * (math.ceil(call.sent / KILOBYTE) + len(re.findall(r" \w+\(", call.site))) for call in table if "Transact" in call.operation)
    reads = sum(max(1, math.ceil(call.received / (4 * KILOBYTE)), call.site.count(" ")) for call in table if "Transact" not in call.operation)
    store = [call for call in calls if call.service == "s3"]
    put = sum("Put" in call.operation or "PUT" in call.operation for call in store)
    sign = sum(call.operation == "kms.Sign" for call in calls)
    return {
        "Step Functions": transitions(events) * prices["step_functions"]["transition"],
        "Lambda": invocations * prices["lambda"]["request"] + busy * memory * prices["lambda"]["gigabyte_second"],
        "DynamoDB": writes * prices["dynamodb"]["write_unit"] + reads * prices["dynamodb"]["read_unit"],
        "S3": put * prices["s3"]["write"] + (len(store) - put) * prices["s3"]["read"],
        "KMS": sign * prices["kms"]["asymmetric"] + 2 * len(store) * prices["kms"]["symmetric"],
        "API Gateway": requests * prices["api_gateway"]["request"],
    }


def table(calls, transitions, price):
    """What is printed."""
    lines = [f"transitions {transitions}", f"calls of AWS {len(calls)}"]
    lines += [f"   {name:16} {count:4}" for name, count in [*by_group(calls).most_common(), *by_service(calls)]]
    sent, received = sum(call.sent for call in calls), sum(call.received for call in calls)
    lines += [f"bytes sent {sent}, received {received}"]
    lines += [f"dollars for a thousand runs {1000 * sum(price.values()):.2f}"]
    lines += [f"   {service:15} {1000 * dollars:8.3f}" for service, dollars in price.items()]
    return "\n".join(lines)
