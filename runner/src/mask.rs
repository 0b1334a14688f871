//! Hiding resolved secrets in everything that leaves the process (`R21`, `R22`): in one text, and over the seams of a
//! text that comes in pieces.
//!
//! Hidden are a secret as it stands, as JSON and the engine's own syntax write it, and in base64 wherever it stands in
//! what was encoded. Not hidden are values of fewer than four bytes, base64 that is broken into lines, other encodings
//! (hex, compression, a hash) and parts of a secret: whoever may change a configuration can print a secret, which is
//! why one is only given to those who may.

use std::ops::Range;

use aho_corasick::AhoCorasick;
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE};

use crate::cloud::Secret;
use crate::error::{Result, RunnerError};

/// What stands where a secret was.
pub const MASK: &str = "(secret)";

/// Shorter values would hide half of the language and protect nothing.
const SHORTEST: usize = 4;

/// The same for one line of a secret that has several: those hold words like `null` and `data`.
const SHORTEST_LINE: usize = 8;

/// Knows the secrets of a phase in every form in which an engine repeats them.
#[derive(Debug, Clone, Default)]
pub struct Masker {
    forms: Vec<Vec<u8>>,
    search: Option<AhoCorasick>,
    longest: usize,
}

impl Masker {
    /// A masker that knows `secrets` besides what it knew.
    ///
    /// # Errors
    /// More or longer secrets than can be searched for.
    pub fn with<'s>(&self, secrets: impl IntoIterator<Item = &'s Secret>) -> Result<Self> {
        let mut forms = self.forms.clone();
        for secret in secrets {
            forms.extend(forms_of(secret.expose()).map(String::into_bytes));
        }
        forms.sort();
        forms.dedup();
        let longest = forms.iter().map(Vec::len).max().unwrap_or(0);
        let search = if forms.is_empty() {
            None
        } else {
            Some(AhoCorasick::new(&forms).map_err(|_| RunnerError::gate("the secrets are too large to be masked"))?)
        };
        Ok(Self { forms, search, longest })
    }

    /// `text` with every secret replaced by [`MASK`].
    #[must_use]
    pub fn mask(&self, text: &str) -> String {
        let mut seam = Seam::default();
        let mut bytes = seam.push(self, text.as_bytes());
        bytes.extend(seam.finish(self));
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// Where secrets stand in `text`, joined where they overlap, in order. `covered` bytes at the front are known to
    /// belong to one.
    fn ranges(&self, text: &[u8], covered: usize) -> Vec<Range<usize>> {
        let mut found: Vec<Range<usize>> = (covered > 0).then_some(0..covered).into_iter().collect();
        if let Some(search) = &self.search {
            found.extend(search.find_overlapping_iter(text).map(|hit| hit.range()));
        }
        found.sort_by_key(|range| (range.start, range.end));
        let mut joined: Vec<Range<usize>> = Vec::new();
        for range in found {
            match joined.last_mut() {
                Some(last) if range.start < last.end => last.end = last.end.max(range.end),
                _ => joined.push(range),
            }
        }
        joined
    }
}

/// The forms of a secret worth hiding: itself, as JSON strings write it, as the engine's own syntax quotes it, in base64,
/// and each line of one that has several.
fn forms_of(value: &str) -> impl Iterator<Item = String> {
    let mut plain: Vec<&str> = vec![value, value.trim()];
    plain.extend(value.lines().map(str::trim).filter(|line| line.len() >= SHORTEST_LINE));
    plain.retain(|text| text.len() >= SHORTEST);
    let mut forms = Vec::new();
    for text in plain {
        let json = serde_json::to_string(text).unwrap_or_default();
        let json = json.get(1..json.len().saturating_sub(1)).unwrap_or_default().to_owned();
        let go = json
            .replace('<', "\\u003c")
            .replace('>', "\\u003e")
            .replace('&', "\\u0026")
            .replace('\u{2028}', "\\u2028")
            .replace('\u{2029}', "\\u2029")
            .replace("\\b", "\\u0008")
            .replace("\\f", "\\u000c");
        let quoted = json.replace("${", "$${").replace("%{", "%%{");
        let ascii: String = json.chars().map(escape_beyond_ascii).collect();
        forms.extend([text.to_owned(), json, go, quoted, ascii]);
        forms.extend(base64_of(text.as_bytes()));
    }
    forms.into_iter()
}

