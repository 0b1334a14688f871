//! The reviewer's contract: a projection in, an opinion out; and the one binding that always asks a person (`R43`).
//!
//! A reviewer can only be called with proof that the guardrails found the run eligible (`R36`). It gets the projection
//! and nothing of eligibility, reasons or thresholds (`R44`), and its opinion can only withhold (`R37`).

use async_trait::async_trait;
use plangate_gate::guardrails::Eligible;

/// What a reviewer gets: exactly the projection's bytes, as everyone gets them (`R28`).
#[derive(Debug, Clone, Copy)]
pub struct Submission<'a> {
    projection: &'a [u8],
}

impl<'a> Submission<'a> {
    /// A submission of these exact projection bytes.
    #[must_use]
    pub const fn new(projection: &'a [u8]) -> Self {
        Self { projection }
    }

    /// The projection's bytes.
    #[must_use]
    pub const fn projection(&self) -> &'a [u8] {
        self.projection
    }
}

/// What a reviewer says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Opinion {
    /// A person decides. The cause is a stable code.
    Escalate {
        /// Why.
        cause: &'static str,
    },
}

impl Opinion {
    /// The word that is recorded (`R42`).
    #[must_use]
    pub const fn decision(&self) -> &'static str {
        match self {
            Self::Escalate { .. } => "escalate",
        }
    }

    /// The cause that is recorded.
    #[must_use]
    pub const fn cause(&self) -> Option<&'static str> {
        match self {
            Self::Escalate { cause } => Some(cause),
        }
    }
}

/// A reviewer.
#[async_trait]
pub trait Reviewer: Send + Sync {
    /// The binding's name, as it is recorded (`R42`).
    fn binding(&self) -> &'static str;

    /// Looks at an eligible run. Every failure is an escalation (`R41`).
    async fn review(&self, eligible: &Eligible, submission: Submission<'_>) -> Opinion;
}

/// Always asks a person (`R43`): the right one where all changes are dangerous, and the one that others are tested against.
#[derive(Debug, Clone, Copy, Default)]
pub struct AlwaysEscalate;

#[async_trait]
impl Reviewer for AlwaysEscalate {
    fn binding(&self) -> &'static str {
        "always-escalate"
    }

    async fn review(&self, _eligible: &Eligible, _submission: Submission<'_>) -> Opinion {
        Opinion::Escalate { cause: "always-escalate" }
    }
}
