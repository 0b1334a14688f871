"""What is published of plangate's documents (docs/schemas) and of its API (docs/openapi.json), and holding what the stack does against it."""

import collections
import contextlib
import functools
import json
import pathlib
import re
import urllib.parse

import jsonschema_rs

SCHEMAS = pathlib.Path(__file__).resolve().parents[2] / "docs/schemas"
# Where the schemas are taken to stand, so that they find one another by their files' names. Nothing is fetched.
BASE = "json-schema:///docs/schemas/"
OPENAPI = "json-schema:///docs/openapi.json"


class Unpublished(AssertionError):
    """A document that is not as it is published."""


@functools.cache
def schemas():
    """The schemas, by their files' names."""
    return {path.name: json.loads(path.read_text()) for path in sorted(SCHEMAS.glob("*.json"))}


@functools.cache
def registry():
    """The schemas, as a registry."""
    return jsonschema_rs.Registry([(BASE + name, schema) for name, schema in schemas().items()], draft=jsonschema_rs.Draft202012)


@functools.cache
def validator(reference):
    """The validator of a schema, `run.v1.json`, or of a part of one, `run.v1.json#/$defs/plan`."""
    return jsonschema_rs.Draft202012Validator({"$ref": BASE + reference}, registry=registry(), validate_formats=True)


def problems(reference, document):
    """What of a document is not as the schema says: places and reasons."""
    return [f"{'/'.join(map(str, error.instance_path)) or '(whole)'}: {error.message[:400]}" for error in validator(reference).iter_errors(document)]


def hold(reference, document, what):
    """Raises Unpublished unless `document` (called `what`) is as the schema says; gives it."""
    if not validator(reference).is_valid(document):
        told = "\n  ".join(problems(reference, document))
        raise Unpublished(f"{what} is not as docs/schemas/{reference} says (docs/schemas/README.md tells how to add to it):\n  {told}")
    return document


# -- what is stored ------------------------------------------------------------------------------------------------

WS, RUN = r"ws-[0-9a-z]{16}", r"run-[0-9a-z]{26}"
# What stands where: items of the gate's tables by their keys, objects of its buckets by theirs.
ITEMS = {
    rf"RUN#{RUN}/RUN": "run.v1.json",
    rf"(DEC|AUTO)#{RUN}/DEC": "run.v1.json#/$defs/decision",
    rf"WS#{WS}/LOCK": "lock.v1.json",
    rf"WS#{WS}/KNOWN": "known.v1.json",
    rf"WS#{WS}/DRIFT": "drift.v1.json",
    rf"DRIFT#{WS}/LOOK": "drift.v1.json#/$defs/look",
    r"FREEZE#gate/FREEZE": "freeze.v1.json",
    r"POLICY#sha256:[0-9a-f]{64}/POLICY": "policy.v1.json",
    rf"CHAIN#(gate|strangers|run/{RUN}|ws/{WS})/HEAD": "common.v1.json#/$defs/chain_head",
}
OBJECTS = {
    rf"orders/{WS}/{RUN}/(plan|apply)\.json": "work-order.v1.json",
    rf"orders/{WS}/{RUN}/apply\.sig\.json": "signatures.v1.json",
    rf"receipts/{WS}/{RUN}/(plan|apply)\.json": "receipt.v1.json",
    rf"claims/{WS}/{RUN}": "claim.v1.json",
    rf"results/{WS}/{RUN}\.json": "result.v1.json",
    rf"projections/{WS}/{RUN}\.json": "projection.v1.json",
    r"events/.+\.json": "audit-event.v1.json",
    r"witnesses/[0-9]+\.json": "witness.v1.json",
    r"tampering/.+\.json": "tampering.v1.json",
}
# Specs of documents, by the document's kind.
SPECS = {kind: f"{kind}.v1.json" for kind in ("workspace", "policy", "grant", "principal")}


def _of(places, key):
    return next((schema for pattern, schema in places.items() if re.fullmatch(pattern, key)), None)


