"""A release: one zip a function, the runner, the command line, the templates and the state machine, told by `manifest.json` with a digest of each."""

import dataclasses
import hashlib
import json
import pathlib
import re
import shutil
import zipfile

from . import DeployError, elf

ROOT = pathlib.Path(__file__).resolve().parent.parent
SCHEMA = "plangate.release.v1"
# What AWS lets a function bring is far more; a program that grows past this has taken in something that it should not.
LARGEST_ZIP = 8_000_000
# Amazon Linux 2023, which is below provided.al2023.
GLIBC = (2, 34)
PROGRAMS = ("plangate-runner", "plangate")
_ZIP = re.compile(r"Prefix\}/([a-z-]+)\.zip")


def functions(root=ROOT):
    """The functions that the templates name, sorted; each is a folder of functions/ as well, or the release would lack one."""
    named = sorted({name for template in templates(root) for name in _ZIP.findall(template.read_text())})
    folders = sorted(folder.name for folder in (root / "functions").iterdir() if (folder / "Cargo.toml").is_file())
    if named != folders:
        raise DeployError(f"the templates name the functions {named}, functions/ has {folders}")
    return named


def templates(root=ROOT):
    """The CloudFormation templates."""
    return sorted((root / "infra").glob("*.yaml"))


def digest(path):
    """The SHA-256 of a file, 64 hex digits."""
    found = hashlib.sha256()
    with open(path, "rb") as source:
        while piece := source.read(1 << 20):
            found.update(piece)
    return found.hexdigest()


def zip_program(program, package, level=9):
    """Writes the zip of a function: the program as `bootstrap` and nothing else, with no moment and no person of this machine in it."""
    entry = zipfile.ZipInfo("bootstrap", date_time=(1980, 1, 1, 0, 0, 0))
    entry.create_system, entry.external_attr, entry.compress_type = 3, 0o100755 << 16, zipfile.ZIP_DEFLATED
    entry.file_size = pathlib.Path(program).stat().st_size
    with zipfile.ZipFile(package, "w", compresslevel=level) as archive, open(program, "rb") as source, archive.open(entry, "w") as target:
        shutil.copyfileobj(source, target, 1 << 20)


def runs_on_lambda(path, architecture):
    """Refuses a program that would not start on provided.al2023."""
    program = elf.read(path)
    if program.architecture != architecture:
        raise DeployError(f"{path} is for {program.architecture}, the release for {architecture}")
    if program.glibc and program.glibc > GLIBC:
        needs, has = (".".join(map(str, version)) for version in (program.glibc, GLIBC))
        raise DeployError(f"{path} needs glibc {needs}; Amazon Linux 2023 has {has}. Build for musl instead, which needs none: "
                          "`rustup target add` the musl target of this architecture, and install musl-tools (musl-gcc)")
    return program


@dataclasses.dataclass(frozen=True)
class Release:
    """A folder that holds a whole release."""

    folder: pathlib.Path
    manifest: dict

    @classmethod
    def make(cls, folder, binaries, architecture, facts, pack=zip_program, largest=LARGEST_ZIP, root=ROOT):
        """Packs the programs of the folder `binaries` into `folder`, in whose place it puts the new release once that is whole.

        `facts` are version, revision, target and toolchain, as the manifest tells them; `pack` writes the zip of a program.
        """
        folder, fresh = pathlib.Path(folder), pathlib.Path(f"{folder}.new")
        shutil.rmtree(fresh, ignore_errors=True)
        fresh.mkdir(parents=True)
        programs = {}
        for name in functions(root):
            program = pathlib.Path(binaries) / f"plangate-fn-{name}"
            programs[name] = _program(program, architecture)
            pack(program, fresh / f"{name}.zip")
        for name in PROGRAMS:
            programs[name] = _program(pathlib.Path(binaries) / name, architecture)
            shutil.copyfile(pathlib.Path(binaries) / name, fresh / name)
            (fresh / name).chmod(0o755)
        for source in (*templates(root), root / "statemachine/run.asl.json"):
            shutil.copyfile(source, fresh / source.name)
        files = {path.name: {"sha256": digest(path), "bytes": path.stat().st_size} for path in sorted(fresh.iterdir())}
        manifest = {"schema": SCHEMA, **facts, "architecture": architecture, "programs": programs, "files": files}
        (fresh / "manifest.json").write_text(json.dumps(manifest, indent=2, sort_keys=True) + "\n")
        release = cls(fresh, manifest)
        release.within(largest)
        shutil.rmtree(folder, ignore_errors=True)
        fresh.rename(folder)
        return cls(folder, manifest)

    @classmethod
    def load(cls, folder):
        """Reads a release and holds every file against the manifest."""
        folder = pathlib.Path(folder)
        try:
            manifest = json.loads((folder / "manifest.json").read_bytes())
        except (OSError, ValueError) as error:
            raise DeployError(f"{folder} holds no release ({error}); make one with: make package") from None
        if not isinstance(manifest, dict) or manifest.get("schema") != SCHEMA or not isinstance(manifest.get("files"), dict):
            raise DeployError(f"{folder / 'manifest.json'} is no {SCHEMA}")
        there = {path.name for path in folder.iterdir()} - {"manifest.json"}
        if there != set(manifest["files"]):
            raise DeployError(f"{folder} does not hold what its manifest says: {sorted(there ^ set(manifest['files']))}")
        for name, told in manifest["files"].items():
            if digest(folder / name) != told["sha256"]:
                raise DeployError(f"{folder / name} is not the file of the manifest; make the release anew with: make package")
        return cls(folder, manifest)

    @property
    def digest(self):
        """The digest of the manifest, and so of all that is in the release."""
        return digest(self.folder / "manifest.json")

    @property
    def prefix(self):
        """The folder of the code bucket that is this release's alone."""
        return f"releases/{self.manifest['version']}-{self.digest[:16]}"

    @property
    def told(self):
        """Version and revision, for people."""
        return f"{self.manifest['version']} ({self.manifest['revision']})"

    def zips(self):
        """The functions' packages: name and bytes."""
        return {name: told["bytes"] for name, told in self.manifest["files"].items() if name.endswith(".zip")}

    def within(self, largest):
        """Refuses a release with a package that is too large."""
        over = [f"{name}: {size:,} bytes" for name, size in self.zips().items() if size > largest]
        if over:
            raise DeployError(f"over {largest:,} bytes zipped: {', '.join(over)}")

    def table(self):
        """What is in it, with sizes, as lines of text."""
        rows = [(name, self.manifest["programs"].get(name.removesuffix(".zip"), {}).get("bytes"), told["bytes"])
                for name, told in sorted(self.manifest["files"].items()) if name.endswith(".zip") or name in PROGRAMS]
        lines = [f"{name:<24}{program:>14,}{size if name.endswith('.zip') else 0:>14,}" for name, program, size in rows]
        zips = self.zips()
        return [f"{'':<24}{'program bytes':>14}{'zipped bytes':>14}", *lines,
                f"{'total':<24}{sum(program for _, program, _ in rows):>14,}{sum(zips.values()):>14,}"]


def _program(path, architecture):
    """What the manifest tells of a program."""
    if not path.is_file():
        raise DeployError(f"{path} is missing: it was not built")
    found = runs_on_lambda(path, architecture)
    return {"sha256": digest(path), "bytes": path.stat().st_size, "static": found.static}
