"""Stores made by hand, for testing the checker: a small gate on paper that writes what plangate would, and can be made to lie."""

import copy
import datetime
import hashlib
import io
import json
import tarfile

from .stores import Change, Stores, Trace, Version

ACCOUNT, BEGIN = "111122223333", 1_800_000_000


def moment(at):
    """A moment as the gate writes it."""
    return datetime.datetime.fromtimestamp(at, datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


def digest(content):
    """The digest of bytes as the gate writes it."""
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


def canonical(value):
    """Canonical bytes, as text."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def bundle(mark):
    """A bundle whose configuration carries a mark."""
    text, packed = f'locals {{\n  mark = "{mark}"\n}}\n'.encode(), io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as tar:
        info = tarfile.TarInfo("main.tf")
        info.size = len(text)
        tar.addfile(info, io.BytesIO(text))
    content = packed.getvalue()
    return b"\x28\xb5\x2f\xfd\xa0" + len(content).to_bytes(4, "little") + (len(content) << 3 | 1).to_bytes(3, "little") + content


class Forge:
    """A gate on paper. Time goes on by a second with each transaction."""

    def __init__(self, workspace="ws-1"):
        self.stores, self.now, self.workspace, self.number = Stores(), BEGIN, workspace, 0
        for person in ("alice", "bob", "mallory"):
            self._document("principal", person, {"person": person, "iam": [{"account": ACCOUNT, "role": person}]}, "gate")
        for person in ("alice", "bob"):
            self._document("grant", f"g-{person}", {"person": person, "workspaces": [workspace], "actions": ["propose", "approve"]}, "gate")
        spec = {"state": {"bucket": "estate", "key": "state"}, "sealed_bucket": "estate", "distinct_approver": True}
        self._document("workspace", workspace, spec, f"ws/{workspace}")
        self.put(f"WS#{workspace}", "LOCK", {"workspace": workspace, "lock": {"state": "free"}, "fence": 0, "tail": 0})
        self.stores.estates["estate"] = {}

    # -- writing --------------------------------------------------------------------------------------------------

    def put(self, pk, sk, content, **attributes):
        """Writes an item as the gate does."""
        before = self.stores.items.get((pk, sk))
        after = {"pk": pk, "sk": sk, "version": str(int(before["version"]) + 1 if before else 1), "body": json.dumps(content), **attributes}
        self.stores.items[pk, sk] = after
        self.stores.changes.append(Change(self.now, pk, sk, before, after))

    def remove(self, pk, sk):
        """Removes an item."""
        self.stores.changes.append(Change(self.now, pk, sk, self.stores.items.pop((pk, sk)), None))

    def event(self, chain, what, actor=None):
        """Appends an event; gives its place and digest."""
        items = self.stores.audit.setdefault(chain, [])
        event = {"schema": "plangate.audit-event.v1", "chain": chain, "seq": len(items) + 1, "previous": items[-1]["digest"] if items else None,
                 "at": moment(self.now), "actor": actor or {"kind": "gate", "function": "test"}, "what": what}
        text = canonical(event)
        item = {"pk": chain, "sk": f"{len(items) + 1:020d}", "event": text, "digest": digest(text.encode())}
        items.append(item)
        self.stores.audit_changes.append(Change(self.now, chain, item["sk"], None, item))
        self.put(f"CHAIN#{chain}", "HEAD", {"seq": len(items), "digest": item["digest"]})
        return {"seq": len(items), "digest": item["digest"]}

    def object(self, key, content, bucket=None, forged=False):
        """Writes an object; gives its version."""
        keys = self.stores.exchange if bucket is None else self.stores.estates[bucket]
        keys.setdefault(key, []).append(Version(key, f"v{len(keys.get(key, []))}-{key}", content, forged))
        return keys[key][-1].version

    def _document(self, kind, identity, spec, chain):
        self.put(f"DOC#{kind}#{identity}", "DOC", {"kind": kind, "id": identity, "spec": spec})
        self.event(chain, {"type": "document-changed", "document": kind, "id": identity, "after": "e", "spec_after": spec})
        self.now += 10

    def all_of(self, run, what):
        """What a run's events of a type tell."""
        told = [json.loads(item["event"])["what"] for item in self.stores.audit[f"run/{run}"]]
        return [each for each in told if each["type"] == what]

    # -- a run ----------------------------------------------------------------------------------------------------

    def record(self, run):
        """The record of a run."""
        return json.loads(self.stores.items[f"RUN#{run}", "RUN"]["body"])

    def step(self, run, status, *events, **fields):
        """Takes a run to a status with these events."""
        record = {**self.record(run), "status": status, **fields}
        heads = [self.event(f"run/{run}", what, actor) for what, actor in events]
        self.put(f"RUN#{run}", "RUN", record, **({"token": "t"} if status in ("queued", "awaiting_approval") else {}))
        self.now += 1
        return heads[-1] if heads else None

    def note(self, run, by, **more):
        """A person's note to a run."""
        self.event(f"run/{run}", {"type": "run-annotated", "note": "a word", **more}, {"kind": "person", "person": by, "arn": self.arn(by)})
        self.now += 1

    def lock(self, **fields):
        """Changes the lock."""
        self.put(f"WS#{self.workspace}", "LOCK", {**self.stores.body(f"WS#{self.workspace}", "LOCK"), **fields})

    def propose(self, kind="applicable", by="alice", origin="person"):
        """A proposal; gives the run's id."""
        self.number += 1
        run, content = f"run-{self.number}", bundle(f"mark-{self.number}")
        key = f"bundles/{self.workspace}/{self.number}.tar.zst"
        self.object(key, content)
        proposer = {"person": by, "arn": self.arn(by)}
        actor = {"kind": "gate", "function": "drift"} if origin == "drift" else {"kind": "person", **proposer}
        self.event(f"run/{run}", {"type": "run-proposed", "kind": kind, "bundle": digest(content), "proposer": proposer, "origin": origin}, actor)
        self.event(f"ws/{self.workspace}", {"type": "run-opened", "run": run})
        self.put(f"RUN#{run}", "RUN", {"id": run, "workspace": self.workspace, "kind": kind, "status": "proposed", "fence": 0, "proposer": proposer,
                                       "bundle": {"key": key, "digest": digest(content)}})
        self.stores.executions[run] = [(kind, "RUNNING")]
        self.now += 1
        return run

    def admit(self, run):
        """Admits a run, or puts it into the line."""
        lock = self.stores.body(f"WS#{self.workspace}", "LOCK")
        if self.record(run)["kind"] == "plan-only":
            self.step(run, "planning", ({"type": "run-admitted", "fence": 0}, None))
        elif lock["lock"]["state"] == "free":
            self.lock(lock={"state": "held", "run": run}, fence=lock["fence"] + 1)
            self.step(run, "planning", ({"type": "run-admitted", "fence": lock["fence"] + 1}, None), fence=lock["fence"] + 1)
        else:
            place = lock["tail"] + 1
            self.put(f"WS#{self.workspace}", f"Q#{place:020d}", run)
            self.lock(tail=place)
            self.step(run, "queued", ({"type": "run-queued", "place": place}, None), queued_as=place)

    def plan(self, run, life=3600, state=None):
        """Plans, projects, and asks for a decision; the plan has read `state`."""
        mark = f"mark-{run.removeprefix('run-')}"
        plan = {"expires_at": moment(self.now + life), "artifact": {"digest": f"artifact-{run}"}, "state": state or {"state": "none"}}
        self.step(run, "evaluating", ({"type": "plan-received", "plan": plan}, None), plan=plan)
        shown = canonical({"mark": mark}).encode()
        self.object(f"projections/{self.workspace}/{run}.json", shown)
        if self.record(run)["kind"] == "plan-only":
            self.step(run, "evaluating", ({"type": "plan-projected", "projection": digest(shown)}, None))
            return self.end(run, "planned")
        self.step(run, "evaluating", ({"type": "plan-projected", "projection": digest(shown)}, None), projection=digest(shown))
        self.step(run, "awaiting_approval", ({"type": "approval-requested", "projection": digest(shown), "expires_at": plan["expires_at"]}, None))
        return None

    @staticmethod
    def arn(person):
        """Somebody's identity."""
        return f"arn:aws:sts::{ACCOUNT}:assumed-role/{person}/session"

    def decide(self, run, choice="approve", by="bob", **fields):
        """Decides on a run."""
        actor = {"kind": "person", "person": by, "arn": self.arn(by)}
        decision = {"choice": choice, "by": actor, "projection": self.record(run)["projection"], "at": moment(self.now), **fields}
        self.put(f"DEC#{run}", "DEC", decision)
        if choice == "approve":
            self.step(run, "approved", ({"type": "decided", "decision": decision}, actor))
        else:
            self.end(run, "rejected", before=[({"type": "decided", "decision": decision}, actor)])

    def order(self, run):
        """Orders the apply."""
        content = canonical({"run": run}).encode()
        projection = self.record(run)["projection"]
        self.step(run, "applying", ({"type": "apply-ordered", "order": digest(content), "artifact": f"artifact-{run}", "projection": projection}, None))
        self.object(f"orders/{self.workspace}/{run}/apply.json", content)
        self.object(f"orders/{self.workspace}/{run}/apply.sig.json", b"{}")

    def claim(self, run, holder="runner"):
        """Takes the claim."""
        self.object(f"claims/{self.workspace}/{run}", canonical({"holder": holder, "at": moment(self.now)}).encode())

    def apply(self, run, told=True):
        """An engine applies; gives the version of the state that it leaves."""
        self.claim(run)
        mark = f"mark-{run.removeprefix('run-')}"
        self.stores.engines.append(Trace(run, self.now + 0.1))
        self.stores.made.append(Trace(run, self.now + 0.2, mark))
        version = self.object("state", self.state(mark), "estate")
        if told:
            applied = {"exit_code": 0, "state_after": {"version_id": version}}
            self.object(f"results/{self.workspace}/{run}.json", canonical({"applied": applied}).encode())
        self.now += 1
        return version

    @staticmethod
    def state(mark):
        """A state that carries a mark."""
        return canonical({"resources": [{"name": "mark", "instances": [{"attributes": {"input": {"type": "string", "value": mark}}}]}]}).encode()

    def end(self, run, status, failure=None, before=(), **fields):
        """Ends a run and passes its lock on."""
        held = self.record(run)["fence"] > 0
        queued = self.record(run)["status"] == "queued"
        why = {"failure": {"reason": failure, "detail": ""}} if failure else {}
        head = self.step(run, status, *before, ({"type": "run-ended", "status": status, "guardrails": "not-evaluated", **why}, None), **why, **fields)
        if queued:
            self.remove(f"WS#{self.workspace}", f"Q#{self.record(run)['queued_as']:020d}")
        self.event(f"ws/{self.workspace}", {"type": "run-closed", "run": run, "status": status, "chain": head})
        self.stores.executions[run] = [(kind, "SUCCEEDED") for kind, _ in self.stores.executions[run]]
        if held and failure == "apply-outcome-unknown":
            self.event(f"ws/{self.workspace}", {"type": "lock-quarantined", "run": run, "reason": failure})
            self.lock(lock={"state": "quarantined", "run": run})
        elif held:
            self.pass_on()

    def pass_on(self):
        """Gives the lock to the head of the line."""
        places = sorted(sk for pk, sk in self.stores.items if pk == f"WS#{self.workspace}" and sk.startswith("Q#"))
        if not places:
            return self.lock(lock={"state": "free"})
        run = json.loads(self.stores.items[f"WS#{self.workspace}", places[0]]["body"])
        fence = self.stores.body(f"WS#{self.workspace}", "LOCK")["fence"] + 1
        self.remove(f"WS#{self.workspace}", places[0])
        self.step(run, "planning", ({"type": "run-admitted", "fence": fence}, None), fence=fence)
        return self.lock(lock={"state": "held", "run": run}, fence=fence)

    def applied(self, run, status="applied", failure=None, told=True):
        """A whole apply of a run that waits for its decision."""
        self.decide(run)
        self.order(run)
        state = self.state_of(self.apply(run, told))
        self.end(run, status, failure, apply={"state_after": state})
        if failure == "apply-outcome-unknown":
            self.know(unsettled=run)
        else:
            self.know(run, state)

    @staticmethod
    def state_of(version):
        """The identity of a version of the state."""
        return {"state": "present", "lineage": "l", "serial": 1, "version_id": version, "digest": f"digest-{version}"}

    def know(self, run=None, state=None, unsettled=None):
        """What is known of the state."""
        known = self.stores.body(f"WS#{self.workspace}", "KNOWN") or {}
        known = {**known, **({"seen": {"run": run, "state": state}} if state else {})}
        known.pop("unsettled", None)
        self.put(f"WS#{self.workspace}", "KNOWN", {**known, **({"unsettled": unsettled} if unsettled else {})})

    def notices(self, run, before, after):
        """A plan-only run that has read a state notices that it was changed outside of the gate."""
        record = self.record(run)
        what = {"type": "changed-outside-gate", "run": run, "before": {"state": before}, "after": {"state": after}}
        self.event(f"ws/{record['workspace']}", what)
        self.know(run, after)

    def drifts(self, run, projection, previous=None):
        """What stands of drift, and that it is told."""
        found = {"projection": projection} if projection else {}
        what = {"type": "drift-found" if projection else "drift-gone", "run": run, **found, **({"previous": previous} if previous else {})}
        self.event(f"ws/{self.workspace}", what)
        self.put(f"WS#{self.workspace}", "DRIFT", {"run": run, **({"finding": {"projection": projection}} if projection else {})})

    def done(self):
        """The stores as they are now."""
        self.stores.taken_at = self.now + 1
        return copy.deepcopy(self.stores)
