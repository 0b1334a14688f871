//! The runner's own settings: `runner.json` beside its executable, part of the image and out of a task's reach.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use plangate_gate::documents::{Engine, EngineName};
use plangate_gate::untrusted;
use serde::Deserialize;

use crate::error::{Result, RunnerError};

const CONFIG_LIMIT: usize = 256 * 1024;

/// The one schema of settings.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
pub enum ConfigSchema {
    /// The first.
    #[serde(rename = "plangate.runner.v1")]
    V1,
}

/// Everything that does not come from the work order.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// Always `plangate.runner.v1`.
    pub schema: ConfigSchema,
    /// The region of the gate.
    pub region: String,
    /// The bucket of orders, bundles, documents, claims, results, receipts and logs.
    pub exchange_bucket: String,
    /// The ARN of the key of plan documents.
    pub document_key: String,
    /// Another address for all AWS services; null for the usual ones.
    pub endpoint_url: Option<String>,
    /// The engines that the image carries (`R10`).
    pub engines: Vec<EngineBinary>,
    /// A folder of provider packages; null to install them from their registries.
    pub provider_mirror: Option<PathBuf>,
    /// Under this folder each run gets one of its own.
    pub work_root: PathBuf,
    /// Whom the engine runs as; null for the runner's own user.
    pub engine_user: Option<EngineUser>,
    /// Whose signatures an apply order needs.
    pub order_keys: Vec<OrderKey>,
    /// How much and how long.
    pub limits: Limits,
}

/// One engine of the image.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EngineBinary {
    /// Which engine.
    pub name: EngineName,
    /// Its exact version.
    pub version: String,
    /// Where its binary stands.
    pub path: PathBuf,
    /// The SHA-256 of the binary, 64 hex digits.
    pub sha256: String,
}

/// A user of the operating system.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EngineUser {
    /// The user id.
    pub uid: u32,
    /// The group id.
    pub gid: u32,
}

/// How a key that signs apply orders stands. Which one signs today is the gate's to know: it is one of those accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum KeyState {
    /// Its signature is good.
    Accepted,
    /// Its signature is recognised, and no longer good.
    Retired,
}

/// A key that signs apply orders, or did.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OrderKey {
    /// The key's ARN.
    pub key_id: String,
    /// Its public half, a P-256 key in PEM.
    pub public_key_pem: String,
    /// How it stands.
    pub state: KeyState,
}

/// Bounds of a phase. All are inclusive and positive.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Limits {
    /// Seconds that a plan phase may take; below the state machine's own timeout.
    pub plan_seconds: u64,
    /// Seconds that an apply phase may take; below the state machine's own timeout.
    pub apply_seconds: u64,
    /// Files of an unpacked bundle.
    pub bundle_files: usize,
    /// Bytes of a bundle, packed and unpacked.
    pub bundle_bytes: u64,
    /// Bytes of a plan document, and of a state.
    pub document_bytes: u64,
    /// Bytes of a plan artifact.
    pub artifact_bytes: u64,
    /// Bytes of a phase's log.
    pub log_bytes: u64,
    /// Seconds that the engine gets after a SIGTERM before it is killed.
    pub grace_seconds: u64,
}

impl Config {
    /// Reads and checks settings.
    ///
    /// # Errors
    /// [`RunnerError::Unusable`] naming the first field that says what it may not.
    pub fn parse(bytes: &[u8]) -> Result<Self> {
        let config: Self =
            untrusted::parse("runner configuration", bytes, CONFIG_LIMIT).map_err(RunnerError::unusable)?;
        config.check()?;
        Ok(config)
    }

    /// Reads the settings that stand in `file`.
    ///
    /// # Errors
    /// [`RunnerError::Unusable`] if there are none or they cannot be used.
    pub fn load(file: &Path) -> Result<Self> {
        let bytes = std::fs::read(file)
            .map_err(|error| RunnerError::unusable(format!("`{}` cannot be read: {}", file.display(), error.kind())))?;
        Self::parse(&bytes)
    }

