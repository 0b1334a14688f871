//! A strict JSON reader for documents that may be hostile and large: borrows, bounds, and skips what nobody asked for.
//!
//! Written here, and not taken from `serde_json`, because a plan document needs five things at once: numbers with the
//! digits they were written with (where `serde_json` tells a number from an object by a magic key, which a document
//! could carry), keys seen twice refused, sections skipped at any depth without recursion and without being held,
//! strings borrowed instead of copied, and an error that says where without saying what.

use std::borrow::Cow;

/// How many containers may stand inside each other in a value that is read. Skipped values have no bound.
pub(crate) const MAX_DEPTH: usize = 128;

/// What is wrong with a text, and where. Carries no part of the text: it may be a secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ReadError {
    /// Byte offset from the start of the text.
    pub(crate) offset: usize,
    /// What is wrong there.
    pub(crate) problem: &'static str,
    /// The place in terms of the format's own names and of positions; empty at the top.
    pub(crate) place: String,
}

impl ReadError {
    fn new(offset: usize, problem: &'static str) -> Self {
        Self { offset, problem, place: String::new() }
    }

    /// The same error, seen from inside the field `name`.
    pub(crate) fn within(mut self, name: &str) -> Self {
        let joint = if self.place.is_empty() || self.place.starts_with('[') { "" } else { "." };
        self.place = format!("{name}{joint}{}", self.place);
        self
    }

    /// The same error, seen from inside the element at `position`.
    pub(crate) fn at_position(self, position: usize) -> Self {
        self.within(&format!("[{position}]"))
    }
}

/// The outcome of a reading step.
pub(crate) type Read<T> = Result<T, ReadError>;

/// Reads one JSON text from left to right.
pub(crate) struct Reader<'a> {
    text: &'a str,
    at: usize,
    /// The keys seen so far in the objects that are being read, of the innermost last.
    keys: Vec<Cow<'a, str>>,
}

/// What kind of value comes next, told by its first byte.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Null,
    Bool,
    Number,
    String,
    Array,
    Object,
}

impl<'a> Reader<'a> {
    /// A reader at the start of `bytes`, which must be UTF-8 without a byte order mark.
    pub(crate) fn new(bytes: &'a [u8]) -> Read<Self> {
        match std::str::from_utf8(bytes) {
            Ok(text) if text.starts_with('\u{feff}') => Err(ReadError::new(0, "a byte order mark")),
            Ok(text) => Ok(Self::of(text)),
            Err(error) => Err(ReadError::new(error.valid_up_to(), "not UTF-8")),
        }
    }

    /// A reader at the start of `text`.
    pub(crate) const fn of(text: &'a str) -> Self {
        Self { text, at: 0, keys: Vec::new() }
    }

