//! The projection's rules, one by one, on documents small enough to read.

use super::*;

/// A document with one row of the type `thing`, whose change has the given fields.
fn row(change: &str) -> String {
    rows(&[change])
}

fn rows(changes: &[&str]) -> String {
    let rows: Vec<String> = changes
        .iter()
        .enumerate()
        .map(|(n, change)| format!(r#"{{"address":"thing.n{n}","type":"thing","change":{{{change}}}}}"#))
        .collect();
    format!(r#"{{"format_version":"1.2","resource_changes":[{}]}}"#, rows.join(","))
}

fn project(document: &str) -> String {
    project_withholding(document, &Withhold::nothing())
}

fn project_withholding(document: &str, withhold: &Withhold) -> String {
    let document = PlanDocument::parse_untrusted(document.as_bytes()).unwrap();
    let bytes = Projection::of(&document, withhold).into_bytes();
    ProjectionView::parse(&bytes).expect("what is written can be read back");
    String::from_utf8(bytes).unwrap()
}

/// The attributes of the first resource, as JSON text.
fn attributes(change: &str) -> String {
    first(&project(&row(change)))
}

fn first(projection: &str) -> String {
    let start = projection.find(r#""attributes":"#).unwrap() + r#""attributes":"#.len();
    let end = start + projection[start..].find(r#","type":"#).unwrap();
    projection[start..end].to_owned()
}

#[test]
fn a_change_without_masks_shows_every_attribute_on_both_sides() {
    assert_eq!(
        attributes(
            r#""actions":["update"],"before":{"b":1,"a":{"x":[1]}},"after":{"a":{"x":[2]},"c":null},"before_sensitive":false"#
        ),
        r#"{"a":{"after":{"known":{"x":[2]}},"before":{"known":{"x":[1]}}},"b":{"before":{"known":1}},"c":{"after":{"known":null}}}"#
    );
}

#[test]
fn sensitive_beats_unknown_beats_known() {
    assert_eq!(
        attributes(
            r#""actions":["create"],"before":null,"after":{"length":16},"after_unknown":{"id":true,"result":true},"before_sensitive":false,"after_sensitive":{"result":true,"gone":true}"#
        ),
        r#"{"id":{"after":{"unknown":true}},"length":{"after":{"known":16}},"result":{"after":{"sensitive":true}}}"#
    );
}

#[test]
fn a_mixed_value_is_split_and_one_whose_parts_are_alike_is_not() {
    assert_eq!(
        attributes(
            r#""actions":["create"],"after":{"config":{"user":"svc","password":"s3cr3t"},"pair":{"a":"x1y2","b":"x2y3"},"l":[{"k":1,"tags":{"a.b":2}}],"known":{"x":{}}},"after_sensitive":{"config":{"password":true},"pair":{"a":true,"b":true}},"after_unknown":{"l":[{"new":true}]}"#
        ),
        concat!(
            r#"{"config.password":{"after":{"sensitive":true}},"config.user":{"after":{"known":"svc"}},"#,
            r#""known":{"after":{"known":{"x":{}}}},"#,
            r#""l[0].k":{"after":{"known":1}},"l[0].new":{"after":{"unknown":true}},"l[0].tags":{"after":{"known":{"a.b":2}}},"#,
            r#""pair":{"after":{"sensitive":true}}}"#
        )
    );
    assert_eq!(
        attributes(r#""actions":["create"],"after":{"o":{"k":null}},"after_unknown":{"o":{"k":true,"j":[true]}}"#),
        r#"{"o":{"after":{"unknown":true}}}"#
    );
}

#[test]
fn both_sides_are_split_alike() {
    assert_eq!(
        attributes(
            r#""actions":["update"],"before":{"c":{"a":1,"b":2},"d":7,"e":{}},"after":{"c":{"b":3},"d":{"p":1},"e":{"p":"q"}},"after_unknown":{"c":{"a":true},"d":{"q":true}},"after_sensitive":{"e":{"p":true}}"#
        ),
        concat!(
            r#"{"c.a":{"after":{"unknown":true},"before":{"known":1}},"c.b":{"after":{"known":3},"before":{"known":2}},"#,
            r#""d":{"before":{"known":7}},"d.p":{"after":{"known":1}},"d.q":{"after":{"unknown":true}},"#,
            r#""e":{"before":{"known":{}}},"e.p":{"after":{"sensitive":true}}}"#
        )
    );
}

#[test]
fn a_value_that_is_newly_marked_is_not_shown_as_what_it_was() {
    assert_eq!(
        attributes(
            r#""actions":["update"],"before":{"p":17,"l":[1,2],"m":[1,2,3]},"after":{"p":18,"l":[1,3],"m":[1,3]},"before_sensitive":false,"after_sensitive":{"p":true,"l":[false,true],"m":[false,true]}"#
        ),
        concat!(
            r#"{"l[0]":{"after":{"known":1},"before":{"known":1}},"l[1]":{"after":{"sensitive":true},"before":{"sensitive":true}},"#,
            r#""m":{"after":{"sensitive":true},"before":{"sensitive":true}},"p":{"after":{"sensitive":true},"before":{"sensitive":true}}}"#
        )
    );
}

#[test]
fn what_a_marked_container_turns_into_is_hidden_too() {
    assert_eq!(
        attributes(
            r#""actions":["update"],"before":{"c":{"pin":1234},"gone":{"pin":1}},"after":{"c":5678,"gone":null},"before_sensitive":{"c":{"pin":true},"gone":{"pin":true}}"#
        ),
        concat!(
            r#"{"c":{"after":{"sensitive":true},"before":{"sensitive":true}},"#,
            r#""gone":{"after":{"known":null}},"gone.pin":{"before":{"sensitive":true}}}"#
        )
    );
}

#[test]
fn the_root_is_one_entry_where_a_mask_covers_it() {
    let sensitive = r#"{"":{"after":{"sensitive":true},"before":{"sensitive":true}}}"#;
    assert_eq!(
        attributes(r#""actions":["update"],"before":{"a":1},"after":{"a":2},"after_sensitive":true"#),
        sensitive
    );
    assert_eq!(
        attributes(r#""actions":["update"],"before":{"a":1},"after":{"a":2},"before_sensitive":[true]"#),
        sensitive
    );
    assert_eq!(
        attributes(r#""actions":["update"],"before":{"a":1},"after":{"a":2},"after_unknown":true"#),
        r#"{"":{"after":{"unknown":true}},"a":{"before":{"known":1}}}"#
    );
    assert_eq!(attributes(r#""actions":["create"],"after":"odd""#), r#"{"":{"after":{"known":"odd"}}}"#);
    assert_eq!(attributes(r#""actions":["create"],"after":{}"#), "{}");
    assert_eq!(attributes(r#""actions":["update"],"before":null,"after":null,"after_sensitive":true"#), "{}");
    assert_eq!(
        attributes(r#""actions":["create"],"after_unknown":{"id":true}"#),
        r#"{"id":{"after":{"unknown":true}}}"#
    );
}

#[test]
fn a_mask_that_does_not_fit_takes_the_whole_value() {
    for (value, mask) in [
        ("[1,2]", r#"{"0":true}"#),
        ("[1,2]", "[true]"),
        ("[1]", "[false,true]"),
        ("7", "[true]"),
        ("\"t\"", r#"{"x":true}"#),
    ] {
        assert_eq!(
            attributes(&format!(r#""actions":["create"],"after":{{"v":{value}}},"after_sensitive":{{"v":{mask}}}"#)),
            r#"{"v":{"after":{"sensitive":true}}}"#
        );
        assert_eq!(
            attributes(&format!(r#""actions":["create"],"after":{{"v":{value}}},"after_unknown":{{"v":{mask}}}"#)),
            r#"{"v":{"after":{"unknown":true}}}"#
        );
    }
    assert_eq!(
        attributes(r#""actions":["create"],"after":{"v":null},"after_sensitive":{"v":{"x":true}}"#),
        r#"{"v":{"after":{"known":null}}}"#
    );
}

#[test]
fn a_masked_string_is_hidden_wherever_it_recurs() {
    let secret = "hunter2-S3cr3t";
    let document = rows(&[
        &format!(
            r#""actions":["no-op"],"before":{{"p":"{secret}"}},"after":{{"p":"{secret}"}},"before_sensitive":{{"p":true}}"#
        ),
        &format!(
            r#""actions":["delete"],"before":{{"output":"{secret}","url":"x://u:{secret}@h","plain":"hunter2","l":["a","{secret}"],"m":{{"k":{{"{secret}":1}}}}}},"after":null"#
        ),
    ]);
    let projected = project(&document);
    assert!(!projected.contains(secret), "{projected}");
    assert_eq!(
        first(&projected),
        concat!(
            r#"{"l[0]":{"before":{"known":"a"}},"l[1]":{"before":{"sensitive":true}},"m":{"before":{"sensitive":true}},"#,
            r#""output":{"before":{"sensitive":true}},"plain":{"before":{"known":"hunter2"}},"url":{"before":{"sensitive":true}}}"#
        )
    );
}

#[test]
fn an_output_has_one_representation_as_a_whole() {
    let document = r#"{"format_version":"1.2","output_changes":{
        "z":{"actions":["no-op"],"before":"never-read","after":[1,"two"]},
        "u":{"actions":["create"],"after":{"a":1},"after_unknown":{"b":true}},
        "s":{"actions":["update"],"before":"never-read","after":{"a":"top-secret"},"after_unknown":true,"after_sensitive":{"a":true}},
        "e":{"actions":["create"],"after":["x","is top-secret"],"after_sensitive":false},
        "d":{"actions":["delete"],"before":"never-read","after":null}}}"#;
    assert_eq!(
        project(document),
        concat!(
            r#"{"counts":{"create":0,"delete":0,"replace":0,"update":0},"format":1,"outputs":["#,
            r#"{"actions":["delete"],"after":{"known":null},"name":"d"},"#,
            r#"{"actions":["create"],"after":{"sensitive":true},"name":"e"},"#,
            r#"{"actions":["update"],"after":{"sensitive":true},"name":"s"},"#,
            r#"{"actions":["create"],"after":{"unknown":true},"name":"u"},"#,
            r#"{"actions":["no-op"],"after":{"known":[1,"two"]},"name":"z"}],"resources":[]}"#
        )
    );
}

#[test]
fn counts_have_four_keys_and_order_is_the_document_s() {
    let actions = [
        r#"["create"]"#,
        r#"["update"]"#,
        r#"["delete"]"#,
        r#"["delete","create"]"#,
        r#"["create","delete"]"#,
        r#"["read"]"#,
        r#"["forget"]"#,
        r#"["no-op"]"#,
        r#"["dance"]"#,
    ];
    let changes: Vec<String> = actions.iter().map(|actions| format!(r#""actions":{actions}"#)).collect();
    let projected = project(&rows(&changes.iter().map(String::as_str).collect::<Vec<_>>()));
    assert!(
        projected.starts_with(r#"{"counts":{"create":1,"delete":1,"replace":2,"update":1},"format":1"#),
        "{projected}"
    );
    let places: Vec<usize> =
        [0, 1, 2, 3, 4, 5, 6, 8].iter().map(|n| projected.find(&format!("\"thing.n{n}\"")).unwrap()).collect();
    assert!(places.is_sorted());
    assert!(!projected.contains("thing.n7"), "a no-op is no entry");
    assert!(projected.contains(r#"["dance"]"#));
}

#[test]
fn withheld_paths_are_sensitive_and_so_is_what_repeats_them() {
    let withhold = Withhold::nothing().and(
        vec![Pattern::new("thi*").unwrap()],
        vec![Pattern::new("user_data").unwrap(), Pattern::new("l[*].k").unwrap()],
    );
    let document = row(
        r#""actions":["create"],"after":{"user_data":{"x":"bootstrap-token"},"l":[{"k":1,"v":2}],"copy":"the bootstrap-token"}"#,
    );
    assert_eq!(
        first(&project_withholding(&document, &withhold)),
        r#"{"copy":{"after":{"sensitive":true}},"l[0].k":{"after":{"sensitive":true}},"l[0].v":{"after":{"known":2}},"user_data":{"after":{"sensitive":true}}}"#
    );
    let other = Withhold::nothing().and(vec![Pattern::new("other").unwrap()], vec![Pattern::new("*").unwrap()]);
    assert_eq!(project_withholding(&document, &other), project(&document));
}

#[test]
fn digits_survive() {
    let numbers = "[1.0,10000000000000000000000000000001,1e-30,0.000000000000000000000000000001,-0]";
    assert!(attributes(&format!(r#""actions":["create"],"after":{{"n":{numbers}}}"#)).contains(numbers));
}

#[test]
fn a_view_reads_what_is_written_and_nothing_else() {
    let text = project(&row(r#""actions":["update"],"before":{"a":1},"after":{"a":2}"#));
    assert!(ProjectionView::parse(text.as_bytes()).is_ok());
    for (from, to) in [
        (r#""format":1"#, r#""format":2"#),
        (r#""update":1"#, r#""update":2"#),
        (r#"{"known":1}"#, r#"{"known":1,"unknown":true}"#),
        (r#"{"known":1}"#, r#"{"unknown":false}"#),
        (r#"{"known":1}"#, "{}"),
        (r#""outputs":[]"#, r#""outputs":[],"more":1"#),
        (r#"{"known":1}"#, r#"{"known": 1}"#),
        (r#""address""#, r#""\u0061ddress""#),
    ] {
        let changed = text.replacen(from, to, 1);
        assert_ne!(changed, text);
        assert!(ProjectionView::parse(changed.as_bytes()).is_err(), "{from} -> {to}");
    }
    assert!(ProjectionView::parse(format!("{text} ").as_bytes()).is_err());
}
