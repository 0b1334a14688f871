//! What a message shows, what it never shows, and when it shows nothing.

use plangate_gate::document::PlanDocument;
use plangate_gate::ids::{RunId, WorkspaceId};
use plangate_gate::projection::{Projection, Withhold};
use plangate_gate::time::Timestamp;

use super::*;

fn now() -> Timestamp {
    "2026-11-30T05:00:00Z".parse().unwrap()
}

/// A projection with one created resource of this address and value for each pair.
fn projection(resources: &[(&str, &str)]) -> Vec<u8> {
    let changes: Vec<Value> = resources
        .iter()
        .map(|(address, value)| {
            json!({"address": address, "type": "terraform_data",
                   "change": {"actions": ["create"], "before": null, "after": {"input": value}}})
        })
        .collect();
    let document = json!({"format_version": "1.2", "resource_changes": changes}).to_string();
    let document = PlanDocument::parse_untrusted(document.as_bytes()).unwrap();
    Projection::of(&document, &Withhold::nothing()).into_bytes()
}

/// A run that has come as far as `status`, with this projection.
fn run(status: Status, projection: &[u8]) -> Run {
    let (id, workspace) = (RunId::new(now(), [7; 10]), WorkspaceId::new([3; 10]));
    let object = |bytes: &[u8]| json!({"bucket": "b", "key": "k", "digest": Digest::of(bytes), "bytes": bytes.len()});
    let mut record = json!({
        "schema": "plangate.run.v1", "id": id, "workspace": workspace, "kind": "applicable", "status": status,
        "proposer": {"person": "ana", "arn": "arn:aws:sts::123456789012:assumed-role/developers/ana"},
        "origin": "person", "proposed_at": now(), "updated_at": now(), "bundle": object(b"bundle"), "fence": 1,
        "plan": {
            "receipt": Digest::of(b"receipt"), "caller": "arn:aws:sts::123456789012:assumed-role/plan/x",
            "engine": {"name": "opentofu", "version": "1.11.6"}, "lock_file": "none", "exit_code": 2,
            "artifact": object(b"artifact"), "document": object(b"document"), "plan_format": "1.2",
            "state": {"state": "none"}, "state_lock": {"locking": false}, "isolation": "same-user",
            "received_at": now(), "expires_at": "2026-11-30T06:00:00Z"
        },
        "projection": {"object": object(projection), "counts": {"create": 1, "update": 0, "delete": 0, "replace": 0}},
        "guardrails": {
            "rule_set": {"id": "plangate.guardrails", "version": "1", "digest": Digest::of(b"rules")},
            "policy": Digest::of(b"policy"), "eligible": false, "findings_total": 1,
            "findings": [{"reason": "access-widened", "address": "terraform_data.x", "path": "input"}]
        }
    });
    let fields = record.as_object_mut().unwrap();
    if !matches!(status, Status::AwaitingApproval | Status::Expired | Status::Canceled) {
        let choice = if status == Status::Rejected { "reject" } else { "approve" };
        fields.insert("decision".into(), json!({
            "choice": choice, "surface": "slack", "projection": Digest::of(projection), "at": "2026-11-30T05:10:00Z",
            "by": {"kind": "slack", "person": "ben", "team": "T0AAAAAAA", "user": "U0BEN0000"},
            "reason": "the approver's own prose"
        }));
    }
    if status == Status::Failed {
        fields.insert("failure".into(), json!({"reason": "apply-errored", "detail": "a line of the engine's"}));
    }
    serde_json::from_value(record).unwrap()
}

fn message(run: &Run, projection: &[u8]) -> Message {
    Message::of(&Subject { run, workspace: "payments", projection: Some(projection) })
}

/// All texts of a message, each with the type of element in which it stands.
fn texts(value: &Value) -> Vec<(String, String)> {
    match value {
        Value::Array(items) => items.iter().flat_map(texts).collect(),
        Value::Object(fields) => {
            let mut found: Vec<_> = fields.values().flat_map(texts).collect();
            if let (Some(Value::String(kind)), Some(Value::String(text))) = (fields.get("type"), fields.get("text")) {
                found.push((kind.clone(), text.clone()));
            }
            found
        }
        _ => Vec::new(),
    }
}

fn all(message: &Message) -> String {
    texts(&json!(message.blocks)).into_iter().map(|(_, text)| format!("{text}\n")).collect()
}

