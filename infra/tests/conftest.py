"""One stack with the gate and two workspaces for each test process."""

import os
import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))
from deployed import Gate  # noqa: E402
from local.stack import Stack  # noqa: E402


@pytest.fixture(scope="session")
def gate():
    with Stack.start(f"infra-{os.environ.get('PYTEST_XDIST_WORKER', 'main')}-{os.getpid()}") as stack:
        yield Gate(stack)
