"""One stack with one gate for each test process; each test makes workspaces of its own, and its secrets are searched for at its end."""

import fcntl
import os
import pathlib
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(pathlib.Path(__file__).parent)]
from faults import Faults  # noqa: E402
from gate import World  # noqa: E402
from local.deploy import deploy_gate  # noqa: E402
from local.slack import Slack  # noqa: E402
from local.stack import REGION, Stack  # noqa: E402
from models import NAMES, Models  # noqa: E402


@pytest.fixture(scope="session")
def world():
    with Slack() as slack, Stack.start(f"e2e-{os.environ.get('PYTEST_XDIST_WORKER', 'main')}-{os.getpid()}") as stack:
        Faults.prepare(stack)  # before the first function starts
        models = [f"arn:aws:bedrock:{REGION}::foundation-model/test.{name}" for name in NAMES]
        yield World(stack, deploy_gate(stack, slack=slack, review_models=models), slack)


@pytest.fixture(scope="session")
def models(world):
    """The models of reviewers, on Bedrock and elsewhere."""
    with Models() as server:
        (world.stack.directory / "models.url").write_text(server.address)
        yield server
        server.shutdown()


@pytest.fixture
def workspace(world, tmp_path):
    """Makes workspaces: `workspace()` gives one with the sample configuration in a folder of its own."""
    made = []

    def make(**options):
        made.append(world.workspace(tmp_path / f"folder-{len(made)}", **options))
        return made[-1]

    return make


@pytest.fixture
def faults(world):
    """Faults on purpose: see Faults."""
    return Faults(world.stack)


@pytest.fixture(autouse=True)
def secrets_stay_where_they_belong(world):
    """Every workspace has a secret; at the end of each test it is nowhere but in state, artifact and plan document."""
    yield
    world.quiet()
    world.scan_for_secrets()


@pytest.fixture(scope="session")
def mirror():
    """The folder of a provider mirror with the small provider of ours (tests/provider); made on first use. Copy it before you change it."""
    folder = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / "test-provider/mirror"
    folder.parent.mkdir(parents=True, exist_ok=True)
    with open(folder.parent / "mirror.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # two workers' builds would only stand in each other's way
        if not folder.is_dir():
            subprocess.run(["cargo", "run", "--quiet", "--package", "plangate-test-provider", "--", str(folder)], cwd=ROOT, check=True)
    return folder
