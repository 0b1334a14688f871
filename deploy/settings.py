"""The file that says how one gate is deployed: JSON, read strictly. `deploy/example.json` is one."""

import dataclasses
import json
import re

from . import DeployError

LIMIT = 256 * 1024
# Set by the deployment itself, from the release and from the runs in flight.
OWN = ("GateName", "CodeBucket", "CodePrefix", "Architecture", "EarlierTaskDefinitions")
_FIELDS = {"region": str, "stack": str, "parameters": dict, "tags": dict, "image": dict, "workspaces": dict}
_WORKSPACE = {"engine": dict, "policy": str, "namespace": str, "owner": str, "parameters": dict, "secrets": list}
_IMAGE = {"engines": list, "limits": dict, "retired_order_keys": list}
_ENGINE = {"name": str, "version": str, "file": str, "sha256": str}


@dataclasses.dataclass(frozen=True)
class Settings:
    """How one gate is deployed."""

    region: str
    stack: str
    parameters: dict
    tags: dict
    image: dict
    workspaces: dict

    @property
    def gate_tags(self):
        """The tags of the gate's stack and of all that is in it."""
        return {**self.tags, "plangate:gate": self.stack}

    def workspace(self, name):
        """What is said of a workspace; a DeployError if nothing is."""
        if name not in self.workspaces:
            raise DeployError(f"the settings say nothing of a workspace `{name}`: add it under `workspaces` (it has {sorted(self.workspaces) or 'none'})")
        return self.workspaces[name]


def load(path):
    """Reads the settings; a DeployError that names the first thing that is not as it must be."""
    try:
        with open(path, "rb") as file:
            text = file.read(LIMIT + 1)
    except OSError as error:
        raise DeployError(f"{path} cannot be read ({error.strerror}); begin with a copy of deploy/example.json") from None
    if len(text) > LIMIT:
        raise DeployError(f"{path} is over {LIMIT} bytes")
    try:
        told = json.loads(text, object_pairs_hook=_once)
    except ValueError as error:
        raise DeployError(f"{path} is no JSON: {error}") from None
    return parse(told, str(path))


def parse(told, where="the settings"):
    """Checks settings that were read."""
    _is(told, _FIELDS, ("region", "stack", "parameters"), where)
    if not re.fullmatch("[a-z][a-z0-9]{1,15}", told["stack"]):
        raise DeployError(f"{where}: `stack` is a lower-case letter and at most 15 letters and digits; every name of the gate begins with it")
    if not re.fullmatch("[a-z]{2}(-[a-z]+)+-[0-9]", told["region"]):
        raise DeployError(f"{where}: `region` is no region")
    _texts(told["parameters"], f"{where}: parameters")
    for name in OWN:
        if name in told["parameters"]:
            raise DeployError(f"{where}: `parameters.{name}` is set by the deployment itself")
    _texts(told.get("tags", {}), f"{where}: tags")
    if own := [name for name in told.get("tags", {}) if name.startswith("plangate")]:
        raise DeployError(f"{where}: tags: `{own[0]}` is plangate's own: policies go by such tags")
    image = told.get("image", {})
    _is(image, _IMAGE, (), f"{where}: image")
    for engine in image.get("engines", []):
        _is(engine, _ENGINE, tuple(_ENGINE), f"{where}: an engine")
        if engine["name"] not in ("opentofu", "terraform") or not re.fullmatch("[0-9a-f]{64}", engine["sha256"]):
            raise DeployError(f"{where}: an engine is `opentofu` or `terraform`, with the SHA-256 of its program in 64 hex digits")
    for name, workspace in told.get("workspaces", {}).items():
        place = f"{where}: workspace {name}"
        _is(workspace, _WORKSPACE, ("engine", "policy"), place)
        _is(workspace["engine"], {"name": str, "version": str}, ("name", "version"), f"{place}: engine")
        _texts(workspace.get("parameters", {}), f"{place}: parameters")
        for secret in workspace.get("secrets", []):
            _is(secret, {"variable": str, "parameter": str}, ("variable", "parameter"), f"{place}: a secret")
    return Settings(told["region"], told["stack"], told["parameters"], told.get("tags", {}), image, told.get("workspaces", {}))


def _is(told, fields, needed, where):
    """Whether an object has these fields and no others, each of its type."""
    if not isinstance(told, dict):
        raise DeployError(f"{where} is no object")
    if unknown := sorted(set(told) - set(fields)):
        raise DeployError(f"{where}: unknown: {', '.join(unknown)}; known are {', '.join(fields)}")
    if missing := [name for name in needed if name not in told]:
        raise DeployError(f"{where}: `{missing[0]}` is missing")
    for name, value in told.items():
        if not isinstance(value, fields[name]):
            raise DeployError(f"{where}: `{name}` is of the wrong type")


def _texts(told, where):
    for name, value in told.items():
        if not isinstance(value, str):
            raise DeployError(f"{where}: `{name}` is a text, as CloudFormation takes it; lists have commas")


def _once(pairs):
    """An object in which each name stands once."""
    told = dict(pairs)
    if len(told) != len(pairs):
        raise ValueError("a name stands twice")
    return told
