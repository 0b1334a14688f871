//! Rows that are one grant or one rule as a whole, spread over several attributes.

use crate::guardrails::access::iam::{self, Document, Unclear};
use crate::guardrails::access::network::{Rule, admits_more};
use crate::guardrails::access::read;
use crate::guardrails::access::sides::{Both, is_nothing};
use crate::guardrails::access::steps::Steps;
use crate::guardrails::access::table::Shape;
use crate::value::Value;

/// What a permission's attributes are as conditions: the attribute, the key, and whether it is an ARN with wildcards.
const PERMISSION: [(&str, &str, bool); 5] = [
    ("source_arn", "aws:SourceArn", true),
    ("source_account", "aws:SourceAccount", false),
    ("principal_org_id", "aws:PrincipalOrgID", false),
    ("event_source_token", "lambda:EventSourceToken", false),
    ("function_url_auth_type", "lambda:FunctionUrlAuthType", false),
];

/// The attributes by which what the row is as a whole is wider afterwards; none if it is not.
pub(super) fn widened(shape: Shape, both: Both<'_, '_>, steps: &Steps) -> Vec<&'static str> {
    let differs = |name: &&str| !both.attribute(name).same();
    let changed: Vec<&'static str> = shape.attributes().iter().copied().filter(differs).collect();
    let unseen = changed.iter().any(|name| both.attribute(name).unseen);
    if unseen || !changed.is_empty() && wider(shape, both, steps) { changed } else { Vec::new() }
}

fn wider(shape: Shape, both: Both<'_, '_>, steps: &Steps) -> bool {
    let rules = |read: fn(&Value<'_>) -> Option<Vec<Rule>>| {
        let all = |side: Option<&Value<'_>>| side.map_or(Some(Vec::new()), read);
        all(both.before).zip(all(both.after))
    };
    match shape {
        Shape::Attributes => false,
        Shape::LambdaPermission => permission(both, steps).unwrap_or(true),
        Shape::GroupRule => rules(read::group_rules).is_none_or(|(before, after)| admits_more(&before, &after, steps)),
        Shape::SingleRule => rules(read::single_rule).is_none_or(|(before, after)| admits_more(&before, &after, steps)),
        Shape::AclRule => rules(read::acl_rules).is_none_or(|(before, after)| acl_rule(&before, &after, steps)),
    }
}

/// Whether one numbered rule lets more through, whatever the others are: it admits more, or refuses less.
fn acl_rule(before: &[Rule], after: &[Rule], steps: &Steps) -> bool {
    let of = |rules: &[Rule], admits: bool| -> Vec<Rule> {
        let rules = rules.iter().filter(|rule| rule.admits == admits);
        rules.map(|rule| Rule { admits: true, ..rule.clone() }).collect()
    };
    admits_more(&of(before, true), &of(after, true), steps) || admits_more(&of(after, false), &of(before, false), steps)
}

fn permission(both: Both<'_, '_>, steps: &Steps) -> Result<bool, Unclear> {
    let document = |side: Option<&Value<'_>>| {
        let Some(row) = side else { return Ok(Document::empty()) };
        let text = |name: &str| match row.field(name) {
            value if is_nothing(value) => Ok(None),
            value => value.and_then(Value::text).map(Some).ok_or(Unclear),
        };
        let mut conditions = Vec::new();
        for (attribute, key, arn) in PERMISSION {
            conditions.extend(text(attribute)?.map(|text| (key, text, arn)));
        }
        match row.field("invoked_via_function_url") {
            Some(Value::Bool(true)) => conditions.push(("lambda:InvokedViaFunctionUrl", "true", false)),
            None | Some(Value::Null | Value::Bool(false)) => {}
            Some(_) => return Err(Unclear),
        }
        Document::grant(text("principal")?.ok_or(Unclear)?, text("action")?.ok_or(Unclear)?, &conditions)
    };
    Ok(iam::widens(&document(both.before)?, &document(both.after)?, steps))
}
