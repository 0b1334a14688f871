//! Runs every case of `vectors/` with an engine for rules of a workspace's own.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails in the shortest way")]

use std::fs;
use std::path::Path;

use plangate_gate::conformance::CaseFiles;
use plangate_rules::Sandbox;

#[test]
fn every_vector_holds_those_with_own_rules_too() {
    let engine = Sandbox::of(env!("CARGO_BIN_EXE_plangate-rules").into());
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../vectors");
    let mut own = 0;
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let read = |file: &str| fs::read(path.join(file)).ok();
        let Some(case) = read("case.json") else { continue };
        let [document, policy, verdict, projection] =
            ["document.json", "policy.json", "verdict.json", "projection.json"].map(read);
        let files = CaseFiles {
            case: &case,
            document: document.as_deref(),
            policy: policy.as_deref(),
            verdict: verdict.as_deref(),
            projection: projection.as_deref(),
        };
        files.run(&engine).unwrap_or_else(|broken| panic!("{}: {broken}", path.display()));
        own += usize::from(path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("own-rules-")));
    }
    assert_eq!(own, 5);
}
