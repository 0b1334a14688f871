"""A stack with a gate of its own: what is asked at random there freezes, rewrites and withdraws what it likes."""

import os
import pathlib
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [path for path in (str(ROOT), str(ROOT / "tests/e2e")) if path not in sys.path]
from gate import World  # noqa: E402
from local.deploy import deploy_gate  # noqa: E402
from local.slack import Slack  # noqa: E402
from local.stack import Stack  # noqa: E402


@pytest.fixture(scope="module")
def world():
    with Slack() as slack, Stack.start(f"api-{os.environ.get('PYTEST_XDIST_WORKER', 'main')}-{os.getpid()}") as stack:
        yield World(stack, deploy_gate(stack, slack=slack), slack)