fn kinds(message: &Message) -> Vec<&str> {
    message.blocks.iter().filter_map(|block| block["type"].as_str()).collect()
}

/// What Slack documents of the blocks that are used here.
fn within_limits(message: &Message) {
    assert!(message.blocks.len() <= 50 && json!(message.blocks).to_string().len() <= 13_000);
    for (kind, text) in texts(&json!(message.blocks)) {
        assert!(!text.is_empty() && text.chars().count() <= 3000, "{kind}: {text}");
        assert!(kind == "plain_text" || kind == "text", "{kind} is read for markup");
    }
    for block in &message.blocks {
        let short =
            |part: &Value, limit: usize| assert!(part["text"].as_str().unwrap().chars().count() <= limit, "{part}");
        match block["type"].as_str().unwrap() {
            "header" => short(&block["text"], 150),
            "section" => {
                let fields = block["fields"].as_array().cloned().unwrap_or_default();
                assert!(fields.len() <= 10);
                fields.iter().for_each(|field| short(field, 2000));
            }
            "actions" => {
                for button in block["elements"].as_array().unwrap() {
                    short(&button["text"], 75);
                    assert!(button["value"].as_str().unwrap().len() <= 2000);
                    if let Some(confirm) = button.get("confirm") {
                        short(&confirm["title"], 100);
                        short(&confirm["text"], 300);
                        short(&confirm["confirm"], 30);
                        short(&confirm["deny"], 30);
                    }
                }
            }
            _ => {}
        }
    }
}

#[test]
fn a_waiting_run_is_shown_whole_with_what_is_needed_to_decide() {
    let projection = projection(&[("terraform_data.x", "one"), ("terraform_data.y", "two")]);
    let run = run(Status::AwaitingApproval, &projection);
    let message = message(&run, &projection);
    within_limits(&message);
    let text = all(&message);
    let digest = Digest::of(&projection).to_string();
    for part in [
        "payments",
        run.workspace.as_str(),
        run.id.as_str(),
        "ana",
        "applicable",
        "Plan: 2 to add, 0 to change",
        "+ terraform_data.x",
        "input = \"two\"",
        "access-widened  terraform_data.x  input",
        "2026-11-30T06:00:00Z",
        &digest,
    ] {
        assert!(text.contains(part), "`{part}` is missing in\n{text}");
    }
    let buttons = message.blocks.last().unwrap()["elements"].as_array().unwrap();
    assert_eq!(buttons.iter().map(|b| b["action_id"].as_str().unwrap()).collect::<Vec<_>>(), [APPROVE, REJECT]);
    assert!(buttons.iter().all(|b| b["value"] == format!("v1 {} {digest}", run.id)));
    assert!(buttons[0].get("confirm").is_some());
}

#[test]
fn once_nobody_can_decide_any_more_there_is_nothing_to_press() {
    let projection = projection(&[("terraform_data.x", "one")]);
    for (status, part) in [
        (Status::Approved, "Approved by\nben, 2026-11-30T05:10:00Z"),
        (Status::Applying, "Being applied"),
        (Status::Applied, "Approved by\nben"),
        (Status::Rejected, "Rejected by\nben"),
        (Status::Expired, "nobody decided in time"),
        (Status::Canceled, "Withdrawn"),
        (Status::Failed, "apply-errored. Next:"),
    ] {
        let message = message(&run(status, &projection), &projection);
        within_limits(&message);
        assert!(!kinds(&message).contains(&"actions"), "{status}");
        assert!(all(&message).contains(part), "{status}: `{part}` is missing in\n{}", all(&message));
        assert!(all(&message).contains("+ terraform_data.x"), "{status}");
    }
}

#[test]
fn nothing_but_projection_and_identifiers_is_told() {
    let projection = projection(&[("terraform_data.x", "one")]);
    let text = all(&message(&run(Status::Failed, &projection), &projection));
    assert!(!text.contains("own prose") && !text.contains("a line of the engine's"), "{text}");
}

