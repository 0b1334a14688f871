"""Every call of AWS that a run's lives pass, in each function, in the sweeper and in the runner, goes wrong in every way at least once."""

import collections
import concurrent.futures
import contextlib
import dataclasses
import shutil
import threading
import time

import pytest

from . import acts
from .facts import Facts
from .lives import LIVES, Life
from .sites import general

PARTS, WORKSPACES, ROUNDS, SWEEP_SECONDS = 2, 10, 6, 1.5
# In which ways, and how often in a row: the SDK tries three times in a function and five times in a runner, then the call has failed.
FUNCTION = (("die-before", 1), ("die-after", 1), ("fail", 3), ("lose-answer", 1), ("throttle", 1), ("twice", 1))
# A write whose answer is lost each time has happened, and nobody knows; of a read that is the same as a failure.
WRITE, WRITES = (("lose-answer", 3),), ("TransactWriteItems", "PutObject", "StartExecution", "StopExecution", "SendTaskSuccess", "StopTask")
RUNNER = (("die-before", 1), ("die-after", 1), ("fail", 5), ("lose-answer", 1), ("throttle", 1), ("twice", 1))
# The sweeper sweeps by its clock, and what has happened by then differs from one time to the next. These calls it comes to in each of its
# lives; what else it and the conclusion of a run come to only if they look while something is under way is struck where they do.
SWEPT_FOR_SURE = ("plangate-sweep dynamodb.Query open", "plangate-sweep dynamodb.GetItem RUN#run", "plangate-sweep states.DescribeExecution",
                  "plangate-sweep states.SendTaskSuccess", "plangate-sweep dynamodb.TransactWriteItems put(RUN#run) put(WS#ws/LOCK)")
BY_CHANCE = ("plangate-sweep", "plangate-conclude ecs.", "plangate-conclude logs.")
# The lives in which the sweeper does something, by the calls that it makes then.
SWEPT = {"states.SendTaskSuccess": "asleep", "states.StopExecution": "withdrawn_early", "states.": "asleep", "dynamodb.": "aborted", "": "aborted_in_apply"}
AT_THE_END = {"plangate-sweep", "plangate-conclude"}
# Where a runner dies while it plans nothing of the rest of the life comes to pass.
BEFORE_THE_PLAN = {"plangate-admit", "plangate-prepare", "runner-plan"}


@dataclasses.dataclass(frozen=True)
class Fault:
    """A site and what befalls it."""

    site: str
    what: str
    times: int

    @property
    def process(self):
        return self.site.split(" ")[0]

    @property
    def stops(self):
        """Whether the process, or at least its call, has failed by it."""
        return self.what.startswith("die") or self.times > 1

    @property
    def ends_the_task(self):
        return self.stops and self.process.startswith("runner")

    @property
    def is_judged_by_what_it_left(self):
        """Whether a run that it befalls may end otherwise than without it. A create-only write of a runner that is made twice is refused
        the second time; where the role may not look whose the object is, the task does not go on with it. A claim is known by its writer."""
        twice = self.process.startswith("runner") and self.what == "twice" and " s3.PutObject " in self.site
        return self.ends_the_task or (twice and " s3.PutObject claims/" not in self.site)

    @property
    def by_chance(self):
        return self.site.startswith(BY_CHANCE) and not self.site.startswith(SWEPT_FOR_SURE)

    @property
    def life(self):
        """The shortest life that comes to the task that it ends."""
        return "only_planned" if self.process == "runner-plan" else "applied"


@dataclasses.dataclass
class Planned:
    """A life that is to be played, and the faults that befall it."""

    name: str
    faults: list = dataclasses.field(default_factory=list)

    def has_room(self, fault):
        """Whether a fault can befall this life too: one at a site, and not so many in one process that its caller gives up."""
        here = [other for other in self.faults if other.process == fault.process]
        stopping = sum(other.stops for other in here)
        dead_in_plan = any(other.ends_the_task and other.process == "runner-plan" for other in self.faults)
        if any(other.site == fault.site for other in here) or len(here) >= 8 or (fault.stops and stopping >= 2):
            return False
        if fault.ends_the_task and (any(other.ends_the_task for other in self.faults) or self.name != fault.life):
            return False
        if fault.ends_the_task and fault.process == "runner-plan":
            return all(other.process in BEFORE_THE_PLAN for other in self.faults)
        return not dead_in_plan or fault.process in BEFORE_THE_PLAN


