"""The campaign: random schedules of acts and faults on the laptop stack, and an independent checker that judges what they leave."""

import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
# The end-to-end tests' people, workspaces and mischief; they import each other by plain names.
sys.path[:0] = [path for path in (str(ROOT), str(ROOT / "tests/e2e")) if path not in sys.path]
