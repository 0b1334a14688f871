"""The numbers of a gate: what its functions measure of a story is true, each line of a run names it, and all that can be measured is."""

import collections
import contextlib
import datetime
import http.client
import json
import time
import urllib.parse

from gate import wait_until
from logged import lines, measured, numbers
from mischief import said

from local.stack import ROOT

# The functions that each have a part in the life of an applied run.
STEPS = {"admit", "prepare", "intake", "project", "guard", "request-approval", "authorize", "conclude"}
# What happens in no story here, with the tests that show that it is told.
ELSEWHERE = {"RunsReaped", "LocksClosed", "NotificationsFailed", "AuditTampering"}  # shared/record/src/tests: watched.rs, notices.rs
ELIGIBLE = 'variable "database_password" {\n  type      = string\n  sensitive = true\n}\nresource "terraform_data" "one" {\n  input = 1\n}\n'


def seconds(earlier, later):
    return (datetime.datetime.fromisoformat(later) - datetime.datetime.fromisoformat(earlier)).total_seconds()


def told(found, run):
    """What was measured of a run: how often, or how long, by metric and what tells it apart."""
    of_it = collections.Counter()
    for each in numbers(found):
        if each.line.get("run") == run.id:
            assert each.line["workspace"] == run.workspace.id, each.line
            of_it[each.metric, each.by] += each.value
    return of_it


def call(world, function, event):
    """Calls a function as its workflow or schedule does; gives what it answered, or the name of its error."""
    answer = world.stack.client("lambda").invoke(FunctionName=f"plangate-{function}", Payload=json.dumps(event))
    said = json.loads(answer["Payload"].read())
    return said["errorType"] if "FunctionError" in answer else said


@contextlib.contextmanager
def unreadable(run):
    """Within this block nobody can read the run's record."""
    table, key = run.world.outputs["Table"], {"pk": {"S": f"RUN#{run.id}"}, "sk": {"S": "RUN"}}
    dynamodb = run.world.stack.client("dynamodb")
    body = dynamodb.get_item(TableName=table, Key=key, ConsistentRead=True)["Item"]["body"]

    def put(value):
        dynamodb.update_item(TableName=table, Key=key, UpdateExpression="SET body = :body", ExpressionAttributeValues={":body": value})

    put({"S": "{}"})
    try:
        yield
    finally:
        put(body)


