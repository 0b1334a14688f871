//! A policy document, read strictly: what is not known for certain makes the whole of it unclear.

use crate::guardrails::access::iam::condition::Condition;
use crate::guardrails::access::iam::glob::Glob;
use crate::guardrails::access::iam::principal::Principal;
use crate::guardrails::access::iam::resource::Resource;
use crate::guardrails::access::steps::Steps;
use crate::json::Reader;
use crate::value::Value;

/// The longest document that is read, in bytes: more than twice what AWS stores of any kind.
const LONGEST: usize = 64 * 1024;

/// The version of the policy language that knows variables.
const WITH_VARIABLES: &str = "2012-10-17";
/// The version before it, and where none is said.
const WITHOUT_VARIABLES: &str = "2008-10-17";

/// What a document permits cannot be told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::guardrails::access) struct Unclear;

/// What principals, actions, or resources a statement speaks of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Names<T> {
    /// None are named: whoever or whatever the policy is attached to.
    Unnamed,
    /// These.
    In(Vec<T>),
    /// All but these.
    NotIn(Vec<T>),
}

/// A pattern of actions or resources.
pub(super) trait Pattern: Clone + PartialEq {
    /// Whether it is every name.
    fn is_everything(&self) -> bool;
    /// Whether a variable stands in it.
    fn has_variable(&self) -> bool;
    /// Whether every name of `other` is one of this.
    fn covers(&self, other: &Self, steps: &Steps) -> bool;
    /// Whether there may be a name of both.
    fn meets(&self, other: &Self, steps: &Steps) -> bool;
}

macro_rules! pattern {
    ($name:ident) => {
        impl Pattern for $name {
            fn is_everything(&self) -> bool {
                self.is_everything()
            }
            fn has_variable(&self) -> bool {
                self.has_variable()
            }
            fn covers(&self, other: &Self, steps: &Steps) -> bool {
                self.covers(other, steps)
            }
            fn meets(&self, other: &Self, steps: &Steps) -> bool {
                self.meets(other, steps)
            }
        }
    };
}
pattern!(Glob);
pattern!(Resource);

impl<T: Clone> Names<T> {
    /// Reads an element and the one with `Not` before it, of which one may be there.
    fn read(
        statement: &Value<'_>,
        [named, not_named]: [&str; 2],
        list: impl Fn(&Value<'_>) -> Result<Vec<T>, Unclear>,
    ) -> Result<Self, Unclear> {
        match (statement.field(named), statement.field(not_named)) {
            (None, None) => Ok(Self::Unnamed),
            (Some(value), None) => list(value).map(Self::In),
            (None, Some(value)) => list(value).map(Self::NotIn),
            (Some(_), Some(_)) => Err(Unclear),
        }
    }

    /// The parts that can be covered one by one: each that is named, or all as one.
    pub(super) fn parts(&self) -> Vec<Self> {
        match self {
            Self::In(names) => names.iter().map(|name| Self::In(vec![name.clone()])).collect(),
            whole => vec![whole.clone()],
        }
    }
}

impl<T: Pattern> Names<T> {
    /// Whether every name that `part` speaks of is spoken of here.
    pub(super) fn covers(&self, part: &Self, steps: &Steps) -> bool {
        let each = |inner: &[T], outer: &[T]| {
            inner.iter().all(|one| outer.iter().any(|other| other == one || other.covers(one, steps)))
        };
        match (self, part) {
            (Self::Unnamed, Self::Unnamed) => true,
            (Self::In(wide), Self::In(narrow)) => each(narrow, wide),
            (Self::In(wide), Self::NotIn(_)) => wide.iter().any(T::is_everything),
            // What a variable holds may be nothing; then an exception with it excepts nothing.
            (Self::NotIn(wide), Self::NotIn(narrow)) if wide.iter().chain(narrow).any(T::has_variable) => {
                wide.iter().all(|one| narrow.contains(one)) && narrow.iter().all(|one| wide.contains(one))
            }
            (Self::NotIn(wide), Self::NotIn(narrow)) => each(wide, narrow),
            (Self::NotIn(wide), Self::In(narrow)) => {
                !narrow.iter().any(|one| wide.iter().any(|except| except.meets(one, steps)))
            }
            _ => false,
        }
    }
}

/// One statement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Statement {
    pub(super) allow: bool,
    pub(super) principals: Names<Principal>,
    pub(super) actions: Names<Glob>,
    pub(super) resources: Names<Resource>,
    pub(super) conditions: Vec<Condition>,
}

/// The statements of one document, or of several that apply together.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(in crate::guardrails::access) struct Document {
    pub(super) statements: Vec<Statement>,
}

