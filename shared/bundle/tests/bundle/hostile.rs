//! Archives that plangate did not make.

use std::fs;
use std::io::{self, Read as _};

use plangate_bundle::{Limits, inspect, unpack_verified};
use plangate_gate::digest::Digest;
use tar::{EntryType, Header};

use super::{build, folder};

/// One entry as an attacker writes it: any name, any kind, any size in the header.
struct Entry<'a> {
    name: &'a [u8],
    kind: EntryType,
    target: &'a [u8],
    content: &'a [u8],
}

fn file(name: &str) -> Entry<'_> {
    Entry { name: name.as_bytes(), kind: EntryType::Regular, target: b"", content: b"x" }
}

fn entry<'a>(name: &'a str, kind: EntryType, target: &'a str) -> Entry<'a> {
    Entry { name: name.as_bytes(), kind, target: target.as_bytes(), content: b"" }
}

fn header(entry: &Entry<'_>, bytes: u64) -> Header {
    let mut header = Header::new_gnu();
    let old = header.as_old_mut();
    old.name[..entry.name.len()].copy_from_slice(entry.name);
    old.linkname[..entry.target.len()].copy_from_slice(entry.target);
    header.set_entry_type(entry.kind);
    header.set_mode(0o644);
    header.set_size(bytes);
    header.set_cksum();
    header
}

fn tar(entries: &[Entry<'_>]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for entry in entries {
        bytes.extend(header(entry, entry.content.len() as u64).as_bytes());
        bytes.extend(entry.content);
        bytes.resize(bytes.len().next_multiple_of(512), 0);
    }
    bytes.resize(bytes.len() + 1024, 0);
    bytes
}

fn archive(entries: &[Entry<'_>]) -> Vec<u8> {
    zstd::encode_all(tar(entries).as_slice(), 3).unwrap()
}

/// Unpacks; on a refusal nothing may be left.
fn attempt(archive: &[u8], limits: &Limits) -> Result<(), &'static str> {
    let at = folder(&[]);
    let into = at.path().join("source");
    let result = unpack_verified(archive, &Digest::of(archive), &into, limits);
    if result.is_err() {
        assert_eq!(fs::read_dir(at.path()).unwrap().count(), 0, "a refused bundle left something");
    }
    assert_eq!(inspect(archive, limits).is_ok(), result.is_ok());
    result.map(|_| ()).map_err(|error| error.reason())
}

