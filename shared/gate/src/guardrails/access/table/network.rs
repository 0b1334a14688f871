//! Who reaches whom: security groups, networks' own rules, lists of ranges.

use crate::guardrails::access::table::Judge::{AclRules, Exact, GroupRules, Ranges};
use crate::guardrails::access::table::{Kind, Presence, Shape, closed};

pub(super) const KINDS: &[Kind] = &[
    closed(
        "aws_security_group",
        Presence::Object,
        &["vpc_id"],
        &[("egress", GroupRules), ("ingress", GroupRules)],
        &["name", "name_prefix", "revoke_rules_on_delete"],
    ),
    closed(
        "aws_default_security_group",
        Presence::Object,
        &["vpc_id"],
        &[("egress", GroupRules), ("ingress", GroupRules)],
        &["name", "name_prefix", "revoke_rules_on_delete"],
    ),
    Kind {
        name: "aws_security_group_rule",
        presence: Presence::Object,
        shape: Shape::GroupRule,
        targets: &["security_group_id", "type"],
        judged: &[],
        harmless: &["security_group_rule_id"],
        closed: true,
    },
    Kind {
        name: "aws_vpc_security_group_ingress_rule",
        presence: Presence::Object,
        shape: Shape::SingleRule,
        targets: &["security_group_id"],
        judged: &[],
        harmless: &["security_group_rule_id"],
        closed: true,
    },
    Kind {
        name: "aws_vpc_security_group_egress_rule",
        presence: Presence::Object,
        shape: Shape::SingleRule,
        targets: &["security_group_id"],
        judged: &[],
        harmless: &["security_group_rule_id"],
        closed: true,
    },
    closed(
        "aws_vpc_security_group_vpc_association",
        Presence::Grant,
        &["security_group_id", "vpc_id"],
        &[],
        &["state"],
    ),
    closed(
        "aws_network_interface_sg_attachment",
        Presence::Grant,
        &["network_interface_id", "security_group_id"],
        &[],
        &[],
    ),
    // Subnets that lose theirs get the default one, which may admit everything.
    closed(
        "aws_network_acl",
        Presence::Limit,
        &["vpc_id"],
        &[("egress", AclRules), ("ingress", AclRules), ("subnet_ids", Exact)],
        &[],
    ),
    closed(
        "aws_default_network_acl",
        Presence::Object,
        &["default_network_acl_id"],
        &[("egress", AclRules), ("ingress", AclRules), ("subnet_ids", Exact)],
        &["vpc_id"],
    ),
    Kind {
        name: "aws_network_acl_rule",
        presence: Presence::Part,
        shape: Shape::AclRule,
        targets: &["egress", "network_acl_id", "rule_number"],
        judged: &[],
        harmless: &[],
        closed: true,
    },
    closed("aws_network_acl_association", Presence::Either, &["network_acl_id", "subnet_id"], &[], &[]),
    closed(
        "aws_ec2_managed_prefix_list",
        Presence::Object,
        &["address_family"],
        &[("entry", Ranges)],
        &["max_entries", "name", "version"],
    ),
    closed("aws_ec2_managed_prefix_list_entry", Presence::Grant, &["cidr", "prefix_list_id"], &[], &[]),
];
