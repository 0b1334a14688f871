//! The tasks of a run, found by the name under which they were started.

use async_trait::async_trait;
use plangate_gate::ids::RunId;
use plangate_gate::order::Phase;

use crate::workflow::WorkflowError;

/// How the task of a phase stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TaskState {
    /// It is stopped, or there never was one.
    Stopped,
    /// It was asked to stop and has not stopped yet.
    Stopping,
}

/// ECS, as far as the gate uses it.
#[async_trait]
pub trait Tasks: Send + Sync {
    /// Asks every task of this phase to stop, and tells whether all have. Never taken for done by time alone.
    async fn stop(&self, run: &RunId, phase: Phase) -> Result<TaskState, WorkflowError>;
}

/// The name under which the tasks of a phase are started.
#[must_use]
pub fn started_by(run: &RunId, phase: Phase) -> String {
    format!("{run}/{phase}")
}
