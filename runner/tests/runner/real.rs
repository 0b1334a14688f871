//! Plan and apply with the real engine and its S3 backend, through the program itself.

use plangate_gate::failure::FailureReason;
use plangate_gate::receipt::{PlanExit, Receipt};
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

#[test]
fn what_a_plan_refuses_is_named() {
    let Some(mut program) = program() else { return };
    let provider = "terraform {\n  required_providers {\n    x = { source = \"example.com/a/x\" }\n  }\n}\nresource \"x_y\" \"z\" {}\n";
    let lock = "provider \"example.com/a/x\" {\n  version = \"1.0.0\"\n  hashes = [\"h1:AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=\"]\n}\n";
    let mirror = program.stage.folder.path().join("mirror");
    let package = mirror.join("example.com/a/x/1.0.0/linux_amd64");
    std::fs::create_dir_all(&package).unwrap();
    std::fs::write(package.join("terraform-provider-x_v1.0.0"), "swapped").unwrap();
    program.stage.settings["provider_mirror"] = json!(mirror);
    let unneeded = "terraform {}\n";
    let cases: [(&str, Files<'_>, FailureReason); 5] = [
        (
            "a provider swapped under its lock entry",
            &[("main.tf", provider), (".terraform.lock.hcl", lock)],
            FailureReason::LockFileInvalid,
        ),
        (
            "a lock entry that nothing needs",
            &[("main.tf", unneeded), (".terraform.lock.hcl", lock)],
            FailureReason::LockFileInvalid,
        ),
        (
            "a configuration that is none",
            &[("main.tf", "resource \"terraform_data\" \"x\" { inputt = 1 }\n")],
            FailureReason::PlanErrored,
        ),
        (
            "a precondition that does not hold",
            &[(
                "main.tf",
                "resource \"terraform_data\" \"x\" {\n  lifecycle {\n    precondition {\n      condition = false\n      error_message = \"no\"\n    }\n  }\n}\n",
            )],
            FailureReason::PlanErrored,
        ),
        (
            "a backend that merges into ours",
            &[("main.tf", unneeded), ("zz_override.tf.json", "{\"locals\":{}}")],
            FailureReason::GateError,
        ),
    ];
    for (number, (story, files, reason)) in cases.into_iter().enumerate() {
        program.another_run(&format!("run-000000000000000000000000{}", number + 10));
        program.stage.order["secrets"] = json!([]);
        program.stage.bundle(files);
        let receipt = program.plan();
        match receipt.failure {
            Some(failure) => assert_eq!(failure.reason, reason, "{story}: {}\n{}", failure.detail, program.log("plan")),
            // The last case is one that works: an override file before ours that leaves the backend alone.
            None => assert_eq!(reason, FailureReason::GateError, "{story} was planned"),
        }
    }
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
