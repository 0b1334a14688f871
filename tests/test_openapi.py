"""docs/openapi.json: valid, of exactly the routes that are served, with every refusal and what to do next.

That the API answers as it says is held by every story of the end-to-end tests (tests/e2e/published.py) and by tests/api/test_fuzzed.py.
"""

import pathlib
import re
import sys

import pytest
import schemathesis

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tests/e2e"), str(ROOT / "infra/tests")]
from published import API, answer_validator, operations, schemas  # noqa: E402
from templates import template  # noqa: E402

ROUTES = (ROOT / "functions/api/src/routes.rs").read_text()
ROWS = {reason: (status, when, next_step) for reason, status, when, next_step in re.findall(
    r"^\| `([a-z-]+)` \| (\d{3}) \| (.+?) \| (.+) \|$", (ROOT / "docs/api.md").read_text(), re.M)}


def served():
    """The routes that the function knows, as its source has them."""
    match = ROUTES[ROUTES.index("async fn route("):ROUTES.index("fn no_such_route")]
    routes = {(method, tuple("{}" if not part.startswith('"') else part.strip('"') for part in re.split(r",\s*", path)))
              for method, path in re.findall(r'\("([A-Z]+)", \[((?:"?\w+"?(?:, )?)+)\]\)', match)}
    kinds = re.findall(r'"(\w+)" => Some\(DocumentKind', ROUTES)
    # The arm of the documents: its inner match tells method, and whether an id follows.
    inner = re.findall(r'\("([A-Z]+)", Some\(kind\), \[(id)?\]\)', match)
    assert len(kinds) == 4 and len(inner) == 3
    return routes | {(method, ("v1", kind, *(["{}"] if one else []))) for kind in kinds for method, one in inner}


def described():
    return {(method.upper(), tuple(re.sub(r"^\{\w+\}$", "{}", part) for part in path.strip("/").split("/"))) for method, path, _ in operations()}


def test_its_routes_are_those_that_are_served():
    assert described() - {("POST", ("slack", "interactions"))} == served()


def test_its_routes_and_their_security_are_those_of_the_template():
    routes = {resource["Properties"]["RouteKey"]: resource["Properties"]["AuthorizationType"]
              for resource in template("gate.yaml")["Resources"].values() if resource["Type"] == "AWS::ApiGatewayV2::Route"}
    used = set()
    for method, path, operation in operations():
        matching = [key for key in routes if re.fullmatch(re.sub(r"\\\{\w+\\\+\\\}", ".+", re.escape(key)).replace("ANY", "[A-Z]+"), f"{method.upper()} {path}")]
        assert len(matching) == 1, (method, path)
        used.update(matching)
        security = operation.get("security", API["security"])
        assert security == ([{"sigv4": []}] if routes[matching[0]] == "AWS_IAM" else [{"slack": []}]), (method, path)
    assert used == set(routes), "a route of the template has no description"


def test_it_is_valid_and_each_of_its_schemas_leads_somewhere():
    schemathesis.openapi.from_path(ROOT / "docs/openapi.json").validate()
    for method, path, operation in operations():
        for status, response in operation["responses"].items():
            assert answer_validator(method, path, status) or "$ref" not in response
        assert operation["operationId"] and operation["summary"].endswith("."), (method, path)
    assert len({operation["operationId"] for _, _, operation in operations()}) == len(operations())
    used = set(re.findall(r"#/components/schemas/(\w+)", str(API)))
    assert used == set(API["components"]["schemas"])


def reasons(response):
    """The reasons that a refusal may have."""
    schema = response["content"]["application/json"]["schema"]
    schema = schema["anyOf"][0] if "anyOf" in schema else schema
    return schema["allOf"][1]["properties"]["error"]["properties"]["reason"]["enum"]


def test_every_refusal_is_there_under_its_status_with_what_to_do_next():
    told = set()
    for method, path, operation in operations():
        if path.startswith("/slack"):
            continue
        assert {"403", "429", "500", "503"} <= set(operation["responses"]), (method, path)
        for status, response in operation["responses"].items():
            if status[0] == "2" or status == "429":
                continue
            for reason in reasons(response):
                where, when, next_step = ROWS[reason]
                assert where == status, (method, path, reason)
                assert f"`{reason}`: {when} Next: {next_step}." in response["description"], (method, path, reason)
                told.add(reason)
    assert told == set(ROWS) == set(schemas()["common.v1.json"]["$defs"]["refusal_reason"]["enum"])


def test_what_is_asked_for_is_closed_and_what_is_answered_is_open():
    for name, schema in API["components"]["schemas"].items():
        closed = schema.get("additionalProperties") is False
        assert closed == name.endswith(("Request", "Put")), name


@pytest.mark.parametrize("name", sorted(name for name in API["components"]["schemas"] if name.endswith(("Request", "Put"))))
def test_a_request_s_fields_are_described(name):
    for field, schema in API["components"]["schemas"][name]["properties"].items():
        assert "description" in schema or "$ref" in schema or "allOf" in schema, f"{name}.{field}"


def test_the_limits_are_those_of_the_code():
    code = (ROOT / "functions/api/src/runs.rs").read_text()
    assert "BUNDLE_LIMIT: u64 = 100 * 1024 * 1024" in code
    assert API["components"]["schemas"]["BundleRequest"]["properties"]["bytes"]["maximum"] == 100 * 1024 * 1024
    reading = (ROOT / "functions/api/src/reading.rs").read_text()
    limit = next(each for each in API["paths"]["/v1/runs"]["get"]["parameters"] if each["name"] == "limit")["schema"]
    assert (limit["minimum"], limit["maximum"]) == tuple(map(int, re.search(r"\((\d+)\.\.=(\d+)\)\.contains\(&limit\)", reading).groups()))
    assert limit["default"] == int(re.search(r"const RUNS: usize = (\d+);", reading)[1])
    assert "256 * 1024" in re.search(r"const BODY_LIMIT: usize = (.+);", (ROOT / "functions/api/src/decode.rs").read_text())[1] and "256 KiB" in API["info"]["description"]


def test_a_query_s_parameters_are_those_that_are_read():
    """Each handler names the parameters that it knows; all others are refused."""
    sources = "".join((ROOT / f"functions/api/src/{name}.rs").read_text() for name in ("reading", "configuration"))
    read = {frozenset(re.findall(r'"(\w+)"', names)) for names in re.findall(r"\.query\(&\[(.+?)\]\)", sources)}
    told = {frozenset(each["name"] for each in operation.get("parameters", ()) if each["in"] == "query") for _, _, operation in operations()}
    assert told - {frozenset()} == read
