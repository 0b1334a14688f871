"""The gate and two workspaces, deployed from these templates into the laptop stack, with functions and a runner that only tell what they got."""

import io
import json
import pathlib
import sys
import uuid
import zipfile

from local.stack import ACCOUNT, REGION, SECOND_ACCOUNT, wait_for

ROOT = pathlib.Path(__file__).resolve().parents[2]

CONTROL = ["api", "admit", "prepare", "intake", "project", "guard", "review", "request-approval", "authorize", "conclude", "sweep", "drift", "archive", "announce", "witness", "slack", "notify"]
# Where Slack's secrets are, by who may read them.
SLACK = {"/slack/signing-secret": {"slack"}, "/slack/previous-secret": {"slack"}, "/slack/bot-token": {"slack", "notify"}}
# The models that workspaces may name as reviewers.
MODELS = [f"arn:aws:bedrock:{REGION}::foundation-model/anthropic.model-1:0"]
OURS, THEIRS = "ws-0123456789abcdef", "ws-fedcba9876543210"

# A function that notes its event and answers as the run's script says: each call takes the next answer, the last one stays.
FUNCTION = '''\
#!{python}
import json, os, pathlib, urllib.request
API = "http://" + os.environ["AWS_LAMBDA_RUNTIME_API"] + "/2018-06-01/runtime/invocation/"
NAME, RUNS = os.environ["AWS_LAMBDA_FUNCTION_NAME"].removeprefix("plangate-"), pathlib.Path({runs!r})
while True:
    with urllib.request.urlopen(API + "next") as answer:
        request, event = answer.headers["Lambda-Runtime-Aws-Request-Id"], json.load(answer)
    if "run" not in event:  # a schedule's or a stream's
        urllib.request.urlopen(urllib.request.Request(API + request + "/response", b"{{}}", method="POST")).read()
        continue
    notes = RUNS / (event["run"] + ".calls")
    before = sum(json.loads(line)[0] == NAME for line in notes.read_text().splitlines()) if notes.exists() else 0
    with open(notes, "a") as log:
        print(json.dumps([NAME, event]), file=log)
    answers = json.loads((RUNS / (event["run"] + ".json")).read_text()).get(NAME, [{{}}])
    said = answers[min(before, len(answers) - 1)]
    kind = "error" if isinstance(said, str) else "response"
    result = {{"errorType": said, "errorMessage": "a cause that must not travel"}} if kind == "error" else said
    urllib.request.urlopen(urllib.request.Request(API + request + "/" + kind, json.dumps(result).encode(), method="POST")).read()
'''
# A runner that notes what it was told and whose credentials it was given, and ends as the run's script says.
RUNNER = '''\
#!{python}
import json, os, pathlib, sys
RUNS, run, phase = pathlib.Path({runs!r}), os.environ["PLANGATE_RUN"], os.environ["PLANGATE_PHASE"]
with open(RUNS / (run + ".calls"), "a") as log:
    print(json.dumps(["runner", {{"run": run, "phase": phase, "workspace": os.environ["PLANGATE_WORKSPACE"]}}]), file=log)
sys.exit(json.loads((RUNS / (run + ".json")).read_text()).get("exit", {{}}).get(phase, 0))
'''


