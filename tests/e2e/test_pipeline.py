"""Pipelines: the GitHub Action and the GitLab job propose under the job's own identity, and show the projection where a change is talked about."""

import json
import os
import re
import subprocess

import pytest
import yaml
from pipelines import BOT, ISSUER, STRANGER, Forge, identity_token

from local import deploy
from local.stack import ACCOUNT, REGION, ROOT

SUBJECT = "repo:acme/shop:pull_request"
ACTION = yaml.safe_load((ROOT / "action.yml").read_text())


@pytest.fixture(scope="module")
def role(world):
    """A role that trusts the identity tokens of one repository's pull requests, as docs/ci.md says, and may call the API."""
    iam = world.stack.client("iam")
    provider = iam.create_open_id_connect_provider(Url=f"https://{ISSUER}", ClientIDList=["sts.amazonaws.com"])["OpenIDConnectProviderArn"]
    guide = (ROOT / "docs/ci.md").read_text()
    trust = re.search(r"```json\n(.*?)```", guide, re.S)[1]
    for written, here in (("111122223333", ACCOUNT), ("repo:ORG/REPO:pull_request", SUBJECT)):
        assert written in trust
        trust = trust.replace(written, here)
    assert json.loads(trust)["Statement"][0]["Principal"] == {"Federated": provider}
    iam.create_role(RoleName="pipeline", AssumeRolePolicyDocument=trust)
    calls = {"Effect": "Allow", "Action": "execute-api:Invoke", "Resource": f"arn:aws:execute-api:{REGION}:{ACCOUNT}:{world.outputs['ApiId']}/*/*/v1/*"}
    iam.put_role_policy(RoleName="pipeline", PolicyName="call", PolicyDocument=json.dumps({"Version": "2012-10-17", "Statement": [calls]}))
    world.document("principal", "pipeline", {"person": "pipeline", "bot": True, "iam": [{"account": ACCOUNT, "role": "pipeline"}]})
    return f"arn:aws:iam::{ACCOUNT}:role/pipeline"


class Job:
    """A job: a directory of its own, the environment that the forge gives, and what it came to."""

    def __init__(self, world, forge, folder, event):
        self.world, self.forge, self.folder = world, forge, folder
        folder.mkdir()
        (folder / "event.json").write_text(json.dumps(event))
        self.base = {
            "PATH": f"{deploy.binary('plangate', 'dev').parent}:/usr/bin:/bin", "HOME": str(folder), "TMPDIR": str(folder),
            "AWS_ENDPOINT_URL": world.stack.endpoint}

    def _run(self, command, environment):
        done = subprocess.run(command, cwd=self.folder, env={**self.base, **environment}, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=110)
        said = done.stdout + done.stderr
        self.world.heard("a pipeline's log", said)
        for secret in (self.forge.comment_token, self.forge.request_token):
            assert secret not in said
        # The identity token went with the job, and the program never had the comment's.
        assert not list(self.folder.glob("plangate-*"))
        return done.returncode, said

    def github(self, **inputs):
        """Runs the steps of action.yml as GitHub does; gives (exit code, what was said, outputs)."""
        given = {name: inputs.get(name, each.get("default", "")) for name, each in ACTION["inputs"].items()}
        assert set(inputs) <= set(given)
        outputs, summary = self.folder / "outputs", self.folder / "summary"
        outputs.write_text("")
        github = {"github.token": self.forge.comment_token}
        values = {f"inputs.{name}": evaluated(value, github) for name, value in given.items()}
        for step in ACTION["runs"]["steps"]:
            environment = {name: evaluated(value, values) for name, value in step["env"].items()}
            code, said = self._run([step["shell"], "-e", "-o", "pipefail", "-c", step["run"]], {
                "GITHUB_ACTION_PATH": str(ROOT), "GITHUB_API_URL": self.forge.address, "GITHUB_REPOSITORY": "acme/shop", "GITHUB_RUN_ID": "77",
                "GITHUB_EVENT_PATH": str(self.folder / "event.json"), "GITHUB_OUTPUT": str(outputs), "GITHUB_STEP_SUMMARY": str(summary),
                "ACTIONS_ID_TOKEN_REQUEST_URL": f"{self.forge.address}/identity?v=1", "ACTIONS_ID_TOKEN_REQUEST_TOKEN": self.forge.request_token, **environment})
        told = {f"steps.{step['id']}.outputs.{name}": value for name, value in (line.split("=", 1) for line in outputs.read_text().splitlines())}
        return code, said, {name: evaluated(each["value"], told) for name, each in ACTION["outputs"].items()}

    def gitlab(self, **variables):
        """Runs the script of ci/gitlab.yml as GitLab does; gives (exit code, what was said, the dotenv report)."""
        job = yaml.safe_load((ROOT / "ci/gitlab.yml").read_text())[".plangate"]
        (audience,) = [each["aud"] for each in job["id_tokens"].values()]
        code, said = self._run(["bash", "-e", "-o", "pipefail", "-c", "\n".join(job["script"])], {
            "GITLAB_CI": "true", "CI_API_V4_URL": self.forge.address, "CI_PROJECT_ID": "34", "CI_MERGE_REQUEST_IID": "12", "CI_PIPELINE_ID": "5",
            **{name: identity_token(self.forge.subject, audience=audience) for name in job["id_tokens"]},
            **job["variables"], "PLANGATE_SCRIPT": str(ROOT / job["variables"]["PLANGATE_SCRIPT"]), **variables})
        report = self.folder / job["artifacts"]["reports"]["dotenv"]
        return code, said, dict(line.split("=", 1) for line in report.read_text().splitlines()) if report.exists() else {}


