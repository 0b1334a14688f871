//! A projection in the shape of a plan document, for rules that are written for plan documents.

use std::collections::BTreeMap;

use crate::canonical::{write_list, write_string, write_value};
use crate::path::{self, OwnedStep};
use crate::projection::shape::Shown;
use crate::projection::view::ProjectionView;
use crate::projection::write;
use crate::value::Value;

/// What stands where a masked value stood.
const MASKED: &str = "(sensitive)";

/// A JSON value that is put together path by path.
#[derive(Default)]
enum Node {
    #[default]
    Nothing,
    Leaf(Vec<u8>),
    Object(BTreeMap<String, Node>),
    Array(Vec<Node>),
}

impl Node {
    /// Puts `leaf` at `path`. False if something else stands in its way: then the paths are not those of one value.
    fn put(&mut self, path: &[OwnedStep], leaf: Vec<u8>) -> bool {
        let Some((step, rest)) = path.split_first() else {
            let free = matches!(self, Self::Nothing);
            *self = Self::Leaf(leaf);
            return free;
        };
        match (step, &mut *self) {
            (OwnedStep::Key(_), Self::Nothing) => *self = Self::Object(BTreeMap::new()),
            (OwnedStep::Position(_), Self::Nothing) => *self = Self::Array(Vec::new()),
            _ => {}
        }
        match (step, self) {
            (OwnedStep::Key(key), Self::Object(fields)) => fields.entry(key.clone()).or_default().put(rest, leaf),
            (OwnedStep::Position(position), Self::Array(items)) => {
                // A projection has an entry for every element of a list that is split: positions are no larger than it.
                if *position >= items.len() {
                    items.resize_with(position + 1, Self::default);
                }
                items.get_mut(*position).is_some_and(|item| item.put(rest, leaf))
            }
            _ => false,
        }
    }

    fn write(&self, out: &mut Vec<u8>, nothing: &[u8]) {
        match self {
            Self::Nothing => out.extend_from_slice(nothing),
            Self::Leaf(bytes) => out.extend_from_slice(bytes),
            Self::Object(fields) => {
                out.push(b'{');
                write_list(out, fields, |out, (key, node)| {
                    write_string(out, key);
                    out.push(b':');
                    node.write(out, nothing);
                });
                out.push(b'}');
            }
            Self::Array(items) => {
                out.push(b'[');
                write_list(out, items, |out, node| node.write(out, nothing));
                out.push(b']');
            }
        }
    }
}

/// One side of a change: its values, and where they are sensitive or unknown.
#[derive(Default)]
struct Side {
    values: Node,
    sensitive: Node,
    unknown: Node,
}

impl Side {
    fn put(&mut self, path: &[OwnedStep], shown: &Shown<Value<'_>>) -> bool {
        match shown {
            Shown::Known(value) => {
                let mut leaf = Vec::new();
                write_value(&mut leaf, value);
                self.values.put(path, leaf)
            }
            Shown::Sensitive => {
                let mut leaf = Vec::new();
                write_string(&mut leaf, MASKED);
                self.values.put(path, leaf) && self.sensitive.put(path, b"true".to_vec())
            }
            Shown::Unknown => self.unknown.put(path, b"true".to_vec()),
        }
    }
}

/// A field and what stands in it.
fn field(out: &mut Vec<u8>, name: &str, node: &Node, nothing: &[u8]) {
    out.push(b',');
    write_string(out, name);
    out.push(b':');
    node.write(out, nothing);
}

