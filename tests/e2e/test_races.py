"""Many at once: never two holders of a workspace's lock, nobody lost from its line, one decision."""

import json
import random
import time

from mischief import archive, digest_of, propose, together, upload

from gate import TERMINAL, Run, wait_until

HOLDS = {"planning", "evaluating", "reviewing", "awaiting_approval", "approved", "applying"}
CONFIGURATION = """
terraform {
  required_version = ">= 1.9"
}
variable "database_password" {
  type      = string
  sensitive = true
}
resource "terraform_data" "one" {
  input = var.database_password
}
"""


LOST = (502, 503, 504)  # or its answer is lost


def patiently(ask, again=(503,)):
    """Asks, and the same again where the answer is that others change the same thing; gives (status, answer)."""
    end = time.monotonic() + 240
    while (answer := ask())[0] in again:
        assert time.monotonic() < end, answer
    return answer


def look(shop, runs):
    """One consistent look at the lock and at all runs: (lock, {run: status})."""
    table = shop.world.outputs["Table"]
    keys = [(f"WS#{shop.id}", "LOCK"), *((f"RUN#{run.id}", "RUN") for run in runs)]
    found = shop.world.stack.client("dynamodb").transact_get_items(TransactItems=[
        {"Get": {"TableName": table, "Key": {"pk": {"S": pk}, "sk": {"S": sk}}}} for pk, sk in keys])["Responses"]
    lock, *records = [json.loads(each["Item"]["body"]["S"]) for each in found]
    return lock, {record["id"]: record["status"] for record in records}


def test_twenty_proposals_at_once_never_share_the_lock_and_none_is_lost(world, workspace):
    shop = workspace()
    content = archive({"main.tf": CONFIGURATION})
    assert upload(shop, content) == 200
    runs = together(20, lambda number: propose(shop, digest_of(content), "applicable"))
    assert len({run.id for run in runs}) == 20
    by_id = {run.id: run for run in runs}
    granted, decided = {}, []

    def all_ended():
        lock, statuses = look(shop, runs)
        holders = [run for run, status in statuses.items() if status in HOLDS]
        if lock["lock"]["state"] == "held":
            assert holders == [lock["lock"]["run"]], (lock, statuses)
            assert granted.setdefault(lock["fence"], holders[0]) == holders[0], "one fence, two holders"
        else:
            assert (lock["lock"], holders) == ({"state": "free"}, []), (lock, statuses)
        waiting = [run for run in holders if statuses[run] == "awaiting_approval" and run not in decided]
        for run in waiting:
            decided.append(run)
            # Two are rejected and the third is approved; those after it plan afresh and find nothing to do.
            by_id[run].decision("reject" if len(decided) <= 2 else "approve")
        return all(status in TERMINAL for status in statuses.values())

    wait_until(all_ended, "all twenty to end", seconds=240, pause=0.02)
    ends = sorted(run.end() for run in runs)
    assert ends == ["applied", *["no_changes"] * 17, *["rejected"] * 2]
    shop.no_lock_left()
    # The trail agrees with what was seen: each was admitted once, with a fence of its own, in the order of the line.
    admitted, places = {}, {}
    for run in runs:
        run.one_terminal_status()
        fences = [event["what"]["fence"] for event in run.events() if event["what"]["type"] == "run-admitted"]
        assert len(fences) == 1 and fences[0] == run.record["fence"]
        admitted[fences[0]] = run.id
        places.update({event["what"]["place"]: run.id for event in run.events() if event["what"]["type"] == "run-queued"})
    assert sorted(admitted) == list(range(1, 21)) and shop.lock()["fence"] == 20
    assert granted.items() <= admitted.items()
    in_line = [places[place] for place in sorted(places)]
    assert [run for _, run in sorted(admitted.items()) if run in in_line] == in_line


