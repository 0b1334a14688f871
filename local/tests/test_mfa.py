"""A second factor: what AssumeRole takes for one."""

import json
import time

import botocore.exceptions
import pytest

from local import otp
from local.stack import ACCOUNT


@pytest.fixture
def role(lab):
    """A role that trusts the account's users who show a second factor."""
    trust = {"Effect": "Allow", "Principal": {"AWS": f"arn:aws:iam::{ACCOUNT}:root"}, "Action": "sts:AssumeRole",
             "Condition": {"Bool": {"aws:MultiFactorAuthPresent": "true"}, "NumericLessThan": {"aws:MultiFactorAuthAge": "3600"}}}
    return lab.iam.create_role(RoleName=f"guarded-{lab.id}", AssumeRolePolicyDocument=json.dumps(
        {"Version": "2012-10-17", "Statement": [trust]}))["Role"]["Arn"]


def test_a_code_of_ones_own_device_is_a_second_factor_once(lab, role):
    assume = {"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": "sts:AssumeRole", "Resource": "*"}]}
    names = [f"{name}-{lab.id}" for name in ("owner", "other")]
    owner, other = (lab.stack.user(name, assume) for name in names)
    device = otp.Device.of(lab.stack, names[0])

    def enters(session, **factor):
        try:
            session.client("sts").assume_role(RoleArn=role, RoleSessionName="test", **factor)
        except botocore.exceptions.ClientError as error:
            assert error.response["Error"]["Code"] == "AccessDenied", error
            return False
        return True

    assert not enters(owner)
    now = time.time()
    wrong = next(f"{number:06}" for number in range(10) if f"{number:06}" not in {device.code(now + step) for step in (-60, -30, 0, 30, 60)})
    assert not enters(owner, SerialNumber=device.serial, TokenCode=wrong)
    assert not enters(owner, SerialNumber=device.serial, TokenCode=device.code(now - 300))
    assert not enters(other, SerialNumber=device.serial, TokenCode=device.code(now))
    assert enters(owner, SerialNumber=device.serial, TokenCode=device.code(now))
    assert not enters(owner, SerialNumber=device.serial, TokenCode=device.code(now))
