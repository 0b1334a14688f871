//! Applying, once.

use plangate_gate::digest::Digest;
use plangate_gate::failure::FailureReason;
use plangate_gate::ids::RunId;
use plangate_gate::lifecycle::Status;
use plangate_gate::lock::LockState;
use plangate_gate::order::Phase;
use plangate_gate::receipt::PlanExit;
use plangate_gate::run::{Choice, Kind, failure};
use plangate_wire::{AcknowledgeRequest, Reason};

use super::world::{CREATES, NOTHING, World, at};
use crate::acknowledge::acknowledge;
use crate::cancel::cancel;
use crate::error::Error;
use crate::objects::{claim_key, order_key, signatures_key};
use crate::store::Store;
use crate::tasks::TaskState;

async fn to_applying(world: &World) -> RunId {
    let run = world.propose(Kind::Applicable, 1).await;
    world.to_approval(&run).await;
    world.decide("bob", &run, Choice::Approve, at(7)).await.unwrap();
    world.authorize(&run, at(7)).await.unwrap();
    run
}

async fn outcome(world: &World, run: &RunId) -> (Status, Option<&'static str>) {
    let ended = world.check_ended(run).await;
    (ended.status, ended.failure.map(|failure| failure.reason.code()))
}

#[tokio::test]
async fn an_approved_run_is_applied_and_the_record_says_how() {
    let world = World::new().await;
    let run = to_applying(&world).await;
    world.runner_applies(&run, 0);
    world.conclude(&run, None).await.unwrap();
    let ended = world.check_ended(&run).await;
    assert_eq!(ended.status, Status::Applied);
    let apply = ended.apply.unwrap();
    assert_eq!(apply.exit_code, Some(0));
    assert!(apply.state_before.is_some() && apply.state_after.is_some() && apply.caller.is_some());
    assert_eq!(world.lock().await, LockState::Free);
}

#[tokio::test]
async fn the_order_is_signed_and_the_same_however_often_it_is_asked_for() {
    let world = World::new().await;
    let run = to_applying(&world).await;
    let keys = world.objects.keys();
    assert!(keys.contains(&order_key(&world.workspace, &run, Phase::Apply)));
    assert!(keys.contains(&signatures_key(&world.workspace, &run)));
    let first = world.authorize(&run, at(8)).await.unwrap();
    assert_eq!(first, world.authorize(&run, at(500)).await.unwrap());
    assert_eq!(keys, world.objects.keys());
    assert!(first.task_role.contains("role/plangate/apply/"));
}

/// The gate has another key by the time that `authorize` is called again.
struct NewKey;

#[async_trait::async_trait]
impl crate::authorize::Signer for NewKey {
    async fn sign(&self, digest: &Digest) -> Result<plangate_gate::order::Signature, crate::workflow::WorkflowError> {
        let algorithm = plangate_gate::order::SignatureAlgorithm::EcdsaSha256;
        Ok(plangate_gate::order::Signature { key_id: "new".into(), algorithm, signature: digest.hex() })
    }
}

#[tokio::test]
async fn an_order_is_signed_once_whatever_key_the_gate_has_meanwhile() {
    let keys = |world: &World, run: &RunId| -> Vec<String> {
        let object = super::world::futures(crate::objects::Objects::get(
            &world.objects,
            &signatures_key(&world.workspace, run),
            None,
            1 << 20,
        ));
        let signatures = plangate_gate::order::Signatures::parse_untrusted(&object.unwrap().unwrap().bytes).unwrap();
        signatures.signatures.into_iter().map(|signature| signature.key_id).collect()
    };
    let world = World::new().await;
    let run = to_applying(&world).await;
    assert_eq!(keys(&world, &run), ["k"]);
    let again = crate::authorize::authorize(&world, &world, &NewKey, &run, at(8)).await.unwrap();
    assert_eq!(
        again,
        world.authorize(&run, at(8)).await.unwrap(),
        "it goes on, and the runner says whether that key is good"
    );
    assert_eq!(keys(&world, &run), ["k"]);

    // Died before it had signed: the key of now signs.
    let world = World::new().await;
    let run = world.propose(Kind::Applicable, 1).await;
    world.to_approval(&run).await;
    world.decide("bob", &run, Choice::Approve, at(7)).await.unwrap();
    let mut world = world;
    world.faults = super::world::Faults::at(3, false);
    assert!(world.authorize(&run, at(7)).await.is_err());
    crate::authorize::authorize(&world, &world, &NewKey, &run, at(8)).await.unwrap();
    assert_eq!(keys(&world, &run), ["new"]);
}

