//! Strict reading of JSON that comes from outside: bounded in size, one value, no unknown fields, no trailing text.

use serde::de::DeserializeOwned;

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
/// Too large, not JSON, trailing text, or not of the type. Types that are read so deny unknown fields themselves.
pub fn parse<T: DeserializeOwned>(what: &'static str, bytes: &[u8], limit: usize) -> Result<T, UntrustedError> {
    if bytes.len() > limit {
        return Err(UntrustedError::TooLarge { what, bytes: bytes.len(), limit });
    }
    serde_json::from_slice(bytes).map_err(|error| UntrustedError::Malformed { what, detail: describe(&error) })
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
        #[allow(dead_code, reason = "only parsed")]
        open: bool,
    }

    #[test]
    fn an_error_names_the_field_and_never_the_value() {
        let error = parse::<Door>("door", br#"{"open":"hunter2-secret"}"#, 100).unwrap_err().to_string();
        assert_eq!(error, "the door does not follow its schema: a value of the wrong type or form at line 1 column 24");
        let error = parse::<Door>("door", br#"{"open":true,"lock":1}"#, 100).unwrap_err().to_string();
        assert!(error.contains("unknown field `lock`"), "{error}");
    }

    #[test]
    fn too_much_or_too_many_is_refused() {
        assert!(matches!(parse::<Door>("door", br#"{"open":true}"#, 5), Err(UntrustedError::TooLarge { .. })));
        assert!(parse::<Door>("door", br#"{"open":true}{"open":true}"#, 100).is_err());
        assert!(parse::<Door>("door", br#"{"open":true,"open":false}"#, 100).is_err());
    }
}
