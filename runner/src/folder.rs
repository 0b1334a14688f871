//! The folder of a run: fresh, at the same place in both phases, closed to everybody else, gone at the end.
//!
//! `source` is the engine's working directory, `data` its TF_DATA_DIR, `home` and `out` are its own; `given` holds what
//! the runner hands it, which it may read and not change.

use std::fs::{self, DirBuilder, File};
use std::io::{Read, Write};
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};

use plangate_gate::ids::RunId;
use rustix::fs::{AtFlags, CWD, Gid, Mode, OFlags, Uid, chownat, open};

use crate::config::EngineUser;
use crate::error::{Result, RunnerError, io};

/// A run's folder. Dropping it removes it with all that is in it.
#[derive(Debug)]
pub(crate) struct Folder {
    root: PathBuf,
    user: Option<EngineUser>,
}

impl Folder {
    /// Makes the folder of `run` under `work_root`, for an engine that runs as `user`.
    ///
    /// # Errors
    /// It cannot be made, or is there already: then another task of the same run is at work.
    pub(crate) fn create(work_root: &Path, run: &RunId, user: Option<EngineUser>) -> Result<Self> {
        fs::create_dir_all(work_root).map_err(io("make the work folder"))?;
        if user.is_some() {
            // The engine's user passes through; it can list nothing.
            fs::set_permissions(work_root, fs::Permissions::from_mode(0o711)).map_err(io("share the work folder"))?;
        }
        let root = work_root.join(run.as_str());
        DirBuilder::new().mode(0o700).create(&root).map_err(|error| match error.kind() {
            std::io::ErrorKind::AlreadyExists => RunnerError::gate("the run's folder exists: another task is at work"),
            _ => io("make the run's folder")(error),
        })?;
        let folder = Self { root, user };
        for owned in [folder.data(), folder.home(), folder.out()] {
            DirBuilder::new().mode(0o700).create(&owned).map_err(io("make a folder of the run"))?;
            folder.hand_over(&owned)?;
        }
        DirBuilder::new().mode(0o700).create(folder.given()).map_err(io("make a folder of the run"))?;
        if let Some(user) = user {
            // The engine's group may pass through, and read what it is given; nothing here is the engine's to replace.
            for shared in [&folder.root, &folder.given()] {
                chown(shared, None, user.gid)?;
                fs::set_permissions(shared, fs::Permissions::from_mode(0o710)).map_err(io("share a folder"))?;
            }
        }
        Ok(folder)
    }

    /// Where the bundle is unpacked. Not made here.
    #[must_use]
    pub(crate) fn source(&self) -> PathBuf {
        self.root.join("source")
    }

    /// The engine's data.
    #[must_use]
    pub(crate) fn data(&self) -> PathBuf {
        self.root.join("data")
    }

    /// The engine's home and temporary folder.
    #[must_use]
    pub(crate) fn home(&self) -> PathBuf {
        self.root.join("home")
    }

    /// Where the engine writes its plan.
    #[must_use]
    pub(crate) fn out(&self) -> PathBuf {
        self.root.join("out")
    }

    fn given(&self) -> PathBuf {
        self.root.join("given")
    }

    /// Writes something for the engine to read and tells where.
    ///
    /// # Errors
    /// It cannot be written.
    pub(crate) fn give(&self, name: &str, bytes: &[u8]) -> Result<PathBuf> {
        let path = self.given().join(name);
        let mut file = create_new(&path, Mode::RUSR | Mode::WUSR)?;
        file.write_all(bytes).map_err(io("write a file for the engine"))?;
        if let Some(user) = self.user {
            chown(&path, None, user.gid)?;
            fs::set_permissions(&path, fs::Permissions::from_mode(0o440)).map_err(io("share a file"))?;
        }
        Ok(path)
    }

    /// The same, in the place of what was given under this name before.
    ///
    /// # Errors
    /// It cannot be written.
    pub(crate) fn give_anew(&self, name: &str, bytes: &[u8]) -> Result<PathBuf> {
        let fresh = self.give(&format!("{name}.new"), bytes)?;
        let path = self.given().join(name);
        fs::rename(fresh, &path).map_err(io("give the engine a file anew"))?;
        Ok(path)
    }

