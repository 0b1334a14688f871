//! Projecting the plan: from the document to the one representation that may leave (`R14`, `R23`-`R29`).

use plangate_gate::audit::{Chain, What};
use plangate_gate::digest::Digest;
use plangate_gate::document::{DocumentError, PlanDocument, PlanOutcome};
use plangate_gate::failure::FailureReason;
use plangate_gate::ids::RunId;
use plangate_gate::lifecycle::Status;
use plangate_gate::order::StoredObject;
use plangate_gate::projection::Projection;
use plangate_gate::receipt::PhaseFailure;
use plangate_gate::run::{Actor, PlanRecord, ProjectionRecord, Run, failure};
use plangate_gate::time::Timestamp;

use crate::ahead::Ahead;
use crate::attempt::Attempts;
use crate::documents::pinned_policy;
use crate::error::Error;
use crate::finish::{Ending, finish};
use crate::guard::unprojected;
use crate::objects::{Objects, projection_key, put_same};
use crate::prepare::not_ready;
use crate::rows::{ChainRow, RunRow};
use crate::store::Store;

/// The most bytes that a plan document may have to be read by a function.
pub const DOCUMENT_LIMIT: u64 = 256 * 1024 * 1024;

/// What the document says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Projected {
    /// Something changes: there is a projection to judge and decide on.
    Changes,
    /// Nothing changes: the run has ended `no_changes`.
    NoChanges,
}

/// Projects the document of a run's plan, and stores and records the projection. A document that gives none ends the
/// run: nobody can decide what nobody can see.
///
/// # Errors
/// `Ended` where it ends the run as failed; or AWS does not answer.
pub async fn project(
    store: &dyn Store,
    objects: &dyn Objects,
    run: &RunId,
    now: Timestamp,
) -> Result<Projected, Error> {
    let actor = Actor::gate("project");
    let mut attempts = Attempts::new(run.as_str());
    let store: &dyn Store = &Ahead::of_run(store, run).await?;
    let mut row = RunRow::load(store, run).await?;
    match row.run.status {
        Status::Evaluating if row.run.projection.is_some() => return Ok(Projected::Changes),
        Status::Evaluating => {}
        Status::NoChanges => return Ok(Projected::NoChanges),
        status => return Err(not_ready(status)),
    }
    let plan = row.run.plan.clone().ok_or(Error::NotReady { status: row.run.status })?;
    let pinned = row.run.pinned.clone().ok_or(Error::NotReady { status: row.run.status })?;
    let policy = pinned_policy(store, &pinned.policy).await?;
    let invalid = |error: String| Error::RecordInvalid { what: "a pinned policy", error };
    let withhold = policy.withhold().map_err(|error| invalid(error.to_string()))?;
    let made = match document(objects, &row.run, &plan).await? {
        Err(failure) => Err((failure, None)),
        Ok(bytes) => {
            let parsed = PlanDocument::parse_untrusted(&bytes);
            match parsed.and_then(|document| Ok((document.outcome(plan.exit_code)?, document))) {
                Ok((PlanOutcome::NoChanges, _)) => Ok(None),
                Ok((PlanOutcome::Changes, document)) => Ok(Some(Projection::of(&document, &withhold))),
                Err(error) => Err((failure(reason_of(&error), error.to_string()), Some(error))),
            }
        }
    };
    let record = match &made {
        Ok(Some(projection)) => {
            let key = projection_key(&row.run.workspace, run);
            if !put_same(objects, &key, projection.bytes()).await? {
                let error = "another projection stands in its place".to_owned();
                return Err(Error::RecordInvalid { what: "a projection", error });
            }
            let bytes = projection.bytes().len() as u64;
            let bucket = row.run.bundle.bucket.clone();
            let object = StoredObject { bucket, key, version_id: None, digest: projection.digest(), bytes };
            Some(ProjectionRecord { object, counts: projection.counts() })
        }
        _ => None,
    };
    loop {
        match (row.run.status, &made, &record) {
            // Ours, of an attempt whose answer was lost.
            (Status::Evaluating, _, Some(record)) if row.run.projection.as_ref() == Some(record) => {
                return Ok(Projected::Changes);
            }
            (Status::NoChanges, Ok(None), _) => return Ok(Projected::NoChanges),
            (Status::Evaluating, ..) => {}
            (status, ..) => return Err(not_ready(status)),
        }
        let outcome = match (&made, &record) {
            (Ok(_), Some(record)) => {
                let what = What::PlanProjected {
                    projection: record.object.digest,
                    bytes: record.object.bytes,
                    counts: record.counts,
                };
                row.run.projection = Some(record.clone());
                row.run.updated_at = now;
                let mut chain = ChainRow::load(store, Chain::Run(run.clone())).await?;
                chain.append(now, &actor, what)?;
                let mut writes = vec![row.put()?];
                writes.extend(chain.writes()?);
                store.transact(writes).await
            }
            (Ok(_), None) => finish(store, row, Ending::new(Status::NoChanges, actor.clone()), now).await?.map(drop),
            (Err((failure, error)), _) => {
                let mut ending = Ending::failed(failure.clone(), actor.clone());
                if let Some(error) = error {
                    let outcome = unprojected(error, &policy, &pinned);
                    ending.before.push(What::GuardrailsEvaluated { outcome: outcome.clone() });
                    row.run.guardrails = Some(outcome);
                }
                finish(store, row, ending, now).await?.map(drop)
            }
        };
        if attempts.settle(outcome).await?.is_some() {
            return match (made, record) {
                (Ok(_), Some(_)) => Ok(Projected::Changes),
                (Ok(_), None) => Ok(Projected::NoChanges),
                (Err(_), _) => Err(Error::Ended { status: Status::Failed }),
            };
        }
        row = RunRow::load(store, run).await?;
    }
}

/// Reads the document of a run's plan: the version that was recorded, held against its recorded digest.
///
/// # Errors
/// AWS does not answer. The inner failure: it is not there any more, or not the one that was recorded.
pub(crate) async fn document(
    objects: &dyn Objects,
    run: &Run,
    plan: &PlanRecord,
) -> Result<Result<Vec<u8>, PhaseFailure>, Error> {
    let stored = &plan.document;
    let limit = DOCUMENT_LIMIT.min(stored.bytes);
    let replaced =
        |detail: &str| Ok(Err(failure(FailureReason::ObjectReplaced, format!("the plan document {detail}"))));
    match objects.get(&stored.key, stored.version_id.as_deref(), limit).await {
        Ok(Some(object)) if Digest::of(&object.bytes) == stored.digest => Ok(Ok(object.bytes)),
        Ok(Some(_)) | Err(crate::objects::ObjectError::TooLarge { .. }) => replaced("is not the one that was recorded"),
        Ok(None) => {
            tracing::error!(run = %run.id, "the plan document is gone");
            replaced("is not there")
        }
        Err(error) => Err(error.into()),
    }
}

const fn reason_of(error: &DocumentError) -> FailureReason {
    match error {
        DocumentError::Unparseable { .. } => FailureReason::PlanUnparseable,
        DocumentError::FormatUnsupported => FailureReason::PlanFormatUnsupported,
        DocumentError::Errored => FailureReason::PlanErrored,
        DocumentError::Inconsistent => FailureReason::PlanInconsistent,
    }
}
