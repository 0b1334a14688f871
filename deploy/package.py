"""Builds and packs a release: `make package`, and `make package-check`, which does so twice and compares.

    python -m deploy.package [--target TRIPLE] [--out FOLDER]          builds and packs; again after a break, it goes on
    python -m deploy.package --binaries FOLDER --out FOLDER            packs programs that are built already
    python -m deploy.package --check [--only PACKAGE ...]              two builds in two folders give the same bytes, or it fails
"""

import argparse
import json
import os
import pathlib
import platform
import shutil
import subprocess
import sys
import tempfile

from . import DeployError
from .release import LARGEST_ZIP, PROGRAMS, ROOT, Release, digest, functions

OUT, TARGET_DIR = ROOT / "target/package", ROOT / "target/packaging"
HOST = {"arm64": "aarch64"}.get(platform.machine(), platform.machine())
ARCHITECTURES = {"x86_64": "x86_64", "aarch64": "arm64"}


def architecture(target):
    """A target's architecture as Lambda names it."""
    try:
        return ARCHITECTURES[target.split("-")[0]]
    except KeyError:
        raise DeployError(f"there is no Lambda for {target}: x86_64 or aarch64") from None


def installed(target):
    """Whether the toolchain can build for a target; whatever cannot be asked is left to cargo to say."""
    libraries = subprocess.run(["rustc", "--print", "target-libdir", "--target", target], capture_output=True, text=True, check=False)
    return libraries.returncode == 0 and pathlib.Path(libraries.stdout.strip()).is_dir()


def default_target():
    """musl where the toolchain has it: a program that brings all that it needs runs on every Linux, and in an image from nothing."""
    musl = f"{HOST}-unknown-linux-musl"
    return musl if installed(musl) else f"{HOST}-unknown-linux-gnu"


def revision(root=ROOT):
    """The revision of the source: PLANGATE_REVISION, or git's. A tree with changes of its own has none that anybody could find again."""
    if given := os.environ.get("PLANGATE_REVISION"):
        return given
    def git(*arguments):
        return subprocess.run(["git", "-C", str(root), *arguments], capture_output=True, text=True, check=False)
    head, changes = git("rev-parse", "HEAD"), git("status", "--porcelain")
    if head.returncode or changes.returncode:
        raise DeployError("this is no git checkout: say which revision it is with PLANGATE_REVISION")
    if changes.stdout.strip():
        raise DeployError("there are changes that are in no commit: commit them, or name what you build with PLANGATE_REVISION")
    return head.stdout.strip()


def version(root=ROOT):
    """The version of plangate, from Cargo.toml."""
    told = subprocess.run(
        ["cargo", "metadata", "--no-deps", "--offline", "--locked", "--format-version", "1"], cwd=root, capture_output=True, text=True, check=False)
    if told.returncode:
        raise DeployError(f"cargo cannot read the workspace: {told.stderr.strip()}")
    return next(package["version"] for package in json.loads(told.stdout)["packages"] if package["name"] == "plangate")


def environment(root, revision):
    """The environment of a build that leaves nothing of this machine in a program: no folder, no moment."""
    homes = {str(root): "/plangate", os.environ.get("CARGO_HOME") or str(pathlib.Path.home() / ".cargo"): "/cargo"}
    rust = [f"--remap-path-prefix={place}={name}" for place, name in homes.items()]
    c = " ".join(f"-ffile-prefix-map={place}={name}" for place, name in homes.items())
    left_out = ("RUSTFLAGS", "CARGO_ENCODED_RUSTFLAGS", "CARGO_TARGET_DIR", "CARGO_BUILD_TARGET")
    inherited = {name: value for name, value in os.environ.items() if name not in left_out and not name.startswith("CARGO_PROFILE_")}
    return {**inherited, "CARGO_ENCODED_RUSTFLAGS": "\x1f".join(rust), "CFLAGS": c, "SOURCE_DATE_EPOCH": "0", "PLANGATE_REVISION": revision,
            "CARGO_INCREMENTAL": "0"}


