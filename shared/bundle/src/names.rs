//! Which names may stand in a bundle, which are left out when it is built, and which are refused.

use crate::{BundleError, Limits};

/// The name of the override file by which the runner sets the workspace's backend.
pub const BACKEND_OVERRIDE: &str = "_override.tf.json";

/// Where captured modules stand, in the folder and in the bundle.
pub(crate) const MODULES: &str = ".terraform/modules";

/// What happens to a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fate {
    /// It is part of the bundle.
    Keep,
    /// A build passes over it; an archive that has it is refused.
    LeaveOut(&'static str),
    /// It is refused on both sides.
    Refuse(&'static str),
}

/// The fate of a path of the folder. `path` has been through [`check_path`].
pub(crate) fn fate(path: &str) -> Fate {
    let (path, captured) = match path.strip_prefix(MODULES) {
        Some("") => return Fate::Keep,
        Some(rest) if rest.starts_with('/') => (rest.trim_start_matches('/'), true),
        _ => (path, false),
    };
    // The folder on the way to the captured modules, and nothing else in it.
    if !captured && path == ".terraform" {
        return Fate::Keep;
    }
    let mut fate = Fate::Keep;
    for (depth, name) in path.split('/').enumerate() {
        fate = match name {
            ".terraform" => Fate::LeaveOut("it is the engine's working data"),
            ".git" => Fate::LeaveOut("it is version control's own data"),
            ".terraform.tfstate.lock.info" => Fate::LeaveOut("it is a lock of a local state"),
            _ if name.starts_with("terraform.tfstate")
                || name.ends_with(".tfstate")
                || name.ends_with(".tfstate.backup") =>
            {
                Fate::LeaveOut("it holds state, which holds secrets")
            }
            _ if name.ends_with(".tfplan") => Fate::LeaveOut("it is a plan file, which holds secrets"),
            "terraform.d" if captured => Fate::LeaveOut("plugins in it would be run"),
            "terraform.d" => Fate::Refuse("the engine would run plugins from it"),
            // In somebody else's package these are of no use, and no reason to refuse it.
            ".terraformrc" | "terraform.rc" | ".tofurc" | "tofu.rc" if captured => {
                Fate::LeaveOut("it configures the engine and may hold credentials")
            }
            ".terraformrc" | "terraform.rc" | ".tofurc" | "tofu.rc" => {
                Fate::Refuse("it configures the engine and may hold credentials")
            }
            BACKEND_OVERRIDE | "_override.tofu.json" if depth == 0 && !captured => {
                Fate::Refuse("the runner sets the backend in a file of that name")
            }
            _ => continue,
        };
        break;
    }
    fate
}

/// Checks one relative path as it stands in an archive or is found in a folder: UTF-8, no control characters, `/`
/// between non-empty components, none of them `.` or `..`, none too long.
pub(crate) fn check_path(raw: &[u8], limits: &Limits) -> Result<String, BundleError> {
    if raw.len() > limits.path_bytes {
        return Err(BundleError::PathTooLong { path: printable(raw), limit: limits.path_bytes });
    }
    let Ok(path) = std::str::from_utf8(raw) else {
        return Err(BundleError::NameInvalid { path: printable(raw) });
    };
    if path.starts_with('/') || path.split('/').any(|name| name == "..") {
        return Err(BundleError::PathEscapes { path: printable(raw) });
    }
    if path.chars().any(char::is_control) || path.split('/').any(|name| name.is_empty() || name == ".") {
        return Err(BundleError::NameInvalid { path: printable(raw) });
    }
    if path.split('/').any(|name| name.len() > COMPONENT_BYTES) {
        return Err(BundleError::PathTooLong { path: printable(raw), limit: COMPONENT_BYTES });
    }
    Ok(path.to_owned())
}

/// What file systems take for one name.
const COMPONENT_BYTES: usize = 255;

/// A name that may be hostile, made harmless for one line of text.
pub(crate) fn printable(raw: &[u8]) -> String {
    const SHOWN: usize = 120;
    let head = raw.get(..SHOWN).unwrap_or(raw);
    let mut text = String::from_utf8_lossy(head).escape_debug().to_string();
    if head.len() < raw.len() {
        text.push('…');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_belongs_to_the_engine_is_left_out_and_what_would_steer_it_is_refused() {
        for kept in [
            "main.tf",
            ".terraform.lock.hcl",
            "mod/main.tf",
            ".terraform/modules/vpc/main.tf",
            "terraform.tfvars",
            "a.tf.json",
        ] {
            assert_eq!(fate(kept), Fate::Keep, "{kept}");
        }
        for left_out in [
            ".terraform/providers/x",
            ".terraform/modulesx",
            "mod/.terraform/modules/vpc/main.tf",
            ".terraform/modules/vpc/.terraform/modules/x",
            ".terraform/modules/vpc/.git/config",
            ".terraform/modules/vpc/terraform.d/plugins/x",
            ".terraform/modules/vpc/examples/.terraformrc",
            "terraform.tfstate",
            "terraform.tfstate.backup",
            "terraform.tfstate.d/x/terraform.tfstate",
            "errored.tfstate",
            "old/prod.tfstate",
            ".git/config",
            ".git",
            "plan.tfplan",
            ".terraform.tfstate.lock.info",
        ] {
            assert!(matches!(fate(left_out), Fate::LeaveOut(_)), "{left_out}");
        }
        for refused in [
            "terraform.d/plugins/x",
            "mod/terraform.d",
            ".terraformrc",
            "terraform.rc",
            "_override.tf.json",
            "_override.tofu.json",
        ] {
            assert!(matches!(fate(refused), Fate::Refuse(_)), "{refused}");
        }
    }

    #[test]
    fn only_plain_relative_paths_pass() {
        let limits = Limits { path_bytes: 300, ..Limits::default() };
        let long = "x".repeat(256);
        let longer = "y/".repeat(150) + "z";
        for (raw, reason) in [
            ("/etc/passwd", "bundle-path-escapes"),
            ("../x", "bundle-path-escapes"),
            ("a/../../x", "bundle-path-escapes"),
            ("a/..", "bundle-path-escapes"),
            ("", "bundle-name-invalid"),
            ("a//b", "bundle-name-invalid"),
            ("./a", "bundle-name-invalid"),
            ("a/", "bundle-name-invalid"),
            ("a\0b", "bundle-name-invalid"),
            ("a\nb", "bundle-name-invalid"),
            ("a\u{85}b", "bundle-name-invalid"),
            (long.as_str(), "bundle-path-too-long"),
            (longer.as_str(), "bundle-path-too-long"),
        ] {
            assert_eq!(check_path(raw.as_bytes(), &limits).unwrap_err().reason(), reason, "{raw:?}");
        }
        assert_eq!(check_path(b"a\xff", &limits).unwrap_err().reason(), "bundle-name-invalid");
        assert_eq!(check_path("mód/main.tf".as_bytes(), &limits).unwrap(), "mód/main.tf");
    }
}
