//! Widened access, held against an evaluator that knows nothing of how the guardrails compare: it tries every request
//! of a small world. Whatever it permits newly must be reported. The seed is fixed: the same cases in every run.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test fails in the shortest way"
)]

mod evaluator;

use std::cell::Cell;

use evaluator::{Effect, Request, decide};
use plangate_gate::document::PlanDocument;
use plangate_gate::guardrails::{GuardContext, Guardrails};
use plangate_gate::policy::Policy;
use plangate_gate::projection::{Projection, Withhold};
use proptest::prelude::*;
use proptest::test_runner::{RngSeed, TestRunner};
use serde_json::{Map, Value, json};

const ACTIONS: [&str; 4] = ["s3:GetObject", "s3:PutObject", "s3:ListBucket", "iam:PassRole"];
const RESOURCES: [&str; 4] =
    ["arn:aws:s3:::a", "arn:aws:s3:::a/x", "arn:aws:s3:::b/x", "arn:aws:iam::111122223333:role/r"];
const PRINCIPALS: [(&str, &str); 4] = [
    ("AWS", "arn:aws:iam::111122223333:role/r"),
    ("AWS", "arn:aws:iam::444455556666:user/x"),
    ("Service", "ec2.amazonaws.com"),
    ("Federated", "cognito-identity.amazonaws.com"),
];

/// What patterns of policies are made of: some match all, some several, some one, some nothing, in this world.
const ACTION_PATTERNS: [&str; 9] =
    ["*", "s3:*", "S3:Get*", "s3:?etObject", "s3:PutObject", "s3:*Object", "iam:*", "iam:PassRole", "s3:ListBucket"];
const RESOURCE_PATTERNS: [&str; 9] = [
    "*",
    "arn:aws:s3:::*",
    "arn:aws:s3:::a",
    "arn:aws:s3:::a/*",
    "arn:aws:s3:::?/x",
    "arn:aws:s3:::a/${aws:username}",
    "arn:aws:iam",
    "arn:aws:s3:::A",
    "arn:aws:s3:::b/x",
];

fn config() -> ProptestConfig {
    ProptestConfig {
        cases: 300,
        rng_seed: RngSeed::Fixed(0x6163_6365),
        failure_persistence: None,
        ..ProptestConfig::default()
    }
}

/// Every request of the world.
fn requests() -> Vec<Request> {
    let mut all = Vec::new();
    let teams: [Option<&str>; 3] = [None, Some("a"), Some("b")];
    let sources = [
        (None, None),
        (Some("10.0.0.1"), None),
        (Some("192.0.2.1"), None),
        (None, Some("arn:aws:sns:eu-west-1:111122223333:t")),
        (None, Some("arn:aws:sns:us-east-1:444455556666:t:u")),
    ];
    let keys: [Option<&[&str]>; 3] = [None, Some(&["a"]), Some(&["a", "b"])];
    for action in ACTIONS {
        for resource in RESOURCES {
            for principal in PRINCIPALS {
                for team in teams {
                    for (address, source) in sources {
                        for tags in keys {
                            for user in [None, Some("x")] {
                                let mut request = Request::new(action, resource, principal);
                                request.one("aws:PrincipalTag/team", team);
                                request.one("aws:SourceIp", address);
                                request.one("aws:SourceArn", source);
                                request.one("aws:username", user);
                                request.many("aws:TagKeys", tags);
                                all.push(request);
                            }
                        }
                    }
                }
            }
        }
    }
    all
}

fn some(of: &'static [&'static str]) -> impl Strategy<Value = Value> {
    prop_oneof![
        prop::sample::select(of).prop_map(Value::from),
        prop::collection::vec(prop::sample::select(of), 1..4).prop_map(Value::from),
    ]
}

/// An element, or the same with `Not` before it.
fn either(name: &'static str, value: impl Strategy<Value = Value>) -> impl Strategy<Value = (String, Value)> {
    (prop::bool::weighted(0.2), value)
        .prop_map(move |(not, value)| (if not { format!("Not{name}") } else { name.to_owned() }, value))
}