#[tokio::test]
async fn an_order_by_a_key_that_was_retired_ends_the_run_with_nothing_applied() {
    let world = World::new().await;
    let run = to_applying(&world).await;
    let mut receipt = world.receipt(&run, Phase::Apply);
    receipt.failure =
        Some(failure(FailureReason::OrderKeyRetired, "the order was signed by `k`, which has been retired"));
    world.write_receipt(&receipt);
    world.conclude(&run, None).await.unwrap();
    assert_eq!(outcome(&world, &run).await, (Status::Failed, Some("order-key-retired")));
    assert_eq!(world.lock().await, LockState::Free);
    assert!(!world.runner_claims(&run), "the tombstone stands on the claim: the key accepted again changes nothing");
}

#[tokio::test]
async fn an_order_that_somebody_else_put_in_its_place_is_not_used() {
    let world = World::new().await;
    let run = world.propose(Kind::Applicable, 1).await;
    world.to_approval(&run).await;
    world.decide("bob", &run, Choice::Approve, at(7)).await.unwrap();
    world.objects.replace(&order_key(&world.workspace, &run, Phase::Apply), b"{}");
    assert!(matches!(world.authorize(&run, at(7)).await, Err(Error::RecordInvalid { .. })));
    assert!(!world.objects.keys().contains(&signatures_key(&world.workspace, &run)), "nothing was signed");
}

#[tokio::test]
async fn an_apply_that_failed_is_a_failed_run_and_the_lock_goes_on() {
    let world = World::new().await;
    let run = to_applying(&world).await;
    world.runner_applies(&run, 1);
    world.conclude(&run, None).await.unwrap();
    assert_eq!(outcome(&world, &run).await, (Status::Failed, Some("apply-errored")));
    assert_eq!(world.lock().await, LockState::Free);
}

#[tokio::test]
async fn a_refused_apply_says_why() {
    let world = World::new().await;
    let run = to_applying(&world).await;
    let mut receipt = world.receipt(&run, Phase::Apply);
    receipt.failure = Some(failure(FailureReason::StateIdentityMismatch, "the state has moved"));
    world.write_receipt(&receipt);
    world.conclude(&run, None).await.unwrap();
    assert_eq!(outcome(&world, &run).await, (Status::Failed, Some("state-identity-mismatch")));
    assert!(!world.runner_claims(&run), "the tombstone stands on the claim: the order cannot be used once more");
}

#[tokio::test]
async fn a_runner_that_met_another_order_says_so() {
    let world = World::new().await;
    let run = to_applying(&world).await;
    let mut receipt = world.receipt(&run, Phase::Apply);
    receipt.order = Digest::of(b"another order");
    receipt.fence += 1;
    receipt.failure = Some(failure(FailureReason::OrderInvalid, "no known key has signed the order"));
    world.write_receipt(&receipt);
    world.conclude(&run, None).await.unwrap();
    assert_eq!(outcome(&world, &run).await, (Status::Failed, Some("order-invalid")));
    assert!(!world.runner_claims(&run), "the tombstone stands on the claim");
}

/// A second task of the run has failed early and left its receipt first: it says nothing of the one that has the claim.
#[tokio::test]
async fn a_second_tasks_word_about_itself_is_not_the_outcome() {
    for (result, expected) in [
        (Some(0), (Status::Applied, None)),
        (Some(1), (Status::Failed, Some("apply-errored"))),
        (None, (Status::Failed, Some("apply-outcome-unknown"))),
    ] {
        let world = World::new().await;
        let run = to_applying(&world).await;
        assert!(world.runner_claims(&run));
        let mut receipt = world.receipt(&run, Phase::Apply);
        receipt.failure = Some(failure(FailureReason::StateIdentityMismatch, "the state has moved"));
        world.write_receipt(&receipt);
        if let Some(exit) = result {
            world.runner_results(&run, exit);
        }
        world.conclude(&run, None).await.unwrap();
        assert_eq!(outcome(&world, &run).await, expected);
    }
}

