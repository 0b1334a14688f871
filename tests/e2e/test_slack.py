"""Deciding in Slack: what people see there, who may decide, what is not believed, and what happens while Slack does not answer."""

import contextlib
import json
import os
import re
import signal
import time
import urllib.parse

import pytest
from mischief import processes, together, variables

from gate import wait_until
from local.slack import CHANNEL, TEAM, encoded, post, texts

APPROVE, REJECT = "plangate.approve", "plangate.reject"
PAST = "2020-01-01T00:00:00Z"


@pytest.fixture
def slack(world):
    chat = world.slack
    chat.told.clear()
    chat.views.clear()
    chat.refusals.clear()
    yield chat
    assert not chat.refusals, "something was sent that Slack does not take"


@pytest.fixture
def shop(workspace):
    """A workspace whose runs are shown in the channel; carol may approve there as bob and alice may."""
    made = workspace(spec={"slack": {"channel": CHANNEL}})
    made.world.grant("carol", [made.id], ["read", "approve"])
    return made


@pytest.fixture
def waits(shop, slack):
    """A run of alice's that waits, and its message."""
    run = shop.waiting()
    return run, slack.about(run.id)


def user(world, name):
    """A person's user in Slack; the person is known to the gate."""
    world.person(name)
    return world.slack.user(name)


def press(run, message, by, action=APPROVE, **changes):
    """Presses a button as somebody; the answer comes within Slack's three seconds."""
    answer = run.world.slack.press(run.world.gate.api, message, action, user(run.world, by), **changes)
    assert answer.seconds < 3, answer
    return answer


def told(slack, identity, count=1):
    """Waits until a user was told something so often, and gives the last of it."""
    return slack.wait(lambda: len(found := [text for who, text in slack.told if who == identity]) >= count and found[-1:], f"a word to {identity}")[0]


def kill_function(world, name):
    """Kills the processes of a function: what it kept in memory is gone, and the next call starts it anew."""
    marks = {f"AWS_LAMBDA_FUNCTION_NAME={name}".encode(), f"AWS_ENDPOINT_URL={world.stack.endpoint}".encode()}
    for process in processes(lambda process: marks <= variables(process)):
        os.kill(process, signal.SIGKILL)


@contextlib.contextmanager
def no_trace(run, reason=None):
    """Within this block nothing of the run changes, but for one decision without effect, if there is a reason."""
    before, events = run.record, run.happened()
    yield
    assert run.record == before
    after = run.events()
    assert [event["what"]["type"] for event in after] == [*events, *(["decision-without-effect"] if reason else [])]
    assert reason is None or (after[-1]["what"]["reason"], after[-1]["what"]["decision"]["surface"]) == (reason, "slack")


def shows(slack, message, headline, seconds=60):
    """Waits until a message has this headline."""
    slack.wait(lambda: message.headline == headline, f"`{headline}`, not `{message.headline}`", seconds)
    return message


# -- deciding ------------------------------------------------------------------------------------------------------


def test_what_an_approver_sees_in_slack_is_approved_there_and_followed_to_its_end(world, slack, waits):
    run, message = waits
    text = message.text
    assert message.headline == "A change waits for approval"
    for part in (run.workspace.name, run.workspace.id, run.id, "alice", "applicable", run.digest, run.record["plan"]["expires_at"],
                 "to add", "automatic approval", "terraform_data.database", "(sensitive value)"):
        assert part in text, (part, text)
    assert run.workspace.secret not in text
    assert {kind for kind, _ in texts(message.blocks)} <= {"plain_text", "text"}, "nothing in it is read for markup"
    assert all(button["value"] == f"v1 {run.id} {run.digest}" for button in message.buttons.values())
    assert set(message.buttons[APPROVE]["confirm"]) == {"title", "text", "confirm", "deny"}
    answer = press(run, message, "bob")
    assert (answer.status, answer.body) == (200, b"")
    shows(slack, message, "Applied")
    assert message.buttons == {} and "Approved by\nbob" in message.text
    headlines = [version["blocks"][0]["text"]["text"] for version in message.versions]
    order = ["A change waits for approval", "Approved", "Being applied", "Applied"]
    assert headlines == sorted(headlines, key=order.index) and len(set(headlines)) == len(headlines), "each state once, in order"
    run.ended_well("applied")
    decision = run.record["decision"]
    assert decision["by"] == {"kind": "slack", "person": "bob", "team": TEAM, "user": slack.user("bob")}
    assert (decision["surface"], decision["projection"]) == ("slack", run.digest)
    assert slack.told == [] and len([each for each in slack.messages if run.id in each.text]) == 1


