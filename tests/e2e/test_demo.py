"""The demo: told to its end, broken off, or not begun, it leaves nothing behind."""

import os
import pathlib
import signal
import subprocess
import sys

import pytest
from gate import wait_until
from local.stack import ROOT, STATE


@pytest.fixture(autouse=True, scope="module")
def secrets_stay_where_they_belong():
    """The demo searches for its own secrets, on a stack of its own."""


class Telling:
    """A demo that is being told."""

    def __init__(self, folder, **environment):
        self._text = folder / "told"
        with open(self._text, "wb") as out:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "local.demo"], cwd=ROOT, env={**os.environ, **environment}, start_new_session=True,
                stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT)
        self.stack = STATE / f"demo-{self.process.pid}"

    @property
    def text(self):
        return self._text.read_text()

    def reached(self, words):
        """Waits until these words have been told."""
        wait_until(lambda: words in self.text or self.process.poll() is not None, words, 120)
        assert words in self.text, self.text
        return self

    def left(self):
        """The processes and files that are left of it."""
        mark, found = str(self.stack).encode(), [str(self.stack)] if self.stack.exists() else []
        for process in pathlib.Path("/proc").glob("[0-9]*"):
            try:
                if mark in (process / "environ").read_bytes() or mark in (process / "cmdline").read_bytes():
                    found.append((process / "cmdline").read_text())
            except OSError:
                continue
        return found


def test_the_demo_is_told_to_its_end_and_leaves_nothing(tmp_path):
    demo = Telling(tmp_path)
    assert demo.process.wait(300) == 0, demo.text
    assert demo.left() == []
    for words in ("1. A proposer proposes", "distinct-approver-required", "state-identity-mismatch", "8. Where the passwords are", "All was as told."):
        assert words in demo.text
    assert "\x1b" not in demo.text, "colour is for terminals"


@pytest.mark.parametrize(("number", "words"), [(signal.SIGINT, "uploading the functions"), (signal.SIGINT, "alice$ plangate propose"), (signal.SIGTERM, "bob$ plangate approve")])
def test_a_demo_that_is_broken_off_leaves_nothing(tmp_path, number, words):
    demo = Telling(tmp_path).reached(words)
    # As a terminal does it: to all of its processes. Something else than a terminal ends it alone.
    os.killpg(demo.process.pid, number) if number == signal.SIGINT else demo.process.send_signal(number)
    assert demo.process.wait(180) == 130, demo.text
    assert "Broken off:" in demo.text and "Traceback" not in demo.text
    assert demo.left() == []


def test_a_demo_without_an_engine_says_what_to_install(tmp_path):
    demo = Telling(tmp_path, PLANGATE_ENGINE="no-such-engine")
    assert demo.process.wait(60) == 1
    assert "no-such-engine is not on PATH; install" in demo.text
    assert demo.left() == []
