"""The story of a run, from proposal to applied, told on a laptop stack: `make demo`.

Everything in it is real but AWS: the functions, the state machine, the templates, the runner, the engine, the command line tool, and
IAM, under which a proposer, an approver and an administrator act, each with a role of their own. Each step is checked; the story
ends with exit code 0 only if all was as told.
"""

import argparse
import contextlib
import json
import os
import secrets
import shutil
import signal
import subprocess
import sys
import threading
import time

from . import deploy, shop
from .search import Search
from .slack import TEAM, Slack
from .stack import ROOT, Stack, StackError

WAITS, REFUSED, FAILED = 8, 3, 4  # exit codes of the command line tool
SECONDS = 120


class NotAsTold(Exception):
    """Something in the story did not happen as it is told."""


class Narrator:
    """Prints what a reader sees: chapters, commands with their output, what was checked."""

    def __init__(self):
        self._colour = sys.stdout.isatty() and "NO_COLOR" not in os.environ and os.environ.get("TERM") != "dumb"
        self._chapter = 0

    def _paint(self, code, text):
        return f"\x1b[{code}m{text}\x1b[0m" if self._colour else text

    def _print(self, text=""):
        print(text.rstrip(), flush=True)

    def title(self, text, *lines):
        self._print(self._paint("1", text))
        for line in lines:
            self._print(line)

    def chapter(self, title, *lines):
        self._chapter += 1
        self._print()
        self._print(self._paint("1", f"{self._chapter}. {title}"))
        self.tell(*lines)

    def part(self, title):
        self._print()
        self._print(self._paint("1", title))

    def tell(self, *lines):
        for line in lines:
            self._print(f"   {line}")

    def command(self, who, text):
        self._print()
        self._print(f"   {self._paint('36', f'{who}$')} {self._paint('1', text)}")

    def output(self, line):
        self._print(f"   {self._paint('2', '|')} {line}")

    def good(self, text):
        self._print(f"   {self._paint('32', 'ok')} {text}")

    def bad(self, what, text):
        sys.stdout.flush()
        print(f"\n{self._paint('31', what)} {text}", file=sys.stderr, flush=True)


class Person:
    """Somebody with an IAM role of their own, at a terminal of their own."""

    def __init__(self, story, name, session):
        self.story, self.name = story, name
        self._environment = {"PATH": os.defpath, "HOME": str(story.folder), **story.gate.environment(session)}

    def does(self, *arguments, expect=0):
        """Runs a command and shows it with its output as it comes; gives the output. It must end with the exit code `expect`."""
        self.story.narrator.command(self.name, f"plangate {' '.join(arguments)}")
        process = self._start(arguments, stderr=subprocess.STDOUT)
        lines = []
        with process, self._killed_after(process):
            for line in process.stdout:
                lines.append(line)
                self.story.narrator.output(line.rstrip("\n"))
        return self._ended(arguments, process, "".join(lines), expect)

    def asks(self, *arguments, expect=0):
        """Runs a command with --json, not shown: for checking. Gives the answer."""
        process = self._start(("--json", *arguments), stderr=subprocess.PIPE)
        with process, self._killed_after(process):
            out, err = process.communicate()
        self.story.heard(self.name, err)
        return json.loads(self._ended(arguments, process, out, expect, err))

    def _start(self, arguments, stderr):
        go_on()
        return subprocess.Popen(
            [self.story.program, *arguments], cwd=self.story.folder, env=self._environment, text=True,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=stderr)

    @contextlib.contextmanager
    def _killed_after(self, process):
        """Ends the command after two minutes, or when the story is broken off."""
        timer = threading.Timer(SECONDS, process.kill)
        timer.start()
        try:
            yield
        except BaseException:
            process.kill()
            raise
        finally:
            timer.cancel()

    def _ended(self, arguments, process, text, expect, more=""):
        self.story.heard(f"{self.name}$ plangate {' '.join(arguments)}", text)
        if process.returncode != expect:
            raise NotAsTold(f"`plangate {' '.join(arguments)}` ended with exit code {process.returncode}, not {expect}\n{more}".rstrip())
        return text


