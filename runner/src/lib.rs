//! The runner: the one program of a task. It takes a work order, plans or applies with the pinned engine under the
//! workspace's identity, and leaves a receipt.

pub mod aws;
pub mod cloud;
pub mod config;
pub mod engine;
pub mod environment;
pub mod error;
pub mod estate;
pub mod log;
pub mod mask;
pub mod task;

mod apply;
mod backend;
mod folder;
mod identity;
mod image;
mod leftovers;
mod lines;
mod order;
mod output;
mod phase;
mod plan;
mod prepare;
mod printed;
mod providers;
mod secrets;
mod state;

use std::io::Write;
use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use plangate_gate::time::Timestamp;
use ring::rand::{SecureRandom, SystemRandom};
use rustix::fs::Mode;
use rustix::process::DumpableBehavior;

use crate::config::Config;
use crate::engine::Stop;
use crate::environment::Invocation;
use crate::error::{Result, RunnerError, io};
use crate::printed::Printed;
use crate::task::{Task, run};

/// The whole program. Started as a task, its exit code is 0 if and only if it has written a receipt, whatever that says. `--check`, which is for
/// the image's build, looks at the image and does no more.
#[must_use]
pub fn main() -> ExitCode {
    let done = if std::env::args_os().skip(1).eq(["--check"]) { look() } else { task() };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let _ = writeln!(printed(), "plangate: no receipt was written: {error}");
            ExitCode::FAILURE
        }
    }
}

/// The settings that stand beside the program.
fn settings() -> Result<Config> {
    let own = std::env::current_exe()
        .map_err(|error| RunnerError::unusable(format!("where the runner stands is not known: {}", error.kind())))?;
    Config::load(&own.with_file_name("runner.json"))
}

fn look() -> Result<()> {
    let told = image::check(&settings()?, Path::new("/"), &std::env::var("ENGINES").unwrap_or_default())?;
    writeln!(std::io::stdout(), "{told}").map_err(io("print"))
}

fn task() -> Result<()> {
    // The engine may be the same user: other processes of that user must read neither this one's memory nor its environment.
    rustix::process::set_dumpable_behavior(DumpableBehavior::NotDumpable)
        .map_err(|error| RunnerError::unusable(format!("cannot close its memory: {error}")))?;
    let stop = Stop::on_signals()?;
    // Engines write their files for everybody to read.
    rustix::process::umask(Mode::RWXG | Mode::RWXO);
    leftovers::inherit()?;
    let config = settings()?;
    let variables =
        std::env::vars_os().filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)));
    let invocation = Invocation::from_variables(variables)?;
    let cloud = aws::Aws::new(&config, &invocation, unique()?)?;
    // From here on time only runs forward, whatever happens to the clock.
    let (began, start) = (Instant::now(), now()?);
    let clock = || start.plus_seconds(u32::try_from(began.elapsed().as_secs()).unwrap_or(u32::MAX));
    // Only root can become another user.
    let user = config.engine_user.filter(|_| rustix::process::geteuid().is_root());
    run(Task {
        config: &config,
        cloud: &cloud,
        invocation: &invocation,
        clock: &clock,
        stop: &stop,
        user,
        end_leftovers: true,
        retry_pause: Duration::from_secs(2),
        out: Box::new(printed()),
    })
    .map(drop)
}

/// Standard output, as lines that name what the task was started for.
fn printed() -> Printed<std::io::Stdout> {
    Printed::new(std::io::stdout(), |name| std::env::var(name).ok())
}

/// A name that no other task has or can guess.
fn unique() -> Result<String> {
    let mut bytes = [0; 16];
    SystemRandom::new().fill(&mut bytes).map_err(|_| RunnerError::unusable("the platform gives no randomness"))?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// The time when the task begins.
fn now() -> Result<Timestamp> {
    let seconds = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    let moment = i64::try_from(seconds).ok().and_then(|seconds| Timestamp::from_unix_seconds(seconds).ok());
    moment.ok_or_else(|| RunnerError::unusable("the clock is set to no time between 1970 and 9999"))
}
