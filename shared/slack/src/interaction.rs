//! What somebody did in Slack: pressed one of our buttons, or submitted our modal.
//!
//! Slack adds fields when it likes, so what is not used here is passed over; what is used has one type, bounds, and a form.

use plangate_gate::digest::Digest;
use plangate_gate::documents::slack_id;
use plangate_gate::ids::RunId;
use serde::Deserialize;

use crate::form;
use crate::signature::Verified;

/// The action of the button that approves.
pub const APPROVE: &str = "plangate.approve";
/// The action of the button that asks for a reason, to reject.
pub const REJECT: &str = "plangate.reject";
/// The modal that asks for the reason.
pub const REASON_MODAL: &str = "plangate.reason";
/// The block, and the action in it, in which the reason stands.
pub const REASON: &str = "reason";

/// What an interaction is about: a run, and the projection that was shown. Written into buttons and modals, and on its way
/// back compared with the record and never believed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct About {
    /// The run.
    pub run: RunId,
    /// The digest of the projection that was shown.
    pub projection: Digest,
}

impl std::fmt::Display for About {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "v1 {} {}", self.run, self.projection)
    }
}

impl About {
    fn parse(text: &str) -> Option<Self> {
        let mut parts = text.split(' ');
        let (version, run, projection) = (parts.next()?, parts.next()?, parts.next()?);
        if version != "v1" || parts.next().is_some() {
            return None;
        }
        Some(Self { run: run.parse().ok()?, projection: projection.parse().ok()? })
    }
}

/// Who did it, as Slack says: ids and nothing else. Who that is, configuration tells (`R50`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sender {
    /// The team that the user belongs to.
    pub team: String,
    /// The user.
    pub user: String,
}

/// Which of our buttons.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Button {
    /// Approve.
    Approve,
    /// Ask for a reason, to reject.
    Reject,
}

/// Somebody pressed a button of a message of ours.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pressed {
    /// Who.
    pub sender: Sender,
    /// The channel in which the message stands.
    pub channel: String,
    /// What opens a modal, for three seconds.
    pub trigger: String,
    /// Which button.
    pub button: Button,
    /// What it is about.
    pub about: About,
    /// Names this very press, however often Slack tells of it.
    pub action: Digest,
}

/// Somebody submitted the modal that asks for a reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Submitted {
    /// Who.
    pub sender: Sender,
    /// What it is about.
    pub about: About,
    /// The reason, as it was typed.
    pub reason: String,
    /// Names this very submission, however often Slack tells of it.
    pub action: Digest,
}

/// What somebody did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Interaction {
    /// Pressed a button.
    Pressed(Pressed),
    /// Submitted the modal.
    Submitted(Submitted),
}

/// A request of Slack's that is none that our messages and modals bring about.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InteractionError {
    /// It does not have the form that Slack documents. The detail names fields, never values.
    #[error("the interaction cannot be read: {0}")]
    Malformed(String),
    /// It is about something that is not ours.
    #[error("the interaction is about nothing of ours: its `{0}` is another")]
    NotOurs(&'static str),
}

#[derive(Deserialize)]
struct Kind {
    r#type: String,
}

#[derive(Deserialize)]
struct Id {
    id: String,
}

#[derive(Deserialize)]
struct User {
    id: String,
    #[serde(default)]
    team_id: Option<String>,
}

#[derive(Deserialize)]
struct BlockActions {
    team: Id,
    user: User,
    channel: Id,
    trigger_id: String,
    actions: Vec<Action>,
}

#[derive(Deserialize)]
struct Action {
    r#type: String,
    action_id: String,
    action_ts: String,
    value: String,
}

#[derive(Deserialize)]
struct ViewSubmission {
    team: Id,
    user: User,
    view: View,
}

#[derive(Deserialize)]
struct View {
    id: String,
    callback_id: String,
    private_metadata: String,
    state: State,
}

#[derive(Deserialize)]
struct State {
    values: Values,
}

#[derive(Deserialize)]
struct Values {
    reason: ReasonBlock,
}

#[derive(Deserialize)]
struct ReasonBlock {
    reason: Input,
}

#[derive(Deserialize)]
struct Input {
    #[serde(default)]
    value: Option<String>,
}

impl Interaction {
    /// Reads what a verified request tells.
    ///
    /// # Errors
    /// It is none that our messages and modals bring about.
    pub fn parse(request: &Verified<'_>) -> Result<Self, InteractionError> {
        let payload = form::payload(request.body())?;
        let Kind { r#type } = read(&payload)?;
        match r#type.as_str() {
            "block_actions" => pressed(read(&payload)?).map(Self::Pressed),
            "view_submission" => submitted(read(&payload)?).map(Self::Submitted),
            _ => Err(InteractionError::NotOurs("type")),
        }
    }
}

