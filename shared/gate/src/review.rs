//! What is recorded of a review (`R42`): what was said, by whom, of which exact bytes, and why a person is asked.
//!
//! What a reviewer writes is somebody else's text: it is kept with everything that could act on a screen written out,
//! and bounded, so that whoever shows it shows advice and nothing else. The raw exchange is not kept.

use serde::{Deserialize, Serialize};

use crate::digest::Digest;
use crate::guardrails::Eligible;
use crate::render::inert;
use crate::run::{Actor, Choice, Run};
use crate::time::Timestamp;
use crate::verdict::{Judgement, LONGEST_NOTE, LONGEST_REASONING, Remark, Verdict, VerdictError};

/// The most bytes that the findings of a review may have in a record, as JSON.
const RECORDED_BYTES: usize = 64 * 1024;
/// The most characters of a model's name in a record.
const LONGEST_NAME: usize = 256;

macro_rules! causes {
    ($($(#[doc = $doc:literal])+ $name:ident = $code:literal,)*) => {
        /// Why a person is asked although the run is eligible. A closed list; the codes are stable.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        pub enum Cause {
            $($(#[doc = $doc])+ #[serde(rename = $code)] $name,)*
        }

        impl Cause {
            /// Every cause there is.
            pub const ALL: &'static [Self] = &[$(Self::$name,)*];

            /// The stable code.
            #[must_use]
            pub const fn code(self) -> &'static str {
                match self {
                    $(Self::$name => $code,)*
                }
            }

            /// What it means, for people.
            #[must_use]
            pub const fn meaning(self) -> &'static str {
                match self {
                    $(Self::$name => concat!($($doc),+),)*
                }
            }
        }
    };
}

causes! {
    /// The workspace's reviewer always asks a person.
    AlwaysEscalate = "always-escalate",
    /// The reviewer's verdict asks for a person.
    Escalated = "escalated",
    /// The model cannot be reached, or failed.
    Unavailable = "unavailable",
    /// The model takes no more requests for now.
    Throttled = "throttled",
    /// The model did not answer within the time budget.
    TimedOut = "timed-out",
    /// The model's provider refused the request: the key, the model id, or the request itself.
    RequestRefused = "request-refused",
    /// The key of the model cannot be read, or is none.
    KeyUnavailable = "key-unavailable",
    /// The review would need, or has used, more tokens than its budget.
    TokenBudget = "token-budget",
    /// No boundary was found that stands nowhere in what is reviewed.
    BoundaryInContent = "boundary-in-content",
    /// What was to be reviewed is no text.
    SubmissionMalformed = "submission-malformed",
    /// The model refused to answer, or a filter did in its stead.
    Refused = "refused",
    /// The model's answer was cut off.
    CutOff = "cut-off",
    /// The answer is larger than an answer may be.
    AnswerTooLarge = "answer-too-large",
    /// The answer is not what the provider's interface promises.
    AnswerMalformed = "answer-malformed",
    /// The model did not call the tool of the verdict.
    NoCall = "no-call",
    /// The model called the tool of the verdict more than once.
    SeveralCalls = "several-calls",
    /// The model called something else.
    OtherCall = "other-call",
    /// The model wrote something beside its call.
    TextBesideCall = "text-beside-call",
    /// The verdict does not follow its schema: another decision, a score, a field more or less.
    VerdictMalformed = "verdict-malformed",
    /// Something in the verdict is longer than it may be.
    VerdictTooLong = "verdict-too-long",
    /// The verdict speaks of a resource that is not in the projection.
    VerdictUnknownAddress = "verdict-unknown-address",
    /// The verdict approves in spite of a critical finding of its own.
    VerdictContradictory = "verdict-contradictory",
    /// The workspace's review function cannot be called.
    FunctionUnavailable = "function-unavailable",
    /// The workspace's review function failed.
    FunctionFailed = "function-failed",
    /// The workspace's review function answered something that is no answer.
    FunctionMalformed = "function-malformed",
    /// The workspace's review function is of another release: it asks with another prompt.
    PromptDiffers = "prompt-differs",
    /// The workspace's review function looked at another projection.
    ProjectionDiffers = "projection-differs",
    /// The reviewer had nothing against it, but a freeze stands: nothing is approved until it is lifted.
    Frozen = "frozen",
    /// The reviewer had nothing against it, but the workspace's configuration has changed since the plan was made.
    ConfigurationChanged = "configuration-changed",
    /// The reviewer had nothing against it, but the workspace does not approve without a person.
    AutomaticApprovalOff = "automatic-approval-off",
    /// The reviewer had nothing against it, but the plan died meanwhile.
    PlanExpired = "plan-expired",
}

impl std::fmt::Display for Cause {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.code())
    }
}

