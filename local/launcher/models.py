"""Models on Bedrock: Converse goes to a scripted server of this machine.

AWS: Converse is authorized as bedrock:InvokeModel on the model, or on the inference profile, that it names; a model answers. The emulator:
authorizes another action, and answers by itself. Where a file `models.url` stands in the stack's directory, requests that are permitted are
sent on to the address in it, and its answer is the answer; a server that is away is a service that is unavailable.
"""

import json
import pathlib
import urllib.error
import urllib.parse
import urllib.request

from ministack.core import iam_actions
from ministack.core.responses import get_account_id, get_region
from ministack.services import bedrock_runtime

# The launcher's working directory is the stack's.
ADDRESS = pathlib.Path("models.url")
SECONDS = 300

_converse = bedrock_runtime._converse
_others = {}


def install():
    """Puts the supplements in place, over what others have supplemented already."""
    bedrock_runtime._converse = converse
    for ours in (extract_iam_action, extract_resource_arn):
        _others[ours.__name__] = getattr(iam_actions, ours.__name__)
        setattr(iam_actions, ours.__name__, ours)


def extract_iam_action(service, method, path, *rest):
    """The emulator's own, but for Converse."""
    if service == "bedrock-runtime" and method == "POST" and path.endswith("/converse"):
        return "bedrock:InvokeModel"
    return _others["extract_iam_action"](service, method, path, *rest)


def extract_resource_arn(service, method, path, *rest):
    """The emulator's own, but for the model of Converse."""
    if service == "bedrock-runtime" and path.endswith("/converse"):
        return model_arn(urllib.parse.unquote(path.split("/")[2]))
    return _others["extract_resource_arn"](service, method, path, *rest)


def model_arn(model):
    """The ARN of a model or of an inference profile (whose id begins with a geography)."""
    if model.startswith("arn:"):
        return model
    if model.split(".")[0] in ("us", "eu", "apac", "global"):
        return f"arn:aws:bedrock:{get_region()}:{get_account_id()}:inference-profile/{model}"
    return f"arn:aws:bedrock:{get_region()}::foundation-model/{model}"


def converse(model, headers, body):
    """The scripted server's answer; the emulator's own where there is no such server."""
    if not ADDRESS.is_file():
        return _converse(model, headers, body)
    url = f"{ADDRESS.read_text().strip()}/model/{urllib.parse.quote(model, safe='')}/converse"
    request = urllib.request.Request(url, body or b"{}", {"Content-Type": "application/json"}, method="POST")
    try:
        with urllib.request.urlopen(request, timeout=SECONDS) as answer:
            return answer.status, {"Content-Type": "application/json"}, answer.read()
    except urllib.error.HTTPError as error:
        return error.code, {"Content-Type": "application/json"}, error.read()
    except OSError:
        away = {"__type": "ServiceUnavailableException", "message": "the model is away"}
        return 503, {"Content-Type": "application/json", "x-amzn-errortype": away["__type"]}, json.dumps(away).encode()
