//! The proposer's side: a folder becomes an archive whose bytes depend on nothing but its content.

use std::fs;
use std::io::{Read as _, Write};
use std::path::Path;

use plangate_gate::digest::Digest;
use tar::{EntryType, Header};

use crate::capture::CapturedModules;
use crate::config::is_tofu_file;
use crate::lock::LOCK_FILE_NAME;
use crate::names::MODULES;
use crate::scan::scan;
use crate::tree::{Layout, Node, Tree};
use crate::{BundleError, CheckedConfiguration, Dialect, Limits};

/// Fixed, since another level gives other bytes.
const LEVEL: i32 = 9;

/// Fixed, and below what the runner's decoder allows (4 MiB).
const WINDOW_LOG: u32 = 22;

/// A folder's configuration as one archive, addressed by its SHA-256 (`R4`): the same folder gives the same bytes
/// whatever the clock, the user, the umask and the order of its files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bundle {
    bytes: Vec<u8>,
    digest: Digest,
    lock_file_digest: Option<Digest>,
    files: usize,
    unpacked_bytes: u64,
}

impl Bundle {
    /// Builds the bundle of a folder that names no remote modules.
    ///
    /// # Errors
    ///
    /// What the runner would refuse is refused here first; a remote module is `module-not-captured`.
    pub fn build(dir: &Path, limits: &Limits) -> Result<Self, BundleError> {
        Self::build_with_modules(dir, &CapturedModules::none(), limits)
    }

    /// Builds the bundle of a folder with the modules that [`crate::capture_modules`] fetched for it.
    ///
    /// # Errors
    ///
    /// What the runner would refuse is refused here first.
    pub fn build_with_modules(dir: &Path, captured: &CapturedModules, limits: &Limits) -> Result<Self, BundleError> {
        let tree = folder_tree(dir, captured, limits)?;
        for dialect in dialects(&tree.layout) {
            CheckedConfiguration::of(&tree, dialect, limits)?;
        }
        let bytes = pack(&tree)?;
        if bytes.len() as u64 > limits.archive_bytes {
            return Err(BundleError::TooLarge { what: "archive".to_owned(), limit: limits.archive_bytes });
        }
        Ok(Self {
            digest: Digest::of(&bytes),
            lock_file_digest: tree.read(LOCK_FILE_NAME, limits)?.map(|lock| Digest::of(&lock)),
            files: tree.layout.len(),
            unpacked_bytes: tree.layout.bytes(),
            bytes,
        })
    }

    /// The archive: a zstd-compressed tar.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The archive, given away.
    #[must_use]
    pub fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }

    /// The digest of the archive, the bundle's address.
    #[must_use]
    pub const fn digest(&self) -> Digest {
        self.digest
    }

    /// The digest of the `.terraform.lock.hcl` in it, `None` without one (`R5`).
    #[must_use]
    pub const fn lock_file_digest(&self) -> Option<Digest> {
        self.lock_file_digest
    }

    /// How many files, links and folders it holds.
    #[must_use]
    pub const fn files(&self) -> usize {
        self.files
    }

    /// The bytes of its files once unpacked.
    #[must_use]
    pub const fn unpacked_bytes(&self) -> u64 {
        self.unpacked_bytes
    }
}

/// The folder and the captured modules as one tree.
pub(crate) fn folder_tree(dir: &Path, captured: &CapturedModules, limits: &Limits) -> Result<Tree, BundleError> {
    let mut layout = Layout::default();
    scan(dir, "", &mut layout, limits)?;
    let tree = match captured.folder() {
        None => Tree::new(layout, dir.to_owned()),
        Some(modules) => {
            scan(&modules, &format!("{MODULES}/"), &mut layout, limits)?;
            Tree::with_modules(layout, dir.to_owned(), modules)
        }
    };
    tree.layout.check_links()?;
    Ok(tree)
}

/// The engines that may be meant: with `.tofu` files OpenTofu, and Terraform too if it would find something.
pub(crate) fn dialects(layout: &Layout) -> Vec<Dialect> {
    let names: Vec<&str> = layout.files_in("").collect();
    let terraform = !Dialect::Terraform.select(&names).is_empty();
    let tofu = layout.iter().any(|(path, _)| is_tofu_file(path.rsplit('/').next().unwrap_or(path)));
    match (terraform, tofu) {
        (true, false) => vec![Dialect::Terraform],
        (true, true) => vec![Dialect::Terraform, Dialect::OpenTofu],
        (false, _) => vec![Dialect::OpenTofu],
    }
}

fn pack(tree: &Tree) -> Result<Vec<u8>, BundleError> {
    let fault = || BundleError::io("pack", "the bundle");
    let mut encoder = zstd::Encoder::new(Vec::new(), LEVEL).map_err(fault())?;
    encoder.include_checksum(true).map_err(fault())?;
    encoder.window_log(WINDOW_LOG).map_err(fault())?;
    let mut tar = tar::Builder::new(encoder);
    for (path, node) in tree.layout.iter() {
        append(&mut tar, tree, path, node)?;
    }
    tar.into_inner().and_then(zstd::Encoder::finish).map_err(fault())
}

fn append(tar: &mut tar::Builder<impl Write>, tree: &Tree, path: &str, node: &Node) -> Result<(), BundleError> {
    // Nothing of the file's own owner, time or finer permissions goes in.
    let mut header = Header::new_gnu();
    header.set_uid(0);
    header.set_gid(0);
    header.set_mtime(0);
    match node {
        // Folders are made by what is in them.
        Node::Folder { .. } => return Ok(()),
        Node::File { executable, bytes } => {
            let disk = tree.disk(path);
            let mut content = Vec::new();
            let file = fs::File::open(&disk).map_err(BundleError::io("read", &disk))?;
            file.take(bytes.saturating_add(1)).read_to_end(&mut content).map_err(BundleError::io("read", &disk))?;
            if content.len() as u64 != *bytes {
                let changed = std::io::Error::other("it changed while it was read; try again");
                return Err(BundleError::io("pack", disk)(changed));
            }
            header.set_entry_type(EntryType::Regular);
            header.set_mode(if *executable { 0o755 } else { 0o644 });
            header.set_size(*bytes);
            tar.append_data(&mut header, path, content.as_slice())
        }
        Node::Link { target } => {
            header.set_entry_type(EntryType::Symlink);
            header.set_mode(0o644);
            header.set_size(0);
            tar.append_link(&mut header, path, target)
        }
    }
    .map_err(BundleError::io("pack", path))
}
