//! The engine on the proposer's machine, which fetches remote modules and nothing else.

use std::path::{Path, PathBuf};

use plangate_bundle::{Bundle, BundleError, Dialect, Limits, capture_modules};

use crate::console::Console;
use crate::error::CliError;

/// The engine to use: the one that is set, else `tofu`, else `terraform` of the search path.
fn find(set: Option<PathBuf>, search_path: Option<&std::ffi::OsStr>) -> Option<PathBuf> {
    if set.is_some() {
        return set;
    }
    let folders: Vec<PathBuf> = search_path.map(|path| std::env::split_paths(path).collect()).unwrap_or_default();
    ["tofu", "terraform"].iter().find_map(|name| folders.iter().map(|folder| folder.join(name)).find(|file| runnable(file)))
}

fn runnable(file: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt as _;
    file.metadata().is_ok_and(|metadata| metadata.is_file() && metadata.permissions().mode() & 0o111 != 0)
}

/// Which files the engine reads.
fn dialect(engine: &Path) -> Dialect {
    let name = engine.file_name().map(|name| name.to_string_lossy().to_ascii_lowercase()).unwrap_or_default();
    if name.contains("tofu") { Dialect::OpenTofu } else { Dialect::Terraform }
}

/// Builds the bundle of `folder`; remote modules are fetched by the engine and packed.
///
/// # Errors
/// What the folder may not hold, or modules that cannot be fetched.
pub(crate) fn build(folder: &Path, console: &Console) -> Result<Bundle, CliError> {
    let limits = Limits::default();
    let set = std::env::var_os("PLANGATE_ENGINE").filter(|value| !value.is_empty()).map(PathBuf::from);
    let Some(engine) = find(set, std::env::var_os("PATH").as_deref()) else {
        return match Bundle::build(folder, &limits) {
            Err(error @ BundleError::ModuleNotCaptured { .. }) => {
                console.note("no engine found to fetch remote modules: install `tofu` or `terraform`, or set PLANGATE_ENGINE");
                Err(error.into())
            }
            other => Ok(other?),
        };
    };
    console.status(&format!("packing {}", crate::text::inert(&folder.to_string_lossy())));
    let captured = capture_modules(folder, &engine, dialect(&engine), &limits);
    console.clear_status();
    Ok(Bundle::build_with_modules(folder, &captured?, &limits)?)
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
    fn opentofu_is_taken_first_and_a_set_engine_before_all() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().as_os_str();
        assert_eq!(find(None, Some(path)), None);
        std::fs::write(folder.path().join("tofu"), "not runnable").unwrap();
        engine_at(&folder.path().join("terraform"));
        assert_eq!(find(None, Some(path)), Some(folder.path().join("terraform")));
        engine_at(&folder.path().join("tofu"));
        let _ = std::fs::remove_file(folder.path().join("terraform"));
        assert_eq!(find(None, Some(path)), Some(folder.path().join("tofu")));
        assert_eq!(find(Some("/opt/e".into()), Some(path)), Some("/opt/e".into()));
    }

    #[test]
    fn an_engine_s_name_tells_which_files_it_reads() {
        assert_eq!(dialect(Path::new("/usr/bin/tofu")), Dialect::OpenTofu);
        assert_eq!(dialect(Path::new("/opt/terraform-1.11.4")), Dialect::Terraform);
    }
}
