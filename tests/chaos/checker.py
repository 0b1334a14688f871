"""The independent checker: whether what the stores hold can have come about by plangate's protocols.

It judges from the stores alone (table, change log, audit chains, objects with all versions, states, executions) and from two
marks that applies leave outside of the gate: each engine that is started to apply, and each resource that is made. It shares no code
with plangate and asks it nothing. What an attacker of the campaign has written itself is marked; that nothing comes of it is judged.
"""

import collections
import dataclasses
import datetime
import hashlib
import json

from . import bundles
from .facts import ENDS, HOLDS, Facts
from .stores import body

# The life of a run, written down a second time: from where to where the gate may take it.
STEPS = {
    "proposed": {"queued", "planning", "failed", "canceled"},
    "queued": {"planning", "failed", "canceled"},
    "planning": {"evaluating", "failed", "canceled"},
    "evaluating": {"no_changes", "planned", "reviewing", "awaiting_approval", "failed", "expired", "canceled"},
    "reviewing": {"awaiting_approval", "approved", "failed", "expired", "canceled"},
    "awaiting_approval": {"approved", "rejected", "expired", "failed", "canceled"},
    "approved": {"applying", "expired", "failed", "canceled"},
    "applying": {"applied", "failed"},
}
UNKNOWN = "apply-outcome-unknown"
TOUCHED = {"apply-errored", UNKNOWN}  # the failures that own that an engine was at work
CLOCKS = 15  # seconds: a claim is written right after the runner has looked at its clock; what is behind it may take a little


@dataclasses.dataclass(frozen=True)
class Violation:
    """A property that does not hold, of what, and what shows it."""

    law: str
    subject: str
    evidence: str

    def __str__(self):
        return f"{self.law}: {self.subject}: {self.evidence}"


LAWS = []


def law(function):
    """A property: yields (subject, evidence) for each thing of which it does not hold. Its docstring is its statement."""
    LAWS.append(function)
    return function


def judge(stores):
    """Everything that does not hold in the stores of a gate at rest."""
    facts, found = Facts(stores), []
    for each in LAWS:
        try:
            for subject, evidence in each(facts):
                found.append(Violation(each.__name__, subject, evidence))
        except (KeyError, TypeError, ValueError, IndexError, AttributeError) as error:
            # What cannot be judged has not passed.
            found.append(Violation("what_is_stored_can_be_judged", each.__name__, repr(error)))
    return found


def digest(content):
    """The digest of bytes as the gate writes it."""
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


def seconds(moment):
    """A moment as the gate writes it, in seconds since 1970."""
    return int(datetime.datetime.fromisoformat(moment.replace("Z", "+00:00")).timestamp())


# -- the trail -----------------------------------------------------------------------------------------------------


@law
def chains_are_whole(facts):
    """Each chain of events is linked from its first event to its end by the digests of its exact bytes, and its head names that end."""
    stores = facts.stores
    heads = {pk.removeprefix("CHAIN#"): body(item) for (pk, _), item in stores.items.items() if pk.startswith("CHAIN#")}
    for name in sorted(heads.keys() | stores.audit.keys()):
        previous, items = None, stores.audit.get(name, [])
        for place, item in enumerate(items, 1):
            made = digest(item["event"].encode())
            try:
                event = json.loads(item["event"])
            except ValueError:
                yield name, f"event {place} is no JSON"
                break
            if json.dumps(event, sort_keys=True, separators=(",", ":"), ensure_ascii=False) != item["event"]:
                yield name, f"event {place} is not in canonical form"
            if item["digest"] != made:
                yield name, f"event {place} is recorded as {item['digest']} and is {made}"
            if (int(item["sk"]), event.get("seq"), event.get("chain")) != (place, place, name):
                yield name, f"event {place} says that it is {event.get('seq')} of {event.get('chain')}, at place {item['sk']}"
            if event.get("previous") != previous:
                yield name, f"event {place} follows {event.get('previous')} and not {previous}"
            previous = made
        end = {"seq": len(items), "digest": previous} if items else None
        if heads.get(name) != end:
            yield name, f"its head is {heads.get(name)} and its end {end}"