/// The projection as a JSON text in the shape of a plan document: `resource_changes` and `output_changes`, masked values
/// replaced, unknown ones left out and marked. None for a projection whose paths do not fit together, which is none.
pub(crate) fn plan_shape(view: &ProjectionView<'_>) -> Option<Vec<u8>> {
    let mut fits = true;
    let mut out = br#"{"format_version":"1.2","output_changes":{"#.to_vec();
    write_list(&mut out, &view.outputs, |out, output| {
        let mut after = Side::default();
        fits &= after.put(&[], &output.after);
        write_string(out, &output.name);
        out.extend_from_slice(br#":{"actions":"#);
        write::actions(out, &output.actions);
        field(out, "after", &after.values, b"null");
        field(out, "after_sensitive", &after.sensitive, b"false");
        field(out, "after_unknown", &after.unknown, b"false");
        out.push(b'}');
    });
    out.extend_from_slice(br#"},"resource_changes":["#);
    write_list(&mut out, &view.resources, |out, resource| {
        let [mut before, mut after] = [Side::default(), Side::default()];
        for attribute in &resource.attributes {
            let Some(steps) = path::parse(&attribute.path) else {
                fits = false;
                continue;
            };
            fits &= attribute.before.as_ref().is_none_or(|shown| before.put(&steps, shown));
            fits &= attribute.after.as_ref().is_none_or(|shown| after.put(&steps, shown));
        }
        out.extend_from_slice(br#"{"address":"#);
        write_string(out, &resource.address);
        out.extend_from_slice(br#","change":{"actions":"#);
        write::actions(out, &resource.actions);
        field(out, "after", &after.values, b"null");
        field(out, "after_sensitive", &after.sensitive, b"false");
        field(out, "after_unknown", &after.unknown, b"false");
        field(out, "before", &before.values, b"null");
        field(out, "before_sensitive", &before.sensitive, b"false");
        out.extend_from_slice(br#"},"type":"#);
        write_string(out, &resource.kind);
        out.push(b'}');
    });
    out.extend_from_slice(b"]}");
    fits.then_some(out)
}

#[cfg(test)]
mod tests {
    use crate::document::PlanDocument;
    use crate::projection::{Projection, ProjectionView, Withhold, plan_shape};

    fn shape(change: &str) -> serde_json::Value {
        let text = format!(
            r#"{{"format_version":"1.2","resource_changes":[{{"address":"a.b","type":"a","change":{{{change}}}}}],"output_changes":{{"o":{{"actions":["create"],"after":[1],"after_unknown":false,"after_sensitive":false}}}}}}"#
        );
        let document = PlanDocument::parse_untrusted(text.as_bytes()).unwrap();
        let projection = Projection::of(&document, &Withhold::nothing());
        let view = ProjectionView::parse(projection.bytes()).unwrap();
        serde_json::from_slice(&plan_shape(&view).unwrap()).unwrap()
    }

    #[test]
    fn rules_see_the_plan_s_shape_with_masked_values_replaced_and_unknown_ones_marked() {
        let shape = shape(
            r#""actions":["update"],"before":{"l":[{"p":"hunter2-secret","n":1}],"a.b":"x"},"after":{"l":[{"p":"hunter2-other","n":2.50}],"a.b":"say hunter2-other"},"after_unknown":{"arn":true},"before_sensitive":{"l":[{"p":true}]},"after_sensitive":{"l":[{"p":true}]}"#,
        );
        let expected = serde_json::json!({
            "format_version": "1.2",
            "output_changes": {"o": {"actions": ["create"], "after": [1], "after_sensitive": false, "after_unknown": false}},
            "resource_changes": [{"address": "a.b", "type": "a", "change": {
                "actions": ["update"],
                "before": {"l": [{"p": "(sensitive)", "n": 1}], "a.b": "(sensitive)"},
                "before_sensitive": {"l": [{"p": true}], "a.b": true},
                "after": {"l": [{"p": "(sensitive)", "n": serde_json::from_str::<serde_json::Value>("2.50").unwrap()}], "a.b": "(sensitive)"},
                "after_sensitive": {"l": [{"p": true}], "a.b": true},
                "after_unknown": {"arn": true}
            }}]
        });
        assert_eq!(shape, expected);
    }

    #[test]
    fn what_is_created_or_destroyed_has_one_side() {
        let created = shape(r#""actions":["create"],"before":null,"after":{"x":[]},"after_unknown":{}"#);
        assert_eq!(created["resource_changes"][0]["change"]["before"], serde_json::Value::Null);
        assert_eq!(created["resource_changes"][0]["change"]["after"], serde_json::json!({"x": []}));
    }
}
