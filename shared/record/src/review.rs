//! The review: advice on an eligible run, which can withhold an approval without a person and can do nothing else
//! (`R36`-`R44`).
//!
//! What a reviewer says is text from outside until it is read strictly here (`R40`). Where there is anything but a clean
//! approval, a person is asked; where there is one, and nothing has changed, the same function decides that decides for
//! people.

use std::time::Instant;

use plangate_gate::audit::{Chain, What};
use plangate_gate::digest::Digest;
use plangate_gate::documents::ReviewerBinding;
use plangate_gate::guardrails::Eligible;
use plangate_gate::ids::{RunId, WorkspaceId};
use plangate_gate::lifecycle::Status;
use plangate_gate::projection::ProjectionView;
use plangate_gate::review::{Cause, ModelRecord};
use plangate_gate::run::{Actor, ReviewRecord, Run};
use plangate_gate::time::Timestamp;
use plangate_gate::verdict::{AutomaticApproval, Judgement, Verdict};
use plangate_reviewer::{Report, Reviewer, Submission};

use crate::attempt::Attempts;
use crate::decide::approve_automatically;
use crate::documents::workspace_and_check;
use crate::error::Error;
use crate::freeze;
use crate::guard::{Guarded, Route, seconds_left};
use crate::objects::Objects;
use crate::prepare::not_ready;
use crate::rows::{ChainRow, LockRow, RunRow};
use crate::store::{Store, Write};

/// The most bytes that a projection may have to be reviewed; a larger one made the run ineligible (`R27`).
pub(crate) const PROJECTION_LIMIT: u64 = 192 * 1024;

/// Who reviews, by what a workspace's configuration names. Replaceable without anything else knowing (`R43`).
pub trait Reviewers: Send + Sync {
    /// The reviewer of this binding, for this run of this workspace.
    fn of<'a>(&'a self, workspace: &WorkspaceId, run: &RunId, binding: &ReviewerBinding) -> Box<dyn Reviewer + 'a>;
}

/// Asks the workspace's reviewer about an eligible run, records what came of it, and approves the run where a clean
/// approval is all that it lacked. Called again after its answer was lost, it finds what it did and asks nobody.
///
/// # Errors
/// The run is not eligible or not where this begins, or AWS does not answer. The workflow takes any error for escalation.
pub async fn review(
    store: &dyn Store,
    objects: &dyn Objects,
    reviewers: &dyn Reviewers,
    run: &RunId,
    now: Timestamp,
) -> Result<Guarded, Error> {
    let row = RunRow::load(store, run).await?;
    if let Some(done) = reviewed(&row.run, now)? {
        return Ok(done);
    }
    let invalid = |error: &str| Error::RecordInvalid { what: "an eligible run", error: error.to_owned() };
    let eligible = row.run.guardrails.as_ref().and_then(Eligible::recorded);
    let eligible = eligible.ok_or_else(|| invalid("its record does not say eligible"))?;
    let pinned = row.run.pinned.as_ref().ok_or_else(|| invalid("it was not prepared"))?;
    let recorded = row.run.projection.as_ref().ok_or_else(|| invalid("it has no projection"))?;
    let object = objects.get(&recorded.object.key, None, PROJECTION_LIMIT).await?;
    let projection = object.ok_or_else(|| invalid("its projection is not there"))?.bytes;
    if Digest::of(&projection) != recorded.object.digest {
        return Err(invalid("its projection is not the one that was recorded"));
    }

    let begun = Instant::now();
    let reviewer = reviewers.of(&row.run.workspace, run, &pinned.spec.reviewer);
    let submission = Submission { projection: &projection, policy: &pinned.spec.review_policy };
    let report = reviewer.review(&eligible, submission).await;
    // A model takes its time; what is decided afterwards is decided then.
    let took = u32::try_from(begun.elapsed().as_millis().div_ceil(1000)).unwrap_or(u32::MAX);
    let now = now.plus_seconds(took);
    let (record, verdict) = judge(reviewer.binding(), report, submission, now);

    let mut attempts = Attempts::new(run.as_str());
    loop {
        let mut row = RunRow::load(store, run).await?;
        if let Some(done) = reviewed(&row.run, now)? {
            return Ok(done);
        }
        let ground = match &verdict {
            Some(verdict) => ground(store, &row.run, &eligible, verdict, now).await?,
            None => Err(Cause::Escalated),
        };
        let mut record = record.clone();
        if let (None, Err(cause)) = (record.cause, &ground) {
            record.cause = Some(*cause);
        }
        row.run.review = Some(record.clone());
        row.run.updated_at = now;
        let what = What::Reviewed { review: record };
        let written = match ground {
            Ok((ground, unchanged)) => approve_automatically(store, row, ground, what, unchanged, now).await?.map(drop),
            Err(_) => {
                let mut chain = ChainRow::load(store, Chain::Run(run.clone())).await?;
                chain.append(now, &Actor::gate("review"), what)?;
                let mut writes = vec![row.put()?];
                writes.extend(chain.writes()?);
                store.transact(writes).await
            }
        };
        // Whatever came of it is read from the record.
        attempts.settle(written).await?;
    }
}

