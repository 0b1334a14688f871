//! The plan phase (`R8`): one plan, its document, and the identity of the state that it was made against.

use std::ffi::OsString;

use plangate_gate::failure::FailureReason;
use plangate_gate::keys::{artifact_key, document_key};
use plangate_gate::receipt::{PlanExit, Planned};
use serde::Deserialize;

use crate::cloud::{Place, Protection, store};
use crate::engine::Output;
use crate::error::{Result, RunnerError};
use crate::folder::read_plain;
use crate::phase::Phase;
use crate::prepare::{Prepared, check_stopped, variable_argument};
use crate::{secrets, state};

/// Plans. The order has been checked.
///
/// # Errors
/// Whatever kept it from a plan that is stored and can be believed.
pub(crate) fn plan(phase: &mut Phase<'_>) -> Result<Planned> {
    let secrets = secrets::resolve(phase.cloud, &phase.order.secrets, phase.log)?;
    let mut prepared = Prepared::unpack(phase, &secrets)?;
    prepared.initialise(phase)?;
    prepared.enter_again(phase)?;

    let limits = &phase.config.limits;
    let before = state::identity(phase.cloud, &phase.order.state, limits.document_bytes)?;
    phase.log.text(&format!("plangate: state: {before}"));
    let file = prepared.folder.out().join("plan.tfplan");
    let exit_code = run(phase, &prepared, &file)?;
    let artifact = read_plain(&file, limits.artifact_bytes)
        .map_err(|error| error.because(FailureReason::PlanErrored))?
        .ok_or_else(|| RunnerError::failed(FailureReason::PlanErrored, "the engine left no plan file"))?;

    let after = state::identity(phase.cloud, &phase.order.state, limits.document_bytes)?;
    if after != before {
        let detail = format!("it was {before}, and is {after}");
        return Err(RunnerError::failed(FailureReason::StateMovedDuringPlan, detail));
    }
    state::check_artifact(&artifact, &before, limits.document_bytes)?;

    // What is shown is the copy that is stored, not what the engine could still write to.
    let copy = prepared.folder.give("plan.tfplan", &artifact)?;
    let document = prepared.show(phase, &copy)?;
    let plan_format = plan_format(&document)?;

    let sealed = &phase.order.sealed;
    let artifact_key = artifact_key(&phase.order.run);
    let artifact_place = Place { bucket: &sealed.bucket, key: &artifact_key };
    let document_key = document_key(&phase.order.workspace, &phase.order.run);
    let document_place = Place { bucket: &phase.config.exchange_bucket, key: &document_key };
    let artifact = store(phase.cloud, artifact_place, &artifact, Protection::Key(&sealed.key_arn))?;
    let document = store(phase.cloud, document_place, &document, Protection::Key(&phase.config.document_key))?;
    phase.log.text(&format!("plangate: planned; artifact {}, document {}", artifact.digest, document.digest));
    Ok(Planned { exit_code, artifact, document, plan_format, lock_file: prepared.lock_file.clone(), state: before })
}

/// The engine's plan, its three kinds of exit told apart.
fn run(phase: &mut Phase<'_>, prepared: &Prepared, file: &std::path::Path) -> Result<PlanExit> {
    let mut out = OsString::from("-out=");
    out.push(file);
    let mut arguments: Vec<OsString> =
        // The role of a plan cannot write to the bucket, not even a lock (`R18`); the state's identity, before and
        // after, tells what a lock would have prevented.
        ["plan", "-input=false", "-json", "-lock=false", "-detailed-exitcode"].map(OsString::from).into();
    arguments.extend(prepared.secrets_file.as_deref().map(variable_argument));
    arguments.push(out);
    let ended = prepared.run(phase, "plan", &arguments, Output::Log)?;
    check_stopped(&ended, phase)?;
    u8::try_from(ended.code).ok().and_then(|code| PlanExit::try_from(code).ok()).ok_or_else(|| {
        RunnerError::failed(FailureReason::PlanErrored, format!("`plan` ended with exit code {}", ended.code))
    })
}

/// The document's own format version, as it says it.
fn plan_format(document: &[u8]) -> Result<String> {
    #[derive(Deserialize)]
    struct Format {
        format_version: String,
    }
    serde_json::from_slice::<Format>(document)
        .ok()
        .map(|format| format.format_version)
        .filter(|version| version.len() <= 16 && version.bytes().all(|b| b.is_ascii_digit() || b == b'.'))
        .ok_or_else(|| RunnerError::failed(FailureReason::PlanUnparseable, "the document tells no format version"))
}
