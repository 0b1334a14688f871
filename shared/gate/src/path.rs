//! How a place inside a resource is written: `config.user`, `ingress[0].cidr`, `tags["a.b"]`.

use std::fmt::Write as _;

use crate::canonical::write_string;
use crate::json::Reader;

/// One step from a container to what it holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Step<'a> {
    /// Into a field of an object.
    Key(&'a str),
    /// Into an element of a list.
    Position(usize),
}

/// Appends `step` to `path`, which is empty at the root of the resource.
pub(crate) fn push(path: &mut String, step: Step<'_>) {
    match step {
        Step::Position(position) => {
            // Writing to a string cannot fail.
            let _ = write!(path, "[{position}]");
        }
        Step::Key(key) if is_name(key) => {
            if !path.is_empty() {
                path.push('.');
            }
            path.push_str(key);
        }
        Step::Key(key) => {
            let mut quoted = Vec::with_capacity(key.len() + 2);
            write_string(&mut quoted, key);
            path.push('[');
            path.push_str(&String::from_utf8_lossy(&quoted));
            path.push(']');
        }
    }
}

/// A step that was read from a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum OwnedStep {
    /// Into a field of an object.
    Key(String),
    /// Into an element of a list.
    Position(usize),
}

/// Reads a path as [`push`] writes it; the empty one has no steps.
pub(crate) fn parse(path: &str) -> Option<Vec<OwnedStep>> {
    let mut steps = Vec::new();
    let mut rest = path;
    while !rest.is_empty() {
        if let Some(inside) = rest.strip_prefix('[') {
            let (step, end) = if inside.starts_with('"') {
                let mut reader = Reader::of(inside);
                let key = reader.string().ok()?.into_owned();
                (OwnedStep::Key(key), reader.offset())
            } else {
                let end = inside.find(']')?;
                (OwnedStep::Position(inside.get(..end)?.parse().ok()?), end)
            };
            steps.push(step);
            rest = inside.get(end..)?.strip_prefix(']')?;
            continue;
        }
        let name = if steps.is_empty() { rest } else { rest.strip_prefix('.')? };
        let end = name.find(['.', '[']).unwrap_or(name.len());
        let (name, tail) = name.split_at(end);
        if !is_name(name) {
            return None;
        }
        steps.push(OwnedStep::Key(name.to_owned()));
        rest = tail;
    }
    Some(steps)
}

/// `[A-Za-z_][A-Za-z0-9_]*`
fn is_name(key: &str) -> bool {
    key.bytes()
        .enumerate()
        .all(|(at, byte)| byte == b'_' || byte.is_ascii_alphabetic() || (at > 0 && byte.is_ascii_digit()))
        && !key.is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_follow_a_dot_and_all_else_stands_in_brackets() {
        let path = |steps: &[Step<'_>]| {
            let mut path = String::new();
            for step in steps {
                push(&mut path, *step);
            }
            path
        };
        use Step::{Key, Position};
        assert_eq!(path(&[Key("ingress"), Position(0), Key("cidr")]), "ingress[0].cidr");
        assert_eq!(path(&[Key("tags"), Key("a.b")]), r#"tags["a.b"]"#);
        assert_eq!(path(&[Key("a-b"), Key("_c9")]), r#"["a-b"]._c9"#);
        assert_eq!(path(&[Key("9a")]), r#"["9a"]"#);
        assert_eq!(path(&[Key("")]), r#"[""]"#);
        assert_eq!(path(&[Key("q\"\n")]), r#"["q\"\n"]"#);
        assert_eq!(path(&[Key("ключ")]), r#"["ключ"]"#);
    }

    #[test]
    fn what_is_written_reads_back_and_nothing_else_does() {
        let steps = [Step::Key("a"), Step::Position(10), Step::Key("q\"]\n.["), Step::Key("b_1"), Step::Key("")];
        for length in 0..=steps.len() {
            let mut path = String::new();
            steps.iter().take(length).for_each(|step| push(&mut path, *step));
            let read = parse(&path).unwrap();
            let mut again = String::new();
            for step in &read {
                push(
                    &mut again,
                    match step {
                        OwnedStep::Key(key) => Step::Key(key),
                        OwnedStep::Position(position) => Step::Position(*position),
                    },
                );
            }
            assert_eq!((again, read.len()), (path, length));
        }
        for bad in ["a.", ".a", "a[", "a[x]", "a[0", "a[\"x\"", "a[0]b", "9a"] {
            assert_eq!(parse(bad), None, "`{bad}`");
        }
    }
}
