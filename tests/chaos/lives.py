"""Lives of runs, each told from proposal to end: what they pass is recorded, and then every call that they pass is struck."""

import dataclasses
import time

from gate import TERMINAL, Run
from mischief import digest_of

from . import acts
from .campaign import Asking
from .schedule import Act

PATIENCE = 150


@dataclasses.dataclass
class Life:
    """A life in a workspace of its own: who it is about, and how each of its runs should end."""

    campaign: object
    shop: object
    number: int
    runs: list = dataclasses.field(default_factory=list)

    def propose(self, how="change", kind="applicable", mark=None):
        """Proposes; gives the run."""
        content = self.campaign.journal.bundle(how, mark or f"mark-{self.shop.id[3:9]}-{self.number}-{len(self.runs)}")
        identity, told = acts.propose(self.shop, content, digest_of(content), Asking(kind))
        assert identity, f"the proposal was answered with {told}"
        self.runs.append(Run(self.shop, identity))
        return self.runs[-1]

    def reaches(self, run, *statuses):
        """Waits until a run has come to one of these statuses, or has ended; tells whether it has come there."""
        deadline = time.monotonic() + PATIENCE
        while (status := run.status) not in {*statuses, *TERMINAL}:
            assert time.monotonic() < deadline, f"{run.id} is {status}, not {' or '.join(statuses)}\n{run.story()}"
            time.sleep(0.1)
        return status in statuses

    @staticmethod
    def does(name, run, by="", what=""):
        """Somebody does something."""
        return getattr(acts, name)(run, Act(name, "", 0, by, what))

    def ends(self, run):
        """Waits until a run has ended."""
        self.reaches(run)


def applied(life):
    """Proposed, approved, applied."""
    run = life.propose()
    if life.reaches(run, "awaiting_approval"):
        life.does("approve", run, "bob")
    life.ends(run)
    return {run.id: ("applied", None)}


def handed_on(life):
    """One is rejected, which hands the lock on to one that waits in line, which is withdrawn."""
    first = life.propose()
    life.reaches(first, "planning", "evaluating", "awaiting_approval")
    second = life.propose()
    life.reaches(second, "queued")
    if life.reaches(first, "awaiting_approval"):
        life.does("reject", first, "bob")
    life.ends(first)
    if life.reaches(second, "awaiting_approval"):
        life.does("cancel", second, "alice")
    life.ends(second)
    return {first.id: ("rejected", None), second.id: ("canceled", None)}


def only_planned(life):
    """Only to look."""
    run = life.propose(kind="plan-only")
    life.ends(run)
    return {run.id: ("planned", None)}


def failed(life):
    """A configuration that cannot be planned."""
    run = life.propose("broken")
    life.ends(run)
    return {run.id: ("failed", "plan-errored")}


def refused(life):
    """Approved by its proposer, which is refused and recorded; then nobody decides, and its plan dies."""
    run = life.propose()
    if life.reaches(run, "awaiting_approval"):
        life.does("approve", run, "alice")
        life.does("let_expire", run)
    life.ends(run)
    return {run.id: ("expired", None)}


def aborted(life):
    """Its execution is ended from outside, and the sweeper finds it."""
    run = life.propose()
    if life.reaches(run, "awaiting_approval"):
        life.does("abort", run)
    life.ends(run)
    return {run.id: ("failed", "execution-aborted")}


def aborted_in_apply(life):
    """Its execution is ended from outside while its engine applies: the task ends, and the sweeper finds what it left."""
    run = life.propose("slow")
    if life.reaches(run, "awaiting_approval"):
        life.does("approve", run, "bob")
        if life.reaches(run, "applying"):
            life.does("abort", run)
    life.ends(run)
    return {run.id: None}


def asleep(life):
    """Approved while nobody can be woken; once that is possible again the sweeper wakes it."""
    run = life.propose()
    if life.reaches(run, "awaiting_approval"):
        token = run.lose_token()
        life.does("approve", run, "bob")
        if run.status == "approved":
            run.find_token(token)
    life.ends(run)
    return {run.id: ("applied", None)}


def withdrawn_early(life):
    """Withdrawn while it is planned: the lock stays until the task has stopped."""
    run = life.propose()
    if life.reaches(run, "planning"):
        life.does("cancel", run, "alice")
    life.ends(run)
    return {run.id: ("canceled", None)}


LIVES = {each.__name__: each for each in (applied, handed_on, only_planned, failed, refused, aborted, aborted_in_apply, asleep, withdrawn_early)}
