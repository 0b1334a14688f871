"""The laptop stack from outside: starts and stops the emulator, gives sessions, deploys templates.

    python -m local.stack up [NAME]      start a stack and keep it; prints the environment to use
    python -m local.stack down [NAME]    stop it and remove all that it left
    python -m local.stack env [NAME]     print the environment again

From Python, `with Stack.start("name") as stack:` gives one that ends with the block, and with the process if that dies.
"""

import argparse
import contextlib
import dataclasses
import http.client
import json
import os
import pathlib
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import time
import uuid

from deploy import DeployError, changes
from deploy.release import zip_program

ROOT = pathlib.Path(__file__).resolve().parent.parent
STATE = ROOT / ".plangate"
ACCOUNT, REGION = "111122223333", "eu-central-1"
# A second account of the same stack, for estates elsewhere.
SECOND_ACCOUNT = "444455556666"
START_SECONDS, STOP_SECONDS = 60, 20
PAUSE = 0.1


class StackError(Exception):
    """The stack could not do what was asked; the message says why."""


def refused(call, *arguments, **named):
    """Whether a call of boto3's is refused for want of permission; any other failure is one."""
    import botocore.exceptions

    try:
        call(*arguments, **named)
    except botocore.exceptions.ClientError as error:
        if error.response["Error"]["Code"] in ("AccessDenied", "AccessDeniedException"):
            return True
        raise
    return False


def wait_for(condition, seconds, what, pause=0.02):
    """Asks until `condition` gives something true, and gives that; a StackError after `seconds`."""
    deadline = time.monotonic() + seconds
    while not (result := condition()):
        if time.monotonic() > deadline:
            raise StackError(f"{what}: not within {seconds} s")
        time.sleep(pause)
    return result


