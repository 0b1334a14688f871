//! The way around the gate: what `break-glass` prints and does with no gate and no AWS.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;

use plangate_gate::digest::Digest;

use crate::gate::{Said, folder, run, write};

const WORKSPACE: &str = "ws-0123456789abcdef";
const RUN: &str = "run-06e81t5800e1r70w3gf0y1w3gf";
const SECRET: &str = "hunter2-hunter2";

fn said(arguments: &[&str]) -> Said {
    run(None, &[&["break-glass"], arguments].concat(), &[])
}

fn printed(arguments: &[&str]) -> String {
    let said = said(&[&["print"], arguments].concat());
    assert_eq!((said.code, said.err.as_str()), (0, ""), "{said:?}");
    said.out
}

/// The value that a script assigns to a name at its head.
fn assigned(script: &str, name: &str) -> String {
    let begins = format!("{name}='");
    let line = script.lines().find(|line| line.starts_with(&begins)).unwrap();
    let said = Command::new("/bin/bash").args(["-c", &format!("{line}\nprintf %s \"${name}\"")]).output().unwrap();
    String::from_utf8(said.stdout).unwrap()
}

fn document(change: impl FnOnce(&mut serde_json::Value)) -> String {
    let mut document = serde_json::json!({"committed": false, "document": {
        "kind": "workspace", "id": WORKSPACE, "namespace": "n", "owner": "o", "etag": "e", "lock": {"state": "free"},
        "spec": {
            "name": "it's $(touch pwned); shop", "engine": {"name": "terraform", "version": "1.11.4"}, "of-next-year": true,
            "apply_role": format!("arn:aws-us-gov:iam::111122223333:role/plangate/apply/{WORKSPACE}-apply"),
            "state": {"bucket": "b", "key": "k", "region": "us-gov-west-1"}
        }
    }});
    change(&mut document);
    document.to_string()
}

fn order(digest: Digest, change: impl FnOnce(&mut serde_json::Value)) -> String {
    let object = |key: String| serde_json::json!({"bucket": "exchange", "key": key, "digest": digest, "bytes": 1});
    let mut order = serde_json::json!({
        "schema": "plangate.work-order.v1", "audience": "plangate-runner", "run": RUN, "workspace": WORKSPACE,
        "kind": "applicable", "phase": "apply", "attempt": 1, "fence": 1,
        "issued_at": "2026-11-30T05:00:00Z", "expires_at": "2026-11-30T06:00:00Z",
        "roles": {"plan": "arn:p", "apply": "arn:a"},
        "bundle": object(format!("bundles/{WORKSPACE}/{}.tar.zst", digest.hex())),
        "engine": {"name": "opentofu", "version": "1.10.2"},
        "state": {"bucket": "b", "key": "state/terraform.tfstate", "region": "eu-central-1"},
        "secrets": [{"variable": "password", "parameter": format!("/plangate/{WORKSPACE}/password")}],
        "sealed": {"bucket": "b", "key_arn": "arn:aws:kms:eu-central-1:123456789012:key/1"},
        "approved": {
            "artifact": object(format!("artifacts/{RUN}/plan.tfplan")), "projection": digest, "withhold": [],
            "lock_file": "none", "state": {"state": "none"}
        }
    });
    change(&mut order);
    order.to_string()
}

#[test]
fn a_script_follows_from_the_workspaces_id_or_from_its_saved_document() {
    let script = printed(&[WORKSPACE, "--account", "111122223333", "--region", "eu-central-1", "--run", RUN]);
    let role = format!("arn:aws:iam::111122223333:role/plangate/break-glass/{WORKSPACE}-break-glass");
    assert_eq!(assigned(&script, "role"), role);
    assert_eq!(assigned(&script, "exchange"), "plangate-exchange-111122223333-eu-central-1");
    assert_eq!((assigned(&script, "run").as_str(), assigned(&script, "second_factor").as_str()), (RUN, "code"));
    assert_eq!(assigned(&script, "name"), "");

    let saved = tempfile::tempdir().unwrap();
    write(saved.path(), "ws.json", &document(|_| ()));
    let file = saved.path().join("ws.json");
    let script = printed(&[file.to_str().unwrap(), "--gate", "gate2", "--identity-center", "--session-name", "ana@x"]);
    let role = format!("arn:aws-us-gov:iam::111122223333:role/plangate/break-glass/{WORKSPACE}-break-glass");
    assert_eq!(assigned(&script, "role"), role);
    assert_eq!(assigned(&script, "exchange"), "gate2-exchange-111122223333-us-gov-west-1");
    assert_eq!(
        (assigned(&script, "second_factor").as_str(), assigned(&script, "session").as_str()),
        ("sign-in", "ana@x")
    );
    assert_eq!(assigned(&script, "name"), "it's $(touch pwned); shop");
    // Every shell reads it whole, and nothing in a name is run.
    let checked = Command::new("/bin/bash").args(["-n", "-c", &script]).output().unwrap();
    assert!(checked.status.success(), "{checked:?}");
}

