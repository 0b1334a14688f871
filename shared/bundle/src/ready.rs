//! What is done to an unpacked bundle before an engine may see it, by the runner and by people alike: nothing in it steers
//! the engine, the state's place is not its own to say, and its modules are found where they are.

use std::fs::{self, DirBuilder, OpenOptions};
use std::io::Write as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::Path;

use crate::names::printable;
use crate::{BundleError, CheckedConfiguration, Dialect, VerifiedBundle};

/// Override files merge in the byte order of their names, the last one wins: `~` stands behind every letter.
const STEM: &str = "~plangate_override";

/// The body of the override file: an `s3` backend whose settings all come from arguments.
const OVERRIDE: &[u8] = b"{\"terraform\":{\"backend\":{\"s3\":{}}}}\n";

const ENDINGS: [&str; 4] = [".tf", ".tf.json", ".tofu", ".tofu.json"];

impl VerifiedBundle {
    /// Makes the unpacked folder ready for the engine: checks its configuration, sets the backend to an `s3` one without
    /// settings by an override file (`R1`), and writes the module manifest below the engine's data folder `data`, which is
    /// there. `init` is then given the settings (`WorkOrder::backend_arguments`) and `-get=false`.
    ///
    /// # Errors
    ///
    /// `bundle-forbidden-file` for what an engine would read besides configuration, `override-behind-the-gates` for an
    /// override file that would be read after ours, and everything that [`VerifiedBundle::check_configuration`] refuses.
    pub fn make_ready(&self, dialect: Dialect, data: &Path) -> Result<CheckedConfiguration, BundleError> {
        refuse_files(self.root())?;
        let configuration = self.check_configuration(dialect)?;
        override_backend(self.root())?;
        let modules = data.join("modules");
        DirBuilder::new().mode(0o700).create(&modules).map_err(BundleError::io("create", &modules))?;
        write_new(&modules.join("modules.json"), configuration.module_manifest())?;
        Ok(configuration)
    }
}

/// Writes our override file into `source`.
fn override_backend(source: &Path) -> Result<(), BundleError> {
    // Both engines go by the whole name; a `.tofu` file replaces a `.tf` file of the same stem, and sorts no earlier.
    for entry in fs::read_dir(source).map_err(BundleError::io("list", source))? {
        let name = entry.map_err(BundleError::io("list", source))?.file_name();
        let name = name.to_string_lossy();
        let is_override = ENDINGS
            .iter()
            .filter_map(|ending| name.strip_suffix(ending))
            .any(|stem| stem == "override" || stem.ends_with("_override"));
        if is_override && name.as_bytes() >= STEM.as_bytes() {
            return Err(BundleError::OverrideBehind { path: printable(name.as_bytes()) });
        }
    }
    write_new(&source.join(format!("{STEM}.tf.json")), OVERRIDE)
}

/// Refuses what an engine would read from its working directory besides configuration. A bundle never has these; the
/// engine must not meet them even if one did.
fn refuse_files(source: &Path) -> Result<(), BundleError> {
    let refused = |name: &[u8]| {
        let why = "the engine would read it besides the configuration";
        Err(BundleError::ForbiddenFile { path: printable(name), why })
    };
    for entry in fs::read_dir(source).map_err(BundleError::io("list", source))? {
        let name = entry.map_err(BundleError::io("list", source))?.file_name();
        let bytes = name.as_bytes();
        if bytes.starts_with(b"terraform.tfstate") || bytes == b"terraform.d" || bytes == b"errored.tfstate" {
            return refused(bytes);
        }
        if bytes == b".terraform" {
            let inside = source.join(".terraform");
            for entry in fs::read_dir(&inside).map_err(BundleError::io("list", &inside))? {
                let name = entry.map_err(BundleError::io("list", &inside))?.file_name();
                // Captured modules stand there; they are configuration like the rest.
                if name != "modules" {
                    return refused(&[b".terraform/", name.as_bytes()].concat());
                }
            }
        }
    }
    Ok(())
}

/// Writes a file that must not exist, through no link.
fn write_new(path: &Path, bytes: &[u8]) -> Result<(), BundleError> {
    let mut file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path)
        .map_err(BundleError::io("create", path))?;
    file.write_all(bytes).map_err(BundleError::io("write", path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn our_override_file_is_the_last_to_be_read_or_the_bundle_is_refused() {
        for (name, accepted) in [
            ("zz_override.tf", true),
            ("override.tf.json", true),
            ("~a.tf", true),
            ("~z_override.tf", false),
            ("\u{e9}_override.tf.json", false),
            ("~plangate_override.tf.json", false),
            ("~plangate_override.tofu", false),
            ("~plangate_override.tf", false),
        ] {
            let source = tempfile::tempdir().unwrap();
            fs::write(source.path().join(name), "").unwrap();
            assert_eq!(override_backend(source.path()).is_ok(), accepted, "`{name}`");
        }
    }

    #[test]
    fn a_link_of_our_files_name_is_not_written_through() {
        let source = tempfile::tempdir().unwrap();
        let outside = source.path().join("outside");
        std::os::unix::fs::symlink(&outside, source.path().join("~plangate_override.tf.json")).unwrap();
        assert!(override_backend(source.path()).is_err());
        assert!(!outside.exists());
    }

    #[test]
    fn what_an_engine_reads_besides_configuration_is_refused() {
        for (name, refused) in [
            ("main.tf", false),
            ("terraform.tfvars", false),
            (".terraform/modules/m", false),
            ("nested/terraform.d", false),
            (".terraform/providers", true),
            (".terraform/terraform.tfstate", true),
            ("terraform.tfstate", true),
            ("terraform.tfstate.d/prod", true),
            ("terraform.tfstate.backup", true),
            ("terraform.d/plugins", true),
            ("errored.tfstate", true),
        ] {
            let source = tempfile::tempdir().unwrap();
            let path = source.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(&path, "").unwrap();
            let found = refuse_files(source.path());
            assert_eq!(found.is_err(), refused, "`{name}`");
            if let Err(error) = found {
                assert_eq!(error.reason(), "bundle-forbidden-file");
            }
        }
    }
}
