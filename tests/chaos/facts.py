"""What the stores tell, put together: runs with their chains, ledgers, locks, and what the documents said at which moment."""

import datetime
import functools
import json

from .stores import body

ENDS = {"no_changes", "planned", "applied", "rejected", "expired", "failed", "canceled"}
HOLDS = {"planning", "evaluating", "reviewing", "awaiting_approval", "approved", "applying"}
SLACK = 5  # seconds by which the moment of a call may lie beside that of what was read in it


class RunFacts:
    """A run: its record, its chain, and what its runner left."""

    def __init__(self, facts, identity, item):
        self.facts, self.id, self.item = facts, identity, item
        self.record, self.events = body(item), facts.chain(f"run/{identity}")
        self.workspace, self.status = self.record["workspace"], self.record["status"]
        self.failure = (self.record.get("failure") or {}).get("reason")
        # The record's kind may have been changed; what was proposed stands in the chain.
        self.kind = self.events[0]["what"].get("kind") if self.events else self.record["kind"]

    def all(self, what):
        """The events of a type, in order."""
        return [event for event in self.events if event["what"]["type"] == what]

    def first(self, what):
        """The first event of a type; None if there is none."""
        return next(iter(self.all(what)), None)

    @property
    def statuses(self):
        """All statuses that it ever had."""
        return self.facts.history.get(self.id, set()) | {self.status}

    @property
    def approval(self):
        """The event of its approval; None if nobody has approved it."""
        return next((event for event in self.all("decided") if event["what"]["decision"]["choice"] == "approve"), None)

    @functools.cached_property
    def claim(self):
        """The claim as it was first written; None if nobody has."""
        written = self.facts.written(f"claims/{self.workspace}/{self.id}")
        return json.loads(written[0].content) if written else None

    @property
    def claimed(self):
        """Whether a runner took the claim."""
        return self.claim is not None and self.claim["holder"] == "runner"

    @functools.cached_property
    def outcome_told(self):
        """Whether its runner has told how the engine's apply ended, in a result or in a receipt."""
        told = []
        for version in self.facts.written(f"results/{self.workspace}/{self.id}.json"):
            told.append(json.loads(version.content)["applied"])
        for version in self.facts.written(f"receipts/{self.workspace}/{self.id}/apply.json"):
            receipt = json.loads(version.content)
            if (receipt.get("failure") or {}).get("reason") != "apply-outcome-unknown":
                told.append(receipt.get("applied"))
        return any(applied and applied["exit_code"] in (0, 1) and not applied.get("errored_state") for applied in told)


