"""The auditors' queries, as docs/audit.md has them, over what a gate has archived: each finds what it must, and nothing else.

Athena is not here: the queries are translated to another engine (sqlglot to DuckDB), over tables as the Glue tables of infra/gate.yaml lay
them over the locked bucket. What differs between the engines stays untested.
"""

import datetime
import json
import re
import shutil
import sys

import duckdb
import pytest
import sqlglot
from auditor import Auditor
from faults import Faults
from people import Person
from sqlglot import expressions

from local.stack import ACCOUNT, ROOT

sys.path.insert(0, str(ROOT / "infra/tests"))
from templates import of_type, template  # noqa: E402

pytestmark = pytest.mark.xdist_group("queries")  # what they are about is played once
TODAY = datetime.datetime.now(datetime.timezone.utc).date()
NEXT_MONTH = (TODAY.replace(day=1) + datetime.timedelta(days=32)).replace(day=15)
TYPES = {"string": "VARCHAR", "bigint": "BIGINT"}


def documented():
    """The queries of the document, each by the words that begin the paragraph before it and its number behind them."""
    found, lead, block, fresh = {}, None, [], True
    for line in [*(ROOT / "docs/audit.md").read_text().split("\n## Ask\n")[1].splitlines(), "end"]:
        if line.startswith("    ") or (block and not line):
            block.append(line.strip())
            continue
        queries = [query.strip() for query in "\n".join(block).split(";") if query.strip()]
        if block and re.match(r"SELECT|WITH", queries[0]):
            found.update({(lead, number): query for number, query in enumerate(queries, 1)})
        if line and (fresh or block):
            lead = re.split(r"[;:(,]", line)[0].strip()
        block, fresh = [], not line
    return found


QUERIES = documented()


# -- the tables ----------------------------------------------------------------------------------------------------


class Table:
    """A Glue table of the template: its columns, and which objects of the bucket it has, by the partition that follows from their keys."""

    def __init__(self, properties):
        found = properties["TableInput"]
        self.name, storage = found["Name"], found["StorageDescriptor"]
        (key,), settings = found["PartitionKeys"], found["Parameters"]
        self.partition, self.columns = key["Name"], {each["Name"]: each["Type"] for each in storage["Columns"]}
        self.location = settings["storage.location.template"]["Fn::Sub"].split("/", 3)[3].replace("${!", "${")
        assert settings["projection.enabled"] == "true" and storage["Location"]["Fn::Sub"].endswith(self.location.split("${")[0])
        self.kind = settings[f"projection.{self.partition}.type"]
        if self.kind == "enum":
            self.values = set(settings[f"projection.{self.partition}.values"].split(","))
        else:
            assert (self.kind, settings["projection.day.format"], settings["projection.day.interval.unit"]) == ("date", "yyyy-MM-dd", "DAYS")
            first, last = settings["projection.day.range"].split(",")
            assert last == "NOW"
            self.values = lambda day: first <= day <= TODAY.isoformat() and datetime.date.fromisoformat(day)

    def value(self, key):
        """The partition's value for an object, as it is computed; None if the table does not have it."""
        found = re.match(re.escape(self.location).replace(re.escape(f"${{{self.partition}}}"), "([^/]+)"), key)
        known = found and (found[1] in self.values if self.kind == "enum" else self.values(found[1]))
        return found[1] if known else None

    def row(self, key, content):
        """An object as a row, as the reader of JSON gives it: what has structure is text of JSON."""
        event = json.loads(content)
        assert set(event) == set(self.columns), f"{key}: {sorted(event)}"
        row = []
        for name, kind in self.columns.items():
            value = event[name]
            assert kind != "bigint" or isinstance(value, int), f"{key}: {name}"
            row.append(json.dumps(value) if isinstance(value, (dict, list)) else value)
        return [*row, self.value(key)]


TABLES = [Table(each) for each in of_type(template("gate.yaml"), "AWS::Glue::Table").values()]


