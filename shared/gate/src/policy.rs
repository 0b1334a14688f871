//! A workspace's policy: what the guardrails hold a plan against (`R31`). A strict document; what it does not say is
//! denied where denying is the sound default.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::canonical;
use crate::digest::Digest;
use crate::documents::Withheld;
use crate::pattern::Pattern;
use crate::projection::Withhold;
use crate::untrusted::{self, UntrustedError};

/// The most that a policy document may have, in bytes.
pub const POLICY_LIMIT: usize = 64 * 1024;
/// The budget of a projection where the policy does not say, in canonical bytes (`R27`).
pub const DEFAULT_BUDGET: u64 = 128 * 1024;
/// The largest budget that a policy may give: a projection has to fit where payloads are capped at 256 KB.
pub const LARGEST_BUDGET: u64 = 192 * 1024;

/// The most text that own rules may have in all, in bytes.
pub const OWN_RULES_LIMIT: usize = 32 * 1024;

/// The published JSON Schema of policy documents.
pub const JSON_SCHEMA: &str = include_str!("../../../docs/schemas/policy.v1.json");

/// The one schema of policies there is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum PolicySchema {
    /// `plangate.policy.v1`
    #[default]
    #[serde(rename = "plangate.policy.v1")]
    V1,
}

/// A kind of change that a resource can be protected from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ProtectedFrom {
    /// Being destroyed, alone or in a replacement.
    Delete,
    /// Another object taking its place.
    Replace,
    /// Leaving the state without being destroyed.
    Forget,
    /// Any change at all, moves and imports too.
    Any,
}

/// A protected class of resources. A resource belongs to it if its type matches one of `types` and its address one of
/// `addresses`; a list that is left out matches everything, and one of them must be there.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Protect {
    /// Patterns of resource types.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub types: Vec<Pattern>,
    /// Patterns of addresses.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub addresses: Vec<Pattern>,
    /// What they are protected from.
    pub on: Vec<ProtectedFrom>,
}

impl Protect {
    /// Whether a resource belongs to the class.
    #[must_use]
    pub fn covers(&self, kind: &str, address: &str) -> bool {
        let matches =
            |patterns: &[Pattern], text: &str| patterns.is_empty() || patterns.iter().any(|p| p.matches(text));
        matches(&self.types, kind) && matches(&self.addresses, address)
    }
}

/// The most resources that a plan may change; what is left out is not bounded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MaxChanges {
    /// In all: everything but no-ops, reads and forgets included; a replacement is one change.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub total: Option<u64>,
    /// Created.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub create: Option<u64>,
    /// Changed in place.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub update: Option<u64>,
    /// Destroyed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delete: Option<u64>,
    /// Replaced.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replace: Option<u64>,
}

/// What is done about changes that may widen access.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum AccessWidening {
    /// They are never eligible.
    #[default]
    Deny,
    /// They are not looked at.
    Allow,
}

/// Rules of a workspace's own, in Rego: `package main`, and what its set `deny` holds speaks against a plan. They come
/// with the policy, from the control plane, and never from a configuration.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OwnRules {
    /// The modules' texts, by file name.
    pub modules: BTreeMap<String, String>,
}

impl OwnRules {
    /// The digest of the canonical bytes: by it a run's record says which rules judged (`R33`).
    #[must_use]
    pub fn digest(&self) -> Digest {
        // Made of texts alone: writing it cannot fail.
        Digest::of(&canonical::to_bytes(self).unwrap_or_default())
    }

    /// Whether there are modules, with plain names, and no more than [`OWN_RULES_LIMIT`] of text.
    fn is_bounded(&self) -> bool {
        let plain = |name: &str| {
            let letters = name.bytes().all(|b| b.is_ascii_alphanumeric() || b"._-/".contains(&b));
            letters && name.ends_with(".rego") && name.len() <= 100
        };
        let size: usize = self.modules.values().map(String::len).sum();
        !self.modules.is_empty() && size <= OWN_RULES_LIMIT && self.modules.keys().all(|name| plain(name))
    }
}

