use super::*;

fn order() -> WorkOrder {
    let digest = format!("sha256:{}", "0".repeat(64));
    serde_json::from_value(serde_json::json!({
        "schema": "plangate.work-order.v1", "audience": "plangate-runner",
        "run": "run-00000000000000000000000001", "workspace": "ws-0000000000000001", "kind": "applicable",
        "phase": "plan", "attempt": 1, "fence": 1,
        "issued_at": "2026-11-30T05:00:00Z", "expires_at": "2026-11-30T06:00:00Z",
        "roles": {"plan": "arn:p", "apply": "arn:a"},
        "bundle": {"bucket": "exchange", "key": "bundles/x", "digest": digest, "bytes": 1},
        "engine": {"name": "terraform", "version": "1.11.4"},
        "state": {"bucket": "b", "key": "state/terraform.tfstate", "region": "eu-central-1"},
        "secrets": [], "sealed": {"bucket": "b", "key_arn": "arn:aws:kms:eu-central-1:123456789012:key/1"}
    }))
    .unwrap()
}

fn initialised(change: impl FnOnce(&mut Value)) -> Vec<u8> {
    let mut record = serde_json::json!({"version": 3, "terraform_version": "1.11.4", "backend": {"type": "s3", "config": {
        "bucket": "b", "key": "state/terraform.tfstate", "region": "eu-central-1", "use_lockfile": true, "encrypt": true,
        "kms_key_id": "arn:aws:kms:eu-central-1:123456789012:key/1",
        "acl": null, "endpoints": null, "assume_role": null, "allowed_account_ids": [], "skip_region_validation": null
    }, "hash": 1}});
    change(&mut record);
    serde_json::to_vec(&record).unwrap()
}

#[test]
fn the_initialised_backend_must_say_exactly_what_the_order_says() {
    check(Some(&initialised(|_| ())), &order()).unwrap();
    let detail = |record: Option<&[u8]>| match check(record, &order()) {
        Err(RunnerError::Failed { reason: FailureReason::BackendMismatch, detail }) => detail,
        other => panic!("{other:?}"),
    };
    type Change = fn(&mut Value);
    let changes: [(&str, Change); 7] = [
        ("bucket", |r| r["backend"]["config"]["bucket"] = "other".into()),
        ("encrypt", |r| r["backend"]["config"]["encrypt"] = false.into()),
        ("use_lockfile", |r| r["backend"]["config"]["use_lockfile"] = Value::Null),
        ("kms_key_id", |r| drop(r["backend"]["config"].as_object_mut().unwrap().remove("kms_key_id"))),
        ("endpoints", |r| r["backend"]["config"]["endpoints"] = serde_json::json!({"s3": "http://elsewhere"})),
        ("assume_role", |r| r["backend"]["config"]["assume_role"] = serde_json::json!({"role_arn": "arn:x"})),
        ("workspace_key_prefix", |r| r["backend"]["config"]["workspace_key_prefix"] = "x".into()),
    ];
    for (setting, change) in changes {
        assert_eq!(
            detail(Some(&initialised(change))),
            format!("the backend's settings are not the workspace's: {setting}")
        );
    }
    detail(Some(&initialised(|r| r["backend"]["type"] = "local".into())));
    detail(Some(&initialised(|r| r["backend"] = Value::Null)));
    detail(Some(b"no json"));
    detail(None);
}