class Story:
    """The stack, the people, and the eight chapters."""

    def __init__(self, narrator, stack, folder, profile, slack):
        self.narrator, self.stack, self.folder, self.slack = narrator, stack, folder, slack
        self.program, self._profile = str(deploy.binary("plangate", profile)), profile
        self._heard = []

    def heard(self, place, text):
        """Notes what somebody was told: the last chapter searches it."""
        self._heard.append((f"what was said to {place}", text.encode()))

    def check(self, holds, text):
        """A step of the story: as told, or its end."""
        go_on()
        if not holds:
            raise NotAsTold(text)
        self.narrator.good(text)

    def tell(self):
        """All of it."""
        self.set_up()
        run, shown = self.propose()
        self.show(run, shown)
        self.approve_own(run)
        self.approve(run)
        self.propose_again()
        self.move_the_state()
        self.change_the_secret()
        self.search_everywhere()

    # -- set-up ---------------------------------------------------------------------------------------------------

    def set_up(self):
        tell = self.narrator.tell
        self.narrator.part("Set-up")
        self.gate = deploy.deploy_gate(self.stack, self._profile, say=tell, slack=self.slack)
        self.administrator = Person(self, "administrator", self.gate.admin())
        self.alice, self.bob = (Person(self, name, self.gate.person(name)) for name in shop.PEOPLE)
        self.workspace = self.administrator.asks("workspace", "new-id")["id"]
        # From here on everything is new, and so are the passwords.
        self._search = Search(self.stack)
        self.first_secret, self.second_secret = (f"sesame-{secrets.token_hex(12)}" for _ in range(2))
        tell(f"deploying infra/workspace.yaml for the workspace {self.workspace}")
        self.outputs = self.gate.workspace(self.workspace)
        self.bucket = self.outputs["StateBucket"]
        tell("keeping the database's password in SSM, as a SecureString under the workspace's own key")
        self.gate.secret(self.outputs, "database_password", self.first_secret)
        tell("telling the gate of a policy, two people, the workspace, and who may do what in it")
        shutil.copytree(ROOT / "local/sample", self.folder / "shop")
        for kind, identity, spec in shop.documents(self.gate, self.workspace, self.outputs):
            document = {"kind": kind, "id": identity, "namespace": "demo", "owner": "administrator", "spec": spec}
            name = f"{kind}-{identity}.json" if kind != "workspace" else "workspace.json"
            (self.folder / name).write_text(json.dumps(document, indent=2) + "\n")
            self.administrator.does(kind, "put", name)

    # -- the chapters ---------------------------------------------------------------------------------------------

    def propose(self):
        self.narrator.chapter(
            "A proposer proposes", "Alice has a folder with a configuration. The tool bundles it, uploads it under its digest, and follows the run.")
        shown = self.alice.does("propose", "shop", "--workspace", "shop", "--watch", expect=WAITS)
        run = self.last_run()
        self.check(run["status"] == "awaiting_approval", "the run has a plan and waits for a decision")
        return run, shown

    def show(self, run, shown):
        self.narrator.chapter(
            "The projection is what everybody sees of the plan", "Above, and to whoever is to decide: the same bytes, known by their digest. The password is masked.")
        text = self.bob.does("show", run["id"])
        self.check(self.first_secret not in shown + text, "the password is in neither, and the plan shows where it would be")
        self.check("(sensitive" in text and "+ " in text, "what will be created is marked `+`, as people know it")
        self.check(run["projection"]["object"]["digest"] in shown and run["projection"]["object"]["digest"] in text, "both saw the same projection")

    def approve_own(self, run):
        self.narrator.chapter("The proposer tries to approve", "Alice may approve in this workspace, but not what she proposed herself.")
        text = self.alice.does("approve", run["id"], "--projection", run["projection"]["object"]["digest"], expect=REFUSED)
        self.check("distinct-approver-required" in text, "refused, with the reason `distinct-approver-required`")
        self.check(self.run(run["id"])["status"] == "awaiting_approval", "the run waits as before")

    def approve(self, run):
        self.narrator.chapter(
            "An approver approves in Slack, and exactly that plan is applied",
            "The workspace names a channel, and there is the run. Alice presses Approve first: nobody may do there what they may not do here.")
        message = self.slack.about(run["id"])
        for line in message.text.splitlines():
            self.narrator.output(line)
        self.check(run["projection"]["object"]["digest"] in message.text and self.first_secret not in message.text, "the message shows the same projection")
        alice, bob = (self.slack.user(name) for name in shop.PEOPLE)
        self.press(message, alice, "alice")
        word = self.slack.wait(lambda: [text for user, text in self.slack.told if user == alice], "a word to alice")[0]
        self.narrator.output(f"(to alice alone) {word}")
        self.check("another approver" in word and self.run(run["id"])["status"] == "awaiting_approval", "refused, and alice alone is told why")
        self.press(message, bob, "bob")
        self.slack.wait(lambda: message.headline == "Applied", "the message to say that it is applied", SECONDS)
        self.check(not message.buttons, "the message says that it is applied, and has no buttons any more")
        self.narrator.tell("", "The record shows who, what digest, which versions, and the state's identity before and after.")
        self.bob.does("show", run["id"], "--no-projection")
        record = self.run(run["id"])
        state = json.loads(self.state()[0])
        self.check(record["status"] == "applied", "applied")
        self.check(record["proposer"]["person"] == "alice" and ":assumed-role/alice/" in record["proposer"]["arn"], "proposed by alice, under her role")
        decision = record["decision"]
        self.check(decision["by"] == {"kind": "slack", "person": "bob", "team": TEAM, "user": bob}, "approved by bob, as his user in Slack")
        self.check(decision["projection"] == record["projection"]["object"]["digest"] == run["projection"]["object"]["digest"], "on the digest that was shown")
        self.check(record["plan"]["artifact"] == run["plan"]["artifact"] and record["plan"]["artifact"]["version_id"], "the plan applied is the plan approved, by digest and version")
        self.check(record["plan"]["engine"] == {"name": self.gate.engine.name, "version": self.gate.engine.version}, "made and applied by the pinned engine")
        self.check(record["plan"]["caller"] != record["apply"]["caller"], "planned and applied under two different roles")
        after = record["apply"]["state_after"]
        self.check(record["apply"]["state_before"] == {"state": "none"}, "there was no state before")
        self.check((after["version_id"], after["serial"], after["lineage"]) == (self.state()[1], state["serial"], state["lineage"]), "afterwards the state is the one in the bucket")
        self.narrator.tell("", "Its audit trail is a chain of digests, which the tool verifies.")
        self.bob.does("audit", run["id"])

    def press(self, message, user, name):
        """Somebody presses Approve, and confirms it."""
        self.narrator.tell("", f"({name} presses Approve, and confirms)")
        go_on()
        answer = self.slack.press(self.gate.api, message, "plangate.approve", user)
        self.check(answer.status == 200 and answer.seconds < 3, f"the gate has answered Slack within its three seconds ({answer.seconds:.1f} s)")

    def propose_again(self):
        self.narrator.chapter("Proposed again: no changes", "The same folder once more. There is nothing to decide, so nobody is asked.")
        before = self.state()[1]
        self.alice.does("propose", "shop", "--workspace", "shop", "--watch")
        self.check(self.last_run()["status"] == "no_changes" and self.state()[1] == before, "the run ended as `no_changes`")

    def move_the_state(self):
        self.narrator.chapter(
            "The state changes behind the gate's back", "Alice proposes a new version of the shop. Before bob approves, somebody else writes the state.")
        self.edit_the_folder()
        self.alice.does("propose", "shop", "--workspace", "shop", "--watch", expect=WAITS)
        run = self.last_run()
        content, version = self.state()
        moved = json.loads(content)
        moved["serial"] += 1
        moved_to = self.stack.client("s3").put_object(Bucket=self.bucket, Key=self.outputs["StateKey"], Body=json.dumps(moved, indent=2).encode())["VersionId"]
        self.narrator.tell("", f"(an operator of the account writes serial {moved['serial']} into the state bucket, around the gate)")
        self.bob.does("approve", run["id"], "--projection", run["projection"]["object"]["digest"], "--watch", expect=FAILED)
        record = self.run(run["id"])
        self.check(record["plan"]["state"]["version_id"] == version != moved_to, "the plan was made against the state as it had been")
        self.check(record["failure"]["reason"] == "state-identity-mismatch", "the apply failed with `state-identity-mismatch`")
        self.check(self.state() == (json.dumps(moved, indent=2).encode(), moved_to), "and nothing was changed")

    def edit_the_folder(self):
        """A new image, more replicas, one thing gone: every mark that plans know."""
        path = self.folder / "shop" / "main.tf"
        text = path.read_text()
        text = text.replace('"shop:1.4.2"', '"shop:1.5.0"').replace("replicas = 2", "replicas = 3")
        path.write_text(text[:text.index('resource "terraform_data" "banner"')].rstrip() + "\n")

    def change_the_secret(self):
        self.narrator.chapter(
            "The password is changed",
            "The engine repeats a sensitive input, unmasked, in the `output` that it computes: the old password stands in the clear in",
            "the plan. The projection hides it there too.")
        self.gate.secret(self.outputs, "database_password", self.second_secret)
        shown = self.alice.does("propose", "shop", "--workspace", "shop", "--watch", expect=WAITS)
        run = self.last_run()
        document = self.stack.client("s3").get_object(Bucket=run["plan"]["document"]["bucket"], Key=run["plan"]["document"]["key"])["Body"].read()
        database = next(each["change"] for each in json.loads(document)["resource_changes"] if each["address"] == "terraform_data.database")
        marks = database["before_sensitive"] if isinstance(database["before_sensitive"], dict) else {}
        self.check(database["before"]["output"]["password"] == self.first_secret and not marks.get("output"), "the engine's own plan document has the old password, not marked as sensitive")
        self.check(self.first_secret not in shown and self.second_secret not in shown, "the projection has neither the old nor the new one")
        self.check(all(mark in shown for mark in ("~ ", "-/+ ", "- ")), "what is changed, replaced and destroyed is marked `~`, `-/+`, `-`")
        self.bob.does("approve", run["id"], "--projection", run["projection"]["object"]["digest"], "--watch")
        self.check(self.run(run["id"])["status"] == "applied" and self.second_secret.encode() in self.state()[0], "applied: the state has the new password")

    def search_everywhere(self):
        self.narrator.chapter(
            "Where the passwords are", "Every item, object version, log line, execution, task and file of the stack is searched, and every answer of",
            "this story: for both passwords, as they are, escaped, encoded, and inside of archives.")
        self._heard += [("what was said in Slack", json.dumps([message.versions, self.slack.told]).encode()) for message in self.slack.messages]
        found = self._search.places([self.first_secret, self.second_secret], self._heard)
        self.narrator.tell(f"{self._search.looked:,} places were searched. Parameter Store, where the passwords come from, is left out.")
        exchange = self.gate.outputs["ExchangeBucket"]
        kinds = {"the state": f"s3://{self.bucket}/{self.outputs['StateKey']}", "the plan artifact": f"s3://{self.bucket}/artifacts/",
                 "the plan document": f"s3://{exchange}/documents/{self.workspace}/"}
        for which, secret in (("first", self.first_secret), ("second", self.second_secret)):
            left = found[secret] - {f"ssm://{self.outputs['SecretPrefix']}database_password"}
            self.narrator.tell("", f"The {which} password is in")
            for kind, prefix in kinds.items():
                here = {place for place in left if place.startswith(prefix) and not place.endswith("(metadata)")}
                if not here:
                    raise NotAsTold(f"the {which} password is not in {kind}, where it must be: the search sees too little")
                for place in sorted(here):
                    self.narrator.tell(f"  {kind:<18} {place}")
                left -= here
            if left:
                raise NotAsTold(f"the {which} password is in {', '.join(sorted(left))}")
            self.narrator.good("and nowhere else")

    # -- looking ---------------------------------------------------------------------------------------------------

    def run(self, identity):
        """A run's record."""
        return self.bob.asks("show", identity, "--no-projection")["run"]

    def last_run(self):
        """The newest run's record."""
        return self.run(self.bob.asks("runs", "--workspace", self.workspace, "--limit", "1")["runs"][0]["id"])

    def state(self):
        """The state's bytes and version, read as the stack's root."""
        found = self.stack.client("s3").get_object(Bucket=self.bucket, Key=self.outputs["StateKey"])
        return found["Body"].read(), found["VersionId"]


