//! One task: order in, phase, log and receipt out. Every failure of the phase becomes a receipt that names it.

use std::io::Write;
use std::time::{Duration, Instant};

use plangate_gate::keys::{log_key, receipt_key};
use plangate_gate::order::{self, StoredObject};
use plangate_gate::receipt::{
    Isolation, Planned, RECEIPT_LIMIT, Receipt, ReceiptAudience, ReceiptSchema, StateLockEvidence,
};
use plangate_gate::time::Timestamp;

use crate::apply::{Outcome, apply};
use crate::cloud::{Cloud, Place, Protection, store, tell};
use crate::config::{Config, EngineUser};
use crate::engine::Stop;
use crate::environment::Invocation;
use crate::error::{Result, RunnerError};
use crate::log::Log;
use crate::order::{FoundOrder, check, find};
use crate::phase::{Evidence, Phase};
use crate::plan::plan;
use crate::{identity, state};

/// Everything that a task is given.
pub struct Task<'t> {
    /// The settings of the image.
    pub config: &'t Config,
    /// The services, under the role of the task.
    pub cloud: &'t dyn Cloud,
    /// What the task was started for.
    pub invocation: &'t Invocation,
    /// Tells the time.
    pub clock: &'t dyn Fn() -> Timestamp,
    /// Whether the task is told to stop.
    pub stop: &'t Stop,
    /// Whom the engine runs as, where the platform allows another user than the runner's.
    pub user: Option<EngineUser>,
    /// Whether every child of this process is the engine's, to be ended with it.
    pub end_leftovers: bool,
    /// How long to wait before asking again for what must be told; doubled each time.
    pub retry_pause: Duration,
    /// Where the log is printed.
    pub out: Box<dyn Write + Send>,
}

/// Runs the task and gives the receipt that it has written.
///
/// # Errors
/// [`RunnerError::Unusable`] only: no receipt was written.
pub fn run(task: Task<'_>) -> Result<Receipt> {
    let started_at = (task.clock)();
    let limits = &task.config.limits;
    let seconds = match task.invocation.phase {
        order::Phase::Plan => limits.plan_seconds,
        order::Phase::Apply => limits.apply_seconds,
    };
    let deadline = Instant::now() + Duration::from_secs(seconds);
    let mut log = Log::new(task.out, limits.log_bytes);
    let invocation = task.invocation;
    log.text(&format!("plangate: {} of {} in {}", invocation.phase, invocation.run, invocation.workspace));
    log.text(&format!("plangate: runner {}", plangate_release::told()));

    let found = find(task.cloud, task.config, invocation)?;
    let mut evidence = Evidence::default();
    let (caller, end) = {
        let mut phase = Phase {
            config: task.config,
            cloud: task.cloud,
            invocation,
            order: &found.order,
            clock: task.clock,
            stop: task.stop,
            deadline,
            user: task.user,
            end_leftovers: task.end_leftovers,
            retry_pause: task.retry_pause,
            log: &mut log,
            evidence: &mut evidence,
        };
        let (caller, end) = execute(&mut phase, &found);
        look_at_lock(&mut phase);
        (caller, end)
    };
    if let Some(error) = &end.failure {
        log.text(&format!("plangate: failed: {error}"));
    }
    let failure = end.failure.as_ref().map(|error| {
        let mut failure = error.for_receipt();
        failure.detail = log.masker().mask(&failure.detail).chars().take(500).collect();
        failure
    });
    let stored_log = store_log(task.cloud, task.config, invocation, &mut log);
    let order = found.order;
    let receipt = Receipt {
        schema: ReceiptSchema::V1,
        audience: ReceiptAudience::Gate,
        run: invocation.run.clone(),
        workspace: invocation.workspace.clone(),
        kind: order.kind,
        phase: invocation.phase,
        attempt: order.attempt,
        fence: order.fence,
        order: found.digest,
        roles: order.roles,
        caller,
        estate_caller: evidence.estate_caller,
        engine: order.engine,
        bundle: order.bundle.digest,
        isolation: if task.user.is_some() { Isolation::SeparateUser } else { Isolation::SameUser },
        state_lock: StateLockEvidence { locking: invocation.phase == order::Phase::Apply, orphan: evidence.orphan },
        started_at,
        finished_at: (task.clock)(),
        log: stored_log,
        planned: end.planned,
        applied: end.applied,
        failure,
    };
    write(task.cloud, task.config, invocation, &receipt)?;
    Ok(receipt)
}