class Recording:
    """Which life passes which sites, and which of them are about nobody's workspace."""

    def __init__(self):
        self.lives, self.nobodys = collections.defaultdict(set), set()

    def faults(self):
        """Everything that is to strike, what ends a task first."""
        found = []
        for site in sorted(set.union(*self.lives.values())):
            writes = site.split(" ")[1].rpartition(".")[2] in WRITES
            ways = RUNNER if site.startswith("runner") else FUNCTION + (WRITE if writes else ())
            found += [Fault(site, what, times) for what, times in ways]
        return sorted(found, key=lambda fault: not fault.ends_the_task)

    def plan(self, faults):
        """Lives enough for all these faults."""
        planned = []
        for fault in faults:
            names = [name for name in LIVES if fault.site in self.lives[name]]
            if fault.process == "plangate-sweep":
                swept = next(life for call, life in SWEPT.items() if fault.site.split(" ")[1].startswith(call))
                names = [swept] if swept in names else names
            room = next((life for life in planned if life.name in names and life.has_room(fault)), None)
            if room is None:
                room = Planned(fault.life if fault.ends_the_task else names[0])
                planned.append(room)
            room.faults.append(fault)
        return planned


class Theatre:
    """Plays lives, some at a time, each in a workspace that is nobody else's meanwhile."""

    def __init__(self, campaign):
        self.campaign, self.free, self.played, self.struck, self.wrong = campaign, list(campaign.shops), 0, set(), []
        self.lock, self.deaths = threading.Lock(), []

    def all(self, lives, recording=None):
        """Plays all of them."""
        with concurrent.futures.ThreadPoolExecutor(len(self.campaign.shops)) as pool:
            for done in [pool.submit(self.one, life, recording) for life in lives]:
                done.result()

    def one(self, planned, recording=None):
        """Plays a life under its faults."""
        campaign = self.campaign
        with self.lock:
            shop, self.played, number = self.free.pop(), self.played + 1, self.played
        try:
            before = passed(campaign, shop.id) if recording else None
            names = [(campaign.faults.arm(fault.site, fault.what, self.of(fault, shop), times=fault.times), fault) for fault in planned.faults]
            # A policy that no run has been judged by yet: to pin one is a write of its own. To put it is what befalls nobody's workspace.
            campaign.put("policies", shop.id, {"schema": "plangate.policy.v1", "max_changes": {"total": 1000 + number}})
            life = Life(campaign, shop, number)
            try:
                expected = LIVES[planned.name](life)
            except AssertionError as error:
                expected = {}
                self.wrong.append(f"{planned}: {error}")
            # After the end there is still something to do: logs are kept, and whoever comes next is woken.
            for run in life.runs:
                with contextlib.suppress(AssertionError):
                    run.settled()
            acts.until(lambda: all(campaign.faults.hits(name) for name, fault in names if fault.process in AT_THE_END), 3)
            for name, fault in names:
                campaign.faults.disarm(name)
                if campaign.faults.hits(name):
                    self.struck.add(fault)
            for run in life.runs:
                self.settle(run, expected.get(run.id), planned)
            if recording:
                recording.lives[planned.name] |= set(passed(campaign, shop.id) - before)
            if shop.lock()["lock"]["state"] == "quarantined":
                campaign.look(shop)
        finally:
            self.free.append(shop)

    def of(self, fault, shop):
        """Whose calls are meant: the sweeper looks at everybody's runs in one go, and some calls are about nobody."""
        return None if fault.process == "plangate-sweep" or fault.site in self.nobodys else shop.id

    nobodys = frozenset()

    def known_alike(self, fault):
        """Whether a site of the sweeper's was struck in another way of the same sort."""
        return fault.process == "plangate-sweep" and any(other.site == fault.site and other.stops == fault.stops for other in self.struck)

    def settle(self, run, expected, planned):
        """Notes if a run did not end as it should have. One whose task was struck ends by what the task left, which is the checker's to
        judge."""
        shutil.rmtree(self.campaign.world.stack.directory / "work" / run.id, ignore_errors=True)  # a task's disk dies with it
        deadly = [fault for fault in planned.faults if fault.is_judged_by_what_it_left and fault in self.struck]
        self.deaths += [(run.id, fault) for fault in deadly if fault.what.startswith("die")]
        end = (run.status, run.failure)
        if expected is not None and not deadly and end != expected:
            self.wrong.append(f"{planned}: {run.id} ended as {end} and not as {expected}\n{run.story()}")


