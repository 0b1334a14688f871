//! The tasks of a run.

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
