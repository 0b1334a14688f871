//! What a policy says of one request, by the rules that AWS documents, as plainly as it can be said.

use std::collections::BTreeMap;

use serde_json::Value;

/// What is asked.
#[derive(Debug, Clone)]
pub(crate) struct Request {
    action: String,
    resource: String,
    /// The kind and the name.
    principal: (String, String),
    /// What else is known, by keys in lower case.
    context: BTreeMap<String, Vec<String>>,
}

/// What is answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Effect {
    Allow,
    Deny,
    Nothing,
}

impl Request {
    pub(crate) fn new(action: &str, resource: &str, (kind, name): (&str, &str)) -> Self {
        let principal = (kind.to_owned(), name.to_owned());
        Self { action: action.to_owned(), resource: resource.to_owned(), principal, context: BTreeMap::new() }
    }

    pub(crate) fn one(&mut self, key: &str, value: Option<&str>) {
        if let Some(value) = value {
            self.context.insert(key.to_lowercase(), vec![value.to_owned()]);
        }
    }

    pub(crate) fn many(&mut self, key: &str, values: Option<&[&str]>) {
        if let Some(values) = values {
            self.context.insert(key.to_lowercase(), values.iter().map(|value| (*value).to_owned()).collect());
        }
    }
}

/// An explicit denial wins over every allowance.
pub(crate) fn decide(policy: &Value, request: &Request) -> Effect {
    let modern = policy["Version"] == "2012-10-17";
    let applies = |effect: &str| {
        policy["Statement"]
            .as_array()
            .unwrap()
            .iter()
            .any(|statement| statement["Effect"] == effect && speaks_of(statement, request, modern))
    };
    if applies("Deny") {
        Effect::Deny
    } else if applies("Allow") {
        Effect::Allow
    } else {
        Effect::Nothing
    }
}

fn list(value: &Value) -> Vec<String> {
    match value {
        Value::Array(items) => items.iter().map(|item| item.as_str().unwrap().to_owned()).collect(),
        Value::String(text) => vec![text.clone()],
        other => panic!("neither a text nor a list: {other}"),
    }
}

fn speaks_of(statement: &Value, request: &Request, modern: bool) -> bool {
    let element = |name: &str, matches: &dyn Fn(&Value) -> bool| {
        let not = format!("Not{name}");
        match (statement.get(name), statement.get(&not)) {
            (Some(value), None) => matches(value),
            (None, Some(value)) => !matches(value),
            other => panic!("one of the two: {other:?}"),
        }
    };
    element("Principal", &|value| principal(value, request))
        && element("Action", &|value| {
            list(value).iter().any(|pattern| glob(&pattern.to_lowercase(), &request.action.to_lowercase()))
        })
        && element("Resource", &|value| {
            list(value).iter().any(|pattern| {
                let missing = 6_usize.saturating_sub(pattern.split(':').count());
                let whole =
                    if pattern.starts_with("arn:") { pattern.clone() + &":*".repeat(missing) } else { pattern.clone() };
                filled(&whole, request, modern).is_some_and(|pattern| glob(&pattern, &request.resource))
            })
        })
        && statement.get("Condition").is_none_or(|conditions| {
            conditions.as_object().unwrap().iter().all(|(operator, keys)| {
                keys.as_object()
                    .unwrap()
                    .iter()
                    .all(|(key, values)| condition(operator, key, &list(values), request, modern))
            })
        })
}

fn principal(value: &Value, request: &Request) -> bool {
    if value == "*" {
        return true;
    }
    let (kind, name) = &request.principal;
    value.as_object().unwrap().iter().any(|(named, names)| {
        named == kind
            && list(names).iter().any(|one| {
                let account =
                    one.strip_prefix("arn:aws:iam::").and_then(|rest| rest.strip_suffix(":root")).unwrap_or(one);
                one == "*" || one == name || kind == "AWS" && name.split(':').nth(4) == Some(account)
            })
    })
}

/// A pattern with the one variable of this world put in. None: the request lacks it, and nothing is like it.
fn filled(pattern: &str, request: &Request, modern: bool) -> Option<String> {
    const NAME: &str = "${aws:username}";
    if !modern || !pattern.contains(NAME) {
        return Some(pattern.to_owned());
    }
    Some(pattern.replace(NAME, request.context.get("aws:username")?.first()?))
}

fn condition(operator: &str, key: &str, values: &[String], request: &Request, modern: bool) -> bool {
    let held = request.context.get(&key.to_lowercase());
    if operator == "Null" {
        return values.iter().any(|value| (value == "true") == held.is_none());
    }
    let (quantity, operator) = operator.split_once(':').map_or(("", operator), |(quantity, rest)| (quantity, rest));
    let (operator, if_exists) = operator.strip_suffix("IfExists").map_or((operator, false), |rest| (rest, true));
    if if_exists && held.is_none() {
        return true;
    }
    let negated = operator.contains("Not");
    let matches = |held: &str| {
        values.iter().any(|value| match operator.replace("Not", "").as_str() {
            "StringEquals" => filled(value, request, modern).is_some_and(|value| value == held),
            "StringEqualsIgnoreCase" => {
                filled(value, request, modern).is_some_and(|value| value.to_lowercase() == held.to_lowercase())
            }
            "StringLike" => filled(value, request, modern).is_some_and(|value| glob(&value, held)),
            "IpAddress" => within(value, held),
            "ArnLike" | "ArnEquals" => arn(value, held),
            other => panic!("an operator of no policy here: {other}"),
        })
    };
    let holds = |held: &String| matches(held) != negated;
    match (quantity, held) {
        ("ForAllValues", held) => held.is_none_or(|held| held.iter().all(holds)),
        ("ForAnyValue", held) => held.is_some_and(|held| held.iter().any(holds)),
        (_, None) => negated,
        (_, Some(held)) => holds(&held[0]),
    }
}

/// Part by part; what has not all parts is like nothing.
fn arn(pattern: &str, held: &str) -> bool {
    let (wanted, parts): (Vec<_>, Vec<_>) = (pattern.splitn(6, ':').collect(), held.splitn(6, ':').collect());
    wanted.len() == 6 && parts.len() == 6 && wanted.iter().zip(parts).all(|(wanted, part)| glob(wanted, part))
}

fn within(range: &str, address: &str) -> bool {
    let number = |text: &str| text.parse::<std::net::Ipv4Addr>().map(u32::from).unwrap();
    let (start, bits) = range.split_once('/').map_or((range, 32), |(start, bits)| (start, bits.parse().unwrap()));
    let shift = |number: u32| number.checked_shr(32 - bits).unwrap_or(0);
    shift(number(start)) == shift(number(address))
}

fn glob(pattern: &str, text: &str) -> bool {
    let mut pattern_chars = pattern.chars();
    match pattern_chars.next() {
        None => text.is_empty(),
        Some('*') => {
            let rest = pattern_chars.as_str();
            text.char_indices().map(|(at, _)| at).chain([text.len()]).any(|at| glob(rest, &text[at..]))
        }
        Some(one) => {
            let mut text_chars = text.chars();
            text_chars
                .next()
                .is_some_and(|next| (one == '?' || one == next) && glob(pattern_chars.as_str(), text_chars.as_str()))
        }
    }
}
