//! What needs no gate: bundles, projections, guardrails, and the command line itself.

use plangate_gate::digest::Digest;

use crate::gate::{folder, run, write};

const SECRET: &str = "hunter2-hunter2";

/// A plan document in which a provider repeats its sensitive input without a mask.
fn document() -> String {
    serde_json::json!({
        "format_version": "1.2", "terraform_version": "1.11.6",
        "variables": {"password": {"value": SECRET}},
        "resource_changes": [{
            "address": "terraform_data.db", "mode": "managed", "type": "terraform_data", "name": "db",
            "provider_name": "terraform.io/builtin/terraform",
            "change": {
                "actions": ["update"],
                "before": {"id": "i-1", "input": {"password": SECRET, "size": 3}, "output": {"password": SECRET, "size": 3}},
                "after": {"id": "i-1", "input": {"password": SECRET, "size": 4}},
                "after_unknown": {"output": true},
                "before_sensitive": {"input": {"password": true}, "output": {}},
                "after_sensitive": {"input": {"password": true}, "output": {}}
            }
        }]
    })
    .to_string()
}

fn said(arguments: &[&str]) -> crate::gate::Said {
    run(None, arguments, &[])
}

#[test]
fn the_same_folder_gives_the_same_bundle_whatever_the_order_and_the_clock() {
    let (one, other) = (folder(), folder());
    write(one.path(), "a.tf", "locals { a = 1 }\n");
    write(one.path(), "scripts/run.sh", "true\n");
    write(other.path(), "scripts/run.sh", "true\n");
    write(other.path(), "a.tf", "locals { a = 1 }\n");
    write(other.path(), ".terraform/cache", "left out");
    write(other.path(), "terraform.tfstate", "{}");
    let long_ago = std::time::UNIX_EPOCH + std::time::Duration::from_secs(1);
    std::fs::File::open(other.path().join("a.tf")).unwrap().set_modified(long_ago).unwrap();

    let archive = one.path().join("../archive-of-one.tar.zst");
    let archive = std::path::absolute(archive).unwrap();
    let first = said(&["bundle", one.path().to_str().unwrap(), "-o", archive.to_str().unwrap(), "--json"]);
    let second = said(&["bundle", other.path().to_str().unwrap(), "--json"]);
    let bytes = std::fs::read(&archive).unwrap();
    std::fs::remove_file(&archive).unwrap();
    assert_eq!((first.code, second.code), (0, 0), "{first:?} {second:?}");
    assert_eq!(first.json(), second.json());
    assert_eq!(first.json()["entries"], 4);
    assert_eq!(first.json()["digest"], Digest::of(&bytes).to_string());

    let people = said(&["bundle", one.path().to_str().unwrap()]);
    assert_eq!(people.out.lines().next(), first.json()["digest"].as_str());
    assert!(people.out.lines().nth(1).unwrap().starts_with("4 files and folders, "), "{people:?}");
}

#[test]
fn a_folder_that_cannot_be_a_bundle_is_refused_with_what_to_do() {
    let folder = tempfile::tempdir().unwrap();
    let said = said(&["bundle", folder.path().to_str().unwrap(), "--json"]);
    assert_eq!(said.code, 3, "{said:?}");
    assert_eq!(said.json()["error"]["reason"], "bundle-empty");
    assert!(said.err.contains("name the folder that does"), "{said:?}");
}

#[test]
fn a_projection_hides_the_secret_also_where_the_provider_repeats_it() {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), "plan.json", &document());
    let file = folder.path().join("plan.json");
    let people = said(&["project", file.to_str().unwrap()]);
    let machine = said(&["project", file.to_str().unwrap(), "--json"]);
    assert_eq!((people.code, machine.code), (0, 0), "{people:?} {machine:?}");
    for text in [&people.out, &people.err, &machine.out, &machine.err] {
        assert!(!text.contains(SECRET), "{text}");
    }
    assert!(people.out.contains("~ terraform_data.db\n"), "{people:?}");
    assert!(people.out.contains("(sensitive value)"), "{people:?}");
    assert!(people.out.ends_with("Plan: 0 to add, 1 to change, 0 to destroy, 0 to replace.\n"), "{people:?}");
    // The bytes for machines are exactly those of the digest.
    assert_eq!(people.err, format!("projection {}\n", Digest::of(machine.out.as_bytes())));
}

#[test]
fn a_file_that_is_no_plan_is_named_and_not_quoted() {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), "state.json", &format!("{{\"password\": \"{SECRET}\""));
    let file = folder.path().join("state.json");
    let said = said(&["project", file.to_str().unwrap()]);
    assert_eq!(said.code, 1);
    assert!(said.err.contains("(plan-unparseable)") && !said.err.contains(SECRET), "{said:?}");
}

