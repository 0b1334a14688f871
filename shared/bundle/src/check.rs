//! Reading a whole configuration as the engine will: which modules it calls and from where, which providers it
//! needs, whether it tries to move the state, and whether its lock file is complete.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use crate::config::{Facts, Literal, read_facts};
use crate::lock::{LOCK_FILE_NAME, LockFile};
use crate::manifest::{EngineManifest, Installed, captured, package};
use crate::tree::Tree;
use crate::{BundleError, Dialect, Limits};

/// What a configuration needs, all of it found in its bundle.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CheckedConfiguration {
    module_manifest: Vec<u8>,
    lock: Option<LockFile>,
    providers: BTreeSet<String>,
}

impl CheckedConfiguration {
    /// The engine's module manifest for this bundle. Written to `modules/modules.json` of the engine's data folder, it
    /// makes `init -get=false` find every module where the bundle has it, and lets the engine fetch none.
    #[must_use]
    pub fn module_manifest(&self) -> &[u8] {
        &self.module_manifest
    }

    /// The dependency lock (`R11`): present whenever [`Self::providers`] is not empty.
    #[must_use]
    pub const fn lock(&self) -> Option<&LockFile> {
        self.lock.as_ref()
    }

    /// The full addresses of the providers that the configuration names and that are not built into the engine.
    #[must_use]
    pub const fn providers(&self) -> &BTreeSet<String> {
        &self.providers
    }

    /// Checks the configuration of a tree.
    pub(crate) fn of(tree: &Tree, dialect: Dialect, limits: &Limits) -> Result<Self, BundleError> {
        let captured = captured(tree, limits)?;
        let walked = walk(tree, dialect, limits, &mut |key, source, version| {
            let module = captured.get(key).ok_or("its remote source is not in the bundle")?;
            if module.written != source || module.written_version.as_deref() != version {
                return Err("another source or version was captured than the configuration names");
            }
            Ok(Some(Found { source: module.source.clone(), version: module.version.clone(), dir: module.dir.clone() }))
        })?;
        let lock = tree.read(LOCK_FILE_NAME, limits)?.map(|bytes| LockFile::read(&bytes, limits)).transpose()?;
        if let (None, Some(provider)) = (&lock, walked.providers.first()) {
            return Err(BundleError::LockFileMissing { provider: provider.clone() });
        }
        let modules = walked.modules.into_iter().map(|module| module.installed).collect();
        let module_manifest = serde_json::to_vec(&EngineManifest { modules }).map_err(|error| {
            BundleError::Damaged { detail: format!("the module manifest cannot be written: {error}") }
        })?;
        Ok(Self { module_manifest, lock, providers: walked.providers })
    }
}

/// Where a remote module was installed.
pub(crate) struct Found {
    pub(crate) source: String,
    pub(crate) version: Option<String>,
    pub(crate) dir: String,
}

/// Tells where the remote module of a key, source and version constraint is; `None`: nowhere yet, pass over it; or
/// why it is refused.
pub(crate) type Lookup<'a> = dyn FnMut(&str, &str, Option<&str>) -> Result<Option<Found>, &'static str> + 'a;

/// A module that was walked.
#[derive(Debug)]
pub(crate) struct Walked {
    pub(crate) installed: Installed,
    /// Source and version constraint as written, for remote ones.
    pub(crate) written: Option<(String, Option<String>)>,
}

/// All modules in the order of their keys, and all providers.
#[derive(Debug)]
pub(crate) struct Configuration {
    pub(crate) modules: Vec<Walked>,
    pub(crate) providers: BTreeSet<String>,
}

/// Follows every module call from the top.
pub(crate) fn walk(
    tree: &Tree,
    dialect: Dialect,
    limits: &Limits,
    lookup: &mut Lookup<'_>,
) -> Result<Configuration, BundleError> {
    let mut cache: BTreeMap<String, Rc<Module>> = BTreeMap::new();
    let top = Installed { key: String::new(), source: String::new(), version: None, dir: ".".to_owned() };
    let mut modules = BTreeMap::from([(String::new(), Walked { installed: top, written: None })]);
    let mut open = vec![(String::new(), String::new())];
    let mut providers = BTreeSet::new();
    while let Some((key, dir)) = open.pop() {
        let module = match cache.get(&dir) {
            Some(module) => Rc::clone(module),
            None => {
                let module = Rc::new(Module::read(tree, &dir, dialect, limits)?);
                cache.insert(dir.clone(), Rc::clone(&module));
                module
            }
        };
        if key.is_empty() && module.files == 0 {
            return Err(BundleError::Empty { expected: dialect.endings() });
        }
        providers.extend(module.providers.iter().cloned());
        for (name, call) in &module.calls {
            let child = if key.is_empty() { name.clone() } else { format!("{key}.{name}") };
            let Some(walked) = locate(tree, &child, &dir, call, lookup)? else { continue };
            open.push((
                child.clone(),
                if walked.installed.dir == "." { String::new() } else { walked.installed.dir.clone() },
            ));
            modules.insert(child, walked);
            if modules.len() > limits.module_calls {
                return Err(BundleError::TooManyModules { limit: limits.module_calls });
            }
        }
    }
    Ok(Configuration { modules: modules.into_values().collect(), providers })
}

