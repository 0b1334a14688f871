"""The life of a gate, by the commands that people type: deployed, a workspace taken in, a run proposed, another release deployed while it waits, the run
approved and applied, everything destroyed; and what must outlive that is there. One story on a stack of its own, told in parts that follow each other."""

import base64
import hashlib
import json
import os
import pathlib
import shutil
import subprocess
import sys

import pytest

from deploy import package
from deploy.release import PROGRAMS, ROOT, Release, functions, zip_program
from gate import World
from local import deploy
from local.stack import ACCOUNT, REGION, Stack, package_function, stripped
from runs import ACTIONS, Workspace

pytestmark = pytest.mark.xdist_group("life")
STACK = "lifelong"
ADMINISTRATOR = f"arn:aws:iam::{ACCOUNT}:role/administrator"


def pack(program, archive):
    """The zip of a program as the laptop stack keeps it, so that it is made once."""
    shutil.copyfile(package_function(deploy.binary(program.name, "dev")), archive)


def release(folder, binaries, revision):
    facts = {"version": package.version(), "revision": revision, "target": "debug", "toolchain": "rustc"}
    return Release.make(folder, binaries, package.ARCHITECTURES[package.HOST], facts, pack, largest=1 << 30)


def programs():
    """The names of a release's programs."""
    return [*(f"plangate-fn-{name}" for name in functions()), *PROGRAMS]


class Life:
    """The stack, the settings, and the commands."""

    def __init__(self, stack, folder):
        self.stack, self.folder, self.world = stack, folder, None
        self.engine = deploy.find_engine()
        # Without their symbols, as in a release: half as much to carry about.
        self.binaries = {stripped(deploy.binary(name, "dev")).parent for name in programs()}.pop()
        self.environment = {"PATH": os.defpath, "HOME": str(folder), "PYTHONPATH": str(ROOT), **stack.environment()}
        self.settings = {
            "region": REGION, "stack": STACK, "tags": {"team": "platform"},
            "parameters": {"AdministratorRoleArn": ADMINISTRATOR, "RunnerImage": deploy.IMAGE},
            "workspaces": {"shop": {
                "engine": {"name": self.engine.name, "version": self.engine.version}, "policy": "default",
                "secrets": [{"variable": "database_password", "parameter": "database_password"}]}}}

    def types(self, command, *arguments, expect=0):
        """Types one of the commands; gives what it says."""
        path = self.folder / "deploy.json"
        path.write_text(json.dumps(self.settings))
        done = subprocess.run(
            [sys.executable, "-m", f"deploy.{command}", str(path), "--pause", "0.1", *map(str, arguments)], env=self.environment, cwd=self.folder,
            stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=300)
        if self.world:
            self.world.heard(f"deploy.{command}", done.stdout + done.stderr)
        assert done.returncode == expect, f"{command}: {done.stdout}\n{done.stderr}"
        return done.stdout + done.stderr

    def deploys(self, one, *arguments, expect=0):
        return self.types("gate", "--release", one.folder, *arguments, expect=expect)

    def onboards(self, one, program=None, expect=0):
        program = program or self.binaries / "plangate"
        return self.types("onboard", "shop", "--release", one.folder, "--program", program, "--api", self.gate.api, "--yes", expect=expect)

    def outputs(self):
        found = self.stack.client("cloudformation").describe_stacks(StackName=STACK)["Stacks"][0]
        return {each["OutputKey"]: each["OutputValue"] for each in found["Outputs"]}

    def parameter(self, name):
        found = self.stack.client("cloudformation").describe_stacks(StackName=STACK)["Stacks"][0]
        return next(each["ParameterValue"] for each in found["Parameters"] if each["ParameterKey"] == name)

    def opens(self):
        """Looks at what was deployed: the world of the end-to-end tests around it."""
        self.gate = deploy.Gate(self.stack, STACK, self.outputs(), self.engine, ADMINISTRATOR)
        deploy.build_image(self.stack, self.gate.outputs, [self.engine], "dev")
        self.world = World(self.stack, self.gate)

    def code(self, function):
        """The digest of the code that a function runs."""
        told = self.stack.client("lambda").get_function(FunctionName=f"{STACK}-{function}")["Configuration"]["CodeSha256"]
        return base64.b64decode(told).hex()

    def states_of(self, run):
        """The names of the states that a run's execution has entered."""
        pages = self.stack.client("stepfunctions").get_paginator("get_execution_history").paginate(executionArn=run.execution)
        return [event["stateEnteredEventDetails"]["name"] for page in pages for event in page["events"] if "stateEnteredEventDetails" in event]

    def revisions_of(self, run):
        """The revisions of the runner that a run's tasks were started from."""
        tasks = [*run.tasks(desired="STOPPED"), *run.tasks()]
        found = self.stack.client("ecs").describe_tasks(cluster=self.gate.outputs["Cluster"], tasks=tasks)["tasks"]
        return {task["taskDefinitionArn"] for task in found}


