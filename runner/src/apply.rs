//! The apply phase (`R9`): that very plan, once, after everything that made it that plan has been checked again.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use plangate_gate::digest::Digest;
use plangate_gate::document::PlanDocument;
use plangate_gate::failure::FailureReason;
use plangate_gate::keys::{artifact_key, claim_key, errored_state_key, result_key};
use plangate_gate::order::{ApprovedPlan, StoredObject};
use plangate_gate::projection::{Projection, Withhold};
use plangate_gate::receipt::{Applied, ApplyResult, Claim, ClaimHolder, ClaimSchema, ResultSchema};
use plangate_gate::state::StateIdentity;

use crate::cloud::{Fetched, Place, Protection, Put, store, tell};
use crate::engine::{Ended, Output, Stopped};
use crate::error::{Result, RunnerError};
use crate::folder::read_plain;
use crate::phase::Phase;
use crate::prepare::{Prepared, variable_argument};
use crate::{order, secrets, state};

/// How long the engine waits for the state's own lock, which nobody else of the gate holds.
const LOCK_TIMEOUT: &str = "-lock-timeout=60s";

/// How often something is tried that must be done after an apply.
const ATTEMPTS: u32 = 5;

/// What came of an apply: what was done, if the engine was started, and why it failed, if it did.
#[derive(Debug, Default)]
pub(crate) struct Outcome {
    pub(crate) applied: Option<Applied>,
    pub(crate) failure: Option<RunnerError>,
}

/// Applies. The order has been checked.
pub(crate) fn apply(phase: &mut Phase<'_>, order_digest: Digest) -> Outcome {
    match ready(phase) {
        Ok((prepared, plan, variables, before)) => start(phase, order_digest, &prepared, &plan, variables, before),
        Err(error) => Outcome { applied: None, failure: Some(error) },
    }
}

/// Everything up to the claim: each check may still end the run with nothing changed.
fn ready(phase: &mut Phase<'_>) -> Result<(Prepared, PathBuf, Option<PathBuf>, StateIdentity)> {
    let Some(approved) = phase.order.approved.clone() else {
        return Err(RunnerError::failed(FailureReason::OrderInvalid, "the order names no approved plan"));
    };
    let secrets = secrets::resolve(phase.cloud, &phase.order.secrets, phase.log)?;
    let mut prepared = Prepared::unpack(phase, &secrets)?;
    let artifact = fetch_artifact(phase, &approved)?;
    if prepared.lock_file != approved.lock_file {
        let detail = "the bundle's lock file is not the one that the plan was made with";
        return Err(RunnerError::failed(FailureReason::LockFileInvalid, detail));
    }
    prepared.initialise(phase)?;

    let plan = prepared.folder.give("plan.tfplan", &artifact)?;
    let document = prepared.show(phase, &plan)?;
    check_projection(&document, &approved)?;
    let again = secrets::not_in_plan(&secrets, &document, phase.log)?;
    let variables = if again.is_empty() {
        None
    } else {
        Some(prepared.folder.give("apply.tfvars.json", &secrets::variable_file(&again))?)
    };
    drop(document);

    order::check_expiry(phase.order, (phase.clock)())?;
    let now = state::identity(phase.cloud, &phase.order.state, phase.config.limits.document_bytes)?;
    if now != approved.state {
        let detail = format!("the plan was made against {}, and there is {now}", approved.state);
        return Err(RunnerError::failed(FailureReason::StateIdentityMismatch, detail));
    }
    prepared.enter_again(phase)?;
    phase.check_stop()?;
    Ok((prepared, plan, variables, now))
}

/// The artifact, if it is still the object that was recorded.
fn fetch_artifact(phase: &Phase<'_>, approved: &ApprovedPlan) -> Result<Vec<u8>> {
    let recorded = &approved.artifact;
    let replaced = |what: &str| {
        let detail = format!("the artifact `{}` {what}", recorded.key);
        Err(RunnerError::failed(FailureReason::ObjectReplaced, detail))
    };
    if recorded.bucket != phase.order.sealed.bucket || recorded.key != artifact_key(&phase.order.run) {
        return replaced("is not where this run's artifact belongs");
    }
    let place = Place { bucket: &recorded.bucket, key: &recorded.key };
    let Some(Fetched { bytes, version_id }) = phase.cloud.fetch(place, phase.config.limits.artifact_bytes)? else {
        return replaced("is gone");
    };
    if recorded.version_id.is_some() && version_id != recorded.version_id {
        return replaced("was written again: its version is another");
    }
    if Digest::of(&bytes) != recorded.digest {
        return replaced("has another digest");
    }
    Ok(bytes)
}

