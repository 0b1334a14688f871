//! A note to what is recorded of a run, also of one that has ended: corrections, and what was found out later. It is one more
//! event of the run's chain; the record stays byte for byte what it was (`R6`).

use plangate_gate::audit::{AuditEvent, Chain, EVENT_LIMIT, What};
use plangate_gate::documents::Action;
use plangate_gate::ids::RunId;
use plangate_gate::time::Timestamp;
use plangate_gate::untrusted;
use plangate_wire::{AnnotateRequest, AnnotationView, Reason};

use crate::access::{Caller, not_permitted};
use crate::attempt::Attempts;
use crate::error::{Error, Refusal};
use crate::requests::Remembered;
use crate::rows::{ChainRow, RunRow, events_until};
use crate::store::{Store, StoreError, StoredEvent};

/// How many notes a run may have.
pub const ANNOTATIONS: usize = 50;

/// Adds a note to `run` on behalf of `caller`: a person who approves or administers where it belongs.
///
/// # Errors
/// A refusal, or AWS does not answer.
pub async fn annotate(
    store: &dyn Store,
    caller: &Caller,
    run: &RunId,
    request: &AnnotateRequest,
    now: Timestamp,
) -> Result<AnnotationView, Error> {
    let row = match RunRow::load(store, run).await {
        Err(Error::NoSuchRun) => return Err(not_permitted().into()),
        other => other?,
    };
    let workspace = Some(&row.run.workspace);
    // What a bot has to say it can say elsewhere: a note is a person's word on the record.
    if caller.is_bot() || !(caller.may(Action::Approve, workspace) || caller.may(Action::Administer, workspace)) {
        return Err(not_permitted().into());
    }
    Refusal::unless_said("note", &request.note)?;
    let actor = caller.actor().clone();
    let remembered = Remembered::new(caller.person(), &request.request_id, &(run, request), now)?;
    let mut attempts = Attempts::new(caller.identity());
    loop {
        if let Some(place) = remembered.first_answer(store).await? {
            return noted(store, run, &place).await;
        }
        // The end first: what is counted is what stands before it, and the write holds only while it is the end.
        let mut chain = ChainRow::load(store, Chain::Run(run.clone())).await?;
        let end = chain.head().map_or(0, |head| head.seq);
        if request.corrects.is_some_and(|place| !(1..=end).contains(&place)) {
            let message = format!("`corrects` is the place of an event of this run, from 1 to {end}");
            return Err(Refusal::new(Reason::InvalidRequest, message).into());
        }
        let events = events_until(store, &Chain::Run(run.clone()), end).await?;
        if events.iter().filter_map(annotation).count() >= ANNOTATIONS {
            let message = format!("a run has at most {ANNOTATIONS} annotations");
            return Err(Refusal::new(Reason::TooManyAnnotations, message).into());
        }
        let (note, corrects) = (request.note.clone(), request.corrects);
        chain.append(now, &actor, What::RunAnnotated { note: note.clone(), corrects })?;
        let seq = chain.head().map_or(0, |head| head.seq);
        let mut writes = chain.writes()?;
        writes.push(remembered.write(&seq.to_string())?);
        if attempts.settle(store.transact(writes).await).await?.is_some() {
            return Ok(AnnotationView { seq, by: actor, at: now, note, corrects });
        }
    }
}

/// The note that was made of an earlier sending of the same request.
async fn noted(store: &dyn Store, run: &RunId, place: &str) -> Result<AnnotationView, Error> {
    let invalid = || Error::from(StoreError::Corrupt(format!("a remembered note of {run}")));
    let place = place.parse().map_err(|_| invalid())?;
    let events = store.events(&Chain::Run(run.clone()), place, 1).await?;
    let (event, note, corrects) = events.first().and_then(annotation).ok_or_else(invalid)?;
    let AuditEvent { seq, actor, at, .. } = event;
    Ok(AnnotationView { seq, by: actor, at, note, corrects })
}

/// An event, if it is a note, with what it says.
fn annotation(stored: &StoredEvent) -> Option<(AuditEvent, String, Option<u64>)> {
    let event: AuditEvent = untrusted::parse("audit event", stored.bytes.as_bytes(), EVENT_LIMIT).ok()?;
    match &event.what {
        What::RunAnnotated { note, corrects } => {
            let (note, corrects) = (note.clone(), *corrects);
            Some((event, note, corrects))
        }
        _ => None,
    }
}