@law
def events_are_never_changed(facts):
    """The audit table only grows: no event is ever written over or removed."""
    for change in facts.stores.audit_changes:
        if change.before is not None:
            yield change.pk, f"event {change.sk} was {'changed' if change.after else 'removed'} at {change.at}"


@law
def the_ledger_anchors_each_run(facts):
    """A workspace's ledger opens each of its runs once, and closes it once, when it has ended, with the digest of its chain's end."""
    opened, closed = collections.Counter(), {}
    for workspace, events in facts.ledgers.items():
        for event in events:
            what = event["what"]
            if what["type"] == "run-opened":
                opened[what["run"]] += 1
                if what["run"] in facts.runs and facts.runs[what["run"]].workspace != workspace:
                    yield what["run"], f"it is opened in the ledger of {workspace}, and is not of it"
            elif what["type"] == "run-closed":
                if what["run"] in closed:
                    yield what["run"], "its ledger closes it twice"
                if not opened[what["run"]]:
                    yield what["run"], "its ledger closes it before it opens it"
                closed[what["run"]] = what
    for run in facts.runs.values():
        if opened[run.id] != 1:
            yield run.id, f"its ledger opens it {opened[run.id]} times"
        anchor, end = closed.get(run.id), run.first("run-ended")
        if (anchor is None) != (end is None):
            yield run.id, f"its ledger {'does not close it, and it has ended' if anchor is None else 'closes it, and it has not ended'}"
        elif end and (anchor["status"], anchor["chain"]) != (end["what"]["status"], {"seq": end["seq"], "digest": end["digest"]}):
            yield run.id, f"its ledger closes it as {anchor['status']} at {anchor['chain']}, it ended as {end['what']['status']} at {end['seq']} {end['digest']}"
    for identity in sorted((opened.keys() | closed.keys()) - facts.runs.keys()):
        yield identity, "a ledger names it, and there is no such run"


# -- the life of a run ---------------------------------------------------------------------------------------------


@law
def a_run_ends_once(facts):
    """A run has one terminal status: its chain has one end, as the record says, and after it nothing but decisions that came too late and
    notes of people."""
    for run in facts.runs.values():
        ends = run.all("run-ended")
        if run.status in ENDS and [end["what"]["status"] for end in ends] != [run.status]:
            yield run.id, f"its record says {run.status}, and its chain ends as {[end['what']['status'] for end in ends]}"
        if run.status not in ENDS and ends:
            yield run.id, f"its record says {run.status}, and its chain has ended"
        if ends and (ends[0]["what"].get("failure") or {}).get("reason") != run.failure:
            yield run.id, f"its record failed by {run.failure}, its chain by {ends[0]['what'].get('failure')}"
        after = [event["what"]["type"] for event in run.events[ends[0]["seq"]:]] if ends else []
        if set(after) - {"decision-without-effect", "run-annotated"}:
            yield run.id, f"after its end its chain goes on with {after}"
        events = [event["what"]["type"] for event in run.events]
        if events[:1] != ["run-proposed"] or events.count("run-proposed") != 1:
            yield run.id, f"its chain does not begin with its one proposal: {events}"


@law
def notes_are_of_people_who_may_and_correct_what_is_there(facts):
    """A note to a run is by a person with the right to approve or to administer there, on an event before it; a run has at most fifty."""
    for run in facts.runs.values():
        notes = run.all("run-annotated")
        if len(notes) > 50:
            yield run.id, f"it has {len(notes)} notes"
        for event in notes:
            by, at, corrects = event["actor"], seconds(event["at"]), event["what"].get("corrects")
            if by.get("kind") != "person" or facts.person_of(by["arn"], at) != by["person"]:
                yield run.id, f"event {event['seq']} is a note by {by}"
            elif not any(facts.may(by["person"], action, run.workspace, at) for action in ("approve", "administer")):
                yield run.id, f"event {event['seq']} is a note by {by['person']}, who had no right to"
            if corrects is not None and not 1 <= corrects < event["seq"]:
                yield run.id, f"event {event['seq']} corrects event {corrects}"


