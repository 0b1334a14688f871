//! A release cannot be made to fail on purpose: it has nothing that a fault could be armed in.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test that cannot go on fails")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Words that only the layer and its folder know.
const MARKS: [&str; 3] = ["PLANGATE_TEST_FAULTS", "a fault on purpose", "die-before"];

fn contains(path: &Path, mark: &str) -> bool {
    let bytes = fs::read(path).unwrap();
    bytes.windows(mark.len()).any(|window| window == mark.as_bytes())
}

fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

fn target() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    test.ancestors().nth(3).unwrap().to_owned()
}

#[test]
fn a_release_has_no_switch() {
    let made = Command::new(env!("CARGO"))
        .args(["build", "--locked", "--quiet", "--release", "--package", "plangate-faults", "--example", "calls"])
        .current_dir(workspace())
        .env("CARGO_TARGET_DIR", target())
        .status()
        .unwrap();
    assert!(made.success());
    let release = target().join("release/examples/calls");
    let armed = tempfile::tempdir().unwrap();
    for part in ["armed", "hits", "open", "sites", "runs"] {
        fs::create_dir(armed.path().join(part)).unwrap();
    }
    fs::write(armed.path().join("armed/it.json"), r#"{"site":"*","what":"die-before"}"#).unwrap();
    let status = Command::new(&release)
        .args([armed.path().join("ledger").as_os_str(), "{}".as_ref()])
        .env("PLANGATE_TEST_FAULTS", armed.path())
        .status()
        .unwrap();
    assert!(status.success(), "{status}");
    assert_eq!(fs::read_to_string(armed.path().join("ledger")).unwrap(), "{}\n");
    for part in ["hits", "sites", "runs"] {
        assert_eq!(fs::read_dir(armed.path().join(part)).unwrap().count(), 0, "{part}");
    }
    let test_build = target().join("debug/examples/calls");
    for mark in MARKS {
        assert!(!contains(&release, mark), "{mark} is in a release");
        assert!(contains(&test_build, mark), "{mark} is not what a test build is known by");
    }
    // Whatever else was released on this machine.
    for entry in fs::read_dir(target().join("release")).unwrap().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        if name.starts_with("plangate") && !name.contains('.') && entry.path().is_file() {
            for mark in MARKS {
                assert!(!contains(&entry.path(), mark), "{mark} is in `{name}`");
            }
        }
    }
}

#[test]
fn only_this_crate_knows_the_switch_and_no_release_asserts() {
    let mut stack = vec![workspace()];
    while let Some(folder) = stack.pop() {
        for entry in fs::read_dir(folder).unwrap().flatten() {
            let (path, name) = (entry.path(), entry.file_name().to_string_lossy().into_owned());
            if entry.file_type().unwrap().is_dir() {
                if !name.starts_with('.') && name != "target" && !path.ends_with("shared/faults") {
                    stack.push(path);
                }
            } else if name.ends_with(".rs") {
                assert!(!contains(&path, MARKS[0]), "{} looks for faults by itself", path.display());
            }
        }
    }
    let manifest = fs::read_to_string(workspace().join("Cargo.toml")).unwrap();
    let release = manifest.split("[profile.release").skip(1).collect::<String>();
    assert!(!release.contains("debug-assertions"), "a release is told by its missing debug assertions");
}
