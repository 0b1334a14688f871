//! What each fault does to a process that makes one call.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test that cannot go on fails")]

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;

const BODY: &str = r#"{"TableName":"t","Item":{"pk":{"S":"RUN#run-00000000000000000000000001"},"sk":{"S":"RUN"},"body":{"S":"ws-0000000000000001"}}}"#;
const SITE: &str = "example dynamodb.PutItem RUN#run";

/// The folder between test and process, and the file that stands for the service.
struct Stage(TempDir);

impl Stage {
    fn new() -> Self {
        let stage = Self(tempfile::tempdir().unwrap());
        for part in ["armed", "hits", "open", "sites", "runs"] {
            fs::create_dir(stage.path(part)).unwrap();
        }
        stage
    }

    fn path(&self, part: &str) -> std::path::PathBuf {
        self.0.path().join(part)
    }

    fn arm(&self, what: &str) {
        self.arm_with(&format!(r#"{{"site":"{SITE}","what":"{what}"}}"#));
    }

    fn arm_with(&self, fault: &str) {
        fs::write(self.path("armed/it.json"), fault).unwrap();
    }

    fn command(&self) -> Command {
        // Cargo puts examples beside the folder of the tests.
        let binary = std::env::current_exe().unwrap();
        let binary = binary.parent().and_then(Path::parent).unwrap().join("examples/calls");
        let mut command = Command::new(binary);
        command.args([self.path("ledger").as_os_str(), BODY.as_ref()]).env("PLANGATE_TEST_FAULTS", self.0.path());
        command
    }

    /// Makes the call in a process of its own; gives its exit code, and how often the service was asked.
    fn call(&self) -> (i32, usize) {
        let code = self.command().stderr(Stdio::null()).status().unwrap().code().unwrap();
        (code, self.asked())
    }

    fn asked(&self) -> usize {
        fs::read_to_string(self.path("ledger")).unwrap_or_default().lines().count()
    }
}

#[test]
fn without_a_fault_a_call_is_made_and_its_site_noted() {
    let stage = Stage::new();
    assert_eq!(stage.call(), (0, 1));
    let noted: Vec<_> = fs::read_dir(stage.path("sites")).unwrap().collect();
    let line = fs::read_to_string(noted[0].as_ref().unwrap().path()).unwrap();
    assert_eq!(line, format!("ws-0000000000000001\trun-00000000000000000000000001\t{SITE}\n"));
    assert_eq!(fs::read_to_string(stage.path("runs/run-00000000000000000000000001")).unwrap(), "ws-0000000000000001");
}

#[test]
fn each_fault_does_what_its_name_says() {
    for (what, code, asked) in [
        ("die-before", 86, 0),
        ("die-after", 86, 1),
        ("fail", 5, 0),
        ("lose-answer", 4, 1),
        ("throttle", 3, 0),
        ("twice", 0, 2),
    ] {
        let stage = Stage::new();
        stage.arm(what);
        assert_eq!(stage.call(), (code, asked), "{what}");
        let hit = fs::read_to_string(stage.path("hits/it.1")).unwrap();
        assert_eq!(hit.lines().next(), Some(SITE), "{what}");
        assert_eq!(stage.call(), (0, asked + 1), "{what} is used up");
    }
}

#[test]
fn a_fault_strikes_as_often_as_it_says_and_only_whom_it_names() {
    let stage = Stage::new();
    stage.arm_with(r#"{"site":"example dynamodb.*","times":2,"what":"fail","workspace":"ws-0000000000000001"}"#);
    assert_eq!([stage.call(), stage.call(), stage.call()], [(5, 0), (5, 0), (0, 1)]);
    for other in [
        r#"{"site":"example dynamodb.*","what":"fail","workspace":"ws-0000000000000002"}"#,
        r#"{"site":"example dynamodb.PutItem","what":"fail"}"#,
        r#"{"site":"example dynamodb.*","what":"fail","nth":2}"#,
    ] {
        stage.arm_with(other);
        assert_eq!(stage.call().0, 0, "{other}");
    }
}

#[test]
fn a_call_that_is_held_goes_on_when_it_is_let_through() {
    for (what, asked_meanwhile) in [("hold-before", 0), ("hold-after", 1)] {
        let stage = Stage::new();
        stage.arm(what);
        let mut process = stage.command().spawn().unwrap();
        let started = Instant::now();
        while !stage.path("hits/it.1").exists() || stage.asked() < asked_meanwhile {
            assert!(started.elapsed() < Duration::from_secs(60), "{what}");
            std::thread::yield_now();
        }
        assert!(process.try_wait().unwrap().is_none(), "{what} holds");
        assert_eq!(stage.asked(), asked_meanwhile, "{what}");
        fs::write(stage.path("open/it"), "").unwrap();
        assert_eq!(process.wait().unwrap().code(), Some(0), "{what}");
        assert_eq!(stage.asked(), 1, "{what}");
    }
}
