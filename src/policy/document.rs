//! The text of a governance model, TOML or JSON, read value by value. Each value knows its place in the
//! text, and nothing below it is looked at before it is asked for, so both formats are read by the same
//! code, and what nobody asks for is checked for its syntax only.

use std::{borrow::Cow, collections::BTreeSet, fmt, path::Path};

use serde::{
    Deserialize, Deserializer,
    de::{Error as _, MapAccess, Visitor},
};
use serde_json::value::RawValue;
use toml::{
    Spanned,
    de::{DeTable, DeValue},
};

/// The notation of a governance model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// TOML
    Toml,
    /// JSON, with the same members
    Json,
}

impl Format {
    /// The format that the extension of a file name tells: `.toml` or `.json`.
    pub fn of_path(path: &Path) -> Option<Self> {
        match path.extension()?.to_str()? {
            "toml" => Some(Self::Toml),
            "json" => Some(Self::Json),
            _ => None,
        }
    }
}

/// A message and the offset in the text that it is about.
pub(super) type Located<T> = Result<T, (usize, String)>;

/// A text whose syntax was checked.
pub(super) enum Document<'a> {
    /// No text, which is no JSON and still an empty model.
    Blank,
    Toml(Spanned<DeValue<'a>>),
    Json(&'a str, &'a RawValue),
}

impl<'a> Document<'a> {
    pub(super) fn parse(text: &'a str, format: Format) -> Located<Self> {
        if text.trim().is_empty() {
            return Ok(Self::Blank);
        }
        match format {
            Format::Toml => match DeTable::parse(text) {
                Ok(table) => Ok(Self::Toml(Spanned::new(table.span(), DeValue::Table(table.into_inner())))),
                Err(error) => {
                    let offset = error.span().map_or(0, |span| span.start);
                    Err((offset, format!("not TOML: {}", error.message().replace('\n', ", "))))
                }
            },
            Format::Json => match serde_json::from_str(text) {
                Ok(root) => Ok(Self::Json(text, root)),
                Err(error) => Err((offset_of(&error, text), format!("not JSON: {}", message(&error)))),
            },
        }
    }

    /// Whether the document says nothing: it has no members.
    pub(super) fn is_empty(&self) -> bool {
        self.root().is_none_or(|root| root.members().is_ok_and(|members| members.is_empty()))
    }

    /// The value that is the whole document; a blank one has none.
    pub(super) fn root(&self) -> Option<Node<'_>> {
        match self {
            Self::Blank => None,
            Self::Toml(root) => Some(Node(Value::Toml(root))),
            Self::Json(text, root) => Some(Node(Value::Json(text, root))),
        }
    }
}

/// One value of a document.
#[derive(Clone, Copy)]
pub(super) struct Node<'a>(Value<'a>);

#[derive(Clone, Copy)]
enum Value<'a> {
    Toml(&'a Spanned<DeValue<'a>>),
    /// The whole text, and the part of it that is the value.
    Json(&'a str, &'a RawValue),
}

impl<'a> Node<'a> {
    /// Where the value begins in the text.
    pub(super) fn offset(self) -> usize {
        match self.0 {
            Value::Toml(value) => value.span().start,
            Value::Json(text, value) => value.get().as_ptr().addr() - text.as_ptr().addr(),
        }
    }

    pub(super) fn is_null(self) -> bool {
        matches!(self.0, Value::Json(_, value) if value.get() == "null")
    }

    /// The members of a table, each name once.
    pub(super) fn members(self) -> Located<Vec<(Cow<'a, str>, Node<'a>)>> {
        match self.0 {
            Value::Toml(value) => match value.get_ref() {
                DeValue::Table(table) => Ok(table
                    .iter()
                    .map(|(name, value)| (Cow::Borrowed(name.get_ref().as_ref()), Node(Value::Toml(value))))
                    .collect()),
                _ => Err(self.expected("a table")),
            },
            Value::Json(text, value) if value.get().starts_with('{') => {
                let Members(members) = self.read_json(value)?;
                Ok(members.into_iter().map(|(name, value)| (name, Node(Value::Json(text, value)))).collect())
            }
            Value::Json(..) => Err(self.expected("an object")),
        }
    }

