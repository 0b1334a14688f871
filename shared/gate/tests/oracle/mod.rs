//! The rules of masks and paths once more, written from the text alone and sharing nothing with what is under test.

use serde_json::Value;

/// One step of a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Step {
    Key(String),
    Position(usize),
}

/// A row's change.
pub(crate) struct Change<'a> {
    pub(crate) before: &'a Value,
    pub(crate) after: &'a Value,
    before_sensitive: &'a Value,
    after_sensitive: &'a Value,
}

impl<'a> Change<'a> {
    pub(crate) fn of(row: &'a Value) -> Self {
        let change = &row["change"];
        Self {
            before: &change["before"],
            after: &change["after"],
            before_sensitive: &change["before_sensitive"],
            after_sensitive: &change["after_sensitive"],
        }
    }
}

/// Every string that a mask of a row or an output hides, on the side of the mask and at the same path of the other.
pub(crate) fn hidden_strings(document: &Value) -> Vec<String> {
    let mut found = Vec::new();
    for row in document["resource_changes"].as_array().unwrap() {
        let change = Change::of(row);
        for (mask, own, other) in [
            (change.before_sensitive, change.before, change.after),
            (change.after_sensitive, change.after, change.before),
        ] {
            for path in hidden_paths(mask, own) {
                for side in [own, other] {
                    strings(resolve(side, &path), &mut found);
                }
            }
        }
    }
    for output in document["output_changes"].as_object().unwrap().values() {
        if marks(&output["after_sensitive"]) {
            strings(Some(&output["after"]), &mut found);
        }
    }
    found
}

/// Whether there is a `true` anywhere in a mask.
fn marks(mask: &Value) -> bool {
    match mask {
        Value::Bool(mark) => *mark,
        Value::Array(items) => items.iter().any(marks),
        Value::Object(fields) => fields.values().any(marks),
        _ => false,
    }
}

/// The paths that a mask hides in its own value.
fn hidden_paths(mask: &Value, value: &Value) -> Vec<Vec<Step>> {
    let below = |step: Step, paths: Vec<Vec<Step>>| {
        paths.into_iter().map(move |path| std::iter::once(step.clone()).chain(path).collect::<Vec<_>>())
    };
    match (mask, value) {
        (mask, _) if !marks(mask) => Vec::new(),
        (Value::Bool(_), _) => vec![Vec::new()],
        (_, Value::Null) => Vec::new(),
        (Value::Object(masks), Value::Object(fields)) => masks
            .iter()
            .flat_map(|(key, mask)| {
                below(Step::Key(key.clone()), hidden_paths(mask, fields.get(key).unwrap_or(&Value::Null)))
            })
            .collect(),
        (Value::Array(masks), Value::Array(items)) if masks.len() == items.len() => masks
            .iter()
            .zip(items)
            .enumerate()
            .flat_map(|(position, (mask, item))| below(Step::Position(position), hidden_paths(mask, item)))
            .collect(),
        _ => vec![Vec::new()],
    }
}

fn strings(value: Option<&Value>, found: &mut Vec<String>) {
    match value {
        Some(Value::String(text)) => found.push(text.clone()),
        Some(Value::Array(items)) => items.iter().for_each(|item| strings(Some(item), found)),
        Some(Value::Object(fields)) => fields.values().for_each(|field| strings(Some(field), found)),
        _ => {}
    }
}

/// What stands at a path.
pub(crate) fn resolve<'v>(value: &'v Value, path: &[Step]) -> Option<&'v Value> {
    path.iter().try_fold(value, |value, step| match step {
        Step::Key(key) => value.get(key),
        Step::Position(position) => value.get(position),
    })
}

/// The paths of all scalars in a value, null at the root not being one.
pub(crate) fn scalar_paths(value: &Value) -> Vec<Vec<Step>> {
    fn walk(value: &Value, path: &[Step], found: &mut Vec<Vec<Step>>) {
        let mut visit = |step: Step, value: &Value| {
            let path: Vec<Step> = path.iter().cloned().chain(std::iter::once(step)).collect();
            walk(value, &path, found);
        };
        match value {
            Value::Array(items) => items.iter().enumerate().for_each(|(n, item)| visit(Step::Position(n), item)),
            Value::Object(fields) => fields.iter().for_each(|(key, field)| visit(Step::Key(key.clone()), field)),
            _ if path.is_empty() => {}
            _ => found.push(path.to_vec()),
        }
    }
    let mut found = Vec::new();
    walk(value, &[], &mut found);
    found
}

/// Whether an entry at `path` stands for what is at `leaf`.
pub(crate) fn covers(path: &[Step], leaf: &[Step]) -> bool {
    leaf.starts_with(path)
}

/// Reads a path as it is written: `a.b`, `a[0]`, `a["x.y"]`.
pub(crate) fn parse_path(text: &str) -> Vec<Step> {
    let mut steps = Vec::new();
    let mut rest = text;
    while !rest.is_empty() {
        if let Some(inside) = rest.strip_prefix("[\"") {
            let quoted_end = {
                let mut escaped = false;
                inside
                    .char_indices()
                    .find(|(_, c)| {
                        let end = *c == '"' && !escaped;
                        escaped = *c == '\\' && !escaped;
                        end
                    })
                    .unwrap()
                    .0
            };
            steps.push(Step::Key(serde_json::from_str(&rest[1..quoted_end + 3]).unwrap()));
            rest = rest[quoted_end + 3..].strip_prefix(']').unwrap();
        } else if let Some(inside) = rest.strip_prefix('[') {
            let (digits, tail) = inside.split_once(']').unwrap();
            steps.push(Step::Position(digits.parse().unwrap()));
            rest = tail;
        } else {
            let name = rest.strip_prefix('.').unwrap_or(rest);
            let end = name.find(['.', '[']).unwrap_or(name.len());
            steps.push(Step::Key(name[..end].to_owned()));
            rest = &name[end..];
        }
    }
    steps
}