def test_a_rejection_asks_for_the_reason_and_keeps_it(world, slack, waits):
    run, message = waits
    bob = user(world, "bob")
    with no_trace(run):
        assert press(run, message, "bob", REJECT).status == 200
        view = slack.opened()
        empty = slack.submit(world.gate.api, view, bob, "   ")
        assert empty.json["response_action"] == "errors" and "reason" in empty.json["errors"]
    done = slack.submit(world.gate.api, view, bob, "too much at once")
    assert (done.status, done.body) == (200, b"") and done.seconds < 3
    shows(slack, message, "Rejected")
    run.ended_well("rejected")
    assert (run.record["decision"]["reason"], run.record["decision"]["by"]["person"]) == ("too much at once", "bob")
    assert "Rejected by\nbob" in message.text and "too much at once" not in message.text
    # Whoever had the same form open is told who was faster.
    with no_trace(run, "already-decided"):
        late = slack.submit(world.gate.api, view, user(world, "carol"), "not like this")
        assert "`bob` rejected this run" in late.json["errors"]["reason"]


def test_a_decision_elsewhere_is_shown_and_the_buttons_go(slack, waits):
    run, message = waits
    run.reject("carol")
    shows(slack, message, "Rejected")
    assert message.buttons == {} and "Rejected by\ncarol" in message.text


def test_of_two_approvers_at_once_one_decides_and_the_other_is_told_and_recorded(world, slack, waits):
    run, message = waits
    people = ("bob", "carol")
    for name in people:
        user(world, name)
    assert together(2, lambda number: press(run, message, people[number]).status) == [200, 200]
    run.ended_well("applied")
    winner = run.record["decision"]["by"]["person"]
    loser = ({*people} - {winner}).pop()
    assert f"`{winner}` approved this run" in told(slack, slack.user(loser))
    events = run.events()
    assert [event["actor"]["person"] for event in events if event["what"]["type"] == "decided"] == [winner]
    late = [(event["actor"]["person"], event["what"]["reason"]) for event in events if event["what"]["type"] == "decision-without-effect"]
    assert late == [(loser, "already-decided")]


# -- what is not believed ------------------------------------------------------------------------------------------


def forged(slack, body):
    """Requests that are not Slack's, or not any more: headers and body, by what is wrong with them."""
    signed, now = slack.sign(body), time.time()
    other = body.replace(b"plangate.approve", b"plangate.reject%20")
    return {
        "a wrong signature": ({**signed, "X-Slack-Signature": "v0=" + "0" * 64}, body),
        "no signature": ({key: value for key, value in signed.items() if key != "X-Slack-Signature"}, body),
        "no timestamp": ({key: value for key, value in signed.items() if key != "X-Slack-Request-Timestamp"}, body),
        "nothing at all": ({}, body),
        "another secret": (slack.sign(body, secret="not ours"), body),
        "another scheme": ({**signed, "X-Slack-Signature": signed["X-Slack-Signature"].replace("v0=", "v1=")}, body),
        "signed over other bytes": (slack.sign(other), body),
        "altered after signing": (signed, body.replace(b"U0", b"U1", 1)),
        "a byte more": (signed, body + b"&"),
        "escapes in lower case": (signed, re.sub(rb"%[0-9A-F]{2}", lambda found: found[0].lower(), body)),
        "spaces in another way": (signed, body.replace(b"+", b"%20")),
        "letters escaped": (signed, body.replace(b"plangate", b"%70langate")),
        "an older time": ({**signed, "X-Slack-Request-Timestamp": str(int(now) - 60)}, body),
        "too old": (slack.sign(body, now - 330), body),
        "from the future": (slack.sign(body, now + 330), body),
        "a time that is none": ({**signed, "X-Slack-Request-Timestamp": "now"}, body),
        "an empty body": ({}, b""),
    }


