//! The review: advice on an eligible run, which can only ask a person (`R36`-`R44`).

use plangate_gate::audit::{Chain, What};
use plangate_gate::digest::Digest;
use plangate_gate::guardrails::Eligible;
use plangate_gate::ids::RunId;
use plangate_gate::lifecycle::Status;
use plangate_gate::run::{Actor, ReviewRecord};
use plangate_gate::time::Timestamp;
use plangate_reviewer::{Reviewer, Submission};

use crate::attempt::Attempts;
use crate::error::Error;
use crate::guard::{Guarded, Route, seconds_left};
use crate::objects::Objects;
use crate::prepare::not_ready;
use crate::rows::{ChainRow, RunRow};
use crate::store::Store;

/// The most bytes that a projection may have to be reviewed; a larger one made the run ineligible (`R27`).
const PROJECTION_LIMIT: u64 = 192 * 1024;

/// Asks the reviewer about an eligible run and records what came of it. Only escalation is acted on here: whatever
/// happens, a person is asked.
///
/// # Errors
/// The run is not eligible or not where this begins, or AWS does not answer. The workflow takes any error for escalation.
pub async fn review(
    store: &dyn Store,
    objects: &dyn Objects,
    reviewer: &dyn Reviewer,
    run: &RunId,
    now: Timestamp,
) -> Result<Guarded, Error> {
    let row = RunRow::load(store, run).await?;
    let ask = |row: &RunRow| Guarded { route: Route::Ask, seconds_left: seconds_left(&row.run, now) };
    if row.run.status != Status::Reviewing {
        return Err(not_ready(row.run.status));
    }
    if row.run.review.is_some() {
        return Ok(ask(&row));
    }
    let invalid = |error: &str| Error::RecordInvalid { what: "an eligible run", error: error.to_owned() };
    let eligible = row.run.guardrails.as_ref().and_then(Eligible::recorded);
    let eligible = eligible.ok_or_else(|| invalid("its record does not say eligible"))?;
    let recorded = row.run.projection.as_ref().ok_or_else(|| invalid("it has no projection"))?;
    let object = objects.get(&recorded.object.key, None, PROJECTION_LIMIT).await?;
    let projection = object.ok_or_else(|| invalid("its projection is not there"))?.bytes;
    if Digest::of(&projection) != recorded.object.digest {
        return Err(invalid("its projection is not the one that was recorded"));
    }
    let opinion = reviewer.review(&eligible, Submission::new(&projection)).await;
    let record = ReviewRecord {
        binding: reviewer.binding().to_owned(),
        decision: opinion.decision().to_owned(),
        cause: opinion.cause().map(str::to_owned),
        projection: recorded.object.digest,
        at: now,
    };
    let mut attempts = Attempts::new(run.as_str());
    loop {
        let mut row = RunRow::load(store, run).await?;
        if row.run.status != Status::Reviewing {
            return Err(not_ready(row.run.status));
        }
        if row.run.review.is_some() {
            return Ok(ask(&row));
        }
        row.run.review = Some(record.clone());
        row.run.updated_at = now;
        let mut chain = ChainRow::load(store, Chain::Run(run.clone())).await?;
        chain.append(now, &Actor::gate("review"), What::Reviewed { review: record.clone() })?;
        let mut writes = vec![row.put()?];
        writes.extend(chain.writes()?);
        if attempts.settle(store.transact(writes).await).await?.is_some() {
            return Ok(ask(&row));
        }
    }
}
