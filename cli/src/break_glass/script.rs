//! The script: one text, whatever the workspace, with the names that it is about assigned at its head.

use super::place::{Factor, Place};

/// The whole script but for its names.
const TEXT: &str = include_str!("script.sh");

/// Where the names go.
const NAMES: &str = "@names@";

/// The script for a place. What was not said is left empty, and the script asks or finds out.
#[must_use]
pub(crate) fn script(place: &Place) -> String {
    let (second_factor, mfa) = match &place.factor {
        Factor::Code(serial) => ("code", serial.as_deref()),
        Factor::SignIn => ("sign-in", None),
    };
    let names = [
        ("name", place.name.as_deref(), "what people call the workspace"),
        ("workspace", Some(place.workspace.as_str()), ""),
        ("region", Some(place.region.as_str()), ""),
        ("role", Some(place.role.as_str()), ""),
        ("exchange", Some(place.exchange.as_str()), "the gate's exchange bucket"),
        ("run", place.run.as_ref().map(|run| run.as_str()), "empty: the last that was ordered to be applied"),
        ("second_factor", Some(second_factor), ""),
        ("mfa", mfa, "empty: asked for"),
        ("session", place.session.as_deref(), "empty: made from your user's name"),
    ];
    let lines: Vec<String> =
        names.iter().map(|(name, value, note)| assignment(name, value.unwrap_or(""), note)).collect();
    TEXT.replacen(NAMES, &lines.join("\n"), 1)
}

fn assignment(name: &str, value: &str, note: &str) -> String {
    let note = if note.is_empty() { String::new() } else { format!(" # {note}") };
    format!("{name}={}{note}", quoted(value))
}

/// A text as one word of a POSIX shell, whatever it holds.
fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn a_quoted_word_comes_out_of_a_shell_as_it_was() {
        for text in ["", "plain", "it's", "$(id) `id` \"x\" \\ ' ''", "-n", "# x", "a\u{fc} ; rm -rf ~ & | > <"] {
            let said =
                Command::new("/bin/sh").args(["-c", &format!("printf %s {}", quoted(&format!("[{text}]")))]).output();
            assert_eq!(String::from_utf8(said.unwrap().stdout).unwrap(), format!("[{text}]"));
        }
    }

    #[test]
    fn the_names_have_one_place() {
        assert_eq!(TEXT.matches(NAMES).count(), 1);
        assert_eq!(TEXT.lines().filter(|line| *line == NAMES).count(), 1);
    }
}