def test_what_slack_has_not_signed_lately_over_these_bytes_is_not_even_read(world, slack, waits):
    run, message = waits
    with no_trace(run):
        body = encoded(slack.pressed(message, message.buttons[APPROVE], user(world, "bob")))
        cases = forged(slack, body)
        for case, (headers, sent) in cases.items():
            answer = post(world.gate.api, sent, headers)
            assert (case, answer.status, answer.body) == (case, 401, b"")
        # The forms that decode alike do so indeed.
        for case in ("escapes in lower case", "spaces in another way", "letters escaped"):
            _, sent = cases[case]
            assert sent != body and urllib.parse.parse_qs(sent.decode()) == urllib.parse.parse_qs(body.decode())
    assert slack.told == []
    run.cancel()


def test_what_is_signed_and_not_ours_does_nothing(world, slack, waits):
    run, message = waits
    button = message.buttons[APPROVE]
    with no_trace(run):
        for payload in (
                slack.pressed(message, {**button, "action_id": "other"}, user(world, "bob")), slack.pressed(message, {**button, "value": run.id}, user(world, "bob")),
                slack.pressed(message, button, "bob"), slack.pressed(message, button, user(world, "bob"), type="message_action"),
                slack.pressed(message, button, user(world, "bob"), actions=[]), {}):
            assert slack.send(world.gate.api, payload).status == 400
        for body in (b"", b"payload=", b"payload=%7B", b"other=1"):
            assert post(world.gate.api, body, slack.sign(body)).status == 400
    run.cancel()


def test_a_request_is_taken_once_and_the_same_press_signed_again_is_answered_as_before(world, slack, waits):
    run, message = waits
    body = encoded(slack.pressed(message, message.buttons[APPROVE], user(world, "bob")))
    headers = slack.sign(body)
    assert post(world.gate.api, body, headers).status == 200
    run.wait("applied")
    shows(slack, message, "Applied")
    with no_trace(run):
        # The very bytes again, and the same action signed afresh.
        assert post(world.gate.api, body, headers).status == 409
        assert post(world.gate.api, body, slack.sign(body, time.time() + 1)).status == 200
        assert post(world.gate.api, body, slack.sign(body, time.time() + 2)).status == 200
    assert slack.told == []
    # A refusal is told again, and recorded once.
    body = encoded(slack.pressed(message, message.buttons.get(APPROVE) or message.versions[0]["blocks"][-1]["elements"][0], user(world, "carol")))
    with no_trace(run, "already-decided"):
        for count in (1, 2):
            assert post(world.gate.api, body, slack.sign(body, time.time() + count)).status == 200
            assert "`bob` approved this run" in told(slack, slack.user("carol"), count)


def test_while_the_signing_secret_is_replaced_the_one_before_is_good_and_then_no_more(world, slack, waits):
    run, message = waits
    before = slack.secret

    def press_signed(secret):
        return slack.send(world.gate.api, slack.pressed(message, message.buttons[APPROVE], user(world, "mallory")), secret=secret).status

    assert press_signed(before) == 200
    slack.previous, slack.secret = before, "the-next-signing-secret"
    world.gate.slack_secrets(slack)
    # Within seconds the function takes the new one, by itself, and the old one still.
    wait_until(lambda: press_signed(slack.secret) == 200, "the new secret to be taken", 30)
    assert press_signed(before) == 200
    world.stack.client("ssm").delete_parameter(Name="/slack/previous-secret")
    slack.previous = None
    # What it has is good for five minutes; a function that starts does not know the old one any more.
    kill_function(world, "plangate-slack")
    wait_until(lambda: press_signed(before) == 401, "the old secret to be refused", 60)
    assert press_signed(slack.secret) == 200
    run.cancel()


# -- who may decide ------------------------------------------------------------------------------------------------


def test_whoever_may_not_decide_elsewhere_may_not_in_slack_and_is_told_so_alone(world, workspace, slack, waits):
    run, message = waits
    other = workspace()
    world.person("dave")
    world.grant("dave", [other.id], ["read", "approve"])
    before = [len(version["blocks"]) for version in message.versions]
    with no_trace(run):
        for name, changes, part in (
                ("dave", {}, "You may not decide on this run, or there is no such run"),
                ("mallory", {}, "You may not decide on this run, or there is no such run"),
                ("bob", {"team": "T0OTHERTEAM"}, "no principal has the Slack user"),
                ("nobody-known", {}, "no principal has the Slack user")):
            identity = slack.user(name)
            count = len([1 for who, _ in slack.told if who == identity])
            for action in (APPROVE, REJECT):
                count += 1
                answer = slack.press(world.gate.api, message, action, identity, **changes)
                assert (answer.status, answer.body) == (200, b"") and answer.seconds < 3
                assert part in (text := told(slack, identity, count)), text
                assert run.workspace.name not in text and "carol" not in text, "a stranger learns nothing"
        assert slack.views == {}, "no form for whoever may not decide"
    # Names count for nothing: mallory is mallory, whatever she calls herself.
    with no_trace(run):
        named = slack.pressed(message, message.buttons[APPROVE], user(world, "mallory"))
        named["user"] |= {"username": "bob", "name": "bob", "email": "bob@example.com"}
        assert slack.send(world.gate.api, named).status == 200
    assert [len(version["blocks"]) for version in message.versions] == before
    run.cancel()


