//! What reading a load result may take from the heap: a few allocations however many columns there are.

#[path = "support/allocations.rs"]
mod allocations;
#[path = "support/bodies.rs"]
mod bodies;

use bytes::Bytes;
use iceberg_read_restrictions::table::LoadResult;

use allocations::count;
use bodies::{MEDIUM, SMALL, Shape, escaped, pretty};

/// A schema of so many columns, none of them nested.
fn flat(columns: usize) -> Bytes {
    let column = |id: usize| format!(r#"{{"id":{id},"name":"column_{id}","required":false,"type":"long"}}"#);
    let columns: Vec<_> = (1..=columns).map(column).collect();
    let schema = format!(r#"{{"type":"struct","schema-id":0,"fields":[{}]}}"#, columns.join(","));
    let metadata =
        format!(r#"{{"format-version":2,"table-uuid":"u","current-schema-id":0,"schemas":[{schema}]}}"#);
    format!(r#"{{"metadata-location":"s3://a","metadata":{metadata}}}"#).into()
}

/// Credentials that stood around metadata that are kept are gone from the buffer, not only out of reach.
#[test]
#[allow(unsafe_code, reason = "no safe code sees what is left around a slice of a buffer")]
fn nothing_is_left_around_metadata_that_stay_in_their_buffer() {
    let padding = "x".repeat(100_000);
    let metadata = format!(
        r#"{{"format-version":1,"schema":{{"type":"struct","fields":[]}},"properties":{{"p":"{padding}"}}}}"#
    );
    for body in [
        format!(r#"{{"config":{{"key":"secret"}},"metadata":{metadata}}}"#),
        format!(r#"{{"metadata":{metadata},"config":{{"key":"secret"}}}}"#),
        format!(r#"{{"read-restrictions":{{}},"metadata":{metadata},"config":{{"key":"secret"}}}}"#),
    ] {
        for member in [None, Some("{}")] {
            let bytes = body.clone().into_bytes();
            let (start, length) = (bytes.as_ptr(), bytes.len());
            let (slices, known) = LoadResult::read(bytes.into()).unwrap().into_slices(member);
            assert_eq!(slices[1].as_ptr().addr() - start.addr(), body.find(&metadata).unwrap(), "in place");
            // SAFETY: `known` keeps the buffer of so many bytes alive, and nobody writes to it any more.
            let left = unsafe { std::slice::from_raw_parts(start, length) };
            assert!(!left.windows(6).any(|window| window == b"secret"));
            assert!(slices.concat().windows(6).any(|window| window == b"secret"));
            assert!(known.size() >= length);
        }
    }
}

#[test]
fn a_first_load_takes_as_many_allocations_at_any_column_count() {
    for columns in [1, 10, 300, 10_000] {
        for body in [flat(columns), escaped(std::str::from_utf8(&flat(columns)).unwrap()).into()] {
            let (table, allocations) = count(|| LoadResult::read(body).unwrap());
            assert_eq!(table.schema().fields().len(), columns);
            assert!(allocations.count <= 9, "{columns} columns: {allocations:?}");
        }
    }
}

#[test]
fn known_metadata_take_no_allocation_but_for_the_location() {
    let body = flat(300);
    let known = LoadResult::read(body.clone()).unwrap().known_metadata();
    let (table, allocations) = count(|| LoadResult::read_knowing(body, Some(&known)));
    assert!(table.is_ok());
    assert!(allocations.count <= 1, "{allocations:?}");
}

#[test]
fn memory_is_for_the_current_schema_alone() {
    for shape in [SMALL, MEDIUM, Shape { snapshots: 5000, ..MEDIUM }] {
        for body in [shape.load_result(), pretty(&shape.load_result())] {
            let body = Bytes::from(body);
            let (_, allocations) = count(|| LoadResult::read(body));
            assert!(allocations.peak < 16 * 1024, "{shape:?}: {allocations:?}");
        }
    }
}

#[test]
fn no_room_is_made_for_columns_that_are_not_there() {
    let fields = vec!["1"; 1_000_000].join(",");
    let schema = format!(r#"{{"type":"struct","schema-id":0,"fields":[{fields}]}}"#);
    let metadata = format!(r#"{{"format-version":2,"current-schema-id":0,"schemas":[{schema}]}}"#);
    let body = Bytes::from(format!(r#"{{"metadata":{metadata}}}"#));
    let length = body.len() as isize;
    let (table, allocations) = count(|| LoadResult::read(body));
    assert!(table.is_err());
    assert!(allocations.peak < 2 * length, "{allocations:?}");
}

#[test]
fn a_splice_takes_no_memory_but_for_the_member() {
    let table = LoadResult::read(MEDIUM.load_result().into()).unwrap();
    let member = r#"{"required-row-filter":false}"#;
    let (_, allocations) = count(|| table.splice(member));
    assert!(allocations.count <= 2, "{allocations:?}");
    assert!(allocations.peak < 256, "{allocations:?}");
}
