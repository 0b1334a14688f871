//! The apply phase (`R9`): that very plan, once, after everything that made it that plan has been checked again.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use plangate_gate::digest::Digest;
use plangate_gate::document::PlanDocument;
use plangate_gate::failure::FailureReason;
use plangate_gate::order::{ApprovedPlan, StoredObject};
use plangate_gate::projection::{Projection, Withhold};
use plangate_gate::receipt::{Applied, ApplyResult, Claim, ClaimHolder, ClaimSchema, ResultSchema};
use plangate_gate::state::StateIdentity;

use crate::cloud::{Fetched, Place, Protection, Put, store};
use crate::engine::{Ended, Output, Stopped};
use crate::error::{Result, RunnerError};
use crate::folder::read_plain;
use crate::phase::Phase;
use crate::plan::artifact_key;
use crate::prepare::{Prepared, variable_argument};
use crate::{order, secrets, state};

/// How long the engine waits for the state's own lock, which nobody else of the gate holds.
const LOCK_TIMEOUT: &str = "-lock-timeout=60s";

/// How often the state is asked for after an apply before its outcome counts as unknown.
const STATE_ATTEMPTS: u32 = 5;

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
    let prepared = Prepared::unpack(phase, &secrets)?;
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
    if recorded.bucket != phase.order.sealed.bucket || recorded.key != artifact_key(phase.order.run.as_str()) {
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
    let errored_state = keep_errored_state(phase, prepared);
    match state_after(phase) {
        Ok(state_after) => {
            let exit_code = ended.as_ref().map_or(255, |ended| ended.code);
            let applied = Applied { exit_code, state_before: before, state_after, errored_state };
            if let Err(error) = store_result(phase, order_digest, &applied) {
                // The result is only the first word; the receipt that follows says the same and more.
                phase.log.text(&format!("plangate: the result was not stored: {error}"));
            }
            Outcome { applied: Some(applied), failure: failure(&ended) }
        }
        Err(error) => {
            // Without a result the claim stays open, and the workspace is closed until somebody has looked.
            let detail = format!("the state cannot be read after the apply: {error}");
            Outcome { applied: None, failure: Some(RunnerError::failed(FailureReason::ApplyOutcomeUnknown, detail)) }
        }
    }
}

/// The runner's last act before the engine's: whoever writes the claim may apply, and nobody else ever.
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
    let key = phase.invocation.key("claims", "");
    let place = Place { bucket: &phase.config.exchange_bucket, key: &key };
    match phase.cloud.claim(place, &bytes) {
        Ok(Put::Written { .. }) => Ok(()),
        Ok(Put::Exists) => {
            Err(RunnerError::failed(FailureReason::ClaimTaken, format!("the claim `{place}` has been taken")))
        }
        // Whether it was written or not: this task does not apply, and says so.
        Err(error) => Err(error.because(FailureReason::ApplyNotStarted)),
    }
}

/// Keeps, sealed, the state that the engine could not save.
fn keep_errored_state(phase: &mut Phase<'_>, prepared: &Prepared) -> Option<StoredObject> {
    let file = prepared.folder.source().join("errored.tfstate");
    let bytes = match read_plain(&file, phase.config.limits.document_bytes) {
        Ok(bytes) => bytes?,
        Err(error) => {
            phase.log.text(&format!("plangate: `errored.tfstate` cannot be read: {error}"));
            return None;
        }
    };
    let sealed = &phase.order.sealed;
    let key = format!("sealed/{}/errored.tfstate", phase.order.run);
    let place = Place { bucket: &sealed.bucket, key: &key };
    match store(phase.cloud, place, &bytes, Protection::Key(&sealed.key_arn)) {
        Ok(stored) => {
            phase.log.text(&format!("plangate: the engine could not save its state; it is kept as `{place}`"));
            Some(stored)
        }
        Err(error) => {
            phase.log.text(&format!("plangate: the engine could not save its state, and `{place}` neither: {error}"));
            None
        }
    }
}

/// The state's identity, asked for until it is told: a result without it is none.
fn state_after(phase: &mut Phase<'_>) -> Result<StateIdentity> {
    let limit = phase.config.limits.document_bytes;
    let mut pause = phase.retry_pause;
    for _ in 1..STATE_ATTEMPTS {
        match state::identity(phase.cloud, &phase.order.state, limit) {
            Ok(identity) => return Ok(identity),
            Err(error) => phase.log.text(&format!("plangate: the state cannot be read yet: {error}")),
        }
        std::thread::sleep(pause);
        pause = (pause * 2).min(Duration::from_secs(30));
    }
    state::identity(phase.cloud, &phase.order.state, limit)
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
    let key = phase.invocation.key("results", ".json");
    let place = Place { bucket: &phase.config.exchange_bucket, key: &key };
    store(phase.cloud, place, &bytes, Protection::Bucket).map(drop)
}

/// Why the apply failed, if it did.
fn failure(ended: &Result<Ended>) -> Option<RunnerError> {
    let errored = |detail: String| Some(RunnerError::failed(FailureReason::ApplyErrored, detail));
    match ended {
        Err(error) => errored(error.to_string()),
        Ok(ended) => match (ended.stopped, ended.code) {
            // An engine that had finished when it was told to stop has finished.
            (_, 0) => None,
            (Some(Stopped::Signal), code) => errored(format!("the task was told to stop; exit code {code}")),
            (Some(Stopped::Deadline), code) => errored(format!("it took longer than it may; exit code {code}")),
            (_, code) => errored(format!("`apply` ended with exit code {code}")),
        },
    }
}
