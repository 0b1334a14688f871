"""What is watched: alarms and dashboard against the vocabulary of what the code measures (docs/metrics.json, which a test of the code
holds against itself), functions that must all be watched alike, and docs/operations.md, which has to tell what each alarm wants."""

import copy
import json
import re

import pytest
from templates import HEARD, INFRA, of_type, permissions, state_machine, template, texts

GATE = template("gate.yaml")
DOCS = INFRA.parent / "docs"
VOCABULARY = json.loads((DOCS / "metrics.json").read_text())
METRICS = {each["name"]: each for each in VOCABULARY["metrics"]}
REASONS = set(re.findall(r'= "([a-z-]+)", \d{3} =>', (INFRA.parent / "shared/wire/src/reason.rs").read_text()))
# What AWS measures that is watched here, with its dimension.
OF_AWS = {("AWS/Lambda", "Errors"): "FunctionName", ("AWS/Lambda", "Throttles"): "FunctionName", ("AWS/Lambda", "IteratorAge"): "FunctionName",
          ("AWS/SQS", "ApproximateNumberOfMessagesVisible"): "QueueName"}


def functions(found):
    """The functions of a template, by the name in the gate that each has."""
    return {each["FunctionName"]["Fn::Sub"].removeprefix("${GateName}-"): (name, each) for name, each in of_type(found, "AWS::Lambda::Function").items()}


def steps():
    """The functions whose errors the workflow may take for an answer."""
    named = re.findall(r"\$\{(\w+)Function\}", json.dumps(state_machine()))
    return {re.sub(r"(?<!^)(?=[A-Z])", "-", name).lower() for name in named}


def values(metric, function_names):
    """The values of a metric's dimension."""
    if metric["by"]["values"] is not None:
        return set(metric["by"]["values"])
    return {"Function": function_names, "Reason": REASONS}[metric["by"]["dimension"]]


def told(found, namespace, name, dimensions):
    """Why nothing is ever told of this metric with these dimensions; None if it is."""
    if namespace != VOCABULARY["namespace"]:
        known = OF_AWS.get((namespace, name))
        return None if known and (not dimensions or set(dimensions) == {known}) else f"{namespace} {name} {dimensions} is not known here"
    metric = METRICS.get(name)
    if metric is None:
        return f"the code measures no {name}"
    rest = {key: value for key, value in dimensions.items() if key != VOCABULARY["gate"]}
    if dimensions.get(VOCABULARY["gate"]) != "${GateName}":
        return f"{name} is told by gate"
    if not rest:
        return None if metric["total"] else f"{name} is not told as a whole"
    by = metric["by"]
    if by is None or set(rest) != {by["dimension"]}:
        return f"{name} is not told by {sorted(rest)}"
    return None if rest[by["dimension"]] in values(metric, set(functions(found))) else f"{name} is never told of {rest}"


def alarms_watch_what_is_told(found):
    """Each alarm is on a metric that is told, has a queue or a function of this template behind it, and reaches the topic."""
    for name, alarm in of_type(found, "AWS::CloudWatch::Alarm").items():
        dimensions = {each["Name"]: texts(each["Value"])[0] for each in alarm.get("Dimensions", [])}
        if (why := told(found, alarm["Namespace"], alarm["MetricName"], dimensions)) is not None:
            yield f"{name}: {why}"
        for value in (dimensions.get("FunctionName"), dimensions.get("QueueName")):
            if value is not None and value.strip("${}").split(".")[0] not in found["Resources"]:
                yield f"{name} watches {value}"
        if alarm.get("AlarmActions") != HEARD:
            yield f"{name} reaches nobody"
        condition = found["Resources"][name].get("Condition")
        behind = [found["Resources"].get(value.strip("${}").split(".")[0], {}).get("Condition") for key, value in dimensions.items() if key in ("FunctionName", "QueueName")]
        if any(each != condition for each in behind if each is not None):
            yield f"{name} watches what may not be there"


def silence_is_chosen(found):
    """Silence is good where something is told only when it happens. Of what each sweep tells it means that nobody sweeps."""
    for name, alarm in of_type(found, "AWS::CloudWatch::Alarm").items():
        wanted = "breaching" if alarm["MetricName"] == "Sweeps" else "notBreaching"
        if alarm.get("TreatMissingData") != wanted:
            yield f"{name} takes silence for {alarm.get('TreatMissingData')}"