fn read<'a, T: Deserialize<'a>>(payload: &'a [u8]) -> Result<T, InteractionError> {
    serde_json::from_slice(payload).map_err(|error| {
        // The place alone: what stood there is somebody's text.
        InteractionError::Malformed(format!("its JSON at line {} column {}", error.line(), error.column()))
    })
}

fn sender(team: Id, user: User) -> Result<Sender, InteractionError> {
    // In a channel shared with others the user may belong to another team than the one that has the app.
    let team = user.team_id.unwrap_or(team.id);
    if !slack_id(&team, "TE") {
        return Err(InteractionError::Malformed("`team` is no team's id".to_owned()));
    }
    if !slack_id(&user.id, "UW") {
        return Err(InteractionError::Malformed("`user` is no user's id".to_owned()));
    }
    Ok(Sender { team, user: user.id })
}

fn name(parts: &[&str]) -> Digest {
    // Ids and times have no such byte.
    Digest::of(parts.join("\0").as_bytes())
}

fn pressed(payload: BlockActions) -> Result<Pressed, InteractionError> {
    let sender = sender(payload.team, payload.user)?;
    let [action] = payload.actions.as_slice() else {
        return Err(InteractionError::Malformed("`actions` is not one action".to_owned()));
    };
    if action.r#type != "button" {
        return Err(InteractionError::NotOurs("action"));
    }
    let button = match action.action_id.as_str() {
        APPROVE => Button::Approve,
        REJECT => Button::Reject,
        _ => return Err(InteractionError::NotOurs("action")),
    };
    let about = About::parse(&action.value).ok_or(InteractionError::NotOurs("value"))?;
    let bounded = |text: &str| (1..=255).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_graphic());
    if !bounded(&payload.trigger_id) || !bounded(&action.action_ts) {
        return Err(InteractionError::Malformed("`trigger_id` or `action_ts` is none".to_owned()));
    }
    if !slack_id(&payload.channel.id, "CGD") {
        return Err(InteractionError::Malformed("`channel` is no channel's id".to_owned()));
    }
    let named = name(&["button", &sender.team, &sender.user, &action.action_id, &action.action_ts, &action.value]);
    Ok(Pressed { sender, channel: payload.channel.id, trigger: payload.trigger_id, button, about, action: named })
}

