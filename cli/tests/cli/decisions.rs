//! Deciding: on what was seen, once.

use plangate_gate::digest::Digest;
use plangate_gate::lifecycle::Status;
use plangate_wire::{DecisionAnswer, ProjectionAnswer, Reason};
use serde_json::json;

use crate::gate::{Gate, Reply, Request, ok, refuse};
use crate::runs::{PROJECTION, answer, projection, run, run_id};

fn decided(status: Status) -> DecisionAnswer {
    let run = run(status);
    DecisionAnswer { decision: run.decision.clone().unwrap(), run: run.into() }
}

fn digest() -> String {
    Digest::of(PROJECTION.as_bytes()).to_string()
}

/// A gate with a run that waits for approval.
fn waiting(mut decide: impl FnMut(&Request) -> Reply + Send + 'static) -> Gate {
    Gate::answering(move |request, _| match request.method.as_str() {
        "POST" => decide(request),
        _ if request.target.ends_with("/projection") => ok(&projection()),
        _ => ok(&answer(Status::AwaitingApproval)),
    })
}

fn decisions(gate: &Gate) -> Vec<serde_json::Value> {
    gate.seen().iter().filter(|request| request.method == "POST").map(Request::json).collect()
}

#[test]
fn an_approval_names_the_digest_of_the_bytes_that_were_shown() {
    let gate = waiting(|_| ok(&decided(Status::Approved)));
    let id = run_id();
    let said = gate.run(&["approve", id.as_str(), "--yes", "--reason", "seen", "--json"]);
    assert_eq!(said.code, 0, "{said:?}");
    assert!(said.err.contains("+ terraform_data.greeting"), "{said:?}");
    assert_eq!(said.json()["decision"]["by"]["person"], "ben");
    assert_eq!(decisions(&gate), [json!({"decision": "approve", "projection": digest(), "reason": "seen"})]);
}

#[test]
fn a_digest_that_is_named_is_sent_as_it_is() {
    let gate = waiting(|_| ok(&decided(Status::Approved)));
    let (id, digest) = (run_id(), digest());
    let said = gate.run(&["approve", id.as_str(), "--projection", &digest]);
    assert_eq!((said.code, said.out.as_str()), (0, ""), "{said:?}");
    assert_eq!(gate.seen().len(), 1);
    assert_eq!(decisions(&gate), [json!({"decision": "approve", "projection": digest})]);
}

#[test]
fn where_nobody_can_be_asked_nothing_is_approved_unseen() {
    let gate = waiting(|_| ok(&decided(Status::Approved)));
    let id = run_id();
    let said = gate.run(&["approve", id.as_str()]);
    assert_eq!(said.code, 2, "{said:?}");
    assert!(said.err.contains("--projection") && said.err.contains("--yes"), "{said:?}");
    assert!(decisions(&gate).is_empty());
}

#[test]
fn bytes_that_are_not_those_of_the_digest_are_neither_shown_nor_decided_on() {
    let other = PROJECTION.replace("greeting", "gr33ting");
    // Bytes other than the answer's digest; and both fitting each other, but not the run's record.
    for claimed in [digest(), Digest::of(other.as_bytes()).to_string()] {
        let (text, claimed) = (other.clone(), claimed.parse().unwrap());
        let gate = Gate::answering(move |request, _| match request.method.as_str() {
            "POST" => ok(&decided(Status::Approved)),
            _ if request.target.ends_with("/projection") => ok(&ProjectionAnswer {
                digest: claimed,
                bytes: text.len() as u64,
                projection: Some(serde_json::from_str(&text).unwrap()),
                url: None,
            }),
            _ => ok(&answer(Status::AwaitingApproval)),
        });
        let id = run_id();
        let said = gate.run(&["approve", id.as_str(), "--yes", "--json"]);
        assert_eq!(said.code, 3, "{said:?}");
        assert_eq!(said.json()["error"]["reason"], "digest-mismatch");
        assert!(!said.err.contains("gr33ting"), "{said:?}");
        assert!(decisions(&gate).is_empty());
    }
}

#[test]
fn a_projection_too_large_for_an_answer_is_fetched_and_held_against_its_digest() {
    for (stored, code) in [(PROJECTION.to_owned(), 0), (PROJECTION.replace("greeting", "gr33ting"), 3)] {
        let gate = Gate::answering(move |request, base| match request.target.split('?').next().unwrap() {
            "/exchange/p" => Reply::Answer(200, stored.clone()),
            target if target.ends_with("/projection") => ok(&ProjectionAnswer {
                digest: digest().parse().unwrap(),
                bytes: PROJECTION.len() as u64,
                projection: None,
                url: Some(format!("{base}/exchange/p?X-Amz-Signature=s3cret")),
            }),
            _ if request.method == "POST" => ok(&decided(Status::Approved)),
            _ => ok(&answer(Status::AwaitingApproval)),
        });
        let id = run_id();
        let said = gate.run(&["approve", id.as_str(), "--yes"]);
        assert_eq!(said.code, code, "{said:?}");
        assert_eq!(gate.seen_at("GET", "/exchange/p")[0].header("authorization"), None);
    }
}

#[test]
fn the_proposer_is_refused_and_told_whom_to_ask() {
    let gate = waiting(|_| refuse(Reason::DistinctApproverRequired, "ana proposed this run"));
    let (id, digest) = (run_id(), digest());
    let said = gate.run(&["approve", id.as_str(), "--projection", &digest]);
    assert_eq!(said.code, 3, "{said:?}");
    assert!(said.err.contains("ask another person who may approve (distinct-approver-required)"), "{said:?}");
}

#[test]
fn a_decision_whose_answer_was_lost_is_not_sent_again() {
    let gate = waiting(|_| Reply::HangUp);
    let (id, digest) = (run_id(), digest());
    let said = gate.run(&["approve", id.as_str(), "--projection", &digest]);
    assert_eq!(said.code, 1, "{said:?}");
    assert!(said.err.contains("not known whether this took effect"), "{said:?}");
    assert_eq!(decisions(&gate).len(), 1);
}

#[test]
fn a_gate_that_is_busy_is_asked_again() {
    let mut busy = true;
    let gate = waiting(move |_| {
        if std::mem::take(&mut busy) { refuse(Reason::Unavailable, "busy") } else { ok(&decided(Status::Rejected)) }
    });
    let id = run_id();
    let said = gate.run(&["reject", id.as_str(), "--reason", "too much"]);
    assert_eq!(said.code, 0, "{said:?}");
    let sent = json!({"decision": "reject", "projection": digest(), "reason": "too much"});
    assert_eq!(decisions(&gate), [sent.clone(), sent]);
}

#[test]
fn a_run_is_withdrawn() {
    let gate = waiting(|_| ok(&answer(Status::Canceled)));
    let id = run_id();
    let said = gate.run(&["cancel", id.as_str(), "--reason", "a typo"]);
    assert_eq!(said.code, 0, "{said:?}");
    assert_eq!(said.err, format!("{id} is canceled\n"));
    assert_eq!(decisions(&gate), [json!({"reason": "a typo"})]);
}

#[test]
fn a_run_that_is_being_planned_ends_later() {
    let gate = waiting(|_| ok(&answer(Status::Planning)));
    let id = run_id();
    let said = gate.run(&["cancel", id.as_str()]);
    assert_eq!(said.code, 0, "{said:?}");
    assert!(said.err.contains("still planning"), "{said:?}");
}