class Athena:
    """The archive as tables, and CloudTrail beside it."""

    def __init__(self, objects, trail=()):
        self.database = duckdb.connect(":memory:")
        for table in TABLES:
            columns = ", ".join(f'"{name}" {TYPES[kind]}' for name, kind in {**table.columns, table.partition: "string"}.items())
            self.database.execute(f"CREATE TABLE {table.name} ({columns})")
            rows = [table.row(key, content) for key, content in objects.items() if table.value(key)]
            self.database.executemany(f"INSERT INTO {table.name} VALUES ({', '.join('?' * len(rows[0]))})", rows)
        # Of AWS's own definition of the table: what the query reads. `requestparameters` is text of JSON there.
        self.database.execute("CREATE TABLE cloudtrail_logs (eventtime VARCHAR, eventsource VARCHAR, eventname VARCHAR, "
                              "useridentity STRUCT(type VARCHAR, arn VARCHAR), requestparameters VARCHAR, sourceipaddress VARCHAR, errorcode VARCHAR)")
        for event in trail:
            self.database.execute("INSERT INTO cloudtrail_logs VALUES (?, ?, ?, ?, ?, ?, ?)", event)

    def ask(self, sql, today=TODAY):
        """The rows of a query of the document, as dictionaries; `today` is what it takes for the current date."""
        tree = sqlglot.parse_one(sql, read="athena")
        date = lambda node: sqlglot.parse_one(f"DATE '{today}'") if isinstance(node, expressions.CurrentDate) else node  # noqa: E731
        done = self.database.execute(tree.transform(date).sql("duckdb"))
        names = [column[0] for column in done.description]
        return [dict(zip(names, row, strict=True)) for row in done.fetchall()]


# -- what happened -------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def gate(world, models, tmp_path_factory):
    """Everything that the queries ask about, and what they must not take for it: runs by name, in an archive that is whole."""
    folder = tmp_path_factory.mktemp("queries")
    make = lambda name, **options: world.workspace(folder / name, **options)  # noqa: E731
    alike = {"spec": {"distinct_approver": False}}
    robot = world._people["robot"] = Person(world, "robot")
    world.document("principal", "robot", {"person": "robot", "bot": True, "iam": [{"account": ACCOUNT, "role": "robot"}]})
    runs = {}

    strict = make("strict")
    runs["rejected"] = strict.waiting()
    runs["rejected"].reject()
    runs["rejected"].ended_well("rejected")
    runs["by another"] = strict.applied().ended_well("applied")
    world.person("bob").cli("annotate", runs["by another"].id, "--note", "the ticket was 17", "--corrects", 1)
    world.person("bob").cli("annotate", runs["rejected"].id, "--note", "asked for anew")

    loose = make("loose", **alike)
    runs["by the proposer"] = loose.waiting()
    runs["by the proposer"].approve(by="alice")
    runs["by the proposer"].ended_well("applied")

    bots = make("bots", **alike, grants={"robot": ("read", "propose"), "alice": ("read", "approve"), "bob": ("read", "approve")})
    for name, behalf in (("by whom it was for", "bob"), ("by another than whom it was for", "alice")):
        bots.edit("Summer sale", "Summer sale, really")
        runs[name] = bots.propose("--on-behalf-of", behalf, by="robot").wait("awaiting_approval")
        runs[name].approve(by="bob")
        runs[name].ended_well("applied")

    reviewer = {"binding": "bedrock", "model": "test.approves", "budgets": {"seconds": 5}}
    alone = make("alone", spec={"reviewer": reviewer, "review_policy": "Look."})
    alone.change(automatic_approval=True)
    runs["automatic"] = alone.propose().ended_well("applied")

    # A runner dies with the claim in its hands: nobody knows what was applied, until somebody has looked.
    closed = make("closed")
    world.grant("carol", [closed.id], ("read", "propose", "administer"))
    runs["unknown"] = closed.waiting()
    Faults(world.stack).arm("runner-apply s3.PutObject claims/ws/run", "die-after", workspace=closed.id)
    runs["unknown"].approve()
    runs["unknown"].ended_well("failed", "apply-outcome-unknown", quarantined=True)
    shutil.rmtree(world.stack.directory / "work" / runs["unknown"].id, ignore_errors=True)  # a task's disk dies with it
    runs["looked"] = closed.propose("--plan-only")
    assert runs["looked"].end() == "planned"
    world.person("carol").cli("workspace", "acknowledge", closed.id, "--run", runs["looked"].id, "--note", "nothing was made")

    # Somebody writes the state around the gate, with the next serial as an engine would; the next plan notices.
    around = make("around")
    runs["before the hand"] = around.applied().ended_well("applied")
    state = json.loads(around.state()[0])
    around.put_state(json.dumps({**state, "serial": state["serial"] + 1}).encode())
    runs["after the hand"] = around.propose("--plan-only")
    assert runs["after the hand"].end() in ("planned", "no_changes")

    auditor = Auditor(world)
    auditor.archived()
    objects = {key: world.object(key, auditor.bucket) for key in world.keys("events/", auditor.bucket)}
    mine = {shop.id for shop in (strict, loose, bots, alone, closed, around)}
    return Story(runs, objects, mine, alone, closed, around, state["serial"])


