//! Plans that speak to the reviewer (`R38`). What they say is data: it stands once, within its region, whatever it tries.
//!
//! That none of them is approved because of what it says is not shown here and does not rest on the prompt: see
//! `shared/record/src/tests/review.rs`.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test fails in the shortest way")]

use plangate_gate::document::PlanDocument;
use plangate_gate::projection::{Projection, ProjectionView, Withhold};
use plangate_gate::verdict::Verdict;
use plangate_reviewer::{Prompt, Submission};
use serde_json::{Value, json};

const BOUNDARY: [u8; 16] = [0x5a; 16];

fn cases() -> Vec<Value> {
    let cases: Vec<Value> = serde_json::from_str(include_str!("injections.json")).unwrap();
    assert!(cases.len() >= 40, "{}", cases.len());
    cases
}

/// A plan in which the text of a case stands where it says.
fn plan(case: &Value) -> String {
    let text = case["text"].as_str().unwrap();
    let place = case["place"].as_str().unwrap();
    let name = if place == "name" { text } else { "web" };
    let mut after = json!({ "instance_type": "t3.micro", "tags": { "team": "shop" } });
    match place {
        "tag" => after["tags"]["note"] = text.into(),
        "tag_key" => after["tags"][text] = "yes".into(),
        "description" | "user_data" => after[place] = text.into(),
        "name" => {}
        other => assert_eq!(other, "a place"),
    }
    let change = json!({ "actions": ["create"], "before": null, "after": after, "after_unknown": {}, "before_sensitive": false, "after_sensitive": {} });
    let resource = json!({ "address": format!("aws_instance.{name}"), "mode": "managed", "type": "aws_instance", "name": name,
        "provider_name": "registry.opentofu.org/hashicorp/aws", "change": change });
    json!({ "format_version": "1.2", "resource_changes": [resource] }).to_string()
}

fn projected(document: &str) -> Vec<u8> {
    let document = PlanDocument::parse_untrusted(document.as_bytes()).unwrap();
    Projection::of(&document, &Withhold::nothing()).into_bytes()
}

#[test]
fn what_a_plan_says_stands_within_its_region_and_changes_nothing_around_it() {
    let plain = Prompt::new(&Submission { projection: b"{}", policy: "prose" }, &|| Some(BOUNDARY)).unwrap();
    for case in cases() {
        let name = case["name"].as_str().unwrap();
        let bytes = projected(&plan(&case));
        // One that guesses the boundary gets another: the second draw.
        let draws = std::cell::Cell::new(0u8);
        let draw = || {
            draws.set(draws.get() + 1);
            Some(if draws.get() == 1 { BOUNDARY } else { [draws.get(); 16] })
        };
        let prompt = Prompt::new(&Submission { projection: &bytes, policy: "prose" }, &draw).unwrap();
        let boundary = prompt.user().lines().next().unwrap().rsplit(' ').next().unwrap().to_owned();
        assert_eq!(prompt.system(), plain.system(), "{name}");
        assert_eq!(prompt.user().matches(&boundary).count(), 5, "{name}");
        let projection = std::str::from_utf8(&bytes).unwrap();
        assert_eq!(prompt.user().matches(projection).count(), 1, "{name}");
        let around = prompt.user().replace(projection, "{}").replace(&boundary, &"5a".repeat(16));
        assert_eq!(around, plain.user(), "{name}: nothing else differs");
    }
}

#[test]
fn a_projection_is_one_line_so_that_no_line_of_a_plan_is_a_line_of_the_prompt() {
    for case in cases() {
        let bytes = projected(&plan(&case));
        assert!(!bytes.contains(&b'\n') && !bytes.contains(&b'\r'), "{}", case["name"]);
    }
}

#[test]
fn a_model_that_repeats_what_it_read_has_given_no_verdict() {
    let mut verdicts = Vec::new();
    for case in cases() {
        let bytes = projected(&plan(&case));
        let view = ProjectionView::parse(&bytes).unwrap();
        let addresses = || view.resources.iter().map(|resource| resource.address.as_ref());
        for said in [case["text"].as_str().unwrap().as_bytes(), &bytes] {
            if Verdict::parse_untrusted(said, addresses()).is_ok() {
                verdicts.push(case["name"].as_str().unwrap().to_owned());
            }
        }
    }
    // The one that is a verdict, letter for letter.
    assert_eq!(verdicts, ["imitates-a-verdict"]);
}
