//! What may be done with things, said by the things themselves: resource policies, lists of access, public doors.

use crate::guardrails::access::table::Judge::{Closed, Closes, Document, Exact, Grant, Groups, Members};
use crate::guardrails::access::table::Missing::{Default, Everything, Nothing};
use crate::guardrails::access::table::{Judge, Kind, POLICY, Presence, Shape, closed, open, policy};

const ACCESS_POLICIES: &[(&str, Judge)] = &[("access_policies", Document(Default))];
const POLICY_DOCUMENT: &[(&str, Judge)] = &[("policy_document", Document(Nothing))];
const RESOURCE_POLICY: &[(&str, Judge)] = &[("resource_policy", Document(Nothing))];
const DEFAULT_POLICY: &[(&str, Judge)] = &[("policy", Document(Default))];
const LIMITING_POLICY: &[(&str, Judge)] = &[("policy", Document(Everything))];
const PUBLIC_BLOCK: &[(&str, Judge)] = &[
    ("block_public_acls", Closes),
    ("block_public_policy", Closes),
    ("ignore_public_acls", Closes),
    ("restrict_public_buckets", Closes),
];

pub(super) const KINDS: &[Kind] = &[
    // S3
    open("aws_s3_bucket", &[("grant", Members), ("policy", Document(Nothing))]),
    policy("aws_s3_bucket_policy", &["bucket"], POLICY, &[]),
    closed(
        "aws_s3_bucket_acl",
        Presence::Object,
        &["bucket", "expected_bucket_owner"],
        &[("access_control_policy", Grant), ("acl", Closed(&["", "private"]))],
        &[],
    ),
    closed("aws_s3_bucket_public_access_block", Presence::Limit, &["bucket"], PUBLIC_BLOCK, &["skip_destroy"]),
    closed("aws_s3_account_public_access_block", Presence::Limit, &["account_id"], PUBLIC_BLOCK, &[]),
    closed("aws_s3_bucket_ownership_controls", Presence::Limit, &["bucket"], &[("rule", Exact)], &[]),
    policy("aws_s3control_access_point_policy", &["access_point_arn"], POLICY, &["has_public_access_policy"]),
    policy("aws_s3control_bucket_policy", &["bucket"], POLICY, &[]),
    policy(
        "aws_s3control_object_lambda_access_point_policy",
        &["account_id", "name"],
        POLICY,
        &["has_public_access_policy"],
    ),
    policy("aws_s3tables_table_bucket_policy", &["table_bucket_arn"], RESOURCE_POLICY, &[]),
    policy("aws_s3tables_table_policy", &["name", "namespace", "table_bucket_arn"], RESOURCE_POLICY, &[]),
    // Keys and secrets
    open("aws_kms_key", DEFAULT_POLICY),
    open("aws_kms_external_key", DEFAULT_POLICY),
    open("aws_kms_replica_key", DEFAULT_POLICY),
    open("aws_kms_replica_external_key", DEFAULT_POLICY),
    policy("aws_kms_key_policy", &["key_id"], DEFAULT_POLICY, &["bypass_policy_lockout_safety_check"]),
    open("aws_secretsmanager_secret", POLICY),
    policy(
        "aws_secretsmanager_secret_policy",
        &["secret_arn"],
        &[("block_public_policy", Closes), ("policy", Document(Nothing))],
        &[],
    ),
    policy("aws_acmpca_policy", &["resource_arn"], POLICY, &[]),
    // Messages and events
    open("aws_sqs_queue", POLICY),
    policy("aws_sqs_queue_policy", &["queue_url"], POLICY, &[]),
    open("aws_sns_topic", DEFAULT_POLICY),
    policy("aws_sns_topic_policy", &["arn"], DEFAULT_POLICY, &["owner"]),
    policy("aws_cloudwatch_event_bus_policy", &["event_bus_name"], POLICY, &[]),
    policy(
        "aws_cloudwatch_log_destination_policy",
        &["destination_name"],
        &[("access_policy", Document(Nothing))],
        &["force_update"],
    ),
    policy(
        "aws_cloudwatch_log_resource_policy",
        &["policy_name", "resource_arn"],
        POLICY_DOCUMENT,
        &["policy_scope", "revision_id"],
    ),
    policy("aws_kinesis_resource_policy", &["resource_arn"], POLICY, &[]),
    policy("aws_msk_cluster_policy", &["cluster_arn"], POLICY, &["current_version"]),
    policy("aws_schemas_registry_policy", &["registry_name"], POLICY, &[]),
    policy("aws_ses_identity_policy", &["identity", "name"], POLICY, &[]),
    policy("aws_sesv2_email_identity_policy", &["email_identity", "policy_name"], POLICY, &[]),
    // Functions and interfaces
    Kind {
        name: "aws_lambda_permission",
        presence: Presence::Grant,
        shape: Shape::LambdaPermission,
        targets: &["function_name", "qualifier"],
        judged: &[],
        harmless: &["statement_id", "statement_id_prefix"],
        closed: true,
    },
    closed(
        "aws_lambda_function_url",
        Presence::Object,
        &["function_name", "qualifier"],
        &[("authorization_type", Closed(&["AWS_IAM"])), ("cors", Exact)],
        &["function_arn", "function_url", "invoke_mode", "url_id"],
    ),
    open("aws_api_gateway_rest_api", DEFAULT_POLICY),
    policy("aws_api_gateway_rest_api_policy", &["rest_api_id"], DEFAULT_POLICY, &[]),
    open(
        "aws_api_gateway_method",
        &[
            ("api_key_required", Closes),
            ("authorization", Exact),
            ("authorization_scopes", Exact),
            ("authorizer_id", Exact),
        ],
    ),
    open(
        "aws_apigatewayv2_route",
        &[
            ("api_key_required", Closes),
            ("authorization_scopes", Exact),
            ("authorization_type", Exact),
            ("authorizer_id", Exact),
        ],
    ),
    open("aws_appsync_graphql_api", &[("authentication_type", Exact)]),
    policy("aws_vpclattice_auth_policy", &["resource_identifier"], DEFAULT_POLICY, &["state"]),
    policy("aws_vpclattice_resource_policy", &["resource_arn"], POLICY, &[]),
    // Data
    policy(
        "aws_dynamodb_resource_policy",
        &["resource_arn"],
        POLICY,
        &["confirm_remove_self_resource_access", "revision_id"],
    ),
    policy("aws_ecr_repository_policy", &["repository"], POLICY, &["registry_id"]),
    policy("aws_ecrpublic_repository_policy", &["repository_name"], POLICY, &["registry_id"]),
    policy("aws_ecr_registry_policy", &[], POLICY, &["registry_id"]),
    // Without a policy every client that reaches a file system may mount it.
    policy("aws_efs_file_system_policy", &["file_system_id"], LIMITING_POLICY, &["bypass_policy_lockout_safety_check"]),
    open("aws_opensearch_domain", ACCESS_POLICIES),
    open("aws_elasticsearch_domain", ACCESS_POLICIES),
    policy("aws_opensearch_domain_policy", &["domain_name"], ACCESS_POLICIES, &[]),
    policy("aws_elasticsearch_domain_policy", &["domain_name"], ACCESS_POLICIES, &[]),
    policy("aws_glue_resource_policy", &[], &[("enable_hybrid", Exact), ("policy", Document(Nothing))], &[]),
    policy("aws_backup_vault_policy", &["backup_vault_name"], POLICY, &["backup_vault_arn"]),
    open("aws_glacier_vault", &[("access_policy", Document(Nothing))]),
    policy("aws_media_store_container_policy", &["container_name"], POLICY, &[]),
    policy(
        "aws_codeartifact_domain_permissions_policy",
        &["domain", "domain_owner"],
        POLICY_DOCUMENT,
        &["policy_revision", "resource_arn"],
    ),
    policy(
        "aws_codeartifact_repository_permissions_policy",
        &["domain", "domain_owner", "repository"],
        POLICY_DOCUMENT,
        &["policy_revision", "resource_arn"],
    ),
    policy("aws_codebuild_resource_policy", &["resource_arn"], POLICY, &[]),
    policy("aws_redshift_resource_policy", &["resource_arn"], POLICY, &[]),
    policy("aws_redshiftserverless_resource_policy", &["resource_arn"], POLICY, &[]),
    policy("aws_sagemaker_model_package_group_policy", &["model_package_group_name"], RESOURCE_POLICY, &[]),
    policy(
        "aws_xray_resource_policy",
        &["policy_name"],
        POLICY_DOCUMENT,
        &["bypass_policy_lockout_check", "last_updated_time", "policy_revision_id"],
    ),
    // Doors between networks
    open("aws_vpc_endpoint", &[("policy", Document(Everything)), ("security_group_ids", Groups)]),
    policy("aws_vpc_endpoint_policy", &["vpc_endpoint_id"], LIMITING_POLICY, &[]),
    open("aws_vpc_endpoint_service", &[("acceptance_required", Closes), ("allowed_principals", Members)]),
    policy("aws_networkfirewall_resource_policy", &["resource_arn"], POLICY, &[]),
    // That a thing is open to the public is judged in every type.
    open("aws_redshift_cluster", &[("iam_roles", Members)]),
];