class Onboarded(Workspace):
    """A workspace that `make onboard` has taken in."""

    def __init__(self, world, identity, outputs, folder):
        self.world, self.id, self.name, self.outputs, self.folder = world, identity, "shop", outputs, folder
        self.bucket, self.state_key, self.model_key = outputs["StateBucket"], outputs["StateKey"], None
        self.secret = world.plant(self)
        self.parameter = world.gate.secret(outputs, "database_password", self.secret)
        for person in ("alice", "bob"):
            world.grant(person, [identity], ACTIONS)
        shutil.copytree(ROOT / "local/sample", folder)


@pytest.fixture(scope="module")
def life(tmp_path_factory):
    with Stack.start(f"life-{os.environ.get('PYTEST_XDIST_WORKER', 'main')}-{os.getpid()}") as stack:
        yield Life(stack, tmp_path_factory.mktemp("life"))


@pytest.fixture(scope="module")
def first(life):
    """The release before: the programs as they were built."""
    return release(life.folder / "first", life.binaries, "first")


@pytest.fixture(scope="module")
def second(life):
    """A release after it: other programs, and a state machine that begins with a state that the first one does not have."""
    other = life.folder / "programs"
    other.mkdir()
    for name in programs():
        (other / name).symlink_to(life.binaries / name)
    for name in ("api", "authorize"):
        path = other / f"plangate-fn-{name}"
        content = path.read_bytes()
        path.unlink()
        path.write_bytes(content + b"second")
        path.chmod(0o755)

    def packed(program, archive):
        pack(program, archive) if program.is_symlink() else zip_program(program, archive, 1)
    made = Release.make(life.folder / "second", other, package.ARCHITECTURES[package.HOST], {"version": "9.9.9", "revision": "second", "target": "debug", "toolchain": "rustc"},
                        packed, largest=1 << 30)
    return edited(made, "run.asl.json", begins_with_another_state)


def begins_with_another_state(text):
    told = json.loads(text)
    told["States"]["Begin"] = {"Type": "Pass", "Output": {}, "Next": told["StartAt"]}
    return json.dumps({**told, "StartAt": "Begin"})


def edited(one, name, change):
    """A release with one of its files changed, manifest and all."""
    def put(path, text):
        path.unlink()  # another release may share it
        path.write_text(text)
    put(one.folder / name, change((one.folder / name).read_text()))
    manifest = json.loads((one.folder / "manifest.json").read_text())
    content = (one.folder / name).read_bytes()
    manifest["files"][name] = {"sha256": hashlib.sha256(content).hexdigest(), "bytes": len(content)}
    put(one.folder / "manifest.json", json.dumps(manifest, indent=2, sort_keys=True) + "\n")
    return Release.load(one.folder)


def copied(one, name):
    shutil.copytree(one.folder, one.folder.parent / name, copy_function=os.link)
    return Release.load(one.folder.parent / name)


