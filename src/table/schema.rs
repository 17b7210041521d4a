use std::{fmt, ops::Range};

use super::types::{NestedField, Type};

/// The top-level fields of one schema.
///
/// All names lie in one string, so that a schema of any width takes a handful of allocations.
#[derive(Clone, PartialEq)]
pub struct Schema {
    id: Option<i32>,
    names: String,
    fields: Vec<FieldEntry>,
}

#[derive(Clone, PartialEq)]
struct FieldEntry {
    id: i32,
    name: Range<u32>,
    r#type: Type,
    required: bool,
}

/// A top-level field of a [`Schema`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Field<'a> {
    /// The field id, 0 to 2,147,483,647.
    pub id: i32,
    /// The name, case-sensitive.
    pub name: &'a str,
    /// The type.
    pub r#type: &'a Type,
    /// Whether a value must be there.
    pub required: bool,
}

impl Schema {
    /// Starts a schema; `id` is its `schema-id`, which format v1 may leave out.
    pub fn builder(id: Option<i32>) -> SchemaBuilder {
        SchemaBuilder(Self { id, names: String::new(), fields: Vec::new() })
    }

    /// The `schema-id`.
    pub fn id(&self) -> Option<i32> {
        self.id
    }

    /// The top-level fields in schema order.
    pub fn fields(&self) -> impl ExactSizeIterator<Item = Field<'_>> + Clone {
        self.fields.iter().map(|entry| self.field(entry))
    }

    /// The field with this id, top-level only.
    pub fn field_by_id(&self, id: i32) -> Option<Field<'_>> {
        self.fields.iter().find(|entry| entry.id == id).map(|entry| self.field(entry))
    }

    /// All top-level fields with exactly this name: one, unless the schema is broken.
    pub fn fields_by_name<'a>(&'a self, name: &str) -> impl Iterator<Item = Field<'a>> {
        self.fields().filter(move |field| field.name == name)
    }

    /// Whether a field below the top level has this full name, such as `addr.zip`. The elements of lists
    /// and the values of maps count with and without their own part of the path, as Iceberg names them.
    pub fn has_nested_path(&self, path: &str) -> bool {
        path.contains('.')
            && self.fields().any(|field| {
                rest_of_path(path, field.name).is_some_and(|rest| has_path_below(field.r#type, rest))
            })
    }

    /// The first of some field ids that may not have a projection beside the others: the key of a map, or a
    /// field inside another one of them.
    pub fn forbidden_projection(&self, ids: &[i32]) -> Option<i32> {
        self.fields.iter().find_map(|entry| forbidden_below(&entry.r#type, ids, ids.contains(&entry.id)))
    }

    /// Whether a field below the top level has this id.
    pub fn has_nested_id(&self, id: i32) -> bool {
        self.fields.iter().any(|entry| has_id_below(&entry.r#type, id))
    }

    /// The ids of all fields below the top level.
    pub(super) fn nested_ids(&self) -> Vec<i32> {
        let mut ids = Vec::new();
        for entry in &self.fields {
            visit_ids_below(&entry.r#type, &mut |id| ids.push(id));
        }
        ids
    }

    /// Whether ids, names, types and `required` are the same, field by field.
    pub(super) fn has_same_fields(&self, other: &Self) -> bool {
        self.fields().eq(other.fields())
    }

    fn field<'a>(&'a self, entry: &'a FieldEntry) -> Field<'a> {
        Field {
            id: entry.id,
            name: &self.names[entry.name.start as usize..entry.name.end as usize],
            r#type: &entry.r#type,
            required: entry.required,
        }
    }
}

/// Puts a [`Schema`] together.
pub struct SchemaBuilder(Schema);

impl SchemaBuilder {
    /// Adds a top-level field. Whether ids are unique is the caller's to check.
    pub fn field(&mut self, id: i32, name: &str, r#type: Type, required: bool) -> &mut Self {
        let start = self.0.names.len() as u32;
        self.0.names.push_str(name);
        self.push(id, start, r#type, required);
        self
    }

    /// Adds a field whose name `write_name` appends to the string that it is given.
    pub(super) fn field_from<E>(
        &mut self,
        id: i32,
        write_name: impl FnOnce(&mut String) -> Result<(), E>,
        r#type: Type,
        required: bool,
    ) -> Result<(), E> {
        let start = self.0.names.len() as u32;
        write_name(&mut self.0.names)?;
        self.push(id, start, r#type, required);
        Ok(())
    }

    /// Makes room.
    pub(super) fn reserve(&mut self, fields: usize, name_bytes: usize) {
        self.0.fields.reserve(fields);
        self.0.names.reserve(name_bytes);
    }

    /// Sets the `schema-id`, which may come behind the fields.
    pub(super) fn with_id(mut self, id: Option<i32>) -> Self {
        self.0.id = id;
        self
    }

    fn push(&mut self, id: i32, name_start: u32, r#type: Type, required: bool) {
        let name = name_start..self.0.names.len() as u32;
        self.0.fields.push(FieldEntry { id, name, r#type, required });
    }

    /// The schema.
    pub fn build(self) -> Schema {
        self.0
    }
}

impl fmt::Debug for Schema {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Schema")
            .field("id", &self.id)
            .field("fields", &self.fields().collect::<Vec<_>>())
            .finish()
    }
}

/// What is left of `path` behind `name` and a dot.
fn rest_of_path<'a>(path: &'a str, name: &str) -> Option<&'a str> {
    path.strip_prefix(name)?.strip_prefix('.')
}

fn has_path_below(r#type: &Type, path: &str) -> bool {
    let named = |field: &NestedField| {
        path == &*field.name
            || rest_of_path(path, &field.name).is_some_and(|rest| has_path_below(&field.r#type, rest))
    };
    match r#type {
        Type::Primitive(_) => false,
        Type::Struct(fields) => fields.iter().any(named),
        Type::List(element) => named(element) || has_path_below(&element.r#type, path),
        Type::Map(key, value) => named(key) || named(value) || has_path_below(&value.r#type, path),
    }
}

/// `inside`: whether a field further out is one of them.
fn forbidden_below(r#type: &Type, ids: &[i32], inside: bool) -> Option<i32> {
    let below = |field: &NestedField, inside: bool| {
        let found = ids.contains(&field.id);
        if found && inside {
            return Some(field.id);
        }
        forbidden_below(&field.r#type, ids, inside || found)
    };
    match r#type {
        Type::Primitive(_) => None,
        Type::Struct(fields) => fields.iter().find_map(|field| below(field, inside)),
        Type::List(element) => below(element, inside),
        Type::Map(key, value) => {
            let key_id = ids.contains(&key.id).then_some(key.id);
            key_id.or_else(|| below(key, inside)).or_else(|| below(value, inside))
        }
    }
}

fn has_id_below(r#type: &Type, id: i32) -> bool {
    let has = |field: &NestedField| field.id == id || has_id_below(&field.r#type, id);
    match r#type {
        Type::Primitive(_) => false,
        Type::Struct(fields) => fields.iter().any(has),
        Type::List(element) => has(element),
        Type::Map(key, value) => has(key) || has(value),
    }
}

/// Visits the ids of all fields inside a type.
pub(super) fn visit_ids_below(r#type: &Type, visit: &mut impl FnMut(i32)) {
    let mut below = |field: &NestedField| {
        visit(field.id);
        visit_ids_below(&field.r#type, visit);
    };
    match r#type {
        Type::Primitive(_) => {}
        Type::Struct(fields) => fields.iter().for_each(below),
        Type::List(element) => below(element),
        Type::Map(key, value) => {
            below(key);
            below(value);
        }
    }
}