fn submitted(payload: ViewSubmission) -> Result<Submitted, InteractionError> {
    let sender = sender(payload.team, payload.user)?;
    let view = payload.view;
    if view.callback_id != REASON_MODAL {
        return Err(InteractionError::NotOurs("callback_id"));
    }
    let about = About::parse(&view.private_metadata).ok_or(InteractionError::NotOurs("private_metadata"))?;
    let reason = view.state.values.reason.reason.value.unwrap_or_default();
    // Slack holds the text to the modal's bound; this one only keeps what is absurd out.
    if !(1..=255).contains(&view.id.len()) || reason.len() > 16 * 1024 {
        return Err(InteractionError::Malformed("`view` is too large".to_owned()));
    }
    let named = name(&["modal", &sender.team, &sender.user, &view.id, &view.private_metadata, &reason]);
    Ok(Submitted { sender, about, reason, action: named })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::signature::{Secret, Secrets, Signed};
    use hmac::{Hmac, KeyInit as _, Mac as _};
    use plangate_gate::time::Timestamp;
    use serde_json::{Value, json};

    const RUN: &str = "run-01arz3ndektsv4rrffq69g5fav";

    fn digest() -> Digest {
        Digest::of(b"projection")
    }

    fn parse(payload: &Value) -> Result<Interaction, InteractionError> {
        let encoded: String = payload.to_string().bytes().map(|b| format!("%{b:02X}")).collect();
        let body = format!("payload={encoded}");
        let mut hmac = Hmac::<sha2::Sha256>::new_from_slice(b"secret").unwrap();
        hmac.update(format!("v0:1000:{body}").as_bytes());
        let signature = format!("v0={}", hex::encode(hmac.finalize().into_bytes()));
        let signed = Signed { timestamp: Some("1000"), signature: Some(&signature), body: body.as_bytes() };
        let secrets = Secrets { current: Secret::new("secret").unwrap(), previous: None };
        Interaction::parse(&signed.check(&secrets, Timestamp::from_unix_seconds(1000).unwrap()).unwrap())
    }

    fn press() -> Value {
        json!({
            "type": "block_actions", "token": "deprecated", "api_app_id": "A1", "trigger_id": "13345224609.738474920.8088930838d88f",
            "team": {"id": "T0AAAAAAA", "domain": "acme"}, "enterprise": null, "is_enterprise_install": false,
            "user": {"id": "U0BOB0000", "username": "bob", "name": "The Boss", "team_id": "T0AAAAAAA"},
            "channel": {"id": "C0CHANGES", "name": "changes"},
            "container": {"type": "message", "message_ts": "1548261231.000200", "channel_id": "C0CHANGES"},
            "actions": [{"type": "button", "action_id": APPROVE, "block_id": "b", "action_ts": "1548426417.840180",
                "value": format!("v1 {RUN} {}", digest()), "text": {"type": "plain_text", "text": "Approve"}}]
        })
    }

    fn submission() -> Value {
        json!({
            "type": "view_submission", "team": {"id": "T0AAAAAAA"}, "user": {"id": "U0BOB0000", "name": "bob", "team_id": "T0AAAAAAA"},
            "view": {"id": "VMHU10V25", "type": "modal", "callback_id": REASON_MODAL, "hash": "156772938.1827394",
                "private_metadata": format!("v1 {RUN} {}", digest()),
                "state": {"values": {"reason": {"reason": {"type": "plain_text_input", "value": "too much at once"}}}}}
        })
    }

    fn changed(mut payload: Value, pointer: &str, to: Value) -> Value {
        *payload.pointer_mut(pointer).unwrap() = to;
        payload
    }

    #[test]
    fn a_press_is_who_where_which_button_and_what_it_is_about() {
        let Interaction::Pressed(pressed) = parse(&press()).unwrap() else { panic!("not a press") };
        assert_eq!(pressed.sender, Sender { team: "T0AAAAAAA".into(), user: "U0BOB0000".into() });
        assert_eq!((pressed.channel.as_str(), pressed.button), ("C0CHANGES", Button::Approve));
        assert_eq!(pressed.about, About { run: RUN.parse().unwrap(), projection: digest() });
        assert_eq!(About::parse(&pressed.about.to_string()), Some(pressed.about));
    }

    #[test]
    fn a_submission_is_who_what_about_and_why() {
        let Interaction::Submitted(submitted) = parse(&submission()).unwrap() else { panic!("not a submission") };
        assert_eq!(submitted.reason, "too much at once");
        assert_eq!(submitted.about.run.as_str(), RUN);
        let none = changed(submission(), "/view/state/values/reason/reason/value", Value::Null);
        let Interaction::Submitted(submitted) = parse(&none).unwrap() else { panic!("not a submission") };
        assert_eq!(submitted.reason, "", "what it means is decided where decisions are");
    }

    #[test]
    fn names_do_not_make_somebody_and_the_team_is_the_users_own() {
        let named = changed(press(), "/user/name", json!("alice"));
        let Interaction::Pressed(pressed) = parse(&named).unwrap() else { panic!("not a press") };
        assert_eq!(pressed.sender.user, "U0BOB0000");
        let guest = changed(press(), "/user/team_id", json!("T0ZZZZZZZ"));
        let Interaction::Pressed(pressed) = parse(&guest).unwrap() else { panic!("not a press") };
        assert_eq!(pressed.sender.team, "T0ZZZZZZZ");
    }

    #[test]
    fn the_same_press_told_again_has_the_same_name_and_another_has_another() {
        let action = |payload: &Value| match parse(payload).unwrap() {
            Interaction::Pressed(pressed) => pressed.action,
            Interaction::Submitted(submitted) => submitted.action,
        };
        assert_eq!(action(&press()), action(&changed(press(), "/trigger_id", json!("1.2.another"))));
        for (pointer, to) in [
            ("/actions/0/action_ts", json!("1548426418.840180")),
            ("/actions/0/action_id", json!(REJECT)),
            ("/user/id", json!("U0ALICE00")),
        ] {
            assert_ne!(action(&press()), action(&changed(press(), pointer, to)), "{pointer}");
        }
        let other = changed(submission(), "/view/state/values/reason/reason/value", json!("corrected"));
        assert_ne!(action(&submission()), action(&other));
    }

    #[test]
    fn whatever_our_messages_do_not_bring_about_is_refused() {
        let value = |text: &str| json!(text);
        for (payload, pointer, to) in [
            (press(), "/type", value("message_action")),
            (press(), "/team", Value::Null),
            (press(), "/user/id", value("bob")),
            (press(), "/user/id", value("U0B/OB#1")),
            (press(), "/user/team_id", value("acme")),
            (press(), "/user/id", json!(["U0BOB0000"])),
            (press(), "/channel/id", value("#changes")),
            (press(), "/actions", json!([])),
            (press(), "/actions/0/type", value("static_select")),
            (press(), "/actions/0/action_id", value("other.approve")),
            (press(), "/actions/0/value", value(RUN)),
            (press(), "/actions/0/value", json!(format!("v1 {RUN} {} more", digest()))),
            (press(), "/actions/0/value", json!(format!("v2 {RUN} {}", digest()))),
            (press(), "/trigger_id", value("")),
            (submission(), "/view/callback_id", value("other")),
            (submission(), "/view/private_metadata", value("")),
            (submission(), "/view/state/values", json!({"other": {}})),
            (submission(), "/view/id", json!("V".repeat(256))),
        ] {
            let payload = changed(payload, pointer, to);
            assert!(parse(&payload).is_err(), "{pointer}: {payload}");
        }
        let two = press()["actions"][0].clone();
        assert!(parse(&changed(press(), "/actions", json!([two.clone(), two]))).is_err());
    }
}
