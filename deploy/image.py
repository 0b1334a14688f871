"""Makes the runner's image for one gate: `make image`, and with PUSH=1 into the gate's repository.

    python -m deploy.image SETTINGS [--release FOLDER] [--tool buildah|docker] [--push]

The image is the runner, the engines of the settings, certificates, and `runner.json` with the addresses and the public order keys of the gate's
stack. It is built without Docker where buildah is there. It is started once, with nothing to do, before it is pushed.
"""

import argparse
import base64
import json
import pathlib
import shutil
import subprocess
import sys

from . import DeployError, changes, elf
from .account import Account, say
from .gate import REPOSITORY
from .package import OUT
from .release import ROOT, Release, digest
from .settings import load

USER, HOME, RUNNER = 65532, "/var/lib/plangate", "/plangate/runner"
LIMITS = {
    "plan_seconds": 3000, "apply_seconds": 3000, "bundle_files": 10_000, "bundle_bytes": 100 << 20, "document_bytes": 256 << 20,
    "artifact_bytes": 256 << 20, "log_bytes": 32 << 20, "grace_seconds": 100,
}
CERTIFICATES = ("/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/cert.pem")
WITHOUT_A_RUN = "the variable `PLANGATE_WORKSPACE` is missing"
PROGRAM = {"opentofu": "tofu", "terraform": "terraform"}


def order_keys(outputs, kms, retired=()):
    """The keys of apply orders that an image accepts, those of the gate, and those that it knows as retired."""
    accepted = [outputs[name] for name in ("OrderKeyArn", "OtherOrderKeyArn") if name in outputs]
    return [{"key_id": key, "public_key_pem": pem(kms.get_public_key(KeyId=key)["PublicKey"]), "state": "retired" if key in retired else "accepted"}
            for key in dict.fromkeys([*accepted, *retired])]


def pem(der):
    """A public key, as KMS gives it, in PEM."""
    text = base64.b64encode(der).decode()
    lines = [text[place:place + 64] for place in range(0, len(text), 64)]
    return "\n".join(["-----BEGIN PUBLIC KEY-----", *lines, "-----END PUBLIC KEY-----", ""])


def configuration(outputs, region, engines, keys, limits=None, **more):
    """What stands in `runner.json`: `engines` with the paths that they have in the image, `more` for where that is none."""
    return {"schema": "plangate.runner.v1", "region": region, "exchange_bucket": outputs["ExchangeBucket"], "document_key": outputs["DocumentKeyArn"],
            "endpoint_url": None, "engines": engines, "provider_mirror": None, "work_root": HOME, "engine_user": None, "order_keys": keys,
            "limits": {**LIMITS, **(limits or {})}, **more}


def lay_out(context, runner, architecture, engines, certificates, configure):
    """Lays out the folder that the image is built in; gives the engines as NAME:VERSION:SHA256. `configure` makes `runner.json` of the engines.

    Refuses a program that is another than the settings say, or that could not run where there is nothing else.
    """
    shutil.rmtree(context, ignore_errors=True)
    root = context / "rootfs"
    for folder in ("plangate", "etc/ssl/certs", "opt/engines"):
        (root / folder).mkdir(parents=True)
    (context / "work").mkdir()
    (context / "work/.keep").touch()  # COPY takes a folder for what is in it
    _program(runner, root / RUNNER[1:], architecture)
    told = []
    for engine in engines:
        if digest(engine["file"]) != engine["sha256"]:
            raise DeployError(f"{engine['file']} has the SHA-256 {digest(engine['file'])}, not that of {engine['name']} {engine['version']} in the settings")
        path = f"opt/engines/{engine['name']}-{engine['version']}/{PROGRAM[engine['name']]}"
        (root / path).parent.mkdir()
        _program(engine["file"], root / path, architecture)
        told.append({"name": engine["name"], "version": engine["version"], "path": f"/{path}", "sha256": engine["sha256"]})
    if not told:
        raise DeployError("the settings name no engine: `image.engines`")
    shutil.copyfile(certificates, root / "etc/ssl/certs/ca-certificates.crt")
    (root / "etc/passwd").write_text(f"runner:x:{USER}:{USER}::{HOME}:/nonexistent\n")
    (root / "etc/group").write_text(f"runner:x:{USER}:\n")
    (root / "plangate/runner.json").write_text(json.dumps(configure(told), indent=2) + "\n")
    for path in root.rglob("*"):
        path.chmod(0o755 if path.is_dir() or path.parent.name != "plangate" and "opt" in path.parts or path.name == "runner" else 0o644)
    shutil.copyfile(ROOT / "deploy/image/Dockerfile", context / "Dockerfile")
    return ",".join(f"{each['name']}:{each['version']}:{each['sha256']}" for each in told)


def _program(source, target, architecture):
    """Puts a program into the image, where there is no library and no loader for it."""
    found = elf.read(source)
    if found.architecture != architecture:
        raise DeployError(f"{source} is for {found.architecture}, the image for {architecture}")
    if not found.static:
        raise DeployError(f"{source} needs libraries ({', '.join(found.libraries) or 'a loader'}), and the image has none: build the release for musl "
                          "(rustup target add, apt-get install musl-tools, make package)")
    shutil.copyfile(source, target)


