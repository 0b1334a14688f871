//! The table and the audit table in DynamoDB.

use std::collections::{BTreeMap, HashMap};

use async_trait::async_trait;
use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::operation::query::builders::QueryFluentBuilder;
use aws_sdk_dynamodb::operation::transact_write_items::TransactWriteItemsError;
use aws_sdk_dynamodb::types::{AttributeValue, ConditionCheck, Delete, KeysAndAttributes, Put, TransactWriteItem};
use plangate_gate::audit::archive::place_key;
use plangate_gate::audit::{Chain, SealedEvent};

use crate::aws::kind;
use crate::store::{Item, Key, OpenPage, Store, StoreError, StoredEvent, Write};

/// How often what DynamoDB left out of a batch is asked for again.
const BATCHES: usize = 4;

/// The attributes that are not an item's own text attributes.
const OWN: [&str; 9] = ["pk", "sk", "version", "body", "lists_pk", "lists_sk", "open_pk", "open_sk", "ttl"];

/// The gate's two tables.
#[derive(Debug, Clone)]
pub struct DynamoStore {
    client: Client,
    table: String,
    audit: String,
}

impl DynamoStore {
    /// The tables with these names.
    #[must_use]
    pub fn new(client: Client, table: String, audit: String) -> Self {
        Self { client, table, audit }
    }

    fn transact_item(&self, write: Write) -> Result<TransactWriteItem, StoreError> {
        let built = |error: aws_sdk_dynamodb::error::BuildError| StoreError::Corrupt(error.to_string());
        let absent = "attribute_not_exists(pk)";
        let same = "version = :version";
        let item = TransactWriteItem::builder();
        let item = match write {
            Write::Put(put) => {
                let expected = put.version;
                let builder = Put::builder().table_name(&self.table).set_item(Some(attributes(put)));
                let builder = if expected == 0 {
                    builder.condition_expression(absent)
                } else {
                    builder.condition_expression(same).expression_attribute_values(":version", number(expected))
                };
                item.put(builder.build().map_err(built)?)
            }
            Write::Delete(key, version) => {
                let builder = Delete::builder().table_name(&self.table).set_key(Some(key_attributes(&key)));
                let builder =
                    builder.condition_expression(same).expression_attribute_values(":version", number(version));
                item.delete(builder.build().map_err(built)?)
            }
            Write::Check(key, version) => {
                let builder = ConditionCheck::builder().table_name(&self.table).set_key(Some(key_attributes(&key)));
                let builder = if version == 0 {
                    builder.condition_expression(absent)
                } else {
                    builder.condition_expression(same).expression_attribute_values(":version", number(version))
                };
                item.condition_check(builder.build().map_err(built)?)
            }
            Write::Event(event) => {
                let builder = Put::builder().table_name(&self.audit).set_item(Some(event_attributes(event)));
                item.put(builder.condition_expression(absent).build().map_err(built)?)
            }
        };
        Ok(item.build())
    }
}

fn number(value: u64) -> AttributeValue {
    AttributeValue::N(value.to_string())
}

fn text(value: impl Into<String>) -> AttributeValue {
    AttributeValue::S(value.into())
}

fn key_attributes(key: &Key) -> HashMap<String, AttributeValue> {
    HashMap::from([("pk".to_owned(), text(&key.pk)), ("sk".to_owned(), text(&key.sk))])
}

fn attributes(item: Item) -> HashMap<String, AttributeValue> {
    let mut map: HashMap<String, AttributeValue> =
        item.attributes.into_iter().map(|(name, value)| (name, text(value))).collect();
    map.extend(key_attributes(&item.key));
    map.insert("version".to_owned(), number(item.version + 1));
    map.insert("body".to_owned(), text(item.body));
    for (prefix, place) in [("lists", item.lists), ("open", item.open)] {
        if let Some((pk, sk)) = place {
            map.insert(format!("{prefix}_pk"), text(pk));
            map.insert(format!("{prefix}_sk"), text(sk));
        }
    }
    if let Some(ttl) = item.ttl {
        map.insert("ttl".to_owned(), AttributeValue::N(ttl.to_string()));
    }
    map
}

fn event_attributes(event: SealedEvent) -> HashMap<String, AttributeValue> {
    HashMap::from([
        ("pk".to_owned(), text(event.chain.to_string())),
        ("sk".to_owned(), text(place_key(event.seq))),
        ("event".to_owned(), text(event.bytes)),
        ("digest".to_owned(), text(event.digest.to_string())),
    ])
}

fn string(map: &mut HashMap<String, AttributeValue>, name: &str) -> Option<String> {
    match map.remove(name) {
        Some(AttributeValue::S(value)) => Some(value),
        _ => None,
    }
}

fn integer<T: std::str::FromStr>(map: &mut HashMap<String, AttributeValue>, name: &str) -> Option<T> {
    match map.remove(name) {
        Some(AttributeValue::N(value)) => value.parse().ok(),
        _ => None,
    }
}