class Stored:
    """Holds what a gate stores against the schemas, each thing once, but what a test says it has forged.

    Of an object's versions the oldest counts: what somebody laid over it is not the gate's.
    """

    def __init__(self, outputs):
        self._tables = {outputs["Table"]: "items", outputs["AuditTable"]: "events"}
        self._buckets = {outputs["ExchangeBucket"], outputs["ArchiveBucket"]}
        self._judged, self._found, self.held = set(), {}, collections.Counter()

    def forged(self, place):
        """Leaves out what a test has put there itself: `dynamodb://TABLE/PK/SK` or `s3://BUCKET/KEY`."""
        self._judged.add(place)

    def look(self, place, content):
        """Takes note of a thing: as `local.stores.everything` tells of it, of versions the newest first."""
        service, _, rest = place.partition("://")
        owner, _, key = rest.partition("/")
        if service == "s3" and owner in self._buckets and (schema := _of(OBJECTS, key)):
            self._found[place] = (schema, content)
        elif service == "dynamodb" and owner in self._tables:
            self._found[place] = (self._tables[owner], content)

    def judge(self):
        """Raises Unpublished for what is not as the schemas say; a thing that stands is judged again only if it has changed."""
        found, self._found = self._found, {}
        wrong = []
        for place, (schema, content) in found.items():
            if place in self._judged or (place, content) in self._judged:
                continue
            self._judged.add((place, content))
            for reference, document in self._documents(place, schema, content):
                self.held[reference] += 1
                try:
                    hold(reference, document, place)
                except Unpublished as error:
                    wrong.append(str(error))
        if wrong:
            raise Unpublished("\n".join(wrong[:5]))

    @staticmethod
    def _documents(place, schema, content):
        value = json.loads(content)
        if schema == "events":
            return [("audit-event.v1.json", json.loads(value["event"]["S"]))]
        if schema != "items":
            return [(schema, value)]
        if "body" not in value:
            return []
        body, key = json.loads(value["body"]["S"]), place.split("/", 3)[3]
        if key.startswith("DOC#"):
            return [(SPECS[body["kind"]], body["spec"])]
        return [(found, body)] if (found := _of(ITEMS, key)) else []


# -- the API -------------------------------------------------------------------------------------------------------

API = json.loads((SCHEMAS.parent / "openapi.json").read_text())
METHODS = ("get", "put", "post", "delete", "patch")


def operations():
    """(method, path's template, operation) of all that the API has."""
    return [(method, path, item[method]) for path, item in API["paths"].items() for method in METHODS if method in item]


def operation(method, path):
    """The template and the operation that answers a request; None if there is none."""
    for known, template, found in operations():
        if known == method.lower() and re.fullmatch(re.sub(r"\{\w+\}", "[^/]+", template), path.partition("?")[0]):
            return template, found
    return None


