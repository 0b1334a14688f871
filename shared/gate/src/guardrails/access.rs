//! Changes that may widen access. What looks like access and changes is not eligible; where it is plain that access
//! gets wider, the reason says so. Whether a change of a policy's text permits more is not decided here.

use std::borrow::Cow;

use crate::actions::Actions;
use crate::document::{Change, PlanDocument, Row};
use crate::guardrails::finding::{Finding, Reason};
use crate::mask::Mask;
use crate::policy::{AccessWidening, Policy};
use crate::value::Value;

/// Words, between underscores, in the names of types that grant, limit or open access. Tables of words are sorted.
const TYPE_WORDS: [&str; 50] = [
    "accepter",
    "access",
    "account",
    "acl",
    "acls",
    "alb",
    "association",
    "auth",
    "authorization",
    "authorizer",
    "binding",
    "bindings",
    "boundary",
    "collaborator",
    "credential",
    "credentials",
    "elb",
    "exposure",
    "federation",
    "firewall",
    "grant",
    "grants",
    "iam",
    "identity",
    "lb",
    "login",
    "member",
    "members",
    "membership",
    "oidc",
    "organizations",
    "peering",
    "permission",
    "permissions",
    "policies",
    "policy",
    "principal",
    "public",
    "ram",
    "role",
    "roles",
    "saml",
    "share",
    "sso",
    "token",
    "trust",
    "url",
    "user",
    "users",
    "vpn",
];

/// Parts of type names that mean access as a whole.
const TYPE_PARTS: [&str; 6] =
    ["security_group", "security_list", "group_rule", "access_key", "access_block", "resource_control"];

/// Words, between underscores, in the names of attributes that grant, limit or open access.
const ATTRIBUTE_WORDS: [&str; 42] = [
    "access",
    "acl",
    "acls",
    "allow",
    "allowed",
    "allowlist",
    "anonymous",
    "assume",
    "auth",
    "authentication",
    "authorization",
    "authorized",
    "boundary",
    "cidrs",
    "deny",
    "egress",
    "exposed",
    "external",
    "grant",
    "grants",
    "iam",
    "ingress",
    "insecure",
    "internal",
    "permission",
    "permissions",
    "policies",
    "policy",
    "principal",
    "principals",
    "privileged",
    "public",
    "publicly",
    "role",
    "roles",
    "share",
    "shared",
    "sharing",
    "trust",
    "trusted",
    "visibility",
    "whitelist",
];

/// Parts of attribute names that mean access as a whole.
const ATTRIBUTE_PARTS: [&str; 7] =
    ["security_group", "cidr_blocks", "cidr_ipv", "source_ranges", "source_address", "group_add", "user_id_group"];

/// Words in the names of flags that are shut while they are false.
const SHUT_WHEN_FALSE: [&str; 11] = [
    "allow",
    "allowed",
    "anonymous",
    "exposed",
    "insecure",
    "privileged",
    "public",
    "publicly",
    "share",
    "shared",
    "sharing",
];

/// Flags that open something to the world when they are true.
const OPENING_FLAGS: [&str; 6] = [
    "publicly_accessible",
    "endpoint_public_access",
    "public_network_access_enabled",
    "associate_public_ip_address",
    "map_public_ip_on_launch",
    "allow_blob_public_access",
];

/// Flags that keep the public out while they are true.
const CLOSING_FLAGS: [&str; 4] =
    ["block_public_acls", "block_public_policy", "ignore_public_acls", "restrict_public_buckets"];

/// Types whose removal lets the public in.
const CLOSING_TYPES: [&str; 2] = ["aws_s3_bucket_public_access_block", "aws_s3_account_public_access_block"];

/// Attributes and the values of theirs that open something to everybody.
const OPENING_VALUES: [&str; 6] = [
    "acl=public-read",
    "acl=public-read-write",
    "acl=authenticated-read",
    "authorization_type=NONE",
    "authorization=NONE",
    "visibility=public",
];

/// All tables, for the rule set's digest.
pub(super) const TABLES: [&[&str]; 9] = [
    &TYPE_WORDS,
    &TYPE_PARTS,
    &ATTRIBUTE_WORDS,
    &ATTRIBUTE_PARTS,
    &SHUT_WHEN_FALSE,
    &OPENING_FLAGS,
    &CLOSING_FLAGS,
    &CLOSING_TYPES,
    &OPENING_VALUES,
];

