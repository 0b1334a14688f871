//! Whether the runner is who the order says (`R16`, `R18`).

use plangate_gate::failure::FailureReason;
use plangate_gate::identity::is_session_of;

use crate::error::{Result, RunnerError};

/// Checks that `caller`, as STS tells it, is a session of the role `role`.
///
/// # Errors
/// `identity-mismatch` for everybody else.
pub(crate) fn check(caller: &str, role: &str) -> Result<()> {
    if is_session_of(caller, role) {
        Ok(())
    } else {
        let detail = format!("the task runs as `{caller}`, and the order is for `{role}`");
        Err(RunnerError::failed(FailureReason::IdentityMismatch, detail))
    }
}
