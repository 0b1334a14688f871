//! A gate in small: one workspace, one run, its order, its bundle, and an engine that is a script.

use std::fs;
use std::io::{Cursor, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use base64::Engine as _;
use plangate_bundle::{Bundle, Limits};
use plangate_gate::digest::Digest;
use plangate_gate::document::PlanDocument;
use plangate_gate::failure::FailureReason;
use plangate_gate::order::Phase;
use plangate_gate::projection::{Projection, Withhold};
use plangate_gate::receipt::Receipt;
use plangate_gate::time::Timestamp;
use plangate_runner::config::Config;
use plangate_runner::engine::Stop;
use plangate_runner::environment::Invocation;
use plangate_runner::error::Result;
use plangate_runner::task::{Task, run};
use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_ASN1_SIGNING, EcdsaKeyPair, KeyPair};
use serde_json::{Value, json};

use crate::memory::Memory;

pub(crate) const EXCHANGE: &str = "exchange";
pub(crate) const SEALED: &str = "sealed";
pub(crate) const STATE_KEY: &str = "state/terraform.tfstate";
pub(crate) const WS: &str = "ws-0000000000000001";
pub(crate) const RUN: &str = "run-00000000000000000000000001";
pub(crate) const SEALED_KEY: &str = "arn:aws:kms:eu-central-1:123456789012:key/4d0d8a0e-0000-4000-8000-000000000001";
pub(crate) const DOCUMENT_KEY: &str = "arn:aws:kms:eu-central-1:123456789012:key/4d0d8a0e-0000-4000-8000-000000000002";
const ORDER_KEY: &str = "arn:aws:kms:eu-central-1:123456789012:key/4d0d8a0e-0000-4000-8000-000000000003";
pub(crate) const SECRET: &str = "hunter2-\"secret\"";
pub(crate) const NOW: &str = "2026-11-30T05:00:00Z";

/// The state that stands there before.
pub(crate) const STATE: &str = r#"{"version":4,"serial":3,"lineage":"l-1","resources":[]}"#;
/// What the script engine shows.
pub(crate) const DOCUMENT: &str = r#"{"format_version":"1.2","terraform_version":"9.9.9","variables":{"password":{"value":"an-older-secret"}},"resource_changes":[{"address":"terraform_data.a","mode":"managed","type":"terraform_data","name":"a","provider_name":"terraform.io/builtin/terraform","change":{"actions":["create"],"before":null,"after":{"input":"x"},"after_unknown":{"id":true},"before_sensitive":false,"after_sensitive":{}}}]}"#;

/// Everything around a task.
pub(crate) struct Stage {
    pub(crate) folder: tempfile::TempDir,
    pub(crate) memory: Arc<Memory>,
    pub(crate) settings: Value,
    pub(crate) order: Value,
    pub(crate) stop: Stop,
    pub(crate) now: &'static str,
    signer: EcdsaKeyPair,
    printed: Printed,
}

/// What a task has printed.
#[derive(Clone, Default)]
pub(crate) struct Printed(Arc<Mutex<Vec<u8>>>);

