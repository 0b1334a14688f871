//! Conditions of a statement: when one of them holds only where another does.

use crate::guardrails::access::iam::document::{Unclear, texts};
use crate::guardrails::access::iam::glob::Glob;
use crate::guardrails::access::iam::resource::Resource;
use crate::guardrails::access::network::Range;
use crate::guardrails::access::steps::Steps;
use crate::value::Value;

/// How values of an operator are compared with those of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Comparison {
    /// By the operator of this name, about which nothing else is known here.
    Exact(&'static str),
    /// Text by text.
    Equal,
    /// Text by text, in any case.
    EqualInAnyCase,
    /// By patterns.
    Like,
    /// By patterns, part by part.
    Arn,
    /// By ranges of addresses.
    Address,
}

/// The operators, each with how it compares and whether it holds where nothing compares.
const OPERATORS: [(&str, Comparison, bool); 27] = [
    ("StringEquals", Comparison::Equal, false),
    ("StringNotEquals", Comparison::Equal, true),
    ("StringEqualsIgnoreCase", Comparison::EqualInAnyCase, false),
    ("StringNotEqualsIgnoreCase", Comparison::EqualInAnyCase, true),
    ("StringLike", Comparison::Like, false),
    ("StringNotLike", Comparison::Like, true),
    ("ArnEquals", Comparison::Arn, false),
    ("ArnLike", Comparison::Arn, false),
    ("ArnNotEquals", Comparison::Arn, true),
    ("ArnNotLike", Comparison::Arn, true),
    ("IpAddress", Comparison::Address, false),
    ("NotIpAddress", Comparison::Address, true),
    ("NumericEquals", Comparison::Exact("NumericEquals"), false),
    ("NumericNotEquals", Comparison::Exact("NumericEquals"), true),
    ("NumericLessThan", Comparison::Exact("NumericLessThan"), false),
    ("NumericLessThanEquals", Comparison::Exact("NumericLessThanEquals"), false),
    ("NumericGreaterThan", Comparison::Exact("NumericGreaterThan"), false),
    ("NumericGreaterThanEquals", Comparison::Exact("NumericGreaterThanEquals"), false),
    ("DateEquals", Comparison::Exact("DateEquals"), false),
    ("DateNotEquals", Comparison::Exact("DateEquals"), true),
    ("DateLessThan", Comparison::Exact("DateLessThan"), false),
    ("DateLessThanEquals", Comparison::Exact("DateLessThanEquals"), false),
    ("DateGreaterThan", Comparison::Exact("DateGreaterThan"), false),
    ("DateGreaterThanEquals", Comparison::Exact("DateGreaterThanEquals"), false),
    ("Bool", Comparison::Exact("Bool"), false),
    ("BinaryEquals", Comparison::Exact("BinaryEquals"), false),
    ("Null", Comparison::Exact("Null"), false),
];

/// What a condition compares with.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Operand {
    Text(Glob),
    Arn(Resource),
    Address(Range),
}

/// One operator on one key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Condition {
    /// `ForAllValues`, `ForAnyValue` or nothing.
    quantity: Option<&'static str>,
    comparison: Comparison,
    negated: bool,
    /// Whether it holds where the request lacks the key.
    if_exists: bool,
    /// In lower case, as keys have none.
    key: String,
    values: Vec<Operand>,
}

impl Condition {
    /// Reads the value of `Condition`.
    pub(super) fn read_all(value: Option<&Value<'_>>, variables: bool) -> Result<Vec<Self>, Unclear> {
        let Some(value) = value else { return Ok(Vec::new()) };
        let Value::Object(operators) = value else { return Err(Unclear) };
        let mut conditions: Vec<Self> = Vec::new();
        for (operator, keys) in operators {
            let Value::Object(keys) = keys else { return Err(Unclear) };
            let from = conditions.len();
            for (key, values) in keys {
                let condition = Self::read(operator, key, values, variables)?;
                // Two keys that differ in case are one key, and which of them counts nobody knows.
                if conditions.iter().skip(from).any(|known| known.key == condition.key) {
                    return Err(Unclear);
                }
                conditions.push(condition);
            }
        }
        Ok(conditions)
    }

