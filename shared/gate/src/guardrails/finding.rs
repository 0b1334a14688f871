//! Why a run is not eligible: stable reasons, addresses, paths; never a value.

use std::fmt;

use crate::run::FindingRecord;

macro_rules! reasons {
    ($($(#[$doc:meta])* $name:ident = $code:literal),* $(,)?) => {
        /// A reason for which a run is not eligible for automatic approval. The code is stable.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Reason {
            $($(#[$doc])* $name),*
        }

        impl Reason {
            /// Every reason that guardrails can give.
            pub const ALL: &'static [Self] = &[$(Self::$name),*];

            /// The stable code.
            #[must_use]
            pub const fn code(self) -> &'static str {
                match self { $(Self::$name => $code),* }
            }
        }
    };
}

reasons! {
    /// The plan document cannot be read (V12).
    PlanUnparseable = "plan-unparseable",
    /// The plan document's format is not understood.
    PlanFormatUnsupported = "plan-format-unsupported",
    /// The engine says that planning failed.
    PlanErrored = "plan-errored",
    /// The document and the engine's exit code disagree.
    PlanInconsistent = "plan-inconsistent",
    /// The engine says that the plan does not cover everything.
    PlanIncomplete = "plan-incomplete",
    /// A rule could not be evaluated (`R32`).
    GuardrailError = "guardrail-error",
    /// The workspace manages the gate itself (`R35`).
    ManagesGate = "manages-gate",
    /// The plan changes something that belongs to the gate or to the workspace's own roles, state or keys.
    TouchesGate = "touches-gate",
    /// An action that is not one of the closed set.
    UnknownAction = "unknown-action",
    /// A protected resource would be destroyed.
    ProtectedDeleted = "protected-resource-deleted",
    /// A protected resource would be replaced (V8).
    ProtectedReplaced = "protected-resource-replaced",
    /// A protected resource would leave the state.
    ProtectedForgotten = "protected-resource-forgotten",
    /// A resource that is protected from any change would change.
    ProtectedChanged = "protected-resource-changed",
    /// More changes than the policy allows (V9).
    ChangeCountExceeded = "change-count-exceeded",
    /// The projection is larger than the policy's budget (V11).
    ProjectionOverBudget = "projection-over-budget",
    /// A resource of a type that the policy does not list.
    TypeNotAllowed = "type-not-allowed",
    /// A provider that the policy does not list, or none named.
    ProviderNotAllowed = "provider-not-allowed",
    /// An output changes.
    OutputChanged = "output-changed",
    /// An object was changed outside the configuration.
    DriftPresent = "drift-present",
    /// A resource is moved or imported.
    MovedOrImported = "moved-or-imported",
    /// Something runs a program: a provisioner, a data source, a provider's action.
    ProgramExecution = "program-execution",
    /// A check of the configuration failed.
    CheckFailed = "check-failed",
    /// Access is wider after than before.
    AccessWidened = "access-widened",
    /// Something that looks like access changes, and whether access gets wider is not decided here.
    AccessNotUnderstood = "access-not-understood",
    /// A rule of the workspace's own holds something against the plan. The path is the rule's id.
    OwnRuleDenied = "own-rule-denied",
    /// The workspace's own rules gave no answer: an error, an undefined result, a limit exceeded (`R32`).
    OwnRuleError = "own-rule-error",
}

/// One reason, with where it was found.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Finding {
    /// Why.
    pub reason: Reason,
    /// The address of the resource, or the name of the output, check or block.
    pub address: Option<String>,
    /// The attribute. Only its top-level name: what is below may be keys of the proposer's own.
    pub path: Option<String>,
}

impl Finding {
    /// A finding about the plan as a whole.
    pub(crate) const fn plan(reason: Reason) -> Self {
        Self { reason, address: None, path: None }
    }

    /// A finding at an address.
    pub(crate) fn at(reason: Reason, address: impl Into<String>) -> Self {
        Self { reason, address: Some(address.into()), path: None }
    }

    /// The same finding, about one attribute.
    pub(crate) fn attribute(mut self, name: &str) -> Self {
        self.path = Some(name.to_owned());
        self
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.reason.code())?;
        for part in [&self.address, &self.path].into_iter().flatten() {
            write!(f, " {part}")?;
        }
        Ok(())
    }
}

/// The longest address or path that a record keeps, in characters.
const LONGEST: usize = 512;

impl From<&Finding> for FindingRecord {
    fn from(finding: &Finding) -> Self {
        let bounded = |text: &String| match text.char_indices().nth(LONGEST) {
            Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
            None => text.clone(),
        };
        Self {
            reason: finding.reason.code().to_owned(),
            address: finding.address.as_ref().map(bounded),
            path: finding.path.as_ref().map(bounded),
        }
    }
}
