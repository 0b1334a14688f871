//! A reviewer's verdict (`R40`): `approve` or `escalate` and nothing else, read strictly. It can only withhold (`R37`).

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::guardrails::Eligible;
use crate::untrusted::{self, UntrustedError};

/// The published JSON Schema of verdicts.
pub const JSON_SCHEMA: &str = include_str!("../../../docs/schemas/verdict.v1.json");

/// The most that a verdict may have, in bytes.
pub const VERDICT_LIMIT: usize = 64 * 1024;
/// The most findings that a verdict may have.
pub const MOST_FINDINGS: usize = 50;
/// The most characters that the reasoning may have.
pub const LONGEST_REASONING: usize = 4000;
/// The most characters that a note may have.
pub const LONGEST_NOTE: usize = 1000;

/// What a reviewer can say. There is no word for "reject": a person decides, and that is what `escalate` asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Judgement {
    /// Nothing speaks against it.
    Approve,
    /// A person has to look.
    Escalate,
}

impl Judgement {
    /// The word.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Approve => "approve",
            Self::Escalate => "escalate",
        }
    }
}

/// How much a note matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// Worth knowing.
    Info,
    /// Worth a look.
    Warning,
    /// Speaks against applying.
    Critical,
}

impl Severity {
    /// The word.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Info => "info",
            Self::Warning => "warning",
            Self::Critical => "critical",
        }
    }
}

/// One remark of a reviewer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Remark {
    /// How much it matters.
    pub severity: Severity,
    /// The resource of the projection that it is about; none for the plan as a whole.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address: Option<String>,
    /// What it says.
    pub note: String,
}

/// A verdict that was read strictly.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verdict {
    decision: Judgement,
    reasoning: String,
    findings: Vec<Remark>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Wire {
    decision: Judgement,
    reasoning: String,
    findings: Vec<Remark>,
}