/// What of a secret shows in base64, whatever is encoded before and behind it: the digits that are of the secret alone,
/// for each of the three places in a group at which it can begin; and the whole with its padding, where it stands alone
/// or at the end. Up to two digits beside these are of the secret in part, and stay.
fn base64_of(secret: &[u8]) -> impl Iterator<Item = String> {
    let mut forms = Vec::new();
    for before in [&b""[..], b"-", b"--"] {
        let text = [before, secret].concat();
        // Six bits a digit: the first that holds none of what comes before, and the end of those that are full.
        let (first, full) = ((before.len() * 8).div_ceil(6), text.len() * 8 / 6);
        for whole in [STANDARD.encode(&text), URL_SAFE.encode(&text)] {
            let own = [whole.get(first..), whole.get(first..full)];
            forms.extend(own.into_iter().flatten().map(str::to_owned));
        }
    }
    forms.into_iter()
}

fn escape_beyond_ascii(c: char) -> String {
    if c.is_ascii() {
        return c.to_string();
    }
    let mut units = [0; 2];
    c.encode_utf16(&mut units).iter().map(|unit| format!("\\u{unit:04x}")).collect()
}

/// Masks a text that comes in pieces: what might still become a secret is held back until it is known.
#[derive(Debug, Default)]
pub struct Seam {
    pending: Vec<u8>,
    covered: usize,
}

impl Seam {
    /// Takes the next piece and gives what is safe to print.
    pub fn push(&mut self, masker: &Masker, piece: &[u8]) -> Vec<u8> {
        self.pending.extend_from_slice(piece);
        let cut = self.pending.len().saturating_sub(masker.longest.saturating_sub(1));
        self.advance(masker, cut)
    }

    /// Gives the rest.
    pub fn finish(&mut self, masker: &Masker) -> Vec<u8> {
        self.advance(masker, self.pending.len())
    }

