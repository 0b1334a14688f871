"""Deploys plangate into a laptop stack: the very templates, state machine and binaries that go to AWS.

    python -m local.deploy [NAME] [--profile PROFILE]    into a stack that `python -m local.stack up` started

What differs from AWS stands here: the runner's image is a directory, and its runner.json names this machine's engine and endpoint.
"""

import argparse
import contextlib
import dataclasses
import hashlib
import json
import os
import pathlib
import platform
import shutil
import subprocess
import sys

from deploy import image, release

from .stack import ACCOUNT, REGION, ROOT, Stack, StackError

OF_WORKSPACES = ("review-workspace",)
# The gate's own: each has a role of its own in infra/gate.yaml.
FUNCTIONS = tuple(name for name in release.functions() if name not in OF_WORKSPACES)
# Where Slack's secrets are kept, by the template's parameters.
SLACK = {"SlackSigningSecretParameter": "/slack/signing-secret", "SlackPreviousSecretParameter": "/slack/previous-secret",
         "SlackBotTokenParameter": "/slack/bot-token"}
CODE_BUCKET, CODE_PREFIX = f"plangate-code-{ACCOUNT}", "releases/local"
ARCHITECTURE = "arm64" if platform.machine() in ("aarch64", "arm64") else "x86_64"
# What infra/workspace.yaml takes for a workspace with a review function of its own.
REVIEWER = {"ReviewerCodeBucket": CODE_BUCKET, "ReviewerCodePrefix": CODE_PREFIX, "ReviewerArchitecture": ARCHITECTURE}
IMAGE = "plangate-runner:local"
NOBODY = 65534


@dataclasses.dataclass(frozen=True)
class Engine:
    """An engine's executable on this machine, as the runner's configuration names it."""

    name: str
    version: str
    path: str
    sha256: str


def find_engine():
    """The engine to use: PLANGATE_ENGINE (a name or a path), else `tofu`, else `terraform`."""
    wanted = os.environ.get("PLANGATE_ENGINE")
    for candidate in [wanted] if wanted else ["tofu", "terraform"]:
        if (path := shutil.which(candidate)) is not None:
            return describe_engine(path)
    raise StackError(f"no engine found: {wanted or 'tofu or terraform'} is not on PATH; install OpenTofu (https://opentofu.org) or Terraform")


def describe_engine(path):
    """Name, version and digest of an engine's executable."""
    path = os.path.realpath(path)
    environment = {"PATH": os.defpath, "HOME": "/nonexistent", "CHECKPOINT_DISABLE": "1"}
    said = subprocess.run([path, "version", "-json"], capture_output=True, check=True, env=environment).stdout
    # Both engines call the field after Terraform; the first line of the plain form tells which one it is.
    plain = subprocess.run([path, "version"], capture_output=True, check=True, env=environment, text=True).stdout
    with open(path, "rb") as binary:
        digest = hashlib.file_digest(binary, "sha256").hexdigest() if hasattr(hashlib, "file_digest") else hashlib.sha256(binary.read()).hexdigest()
    return Engine("opentofu" if plain.startswith("OpenTofu") else "terraform", json.loads(said)["terraform_version"], path, digest)