class Story:
    """What the archive holds, and whose of it the tests are about: others use the same gate."""

    def __init__(self, runs, objects, workspaces, alone, closed, around, serial):
        self.around, self.serial = around, serial
        self.runs, self.objects, self.alone, self.closed = runs, objects, alone, closed
        self.chains = {f"run/{run.id}": name for name, run in runs.items()} | {f"ws/{workspace}": workspace for workspace in workspaces}

    def ask(self, query, today=TODAY, trail=(), without=None, added=None):
        """The rows of a query that are about ours, with the run's name; over an archive `without` these objects, or with `added` ones."""
        left = {key: content for key, content in self.objects.items() if without is None or not without(key, json.loads(content))}
        left.update(added or {})
        rows = Athena(left, trail).ask(QUERIES[query], today)
        return [{**row, "of": self.chains.get(row.get("chain"))} for row in rows if "chain" not in row or row["chain"] in self.chains]


def who(rows, *columns):
    """These columns of the rows, by whom they are of."""
    return sorted(tuple(row[name] for name in ("of", *columns)) for row in rows)


# -- the queries ---------------------------------------------------------------------------------------------------

STORIES = {}


def story(lead, number=1):
    """The test of the query that the document introduces with these words."""
    def remember(test):
        STORIES[lead, number] = test
        return test
    return remember


@story("Who approved what last month")
def approvals(gate, query):
    assert gate.ask(query) == [], "this month is not the last one"
    assert gate.ask(query, NEXT_MONTH + datetime.timedelta(days=30)) == [], "nor is the one before it"
    rows = gate.ask(query, NEXT_MONTH)
    assert who(rows, "approver", "surface") == sorted([
        ("by another", "bob", "api"), ("by the proposer", "alice", "api"), ("by whom it was for", "bob", "api"), ("unknown", "bob", "api"),
        ("by another than whom it was for", "bob", "api"), ("automatic", "automatic", "automatic"), ("before the hand", "bob", "api")])
    assert {row["of"]: row["projection"] for row in rows} == {name: run.digest for name, run in gate.runs.items() if name not in ("rejected", "looked", "after the hand")}


@story("Runs applied without a distinct approver")
def alike(gate, query):
    rows = gate.ask(query)
    assert who(rows, "proposer", "behalf", "approver") == [
        ("automatic", "alice", None, "automatic"), ("by the proposer", "alice", None, "alice"), ("by whom it was for", "robot", "bob", "bob")]
    # Where it cannot be told who proposed or decided, that is told too.
    for kind in ("run-proposed", "decided"):
        of = f"run/{gate.runs['by another'].id}"
        found = gate.ask(query, without=lambda key, event, of=of, kind=kind: event["chain"] == of and event["what"]["type"] == kind)
        assert "by another" in {row["of"] for row in found}, kind


@story("Automatic approvals", 1)
def automatic(gate, query):
    assert who(gate.ask(query), "binding", "model") == [("automatic", "bedrock", "test.approves")]


@story("Automatic approvals", 2)
def switched_on(gate, query):
    assert who(gate.ask(query), "person") == [(gate.alone.id, "administrator")]


@story("Notes to runs")
def notes(gate, query):
    assert who(gate.ask(query), "person", "note", "corrects", "corrected") == [
        ("by another", "bob", "the ticket was 17", 1, "run-proposed"), ("rejected", "bob", "asked for anew", None, None)]


@story("Break-glass use happens outside the gate")
def break_glass(gate, query):
    role = f"arn:aws:iam::{ACCOUNT}:role/plangate/break-glass/{gate.closed.id}-break-glass"
    def call(minute, name="AssumeRole", arn=role, source="sts.amazonaws.com", error=None):
        who = {"type": "AssumedRole", "arn": f"arn:aws:sts::{ACCOUNT}:assumed-role/operator/dora"}
        return [f"2026-11-30T05:{minute:02}:00Z", source, name, who, json.dumps({"roleArn": arn, "roleSessionName": "night"}), "192.0.2.1", error]
    trail = [
        call(3, error="AccessDenied"), call(1), call(2, arn=role.replace("break-glass", "plan")), call(4, name="GetCallerIdentity"),
        call(5, source="iam.amazonaws.com"), [*call(6)[:4], None, "192.0.2.1", None]]
    rows = gate.ask(query, trail=trail)
    assert [(row["eventtime"][14:16], row["role"], row["who"].rpartition("/")[2], row["errorcode"]) for row in rows] == [
        ("01", role, "dora", None), ("03", role, "dora", "AccessDenied")]


