//! JSON, validated in one pass over the bytes: RFC 8259 in full, nothing beside it, no value built.
//!
//! Skipping takes neither heap nor recursion. What is skipped is checked against the grammar and for UTF-8,
//! but not for meaning: lone surrogates and numbers of any size pass.

use std::{ops::Range, str};

use super::error::LoadResultError;

type Result<T, E = LoadResultError> = std::result::Result<T, E>;

/// How many arrays and objects may stand inside each other.
const MAX_DEPTH: u32 = 127;

/// The longest name whose escapes [`Scanner::object`] decodes; no member of interest has a longer one.
const LONGEST_NAME: usize = 24;

/// A place in a JSON text.
pub(super) struct Scanner<'a> {
    text: &'a [u8],
    at: usize,
    depth: u32,
}

impl<'a> Scanner<'a> {
    /// Begins at this byte of the text.
    pub fn new(text: &'a [u8], at: usize) -> Self {
        Self { text, at, depth: 0 }
    }

    /// The next byte that is not white space; the scanner then stands on it.
    pub fn peek(&mut self) -> Result<u8> {
        let (at, byte) = token(self.text, self.at)?;
        self.at = at;
        Ok(byte)
    }

    /// The byte the scanner stands on.
    pub fn offset(&self) -> usize {
        self.at
    }

    /// Stands on an earlier byte again, one that was reached at this depth.
    pub fn go_back(&mut self, offset: usize) {
        self.at = offset;
    }

    /// Makes sure that nothing but white space is left.
    pub fn end(&mut self) -> Result<()> {
        self.at = whitespace_end(self.text, self.at);
        if self.at < self.text.len() {
            return Err(LoadResultError::json("bytes after the end of the document", self.at));
        }
        Ok(())
    }

    /// Reads an object, the value of `member`. `each` is given every name and has to consume its value.
    pub fn object(
        &mut self,
        member: &'static str,
        mut each: impl FnMut(&mut Self, Name<'_>) -> Result<()>,
    ) -> Result<()> {
        self.open(b'{', member, "is not an object")?;
        if self.peek()? == b'}' {
            return self.close();
        }
        loop {
            let name = self.string()?;
            self.at = pass_colon(self.text, self.at)?;
            each(self, Name { text: name.decode_short(&mut [0; LONGEST_NAME]), offset: name.offset })?;
            match self.peek()? {
                b',' => self.at += 1,
                b'}' => return self.close(),
                _ => return Err(LoadResultError::json("expected `,` or `}`", self.at)),
            }
        }
    }

    /// Reads an array, the value of `member`. `each` has to consume one element.
    pub fn array(
        &mut self,
        member: &'static str,
        mut each: impl FnMut(&mut Self) -> Result<()>,
    ) -> Result<()> {
        self.open(b'[', member, "is not an array")?;
        if self.peek()? == b']' {
            return self.close();
        }
        loop {
            each(self)?;
            match self.peek()? {
                b',' => self.at += 1,
                b']' => return self.close(),
                _ => return Err(LoadResultError::json("expected `,` or `]`", self.at)),
            }
        }
    }

    /// Reads a string, the value of `member`.
    pub fn string_value(&mut self, member: &'static str) -> Result<RawString<'a>> {
        match self.peek()? {
            b'"' => self.string(),
            _ => Err(LoadResultError::member(member, "is not a string", self.at)),
        }
    }

    /// Reads `true` or `false`, the value of `member`.
    pub fn boolean(&mut self, member: &'static str) -> Result<bool> {
        match self.peek()? {
            first @ (b't' | b'f') => self.skip().map(|_| first == b't'),
            _ => Err(LoadResultError::member(member, "is not a boolean", self.at)),
        }
    }

    /// Reads an integer of 32 bits in plain digits, the value of `member`: not `1.0`, `1e0`, `-0` or `"1"`.
    pub fn integer(&mut self, member: &'static str) -> Result<i32> {
        let range = self.skip()?;
        match str::from_utf8(&self.text[range.clone()]) {
            Ok(digits) if digits != "-0" => digits.parse().ok(),
            _ => None,
        }
        .ok_or_else(|| LoadResultError::member(member, "is not a plain integer", range.start))
    }

    /// Passes over a value, whatever it is, and says where it stands.
    pub fn skip(&mut self) -> Result<Range<usize>> {
        self.peek()?;
        let start = self.at;
        self.at = value_end(self.text, start, MAX_DEPTH - self.depth)?;
        Ok(start..self.at)
    }

    /// Passes over an object or array that was read before at the same depth, if exactly that comes next.
    pub fn skip_known(&mut self, value: &[u8]) -> Option<Range<usize>> {
        self.peek().ok()?;
        let start = self.at;
        self.text[start..].starts_with(value).then(|| {
            self.at += value.len();
            start..self.at
        })
    }

    fn string(&mut self) -> Result<RawString<'a>> {
        if self.peek()? != b'"' {
            return Err(LoadResultError::json("expected `\"`", self.at));
        }
        let start = self.at + 1;
        let plain = first_marked(self.text, start, other_than_plain);
        let end = match self.text.get(plain) {
            Some(b'"') => plain,
            _ => difficult_string_end(self.text, start, plain)?,
        };
        self.at = end + 1;
        let raw = &self.text[start..end];
        Ok(RawString { raw, offset: start, escaped: end != plain && raw.contains(&b'\\') })
    }

    fn open(&mut self, bracket: u8, member: &'static str, otherwise: &'static str) -> Result<()> {
        if self.peek()? != bracket {
            return Err(LoadResultError::member(member, otherwise, self.at));
        }
        if self.depth == MAX_DEPTH {
            return Err(too_deep(self.at));
        }
        self.depth += 1;
        self.at += 1;
        Ok(())
    }

    fn close(&mut self) -> Result<()> {
        self.depth -= 1;
        self.at += 1;
        Ok(())
    }
}

/// The name of an object's member.
#[derive(Clone, Copy)]
pub(super) struct Name<'a> {
    /// Decoded, unless it has escapes and is longer than any name of interest.
    pub text: &'a [u8],
    /// Where it stands.
    pub offset: usize,
}