def test_the_proposer_does_not_approve_in_slack_either_and_is_told_who_may(world, slack, waits):
    run, message = waits
    with no_trace(run, "distinct-approver-required"):
        press(run, message, "alice")
        text = told(slack, slack.user("alice"))
    assert "another approver" in text and "Who may approve: bob, carol." in text, text
    # What she may do with it, she may do here.
    press(run, message, "alice", REJECT)
    assert slack.submit(world.gate.api, slack.opened(), user(world, "alice"), "on second thoughts").status == 200
    run.ended_well("rejected")


def test_a_run_that_cannot_be_decided_is_not_decided_in_slack(world, shop, slack, waits):
    run, message = waits
    button = message.buttons[APPROVE]

    def refused(run, reason, part, **fields):
        pressed = {**button, "value": f"v1 {run.id} {run.digest}", **fields}
        count = len([1 for who, _ in slack.told if who == slack.user("bob")])
        with no_trace(run, reason):
            assert slack.send(world.gate.api, slack.pressed(message, pressed, user(world, "bob"))).status == 200
            assert part in (text := told(slack, slack.user("bob"), count + 1)), text

    other = "sha256:" + "0" * 64
    refused(run, "projection-mismatch", f"projection is not `{other}`", value=f"v1 {run.id} {other}")
    looked = shop.propose("--plan-only").wait("planned")
    refused(looked, "run-plan-only", "never applied")
    assert not [each for each in slack.messages if looked.id in each.text], "nobody is asked about it"
    # There is no such run: nobody learns more than whoever may not decide.
    nowhere = {**button, "value": f"v1 run-{'0' * 26} {run.digest}"}
    count = len([1 for who, _ in slack.told if who == slack.user("bob")])
    assert slack.send(world.gate.api, slack.pressed(message, nowhere, user(world, "bob"))).status == 200
    assert "or there is no such run" in told(slack, slack.user("bob"), count + 1)
    run.edit(lambda body: body["plan"].update(expires_at=PAST))
    refused(run, "plan-expired", "The plan has expired")
    run.cancel()
    run.wait("canceled")
    refused(run, "run-ended", "The run has ended as `canceled`")
    shows(slack, message, "Withdrawn")


# -- what is shown -------------------------------------------------------------------------------------------------


HOSTILE = '<!channel> <@U0BOB> <https://evil.example|approve> *bold* ```code``` :tada: @here \\u202e\\u200b &amp; > quote'


def test_what_a_plan_says_is_shown_as_it_is_and_does_nothing(shop, slack):
    key = "<!everyone> `*_~ \\u202d"
    shop.configure(f'''
resource "terraform_data" "hostile" {{
  for_each = toset(["{key}"])
  input    = "{HOSTILE}\\n# A headline"
}}
variable "database_password" {{
  type      = string
  sensitive = true
}}
''')
    run = shop.waiting()
    message = slack.about(run.id)
    text = message.text
    assert "<!channel> <@U0BOB> <https://evil.example|approve> *bold* ```code``` :tada: @here" in text, text
    for part in ("<!everyone> `*_~", "\\u{202e}\\u{200b}"):
        assert part in text, (part, text)
    # Engines write out what cannot be printed in a key themselves, each in its own way.
    assert re.search(r"\\u\{?202d", text), text
    assert not re.search("[\u202a-\u202e\u200b-\u200f\u2066-\u2069\x00-\x09\x0b-\x1f\x7f]", text), "nothing in it acts"
    assert not any(line.startswith("# A headline") for line in text.splitlines()), "a value has no line of its own"
    posted = message.versions[0]
    assert {kind for kind, _ in texts(posted["blocks"])} <= {"plain_text", "text"}
    assert all(part not in posted["text"] for part in ("evil", "everyone", "channel>")), "the notification has ids and numbers alone"
    assert (posted["parse"], posted["link_names"], posted["unfurl_links"]) == ("none", False, False)
    assert APPROVE in message.buttons
    run.cancel()


