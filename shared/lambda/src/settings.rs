//! Settings: names and addresses from the function's environment. No secret is ever among them.

/// A setting that is not there.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the environment variable `{0}` is not set")]
pub struct MissingSetting(&'static str);

/// Where a function finds what it works on.
#[derive(Debug, Clone, Default)]
pub struct Settings(());

impl Settings {
    /// A setting that must be there.
    ///
    /// # Errors
    /// It is not, or is empty.
    pub fn required(name: &'static str) -> Result<String, MissingSetting> {
        std::env::var(name).ok().filter(|value| !value.is_empty()).ok_or(MissingSetting(name))
    }

    /// A setting that only some functions have.
    #[must_use]
    pub fn optional(name: &'static str) -> String {
        std::env::var(name).unwrap_or_default()
    }
}