/// What the artifact shows now must be what was decided on, to the byte.
fn check_projection(document: &[u8], approved: &ApprovedPlan) -> Result<()> {
    let mismatch = |detail: String| RunnerError::failed(FailureReason::ProjectionMismatch, detail);
    let document = PlanDocument::parse_untrusted(document).map_err(|error| mismatch(error.to_string()))?;
    let withhold = Withhold::of(&approved.withhold).map_err(|error| mismatch(error.to_string()))?;
    let digest = Projection::of(&document, &withhold).digest();
    if digest == approved.projection {
        Ok(())
    } else {
        Err(mismatch(format!("the artifact shows {digest}, and {} was approved", approved.projection)))
    }
}

/// Takes the claim and applies.
fn start(
    phase: &mut Phase<'_>,
    order_digest: Digest,
    prepared: &Prepared,
    plan: &Path,
    variables: Option<PathBuf>,
    before: StateIdentity,
) -> Outcome {
    if let Err(error) = claim(phase) {
        return Outcome { applied: None, failure: Some(error) };
    }
    let mut arguments: Vec<OsString> = ["apply", "-input=false", "-json", LOCK_TIMEOUT].map(OsString::from).into();
    arguments.extend(variables.as_deref().map(variable_argument));
    arguments.push(plan.into());
    phase.log.text("plangate: apply");
    phase.evidence.engine_ran = true;
    // From here on there is no early return: whatever happens, what was done is looked at and told.
    let ended = prepared.engine.run(&arguments, Output::Log, phase.log);
    if let Ok(ended) = &ended {
        phase.log.text(&format!("plangate: apply ended with exit code {}", ended.code));
    }
    let unsaved = keep_errored_state(phase, prepared);
    let failure = failure(&ended, &unsaved);
    let limit = phase.config.limits.document_bytes;
    let state_after =
        patiently(phase, "the state cannot be read", |phase| state::identity(phase.cloud, &phase.order.state, limit));
    let state_after = match state_after {
        Ok(state_after) => state_after,
        Err(error) => {
            // Without a result the claim stays open, and the workspace is closed until somebody has looked.
            let more = failure.map(|failure| format!("; {failure}")).unwrap_or_default();
            let detail = format!("the state cannot be read after the apply: {error}{more}");
            let failure = RunnerError::failed(FailureReason::ApplyOutcomeUnknown, detail);
            return Outcome { applied: None, failure: Some(failure) };
        }
    };
    let errored_state = match unsaved {
        Unsaved::Kept(object) => Some(object),
        Unsaved::Nothing | Unsaved::Lost(_) => None,
    };
    let exit_code = ended.as_ref().map_or(255, |ended| ended.code);
    let applied = Applied { exit_code, state_before: before, state_after, errored_state };
    let unknown = failure.as_ref().is_some_and(|failure| failure.is(FailureReason::ApplyOutcomeUnknown));
    if unknown && applied.outcome_is_known() {
        // By itself it would say less than is known. Without it, and without a receipt, the outcome is unknown.
        phase.log.text("plangate: no result is stored");
    } else if let Err(error) = store_result(phase, order_digest, &applied) {
        // The result is only the first word; the receipt that follows says the same and more.
        phase.log.text(&format!("plangate: the result was not stored: {error}"));
    }
    Outcome { applied: Some(applied), failure }
}

/// The runner's last act before the engine's: whoever writes the claim may apply, and nobody else ever.
///
/// Where it cannot be found out whether this task wrote it, the task does not apply. The gate, which then finds a
/// runner's claim and no result, cannot know that from another task that did, and takes the outcome for unknown.
fn claim(phase: &mut Phase<'_>) -> Result<()> {
    let claim = Claim {
        schema: ClaimSchema::V1,
        run: phase.order.run.clone(),
        workspace: phase.order.workspace.clone(),
        holder: ClaimHolder::Runner,
        fence: phase.order.fence,
        at: (phase.clock)(),
    };
    let bytes = serde_json::to_vec(&claim).map_err(|_| RunnerError::gate("the claim cannot be written"))?;
    let key = claim_key(&phase.order.workspace, &phase.order.run);
    let place = Place { bucket: &phase.config.exchange_bucket, key: &key };
    match phase.cloud.claim(place, &bytes) {
        Ok(Put::Written { .. }) => Ok(()),
        Ok(Put::Exists | Put::Perhaps) => {
            Err(RunnerError::failed(FailureReason::ClaimTaken, format!("the claim `{place}` has been taken")))
        }
        Err(error) => Err(error.because(FailureReason::ApplyNotStarted)),
    }
}

