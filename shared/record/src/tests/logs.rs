//! The logs of phases: what the runner has stored is in the record; what it has not is archived by the gate.

use async_trait::async_trait;
use plangate_gate::ids::RunId;
use plangate_gate::order::Phase;
use plangate_gate::receipt::{PlanExit, Receipt};
use plangate_gate::run::{Kind, Run};

use super::world::{CREATES, World};
use crate::logs::{LiveLogs, LogPage, archive};
use crate::memory::MemoryObjects;
use crate::objects::{Objects, log_key, receipt_key};
use crate::workflow::WorkflowError;

/// CloudWatch with one line.
struct OneLine;

#[async_trait]
impl LiveLogs for OneLine {
    async fn page(&self, _: &RunId, _: Phase, _: Option<&str>) -> Result<LogPage, WorkflowError> {
        Ok(LogPage { lines: vec!["as CloudWatch has it".to_owned()], next: None })
    }
}

/// What stands of a phase's log once a run has been seen to its end, in a bucket of its own.
async fn archived(run: &Run, phase: Phase) -> Option<String> {
    let objects = MemoryObjects::default();
    archive(&objects, &OneLine, run, phase).await.unwrap();
    let log = objects.get(&log_key(&run.workspace, &run.id, phase), None, 1000).await.unwrap()?;
    Some(String::from_utf8(log.bytes).unwrap())
}

/// A run whose plan's receipt says this of its log.
async fn planned(world: &World, change: impl FnOnce(&mut Receipt)) -> Run {
    let run = world.propose(Kind::Applicable, 1).await;
    world.admit(&run).await.unwrap();
    world.prepare(&run).await.unwrap();
    world.runner_plans(&run, CREATES, PlanExit::Changes);
    let key = receipt_key(&world.of(&run), &run, Phase::Plan);
    let bytes = world.objects.get(&key, None, 100_000).await.unwrap().unwrap().bytes;
    let mut receipt = Receipt::parse_untrusted(&bytes).unwrap();
    change(&mut receipt);
    world.objects.replace(&key, &serde_json::to_vec(&receipt).unwrap());
    world.intake(&run).await.unwrap();
    world.run(&run).await
}

#[tokio::test]
async fn a_log_that_the_runner_has_stored_is_in_the_record_and_nobody_looks_for_it_again() {
    let world = World::new().await;
    let run = world.applied_run(1).await;
    let run = world.run(&run).await;
    for (phase, log) in
        [(Phase::Plan, run.plan.clone().unwrap().log.unwrap()), (Phase::Apply, run.apply.clone().unwrap().log.unwrap())]
    {
        assert_eq!(log.key, log_key(&run.workspace, &run.id, phase));
        assert_eq!(archived(&run, phase).await, None, "{phase}");
    }
}

#[tokio::test]
async fn a_log_that_was_not_stored_or_stands_elsewhere_is_archived_by_the_gate() {
    let elsewhere = |receipt: &mut Receipt| receipt.log.as_mut().unwrap().key = "logs/of-another.log".to_owned();
    for (what, change) in
        [("not stored", (|receipt: &mut Receipt| receipt.log = None) as fn(&mut Receipt)), ("elsewhere", elsewhere)]
    {
        let world = World::new().await;
        let run = planned(&world, change).await;
        assert_eq!(run.plan.as_ref().unwrap().log, None, "{what}");
        assert_eq!(archived(&run, Phase::Plan).await.as_deref(), Some("as CloudWatch has it\n"), "{what}");
        assert_eq!(
            archived(&run, Phase::Apply).await.as_deref(),
            Some("as CloudWatch has it\n"),
            "nothing was applied"
        );
    }
}
