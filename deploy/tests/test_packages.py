"""A release: what is in it, what is refused, and that the same programs give the same bytes, whenever and wherever they are packed."""

import json
import os
import pathlib
import platform
import shutil
import subprocess
import sys
import zipfile

import pytest

from deploy import DeployError, elf, package
from deploy.release import PROGRAMS, ROOT, Release, functions

ARCHITECTURE = package.ARCHITECTURES[package.HOST]
FACTS = {"version": "1.2.3", "revision": "4f2c", "target": "any", "toolchain": "rustc"}
PROGRAM = pathlib.Path(shutil.which("true")).resolve()


def programs(folder, moment=1_000_000_000):
    """A folder with a program under each name of a release: whatever this machine has, since none is started."""
    folder.mkdir()
    for name in (*(f"plangate-fn-{name}" for name in functions()), *PROGRAMS):
        shutil.copyfile(PROGRAM, folder / name)
        os.utime(folder / name, (moment, moment))
    return folder


def test_the_same_programs_give_the_same_release_byte_for_byte(tmp_path):
    first = Release.make(tmp_path / "one", programs(tmp_path / "a"), ARCHITECTURE, FACTS)
    again = Release.make(tmp_path / "another", programs(tmp_path / "b", 1_700_000_000), ARCHITECTURE, FACTS)
    assert first.digest == again.digest
    for name in first.manifest["files"]:
        assert (first.folder / name).read_bytes() == (again.folder / name).read_bytes(), name
    with (tmp_path / "b/plangate-fn-guard").open("ab") as other:
        other.write(b"1")
    changed = Release.make(tmp_path / "another", tmp_path / "b", ARCHITECTURE, FACTS)
    differ = {name for name, told in changed.manifest["files"].items() if told != first.manifest["files"][name]}
    assert differ == {"guard.zip"} and changed.digest != first.digest and changed.prefix != first.prefix


def test_a_release_holds_each_function_of_the_templates_as_bootstrap_and_all_that_is_deployed(tmp_path):
    release = Release.make(tmp_path / "release", programs(tmp_path / "programs"), ARCHITECTURE, FACTS)
    assert release.zips().keys() == {f"{name}.zip" for name in functions()}
    for name in release.zips():
        with zipfile.ZipFile(release.folder / name) as archive:
            entry, = archive.infolist()
            assert (entry.filename, entry.date_time, entry.external_attr >> 16, entry.create_system) == ("bootstrap", (1980, 1, 1, 0, 0, 0), 0o100755, 3)
            assert archive.read(entry) == PROGRAM.read_bytes()
    assert {"gate.yaml", "workspace.yaml", "run.asl.json", *PROGRAMS} < release.manifest["files"].keys()
    assert (release.folder / "run.asl.json").read_bytes() == (ROOT / "statemachine/run.asl.json").read_bytes()
    assert release.told == "1.2.3 (4f2c)"
    total = release.table()[-1].split()
    assert total[0] == "total" and int(total[2].replace(",", "")) == sum(release.zips().values())
    assert Release.load(release.folder).digest == release.digest


@pytest.mark.parametrize(("spoil", "reason"), [
    (lambda folder: (folder / "guard.zip").write_bytes(b"another"), "guard.zip is not the file"),
    (lambda folder: (folder / "guard.zip").unlink(), "guard.zip"),
    (lambda folder: (folder / "more.zip").touch(), "more.zip"),
    (lambda folder: (folder / "manifest.json").unlink(), "make package"),
    (lambda folder: (folder / "manifest.json").write_text('{"schema":"plangate.release.v2","files":{}}'), "is no plangate.release.v1"),
], ids=["changed", "gone", "more", "no-manifest", "another-schema"])
def test_a_release_that_is_not_what_its_manifest_says_is_not_deployed(tmp_path, spoil, reason):
    release = Release.make(tmp_path / "release", programs(tmp_path / "programs"), ARCHITECTURE, FACTS)
    spoil(release.folder)
    with pytest.raises(DeployError, match=reason):
        Release.load(release.folder)


def test_a_zip_that_is_too_large_is_named_and_the_release_before_stays(tmp_path):
    folder = programs(tmp_path / "programs")
    before = Release.make(tmp_path / "release", folder, ARCHITECTURE, FACTS).digest
    with (folder / "plangate-fn-sweep").open("ab") as program:
        program.write(os.urandom(200_000))
    with pytest.raises(DeployError, match=r"over 150,000 bytes zipped: sweep.zip: 2\d\d,\d{3} bytes$"):
        Release.make(tmp_path / "release", folder, ARCHITECTURE, FACTS, largest=150_000)
    assert Release.load(tmp_path / "release").digest == before


@pytest.mark.parametrize(("spoil", "reason"), [
    (lambda content: content.replace(b"GLIBC_2.34\0", b"GLIBC_2.99\0"), "needs glibc 2.99; Amazon Linux 2023 has 2.34.*musl"),
    (lambda content: content[:18] + {62: b"\xb7\0", 183: b"\x3e\0"}[content[18]] + content[20:], "the release for"),
    (lambda content: b"#!/bin/sh\n", "no program for 64-bit Linux"),
    (lambda content: content[:200], "no whole program"),
], ids=["glibc", "architecture", "script", "cut"])
def test_a_program_that_would_not_start_on_lambda_is_refused(tmp_path, spoil, reason):
    folder = programs(tmp_path / "programs")
    content = PROGRAM.read_bytes()
    assert spoil(content) != content
    (folder / "plangate-fn-guard").write_bytes(spoil(content))
    with pytest.raises(DeployError, match=reason):
        Release.make(tmp_path / "release", folder, ARCHITECTURE, FACTS)


