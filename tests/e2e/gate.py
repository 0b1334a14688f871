"""A deployed gate from outside, for end-to-end tests: its people, its configuration, what it stores, and the search for secrets.

What is stored is read as the stack's root, which stands for whoever runs the account: for looking, and for the mischief that a test
is about.
"""

import contextlib
import hashlib
import json
import os
import secrets

import published
from patience import PATIENCE, wait_until
from people import Answer, Person
from published import Stored
from runs import TERMINAL, Run, Workspace

from local import deploy, slack
from local.search import Search
from local.stack import ACCOUNT, Stack

__all__ = ["PATIENCE", "TERMINAL", "Answer", "Person", "Run", "Workspace", "World", "gate_of_its_own", "wait_until"]


@contextlib.contextmanager
def gate_of_its_own(name, chat=None):
    """A stack with a gate that one module of tests has for itself, with `chat` as its Slack or without one; gives the World."""
    with Stack.start(f"{name}-{os.environ.get('PYTEST_XDIST_WORKER', 'main')}-{os.getpid()}") as stack:
        yield World(stack, deploy.deploy_gate(stack, slack=chat), chat)


class World:
    """One gate on a stack of its own, with its people; all tests of a process share it, each in workspaces of its own."""

    def __init__(self, stack, gate, chat=None):
        self.stack, self.gate, self.outputs, self.slack = stack, gate, gate.outputs, chat
        self.search, self._heard, self._planted, self._people = Search(stack), [], {}, {}
        self.stored = Stored(self.outputs)
        if chat:
            chat.answered = lambda answer: published.answered("POST", "/slack/interactions", answer.status, answer.kind, answer.body)
        self.admin = Person(self, "administrator")
        self.document("policy", "default", {"schema": "plangate.policy.v1"})
        for name in ("alice", "bob", "carol", "mallory"):
            self.person(name)

    # -- people and documents -------------------------------------------------------------------------------------

    def person(self, name):
        """A person whom the gate's configuration knows, without any grant yet."""
        if name not in self._people:
            self._people[name] = Person(self, name)
            users = {"slack": [{"team": slack.TEAM, "user": self.slack.user(name)}]} if self.slack else {}
            self.document("principal", name, {"person": name, "iam": [{"account": ACCOUNT, "role": name}], **users})
        return self._people[name]

    def stranger(self, name):
        """Somebody with a role that may call the API, of whom the gate's configuration knows nothing."""
        return Person(self, name)

    def document(self, kind, identity, spec, etag=None, expect=200, **more):
        """Writes a document as the administrator; gives the answer."""
        body = {"etag": etag, "request_id": secrets.token_hex(8), "namespace": "tests", "owner": "administrator", "spec": spec, **more}
        plural = {"policy": "policies"}.get(kind, f"{kind}s")
        return self.admin.ask("PUT", f"/v1/{plural}/{identity}", body, expect)

    def grant(self, person, workspaces, actions):
        """Grants a person these actions on these workspaces."""
        self.document("grant", f"g-{secrets.token_hex(8)}", {"person": person, "workspaces": workspaces, "actions": list(actions)})

    def workspace(self, folder, **options):
        """A new workspace: see Workspace."""
        return Workspace(self, folder, **options)

    # -- the runner's image ---------------------------------------------------------------------------------------

    @contextlib.contextmanager
    def runner(self, engines=None, provider_mirror=None, limits=None):
        """Within this block new tasks run an image with another configuration."""
        try:
            deploy.build_image(self.stack, self.outputs, engines or [self.gate.engine], "dev", provider_mirror, limits)
            yield
        finally:
            deploy.build_image(self.stack, self.outputs, [self.gate.engine], "dev")

    # -- what is stored -------------------------------------------------------------------------------------------

    def item(self, pk, sk):
        """An item of the gate's table, as (body, attributes); None if there is none."""
        found = self.stack.client("dynamodb").get_item(
            TableName=self.outputs["Table"], Key={"pk": {"S": pk}, "sk": {"S": sk}}, ConsistentRead=True).get("Item")
        if found is None:
            return None
        plain = {name: value.get("S", value.get("N")) for name, value in found.items()}
        return json.loads(plain["body"]), plain

    def edit(self, pk, sk, change):
        """Mischief: changes an item's body behind the gate's back, the version left as it is."""
        body, plain = self.item(pk, sk)
        change(body)
        self.stored.forged(f"dynamodb://{self.outputs['Table']}/{pk}/{sk}")
        published.forged(pk.partition("#")[2])
        self.stack.client("dynamodb").update_item(
            TableName=self.outputs["Table"], Key={"pk": {"S": pk}, "sk": {"S": sk}}, UpdateExpression="SET body = :body",
            ConditionExpression="version = :version", ExpressionAttributeValues={
                ":body": {"S": json.dumps(body, separators=(",", ":"))}, ":version": {"N": plain["version"]}})

    def partition(self, table, pk, prefix=""):
        """All items of a partition, in order, as dictionaries of text."""
        condition, values = "pk = :pk", {":pk": {"S": pk}}
        if prefix:
            condition, values = f"{condition} and begins_with(sk, :sk)", {**values, ":sk": {"S": prefix}}
        items = self.stack.client("dynamodb").get_paginator("query").paginate(
            TableName=self.outputs[table], ConsistentRead=True, KeyConditionExpression=condition, ExpressionAttributeValues=values)
        return [{name: value.get("S", value.get("N")) for name, value in item.items()} for page in items for item in page["Items"]]

    def chain(self, name):
        """The events of an audit chain, each link verified here, independently of the product's own code."""
        # Head and events are two tables: they are of one moment if the head has not moved while the events were read.
        head, items = self.item(f"CHAIN#{name}", "HEAD"), self.partition("AuditTable", name)
        while (now := self.item(f"CHAIN#{name}", "HEAD")) != head:
            head, items = now, self.partition("AuditTable", name)
        events, previous = [], None
        for place, item in enumerate(items, 1):
            digest = "sha256:" + hashlib.sha256(item["event"].encode()).hexdigest()
            event = json.loads(item["event"])
            assert digest == item["digest"], f"{name} {place}: recorded as {item['digest']}, is {digest}"
            assert (int(item["sk"]), event["seq"], event["chain"]) == (place, place, name), (name, place, item["sk"], event["seq"], event["chain"])
            assert event["previous"] == previous, f"{name} {place}: follows {event['previous']}, not {previous}"
            assert json.dumps(event, sort_keys=True, separators=(",", ":"), ensure_ascii=False) == item["event"], f"{name} {place}: not canonical"
            events.append({**event, "digest": digest})
            previous = digest
        assert (head[0] if head else None) == ({"seq": len(events), "digest": previous} if events else None), name
        return events

    def object(self, key, bucket=None, version=None):
        """The bytes of an object of the exchange bucket, or of another; None if there is none."""
        where = {"Bucket": bucket or self.outputs["ExchangeBucket"], "Key": key, **({"VersionId": version} if version else {})}
        s3 = self.stack.client("s3")
        try:
            return s3.get_object(**where)["Body"].read()
        except s3.exceptions.NoSuchKey:
            return None

    def keys(self, prefix, bucket=None):
        """The keys of the exchange bucket, or of another, that begin with `prefix`."""
        pages = self.stack.client("s3").get_paginator("list_objects_v2").paginate(Bucket=bucket or self.outputs["ExchangeBucket"], Prefix=prefix)
        return [found["Key"] for page in pages for found in page.get("Contents", [])]

    def sweep(self):
        """Calls the sweeper as its schedule does; gives what it did."""
        answer = self.stack.client("lambda").invoke(FunctionName=self.outputs["SweepFunctionArn"], Payload=b"{}")
        said = json.loads(answer["Payload"].read())
        assert "FunctionError" not in answer, said
        return said

    # -- secrets --------------------------------------------------------------------------------------------------

    def heard(self, place, text):
        """Notes what a person was told."""
        self._heard.append((place, text.encode()))

    def plant(self, workspace):
        """A secret that belongs to a workspace; whatever form it leaks in, one of its halves shows."""
        halves = [secrets.token_hex(8), secrets.token_hex(8)]
        for half in halves:
            self._planted[half] = workspace
        return f'{halves[0]}"\\ü {halves[1]}'

    def model_key(self, workspace):
        """A key of a model, stored where the workspace's reviewer reads it; searched for like any secret. Gives it."""
        key = f"sk-{secrets.token_hex(16)}"
        workspace.model_key = self.gate.secret(workspace.outputs, "key", key, "ReviewerKeyPrefix")
        self._planted[key] = workspace
        return key

    def open_runs(self):
        """The ids of the runs that have not ended, with their statuses."""
        pages = self.stack.client("dynamodb").get_paginator("query").paginate(
            TableName=self.outputs["Table"], IndexName="open", KeyConditionExpression="open_pk = :pk", ExpressionAttributeValues={":pk": {"S": "OPEN"}})
        return {item["pk"]["S"].removeprefix("RUN#"): item["status"]["S"] for page in pages for item in page["Items"]}

    def quiet(self):
        """Waits until every run has ended or waits for somebody, no task runs, and none has left anything: its folder goes with it."""
        ecs, work = self.stack.client("ecs"), self.stack.directory / "work"
        moving = {"proposed", "planning", "evaluating", "reviewing", "applying"}
        wait_until(lambda: not moving & set(self.open_runs().values()), "all runs to come to rest", 60)
        wait_until(lambda: not ecs.list_tasks(cluster=self.outputs["Cluster"])["taskArns"], "all tasks to end", 60)
        wait_until(lambda: not list(work.iterdir()), "nothing to be left of the tasks", 20)

    def scan_for_secrets(self):
        """Finds every planted secret in all stores, logs and answers; an assertion if one is where it may not be.

        On the way everything that the gate has stored since the last time is held against its schema.
        """
        planted, said = self._planted, self._heard
        self._planted, self._heard = {}, []
        if not planted:
            return
        chat = [secret for secret in (self.slack.token, self.slack.secret, self.slack.previous) if secret] if self.slack else []
        found = self.search.places([*planted, *chat], said, self.stored.look)
        self.stored.judge()
        for secret in chat:
            astray = sorted(place for place in found[secret] if not place.startswith("ssm:///slack/"))
            assert not astray, f"a secret of Slack's is in {astray}"
        for secret, workspace in planted.items():
            astray = sorted(place for place in found[secret] if not workspace.may_hold_secrets(place))
            assert not astray, f"a secret of {workspace.id} is in {astray}"
