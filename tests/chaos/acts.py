"""What is done in a campaign, by name: by people who may and who may not, and by somebody with the keys of the whole account.

Each act gives a word on what came of it, for the report. None asserts anything: what must hold whatever is done is the checker's to say.
"""

import contextlib
import http.client
import json
import os
import secrets
import shutil
import signal
import time
import urllib.parse

import mischief
from gate import TERMINAL
from mischief import is_engine, is_runner, processes, start_by_hand

from .stores import FORGED

TRIES = 6


def patiently(ask):
    """Asks again where the gate could not answer, as the command line tool does; gives (status, answer)."""
    status, answer = 0, None
    for attempt in range(TRIES):
        with contextlib.suppress(OSError, http.client.HTTPException):
            status, answer = ask()
        if 0 < status < 500 and status != 429:
            break
        time.sleep(0.1 * 2 ** attempt)
    return status, answer


def word(status, answer):
    """What came of a request, in a word."""
    if 200 <= status < 300:
        return "done"
    reason = (answer or {}).get("error", {}).get("reason") if isinstance(answer, dict) else None
    return reason or f"http {status}"


# -- people --------------------------------------------------------------------------------------------------------


def propose(shop, content, digest, proposal):
    """Uploads and proposes; gives (the id of the run or None, a word). The same request again, if need be, is the same run."""
    person = shop.world.person(proposal.by)
    asked = {"workspace": shop.id, "digest": digest, "bytes": len(content)}
    status, answer = patiently(lambda: person.call("POST", "/v1/bundles", asked))
    if status != 200:
        return None, word(status, answer)
    if not answer["present"]:
        upload(answer["url"], dict(answer["headers"]), content)
    body = {"request_id": secrets.token_hex(8), "workspace": shop.id, "kind": proposal.kind, "bundle": digest}
    status, answer = patiently(lambda: person.call("POST", "/v1/runs", body))
    return (answer["run"]["id"] if status in (200, 201) else None), word(status, answer)


def upload(url, headers, content):
    """Uploads a bundle. Who comes second with the same finds it there."""
    where = urllib.parse.urlsplit(url)
    connection = http.client.HTTPConnection(where.hostname, where.port, timeout=60)
    try:
        connection.request("PUT", f"{where.path}?{where.query}", content, headers)
        connection.getresponse().read()
    finally:
        connection.close()


def _decide(run, by, choice, projection=None):
    digest = projection or _digest(run)
    if digest is None:
        digest = "sha256:" + "0" * 64
    body = {"decision": choice, "projection": digest, **({"reason": "not like this"} if choice == "reject" else {})}
    return word(*patiently(lambda: run.world.person(by).call("POST", f"/v1/runs/{run.id}/decision", body)))


def _digest(run):
    projection = run.record.get("projection")
    return projection and projection["object"]["digest"]


def approve(run, act):
    """Approves what the run shows."""
    return _decide(run, act.by, "approve")


def approve_another_digest(run, act):
    """Approves something that the run does not show."""
    return _decide(run, act.by, "approve", "sha256:" + "f" * 64)


def reject(run, act):
    """Rejects it."""
    return _decide(run, act.by, "reject")


def cancel(run, act):
    """Withdraws it."""
    return word(*patiently(lambda: run.world.person(act.by).call("POST", f"/v1/runs/{run.id}/cancel", {})))


def let_expire(run, act):
    """The plan's life is over: its record says so, as if hours had passed."""
    if "plan" not in run.record:
        return "no plan"
    run.edit(lambda record: record["plan"].update(expires_at=record["plan"]["received_at"]))
    return "done"


# -- the executions and tasks of a run -----------------------------------------------------------------------------


def abort(run, act):
    """Ends its execution from outside."""
    states = run.world.stack.client("stepfunctions")
    with contextlib.suppress(states.exceptions.ExecutionDoesNotExist):
        states.stop_execution(executionArn=run.execution, error="Chaos", cause="the campaign")
        return "done"
    return "no execution"


