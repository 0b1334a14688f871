//! Addresses as they are shown. All of an address stands in the configuration but the keys of instances, which come
//! from values: where a masked string recurs in one, the key is hidden. Different keys are told apart by numbers, or
//! nobody could decide which of two instances is meant.

use std::borrow::Cow;
use std::collections::BTreeMap;

use crate::echo::Echoes;
use crate::json::Reader;

/// The addresses of a document that are not shown as they are, mostly none. No debug output: those are what is hidden.
#[derive(Clone, PartialEq, Eq, Default)]
pub(crate) struct Names {
    shown: BTreeMap<String, String>,
}

impl Names {
    /// Looks through `addresses`; keys get their numbers in this order.
    pub(super) fn of<'t>(addresses: impl Iterator<Item = &'t str>, echoes: &Echoes) -> Self {
        let mut names = Self::default();
        if echoes.is_empty() {
            return names;
        }
        let mut numbers = BTreeMap::new();
        for address in addresses.filter(|address| address.contains(OPEN)) {
            if !names.shown.contains_key(address)
                && let Some(shown) = without_echoes(address, echoes, &mut numbers)
            {
                names.shown.insert(address.to_owned(), shown);
            }
        }
        names
    }

    /// `address` as it is shown.
    pub(crate) fn shown<'t>(&'t self, address: &'t str) -> &'t str {
        self.shown.get(address).map_or(address, String::as_str)
    }
}

/// How the key of an instance begins; numbers need no quotes and hold no text.
const OPEN: &str = "[\"";

/// The address with its hidden keys replaced; none if there are none.
fn without_echoes<'t>(address: &'t str, echoes: &Echoes, numbers: &mut BTreeMap<&'t str, usize>) -> Option<String> {
    let mut shown = String::new();
    let mut hidden = false;
    let mut rest = address;
    while let Some(at) = rest.find(OPEN) {
        let (before, from_quote) = rest.split_at(at + 1);
        let (key, behind) = key(from_quote);
        let (written, tail) = from_quote.split_at(behind);
        shown.push_str(before);
        // The engine writes what begins a template in its own language twice.
        let plain = key.replace("$${", "${").replace("%%{", "%{");
        if [written, &key, &plain].into_iter().any(|text| echoes.in_text(text)) {
            hidden = true;
            let next = numbers.len() + 1;
            shown.push_str(&format!("\"(sensitive {})\"", numbers.entry(written).or_insert(next)));
        } else {
            shown.push_str(written);
        }
        rest = tail;
    }
    shown.push_str(rest);
    hidden.then_some(shown)
}

/// The key that `text` begins with, a quoted one, and where it ends. One without an end is all that is left.
fn key(text: &str) -> (Cow<'_, str>, usize) {
    let mut reader = Reader::of(text);
    match reader.string() {
        Ok(key) => (key, reader.offset()),
        Err(_) => (Cow::Borrowed(text), text.len()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::echo::Masked;
    use crate::value::Value;

    fn shown(masked: &[&'static str], addresses: &[&str]) -> Vec<String> {
        let mut strings = Masked::default();
        masked.iter().for_each(|text| strings.take(&Value::String(Cow::Borrowed(text))));
        let names = Names::of(addresses.iter().copied(), &strings.echoes());
        addresses.iter().map(|address| names.shown(address).to_owned()).collect()
    }

    #[test]
    fn keys_in_which_something_masked_recurs_are_hidden_and_told_apart() {
        assert_eq!(
            shown(
                &["hunter2-S3cr3t", "prod", "a\"b]\n${c}-long"],
                &[
                    r#"module.m["x-hunter2-S3cr3t"].a.b["plain"]"#,
                    r#"a.b["prod"]"#,
                    r#"module.m["x-hunter2-S3cr3t"].a.c[0]"#,
                    r#"a.production["production"]"#,
                    r#"a.b["x a\"b]\n$${c}-long"].c"#,
                    r#"a.b["hunter2-S3cr3t"#,
                    "a.prod",
                ]
            ),
            [
                r#"module.m["(sensitive 1)"].a.b["plain"]"#,
                r#"a.b["(sensitive 2)"]"#,
                r#"module.m["(sensitive 1)"].a.c[0]"#,
                r#"a.production["production"]"#,
                r#"a.b["(sensitive 3)"].c"#,
                r#"a.b["(sensitive 4)""#,
                "a.prod",
            ]
        );
        assert_eq!(shown(&[], &[r#"a.b["prod"]"#]), [r#"a.b["prod"]"#]);
    }
}
