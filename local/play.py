"""The laptop stack, kept running to play with: `make up`, `make down`.

    python -m local.play up          starts it, deploys the gate and the sample workspace `shop`, and says how to go on
    python -m local.play as PERSON   prints the environment of alice, bob or the administrator; use it with eval
    python -m local.play down        stops it
"""

import argparse
import json
import os
import secrets
import subprocess
import sys
import types

from . import deploy, shop
from .stack import ROOT, Stack, StackError

NAME = "play"


def say(line):
    """Progress, apart from what the shell reads."""
    print(line, file=sys.stderr, flush=True)


def plangate(gate, *arguments, stdin=None):
    """Runs the command line tool as the administrator; gives what it answers."""
    environment = {"PATH": os.defpath, "HOME": str(gate.stack.directory), **gate.environment(gate.admin())}
    done = subprocess.run(
        [str(deploy.binary("plangate", "dev")), "--json", *arguments], env=environment, input=stdin, capture_output=True, text=True)
    if done.returncode:
        raise StackError(f"`plangate {' '.join(arguments)}` failed: {done.stderr.strip()}")
    return json.loads(done.stdout)


def slack_beside(stack):
    """Starts a Slack of a kind (local/slack.py) that ends with the stack; gives what the gate needs to know of it."""
    process = subprocess.Popen(
        [sys.executable, "-m", "local.slack", stack.name], cwd=ROOT, start_new_session=True, text=True,
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    said = process.stdout.readline()
    if not said:
        raise StackError("the stand-in for Slack does not start")
    return types.SimpleNamespace(**json.loads(said))


def up():
    """Starts the stack with a gate and a workspace in it."""
    say("starting the emulator")
    stack = Stack.start(NAME, keep=True)
    try:
        slack = slack_beside(stack)
        gate = deploy.deploy_gate(stack, say=say, slack=slack)
        workspace = plangate(gate, "workspace", "new-id")["id"]
        say(f"deploying infra/workspace.yaml for the workspace {workspace}")
        outputs = gate.workspace(workspace)
        gate.secret(outputs, "database_password", f"sesame-{secrets.token_hex(12)}")
        for person in shop.PEOPLE:
            gate.person(person)
        for kind, identity, spec in shop.documents(gate, workspace, outputs):
            document = {"id": identity, "namespace": "play", "owner": "administrator", "spec": spec}
            plangate(gate, kind, "put", "-", stdin=json.dumps(document))
        (stack.directory / "gate.json").write_text(json.dumps({"outputs": gate.outputs, "administrator": gate.administrator}))
    except BaseException:
        stack.stop()
        raise
    print(f"""
The gate is up, with the workspace `shop` ({workspace}). Take somebody's place, in a terminal of their own:

    eval "$(make -s as-alice)"     # or as-bob, as-administrator

Then, as alice:

    plangate propose local/sample --workspace shop --watch

and as bob:

    plangate runs --workspace shop
    plangate approve RUN --watch

or in Slack, of a kind: {slack.api.removesuffix("/api")} shows the message of each run, with its buttons.

`make down` ends it. For the AWS command line as root: eval "$(.venv/bin/python -m local.stack env {NAME})"
""")


def speak_as(person):
    """Prints the environment of a person, for a shell."""
    stack = Stack.load(NAME)
    known = json.loads((stack.directory / "gate.json").read_text())
    gate = deploy.Gate(stack, "plangate", known["outputs"], None, known["administrator"])
    session = gate.admin() if person == "administrator" else gate.person(person)
    for key, value in gate.environment(session).items():
        print(f"export {key}={value}")
    print(f'export PATH="{deploy.binary("plangate", "dev").parent}:$PATH"')


def main():
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m local.play", description=__doc__.splitlines()[0])
    parser.add_argument("command", choices=("up", "down", "as"))
    parser.add_argument("person", nargs="?", choices=(*shop.PEOPLE, "administrator"), default="administrator")
    arguments = parser.parse_args()
    try:
        if arguments.command == "up":
            up()
        elif arguments.command == "as":
            speak_as(arguments.person)
        else:
            Stack.load(NAME).stop()
    except (StackError, RuntimeError) as error:
        sys.exit(f"error: {error}")


if __name__ == "__main__":
    main()
