//! Whether bytes are a load result to anybody, for answers to requests that nobody recognised.

/// Whether some reader, strict or lenient, would find a load result in this body: a JSON object whose
/// `metadata` is an object with `format-version` and `schemas` or `schema`.
///
/// It errs on the side of yes, because what it finds is refused. A name counts in any spelling that some
/// reader takes for the same (escapes, letter case, invalid bytes that are dropped, other quotes or none);
/// repeated members are read as one; and comments, a byte order mark, UTF-16 and UTF-32, nesting of any
/// depth, and whatever follows or never comes do not hide anything.
///
/// By this definition the answer to a commit, which only lacks `config`, is a load result too, and so is
/// that of a view, whose metadata look alike.
///
/// ```
/// use iceberg_read_restrictions::table::is_load_result;
///
/// assert!(is_load_result(br#"{"metadata": {"format-version": 2, "schemas": []}}"#));
/// assert!(!is_load_result(br#"{"identifiers": []}"#));
/// ```
pub fn is_load_result(body: &[u8]) -> bool {
    holds_load_result(body) || transcode(body).is_some_and(|text| holds_load_result(text.as_bytes()))
}

fn holds_load_result(text: &[u8]) -> bool {
    let (mut word, mut name) = (&[][..], String::new());
    let (mut has_version, mut has_schema) = (false, false);
    // How many brackets are open, and how many of the outermost lead to the metadata.
    let (mut depth, mut on_the_way) = (0_usize, 0);
    for token in (Tokens { rest: text }) {
        match token {
            Token::Word(next) => word = next,
            Token::Colon if depth == on_the_way => {
                name = plain_spelling(word);
                has_version |= depth == 2 && name == "format-version";
                has_schema |= depth == 2 && (name == "schemas" || name == "schema");
            }
            Token::Colon => {}
            Token::Open(bracket) => {
                let leads_on = depth == 0 || depth == 1 && name == "metadata";
                if depth == 0 {
                    (has_version, has_schema) = (false, false);
                }
                if bracket == b'{' && leads_on && depth == on_the_way {
                    on_the_way += 1;
                }
                depth += 1;
            }
            Token::Close => {
                depth = depth.saturating_sub(1);
                on_the_way = on_the_way.min(depth);
            }
        }
        if has_version && has_schema {
            return true;
        }
    }
    false
}

enum Token<'a> {
    Open(u8),
    Close,
    Colon,
    /// A string in any quotes, without them, or what else stands between two other tokens.
    Word(&'a [u8]),
}

/// The tokens of JSON and of what people have made of it. Commas, white space and comments are none.
struct Tokens<'a> {
    rest: &'a [u8],
}

impl<'a> Iterator for Tokens<'a> {
    type Item = Token<'a>;

    fn next(&mut self) -> Option<Token<'a>> {
        while let Some(gap) = gap_length(self.rest) {
            self.rest = &self.rest[gap..];
        }
        let (&first, behind) = self.rest.split_first()?;
        let (token, length) = match first {
            b'{' | b'[' => (Token::Open(first), 1),
            b'}' | b']' => (Token::Close, 1),
            b':' => (Token::Colon, 1),
            b'"' | b'\'' => {
                let inside = quoted_length(behind, first);
                (Token::Word(&behind[..inside]), 1 + inside + 1)
            }
            _ => {
                let length = 1 + bare_length(behind);
                (Token::Word(&self.rest[..length]), length)
            }
        };
        // A string that nothing closes ends with the text.
        self.rest = self.rest.get(length..).unwrap_or_default();
        Some(token)
    }
}

/// The length of the white space, the comma or the comment that comes next, if one does.
fn gap_length(text: &[u8]) -> Option<usize> {
    match text {
        [b' ' | b'\t'..=b'\r' | b',', ..] => Some(1),
        [b'/', b'*', comment @ ..] => {
            let end = comment.windows(2).position(|end| end == b"*/");
            Some(end.map_or(text.len(), |length| 2 + length + 2))
        }
        [b'/', b'/', ..] | [b'#', ..] => {
            Some(text.iter().position(|byte| matches!(byte, b'\n' | b'\r')).unwrap_or(text.len()))
        }
        _ => None,
    }
}

fn quoted_length(text: &[u8], quote: u8) -> usize {
    let mut at = 0;
    while let Some(&byte) = text.get(at) {
        match byte {
            b'\\' => at += 2,
            _ if byte == quote => return at,
            _ => at += 1,
        }
    }
    text.len()
}

fn bare_length(text: &[u8]) -> usize {
    let ends = |byte: &u8| {
        matches!(byte, b'{' | b'}' | b'[' | b']' | b':' | b',' | b'"' | b'\'' | b'\t'..=b'\r' | b' ')
    };
    text.iter().position(ends).unwrap_or(text.len())
}

/// What lenient readers take a name for: escapes decoded, what is not text dropped, in lower case.
fn plain_spelling(raw: &[u8]) -> String {
    let text = String::from_utf8_lossy(raw);
    let mut plain = String::new();
    let mut characters = text.chars();
    while let Some(character) = characters.next() {
        let decoded = match character {
            '\\' => match characters.next() {
                Some('u') => decode_hex(&mut characters, 4),
                Some('x') => decode_hex(&mut characters, 2),
                Some('b' | 'f' | 'n' | 'r' | 't') => Some(' '),
                other => other,
            },
            other => Some(other),
        };
        match decoded {
            None | Some('\0' | char::REPLACEMENT_CHARACTER) => {}
            // The one letter beyond ASCII that readers without regard to case take for one of these names.
            Some('ſ') => plain.push('s'),
            Some(decoded) => plain.push(decoded.to_ascii_lowercase()),
        }
    }
    plain
}

/// The character of the next so many hexadecimal digits, if they are one.
fn decode_hex(characters: &mut std::str::Chars<'_>, digits: usize) -> Option<char> {
    let value =
        characters.by_ref().take(digits).try_fold(0, |value, digit| Some(value << 4 | digit.to_digit(16)?));
    value.and_then(char::from_u32)
}

/// The text of a body that looks like UTF-16 or UTF-32, which readers tell by a byte order mark or by the
/// zeros around the first characters (RFC 4627, section 3).
fn transcode(body: &[u8]) -> Option<String> {
    let utf32 = |unit: fn([u8; 4]) -> u32| {
        let units = body.chunks_exact(4).map(|bytes| unit([bytes[0], bytes[1], bytes[2], bytes[3]]));
        units.filter_map(char::from_u32).collect()
    };
    let utf16 = |unit: fn([u8; 2]) -> u16| {
        let units = body.chunks_exact(2).map(|bytes| unit([bytes[0], bytes[1]]));
        char::decode_utf16(units).filter_map(Result::ok).collect()
    };
    match body {
        [0xFF, 0xFE, 0, 0, ..] | [_, 0, 0, 0, ..] => Some(utf32(u32::from_le_bytes)),
        [0, 0, 0xFE, 0xFF, ..] | [0, 0, 0, _, ..] => Some(utf32(u32::from_be_bytes)),
        [0xFF, 0xFE, ..] | [_, 0, ..] => Some(utf16(u16::from_le_bytes)),
        [0xFE, 0xFF, ..] | [0, _, ..] => Some(utf16(u16::from_be_bytes)),
        _ => None,
    }
}
