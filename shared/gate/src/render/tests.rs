//! What people see of a projection.

use super::*;
use crate::document::PlanDocument;
use crate::projection::{Projection, Withhold};

fn rendered(document: &str, style: RenderStyle) -> String {
    let document = PlanDocument::parse_untrusted(document.as_bytes()).unwrap();
    let projection = Projection::of(&document, &Withhold::nothing());
    text(&ProjectionView::parse(projection.bytes()).unwrap(), style)
}

fn plan(rows: &str) -> String {
    format!(r#"{{"format_version":"1.2","resource_changes":[{rows}]}}"#)
}

#[test]
fn a_plan_reads_as_people_know_it() {
    let document = r#"{"format_version":"1.2","resource_changes":[
        {"address":"random_pet.name","type":"random_pet","change":{"actions":["create"],"before":null,"after":{"prefix":"team","keepers":null},"after_unknown":{"id":true}}},
        {"address":"module.a.aws_instance.web","type":"aws_instance","change":{"actions":["update"],
            "before":{"ami":"a","tags":{"Name":"x","old":"1"},"password":"s3cret!","ports":[80],"same":1},
            "after":{"ami":"b","tags":{"Name":"y","a.b":"2"},"password":"t3cret!","ports":[80,443],"same":1},
            "before_sensitive":{"password":true},"after_sensitive":{"password":true}}},
        {"address":"random_password.pw","type":"random_password","change":{"actions":["delete","create"],"before":{"length":16},"after":{},"after_unknown":{"length":true}}},
        {"address":"null_resource.old","type":"null_resource","change":{"actions":["delete"],"before":{"id":"7"},"after":null}},
        {"address":"null_resource.let_go","type":"null_resource","change":{"actions":["forget"],"before":{"id":"8"},"after":null}},
        {"address":"data.http.x","type":"http","change":{"actions":["read"],"before":null,"after":{"url":"https://example.com"}}}],
        "output_changes":{"plain":{"actions":["create"],"after":"hello"},"secret":{"actions":["update"],"after":"s3cret!","after_sensitive":true},"same":{"actions":["no-op"],"after":1},"gone":{"actions":["delete"],"after":null}}}"#;
    let expected = r#"  # random_pet.name will be created
  + random_pet.name
      + id     = (known after apply)
      + prefix = "team"
        # (1 unchanged or unset attribute not shown)

  # module.a.aws_instance.web will be updated in place
  ~ module.a.aws_instance.web
      ~ ami         = "a" -> "b"
        password    = (sensitive value, may change)
      + ports[1]    = 443
      ~ tags.Name   = "x" -> "y"
      + tags["a.b"] = "2"
      - tags.old    = "1"
        # (1 unchanged or unset attribute not shown)

  # random_password.pw will be destroyed and created again
-/+ random_password.pw
      ~ length = 16 -> (known after apply)

  # null_resource.old will be destroyed
  - null_resource.old
      - id = "7"

  # null_resource.let_go will leave the state and go on existing
  . null_resource.let_go
      - id = "8"

  # data.http.x will be read during the apply
 <= data.http.x
      + url = "https://example.com"

Changes to outputs:
  - gone   = (removed)
  + plain  = "hello"
  ~ secret = (sensitive value)

Plan: 1 to add, 1 to change, 1 to destroy, 1 to replace, 1 to forget.
"#;
    assert_eq!(rendered(document, RenderStyle::Plain), expected);
}

#[test]
fn what_a_plan_says_cannot_act_on_who_reads_it() {
    let document = plan(
        r#"{"address":"x.y[\"\u001b[2J\u202e\"]","type":"x\u200b","change":{"actions":["dance\u0007"],"before":null,"after":{"k\r\u2066":"\u001b]0;title\u0007\nPlan: 0 to add\u0085"}}}"#,
    );
    let text = rendered(&document, RenderStyle::Plain);
    assert!(text.chars().all(|c| c == '\n' || !c.is_control()), "{text:?}");
    assert!(!text.contains(['\u{202e}', '\u{2066}', '\u{200b}']), "{text:?}");
    assert!(text.contains(r#"x.y["\u{1b}[2J\u{202e}"] (x\u{200b})"#), "{text}");
    assert!(text.contains(r#""\u{1b}]0;title\u{7}\nPlan: 0 to add\u{85}""#), "{text}");
    assert_eq!(text.matches("\nPlan: ").count(), 1, "only the last line is the summary");
}

#[test]
fn colour_changes_the_marks_and_nothing_else() {
    let document = plan(
        r#"{"address":"x.y","type":"x","change":{"actions":["delete","create"],"before":{"a":1},"after":{"a":2}}}"#,
    );
    let coloured = rendered(&document, RenderStyle::Colour);
    assert!(coloured.contains("\u{1b}[31m-\u{1b}[0m"));
    let mut plain = coloured;
    for code in ["\u{1b}[31m", "\u{1b}[32m", "\u{1b}[33m", "\u{1b}[36m", "\u{1b}[0m"] {
        plain = plain.replace(code, "");
    }
    assert_eq!(plain, rendered(&document, RenderStyle::Plain));
}
