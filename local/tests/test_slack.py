"""The stand-in for Slack: what it takes, what it refuses, and how it signs, as Slack documents it."""

import hashlib
import hmac
import json
import time
import urllib.error
import urllib.request

import pytest

from local.slack import CHANNEL, Refused, Slack, check_message, check_modal, encoded

TEXT = {"type": "plain_text", "text": "x"}
SECTION = {"type": "section", "text": TEXT}
BUTTON = {"type": "button", "action_id": "a", "value": "v", "text": TEXT}
MODAL = {"type": "modal", "callback_id": "c", "private_metadata": "m", "title": TEXT, "submit": TEXT, "close": TEXT, "blocks": [SECTION]}


def text(length):
    return {"type": "plain_text", "text": "x" * length}


def preformatted(length):
    return {"type": "rich_text", "elements": [{"type": "rich_text_preformatted", "elements": [{"type": "text", "text": "x" * length}]}]}


@pytest.fixture
def slack():
    with Slack() as chat:
        yield chat


def call(slack, method, body, token=None):
    request = urllib.request.Request(
        f"{slack.api}/{method}", json.dumps(body).encode(), {"Authorization": f"Bearer {token or slack.token}"}, method="POST")
    with urllib.request.urlopen(request) as answer:
        return json.load(answer)


@pytest.mark.parametrize("blocks", [
    [SECTION] * 50, [{"type": "header", "text": text(150)}], [{"type": "section", "text": text(3000)}], [{"type": "section", "fields": [text(1000)] * 10}],
    [preformatted(3000)], [{"type": "context", "elements": [TEXT]}], [{"type": "actions", "elements": [BUTTON]}]])
def test_what_slack_takes_is_taken(blocks):
    check_message({"text": "x", "blocks": blocks})


@pytest.mark.parametrize("blocks", [
    [SECTION] * 51, [{"type": "header", "text": text(151)}], [{"type": "section", "text": text(3001)}], [{"type": "section", "fields": [TEXT] * 11}],
    [{"type": "section", "fields": [text(2001)]}], [preformatted(3001)], [preformatted(0)], [{"type": "section", "text": text(0)}],
    [{"type": "actions", "elements": [{**BUTTON, "value": "v" * 2001}]}], [{"type": "actions", "elements": [{**BUTTON, "text": text(76)}]}],
    [{"type": "actions", "elements": [{**BUTTON, "confirm": {"title": TEXT, "text": text(301), "confirm": TEXT, "deny": TEXT}}]}],
    [{"type": "header", "text": {"type": "mrkdwn", "text": "x"}}], [{"type": "video"}], [preformatted(3000)] * 5])
def test_what_slack_refuses_is_refused(blocks):
    with pytest.raises(Refused):
        check_message({"text": "x", "blocks": blocks})


@pytest.mark.parametrize("change", [{"title": text(25)}, {"private_metadata": "m" * 3001}, {"callback_id": "c" * 256}, {"blocks": []}, {"blocks": [SECTION] * 101}, {"type": "home"}])
def test_a_modal_keeps_its_limits(change):
    check_modal(MODAL)
    with pytest.raises(Refused):
        check_modal({**MODAL, **change})


def test_a_message_is_posted_and_changed_in_place_by_whoever_has_the_token(slack):
    message = {"channel": CHANNEL, "text": "x", "blocks": [SECTION]}
    posted = call(slack, "chat.postMessage", message)
    assert posted["ok"] and call(slack, "chat.update", {**message, "ts": posted["ts"], "text": "y"})["ok"]
    assert [version["text"] for version in slack.messages[0].versions] == ["x", "y"]
    assert call(slack, "chat.postMessage", message, "another")["error"] == "invalid_auth"
    assert call(slack, "chat.postMessage", {**message, "channel": "C0OTHER"})["error"] == "channel_not_found"
    assert call(slack, "chat.update", {**message, "ts": "1.1"})["error"] == "message_not_found"


def test_a_modal_opens_once_and_within_three_seconds(slack):
    message = {"channel": CHANNEL, "text": "x", "blocks": [{"type": "actions", "elements": [BUTTON]}]}
    call(slack, "chat.postMessage", message)
    trigger = slack.pressed(slack.messages[0], BUTTON, "U0BOB")["trigger_id"]
    assert call(slack, "views.open", {"trigger_id": trigger, "view": MODAL})["ok"]
    assert call(slack, "views.open", {"trigger_id": trigger, "view": MODAL})["error"] == "exchanged_trigger_id"
    late = slack.pressed(slack.messages[0], BUTTON, "U0BOB")["trigger_id"]
    slack._triggers[late] -= 4
    assert call(slack, "views.open", {"trigger_id": late, "view": MODAL})["error"] == "expired_trigger_id"


def test_trouble_is_what_slack_in_trouble_says(slack):
    message = {"channel": CHANNEL, "text": "x"}
    for kind, status in (("down", 503), ("limited", 429)):
        with slack.trouble(kind, 7), pytest.raises(urllib.error.HTTPError) as refused:
            call(slack, "chat.postMessage", message)
        assert (refused.value.code, refused.value.headers["Retry-After"]) == (status, "7" if kind == "limited" else None)
    assert call(slack, "chat.postMessage", message)["ok"]


def test_it_signs_as_slack_does(slack):
    body = encoded({"type": "block_actions"})
    headers = slack.sign(body, 1531420618)
    expected = hmac.new(slack.secret.encode(), b"v0:1531420618:" + body, hashlib.sha256).hexdigest()
    assert (headers["X-Slack-Signature"], headers["X-Slack-Request-Timestamp"]) == (f"v0={expected}", "1531420618")
    assert abs(int(slack.sign(body)["X-Slack-Request-Timestamp"]) - time.time()) < 2
