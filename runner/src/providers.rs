//! Whether each installed provider is the one that the dependency lock names (`R11`). The engine checks too; it lets
//! an entry pass whose hashes are for other platforms, so the package at hand is hashed once more here.

use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};

use base64::Engine as _;
use plangate_bundle::LockFile;
use plangate_gate::digest::{Digest, Hasher};
use plangate_gate::failure::FailureReason;
use rustix::fs::{Mode, OFlags, open};

use crate::error::{Result, RunnerError, io};

/// Checks the packages in `data`, the engine's data folder, for `platform` (such as `linux_amd64`).
///
/// # Errors
/// `lock-file-invalid`, naming the first provider that is not installed or whose `h1` hash the lock does not have.
pub(crate) fn check(lock: &LockFile, data: &Path, platform: &str) -> Result<()> {
    for provider in lock.providers() {
        let invalid = |what: &str| {
            let detail = format!("provider `{}` {}: {what} for {platform}", provider.source, provider.version);
            Err(RunnerError::failed(FailureReason::LockFileInvalid, detail))
        };
        let package = data.join("providers").join(&provider.source).join(&provider.version).join(platform);
        // The engine may have linked a package of the mirror.
        let Ok(package) = fs::canonicalize(&package) else { return invalid("there is no package") };
        let h1 = package_hash(&package)?;
        if !provider.hashes.contains(&h1) {
            return invalid("the lock file has no `h1` hash of the package");
        }
    }
    Ok(())
}

/// The `h1` hash of an unpacked package: of the sorted list of its files' digests and names.
fn package_hash(package: &Path) -> Result<String> {
    let mut files = Vec::new();
    collect(package, "", &mut files)?;
    files.sort();
    let mut list = String::new();
    for (name, path) in files {
        list.push_str(&format!("{}  {name}\n", file_digest(&path)?.hex()));
    }
    let digest = Digest::of(list.as_bytes());
    Ok(format!("h1:{}", base64::engine::general_purpose::STANDARD.encode(digest.raw())))
}

fn collect(folder: &Path, prefix: &str, files: &mut Vec<(String, PathBuf)>) -> Result<()> {
    for entry in fs::read_dir(folder).map_err(io("list a provider's package"))? {
        let entry = entry.map_err(io("list a provider's package"))?;
        let name = format!("{prefix}{}", entry.file_name().to_string_lossy());
        if entry.file_type().map_err(io("look into a provider's package"))?.is_dir() {
            collect(&entry.path(), &format!("{name}/"), files)?;
        } else {
            files.push((name, entry.path()));
        }
    }
    Ok(())
}

/// The digest of a file, however large.
///
/// # Errors
/// It cannot be read.
pub(crate) fn file_digest(path: &Path) -> Result<Digest> {
    // What is no plain file, such as a pipe, is not waited for.
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let mut file =
        open(path, flags, Mode::empty()).map(File::from).map_err(|error| io("open a binary")(error.into()))?;
    if !file.metadata().map_err(io("look at a binary"))?.is_file() {
        return Err(RunnerError::gate("a binary is no plain file"));
    }
    let mut hasher = Hasher::new();
    let mut buffer = vec![0; 256 * 1024];
    loop {
        match file.read(&mut buffer).map_err(io("read a binary"))? {
            0 => return Ok(hasher.finish()),
            read => hasher.update(buffer.get(..read).unwrap_or_default()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_h1_hash_is_the_engines_own() {
        // The digest list of two files, as `sha256sum` prints it, hashed and in base64.
        let package = tempfile::tempdir().unwrap();
        fs::create_dir(package.path().join("docs")).unwrap();
        fs::write(package.path().join("terraform-provider-x"), "binary").unwrap();
        fs::write(package.path().join("docs/README"), "text").unwrap();
        let list = format!(
            "{}  docs/README\n{}  terraform-provider-x\n",
            Digest::of(b"text").hex(),
            Digest::of(b"binary").hex()
        );
        let expected = base64::engine::general_purpose::STANDARD.encode(Digest::of(list.as_bytes()).raw());
        assert_eq!(package_hash(package.path()).unwrap(), format!("h1:{expected}"));
    }
}