    fn check(&self) -> Result<()> {
        let require = |field: &str, holds: bool, expected: &str| {
            if holds {
                Ok(())
            } else {
                Err(RunnerError::unusable(format!("the runner configuration's `{field}` is not {expected}")))
            }
        };
        require("region", !self.region.is_empty(), "a region")?;
        require("exchange_bucket", !self.exchange_bucket.is_empty(), "a bucket")?;
        require("document_key", self.document_key.starts_with("arn:aws"), "the ARN of a key")?;
        require("engines", !self.engines.is_empty(), "a list of one engine or more")?;
        for engine in &self.engines {
            require("engines.path", engine.path.is_absolute(), "an absolute path")?;
            let hex = engine.sha256.len() == 64
                && engine.sha256.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b));
            require("engines.sha256", hex, "64 lower-case hex digits")?;
        }
        require("work_root", self.work_root.is_absolute(), "an absolute path")?;
        let mirror = self.provider_mirror.as_ref().is_none_or(|path| path.is_absolute());
        require("provider_mirror", mirror, "an absolute path or null")?;
        require("engine_user", self.engine_user.is_none_or(|user| user.uid != 0), "another user than root")?;
        let accepted = self.order_keys.iter().any(|key| key.state == KeyState::Accepted);
        require("order_keys", accepted, "a list of one accepted key or more")?;
        let ids: BTreeSet<&str> = self.order_keys.iter().map(|key| key.key_id.as_str()).collect();
        require("order_keys.key_id", ids.len() == self.order_keys.len(), "named once")?;
        let limits = &self.limits;
        let positive = limits.plan_seconds > 0
            && limits.apply_seconds > 0
            && limits.bundle_files > 0
            && limits.bundle_bytes > 0
            && limits.document_bytes > 0
            && limits.artifact_bytes > 0
            && limits.log_bytes > 0
            && limits.grace_seconds > 0;
        require("limits", positive, "a set of positive numbers")
    }

    /// The binary of exactly that engine.
    #[must_use]
    pub fn engine(&self, engine: &Engine) -> Option<&EngineBinary> {
        self.engines.iter().find(|binary| binary.name == engine.name && binary.version == engine.version)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn good() -> serde_json::Value {
        serde_json::json!({
            "schema": "plangate.runner.v1", "region": "eu-central-1", "exchange_bucket": "exchange",
            "document_key": "arn:aws:kms:eu-central-1:123456789012:key/1", "endpoint_url": null,
            "engines": [{"name": "terraform", "version": "1.11.4", "path": "/opt/terraform", "sha256": "0".repeat(64)}],
            "provider_mirror": null, "work_root": "/work", "engine_user": {"uid": 1000, "gid": 1000},
            "order_keys": [{"key_id": "arn:aws:kms:eu-central-1:123456789012:key/2", "public_key_pem": "-----",
                            "state": "accepted"}],
            "limits": {"plan_seconds": 3000, "apply_seconds": 3000, "bundle_files": 10000, "bundle_bytes": 1,
                       "document_bytes": 1, "artifact_bytes": 1, "log_bytes": 1, "grace_seconds": 100}
        })
    }

    #[test]
    fn settings_are_read_strictly() {
        let config = Config::parse(&serde_json::to_vec(&good()).unwrap()).unwrap();
        let engine = |version: &str| Engine { name: EngineName::Terraform, version: version.to_owned() };
        assert!(config.engine(&engine("1.11.4")).is_some());
        assert!(config.engine(&engine("1.11.5")).is_none());
        for (pointer, bad) in [
            ("/engines/0/path", serde_json::json!("terraform")),
            ("/engines/0/sha256", serde_json::json!("ABC")),
            ("/work_root", serde_json::json!("work")),
            ("/provider_mirror", serde_json::json!("mirror")),
            ("/engine_user/uid", serde_json::json!(0)),
            ("/order_keys", serde_json::json!([])),
            ("/order_keys/0/state", serde_json::json!("retired")),
            ("/order_keys/0/state", serde_json::json!("active")),
            ("/limits/grace_seconds", serde_json::json!(0)),
            ("/schema", serde_json::json!("plangate.runner.v2")),
        ] {
            let mut settings = good();
            *settings.pointer_mut(pointer).unwrap() = bad;
            assert!(Config::parse(&serde_json::to_vec(&settings).unwrap()).is_err(), "`{pointer}`");
        }
        let mut settings = good();
        let twin = settings["order_keys"][0].clone();
        settings["order_keys"].as_array_mut().unwrap().push(twin);
        assert!(Config::parse(&serde_json::to_vec(&settings).unwrap()).is_err(), "a key is named once");
        let mut settings = good();
        settings["more"] = serde_json::json!(1);
        assert!(Config::parse(&serde_json::to_vec(&settings).unwrap()).is_err());
    }
}
