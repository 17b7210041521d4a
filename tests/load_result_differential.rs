//! The scanner against `serde_json`: the same bodies accepted, the same facts found, no byte changed.
//!
//! For a longer run: `PROPTEST_CASES=1000000 cargo test --release --test load_result_differential`

#[path = "support/bodies.rs"]
mod bodies;
#[path = "support/oracle.rs"]
mod oracle;

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    ops::Range,
    path::Path,
};

use bytes::Bytes;
use iceberg_read_restrictions::table::{Field, LoadResult, is_load_result};
use proptest::{collection::vec, prelude::*, sample::select};
use serde::de::IgnoredAny;
use serde_json::Value;

use bodies::{Order, Shape};

/// Reads the body both ways, compares, and says whether it was accepted.
fn agree(body: &[u8]) -> bool {
    let text = String::from_utf8_lossy(body);
    let found = LoadResult::read(Bytes::copy_from_slice(body));
    let expected = oracle::facts(body);
    let (table, facts) = match (found, expected) {
        (Ok(table), Some(facts)) => (table, facts),
        (Err(_), None) => return false,
        (found, expected) => panic!("{found:?}\n{expected:?}\n{text}"),
    };
    assert_eq!(table.body(), body);
    assert_eq!(table.metadata(), facts.metadata, "{text}");
    assert_eq!(table.metadata_location(), facts.metadata_location.as_deref(), "{text}");
    assert_eq!(table.read_restrictions(), facts.read_restrictions.as_deref(), "{text}");
    assert_eq!(table.table_uuid(), facts.table_uuid.as_deref(), "{text}");
    assert_eq!(*table.schema(), facts.schema, "{text}");
    assert_eq!(table.older_schemas().ok(), facts.older_schemas, "{text}");
    let (schema, location) = oracle::read_with_visitors(body).expect("the one pass finds the same");
    assert_eq!((table.schema(), table.metadata_location()), (&schema, location.as_deref()), "{text}");
    assert!(is_load_result(body), "{text}");
    check_history(&table);
    check_splice(&table);
    true
}

