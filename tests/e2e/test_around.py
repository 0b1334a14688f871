"""Around the gate: a state that somebody else has changed, resources that have drifted, and locks that are closed. Each is told once, with what to do."""

import json

import pytest
from mischief import Post, hold_in_configuration, kill_runner

from gate import wait_until
from local.slack import CHANNEL

OUTSIDE, DRIFTED, OTHER, GONE = (
    "State changed outside of the gate", "Drift: the estate is not as it was applied", "Drift: something else has drifted than before",
    "Drift is gone: the estate is as it was applied")


@pytest.fixture
def shop(workspace):
    """A workspace that is shown in the channel and looked at every day."""
    return workspace(spec={"slack": {"channel": CHANNEL}, "drift_hours": 24})


def strikes(world):
    """The drift schedule strikes; gives what it did."""
    answer = world.stack.client("lambda").invoke(FunctionName=world.outputs["DriftFunctionArn"], Payload=b"{}")
    said = json.loads(answer["Payload"].read())
    assert "FunctionError" not in answer and said["failed"] == 0, said
    return said


def looks(shop):
    """The schedule strikes a day later: gives the run that comes of it, which nobody proposed, at its end."""
    world, key = shop.world, (f"DRIFT#{shop.id}", "LOOK")
    if world.item(*key):
        world.edit(*key, lambda look: look.update(at="2026-01-01T00:00:00Z"))
    before = world.item(*key)
    strikes(world)
    identity = world.item(*key)[0]["run"]
    assert before is None or identity != before[0]["run"]
    run = shop.run(identity)
    assert run.end() in ("planned", "no_changes"), run.story()
    return run


def by_hand(shop, change=lambda state: None):
    """Somebody writes the state around the gate, with the next serial as an engine would; gives the new identity."""
    content, _ = shop.state()
    state = json.loads(content)
    state["serial"] += 1
    change(state)
    version = shop.put_state(json.dumps(state).encode())
    return state["serial"], version


def forgets(address):
    """A change of the state by which a resource is no longer in it."""
    def change(state):
        state["resources"] = [each for each in state["resources"] if f"{each['type']}.{each['name']}" != address]
    return change


def identity(sighting):
    """Serial and version of a sighting."""
    return sighting["state"]["serial"], sighting["state"]["version_id"]


def told(shop, *kinds):
    """What the ledger tells of these types."""
    return [event["what"] for event in shop.ledger() if event["what"]["type"] in kinds]


def headlines(shop):
    """The headlines of all messages about a workspace that tell what somebody has noticed, in their order."""
    mine = [message for message in shop.world.slack.messages if shop.id in message.text]
    return [message.headline for message in mine if message.headline in (OUTSIDE, DRIFTED, OTHER, GONE)]


def shown(shop, by="bob"):
    """The workspace as `plangate workspace get` gives it."""
    return shop.world.person(by).cli("workspace", "get", shop.id).json["document"]


def test_a_state_changed_by_hand_is_noticed_and_told_once_with_what_to_ask_cloudtrail(world, shop):
    applied = shop.applied()
    content, version = shop.state()
    known = shown(shop)["known"]
    assert (identity(known["seen"]), known["seen"]["run"], known["seen"]["phase"]) == ((json.loads(content)["serial"], version), applied.id, "apply")
    assert "outside" not in known
    quiet = shop.propose("--plan-only")
    assert (quiet.end(), quiet.record["compared"]) == ("no_changes", {"word": "as-known"})

    after = by_hand(shop)
    noticed = shop.propose("--plan-only")
    assert noticed.end() == "no_changes", "no resource has drifted"
    assert shop.propose("--plan-only").end() == "no_changes"
    event, = told(shop, "changed-outside-gate")
    assert (event["run"], identity(event["before"]), identity(event["after"])) == (noticed.id, (json.loads(content)["serial"], version), after)
    assert event["before"]["state"]["lineage"] == event["after"]["state"]["lineage"]
    assert event["before"]["state"]["digest"] != event["after"]["state"]["digest"]
    outside = shown(shop)["known"]["outside"]
    assert {name: outside[name] for name in ("before", "after")} == {name: event[name] for name in ("before", "after")}
    assert event["before"]["run"] == quiet.id, "the last that saw it as it was"
    events, query = (step["command"] for step in outside["who"])
    role = f"role/plangate/break-glass/{shop.id}-break-glass"
    assert events.startswith("aws cloudtrail lookup-events") and "AttributeValue=AssumeRole" in events and role in events
    assert f"--end-time {event['after']['to']}" in events
    assert role in query and f"'{shop.bucket}'" in query and f"'{shop.state_key}'" in query
    assert f"BETWEEN '{event['before']['from']}' AND '{event['after']['to']}'" in query
    told_to_people = world.person("bob").cli("show", noticed.id).json["run"]["compared"]
    assert told_to_people["word"] == "changed-outside"
    wait_until(lambda: headlines(shop) == [OUTSIDE], "one message")
    # The next apply goes by what stands there now, and is the gate's own.
    shop.edit("Summer sale", "Winter sale")
    last = shop.applied().settled()
    assert shop.propose("--plan-only").end() == "no_changes"
    assert told(shop, "changed-outside-gate") == [event]
    assert identity(shown(shop)["known"]["seen"]) == (last.record["apply"]["state_after"]["serial"], shop.state()[1])


