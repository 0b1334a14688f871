"""A deployed gate from outside, for end-to-end tests: people with roles of their own, workspaces, runs, and what is stored of them.

People act through the command line tool or through signed requests to the API. What is stored is read as the stack's root,
which stands for whoever runs the account: for looking, and for the mischief that a test is about.
"""

import contextlib
import dataclasses
import hashlib
import http.client
import json
import pathlib
import secrets
import shutil
import subprocess
import time
import urllib.parse

import botocore.auth
import botocore.awsrequest

from local import deploy
from local.search import Search
from local.stack import ACCOUNT, REGION, ROOT, StackError, wait_for

TERMINAL = {"no_changes", "planned", "applied", "rejected", "expired", "failed", "canceled"}
PATIENCE = 120
ACTIONS = ("read", "read-logs", "propose", "approve")


def wait_until(condition, what, seconds=PATIENCE, pause=0.1):
    """Asks until `condition` gives something true, and gives that; fails after `seconds`."""
    try:
        return wait_for(condition, seconds, what, pause)
    except StackError as error:
        raise AssertionError(str(error)) from None


@dataclasses.dataclass
class Answer:
    """What a command answered."""

    code: int
    out: str
    err: str

    @property
    def json(self):
        """Standard output, as JSON."""
        return json.loads(self.out)

    @property
    def reason(self):
        """The stable reason of a refusal."""
        return self.json["error"]["reason"]


class Person:
    """Somebody with an IAM role of their own, which may call the API and nothing else."""

    def __init__(self, world, name, session_name=None):
        self.world, self.name = world, name
        self.session = world.gate.person(name, session_name) if name != "administrator" else world.gate.admin()
        self.arn = f"arn:aws:iam::{ACCOUNT}:role/{name}"
        self._environment = {"PATH": "/usr/bin:/bin", "HOME": "/nonexistent", **world.gate.environment(self.session)}

    def cli(self, *arguments, expect=0, stdin=None, seconds=PATIENCE):
        """Runs `plangate --json`; an assertion unless it ends with the exit code `expect` (None: any)."""
        command = [str(deploy.binary("plangate", "dev")), "--json", *map(str, arguments)]
        done = subprocess.run(
            command, env=self._environment, input=stdin, stdin=None if stdin is not None else subprocess.DEVNULL,
            capture_output=True, text=True, timeout=seconds)
        answer = Answer(done.returncode, done.stdout, done.stderr)
        self.world.heard(f"{self.name}$ plangate {' '.join(map(str, arguments))}", answer.out + answer.err)
        if expect is not None and answer.code != expect:
            raise AssertionError(f"`plangate {' '.join(map(str, arguments))}` as {self.name}: {answer}")
        return answer

    def call(self, method, path, body=None):
        """A signed request to the API; gives the status and the body as JSON. A body in bytes is sent as it is."""
        content = body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode()
        url = urllib.parse.urlsplit(self.world.gate.api)
        request = botocore.awsrequest.AWSRequest(method, f"{self.world.gate.api}{path}", data=content, headers={"content-type": "application/json"})
        botocore.auth.SigV4Auth(self.session.get_credentials(), "execute-api", REGION).add_auth(request)
        connection = http.client.HTTPConnection("127.0.0.1", url.port, timeout=60)
        try:
            connection.request(method, path, content, {**dict(request.headers), "Host": url.netloc})
            answer = connection.getresponse()
            status, text = answer.status, answer.read()
        finally:
            connection.close()
        self.world.heard(f"{self.name}: {method} {path}", text.decode())
        try:
            return status, json.loads(text)
        except ValueError:
            return status, text

    def ask(self, method, path, body=None, expect=200):
        """As `call`; an assertion unless the answer has this status. Gives the body."""
        status, answer = self.call(method, path, body)
        assert status == expect, f"{method} {path} as {self.name}: {status} {answer}"
        return answer

    def refused(self, method, path, body=None):
        """As `call`, of what must be refused; gives the status and the reason."""
        status, answer = self.call(method, path, body)
        assert status >= 400, f"{method} {path} as {self.name}: {status} {answer}"
        assert answer["error"]["message"], answer
        return status, answer["error"]["reason"]