@dataclasses.dataclass
class Gate:
    """A deployed gate."""

    stack: Stack
    name: str
    outputs: dict
    engine: Engine
    administrator: str
    parameters: dict = dataclasses.field(default_factory=dict)

    def update(self, **parameters):
        """Updates the gate's stack with other parameters; those that are not named stay. The outputs change in place."""
        self.parameters.update(parameters)
        outputs = self.stack.deploy(ROOT / "infra/gate.yaml", self.name, self.parameters)
        self.outputs.clear()
        self.outputs.update(outputs)

    @property
    def api(self):
        """The base URL for PLANGATE_API."""
        return self.stack.api_url(self.outputs["ApiId"])

    def person(self, name, session_name=None):
        """A session of the role `name`, which may call the API and nothing else; made if need be."""
        arn = make_person(self.stack, name)
        return self.stack.session_for_role(arn, session_name or f"{name}-session")

    def admin(self):
        """A session of the first administrator."""
        return self.stack.session_for_role(self.administrator, "administrator-session")

    def environment(self, session):
        """The variables for the command line tool under a session. The API's endpoint is the only address it needs."""
        variables = self.stack.environment(session)
        variables.pop("AWS_ENDPOINT_URL")
        return {**variables, "PLANGATE_API": self.api}

    def workspace(self, workspace_id, plan_policies=(), apply_policies=(), **parameters):
        """Deploys infra/workspace.yaml; gives its outputs."""
        return self.stack.deploy(ROOT / "infra/workspace.yaml", f"{self.name}-{workspace_id}", {
            "WorkspaceId": workspace_id, "ExchangeBucket": self.outputs["ExchangeBucket"],
            "DocumentKeyArn": self.outputs["DocumentKeyArn"],
            "PlanPolicyArns": ",".join(plan_policies), "ApplyPolicyArns": ",".join(apply_policies), **parameters})

    def slack_secrets(self, slack):
        """Keeps the secrets of a Slack (local/slack.py) where the gate reads them, under its own key."""
        values = (slack.secret, slack.previous, slack.token)
        for name, value in zip(SLACK.values(), values, strict=True):
            if value:
                self.stack.client("ssm").put_parameter(
                    Name=name, Value=value, Type="SecureString", KeyId=self.outputs["GateKeyArn"], Overwrite=True)

    def secret(self, workspace, name, value, prefix="SecretPrefix"):
        """Stores a secret of a workspace (the outputs of `workspace`) under its sealed key; gives the parameter's name."""
        parameter = f"{workspace[prefix]}{name}"
        self.stack.client("ssm").put_parameter(
            Name=parameter, Value=value, Type="SecureString", KeyId=workspace["SealedKeyArn"], Overwrite=True)
        return parameter


def make_person(stack, name):
    """A role that stands for a person: the account's users may assume it, and it may call APIs; gives its ARN."""
    iam = stack.client("iam")
    trust = {"Effect": "Allow", "Principal": {"AWS": f"arn:aws:iam::{ACCOUNT}:root"}, "Action": "sts:AssumeRole"}
    calls = {"Effect": "Allow", "Action": "execute-api:Invoke", "Resource": f"arn:aws:execute-api:{REGION}:{ACCOUNT}:*"}
    with contextlib.suppress(iam.exceptions.EntityAlreadyExistsException):
        iam.create_role(RoleName=name, AssumeRolePolicyDocument=json.dumps({"Version": "2012-10-17", "Statement": [trust]}))
        iam.put_role_policy(
            RoleName=name, PolicyName="call", PolicyDocument=json.dumps({"Version": "2012-10-17", "Statement": [calls]}))
    return iam.get_role(RoleName=name)["Role"]["Arn"]


def binary(name, profile):
    """A built binary, or that of the folder PLANGATE_PROGRAMS; a StackError if it has not been built."""
    built = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / ("debug" if profile == "dev" else profile)
    path = pathlib.Path(os.environ.get("PLANGATE_PROGRAMS", built)) / name
    if not path.is_file():
        raise StackError(f"{path} is missing; build it with: cargo build --workspace --profile {profile}")
    return path


def upload_release(stack, profile):
    """Uploads the functions and the state machine, as a release does."""
    s3 = stack.client("s3")
    with contextlib.suppress(s3.exceptions.BucketAlreadyOwnedByYou):
        s3.create_bucket(Bucket=CODE_BUCKET, CreateBucketConfiguration={"LocationConstraint": REGION})
    for function in (*FUNCTIONS, *OF_WORKSPACES):
        stack.upload_function(CODE_BUCKET, f"{CODE_PREFIX}/{function}.zip", binary(f"plangate-fn-{function}", profile))
    s3.upload_file(str(ROOT / "statemachine/run.asl.json"), CODE_BUCKET, f"{CODE_PREFIX}/run.asl.json")


