//! Judging the plan: eligible, or reasons; the rules alone, offline, before any reviewer (`R30`-`R35`).

use plangate_gate::audit::{Chain, What};
use plangate_gate::document::{DocumentError, PlanDocument};
use plangate_gate::guardrails::{GuardContext, Guardrails, Outcome, RuleEngine};
use plangate_gate::ids::RunId;
use plangate_gate::lifecycle::Status;
use plangate_gate::policy::{OwnRules, Policy};
use plangate_gate::projection::Projection;
use plangate_gate::run::{Actor, GuardrailRecord, Kind, PinnedWorkspace, Run};
use plangate_gate::time::Timestamp;
use serde::Serialize;

use crate::ahead::Ahead;
use crate::attempt::Attempts;
use crate::documents::pinned_policy;
use crate::error::Error;
use crate::finish::{Ending, finish};
use crate::objects::Objects;
use crate::prepare::not_ready;
use crate::project::document;
use crate::rows::{ChainRow, RunRow};
use crate::store::Store;

/// Where a run goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Route {
    /// It has ended: it was only to look.
    Planned,
    /// A reviewer looks at it.
    Review,
    /// A person is asked.
    Ask,
    /// It is approved already, without a person.
    Approved,
}

/// The guardrails' answer to the workflow. The outcome itself stands in the record.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Guarded {
    /// Where the run goes on.
    pub route: Route,
    /// How long a person may take, in seconds: what is left of the plan's life (`R13`). At least 1.
    pub seconds_left: u32,
}

/// Judges the plan of a run and records the outcome. Whatever keeps the rules from judging makes the run ineligible
/// (`R32`); only where AWS does not answer is the step tried again. `engine` evaluates the workspace's own rules.
///
/// # Errors
/// The run is not where this begins, or AWS does not answer.
pub async fn guard(
    store: &dyn Store,
    objects: &dyn Objects,
    engine: &dyn RuleEngine,
    run: &RunId,
    now: Timestamp,
) -> Result<Guarded, Error> {
    let actor = Actor::gate("guard");
    let store: &dyn Store = &Ahead::of_run(store, run).await?;
    let mut row = RunRow::load(store, run).await?;
    if let Some(done) = judged(&row.run, now) {
        return Ok(done);
    }
    let outcome = judge(store, objects, engine, &row.run).await?;
    let mut attempts = Attempts::new(run.as_str());
    loop {
        if let Some(done) = judged(&row.run, now) {
            return Ok(done);
        }
        if row.run.status != Status::Evaluating || row.run.projection.is_none() {
            return Err(not_ready(row.run.status));
        }
        row.run.guardrails = Some(outcome.clone());
        row.run.updated_at = now;
        let what = What::GuardrailsEvaluated { outcome: outcome.clone() };
        let written = if row.run.kind == Kind::PlanOnly {
            let mut ending = Ending::new(Status::Planned, actor.clone());
            ending.before.push(what);
            finish(store, row, ending, now).await?.map(|ended| ended.run)
        } else {
            if row.run.is_to_be_reviewed(row.run.kind, &outcome) {
                row.run.step(Status::Reviewing, now)?;
            }
            let mut chain = ChainRow::load(store, Chain::Run(run.clone())).await?;
            chain.append(now, &actor, what)?;
            let mut writes = vec![row.put()?];
            writes.extend(chain.writes()?);
            store.transact(writes).await.map(|()| row.run)
        };
        if let Some(done) = attempts.settle(written).await?.and_then(|run| judged(&run, now)) {
            return Ok(done);
        }
        row = RunRow::load(store, run).await?;
    }
}

/// The answer of a run that was judged already.
fn judged(run: &Run, now: Timestamp) -> Option<Guarded> {
    let route = match run.status {
        Status::Planned => Route::Planned,
        Status::Reviewing => Route::Review,
        Status::Evaluating if run.guardrails.is_some() => Route::Ask,
        _ => return None,
    };
    Some(Guarded { route, seconds_left: seconds_left(run, now) })
}

/// What is left of the plan's life, in whole seconds; at least 1, for the workflow takes no less.
pub(crate) fn seconds_left(run: &Run, now: Timestamp) -> u32 {
    run.plan.as_ref().map_or(1, |plan| now.seconds_until(plan.expires_at)).max(1)
}

async fn judge(
    store: &dyn Store,
    objects: &dyn Objects,
    engine: &dyn RuleEngine,
    run: &Run,
) -> Result<GuardrailRecord, Error> {
    let (Some(plan), Some(pinned), Some(recorded)) = (&run.plan, &run.pinned, &run.projection) else {
        return Err(not_ready(run.status));
    };
    let policy = match pinned_policy(store, &pinned.policy).await {
        Ok(policy) => policy,
        Err(Error::Store(error)) => return Err(error.into()),
        Err(_) => return Ok(not_judged(pinned)),
    };
    let Ok(bytes) = document(objects, run, plan).await? else { return Ok(not_judged(pinned)) };
    let parsed = PlanDocument::parse_untrusted(&bytes);
    let withhold = policy.withhold();
    let projection = match (&parsed, withhold) {
        (Ok(document), Ok(withhold)) => Some(Projection::of(document, &withhold)),
        _ => None,
    };
    // What is judged must be what is shown.
    if projection.as_ref().is_some_and(|made| made.digest() != recorded.object.digest) {
        return Ok(not_judged(pinned));
    }
    let (parsed, projection) = (parsed.as_ref(), projection.as_ref());
    let outcome = Guardrails::evaluate_with(engine, parsed, projection, &policy, &context(pinned));
    Ok(outcome.record(pinned.policy, policy.own_rules.as_ref().map(OwnRules::digest)))
}

/// What the guardrails know of the workspace itself.
fn context(pinned: &PinnedWorkspace) -> GuardContext {
    let spec = &pinned.spec;
    let own = [&spec.plan_role, &spec.apply_role, &spec.state.bucket, &spec.sealed_bucket, &spec.sealed_key];
    let mut own: Vec<String> = own.into_iter().cloned().collect();
    own.sort();
    own.dedup();
    GuardContext { manages_gate: spec.manages_gate, own }
}

/// The outcome where the rules could not be asked: ineligible (`R32`).
fn not_judged(pinned: &PinnedWorkspace) -> GuardrailRecord {
    Outcome::not_judged().record(pinned.policy, None)
}

/// The outcome for a document that gives no projection: ineligible, with that reason.
pub(crate) fn unprojected(error: &DocumentError, policy: &Policy, pinned: &PinnedWorkspace) -> GuardrailRecord {
    let outcome: Outcome = Guardrails::evaluate(Err(error), None, policy, &context(pinned));
    outcome.record(pinned.policy, None)
}
