//! The workflow of a run: an execution named by the run. Its tokens are hints and never authority.

use async_trait::async_trait;
use plangate_gate::ids::RunId;
use plangate_gate::run::Kind;

/// How a run's execution stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Execution {
    /// There is none.
    Absent,
    /// It runs.
    Running,
    /// It has ended, in whatever way.
    Ended,
}

/// AWS did not answer, or refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{call}` failed: {error}")]
pub struct WorkflowError {
    /// Which call.
    pub call: &'static str,
    /// The kind of error.
    pub error: String,
}

/// Step Functions, as far as the gate uses it.
#[async_trait]
pub trait Workflow: Send + Sync {
    /// Starts a run's execution; one that was started already is left alone.
    async fn start(&self, kind: Kind, run: &RunId) -> Result<(), WorkflowError>;

    /// How a run's execution stands.
    async fn execution(&self, kind: Kind, run: &RunId) -> Result<Execution, WorkflowError>;

    /// Ends a run's execution from outside.
    async fn stop(&self, kind: Kind, run: &RunId) -> Result<(), WorkflowError>;

    /// Wakes whoever waits with `token`. A token that nobody waits with any more is ignored.
    async fn wake(&self, token: &str) -> Result<(), WorkflowError>;
}