impl From<&VerdictError> for Cause {
    fn from(error: &VerdictError) -> Self {
        match error {
            VerdictError::Schema(_) => Self::VerdictMalformed,
            VerdictError::TooLong(_) => Self::VerdictTooLong,
            VerdictError::UnknownAddress => Self::VerdictUnknownAddress,
            VerdictError::Contradiction => Self::VerdictContradictory,
        }
    }
}

/// Which model was asked, and which one says that it answered.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ModelRecord {
    /// As the workspace's configuration names it.
    pub requested: String,
    /// As the answer names it, where it does.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub answered: Option<String>,
}

impl ModelRecord {
    /// The same with every name inert and bounded: what an answer says is not trusted to be a name.
    #[must_use]
    pub fn bounded(self) -> Self {
        let name = |text: String| line(&text, LONGEST_NAME);
        Self { requested: name(self.requested), answered: self.answered.map(name) }
    }
}

/// The fixed text that a model is asked with.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PromptRecord {
    /// Its version.
    pub version: u32,
    /// Its digest.
    pub digest: Digest,
}

/// How many tokens a review used, by the model's own count.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tokens {
    /// Read.
    pub input: u64,
    /// Written.
    pub output: u64,
}

impl Tokens {
    /// Both together.
    #[must_use]
    pub const fn total(self) -> u64 {
        self.input.saturating_add(self.output)
    }

    /// These and those of another attempt.
    #[must_use]
    pub const fn and(self, other: Self) -> Self {
        let input = self.input.saturating_add(other.input);
        Self { input, output: self.output.saturating_add(other.output) }
    }
}

/// What the reviewer said, or why nothing could be made of it (`R42`).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReviewRecord {
    /// Which binding.
    pub binding: String,
    /// What it said; whatever went wrong counts as `escalate`.
    pub decision: Judgement,
    /// Why a person is asked, if one is.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub cause: Option<Cause>,
    /// The digest of the exact projection bytes that it got.
    pub projection: Digest,
    /// The digest of the workspace's review prose that it got.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub policy: Option<Digest>,
    /// The model, where there is one.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub model: Option<ModelRecord>,
    /// The fixed text that it was asked with.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub prompt: Option<PromptRecord>,
    /// How often it was asked.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub attempts: Option<u32>,
    /// What that used.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub tokens: Option<Tokens>,
    /// How long it took, in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub milliseconds: Option<u64>,
    /// Why, in the reviewer's words: advice, inert.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub reasoning: Option<String>,
    /// The reviewer's remarks, those that fit: advice, inert.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub findings: Vec<Remark>,
    /// When.
    pub at: Timestamp,
}

impl ReviewRecord {
    /// The record of a review of which nothing is known yet but that a person is to be asked.
    #[must_use]
    pub fn escalated(binding: &str, cause: Cause, projection: Digest, at: Timestamp) -> Self {
        Self {
            binding: binding.to_owned(),
            decision: Judgement::Escalate,
            cause: Some(cause),
            projection,
            policy: None,
            model: None,
            prompt: None,
            attempts: None,
            tokens: None,
            milliseconds: None,
            reasoning: None,
            findings: Vec::new(),
            at,
        }
    }

    /// Takes down a verdict that was read strictly, inert and bounded. An approval has no cause to ask a person; whoever
    /// withholds it gives one.
    pub fn take(&mut self, verdict: &Verdict) {
        self.decision = verdict.decision();
        self.cause = (verdict.decision() == Judgement::Escalate).then_some(Cause::Escalated);
        let reasoning = line(verdict.reasoning(), LONGEST_REASONING);
        self.reasoning = (!reasoning.trim().is_empty()).then_some(reasoning);
        let mut bytes = 0;
        let remark = |remark: &Remark| Remark { note: line(&remark.note, LONGEST_NOTE), ..remark.clone() };
        let fits = |remark: &Remark| {
            bytes += serde_json::to_string(remark).map_or(RECORDED_BYTES, |text| text.len());
            bytes <= RECORDED_BYTES
        };
        self.findings = verdict.findings().iter().map(remark).take_while(fits).collect();
    }
}