impl Document {
    /// A document that permits nothing and denies nothing.
    pub(in crate::guardrails::access) const fn empty() -> Self {
        Self { statements: Vec::new() }
    }

    /// Reads the text of a policy.
    pub(in crate::guardrails::access) fn parse(text: &str) -> Result<Self, Unclear> {
        if text.len() > LONGEST {
            return Err(Unclear);
        }
        let mut reader = Reader::new(text.as_bytes()).map_err(|_| Unclear)?;
        let value = Value::read(&mut reader).map_err(|_| Unclear)?;
        reader.end().map_err(|_| Unclear)?;
        Self::read(&value)
    }

    fn read(value: &Value<'_>) -> Result<Self, Unclear> {
        only(value, &["Version", "Id", "Statement"])?;
        let variables = match value.field("Version").map(Value::text) {
            Some(Some(WITH_VARIABLES)) => true,
            None | Some(Some(WITHOUT_VARIABLES)) => false,
            Some(_) => return Err(Unclear),
        };
        let read = |value| Statement::read(value, variables);
        let statements = match value.field("Statement") {
            Some(Value::Array(items)) => items.iter().map(read).collect::<Result<_, _>>()?,
            Some(item @ Value::Object(_)) => vec![read(item)?],
            _ => return Err(Unclear),
        };
        Ok(Self { statements })
    }

    /// The same with the statements of another document that applies together with it.
    pub(in crate::guardrails::access) fn and(mut self, other: Self) -> Self {
        self.statements.extend(other.statements);
        self
    }

    /// A document that lets `principal` do `action` wherever the conditions hold: a key, the text that it has, and
    /// whether that is an ARN with wildcards.
    pub(in crate::guardrails::access) fn grant(
        principal: &str,
        action: &str,
        conditions: &[(&str, &str, bool)],
    ) -> Result<Self, Unclear> {
        let service = principal.contains('.') && !principal.contains(':');
        let who = match principal {
            "*" => Principal::everybody(),
            name if service => Principal::service(name),
            name => Principal::aws(name),
        };
        let equals = |(key, text, arn): &(&str, &str, bool)| Condition::equals(key, text, *arn);
        let conditions = conditions.iter().map(equals).collect::<Result<_, _>>()?;
        let actions = Names::In(vec![Glob::pattern(&action.to_ascii_lowercase(), false)]);
        let principals = Names::In(vec![who]);
        let statement = Statement { allow: true, principals, actions, resources: Names::Unnamed, conditions };
        Ok(Self { statements: vec![statement] })
    }
}

impl Statement {
    fn read(value: &Value<'_>, variables: bool) -> Result<Self, Unclear> {
        const ELEMENTS: [&str; 9] = [
            "Sid",
            "Effect",
            "Principal",
            "NotPrincipal",
            "Action",
            "NotAction",
            "Resource",
            "NotResource",
            "Condition",
        ];
        only(value, &ELEMENTS)?;
        let allow = match value.field("Effect").and_then(Value::text) {
            Some("Allow") => true,
            Some("Deny") => false,
            _ => return Err(Unclear),
        };
        let principals = Names::read(value, ["Principal", "NotPrincipal"], Principal::list)?;
        // Actions have no case, and variables mean nothing in them.
        let action = |text: &str| Glob::pattern(&text.to_ascii_lowercase(), false);
        let actions = Names::read(value, ["Action", "NotAction"], |list| patterns(list, action))?;
        if actions == Names::Unnamed {
            return Err(Unclear);
        }
        let resource = |text: &str| Resource::new(text, variables);
        Ok(Self {
            allow,
            principals,
            actions,
            resources: Names::read(value, ["Resource", "NotResource"], |list| patterns(list, resource))?,
            conditions: Condition::read_all(value.field("Condition"), variables)?,
        })
    }
}

/// Requires an object that has no other fields than these.
fn only(value: &Value<'_>, names: &[&str]) -> Result<(), Unclear> {
    let Value::Object(fields) = value else { return Err(Unclear) };
    if fields.iter().all(|(key, _)| names.contains(&key.as_ref())) { Ok(()) } else { Err(Unclear) }
}

fn patterns<T>(value: &Value<'_>, pattern: impl Fn(&str) -> T) -> Result<Vec<T>, Unclear> {
    Ok(texts(value)?.into_iter().map(pattern).collect())
}

/// A text, or a list of at least one text.
pub(super) fn texts<'v>(value: &'v Value<'_>) -> Result<Vec<&'v str>, Unclear> {
    match value {
        Value::String(text) => Ok(vec![text]),
        Value::Array(items) if !items.is_empty() => items.iter().map(|item| item.text().ok_or(Unclear)).collect(),
        _ => Err(Unclear),
    }
}
