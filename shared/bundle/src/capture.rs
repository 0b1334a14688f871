//! Fetching remote modules on the proposer's machine, so that they are part of the bundle (`R4`).

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use tempfile::TempDir;

use crate::check::{Found, walk};
use crate::manifest::{CAPTURED_MANIFEST, Captured, CapturedManifest, EngineManifest, Installed, package};
use crate::names::{MODULES, printable};
use crate::pack::folder_tree;
use crate::tree::{Node, Tree};
use crate::{BundleError, Dialect, Limits};

/// Remote modules fetched for one folder. They stand in a temporary folder until this is dropped.
#[derive(Debug)]
pub struct CapturedModules {
    scratch: Option<TempDir>,
}

impl CapturedModules {
    /// No modules: for a configuration that names no remote ones.
    #[must_use]
    pub const fn none() -> Self {
        Self { scratch: None }
    }

    /// The folder that becomes `.terraform/modules` of the bundle.
    pub(crate) fn folder(&self) -> Option<PathBuf> {
        self.scratch.as_ref().map(|scratch| scratch.path().join(MODULES))
    }
}

/// Fetches the remote modules of the configuration in `dir` with the engine's `get`, in a copy: the folder itself and
/// whatever was installed in it stay untouched. `engine` is the program; it is not started when no remote module is
/// named. It runs as the proposer, with their environment but for `TF_` settings that would change what it does.
///
/// # Errors
///
/// What [`crate::Bundle::build`] would refuse, or `module-capture-failed`.
pub fn capture_modules(
    dir: &Path,
    engine: &Path,
    dialect: Dialect,
    limits: &Limits,
) -> Result<CapturedModules, BundleError> {
    let tree = folder_tree(dir, &CapturedModules::none(), limits)?;
    let mut remote = false;
    walk(&tree, dialect, limits, &mut |_, _, _| {
        remote = true;
        Ok(None)
    })?;
    if !remote {
        return Ok(CapturedModules::none());
    }
    let scratch = tempfile::tempdir().map_err(BundleError::io("create", std::env::temp_dir()))?;
    copy(&tree, scratch.path())?;
    get(engine, scratch.path())?;
    let captured = CapturedModules { scratch: Some(scratch) };
    rewrite_manifest(dir, &captured, dialect, limits)?;
    Ok(captured)
}

/// Copies what would be bundled.
fn copy(tree: &Tree, into: &Path) -> Result<(), BundleError> {
    for (path, node) in tree.layout.iter() {
        let to = into.join(path);
        match node {
            Node::Folder { .. } => fs::create_dir_all(&to),
            Node::File { .. } => fs::copy(tree.disk(path), &to).map(|_| ()),
            Node::Link { target } => symlink(target, &to),
        }
        .map_err(BundleError::io("copy", &to))?;
    }
    Ok(())
}

fn get(engine: &Path, dir: &Path) -> Result<(), BundleError> {
    let mut command = Command::new(engine);
    command.args(["get", "-no-color"]).current_dir(dir).stdin(Stdio::null()).stdout(Stdio::null());
    for (name, _) in std::env::vars_os() {
        // Credentials for registries and the proposer's own CLI configuration stay.
        let name_text = name.to_string_lossy();
        let kept = name_text.starts_with("TF_TOKEN_") || name_text == "TF_CLI_CONFIG_FILE";
        if name_text.starts_with("TF_") && !kept {
            command.env_remove(&name);
        }
    }
    command.env("CHECKPOINT_DISABLE", "1").env("TF_IN_AUTOMATION", "1");
    let output = command.output().map_err(BundleError::io("start", engine))?;
    if output.status.success() {
        return Ok(());
    }
    let message = String::from_utf8_lossy(&output.stderr);
    let detail = message.lines().find(|line| line.contains("Error:")).unwrap_or("it gave no reason");
    let detail = printable(detail.trim_start_matches(['│', ' ']).trim().as_bytes());
    let engine = engine.file_name().unwrap_or(engine.as_os_str()).to_string_lossy().into_owned();
    Err(BundleError::CaptureFailed { engine, detail })
}

/// Replaces the engine's manifest, which may name anything, by ours of the remote modules alone.
fn rewrite_manifest(
    dir: &Path,
    captured: &CapturedModules,
    dialect: Dialect,
    limits: &Limits,
) -> Result<(), BundleError> {
    let Some(modules) = captured.folder() else { return Ok(()) };
    let file = modules.join("modules.json");
    let bytes = fs::read(&file).map_err(BundleError::io("read", &file))?;
    let engine_manifest: EngineManifest = serde_json::from_slice(&bytes).map_err(|error| {
        let detail = format!("line {}, column {}", error.line(), error.column());
        BundleError::ConfigurationUnparseable { path: CAPTURED_MANIFEST.to_owned(), detail }
    })?;
    let installed: BTreeMap<String, Installed> =
        engine_manifest.modules.into_iter().map(|module| (module.key.clone(), module)).collect();
    let tree = folder_tree(dir, captured, limits)?;
    let walked = walk(&tree, dialect, limits, &mut |key, _, _| {
        let module = installed.get(key).ok_or("the engine did not install it")?;
        package(&module.dir).ok_or("the engine installed it somewhere else than in its own folder")?;
        let Installed { source, version, dir, .. } = module.clone();
        Ok(Some(Found { source, version, dir }))
    })?;
    let modules = walked
        .modules
        .into_iter()
        .filter_map(|module| {
            let (written, written_version) = module.written?;
            let Installed { key, source, version, dir } = module.installed;
            Some(Captured { key, source, version, dir, written, written_version })
        })
        .collect();
    let bytes = serde_json::to_vec(&CapturedManifest { modules })
        .map_err(|error| BundleError::io("write", &file)(std::io::Error::other(error)))?;
    fs::write(&file, bytes).map_err(BundleError::io("write", &file))
}
