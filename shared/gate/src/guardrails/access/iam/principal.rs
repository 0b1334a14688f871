//! Principals: who a statement speaks of.

use crate::guardrails::access::iam::document::{Unclear, texts};
use crate::value::Value;

/// The kinds of principal that there are.
const KINDS: [&str; 4] = ["AWS", "Service", "Federated", "CanonicalUser"];

/// One principal of a kind. Whether one account's root stands for a role of the account is not asked: a statement for
/// the root leaves the choice to the account, a statement for the role grants. Only `*` stands for others.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Principal {
    kind: &'static str,
    name: String,
}

impl Principal {
    /// Everybody, said by a single `*`.
    pub(super) fn everybody() -> Self {
        Self { kind: "*", name: "*".to_owned() }
    }

    /// A principal of the kind `AWS`: `*`, an ARN or an account.
    pub(super) fn aws(name: &str) -> Self {
        let account = name.len() == 12 && name.bytes().all(|byte| byte.is_ascii_digit());
        let name = if account { format!("arn:aws:iam::{name}:root") } else { name.to_owned() };
        Self { kind: "AWS", name }
    }

    /// A principal of the kind `Service`.
    pub(super) fn service(name: &str) -> Self {
        Self { kind: "Service", name: name.to_owned() }
    }

    /// Whether every request by `other` is one by this. `*` is taken for every principal of the kind `AWS` and for no
    /// other: whether it reaches further where it stands alone depends on the service.
    fn covers(&self, other: &Self) -> bool {
        self == other || other.kind == "AWS" && self.name == "*" && matches!(self.kind, "*" | "AWS")
    }
}

/// Whom a statement speaks of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Principals {
    /// Whoever the policy is attached to.
    Unnamed,
    /// These.
    In(Vec<Principal>),
    /// All but these.
    NotIn(Vec<Principal>),
}

impl Principals {
    /// Reads the values of `Principal` and `NotPrincipal`, of which one may be there.
    pub(super) fn read(named: Option<&Value<'_>>, not_named: Option<&Value<'_>>) -> Result<Self, Unclear> {
        match (named, not_named) {
            (None, None) => Ok(Self::Unnamed),
            (Some(value), None) => list(value).map(Self::In),
            (None, Some(value)) => list(value).map(Self::NotIn),
            (Some(_), Some(_)) => Err(Unclear),
        }
    }

    /// The parts that can be covered one by one: each principal that is named, or all as one.
    pub(super) fn parts(&self) -> Vec<Self> {
        match self {
            Self::In(names) => names.iter().map(|name| Self::In(vec![name.clone()])).collect(),
            whole => vec![whole.clone()],
        }
    }

    /// Whether everybody whom `part` speaks of is spoken of here.
    pub(super) fn covers(&self, part: &Self) -> bool {
        let each = |inner: &[Principal], outer: &[Principal]| {
            inner.iter().all(|one| outer.iter().any(|other| other.covers(one)))
        };
        match (self, part) {
            (Self::Unnamed, Self::Unnamed) => true,
            (Self::In(wide), Self::In(narrow)) => each(narrow, wide),
            (Self::NotIn(wide), Self::NotIn(narrow)) => each(wide, narrow),
            // Whether one of these is one of those, by a session or an account, is not known.
            _ => false,
        }
    }
}

fn list(value: &Value<'_>) -> Result<Vec<Principal>, Unclear> {
    if value.text() == Some("*") {
        return Ok(vec![Principal::everybody()]);
    }
    let Value::Object(fields) = value else { return Err(Unclear) };
    let mut found = Vec::new();
    for (key, names) in fields {
        let kind = KINDS.into_iter().find(|kind| kind == key).ok_or(Unclear)?;
        for name in texts(names)? {
            found.push(if kind == "AWS" { Principal::aws(name) } else { Principal { kind, name: name.to_owned() } });
        }
    }
    if found.is_empty() { Err(Unclear) } else { Ok(found) }
}
