//! Makes plan documents that are shaped like real ones: whole-infrastructure plans, of which little changes.
//!
//! A resource stands in `planned_values` once, in `prior_state` once, in `configuration` as a block, and in
//! `resource_changes` before and after. What data sources read stands in the state alone, and is what makes real
//! documents of many megabytes. Most entries are no-ops; each resource has the attributes, tags, policies as text and
//! masks that providers of a cloud give. The same size and seed give the same bytes.

use std::fmt::Write as _;

/// How many of a hundred resources change in an ordinary plan.
pub(crate) const ORDINARY: u64 = 8;
/// And in one in which everything does.
pub(crate) const EVERYTHING: u64 = 100;

/// A small generator of numbers (splitmix64): the documents must be the same everywhere.
struct Dice(u64);

impl Dice {
    fn roll(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, end: u64) -> u64 {
        self.roll() % end
    }
}

/// One resource's values, its mask, and its block in the configuration.
struct Resource {
    kind: &'static str,
    name: String,
    values: String,
    mask: &'static str,
    block: String,
}

const POLICY: &str = r#"{\"Version\":\"2012-10-17\",\"Statement\":[{\"Sid\":\"Read\",\"Effect\":\"Allow\",\"Action\":[\"s3:GetObject\",\"s3:ListBucket\"],\"Resource\":[\"arn:aws:s3:::data\",\"arn:aws:s3:::data/*\"]}]}"#;

