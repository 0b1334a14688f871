//! Cutting a stream into lines, whatever the reads were; a line too long to hold is passed on in parts.

/// The most bytes of a line that is handled as a whole. The longest lines are diagnostics.
pub(crate) const LONGEST_LINE: usize = 1024 * 1024;

/// A piece of a stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Piece {
    /// A line, without its end.
    Line(Vec<u8>),
    /// A part of a line that is too long.
    Part(Vec<u8>),
    /// That line's end.
    PartsEnd,
}

/// Collects what was read until it is a line.
#[derive(Debug, Default)]
pub(crate) struct Lines {
    held: Vec<u8>,
    long: bool,
}

impl Lines {
    /// Takes what was read and gives the pieces that are complete.
    pub(crate) fn push(&mut self, read: &[u8], give: &mut dyn FnMut(Piece)) {
        for chunk in read.split_inclusive(|byte| *byte == b'\n') {
            let (text, ended) = match chunk.split_last() {
                Some((b'\n', text)) => (text, true),
                _ => (chunk, false),
            };
            self.held.extend_from_slice(text);
            if self.held.len() > LONGEST_LINE {
                self.long = true;
                give(Piece::Part(std::mem::take(&mut self.held)));
            }
            if ended {
                self.end(give);
            }
        }
    }

    /// Gives what is left when the stream has ended.
    pub(crate) fn finish(&mut self, give: &mut dyn FnMut(Piece)) {
        if self.long || !self.held.is_empty() {
            self.end(give);
        }
    }

    fn end(&mut self, give: &mut dyn FnMut(Piece)) {
        let held = std::mem::take(&mut self.held);
        if self.long {
            give(Piece::Part(held));
            give(Piece::PartsEnd);
            self.long = false;
        } else {
            give(Piece::Line(held));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pieces(reads: &[&[u8]]) -> Vec<Piece> {
        let mut all = Vec::new();
        let mut lines = Lines::default();
        for read in reads {
            lines.push(read, &mut |piece| all.push(piece));
        }
        lines.finish(&mut |piece| all.push(piece));
        all
    }

    #[test]
    fn lines_are_the_same_wherever_the_reads_end() {
        let expected = [Piece::Line(b"one".to_vec()), Piece::Line(vec![]), Piece::Line(b"two".to_vec())];
        assert_eq!(pieces(&[b"one\n\ntwo"]), expected);
        assert_eq!(pieces(&[b"o", b"ne", b"\n", b"\nt", b"wo\n"]), expected);
    }

    #[test]
    fn a_line_too_long_to_hold_comes_in_parts_and_loses_nothing() {
        let long = vec![b'x'; LONGEST_LINE + 5];
        let all = pieces(&[&long, b"yz\nnext\n"]);
        assert_eq!(
            all,
            [Piece::Part(long), Piece::Part(b"yz".to_vec()), Piece::PartsEnd, Piece::Line(b"next".to_vec())]
        );
    }
}
