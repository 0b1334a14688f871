//! Following a run: a line for each change, an end at the right place, an exit code for the outcome.

use plangate_gate::digest::Digest;
use plangate_gate::lifecycle::Status;
use plangate_wire::{LogAnswer, Reason};

use crate::gate::{Gate, ok, refuse};
use crate::runs::{PROJECTION, answer, projection, run_id};

/// A gate whose run takes a step with every look, and stays in the last.
fn stepping(steps: &'static [Status]) -> Gate {
    let mut looks = 0;
    Gate::answering(move |request, _| {
        if request.target.ends_with("/projection") {
            return ok(&projection());
        }
        let status = steps[looks.min(steps.len() - 1)];
        looks += 1;
        ok(&answer(status))
    })
}

fn watch(gate: &Gate, more: &[&str]) -> crate::gate::Said {
    let id = run_id();
    gate.run(&[&["watch", id.as_str(), "--interval", "0.01"], more].concat())
}

#[test]
fn each_end_of_a_run_is_an_exit_code() {
    for (status, code) in [
        (Status::Applied, 0),
        (Status::NoChanges, 0),
        (Status::Planned, 0),
        (Status::Failed, 4),
        (Status::Rejected, 5),
        (Status::Expired, 6),
        (Status::Canceled, 7),
    ] {
        let gate = Gate::answering(move |request, _| {
            if request.target.ends_with("/projection") { ok(&projection()) } else { ok(&answer(status)) }
        });
        let said = watch(&gate, &[]);
        assert_eq!(said.code, code, "{status} {said:?}");
        let machine = watch(&gate, &["--json"]);
        assert_eq!((machine.code, machine.json()["run"]["status"].as_str()), (code, Some(status.as_str())));
    }
}

#[test]
fn a_run_that_waits_for_approval_ends_the_watch_with_what_is_to_be_decided() {
    use Status::{AwaitingApproval, Evaluating, Planning, Queued};
    let gate = stepping(&[Queued, Queued, Planning, Evaluating, AwaitingApproval]);
    let said = watch(&gate, &[]);
    assert_eq!(said.code, 8, "{said:?}");
    let lines: Vec<_> = said.err.lines().map(|line| line.trim_end().to_owned()).collect();
    assert_eq!(
        lines,
        [
            "05:00:05  queued  behind other runs",
            "05:00:05  planning  holds the workspace's lock",
            "05:00:05  evaluating",
            "05:00:05  awaiting_approval  until 2026-11-30 06:00:00 UTC",
        ]
    );
    let (run, digest) = (run_id(), Digest::of(PROJECTION.as_bytes()));
    assert_eq!(
        said.out,
        format!(
            "
  # terraform_data.greeting will be created
  + terraform_data.greeting
      + id    = (known after apply)
      + input = (sensitive value)

Plan: 1 to add, 0 to change, 0 to destroy, 0 to replace.

projection {digest}
Guardrails ask for a person's decision:
  access-widened  terraform_data.greeting  input
To decide (somebody else than the proposer, as a rule):
  plangate approve {run} --projection {digest}
  plangate reject {run} --reason TEXT
"
        )
    );
}

#[test]
fn a_watch_can_go_on_through_the_approval_to_the_end() {
    use Status::{Applied, Applying, Approved, AwaitingApproval};
    let gate = stepping(&[AwaitingApproval, AwaitingApproval, Approved, Applying, Applied]);
    let said = watch(&gate, &["--to-end"]);
    assert_eq!(said.code, 0, "{said:?}");
    assert_eq!(said.err.lines().count(), 4, "{said:?}");
    assert_eq!(said.out, "applied: state serial 4 -> serial 5\n");
}

#[test]
fn a_failed_run_says_why_and_what_to_do() {
    let gate = stepping(&[Status::Applying, Status::Failed]);
    let said = watch(&gate, &[]);
    assert_eq!(
        said.out,
        "state-identity-mismatch: serial 5 where 4 was planned\n\
        next: propose again: the state has changed since this plan was made\n"
    );
    assert_eq!(said.code, 4);
}

#[test]
fn a_log_is_followed_until_its_phase_has_ended() {
    let mut looks = 0;
    let gate = Gate::answering(move |request, _| {
        assert!(request.target.contains("/log/plan"));
        looks += 1;
        let page = |lines: &[&str], cursor: Option<&str>, complete| {
            ok(&LogAnswer {
                lines: lines.iter().map(|line| (*line).to_owned()).collect(),
                cursor: cursor.map(str::to_owned),
                complete,
            })
        };
        match looks {
            1 => refuse(Reason::NotThereYet, "there is no log yet"),
            2 => page(&["init\tok", "evil \u{1b}]0;x\u{7}"], Some("c1"), false),
            3 => page(&[], Some("c1"), false),
            4 => page(&["plan"], Some("c2"), false),
            _ => page(&["end"], None, true),
        }
    });
    let id = run_id();
    let said = gate.run(&["log", id.as_str(), "plan", "--follow", "--interval", "0.01"]);
    assert_eq!((said.code, said.out.as_str()), (0, "init\tok\nevil \\u{1b}]0;x\\u{7}\nplan\nend\n"), "{said:?}");
    let cursors: Vec<_> =
        gate.seen().iter().map(|seen| seen.target.split_once("cursor=").map(|(_, cursor)| cursor.to_owned())).collect();
    assert_eq!(cursors, [None, None, Some("c1".into()), Some("c1".into()), Some("c2".into())]);
}

#[test]
fn a_log_that_goes_on_is_shown_as_far_as_it_goes() {
    let gate = Gate::answering(|_, _| {
        ok(&LogAnswer { lines: vec!["one".into()], cursor: Some("same".into()), complete: false })
    });
    let id = run_id();
    let said = gate.run(&["log", id.as_str(), "apply"]);
    assert_eq!((said.code, said.out.as_str()), (0, "one\none\n"), "{said:?}");
    assert_eq!(gate.seen().len(), 2);
}