/// Finds the folder of one module call.
fn locate(
    tree: &Tree,
    key: &str,
    dir: &str,
    call: &Call,
    lookup: &mut Lookup<'_>,
) -> Result<Option<Walked>, BundleError> {
    let place = || if dir.is_empty() { ".".to_owned() } else { dir.to_owned() };
    let missing =
        |why: &str| BundleError::ModuleNotCaptured { module: key.to_owned(), path: place(), why: why.to_owned() };
    let escapes = || BundleError::ModulePathEscapes { module: key.to_owned(), path: place() };
    let Some(Literal::Text(source)) = &call.source else {
        return Err(missing("its source is not a plain string"));
    };
    let version = match &call.version {
        None => None,
        Some(Literal::Text(version)) => Some(version.as_str()),
        Some(Literal::Expression) => return Err(missing("its version is not a plain string")),
    };
    let (found, written) = match classify(source) {
        Place::Outside => return Err(escapes()),
        Place::Local => {
            let dir = join(dir, source).ok_or_else(escapes)?;
            (Found { source: normalized(source), version: None, dir }, None)
        }
        Place::Remote => match lookup(key, source, version).map_err(missing)? {
            None => return Ok(None),
            Some(found) => (found, Some((source.clone(), version.map(str::to_owned)))),
        },
    };
    if !tree.layout.resolve(&found.dir).is_some_and(|folder| tree.layout.is_folder(&folder)) {
        return Err(missing("its folder is not in the bundle"));
    }
    let dir = if found.dir.is_empty() { ".".to_owned() } else { found.dir };
    let installed = Installed { key: key.to_owned(), source: found.source, version: found.version, dir };
    Ok(Some(Walked { installed, written }))
}

/// Where a source points.
enum Place {
    /// Relative to the calling module.
    Local,
    /// A file of this machine that is not relative.
    Outside,
    /// A registry, a repository, a server.
    Remote,
}

fn classify(source: &str) -> Place {
    if source.contains('\\') {
        return Place::Outside;
    }
    if source.starts_with("./") || source.starts_with("../") {
        return Place::Local;
    }
    let lower = source.to_ascii_lowercase();
    let drive = source.as_bytes().get(1) == Some(&b':');
    if drive || lower.starts_with(['/', '~']) || lower.starts_with("file:") {
        return Place::Outside;
    }
    Place::Remote
}

/// The folder of a local source. It may not leave the folder, nor the package that it is in, nor enter the engine's
/// own folder.
fn join(dir: &str, source: &str) -> Option<String> {
    let package = package(dir);
    let mut at: Vec<&str> = dir.split('/').filter(|name| !name.is_empty()).collect();
    let floor = package.map_or(0, |package| package.split('/').count());
    for step in source.split('/') {
        match step {
            "" | "." => {}
            ".." if at.len() > floor => {
                at.pop();
            }
            ".." => return None,
            name => at.push(name),
        }
    }
    let joined = at.join("/");
    (package.is_some() || at.first() != Some(&".terraform")).then_some(joined)
}

/// A local source as the engine writes it in its manifest.
fn normalized(source: &str) -> String {
    let mut at: Vec<&str> = Vec::new();
    for step in source.split('/') {
        match step {
            "" | "." => {}
            ".." if at.last().is_some_and(|last| *last != "..") => {
                at.pop();
            }
            name => at.push(name),
        }
    }
    match (at.first(), at.join("/")) {
        (Some(&".."), joined) if joined == ".." => "../".to_owned(),
        (Some(&".."), joined) => joined,
        (_, joined) => format!("./{joined}"),
    }
}

/// A module call after override files.
#[derive(Debug, Default)]
struct Call {
    source: Option<Literal>,
    version: Option<Literal>,
}

