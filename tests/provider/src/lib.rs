//! A provider for tests, `registry.terraform.io/plangate/sample`, and the filesystem mirror that serves it.
//!
//! Its one resource, `sample_thing`, has `name` (another name replaces it), `size` (changed in place), the computed `id`
//! and the computed and sensitive `token`. It lives in the state alone, unless a test sets `file` (each apply adds
//! a line to it), `fail` (apply fails), `hold_until` or `hold_apply_until` (plan and apply, or apply alone, wait until
//! that file exists; `<file>.waiting` appears when they begin to).
//!
//! The provider is a package of its own under `plugin/`, built on first use.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The provider's full address.
pub const SOURCE: &str = "registry.terraform.io/plangate/sample";

/// Its one version.
pub const VERSION: &str = "0.1.0";

/// The name of its program.
const PROGRAM: &str = "terraform-provider-sample";

/// A filesystem mirror that holds the provider for this platform.
#[derive(Debug, Clone)]
pub struct Mirror {
    dir: PathBuf,
}

impl Mirror {
    /// Builds the provider, if need be, and lays it out below `dir`, which is made if it does not exist.
    ///
    /// # Errors
    ///
    /// When the provider cannot be built or `dir` cannot be written.
    pub fn lay_out(dir: &Path) -> io::Result<Self> {
        let built = build()?;
        // Engines may run elsewhere than the tests do.
        let mirror = Self { dir: std::path::absolute(dir)? };
        let to = mirror.program();
        fs::create_dir_all(to.parent().unwrap_or(dir))?;
        fs::copy(built, to)?;
        Ok(mirror)
    }

    /// The mirror's folder.
    #[must_use]
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// The provider's program in the mirror.
    #[must_use]
    pub fn program(&self) -> PathBuf {
        let folder = self.dir.join(SOURCE).join(VERSION).join(platform());
        folder.join(format!("{PROGRAM}_v{VERSION}"))
    }

    /// A CLI configuration for the engine: the mirror serves the provider, and nothing is fetched.
    #[must_use]
    pub fn cli_configuration(&self) -> String {
        // Debug output quotes like HCL does, for paths without `${`.
        format!("provider_installation {{\n  filesystem_mirror {{\n    path = {:?}\n  }}\n}}\n", self.dir)
    }

    /// Writes `.terraform.lock.hcl` into the configuration folder `configuration`, with the provider's `h1` hash for
    /// this platform, by the engine's own `providers lock`.
    ///
    /// # Errors
    ///
    /// When the engine cannot be started or refuses.
    pub fn lock(&self, engine: &Path, configuration: &Path) -> io::Result<()> {
        let output = Command::new(engine)
            .args(["providers", "lock", "-no-color"])
            .arg(format!("-fs-mirror={}", self.dir.display()))
            .arg(format!("-platform={}", platform()))
            .arg(SOURCE)
            .current_dir(configuration)
            .env("CHECKPOINT_DISABLE", "1")
            .output()?;
        if output.status.success() {
            return Ok(());
        }
        Err(io::Error::other(String::from_utf8_lossy(&output.stderr).into_owned()))
    }

    /// Puts another program in the provider's place that works the same: one byte longer, so its hash is another.
    ///
    /// # Errors
    ///
    /// When the mirror cannot be written.
    pub fn swap_program(&self) -> io::Result<()> {
        let program = self.program();
        let swapped = program.with_extension("swapped");
        fs::copy(&program, &swapped)?;
        io::Write::write_all(&mut fs::File::options().append(true).open(&swapped)?, b"\n")?;
        fs::rename(swapped, program)
    }
}

/// The platform as engines write it.
#[must_use]
pub fn platform() -> String {
    let os = match std::env::consts::OS {
        "macos" => "darwin",
        os => os,
    };
    let architecture = match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    };
    format!("{os}_{architecture}")
}

/// Builds the provider and gives its program. Cargo's own lock lets several tests ask at once.
fn build() -> io::Result<PathBuf> {
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    let target = match std::env::var_os("CARGO_TARGET_DIR") {
        Some(target) => PathBuf::from(target),
        None => package.join("../../target"),
    }
    .join("test-provider");
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .args(["build", "--quiet", "--locked", "--manifest-path"])
        .arg(package.join("plugin/Cargo.toml"))
        .arg("--target-dir")
        .arg(&target)
        .env("PROTOC", protoc::protoc_bin_path())
        // The tests' own build may be for coverage, for another target, or have warnings denied.
        .env_remove("RUSTFLAGS")
        .env_remove("CARGO_ENCODED_RUSTFLAGS")
        .env_remove("CARGO_BUILD_TARGET")
        .output()?;
    if !output.status.success() {
        return Err(io::Error::other(String::from_utf8_lossy(&output.stderr).into_owned()));
    }
    Ok(target.join("debug").join(PROGRAM))
}
