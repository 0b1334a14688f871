"""Workspaces and runs as tests use them: what people do with them, what is recorded of them, and mischief behind the gate's back."""

import contextlib
import json
import pathlib
import shutil
import time

from patience import PATIENCE, wait_until

from local.stack import REGION, ROOT

TERMINAL = {"no_changes", "planned", "applied", "rejected", "expired", "failed", "canceled"}
ACTIONS = ("read", "read-logs", "propose", "approve")


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
        self.model_key = None  # the parameter with the key of its reviewer's model, if it has one
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

    def run(self, identity):
        """A run of this workspace, by its id."""
        return Run(self, identity)

    def drift_runs(self):
        """The runs that the drift schedule has proposed, oldest first."""
        opened = [event["what"]["run"] for event in self.ledger() if event["what"]["type"] == "run-opened"]
        return [run for run in map(self.run, opened) if run.record["origin"] == "drift"]

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
        if place in (f"ssm://{self.parameter}", f"ssm://{self.model_key}"):
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

    def tasks(self, phase=None, desired="RUNNING"):
        """The ARNs of its tasks that have not stopped, by what they were told; with `desired` "STOPPED" those that have."""
        ecs, cluster = self.world.stack.client("ecs"), self.world.outputs["Cluster"]
        pages = ecs.get_paginator("list_tasks").paginate(cluster=cluster, desiredStatus=desired)
        phases = (phase,) if phase else ("plan", "apply")
        found = []
        for task in (task for page in pages if page["taskArns"] for task in ecs.describe_tasks(cluster=cluster, tasks=page["taskArns"])["tasks"]):
            told = {each["name"]: each["value"] for container in task["overrides"]["containerOverrides"] for each in container.get("environment", [])}
            if told.get("PLANGATE_RUN") == self.id and told.get("PLANGATE_PHASE") in phases:
                found.append(task["taskArn"])
        return found

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
        assert {event["what"]["type"] for event in events[ends[0]["seq"]:]} <= {"decision-without-effect", "notification-failed", "run-annotated"}, self.happened()
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
        for task in self.tasks(desired="STOPPED"):
            with contextlib.suppress(Exception):
                name = f"runner/runner/{task.rsplit('/', 1)[-1]}"
                found = logs.get_log_events(logGroupName=self.world.outputs["LogGroup"], logStreamName=name, startFromHead=True)["events"]
                lines += [event["message"].strip()[:400] for event in found[-20:]]
        return "\n".join(lines)
