//! Bundles: a folder's configuration as one immutable, content-addressed archive (`R4`), with its provider lock
//! (`R11`) and its remote modules inside.
//!
//! The proposer's side builds ([`Bundle`], [`capture_modules`]); the runner's side unpacks and checks
//! ([`unpack_verified`], [`VerifiedBundle`]). Whatever the proposer's side promises, the runner's side checks again.

mod archive;
mod capture;
mod check;
mod config;
mod error;
mod json;
mod limits;
mod lock;
mod manifest;
mod names;
mod pack;
mod ready;
mod scan;
mod tree;
mod unpack;

pub use archive::inspect;
pub use capture::{CapturedModules, capture_modules};
pub use check::CheckedConfiguration;
pub use config::{Dialect, check_configuration_file};
pub use error::BundleError;
pub use limits::Limits;
pub use lock::{LOCK_FILE_NAME, LockFile, LockedProvider};
pub use names::BACKEND_OVERRIDE;
pub use pack::Bundle;
pub use unpack::{VerifiedBundle, unpack_verified};