@law
def a_run_takes_only_the_steps_of_its_life(facts):
    """The gate takes a run from one status to the next as its life has it, writes it over its last version, and an ended one never again."""
    last = {}
    for change in facts.stores.changes:
        if not change.pk.startswith("RUN#"):
            continue
        identity, before, after = change.pk.removeprefix("RUN#"), change.before, change.after
        if after is None:
            yield identity, f"its record was removed at {change.at}"
            continue
        old, new = (body(before) or {}).get("status"), (body(after) or {}).get("status")
        if before is not None and int(after["version"]) == int(before["version"]):
            continue  # somebody else has written: the gate counts each of its versions
        if int(after["version"]) != (int(before["version"]) + 1 if before else 1):
            yield identity, f"version {before and before['version']} is followed by {after['version']}"
        if last.get(identity) in ENDS:
            yield identity, f"it ended as {last[identity]} and was written again, as {new}"
        if before is None and new != "proposed":
            yield identity, f"it began as {new}"
        if before is not None and new != old and new not in STEPS.get(old, ()):
            yield identity, f"it went from {old} to {new}"
        last[identity] = new
    for run in facts.runs.values():
        # One whose record somebody has made applicable may be asked about; without the lock it comes no further.
        never = {"applying", "applied"} | (set() if facts.kind_was_changed(run) else {"queued", "reviewing", "awaiting_approval", "approved"})
        if run.kind == "plan-only" and (met := never & run.statuses):
            yield run.id, f"it was only to plan and was {', '.join(sorted(met))}"


@law
def one_applicable_run_at_a_time(facts):
    """From admission to its end an applicable run is alone in its workspace: at no moment do two hold, and each grant has its own fence."""
    holders = collections.defaultdict(set)
    for change in facts.stores.changes:
        record = body(change.after)
        if not change.pk.startswith("RUN#") or record is None:
            continue
        mine = holders[record["workspace"]]
        mine.discard(record["id"])
        if record["fence"] > 0 and record["status"] in HOLDS:
            mine.add(record["id"])
            if len(mine) > 1:
                yield record["workspace"], f"at {change.at} these held at once: {', '.join(sorted(mine))}"
    for workspace, lock in facts.locks.items():
        granted = collections.defaultdict(list)
        for run in facts.runs_of(workspace):
            if run.kind == "applicable":
                for event in run.all("run-admitted"):
                    granted[event["what"]["fence"]].append(run)
        for fence, runs in granted.items():
            if len(runs) > 1:
                yield workspace, f"fence {fence} was given to {', '.join(run.id for run in runs)}"
        if sorted(granted) != list(range(1, lock["fence"] + 1)):
            yield workspace, f"its lock was given {lock['fence']} times, and the chains tell of {sorted(granted)}"
        # By the chains alone: their moments are those of the calls, which may lie a little before what they did.
        in_turn = [granted[fence][0] for fence in sorted(granted)]
        for first, second in zip(in_turn, in_turn[1:]):
            end, begin = first.first("run-ended"), second.first("run-admitted")
            if end is None or seconds(end["at"]) > seconds(begin["at"]) + 60:
                yield workspace, f"{second.id} was admitted at {begin['at']} and {first.id} ended at {end and end['at']}"


