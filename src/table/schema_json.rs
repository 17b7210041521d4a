//! A schema out of its JSON, as the table specification writes it (appendix C).
//!
//! Recursion follows nested types, and the scanner's bound on nesting bounds it.

use std::sync::Arc;

use super::{
    error::LoadResultError,
    scan::{Name, RawString, Scanner},
    schema::{Field, Schema, SchemaBuilder, visit_ids_below},
    types::{NestedField, PrimitiveType, Type},
};

type Result<T> = std::result::Result<T, LoadResultError>;

/// Average length of a column's name; longer names cost a second allocation.
const NAME_LENGTH: usize = 24;

/// No primitive type but `geography` needs more.
const SPELLING_LENGTH: usize = 32;

/// Reads the schema that `scanner` stands on, a value of `member` with about so many columns.
pub(super) fn read_schema(scanner: &mut Scanner<'_>, member: &'static str, columns: usize) -> Result<Schema> {
    let mut schema = Schema::builder(None);
    schema.reserve(columns, columns.saturating_mul(NAME_LENGTH));
    read_fields(scanner, member, columns, schema, None)
}

/// The same, as strictly, without those fields that another schema has in the same words.
pub(super) fn read_unknown_fields(
    scanner: &mut Scanner<'_>,
    member: &'static str,
    columns: usize,
    known: &KnownFields<'_>,
) -> Result<Schema> {
    read_fields(scanner, member, columns, Schema::builder(None), Some(known))
}

fn read_fields(
    scanner: &mut Scanner<'_>,
    member: &'static str,
    columns: usize,
    mut schema: SchemaBuilder,
    known: Option<&KnownFields<'_>>,
) -> Result<Schema> {
    let mut types =
        TypeReader { ids: Vec::with_capacity(columns), spelling: String::with_capacity(SPELLING_LENGTH) };
    // Schemas change little from one to the next, so what is known comes in this order.
    let mut next_known = 0;
    let (mut id, mut kind, mut fields) = (None, None, None);
    scanner.peek()?;
    let start = scanner.offset();
    scanner.object(member, |scanner, name| match name.text {
        b"schema-id" => once(&mut id, "schema-id", name, scanner.integer("schema-id")?),
        b"type" => once(&mut kind, "type", name, scanner.string_value("type")?),
        b"fields" => {
            once(&mut fields, "fields", name, ())?;
            scanner.array("fields", |scanner| {
                if let Some(found) = known.and_then(|known| known.pass(next_known, scanner)) {
                    types.add_known_ids(found);
                    next_known += 1;
                    return Ok(());
                }
                let field = types.read_field(scanner)?;
                if let Some(place) = known.and_then(|known| known.place_of(field.id)) {
                    next_known = place + 1;
                }
                schema.field_from(
                    field.id,
                    |names| field.name.decode_into(names, "name"),
                    field.r#type,
                    field.required,
                )
            })
        }
        _ => scanner.skip().map(drop),
    })?;
    required(fields, "fields", start)?;
    let kind = required(kind, "type", start)?;
    if types.spell(kind)? != "struct" {
        return Err(LoadResultError::member("type", "of a schema is not `struct`", kind.offset()));
    }
    match first_repeat(&mut types.ids) {
        Some(offset) => Err(LoadResultError::member("id", "is that of another field", offset)),
        None => Ok(schema.with_id(id).build()),
    }
}

/// The fields of a schema that was read before, as texts, to be known again in others.
pub(super) struct KnownFields<'a> {
    /// In schema order.
    fields: Vec<(Field<'a>, &'a [u8])>,
    /// The ids, sorted, with the places of their fields.
    places: Vec<(i32, usize)>,
}

/// A field that is known again, and where it stands this time.
struct KnownField<'a> {
    field: Field<'a>,
    offset: usize,
}