#[tokio::test]
async fn a_task_that_died_before_the_claim_can_never_apply_later() {
    let world = World::new().await;
    let run = to_applying(&world).await;
    world.conclude(&run, Some("States.TaskFailed")).await.unwrap();
    assert_eq!(outcome(&world, &run).await, (Status::Failed, Some("apply-not-started")));
    assert!(!world.runner_claims(&run), "the tombstone stands on the claim");
}

#[tokio::test]
async fn a_task_that_died_with_the_claim_and_a_result_is_concluded_by_its_result() {
    for (exit, expected) in [(0, (Status::Applied, None)), (1, (Status::Failed, Some("apply-errored")))] {
        let world = World::new().await;
        let run = to_applying(&world).await;
        assert!(world.runner_claims(&run));
        world.runner_results(&run, exit);
        world.conclude(&run, Some("States.TaskFailed")).await.unwrap();
        assert_eq!(outcome(&world, &run).await, expected);
    }
}

/// The engine could not save its state, or was killed: what it did is in the estate and nowhere else.
#[tokio::test]
async fn a_state_that_does_not_tell_what_was_done_closes_the_lock() {
    for (exit, saved) in [(1, false), (137, true)] {
        for with_receipt in [true, false] {
            let world = World::new().await;
            let run = to_applying(&world).await;
            assert!(world.runner_claims(&run));
            let mut applied = World::applied(exit);
            let leftover = world.run(&run).await.plan.unwrap().artifact;
            applied.errored_state = (!saved).then_some(leftover);
            if with_receipt {
                let mut receipt = world.receipt(&run, Phase::Apply);
                receipt.applied = Some(applied);
                receipt.failure = Some(failure(FailureReason::ApplyErrored, "the engine failed"));
                world.write_receipt(&receipt);
            } else {
                world.runner_tells(&run, applied);
            }
            world.conclude(&run, None).await.unwrap();
            assert_eq!(outcome(&world, &run).await, (Status::Failed, Some("apply-outcome-unknown")));
            assert!(matches!(world.lock().await, LockState::Quarantined { .. }), "exit {exit}, saved {saved}");
        }
    }
}

#[tokio::test]
async fn a_task_that_may_still_apply_keeps_the_lock() {
    let world = World::new().await;
    let run = to_applying(&world).await;
    assert!(world.runner_claims(&run));
    world.tasks.tasks.lock().unwrap().insert((run.clone(), "apply"), TaskState::Stopping);
    assert!(matches!(world.conclude(&run, None).await, Err(Error::StillRunning)));
    assert_eq!(world.lock().await, LockState::Held { run: run.clone() });
    world.runner_results(&run, 0);
    world.conclude(&run, None).await.unwrap();
    assert_eq!(outcome(&world, &run).await, (Status::Applied, None));
}

#[tokio::test]
async fn an_unknown_outcome_closes_the_lock_until_somebody_has_looked() {
    let world = World::new().await;
    let run = to_applying(&world).await;
    assert!(world.runner_claims(&run));
    world.conclude(&run, Some("States.TaskFailed")).await.unwrap();
    assert_eq!(outcome(&world, &run).await, (Status::Failed, Some("apply-outcome-unknown")));
    assert!(matches!(world.lock().await, LockState::Quarantined { .. }));

    let waiting = world.propose(Kind::Applicable, 2).await;
    world.admit(&waiting).await.unwrap();
    assert_eq!(world.run(&waiting).await.status, Status::Queued, "nothing applicable is admitted");

    let looker = world.propose(Kind::PlanOnly, 3).await;
    let administrator = world.caller("administrator").await;
    let request = |run: &RunId| AcknowledgeRequest {
        request_id: "acknowledge-1".parse().unwrap(),
        run: run.clone(),
        note: "looked at the estate: the queue exists".into(),
    };
    for too_early in [&run, &waiting, &looker] {
        let refused =
            acknowledge(&world, &world.workflow, &administrator, &world.workspace, &request(too_early), at(20)).await;
        assert!(matches!(refused, Err(Error::Refused(r)) if r.reason == Reason::NothingToAcknowledge));
    }
    // The first looker was proposed before the quarantine, so it has not seen what came of the apply.
    look(&world, &looker).await;
    let refused =
        acknowledge(&world, &world.workflow, &administrator, &world.workspace, &request(&looker), at(20)).await;
    assert!(refused.is_err());

    let looker = world.try_propose_at(Kind::PlanOnly, 4, at(11)).await.unwrap().id;
    look(&world, &looker).await;
    let bob = world.caller("bob").await;
    assert!(acknowledge(&world, &world.workflow, &bob, &world.workspace, &request(&looker), at(20)).await.is_err());
    acknowledge(&world, &world.workflow, &administrator, &world.workspace, &request(&looker), at(20)).await.unwrap();
    assert_eq!(world.lock().await, LockState::Held { run: waiting.clone() }, "the line goes on");
    assert_eq!(world.run(&waiting).await.status, Status::Planning);
}

