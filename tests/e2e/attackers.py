"""Who attacks from within: a stolen role, and a function that tells the workflow what is not so."""

import contextlib
import io
import json
import sys
import zipfile

from local.deploy import CODE_BUCKET, CODE_PREFIX, FUNCTIONS
from local.stack import ACCOUNT, refused

__all__ = ["FUNCTIONS", "lying", "refused", "role_of", "stolen"]

# A function that answers the same, whatever it is asked.
LIAR = '''\
#!{python}
import os, urllib.request
API = "http://" + os.environ["AWS_LAMBDA_RUNTIME_API"] + "/2018-06-01/runtime/invocation/"
while True:
    with urllib.request.urlopen(API + "next") as asked:
        request = asked.headers["Lambda-Runtime-Aws-Request-Id"]
    urllib.request.urlopen(urllib.request.Request(API + request + "/response", {answer!r}, method="POST")).read()
'''


def stolen(world, arn):
    """A session of a role that a service has, in somebody else's hands. Its trust is opened for that; what it may do is not touched."""
    sessions = world.__dict__.setdefault("_stolen", {})
    if arn not in sessions:
        iam, name = world.stack.client("iam"), arn.rsplit("/", 1)[-1]
        trust = iam.get_role(RoleName=name)["Role"]["AssumeRolePolicyDocument"]
        statements = [trust["Statement"]] if isinstance(trust["Statement"], dict) else trust["Statement"]
        thief = {"Effect": "Allow", "Principal": {"AWS": f"arn:aws:iam::{ACCOUNT}:root"}, "Action": "sts:AssumeRole"}
        iam.update_assume_role_policy(RoleName=name, PolicyDocument=json.dumps({**trust, "Statement": [*statements, thief]}))
        sessions[arn] = world.stack.session_for_role(arn, "thief")
        iam.update_assume_role_policy(RoleName=name, PolicyDocument=json.dumps(trust))
    return sessions[arn]


def role_of(world, function):
    """The ARN of a function's role."""
    return world.outputs["".join(word.capitalize() for word in function.split("-")) + "RoleArn"]


@contextlib.contextmanager
def lying(world, function, answer):
    """Within this block a function of the gate is somebody else's code, which answers this and does nothing."""
    lambdas, name = world.stack.client("lambda"), f"{world.gate.name}-{function}"
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as package:
        entry = zipfile.ZipInfo("bootstrap")
        entry.external_attr = 0o755 << 16
        package.writestr(entry, LIAR.format(python=sys.executable, answer=json.dumps(answer).encode()))
    lambdas.update_function_code(FunctionName=name, ZipFile=archive.getvalue())
    try:
        yield
    finally:
        lambdas.update_function_code(FunctionName=name, S3Bucket=CODE_BUCKET, S3Key=f"{CODE_PREFIX}/{function}.zip")
