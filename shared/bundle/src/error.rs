//! Why a folder cannot become a bundle, or a bundle is not used.

use std::io;
use std::path::PathBuf;

use plangate_gate::digest::Digest;

/// Every refusal of this crate. The message names what is wrong and what to do next; [`BundleError::reason`] is the
/// stable code.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BundleError {
    /// An absolute path, or one with `..`, in an archive.
    #[error("the path `{path}` leaves the bundle; build the bundle with `plangate bundle`")]
    PathEscapes {
        /// The path, escaped for printing.
        path: String,
    },
    /// A name that is not UTF-8, holds a control character, or has an empty or `.` component.
    #[error("the name `{path}` cannot stand in a bundle; rename it to printable UTF-8 without control characters")]
    NameInvalid {
        /// The name, escaped for printing.
        path: String,
    },
    /// A path or a component of it is longer than allowed.
    #[error("the path `{path}` is longer than {limit} bytes; shorten it")]
    PathTooLong {
        /// The beginning of the path, escaped for printing.
        path: String,
        /// The most that is allowed, in bytes.
        limit: usize,
    },
    /// The same path twice, or a file where another entry needs a folder.
    #[error("the archive names `{path}` more than once; build the bundle with `plangate bundle`")]
    DuplicateEntry {
        /// The path.
        path: String,
    },
    /// More bytes than allowed, packed or unpacked.
    #[error("the {what} exceeds {limit} bytes; leave out what the configuration does not need")]
    TooLarge {
        /// What is too large.
        what: String,
        /// The most that is allowed, in bytes.
        limit: u64,
    },
    /// More files, links and folders than allowed.
    #[error("more than {limit} files and folders; leave out what the configuration does not need")]
    TooManyFiles {
        /// The most that is allowed.
        limit: usize,
    },
    /// A link whose target is absolute or outside of the folder, or an entry below a link.
    #[error("the link `{path}` leads out of the folder; replace it by what it points to")]
    LinkEscapes {
        /// The link.
        path: String,
    },
    /// A link that leads to nothing in the bundle, or to or through another link.
    #[error(
        "the link `{path}` does not lead straight to a file or folder of the bundle; replace it by what it points to"
    )]
    LinkUnresolved {
        /// The link.
        path: String,
    },
    /// A device, a pipe, a socket, a hard link or another kind of entry that a bundle never has.
    #[error("`{path}` is a {kind}; a bundle holds only files, folders and symbolic links: remove it")]
    SpecialFile {
        /// The path.
        path: String,
        /// What it is.
        kind: &'static str,
    },
    /// The archive's bytes are not those that the digest names (`R4`).
    #[error("the bundle's digest is {found} where {expected} was expected; upload and propose again")]
    DigestMismatch {
        /// The digest that was asked for.
        expected: Digest,
        /// The digest of the bytes at hand.
        found: Digest,
    },
    /// The archive is cut short or is no zstd tar.
    #[error("the bundle is damaged ({detail}); build and upload it again")]
    Damaged {
        /// What was found, without content.
        detail: String,
    },
    /// A file that changes how the engine works, or holds state, and so may not come from a proposer.
    #[error("`{path}` may not be in a bundle: {why}; remove it")]
    ForbiddenFile {
        /// The path.
        path: String,
        /// Why.
        why: &'static str,
    },
    /// No configuration file for the engine at the top of the folder.
    #[error("the folder holds no configuration ({expected}) at its top; name the folder that does")]
    Empty {
        /// The file endings that were looked for.
        expected: &'static str,
    },
    /// A file cannot be read, or the folder to unpack into cannot be written.
    #[error("cannot {action} `{path}`: {source}")]
    Io {
        /// What was tried.
        action: &'static str,
        /// On what.
        path: PathBuf,
        /// How it failed.
        source: io::Error,
    },
    /// An override file carries a `backend`, `cloud` or `state_store` block.
    #[error(
        "the override file `{path}` carries a `{block}` block; the state's place belongs to the workspace: remove the block"
    )]
    BackendInOverride {
        /// The file.
        path: String,
        /// The block's type.
        block: &'static str,
    },
    /// An override file that an engine would read after the one that sets the backend, or in its place.
    #[error("the override file `{path}` sorts behind the gate's own: rename it")]
    OverrideBehind {
        /// The file.
        path: String,
    },
    /// A configuration or lock file does not parse.
    #[error("`{path}` cannot be read as configuration: {detail}; correct it (`validate` of your engine tells more)")]
    ConfigurationUnparseable {
        /// The file.
        path: String,
        /// Where and what, without content.
        detail: String,
    },
    /// A module's source is not in the bundle.
    #[error("module `{module}` in `{path}`: {why}; propose with the plangate CLI, which captures remote modules")]
    ModuleNotCaptured {
        /// The module's path in the configuration, such as `network.subnets`.
        module: String,
        /// The folder of the call.
        path: String,
        /// What is missing.
        why: String,
    },
    /// A module's source is absolute or lies outside of the folder or of its package.
    #[error(
        "module `{module}` in `{path}` has a source outside of the folder; move the module into the folder or name a remote source"
    )]
    ModulePathEscapes {
        /// The module's path in the configuration.
        module: String,
        /// The folder of the call.
        path: String,
    },
    /// More module calls than allowed, or modules that call each other in a circle.
    #[error("more than {limit} module calls; look for modules that call each other in a circle")]
    TooManyModules {
        /// The most that is allowed.
        limit: usize,
    },
    /// The engine could not fetch the remote modules.
    #[error("`{engine} get` failed: {detail}; run it in the folder to see the whole message")]
    CaptureFailed {
        /// The engine.
        engine: String,
        /// The first line of its error.
        detail: String,
    },
    /// A provider is needed and there is no lock file (`R11`).
    #[error(
        "the configuration needs `{provider}` and has no `.terraform.lock.hcl`; run your engine's `providers lock -platform=linux_amd64` and commit the file"
    )]
    LockFileMissing {
        /// One of the providers.
        provider: String,
    },
    /// An entry of the lock file has no `h1` hash: the engine would take any binary for it (`R11`).
    #[error(
        "the lock file has no `h1` hash for `{provider}`; run your engine's `providers lock -platform=linux_amd64` and commit the file"
    )]
    LockFileWithoutH1 {
        /// The provider.
        provider: String,
    },
}

