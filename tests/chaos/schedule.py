"""Schedules: who does what, when, and what goes wrong. Small values, drawn from a seed and from nothing else."""

import dataclasses
import json
import random

STATUSES = ("proposed", "queued", "planning", "evaluating", "awaiting_approval", "approved", "applying", "ended")
BATCH = 12  # proposals that are made within a few seconds


@dataclasses.dataclass(frozen=True)
class Act:
    """Something that is done to a run, so many milliseconds after it has come as far as `when`: a function of `acts`, by name."""

    name: str
    when: str
    after: int = 0
    by: str = ""
    what: str = ""


@dataclasses.dataclass(frozen=True)
class Strike:
    """A fault: the `nth` passage of a call of a process goes wrong, `times` times, in the workspace of the proposal. `site` is the
    beginning of the names of the calls that are meant."""

    process: str
    site: str
    what: str
    nth: int = 1
    times: int = 1


@dataclasses.dataclass(frozen=True)
class Proposal:
    """A proposal to a workspace, made `at` milliseconds after its batch began, and what becomes of it."""

    number: int
    workspace: int
    at: int
    kind: str
    configuration: str
    by: str
    acts: tuple
    strikes: tuple
    leftover: str


@dataclasses.dataclass(frozen=True)
class Aside:
    """Something that is done besides: to a workspace or to none, `at` milliseconds after the batch began."""

    name: str
    at: int
    workspace: int = 0
    what: str = ""


@dataclasses.dataclass(frozen=True)
class Batch:
    """Proposals at about the same time, and what else happens meanwhile. After it comes rest, and the checker."""

    number: int
    proposals: tuple
    asides: tuple


@dataclasses.dataclass(frozen=True)
class Schedule:
    """A whole campaign."""

    seed: int
    runs: int
    workspaces: int
    faults: bool
    batches: tuple


