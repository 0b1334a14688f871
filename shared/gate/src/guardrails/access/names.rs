//! What is known of access by names alone: of types and attributes that no table knows.

use std::borrow::Cow;

use crate::guardrails::access::sides::is_nothing;
use crate::mask::Mask;
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
const TYPE_PARTS: [&str; 7] = [
    "security_group",
    "security_list",
    "group_rule",
    "access_key",
    "access_block",
    "resource_control",
    "verifiedaccess",
];

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

/// The tables, for the rule set's digest.
pub(super) const TABLES: [&[&str]; 5] =
    [&TYPE_WORDS, &TYPE_PARTS, &ATTRIBUTE_WORDS, &ATTRIBUTE_PARTS, &SHUT_WHEN_FALSE];

/// Whether resources of a type grant, limit or open access, by the type's name.
pub(super) fn grants(kind: &str) -> bool {
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

/// Whether something at or under the field `key` speaks of access and is not the same on both sides.
pub(super) fn differs(key: &str, before: Option<&Value<'_>>, after: Option<&Value<'_>>, unknown: &Mask<'_>) -> bool {
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
