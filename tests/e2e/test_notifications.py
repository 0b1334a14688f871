"""What other systems are told of runs on the event bus: each change of a status, in the documented form, and nothing else."""

import json
import re
import secrets

import published
import pytest
from patience import wait_until

from local.stack import ACCOUNT, REGION, ROOT

DOCUMENT = (ROOT / "docs/notifications.md").read_text()
EXAMPLE, *PATTERNS = (json.loads(block) for block in re.findall(r"^```json\n(.+?)^```", DOCUMENT, re.S | re.M))
ASKED = ["proposed", "planning", "evaluating", "awaiting_approval"]


class Subscription:
    """A rule on the gate's bus with a queue behind it, and what has come there."""

    def __init__(self, world, pattern):
        self.world, self.name, self.got = world, f"told-{secrets.token_hex(4)}", []
        self.sqs, self.events = world.stack.client("sqs"), world.stack.client("events")
        self.queue = self.sqs.create_queue(QueueName=self.name)["QueueUrl"]
        rule = self.events.put_rule(Name=self.name, EventPattern=json.dumps(pattern))["RuleArn"]
        allow = {"Effect": "Allow", "Principal": {"Service": "events.amazonaws.com"}, "Action": "sqs:SendMessage", "Resource": self.arn,
                 "Condition": {"ArnEquals": {"aws:SourceArn": rule}}}
        self.sqs.set_queue_attributes(QueueUrl=self.queue, Attributes={"Policy": json.dumps({"Version": "2012-10-17", "Statement": [allow]})})
        self.events.put_targets(Rule=self.name, Targets=[{"Id": "queue", "Arn": self.arn}])

    @property
    def arn(self):
        return f"arn:aws:sqs:{REGION}:{ACCOUNT}:{self.name}"

    def all(self):
        """Everything that has come so far, in the order in which it came."""
        while messages := self.sqs.receive_message(QueueUrl=self.queue, MaxNumberOfMessages=10).get("Messages"):
            for message in messages:
                self.world.heard("an event on the bus", message["Body"])
                self.got.append(json.loads(message["Body"]))
                published.hold("run-status.v1.json", self.got[-1]["detail"], "an event on the bus")
                self.sqs.delete_message(QueueUrl=self.queue, ReceiptHandle=message["ReceiptHandle"])
        return self.got

    def of(self, run):
        """What has come of a run."""
        return [event for event in self.all() if event["detail"]["run"] == run.id]

    def until(self, run, status):
        """Waits until a run's coming to a status is told; gives what has come of the run."""
        return wait_until(lambda: any(each["detail"]["after"] == status for each in self.of(run)) and self.of(run), f"{run.id} {status} on the bus")

    def close(self):
        self.events.remove_targets(Rule=self.name, Ids=["queue"])
        self.events.delete_rule(Name=self.name)
        self.sqs.delete_queue(QueueUrl=self.queue)


@pytest.fixture
def subscribe(world):
    """Makes subscriptions: `subscribe(pattern)`."""
    made = []

    def make(pattern):
        made.append(Subscription(world, pattern))
        return made[-1]

    yield make
    for each in made:
        each.close()


def test_who_subscribes_is_told_of_each_change_in_the_documented_form_and_of_nothing_else(world, workspace, subscribe):
    shop, other = workspace(), workspace()
    applied, failed, deletes = PATTERNS
    assert failed["detail"] == {"workspace": [EXAMPLE["workspace"]]}
    failed["detail"]["workspace"] = [shop.id]
    everything, applied, failed, deletes = (subscribe(each) for each in ({"source": ["plangate"]}, applied, failed, deletes))

    run = shop.applied().ended_well("applied")
    assert run.decision("reject", by="alice")[0] == 409  # too late: an event of the chain, and no change of the status
    look = shop.propose("--plan-only").ended_well("no_changes")
    broken = []
    for each in (shop, other):
        each.configure('output "x" {\n  value = nothing.there\n}\n')
        broken.append(each.propose().ended_well("failed", "plan-errored"))
    # What has come of one that ended later tells that nothing is still to come of those before it.
    for each, status in ((run, "applied"), (look, "no_changes"), *((each, "failed") for each in broken)):
        everything.until(each, status)

    record, told = run.record, everything.of(run)
    assert [each["detail"]["after"] for each in told] == [*ASKED, "approved", "applying", "applied"]
    assert [each["detail"]["before"] for each in told] == [None, *(each["detail"]["after"] for each in told[:-1])]
    assert [each["detail"]["after"] for each in everything.of(look)] == ["proposed", "planning", "evaluating", "no_changes"]
    assert [each["detail"]["after"] for each in everything.of(broken[0])] == ["proposed", "planning", "failed"]
    types = [each["detail-type"] for each in told]
    assert types[3:] == ["Run awaiting approval", "Run approved", "Run applying", "Run applied"]
    assert all(f"`{each}`" in DOCUMENT for each in types)
    events = {event["seq"]: event for event in run.events()}
    for each in told:
        detail = each["detail"]
        event = events[detail["event"]["seq"]]
        assert (each["source"], detail["id"]) == ("plangate", f"{run.id}:{event['seq']}")
        assert (detail["event"]["digest"], detail["at"]) == (event["digest"], event["at"])
        assert (detail["workspace"], detail["kind"], detail["origin"]) == (shop.id, "applicable", "person")
        assert set(detail) <= set(EXAMPLE), "documented, each field"
        assert ("projection" in detail) == ("counts" in detail) == (detail["after"] not in ("proposed", "planning", "evaluating"))
    assert told[-1]["detail"]["projection"] == record["projection"]["object"]["digest"]
    assert told[-1]["detail"]["counts"] == record["projection"]["counts"]
    # Nothing that a plan says, and nobody's name.
    said = json.dumps(told)
    assert not [word for word in ("terraform_data", "alice", "bob", shop.name, "Summer sale") if word in said]

    end = everything.of(broken[0])[-1]["detail"]
    assert end["failure"] == broken[0].failure and set(end) == set(EXAMPLE) - {"projection", "counts"}
    assert [each["detail"]["run"] for each in applied.all() if each["detail"]["workspace"] in (shop.id, other.id)] == [run.id]
    assert [each["detail"]["run"] for each in failed.all()] == [broken[0].id]
    assert deletes.of(run) == []


def test_what_the_bus_may_not_have_heard_is_told_again_under_the_same_id_and_nothing_is_missing(world, workspace, subscribe, faults):
    shop, everything = workspace(), subscribe({"source": ["plangate"]})
    # The SDK tries three times: then nobody knows whether the bus has heard it.
    lost = faults.arm("plangate-announce events.PutEvents*", "lose-answer", workspace=shop.id, times=3)
    dead = faults.arm("plangate-announce events.PutEvents*", "die-before", workspace=shop.id, nth=1)
    run = shop.waiting()
    faults.struck(lost, 3)
    faults.struck(dead)
    run.cancel()
    run.ended_well("canceled")
    everything.until(run, "canceled")
    ids = [each["detail"]["id"] for each in everything.of(run)]
    assert len(ids) > len(set(ids)), "told again"
    by_place = {each["detail"]["event"]["seq"]: each["detail"]["after"] for each in everything.of(run)}
    assert [status for _, status in sorted(by_place.items())] == [*ASKED, "canceled"]
    bodies = {each["detail"]["id"]: set() for each in everything.of(run)}
    for each in everything.of(run):
        bodies[each["detail"]["id"]].add(json.dumps(each["detail"], sort_keys=True))
    assert all(len(said) == 1 for said in bodies.values()), "in the same words"
