"""A stand-in for Slack: takes what the gate posts, holds it against what Slack documents, keeps it, and sends what people press back to
the gate, signed as Slack signs.

    with Slack() as slack:
        gate = deploy_gate(stack, slack=slack)
        ...
        message = slack.about(run)
        slack.press(gate.api, message, "plangate.approve", slack.user("bob"))

`python -m local.slack STACK` serves one beside a stack that is kept running, with a page on which its messages can be read and their
buttons pressed, and ends with that stack. It prints what the gate needs to know of it.
"""

import contextlib
import dataclasses
import hashlib
import hmac
import html
import http.client
import http.server
import json
import re
import secrets
import sys
import threading
import time
import urllib.parse

from .stack import Stack, StackError

TEAM, CHANNEL = "T0LOCALTEAM", "C0CHANGES"
APP, TRIGGER_SECONDS = "A0PLANGATE", 3
# https://docs.slack.dev/reference/block-kit and chat.postMessage; the characters of all blocks together are not documented, and
# `msg_blocks_too_long` comes from about 13,200 on.
BLOCKS, CHARACTERS, FALLBACK = 50, 13_200, 40_000


class Refused(Exception):
    """An error that Slack answers with: its code, and what is wrong."""


@dataclasses.dataclass
class Message:
    """A message in a channel, with everything that it ever showed."""

    channel: str
    ts: str
    versions: list

    @property
    def blocks(self):
        return self.versions[-1]["blocks"]

    @property
    def text(self):
        """All that can be read in it, a line for each text."""
        return "\n".join(text for _, text in texts(self.blocks))

    @property
    def headline(self):
        return self.blocks[0]["text"]["text"]

    @property
    def buttons(self):
        """The buttons, by their action."""
        return {element["action_id"]: element for block in self.blocks if block["type"] == "actions" for element in block["elements"]}


@dataclasses.dataclass
class Answer:
    """What the gate answered to an interaction, and how long that took."""

    status: int
    body: bytes
    seconds: float
    kind: str | None = None

    @property
    def json(self):
        return json.loads(self.body) if self.body else None