/// Checks that the history says what the older schemas say when each of them is read as a whole.
fn check_history(table: &LoadResult) {
    let (older, history) = match (table.older_schemas(), table.history()) {
        (Ok(older), Ok(history)) => (older, history),
        (Err(_), Err(_)) => return,
        (older, history) => panic!("{older:?}\n{history:?}"),
    };
    let current = table.schema();
    let mut past: BTreeMap<i32, (BTreeSet<&str>, Field<'_>)> = BTreeMap::new();
    let mut former_names: BTreeMap<&str, Option<i32>> = BTreeMap::new();
    for field in older.iter().flat_map(|schema| schema.fields()) {
        let lives_on = current.field_by_id(field.id).map(|field| field.id);
        if current.fields_by_name(field.name).next().is_none() {
            let known = former_names.entry(field.name).or_default();
            *known = known.or(lives_on);
        }
        if lives_on.is_none() {
            let (names, latest) = past.entry(field.id).or_insert((BTreeSet::new(), field));
            names.insert(field.name);
            *latest = field;
        }
    }
    for field in older.iter().flat_map(|schema| schema.fields()) {
        assert_eq!(history.former_name(field.name), former_names.get(field.name).copied(), "{}", field.name);
    }
    let found = history.past_fields().map(|past| (past.latest().id, (past.names().collect(), past.latest())));
    assert_eq!(found.collect::<BTreeMap<_, _>>(), past);
    for id in 0..20 {
        let has_it = older.iter().chain([current]).any(|schema| schema.has_nested_id(id));
        assert_eq!(history.has_nested_id(id), has_it, "{id}");
    }
}

/// Checks that the member is in the spliced body once, and that no other byte was touched.
fn check_splice(table: &LoadResult) {
    const MEMBER: &str = r#"{"required-row-filter":{"type":"is-null","child":{"type":"reference","id":1}}}"#;
    let [before, ours, after] = table.splice(MEMBER);
    let spliced = [&before[..], &ours, &after].concat();
    let facts = oracle::facts(&spliced).expect("the spliced body is a load result");
    assert_eq!(facts.read_restrictions.as_deref(), Some(MEMBER));
    assert_eq!(facts.schema, *table.schema());
    let taken_out = table.read_restrictions().unwrap_or_default();
    assert_eq!([&before[..], taken_out.as_bytes(), &after].concat(), *table.body());
}

/// Checks that a body is taken for JSON exactly if `serde_json` does, with this text where nobody looks.
fn agree_on_value(value: &str) {
    let body = format!(
        r#"{{"x":{value},"metadata":{{"format-version":1,"schema":{{"type":"struct","fields":[]}}}}}}"#
    );
    let expected = serde_json::from_str::<IgnoredAny>(&body).is_ok() && oracle::depth(&body) <= 127;
    assert_eq!(LoadResult::read(body.into()).is_ok(), expected, "{value:?}");
}

/// Whether `serde_json` would find a load result if what comes before it is fixed up: a byte order mark taken
/// away, invalid UTF-8 replaced, and what stands behind the first value ignored.
fn any_reader_sees_one(body: &[u8]) -> bool {
    let text = String::from_utf8_lossy(body);
    let mut values =
        serde_json::Deserializer::from_str(text.trim_start_matches('\u{feff}')).into_iter::<Value>();
    let Some(Ok(value)) = values.next() else { return false };
    let has =
        |member: &str| value["metadata"].as_object().is_some_and(|metadata| metadata.contains_key(member));
    has("format-version") && (has("schemas") || has("schema"))
}

/// Calls `each` with every text of up to `length` of these pieces.
fn every_text(pieces: &[&str], length: usize, each: &mut impl FnMut(&str)) {
    fn extend(text: &mut String, pieces: &[&str], length: usize, each: &mut impl FnMut(&str)) {
        each(text);
        for piece in pieces.iter().filter(|_| length > 0) {
            text.push_str(piece);
            extend(text, pieces, length - 1, each);
            text.truncate(text.len() - piece.len());
        }
    }
    extend(&mut String::new(), pieces, length, each);
}

#[test]
fn every_short_number() {
    every_text(&["-", "+", "0", "1", ".", "e", "E"], 5, &mut agree_on_value);
}

#[test]
fn every_short_structure() {
    every_text(&["{", "}", "[", "]", ":", ",", "\"a\"", "1", " "], 5, &mut agree_on_value);
}

#[test]
fn every_short_word() {
    every_text(&["true", "fals", "e", "nul", "l", "1", " "], 4, &mut agree_on_value);
}

#[test]
fn every_short_string() {
    let pieces = ["\"", "\\", "/", "b", "u", "00", "eF", "\u{1f}", "ü", "𝄞"];
    every_text(&pieces, 4, &mut |inside| agree_on_value(&format!("\"{inside}\"")));
}

#[test]
fn every_byte_at_every_place_of_a_string() {
    for length in 0..20 {
        for at in 0..=length {
            for byte in 0..=0x7F_u8 {
                let (before, after) = ("x".repeat(at), "y".repeat(length - at));
                agree_on_value(&format!("\"{before}{}{after}\"", char::from(byte)));
            }
        }
    }
}

/// The fixtures as whole load results, and bodies with what they lack.
fn seeds() -> Vec<String> {
    let mut files: Vec<_> = ["tests/fixtures/tables", "tests/fixtures/load_results"]
        .iter()
        .flat_map(|folder| fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join(folder)).unwrap())
        .map(|file| file.unwrap().path())
        .filter(|file| file.extension().is_some_and(|extension| extension == "json"))
        .collect();
    files.sort();
    let whole = |file: &Path| {
        let document = fs::read_to_string(file).unwrap();
        match document.contains("\"metadata\":") && document.contains("metadata-location\"") {
            true => document,
            false => format!(r#"{{"metadata":{document},"config":{{}}}}"#),
        }
    };
    let mut seeds: Vec<_> = files.iter().map(|file| whole(file)).collect();
    let shape = Shape { columns: 26, schemas: 3, snapshots: 2, order: Order::BehindSnapshots };
    for order in [Order::IdFirst, Order::SchemasFirst, Order::BehindSnapshots] {
        seeds.push(shape.with_order(order).load_result());
    }
    seeds.push(bodies::pretty(&shape.load_result()));
    seeds.push(bodies::escaped(&shape.load_result()));
    let nested = r#"{"metadata":{"format-version":2,"schemas":[{"type":"struct","schema-id":7,"fields":[
        {"id":1,"name":"a\u00fc\ud834\udd1e","required":true,"type":{"type":"struct","fields":[
            {"id":2,"name":"b","required":false,"type":{"type":"map","key-id":3,"key":"string","value-id":4,
             "value":{"type":"list","element-id":5,"element":"fixed[3]","element-required":true},"value-required":false}}]}},
        {"id":6,"name":"€","required":false,"type":"geometry(srid:1)"}]}],"current-schema-id":7,"schema":{"fields":[],"type":"struct"}},
        "read-restrictions":{"required-row-filter":true},"metadata-location":"s3:\/\/x"}"#;
    seeds.push(nested.to_owned());
    seeds
}

#[test]
fn seeds_are_accepted_or_refused_alike() {
    let accepted = seeds().iter().filter(|seed| agree(seed.as_bytes())).count();
    assert_eq!(accepted, seeds().len() - 2, "all but the samples 06 and 08");
}

