//! Secrets of the gate's own, by reference: read when they are used, and never recorded.

use async_trait::async_trait;

use crate::workflow::WorkflowError;

/// Parameter Store, as far as the gate uses it.
#[async_trait]
pub trait Parameters: Send + Sync {
    /// The value of a secret parameter; none if there is no such parameter.
    async fn secret(&self, name: &str) -> Result<Option<String>, WorkflowError>;
}
