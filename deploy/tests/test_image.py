"""The runner's image: what it is laid out of, what is refused, and, where there is something to build it with, that it starts."""

import json
import os
import pathlib
import shutil

import pytest

from deploy import DeployError, image, package
from deploy.release import ROOT, digest
from local.deploy import find_engine
from local.stack import ACCOUNT, REGION

OUTPUTS = {"ExchangeBucket": "plangate-exchange", "DocumentKeyArn": f"arn:aws:kms:{REGION}:{ACCOUNT}:key/1", "OrderKeyArn": f"arn:aws:kms:{REGION}:{ACCOUNT}:key/2"}
KEYS = [{"key_id": OUTPUTS["OrderKeyArn"], "public_key_pem": image.pem(b"a key"), "state": "accepted"}]
ARCHITECTURE = package.ARCHITECTURES[package.HOST]
RUNNER = ROOT / "target/packaging" / f"{package.HOST}-unknown-linux-musl/release/plangate-runner"


def engine(**other):
    found = find_engine()
    return {"name": found.name, "version": found.version, "file": found.path, "sha256": found.sha256, **other}


def lay_out(context, runner=None, **other):
    certificates = context.parent / "certificates.pem"
    certificates.write_text("-----BEGIN CERTIFICATE-----\n")
    # An engine is a program that needs no libraries, as the runner is.
    return image.lay_out(context, runner or engine()["file"], ARCHITECTURE, [engine(**other)], certificates,
                         lambda engines: image.configuration(OUTPUTS, REGION, engines, KEYS, {"plan_seconds": 600}))


def test_an_image_holds_the_runner_its_settings_the_engines_and_nothing_to_break_in_with(tmp_path):
    told, root = lay_out(tmp_path / "context"), tmp_path / "context/rootfs"
    one = engine()
    assert told == f"{one['name']}:{one['version']}:{one['sha256']}"
    settings = json.loads((root / "plangate/runner.json").read_text())
    assert (settings["exchange_bucket"], settings["order_keys"], settings["endpoint_url"], settings["limits"]["plan_seconds"]) == ("plangate-exchange", KEYS, None, 600)
    carried, = settings["engines"]
    assert digest(root / carried["path"][1:]) == carried["sha256"] == one["sha256"]
    files = {str(path.relative_to(root)) for path in root.rglob("*") if path.is_file()}
    assert files == {"plangate/runner", "plangate/runner.json", carried["path"][1:], "etc/ssl/certs/ca-certificates.crt", "etc/passwd", "etc/group"}
    assert all(not path.stat().st_mode & 0o022 for path in root.rglob("*")), "only root could write it"
    assert {str(path.relative_to(root)) for path in root.rglob("*") if path.is_file() and path.stat().st_mode & 0o111} == {"plangate/runner", carried["path"][1:]}


def test_the_build_is_told_to_leave_nobody_root_and_nothing_to_choose():
    said = [line for line in (ROOT / "deploy/image/Dockerfile").read_text().splitlines() if line and not line.startswith("#")]
    assert said[0] == "FROM scratch" and [line.split()[0] for line in said].count("FROM") == 1
    assert f"USER {image.USER}:{image.USER}" in said and f"VOLUME {image.HOME}" in said
    assert said[-1] == f'ENTRYPOINT ["{image.RUNNER}"]' and not any(line.startswith("CMD") for line in said)


@pytest.mark.parametrize(("other", "reason"), [
    ({"sha256": "0" * 64}, "not that of"), ({"file": shutil.which("true"), "sha256": digest(shutil.which("true"))}, "needs libraries.*libc"),
], ids=["another-engine", "libraries"])
def test_an_engine_that_is_another_or_could_not_start_in_the_image_is_refused(tmp_path, other, reason):
    with pytest.raises(DeployError, match=reason):
        lay_out(tmp_path / "context", **other)


def test_a_runner_that_needs_libraries_is_refused_with_what_to_do(tmp_path):
    with pytest.raises(DeployError, match="needs libraries.*build the release for musl"):
        lay_out(tmp_path / "context", runner=shutil.which("true"))


@pytest.mark.skipif(not (RUNNER.is_file() and shutil.which("buildah") and os.geteuid() == 0), reason="needs buildah, root, and the runner of `make package`")
def test_the_image_is_built_without_docker_checks_itself_and_starts(tmp_path):
    context, tag = tmp_path / "context", f"plangate-runner:test-{os.getpid()}"
    engines = lay_out(context, runner=RUNNER)
    try:
        assert "the image is whole" in image.build("buildah", context, tag, engines, "1.2.3", ARCHITECTURE)
        assert image.WITHOUT_A_RUN in image.start("buildah", tag)
        told = json.loads(image.run("buildah", "inspect", "--type", "image", tag))["OCIv1"]["config"]
        assert (told["User"], told["Entrypoint"], told.get("Cmd")) == ("65532:65532", [image.RUNNER], None)
        with pytest.raises(DeployError, match="ENGINES asks for"):
            image.build("buildah", context, tag, engines.replace(":", ":9", 1), "1.2.3", ARCHITECTURE)
        shell = context / "rootfs/bin/sh"
        shell.parent.mkdir()
        shutil.copyfile(pathlib.Path("/bin/sh").resolve(), shell)
        with pytest.raises(DeployError, match="the image has a shell"):
            image.build("buildah", context, tag, engines, "1.2.3", ARCHITECTURE)
    finally:
        image.run("buildah", "rmi", "--force", tag)
