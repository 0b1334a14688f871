//! The state's identity (`R12`), read straight from its object, and its lock object, which is only ever looked at.

use std::io::{Cursor, Read};

use plangate_gate::digest::Digest;
use plangate_gate::documents::Reference;
use plangate_gate::failure::FailureReason;
use plangate_gate::receipt::OrphanedLock;
use plangate_gate::state::StateIdentity;
use serde::Deserialize;

use crate::cloud::{Cloud, Place};
use crate::error::{Result, RunnerError};

/// The two fields of a state that its identity needs; the rest is passed over.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
struct Header {
    lineage: String,
    serial: u64,
}

/// Reads the identity of the state that stands at `state` now.
///
/// # Errors
/// It is larger than `limit` bytes, is no state, or cannot be read; not being allowed to is not "there is none".
pub(crate) fn identity(cloud: &dyn Cloud, state: &Reference, limit: u64) -> Result<StateIdentity> {
    let place = Place { bucket: &state.bucket, key: &state.key };
    let Some(found) = cloud.fetch(place, limit)? else { return Ok(StateIdentity::None) };
    let header: Header = serde_json::from_slice(&found.bytes)
        .map_err(|_| RunnerError::gate(format!("`{place}` is no state: it has no lineage and serial")))?;
    let version_id =
        found.version_id.ok_or_else(|| RunnerError::gate(format!("the bucket of `{place}` keeps no versions")))?;
    let digest = Digest::of(&found.bytes);
    Ok(StateIdentity::Present { lineage: header.lineage, serial: header.serial, version_id, digest })
}

/// Checks that the plan in `artifact` was made against `state`, by what the engine wrote into the plan file.
///
/// # Errors
/// `state-moved-during-plan` if not, `plan-errored` for a file that is no plan file.
pub(crate) fn check_artifact(artifact: &[u8], state: &StateIdentity, limit: u64) -> Result<()> {
    let unreadable = |detail: &str| {
        RunnerError::failed(FailureReason::PlanErrored, format!("the plan file cannot be read: {detail}"))
    };
    let mut archive = zip::ZipArchive::new(Cursor::new(artifact))
        .map_err(|_| unreadable("it is no zip file; encrypted plans are not supported"))?;
    let member = archive.by_name("tfstate").map_err(|_| unreadable("it has no `tfstate`"))?;
    let mut bytes = Vec::new();
    let read = member.take(limit.saturating_add(1)).read_to_end(&mut bytes);
    if read.is_err() || bytes.len() as u64 > limit {
        return Err(unreadable("its `tfstate` is damaged or too large"));
    }
    let header: Header = serde_json::from_slice(&bytes).map_err(|_| unreadable("its `tfstate` is no state"))?;
    let same = match state {
        StateIdentity::None => header.lineage.is_empty() && header.serial == 0,
        StateIdentity::Present { lineage, serial, .. } => header.lineage == *lineage && header.serial == *serial,
    };
    if same {
        return Ok(());
    }
    let detail = format!("the engine planned against serial {} and the object is: {state}", header.serial);
    Err(RunnerError::failed(FailureReason::StateMovedDuringPlan, detail))
}

/// What an engine writes into its lock object.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct LockInfo {
    #[serde(rename = "ID")]
    id: String,
    #[serde(default)]
    operation: String,
    #[serde(default)]
    created: String,
}

/// The key of a state's lock object (`use_lockfile`).
#[must_use]
pub(crate) fn lock_key(state: &Reference) -> String {
    format!("{}.tflock", state.key)
}

/// The lock that stands on the state now, if one does. It is never released here.
///
/// # Errors
/// The object cannot be read. An object that is no lock is reported as one without an id.
pub(crate) fn standing_lock(cloud: &dyn Cloud, state: &Reference) -> Result<Option<OrphanedLock>> {
    let key = lock_key(state);
    let Some(found) = cloud.fetch(Place { bucket: &state.bucket, key: &key }, 64 * 1024)? else { return Ok(None) };
    let info = serde_json::from_slice::<LockInfo>(&found.bytes).unwrap_or_else(|_| LockInfo {
        id: String::new(),
        operation: String::new(),
        created: String::new(),
    });
    let short = |text: String| text.chars().filter(|c| !c.is_control()).take(128).collect();
    Ok(Some(OrphanedLock { id: short(info.id), operation: short(info.operation), created: short(info.created) }))
}

#[cfg(test)]
#[path = "state_tests.rs"]
mod tests;
