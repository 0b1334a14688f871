//! The engine on the proposer's machine, which fetches remote modules and nothing else.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use plangate_bundle::{Bundle, BundleError, Dialect, Limits, capture_modules};
use plangate_gate::documents::EngineName;

use crate::console::Console;
use crate::error::CliError;

/// The engine to use: the one that is set, else the first of the search path, the workspace's own before the other.
fn find(set: Option<PathBuf>, search_path: Option<&OsStr>, wanted: Option<EngineName>) -> Option<PathBuf> {
    if set.is_some() {
        return set;
    }
    let folders: Vec<PathBuf> = search_path.map(|path| std::env::split_paths(path).collect()).unwrap_or_default();
    let names = match wanted {
        Some(EngineName::Terraform) => ["terraform", "tofu"],
        Some(EngineName::Opentofu) | None => ["tofu", "terraform"],
    };
    names.iter().find_map(|name| folders.iter().map(|folder| folder.join(name)).find(|file| runnable(file)))
}

fn runnable(file: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt as _;
    file.metadata().is_ok_and(|metadata| metadata.is_file() && metadata.permissions().mode() & 0o111 != 0)
}

/// Which files are configuration: those that the workspace's engine reads, or, if that is not known, the one at hand.
fn dialect(wanted: Option<EngineName>, engine: &Path) -> Dialect {
    let named_tofu = || engine.file_name().is_some_and(|name| name.to_string_lossy().contains("tofu"));
    match wanted {
        Some(EngineName::Opentofu) => Dialect::OpenTofu,
        Some(EngineName::Terraform) => Dialect::Terraform,
        None if named_tofu() => Dialect::OpenTofu,
        None => Dialect::Terraform,
    }
}

/// Builds the bundle of `folder` for a workspace whose engine is `wanted`, if that is known; remote modules are fetched
/// by the engine on this machine and packed.
///
/// # Errors
/// What the folder may not hold, or modules that cannot be fetched.
pub(crate) fn build(folder: &Path, wanted: Option<EngineName>, console: &Console) -> Result<Bundle, CliError> {
    let limits = Limits::default();
    let set = std::env::var_os("PLANGATE_ENGINE").filter(|value| !value.is_empty()).map(PathBuf::from);
    let Some(engine) = find(set, std::env::var_os("PATH").as_deref(), wanted) else {
        return match Bundle::build(folder, &limits) {
            Err(error @ BundleError::ModuleNotCaptured { .. }) => {
                console.note(
                    "no engine found to fetch remote modules: install `tofu` or `terraform`, or set PLANGATE_ENGINE",
                );
                Err(error.into())
            }
            other => Ok(other?),
        };
    };
    console.status(&format!("packing {}", crate::text::inert(&folder.to_string_lossy())));
    let captured = capture_modules(folder, &engine, dialect(wanted, &engine), &limits);
    console.clear_status();
    Ok(Bundle::build_with_modules(folder, &captured?, &limits)?)
}

/// How much a bundle holds, for people.
pub(crate) fn entries(bundle: &Bundle) -> String {
    match bundle.files() {
        1 => "1 file".to_owned(),
        entries => format!("{entries} files and folders"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn engine_at(path: &Path) {
        use std::os::unix::fs::PermissionsExt as _;
        std::fs::write(path, "").unwrap();
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
    }

    #[test]
    fn the_set_engine_comes_first_then_the_workspace_s_then_the_other() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().as_os_str();
        let (tofu, terraform) = (folder.path().join("tofu"), folder.path().join("terraform"));
        assert_eq!(find(None, Some(path), None), None);
        std::fs::write(&tofu, "not runnable").unwrap();
        engine_at(&terraform);
        assert_eq!(find(None, Some(path), Some(EngineName::Opentofu)), Some(terraform.clone()));
        engine_at(&tofu);
        assert_eq!(find(None, Some(path), None), Some(tofu.clone()));
        assert_eq!(find(None, Some(path), Some(EngineName::Terraform)), Some(terraform));
        assert_eq!(find(Some("/opt/e".into()), Some(path), None), Some("/opt/e".into()));
    }

    #[test]
    fn the_workspace_says_which_files_are_configuration_and_else_the_engine_s_name() {
        assert_eq!(dialect(Some(EngineName::Opentofu), Path::new("/usr/bin/terraform")), Dialect::OpenTofu);
        assert_eq!(dialect(Some(EngineName::Terraform), Path::new("/usr/bin/tofu")), Dialect::Terraform);
        assert_eq!(dialect(None, Path::new("/usr/bin/tofu")), Dialect::OpenTofu);
        assert_eq!(dialect(None, Path::new("/opt/terraform-1.11.4")), Dialect::Terraform);
    }
}