#[test]
fn a_verdict_is_shown_by_its_decision_severities_and_addresses_and_not_in_the_models_words() {
    let projection = projection(&[("terraform_data.x", "a")]);
    let mut run = run(Status::AwaitingApproval, &projection);
    let review = json!({
        "binding": "bedrock", "decision": "escalate", "cause": "escalated", "projection": Digest::of(&projection), "at": now(),
        "reasoning": "the model's reasoning",
        "findings": [
            {"severity": "critical", "address": "terraform_data.x", "note": "the model's note"},
            {"severity": "info", "note": "the model's other note"}
        ]
    });
    run.review = Some(serde_json::from_value(review).unwrap());
    let shown = message(&run, &projection);
    within_limits(&shown);
    let shown = all(&shown);
    for told in ["bedrock: escalate (escalated)", "critical  terraform_data.x", "info  the plan as a whole"] {
        assert!(shown.contains(told), "{told} is not in {shown}");
    }
    assert!(!shown.contains("the model's"), "{shown}");
}

#[test]
fn what_does_not_fit_is_not_shown_in_part_and_has_no_button() {
    let many: Vec<(String, String)> = (0..200).map(|n| (format!("terraform_data.r{n}"), "x".repeat(40))).collect();
    let many: Vec<(&str, &str)> = many.iter().map(|(a, b)| (a.as_str(), b.as_str())).collect();
    let long = "x".repeat(3000);
    for projection in [projection(&many), projection(&[("terraform_data.r0", &long)])] {
        let run = run(Status::AwaitingApproval, &projection);
        let message = message(&run, &projection);
        within_limits(&message);
        assert_eq!(kinds(&message), ["header", "section", "section", "context"]);
        let text = all(&message);
        assert!(!text.contains("terraform_data.r0"), "{text}");
        assert!(text.contains("to add") && text.contains(&format!("plangate approve {}", run.id)), "{text}");
    }
}

#[test]
fn it_is_whole_up_to_the_last_character_that_fits_and_counts_alone_beyond() {
    let mut before = None;
    for length in (0..3000).step_by(7) {
        let value = "y".repeat(length);
        let all = vec![("terraform_data.a", value.as_str()); 5];
        let projection = projection(&all);
        let message = message(&run(Status::AwaitingApproval, &projection), &projection);
        within_limits(&message);
        let whole = kinds(&message).contains(&"actions");
        assert_eq!(whole, kinds(&message).contains(&"rich_text"), "a list and buttons come together");
        if whole {
            assert_eq!(json!(message.blocks).to_string().matches(value.as_str()).count().min(5), 5);
        }
        assert!(before != Some(false) || !whole, "once too large, always too large");
        before = Some(whole);
    }
    assert_eq!(before, Some(false));
}

#[test]
fn reasons_that_are_not_all_there_or_do_not_fit_are_not_shown_in_part_either() {
    let projection = projection(&[("terraform_data.x", "one")]);
    let mut more = run(Status::AwaitingApproval, &projection);
    more.guardrails.as_mut().unwrap().findings_total = 101;
    let mut long = run(Status::AwaitingApproval, &projection);
    long.guardrails.as_mut().unwrap().findings[0].address = Some("a".repeat(3000));
    for run in [more, long] {
        let message = message(&run, &projection);
        within_limits(&message);
        assert!(!kinds(&message).contains(&"actions") && !kinds(&message).contains(&"rich_text"));
    }
}

#[test]
fn another_projection_than_the_records_is_not_shown() {
    let (one, other) = (projection(&[("terraform_data.x", "one")]), projection(&[("terraform_data.x", "two")]));
    let run = run(Status::AwaitingApproval, &one);
    for bytes in [Some(other.as_slice()), Some(b"{}".as_slice()), None] {
        let message = Message::of(&Subject { run: &run, workspace: "payments", projection: bytes });
        assert!(!kinds(&message).contains(&"actions"), "{bytes:?}");
        assert!(all(&message).contains("Plan: 1 to add, 0 to change, 0 to destroy, 0 to replace."));
    }
}

#[test]
fn what_a_plan_says_stays_text() {
    let hostile = "<!channel> <@U0BOB0000> <https://evil.example|approve> *b* ```x``` :tada: @here https://evil.example &amp; \u{202e}\u{200b}\u{7}\r\n> quote";
    let address = "terraform_data.x[\"<!everyone>`*_~\u{202d}\n# A header\"]";
    let projection = projection(&[(address, hostile)]);
    let run = run(Status::AwaitingApproval, &projection);
    let message =
        Message::of(&Subject { run: &run, workspace: "<!here> *pay*\u{202e}ments", projection: Some(&projection) });
    within_limits(&message);
    let text = all(&message);
    // All of it is there, as it is; what is none of it is a character that acts.
    assert!(text.contains("<!channel> <@U0BOB0000> <https://evil.example|approve>"), "{text}");
    assert!(text.contains("\\u{202e}") && text.contains("\\u{200b}"), "{text}");
    assert!(
        !text.chars().any(|c| (c.is_control() && c != '\n') || matches!(c, '\u{200b}' | '\u{202d}' | '\u{202e}')),
        "{text:?}"
    );
    assert!(!text.contains("\n# A header") && !text.contains("\n> quote"), "a value cannot begin a line of its own");
    // What Slack does read markup in has nothing of the plan or of names that people choose.
    assert!(!message.text.contains("evil") && !message.text.contains("here"), "{}", message.text);
}

