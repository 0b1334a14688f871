"""The checker finds each violation: stores that a gate on paper has written are well, and no lie that is put into them passes."""

import dataclasses
import json

import pytest

from .checker import LAWS, judge
from .forge import BEGIN, Forge, canonical, digest, moment
from .stores import Change, Trace, Version


def healthy():
    """A gate after a day: applied, rejected, failed, unknown and opened again, one that waits, and two in line behind it."""
    gate = Forge()
    first, second, third = gate.propose(), gate.propose(), gate.propose()
    for run in (first, second, third):
        gate.admit(run)
    gate.plan(first)
    gate.applied(first)
    gate.plan(second)
    gate.decide(second, "reject")
    gate.plan(third)
    gate.applied(third, "failed", "apply-outcome-unknown", told=False)
    look = gate.propose("plan-only")
    gate.admit(look)
    left = gate.state_of(gate.stores.estates["estate"]["state"][-1].version)
    gate.plan(look, state=left)
    gate.event(f"ws/{gate.workspace}", {"type": "lock-acknowledged", "note": "looked", "run": look, "state": left})
    gate.know(look, left)
    gate.pass_on()
    waits, fifth, sixth = gate.propose(), gate.propose(), gate.propose()
    for run in (waits, fifth, sixth):
        gate.admit(run)
    gate.plan(waits)
    drifted, gone = (gate.propose("plan-only", origin="drift") for _ in range(2))
    hand = gate.state_of(gate.object("state", gate.state("mark-3"), "estate", forged=True))
    gate.admit(drifted)
    gate.plan(drifted, state=hand)
    gate.notices(drifted, left, hand)
    found = gate.all_of(drifted, "plan-projected")[0]["projection"]
    gate.drifts(drifted, found)
    gate.admit(gone)
    gate.plan(gone, state=hand)
    gate.drifts(gone, None, found)
    gate.note(SECOND, "bob", corrects=2)
    gate.note(waits, "alice")
    return gate


FIRST, SECOND, THIRD, LOOK, WAITS, FIFTH, SIXTH, DRIFTED, GONE = (f"run-{number}" for number in range(1, 10))


def test_a_healthy_gate_is_well():
    assert judge(healthy().done()) == []


LIES = []


def lie(*laws):
    """A lie, and the laws that it breaks; further ones may be broken by it too."""
    def remember(tell):
        LIES.append(pytest.param(tell, laws, id=tell.__name__.replace("_", " ").strip()))
        return tell
    return remember


@pytest.mark.parametrize(("tell", "laws"), LIES)
def test_a_lie_is_found(tell, laws):
    gate = healthy()
    tell(gate)
    found = {violation.law for violation in judge(gate.done())}
    assert set(laws) <= found, found


def test_every_law_has_a_lie_that_breaks_it():
    assert {law.__name__ for law in LAWS} == {law for param in LIES for law in param.values[1]}


@lie("only_what_others_have_written_is_told_as_changed_outside")
def _an_engines_own_state_is_told_as_changed_outside(gate):
    left = gate.record(FIRST)["apply"]["state_after"]
    look = gate.propose("plan-only")
    gate.admit(look)
    gate.plan(look, state=left)
    gate.notices(look, gate.stores.body("WS#ws-1", "KNOWN")["seen"]["state"], left)


@lie("only_what_others_have_written_is_told_as_changed_outside")
def _a_change_outside_is_told_again(gate):
    known = gate.stores.body("WS#ws-1", "KNOWN")["seen"]["state"]
    gate.notices(DRIFTED, known, known)


@lie("what_is_known_of_a_state_is_what_was_recorded_last")
def _an_older_state_takes_the_place_of_what_is_known(gate):
    gate.know(FIRST, gate.record(FIRST)["apply"]["state_after"])


@lie("what_is_known_of_a_state_is_what_was_recorded_last")
def _nobody_has_looked_and_a_state_is_settled(gate):
    gate.applied(WAITS, "failed", "apply-outcome-unknown", told=False)
    gate.know(WAITS, gate.stores.body("WS#ws-1", "KNOWN")["seen"]["state"])


