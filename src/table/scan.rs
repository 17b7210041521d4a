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
        self.at = skip_whitespace(self.text, self.at);
        byte(self.text, self.at)
    }

    /// The byte the scanner stands on.
    pub fn offset(&self) -> usize {
        self.at
    }

    /// Makes sure that nothing but white space is left.
    pub fn end(&mut self) -> Result<()> {
        self.at = skip_whitespace(self.text, self.at);
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
            self.peek()?;
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
        self.at = skip_value(self.text, start, MAX_DEPTH - self.depth)?;
        Ok(start..self.at)
    }

    /// Passes over an object that was read before at the same depth, if exactly that comes next.
    pub fn skip_known(&mut self, object: &[u8]) -> Option<Range<usize>> {
        self.peek().ok()?;
        let start = self.at;
        self.text[start..].starts_with(object).then(|| {
            self.at += object.len();
            start..self.at
        })
    }

    fn string(&mut self) -> Result<RawString<'a>> {
        let start = pass_quote(self.text, self.at)?;
        let (end, escaped) = string_end(self.text, start)?;
        self.at = end + 1;
        Ok(RawString { raw: &self.text[start..end], offset: start, escaped })
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
    pub fn decode(&self, member: &'static str) -> Result<Box<str>> {
        let mut text = String::with_capacity(self.raw.len());
        self.decode_into(&mut text, member)?;
        Ok(text.into_boxed_str())
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

#[inline(always)]
fn skip_whitespace(text: &[u8], mut at: usize) -> usize {
    while matches!(text.get(at), Some(b' ' | b'\n' | b'\r' | b'\t')) {
        at += 1;
    }
    at
}

#[inline(always)]
fn pass_quote(text: &[u8], at: usize) -> Result<usize> {
    match byte(text, at)? {
        b'"' => Ok(at + 1),
        _ => Err(LoadResultError::json("expected `\"`", at)),
    }
}

#[inline(always)]
fn pass_colon(text: &[u8], at: usize) -> Result<usize> {
    let at = skip_whitespace(text, at);
    match byte(text, at)? {
        b':' => Ok(at + 1),
        _ => Err(LoadResultError::json("expected `:`", at)),
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

    #[inline(always)]
    fn close(&mut self) {
        self.depth -= 1;
        self.objects >>= 1;
    }

    #[inline(always)]
    fn in_object(&self) -> bool {
        self.objects & 1 == 1
    }
}

/// The end of the value that begins at `at`, with no more than `bound` levels in it.
fn skip_value(text: &[u8], mut at: usize, bound: u32) -> Result<usize> {
    let mut nesting = Nesting { objects: 0, depth: 0, bound };
    loop {
        at = skip_whitespace(text, at);
        match byte(text, at)? {
            b'"' => at = string_end(text, at + 1)?.0 + 1,
            b'{' => {
                nesting.open(true, at)?;
                at = skip_whitespace(text, at + 1);
                if byte(text, at)? != b'}' {
                    at = skip_name(text, at)?;
                    continue;
                }
                nesting.close();
                at += 1;
            }
            b'[' => {
                nesting.open(false, at)?;
                at = skip_whitespace(text, at + 1);
                if byte(text, at)? != b']' {
                    continue;
                }
                nesting.close();
                at += 1;
            }
            b'-' | b'0'..=b'9' => at = number_end(text, at)?,
            b't' => at = skip_word(text, at, b"true")?,
            b'f' => at = skip_word(text, at, b"false")?,
            b'n' => at = skip_word(text, at, b"null")?,
            _ => return Err(LoadResultError::json("expected a value", at)),
        }
        loop {
            if nesting.depth == 0 {
                return Ok(at);
            }
            at = skip_whitespace(text, at);
            match (byte(text, at)?, nesting.in_object()) {
                (b',', true) => {
                    at = skip_name(text, skip_whitespace(text, at + 1))?;
                    break;
                }
                (b',', false) => {
                    at += 1;
                    break;
                }
                (b'}', true) | (b']', false) => {
                    nesting.close();
                    at += 1;
                }
                (_, true) => return Err(LoadResultError::json("expected `,` or `}`", at)),
                (_, false) => return Err(LoadResultError::json("expected `,` or `]`", at)),
            }
        }
    }
}

/// Passes a member's name and the colon behind it.
#[inline(always)]
fn skip_name(text: &[u8], at: usize) -> Result<usize> {
    let start = pass_quote(text, at)?;
    let (end, _) = string_end(text, start)?;
    pass_colon(text, end + 1)
}

fn skip_word(text: &[u8], at: usize, word: &'static [u8]) -> Result<usize> {
    match text[at..].starts_with(word) {
        true => Ok(at + word.len()),
        false => Err(LoadResultError::json("expected a value", at)),
    }
}

/// The end of the number that begins at `at`.
#[inline]
fn number_end(text: &[u8], mut at: usize) -> Result<usize> {
    if text[at] == b'-' {
        at += 1;
    }
    at = match text.get(at) {
        Some(b'0') => at + 1,
        _ => digits_end(text, at)?,
    };
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
    let mut at = start;
    while text.get(at).is_some_and(u8::is_ascii_digit) {
        at += 1;
    }
    match at > start {
        true => Ok(at),
        false => Err(LoadResultError::json("expected a digit", at)),
    }
}

const HIGH_BITS: u64 = eight(0x80);

/// A word of eight times this byte.
const fn eight(byte: u8) -> u64 {
    u64::from_ne_bytes([byte; 8])
}

/// The closing quote of the string whose first byte is at `start`, and whether there are escapes in it.
#[inline]
fn string_end(text: &[u8], start: usize) -> Result<(usize, bool)> {
    let mut at = start;
    let mut escaped = false;
    let mut seen = 0;
    loop {
        while let Some(chunk) = text.get(at..).and_then(|rest| rest.first_chunk()) {
            let word = u64::from_le_bytes(*chunk);
            seen |= word;
            let special = special_bytes(word);
            if special != 0 {
                at += special.trailing_zeros() as usize / 8;
                break;
            }
            at += 8;
        }
        let next = byte(text, at)?;
        match next {
            b'"' => break,
            b'\\' => {
                escaped = true;
                at = escape_end(text, at)?;
            }
            0..0x20 => return Err(LoadResultError::json("a control character in a string", at)),
            _ => {
                seen |= u64::from(next);
                at += 1;
            }
        }
    }
    if seen & HIGH_BITS != 0
        && let Err(error) = str::from_utf8(&text[start..at])
    {
        return Err(LoadResultError::json("is not UTF-8", start + error.valid_up_to()));
    }
    Ok((at, escaped))
}

/// The high bit of each byte that a string cannot hold as it is: quote, backslash, control characters. Bits
/// above the lowest one may be wrong.
#[inline(always)]
fn special_bytes(word: u64) -> u64 {
    let quote = (word ^ eight(b'"')).wrapping_sub(eight(1));
    let backslash = (word ^ eight(b'\\')).wrapping_sub(eight(1));
    let control = word.wrapping_sub(eight(0x20));
    (quote | backslash | control) & !word & HIGH_BITS
}

/// The end of the escape that begins at `at`.
#[cold]
fn escape_end(text: &[u8], at: usize) -> Result<usize> {
    match byte(text, at + 1)? {
        b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't' => Ok(at + 2),
        b'u' if text.get(at + 2..at + 6).is_some_and(|hex| hex.iter().all(u8::is_ascii_hexdigit)) => {
            Ok(at + 6)
        }
        _ => Err(LoadResultError::json("an unknown escape", at)),
    }
}