/// A string as it stands in the text, without its quotes. It is well-formed and UTF-8.
#[derive(Clone, Copy)]
pub(super) struct RawString<'a> {
    raw: &'a [u8],
    offset: usize,
    escaped: bool,
}

impl<'a> RawString<'a> {
    /// Where it stands.
    pub fn offset(&self) -> usize {
        self.offset
    }

    /// Where what it says stands, if that is what stands there: a string without escapes.
    pub fn plain_place(&self) -> Option<Range<usize>> {
        (!self.escaped).then(|| self.offset..self.offset + self.raw.len())
    }

    /// Adds what it says to `out`. The string is the value of `member`; a lone surrogate, which no Rust
    /// string can hold, is an error.
    pub fn decode_into(&self, out: &mut String, member: &'static str) -> Result<()> {
        let wrong = |what| LoadResultError::member(member, what, self.offset);
        let mut rest = self.raw;
        while !rest.is_empty() {
            let plain = match self.escaped {
                true => rest.iter().position(|&byte| byte == b'\\').unwrap_or(rest.len()),
                false => rest.len(),
            };
            let (run, escape) = rest.split_at(plain);
            out.push_str(str::from_utf8(run).map_err(|_| wrong("is not UTF-8"))?);
            rest = escape;
            if !rest.is_empty() {
                let (character, length) =
                    decode_escape(rest).ok_or_else(|| wrong("holds a lone surrogate"))?;
                out.push(character);
                rest = &rest[length..];
            }
        }
        Ok(())
    }

    /// What it says, in a string of its own.
    pub fn decode(&self, member: &'static str) -> Result<String> {
        let mut text = String::with_capacity(self.raw.len());
        self.decode_into(&mut text, member)?;
        Ok(text)
    }

    /// What it says, if that is ASCII and fits the buffer; else the text as it stands, which then holds a
    /// backslash.
    fn decode_short<'b>(&self, buffer: &'b mut [u8; LONGEST_NAME]) -> &'b [u8]
    where
        'a: 'b,
    {
        if !self.escaped {
            return self.raw;
        }
        let mut length = 0;
        let mut rest = self.raw;
        while let Some(&first) = rest.first() {
            let (character, taken) = match first {
                b'\\' => match decode_escape(rest) {
                    Some((character, taken)) if character.is_ascii() => (character as u8, taken),
                    _ => return self.raw,
                },
                _ => (first, 1),
            };
            let Some(slot) = buffer.get_mut(length) else { return self.raw };
            *slot = character;
            length += 1;
            rest = &rest[taken..];
        }
        &buffer[..length]
    }
}

/// The character that the escape at the beginning of `text` stands for, and the escape's length. None for a
/// lone surrogate.
fn decode_escape(text: &[u8]) -> Option<(char, usize)> {
    let character = match text.get(1)? {
        b'b' => '\u{8}',
        b'f' => '\u{c}',
        b'n' => '\n',
        b'r' => '\r',
        b't' => '\t',
        b'u' => return decode_unicode_escape(text),
        &other => char::from(other),
    };
    Some((character, 2))
}

