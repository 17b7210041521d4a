//! The canonical layout of a governance file in JSON: members in the order of the documentation, two blanks
//! of indentation, arrays of plain values on one line.

use std::fmt;

use serde::{
    Deserialize, Deserializer,
    de::{MapAccess, Visitor},
};
use serde_json::value::RawValue;

use super::layout::{MODEL, Shape};

/// The text in canonical layout. Numbers and strings keep their spelling.
pub fn canonical(text: &str) -> Result<String, String> {
    if text.trim().is_empty() {
        return Ok(String::new());
    }
    let root: &RawValue = serde_json::from_str(text).map_err(|error| error.to_string())?;
    let mut formatted = String::new();
    write_value(&mut formatted, root.get(), &MODEL, 0).map_err(|error| error.to_string())?;
    formatted.push('\n');
    Ok(formatted)
}

fn write_value(
    text: &mut String,
    value: &str,
    shape: &Shape,
    indentation: usize,
) -> Result<(), serde_json::Error> {
    match value.as_bytes().first() {
        Some(b'{') => {
            let Members(mut members) = serde_json::from_str(value)?;
            shape.sort(&mut members, |(name, _)| name);
            write_sequence(text, ['{', '}'], false, indentation, members, |text, (name, value)| {
                text.push_str(&serde_json::to_string(&name)?);
                text.push_str(": ");
                write_value(text, value.get(), shape.member(&name), indentation + 1)
            })
        }
        Some(b'[') => {
            let elements: Vec<&RawValue> = serde_json::from_str(value)?;
            let is_plain = elements.iter().all(|element| !element.get().starts_with(['{', '[']));
            write_sequence(text, ['[', ']'], is_plain, indentation, elements, |text, element| {
                write_value(text, element.get(), shape, indentation + 1)
            })
        }
        _ => {
            text.push_str(value);
            Ok(())
        }
    }
}

fn write_sequence<T>(
    text: &mut String,
    [open, close]: [char; 2],
    one_line: bool,
    indentation: usize,
    items: Vec<T>,
    mut write: impl FnMut(&mut String, T) -> Result<(), serde_json::Error>,
) -> Result<(), serde_json::Error> {
    let break_line = |text: &mut String, indentation: usize| {
        if !one_line {
            text.push('\n');
            text.extend(std::iter::repeat_n("  ", indentation));
        }
    };
    text.push(open);
    let is_empty = items.is_empty();
    for (index, item) in items.into_iter().enumerate() {
        if index > 0 {
            text.push_str(if one_line { ", " } else { "," });
        }
        break_line(text, indentation + 1);
        write(text, item)?;
    }
    if !is_empty {
        break_line(text, indentation);
    }
    text.push(close);
    Ok(())
}

/// The members of an object in their order, values as they are written.
struct Members<'a>(Vec<(String, &'a RawValue)>);

impl<'de> Deserialize<'de> for Members<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Collect;

        impl<'de> Visitor<'de> for Collect {
            type Value = Members<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut members = Vec::new();
                while let Some(member) = map.next_entry()? {
                    members.push(member);
                }
                Ok(Members(members))
            }
        }

        deserializer.deserialize_map(Collect)
    }
}
