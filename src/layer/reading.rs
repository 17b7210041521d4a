//! The usual lenient ways to read a path, and whether any of them finds another operation than the exact one.
//!
//! Routers differ: some decode before they split, drop empty segments, resolve dots, cut `;parameters`, ignore
//! a trailing slash or the case of letters, and they do so in different orders. A path is only as safe as the most
//! lenient of them, so every combination that could matter for the path at hand is tried.

use std::borrow::Cow;

use http::Method;

use super::route::{Operation, OperationKind, Shape, classify};

/// Longer paths with anything doubtful in them are refused rather than read in every way, and so are those of more
/// segments.
const LONGEST_DOUBTFUL: usize = 2048;
const MOST_DOUBTFUL_SEGMENTS: usize = 64;

/// How often a lenient chain of proxies may decode one path.
const DECODINGS: usize = 4;

const FIXED_WORDS: [&str; 17] = [
    "v1",
    "namespaces",
    "tables",
    "register",
    "credentials",
    "plan",
    "tasks",
    "sign",
    "transactions",
    "commit",
    "metrics",
    "unregister",
    "views",
    "functions",
    "properties",
    "register-view",
    "rename",
];

/// Whether a path holds anything that two routers could read differently. Costs one pass, and no allocation unless
/// there are encoded letters beyond ASCII, for this is asked of every request.
pub(super) fn is_doubtful(path: &str) -> bool {
    let bytes = path.as_bytes();
    let (mut upper_case, mut beyond_ascii) = (false, false);
    for (at, &byte) in bytes.iter().enumerate() {
        beyond_ascii |= !byte.is_ascii();
        let doubtful = match byte {
            b';' | b'\\' => true,
            b'/' => is_empty_or_dots(&bytes[at + 1..]),
            b'%' => escape(&bytes[at..]).is_none_or(|byte| {
                beyond_ascii |= !byte.is_ascii();
                byte.is_ascii_alphanumeric() || matches!(byte, b'/' | b'\\' | b'.' | b';' | b'%' | 0)
            }),
            _ => false,
        };
        if doubtful {
            return true;
        }
        upper_case |= byte.is_ascii_uppercase();
    }
    let is_misspelled = |segment: &str| fixed_word(segment.as_bytes()).is_some_and(|word| word != segment);
    upper_case && path.split('/').any(is_misspelled) || beyond_ascii && is_doubtful_beyond_ascii(path)
}

/// Whether letters beyond ASCII could be read as others.
fn is_doubtful_beyond_ascii(path: &str) -> bool {
    match percent_encoding::percent_decode_str(path).decode_utf8() {
        Ok(text) => text.chars().any(|letter| !letter.is_ascii() && lower_case(letter).is_ascii()),
        Err(_) => true,
    }
}

/// Whether the segment at the beginning of `rest` is empty, `.` or `..`.
fn is_empty_or_dots(rest: &[u8]) -> bool {
    let end = rest.iter().take(3).position(|byte| *byte == b'/').unwrap_or(rest.len());
    matches!(rest.get(..end), Some(b"" | b"." | b".."))
}

/// Whether a path that is an operation is spelled as a client would spell it, in the mount and the prefix as well.
pub(super) fn is_exactly_spelled(path: &str, lead: &str) -> bool {
    let names = path.strip_prefix(lead).unwrap_or(path);
    segments(lead).all(|segment| is_exact_name(segment) && is_exact_lead(segment))
        && segments(names).all(is_exact_name)
}

/// The segments behind the first slash.
fn segments(path: &str) -> impl Iterator<Item = &[u8]> {
    path.as_bytes().split(|byte| *byte == b'/').skip(1)
}

/// No dot segment, nothing empty, no parameters, no bare backslash, and well-formed escapes of UTF-8 text.
fn is_exact_name(segment: &[u8]) -> bool {
    let decoded = decode(segment);
    escapes(segment).all(|escape| escape.is_some())
        && !segment.contains(&b'\\')
        && !matches!(&*decoded, b"" | b"." | b"..")
        && !decoded.iter().any(|byte| matches!(byte, b';' | 0))
        && std::str::from_utf8(&decoded).is_ok()
}

/// No escapes of letters, digits, dots or of `%` itself, no `v1` in other letters, and neither a `v1` nor an empty or
/// dot segment behind an encoded slash.
fn is_exact_lead(segment: &[u8]) -> bool {
    let decoded = decode(segment);
    escapes(segment)
        .flatten()
        .all(|byte| !byte.is_ascii_alphanumeric() && !matches!(byte, b'.' | b'%' | b'\\'))
        && !decoded.contains(&b'\\')
        && !decoded.split(|byte| *byte == b'/').any(|part| matches!(part, b"" | b"." | b".."))
        && (segment == b"v1"
            || !decoded.split(|byte| *byte == b'/').any(|part| part.eq_ignore_ascii_case(b"v1")))
}

/// What lenient routers make of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lenient {
    /// Nothing of ours.
    Nothing,
    /// Something below `namespaces`, or the very operation that the exact reading finds.
    BelowNamespaces,
    /// One of them finds an operation that the exact reading does not find.
    AnotherOperation,
}

