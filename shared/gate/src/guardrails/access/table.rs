//! The one table of access: which attribute of which type is judged by what.

mod identity;
mod network;
mod resource;
mod sharing;

use crate::guardrails::access::table::Missing::Nothing;

/// What there is where a policy is not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Missing {
    /// Nothing is permitted and nothing denied by its absence.
    Nothing,
    /// All is permitted: the policy only limits.
    Everything,
    /// A service's default, which is not known here: more than nothing, less than all.
    Default,
}

/// By what an attribute is judged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Judge {
    /// An IAM policy as JSON, and what there is without one.
    Document(Missing),
    /// Blocks with an IAM policy each (`policy`), which apply together.
    Documents,
    /// Something that only limits: putting it where nothing was is fine, all else is wider.
    Limit,
    /// Something that only grants: taking it away is fine, all else is wider.
    Grant,
    /// Whatever differs is wider.
    Exact,
    /// A list of those who may: whoever is new in it is wider.
    Members,
    /// A list of groups whose rules apply: whichever is new in it is wider, and none at all, which lets a default in.
    Groups,
    /// A flag that opens while it is true.
    Opens,
    /// A flag that closes while it is true.
    Closes,
    /// A word: any of these is closed, all others are wider. The empty word stands for nothing said.
    Closed(&'static [&'static str]),
    /// Blocks of ranges of addresses (`cidr`), as a set.
    Ranges,
    /// Blocks of rules of a security group.
    GroupRules,
    /// Blocks of numbered rules of a network.
    AclRules,
}

/// What a row is judged by as a whole, besides its attributes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Shape {
    /// Nothing.
    Attributes,
    /// One statement of a function's policy.
    LambdaPermission,
    /// One rule of a security group, of the older form.
    GroupRule,
    /// One rule of a security group.
    SingleRule,
    /// One numbered rule of a network.
    AclRule,
}

impl Shape {
    /// The attributes that make it up.
    pub(super) const fn attributes(self) -> &'static [&'static str] {
        match self {
            Self::Attributes => &[],
            Self::LambdaPermission => &[
                "action",
                "event_source_token",
                "function_url_auth_type",
                "invoked_via_function_url",
                "principal",
                "principal_org_id",
                "source_account",
                "source_arn",
            ],
            Self::GroupRule => &[
                "cidr_blocks",
                "from_port",
                "ipv6_cidr_blocks",
                "prefix_list_ids",
                "protocol",
                "self",
                "source_security_group_id",
                "to_port",
            ],
            Self::SingleRule => &[
                "cidr_ipv4",
                "cidr_ipv6",
                "from_port",
                "ip_protocol",
                "prefix_list_id",
                "referenced_security_group_id",
                "to_port",
            ],
            Self::AclRule => &[
                "cidr_block",
                "from_port",
                "icmp_code",
                "icmp_type",
                "ipv6_cidr_block",
                "protocol",
                "rule_action",
                "to_port",
            ],
        }
    }
}

/// What it means that a thing is there at all.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Presence {
    /// It is a thing of its own: with it goes all access to it, and from it.
    Object,
    /// It belongs to another thing, which stays: its attributes are compared with nothing when it comes or goes.
    Part,
    /// To have it is a grant.
    Grant,
    /// To have it is a limit.
    Limit,
    /// It may be either.
    Either,
}

/// How resources of one type are judged.
#[derive(Debug, Clone, Copy)]
pub(super) struct Kind {
    pub(super) name: &'static str,
    pub(super) presence: Presence,
    pub(super) shape: Shape,
    /// What it belongs to or is known by. If one of them changes, one thing goes and another comes.
    pub(super) targets: &'static [&'static str],
    pub(super) judged: &'static [(&'static str, Judge)],
    /// What grants nothing and limits nothing.
    pub(super) harmless: &'static [&'static str],
    /// Whether the type is about access alone: then an attribute that is not named here is not understood.
    pub(super) closed: bool,
}

/// What grants nothing and limits nothing, in every type. Some types have one of them as a target, which comes first.
const HARMLESS: [&str; 10] =
    ["arn", "create_date", "description", "id", "owner_id", "policy_id", "tags", "tags_all", "timeouts", "unique_id"];

/// What every thing is known by.
const TARGETS: [&str; 1] = ["region"];

