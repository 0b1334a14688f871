//! Every attribute of the table: on a change that widens, on one that does not, and on some that cannot be decided.

use serde_json::{Value as Json, json};

use super::table::{Judge, Missing, Presence, kinds};
use super::*;

fn found(kind: &str, change: &Json) -> Vec<String> {
    let row = json!({"address": format!("{kind}.x"), "type": kind, "change": change});
    let text = json!({"format_version": "1.2", "resource_changes": [row]}).to_string();
    let document = PlanDocument::parse_untrusted(text.as_bytes()).unwrap();
    let mut findings = Vec::new();
    check(&document, &Policy::default(), &mut findings);
    findings.iter().map(ToString::to_string).collect()
}

fn policy(actions: &[&str]) -> Json {
    let statement = json!({"Effect": "Allow", "Principal": "*", "Action": actions, "Resource": "*"});
    json!({"Version": "2012-10-17", "Statement": [statement]}).to_string().into()
}

/// A value and a wider one: to go from the one to the other widens, to go back does not. None where no change is seen
/// to be harmless.
fn pair(judge: Judge) -> Option<(Json, Json)> {
    let group = |cidr: &str| {
        json!([{
            "cidr_blocks": [cidr], "description": "", "from_port": 443, "ipv6_cidr_blocks": [], "prefix_list_ids": [],
            "protocol": "tcp", "security_groups": [], "self": false, "to_port": 443
        }])
    };
    let acl = |cidr: &str| {
        json!([{
            "action": "allow", "cidr_block": cidr, "from_port": 443, "icmp_code": 0, "icmp_type": 0,
            "ipv6_cidr_block": "", "protocol": "tcp", "rule_no": 100, "to_port": 443
        }])
    };
    let inline = |actions: &[&str]| json!([{"name": "a", "policy": policy(actions)}]);
    let (read, write) = (["s3:GetObject"], ["s3:GetObject", "s3:PutObject"]);
    Some(match judge {
        Judge::Document(_) => (policy(&read), policy(&write)),
        Judge::Documents => (inline(&read), inline(&write)),
        Judge::Limit => ("boundary".into(), Json::Null),
        Judge::Grant => (Json::Null, "somebody".into()),
        Judge::Exact => return None,
        Judge::Members | Judge::Groups => (json!(["a"]), json!(["a", "b"])),
        Judge::Opens => (false.into(), true.into()),
        Judge::Closes => (true.into(), false.into()),
        Judge::Closed(words) => ((*words.last().unwrap()).into(), "wide-open".into()),
        Judge::Ranges => (json!([{"cidr": "10.0.0.0/9"}]), json!([{"cidr": "10.0.0.0/8", "description": "all"}])),
        Judge::GroupRules => (group("10.0.0.0/9"), group("10.0.0.0/8")),
        Judge::AclRules => (acl("10.0.0.0/9"), acl("10.0.0.0/8")),
    })
}

/// Every type with every attribute that is judged in it, and those that are judged in all other types.
fn attributes() -> Vec<(&'static str, &'static str, Judge)> {
    let own = kinds().flat_map(|kind| kind.judged.iter().map(|(name, judge)| (kind.name, *name, *judge)));
    let others = table::ANYWHERE.iter().map(|(name, judge)| ("aws_thing", *name, *judge));
    own.chain(others).collect()
}

#[test]
fn each_attribute_is_seen_to_widen_and_seen_not_to() {
    for (kind, name, judge) in attributes() {
        let change = |before: &Json, after: &Json| {
            found(kind, &json!({"actions": ["update"], "before": {name: before}, "after": {name: after}}))
        };
        let widened = [format!("access-widened {kind}.x {name}")];
        let (narrow, wide) = pair(judge).unwrap_or_else(|| ("a".into(), "b".into()));
        assert_eq!(change(&narrow, &wide), widened, "{kind} {name}: wider");
        assert!(change(&wide, &wide).is_empty(), "{kind} {name}: the same");
        if pair(judge).is_some() {
            assert!(change(&wide, &narrow).is_empty(), "{kind} {name}: narrower");
        } else {
            assert_eq!(change(&wide, &narrow), widened, "{kind} {name}: whatever differs");
        }
    }
}

#[test]
fn each_attribute_that_is_unknown_hidden_or_unheard_of_is_wider() {
    for (kind, name, judge) in attributes() {
        let widened = [format!("access-widened {kind}.x {name}")];
        let (narrow, _) = pair(judge).unwrap_or_else(|| ("a".into(), "b".into()));
        let unknown =
            json!({"actions": ["update"], "before": {name: narrow}, "after": {}, "after_unknown": {name: true}});
        assert_eq!(found(kind, &unknown), widened, "{kind} {name}: unknown");
        let within = json!({"actions": ["update"], "before": {name: narrow}, "after": {name: narrow}, "after_unknown": {name: [{"x": true}]}});
        assert_eq!(found(kind, &within), widened, "{kind} {name}: unknown within");
        for side in ["before_sensitive", "after_sensitive"] {
            let hidden =
                json!({"actions": ["update"], "before": {name: narrow}, "after": {name: narrow}, side: {name: true}});
            assert_eq!(found(kind, &hidden), widened, "{kind} {name}: {side}");
        }
        let odd = json!({"actions": ["update"], "before": {name: narrow}, "after": {name: 7}});
        assert_eq!(found(kind, &odd), widened, "{kind} {name}: not what it should be");
        let whole = json!({"actions": ["update"], "before": {name: narrow}, "after": {}, "after_unknown": true});
        assert_eq!(found(kind, &whole).len(), 1, "{kind}: unknown as a whole");
    }
}

