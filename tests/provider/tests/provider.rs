//! The provider under a real engine: what other tests rely on.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use plangate_test_provider::Mirror;
use serde_json::Value;
use tempfile::TempDir;

/// The engine that the tests use: `PLANGATE_ENGINE`, else `tofu`, else `terraform`.
fn engine() -> PathBuf {
    let works =
        |program: &&str| Command::new(program).arg("version").output().is_ok_and(|output| output.status.success());
    std::env::var_os("PLANGATE_ENGINE").map(PathBuf::from).unwrap_or_else(|| {
        ["tofu", "terraform"].into_iter().find(works).expect("these tests need `tofu` or `terraform` on PATH").into()
    })
}

/// A folder with a configuration, its lock file, and the mirror that serves the provider.
struct Bench {
    dir: TempDir,
    mirror: Mirror,
}

impl Bench {
    fn new(attributes: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let mirror = Mirror::lay_out(&dir.path().join("mirror")).unwrap();
        fs::create_dir(dir.path().join("source")).unwrap();
        fs::write(dir.path().join("engine.rc"), mirror.cli_configuration()).unwrap();
        let bench = Self { dir, mirror };
        bench.configure(attributes);
        bench.mirror.lock(&engine(), &bench.source()).unwrap();
        bench
    }

    fn configure(&self, attributes: &str) {
        let source = "registry.terraform.io/plangate/sample";
        let head =
            format!("terraform {{\n  required_providers {{\n    sample = {{ source = \"{source}\" }}\n  }}\n}}\n");
        let thing = format!("resource \"sample_thing\" \"a\" {{\n{attributes}\n}}\n");
        fs::write(self.source().join("main.tf"), head + &thing).unwrap();
    }

    fn source(&self) -> PathBuf {
        self.dir.path().join("source")
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(engine());
        command
            .args(args)
            .current_dir(self.source())
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("HOME", self.dir.path())
            .env("TF_CLI_CONFIG_FILE", self.path("engine.rc"))
            .env("CHECKPOINT_DISABLE", "1");
        command
    }

    fn run(&self, args: &[&str]) -> Output {
        self.command(args).output().unwrap()
    }

    fn succeed(&self, args: &[&str]) -> String {
        let output = self.run(args);
        assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    fn init(&self) -> Output {
        self.run(&["init", "-input=false", "-lockfile=readonly", "-no-color"])
    }

    fn apply(&self) {
        self.succeed(&["apply", "-input=false", "-auto-approve", "-no-color"]);
    }

    /// The one change of a fresh plan, with its exit code.
    fn plan(&self) -> (Option<i32>, Value) {
        let plan = self.run(&["plan", "-input=false", "-detailed-exitcode", "-out=plan", "-no-color"]);
        let document: Value = serde_json::from_str(&self.succeed(&["show", "-json", "plan"])).unwrap();
        (plan.status.code(), document["resource_changes"][0]["change"].clone())
    }

    fn state(&self) -> Value {
        let document: Value = serde_json::from_str(&self.succeed(&["show", "-json"])).unwrap();
        document["values"]["root_module"]["resources"][0]["values"].clone()
    }

    fn hold(&self, args: &[&str], file: &str) -> Child {
        let child = self.command(args).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let waiting = self.path(&format!("{file}.waiting"));
        until("the engine waits", || waiting.exists());
        assert!(runs(&self.mirror.program()), "the provider runs while the engine waits");
        child
    }
}

fn until(what: &str, condition: impl Fn() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while !condition() {
        assert!(Instant::now() < deadline, "in vain: {what}");
        thread::sleep(Duration::from_millis(10));
    }
}

/// Whether a process runs this program, which engines start through a link in their own folder.
fn runs(program: &Path) -> bool {
    let program = program.canonicalize().unwrap();
    let processes = fs::read_dir("/proc").unwrap();
    processes.flatten().any(|process| fs::read_link(process.path().join("exe")).is_ok_and(|exe| exe == program))
}

#[test]
fn a_thing_is_created_changed_in_place_replaced_and_destroyed() {
    let bench = Bench::new("");
    let log = bench.path("log");
    let thing = |name: &str, size: u32| {
        bench.configure(&format!("  name = \"{name}\"\n  size = {size}\n  file = \"{}\"", log.display()));
    };
    thing("one", 1);
    assert!(bench.init().status.success());

    let (code, change) = bench.plan();
    assert_eq!((code, &change["actions"]), (Some(2), &serde_json::json!(["create"])));
    assert_eq!(change["after_unknown"]["token"], true);
    assert_eq!(change["after_sensitive"]["token"], true);
    bench.apply();
    assert_eq!(bench.plan().0, Some(0), "nothing is left to do");
    let created = bench.state();
    assert!(created["token"].as_str().unwrap().starts_with("token-"));

    thing("one", 2);
    assert_eq!(bench.plan().1["actions"], serde_json::json!(["update"]));
    bench.apply();
    assert_eq!((&bench.state()["token"], &bench.state()["size"]), (&created["token"], &serde_json::json!(2)));

    thing("two", 2);
    let change = bench.plan().1;
    assert_eq!(change["actions"], serde_json::json!(["delete", "create"]));
    assert_eq!(change["replace_paths"], serde_json::json!([["name"]]));
    bench.apply();
    assert_ne!(bench.state()["token"], created["token"]);

    bench.succeed(&["destroy", "-auto-approve", "-input=false"]);
    assert_eq!(
        fs::read_to_string(log).unwrap(),
        "created one\nupdated one\ndestroyed one\ncreated two\ndestroyed two\n"
    );
}

#[test]
fn a_thing_that_is_told_to_fail_fails_at_apply_and_not_at_plan() {
    let bench = Bench::new("  name = \"one\"\n  fail = true");
    assert!(bench.init().status.success());
    assert_eq!(bench.plan().0, Some(2));
    let apply = bench.run(&["apply", "-input=false", "-auto-approve", "-no-color"]);
    assert_eq!(apply.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&apply.stderr).contains("the thing fails"));
}

#[test]
fn plan_and_apply_wait_where_a_test_holds_them() {
    let bench = Bench::new("");
    let (both, late) = (bench.path("both"), bench.path("late"));
    bench.configure(&format!(
        "  name = \"one\"\n  hold_until = \"{}\"\n  hold_apply_until = \"{}\"",
        both.display(),
        late.display()
    ));
    assert!(bench.init().status.success());

    let mut killed = bench.hold(&["plan", "-input=false"], "both");
    killed.kill().unwrap();
    assert!(!killed.wait().unwrap().success());
    until("the provider ends with its engine", || !runs(&bench.mirror.program()));

    fs::write(&both, "").unwrap();
    let mut apply = bench.hold(&["apply", "-input=false", "-auto-approve"], "late");
    assert!(apply.try_wait().unwrap().is_none(), "the apply waits");
    fs::write(&late, "").unwrap();
    assert!(apply.wait().unwrap().success());
    assert_eq!(bench.state()["name"], "one");
}

#[test]
fn the_lock_file_has_an_h1_and_a_swapped_program_does_not_pass_it() {
    let bench = Bench::new("  name = \"one\"");
    let lock = fs::read_to_string(bench.source().join(".terraform.lock.hcl")).unwrap();
    assert!(lock.contains("provider \"registry.terraform.io/plangate/sample\"") && lock.contains("\"h1:"), "{lock}");
    bench.mirror.swap_program().unwrap();
    let init = bench.init();
    assert_eq!(init.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&init.stderr).contains("checksum"), "{}", String::from_utf8_lossy(&init.stderr));
}