@law
def the_line_is_first_in_first_out(facts):
    """Who waits for a workspace is admitted in the order in which they came; nobody is admitted past those who wait, and none is lost."""
    lines, statuses = collections.defaultdict(dict), {}
    for change in facts.stores.changes:
        if change.pk.startswith("RUN#") and (record := body(change.after)) is not None:
            before, now = statuses.get(record["id"]), record["status"]
            statuses[record["id"]] = now
            waiting = {run: place for place, run in lines[record["workspace"]].items() if statuses.get(run) == "queued" and run != record["id"]}
            if now == "planning" and before == "proposed" and record["kind"] == "applicable" and waiting:
                yield record["id"], f"it was admitted at once, past {sorted(waiting)}"
        elif change.pk.startswith("WS#") and change.sk.startswith("Q#"):
            line, place = lines[change.pk.removeprefix("WS#")], int(change.sk.removeprefix("Q#"))
            if change.after is not None:
                if line and place < max(line):
                    yield body(change.after), f"it came to place {place} of a line that had come to {max(line)}"
                line[place] = body(change.after)
                continue
            run = line.pop(place, None)
            ahead = [line[other] for other in sorted(line) if other < place and statuses.get(line[other]) == "queued"]
            if ahead and statuses.get(run) not in ENDS:
                yield run, f"it left place {place} of the line before {ahead}"
    for workspace in facts.locks:
        placed = collections.Counter(body(item) for (pk, sk), item in facts.stores.items.items() if pk == f"WS#{workspace}" and sk.startswith("Q#"))
        queued = {run.id for run in facts.runs_of(workspace) if run.status == "queued"}
        for run in sorted(queued | placed.keys()):
            if (run in queued) != (placed[run] == 1):
                yield run, f"it has {placed[run]} places in the line and is {facts.runs[run].status if run in facts.runs else 'nobody'}"
        told = [(run.first("run-queued")["what"]["place"], run) for run in facts.runs_of(workspace) if run.first("run-queued")]
        if len({place for place, _ in told}) != len(told):
            yield workspace, f"two had one place in the line: {sorted((place, run.id) for place, run in told)}"
        admitted = [run for _, run in sorted(told, key=lambda each: each[0]) if run.first("run-admitted")]
        fences = [run.first("run-admitted")["what"]["fence"] for run in admitted]
        if fences != sorted(fences):
            yield workspace, f"the line was admitted out of turn: {[(run.id, fence) for run, fence in zip(admitted, fences)]}"


@law
def who_is_open_waits_for_a_person(facts):
    """At rest a run has ended, or waits for a decision that can still be given, or for the lock that somebody waits with or must open."""
    for run in facts.runs.values():
        executions = facts.stores.executions.get(run.id, [])
        if len(executions) > 1 or any(kind != run.kind for kind, _ in executions):
            yield run.id, f"it is {run.kind}, and has the executions {executions}"
        running = [kind for kind, status in executions if status == "RUNNING"]
        if run.status in ENDS:
            # The gate looks for an execution by the record's kind. Where somebody has changed that, it ends by its own clock.
            if running and not facts.kind_was_changed(run) and not facts.sleeps_on(run):
                yield run.id, f"it has ended as {run.status}, and its execution runs"
        elif run.status not in ("awaiting_approval", "queued"):
            yield run.id, f"at rest it is {run.status}: {[event['what']['type'] for event in run.events][-3:]}"
        elif not running or not run.item.get("token"):
            yield run.id, f"it is {run.status}, and nothing waits for it: {executions}, {'a' if run.item.get('token') else 'no'} token"
        elif run.status == "awaiting_approval" and seconds(run.record["plan"]["expires_at"]) <= facts.stores.taken_at:
            yield run.id, f"it waits for a decision on a plan that died at {run.record['plan']['expires_at']}"


