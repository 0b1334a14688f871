"""How long a run takes, and how much of that is the engine's own."""

import dataclasses
import pathlib
import time

from local import deploy

# Notes when each process of the engine began and ended, in nanoseconds, and is otherwise the engine.
CLOCKED = """#!/bin/sh
begun=$(date +%s%N)
{engine} "$@"
code=$?
echo "$1 $begun $(date +%s%N)" >>{notes}
exit $code
"""


@dataclasses.dataclass(frozen=True)
class Lap:
    """Seconds of a run from proposal to end without the time in which it waited for a person: all of it, and the engine's part."""

    whole: float
    engine: float

    @property
    def gate(self):
        return self.whole - self.engine


class Clock:
    """An engine that notes its own times."""

    def __init__(self, folder, engine):
        self.notes = pathlib.Path(folder) / "times"
        self.notes.touch()
        self.notes.chmod(0o666)  # the engine runs as another user
        wrapper = pathlib.Path(folder) / "engine"
        wrapper.write_text(CLOCKED.format(engine=engine.path, notes=self.notes))
        wrapper.chmod(0o755)
        self.engine = deploy.describe_engine(str(wrapper))
        self.notes.write_text("")

    def lap(self, propose, decidable, approve, ended):
        """One run: its calls one after the other, and what the clock says."""
        before = len(self.notes.read_text())
        begun = time.monotonic()
        run = propose()
        decidable(run)
        waiting = time.monotonic()
        resumed = time.monotonic()
        approve(run)
        ended(run)
        whole = time.monotonic() - resumed + waiting - begun
        lines = self.notes.read_text()[before:].splitlines()
        times = [[int(part) for part in line.split()[1:]] for line in lines]
        return run, Lap(whole, sum(end - begin for begin, end in times) / 1e9)
