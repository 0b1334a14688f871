//! Proposing: one bundle, one upload, one run, however often the network fails.

use plangate_gate::digest::Digest;
use plangate_gate::lifecycle::Status;
use plangate_wire::{BundleAnswer, DocumentsAnswer, Reason};
use serde_json::json;

use crate::gate::{Gate, Reply, Request, folder, ok, refuse};
use crate::runs::{answer, run_id, workspace_id};

fn place(base: &str) -> BundleAnswer {
    let headers =
        vec![("x-amz-checksum-sha256".to_owned(), "c2lnbmVk".to_owned()), ("Host".to_owned(), "elsewhere".to_owned())];
    BundleAnswer { present: false, url: Some(format!("{base}/exchange/bundle?X-Amz-Signature=s3cret")), headers }
}

/// A gate to propose to, for somebody who may do that and nothing else.
fn proposing(mut answer: impl FnMut(&Request, &str) -> Reply + Send + 'static) -> Gate {
    Gate::answering(move |request, base| match request.method.as_str() {
        "GET" => refuse(Reason::NotPermitted, "ana may not read here"),
        _ => answer(request, base),
    })
}

#[test]
fn a_proposal_is_sent_again_under_its_own_id_until_there_is_an_answer() {
    let mut attempts = 0;
    let gate = proposing(move |request, base| {
        if request.is("POST", "/v1/bundles") {
            return ok(&place(base));
        }
        if request.is("PUT", "/exchange/bundle") {
            return Reply::Answer(200, String::new());
        }
        attempts += 1;
        match attempts {
            1 => Reply::HangUp,
            2 => refuse(Reason::Unavailable, "the table is busy"),
            _ => Reply::Answer(201, serde_json::to_string(&answer(Status::Proposed)).unwrap()),
        }
    });
    let folder = folder();
    let said = gate.run(&["propose", folder.path().to_str().unwrap(), "--workspace", workspace_id().as_str()]);
    assert_eq!((said.code, said.out.as_str()), (0, format!("{}\n", run_id()).as_str()), "{said:?}");
    assert!(said.err.contains("trying again (3 of 6)"), "{said:?}");

    let proposals = gate.seen_at("POST", "/v1/runs");
    assert_eq!(proposals.len(), 3);
    assert!(proposals.iter().all(|proposal| proposal.json() == proposals[0].json()));
    let asked = gate.seen_at("POST", "/v1/bundles")[0].json();
    let uploads = gate.seen_at("PUT", "/exchange/bundle");
    assert_eq!(uploads.len(), 1);
    let digest = Digest::of(&uploads[0].body).to_string();
    assert_eq!(asked, json!({"workspace": workspace_id(), "digest": digest, "bytes": uploads[0].body.len()}));
    let proposal = proposals[0].json();
    assert_eq!(
        (&proposal["bundle"], &proposal["kind"], &proposal["origin"]),
        (&json!(digest), &json!("applicable"), &json!("person"))
    );
    // The upload goes under its own signature, with the headers that it covers and no identity of the proposer.
    assert_eq!(uploads[0].header("x-amz-checksum-sha256"), Some("c2lnbmVk"));
    assert_eq!(uploads[0].header("authorization"), None);
    assert_ne!(uploads[0].header("host"), Some("elsewhere"));
}

#[test]
fn two_proposals_are_two() {
    let gate = proposing(|request, _| match request.target.as_str() {
        "/v1/bundles" => ok(&BundleAnswer { present: true, url: None, headers: Vec::new() }),
        _ => ok(&answer(Status::Proposed)),
    });
    let folder = folder();
    for _ in 0..2 {
        let path = folder.path().to_str().unwrap();
        let said = gate.run(&["propose", path, "--workspace", workspace_id().as_str(), "--plan-only", "--json"]);
        assert_eq!(said.json()["run"]["id"], json!(run_id()), "{said:?}");
    }
    let proposals = gate.seen_at("POST", "/v1/runs");
    assert_ne!(proposals[0].json()["request_id"], proposals[1].json()["request_id"]);
    assert_eq!(proposals[0].json()["kind"], "plan-only");
    // The bundle was there already: nothing was uploaded.
    assert!(gate.seen().iter().all(|request| request.method != "PUT"));
}

#[test]
fn a_workspace_may_be_called_by_its_name() {
    let gate = Gate::answering(|request, _| match (request.method.as_str(), request.target.as_str()) {
        ("GET", "/v1/workspaces") => ok(&DocumentsAnswer {
            documents: vec![
                serde_json::from_value(json!({
                    "kind": "workspace", "id": workspace_id(), "namespace": "n", "owner": "o", "etag": "e",
                    "spec": {"name": "payments"}
                }))
                .unwrap(),
            ],
            cursor: None,
        }),
        ("GET", _) => refuse(Reason::NotPermitted, "ben may not read here"),
        (_, "/v1/bundles") => ok(&BundleAnswer { present: true, url: None, headers: Vec::new() }),
        _ => ok(&answer(Status::Proposed)),
    });
    let folder = folder();
    let path = folder.path().to_str().unwrap();
    let said = gate.run(&["propose", path, "--workspace", "payments"]);
    assert_eq!(said.code, 0, "{said:?}");
    assert_eq!(gate.seen_at("POST", "/v1/runs")[0].json()["workspace"], json!(workspace_id()));
    let said = gate.run(&["propose", path, "--workspace", "paymnts"]);
    assert_eq!(said.code, 2, "{said:?}");
    assert!(said.err.contains("is called `paymnts`; see `plangate workspace list`"), "{said:?}");
}

#[test]
fn a_refusal_is_told_with_what_to_do_next_and_for_programs_as_json() {
    let gate = Gate::answering(|_, _| refuse(Reason::NotPermitted, "ana may not propose here\u{1b}[2J"));
    let folder = folder();
    let said = gate.run(&["propose", folder.path().to_str().unwrap(), "-w", workspace_id().as_str(), "--json"]);
    assert_eq!(said.code, 3, "{said:?}");
    assert_eq!(said.json()["error"]["reason"], "not-permitted");
    assert!(said.err.contains("error: ana may not propose here\\u{1b}[2J; ask whoever administers the workspace for a grant (not-permitted)"), "{said:?}");
    assert!(!said.err.contains('\u{1b}'));
    assert_eq!(gate.seen_at("POST", "/v1/bundles").len(), 1, "a refusal is not asked for again");
}

#[test]
fn a_store_that_refuses_the_upload_is_told_without_the_signature() {
    let gate = proposing(|request, base| match request.method.as_str() {
        "PUT" => Reply::Answer(403, "<Error><Code>SignatureDoesNotMatch</Code><X>s3cret</X></Error>".to_owned()),
        _ => ok(&place(base)),
    });
    let folder = folder();
    let said = gate.run(&["propose", folder.path().to_str().unwrap(), "-w", workspace_id().as_str()]);
    assert_eq!(said.code, 1, "{said:?}");
    assert!(said.err.contains("status 403 (`SignatureDoesNotMatch`)") && !said.err.contains("s3cret"), "{said:?}");
    assert!(gate.seen_at("POST", "/v1/runs").is_empty());
}
