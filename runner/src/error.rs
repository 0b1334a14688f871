//! Why a phase ended early: for the receipt, or, where not even a receipt can be written, for the log.

use std::fmt::Display;

use plangate_bundle::BundleError;
use plangate_gate::failure::FailureReason;
use plangate_gate::receipt::PhaseFailure;
use plangate_gate::untrusted::UntrustedError;

/// The runner's one error.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RunnerError {
    /// The phase failed, and its receipt says so.
    #[error("{}: {detail}", reason.code())]
    Failed {
        /// The stable code.
        reason: FailureReason,
        /// One line for people: names, codes and digests, never a value.
        detail: String,
    },
    /// An object has more bytes than it may.
    #[error("`{place}` has more than {limit} bytes")]
    TooLarge {
        /// Where it stands.
        place: String,
        /// The most that it may have.
        limit: u64,
    },
    /// The runner cannot even write a receipt.
    #[error("{detail}")]
    Unusable {
        /// What is missing or wrong.
        detail: String,
    },
}

impl RunnerError {
    /// A phase's failure for `reason`.
    pub fn failed(reason: FailureReason, detail: impl Display) -> Self {
        Self::Failed { reason, detail: detail.to_string() }
    }

    /// A failure of something that should not fail: the platform, a file of our own, a service.
    pub fn gate(detail: impl Display) -> Self {
        Self::failed(FailureReason::GateError, detail)
    }

    /// Something without which there is no receipt.
    pub fn unusable(detail: impl Display) -> Self {
        Self::Unusable { detail: detail.to_string() }
    }

    /// Whether it is a phase's failure for `reason`.
    #[must_use]
    pub fn is(&self, reason: FailureReason) -> bool {
        matches!(self, Self::Failed { reason: found, .. } if *found == reason)
    }

    /// The same with another reason, for callers that know what it means.
    #[must_use]
    pub fn because(self, reason: FailureReason) -> Self {
        match self {
            Self::Failed { detail, .. } => Self::Failed { reason, detail },
            large @ Self::TooLarge { .. } => Self::Failed { reason, detail: large.to_string() },
            other @ Self::Unusable { .. } => other,
        }
    }

    /// As it stands in a receipt: one line of at most 500 characters.
    #[must_use]
    pub fn for_receipt(&self) -> PhaseFailure {
        let (reason, detail) = match self {
            Self::Failed { reason, detail } => (*reason, detail.clone()),
            Self::TooLarge { .. } | Self::Unusable { .. } => (FailureReason::GateError, self.to_string()),
        };
        let detail = detail.chars().map(|c| if c.is_control() { ' ' } else { c }).take(500).collect();
        PhaseFailure { reason, detail }
    }
}

/// A failure of a file or folder of the runner's own.
pub(crate) fn io(what: &'static str) -> impl FnOnce(std::io::Error) -> RunnerError {
    move |error| RunnerError::gate(format!("cannot {what}: {}", error.kind()))
}

impl From<BundleError> for RunnerError {
    fn from(error: BundleError) -> Self {
        let reason = match &error {
            BundleError::DigestMismatch { .. } => FailureReason::BundleInvalid,
            BundleError::ModuleNotCaptured { .. } => FailureReason::ModuleNotCaptured,
            BundleError::LockFileMissing { .. } | BundleError::LockFileWithoutH1 { .. } => {
                FailureReason::LockFileInvalid
            }
            BundleError::Io { .. } => FailureReason::GateError,
            _ => FailureReason::BundleRefused,
        };
        Self::failed(reason, error)
    }
}

impl From<UntrustedError> for RunnerError {
    fn from(error: UntrustedError) -> Self {
        Self::failed(FailureReason::OrderInvalid, error)
    }
}

/// The result of everything that may end a phase.
pub type Result<T, E = RunnerError> = std::result::Result<T, E>;