@dataclasses.dataclass
class Stack:
    """One running emulator with a directory of its own under `.plangate`."""

    name: str
    port: int
    pid: int
    started: str
    root_key: str
    root_secret: str
    second_root: str

    # -- life -----------------------------------------------------------------------------------------------------

    @classmethod
    def start(cls, name, keep=False):
        """Starts a stack on a free port of 127.0.0.1. Unless `keep`, it ends with this process at the latest."""
        directory = STATE / name
        with contextlib.suppress(StackError):
            cls.load(name)
            raise RuntimeError(f"the stack `{name}` is running already")
        cls._sweep()
        shutil.rmtree(directory, ignore_errors=True)
        for part in ("tmp", "containers", "images", "home"):
            with contextlib.suppress(FileNotFoundError):  # the last stack to stop has just removed the parent: once more
                (directory / part).mkdir(parents=True, mode=0o700, exist_ok=True)
            (directory / part).mkdir(parents=True, mode=0o700, exist_ok=True)
        directory.chmod(0o711)  # the engine, as another user, passes through to its work
        for _ in range(5):
            stack = cls._launch(name, directory, keep)
            if stack is not None:
                return stack
        raise StackError(f"no free port for the emulator; see {directory / 'emulator.log'}")

    @classmethod
    def _sweep(cls):
        """Removes what stacks left whose owner was killed."""
        for directory in STATE.iterdir() if STATE.is_dir() else ():
            if not (directory / "stack.json").is_file() or os.environ.get("PLANGATE_KEEP"):
                continue
            with contextlib.suppress(StackError, OSError):
                cls.load(directory.name)
                continue
            with contextlib.suppress(OSError):
                if not any((directory / "containers").iterdir()):
                    shutil.rmtree(directory)

    @classmethod
    def _launch(cls, name, directory, keep):
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        key, secret = f"AKIA{secrets.token_hex(8).upper()}", secrets.token_urlsafe(30)
        second = f"{SECOND_ACCOUNT}:ASIA{secrets.token_hex(8).upper()}:{secrets.token_urlsafe(30)}:{secrets.token_urlsafe(60)}"
        # Nothing of the caller's environment: functions and tasks must not find what a laptop has in it.
        environment = {
            "PATH": os.defpath, "HOME": str(directory / "home"), "TMPDIR": str(directory / "tmp"), "LANG": "C.UTF-8",
            "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "local/launcher/standin")]), "PYTHONUNBUFFERED": "1",
            "AUTH": "true", "BIND_HOST": "127.0.0.1", "GATEWAY_PORT": str(port), "MINISTACK_HOST": "localhost",
            "MINISTACK_ACCOUNT_ID": ACCOUNT, "MINISTACK_REGION": REGION, "AWS_DEFAULT_REGION": REGION,
            "AWS_ACCESS_KEY_ID": key, "AWS_SECRET_ACCESS_KEY": secret, "AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}",
            "LOCAL_IMAGES": str(directory / "images"), "LOCAL_CONTAINERS": str(directory / "containers"), "LOCAL_FAULTS": str(directory / "faults"),
            "LOCAL_DECISIONS": str(directory / "decisions"),
            "LOCAL_SECOND_ROOT": second, "S3_DATA_DIR": str(directory / "s3"), "STATE_DIR": str(directory / "state"), "LOG_LEVEL": "INFO",
            # These two would listen on fixed ports.
            "IOT_MTLS_ENABLED": "0", "SFTP_ENABLED": "0",
            **({} if keep else {"LOCAL_FOLLOW_OWNER": "1"}),
        }
        with open(directory / "emulator.log", "ab") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", "local.launcher"], cwd=directory, env=environment, start_new_session=True,
                stdin=subprocess.DEVNULL if keep else subprocess.PIPE, stdout=log, stderr=log)
        stack = cls(name, port, process.pid, _start_time(process.pid) or "", key, secret, second)
        stack._process = process
        try:
            # Complete from its first moment: others look at it.
            (directory / "new.json").touch(mode=0o600)
            (directory / "new.json").write_text(json.dumps(dataclasses.asdict(stack)))
            (directory / "new.json").rename(directory / "stack.json")
            wait_for(lambda: process.poll() is not None or stack._healthy(), START_SECONDS, "the emulator's start")
        except BaseException:  # broken off: nobody has the stack yet to stop it
            stack.stop()
            raise
        if process.poll() is None:
            return stack
        if "already in use" in (directory / "emulator.log").read_text():
            return None  # somebody was faster: take another port
        raise StackError(f"the emulator does not start; see {directory / 'emulator.log'}")

    @classmethod
    def load(cls, name):
        """A stack that was started with `keep`, by another process perhaps."""
        try:
            stack = cls(**json.loads((STATE / name / "stack.json").read_text()))
        except (OSError, ValueError, TypeError):
            raise StackError(f"there is no stack `{name}`; start it with: make up") from None
        if _start_time(stack.pid) != stack.started:
            raise StackError(f"the stack `{name}` is not running; start it with: make up")
        return stack

    def _healthy(self):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=5)
        try:
            connection.request("GET", "/_ministack/health")
            return connection.getresponse().status == 200
        except (OSError, http.client.HTTPException):
            return False
        finally:
            connection.close()

    def stop(self):
        """Ends the emulator, every function and every container, and removes what they left. Safe to call twice."""
        directory = STATE / self.name
        if _start_time(self.pid) in (None, self.started):
            # The group is the emulator and its functions. There is nothing to save, so nothing to wait for. Containers end
            # when the emulator's side of their pipe closes.
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.pid, signal.SIGKILL)
        wait_for(self._gone, STOP_SECONDS, "the emulator's end")
        containers = directory / "containers"
        wait_for(lambda: not containers.is_dir() or not any(containers.iterdir()), STOP_SECONDS, "the containers' end")
        if not os.environ.get("PLANGATE_KEEP"):  # to look at the emulator's log afterwards
            shutil.rmtree(directory, ignore_errors=True)
            with contextlib.suppress(OSError):
                STATE.rmdir()

    def _gone(self):
        if (process := getattr(self, "_process", None)) is not None:
            process.poll()  # reap our own child
        return not _group_alive(self.pid)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()

    # -- places ---------------------------------------------------------------------------------------------------

    @property
    def directory(self):
        """The stack's own directory; gone after `stop`."""
        return STATE / self.name

    @property
    def images(self):
        """Where images are: `NAME/runner` for the image `NAME:TAG`."""
        return self.directory / "images"

    @property
    def endpoint(self):
        """The address of every AWS service but the APIs of API Gateway."""
        return f"http://127.0.0.1:{self.port}"

    def api_url(self, api_id):
        """The address of an HTTP API's `$default` stage. Names under `.localhost` mean this machine (RFC 6761)."""
        return f"http://{api_id}.execute-api.localhost:{self.port}"

    # -- identities -----------------------------------------------------------------------------------------------

    def session(self, access_key=None, secret_key=None, token=None):
        """A boto3 session that talks to this stack; without credentials, as root: for setting up, never for the story."""
        import boto3
        import botocore.config
        import botocore.session

        core = botocore.session.Session()
        # The caller's own AWS configuration must not matter.
        core.set_config_variable("config_file", os.devnull)
        core.set_config_variable("credentials_file", os.devnull)
        core.set_default_client_config(botocore.config.Config(retries={"mode": "standard", "max_attempts": 2}))
        session = boto3.Session(
            aws_access_key_id=access_key or self.root_key, aws_secret_access_key=secret_key or self.root_secret,
            aws_session_token=token, region_name=REGION, botocore_session=core)
        plain = session.client
        session.client = lambda service, **options: plain(service, **{"endpoint_url": self.endpoint, **options})
        return session

    def client(self, service):
        """A client as root, for setting up; made once."""
        clients = self.__dict__.setdefault("_clients", {})
        if service not in clients:
            clients[service] = self.session().client(service)
        return clients[service]

    def second_account(self):
        """A session as the root of the second account, for setting up."""
        return self.session(*self.second_root.split(":")[1:])

    def user(self, name, policy=None):
        """A session of the IAM user `name`, made if need be, with this inline policy and nothing else."""
        iam = self.client("iam")
        with contextlib.suppress(iam.exceptions.EntityAlreadyExistsException):
            iam.create_user(UserName=name)
        if policy:
            iam.put_user_policy(UserName=name, PolicyName="own", PolicyDocument=json.dumps(policy))
        key = iam.create_access_key(UserName=name)["AccessKey"]
        return self.session(key["AccessKeyId"], key["SecretAccessKey"])

    def session_for_role(self, role_arn, session_name, user="plangate-local"):
        """A session of a role, assumed by an IAM user that may do nothing but that; the role's trust policy must agree."""
        policy = {"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": "sts:AssumeRole", "Resource": "*"}]}
        given = self.user(user, policy).client("sts").assume_role(RoleArn=role_arn, RoleSessionName=session_name)["Credentials"]
        return self.session(given["AccessKeyId"], given["SecretAccessKey"], given["SessionToken"])

    def environment(self, session=None):
        """The variables that lead an AWS SDK or the engine to this stack with the credentials of `session` (root if none)."""
        credentials = (session or self.session()).get_credentials().get_frozen_credentials()
        variables = {
            "AWS_ENDPOINT_URL": self.endpoint, "AWS_REGION": REGION, "AWS_DEFAULT_REGION": REGION,
            "AWS_ACCESS_KEY_ID": credentials.access_key, "AWS_SECRET_ACCESS_KEY": credentials.secret_key,
        }
        return {**variables, **({"AWS_SESSION_TOKEN": credentials.token} if credentials.token else {})}

    # -- deployment -----------------------------------------------------------------------------------------------

    def deploy(self, template, stack_name, parameters=None, session=None, tags=None):
        """Creates or updates a CloudFormation stack from a template file; gives its outputs.

        Raises a StackError with the events that tell why, if it fails.
        """
        cloudformation, url = (session or self).client("cloudformation"), self._template_url(template, session)
        try:
            change_set = changes.make(cloudformation, stack_name, url, parameters or {}, tags or {}, PAUSE)
            if change_set.changes or change_set.creates:
                return changes.outputs(changes.execute(cloudformation, change_set, PAUSE))
            # The emulator's change sets do not see what only a condition changes; its updates do.
            return changes.outputs(self._update(cloudformation, stack_name, url, parameters or {}))
        except DeployError as error:
            raise StackError(str(error)) from None

    @staticmethod
    def _update(cloudformation, stack_name, url, parameters):
        """Updates a stack without a change set; gives it."""
        asked = [{"ParameterKey": key, "ParameterValue": value} for key, value in parameters.items()]
        try:
            cloudformation.update_stack(StackName=stack_name, TemplateURL=url, Capabilities=["CAPABILITY_NAMED_IAM"], Parameters=asked)
        except cloudformation.exceptions.ClientError as error:
            if "No updates are to be performed" not in str(error):
                raise
        return changes.settled(cloudformation, stack_name, PAUSE)

    def _template_url(self, template, session=None):
        """Puts a template where CloudFormation reads it, in the account that deploys: in a request it could not be over 51,200 bytes."""
        s3, bucket = self.client("s3"), f"plangate-templates-{ACCOUNT}"
        if session is not None and (account := session.client("sts").get_caller_identity()["Account"]) != ACCOUNT:
            s3, bucket = session.client("s3"), f"plangate-templates-{account}"
        with contextlib.suppress(s3.exceptions.BucketAlreadyOwnedByYou):
            s3.create_bucket(Bucket=bucket, CreateBucketConfiguration={"LocationConstraint": REGION})
        key = f"{uuid.uuid4().hex}/{pathlib.Path(template).name}"
        s3.upload_file(str(template), bucket, key)
        return f"{self.endpoint}/{bucket}/{key}"

    def upload_function(self, bucket, key, binary):
        """Puts a function's package into a bucket."""
        self.client("s3").upload_file(str(package_function(binary)), bucket, key)