@lie("drift_is_looked_for_by_plans_alone_and_told_once")
def _a_finding_is_told_twice(gate):
    found = gate.all_of(DRIFTED, "plan-projected")[0]["projection"]
    gate.drifts(DRIFTED, found)
    gate.drifts(DRIFTED, found, found)


@lie("drift_is_looked_for_by_plans_alone_and_told_once")
def _a_drift_run_may_be_applied(gate):
    gate.admit(gate.propose("applicable", origin="drift"))


# -- lies ----------------------------------------------------------------------------------------------------------


@lie("notes_are_of_people_who_may_and_correct_what_is_there")
def a_note_is_by_somebody_who_may_not(gate):
    gate.note(FIRST, "mallory")


@lie("notes_are_of_people_who_may_and_correct_what_is_there")
def a_note_is_by_the_gate(gate):
    gate.event(f"run/{FIRST}", {"type": "run-annotated", "note": "a word"})


@lie("notes_are_of_people_who_may_and_correct_what_is_there")
def a_note_corrects_what_is_not_there(gate):
    gate.note(FIRST, "bob", corrects=99)


@lie("notes_are_of_people_who_may_and_correct_what_is_there")
def there_are_too_many_notes(gate):
    for _ in range(51):
        gate.note(WAITS, "bob")


def rewrite(gate, chain, place, change, linked=True):
    """Changes an event, and if `linked` everything behind it, so that the chain is whole again."""
    items = gate.stores.audit[chain]
    for index in range(place - 1, len(items) if linked else place):
        event = json.loads(items[index]["event"])
        if index == place - 1:
            change(event)
        else:
            event["previous"] = items[index - 1]["digest"]
        text = canonical(event)
        items[index] = {**items[index], "event": text, "digest": digest(text.encode())}
    if linked:
        head = json.dumps({"seq": len(items), "digest": items[-1]["digest"]})
        gate.stores.items[f"CHAIN#{chain}", "HEAD"]["body"] = head


def place_of(gate, chain, what):
    """The place of the first event of a type."""
    return next(place for place, item in enumerate(gate.stores.audit[chain], 1) if json.loads(item["event"])["what"]["type"] == what)


def edit(gate, run, **fields):
    """Changes a record as somebody else than the gate does."""
    gate.stores.items[f"RUN#{run}", "RUN"] = {**gate.stores.items[f"RUN#{run}", "RUN"], "body": json.dumps({**gate.record(run), **fields})}


@lie("chains_are_whole")
def an_event_was_changed(gate):
    rewrite(gate, f"run/{FIRST}", 2, lambda event: event["what"].update(fence=9), linked=False)


@lie("chains_are_whole")
def an_event_was_changed_and_its_digest_left(gate):
    item = gate.stores.audit[f"run/{FIRST}"][-1]
    gate.stores.audit[f"run/{FIRST}"][-1] = {**item, "event": item["event"].replace("applied", "failed")}


@lie("chains_are_whole")
def the_last_event_is_missing(gate):
    gate.stores.audit[f"run/{WAITS}"].pop()


@lie("chains_are_whole")
def an_event_is_missing(gate):
    del gate.stores.audit[f"run/{FIRST}"][1]


@lie("chains_are_whole")
def a_head_names_another_end(gate):
    gate.stores.items[f"CHAIN#run/{FIRST}", "HEAD"]["body"] = json.dumps({"seq": 1, "digest": "sha256:0"})


@lie("chains_are_whole")
def an_event_is_not_canonical(gate):
    item = gate.stores.audit[f"run/{WAITS}"][-1]
    text = json.dumps(json.loads(item["event"]))
    gate.stores.audit[f"run/{WAITS}"][-1] = {**item, "event": text, "digest": digest(text.encode())}


