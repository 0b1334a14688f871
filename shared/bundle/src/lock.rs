//! The dependency lock file (`R11`).

use hcl_edit::expr::Expression;

use crate::config::parse_hcl;
use crate::{BundleError, Limits};

/// Where the lock file stands, relative to the folder.
pub const LOCK_FILE_NAME: &str = ".terraform.lock.hcl";

/// One provider of a lock file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LockedProvider {
    /// Its full address, such as `registry.terraform.io/hashicorp/random`.
    pub source: String,
    /// The one version that may be used.
    pub version: String,
    /// The hashes of its packages, at least one of them an `h1:`.
    pub hashes: Vec<String>,
}

/// A lock file, read and complete: every entry has a version and an `h1` hash. Whether one of the hashes is that of
/// the task's platform only the engine can tell, with the package at hand.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LockFile {
    providers: Vec<LockedProvider>,
}

impl LockFile {
    /// Its providers, in the order of the file.
    #[must_use]
    pub fn providers(&self) -> &[LockedProvider] {
        &self.providers
    }

    /// Reads a lock file.
    pub(crate) fn read(bytes: &[u8], limits: &Limits) -> Result<Self, BundleError> {
        let unparseable = |detail: &str| BundleError::ConfigurationUnparseable {
            path: LOCK_FILE_NAME.to_owned(),
            detail: detail.to_owned(),
        };
        let body = parse_hcl(LOCK_FILE_NAME, bytes, limits)?;
        let mut providers = Vec::new();
        for block in body.get_blocks("provider") {
            let source = match block.labels.as_slice() {
                [label] => label.as_str().to_owned(),
                _ => return Err(unparseable("a `provider` block needs one label")),
            };
            let text = |value: &Expression| value.as_str().map(str::to_owned);
            let version = block
                .body
                .get_attribute("version")
                .and_then(|attribute| text(&attribute.value))
                .ok_or_else(|| unparseable("a `provider` block needs a version"))?;
            let hashes: Vec<String> = block
                .body
                .get_attribute("hashes")
                .and_then(|attribute| attribute.value.as_array())
                .map(|array| array.iter().filter_map(text).collect())
                .unwrap_or_default();
            if !hashes.iter().any(|hash| hash.len() > 3 && hash.starts_with("h1:")) {
                return Err(BundleError::LockFileWithoutH1 { provider: source });
            }
            providers.push(LockedProvider { source, version, hashes });
        }
        Ok(Self { providers })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<LockFile, BundleError> {
        LockFile::read(text.as_bytes(), &Limits::default())
    }

    #[test]
    fn every_entry_needs_an_h1_hash() {
        let entry = |hashes: &str| {
            format!(
                "# made by the engine\nprovider \"registry.terraform.io/plangate/sample\" {{\n  version = \"0.1.0\"\n{hashes}\n}}\n"
            )
        };
        let good = read(&entry("  hashes = [\n    \"h1:abc=\",\n    \"zh:00\",\n  ]")).unwrap();
        assert_eq!(good.providers()[0].source, "registry.terraform.io/plangate/sample");
        assert_eq!(good.providers()[0].hashes, ["h1:abc=", "zh:00"]);
        for bad in ["", "  hashes = []", "  hashes = [\"zh:00\"]", "  hashes = [\"h1:\"]", "  hashes = \"h1:abc=\""] {
            assert_eq!(read(&entry(bad)).unwrap_err().reason(), "lock-file-without-h1", "{bad}");
        }
        assert!(read("").unwrap().providers().is_empty());
    }

    #[test]
    fn a_broken_lock_file_is_refused() {
        for bad in ["provider", "provider {}", "provider \"a\" \"b\" {}", "provider \"a\" { hashes = [\"h1:x=\"] }"] {
            assert_eq!(read(bad).unwrap_err().reason(), "configuration-unparseable", "{bad}");
        }
    }
}