/// What became of a state that the engine could not save.
enum Unsaved {
    /// There was none.
    Nothing,
    /// It is kept, sealed.
    Kept(StoredObject),
    /// It is gone, or will be with the task: why.
    Lost(RunnerError),
}

/// Keeps, sealed, the state that the engine could not save.
fn keep_errored_state(phase: &mut Phase<'_>, prepared: &Prepared) -> Unsaved {
    let file = prepared.folder.source().join("errored.tfstate");
    let bytes = match read_plain(&file, phase.config.limits.document_bytes) {
        Ok(None) => return Unsaved::Nothing,
        Ok(Some(bytes)) => bytes,
        Err(error) => return Unsaved::Lost(error),
    };
    let key = errored_state_key(&phase.order.run);
    let kept = patiently(phase, "the state that the engine could not save is not stored", |phase| {
        let sealed = &phase.order.sealed;
        let place = Place { bucket: &sealed.bucket, key: &key };
        store(phase.cloud, place, &bytes, Protection::Key(&sealed.key_arn))
    });
    kept.map_or_else(Unsaved::Lost, Unsaved::Kept)
}

/// Tries until it succeeds or has been tried often enough, with pauses that grow.
fn patiently<T>(phase: &mut Phase<'_>, otherwise: &str, mut attempt: impl FnMut(&Phase<'_>) -> Result<T>) -> Result<T> {
    let mut pause = phase.retry_pause;
    for _ in 1..ATTEMPTS {
        match attempt(phase) {
            Ok(done) => return Ok(done),
            Err(error) => phase.log.text(&format!("plangate: {otherwise} yet: {error}")),
        }
        std::thread::sleep(pause);
        pause = (pause * 2).min(Duration::from_secs(30));
    }
    attempt(phase)
}

fn store_result(phase: &Phase<'_>, order: Digest, applied: &Applied) -> Result<()> {
    let result = ApplyResult {
        schema: ResultSchema::V1,
        run: phase.order.run.clone(),
        workspace: phase.order.workspace.clone(),
        fence: phase.order.fence,
        order,
        applied: applied.clone(),
        at: (phase.clock)(),
    };
    let bytes = serde_json::to_vec(&result).map_err(|_| RunnerError::gate("the result cannot be written"))?;
    let key = result_key(&phase.order.workspace, &phase.order.run);
    let place = Place { bucket: &phase.config.exchange_bucket, key: &key };
    tell(phase.cloud, place, &bytes)
}

/// Why the apply failed, if it did. Its outcome is known only if the engine ended by itself, as it does when it has
/// saved what it did, and could save that.
fn failure(ended: &Result<Ended>, unsaved: &Unsaved) -> Option<RunnerError> {
    let mut unknown = Vec::new();
    match unsaved {
        Unsaved::Nothing => {}
        Unsaved::Kept(object) => {
            unknown.push(format!(
                "the engine could not save its state; it is kept as `s3://{}/{}`",
                object.bucket, object.key
            ));
        }
        Unsaved::Lost(error) => {
            unknown.push(format!("THE STATE THAT THE ENGINE COULD NOT SAVE IS LOST, it could not be kept: {error}"));
        }
    }
    if ended.as_ref().is_ok_and(|ended| ended.state_dumped) {
        unknown.push("THE STATE THAT THE ENGINE COULD NOT SAVE IS LOST, not even a file could be written".to_owned());
    }
    match ended {
        Err(error) => unknown.push(format!("how the engine ended is not known: {error}")),
        Ok(ended) if !matches!(ended.code, 0 | 1) => unknown.push(format!(
            "`apply` was ended from outside or broke down, with exit code {}: what it did last is in no state",
            ended.code
        )),
        Ok(_) => {}
    }
    if !unknown.is_empty() {
        return Some(RunnerError::failed(FailureReason::ApplyOutcomeUnknown, unknown.join("; ")));
    }
    match ended {
        // An engine that had finished when it was told to stop has finished.
        Ok(Ended { code: 0, .. }) | Err(_) => None,
        Ok(ended) => {
            let why = match ended.stopped {
                Some(Stopped::Signal) => "the task was told to stop",
                Some(Stopped::Deadline) => "it took longer than it may",
                _ => "`apply` failed",
            };
            Some(RunnerError::failed(FailureReason::ApplyErrored, format!("{why}; exit code {}", ended.code)))
        }
    }
}
