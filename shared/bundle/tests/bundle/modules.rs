//! Modules: local ones must be inside, remote ones captured.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use plangate_bundle::{Bundle, BundleError, CapturedModules, Dialect, Limits, capture_modules, unpack_verified};

use super::{build, folder, paths, refusal, unpack, write};

/// The engine that the tests use: `PLANGATE_ENGINE`, else `tofu`, else `terraform`.
fn engine() -> (PathBuf, Dialect) {
    let named = std::env::var_os("PLANGATE_ENGINE").map(PathBuf::from);
    let works =
        |program: &&str| Command::new(program).arg("version").output().is_ok_and(|output| output.status.success());
    let program = named.unwrap_or_else(|| {
        ["tofu", "terraform"].into_iter().find(works).expect("these tests need `tofu` or `terraform` on PATH").into()
    });
    let tofu = program.file_name().unwrap().to_str().unwrap().contains("tofu");
    (program, if tofu { Dialect::OpenTofu } else { Dialect::Terraform })
}

/// The engine without anything of the caller's.
fn run_engine(dir: &Path, data: &Path, args: &[&str]) -> std::process::Output {
    let path = std::env::var_os("PATH").unwrap_or_default();
    Command::new(engine().0)
        .args(args)
        .current_dir(dir)
        .env_clear()
        .env("PATH", path)
        .env("HOME", data)
        .env("TF_DATA_DIR", data)
        .env("CHECKPOINT_DISABLE", "1")
        .output()
        .unwrap()
}

/// A repository that stands for one on a server.
fn repository(files: &[(&str, &str)]) -> (tempfile::TempDir, String) {
    let dir = folder(files);
    for args in [&["init", "-q"][..], &["add", "-A"], &["commit", "-qm", "first"]] {
        let done = Command::new("git")
            .args(["-c", "user.name=t", "-c", "user.email=t@example.org"])
            .args(args)
            .current_dir(dir.path())
            .status()
            .unwrap();
        assert!(done.success(), "git {args:?}");
    }
    let source = format!("git::file://{}", dir.path().display());
    (dir, source)
}

fn capture(dir: &Path) -> Result<CapturedModules, BundleError> {
    let (engine, dialect) = engine();
    capture_modules(dir, &engine, dialect, &Limits::default())
}

fn call(name: &str, source: &str) -> String {
    format!("module \"{name}\" {{\n  source = \"{source}\"\n}}\n")
}

#[test]
fn a_remote_module_travels_in_the_bundle_and_the_engine_plans_without_fetching() {
    let (upstream, source) = repository(&[
        ("main.tf", "module \"inner\" {\n  source = \"./inner\"\n}\n"),
        ("inner/main.tf", "resource \"terraform_data\" \"x\" {}\n"),
        ("sub/main.tf", "module \"sibling\" {\n  source = \"../inner\"\n}\n"),
    ]);
    let main = [call("m", &source), call("s", &format!("{source}//sub")), call("l", "./local/../local/")].concat();
    let dir = folder(&[("main.tf", &main), ("local/main.tf", &call("m", &source))]);
    assert_eq!(build(&dir).unwrap_err().reason(), "module-not-captured");

    let bundle = Bundle::build_with_modules(dir.path(), &capture(dir.path()).unwrap(), &Limits::default()).unwrap();
    let again = Bundle::build_with_modules(dir.path(), &capture(dir.path()).unwrap(), &Limits::default()).unwrap();
    assert_eq!(bundle.digest(), again.digest(), "capturing is deterministic");
    assert!(!dir.path().join(".terraform").exists(), "the proposer's folder stays untouched");

    drop(upstream);
    drop(dir);
    let at = folder(&[]);
    let unpacked = unpack(&bundle, &at);
    assert!(paths(unpacked.root()).iter().all(|path| !path.contains(".git/")), "no version control data");
    let checked = unpacked.check_configuration(engine().1).unwrap();
    let data = folder(&[]);
    write(data.path(), "modules/modules.json", std::str::from_utf8(checked.module_manifest()).unwrap());
    let init = run_engine(unpacked.root(), data.path(), &["init", "-get=false", "-input=false", "-no-color"]);
    assert!(init.status.success(), "{}", String::from_utf8_lossy(&init.stderr));
    let plan = run_engine(unpacked.root(), data.path(), &["plan", "-input=false", "-no-color"]);
    let text = String::from_utf8_lossy(&plan.stdout);
    for address in ["module.m.module.inner.", "module.s.module.sibling.", "module.l.module.m.module.inner."] {
        assert!(text.contains(&format!("{address}terraform_data.x will be created")), "{address}: {text}");
    }
}