/// What the phase came to.
#[derive(Default)]
struct End {
    planned: Option<Planned>,
    applied: Option<plangate_gate::receipt::Applied>,
    failure: Option<RunnerError>,
}

/// Checks who this is and what the order is, then does it.
fn execute(phase: &mut Phase<'_>, found: &FoundOrder) -> (String, End) {
    let failed = |error| End { failure: Some(error), ..End::default() };
    let caller = match phase.cloud.caller() {
        Ok(caller) => caller,
        Err(error) => return ("unknown".to_owned(), failed(error)),
    };
    let role = match found.order.phase {
        order::Phase::Plan => &found.order.roles.plan,
        order::Phase::Apply => &found.order.roles.apply,
    };
    let checked = check(found, phase.cloud, phase.config, phase.invocation, (phase.clock)())
        .and_then(|()| identity::check(&caller, role));
    if let Err(error) = checked {
        return (caller, failed(error));
    }
    let end = match found.order.phase {
        order::Phase::Plan => match plan(phase) {
            Ok(planned) => End { planned: Some(planned), ..End::default() },
            Err(error) => failed(error),
        },
        order::Phase::Apply => {
            let Outcome { applied, failure } = apply(phase, found.digest);
            End { planned: None, applied, failure }
        }
    };
    (caller, end)
}

/// Looks for a lock on the state once the engine has ended, and says how it is released: by a person.
fn look_at_lock(phase: &mut Phase<'_>) {
    if !phase.evidence.engine_ran {
        return;
    }
    let reference = &phase.order.state;
    match state::standing_lock(phase.cloud, reference) {
        Ok(None) => {}
        Ok(Some(lock)) => {
            let (bucket, key) = (&reference.bucket, state::lock_key(reference));
            phase.log.text(&format!(
                "plangate: a lock stands on the state: {} of `{}` since {}. Once it is certain that nobody is at work on \
                 it, release it with: aws s3api delete-object --bucket {bucket} --key {key}",
                lock.id, lock.operation, lock.created
            ));
            phase.evidence.orphan = Some(lock);
        }
        Err(error) => phase.log.text(&format!("plangate: whether a lock stands on the state is not known: {error}")),
    }
}

fn store_log(cloud: &dyn Cloud, config: &Config, invocation: &Invocation, log: &mut Log) -> Option<StoredObject> {
    let key = log_key(&invocation.workspace, &invocation.run, invocation.phase);
    let bytes = log.finish();
    match store(cloud, Place { bucket: &config.exchange_bucket, key: &key }, &bytes, Protection::Bucket) {
        Ok(stored) => Some(stored),
        Err(error) => {
            log.text(&format!("plangate: the log could not be stored: {error}"));
            None
        }
    }
}

fn write(cloud: &dyn Cloud, config: &Config, invocation: &Invocation, receipt: &Receipt) -> Result<()> {
    let bytes = serde_json::to_vec(receipt).map_err(|_| RunnerError::unusable("the receipt cannot be written"))?;
    if bytes.len() > RECEIPT_LIMIT {
        return Err(RunnerError::unusable("the receipt is too large"));
    }
    let key = receipt_key(&invocation.workspace, &invocation.run, invocation.phase);
    tell(cloud, Place { bucket: &config.exchange_bucket, key: &key }, &bytes).map_err(RunnerError::unusable)
}