def test_of_a_hundred_proposals_nobody_is_lost_from_the_line(world, workspace):
    """The functions and the table as they are, with a hundred runs of one workspace, twelve of them proposed at any moment: more are a
    race for the emulator's one process (`races.rs` has two hundred, all at once). Most leave the line again, in any order and while
    others are granted the lock, for each plan takes its time; what stays is served, first come first."""
    shop, alice = workspace(), world.person("alice")
    content = archive({"main.tf": CONFIGURATION})
    assert upload(shop, content) == 200

    def ask(number):
        body = {"request_id": f"crowd-of-many-{number}", "workspace": shop.id, "kind": "applicable", "bundle": digest_of(content)}
        status, answer = patiently(lambda: alice.call("POST", "/v1/runs", body), LOST)
        assert status == 201, answer
        return Run(shop, answer["run"]["id"])

    asked = together(12, lambda part: [ask(number) for number in range(100)[part::12]])
    by_id = {run.id: run for runs in asked for run in runs}
    assert len(by_id) == 100
    wait_until(lambda: len(shop.line()) == 99, "one to hold the lock and all others to stand in line", 60, pause=0.5)
    line = shop.line()
    holder, = set(by_id) - set(line)
    staying = line[20::30]
    leaving = [run for run in line if run not in staying]
    random.Random(99).shuffle(leaving)
    by_id[holder].wait("awaiting_approval")

    def reject(run):
        body = {"decision": "reject", "projection": by_id[run].digest, "reason": "no"}
        return patiently(lambda: world.person("bob").call("POST", f"/v1/runs/{run}/decision", body), LOST)[0]

    def act(number):
        if number == 0:
            return [reject(holder)]
        return [patiently(lambda run=run: alice.call("POST", f"/v1/runs/{run}/cancel", {}), LOST)[0] for run in leaving[number - 1::8]]

    assert {status for statuses in together(9, act) for status in statuses} == {200}
    for run in staying:
        by_id[run].wait("awaiting_approval")
        assert reject(run) == 200
    # Those who were withdrawn while they were being planned end once their task has stopped.
    wait_until(lambda: not set(by_id) & set(world.open_runs()), "all hundred to have ended", 60, pause=0.5)
    shop.no_lock_left()
    records = {run: by_id[run].record for run in by_id}
    ends = {run: record["status"] for run, record in records.items()}
    assert ends == {holder: "rejected", **dict.fromkeys(leaving, "canceled"), **dict.fromkeys(staying, "rejected")}
    # The ledger tells each end once. Whoever was granted the lock was so in the order of the line, and ended before the next.
    ledger = [event["what"] for event in shop.ledger()]
    assert sorted(what["run"] for what in ledger if what["type"] == "run-opened") == sorted(by_id)
    closed = [what["run"] for what in ledger if what["type"] == "run-closed"]
    assert sorted(closed) == sorted(by_id)
    granted = [run for run in closed if records[run]["fence"] > 0]
    assert [records[run]["fence"] for run in granted] == list(range(1, len(granted) + 1)) and shop.lock()["fence"] == len(granted)
    assert granted == [holder, *(run for run in line if run in granted)]


def test_of_fifty_decisions_at_once_one_has_effect_and_the_others_are_recorded(world, workspace):
    people = [f"decider-{number}" for number in range(50)]
    for name in people:
        world.person(name)
    shop = workspace(grants={"alice": ("read", "propose"), **dict.fromkeys(people, ("read", "approve"))})
    run = shop.waiting()

    def decide(number):
        choice = ("approve", "reject")[number % 2]
        status, answer = patiently(lambda: run.decision(choice, people[number]), LOST)
        return status, choice, people[number], answer

    answers = together(50, decide)
    effective = [answer for answer in answers if answer[0] == 200]
    assert len(effective) == 1, answers
    _, choice, by, _ = effective[0]
    refused = [answer for answer in answers if answer[0] != 200]
    assert {(status, answer["error"]["reason"], answer["error"]["details"]["by"]) for status, _, _, answer in refused} == {(409, "already-decided", by)}
    run.ended_well("applied" if choice == "approve" else "rejected")
    assert (run.record["decision"]["choice"], run.record["decision"]["by"]["person"]) == (choice, by)
    events = run.events()
    assert [event["actor"]["person"] for event in events if event["what"]["type"] == "decided"] == [by]
    late = {(event["actor"]["person"], event["what"]["decision"]["choice"], event["what"]["reason"]) for event in events
            if event["what"]["type"] == "decision-without-effect"}
    assert late == {(person, choice, "already-decided") for _, choice, person, _ in refused}


def test_the_same_proposal_sent_ten_times_at_once_is_one_run(world, workspace):
    shop = workspace()
    content = archive({"main.tf": CONFIGURATION})
    assert upload(shop, content) == 200
    body = {"request_id": "one-and-the-same", "workspace": shop.id, "kind": "plan-only", "bundle": digest_of(content)}

    def ask(number):
        status, answer = patiently(lambda: world.person("alice").call("POST", "/v1/runs", body))
        return status, answer["run"]["id"]

    assert len(set(together(10, ask))) == 1
    assert len(world.person("alice").ask("GET", f"/v1/runs?workspace={shop.id}")["runs"]) == 1


def test_an_approval_and_a_withdrawal_at_once_end_in_one_of_both(workspace):
    shop = workspace()
    run = shop.waiting()
    acts = [lambda: run.decision(), lambda: run.world.person("alice").call("POST", f"/v1/runs/{run.id}/cancel", {})]
    statuses = [status for status, _ in together(2, lambda number: acts[number]())]
    end = run.end()
    assert end in ("applied", "canceled") and 200 in statuses
    run.ended_well(end)