#[test]
fn what_is_no_name_does_not_come_into_a_script() {
    let usual = ["--account", "111122223333", "--region", "eu-central-1"];
    let with = |more: &[&str]| said(&[&["print", WORKSPACE], usual.as_slice(), more].concat());
    for (option, value) in [
        ("--gate", "Gate"),
        ("--gate", "g'; id"),
        ("--exchange-bucket", "b$(id)ucket"),
        ("--mfa-serial", "arn:aws:iam::1:mfa/x y"),
        ("--session-name", "a b"),
        ("--run", "run-1"),
    ] {
        let said = with(&[option, value]);
        assert_eq!((said.code, said.out.as_str()), (2, ""), "{option} {value}: {said:?}");
    }
    for arguments in [
        ["print", WORKSPACE, "--account", "1", "--region", "eu-central-1"].as_slice(),
        &["print", WORKSPACE, "--account", "111122223333", "--region", "eu-central-1\nid"],
        &["print", WORKSPACE, "--region", "eu-central-1"],
        &["print", WORKSPACE, "--account", "111122223333"],
        &["print", "shop", "--account", "111122223333", "--region", "eu-central-1"],
    ] {
        let said = said(arguments);
        assert_eq!((said.code, said.out.as_str()), (2, ""), "{arguments:?}: {said:?}");
    }
    let saved = tempfile::tempdir().unwrap();
    let file = saved.path().join("ws.json");
    type Change = fn(&mut serde_json::Value);
    let changes: [Change; 6] = [
        |d| d["document"]["id"] = "ws-1".into(),
        |d| d["document"]["kind"] = "policy".into(),
        |d| d["document"]["spec"]["name"] = "two\nlines".into(),
        |d| d["document"]["spec"]["apply_role"] = "arn:aws'; id:iam::111122223333:role/x".into(),
        |d| d["document"]["spec"]["state"]["region"] = "eu-central-1'; id".into(),
        |d| drop(d["document"].as_object_mut().unwrap().remove("spec")),
    ];
    for (number, change) in changes.into_iter().enumerate() {
        std::fs::write(&file, document(change)).unwrap();
        let said = said(&["print", file.to_str().unwrap()]);
        assert!(said.code != 0 && said.out.is_empty(), "{number}: {said:?}");
    }
    std::fs::write(&file, document(|_| ())).unwrap();
    let said = said(&["print", file.to_str().unwrap(), "--account", "444455556666"]);
    assert!(said.code == 2 && said.err.contains("the file says `111122223333`"), "{said:?}");
}

/// A bundle of a small configuration beside its order; gives the digest.
fn bundled(at: &Path) -> Digest {
    let configuration = folder();
    write(configuration.path(), "backend.tf", "terraform {\n  backend \"local\" {}\n}\n");
    let archive = at.join("bundle.tar.zst");
    let built =
        run(None, &["--json", "bundle", configuration.path().to_str().unwrap(), "-o", archive.to_str().unwrap()], &[]);
    let digest: Digest = built.json()["digest"].as_str().unwrap().parse().unwrap();
    write(at, "order.json", &order(digest, |_| ()));
    digest
}

#[test]
fn a_bundle_is_unpacked_ready_for_the_engine_as_the_runner_does_it() {
    let at = tempfile::tempdir().unwrap();
    let place = |name: &str| at.path().join(name).to_str().unwrap().to_owned();
    let digest = bundled(at.path());
    let unpack = |folder: &str| {
        let (bundle, folder, order) = (place("bundle.tar.zst"), place(folder), place("order.json"));
        said(&["unpack", &bundle, &folder, "--order", &order, "--workspace", WORKSPACE])
    };
    let done = unpack("run");
    assert_eq!(done.code, 0, "{done:?}");
    let over = std::fs::read_to_string(at.path().join("run/source/~plangate_override.tf.json")).unwrap();
    assert_eq!(over, "{\"terraform\":{\"backend\":{\"s3\":{}}}}\n");
    assert!(
        at.path().join("run/source/main.tf").is_file() && at.path().join("run/data/modules/modules.json").is_file()
    );
    for closed in ["run", "run/source", "run/data"] {
        assert_eq!(std::fs::metadata(at.path().join(closed)).unwrap().permissions().mode() & 0o777, 0o700, "{closed}");
    }

    // What stands there already is left as it is, and what is refused leaves nothing.
    assert_eq!(unpack("run").code, 1);
    assert!(at.path().join("run/source/main.tf").is_file());
    let mut bytes = std::fs::read(at.path().join("bundle.tar.zst")).unwrap();
    bytes.push(0);
    std::fs::write(at.path().join("bundle.tar.zst"), bytes).unwrap();
    let other = unpack("other");
    assert!(other.code == 3 && other.err.contains(&digest.to_string()), "{other:?}");
    assert!(!at.path().join("other").exists());
}

