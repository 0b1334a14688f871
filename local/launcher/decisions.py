"""A journal of what IAM was asked and what it said, for tests that hold policies against their use.

AWS: CloudTrail and IAM Access Analyzer tell which permissions a role has used. The emulator keeps no record of it.

Each line is `[ARN, action, resource, allowed]`, in JSON. Nothing is noted unless the file is there, which a test makes.
"""

import json
import os
import threading

from ministack.services import sts

_writing = threading.Lock()


def note(arn, action, resource, allowed):
    """Notes one decision about the caller `arn`."""
    path = os.environ["LOCAL_DECISIONS"]
    if os.path.exists(path):
        with _writing, open(path, "a") as journal:
            print(json.dumps([arn, action, resource, allowed]), file=journal)


def of_key(access_key):
    """The ARN of the session that a key belongs to; empty for users and roots."""
    return (sts._sessions.get(access_key) or {}).get("Arn", "")
