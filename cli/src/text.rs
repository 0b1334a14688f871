//! Text for people: laid out in columns, and made inert where it came from elsewhere.

pub(crate) use plangate_gate::render::{finding, inert};

/// As [`inert`], for a line of a log: tabs stay what they are.
pub(crate) fn inert_line(line: &str) -> String {
    line.split('\t').map(inert).collect::<Vec<_>>().join("\t")
}

/// As [`inert`], for JSON that is shown on a terminal: the escapes are JSON's own, so that it still means the same.
pub(crate) fn inert_json(json: &str) -> String {
    let mut shown = String::with_capacity(json.len());
    for c in json.chars() {
        // A line feed outside of strings is layout, and inside of one it cannot stand.
        if !c.is_ascii_graphic() && c != '\n' && active(c) {
            let mut units = [0; 2];
            shown.extend(c.encode_utf16(&mut units).iter().map(|unit| format!("\\u{unit:04x}")));
        } else {
            shown.push(c);
        }
    }
    shown
}

fn active(c: char) -> bool {
    let mut units = [0; 4];
    let alone: &str = c.encode_utf8(&mut units);
    inert(alone) != alone
}

/// Rows under headings, each column as wide as its widest cell, two spaces between them; the last is not padded.
/// `paint` may colour the cell of a row and column; it does not change the width.
pub(crate) fn table(
    headings: &[&str],
    rows: &[Vec<String>],
    paint: impl Fn(usize, usize, &str) -> String,
    heading: impl Fn(&str) -> String,
) -> String {
    let width = |column: usize| {
        let cells = rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count());
        cells.chain(headings.get(column).map(|cell| cell.chars().count())).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..headings.len()).map(width).collect();
    let last = headings.len().saturating_sub(1);
    let pad = |column: usize, plain: &str| {
        let width = widths.get(column).copied().unwrap_or(0);
        if column == last { String::new() } else { " ".repeat(width.saturating_sub(plain.chars().count()) + 2) }
    };
    let mut text = String::new();
    for (column, name) in headings.iter().enumerate() {
        text += &heading(name);
        text += &pad(column, name);
    }
    text.push('\n');
    for (place, row) in rows.iter().enumerate() {
        for (column, cell) in row.iter().enumerate() {
            text += &paint(place, column, cell);
            text += &pad(column, cell);
        }
        text.push('\n');
    }
    text
}

/// Bytes for people: `812 B`, `12.4 kB`, `3.1 MB`.
pub(crate) fn bytes(count: u64) -> String {
    let tenths = |unit: u64| format!("{}.{}", count / unit, count % unit * 10 / unit);
    match count {
        0..1_000 => format!("{count} B"),
        1_000..1_000_000 => format!("{} kB", tenths(1_000)),
        _ => format!("{} MB", tenths(1_000_000)),
    }
}

/// A span for people: `8 s`, `4 min 10 s`, `3 h 20 min`, `2 d 4 h`.
pub(crate) fn span(seconds: u32) -> String {
    let (days, hours, minutes) = (seconds / 86_400, seconds / 3600 % 24, seconds / 60 % 60);
    match seconds {
        0..60 => format!("{seconds} s"),
        60..3600 => format!("{minutes} min {} s", seconds % 60),
        3600..86_400 => format!("{hours} h {minutes} min"),
        _ => format!("{days} d {hours} h"),
    }
}

/// A number and its noun: `1 file`, `2 files`.
pub(crate) fn count(number: u64, noun: &str) -> String {
    if number == 1 { format!("1 {noun}") } else { format!("{number} {noun}s") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_would_steer_the_terminal_is_shown_and_not_done() {
        assert_eq!(inert("plain ünï ✓"), "plain ünï ✓");
        assert_eq!(inert("a\x1b[2Jb\nc\u{9b}d"), "a\\u{1b}[2Jb\\u{a}c\\u{9b}d");
        assert_eq!(inert("user\u{202e}txt"), "user\\u{202e}txt");
        assert_eq!(inert_line("a\tb\r"), "a\tb\\u{d}");
    }

    #[test]
    fn json_that_is_made_inert_means_the_same() {
        let json = serde_json::to_string("a\u{9b}2J\u{202e}\u{e0041}").unwrap();
        let shown = inert_json(&json);
        assert_eq!(shown, r#""a\u009b2J\u202e\udb40\udc41""#);
        assert_eq!(serde_json::from_str::<String>(&shown).unwrap(), serde_json::from_str::<String>(&json).unwrap());
    }

    #[test]
    fn columns_stand_under_their_headings() {
        let rows = vec![vec!["run-1".to_owned(), "applied".to_owned()], vec!["run-20".to_owned(), "x".to_owned()]];
        let text = table(&["RUN", "STATUS"], &rows, |_, _, cell| cell.to_owned(), str::to_owned);
        assert_eq!(text, "RUN     STATUS\nrun-1   applied\nrun-20  x\n");
    }

    #[test]
    fn sizes_and_spans_are_short() {
        assert_eq!([bytes(999), bytes(1_250), bytes(3_149_000)], ["999 B", "1.2 kB", "3.1 MB"]);
        assert_eq!([span(8), span(250), span(12_000), span(187_200)], ["8 s", "4 min 10 s", "3 h 20 min", "2 d 4 h"]);
        assert_eq!([count(1, "file"), count(0, "file")], ["1 file", "0 files"]);
    }
}
