//! What the gate and a workspace's review function say to each other. Neither believes the other: the function looks at
//! the projection with the digest that was named, and the gate reads the verdict strictly itself.

use plangate_gate::digest::Digest;
use plangate_gate::documents::ReviewerBinding;
use plangate_gate::ids::{RunId, WorkspaceId};
use plangate_gate::review::{Cause, ModelRecord, PromptRecord, Tokens};
use plangate_gate::untrusted;
use plangate_gate::verdict::VERDICT_LIMIT;
use serde::{Deserialize, Serialize};

use crate::prompt::prompt_record;
use crate::{Report, Submission};

/// The most bytes of a request: a spec's size and a little more.
pub const REQUEST_LIMIT: usize = 96 * 1024;
/// The most bytes of an answer: a verdict, escaped, and what surrounds it.
pub const ANSWER_LIMIT: usize = 2 * VERDICT_LIMIT + 16 * 1024;

/// The name of a workspace's review function. It follows from the workspace's id, so that no configuration can name
/// another's.
#[must_use]
pub fn function_name(workspace: &WorkspaceId) -> String {
    format!("plangate-review-{workspace}")
}

/// The one schema of requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum RequestSchema {
    /// The first.
    #[serde(rename = "plangate.review-request.v1")]
    V1,
}

/// What the gate asks a workspace's review function.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReviewRequest {
    /// Always `plangate.review-request.v1`.
    pub schema: RequestSchema,
    /// The run, whose projection stands in the exchange.
    pub run: RunId,
    /// The digest of that projection.
    pub projection: Digest,
    /// The workspace's review prose.
    pub policy: String,
    /// The binding to use.
    pub reviewer: ReviewerBinding,
}

/// The one schema of answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum AnswerSchema {
    /// The first.
    #[serde(rename = "plangate.review-answer.v1")]
    V1,
}

/// What a workspace's review function answers: either a verdict's exact text, or a cause.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReviewAnswer {
    /// Always `plangate.review-answer.v1`.
    pub schema: AnswerSchema,
    /// The digest of the bytes that were sent to the model.
    pub projection: Digest,
    /// The model.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub model: Option<ModelRecord>,
    /// The fixed text that it was asked with.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub prompt: Option<PromptRecord>,
    /// How often it was asked.
    pub attempts: u32,
    /// What that used.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub tokens: Option<Tokens>,
    /// How long it took, in milliseconds.
    pub milliseconds: u64,
    /// The verdict's text.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub verdict: Option<String>,
    /// Why there is none.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub cause: Option<Cause>,
}

impl ReviewAnswer {
    /// A report, on its way to the gate. A verdict that is larger than a verdict may be stays behind.
    #[must_use]
    pub fn of(report: Report, projection: Digest) -> Self {
        let Report { model, prompt, attempts, tokens, milliseconds, answer } = report;
        let answer =
            answer.and_then(|text| if text.len() > VERDICT_LIMIT { Err(Cause::VerdictTooLong) } else { Ok(text) });
        let (verdict, cause) = match answer {
            Ok(verdict) => (Some(verdict), None),
            Err(cause) => (None, Some(cause)),
        };
        let schema = AnswerSchema::V1;
        Self { schema, projection, model, prompt, attempts, tokens, milliseconds, verdict, cause }
    }

    /// Reads an answer strictly, and gives what the gate makes of it: whatever is not as it must be asks a person.
    #[must_use]
    pub fn read_untrusted(bytes: &[u8], submission: &Submission<'_>) -> Report {
        let answer: Self = match untrusted::parse("review answer", bytes, ANSWER_LIMIT) {
            Ok(answer) => answer,
            Err(_) => return Report::escalated(Cause::FunctionMalformed),
        };
        let outcome = match (answer.verdict, answer.cause) {
            (Some(_), None) if answer.projection != Digest::of(submission.projection) => Err(Cause::ProjectionDiffers),
            (Some(_), None) if answer.prompt != Some(prompt_record()) => Err(Cause::PromptDiffers),
            (Some(verdict), None) => Ok(verdict),
            (None, Some(cause)) => Err(cause),
            _ => Err(Cause::FunctionMalformed),
        };
        Report {
            model: answer.model,
            prompt: answer.prompt,
            attempts: answer.attempts,
            tokens: answer.tokens,
            milliseconds: answer.milliseconds,
            answer: outcome,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PROJECTION: &[u8] = b"{}";

    fn told(change: impl FnOnce(&mut serde_json::Value)) -> Report {
        let report =
            Report { prompt: Some(prompt_record()), answer: Ok("{}".to_owned()), ..Report::escalated(Cause::Refused) };
        let mut value = serde_json::to_value(ReviewAnswer::of(report, Digest::of(PROJECTION))).unwrap();
        change(&mut value);
        let submission = Submission { projection: PROJECTION, policy: "" };
        ReviewAnswer::read_untrusted(value.to_string().as_bytes(), &submission)
    }

    #[test]
    fn a_verdict_comes_through_as_it_was_said_and_everything_else_asks_a_person() {
        assert_eq!(told(|_| ()).answer, Ok("{}".to_owned()));
        assert_eq!(
            told(|answer| answer["projection"] = Digest::of(b"x").to_string().into()).answer,
            Err(Cause::ProjectionDiffers)
        );
        assert_eq!(told(|answer| answer["prompt"]["version"] = 2.into()).answer, Err(Cause::PromptDiffers));
        assert_eq!(
            told(|answer| answer["cause"] = "refused".into()).answer,
            Err(Cause::FunctionMalformed),
            "both at once"
        );
        assert_eq!(
            told(|answer| drop(answer.as_object_mut().unwrap().remove("verdict"))).answer,
            Err(Cause::FunctionMalformed)
        );
        assert_eq!(told(|answer| answer["approved"] = true.into()).answer, Err(Cause::FunctionMalformed));
        assert_eq!(
            told(|answer| answer["schema"] = "plangate.review-answer.v2".into()).answer,
            Err(Cause::FunctionMalformed)
        );
        assert_eq!(
            told(|answer| answer["cause"] = "fine".into()).answer,
            Err(Cause::FunctionMalformed),
            "no such cause"
        );
        let large = "x".repeat(VERDICT_LIMIT + 1);
        let report = Report { answer: Ok(large), ..Report::escalated(Cause::Refused) };
        assert_eq!(ReviewAnswer::of(report, Digest::of(PROJECTION)).cause, Some(Cause::VerdictTooLong));
    }
}