fn refused(entries: &[Entry<'_>]) -> &'static str {
    attempt(&archive(entries), &Limits::default()).unwrap_err()
}

#[test]
fn paths_that_leave_the_folder_are_refused() {
    for name in ["/etc/cron.d/x", "../x", "a/../../x", "a/..", ".."] {
        assert_eq!(refused(&[file(name)]), "bundle-path-escapes", "{name}");
    }
    for name in ["./x", "a//b", "a/./b", "x/", "a\nb", "a\u{1b}[31m", ""] {
        assert_eq!(refused(&[file(name)]), "bundle-name-invalid", "{name:?}");
    }
    assert_eq!(refused(&[Entry { name: b"\xff\xfe", ..file("") }]), "bundle-name-invalid");
}

#[test]
fn a_long_name_is_held_to_the_same_rules() {
    let long = |name: &[u8], kind| {
        archive(&[Entry { name: b"././@LongLink", kind, target: b"", content: name }, file("main.tf")])
    };
    let attempt = |archive: &[u8]| attempt(archive, &Limits::default());
    assert_eq!(attempt(&long(b"../../x\0", EntryType::GNULongName)), Err("bundle-path-escapes"));
    assert_eq!(attempt(&long(b"a\0b\0", EntryType::GNULongName)), Err("bundle-name-invalid"));
    assert_eq!(attempt(&long(&[b'a'; 4096], EntryType::GNULongName)), Err("bundle-path-too-long"));
    assert_eq!(attempt(&long(b"path=../x\n", EntryType::XHeader)), Err("bundle-special-file"));
    assert_eq!(attempt(&long(b"path=../x\n", EntryType::XGlobalHeader)), Err("bundle-special-file"));
    let twice = Entry { name: b"././@LongLink", kind: EntryType::GNULongName, target: b"", content: b"a\0" };
    let again = Entry { name: b"././@LongLink", kind: EntryType::GNULongName, target: b"", content: b"b\0" };
    assert_eq!(refused(&[twice, again, file("main.tf")]), "bundle-damaged");
    let orphan = Entry { name: b"././@LongLink", kind: EntryType::GNULongName, target: b"", content: b"a\0" };
    assert_eq!(refused(&[orphan]), "bundle-damaged");
}

#[test]
fn links_that_leave_the_folder_are_refused() {
    for target in ["/etc/passwd", "../x", "a/../../x"] {
        let entries = [file("a/f"), entry("link", EntryType::Symlink, target)];
        assert_eq!(refused(&entries), "bundle-link-escapes", "{target}");
    }
    let through_a_link = [entry("top", EntryType::Symlink, "."), entry("out", EntryType::Symlink, "top/../x")];
    assert_eq!(refused(&through_a_link), "bundle-link-unresolved");
    let written_through = [file("d/f"), entry("link", EntryType::Symlink, "d"), file("link/g")];
    assert_eq!(refused(&written_through), "bundle-link-escapes");
    let replaced = [file("d/f"), entry("main.tf", EntryType::Symlink, "d/f"), file("main.tf")];
    assert_eq!(refused(&replaced), "bundle-duplicate-entry");
    assert_eq!(refused(&[entry("link", EntryType::Symlink, "")]), "bundle-name-invalid");
}

#[test]
fn devices_pipes_hard_links_and_unknown_kinds_are_refused() {
    for kind in [
        EntryType::Char,
        EntryType::Block,
        EntryType::Fifo,
        EntryType::Link,
        EntryType::GNUSparse,
        EntryType::Continuous,
        EntryType::new(b'V'),
    ] {
        assert_eq!(refused(&[file("f"), entry("x", kind, "f")]), "bundle-special-file", "{kind:?}");
    }
}

#[test]
fn an_entry_twice_is_refused() {
    assert_eq!(refused(&[file("main.tf"), file("main.tf")]), "bundle-duplicate-entry");
    assert_eq!(refused(&[file("a"), file("a/b")]), "bundle-duplicate-entry");
    assert_eq!(refused(&[file("a/b"), file("a")]), "bundle-duplicate-entry");
}

#[test]
fn files_that_steer_the_engine_or_hold_state_are_refused() {
    for name in [
        ".terraform/providers/registry.terraform.io/p",
        ".terraform/terraform.tfstate",
        ".terraform/modules/m/.terraform/x",
        ".terraform",
        ".terraform/modules",
        "terraform.tfstate",
        "terraform.tfstate.backup",
        "errored.tfstate",
        "terraform.d/plugins/linux_amd64/p",
        "sub/terraform.d/x",
        ".terraformrc",
        "terraform.rc",
        "_override.tf.json",
        "_override.tofu.json",
        "old.tfplan",
        ".git/hooks/post-checkout",
    ] {
        assert_eq!(refused(&[file(name)]), "bundle-forbidden-file", "{name}");
    }
}

#[test]
fn too_many_files_are_refused_implied_folders_counted() {
    let limits = Limits { files: 3, ..Limits::default() };
    let flat = archive(&[file("a"), file("b"), file("c"), file("d")]);
    let deep = archive(&[file("a/b/c/d")]);
    assert_eq!(attempt(&flat, &limits), Err("bundle-too-many-files"));
    assert_eq!(attempt(&deep, &limits), Err("bundle-too-many-files"));
    assert_eq!(attempt(&archive(&[file("a/b/c")]), &limits), Ok(()));
}

#[test]
fn a_small_archive_that_unpacks_large_is_refused() {
    let limits = Limits { unpacked_bytes: 1024 * 1024, files: 100, ..Limits::default() };
    let big = vec![0; 64 * 1024 * 1024];
    let honest = archive(&[Entry { content: &big, ..file("zeros") }]);
    assert!(honest.len() < 20_000, "it is a bomb: {} bytes", honest.len());
    assert_eq!(attempt(&honest, &limits), Err("bundle-too-large"));

    // Headers that claim nothing, and a stream that does not end.
    let mut endless = Vec::new();
    for _ in 0..100_000 {
        endless.extend(header(&entry("a/", EntryType::Directory, ""), 0).as_bytes());
    }
    let endless = zstd::encode_all(endless.as_slice(), 3).unwrap();
    assert_eq!(attempt(&endless, &limits), Err("bundle-duplicate-entry"));

    // A claim of more bytes than a number of files can hold.
    let mut claim = header(&file("huge"), u64::MAX / 2).as_bytes().to_vec();
    claim.resize(2048, 0);
    let claim = zstd::encode_all(claim.as_slice(), 3).unwrap();
    assert_eq!(attempt(&claim, &limits), Err("bundle-too-large"));
}

#[test]
fn a_decoder_window_beyond_the_bound_is_refused() {
    let mut encoder = zstd::Encoder::new(Vec::new(), 3).unwrap();
    encoder.window_log(27).unwrap();
    io::copy(&mut io::repeat(0).take(32 * 1024 * 1024), &mut encoder).unwrap();
    let archive = encoder.finish().unwrap();
    assert_eq!(attempt(&archive, &Limits::default()), Err("bundle-damaged"));
}

#[test]
fn an_archive_above_the_stored_limit_is_not_even_hashed_to_its_end() {
    let limits = Limits { archive_bytes: 1000, ..Limits::default() };
    let at = folder(&[]);
    let endless = io::repeat(7);
    let error = unpack_verified(endless, &Digest::of(b""), &at.path().join("s"), &limits).unwrap_err();
    assert_eq!(error.reason(), "bundle-too-large");
}

#[test]
fn other_bytes_than_the_digest_names_are_refused_first() {
    let bundle = build(&folder(&[("main.tf", "")])).unwrap();
    let at = folder(&[]);
    let into = at.path().join("source");
    let mut altered = bundle.bytes().to_vec();
    let last = altered.len() - 1;
    altered[last] ^= 1;
    for bytes in [altered.as_slice(), &bundle.bytes()[..last], b"", &[bundle.bytes(), b"x"].concat()] {
        let error = unpack_verified(bytes, &bundle.digest(), &into, &Limits::default()).unwrap_err();
        assert_eq!(error.reason(), "bundle-digest-mismatch");
        assert!(!into.exists());
    }
    // And a damaged archive under its own digest.
    let two_frames = [bundle.bytes(), bundle.bytes()].concat();
    let smuggled = [tar(&[file("main.tf")]), b"more".to_vec()].concat();
    let smuggled = zstd::encode_all(smuggled.as_slice(), 3).unwrap();
    for bytes in [altered.as_slice(), &bundle.bytes()[..last / 2], b"", b"not zstd", &two_frames, &smuggled] {
        assert_eq!(attempt(bytes, &Limits::default()), Err("bundle-damaged"));
    }
}

#[test]
fn a_file_cut_short_is_damaged() {
    let whole = tar(&[Entry { content: &[b'x'; 5000], ..file("main.tf") }]);
    let cut = zstd::encode_all(&whole[..2048], 3).unwrap();
    assert_eq!(attempt(&cut, &Limits::default()), Err("bundle-damaged"));
}

#[test]
fn a_folder_that_exists_is_never_unpacked_into() {
    let bundle = build(&folder(&[("main.tf", "")])).unwrap();
    let at = folder(&[("mine", "kept")]);
    let error = unpack_verified(bundle.bytes(), &bundle.digest(), at.path(), &Limits::default()).unwrap_err();
    assert_eq!(error.reason(), "bundle-io");
    assert_eq!(fs::read_to_string(at.path().join("mine")).unwrap(), "kept");
}