def test_a_plan_that_does_not_fit_is_not_shown_in_part_and_cannot_be_approved_there(world, shop, slack):
    shop.configure('''
resource "terraform_data" "many" {
  count = 120
  input = "a value that takes its place: ${count.index}"
}
variable "database_password" {
  type      = string
  sensitive = true
}
''')
    run = shop.waiting()
    message = slack.about(run.id)
    assert "120 to add" in message.text and "terraform_data" not in message.text, message.text
    assert message.buttons == {} and f"plangate approve {run.id}" in message.text and f"plangate show {run.id}" in message.text
    run.approve()
    shows(slack, message, "Applied")
    run.ended_well("applied")


def test_nothing_happens_and_nothing_fails_where_no_channel_is_named(workspace, slack):
    run = workspace().waiting()
    calls = len(slack.calls)
    run.approve()
    run.ended_well("applied")
    assert not [each for each in slack.messages if run.id in each.text] and len(slack.calls) == calls
    assert "notification-failed" not in run.happened()


# -- while Slack does not answer -----------------------------------------------------------------------------------


def failures(run):
    return [event["what"]["problem"] for event in run.events() if event["what"]["type"] == "notification-failed"]


def test_while_slack_is_down_a_run_is_decided_elsewhere_and_that_nobody_was_told_is_recorded(shop, slack):
    with slack.trouble("down"):
        run = shop.waiting()
        wait_until(lambda: failures(run) == ["http_503"], "the failure to be recorded", 60)
        assert run.status == "awaiting_approval"
        run.approve()
        run.ended_well("applied")
    assert not [each for each in slack.messages if run.id in each.text]


def test_a_slack_that_comes_back_shows_the_run_as_it_is_then(shop, slack, waits):
    run, message = waits
    calls = len(slack.calls)
    with slack.trouble("limited", seconds=1):
        run.approve()
        wait_until(lambda: "chat.update" in slack.calls[calls:], "it to be tried", 20)
        run.wait("applied")
        assert message.headline == "A change waits for approval"
    shows(slack, message, "Applied")
    assert message.buttons == {}


def test_a_form_that_slack_does_not_open_leaves_the_run_as_it_is(world, slack, waits):
    run, message = waits
    with no_trace(run), slack.trouble("slow", seconds=4, only=("views.open",)):
        assert press(run, message, "bob", REJECT).status == 200
        assert f"plangate reject {run.id}" in told(slack, slack.user("bob"))
        slack.wait(lambda: slack.refusals, "slack to open it too late")
    assert slack.refusals == [("views.open", "expired_trigger_id")]
    slack.refusals.clear()
    run.cancel()


def test_a_channel_that_is_not_there_fails_no_run(workspace, world):
    shop = workspace(spec={"slack": {"channel": "C0NOWHERE"}})
    run = shop.waiting()
    wait_until(lambda: failures(run) == ["channel_not_found"], "the failure to be recorded", 30)
    run.approve()
    run.ended_well("applied")
    assert world.slack.refusals and {refusal[1] for refusal in world.slack.refusals} == {"channel_not_found"}
    world.slack.refusals.clear()


# -- configuration -------------------------------------------------------------------------------------------------


def test_a_user_of_slack_is_one_persons_alone_and_a_channel_is_an_id(world, shop):
    world.person("bob")
    taken = {"person": "eve", "iam": [{"account": "111122223333", "role": "eve"}], "slack": [{"team": TEAM, "user": world.slack.user("bob")}]}
    body = {"etag": None, "request_id": "slack-taken", "namespace": "tests", "owner": "administrator", "spec": taken}
    assert world.admin.refused("PUT", "/v1/principals/eve", body) == (409, "not-unique")
    spec = {**shop.spec, "slack": {"channel": "#changes"}}
    body = {"etag": shop.etag, "request_id": "slack-channel", "namespace": "tests", "owner": "administrator", "spec": spec}
    assert world.admin.refused("PUT", f"/v1/workspaces/{shop.id}", body) == (400, "invalid-document")
    assert json.loads(world.person("bob").cli("slack", "manifest").out)["oauth_config"] == {"scopes": {"bot": ["chat:write"]}}
