//! Requests that were answered: sent again, the same request gives the first answer, for a day.

use plangate_gate::digest::Digest;
use plangate_gate::ids::{Person, RequestId};
use plangate_gate::time::Timestamp;
use plangate_wire::Reason;
use serde::{Deserialize, Serialize};

use crate::error::{Error, Refusal};
use crate::rows;
use crate::store::{Item, Key, Store, Write};

/// How long an answer is remembered, in seconds.
const REMEMBERED_SECONDS: i64 = 24 * 3600;

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Answered {
    request: Digest,
    answer: String,
    at: Timestamp,
}

/// A request by its caller, its id and its content.
pub(crate) struct Remembered {
    key: Key,
    request: Digest,
    at: Timestamp,
}

impl Remembered {
    /// Names the request `body` of `caller`.
    pub(crate) fn new<T: Serialize>(caller: &Person, id: &RequestId, body: &T, at: Timestamp) -> Result<Self, Error> {
        let bytes = rows::write("a request", body)?;
        let key = Key::new(format!("REQ#{caller}"), id.as_str());
        Ok(Self { key, request: Digest::of(bytes.as_bytes()), at })
    }

    /// Where it is remembered.
    pub(crate) const fn key(&self) -> &Key {
        &self.key
    }

    /// The answer that was given before, if there was one.
    pub(crate) async fn first_answer(&self, store: &dyn Store) -> Result<Option<String>, Error> {
        let Some(item) = store.get(&self.key).await? else { return Ok(None) };
        let answered: Answered = rows::read(&item)?;
        // DynamoDB drops it some time after it may; until then it is in the way of none but the same id.
        if answered.request == self.request {
            Ok(Some(answered.answer))
        } else {
            let message = format!("the request id `{}` was used for another request", self.key.sk);
            Err(Refusal::new(Reason::RequestIdReused, message).into())
        }
    }

    /// The write that remembers the answer, if none is remembered yet.
    pub(crate) fn write(&self, answer: &str) -> Result<Write, Error> {
        let answered = Answered { request: self.request, answer: answer.to_owned(), at: self.at };
        let mut item = Item::new(self.key.clone(), rows::write("a request", &answered)?);
        item.ttl = Some(self.at.unix_seconds() + REMEMBERED_SECONDS);
        Ok(Write::Put(item))
    }
}
