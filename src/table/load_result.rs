//! The facts of a load result, as `Order of events, loadTable`, step 5 has them.

use std::{ops::Range, str, sync::Arc};

use bytes::{BufMut, Bytes, BytesMut};

use super::{
    error::LoadResultError,
    scan::Scanner,
    schema::Schema,
    schema_json::{first_repeat, once, read_schema, required},
};

type Result<T> = std::result::Result<T, LoadResultError>;

/// Bytes that a field takes at least.
const SHORTEST_FIELD: usize = r#"{"id":1,"name":"","required":true,"type":""}"#.len();

/// Lists of schemas up to this length take one allocation.
const USUAL_SCHEMAS: usize = 16;

/// A `LoadTableResult` of the Iceberg REST catalog API, read strictly and without a change to its bytes.
///
/// Reading goes over the body once. It is an error if the body is not exactly one JSON object in UTF-8
/// (RFC 8259; no byte order mark, nothing behind it, no more than 127 levels deep), if a member that counts
/// is repeated in any spelling, or if the current schema cannot be told or understood. Members that do not
/// count may hold whatever JSON allows.
///
/// What counts: `metadata`, `metadata-location` and `read-restrictions` at the top; `format-version`,
/// `table-uuid`, `current-schema-id`, `schemas` and `schema` in the metadata; and in a schema what the table
/// specification puts there. The order of members is free.
///
/// A format version this crate has not heard of is read as version 3 is: what it needs, `schemas` and
/// `current-schema-id`, has to be there.
#[derive(Clone, Debug)]
pub struct LoadResult {
    body: Bytes,
    /// The first byte behind the opening brace of the body.
    inside: usize,
    metadata_location: Option<String>,
    read_restrictions: Option<(Range<usize>, Box<str>)>,
    metadata: Range<usize>,
    facts: Arc<Metadata>,
}

/// What there is to know of the `metadata` member. Places count from its first byte.
#[derive(Debug)]
struct Metadata {
    table_uuid: Option<String>,
    schema: Schema,
    /// The deprecated `schema`, when `schemas` says which one is current.
    beside: Option<SchemaHead>,
    older: Vec<SchemaHead>,
}

/// Metadata that were read before, so that the same text need not be looked at again.
///
/// It keeps the body that it came from alive as a whole, with the credentials that may be in it.
#[derive(Clone, Debug)]
pub struct KnownMetadata {
    body: Bytes,
    place: Range<usize>,
    facts: Arc<Metadata>,
}

impl KnownMetadata {
    /// How many bytes it keeps alive.
    pub fn size(&self) -> usize {
        self.body.len()
    }

    /// Passes over the metadata that come next, if they are these.
    fn find(&self, scanner: &mut Scanner<'_>) -> Option<(Range<usize>, Arc<Metadata>)> {
        let found = scanner.skip_known(&self.body[self.place.clone()])?;
        Some((found, Arc::clone(&self.facts)))
    }
}

impl LoadResult {
    /// Reads the whole body of a load result.
    ///
    /// # Errors
    ///
    /// When the body is not what is described [above](LoadResult).
    pub fn read(body: Bytes) -> Result<Self> {
        Self::read_knowing(body, None)
    }

