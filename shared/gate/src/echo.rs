//! Echoes: engines and providers copy masked values into places that they do not mask. A string that is masked
//! anywhere in a document is hidden wherever it recurs. This is a further mask and never the control.

use std::collections::BTreeSet;

use aho_corasick::{AhoCorasick, AhoCorasickKind, MatchKind};

use crate::canonical::write_string;
use crate::value::Value;

/// From this many characters on, a masked string is hidden inside longer ones too.
const WITHIN: usize = 8;
/// From this many characters on, a masked string is hidden where it stands alone. Shorter ones are too common.
const ALONE: usize = 4;

/// Collects the strings that stand at or under a sensitive node.
#[derive(Default)]
pub(crate) struct Masked<'m> {
    strings: BTreeSet<&'m str>,
}

impl<'m> Masked<'m> {
    /// Takes all strings of `value`, at any depth. Keys are the shape of a value and not taken.
    pub(crate) fn take(&mut self, value: &'m Value<'_>) {
        match value {
            Value::String(text) => {
                self.strings.insert(text);
            }
            Value::Array(items) => items.iter().for_each(|item| self.take(item)),
            Value::Object(fields) => fields.iter().for_each(|(_, field)| self.take(field)),
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }

    /// What finds them again.
    pub(crate) fn echoes(self) -> Echoes {
        let mut alone = BTreeSet::new();
        let mut within = BTreeSet::new();
        for text in self.strings {
            match text.chars().take(WITHIN).count() {
                WITHIN.. => {
                    within.extend(as_encoded(text));
                    within.insert(text.to_owned());
                }
                ALONE.. => {
                    alone.insert(text.to_owned());
                }
                _ => {}
            }
        }
        let within = (!within.is_empty()).then(|| {
            AhoCorasick::builder()
                .match_kind(MatchKind::Standard)
                .kind(Some(AhoCorasickKind::ContiguousNFA))
                .build(within)
                .ok()
        });
        Echoes { alone, within }
    }
}

/// The forms in which `text` stands inside a string that is itself JSON, as `jsonencode` gives it, where they differ.
fn as_encoded(text: &str) -> Vec<String> {
    let mut quoted = Vec::new();
    write_string(&mut quoted, text);
    let quoted = String::from_utf8_lossy(&quoted);
    let plain = quoted.strip_prefix('"').and_then(|q| q.strip_suffix('"')).unwrap_or(&quoted).to_owned();
    // The engine's encoder also escapes what means something in HTML.
    let html = plain.replace('<', "\\u003c").replace('>', "\\u003e").replace('&', "\\u0026");
    [plain, html].into_iter().filter(|form| form != text).collect()
}

/// Finds masked strings where they recur.
pub(crate) struct Echoes {
    alone: BTreeSet<String>,
    /// The inner option is none where the strings were too many to search for: then every string counts as an echo.
    within: Option<Option<AhoCorasick>>,
}

impl Echoes {
    /// Whether there is anything to find.
    pub(crate) fn is_empty(&self) -> bool {
        self.alone.is_empty() && self.within.is_none()
    }

    /// Whether `text` is or contains a masked string.
    pub(crate) fn in_text(&self, text: &str) -> bool {
        self.alone.contains(text)
            || self.within.as_ref().is_some_and(|search| search.as_ref().is_none_or(|search| search.is_match(text)))
    }

    /// Whether `value` must be hidden for what stands in it directly: its text, or one of its keys.
    pub(crate) fn at(&self, value: &Value<'_>) -> bool {
        match value {
            Value::String(text) => self.in_text(text),
            Value::Object(fields) => fields.iter().any(|(key, _)| self.in_text(key)),
            _ => false,
        }
    }

    /// Whether anything at or under `value` must be hidden.
    pub(crate) fn anywhere(&self, value: &Value<'_>) -> bool {
        !self.is_empty()
            && (self.at(value)
                || value.elements().iter().any(|item| self.anywhere(item))
                || value.fields().iter().any(|(_, field)| self.anywhere(field)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn echoes(strings: &[&'static str]) -> Echoes {
        Masked { strings: strings.iter().copied().collect() }.echoes()
    }

    #[test]
    fn long_strings_are_found_inside_others_and_short_ones_alone() {
        let echoes = echoes(&["hunter2-secret", "four", "abc", "längerü8"]);
        assert!(echoes.in_text("postgres://u:hunter2-secret@db"));
        assert!(echoes.in_text("four"));
        assert!(!echoes.in_text("fourteen"));
        assert!(!echoes.in_text("abc"), "three characters are too common");
        assert!(echoes.in_text("xlängerü8x"), "characters are counted, not bytes");
        assert!(!echoes.in_text("hunter2"));
    }

    #[test]
    fn a_string_inside_encoded_json_is_found_too() {
        let echoes = echoes(&["line one\nline \"two\" <b>"]);
        assert!(echoes.in_text(r#"{"key":"line one\nline \"two\" <b>"}"#));
        assert!(echoes.in_text(r#"{"key":"line one\nline \"two\" \u003cb\u003e"}"#));
    }

    #[test]
    fn nothing_masked_hides_nothing() {
        assert!(echoes(&["", "abc"]).is_empty());
        assert!(!echoes(&[]).in_text("anything"));
    }
}