fn decode_unicode_escape(text: &[u8]) -> Option<(char, usize)> {
    let first = hex4(text.get(2..6)?)?;
    if let Some(character) = char::from_u32(first) {
        return Some((character, 6));
    }
    let second = hex4(text.get(6..12)?.strip_prefix(b"\\u")?)?;
    if !(0xD800..0xDC00).contains(&first) || !(0xDC00..0xE000).contains(&second) {
        return None;
    }
    char::from_u32(0x1_0000 + ((first - 0xD800) << 10) + (second - 0xDC00)).map(|pair| (pair, 12))
}

fn hex4(digits: &[u8]) -> Option<u32> {
    digits.iter().try_fold(0, |value, &digit| Some(value << 4 | char::from(digit).to_digit(16)?))
}

fn too_deep(offset: usize) -> LoadResultError {
    LoadResultError::json("nested more than 127 deep", offset)
}

#[inline(always)]
fn byte(text: &[u8], at: usize) -> Result<u8> {
    match text.get(at) {
        Some(&byte) => Ok(byte),
        None => Err(LoadResultError::json("the document breaks off", at)),
    }
}

/// The first byte from `at` on that is not white space, and where it stands.
#[inline(always)]
fn token(text: &[u8], at: usize) -> Result<(usize, u8)> {
    match text.get(at) {
        Some(&byte) if byte > b' ' => Ok((at, byte)),
        _ => {
            let at = whitespace_end(text, at);
            Ok((at, byte(text, at)?))
        }
    }
}

#[inline(never)]
fn whitespace_end(text: &[u8], mut at: usize) -> usize {
    while let Some(b' ' | b'\n' | b'\r' | b'\t') = text.get(at) {
        at = first_marked(text, at + 1, other_than_blank);
    }
    at
}

/// Passes the colon behind a member's name.
#[inline(always)]
fn pass_colon(text: &[u8], at: usize) -> Result<usize> {
    match token(text, at)? {
        (at, b':') => Ok(at + 1),
        (at, _) => Err(LoadResultError::json("expected `:`", at)),
    }
}

/// Passes a member's name and the colon behind it.
#[inline(always)]
fn pass_name(text: &[u8], at: usize) -> Result<usize> {
    match token(text, at)? {
        (at, b'"') => pass_colon(text, string_end(text, at + 1)? + 1),
        (at, _) => Err(LoadResultError::json("expected `\"`", at)),
    }
}

/// The arrays and objects that are open, innermost last, one bit each.
struct Nesting {
    objects: u128,
    depth: u32,
    bound: u32,
}

impl Nesting {
    #[inline(always)]
    fn open(&mut self, object: bool, at: usize) -> Result<()> {
        if self.depth == self.bound {
            return Err(too_deep(at));
        }
        self.depth += 1;
        self.objects = self.objects << 1 | u128::from(object);
        Ok(())
    }

    /// Closes the innermost, and says whether that was the last.
    #[inline(always)]
    fn close(&mut self) -> bool {
        self.depth -= 1;
        self.objects >>= 1;
        self.depth == 0
    }

    #[inline(always)]
    fn in_object(&self) -> bool {
        self.objects & 1 == 1
    }
}

/// The end of the value that begins at `at`, with no more than `bound` levels in it.
fn value_end(text: &[u8], at: usize, bound: u32) -> Result<usize> {
    match token(text, at)? {
        (at, b'{' | b'[') => container_end(text, at, bound),
        (at, first) => scalar_end(text, at, first),
    }
}

/// The end of the array or object that begins at `at`.
fn container_end(text: &[u8], mut at: usize, bound: u32) -> Result<usize> {
    let mut nesting = Nesting { objects: 0, depth: 0, bound };
    loop {
        let (start, first) = token(text, at)?;
        match first {
            b'"' => at = string_end(text, start + 1)? + 1,
            b'{' => {
                nesting.open(true, start)?;
                let (next, byte) = token(text, start + 1)?;
                at = next;
                if byte != b'}' {
                    at = pass_name(text, at)?;
                    continue;
                }
            }
            b'[' => {
                nesting.open(false, start)?;
                let (next, byte) = token(text, start + 1)?;
                at = next;
                if byte != b']' {
                    continue;
                }
            }
            _ => at = scalar_end(text, start, first)?,
        }
        loop {
            let (next, byte) = token(text, at)?;
            at = next + 1;
            match (byte, nesting.in_object()) {
                (b',', true) => {
                    at = pass_name(text, at)?;
                    break;
                }
                (b',', false) => break,
                (b'}', true) | (b']', false) => {
                    if nesting.close() {
                        return Ok(at);
                    }
                }
                (_, true) => return Err(LoadResultError::json("expected `,` or `}`", next)),
                (_, false) => return Err(LoadResultError::json("expected `,` or `]`", next)),
            }
        }
    }
}

