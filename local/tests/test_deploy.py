"""Deploying: what is packed, which engine is taken, and what is said if something is missing."""

import hashlib
import json
import os
import stat
import zipfile

import pytest

from local import deploy
from local.stack import StackError, package_function


def program(path, text):
    path.write_text(text)
    path.chmod(0o755)
    return path


def test_a_function_is_packed_as_bootstrap_alone_and_anew_when_it_changes(tmp_path):
    binary = program(tmp_path / "plangate-fn-api", "first")
    with zipfile.ZipFile(package_function(binary)) as package:
        assert package.namelist() == ["bootstrap"]
        assert package.read("bootstrap") == b"first"
        assert stat.S_IMODE(package.getinfo("bootstrap").external_attr >> 16) == 0o755
    first = package_function(binary).read_bytes()
    assert package_function(binary).read_bytes() == first
    binary.write_text("second")
    os.utime(binary, ns=(1, 1))
    with zipfile.ZipFile(package_function(binary)) as package:
        assert package.read("bootstrap") == b"second"


@pytest.mark.parametrize(("line", "name"), [("OpenTofu v1.11.2", "opentofu"), ("Terraform v1.11.4", "terraform")])
def test_an_engine_is_described_as_the_runner_wants_it(tmp_path, monkeypatch, line, name):
    version = line.rpartition("v")[2]
    said = json.dumps({"terraform_version": version})
    binary = program(tmp_path / "engine", f"#!/bin/sh\n[ \"$2\" = -json ] && echo '{said}' || echo '{line}'\n")
    (tmp_path / "link").symlink_to(binary)
    monkeypatch.setenv("PLANGATE_ENGINE", str(tmp_path / "link"))
    assert deploy.find_engine() == deploy.Engine(name, version, str(binary), hashlib.sha256(binary.read_bytes()).hexdigest())


def test_a_missing_engine_or_binary_is_named(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("PLANGATE_ENGINE", raising=False)
    with pytest.raises(StackError, match="install OpenTofu"):
        deploy.find_engine()
    monkeypatch.setenv("CARGO_TARGET_DIR", str(tmp_path))
    with pytest.raises(StackError, match="cargo build --workspace --profile dev"):
        deploy.binary("plangate-fn-api", "dev")
