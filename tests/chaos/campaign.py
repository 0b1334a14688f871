"""A campaign on a stack: schedules are played, the stack comes to rest, the checker judges what the stores then hold."""

import collections
import concurrent.futures
import contextlib
import dataclasses
import json
import secrets
import shutil
import threading
import time

from faults import Faults
from gate import TERMINAL, Run, World
from mischief import digest_of

from local import deploy
from local.stack import Stack

from . import acts
from .checker import Violation, judge
from .estate import Journal
from .schedule import STATUSES, Act
from .sites import general
from .stores import Reader

TICK, QUIET, REST_SECONDS, BATCH_SECONDS, SWEEP_SECONDS, PATIENCE_SECONDS = 0.1, 1.5, 240, 600, 4, 10
MOVING = {"proposed", "planning", "evaluating", "reviewing", "approved", "applying"}
RANK = {status: rank for rank, status in enumerate(STATUSES)} | {"reviewing": 3}
PEOPLE = {"alice": ("read", "propose", "approve"), "bob": ("read", "approve"), "carol": ("read", "propose", "approve")}


class Found(Exception):
    """Something does not hold: the violations, and what is known of those whom they are about."""

    def __init__(self, violations, told):
        super().__init__("\n".join(map(str, violations)))
        self.violations, self.told = violations, told


class Report:
    """What was done in a campaign, and what came of it."""

    def __init__(self):
        self.runs, self.judged, self.seconds, self.asleep = 0, 0, 0, 0
        self.outcomes, self.acts, self.armed, self.strikes, self.passed = (collections.Counter() for _ in range(5))
        self.struck = collections.Counter()

    def add(self, other):
        """Takes in what another report says."""
        for name, value in vars(other).items():
            if isinstance(value, collections.Counter):
                getattr(self, name).update(value)
            else:
                setattr(self, name, getattr(self, name) + value)

    def __str__(self):
        def table(counter):
            return [f"  {count:6}  {name}" for name, count in sorted(counter.items(), key=lambda each: (-each[1], each[0]))]
        covered = sorted(site for site in self.passed if self.struck[site])
        missed = sorted(site for site in self.passed if not self.struck[site])
        lines = [f"{self.runs} runs in {self.seconds:.0f} s, the stores judged {self.judged} times, {self.asleep} executions asleep after their run was ended", "outcomes", *table(self.outcomes), "acts", *table(self.acts)]
        if self.armed:
            lines += [f"faults: {sum(self.armed.values())} armed, {sum(self.strikes.values())} struck, by kind", *table(self.strikes),
                      f"call sites: {len(covered)} of {len(self.passed)} were struck", *(f"  {self.struck[site]:6}  {site}" for site in covered),
                      "call sites that were passed and not struck", *(f"  {self.passed[site]:6}  {site}" for site in missed)]
        return "\n".join(lines)


class Driver:
    """A proposal as it is played: proposed when its time comes, then its acts, each when the run has come so far."""

    def __init__(self, campaign, proposal):
        self.campaign, self.proposal, self.run, self.proposing = campaign, proposal, None, None
        self.pending, self.reached, self.doing, self.status, self.lost = list(proposal.acts), {}, [], None, False

    def begin(self):
        """Arms its faults and proposes."""
        proposal, shop = self.proposal, self.campaign.shops[self.proposal.workspace]
        for strike in proposal.strikes:
            self.campaign.arm(strike, shop.id)
        mark = f"mark-same-{proposal.workspace}" if proposal.configuration == "same" else f"mark-{proposal.number}"
        content = self.campaign.journal.bundle(proposal.configuration, mark)
        identity, told = acts.propose(shop, content, digest_of(content), proposal)
        self.campaign.report.acts[f"propose: {told}"] += 1
        self.run, self.lost = (Run(shop, identity), False) if identity else (None, True)

    def tick(self, since, now, statuses):
        """Does what is due. `statuses` are those of the open runs, as they were a moment ago."""
        if self.proposing is None:
            if since * 1000 >= self.proposal.at:
                self.proposing = self.campaign.pool.submit(self.begin)
                self.known = False
            return
        if not self.proposing.done() or self.lost:
            return
        self.proposing.result()
        if not self.known:  # the statuses are older than the run may be: look at the next ones
            self.known = True
            return
        self.status = statuses.get(self.run.id, "ended")
        for status in STATUSES:
            if RANK[status] <= RANK[self.status]:
                self.reached.setdefault(status, now)
        for act in [act for act in self.pending if act.when in self.reached and now >= self.reached[act.when] + act.after / 1000]:
            self.pending.remove(act)
            self.doing.append(self.campaign.pool.submit(self.campaign.act, self.run, act))

    def idle(self, since):
        """Whether it has nothing more to do where the run stands now."""
        if self.lost:
            return True
        if self.status is None or not all(each.done() for each in self.doing):
            return False
        if self.status == "ended":
            return not self.pending
        return self.status in ("awaiting_approval", "queued") and not any(RANK[act.when] <= RANK[self.status] for act in self.pending)