impl<'a> KnownFields<'a> {
    /// Finds the texts of the fields of `schema`, which was read from where `scanner` stands in `text`.
    pub(super) fn find(
        schema: &'a Schema,
        text: &'a [u8],
        scanner: &mut Scanner<'a>,
        member: &'static str,
    ) -> Result<Self> {
        let mut schema_fields = schema.fields();
        let mut fields = Vec::with_capacity(schema_fields.len());
        scanner.object(member, |scanner, name| match name.text {
            b"fields" => scanner.array("fields", |scanner| {
                let place = scanner.skip()?;
                fields.extend(schema_fields.next().map(|field| (field, &text[place])));
                Ok(())
            }),
            _ => scanner.skip().map(drop),
        })?;
        let mut places: Vec<_> =
            fields.iter().enumerate().map(|(place, (field, _))| (field.id, place)).collect();
        places.sort_unstable();
        Ok(Self { fields, places })
    }

    /// Passes over the field that comes next, if it is the one at `place`.
    fn pass(&self, place: usize, scanner: &mut Scanner<'_>) -> Option<KnownField<'a>> {
        let (field, text) = self.fields.get(place)?;
        let range = scanner.skip_known(text)?;
        Some(KnownField { field: *field, offset: range.start })
    }

    fn place_of(&self, id: i32) -> Option<usize> {
        let found = self.places.binary_search_by_key(&id, |(id, _)| *id).ok()?;
        Some(self.places[found].1)
    }
}

/// Puts the value of a member that may stand only once into its place.
pub(super) fn once<T>(slot: &mut Option<T>, member: &'static str, name: Name<'_>, value: T) -> Result<()> {
    match slot.replace(value) {
        None => Ok(()),
        Some(_) => Err(LoadResultError::member(member, "is repeated", name.offset)),
    }
}

/// The value of a member that has to be there, in the object that begins at `object`.
pub(super) fn required<T>(slot: Option<T>, member: &'static str, object: usize) -> Result<T> {
    slot.ok_or_else(|| LoadResultError::member(member, "is missing", object))
}

/// Where the second of two equal ids stands; `ids` come with their places and are sorted in passing.
pub(super) fn first_repeat(ids: &mut [(i32, usize)]) -> Option<usize> {
    ids.sort_unstable();
    ids.windows(2).find(|pair| pair[0].0 == pair[1].0).map(|pair| pair[1].1)
}

struct FieldMembers<'a> {
    id: i32,
    name: RawString<'a>,
    required: bool,
    r#type: Type,
}

/// Reads fields and their types, and remembers every field id it meets.
struct TypeReader {
    ids: Vec<(i32, usize)>,
    /// Where spellings of types are decoded, over and over.
    spelling: String,
}