@lie("events_are_never_changed")
def an_event_was_written_over(gate):
    item = gate.stores.audit[f"run/{FIRST}"][0]
    gate.stores.audit_changes.append(Change(gate.now, f"run/{FIRST}", "1", item, item))


@lie("the_ledger_anchors_each_run")
def a_chain_was_made_anew_after_it_was_anchored(gate):
    rewrite(gate, f"run/{FIRST}", 2, lambda event: event["actor"].update(function="other"))


@lie("the_ledger_anchors_each_run")
def a_run_is_closed_twice(gate):
    what = json.loads(gate.stores.audit[f"ws/{gate.workspace}"][place_of(gate, f"ws/{gate.workspace}", "run-closed") - 1]["event"])["what"]
    gate.event(f"ws/{gate.workspace}", what)


@lie("the_ledger_anchors_each_run")
def a_ledger_names_a_run_that_is_not_there(gate):
    gate.event(f"ws/{gate.workspace}", {"type": "run-opened", "run": "run-lost"})


@lie("a_run_ends_once")
def a_run_ended_twice(gate):
    gate.event(f"run/{SECOND}", {"type": "run-ended", "status": "failed"})


@lie("a_run_ends_once", "a_run_takes_only_the_steps_of_its_life")
def a_run_went_on_after_its_end(gate):
    gate.step(SECOND, "planning", ({"type": "run-admitted", "fence": 2}, None))


@lie("a_run_ends_once")
def a_record_says_another_end(gate):
    edit(gate, SECOND, status="canceled")


@lie("a_run_takes_only_the_steps_of_its_life")
def a_run_was_approved_in_line(gate):
    gate.step(FIFTH, "approved")


@lie("a_run_takes_only_the_steps_of_its_life")
def a_run_that_only_looks_was_approved(gate):
    run = gate.propose("plan-only")
    gate.admit(run)
    gate.step(run, "evaluating")
    gate.step(run, "awaiting_approval")


@lie("a_run_takes_only_the_steps_of_its_life")
def a_record_was_removed(gate):
    gate.remove(f"RUN#{SECOND}", "RUN")


@lie("one_applicable_run_at_a_time")
def two_hold_at_once(gate):
    gate.step(FIFTH, "planning", ({"type": "run-admitted", "fence": 5}, None), fence=5)


@lie("one_applicable_run_at_a_time")
def two_held_at_once_for_a_moment(gate):
    gate.step(FIFTH, "planning", fence=5)
    gate.step(FIFTH, "failed")


@lie("one_applicable_run_at_a_time")
def a_fence_was_given_twice(gate):
    rewrite(gate, f"run/{WAITS}", place_of(gate, f"run/{WAITS}", "run-admitted"), lambda event: event["what"].update(fence=3))


@lie("one_applicable_run_at_a_time")
def the_chains_tell_of_two_at_once(gate):
    rewrite(gate, f"run/{SECOND}", place_of(gate, f"run/{SECOND}", "run-admitted"), lambda event: event.update(at=moment(BEGIN - 300)))


@lie("the_line_is_first_in_first_out")
def the_second_in_line_was_first(gate):
    gate.end(WAITS, "canceled")
    gate2 = gate.stores.body(f"WS#{gate.workspace}", "LOCK")
    assert gate2["lock"]["run"] == FIFTH
    seventh = gate.propose()
    gate.admit(seventh)
    place = json.loads(gate.stores.items[f"RUN#{seventh}", "RUN"]["body"])["queued_as"]
    gate.remove(f"WS#{gate.workspace}", f"Q#{place:020d}")
    gate.step(seventh, "planning", ({"type": "run-admitted", "fence": gate2["fence"] + 1}, None), fence=gate2["fence"] + 1)


@lie("the_line_is_first_in_first_out")
def one_was_admitted_past_the_line(gate):
    run = gate.propose()
    gate.step(run, "planning", ({"type": "run-admitted", "fence": 5}, None), fence=5)