    /// The elements of an array.
    pub(super) fn elements(self) -> Located<Vec<Node<'a>>> {
        match self.0 {
            Value::Toml(value) => match value.get_ref() {
                DeValue::Array(array) => Ok(array.iter().map(|value| Node(Value::Toml(value))).collect()),
                _ => Err(self.expected("an array")),
            },
            Value::Json(text, value) if value.get().starts_with('[') => {
                let elements: Vec<&RawValue> = self.read_json(value)?;
                Ok(elements.into_iter().map(|value| Node(Value::Json(text, value))).collect())
            }
            Value::Json(..) => Err(self.expected("an array")),
        }
    }

    pub(super) fn string(self) -> Located<Cow<'a, str>> {
        match self.0 {
            Value::Toml(value) => match value.get_ref() {
                DeValue::String(string) => Ok(Cow::Borrowed(string.as_ref())),
                _ => Err(self.expected("a string")),
            },
            Value::Json(_, value) if value.get().starts_with('"') => {
                self.read_json(value).map(|Text(string)| string)
            }
            Value::Json(..) => Err(self.expected("a string")),
        }
    }

    pub(super) fn boolean(self) -> Located<bool> {
        match self.0 {
            Value::Toml(value) => match value.get_ref() {
                DeValue::Boolean(value) => Ok(*value),
                _ => Err(self.expected("true or false")),
            },
            Value::Json(_, value) => match value.get() {
                "true" => Ok(true),
                "false" => Ok(false),
                _ => Err(self.expected("true or false")),
            },
        }
    }

    /// Where a type error stands, and what it says.
    fn expected(self, what: &str) -> (usize, String) {
        let found = match self.0 {
            Value::Toml(value) => value.get_ref().type_str(),
            Value::Json(_, value) => match value.get().as_bytes().first() {
                Some(b'{') => "object",
                Some(b'[') => "array",
                Some(b'"') => "string",
                Some(b't' | b'f') => "boolean",
                Some(b'n') => "null",
                _ => "number",
            },
        };
        (self.offset(), format!("expected {what}, found {found}"))
    }

    fn read_json<T: Deserialize<'a>>(self, value: &'a RawValue) -> Located<T> {
        serde_json::from_str(value.get())
            .map_err(|error| (self.offset() + offset_of(&error, value.get()), message(&error)))
    }
}

/// A JSON string, borrowed from the text when it has no escapes.
#[derive(Deserialize)]
struct Text<'a>(#[serde(borrow)] Cow<'a, str>);

/// The members of a JSON object in their order.
struct Members<'a>(Vec<(Cow<'a, str>, &'a RawValue)>);

impl<'de> Deserialize<'de> for Members<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Collect;

        impl<'de> Visitor<'de> for Collect {
            type Value = Members<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut names = BTreeSet::new();
                let mut members = Vec::new();
                while let Some(Text(name)) = map.next_key()? {
                    if !names.insert(name.clone()) {
                        return Err(A::Error::custom(format!("`{name}` is repeated")));
                    }
                    members.push((name, map.next_value()?));
                }
                Ok(Members(members))
            }
        }

        deserializer.deserialize_map(Collect)
    }
}

/// The offset that line and column of an error stand for.
fn offset_of(error: &serde_json::Error, text: &str) -> usize {
    let line_start = match error.line() {
        0 | 1 => 0,
        line => text.match_indices('\n').nth(line - 2).map_or(0, |(newline, _)| newline + 1),
    };
    let mut offset = (line_start + error.column().saturating_sub(1)).min(text.len());
    while !text.is_char_boundary(offset) {
        offset -= 1;
    }
    offset
}

/// What an error says, without its own line and column, which count from the value that was read.
fn message(error: &serde_json::Error) -> String {
    let text = error.to_string();
    match text.rfind(" at line ") {
        Some(end) => text[..end].to_owned(),
        None => text,
    }
}