/// Reads a doubtful path in every lenient way.
pub(super) fn read_leniently(method: &Method, path: &str, exact: Option<Operation<'_>>) -> Lenient {
    let raw = path.as_bytes();
    if !raw.contains(&b'%') && !mentions_operations(raw) {
        return Lenient::Nothing;
    }
    let decoded = decode_fully(raw);
    if !mentions_operations(&decoded) {
        return Lenient::Nothing;
    }
    let segments = decoded.iter().filter(|byte| matches!(byte, b'/' | b'\\')).count();
    if raw.len() > LONGEST_DOUBTFUL || segments > MOST_DOUBTFUL_SEGMENTS {
        return Lenient::AnotherOperation;
    }
    let exact = exact.map(|operation| Found {
        kind: operation.kind,
        namespace: decode_fully(operation.namespace.as_bytes()),
        table: decode_fully(operation.table.as_bytes()),
    });
    let mut lenient = Lenient::Nothing;
    for reading in readings(raw, &decoded) {
        match find(method, &reading.segments(raw)) {
            Finding::Elsewhere => {}
            Finding::BelowNamespaces => lenient = Lenient::BelowNamespaces,
            Finding::One(found) if exact.as_ref() == Some(&found) => lenient = Lenient::BelowNamespaces,
            Finding::One(_) | Finding::Several => return Lenient::AnotherOperation,
        }
    }
    lenient
}

/// One way to read a path. The fields are in the order in which the steps are taken.
#[derive(Clone, Copy, Debug, Default)]
struct Reading {
    cuts_parameters_first: bool,
    resolves_dots_first: bool,
    decodes_fully: bool,
    splits_at_encoded_slashes: bool,
    splits_at_backslashes: bool,
    cuts_parameters: bool,
    drops_empty_segments: bool,
    resolves_dots: bool,
    drops_empty_segments_last: bool,
}

/// Every combination of the steps that change anything about this path.
fn readings(raw: &[u8], decoded: &[u8]) -> Vec<Reading> {
    let count = |text: &[u8], wanted: u8| text.iter().filter(|byte| **byte == wanted).count();
    let dotted =
        |text: &[u8]| text.split(|byte| b"/\\;".contains(byte)).any(|part| matches!(part, b"." | b".."));
    let parameters = count(decoded, b';') > 0;
    let dots = dotted(decoded);
    let slashes = count(decoded, b'/') > count(raw, b'/');
    let backslashes = count(decoded, b'\\') > 0;
    let gaps = decoded.windows(2).any(|pair| pair == b"//") || parameters || dots || slashes || backslashes;

    let mut readings = vec![Reading::default()];
    let mut also = |applies: bool, step: fn(&mut Reading)| {
        if applies {
            let with = readings.iter().map(|reading| {
                let mut reading = *reading;
                step(&mut reading);
                reading
            });
            let with: Vec<_> = with.collect();
            readings.extend(with);
        }
    };
    also(count(raw, b';') > 0, |reading| reading.cuts_parameters_first = true);
    also(dotted(raw), |reading| reading.resolves_dots_first = true);
    also(decode(raw) != decoded, |reading| reading.decodes_fully = true);
    also(slashes, |reading| reading.splits_at_encoded_slashes = true);
    also(backslashes, |reading| reading.splits_at_backslashes = true);
    also(parameters, |reading| reading.cuts_parameters = true);
    also(gaps, |reading| reading.drops_empty_segments = true);
    also(dots, |reading| reading.resolves_dots = true);
    also(gaps, |reading| reading.drops_empty_segments_last = true);
    readings
}

impl Reading {
    /// The decoded segments behind the first slash, without empty ones at the end.
    fn segments(self, raw: &[u8]) -> Vec<Vec<u8>> {
        let mut segments: Vec<Vec<u8>> =
            raw.split(|byte| *byte == b'/').skip(1).map(<[u8]>::to_vec).collect();
        if self.cuts_parameters_first {
            segments.iter_mut().for_each(cut_parameters);
        }
        if self.resolves_dots_first {
            resolve_dots(&mut segments);
        }
        let decode: fn(&[u8]) -> Vec<u8> = if self.decodes_fully { decode_fully } else { decode };
        let splits = |byte: &u8| match byte {
            b'/' => self.splits_at_encoded_slashes,
            b'\\' => self.splits_at_backslashes,
            _ => false,
        };
        segments = segments
            .iter()
            .map(|segment| decode(segment))
            .flat_map(|segment| segment.split(splits).map(<[u8]>::to_vec).collect::<Vec<_>>())
            .collect();
        if self.cuts_parameters {
            segments.iter_mut().for_each(cut_parameters);
        }
        if self.drops_empty_segments {
            segments.retain(|segment| !segment.is_empty());
        }
        if self.resolves_dots {
            resolve_dots(&mut segments);
        }
        if self.drops_empty_segments_last {
            segments.retain(|segment| !segment.is_empty());
        }
        while segments.last().is_some_and(Vec::is_empty) {
            segments.pop();
        }
        segments
    }
}