@lie("the_line_is_first_in_first_out")
def one_in_line_was_lost(gate):
    place, = [sk for pk, sk in gate.stores.items if sk.startswith("Q#") and gate.stores.body(pk, sk) == SIXTH]
    gate.stores.items.pop((f"WS#{gate.workspace}", place))


@lie("the_line_is_first_in_first_out")
def a_place_was_given_twice(gate):
    rewrite(gate, f"run/{SIXTH}", place_of(gate, f"run/{SIXTH}", "run-queued"), lambda event: event["what"].update(place=3))


@lie("who_is_open_waits_for_a_person")
def a_run_stays_where_nobody_is_asked(gate):
    run = gate.propose("plan-only")
    gate.admit(run)


@lie("who_is_open_waits_for_a_person")
def a_run_waits_and_its_execution_is_dead(gate):
    gate.stores.executions[WAITS] = [("applicable", "ABORTED")]


@lie("who_is_open_waits_for_a_person")
def a_run_waits_without_a_token(gate):
    gate.stores.items[f"RUN#{WAITS}", "RUN"].pop("token")


@lie("who_is_open_waits_for_a_person")
def a_run_has_ended_and_its_execution_runs(gate):
    gate.stores.executions[FIRST] = [("applicable", "RUNNING")]


@lie("who_is_open_waits_for_a_person")
def a_run_waits_for_a_decision_that_cannot_be_given_any_more(gate):
    gate.now += 5000


@lie("who_is_open_waits_for_a_person")
def a_run_that_only_looks_has_an_execution_that_may_apply(gate):
    gate.stores.executions[LOOK] = [("applicable", "SUCCEEDED")]


@lie("the_lock_is_free_held_or_closed")
def the_lock_is_free_and_one_holds(gate):
    gate.lock(lock={"state": "free"})


@lie("the_lock_is_free_held_or_closed")
def the_lock_is_held_by_one_that_has_ended(gate):
    gate.lock(lock={"state": "held", "run": FIRST})


@lie("the_lock_is_free_held_or_closed")
def the_lock_was_closed_without_a_word(gate):
    gate.lock(lock={"state": "quarantined", "run": THIRD})


@lie("the_lock_is_free_held_or_closed")
def the_lock_was_not_closed_though_nobody_knows(gate):
    gate.decide(WAITS)
    gate.order(WAITS)
    gate.apply(WAITS, told=False)
    why = {"failure": {"reason": "apply-outcome-unknown", "detail": ""}}
    head = gate.step(WAITS, "failed", ({"type": "run-ended", "status": "failed", **why}, None), **why)
    gate.event(f"ws/{gate.workspace}", {"type": "run-closed", "run": WAITS, "status": "failed", "chain": head})
    gate.pass_on()


@lie("an_unknown_outcome_is_owned_and_only_that")
def an_outcome_that_nobody_knows_passes_for_an_error(gate):
    gate.applied(WAITS, "failed", "apply-errored", told=False)


@lie("an_unknown_outcome_is_owned_and_only_that")
def an_outcome_that_was_told_passes_for_unknown(gate):
    gate.applied(WAITS, "failed", "apply-outcome-unknown")


@lie("nothing_is_ordered_claimed_or_told_without_an_approval")
def an_order_without_an_approval(gate):
    gate.order(WAITS)


@lie("nothing_is_ordered_claimed_or_told_without_an_approval")
def a_claim_without_an_approval(gate):
    gate.claim(WAITS)


@lie("nothing_is_ordered_claimed_or_told_without_an_approval")
def a_result_of_a_rejected_run(gate):
    gate.object(f"results/{gate.workspace}/{SECOND}.json", b'{"applied":{"exit_code":0}}')


@lie("nothing_is_ordered_claimed_or_told_without_an_approval")
def an_order_of_no_run(gate):
    gate.object(f"orders/{gate.workspace}/run-lost/apply.json", b"{}")


