//! The facts of a load result, as `Order of events, loadTable`, step 5 has them.

use std::{
    mem,
    ops::Range,
    str,
    sync::{Arc, OnceLock},
};

use bytes::{BufMut, Bytes, BytesMut};

use super::{
    error::LoadResultError,
    history::{History, HistoryBuilder},
    scan::{RawString, Scanner},
    schema::Schema,
    schema_json::{KnownFields, first_repeat, once, read_schema, read_unknown_fields, required},
};

type Result<T> = std::result::Result<T, LoadResultError>;

/// Bytes that a field takes at least.
const SHORTEST_FIELD: usize = r#"{"id":1,"name":"","required":true,"type":""}"#.len();

/// Lists of schemas up to this length take one allocation.
const USUAL_SCHEMAS: usize = 16;

/// Longer parts of a body are not copied.
const LONGEST_COPY: usize = 32 << 10;

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
    metadata_location: Option<Text>,
    read_restrictions: Option<(Range<usize>, Box<str>)>,
    metadata: Range<usize>,
    facts: Arc<Metadata>,
}

/// A string of the body.
#[derive(Clone, Debug)]
enum Text {
    /// It stands there as it is.
    Plain(Range<usize>),
    /// It has escapes.
    Decoded(String),
}

/// What there is to know of the `metadata` member. Places count from its first byte.
#[derive(Debug)]
struct Metadata {
    table_uuid: Option<String>,
    places: Places,
    schemas: Arc<Schemas>,
}

/// Where the values of `schemas` and of `schema` stand.
#[derive(Clone, Debug, Default, PartialEq)]
struct Places {
    listed: Option<Range<usize>>,
    single: Option<Range<usize>>,
}

/// What the metadata say about schemas. Metadata that say it in the same words share it.
#[derive(Debug)]
struct Schemas {
    format_version: i32,
    current_schema_id: Option<i32>,
    current: Schema,
    /// The deprecated `schema`, when `schemas` says which one is current.
    beside: Option<SchemaHead>,
    older: Vec<SchemaHead>,
    /// The current schema in the list.
    listed: Option<SchemaHead>,
    /// Worked out when it is asked for.
    history: OnceLock<History>,
}

/// A JSON text to put into load results as their `read-restrictions` member. Clones share it.
#[derive(Clone, Debug)]
pub(crate) struct Member {
    /// With its name before it and a comma behind it.
    text: Bytes,
}

impl Member {
    const BEFORE: &str = "\"read-restrictions\":";
    const AFTER: &str = ",";

    pub(crate) fn new(value: &str) -> Self {
        Self { text: [Self::BEFORE, value, Self::AFTER].concat().into() }
    }

    /// The value alone.
    fn value(&self) -> Bytes {
        self.text.slice(Self::BEFORE.len()..self.text.len() - Self::AFTER.len())
    }
}

/// What a table's metadata say about schemas, to be known again. A clone costs nothing.
#[derive(Clone, Debug)]
pub(crate) struct KnownSchemas(Arc<Schemas>);

/// Metadata that were read before, so that the same text need not be looked at again.
#[derive(Clone, Debug)]
pub struct KnownMetadata {
    text: Bytes,
    facts: Arc<Metadata>,
    size: usize,
}

impl KnownMetadata {
    /// About how many bytes it keeps alive.
    pub fn size(&self) -> usize {
        self.size
    }

    /// Passes over the metadata that come next, if they are these.
    fn find(&self, scanner: &mut Scanner<'_>) -> Option<(Range<usize>, Arc<Metadata>)> {
        let found = scanner.skip_known(&self.text)?;
        Some((found, Arc::clone(&self.facts)))
    }