#[test]
fn what_comes_and_what_goes_is_judged_by_what_it_is() {
    for kind in kinds() {
        let whole = vec![format!("access-widened {}.x", kind.name)];
        let expected = |wider: bool| if wider { whole.clone() } else { Vec::new() };
        let comes = found(kind.name, &json!({"actions": ["create"], "before": null, "after": {}}));
        assert_eq!(comes, expected(matches!(kind.presence, Presence::Grant | Presence::Either)), "{} comes", kind.name);
        let goes = found(kind.name, &json!({"actions": ["delete"], "before": {}, "after": null}));
        assert_eq!(goes, expected(matches!(kind.presence, Presence::Limit | Presence::Either)), "{} goes", kind.name);
    }
}

#[test]
fn a_policy_that_goes_takes_its_denials_with_it() {
    let deny = json!({"Statement": {"Effect": "Deny", "Principal": "*", "Action": "*", "Resource": "*"}}).to_string();
    for kind in kinds() {
        for (name, judge) in kind.judged {
            let Judge::Document(missing) = judge else { continue };
            let gone = |policy: &Json| {
                found(kind.name, &json!({"actions": ["update"], "before": {*name: policy}, "after": {}}))
            };
            let widened = [format!("access-widened {}.x {name}", kind.name)];
            assert_eq!(gone(&deny.clone().into()), widened, "{}", kind.name);
            let harmless = *missing == Missing::Nothing;
            assert_eq!(gone(&policy(&["s3:GetObject"])).is_empty(), harmless, "{}: what allows alone", kind.name);
        }
    }
}

#[test]
fn an_attribute_that_nobody_spoke_of_is_not_understood_in_a_type_about_access() {
    for kind in kinds() {
        let change = json!({"actions": ["update"], "before": {"unheard_of": 1}, "after": {"unheard_of": 2}});
        let expected = kind.closed.then(|| format!("access-not-understood {}.x unheard_of", kind.name));
        assert_eq!(found(kind.name, &change), expected.into_iter().collect::<Vec<_>>());
    }
}

#[test]
fn the_table_has_the_kinds_of_access_that_aws_has() {
    for (what, names) in [
        ("identity policies", "aws_iam_policy aws_iam_role_policy aws_iam_user_policy aws_iam_group_policy"),
        (
            "attachments",
            "aws_iam_role_policy_attachment aws_iam_user_policy_attachment aws_iam_group_policy_attachment aws_iam_policy_attachment",
        ),
        ("trust", "aws_iam_role aws_iam_openid_connect_provider aws_iam_saml_provider"),
        ("S3", "aws_s3_bucket_policy aws_s3_bucket aws_s3control_access_point_policy"),
        ("KMS", "aws_kms_key aws_kms_key_policy aws_kms_grant"),
        ("SQS", "aws_sqs_queue aws_sqs_queue_policy"),
        ("SNS", "aws_sns_topic aws_sns_topic_policy"),
        ("Lambda", "aws_lambda_permission aws_lambda_function_url"),
        ("Secrets Manager", "aws_secretsmanager_secret aws_secretsmanager_secret_policy"),
        ("ECR", "aws_ecr_repository_policy aws_ecr_registry_policy"),
        ("EFS", "aws_efs_file_system_policy"),
        ("OpenSearch", "aws_opensearch_domain aws_opensearch_domain_policy"),
        ("API Gateway", "aws_api_gateway_rest_api aws_api_gateway_rest_api_policy"),
        ("Glue", "aws_glue_resource_policy"),
        ("Backup", "aws_backup_vault_policy"),
        ("VPC endpoints", "aws_vpc_endpoint aws_vpc_endpoint_policy"),
        ("public access blocks", "aws_s3_bucket_public_access_block aws_s3_account_public_access_block"),
        ("ACLs", "aws_s3_bucket_acl"),
        (
            "security groups",
            "aws_security_group aws_security_group_rule aws_vpc_security_group_ingress_rule aws_vpc_security_group_egress_rule",
        ),
        ("prefix lists", "aws_ec2_managed_prefix_list aws_ec2_managed_prefix_list_entry"),
        ("networks", "aws_network_acl aws_network_acl_rule aws_default_network_acl"),
        ("snapshots", "aws_db_snapshot aws_db_cluster_snapshot aws_snapshot_create_volume_permission"),
        ("images", "aws_ami_launch_permission"),
        ("boundaries", "aws_iam_user aws_ssoadmin_permissions_boundary_attachment"),
        ("organizations", "aws_organizations_policy aws_organizations_policy_attachment"),
    ] {
        for name in names.split(' ') {
            assert!(table::find(name).is_some(), "{what}: {name}");
        }
    }
}