class Facts:
    """Everything that the laws ask about."""

    def __init__(self, stores):
        self.stores = stores
        self.history, self._foreign, self._ended_from = {}, {}, {}
        for change in stores.changes:
            if change.pk.startswith("RUN#") and (record := body(change.after)) is not None:
                if record["status"] in ENDS and change.before is not None:
                    self._ended_from.setdefault(record["id"], body(change.before)["status"])
                self.history.setdefault(record["id"], set()).add(record["status"])
                if change.before is not None and change.before["version"] == change.after["version"]:
                    self._foreign.setdefault(record["id"], []).append(record)
        self.runs = {}
        for (pk, sk), item in sorted(stores.items.items()):
            if pk.startswith("RUN#") and sk == "RUN" and body(item) is not None:
                self.runs[pk.removeprefix("RUN#")] = RunFacts(self, pk.removeprefix("RUN#"), item)
        self.ledgers = {name.removeprefix("ws/"): self.chain(name) for name in stores.audit if name.startswith("ws/")}
        self.locks = {pk.removeprefix("WS#"): body(item) for (pk, sk), item in stores.items.items() if pk.startswith("WS#") and sk == "LOCK"}
        kinds = ("orders/", "claims/", "results/", "receipts/")
        self.apply_objects = [
            key for key, versions in stores.exchange.items() if key.startswith(kinds) and not key.endswith("/plan.json")
            and any(not version.forged and version.content is not None and not _tombstone(key, version.content) for version in versions)]
        self._documents = [
            (event["at"], event["what"]) for name in ("gate", *(f"ws/{ws}" for ws in self.ledgers)) for event in self.chain(name)
            if event["what"]["type"] == "document-changed"]
        self._of_workspace = {}
        for run in self.runs.values():
            self._of_workspace.setdefault(run.workspace, []).append(run)

    def chain(self, name):
        """The events of a chain, as far as they can be read, each with its recorded digest."""
        found = []
        for item in self.stores.audit.get(name, []):
            try:
                found.append({**json.loads(item["event"]), "digest": item["digest"]})
            except ValueError:
                break
        return found

    def runs_of(self, workspace):
        """The runs of a workspace."""
        return self._of_workspace.get(workspace, [])

    def foreign_statuses(self, run):
        """The statuses that somebody other than the gate wrote into its record."""
        return {record["status"] for record in self._foreign.get(run.id, [])}

    def sleeps_on(self, run):
        """Whether the execution of an ended run may still sleep: the run was ended by somebody else while it waited, and whoever was to
        wake it then was lost. It wakes by its own clock at the latest when the plan dies, or after an hour in line, and finds the end."""
        return run.status in ENDS and self._ended_from.get(run.id) in ("queued", "awaiting_approval")

    def kind_was_changed(self, run):
        """Whether somebody other than the gate wrote another kind into its record."""
        return any(record["kind"] != run.kind for record in self._foreign.get(run.id, []))

    def written(self, key):
        """The versions of an object of the exchange bucket that the gate or a runner wrote, oldest first."""
        return [version for version in self.stores.exchange.get(key, []) if not version.forged and version.content is not None]

    def states(self, workspace):
        """The versions of a workspace's state, oldest first."""
        spec = self._spec("workspace", workspace)
        keys = self.stores.estates.get(spec["state"]["bucket"], {}) if spec else {}
        return keys.get(spec["state"]["key"], []) if spec else []

    @staticmethod
    def run_of_key(key):
        """The run that an object of the exchange bucket is of."""
        return next((part for part in key.replace(".json", "").split("/") if part.startswith("run-")), key)

    # -- documents ------------------------------------------------------------------------------------------------

    def _spec(self, kind, identity):
        document = self.stores.body(f"DOC#{kind}#{identity}", "DOC")
        return document and document["spec"]

    def _specs(self, kind, at):
        """What the documents of a kind said around a moment: of each all specs that it had then."""
        begin, end, found = at - SLACK, at + SLACK, {}
        for moment, what in self._documents:
            if what["document"] != kind:
                continue
            seconds = datetime.datetime.fromisoformat(moment.replace("Z", "+00:00")).timestamp()
            if seconds > end:
                continue
            # Replaced before the moment: what was there is no more.
            if seconds < begin:
                found[what["id"]] = []
            found.setdefault(what["id"], []).append(what["spec_after"])
        return [spec for specs in found.values() for spec in specs]

    def may(self, person, action, workspace, at):
        """Whether a grant gave a person the right to do something in a workspace around a moment."""
        return any(
            grant["person"] == person and action in grant["actions"] and {workspace, "*"} & set(grant["workspaces"])
            for grant in self._specs("grant", at))

    def person_of(self, arn, at):
        """Who an assumed role was around a moment; None for a stranger."""
        _, _, _, _, account, resource = arn.split(":", 5)
        kind, role, *_ = resource.split("/")
        found = {principal["person"] for principal in self._specs("principal", at) for iam in principal["iam"]
                 if (iam["account"], iam["role"]) == (account, role) and not principal.get("bot")}
        return found.pop() if kind == "assumed-role" and len(found) == 1 else None

    def asks_for_another(self, workspace):
        """Whether a workspace has always asked for another approver than the proposer."""
        said = [what["spec_after"] for _, what in self._documents if (what["document"], what["id"]) == ("workspace", workspace)]
        return all(spec.get("distinct_approver", True) for spec in said)


def _tombstone(key, content):
    """Whether this is the gate's own claim, which says that nobody may apply."""
    return key.startswith("claims/") and json.loads(content).get("holder") == "gate"
