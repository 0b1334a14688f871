//! Bundles as proposers and the runner meet them.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

mod build;
mod configuration;
mod hostile;
mod modules;
mod round_trip;

use std::fs;
use std::path::Path;

use plangate_bundle::{Bundle, BundleError, Limits, VerifiedBundle, unpack_verified};
use tempfile::TempDir;

/// A folder with these files.
fn folder(files: &[(&str, &str)]) -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    for (path, content) in files {
        write(dir.path(), path, content);
    }
    dir
}

fn write(dir: &Path, path: &str, content: &str) {
    let file = dir.join(path);
    fs::create_dir_all(file.parent().unwrap()).unwrap();
    fs::write(file, content).unwrap();
}

fn build(dir: &TempDir) -> Result<Bundle, BundleError> {
    Bundle::build(dir.path(), &Limits::default())
}

/// Why a folder is refused.
fn refusal(files: &[(&str, &str)]) -> &'static str {
    build(&folder(files)).unwrap_err().reason()
}

/// Unpacks a bundle below a fresh folder.
fn unpack(bundle: &Bundle, at: &TempDir) -> VerifiedBundle {
    unpack_verified(bundle.bytes(), &bundle.digest(), &at.path().join("source"), &Limits::default()).unwrap()
}

/// All paths below a folder, sorted.
fn paths(dir: &Path) -> Vec<String> {
    fn collect(top: &Path, dir: &Path, found: &mut Vec<String>) {
        for entry in fs::read_dir(dir).unwrap() {
            let path = entry.unwrap().path();
            if fs::symlink_metadata(&path).unwrap().is_dir() {
                collect(top, &path, found);
            } else {
                found.push(path.strip_prefix(top).unwrap().to_str().unwrap().to_owned());
            }
        }
    }
    let mut found = Vec::new();
    collect(dir, dir, &mut found);
    found.sort();
    found
}
