//! JSON configuration as the engines read it: the same key may stand several times, and each one counts.

use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};

/// A JSON value that keeps repeated keys: a parser that kept only the last would not see what the engine sees.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Json {
    /// A string.
    Text(String),
    /// An array.
    List(Vec<Json>),
    /// An object, in the order of the text.
    Object(Vec<(String, Json)>),
    /// A null, a bool or a number.
    Other,
}

impl Json {
    /// The members of an object, or of all objects of an array: both say the same to an engine.
    pub(crate) fn members(&self) -> Vec<(&str, &Json)> {
        match self {
            Self::Object(members) => members.iter().map(|(key, value)| (key.as_str(), value)).collect(),
            Self::List(items) => items.iter().flat_map(Self::members).collect(),
            Self::Text(_) | Self::Other => Vec::new(),
        }
    }

    /// Every value under `key`.
    pub(crate) fn all<'a>(&'a self, key: &'a str) -> impl Iterator<Item = &'a Json> {
        self.members().into_iter().filter(move |(name, _)| *name == key).map(|(_, value)| value)
    }

    /// The string, if it is one.
    pub(crate) fn text(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            _ => None,
        }
    }
}

impl<'de> Deserialize<'de> for Json {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Any;
        impl<'de> Visitor<'de> for Any {
            type Value = Json;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("JSON")
            }
            fn visit_bool<E>(self, _: bool) -> Result<Json, E> {
                Ok(Json::Other)
            }
            fn visit_i64<E>(self, _: i64) -> Result<Json, E> {
                Ok(Json::Other)
            }
            fn visit_u64<E>(self, _: u64) -> Result<Json, E> {
                Ok(Json::Other)
            }
            fn visit_f64<E>(self, _: f64) -> Result<Json, E> {
                Ok(Json::Other)
            }
            fn visit_unit<E>(self) -> Result<Json, E> {
                Ok(Json::Other)
            }
            fn visit_str<E>(self, text: &str) -> Result<Json, E> {
                Ok(Json::Text(text.to_owned()))
            }
            fn visit_string<E>(self, text: String) -> Result<Json, E> {
                Ok(Json::Text(text))
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Json, A::Error> {
                let mut list = Vec::new();
                while let Some(item) = items.next_element()? {
                    list.push(item);
                }
                Ok(Json::List(list))
            }
            fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Json, A::Error> {
                let mut object = Vec::new();
                while let Some(member) = members.next_entry()? {
                    object.push(member);
                }
                Ok(Json::Object(object))
            }
        }
        deserializer.deserialize_any(Any)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_repeated_key_is_not_lost() {
        let json: Json =
            serde_json::from_str(r#"{"module":{"a":{}},"module":[{"b":{}},{"c":{}}],"n":1e999999,"x":null}"#).unwrap();
        let names: Vec<_> = json.all("module").flat_map(Json::members).map(|(name, _)| name).collect();
        assert_eq!(names, ["a", "b", "c"]);
    }
}
