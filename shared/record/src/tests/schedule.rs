//! Many processes at once, a step at a time, in an order and at a pace that a seed draws: a race that was lost once is
//! lost again. With a clock of its own, so that an hour takes no time.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

/// Numbers from a seed (SplitMix64).
#[derive(Clone, Copy)]
pub(crate) struct Random(u64);

impl Random {
    pub(crate) const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// A number below `limit`.
    pub(crate) const fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % limit
    }
}

thread_local! {
    /// The clock of the schedule that runs on this thread, in milliseconds since it began.
    static CLOCK: Cell<Option<u64>> = const { Cell::new(None) };
    /// Until when the process sleeps that runs now.
    static ASLEEP: Cell<u64> = const { Cell::new(0) };
    /// What a call takes is drawn from this.
    static PACE: Cell<Random> = const { Cell::new(Random::new(0)) };
}

/// Draws a number below `limit`.
pub(crate) fn draw(limit: u64) -> u64 {
    let mut random = PACE.get();
    let number = random.below(limit);
    PACE.set(random);
    number
}

/// How much time has gone by, in milliseconds; none without a schedule.
pub(crate) fn clock() -> u64 {
    CLOCK.get().unwrap_or_default()
}

/// Sleeps: in a schedule by its clock.
pub(crate) async fn sleep(duration: Duration) {
    let Some(now) = CLOCK.get() else { return tokio::time::sleep(duration).await };
    let until = now + u64::try_from(duration.as_millis()).unwrap();
    let mut yielded = false;
    std::future::poll_fn(|_| {
        if yielded && clock() >= until {
            return Poll::Ready(());
        }
        yielded = true;
        ASLEEP.set(until);
        Poll::Pending
    })
    .await;
}

/// Lets milliseconds go by.
pub(crate) async fn pause(milliseconds: u64) {
    sleep(Duration::from_millis(milliseconds)).await;
}

/// A call over the network: it takes a moment, or none, and others have their turn meanwhile.
pub(crate) async fn turn() {
    if CLOCK.get().is_some() {
        pause(draw(4)).await;
    }
}

type Process<'a> = Pin<Box<dyn Future<Output = ()> + 'a>>;

/// The processes of a race.
pub(crate) struct Schedule<'a> {
    random: Random,
    ready: Vec<Process<'a>>,
    asleep: BTreeMap<(u64, u64), Process<'a>>,
}

impl<'a> Schedule<'a> {
    /// A schedule that `seed` draws.
    pub(crate) fn new(seed: u64) -> Self {
        PACE.set(Random::new(seed.wrapping_mul(31)));
        Self { random: Random::new(seed), ready: Vec::new(), asleep: BTreeMap::new() }
    }

    /// Adds a process. All begin at the same moment.
    pub(crate) fn start(&mut self, process: impl Future<Output = ()> + 'a) {
        self.ready.push(Box::pin(process));
    }

    /// Runs until every process has ended.
    pub(crate) fn run(mut self) {
        let mut serial = 0;
        let mut context = Context::from_waker(Waker::noop());
        CLOCK.set(Some(0));
        while !(self.ready.is_empty() && self.asleep.is_empty()) {
            if self.ready.is_empty() {
                let first = self.asleep.first_key_value().map(|((until, _), _)| *until);
                CLOCK.set(first);
            }
            while let Some(entry) = self.asleep.first_entry()
                && entry.key().0 <= clock()
            {
                self.ready.push(entry.remove());
            }
            let chosen = usize::try_from(self.random.below(self.ready.len() as u64)).unwrap();
            let mut process = self.ready.swap_remove(chosen);
            ASLEEP.set(0);
            if process.as_mut().poll(&mut context).is_pending() {
                serial += 1;
                self.asleep.insert((ASLEEP.get().max(clock()), serial), process);
            }
        }
        CLOCK.set(None);
    }
}