BROKEN_OFF = threading.Event()


def interrupted(*_):
    """A signal that ends the story: what was started is ended too, and only then we."""
    BROKEN_OFF.set()
    raise KeyboardInterrupt


def go_on():
    """Ends the story here if a signal came where an exception could not be raised, in a callback of the interpreter's."""
    if BROKEN_OFF.is_set():
        raise KeyboardInterrupt


def main():
    """Tells the story; gives the exit code."""
    parser = argparse.ArgumentParser(prog="python -m local.demo", description=__doc__.splitlines()[0])
    parser.add_argument("--profile", default="dev", help="the cargo profile of the binaries")
    arguments = parser.parse_args()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, interrupted)
    narrator, began = Narrator(), time.monotonic()
    try:
        engine = deploy.find_engine()
        narrator.title(
            "plangate: a run, from proposal to applied",
            f"Engine: {engine.name} {engine.version}. AWS: emulated on 127.0.0.1, IAM switched on. Nothing outside of this repository is touched.")
        with Stack.start(f"demo-{os.getpid()}") as stack:
            # A folder of the stack's, so that it goes when the stack goes.
            folder = stack.directory / "desk"
            folder.mkdir(mode=0o700)
            with Slack() as slack:
                Story(narrator, stack, folder, arguments.profile, slack).tell()
            narrator.part("The end")
            narrator.tell("stopping the stack")
        narrator.tell(f"All was as told. No process and no file is left. ({time.monotonic() - began:.0f} s)")
        return 0
    except NotAsTold as error:
        narrator.bad("Not as told:", error)
        return 1
    except StackError as error:
        narrator.bad("Error:", error)
        return 1
    except KeyboardInterrupt:
        narrator.bad("Broken off:", "everything that was started has been ended")
        return 130


if __name__ == "__main__":
    sys.exit(main())