#[test]
fn guardrails_answer_with_an_exit_code_and_reasons() {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), "plan.json", &document());
    write(folder.path(), "policy.json", r#"{"schema":"plangate.policy.v1"}"#);
    write(
        folder.path(),
        "strict.json",
        r#"{"id":"s","namespace":"n","owner":"o","spec":{"schema":"plangate.policy.v1","max_changes":{"update":0}}}"#,
    );
    write(folder.path(), "typo.json", r#"{"schema":"plangate.policy.v1","max_changs":{}}"#);
    let at = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let judge = |policy: &str| said(&["guard", "--policy", &at(policy), &at("plan.json")]);

    let (fine, strict, typo) = (judge("policy.json"), judge("strict.json"), judge("typo.json"));
    assert_eq!((fine.code, fine.out.as_str()), (0, "eligible\n"), "{fine:?}");
    assert_eq!((strict.code, strict.out.as_str()), (3, "not eligible\n  change-count-exceeded\n"), "{strict:?}");
    assert_eq!(typo.code, 1, "{typo:?}");
    assert!(typo.err.contains("unknown field `max_changs`"), "{typo:?}");
}

#[test]
fn a_command_line_that_makes_no_sense_ends_with_2() {
    for (arguments, api) in [
        (["runs", "--limit", "0"].as_slice(), Some("http://127.0.0.1:9")),
        (&["show", "payments"], Some("http://127.0.0.1:9")),
        (&["reject", "run-06e81t5800e1r70w3gf0y1w3gf"], Some("http://127.0.0.1:9")),
        (&["runs"], None),
        (&["runs"], Some("http://gate.example")),
    ] {
        let said = run(api, arguments, &[]);
        assert_eq!(said.code, 2, "{arguments:?} {said:?}");
        assert!(said.out.is_empty() && !said.err.is_empty(), "{said:?}");
    }
}

#[test]
fn help_documents_the_exit_codes() {
    let said = said(&["--help"]);
    assert_eq!(said.code, 0);
    for line in ["  4  the run failed", "  8  the run waits for approval"] {
        assert!(said.out.contains(line), "{said:?}");
    }
}

#[test]
fn a_new_workspace_id_is_one() {
    let said = said(&["workspace", "new-id"]);
    assert!(said.out.trim_end().parse::<plangate_gate::ids::WorkspaceId>().is_ok(), "{said:?}");
}

#[test]
fn the_vectors_hold_and_one_that_does_not_is_told_with_its_reason() {
    let vectors = concat!(env!("CARGO_MANIFEST_DIR"), "/../vectors");
    let all = said(&["conformance", vectors]);
    assert_eq!(all.code, 0, "{all:?}");
    assert!(all.out.lines().any(|line| line.starts_with("holds V01-five-locations  ")), "{all:?}");
    assert!(all.out.ends_with(" cases, 0 broken\n"), "{all:?}");

    let own = folder();
    let case = r#"{"title":"t","shows":["V14"],"expected":{"verdict":"approve"}}"#;
    std::fs::create_dir(own.path().join("mine")).unwrap();
    write(own.path(), "mine/case.json", case);
    write(own.path(), "mine/verdict.json", r#"{"decision":"reject"}"#);
    let broken = said(&["conformance", own.path().to_str().unwrap()]);
    assert_eq!(broken.code, 1, "{broken:?}");
    assert!(broken.out.contains(r#"BROKEN mine  the verdict: expected "approve", got "escalate""#), "{broken:?}");
    assert_eq!(said(&["conformance", own.path().to_str().unwrap(), "--json"]).json()["broken"], 1);
    assert_eq!(said(&["conformance", own.path().join("mine").to_str().unwrap()]).code, 1, "no case stands in it");
}

#[test]
fn the_manifest_of_the_slack_app_names_the_gate_and_asks_to_write() {
    let manifest = |arguments: &[&str], api: Option<&str>| {
        let said = run(api, arguments, &[]);
        assert_eq!(said.code, 0, "{}", said.err);
        serde_json::from_str::<serde_json::Value>(&said.out).unwrap()
    };
    let shown = manifest(&["slack", "manifest", "--api", "https://abc.example/"], None);
    assert_eq!(shown["settings"]["interactivity"]["request_url"], "https://abc.example/slack/interactions");
    assert_eq!(shown["oauth_config"]["scopes"]["bot"], serde_json::json!(["chat:write"]));
    assert_eq!(manifest(&["--json", "slack", "manifest", "--api", "https://abc.example"], None), shown);
    assert_ne!(run(None, &["slack", "manifest"], &[]).code, 0, "without a gate there is no address to give");
}
