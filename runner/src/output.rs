//! The engine's output, rendered for people: of its machine-readable lines only the fields that carry no attribute
//! values, of everything else the text, and all of it through the masker.

use serde_json::Value;

use crate::lines::Piece;
use crate::log::Log;
use crate::mask::{Masker, Seam};

/// What Terraform and OpenTofu say when `-lockfile=readonly` kept them from completing an entry (`R11`).
const LOCK_NOT_UPDATED: &str = "lock file not updated";

/// What they say in every error about that file.
const LOCK_FILE: &str = "lock file";

/// What they print instead of a state that they could save neither where it belongs nor in a file.
const STATE_DUMP: &str = "Emergency state dump";

/// Which of the engine's streams.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stream {
    /// Standard output: JSON lines.
    Out,
    /// Standard error: text, where something went wrong early.
    Err,
}

/// Renders the pieces of both streams into a log.
#[derive(Debug, Default)]
pub(crate) struct Renderer {
    out: Long,
    err: Long,
    lock_warning: bool,
    lock_named: bool,
    state_dumped: bool,
}

/// A line of a stream that comes in parts.
#[derive(Debug, Default)]
struct Long {
    bytes: usize,
    seam: Seam,
    json: bool,
    /// What was printable and has not filled a line yet.
    line: Vec<u8>,
}

/// How wide an over-long line is printed.
const PRINTED_LINE: usize = 8 * 1024;

impl Renderer {
    /// Whether the engine warned that the lock file lacks something.
    pub(crate) const fn saw_lock_warning(&self) -> bool {
        self.lock_warning
    }

    /// Whether the lock file was spoken of at all: with an error that is what the error is about.
    pub(crate) const fn saw_lock_file(&self) -> bool {
        self.lock_named
    }

    /// Whether the engine had nowhere to put its state but here. It is not shown.
    pub(crate) const fn saw_state_dump(&self) -> bool {
        self.state_dumped
    }

    /// Prints one piece.
    pub(crate) fn piece(&mut self, stream: Stream, piece: Piece, log: &mut Log) {
        let long = match stream {
            Stream::Out => &mut self.out,
            Stream::Err => &mut self.err,
        };
        match piece {
            Piece::Line(line) => {
                let text = String::from_utf8_lossy(&line);
                self.lock_warning |= text.contains(LOCK_NOT_UPDATED);
                self.lock_named |= text.contains(LOCK_FILE);
                self.state_dumped |= text.contains(STATE_DUMP);
                let shown = render(&text, log.masker());
                log.text(&shown);
            }
            Piece::Part(part) => {
                if long.bytes == 0 {
                    long.json = stream == Stream::Out && part.starts_with(b"{");
                    self.state_dumped |= part.windows(STATE_DUMP.len()).any(|text| text == STATE_DUMP.as_bytes());
                }
                long.bytes += part.len();
                if !long.json {
                    let safe = long.seam.push(log.masker(), &part);
                    long.print(&safe, false, log);
                }
            }
            Piece::PartsEnd => {
                if long.json {
                    // Cut JSON cannot be read, and unread JSON may hold values.
                    log.text(&format!("(a machine-readable line of {} bytes is left out)", long.bytes));
                } else {
                    let safe = long.seam.finish(log.masker());
                    long.print(&safe, true, log);
                }
                *long = Long::default();
            }
        }
    }
}

impl Long {
    fn print(&mut self, safe: &[u8], end: bool, log: &mut Log) {
        self.line.extend_from_slice(safe);
        while self.line.len() > PRINTED_LINE || (end && !self.line.is_empty()) {
            let mut cut = self.line.len().min(PRINTED_LINE);
            while cut > 0 && self.line.get(cut).is_some_and(|byte| byte & 0b1100_0000 == 0b1000_0000) {
                cut -= 1;
            }
            // Bytes that are no text at all have no boundary; then any cut is as good.
            let cut = if cut == 0 { self.line.len().min(PRINTED_LINE) } else { cut };
            let rest = self.line.split_off(cut);
            log.text(&plain(&String::from_utf8_lossy(&self.line)));
            self.line = rest;
        }
    }
}

/// One line of the engine as people read it. Secrets are hidden before anything is laid out anew, since that could
/// break them into pieces that no longer look like secrets.
fn render(line: &str, masker: &Masker) -> String {
    match serde_json::from_str::<Value>(line) {
        Ok(Value::Object(message)) if message.contains_key("@message") => match message.get("diagnostic") {
            Some(diagnostic) => render_diagnostic(diagnostic, masker),
            None => {
                let text = message.get("@message").and_then(Value::as_str).unwrap_or_default();
                plain(&masker.mask(text))
            }
        },
        Ok(Value::Object(_)) => "(a machine-readable line of an unknown form is left out)".to_owned(),
        _ => plain(&masker.mask(line)),
    }
}

