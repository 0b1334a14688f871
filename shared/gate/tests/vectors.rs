//! Runs every case of `vectors/`: the specification's V1-V14 and one for each rule of ours.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "a test fails in the shortest way"
)]

use std::fs;
use std::path::{Path, PathBuf};

use plangate_gate::digest::Digest;
use plangate_gate::document::{DocumentError, PlanDocument, PlanExit, PlanOutcome};
use plangate_gate::documents::Withheld;
use plangate_gate::guardrails::{GuardContext, Guardrails};
use plangate_gate::policy::Policy;
use plangate_gate::projection::{Projection, ProjectionView, Withhold};
use plangate_gate::run::FindingRecord;
use plangate_gate::verdict::{Judgement, Verdict};
use serde::Deserialize;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    title: String,
    shows: Vec<String>,
    exit_code: Option<u8>,
    #[serde(default)]
    withhold: Vec<Withheld>,
    #[serde(default)]
    manages_gate: bool,
    expected: Expected,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Expected {
    document: Option<String>,
    outcome: Option<String>,
    projection: Option<Digest>,
    eligible: Option<bool>,
    #[serde(default)]
    findings: Vec<FindingRecord>,
    verdict: Option<String>,
    #[serde(default)]
    absent: Vec<String>,
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../vectors")
}

fn read(path: &Path) -> Option<Vec<u8>> {
    path.exists().then(|| fs::read(path).unwrap())
}

/// Runs one case and gives how many things it expected.
fn run(path: &Path) -> usize {
    let case: Case = serde_json::from_slice(&fs::read(path.join("case.json")).unwrap()).unwrap();
    assert!(!case.title.is_empty() && !case.shows.is_empty());
    let expected = case.expected;
    let mut checked = 0;
    if let Some(bytes) = read(&path.join("document.json")) {
        checked += document(path, &bytes, &case.withhold, case.exit_code, case.manages_gate, &expected);
    }
    if let Some(bytes) = read(&path.join("verdict.json")) {
        let said = match Verdict::parse_untrusted(&bytes, []).map(|verdict| verdict.decision()) {
            Ok(Judgement::Approve) => "approve",
            Ok(Judgement::Escalate) | Err(_) => "escalate",
        };
        assert_eq!(Some(said), expected.verdict.as_deref());
        checked += 1;
    }
    checked
}

fn document(
    path: &Path,
    bytes: &[u8],
    withhold: &[Withheld],
    exit_code: Option<u8>,
    manages_gate: bool,
    expected: &Expected,
) -> usize {
    let mut checked = 0;
    let document = PlanDocument::parse_untrusted(bytes);
    assert_eq!(document.as_ref().err().map(DocumentError::reason), expected.document.as_deref(), "the document");
    let projection = document.as_ref().ok().map(|document| Projection::of(document, &Withhold::of(withhold).unwrap()));

    if let (Some(code), Ok(document)) = (exit_code, &document) {
        let outcome = match document.outcome(PlanExit::try_from(code).unwrap()) {
            Ok(PlanOutcome::Changes) => "changes",
            Ok(PlanOutcome::NoChanges) => "no_changes",
            Err(error) => error.reason(),
        };
        assert_eq!(Some(outcome), expected.outcome.as_deref(), "the outcome");
        checked += 1;
    }
    if let Some(bytes) = read(&path.join("projection.json")) {
        let projection = projection.as_ref().expect("a projection");
        assert_eq!(String::from_utf8_lossy(projection.bytes()), String::from_utf8_lossy(&bytes), "the projection");
        assert_eq!(Some(projection.digest()), expected.projection, "its digest");
        ProjectionView::parse(&bytes).expect("it reads back");
        for text in &expected.absent {
            assert!(!String::from_utf8_lossy(&bytes).contains(text), "`{text}` stands in the projection");
        }
        checked += 1;
    } else {
        assert!(expected.projection.is_none() && expected.absent.is_empty(), "projection.json is missing");
    }
    if let Some(policy) = read(&path.join("policy.json")) {
        let policy = Policy::parse_untrusted(&policy).unwrap();
        let context = GuardContext { manages_gate, ..GuardContext::default() };
        let outcome = Guardrails::evaluate(document.as_ref(), projection.as_ref(), &policy, &context);
        assert_eq!(outcome.record(policy.digest()).findings, expected.findings, "the findings");
        assert_eq!(Some(outcome.is_eligible()), expected.eligible, "eligibility");
        checked += 1;
    }
    checked
}

#[test]
fn every_vector_holds() {
    let mut names = Vec::new();
    for entry in fs::read_dir(folder()).unwrap() {
        let path = entry.unwrap().path();
        if !path.is_dir() {
            continue;
        }
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        println!("{name}");
        assert!(run(&path) > 0, "`{name}` expects nothing");
        names.push(name);
    }
    for number in 1..=14 {
        let prefix = format!("V{number:02}-");
        assert!(names.iter().any(|name| name.starts_with(&prefix)), "V{number} is missing");
    }
}
