//! JSON in which no object has a member twice. With a repeated `required-row-filter` most parsers would keep one of the
//! two and lose the other without a word.

use std::fmt;

use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};

use crate::Refusal;

/// Parses a whole document.
///
/// # Errors
///
/// When the text is not JSON or an object in it, at any depth, repeats a member.
pub fn parse(text: &[u8]) -> Result<Value, Refusal> {
    serde_json::from_slice::<Strict>(text)
        .map(|Strict(value)| value)
        .map_err(|error| Refusal::new(format!("not the JSON of one value: {error}")))
}

/// The members of an object that may have these members and no others.
pub fn object<'a>(value: &'a Value, what: &str, known: &[&str]) -> Result<&'a Map<String, Value>, Refusal> {
    let members =
        value.as_object().ok_or_else(|| Refusal::new(format!("{what} is not an object: {value}")))?;
    match members.keys().find(|name| !known.contains(&name.as_str())) {
        Some(unknown) => {
            Err(Refusal::new(format!("{what} has a member that this reader does not know: `{unknown}`")))
        }
        None => Ok(members),
    }
}

/// A member that has to be there.
pub fn member<'a>(members: &'a Map<String, Value>, what: &str, name: &str) -> Result<&'a Value, Refusal> {
    members.get(name).ok_or_else(|| Refusal::new(format!("{what} has no `{name}`")))
}

struct Strict(Value);

impl<'de> Deserialize<'de> for Strict {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(StrictVisitor).map(Self)
    }
}

struct StrictVisitor;

impl<'de> Visitor<'de> for StrictVisitor {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut elements: A) -> Result<Value, A::Error> {
        let mut values = Vec::new();
        while let Some(Strict(value)) = elements.next_element()? {
            values.push(value);
        }
        Ok(Value::Array(values))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Value, A::Error> {
        let mut map = Map::new();
        while let Some((name, Strict(value))) = members.next_entry::<String, _>()? {
            if map.contains_key(&name) {
                return Err(A::Error::custom(format_args!("the member `{name}` is there twice")));
            }
            map.insert(name, value);
        }
        Ok(Value::Object(map))
    }
}
