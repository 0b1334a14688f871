//! Echoes: engines and providers copy masked values into places that they do not mask. A string that is masked
//! anywhere in a document is hidden wherever it recurs. This is a further mask and never the control.

use std::borrow::Cow;
use std::collections::BTreeSet;

use aho_corasick::{AhoCorasick, AhoCorasickKind, MatchKind};

use crate::canonical::write_string;
use crate::mask::Mask;
use crate::value::Value;

/// From this many characters on, a masked string is hidden inside longer ones too.
const WITHIN: usize = 8;
/// From this many characters on, a masked string is hidden where it stands alone. Shorter ones are too common.
const ALONE: usize = 4;
/// So many bytes of a masked string are searched for at first. The automaton's memory goes by the length of what it
/// searches for, and a masked string may be a whole file.
const HEAD: usize = 8;
/// So many bytes stand for a masked string that is longer: whatever begins like it is hidden too.
const LONGEST: usize = 4096;

/// Collects the strings that stand at or under a sensitive node.
#[derive(Default)]
pub(crate) struct Masked<'d> {
    strings: BTreeSet<Cow<'d, str>>,
}

impl<'d> Masked<'d> {
    /// Takes all strings of `value`, at any depth. Keys are the shape of a value and not taken.
    pub(crate) fn take(&mut self, value: &Value<'d>) {
        match value {
            Value::String(text) => {
                self.strings.insert(text.clone());
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
        // A secret that was read from a file ends in a newline; who copies it takes that off.
        for text in self.strings.iter().flat_map(|text| [text.as_ref(), text.trim()]) {
            match text.chars().take(WITHIN).count() {
                WITHIN.. => {
                    let forms = as_encoded(text).into_iter().chain([text.to_owned()]);
                    within.extend(forms.map(|form| head(&form, LONGEST).to_owned()));
                }
                ALONE.. => {
                    alone.insert(text.to_owned());
                }
                _ => {}
            }
        }
        // What contains a string contains its beginnings: of two strings, one of which begins with the other, the
        // shorter one is enough. In byte order it stands first.
        let mut prefix_free: Vec<String> = Vec::new();
        for text in within {
            if !prefix_free.last().is_some_and(|last| text.starts_with(last.as_str())) {
                prefix_free.push(text);
            }
        }
        Echoes { alone, within: Search::of(prefix_free) }
    }
}

/// The beginning of `text`, at most `most` bytes, whole characters.
fn head(text: &str, most: usize) -> &str {
    text.get(..text.floor_char_boundary(most)).unwrap_or(text)
}

/// The forms in which `text` stands inside a string that is itself JSON, as `jsonencode` gives it, where they differ.
fn as_encoded(text: &str) -> Vec<String> {
    if !text.bytes().any(|byte| byte < 0x20 || b"\"\\<>&".contains(&byte)) {
        return Vec::new();
    }
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
    within: Search,
}

/// Finds strings inside others.
enum Search {
    Nothing,
    /// Too many strings to search for: then every string counts as an echo.
    Everything,
    /// Where a head is found, the string that may stand there is looked up: no one begins with another, so that it is
    /// the last of them, in byte order, that is not after what stands there.
    For {
        heads: AhoCorasick,
        strings: Vec<String>,
    },
}

impl Search {
    fn of(strings: Vec<String>) -> Self {
        if strings.is_empty() {
            return Self::Nothing;
        }
        let mut heads: Vec<&str> = strings.iter().map(|text| head(text, HEAD)).collect();
        heads.dedup();
        let built = AhoCorasick::builder()
            .match_kind(MatchKind::Standard)
            .kind(Some(AhoCorasickKind::ContiguousNFA))
            .build(heads);
        match built {
            Ok(heads) => Self::For { heads, strings },
            Err(_) => Self::Everything,
        }
    }

    fn hits(&self, text: &str) -> bool {
        match self {
            Self::Nothing => false,
            Self::Everything => true,
            Self::For { heads, strings } => heads.find_overlapping_iter(text).any(|found| {
                let here = text.get(found.start()..).unwrap_or(text);
                let after = strings.partition_point(|one| one.as_str() <= here);
                let candidate = after.checked_sub(1).and_then(|last| strings.get(last));
                candidate.is_some_and(|one| here.starts_with(one.as_str()))
            }),
        }
    }
}

impl Echoes {
    /// Whether there is anything to find.
    pub(crate) fn is_empty(&self) -> bool {
        self.alone.is_empty() && matches!(self.within, Search::Nothing)
    }

    /// Whether `text` is or contains a masked string.
    pub(crate) fn in_text(&self, text: &str) -> bool {
        self.alone.contains(text) || self.alone.contains(text.trim()) || self.within.hits(text)
    }

    /// Whether `value` must be hidden for what stands in it directly: its text, its digits, or one of its keys.
    pub(crate) fn at(&self, value: &Value<'_>) -> bool {
        match value {
            Value::String(text) => self.in_text(text),
            // Short numbers are too common to be anybody's secret that was read as a number.
            Value::Number(digits) => digits.len() >= WITHIN && self.within.hits(digits),
            Value::Object(fields) => fields.iter().any(|(key, _)| self.in_text(key)),
            _ => false,
        }
    }

    /// Whether one of the keys of a mask is or contains a masked string: of what is not known yet, only the mask names
    /// the keys.
    pub(crate) fn in_keys(&self, mask: &Mask<'_>) -> bool {
        mask.keys().iter().any(|(key, _)| self.in_text(key))
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
        Masked { strings: strings.iter().copied().map(Cow::Borrowed).collect() }.echoes()
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
    fn white_space_around_a_secret_is_no_part_of_it() {
        let echoes = echoes(&["hunter2-secret\n", " four\n", "    abc    "]);
        assert!(echoes.in_text("postgres://u:hunter2-secret@db"));
        assert!(echoes.in_text("four") && echoes.in_text("\tfour "));
        assert!(!echoes.in_text("abc") && echoes.in_text("x    abc    "), "it still counts as it stands");
    }

    #[test]
    fn a_string_inside_encoded_json_is_found_too() {
        let echoes = echoes(&["line one\nline \"two\" <b>"]);
        assert!(echoes.in_text(r#"{"key":"line one\nline \"two\" <b>"}"#));
        assert!(echoes.in_text(r#"{"key":"line one\nline \"two\" \u003cb\u003e"}"#));
    }

    #[test]
    fn strings_that_begin_alike_are_told_apart() {
        let key = "-----BEGIN PRIVATE KEY-----\nMIIEvQIBADANBgkqhkiG9w0BAQEFAASC-one\n-----END PRIVATE KEY-----";
        let other = "-----BEGIN PRIVATE KEY-----\nMIIEvQIBADANBgkqhkiG9w0BAQEFAASC-two\n-----END PRIVATE KEY-----";
        let public = "-----BEGIN PRIVATE KEY-----\nMIIEvQIBADANBgkqhkiG9w0BAQEFAASC-pub\n-----END PRIVATE KEY-----";
        let echoes = echoes(&[key, other, "begins-with-this", "begins-with-this-and-goes-on"]);
        assert!(echoes.in_text(&format!("x{key}y")) && echoes.in_text(&format!("{other}{public}")));
        assert!(!echoes.in_text(public));
        assert!(!echoes.in_text("-----BEGIN PRIVATE KEY-----\nMIIEvQIBADANBgkqhkiG9w0BAQEFAASC"));
        assert!(echoes.in_text("it begins-with-this-and-ends"));
    }

    #[test]
    fn overlapping_beginnings_hide_no_string_from_the_search() {
        let echoes = echoes(&["abababab-x", "babababa-y"]);
        assert!(echoes.in_text("abababababa-y"));
        assert!(echoes.in_text("babababababab-x"));
        assert!(!echoes.in_text("abababababab"));
    }

    #[test]
    fn of_a_whole_file_the_beginning_is_enough() {
        let file: &'static str = Box::leak("0123456789é".repeat(10_000).into_boxed_str());
        let echoes = echoes(&[file]);
        assert!(echoes.in_text(file));
        assert!(echoes.in_text(&file[..5000]), "what begins like a long masked string is hidden too");
        assert!(!echoes.in_text(&file[..2000]));
    }

    #[test]
    fn nothing_masked_hides_nothing() {
        assert!(echoes(&["", "abc"]).is_empty());
        assert!(!echoes(&[]).in_text("anything"));
    }
}
