"""What somebody with the keys of the whole account could do to a run, and posts at which a run stops so that it is done at a known moment."""

import base64
import concurrent.futures
import contextlib
import dataclasses
import hashlib
import http.client
import io
import json
import os
import pathlib
import secrets
import shutil
import signal
import tarfile
import threading
import urllib.parse

from gate import TERMINAL, Run, wait_until
from local import deploy


def together(count, act):
    """Calls `act(number)` in so many threads that begin at the same moment; gives the results in order."""
    start = threading.Barrier(count)

    def run(number):
        start.wait()
        return act(number)

    with concurrent.futures.ThreadPoolExecutor(count) as pool:
        return list(pool.map(run, range(count)))


# -- posts ---------------------------------------------------------------------------------------------------------


class Post:
    """A place at which something waits until it is let through. Whoever comes there leaves a note first."""

    def __init__(self, world, name):
        folder = world.stack.directory / "posts"
        folder.mkdir(exist_ok=True)
        folder.chmod(0o1777)  # an engine may run as another user
        self.path = folder / f"{name}-{secrets.token_hex(4)}"

    @property
    def wait(self):
        """The shell's words for waiting here."""
        return f': > {self.path}.waiting; while [ ! -e {self.path} ]; do sleep 0.02; done'

    def reached(self):
        """Waits until something waits here."""
        wait_until(pathlib.Path(f"{self.path}.waiting").exists, f"something to wait at {self.path.name}")
        return self

    def open(self):
        """Lets everything through that waits here, and all that comes later."""
        self.path.touch()


@contextlib.contextmanager
def task_held(world, phase, after=False, **runner):
    """Within this block the tasks of a phase wait before the runner starts, or after it has ended; gives the post."""
    post = Post(world, f"{phase}-{'after' if after else 'before'}")
    with world.runner(**runner):
        image = world.stack.images / deploy.IMAGE.split(":")[0]
        inner = image / post.path.name
        inner.mkdir()
        (image / "runner").rename(inner / "runner")
        shutil.copy2(image / "runner.json", inner)
        here = f'[ "$PLANGATE_PHASE" != {phase} ] || {{ {post.wait}; }}'
        body = f'{inner}/runner\ncode=$?\n{here}\nexit $code' if after else f"{here}\nexec {inner}/runner"
        executable(image / "runner", f"#!/bin/sh\n{body}\n")
        yield post


@contextlib.contextmanager
def engine_held(world, command, **runner):
    """Within this block new tasks have an engine that waits before one of its commands; gives the post."""
    post = Post(world, f"engine-{command}")
    script = post.path.with_suffix(".sh")
    executable(script, f'#!/bin/sh\n[ "$1" != {command} ] || {{ {post.wait}; }}\nexec {world.gate.engine.path} "$@"\n')
    digest = hashlib.sha256(script.read_bytes()).hexdigest()
    engine = dataclasses.replace(world.gate.engine, path=str(script), sha256=digest)
    with world.runner(engines=[engine], **runner):
        yield post


def executable(path, text):
    """Writes a script; a process that runs an older one of the same name goes on with that."""
    fresh = path.with_name(f"{path.name}.new")
    fresh.write_text(text)
    fresh.chmod(0o755)
    fresh.rename(path)


def hold_in_configuration(post):
    """A provisioner that waits at a post: whatever it belongs to is being made when something waits there."""
    return f'provisioner "local-exec" {{\n    command = "{post.wait}"\n  }}'


# -- processes and tasks -------------------------------------------------------------------------------------------


def kill_runner(run):
    """Kills the runner of a run, as a host that dies does; all that it started dies with it."""
    _kill(run, is_runner(run))
    wait_until(lambda: not run.tasks(), f"the task of {run.id} to end")
    shutil.rmtree(run.world.stack.directory / "work" / run.id)  # a task's disk dies with it


def kill_engine(run):
    """Kills the engine of a run, and it alone."""
    _kill(run, is_engine(run))


def is_runner(run):
    """Tells of a process whether it is the runner of a run."""
    return lambda process: f"PLANGATE_RUN={run.id}".encode() in variables(process) and _program(process) == "runner"


def is_engine(run):
    """Tells of a process whether it is the engine of a run."""
    folder, name = str(run.world.stack.directory / "work" / run.id), pathlib.Path(run.world.gate.engine.path).name
    return lambda process: os.readlink(process / "cwd").startswith(folder) and _program(process) == name


def processes(chosen):
    """The ids of the processes of which `chosen` holds, given their folders in /proc; those that end meanwhile are none."""
    for process in pathlib.Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            if process.name.isdigit() and chosen(process):
                yield int(process.name)


def variables(process):
    """The environment of a process, as `name=value` each."""
    return set((process / "environ").read_bytes().split(b"\0"))


def _kill(run, chosen):
    found = list(processes(chosen))
    assert len(found) == 1, f"{found} instead of one process of {run.id}"
    os.kill(found[0], signal.SIGKILL)


