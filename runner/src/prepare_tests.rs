use super::*;

#[test]
fn where_providers_come_from_is_always_said() {
    assert!(cli_config(None).contains("direct {}"));
    let mirror = cli_config(Some(Path::new("/opt/mirror \"1\"")));
    assert!(mirror.contains(r#"path = "/opt/mirror \"1\"""#) && !mirror.contains("direct"));
}
