//! What the configuration in a bundle may say.

use plangate_bundle::{Dialect, LOCK_FILE_NAME};

use super::{build, folder, refusal, unpack};

const LOCK: (&str, &str) = (
    LOCK_FILE_NAME,
    "provider \"registry.terraform.io/plangate/sample\" {\n  version = \"0.1.0\"\n  hashes = [\"h1:abc=\"]\n}\n",
);

#[test]
fn an_override_file_must_not_move_the_state() {
    let main = ("main.tf", "terraform {\n  backend \"local\" {}\n}\n");
    assert!(build(&folder(&[main])).is_ok(), "the runner's own override file replaces an ordinary backend");
    for (name, content) in [
        ("override.tf", "terraform {\n  backend \"s3\" {}\n}"),
        ("zz_override.tf", "terraform {\n  backend \"s3\" {}\n}"),
        ("zz_override.tf", "terraform {\n  cloud {\n    organization = \"x\"\n  }\n}"),
        ("a_override.tf", "terraform {\n  state_store \"x\" \"y\" {}\n}"),
        ("a_override.tf.json", r#"{"terraform": {"backend": {"s3": {}}}}"#),
        ("a_override.tf.json", r#"{"terraform": [{}, {"cloud": {}}]}"#),
        ("a_override.tf.json", r#"{"terraform": {"backend": {"s3": {}}}, "terraform": {}}"#),
        ("a_override.tf.json", r#"[{"terraform": {"backend": {"s3": {}}}}]"#),
    ] {
        assert_eq!(refusal(&[main, (name, content)]), "backend-in-override", "{name}: {content}");
    }
    assert_eq!(
        refusal(&[("main.tofu", ""), ("x_override.tofu", "terraform {\n  backend \"s3\" {}\n}")]),
        "backend-in-override"
    );
    assert!(build(&folder(&[main, ("a_override.tf", "terraform {\n  required_version = \">= 1\"\n}")])).is_ok());
}

#[test]
fn a_provider_needs_a_lock_file() {
    for (name, content) in [
        ("main.tf", "resource \"sample_thing\" \"a\" {}"),
        ("main.tf", "data \"sample_thing\" \"a\" {}"),
        ("main.tf", "ephemeral \"sample_thing\" \"a\" {}"),
        ("main.tf", "provider \"sample\" {}"),
        ("main.tf", "check \"c\" {\n  data \"sample_thing\" \"a\" {}\n}"),
        ("main.tf", "resource \"terraform_data\" \"a\" {\n  provider = sample.x\n}"),
        ("main.tf", "terraform {\n  required_providers {\n    s = { source = \"plangate/sample\" }\n  }\n}"),
        ("main.tf", "terraform {\n  required_providers {\n    terraform = { source = \"evil/terraform\" }\n  }\n}"),
        ("main.tf.json", r#"{"resource": {"sample_thing": {"a": {}}}}"#),
        ("main.tf.json", r#"{"resource": [{"terraform_data": {"a": {"provider": "sample"}}}]}"#),
        ("main.tf.json", r#"{"terraform": {"required_providers": {"s": {"source": "plangate/sample"}}}}"#),
        ("main.tf.json", r#"{"provider": {"sample": [{}, {"alias": "b"}]}}"#),
    ] {
        assert_eq!(refusal(&[(name, content)]), "lock-file-missing", "{content}");
        assert!(build(&folder(&[(name, content), LOCK])).is_ok(), "{content}");
    }
    for content in [
        "resource \"terraform_data\" \"a\" {}",
        "data \"terraform_remote_state\" \"a\" {}",
        "terraform {\n  required_providers {\n    x = { source = \"terraform.io/builtin/terraform\" }\n  }\n}\nresource \"x_data\" \"a\" {}",
        "locals {\n  a = provider::terraform::encode_expr(1)\n}\noutput \"o\" {\n  value = local.a\n}",
    ] {
        assert!(build(&folder(&[("main.tf", content)])).is_ok(), "{content}");
    }
}

#[test]
fn a_provider_in_a_module_counts() {
    let files = [
        ("main.tf", "module \"m\" {\n  source = \"./m\"\n}"),
        ("m/main.tf", "resource \"sample_thing\" \"a\" {}"),
        ("unused/main.tf", "resource \"other_thing\" \"a\" {}"),
    ];
    assert_eq!(refusal(&files), "lock-file-missing");
    let dir = folder(&[&files[..], &[LOCK]].concat());
    let bundle = build(&dir).unwrap();
    let at = folder(&[]);
    let unpacked = unpack(&bundle, &at);
    assert_eq!(unpacked.lock_file_digest(), bundle.lock_file_digest());
    assert!(bundle.lock_file_digest().is_some());
    let checked = unpacked.check_configuration(Dialect::Terraform).unwrap();
    assert_eq!(checked.providers().iter().collect::<Vec<_>>(), ["registry.terraform.io/hashicorp/sample"]);
    assert_eq!(checked.lock().unwrap().providers()[0].version, "0.1.0");
}

#[test]
fn without_a_lock_file_its_digest_is_none() {
    let bundle = build(&folder(&[("main.tf", "")])).unwrap();
    let at = folder(&[]);
    assert_eq!((bundle.lock_file_digest(), unpack(&bundle, &at).lock_file_digest()), (None, None));
}

#[test]
fn an_entry_without_h1_is_refused_even_if_nothing_needs_it() {
    let lock = "provider \"registry.terraform.io/a/b\" {\n  version = \"1.0.0\"\n}\n";
    assert_eq!(refusal(&[("main.tf", ""), (LOCK_FILE_NAME, lock)]), "lock-file-without-h1");
}

#[test]
fn configuration_that_does_not_parse_is_refused_with_its_place_and_without_its_text() {
    for (name, content) in [
        ("main.tf", "resource \"terraform_data\" \"a\" {\n  input = \"hunter2"),
        ("main.tf.json", "{\"locals\": {\"a\": \"hunter2\"}"),
        ("main.tf", "a = \u{0}hunter2"),
    ] {
        let error = build(&folder(&[(name, content)])).unwrap_err();
        assert_eq!(error.reason(), "configuration-unparseable", "{content}");
        let message = error.to_string();
        assert!(message.contains(name) && message.contains("line") && !message.contains("hunter2"), "{message}");
    }
    let nested = format!("a = {}1{}", "[".repeat(5000), "]".repeat(5000));
    assert_eq!(refusal(&[("main.tf", &nested)]), "configuration-unparseable");
}

#[test]
fn opentofu_reads_its_own_files_in_place_of_the_others() {
    let dir = folder(&[
        ("main.tf", "resource \"terraform_data\" \"a\" {}"),
        ("main.tofu", "resource \"sample_thing\" \"a\" {}"),
        LOCK,
    ]);
    let at = folder(&[]);
    let unpacked = unpack(&build(&dir).unwrap(), &at);
    assert!(unpacked.check_configuration(Dialect::Terraform).unwrap().providers().is_empty());
    let tofu = unpacked.check_configuration(Dialect::OpenTofu).unwrap();
    assert_eq!(tofu.providers().iter().collect::<Vec<_>>(), ["registry.opentofu.org/hashicorp/sample"]);
}

/// Files that Terraform 1.11.4 finds valid: what an engine takes must not be refused as unreadable.
#[test]
fn what_the_language_allows_is_read() {
    let dir = tempfile::tempdir().unwrap();
    let language = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/bundle/language");
    for file in std::fs::read_dir(language).unwrap() {
        let file = file.unwrap();
        std::fs::copy(file.path(), dir.path().join(file.file_name())).unwrap();
    }
    let bundle = build(&dir).unwrap();
    assert_eq!(bundle.files(), 5);
}