def build(root, target, target_dir, revision, packages):
    """Builds the release's programs, all in one call of cargo, which goes on where one that was broken off stopped; gives their folder."""
    if not installed(target):
        raise DeployError(f"the toolchain has no {target}: rustup target add {target}")
    if target.endswith("-musl") and not any(shutil.which(tool) for tool in ("musl-gcc", f"{target.split('-')[0]}-linux-musl-gcc")):
        raise DeployError(f"a C compiler for {target} is missing: on Debian or Ubuntu, apt-get install musl-tools")
    chosen = [argument for package in packages for argument in ("--package", package)]
    done = subprocess.run(
        ["cargo", "build", "--release", "--locked", "--target", target, "--target-dir", str(target_dir), *chosen],
        cwd=root, env=environment(root, revision), check=False)
    if done.returncode:
        raise DeployError(f"cargo failed with exit code {done.returncode}")
    return pathlib.Path(target_dir) / target / "release"


def packages(root=ROOT):
    """The packages that a release is built of."""
    return [*(f"plangate-fn-{name}" for name in functions(root)), *PROGRAMS]


def toolchain():
    """The compiler, without which a digest means little."""
    return subprocess.run(["rustc", "--version"], capture_output=True, text=True, check=True).stdout.strip()


def make(out, target, binaries=None, largest=LARGEST_ZIP):
    """Builds, unless the programs are given, and packs; gives the Release."""
    known = revision()
    folder = binaries or build(ROOT, target, TARGET_DIR, known, packages())
    facts = {"version": version(), "revision": known, "target": target, "toolchain": toolchain()}
    return Release.make(out, folder, architecture(target), facts, largest=largest)


def check(target, only):
    """Builds what is committed twice, in two folders whose names differ in length, and compares every program, and packages where all are built.

    Raises a DeployError that names what differs. The folders stay until both agree, so that a check that was broken off goes on.
    """
    base, known, chosen = ROOT / "target/package-check", revision(ROOT), only or packages()
    found = []
    for name in ("one", "the-other-one"):
        source = base / name
        if not (source / ".complete").is_file():
            shutil.rmtree(source, ignore_errors=True)
            source.mkdir(parents=True)
            with tempfile.TemporaryFile() as archive:
                subprocess.run(["git", "-C", str(ROOT), "archive", "--format=tar", "HEAD"], stdout=archive, check=True)
                archive.seek(0)
                subprocess.run(["tar", "-x", "-C", str(source)], stdin=archive, check=True)
            (source / ".complete").write_text(known)
        if (source / ".complete").read_text() != known:
            raise DeployError(f"{base} is of another revision: remove it")
        built = build(source, target, source / "target/packaging", known, chosen)
        found.append({package: digest(built / package) for package in chosen})
        if not only:
            facts = {"version": version(source), "revision": known, "target": target, "toolchain": toolchain()}
            found[-1]["manifest"] = Release.make(source / "target/package", built, architecture(target), facts, root=source).digest
    differ = sorted(name for name in found[0] if found[0][name] != found[1][name])
    if differ:
        raise DeployError(f"two builds of {known} differ in: {', '.join(differ)}; both are below {base}")
    shutil.rmtree(base)
    return found[0]


def main():
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m deploy.package", description=__doc__.splitlines()[0])
    parser.add_argument("--target", help="the target triple; default: musl for this machine's architecture, where the toolchain has it")
    parser.add_argument("--out", type=pathlib.Path, default=OUT, help="the release's folder")
    parser.add_argument("--binaries", type=pathlib.Path, help="a folder with programs that are built already")
    parser.add_argument("--largest", type=int, default=LARGEST_ZIP, help="bytes that a zip may have; more only for programs that are not optimised")
    parser.add_argument("--check", action="store_true", help="build twice and compare")
    parser.add_argument("--only", nargs="+", metavar="PACKAGE", help="with --check: these packages alone")
    arguments = parser.parse_args()
    target = arguments.target or default_target()
    try:
        if arguments.check:
            for name, found in check(target, arguments.only).items():
                print(f"{found}  {name}")
            print("both builds are the same")
            return
        release = make(arguments.out, target, arguments.binaries, arguments.largest)
        print("\n".join([f"plangate {release.told} for {target}", *release.table(), f"sha256 of the release: {release.digest}", f"in {release.folder}"]))
    except DeployError as error:
        sys.exit(f"error: {error}")


if __name__ == "__main__":
    main()
