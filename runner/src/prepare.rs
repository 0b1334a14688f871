//! What both phases begin with: the bundle unpacked, the engine checked, its environment built from nothing, the
//! workspace's backend initialised and held against the order.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use plangate_bundle::{Dialect, Limits, unpack_verified};
use plangate_gate::documents::EngineName;
use plangate_gate::failure::FailureReason;
use plangate_gate::run::LockFile;
use serde::Deserialize;

use crate::backend;
use crate::cloud::Place;
use crate::config::EngineBinary;
use crate::engine::{Ended, Engine, Output, Stopped};
use crate::error::{Result, RunnerError};
use crate::estate::{self, Entered};
use crate::folder::{Folder, read_plain};
use crate::phase::Phase;
use crate::providers;
use crate::secrets::{Secrets, variable_file};

/// Nothing of the image but the ordinary tools that a provisioner expects.
const PATH: &str = "/usr/bin:/bin";

/// Everything that an engine needs before it may plan or apply.
pub(crate) struct Prepared {
    /// The run's folder; it goes when this goes.
    pub(crate) folder: Folder,
    /// The engine, ready to be run in the source.
    pub(crate) engine: Engine,
    /// Which engine it is.
    pub(crate) dialect: Dialect,
    /// The file with the secrets, if the workspace has any.
    pub(crate) secrets_file: Option<PathBuf>,
    /// The dependency lock (`R11`).
    pub(crate) lock_file: LockFile,
    configuration: plangate_bundle::CheckedConfiguration,
    platform: String,
}

impl Prepared {
    /// Makes the run's folder, unpacks the bundle into it, and checks bundle and engine. Nothing of the bundle runs.
    pub(crate) fn unpack(phase: &mut Phase<'_>, secrets: &Secrets) -> Result<Self> {
        let binary = find_engine(phase)?.clone();
        let dialect = match binary.name {
            EngineName::Terraform => Dialect::Terraform,
            EngineName::Opentofu => Dialect::OpenTofu,
        };
        let limits = &phase.config.limits;
        let bundle = &phase.order.bundle;
        let place = Place { bucket: &bundle.bucket, key: &bundle.key };
        if bundle.bytes > limits.bundle_bytes {
            let detail =
                format!("the bundle has {} bytes; more than {} are not unpacked", bundle.bytes, limits.bundle_bytes);
            return Err(RunnerError::failed(FailureReason::BundleRefused, detail));
        }
        let missing = || RunnerError::failed(FailureReason::BundleInvalid, format!("there is no bundle `{place}`"));
        let archive = phase.cloud.fetch(place, limits.bundle_bytes)?.ok_or_else(missing)?;

        let folder = Folder::create(&phase.config.work_root, &phase.order.run, phase.user)?;
        let bounds = Limits {
            archive_bytes: limits.bundle_bytes,
            unpacked_bytes: limits.bundle_bytes,
            files: limits.bundle_files,
            ..Limits::default()
        };
        let source = unpack_verified(archive.bytes.as_slice(), &bundle.digest, &folder.source(), &bounds)?;
        drop(archive);
        let configuration = source.make_ready(dialect, &folder.data())?;
        let lock_file = source.lock_file_digest().map_or(LockFile::None, LockFile::Present);
        folder.hand_over(&folder.source())?;
        folder.hand_over(&folder.data().join("modules"))?;

        let secrets_file =
            if secrets.is_empty() { None } else { Some(folder.give("secrets.tfvars.json", &variable_file(secrets))?) };
        let cli_config = folder.give("engine.tfrc", cli_config(phase.config.provider_mirror.as_deref()).as_bytes())?;
        let estate = estate::enter(phase, &folder)?;
        let engine = Engine {
            binary: binary.path.clone(),
            environment: environment(phase, &folder, &cli_config, estate.as_ref()),
            directory: folder.source(),
            user: phase.user,
            grace: Duration::from_secs(limits.grace_seconds),
            deadline: estate.map_or(phase.deadline, |estate| estate.until.min(phase.deadline)),
            stop: phase.stop.clone(),
            end_leftovers: phase.end_leftovers,
        };
        let mut prepared =
            Self { folder, engine, dialect, secrets_file, lock_file, configuration, platform: String::new() };
        prepared.platform = prepared.check_version(phase, &binary)?;
        Ok(prepared)
    }