def test_drift_is_looked_for_by_the_schedule_and_told_once_until_it_is_another_or_gone(world, shop):
    assert shop.drift_runs() == []
    strikes(world)
    assert shop.drift_runs() == [], "nothing was applied yet"
    applied = shop.applied()
    first = looks(shop)
    record = first.record
    assert (record["kind"], record["origin"], record["derived_from"], first.status) == ("plan-only", "drift", applied.id, "no_changes")
    assert record["proposer"] == {"person": "plangate", "arn": "gate:drift"} and record["bundle"] == applied.record["bundle"]
    strikes(world)
    assert [run.id for run in shop.drift_runs()] == [first.id], "a day has not gone by"

    by_hand(shop, forgets("terraform_data.database"))
    found = looks(shop)
    assert (found.status, found.record["drift"]) == ("planned", {"word": "found"})
    again = looks(shop)
    assert (again.digest, again.record["drift"]) == (found.digest, {"word": "standing", "first": found.id})
    event, = told(shop, "drift-found")
    assert (event["run"], event["projection"]) == (found.id, found.digest)
    drift = shown(shop)["drift"]
    assert (drift["hours"], drift["run"], drift["status"], drift["finding"]["run"]) == (24, again.id, "planned", found.id)
    assert drift["due"] > drift["looked_at"]
    # The state that was moved is another matter than what has drifted by it.
    assert [each["run"] for each in told(shop, "changed-outside-gate")] == [found.id]

    by_hand(shop, lambda state: state.update(resources=[]))
    other = looks(shop)
    assert (other.record["drift"], other.digest != found.digest) == ({"word": "found", "previous": found.digest}, True)
    shop.applied().settled()
    gone = looks(shop)
    assert (gone.status, gone.record["drift"]) == ("no_changes", {"word": "gone", "previous": other.digest})
    assert looks(shop).record["drift"] == {"word": "nothing"}
    assert [(each["type"], each["run"]) for each in told(shop, "drift-found", "drift-gone")] == [
        ("drift-found", found.id), ("drift-found", other.id), ("drift-gone", gone.id)]
    assert "finding" not in shown(shop)["drift"]
    wait_until(lambda: headlines(shop) == [OUTSIDE, DRIFTED, OUTSIDE, OTHER, GONE], f"each message once: {headlines(shop)}")
    for run in (first, found, again, other, gone):
        run.one_terminal_status()
    status, reason = world.person("alice").refused("POST", "/v1/runs", {
        "request_id": "drift-by-hand", "workspace": shop.id, "kind": "plan-only", "bundle": record["bundle"]["digest"], "origin": "drift"})
    assert (status, reason) == (400, "invalid-request")


def test_a_closed_lock_says_why_what_is_known_and_what_to_do_in_which_order(world, workspace):
    shop, post = workspace(spec={"drift_hours": 1}), Post(world, "first")
    shop.applied()
    shop.configure("""resource "terraform_data" "first" {\n  %s\n}\n""" % hold_in_configuration(post), "held.tf")
    run = shop.waiting()
    run.approve()
    post.reached()
    kill_runner(run)
    world.stack.client("s3").delete_object(Bucket=shop.bucket, Key=f"{shop.state_key}.tflock")
    run.ended_well("failed", "apply-outcome-unknown", quarantined=True)
    post.open()
    lock = shown(shop)["lock"]
    assert (lock["state"], lock["run"], lock["reason"], lock["since"]) == ("quarantined", run.id, "apply-outcome-unknown", run.record["ended_at"])
    assert lock["detail"] == run.record["failure"]["detail"]
    known = {each["what"]: each["value"] for each in lock["evidence"]}
    claim = known["claim, which says who was to apply"]
    assert json.loads(world.object(claim.removeprefix(f"s3://{world.outputs['ExchangeBucket']}/")))["holder"] == "runner"
    assert f"version {run.record['plan']['state']['version_id']}" in known["state that was planned against"]
    assert shown(shop)["known"]["unsettled"] == run.id
    commands = [step["command"] for step in lock["steps"]]
    assert commands == [
        f"plangate show {run.id}", f"plangate log {run.id} apply", f"plangate propose FOLDER --workspace {shop.id} --plan-only --watch",
        f"plangate workspace acknowledge {shop.id} --run RUN --note TEXT"]
    # They are the very commands that do it, one after the other.
    assert run.log("apply")
    by_hand(shop)  # what stands there now may be the engine's or anybody's
    look = shop.propose("--plan-only")
    assert look.end() == "planned" and look.record["compared"]["word"] == "unsettled"
    world.admin.cli(*commands[3].replace("RUN", look.id).replace("TEXT", "looked").split()[1:])
    lock, known = shown(shop)["lock"], shown(shop)["known"]
    assert (lock["state"], "reason" in lock, "steps" in lock) == ("free", False, False)
    assert ("unsettled" in known, known["seen"]["run"]) == (False, look.id)
    assert told(shop, "changed-outside-gate") == [], "nobody knows whose it was, and somebody has looked"
    acknowledged, = told(shop, "lock-acknowledged")
    assert acknowledged["state"] == look.record["plan"]["state"]
    # A lock that somebody has frozen tells by whom, why, since when, and how that is lifted.
    world.admin.cli("freeze", shop.id, "--reason", "an incident")
    frozen, = shown(shop)["lock"]["frozen"]
    assert (frozen["by"], frozen["reason"], frozen["lift"]) == ("administrator", "an incident", f"plangate unfreeze {shop.id} --reason TEXT")
    assert strikes(world)["waiting"] >= 1 and shop.drift_runs() == []
    world.admin.cli(*frozen["lift"].replace("TEXT", "over").split()[1:])
    assert "frozen" not in shown(shop)["lock"]
    strikes(world)
    shop.drift_runs()[0].end()
