//! What a phase works with, and what it has seen by the time it ends.

use std::time::{Duration, Instant};

use plangate_gate::failure::FailureReason;
use plangate_gate::order::{self, WorkOrder};
use plangate_gate::receipt::OrphanedLock;
use plangate_gate::time::Timestamp;

use crate::cloud::Cloud;
use crate::config::{Config, EngineUser};
use crate::engine::Stop;
use crate::environment::Invocation;
use crate::error::{Result, RunnerError};
use crate::log::Log;

/// Everything that a phase is given.
pub(crate) struct Phase<'p> {
    pub(crate) config: &'p Config,
    pub(crate) cloud: &'p dyn Cloud,
    pub(crate) invocation: &'p Invocation,
    pub(crate) order: &'p WorkOrder,
    pub(crate) clock: &'p dyn Fn() -> Timestamp,
    pub(crate) stop: &'p Stop,
    /// When the phase must have ended by itself.
    pub(crate) deadline: Instant,
    /// Whom the engine runs as, if not as the runner.
    pub(crate) user: Option<EngineUser>,
    /// Whether all children of this process are the engine's.
    pub(crate) end_leftovers: bool,
    /// How long to wait before asking again for what must be told.
    pub(crate) retry_pause: Duration,
    pub(crate) log: &'p mut Log,
    pub(crate) evidence: &'p mut Evidence,
}

/// What a receipt tells besides the outcome.
#[derive(Debug, Default)]
pub(crate) struct Evidence {
    /// Whether the engine was started with the bundle at all.
    pub(crate) engine_ran: bool,
    /// A lock that stood on the state after the engine had ended.
    pub(crate) orphan: Option<OrphanedLock>,
    /// Who the engine was in the estate's account, where that is another.
    pub(crate) estate_caller: Option<String>,
}

impl Phase<'_> {
    /// Checks that the phase may go on.
    ///
    /// # Errors
    /// The task was told to stop, or the phase has taken too long.
    pub(crate) fn check_stop(&self) -> Result<()> {
        if self.stop.requested() {
            Err(self.stopped())
        } else if Instant::now() >= self.deadline {
            Err(self.timed_out())
        } else {
            Ok(())
        }
    }

    /// The failure of a phase that was told to stop.
    pub(crate) fn stopped(&self) -> RunnerError {
        RunnerError::failed(self.ended_early(FailureReason::PlanErrored), "the task was told to stop")
    }

    /// The failure of a phase that took too long.
    pub(crate) fn timed_out(&self) -> RunnerError {
        RunnerError::failed(self.ended_early(FailureReason::PlanTimedOut), "the phase took longer than it may")
    }

    /// Before the claim, an apply that ends has not begun.
    fn ended_early(&self, plan: FailureReason) -> FailureReason {
        match self.order.phase {
            order::Phase::Plan => plan,
            order::Phase::Apply => FailureReason::ApplyNotStarted,
        }
    }
}