/// Adds a finding for each change that widens access, or that may.
pub(super) fn check(document: &PlanDocument<'_>, policy: &Policy, findings: &mut Vec<Finding>) {
    if policy.access_widening == AccessWidening::Allow {
        return;
    }
    for row in &document.planned().rows {
        // Reading, opening and letting go grant nothing. Unknown actions are looked at as if they were changes.
        if !matches!(row.change.actions, Actions::NoOp | Actions::Read | Actions::Forget | Actions::Open) {
            row_findings(row, findings);
        }
    }
}

fn row_findings(row: &Row<'_>, findings: &mut Vec<Finding>) {
    let at = |reason| Finding::at(reason, row.address.as_ref());
    let change = &row.change;
    let start = findings.len();
    if CLOSING_TYPES.contains(&row.kind.as_ref()) && change.actions.destroys() {
        findings.push(at(Reason::AccessWidened));
    }
    if change.actions != Actions::Delete {
        let widened = attributes(change).filter(|(key, sides)| sides.widens(key));
        findings.extend(widened.map(|(key, _)| at(Reason::AccessWidened).attribute(key)));
        let opened = attributes(change).filter(|(_, sides)| sides.opens_to_the_world());
        if grants(&row.kind) {
            findings.extend(opened.map(|(key, _)| at(Reason::AccessWidened).attribute(key)));
        }
    }
    if findings.len() > start {
        return;
    }
    if grants(&row.kind) {
        findings.push(at(Reason::AccessNotUnderstood));
    } else if change.actions != Actions::Delete {
        if !matches!(change.after, None | Some(Value::Object(_))) || change.after_unknown == Mask::Whole {
            findings.push(at(Reason::AccessNotUnderstood));
        }
        let touched = attributes(change).filter(|(key, sides)| sides.touches_access(key));
        findings.extend(touched.map(|(key, _)| at(Reason::AccessNotUnderstood).attribute(key)));
    }
}

/// Whether resources of a type grant, limit or open access, by the type's name.
fn grants(kind: &str) -> bool {
    speaks_of(kind, &TYPE_WORDS, &TYPE_PARTS)
}

fn speaks_of(name: &str, words: &[&str], parts: &[&str]) -> bool {
    let name =
        if name.bytes().any(|b| b.is_ascii_uppercase() || !b.is_ascii()) { snake_case(name) } else { name.into() };
    name.split(|c: char| !c.is_alphanumeric()).any(|word| words.binary_search(&word).is_ok())
        || parts.iter().any(|part| name.contains(part))
}

/// `assumeRole` and `cidrBlocks` speak of the same as `assume_role` and `cidr_blocks`.
fn snake_case(name: &str) -> Cow<'_, str> {
    let mut snake = String::with_capacity(name.len() + 4);
    for c in name.chars() {
        if c.is_uppercase() {
            snake.push('_');
        }
        snake.extend(c.to_lowercase());
    }
    snake.into()
}

/// One attribute on both sides of a change.
struct Sides<'c, 'd> {
    before: Option<&'c Value<'d>>,
    after: Option<&'c Value<'d>>,
    unknown: &'c Mask<'d>,
    sensitive: bool,
}

fn attributes<'c, 'd>(change: &'c Change<'d>) -> impl Iterator<Item = (&'c str, Sides<'c, 'd>)> {
    let before = change.before.as_ref();
    let after = change.after.as_ref();
    let fields = [before, after].into_iter().flatten().flat_map(Value::fields).map(|(key, _)| key.as_ref());
    let mut keys: Vec<&str> = fields.chain(change.after_unknown.keys().iter().map(|(key, _)| key.as_ref())).collect();
    keys.sort();
    keys.dedup();
    keys.into_iter().map(move |key| {
        let hidden = [&change.before_sensitive, &change.after_sensitive]
            .into_iter()
            .any(|mask| *mask == Mask::Whole || !mask.field(key).is_clear());
        let sides = Sides {
            before: before.and_then(|value| value.field(key)),
            after: after.and_then(|value| value.field(key)),
            unknown: change.after_unknown.field(key),
            sensitive: hidden,
        };
        (key, sides)
    })
}

