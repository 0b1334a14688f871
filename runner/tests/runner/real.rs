//! Plan and apply with the real engine and its S3 backend, through the program itself.

use base64::Engine as _;
use plangate_gate::digest::Digest;
use plangate_gate::failure::FailureReason;
use plangate_gate::receipt::{ApplyResult, Isolation, PlanExit, Receipt};
use plangate_gate::state::StateIdentity;
use serde_json::json;

use crate::program::{Program, engine};
use crate::stage::{EXCHANGE, RUN, SEALED, SEALED_KEY, SECRET, STATE_KEY, WS, projection};

const MAIN: &str = r#"
terraform {
  backend "local" {
    path = "elsewhere.tfstate"
  }
}
variable "password" {
  type      = string
  sensitive = true
}
variable "passing" {
  type      = string
  ephemeral = true
}
resource "terraform_data" "secret" {
  input = var.password
}
resource "terraform_data" "script" {
  triggers_replace = filesha256("${path.module}/script.sh")
  provisioner "local-exec" {
    command     = "sh ./script.sh; echo cwd=$PWD"
    environment = { PASSWORD = nonsensitive(var.password) }
  }
}
output "where" {
  value = path.cwd
}
"#;

const FILES: [(&str, &str); 3] = [
    ("main.tf", MAIN),
    ("script.sh", "echo \"in clear: $PASSWORD\"\n"),
    ("terraform.tfvars", "password = \"not-the-secret\"\n"),
];

fn program() -> Option<Program> {
    let mut program = Program::new(engine()?);
    program.stage.bundle(&FILES);
    program
        .memory()
        .parameters
        .lock()
        .unwrap()
        .insert(format!("/plangate/{WS}/passing"), "ephemeral-secret".to_owned());
    program.stage.order["secrets"]
        .as_array_mut()
        .unwrap()
        .push(json!({"variable": "passing", "parameter": format!("/plangate/{WS}/passing")}));
    program.memory().delete(SEALED, STATE_KEY);
    Some(program)
}

#[test]
fn a_configuration_is_planned_applied_and_then_up_to_date() {
    let Some(mut program) = program() else { return };
    let planned = program.plan().planned.expect("a plan");
    assert_eq!((planned.exit_code, &planned.state), (PlanExit::Changes, &StateIdentity::None));
    // A plan writes nothing beside the state, not even a lock: its role could not (`R18`).
    let beside = |(bucket, key): &(String, String)| bucket == SEALED && !key.starts_with("artifacts/");
    assert!(!program.memory().keys().iter().any(beside));

    let receipt = program.apply(&planned);
    assert_eq!(receipt.failure, None, "{}", program.log("apply"));
    let applied = receipt.applied.unwrap();
    assert!(matches!(applied.state_after, StateIdentity::Present { serial: 1, .. }), "{:?}", applied.state_after);
    assert_eq!(receipt.state_lock.orphan, None);
    let state = program.memory().get(SEALED, STATE_KEY).unwrap();
    assert_eq!(state.key_arn.as_deref(), Some(SEALED_KEY), "the state is not under the workspace's key");
    let state: serde_json::Value = serde_json::from_slice(&state.bytes).unwrap();
    let input = &state["resources"].as_array().unwrap().iter().find(|r| r["name"] == "secret").unwrap()["instances"][0]
        ["attributes"]["input"]["value"];
    assert_eq!(input, SECRET, "the workspace's secret wins over the bundle's own value");

    // Nothing but state, artifact and document holds a secret.
    let log = program.log("apply");
    assert!(log.contains("in clear: (secret)"), "{log}");
    for ((bucket, key), bytes) in program.memory().everything() {
        let expected = bucket == SEALED || key.starts_with("documents/");
        let text = String::from_utf8_lossy(&bytes);
        let found = ["hunter2", "ephemeral-secret"].iter().any(|secret| text.contains(secret));
        assert!(expected || !found, "`{key}` holds a secret");
    }
    assert!(!program.printed().contains("hunter2") && !program.printed().contains("ephemeral-secret"));

    program.another_run("run-00000000000000000000000002");
    let again = program.plan().planned.expect("a plan");
    // The folder's path holds the run's id, so the output that repeats it changes, and nothing else does.
    assert_eq!(again.exit_code, PlanExit::Changes);
    assert_eq!(again.state, applied.state_after);
}