class Slack:
    """One team with an app in it, on a free port of 127.0.0.1."""

    def __init__(self):
        self.token, self.secret = f"xoxb-{secrets.token_hex(12)}", secrets.token_hex(16)
        self.previous, self.retry_seconds, self.page = None, 4, None
        self.channels = {CHANNEL}
        self.answered = lambda answer: None  # for who wants to see each of the gate's answers
        self.messages, self.told, self.views, self.calls, self.refusals = [], [], {}, [], []
        self._triggers, self._lock, self._count, self._trouble = {}, threading.Condition(), 0, None
        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True, name="slack")

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._server.shutdown()
        self._server.server_close()

    @property
    def api(self):
        """The address of its Web API."""
        return f"http://127.0.0.1:{self._server.server_port}/api"

    @staticmethod
    def user(name):
        """The id of the user that a person is here."""
        return f"U0{hashlib.sha256(name.encode()).hexdigest()[:9].upper()}"

    # -- trouble --------------------------------------------------------------------------------------------------

    @contextlib.contextmanager
    def trouble(self, kind, seconds=0, only=("chat.postMessage", "chat.update", "chat.postEphemeral", "views.open")):
        """Within this block its API is `down` (503), `slow` by so many seconds, or `limited` (429, to be asked again after so many)."""
        self._trouble = (kind, seconds, only)
        try:
            yield
        finally:
            self._trouble = None

    # -- the Web API ----------------------------------------------------------------------------------------------

    def serve(self, method, authorization, body):
        """Answers a call of the Web API: (status, headers, body)."""
        with self._lock:
            self.calls.append(method)
        kind, seconds, only = self._trouble or (None, 0, ())
        if method in only:
            if kind == "down":
                return 503, {}, b"upstream connect error"
            if kind == "limited":
                return 429, {"Retry-After": str(seconds)}, b'{"ok":false,"error":"ratelimited"}'
            if kind == "slow":
                time.sleep(seconds)
        try:
            if authorization != f"Bearer {self.token}":
                raise Refused("invalid_auth")
            request = json.loads(body)
            with self._lock:
                answer = {"chat.postMessage": self._post, "chat.update": self._update, "chat.postEphemeral": self._tell,
                          "views.open": self._open}.get(method, self._unknown)(request)
                self._lock.notify_all()
            return 200, {}, json.dumps({"ok": True, **answer}).encode()
        except Refused as refused:
            with self._lock:
                self.refusals.append((method, *refused.args))
            details = {"response_metadata": {"messages": list(refused.args[1:])}} if refused.args[1:] else {}
            return 200, {}, json.dumps({"ok": False, "error": refused.args[0], **details}).encode()

    def _unknown(self, _):
        raise Refused("unknown_method")

    def _channel(self, request):
        if request.get("channel") not in self.channels:
            raise Refused("channel_not_found")
        return request["channel"]

    def _post(self, request):
        channel = self._channel(request)
        check_message(request)
        self._count += 1
        message = Message(channel, f"{int(time.time())}.{self._count:06}", [request])
        self.messages.append(message)
        return {"channel": channel, "ts": message.ts}

    def _update(self, request):
        channel = self._channel(request)
        check_message(request)
        for message in self.messages:
            if (message.channel, message.ts) == (channel, request.get("ts")):
                message.versions.append(request)
                return {"channel": channel, "ts": message.ts}
        raise Refused("message_not_found")

    def _tell(self, request):
        channel = self._channel(request)
        check_message(request)
        if not re.fullmatch("[UW][A-Z0-9]{2,}", request.get("user", "")):
            raise Refused("user_not_in_channel")
        self.told.append((request["user"], "\n".join(text for _, text in texts(request["blocks"]))))
        return {"message_ts": f"{int(time.time())}.000000", "channel": channel}

    def _open(self, request):
        opened = self._triggers.pop(request.get("trigger_id"), None)
        if opened is None:
            raise Refused("exchanged_trigger_id")
        if time.monotonic() - opened > TRIGGER_SECONDS:
            raise Refused("expired_trigger_id")
        view = request.get("view")
        check_modal(view)
        identity = f"V{secrets.token_hex(5).upper()}"
        self.views[identity] = view
        return {"view": {"id": identity, **view}}

    # -- what people see and do -----------------------------------------------------------------------------------

    def wait(self, look, what, seconds=30):
        """Waits until `look()` gives something true, and gives that."""
        with self._lock:
            if not self._lock.wait_for(look, seconds):
                raise AssertionError(f"{what}: not within {seconds} s; refused: {self.refusals}")
            return look()

    def about(self, run, seconds=30):
        """Waits for the message about a run."""
        return self.wait(lambda: next((each for each in self.messages if run in each.text), None), f"a message about {run}", seconds)

    def press(self, api, message, action, user, **changes):
        """Presses a button of a message as a user."""
        return self.send(api, self.pressed(message, message.buttons[action], user, **changes))

    def pressed(self, message, button, user, team=TEAM, **changes):
        """The payload of a press."""
        trigger = f"{secrets.randbelow(10**12)}.{secrets.randbelow(10**9)}.{secrets.token_hex(16)}"
        self._triggers[trigger] = time.monotonic()
        return {
            "type": "block_actions", "user": {"id": user, "username": "somebody", "name": "somebody", "team_id": team},
            "api_app_id": APP, "token": "deprecated", "trigger_id": trigger, "team": {"id": TEAM, "domain": "local"}, "enterprise": None,
            "is_enterprise_install": False, "channel": {"id": message.channel, "name": "changes"},
            "container": {"type": "message", "message_ts": message.ts, "channel_id": message.channel, "is_ephemeral": False},
            "message": {"type": "message", "ts": message.ts, "blocks": message.blocks}, "state": {"values": {}},
            "response_url": f"https://hooks.slack.com/actions/{TEAM}/1/x",
            "actions": [{**{key: button[key] for key in ("type", "action_id", "value", "text")}, "block_id": "decide",
                         "action_ts": f"{time.time():.6f}"}], **changes}

    def submit(self, api, view, user, reason, **changes):
        """Submits the modal with a reason; `view` is its id."""
        return self.send(api, self.submitted(view, user, reason, **changes))

    def submitted(self, view, user, reason, team=TEAM, **changes):
        """The payload of a submission."""
        values = {"reason": {"reason": {"type": "plain_text_input", "value": reason}}}
        return {
            "type": "view_submission", "team": {"id": TEAM, "domain": "local"},
            "user": {"id": user, "username": "somebody", "name": "somebody", "team_id": team}, "api_app_id": APP, "token": "deprecated",
            "trigger_id": "1.2.x", "view": {"id": view, "team_id": TEAM, "state": {"values": values}, "hash": "1.x", **self.views[view]},
            "response_urls": [], "is_enterprise_install": False, "enterprise": None, **changes}

    def opened(self, seconds=5):
        """Waits for the one modal that is open, and gives its id."""
        return self.wait(lambda: next(iter(self.views), None), "a modal", seconds)

    def sign(self, body, at=None, secret=None):
        """The headers with which Slack sends these bytes."""
        timestamp = str(int(time.time() if at is None else at))
        mac = hmac.new((secret or self.secret).encode(), b"v0:" + timestamp.encode() + b":" + body, hashlib.sha256).hexdigest()
        return {"Content-Type": "application/x-www-form-urlencoded", "X-Slack-Request-Timestamp": timestamp, "X-Slack-Signature": f"v0={mac}"}

    def send(self, api, payload, at=None, secret=None):
        """Sends a payload to the gate as Slack does."""
        body = encoded(payload)
        answer = post(api, body, self.sign(body, at, secret))
        self.answered(answer)
        return answer