/// A workspace's policy.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Policy {
    /// The schema that the document follows.
    pub schema: PolicySchema,
    /// Protected classes. Left out: everything is protected from being destroyed, replaced and forgotten.
    #[serde(default = "protect_all")]
    pub protect: Vec<Protect>,
    /// Bounds on the number of changes. Left out: ten in all.
    #[serde(default = "ten_changes")]
    pub max_changes: MaxChanges,
    /// The most canonical bytes that a projection may have, at most [`LARGEST_BUDGET`] (`R27`).
    #[serde(default = "default_budget")]
    pub projection_budget_bytes: u64,
    /// The only types whose resources may change. Left out: all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allowed_types: Option<Vec<Pattern>>,
    /// The only providers that may be used, by full name. Left out: all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allowed_providers: Option<Vec<Pattern>>,
    /// Whether a change of an output is held against a plan.
    #[serde(default)]
    pub deny_output_changes: bool,
    /// Whether it is held against a plan that objects were changed outside of it.
    #[serde(default = "yes")]
    pub deny_drift: bool,
    /// Whether moves and imports are held against a plan.
    #[serde(default = "yes")]
    pub deny_moves_and_imports: bool,
    /// Whether provisioners, and data sources and providers' actions that run programs, are held against a plan.
    #[serde(default = "yes")]
    pub deny_program_execution: bool,
    /// What is done about changes that may widen access.
    #[serde(default)]
    pub access_widening: AccessWidening,
    /// Attributes that are never shown.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub withhold: Vec<Withheld>,
    /// Patterns of what belongs to the gate or to this workspace's own roles, state and keys: names, ARNs, addresses. A
    /// changed resource in which one of them stands touches the gate.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub gate_resources: Vec<Pattern>,
    /// Rules of the workspace's own, in Rego.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub own_rules: Option<OwnRules>,
}

const fn yes() -> bool {
    true
}

const fn default_budget() -> u64 {
    DEFAULT_BUDGET
}

const fn ten_changes() -> MaxChanges {
    MaxChanges { total: Some(10), create: None, update: None, delete: None, replace: None }
}

fn protect_all() -> Vec<Protect> {
    let on = vec![ProtectedFrom::Delete, ProtectedFrom::Replace, ProtectedFrom::Forget];
    vec![Protect { types: Pattern::new("*").into_iter().collect(), addresses: Vec::new(), on }]
}

/// The policy of whoever says nothing: small plans that create or change ordinary resources are eligible.
impl Default for Policy {
    fn default() -> Self {
        Self {
            schema: PolicySchema::V1,
            protect: protect_all(),
            max_changes: ten_changes(),
            projection_budget_bytes: DEFAULT_BUDGET,
            allowed_types: None,
            allowed_providers: None,
            deny_output_changes: false,
            deny_drift: true,
            deny_moves_and_imports: true,
            deny_program_execution: true,
            access_widening: AccessWidening::Deny,
            withhold: Vec::new(),
            gate_resources: Vec::new(),
            own_rules: None,
        }
    }
}

/// Why a document is no policy.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PolicyError {
    /// It does not follow the schema.
    #[error(transparent)]
    Schema(#[from] UntrustedError),
    /// A field says what it may not.
    #[error("the policy's `{field}` {problem}")]
    Field {
        /// Which field.
        field: &'static str,
        /// What it has to be.
        problem: &'static str,
    },
}

impl Policy {
    /// Reads a policy document strictly.
    ///
    /// # Errors
    /// If it does not follow the schema, or a field says what it may not.
    pub fn parse_untrusted(bytes: &[u8]) -> Result<Self, PolicyError> {
        let policy: Self = untrusted::parse("policy", bytes, POLICY_LIMIT)?;
        policy.validate()?;
        Ok(policy)
    }

    /// Checks what the schema's types do not say.
    ///
    /// # Errors
    /// The first field that says what it may not.
    pub fn validate(&self) -> Result<(), PolicyError> {
        let require =
            |holds: bool, field, problem| if holds { Ok(()) } else { Err(PolicyError::Field { field, problem }) };
        let named = |rule: &Protect| !(rule.on.is_empty() || rule.types.is_empty() && rule.addresses.is_empty());
        require(
            self.protect.iter().all(named),
            "protect",
            "names types or addresses, and what they are protected from",
        )?;
        let budget = (1..=LARGEST_BUDGET).contains(&self.projection_budget_bytes);
        require(budget, "projection_budget_bytes", "is between 1 and 196608")?;
        let bounded = self.own_rules.as_ref().is_none_or(OwnRules::is_bounded);
        require(bounded, "own_rules", "has modules with names that end in `.rego`, and at most 32768 bytes of text")?;
        let withheld = |rule: &Withheld| !rule.types.is_empty() && !rule.paths.is_empty();
        let patterns = self.withhold.iter().all(withheld) && Withhold::of(&self.withhold).is_ok();
        require(patterns, "withhold", "names types and paths by patterns of 1 to 512 bytes")
    }

    /// The mask over what is never shown.
    ///
    /// # Errors
    /// Only for a policy that was not validated: a pattern that is none.
    pub fn withhold(&self) -> Result<Withhold, PolicyError> {
        Withhold::of(&self.withhold).map_err(|_| PolicyError::Field {
            field: "withhold",
            problem: "names types and paths by patterns of 1 to 512 bytes",
        })
    }

    /// The canonical bytes, under which the policy is stored.
    ///
    /// # Errors
    /// Never for a policy; the writer could fail for types that are no JSON.
    pub fn to_bytes(&self) -> Result<Vec<u8>, serde_json::Error> {
        canonical::to_bytes(self)
    }

