//! The masks that shadow values: which leaves are sensitive, which are not known yet (`R25`, `R26`).

use std::borrow::Cow;

use crate::json::{Kind, MAX_DEPTH, Read, Reader};
use crate::value::Value;

/// A mask over one value. Parts of a mask that mark nothing are gone when it has been read, so that whatever is not
/// [`Mask::Clear`] marks something.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) enum Mask<'a> {
    /// Marks nothing: `false`, `null`, absent, or a container without a `true` in it.
    #[default]
    Clear,
    /// Marks all of the value: `true`.
    Whole,
    /// Marks below the named fields, sorted by key.
    Keys(Box<[(Cow<'a, str>, Mask<'a>)]>),
    /// Marks below the elements; positions without a mark are kept, as the length must fit.
    Items(Box<[Mask<'a>]>),
}

/// The mask of whatever is not mentioned.
pub(crate) static CLEAR: Mask<'static> = Mask::Clear;

impl<'a> Mask<'a> {
    /// Reads the next value as a mask. A string or a number in it is an error.
    pub(crate) fn read(reader: &mut Reader<'a>) -> Read<Self> {
        Self::read_at(reader, 0)
    }

    fn read_at(reader: &mut Reader<'a>, depth: usize) -> Read<Self> {
        let kind = reader.kind()?;
        if depth > MAX_DEPTH {
            return Err(reader.error("containers inside each other too deep"));
        }
        match kind {
            Kind::Null => reader.null().map(|()| Self::Clear),
            Kind::Bool => reader.bool().map(|whole| if whole { Self::Whole } else { Self::Clear }),
            Kind::Number | Kind::String => Err(reader.error("a mask that is neither true, false nor a container")),
            Kind::Array => {
                let mut items = Vec::new();
                reader.array(|r, _| {
                    items.push(Self::read_at(r, depth + 1)?);
                    Ok(())
                })?;
                Ok(if items.iter().all(Self::is_clear) { Self::Clear } else { Self::Items(items.into()) })
            }
            Kind::Object => {
                let mut keys = Vec::new();
                reader.object(|r, key| {
                    let mask = Self::read_at(r, depth + 1).map_err(|error| error.within("*"))?;
                    if !mask.is_clear() {
                        keys.push((key, mask));
                    }
                    Ok(())
                })?;
                keys.sort_unstable_by(|(one, _), (other, _)| one.cmp(other));
                Ok(if keys.is_empty() { Self::Clear } else { Self::Keys(keys.into()) })
            }
        }
    }

    /// Whether it marks nothing at all.
    pub(crate) const fn is_clear(&self) -> bool {
        matches!(self, Self::Clear)
    }

    /// The mask of the field `key`.
    pub(crate) fn field(&self, key: &str) -> &Self {
        match self {
            Self::Keys(keys) => keys
                .binary_search_by(|(name, _)| name.as_ref().cmp(key))
                .ok()
                .and_then(|found| keys.get(found))
                .map_or(&CLEAR, |(_, mask)| mask),
            _ => &CLEAR,
        }
    }

    /// Whether it marks anything at or below the field `key`.
    pub(crate) fn marks_field(&self, key: &str) -> bool {
        match self {
            Self::Clear => false,
            Self::Keys(_) => !self.field(key).is_clear(),
            // A mask that is no object's hides the whole of an object.
            Self::Whole | Self::Items(_) => true,
        }
    }

    /// The mask of the element at `position`.
    pub(crate) fn element(&self, position: usize) -> &Self {
        match self {
            Self::Items(items) => items.get(position).unwrap_or(&CLEAR),
            _ => &CLEAR,
        }
    }

    /// The fields that it marks below, if it is an object's.
    pub(crate) fn keys(&self) -> &[(Cow<'a, str>, Self)] {
        match self {
            Self::Keys(keys) => keys,
            _ => &[],
        }
    }

    /// Whether this sensitivity mask hides the whole of `value`, the value that it came with: by a `true`, or by
    /// marking something in a shape that is not the value's. Null is hidden by a `true` alone.
    pub(crate) fn hides(&self, value: Option<&Value<'_>>) -> bool {
        match (self, value) {
            (Self::Clear, _) => false,
            (Self::Whole, _) => true,
            (_, None | Some(Value::Null)) | (Self::Keys(_), Some(Value::Object(_))) => false,
            (Self::Items(masks), Some(Value::Array(items))) => masks.len() != items.len(),
            (Self::Keys(_) | Self::Items(_), Some(_)) => true,
        }
    }

    /// Whether this sensitivity mask hides the whole of `value`, the value on the *other* side of the change, which
    /// came with the mask `own`. Elements of lists of different length cannot be matched by position: unless the other
    /// side marks its own elements, the whole list is hidden.
    pub(crate) fn hides_across(&self, value: Option<&Value<'_>>, own: &Self) -> bool {
        match (self, value) {
            (Self::Items(masks), Some(Value::Array(items))) => {
                masks.len() != items.len() && !items.is_empty() && own.is_clear()
            }
            _ => self.hides(value),
        }
    }

    /// Whether this unknown mask leaves the whole of `value` unknown: by a `true`, or by not fitting it.
    pub(crate) fn obscures(&self, value: Option<&Value<'_>>) -> bool {
        match (self, value) {
            (Self::Clear, _) | (Self::Keys(_), Some(Value::Object(_))) => false,
            (Self::Items(masks), Some(Value::Array(items))) => masks.len() != items.len(),
            _ => true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mask(text: &str) -> Read<Mask<'_>> {
        Mask::read(&mut Reader::new(text.as_bytes())?)
    }

    fn hides(mask_text: &str, value: &str) -> bool {
        let value = Value::read(&mut Reader::new(value.as_bytes()).unwrap()).unwrap();
        mask(mask_text).unwrap().hides(Some(&value))
    }

    #[test]
    fn a_mask_without_a_true_hides_nothing_whatever_its_shape() {
        for text in ["false", "null", "{}", "[]", "[false,[false],{\"a\":null}]", "{\"a\":{\"b\":[false]}}"] {
            assert_eq!(mask(text), Ok(Mask::Clear), "`{text}`");
        }
    }

    #[test]
    fn a_mask_that_does_not_fit_hides_the_whole_value() {
        assert!(hides("true", "null"));
        assert!(hides("[true]", "[1,2]"), "another length");
        assert!(hides("[true,false]", "[1]"), "another length");
        assert!(hides("{\"a\":true}", "[1]"), "an object's on a list");
        assert!(hides("[true]", "{\"a\":1}"), "a list's on an object");
        assert!(hides("{\"a\":true}", "\"text\""), "a container's on a scalar");
        assert!(!hides("{\"a\":true}", "null"), "null is hidden by a true at itself alone");
        assert!(!hides("{\"b\":true}", "{\"a\":1}"), "a mark on a key that is not there fits");
        assert!(!hides("[false,true]", "[1,2]"));
    }

    #[test]
    fn a_mask_is_made_of_booleans_and_containers_only() {
        for text in ["1", "\"true\"", "{\"a\":0}", "[\"\"]"] {
            assert_eq!(
                mask(text).unwrap_err().problem,
                "a mask that is neither true, false nor a container",
                "`{text}`"
            );
        }
    }
}