def tools(name=None):
    """The command that builds images."""
    for candidate in [name] if name else ["buildah", "docker"]:
        if shutil.which(candidate):
            return candidate
    raise DeployError("an image is built by buildah or docker: on Debian or Ubuntu, apt-get install buildah")


def run(*command, expect=0):
    """Runs a command; gives what it prints."""
    done = subprocess.run([str(each) for each in command], capture_output=True, text=True, check=False)
    if done.returncode != expect:
        raise DeployError(f"`{' '.join(map(str, command[:3]))} ...` ended with {done.returncode}:\n{(done.stdout + done.stderr).strip()[-3000:]}")
    return done.stdout + done.stderr


def build(tool, context, tag, engines, release, architecture):
    """Builds the image; its own check, in it, refuses one that is not whole."""
    arguments = ["--build-arg", f"ENGINES={engines}", "--build-arg", f"RELEASE={release}", "--tag", tag, context]
    platform = f"linux/{'arm64' if architecture == 'arm64' else 'amd64'}"
    if tool == "buildah":
        return run("buildah", "build", "--isolation", "chroot", "--format", "oci", "--timestamp", "0", "--platform", platform, *arguments)
    return run("docker", "build", "--platform", platform, *arguments)


def start(tool, tag):
    """Starts the image as a task would be, with nothing to do: it must read its settings, and end because it is told no run."""
    if tool == "docker":
        said = run("docker", "run", "--rm", "--read-only", "--network", "none", "--cap-drop", "ALL", tag, expect=1)
    else:
        container = run("buildah", "from", "--pull-never", tag).split()[-1]
        try:
            said = run("buildah", "run", "--isolation", "chroot", container, "--", RUNNER, expect=1)
        finally:
            run("buildah", "rm", container)
    if WITHOUT_A_RUN not in said:
        raise DeployError(f"the image does not start as it must:\n{said}")
    return said.strip()


def push(account, tool, tag, repository):
    """Pushes the image into the account's repository, which is made if it is not there; gives the image by its digest."""
    ecr = account.client("ecr")
    try:
        ecr.create_repository(repositoryName=repository, imageTagMutability="IMMUTABLE", imageScanningConfiguration={"scanOnPush": True})
        say(f"made the repository {repository}")
    except ecr.exceptions.RepositoryAlreadyExistsException:
        pass
    token = ecr.get_authorization_token()["authorizationData"][0]
    user, password = base64.b64decode(token["authorizationToken"]).decode().split(":", 1)
    registry = token["proxyEndpoint"].split("://", 1)[1]
    name = f"{registry}/{repository}:{tag.split(':', 1)[1]}"
    # By standard input: an argument could be read by everybody on this machine.
    done = subprocess.run([tool, "login", "--username", user, "--password-stdin", registry], input=password, capture_output=True, text=True, check=False)
    if done.returncode:
        raise DeployError(f"{registry} lets nobody in: {done.stderr.strip()}")
    run(tool, "tag", tag, name)
    run(tool, "push", name)
    found = ecr.describe_images(repositoryName=repository, imageIds=[{"imageTag": tag.split(":", 1)[1]}])["imageDetails"][0]["imageDigest"]
    return f"{registry}/{repository}@{found}"


def main():
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m deploy.image", description=__doc__.splitlines()[0])
    parser.add_argument("settings", type=pathlib.Path)
    parser.add_argument("--release", type=pathlib.Path, default=OUT, help="the release's folder")
    parser.add_argument("--tool", choices=("buildah", "docker"))
    parser.add_argument("--push", action="store_true", help="push it into the account's repository")
    arguments = parser.parse_args()
    try:
        settings, release, tool = load(arguments.settings), Release.load(arguments.release), tools(arguments.tool)
        account = Account.of(settings.region)
        found = changes.describe(account.client("cloudformation"), settings.stack)
        if found is None:
            raise DeployError(f"there is no stack `{settings.stack}`: make deploy first, the image has its names and keys")
        outputs, retired = changes.outputs(found), settings.image.get("retired_order_keys", ())
        keys = order_keys(outputs, account.client("kms"), retired)
        certificates = next((path for path in CERTIFICATES if pathlib.Path(path).is_file()), None)
        if certificates is None:
            raise DeployError("this machine has no bundle of certificates to give to the image: on Debian or Ubuntu, apt-get install ca-certificates")
        context = ROOT / "target/image" / settings.stack
        engines = lay_out(
            context, release.folder / "plangate-runner", release.manifest["architecture"], settings.image.get("engines", []), certificates,
            lambda engines: configuration(outputs, settings.region, engines, keys, settings.image.get("limits")))
        tag = f"plangate-runner:{release.manifest['version']}-{digest(context / 'rootfs/plangate/runner.json')[:8]}-{release.digest[:8]}"
        build(tool, context, tag, engines, release.manifest["version"], release.manifest["architecture"])
        say(f"built {tag}; started, it says: {start(tool, tag)}")
        if arguments.push:
            image = push(account, tool, tag, settings.parameters.get("RunnerRepository", REPOSITORY))
            say(f'pushed. Write it into the settings, and make deploy:\n  "RunnerImage": "{image}"')
    except DeployError as error:
        sys.exit(f"error: {error}")


if __name__ == "__main__":
    main()
