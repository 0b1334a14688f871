//! Running the engine: argv directly, an environment from nothing, a process group of its own, perhaps another user,
//! bounded in time and output, and stopped the way that lets it save its state.

use std::ffi::{OsStr, OsString};
use std::io::Read;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, kill_process_group, waitid};

use crate::config::EngineUser;
use crate::error::{Result, RunnerError, io};
use crate::leftovers;
use crate::lines::{Lines, Piece};
use crate::log::Log;
use crate::output::{Renderer, Stream};

/// How often the engine, the clock and the signal are looked at.
const TICK: Duration = Duration::from_millis(25);

/// How long the streams of an engine that has ended are waited for: something that left its group may hold them.
const STREAMS_END: Duration = Duration::from_secs(5);

/// Whether the task was told to stop (SIGTERM). Cloning shares it.
#[derive(Debug, Clone, Default)]
pub struct Stop(Arc<AtomicBool>);

impl Stop {
    /// Listens to SIGTERM and SIGINT from now on.
    ///
    /// # Errors
    /// The platform refuses.
    pub fn on_signals() -> Result<Self> {
        let stop = Self::default();
        for signal in [signal_hook::consts::SIGTERM, signal_hook::consts::SIGINT] {
            signal_hook::flag::register(signal, Arc::clone(&stop.0))
                .map_err(|error| RunnerError::unusable(format!("cannot listen to signals: {}", error.kind())))?;
        }
        Ok(stop)
    }