#[test]
fn an_order_is_read_field_by_field_if_it_is_this_workspaces_and_to_apply() {
    let at = tempfile::tempdir().unwrap();
    let file = at.path().join("order.json");
    let digest = Digest::of(b"bundle");
    let read = |field: &str, workspace: &str| said(&["read", file.to_str().unwrap(), field, "--workspace", workspace]);
    std::fs::write(&file, order(digest, |_| ())).unwrap();
    let field = |name: &str| read(name, WORKSPACE).out;
    assert_eq!(field("bundle"), format!("bundles/{WORKSPACE}/{}.tar.zst\n", digest.hex()));
    assert_eq!(field("engine"), "tofu\tOpenTofu v1.10.2\n");
    assert_eq!(field("state"), "b\tstate/terraform.tfstate\n");
    assert_eq!(field("secrets"), format!("password\t/plangate/{WORKSPACE}/password\n"));
    assert_eq!(
        field("backend"),
        "bucket=b\nencrypt=true\nkey=state/terraform.tfstate\nkms_key_id=arn:aws:kms:eu-central-1:123456789012:key/1\nregion=eu-central-1\nuse_lockfile=true\n"
    );
    assert!(field("summary").starts_with(&format!("run {RUN}, ordered to be applied at 2026-11-30T05:00:00Z\n")));

    let another = read("bundle", "ws-1123456789abcdef");
    assert!(another.code == 1 && another.out.is_empty(), "{another:?}");
    type Change = fn(&mut serde_json::Value);
    let changes: [Change; 7] = [
        |o| o["phase"] = "plan".into(),
        |o| o["more"] = 1.into(),
        |o| o["bundle"]["key"] = "bundles/x.tar.zst".into(),
        |o| o["state"]["key"] = "two\nlines".into(),
        |o| o["engine"]["version"] = "1\t2".into(),
        |o| o["secrets"][0]["variable"] = "a\":\"b".into(),
        |o| o["secrets"][0]["parameter"] = "/plangate/ws-1123456789abcdef/x".into(),
    ];
    for (number, change) in changes.into_iter().enumerate() {
        std::fs::write(&file, order(digest, change)).unwrap();
        let said = read("summary", WORKSPACE);
        assert!(said.code == 1 && said.out.is_empty(), "{number}: {said:?}");
    }
}

#[test]
fn an_estate_in_another_account_is_refused_with_where_to_go() {
    let at = tempfile::tempdir().unwrap();
    let role = |phase: &str| format!("arn:aws:iam::444455556666:role/plangate/estate/{phase}/{WORKSPACE}-{phase}");
    let estate = serde_json::json!({"plan_role": role("plan"), "apply_role": role("apply")});
    let digest = bundled(at.path());
    let place = |name: &str| at.path().join(name).to_str().unwrap().to_owned();
    write(at.path(), "ws.json", &document(|d| d["document"]["spec"]["estate"] = estate.clone()));
    write(at.path(), "order.json", &order(digest, |o| o["estate"] = estate.clone()));
    let (saved, ordered, bundle, folder) =
        (place("ws.json"), place("order.json"), place("bundle.tar.zst"), place("run"));
    for refused in [
        said(&["print", &saved]),
        said(&["read", &ordered, "summary", "--workspace", WORKSPACE]),
        said(&["unpack", &bundle, &folder, "--order", &ordered, "--workspace", WORKSPACE]),
    ] {
        assert_eq!((refused.code, refused.out.as_str()), (1, ""), "{refused:?}");
        assert!(refused.err.contains("in another account") && refused.err.contains("docs/accounts.md"), "{refused:?}");
    }
    assert!(!at.path().join("run").exists());
}

#[test]
fn only_what_a_plan_does_not_carry_is_given_to_its_apply_again() {
    let at = tempfile::tempdir().unwrap();
    write(
        at.path(),
        "plan.json",
        &format!(r#"{{"format_version":"1.2","variables":{{"kept":{{"value":"{SECRET}"}}}}}}"#),
    );
    let plan = at.path().join("plan.json");
    let variables = at.path().join("secrets.tfvars.json");
    let again = |text: &str| {
        std::fs::write(&variables, text).unwrap();
        said(&["ephemeral", plan.to_str().unwrap(), variables.to_str().unwrap()])
    };
    assert_eq!(again(r#"{"kept":"x"}"#).out, "");
    assert_eq!(again(r#"{"kept":"x","passing":"\" ${y} ü"}"#).out, "{\"passing\":\"\\\" ${y} ü\"}\n");
    let said = again(&format!("{{\"password\": {SECRET}"));
    assert!(said.code == 1 && said.out.is_empty() && !said.err.contains(SECRET), "{said:?}");
}