def _program(process):
    return pathlib.Path(os.readlink(process / "exe")).name


def start_by_hand(world, workspace, run, phase, role, **more):
    """Starts a runner's task as whoever may start any task, with more in its environment; gives its ARN."""
    environment = {"PLANGATE_WORKSPACE": workspace, "PLANGATE_RUN": run, "PLANGATE_PHASE": phase, **more}
    started = world.stack.client("ecs").run_task(
        cluster=world.outputs["Cluster"], taskDefinition=world.outputs["TaskDefinition"], launchType="FARGATE", overrides={
            "taskRoleArn": role, "containerOverrides": [
                {"name": "runner", "environment": [{"name": name, "value": value} for name, value in environment.items()]}]})
    return started["tasks"][0]["taskArn"]


def elsewhere(world, name):
    """Gives tasks that start from now on a disk of their own, as Fargate does."""
    file = world.stack.images / deploy.IMAGE.split(":")[0] / "runner.json"
    configuration = json.loads(file.read_text())
    work = world.stack.directory / f"work-{name}"
    work.mkdir(mode=0o711, exist_ok=True)
    file.write_text(json.dumps({**configuration, "work_root": str(work)}))


def exit_code(world, task):
    """Waits for the end of a task; gives the exit code of its container."""
    def look():
        found = world.stack.client("ecs").describe_tasks(cluster=world.outputs["Cluster"], tasks=[task])["tasks"][0]
        return found["containers"] if found["lastStatus"] == "STOPPED" else None
    return wait_until(look, f"the end of {task}")[0]["exitCode"]


def said(world, task):
    """What a task has printed."""
    logs = world.stack.client("logs")
    stream = f"runner/runner/{task.rsplit('/', 1)[-1]}"
    pages = logs.get_log_events(logGroupName=world.outputs["LogGroup"], logStreamName=stream, startFromHead=True)
    return "\n".join(event["message"] for event in pages["events"])


def stop_task(run, phase):
    """Stops the one task of a phase, politely: its runner is asked to end."""
    task, = run.tasks(phase)
    run.world.stack.client("ecs").stop_task(cluster=run.world.outputs["Cluster"], task=task, reason="a test")
    return task


def abort(run):
    """Ends the execution of a run from outside."""
    run.world.stack.client("stepfunctions").stop_execution(executionArn=run.execution, error="Test", cause="a test")


def swept(run):
    """Has the sweeper look until the run has ended."""
    def look():
        if run.status in TERMINAL:
            return True
        run.world.sweep()
        return None
    wait_until(look, f"the sweeper to conclude {run.id}")
    return run


# -- objects -------------------------------------------------------------------------------------------------------


def replace(world, key, content, bucket=None, **more):
    """Writes an object anew behind the gate's back; gives the new version's id."""
    where = {"Bucket": bucket or world.outputs["ExchangeBucket"], "Key": key}
    world.stored.forged(f"s3://{where['Bucket']}/{key}")
    if key.startswith("documents/"):
        where.update(ServerSideEncryption="aws:kms", SSEKMSKeyId=world.outputs["DocumentKeyArn"])
    return world.stack.client("s3").put_object(Body=content, **where, **more)["VersionId"]


def receipt_key(run, phase):
    """Where the receipt of a phase stands."""
    return f"receipts/{run.workspace.id}/{run.id}/{phase}.json"


def order_key(run, name="apply.json"):
    """Where a part of a run's order stands."""
    return f"orders/{run.workspace.id}/{run.id}/{name}"


def artifact(run):
    """Bucket and key of a run's artifact."""
    stored = run.record["plan"]["artifact"]
    return stored["bucket"], stored["key"]


def forge_receipt(run, phase, change):
    """Changes a receipt before the gate has taken it in."""
    receipt = json.loads(run.world.object(receipt_key(run, phase)))
    change(receipt)
    replace(run.world, receipt_key(run, phase), json.dumps(receipt, separators=(",", ":")).encode())


def nothing_applied(run):
    """Asserts that no engine was started for an apply: no runner took the claim, and no result was left."""
    world, workspace = run.world, run.workspace
    claim = world.object(f"claims/{workspace.id}/{run.id}")
    assert claim is None or json.loads(claim)["holder"] == "gate", claim
    assert world.keys(f"results/{workspace.id}/{run.id}") == []


def state_versions(workspace):
    """Every version that the state of a workspace ever had, deletions too: nothing can be undone in it."""
    found = workspace.world.stack.client("s3").list_object_versions(Bucket=workspace.bucket, Prefix=workspace.state_key)
    listed = [*found.get("Versions", []), *found.get("DeleteMarkers", [])]
    return sorted(each["VersionId"] for each in listed if each["Key"] == workspace.state_key)


@contextlib.contextmanager
def untouched(*workspaces):
    """Asserts that whatever is done within this block leaves the estates as they were: no state has another version afterwards."""
    before = [state_versions(workspace) for workspace in workspaces]
    yield
    assert [state_versions(workspace) for workspace in workspaces] == before, "an estate was changed"