fn principals() -> impl Strategy<Value = Value> {
    let named = prop::sample::select(vec![
        json!({"AWS": "arn:aws:iam::111122223333:role/r"}),
        json!({"AWS": ["arn:aws:iam::111122223333:role/r", "444455556666"]}),
        json!({"AWS": "arn:aws:iam::444455556666:root"}),
        json!({"AWS": "*"}),
        json!({"Service": "ec2.amazonaws.com"}),
        json!({"Service": ["ec2.amazonaws.com"], "AWS": "111122223333"}),
        json!({"Federated": "cognito-identity.amazonaws.com"}),
    ]);
    prop_oneof![2 => Just(json!("*")), 3 => named]
}

fn conditions() -> impl Strategy<Value = Option<Value>> {
    let one = |operators: &'static [&'static str], key: &'static str, values: &'static [&'static str]| {
        (prop::sample::select(operators), some(values))
            .prop_map(move |(operator, values)| (operator.to_owned(), key.to_owned(), values))
            .boxed()
    };
    const TEXT: &[&str] = &[
        "StringEquals",
        "StringNotEquals",
        "StringLike",
        "StringNotLike",
        "StringEqualsIfExists",
        "StringNotLikeIfExists",
        "StringEqualsIgnoreCase",
    ];
    const ARNS: &[&str] = &[
        "arn:aws:sns:*:111122223333:*",
        "arn:aws:sns:eu-west-1:111122223333:t",
        "arn:aws:sns:*:*:t",
        "arn:*:*:*:*:*",
        "arn:aws:sns",
        "*",
    ];
    const SETS: &[&str] = &[
        "ForAllValues:StringEquals",
        "ForAnyValue:StringEquals",
        "ForAllValues:StringNotLike",
        "ForAnyValue:StringNotEquals",
        "ForAnyValue:StringLike",
    ];
    let condition = prop_oneof![
        one(TEXT, "aws:PrincipalTag/team", &["a", "b", "A", "*", "?", "${aws:username}"]),
        one(TEXT, "aws:PRINCIPALTAG/TEAM", &["a", "b"]),
        one(&["IpAddress", "NotIpAddress"], "aws:SourceIp", &["10.0.0.0/8", "10.0.0.1", "0.0.0.0/0", "192.0.2.0/24"]),
        one(&["ArnLike", "ArnEquals", "ArnNotLike"], "aws:SourceArn", ARNS),
        one(SETS, "aws:TagKeys", &["a", "b", "c", "*"]),
        one(&["Null"], "aws:SourceIp", &["true", "false"]),
    ];
    prop_oneof![
        2 => Just(None),
        3 => prop::collection::vec(condition, 1..3).prop_map(|all| {
            let mut operators = Map::new();
            for (operator, key, values) in all {
                // One key of an operator, so that no two differ in case alone.
                operators.insert(operator, json!({key: values}));
            }
            Some(Value::Object(operators))
        }),
    ]
}

fn statements() -> impl Strategy<Value = Map<String, Value>> {
    (
        prop::bool::weighted(0.65),
        either("Principal", principals()),
        either("Action", some(&ACTION_PATTERNS)),
        either("Resource", some(&RESOURCE_PATTERNS)),
        conditions(),
    )
        .prop_map(|(allow, principal, action, resource, condition)| {
            let mut statement: Map<String, Value> = [principal, action, resource].into_iter().collect();
            statement.insert("Effect".to_owned(), json!(if allow { "Allow" } else { "Deny" }));
            statement.extend(condition.map(|condition| ("Condition".to_owned(), condition)));
            statement
        })
}