    /// Reads the whole body of a load result. If its metadata are byte for byte those that are known, which
    /// takes but a comparison, they are not read again. The result is the same.
    ///
    /// # Errors
    ///
    /// As for [`LoadResult::read`].
    pub fn read_knowing(body: Bytes, known: Option<&KnownMetadata>) -> Result<Self> {
        let (mut metadata, mut metadata_location, mut read_restrictions) = (None, None, None);
        let mut scanner = Scanner::new(&body, 0);
        scanner.peek()?;
        let start = scanner.offset();
        scanner.object("load result", |scanner, name| match name.text {
            b"metadata" => {
                let found = match known.and_then(|known| known.find(scanner)) {
                    Some(found) => found,
                    None => Metadata::read(&body, scanner)?,
                };
                once(&mut metadata, "metadata", name, found)
            }
            b"metadata-location" => {
                let location = read_optional_string(scanner, "metadata-location")?;
                once(&mut metadata_location, "metadata-location", name, location)
            }
            b"read-restrictions" => {
                let range = scanner.skip()?;
                once(&mut read_restrictions, "read-restrictions", name, range)
            }
            _ => scanner.skip().map(drop),
        })?;
        scanner.end()?;
        let (metadata, facts) = required(metadata, "metadata", start)?;
        let read_restrictions = read_restrictions
            .map(|range| match str::from_utf8(&body[range.clone()]) {
                Ok(text) => Ok((range, Box::from(text))),
                Err(_) => Err(LoadResultError::json("is not UTF-8", range.start)),
            })
            .transpose()?;
        Ok(Self {
            inside: start + 1,
            metadata_location: metadata_location.flatten(),
            read_restrictions,
            metadata,
            facts,
            body,
        })
    }

    /// Reads a table metadata document by itself, and wraps it into a load result that holds nothing else.
    ///
    /// # Errors
    ///
    /// As for [`LoadResult::read`]; offsets are those in `metadata`.
    pub fn read_metadata(metadata: Bytes) -> Result<Self> {
        const BEFORE: &[u8] = b"{\"metadata\":";
        let mut scanner = Scanner::new(&metadata, 0);
        let (range, facts) = Metadata::read(&metadata, &mut scanner)?;
        scanner.end()?;
        let mut body = BytesMut::with_capacity(BEFORE.len() + range.len() + 1);
        body.put_slice(BEFORE);
        body.put_slice(&metadata[range.clone()]);
        body.put_u8(b'}');
        Ok(Self {
            body: body.freeze(),
            inside: 1,
            metadata_location: None,
            read_restrictions: None,
            metadata: BEFORE.len()..BEFORE.len() + range.len(),
            facts,
        })
    }

    /// The body, byte for byte.
    pub fn body(&self) -> &Bytes {
        &self.body
    }

    /// The table's UUID as the metadata spells it; format version 1 may have none.
    pub fn table_uuid(&self) -> Option<&str> {
        self.facts.table_uuid.as_deref()
    }

    /// Where the metadata file lies, if there is one: a staged table has none.
    pub fn metadata_location(&self) -> Option<&str> {
        self.metadata_location.as_deref()
    }

    /// Where the value of `metadata` stands in the body.
    pub fn metadata(&self) -> Range<usize> {
        self.metadata.clone()
    }

    /// What [`LoadResult::read_knowing`] takes to read the next load result of the same table.
    pub fn known_metadata(&self) -> KnownMetadata {
        KnownMetadata { body: self.body.clone(), place: self.metadata(), facts: Arc::clone(&self.facts) }
    }

    /// Whether these are the metadata that were known when it was read, and so were not read again.
    pub fn has_metadata(&self, known: &KnownMetadata) -> bool {
        Arc::ptr_eq(&self.facts, &known.facts)
    }

    /// The current schema.
    pub fn schema(&self) -> &Schema {
        &self.facts.schema
    }

    /// The schemas that are not current, in the order of the list. They are read only now, as strictly as
    /// the current one.
    ///
    /// A deprecated `schema` member that says something else than the current schema counts as one more,
    /// and comes first.
    ///
    /// # Errors
    ///
    /// When one of them cannot be understood.
    pub fn older_schemas(&self) -> Result<Vec<Schema>> {
        let read = |head: &SchemaHead, member| head.read_schema(&self.body, self.metadata.start, member);
        let mut older = Vec::with_capacity(self.facts.older.len() + 1);
        if let Some(head) = &self.facts.beside {
            let schema = read(head, "schema")?;
            if !schema.has_same_fields(&self.facts.schema) {
                older.push(schema);
            }
        }
        for head in &self.facts.older {
            older.push(read(head, "schemas")?);
        }
        Ok(older)
    }

    /// The text of the `read-restrictions` that the body has already, `null` too.
    pub fn read_restrictions(&self) -> Option<&str> {
        self.read_restrictions.as_ref().map(|(_, text)| &**text)
    }

