"""An auditor: a role with the gate's auditor policy and nothing else, who runs the command line tool and reads exports."""

import contextlib
import hashlib
import json
import shutil
import subprocess

from patience import wait_until
from people import Answer

from local import deploy

NAME = "auditor"


def sealed(event):
    """An event in the one form, and its digest."""
    text = json.dumps(event, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return text, "sha256:" + hashlib.sha256(text.encode()).hexdigest()


class Auditor:
    """Reads the stores of the audit with credentials of their own; no part of the gate is asked."""

    def __init__(self, world):
        self.world, iam = world, world.stack.client("iam")
        arn = deploy.make_person(world.stack, NAME)
        with contextlib.suppress(iam.exceptions.NoSuchEntityException):
            iam.delete_role_policy(RoleName=NAME, PolicyName="call")
        iam.attach_role_policy(RoleName=NAME, PolicyArn=world.outputs["AuditorPolicyArn"])
        self._environment = {**world.stack.environment(world.stack.session_for_role(arn, "audit")), "PLANGATE_ARCHIVE": self.bucket}

    @property
    def bucket(self):
        """The locked bucket."""
        return self.world.outputs["ArchiveBucket"]

    def cli(self, *arguments, expect=0, offline=False):
        """Runs `plangate --json audit ...`; without credentials, addresses or anything else if `offline`."""
        environment = {"PATH": "/usr/bin:/bin", "HOME": "/nonexistent", **({} if offline else self._environment)}
        command = [str(deploy.binary("plangate", "dev")), "--json", "audit", *map(str, arguments)]
        done = subprocess.run(command, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=300)
        answer = Answer(done.returncode, done.stdout, done.stderr)
        assert expect is None or answer.code == expect, f"`plangate audit {' '.join(map(str, arguments))}`: {answer}"
        return answer

    def export(self, folder):
        """Exports the stores as they are."""
        self.cli("export", folder)
        return Export(self, folder)

    def verify(self, expect=0):
        """Verifies the stores as they are; gives the report."""
        return self.cli("verify", expect=expect).json

    def events(self):
        """Every event of the table, as (chain, place, bytes)."""
        pages = self.world.stack.client("dynamodb").get_paginator("scan").paginate(TableName=self.world.outputs["AuditTable"], ConsistentRead=True)
        return [(item["pk"]["S"], int(item["sk"]["S"]), item["event"]["S"].encode()) for page in pages for item in page["Items"]]

    def key(self, chain, place):
        """Where an event is archived: known beyond the day of a run by its chain and place alone."""
        kind, _, name = chain.partition("/")
        keys = self.world.keys(f"events/{kind}/", self.bucket)
        wanted = f"/{name}/{place:010}.json" if name else f"events/{kind}/{place:010}.json"
        return next((key for key in keys if key.endswith(wanted)), None)

    def archived(self):
        """Waits until the stream has brought every event of the table to the archive."""
        def all_there():
            there = {key.rpartition("/")[0].rpartition("/")[2] + "/" + key.rpartition("/")[2] for key in self.world.keys("events/", self.bucket)}
            return all(f"{chain.rpartition('/')[2]}/{place:010}.json" in there for chain, place, _ in self.events())
        wait_until(all_there, "all events to be archived")

    def call(self, function):
        """Calls the function as its schedule does; gives what it did."""
        answer = self.world.stack.client("lambda").invoke(FunctionName=self.world.outputs[f"{function}FunctionArn"], Payload=b"{}")
        said = json.loads(answer["Payload"].read())
        assert "FunctionError" not in answer, said
        return said

    def noticed(self, chain):
        """What the gate itself wrote down of tampering with a chain."""
        return [json.loads(self.world.object(key, self.bucket)) for key in self.world.keys(f"tampering/{chain}/", self.bucket)]


class Export:
    """A folder of plain files, and what somebody may do to them."""

    def __init__(self, auditor, folder):
        self.auditor, self.folder = auditor, folder

    def copy(self, folder):
        """The same, for mischief."""
        shutil.copytree(self.folder, folder)
        return Export(self.auditor, folder)

    def lines(self, name):
        """The values of a file."""
        return [json.loads(line) for line in (self.folder / name).read_text().splitlines()]

    def write(self, name, values):
        """Writes a file anew."""
        (self.folder / name).write_text("".join(json.dumps(value) + "\n" for value in values))

    def change(self, name, change):
        """Changes a file's values; `change` gets the list."""
        values = self.lines(name)
        change(values)
        self.write(name, values)

    def change_end(self, chain, change):
        """Changes a chain's end; `change` gets {seq, digest} and may give another, or None to drop it."""
        kept = []
        for line in self.lines("heads.jsonl"):
            if line["chain"] == chain:
                head = change(json.loads(line["head"]))
                if head is None:
                    continue
                line = {**line, "head": json.dumps(head)}
            kept.append(line)
        self.write("heads.jsonl", kept)

    def verify(self, expect=0):
        """Verifies offline; gives the report."""
        return self.auditor.cli("verify", self.folder, expect=expect, offline=True).json

    def first(self):
        """The first finding: chain, place, source, code."""
        finding = self.verify(expect=1)["findings"][0]
        return finding["chain"], finding["seq"], finding["source"], finding["fault"]["code"]
