//! `runner --check`: the last step of an image's build looks, inside it and as the user that it will run as, at what the image holds.

use std::io::Read;
use std::path::Path;

use crate::config::{Config, EngineBinary};
use crate::error::{Result, RunnerError, io};
use crate::providers::file_digest;

/// Where engines and the SDK look for certificates.
const CERTIFICATES: &str = "etc/ssl/certs/ca-certificates.crt";
/// What could be started in a container by whoever gets a foot into it.
const SHELLS: [&str; 4] = ["bin/sh", "bin/bash", "bin/busybox", "usr/bin/sh"];

/// Checks an image whose root is `root`: the engines are exactly those of `expected` (`NAME:VERSION:SHA256`, separated by commas) with
/// these digests (`R10`), there are certificates, the work folder can be written, and there is no shell. Gives a line for the build's log.
///
/// # Errors
/// [`RunnerError::Unusable`] naming what is not so.
pub(crate) fn check(config: &Config, root: &Path, expected: &str) -> Result<String> {
    let under = |path: &Path| root.join(path.strip_prefix("/").unwrap_or(path));
    let mut wanted: Vec<&str> = expected.split(',').collect();
    let mut told: Vec<String> = config.engines.iter().map(name).collect();
    wanted.sort_unstable();
    told.sort_unstable();
    if told != wanted {
        return Err(RunnerError::unusable(format!("the image has the engines {told:?}, ENGINES asks for {wanted:?}")));
    }
    for engine in &config.engines {
        let found = file_digest(&under(&engine.path)).map_err(RunnerError::unusable)?;
        if found.hex() != engine.sha256 {
            return Err(RunnerError::unusable(format!(
                "{} is another program than its digest says",
                engine.path.display()
            )));
        }
    }
    let mut begins = [0; 10];
    std::fs::File::open(root.join(CERTIFICATES))
        .and_then(|mut file| file.read_exact(&mut begins))
        .map_err(|error| RunnerError::unusable(format!("/{CERTIFICATES} cannot be read: {}", error.kind())))?;
    if let Some(shell) = SHELLS.iter().find(|shell| root.join(shell).exists()) {
        return Err(RunnerError::unusable(format!("the image has a shell: /{shell}")));
    }
    let work = under(&config.work_root);
    tempfolder(&work).map_err(|error| RunnerError::unusable(format!("{}: {error}", work.display())))?;
    Ok(format!("plangate: the image is whole: runner {}, {}", plangate_release::told(), told.join(", ")))
}

fn name(engine: &EngineBinary) -> String {
    format!("{}:{}:{}", engine.name.as_str(), engine.version, engine.sha256)
}

/// Makes a folder where runs will have theirs, and removes it.
fn tempfolder(work: &Path) -> Result<()> {
    let folder = work.join(".check");
    std::fs::create_dir(&folder).map_err(io("make a folder"))?;
    std::fs::remove_dir(&folder).map_err(io("remove a folder"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A root with one engine, and the settings that belong to it.
    fn image(root: &Path) -> (Config, String) {
        for folder in ["opt/engines", "etc/ssl/certs", "var/lib/plangate"] {
            std::fs::create_dir_all(root.join(folder)).unwrap();
        }
        std::fs::write(root.join("opt/engines/tofu"), b"engine").unwrap();
        std::fs::write(root.join(CERTIFICATES), b"-----BEGIN CERTIFICATE-----").unwrap();
        let sha256 = file_digest(&root.join("opt/engines/tofu")).unwrap().hex();
        let settings = serde_json::json!({
            "schema": "plangate.runner.v1", "region": "eu-central-1", "exchange_bucket": "exchange",
            "document_key": "arn:aws:kms:eu-central-1:123456789012:key/1", "endpoint_url": null,
            "engines": [{"name": "opentofu", "version": "1.11.4", "path": "/opt/engines/tofu", "sha256": sha256}],
            "provider_mirror": null, "work_root": "/var/lib/plangate", "engine_user": null,
            "order_keys": [{"key_id": "arn:aws:kms:eu-central-1:123456789012:key/2", "public_key_pem": "-", "state": "accepted"}],
            "limits": {"plan_seconds": 1, "apply_seconds": 1, "bundle_files": 1, "bundle_bytes": 1, "document_bytes": 1,
                       "artifact_bytes": 1, "log_bytes": 1, "grace_seconds": 1}
        });
        (Config::parse(&serde_json::to_vec(&settings).unwrap()).unwrap(), format!("opentofu:1.11.4:{sha256}"))
    }

    #[test]
    fn a_whole_image_is_told_with_its_engines() {
        let root = tempfile::tempdir().unwrap();
        let (config, engines) = image(root.path());
        assert!(check(&config, root.path(), &engines).unwrap().contains(&engines));
        assert_eq!(std::fs::read_dir(root.path().join("var/lib/plangate")).unwrap().count(), 0, "nothing is left");
    }

    #[test]
    fn an_image_with_other_engines_a_shell_or_no_certificates_is_refused() {
        type Spoilt = (&'static str, fn(&Path));
        let spoilt: [Spoilt; 5] = [
            ("another program", |root| std::fs::write(root.join("opt/engines/tofu"), b"other").unwrap()),
            ("cannot be read", |root| std::fs::remove_file(root.join(CERTIFICATES)).unwrap()),
            ("cannot be read", |root| std::fs::write(root.join(CERTIFICATES), b"").unwrap()),
            ("shell", |root| {
                std::fs::create_dir(root.join("bin")).unwrap();
                std::fs::write(root.join("bin/sh"), b"").unwrap();
            }),
            ("var/lib/plangate", |root| std::fs::remove_dir(root.join("var/lib/plangate")).unwrap()),
        ];
        for (reason, spoil) in spoilt {
            let root = tempfile::tempdir().unwrap();
            let (config, engines) = image(root.path());
            spoil(root.path());
            let refused = check(&config, root.path(), &engines).unwrap_err().to_string();
            assert!(refused.contains(reason), "{refused}");
        }
        let root = tempfile::tempdir().unwrap();
        let (config, engines) = image(root.path());
        for other in [String::new(), engines.replace("1.11.4", "1.11.5"), format!("{engines},{engines}")] {
            assert!(check(&config, root.path(), &other).unwrap_err().to_string().contains("ENGINES"), "{other}");
        }
    }
}
