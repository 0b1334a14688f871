//! Reading a folder on the proposer's machine.

use std::fs;
use std::io::Read as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{FileTypeExt as _, PermissionsExt as _};
use std::path::Path;

use crate::archive::check_target;
use crate::names::{Fate, check_path, fate, printable};
use crate::tree::{Layout, Node};
use crate::{BundleError, Limits};

/// Adds everything below the folder `dir` to `layout` under `prefix` (empty, or ending in `/`). What is left out is
/// passed over; what is refused fails.
pub(crate) fn scan(dir: &Path, prefix: &str, layout: &mut Layout, limits: &Limits) -> Result<(), BundleError> {
    for entry in fs::read_dir(dir).map_err(BundleError::io("read", dir))? {
        let entry = entry.map_err(BundleError::io("read", dir))?;
        let disk = entry.path();
        let raw = [prefix.as_bytes(), entry.file_name().as_bytes()].concat();
        let path = check_path(&raw, limits)?;
        // The engine's own folder in the proposer's is not captured: what is in it depends on what was run there.
        if path == ".terraform" {
            continue;
        }
        match fate(&path) {
            Fate::Keep => {}
            Fate::LeaveOut(_) => continue,
            Fate::Refuse(why) => return Err(BundleError::ForbiddenFile { path, why }),
        }
        let metadata = fs::symlink_metadata(&disk).map_err(BundleError::io("read", &disk))?;
        let kind = metadata.file_type();
        if kind.is_dir() {
            scan(&disk, &format!("{path}/"), layout, limits)?;
        } else if kind.is_symlink() {
            let target = fs::read_link(&disk).map_err(BundleError::io("read", &disk))?;
            let target = check_target(&raw, target.as_os_str().as_bytes(), limits)?;
            layout.insert(&path, Node::Link { target }, limits)?;
        } else if kind.is_file() {
            if is_plan_file(&disk)? {
                continue;
            }
            let executable = metadata.permissions().mode() & 0o100 != 0;
            layout.insert(&path, Node::File { executable, bytes: metadata.len() }, limits)?;
        } else {
            let kind = if kind.is_fifo() {
                "named pipe"
            } else if kind.is_socket() {
                "socket"
            } else {
                "device"
            };
            return Err(BundleError::SpecialFile { path: printable(&raw), kind });
        }
    }
    Ok(())
}

/// Whether a file is a plan whatever its name: a zip with a member `tfplan`.
fn is_plan_file(disk: &Path) -> Result<bool, BundleError> {
    let mut file = fs::File::open(disk).map_err(BundleError::io("read", disk))?;
    let mut magic = Vec::new();
    file.by_ref().take(4).read_to_end(&mut magic).map_err(BundleError::io("read", disk))?;
    if magic != b"PK\x03\x04" {
        return Ok(false);
    }
    // Something else that begins like a zip is no plan.
    Ok(zip::ZipArchive::new(file).is_ok_and(|archive| archive.index_for_name("tfplan").is_some()))
}