class Gate:
    """What was deployed, and how to act as any of its roles."""

    def __init__(self, stack):
        self.stack, self.runs, self._sessions, self._clients = stack, stack.directory / "runs", {}, {}
        self.runs.mkdir()
        s3 = stack.client("s3")
        s3.create_bucket(Bucket="code", CreateBucketConfiguration={"LocationConstraint": REGION})
        archive = io.BytesIO()
        with zipfile.ZipFile(archive, "w") as package:
            entry = zipfile.ZipInfo("bootstrap")
            entry.external_attr = 0o755 << 16
            package.writestr(entry, FUNCTION.format(python=sys.executable, runs=str(self.runs)))
        for name in (*CONTROL, "review-workspace"):
            s3.put_object(Bucket="code", Key=f"release/{name}.zip", Body=archive.getvalue())
        s3.upload_file(str(ROOT / "statemachine/run.asl.json"), "code", "release/run.asl.json")
        image = stack.images / "plangate-runner"
        image.mkdir()
        (image / "runner").write_text(RUNNER.format(python=sys.executable, runs=str(self.runs)))
        (image / "runner").chmod(0o755)
        self.outputs = stack.deploy(ROOT / "infra/gate.yaml", "gate", {
            "CodeBucket": "code", "CodePrefix": "release", "Architecture": "x86_64", "RunnerImage": "plangate-runner:local",
            "AdministratorRoleArn": f"arn:aws:iam::{ACCOUNT}:role/administrator", "SlackSigningSecretParameter": "/slack/signing-secret",
            "SlackPreviousSecretParameter": "/slack/previous-secret", "SlackBotTokenParameter": "/slack/bot-token",
            "ReviewModelArns": ",".join(MODELS)})
        for name in [*SLACK, "/slack/other"]:
            stack.client("ssm").put_parameter(Name=name, Value="x", Type="SecureString", KeyId=self.outputs["GateKeyArn"])
        self.bucket = self.outputs["ExchangeBucket"]
        # Their estate's policy is far too wide, as such policies happen to be.
        wide = stack.client("iam").create_policy(PolicyName="wide", PolicyDocument=json.dumps({"Version": "2012-10-17", "Statement": [
            {"Effect": "Allow", "Action": ["s3:*", "kms:*"], "Resource": "*"}]}))
        self.wide = wide["Policy"]["Arn"]
        # Ours has its estate, and could have its state, in the second account.
        elsewhere = f"arn:aws:iam::{SECOND_ACCOUNT}:role/plangate/estate"
        self.ours = self._workspace(OURS, BreakGlassPrincipalArns=f"arn:aws:iam::{ACCOUNT}:root", ReviewerCodeBucket="code", ReviewerCodePrefix="release", ReviewerArchitecture="x86_64",
                                    EstatePlanRoleArn=f"{elsewhere}/plan/{OURS}-plan", EstateApplyRoleArn=f"{elsewhere}/apply/{OURS}-apply",
                                    EstateStateBucket=f"plangate-{OURS}-{SECOND_ACCOUNT}")
        self.theirs = self._workspace(THEIRS, PlanPolicyArns=self.wide, ApplyPolicyArns=self.wide,
                                      BreakGlassPrincipalArns=f"arn:aws:iam::{ACCOUNT}:root", BreakGlassPermissionSet="Emergency")

    def estate(self):
        """Ours in the second account, with its state; deployed on first use. Gives the outputs."""
        if not hasattr(self, "_estate"):
            self._estate = self.stack.deploy(ROOT / "infra/estate.yaml", "estate", {
                "WorkspaceId": OURS, "GateAccountId": ACCOUNT, "SealedKeyArn": self.ours["SealedKeyArn"]}, session=self.stack.second_account())
        return self._estate

    def _workspace(self, workspace, **parameters):
        return self.stack.deploy(ROOT / "infra/workspace.yaml", workspace, {
            "WorkspaceId": workspace, "ExchangeBucket": self.bucket, "DocumentKeyArn": self.outputs["DocumentKeyArn"], **parameters})

    def client(self, role, service):
        """As this role. Its trust, which names a service, is opened to the test's user too; its policies are not touched."""
        if role not in self._sessions:
            iam = self.stack.client("iam")
            found = iam.get_role(RoleName=role)["Role"]
            trust, principal = found["AssumeRolePolicyDocument"], {"AWS": f"arn:aws:iam::{ACCOUNT}:root"}
            opened = [trust["Statement"]] if isinstance(trust["Statement"], dict) else trust["Statement"]
            opened = [*opened, {"Effect": "Allow", "Principal": principal, "Action": "sts:AssumeRole"}]
            iam.update_assume_role_policy(RoleName=role, PolicyDocument=json.dumps({**trust, "Statement": opened}))
            self._sessions[role] = self.stack.session_for_role(found["Arn"], "test")
        if (role, service) not in self._clients:  # making one takes longer than most calls
            self._clients[role, service] = self._sessions[role].client(service)
        return self._clients[role, service]

    def person(self, name, path="/", **more):
        """The ARN of a role for people with that far too wide policy, which may assume any role that trusts it."""
        iam = self.stack.client("iam")
        trust = {"Effect": "Allow", "Principal": {"AWS": f"arn:aws:iam::{ACCOUNT}:root"}, "Action": "sts:AssumeRole"}
        arn = iam.create_role(RoleName=name, Path=path, AssumeRolePolicyDocument=json.dumps(
            {"Version": "2012-10-17", "Statement": [trust]}), **more)["Role"]["Arn"]
        iam.attach_role_policy(RoleName=name, PolicyArn=self.wide)
        iam.put_role_policy(RoleName=name, PolicyName="assume", PolicyDocument=json.dumps(
            {"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": "sts:AssumeRole", "Resource": "*"}]}))
        return arn

    def start(self, machine, **script):
        """Starts a run whose functions answer as `script` says."""
        return Run(self, machine, script)


class Run:
    """One execution of a machine, and what its functions and its runner were told."""

    def __init__(self, gate, machine, script):
        self.id = f"run-{uuid.uuid4().hex[:26]}"
        self._states, self._notes = gate.stack.client("stepfunctions"), gate.runs / f"{self.id}.calls"

        def order(phase):
            arn = gate.ours[f"{phase.capitalize()}RoleArn"]
            return [{"task_role": arn, "workspace": OURS, "run": self.id, "phase": phase}]

        usual = {"prepare": order("plan"), "authorize": order("apply"), "project": [{"changes": True}], "guard": [{"route": "ask", "seconds_left": 600}]}
        written = {name.replace("_", "-"): each for name, each in script.items()}
        # Who is frozen answers so once, and then as usual.
        written.update({name: [*each, *usual[name]] for name, each in written.items() if each == ["Frozen"]})
        (gate.runs / f"{self.id}.json").write_text(json.dumps({**usual, **written}))
        self._execution = self._states.start_execution(
            stateMachineArn=gate.outputs[machine], name=self.id, input=json.dumps({"run": self.id}))["executionArn"]

    def calls(self):
        """The names of what was called, in order, and what each was told."""
        lines = self._notes.read_text().splitlines() if self._notes.exists() else []
        return [tuple(json.loads(line)) for line in lines]

    def answer(self, function, time=1):
        """Waits until a function holds its token, for the first time or a later one, and answers."""
        def held():
            tokens = [told["token"] for name, told in self.calls() if name == function]
            return tokens if len(tokens) >= time else None
        tokens = wait_for(held, 30, f"token {time} of {function}")
        self._states.send_task_success(taskToken=tokens[-1], output='{"ignored": true}')
        return self

    def end(self):
        """Waits for the end, and gives the calls; what Conclude was told; the states entered."""
        status = wait_for(lambda: self._status(), 60, "the run's end")
        calls = self.calls()
        history = self._states.get_execution_history(executionArn=self._execution, maxResults=1000)["events"]
        entered = [event["stateEnteredEventDetails"]["name"] for event in history if event["type"].endswith("StateEntered")]
        return status, [name for name, _ in calls], [told for name, told in calls if name == "conclude"], entered

    def _status(self):
        status = self._states.describe_execution(executionArn=self._execution)["status"]
        return None if status == "RUNNING" else status