    fn value_at(&self, place: &Option<Range<usize>>) -> Option<&[u8]> {
        place.clone().map(|place| &self.text[place])
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
                    None => Metadata::read(&body, scanner, known)?,
                };
                once(&mut metadata, "metadata", name, found)
            }
            b"metadata-location" => {
                let location = read_optional_string(scanner, "metadata-location")?;
                let location = location.map(|raw| Text::of(raw, "metadata-location")).transpose()?;
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
        let (range, facts) = Metadata::read(&metadata, &mut scanner, None)?;
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
        match self.metadata_location.as_ref()? {
            // Known to be UTF-8 since it was read.
            Text::Plain(place) => str::from_utf8(&self.body[place.clone()]).ok(),
            Text::Decoded(text) => Some(text),
        }
    }

    /// Where the value of `metadata` stands in the body.
    pub fn metadata(&self) -> Range<usize> {
        self.metadata.clone()
    }

    /// What [`LoadResult::read_knowing`] takes to read the next load result of the same table. It keeps the whole
    /// body alive; [`LoadResult::into_slices`] is for those who keep it for long.
    pub fn known_metadata(&self) -> KnownMetadata {
        self.known(self.body.slice(self.metadata()), self.body.len())
    }

    /// Metadata in a buffer of so many bytes.
    fn known(&self, text: Bytes, buffer: usize) -> KnownMetadata {
        KnownMetadata { text, facts: Arc::clone(&self.facts), size: buffer + self.schemas_size() }
    }

    /// About how many bytes the schemas take: what was read out of them is about as long as their text.
    pub(crate) fn schemas_size(&self) -> usize {
        let Places { listed, single } = &self.facts.places;
        listed.iter().chain(single).map(ExactSizeIterator::len).sum()
    }

    /// What there is to know of the table, without the body. Nothing can be put into it, and its history is known
    /// only if somebody asked for it before.
    pub(crate) fn without_body(&self) -> Self {
        Self {
            body: Bytes::new(),
            inside: 0,
            metadata_location: self.metadata_location().map(|location| Text::Decoded(location.to_owned())),
            read_restrictions: self.read_restrictions.as_ref().map(|(_, text)| (0..0, text.clone())),
            metadata: 0..0,
            facts: Arc::clone(&self.facts),
        }
    }

    /// Whether everything that there is to know without the bodies is the same for certain.
    pub(crate) fn says_the_same_as(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.facts.schemas, &other.facts.schemas)
            && self.table_uuid() == other.table_uuid()
            && self.metadata_location() == other.metadata_location()
            && self.read_restrictions() == other.read_restrictions()
    }

    /// What the metadata say about schemas.
    pub(crate) fn schemas(&self) -> KnownSchemas {
        KnownSchemas(Arc::clone(&self.facts.schemas))
    }

    /// Whether the metadata say this about schemas for certain.
    pub(crate) fn has_schemas(&self, known: &KnownSchemas) -> bool {
        Arc::ptr_eq(&self.facts.schemas, &known.0)
    }

    /// Whether these are the metadata that were known when it was read, and so were not read again.
    pub fn has_metadata(&self, known: &KnownMetadata) -> bool {
        Arc::ptr_eq(&self.facts, &known.facts)
    }

    /// The current schema.
    pub fn schema(&self) -> &Schema {
        &self.facts.schemas.current
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
        let mut older = Vec::with_capacity(self.facts.schemas.older.len() + 1);
        self.each_older_schema(None, |schema| older.push(schema))?;
        Ok(older)
    }

    /// What the older schemas add to the current one. Worked out once for all load results that say the
    /// same about their schemas and were read [knowing](LoadResult::read_knowing) each other.
    ///
    /// # Errors
    ///
    /// As for [`LoadResult::older_schemas`].
    pub fn history(&self) -> Result<&History> {
        let schemas = &self.facts.schemas;
        if let Some(history) = schemas.history.get() {
            return Ok(history);
        }
        let mut history = HistoryBuilder::new(&schemas.current);
        // What an older schema says in the words of the current one adds nothing.
        let known = self.current_fields()?;
        self.each_older_schema(known.as_ref(), |schema| history.add(&schema))?;
        Ok(schemas.history.get_or_init(|| history.build()))
    }

    /// Whether both say the same about schemas for certain. Load results that were not read
    /// [knowing](LoadResult::read_knowing) each other may do so unnoticed.
    pub fn shares_schemas_with(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.facts.schemas, &other.facts.schemas)
    }

    /// The fields of the current schema as the list of schemas has them, if it has others too.
    fn current_fields(&self) -> Result<Option<KnownFields<'_>>> {
        let Metadata { places, schemas, .. } = &*self.facts;
        match &schemas.listed {
            Some(head) if !schemas.older.is_empty() && !self.body.is_empty() => {
                let mut scanner = Scanner::new(&self.body, self.start_of(&places.listed) + head.place);
                KnownFields::find(&schemas.current, &self.body, &mut scanner, "schemas").map(Some)
            }
            _ => Ok(None),
        }
    }

    /// Where a value in the metadata begins.
    fn start_of(&self, place: &Option<Range<usize>>) -> usize {
        self.metadata.start + place.as_ref().map_or(0, |place| place.start)
    }

    /// Reads the schemas of the list without the fields that are known.
    fn each_older_schema(&self, known: Option<&KnownFields<'_>>, mut each: impl FnMut(Schema)) -> Result<()> {
        let Metadata { places, schemas, .. } = &*self.facts;
        if schemas.beside.is_none() && schemas.older.is_empty() {
            return Ok(());
        }
        if self.body.is_empty() {
            return Err(LoadResultError::member("schemas", "are no longer at hand", 0));
        }
        if let Some(head) = &schemas.beside {
            let schema = head.read_schema(&self.body, self.start_of(&places.single), "schema")?;
            if !schema.has_same_fields(&schemas.current) {
                each(schema);
            }
        }
        let start = self.start_of(&places.listed);
        for head in &schemas.older {
            each(match known {
                Some(known) => head.read_unknown_fields(&self.body, start, "schemas", known)?,
                None => head.read_schema(&self.body, start, "schemas")?,
            });
        }
        Ok(())
    }

    /// The text of the `read-restrictions` that the body has already, `null` too.
    pub fn read_restrictions(&self) -> Option<&str> {
        self.read_restrictions.as_ref().map(|(_, text)| &**text)
    }

    /// The body with this JSON text as its one `read-restrictions` member. It takes the place of the value
    /// that was there, or else becomes the first member. No other byte changes, and none is copied.
    pub fn splice(&self, member: &str) -> [Bytes; 3] {
        let Insertion { place, before, after } = self.insertion();
        [
            self.body.slice(..place.start),
            [before, member, after].concat().into(),
            self.body.slice(place.end..),
        ]
    }

    /// The same with a member that many load results get.
    pub(crate) fn splice_shared(&self, member: &Member) -> [Bytes; 3] {
        let place = self.insertion().place;
        let member = match self.read_restrictions {
            Some(_) => member.value(),
            None => member.text.clone(),
        };
        [self.body.slice(..place.start), member, self.body.slice(place.end..)]
    }

    /// The body to send, with this member as by [`splice`](Self::splice) or as it is; and its metadata, to keep
    /// for the next load result of the same table.
    ///
    /// What is kept holds nothing of what stands around the metadata, which may be credentials: a short text is
    /// copied, and a long one stays in its buffer, from which everything else is moved out. Only if somebody
    /// else holds a part of that buffer does it stay as it is.
    pub fn into_slices(mut self, member: Option<&str>) -> ([Bytes; 3], KnownMetadata) {
        let slices = |load: &Self| match member {
            Some(member) => load.splice(member),
            None => [load.body.clone(), Bytes::new(), Bytes::new()],
        };
        let surroundings = self.body.len() - self.metadata.len();
        if self.metadata.len() <= LONGEST_COPY {
            let text = Bytes::copy_from_slice(&self.body[self.metadata()]);
            let known = self.known(text, self.metadata.len());
            return (slices(&self), known);
        }
        if surroundings > LONGEST_COPY {
            return (slices(&self), self.known_metadata());
        }
        match mem::take(&mut self.body).try_into_mut() {
            Ok(mut buffer) => {
                let [before, after] = self.surroundings(&buffer, member);
                let size = buffer.capacity();
                buffer[..self.metadata.start].fill(b' ');
                buffer[self.metadata.end..].fill(b' ');
                let known = self.known(buffer.freeze().slice(self.metadata()), size);
                ([before, known.text.clone(), after], known)
            }
            Err(shared) => {
                self.body = shared;
                (slices(&self), self.known_metadata())
            }
        }
    }

    /// What stands before and behind the metadata in this copy of the body, with the member put in.
    fn surroundings(&self, body: &[u8], member: Option<&str>) -> [Bytes; 2] {
        let (start, end) = (self.metadata.start, self.metadata.end);
        let Some(member) = member else {
            return [&body[..start], &body[end..]].map(Bytes::copy_from_slice);
        };
        let Insertion { place, before, after } = self.insertion();
        let spliced = |range: Range<usize>| {
            let (head, tail) = (&body[range.start..place.start], &body[place.end..range.end]);
            [head, before.as_bytes(), member.as_bytes(), after.as_bytes(), tail].concat().into()
        };
        match place.start < start {
            true => [spliced(0..start), Bytes::copy_from_slice(&body[end..])],
            false => [Bytes::copy_from_slice(&body[..start]), spliced(end..body.len())],
        }
    }

    /// Where the member is put in.
    fn insertion(&self) -> Insertion {
        match &self.read_restrictions {
            Some((place, _)) => Insertion { place: place.clone(), before: "", after: "" },
            // The body has at least its metadata, so a comma is right.
            None => {
                let Self { inside, .. } = *self;
                Insertion { place: inside..inside, before: Member::BEFORE, after: Member::AFTER }
            }
        }
    }
}

