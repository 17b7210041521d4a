//! What a load result says, by `serde_json`: the independent reading that the scanner is held against.

#![allow(dead_code, reason = "each test and each bench uses a part of it")]

use std::{borrow::Cow, fmt, marker::PhantomData, ops::Range, sync::Arc};

use iceberg_read_restrictions::table::{NestedField, PrimitiveType, Schema, Type};
use serde::de::{Deserialize, Deserializer, Error, IgnoredAny, MapAccess, Visitor};
use serde_json::value::RawValue;

/// What there is to be known, or nothing if the body is to be refused.
#[derive(Debug, PartialEq)]
pub struct Facts {
    pub metadata: Range<usize>,
    pub metadata_location: Option<String>,
    pub read_restrictions: Option<String>,
    pub table_uuid: Option<String>,
    pub schema: Schema,
    /// `None` if one of them cannot be read.
    pub older_schemas: Option<Vec<Schema>>,
}

/// Reads everything, and checks what `serde_json` by itself does not.
pub fn facts(body: &[u8]) -> Option<Facts> {
    let text = std::str::from_utf8(body).ok()?;
    // Names read in bytes are not checked for control characters, so the grammar is checked first.
    serde_json::from_str::<IgnoredAny>(text).ok()?;
    let top = serde_json::from_str::<Read<LoadResult<&RawValue>>>(text).ok()?.0;
    if depth(text) > 127 {
        return None;
    }
    let raw = top.metadata?;
    let start = raw.get().as_ptr() as usize - text.as_ptr() as usize;
    let metadata = serde_json::from_str::<Read<Metadata<'_>>>(raw.get()).ok()?.0;
    let (schema, older) = metadata.settle().ok()?;
    Some(Facts {
        metadata: start..start + raw.get().len(),
        metadata_location: top.metadata_location.flatten(),
        read_restrictions: top.read_restrictions.map(|raw| raw.get().to_owned()),
        older_schemas: metadata.older_schemas(&schema, &older).ok(),
        table_uuid: metadata.table_uuid.flatten(),
        schema,
    })
}

/// The fastest form: one pass with visitors. It does not tell where the metadata stand.
pub fn read_with_visitors(body: &[u8]) -> Option<(Schema, Option<String>)> {
    let text = std::str::from_utf8(body).ok()?;
    let top = serde_json::from_str::<Read<LoadResult<Read<Metadata<'_>>>>>(text).ok()?.0;
    let metadata = top.metadata?.0;
    let (schema, _) = metadata.settle().ok()?;
    Some((schema, top.metadata_location.flatten()))
}

/// The form in between: the text of every member first, and what counts parsed again.
pub fn read_with_raw_values(body: &[u8]) -> Option<(Schema, Option<String>)> {
    let text = std::str::from_utf8(body).ok()?;
    let top = serde_json::from_str::<Read<RawMembers<'_>>>(text).ok()?.0;
    let metadata = serde_json::from_str::<Read<RawMembers<'_>>>(top.get(b"metadata")?).ok()?.0;
    let current: i32 = serde_json::from_str(metadata.get(b"current-schema-id")?).ok()?;
    let schemas: Vec<&RawValue> = serde_json::from_str(metadata.get(b"schemas")?).ok()?;
    let heads = schemas.iter().map(|raw| serde_json::from_str::<Read<SchemaHead<'_>>>(raw.get()));
    let heads = heads.map(|head| head.map(|head| head.0)).collect::<Result<Vec<_>, _>>().ok()?;
    let schema = heads.iter().find(|head| head.id == Some(current))?.schema().ok()?;
    Some((schema, serde_json::from_str(top.get(b"metadata-location")?).ok()?))
}

/// How deep the brackets of a JSON text are nested.
pub fn depth(text: &str) -> usize {
    let (mut depth, mut deepest, mut in_string, mut escaped) = (0, 0, false, false);
    for byte in text.bytes() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = in_string,
            b'"' => in_string = !in_string,
            b'{' | b'[' if !in_string => {
                depth += 1;
                deepest = deepest.max(depth);
            }
            b'}' | b']' if !in_string => depth -= 1,
            _ => {}
        }
    }
    deepest
}

