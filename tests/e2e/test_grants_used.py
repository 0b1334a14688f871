"""Least privilege, held against use: the lives of runs are played, what each role of the gate asks of AWS is noted, and each grant of the
templates is either used here or stands below with a reason. What a role asks for and is refused fails as well.
"""

import collections
import fnmatch
import json

import pytest
from mischief import Post, abort, hold_in_configuration, swept

from local.deploy import FUNCTIONS
from local.slack import CHANNEL

# Role (a pattern, without the gate's name), statement, actions (a pattern): why no life below uses it. Each must be a grant that there is.
NOT_SEEN = {
    ("*", "WriteOwnLog", "logs:*"): "by Lambda's agent within the function's environment; the emulator writes logs as itself",
    ("*", "SendTraces", "xray:*"): "by the same agent, and by Step Functions",
    ("*", "ReadTheStream", "dynamodb:*"): "by Lambda's poller of the stream; the emulator reads streams as itself",
    ("notify", "FollowTheTable", "dynamodb:*"): "the same",
    ("*", "TellOfFailures", "sqs:SendMessage"): "by the same poller, of a batch that is given up after half a day",
    ("machine-*", "FollowTheRunner", "ecs:*"): "by runTask.sync while it waits and when it is stopped; the emulator looks by itself, and not at each",
    ("machine-*", "HearOfItsEnd", "events:*"): "by Step Functions when a machine with runTask.sync is made (local/tests/test_roles.py)",
    ("machine-*", "RunEarlierRunners", "ecs:RunTask"): "there with EarlierTaskDefinitions alone (test_parameters.py); the emulator makes it always, for nothing",
    ("*", "ReadRecord", "dynamodb:*GetItem"): "one item or several at once: the same right, and each step uses what suits it",
    ("*", "ReadTheLine", "dynamodb:Query"): "whoever ends a run gives the lock to the head of the line; here not each has to",
    ("*", "EndRuns", "dynamodb:[CD]*"): "the same: who is given the lock leaves the line, and a lock that stays is held against its version",
    ("*", "AnyTaskToken", "states:SendTaskSuccess"): "a run that waits was decided or granted at the moment of its call: shown in test_contests.py and crashes.rs",
    ("*", "TellMissingFromForbidden*", "s3:ListBucket"): "asked where an object is missing: shown in test_attacks.py and test_audit.py",
    ("*", "CloseClaimsAndKeepLogs", "s3:PutObject"): "of a task that died, by whoever comes first: test_deaths.py",
    ("*", "ReadRunnerLog", "logs:GetLogEvents"): "the same",
    ("*", "ReadOutcomes", "s3:GetObject"): "the same; a runner that is asked to stop may still leave its receipt, and then nobody has to look further",
    ("*", "StopTasksAndSeeThem", "ecs:*"): "the same",
    ("sweep", "StartRuns", "states:StartExecution"): "of a run that was recorded and never started: test_deaths.py",
    ("sweep", "StopRunsAndSeeThem", "states:*"): "of a run that has ended while its execution goes on, of either machine: tests/chaos/test_faults.py",
    ("api", "StopCanceledRuns", "states:StopExecution"): "of a plan-only run that waits behind a freeze, as of one that waits in line: tests/chaos",
    ("prepare", "WritePlanOrders", "s3:GetObject"): "a step that is made twice finds what it wrote: crashes.rs, tests/chaos",
    ("project", "WriteProjections", "s3:GetObject"): "the same",
    ("authorize", "WriteApplyOrders", "s3:GetObject"): "the same",
    ("*", "ReadDocuments", "s3:GetObject"): "where a receipt names no version: the bytes are held against its digest all the same",
    ("archive", "WriteEventsAndCompareThem", "s3:*Object"): "of what was tampered with: test_audit.py",
    ("review", "AskReviewersOfWorkspaces", "lambda:InvokeFunction"): "test_review.py",
    ("review", "AskTheNamedModels", "bedrock:InvokeModel"): "of each model that is named; one is asked here",
    ("notify", "AppendAuditOfRuns", "dynamodb:PutItem"): "where people could not be told: test_slack.py",
    ("slack", "ListGrants", "dynamodb:Query"): "to tell somebody who may not decide who may: test_slack.py",
}
ROLES = [*FUNCTIONS, "machine-plan-only", "machine-applicable"]
# A resource whose making waits at a post, so that something is done at a known moment of an apply.
HELD = 'resource "terraform_data" "held" {{\n  {hold}\n}}\n'


def grants(world, role):
    """Every grant of a role as it is deployed: (statement, action, resource)."""
    iam = world.stack.client("iam")
    documents = [iam.get_role_policy(RoleName=role, PolicyName=name)["PolicyDocument"] for name in iam.list_role_policies(RoleName=role)["PolicyNames"]]
    for attached in iam.list_attached_role_policies(RoleName=role)["AttachedPolicies"]:
        version = iam.get_policy(PolicyArn=attached["PolicyArn"])["Policy"]["DefaultVersionId"]
        documents.append(iam.get_policy_version(PolicyArn=attached["PolicyArn"], VersionId=version)["PolicyVersion"]["Document"])
    for document in documents:
        for statement in document["Statement"] if isinstance(document["Statement"], list) else [document["Statement"]]:
            if statement["Effect"] == "Allow":
                for action in listed(statement["Action"]):
                    for resource in listed(statement["Resource"]):
                        yield statement["Sid"], action, resource