impl Sides<'_, '_> {
    /// Whether it is plain, from a single flag or word, that access gets wider. What cannot be seen counts as wider.
    fn widens(&self, key: &str) -> bool {
        let unseen = !self.unknown.is_clear() || self.sensitive;
        let is = |side: Option<&Value<'_>>, flag| side == Some(&Value::Bool(flag));
        if OPENING_FLAGS.contains(&key) {
            return !is(self.before, true) && (unseen || is(self.after, true));
        }
        if CLOSING_FLAGS.contains(&key) {
            return is(self.before, true) && (unseen || !is(self.after, true));
        }
        let opening = |side: Option<&Value<'_>>| {
            side.and_then(Value::text).is_some_and(|text| OPENING_VALUES.contains(&format!("{key}={text}").as_str()))
        };
        !opening(self.before) && opening(self.after)
    }

    /// Whether a range of all addresses stands in it after, and none before.
    fn opens_to_the_world(&self) -> bool {
        !self.before.is_some_and(holds_everything) && self.after.is_some_and(holds_everything)
    }

    /// Whether anything that speaks of access differs between the sides, or is not known.
    fn touches_access(&self, key: &str) -> bool {
        differs(key, self.before, self.after, self.unknown)
    }
}

/// Whether something at or under the field `key` speaks of access and is not the same on both sides.
fn differs(key: &str, before: Option<&Value<'_>>, after: Option<&Value<'_>>, unknown: &Mask<'_>) -> bool {
    if before == after && unknown.is_clear() {
        return false;
    }
    if speaks_of(key, &ATTRIBUTE_WORDS, &ATTRIBUTE_PARTS) {
        let shut = speaks_of(key, &SHUT_WHEN_FALSE, &[]);
        let nothing = |value| is_nothing(value) || shut && value == Some(&Value::Bool(false));
        return !(unknown.is_clear() && nothing(before) && nothing(after));
    }
    let named = before.into_iter().chain(after).flat_map(Value::fields).map(|(key, _)| key.as_ref());
    let mut keys: Vec<&str> = named.chain(unknown.keys().iter().map(|(key, _)| key.as_ref())).collect();
    keys.sort();
    keys.dedup();
    let longest = before.into_iter().chain(after).map(|value| value.elements().len()).max().unwrap_or_default();
    keys.into_iter().any(|key| {
        differs(
            key,
            before.and_then(|value| value.field(key)),
            after.and_then(|value| value.field(key)),
            unknown.field(key),
        )
    }) || (0..longest).any(|position| {
        let before = before.and_then(|value| value.element(position));
        differs("", before, after.and_then(|value| value.element(position)), unknown.element(position))
    })
}

/// Absent, null or empty: what a schema gives where nothing was said.
fn is_nothing(value: Option<&Value<'_>>) -> bool {
    match value {
        None | Some(Value::Null) => true,
        Some(Value::String(text)) => text.is_empty(),
        Some(Value::Number(_) | Value::Bool(_)) => false,
        Some(container) => container.elements().is_empty() && container.fields().is_empty(),
    }
}

/// Whether a range of all addresses of a family stands in a value: anything with a prefix of no bits.
fn holds_everything(value: &Value<'_>) -> bool {
    let everything = |text: &str| {
        text.split(',').any(|range| {
            range.trim().split_once('/').is_some_and(|(address, bits)| {
                !bits.is_empty() && bits.bytes().all(|b| b == b'0') && address.parse::<std::net::IpAddr>().is_ok()
            })
        })
    };
    value.text().is_some_and(everything)
        || value.elements().iter().any(holds_everything)
        || value.fields().iter().any(|(_, field)| holds_everything(field))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_of_words_are_sorted_so_that_every_word_is_found() {
        for table in [&TYPE_WORDS[..], &ATTRIBUTE_WORDS, &SHUT_WHEN_FALSE] {
            assert!(table.is_sorted_by(|one, next| one < next));
        }
    }

    #[test]
    fn names_speak_of_access_by_whole_words() {
        for kind in
            ["aws_iam_role", "aws_lb", "vault_policy", "kubernetes_role_binding_v1", "aws_default_security_group"]
        {
            assert!(grants(kind), "{kind}");
        }
        for kind in ["random_pet", "terraform_data", "aws_sqs_queue", "oracle_enrolled", "aws_instance"] {
            assert!(!grants(kind), "{kind}");
        }
        assert!(speaks_of("assumeRolePolicy", &ATTRIBUTE_WORDS, &ATTRIBUTE_PARTS));
        assert!(speaks_of("SecurityGroupIds", &ATTRIBUTE_WORDS, &ATTRIBUTE_PARTS));
        assert!(!speaks_of("cidr_block", &ATTRIBUTE_WORDS, &ATTRIBUTE_PARTS));
    }
}