/// An object whose members are read one by one.
trait Object<'de>: Default {
    fn member<A: MapAccess<'de>>(&mut self, name: &[u8], map: &mut A) -> Result<(), A::Error>;
}

struct Read<T>(T);

impl<'de, T: Object<'de>> Deserialize<'de> for Read<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Members<T>(PhantomData<T>);
        impl<'de, T: Object<'de>> Visitor<'de> for Members<T> {
            type Value = Read<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut object = T::default();
                while let Some(Name(name)) = map.next_key()? {
                    object.member(&name, &mut map)?;
                }
                Ok(Read(object))
            }
        }
        deserializer.deserialize_map(Members(PhantomData))
    }
}

/// A name in bytes, because a Rust string cannot hold every name that JSON allows.
struct Name<'de>(Cow<'de, [u8]>);

impl<'de> Deserialize<'de> for Name<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Bytes;
        impl<'de> Visitor<'de> for Bytes {
            type Value = Name<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a name")
            }

            fn visit_borrowed_bytes<E: Error>(self, name: &'de [u8]) -> Result<Self::Value, E> {
                Ok(Name(Cow::Borrowed(name)))
            }

            fn visit_bytes<E: Error>(self, name: &[u8]) -> Result<Self::Value, E> {
                Ok(Name(Cow::Owned(name.to_vec())))
            }
        }
        deserializer.deserialize_bytes(Bytes)
    }
}

fn once<'de, T, A>(slot: &mut Option<T>, map: &mut A) -> Result<(), A::Error>
where
    T: Deserialize<'de>,
    A: MapAccess<'de>,
{
    match slot.replace(map.next_value()?) {
        None => Ok(()),
        Some(_) => Err(A::Error::custom("repeated")),
    }
}

fn ignore<'de, A: MapAccess<'de>>(map: &mut A) -> Result<(), A::Error> {
    map.next_value::<IgnoredAny>().map(drop)
}

struct LoadResult<'de, M> {
    metadata: Option<M>,
    metadata_location: Option<Option<String>>,
    read_restrictions: Option<&'de RawValue>,
}

impl<M> Default for LoadResult<'_, M> {
    fn default() -> Self {
        Self { metadata: None, metadata_location: None, read_restrictions: None }
    }
}

impl<'de, M: Deserialize<'de>> Object<'de> for LoadResult<'de, M> {
    fn member<A: MapAccess<'de>>(&mut self, name: &[u8], map: &mut A) -> Result<(), A::Error> {
        match name {
            b"metadata" => once(&mut self.metadata, map),
            b"metadata-location" => once(&mut self.metadata_location, map),
            b"read-restrictions" => once(&mut self.read_restrictions, map),
            _ => ignore(map),
        }
    }
}

#[derive(Default)]
struct RawMembers<'de>(Vec<(Vec<u8>, &'de RawValue)>);

impl<'de> RawMembers<'de> {
    fn get(&self, name: &[u8]) -> Option<&'de str> {
        self.0.iter().find(|member| member.0 == name).map(|member| member.1.get())
    }
}

impl<'de> Object<'de> for RawMembers<'de> {
    fn member<A: MapAccess<'de>>(&mut self, name: &[u8], map: &mut A) -> Result<(), A::Error> {
        self.0.push((name.to_vec(), map.next_value()?));
        Ok(())
    }
}

#[derive(Default)]
struct Metadata<'de> {
    format_version: Option<i32>,
    table_uuid: Option<Option<String>>,
    current_schema_id: Option<i32>,
    schemas: Option<Vec<Read<SchemaHead<'de>>>>,
    schema: Option<Read<SchemaHead<'de>>>,
}

impl<'de> Object<'de> for Metadata<'de> {
    fn member<A: MapAccess<'de>>(&mut self, name: &[u8], map: &mut A) -> Result<(), A::Error> {
        match name {
            b"format-version" => once(&mut self.format_version, map),
            b"table-uuid" => once(&mut self.table_uuid, map),
            b"current-schema-id" => once(&mut self.current_schema_id, map),
            b"schemas" => once(&mut self.schemas, map),
            b"schema" => once(&mut self.schema, map),
            _ => ignore(map),
        }
    }
}