class Campaign:
    """One stack with one gate and some workspaces, and what is played on it."""

    def __init__(self, name, workspaces, faults=True, say=print):
        self.say, self.report, self.documents = say, Report(), threading.Lock()
        self._stack = Stack.start(name)
        try:
            self._deploy(workspaces, faults)
        except BaseException:
            self._stack.stop()
            raise

    def _deploy(self, workspaces, faults):
        stack = self._stack
        self.faults = Faults(stack) if faults else None
        if faults:
            Faults.prepare(stack)  # before the first function starts
        self.journal = Journal(stack)
        self.world = World(stack, deploy.deploy_gate(stack, engine=self.journal.engine(deploy.find_engine())))
        self.reader = Reader(stack, self.world.outputs, self.journal)
        self.pool = concurrent.futures.ThreadPoolExecutor(24)
        self.etags, self.grants, self.shops, self._names = {}, {}, [], {}
        for number in range(workspaces):
            self._workspace(number)

    def _workspace(self, number):
        world, folder = self.world, self._stack.directory / f"folder-{number}"
        shop = world.workspace(folder, policy="default", grants={"alice": PEOPLE["alice"]})
        for person in ("bob", "carol"):
            grant = {"person": person, "workspaces": [shop.id], "actions": list(PEOPLE[person])}
            self.put("grants", f"{shop.id}-{person}", grant)
            self.grants[shop.id, person] = grant
        self.put("policies", shop.id, {"schema": "plangate.policy.v1"})
        self.put("policies", f"{shop.id}-strict", {"schema": "plangate.policy.v1", "max_changes": {"total": 1}})
        self.etags["workspaces", shop.id] = shop.etag
        self.put("workspaces", shop.id, {**shop.spec, "policy": shop.id}, lambda: shop.spec.update(policy=shop.id))
        self.shops.append(shop)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.pool.shutdown(cancel_futures=True)
        self._stack.stop()

    # -- acts -----------------------------------------------------------------------------------------------------

    def put(self, plural, identity, spec, then=lambda: None):
        """Writes a document as the administrator; gives a word."""
        body = {"etag": self.etags.get((plural, identity)), "request_id": secrets.token_hex(8), "namespace": "chaos", "owner": "administrator", "spec": spec}
        status, answer = acts.patiently(lambda: self.world.admin.call("PUT", f"/v1/{plural}/{identity}", body))
        if status == 200:
            self.etags[plural, identity] = answer["document"]["etag"]
            then()
        return acts.word(status, answer)

    def act(self, run, act):
        """Does something to a run; notes what came of it."""
        try:
            told = getattr(acts, act.name)(run, act)
        except Exception as error:  # noqa: BLE001: what an attacker fails at is no failure of the campaign
            told = f"came to nothing: {type(error).__name__}"
        self.report.acts[f"{act.name} {act.by}".strip() + f": {told}"] += 1

    def aside(self, aside):
        """Does something besides; notes what came of it."""
        try:
            told = getattr(acts, aside.name)(self, aside)
        except Exception as error:  # noqa: BLE001
            told = f"came to nothing: {type(error).__name__}"
        self.report.acts[f"{aside.name}: {told}"] += 1

    def arm(self, strike, workspace):
        """Arms a fault for a workspace."""
        if self.faults is not None:
            # Many calls of these two are about nobody's workspace.
            of = None if strike.process in ("plangate-api", "plangate-sweep") else workspace
            self._names[self.faults.arm(f"{strike.process} {strike.site}*", strike.what, of, strike.nth, strike.times)] = strike
            self.report.armed[strike.what] += 1

    def sweep(self):
        """The sweeper is called, as by its schedule; gives a word."""
        answer = self._stack.client("lambda").invoke(FunctionName=self.world.outputs["SweepFunctionArn"], Payload=b"{}")
        answer["Payload"].read()
        return "failed" if "FunctionError" in answer else "done"

    # -- playing --------------------------------------------------------------------------------------------------

    def play(self, batch):
        """Plays a batch to the end of all its runs; the stores are judged at each rest. Raises Found."""
        begun = time.monotonic()
        drivers = [Driver(self, proposal) for proposal in batch.proposals]
        asides, doing, swept, still = list(batch.asides), [], begun, begun
        while True:
            now = time.monotonic()
            statuses = self.world.open_runs()
            for driver in drivers:
                driver.tick(now - begun, now, statuses)
            for aside in [aside for aside in asides if (now - begun) * 1000 >= aside.at]:
                asides.remove(aside)
                doing.append(self.pool.submit(self.aside, aside))
            if asides or not all(each.done() for each in doing) or not all(driver.idle(now) for driver in drivers):
                still = time.monotonic()
            if now - begun > BATCH_SECONDS:
                raise self._found([Violation("all_come_to_rest", run, status) for run, status in statuses.items()])
            if now - still >= QUIET:
                self.rest()
                self.judge()
                if not self.world.open_runs():
                    break
                self._go_on(drivers)
                still = time.monotonic()
            elif now - swept >= SWEEP_SECONDS:
                swept = now
                doing.append(self.pool.submit(self.sweep))
            time.sleep(TICK)
        self.secrets()
        self._count(drivers, time.monotonic() - begun)

    def rest(self):
        """Calls the sweeper until every run has ended or waits for a person, and nothing runs any more that need not."""
        self._strikes()
        deadline = time.monotonic() + REST_SECONDS
        ecs, states = self._stack.client("ecs"), self._stack.client("stepfunctions")
        machines = [(kind, self.world.outputs[name]) for kind, name in (("applicable", "MachineApplicableArn"), ("plan-only", "MachinePlanOnlyArn"))]

        def restless():
            still = [run for run, status in self.world.open_runs().items() if status in MOVING]
            still += ecs.list_tasks(cluster=self.world.outputs["Cluster"])["taskArns"]
            running = [(each["name"], kind) for kind, machine in machines for each in states.list_executions(stateMachineArn=machine, statusFilter="RUNNING")["executions"]]
            # One that the gate looks for in the other machine, since somebody has changed the record, ends by its own clock.
            is_open = self.world.open_runs()
            over = [run for run, kind in running if run not in is_open and self.world.item(f"RUN#{run}", "RUN")[0]["kind"] == kind]
            # One that was not woken when its run was ended sleeps on until its own clock wakes it; whether it may is the checker's to say.
            return still + (over if time.monotonic() < begun + PATIENCE_SECONDS else [])

        before, begun = None, time.monotonic()
        while (left := restless()) or before != self.world.open_runs():
            before = self.world.open_runs()
            if left and time.monotonic() > deadline:
                raise self._found([Violation("all_come_to_rest", each, "it does not, however often the sweeper looks") for each in left])
            self.sweep()
            time.sleep(0.5)
        for folder in (self._stack.directory / "work").iterdir():
            shutil.rmtree(folder, ignore_errors=True)  # a task's disk dies with it

    def judge(self):
        """Has the checker judge the stores. Raises Found."""
        self.report.judged += 1
        stores = self.reader.read(time.time())
        self.report.asleep = len([run for run, each in stores.executions.items() if ("RUNNING" in dict(each).values()) and run not in self.world.open_runs()])
        if found := judge(stores):
            raise self._found(found)

    def secrets(self):
        """Looks for the workspaces' secrets where they may not be. Raises Found."""
        planted, heard = self.world._planted, self.world._heard
        places = self.world.search.places(list(planted), list(heard))
        heard.clear()
        astray = [(planted[secret].id, place) for secret, found in places.items() for place in found if not planted[secret].may_hold_secrets(place)]
        if astray:
            raise self._found([Violation("no_secret_is_astray", shop, place) for shop, place in astray])

    def _go_on(self, drivers):
        """Whoever is asked and has no more plans decides as was drawn; a workspace that is closed is opened by somebody who has looked."""
        opened = {driver.run.id: driver for driver in drivers if driver.run is not None and driver.status != "ended"}
        asked = False
        for identity, status in self.world.open_runs().items():
            if status == "awaiting_approval" and identity in opened:
                driver, asked = opened[identity], True
                leftover = driver.proposal.leftover if "leftover" not in driver.reached else "cancel"
                driver.reached["leftover"] = 0
                self.act(driver.run, Act(leftover, "awaiting_approval", 0, "alice" if leftover == "cancel" else "bob"))
        if not asked:
            self._open_closed()

    def _open_closed(self):
        for shop in self.shops:
            if shop.lock()["lock"]["state"] == "quarantined":
                self.report.acts[f"acknowledge: {self.look(shop)}"] += 1

    def look(self, shop):
        """Somebody looks at a closed estate, releases the engine's lock on its state, and opens the workspace again."""
        self._stack.client("s3").delete_object(Bucket=shop.bucket, Key=f"{shop.state_key}.tflock")
        content = self.journal.bundle("change", "mark-look")
        identity, told = acts.propose(shop, content, digest_of(content), Asking())
        if identity is None:
            return told
        run = Run(shop, identity)
        acts.until(lambda: run.status in TERMINAL, 60)
        body = {"request_id": secrets.token_hex(8), "run": identity, "note": "the campaign has looked"}
        return acts.word(*acts.patiently(lambda: self.world.admin.call("POST", f"/v1/workspaces/{shop.id}/acknowledge", body)))

    def close(self):
        """Opens every workspace that is closed, so that the next batch finds all open."""
        self._open_closed()
        self.rest()

    # -- telling --------------------------------------------------------------------------------------------------

    def _strikes(self):
        """Takes away what is still armed, and counts what has struck."""
        for name, strike in self._names.items():
            self.faults.disarm(name)
            sites = self.faults.hits(name)
            self.report.strikes[strike.what] += len(sites)
            self.report.struck.update(map(general, sites))
        self._names.clear()

    def _count(self, drivers, seconds):
        self.report.runs += sum(not driver.lost for driver in drivers)
        self.report.seconds += seconds
        for driver in drivers:
            if not driver.lost:
                record = driver.run.record
                reason = (record.get("failure") or {}).get("reason", "")
                self.report.outcomes[f"{driver.proposal.kind} {record['status']} {reason}".strip()] += 1
        if self.faults is not None:
            self.report.passed = collections.Counter(general(passage.site) for passage in self.faults.passages())

    def _found(self, violations):
        told = []
        for subject in dict.fromkeys(violation.subject for violation in violations[:5]):
            if subject.startswith("run-"):
                with contextlib.suppress(Exception):
                    run = Run(self.shops[0], subject)
                    run = Run(next(shop for shop in self.shops if shop.id == run.record["workspace"]), subject)
                    told += [f"--- {subject}", run.story(), *(json.dumps(event)[:600] for event in run.events())]
        return Found(violations, "\n".join(told))


@dataclasses.dataclass(frozen=True)
class Asking:
    """What a proposal asks for, and who asks: of somebody who looks at an estate."""

    kind: str = "plan-only"
    by: str = "alice"
