//! A JSON value as a plan document holds it: borrowed, keys in byte order, numbers with the digits they came with.

use std::borrow::Cow;
use std::fmt;

use crate::json::{Kind, MAX_DEPTH, Read, Reader};

/// One attribute or output value. Its content can be reached only inside this crate: whoever stands outside gets a
/// projection, or the values of one that has been read back.
#[derive(Clone, PartialEq, Eq)]
pub enum Value<'a> {
    /// `null`.
    Null,
    /// `true` or `false`.
    Bool(bool),
    /// A number, exactly as it was written.
    Number(&'a str),
    /// A string.
    String(Cow<'a, str>),
    /// A list.
    Array(Box<[Value<'a>]>),
    /// An object, sorted by the bytes of its keys, no key twice.
    Object(Box<[(Cow<'a, str>, Value<'a>)]>),
}

impl<'a> Value<'a> {
    /// Reads the next value, at most [`MAX_DEPTH`] containers deep.
    pub(crate) fn read(reader: &mut Reader<'a>) -> Read<Self> {
        Self::read_at(reader, 0)
    }

    fn read_at(reader: &mut Reader<'a>, depth: usize) -> Read<Self> {
        let kind = reader.kind()?;
        if depth > MAX_DEPTH {
            return Err(reader.error("containers inside each other too deep"));
        }
        match kind {
            Kind::Null => reader.null().map(|()| Self::Null),
            Kind::Bool => reader.bool().map(Self::Bool),
            Kind::Number => reader.number().map(Self::Number),
            Kind::String => reader.string().map(Self::String),
            Kind::Array => {
                let mut items = Vec::new();
                reader.array(|r, _| {
                    items.push(Self::read_at(r, depth + 1)?);
                    Ok(())
                })?;
                Ok(Self::Array(items.into()))
            }
            Kind::Object => {
                let mut fields = Vec::new();
                reader.object(|r, key| {
                    // Positions are told in an error, keys are not: they may be the proposer's own.
                    fields.push((key, Self::read_at(r, depth + 1).map_err(|error| error.within("*"))?));
                    Ok(())
                })?;
                fields.sort_unstable_by(|(one, _), (other, _)| one.cmp(other));
                Ok(Self::Object(fields.into()))
            }
        }
    }

    /// Passes over the next value and refuses what [`Value::read`] would refuse. Nothing of it is held.
    pub(crate) fn check(reader: &mut Reader<'a>) -> Read<()> {
        Self::check_at(reader, 0)
    }

    fn check_at(reader: &mut Reader<'a>, depth: usize) -> Read<()> {
        let kind = reader.kind()?;
        if depth > MAX_DEPTH {
            return Err(reader.error("containers inside each other too deep"));
        }
        match kind {
            Kind::Array => reader.array(|r, _| Self::check_at(r, depth + 1)),
            Kind::Object => reader.object(|r, _| Self::check_at(r, depth + 1).map_err(|error| error.within("*"))),
            scalar => reader.skip_scalar(scalar),
        }
    }

    /// The field `key` of an object.
    pub(crate) fn field(&self, key: &str) -> Option<&Self> {
        match self {
            Self::Object(fields) => {
                let found = fields.binary_search_by(|(name, _)| name.as_ref().cmp(key)).ok()?;
                fields.get(found).map(|(_, value)| value)
            }
            _ => None,
        }
    }

    /// The element of a list at `position`.
    pub(crate) fn element(&self, position: usize) -> Option<&Self> {
        match self {
            Self::Array(items) => items.get(position),
            _ => None,
        }
    }

    /// The text, if this is a string.
    pub(crate) fn text(&self) -> Option<&str> {
        match self {
            Self::String(text) => Some(text),
            _ => None,
        }
    }

    /// The elements, if this is a list.
    pub(crate) fn elements(&self) -> &[Self] {
        match self {
            Self::Array(items) => items,
            _ => &[],
        }
    }

    /// The fields, if this is an object.
    pub(crate) fn fields(&self) -> &[(Cow<'a, str>, Self)] {
        match self {
            Self::Object(fields) => fields,
            _ => &[],
        }
    }
}

/// The text of a value that has been checked and is read again when somebody wants to see it: of most of a plan's
/// values nobody ever does.
#[derive(Clone, Copy)]
pub(crate) struct Unread<'a>(&'a str);

impl<'a> Unread<'a> {
    /// Checks the next value and keeps its text; null is none.
    pub(crate) fn read(reader: &mut Reader<'a>) -> Read<Option<Self>> {
        let text = reader.text_of(Value::check)?;
        Ok((text != "null").then_some(Self(text)))
    }

    /// The value.
    ///
    /// # Errors
    /// Never for a text that was checked.
    pub(crate) fn value(self) -> Read<Value<'a>> {
        Value::read(&mut Reader::of(self.0))
    }

    /// The value, of an object only the fields that are `wanted`.
    ///
    /// # Errors
    /// Never for a text that was checked.
    pub(crate) fn fields(self, wanted: impl Fn(&str) -> bool) -> Read<Value<'a>> {
        let mut reader = Reader::of(self.0);
        if reader.kind()? != Kind::Object {
            return self.value();
        }
        let mut fields = Vec::new();
        reader.object(|r, key| {
            if !wanted(&key) {
                return r.skip();
            }
            fields.push((key, Value::read_at(r, 1)?));
            Ok(())
        })?;
        fields.sort_unstable_by(|(one, _), (other, _)| one.cmp(other));
        Ok(Value::Object(fields.into()))
    }
}

/// Says what kind of value it is and never which: debug output ends in logs.
impl fmt::Debug for Value<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Null => "Null",
            Self::Bool(_) => "Bool",
            Self::Number(_) => "Number",
            Self::String(_) => "String",
            Self::Array(_) => "Array",
            Self::Object(_) => "Object",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Read<Value<'_>> {
        Value::read(&mut Reader::new(text.as_bytes())?)
    }

    #[test]
    fn numbers_keep_their_digits_and_objects_are_found_by_key() {
        let value = read(r#"{"z":1E5,"a":[123456789012345678901234567890,-0.10]}"#).unwrap();
        assert_eq!(value.field("z"), Some(&Value::Number("1E5")));
        assert_eq!(
            value.field("a").unwrap().elements(),
            [Value::Number("123456789012345678901234567890"), Value::Number("-0.10")]
        );
        assert_eq!(value.field("b"), None);
    }

    #[test]
    fn an_object_that_looks_like_a_library_s_number_stays_an_object() {
        let value = read(r#"{"$serde_json::private::Number":"7"}"#).unwrap();
        assert!(matches!(value, Value::Object(_)));
    }

    #[test]
    fn depth_is_bounded_in_what_is_read() {
        assert!(read(&("[".repeat(128) + &"]".repeat(128))).is_ok());
        assert!(read(&"[".repeat(1_000_000)).is_err());
    }

    #[test]
    fn what_is_checked_first_and_read_later_is_refused_for_the_same_things() {
        for bad in [
            "",
            "{\"a\":1,\"\\u0061\":2}",
            "[1,]",
            "{\"a\":[{\"b\":1,\"b\":2}]}",
            "01",
            "\"\\ud800\"",
            &"[".repeat(1000),
        ] {
            let mut reader = Reader::new(bad.as_bytes()).unwrap();
            assert_eq!(Unread::read(&mut reader).err(), read(bad).err(), "{bad}");
        }
        let text = " {\"a\":[1,\"\\n\",{}]}";
        let unread = Unread::read(&mut Reader::new(text.as_bytes()).unwrap()).unwrap().unwrap();
        assert_eq!(unread.value(), read(text));
        assert!(Unread::read(&mut Reader::new(b" null").unwrap()).unwrap().is_none());
    }

    #[test]
    fn debug_output_tells_no_value() {
        assert_eq!(format!("{:?}", read(r#"{"password":"hunter2"}"#).unwrap()), "Object");
    }
}