#[test]
fn a_remote_source_that_was_not_captured_is_refused_at_plan() {
    let (_upstream, source) = repository(&[("main.tf", "")]);
    let dir = folder(&[("main.tf", &call("m", &source))]);
    let captured = capture(dir.path()).unwrap();

    // Captured for one source, then the configuration names another: at build, and in a bundle that was forged.
    write(dir.path(), "main.tf", &call("m", &format!("{source}?ref=other")));
    let error = Bundle::build_with_modules(dir.path(), &captured, &Limits::default()).unwrap_err();
    assert_eq!(error.reason(), "module-not-captured");
    write(dir.path(), "main.tf", &[call("m", &source), call("n", "hashicorp/consul/aws")].concat());
    let error = Bundle::build_with_modules(dir.path(), &captured, &Limits::default()).unwrap_err();
    assert_eq!(error.reason(), "module-not-captured");
    assert!(error.to_string().contains("module `n`"), "{error}");

    let forged = zstd::encode_all(tar_of(&[("main.tf", &call("m", &source))]).as_slice(), 1).unwrap();
    let at = folder(&[]);
    let digest = plangate_gate::digest::Digest::of(&forged);
    let unpacked = unpack_verified(forged.as_slice(), &digest, &at.path().join("s"), &Limits::default()).unwrap();
    assert_eq!(unpacked.check_configuration(Dialect::Terraform).unwrap_err().reason(), "module-not-captured");
}

#[test]
fn a_forged_manifest_cannot_point_outside() {
    for (dir, reason) in [
        ("/etc", "bundle-path-escapes"),
        (".terraform/modules/../../..", "bundle-path-escapes"),
        ("local", "configuration-unparseable"),
        (".terraform/modules/absent", "module-not-captured"),
    ] {
        let manifest = format!(r#"{{"Modules":[{{"Key":"m","Source":"git::x","Dir":"{dir}","Written":"git::x"}}]}}"#);
        let files = [
            ("main.tf", call("m", "git::x")),
            ("local/main.tf", String::new()),
            (".terraform/modules/modules.json", manifest),
        ];
        let files: Vec<(&str, &str)> = files.iter().map(|(path, content)| (*path, content.as_str())).collect();
        let forged = zstd::encode_all(tar_of(&files).as_slice(), 1).unwrap();
        let at = folder(&[]);
        let digest = plangate_gate::digest::Digest::of(&forged);
        let unpacked = unpack_verified(forged.as_slice(), &digest, &at.path().join("s"), &Limits::default()).unwrap();
        assert_eq!(unpacked.check_configuration(Dialect::Terraform).unwrap_err().reason(), reason, "{dir}");
    }
}

fn tar_of(files: &[(&str, &str)]) -> Vec<u8> {
    let mut tar = tar::Builder::new(Vec::new());
    for (path, content) in files {
        let mut header = tar::Header::new_gnu();
        header.set_mode(0o644);
        header.set_size(content.len() as u64);
        tar.append_data(&mut header, path, content.as_bytes()).unwrap();
    }
    tar.into_inner().unwrap()
}

#[test]
fn local_modules_must_be_inside_the_folder() {
    let outside = folder(&[("main.tf", "")]);
    let absolute = outside.path().to_str().unwrap();
    for source in
        [absolute, &format!("file://{absolute}"), "~/m", "../sibling", "./a/../../sibling", "./.terraform/modules/x"]
    {
        assert_eq!(refusal(&[("main.tf", &call("m", source))]), "module-path-escapes", "{source}");
    }
    assert_eq!(refusal(&[("main.tf", &call("m", "./gone"))]), "module-not-captured");
    assert_eq!(refusal(&[("main.tf", "module \"m\" {\n  source = var.where\n}")]), "module-not-captured");
    assert_eq!(refusal(&[("main.tf", "module \"m\" {}")]), "module-not-captured");
    let json = r#"{"module": {"m": {"source": "./m"}}, "module": {"n": {"source": "../n"}}}"#;
    assert_eq!(refusal(&[("main.tf.json", json), ("m/main.tf", "")]), "module-path-escapes");
}

#[test]
fn an_override_file_can_change_a_modules_source_and_is_heeded() {
    let files = [("main.tf", call("m", "./m")), ("m/main.tf", String::new()), ("b_override.tf", call("m", "../n"))];
    let files: Vec<(&str, &str)> = files.iter().map(|(path, content)| (*path, content.as_str())).collect();
    assert_eq!(refusal(&files), "module-path-escapes");
}

#[test]
fn modules_in_a_circle_end() {
    let files = [("main.tf", call("a", "./a")), ("a/main.tf", [call("b", "../"), call("c", "./")].concat())];
    let files: Vec<(&str, &str)> = files.iter().map(|(path, content)| (*path, content.as_str())).collect();
    assert_eq!(refusal(&files), "module-too-many");
}

#[test]
fn without_remote_modules_no_engine_is_started() {
    let dir = folder(&[("main.tf", &call("l", "./local")), ("local/main.tf", "")]);
    let captured =
        capture_modules(dir.path(), Path::new("/nonexistent/engine"), Dialect::Terraform, &Limits::default()).unwrap();
    let with = Bundle::build_with_modules(dir.path(), &captured, &Limits::default()).unwrap();
    assert_eq!(with.digest(), build(&dir).unwrap().digest());
}

#[test]
fn a_module_that_cannot_be_fetched_is_named_with_the_engines_reason() {
    let gone = folder(&[]);
    let source = format!("git::file://{}/gone", gone.path().display());
    let dir = folder(&[("main.tf", &call("m", &source))]);
    let error = capture(dir.path()).unwrap_err();
    assert_eq!(error.reason(), "module-capture-failed");
    assert!(error.to_string().contains("Error:"), "{error}");
    let before = fs::read_dir(dir.path()).unwrap().count();
    assert_eq!(before, 1, "nothing is left in the proposer's folder");
}
