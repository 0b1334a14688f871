//! The workspace's backend (`R1`): set by an override file and by arguments, and held here against what the engine then says
//! it has initialised.

use plangate_gate::failure::FailureReason;
use plangate_gate::order::WorkOrder;
use serde::Deserialize;
use serde_json::Value;

use crate::error::{Result, RunnerError};
use crate::estate::GATE_PROFILE;

/// What the engine keeps in its data folder about the backend that it has initialised.
#[derive(Deserialize)]
struct Initialised {
    backend: Option<InitialisedBackend>,
}

#[derive(Deserialize)]
struct InitialisedBackend {
    #[serde(rename = "type")]
    kind: String,
    config: serde_json::Map<String, Value>,
}

/// Checks that `initialised`, the engine's own record of its backend, says exactly what the order says.
///
/// # Errors
/// `backend-mismatch`, naming the settings that differ.
pub(crate) fn check(initialised: Option<&[u8]>, order: &WorkOrder) -> Result<()> {
    let mismatch = |detail: String| Err(RunnerError::failed(FailureReason::BackendMismatch, detail));
    let record = initialised.and_then(|bytes| serde_json::from_slice::<Initialised>(bytes).ok());
    let Some(backend) = record.and_then(|record| record.backend) else {
        return mismatch("the engine has initialised no backend".to_owned());
    };
    if backend.kind != "s3" {
        return mismatch("the engine has initialised another kind of backend than `s3`".to_owned());
    }
    let mut expected = order.backend_settings();
    expected.extend(profile(order).map(|profile| ("profile", Value::from(profile))));
    let mut wrong: Vec<&str> = expected
        .iter()
        .filter(|(name, value)| backend.config.get(**name) != Some(value))
        .map(|(name, _)| *name)
        .collect();
    let set = |value: &Value| match value {
        Value::Null => false,
        Value::Array(list) => !list.is_empty(),
        Value::Object(map) => !map.is_empty(),
        _ => true,
    };
    wrong.extend(
        backend
            .config
            .iter()
            .filter(|(name, value)| !expected.contains_key(name.as_str()) && set(value))
            .map(|(name, _)| name.as_str()),
    );
    if wrong.is_empty() {
        return Ok(());
    }
    wrong.sort_unstable();
    mismatch(format!("the backend's settings are not the workspace's: {}", wrong.join(", ")))
}

/// The arguments of `init` that set the backend.
pub(crate) fn arguments(order: &WorkOrder) -> impl Iterator<Item = String> {
    let profile = profile(order).map(|profile| format!("profile={profile}"));
    order.backend_arguments().chain(profile).map(|setting| format!("-backend-config={setting}"))
}

/// In an estate elsewhere the engine is by default somebody there; the state stays with the task's own role.
fn profile(order: &WorkOrder) -> Option<&'static str> {
    order.estate.as_ref().map(|_| GATE_PROFILE)
}

#[cfg(test)]
#[path = "backend_tests.rs"]
mod tests;