def evaluated(text, values):
    """A text with its expressions replaced: names alone, as action.yml has them."""
    return re.sub(r"\$\{\{ ([\w.-]+) \}\}", lambda found: values.get(found[1], ""), text)


def test_an_action_shows_its_plan_on_the_pull_request_and_the_next_one_in_its_place(world, workspace, role, tmp_path):
    shop = workspace(grants={"pipeline": ("read", "propose"), "bob": ("read", "approve")})
    inputs = {"api": world.gate.api, "workspace": shop.id, "folder": str(shop.folder), "role": role, "region": REGION,
              "on-behalf-of": "carol"}
    with Forge(SUBJECT) as forge:
        job = Job(world, forge, tmp_path / "job", {"pull_request": {"number": 12}})
        for number in range(100):  # the comment is not on the first page
            forge.write(forge.comments, STRANGER, f"comment {number}")
        marker = f"<!-- plangate {shop.id} -->"
        forge.write(forge.comments, STRANGER, f"{marker}\nmine now")

        code, said, outputs = job.github(**inputs)
        assert (code, outputs["status"]) == (0, "planned"), said
        own = [each for each in forge.comments if each["user"]["login"] == BOT]
        assert len(own) == 1 and own[0]["body"].startswith(marker) and outputs["run"] in own[0]["body"]
        assert "terraform_data.banner" in own[0]["body"] and "was planned, and cannot be applied" in own[0]["body"]
        assert forge.audiences == ["sts.amazonaws.com"]

        # An applicable one waits for somebody, and tells how to decide; what a plan says does nothing.
        shop.edit('"Summer sale"', '"```\\n@everyone <img src=x> [a](http://evil.example)"')
        code, said, outputs = job.github(**inputs, mode="applicable")
        assert (code, outputs["status"]) == (0, "awaiting_approval"), said
        assert [each["id"] for each in forge.comments if each["user"]["login"] == BOT] == [own[0]["id"]], "the same comment"
        assert f"plangate approve {outputs['run']} --projection sha256:" in own[0]["body"]
        assert alive(own[0]["body"]) == alive(own[0]["body"].replace("@everyone", "").replace("<img src=x>", "").replace("http://evil.example", ""))
        assert next(each for each in forge.comments if each["body"].startswith(marker) and each is not own[0])["body"] == f"{marker}\nmine now"
        record = world.item(f"RUN#{outputs['run']}", "RUN")[0]
        assert (record["origin"], record["proposer"]["person"], record["proposer"]["on_behalf_of"]) == ("ci", "pipeline", "carol")
        world.person("bob").cli("reject", outputs["run"], "--reason", "not like this")

        # Who is behind the change has to be said; another repository's job, or one on a branch, is nobody; and a failure fails the job.
        comments = json.dumps(forge.comments)
        code, said, outputs = job.github(**{**inputs, "on-behalf-of": ""})
        assert code != 0 and "a bot names the person whom it speaks for" in said and outputs == {"run": "", "status": ""}, said
        for subject in ("repo:acme/other:pull_request", "repo:acme/shop:ref:refs/heads/main"):
            forge.subject = subject
            code, said, outputs = job.github(**inputs)
            assert code != 0 and outputs == {"run": "", "status": ""}, said
        forge.subject = SUBJECT
        shop.configure("resource \"terraform_data\" \"x\" { input = var.nowhere }\n", "broken.tf")
        code, said, outputs = job.github(**inputs, comment="false")
        assert (code, outputs["status"]) == (4, "failed"), said
        assert json.dumps(forge.comments) == comments


def test_a_gitlab_job_does_the_same_with_a_note(world, workspace, role, tmp_path):
    shop = workspace(grants={"pipeline": ("read", "propose")})
    with Forge(SUBJECT) as forge:
        job = Job(world, forge, tmp_path / "job", {})
        settings = {"PLANGATE_API": world.gate.api, "PLANGATE_WORKSPACE": shop.id, "PLANGATE_FOLDER": str(shop.folder), "PLANGATE_ROLE": role,
                    "AWS_REGION": REGION, "PLANGATE_ON_BEHALF_OF": "carol", "PLANGATE_COMMENT_TOKEN": forge.comment_token}
        forge.write(forge.notes, BOT, f"<!-- plangate {shop.id} -->\nof the run before")
        code, said, report = job.gitlab(**settings)
        assert (code, report["PLANGATE_STATUS"]) == (0, "planned"), said
        assert len(forge.notes) == 1 and report["PLANGATE_RUN"] in forge.notes[0]["body"]


def alive(markdown):
    """What of a text is not code, as a renderer of CommonMark sees it."""
    from markdown_it import MarkdownIt

    tokens = MarkdownIt("commonmark").parse(markdown)
    inline = [child for token in tokens for child in (token.children or [])]
    return [(token.type, token.content) for token in [*tokens, *inline] if token.type not in ("fence", "code_inline", "inline")]
