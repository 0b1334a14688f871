"""The sample workspace `shop`: the documents that tell the gate of it and of the people who work on it."""

from .slack import CHANNEL, TEAM, Slack
from .stack import ACCOUNT, REGION

PEOPLE = ("alice", "bob")


def documents(gate, workspace, outputs):
    """Kind, id and spec of each document, in the order in which they have to be put; `outputs` are those of workspace.yaml."""
    engine = gate.engine
    yield "policy", "default", {"schema": "plangate.policy.v1"}
    for person in PEOPLE:
        users = [{"team": TEAM, "user": Slack.user(person)}]
        yield "principal", person, {"person": person, "iam": [{"account": ACCOUNT, "role": person}], "slack": users}
    yield "workspace", workspace, {
        "name": "shop", "engine": {"name": engine.name, "version": engine.version}, "policy": "default",
        "state": {"bucket": outputs["StateBucket"], "key": outputs["StateKey"], "region": REGION},
        "plan_role": outputs["PlanRoleArn"], "apply_role": outputs["ApplyRoleArn"],
        "sealed_bucket": outputs["StateBucket"], "sealed_key": outputs["SealedKeyArn"],
        "secrets": [{"variable": "database_password", "parameter": f"{outputs['SecretPrefix']}database_password"}],
        "slack": {"channel": CHANNEL}}
    # Both may approve: it is not the grant that will keep somebody from approving what they proposed.
    for person in PEOPLE:
        actions = ["read", "read-logs", "propose", "approve"]
        yield "grant", f"{person}-in-shop", {"person": person, "workspaces": [workspace], "actions": actions}