@lie("nothing_is_ordered_claimed_or_told_without_an_approval")
def an_order_other_than_was_recorded(gate):
    key = f"orders/{gate.workspace}/{FIRST}/apply.json"
    gate.stores.exchange[key] = [Version(key, "v", b"{}")]


LAW = "an_approval_is_by_somebody_else_who_may_on_what_was_shown_in_time"


@lie(LAW)
def the_proposer_approved(gate):
    gate.decide(WAITS, by="alice")


@lie(LAW)
def one_without_the_right_approved(gate):
    gate.decide(WAITS, by="mallory")


@lie(LAW)
def one_whose_right_was_taken_approved(gate):
    gate._document("grant", "g-bob", {"person": "bob", "workspaces": [gate.workspace], "actions": ["propose"]}, "gate")
    gate.decide(WAITS)


@lie(LAW)
def one_approved_in_the_name_of_another(gate):
    gate.decide(WAITS, by="bob")
    actor = {"kind": "person", "person": "bob", "arn": gate.arn("mallory")}

    def change(event):
        event["actor"] = event["what"]["decision"]["by"] = actor
    rewrite(gate, f"run/{WAITS}", place_of(gate, f"run/{WAITS}", "decided"), change)
    gate.put(f"DEC#{WAITS}", "DEC", {**gate.stores.body(f"DEC#{WAITS}", "DEC"), "by": actor})


@lie(LAW)
def an_approval_of_something_else(gate):
    gate.decide(WAITS, projection="sha256:0")


@lie(LAW)
def an_approval_of_bytes_that_were_never_there(gate):
    gate.decide(WAITS)
    key = f"projections/{gate.workspace}/{WAITS}.json"
    gate.stores.exchange[key] = [dataclasses.replace(version, content=b"{}") for version in gate.stores.exchange[key]]


@lie(LAW)
def an_approval_of_a_dead_plan(gate):
    gate.now += 3601
    gate.decide(WAITS)


@lie(LAW)
def a_decision_that_was_never_taken(gate):
    gate.decide(WAITS)
    gate.stores.items.pop((f"DEC#{WAITS}", "DEC"))


@lie(LAW)
def two_decisions(gate):
    gate.decide(WAITS)
    gate.decide(WAITS)


@lie("an_apply_is_ordered_only_while_its_plan_lives")
def an_order_of_a_dead_plan(gate):
    gate.decide(WAITS)
    gate.now += 3601
    gate.order(WAITS)


@lie("an_apply_is_ordered_only_while_its_plan_lives")
def a_claim_on_a_dead_plan(gate):
    gate.decide(WAITS)
    gate.order(WAITS)
    gate.now += 3700
    gate.apply(WAITS)


@lie("an_apply_is_ordered_only_while_its_plan_lives")
def an_order_of_another_artifact(gate):
    rewrite(gate, f"run/{FIRST}", place_of(gate, f"run/{FIRST}", "apply-ordered"), lambda event: event["what"].update(artifact="other"))


@lie("an_apply_is_ordered_only_while_its_plan_lives")
def two_orders(gate):
    gate.decide(WAITS)
    gate.order(WAITS)
    gate.order(WAITS)


@lie("an_engine_applies_at_most_once")
def an_engine_applied_twice(gate):
    gate.stores.engines.append(Trace(FIRST, gate.now))


@lie("an_engine_applies_at_most_once")
def something_was_made_twice(gate):
    gate.stores.made.append(Trace(FIRST, gate.now, "mark-1"))


@lie("an_engine_applies_at_most_once")
def a_rejected_run_was_applied(gate):
    gate.stores.engines.append(Trace(SECOND, gate.now))


@lie("an_engine_applies_at_most_once")
def a_run_was_applied_that_says_that_it_was_not_started(gate):
    gate.applied(WAITS, "failed", "apply-not-started")


@lie("an_engine_applies_at_most_once")
def a_run_was_applied_before_it_was_approved(gate):
    gate.stores.engines[0] = Trace(FIRST, BEGIN)


