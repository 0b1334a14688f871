//! How much a bundle may hold.

/// Upper bounds of a bundle. Both sides hold a bundle against them; the runner's are the ones that count.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of the archive as it is stored and sent (compressed).
    pub archive_bytes: u64,
    /// Bytes of all files together once unpacked.
    pub unpacked_bytes: u64,
    /// Files, links and folders together.
    pub files: usize,
    /// Bytes of one path, relative to the folder.
    pub path_bytes: usize,
    /// Bytes of one configuration or lock file.
    pub configuration_file_bytes: u64,
    /// Module calls in the whole configuration, nested ones counted each time they are called.
    pub module_calls: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            archive_bytes: 64 * 1024 * 1024,
            unpacked_bytes: 100 * 1024 * 1024,
            files: 10_000,
            path_bytes: 1024,
            configuration_file_bytes: 4 * 1024 * 1024,
            module_calls: 2_000,
        }
    }
}

impl Limits {
    /// How long the decompressed stream may get: the files, and for each of them its header, the long-name entries of
    /// path and link target, and the padding.
    pub(crate) fn stream_bytes(&self) -> u64 {
        let names = (self.path_bytes as u64).div_ceil(512).saturating_add(2).saturating_mul(512);
        let entry = names.saturating_mul(2).saturating_add(1024);
        let entries = (self.files as u64).saturating_add(1);
        self.unpacked_bytes.saturating_add(entries.saturating_mul(entry)).saturating_add(64 * 1024)
    }
}