def encoded(payload):
    """The form in which Slack sends a payload."""
    return urllib.parse.urlencode({"payload": json.dumps(payload)}).encode()


def post(api, body, headers):
    """Sends bytes to the gate's route, as they are."""
    url = urllib.parse.urlsplit(api)
    connection = http.client.HTTPConnection("127.0.0.1", url.port, timeout=30)
    began = time.monotonic()
    try:
        connection.request("POST", "/slack/interactions", body, {**headers, "Host": url.netloc})
        answer = connection.getresponse()
        return Answer(answer.status, answer.read(), time.monotonic() - began, answer.getheader("content-type"))
    finally:
        connection.close()


def texts(value):
    """Every text of blocks, with the type of element in which it stands."""
    if isinstance(value, list):
        return [found for each in value for found in texts(each)]
    if not isinstance(value, dict):
        return []
    own = [(value.get("type"), value["text"])] if isinstance(value.get("text"), str) else []
    return own + [found for each in value.values() for found in texts(each)]


# -- what Slack documents ------------------------------------------------------------------------------------------


def require(holds, what):
    """Refuses blocks that are not what Slack documents."""
    if not holds:
        raise Refused("invalid_blocks", what)


def check_text(value, limit, kinds=("plain_text", "mrkdwn")):
    """A text object."""
    require(isinstance(value, dict) and value.get("type") in kinds and isinstance(value.get("text"), str), f"not a text: {value}")
    require(1 <= len(value["text"]) <= limit, f"a text of {len(value['text'])} characters, where {limit} are allowed")
    require(set(value) <= {"type", "text", "emoji", "verbatim"}, f"{set(value)} in a text")


def check_button(value):
    """A button, with its dialogue."""
    require(value.get("type") == "button" and set(value) <= {"type", "action_id", "value", "text", "style", "confirm"}, f"not a button: {value}")
    check_text(value["text"], 75, ("plain_text",))
    require(1 <= len(value["action_id"]) <= 255 and len(value["value"]) <= 2000, "an action or a value that is too long")
    require(value.get("style", "primary") in ("primary", "danger"), "no such style")
    if confirm := value.get("confirm"):
        require(set(confirm) == {"title", "text", "confirm", "deny"}, f"{set(confirm)} in a dialogue")
        for part, limit in (("title", 100), ("text", 300), ("confirm", 30), ("deny", 30)):
            check_text(confirm[part], limit, ("plain_text",))


def check_block(block):
    """A block, of the kinds that are used here."""
    kind, fields = block.get("type"), set(block) - {"type", "block_id"}
    require(len(block.get("block_id", "x")) <= 255, "a block_id that is too long")
    if kind == "header":
        require(fields == {"text"}, f"{fields} in a header")
        check_text(block["text"], 150, ("plain_text",))
    elif kind == "section":
        require(fields in ({"text"}, {"fields"}), f"{fields} in a section")
        for each in block.get("fields", []):
            check_text(each, 2000)
        require(1 <= len(block.get("fields", [1])) <= 10, "too many fields")
        if "text" in block:
            check_text(block["text"], 3000)
    elif kind == "context":
        require(fields == {"elements"} and 1 <= len(block["elements"]) <= 10, f"{fields} in a context")
        for each in block["elements"]:
            check_text(each, 3000)
    elif kind == "actions":
        require(fields == {"elements"} and 1 <= len(block["elements"]) <= 25, f"{fields} in actions")
        for each in block["elements"]:
            check_button(each)
    elif kind == "rich_text":
        require(fields == {"elements"}, f"{fields} in a rich text")
        for each in block["elements"]:
            require(each.get("type") == "rich_text_preformatted" and set(each) == {"type", "elements"}, f"not preformatted: {each}")
            for part in each["elements"]:
                require(set(part) == {"type", "text"} and part["type"] == "text" and part["text"], f"not a text: {part}")
                require(len(part["text"]) <= 3000, f"a text of {len(part['text'])} characters")
    else:
        require(False, f"no block of a message: {kind}")