def test_a_program_that_was_not_built_is_named(tmp_path):
    folder = programs(tmp_path / "programs")
    (folder / "plangate-fn-witness").unlink()
    with pytest.raises(DeployError, match="plangate-fn-witness is missing"):
        Release.make(tmp_path / "release", folder, ARCHITECTURE, FACTS)


def test_a_function_that_the_templates_do_not_deploy_is_noticed(tmp_path):
    for name in ("api", "guard"):
        (tmp_path / "functions" / name).mkdir(parents=True)
        (tmp_path / "functions" / name / "Cargo.toml").touch()
    (tmp_path / "infra").mkdir()
    (tmp_path / "infra/gate.yaml").write_text('S3Key: !Sub "${CodePrefix}/api.zip"')
    with pytest.raises(DeployError, match=r"name the functions \['api'\], functions/ has \['api', 'guard'\]"):
        functions(tmp_path)


def test_what_a_program_needs_is_read_as_others_read_it():
    found = elf.read(PROGRAM)
    assert found.architecture == {"x86_64": "x86_64", "aarch64": "arm64"}[platform.machine()]
    assert not found.static and any(library.startswith("libc.so") for library in found.libraries) and found.glibc >= (2, 2)
    assert elf.read(sys.executable).architecture == found.architecture


# -- two builds ------------------------------------------------------------------------------------------------------


@pytest.fixture
def checkout(tmp_path, monkeypatch):
    """A checkout whose cargo is a script: what it `builds` is what the script writes."""
    source = tmp_path / "checkout"
    (source / "src").mkdir(parents=True)
    (source / "src/lib.rs").write_text("// source")
    git = ["git", "-C", str(source), "-c", "user.name=t", "-c", "user.email=t@example.com"]
    for command in (["init", "-q"], ["add", "-A"], ["commit", "-q", "-m", "all"]):
        subprocess.run([*git, *command], check=True)
    monkeypatch.setattr(package, "ROOT", source)
    monkeypatch.delenv("PLANGATE_REVISION", raising=False)
    monkeypatch.setattr(package, "installed", lambda target: True)

    def cargo(line):
        tools = tmp_path / "tools"
        tools.mkdir(exist_ok=True)
        (tools / "cargo").write_text('#!/bin/sh\nwhile [ "$1" != --target-dir ]; do shift; done\nmkdir -p "$2/t-gnu/release"\n'
                                     f'echo "{line}" >"$2/t-gnu/release/plangate"\n')
        (tools / "cargo").chmod(0o755)
        monkeypatch.setenv("PATH", f"{tools}:{os.environ['PATH']}")
    return source, cargo


def test_two_builds_that_agree_are_told_by_their_digests_and_leave_nothing(checkout):
    source, cargo = checkout
    cargo("$PLANGATE_REVISION")
    assert package.check("t-gnu", ["plangate"]).keys() == {"plangate"}
    assert not (source / "target/package-check").exists()


def test_two_builds_that_tell_where_they_were_made_are_found_out(checkout):
    _, cargo = checkout
    cargo("$PWD")
    with pytest.raises(DeployError, match="differ in: plangate"):
        package.check("t-gnu", ["plangate"])


def test_a_tree_with_changes_has_no_revision_unless_it_is_named(checkout, monkeypatch):
    source, _ = checkout
    assert len(package.revision(source)) == 40
    (source / "src/lib.rs").write_text("// other")
    with pytest.raises(DeployError, match="commit them"):
        package.revision(source)
    monkeypatch.setenv("PLANGATE_REVISION", "mine")
    assert package.revision(source) == "mine"


def test_a_build_takes_no_settings_of_the_machine_and_leaves_no_folder_in_a_program(monkeypatch):
    for name in ("RUSTFLAGS", "CARGO_TARGET_DIR", "CARGO_PROFILE_RELEASE_LTO"):
        monkeypatch.setenv(name, "mine")
    monkeypatch.setenv("CARGO_HOME", "/somewhere/cargo")
    found = package.environment(ROOT, "4f2c")
    assert not {"RUSTFLAGS", "CARGO_TARGET_DIR", "CARGO_PROFILE_RELEASE_LTO"} & found.keys()
    assert found["CARGO_ENCODED_RUSTFLAGS"].split("\x1f") == [f"--remap-path-prefix={ROOT}=/plangate", "--remap-path-prefix=/somewhere/cargo=/cargo"]
    assert (found["PLANGATE_REVISION"], found["SOURCE_DATE_EPOCH"]) == ("4f2c", "0")


def test_a_program_tells_its_version_and_that_it_is_no_release():
    target = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
    said = subprocess.run([target / "debug/plangate", "--version"], capture_output=True, text=True, check=True).stdout
    assert said == f"plangate {package.version()} (development)\n"
    metadata = json.loads(subprocess.run(["cargo", "metadata", "--no-deps", "--offline", "--format-version", "1"], cwd=ROOT, capture_output=True, check=True).stdout)
    built = {target["name"] for each in metadata["packages"] for target in each["targets"] if "bin" in target["kind"]}
    assert set(package.packages()) <= built, "a package is called like its program"