/// What somebody does to a policy.
#[derive(Debug, Clone)]
enum Edit {
    /// Takes a statement away.
    Drop(usize),
    /// Puts one more.
    Add(Map<String, Value>),
    /// Puts one element of a statement as it is in another.
    Replace(usize, &'static str, Map<String, Value>),
    /// Takes the last away of what an element lists.
    Shorten(usize, &'static str),
    /// Turns the order round.
    Turn,
    /// Changes the version of the language.
    Age,
}

fn edits() -> impl Strategy<Value = Edit> {
    const ELEMENTS: &[&str] = &["Principal", "Action", "Resource", "Condition", "Effect"];
    prop_oneof![
        1 => (0..3_usize).prop_map(Edit::Drop),
        1 => statements().prop_map(Edit::Add),
        1 => (0..3_usize, prop::sample::select(ELEMENTS), statements())
            .prop_map(|(at, element, from)| Edit::Replace(at, element, from)),
        3 => (0..3_usize, prop::sample::select(&["Action", "Resource", "NotAction", "NotResource"][..]))
            .prop_map(|(at, element)| Edit::Shorten(at, element)),
        2 => Just(Edit::Turn),
        1 => Just(Edit::Age),
    ]
}

fn edited(policy: &Value, edits: &[Edit]) -> Value {
    let mut policy = policy.clone();
    for edit in edits {
        let statements = policy["Statement"].as_array_mut().unwrap();
        let many = statements.len();
        match edit {
            Edit::Drop(at) if many > 0 => drop(statements.remove(at % many)),
            Edit::Add(statement) => statements.push(Value::Object(statement.clone())),
            Edit::Replace(at, element, from) if many > 0 => {
                let statement = statements[at % many].as_object_mut().unwrap();
                let not = format!("Not{element}");
                statement.remove(*element);
                statement.remove(&not);
                for name in [(*element).to_owned(), not] {
                    if let Some(value) = from.get(&name) {
                        statement.insert(name, value.clone());
                    }
                }
            }
            Edit::Shorten(at, element) if many > 0 => {
                if let Some(list) = statements[at % many].get_mut(*element).and_then(Value::as_array_mut)
                    && list.len() > 1
                {
                    list.pop();
                }
            }
            Edit::Turn => statements.reverse(),
            Edit::Age => {
                policy.as_object_mut().unwrap().remove("Version");
            }
            _ => {}
        }
    }
    policy
}

fn policies() -> impl Strategy<Value = Value> {
    prop::collection::vec(statements(), 0..4)
        .prop_map(|statements| json!({"Version": "2012-10-17", "Statement": statements}))
}

fn reported(before: &Value, after: &Value) -> bool {
    let side = |policy: &Value| json!({"bucket": "b", "policy": policy.to_string()});
    let row = json!({
        "address": "aws_s3_bucket_policy.p",
        "type": "aws_s3_bucket_policy",
        "change": {"actions": ["update"], "before": side(before), "after": side(after)},
    });
    let text = json!({"format_version": "1.2", "resource_changes": [row]}).to_string();
    let document = PlanDocument::parse_untrusted(text.as_bytes()).unwrap();
    let projection = Projection::of(&document, &Withhold::nothing());
    let outcome = Guardrails::evaluate(Ok(&document), Some(&projection), &Policy::default(), &GuardContext::default());
    let found: Vec<String> = outcome.findings().iter().map(ToString::to_string).collect();
    assert!(found.is_empty() || found == ["access-widened aws_s3_bucket_policy.p policy"], "{found:?}");
    !outcome.is_eligible()
}

#[test]
fn whatever_is_newly_permitted_is_reported() {
    let world = requests();
    let (reports, silences, false_alarms) = (Cell::new(0), Cell::new(0), Cell::new(0));
    let pairs = prop_oneof![
        4 => (policies(), prop::collection::vec(edits(), 1..4)).prop_map(|(before, edits)| {
            let after = edited(&before, &edits);
            (before, after)
        }),
        1 => (policies(), policies()),
    ];
    TestRunner::new(config())
        .run(&pairs, |(before, after)| {
            // Alone, and beside another policy that allows everything: then all is permitted that is not denied.
            let wider = world.iter().any(|request| match (decide(&before, request), decide(&after, request)) {
                (Effect::Allow, _) | (_, Effect::Deny) | (Effect::Nothing, Effect::Nothing) => false,
                (Effect::Deny | Effect::Nothing, Effect::Allow) | (Effect::Deny, Effect::Nothing) => true,
            });
            let reported = reported(&before, &after);
            prop_assert!(reported || !wider, "not reported: {} becomes {}", before, after);
            let count = if !reported {
                &silences
            } else if wider {
                &reports
            } else {
                &false_alarms
            };
            count.set(count.get() + 1);
            Ok(())
        })
        .unwrap();
    let (reports, silences, false_alarms) = (reports.get(), silences.get(), false_alarms.get());
    println!("{reports} widened, {silences} not, {false_alarms} reported that this world does not show");
    // The property says nothing if hardly anything is permitted newly, or if everything is reported.
    assert!(reports > 50 && silences > 100, "{reports} {silences} {false_alarms}");
    assert!(false_alarms < silences, "{reports} {silences} {false_alarms}");
}