type Refused = serde_json::Error;

fn refused<T>() -> Result<T, Refused> {
    Err(Refused::custom("refused"))
}

/// Which of the schemas of the list are not current.
type Older = Vec<usize>;

impl Metadata<'_> {
    fn settle(&self) -> Result<(Schema, Older), Refused> {
        let Some(version) = self.format_version.filter(|&version| version >= 1) else { return refused() };
        let list = self.schemas.as_deref().unwrap_or_default();
        if list.iter().chain(&self.schema).any(|Read(head)| head.kind.is_none() || head.fields.is_none()) {
            return refused();
        }
        let mut ids: Vec<_> = list.iter().map(|head| head.0.id).collect();
        if version > 1 && ids.contains(&None) {
            return refused();
        }
        for at in 0..ids.len() {
            ids[at] = ids[at].or(Some(0));
            if ids[..at].contains(&ids[at]) {
                return refused();
            }
        }
        let others = |current| (0..ids.len()).filter(|&at| Some(at) != current).collect();
        match (self.schemas.is_some(), self.current_schema_id, &self.schema) {
            (true, id @ Some(_), _) => match ids.iter().position(|&other| other == id) {
                Some(current) => Ok((list[current].0.schema()?, others(Some(current)))),
                None => refused(),
            },
            (_, id, Some(Read(schema))) if version == 1 => {
                let own = schema.id.or(Some(0));
                let found = schema.schema()?;
                let twin = match list.len() {
                    1 => Some(0),
                    _ => ids.iter().position(|&other| other == own),
                };
                let agrees = match twin {
                    Some(twin) => list[twin].0.schema()?.fields().eq(found.fields()),
                    None => list.is_empty(),
                };
                match agrees && (id.is_none() || id == own) {
                    true => Ok((found, others(twin))),
                    false => refused(),
                }
            }
            _ => refused(),
        }
    }

    fn older_schemas(&self, current: &Schema, older: &Older) -> Result<Vec<Schema>, Refused> {
        let mut schemas = Vec::new();
        if let (Some(Read(head)), true) =
            (&self.schema, self.schemas.is_some() && self.current_schema_id.is_some())
        {
            let schema = head.schema()?;
            if !schema.fields().eq(current.fields()) {
                schemas.push(schema);
            }
        }
        for &at in older {
            schemas.push(self.schemas.as_deref().unwrap_or_default()[at].0.schema()?);
        }
        Ok(schemas)
    }
}

#[derive(Default)]
struct SchemaHead<'de> {
    id: Option<i32>,
    kind: Option<&'de RawValue>,
    fields: Option<&'de RawValue>,
}

impl<'de> Object<'de> for SchemaHead<'de> {
    fn member<A: MapAccess<'de>>(&mut self, name: &[u8], map: &mut A) -> Result<(), A::Error> {
        match name {
            b"schema-id" => once(&mut self.id, map),
            b"type" => once(&mut self.kind, map),
            b"fields" => {
                once(&mut self.fields, map)?;
                match self.fields.is_some_and(|fields| fields.get().starts_with('[')) {
                    true => Ok(()),
                    false => Err(A::Error::custom("not an array")),
                }
            }
            _ => ignore(map),
        }
    }
}

impl SchemaHead<'_> {
    fn schema(&self) -> Result<Schema, Refused> {
        let (Some(kind), Some(fields)) = (self.kind, self.fields) else { return refused() };
        if serde_json::from_str::<String>(kind.get())? != "struct" {
            return refused();
        }
        let mut schema = Schema::builder(self.id);
        let mut ids = Vec::new();
        for Read(field) in serde_json::from_str::<Vec<Read<Field>>>(fields.get())? {
            field.collect_ids(&mut ids);
            let field = field.whole()?;
            schema.field(field.id, &field.name, field.r#type, field.required);
        }
        ids.sort_unstable();
        match ids.windows(2).any(|pair| pair[0] == pair[1]) || ids.first().is_some_and(|&id| id < 0) {
            true => refused(),
            false => Ok(schema.build()),
        }
    }
}