    /// Prints up to `cut`. Every secret that begins before it lies wholly in what is pending.
    fn advance(&mut self, masker: &Masker, mut cut: usize) -> Vec<u8> {
        // A character is never printed in halves.
        while self.pending.get(cut).is_some_and(|byte| byte & 0b1100_0000 == 0b1000_0000) {
            cut -= 1;
        }
        if cut == 0 {
            return Vec::new();
        }
        let mut safe = Vec::new();
        let mut printed = 0;
        let mut covered = 0;
        for range in masker.ranges(&self.pending, self.covered) {
            if range.start >= cut {
                break;
            }
            safe.extend_from_slice(self.pending.get(printed..range.start).unwrap_or_default());
            if range.start > 0 || self.covered == 0 {
                safe.extend_from_slice(MASK.as_bytes());
            }
            printed = range.end;
            covered = range.end.saturating_sub(cut);
        }
        safe.extend_from_slice(self.pending.get(printed..cut).unwrap_or_default());
        self.pending.drain(..cut);
        self.covered = covered;
        safe
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn masker(secrets: &[&str]) -> Masker {
        let secrets: Vec<Secret> = secrets.iter().map(|s| Secret::new((*s).to_owned())).collect();
        Masker::default().with(&secrets).unwrap()
    }

    /// The text as it is printed when it comes in pieces of `size` bytes.
    fn in_pieces(masker: &Masker, text: &str, size: usize) -> String {
        let mut seam = Seam::default();
        let mut out = Vec::new();
        for piece in text.as_bytes().chunks(size) {
            let safe = seam.push(masker, piece);
            assert!(std::str::from_utf8(&safe).is_ok(), "a character was cut in two");
            out.extend(safe);
        }
        out.extend(seam.finish(masker));
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn a_secret_is_hidden_wherever_the_reads_cut_it() {
        let masker = masker(&["hunter2-secret", "päßwörd-ключ"]);
        let text = "ü the password=hunter2-secret; then päßwörd-ключ, hunter2-secre and hunter2-secret";
        let hidden = "ü the password=(secret); then (secret), hunter2-secre and (secret)";
        assert_eq!(masker.mask(text), hidden);
        for size in 1..=text.len() {
            assert_eq!(in_pieces(&masker, text, size), hidden, "in pieces of {size} bytes");
        }
    }

    #[test]
    fn escaped_quoted_and_trimmed_forms_are_hidden_too() {
        let value = "a\"b\\c\nd<e>&${f}é";
        let masker = masker(&[value]);
        let json = serde_json::to_string(&serde_json::json!({ "v": value })).unwrap();
        assert_eq!(masker.mask(&json), r#"{"v":"(secret)"}"#);
        for form in [
            r#"a\"b\\c\nd\u003ce\u003e\u0026${f}é"#,
            r#"a\"b\\c\nd<e>&$${f}é"#,
            r#"a\"b\\c\nd<e>&${f}\u00e9"#,
            "d<e>&${f}é",
        ] {
            assert_eq!(masker.mask(&format!("x={form}.")), "x=(secret).", "`{form}`");
        }
    }

    #[test]
    fn a_secret_is_hidden_in_base64_wherever_it_stands_in_what_was_encoded() {
        let secret = "hunter2>secret?ÿÿ";
        let masker = masker(&[secret]);
        for (before, behind) in [("", ""), ("user:", ""), ("a", "b"), ("ab", "cd"), ("abc", "def"), ("", "x")] {
            let text = format!("{before}{secret}{behind}");
            for encoded in [STANDARD.encode(&text), URL_SAFE.encode(&text)] {
                let shown = masker.mask(&format!("Basic {encoded}."));
                // Besides what is encoded before and behind, two digits of the secret at most.
                let (head, tail) = shown.split_once(MASK).unwrap_or_else(|| panic!("`{shown}` of `{text}`"));
                assert!(head.len() <= 6 + (before.len() * 8).div_ceil(6), "`{shown}` of `{text}`");
                assert!(tail.len() <= 1 + 4 + (behind.len() * 8).div_ceil(6), "`{shown}` of `{text}`");
                if before.is_empty() && behind.is_empty() {
                    assert_eq!(shown, "Basic (secret).");
                }
            }
            let unpadded = STANDARD.encode(&text).trim_end_matches('=').to_owned();
            assert!(masker.mask(&unpadded).contains(MASK));
        }
    }

    #[test]
    fn overlapping_secrets_leave_no_remainder() {
        let masker = masker(&["abcdef", "defghi", "ghij"]);
        let text = "-abcdefghij-abcdef-";
        for size in 1..=text.len() {
            assert_eq!(in_pieces(&masker, text, size), "-(secret)-(secret)-", "in pieces of {size} bytes");
        }
    }

    #[test]
    fn a_secret_that_repeats_without_end_is_not_held_without_end() {
        let masker = masker(&["aaaa"]);
        let mut seam = Seam::default();
        let mut out = Vec::new();
        for _ in 0..1000 {
            out.extend(seam.push(&masker, b"aaaaaaaa"));
            assert!(seam.pending.len() < 16);
        }
        out.extend(seam.push(&masker, b"!"));
        out.extend(seam.finish(&masker));
        assert_eq!(String::from_utf8(out).unwrap(), "(secret)!");
    }

    #[test]
    fn a_quote_at_the_end_is_hidden_with_the_rest() {
        assert_eq!(masker(&["hunter\""]).mask(r#"{"v":"hunter\""}"#), r#"{"v":"(secret)"}"#);
    }

    #[test]
    fn what_is_too_short_to_be_a_secret_stays() {
        assert_eq!(masker(&["abc", ""]).mask("abc YWJj"), "abc YWJj");
    }
}