def listed(value):
    return value if isinstance(value, list) else [value]


@pytest.fixture
def asked(world):
    """Notes what IAM is asked while a test runs; a call gives {role: [(action, resource, allowed)]}."""
    journal = world.stack.directory / "decisions"
    journal.touch()

    def read():
        found = collections.defaultdict(set)
        for line in journal.read_text().splitlines():
            arn, action, resource, allowed = json.loads(line)
            if ":assumed-role/" in arn:
                found[arn.split("/")[1]].add((action, resource, allowed))
        return found

    yield read
    journal.unlink()


def called(world, name):
    """Calls a function as its schedule does."""
    answer = world.stack.client("lambda").invoke(FunctionName=world.outputs[f"{name}FunctionArn"], Payload=b"{}")
    assert "FunctionError" not in answer, answer["Payload"].read()


def lives(world, workspace, models, slack):
    """Plays the lives of runs, each way that a grant is there for."""
    bob = world.person("bob")
    # Applied, while its log is read; another waits in line meanwhile and is withdrawn; decided in Slack.
    shop, post = workspace(spec={"slack": {"channel": CHANNEL}, "drift_hours": 24}), Post(world, "held")
    shop.configure((shop.folder / "main.tf").read_text() + HELD.format(hold=hold_in_configuration(post)))
    run = shop.waiting()
    message = slack.about(run.id)
    assert slack.press(world.gate.api, message, "plangate.approve", slack.user("bob")).status == 200
    post.reached()
    bob.ask("GET", f"/v1/runs/{run.id}/log/apply")
    second = shop.propose()
    second.wait("queued")
    second.cancel()
    post.open()
    run.ended_well("applied")
    # Looked at for drift.
    called(world, "Drift")
    drift, = shop.drift_runs()
    drift.ended_well("no_changes")
    shop.edit('"Summer sale"', '"Autumn sale"')
    shop.propose("--plan-only").ended_well("planned")
    # Rejected in Slack with one in line behind it, which gets the lock.
    run, next_ = shop.waiting(), shop.propose()
    message = slack.about(run.id)
    assert slack.press(world.gate.api, message, "plangate.reject", slack.user("bob")).status == 200
    slack.submit(world.gate.api, slack.opened(), slack.user("bob"), "not now")
    run.wait("rejected")
    # Frozen while it waits, and thawed; then rejected through the API.
    next_.wait("awaiting_approval")
    world.admin.cli("freeze", shop.id, "--reason", "an incident")
    world.admin.cli("unfreeze", shop.id, "--reason", "it is over")
    next_.reject()
    next_.ended_well("rejected")
    # Asked of a reviewer, and applied without a person.
    ours = workspace(spec={"automatic_approval": True, "reviewer": {"binding": "bedrock", "model": "test.approves", "budgets": {"seconds": 5}}})
    ours.propose().ended_well("applied")
    ours.propose().ended_well("no_changes")
    # Aborted from outside while it applies: the sweeper ends it; and withdrawn while it plans.
    broken, post = workspace(), Post(world, "broken")
    broken.configure((broken.folder / "main.tf").read_text() + HELD.format(hold=hold_in_configuration(post)))
    run = broken.waiting()
    run.approve()
    post.reached()
    abort(run)
    swept(run)
    post.open()
    # The audit.
    for name in ("Witness", "Archive", "Sweep"):
        called(world, name)
    bob.ask("GET", "/v1/runs?limit=5")
    for part in ("projection", "audit"):
        bob.ask("GET", f"/v1/runs/{run.id}/{part}")
    return shop


def test_every_grant_is_used_or_stands_here_with_a_reason_and_every_call_is_granted(world, workspace, models, asked):
    lives(world, workspace, models, world.slack)
    world.quiet()
    journal = asked()
    unused, refused = [], []
    for name in ROLES:
        role = f"plangate-{name}"
        seen = journal[role]
        refused += [(name, action, resource) for action, resource, allowed in seen if not allowed]
        for statement, action, resource in grants(world, role):
            used = any(allowed and action == did and fnmatch.fnmatchcase(where, resource) for did, where, allowed in seen)
            if not used:
                unused.append((name, statement, action, resource))

    def fits(one, exception):
        who, what, how = exception
        return fnmatch.fnmatchcase(one[0], who) and fnmatch.fnmatchcase(one[1], what) and fnmatch.fnmatchcase(one[2], how)

    excepted = [one for one in unused if any(fits(one, exception) for exception in NOT_SEEN)]
    granted = [(name, *grant) for name in ROLES for grant in grants(world, f"plangate-{name}")]
    assert [each for each in NOT_SEEN if not any(fits(one, each) for one in granted)] == [], "excepted and granted to nobody: take it out of NOT_SEEN"
    assert refused == [], "a role asked for what it may not"
    assert [one for one in unused if one not in excepted] == [], "granted and never used: take it away, or list it in NOT_SEEN with a reason"