fn key(map: &mut HashMap<String, AttributeValue>) -> Option<Key> {
    Some(Key { pk: string(map, "pk")?, sk: string(map, "sk")? })
}

fn item(mut map: HashMap<String, AttributeValue>) -> Result<Item, StoreError> {
    let key = key(&mut map).ok_or_else(|| StoreError::Corrupt("an item without a key".to_owned()))?;
    let corrupt = || StoreError::Corrupt(format!("{}/{}", key.pk, key.sk));
    let version = integer(&mut map, "version").ok_or_else(corrupt)?;
    let body = string(&mut map, "body").ok_or_else(corrupt)?;
    let mut place = |prefix: &str| {
        let pk = string(&mut map, &format!("{prefix}_pk"))?;
        Some((pk, string(&mut map, &format!("{prefix}_sk"))?))
    };
    let (lists, open) = (place("lists"), place("open"));
    let ttl = integer(&mut map, "ttl");
    let attributes: BTreeMap<String, String> = map
        .into_iter()
        .filter(|(name, _)| !OWN.contains(&name.as_str()))
        .filter_map(|(name, value)| if let AttributeValue::S(value) = value { Some((name, value)) } else { None })
        .collect();
    Ok(Item { key, version, body, attributes, lists, open, ttl })
}

fn unavailable<E, R>(error: &aws_smithy_runtime_api::client::result::SdkError<E, R>) -> StoreError
where
    E: aws_smithy_types::error::metadata::ProvideErrorMetadata,
{
    StoreError::Unavailable(kind(error))
}

fn refused<E, R>(error: &aws_smithy_runtime_api::client::result::SdkError<E, R>) -> StoreError
where
    E: aws_smithy_types::error::metadata::ProvideErrorMetadata,
{
    StoreError::Corrupt(format!("transaction, which DynamoDB refuses ({})", kind(error)))
}

/// The first `limit` items of a query, over as many pages as it takes.
async fn found(query: QueryFluentBuilder, limit: usize) -> Result<Vec<HashMap<String, AttributeValue>>, StoreError> {
    let query = query.limit(i32::try_from(limit).unwrap_or(i32::MAX));
    let mut found = Vec::new();
    let mut start = None;
    loop {
        let answer = query.clone().set_exclusive_start_key(start).send().await.map_err(|error| unavailable(&error))?;
        found.extend(answer.items.unwrap_or_default());
        start = answer.last_evaluated_key;
        if start.is_none() || found.len() >= limit {
            found.truncate(limit);
            return Ok(found);
        }
    }
}

#[async_trait]
impl Store for DynamoStore {
    async fn get(&self, key: &Key) -> Result<Option<Item>, StoreError> {
        let request = self.client.get_item().table_name(&self.table).set_key(Some(key_attributes(key)));
        let answer = request.consistent_read(true).send().await.map_err(|error| unavailable(&error))?;
        answer.item.map(item).transpose()
    }

    async fn get_all(&self, keys: &[Key]) -> Result<Vec<Option<Item>>, StoreError> {
        let mut found = BTreeMap::new();
        let mut missing: Vec<_> = keys.iter().map(key_attributes).collect();
        for tried in 0..BATCHES {
            if tried > 0 {
                tokio::time::sleep(std::time::Duration::from_millis(50 << tried)).await;
            }
            let built = |error: aws_sdk_dynamodb::error::BuildError| StoreError::Corrupt(error.to_string());
            let of =
                KeysAndAttributes::builder().set_keys(Some(missing)).consistent_read(true).build().map_err(built)?;
            let request = self.client.batch_get_item().request_items(&self.table, of);
            let answer = request.send().await.map_err(|error| unavailable(&error))?;
            for map in answer.responses.into_iter().flatten().flat_map(|(_, items)| items) {
                let item = item(map)?;
                found.insert(item.key.clone(), item);
            }
            // DynamoDB gives as much as it has capacity for, and tells what it has left out.
            missing = answer.unprocessed_keys.into_iter().flatten().flat_map(|(_, left)| left.keys).collect();
            if missing.is_empty() {
                return Ok(keys.iter().map(|key| found.remove(key)).collect());
            }
        }
        Err(StoreError::Unavailable("some of the items were left out again and again".to_owned()))
    }

    async fn partition(&self, pk: &str, prefix: &str, limit: usize) -> Result<Vec<Item>, StoreError> {
        let mut query = self
            .client
            .query()
            .table_name(&self.table)
            .consistent_read(true)
            .expression_attribute_values(":pk", text(pk));
        query = if prefix.is_empty() {
            query.key_condition_expression("pk = :pk")
        } else {
            query
                .key_condition_expression("pk = :pk AND begins_with(sk, :prefix)")
                .expression_attribute_values(":prefix", text(prefix))
        };
        found(query, limit).await?.into_iter().map(item).collect()
    }