@law
def the_lock_is_free_held_or_closed(facts):
    """At rest a workspace's lock is free and nobody waits, or held by an open run, or closed since nobody knows what a run has applied."""
    for workspace, lock in facts.locks.items():
        state, holder = lock["lock"]["state"], facts.runs.get(lock["lock"].get("run"))
        holding = [run.id for run in facts.runs_of(workspace) if run.record["fence"] > 0 and run.status in HOLDS]
        waiting = [run.id for run in facts.runs_of(workspace) if run.status == "queued"]
        if state == "free" and (waiting or holding):
            yield workspace, f"its lock is free, and these hold {holding} and wait {waiting}"
        if state == "held" and (holder is None or holding != [holder.id] or holder.record["fence"] != lock["fence"]):
            yield workspace, f"its lock is held by {lock['lock']['run']} with fence {lock['fence']}, and these hold: {holding}"
        if state == "quarantined" and holding:
            yield workspace, f"its lock is closed, and these hold: {holding}"
        words = [event["what"] for event in facts.ledgers.get(workspace, []) if event["what"]["type"] in ("lock-quarantined", "lock-acknowledged")]
        closed_by = words[-1]["run"] if words and words[-1]["type"] == "lock-quarantined" else None
        if (closed_by if state != "quarantined" else lock["lock"]["run"]) != closed_by:
            yield workspace, f"its lock is {lock['lock']}, and its ledger says {words[-1:]}"
        closing = [word["run"] for word in words if word["type"] == "lock-quarantined"]
        unknown = [run.id for run in facts.runs_of(workspace) if run.failure == UNKNOWN]
        if sorted(closing) != sorted(unknown):
            yield workspace, f"its ledger has it closed by {closing}, and unknown is what these applied: {unknown}"


@law
def an_unknown_outcome_is_owned_and_only_that(facts):
    """A run whose runner took the claim and left no word of how the engine ended has failed as unknown; one that left its word has not."""
    for run in facts.runs.values():
        if run.status not in ENDS or not run.claimed:
            continue
        if not run.outcome_told and run.failure != UNKNOWN:
            yield run.id, f"its runner took the claim and told nothing, and it ended as {run.status} {run.failure or ''}"
        if run.outcome_told and run.failure == UNKNOWN:
            yield run.id, "its runner told how the engine ended, and it ended as unknown"


# -- around the gate -------------------------------------------------------------------------------------------------


@law
def only_what_others_have_written_is_told_as_changed_outside(facts):
    """A change outside of the gate is told once, by a run whose plan has read the state that is told; and no engine of the gate has written it."""
    for workspace, events in facts.ledgers.items():
        by_others = {version.version for version in facts.states(workspace) if version.forged or version.content is None}
        left = [(run.record.get("apply") or {}).get("state_after") for run in facts.runs_of(workspace)]
        told = []
        for what in (event["what"] for event in events if event["what"]["type"] == "changed-outside-gate"):
            run, after = facts.runs.get(what["run"]), what["after"]["state"]
            read = run and (run.first("plan-received") or {"what": {"plan": {}}})["what"]["plan"].get("state")
            if run is None or run.workspace != workspace or read != after:
                yield what["run"], f"it is said to have noticed {after}, and its plan has read {read}"
            if after in left or (after["state"] == "present" and after["version_id"] not in by_others):
                yield workspace, f"an engine of the gate has written {after}, and {what['run']} tells it as a change outside"
            if after in told or after == what["before"]["state"]:
                yield workspace, f"{after} is told again, by {what['run']}"
            told.append(after)


@law
def what_is_known_of_a_state_is_what_was_recorded_last(facts):
    """What the gate knows of a state is what its last apply has left, or what was told or looked at since; after an unknown outcome nothing is known
    until somebody has looked."""
    for workspace, events in facts.ledgers.items():
        expected, closed = None, None
        for what in (event["what"] for event in events):
            run = facts.runs.get(what.get("run"))
            if what["type"] == "run-closed" and run and run.failure != UNKNOWN:
                expected = (run.record.get("apply") or {}).get("state_after") or expected
            elif what["type"] == "lock-quarantined":
                expected, closed = None, what["run"]
            elif what["type"] == "lock-acknowledged" and closed:
                expected, closed = what.get("state"), None
            elif what["type"] == "changed-outside-gate":
                if expected is not None and what["before"]["state"] != expected:
                    yield workspace, f"{what['run']} tells of a change of {what['before']['state']}, and known was {expected}"
                expected = what["after"]["state"]
        known = facts.stores.body(f"WS#{workspace}", "KNOWN") or {}
        seen = (known.get("seen") or {}).get("state")
        if expected is not None and seen != expected:
            yield workspace, f"it knows {seen} of its state, and {expected} was recorded last"
        if known.get("unsettled") != closed:
            yield workspace, f"unsettled is what {known.get('unsettled')} has applied, and its lock was closed by {closed}"