    /// Tells the task to stop, as a signal would.
    pub fn request(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Whether it was told so.
    #[must_use]
    pub fn requested(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// How the engine is started, whatever it is to do.
#[derive(Debug, Clone)]
pub struct Engine {
    /// Its binary.
    pub binary: PathBuf,
    /// Its whole environment.
    pub environment: Vec<(OsString, OsString)>,
    /// Where it runs.
    pub directory: PathBuf,
    /// As whom, if not as the runner.
    pub user: Option<EngineUser>,
    /// How long it gets between the request to end and the end.
    pub grace: Duration,
    /// When it must have ended by itself.
    pub deadline: Instant,
    /// Whether the task is told to stop.
    pub stop: Stop,
    /// Whether everything that the engine leaves behind is this process's own to end. Not where other things run
    /// beside it in one process.
    pub end_leftovers: bool,
}

/// What becomes of standard output.
#[derive(Debug, Clone, Copy)]
pub enum Output {
    /// JSON lines, rendered into the log.
    Log,
    /// Kept whole, up to so many bytes.
    Keep(u64),
}

/// Why the engine was made to end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stopped {
    /// The task was told to stop.
    Signal,
    /// It took too long.
    Deadline,
    /// It wrote more than it may.
    Output,
}

/// How an engine ended.
#[derive(Debug)]
pub struct Ended {
    /// Its exit code; 128 and the signal's number if a signal ended it.
    pub code: i32,
    /// Why it was made to end, if it was.
    pub stopped: Option<Stopped>,
    /// Its standard output, where that was kept.
    pub kept: Vec<u8>,
    /// Whether it warned that the lock file lacks something (`R11`).
    pub lock_warning: bool,
    /// Whether it spoke of the lock file at all.
    pub lock_named: bool,
    /// Whether it could save its state nowhere, and printed it.
    pub state_dumped: bool,
}

enum Message {
    Piece(Stream, Piece),
    Kept(Vec<u8>),
    TooMuch,
}

impl Engine {
    /// Runs the engine with `arguments` until it ends.
    ///
    /// # Errors
    /// It cannot be started or watched. An exit code is no error here.
    pub fn run<A: AsRef<OsStr>>(&self, arguments: &[A], output: Output, log: &mut Log) -> Result<Ended> {
        let mut command = Command::new(&self.binary);
        command.args(arguments).env_clear().envs(self.environment.iter().map(|(name, value)| (name, value)));
        command.current_dir(&self.directory).process_group(0);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        if let Some(user) = self.user {
            // Becoming another user also drops the runner's supplementary groups.
            command.uid(user.uid).gid(user.gid);
        }
        let mut child = command.spawn().map_err(io("start the engine"))?;
        let (send, receive) = sync_channel(64);
        if let Some(out) = child.stdout.take() {
            let send = send.clone();
            match output {
                Output::Log => drop(std::thread::spawn(move || read_lines(Stream::Out, out, &send))),
                Output::Keep(limit) => drop(std::thread::spawn(move || keep(out, limit, &send))),
            }
        }
        if let Some(err) = child.stderr.take() {
            drop(std::thread::spawn(move || read_lines(Stream::Err, err, &send)));
        }
        self.watch(child, &receive, log)
    }

    fn watch(&self, mut child: Child, receive: &Receiver<Message>, log: &mut Log) -> Result<Ended> {
        let pid = Pid::from_child(&child);
        let mut heard = Heard::default();
        let mut stopped = None;
        let mut kill_at: Option<Instant> = None;
        let mut killed = false;
        while !has_ended(pid)? {
            heard.listen(receive, Instant::now() + TICK, log);
            let now = Instant::now();
            if stopped.is_none() {
                stopped = if heard.too_much {
                    Some(Stopped::Output)
                } else if self.stop.requested() {
                    Some(Stopped::Signal)
                } else {
                    (now >= self.deadline).then_some(Stopped::Deadline)
                };
                if stopped.is_some() {
                    // To the engine's pid alone: its group holds the providers that it needs to save what it did.
                    log.text("plangate: the engine is told to stop, and saves what it has");
                    let _ = kill_process(pid, Signal::TERM);
                    kill_at = Some(now + self.grace);
                }
            } else if !killed && kill_at.is_some_and(|at| now >= at) {
                log.text("plangate: the engine did not stop in time and is killed");
                let _ = kill_process_group(pid, Signal::KILL);
                killed = true;
            }
        }
        // The engine is dead and not yet reaped: its pid, and with it its group, is certain to be its own still.
        let _ = kill_process_group(pid, Signal::KILL);
        let status = child.wait().map_err(io("wait for the engine"))?;
        if self.end_leftovers {
            leftovers::end_all();
        }
        heard.listen(receive, Instant::now() + STREAMS_END, log);
        if heard.too_much {
            stopped = stopped.or(Some(Stopped::Output));
        }
        Ok(Ended {
            code: code(status),
            stopped,
            kept: heard.kept,
            lock_warning: heard.renderer.saw_lock_warning(),
            lock_named: heard.renderer.saw_lock_file(),
            state_dumped: heard.renderer.saw_state_dump(),
        })
    }
}

/// What the engine's streams have said so far.
#[derive(Default)]
struct Heard {
    renderer: Renderer,
    kept: Vec<u8>,
    too_much: bool,
    ended: bool,
}

impl Heard {
    /// Takes what comes until `until`, or until both streams have ended.
    fn listen(&mut self, receive: &Receiver<Message>, until: Instant, log: &mut Log) {
        loop {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            if self.ended {
                // Nothing more can come; the caller still waits for the process itself.
                std::thread::sleep(left.min(TICK));
                return;
            }
            match receive.recv_timeout(left) {
                Ok(Message::Piece(stream, piece)) => self.renderer.piece(stream, piece, log),
                Ok(Message::Kept(bytes)) => self.kept = bytes,
                Ok(Message::TooMuch) => self.too_much = true,
                Err(RecvTimeoutError::Disconnected) => self.ended = true,
                Err(RecvTimeoutError::Timeout) => return,
            }
        }
    }
}

fn has_ended(pid: Pid) -> Result<bool> {
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT | WaitIdOptions::NOHANG;
    match waitid(WaitId::Pid(pid), options) {
        Ok(status) => Ok(status.is_some()),
        Err(rustix::io::Errno::INTR) => Ok(false),
        Err(error) => Err(RunnerError::gate(format!("cannot watch the engine: {error}"))),
    }
}

fn code(status: ExitStatus) -> i32 {
    status.code().or_else(|| status.signal().map(|signal| 128 + signal)).unwrap_or(255)
}

fn read_lines(stream: Stream, mut from: impl Read, send: &SyncSender<Message>) {
    let mut lines = Lines::default();
    // Whoever listens may have given up on a stream that never ends; then nobody needs its lines.
    let mut give = |piece| drop(send.send(Message::Piece(stream, piece)));
    let mut buffer = vec![0; 64 * 1024];
    loop {
        match from.read(&mut buffer) {
            Ok(0) => break,
            Ok(read) => lines.push(buffer.get(..read).unwrap_or_default(), &mut give),
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(_) => break,
        }
    }
    lines.finish(&mut give);
}

fn keep(from: impl Read, limit: u64, send: &SyncSender<Message>) {
    let mut bytes = Vec::new();
    let read = from.take(limit.saturating_add(1)).read_to_end(&mut bytes);
    let message = if read.is_ok() && bytes.len() as u64 <= limit { Message::Kept(bytes) } else { Message::TooMuch };
    let _ = send.send(message);
}

#[cfg(test)]
#[path = "engine_tests.rs"]
mod tests;