    /// Asks the binary itself for its version (`R10`) and gives its platform.
    fn check_version(&self, phase: &mut Phase<'_>, binary: &EngineBinary) -> Result<String> {
        #[derive(Deserialize)]
        struct Version {
            terraform_version: String,
            platform: String,
        }
        let mismatch = |detail: String| RunnerError::failed(FailureReason::EngineVersionMismatch, detail);
        let ended = self.engine.run(&["version", "-json"], Output::Keep(1024 * 1024), phase.log)?;
        check_stopped(&ended, phase)?;
        let version: Version = (ended.code == 0)
            .then(|| serde_json::from_slice(&ended.kept).ok())
            .flatten()
            .ok_or_else(|| mismatch("the engine does not tell its version".to_owned()))?;
        if version.terraform_version != binary.version {
            let detail = format!("the engine is {}, and {} is pinned", version.terraform_version, binary.version);
            return Err(mismatch(detail));
        }
        let plain = |b: u8| b.is_ascii_alphanumeric() || b == b'_';
        if version.platform.is_empty() || !version.platform.bytes().all(plain) {
            return Err(mismatch("the engine does not tell its platform".to_owned()));
        }
        phase.log.text(&format!("plangate: {} on {}", phase.order.engine, version.platform));
        Ok(version.platform)
    }

    /// Gives the engine a fresh session of the estate's role, where the estate is in another account: what follows may take long.
    pub(crate) fn enter_again(&mut self, phase: &mut Phase<'_>) -> Result<()> {
        if let Some(entered) = estate::enter(phase, &self.folder)? {
            self.engine.deadline = entered.until.min(phase.deadline);
        }
        Ok(())
    }

    /// `init`, then the lock file and the backend as the engine really has them.
    pub(crate) fn initialise(&self, phase: &mut Phase<'_>) -> Result<()> {
        let mut arguments: Vec<OsString> =
            ["init", "-input=false", "-json", "-get=false", "-lockfile=readonly"].map(OsString::from).into();
        arguments.extend(backend::arguments(phase.order).map(OsString::from));
        arguments.extend(self.early_variables());
        let ended = self.run(phase, "init", &arguments, Output::Log)?;
        check_stopped(&ended, phase)?;
        if ended.code != 0 {
            let reason = if ended.lock_named { FailureReason::LockFileInvalid } else { FailureReason::InitFailed };
            return Err(RunnerError::failed(reason, format!("`init` ended with exit code {}", ended.code)));
        }
        if ended.lock_warning {
            let detail = format!("the lock file lacks hashes for {}", self.platform);
            return Err(RunnerError::failed(FailureReason::LockFileInvalid, detail));
        }
        if let Some(lock) = self.configuration.lock() {
            providers::check(lock, &self.folder.data(), &self.platform)?;
        }
        let record = read_plain(&self.folder.data().join("terraform.tfstate"), 1024 * 1024)
            .map_err(|error| error.because(FailureReason::BackendMismatch))?;
        backend::check(record.as_deref(), phase.order)
    }

    /// `show -json` of a plan file: its document.
    pub(crate) fn show(&self, phase: &mut Phase<'_>, plan: &Path) -> Result<Vec<u8>> {
        let mut arguments: Vec<OsString> = ["show", "-json"].map(OsString::from).into();
        arguments.extend(self.early_variables());
        arguments.push(plan.into());
        let ended = self.run(phase, "show", &arguments, Output::Keep(phase.config.limits.document_bytes))?;
        let failed = |detail: String| Err(RunnerError::failed(FailureReason::PlanErrored, detail));
        if ended.stopped == Some(Stopped::Output) {
            return failed(format!("the plan document exceeds {} bytes", phase.config.limits.document_bytes));
        }
        check_stopped(&ended, phase)?;
        if ended.code == 0 { Ok(ended.kept) } else { failed(format!("`show` ended with exit code {}", ended.code)) }
    }

    /// Runs the engine and says so in the log.
    pub(crate) fn run(
        &self,
        phase: &mut Phase<'_>,
        name: &str,
        arguments: &[OsString],
        output: Output,
    ) -> Result<Ended> {
        phase.check_stop()?;
        phase.log.text(&format!("plangate: {name}"));
        phase.evidence.engine_ran = true;
        let ended = self.engine.run(arguments, output, phase.log)?;
        phase.log.text(&format!("plangate: {name} ended with exit code {}", ended.code));
        Ok(ended)
    }