def functions_are_watched_alike(found):
    """Every function logs to the gate's group, is traced, may say so, and has an alarm: on what it counts itself, or on its errors."""
    watched = set()
    for alarm in of_type(found, "AWS::CloudWatch::Alarm").values():
        dimensions = {each["Name"]: texts(each["Value"])[0] for each in alarm.get("Dimensions", [])}
        watched.add((alarm["MetricName"], dimensions.get("Function") or dimensions.get("FunctionName", "").strip("${}")))
    for name, (resource, function) in functions(found).items():
        wanted = ("FunctionFailures", name) if name in steps() else ("Errors", resource)
        if wanted not in watched:
            yield f"{name} has no alarm on {wanted[0]}"
        if function.get("LoggingConfig") != {"LogGroup": {"Ref": "FunctionLogGroup"}}:
            yield f"{name} logs elsewhere"
        if function.get("TracingConfig") != {"Mode": "Active"}:
            yield f"{name} is not traced"
        if "xray:PutTraceSegments" not in json.dumps(permissions(found, texts(function["Role"])[0].strip("${}").split(".")[0])):
            yield f"{name} may not send its traces"
    for name, machine in of_type(found, "AWS::StepFunctions::StateMachine").items():
        if machine.get("TracingConfiguration") != {"Enabled": True}:
            yield f"{name} is not traced"
        role = texts(machine["RoleArn"])[0].strip("${}").split(".")[0]
        if "xray:PutTraceSegments" not in json.dumps(permissions(found, role)):
            yield f"{name} may not send its traces"


def queues_are_watched(found):
    """What is given up is told: every queue has an alarm on its messages."""
    watched = [texts(each["Value"])[0] for alarm in of_type(found, "AWS::CloudWatch::Alarm").values()
               if alarm["MetricName"] == "ApproximateNumberOfMessagesVisible" for each in alarm["Dimensions"]]
    for name in of_type(found, "AWS::SQS::Queue"):
        if f"${{{name}.QueueName}}" not in watched:
            yield f"nobody hears of what is in {name}"


def widgets(found):
    """Each metric of the dashboard: namespace, name, dimensions (None: whatever values there are)."""
    body = found["Resources"]["Dashboard"]["Properties"]["DashboardBody"]["Fn::Sub"]
    for widget in json.loads(body)["widgets"]:
        assert widget["properties"]["title"] and widget["properties"]["region"] == "${AWS::Region}"
        for metric in widget["properties"]["metrics"]:
            if isinstance(metric[0], dict):
                found_search = re.fullmatch(r"SEARCH\('\{([^}]+)\} (.+)', '\w+', \d+\)", metric[0]["expression"])
                namespace, *dimensions = found_search[1].split(",")
                for name in re.findall(r'MetricName="(\w+)"', found_search[2]) or re.findall(r'"(\w+)"', found_search[2]):
                    yield namespace, name, {each: "${GateName}" if each == VOCABULARY["gate"] else None for each in dimensions}
            else:
                plain = [each for each in metric if not isinstance(each, dict)]
                yield plain[0], plain[1], dict(zip(plain[2::2], plain[3::2], strict=True))


def the_dashboard_shows_what_is_told(found):
    """Every widget is of a metric that is told, and every metric that is told is on a widget."""
    shown = set()
    for namespace, name, dimensions in widgets(found):
        shown.add(name)
        by = METRICS.get(name, {}).get("by")
        for key in [key for key, value in dimensions.items() if value is None]:
            if by is not None and key == by["dimension"]:
                dimensions[key] = min(values(METRICS[name], set(functions(found))))
        if (why := told(found, namespace, name, dimensions)) is not None:
            yield why
    yield from (f"{name} is on no widget" for name in METRICS if name not in shown)


RULES = [alarms_watch_what_is_told, silence_is_chosen, functions_are_watched_alike, queues_are_watched, the_dashboard_shows_what_is_told]


@pytest.mark.parametrize("rule", RULES)
def test_what_is_watched_is_what_is_told(rule):
    assert list(rule(GATE)) == []


def test_each_alarm_has_its_section_and_each_section_its_alarm():
    """docs/operations.md: a heading by the alarm's name, and below it what it means, what to look at, and what to do."""
    text = (DOCS / "operations.md").read_text()
    sections = dict(re.findall(r"^### ([^\n]+)\n(.*?)(?=^#|\Z)", text, re.MULTILINE | re.DOTALL))
    alarms = {each["AlarmName"]["Fn::Sub"].removeprefix("${GateName}-") for each in of_type(GATE, "AWS::CloudWatch::Alarm").values()}
    of_functions = {f"errors-{name}" for name in functions(GATE)}
    assert alarms - of_functions == {name.strip("`") for name in sections if name.startswith("`") and not name.startswith("`errors-")}
    assert of_functions <= alarms and "`errors-FUNCTION`" in sections
    for name, section in sections.items():
        if name.startswith("`"):
            assert all(f"**{part}**" in section for part in ("Means", "Look", "Do")), name