    /// The body with this JSON text as its one `read-restrictions` member. It takes the place of the value
    /// that was there, or else becomes the first member. No other byte changes, and none is copied.
    pub fn splice(&self, member: &str) -> [Bytes; 3] {
        match &self.read_restrictions {
            Some((range, _)) => [
                self.body.slice(..range.start),
                Bytes::copy_from_slice(member.as_bytes()),
                self.body.slice(range.end..),
            ],
            // The body has at least its metadata, so a comma is right.
            None => [
                self.body.slice(..self.inside),
                ["\"read-restrictions\":", member, ","].concat().into(),
                self.body.slice(self.inside..),
            ],
        }
    }
}

/// A schema in the metadata, found but not read.
#[derive(Debug)]
struct SchemaHead {
    id: Option<i32>,
    /// Counted from the first byte of the metadata.
    place: usize,
    columns: usize,
}

impl SchemaHead {
    /// Passes over a schema, a value of `member`, in the metadata that begins at `start`.
    fn read(scanner: &mut Scanner<'_>, member: &'static str, start: usize) -> Result<Self> {
        scanner.peek()?;
        let place = scanner.offset();
        let (mut id, mut kind, mut columns) = (None, None, None);
        scanner.object(member, |scanner, name| match name.text {
            b"schema-id" => once(&mut id, "schema-id", name, scanner.integer("schema-id")?),
            b"type" => once(&mut kind, "type", name, scanner.skip()?),
            b"fields" => once(&mut columns, "fields", name, count_elements(scanner, "fields")?),
            _ => scanner.skip().map(drop),
        })?;
        required(kind, "type", place)?;
        // What is counted may be anything yet, and room is made only for as many columns as can be.
        let columns = required(columns, "fields", place)?.min((scanner.offset() - place) / SHORTEST_FIELD);
        Ok(Self { id, place: place - start, columns })
    }

    /// The id, or the one that Iceberg's readers take for a schema of format version 1 without.
    fn id(&self) -> i32 {
        self.id.unwrap_or_default()
    }

    fn read_schema(&self, text: &[u8], start: usize, member: &'static str) -> Result<Schema> {
        read_schema(&mut Scanner::new(text, start + self.place), member, self.columns)
    }
}

/// The members of the metadata that count, before it is settled which schema is current.
#[derive(Default)]
struct Members {
    format_version: Option<i32>,
    table_uuid: Option<Option<String>>,
    /// With its place.
    current_schema_id: Option<(i32, usize)>,
    schemas: Option<Vec<SchemaHead>>,
    schema: Option<SchemaHead>,
}

impl Metadata {
    /// Reads the metadata that comes next in `text`, and says where it stands.
    fn read(text: &[u8], scanner: &mut Scanner<'_>) -> Result<(Range<usize>, Arc<Self>)> {
        scanner.peek()?;
        let start = scanner.offset();
        let mut members = Members::default();
        scanner.object("metadata", |scanner, name| match name.text {
            b"format-version" => {
                let version = scanner.integer("format-version")?;
                if version < 1 {
                    return Err(LoadResultError::member("format-version", "is less than 1", name.offset));
                }
                once(&mut members.format_version, "format-version", name, version)
            }
            b"table-uuid" => {
                let uuid = read_optional_string(scanner, "table-uuid")?;
                once(&mut members.table_uuid, "table-uuid", name, uuid)
            }
            b"current-schema-id" => {
                let id = scanner.integer("current-schema-id")?;
                once(&mut members.current_schema_id, "current-schema-id", name, (id, name.offset))
            }
            b"schemas" => once(&mut members.schemas, "schemas", name, read_schemas(scanner, start)?),
            b"schema" => {
                let schema = SchemaHead::read(scanner, "schema", start)?;
                once(&mut members.schema, "schema", name, schema)
            }
            _ => scanner.skip().map(drop),
        })?;
        let facts = members.settle(text, start)?;
        Ok((start..scanner.offset(), Arc::new(facts)))
    }
}