    async fn list(
        &self,
        list: &str,
        before: Option<&str>,
        newest_first: bool,
        limit: usize,
    ) -> Result<Vec<Item>, StoreError> {
        let mut query = self
            .client
            .query()
            .table_name(&self.table)
            .index_name("lists")
            .scan_index_forward(!newest_first)
            .expression_attribute_values(":list", text(list));
        query = match before {
            None => query.key_condition_expression("lists_pk = :list"),
            Some(place) => query
                .key_condition_expression(if newest_first {
                    "lists_pk = :list AND lists_sk < :place"
                } else {
                    "lists_pk = :list AND lists_sk > :place"
                })
                .expression_attribute_values(":place", text(place)),
        };
        found(query, limit).await?.into_iter().map(item).collect()
    }

    async fn open(&self, page: Option<OpenPage>) -> Result<(Vec<Key>, Option<OpenPage>), StoreError> {
        let start = page.map(|(sk, key)| {
            let mut start = key_attributes(&key);
            start.insert("open_pk".to_owned(), text("OPEN"));
            start.insert("open_sk".to_owned(), text(sk));
            start
        });
        let query = self
            .client
            .query()
            .table_name(&self.table)
            .index_name("open")
            .key_condition_expression("open_pk = :open")
            .expression_attribute_values(":open", text("OPEN"))
            .set_exclusive_start_key(start);
        let answer = query.send().await.map_err(|error| unavailable(&error))?;
        // A page ends where DynamoDB ends it, at a megabyte; only the absence of a next one says that it was the last.
        let next = answer.last_evaluated_key.map(|mut map| {
            let corrupt = || StoreError::Corrupt("a page of the index of open runs".to_owned());
            let sk = string(&mut map, "open_sk").ok_or_else(corrupt)?;
            Ok((sk, key(&mut map).ok_or_else(corrupt)?))
        });
        let corrupt = || StoreError::Corrupt("an item without a key".to_owned());
        let keys = answer.items.unwrap_or_default().into_iter().map(|mut map| key(&mut map).ok_or_else(corrupt));
        Ok((keys.collect::<Result<_, _>>()?, next.transpose()?))
    }

    async fn transact(&self, writes: Vec<Write>) -> Result<(), StoreError> {
        let items = writes.into_iter().map(|write| self.transact_item(write)).collect::<Result<Vec<_>, _>>()?;
        let sent = self.client.transact_write_items().set_transact_items(Some(items)).send().await;
        let Err(error) = sent else { return Ok(()) };
        if let Some(TransactWriteItemsError::TransactionCanceledException(canceled)) = error.as_service_error() {
            let codes: Vec<_> = canceled.cancellation_reasons().iter().filter_map(|reason| reason.code()).collect();
            if codes.iter().any(|code| matches!(*code, "ConditionalCheckFailed" | "TransactionConflict")) {
                return Err(StoreError::Conflict);
            }
            if codes.contains(&"ValidationError") {
                return Err(refused(&error));
            }
        }
        // What DynamoDB cannot take, it will not take later either.
        if kind(&error) == "ValidationException" { Err(refused(&error)) } else { Err(unavailable(&error)) }
    }

    async fn events(&self, chain: &Chain, from: u64, limit: usize) -> Result<Vec<StoredEvent>, StoreError> {
        let query = self
            .client
            .query()
            .table_name(&self.audit)
            .consistent_read(true)
            .key_condition_expression("pk = :chain AND sk >= :from")
            .expression_attribute_values(":chain", text(chain.to_string()))
            .expression_attribute_values(":from", text(place_key(from)));
        let event = |mut map: HashMap<String, AttributeValue>| {
            let corrupt = || StoreError::Corrupt(format!("an event of {chain}"));
            let seq = string(&mut map, "sk").and_then(|sk| sk.parse().ok()).ok_or_else(corrupt)?;
            let bytes = string(&mut map, "event").ok_or_else(corrupt)?;
            let digest = string(&mut map, "digest").and_then(|text| text.parse().ok()).ok_or_else(corrupt)?;
            Ok(StoredEvent { seq, bytes, digest })
        };
        found(query, limit).await?.into_iter().map(event).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_item_reads_back_as_the_next_version_of_what_was_written() {
        let mut written = Item::new(Key::new("RUN#1", "RUN"), "{}".to_owned());
        written.version = 3;
        written.attributes.insert("token".to_owned(), "t".to_owned());
        written.lists = Some(("RUNS#ws".to_owned(), "run".to_owned()));
        written.open = Some(("OPEN".to_owned(), "2026".to_owned()));
        written.ttl = Some(7);
        let read = item(attributes(written.clone())).unwrap();
        written.version = 4;
        assert_eq!(read, written);
    }
}