    /// The text that `step` reads, without the white space before it.
    pub(crate) fn text_of(&mut self, step: impl FnOnce(&mut Self) -> Read<()>) -> Read<&'a str> {
        self.blank();
        let from = self.at;
        step(self)?;
        self.slice(from, self.at)
    }

    /// An error at the current position.
    pub(crate) fn error(&self, problem: &'static str) -> ReadError {
        ReadError::new(self.at, problem)
    }

    /// Requires that nothing but white space is left.
    pub(crate) fn end(&mut self) -> Read<()> {
        self.blank();
        if self.at == self.text.len() { Ok(()) } else { Err(self.error("something follows the JSON value")) }
    }

    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn rest(&self) -> &'a [u8] {
        self.text.as_bytes().get(self.at..).unwrap_or_default()
    }

    fn slice(&self, from: usize, to: usize) -> Read<&'a str> {
        self.text.get(from..to).ok_or_else(|| ReadError::new(from, "a broken character"))
    }

    fn blank(&mut self) {
        while let Some(b' ' | b'\n' | b'\r' | b'\t') = self.peek() {
            self.at += 1;
        }
    }

    fn eat(&mut self, byte: u8) -> bool {
        let found = self.peek() == Some(byte);
        if found {
            self.at += 1;
        }
        found
    }

    /// The kind of the next value; white space before it is passed over.
    pub(crate) fn kind(&mut self) -> Read<Kind> {
        self.blank();
        match self.peek() {
            Some(b'n') => Ok(Kind::Null),
            Some(b't' | b'f') => Ok(Kind::Bool),
            Some(b'-' | b'0'..=b'9') => Ok(Kind::Number),
            Some(b'"') => Ok(Kind::String),
            Some(b'[') => Ok(Kind::Array),
            Some(b'{') => Ok(Kind::Object),
            Some(_) => Err(self.error("not a JSON value")),
            None => Err(self.error("the text ends too early")),
        }
    }

    fn word(&mut self, word: &str) -> Read<()> {
        if self.rest().starts_with(word.as_bytes()) {
            self.at += word.len();
            Ok(())
        } else {
            Err(self.error("not a JSON value"))
        }
    }

    /// Reads `null`.
    pub(crate) fn null(&mut self) -> Read<()> {
        self.blank();
        self.word("null")
    }

    /// Reads `true` or `false`.
    pub(crate) fn bool(&mut self) -> Read<bool> {
        self.blank();
        match self.peek() {
            Some(b't') => self.word("true").map(|()| true),
            Some(b'f') => self.word("false").map(|()| false),
            _ => Err(self.error("not true or false")),
        }
    }

    /// Reads a number and gives it as it was written.
    pub(crate) fn number(&mut self) -> Read<&'a str> {
        self.blank();
        let from = self.at;
        self.eat(b'-');
        if !self.eat(b'0') {
            self.digits()?;
        }
        if self.eat(b'.') {
            self.digits()?;
        }
        if self.eat(b'e') || self.eat(b'E') {
            let _signed = self.eat(b'+') || self.eat(b'-');
            self.digits()?;
        }
        self.slice(from, self.at)
    }

    fn digits(&mut self) -> Read<()> {
        let from = self.at;
        while let Some(b'0'..=b'9') = self.peek() {
            self.at += 1;
        }
        if self.at > from { Ok(()) } else { Err(self.error("a digit is missing")) }
    }

    /// Moves to the next quote, backslash or control character and gives it.
    fn stop(&mut self) -> Read<u8> {
        const ONES: u64 = u64::MAX / 0xff;
        const HIGHS: u64 = ONES * 0x80;
        // Eight bytes at a time: a byte below 0x20, or equal to a quote or a backslash, leaves its high bit set.
        while let Some(eight) = self.rest().first_chunk::<8>() {
            let word = u64::from_le_bytes(*eight);
            let quote = word ^ (ONES * u64::from(b'"'));
            let slash = word ^ (ONES * u64::from(b'\\'));
            let found = (word.wrapping_sub(ONES * 0x20) & !word)
                | (quote.wrapping_sub(ONES) & !quote)
                | (slash.wrapping_sub(ONES) & !slash);
            let found = found & HIGHS;
            if found != 0 {
                self.at += (found.trailing_zeros() / 8) as usize;
                break;
            }
            self.at += 8;
        }
        loop {
            match self.peek() {
                Some(byte @ (b'"' | b'\\')) => return Ok(byte),
                Some(0..=0x1f) => return Err(self.error("a control character in a string")),
                Some(_) => self.at += 1,
                None => return Err(self.error("a string without an end")),
            }
        }
    }

    /// Reads a string; one without escapes is borrowed.
    pub(crate) fn string(&mut self) -> Read<Cow<'a, str>> {
        self.blank();
        if !self.eat(b'"') {
            return Err(self.error("not a string"));
        }
        let mut from = self.at;
        let mut held = String::new();
        loop {
            let stop = self.stop()?;
            let piece = self.slice(from, self.at)?;
            self.at += 1;
            if stop == b'"' {
                if held.is_empty() {
                    return Ok(Cow::Borrowed(piece));
                }
                held.push_str(piece);
                return Ok(Cow::Owned(held));
            }
            held.push_str(piece);
            held.push(self.escape()?);
            from = self.at;
        }
    }

    fn escape(&mut self) -> Read<char> {
        let byte = self.peek().ok_or_else(|| self.error("a string without an end"))?;
        let plain = match byte {
            b'"' | b'\\' | b'/' => char::from(byte),
            b'b' => '\u{8}',
            b'f' => '\u{c}',
            b'n' => '\n',
            b'r' => '\r',
            b't' => '\t',
            b'u' => {
                self.at += 1;
                return self.unicode();
            }
            _ => return Err(self.error("an unknown escape")),
        };
        self.at += 1;
        Ok(plain)
    }

    fn unicode(&mut self) -> Read<char> {
        let start = self.at;
        let lone = || ReadError::new(start, "half of a surrogate pair");
        let high = self.hex4()?;
        if !(0xd800..0xe000).contains(&high) {
            return char::from_u32(high).ok_or_else(lone);
        }
        if high >= 0xdc00 || !(self.eat(b'\\') && self.eat(b'u')) {
            return Err(lone());
        }
        let low = self.hex4()?;
        if !(0xdc00..0xe000).contains(&low) {
            return Err(lone());
        }
        char::from_u32(0x1_0000 + ((high - 0xd800) << 10) + (low - 0xdc00)).ok_or_else(lone)
    }

    fn hex4(&mut self) -> Read<u32> {
        let digits = self.rest().first_chunk::<4>().ok_or_else(|| self.error("a string without an end"))?;
        let mut code = 0;
        for digit in digits {
            let value = char::from(*digit).to_digit(16).ok_or_else(|| self.error("an unknown escape"))?;
            code = code * 16 + value;
        }
        self.at += 4;
        Ok(code)
    }

    fn skip_string(&mut self) -> Read<()> {
        self.at += 1;
        while self.stop()? != b'"' {
            self.at += 1;
            self.escape()?;
        }
        self.at += 1;
        Ok(())
    }

    /// Passes over a value without anything inside, whose kind was told.
    pub(crate) fn skip_scalar(&mut self, kind: Kind) -> Read<()> {
        match kind {
            Kind::String => self.skip_string(),
            Kind::Number => self.number().map(drop),
            Kind::Bool => self.bool().map(drop),
            _ => self.null(),
        }
    }

    /// Passes over one value of any depth. It is checked to be JSON and nothing of it is kept.
    pub(crate) fn skip(&mut self) -> Read<()> {
        // What encloses the current position: true is an object, false a list.
        let mut open: Vec<bool> = Vec::new();
        loop {
            match self.kind()? {
                scalar @ (Kind::Null | Kind::Bool | Kind::Number | Kind::String) => self.skip_scalar(scalar)?,
                Kind::Array => {
                    self.at += 1;
                    self.blank();
                    if !self.eat(b']') {
                        open.push(false);
                        continue;
                    }
                }
                Kind::Object => {
                    self.at += 1;
                    self.blank();
                    if !self.eat(b'}') {
                        open.push(true);
                        self.skip_key()?;
                        continue;
                    }
                }
            }
            loop {
                self.blank();
                match open.last() {
                    None => return Ok(()),
                    Some(object) if self.eat(b',') => {
                        if *object {
                            self.skip_key()?;
                        }
                        break;
                    }
                    Some(object) => {
                        if !self.eat(if *object { b'}' } else { b']' }) {
                            return Err(self.error("a comma or an end is missing"));
                        }
                        open.pop();
                    }
                }
            }
        }
    }

    fn skip_key(&mut self) -> Read<()> {
        self.blank();
        if self.peek() != Some(b'"') {
            return Err(self.error("a key is missing"));
        }
        self.skip_string()?;
        self.colon()
    }

    fn colon(&mut self) -> Read<()> {
        self.blank();
        if self.eat(b':') { Ok(()) } else { Err(self.error("a colon is missing")) }
    }

    /// Reads an object, giving each key to `field`, which must read or skip the value. A key that comes twice is
    /// refused, whether it is one that anybody wants or not.
    pub(crate) fn object<F>(&mut self, mut field: F) -> Read<()>
    where
        F: FnMut(&mut Self, Cow<'a, str>) -> Read<()>,
    {
        self.blank();
        let start = self.at;
        if !self.eat(b'{') {
            return Err(self.error("not an object"));
        }
        let first = self.keys.len();
        self.blank();
        if !self.eat(b'}') {
            loop {
                self.blank();
                if self.peek() != Some(b'"') {
                    return Err(self.error("a key is missing"));
                }
                let key = self.string()?;
                self.colon()?;
                self.keys.push(key.clone());
                field(self, key)?;
                self.blank();
                if self.eat(b'}') {
                    break;
                }
                if !self.eat(b',') {
                    return Err(self.error("a comma or an end is missing"));
                }
            }
        }
        let distinct = |keys: &[Cow<'a, str>]| keys.is_sorted_by(|one, next| one < next);
        let keys = self.keys.get_mut(first..).unwrap_or_default();
        let mut once = distinct(keys);
        if !once {
            keys.sort_unstable();
            once = distinct(keys);
        }
        self.keys.truncate(first);
        if once { Ok(()) } else { Err(ReadError::new(start, "a key stands twice in this object")) }
    }

    /// Reads a list, calling `element` with each position; it must read or skip the element.
    pub(crate) fn array<F>(&mut self, mut element: F) -> Read<()>
    where
        F: FnMut(&mut Self, usize) -> Read<()>,
    {
        self.blank();
        if !self.eat(b'[') {
            return Err(self.error("not a list"));
        }
        self.blank();
        if self.eat(b']') {
            return Ok(());
        }
        for position in 0.. {
            element(self, position).map_err(|error| error.at_position(position))?;
            self.blank();
            if self.eat(b']') {
                break;
            }
            if !self.eat(b',') {
                return Err(self.error("a comma or an end is missing"));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