def test_the_numbers_of_a_story_are_true_and_each_line_names_its_run(world, workspace):
    began = time.time() - 1
    shop, other = workspace(), workspace(spec={"automatic_approval": True})
    # One is applied while another waits in line, and is rejected in its turn.
    first = shop.waiting()
    shop.edit('"Summer sale"', '"Autumn sale"')
    second = shop.propose().wait("queued")
    assert call(world, "prepare", {"run": second.id}) == "NotAdmitted"
    with unreadable(second):
        world.sweep()
    world.sweep()
    assert first.approve(by="mallory", expect=None).reason == "not-permitted"
    first.approve()
    assert first.end() == "applied"
    assert first.approve(expect=3).reason == "already-decided"
    second.wait("awaiting_approval").reject()
    second.ended_well("rejected")
    # Elsewhere a reviewer wants a person, who withdraws it; and the next is no plan at all.
    other.configure(ELIGIBLE)
    third = other.waiting()
    third.cancel()
    third.ended_well("canceled")
    other.edit("input = 1", "input = local.absent")
    fourth = other.propose()
    fourth.ended_well("failed", "plan-errored")
    # What nobody should do, and what a schedule does.
    assert call(world, "intake", {"run": "no run"}) == "InvalidInput"
    address = urllib.parse.urlsplit(world.gate.api)
    connection = http.client.HTTPConnection("127.0.0.1", address.port, timeout=30)
    connection.request("POST", "/slack/interactions", "payload=x", {"Host": address.netloc, "content-type": "application/x-www-form-urlencoded"})
    assert connection.getresponse().status == 401
    connection.close()
    call(world, "archive", {})
    wait_until(lambda: any(each.metric == "ArchiveLag" for each in numbers(lines(world, began))), "the archive to tell how far behind it is")

    found = lines(world, began)
    # -- what is true of one run, by its record and its events --
    record, at = first.record, {event["what"]["type"]: event["at"] for event in first.events()}
    assert told(found, first) - collections.Counter({("Refusals", "not-permitted"): 1, ("Refusals", "already-decided"): 1}) == collections.Counter({
        key: value for key, value in {
            ("RunsProposed", None): 1, ("GuardrailOutcomes", "ineligible" if not record["guardrails"]["eligible"] else "eligible"): 1,
            ("Decisions", "approve"): 1, ("RunsEnded", "applied"): 1,
            ("TimeWaiting", "line"): seconds(record["proposed_at"], at["run-admitted"]),
            ("TimeInPhase", "plan"): seconds(record["plan_ordered_at"], record["plan"]["received_at"]),
            ("TimeInPhase", "evaluate"): seconds(record["plan"]["received_at"], at["guardrails-evaluated"]),
            ("TimeWaiting", "decision"): seconds(record["plan"]["received_at"], record["decision"]["at"]),
            ("TimeInPhase", "apply"): seconds(record["apply"]["ordered_at"], record["ended_at"]),
            ("TimeOfRun", "applied"): seconds(record["proposed_at"], record["ended_at"]),
        }.items() if value > 0})
    assert told(found, first)["Refusals", "not-permitted"] == told(found, first)["Refusals", "already-decided"] == 1
    # -- of the others --
    waited = told(found, second)
    record, at = second.record, {event["what"]["type"]: event["at"] for event in second.events()}
    assert waited["TimeWaiting", "line"] == seconds(record["proposed_at"], at["run-admitted"]) > 0
    assert (waited["Decisions", "reject"], waited["RunsEnded", "rejected"], waited["StepsPutOff", "prepare"]) == (1, 1, 1)
    assert (told(found, third)["Reviews", "escalated"], told(found, third)["RunsEnded", "canceled"]) == (1, 1)
    assert (told(found, fourth)["RunsFailed", "proposal"], told(found, fourth)["RunsEnded", "failed"]) == (1, 1)
    assert [each.line["code"] for each in numbers(found) if each.metric == "RunsFailed" and each.line["run"] == fourth.id] == ["plan-errored"]
    # -- of the gate: two sweeps saw the line, and the first could not read who stood in it --
    sweeps = [each for each in numbers(found) if each.line["function"] == "sweep"]
    seen = {name: [each.value for each in sweeps if each.metric == name] for name in ("Sweeps", "RunsOpen", "RunsInLine", "LongestLine", "ItemsUnreadable", "RunsNotSeenTo")}
    assert seen["Sweeps"][:2] == [1, 1] and seen["ItemsUnreadable"][:2] == seen["RunsNotSeenTo"][:2] == [1, 0], seen
    assert seen["RunsOpen"][1] == seen["RunsOpen"][0] + 1 and seen["RunsInLine"][1] == seen["RunsInLine"][0] + 1 >= 1 and seen["LongestLine"][1] >= 1, seen

    # -- each line says where it belongs --
    for line in found:
        if not line.get("target", "plangate").startswith("plangate"):
            continue  # a library's, before any call
        if line.get("message") == "the function starts":
            assert line["function"] and line["release"], line
            continue
        assert line["function"] and line["invocation"] and line["request"], line
        if line["function"] in STEPS and line.get("name") != "InvalidInput" and line.get("code") != "InvalidInput":
            assert line["run"] and line["workspace"], line
    answered = {line["function"] for line in found if line.get("run") == first.id and line.get("message") == "answered"}
    assert answered >= STEPS | {"api"}
    # -- a runner's lines too, and people read text --
    for run, phases in ((first, ("plan", "apply")), (fourth, ("plan",))):
        for phase in phases:
            task, = run.tasks(phase, "STOPPED")
            printed = [json.loads(line) for line in said(world, task).splitlines()]
            assert printed and all((line["run"], line["workspace"], line["phase"]) == (run.id, run.workspace.id, phase) for line in printed)
            assert [line["message"] for line in printed][:len(run.log(phase))] == run.log(phase) != []

    # -- all that can be measured was, or is elsewhere --
    vocabulary = {each["name"]: each for each in json.loads((ROOT / "docs/metrics.json").read_text())["metrics"]}
    for each in numbers(found):
        metric = vocabulary[each.metric]
        assert metric["unit"] == each.unit and (metric["by"] is None) == (each.by is None), each
        if metric["by"] and metric["by"]["values"]:
            assert each.by in metric["by"]["values"], each
        sets = each.line["_aws"]["CloudWatchMetrics"][0]["Dimensions"]
        assert sets == [*([["Gate"]] if metric["total"] else []), *([["Gate", metric["by"]["dimension"]]] if metric["by"] else [])], each
    assert {each.metric for each in numbers(found)} >= set(vocabulary) - ELSEWHERE


def test_a_line_that_is_not_of_the_format_is_found_out():
    """The check of this test's own: what CloudWatch would pass over in silence it does not."""
    good = {"_aws": {"Timestamp": 1_700_000_000_000, "CloudWatchMetrics": [
        {"Namespace": "plangate", "Dimensions": [["Gate"], ["Gate", "Status"]], "Metrics": [{"Name": "RunsEnded", "Unit": "Count"}]}]},
        "Gate": "plangate", "Status": "applied", "RunsEnded": 1}
    assert measured(good)[:4] == ("RunsEnded", 1, "Count", "applied")
    for change in (
            lambda line: line["_aws"].update(Timestamp=1_700_000_000), lambda line: line["_aws"].pop("Timestamp"),
            lambda line: line.pop("RunsEnded"), lambda line: line.update(RunsEnded="1"), lambda line: line.pop("Status"), lambda line: line.update(Status=1),
            lambda line: line["_aws"]["CloudWatchMetrics"][0].update(Dimensions=[]), lambda line: line["_aws"]["CloudWatchMetrics"][0].update(Dimensions=[["Status"]]),
            lambda line: line["_aws"]["CloudWatchMetrics"][0]["Metrics"][0].update(Unit="Things"), lambda line: line["_aws"]["CloudWatchMetrics"][0].update(Namespace="")):
        line = json.loads(json.dumps(good))
        change(line)
        try:
            measured(line)
        except Exception:  # noqa: BLE001 whatever it is, it was found out
            continue
        raise AssertionError(f"taken for a measurement: {line}")
