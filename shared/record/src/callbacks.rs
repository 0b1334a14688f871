//! Callbacks of a surface that signs what it sends (`R49`): each message is heard once, each action decides once, and
//! whoever acted is told what came of it.

use plangate_gate::digest::Digest;
use plangate_gate::ids::RunId;
use plangate_gate::run::{DecisionRecord, Surface};
use plangate_gate::time::Timestamp;
use plangate_wire::DecisionRequest;
use serde::{Deserialize, Serialize};

use crate::access::Caller;
use crate::attempt::Attempts;
use crate::decide::decide_as_of;
use crate::error::{Error, Refusal};
use crate::rows;
use crate::store::{Item, Key, Store, Write};
use crate::workflow::Workflow;

/// How long an action is known, in seconds.
const ACTION_SECONDS: i64 = 24 * 3600;

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Heard {
    request: String,
    at: Timestamp,
}

/// Whether the message with this MAC is heard for the first time, by the request with this id. It is remembered for
/// `seconds`, which must be longer than the time for which its signature is good. The id only tells whether a lost answer
/// was ours; it must be another for each request.
///
/// # Errors
/// The table does not answer: it is not known whether the message was heard before, so it must not be acted on.
pub async fn heard_first(
    store: &dyn Store,
    mac: &[u8; 32],
    request: &str,
    seconds: u32,
    now: Timestamp,
) -> Result<bool, Error> {
    let key = Key::new(format!("MAC#{}", Digest::from_raw(*mac).hex()), "MAC");
    let heard = Heard { request: request.to_owned(), at: now };
    let mut item = Item::new(key.clone(), rows::write("a message", &heard)?);
    item.ttl = Some(now.unix_seconds() + i64::from(seconds));
    let mut attempts = Attempts::new(request);
    loop {
        if attempts.settle(store.transact(vec![Write::Put(item.clone())]).await).await?.is_some() {
            return Ok(true);
        }
        // DynamoDB drops it some time after it may; until then it is heard.
        if let Some(found) = store.get(&key).await? {
            let found: Heard = rows::read(&found)?;
            return Ok(found.request == request);
        }
    }
}

/// What came of an action.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Answer {
    /// It is the decision.
    Decided {
        /// The decision.
        decision: Box<DecisionRecord>,
    },
    /// It was refused.
    Refused(Refusal),
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Acted {
    /// When it was heard first: the decision is of that moment, however often it is told of.
    at: Timestamp,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    came_to: Option<Answer>,
}

/// Decides as [`crate::decide::decide`], once for each `action`: told of again, it is answered as before.
///
/// # Errors
/// AWS does not answer; whether it was decided may be unknown, and the same action may be told of again.
#[expect(clippy::too_many_arguments, reason = "time, identity and place are parameters, each of its own type")]
pub async fn decide_once(
    store: &dyn Store,
    workflow: &dyn Workflow,
    caller: &Caller,
    action: &Digest,
    run: &RunId,
    request: &DecisionRequest,
    surface: Surface,
    now: Timestamp,
) -> Result<Answer, Error> {
    let key = Key::new(format!("ACT#{}", action.hex()), "ACT");
    let row = |acted: &Acted, version: u64| -> Result<Write, Error> {
        let mut item = Item::new(key.clone(), rows::write("an action", acted)?);
        item.version = version;
        item.ttl = Some(acted.at.unix_seconds() + ACTION_SECONDS);
        Ok(Write::Put(item))
    };
    let mut attempts = Attempts::new(caller.identity());
    let (at, version) = loop {
        if let Some(item) = store.get(&key).await? {
            let acted: Acted = rows::read(&item)?;
            match acted.came_to {
                Some(came_to) => return Ok(came_to),
                None => break (acted.at, item.version),
            }
        }
        let claimed = store.transact(vec![row(&Acted { at: now, came_to: None }, 0)?]).await;
        if attempts.settle(claimed).await?.is_some() {
            break (now, 1);
        }
    };
    let came_to = match decide_as_of(store, workflow, caller, run, request, surface, at, now).await {
        Ok((_, decision)) => Answer::Decided { decision: Box::new(decision) },
        Err(Error::Refused(refusal)) => Answer::Refused(refusal),
        Err(error) => return Err(error),
    };
    // What was decided stands; that it is remembered is for those who hear of it again. Somebody may have been faster.
    let remembered = row(&Acted { at, came_to: Some(came_to.clone()) }, version)?;
    if let Err(error) = store.transact(vec![remembered]).await {
        tracing::warn!(%run, %error, "what came of an action was not remembered");
    }
    Ok(came_to)
}

/// Something to tell one person alone.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Word {
    /// The run that it is about.
    pub run: RunId,
    /// The place where that person is.
    pub channel: String,
    /// The person, as the surface calls them.
    pub user: String,
    /// What to tell.
    pub text: String,
}

/// The partition in which the words to people stand: whoever follows the table's changes tells them.
pub const WORDS: &str = "WORD#";

fn word_key(action: &str) -> Key {
    Key::new(format!("{WORDS}{action}"), "WORD")
}

/// Leaves a word on what came of `action`. Left again, it is told again.
///
/// # Errors
/// The table does not answer.
pub async fn leave_word(store: &dyn Store, action: &Digest, word: &Word, now: Timestamp) -> Result<(), Error> {
    let mut attempts = Attempts::new(&word.user);
    loop {
        let mut item = Item::new(word_key(&action.hex()), rows::write("a word", word)?);
        item.version = store.get(&item.key).await?.map_or(0, |found| found.version);
        item.ttl = Some(now.unix_seconds() + ACTION_SECONDS);
        if attempts.settle(store.transact(vec![Write::Put(item)]).await).await?.is_some() {
            return Ok(());
        }
    }
}

/// The word on an action, if there is one.
///
/// # Errors
/// The table does not answer, or the word is damaged.
pub async fn word(store: &dyn Store, action: &str) -> Result<Option<Word>, Error> {
    Ok(store.get(&word_key(action)).await?.as_ref().map(rows::read).transpose()?)
}
