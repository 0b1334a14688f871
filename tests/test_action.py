"""action.yml and ci/gitlab.yml, held against what GitHub and GitLab take."""

import pathlib
import re

import jsonschema
import yaml

ROOT = pathlib.Path(__file__).parents[1]
TEXT = {"type": "string", "minLength": 1}

# The metadata syntax of composite actions: which keys there are, and of what type.
METADATA = {
    "type": "object", "additionalProperties": False, "required": ["name", "description", "runs"],
    "properties": {
        "name": TEXT, "author": TEXT, "description": TEXT,
        "inputs": {"type": "object", "propertyNames": {"pattern": "^[a-z_][a-z0-9_-]*$"}, "additionalProperties": {
            "type": "object", "additionalProperties": False, "required": ["description"],
            "properties": {"description": TEXT, "required": {"type": "boolean"}, "default": {"type": "string"}, "deprecationMessage": TEXT}}},
        "outputs": {"type": "object", "propertyNames": {"pattern": "^[a-zA-Z_][a-zA-Z0-9_-]*$"}, "additionalProperties": {
            "type": "object", "additionalProperties": False, "required": ["description", "value"], "properties": {"description": TEXT, "value": TEXT}}},
        "runs": {
            "type": "object", "additionalProperties": False, "required": ["using", "steps"],
            "properties": {"using": {"const": "composite"}, "steps": {"type": "array", "minItems": 1, "items": {
                "type": "object", "additionalProperties": False, "required": ["run", "shell"],
                "properties": {"id": TEXT, "name": TEXT, "if": TEXT, "run": TEXT, "shell": {"enum": ["bash", "sh"]}, "working-directory": TEXT,
                               "env": {"type": "object", "additionalProperties": {"type": "string"}}, "continue-on-error": {"type": "boolean"}}}}}},
        "branding": {
            "type": "object", "additionalProperties": False,
            "properties": {"icon": TEXT, "color": {"enum": ["white", "black", "yellow", "blue", "green", "orange", "red", "purple", "gray-dark"]}}}}}


def test_the_action_follows_the_metadata_syntax():
    action = yaml.safe_load((ROOT / "action.yml").read_text())
    jsonschema.validate(action, METADATA)
    for name, each in action["inputs"].items():
        assert ("default" in each) != each["required"], name
    steps = {step["id"] for step in action["runs"]["steps"] if "id" in step}
    used = set()
    for expression in re.findall(r"\$\{\{(.*?)\}\}", (ROOT / "action.yml").read_text()):
        name = expression.strip()
        if name.startswith("inputs."):
            used.add(name.removeprefix("inputs."))
        elif found := re.fullmatch(r"steps\.([\w-]+)\.outputs\.\w+", name):
            assert found[1] in steps
        else:
            assert name == "github.token", name
    assert used == set(action["inputs"]), "each input is used, and is one"
    # An expression in a script is a hole: what a pull request is called could be run.
    assert all("${{" not in step["run"] for step in action["runs"]["steps"])
    assert all(path.is_file() for step in action["runs"]["steps"] for path in [ROOT / found for found in re.findall(r"GITHUB_ACTION_PATH/([\w./-]+)", step["run"])])


def test_the_job_of_gitlab_asks_for_its_identity_and_holds_no_secret():
    (name, job), = yaml.safe_load((ROOT / "ci/gitlab.yml").read_text()).items()
    assert name.startswith("."), "a template is no job by itself"
    assert set(job) == {"stage", "id_tokens", "variables", "script", "artifacts", "rules"}
    assert job["id_tokens"] == {"PLANGATE_ID_TOKEN": {"aud": "sts.amazonaws.com"}}
    assert all(isinstance(value, str) for value in job["variables"].values())
    assert not any("TOKEN" in variable for variable in job["variables"])


def test_what_the_jobs_set_is_what_the_script_reads():
    script = (ROOT / "ci/propose.py").read_text()
    read = set(re.findall(r'"((?:PLANGATE|AWS)_[A-Z_]+)"', script))
    action = yaml.safe_load((ROOT / "action.yml").read_text())
    job = yaml.safe_load((ROOT / "ci/gitlab.yml").read_text())[".plangate"]
    for step in action["runs"]["steps"]:
        assert set(step["env"]) <= read
    assert set(job["variables"]) - {"PLANGATE_SCRIPT"} | set(job["id_tokens"]) <= read