class World:
    """One gate on a stack of its own, with its people; all tests of a process share it, each in workspaces of its own."""

    def __init__(self, stack, gate):
        self.stack, self.gate, self.outputs = stack, gate, gate.outputs
        self.search, self._heard, self._planted, self._people = Search(stack), [], {}, {}
        self.admin = Person(self, "administrator")
        self.document("policy", "default", {"schema": "plangate.policy.v1"})
        for name in ("alice", "bob", "carol", "mallory"):
            self.person(name)

    # -- people and documents -------------------------------------------------------------------------------------

    def person(self, name):
        """A person whom the gate's configuration knows, without any grant yet."""
        if name not in self._people:
            self._people[name] = Person(self, name)
            self.document("principal", name, {"person": name, "iam": [{"account": ACCOUNT, "role": name}]})
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
        events, previous = [], None
        for place, item in enumerate(self.partition("AuditTable", name), 1):
            digest = "sha256:" + hashlib.sha256(item["event"].encode()).hexdigest()
            event = json.loads(item["event"])
            assert digest == item["digest"], f"{name} {place}: recorded as {item['digest']}, is {digest}"
            assert (int(item["sk"]), event["seq"], event["chain"]) == (place, place, name), (name, place, item["sk"], event["seq"], event["chain"])
            assert event["previous"] == previous, f"{name} {place}: follows {event['previous']}, not {previous}"
            assert json.dumps(event, sort_keys=True, separators=(",", ":"), ensure_ascii=False) == item["event"], f"{name} {place}: not canonical"
            events.append({**event, "digest": digest})
            previous = digest
        head = self.item(f"CHAIN#{name}", "HEAD")
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
        """Finds every planted secret in all stores, logs and answers; an assertion if one is where it may not be."""
        planted, said = self._planted, self._heard
        self._planted, self._heard = {}, []
        if not planted:
            return
        found = self.search.places(list(planted), said)
        for secret, workspace in planted.items():
            astray = sorted(place for place in found[secret] if not workspace.may_hold_secrets(place))
            assert not astray, f"a secret of {workspace.id} is in {astray}"