def other_user(paths):
    """The user `nobody` for the engine, if this is root and `nobody` can reach all of these; None otherwise."""
    if os.geteuid() != 0:
        return None
    tried = subprocess.run(
        ["/bin/sh", "-c", 'for path; do test -x "$path" || exit 1; done', "sh", *map(str, paths)],
        user=NOBODY, group=NOBODY, extra_groups=[], cwd="/", env={"PATH": os.defpath}, capture_output=True)
    return {"uid": NOBODY, "gid": NOBODY} if tried.returncode == 0 else None


def build_image(stack, outputs, engines, profile, provider_mirror=None, limits=None, retired=()):
    """Makes the runner's image: its binary, and the configuration that on AWS is baked in beside it.

    It accepts orders by each order key that the gate has, and refuses those by keys that are `retired`, by their ARNs.
    """
    directory = stack.images / IMAGE.split(":")[0]
    directory.mkdir(exist_ok=True)
    work = stack.directory / "work"
    work.mkdir(mode=0o711, exist_ok=True)
    user = other_user([work, *(engine.path for engine in engines), *([provider_mirror] if provider_mirror else [])])
    # A file of its own: a build that replaces the binary must not touch a task that runs.
    fresh = directory / "runner.new"
    shutil.copy2(binary("plangate-runner", profile), fresh)
    fresh.rename(directory / "runner")
    configuration = image.configuration(
        outputs, REGION, [dataclasses.asdict(engine) for engine in engines], image.order_keys(outputs, stack.client("kms"), retired), limits,
        endpoint_url=stack.endpoint, provider_mirror=str(provider_mirror) if provider_mirror else None, work_root=str(work), engine_user=user)
    (directory / "runner.json").write_text(json.dumps(configuration, indent=2) + "\n")
    return directory


def deploy_gate(stack, profile="dev", name="plangate", engine=None, provider_mirror=None, limits=None, review_models=(), say=lambda line: None, slack=None):
    """Deploys infra/gate.yaml and all that it needs, with `slack` (local/slack.py) or without one; gives the Gate."""
    engine = engine or find_engine()
    say("uploading the functions and the state machine")
    upload_release(stack, profile)
    administrator = make_person(stack, "administrator")
    say("deploying infra/gate.yaml")
    chat = {**SLACK, "SlackApiUrl": slack.api, "SlackRetrySeconds": str(slack.retry_seconds)} if slack else {}
    parameters = {
        "GateName": name, "CodeBucket": CODE_BUCKET, "CodePrefix": CODE_PREFIX, "RunnerImage": IMAGE,
        "Architecture": ARCHITECTURE, "ReviewModelArns": ",".join(review_models),
        "AdministratorRoleArn": administrator, **chat}
    outputs = stack.deploy(ROOT / "infra/gate.yaml", name, parameters)
    say("making the runner's image")
    build_image(stack, outputs, [engine], profile, provider_mirror, limits)
    gate = Gate(stack, name, outputs, engine, administrator, parameters)
    if slack:
        gate.slack_secrets(slack)
    return gate


def main():
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m local.deploy", description=__doc__.splitlines()[0])
    parser.add_argument("name", nargs="?", default="stack")
    parser.add_argument("--profile", default="dev", help="the cargo profile of the binaries")
    arguments = parser.parse_args()
    try:
        gate = deploy_gate(Stack.load(arguments.name), arguments.profile, say=lambda line: print(line, file=sys.stderr, flush=True))
        for key, value in gate.environment(gate.admin()).items():
            print(f"export {key}={value}")
    except StackError as error:
        sys.exit(f"error: {error}")


if __name__ == "__main__":
    main()