/// A change to a body at a place given in parts of its length.
#[derive(Clone, Debug)]
enum Mutation {
    Insert(f64, &'static [u8]),
    Overwrite(f64, u8),
    Remove(f64, usize),
    Repeat(f64, usize),
    Move(f64, f64, usize),
    /// Takes one member's name for another's, all over.
    Rename(&'static str, &'static str),
    /// Takes one number or word for another, once.
    Revalue(f64, &'static str),
}

const NAMES: [&str; 22] = [
    "metadata",
    "metadata-location",
    "read-restrictions",
    "format-version",
    "table-uuid",
    "current-schema-id",
    "schemas",
    "schema",
    "schema-id",
    "type",
    "fields",
    "id",
    "name",
    "required",
    "element-id",
    "element",
    "key-id",
    "value",
    r"read\u002drestrictions",
    r"\u0069d",
    r"schem\u0061s",
    r"x\ud800",
];

/// What bodies are made of.
const PIECES: [&str; 32] = [
    "{",
    "}",
    "{",
    "}",
    "[",
    "]",
    ":",
    ",",
    ":",
    ",",
    "\"",
    "\\",
    " ",
    "\n",
    "0",
    "1",
    "-",
    "null",
    "true",
    "\u{1f}",
    "ü",
    "\u{feff}",
    "\"metadata\":{",
    "\"format-version\":1,",
    "\"schema\":{",
    "\"type\":\"struct\",",
    "\"fields\":[]",
    "\"schemas\":[",
    "\"current-schema-id\":0,",
    "\"read-restrictions\":",
    "{\"metadata\":{\"format-version\":1,",
    "}}}",
];

fn mutation() -> impl Strategy<Value = Mutation> {
    let place = || 0.0..1.0_f64;
    let tokens: [&[u8]; 30] = [
        b"\"",
        b"\\",
        b"{",
        b"}",
        b"[",
        b"]",
        b":",
        b",",
        b" ",
        b"\n",
        b"0",
        b"-",
        b".5",
        b"e1",
        b"\\u0000",
        b"\\ud800",
        b"\\udc00",
        b"\\/",
        b"\x00",
        b"\x1f",
        b"\x7f",
        b"\x80",
        b"\xff",
        b"\xc3\xbc",
        b"\xef\xbb\xbf",
        b"null",
        b"true",
        b"\"id\":1,",
        b"\"read-restrictions\":{},",
        b"\"current-schema-id\":0,",
    ];
    let values =
        ["1", "0", "-1", "-0", "1.0", "1e0", "2147483647", "2147483648", "null", "\"1\"", "[]", "{}", "true"];
    prop_oneof![
        4 => (place(), select(tokens.to_vec())).prop_map(|(at, token)| Mutation::Insert(at, token)),
        2 => (place(), any::<u8>()).prop_map(|(at, byte)| Mutation::Overwrite(at, byte)),
        2 => (place(), 1..40_usize).prop_map(|(at, length)| Mutation::Remove(at, length)),
        2 => (place(), 1..200_usize).prop_map(|(at, length)| Mutation::Repeat(at, length)),
        1 => (place(), place(), 1..80_usize).prop_map(|(at, to, length)| Mutation::Move(at, to, length)),
        3 => (select(NAMES.to_vec()), select(NAMES.to_vec())).prop_map(|(old, new)| Mutation::Rename(old, new)),
        6 => (place(), select(values.to_vec())).prop_map(|(at, value)| Mutation::Revalue(at, value)),
    ]
}

impl Mutation {
    fn apply(&self, body: &mut Vec<u8>) {
        let place = |at: f64| (at * body.len() as f64) as usize;
        let range = |at: f64, length: usize| place(at)..(place(at) + length).min(body.len());
        match *self {
            Self::Insert(at, token) => drop(body.splice(range(at, 0), token.iter().copied())),
            Self::Overwrite(at, byte) => drop(body.splice(range(at, 1), [byte])),
            Self::Remove(at, length) => drop(body.drain(range(at, length))),
            Self::Repeat(at, length) => {
                let copy = body[range(at, length)].to_vec();
                drop(body.splice(range(at, 0), copy));
            }
            Self::Move(at, to, length) => {
                let moved: Vec<u8> = body.drain(range(at, length)).collect();
                let to = (to * body.len() as f64) as usize;
                drop(body.splice(to..to, moved));
            }
            Self::Rename(old, new) => {
                let text = String::from_utf8_lossy(body);
                *body = text.replace(&format!("\"{old}\""), &format!("\"{new}\"")).into_bytes();
            }
            Self::Revalue(at, value) => {
                if let Some(range) = scalar_behind(body, place(at)) {
                    drop(body.splice(range, value.bytes()));
                }
            }
        }
    }
}

/// The first number, word or string behind a colon at or after this place.
fn scalar_behind(body: &[u8], at: usize) -> Option<Range<usize>> {
    let colon = at + body[at..].iter().position(|&byte| byte == b':')?;
    let start = colon + 1 + body[colon + 1..].iter().position(|&byte| byte != b' ')?;
    let end = start + body[start..].iter().position(|byte| b",}]\n".contains(byte))?;
    Some(start..end)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]

    #[test]
    fn mutated_bodies_are_accepted_or_refused_alike(
        seed in select(seeds()),
        mutations in vec(mutation(), 1..3),
    ) {
        let known = LoadResult::read(seed.clone().into()).ok().map(|table| table.known_metadata());
        let mut body = seed.into_bytes();
        for mutation in &mutations {
            mutation.apply(&mut body);
        }
        agree(&body);
        prop_assert!(is_load_result(&body) || !any_reader_sees_one(&body), "{}", String::from_utf8_lossy(&body));
        let body = Bytes::from(body);
        let again = LoadResult::read_knowing(body.clone(), known.as_ref());
        prop_assert_eq!(format!("{again:?}"), format!("{:?}", LoadResult::read(body)));
    }

    #[test]
    fn schemas_that_changed_in_any_way_have_the_history_that_they_tell(
        schemas in vec(vec(field(), 0..5), 1..5),
        current in any::<prop::sample::Index>(),
        version in 1..=3,
    ) {
        let current = current.index(schemas.len());
        let schema = |(id, fields): (usize, &Vec<String>)| {
            format!(r#"{{"fields":[{}],"type":"struct","schema-id":{id}}}"#, fields.join(","))
        };
        let schemas: Vec<_> = schemas.iter().enumerate().map(schema).collect();
        let schemas = format!(r#""current-schema-id":{current},"schemas":[{}]"#, schemas.join(","));
        agree(format!(r#"{{"metadata":{{"format-version":{version},{schemas}}}}}"#).as_bytes());
    }

    #[test]
    fn anything_at_all_is_refused_alike(pieces in vec(select(PIECES.to_vec()), 0..60)) {
        let body = pieces.concat();
        agree(body.as_bytes());
        prop_assert!(is_load_result(body.as_bytes()) || !any_reader_sees_one(body.as_bytes()), "{body}");
    }

    #[test]
    fn generated_json_is_taken_for_json(value in json()) {
        agree_on_value(&value);
        agree_on_value(&bodies::pretty(&value));
        prop_assert!(serde_json::from_str::<IgnoredAny>(&value).is_ok());
    }
}

/// A field of few ids, names and types, so that schemas have many in common; some are spelled differently.
fn field() -> impl Strategy<Value = String> {
    let list = r#"{"type":"list","element-id":ID,"element":"int","element-required":true}"#;
    let kind = prop_oneof![
        4 => select(vec!["\"int\"", "\"long\""]).prop_map(str::to_owned),
        1 => (1..9_i32).prop_map(move |id| list.replace("ID", &id.to_string())),
    ];
    let spelling = prop_oneof![8 => Just(""), 1 => Just(" ")];
    (1..7, select(vec!["a", "b", "c", "d"]), kind, spelling).prop_map(|(id, name, kind, blank)| {
        format!(r#"{{"id":{id},"name":"{name}",{blank}"required":true,"type":{kind}}}"#)
    })
}

/// JSON texts of every kind of value, with what the scanner treats specially.
fn json() -> impl Strategy<Value = String> {
    let text = vec(
        prop_oneof![
            any::<char>().prop_map(|character| serde_json::to_string(&character).unwrap()),
            "[ -~]{1,20}".prop_map(|text| serde_json::to_string(&text).unwrap()),
            r#"\\(["\\/bfnrt]|u[0-9a-fA-F]{4})"#.prop_map(|escape| format!("\"{escape}\"")),
        ],
        0..4,
    );
    let text = text.prop_map(|parts| {
        let inside: String = parts.iter().map(|part| &part[1..part.len() - 1]).collect();
        format!("\"{inside}\"")
    });
    let leaf = prop_oneof![
        text.clone(),
        r"-?(0|[1-9][0-9]{0,30})(\.[0-9]{1,20})?([eE][+-]?[0-9]{1,4})?",
        select(vec!["true", "false", "null", "{}", "[ ]"]).prop_map(str::to_owned),
    ];
    leaf.prop_recursive(6, 60, 6, move |inner| {
        prop_oneof![
            vec(inner.clone(), 0..6).prop_map(|elements| format!("[{}]", elements.join(","))),
            vec((text.clone(), inner), 0..6).prop_map(|members| {
                let members: Vec<_> = members.iter().map(|(name, value)| format!("{name}:{value}")).collect();
                format!("{{{}}}", members.join(","))
            }),
        ]
    })
}