/// Attributes that mean the same in every type that is not about access alone.
pub(super) const ANYWHERE: [(&str, Judge); 17] = [
    ("acl", Judge::Closed(&["", "private"])),
    ("allow_blob_public_access", Judge::Opens),
    ("assign_public_ip", Judge::Opens),
    ("associate_public_ip_address", Judge::Opens),
    ("block_public_acls", Judge::Closes),
    ("block_public_policy", Judge::Closes),
    ("endpoint_public_access", Judge::Opens),
    ("iam_instance_profile", Judge::Grant),
    ("ignore_public_acls", Judge::Closes),
    ("map_public_ip_on_launch", Judge::Opens),
    ("permissions_boundary", Judge::Limit),
    ("public_network_access_enabled", Judge::Opens),
    ("publicly_accessible", Judge::Opens),
    ("restrict_public_buckets", Judge::Closes),
    ("security_groups", Judge::Groups),
    ("shared_accounts", Judge::Members),
    ("vpc_security_group_ids", Judge::Groups),
];

/// A type about access alone.
const fn closed(
    name: &'static str,
    presence: Presence,
    targets: &'static [&'static str],
    judged: &'static [(&'static str, Judge)],
    harmless: &'static [&'static str],
) -> Kind {
    Kind { name, presence, shape: Shape::Attributes, targets, judged, harmless, closed: true }
}

/// A type that has attributes of access among others.
const fn open(name: &'static str, judged: &'static [(&'static str, Judge)]) -> Kind {
    let (targets, harmless) = (&[], &[]);
    Kind { name, presence: Presence::Object, shape: Shape::Attributes, targets, judged, harmless, closed: false }
}

/// A policy that is attached to `target`, where without it nothing is permitted and nothing denied.
const fn policy(
    name: &'static str,
    targets: &'static [&'static str],
    judged: &'static [(&'static str, Judge)],
    harmless: &'static [&'static str],
) -> Kind {
    closed(name, Presence::Part, targets, judged, harmless)
}

const POLICY: &[(&str, Judge)] = &[("policy", Judge::Document(Nothing))];

/// All types, part by part.
pub(super) fn kinds() -> impl Iterator<Item = &'static Kind> {
    identity::KINDS.iter().chain(resource::KINDS).chain(network::KINDS).chain(sharing::KINDS)
}

/// How resources of the type `name` are judged, if it is in the table.
pub(super) fn find(name: &str) -> Option<&'static Kind> {
    kinds().find(|kind| kind.name == name)
}

impl Kind {
    /// By what an attribute is judged, if by anything.
    pub(super) fn judge(&self, attribute: &str) -> Option<Judge> {
        let own = self.judged.iter().find(|(name, _)| *name == attribute).map(|(_, judge)| *judge);
        own.or_else(|| if self.closed { None } else { anywhere(attribute) })
    }

    /// Whether the thing belongs to what an attribute says, or is known by it.
    pub(super) fn is_target(&self, attribute: &str) -> bool {
        self.targets.contains(&attribute) || TARGETS.contains(&attribute)
    }

    /// Whether an attribute grants nothing and limits nothing by itself.
    pub(super) fn is_harmless(&self, attribute: &str) -> bool {
        self.shape.attributes().contains(&attribute)
            || self.harmless.contains(&attribute)
            || HARMLESS.contains(&attribute)
    }
}

/// By what an attribute is judged in types that are not in the table.
pub(super) fn anywhere(attribute: &str) -> Option<Judge> {
    ANYWHERE.iter().find(|(name, _)| *name == attribute).map(|(_, judge)| *judge)
}

/// The table as lines of text, for the rule set's digest.
pub(super) fn lines() -> Vec<String> {
    let mut lines: Vec<String> = kinds().map(|kind| format!("{kind:?} {:?}", kind.shape.attributes())).collect();
    lines.push(format!("{HARMLESS:?} {TARGETS:?} {ANYWHERE:?}"));
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::guardrails::access::names;

    #[test]
    fn a_type_stands_in_the_table_once_and_says_one_thing_of_an_attribute() {
        let mut names: Vec<&str> = kinds().map(|kind| kind.name).collect();
        names.sort_unstable();
        let all = names.len();
        names.dedup();
        assert_eq!(names.len(), all);
        for kind in kinds() {
            let judged = kind.judged.iter().map(|(name, _)| *name);
            let mut said: Vec<&str> =
                judged.chain(kind.targets.iter().copied()).chain(kind.harmless.iter().copied()).collect();
            let all = said.len();
            said.sort_unstable();
            said.dedup();
            assert_eq!(said.len(), all, "{}", kind.name);
            assert!(kind.closed || !names::grants(kind.name), "{}: access, and not looked at as a whole", kind.name);
            assert!(kind.harmless.iter().all(|name| !HARMLESS.contains(name)), "{}", kind.name);
        }
    }
}