def test_a_gate_lives_through_a_release_with_a_run_in_flight_and_what_it_knew_outlives_it(life, first, second):
    stack, cloudformation = life.stack, life.stack.client("cloudformation")
    deploy.make_person(stack, "administrator")

    # Nothing is made that nobody agreed to.
    said = life.deploys(first, expect=1)
    assert "+ added AWS::DynamoDB::Table: AuditTable, MainTable" in said and "Nobody is there to be asked" in said
    assert not [each for each in cloudformation.describe_stacks()["Stacks"] if each["StackName"] == STACK and each["StackStatus"] not in ("DELETE_COMPLETE", "REVIEW_IN_PROGRESS")]

    said = life.deploys(first, "--yes")
    assert f"s3://{STACK}-code-{ACCOUNT}-{REGION}/{first.prefix}/ is there already" in said, "uploaded once"
    assert f"ApiUrl: {life.outputs()['ApiUrl']}" in said and "make onboard" in said
    assert all(life.code(name) == first.manifest["files"][f"{name}.zip"]["sha256"] for name in ("api", "authorize", "guard"))
    assert "nothing had to change" in life.deploys(first)
    # Who can write to the bucket does not slip something into a release that is there.
    s3, bucket, key = stack.client("s3"), f"{STACK}-code-{ACCOUNT}-{REGION}", f"{first.prefix}/run.asl.json"
    laid_over = s3.put_object(Bucket=bucket, Key=key, Body=b"another")["VersionId"]
    assert f"s3://{bucket}/{key} is another file" in life.deploys(first, "--yes", expect=1)
    s3.delete_object(Bucket=bucket, Key=key, VersionId=laid_over)
    life.opens()
    world = life.world

    # Onboarding that dies between the stack and the gate's own document goes on with the same workspace, and then has nothing to do.
    dying = life.folder / "dying"
    dying.write_text(f'#!/bin/sh\ncase "$*" in *get*) exit 1;; esac\nexec {life.binaries / "plangate"} "$@"\n')
    dying.chmod(0o755)
    life.onboards(first, program=dying, expect=1)
    begun, = [each for each in cloudformation.describe_stacks()["Stacks"] if each["StackName"].startswith(f"{STACK}-ws-")]
    said = life.onboards(first)
    identity = begun["StackName"].removeprefix(f"{STACK}-")
    assert f"the workspace `shop` is {identity}, begun before" in said and "the gate knows the workspace `shop`\n" in said
    assert "knows the workspace `shop` already\n" in life.onboards(first)
    assert [each["id"] for each in json.loads(world.admin.cli("workspace", "list").out)["documents"]] == [identity]
    shop = Onboarded(world, identity, {each["OutputKey"]: each["OutputValue"] for each in begun["Outputs"]}, life.folder / "shop")

    run = shop.waiting()
    behind = shop.propose().wait("queued")
    revision = life.outputs()["TaskDefinition"]

    # A release that no longer gives what those runs ask is not deployed.
    def forgets(text):
        told = json.loads(text)
        told["States"]["Authorize"]["Catch"][0]["ErrorEquals"].remove("Frozen")
        return json.dumps(told)
    said = life.deploys(edited(copied(second, "third"), "run.asl.json", forgets), "--yes", expect=1)
    assert f"`authorize` fails by the name of `Frozen` no longer: {', '.join(sorted([run.id, behind.id]))}" in said and "nothing was changed" in said
    assert life.parameter("CodePrefix") == first.prefix

    # The next release: other programs, another state machine, another image. Both runs go on, by the definition and the image that they began with.
    shutil.copytree(stack.images / deploy.IMAGE.split(":")[0], stack.images / "plangate-runner-next", copy_function=os.link)
    life.settings["parameters"]["RunnerImage"] = "plangate-runner-next:local"
    said = life.deploys(second, "--yes")
    assert "REPLACED AWS::ECS::TaskDefinition: TaskDefinition" in said and "2 runs are in flight and go on" in said
    assert life.outputs()["TaskDefinition"] != revision == life.parameter("EarlierTaskDefinitions")
    assert life.code("authorize") == second.manifest["files"]["authorize.zip"]["sha256"] != first.manifest["files"]["authorize.zip"]["sha256"]
    run.approve()
    assert (run.end(), behind.end()) == ("applied", "no_changes") and run.one_terminal_status() == "applied"
    shop.no_lock_left()
    assert life.revisions_of(run) == life.revisions_of(behind) == {revision}
    assert "Begin" not in life.states_of(run) and "RequestApproval" in life.states_of(run)

    # Runs that begin now are the new release's. The update after it lets go of the image before, since nobody names it any more.
    shop.edit("replicas = 2", "replicas = 3")
    later = shop.waiting()
    assert life.revisions_of(later) == {life.outputs()["TaskDefinition"]} and life.states_of(later)[:2] == ["Begin", "Admit"]
    life.settings["parameters"]["RunnerMemory"] = "8192"
    life.deploys(second, "--yes")
    assert life.parameter("EarlierTaskDefinitions") == next(iter(life.revisions_of(later))), "the first image is allowed no longer"

    # Nothing is destroyed under a run, and nothing on a slip of the pen.
    assert later.id in life.types("destroy", "--confirm", STACK, expect=1)
    later.cancel()
    later.settled()
    world.scan_for_secrets()
    assert "nothing was deleted" in life.types("destroy", "--confirm", "plangate", expect=1)
    gate, state, chain = life.outputs(), shop.state(), run.events()
    said = life.types("destroy", "--confirm", STACK)
    stays = {gate["Table"], gate["AuditTable"], gate["ExchangeBucket"], gate["ArchiveBucket"], shop.bucket}
    keys = {gate[name].rsplit("/", 1)[-1] for name in ("GateKeyArn", "DocumentKeyArn", "OrderKeyArn")} | {shop.outputs["SealedKeyArn"].rsplit("/", 1)[-1]}
    assert all(said.count(f" {physical}\n") >= 2 for physical in stays | keys), "told before, and after"
    left = [each["StackName"] for each in cloudformation.describe_stacks()["Stacks"] if each["StackName"].startswith(STACK) and each["StackStatus"] != "DELETE_COMPLETE"]
    assert left == []
    assert not [each for each in stack.client("lambda").list_functions()["Functions"] if each["FunctionName"].startswith(STACK)]
    assert not [each for each in stack.client("iam").list_roles()["Roles"] if STACK in each["RoleName"] or identity in each["RoleName"]]
    assert shop.state() == state and run.events() == chain, "the state, and an audit that can still be verified"
    assert {stack.client("kms").describe_key(KeyId=key)["KeyMetadata"]["KeyState"] for key in keys} == {"Enabled"}
    assert world.keys("events/", gate["ArchiveBucket"]), "the locked archive"