def test_the_metrics_of_the_code_are_in_the_documentation():
    text = (DOCS / "operations.md").read_text()
    assert [name for name in METRICS if f"`{name}`" not in text] == []


def test_a_gates_name_has_no_hyphen():
    """By that the code tells the gate's name from the function's."""
    assert not re.fullmatch(GATE["Parameters"]["GateName"]["AllowedPattern"], "a-b")


def alarm(found, name):
    return found["Resources"][name]["Properties"]


def dashboard(found, old, new):
    body = found["Resources"]["Dashboard"]["Properties"]["DashboardBody"]
    assert old in body["Fn::Sub"]
    body["Fn::Sub"] = body["Fn::Sub"].replace(old, new)


BROKEN = [
    (alarms_watch_what_is_told, lambda t: alarm(t, "RunsReapedAlarm").update(MetricName="RunsReape")),
    (alarms_watch_what_is_told, lambda t: alarm(t, "RunsReapedAlarm").update(Namespace="Plangate")),
    (alarms_watch_what_is_told, lambda t: alarm(t, "RunsReapedAlarm").pop("Dimensions")),
    (alarms_watch_what_is_told, lambda t: alarm(t, "RunsFailingAlarm")["Dimensions"].pop()),
    (alarms_watch_what_is_told, lambda t: alarm(t, "RunsFailingAlarm")["Dimensions"][1].update(Value="gates")),
    (alarms_watch_what_is_told, lambda t: alarm(t, "ApiFailingAlarm")["Dimensions"][1].update(Value="intern")),
    (alarms_watch_what_is_told, lambda t: alarm(t, "AdmitErrorsAlarm")["Dimensions"][1].update(Value="admission")),
    (alarms_watch_what_is_told, lambda t: alarm(t, "ApiFailingAlarm").pop("AlarmActions")),
    (alarms_watch_what_is_told, lambda t: t["Resources"]["SlackErrorsAlarm"].pop("Condition")),
    (alarms_watch_what_is_told, lambda t: t["Resources"].pop("ArchiveFailures")),
    (silence_is_chosen, lambda t: alarm(t, "SweeperSilentAlarm").update(TreatMissingData="notBreaching")),
    (silence_is_chosen, lambda t: alarm(t, "TamperingAlarm").pop("TreatMissingData")),
    (functions_are_watched_alike, lambda t: t["Resources"].pop("WitnessErrorsAlarm")),
    (functions_are_watched_alike, lambda t: t["Resources"].pop("ConcludeErrorsAlarm")),
    (functions_are_watched_alike, lambda t: t["Resources"]["ApiFunction"]["Properties"].pop("TracingConfig")),
    (functions_are_watched_alike, lambda t: t["Resources"]["ApiFunction"]["Properties"].pop("LoggingConfig")),
    (functions_are_watched_alike, lambda t: t["Resources"]["MachineApplicable"]["Properties"].pop("TracingConfiguration")),
    (functions_are_watched_alike, lambda t: t["Resources"]["ApiRole"]["Properties"].pop("ManagedPolicyArns")),
    (queues_are_watched, lambda t: t["Resources"].pop("ArchiveFailuresAlarm")),
    (queues_are_watched, lambda t: t["Resources"].pop("AnnounceFailuresAlarm")),
    (functions_are_watched_alike, lambda t: t["Resources"].pop("DriftErrorsAlarm")),
    (functions_are_watched_alike, lambda t: t["Resources"]["AnnounceFunction"]["Properties"].pop("TracingConfig")),
    (the_dashboard_shows_what_is_told, lambda t: dashboard(t, '"RunsOpen"', '"RunsOpened"')),
    (the_dashboard_shows_what_is_told, lambda t: dashboard(t, '{plangate,Gate,Class}', '{plangate,Gate,Kind}')),
    (the_dashboard_shows_what_is_told, lambda t: dashboard(t, '"LongestLine"', '"RunsOpen"')),
]


@pytest.mark.parametrize(("rule", "change"), BROKEN, ids=[f"{rule.__name__}-{number}" for number, (rule, _) in enumerate(BROKEN)])
def test_a_rule_sees_what_breaks_it(rule, change):
    broken = copy.deepcopy(GATE)
    change(broken)
    assert list(rule(broken)) != []