/// Whether a run's record has all that an approval without a person rests on: it was found eligible by the rules in force
/// here, a reviewer looked at this very projection and had nothing against it, and its workspace allowed it (`R34`-`R37`).
/// For whoever acts on such an approval later, and does not believe the word `approved` alone.
#[must_use]
pub fn automatically_approved(run: &Run) -> bool {
    let Some(decision) = &run.decision else { return false };
    let projection = run.projection.as_ref().map(|projection| projection.object.digest);
    let reviewed = run.review.as_ref().is_some_and(|review| {
        review.decision == Judgement::Approve && review.cause.is_none() && Some(review.projection) == projection
    });
    decision.by == Actor::Automatic
        && decision.choice == Choice::Approve
        && Some(decision.projection) == projection
        && reviewed
        && run.guardrails.as_ref().and_then(Eligible::recorded).is_some()
        && run.pinned.as_ref().is_some_and(|pinned| pinned.spec.approves_automatically())
}

/// Somebody else's text on one line, inert, at most `most` characters long.
fn line(text: &str, most: usize) -> String {
    cut(&inert(&text.replace(['\n', '\r', '\t'], " ")), most)
}

/// At most `most` characters of a text; one that is cut says so.
fn cut(text: &str, most: usize) -> String {
    if text.chars().nth(most).is_none() {
        return text.to_owned();
    }
    text.chars().take(most.saturating_sub(1)).chain(['…']).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn digest() -> Digest {
        Digest::of(b"projection")
    }

    fn now() -> Timestamp {
        "2026-11-30T05:00:00Z".parse().unwrap()
    }

    #[test]
    fn a_record_of_the_first_release_reads_and_is_written_as_it_was() {
        let old = format!(
            r#"{{"binding":"always-escalate","decision":"escalate","cause":"always-escalate","projection":"{}","at":"2026-11-30T05:00:00Z"}}"#,
            digest()
        );
        let record: ReviewRecord = serde_json::from_str(&old).unwrap();
        assert_eq!(record.cause, Some(Cause::AlwaysEscalate));
        assert_eq!(serde_json::to_string(&record).unwrap(), old, "its event keeps its digest");
    }

    #[test]
    fn every_cause_has_a_code_of_its_own_which_is_what_is_stored() {
        let codes: std::collections::BTreeSet<&str> = Cause::ALL.iter().map(|cause| cause.code()).collect();
        assert_eq!(codes.len(), Cause::ALL.len());
        for cause in Cause::ALL {
            assert_eq!(serde_json::to_string(cause).unwrap(), format!("\"{cause}\""));
            assert!(cause.meaning().trim().ends_with('.'), "{cause}");
        }
    }

    #[test]
    fn what_a_reviewer_writes_is_recorded_inert_and_bounded() {
        let note = "\u{1b}[2J\u{202e}\u{7f}".repeat(150);
        let finding = serde_json::json!({ "severity": "warning", "address": "a.b", "note": note });
        let text = serde_json::json!({
            "decision": "escalate", "reasoning": "\u{1b}]0;x\u{7}".repeat(400),
            "findings": vec![finding; 20],
        })
        .to_string();
        let verdict = Verdict::parse_untrusted(text.as_bytes(), ["a.b"]).unwrap();
        let mut record = ReviewRecord::escalated("anthropic", Cause::Unavailable, digest(), now());
        record.take(&verdict);
        assert_eq!((record.decision, record.cause), (Judgement::Escalate, Some(Cause::Escalated)));
        let texts = record.findings.iter().map(|remark| &remark.note).chain(&record.reasoning);
        for text in texts {
            assert!(text.chars().count() <= LONGEST_REASONING && !text.chars().any(char::is_control), "{text}");
        }
        assert_eq!(record.findings.len(), 20);
        assert!(serde_json::to_string(&record).unwrap().len() < RECORDED_BYTES + 16 * 1024);
    }

    #[test]
    fn findings_that_do_not_fit_are_left_out() {
        let note = "\u{7f}".repeat(1000);
        let finding = serde_json::json!({ "severity": "info", "note": note });
        let text = serde_json::json!({ "decision": "approve", "reasoning": "", "findings": vec![finding; 50] });
        let bytes = text.to_string();
        let verdict = Verdict::parse_untrusted(bytes.as_bytes(), []).unwrap();
        let mut record = ReviewRecord::escalated("bedrock", Cause::Unavailable, digest(), now());
        record.take(&verdict);
        assert_eq!((record.decision, record.cause), (Judgement::Approve, None));
        assert!(serde_json::to_string(&record).unwrap().len() <= RECORDED_BYTES + 4096);
        assert!(record.reasoning.is_none());
    }
}