# What people do with a run that waits for them: how often, and what.
DECISIONS = (
    (30, lambda draw: (Act("approve", "awaiting_approval", draw.randrange(800), "bob"),)),
    (8, lambda draw: (Act("reject", "awaiting_approval", draw.randrange(800), "bob"),)),
    (6, lambda draw: (Act("cancel", draw.choice(STATUSES[:-1]), draw.randrange(1500), "alice"), Act("approve", "awaiting_approval", draw.randrange(400), "carol"))),
    (6, lambda draw: (Act("approve", "awaiting_approval", 200, "bob"), Act(draw.choice(("approve", "reject")), "awaiting_approval", 200, "carol"))),
    (5, lambda draw: (Act("approve", "awaiting_approval", 100, "bob"), Act("cancel", "awaiting_approval", 100 + draw.randrange(200), "alice"))),
    (5, lambda draw: (Act("approve_another_digest", "awaiting_approval", 0, "bob"), Act("approve", "awaiting_approval", 600, "carol"))),
    (4, lambda draw: (Act("approve", "awaiting_approval", 0, "alice"), Act("approve", "awaiting_approval", 0, "mallory"), Act("reject", "awaiting_approval", 900, "bob"))),
    (4, lambda draw: (Act("let_expire", "awaiting_approval", draw.randrange(300)), Act("approve", "awaiting_approval", draw.randrange(600), "bob"))),
    (4, lambda draw: (Act("approve", "awaiting_approval", 0, "bob"), Act("let_expire", "approved"))),
    (4, lambda draw: (Act("approve", draw.choice(("proposed", "planning", "ended")), draw.randrange(500), "bob"), Act("approve", "awaiting_approval", 500, "bob"))),
    (6, lambda draw: ()),
)
# What somebody who may do everything in the account does to a run, one in so many.
MISCHIEF = (
    lambda draw: Act("abort", draw.choice(STATUSES[:-1]), draw.randrange(1200)),
    lambda draw: Act("stop_task", draw.choice(("planning", "applying")), draw.randrange(1500)),
    lambda draw: Act("kill_runner", draw.choice(("planning", "applying")), draw.randrange(2500)),
    lambda draw: Act("kill_engine", draw.choice(("planning", "applying")), 300 + draw.randrange(2500)),
    lambda draw: Act("second_task", draw.choice(("planning", "awaiting_approval", "applying", "ended")), draw.randrange(1500), what=draw.choice(("plan", "apply"))),
    lambda draw: Act("steal_token", draw.choice(("queued", "awaiting_approval")), draw.randrange(500)),
    lambda draw: Act("change_kind", draw.choice(("queued", "planning", "awaiting_approval", "approved")), draw.randrange(500)),
    lambda draw: Act("replace", draw.choice(("planning", "evaluating", "awaiting_approval", "approved", "applying")), draw.randrange(300), what=draw.choice(
        ("plan_order", "plan_receipt", "document", "projection", "artifact", "bundle", "apply_order", "apply_signature", "apply_receipt", "result"))),
    lambda draw: Act("forge_order", draw.choice(("planning", "awaiting_approval")), draw.randrange(300)),
    lambda draw: Act("start_again", draw.choice(("queued", "awaiting_approval", "ended")), draw.randrange(800)),
)
ASIDES = (
    lambda draw, workspaces: Aside("sweep", draw.randrange(12_000)),
    lambda draw, workspaces: Aside("sweep_twice", draw.randrange(12_000)),
    lambda draw, workspaces: Aside("edit_workspace", draw.randrange(9_000), draw.randrange(workspaces), draw.choice(("plan_expiry_seconds", "policy"))),
    lambda draw, workspaces: Aside("edit_policy", draw.randrange(9_000), draw.randrange(workspaces)),
    lambda draw, workspaces: Aside("take_right", draw.randrange(9_000), draw.randrange(workspaces), draw.choice(("bob", "carol"))),
)
# The calls that each process makes, by the beginnings of their names: a fault is drawn for one of them.
CALLS = {
    "plangate-api": ("dynamodb.TransactWriteItems", "dynamodb.BatchGetItem IDENTITY", "dynamodb.BatchGetItem RUN", "dynamodb.BatchGetItem WS", "dynamodb.BatchGetItem REQ",
                     "dynamodb.GetItem FREEZE", "dynamodb.GetItem DOC", "dynamodb.Query", "s3.HEAD", "states.StartExecution", "states.SendTaskSuccess", "states.StopExecution"),
    "plangate-admit": ("dynamodb.TransactWriteItems", "dynamodb.BatchGetItem RUN", "dynamodb.GetItem WS", "dynamodb.GetItem FREEZE", "dynamodb.Query", "s3.HEAD", "states.SendTaskSuccess"),
    "plangate-prepare": ("dynamodb.TransactWriteItems", "dynamodb.BatchGetItem RUN", "dynamodb.BatchGetItem WS", "dynamodb.BatchGetItem FREEZE", "dynamodb.GetItem POLICY", "s3.PutObject"),
    "plangate-intake": ("dynamodb.TransactWriteItems", "dynamodb.BatchGetItem RUN", "dynamodb.BatchGetItem WS", "s3.GetObject"),
    "plangate-project": ("dynamodb.TransactWriteItems", "dynamodb.BatchGetItem RUN", "dynamodb.GetItem POLICY", "s3.GetObject", "s3.PutObject"),
    "plangate-guard": ("dynamodb.TransactWriteItems", "dynamodb.BatchGetItem RUN", "dynamodb.GetItem POLICY", "s3.GetObject"),
    "plangate-request-approval": ("dynamodb.TransactWriteItems", "dynamodb.BatchGetItem RUN"),
    "plangate-authorize": ("dynamodb.TransactWriteItems", "dynamodb.BatchGetItem RUN", "dynamodb.BatchGetItem WS", "dynamodb.BatchGetItem FREEZE", "s3.PutObject orders/ws/run/apply.json",
                           "s3.PutObject orders/ws/run/apply.sig.json", "s3.HEAD", "kms.Sign"),
    "plangate-conclude": ("dynamodb.TransactWriteItems", "dynamodb.GetItem RUN", "dynamodb.BatchGetItem CHAIN", "dynamodb.GetItem FREEZE", "dynamodb.Query", "s3.GetObject receipts",
                          "s3.GetObject results", "s3.PutObject claims", "s3.HEAD", "ecs.ListTasks", "ecs.DescribeTasks", "ecs.StopTask", "states.SendTaskSuccess"),
    "plangate-sweep": ("dynamodb.TransactWriteItems", "dynamodb.GetItem RUN", "dynamodb.BatchGetItem CHAIN", "dynamodb.Query", "s3.GetObject", "s3.PutObject claims", "ecs.ListTasks",
                       "ecs.DescribeTasks", "ecs.StopTask", "states.DescribeExecution", "states.StartExecution", "states.StopExecution", "states.SendTaskSuccess"),
    "runner-plan": ("s3.GetObject orders", "s3.GetObject bundles", "s3.GetObject state", "s3.PutObject artifacts", "s3.PutObject documents", "s3.PutObject logs", "s3.PutObject receipts",
                    "ssm.GetParameters", "sts.GetCallerIdentity"),
    "runner-apply": ("s3.GetObject orders/ws/run/apply.json", "s3.GetObject orders/ws/run/apply.sig.json", "s3.GetObject bundles", "s3.GetObject artifacts", "s3.GetObject state",
                     "s3.PutObject claims", "s3.PutObject results", "s3.PutObject logs", "s3.PutObject receipts", "ssm.GetParameters", "sts.GetCallerIdentity"),
}
WHATS = ("die-before", "die-after", "fail", "lose-answer", "throttle", "twice")


