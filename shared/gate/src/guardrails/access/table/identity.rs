//! Who may do what: identities, their policies, organizations.

use crate::guardrails::access::table::Judge::{Closed, Document, Documents, Exact, Grant, Limit, Members};
use crate::guardrails::access::table::Missing::Nothing;
use crate::guardrails::access::table::{Kind, POLICY, Presence, closed, policy};

pub(super) const KINDS: &[Kind] = &[
    // The tags of an identity are what policies ask of it.
    closed(
        "aws_iam_role",
        Presence::Object,
        &["name", "name_prefix", "path"],
        &[
            ("assume_role_policy", Document(Nothing)),
            ("inline_policy", Documents),
            ("managed_policy_arns", Exact),
            ("permissions_boundary", Limit),
            ("tags", Exact),
            ("tags_all", Exact),
        ],
        &["force_detach_policies", "max_session_duration", "role_last_used"],
    ),
    closed("aws_iam_user", Presence::Object, &["name", "path"], &[("permissions_boundary", Limit)], &["force_destroy"]),
    closed("aws_iam_group", Presence::Object, &["name", "path"], &[], &[]),
    policy(
        "aws_iam_policy",
        &["name", "name_prefix", "path"],
        POLICY,
        &["attachment_count", "delay_after_policy_creation_in_ms"],
    ),
    policy("aws_iam_role_policy", &["name", "name_prefix", "role"], POLICY, &[]),
    policy("aws_iam_user_policy", &["name", "name_prefix", "user"], POLICY, &[]),
    policy("aws_iam_group_policy", &["name", "name_prefix", "group"], POLICY, &[]),
    // What an attached policy says does not stand in the plan: it may allow, and it may deny.
    closed("aws_iam_role_policy_attachment", Presence::Either, &["role", "policy_arn"], &[], &[]),
    closed("aws_iam_user_policy_attachment", Presence::Either, &["user", "policy_arn"], &[], &[]),
    closed("aws_iam_group_policy_attachment", Presence::Either, &["group", "policy_arn"], &[], &[]),
    closed(
        "aws_iam_policy_attachment",
        Presence::Either,
        &["policy_arn", "name"],
        &[("groups", Exact), ("roles", Exact), ("users", Exact)],
        &[],
    ),
    closed("aws_iam_group_membership", Presence::Either, &["group", "name"], &[("users", Exact)], &[]),
    closed("aws_iam_user_group_membership", Presence::Either, &["user"], &[("groups", Exact)], &[]),
    closed("aws_iam_instance_profile", Presence::Object, &["name", "name_prefix", "path"], &[("role", Grant)], &[]),
    closed("aws_iam_access_key", Presence::Grant, &["user", "pgp_key"], &[("status", Closed(&["Inactive"]))], &[]),
    closed("aws_iam_user_login_profile", Presence::Grant, &["user", "pgp_key"], &[], &[]),
    closed(
        "aws_iam_user_ssh_key",
        Presence::Grant,
        &["username", "public_key"],
        &[("status", Closed(&["Inactive"]))],
        &[],
    ),
    closed(
        "aws_iam_service_linked_role",
        Presence::Grant,
        &["aws_service_name", "custom_suffix"],
        &[],
        &["name", "path"],
    ),
    closed(
        "aws_iam_openid_connect_provider",
        Presence::Grant,
        &["url"],
        &[("client_id_list", Members), ("thumbprint_list", Members)],
        &[],
    ),
    closed("aws_iam_saml_provider", Presence::Grant, &["name"], &[("saml_metadata_document", Exact)], &["valid_until"]),
    // A policy of an organization only limits, but it may be what another policy of the same level is widened by.
    policy("aws_organizations_policy", &["type"], &[("content", Document(Nothing))], &["name", "skip_destroy"]),
    closed(
        "aws_organizations_policy_attachment",
        Presence::Either,
        &["policy_id", "target_id"],
        &[],
        &["skip_destroy"],
    ),
    policy("aws_organizations_resource_policy", &[], &[("content", Document(Nothing))], &[]),
    closed(
        "aws_organizations_delegated_administrator",
        Presence::Grant,
        &["account_id", "service_principal"],
        &[],
        &["delegation_enabled_date", "email", "joined_method", "joined_timestamp", "name", "status"],
    ),
    closed(
        "aws_ssoadmin_account_assignment",
        Presence::Grant,
        &["instance_arn", "permission_set_arn", "principal_id", "principal_type", "target_id", "target_type"],
        &[],
        &[],
    ),
    policy(
        "aws_ssoadmin_permission_set_inline_policy",
        &["instance_arn", "permission_set_arn"],
        &[("inline_policy", Document(Nothing))],
        &[],
    ),
    closed(
        "aws_ssoadmin_managed_policy_attachment",
        Presence::Either,
        &["instance_arn", "permission_set_arn", "managed_policy_arn"],
        &[],
        &["managed_policy_name"],
    ),
    closed(
        "aws_ssoadmin_permissions_boundary_attachment",
        Presence::Limit,
        &["instance_arn", "permission_set_arn"],
        &[("permissions_boundary", Limit)],
        &[],
    ),
    policy("aws_iot_policy", &["name"], POLICY, &["default_version_id"]),
    closed("aws_iot_policy_attachment", Presence::Either, &["policy", "target"], &[], &[]),
];