@lie("an_engine_applies_at_most_once")
def a_run_says_that_it_was_applied_and_was_not(gate):
    gate.stores.engines = [trace for trace in gate.stores.engines if trace.run != FIRST]
    gate.stores.made = [trace for trace in gate.stores.made if trace.run != FIRST]


@lie("an_engine_applies_at_most_once")
def a_run_was_applied_on_the_gates_own_claim(gate):
    key = f"claims/{gate.workspace}/{FIRST}"
    gate.stores.exchange[key] = [dataclasses.replace(version, content=b'{"holder":"gate"}') for version in gate.stores.exchange[key]]


@lie("no_lock_is_freed_while_an_engine_works")
def an_engine_worked_on_after_the_end(gate):
    gate.stores.made = [dataclasses.replace(trace, at=gate.now + 9) if trace.run == FIRST else trace for trace in gate.stores.made]


@lie("what_was_applied_is_what_was_approved")
def another_state_was_left_than_was_proposed(gate):
    keys = gate.stores.estates["estate"]
    keys["state"] = [dataclasses.replace(version, content=gate.state("mark-3")) for version in keys["state"]]


@lie("what_was_applied_is_what_was_approved")
def something_else_was_made_than_was_proposed(gate):
    gate.stores.made = [dataclasses.replace(trace, marker="mark-3") for trace in gate.stores.made]


@lie("what_was_applied_is_what_was_approved")
def something_else_was_shown_than_was_proposed(gate):
    run = gate.propose()
    gate.end(WAITS, "canceled")
    gate.end(FIFTH, "canceled")
    gate.end(SIXTH, "canceled")
    gate.admit(run)
    gate.object(f"bundles/{gate.workspace}/{run.removeprefix('run-')}.tar.zst", b"")
    gate.stores.exchange[f"bundles/{gate.workspace}/{run.removeprefix('run-')}.tar.zst"] = gate.stores.exchange[f"bundles/{gate.workspace}/1.tar.zst"]
    gate.plan(run)
    gate.applied(run)


@lie("what_was_applied_is_what_was_approved")
def a_state_of_what_nobody_approved(gate):
    gate.object("state", gate.state("mark-2"), "estate")


@lie("what_is_written_once_stays")
def an_order_was_written_again(gate):
    gate.object(f"orders/{gate.workspace}/{FIRST}/apply.json", b"{}")


@lie("what_is_written_once_stays")
def an_artifact_was_written_again(gate):
    gate.object(f"artifacts/{FIRST}/plan.tfplan", b"a", "estate")
    gate.object(f"artifacts/{FIRST}/plan.tfplan", b"b", "estate")


# -- what is no violation ------------------------------------------------------------------------------------------


def test_what_an_attacker_wrote_is_no_doing_of_the_gate():
    gate = healthy()
    gate.object(f"orders/{gate.workspace}/{WAITS}/apply.json", b"{}", forged=True)
    gate.object(f"results/{gate.workspace}/{FIRST}.json", b"{}", forged=True)
    assert judge(gate.done()) == []


def test_a_decision_that_came_too_late_may_follow_the_end():
    gate = healthy()
    gate.event(f"run/{FIRST}", {"type": "decision-without-effect", "decision": {}, "reason": "run-ended"})
    assert judge(gate.done()) == []


def test_a_kind_that_somebody_changed_in_the_record_is_judged_by_the_chain():
    gate = healthy()
    edit(gate, WAITS, kind="plan-only")
    assert judge(gate.done()) == []


def test_an_execution_that_was_not_woken_when_its_run_was_rejected_may_sleep_on():
    gate = healthy()
    gate.stores.executions[SECOND] = [("applicable", "RUNNING")]
    assert judge(gate.done()) == []


def test_one_may_leave_the_line_from_its_middle():
    gate = healthy()
    gate.end(FIFTH, "canceled")
    gate.end(WAITS, "canceled")
    assert gate.record(SIXTH)["status"] == "planning"
    gate.plan(SIXTH)
    assert judge(gate.done()) == []