#[test]
fn the_same_run_gives_the_same_message_and_another_state_another() {
    let projection = projection(&[("terraform_data.x", "one")]);
    let digest = |status| message(&run(status, &projection), &projection).digest();
    assert_eq!(digest(Status::AwaitingApproval), digest(Status::AwaitingApproval));
    assert_ne!(digest(Status::AwaitingApproval), digest(Status::Applied));
}

/// A run whose plan has read another state than the one that was known; its lineage is what somebody has written.
fn notices(run: &mut Run, lineage: &str) {
    let sighting = |serial: u64| {
        json!({"state": {"state": "present", "lineage": lineage, "serial": serial, "version_id": "v", "digest": Digest::of(b"s")},
               "run": run.id, "phase": "plan", "from": now(), "to": now()})
    };
    let compared = json!({"word": "changed-outside", "change": {"before": sighting(4), "after": sighting(9)}});
    run.compared = Some(serde_json::from_value(compared).unwrap());
}

#[test]
fn a_change_outside_of_the_gate_is_told_with_both_identities_and_nothing_of_a_plan() {
    let projection = projection(&[("terraform_data.x", "one")]);
    let mut run = run(Status::Planned, &projection);
    let outside = |run: &Run| Message::outside(&Subject { run, workspace: "payments", projection: Some(&projection) });
    assert_eq!(outside(&run), None);
    notices(&mut run, "evil\u{202e}*bold*");
    let message = outside(&run).unwrap();
    within_limits(&message);
    let text = all(&message);
    for part in ["serial 4", "serial 9", run.id.as_str(), "around the gate", "plangate workspace get"] {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert!(!text.contains('\u{202e}') && !text.contains("terraform_data.x"), "{text}");
}

#[test]
fn drift_is_told_with_what_would_be_changed_or_where_that_is_to_be_seen() {
    use plangate_gate::drift::DriftWord;
    let small = projection(&[("terraform_data.x", "one")]);
    let many: Vec<(String, String)> = (0..900).map(|n| (format!("terraform_data.r{n}"), "x".repeat(30))).collect();
    let many: Vec<(&str, &str)> = many.iter().map(|(address, value)| (address.as_str(), value.as_str())).collect();
    let large = projection(&many);
    let told = |projection: &[u8], word: DriftWord| {
        let mut run = run(Status::Planned, projection);
        run.drift = Some(word);
        Message::drift(&Subject { run: &run, workspace: "payments", projection: Some(projection) })
    };
    let message = told(&small, DriftWord::Found { previous: None }).unwrap();
    within_limits(&message);
    assert!(all(&message).contains("terraform_data.x") && all(&message).contains("not as it was applied"));
    assert!(!kinds(&message).contains(&"actions"), "nobody decides on it");
    let message = told(&large, DriftWord::Found { previous: Some(Digest::of(b"before")) }).unwrap();
    within_limits(&message);
    let text = all(&message);
    assert!(!text.contains("terraform_data.r1") && text.contains("plangate show") && text.contains("something else"));
    let message = told(&small, DriftWord::Gone { previous: Digest::of(b"before") }).unwrap();
    within_limits(&message);
    assert!(!all(&message).contains("terraform_data.x") && all(&message).contains("Drift is gone"));
    let mut failed = run(Status::Failed, &small);
    failed.drift = Some(DriftWord::Failing);
    let subject = Subject { run: &failed, workspace: "payments", projection: None };
    let message = Message::drift(&subject).unwrap();
    within_limits(&message);
    let text = all(&message);
    assert!(
        text.contains("apply-errored") && !text.contains("a line of the engine's"),
        "the reason, and no detail: {text}"
    );
    for word in [DriftWord::Nothing, DriftWord::Unclear] {
        assert_eq!(told(&small, word), None);
    }
}
