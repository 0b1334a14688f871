//! Asking a model: how often, how long, for how many tokens; and what is done about each way in which it fails (`R41`).

use std::time::{Duration, Instant};

use async_trait::async_trait;
use plangate_gate::documents::Budgets;
use plangate_gate::guardrails::Eligible;
use plangate_gate::review::{Cause, ModelRecord, Tokens};

use crate::prompt::{Prompt, TOOL_NAME, prompt_record};
use crate::{Report, Reviewer, Submission};

/// The most tokens that a model may write. A verdict of the greatest size that is read has fewer.
const MOST_OUTPUT: u64 = 8192;
/// With fewer than this a verdict would be cut off.
const LEAST_OUTPUT: u64 = 512;
/// With less time than this nothing is asked.
const LEAST_TIME: Duration = Duration::from_secs(1);
/// How long it waits before the second attempt; twice as long before each further one.
const PAUSE: Duration = Duration::from_millis(500);

/// What a model answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// The exact text of the one call of the verdict's tool, or why there is none.
    pub verdict: Result<String, Cause>,
    /// The model that says that it answered.
    pub model: Option<String>,
    /// What was used, where the answer tells.
    pub tokens: Option<Tokens>,
}

/// The only call of an answer, if it is of the verdict's tool and there is nothing beside it: an answer of `blocks` in
/// all, the `calls` among them.
///
/// # Errors
/// Why it is no such answer.
pub fn only_call<C>(calls: &[C], blocks: usize, name: impl Fn(&C) -> Option<&str>) -> Result<&C, Cause> {
    match calls {
        [] => Err(Cause::NoCall),
        [_] if blocks > 1 => Err(Cause::TextBesideCall),
        [call] if name(call) == Some(TOOL_NAME) => Ok(call),
        [_] => Err(Cause::OtherCall),
        _ => Err(Cause::SeveralCalls),
    }
}

/// A model behind a provider's interface: what a binding implements, and all that it implements.
#[async_trait]
pub trait Model: Send + Sync {
    /// The binding's name.
    fn binding(&self) -> &'static str;

    /// The model's id, as it is asked for.
    fn id(&self) -> &str;

    /// Asks once, with the verdict's tool as the only one and its call forced; at most `tokens` are written, and all is
    /// over `within` that time. A cause where there was no answer.
    async fn call(&self, prompt: &Prompt, tokens: u64, within: Duration) -> Result<Answer, Cause>;
}

/// What a review has of the world around it besides its model.
#[async_trait]
pub trait Surroundings: Send + Sync {
    /// How long this has been going on, from any moment on.
    fn elapsed(&self) -> Duration;

    /// Waits.
    async fn pause(&self, length: Duration);

    /// Draws 16 random bytes; none where there is no randomness.
    fn random(&self) -> Option<[u8; 16]>;
}

/// The real surroundings.
#[derive(Debug)]
pub struct Live {
    begun: Instant,
    random: fn() -> Option<[u8; 16]>,
}

impl Live {
    /// This process's clock, and a source of randomness.
    #[must_use]
    pub fn new(random: fn() -> Option<[u8; 16]>) -> Self {
        Self { begun: Instant::now(), random }
    }
}

#[async_trait]
impl Surroundings for Live {
    fn elapsed(&self) -> Duration {
        self.begun.elapsed()
    }

    async fn pause(&self, length: Duration) {
        tokio::time::sleep(length).await;
    }

    fn random(&self) -> Option<[u8; 16]> {
        (self.random)()
    }
}

/// A model as a reviewer.
#[derive(Debug)]
pub struct Modelled<M, S> {
    /// The model.
    pub model: M,
    /// What a review may cost.
    pub budgets: Budgets,
    /// What is around it.
    pub surroundings: S,
}

#[async_trait]
impl<M: Model, S: Surroundings> Reviewer for Modelled<M, S> {
    fn binding(&self) -> &'static str {
        self.model.binding()
    }

    async fn review(&self, _eligible: &Eligible, submission: Submission<'_>) -> Report {
        ask(&self.model, &submission, &self.budgets, &self.surroundings).await
    }
}

/// Asks `model`, within `budgets`.
///
/// Only what was never answered is asked again: a model that is away, overloaded, or too slow. What it has said it has
/// said; whoever proposes a change gets no second throw of the dice.
pub async fn ask(
    model: &dyn Model,
    submission: &Submission<'_>,
    budgets: &Budgets,
    surroundings: &dyn Surroundings,
) -> Report {
    let begun = surroundings.elapsed();
    let passed = || surroundings.elapsed().saturating_sub(begun);
    let within = Duration::from_secs(budgets.seconds.into());
    let mut report = Report {
        model: Some(ModelRecord { requested: model.id().to_owned(), answered: None }),
        prompt: Some(prompt_record()),
        ..Report::escalated(Cause::TimedOut)
    };
    let mut spent = 0;
    report.answer = loop {
        let prompt = match Prompt::new(submission, &|| surroundings.random()) {
            Ok(prompt) => prompt,
            Err(cause) => break Err(cause),
        };
        let most = u64::from(budgets.tokens).saturating_sub(spent).saturating_sub(prompt.tokens()).min(MOST_OUTPUT);
        let left = within.saturating_sub(passed());
        if most < LEAST_OUTPUT {
            break Err(Cause::TokenBudget);
        }
        if left < LEAST_TIME {
            break Err(Cause::TimedOut);
        }
        report.attempts += 1;
        // A binding that forgets the time is left behind.
        let called = tokio::time::timeout(left + LEAST_TIME, model.call(&prompt, most, left)).await;
        let called = called.unwrap_or(Err(Cause::TimedOut));
        let unanswered = |cause| Answer { verdict: Err(cause), model: None, tokens: None };
        let Answer { verdict, model: told, tokens } = called.unwrap_or_else(unanswered);
        if let (Some(told), Some(record)) = (told, &mut report.model) {
            record.answered = Some(told);
        }
        if let Some(tokens) = tokens {
            report.tokens = Some(report.tokens.unwrap_or_default().and(tokens));
        }
        // What nobody counted may have been used all the same.
        spent += tokens.map_or(prompt.tokens() + most, Tokens::total);
        match verdict {
            Ok(_) if tokens.is_some() && spent > u64::from(budgets.tokens) => break Err(Cause::TokenBudget),
            Ok(_) if passed() > within => break Err(Cause::TimedOut),
            Ok(text) => break Ok(text),
            Err(cause) => {
                let again = matches!(cause, Cause::Unavailable | Cause::Throttled | Cause::TimedOut);
                if !again || report.attempts >= budgets.attempts {
                    break Err(cause);
                }
                let pause = PAUSE * 2u32.saturating_pow(report.attempts - 1);
                surroundings.pause(pause.min(within.saturating_sub(passed()))).await;
            }
        }
    };
    report.milliseconds = u64::try_from(passed().as_millis()).unwrap_or(u64::MAX);
    report
}
