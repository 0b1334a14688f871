"""The settings of a gate: read strictly, so that a slip of the pen is told and not deployed."""

import json

import pytest

from deploy import DeployError, settings
from deploy.release import ROOT

GOOD = json.loads((ROOT / "deploy/example.json").read_text())


def changed(*path, value):
    told = json.loads(json.dumps(GOOD))
    place = told
    for name in path[:-1]:
        place = place[name]
    place[path[-1]] = value
    return told


def test_the_example_is_read_as_it_stands():
    found = settings.load(ROOT / "deploy/example.json")
    assert found.stack == "plangate" and found.workspace("payments")["policy"] == "default"
    assert found.gate_tags == {"team": "platform", "plangate:gate": "plangate"}
    with pytest.raises(DeployError, match="nothing of a workspace `paymnets`.*payments"):
        found.workspace("paymnets")


@pytest.mark.parametrize(("told", "reason"), [
    (changed("paramters", value={}), "unknown: paramters"),
    (changed("stack", value="Plangate"), "`stack`"),
    (changed("stack", value="plangate-production"), "`stack`"),
    (changed("region", value="Frankfurt"), "no region"),
    (changed("parameters", "CodePrefix", value="mine"), "CodePrefix.* is set by the deployment itself"),
    (changed("parameters", "LogRetentionDays", value=365), "LogRetentionDays.*a text"),
    (changed("tags", "plangate-workspace", value="ws-1"), "plangate's own"),
    (changed("image", "engines", 0, "name", value="pulumi"), "opentofu"),
    (changed("image", "engines", 0, "sha256", value="0" * 63), "SHA-256"),
    (changed("image", "engines", 0, "url", value="x"), "unknown: url"),
    (changed("workspaces", "payments", "polcy", value="x"), "payments: unknown: polcy"),
    (changed("workspaces", "payments", "engine", value={"name": "opentofu"}), "`version` is missing"),
    (changed("workspaces", "payments", "secrets", value=[{"variable": "a"}]), "`parameter` is missing"),
    ([], "no object"),
])
def test_what_is_not_as_it_must_be_is_named(told, reason):
    with pytest.raises(DeployError, match=reason):
        settings.parse(told)


@pytest.mark.parametrize(("text", "reason"), [
    (b"{", "no JSON"), (b'{"region": "a", "region": "b"}', "stands twice"), (b" " * (settings.LIMIT + 1), "is over"), (None, "example.json"),
])
def test_a_file_that_cannot_be_read_is_told(tmp_path, text, reason):
    if text is not None:
        (tmp_path / "deploy.json").write_bytes(text)
    with pytest.raises(DeployError, match=reason):
        settings.load(tmp_path / "deploy.json")
