"""What a gate has logged: the lines of its functions and runners as JSON, and the measurements among them, held against the format."""

import collections
import json

import jsonschema

# CloudWatch's embedded metric format, as its specification has it, and stricter where the gate is: one directive of one metric, a unit,
# and the dimension of the gate in each set.
FORMAT = jsonschema.Draft202012Validator({
    "type": "object", "required": ["_aws"],
    "properties": {"_aws": {
        "type": "object", "required": ["Timestamp", "CloudWatchMetrics"], "additionalProperties": False,
        "properties": {
            "Timestamp": {"type": "integer", "minimum": 1_000_000_000_000, "maximum": 10_000_000_000_000},
            "CloudWatchMetrics": {"type": "array", "minItems": 1, "maxItems": 1, "items": {
                "type": "object", "required": ["Namespace", "Dimensions", "Metrics"], "additionalProperties": False,
                "properties": {
                    "Namespace": {"const": "plangate"},
                    "Dimensions": {"type": "array", "minItems": 1, "uniqueItems": True, "items": {
                        "type": "array", "minItems": 1, "maxItems": 2, "uniqueItems": True, "contains": {"const": "Gate"},
                        "items": {"type": "string", "minLength": 1, "maxLength": 250}}},
                    "Metrics": {"type": "array", "minItems": 1, "maxItems": 1, "items": {
                        "type": "object", "required": ["Name", "Unit"], "additionalProperties": False,
                        "properties": {"Name": {"type": "string", "minLength": 1, "maxLength": 1024}, "Unit": {"enum": ["Count", "Seconds"]}}}}}}}}}}})
# How long a line of the log may be: CloudWatch takes more, and no line of ours needs it.
LONGEST = 16 * 1024

Measured = collections.namedtuple("Measured", "metric value unit by line")


def measured(line):
    """The measurement of a line that is one; an assertion where it is not what the format wants."""
    FORMAT.validate(line)
    directive = line["_aws"]["CloudWatchMetrics"][0]
    metric = directive["Metrics"][0]
    value = line[metric["Name"]]
    assert isinstance(value, (int, float)) and not isinstance(value, bool) and value >= 0, line
    names = {name for each in directive["Dimensions"] for name in each}
    assert all(isinstance(line[name], str) and 0 < len(line[name]) <= 1024 for name in names), line
    rest = names - {"Gate"}
    return Measured(metric["Name"], value, metric["Unit"], line[rest.pop()] if rest else None, line)


def lines(world, since, group="/plangate/functions"):
    """All lines of a log group since a moment (in seconds), in their order; those that Lambda itself writes left out."""
    pages = world.stack.client("logs").get_paginator("filter_log_events").paginate(logGroupName=group, startTime=int(since * 1000))
    found = []
    for event in (event for page in pages for event in page["events"]):
        text = event["message"].strip()
        if text.startswith(("START ", "END ", "REPORT ", "INIT_START ")) or not text:
            continue
        assert len(text) < LONGEST, text[:300]
        line = json.loads(text)
        assert isinstance(line, dict), text
        found.append(line)
    return found


def numbers(found):
    """The measurements among lines."""
    return [measured(line) for line in found if "_aws" in line]