class Workspace:
    """A workspace of its own: its stack, its documents, its folder with a configuration, its secret.

    alice may read and propose, bob and alice may approve too (so that only the rule on persons keeps her from it); mallory may
    do nothing here. `spec` overrides fields of the document; `grants` is {person: actions}.
    """

    def __init__(self, world, folder, policy="default", spec=None, grants=None, template=None):
        self.world, self.folder = world, pathlib.Path(folder)
        self.id = json.loads(world.admin.cli("workspace", "new-id").out)["id"]
        self.name = f"shop-{self.id[3:]}"
        self.outputs = world.gate.workspace(self.id, **(template or {}))
        self.bucket, self.state_key = self.outputs["StateBucket"], self.outputs["StateKey"]
        self.secret = world.plant(self)
        self.parameter = world.gate.secret(self.outputs, "database_password", self.secret)
        engine = world.gate.engine
        self.spec = {
            "name": self.name, "engine": {"name": engine.name, "version": engine.version},
            "state": {"bucket": self.bucket, "key": self.state_key, "region": REGION},
            "plan_role": self.outputs["PlanRoleArn"], "apply_role": self.outputs["ApplyRoleArn"],
            "sealed_bucket": self.bucket, "sealed_key": self.outputs["SealedKeyArn"],
            "secrets": [{"variable": "database_password", "parameter": self.parameter}], "policy": policy, **(spec or {})}
        self.etag = world.document("workspace", self.id, self.spec)["document"]["etag"]
        for person, actions in (grants or {"alice": ACTIONS, "bob": ACTIONS}).items():
            world.grant(person, [self.id], actions)
        if not (self.folder / "main.tf").exists():
            shutil.copytree(ROOT / "local/sample", self.folder, dirs_exist_ok=True)

    def change(self, **fields):
        """Writes the document anew with other fields."""
        self.spec.update(fields)
        self.etag = self.world.document("workspace", self.id, self.spec, self.etag)["document"]["etag"]

    def renew_secret(self):
        """Puts another secret in its place; gives it."""
        self.secret = self.world.plant(self)
        self.world.gate.secret(self.outputs, "database_password", self.secret)
        return self.secret

    def configure(self, text, name="main.tf"):
        """Writes a file of the configuration."""
        (self.folder / name).write_text(text)

    def edit(self, old, new, name="main.tf"):
        """Changes a file of the configuration."""
        text = (self.folder / name).read_text()
        assert old in text, f"{old} is not in {name}"
        self.configure(text.replace(old, new), name)

    def propose(self, *arguments, by="alice", expect=0):
        """Proposes the folder; gives the Run, or if it is to fail the answer."""
        answer = self.world.person(by).cli("propose", self.folder, "--workspace", self.id, *arguments, expect=expect)
        return Run(self, answer.json["run"]["id"]) if expect == 0 else answer

    def waiting(self, **options):
        """Proposes, and waits until the run waits for approval."""
        return self.propose(**options).wait("awaiting_approval")

    def applied(self, **options):
        """Proposes, approves as bob and waits until the run is applied."""
        run = self.waiting(**options)
        run.approve()
        return run.wait("applied")

    def lock(self):
        """The lock: its state as a dictionary, fence and tail besides; a fresh one if there was never a run."""
        found = self.world.item(f"WS#{self.id}", "LOCK")
        return found[0] if found else {"lock": {"state": "free"}, "fence": 0, "tail": 0}

    def line(self):
        """The runs that wait in line, in order."""
        return [json.loads(item["body"]) for item in self.world.partition("Table", f"WS#{self.id}", "Q#")]

    def ledger(self):
        """The verified events of the workspace's ledger."""
        return self.world.chain(f"ws/{self.id}")

    def state(self):
        """The state as (bytes, version id); None if there is none."""
        s3 = self.world.stack.client("s3")
        try:
            found = s3.get_object(Bucket=self.bucket, Key=self.state_key)
        except s3.exceptions.NoSuchKey:
            return None
        return found["Body"].read(), found["VersionId"]

    def put_state(self, content):
        """Mischief: writes the state behind the gate's back; gives the new version's id."""
        return self.world.stack.client("s3").put_object(Bucket=self.bucket, Key=self.state_key, Body=content)["VersionId"]

    def may_hold_secrets(self, place):
        """Whether a secret of this workspace may be in a place: its parameter, state, artifact, unsaved state, plan document."""
        sealed = (f"s3://{self.bucket}/state/", f"s3://{self.bucket}/artifacts/", f"s3://{self.bucket}/sealed/")
        document = f"s3://{self.world.outputs['ExchangeBucket']}/documents/{self.id}/"
        if place == f"ssm://{self.parameter}":
            return True
        return place.startswith((*sealed, document)) and not place.endswith("(metadata)")

    def no_lock_left(self):
        """Asserts that nobody holds the lock, nobody waits in line, and the engine's lock object is gone."""
        assert self.lock()["lock"] == {"state": "free"}, self.lock()
        assert self.line() == []
        assert self.world.object(f"{self.state_key}.tflock", self.bucket) is None

    def quarantined_by(self, run):
        """Asserts that the lock was closed by this run, as is meant when nobody knows what was applied."""
        state = self.lock()["lock"]
        assert (state["state"], state["run"]) == ("quarantined", run.id), state


