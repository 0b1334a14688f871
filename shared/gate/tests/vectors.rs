//! Runs the cases of `vectors/`: the specification's V1-V14 and one for each rule of ours. Those with rules of a
//! workspace's own run where the engine for them is, in `shared/rules`.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "a test fails in the shortest way"
)]

use std::fs;
use std::path::{Path, PathBuf};

use plangate_gate::conformance::CaseFiles;
use plangate_gate::guardrails::{NoRuleEngine, Reason};

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../vectors")
}

#[test]
fn every_vector_holds() {
    let mut names = Vec::new();
    for entry in fs::read_dir(folder()).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if !path.is_dir() || name.starts_with("own-rules-") {
            continue;
        }
        let read = |file: &str| path.join(file).exists().then(|| fs::read(path.join(file)).unwrap());
        let [document, policy, verdict, projection] =
            ["document.json", "policy.json", "verdict.json", "projection.json"].map(read);
        let files = CaseFiles {
            case: &read("case.json").unwrap(),
            document: document.as_deref(),
            policy: policy.as_deref(),
            verdict: verdict.as_deref(),
            projection: projection.as_deref(),
        };
        println!("{name}: {}", files.run(&NoRuleEngine).unwrap_or_else(|broken| panic!("{name}: {broken}")).title);
        names.push(name);
    }
    for number in 1..=14 {
        let prefix = format!("V{number:02}-");
        assert!(names.iter().any(|name| name.starts_with(&prefix)), "V{number} is missing");
    }
}

#[test]
fn every_reason_has_a_case_that_gives_it() {
    let cases: Vec<serde_json::Value> = fs::read_dir(folder())
        .unwrap()
        .filter_map(|entry| fs::read(entry.unwrap().path().join("case.json")).ok())
        .map(|bytes| serde_json::from_slice(&bytes).unwrap())
        .collect();
    for reason in Reason::ALL {
        let gives = |case: &serde_json::Value| {
            case["expected"]["findings"]
                .as_array()
                .into_iter()
                .flatten()
                .any(|finding| finding["reason"] == reason.code())
        };
        assert!(cases.iter().any(gives), "no case gives `{}`", reason.code());
    }
}
