//! What is shared with other accounts, and what is kept from being shared.

use crate::guardrails::access::table::Judge::{Closed, Closes, Exact, Grant, Members, Opens};
use crate::guardrails::access::table::{Kind, Presence, closed, open};

pub(super) const KINDS: &[Kind] = &[
    closed(
        "aws_ami_launch_permission",
        Presence::Grant,
        &["account_id", "group", "image_id", "organization_arn", "organizational_unit_arn"],
        &[],
        &[],
    ),
    closed("aws_snapshot_create_volume_permission", Presence::Grant, &["account_id", "snapshot_id"], &[], &[]),
    open("aws_db_snapshot", &[("shared_accounts", Members)]),
    open("aws_db_cluster_snapshot", &[("shared_accounts", Members)]),
    open("aws_ssm_document", &[("permissions", Grant)]),
    closed(
        "aws_ec2_image_block_public_access",
        Presence::Limit,
        &[],
        &[("state", Closed(&["block-new-sharing"]))],
        &[],
    ),
    closed(
        "aws_ebs_snapshot_block_public_access",
        Presence::Limit,
        &[],
        &[("state", Closed(&["block-all-sharing"]))],
        &[],
    ),
    closed(
        "aws_emr_block_public_access_configuration",
        Presence::Limit,
        &[],
        &[("block_public_security_group_rules", Closes), ("permitted_public_security_group_rule_range", Exact)],
        &[],
    ),
    closed(
        "aws_kms_grant",
        Presence::Grant,
        &["constraints", "grantee_principal", "key_id", "operations", "retiring_principal"],
        &[],
        &["grant_creation_tokens", "grant_id", "grant_token", "name", "retire_on_delete"],
    ),
    closed(
        "aws_ram_resource_share",
        Presence::Object,
        &[],
        &[("allow_external_principals", Opens), ("permission_arns", Exact)],
        &["name"],
    ),
    closed("aws_ram_principal_association", Presence::Grant, &["principal", "resource_share_arn"], &[], &[]),
    closed("aws_ram_resource_association", Presence::Grant, &["resource_arn", "resource_share_arn"], &[], &[]),
    closed(
        "aws_vpc_endpoint_service_allowed_principal",
        Presence::Grant,
        &["principal_arn", "vpc_endpoint_service_id"],
        &[],
        &[],
    ),
    closed(
        "aws_cloudwatch_event_permission",
        Presence::Grant,
        &["event_bus_name", "principal"],
        &[("action", Exact), ("condition", Exact)],
        &["statement_id"],
    ),
    closed(
        "aws_lambda_layer_version_permission",
        Presence::Grant,
        &["layer_name", "organization_id", "principal", "version_number"],
        &[("action", Exact)],
        &["policy", "revision_id", "skip_destroy", "statement_id"],
    ),
];
