//! Which release a program is of: its version, and the revision of the source that it was built from.
//!
//! A crate of its own, so that another revision compiles the few crates anew that tell it, and not the whole workspace.

use std::sync::LazyLock;

/// The version of plangate, `MAJOR.MINOR.PATCH`.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");

/// The revision that `make package` built from. An ordinary build is not told one: it would be compiled anew after each commit.
pub const REVISION: Option<&str> = option_env!("PLANGATE_REVISION");

/// Version and revision in one line, for `--version` and the logs: `0.1.0 (revision 4f2c...)`, `0.1.0 (development)`.
#[must_use]
pub fn told() -> &'static str {
    static TOLD: LazyLock<String> = LazyLock::new(|| tell(VERSION, REVISION));
    &TOLD
}

fn tell(version: &str, revision: Option<&str>) -> String {
    match revision.filter(|revision| !revision.is_empty()) {
        Some(revision) => format!("{version} (revision {revision})"),
        None => format!("{version} (development)"),
    }
}

#[cfg(test)]
mod tests {
    use super::tell;

    #[test]
    fn a_release_tells_its_revision_and_a_build_without_one_says_so() {
        assert_eq!(tell("1.2.3", Some("4f2c")), "1.2.3 (revision 4f2c)");
        assert_eq!(tell("1.2.3", None), "1.2.3 (development)");
        assert_eq!(tell("1.2.3", Some("")), "1.2.3 (development)");
    }
}
