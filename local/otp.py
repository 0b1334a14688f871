"""Virtual MFA devices of the stack's people, and the codes that they show (RFC 6238)."""

import base64
import dataclasses
import hashlib
import hmac
import time

SECONDS = 30


@dataclasses.dataclass(frozen=True)
class Device:
    """A device that belongs to an IAM user."""

    serial: str
    seed: bytes

    @classmethod
    def of(cls, stack, user):
        """Makes a device and gives it to a user."""
        iam = stack.client("iam")
        made = iam.create_virtual_mfa_device(VirtualMFADeviceName=user)["VirtualMFADevice"]
        device = cls(made["SerialNumber"], base64.b32decode(made["Base32StringSeed"]))
        now = time.time()
        iam.enable_mfa_device(
            UserName=user, SerialNumber=device.serial, AuthenticationCode1=device.code(now - SECONDS), AuthenticationCode2=device.code(now))
        return device

    def code(self, moment=None):
        """The six digits that it shows at a moment; now if none is named."""
        return code(self.seed, time.time() if moment is None else moment)


def code(seed, moment):
    """The six digits of a secret at a moment."""
    digest = hmac.digest(seed, (int(moment) // SECONDS).to_bytes(8, "big"), hashlib.sha1)
    place = digest[-1] & 15
    return f"{(int.from_bytes(digest[place:place + 4], 'big') & 0x7FFFFFFF) % 1_000_000:06}"