/// The answer of a run that was reviewed already; none where that is still to be done.
fn reviewed(run: &Run, now: Timestamp) -> Result<Option<Guarded>, Error> {
    let route = match run.status {
        Status::Approved => Route::Approved,
        Status::Reviewing if run.review.is_some() => Route::Ask,
        Status::Reviewing => return Ok(None),
        status => return Err(not_ready(status)),
    };
    Ok(Some(Guarded { route, seconds_left: seconds_left(run, now) }))
}

/// What is recorded of a report, and the verdict that is in it, if one is. Nothing of the report is believed: not that its
/// text is a verdict, nor that its names are names.
fn judge(binding: &str, report: Report, submission: Submission<'_>, now: Timestamp) -> (ReviewRecord, Option<Verdict>) {
    let projection = Digest::of(submission.projection);
    let mut record = ReviewRecord::escalated(binding, Cause::Escalated, projection, now);
    if report.prompt.is_some() {
        record.policy = Some(Digest::of(submission.policy.as_bytes()));
        record.attempts = Some(report.attempts);
        record.milliseconds = Some(report.milliseconds);
    }
    record.model = report.model.map(ModelRecord::bounded);
    record.prompt = report.prompt;
    record.tokens = report.tokens;
    let read = |text: String| {
        let view = ProjectionView::parse(submission.projection).map_err(|_| Cause::SubmissionMalformed)?;
        let addresses = view.resources.iter().map(|resource| resource.address.as_ref());
        Verdict::parse_untrusted(text.as_bytes(), addresses).map_err(|error| Cause::from(&error))
    };
    match report.answer.and_then(read) {
        Ok(verdict) => {
            record.take(&verdict);
            (record, Some(verdict))
        }
        Err(cause) => {
            record.cause = Some(cause);
            (record, None)
        }
    }
}

/// The ground on which the gate itself may approve a run, with the check that it still stands when that is written; or why
/// there is none, and a person is asked.
async fn ground(
    store: &dyn Store,
    run: &Run,
    eligible: &Eligible,
    verdict: &Verdict,
    now: Timestamp,
) -> Result<Result<(AutomaticApproval, [Write; 2]), Cause>, Error> {
    if verdict.decision() != Judgement::Approve {
        return Ok(Err(Cause::Escalated));
    }
    if run.plan_expired(now) {
        return Ok(Err(Cause::PlanExpired));
    }
    let (etag, workspace, unchanged) = workspace_and_check(store, &run.workspace).await?;
    let Some(ground) = AutomaticApproval::of(eligible, verdict, workspace.approves_automatically()) else {
        return Ok(Err(Cause::AutomaticApprovalOff));
    };
    let lock = LockRow::load(store, &run.workspace).await?;
    if freeze::stands(store, &lock).await?.is_some() {
        return Ok(Err(Cause::Frozen));
    }
    // The run was planned, judged and reviewed under the configuration that it was pinned to.
    let same = run.pinned.as_ref().is_some_and(|pinned| pinned.etag == etag);
    Ok(if same { Ok((ground, [unchanged, lock.check()])) } else { Err(Cause::ConfigurationChanged) })
}