    /// The digest of the canonical bytes, pinned to the run that the policy judges (`R33`). Two documents that say the
    /// same, one by default and one explicitly, have the same digest.
    #[must_use]
    pub fn digest(&self) -> Digest {
        // A policy is made of texts, numbers and lists: writing it cannot fail.
        Digest::of(&self.to_bytes().unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Policy, PolicyError> {
        Policy::parse_untrusted(text.as_bytes())
    }

    #[test]
    fn what_is_left_out_is_the_default() {
        let policy = parse(r#"{"schema":"plangate.policy.v1"}"#).unwrap();
        assert_eq!(policy, Policy::default());
        assert_eq!(policy.digest(), Policy::default().digest());
        let explicit = Policy::default().to_bytes().unwrap();
        assert_eq!(Policy::parse_untrusted(&explicit).unwrap(), Policy::default());
    }

    #[test]
    fn a_policy_is_read_strictly() {
        for bad in [
            "{}",
            r#"{"schema":"plangate.policy.v2"}"#,
            r#"{"schema":"plangate.policy.v1","unheard_of":true}"#,
            r#"{"schema":"plangate.policy.v1","max_changes":{"total":-1}}"#,
            r#"{"schema":"plangate.policy.v1","max_changes":{"totl":1}}"#,
            r#"{"schema":"plangate.policy.v1","projection_budget_bytes":196609}"#,
            r#"{"schema":"plangate.policy.v1","projection_budget_bytes":0}"#,
            r#"{"schema":"plangate.policy.v1","protect":[{"on":["delete"]}]}"#,
            r#"{"schema":"plangate.policy.v1","protect":[{"types":["a"],"on":[]}]}"#,
            r#"{"schema":"plangate.policy.v1","protect":[{"types":["a"],"on":["remove"]}]}"#,
            r#"{"schema":"plangate.policy.v1","protect":[{"types":[""],"on":["any"]}]}"#,
            r#"{"schema":"plangate.policy.v1","withhold":[{"types":["a"],"paths":[]}]}"#,
            r#"{"schema":"plangate.policy.v1","access_widening":"maybe"}"#,
            r#"{"schema":"plangate.policy.v1","own_rules":{"modules":{}}}"#,
            r#"{"schema":"plangate.policy.v1","own_rules":{"modules":{"a.txt":"package main"}}}"#,
            r#"{"schema":"plangate.policy.v1"} x"#,
            r#"["plangate.policy.v1"]"#,
            r#"{"schema":"plangate.policy.v1","max_changes":[null]}"#,
            r#"{"schema":"plangate.policy.v1","protect":[[["*"],[],["delete"]]]}"#,
        ] {
            assert!(parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn the_digest_is_of_what_is_said_and_not_of_how() {
        let one = parse(r#"{"schema":"plangate.policy.v1","max_changes":{"total":3,"delete":0}}"#).unwrap();
        let other = parse("{\"max_changes\":{\"delete\":0, \"total\":3},\n\"schema\":\"plangate.policy.v1\"}").unwrap();
        assert_eq!(one.digest(), other.digest());
        assert_ne!(one.digest(), Policy::default().digest());
    }

    #[test]
    fn the_published_schema_knows_the_fields_that_a_policy_has_and_no_other() {
        let schema: serde_json::Value = serde_json::from_str(JSON_SCHEMA).unwrap();
        let named =
            |object: &serde_json::Value| object["properties"].as_object().unwrap().keys().cloned().collect::<Vec<_>>();
        let full = Policy {
            protect: vec![Protect {
                types: vec![Pattern::new("a").unwrap()],
                addresses: vec![Pattern::new("b").unwrap()],
                on: vec![ProtectedFrom::Any],
            }],
            max_changes: MaxChanges {
                total: Some(1),
                create: Some(1),
                update: Some(1),
                delete: Some(1),
                replace: Some(1),
            },
            allowed_types: Some(Vec::new()),
            allowed_providers: Some(Vec::new()),
            withhold: vec![Withheld { types: vec!["a".to_owned()], paths: vec!["b".to_owned()] }],
            gate_resources: vec![Pattern::new("g").unwrap()],
            own_rules: Some(OwnRules { modules: [("a.rego".to_owned(), "package main".to_owned())].into() }),
            ..Policy::default()
        };
        let written = serde_json::to_value(&full).unwrap();
        let keys = |object: &serde_json::Value| object.as_object().unwrap().keys().cloned().collect::<Vec<_>>();
        let sorted = |mut names: Vec<String>| {
            names.sort();
            names
        };
        let fields = &schema["properties"];
        for (described, value) in [
            (&schema, &written),
            (&fields["protect"]["items"], &written["protect"][0]),
            (&fields["max_changes"], &written["max_changes"]),
            (&fields["withhold"]["items"], &written["withhold"][0]),
            (&fields["own_rules"], &written["own_rules"]),
        ] {
            assert_eq!(sorted(named(described)), sorted(keys(value)));
            assert_eq!(described["additionalProperties"], false);
        }
        assert_eq!(fields["projection_budget_bytes"]["maximum"].to_string(), LARGEST_BUDGET.to_string());
    }
}
