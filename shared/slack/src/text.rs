//! Text for Slack. What a plan says goes into elements that Slack shows as they are; this makes it safe to look at, too.

use plangate_gate::render::inert;
use serde_json::{Value, json};

/// The most characters that one text of a block may have.
pub(crate) const TEXT_LIMIT: usize = 3000;

/// How long Slack takes a text to be: no fewer characters than any of the ways to count them gives.
pub(crate) fn length(text: &str) -> usize {
    text.encode_utf16().count()
}

/// A text that Slack shows as it is: no markup, no mentions, no emoji codes.
pub(crate) fn plain(text: &str) -> Value {
    json!({ "type": "plain_text", "text": text, "emoji": false })
}

/// A label and somebody else's value, for a field of a section.
pub(crate) fn field(label: &str, value: &str) -> Value {
    plain(&format!("{label}\n{}", inert(value)))
}

/// Text as it is, in a fixed pitch. Slack reads no markup in it.
pub(crate) fn preformatted(text: &str) -> Value {
    let text = json!({ "type": "text", "text": text });
    json!({ "type": "rich_text", "elements": [{ "type": "rich_text_preformatted", "elements": [text] }] })
}

/// A section with one text.
pub(crate) fn section(text: &str) -> Value {
    json!({ "type": "section", "text": plain(text) })
}

/// Text for where Slack reads markup and nothing else will do: its three control characters are written out.
pub(crate) fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

/// The lines of `text` in as few pieces as can be, none longer than a text may be. None if a line alone is.
pub(crate) fn pieces(text: &str) -> Option<Vec<String>> {
    let mut pieces: Vec<String> = Vec::new();
    let mut room = 0;
    for line in text.lines() {
        let needed = length(line) + 1;
        if needed > TEXT_LIMIT {
            return None;
        }
        match pieces.last_mut().filter(|_| needed <= room) {
            Some(piece) => {
                piece.push('\n');
                piece.push_str(line);
                room -= needed;
            }
            None => {
                pieces.push(line.to_owned());
                room = TEXT_LIMIT - length(line);
            }
        }
    }
    // Slack refuses an element without text.
    pieces.retain(|piece| !piece.trim().is_empty());
    Some(pieces)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_hold_all_lines_and_none_is_too_long() {
        let text: String = (0..400).map(|n| format!("line {n} ✓ {}\n", "x".repeat(n % 50))).collect();
        let pieces = pieces(&text).unwrap();
        assert!(pieces.iter().all(|piece| length(piece) <= TEXT_LIMIT), "{:?}", pieces.iter().map(|p| length(p)));
        assert_eq!(pieces.join("\n").lines().collect::<Vec<_>>(), text.lines().collect::<Vec<_>>());
        assert_eq!(super::pieces(&"x".repeat(TEXT_LIMIT)), None);
        assert_eq!(super::pieces("\n\n").unwrap(), Vec::<String>::new());
    }

    #[test]
    fn characters_count_as_the_most_that_anybody_would_count() {
        assert_eq!(length("a🚀"), 3);
    }
}
