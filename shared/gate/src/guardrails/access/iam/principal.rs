//! Principals: who a statement speaks of.

use crate::guardrails::access::iam::document::{Names, Unclear, texts};
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

    /// Reads the value of `Principal` or `NotPrincipal`.
    pub(super) fn list(value: &Value<'_>) -> Result<Vec<Self>, Unclear> {
        if value.text() == Some("*") {
            return Ok(vec![Self::everybody()]);
        }
        let Value::Object(fields) = value else { return Err(Unclear) };
        let mut found = Vec::new();
        for (key, names) in fields {
            let kind = KINDS.into_iter().find(|kind| kind == key).ok_or(Unclear)?;
            for name in texts(names)? {
                found.push(if kind == "AWS" { Self::aws(name) } else { Self { kind, name: name.to_owned() } });
            }
        }
        if found.is_empty() { Err(Unclear) } else { Ok(found) }
    }

    /// Whether every request by `other` is one by this. `*` is taken for every principal of the kind `AWS` and for no
    /// other: whether it reaches further where it stands alone depends on the service.
    fn covers(&self, other: &Self) -> bool {
        self == other || other.kind == "AWS" && self.name == "*" && matches!(self.kind, "*" | "AWS")
    }
}

impl Names<Principal> {
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
