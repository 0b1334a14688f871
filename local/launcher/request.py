"""The request that is being authorized: what the emulator's policy check is not told about it."""

import contextvars
import dataclasses
import json

from ministack.core import iam_actions


@dataclasses.dataclass(frozen=True)
class Request:
    """An AWS API request as it came in."""

    method: str = ""
    path: str = ""
    headers: dict = dataclasses.field(default_factory=dict)
    body: bytes = b""
    params: dict = dataclasses.field(default_factory=dict)

    def json(self):
        """The body as an object; empty if it is something else."""
        try:
            data = json.loads(self.body or b"{}")
        except ValueError:
            return {}
        return data if isinstance(data, dict) else {}


current = contextvars.ContextVar("request", default=Request())
_extract_iam_action = iam_actions.extract_iam_action


def install():
    """Puts the supplement in place."""
    iam_actions.extract_iam_action = extract_iam_action


def extract_iam_action(service, method, path, headers, body, params):
    """The emulator's own, which it calls first for each request and gives everything."""
    current.set(Request(method, path, headers, body or b"", params or {}))
    return _extract_iam_action(service, method, path, headers, body, params)
