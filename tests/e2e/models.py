"""Models that answer from a script, on this machine's loopback interface, in the shapes of the three interfaces that reviewers speak.

What a model does follows from its name: `test.approves`, `test.escalates`, `test.away`, `test.silent`, `test.talks`, `test.rejects`,
`test.scores`, `test.huge`, `test.elsewhere`.
"""

import http.server
import json
import re
import threading
import time
import urllib.parse

APPROVES = {"decision": "approve", "reasoning": "One small change.", "findings": []}
ESCALATES = {"decision": "escalate", "reasoning": "The image is new.\x1b[2J", "findings": [
    {"severity": "warning", "address": "terraform_data.shop", "note": "who built \u202e this image?"}, {"severity": "info", "note": "first apply"}]}
VERDICTS = {
    "approves": APPROVES, "escalates": ESCALATES, "talks": APPROVES, "rejects": {"decision": "reject"},
    "scores": {**APPROVES, "confidence": 0.99}, "huge": {**APPROVES, "reasoning": "x" * 100_000},
    "elsewhere": {**APPROVES, "findings": [{"severity": "info", "address": "terraform_data.nowhere", "note": "fine"}]},
}
NAMES = (*VERDICTS, "away", "silent")


class Models(http.server.ThreadingHTTPServer):
    """The server, and what it was asked."""

    daemon_threads = True

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.address = f"http://127.0.0.1:{self.server_address[1]}"
        self.requests = []
        threading.Thread(target=self.serve_forever, daemon=True, name="models").start()

    def asked(self, marker):
        """The requests in which this text stands, as (path, headers, body)."""
        return [each for each in list(self.requests) if marker in json.dumps(each[2])]


class Handler(http.server.BaseHTTPRequestHandler):
    """One request."""

    def do_POST(self):  # noqa: N802 (the name is the library's)
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        found = re.fullmatch(r"/model/(.+)/converse", self.path)
        model = urllib.parse.unquote(found[1]) if found else body["model"]
        self.server.requests.append((self.path, dict(self.headers), body))
        name = model.removeprefix("test.")
        if name == "silent":
            time.sleep(30)  # longer than whoever asks waits
            return
        if name == "away":
            self._answer(503, {"message": "overloaded"})
            return
        text, verdict = ("Let me see." if name == "talks" else None), VERDICTS[name]
        self._answer(200, (converse if found else messages if self.path == "/v1/messages" else completion)(model, text, verdict))

    def _answer(self, status, value):
        content = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_):
        """Says nothing."""


def messages(model, text, verdict):
    """As Anthropic's Messages API answers."""
    blocks = [{"type": "tool_use", "id": "toolu_1", "name": "verdict", "input": verdict}]
    if text:
        blocks.insert(0, {"type": "text", "text": text})
    return {"id": "msg_1", "type": "message", "role": "assistant", "model": f"{model}-dated", "content": blocks, "stop_reason": "tool_use",
            "stop_sequence": None, "usage": {"input_tokens": 1500, "output_tokens": 90}}


def completion(model, text, verdict):
    """As the chat API of gateways and local models answers."""
    call = {"id": "call_1", "type": "function", "function": {"name": "verdict", "arguments": json.dumps(verdict)}}
    message = {"role": "assistant", "content": text, "tool_calls": [call]}
    return {"id": "chatcmpl-1", "object": "chat.completion", "created": 1, "model": f"{model}-dated",
            "choices": [{"index": 0, "message": message, "finish_reason": "tool_calls"}],
            "usage": {"prompt_tokens": 1500, "completion_tokens": 90, "total_tokens": 1590}}


def converse(_, text, verdict):
    """As Bedrock's Converse answers."""
    content = [{"toolUse": {"toolUseId": "t-1", "name": "verdict", "input": verdict}}]
    if text:
        content.insert(0, {"text": text})
    return {"output": {"message": {"role": "assistant", "content": content}}, "stopReason": "tool_use",
            "usage": {"inputTokens": 1500, "outputTokens": 90, "totalTokens": 1590}, "metrics": {"latencyMs": 5}}