def passed(campaign, workspace):
    """How often each site was passed for a workspace, or for nobody's."""
    return collections.Counter(general(passage.site) for passage in campaign.faults.passages() if passage.workspace == workspace)


@contextlib.contextmanager
def swept(campaign):
    """Within this block the sweeper's clock strikes often."""
    over = threading.Event()

    def strike():
        while not over.wait(SWEEP_SECONDS):
            campaign.sweep()

    thread = threading.Thread(target=strike)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def after_a_death(run, fault):
    """How a run ends whose runner died: by what it had come to."""
    if fault.process == "runner-plan":
        return ("failed", "plan-task-failed")
    if not run.claimed:
        return ("failed", "apply-not-started")
    return ("applied", None) if run.outcome_told else ("failed", "apply-outcome-unknown")


@pytest.mark.parametrize("part", range(PARTS))  # each on a stack of its own, so that two workers share the work
def test_whatever_goes_wrong_at_whichever_call_nothing_is_lost_and_nothing_happens_twice(campaign, part):
    stage = campaign(WORKSPACES)
    theatre, recording = Theatre(stage), Recording()
    begun = time.monotonic()
    with swept(stage):
        before = passed(stage, None)
        theatre.all([Planned(name) for name in LIVES], recording)
        after = passed(stage, None)
        recording.nobodys = set(after - before) - set.union(*recording.lives.values())
        recording.lives["applied"] |= {site for site in recording.nobodys if site.startswith("plangate-api")}
        for name in set(SWEPT.values()):
            recording.lives[name] |= {site for site in recording.nobodys if site.startswith("plangate-sweep")}
        theatre.nobodys = recording.nobodys
        wanted = recording.faults()[part::PARTS]
        for number in range(ROUNDS):
            # Another round for what a fault before it has kept from coming to pass.
            left = [fault for fault in wanted if fault not in theatre.struck and not (number and fault.by_chance)]
            planned = recording.plan(left)
            if not left:
                break
            print(f"round {number}: {len(left)} faults in {len(planned)} lives, after {time.monotonic() - begun:.0f} s", flush=True)
            theatre.all(planned)
    missed = [fault for fault in wanted if fault not in theatre.struck]
    print("\n".join(["missed", *map(str, missed), "wrong", *theatre.wrong]), flush=True)
    stage.rest()
    stage.judge()
    stage.secrets()
    facts = Facts(stage.reader.read(time.time()))
    for identity, fault in theatre.deaths:
        run = facts.runs[identity]
        if (run.status, run.failure) != after_a_death(run, fault):
            theatre.wrong.append(f"{fault}: {identity} ended as {run.status} {run.failure} and not as {after_a_death(run, fault)}")
    print(f"{theatre.played} lives, {len(theatre.struck)} faults at {len({fault.site for fault in theatre.struck})} sites in {time.monotonic() - begun:.0f} s")
    assert theatre.wrong == []
    assert [fault for fault in missed if not fault.by_chance and not theatre.known_alike(fault)] == []
    assert [sure for sure in SWEPT_FOR_SURE if not any(fault.site.startswith(sure) for fault in theatre.struck)] == []
    assert {site.split(" ")[0] for site in set.union(*recording.lives.values())} >= {"plangate-api", "plangate-sweep", "runner-plan", "runner-apply"}