@law
def drift_is_looked_for_by_plans_alone_and_told_once(facts):
    """Runs that look for drift are the gate's own and only plan; each finding is the projection of the run that tells it, and is told once until it
    is another or gone."""
    for run in facts.runs.values():
        proposed = run.first("run-proposed")
        if proposed and (proposed["what"].get("origin") == "drift") != (proposed["actor"] == {"kind": "gate", "function": "drift"}):
            yield run.id, f"it is of {proposed['what'].get('origin')}, and was proposed by {proposed['actor']}"
        if proposed and proposed["what"].get("origin") == "drift" and proposed["what"]["kind"] != "plan-only":
            yield run.id, "it looks for drift, and may be applied"
    for workspace, events in facts.ledgers.items():
        standing = None
        for what in (event["what"] for event in events if event["what"]["type"] in ("drift-found", "drift-gone")):
            run = facts.runs.get(what["run"])
            shown = run and (run.first("plan-projected") or {"what": {}})["what"].get("projection")
            found = what.get("projection")
            if found is not None and found != shown:
                yield what["run"], f"it tells of the drift {found}, and has projected {shown}"
            if what.get("previous") != standing or found == standing:
                yield workspace, f"{what['run']} tells {what}, and {standing} was known"
            standing = found
        known = ((facts.stores.body(f"WS#{workspace}", "DRIFT") or {}).get("finding") or {}).get("projection")
        if known != standing:
            yield workspace, f"the drift {known} stands, and {standing} was told"


# -- decided and applied -------------------------------------------------------------------------------------------


@law
def nothing_is_ordered_claimed_or_told_without_an_approval(facts):
    """Apply orders, their signatures, runners' claims, results and receipts of applies are of runs that somebody has approved."""
    for key in sorted(facts.apply_objects):
        identity = facts.run_of_key(key)
        run = facts.runs.get(identity)
        if run is None:
            yield identity, f"`{key}` stands there, and there is no such run"
        elif run.approval is None:
            yield identity, f"`{key}` stands there, and nobody has approved it"
        elif run.first("apply-ordered") is None:
            yield identity, f"`{key}` stands there, and its chain has no order"
    for run in facts.runs.values():
        past = run.statuses & {"approved", "applying", "applied"}
        if past - facts.foreign_statuses(run) and run.approval is None:
            yield run.id, f"it was {', '.join(sorted(past))}, and nobody has approved it"
        ordered, order = run.first("apply-ordered"), facts.written(f"orders/{run.workspace}/{run.id}/apply.json")
        if order and ordered and digest(order[0].content) != ordered["what"]["order"]:
            yield run.id, f"its order is {digest(order[0].content)}, and {ordered['what']['order']} was recorded"


@law
def an_approval_is_by_somebody_else_who_may_on_what_was_shown_in_time(facts):
    """The one decision of a run is on the digest of the exact bytes of its projection, before its plan dies, by a person with the right
    to approve there; and an approval is by another than the proposer."""
    for run in facts.runs.values():
        decided = run.all("decided")
        if len(decided) > 1:
            yield run.id, f"it was decided {len(decided)} times"
        taken = facts.stores.body(f"DEC#{run.id}", "DEC")
        if ([event["what"]["decision"] for event in decided] or [None]) != [taken]:
            yield run.id, f"its chain has the decisions {[event['what']['decision'] for event in decided]}, and {taken} was taken"
        for event in decided:
            yield from ((run.id, problem) for problem in _problems(facts, run, event))


