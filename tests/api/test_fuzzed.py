"""The API asked at random, as schemathesis draws it from docs/openapi.json: whatever is asked, by whomever, it answers as it says there.

So many requests, drawn from a fixed seed: half of them as the description wants them, with ids of real runs and workspaces in them, half of
them not. Each answer is held against the description by schemathesis and by tests/e2e/published.py, which closes what is open.
"""

import collections
import dataclasses
import http.client
import json
import re
import secrets
import urllib.parse

import botocore.auth
import botocore.awsrequest
import hypothesis
import published
import pytest
import requests.auth
import schemathesis
from hypothesis import strategies
from schemathesis.generation import GenerationMode
from schemathesis.specs.openapi import checks

from local.stack import REGION, ROOT

pytestmark = pytest.mark.xdist_group("api")
DESCRIBED = schemathesis.openapi.from_path(ROOT / "docs/openapi.json")
CHECKS = [
    schemathesis.checks.not_a_server_error, checks.status_code_conformance, checks.content_type_conformance, checks.response_schema_conformance,
    checks.response_headers_conformance]
OPERATIONS = {f"{method.upper()} {path}": described for method, path, described in published.operations()}
IAM = [label for label in OPERATIONS if "/slack/" not in label]
# How many requests are drawn for an operation, in either mode.
MANY = {
    "PUT /v1/workspaces/{workspace}": 4, "PUT /v1/principals/{id}": 4, "PUT /v1/policies/{id}": 4, "PUT /v1/grants/{id}": 6,
    "POST /v1/runs/{run}/cancel": 12}
# What random requests do not come to: a lock is quarantined only where a runner has died at the wrong moment.
OUT_OF_REACH = {"POST /v1/workspaces/{workspace}/acknowledge"}


class Signed(requests.auth.AuthBase):
    """Signs a request as a person of the gate's."""

    def __init__(self, person):
        self._session = person.session

    def __call__(self, request):
        signed = botocore.awsrequest.AWSRequest(request.method, request.url, data=request.body or b"", headers={"Host": request.headers["Host"]})
        botocore.auth.SigV4Auth(self._session.get_credentials(), "execute-api", REGION).add_auth(signed)
        request.headers.update(dict(signed.headers))
        return request


@dataclasses.dataclass
class Estate:
    """What there is to ask about, and by whom; what came of it."""

    world: object
    people: dict
    runs: list
    open: list
    workspaces: list
    digests: list
    projections: list
    etags: dict
    seen: collections.Counter = dataclasses.field(default_factory=collections.Counter)

    @property
    def base(self):
        return f"http://127.0.0.1:{urllib.parse.urlsplit(self.world.gate.api).port}"

    @property
    def host(self):
        return urllib.parse.urlsplit(self.world.gate.api).netloc


@pytest.fixture(scope="module")
def estate(world, tmp_path_factory):
    """A workspace with runs at all stages, another with two that nobody decides on, and people: one who may do everything, an approver, one without a grant, a stranger."""
    folder = tmp_path_factory.mktemp("fuzzed")
    operator = world.person("olga")
    world.grant("olga", ["*"], ["read", "read-logs", "propose", "approve", "administer"])
    shop, spare = world.workspace(folder / "shop"), world.workspace(folder / "spare")
    applied = shop.applied()
    shop.edit("Summer", "Winter")
    waiting, looked = shop.waiting(), shop.propose("--plan-only")
    queued = [shop.propose() for _ in range(2)]
    left = [spare.propose() for _ in range(2)]  # open until somebody withdraws them
    looked.end()
    etags = {("workspaces", spare.id): spare.etag}
    for kind, identity, spec in (
            ("policy", "spare", {"schema": "plangate.policy.v1"}), ("grant", "spare", {"person": "carol", "workspaces": [spare.id], "actions": ["read"]}),
            ("principal", "spare", {"person": "nobody", "iam": [{"account": "999988887777", "role": "nobody"}]})):
        plural = {"policy": "policies"}.get(kind, f"{kind}s")
        etags[plural, identity] = world.document(kind, identity, spec)["document"]["etag"]
    people = {"operator": operator, "approver": world.person("bob"), "without a grant": world.person("carol"), "stranger": world.stranger("trudy")}
    yield Estate(
        world, people, [run.id for run in (waiting, *queued, applied, looked)], [run.id for run in left], [shop.id, spare.id],
        [applied.record["bundle"]["digest"], waiting.record["bundle"]["digest"]], [waiting.digest, applied.digest], etags)
    world.scan_for_secrets()


