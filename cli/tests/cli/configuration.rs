//! Configuration: documents are read before they are written.

use plangate_gate::documents::DocumentKind;
use plangate_wire::{Document, DocumentAnswer, DocumentsAnswer, LockView, Reason};
use serde_json::json;

use crate::gate::{Gate, Request, ok, refuse, write};
use crate::runs::{run_id, workspace_id};

fn workspace() -> Document {
    Document {
        kind: DocumentKind::Workspace,
        id: workspace_id().to_string(),
        namespace: "shop".to_owned(),
        owner: "team-pay".to_owned(),
        etag: "e-7".to_owned(),
        spec: json!({"name": "payments", "engine": {"name": "opentofu", "version": "1.11.6"}}),
        lock: Some(LockView {
            state: "quarantined".to_owned(),
            run: Some(run_id()),
            fence: 4,
            waiting: 2,
            next_step: Some("look at the estate".to_owned()),
            ..LockView::default()
        }),
        known: None,
        drift: None,
    }
}

/// A gate that holds that workspace, or none.
fn holding(there: bool) -> Gate {
    Gate::answering(move |request, _| match (request.method.as_str(), request.target.as_str()) {
        ("GET", "/v1/workspaces") => ok(&DocumentsAnswer { documents: vec![workspace()], cursor: None }),
        ("GET", _) if !there => refuse(Reason::NotFound, "there is no such workspace"),
        ("GET", _) => ok(&DocumentAnswer { document: workspace(), committed: false }),
        ("POST", _) => ok(&json!({})),
        _ => ok(&DocumentAnswer { document: workspace(), committed: request.json()["validate_only"] == false }),
    })
}

fn written(gate: &Gate) -> serde_json::Value {
    let puts: Vec<Request> = gate.seen().into_iter().filter(|request| request.method == "PUT").collect();
    assert_eq!(puts.len(), 1);
    puts[0].json()
}

fn put(gate: &Gate, text: &str, more: &[&str]) -> crate::gate::Said {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), "document.json", text);
    let file = folder.path().join("document.json");
    gate.run(&[&["workspace", "put", file.to_str().unwrap()], more].concat())
}

fn file() -> String {
    json!({"id": workspace_id(), "namespace": "shop", "owner": "team-pay", "spec": {"name": "payments"}}).to_string()
}

#[test]
fn a_write_names_the_etag_that_was_read() {
    let gate = holding(true);
    let said = put(&gate, &file(), &[]);
    assert_eq!(said.code, 0, "{said:?}");
    assert_eq!(said.err, format!("workspace {} written\n", workspace_id()));
    let sent = written(&gate);
    assert_eq!(
        (&sent["etag"], &sent["spec"], &sent["validate_only"]),
        (&json!("e-7"), &json!({"name": "payments"}), &json!(false))
    );
}

#[test]
fn a_new_document_has_no_etag_and_a_given_one_is_taken_as_it_is() {
    let gate = holding(false);
    assert_eq!(put(&gate, &file(), &[]).code, 0);
    assert_eq!(written(&gate)["etag"], json!(null));
    for (etag, sent) in [("e-6", json!("e-6")), ("none", json!(null))] {
        let gate = holding(true);
        assert_eq!(put(&gate, &file(), &["--etag", etag]).code, 0);
        assert_eq!(written(&gate)["etag"], sent);
        assert!(gate.seen().iter().all(|request| request.method == "PUT"));
    }
}

#[test]
fn what_get_printed_can_be_changed_and_put_back_under_its_own_etag() {
    let gate = holding(true);
    let printed = gate.run(&["workspace", "get", "payments", "--json"]).json();
    let gate = holding(true);
    let said = put(&gate, &printed["document"].to_string(), &["--validate-only"]);
    assert_eq!((said.code, said.err), (0, format!("workspace {} valid, and not written\n", workspace_id())));
    assert_eq!(written(&gate)["etag"], "e-7");
    assert_eq!(gate.seen().len(), 1, "the file's own etag needs no reading");
}

#[test]
fn a_file_with_a_mistake_is_refused_before_anything_is_sent() {
    let gate = holding(true);
    let said = put(&gate, &file().replace("owner", "ownr"), &[]);
    assert_eq!(said.code, 1, "{said:?}");
    assert!(said.err.contains("unknown field `ownr`"), "{said:?}");
    assert!(gate.seen().is_empty());
}

#[test]
fn a_quarantined_workspace_says_so_and_is_opened_by_who_has_looked() {
    let gate = holding(true);
    let (id, run) = (workspace_id(), run_id());
    let said = gate.run(&["workspace", "list"]);
    assert_eq!(
        said.out,
        format!(
            "\
ID                   OWNER     NAME      ENGINE           LOCK
{id}  team-pay  payments  opentofu 1.11.6  quarantined
"
        )
    );
    let said = gate.run(&["workspace", "get", id.as_str()]);
    assert!(
        said.out.contains(&format!(
            "  lock       quarantined by {run}, 2 waiting, fence 4\n  next       look at the estate\n"
        )),
        "{said:?}"
    );

    let said = gate.run(&["workspace", "acknowledge", "payments", "--run", run.as_str(), "--note", "all there"]);
    assert_eq!(said.code, 0, "{said:?}");
    let sent = gate.seen_at("POST", &format!("/v1/workspaces/{id}/acknowledge"))[0].json();
    assert_eq!((&sent["run"], &sent["note"]), (&json!(run), &json!("all there")));
}