def _problems(facts, run, event):
    decision, plan, shown = event["what"]["decision"], run.first("plan-received"), run.first("plan-projected")
    by, at = decision["by"], seconds(decision["at"])
    asked = run.first("approval-requested")
    if asked is None or asked["seq"] > event["seq"]:
        yield "it was decided before anybody was asked"
    if shown is None or decision["projection"] != shown["what"]["projection"]:
        yield f"it was decided on {decision['projection']}, and {shown and shown['what']['projection']} was projected"
    if decision["projection"] not in {digest(version.content) for version in facts.written(f"projections/{run.workspace}/{run.id}.json")}:
        yield f"it was decided on {decision['projection']}, and no bytes of that digest were ever stored"
    if plan is None or at >= seconds(plan["what"]["plan"]["expires_at"]):
        yield f"it was decided at {decision['at']}, and its plan lived until {plan and plan['what']['plan']['expires_at']}"
    if event["actor"] != by or by.get("kind") != "person":
        yield f"it was decided by {by} as the act of {event['actor']}"
        return
    if facts.person_of(by["arn"], at) != by["person"]:
        yield f"it was decided by {by['arn']} as {by['person']}, who is {facts.person_of(by['arn'], at)}"
    if not facts.may(by["person"], "approve", run.workspace, at):
        yield f"it was decided by {by['person']} at {decision['at']}, who had no right to"
    proposer = run.events[0]["what"]["proposer"]
    others = {proposer["person"], proposer.get("on_behalf_of")}
    if decision["choice"] == "approve" and by["person"] in others and facts.asks_for_another(run.workspace):
        yield f"{by['person']} proposed it and approved it"


@law
def an_apply_is_ordered_only_while_its_plan_lives(facts):
    """The apply is ordered after the approval and before the plan dies, of the artifact that the plan left; and claimed before it dies."""
    for run in facts.runs.values():
        ordered, plan = run.first("apply-ordered"), run.first("plan-received")
        if ordered is None:
            continue
        if len(run.all("apply-ordered")) > 1:
            yield run.id, "its apply was ordered twice"
        if run.approval is None or run.approval["seq"] > ordered["seq"]:
            yield run.id, "its apply was ordered before it was approved"
            continue
        expires = seconds(plan["what"]["plan"]["expires_at"])
        if seconds(ordered["at"]) >= expires:
            yield run.id, f"its apply was ordered at {ordered['at']}, and its plan lived until {plan['what']['plan']['expires_at']}"
        decision = run.approval["what"]["decision"]
        meant = (plan["what"]["plan"]["artifact"]["digest"], decision["projection"])
        if (ordered["what"]["artifact"], ordered["what"]["projection"]) != meant:
            yield run.id, f"its order is of {ordered['what']}, and approved was {meant}"
        if run.claimed and seconds(run.claim["at"]) > expires + CLOCKS:
            yield run.id, f"it was claimed at {run.claim['at']}, and its plan lived until {plan['what']['plan']['expires_at']}"


@law
def an_engine_applies_at_most_once(facts):
    """An engine is started to apply a run's plan at most once, by whoever took the run's claim, and what it makes is made once; a run that
    says that it was applied was, and one that says that nothing was has not been."""
    started = collections.Counter(trace.run for trace in facts.stores.engines)
    made = collections.Counter(trace.run for trace in facts.stores.made)
    for identity in sorted(started.keys() | made.keys()):
        run = facts.runs.get(identity)
        if started[identity] > 1 or made[identity] > 1:
            yield identity, f"its plan was applied {started[identity]} times, and made what it makes {made[identity]} times"
        if not started[identity]:
            yield identity, "something was made by it without an engine that was to apply it"
        if run is None:
            yield identity, "it was applied, and there is no such run"
            continue
        if run.approval is None:
            yield identity, "it was applied, and nobody has approved it"
        if not run.claimed:
            yield identity, f"it was applied, and the claim is {run.claim}"
        if run.status in ENDS and run.status != "applied" and run.failure not in TOUCHED:
            yield identity, f"an engine was started to apply it, and it ended as {run.status} {run.failure or ''}"
        first = min(trace.at for trace in [*facts.stores.engines, *facts.stores.made] if trace.run == identity)
        if run.approval and first + 1 < seconds(run.approval["what"]["decision"]["at"]):
            yield identity, f"it was applied at {first}, before it was approved at {run.approval['what']['decision']['at']}"
    for run in facts.runs.values():
        if run.status == "applied" and (started[run.id], made[run.id]) != (1, 1):
            yield run.id, f"it says that it was applied; engines were started {started[run.id]} times, and what it makes was made {made[run.id]} times"