impl Members {
    /// Settles which schema is current and reads it.
    fn settle(self, text: &[u8], start: usize) -> Result<Metadata> {
        let version = required(self.format_version, "format-version", start)?;
        self.check_ids(version, start)?;
        let has_current_id = self.schemas.is_some() && self.current_schema_id.is_some();
        let (schema, current) = match has_current_id || version > 1 {
            true => self.listed_schema(text, start)?,
            false => self.deprecated_schema(text, start)?,
        };
        let mut older = self.schemas.unwrap_or_default();
        if let Some(current) = current {
            older.remove(current);
        }
        let beside = self.schema.filter(|_| has_current_id);
        Ok(Metadata { table_uuid: self.table_uuid.flatten(), schema, beside, older })
    }

    /// No two schemas of the list may have one id, and since format version 2 each has one.
    fn check_ids(&self, version: i32, start: usize) -> Result<()> {
        let listed = self.schemas.as_deref().unwrap_or_default();
        if let Some(nameless) = listed.iter().find(|head| head.id.is_none() && version > 1) {
            return Err(LoadResultError::member("schema-id", "is missing", start + nameless.place));
        }
        let mut ids: Vec<_> = listed.iter().map(|head| (head.id(), start + head.place)).collect();
        match first_repeat(&mut ids) {
            Some(offset) => Err(LoadResultError::member("schema-id", "is that of another schema", offset)),
            None => Ok(()),
        }
    }

    /// The schema that `current-schema-id` names, and its place in the list.
    fn listed_schema(&self, text: &[u8], start: usize) -> Result<(Schema, Option<usize>)> {
        let listed = required(self.schemas.as_ref(), "schemas", start)?;
        let (id, offset) = required(self.current_schema_id, "current-schema-id", start)?;
        let place = listed
            .iter()
            .position(|head| head.id() == id)
            .ok_or_else(|| LoadResultError::member("current-schema-id", "names no schema", offset))?;
        Ok((listed[place].read_schema(text, start, "schemas")?, Some(place)))
    }

    /// The `schema` of format version 1, and which one of the list is the same, if there is a list.
    ///
    /// Some readers would take that one instead, so it must not differ.
    fn deprecated_schema(&self, text: &[u8], start: usize) -> Result<(Schema, Option<usize>)> {
        let head = required(self.schema.as_ref(), "schema", start)?;
        let schema = head.read_schema(text, start, "schema")?;
        let wrong = |what| Err(LoadResultError::member("schema", what, start + head.place));
        if self.current_schema_id.is_some_and(|(id, _)| id != head.id()) {
            return wrong("is not the one that `current-schema-id` names");
        }
        let listed = self.schemas.as_deref().unwrap_or_default();
        let twin = match listed {
            [] => return Ok((schema, None)),
            [_] => Some(0),
            _ => listed.iter().position(|other| other.id() == head.id()),
        };
        let Some(twin) = twin else { return wrong("is not in `schemas`") };
        match listed[twin].read_schema(text, start, "schemas")?.has_same_fields(&schema) {
            true => Ok((schema, Some(twin))),
            false => wrong("differs from the one in `schemas`"),
        }
    }
}

fn count_elements(scanner: &mut Scanner<'_>, member: &'static str) -> Result<usize> {
    let mut count = 0;
    scanner.array(member, |scanner| {
        count += 1;
        scanner.skip().map(drop)
    })?;
    Ok(count)
}

fn read_schemas(scanner: &mut Scanner<'_>, start: usize) -> Result<Vec<SchemaHead>> {
    let mut heads = Vec::with_capacity(USUAL_SCHEMAS);
    scanner.array("schemas", |scanner| {
        heads.push(SchemaHead::read(scanner, "schemas", start)?);
        Ok(())
    })?;
    Ok(heads)
}

fn read_optional_string(scanner: &mut Scanner<'_>, member: &'static str) -> Result<Option<String>> {
    match scanner.peek()? {
        b'n' => scanner.skip().map(|_| None),
        _ => scanner.string_value(member)?.decode(member).map(Some),
    }
}
