use super::*;

#[test]
fn what_an_engine_reads_besides_configuration_is_refused() {
    for (name, refused) in [
        ("main.tf", false),
        ("terraform.tfvars", false),
        (".terraform/modules/m", false),
        ("nested/terraform.d", false),
        (".terraform/providers", true),
        (".terraform/terraform.tfstate", true),
        ("terraform.tfstate", true),
        ("terraform.tfstate.d/prod", true),
        ("terraform.tfstate.backup", true),
        ("terraform.d/plugins", true),
        ("errored.tfstate", true),
    ] {
        let source = tempfile::tempdir().unwrap();
        let path = source.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, "").unwrap();
        let found = refuse_files(source.path());
        assert_eq!(found.is_err(), refused, "`{name}`");
        if let Err(error) = found {
            assert!(matches!(error, RunnerError::Failed { reason: FailureReason::BundleRefused, .. }));
        }
    }
}

#[test]
fn where_providers_come_from_is_always_said() {
    assert!(cli_config(None).contains("direct {}"));
    let mirror = cli_config(Some(Path::new("/opt/mirror \"1\"")));
    assert!(mirror.contains(r#"path = "/opt/mirror \"1\"""#) && !mirror.contains("direct"));
}