class Run:
    """A run, as it is recorded."""

    def __init__(self, workspace, identity):
        self.workspace, self.world, self.id = workspace, workspace.world, identity

    @property
    def record(self):
        """Its record, straight from the table."""
        return self.world.item(f"RUN#{self.id}", "RUN")[0]

    @property
    def status(self):
        """Where it stands."""
        return self.record["status"]

    @property
    def token(self):
        """The token with which its execution waits; None if it does not."""
        return self.world.item(f"RUN#{self.id}", "RUN")[1].get("token")

    @property
    def execution(self):
        """The ARN of its execution."""
        machine = "MachineApplicableArn" if self.record["kind"] == "applicable" else "MachinePlanOnlyArn"
        return f"{self.world.outputs[machine].replace(':stateMachine:', ':execution:')}:{self.id}"

    @property
    def failure(self):
        """The stable reason for which it failed; None if it did not."""
        return (self.record.get("failure") or {}).get("reason")

    @property
    def digest(self):
        """The digest of its projection."""
        return self.record["projection"]["object"]["digest"]

    def edit(self, change):
        """Mischief: changes its record behind the gate's back. The gate may write at the same moment: then again."""
        conflict = self.world.stack.client("dynamodb").exceptions.ConditionalCheckFailedException
        for _ in range(20):
            with contextlib.suppress(conflict):
                return self.world.edit(f"RUN#{self.id}", "RUN", change)
        raise AssertionError("the record changes all the time")

    def lose_token(self):
        """Mischief: the record forgets the token with which the execution waits, so that nobody can wake it; gives it."""
        token = self.token
        self._set_token("AQCEAAAAKgAAAAMAAAAA" + "0" * 60)
        return token

    def find_token(self, token):
        """Puts a lost token back."""
        self._set_token(token)

    def _set_token(self, token):
        self.world.stack.client("dynamodb").update_item(
            TableName=self.world.outputs["Table"], Key={"pk": {"S": f"RUN#{self.id}"}, "sk": {"S": "RUN"}}, UpdateExpression="SET #token = :token",
            ExpressionAttributeNames={"#token": "token"}, ExpressionAttributeValues={":token": {"S": token}})

    def wake(self, token):
        """Wakes the execution that waits with this token."""
        self.world.stack.client("stepfunctions").send_task_success(taskToken=token, output="{}")

    def wait(self, *statuses, seconds=PATIENCE):
        """Waits for one of these statuses; gives the run. Fails at once where it ends as something else."""
        def look():
            status = self.status
            if status in statuses:
                return self
            assert status not in TERMINAL, f"{self.id} is {status}, not {' or '.join(statuses)}\n{self.story()}"
            return None
        try:
            return wait_until(look, f"{self.id} {' or '.join(statuses)}", seconds)
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self.story()}") from None

    def end(self, seconds=PATIENCE):
        """Waits for its end, whatever that is, and until its execution has nothing more to do; gives the status."""
        self.wait(*TERMINAL, seconds=seconds)
        self.settled()
        return self.status

    def settled(self):
        """Waits until its execution has ended, if it had one, and no task of it runs."""
        states = self.world.stack.client("stepfunctions")
        def still():
            try:
                return states.describe_execution(executionArn=self.execution)["status"] != "RUNNING"
            except states.exceptions.ExecutionDoesNotExist:
                return True
        wait_until(still, f"the execution of {self.id} to end")
        wait_until(lambda: not self.tasks(), f"the tasks of {self.id} to end")
        return self

    def tasks(self, phase=None):
        """The ARNs of its tasks that have not stopped."""
        ecs, cluster = self.world.stack.client("ecs"), self.world.outputs["Cluster"]
        return [task for each in ([phase] if phase else ["plan", "apply"])
                for task in ecs.list_tasks(cluster=cluster, startedBy=f"{self.id}/{each}")["taskArns"]]

    def approve(self, by="bob", expect=0, projection=None):
        """Approves it on the digest of its projection."""
        return self.world.person(by).cli("approve", self.id, "--projection", projection or self.digest, expect=expect)

    def reject(self, by="bob", reason="not like this", expect=0):
        """Rejects it."""
        return self.world.person(by).cli("reject", self.id, "--reason", reason, expect=expect)

    def cancel(self, by="alice", expect=0):
        """Withdraws it."""
        return self.world.person(by).cli("cancel", self.id, "--reason", "no longer wanted", expect=expect)

    def decision(self, choice="approve", by="bob", **fields):
        """A decision as a plain request to the API; gives (status, answer)."""
        body = {"decision": choice, "projection": self.digest, **({"reason": "no"} if choice == "reject" else {}), **fields}
        return self.world.person(by).call("POST", f"/v1/runs/{self.id}/decision", body)

    def projection(self, by="bob"):
        """Its projection as the API gives it, read as JSON; the digest is held against the exact bytes by the command line tool."""
        return self.world.person(by).cli("show", self.id).json["projection"]["projection"]

    def log(self, phase, by="bob"):
        """The lines of a phase's log."""
        return self.world.person(by).cli("log", self.id, phase).json["lines"]

    def events(self):
        """The verified events of its chain."""
        return self.world.chain(f"run/{self.id}")

    def happened(self):
        """The types of its events, in order."""
        return [event["what"]["type"] for event in self.events()]

    def one_terminal_status(self):
        """Asserts that it ended exactly once, that nothing changed it afterwards, and that the ledger anchors its chain; gives the status."""
        events, record = self.events(), self.record
        ends = [event for event in events if event["what"]["type"] == "run-ended"]
        assert [end["what"]["status"] for end in ends] == [record["status"]], [event["what"] for event in ends]
        assert record["status"] in TERMINAL and record["ended_at"] == ends[0]["at"]
        assert {event["what"]["type"] for event in events[ends[0]["seq"]:]} <= {"decision-without-effect"}, self.happened()
        ledger = self.workspace.ledger()
        opened = [event for event in ledger if event["what"]["type"] == "run-opened" and event["what"]["run"] == self.id]
        closed = [event["what"] for event in ledger if event["what"]["type"] == "run-closed" and event["what"]["run"] == self.id]
        assert len(opened) == 1
        assert [(close["status"], close["chain"]) for close in closed] == [(record["status"], {"seq": ends[0]["seq"], "digest": ends[0]["digest"]})]
        return record["status"]

    def ended_well(self, status, failure=None, quarantined=False):
        """Waits for the end and asserts all that must hold after any: the status once, its reason, a whole trail, no lock left."""
        assert (self.end(), self.failure) == (status, failure), self.story()
        assert self.one_terminal_status() == status
        if quarantined:
            self.workspace.quarantined_by(self)
        else:
            self.workspace.no_lock_left()
        return self

    def story(self):
        """What is known of it, for a failed assertion: its record, its execution's errors, the last lines of what served it."""
        lines = [json.dumps(self.record)[:3000]]
        states, logs = self.world.stack.client("stepfunctions"), self.world.stack.client("logs")
        with contextlib.suppress(Exception):
            history = states.get_execution_history(executionArn=self.execution, maxResults=1000)["events"]
            told = [event for event in history if event["type"].endswith(("Failed", "TimedOut", "Aborted"))]
            lines += [json.dumps(event, default=str)[:1500] for event in told]
        with contextlib.suppress(Exception):
            found = logs.filter_log_events(logGroupName="/plangate/functions", startTime=int((time.time() - 60) * 1000))["events"]
            lines += [event["message"].strip()[:400] for event in found if self.id in event["message"] or '"ERROR"' in event["message"] or "WARN" in event["message"]][-20:]
        for task in self._stopped_tasks():
            with contextlib.suppress(Exception):
                name = f"runner/runner/{task.rsplit('/', 1)[-1]}"
                found = logs.get_log_events(logGroupName=self.world.outputs["LogGroup"], logStreamName=name, startFromHead=True)["events"]
                lines += [event["message"].strip()[:400] for event in found[-20:]]
        return "\n".join(lines)

    def _stopped_tasks(self):
        ecs, cluster = self.world.stack.client("ecs"), self.world.outputs["Cluster"]
        for phase in ("plan", "apply"):
            yield from ecs.list_tasks(cluster=cluster, startedBy=f"{self.id}/{phase}", desiredStatus="STOPPED")["taskArns"]
