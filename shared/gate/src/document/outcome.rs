//! Whether a plan changes anything: the document and the engine's exit code must say the same (`R14`).

use crate::document::{DocumentError, PlanDocument};
pub use crate::receipt::PlanExit;

/// What document and exit code agree on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PlanOutcome {
    /// The run ends here, successfully, without guardrails, reviewer or approval.
    NoChanges,
    /// There is something to decide.
    Changes,
}

impl PlanDocument<'_> {
    /// Holds the document against the exit code.
    ///
    /// # Errors
    /// [`DocumentError::Errored`] if planning failed, [`DocumentError::Inconsistent`] if the two disagree.
    pub fn outcome(&self, exit: PlanExit) -> Result<PlanOutcome, DocumentError> {
        if self.errored {
            return Err(DocumentError::Errored);
        }
        match (self.changes_something(), exit) {
            (false, PlanExit::NoChanges) => Ok(PlanOutcome::NoChanges),
            (true, PlanExit::Changes) => Ok(PlanOutcome::Changes),
            _ => Err(DocumentError::Inconsistent),
        }
    }

    /// Whether applying would change a resource, an output or the state: a move or an import changes the state even
    /// where nothing happens to the object, and a provider's action runs beside all resources.
    fn changes_something(&self) -> bool {
        let rows = self.planned.rows.iter().any(|row| !row.change.actions.is_no_op());
        let state = self.facts.rows.iter().any(|row| row.moved || row.imported);
        let outputs = self.planned.outputs.iter().any(|output| !output.actions.is_no_op());
        rows || state || outputs || self.facts.invocations > 0
    }
}