def close(schema):
    """The schema with every structure closed that is open for fields of later releases: what answers today is described whole."""
    if isinstance(schema, list):
        return [close(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    parts = {"allOf", "if", "then", "else", "not"}  # these see a part of the fields each
    closed = {key: value if key in parts else close(value) for key, value in schema.items()}
    if isinstance(schema.get("properties"), dict) and not {"additionalProperties", "unevaluatedProperties"} & set(schema):
        closed["unevaluatedProperties"] = False
    return closed


@functools.cache
def answers():
    """The API's description and the schemas, closed: as a registry."""
    documents = {f"{BASE}{name}": close(schema) for name, schema in schemas().items()}
    # A run's fields are a part of two structures, each closed by itself.
    del documents[f"{BASE}run.v1.json"]["$defs"]["fields"]["unevaluatedProperties"]
    return jsonschema_rs.Registry([*documents.items(), (OPENAPI, close(API))], draft=jsonschema_rs.Draft202012)


@functools.cache
def answer_validator(method, template, status):
    pointer = f"/paths/{template.replace('/', '~1')}/{method.lower()}/responses/{status}"
    response = functools.reduce(lambda at, step: at[step], ("paths", template, method.lower(), "responses", status), API)
    if "$ref" in response:
        pointer = response["$ref"].removeprefix("#")
        response = API["components"]["responses"][pointer.rsplit("/", 1)[-1]]
    if "content" not in response:
        return None
    fragment = urllib.parse.quote(f"{pointer}/content/application~1json/schema", safe="/~")
    return jsonschema_rs.Draft202012Validator({"$ref": f"{OPENAPI}#{fragment}"}, registry=answers(), validate_formats=True)


def refused(body):
    """What a refusal of the gate's says; None if it is none."""
    with contextlib.suppress(ValueError, TypeError, KeyError):
        return json.loads(body)["error"]
    return None


@functools.cache
def component(name):
    """The validator of one of the API's structures, closed."""
    return jsonschema_rs.Draft202012Validator({"$ref": f"{OPENAPI}#/components/schemas/{name}"}, registry=answers(), validate_formats=True)


@functools.cache
def next_steps():
    """What to do next, by the reason of a refusal: as docs/api.md says."""
    return dict(re.findall(r"^\| `([a-z-]+)` \| \d{3} \| .+? \| (.+) \|$", (SCHEMAS.parent / "api.md").read_text(), re.M))


# The ids of what tests have changed behind the gate's back: what is told of these is not the gate's alone.
_FORGED = set()


def forged(identity):
    """Leaves out what is told of a run or a workspace from now on: a test has changed its record."""
    _FORGED.add(identity)


def _is_of_a_forgery(text):
    return any(identity in text for identity in _FORGED)


def answered(method, path, status, kind, body):
    """Raises Unpublished unless the API may answer a request so: with this status, content type and body (bytes).

    A refusal has to say what to do next. What API Gateway answers by itself has another form, and 502 and 504 are its own.
    """
    what = f"{method} {path} answered {status} {body[:400]!r}:"
    refusal = refused(body) if status >= 400 else None
    if refusal is None and _is_of_a_forgery(body if isinstance(body, str) else bytes(body or b"").decode(errors="replace")):
        return
    if status in (403, 429) or status >= 500:
        if refusal is None and component("GatewayRefusal").is_valid(json.loads(body or b"null")):
            return
        # Of a function that died or took too long the emulator tells more than API Gateway does.
        if refusal is None and status in (502, 504) and set(json.loads(body or b"{}")) == {"errorMessage", "errorType"}:
            return
    if refusal and not refusal["message"].endswith(next_steps()[refusal["reason"]]):
        raise Unpublished(f"{what} it does not say what to do next")
    found = operation(method, path)
    if found is None:
        if not refusal or refusal["reason"] not in ("no-such-route", "not-permitted"):
            raise Unpublished(f"{what} docs/openapi.json knows no such route")
        return
    template, described = found
    if str(status) not in described["responses"]:
        raise Unpublished(f"{what} docs/openapi.json knows no such status there")
    validator = answer_validator(method.lower(), template, str(status))
    if validator is None:
        if body:
            raise Unpublished(f"{what} docs/openapi.json knows no body there")
        return
    if kind != "application/json":
        raise Unpublished(f"{what} of the type {kind}")
    if (template, status) == ("/slack/interactions", 200) and not body:
        return
    problems = [f"{'/'.join(map(str, error.instance_path)) or '(whole)'}: {error.message[:400]}" for error in validator.iter_errors(json.loads(body))]
    if problems:
        raise Unpublished("\n  ".join([f"{what} not as docs/openapi.json says", *problems]))


# What the command line tool prints with `--json` where it is the API's answer.
PRINTED = {
    "propose": "RunAnswer", "approve": "DecisionAnswer", "reject": "DecisionAnswer", "cancel": "RunAnswer", "annotate": "AnnotationAnswer", "log": "LogAnswer",
    "runs": "RunsAnswer"}


def printed(command, text):
    """Raises Unpublished unless the command line tool may print this for a command that went well."""
    if command in PRINTED and not _is_of_a_forgery(text):
        problems = [f"{'/'.join(map(str, error.instance_path))}: {error.message[:400]}" for error in component(PRINTED[command]).iter_errors(json.loads(text))]
        if problems:
            raise Unpublished("\n  ".join([f"`plangate {command}` printed what is not as docs/openapi.json says:", *problems]))