# -- bundles that no command line tool would build -----------------------------------------------------------------


def archive(files=(), *entries):
    """A bundle by hand: a tar of `files` ({name: text}) and of tar entries as they are, in a zstd frame without compression."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w", format=tarfile.GNU_FORMAT) as tar:
        for name, text in dict(files).items():
            content = text.encode()
            info = tarfile.TarInfo(name)
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
        for info, content in entries:
            tar.addfile(info, io.BytesIO(content))
    return zstd(packed.getvalue())


def entry(name, kind=tarfile.REGTYPE, content=b"", **fields):
    """A tar entry of any kind."""
    info = tarfile.TarInfo(name)
    info.type, info.size = kind, len(content)
    for field, value in fields.items():
        setattr(info, field, value)
    return info, content


def zstd(content):
    """A zstd frame that holds the content as it is (RFC 8878: single segment, raw blocks)."""
    blocks, size = [], 1 << 16
    pieces = [content[start:start + size] for start in range(0, len(content), size)] or [b""]
    for number, piece in enumerate(pieces, 1):
        blocks.append((len(piece) << 3 | (number == len(pieces))).to_bytes(3, "little") + piece)
    return b"\x28\xb5\x2f\xfd\xa0" + len(content).to_bytes(4, "little") + b"".join(blocks)


def digest_of(content):
    """The digest of bytes as the gate writes it."""
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


def bundle_key(workspace, digest):
    """Where a bundle stands."""
    return f"bundles/{workspace.id}/{digest.removeprefix('sha256:')}.tar.zst"


def upload(workspace, content, digest=None, by="alice", size=None, drop=()):
    """Uploads bytes as the bundle of a digest, their own unless another is named; gives S3's status."""
    body = {"workspace": workspace.id, "digest": digest or digest_of(content), "bytes": size or len(content)}
    answer = workspace.world.person(by).ask("POST", "/v1/bundles", body)
    url = urllib.parse.urlsplit(answer["url"])
    connection = http.client.HTTPConnection(url.hostname, url.port, timeout=60)
    try:
        headers = {name: value for name, value in answer["headers"] if name.lower() not in drop}
        connection.request("PUT", f"{url.path}?{url.query}", content, headers)
        response = connection.getresponse()
        response.read()
        return response.status
    finally:
        connection.close()


def propose(workspace, digest, kind="plan-only", by="alice"):
    """Proposes a bundle that has been uploaded, by a plain request; gives the Run."""
    body = {"request_id": secrets.token_hex(8), "workspace": workspace.id, "kind": kind, "bundle": digest}
    return Run(workspace, workspace.world.person(by).ask("POST", "/v1/runs", body, 201)["run"]["id"])


def propose_archive(workspace, content, kind="plan-only"):
    """Uploads and proposes a bundle by hand; gives the Run."""
    assert upload(workspace, content) == 200
    return propose(workspace, digest_of(content), kind)


# -- the test provider ---------------------------------------------------------------------------------------------

PROVIDER = "registry.terraform.io/plangate/sample"


def own_mirror(world, mirror):
    """A copy of a provider mirror that engines can read under any user, and that a test may change."""
    copy = world.stack.directory / "mirrors" / secrets.token_hex(4)
    shutil.copytree(mirror, copy)
    for path in [copy.parent, copy, *copy.rglob("*")]:
        path.chmod(0o755)
    return copy


def swap_provider(mirror):
    """Puts another program in the provider's place that works the same, with another hash."""
    program, = mirror.rglob("terraform-provider-sample_v*")
    swapped = program.with_name("swapped")
    shutil.copy2(program, swapped)
    with open(swapped, "ab") as file:
        file.write(b"\n")
    swapped.rename(program)


def provider_lock(mirror):
    """A dependency lock for the provider in a mirror: the `h1` hash is of the sorted list of file digests, as the engine makes it."""
    program, = mirror.rglob("terraform-provider-sample_v*")
    listed = f"{hashlib.sha256(program.read_bytes()).hexdigest()}  {program.name}\n"
    h1 = base64.b64encode(hashlib.sha256(listed.encode()).digest()).decode()
    return f'provider "{PROVIDER}" {{\n  version = "0.1.0"\n  hashes = [\n    "h1:{h1}",\n  ]\n}}\n'


def configure_provider(workspace, mirror, things, lock=None):
    """Gives a workspace a configuration of the test provider with these resources, and a dependency lock."""
    workspace.configure(provider_configuration(things))
    workspace.configure(provider_lock(mirror) if lock is None else lock, ".terraform.lock.hcl")


def provider_configuration(things):
    """A configuration of the test provider."""
    return (
        f'terraform {{\n  required_providers {{\n    sample = {{\n      source = "{PROVIDER}"\n    }}\n  }}\n}}\n\n'
        f'variable "database_password" {{\n  type      = string\n  sensitive = true\n}}\n\n{things}\n')