/// A place in the body for the value of `read-restrictions`, and what has to stand around the value.
struct Insertion {
    place: Range<usize>,
    before: &'static str,
    after: &'static str,
}

impl Text {
    fn of(raw: RawString<'_>, member: &'static str) -> Result<Self> {
        match raw.plain_place() {
            Some(place) => Ok(Self::Plain(place)),
            None => raw.decode(member).map(Self::Decoded),
        }
    }
}

/// A schema in the metadata, found but not read.
#[derive(Debug)]
struct SchemaHead {
    id: Option<i32>,
    /// Counted from the first byte of the value of `schemas` or `schema`.
    place: usize,
    columns: usize,
}

impl SchemaHead {
    /// Passes over a schema in the value of `member` that begins at `value`.
    fn read(scanner: &mut Scanner<'_>, member: &'static str, value: usize) -> Result<Self> {
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
        Ok(Self { id, place: place - value, columns })
    }

    /// The id, or the one that Iceberg's readers take for a schema of format version 1 without.
    fn id(&self) -> i32 {
        self.id.unwrap_or_default()
    }

    fn read_schema(&self, text: &[u8], value: usize, member: &'static str) -> Result<Schema> {
        read_schema(&mut Scanner::new(text, value + self.place), member, self.columns)
    }

    fn read_unknown_fields(
        &self,
        text: &[u8],
        value: usize,
        member: &'static str,
        known: &KnownFields<'_>,
    ) -> Result<Schema> {
        let mut scanner = Scanner::new(text, value + self.place);
        read_unknown_fields(&mut scanner, member, self.columns, known)
    }
}

