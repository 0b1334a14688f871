"""People: each has an IAM role of their own, and acts through the command line tool or through signed requests to the API."""

import dataclasses
import http.client
import json
import subprocess
import urllib.parse

import botocore.auth
import botocore.awsrequest
import published

from local import deploy
from local.stack import ACCOUNT, REGION

SECONDS = 120


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

    def cli(self, *arguments, expect=0, stdin=None, seconds=SECONDS):
        """Runs `plangate --json`; an assertion unless it ends with the exit code `expect` (None: any)."""
        command = [str(deploy.binary("plangate", "dev")), "--json", *map(str, arguments)]
        done = subprocess.run(
            command, env=self._environment, input=stdin, stdin=None if stdin is not None else subprocess.DEVNULL,
            capture_output=True, text=True, timeout=seconds)
        answer = Answer(done.returncode, done.stdout, done.stderr)
        self.world.heard(f"{self.name}$ plangate {' '.join(map(str, arguments))}", answer.out + answer.err)
        if expect is not None and answer.code != expect:
            raise AssertionError(f"`plangate {' '.join(map(str, arguments))}` as {self.name}: {answer}")
        if answer.code == 0 and "--follow" not in arguments:
            published.printed(str(arguments[0]), answer.out)
        return answer

    def call(self, method, path, body=None):
        """A signed request to the API; gives the status and the body as JSON. A body in bytes is sent as it is.

        Whatever it is answered must be as the API's description says.
        """
        content = body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode()
        url = urllib.parse.urlsplit(self.world.gate.api)
        request = botocore.awsrequest.AWSRequest(method, f"{self.world.gate.api}{path}", data=content, headers={"content-type": "application/json"})
        botocore.auth.SigV4Auth(self.session.get_credentials(), "execute-api", REGION).add_auth(request)
        connection = http.client.HTTPConnection("127.0.0.1", url.port, timeout=60)
        try:
            connection.request(method, path, content, {**dict(request.headers), "Host": url.netloc})
            answer = connection.getresponse()
            status, kind, text = answer.status, answer.getheader("content-type"), answer.read()
        finally:
            connection.close()
        self.world.heard(f"{self.name}: {method} {path}", text.decode())
        published.answered(method, path, status, kind, text)
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