#[test]
fn a_state_that_moved_since_the_plan_is_not_applied_to() {
    let Some(mut program) = program() else { return };
    let planned = program.plan().planned.expect("a plan");
    let foreign = br#"{"version":4,"terraform_version":"1.11.4","serial":1,"lineage":"f","outputs":{},"resources":[]}"#;
    program.memory().put(SEALED, STATE_KEY, foreign, None);
    let receipt = program.apply(&planned);
    assert_eq!(receipt.failure.unwrap().reason, FailureReason::StateIdentityMismatch);
    assert_eq!(program.memory().get(SEALED, STATE_KEY).unwrap().bytes, foreign);
    assert!(program.memory().get(EXCHANGE, &format!("claims/{WS}/{RUN}")).is_none());
}

/// Names and contents.
type Files<'a> = &'a [(&'a str, &'a str)];

const PROVIDER: &str = r#"
terraform {
  required_providers {
    x = { source = "example.com/a/x" }
  }
}
resource "x_y" "z" {}
"#;

const PRECONDITION: &str = r#"
resource "terraform_data" "x" {
  lifecycle {
    precondition {
      condition     = terraform.workspace == "other"
      error_message = "no"
    }
  }
}
"#;

fn lock(h1: &str) -> String {
    format!("provider \"example.com/a/x\" {{\n  version = \"1.0.0\"\n  hashes = [\"h1:{h1}\"]\n}}\n")
}