/// A value about schemas.
#[derive(Debug)]
enum Value<T> {
    Read(T),
    /// It is the one that the known metadata have, so nobody has looked into it.
    Known,
}

impl<T> Value<T> {
    fn is_known(&self) -> bool {
        matches!(self, Self::Known)
    }

    fn read(self) -> Option<T> {
        match self {
            Self::Read(value) => Some(value),
            Self::Known => None,
        }
    }
}

/// The members of the metadata that count, before it is settled which schema is current.
#[derive(Default)]
struct Members {
    /// Where the metadata begin.
    start: usize,
    format_version: Option<i32>,
    table_uuid: Option<Option<String>>,
    /// With its place.
    current_schema_id: Option<(i32, usize)>,
    places: Places,
    schemas: Option<Value<Vec<SchemaHead>>>,
    schema: Option<Value<SchemaHead>>,
}

impl Metadata {
    /// Reads the metadata that comes next in `text`, and says where it stands. What it says about schemas is
    /// not read again if the known metadata say the same.
    fn read(
        text: &[u8],
        scanner: &mut Scanner<'_>,
        known: Option<&KnownMetadata>,
    ) -> Result<(Range<usize>, Arc<Self>)> {
        scanner.peek()?;
        let start = scanner.offset();
        let mut members = Members::read(scanner, start, known)?;
        let shared = known.and_then(|known| members.schemas_of(known));
        if shared.is_none() && members.has_known_values() {
            scanner.go_back(start);
            members = Members::read(scanner, start, None)?;
        }
        let (table_uuid, places) = (members.table_uuid.take().flatten(), members.places.clone());
        let schemas = match shared {
            Some(schemas) => schemas,
            None => Arc::new(members.settle(text)?),
        };
        Ok((start..scanner.offset(), Arc::new(Self { table_uuid, places, schemas })))
    }
}

