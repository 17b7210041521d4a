//! Whether a text is JSON, and what stands at its top.

use std::{borrow::Cow, fmt};

use serde::{
    Deserialize, Deserializer,
    de::{IgnoredAny, MapAccess, SeqAccess, Visitor},
};

/// The names of the members of a JSON object; none for another JSON value.
///
/// Only the grammar is checked, at any depth: what more the layer asks of a load result is not a question of
/// whether it is JSON.
pub fn top_level_members(text: &[u8]) -> Result<Vec<String>, String> {
    let text = std::str::from_utf8(text).map_err(|error| error.to_string())?;
    let Names(names) = serde_json::from_str(text).map_err(|error| error.to_string())?;
    Ok(names)
}

struct Names(Vec<String>);

impl<'de> Deserialize<'de> for Names {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(TopLevel)
    }
}

struct TopLevel;

impl<'de> Visitor<'de> for TopLevel {
    type Value = Names;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Names, A::Error> {
        let mut names = Vec::new();
        while let Some((Name(name), IgnoredAny)) = map.next_entry()? {
            names.push(name.into_owned());
        }
        Ok(Names(names))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut elements: A) -> Result<Names, A::Error> {
        while let Some(IgnoredAny) = elements.next_element()? {}
        Ok(Names(Vec::new()))
    }

    fn visit_str<E>(self, _: &str) -> Result<Names, E> {
        Ok(Names(Vec::new()))
    }

    fn visit_bool<E>(self, _: bool) -> Result<Names, E> {
        Ok(Names(Vec::new()))
    }

    fn visit_i64<E>(self, _: i64) -> Result<Names, E> {
        Ok(Names(Vec::new()))
    }

    fn visit_u64<E>(self, _: u64) -> Result<Names, E> {
        Ok(Names(Vec::new()))
    }

    fn visit_f64<E>(self, _: f64) -> Result<Names, E> {
        Ok(Names(Vec::new()))
    }

    fn visit_unit<E>(self) -> Result<Names, E> {
        Ok(Names(Vec::new()))
    }
}

#[derive(Deserialize)]
struct Name<'a>(#[serde(borrow)] Cow<'a, str>);