impl Resource {
    fn new(dice: &mut Dice, number: usize) -> Self {
        let id = dice.roll();
        let tags = format!(
            r#"{{"Application":"orders","CostCenter":"{}","Environment":"production","ManagedBy":"terraform","Name":"orders-{number}","Owner":"équipe-plateforme","Repository":"infrastructure/live"}}"#,
            dice.below(9000)
        );
        let (kind, own, mask) = match dice.below(5) {
            0 => (
                "aws_instance",
                format!(
                    r#""ami":"ami-{id:016x}","arn":"arn:aws:ec2:eu-central-1:123456789012:instance/i-{id:017x}","associate_public_ip_address":false,"availability_zone":"eu-central-1a","capacity_reservation_specification":[{{"capacity_reservation_preference":"open","capacity_reservation_target":[]}}],"cpu_options":[{{"amd_sev_snp":"","core_count":2,"threads_per_core":2}}],"credit_specification":[],"disable_api_stop":false,"disable_api_termination":false,"ebs_block_device":[],"ebs_optimized":true,"ephemeral_block_device":[],"get_password_data":false,"hibernation":null,"iam_instance_profile":"orders","instance_state":"running","instance_type":"m6i.large","ipv6_addresses":[],"key_name":"","metadata_options":[{{"http_endpoint":"enabled","http_protocol_ipv6":"disabled","http_put_response_hop_limit":2,"http_tokens":"required","instance_metadata_tags":"disabled"}}],"monitoring":true,"network_interface":[],"private_ip":"10.0.{}.{}","root_block_device":[{{"delete_on_termination":true,"encrypted":true,"iops":3000,"kms_key_id":"arn:aws:kms:eu-central-1:123456789012:key/{id:x}","throughput":125,"volume_id":"vol-{id:017x}","volume_size":50,"volume_type":"gp3"}}],"secondary_private_ips":[],"security_groups":[],"source_dest_check":true,"user_data":"{id:032x}""#,
                    dice.below(256),
                    dice.below(256)
                ),
                r#"{"capacity_reservation_specification":[{"capacity_reservation_target":[]}],"cpu_options":[{}],"ebs_block_device":[],"metadata_options":[{}],"root_block_device":[{}],"tags":{},"tags_all":{}}"#,
            ),
            1 => (
                "aws_db_instance",
                format!(
                    r#""address":"orders-{number}.db.example","allocated_storage":{},"apply_immediately":false,"backup_retention_period":14,"ca_cert_identifier":"rds-ca-rsa2048-g1","db_subnet_group_name":"private","deletion_protection":true,"domain_dns_ips":[],"enabled_cloudwatch_logs_exports":["postgresql","upgrade"],"engine":"postgres","engine_version":"16.4","identifier":"orders-{number}","instance_class":"db.r6g.large","iops":3000,"listener_endpoint":[],"maintenance_window":"sun:04:00-sun:05:00","master_user_secret":[],"multi_az":true,"password":"p{id:016x}","port":5432,"publicly_accessible":false,"storage_encrypted":true,"username":"orders""#,
                    dice.below(1000)
                ),
                r#"{"domain_dns_ips":[],"enabled_cloudwatch_logs_exports":[false,false],"listener_endpoint":[],"password":true,"tags":{},"tags_all":{}}"#,
            ),
            2 => (
                "aws_iam_role",
                format!(
                    r#""arn":"arn:aws:iam::123456789012:role/orders-{number}","assume_role_policy":"{POLICY}","create_date":"2026-01-0{}T10:11:12Z","description":"Used by the orders service \u003corders@example\u003e","force_detach_policies":false,"inline_policy":[{{"name":"read","policy":"{POLICY}"}}],"managed_policy_arns":["arn:aws:iam::aws:policy/ReadOnlyAccess"],"max_session_duration":3600,"path":"/","permissions_boundary":"","unique_id":"AROA{id:016X}""#,
                    1 + dice.below(9)
                ),
                r#"{"inline_policy":[{}],"managed_policy_arns":[false],"tags":{},"tags_all":{}}"#,
            ),
            3 => (
                "aws_security_group_rule",
                format!(
                    r#""cidr_blocks":["10.{0}.0.0/16","10.{0}.128.0/17"],"description":"orders","from_port":443,"ipv6_cidr_blocks":[],"prefix_list_ids":[],"protocol":"tcp","security_group_id":"sg-{id:016x}","security_group_rule_id":"sgr-{id:016x}","self":false,"source_security_group_id":null,"timeouts":null,"to_port":443,"type":"ingress""#,
                    dice.below(256)
                ),
                r#"{"cidr_blocks":[false,false],"ipv6_cidr_blocks":[],"prefix_list_ids":[]}"#,
            ),
            _ => (
                "aws_s3_object",
                format!(
                    r#""acl":null,"arn":"arn:aws:s3:::orders/{number}","bucket":"orders","bucket_key_enabled":true,"cache_control":"","checksum_sha256":"","content":"{}","content_disposition":"","content_type":"text/plain","etag":"{id:032x}","force_destroy":false,"key":"{number}.txt","kms_key_id":null,"metadata":{{}},"override_provider":[],"server_side_encryption":"aws:kms","storage_class":"STANDARD","version_id":"{id:x}""#,
                    r"line of a configuration file\n".repeat(1 + usize::try_from(dice.below(12)).unwrap_or(0))
                ),
                r#"{"metadata":{},"override_provider":[],"tags":{},"tags_all":{}}"#,
            ),
        };
        let values = format!(r#"{{{own},"id":"{id:016x}","tags":{tags},"tags_all":{tags}}}"#);
        let block = format!(
            r#"{{"address":"{kind}.r{number}","mode":"managed","type":"{kind}","name":"r{number}","provider_config_key":"aws","expressions":{{"name":{{"constant_value":"orders-{number}"}},"subnet_id":{{"references":["module.network.subnets[0]","module.network"]}},"vpc_id":{{"references":["var.vpc_id"]}},"tags":{{"references":["local.tags","var.environment"]}},"description":{{"constant_value":"Managed by terraform. Do not change by hand; see the runbook of the orders team."}}}},"schema_version":1}}"#
        );
        Self { kind, name: format!("r{number}"), values, mask, block }
    }

    fn head(&self) -> String {
        let Self { kind, name, .. } = self;
        format!(
            r#""address":"module.orders.{kind}.{name}","mode":"managed","type":"{kind}","name":"{name}","provider_name":"registry.terraform.io/hashicorp/aws""#
        )
    }

    fn in_state(&self) -> String {
        let Self { values, mask, .. } = self;
        format!(r#"{{{},"schema_version":1,"values":{values},"sensitive_values":{mask}}}"#, self.head())
    }

    fn changed(&self, dice: &mut Dice, changing: u64) -> String {
        let Self { values, mask, .. } = self;
        let module = format!(r#"{},"module_address":"module.orders""#, self.head());
        if dice.below(100) >= changing {
            return format!(
                r#"{{{module},"change":{{"actions":["no-op"],"before":{values},"after":{values},"after_unknown":{{}},"before_sensitive":{mask},"after_sensitive":{mask}}}}}"#
            );
        }
        if dice.below(2) == 0 {
            return format!(
                r#"{{{module},"change":{{"actions":["create"],"before":null,"after":{values},"after_unknown":{{"owner_id":true,"tags_all":{{}}}},"before_sensitive":false,"after_sensitive":{mask}}}}}"#
            );
        }
        let after = values.replace("production", "staging");
        format!(
            r#"{{{module},"change":{{"actions":["update"],"before":{values},"after":{after},"after_unknown":{{}},"before_sensitive":{mask},"after_sensitive":{mask}}}}}"#
        )
    }
}

/// What a data source read: it stands in the prior state alone.
fn data(dice: &mut Dice, number: usize) -> String {
    let mut items = String::new();
    for item in 0..40 {
        let id = dice.roll();
        let _ = write!(
            items,
            r#"{}{{"arn":"arn:aws:ec2:eu-central-1:123456789012:subnet/subnet-{id:016x}","available":{},"cidr_block":"10.{}.0.0/20","id":"subnet-{id:016x}","tags":{{"Name":"private-{item}","Tier":"private"}}}}"#,
            if item == 0 { "" } else { "," },
            dice.below(4096),
            dice.below(256)
        );
    }
    format!(
        r#"{{"address":"data.aws_subnets.d{number}","mode":"data","type":"aws_subnets","name":"d{number}","provider_name":"registry.terraform.io/hashicorp/aws","schema_version":0,"values":{{"items":[{items}],"filter":null}},"sensitive_values":{{"items":[]}}}}"#
    )
}

/// A plan document of about `size` bytes, in which so many of a hundred resources change.
pub(crate) fn document(size: usize, changing: u64) -> String {
    let mut dice = Dice(size as u64);
    let [mut planned, mut prior, mut changes, mut blocks] = [const { String::new() }; 4];
    let mut number = 0;
    while planned.len() + prior.len() + changes.len() + blocks.len() < size {
        let resource = Resource::new(&mut dice, number);
        let sources: String =
            (0..usize::from(number % 3 != 0)).map(|_| format!("{},", data(&mut dice, number))).collect();
        let joint = if number == 0 { "" } else { "," };
        let _ = write!(planned, "{joint}{}", resource.in_state());
        let _ = write!(prior, "{joint}{sources}{}", resource.in_state());
        let _ = write!(changes, "{joint}{}", resource.changed(&mut dice, changing));
        let _ = write!(blocks, "{joint}{}", resource.block);
        number += 1;
    }
    let mut text = String::with_capacity(size + size / 50 + 4096);
    let _ = write!(
        text,
        r#"{{"format_version":"1.2","terraform_version":"1.11.4","variables":{{"environment":{{"value":"production"}}}},"planned_values":{{"root_module":{{"child_modules":[{{"resources":[{planned}],"address":"module.orders"}}]}}}},"resource_changes":[{changes}],"output_changes":{{"endpoint":{{"actions":["no-op"],"before":"orders.example","after":"orders.example","after_unknown":false,"before_sensitive":false,"after_sensitive":false}}}},"prior_state":{{"format_version":"1.0","terraform_version":"1.11.4","values":{{"root_module":{{"child_modules":[{{"resources":[{prior}],"address":"module.orders"}}]}}}}}},"configuration":{{"provider_config":{{"aws":{{"name":"aws","full_name":"registry.terraform.io/hashicorp/aws","expressions":{{"region":{{"constant_value":"eu-central-1"}}}}}}}},"root_module":{{"module_calls":{{"orders":{{"source":"./orders","module":{{"resources":[{blocks}]}}}}}}}}}},"relevant_attributes":[],"checks":[],"timestamp":"2026-11-30T00:00:00Z","applyable":true,"complete":true,"errored":false}}"#
    );
    text
}