def check_message(request):
    """A message."""
    if not request.get("text") and not request.get("blocks"):
        raise Refused("no_text")
    if len(request.get("text", "")) > FALLBACK:
        raise Refused("msg_too_long")
    blocks = request.get("blocks", [])
    require(isinstance(blocks, list) and len(blocks) <= BLOCKS, "more than fifty blocks")
    if len(json.dumps(blocks, ensure_ascii=False, separators=(",", ":"))) > CHARACTERS:
        raise Refused("msg_blocks_too_long")
    for block in blocks:
        check_block(block)


def check_modal(view):
    """A modal."""
    require(isinstance(view, dict) and view.get("type") == "modal", "no modal")
    require(set(view) <= {"type", "callback_id", "private_metadata", "title", "submit", "close", "blocks"}, f"{set(view)} in a modal")
    for part in ("title", "submit", "close"):
        check_text(view[part], 24, ("plain_text",))
    require(len(view["private_metadata"]) <= 3000 and len(view["callback_id"]) <= 255, "too long")
    require(1 <= len(view["blocks"]) <= 100, "too many blocks")
    for block in view["blocks"]:
        if block["type"] != "input":
            check_block(block)
            continue
        check_text(block["label"], 2000, ("plain_text",))
        element = block["element"]
        require(element["type"] == "plain_text_input" and 0 <= element["min_length"] <= element["max_length"] <= 3000, "no such input")


def _handler(slack):
    class Handler(http.server.BaseHTTPRequestHandler):
        """HTTP for the Web API, and for the page if there is one."""

        def do_GET(self):
            if slack.page is None:
                self.answer(404, {}, b"")
            else:
                self.answer(200, {"Content-Type": "text/html; charset=utf-8"}, slack.page.shown().encode())

        def do_POST(self):
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            if slack.page is not None and not self.path.startswith("/api/"):
                slack.page.done(dict(urllib.parse.parse_qsl(body.decode())))
                self.answer(303, {"Location": "/"}, b"")
            else:
                self.answer(*slack.serve(self.path.removeprefix("/api/"), self.headers.get("Authorization"), body))

        def answer(self, status, headers, answer):
            with contextlib.suppress(OSError):  # whoever asked has given up
                self.send_response(status)
                for name, value in {"Content-Type": "application/json", "Content-Length": str(len(answer)), **headers}.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(answer)

        def log_message(self, *_):
            """Nothing: what is asked is kept in `calls`."""

    return Handler


# -- beside a stack that is kept running ---------------------------------------------------------------------------


class Page:
    """What is in the channels, for a browser, and the buttons."""

    def __init__(self, slack, people, api):
        self._slack, self._people, self._api = slack, people, api

    def shown(self):
        """The page."""
        parts = ["<!doctype html><meta charset=utf-8><title>Slack, of a kind</title><style>body{font:15px sans-serif;max-width:60em;margin:2em auto}"
                 "pre{background:#f4f4f4;padding:1em;white-space:pre-wrap}</style><h1>#changes</h1>"]
        for message in reversed(self._slack.messages):
            parts.append(f"<pre>{html.escape(message.text)}</pre>")
            for person in self._people:
                for action, button in message.buttons.items():
                    parts.append(_form(f"{button['text']['text']} as {person}", ts=message.ts, action=action, person=person))
        for view in self._slack.views:
            for person in self._people:
                parts.append(_form(f"Reject as {person}", '<input name=reason placeholder="Why?">', view=view, person=person))
        parts += [f"<p>To {html.escape(user)} alone: {html.escape(text)}" for user, text in self._slack.told]
        return "".join(parts)

    def done(self, form):
        """Does what a form of the page says."""
        user = self._slack.user(form.get("person", ""))
        if "view" in form:
            self._slack.submit(self._api(), form["view"], user, form.get("reason", ""))
            self._slack.views.pop(form["view"], None)
        for message in [each for each in self._slack.messages if each.ts == form.get("ts")]:
            self._slack.press(self._api(), message, form["action"], user)


def _form(label, inner="", **hidden):
    fields = "".join(f'<input type=hidden name={name} value="{html.escape(value, quote=True)}">' for name, value in hidden.items())
    return f"<form method=post style='display:inline'>{fields}{inner}<button>{html.escape(label)}</button></form> "


def main():
    """Serves until the stack is gone."""
    stack = Stack.load(sys.argv[1])

    def api():
        outputs = json.loads((stack.directory / "gate.json").read_text())["outputs"]
        return stack.api_url(outputs["ApiId"])

    with Slack() as slack:
        slack.page = Page(slack, ("alice", "bob"), api)
        print(json.dumps({name: getattr(slack, name) for name in ("api", "token", "secret", "previous", "retry_seconds")}), flush=True)
        with contextlib.suppress(StackError):
            while Stack.load(stack.name):
                time.sleep(1)


if __name__ == "__main__":
    main()