impl BundleError {
    /// The stable code of this refusal.
    #[must_use]
    pub const fn reason(&self) -> &'static str {
        match self {
            Self::PathEscapes { .. } => "bundle-path-escapes",
            Self::NameInvalid { .. } => "bundle-name-invalid",
            Self::PathTooLong { .. } => "bundle-path-too-long",
            Self::DuplicateEntry { .. } => "bundle-duplicate-entry",
            Self::TooLarge { .. } => "bundle-too-large",
            Self::TooManyFiles { .. } => "bundle-too-many-files",
            Self::LinkEscapes { .. } => "bundle-link-escapes",
            Self::LinkUnresolved { .. } => "bundle-link-unresolved",
            Self::SpecialFile { .. } => "bundle-special-file",
            Self::DigestMismatch { .. } => "bundle-digest-mismatch",
            Self::Damaged { .. } => "bundle-damaged",
            Self::ForbiddenFile { .. } => "bundle-forbidden-file",
            Self::Empty { .. } => "bundle-empty",
            Self::Io { .. } => "bundle-io",
            Self::BackendInOverride { .. } => "backend-in-override",
            Self::OverrideBehind { .. } => "override-behind-the-gates",
            Self::ConfigurationUnparseable { .. } => "configuration-unparseable",
            Self::ModuleNotCaptured { .. } => "module-not-captured",
            Self::ModulePathEscapes { .. } => "module-path-escapes",
            Self::TooManyModules { .. } => "module-too-many",
            Self::CaptureFailed { .. } => "module-capture-failed",
            Self::LockFileMissing { .. } => "lock-file-missing",
            Self::LockFileWithoutH1 { .. } => "lock-file-without-h1",
        }
    }

    /// An input/output failure with the place and the act.
    pub(crate) fn io(action: &'static str, path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| Self::Io { action, path, source }
    }
}
