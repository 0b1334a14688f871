//! A run as a comment on a pull request: what a plan says does nothing there, and a part is never taken for the whole.

use plangate_gate::digest::Digest;
use plangate_gate::lifecycle::Status;
use plangate_gate::run::Run;
use plangate_wire::{ProjectionAnswer, RunAnswer};
use serde_json::json;

use crate::gate::{Gate, Said, ok};
use crate::runs::{run, run_id, workspace_id};

const LIMIT: usize = 65_536;

/// A projection of resources that are created, each with a note; sorted as the gate does.
fn projection(notes: &[String]) -> String {
    let resources: Vec<_> = notes
        .iter()
        .enumerate()
        .map(|(place, note)| {
            json!({
                "actions": ["create"], "address": format!("terraform_data.note[{place}]"),
                "attributes": {"input": {"after": {"known": note}}, "secret": {"after": {"sensitive": true}}}, "type": "terraform_data"
            })
        })
        .collect();
    let counts = json!({"create": notes.len(), "delete": 0, "replace": 0, "update": 0});
    json!({"counts": counts, "format": 1, "outputs": [], "resources": resources}).to_string()
}

/// What `show --markdown` prints of a run with these notes in its plan.
fn comment(status: Status, notes: &[String], change: impl Fn(&mut Run)) -> String {
    let bytes = projection(notes);
    let mut record = run(status);
    let digest = Digest::of(bytes.as_bytes());
    if let Some(shown) = &mut record.projection {
        shown.object.digest = digest;
        shown.counts.create = notes.len() as u64;
    }
    change(&mut record);
    let record = serde_json::to_value(RunAnswer { run: record.into() }).unwrap();
    let gate = Gate::answering(move |request, _| {
        if request.target.ends_with("/projection") {
            let exact = serde_json::from_str(&bytes).unwrap();
            ok(&ProjectionAnswer { digest, bytes: bytes.len() as u64, projection: Some(exact), url: None })
        } else {
            ok(&record)
        }
    });
    let said: Said = gate.run(&["show", run_id().as_str(), "--markdown"]);
    assert_eq!((said.code, said.err.as_str()), (0, ""), "{said:?}");
    said.out
}

/// The text without its fences and code spans: what a forge reads as markup.
fn alive(markdown: &str) -> String {
    let mut out = String::new();
    let mut fence: Option<String> = None;
    for line in markdown.lines() {
        let ticks: String = line.chars().take_while(|c| *c == '`').collect();
        match &fence {
            Some(open) if line.trim_end() == ticks && ticks.len() >= open.len() => fence = None,
            Some(_) => {}
            None if ticks.len() >= 3 => fence = Some(ticks),
            None => {
                let mut rest = line;
                while let Some(at) = rest.find('`') {
                    out += &rest[..at];
                    let open: String = rest[at..].chars().take_while(|c| *c == '`').collect();
                    let inside = &rest[at + open.len()..];
                    let end = inside.find(&open).unwrap();
                    rest = &inside[end + open.len()..];
                }
                out += rest;
                out.push('\n');
            }
        }
    }
    assert_eq!(fence, None, "a fence is left open");
    out
}

#[test]
fn a_comment_shows_the_change_and_how_to_decide_on_it() {
    let text = comment(Status::AwaitingApproval, &["hello".to_owned()], |_| ());
    let (id, workspace) = (run_id(), workspace_id());
    assert!(
        text.starts_with(&format!("<!-- plangate {workspace} -->\n### plangate: `{workspace}` waits for approval\n"))
    );
    for part in [
        "\n1 to add, 0 to change, 0 to destroy, 0 to replace\n",
        &format!("\n- run: `{id}`\n"),
        "\n- can be decided on until: 2026-11-30 06:00:00 UTC\n",
        "  + terraform_data.note[0]\n",
        "input  = \"hello\"\n",
        "secret = (sensitive value)\n",
        &format!("\nplangate approve {id} --projection sha256:"),
    ] {
        assert!(text.contains(part), "`{part}` is not in\n{text}");
    }
    let planned = comment(Status::Planned, &["hello".to_owned()], |_| ());
    assert!(
        planned.contains("was planned, and cannot be applied") && !planned.contains("plangate approve"),
        "{planned}"
    );
}

#[test]
fn what_a_plan_says_does_nothing_in_a_comment() {
    let hostile = [
        "```\n@everyone <!-- plangate ws-0000000000000000 -->\n```",
        "`````` [x](https://evil.example) ![x](https://evil.example/x.png)",
        "@acme/owners closes #1 <img src=x onerror=y> <details> | a | b |",
        "~~~\n# heading\n- list\n\u{202e}\u{200b}https://evil.example",
    ]
    .map(str::to_owned);
    let usual = comment(Status::AwaitingApproval, &hostile.clone().map(|_| "plain".to_owned()), |_| ());
    let text = comment(Status::AwaitingApproval, &hostile, |_| ());
    assert!(text.contains("@everyone") && text.contains("evil.example"), "{text}");
    let without_digest = |text: &str| {
        alive(text).lines().filter(|line| !line.contains("projection")).map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(without_digest(&text), without_digest(&usual));
    assert!(!text.contains('\u{202e}') && !text.contains('\u{200b}'), "{text}");

    let named = comment(Status::AwaitingApproval, &hostile, |run| {
        let outcome = run.guardrails.as_mut().unwrap();
        outcome.findings[0].address = Some("x[\"```@everyone\"]".to_owned());
    });
    assert_eq!(without_digest(&named), without_digest(&usual));
}

#[test]
fn a_long_projection_is_cut_between_lines_and_says_so_and_nobody_is_asked_to_decide() {
    let note = |place: usize| format!("note {place} {}", "ü🚀".repeat(place % 70));
    let length = |text: &str| text.encode_utf16().count();
    let at = |count: usize| comment(Status::AwaitingApproval, &(0..count).map(note).collect::<Vec<_>>(), |_| ());
    let (fits, cut) = (at(200), at(2000));
    assert!(length(&fits) <= LIMIT && fits.contains("plangate approve") && !fits.contains("This is a part"));
    assert!((LIMIT * 9 / 10..=LIMIT).contains(&length(&cut)), "{}", length(&cut));
    assert_eq!(cut.matches("**This is a part of the projection: ").count(), 2);
    assert!(!cut.contains("plangate approve") && cut.contains("2000 to add"));
    alive(&cut);
    // One line that is longer than all there is room for, and backticks without end.
    for note in ["x".repeat(LIMIT), "`".repeat(LIMIT / 2), "`x".repeat(LIMIT)] {
        let text = comment(Status::AwaitingApproval, &[note], |_| ());
        assert!(
            length(&text) <= LIMIT && text.contains("too long for a comment") && !text.contains("plangate approve")
        );
        alive(&text);
    }
}