def whole(value):
    """What was drawn with its whole numbers written as such: `6.0` is one to a schema, and no number to the gate."""
    if isinstance(value, dict):
        return {key: whole(each) for key, each in value.items()}
    if isinstance(value, list):
        return [whole(each) for each in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value


def with_real_ones(estate, draw, case):
    """Puts what there is in the place of what was drawn, mostly."""
    among = lambda values: draw(strategies.sampled_from(values))  # noqa: E731
    parameters = dict(case.path_parameters or {})
    runs = estate.open if case.operation.path.endswith("/cancel") else estate.runs
    for name, real in (("run", runs), ("workspace", estate.workspaces), ("id", ["spare", "default"])):
        if name in parameters and among([True, True, False]):
            parameters[name] = among(real)
    case.path_parameters = parameters
    case.body = whole(case.body)
    if case.query and "workspace" in case.query:
        case.query["workspace"] = among(estate.workspaces)
    body = case.body
    if not isinstance(body, dict):
        return
    for name, real in (("workspace", estate.workspaces), ("bundle", estate.digests), ("projection", estate.projections), ("run", estate.runs)):
        if name in body and among([True, True, False]):
            body[name] = among(real)
    for name in {"derived_from", "on_behalf_of"} & set(body):
        body[name] = None
    if "corrects" in body and among([True, True, False]):
        body["corrects"] = among([None, 1])
    kind = case.operation.path.split("/")[2]
    identity = parameters.get("workspace") or parameters.get("id")
    if "spec" in body:
        if among([True, True, False]):
            body["etag"] = estate.etags.get((kind, identity))
        if kind == "workspaces":
            # Roles and parameters name the workspace itself, as no schema can say.
            text = json.dumps({**body["spec"], "policy": among(["default", body["spec"]["policy"]])})
            body["spec"] = json.loads(re.sub(published.WS, identity, text))


def ask(estate, label, mode, many):
    method, path = label.split(" ")
    operation = DESCRIBED[path][method]

    @hypothesis.settings(
        max_examples=many, derandomize=True, database=None, deadline=None, phases=[hypothesis.Phase.generate], suppress_health_check=list(hypothesis.HealthCheck))
    @hypothesis.given(strategies.data())
    def asked(data):
        case = data.draw(operation.as_strategy(generation_mode=mode))
        who = data.draw(strategies.sampled_from(["operator", "operator", "operator", *estate.people]))
        if mode == GenerationMode.POSITIVE:
            with_real_ones(estate, data.draw, case)
        answer = case.call(base_url=estate.base, headers={"Host": estate.host}, auth=Signed(estate.people[who]), timeout=60, allow_redirects=False)
        what = f"as {who}: {case.as_curl_command()}"
        estate.seen[label, answer.status_code] += 1
        case.validate_response(answer, checks=CHECKS)
        target = urllib.parse.urlsplit(answer.request.url)
        published.answered(method, f"{target.path}?{target.query}", answer.status_code, answer.headers["content-type"][0], answer.content)
        if answer.status_code == 200 and method == "PUT" and answer.json()["committed"]:
            document = answer.json()["document"]
            estate.etags[path.split("/")[2], document["id"]] = document["etag"]
        if mode == GenerationMode.POSITIVE and answer.status_code == 400:
            # Only what must agree with something else is refused of what is as the description wants it.
            assert answer.json()["error"]["reason"] == "invalid-document" or re.search("besides|`corrects` is the place of", answer.text), f"{what}: {answer.text}"

    asked()


@pytest.mark.parametrize("label", IAM)
def test_whatever_is_asked_is_answered_as_it_is_described(estate, label):
    for mode in (GenerationMode.POSITIVE, GenerationMode.NEGATIVE):
        ask(estate, label, mode, MANY.get(label, 8))


def test_whatever_comes_to_slack_s_way_in_is_answered_as_it_is_described(estate):
    operation = DESCRIBED["/slack/interactions"]["POST"]

    @hypothesis.settings(max_examples=12, derandomize=True, database=None, deadline=None, phases=[hypothesis.Phase.generate], suppress_health_check=list(hypothesis.HealthCheck))
    @hypothesis.given(strategies.data(), strategies.binary(max_size=200), strategies.sampled_from(["signed", "unsigned", "drawn"]))
    def asked(data, noise, how):
        if how == "drawn":
            case = data.draw(operation.as_strategy(generation_mode=data.draw(strategies.sampled_from(list(GenerationMode)))))
            answer = case.call(base_url=estate.base, headers={"Host": estate.host}, timeout=60)
            status, kind, body = answer.status_code, answer.headers.get("content-type", [None])[0], answer.content
        else:
            body = b"payload=" + noise
            headers = estate.world.slack.sign(body, secret=None if how == "signed" else "another")
            connection = http.client.HTTPConnection("127.0.0.1", urllib.parse.urlsplit(estate.base).port, timeout=60)
            connection.request("POST", "/slack/interactions", body, {**headers, "Host": estate.host})
            answer = connection.getresponse()
            status, kind, body = answer.status, answer.getheader("content-type"), answer.read()
            connection.close()
        assert status < 500
        assert (status == 401) == (how != "signed") or how == "signed" and status in (400, 409), (how, status)
        published.answered("POST", "/slack/interactions", status, kind, body)

    asked()


@pytest.mark.parametrize("label", IAM)
def test_who_does_not_sign_or_not_well_is_refused_and_nothing_is_done(estate, label):
    method, path = label.split(" ")
    path = path.format(run=estate.runs[0], workspace=estate.workspaces[0], id="spare", phase="plan")
    body = json.dumps({"request_id": secrets.token_hex(8), "reason": "no", "decision": "reject", "projection": estate.projections[0]}).encode() if method != "GET" else b""
    signed = botocore.awsrequest.AWSRequest(method, f"{estate.world.gate.api}{path}", data=body)
    botocore.auth.SigV4Auth(estate.people["operator"].session.get_credentials(), "execute-api", REGION).add_auth(signed)
    good = dict(signed.headers)
    authorization = good["Authorization"]
    for headers in ({}, {**good, "Authorization": authorization[:-4] + ("0000" if authorization[-4:] != "0000" else "1111")}, {**good, "X-Amz-Date": "20200101T000000Z"}):
        connection = http.client.HTTPConnection("127.0.0.1", urllib.parse.urlsplit(estate.base).port, timeout=60)
        connection.request(method, path, body, {**headers, "Host": estate.host})
        answer = connection.getresponse()
        status, content = answer.status, answer.read()
        connection.close()
        assert status == 403 and "error" not in json.loads(content), (headers, status, content)
        published.answered(method, path, status, answer.getheader("content-type"), content)


def test_each_route_was_asked_well_and_badly_and_the_gate_still_stands(estate):
    """And what it has recorded meanwhile is whole."""
    for word in ("freeze", "unfreeze"):  # whatever chance has left there, it can be lifted now
        asked = {"request_id": secrets.token_hex(8), "reason": "for a moment"}
        status, _ = estate.people["operator"].call("POST", f"/v1/workspaces/{estate.workspaces[0]}/{word}", asked)
        estate.seen[f"POST /v1/workspaces/{{workspace}}/{word}", status] += 1
    for label in IAM:
        good = next(status for status in OPERATIONS[label]["responses"] if status[0] == "2")
        if label not in OUT_OF_REACH:
            assert estate.seen[label, int(good)], f"{label} never did what it is for: {[each for each in estate.seen if each[0] == label]}"
        assert estate.seen[label, 403], f"{label} refused nobody"
    assert sum(count for (_, status), count in estate.seen.items() if status == 400) > 50
    for chain in ("gate", "strangers", *(f"ws/{each}" for each in estate.workspaces), *(f"run/{each}" for each in estate.runs)):
        assert estate.world.chain(chain) or chain == "strangers"
    estate.world.admin.ask("GET", "/v1/gate")