impl Members {
    fn read(scanner: &mut Scanner<'_>, start: usize, known: Option<&KnownMetadata>) -> Result<Self> {
        let mut members = Self { start, ..Self::default() };
        let known = known.map(|known| (known, &known.facts.places));
        let known_schemas = known.and_then(|(known, places)| known.value_at(&places.listed));
        let known_schema = known.and_then(|(known, places)| known.value_at(&places.single));
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
                let uuid = uuid.map(|raw| raw.decode("table-uuid")).transpose()?;
                once(&mut members.table_uuid, "table-uuid", name, uuid)
            }
            b"current-schema-id" => {
                let id = scanner.integer("current-schema-id")?;
                once(&mut members.current_schema_id, "current-schema-id", name, (id, name.offset))
            }
            b"schemas" => {
                let (place, heads) = read_or_know(scanner, known_schemas, read_schemas)?;
                members.places.listed = Some(place.start - start..place.end - start);
                once(&mut members.schemas, "schemas", name, heads)
            }
            b"schema" => {
                let read = |scanner: &mut Scanner<'_>, value| SchemaHead::read(scanner, "schema", value);
                let (place, head) = read_or_know(scanner, known_schema, read)?;
                members.places.single = Some(place.start - start..place.end - start);
                once(&mut members.schema, "schema", name, head)
            }
            _ => scanner.skip().map(drop),
        })?;
        Ok(members)
    }

    fn has_known_values(&self) -> bool {
        self.schemas.as_ref().is_some_and(Value::is_known)
            || self.schema.as_ref().is_some_and(Value::is_known)
    }

    /// What the known metadata say about schemas, if these say the same in the same words.
    fn schemas_of(&self, known: &KnownMetadata) -> Option<Arc<Schemas>> {
        let Metadata { places, schemas, .. } = &*known.facts;
        let same_schemas = match &self.schemas {
            Some(value) => value.is_known(),
            None => places.listed.is_none(),
        };
        let same_schema = match &self.schema {
            Some(value) => value.is_known(),
            None => places.single.is_none(),
        };
        (same_schemas
            && same_schema
            && self.format_version == Some(schemas.format_version)
            && self.current_schema_id.map(|(id, _)| id) == schemas.current_schema_id)
            .then(|| Arc::clone(schemas))
    }

    /// Settles which schema is current and reads it.
    fn settle(self, text: &[u8]) -> Result<Schemas> {
        let Self { start, current_schema_id, places, .. } = self;
        let format_version = required(self.format_version, "format-version", start)?;
        let value = |place: Option<Range<usize>>| start + place.map_or(0, |place| place.start);
        let found = FoundSchemas {
            text,
            start,
            listed_at: value(places.listed),
            listed: self.schemas.and_then(Value::read),
            single_at: value(places.single),
            single: self.schema.and_then(Value::read),
            current_id: current_schema_id,
        };
        found.check_ids(format_version)?;
        let has_current_id = found.listed.is_some() && current_schema_id.is_some();
        let (current, place) = match has_current_id || format_version > 1 {
            true => found.listed_schema()?,
            false => found.deprecated_schema()?,
        };
        let mut older = found.listed.unwrap_or_default();
        let listed = place.map(|place| older.remove(place));
        let beside = found.single.filter(|_| has_current_id);
        let current_schema_id = current_schema_id.map(|(id, _)| id);
        let history = OnceLock::new();
        Ok(Schemas { format_version, current_schema_id, current, beside, older, listed, history })
    }
}

/// All schemas of the metadata, found but not read.
struct FoundSchemas<'a> {
    text: &'a [u8],
    /// Where the metadata begin.
    start: usize,
    /// Where the value of `schemas` begins.
    listed_at: usize,
    listed: Option<Vec<SchemaHead>>,
    /// Where the value of `schema` begins.
    single_at: usize,
    single: Option<SchemaHead>,
    /// With its place.
    current_id: Option<(i32, usize)>,
}

