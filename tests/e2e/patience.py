"""Waiting for what must come to pass."""

from local.stack import StackError, wait_for

PATIENCE = 120


def wait_until(condition, what, seconds=PATIENCE, pause=0.1):
    """Asks until `condition` gives something true, and gives that; fails after `seconds`."""
    try:
        return wait_for(condition, seconds, what, pause)
    except StackError as error:
        raise AssertionError(str(error)) from None