fn cut_parameters(segment: &mut Vec<u8>) {
    if let Some(at) = segment.iter().position(|byte| *byte == b';') {
        segment.truncate(at);
    }
}

fn resolve_dots(segments: &mut Vec<Vec<u8>>) {
    let mut resolved: Vec<Vec<u8>> = Vec::with_capacity(segments.len());
    for segment in segments.drain(..) {
        match &*segment {
            b"." => {}
            b".." => {
                resolved.pop();
            }
            _ => resolved.push(segment),
        }
    }
    *segments = resolved;
}

/// An operation as a lenient router would find it, with names decoded as far as they go.
#[derive(PartialEq, Eq)]
struct Found {
    kind: OperationKind,
    namespace: Vec<u8>,
    table: Vec<u8>,
}

enum Finding {
    Elsewhere,
    BelowNamespaces,
    One(Found),
    Several,
}

fn find(method: &Method, segments: &[Vec<u8>]) -> Finding {
    // Any other name will do for what is no fixed word.
    let word =
        |segment: &Vec<u8>| if segment.is_empty() { "" } else { fixed_word(segment).unwrap_or("name") };
    let words: Vec<&str> = segments.iter().map(word).collect();
    let mut finding = Finding::Elsewhere;
    for (at, word) in words.iter().enumerate() {
        let found = match *word {
            "namespaces" => found_below(method, &words[at + 1..], &segments[at + 1..]),
            "transactions" if *method == Method::POST && words[at + 1..] == ["commit"] => Some(Found {
                kind: OperationKind::CommitTransaction,
                namespace: Vec::new(),
                table: Vec::new(),
            }),
            _ => continue,
        };
        finding = match (finding, found) {
            (Finding::Elsewhere, None) => Finding::BelowNamespaces,
            (finding, None) => finding,
            (Finding::Elsewhere | Finding::BelowNamespaces, Some(found)) => Finding::One(found),
            (Finding::One(_) | Finding::Several, Some(_)) => return Finding::Several,
        };
    }
    finding
}

fn found_below(method: &Method, words: &[&str], segments: &[Vec<u8>]) -> Option<Found> {
    match classify(method, words) {
        Shape::Operation(kind) => Some(Found {
            kind,
            namespace: decode_fully(segments.first()?),
            table: segments.get(2).map(|table| decode_fully(table)).unwrap_or_default(),
        }),
        Shape::Passing | Shape::Unrecognized => None,
    }
}

/// The fixed word that a decoded segment is, whatever the case of its letters.
fn fixed_word(segment: &[u8]) -> Option<&'static str> {
    let segment = in_ascii(segment);
    FIXED_WORDS.into_iter().find(|word| word.as_bytes().eq_ignore_ascii_case(&segment))
}

/// Whether a word that every operation has stands anywhere in a decoded path.
fn mentions_operations(text: &[u8]) -> bool {
    let text = in_ascii(text);
    let contains = |word: &[u8]| text.windows(word.len()).any(|window| window.eq_ignore_ascii_case(word));
    contains(b"namespaces") || contains(b"transactions")
}

/// The text with [letters that are in another case those of ASCII](lower_case) as those.
fn in_ascii(text: &[u8]) -> Cow<'_, [u8]> {
    match text.is_ascii() {
        true => Cow::Borrowed(text),
        false => {
            Cow::Owned(String::from_utf8_lossy(text).chars().map(lower_case).collect::<String>().into_bytes())
        }
    }
}

/// The letter in lower case, as routers compare letters that ignore case: one by one, either in lower case or first in
/// upper case. The Kelvin sign and three more letters are in that way letters of ASCII.
fn lower_case(letter: char) -> char {
    match letter {
        '\u{17f}' => 's',
        '\u{212a}' => 'k',
        '\u{130}' | '\u{131}' => 'i',
        other => other.to_ascii_lowercase(),
    }
}

/// The byte that a well-formed escape at the beginning of `text` stands for.
fn escape(text: &[u8]) -> Option<u8> {
    let digit = |at: usize| text.get(at).and_then(|byte| char::from(*byte).to_digit(16));
    let value = digit(1)? * 16 + digit(2)?;
    u8::try_from(value).ok()
}

/// What each escape stands for; `None` for a malformed one.
fn escapes(segment: &[u8]) -> impl Iterator<Item = Option<u8>> {
    segment.iter().enumerate().filter(|(_, byte)| **byte == b'%').map(|(at, _)| escape(&segment[at..]))
}

/// Decodes once; malformed escapes stay.
fn decode(text: &[u8]) -> Vec<u8> {
    percent_encoding::percent_decode(text).collect()
}

fn decode_fully(text: &[u8]) -> Vec<u8> {
    let mut text = text.to_vec();
    for _ in 0..DECODINGS {
        let decoded = decode(&text);
        if decoded == text {
            break;
        }
        text = decoded;
    }
    text
}
