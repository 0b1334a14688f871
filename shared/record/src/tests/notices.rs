//! A run's message: one hand at a time, and a failure recorded once.

use plangate_gate::audit::{Chain, What};
use plangate_gate::digest::Digest;
use plangate_gate::ids::RunId;
use plangate_gate::measure::Metric;
use plangate_gate::run::Kind;

use super::world::{Faults, World, at};
use crate::error::Error;
use crate::notices::{Held, Topic, find, hold, leave, untold};

async fn take(world: &World, run: &RunId, by: &str, now: u32) -> Result<Held, Error> {
    hold(world, run, Topic::Run, "C0CHANGES", by, 60, at(now)).await
}

fn failures(chain: &[What]) -> Vec<&str> {
    let failed = chain.iter().filter_map(|event| match event {
        What::NotificationFailed { problem, .. } => Some(problem.as_str()),
        _ => None,
    });
    failed.collect()
}

#[tokio::test]
async fn one_at_a_time_holds_a_message_and_finds_it_as_the_last_one_left_it() {
    let world = World::new().await;
    let run = world.propose(Kind::Applicable, 1).await;
    assert_eq!(find(&world, &run, Topic::Run).await.unwrap(), None);
    let mut held = take(&world, &run, "one", 0).await.unwrap();
    assert!(matches!(take(&world, &run, "two", 59).await, Err(Error::Contended)));
    held.notice.posted = Some("1.2".to_owned());
    held.notice.shown = Some(Digest::of(b"waits"));
    leave(&world, held, None, at(1)).await.unwrap();
    let held = take(&world, &run, "two", 2).await.unwrap();
    assert_eq!((held.notice.posted.as_deref(), held.notice.shown), (Some("1.2"), Some(Digest::of(b"waits"))));
    // A place that was changed in the configuration meanwhile does not move a message that stands.
    leave(&world, held, None, at(3)).await.unwrap();
    let held = hold(&world, &run, Topic::Run, "C0OTHER", "three", 60, at(4)).await.unwrap();
    assert_eq!(held.notice.channel, "C0CHANGES");
    // What is told of it besides is a message of its own.
    assert_eq!(find(&world, &run, Topic::Drift).await.unwrap(), None);
    assert_eq!(hold(&world, &run, Topic::Drift, "C0OTHER", "four", 60, at(4)).await.unwrap().notice.posted, None);
}

#[tokio::test]
async fn whoever_was_too_slow_changes_nothing_any_more() {
    let world = World::new().await;
    let run = world.propose(Kind::Applicable, 1).await;
    let mut slow = take(&world, &run, "slow", 0).await.unwrap();
    let mut next = take(&world, &run, "next", 60).await.unwrap();
    next.notice.shown = Some(Digest::of(b"newer"));
    leave(&world, next, None, at(61)).await.unwrap();
    slow.notice.shown = Some(Digest::of(b"older"));
    assert!(matches!(leave(&world, slow, Some("timeout"), at(62)).await, Err(Error::Contended)));
    assert_eq!(find(&world, &run, Topic::Run).await.unwrap().unwrap().shown, Some(Digest::of(b"newer")));
    assert!(failures(&world.chain(Chain::Run(run)).await).is_empty());
}

#[tokio::test]
async fn that_people_could_not_be_told_is_recorded_and_changes_nothing_of_the_run() {
    let world = World::new().await;
    let run = world.propose(Kind::Applicable, 1).await;
    let before = world.run(&run).await;
    let held = take(&world, &run, "one", 0).await.unwrap();
    leave(&world, held, Some("channel_not_found"), at(1)).await.unwrap();
    untold(&world, &run, "user_not_in_channel", at(2)).await.unwrap();
    assert_eq!(world.run(&run).await, before);
    assert_eq!(world.counted(Metric::NotificationsFailed, &run), 2);
    assert_eq!(failures(&world.chain(Chain::Run(run)).await), ["channel_not_found", "user_not_in_channel"]);
    let nobody = RunId::new(at(0), [9; 10]);
    untold(&world, &nobody, "user_not_in_channel", at(2)).await.unwrap();
    assert!(world.chain(Chain::Run(nobody)).await.is_empty());
}

#[tokio::test]
async fn a_failure_recorded_by_whoever_died_at_once_is_not_recorded_twice() {
    for happened in [false, true] {
        let mut world = World::new().await;
        let run = world.propose(Kind::Applicable, 1).await;
        world.faults = Faults::at(2, happened);
        let mut held = take(&world, &run, "one", 0).await.unwrap();
        held.notice.shown = Some(Digest::of(b"waits"));
        leave(&world, held, Some("timeout"), at(1)).await.unwrap_err();
        // The next one sees what is shown, or given up on, and does not begin again.
        let mut held = take(&world, &run, "two", 100).await.unwrap();
        assert_eq!(held.notice.shown.is_some(), happened);
        let problem = (!happened).then_some("timeout");
        held.notice.shown = Some(Digest::of(b"waits"));
        leave(&world, held, problem, at(101)).await.unwrap();
        assert_eq!(failures(&world.chain(Chain::Run(run)).await), ["timeout"]);
    }
}