    /// Makes the engine's user the owner of a file or folder and of everything in it.
    ///
    /// # Errors
    /// The platform refuses.
    pub(crate) fn hand_over(&self, path: &Path) -> Result<()> {
        let Some(user) = self.user else { return Ok(()) };
        chown(path, Some(user.uid), user.gid)?;
        if fs::symlink_metadata(path).map_err(io("look at a file"))?.is_dir() {
            for entry in fs::read_dir(path).map_err(io("list a folder"))? {
                self.hand_over(&entry.map_err(io("list a folder"))?.path())?;
            }
        }
        Ok(())
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // A task's disk dies with it; where it does not, what stays is closed to all but the runner's user.
        if fs::remove_dir_all(&self.root).is_err() {
            let _ = fs::set_permissions(&self.root, fs::Permissions::from_mode(0o700));
            let _ = fs::remove_dir_all(&self.root);
        }
    }
}

fn chown(path: &Path, uid: Option<u32>, gid: u32) -> Result<()> {
    let owner = uid.map(Uid::from_raw);
    chownat(CWD, path, owner, Some(Gid::from_raw(gid)), AtFlags::SYMLINK_NOFOLLOW)
        .map_err(|error| io("hand a file over")(error.into()))
}

/// Makes a file that must not exist, through no link.
///
/// # Errors
/// Something stands there, or it cannot be made.
pub(crate) fn create_new(path: &Path, mode: Mode) -> Result<File> {
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    open(path, flags, mode).map(File::from).map_err(|error| io("make a file")(error.into()))
}

/// Reads a file that the engine wrote: a plain file, through no link, of at most `limit` bytes; none if there is none.
///
/// # Errors
/// It is something else, larger, or cannot be read.
pub(crate) fn read_plain(path: &Path, limit: u64) -> Result<Option<Vec<u8>>> {
    // Not waiting for the other end, should it be a pipe.
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = match open(path, flags, Mode::empty()) {
        Ok(file) => File::from(file),
        Err(rustix::io::Errno::NOENT) => return Ok(None),
        Err(error) => return Err(io("open a file of the engine")(error.into())),
    };
    if !file.metadata().map_err(io("look at a file of the engine"))?.is_file() {
        return Err(RunnerError::gate("a file of the engine is no plain file"));
    }
    let mut bytes = Vec::new();
    file.take(limit.saturating_add(1)).read_to_end(&mut bytes).map_err(io("read a file of the engine"))?;
    if bytes.len() as u64 > limit {
        return Err(RunnerError::gate(format!("a file of the engine has more than {limit} bytes")));
    }
    Ok(Some(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run() -> RunId {
        "run-00000000000000000000000001".parse().unwrap()
    }

    #[test]
    fn a_runs_folder_is_closed_one_of_a_kind_and_gone_at_the_end() {
        let work = tempfile::tempdir().unwrap();
        let folder = Folder::create(work.path(), &run(), None).unwrap();
        let root = work.path().join(run().as_str());
        assert_eq!(fs::metadata(&root).unwrap().permissions().mode() & 0o777, 0o700);
        assert_eq!(folder.source(), root.join("source"), "both phases must see the same path");
        let secret = folder.give("secrets.tfvars.json", b"{}").unwrap();
        assert_eq!(fs::metadata(secret).unwrap().permissions().mode() & 0o777, 0o600);
        assert!(Folder::create(work.path(), &run(), None).is_err());
        assert!(root.exists(), "the second task must not take the first one's folder away");
        drop(folder);
        assert!(!root.exists());
    }

    #[test]
    fn no_link_is_written_or_read_through() {
        let work = tempfile::tempdir().unwrap();
        let target = work.path().join("target");
        fs::write(&target, "kept").unwrap();
        let link = work.path().join("link");
        std::os::unix::fs::symlink(&target, &link).unwrap();
        assert!(create_new(&link, Mode::RUSR).is_err());
        assert!(read_plain(&link, 100).is_err());
        assert!(read_plain(work.path(), 100).is_err(), "a folder is no file");
        assert!(read_plain(&target, 3).is_err(), "too large");
        assert_eq!(read_plain(&target, 4).unwrap(), Some(b"kept".to_vec()));
        assert_eq!(read_plain(&work.path().join("absent"), 4).unwrap(), None);
    }
}
