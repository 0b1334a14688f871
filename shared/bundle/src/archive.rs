//! Reading an archive: every entry is judged by its header before a byte of its content is used.

use std::cell::Cell;
use std::io::{self, BufReader, Read};

use tar::{Archive, EntryType};

use crate::names::{check_path, printable};
use crate::tree::{Layout, Node, forbid};
use crate::{BundleError, Limits};

/// The largest window that a decoder takes memory for (8 MiB); a build uses less.
const WINDOW_LOG_MAX: u32 = 23;

/// Reads a whole archive and holds every entry against the rules, writing nothing. Gives the number of files, links
/// and folders. Any bytes may be given: this is the entry point for fuzzing.
///
/// # Errors
///
/// The first refusal, as [`BundleError`].
pub fn inspect(archive: impl Read, limits: &Limits) -> Result<usize, BundleError> {
    Ok(read_archive(archive, limits, |_, _, _| Ok(()))?.len())
}

/// Reads an archive, gives each file, link or folder to `sink` with a reader of its content, and gives the layout.
pub(crate) fn read_archive(
    archive: impl Read,
    limits: &Limits,
    mut sink: impl FnMut(&str, &Node, &mut dyn Read) -> Result<(), BundleError>,
) -> Result<Layout, BundleError> {
    let overrun = Cell::new(false);
    let fault = |error: io::Error| {
        if overrun.get() {
            BundleError::TooLarge { what: "unpacked bundle".to_owned(), limit: limits.unpacked_bytes }
        } else {
            BundleError::Damaged { detail: printable(error.to_string().as_bytes()) }
        }
    };
    let mut decoder = zstd::Decoder::new(archive).map_err(fault)?.single_frame();
    decoder.window_log_max(WINDOW_LOG_MAX).map_err(fault)?;
    let mut archive = Archive::new(Bounded { inner: decoder, left: limits.stream_bytes(), overrun: &overrun });
    let mut layout = Layout::default();
    let mut long_path: Option<Vec<u8>> = None;
    let mut long_target: Option<Vec<u8>> = None;
    // Raw: the library would read names of any length into memory, and would act on extensions that we refuse.
    for entry in archive.entries().map_err(fault)?.raw(true) {
        let mut entry = entry.map_err(fault)?;
        let kind = entry.header().entry_type();
        if matches!(kind, EntryType::GNULongName | EntryType::GNULongLink) {
            let slot = if kind == EntryType::GNULongName { &mut long_path } else { &mut long_target };
            if slot.is_some() {
                return Err(BundleError::Damaged { detail: "two long names for one entry".to_owned() });
            }
            if entry.size() > limits.path_bytes as u64 + 1 {
                let path = printable(&entry.path_bytes());
                return Err(BundleError::PathTooLong { path, limit: limits.path_bytes });
            }
            let mut name = Vec::new();
            entry.read_to_end(&mut name).map_err(fault)?;
            if name.last() == Some(&0) {
                name.pop();
            }
            *slot = Some(name);
            continue;
        }
        let raw = long_path.take().unwrap_or_else(|| entry.path_bytes().into_owned());
        let raw_target = long_target.take();
        let node = match kind {
            EntryType::Regular => {
                let executable = entry.header().mode().map_err(fault)? & 0o100 != 0;
                Node::File { executable, bytes: entry.size() }
            }
            EntryType::Directory => Node::Folder { named: true },
            EntryType::Symlink => {
                let target = raw_target.or_else(|| entry.link_name_bytes().map(|name| name.into_owned()));
                Node::Link { target: check_target(&raw, target.as_deref().unwrap_or_default(), limits)? }
            }
            EntryType::Link => return Err(special(&raw, "hard link")),
            EntryType::Char | EntryType::Block => return Err(special(&raw, "device")),
            EntryType::Fifo => return Err(special(&raw, "named pipe")),
            EntryType::GNUSparse => return Err(special(&raw, "sparse file")),
            _ => return Err(special(&raw, "kind of entry that plangate does not write")),
        };
        let is_folder = matches!(node, Node::Folder { .. });
        if entry.size() > 0 && !matches!(node, Node::File { .. }) {
            return Err(BundleError::Damaged { detail: "content where there can be none".to_owned() });
        }
        let name = if is_folder { raw.strip_suffix(b"/").unwrap_or(&raw) } else { &raw };
        let path = check_path(name, limits)?;
        forbid(&path)?;
        layout.insert(&path, node.clone(), limits)?;
        sink(&path, &node, &mut entry)?;
    }
    if long_path.is_some() || long_target.is_some() {
        return Err(BundleError::Damaged { detail: "a long name without its entry".to_owned() });
    }
    end(archive.into_inner(), &fault)?;
    layout.check_links()?;
    Ok(layout)
}

/// After the last entry there is padding, the end of the one frame with its checksum, and nothing.
fn end<R: Read>(
    mut rest: Bounded<'_, zstd::Decoder<'_, BufReader<R>>>,
    fault: &impl Fn(io::Error) -> BundleError,
) -> Result<(), BundleError> {
    let surplus = || BundleError::Damaged { detail: "data after its end".to_owned() };
    let mut buffer = vec![0; 64 * 1024];
    loop {
        let count = rest.read(&mut buffer).map_err(fault)?;
        if count == 0 {
            break;
        }
        if buffer.iter().take(count).any(|byte| *byte != 0) {
            return Err(surplus());
        }
    }
    let after = rest.inner.finish().read(&mut buffer).map_err(fault)?;
    if after == 0 { Ok(()) } else { Err(surplus()) }
}

/// A link's target as text; where it leads is judged when the whole layout is known.
pub(crate) fn check_target(link: &[u8], target: &[u8], limits: &Limits) -> Result<String, BundleError> {
    if target.len() > limits.path_bytes {
        return Err(BundleError::PathTooLong { path: printable(link), limit: limits.path_bytes });
    }
    match std::str::from_utf8(target) {
        Ok(text) if !text.is_empty() && !text.chars().any(char::is_control) => Ok(text.to_owned()),
        _ => Err(BundleError::NameInvalid { path: printable(link) }),
    }
}

fn special(raw: &[u8], kind: &'static str) -> BundleError {
    BundleError::SpecialFile { path: printable(raw), kind }
}

/// Ends a decompressed stream that grows past its bound, however small its archive is.
struct Bounded<'a, R> {
    inner: R,
    left: u64,
    overrun: &'a Cell<bool>,
}

impl<R: Read> Read for Bounded<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.inner.read(buffer)?;
        match self.left.checked_sub(count as u64) {
            Some(left) => {
                self.left = left;
                Ok(count)
            }
            None => {
                self.overrun.set(true);
                Err(io::Error::other("the stream is too long"))
            }
        }
    }
}