#[test]
fn a_freeze_names_a_workspace_or_the_whole_gate_and_says_why() {
    let by = |scope| json!({"scope": scope, "by": "ana", "at": "2026-11-30T05:00:00Z", "reason": "an incident"});
    let shown = json!({"state": "free", "fence": 1, "waiting": 2, "frozen": [by("workspace")]});
    let whole = json!({"frozen": by("gate")});
    let gate = Gate::answering(move |request, _| match (request.method.as_str(), request.target.as_str()) {
        ("GET", "/v1/workspaces") => ok(&DocumentsAnswer { documents: vec![workspace()], cursor: None }),
        ("GET", "/v1/gate") => ok(&whole),
        ("GET", _) => {
            let lock = serde_json::from_value(shown.clone()).unwrap();
            ok(&DocumentAnswer { document: Document { lock: Some(lock), ..workspace() }, committed: false })
        }
        ("POST", "/v1/freeze" | "/v1/unfreeze") => ok(&json!({})),
        _ => ok(&shown),
    });
    let id = workspace_id();
    for (verb, told) in [
        ("freeze", format!("{id} is frozen: nothing is admitted, approved or started; what runs ends\n")),
        ("unfreeze", format!("the freeze of {id} is lifted; who waits goes on\nthe gate as a whole is still frozen\n")),
    ] {
        let said = gate.run(&[verb, "payments", "--reason", "an incident"]);
        assert_eq!((said.code, said.err), (0, told));
        let sent = gate.seen_at("POST", &format!("/v1/workspaces/{id}/{verb}"))[0].json();
        assert_eq!(sent["reason"], "an incident");
        let said = gate.run(&[verb, "--gate", "--reason", "an incident"]);
        assert_eq!(said.code, 0, "{said:?}");
        assert_eq!(gate.seen_at("POST", &format!("/v1/{verb}")).len(), 1);
        for wrong in [&[verb, "--reason", "x"][..], &[verb, "payments", "--gate", "--reason", "x"], &[verb, "payments"]]
        {
            assert_eq!(gate.run(wrong).code, 2, "{wrong:?}");
        }
    }
    let line = "by ana since 2026-11-30 05:00:00 UTC: an incident\n";
    assert_eq!(gate.run(&["gate"]).out, format!("the whole gate, {line}"));
    let said = gate.run(&["workspace", "get", "payments"]);
    assert!(said.out.contains(&format!("  lock       free, 2 waiting, fence 1\n  frozen     {line}")), "{said:?}");
}

#[test]
fn how_a_workspace_stands_is_told_with_the_commands_that_are_needed_in_their_order() {
    let run = run_id();
    let sighting = |serial: u64, second: u32| {
        let at = format!("2026-11-30T05:00:{second:02}Z");
        json!({"state": {"state": "present", "lineage": "l\u{9b}", "serial": serial, "version_id": "v",
                         "digest": format!("sha256:{}", "0".repeat(64))},
               "run": run, "phase": "plan", "from": at, "to": at})
    };
    let step = |what: &str, command: &str| json!({"what": what, "command": command});
    let document = json!({"document": {
        "kind": "workspace", "id": workspace_id(), "namespace": "shop", "owner": "team-pay", "etag": "e-7", "spec": {"name": "payments"},
        "lock": {"state": "quarantined", "run": run, "fence": 4, "waiting": 2, "since": "2026-11-30T05:00:00Z",
                 "reason": "apply-outcome-unknown", "detail": "no result",
                 "evidence": [{"what": "claim", "value": "s3://exchange/claims/1"}],
                 "frozen": [{"scope": "workspace", "by": "ana", "at": "2026-11-30T05:00:00Z", "reason": "an incident", "lift": "plangate unfreeze x"}],
                 "next_step": "look", "steps": [step("see", "plangate show x"), step("open", "plangate workspace acknowledge x")]},
        "known": {"seen": sighting(9, 3), "outside": {"before": sighting(4, 1), "after": sighting(9, 2),
                  "who": [step("who took the role", "aws cloudtrail lookup-events")]}},
        "drift": {"hours": 24, "run": run, "status": "failed", "failure": "plan-errored", "due": "2026-12-01T05:00:00Z",
                  "finding": {"projection": format!("sha256:{}", "1".repeat(64)), "since": "2026-11-29T05:00:00Z", "run": run,
                              "counts": {"create": 1, "update": 2, "delete": 3, "replace": 4}}},
    }, "committed": false});
    let gate = Gate::answering(move |_, _| ok(&document));
    let said = gate.run(&["workspace", "get", workspace_id().as_str()]);
    assert_eq!(said.code, 0, "{said:?}");
    let mut from = 0;
    for part in [
        "quarantined by".to_owned(),
        "lifted by `plangate unfreeze x`".to_owned(),
        "since      2026-11-30 05:00:00 UTC".to_owned(),
        "why        apply-outcome-unknown: no result".to_owned(),
        "known      claim: s3://exchange/claims/1".to_owned(),
        "1. see:".to_owned(),
        "plangate show x".to_owned(),
        "2. open:".to_owned(),
        "plangate workspace acknowledge x".to_owned(),
        "serial 9".to_owned(),
        format!("changed around the gate, noticed by {run}"),
        "was serial 4".to_owned(),
        "is  serial 9".to_owned(),
        "between 2026-11-30 05:00:01 UTC and 2026-11-30 05:00:02 UTC".to_owned(),
        "aws cloudtrail lookup-events".to_owned(),
        "looked for every 24 h, next due 2026-12-01 05:00:00 UTC".to_owned(),
        "failed, plan-errored".to_owned(),
        "drifted since 2026-11-29 05:00:00 UTC: +1 ~2 -3 -/+4".to_owned(),
    ] {
        let found = said.out[from..].find(&part);
        from += found.unwrap_or_else(|| panic!("{part} after {from}: {}", said.out));
    }
    assert!(!said.out.contains('\u{9b}'), "what somebody wrote into a state steers no terminal");
}
