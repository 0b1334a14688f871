//! What is a plan document, what is none, and what it says about changes.

use super::*;

fn read(text: &str) -> Result<PlanDocument<'_>, DocumentError> {
    PlanDocument::parse_untrusted(text.as_bytes())
}

fn reason(text: &str) -> &'static str {
    read(text).unwrap_err().reason()
}

const NO_OP: &str = r#"{"address":"a.b","type":"a","change":{"actions":["no-op"],"before":{},"after":{}}}"#;

#[test]
fn only_format_version_one_is_understood() {
    assert!(read(r#"{"format_version":"1.2","resource_changes":[]}"#).is_ok());
    for version in [r#""2.0""#, r#""0.1""#, r#""1""#, r#""1.x""#, r#""10.2""#, "1.2", "null", r#""""#] {
        let text = format!(r#"{{"format_version":{version},"resource_changes":[]}}"#);
        assert_eq!(reason(&text), "plan-format-unsupported", "{version}");
    }
    assert_eq!(reason(r#"{"resource_changes":[]}"#), "plan-format-unsupported");
}

#[test]
fn what_is_no_plan_is_unparseable_and_never_an_empty_change_set() {
    for text in [
        "",
        "not json",
        "[]",
        "null",
        r#"{"format_version":"1.2"}"#,
        r#"{"format_version":"1.0","terraform_version":"1.9.0","values":{}}"#,
        r#"{"version":4,"serial":3,"lineage":"x","resources":[]}"#,
        r#"{"format_version":"1.2","resource_changes":[]} {}"#,
        "Refreshing state...\n{\"format_version\":\"1.2\",\"resource_changes\":[]}",
        "\u{feff}{\"format_version\":\"1.2\",\"resource_changes\":[]}",
        r#"{"format_version":"1.2","resource_changes":null}"#,
        r#"{"format_version":"1.2","resource_changes":{}}"#,
        r#"{"format_version":"1.2","resource_changes":[{}]}"#,
        r#"{"format_version":"1.2","resource_changes":[{"address":"a.b","type":"a","change":{}}]}"#,
        r#"{"format_version":"1.2","resource_changes":[{"address":1,"type":"a","change":{"actions":[]}}]}"#,
        r#"{"format_version":"1.2","resource_changes":[],"resource_changes":[]}"#,
        r#"{"format_version":"1.2","planned_values":{},"errored":"true"}"#,
    ] {
        assert_eq!(reason(text), "plan-unparseable", "`{text}`");
    }
    let utf16: Vec<u8> = "\u{feff}{}".encode_utf16().flat_map(u16::to_le_bytes).collect();
    assert_eq!(PlanDocument::parse_untrusted(&utf16).unwrap_err().reason(), "plan-unparseable");
}

#[test]
fn an_error_says_where_in_the_format_s_own_words() {
    let text = r#"{"format_version":"1.2","resource_changes":[{"address":"a.b","type":"a","change":{"actions":["create"],"after_sensitive":{"secret-key":"hunter2"}}}]}"#;
    let error = read(text).unwrap_err().to_string();
    assert!(error.ends_with("in `resource_changes[0].change.after_sensitive.*`"), "{error}");
    assert!(!error.contains("hunter2") && !error.contains("secret-key"), "{error}");
}

#[test]
fn a_key_may_not_come_twice_in_an_object_that_is_read() {
    let twice = |inner: &str| {
        format!(r#"{{"format_version":"1.2","resource_changes":[{{"address":"a.b","type":"a",{inner}}}]}}"#)
    };
    for inner in [
        r#""address":"c.d","change":{"actions":["no-op"]}"#,
        r#""change":{"actions":["no-op"],"actions":["delete"]}"#,
        r#""change":{"actions":["create"],"after":{"x":1,"x":2}}"#,
        r#""change":{"actions":["create"],"after":{"x":{"y":1,"\u0079":2}}}"#,
        r#""change":{"actions":["create"],"after_sensitive":{"x":true,"x":false}}"#,
    ] {
        assert_eq!(reason(&twice(inner)), "plan-unparseable", "{inner}");
    }
    assert!(read(r#"{"format_version":"1.2","resource_changes":[],"variables":{"x":1,"x":2}}"#).is_ok(), "not read");
}

#[test]
fn depth_is_refused_where_values_are_read_and_costs_nothing_where_they_are_skipped() {
    let deep = "[".repeat(500_000) + &"]".repeat(500_000);
    let skipped = format!(r#"{{"format_version":"1.2","variables":{deep},"resource_changes":[]}}"#);
    assert!(read(&skipped).is_ok());
    let held = format!(
        r#"{{"format_version":"1.2","resource_changes":[{{"address":"a.b","type":"a","change":{{"actions":["create"],"after":{deep}}}}}]}}"#
    );
    assert_eq!(reason(&held), "plan-unparseable");
}

#[test]
fn document_and_exit_code_must_agree_on_changes() {
    let plan = |sections: &str| format!(r#"{{"format_version":"1.2","planned_values":{{}}{sections}}}"#);
    let moved = NO_OP.replace(r#""type""#, r#""previous_address":"a.c","type""#);
    let imported = NO_OP.replace(r#""actions""#, r#""importing":{"id":"x"},"actions""#);
    let update = NO_OP.replace("no-op", "update");
    let unchanged = [
        String::new(),
        r#","resource_changes":[]"#.to_owned(),
        format!(r#","resource_changes":[{NO_OP}]"#),
        r#","output_changes":{"o":{"actions":["no-op"],"after":1}}"#.to_owned(),
        format!(r#","resource_changes":[{}]"#, NO_OP.replace(r#""type""#, r#""previous_address":null,"type""#)),
        r#","resource_drift":[{"address":"a.b","change":{"actions":["update"]}}]"#.to_owned(),
    ];
    let changed = [
        format!(r#","resource_changes":[{NO_OP},{update}]"#),
        format!(r#","resource_changes":[{moved}]"#),
        format!(r#","resource_changes":[{imported}]"#),
        r#","output_changes":{"o":{"actions":["create"],"after":1}}"#.to_owned(),
        r#","action_invocations":[{"address":"action.x.y"}]"#.to_owned(),
    ];
    for sections in unchanged {
        let text = plan(&sections);
        let document = read(&text).unwrap();
        assert_eq!(document.outcome(PlanExit::NoChanges), Ok(PlanOutcome::NoChanges), "{sections}");
        assert_eq!(document.outcome(PlanExit::Changes), Err(DocumentError::Inconsistent), "{sections}");
    }
    for sections in changed {
        let text = plan(&sections);
        let document = read(&text).unwrap();
        assert_eq!(document.outcome(PlanExit::Changes), Ok(PlanOutcome::Changes), "{sections}");
        assert_eq!(document.outcome(PlanExit::NoChanges), Err(DocumentError::Inconsistent), "{sections}");
    }
    let errored = plan(r#","errored":true"#);
    for exit in [PlanExit::NoChanges, PlanExit::Changes] {
        assert_eq!(read(&errored).unwrap().outcome(exit).unwrap_err().reason(), "plan-errored");
    }
}

#[test]
fn facts_of_another_shape_are_noted_and_keep_nobody_from_reading_the_plan() {
    for section in ["configuration", "checks", "resource_drift", "action_invocations", "complete"] {
        let text = format!(r#"{{"format_version":"1.2","resource_changes":[],"{section}":"odd"}}"#);
        assert_eq!(read(&text).unwrap().facts().not_understood, Some(section));
    }
    let row = NO_OP.replace(r#""type""#, r#""provider_name":7,"type""#);
    let text = format!(r#"{{"format_version":"1.2","resource_changes":[{row}]}}"#);
    assert!(read(&text).unwrap().facts().rows[0].not_understood);
}

#[test]
fn what_runs_programs_is_found_in_modules_too() {
    let text = r#"{"format_version":"1.2","resource_changes":[],"configuration":{
        "provider_config":{"aws":{"name":"aws","full_name":"registry.example/a/aws","expressions":{"secret_key":{"constant_value":"s"}}}},
        "root_module":{
            "resources":[{"address":"data.external.x","mode":"data","type":"external"}],
            "module_calls":{"m":{"source":"./m","module":{"resources":[
                {"address":"null_resource.y","mode":"managed","type":"null_resource","provisioners":[{"type":"local-exec","expressions":{}}]}]}}}}}}"#;
    let document = read(text).unwrap();
    let facts = document.facts();
    assert_eq!(facts.not_understood, None);
    assert_eq!(facts.provisioners, [("module.m.null_resource.y".to_owned(), "local-exec".into())]);
    assert_eq!(facts.sources.get("external").map(String::as_str), Some("data.external.x"));
    assert_eq!(facts.providers, ["registry.example/a/aws"]);
}