/// One folder's configuration.
#[derive(Debug, Default)]
struct Module {
    files: usize,
    calls: BTreeMap<String, Call>,
    providers: BTreeSet<String>,
}

impl Module {
    fn read(tree: &Tree, dir: &str, dialect: Dialect, limits: &Limits) -> Result<Self, BundleError> {
        let mut module = Self::default();
        let mut required: BTreeMap<String, Option<String>> = BTreeMap::new();
        let mut uses = BTreeSet::new();
        let folder = tree.layout.resolve(dir).unwrap_or_default();
        let names: Vec<&str> = tree.layout.files_in(&folder).collect();
        for (name, is_override) in dialect.select(&names) {
            let path = if folder.is_empty() { name.to_owned() } else { format!("{folder}/{name}") };
            let Some(bytes) = tree.read(&path, limits)? else { continue };
            let Facts { modules, required: named, uses: used, state_block } = read_facts(&path, &bytes, limits)?;
            if let (true, Some(block), None) = (is_override, state_block, package(dir)) {
                return Err(BundleError::BackendInOverride { path, block });
            }
            for call in modules {
                if call.name.is_empty() || call.name.contains(['.', '/']) {
                    let detail = "a module's name is not an identifier".to_owned();
                    return Err(BundleError::ConfigurationUnparseable { path, detail });
                }
                let merged = module.calls.entry(call.name).or_default();
                merged.source = call.source.or(merged.source.take());
                merged.version = call.version.or(merged.version.take());
            }
            for (local, source) in named {
                let merged = required.entry(local).or_default();
                *merged = source.or(merged.take());
            }
            uses.extend(used);
            module.files += 1;
        }
        for local in uses {
            required.entry(local).or_default();
        }
        module.providers =
            required.iter().filter_map(|(local, source)| provider_address(local, source.as_deref(), dialect)).collect();
        Ok(module)
    }
}

/// The full address of a provider, `None` if it is built into the engine.
fn provider_address(local: &str, source: Option<&str>, dialect: Dialect) -> Option<String> {
    let registry = dialect.default_registry();
    let address = match source {
        None if local == "terraform" => return None,
        None => format!("{registry}/hashicorp/{local}"),
        Some(source) => match source.split('/').count() {
            1 => format!("{registry}/hashicorp/{source}"),
            2 => format!("{registry}/{source}"),
            _ => source.to_owned(),
        },
    };
    let address = address.to_ascii_lowercase();
    (address != "terraform.io/builtin/terraform").then_some(address)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn local_sources_stay_in_the_folder_and_in_their_package() {
        for (dir, source, expected) in [
            ("", "./net", Some("net")),
            ("", "./a/../b/", Some("b")),
            ("a/b", "../c", Some("a/c")),
            ("a", "../", Some("")),
            ("a", "../../x", None),
            ("", "../x", None),
            ("", "./.terraform/modules/vpc", None),
            (".terraform/modules/vpc/sub", "../other", Some(".terraform/modules/vpc/other")),
            (".terraform/modules/vpc", "../dns", None),
            (".terraform/modules/vpc/sub", "../../../../x", None),
        ] {
            assert_eq!(join(dir, source).as_deref(), expected, "{dir} {source}");
        }
    }

    #[test]
    fn absolute_sources_are_told_from_remote_ones() {
        for outside in ["/etc", "~/m", "file:///m", "FILE::/m", "file::/m", "C:/m", ".\\m", "..\\m"] {
            assert!(matches!(classify(outside), Place::Outside), "{outside}");
        }
        for remote in
            ["hashicorp/consul/aws", "git::https://example.org/m.git", "github.com/a/b", "s3::https://b/m.zip"]
        {
            assert!(matches!(classify(remote), Place::Remote), "{remote}");
        }
    }

    #[test]
    fn providers_are_named_in_full_unless_built_in() {
        let address = |local, source| provider_address(local, source, Dialect::Terraform);
        assert_eq!(address("terraform", None), None);
        assert_eq!(address("tf", Some("terraform.io/builtin/terraform")), None);
        assert_eq!(address("aws", None).as_deref(), Some("registry.terraform.io/hashicorp/aws"));
        assert_eq!(address("s", Some("plangate/sample")).as_deref(), Some("registry.terraform.io/plangate/sample"));
        let tofu = provider_address("aws", None, Dialect::OpenTofu);
        assert_eq!(tofu.as_deref(), Some("registry.opentofu.org/hashicorp/aws"));
    }
}
