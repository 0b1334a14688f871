//! The phase's log: printed as it happens, kept up to a limit, and never without the masker in between.

use std::io::Write;

use crate::cloud::Secret;
use crate::error::Result;
use crate::mask::Masker;

/// What the last line of a cut log takes at most.
const CUT_LINE: usize = 100;

/// A log that is printed and kept.
pub struct Log {
    out: Box<dyn Write + Send>,
    kept: Vec<u8>,
    limit: usize,
    lost: u64,
    masker: Masker,
}

impl std::fmt::Debug for Log {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Log").field("kept", &self.kept.len()).field("lost", &self.lost).finish_non_exhaustive()
    }
}

impl Log {
    /// A log that prints to `out` and keeps at most `limit` bytes.
    #[must_use]
    pub fn new(out: Box<dyn Write + Send>, limit: u64) -> Self {
        let limit = usize::try_from(limit).unwrap_or(usize::MAX);
        Self { out, kept: Vec::new(), limit, lost: 0, masker: Masker::default() }
    }

    /// Hides these too from now on.
    ///
    /// # Errors
    /// More or longer secrets than can be searched for.
    pub fn learn<'s>(&mut self, secrets: impl IntoIterator<Item = &'s Secret>) -> Result<()> {
        self.masker = self.masker.with(secrets)?;
        Ok(())
    }

    /// What hides secrets.
    #[must_use]
    pub const fn masker(&self) -> &Masker {
        &self.masker
    }

    /// Takes a text of one line or more.
    pub fn text(&mut self, text: &str) {
        let masked = self.masker.mask(text);
        for line in masked.split('\n') {
            // The log stream is for the moment and for when no log can be stored; its failure is no reason to stop.
            let _ = writeln!(self.out, "{line}");
            let _ = self.out.flush();
            if self.lost == 0 && self.kept.len() + line.len() < self.limit.saturating_sub(CUT_LINE) {
                self.kept.extend_from_slice(line.as_bytes());
                self.kept.push(b'\n');
            } else {
                self.lost += line.len() as u64 + 1;
            }
        }
    }

    /// What was kept, never more than the limit; the last line says so if that is not all.
    #[must_use]
    pub fn finish(&mut self) -> Vec<u8> {
        let mut kept = std::mem::take(&mut self.kept);
        if self.lost > 0 {
            let cut = format!("(the log is cut here: {} more bytes are in the task's own log stream)\n", self.lost);
            kept.extend_from_slice(cut.as_bytes());
            kept.truncate(self.limit);
        }
        kept
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_is_cut_at_a_line_and_says_so() {
        let mut log = Log::new(Box::new(std::io::sink()), 110);
        log.text("one\ntwo");
        log.text("three");
        log.text("4");
        assert_eq!(
            String::from_utf8(log.finish()).unwrap(),
            "one\ntwo\n(the log is cut here: 8 more bytes are in the task's own log stream)\n"
        );
    }

    #[test]
    fn a_log_with_the_line_that_says_so_is_no_longer_than_it_may_be() {
        for limit in 0..400 {
            let mut log = Log::new(Box::new(std::io::sink()), limit);
            for line in 0..100 {
                log.text(&format!("line {line}"));
            }
            log.lost = log.lost.max(u64::MAX / 2);
            assert!(log.finish().len() as u64 <= limit, "{limit}");
        }
    }

    #[test]
    fn a_secret_over_several_lines_is_hidden_whole_and_line_by_line() {
        let mut log = Log::new(Box::new(std::io::sink()), 1000);
        log.learn([&Secret::new("first line\nsecond line\n".to_owned())]).unwrap();
        log.text("key:\nfirst line\nsecond line\n.");
        log.text("second line");
        assert_eq!(String::from_utf8(log.finish()).unwrap(), "key:\n(secret).\n(secret)\n");
    }
}
