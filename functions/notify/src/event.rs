//! What the table's stream tells: which items changed. What they say now is read from the table.

use plangate_gate::ids::RunId;
use plangate_record::callbacks::WORDS;
use serde::Deserialize;

/// What is read of a stream's event. DynamoDB adds what it likes.
#[derive(Debug, Deserialize)]
pub(crate) struct Event {
    #[serde(rename = "Records", default)]
    records: Vec<Record>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Record {
    event_name: String,
    dynamodb: Changed,
}

#[derive(Debug, Deserialize)]
struct Changed {
    #[serde(rename = "Keys")]
    keys: Keys,
}

#[derive(Debug, Deserialize)]
struct Keys {
    pk: Text,
}

#[derive(Debug, Deserialize)]
struct Text {
    #[serde(rename = "S")]
    text: String,
}

/// An item that matters here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Change {
    /// A run.
    Run(RunId),
    /// A word to a person, on what came of an action.
    Word(String),
}

impl Event {
    /// The items that changed and matter here, in their order.
    pub(crate) fn changes(&self) -> Vec<Change> {
        let change = |record: &Record| {
            let pk = record.dynamodb.keys.pk.text.as_str();
            if record.event_name == "REMOVE" {
                return None;
            }
            match pk.strip_prefix("RUN#") {
                Some(run) => run.parse().ok().map(Change::Run),
                None => pk.strip_prefix(WORDS).map(|action| Change::Word(action.to_owned())),
            }
        };
        self.records.iter().filter_map(change).collect()
    }
}
