//! What the record shows, and that the audit chain is verified on the reader's own machine.

use plangate_gate::audit::{SealedEvent, What};
use plangate_gate::digest::Digest;
use plangate_gate::lifecycle::Status;
use plangate_gate::run::Actor;
use plangate_wire::{AnnotationAnswer, AnnotationView, Reason, RunsAnswer};

use crate::gate::{Gate, Said, ok, refuse};
use crate::runs::{PROJECTION, answer, events, now, page, projection, run, run_id, workspace_id};

#[test]
fn the_record_of_an_applied_run_says_who_what_which_versions_and_both_states() {
    let gate = Gate::answering(|request, _| {
        if request.target.ends_with("/projection") { ok(&projection()) } else { ok(&answer(Status::Applied)) }
    });
    let id = run_id();
    let said = gate.run(&["show", id.as_str()]);
    assert_eq!(said.code, 0, "{said:?}");
    let of = |text: &str| Digest::of(text.as_bytes());
    let (workspace, shown) = (workspace_id(), of(PROJECTION));
    let expected = format!(
        "\
{id}
  status         applied
  workspace      {workspace}
  kind           applicable
  proposed by    ana (arn:aws:sts::123456789012:assumed-role/developers/ana)
  proposed at    2026-11-30 05:00:00 UTC
  ended at       2026-11-30 05:11:00 UTC, after 11 min 0 s
  bundle         {} (6 B)

Plan
  engine         opentofu 1.11.6
  identity       arn:aws:sts::123456789012:assumed-role/{workspace}-plan/x
  artifact       {} (8 B)
                 version v-a
  document       {} (8 B)
  projection     {shown} ({} B)
  lock file      none needed
  state          serial 4 of lineage l-1
                 version v-4
                 {}
  expires        2026-11-30 06:00:00 UTC

Guardrails
  outcome        not eligible
  rules          plangate.guardrails 1
                 {}
  policy         {}
  reasons        access-widened  terraform_data.greeting  input

Decision
  decision       approved
  by             ben (arn:aws:sts::123456789012:assumed-role/approvers/ben)
  at             2026-11-30 05:10:00 UTC
  projection     {shown}
  reason         seen

Apply
  ordered at     2026-11-30 05:10:05 UTC
  order          {}
  identity       arn:aws:sts::123456789012:assumed-role/{workspace}-apply/x
  exit code      0
  state before   serial 4 of lineage l-1
                 version v-4
                 {}
  state after    serial 5 of lineage l-1
                 version v-5
                 {}

Projection
  # terraform_data.greeting will be created
  + terraform_data.greeting
      + id    = (known after apply)
      + input = (sensitive value)

Plan: 1 to add, 0 to change, 0 to destroy, 0 to replace.
",
        of("bundle"),
        of("artifact"),
        of("document"),
        PROJECTION.len(),
        of("state 4"),
        of("rules"),
        of("policy"),
        of("order"),
        of("state 4"),
        of("state 5")
    );
    // Whether the plan is past its expiry depends on the day on which this is read.
    assert_eq!(said.out.replace(" UTC (past)", " UTC"), expected);
}

/// A run that a reviewer looked at and nobody approved.
fn reviewed() -> plangate_gate::run::Run {
    let mut record = serde_json::to_value(run(Status::Applied)).unwrap();
    let of = |text: &str| Digest::of(text.as_bytes());
    record["guardrails"]["eligible"] = true.into();
    record["guardrails"]["findings"] = serde_json::json!([]);
    record["guardrails"]["findings_total"] = 0.into();
    record["review"] = serde_json::json!({
        "binding": "anthropic", "decision": "approve", "projection": of(PROJECTION), "policy": of("prose"),
        "model": { "requested": "model-1", "answered": "model-1-dated\u{202e}" },
        "prompt": { "version": 1, "digest": of("prompt") }, "attempts": 1, "milliseconds": 900,
        "tokens": { "input": 1500, "output": 90 }, "reasoning": "Plain.", "at": "2026-11-30T05:09:00Z",
        "findings": [{ "severity": "info", "address": "terraform_data.greeting", "note": "new\u{1b}[2J" }],
    });
    record["decision"]["by"] = serde_json::json!({ "kind": "automatic" });
    record["decision"]["surface"] = "automatic".into();
    serde_json::from_value(record).unwrap()
}

