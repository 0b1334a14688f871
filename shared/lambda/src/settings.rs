//! Settings: names and addresses from the function's environment. No secret is ever among them.

/// A setting that is not there.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the environment variable `{0}` is not set")]
pub struct MissingSetting(&'static str);

/// A setting that must be there.
///
/// # Errors
/// It is not, or is empty.
pub(crate) fn required(name: &'static str) -> Result<String, MissingSetting> {
    std::env::var(name).ok().filter(|value| !value.is_empty()).ok_or(MissingSetting(name))
}

/// A setting that only some functions need: these name it when they start, and then it is there. Empty where it is not.
#[must_use]
pub fn named(name: &str) -> String {
    std::env::var(name).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_setting_that_is_missing_is_named() {
        assert_eq!(required("PLANGATE_NOT_SET_ANYWHERE"), Err(MissingSetting("PLANGATE_NOT_SET_ANYWHERE")));
        assert_eq!(named("PLANGATE_NOT_SET_ANYWHERE"), "");
    }
}
