//! How a place inside a resource is written: `config.user`, `ingress[0].cidr`, `tags["a.b"]`.

use std::fmt::Write as _;

use crate::canonical::write_string;

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
}
