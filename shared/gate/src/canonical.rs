//! Canonical bytes: what is hashed is written in one way only.
//!
//! Object keys sorted by their bytes, no white space, no escape that JSON does not require, numbers with the digits of
//! their source. The same content gives the same bytes on every machine.

use serde::Serialize;

use crate::value::Value;

/// Writes `text` as a JSON string.
pub(crate) fn write_string(out: &mut Vec<u8>, text: &str) {
    out.push(b'"');
    let mut rest = text;
    while let Some(at) = rest.bytes().position(|byte| byte < 0x20 || byte == b'"' || byte == b'\\') {
        let (plain, tail) = rest.split_at(at);
        out.extend_from_slice(plain.as_bytes());
        let (special, after) = tail.split_at(1);
        match special {
            "\"" => out.extend_from_slice(b"\\\""),
            "\\" => out.extend_from_slice(b"\\\\"),
            "\u{8}" => out.extend_from_slice(b"\\b"),
            "\u{c}" => out.extend_from_slice(b"\\f"),
            "\n" => out.extend_from_slice(b"\\n"),
            "\r" => out.extend_from_slice(b"\\r"),
            "\t" => out.extend_from_slice(b"\\t"),
            other => out.extend(other.bytes().flat_map(|byte| format!("\\u{byte:04x}").into_bytes())),
        }
        rest = after;
    }
    out.extend_from_slice(rest.as_bytes());
    out.push(b'"');
}

/// Writes the elements of a list or the fields of an object, with commas between them.
pub(crate) fn write_list<T>(
    out: &mut Vec<u8>,
    items: impl IntoIterator<Item = T>,
    mut each: impl FnMut(&mut Vec<u8>, T),
) {
    for (position, item) in items.into_iter().enumerate() {
        if position > 0 {
            out.push(b',');
        }
        each(out, item);
    }
}

/// Writes a value of a plan.
pub(crate) fn write_value(out: &mut Vec<u8>, value: &Value<'_>) {
    match value {
        Value::Null => out.extend_from_slice(b"null"),
        Value::Bool(true) => out.extend_from_slice(b"true"),
        Value::Bool(false) => out.extend_from_slice(b"false"),
        Value::Number(digits) => out.extend_from_slice(digits.as_bytes()),
        Value::String(text) => write_string(out, text),
        Value::Array(items) => {
            out.push(b'[');
            write_list(out, items, write_value);
            out.push(b']');
        }
        Value::Object(fields) => {
            out.push(b'{');
            write_list(out, fields, |out, (key, value)| {
                write_string(out, key);
                out.push(b':');
                write_value(out, value);
            });
            out.push(b'}');
        }
    }
}

/// The canonical bytes of a document of ours, such as a policy.
///
/// # Errors
/// Only if the type cannot be written as JSON at all.
pub fn to_bytes<T: Serialize + ?Sized>(document: &T) -> Result<Vec<u8>, serde_json::Error> {
    let mut out = Vec::new();
    write_json(&mut out, &serde_json::to_value(document)?);
    Ok(out)
}

fn write_json(out: &mut Vec<u8>, json: &serde_json::Value) {
    match json {
        serde_json::Value::String(text) => write_string(out, text),
        serde_json::Value::Array(items) => {
            out.push(b'[');
            write_list(out, items, write_json);
            out.push(b']');
        }
        serde_json::Value::Object(fields) => {
            // Sorted here: the map's own order depends on how the library was built.
            let mut sorted: Vec<_> = fields.iter().collect();
            sorted.sort_unstable_by(|(one, _), (other, _)| one.as_bytes().cmp(other.as_bytes()));
            out.push(b'{');
            write_list(out, sorted, |out, (key, value)| {
                write_string(out, key);
                out.push(b':');
                write_json(out, value);
            });
            out.push(b'}');
        }
        scalar => out.extend_from_slice(scalar.to_string().as_bytes()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::Reader;

    fn rewrite(text: &str) -> String {
        let value = Value::read(&mut Reader::new(text.as_bytes()).unwrap()).unwrap();
        let mut out = Vec::new();
        write_value(&mut out, &value);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn keys_are_sorted_digits_kept_and_needless_escapes_dropped() {
        assert_eq!(
            rewrite(r#" { "b" : [ 1.50 , 1E5, -0 ], "a" : "\u0041\/\u00e9\u007f\u0001\n", "B":null } "#),
            "{\"B\":null,\"a\":\"A/é\u{7f}\\u0001\\n\",\"b\":[1.50,1E5,-0]}"
        );
    }

    #[test]
    fn our_own_documents_are_written_in_the_same_way() {
        let document = serde_json::json!({"b": {"z": 1, "a": "\u{1}"}, "a": [true, null]});
        assert_eq!(to_bytes(&document).unwrap(), br#"{"a":[true,null],"b":{"a":"\u0001","z":1}}"#);
    }
}
