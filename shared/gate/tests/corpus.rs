//! Runs the core on real plan documents of others. They are not part of this repository: `PLANGATE_CORPUS` names the
//! folder, and without it nothing is run, which the output says.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "a test fails in the shortest way"
)]

use std::fs;
use std::path::{Path, PathBuf};

use plangate_gate::document::{PlanDocument, PlanExit};
use plangate_gate::guardrails::{GuardContext, Guardrails};
use plangate_gate::policy::Policy;
use plangate_gate::projection::{Projection, ProjectionView, Withhold};
use plangate_gate::render::{RenderStyle, text};

fn documents(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            documents(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "json") {
            found.push(path);
        }
    }
    found.sort();
}

/// Every string at or under a `true` of a mask that fits, seen by a reader that shares nothing with the one under test.
fn masked(value: &serde_json::Value, mask: &serde_json::Value, found: &mut Vec<String>) {
    use serde_json::Value::{Array, Bool, Object, String};
    match (value, mask) {
        (String(text), Bool(true)) => found.push(text.clone()),
        (Array(items), Bool(true)) => items.iter().for_each(|item| masked(item, mask, found)),
        (Object(fields), Bool(true)) => fields.values().for_each(|field| masked(field, mask, found)),
        (Array(items), Array(masks)) => items.iter().zip(masks).for_each(|(item, mask)| masked(item, mask, found)),
        (Object(fields), Object(masks)) => masks.iter().for_each(|(key, mask)| {
            if let Some(field) = fields.get(key) {
                masked(field, mask, found);
            }
        }),
        _ => {}
    }
}

fn secrets(bytes: &[u8]) -> Vec<String> {
    let document: serde_json::Value = serde_json::from_slice(bytes).unwrap();
    let mut found = Vec::new();
    let rows = document["resource_changes"].as_array().into_iter().flatten().map(|row| &row["change"]);
    let outputs = document["output_changes"].as_object().into_iter().flat_map(serde_json::Map::values);
    for change in rows.chain(outputs) {
        masked(&change["before"], &change["before_sensitive"], &mut found);
        masked(&change["after"], &change["after_sensitive"], &mut found);
    }
    found.retain(|text| text.chars().count() >= 8);
    found
}

#[test]
fn real_plans_are_read_shown_and_judged_without_showing_what_they_mask() {
    let Some(folder) = std::env::var_os("PLANGATE_CORPUS") else {
        println!("SKIPPED: PLANGATE_CORPUS is not set, no real plan documents were run");
        return;
    };
    let mut paths = Vec::new();
    documents(Path::new(&folder), &mut paths);
    assert!(!paths.is_empty(), "there are no plan documents in {}", folder.display());
    let mut projected = 0;
    for path in &paths {
        let name = path.display();
        let bytes = fs::read(path).unwrap();
        let document = match PlanDocument::parse_untrusted(&bytes) {
            Ok(document) => document,
            Err(error) => {
                println!("{name}: {error}");
                assert!(matches!(error.reason(), "plan-unparseable" | "plan-format-unsupported"));
                continue;
            }
        };
        let projection = Projection::of(&document, &Withhold::nothing());
        assert_eq!(projection.bytes(), Projection::of(&document, &Withhold::nothing()).bytes(), "{name}");
        let shown = String::from_utf8(projection.bytes().to_vec()).unwrap();
        for secret in secrets(&bytes) {
            let quoted = serde_json::to_string(&secret).unwrap();
            assert!(!shown.contains(quoted.trim_matches('"')), "{name}: something masked is shown");
        }
        let view = ProjectionView::parse(projection.bytes()).unwrap();
        assert!(text(&view, RenderStyle::Plain).ends_with(".\n"), "{name}");
        let agreeing = [PlanExit::NoChanges, PlanExit::Changes].map(|exit| document.outcome(exit).is_ok());
        assert_eq!(agreeing.contains(&true), !document.errored(), "{name}: exactly one exit code agrees");
        let context = GuardContext::default();
        let outcome = Guardrails::evaluate(Ok(&document), Some(&projection), &Policy::default(), &context);
        println!("{name}: {} bytes, {} findings", projection.bytes().len(), outcome.findings().len());
        projected += 1;
    }
    println!("{projected} of {} documents projected", paths.len());
    assert!(projected > 0);
}