#[derive(Default)]
struct Field {
    id: Option<i32>,
    name: Option<String>,
    required: Option<bool>,
    r#type: Option<AnyType>,
}

impl<'de> Object<'de> for Field {
    fn member<A: MapAccess<'de>>(&mut self, name: &[u8], map: &mut A) -> Result<(), A::Error> {
        match name {
            b"id" => once(&mut self.id, map),
            b"name" => once(&mut self.name, map),
            b"required" => once(&mut self.required, map),
            b"type" => once(&mut self.r#type, map),
            _ => ignore(map),
        }
    }
}

impl Field {
    /// Every id that is written, even where the type has no use for it.
    fn collect_ids(&self, ids: &mut Vec<i32>) {
        ids.extend(self.id);
        let Some(AnyType::Nested(r#type)) = &self.r#type else { return };
        for Read(field) in r#type.fields.iter().flatten() {
            field.collect_ids(ids);
        }
        for part in [&r#type.element, &r#type.key, &r#type.value] {
            part.collect_ids(ids);
        }
    }

    fn whole(self) -> Result<NestedField, Refused> {
        let (Some(id), Some(name), Some(required), Some(r#type)) =
            (self.id, self.name, self.required, self.r#type)
        else {
            return refused();
        };
        Ok(NestedField { id, name: name.into(), r#type: r#type.whole()?, required })
    }
}

enum AnyType {
    Spelled(String),
    Nested(Box<NestedType>),
}

impl<'de> Deserialize<'de> for AnyType {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Either;
        impl<'de> Visitor<'de> for Either {
            type Value = AnyType;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a type")
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Self::Value, E> {
                Ok(AnyType::Spelled(text.to_owned()))
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut r#type = NestedType::default();
                while let Some(Name(name)) = map.next_key()? {
                    r#type.member(&name, &mut map)?;
                }
                Ok(AnyType::Nested(Box::new(r#type)))
            }
        }
        deserializer.deserialize_any(Either)
    }
}

#[derive(Default)]
struct NestedType {
    kind: Option<String>,
    fields: Option<Vec<Read<Field>>>,
    element: Field,
    key: Field,
    value: Field,
}

impl<'de> Object<'de> for NestedType {
    fn member<A: MapAccess<'de>>(&mut self, name: &[u8], map: &mut A) -> Result<(), A::Error> {
        match name {
            b"type" => once(&mut self.kind, map),
            b"fields" => once(&mut self.fields, map),
            b"element-id" => once(&mut self.element.id, map),
            b"element" => once(&mut self.element.r#type, map),
            b"element-required" => once(&mut self.element.required, map),
            b"key-id" => once(&mut self.key.id, map),
            b"key" => once(&mut self.key.r#type, map),
            b"value-id" => once(&mut self.value.id, map),
            b"value" => once(&mut self.value.r#type, map),
            b"value-required" => once(&mut self.value.required, map),
            _ => ignore(map),
        }
    }
}

impl AnyType {
    fn whole(self) -> Result<Type, Refused> {
        let r#type = match self {
            Self::Spelled(text) => return Ok(Type::Primitive(PrimitiveType::parse(&text))),
            Self::Nested(r#type) => *r#type,
        };
        let part =
            |part: Field, name: &str| Field { name: Some(name.to_owned()), ..part }.whole().map(Arc::new);
        match (r#type.kind.as_deref(), r#type.fields) {
            (Some("struct"), Some(fields)) => {
                let fields = fields.into_iter().map(|Read(field)| field.whole());
                Ok(Type::Struct(fields.collect::<Result<_, _>>()?))
            }
            (Some("list"), _) => Ok(Type::List(part(r#type.element, "element")?)),
            (Some("map"), _) => {
                let key = Field { required: Some(true), ..r#type.key };
                Ok(Type::Map(part(key, "key")?, part(r#type.value, "value")?))
            }
            _ => refused(),
        }
    }
}
