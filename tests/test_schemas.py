"""The schemas in docs/schemas: valid in themselves, true of the vectors and of their examples, and as strict as the gate's own readers.

What of the code's structures and lists a schema must know is held in Rust, where they are: shared/wire/tests/schemas.rs. Documents of
real runs are held wherever the end-to-end tests read them: tests/e2e/published.py.
"""

import copy
import json
import os
import pathlib
import re
import subprocess
import sys

import jsonschema
import pytest

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests/e2e"))
from published import ITEMS, SCHEMAS, problems, schemas, validator  # noqa: E402

BUILT = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / "debug"
EXAMPLES = {path.name: json.loads(path.read_text()) for path in sorted((SCHEMAS / "examples").glob("*.json"))}
WORKSPACE = "ws-0123456789abcdef"

# What people write: here the schema takes exactly what the gate takes. What the gate itself writes is described as it is written,
# so a field that is left out there and never null is so in the schema, whatever a reader would put up with.
WRITTEN_BY_PEOPLE = {"grant.v1.json", "policy.v1.json", "principal.v1.json", "verdict.v1.json", "workspace.v1.json"}
# Which of the code's refusals no schema can say: what must agree with something elsewhere in the document, or outside of it.
BEYOND = {
    "projection.v1.json": r"counts that do not add up|not canonical",
    "workspace.v1.json": r"is named once|names the workspace|begins with",
    "policy.v1.json": r"at most 32768 bytes of text",
}
# And what a schema refuses that people may write and never do.
STRICTER = {"workspace.v1.json": {"reviewer/base_url"}}
# The readers of these are private to the command line, which is asked instead; or there is none.
WITHOUT_READER = {"common.v1.json", "audit-export.v1.json", "audit-report.v1.json"}