impl TypeReader {
    /// A field of a schema or of a struct.
    fn read_field<'a>(&mut self, scanner: &mut Scanner<'a>) -> Result<FieldMembers<'a>> {
        let (mut id, mut field_name, mut is_required, mut r#type) = (None, None, None, None);
        scanner.peek()?;
        let start = scanner.offset();
        scanner.object("fields", |scanner, name| match name.text {
            b"id" => once(&mut id, "id", name, self.read_id(scanner, "id")?),
            b"name" => once(&mut field_name, "name", name, scanner.string_value("name")?),
            b"required" => once(&mut is_required, "required", name, scanner.boolean("required")?),
            b"type" => once(&mut r#type, "type", name, self.read_type(scanner, "type")?),
            _ => scanner.skip().map(drop),
        })?;
        Ok(FieldMembers {
            id: required(id, "id", start)?,
            name: required(field_name, "name", start)?,
            required: required(is_required, "required", start)?,
            r#type: required(r#type, "type", start)?,
        })
    }

    /// Remembers the ids of a field that was not read again.
    fn add_known_ids(&mut self, KnownField { field, offset }: KnownField<'_>) {
        self.ids.push((field.id, offset));
        visit_ids_below(field.r#type, &mut |id| self.ids.push((id, offset)));
    }

    fn read_id(&mut self, scanner: &mut Scanner<'_>, member: &'static str) -> Result<i32> {
        scanner.peek()?;
        let start = scanner.offset();
        let id = scanner.integer(member)?;
        if id < 0 {
            return Err(LoadResultError::member(member, "is negative", start));
        }
        self.ids.push((id, start));
        Ok(id)
    }

    fn read_type(&mut self, scanner: &mut Scanner<'_>, member: &'static str) -> Result<Type> {
        match scanner.peek()? {
            b'"' => {
                let spelling = scanner.string_value(member)?;
                self.spell(spelling).map(|spelling| Type::Primitive(PrimitiveType::parse(spelling)))
            }
            _ => self.read_nested_type(scanner, member),
        }
    }

    /// A struct, a list or a map. Their members are read whatever the order, so `type` may come last; a
    /// member of one of the other two kinds has to make sense all the same.
    fn read_nested_type(&mut self, scanner: &mut Scanner<'_>, member: &'static str) -> Result<Type> {
        let (mut kind, mut fields) = (None, None);
        let (mut element, mut key, mut value) =
            (Part::named("element"), Part::named("key"), Part::named("value"));
        let start = scanner.offset();
        scanner.object(member, |scanner, name| match name.text {
            b"type" => once(&mut kind, "type", name, scanner.string_value("type")?),
            b"fields" => once(&mut fields, "fields", name, self.read_struct_fields(scanner)?),
            b"element-id" => once(&mut element.id, "element-id", name, self.read_id(scanner, "element-id")?),
            b"element" => once(&mut element.r#type, "element", name, self.read_type(scanner, "element")?),
            b"element-required" => {
                once(&mut element.required, "element-required", name, scanner.boolean("element-required")?)
            }
            b"key-id" => once(&mut key.id, "key-id", name, self.read_id(scanner, "key-id")?),
            b"key" => once(&mut key.r#type, "key", name, self.read_type(scanner, "key")?),
            b"value-id" => once(&mut value.id, "value-id", name, self.read_id(scanner, "value-id")?),
            b"value" => once(&mut value.r#type, "value", name, self.read_type(scanner, "value")?),
            b"value-required" => {
                once(&mut value.required, "value-required", name, scanner.boolean("value-required")?)
            }
            _ => scanner.skip().map(drop),
        })?;
        let kind = required(kind, "type", start)?;
        match self.spell(kind)? {
            "struct" => Ok(Type::Struct(required(fields, "fields", start)?)),
            "list" => Ok(Type::List(element.assemble(start)?)),
            "map" => {
                // The key of a map is always there, and nothing in the document says so.
                key.required = Some(true);
                Ok(Type::Map(key.assemble(start)?, value.assemble(start)?))
            }
            _ => Err(LoadResultError::member("type", "is no `struct`, `list` or `map`", kind.offset())),
        }
    }

    fn read_struct_fields(&mut self, scanner: &mut Scanner<'_>) -> Result<Arc<[NestedField]>> {
        let mut fields = Vec::new();
        scanner.array("fields", |scanner| {
            let FieldMembers { id, name, required, r#type } = self.read_field(scanner)?;
            fields.push(NestedField { id, name: name.decode("name")?.into(), r#type, required });
            Ok(())
        })?;
        Ok(fields.into())
    }

    fn spell(&mut self, spelling: RawString<'_>) -> Result<&str> {
        self.spelling.clear();
        spelling.decode_into(&mut self.spelling, "type")?;
        Ok(&self.spelling)
    }
}

/// What is inside a list or a map, while its members are being read.
struct Part {
    name: &'static str,
    id: Option<i32>,
    r#type: Option<Type>,
    required: Option<bool>,
}

impl Part {
    fn named(name: &'static str) -> Self {
        Self { name, id: None, r#type: None, required: None }
    }

    fn assemble(self, object: usize) -> Result<Arc<NestedField>> {
        let missing = |what| LoadResultError::member(self.name, what, object);
        Ok(Arc::new(NestedField {
            id: self.id.ok_or_else(|| missing("has no id"))?,
            name: self.name.into(),
            r#type: self.r#type.ok_or_else(|| missing("is missing"))?,
            required: self.required.ok_or_else(|| missing("is neither required nor optional"))?,
        }))
    }
}