/// A diagnostic: what, where, and why. The quoted source and the values of its expressions are left out.
fn render_diagnostic(diagnostic: &Value, masker: &Masker) -> String {
    let text =
        |pointer: &str| plain(&masker.mask(diagnostic.pointer(pointer).and_then(Value::as_str).unwrap_or_default()));
    let severity = if text("/severity") == "warning" { "Warning" } else { "Error" };
    let mut out = format!("{severity}: {}", text("/summary"));
    let address = text("/address");
    if !address.is_empty() {
        out.push_str(&format!("\n  with {address}"));
    }
    let file = text("/range/filename");
    if !file.is_empty() {
        let line = diagnostic.pointer("/range/start/line").and_then(Value::as_u64).unwrap_or_default();
        out.push_str(&format!("\n  in {file} line {line}"));
    }
    for line in text("/detail").lines() {
        out.push_str(&format!("\n  {line}"));
    }
    out
}

/// Text without terminal sequences and other control characters; line ends stay.
fn plain(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '\u{1b}' if chars.peek() == Some(&'[') => {
                chars.next();
                while chars.next().is_some_and(|c| !('@'..='~').contains(&c)) {}
            }
            '\n' | '\t' => out.push(c),
            '\r' => {}
            c if c.is_control() => out.push('\u{fffd}'),
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cloud::Secret;
    use crate::lines::LONGEST_LINE;

    fn rendered(pieces: Vec<(Stream, Piece)>, secret: &str) -> String {
        let mut log = Log::new(Box::new(std::io::sink()), 64 * 1024 * 1024);
        log.learn([&Secret::new(secret.to_owned())]).unwrap();
        let mut renderer = Renderer::default();
        for (stream, piece) in pieces {
            renderer.piece(stream, piece, &mut log);
        }
        String::from_utf8(log.finish()).unwrap()
    }

    fn line(text: &str) -> (Stream, Piece) {
        (Stream::Out, Piece::Line(text.as_bytes().to_vec()))
    }

    #[test]
    fn a_line_is_shown_without_values_snippets_and_secrets() {
        let progress = r#"{"@level":"info","@message":"x: (local-exec): token hunter2<&","hook":{"output":"raw"},"type":"provision_progress"}"#;
        let outputs = r#"{"@message":"Outputs: 1","outputs":{"o":{"value":"not-for-the-log"}},"type":"outputs"}"#;
        let diagnostic = r#"{"@message":"Error: Bad","diagnostic":{"severity":"error","summary":"Bad","detail":"It is\n\u001b[31mhunter2\u003c\u0026\u001b[0m","address":"a.b","range":{"filename":"main.tf","start":{"line":3}},"snippet":{"code":"x = quoted","values":[{"traversal":"var.x","statement":"is quoted"}]}},"type":"diagnostic"}"#;
        let odd = r#"{"value":"not-for-the-log"}"#;
        let shown = rendered(vec![line(progress), line(outputs), line(diagnostic), line(odd)], "hunter2<&");
        assert_eq!(
            shown,
            "x: (local-exec): token (secret)\nOutputs: 1\nError: Bad\n  with a.b\n  in main.tf line 3\n  It is\n  (secret)\n(a machine-readable line of an unknown form is left out)\n"
        );
    }

    #[test]
    fn a_secret_of_several_short_lines_is_hidden_where_it_is_indented() {
        let detail = r#"{"@message":"Error: Bad","diagnostic":{"severity":"error","summary":"Bad","detail":"It is ab12\r\ncd34\nend"}}"#;
        assert_eq!(rendered(vec![line(detail)], "ab12\r\ncd34"), "Error: Bad\n  It is (secret)\n  end\n");
    }

    #[test]
    fn text_that_is_no_json_is_masked_as_it_stands() {
        let shown = rendered(vec![line("panic: hunter2\u{1b}[0m {\"k\":\"hunter2\"}")], "hunter2");
        assert_eq!(shown, "panic: (secret) {\"k\":\"(secret)\"}\n");
    }

    #[test]
    fn a_secret_on_the_seam_of_an_over_long_line_is_hidden() {
        let mut first = vec![b'x'; LONGEST_LINE];
        first.extend_from_slice(b"hunt");
        let parts = vec![
            (Stream::Err, Piece::Part(first)),
            (Stream::Err, Piece::Part(b"er2 end".to_vec())),
            (Stream::Err, Piece::PartsEnd),
        ];
        let shown = rendered(parts, "hunter2");
        assert!(!shown.contains("hunt") && shown.ends_with("(secret) end\n"));
    }

    #[test]
    fn over_long_json_is_not_shown_at_all() {
        let parts = vec![
            (Stream::Out, Piece::Part(b"{\"outputs\":\"value".to_vec())),
            (Stream::Out, Piece::Part(b"more".to_vec())),
            (Stream::Out, Piece::PartsEnd),
        ];
        assert_eq!(rendered(parts, "hunter2"), "(a machine-readable line of 21 bytes is left out)\n");
    }

    #[test]
    fn the_lock_files_warning_is_noticed() {
        let mut log = Log::new(Box::new(std::io::sink()), 1024);
        let mut renderer = Renderer::default();
        assert!(!renderer.saw_lock_warning());
        renderer.piece(Stream::Out, Piece::Line(b"Warning: Provider lock file not updated".to_vec()), &mut log);
        assert!(renderer.saw_lock_warning());
    }
}
