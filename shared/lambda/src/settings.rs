//! Settings: names and addresses from the function's environment. No secret is ever among them.

/// A setting that is not there, or not what it must be.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the environment variable `{0}` is not set, or not to what it takes")]
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

/// A number of seconds, at most and by default `most`.
///
/// # Errors
/// It is set to something else.
pub(crate) fn seconds(name: &'static str, most: u32) -> Result<u32, MissingSetting> {
    at_most(&named(name), most).ok_or(MissingSetting(name))
}

fn at_most(text: &str, most: u32) -> Option<u32> {
    if text.is_empty() { Some(most) } else { text.parse().ok().filter(|seconds| (1..=most).contains(seconds)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_setting_that_is_missing_is_named() {
        assert_eq!(required("PLANGATE_NOT_SET_ANYWHERE"), Err(MissingSetting("PLANGATE_NOT_SET_ANYWHERE")));
        assert_eq!(named("PLANGATE_NOT_SET_ANYWHERE"), "");
        assert_eq!(seconds("PLANGATE_NOT_SET_ANYWHERE", 60), Ok(60));
    }

    #[test]
    fn a_bound_is_a_number_within_the_bound_of_all_bounds() {
        assert_eq!((at_most("59", 60), at_most("60", 60), at_most("", 60)), (Some(59), Some(60), Some(60)));
        for bad in ["0", "61", "-1", "ten", "60 "] {
            assert_eq!(at_most(bad, 60), None, "`{bad}`");
        }
    }
}
