//! The log as it is printed: one object of JSON a line, each with the run, the workspace and the phase, so that whoever
//! searches the log group by a run finds what its tasks said. The log that is kept is plain text.

use std::io::{self, Write};

use plangate_gate::ids::{RunId, WorkspaceId};
use plangate_gate::order::Phase;
use plangate_gate::printed::PrintedLine;

/// How many bytes of a line are printed as one: the agent cuts what is longer than 16 KiB, and JSON may take six for one.
const PIECE: usize = 2_500;
/// How many bytes are waited for at most before a line's end.
const LONGEST: usize = 64 * 1024;

/// Prints lines of text as JSON.
pub(crate) struct Printed<W> {
    out: W,
    line: Vec<u8>,
    run: Option<RunId>,
    workspace: Option<WorkspaceId>,
    phase: Option<Phase>,
}

impl<W: Write> Printed<W> {
    /// Lines to `out`, about what the variables of the task name; a task that was started without says so by saying nothing.
    pub(crate) fn new(out: W, variable: impl Fn(&str) -> Option<String>) -> Self {
        let read = |name| variable(name).unwrap_or_default();
        Self {
            out,
            line: Vec::new(),
            run: read("PLANGATE_RUN").parse().ok(),
            workspace: read("PLANGATE_WORKSPACE").parse().ok(),
            phase: serde_json::from_value(read("PLANGATE_PHASE").into()).ok(),
        }
    }

    fn print(&mut self) -> io::Result<()> {
        let text = String::from_utf8_lossy(&std::mem::take(&mut self.line)).into_owned();
        let mut rest = text.as_str();
        loop {
            let (piece, after) = rest.split_at(rest.floor_char_boundary(PIECE));
            rest = after;
            let line = PrintedLine {
                run: self.run.clone(),
                workspace: self.workspace.clone(),
                phase: self.phase,
                message: piece.to_owned(),
                goes_on: !rest.is_empty(),
            };
            let line = serde_json::to_string(&line).map_err(io::Error::other)?;
            writeln!(self.out, "{line}")?;
            if rest.is_empty() {
                return self.out.flush();
            }
        }
    }
}

impl<W: Write> Write for Printed<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        for part in bytes.split_inclusive(|byte| *byte == b'\n') {
            let ends = part.last() == Some(&b'\n');
            self.line.extend_from_slice(part.strip_suffix(b"\n").unwrap_or(part));
            if ends || self.line.len() > LONGEST {
                self.print()?;
            }
        }
        Ok(bytes.len())
    }

    /// What has no line's end yet is kept: it is not a line.
    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

#[cfg(test)]
mod tests {
    use plangate_gate::printed;

    use super::*;

    fn variables(name: &str) -> Option<String> {
        let value = match name {
            "PLANGATE_RUN" => "run-01aaaaaaaaaaaaaaaaaaaaaaaa",
            "PLANGATE_WORKSPACE" => "ws-0123456789abcdef",
            "PLANGATE_PHASE" => "plan",
            _ => return None,
        };
        Some(value.to_owned())
    }

    fn lines(text: &str, variable: impl Fn(&str) -> Option<String>) -> Vec<String> {
        let mut out = Vec::new();
        let mut printed = Printed::new(&mut out, variable);
        // As `writeln!` does it: in pieces, and flushed in between.
        for piece in text.split_inclusive('\n') {
            write!(printed, "{piece}").unwrap();
            printed.flush().unwrap();
        }
        String::from_utf8(out).unwrap().lines().map(str::to_owned).collect()
    }

    #[test]
    fn each_line_names_its_run_workspace_and_phase() {
        let told = lines("one\n\"two\"\n", variables);
        let about =
            r#"{"run":"run-01aaaaaaaaaaaaaaaaaaaaaaaa","workspace":"ws-0123456789abcdef","phase":"plan","message":"#;
        assert_eq!(told, [format!(r#"{about}"one"}}"#), format!(r#"{about}"\"two\""}}"#)]);
        // Who was started without a run says what it has to say all the same.
        assert_eq!(lines("no\n", |_| None), [r#"{"message":"no"}"#]);
    }

    #[test]
    fn a_long_line_is_printed_in_pieces_that_the_agent_does_not_cut_and_is_read_as_one() {
        let long = "\u{1}ä".repeat(4_000);
        let told = lines(&format!("{long}\nshort\n\n"), variables);
        assert!(told.len() > 4 && told.iter().all(|line| line.len() < 16 * 1024));
        assert_eq!(printed::text(told), [long.as_str(), "short", ""]);
    }
}