/// The end of the string, number or word that begins at `at` with the byte `first`.
#[inline(always)]
fn scalar_end(text: &[u8], at: usize, first: u8) -> Result<usize> {
    match first {
        b'"' => Ok(string_end(text, at + 1)? + 1),
        b'-' => number_end(text, at + 1),
        b'0'..=b'9' => number_end(text, at),
        b't' => word_end(text, at, b"true"),
        b'f' => word_end(text, at, b"false"),
        b'n' => word_end(text, at, b"null"),
        _ => Err(LoadResultError::json("expected a value", at)),
    }
}

fn word_end(text: &[u8], at: usize, word: &'static [u8]) -> Result<usize> {
    match text[at..].starts_with(word) {
        true => Ok(at + word.len()),
        false => Err(LoadResultError::json("expected a value", at)),
    }
}

/// The end of the number that begins at `at`, behind its sign.
#[inline(always)]
fn number_end(text: &[u8], at: usize) -> Result<usize> {
    let end = match text.get(at) {
        Some(b'0') => at + 1,
        _ => digits_end(text, at)?,
    };
    match text.get(end) {
        Some(b'.' | b'e' | b'E') => fraction_end(text, end),
        _ => Ok(end),
    }
}

/// The end of the fraction and the exponent that begin at `at`.
#[cold]
fn fraction_end(text: &[u8], mut at: usize) -> Result<usize> {
    if text.get(at) == Some(&b'.') {
        at = digits_end(text, at + 1)?;
    }
    if matches!(text.get(at), Some(b'e' | b'E')) {
        let sign = matches!(text.get(at + 1), Some(b'+' | b'-'));
        at = digits_end(text, at + 1 + usize::from(sign))?;
    }
    Ok(at)
}

/// The end of the digits at `at`, of which there must be one.
#[inline(always)]
fn digits_end(text: &[u8], start: usize) -> Result<usize> {
    let at = first_marked(text, start, other_than_digit);
    match at > start {
        true => Ok(at),
        false => Err(LoadResultError::json("expected a digit", at)),
    }
}

/// The closing quote of the string whose first byte is at `start`.
#[inline(always)]
fn string_end(text: &[u8], start: usize) -> Result<usize> {
    let at = first_marked(text, start, other_than_plain);
    match text.get(at) {
        Some(b'"') => Ok(at),
        _ => difficult_string_end(text, start, at),
    }
}

/// The closing quote of the string whose first byte is at `start`, and which is plain up to `at`.
#[inline(never)]
fn difficult_string_end(text: &[u8], start: usize, mut at: usize) -> Result<usize> {
    let mut ascii = true;
    loop {
        match byte(text, at)? {
            b'"' => break,
            b'\\' => at = escape_end(text, at)?,
            0..0x20 => return Err(LoadResultError::json("a control character in a string", at)),
            _ => {
                ascii = false;
                at += 1;
            }
        }
        at = match ascii {
            true => first_marked(text, at, other_than_plain),
            false => first_marked(text, at, other_than_text),
        };
    }
    if !ascii && let Err(error) = str::from_utf8(&text[start..at]) {
        return Err(LoadResultError::json("is not UTF-8", start + error.valid_up_to()));
    }
    Ok(at)
}

/// The end of the escape that begins at `at`.
fn escape_end(text: &[u8], at: usize) -> Result<usize> {
    match byte(text, at + 1)? {
        b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't' => Ok(at + 2),
        b'u' if text.get(at + 2..at + 6).is_some_and(|hex| hex.iter().all(u8::is_ascii_hexdigit)) => {
            Ok(at + 6)
        }
        _ => Err(LoadResultError::json("an unknown escape", at)),
    }
}

/// The first byte from `at` on that `mark` marks, or else the end of the text. `mark` is given eight bytes at
/// a time, the first one lowest, and sets the high bit of those it means; from the first of them on it may
/// err. It has to mean zero.
#[inline(always)]
fn first_marked(text: &[u8], at: usize, mark: impl Fn(u64) -> u64) -> usize {
    let mut rest = text.get(at..).unwrap_or_default();
    loop {
        let (word, next) = match rest.split_first_chunk() {
            Some((word, next)) => (u64::from_le_bytes(*word), next),
            None => (last_word(rest), rest),
        };
        let marked = mark(word);
        if marked != 0 {
            return text.len() - rest.len() + marked.trailing_zeros() as usize / 8;
        }
        rest = next;
    }
}