#[tokio::test]
async fn a_lock_that_an_ended_run_still_holds_can_be_opened() {
    let world = World::new().await;
    let run = world.propose(Kind::Applicable, 1).await;
    world.admit(&run).await.unwrap();
    // Somebody changes the lock's fence: the run ends without it.
    let mut lock = crate::rows::LockRow::load(&world, &world.workspace).await.unwrap();
    lock.lock.fence += 1;
    world.store.transact(vec![lock.put().unwrap()]).await.unwrap();
    world.conclude(&run, None).await.unwrap();
    assert_eq!(world.lock().await, LockState::Held { run: run.clone() });
    let looker = world.try_propose_at(Kind::PlanOnly, 2, at(11)).await.unwrap().id;
    look(&world, &looker).await;
    let administrator = world.caller("administrator").await;
    let request =
        AcknowledgeRequest { request_id: "acknowledge-1".parse().unwrap(), run: looker, note: "looked".into() };
    acknowledge(&world, &world.workflow, &administrator, &world.workspace, &request, at(20)).await.unwrap();
    assert_eq!(world.lock().await, LockState::Free);
    // Sent again, it is the same answer and changes nothing more.
    acknowledge(&world, &world.workflow, &administrator, &world.workspace, &request, at(21)).await.unwrap();
}

async fn look(world: &World, run: &RunId) {
    world.admit(run).await.unwrap();
    world.prepare(run).await.unwrap();
    world.runner_plans(run, NOTHING, PlanExit::NoChanges);
    world.intake(run).await.unwrap();
    world.project(run).await.unwrap();
}

#[tokio::test]
async fn cancel_is_refused_once_applying() {
    let world = World::new().await;
    let run = to_applying(&world).await;
    let bob = world.caller("bob").await;
    let refused = cancel(&world, &world.workflow, &bob, &run, &Default::default(), at(8)).await;
    assert!(matches!(refused, Err(Error::Refused(r)) if r.reason == Reason::AlreadyApplying));
}

#[tokio::test]
async fn an_approval_outlived_by_its_plan_is_not_applied() {
    let world = World::new().await;
    let run = world.propose(Kind::Applicable, 1).await;
    world.to_approval(&run).await;
    world.decide("bob", &run, Choice::Approve, at(7)).await.unwrap();
    assert!(world.authorize(&run, at(4000)).await.is_err());
    assert_eq!(outcome(&world, &run).await, (Status::Failed, Some("plan-expired")));
}

#[tokio::test]
async fn a_plan_lives_no_longer_than_the_gate_says_whatever_its_workspace_says() {
    for (longest, asked) in [(600, 3600), (3600, 600)] {
        let world = World::with(|spec| spec["plan_expiry_seconds"] = asked.into()).await;
        let run = world.propose(Kind::Applicable, 1).await;
        world.admit(&run).await.unwrap();
        world.prepare(&run).await.unwrap();
        world.runner_plans(&run, CREATES, PlanExit::Changes);
        crate::intake::intake(&world, &world, &run, longest, at(5)).await.unwrap();
        assert_eq!(world.run(&run).await.plan.unwrap().expires_at, at(5).plus_seconds(600));
    }
}