#[test]
fn what_a_plan_refuses_is_named() {
    let Some(mut program) = program() else { return };
    let mirror = program.stage.folder.path().join("mirror");
    let package = mirror.join("example.com/a/x/1.0.0/linux_amd64");
    std::fs::create_dir_all(&package).unwrap();
    std::fs::write(package.join("terraform-provider-x_v1.0.0"), "swapped").unwrap();
    program.stage.settings["provider_mirror"] = json!(mirror);
    let list = format!("{}  terraform-provider-x_v1.0.0\n", Digest::of(b"swapped").hex());
    let right = lock(&base64::engine::general_purpose::STANDARD.encode(Digest::of(list.as_bytes()).raw()));
    let wrong = lock("AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=");
    let cases: [(&str, Files<'_>, FailureReason); 6] = [
        (
            "a provider swapped under its lock entry",
            &[("main.tf", PROVIDER), (".terraform.lock.hcl", &wrong)],
            FailureReason::LockFileInvalid,
        ),
        (
            "a lock entry that nothing needs",
            &[("main.tf", "terraform {}\n"), (".terraform.lock.hcl", &right)],
            FailureReason::LockFileInvalid,
        ),
        (
            // It is the one that is locked, and no provider at all: `init` passes, and it cannot be started.
            "a provider that does not start",
            &[("main.tf", PROVIDER), (".terraform.lock.hcl", &right)],
            FailureReason::PlanErrored,
        ),
        (
            "a configuration with an unknown argument",
            &[("main.tf", "resource \"terraform_data\" \"x\" { inputt = 1 }\n")],
            FailureReason::PlanErrored,
        ),
        ("a precondition that does not hold", &[("main.tf", PRECONDITION)], FailureReason::PlanErrored),
        ("a configuration that does not hold together", &[("main.tf", "output \"x\" {}\n")], FailureReason::InitFailed),
    ];
    for (number, (story, files, reason)) in cases.into_iter().enumerate() {
        program.another_run(&format!("run-000000000000000000000000{}", number + 10));
        program.stage.order["secrets"] = json!([]);
        program.stage.bundle(files);
        let failure = program.plan().failure.unwrap_or_else(|| panic!("{story} was planned"));
        assert_eq!(failure.reason, reason, "{story}: {}\n{}", failure.detail, program.log("plan"));
    }
}

#[test]
fn an_override_file_of_the_bundle_that_leaves_the_backend_alone_is_merged_before_ours() {
    let Some(mut program) = program() else { return };
    program.stage.order["secrets"] = json!([]);
    let overridden = "{\"output\":{\"x\":{\"value\":2}}}";
    program.stage.bundle(&[("main.tf", "output \"x\" {\n  value = 1\n}\n"), ("zz_override.tf.json", overridden)]);
    let planned = program.plan().planned.expect("a plan");
    let document = program.memory().get(EXCHANGE, &planned.document.key).unwrap().bytes;
    let document: serde_json::Value = serde_json::from_slice(&document).unwrap();
    assert_eq!(document["output_changes"]["x"]["after"], 2);
}

const HOSTILE: &str = r#"
resource "terraform_data" "x" {
  provisioner "local-exec" {
    command = "echo uid=$(id -u) groups=$(id -G); for f in ../given/plan.tfplan ../given ../source; do mv $f $f.gone && echo moved; done; cat /proc/$(cut -d' ' -f4 /proc/$PPID/stat)/environ && echo read; true"
  }
}
"#;

#[test]
fn where_the_platform_allows_the_engine_is_another_user() {
    if !rustix::process::geteuid().is_root() {
        println!("skipped: only root can become another user");
        return;
    }
    let Some(mut program) = program() else { return };
    // The engine's user has to get to the folder of the run, and to nothing else on the way.
    let open = std::os::unix::fs::PermissionsExt::from_mode(0o711);
    std::fs::set_permissions(program.stage.folder.path(), open).unwrap();
    program.stage.settings["engine_user"] = json!({"uid": 65534, "gid": 65534});
    // The credentials come from the container's endpoint, as on Fargate.
    program.from_container = true;
    program.stage.order["secrets"] = json!([]);
    program.stage.bundle(&[("main.tf", HOSTILE)]);
    let receipt = program.plan();
    assert_eq!(receipt.isolation, Isolation::SeparateUser);
    let planned = receipt.planned.expect("a plan");
    let receipt = program.apply(&planned);
    let log = program.log("apply");
    assert_eq!(receipt.failure, None, "{log}");
    assert!(log.contains("uid=65534 groups=65534"), "{log}");
    assert!(!log.contains("(local-exec): moved") && !log.contains("(local-exec): read"), "{log}");
    assert!(log.contains("Permission denied"), "{log}");
}

/// A configuration whose apply says when it is under way, and where its engine is, and then takes its time.
fn slow(program: &mut Program) -> std::path::PathBuf {
    let ready = program.stage.folder.path().join("ready");
    let main = format!(
        "resource \"terraform_data\" \"before\" {{}}\nresource \"terraform_data\" \"slow\" {{\n  depends_on = [terraform_data.before]\n  \
         provisioner \"local-exec\" {{\n    command = \"echo $PPID > {0}.new; mv {0}.new {0}; sleep 60\"\n  }}\n}}\n",
        ready.display()
    );
    program.stage.order["secrets"] = json!([]);
    program.stage.bundle(&[("main.tf", &main)]);
    ready
}

/// Applies, and sends `signal` to the task, or to the engine itself, once the engine is at work.
fn apply_and_signal(program: &mut Program, signal: rustix::process::Signal, to_engine: bool) -> Receipt {
    let ready = slow(program);
    let planned = program.plan().planned.expect("a plan");
    let document = program.memory().get(EXCHANGE, &planned.document.key).unwrap().bytes;
    program.approve(&planned, projection(&document));
    let child = program.start();
    while !ready.exists() {
        std::thread::yield_now();
    }
    let engine: i32 = std::fs::read_to_string(ready).unwrap().trim().parse().unwrap();
    let pid = if to_engine { engine } else { i32::try_from(child.id()).unwrap() };
    rustix::process::kill_process(rustix::process::Pid::from_raw(pid).unwrap(), signal).unwrap();
    program.finish(child)
}

#[test]
fn an_engine_that_is_told_to_stop_in_an_apply_saves_what_it_did_and_releases_its_lock() {
    let Some(mut program) = program() else { return };
    let receipt = apply_and_signal(&mut program, rustix::process::Signal::TERM, false);
    assert_eq!(receipt.failure.unwrap().reason, FailureReason::ApplyErrored, "{}", program.log("apply"));
    assert_eq!(receipt.state_lock.orphan, None);
    assert!(matches!(receipt.applied.unwrap().state_after, StateIdentity::Present { .. }));
    let state = String::from_utf8(program.memory().get(SEALED, STATE_KEY).unwrap().bytes).unwrap();
    assert!(state.contains("\"before\""), "what had been done is not in the state");
}

#[test]
fn an_engine_that_is_killed_in_an_apply_leaves_its_outcome_unknown_and_a_lock_that_is_reported() {
    let Some(mut program) = program() else { return };
    let receipt = apply_and_signal(&mut program, rustix::process::Signal::KILL, true);
    let applied = receipt.applied.unwrap();
    assert_eq!((receipt.failure.unwrap().reason, applied.exit_code), (FailureReason::ApplyOutcomeUnknown, 137));
    let orphan = receipt.state_lock.orphan.expect("an orphaned lock");
    assert_eq!((orphan.operation.as_str(), orphan.id.len()), ("OperationTypeApply", 36));
    assert!(program.memory().get(SEALED, &format!("{STATE_KEY}.tflock")).is_some(), "the lock was released");
    assert!(program.log("apply").contains(&orphan.id));
}

#[test]
fn a_state_that_the_engine_cannot_save_is_kept_and_leaves_the_outcome_unknown() {
    let Some(mut program) = program() else { return };
    let planned = program.plan().planned.expect("a plan");
    // The lock can still be written, and after that nothing more of the state.
    program.memory().break_after("put", STATE_KEY, 1);
    let receipt = program.apply(&planned);
    let (failure, applied) = (receipt.failure.unwrap(), receipt.applied.unwrap());
    assert_eq!((failure.reason, applied.exit_code), (FailureReason::ApplyOutcomeUnknown, 1), "{}", failure.detail);
    assert_eq!((&applied.state_before, &applied.state_after), (&StateIdentity::None, &StateIdentity::None));
    let kept = program.memory().get(SEALED, &format!("sealed/{RUN}/errored.tfstate")).unwrap();
    assert_eq!(applied.errored_state.unwrap().digest, Digest::of(&kept.bytes));
    assert_eq!(kept.key_arn.as_deref(), Some(SEALED_KEY));
    assert!(String::from_utf8(kept.bytes).unwrap().contains("\"secret\""), "it is not what was applied");
    let result = program.memory().get(EXCHANGE, &format!("results/{WS}/{RUN}.json")).unwrap();
    assert!(!ApplyResult::parse_untrusted(&result.bytes).unwrap().applied.outcome_is_known());
}

#[test]
fn both_phases_project_the_same_document_to_the_same_bytes() {
    let Some(mut program) = program() else { return };
    let planned = program.plan().planned.expect("a plan");
    let document = program.memory().get(EXCHANGE, &planned.document.key).unwrap().bytes;
    // Somebody replaces the document by one that shows less, and that is what is approved.
    let less = String::from_utf8(document).unwrap().replace("\"replace_paths\"", "\"hidden\"").replace("script", "sc");
    let receipt: Receipt = program.apply_showing(&planned, projection(less.as_bytes()));
    assert_eq!(receipt.failure.unwrap().reason, FailureReason::ProjectionMismatch);
}
