//! Noise of strangers: recorded, bounded, counted, and in nobody's way.

use plangate_gate::audit::{Chain, What};
use plangate_gate::run::{Choice, Kind};
use plangate_gate::time::Timestamp;

use super::world::{World, at};
use crate::strangers::{Stranger, Strangers};

async fn knock(world: &World, strangers: &Strangers, times: u32, now: Timestamp) {
    for _ in 0..times {
        let stranger = Stranger {
            function: "api",
            identity: Some("arn:aws:iam::1:user/\u{1b}[2Jeve"),
            asked: "GET:v1/runs",
            reason: "not-permitted",
        };
        strangers.refused(world, &stranger, now).await;
    }
}

#[tokio::test]
async fn a_flood_is_bounded_and_what_was_left_out_is_counted() {
    let (world, strangers) = (World::new().await, Strangers::new());
    knock(&world, &strangers, 1000, at(10)).await;
    let chain = world.chain(Chain::Strangers).await;
    assert_eq!(chain.len(), 50);
    assert!(
        matches!(&chain[0], What::StrangerRefused { identity: Some(who), .. } if who == "arn:aws:iam::1:user/?[2Jeve")
    );
    // The next hour tells how many there were besides; what only this process had counted, with the first of the next.
    knock(&world, &strangers, 1, at(3700)).await;
    let chain = world.chain(Chain::Strangers).await;
    assert_eq!(chain.len(), 52);
    assert!(matches!(&chain[50], What::StrangersLeftOut { at_least: 950, .. }), "{:?}", chain[50]);
}

#[tokio::test]
async fn several_processes_share_the_bound() {
    let world = World::new().await;
    for _ in 0..4 {
        knock(&world, &Strangers::new(), 40, at(10)).await;
    }
    assert_eq!(world.chain(Chain::Strangers).await.len(), 50);
}

#[tokio::test]
async fn a_table_that_does_not_answer_keeps_nobody_waiting_and_loses_no_count() {
    let (mut world, strangers) = (World::new().await, Strangers::new());
    world.faults = super::world::Faults::at(1, false);
    knock(&world, &strangers, 1, at(10)).await;
    assert_eq!(world.chain(Chain::Strangers).await.len(), 0);
    knock(&world, &strangers, 1, at(10)).await;
    knock(&world, &strangers, 1, at(3700)).await;
    let chain = world.chain(Chain::Strangers).await;
    assert!(matches!(chain[..], [_, What::StrangersLeftOut { at_least: 1, .. }, _]), "{chain:?}");
}

#[tokio::test]
async fn a_run_ends_whatever_strangers_write() {
    let (world, strangers) = (World::new().await, Strangers::new());
    let run = world.propose(Kind::Applicable, 1).await;
    world.to_approval(&run).await;
    knock(&world, &strangers, 100, at(6)).await;
    let before = world.chain(Chain::Strangers).await.len();
    world.decide("bob", &run, Choice::Reject, at(7)).await.unwrap();
    // No write of the run's end touches the chain of strangers.
    assert_eq!(world.chain(Chain::Strangers).await.len(), before);
}