def start_again(run, act):
    """Starts its execution once more, by its name."""
    states = run.world.stack.client("stepfunctions")
    with contextlib.suppress(states.exceptions.ExecutionAlreadyExists):
        machine = run.world.outputs["MachineApplicableArn" if run.record["kind"] == "applicable" else "MachinePlanOnlyArn"]
        states.start_execution(stateMachineArn=machine, name=run.id, input=json.dumps({"run": run.id}, separators=(",", ":")))
        return "done"
    return "refused"


def stop_task(run, act):
    """Stops its tasks, politely."""
    tasks = run.tasks()
    for task in tasks:
        run.world.stack.client("ecs").stop_task(cluster=run.world.outputs["Cluster"], task=task, reason="the campaign")
    return "done" if tasks else "no task"


def second_task(run, act):
    """Starts another task of it, as whoever may start any."""
    shop = run.workspace
    start_by_hand(run.world, shop.id, run.id, act.what, shop.outputs["PlanRoleArn" if act.what == "plan" else "ApplyRoleArn"])
    return f"done {act.what}"


def kill_runner(run, act):
    """Kills its runner, as a host that dies does; what it started dies with it, and so does its disk."""
    killed = _kill(is_runner(run))
    if killed:
        until(lambda: not run.tasks())
        shutil.rmtree(run.world.stack.directory / "work" / run.id, ignore_errors=True)
    return "done" if killed else "no runner"


def kill_engine(run, act):
    """Kills its engine, and it alone."""
    return "done" if _kill(is_engine(run)) else "no engine"


def _kill(chosen):
    killed = 0
    for process in processes(chosen):
        with contextlib.suppress(ProcessLookupError):
            os.kill(process, signal.SIGKILL)
            killed += 1
    return killed


def until(condition, seconds=20):
    """Waits until something has come to pass, and no longer than so many seconds."""
    deadline = time.monotonic() + seconds
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.05)


# -- what stands in the stores -------------------------------------------------------------------------------------


def steal_token(run, act):
    """Completes the token with which it waits, with an invented output that names another role."""
    token = run.token
    if token is None:
        return "no token"
    states, shop = run.world.stack.client("stepfunctions"), run.workspace
    output = {"task_role": shop.outputs["ApplyRoleArn"], "workspace": shop.id, "run": run.id, "Payload": {"route": "approved", "changes": True}}
    with contextlib.suppress(states.exceptions.TaskDoesNotExist, states.exceptions.TaskTimedOut):
        states.send_task_success(taskToken=token, output=json.dumps(output))
        return "done"
    return "too late"


def change_kind(run, act):
    """Makes an applicable run plan-only in the table, or the other way round."""
    def change(record):
        record["kind"] = "plan-only" if record["kind"] == "applicable" else "applicable"
    run.edit(change)
    return "done"


def replace(run, act):
    """Writes another object in the place of one of the run's."""
    shop, record = run.workspace, run.record
    exchange, own = run.world.outputs["ExchangeBucket"], shop.bucket
    bucket, key = {
        "plan_order": (exchange, f"orders/{shop.id}/{run.id}/plan.json"), "plan_receipt": (exchange, f"receipts/{shop.id}/{run.id}/plan.json"),
        "document": (exchange, f"documents/{shop.id}/{run.id}.json"), "projection": (exchange, f"projections/{shop.id}/{run.id}.json"),
        "artifact": (own, f"artifacts/{run.id}/plan.tfplan"), "bundle": (exchange, record["bundle"]["key"]),
        "apply_order": (exchange, f"orders/{shop.id}/{run.id}/apply.json"), "apply_signature": (exchange, f"orders/{shop.id}/{run.id}/apply.sig.json"),
        "apply_receipt": (exchange, f"receipts/{shop.id}/{run.id}/apply.json"), "result": (exchange, f"results/{shop.id}/{run.id}.json"),
    }[act.what]
    content = None
    deadline = time.monotonic() + 6
    # What it is to replace may be about to be written: wait for that, and no longer than the run lives.
    while content is None and time.monotonic() < deadline:
        content = run.world.object(key, bucket)
        if content is None and run.status in TERMINAL:
            break
        time.sleep(0 if content else 0.02)
    if content is None:
        return f"no {act.what}"
    _put(run, key, _altered(act.what, content), bucket)
    return f"done {act.what}"