/// Why a text is no verdict. Every one of these escalates (V14).
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum VerdictError {
    /// It does not follow the schema: another word, a field more or less, a wrong type, trailing text.
    #[error(transparent)]
    Schema(#[from] UntrustedError),
    /// Something in it is longer than it may be.
    #[error("the verdict's `{0}` is too long")]
    TooLong(&'static str),
    /// It speaks of a resource that is not in the projection.
    #[error("the verdict speaks of a resource that is not in the projection")]
    UnknownAddress,
    /// It approves and gives a critical finding at once.
    #[error("the verdict approves in spite of a critical finding of its own")]
    Contradiction,
}

impl Verdict {
    /// Reads a reviewer's answer. `addresses` are those of the projection that it was given.
    ///
    /// # Errors
    /// Whatever is not exactly a verdict. The caller escalates.
    pub fn parse_untrusted<'p>(
        bytes: &[u8],
        addresses: impl IntoIterator<Item = &'p str>,
    ) -> Result<Self, VerdictError> {
        let Wire { decision, reasoning, findings } = untrusted::parse("verdict", bytes, VERDICT_LIMIT)?;
        let bounded = |text: &str, most: usize| text.chars().nth(most).is_none();
        let require = |holds: bool, field| if holds { Ok(()) } else { Err(VerdictError::TooLong(field)) };
        require(bounded(&reasoning, LONGEST_REASONING), "reasoning")?;
        require(findings.len() <= MOST_FINDINGS, "findings")?;
        require(findings.iter().all(|remark| bounded(&remark.note, LONGEST_NOTE)), "findings.note")?;
        let known: BTreeSet<&str> = addresses.into_iter().collect();
        if findings.iter().filter_map(|remark| remark.address.as_deref()).any(|address| !known.contains(address)) {
            return Err(VerdictError::UnknownAddress);
        }
        let critical = findings.iter().any(|remark| remark.severity == Severity::Critical);
        if critical && decision == Judgement::Approve {
            return Err(VerdictError::Contradiction);
        }
        Ok(Self { decision, reasoning, findings })
    }

    /// What the reviewer says.
    #[must_use]
    pub const fn decision(&self) -> Judgement {
        self.decision
    }

    /// Why, in its words.
    #[must_use]
    pub fn reasoning(&self) -> &str {
        &self.reasoning
    }

    /// Its remarks.
    #[must_use]
    pub fn findings(&self) -> &[Remark] {
        &self.findings
    }
}

/// The only ground for an approval without a person: the guardrails found the run eligible, the workspace enabled
/// automatic approval (`R34`), and the reviewer had nothing against it.
#[derive(Debug, PartialEq, Eq)]
pub struct AutomaticApproval(());

impl AutomaticApproval {
    /// Brings the three together; none unless all of them are there. The verdict can withhold, and nothing that it
    /// says can replace one of the others (`R37`, `R44`).
    #[must_use]
    pub fn of(_eligible: &Eligible, verdict: &Verdict, workspace_enabled: bool) -> Option<Self> {
        (workspace_enabled && verdict.decision == Judgement::Approve).then_some(Self(()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Verdict, VerdictError> {
        Verdict::parse_untrusted(text.as_bytes(), ["random_pet.name"])
    }

    #[test]
    fn a_verdict_reads_as_the_specification_writes_it() {
        let verdict = parse(
            r#"{"decision":"approve","reasoning":"Tag-only change.","findings":[{"severity":"info","address":"random_pet.name","note":"prefix changed"}]}"#,
        )
        .unwrap();
        assert_eq!(verdict.decision(), Judgement::Approve);
        assert_eq!(verdict.findings().len(), 1);
    }

    #[test]
    fn the_published_schema_says_what_is_read() {
        let schema: serde_json::Value = serde_json::from_str(JSON_SCHEMA).unwrap();
        let remark = &schema["properties"]["findings"]["items"];
        let fields = |object: &serde_json::Value| {
            assert_eq!(object["additionalProperties"], false);
            object["properties"].as_object().unwrap().keys().cloned().collect::<BTreeSet<_>>()
        };
        let full = Remark { severity: Severity::Info, address: Some("a.b".to_owned()), note: "n".to_owned() };
        let written = serde_json::to_value(&full).unwrap();
        assert_eq!(fields(remark), written.as_object().unwrap().keys().cloned().collect());
        assert_eq!(fields(&schema), ["decision", "findings", "reasoning"].map(str::to_owned).into());
        for word in schema["properties"]["decision"]["enum"].as_array().unwrap() {
            assert!(serde_json::from_value::<Judgement>(word.clone()).is_ok(), "{word}");
        }
        for word in remark["properties"]["severity"]["enum"].as_array().unwrap() {
            assert!(serde_json::from_value::<Severity>(word.clone()).is_ok(), "{word}");
        }
        assert_eq!(schema["properties"]["reasoning"]["maxLength"], LONGEST_REASONING);
        assert_eq!(schema["properties"]["findings"]["maxItems"], MOST_FINDINGS);
        assert_eq!(remark["properties"]["note"]["maxLength"], LONGEST_NOTE);
        assert!(schema["description"].as_str().unwrap().contains(&VERDICT_LIMIT.to_string()));
    }

    #[test]
    fn whatever_is_not_exactly_a_verdict_is_none() {
        let long = |n| "x".repeat(n);
        let finding = r#"{"severity":"info","note":"n"}"#;
        for bad in [
            r#"{"decision":"reject"}"#.to_owned(),
            r#"{"decision":"reject","reasoning":"","findings":[]}"#.to_owned(),
            r#"{"decision":"Approve","reasoning":"","findings":[]}"#.to_owned(),
            r#"{"decision":"approve","findings":[]}"#.to_owned(),
            r#"{"decision":"approve","reasoning":""}"#.to_owned(),
            r#"{"decision":"approve","reasoning":null,"findings":[]}"#.to_owned(),
            r#"{"decision":["approve"],"reasoning":"","findings":[]}"#.to_owned(),
            r#"["approve","",[]]"#.to_owned(),
            r#"{"decision":"approve","reasoning":"","findings":[["info",null,"n"]]}"#.to_owned(),
            r#"{"decision":"approve","reasoning":"","findings":[],"confidence":0.99}"#.to_owned(),
            r#"{"decision":"approve","reasoning":"","findings":[]} I approve."#.to_owned(),
            r#"{"decision":"approve","reasoning":"","findings":[]}{"decision":"escalate","reasoning":"","findings":[]}"#.to_owned(),
            r#"{"decision":"escalate","decision":"approve","reasoning":"","findings":[]}"#.to_owned(),
            r#"Sure! {"decision":"approve","reasoning":"","findings":[]}"#.to_owned(),
            format!(r#"{{"decision":"approve","reasoning":"{}","findings":[]}}"#, long(4001)),
            format!(r#"{{"decision":"approve","reasoning":"","findings":[{{"severity":"info","note":"{}"}}]}}"#, long(1001)),
            format!(r#"{{"decision":"approve","reasoning":"","findings":[{}]}}"#, vec![finding; 51].join(",")),
            r#"{"decision":"approve","reasoning":"","findings":[{"severity":"info","address":"other.thing","note":"n"}]}"#.to_owned(),
            r#"{"decision":"approve","reasoning":"","findings":[{"severity":"fatal","note":"n"}]}"#.to_owned(),
            r#"{"decision":"approve","reasoning":"","findings":[{"severity":"critical","note":"n"}]}"#.to_owned(),
            String::new(),
            format!(r#"{{"decision":"approve","reasoning":"{}","findings":[]}}"#, long(70_000)),
        ] {
            assert!(parse(&bad).is_err(), "{bad}");
        }
    }
}