#[tokio::test]
async fn in_an_estate_elsewhere_a_phase_was_a_session_of_the_role_of_that_phase_there() {
    let elsewhere = |spec: &mut serde_json::Value| {
        let role = |phase: &str| {
            let home = spec[format!("{phase}_role")].as_str().unwrap();
            home.replace("111122223333", "444455556666").replace("plangate/", "plangate/estate/")
        };
        spec["estate"] = serde_json::json!({ "plan_role": role("plan"), "apply_role": role("apply") });
    };
    let world = World::with(elsewhere).await;
    let run = to_applying(&world).await;
    let planned = world.run(&run).await.plan.unwrap().estate_caller.unwrap();
    assert!(planned.starts_with("arn:aws:sts::444455556666:assumed-role/") && planned.ends_with(run.as_str()));
    let mut receipt = world.receipt(&run, Phase::Apply);
    receipt.applied = Some(World::applied(0));
    let there = receipt.estate_caller.clone().unwrap();
    for stranger in
        [None, Some(there.replace("-apply/", "-plan/")), Some(there.replace("444455556666", "111122223333"))]
    {
        let mut forged = receipt.clone();
        forged.estate_caller = stranger;
        assert!(crate::intake::answers(&world.run(&run).await, Phase::Apply, Some(forged.order), &forged).is_err());
    }
    crate::intake::answers(&world.run(&run).await, Phase::Apply, Some(receipt.order), &receipt).unwrap();
    // Without an estate elsewhere nobody was anybody there.
    let world = World::new().await;
    let run = to_applying(&world).await;
    let mut receipt = world.receipt(&run, Phase::Apply);
    crate::intake::answers(&world.run(&run).await, Phase::Apply, Some(receipt.order), &receipt).unwrap();
    receipt.estate_caller = Some(there);
    assert!(crate::intake::answers(&world.run(&run).await, Phase::Apply, Some(receipt.order), &receipt).is_err());
}

#[tokio::test]
async fn forged_receipts_are_not_believed() {
    let world = World::new().await;
    let run = to_applying(&world).await;
    let mut forged = world.receipt(&run, Phase::Apply);
    forged.applied = Some(World::applied(0));
    forged.caller = "arn:aws:sts::111122223333:assumed-role/ws-other-apply/task".into();
    world.write_receipt(&forged);
    world.conclude(&run, Some("States.TaskFailed")).await.unwrap();
    assert_eq!(outcome(&world, &run).await, (Status::Failed, Some("apply-not-started")));
    assert!(world.objects.keys().contains(&claim_key(&world.workspace, &run)));
}

#[tokio::test]
async fn a_forged_plan_receipt_fails_the_run() {
    let world = World::new().await;
    for (number, forge) in [
        |r: &mut plangate_gate::receipt::Receipt| r.caller = "arn:aws:sts::111122223333:assumed-role/other/task".into(),
        |r: &mut plangate_gate::receipt::Receipt| r.fence += 1,
        |r: &mut plangate_gate::receipt::Receipt| r.engine.version = "1.0.0".into(),
        |r: &mut plangate_gate::receipt::Receipt| r.bundle = Digest::of(b"other"),
    ]
    .into_iter()
    .enumerate()
    {
        let run = world.propose(Kind::PlanOnly, u8::try_from(number).unwrap() + 1).await;
        world.admit(&run).await.unwrap();
        world.prepare(&run).await.unwrap();
        let mut receipt = world.receipt(&run, Phase::Plan);
        let other = World::new().await;
        let twin = other.propose(Kind::PlanOnly, u8::try_from(number).unwrap() + 1).await;
        other.admit(&twin).await.unwrap();
        other.prepare(&twin).await.unwrap();
        other.runner_plans(&twin, CREATES, PlanExit::Changes);
        let key = crate::objects::receipt_key(&other.workspace, &twin, Phase::Plan);
        let bytes = super::world::futures(crate::objects::Objects::get(&other.objects, &key, None, 1 << 20))
            .unwrap()
            .unwrap()
            .bytes;
        receipt.planned = plangate_gate::receipt::Receipt::parse_untrusted(&bytes).unwrap().planned;
        forge(&mut receipt);
        world.write_receipt(&receipt);
        assert!(world.intake(&run).await.is_err());
        assert_eq!(outcome(&world, &run).await, (Status::Failed, Some("receipt-invalid")));
    }
}