    fn read(operator: &str, key: &str, values: &Value<'_>, variables: bool) -> Result<Self, Unclear> {
        let (quantity, operator) = match operator.split_once(':') {
            Some(("ForAllValues", rest)) => (Some("ForAllValues"), rest),
            Some(("ForAnyValue", rest)) => (Some("ForAnyValue"), rest),
            Some(_) => return Err(Unclear),
            None => (None, operator),
        };
        let named = |name: &str| OPERATORS.into_iter().find(|(known, ..)| *known == name);
        let (found, if_exists) = match (named(operator), operator.strip_suffix("IfExists").and_then(named)) {
            (Some(found), _) => (found, false),
            (None, Some(found)) => (found, true),
            (None, None) => return Err(Unclear),
        };
        let (_, comparison, negated) = found;
        if if_exists && comparison == Comparison::Exact("Null") {
            return Err(Unclear);
        }
        let values: Vec<Operand> = match values {
            Value::Bool(flag) => vec![Operand::Text(Glob::literal(if *flag { "true" } else { "false" }, false))],
            Value::Number(number) => vec![Operand::Text(Glob::literal(number, false))],
            values => {
                let read = |text: &str| operand(comparison, text, variables);
                texts(values)?.into_iter().map(read).collect::<Result<_, _>>()?
            }
        };
        Ok(Self { quantity, comparison, negated, if_exists, key: key.to_ascii_lowercase(), values })
    }

    /// A condition that the key's value is exactly `text`, or, for ARNs, matches it.
    pub(super) fn equals(key: &str, text: &str, arn: bool) -> Result<Self, Unclear> {
        let comparison = if arn { Comparison::Arn } else { Comparison::Equal };
        let values = vec![operand(comparison, text, false)?];
        let key = key.to_ascii_lowercase();
        Ok(Self { quantity: None, comparison, negated: false, if_exists: false, key, values })
    }

    /// Whether this condition holds in every request in which `other` holds.
    pub(super) fn holds_where(&self, other: &Self, steps: &Steps) -> bool {
        let exact = other.comparison == Comparison::Equal && self.comparison == Comparison::Like && !self.negated;
        if self.key != other.key
            || self.quantity != other.quantity
            || self.negated != other.negated
            || (other.if_exists && !self.if_exists)
            || (self.comparison != other.comparison && !exact)
        {
            return false;
        }
        let each = |inner: &[Operand], outer: &[Operand]| {
            inner.iter().all(|one| outer.iter().any(|other| covers(other, one, steps)))
        };
        // Any of the values is enough for an operator; for a negated one, any is too much.
        if self.negated { each(&self.values, &other.values) } else { each(&other.values, &self.values) }
    }
}

fn operand(comparison: Comparison, text: &str, variables: bool) -> Result<Operand, Unclear> {
    Ok(match comparison {
        Comparison::Exact(_) | Comparison::Equal => Operand::Text(Glob::literal(text, variables)),
        // The name of a variable is compared as written: two that differ in case are taken for two.
        Comparison::EqualInAnyCase if text.contains("${") => Operand::Text(Glob::literal(text, variables)),
        Comparison::EqualInAnyCase => Operand::Text(Glob::literal(&text.to_ascii_lowercase(), variables)),
        Comparison::Like => Operand::Text(Glob::pattern(text, variables)),
        // What is no whole ARN is only like itself.
        Comparison::Arn => {
            Resource::arn(text, variables).map_or_else(|| Operand::Text(Glob::literal(text, variables)), Operand::Arn)
        }
        Comparison::Address => Operand::Address(Range::parse(text).ok_or(Unclear)?),
    })
}

fn covers(wide: &Operand, narrow: &Operand, steps: &Steps) -> bool {
    match (wide, narrow) {
        (Operand::Text(wide), Operand::Text(narrow)) => wide.covers(narrow, steps),
        (Operand::Arn(wide), Operand::Arn(narrow)) => wide.covers(narrow, steps),
        (Operand::Address(wide), Operand::Address(narrow)) => wide.covers(narrow),
        _ => false,
    }
}
