//! The program itself, as a task starts it: an executable with its settings beside it, and nothing else.

use std::fs;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use plangate_gate::digest::Digest;
use plangate_gate::failure::FailureReason;
use plangate_gate::order::Phase;
use plangate_gate::receipt::{Planned, Receipt};
use serde_json::{Value, json};

use crate::http::serve;
use crate::memory::Memory;
use crate::stage::{EXCHANGE, Stage, WS, projection};

/// The engine of this machine and its version: `PLANGATE_ENGINE`, else `tofu`, else `terraform` from PATH.
pub(crate) fn engine() -> Option<(PathBuf, Value)> {
    let candidates = std::env::var_os("PLANGATE_ENGINE").map(PathBuf::from).into_iter();
    let path = std::env::var_os("PATH").unwrap_or_default();
    let in_path =
        |name: &'static str| std::env::split_paths(&path).map(move |folder| folder.join(name)).collect::<Vec<_>>();
    let found = candidates.chain(in_path("tofu")).chain(in_path("terraform")).find(|binary| binary.is_file());
    let Some(binary) = found else {
        println!("skipped: no engine; set PLANGATE_ENGINE or install `tofu` or `terraform`");
        return None;
    };
    let version = Command::new(&binary).args(["version", "-json"]).env("CHECKPOINT_DISABLE", "1").output().unwrap();
    let version: Value = serde_json::from_slice(&version.stdout).unwrap();
    let name = if binary.file_name().unwrap() == "tofu" { "opentofu" } else { "terraform" };
    let digest = Digest::of(&fs::read(&binary).unwrap()).hex();
    let entry = json!({"name": name, "version": version["terraform_version"], "path": binary, "sha256": digest});
    Some((binary, entry))
}

/// A stage whose tasks are processes.
pub(crate) struct Program {
    pub(crate) stage: Stage,
    /// Whether the credentials come from the container's endpoint and not from variables.
    pub(crate) from_container: bool,
    memory: Arc<Memory>,
    run: String,
    printed: String,
}

impl Program {
    /// The stage with the engine of `entry`, and its services behind an address.
    pub(crate) fn new((_, entry): (PathBuf, Value)) -> Self {
        let mut stage = Stage::planning();
        of_today(&mut stage);
        stage.order["engine"] = json!({"name": entry["name"], "version": entry["version"]});
        stage.settings["engines"] = json!([entry]);
        Self::over(stage)
    }

    /// That stage, its services behind an address.
    pub(crate) fn over(mut stage: Stage) -> Self {
        let memory = Arc::clone(&stage.memory);
        stage.settings["endpoint_url"] = json!(serve(&memory));
        let folder = stage.folder.path().join("bin");
        fs::create_dir(&folder).unwrap();
        fs::copy(env!("CARGO_BIN_EXE_plangate-runner"), folder.join("plangate-runner")).unwrap();
        Self {
            run: stage.order["run"].as_str().unwrap().to_owned(),
            stage,
            from_container: false,
            memory,
            printed: String::new(),
        }
    }

    pub(crate) fn memory(&self) -> &Memory {
        &self.memory
    }

    pub(crate) fn printed(&self) -> &str {
        &self.printed
    }

    pub(crate) fn log(&self, phase: &str) -> String {
        let stored = self.memory.get(EXCHANGE, &format!("logs/{WS}/{}/{phase}.log", self.run)).unwrap();
        String::from_utf8(stored.bytes).unwrap()
    }

    /// Turns to another run of the workspace.
    pub(crate) fn another_run(&mut self, run: &str) {
        run.clone_into(&mut self.run);
        self.stage.order["run"] = json!(run);
        self.stage.order["phase"] = json!("plan");
        self.stage.order.as_object_mut().unwrap().remove("approved");
    }