def package_function(binary):
    """The zip of a function, which holds the binary as `bootstrap` and nothing else; kept beside the binary until that changes."""
    return _kept(binary, ".zip", lambda fresh: zip_program(stripped(binary), fresh, level=1))


def stripped(binary):
    """The binary without its symbols, as a release has it: half of what each stack would carry about. Kept beside the binary until that changes."""
    def strip(fresh):
        shutil.copy2(binary, fresh)
        if shutil.which("strip"):  # what is no program it leaves as it is
            subprocess.run(["strip", "--strip-all", str(fresh)], check=False, capture_output=True)
    return _kept(binary, "", strip)


def _kept(binary, suffix, make):
    """What was made of a binary when it was last built; `make` writes it into a file."""
    binary = pathlib.Path(binary)
    kept, made = binary.parent / "packages" / f"{binary.name}{suffix}", binary.stat().st_mtime_ns
    if kept.is_file() and kept.stat().st_mtime_ns == made:
        return kept
    kept.parent.mkdir(exist_ok=True)
    fresh = kept.with_name(f"{uuid.uuid4().hex}.new")
    make(fresh)
    os.utime(fresh, ns=(made, made))
    fresh.rename(kept)
    return kept


def _start_time(pid):
    """When a process started, as the kernel counts; None if there is none. Tells a process from a later one with its pid."""
    try:
        fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[0] in "ZX" else fields[19]


def _group_alive(group):
    """Whether a process of the group runs; a zombie does not."""
    for entry in pathlib.Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
                if fields[2] == str(group) and fields[0] not in "ZX":
                    return True
    return False


def main():
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m local.stack", description=__doc__.splitlines()[0])
    parser.add_argument("command", choices=("up", "down", "env"))
    parser.add_argument("name", nargs="?", default="stack")
    arguments = parser.parse_args()
    try:
        if arguments.command == "down":
            Stack.load(arguments.name).stop()
            return
        stack = Stack.start(arguments.name, keep=True) if arguments.command == "up" else Stack.load(arguments.name)
        for key, value in stack.environment().items():
            print(f"export {key}={value}")
    except (StackError, RuntimeError) as error:
        sys.exit(f"error: {error}")


if __name__ == "__main__":
    main()
