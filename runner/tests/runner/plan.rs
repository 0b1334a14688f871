//! The plan phase, with an engine that is a script.

use plangate_gate::digest::Digest;
use plangate_gate::failure::FailureReason;
use plangate_gate::receipt::{Isolation, PlanExit};
use plangate_gate::run::LockFile;
use plangate_gate::state::StateIdentity;
use plangate_runner::error::RunnerError;
use serde_json::json;

use crate::stage::{DOCUMENT, DOCUMENT_KEY, EXCHANGE, RUN, SEALED, SEALED_KEY, STATE, STATE_KEY, Stage, WS, plan_file};

#[test]
fn a_plan_leaves_artifact_document_log_and_a_receipt_that_names_them() {
    let stage = Stage::planning();
    stage.engine("plan", r#"echo '{"@message":"token hunter2-\"secret\" seen","type":"provision_progress"}'; exit 2"#);
    let order = stage.send_order();
    let receipt = stage.run();
    let planned = receipt.planned.unwrap();
    assert_eq!(receipt.failure, None);
    assert_eq!(receipt.order, Digest::of(&order));
    assert_eq!((receipt.fence, receipt.isolation), (7, Isolation::SameUser));
    assert!(!receipt.state_lock.locking && receipt.state_lock.orphan.is_none());
    assert_eq!(planned.exit_code, PlanExit::Changes);
    assert_eq!(planned.plan_format, "1.2");
    assert_eq!(planned.lock_file, LockFile::None);
    let state = stage.memory.get(SEALED, STATE_KEY).unwrap();
    assert_eq!(
        planned.state,
        StateIdentity::Present {
            lineage: "l-1".to_owned(),
            serial: 3,
            version_id: state.id,
            digest: Digest::of(STATE.as_bytes())
        }
    );

    let artifact = stage.memory.get(SEALED, &format!("artifacts/{RUN}/plan.tfplan")).unwrap();
    assert_eq!((artifact.bytes, artifact.key_arn.as_deref()), (plan_file(STATE), Some(SEALED_KEY)));
    assert_eq!(planned.artifact.version_id, Some(artifact.id));
    let document = stage.memory.get(EXCHANGE, &format!("documents/{WS}/{RUN}.json")).unwrap();
    assert_eq!((document.bytes.as_slice(), document.key_arn.as_deref()), (DOCUMENT.as_bytes(), Some(DOCUMENT_KEY)));
    let log = stage.memory.get(EXCHANGE, &format!("logs/{WS}/{RUN}/plan.log")).unwrap();
    assert_eq!(receipt.log.unwrap().digest, Digest::of(&log.bytes));
    let log = String::from_utf8(log.bytes).unwrap();
    assert!(log.contains("token (secret) seen\n"), "{log}");
    assert!(!stage.printed().contains("hunter2"));
    // Not in an argument either: the engine gets secrets in a file.
    assert!(!stage.calls().contains("hunter2") && stage.calls().contains("-var-file="), "{}", stage.calls());
}

#[test]
fn an_engine_that_sees_no_change_says_so_with_its_exit_code() {
    let stage = Stage::planning();
    stage.engine("plan", "exit 0");
    assert_eq!(stage.run().planned.unwrap().exit_code, PlanExit::NoChanges);
}

#[test]
fn without_a_state_the_plan_is_made_against_none() {
    let stage = Stage::planning();
    stage.memory.delete(SEALED, STATE_KEY);
    stage.engine("plan.zip", plan_file(r#"{"version":4,"serial":0,"lineage":""}"#));
    assert_eq!(stage.run().planned.unwrap().state, StateIdentity::None);
}

/// A change to a stage on which everything is in order.
type Change = fn(&mut Stage);

#[test]
fn each_thing_that_is_not_in_order_gets_its_reason_and_leaves_no_plan() {
    use FailureReason as R;
    let cases: Vec<(&str, R, Change)> = vec![
        ("the order is for another run", R::OrderInvalid, |s| s.order["run"] = json!("run-00000000000000000000000002")),
        ("the order is for another workspace", R::OrderInvalid, |s| {
            s.order["workspace"] = json!("ws-0000000000000002");
        }),
        ("the order has expired", R::OrderInvalid, |s| s.now = "2026-11-30T06:00:00Z"),
        ("the order's bundle is elsewhere", R::OrderInvalid, |s| s.order["bundle"]["bucket"] = json!("other")),
        ("the task runs under another role", R::IdentityMismatch, |s| {
            *s.memory.caller.lock().unwrap() = "arn:aws:sts::123456789012:assumed-role/operator/me".to_owned();
        }),
        ("the task runs under the apply role", R::IdentityMismatch, |s| {
            *s.memory.caller.lock().unwrap() = format!("arn:aws:sts::123456789012:assumed-role/{WS}-apply/x");
        }),
        ("there is no bundle", R::BundleInvalid, |s| s.order["bundle"]["key"] = json!("bundles/none")),
        ("the bundle was replaced", R::BundleInvalid, |s| {
            let key = s.order["bundle"]["key"].as_str().unwrap().to_owned();
            s.memory.put(EXCHANGE, &key, b"other", None);
        }),
        ("the engine is not carried", R::EngineVersionMismatch, |s| s.order["engine"]["version"] = json!("9.9.8")),
        ("the engine's binary is another", R::EngineVersionMismatch, |s| {
            s.settings["engines"][0]["sha256"] = json!("0".repeat(64));
        }),
        ("the engine says another version", R::EngineVersionMismatch, |s| {
            s.engine("version.json", r#"{"terraform_version":"9.9.8","platform":"linux_amd64"}"#);
        }),
        ("a secret is not there", R::SecretUnavailable, |s| s.memory.parameters.lock().unwrap().clear()),
        ("an override file brings its own backend", R::BundleRefused, |s| {
            s.engine("init", "exit 0");
            s.bundle(&[("main.tf", ""), ("~z_override.tf", "locals {}\n")]);
        }),
        ("init fails", R::InitFailed, |s| s.engine("init", "echo broken >&2; exit 1")),
        ("init finds fault with the lock file", R::LockFileInvalid, |s| {
            s.engine("init", r#"echo '{"@message":"Error: Inconsistent dependency lock file"}'; exit 1"#);
        }),
        ("init warns that the lock file is incomplete", R::LockFileInvalid, |s| {
            s.engine("init", r#"echo '{"@message":"Warning: Provider lock file not updated"}'"#);
        }),
        ("the backend is another", R::BackendMismatch, |s| {
            s.engine("backend.json", r#"{"backend":{"type":"s3","config":{"bucket":"elsewhere"}}}"#);
        }),
        ("the engine cannot plan", R::PlanErrored, |s| s.engine("plan", "exit 1")),
        ("the engine exits oddly", R::PlanErrored, |s| s.engine("plan", "exit 3")),
        ("the engine is killed", R::PlanErrored, |s| s.engine("plan", "kill -9 $$")),
        ("the plan takes too long", R::PlanTimedOut, |s| {
            s.settings["limits"]["plan_seconds"] = json!(1);
            s.engine("plan", "trap 'exit 1' TERM; while :; do sleep 0.05; done");
        }),
        ("the plan file is no plan file", R::PlanErrored, |s| s.engine("plan.zip", "no zip")),
        ("the plan file is a link", R::PlanErrored, |s| {
            s.engine("plan", "for a; do case $a in -out=*) ln -sf /etc/hostname ${a#-out=} ;; esac; done; exit 2");
        }),
        ("the plan file is too large", R::PlanErrored, |s| s.settings["limits"]["artifact_bytes"] = json!(10)),
        ("the engine planned against another state", R::StateMovedDuringPlan, |s| {
            s.engine("plan.zip", plan_file(&STATE.replace(":3", ":4")));
        }),
        ("the state was written while the plan was made", R::StateMovedDuringPlan, |s| {
            s.memory.move_after_first_read(STATE_KEY, STATE.as_bytes());
        }),
        ("the state is no state", R::GateError, |s| drop(s.memory.put(SEALED, STATE_KEY, b"{}", None))),
        ("the plan cannot be shown", R::PlanErrored, |s| s.engine("show", "exit 1")),
        ("the document is too large", R::PlanErrored, |s| {
            s.settings["limits"]["document_bytes"] = json!(STATE.len());
        }),
        ("the document is no document", R::PlanUnparseable, |s| s.engine("document.json", "Plan: 1 to add")),
        ("an artifact stands there already", R::GateError, |s| {
            s.memory.put(SEALED, &format!("artifacts/{RUN}/plan.tfplan"), b"other", None);
        }),
        ("the artifact cannot be stored", R::GateError, |s| s.memory.break_after("put", "artifacts/", 0)),
    ];
    for (story, reason, change) in cases {
        let mut stage = Stage::planning();
        change(&mut stage);
        stage.send_order();
        let place = stage.run_as(plangate_gate::order::Phase::Plan);
        let receipt = place.unwrap_or_else(|error| panic!("{story}: {error}"));
        let failure = receipt.failure.unwrap_or_else(|| panic!("{story}: it did not fail"));
        assert_eq!(failure.reason, reason, "{story}: {}", failure.detail);
        assert!(receipt.planned.is_none(), "{story}");
        assert!(stage.memory.get(EXCHANGE, &format!("documents/{WS}/{RUN}.json")).is_none(), "{story}");
        assert!(!stage.run_folder().exists(), "{story}: the run's folder was left behind");
        let told = format!("{}{}", failure.detail, stage.printed());
        assert!(!told.contains("hunter2"), "{story}: a secret was told");
        assert!(stage.memory.get(EXCHANGE, &format!("logs/{WS}/{RUN}/plan.log")).is_some(), "{story}: no log");
    }
}

#[test]
fn a_good_plan_is_one_whatever_answers_are_lost() {
    // The role of a plan reads its own artifact, log and receipt, and no document.
    let stage = Stage::planning();
    for prefix in ["artifacts/", "documents/", "logs/", "receipts/"] {
        stage.memory.lose_answers(prefix);
    }
    stage.memory.break_after("fetch", "documents/", 0);
    let receipt = stage.run();
    assert_eq!(receipt.failure, None);
    let planned = receipt.planned.unwrap();
    let artifact = stage.memory.get(SEALED, &format!("artifacts/{RUN}/plan.tfplan")).unwrap();
    assert_eq!((planned.artifact.version_id, planned.document.version_id), (Some(artifact.id), None));
    assert_eq!(planned.document.digest, Digest::of(DOCUMENT.as_bytes()));
    assert!(receipt.log.is_some());
}

#[test]
fn without_an_order_there_is_no_receipt() {
    let stage = Stage::planning();
    let phase = stage.phase();
    assert!(matches!(stage.run_as(phase), Err(RunnerError::Unusable { .. })));
    stage.memory.put(EXCHANGE, &format!("orders/{WS}/{RUN}/plan.json"), b"{}", None);
    assert!(matches!(stage.run_as(phase), Err(RunnerError::Unusable { .. })));
    assert!(stage.memory.keys().iter().all(|(_, key)| !key.starts_with("receipts/")));
}

#[test]
fn a_second_task_of_a_run_changes_nothing_of_the_first() {
    let stage = Stage::planning();
    stage.run();
    let first = stage.memory.get(EXCHANGE, &format!("receipts/{WS}/{RUN}/plan.json")).unwrap();
    stage.engine("plan", "exit 0");
    assert!(matches!(stage.run_as(stage.phase()), Err(RunnerError::Unusable { .. })));
    assert_eq!(stage.memory.get(EXCHANGE, &format!("receipts/{WS}/{RUN}/plan.json")).unwrap().id, first.id);
}

#[test]
fn a_task_that_is_told_to_stop_says_so_in_its_receipt() {
    let stage = Stage::planning();
    let folder = stage.folder.path().join("engine");
    stage.engine("plan", "trap 'exit 1' TERM; touch $F/ready; while :; do sleep 0.05; done");
    let stop = stage.stop.clone();
    let waiter = std::thread::spawn(move || {
        while !folder.join("ready").exists() {
            std::thread::yield_now();
        }
        stop.request();
    });
    let (reason, detail) = stage.fails();
    waiter.join().unwrap();
    assert_eq!((reason, detail.as_str()), (FailureReason::PlanErrored, "the task was told to stop"));
}

#[test]
fn a_standing_lock_is_reported_and_left_alone() {
    let stage = Stage::planning();
    let key = format!("{STATE_KEY}.tflock");
    stage.memory.put(SEALED, &key, br#"{"ID":"4f0c","Operation":"OperationTypeApply","Created":"then"}"#, None);
    let receipt = stage.run();
    assert_eq!(receipt.state_lock.orphan.unwrap().id, "4f0c");
    assert!(receipt.failure.is_none());
    assert!(stage.memory.get(SEALED, &key).is_some());
    assert!(stage.printed().contains("delete-object"), "the way to release it is told");
}

/// A stage whose estate is in another account, and the roles there.
fn elsewhere(mut stage: Stage) -> (Stage, [String; 2]) {
    let role = |phase: &str| format!("arn:aws:iam::444455556666:role/plangate/estate/{phase}/{WS}-{phase}");
    let roles = [role("plan"), role("apply")];
    stage.order["estate"] = json!({"plan_role": roles[0], "apply_role": roles[1]});
    let path = stage.folder.path().join("engine/backend.json");
    let mut backend: serde_json::Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
    backend["backend"]["config"]["profile"] = json!("plangate-gate");
    std::fs::write(path, backend.to_string()).unwrap();
    (stage, roles)
}

#[test]
fn in_an_estate_elsewhere_the_engine_is_its_role_and_the_backend_the_workspaces() {
    for (stage, phase, at, exit) in [(Stage::planning(), "plan", 0, 2), (Stage::applying(), "apply", 1, 0)] {
        let (stage, roles) = elsewhere(stage);
        let script = format!(
            "(env; cat $AWS_CONFIG_FILE $AWS_SHARED_CREDENTIALS_FILE) > $F/seen\n\
             echo '{{\"@message\":\"it is estate-token-{RUN}\",\"type\":\"provision_progress\"}}'; exit {exit}"
        );
        stage.engine(phase, script);
        let receipt = stage.run();
        assert_eq!(receipt.failure, None);
        let there = format!("arn:aws:sts::444455556666:assumed-role/{WS}-{phase}/{RUN}");
        assert_eq!(receipt.estate_caller, Some(there));
        // Once for what leads up to it, once for the phase itself: the role of this phase, the workspace, the run.
        let asked = [roles[at].clone(), WS.to_owned(), RUN.to_owned()];
        assert_eq!(*stage.memory.assumed.lock().unwrap(), [asked.clone(), asked]);
        let seen = std::fs::read_to_string(stage.folder.path().join("engine/seen")).unwrap();
        assert!(seen.contains("[default]\naws_access_key_id = ASIAESTATE\n"), "{seen}");
        assert!(seen.contains("[plangate-gate]\naws_access_key_id = ASIAEXAMPLE\n"), "{seen}");
        assert!(seen.contains("[profile plangate-gate]\nregion = eu-central-1\n"), "{seen}");
        assert!(!seen.contains("AWS_ACCESS_KEY_ID=") && !seen.contains("AWS_SESSION_TOKEN="), "{seen}");
        assert!(stage.calls().contains("-backend-config=profile=plangate-gate"), "{}", stage.calls());
        assert!(stage.printed().contains("it is (secret)") && !stage.printed().contains("estate-token"));
    }
    let stage = Stage::planning();
    stage.engine("plan", "env > $F/seen; exit 2");
    assert_eq!((stage.run().estate_caller, stage.memory.assumed.lock().unwrap().len()), (None, 0));
    let seen = std::fs::read_to_string(stage.folder.path().join("engine/seen")).unwrap();
    assert!(
        seen.contains("AWS_ACCESS_KEY_ID=") && seen.contains("no-aws-config") && !stage.calls().contains("profile")
    );
}

#[test]
fn an_estate_that_cannot_be_entered_is_neither_planned_nor_applied_to() {
    for phase in [Stage::planning, Stage::applying] {
        for good in [0, 1] {
            let (stage, _) = elsewhere(phase());
            stage.memory.break_after("assume", "arn:", good);
            let (reason, detail) = stage.fails();
            assert_eq!(reason, FailureReason::EstateUnavailable);
            assert!(detail.contains("AccessDenied"), "{detail}");
            let begun = |call: &str| stage.calls().lines().any(|line| line.starts_with(call));
            assert!(!begun("plan") && !begun("apply"), "{}", stage.calls());
            assert!(stage.memory.get(EXCHANGE, &format!("claims/{WS}/{RUN}")).is_none(), "nothing was claimed");
        }
    }
}