@story("Who took the break-glass role or wrote the state between two moments")
def between(gate, query):
    role = "arn:aws:iam::111122223333:role/plangate/break-glass/ws-0123456789abcdef-break-glass"
    bucket, key = "plangate-ws-0123456789abcdef-111122223333-eu-central-1", "state/terraform.tfstate"
    who = {"type": "AssumedRole", "arn": "arn:aws:sts::111122223333:assumed-role/operator/dora"}
    def call(at, name, **parameters):
        return [at, "of.any.service", name, who, json.dumps(parameters), "192.0.2.1", None]
    trail = [
        call("2026-11-29T16:59:59Z", "AssumeRole", roleArn=role), call("2026-11-30T05:10:00Z", "AssumeRole", roleArn=role),
        call("2026-11-30T05:11:00Z", "AssumeRole", roleArn=role.replace("abcdef", "abcdee")), call("2026-11-30T05:12:00Z", "PutObject", bucketName=bucket, key=key),
        call("2026-11-30T05:13:00Z", "PutObject", bucketName=bucket, key="artifacts/plan"), call("2026-11-30T05:14:00Z", "GetObject", bucketName=bucket, key=key),
        call("2026-11-30T05:15:00Z", "DeleteObjects", bucketName=bucket), call("2026-11-30T06:00:01Z", "DeleteObject", bucketName=bucket, key=key),
        call("2026-11-30T05:16:00Z", "PutObject", bucketName=f"{bucket}-other", key=key)]
    assert [(row["eventtime"][11:16], row["eventname"]) for row in gate.ask(query, trail=trail)] == [
        ("05:10", "AssumeRole"), ("05:12", "PutObject"), ("05:15", "DeleteObjects")]


@story("All that the gate has seen of changes around it")
def around(gate, query):
    rows = gate.ask(query)
    assert [(row["of"], row["type"], row["who"]) for row in rows] == [
        (gate.closed.id, "lock-quarantined", "conclude"), (gate.closed.id, "lock-acknowledged", "carol"), (gate.around.id, "changed-outside-gate", "intake")]
    changed = rows[-1]
    assert changed["noticed_by"] == gate.runs["after the hand"].id and changed["drift"] is None
    assert (int(changed["serial_before"]), int(changed["serial_after"])) == (gate.serial, gate.serial + 1)
    assert changed["changed_after"] < changed["changed_before"]
    # Of what drifted test_around.py tells; here as such events are written.
    added = {}
    for seq, what in enumerate(({"type": "drift-found", "run": "run-x", "projection": "sha256:1", "counts": {}}, {"type": "drift-gone", "run": "run-x"},
                                {"type": "drift-not-seen", "run": "run-x", "reason": "plan-errored"}, {"type": "frozen", "reason": "x"}), 9001):
        event = {"schema": "plangate.audit-event.v1", "chain": f"ws/{gate.around.id}", "seq": seq, "previous": None, "at": f"2099-01-01T00:00:0{seq % 10}Z",
                 "actor": {"kind": "gate", "function": "guard"}, "what": what}
        added[f"events/ws/{gate.around.id}/{seq:010}.json"] = json.dumps(event).encode()
    more = gate.ask(query, added=added)[len(rows):]
    assert [(row["type"], row["drift"], row["serial_before"]) for row in more] == [("drift-found", "sha256:1", None), ("drift-gone", None, None), ("drift-not-seen", None, None)]


def test_every_query_of_the_document_has_its_story():
    assert set(STORIES) == set(QUERIES)


@pytest.mark.parametrize("query", QUERIES, ids=lambda query: f"{query[0]} {query[1]}")
def test_a_query_finds_what_it_must_and_nothing_else(gate, query):
    STORIES[query](gate, query)


def test_every_archived_event_is_a_row_of_one_table(gate):
    counted = {table.name: 0 for table in TABLES}
    for key, content in gate.objects.items():
        table, = [table for table in TABLES if table.value(key)]
        table.row(key, content)
        assert b"\n" not in content, "a line an object"
        counted[table.name] += 1
        chain = json.loads(content)["chain"]
        assert (table.name == "runs") == chain.startswith("run/") and (table.name == "runs" or table.value(key) == chain.partition("/")[0])
    assert all(counted.values()), counted
