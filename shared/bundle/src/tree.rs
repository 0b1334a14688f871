//! The content of a bundle as a map of paths, whether it comes from a folder or from an archive.

use std::collections::BTreeMap;
use std::fs;
use std::io::Read as _;
use std::path::PathBuf;

use crate::names::{Fate, MODULES, fate};
use crate::{BundleError, Limits};

/// One thing in a bundle.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Node {
    /// A folder: named by itself, or only by what is in it.
    Folder {
        /// Whether an entry of its own named it.
        named: bool,
    },
    /// A file.
    File {
        /// Whether its owner may execute it.
        executable: bool,
        /// Its length in bytes.
        bytes: u64,
    },
    /// A symbolic link and its target as it is written.
    Link {
        /// The target.
        target: String,
    },
}

/// Paths and what stands there, in the byte order of the paths.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Layout {
    nodes: BTreeMap<String, Node>,
    bytes: u64,
}

impl Layout {
    /// Adds one entry. `path` has been through `check_path`.
    pub(crate) fn insert(&mut self, path: &str, node: Node, limits: &Limits) -> Result<(), BundleError> {
        let engine_folder = path == ".terraform" || path == MODULES;
        if engine_folder && !matches!(node, Node::Folder { .. }) {
            return Err(BundleError::ForbiddenFile {
                path: path.to_owned(),
                why: "it stands where the engine's folder would",
            });
        }
        for (at, _) in path.match_indices('/') {
            let Some(parent) = path.get(..at) else { continue };
            match self.nodes.get(parent) {
                Some(Node::Folder { .. }) => {}
                Some(Node::Link { .. }) => return Err(BundleError::LinkEscapes { path: parent.to_owned() }),
                Some(Node::File { .. }) => return Err(BundleError::DuplicateEntry { path: parent.to_owned() }),
                None => {
                    self.nodes.insert(parent.to_owned(), Node::Folder { named: false });
                }
            }
        }
        match (self.nodes.get_mut(path), &node) {
            (Some(Node::Folder { named: seen @ false }), Node::Folder { .. }) => *seen = true,
            (Some(_), _) => return Err(BundleError::DuplicateEntry { path: path.to_owned() }),
            (None, _) => {
                if let Node::File { bytes, .. } = node {
                    self.bytes = self.bytes.saturating_add(bytes);
                }
                self.nodes.insert(path.to_owned(), node);
            }
        }
        if self.bytes > limits.unpacked_bytes {
            return Err(BundleError::TooLarge { what: "unpacked bundle".to_owned(), limit: limits.unpacked_bytes });
        }
        if self.nodes.len() > limits.files {
            return Err(BundleError::TooManyFiles { limit: limits.files });
        }
        Ok(())
    }

    /// Holds every link against the whole: it must lead straight to a file or folder in here, never through another
    /// link, so that what the path says is where it leads.
    pub(crate) fn check_links(&self) -> Result<(), BundleError> {
        for (path, node) in &self.nodes {
            if let Node::Link { target } = node {
                self.follow(path, target)?;
            }
        }
        Ok(())
    }

    /// Where the link at `path` leads.
    fn follow(&self, path: &str, target: &str) -> Result<String, BundleError> {
        let escapes = || BundleError::LinkEscapes { path: path.to_owned() };
        if target.starts_with('/') {
            return Err(escapes());
        }
        let mut at: Vec<&str> = path.split('/').collect();
        at.pop();
        for step in target.split('/') {
            match step {
                "" | "." => {}
                ".." => {
                    at.pop().ok_or_else(escapes)?;
                }
                name => {
                    at.push(name);
                    match self.nodes.get(&at.join("/")) {
                        Some(Node::Folder { .. } | Node::File { .. }) => {}
                        Some(Node::Link { .. }) | None => {
                            return Err(BundleError::LinkUnresolved { path: path.to_owned() });
                        }
                    }
                }
            }
        }
        Ok(at.join("/"))
    }

    /// The path with its links followed, if something stands there. The top is the empty path.
    pub(crate) fn resolve(&self, path: &str) -> Option<String> {
        let mut at = String::new();
        for name in path.split('/').filter(|name| !name.is_empty()) {
            let next = if at.is_empty() { name.to_owned() } else { format!("{at}/{name}") };
            at = match self.nodes.get(&next)? {
                Node::Link { target } => self.follow(&next, target).ok()?,
                Node::Folder { .. } | Node::File { .. } => next,
            };
        }
        Some(at)
    }

    /// Whether `path`, already resolved, is a folder.
    pub(crate) fn is_folder(&self, path: &str) -> bool {
        path.is_empty() || matches!(self.nodes.get(path), Some(Node::Folder { .. }))
    }

    /// Names of files (links to files too) directly in the resolved folder `folder`, in byte order.
    pub(crate) fn files_in<'a>(&'a self, folder: &'a str) -> impl Iterator<Item = &'a str> {
        let prefix = if folder.is_empty() { String::new() } else { format!("{folder}/") };
        let cut = prefix.len();
        self.nodes
            .range(prefix.clone()..)
            .take_while(move |(path, _)| path.starts_with(&prefix))
            .filter_map(move |(path, node)| Some((path.get(cut..)?, path, node)))
            .filter(|(name, _, _)| !name.contains('/'))
            .filter(|(_, path, node)| match node {
                Node::File { .. } => true,
                Node::Folder { .. } => false,
                Node::Link { .. } => self.resolve(path).is_some_and(|to| !self.is_folder(&to)),
            })
            .map(|(name, _, _)| name)
    }