#[test]
fn what_a_reviewer_said_is_shown_as_advice_and_that_nobody_decided_is_said() {
    let gate = Gate::answering(|request, _| {
        let shown = plangate_wire::RunAnswer { run: reviewed().into() };
        if request.target.ends_with("/projection") { ok(&projection()) } else { ok(&shown) }
    });
    let said = gate.run(&["show", run_id().as_str()]);
    assert_eq!(said.code, 0, "{said:?}");
    let review = said.out.split("Review\n").nth(1).unwrap().split("\n\n").next().unwrap();
    let of = |text: &str| Digest::of(text.as_bytes());
    let expected = format!(
        "  verdict        approve
  reviewer       anthropic, model-1, answered as model-1-dated\\u{{202e}}
  reasoning      Plain.
  advice         info  terraform_data.greeting  new\\u{{1b}}[2J
  at             2026-11-30 05:09:00 UTC
  used           1500 tokens read, 90 written, in 900 ms
  projection     {}
  prompt         version 1, {}
  review policy  {}",
        of(PROJECTION),
        of("prompt"),
        of("prose")
    );
    assert_eq!(review, expected);
    assert!(said.out.contains("  by             the gate, without a person (automatic)\n"), "{said:?}");
}

#[test]
fn why_a_reviewer_asks_for_a_person_is_said_in_words() {
    let gate = Gate::answering(|request, _| {
        let mut run = reviewed();
        run.review.as_mut().unwrap().cause = Some(plangate_gate::review::Cause::ConfigurationChanged);
        let shown = plangate_wire::RunAnswer { run: run.into() };
        if request.target.ends_with("/projection") { ok(&projection()) } else { ok(&shown) }
    });
    let said = gate.run(&["show", run_id().as_str()]);
    assert!(said.out.contains("  verdict        approve, configuration-changed\n"), "{said:?}");
    assert!(said.out.contains("configuration has changed since the plan was made"), "{said:?}");
}

#[test]
fn the_projection_for_programs_keeps_its_exact_bytes() {
    let gate = Gate::answering(|request, _| {
        if request.target.ends_with("/projection") { ok(&projection()) } else { ok(&answer(Status::Failed)) }
    });
    let id = run_id();
    let said = gate.run(&["show", id.as_str(), "--json"]);
    assert!(said.out.contains(PROJECTION), "{said:?}");
    assert_eq!(said.json()["run"]["next_step"], "propose again: the state has changed since this plan was made");
    assert_eq!(said.out.lines().count(), 1);
}

#[test]
fn what_others_wrote_cannot_steer_the_terminal() {
    let gate = Gate::answering(|request, _| {
        let mut run = run(Status::Rejected);
        run.decision.as_mut().unwrap().reason = Some("fine\u{1b}[1A\u{202e}\nstatus applied".to_owned());
        run.projection = None;
        assert!(!request.target.ends_with("/projection"));
        ok(&plangate_wire::RunAnswer { run: run.into() })
    });
    let id = run_id();
    let said = gate.run(&["show", id.as_str()]);
    assert!(said.out.contains("reason         fine\\u{1b}[1A\\u{202e}\\u{a}status applied\n"), "{said:?}");
    assert!(!said.out.contains('\u{1b}'));
}

#[test]
fn runs_stand_in_columns_and_come_in_pages() {
    let gate = Gate::answering(|request, _| {
        let first = !request.target.contains("cursor=");
        let status = if first { Status::AwaitingApproval } else { Status::Applied };
        ok(&RunsAnswer { runs: vec![run(status).into()], cursor: first.then(|| "c".to_owned()) })
    });
    let said = gate.run(&["runs"]);
    let (id, workspace) = (run_id(), workspace_id());
    assert_eq!(
        said.out,
        format!(
            "\
RUN                             STATUS             KIND        WORKSPACE            PROPOSED (UTC)    BY
{id}  awaiting_approval  applicable  {workspace}  2026-11-30 05:00  ana
{id}  applied            applicable  {workspace}  2026-11-30 05:00  ana
"
        )
    );
    assert_eq!(gate.run(&["runs", "--limit", "1", "--json"]).json()["cursor"], "c");
}

/// A gate whose run has ended as failed, with these events in two pages.
fn audited(events: Vec<SealedEvent>) -> (Gate, Said) {
    let gate = Gate::answering(move |request, _| {
        let half = events.len() / 2;
        match request.target.split('/').nth(4) {
            None => ok(&answer(Status::Failed)),
            Some("audit") => ok(&page(&events[..half], Some("rest"))),
            _ => ok(&page(&events[half..], None)),
        }
    });
    let id = run_id();
    let said = gate.run(&["audit", id.as_str()]);
    (gate, said)
}

#[test]
fn a_whole_chain_is_listed_and_verified() {
    let events = events(Status::Failed);
    let head = events.last().unwrap().digest;
    let (_gate, said) = audited(events);
    assert_eq!(said.code, 0, "{said:?}");
    assert_eq!(
        said.out,
        format!(
            "\
#  AT                       WHO            WHAT
1  2026-11-30 05:00:00 UTC  ana            proposed, applicable, bundle {}
2  2026-11-30 05:00:00 UTC  gate/admit     admitted, holds the lock under fence 1
3  2026-11-30 05:00:00 UTC  gate/conclude  ended failed: state-identity-mismatch
chain of 3 events verified on this machine, ends in {head}
",
            Digest::of(b"bundle")
        )
    );
}

#[test]
fn a_chain_that_was_tampered_with_or_cut_ends_with_1() {
    let whole = events(Status::Failed);
    let mut changed = whole.clone();
    changed[1].bytes = changed[1].bytes.replace("\"fence\":1", "\"fence\":2");
    let (_gate, said) = audited(changed);
    assert_eq!(said.code, 1, "{said:?}");
    assert!(said.err.contains("the audit chain is broken: event 2 was changed"), "{said:?}");
    assert!(!said.out.contains("verified"));

    let mut missing = whole.clone();
    missing.remove(1);
    assert!(audited(missing).1.err.contains("event 2 is missing"));

    let mut cut = whole;
    cut.pop();
    let (_gate, said) = audited(cut);
    assert_eq!(said.code, 1, "{said:?}");
    assert!(said.err.contains("the run's record says `failed`, and no event does"), "{said:?}");
}

/// The events of an applied run with two notes behind its end.
fn annotated() -> Vec<SealedEvent> {
    let mut events = events(Status::Applied);
    let by = |person: &str| Actor::Person {
        person: person.parse().unwrap(),
        arn: format!("arn:aws:sts::1:assumed-role/{person}/x"),
    };
    for (who, note, corrects) in [("ben", "the ticket was 17\u{1b}[2J", Some(1)), ("cleo", "seen in the estate", None)]
    {
        let (last, what) = (events.last().unwrap(), What::RunAnnotated { note: note.to_owned(), corrects });
        events.push(SealedEvent::next(last.chain.clone(), Some(&last.head()), now(), by(who), what).unwrap());
    }
    events
}

#[test]
fn notes_to_a_run_that_has_ended_are_shown_beside_its_record_and_do_nothing() {
    let gate = Gate::answering(|request, _| match request.target.split('?').next().unwrap() {
        target if target.ends_with("/audit") => ok(&page(&annotated(), None)),
        target if target.ends_with("/projection") => ok(&projection()),
        _ => ok(&answer(Status::Applied)),
    });
    let id = run_id();
    let said = gate.run(&["show", id.as_str(), "--no-projection"]);
    assert_eq!((said.code, said.err.as_str()), (0, ""), "{said:?}");
    let notes = said.out.split("\nAnnotations\n").nth(1).unwrap();
    let expected = "  event 4        2026-11-30 05:00:00 UTC, corrects event 1
  by             ben (arn:aws:sts::1:assumed-role/ben/x)
  note           the ticket was 17\\u{1b}[2J
  event 5        2026-11-30 05:00:00 UTC
  by             cleo (arn:aws:sts::1:assumed-role/cleo/x)
  note           seen in the estate
";
    assert_eq!(notes, expected);
    let shown = gate.run(&["show", id.as_str(), "--no-projection", "--json"]).json();
    assert_eq!(shown["annotations"][1]["by"]["person"], "cleo");
    assert_eq!((&shown["annotations"][0]["seq"], &shown["annotations"][0]["corrects"]), (&4.into(), &1.into()));

    let listed = gate.run(&["audit", id.as_str()]);
    assert_eq!(listed.code, 0, "{listed:?}");
    assert!(listed.out.contains("annotated, corrects event 1: the ticket was 17\\u{1b}[2J"), "{listed:?}");
    assert!(listed.out.contains("chain of 5 events verified on this machine"), "{listed:?}");
}

#[test]
fn notes_of_a_chain_that_does_not_hold_are_not_shown_and_the_record_is() {
    let gate = Gate::answering(|request, _| {
        let mut events = annotated();
        events.remove(3);
        if request.target.contains("/audit") { ok(&page(&events, None)) } else { ok(&answer(Status::Applied)) }
    });
    let said = gate.run(&["show", run_id().as_str(), "--no-projection"]);
    assert_eq!(said.code, 0, "{said:?}");
    assert!(said.out.contains("applied") && !said.out.contains("seen in the estate"), "{said:?}");
    assert!(said.err.contains("annotations are not shown:"), "{said:?}");
}

#[test]
fn a_note_is_sent_once_under_an_id_of_its_own_however_often_it_must_be_sent() {
    let mut busy = true;
    let gate = Gate::answering(move |request, _| {
        assert!(request.is("POST", &format!("/v1/runs/{}/annotations", run_id())), "{request:?}");
        if std::mem::take(&mut busy) {
            return refuse(Reason::Unavailable, "busy");
        }
        let by = Actor::Person { person: "ben".parse().unwrap(), arn: "arn".to_owned() };
        let annotation = AnnotationView { seq: 4, by, at: now(), note: "a word".to_owned(), corrects: Some(2) };
        ok(&AnnotationAnswer { run: run_id(), annotation })
    });
    let id = run_id();
    let said = gate.run(&["annotate", id.as_str(), "--note", "a word", "--corrects", "2", "--json"]);
    assert_eq!(said.code, 0, "{said:?}");
    assert_eq!(
        (&said.json()["annotation"]["seq"], said.err.ends_with(&format!("noted as event 4 of {id}\n"))),
        (&4.into(), true)
    );
    let sent: Vec<serde_json::Value> = gate.seen().iter().map(crate::gate::Request::json).collect();
    assert_eq!((sent.len(), &sent[0]), (2, &sent[1]));
    assert_eq!((&sent[0]["note"], &sent[0]["corrects"]), (&"a word".into(), &2.into()));
    assert_eq!(gate.run(&["annotate", id.as_str(), "--note", "x", "--corrects", "0"]).code, 2);
}
