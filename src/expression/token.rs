//! Source text to tokens.

use std::{fmt, sync::Arc};

use combine::{
    EasyParser, Parser, attempt, choice, many, not_followed_by, optional,
    parser::range::{range, recognize},
    position, satisfy, satisfy_map, skip_many, skip_many1,
    stream::{PointerOffset, easy},
    value,
};

use super::{
    error::{Refusal, expectation},
    rule::Span,
};

/// The keywords, and the names of the functions.
#[rustfmt::skip]
const WORDS: [&str; 15] = [
    "filter", "mask", "if", "else", "and", "or", "not", "in", "true", "false", "null",
    "col", "session_user", "is_group_member", "action",
];

/// The operators and brackets, longer ones before those that they begin with.
const SYMBOLS: [&str; 12] = [":=", "==", "!=", "<=", ">=", "<", ">", "(", ")", "[", "]", ","];

/// How the end of the source is called.
pub(super) const END: &str = "the end of the expression";

/// The longest part of an unknown word that an error shows, in bytes.
const SHOWN_WORD: usize = 40;

/// One token and its place.
#[derive(Debug, PartialEq)]
pub(super) struct Token {
    pub(super) kind: Kind,
    pub(super) span: Span,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Kind {
    /// A keyword, a function name or a symbol, as it is spelled.
    Fixed(&'static str),
    /// A number, as it is spelled.
    Number(Arc<str>),
    /// A string, decoded.
    String(Arc<str>),
    /// A word that the language does not have.
    UnknownWord(String),
    /// A character that begins no token.
    UnknownCharacter(char),
    /// A number or a string with an error inside; always the last token.
    Broken(Refusal),
}

type Chars<'s> = easy::Stream<&'s str>;
type Position = PointerOffset<str>;

/// The tokens of `source`, up to the first that is broken.
pub(super) fn tokens(source: &str) -> Vec<Token> {
    let mut tokens = Vec::new();
    let mut rest = source;
    loop {
        match next().easy_parse(rest) {
            Ok((Some((start, kind, end)), behind)) => {
                let span =
                    Span { start: start.translate_position(source), end: end.translate_position(source) };
                tokens.push(Token { kind, span });
                rest = behind;
            }
            Ok((None, _)) => return tokens,
            Err(error) => {
                let start = error.position.translate_position(source);
                let found = Found(source[start..].chars().next());
                let span = Span { start, end: start + found.0.map_or(0, char::len_utf8) };
                let refusal = Refusal::new(span, expectation(&error.errors, found));
                tokens.push(Token { kind: Kind::Broken(refusal), span });
                return tokens;
            }
        }
    }
}

/// The next token between its two positions; none at the end.
fn next<'s>() -> impl Parser<Chars<'s>, Output = Option<(Position, Kind, Position)>> {
    let blanks = skip_many(satisfy(|c| matches!(c, ' ' | '\t' | '\n' | '\r')));
    let kind = choice((word(), number().map(Kind::Number), string().map(Kind::String), symbol(), unknown()));
    blanks.with(optional((position(), kind, position())))
}

fn is_word(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

fn word<'s>() -> impl Parser<Chars<'s>, Output = Kind> {
    let letter = satisfy(|c: char| is_word(c) && !c.is_ascii_digit());
    recognize((letter, skip_many(satisfy(is_word)))).map(|word: &str| {
        let known = WORDS.into_iter().find(|known| *known == word);
        known.map_or_else(|| Kind::UnknownWord(word.to_owned()), Kind::Fixed)
    })
}

fn symbol<'s>() -> impl Parser<Chars<'s>, Output = Kind> {
    choice(SYMBOLS.map(|symbol| attempt(range(symbol)).map(move |_| Kind::Fixed(symbol))))
}

fn unknown<'s>() -> impl Parser<Chars<'s>, Output = Kind> {
    satisfy(|_| true).map(Kind::UnknownCharacter)
}

fn number<'s>() -> impl Parser<Chars<'s>, Output = Arc<str>> {
    let digits = || skip_many1(satisfy(|c: char| c.is_ascii_digit())).expected("a digit");
    let integer = choice((satisfy(|c| c == '0').map(drop), digits()));
    let fraction = (satisfy(|c| c == '.'), digits());
    let end = not_followed_by(satisfy(|c| is_word(c) || c == '.'))
        .expected("the end of the number (it has no leading zero and no exponent, and no word touches it)");
    recognize((optional(satisfy(|c| c == '-')), integer, optional(fraction))).skip(end).map(Arc::from)
}

fn string<'s>() -> impl Parser<Chars<'s>, Output = Arc<str>> {
    let quote = || satisfy(|c| c == '"').expected("the closing `\"`");
    let plain = satisfy(|c| c >= ' ' && c != '"' && c != '\\').expected("a character from U+0020 on");
    let text = many::<String, _, _>(choice((plain, escape())));
    (quote(), text, quote()).map(|(_, text, _)| Arc::from(text))
}

fn escape<'s>() -> impl Parser<Chars<'s>, Output = char> {
    let short = satisfy_map(|c| {
        Some(match c {
            '"' | '\\' | '/' => c,
            'b' => '\u{8}',
            'f' => '\u{c}',
            'n' => '\n',
            'r' => '\r',
            't' => '\t',
            _ => return None,
        })
    });
    let long = satisfy(|c| c == 'u').with(utf16());
    let escape = choice((short.map(|c| vec![c as u16]), long))
        .expected("one of `\"`, `\\`, `/`, `b`, `f`, `n`, `r`, `t`, `u`");
    satisfy(|c| c == '\\').expected("an escape").with(escape).and_then(|units| {
        match char::decode_utf16(units).next() {
            Some(Ok('\0')) => {
                Err(easy::Error::Message("a string cannot hold U+0000; expected another character".into()))
            }
            Some(Ok(c)) => Ok(c),
            _ => Err(easy::Error::Message("a surrogate stands alone; expected a pair".into())),
        }
    })
}

/// Four hex digits, and four more if the first are a high surrogate.
fn utf16<'s>() -> impl Parser<Chars<'s>, Output = Vec<u16>> {
    unit().then(|first| match first {
        0xD800..=0xDBFF => {
            let low = attempt(range("\\u")).expected("`\\u` and a low surrogate").with(unit());
            low.map(move |second| vec![first, second]).left()
        }
        _ => value(vec![first]).right(),
    })
}

fn unit<'s>() -> impl Parser<Chars<'s>, Output = u16> {
    let digit = || satisfy_map(|c: char| c.to_digit(16)).expected("a hex digit");
    (digit(), digit(), digit(), digit()).map(|(a, b, c, d)| (a << 12 | b << 8 | c << 4 | d) as u16)
}

/// A character of the source, or its end, in an error.
struct Found(Option<char>);

impl fmt::Display for Found {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(c) if c.is_ascii_graphic() => write!(f, "`{c}`"),
            Some(' ') => f.write_str("a space"),
            Some(c) if c.is_alphanumeric() => write!(f, "`{c}` (U+{:04X})", c as u32),
            Some(c) => write!(f, "U+{:04X}", c as u32),
            None => f.write_str(END),
        }
    }
}

/// How a token is called where another was expected.
impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fixed(spelling) => write!(f, "`{spelling}`"),
            Self::Number(_) => f.write_str("a number"),
            Self::String(_) => f.write_str("a string"),
            Self::UnknownWord(word) => unknown_word(word, f),
            Self::UnknownCharacter(c) => {
                Found(Some(*c)).fmt(f)?;
                hint(*c).map_or(Ok(()), |hint| write!(f, " ({hint})"))
            }
            Self::Broken(refusal) => f.write_str(refusal.message()),
        }
    }
}

fn unknown_word(word: &str, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let cut = word.get(..SHOWN_WORD).map_or_else(|| word.to_owned(), |start| format!("{start}…"));
    write!(f, "the unknown word `{cut}`")?;
    let lower = word.to_ascii_lowercase();
    if WORDS.contains(&lower.as_str()) { write!(f, " (`{lower}` is written in lower case)") } else { Ok(()) }
}

fn hint(c: char) -> Option<&'static str> {
    Some(match c {
        '\'' | '`' => "strings stand in double quotes",
        '#' => "there are no comments",
        '{' | '}' => "there are no bodies in braces",
        '+' => "a number has no leading plus",
        '=' => "the language has `:=` and `==`",
        '!' => "the language has `not` and `!=`",
        '&' => "the language has `and`",
        '|' => "the language has `or`",
        '.' => "a number has digits on both sides of its point",
        _ => return None,
    })
}