/// Fewer than eight bytes, and zeros behind them.
#[cold]
fn last_word(rest: &[u8]) -> u64 {
    rest.iter().rev().fold(0, |word, &byte| word << 8 | u64::from(byte))
}

/// A word of eight times this byte.
const fn eight(byte: u8) -> u64 {
    u64::from_ne_bytes([byte; 8])
}

/// Marks what is not plain text in a string: quotes, backslashes, control characters and all beyond ASCII.
#[inline(always)]
fn other_than_plain(word: u64) -> u64 {
    (below_text(word) | word) & eight(0x80)
}

/// Marks what is not text in a string: quotes, backslashes and control characters.
#[inline(always)]
fn other_than_text(word: u64) -> u64 {
    below_text(word) & !word & eight(0x80)
}

/// Has the high bit set for quotes, backslashes and control characters, and whatever for what is not ASCII.
#[inline(always)]
fn below_text(word: u64) -> u64 {
    // The first exchange puts the quote where the blank is and leaves control characters below, so that
    // one subtraction borrows for all of them.
    let quote_or_control = (word ^ eight(b'"' ^ b' ')).wrapping_sub(eight(b' ' + 1));
    let backslash = (word ^ eight(b'\\')).wrapping_sub(eight(1));
    quote_or_control | backslash
}

/// Marks what is no decimal digit.
#[inline(always)]
fn other_than_digit(word: u64) -> u64 {
    let value = word ^ eight(b'0');
    (value.wrapping_add(eight(0x80 - 10)) | value) & eight(0x80)
}

/// Marks what is no blank.
#[inline(always)]
fn other_than_blank(word: u64) -> u64 {
    let value = word ^ eight(b' ');
    (value.wrapping_add(eight(0x80 - 1)) | value) & eight(0x80)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every byte at every place of texts of up to three words, against a look at each byte.
    fn check_mark(filler: u8, mark: impl Fn(u64) -> u64 + Copy, means: impl Fn(u8) -> bool) {
        for length in 0..=24 {
            for place in 0..length {
                for byte in 0..=u8::MAX {
                    for behind in [filler, b'"', 0xFF] {
                        let mut text = vec![filler; place];
                        text.push(byte);
                        text.resize(length, behind);
                        let expected = text.iter().position(|&byte| means(byte)).unwrap_or(length);
                        assert_eq!(first_marked(&text, 0, mark), expected, "{text:?}");
                    }
                }
            }
        }
        assert_eq!(first_marked(b"12345678", 9, mark), 8);
    }

    #[test]
    fn other_than_plain_text() {
        let special = |byte: u8| matches!(byte, b'"' | b'\\' | 0..0x20 | 0x80..);
        check_mark(b'x', other_than_plain, special);
        check_mark(b' ', other_than_plain, special);
        check_mark(0x7F, other_than_plain, special);
    }

    #[test]
    fn other_than_any_text() {
        let special = |byte: u8| matches!(byte, b'"' | b'\\' | 0..0x20);
        check_mark(b'x', other_than_text, special);
        check_mark(0x80, other_than_text, special);
        check_mark(0xFF, other_than_text, special);
    }

    #[test]
    fn other_than_digits() {
        check_mark(b'0', other_than_digit, |byte| !byte.is_ascii_digit());
        check_mark(b'9', other_than_digit, |byte| !byte.is_ascii_digit());
    }

    #[test]
    fn other_than_blanks() {
        check_mark(b' ', other_than_blank, |byte| byte != b' ');
    }

    #[test]
    fn a_value_ends_where_its_last_byte_is() {
        for (text, end) in [
            ("1", 1),
            ("-0.5e+10 ", 8),
            ("12345678", 8),
            ("123456789,", 9),
            ("\"\"x", 2),
            ("\"1234567\"x", 9),
            ("\"12345678\"", 10),
            (r#""a\"b\\"]"#, 8),
            ("true]", 4),
            ("{}}", 2),
            ("[]]", 2),
            (r#" [ { "a" : [ 1 , { } ] , "b" : null } ] x"#, 39),
        ] {
            assert_eq!(value_end(text.as_bytes(), 0, MAX_DEPTH), Ok(end), "{text}");
        }
    }

    #[test]
    fn the_bound_counts_what_is_open_at_once() {
        let bound = |text: &str, bound| value_end(text.as_bytes(), 0, bound);
        assert!(bound("1", 0).is_ok());
        assert!(bound("[]", 0).is_err());
        assert!(bound("[[],[],{}]", 2).is_ok());
        assert_eq!(bound("[[],[{}]]", 2), Err(too_deep(5)));
    }
}
