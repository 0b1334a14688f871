"""Batches of a table's stream of which a function takes a part.

AWS: where a mapping says ReportBatchItemFailures, a function may answer with the sequence number of the record that it could not take, and
gets the batch again from that record on. The emulator: whatever is answered without an error has been taken.
"""

import json
import logging

from ministack.core.arn import parse_arn
from ministack.services import dynamodb, lambda_svc

logger = logging.getLogger("local.streams")
_execute_function = lambda_svc._execute_function


def install():
    """Puts the supplement in place."""
    lambda_svc._execute_function = execute_function


def execute_function(func, event):
    """The emulator's own; a batch that was taken in part has failed, and begins later the next time."""
    result = _execute_function(func, event)
    records = event.get("Records") if isinstance(event, dict) else None
    if result.get("error") or not records or records[0].get("eventSource") != "aws:dynamodb":
        return result
    mapping, failed = _mapping(func, records[0]), _failures(result.get("body"))
    if mapping is None or not failed:
        return result
    _begin_at(mapping, records, failed)
    logger.warning("%s could not take %s of its stream", mapping["FunctionName"], failed)
    return {"error": True, "body": {"errorType": "BatchItemFailures", "errorMessage": f"from {failed[0]} on"}, "log": result.get("log", "")}


def _mapping(func, record):
    """The mapping that brought the record, if it lets the function answer so."""
    name = (func.get("config") or func)["FunctionName"]
    for _, _, mapping in lambda_svc._iter_all_esms():
        if (mapping["FunctionName"], mapping["EventSourceArn"]) == (name, record.get("eventSourceARN")):
            return mapping if "ReportBatchItemFailures" in (mapping.get("FunctionResponseTypes") or []) else None
    return None


def _failures(body):
    """The sequence numbers in an answer, least first; an answer of another form names none."""
    try:
        answer = json.loads(body) if isinstance(body, (str, bytes)) else body
        return sorted((failure["itemIdentifier"] for failure in (answer or {}).get("batchItemFailures") or []), key=int)
    except (AttributeError, KeyError, TypeError, ValueError):
        return []


def _begin_at(mapping, records, failed):
    """Moves the mapping's place in the stream to the first record that failed; AWS takes the whole batch for failed if none has the number."""
    if failed[0] not in {record["dynamodb"]["SequenceNumber"] for record in records}:
        return
    table = parse_arn(mapping["EventSourceArn"]).resource.split("/")[1]
    position = lambda_svc._dynamodb_stream_positions[mapping["UUID"]]
    for raw in dynamodb.stream_records_since(table, position, int(mapping.get("BatchSize", 100))):
        if raw["dynamodb"]["SequenceNumber"] == failed[0]:
            break
        position += 1
    lambda_svc._dynamodb_stream_positions[mapping["UUID"]] = position