def text(document):
    """A document in the one form."""
    return json.dumps(document, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def read(questions):
    """Asks the gate's own readers of (schema, text) pairs; gives None for what is taken, else why it is refused."""
    lines = "".join(json.dumps({"schema": schema, "document": document, "workspace": WORKSPACE}) + "\n" for schema, document in questions)
    done = subprocess.run([BUILT / "examples/reader"], input=lines, capture_output=True, text=True, check=True, timeout=120)
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(answers) == len(questions)
    return answers


def test_each_schema_is_one_and_says_what_it_is_of():
    readme = (SCHEMAS / "README.md").read_text()
    for name, schema in schemas().items():
        jsonschema.Draft202012Validator.check_schema(schema)
        assert schema["$schema"] == "https://json-schema.org/draft/2020-12/schema" and schema["$id"] == name
        assert schema["title"] and schema["description"].endswith("."), name
        assert re.search(rf"^\| \[{re.escape(name)}\]\({re.escape(name)}\) \| .+ \| .+ \|$", readme, re.M), f"docs/schemas/README.md lacks {name}"
    assert set(re.findall(r"^\| \[([\w.-]+)\]", readme, re.M)) == set(schemas())


def references(schema):
    if isinstance(schema, dict):
        yield from ([schema["$ref"]] if isinstance(schema.get("$ref"), str) else [])
        schema = list(schema.values())
    for inner in schema if isinstance(schema, list) else []:
        yield from references(inner)


def test_each_reference_leads_somewhere_and_each_definition_is_used():
    used = set()
    for name, schema in schemas().items():
        for reference in references(schema):
            file, _, pointer = reference.partition("#")
            at = schemas()[file or name]
            for step in filter(None, pointer.split("/")):
                at = at[step]
            used.add(f"{file or name}#{pointer}")
    api = (SCHEMAS.parent / "openapi.json")
    used |= {reference.removeprefix("schemas/") for reference in references(json.loads(api.read_text()))} if api.exists() else set()
    used |= set(ITEMS.values())
    lines = {f"audit-export.v1.json#/$defs/{name}" for name in schemas()["audit-export.v1.json"]["$defs"]}
    words = {"common.v1.json#/$defs/finding_reason", "common.v1.json#/$defs/line"}
    defined = {f"{name}#/$defs/{part}" for name, schema in schemas().items() for part in schema.get("$defs", {})}
    assert defined - used - lines - words == set()


@pytest.mark.parametrize("name", sorted(set(schemas()) - {"common.v1.json"}))
def test_each_schema_has_examples_that_are_as_it_says(name):
    assert EXAMPLES[name], "no example"
    for number, document in enumerate(EXAMPLES[name]):
        assert problems(name, document) == [], f"example {number}"


def test_the_gate_reads_each_example():
    questions = [(name, text(document)) for name in EXAMPLES if name not in WITHOUT_READER for document in EXAMPLES[name]]
    refused = [(question, why) for question, why in zip(questions, read(questions), strict=True) if why]
    assert refused == []


def test_the_announcement_that_is_documented_is_as_the_schema_says():
    document = (ROOT / "docs/notifications.md").read_text()
    assert "(schemas/run-status.v1.json)" in document
    assert problems("run-status.v1.json", json.loads(re.search(r"^```json\n(.+?)^```", document, re.S | re.M)[1])) == []


def test_the_vectors_are_as_the_schemas_say_where_the_gate_reads_them_and_only_there():
    questions = [(f"{kind}.v1.json", path.read_text()) for kind in ("projection", "policy", "verdict") for path in sorted((ROOT / "vectors").glob(f"*/{kind}.json"))]
    assert len(questions) > 150
    refused = 0
    for (name, given), why in zip(questions, read(questions), strict=True):
        try:
            document = json.loads(given)
        except ValueError:  # no JSON value at all, or more than one
            assert why, given
            continue
        if why and "duplicate field" in why:  # a JSON value has none: whoever parsed it has dropped one
            continue
        refused += bool(why)
        assert bool(problems(name, document)) == bool(why), (name, given, why)
    assert refused >= 5


# -- mutations -----------------------------------------------------------------------------------------------------


def spots(document, path=()):
    """Every place in a document, the whole among them."""
    yield path
    inner = document.items() if isinstance(document, dict) else enumerate(document) if isinstance(document, list) else ()
    for key, value in inner:
        yield from spots(value, (*path, key))


def at(document, path):
    for step in path:
        document = document[step]
    return document


def changed(document, path, value):
    if not path:
        return value
    document = copy.deepcopy(document)
    at(document, path[:-1])[path[-1]] = value
    return document


def mutations(document):
    """(what was done, where, the document afterwards): a field more, a field less, and every value replaced by others."""
    for path in spots(document):
        value, where = at(document, path), "/".join(map(str, path))
        if isinstance(value, dict):
            yield "a field more", where, changed(document, path, {**value, "unheard_of": 1})
            for key in value:
                yield f"without {key}", where, changed(document, path, {k: v for k, v in value.items() if k != key})
        others = [None, True, False, -1, 0, 2, 2**64, 1.5, "", " ", "x", "Z", "a\u0007b", "x" * 9000, [], {}, [value], {"x": value}]
        if isinstance(value, str):
            others += [value + "\n", " " + value, value + "x", value[:-1], value.upper(), value.swapcase(), "é" + value]
        if isinstance(value, list):
            others += [value * 2, value * 300, value[:-1]]
        if isinstance(value, int):
            others += [value + 1, value * 1_000_000, str(value)]
        for other in others:
            if other != value or type(other) is not type(value):
                yield f"{text(other)[:40]} in its place", where, changed(document, path, other)


@pytest.mark.parametrize("name", sorted(set(EXAMPLES) - WITHOUT_READER))
def test_what_the_gate_refuses_the_schema_refuses(name):
    """And of what people write, the other way round: what the schema refuses the gate refuses."""
    tried = [mutation for document in EXAMPLES[name] for mutation in mutations(document) if not mutation[1].startswith("pinned/spec/")]  # see workspace.v1.json
    laxer, stricter, refused = [], [], 0
    for (what, where, document), why in zip(tried, read([(name, text(document)) for _, _, document in tried]), strict=True):
        valid = validator(name).is_valid(document)
        refused += bool(why)
        if why and valid and not re.search(BEYOND.get(name, "(?!)"), why):
            laxer.append((where, what, why))
        if not valid and not why and name in WRITTEN_BY_PEOPLE and where not in STRICTER.get(name, ()):
            stricter.append((where, what, problems(name, document)))
    assert laxer == [], "the schema takes what the gate refuses"
    assert stricter == [], "the schema refuses what the gate takes"
    assert refused > len(tried) / 3


EXPORTED = {"export.json": "audit-export.v1.json", "heads.jsonl": "audit-export.v1.json#/$defs/head", "strays.jsonl": "audit-export.v1.json#/$defs/stray",
            "noticed.jsonl": "audit-export.v1.json#/$defs/noticed", "witnesses.jsonl": "audit-export.v1.json#/$defs/archive", "table/gate.jsonl": "audit-export.v1.json#/$defs/table"}
LINES = {
    "export.json": EXAMPLES["audit-export.v1.json"][0], "heads.jsonl": {"chain": "gate", "head": "{}"}, "strays.jsonl": {"source": "archive", "key": "events/x"},
    "noticed.jsonl": {"key": "tampering/gate/1.json", "record": "{}"}, "witnesses.jsonl": {"seq": 1, "later_versions": 0, "event": "{}"},
    "table/gate.jsonl": {"seq": 1, "digest": "sha256:0", "event": "{}"}}


@pytest.mark.parametrize("file", EXPORTED)
def test_an_export_that_is_none_is_refused_by_the_schema_too(tmp_path, file):
    """`plangate audit verify` of a folder: a report, or why the folder cannot be read."""
    def verify(line):
        (tmp_path / "table").mkdir(exist_ok=True)
        (tmp_path / "export.json").write_text(text(LINES["export.json"]))
        (tmp_path / file).write_text(text(line) + "\n")
        done = subprocess.run([BUILT / "plangate", "--json", "audit", "verify", tmp_path], capture_output=True, text=True, timeout=60, env={})
        assert done.returncode <= 1, done.stderr
        report = json.loads(done.stdout)
        if set(report) == {"error"}:
            assert report["error"]["reason"] == "file-invalid" and done.returncode == 1, report
            return False
        assert problems("audit-report.v1.json", report) == [], report
        return True

    assert verify(LINES[file]) and problems(EXPORTED[file], LINES[file]) == []
    refused = 0
    for what, where, line in mutations(LINES[file]):
        if not where and not isinstance(line, dict):
            continue
        if not verify(line):
            refused += 1
            assert problems(EXPORTED[file], line), f"{what} at {where or 'the top'} is taken by the schema"
    assert refused > 10