def draw_strike(draw):
    """A fault at a random call of a random process: once, or as often in a row as the SDK tries by itself."""
    process = draw.choice(sorted(CALLS))
    what = draw.choice(WHATS)
    times = draw.choice((1, 5 if process.startswith("runner") else 3)) if what in ("fail", "lose-answer", "throttle") else 1
    return Strike(process, draw.choice(CALLS[process]), what, draw.choice((1, 1, 1, 1, 2)), times)


def draw_proposal(draw, chance, number, workspaces):
    """A proposal. What goes wrong comes from a chance of its own, so that people do the same without it."""
    workspace = draw.randrange(workspaces)
    kind = draw.choices(("applicable", "plan-only"), (6, 1))[0]
    configuration = draw.choices(("change", "same", "slow", "fails", "broken"), (12, 2, 3, 2, 1))[0]
    acts = list(draw.choices([each for _, each in DECISIONS], [weight for weight, _ in DECISIONS])[0](draw)) if kind == "applicable" else []
    if draw.random() < 0.3:
        acts.append(draw.choice(MISCHIEF)(draw))
    strikes = tuple(draw_strike(chance) for _ in range(chance.choice((0, 1, 2, 3)))) if chance else ()
    return Proposal(
        number, workspace, draw.randrange(6_000), kind, configuration, draw.choices(("alice", "carol"), (5, 1))[0], tuple(acts), strikes,
        draw.choice(("approve", "reject", "cancel")))


def draw_batch(seed, number, first, size, workspaces, faults):
    """A batch, by itself a pure function of the seed and of its number."""
    draw, chance = random.Random(f"plangate {seed} {number}"), random.Random(f"plangate faults {seed} {number}") if faults else None
    proposals = tuple(draw_proposal(draw, chance, first + each, workspaces) for each in range(size))
    asides = tuple(draw.choice(ASIDES)(draw, workspaces) for _ in range(draw.randrange(2, 6)))
    return Batch(number, proposals, asides)


def draw_schedule(seed, runs, workspaces, faults=True):
    """The whole schedule of a campaign: a pure function of what it is given."""
    sizes = [BATCH] * (runs // BATCH) + ([runs % BATCH] if runs % BATCH else [])
    batches = tuple(draw_batch(seed, number, number * BATCH, size, workspaces, faults) for number, size in enumerate(sizes))
    return Schedule(seed, runs, workspaces, faults, batches)


def written(schedule):
    """A schedule as JSON, to read and to compare."""
    return json.dumps(dataclasses.asdict(schedule), indent=1)
