//! Evaluates rules in a process of its own: this program started again, with little memory, nothing in its environment,
//! and a clock as the last resort.

use std::io::{self, Read, Write};
use std::path::PathBuf;
use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use plangate_gate::guardrails::{Denial, RuleEngine};
use plangate_gate::policy::OwnRules;
use rustix::process::{Resource, Rlimit, setrlimit};
use serde::{Deserialize, Serialize};

use crate::evaluate::evaluate;

/// The argument by which a program is asked to evaluate rules.
const ARGUMENT: &str = "evaluate-own-rules";
/// The most memory of the process, in bytes: address space, of which the program itself takes a part.
const MEMORY: u64 = 256 * 1024 * 1024;
/// The most that it may read or write, in bytes.
const MESSAGE_LIMIT: u64 = 4 * 1024 * 1024;
/// When it has not answered by then it is ended. Steps and memory end it long before, if the machine is not stuck.
const PATIENCE: Duration = Duration::from_secs(20);

/// What the process is asked.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Question {
    rules: OwnRules,
    input: String,
}

/// What it answers: a rule's id and an address for each denial.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Answer {
    denials: Vec<(String, Option<String>)>,
}

/// An engine for own rules that starts a process for each evaluation.
#[derive(Debug, Clone)]
pub struct Sandbox {
    /// None where the system does not say which program this is: then no rules are ever answered.
    program: Option<PathBuf>,
}

impl Sandbox {
    /// Starts the program that is running, which must call [`serve`] before anything else.
    #[must_use]
    pub fn of_this_program() -> Self {
        Self { program: std::env::current_exe().ok() }
    }

    /// Starts `program`, which must call [`serve`].
    #[must_use]
    pub const fn of(program: PathBuf) -> Self {
        Self { program: Some(program) }
    }

    fn ask(&self, question: &Question) -> io::Result<Answer> {
        let program = self.program.as_ref().ok_or_else(|| io::Error::other("this program cannot find itself"))?;
        let mut child = Command::new(program)
            .arg(ARGUMENT)
            .env_clear()
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()?;
        let answer = converse(&mut child, question);
        // Whether it answered or not: nothing of it is left behind.
        let _ = child.kill();
        let status = child.wait()?;
        let bytes = answer?;
        if bytes.is_empty() {
            return Err(io::Error::other(format!("the rules' process ended without an answer ({status})")));
        }
        Ok(serde_json::from_slice(&bytes)?)
    }
}

/// Asks, and gives what the process answers in time.
fn converse(child: &mut Child, question: &Question) -> io::Result<Vec<u8>> {
    let bytes = serde_json::to_vec(question)?;
    let (Some(mut input), Some(output)) = (child.stdin.take(), child.stdout.take()) else {
        return Err(io::Error::other("the rules' process has no streams"));
    };
    let (sender, receiver) = mpsc::channel();
    // A thread reads while this one writes; it ends with the process, whose stream then ends.
    thread::spawn(move || {
        let mut answer = Vec::new();
        let read = output.take(MESSAGE_LIMIT).read_to_end(&mut answer).map(|_| answer);
        // Nobody waits any more when patience has run out.
        let _ = sender.send(read);
    });
    input.write_all(&bytes)?;
    drop(input);
    receiver.recv_timeout(PATIENCE).map_err(io::Error::other)?
}

impl RuleEngine for Sandbox {
    fn denials(&self, rules: &OwnRules, input: &[u8]) -> Option<Vec<Denial>> {
        let input = String::from_utf8(input.to_vec()).ok()?;
        let answer = self.ask(&Question { rules: rules.clone(), input }).ok()?;
        Some(answer.denials.into_iter().map(|(rule, address)| Denial { rule, address }).collect())
    }
}

/// Evaluates rules if this program was started for that; every program with a [`Sandbox`] calls it first. None if it was
/// started for something else.
#[must_use]
pub fn serve() -> Option<ExitCode> {
    let mut arguments = std::env::args_os().skip(1);
    if arguments.next()? != ARGUMENT || arguments.next().is_some() {
        return None;
    }
    Some(if answer().is_some() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn answer() -> Option<()> {
    for (resource, most) in [(Resource::As, MEMORY), (Resource::Core, 0), (Resource::Fsize, 0)] {
        setrlimit(resource, Rlimit { current: Some(most), maximum: Some(most) }).ok()?;
    }
    let mut bytes = Vec::new();
    io::stdin().lock().take(MESSAGE_LIMIT).read_to_end(&mut bytes).ok()?;
    let question: Question = serde_json::from_slice(&bytes).ok()?;
    let denials = evaluate(&question.rules, question.input.as_bytes()).ok()?;
    let denials = denials.into_iter().map(|denial| (denial.rule, denial.address)).collect();
    io::stdout().lock().write_all(&serde_json::to_vec(&Answer { denials }).ok()?).ok()
}