@law
def no_lock_is_freed_while_an_engine_works(facts):
    """What an apply makes is made before its run ends: nobody gets the lock while an engine may still be at work."""
    ended = {}
    for change in facts.stores.changes:
        if change.pk.startswith("RUN#") and (record := body(change.after)) is not None and record["status"] in ENDS:
            ended.setdefault(record["id"], change.at)
    for trace in [*facts.stores.engines, *facts.stores.made]:
        run = facts.runs.get(trace.run)
        # Where nobody knows what was applied the lock is closed, and the engine may well have been at work.
        if run and run.failure != UNKNOWN and trace.run in ended and trace.at >= ended[trace.run] + 1:
            yield trace.run, f"its engine was at work at {trace.at}, and it had ended by {ended[trace.run]}"


@law
def what_was_applied_is_what_was_approved(facts):
    """The mark that the proposed configuration carries is in the projection that was approved, in what the apply made, and in the state
    that it left; and every state of the estate is of an approved configuration."""
    by_run = {trace.run: trace.marker for trace in facts.stores.made}
    marks = collections.defaultdict(set)
    for run in facts.runs.values():
        bundle = facts.written(run.record["bundle"]["key"])
        mark = bundles.mark(bundle[0].content) if bundle else None
        if not run.claimed:
            continue
        if mark is None:
            yield run.id, f"its bundle `{run.record['bundle']['key']}` cannot be read, and it was applied"
            continue
        marks[run.workspace].add(mark)
        if bundle[0].content is None or digest(bundle[0].content) != run.events[0]["what"]["bundle"]:
            yield run.id, "its bundle is not the one that was proposed"
        decision = run.approval["what"]["decision"] if run.approval else {}
        projections = facts.written(f"projections/{run.workspace}/{run.id}.json")
        shown = next((version.content for version in projections if digest(version.content) == decision.get("projection")), b"")
        if json.dumps(mark).encode() not in shown:
            yield run.id, f"it proposed {mark}, which the projection that was approved does not show"
        if run.id in by_run and by_run[run.id] != mark:
            yield run.id, f"it proposed {mark}, and its apply made {by_run[run.id]}"
        if run.status == "applied":
            told = run.record["apply"]["state_after"]
            states = facts.states(run.workspace)
            left = next((version.content for version in states if version.version == told.get("version_id")), None)
            if left is None or bundles.state_mark(left) != mark:
                yield run.id, f"it proposed {mark}, and the state that it left ({told}) has {left and bundles.state_mark(left)}"
    for workspace in facts.locks:
        for version in facts.states(workspace):
            found = bundles.state_mark(version.content) if version.content else None
            if not version.forged and found is not None and found not in marks[workspace]:
                yield workspace, f"version {version.version} of its state has {found}, which no run that was applied has proposed"


@law
def what_is_written_once_stays(facts):
    """Orders, signatures, receipts, claims, results, projections, plan documents, logs and artifacts are written once."""
    once = ("orders/", "receipts/", "claims/", "results/", "projections/", "documents/", "logs/")
    for key, versions in facts.stores.exchange.items():
        if key.startswith(once) and len([version for version in versions if not version.forged]) > 1:
            yield facts.run_of_key(key), f"`{key}` was written {len(versions)} times"
    for bucket, keys in facts.stores.estates.items():
        for key, versions in keys.items():
            if key.startswith("artifacts/") and len([version for version in versions if not version.forged]) > 1:
                yield bucket, f"`{key}` was written {len(versions)} times"
