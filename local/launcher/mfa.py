"""A second factor: who assumes a role with the code of a virtual MFA device of theirs.

AWS: AssumeRole with SerialNumber and TokenCode, by an IAM user to whom that device belongs, is judged with aws:MultiFactorAuthPresent
true and aws:MultiFactorAuthAge; a code is good for half a minute, a little before and after, and once. A wrong one is refused. The emulator
hands out devices whose seed is no base32, and does not look at codes at all.
"""

import base64
import dataclasses
import hmac
import secrets
import time
import urllib.parse

from ministack.core import iam_evaluator
from ministack.services import iam

from .. import otp
from . import request

SECONDS = otp.SECONDS
_create_virtual_mfa_device = iam._create_virtual_mfa_device
_used = {}


def install():
    """Puts the supplement in place, around what is there already."""
    judge = iam_evaluator.evaluate_trust_policy
    iam_evaluator.evaluate_trust_policy = lambda document, caller, context=None: evaluate_trust_policy(judge, document, caller, context)
    handlers = [table for table in vars(iam).values() if isinstance(table, dict) and table.get("CreateVirtualMFADevice") is _create_virtual_mfa_device]
    for table in handlers:
        table["CreateVirtualMFADevice"] = create_virtual_mfa_device
    if not handlers:
        raise RuntimeError("the emulator makes MFA devices elsewhere")


def create_virtual_mfa_device(parameters):
    """The emulator's own, with a seed that an authenticator takes."""
    known = set(iam._mfa_devices.keys())
    uuid, iam.new_uuid = iam.new_uuid, lambda: base64.b32encode(secrets.token_bytes(20)).decode()
    try:
        return _create_virtual_mfa_device(parameters)
    finally:
        iam.new_uuid = uuid
        for serial in set(iam._mfa_devices.keys()) - known:
            _used.pop(serial, None)


def evaluate_trust_policy(judge, document, caller, context):
    """What `judge`, the function that was there before, says; with what the request says of a second factor."""
    if context is not None and context.action == "sts:AssumeRole":
        body = urllib.parse.parse_qs(request.current.get().body.decode("utf-8", "replace"))
        serial, shown = (body.get(name, [""])[0] for name in ("SerialNumber", "TokenCode"))
        if serial or shown:
            if not _holds(serial, shown, caller):
                return False
            keys = {"aws:multifactorauthpresent": "true", "aws:multifactorauthage": "0"}
            context = dataclasses.replace(context, principal_keys={**(context.principal_keys or {}), **keys})
    return judge(document, caller, context)


def _holds(serial, shown, caller):
    device = iam._mfa_devices.get(serial)
    if device is None or not device["User"] or caller.rpartition(":user/")[2].rpartition("/")[2] != device["User"] or ":user/" not in caller:
        return False
    now = time.time()
    for step in (-1, 0, 1):
        moment = int(now) // SECONDS + step
        if hmac.compare_digest(otp.code(base64.b32decode(device["Base32StringSeed"]), moment * SECONDS), shown) and moment > _used.get(serial, -1):
            _used[serial] = moment
            return True
    return False