def _altered(what, content):
    """Something else of the same kind: whole, and a lie."""
    if what in ("artifact", "bundle"):
        return content + b"\0"
    try:
        value = json.loads(content)
    except ValueError:
        return b"{}"
    if what == "document":
        value["resource_changes"] = value.get("resource_changes", [])[1:]
    elif what == "projection":
        return content.replace(b"mark-", b"mork-")
    elif what in ("plan_order", "apply_order", "plan_receipt", "apply_receipt", "result"):
        value["fence"] = value.get("fence", 0) + 1
    elif what == "apply_signature":
        value["signatures"][0]["signature"] = value["signatures"][0]["signature"][::-1]
    return json.dumps(value, separators=(",", ":")).encode()


def forge_order(run, act):
    """Writes an apply order and a signature before the gate does: the plan's order as one that is to be applied, signed by another key."""
    shop = run.workspace
    plan = run.world.object(f"orders/{shop.id}/{run.id}/plan.json")
    if plan is None:
        return "no plan order"
    order = {**json.loads(plan), "phase": "apply"}
    _put(run, f"orders/{shop.id}/{run.id}/apply.json", json.dumps(order, separators=(",", ":")).encode())
    forged = {"key_id": run.world.outputs["OrderKeyArn"], "algorithm": "ECDSA_SHA_256", "signature": "MEUCIQ=="}
    _put(run, f"orders/{shop.id}/{run.id}/apply.sig.json", json.dumps({"signatures": [forged]}).encode())
    return "done"


def _put(run, key, content, bucket=None):
    mischief.replace(run.world, key, content, bucket, Metadata={FORGED: "yes"})


# -- besides -------------------------------------------------------------------------------------------------------


def sweep(campaign, aside):
    """The sweeper's clock strikes."""
    return campaign.sweep()


def sweep_twice(campaign, aside):
    """Two sweepers at once."""
    other = campaign.pool.submit(campaign.sweep)
    return f"{campaign.sweep()}, {other.result()}"


def edit_workspace(campaign, aside):
    """The administrator changes a workspace: the life of its plans, or its policy."""
    shop = campaign.shops[aside.workspace]
    with campaign.documents:
        life = 600 if shop.spec.get("plan_expiry_seconds", 3600) != 600 else 3600
        other = f"{shop.id}-strict" if shop.spec["policy"] == shop.id else shop.id
        spec = {**shop.spec, **({"policy": other} if aside.what == "policy" else {"plan_expiry_seconds": life})}
        return campaign.put("workspaces", shop.id, spec, lambda: shop.spec.update(spec))


def edit_policy(campaign, aside):
    """The administrator changes the policy of a workspace."""
    shop = campaign.shops[aside.workspace]
    with campaign.documents:
        return campaign.put("policies", shop.id, {"schema": "plangate.policy.v1", "max_changes": {"total": 5 + len(campaign.etags)}})


def take_right(campaign, aside):
    """The administrator takes somebody's right to approve, or gives it back."""
    shop = campaign.shops[aside.workspace]
    with campaign.documents:
        grant = campaign.grants[shop.id, aside.what]
        actions = [action for action in grant["actions"] if action != "approve"] if "approve" in grant["actions"] else [*grant["actions"], "approve"]
        grant = {**grant, "actions": actions}
        return campaign.put("grants", f"{shop.id}-{aside.what}", grant, lambda: campaign.grants.update({(shop.id, aside.what): grant}))
