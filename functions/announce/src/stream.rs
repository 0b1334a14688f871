//! A batch of the audit table's stream, as Lambda hands it on: of each record its keys, and nothing of what stands in it.

use plangate_record::announce::Inserted;
use serde::{Deserialize, Serialize};

/// A batch. AWS adds what it likes, so other fields are passed over.
#[derive(Debug, Deserialize)]
pub(crate) struct Event {
    #[serde(rename = "Records")]
    records: Vec<Record>,
}

#[derive(Debug, Deserialize)]
struct Record {
    dynamodb: Changed,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Changed {
    keys: Keys,
    sequence_number: String,
}

#[derive(Debug, Deserialize)]
struct Keys {
    pk: Text,
    sk: Text,
}

#[derive(Debug, Deserialize)]
struct Text {
    #[serde(rename = "S")]
    text: String,
}

/// Which records Lambda is to bring again: from the first that is named on, all of them.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Answer {
    batch_item_failures: Vec<Failure>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Failure {
    item_identifier: String,
}

impl Event {
    /// The items of the batch, in their order. The stream's filter lets only those pass that were put where none was.
    pub(crate) fn inserted(&self) -> Vec<Inserted> {
        let keys = self.records.iter().map(|record| &record.dynamodb.keys);
        keys.map(|keys| Inserted { pk: keys.pk.text.clone(), sk: keys.sk.text.clone() }).collect()
    }

    /// The answer that has Lambda bring the records again from this place on.
    pub(crate) fn answer(&self, again_from: Option<usize>) -> Answer {
        let failed = again_from.and_then(|place| self.records.get(place));
        let failure = |record: &Record| Failure { item_identifier: record.dynamodb.sequence_number.clone() };
        Answer { batch_item_failures: failed.into_iter().map(failure).collect() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_is_read_by_its_keys_and_answered_by_the_first_that_failed() {
        let record = |place: u8| {
            serde_json::json!({ "eventID": "1", "eventName": "INSERT", "eventSource": "aws:dynamodb", "dynamodb": {
                "Keys": { "pk": { "S": "gate" }, "sk": { "S": format!("000000000{place}") } }, "SequenceNumber": format!("10{place}"),
                "NewImage": { "event": { "S": "{}" } } } })
        };
        let event: Event = serde_json::from_value(serde_json::json!({ "Records": [record(1), record(2)] })).unwrap();
        let items = event.inserted();
        assert_eq!((items[1].pk.as_str(), items[1].sk.as_str()), ("gate", "0000000002"));
        let answer = |place| serde_json::to_value(event.answer(place)).unwrap();
        assert_eq!(answer(None), serde_json::json!({ "batchItemFailures": [] }));
        assert_eq!(answer(Some(1)), serde_json::json!({ "batchItemFailures": [{ "itemIdentifier": "102" }] }));
        assert!(serde_json::from_str::<Event>("{}").is_err(), "a schedule is nothing that tells of a change");
    }
}
