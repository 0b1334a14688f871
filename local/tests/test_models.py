"""Bedrock's Converse: which permission it needs, on what; and where it is answered."""

import http.server
import json
import threading

import botocore.exceptions
import pytest

from local.stack import ACCOUNT, REGION

SAID = {"messages": [{"role": "user", "content": [{"text": "x"}]}]}
ONE = f"arn:aws:bedrock:{REGION}::foundation-model/one.model-1:0"
PROFILE = f"arn:aws:bedrock:{REGION}:{ACCOUNT}:inference-profile/eu.one.model-1:0"


def denied(call, **named):
    try:
        call(**named)
    except botocore.exceptions.ClientError as error:
        return error.response["Error"]["Code"] == "AccessDeniedException"
    return False


@pytest.mark.parametrize(("permitted", "asked", "allowed"), [
    (("bedrock:InvokeModel", ONE), "one.model-1:0", True),
    (("bedrock:InvokeModel", ONE), "one.model-2:0", False),
    (("bedrock:InvokeModel", ONE), "eu.one.model-1:0", False),
    (("bedrock:InvokeModel", PROFILE), "eu.one.model-1:0", True),
    (("bedrock:Converse", ONE), "one.model-1:0", False),  # there is no such permission
])
def test_converse_needs_invoke_model_on_what_it_names(lab, permitted, asked, allowed):
    assert denied(lab.user(permitted).client("bedrock-runtime").converse, modelId=asked, **SAID) == (not allowed)


def test_a_permitted_request_is_sent_on_to_the_server_that_the_stack_names(lab):
    answer = {"output": {"message": {"role": "assistant", "content": [{"text": "yes"}]}}, "stopReason": "end_turn",
              "usage": {"inputTokens": 1, "outputTokens": 1, "totalTokens": 2}, "metrics": {"latencyMs": 1}}
    got = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self):  # noqa: N802 (the name is the library's)
            got.append((self.path, json.loads(self.rfile.read(int(self.headers["content-length"])))))
            content = json.dumps(answer).encode()
            self.send_response(200)
            self.send_header("content-length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_):
            pass

    file, bedrock = lab.stack.directory / "models.url", lab.user(("bedrock:InvokeModel", ONE)).client("bedrock-runtime")
    with http.server.HTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            file.write_text(f"http://127.0.0.1:{server.server_address[1]}")
            assert bedrock.converse(modelId="one.model-1:0", **SAID)["output"]["message"]["content"] == [{"text": "yes"}]
            assert denied(bedrock.converse, modelId="one.model-2:0", **SAID)
        finally:
            server.shutdown()
    try:
        with pytest.raises(bedrock.exceptions.ServiceUnavailableException):
            bedrock.converse(modelId="one.model-1:0", **SAID)  # the server is gone
    finally:
        file.unlink()
    assert got == [("/model/one.model-1%3A0/converse", SAID)]
