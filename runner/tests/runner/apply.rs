//! The apply phase, with an engine that is a script.

use plangate_gate::digest::Digest;
use plangate_gate::failure::FailureReason;
use plangate_gate::receipt::{Applied, ApplyResult, Claim, ClaimHolder};
use plangate_gate::run::LockFile;
use plangate_runner::error::RunnerError;
use serde_json::json;

use crate::stage::{DOCUMENT, EXCHANGE, RUN, SEALED, SEALED_KEY, STATE, STATE_KEY, Stage, WS, plan_file};

fn claim(stage: &Stage) -> Option<Claim> {
    let stored = stage.memory.get(EXCHANGE, &format!("claims/{WS}/{RUN}"))?;
    Some(Claim::parse_untrusted(&stored.bytes).unwrap())
}

fn result(stage: &Stage) -> Option<ApplyResult> {
    let stored = stage.memory.get(EXCHANGE, &format!("results/{WS}/{RUN}.json"))?;
    Some(ApplyResult::parse_untrusted(&stored.bytes).unwrap())
}

fn applied(stage: &Stage) -> bool {
    stage.calls().lines().any(|call| call.starts_with("apply"))
}

#[test]
fn the_approved_plan_is_claimed_applied_and_told() {
    let stage = Stage::applying();
    // The plan was made with an older value of the secret: neither may be shown.
    stage.engine("apply", r#"echo '{"@message":"an-older-secret and hunter2-\"secret\"","type":"x"}'"#);
    let receipt = stage.run();
    assert_eq!(receipt.failure, None);
    assert!(receipt.state_lock.locking);
    let done = receipt.applied.unwrap();
    assert_eq!((done.exit_code, &done.state_before), (0, &done.state_after));
    let claim = claim(&stage).unwrap();
    assert_eq!((claim.holder, claim.fence), (ClaimHolder::Runner, 7));
    let result = result(&stage).unwrap();
    assert_eq!((result.order, result.applied), (receipt.order, done));
    let printed = stage.printed();
    assert!(printed.contains("(secret) and (secret)\n"), "{printed}");
    let call = stage.calls().lines().find(|call| call.starts_with("apply")).unwrap().to_owned();
    assert!(call.ends_with("/given/plan.tfplan") && !call.contains("-lock=false"), "{call}");
    assert!(!call.contains("-var-file"), "what the plan carries is not given again");
    assert!(stage.calls().lines().all(|call| !call.starts_with("plan")), "nothing is planned again");
}

#[test]
fn a_variable_that_a_plan_does_not_carry_is_given_again() {
    let mut stage = Stage::applying();
    let document = DOCUMENT.replace("\"password\"", "\"another\"");
    stage.engine("document.json", &document);
    stage.order["approved"]["projection"] = json!(crate::stage::projection(document.as_bytes()));
    assert_eq!(stage.run().failure, None);
    assert!(stage.calls().lines().any(|call| call.starts_with("apply") && call.contains("-var-file=")));
}

type Change = fn(&mut Stage);

#[test]
fn each_difference_from_what_was_approved_ends_the_run_with_nothing_changed() {
    use FailureReason as R;
    let artifact = "artifacts/run-00000000000000000000000001/plan.tfplan";
    let cases: Vec<(&str, R, Change)> = vec![
        ("the order is for another run", R::OrderInvalid, |s| s.order["run"] = json!("run-00000000000000000000000002")),
        ("the plan has expired", R::PlanExpired, |s| s.now = "2026-11-30T06:00:00Z"),
        ("the task runs under the plan role", R::IdentityMismatch, |s| {
            *s.memory.caller.lock().unwrap() = format!("arn:aws:sts::123456789012:assumed-role/{WS}-plan/x");
        }),
        ("the bundle was replaced", R::BundleInvalid, |s| {
            let key = s.order["bundle"]["key"].as_str().unwrap().to_owned();
            s.memory.put(EXCHANGE, &key, b"other", None);
        }),
        ("the artifact was replaced", R::ObjectReplaced, |s| {
            s.memory.put(SEALED, "artifacts/run-00000000000000000000000001/plan.tfplan", b"other", None);
        }),
        ("the artifact was written again", R::ObjectReplaced, |s| {
            let same = plan_file(STATE);
            s.memory.put(SEALED, "artifacts/run-00000000000000000000000001/plan.tfplan", &same, None);
        }),
        ("the artifact is gone", R::ObjectReplaced, |s| {
            s.memory.delete(SEALED, "artifacts/run-00000000000000000000000001/plan.tfplan");
        }),
        ("the artifact's digest is another", R::ObjectReplaced, |s| {
            s.order["approved"]["artifact"]["digest"] = json!(Digest::of(b"other"));
        }),
        ("the artifact is another run's", R::ObjectReplaced, |s| {
            s.order["approved"]["artifact"]["key"] = json!("artifacts/run-00000000000000000000000002/plan.tfplan");
        }),
        ("the lock file is another", R::LockFileInvalid, |s| {
            s.order["approved"]["lock_file"] = serde_json::to_value(LockFile::Present(Digest::of(b"lock"))).unwrap();
        }),
        ("the engine is another", R::EngineVersionMismatch, |s| {
            s.engine("version.json", r#"{"terraform_version":"9.9.8","platform":"linux_amd64"}"#);
        }),
        ("the backend is another", R::BackendMismatch, |s| {
            s.engine("backend.json", r#"{"backend":{"type":"local","config":{}}}"#);
        }),
        ("the artifact shows something else", R::ProjectionMismatch, |s| {
            s.engine("document.json", DOCUMENT.replace("\"create\"", "\"delete\""));
        }),
        ("the artifact shows no plan", R::ProjectionMismatch, |s| s.engine("document.json", "{}")),
        ("the state was written", R::StateIdentityMismatch, |s| {
            s.memory.put(SEALED, STATE_KEY, STATE.replace(":3", ":4").as_bytes(), None);
        }),
        ("the state was restored and written to the same serial", R::StateIdentityMismatch, |s| {
            s.memory.put(SEALED, STATE_KEY, STATE.as_bytes(), None);
        }),
        ("the state is gone", R::StateIdentityMismatch, |s| s.memory.delete(SEALED, STATE_KEY)),
        ("the task was told to stop", R::ApplyNotStarted, |s| s.stop.request()),
        ("a secret is not there", R::SecretUnavailable, |s| s.memory.parameters.lock().unwrap().clear()),
        ("the claim cannot be written", R::ApplyNotStarted, |s| s.memory.break_after("claim", "claims/", 0)),
    ];
    for (story, reason, change) in cases {
        let mut stage = Stage::applying();
        assert!(stage.memory.get(SEALED, artifact).is_some());
        change(&mut stage);
        stage.send_order();
        let receipt = stage.run_as(stage.phase()).unwrap_or_else(|error| panic!("{story}: {error}"));
        let failure = receipt.failure.unwrap_or_else(|| panic!("{story}: it did not fail"));
        assert_eq!(failure.reason, reason, "{story}: {}", failure.detail);
        assert!(receipt.applied.is_none() && !applied(&stage), "{story}: it was applied");
        assert!(claim(&stage).is_none() && result(&stage).is_none(), "{story}: it was claimed");
        assert!(!stage.run_folder().exists(), "{story}: the run's folder was left behind");
    }
}

#[test]
fn an_order_that_the_gate_did_not_sign_is_refused() {
    let signature = format!("orders/{WS}/{RUN}/apply.sig.json");
    for story in ["absent", "of other bytes", "of another gate", "malformed"] {
        let stage = Stage::applying();
        let order = stage.send_order();
        match story {
            "absent" => stage.memory.delete(EXCHANGE, &signature),
            "of other bytes" => {
                drop(stage.memory.put(EXCHANGE, &signature, &stage.sign(&[&order[..], b" "].concat()), None))
            }
            "of another gate" => drop(stage.memory.put(EXCHANGE, &signature, &Stage::applying().sign(&order), None)),
            _ => drop(stage.memory.put(EXCHANGE, &signature, b"{}", None)),
        }
        let failure = stage.run_as(stage.phase()).unwrap().failure.unwrap();
        assert_eq!(failure.reason, FailureReason::OrderInvalid, "the signature is {story}");
        assert!(claim(&stage).is_none() && stage.calls().is_empty(), "the signature is {story}");
    }
}

#[test]
fn an_order_is_applied_while_its_key_is_accepted_and_refused_once_that_is_retired() {
    for state in ["accepted", "retired"] {
        let mut stage = Stage::applying();
        // The gate signs by another key by now; this order was signed before.
        let mut active = Stage::applying().settings["order_keys"][0].clone();
        active["key_id"] = json!("arn:aws:kms:eu-central-1:123456789012:key/active");
        let keys = stage.settings["order_keys"].as_array_mut().unwrap();
        keys[0]["state"] = json!(state);
        keys.insert(0, active);
        let receipt = stage.run();
        if state == "accepted" {
            assert!(receipt.failure.is_none() && applied(&stage), "{:?}", receipt.failure);
        } else {
            assert_eq!(receipt.failure.unwrap().reason, FailureReason::OrderKeyRetired);
            assert!(receipt.applied.is_none() && claim(&stage).is_none() && stage.calls().is_empty());
        }
    }
}

#[test]
fn a_plan_only_run_is_not_applied_whoever_signs_it() {
    let mut stage = Stage::applying();
    stage.order["kind"] = json!("plan-only");
    stage.send_order();
    assert!(matches!(stage.run_as(stage.phase()), Err(RunnerError::Unusable { .. })));
    assert!(claim(&stage).is_none() && stage.calls().is_empty());
}

#[test]
fn whoever_comes_second_finds_the_claim_taken_and_leaves() {
    let stage = Stage::applying();
    let tombstone = json!({"schema": "plangate.claim.v1", "run": RUN, "workspace": WS, "holder": "gate", "fence": 7,
                           "at": "2026-11-30T05:00:00Z"});
    stage.memory.put(EXCHANGE, &format!("claims/{WS}/{RUN}"), tombstone.to_string().as_bytes(), None);
    let receipt = stage.run();
    assert_eq!(receipt.failure.unwrap().reason, FailureReason::ClaimTaken);
    assert!(receipt.applied.is_none() && !applied(&stage) && result(&stage).is_none());
    assert_eq!(claim(&stage).unwrap().holder, ClaimHolder::Gate);
}

#[test]
fn an_apply_that_fails_tells_what_it_left() {
    let stage = Stage::applying();
    stage.engine("apply", "exit 1");
    let key = format!("{STATE_KEY}.tflock");
    stage.memory.put(SEALED, &key, br#"{"ID":"4f0c","Operation":"OperationTypeApply","Created":"then"}"#, None);
    let receipt = stage.run();
    let done = receipt.applied.unwrap();
    assert_eq!((receipt.failure.unwrap().reason, done.exit_code), (FailureReason::ApplyErrored, 1));
    assert!(done.outcome_is_known());
    assert_eq!(result(&stage).unwrap().applied, done);
    assert_eq!(receipt.state_lock.orphan.unwrap().id, "4f0c");
    assert!(stage.memory.get(SEALED, &key).is_some(), "the lock is not the runner's to release");
}

/// The failure of an apply whose outcome nobody can know, its detail, and what it tells all the same.
fn unknown(stage: &Stage) -> (String, Applied) {
    let receipt = stage.run();
    let failure = receipt.failure.unwrap();
    assert_eq!(failure.reason, FailureReason::ApplyOutcomeUnknown, "{}", failure.detail);
    let told = result(stage);
    assert!(
        told.is_none_or(|told| !told.applied.outcome_is_known()),
        "the result alone says that the outcome is known"
    );
    (failure.detail, receipt.applied.unwrap())
}

#[test]
fn a_state_that_the_engine_could_not_save_is_kept_and_leaves_the_outcome_unknown() {
    for code in [0, 1] {
        let stage = Stage::applying();
        stage.engine("apply", format!("echo leftover > errored.tfstate; exit {code}"));
        let (detail, done) = unknown(&stage);
        let key = format!("sealed/{RUN}/errored.tfstate");
        assert!(detail.contains(&key), "{detail}");
        let kept = stage.memory.get(SEALED, &key).unwrap();
        assert_eq!((kept.bytes.as_slice(), kept.key_arn.as_deref()), (&b"leftover\n"[..], Some(SEALED_KEY)));
        assert_eq!(done.errored_state.as_ref().unwrap().digest, Digest::of(b"leftover\n"));
        assert_eq!(done.exit_code, code);
        assert_eq!(result(&stage).unwrap().applied, done);
    }
}

#[test]
fn a_state_that_is_lost_is_told_loudly_and_leaves_the_outcome_unknown() {
    type Change = fn(&Stage);
    let cases: [(&str, Change); 4] = [
        ("it cannot be stored", |s| {
            s.memory.break_after("put", "sealed/", 0);
            s.engine("apply", r#"echo 'hunter2-"secret"' > errored.tfstate; exit 1"#);
        }),
        ("it is a link", |s| s.engine("apply", "ln -s /etc/hostname errored.tfstate; exit 1")),
        ("it is too large", |s| s.engine("apply", "head -c 1000001 /dev/zero > errored.tfstate; exit 1")),
        ("not even a file could be written", |s| {
            s.engine("apply", r#"echo '{"@message":"Emergency state dump","state":{"v":"not-for-the-log"}}'; exit 1"#);
        }),
    ];
    for (story, change) in cases {
        let stage = Stage::applying();
        change(&stage);
        let (detail, done) = unknown(&stage);
        assert!(detail.contains("IS LOST") && stage.printed().contains("IS LOST"), "{story}: {detail}");
        assert!(done.errored_state.is_none() && result(&stage).is_none(), "{story}");
        let told = format!("{detail}{}", stage.printed());
        assert!(!told.contains("hunter2") && !told.contains("not-for-the-log"), "{story}");
    }
}

#[test]
fn a_state_that_can_be_stored_at_the_second_attempt_is_kept() {
    let stage = Stage::applying();
    stage.memory.recover_after("put", "sealed/", 2);
    stage.engine("apply", "echo leftover > errored.tfstate; exit 1");
    let (_, done) = unknown(&stage);
    assert!(done.errored_state.is_some());
}

#[test]
fn an_engine_that_is_killed_or_breaks_down_leaves_the_outcome_unknown() {
    for (script, code) in [("kill -9 $$", 137), ("kill -15 $$", 143), ("exit 2", 2), ("exit 11", 11)] {
        let stage = Stage::applying();
        stage.engine("apply", script);
        let (detail, done) = unknown(&stage);
        assert!(detail.contains(&code.to_string()) && done.exit_code == code, "`{script}`: {detail}");
        assert_eq!(result(&stage).unwrap().applied, done);
    }
}

#[test]
fn an_engine_that_does_not_stop_in_time_is_killed_and_leaves_the_outcome_unknown() {
    let mut stage = Stage::applying();
    stage.settings["limits"]["apply_seconds"] = json!(2);
    stage.settings["limits"]["grace_seconds"] = json!(1);
    stage.engine("apply", "trap '' TERM; while :; do sleep 0.05; done");
    let (_, done) = unknown(&stage);
    assert_eq!(done.exit_code, 137);
}

#[test]
fn a_claim_that_may_be_anybodys_is_not_applied_under() {
    let stage = Stage::applying();
    stage.memory.lose_answers("claims/");
    let receipt = stage.run();
    assert_eq!(receipt.failure.unwrap().reason, FailureReason::ClaimTaken);
    assert!(receipt.applied.is_none() && !applied(&stage) && result(&stage).is_none());
}

#[test]
fn an_apply_whose_state_cannot_be_read_afterwards_has_no_result() {
    let stage = Stage::applying();
    stage.memory.break_after("fetch", STATE_KEY, 1);
    let receipt = stage.run();
    assert_eq!(receipt.failure.unwrap().reason, FailureReason::ApplyOutcomeUnknown);
    assert!(applied(&stage) && receipt.applied.is_none());
    assert!(claim(&stage).is_some() && result(&stage).is_none());
}

#[test]
fn a_task_that_is_told_to_stop_in_the_middle_waits_for_the_engine_to_save() {
    let stage = Stage::applying();
    let folder = stage.folder.path().join("engine");
    stage
        .engine("apply", "trap 'sleep 0.2; touch $F/saved; exit 1' TERM; touch $F/ready; while :; do sleep 0.05; done");
    let (stop, ready) = (stage.stop.clone(), folder.join("ready"));
    let waiter = std::thread::spawn(move || {
        while !ready.exists() {
            std::thread::yield_now();
        }
        stop.request();
    });
    let receipt = stage.run();
    waiter.join().unwrap();
    assert!(folder.join("saved").exists());
    assert_eq!(receipt.failure.unwrap().reason, FailureReason::ApplyErrored);
    assert_eq!(receipt.applied.unwrap().exit_code, 1);
    assert!(result(&stage).is_some());
}
