//! The two streams: what was asked for goes to standard output, what happens meanwhile to standard error.

use std::cell::Cell;
use std::io::{IsTerminal, Write};

use serde::Serialize;

use crate::error::CliError;
use crate::text::inert_json;

/// What a piece of text means; how that looks is decided here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tone {
    /// Went well.
    Good,
    /// Went wrong.
    Bad,
    /// Wants somebody's attention.
    Wait,
    /// Under way.
    Busy,
    /// Of lesser weight.
    Dim,
    /// Of greater weight.
    Strong,
}

impl Tone {
    const fn code(self) -> &'static str {
        match self {
            Self::Good => "\x1b[32m",
            Self::Bad => "\x1b[31m",
            Self::Wait => "\x1b[33m",
            Self::Busy => "\x1b[36m",
            Self::Dim => "\x1b[2m",
            Self::Strong => "\x1b[1m",
        }
    }
}

/// Colours text of the given tone, or leaves it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Paint(pub(crate) bool);

impl Paint {
    /// The text in its tone.
    pub(crate) fn tone(self, tone: Tone, text: &str) -> String {
        if self.0 { format!("{}{text}\x1b[0m", tone.code()) } else { text.to_owned() }
    }
}

/// The streams of this process and how to write to them.
#[derive(Debug)]
pub(crate) struct Console {
    /// Whether standard output is for machines.
    pub(crate) json: bool,
    /// Colours of standard output.
    pub(crate) paint: Paint,
    /// Colours of standard error.
    pub(crate) err_paint: Paint,
    out_terminal: bool,
    err_terminal: bool,
    in_terminal: bool,
    status_shown: Cell<bool>,
    frame: Cell<usize>,
}

impl Console {
    /// The console of this process. Colours only on a terminal that takes them, and not where `NO_COLOR` is set.
    pub(crate) fn of_process(json: bool) -> Self {
        let plain = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        let dumb = std::env::var_os("TERM").is_none_or(|term| term == "dumb");
        let (out, err) = (std::io::stdout().is_terminal(), std::io::stderr().is_terminal());
        Self {
            json,
            paint: Paint(out && !plain && !dumb),
            err_paint: Paint(err && !plain && !dumb),
            out_terminal: out,
            err_terminal: err && !dumb,
            in_terminal: std::io::stdin().is_terminal(),
            status_shown: Cell::new(false),
            frame: Cell::new(0),
        }
    }

    /// Writes text for people to standard output, as it is.
    pub(crate) fn out(&self, text: &str) -> Result<(), CliError> {
        self.clear_status();
        let mut stream = std::io::stdout().lock();
        stream.write_all(text.as_bytes()).and_then(|()| stream.flush()).map_err(CliError::Output)
    }

    /// Writes exact bytes to standard output; on a terminal a line feed follows.
    pub(crate) fn out_exact(&self, bytes: &[u8]) -> Result<(), CliError> {
        self.clear_status();
        let mut stream = std::io::stdout().lock();
        let written = if self.out_terminal {
            stream
                .write_all(inert_json(&String::from_utf8_lossy(bytes)).as_bytes())
                .and_then(|()| stream.write_all(b"\n"))
        } else {
            stream.write_all(bytes)
        };
        written.and_then(|()| stream.flush()).map_err(CliError::Output)
    }

    /// Writes one JSON value on one line to standard output.
    pub(crate) fn out_json<T: Serialize>(&self, value: &T) -> Result<(), CliError> {
        let text = serde_json::to_string(value).map_err(|error| CliError::Output(error.into()))?;
        // For a program the bytes are exact; a person's terminal is not to be steered by them.
        let text = if self.out_terminal { inert_json(&text) } else { text };
        self.out(&format!("{text}\n"))
    }

    /// Writes a line about what happens to standard error.
    pub(crate) fn note(&self, line: &str) {
        self.clear_status();
        // A closed standard error is no reason to stop.
        let _ = writeln!(std::io::stderr().lock(), "{line}");
    }

    /// Shows what is going on in a line that the next one replaces. Nothing where standard error is no terminal.
    pub(crate) fn status(&self, line: &str) {
        const FRAMES: [&str; 10] = ["⠋", "⠙", "⠹", "⠸", "⠼", "⠴", "⠦", "⠧", "⠇", "⠏"];
        if !self.err_terminal {
            return;
        }
        self.frame.set(self.frame.get() + 1);
        let frame = FRAMES.get(self.frame.get() % FRAMES.len()).copied().unwrap_or(" ");
        let frame = self.err_paint.tone(Tone::Busy, frame);
        self.status_shown.set(true);
        let mut stream = std::io::stderr().lock();
        let _ = write!(stream, "\r\x1b[2K{frame} {line}").and_then(|()| stream.flush());
    }

    /// Takes the status line away.
    pub(crate) fn clear_status(&self) {
        if self.status_shown.replace(false) {
            let mut stream = std::io::stderr().lock();
            let _ = write!(stream, "\r\x1b[2K").and_then(|()| stream.flush());
        }
    }

    /// Whether there is a status line.
    pub(crate) const fn live(&self) -> bool {
        self.err_terminal
    }

    /// Whether a person can be asked.
    pub(crate) const fn can_ask(&self) -> bool {
        self.in_terminal && self.err_terminal
    }

    /// Asks a yes-or-no question; everything but a plain yes is a no.
    pub(crate) fn ask(&self, question: &str) -> Result<bool, CliError> {
        self.clear_status();
        let mut stream = std::io::stderr().lock();
        let _ = write!(stream, "{question} [y/N] ").and_then(|()| stream.flush());
        let mut answer = String::new();
        std::io::stdin().read_line(&mut answer).map_err(|source| CliError::read("standard input", source))?;
        Ok(matches!(answer.trim().to_ascii_lowercase().as_str(), "y" | "yes"))
    }
}
