//! Writes the parts of a projection in canonical form. Fields stand in the order of their keys' bytes.

use std::borrow::Borrow;

use crate::actions::Actions;
use crate::canonical::{write_list, write_string, write_value};
use crate::projection::shape::{Attribute, Counts, OutputChange, ResourceChange, Shown};
use crate::value::Value;

/// Opens the document, up to the outputs.
pub(super) fn open(out: &mut Vec<u8>, counts: Counts) {
    let Counts { create, update, delete, replace } = counts;
    let head = format!(
        r#"{{"counts":{{"create":{create},"delete":{delete},"replace":{replace},"update":{update}}},"format":1"#
    );
    out.extend_from_slice(head.as_bytes());
}

/// Writes the outputs, which come sorted by name.
pub(super) fn outputs<'a, 'v, V: Borrow<Value<'v>>>(
    out: &mut Vec<u8>,
    outputs: impl Iterator<Item = OutputChange<'a, V>>,
) {
    out.extend_from_slice(br#","outputs":["#);
    write_list(out, outputs, |out, output| {
        out.extend_from_slice(br#"{"actions":"#);
        actions(out, &output.actions);
        out.extend_from_slice(br#","after":"#);
        shown(out, &output.after);
        out.extend_from_slice(br#","name":"#);
        write_string(out, &output.name);
        out.push(b'}');
    });
    out.push(b']');
}

/// Writes the resources, which come in document order.
pub(super) fn resources<'a, 'v, V: Borrow<Value<'v>>>(
    out: &mut Vec<u8>,
    resources: impl Iterator<Item = ResourceChange<'a, V>>,
) {
    out.extend_from_slice(br#","resources":["#);
    write_list(out, resources, |out, resource| {
        out.extend_from_slice(br#"{"actions":"#);
        actions(out, &resource.actions);
        out.extend_from_slice(br#","address":"#);
        write_string(out, &resource.address);
        out.extend_from_slice(br#","attributes":{"#);
        write_list(out, &resource.attributes, attribute);
        out.extend_from_slice(br#"},"type":"#);
        write_string(out, &resource.kind);
        out.push(b'}');
    });
    out.push(b']');
}

/// Closes the document.
pub(super) fn close(out: &mut Vec<u8>) {
    out.push(b'}');
}

fn attribute<'v, V: Borrow<Value<'v>>>(out: &mut Vec<u8>, attribute: &Attribute<V>) {
    write_string(out, &attribute.path);
    out.extend_from_slice(b":{");
    let sides = [("\"after\":", &attribute.after), ("\"before\":", &attribute.before)];
    write_list(out, sides.into_iter().filter_map(|(key, side)| Some((key, side.as_ref()?))), |out, (key, side)| {
        out.extend_from_slice(key.as_bytes());
        shown(out, side);
    });
    out.push(b'}');
}

fn shown<'v, V: Borrow<Value<'v>>>(out: &mut Vec<u8>, value: &Shown<V>) {
    match value {
        Shown::Known(value) => {
            out.extend_from_slice(br#"{"known":"#);
            write_value(out, value.borrow());
            out.push(b'}');
        }
        Shown::Unknown => out.extend_from_slice(br#"{"unknown":true}"#),
        Shown::Sensitive => out.extend_from_slice(br#"{"sensitive":true}"#),
    }
}

/// Writes an action set.
pub(super) fn actions(out: &mut Vec<u8>, actions: &Actions) {
    out.push(b'[');
    write_list(out, actions.names(), write_string);
    out.push(b']');
}
