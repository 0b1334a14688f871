//! The same folder gives the same bundle; what does not belong in one is not in it.

use std::fs::{self, File, Permissions};
use std::io::Write as _;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::os::unix::net::UnixListener;
use std::time::{Duration, SystemTime};

use plangate_bundle::{Bundle, Limits};
use plangate_gate::digest::Digest;

use super::{build, folder, paths, refusal, unpack, write};

const MAIN: (&str, &str) = ("main.tf", "resource \"terraform_data\" \"a\" {}\n");

#[test]
fn the_same_folder_gives_the_same_digest_whatever_its_times_modes_and_order() {
    let files =
        [MAIN, ("b/x.txt", "x"), ("b-c.txt", "y"), ("b/deep/z.sh", "#!/bin/sh\n"), ("terraform.tfvars", "a = 1\n")];
    let first = folder(&files);
    symlink("b/x.txt", first.path().join("link")).unwrap();
    fs::set_permissions(first.path().join("b/deep/z.sh"), Permissions::from_mode(0o755)).unwrap();

    let mut reversed = files;
    reversed.reverse();
    let second = folder(&[]);
    symlink("b/x.txt", second.path().join("link")).unwrap();
    for (path, content) in reversed {
        write(second.path(), path, content);
        let file = File::options().write(true).open(second.path().join(path)).unwrap();
        file.set_modified(SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000)).unwrap();
        fs::set_permissions(second.path().join(path), Permissions::from_mode(0o604)).unwrap();
    }
    fs::set_permissions(second.path().join("b/deep/z.sh"), Permissions::from_mode(0o711)).unwrap();
    fs::set_permissions(second.path().join("b"), Permissions::from_mode(0o700)).unwrap();

    let (first, second) = (build(&first).unwrap(), build(&second).unwrap());
    assert_eq!(first.digest(), second.digest());
    assert_eq!(first.bytes(), second.bytes());
    assert_eq!(first.digest(), Digest::of(first.bytes()));
}

#[test]
fn content_names_links_and_the_executable_bit_count() {
    let files = [MAIN, ("run.sh", "#!/bin/sh\n")];
    let reference = build(&folder(&files)).unwrap().digest();

    let content = folder(&files);
    write(content.path(), "run.sh", "#!/bin/sh\n\n");
    let name = folder(&[MAIN, ("run2.sh", "#!/bin/sh\n")]);
    let executable = folder(&files);
    fs::set_permissions(executable.path().join("run.sh"), Permissions::from_mode(0o700)).unwrap();
    let link = folder(&files);
    symlink("run.sh", link.path().join("other.sh")).unwrap();
    for changed in [content, name, executable, link] {
        assert_ne!(build(&changed).unwrap().digest(), reference);
    }
}

#[test]
fn working_data_states_and_plans_are_left_out() {
    let dir = folder(&[
        MAIN,
        ("modules/a/main.tf", ""),
        (".terraform/providers/p", "binary"),
        (".terraform/modules/modules.json", "{}"),
        ("modules/a/.terraform/x", ""),
        ("terraform.tfstate", "secret"),
        ("terraform.tfstate.backup", "secret"),
        ("terraform.tfstate.d/prod/terraform.tfstate", "secret"),
        ("errored.tfstate", "secret"),
        (".terraform.tfstate.lock.info", "{}"),
        ("saved.tfplan", "secret"),
        (".git/config", ""),
        ("archive.zip", "PK\x03\x04 no zip after all"),
    ]);
    for (name, member) in [("saved", "tfplan"), ("code.zip", "index.js")] {
        let mut zip = zip::ZipWriter::new(File::create(dir.path().join(name)).unwrap());
        zip.start_file(member, zip::write::SimpleFileOptions::default()).unwrap();
        zip.write_all(b"content").unwrap();
        zip.finish().unwrap();
    }
    let bundle = build(&dir).unwrap();
    let at = folder(&[]);
    let unpacked = unpack(&bundle, &at);
    assert_eq!(paths(unpacked.root()), ["archive.zip", "code.zip", "main.tf", "modules/a/main.tf"]);
    assert_eq!(bundle.files(), 6, "four files and two folders");
}

#[test]
fn what_would_steer_the_engine_is_refused_and_not_silently_dropped() {
    for name in ["terraform.d/plugins/p", ".terraformrc", "terraform.rc", "_override.tf.json", "_override.tofu.json"] {
        assert_eq!(refusal(&[MAIN, (name, "{}")]), "bundle-forbidden-file", "{name}");
    }
}

#[test]
fn a_folder_without_configuration_is_refused() {
    assert_eq!(refusal(&[]), "bundle-empty");
    assert_eq!(refusal(&[("README.md", "x"), ("sub/main.tf", ""), (".hidden.tf", "")]), "bundle-empty");
    assert!(build(&folder(&[("main.tofu", "")])).is_ok());
}

#[test]
fn links_that_leave_the_folder_and_special_files_are_refused() {
    let outside = folder(&[("secret", "x")]);
    for (target, reason) in [
        (outside.path().join("secret").to_str().unwrap(), "bundle-link-escapes"),
        ("../../etc/passwd", "bundle-link-escapes"),
        ("gone", "bundle-link-unresolved"),
    ] {
        let dir = folder(&[MAIN]);
        symlink(target, dir.path().join("link")).unwrap();
        assert_eq!(build(&dir).unwrap_err().reason(), reason, "{target}");
    }
    let dir = folder(&[MAIN]);
    let _listening = UnixListener::bind(dir.path().join("socket")).unwrap();
    assert_eq!(build(&dir).unwrap_err().reason(), "bundle-special-file");
}

#[test]
fn a_folder_above_the_limits_is_refused() {
    let dir = folder(&[MAIN, ("a/b.txt", "0123456789")]);
    let reason = |limits: Limits| Bundle::build(dir.path(), &limits).unwrap_err().reason();
    assert_eq!(reason(Limits { files: 2, ..Limits::default() }), "bundle-too-many-files");
    assert_eq!(reason(Limits { unpacked_bytes: 30, ..Limits::default() }), "bundle-too-large");
    assert_eq!(reason(Limits { archive_bytes: 30, ..Limits::default() }), "bundle-too-large");
    assert_eq!(reason(Limits { path_bytes: 6, ..Limits::default() }), "bundle-path-too-long");
}

#[test]
fn long_paths_and_long_link_targets_survive() {
    let long = format!("{}/{}/file.txt", "d".repeat(200), "e".repeat(200));
    let dir = folder(&[MAIN, (&long, "deep")]);
    symlink(&long, dir.path().join("link")).unwrap();
    let bundle = build(&dir).unwrap();
    let at = folder(&[]);
    let unpacked = unpack(&bundle, &at);
    assert_eq!(fs::read_to_string(unpacked.root().join("link")).unwrap(), "deep");
    assert_eq!(Bundle::build(unpacked.root(), &Limits::default()).unwrap().digest(), bundle.digest());
}
