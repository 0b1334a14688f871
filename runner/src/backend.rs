//! The workspace's backend (`R1`): set by an override file and arguments of ours, and held against what the engine
//! then says it has initialised.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::path::Path;

use plangate_gate::failure::FailureReason;
use plangate_gate::order::WorkOrder;
use rustix::fs::Mode;
use serde::Deserialize;
use serde_json::Value;

use crate::error::{Result, RunnerError, io};
use crate::estate::GATE_PROFILE;
use crate::folder::create_new;

/// Override files merge in the byte order of their names, the last one wins: `~` stands behind every letter.
const STEM: &str = "~plangate_override";

/// The body of the override file: an `s3` backend whose settings all come from arguments.
const OVERRIDE: &[u8] = b"{\"terraform\":{\"backend\":{\"s3\":{}}}}\n";

const ENDINGS: [&str; 4] = [".tf", ".tf.json", ".tofu", ".tofu.json"];

/// Writes our override file into `source`.
///
/// # Errors
/// `bundle-refused` if the bundle has an override file that would be read after ours, or one that OpenTofu would read
/// in the place of ours.
pub(crate) fn override_backend(source: &Path) -> Result<()> {
    // Both engines go by the whole name; a `.tofu` file replaces a `.tf` file of the same stem, and sorts no earlier.
    for entry in fs::read_dir(source).map_err(io("list the source"))? {
        let name = entry.map_err(io("list the source"))?.file_name();
        let name = name.to_string_lossy();
        let is_override = ENDINGS
            .iter()
            .filter_map(|ending| name.strip_suffix(ending))
            .any(|stem| stem == "override" || stem.ends_with("_override"));
        if is_override && name.as_bytes() >= STEM.as_bytes() {
            let detail = format!("the override file `{name}` sorts behind the gate's own: rename it");
            return Err(RunnerError::failed(FailureReason::BundleRefused, detail));
        }
    }
    let mut file = create_new(&source.join(format!("{STEM}.tf.json")), Mode::RUSR | Mode::WUSR)?;
    file.write_all(OVERRIDE).map_err(io("write the override file"))
}

/// The backend's settings, as the engine takes them.
fn settings(order: &WorkOrder) -> BTreeMap<&'static str, Value> {
    let mut settings = BTreeMap::from([
        ("bucket", Value::from(order.state.bucket.as_str())),
        ("key", Value::from(order.state.key.as_str())),
        ("region", Value::from(order.state.region.as_str())),
        ("use_lockfile", Value::from(true)),
        ("encrypt", Value::from(true)),
        ("kms_key_id", Value::from(order.sealed.key_arn.as_str())),
    ]);
    if order.estate.is_some() {
        // By default the engine is somebody in the estate.
        settings.insert("profile", Value::from(GATE_PROFILE));
    }
    settings
}

/// The arguments of `init` that set the backend.
#[must_use]
pub(crate) fn arguments(order: &WorkOrder) -> Vec<String> {
    settings(order)
        .into_iter()
        .map(|(name, value)| match value {
            Value::String(text) => format!("-backend-config={name}={text}"),
            other => format!("-backend-config={name}={other}"),
        })
        .collect()
}

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
    let expected = settings(order);
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

#[cfg(test)]
#[path = "backend_tests.rs"]
mod tests;
