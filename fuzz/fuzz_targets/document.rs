//! Whatever bytes come as a plan document: they are refused or projected and judged, the same every time, and nothing
//! that a mask hides is shown.
#![no_main]

use libfuzzer_sys::fuzz_target;
use plangate_gate::document::PlanDocument;
use plangate_gate::guardrails::{GuardContext, Guardrails};
use plangate_gate::policy::Policy;
use plangate_gate::projection::{Projection, ProjectionView, Withhold};
use plangate_gate::render::{RenderStyle, text};
use serde_json::Value;

fuzz_target!(|bytes: &[u8]| {
    let document = PlanDocument::parse_untrusted(bytes);
    let projection = document.as_ref().ok().map(|document| Projection::of(document, &Withhold::nothing()));
    let outcome = Guardrails::evaluate(document.as_ref(), projection.as_ref(), &Policy::default(), &GuardContext::default());
    if let (Ok(document), Some(projection)) = (&document, &projection) {
        assert_eq!(projection.bytes(), Projection::of(document, &Withhold::nothing()).bytes(), "the same bytes");
        let view = ProjectionView::parse(projection.bytes()).expect("a projection reads back");
        assert!(text(&view, RenderStyle::Plain).chars().all(|c| c == '\n' || !c.is_control()), "inert");
        if let Ok(document) = serde_json::from_slice(bytes) {
            let projection = serde_json::from_slice(projection.bytes()).expect("a projection is JSON");
            let hidden = hidden(&document);
            each_known(&projection, &mut |shown| {
                assert!(!hidden.iter().any(|text| shown.contains(text)), "something masked is shown");
            });
        }
    } else {
        assert!(!outcome.is_eligible(), "what cannot be read is not eligible");
    }
});

/// The texts that masks hide and that are long enough to be searched for inside others.
fn hidden(document: &Value) -> Vec<&str> {
    let rows = document["resource_changes"].as_array().into_iter().flatten().map(|row| &row["change"]);
    let mut found = Vec::new();
    for change in rows {
        at_marks(&change["before"], &change["before_sensitive"], &mut found);
        at_marks(&change["after"], &change["after_sensitive"], &mut found);
    }
    for output in document["output_changes"].as_object().into_iter().flat_map(serde_json::Map::values) {
        at_marks(&output["after"], &output["after_sensitive"], &mut found);
    }
    found.retain(|text| text.chars().count() >= 8);
    found
}

/// The texts at and under each `true` of a mask that fits its value.
fn at_marks<'v>(value: &'v Value, mask: &Value, found: &mut Vec<&'v str>) {
    match (value, mask) {
        (Value::String(text), Value::Bool(true)) => found.push(text),
        (Value::Array(items), Value::Bool(true)) => items.iter().for_each(|item| at_marks(item, mask, found)),
        (Value::Object(fields), Value::Bool(true)) => fields.values().for_each(|field| at_marks(field, mask, found)),
        (Value::Array(items), Value::Array(masks)) => {
            items.iter().zip(masks).for_each(|(item, mask)| at_marks(item, mask, found));
        }
        (Value::Object(fields), Value::Object(masks)) => {
            let marked = masks.iter().filter_map(|(key, mask)| Some((fields.get(key)?, mask)));
            marked.for_each(|(field, mask)| at_marks(field, mask, found));
        }
        _ => {}
    }
}

/// Visits all texts of what a projection shows as known, keys too.
fn each_known(projection: &Value, visit: &mut impl FnMut(&str)) {
    let resources = projection["resources"].as_array().into_iter().flatten();
    let attributes = resources.flat_map(|resource| resource["attributes"].as_object().into_iter().flatten());
    let outputs = projection["outputs"].as_array().into_iter().flatten();
    let sides = attributes.flat_map(|(_, sides)| sides.as_object().into_iter().flat_map(serde_json::Map::values));
    for shown in sides.chain(outputs.map(|output| &output["after"])) {
        if let Some(known) = shown.get("known") {
            texts(known, visit);
        }
    }
}

fn texts(value: &Value, visit: &mut impl FnMut(&str)) {
    match value {
        Value::String(text) => visit(text),
        Value::Array(items) => items.iter().for_each(|item| texts(item, visit)),
        Value::Object(fields) => fields.iter().for_each(|(key, field)| {
            visit(key);
            texts(field, visit);
        }),
        _ => {}
    }
}
