//! Strict reading of JSON that comes from outside: bounded in size, one value, no unknown fields, no trailing text,
//! structures as objects alone.

mod fields;

use serde::Deserialize;
use serde::de::{DeserializeOwned, Deserializer};

/// Why an outside text was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum UntrustedError {
    /// The text is larger than its kind may be.
    #[error("the {what} has {bytes} bytes, more than the {limit} allowed")]
    TooLarge {
        /// What was read.
        what: &'static str,
        /// Its size in bytes.
        bytes: usize,
        /// The most that is allowed, in bytes.
        limit: usize,
    },
    /// The text is not what its schema says. The detail names fields and places, never values.
    #[error("the {what} does not follow its schema: {detail}")]
    Malformed {
        /// What was read.
        what: &'static str,
        /// Which field, and where.
        detail: String,
    },
}

/// Reads one JSON value of type `T` from `bytes`, at most `limit` bytes long. `what` names it in errors.
///
/// # Errors
/// Too large, not JSON, trailing text, a list in place of an object, or not of the type. Types that are read so deny unknown fields themselves.
pub fn parse<T: DeserializeOwned>(what: &'static str, bytes: &[u8], limit: usize) -> Result<T, UntrustedError> {
    if bytes.len() > limit {
        return Err(UntrustedError::TooLarge { what, bytes: bytes.len(), limit });
    }
    let mut json = serde_json::Deserializer::from_slice(bytes);
    let read = T::deserialize(fields::ByName(&mut json)).and_then(|value| json.end().map(|()| value));
    read.map_err(|error| UntrustedError::Malformed { what, detail: describe(&error) })
}

/// Reads one field as [`parse`] reads the whole. What stands in an alternative that is told by a word is kept aside until
/// the word is known, and read from there by other means: its structures ask for this.
///
/// # Errors
/// As [`parse`].
pub(crate) fn by_name<'de, D: Deserializer<'de>, T: Deserialize<'de>>(deserializer: D) -> Result<T, D::Error> {
    T::deserialize(fields::ByName(deserializer))
}

/// An alternative that has nothing but the word that tells it: without this, whatever else stood there would be passed over.
///
/// # Errors
/// There is a field.
pub(crate) fn no_fields<'de, D: Deserializer<'de>>(deserializer: D) -> Result<(), D::Error> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Nothing {}
    by_name(deserializer).map(|Nothing {}| ())
}

/// The place and kind of a JSON error, without quoting what stood there: it may be a secret.
fn describe(error: &serde_json::Error) -> String {
    let text = error.to_string();
    let kind = ["unknown field", "missing field", "duplicate field", "unknown variant"]
        .into_iter()
        .find_map(|kind| {
            let rest = text.strip_prefix(kind)?;
            // Field names are the schema's or the sender's keys; only a well-formed, short one is repeated.
            let name = rest.split('`').nth(1)?;
            let plain = name.len() <= 40 && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
            Some(if plain && kind != "unknown variant" { format!("{kind} `{name}`") } else { kind.to_owned() })
        })
        .unwrap_or_else(|| match error.classify() {
            serde_json::error::Category::Syntax => "not valid JSON".to_owned(),
            serde_json::error::Category::Eof => "it ends too early".to_owned(),
            _ => "a value of the wrong type or form".to_owned(),
        });
    format!("{kind} at line {} column {}", error.line(), error.column())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, serde::Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Door {
        open: bool,
    }

    #[test]
    fn an_error_names_the_field_and_never_the_value() {
        let error = parse::<Door>("door", br#"{"open":"hunter2-secret"}"#, 100).unwrap_err().to_string();
        assert_eq!(error, "the door does not follow its schema: a value of the wrong type or form at line 1 column 24");
        let error = parse::<Door>("door", br#"{"open":true,"lock":1}"#, 100).unwrap_err().to_string();
        assert!(error.contains("unknown field `lock`"), "{error}");
    }

    #[derive(Debug, serde::Deserialize)]
    #[serde(tag = "kind", rename_all = "lowercase", deny_unknown_fields)]
    enum Roof {
        #[serde(deserialize_with = "no_fields")]
        Flat,
        Gable {
            #[serde(deserialize_with = "by_name")]
            hatch: Door,
        },
    }

    #[test]
    fn an_alternative_that_is_told_by_a_word_is_as_strict_inside() {
        let read = |text: &str| parse::<Roof>("roof", text.as_bytes(), 1000);
        assert!(matches!(read(r#"{"kind":"flat"}"#), Ok(Roof::Flat)));
        assert!(matches!(
            read(r#"{"kind":"gable","hatch":{"open":true}}"#),
            Ok(Roof::Gable { hatch: Door { open: true } })
        ));
        let error = read(r#"{"kind":"flat","hatch":{"open":true}}"#).unwrap_err().to_string();
        assert!(error.contains("unknown field `hatch`"), "{error}");
        assert!(read(r#"{"kind":"gable","hatch":[true]}"#).is_err());
        assert!(read(r#"["flat"]"#).is_err());
    }

    #[derive(Debug, serde::Deserialize)]
    #[serde(deny_unknown_fields)]
    struct House {
        front: Option<Door>,
        rooms: std::collections::BTreeMap<String, Vec<Opening>>,
        size: (u8, u8),
        exact: serde_json::Number,
        any: serde_json::Value,
        raw: Box<serde_json::value::RawValue>,
    }

    #[derive(Debug, serde::Deserialize)]
    enum Opening {
        Door(Door),
        Window { width: u8 },
        Hole,
    }

    #[test]
    fn a_structure_is_an_object_wherever_it_stands() {
        let house = r#"{"front":{"open":true},"rooms":{"hall":[{"Door":{"open":false}},{"Window":{"width":1}},"Hole"]},"size":[1,2],"exact":1.50,"any":[1,{"a":[]}],"raw":[ 1 ]}"#;
        let read: House = parse("house", house.as_bytes(), 1000).unwrap();
        let doors = [
            read.front.map(|door| door.open),
            read.rooms["hall"].iter().find_map(|opening| match opening {
                Opening::Door(door) => Some(door.open),
                Opening::Window { width: 1 } | Opening::Hole => None,
                Opening::Window { .. } => Some(true),
            }),
        ];
        assert_eq!(doors, [Some(true), Some(false)]);
        assert_eq!((read.size, read.exact.to_string(), read.raw.get()), ((1, 2), "1.50".to_owned(), "[ 1 ]"));
        assert_eq!(read.any, serde_json::json!([1, {"a": []}]));
        for (object, list) in [
            (r#""front":{"open":true}"#, r#""front":[true]"#),
            (r#"{"Door":{"open":false}}"#, r#"{"Door":[false]}"#),
            (r#"{"Window":{"width":1}}"#, r#"{"Window":[1]}"#),
            (house, r#"[{"open":true},{},[1,2],1.50,[],1]"#),
        ] {
            let other = house.replace(object, list);
            assert_ne!(other, house);
            let error = parse::<House>("house", other.as_bytes(), 1000).unwrap_err().to_string();
            assert!(error.contains("a value of the wrong type or form"), "{other}: {error}");
        }
    }

    #[test]
    fn too_much_or_too_many_is_refused() {
        assert!(matches!(parse::<Door>("door", br#"{"open":true}"#, 5), Err(UntrustedError::TooLarge { .. })));
        assert!(parse::<Door>("door", br#"{"open":true}{"open":true}"#, 100).is_err());
        assert!(parse::<Door>("door", br#"{"open":true,"open":false}"#, 100).is_err());
    }
}