impl Write for Printed {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// A plan file as an engine writes it, made against `state`.
pub(crate) fn plan_file(state: &str) -> Vec<u8> {
    let mut zip = zip::ZipWriter::new(Cursor::new(Vec::new()));
    zip.start_file("tfstate", zip::write::SimpleFileOptions::default()).unwrap();
    zip.write_all(state.as_bytes()).unwrap();
    zip.finish().unwrap().into_inner()
}

/// The digest of what a document shows.
pub(crate) fn projection(document: &[u8]) -> Digest {
    let document = PlanDocument::parse_untrusted(document).unwrap();
    Projection::of(&document, &Withhold::of(&[]).unwrap()).digest()
}

impl Stage {
    /// A run about to be planned with the script engine, everything in order.
    pub(crate) fn planning() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let random = SystemRandom::new();
        let pkcs8 = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_ASN1_SIGNING, &random).unwrap();
        let signer = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_ASN1_SIGNING, pkcs8.as_ref(), &random).unwrap();
        let stage = Self {
            settings: settings(&folder, &signer),
            order: Value::Null,
            memory: Arc::new(Memory::default()),
            stop: Stop::default(),
            now: NOW,
            signer,
            printed: Printed::default(),
            folder,
        };
        let engine = stage.script_engine();
        let mut stage = stage;
        stage.settings["engines"] = json!([engine]);
        stage.memory.put(SEALED, STATE_KEY, STATE.as_bytes(), None);
        *stage.memory.caller.lock().unwrap() =
            format!("arn:aws:sts::123456789012:assumed-role/{WS}-plan/0123456789abcdef");
        stage.memory.parameters.lock().unwrap().insert(format!("/plangate/{WS}/password"), SECRET.to_owned());
        stage.order = json!({
            "schema": "plangate.work-order.v1", "audience": "plangate-runner", "run": RUN, "workspace": WS,
            "kind": "applicable", "phase": "plan", "attempt": 1, "fence": 7,
            "issued_at": "2026-11-30T04:59:00Z", "expires_at": "2026-11-30T06:00:00Z",
            "roles": {"plan": format!("arn:aws:iam::123456789012:role/plangate/plan/{WS}-plan"),
                      "apply": format!("arn:aws:iam::123456789012:role/plangate/apply/{WS}-apply")},
            "engine": {"name": "terraform", "version": "9.9.9"},
            "state": {"bucket": SEALED, "key": STATE_KEY, "region": "eu-central-1"},
            "secrets": [{"variable": "password", "parameter": format!("/plangate/{WS}/password")}],
            "sealed": {"bucket": SEALED, "key_arn": SEALED_KEY}
        });
        stage.bundle(&[("main.tf", "resource \"terraform_data\" \"a\" {\n  input = \"x\"\n}\n")]);
        stage
    }

    /// The same run, planned and approved, about to be applied.
    pub(crate) fn applying() -> Self {
        let mut stage = Self::planning();
        *stage.memory.caller.lock().unwrap() =
            format!("arn:aws:sts::123456789012:assumed-role/{WS}-apply/0123456789abcdef");
        let artifact = plan_file(STATE);
        let key = format!("artifacts/{RUN}/plan.tfplan");
        let version = stage.memory.put(SEALED, &key, &artifact, Some(SEALED_KEY));
        let state = stage.memory.get(SEALED, STATE_KEY).unwrap();
        stage.order["phase"] = json!("apply");
        stage.order["approved"] = json!({
            "artifact": {"bucket": SEALED, "key": key, "version_id": version,
                         "digest": Digest::of(&artifact), "bytes": artifact.len()},
            "projection": projection(DOCUMENT.as_bytes()), "withhold": [], "lock_file": "none",
            "state": {"state": "present", "lineage": "l-1", "serial": 3, "version_id": state.id,
                      "digest": Digest::of(&state.bytes)}
        });
        stage
    }

    /// Replaces the order's bundle by one of these files.
    pub(crate) fn bundle(&mut self, files: &[(&str, &str)]) {
        let source = tempfile::tempdir().unwrap();
        for (name, content) in files {
            let path = source.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, content).unwrap();
        }
        let bundle = Bundle::build(source.path(), &Limits::default()).unwrap();
        let key = format!("bundles/{WS}/{}.tar.zst", bundle.digest().hex());
        self.memory.put(EXCHANGE, &key, bundle.bytes(), None);
        self.order["bundle"] =
            json!({"bucket": EXCHANGE, "key": key, "digest": bundle.digest(), "bytes": bundle.bytes().len()});
    }

    /// An engine of version 9.9.9 that does what the scripts in `engine/` say.
    fn script_engine(&self) -> Value {
        let at = self.folder.path().join("engine");
        fs::create_dir(&at).unwrap();
        let backend = json!({"version": 3, "backend": {"type": "s3", "hash": 1, "config": {
            "bucket": SEALED, "key": STATE_KEY, "region": "eu-central-1", "use_lockfile": true, "encrypt": true,
            "kms_key_id": SEALED_KEY, "endpoints": null}}});
        fs::write(at.join("version.json"), r#"{"terraform_version":"9.9.9","platform":"linux_amd64"}"#).unwrap();
        fs::write(at.join("backend.json"), backend.to_string()).unwrap();
        fs::write(at.join("plan.zip"), plan_file(STATE)).unwrap();
        fs::write(at.join("document.json"), DOCUMENT).unwrap();
        for (name, script) in [("init", ""), ("plan", "exit 2"), ("show", "cat $F/document.json"), ("apply", "")] {
            fs::write(at.join(name), script).unwrap();
        }
        let script = format!(
            "#!/bin/sh\nF={}\necho \"$@\" >> $F/calls\ncase $1 in\n\
             version) cat $F/version.json ;;\n\
             init) cat $F/backend.json > $TF_DATA_DIR/terraform.tfstate; . $F/init ;;\n\
             plan) for a; do case $a in -out=*) cat $F/plan.zip > ${{a#-out=}} ;; esac; done; . $F/plan ;;\n\
             show) . $F/show ;;\n\
             apply) . $F/apply ;;\nesac\n",
            at.display()
        );
        let path = at.join("engine");
        fs::write(at.join("draft"), &script).unwrap();
        fs::set_permissions(at.join("draft"), fs::Permissions::from_mode(0o755)).unwrap();
        fs::rename(at.join("draft"), &path).unwrap();
        json!({"name": "terraform", "version": "9.9.9", "path": path, "sha256": Digest::of(script.as_bytes()).hex()})
    }

    /// Changes what the script engine does, or what it shows.
    pub(crate) fn engine(&self, name: &str, content: impl AsRef<[u8]>) {
        fs::write(self.folder.path().join("engine").join(name), content).unwrap();
    }

    /// What the script engine was called with, one call a line.
    pub(crate) fn calls(&self) -> String {
        fs::read_to_string(self.folder.path().join("engine/calls")).unwrap_or_default()
    }

    /// Where the run's folder would stand.
    pub(crate) fn run_folder(&self) -> PathBuf {
        self.folder.path().join("work").join(RUN)
    }

    /// The order's exact bytes, stored, and signed if it is for an apply.
    pub(crate) fn send_order(&self) -> Vec<u8> {
        let bytes = serde_json::to_vec(&self.order).unwrap();
        let phase = self.phase();
        self.memory.put(EXCHANGE, &format!("orders/{WS}/{RUN}/{phase}.json"), &bytes, None);
        if phase == Phase::Apply {
            self.memory.put(EXCHANGE, &format!("orders/{WS}/{RUN}/apply.sig.json"), &self.sign(&bytes), None);
        }
        bytes
    }

    /// The detached signature over `bytes`.
    pub(crate) fn sign(&self, bytes: &[u8]) -> Vec<u8> {
        let signature = self.signer.sign(&SystemRandom::new(), bytes).unwrap();
        let signature = base64::engine::general_purpose::STANDARD.encode(signature);
        let list = json!({"signatures": [{"key_id": ORDER_KEY, "algorithm": "ECDSA_SHA_256", "signature": signature}]});
        serde_json::to_vec(&list).unwrap()
    }

    pub(crate) fn phase(&self) -> Phase {
        self.order["phase"].as_str().unwrap().parse().unwrap()
    }

    /// Runs the task over the order as it stands in the store.
    pub(crate) fn run_as(&self, phase: Phase) -> Result<Receipt> {
        let config = Config::parse(&serde_json::to_vec(&self.settings).unwrap()).unwrap();
        let variables = [
            ("PLANGATE_WORKSPACE", WS),
            ("PLANGATE_RUN", RUN),
            ("PLANGATE_PHASE", phase.as_str()),
            ("AWS_ACCESS_KEY_ID", "ASIAEXAMPLE"),
            ("AWS_SECRET_ACCESS_KEY", "session"),
            ("AWS_SESSION_TOKEN", "token"),
        ];
        let variables = variables.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let invocation = Invocation::from_variables(variables).unwrap();
        run(Task {
            config: &config,
            cloud: &*self.memory,
            invocation: &invocation,
            clock: &|| self.now.parse::<Timestamp>().unwrap(),
            stop: &self.stop,
            user: None,
            end_leftovers: false,
            retry_pause: Duration::from_millis(1),
            out: Box::new(self.printed.clone()),
        })
    }

    /// Sends the order, runs the task, and gives the receipt as it stands in the store.
    pub(crate) fn run(&self) -> Receipt {
        let phase = self.phase();
        self.send_order();
        let receipt = self.run_as(phase).unwrap();
        let stored = self.memory.get(EXCHANGE, &format!("receipts/{WS}/{RUN}/{phase}.json")).unwrap();
        assert_eq!(Receipt::parse_untrusted(&stored.bytes).unwrap(), receipt);
        assert!(!self.run_folder().exists(), "the run's folder was left behind");
        receipt
    }

    /// The same for a phase that fails: its reason and its detail.
    pub(crate) fn fails(&self) -> (FailureReason, String) {
        let failure = self.run().failure.unwrap();
        (failure.reason, failure.detail)
    }

    /// What the task has printed so far.
    pub(crate) fn printed(&self) -> String {
        String::from_utf8(self.printed.0.lock().unwrap().clone()).unwrap()
    }
}

fn settings(folder: &tempfile::TempDir, signer: &EcdsaKeyPair) -> Value {
    let prefix = hex::decode("3059301306072a8648ce3d020106082a8648ce3d030107034200").unwrap();
    let der = [prefix.as_slice(), signer.public_key().as_ref()].concat();
    let pem = format!(
        "-----BEGIN PUBLIC KEY-----\n{}\n-----END PUBLIC KEY-----\n",
        base64::engine::general_purpose::STANDARD.encode(der)
    );
    json!({
        "schema": "plangate.runner.v1", "region": "eu-central-1", "exchange_bucket": EXCHANGE,
        "document_key": DOCUMENT_KEY, "endpoint_url": null, "engines": [], "provider_mirror": null,
        "work_root": folder.path().join("work"), "engine_user": null,
        "order_keys": [{"key_id": ORDER_KEY, "public_key_pem": pem, "state": "accepted"}],
        "limits": {"plan_seconds": 60, "apply_seconds": 60, "bundle_files": 100, "bundle_bytes": 1_000_000,
                   "document_bytes": 1_000_000, "artifact_bytes": 1_000_000, "log_bytes": 1_000_000,
                   "grace_seconds": 20}
    })
}
