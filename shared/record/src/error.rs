//! What can go wrong in a step of a run. The names are what the state machine matches.

use plangate_gate::documents::{WORDS_LIMIT, plain};
use plangate_gate::lifecycle::{Status, TransitionError};
use plangate_gate::untrusted::UntrustedError;
use plangate_wire::Reason;
use serde::{Deserialize, Serialize};

use crate::objects::ObjectError;
use crate::store::StoreError;
use crate::workflow::WorkflowError;

/// A request that was understood and refused.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, thiserror::Error)]
#[serde(deny_unknown_fields)]
#[error("{message}")]
pub struct Refusal {
    /// The stable reason.
    pub reason: Reason,
    /// One line for people, without the next step.
    pub message: String,
    /// More, by reason.
    pub details: serde_json::Value,
}

impl Refusal {
    /// A refusal without details.
    pub fn new(reason: Reason, message: impl Into<String>) -> Self {
        Self { reason, message: message.into(), details: serde_json::Value::Null }
    }

    /// A refusal of words that are not fit to be kept in `field`, if they are not.
    pub(crate) fn unless_said(field: &str, text: &str) -> Result<(), Self> {
        if !text.trim().is_empty() && plain(text, WORDS_LIMIT) {
            return Ok(());
        }
        let message = format!("`{field}` is 1 to {WORDS_LIMIT} characters without control characters");
        Err(Self::new(Reason::InvalidRequest, message))
    }

    /// The same with details.
    #[must_use]
    pub fn with(mut self, details: serde_json::Value) -> Self {
        self.details = details;
        self
    }
}

/// Why a step did not happen.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The table does not answer.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The bucket does not answer.
    #[error(transparent)]
    Objects(#[from] ObjectError),
    /// The workflow or its tasks do not answer.
    #[error(transparent)]
    Workflow(#[from] WorkflowError),
    /// Others went first, every time.
    #[error("others changed the same thing, again and again")]
    Contended,
    /// A task still runs that was asked to stop.
    #[error("a task of the run has not stopped yet")]
    StillRunning,
    /// A record is not what it must be.
    #[error("the record of {what} is not what it must be: {error}")]
    RecordInvalid {
        /// Of what.
        what: &'static str,
        /// Why.
        error: String,
    },
    /// There is no such run.
    #[error("there is no such run")]
    NoSuchRun,
    /// The run is not where this step begins.
    #[error("the run is `{status}`: this step does not begin there")]
    NotReady {
        /// Where it is.
        status: Status,
    },
    /// The run has ended.
    #[error("the run has ended as `{status}`")]
    Ended {
        /// As what.
        status: Status,
    },
    /// The run has not been admitted yet.
    #[error("the run is not admitted")]
    NotAdmitted,
    /// Nobody has approved the run yet.
    #[error("the run is not approved")]
    NotApproved,
    /// The gate or the workspace is frozen: nothing is started now.
    #[error("the gate or the workspace is frozen")]
    Frozen,
    /// The transition table does not have the step.
    #[error(transparent)]
    Transition(#[from] TransitionError),
    /// A request was refused.
    #[error(transparent)]
    Refused(#[from] Refusal),
}

impl Error {
    /// The name by which the state machine knows the error.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Store(StoreError::Corrupt(_)) | Self::RecordInvalid { .. } => "RecordInvalid",
            Self::Store(_) | Self::Objects(ObjectError::Unavailable { .. }) | Self::Workflow(_) | Self::Contended => {
                "Unavailable"
            }
            Self::Objects(ObjectError::TooLarge { .. }) => "ObjectTooLarge",
            Self::StillRunning => "StillRunning",
            Self::NoSuchRun => "NoSuchRun",
            Self::NotReady { .. } => "NotReady",
            Self::Ended { .. } => "Ended",
            Self::NotAdmitted => "NotAdmitted",
            Self::NotApproved => "NotApproved",
            Self::Frozen => "Frozen",
            Self::Transition(_) => "TransitionRefused",
            Self::Refused(_) => "Refused",
        }
    }

    /// Whether it is no failure, but how a step tells the workflow to wait, to turn or to stop.
    #[must_use]
    pub const fn puts_off(&self) -> bool {
        matches!(self, Self::NotAdmitted | Self::NotApproved | Self::Frozen | Self::StillRunning | Self::Ended { .. })
    }

    /// Whether something in the table is not what this code writes: nobody gets further before somebody has looked.
    #[must_use]
    pub const fn is_unreadable(&self) -> bool {
        matches!(self, Self::Store(StoreError::Corrupt(_)) | Self::RecordInvalid { .. })
    }
}

impl From<UntrustedError> for Error {
    fn from(error: UntrustedError) -> Self {
        Self::RecordInvalid { what: "an event", error: error.to_string() }
    }
}
