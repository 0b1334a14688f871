//! Module manifests: the engine's own (`modules.json`), and ours of what was captured.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::names::{MODULES, check_path};
use crate::tree::Tree;
use crate::{BundleError, Limits};

/// Where the captured modules' manifest stands in a bundle.
pub(crate) const CAPTURED_MANIFEST: &str = ".terraform/modules/modules.json";

/// What the engine notes of one installed module.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(crate) struct Installed {
    /// The module's path, names joined by dots; empty for the top.
    pub(crate) key: String,
    /// Its source in the engine's full form.
    pub(crate) source: String,
    /// The version chosen, for registry modules.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub(crate) version: Option<String>,
    /// Its folder, relative to the top.
    pub(crate) dir: String,
}

/// The engine's manifest. Read without refusing unknown fields: it is the engine's to extend.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(crate) struct EngineManifest {
    /// All modules, the top included.
    pub(crate) modules: Vec<Installed>,
}

/// A captured remote module, with what the configuration said when it was captured.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", deny_unknown_fields)]
pub(crate) struct Captured {
    /// The module's path.
    pub(crate) key: String,
    /// Its source in the engine's full form.
    pub(crate) source: String,
    /// The version chosen.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub(crate) version: Option<String>,
    /// Its folder, below `.terraform/modules/`.
    pub(crate) dir: String,
    /// The source as the configuration has it.
    pub(crate) written: String,
    /// The version constraint as the configuration has it.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub(crate) written_version: Option<String>,
}

/// All captured modules.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", deny_unknown_fields)]
pub(crate) struct CapturedManifest {
    /// One record a call, in the order of the keys.
    pub(crate) modules: Vec<Captured>,
}

/// The captured modules of a tree by key; none without a manifest.
pub(crate) fn captured(tree: &Tree, limits: &Limits) -> Result<BTreeMap<String, Captured>, BundleError> {
    let refused = |detail: String| BundleError::ConfigurationUnparseable { path: CAPTURED_MANIFEST.to_owned(), detail };
    let Some(bytes) = tree.read(CAPTURED_MANIFEST, limits)? else { return Ok(BTreeMap::new()) };
    let manifest: CapturedManifest = serde_json::from_slice(&bytes)
        .map_err(|error| refused(format!("line {}, column {}", error.line(), error.column())))?;
    let mut modules = BTreeMap::new();
    for module in manifest.modules {
        let dir = check_path(module.dir.as_bytes(), limits)?;
        if package(&dir).is_none() {
            return Err(refused("a folder outside of the captured modules".to_owned()));
        }
        if let Some(twice) = modules.insert(module.key.clone(), module) {
            return Err(refused(format!("module `{}` twice", twice.key.escape_debug())));
        }
    }
    Ok(modules)
}

/// The package of a path below `.terraform/modules/`: the folder that was fetched as one.
pub(crate) fn package(dir: &str) -> Option<&str> {
    let rest = dir.strip_prefix(MODULES)?.strip_prefix('/')?;
    let name = rest.split('/').next()?;
    dir.get(..MODULES.len() + 1 + name.len())
}
