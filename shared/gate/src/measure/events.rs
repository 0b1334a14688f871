//! What a recorded event tells.

use super::{Class, Outcome, Phase};
use super::{DECISION, ELIGIBLE, INELIGIBLE, LINE, Measurement, Metric, choice};
use crate::audit::{AuditEvent, Chain, What};
use crate::failure::FailureReason;
use crate::ids::{RunId, WorkspaceId};
use crate::lifecycle::Status;
use crate::review::Cause;
use crate::run::{Actor, Kind, Run};
use crate::time::Timestamp;

/// Seconds from one moment to another.
fn seconds(from: Timestamp, to: Timestamp) -> f64 {
    f64::from(from.seconds_until(to))
}

/// What an event tells that has just been recorded. `run` is the run that the event is about, as the same transaction
/// leaves it, where it writes it.
#[must_use]
pub fn measured(event: &AuditEvent, run: Option<&Run>) -> Vec<Measurement> {
    use Metric as M;
    let one = |metric| Measurement::of(metric, 1.0);
    let Some(run) = run else { return of_no_run(event) };
    let of = Measurement::by;
    let all = match &event.what {
        What::RunProposed { .. } => vec![one(M::RunsProposed)],
        What::RunAdmitted { .. } if run.kind == Kind::Applicable => {
            vec![of(M::TimeWaiting, seconds(run.proposed_at, event.at), LINE)]
        }
        What::PlanReceived { plan } => {
            let ordered = run.plan_ordered_at.map(|ordered| seconds(ordered, plan.received_at));
            ordered.map(|took| of(M::TimeInPhase, took, Phase::Plan.as_str())).into_iter().collect()
        }
        What::GuardrailsEvaluated { outcome } => {
            let word = if outcome.eligible { ELIGIBLE } else { INELIGIBLE };
            let received = run.plan.as_ref().map(|plan| seconds(plan.received_at, event.at));
            let took = received.map(|took| of(M::TimeInPhase, took, Phase::Evaluate.as_str()));
            [of(M::GuardrailOutcomes, 1.0, word)].into_iter().chain(took).collect()
        }
        What::Reviewed { review } => {
            let counted = of(M::Reviews, 1.0, Outcome::of(review).as_str());
            let counted = review.cause.map(Cause::code).into_iter().fold(counted, Measurement::with_code);
            // A reviewer may take an hour, and not a number that a float would not hold.
            let took = review.milliseconds.and_then(|ms| u32::try_from(ms).ok()).map(|ms| f64::from(ms) / 1000.0);
            let took = took.map(|took| of(M::TimeInPhase, took, Phase::Review.as_str()));
            [counted].into_iter().chain(took).collect()
        }
        What::Decided { decision } => {
            let received = run.plan.as_ref().filter(|_| decision.by != Actor::Automatic);
            let waited = received.map(|plan| of(M::TimeWaiting, seconds(plan.received_at, decision.at), DECISION));
            [of(M::Decisions, 1.0, choice(decision.choice))].into_iter().chain(waited).collect()
        }
        What::RunEnded { status, failure, .. } => ended(event, run, *status, failure.as_ref().map(|f| f.reason)),
        What::NotificationFailed { .. } => vec![one(M::NotificationsFailed)],
        _ => Vec::new(),
    };
    all.into_iter().map(|each| each.about(run)).collect()
}

fn ended(event: &AuditEvent, run: &Run, status: Status, failure: Option<FailureReason>) -> Vec<Measurement> {
    use Metric as M;
    let of = Measurement::by;
    let mut all = vec![
        of(M::RunsEnded, 1.0, status.as_str()),
        of(M::TimeOfRun, seconds(run.proposed_at, event.at), status.as_str()),
    ];
    if let Some(reason) = failure {
        all.push(of(M::RunsFailed, 1.0, Class::of(reason).as_str()).with_code(reason.code()));
    }
    if event.actor == Actor::gate("sweep") {
        all.push(Measurement::of(M::RunsReaped, 1.0));
    }
    if let Some(apply) = &run.apply {
        all.push(of(M::TimeInPhase, seconds(apply.ordered_at, event.at), Phase::Apply.as_str()));
    }
    all
}

/// What an event tells that comes without a change of its run.
fn of_no_run(event: &AuditEvent) -> Vec<Measurement> {
    let one = |metric, run: &RunId, workspace: Option<&WorkspaceId>| {
        let (run, workspace) = (Some(run.clone()), workspace.cloned());
        vec![Measurement { run, workspace, ..Measurement::of(metric, 1.0) }]
    };
    match (&event.chain, &event.what) {
        (Chain::Workspace(workspace), What::LockQuarantined { run, .. }) => {
            one(Metric::LocksClosed, run, Some(workspace))
        }
        (Chain::Run(run), What::NotificationFailed { .. }) => one(Metric::NotificationsFailed, run, None),
        _ => Vec::new(),
    }
}
