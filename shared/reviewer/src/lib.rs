//! The reviewer's contract and its bindings (`R36`-`R44`): a projection and the workspace's prose in, a verdict's text out.
//!
//! A [`Reviewer`] can only be called with proof that the guardrails found the run eligible (`R36`). It gets a
//! [`Submission`], which has no field for eligibility, reasons or thresholds (`R44`), and what comes back is text that the
//! gate reads strictly, or a cause to ask a person. Everything about a provider stays below this: a binding is one file.

mod anthropic;
mod ask;
pub mod function;
mod http;
mod openai;
mod prompt;

use async_trait::async_trait;
use plangate_gate::guardrails::Eligible;
use plangate_gate::review::{Cause, ModelRecord, PromptRecord, Tokens};

pub use anthropic::Anthropic;
pub use ask::{Answer, Live, Model, Modelled, Surroundings, ask, only_call};
pub use http::Key;
pub use openai::OpenAi;
pub use prompt::{PROMPT_VERSION, Prompt, TOOL_NAME, prompt_record, tool_description, tool_schema};

/// What a reviewer gets, and all of it: the projection's exact bytes, as everyone gets them (`R28`), and what the
/// workspace's owners want looked for, in their words.
#[derive(Debug, Clone, Copy)]
pub struct Submission<'a> {
    /// The projection's bytes.
    pub projection: &'a [u8],
    /// The workspace's review prose.
    pub policy: &'a str,
}

/// What came of a review. It is not believed: the text of a verdict is parsed by whoever asked (`R40`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    /// The model, where there is one.
    pub model: Option<ModelRecord>,
    /// The fixed text that it was asked with.
    pub prompt: Option<PromptRecord>,
    /// How often it was asked.
    pub attempts: u32,
    /// What that used, where the model tells.
    pub tokens: Option<Tokens>,
    /// How long it took, in milliseconds.
    pub milliseconds: u64,
    /// The exact text of one verdict; or why there is none, and a person is asked.
    pub answer: Result<String, Cause>,
}

impl Report {
    /// No answer, and nobody was asked for one.
    #[must_use]
    pub const fn escalated(cause: Cause) -> Self {
        Self { model: None, prompt: None, attempts: 0, tokens: None, milliseconds: 0, answer: Err(cause) }
    }
}

/// A reviewer.
#[async_trait]
pub trait Reviewer: Send + Sync {
    /// The binding's name, as it is recorded (`R42`).
    fn binding(&self) -> &'static str;

    /// Looks at an eligible run. Every failure is a cause to ask a person (`R41`); there is no other error.
    async fn review(&self, eligible: &Eligible, submission: Submission<'_>) -> Report;
}

/// Always asks a person (`R43`): the right one where all changes are dangerous, and the one that others are tested against.
#[derive(Debug, Clone, Copy, Default)]
pub struct AlwaysEscalate;

#[async_trait]
impl Reviewer for AlwaysEscalate {
    fn binding(&self) -> &'static str {
        "always-escalate"
    }

    async fn review(&self, _eligible: &Eligible, _submission: Submission<'_>) -> Report {
        Report::escalated(Cause::AlwaysEscalate)
    }
}
