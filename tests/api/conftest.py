"""A stack with a gate of its own: what is asked at random there freezes, rewrites and withdraws what it likes."""

import pathlib
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [path for path in (str(ROOT), str(ROOT / "tests/e2e")) if path not in sys.path]
from gate import gate_of_its_own  # noqa: E402
from local.slack import Slack  # noqa: E402


@pytest.fixture(scope="module")
def world():
    with Slack() as slack, gate_of_its_own("api", slack) as world:
        yield world
