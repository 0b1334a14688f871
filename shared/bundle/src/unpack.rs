//! The runner's side: an archive becomes a folder only if its bytes are those of the digest and every entry is fit.

use std::fs::{self, DirBuilder, File, OpenOptions, Permissions};
use std::io::{self, Read, Seek as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use plangate_gate::digest::{Digest, Hasher};
use rustix::fs::OFlags;

use crate::archive::read_archive;
use crate::lock::LOCK_FILE_NAME;
use crate::tree::{Layout, Node, Tree};
use crate::{BundleError, CheckedConfiguration, Dialect, Limits};

/// An unpacked bundle whose bytes were those of its digest (`R4`). Only [`unpack_verified`] makes one.
#[derive(Debug)]
pub struct VerifiedBundle {
    tree: Tree,
    root: PathBuf,
    digest: Digest,
    lock_file_digest: Option<Digest>,
    limits: Limits,
}

impl VerifiedBundle {
    /// The folder it was unpacked into.
    #[must_use]
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The digest of its archive.
    #[must_use]
    pub const fn digest(&self) -> Digest {
        self.digest
    }

    /// The digest of its `.terraform.lock.hcl`, `None` without one (`R5`, `R11`).
    #[must_use]
    pub const fn lock_file_digest(&self) -> Option<Digest> {
        self.lock_file_digest
    }

    /// Reads the configuration as the engine will: override files, modules, providers, lock file (`R11`).
    ///
    /// # Errors
    ///
    /// `backend-in-override`, `module-not-captured`, `module-path-escapes`, `lock-file-missing`,
    /// `lock-file-without-h1`, `configuration-unparseable`, `bundle-empty` and their like.
    pub fn check_configuration(&self, dialect: Dialect) -> Result<CheckedConfiguration, BundleError> {
        CheckedConfiguration::of(&self.tree, dialect, &self.limits)
    }
}

/// Unpacks an archive into the folder `into`, which must not exist and is made with mode 0700. The whole archive is
/// hashed first; then every entry is checked; only then is anything written: folders 0700, files 0600, executables
/// 0700, whatever the umask, and one fixed time, so that plan and apply see the same. A refusal leaves no folder.
///
/// # Errors
///
/// `bundle-digest-mismatch` before anything else is looked at; otherwise the first thing that is not allowed.
pub fn unpack_verified(
    archive: impl Read,
    expected: &Digest,
    into: &Path,
    limits: &Limits,
) -> Result<VerifiedBundle, BundleError> {
    // A private copy without a name: what was hashed is what is unpacked.
    let beside = into.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut copy = tempfile::tempfile_in(beside).map_err(BundleError::io("write", beside))?;
    let found = spool(archive, &mut copy, limits)?;
    if found != *expected {
        return Err(BundleError::DigestMismatch { expected: *expected, found });
    }
    rewind(&mut copy)?;
    read_archive(io::BufReader::new(&copy), limits, |_, _, _| Ok(()))?;
    rewind(&mut copy)?;
    make_folder(into)?;
    let unpacked = write_all(&copy, into, limits).and_then(|layout| {
        let tree = Tree::new(layout, into.to_owned());
        let lock_file_digest = tree.read(LOCK_FILE_NAME, limits)?.map(|bytes| Digest::of(&bytes));
        Ok(VerifiedBundle { tree, root: into.to_owned(), digest: found, lock_file_digest, limits: limits.clone() })
    });
    unpacked.inspect_err(|_| {
        // The refusal says more than a failure to clean up after it would.
        let _ = fs::remove_dir_all(into);
    })
}

fn rewind(copy: &mut File) -> Result<(), BundleError> {
    copy.rewind().map_err(BundleError::io("read", "the archive"))
}

/// Copies the archive and gives its digest.
fn spool(mut archive: impl Read, copy: &mut File, limits: &Limits) -> Result<Digest, BundleError> {
    let mut hasher = Hasher::new();
    let mut buffer = vec![0; 64 * 1024];
    let mut total: u64 = 0;
    loop {
        let count = match archive.read(&mut buffer) {
            Ok(0) => break,
            Ok(count) => count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(BundleError::io("read", "the archive")(error)),
        };
        total = total.saturating_add(count as u64);
        if total > limits.archive_bytes {
            return Err(BundleError::TooLarge { what: "archive".to_owned(), limit: limits.archive_bytes });
        }
        let piece = buffer.get(..count).unwrap_or_default();
        hasher.update(piece);
        copy.write_all(piece).map_err(BundleError::io("write", "the archive"))?;
    }
    Ok(hasher.finish())
}

/// Writes the checked archive into the new folder: files first, links last, so that nothing is written through one.
fn write_all(copy: &File, into: &Path, limits: &Limits) -> Result<Layout, BundleError> {
    let mut links: Vec<(PathBuf, String)> = Vec::new();
    let layout = read_archive(io::BufReader::new(copy), limits, |path, node, content| {
        let disk = into.join(path);
        make_parents(into, path)?;
        match node {
            Node::Folder { .. } if disk.is_dir() => Ok(()),
            Node::Folder { .. } => make_folder(&disk),
            Node::File { executable, bytes } => write_file(&disk, *executable, *bytes, content),
            Node::Link { target } => {
                links.push((disk, target.clone()));
                Ok(())
            }
        }
    })?;
    for (disk, target) in links {
        symlink(target, &disk).map_err(BundleError::io("write", &disk))?;
    }
    Ok(layout)
}

fn make_parents(into: &Path, path: &str) -> Result<(), BundleError> {
    for (at, _) in path.match_indices('/') {
        let parent = into.join(path.get(..at).unwrap_or_default());
        if !parent.is_dir() {
            make_folder(&parent)?;
        }
    }
    Ok(())
}

fn make_folder(disk: &Path) -> Result<(), BundleError> {
    DirBuilder::new().mode(0o700).create(disk).map_err(BundleError::io("create", disk))?;
    fs::set_permissions(disk, Permissions::from_mode(0o700)).map_err(BundleError::io("create", disk))
}

fn write_file(disk: &Path, executable: bool, bytes: u64, content: &mut dyn Read) -> Result<(), BundleError> {
    let mode = if executable { 0o700 } else { 0o600 };
    let nofollow = i32::try_from(OFlags::NOFOLLOW.bits()).unwrap_or_default();
    let mut file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(mode)
        .custom_flags(nofollow)
        .open(disk)
        .map_err(BundleError::io("create", disk))?;
    let written = io::copy(content, &mut file).map_err(BundleError::io("write", disk))?;
    if written != bytes {
        return Err(BundleError::Damaged { detail: "it ends early".to_owned() });
    }
    file.set_permissions(Permissions::from_mode(mode)).map_err(BundleError::io("write", disk))?;
    file.set_modified(unpacked_time()).map_err(BundleError::io("write", disk))
}

/// 1980-01-01: the time of every unpacked file, the earliest that a zip made from it can hold.
fn unpacked_time() -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_secs(315_532_800)
}