    /// All entries in the byte order of their paths.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, &Node)> {
        self.nodes.iter().map(|(path, node)| (path.as_str(), node))
    }

    /// How many files, links and folders.
    pub(crate) fn len(&self) -> usize {
        self.nodes.len()
    }

    /// The bytes of all files.
    pub(crate) const fn bytes(&self) -> u64 {
        self.bytes
    }
}

/// A layout and where its files are on disk.
#[derive(Debug)]
pub(crate) struct Tree {
    /// The paths.
    pub(crate) layout: Layout,
    root: PathBuf,
    modules: Option<PathBuf>,
}

impl Tree {
    /// A layout whose files all stand under `root`.
    pub(crate) fn new(layout: Layout, root: PathBuf) -> Self {
        Self { layout, root, modules: None }
    }

    /// A layout whose captured modules stand under the folder `modules` instead.
    pub(crate) fn with_modules(layout: Layout, root: PathBuf, modules: PathBuf) -> Self {
        Self { layout, root, modules: Some(modules) }
    }

    /// Where a path is on disk.
    pub(crate) fn disk(&self, path: &str) -> PathBuf {
        let captured = path.strip_prefix(MODULES).and_then(|rest| rest.strip_prefix('/'));
        match (&self.modules, captured) {
            (Some(modules), Some(rest)) => modules.join(rest),
            _ => self.root.join(path),
        }
    }

    /// The bytes of a configuration or lock file, links followed; `None` if nothing stands there.
    pub(crate) fn read(&self, path: &str, limits: &Limits) -> Result<Option<Vec<u8>>, BundleError> {
        let Some(resolved) = self.layout.resolve(path) else { return Ok(None) };
        let limit = limits.configuration_file_bytes;
        let disk = self.disk(&resolved);
        let file = fs::File::open(&disk).map_err(BundleError::io("read", &disk))?;
        let mut bytes = Vec::new();
        file.take(limit.saturating_add(1)).read_to_end(&mut bytes).map_err(BundleError::io("read", &disk))?;
        if bytes.len() as u64 > limit {
            return Err(BundleError::TooLarge { what: format!("file `{path}`"), limit });
        }
        Ok(Some(bytes))
    }
}

/// What an archive may not have although a build would only pass over it.
pub(crate) fn forbid(path: &str) -> Result<(), BundleError> {
    match fate(path) {
        Fate::Keep => Ok(()),
        Fate::LeaveOut(why) | Fate::Refuse(why) => Err(BundleError::ForbiddenFile { path: path.to_owned(), why }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file() -> Node {
        Node::File { executable: false, bytes: 1 }
    }

    fn link(target: &str) -> Node {
        Node::Link { target: target.to_owned() }
    }

    fn layout(entries: &[(&str, Node)]) -> Result<Layout, BundleError> {
        let mut layout = Layout::default();
        for (path, node) in entries {
            layout.insert(path, node.clone(), &Limits::default())?;
        }
        layout.check_links()?;
        Ok(layout)
    }

    #[test]
    fn a_link_must_lead_straight_to_something_inside() {
        for (target, reason) in [
            ("/etc/passwd", "bundle-link-escapes"),
            ("../../x", "bundle-link-escapes"),
            ("../..", "bundle-link-escapes"),
            ("../a/../../a/f", "bundle-link-escapes"),
            ("absent", "bundle-link-unresolved"),
            // `b` leads to the top, so `b/../x` would be outside although the words say otherwise.
            ("../b/../a/f", "bundle-link-unresolved"),
            ("self", "bundle-link-unresolved"),
        ] {
            let error = layout(&[("a/f", file()), ("b", link(".")), ("a/self", link(target))]).unwrap_err();
            assert_eq!(error.reason(), reason, "{target}");
        }
        let good = layout(&[("a/f", file()), ("a/deep/g", file()), ("a/l", link("f")), ("m", link("a/deep/../deep"))])
            .unwrap();
        assert_eq!(good.resolve("m/g").as_deref(), Some("a/deep/g"));
        assert_eq!(good.resolve("a/l").as_deref(), Some("a/f"));
        assert_eq!(good.files_in("a").collect::<Vec<_>>(), ["f", "l"]);
        assert!(good.is_folder("a/deep") && !good.is_folder("a/f"));
    }

    #[test]
    fn nothing_stands_twice_or_below_a_file_or_link() {
        let folder = || Node::Folder { named: true };
        for entries in [
            vec![("a", file()), ("a", file())],
            vec![("a", file()), ("a/b", file())],
            vec![("a/b", file()), ("a", file())],
            vec![("a/b", file()), ("a", link("x"))],
            vec![("a", folder()), ("a", folder())],
        ] {
            assert_eq!(layout(&entries).unwrap_err().reason(), "bundle-duplicate-entry", "{entries:?}");
        }
        let through = layout(&[("d/f", file()), ("l", link("d")), ("l/g", file())]).unwrap_err();
        assert_eq!(through.reason(), "bundle-link-escapes");
        assert!(layout(&[("a/b", file()), ("a", folder())]).is_ok());
    }
}