    /// OpenTofu reads variables before it plans too, for instance for the encryption of plans and states.
    fn early_variables(&self) -> Option<OsString> {
        match self.dialect {
            Dialect::OpenTofu => self.secrets_file.as_deref().map(variable_argument),
            Dialect::Terraform => None,
        }
    }
}

/// The argument that names a variable file; a later one wins over every other source of a variable.
pub(crate) fn variable_argument(file: &Path) -> OsString {
    let mut argument = OsString::from("-var-file=");
    argument.push(file);
    argument
}

/// An engine that was made to end has failed, whatever its exit code.
pub(crate) fn check_stopped(ended: &Ended, phase: &Phase<'_>) -> Result<()> {
    match ended.stopped {
        None | Some(Stopped::Output) => Ok(()),
        Some(Stopped::Signal) => Err(phase.stopped()),
        Some(Stopped::Deadline) => Err(phase.timed_out()),
    }
}

/// The pinned engine's binary, its content checked (`R10`).
fn find_engine<'p>(phase: &Phase<'p>) -> Result<&'p EngineBinary> {
    let mismatch = |detail: String| RunnerError::failed(FailureReason::EngineVersionMismatch, detail);
    let binary = phase
        .config
        .engine(&phase.order.engine)
        .ok_or_else(|| mismatch(format!("the runner does not carry {}", phase.order.engine)))?;
    let found = providers::file_digest(&binary.path)?;
    if found.hex() == binary.sha256 {
        Ok(binary)
    } else {
        Err(mismatch(format!("the binary of {} is not the one that belongs to the runner", phase.order.engine)))
    }
}

/// The engine's own configuration: where providers come from, said explicitly, so that no folder is searched for them.
fn cli_config(mirror: Option<&Path>) -> String {
    let installation = match mirror {
        Some(path) => {
            let quoted = serde_json::Value::from(path.to_string_lossy()).to_string();
            format!("  filesystem_mirror {{\n    path = {quoted}\n  }}")
        }
        None => "  direct {}".to_owned(),
    };
    format!("disable_checkpoint = true\nprovider_installation {{\n{installation}\n}}\n")
}

/// The engine's environment. Nothing of the runner's own reaches it but the role's credentials.
fn environment(
    phase: &Phase<'_>,
    folder: &Folder,
    cli_config: &Path,
    estate: Option<&Entered>,
) -> Vec<(OsString, OsString)> {
    let home = folder.home();
    // No configuration of the AWS SDK but what stands here: without an estate elsewhere these files never exist.
    let (aws_config, aws_credentials) = match estate {
        Some(entered) => (entered.configuration.clone(), entered.credentials.clone()),
        None => (home.join("no-aws-config"), home.join("no-aws-credentials")),
    };
    let data = folder.data();
    let mut all: Vec<(OsString, OsString)> = [
        ("PATH", Path::new(PATH)),
        ("HOME", &home),
        ("TMPDIR", &home),
        ("TF_DATA_DIR", &data),
        ("TF_CLI_CONFIG_FILE", cli_config),
        ("TF_IN_AUTOMATION", Path::new("1")),
        ("TF_INPUT", Path::new("0")),
        ("CHECKPOINT_DISABLE", Path::new("1")),
        ("AWS_REGION", Path::new(&phase.config.region)),
        ("AWS_CONFIG_FILE", &aws_config),
        ("AWS_SHARED_CREDENTIALS_FILE", &aws_credentials),
        ("AWS_EC2_METADATA_DISABLED", Path::new("true")),
    ]
    .map(|(name, value)| (name.into(), value.into()))
    .into();
    if let Some(endpoint) = &phase.config.endpoint_url {
        all.push(("AWS_ENDPOINT_URL".into(), endpoint.into()));
    }
    // In an estate elsewhere a session in variables would go before the estate's: it stands in the file.
    let passed = |name: &str| estate.is_none() || name.starts_with("AWS_CONTAINER_");
    let credentials = phase.invocation.credentials().iter().filter(|(name, _)| passed(name));
    all.extend(credentials.map(|(name, value)| (name.into(), value.into())));
    all
}

#[cfg(test)]
#[path = "prepare_tests.rs"]
mod tests;
