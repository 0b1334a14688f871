"""Starts the emulator with its supplements: `python -m local.launcher`, with the environment that `local/stack.py` prepares."""

import os
import signal
import sys
import threading


def follow_owner():
    """Ends this process when the one that started it is gone: standard input is a pipe that only the owner holds open."""
    def watch():
        while sys.stdin.buffer.read(4096):
            pass
        os.killpg(0, signal.SIGKILL)  # the group: this process and the functions; containers follow

    threading.Thread(target=watch, daemon=True, name="owner").start()


def main():
    """Installs every supplement, then runs the emulator."""
    from . import (
        assume_role, authorize, conditions, definitions, foreign_buckets, functions, invocations, mfa, models, pass_role, request, resources,
        streams, tasks, templates, variables, workflow)

    for supplement in (
            request, resources, conditions, variables, authorize, assume_role, foreign_buckets, pass_role, definitions, functions, tasks, workflow,
            invocations, streams, templates, models, mfa):
        supplement.install()
    if os.environ.pop("LOCAL_FOLLOW_OWNER", ""):
        follow_owner()

    from ministack.app import main as emulate

    sys.argv = sys.argv[:1]
    emulate()


main()
