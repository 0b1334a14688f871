//! A batch of a DynamoDB stream, as Lambda hands it on.

use std::collections::HashMap;

use plangate_record::archive::{Change, Image};
use serde::Deserialize;
use serde_json::Value;

/// What wakes the function: a batch of the stream, or a schedule. AWS adds what it likes, so other fields are passed over.
#[derive(Debug, Deserialize)]
pub(crate) struct Event {
    #[serde(rename = "Records", default)]
    records: Option<Vec<Record>>,
}

#[derive(Debug, Deserialize)]
struct Record {
    #[serde(rename = "eventID", default)]
    id: String,
    dynamodb: Images,
}

/// An item in DynamoDB's own JSON: `{"name": {"S": "text"}}`.
type Item = HashMap<String, HashMap<String, Value>>;

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Images {
    keys: Item,
    #[serde(default)]
    old_image: Option<Item>,
    #[serde(default)]
    new_image: Option<Item>,
}

fn text(item: &Item, name: &str) -> Option<String> {
    item.get(name)?.get("S")?.as_str().map(str::to_owned)
}

impl Event {
    /// The changes of the batch in their order; nothing if it is none.
    pub(crate) fn changes(self) -> Result<Option<Vec<Change>>, String> {
        let Some(records) = self.records else { return Ok(None) };
        records.into_iter().map(Record::change).collect::<Result<_, _>>().map(Some)
    }
}

impl Record {
    fn change(self) -> Result<Change, String> {
        let Images { keys, old_image, new_image } = self.dynamodb;
        let key = |name: &str| text(&keys, name).ok_or_else(|| format!("a record of the stream has no `{name}`"));
        let (pk, sk) = (key("pk")?, key("sk")?);
        if old_image.is_none() && new_image.is_none() {
            return Err("a record of the stream has no image: the stream must carry both".to_owned());
        }
        let image = |item: Item| Image { event: text(&item, "event"), digest: text(&item, "digest") };
        Ok(Change { id: self.id, pk, sk, before: old_image.map(image), after: new_image.map(image) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_is_read_and_a_schedule_is_none() {
        let batch = serde_json::json!({ "Records": [
            { "eventID": "1", "eventName": "INSERT", "eventSource": "aws:dynamodb", "dynamodb": {
                "Keys": { "pk": { "S": "gate" }, "sk": { "S": "0000000001" } }, "SequenceNumber": "1",
                "NewImage": { "pk": { "S": "gate" }, "sk": { "S": "0000000001" }, "event": { "S": "{}" }, "digest": { "S": "d" } } } },
            { "eventID": "2", "eventName": "REMOVE", "dynamodb": {
                "Keys": { "pk": { "S": "gate" }, "sk": { "S": "0000000001" } }, "OldImage": { "version": { "N": "1" } } } },
        ] });
        let event: Event = serde_json::from_value(batch).unwrap();
        let changes = event.changes().unwrap().unwrap();
        let image = Image { event: Some("{}".to_owned()), digest: Some("d".to_owned()) };
        assert_eq!((changes[0].before.clone(), changes[0].after.clone()), (None, Some(image)));
        assert_eq!((changes[1].before.clone(), changes[1].after.clone()), (Some(Image::default()), None));
        assert_eq!(
            (changes[1].id.as_str(), changes[1].pk.as_str(), changes[1].sk.as_str()),
            ("2", "gate", "0000000001")
        );

        let schedule: Event = serde_json::from_str(r#"{"time":"2026-11-30T05:00:00Z"}"#).unwrap();
        assert!(schedule.changes().unwrap().is_none());
        let keys_only = r#"{"Records":[{"dynamodb":{"Keys":{"pk":{"S":"gate"},"sk":{"S":"1"}}}}]}"#;
        assert!(serde_json::from_str::<Event>(keys_only).unwrap().changes().is_err());
    }
}
