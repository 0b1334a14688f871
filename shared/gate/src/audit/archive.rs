//! The archive: where each event stands in the locked bucket, and what is written there of tampering.
//!
//! A key is made from the chain and the place alone, never from what the event says: whoever changes an event cannot move
//! it to another key, where nothing stands in its way. Runs lie under the day of their identifier, for queries by time.

use serde::{Deserialize, Serialize};

use super::{Chain, canonical};
use crate::digest::Digest;
use crate::untrusted::UntrustedError;

/// The folder of events.
pub const EVENTS: &str = "events/";
/// The folder of witnesses.
pub const WITNESSES: &str = "witnesses/";
/// The folder of what was noticed of tampering.
pub const TAMPERING: &str = "tampering/";

/// How a place in a chain is written where places are sorted as text: in the table, and in the names of objects.
#[must_use]
pub fn place_key(seq: u64) -> String {
    format!("{seq:010}")
}

/// The place that is written like this; nothing if it is none, or written otherwise.
#[must_use]
pub fn parse_place(text: &str) -> Option<u64> {
    text.parse().ok().filter(|seq| *seq > 0 && place_key(*seq) == text)
}

/// The folder of a chain's events.
#[must_use]
pub fn chain_prefix(chain: &Chain) -> String {
    match chain {
        Chain::Run(id) => {
            let day = id.proposed_at().map(|at| at.to_string());
            let day = day.as_deref().and_then(|text| text.get(..10)).unwrap_or("unknown");
            format!("{EVENTS}run/{day}/{id}/")
        }
        Chain::Workspace(id) => format!("{EVENTS}ws/{id}/"),
        Chain::Gate | Chain::Strangers => format!("{EVENTS}{chain}/"),
    }
}

/// The key of an event.
#[must_use]
pub fn event_key(chain: &Chain, seq: u64) -> String {
    format!("{}{}.json", chain_prefix(chain), place_key(seq))
}

/// The chain and the place that a key of an event names; nothing if it is no such key.
#[must_use]
pub fn parse_event_key(key: &str) -> Option<(Chain, u64)> {
    let rest = key.strip_prefix(EVENTS)?;
    let (folder, file) = rest.rsplit_once('/')?;
    let seq: u64 = file.strip_suffix(".json")?.parse().ok()?;
    let chain: Chain = match folder.rsplit_once('/') {
        Some((run, id)) if run.starts_with("run/") => format!("run/{id}").parse().ok()?,
        _ => folder.parse().ok()?,
    };
    (event_key(&chain, seq) == key).then_some((chain, seq))
}

/// The key of a witness.
#[must_use]
pub fn witness_key(seq: u64) -> String {
    format!("{WITNESSES}{}.json", place_key(seq))
}

/// The place that a key of a witness names.
#[must_use]
pub fn parse_witness_key(key: &str) -> Option<u64> {
    let seq = key.strip_prefix(WITNESSES)?.strip_suffix(".json")?.parse().ok()?;
    (witness_key(seq) == key).then_some(seq)
}

/// The one schema of records of tampering.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum TamperingSchema {
    /// The first.
    #[serde(rename = "plangate.tampering.v1")]
    V1,
}

/// What was noticed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TamperingKind {
    /// An event was written over in the table.
    Modified,
    /// An event was removed from the table.
    Removed,
    /// The archive has another event than the table at this place.
    Different,
    /// The table lacks an event that the end of its chain counts.
    Missing,
    /// What stands in the table is no event, or not that of its digest.
    Invalid,
}

/// What the gate itself noticed of tampering, as it stands in the archive. It has no time of its own: noticed twice, it is
/// the same record.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tampering {
    /// Always `plangate.tampering.v1`.
    pub schema: TamperingSchema,
    /// What.
    pub kind: TamperingKind,
    /// The partition key of the item.
    pub pk: String,
    /// Its sort key.
    pub sk: String,
    /// The digest of the event as it was, or as it is in the archive.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub before: Option<Digest>,
    /// The digest of what stands there now.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub after: Option<Digest>,
    /// What stands there now, as far as it is text.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub found: Option<String>,
    /// The record of the table's stream that told, if it did.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub stream_record: Option<String>,
}

impl Tampering {
    /// The key and the canonical bytes under which it is kept.
    ///
    /// # Errors
    /// It cannot be written as JSON, or is larger than an event may be.
    pub fn seal(&self) -> Result<(String, String), UntrustedError> {
        let bytes = canonical(self)?;
        let digest = Digest::of(bytes.as_bytes()).hex();
        let folder = if let Ok(chain) = self.pk.parse::<Chain>() { chain.to_string() } else { "stray".to_owned() };
        Ok((format!("{TAMPERING}{folder}/{digest}.json"), bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_names_its_chain_and_place_and_nothing_else_does() {
        let id = crate::ids::RunId::new("2026-11-30T05:00:00Z".parse().unwrap(), [7; 10]);
        let run = format!("run/{id}");
        for chain in [run.as_str(), "ws/ws-0123456789abcdef", "gate", "strangers"] {
            let chain: Chain = chain.parse().unwrap();
            let key = event_key(&chain, 12);
            assert_eq!(parse_event_key(&key), Some((chain, 12)), "{key}");
        }
        let key = event_key(&run.parse().unwrap(), 1);
        assert_eq!(key, format!("events/run/2026-11-30/{id}/0000000001.json"));
        for other in [
            key.replace("2026-11-30", "2026-11-29"),
            key.replace("0000000001", "1"),
            "events/gate/0000000001.jsonx".to_owned(),
            "events/0000000001.json".to_owned(),
            "witnesses/0000000001.json".to_owned(),
        ] {
            assert_eq!(parse_event_key(&other), None, "{other}");
        }
        assert_eq!(parse_witness_key(&witness_key(7)), Some(7));
        assert_eq!(parse_witness_key("witnesses/7.json"), None);
    }

    #[test]
    fn what_is_noticed_twice_is_one_record() {
        let noticed = Tampering {
            schema: TamperingSchema::V1,
            kind: TamperingKind::Removed,
            pk: "gate".to_owned(),
            sk: "0000000001".to_owned(),
            before: Some(Digest::of(b"x")),
            after: None,
            found: None,
            stream_record: Some("1".to_owned()),
        };
        assert_eq!(noticed.seal().unwrap(), noticed.clone().seal().unwrap());
        let stray = Tampering { pk: "../../x".to_owned(), ..noticed };
        assert!(stray.seal().unwrap().0.starts_with("tampering/stray/"));
    }
}