impl FoundSchemas<'_> {
    fn listed(&self) -> &[SchemaHead] {
        self.listed.as_deref().unwrap_or_default()
    }

    /// No two schemas of the list may have one id, and since format version 2 each has one.
    fn check_ids(&self, format_version: i32) -> Result<()> {
        let nameless = |head: &&SchemaHead| head.id.is_none() && format_version > 1;
        if let Some(nameless) = self.listed().iter().find(nameless) {
            return Err(LoadResultError::member("schema-id", "is missing", self.listed_at + nameless.place));
        }
        if self.listed().len() < 2 {
            return Ok(());
        }
        let ids = self.listed().iter().map(|head| (head.id(), self.listed_at + head.place));
        match first_repeat(&mut ids.collect::<Vec<_>>()) {
            Some(offset) => Err(LoadResultError::member("schema-id", "is that of another schema", offset)),
            None => Ok(()),
        }
    }

    fn read_listed(&self, place: usize) -> Result<Schema> {
        self.listed()[place].read_schema(self.text, self.listed_at, "schemas")
    }

    /// The schema that `current-schema-id` names, and its place in the list.
    fn listed_schema(&self) -> Result<(Schema, Option<usize>)> {
        required(self.listed.as_ref(), "schemas", self.start)?;
        let (id, offset) = required(self.current_id, "current-schema-id", self.start)?;
        let place = self
            .listed()
            .iter()
            .position(|head| head.id() == id)
            .ok_or_else(|| LoadResultError::member("current-schema-id", "names no schema", offset))?;
        Ok((self.read_listed(place)?, Some(place)))
    }

    /// The `schema` of format version 1, and which one of the list is the same, if there is a list.
    ///
    /// Some readers would take that one instead, so it must not differ.
    fn deprecated_schema(&self) -> Result<(Schema, Option<usize>)> {
        let head = required(self.single.as_ref(), "schema", self.start)?;
        let schema = head.read_schema(self.text, self.single_at, "schema")?;
        let wrong = |what| Err(LoadResultError::member("schema", what, self.single_at));
        if self.current_id.is_some_and(|(id, _)| id != head.id()) {
            return wrong("is not the one that `current-schema-id` names");
        }
        let twin = match self.listed() {
            [] => return Ok((schema, None)),
            [_] => Some(0),
            listed => listed.iter().position(|other| other.id() == head.id()),
        };
        let Some(twin) = twin else { return wrong("is not in `schemas`") };
        match self.read_listed(twin)?.has_same_fields(&schema) {
            true => Ok((schema, Some(twin))),
            false => wrong("differs from the one in `schemas`"),
        }
    }
}

/// Passes over a value and says where it stands, and what is in it unless it is the known one.
fn read_or_know<T>(
    scanner: &mut Scanner<'_>,
    known: Option<&[u8]>,
    read: impl FnOnce(&mut Scanner<'_>, usize) -> Result<T>,
) -> Result<(Range<usize>, Value<T>)> {
    scanner.peek()?;
    let start = scanner.offset();
    let value = match known.and_then(|known| scanner.skip_known(known)) {
        Some(_) => Value::Known,
        None => Value::Read(read(scanner, start)?),
    };
    Ok((start..scanner.offset(), value))
}

fn count_elements(scanner: &mut Scanner<'_>, member: &'static str) -> Result<usize> {
    let mut count = 0;
    scanner.array(member, |scanner| {
        count += 1;
        scanner.skip().map(drop)
    })?;
    Ok(count)
}

fn read_schemas(scanner: &mut Scanner<'_>, value: usize) -> Result<Vec<SchemaHead>> {
    let mut heads = Vec::with_capacity(USUAL_SCHEMAS);
    scanner.array("schemas", |scanner| {
        heads.push(SchemaHead::read(scanner, "schemas", value)?);
        Ok(())
    })?;
    Ok(heads)
}

fn read_optional_string<'a>(
    scanner: &mut Scanner<'a>,
    member: &'static str,
) -> Result<Option<RawString<'a>>> {
    match scanner.peek()? {
        b'n' => scanner.skip().map(|_| None),
        _ => scanner.string_value(member).map(Some),
    }
}
