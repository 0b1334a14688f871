//! The one kind of pattern that policies use, for types, addresses and paths: `*` stands for any run of characters,
//! also an empty one, and every other character for itself.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// The longest pattern in bytes.
const MAX_LENGTH: usize = 512;

/// A pattern over a whole text, such as `aws_iam_*` or `module.db["a"].*`.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Pattern(String);

impl Pattern {
    /// A pattern from its text.
    ///
    /// # Errors
    /// If it is empty, longer than 512 bytes, or holds a control character.
    pub fn new(text: impl Into<String>) -> Result<Self, PatternError> {
        let text = text.into();
        if text.is_empty() || text.len() > MAX_LENGTH || text.chars().any(char::is_control) {
            return Err(PatternError);
        }
        Ok(Self(text))
    }

    /// The text it was made from.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether it stands for the whole of `text`.
    #[must_use]
    pub fn matches(&self, text: &str) -> bool {
        let mut pieces = self.0.split('*');
        let Some(mut rest) = pieces.next().and_then(|first| text.strip_prefix(first)) else { return false };
        let Some(last) = pieces.next_back() else { return rest.is_empty() };
        for piece in pieces {
            // The earliest place leaves the most for what follows.
            let Some(at) = rest.find(piece) else { return false };
            rest = rest.split_at(at + piece.len()).1;
        }
        rest.ends_with(last)
    }
}

/// Not a pattern.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a pattern has 1 to 512 bytes and no control characters")]
pub struct PatternError;

impl fmt::Debug for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

impl Serialize for Pattern {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for Pattern {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::new(String::deserialize(deserializer)?).map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_stands_for_any_run_and_nothing_else_is_special() {
        for (pattern, text, expected) in [
            ("aws_iam_*", "aws_iam_role", true),
            ("aws_iam_*", "aws_iam_", true),
            ("aws_iam_*", "xaws_iam_role", false),
            ("*", "", true),
            ("a", "a", true),
            ("a", "ab", false),
            ("a", "ba", false),
            ("*b*b", "ab", false),
            ("*b*b", "bb", true),
            ("a*a", "a", false),
            ("a**a", "aa", true),
            ("m[\"a\"].*", "m[\"a\"].x", true),
            ("a.c", "abc", false),
            ("a?c", "abc", false),
            ("*ab*abc", "xabyabcabc", true),
            ("é*é", "éé", true),
        ] {
            assert_eq!(Pattern::new(pattern).unwrap().matches(text), expected, "`{pattern}` on `{text}`");
        }
    }
}
