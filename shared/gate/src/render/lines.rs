//! The lines of one resource: what changes, and how.

use crate::actions::Actions;
use crate::path::{self, Step};
use crate::projection::{OutputChange, ResourceChange, Shown};
use crate::render::inert::{inert, value};
use crate::value::Value;

/// One line: a mark, the path, and what happens to the value.
pub(super) struct Line {
    pub(super) mark: &'static str,
    pub(super) name: String,
    pub(super) value: String,
}

type Side<'v> = Option<Shown<&'v Value<'v>>>;

/// The lines of a resource, and how many attributes are left out because nothing happens to them.
pub(super) fn resource_lines(resource: &ResourceChange<'_, Value<'_>>) -> (Vec<Line>, usize) {
    let mut lines = Vec::new();
    let mut hidden = 0;
    for attribute in &resource.attributes {
        let name = if attribute.path.is_empty() { "(the whole resource)" } else { &attribute.path };
        let before = attribute.before.as_ref().map(borrow);
        let after = attribute.after.as_ref().map(borrow);
        let count = lines.len();
        line(name, before, after, &mut lines);
        if lines.len() == count {
            hidden += 1;
        }
    }
    (lines, hidden)
}

/// The line of an output, unless nothing happens to it.
pub(super) fn output_line(output: &OutputChange<'_, Value<'_>>) -> Option<Line> {
    let mark = match output.actions {
        Actions::NoOp => return None,
        Actions::Create => "+",
        Actions::Update => "~",
        Actions::Delete => "-",
        _ => "?",
    };
    let value = if output.actions == Actions::Delete { "(removed)".to_owned() } else { shown(&borrow(&output.after)) };
    Some(Line { mark, name: inert(&output.name), value })
}

fn borrow<'v>(shown: &'v Shown<Value<'v>>) -> Shown<&'v Value<'v>> {
    match shown {
        Shown::Known(value) => Shown::Known(value),
        Shown::Unknown => Shown::Unknown,
        Shown::Sensitive => Shown::Sensitive,
    }
}

fn line(path: &str, before: Side<'_>, after: Side<'_>, lines: &mut Vec<Line>) {
    let (mark, value) = match (before, after) {
        (None | Some(Shown::Known(Value::Null)), None | Some(Shown::Known(Value::Null))) => return,
        (Some(Shown::Known(before)), Some(Shown::Known(after))) => {
            if before == after {
                return;
            }
            if parts(path, before, after, lines) {
                return;
            }
            let mark = match (before, after) {
                (Value::Null, _) => "+",
                (_, Value::Null) => "-",
                _ => "~",
            };
            (mark, format!("{} -> {}", value(before), value(after)))
        }
        // Whether a hidden value changes is hidden too (only one of three forms is projected): it is always listed,
        // without a mark.
        (Some(Shown::Sensitive), Some(Shown::Sensitive)) => ("", "(sensitive value, may change)".to_owned()),
        (Some(before), Some(after)) => ("~", format!("{} -> {}", shown(&before), shown(&after))),
        (None, Some(after)) => ("+", shown(&after)),
        (Some(before), None) => ("-", shown(&before)),
    };
    lines.push(Line { mark, name: inert(path), value });
}

/// Where both sides are containers of one kind, a line for each part that differs.
fn parts(path: &str, before: &Value<'_>, after: &Value<'_>, lines: &mut Vec<Line>) -> bool {
    let mut below = |step: Step<'_>, before: Option<&Value<'_>>, after: Option<&Value<'_>>| {
        let mut path = path.to_owned();
        path::push(&mut path, step);
        match (before, after) {
            (Some(before), Some(after)) => line(&path, Some(Shown::Known(before)), Some(Shown::Known(after)), lines),
            (None, Some(new)) => lines.push(Line { mark: "+", name: inert(&path), value: value(new) }),
            (Some(old), None) => lines.push(Line { mark: "-", name: inert(&path), value: value(old) }),
            (None, None) => {}
        }
    };
    match (before, after) {
        (Value::Object(old), Value::Object(new)) => {
            let mut keys: Vec<&str> = old.iter().chain(new).map(|(key, _)| key.as_ref()).collect();
            keys.sort_unstable();
            keys.dedup();
            for key in keys {
                below(Step::Key(key), before.field(key), after.field(key));
            }
            true
        }
        (Value::Array(old), Value::Array(new)) => {
            for position in 0..old.len().max(new.len()) {
                below(Step::Position(position), old.get(position), new.get(position));
            }
            true
        }
        _ => false,
    }
}

fn shown(shown: &Shown<&Value<'_>>) -> String {
    match shown {
        Shown::Known(known) => value(known),
        Shown::Unknown => "(known after apply)".to_owned(),
        Shown::Sensitive => "(sensitive value)".to_owned(),
    }
}