    /// Starts the task of the order as it stands, in an environment that holds more than it should.
    pub(crate) fn start(&self) -> Child {
        let bytes = serde_json::to_vec(&self.stage.order).unwrap();
        let phase = self.stage.phase();
        self.memory.put(EXCHANGE, &format!("orders/{WS}/{}/{phase}.json", self.run), &bytes, None);
        if phase == Phase::Apply {
            let key = format!("orders/{WS}/{}/apply.sig.json", self.run);
            self.memory.put(EXCHANGE, &key, &self.stage.sign(&bytes), None);
        }
        *self.memory.caller.lock().unwrap() =
            format!("arn:aws:sts::123456789012:assumed-role/{WS}-{phase}/0123456789abcdef");
        let folder = self.stage.folder.path().join("bin");
        fs::write(folder.join("runner.json"), self.stage.settings.to_string()).unwrap();
        let credentials = if self.from_container {
            let address = self.stage.settings["endpoint_url"].as_str().unwrap();
            vec![
                ("AWS_CONTAINER_CREDENTIALS_FULL_URI", format!("{address}/container/credentials")),
                ("AWS_CONTAINER_AUTHORIZATION_TOKEN", "container-token".to_owned()),
            ]
        } else {
            vec![
                ("AWS_ACCESS_KEY_ID", "ASIAEXAMPLE".to_owned()),
                ("AWS_SECRET_ACCESS_KEY", "session".to_owned()),
                ("AWS_SESSION_TOKEN", "token".to_owned()),
            ]
        };
        Command::new(folder.join("plangate-runner"))
            .env_clear()
            .envs(credentials)
            .env("PLANGATE_WORKSPACE", WS)
            .env("PLANGATE_RUN", &self.run)
            .env("PLANGATE_PHASE", phase.as_str())
            .env("TF_CLI_ARGS_plan", "-target=terraform_data.none")
            .env("TF_WORKSPACE", "other")
            .env("TF_VAR_password", "from-the-environment")
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap()
    }

    /// Waits for the task and gives its receipt.
    pub(crate) fn finish(&mut self, child: Child) -> Receipt {
        let output = child.wait_with_output().unwrap();
        let text = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        self.printed.push_str(&text);
        let key = format!("receipts/{WS}/{}/{}.json", self.run, self.stage.phase());
        let stored = self.memory.get(EXCHANGE, &key).unwrap_or_else(|| panic!("no receipt:\n{text}"));
        assert!(output.status.success(), "{text}");
        Receipt::parse_untrusted(&stored.bytes).unwrap()
    }

    pub(crate) fn plan(&mut self) -> Receipt {
        let child = self.start();
        self.finish(child)
    }

    /// Applies what was planned, approved as its document shows it.
    pub(crate) fn apply(&mut self, planned: &Planned) -> Receipt {
        let document = self.memory.get(EXCHANGE, &planned.document.key).unwrap().bytes;
        self.apply_showing(planned, projection(&document))
    }

    /// Turns to the apply of what was planned, approved as `shown`.
    pub(crate) fn approve(&mut self, planned: &Planned, shown: Digest) {
        self.stage.order["phase"] = json!("apply");
        self.stage.order["approved"] = json!({
            "artifact": planned.artifact, "projection": shown, "withhold": [], "lock_file": planned.lock_file,
            "state": planned.state
        });
    }

    pub(crate) fn apply_showing(&mut self, planned: &Planned, shown: Digest) -> Receipt {
        self.approve(planned, shown);
        let child = self.start();
        self.finish(child)
    }
}

/// The order's times are the real clock's here.
fn of_today(stage: &mut Stage) {
    stage.order["issued_at"] = json!("2026-01-01T00:00:00Z");
    stage.order["expires_at"] = json!("2100-01-01T00:00:00Z");
}

#[test]
fn without_settings_or_an_order_the_program_fails_and_says_why() {
    let mut stage = Stage::planning();
    of_today(&mut stage);
    let program = Program::over(stage);
    let binary = program.stage.folder.path().join("bin/plangate-runner");
    let output = Command::new(binary).env_clear().output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stdout).contains("runner.json"));
}

#[test]
fn a_sigterm_reaches_the_engine_and_the_task_still_leaves_its_receipt() {
    let mut stage = Stage::planning();
    of_today(&mut stage);
    // Besides, it leaves a process in a session of its own, which must not outlive the task.
    stage.engine(
        "plan",
        "umask > $F/umask; setsid sh -c 'echo $$ > $0/stray; while :; do sleep 0.05; done' $F &\n\
         trap 'exit 1' TERM; while [ ! -s $F/stray ]; do sleep 0.02; done; touch $F/ready; while :; do sleep 0.05; done",
    );
    let mut program = Program::over(stage);
    let at = program.stage.folder.path().join("engine");
    let child = program.start();
    while !at.join("ready").exists() {
        std::thread::yield_now();
    }
    let pid = rustix::process::Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    let receipt = program.finish(child);
    assert_eq!(receipt.failure.unwrap().reason, FailureReason::PlanErrored);
    assert_eq!(fs::read_to_string(at.join("umask")).unwrap().trim(), "0077", "an engine's files are its own");
    let stray = fs::read_to_string(at.join("stray")).unwrap();
    assert!(!PathBuf::from(format!("/proc/{}", stray.trim())).exists(), "a process outlived the task");
    assert!(!program.stage.run_folder().exists());
}
