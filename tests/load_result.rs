//! What the layer promises to read out of a load result, and what it refuses to read.

use std::{fs, path::Path};

use bytes::Bytes;
use iceberg_read_restrictions::table::{
    Field, LoadResult, LoadResultError, NestedField, PastField, PrimitiveType, Schema, Type, is_load_result,
};

const SCHEMA: &str =
    r#"{"type":"struct","schema-id":0,"fields":[{"id":1,"name":"a","required":true,"type":"long"}]}"#;

fn fixture(number: u32) -> Bytes {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/tables");
    let prefix = format!("{number:02}-");
    let mut files = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let file = files.find(|file| file.file_name().unwrap().to_str().unwrap().starts_with(&prefix)).unwrap();
    fs::read(file).unwrap().into()
}

fn read(body: impl AsRef<[u8]>) -> Result<LoadResult, LoadResultError> {
    LoadResult::read(Bytes::copy_from_slice(body.as_ref()))
}

/// A load result of format version 2 whose metadata hold these members too.
fn with_metadata(members: &str) -> String {
    format!(r#"{{"metadata":{{"format-version":2,{members}}}}}"#)
}

/// A load result whose current schema has this text.
fn with_schema(schema: &str) -> String {
    with_metadata(&format!(r#""current-schema-id":0,"schemas":[{schema}]"#))
}

/// A load result whose only column has this text.
fn with_field(field: &str) -> String {
    with_schema(&format!(r#"{{"type":"struct","schema-id":0,"fields":[{field}]}}"#))
}

/// A load result whose only column is `a` with this type.
fn with_type(r#type: &str) -> String {
    with_field(&format!(r#"{{"id":1,"name":"a","required":false,"type":{type}}}"#))
}

/// A load result that has this member too.
fn with_member(member: &str) -> String {
    with_schema(SCHEMA).replacen('{', &format!("{{{member},"), 1)
}

/// Checks that the body is refused for this reason, at the place where `at` stands in it.
#[track_caller]
fn refused(body: impl AsRef<[u8]>, reason: &str, at: usize) {
    let error = read(&body).expect_err(&String::from_utf8_lossy(body.as_ref()));
    assert_eq!(
        error.to_string(),
        format!("{reason} (byte {at})"),
        "{}",
        String::from_utf8_lossy(body.as_ref())
    );
    assert_eq!(error.offset(), at);
}

/// Checks that the body is refused for this reason, where the last `needle` stands.
#[track_caller]
fn refused_at(body: &str, reason: &str, needle: &str) {
    refused(body, reason, body.rfind(needle).unwrap());
}

fn column_names(schema: &Schema) -> Vec<&str> {
    schema.fields().map(|field| field.name).collect()
}

mod shape {
    use super::*;

    #[test]
    fn a_whole_load_result() {
        let body = fixture(1);
        let table = LoadResult::read(body.clone()).unwrap();
        assert_eq!(table.body(), &body);
        assert_eq!(table.table_uuid(), Some("b55d9dda-6561-423a-8bfc-787980ce421f"));
        assert_eq!(
            table.metadata_location(),
            Some(
                "s3://warehouse/database/table/metadata/00001-5f2f8166-244c-4eae-ac36-384ecdec81fc.gz.metadata.json"
            )
        );
        let metadata = &body[table.metadata()];
        assert!(metadata.starts_with(b"{\n    \"format-version\"") && metadata.ends_with(b"}\n    ]\n  }"));
        assert_eq!(table.schema().id(), Some(0));
        assert_eq!(column_names(table.schema()), ["id", "data"]);
        assert_eq!(table.older_schemas().unwrap(), []);
        assert_eq!(table.read_restrictions(), None);
    }

    #[test]
    fn a_body_that_is_not_an_object() {
        for (body, reason) in [
            ("", "the document breaks off"),
            (" ", "the document breaks off"),
            ("[]", "`load result` is not an object"),
            ("[{}]", "`load result` is not an object"),
            ("null", "`load result` is not an object"),
            ("7", "`load result` is not an object"),
            ("\"{}\"", "`load result` is not an object"),
            ("nonsense", "`load result` is not an object"),
        ] {
            refused(body, reason, body.len() - body.trim_start().len());
        }
    }

    #[test]
    fn a_byte_order_mark() {
        refused(format!("\u{feff}{}", with_schema(SCHEMA)), "`load result` is not an object", 0);
    }

    #[test]
    fn trailing_bytes() {
        let body = with_schema(SCHEMA);
        assert!(read(format!("\t\r\n {body} \n\r\t")).is_ok());
        for tail in ["x", "{}", ",", "\0", "\u{feff}", "\u{a0}", "\u{b}"] {
            refused(format!("{body} {tail}"), "bytes after the end of the document", body.len() + 1);
        }
    }

    #[test]
    fn metadata_that_is_not_an_object() {
        refused("{}", "`metadata` is missing", 0);
        for value in ["null", "[]", "[{}]", "1", "\"{}\""] {
            refused(format!(r#"{{"metadata":{value}}}"#), "`metadata` is not an object", 12);
        }
    }
}

mod text {
    use super::*;

    /// A load result that holds this value where nobody looks.
    fn with_value(value: &str) -> String {
        with_member(&format!(r#""config":{value}"#))
    }

    #[test]
    fn invalid_utf8_is_refused_wherever_it_stands() {
        for (invalid, valid_up_to) in [
            (&b"\xff"[..], 0),
            (b"\xc3", 0),
            (b"ok \xe2\x82", 3),
            (b"\xc0\xaf", 0),
            (b"\xed\xa0\x80", 0),
            (b"\xf4\x90\x80\x80", 0),
            (b"a long run of plain text before \x80", 32),
        ] {
            let body = [&br#"{"config":""#[..], invalid, &br#"","#[..], &with_schema(SCHEMA).as_bytes()[1..]]
                .concat();
            refused(body, "is not UTF-8", 11 + valid_up_to);
        }
        let body = [&b"{\""[..], b"\xff", &br#"":1,"#[..], &with_schema(SCHEMA).as_bytes()[1..]].concat();
        refused(body, "is not UTF-8", 2);
        let body = [&b"{\xff"[..], &with_schema(SCHEMA).as_bytes()[1..]].concat();
        refused(body, "expected `\"`", 1);
    }

    #[test]
    fn valid_utf8_of_every_length() {
        for text in ["ü", "€", "𝄞", "\u{7f}", "\u{10ffff}", "aaaaaaa€", "aaaaaaaa𝄞aaaaaaaaaa"] {
            assert!(read(with_value(&format!("\"{text}\""))).is_ok(), "{text}");
        }
    }

    #[test]
    fn lone_surrogates_and_huge_numbers_in_skipped_values_are_accepted() {
        for value in [
            r#""\ud800""#.to_owned(),
            r#""\udc00\ud800""#.to_owned(),
            r#"{"\udfff":"\ud800x"}"#.to_owned(),
            "9".repeat(400),
            format!("-{}.{}e+{}", "1".repeat(400), "2".repeat(400), "3".repeat(400)),
            "1e999".to_owned(),
            "-0.0E-0".to_owned(),
        ] {
            assert!(read(with_value(&value)).is_ok(), "{value}");
        }
    }

    #[test]
    fn what_is_no_json_is_refused_wherever_it_stands() {
        for (value, reason, at) in [
            ("", "expected a value", 0),
            ("nul", "expected a value", 0),
            ("TRUE", "expected a value", 0),
            ("NaN", "expected a value", 0),
            ("Infinity", "expected a value", 0),
            ("'a'", "expected a value", 0),
            ("+1", "expected a value", 0),
            (".5", "expected a value", 0),
            ("/*c*/1", "expected a value", 0),
            ("-", "expected a digit", 1),
            ("-x", "expected a digit", 1),
            ("1.", "expected a digit", 2),
            ("1.e5", "expected a digit", 2),
            ("1e", "expected a digit", 2),
            ("1e+", "expected a digit", 3),
            ("01", "expected `,` or `}`", 1),
            ("-01", "expected `,` or `}`", 2),
            ("0x1", "expected `,` or `}`", 1),
            ("1f", "expected `,` or `}`", 1),
            ("truefalse", "expected `,` or `}`", 4),
            ("\"\u{1f}\"", "a control character in a string", 1),
            ("\"0123456\n\"", "a control character in a string", 8),
            ("\"01234567\t\"", "a control character in a string", 9),
            (r#""\x41""#, "an unknown escape", 1),
            (r#""\u12g4""#, "an unknown escape", 1),
            (r#""\u+123""#, "an unknown escape", 1),
            (r#""\U0041""#, "an unknown escape", 1),
            ("[1,]", "expected a value", 3),
            ("[,1]", "expected a value", 1),
            ("[1 2]", "expected `,` or `]`", 3),
            ("[1}", "expected `,` or `]`", 2),
            (r#"{"a":1,}"#, "expected `\"`", 7),
            (r#"{"a" 1}"#, "expected `:`", 5),
            (r#"{"a"}"#, "expected `:`", 4),
            (r#"{"a":}"#, "expected a value", 5),
            (r#"{a:1}"#, "expected `\"`", 1),
            (r#"{1:1}"#, "expected `\"`", 1),
            (r#"{"a":1]"#, "expected `,` or `}`", 6),
            (r#"{"a":1 "b":2}"#, "expected `,` or `}`", 7),
            ("\u{a0}1", "expected a value", 0),
            ("\0", "expected a value", 0),
        ] {
            refused(with_value(value), reason, r#"{"config":"#.len() + at);
        }
    }

    #[test]
    fn a_body_that_breaks_off_at_any_byte() {
        let body = fixture(1);
        for end in 0..body.len() {
            assert!(LoadResult::read(body.slice(..end)).is_err(), "{end}");
        }
    }

    #[test]
    fn nesting_up_to_127_and_no_further() {
        for (open, close) in [("[", "]"), (r#"{"a":"#, "}"), (r#"[{"a":"#, "}]")] {
            let levels = open.len().min(2) - usize::from(open.len() == 5);
            let nested =
                |depth: usize| format!("{}1{}", open.repeat(depth / levels), close.repeat(depth / levels));
            // The body is one level, and with metadata two.
            assert!(read(with_value(&nested(126))).is_ok(), "{open}");
            assert!(read(with_value(&nested(126 + levels))).is_err(), "{open}");
            let in_metadata = |depth| {
                with_metadata(&format!(r#""x":{},"current-schema-id":0,"schemas":[{SCHEMA}]"#, nested(depth)))
            };
            assert!(read(in_metadata(124)).is_ok(), "{open}");
            assert!(read(in_metadata(126)).is_err(), "{open}");
        }
        refused(with_value(&"[".repeat(127)), "nested more than 127 deep", 10 + 126);
        refused(with_value(&"[".repeat(1_000_000)), "nested more than 127 deep", 10 + 126);
    }

    #[test]
    fn types_nested_up_to_the_bound() {
        let lists = |depth: usize| {
            let mut r#type = r#""int""#.to_owned();
            for id in 0..depth {
                r#type = format!(
                    r#"{{"type":"list","element-id":{},"element-required":true,"element":{type}}}"#,
                    id + 2
                );
            }
            with_type(&r#type)
        };
        // Body, metadata, schemas, schema, fields and field are six levels.
        assert!(read(lists(121)).is_ok());
        assert_eq!(
            read(lists(122)).unwrap_err().to_string().split(" (").next(),
            Some("nested more than 127 deep")
        );
    }
}

mod repeated {
    use super::*;

    #[test]
    fn members_of_interest_at_the_top() {
        for (member, value) in [
            ("metadata-location", r#""s3://a""#),
            ("metadata-location", "null"),
            ("read-restrictions", "{}"),
            ("read-restrictions", "null"),
        ] {
            assert!(read(with_member(&format!(r#""{member}":{value}"#))).is_ok());
            let body = with_member(&format!(r#""{member}":{value},"x":1,"{member}":{value}"#));
            refused(&body, &format!("`{member}` is repeated"), body.rfind(member).unwrap());
        }
        let body = with_schema(SCHEMA);
        let metadata = &body[1..body.len() - 1];
        let body = format!("{{{metadata},{metadata}}}");
        refused(&body, "`metadata` is repeated", body.rfind("metadata").unwrap());
    }

    #[test]
    fn members_of_interest_in_the_metadata() {
        for member in [
            r#""format-version":2"#.to_owned(),
            r#""table-uuid":"u""#.to_owned(),
            r#""table-uuid":null"#.to_owned(),
            r#""current-schema-id":0"#.to_owned(),
            format!(r#""schemas":[{SCHEMA}]"#),
            format!(r#""schema":{SCHEMA}"#),
        ] {
            let name = member.split('"').nth(1).unwrap();
            let body = format!(
                r#"{{"metadata":{{"format-version":2,"table-uuid":"u","current-schema-id":0,"schemas":[{SCHEMA}],"schema":{SCHEMA},{member}}}}}"#
            );
            let at = body.len() - member.len() - 1;
            refused(&body, &format!("`{name}` is repeated"), at);
        }
    }

    #[test]
    fn members_of_interest_in_a_schema() {
        let twice = |member: &str| SCHEMA.replacen('{', &format!("{{{member},"), 1);
        for member in [r#""schema-id":0"#, r#""type":"struct""#, r#""fields":[]"#] {
            let name = member.split('"').nth(1).unwrap();
            let error = read(with_schema(&twice(member))).unwrap_err();
            assert!(error.to_string().starts_with(&format!("`{name}` is repeated")), "{error}");
        }
        // Also in a schema that is not the current one.
        let older = twice(r#""schema-id":1"#);
        let error = read(with_schema(&format!("{SCHEMA},{older}"))).unwrap_err();
        assert!(error.to_string().starts_with("`schema-id` is repeated"), "{error}");
    }

    #[test]
    fn members_of_interest_in_a_field() {
        for member in [r#""id":1"#, r#""name":"a""#, r#""required":true"#, r#""type":"int""#] {
            let name = member.split('"').nth(1).unwrap();
            let body = with_field(&format!(r#"{{"id":1,"name":"a","required":true,"type":"int",{member}}}"#));
            refused_at(&body, &format!("`{name}` is repeated"), name);
        }
    }

    #[test]
    fn members_of_interest_in_a_nested_type() {
        let list = r#""type":"list","element-id":2,"element":"int","element-required":true"#;
        let map = r#""type":"map","key-id":2,"key":"int","value-id":3,"value":"int","value-required":true"#;
        let r#struct = r#""type":"struct","fields":[{"id":2,"name":"b","required":true,"type":"int"}]"#;
        assert!(
            [list, map, r#struct].iter().all(|members| read(with_type(&format!("{{{members}}}"))).is_ok())
        );
        for (members, member) in [
            (list, r#""type":"list""#),
            (list, r#""element-id":3"#),
            (list, r#""element":"int""#),
            (list, r#""element-required":true"#),
            (map, r#""key-id":4"#),
            (map, r#""key":"int""#),
            (map, r#""value-id":4"#),
            (map, r#""value":"int""#),
            (map, r#""value-required":true"#),
            (r#struct, r#""fields":[]"#),
        ] {
            let name = member.split('"').nth(1).unwrap();
            let body = with_type(&format!("{{{members},{member}}}"));
            refused_at(&body, &format!("`{name}` is repeated"), &member[1..]);
        }
    }

    #[test]
    fn also_when_written_with_escapes() {
        for spelling in [
            r"read\u002drestrictions",
            r"\u0072ead-restrictions",
            r"read-restriction\u0073",
            r"\u0072\u0065\u0061\u0064\u002D\u0072\u0065\u0073\u0074\u0072\u0069\u0063\u0074\u0069\u006f\u006e\u0073",
        ] {
            let body = with_member(&format!(r#""read-restrictions":{{}},"{spelling}":{{}}"#));
            refused(&body, "`read-restrictions` is repeated", body.find(spelling).unwrap());
            let table = read(with_member(&format!(r#""{spelling}":{{"a":1}}"#))).unwrap();
            assert_eq!(table.read_restrictions(), Some(r#"{"a":1}"#));
        }
        let escaped = |member: &str| {
            let name = member.split('"').nth(1).unwrap();
            member.replacen(name, &format!(r"\u{:04x}{}", name.as_bytes()[0], &name[1..]), 1)
        };
        for member in
            [r#""format-version":2"#, r#""table-uuid":"u""#, r#""current-schema-id":0"#, r#""schemas":[]"#]
        {
            let body = with_metadata(&format!(
                r#""table-uuid":"u","current-schema-id":0,"schemas":[{SCHEMA}],{}"#,
                escaped(member)
            ));
            refused_at(&body, &format!("`{}` is repeated", member.split('"').nth(1).unwrap()), r"\u00");
        }
        for member in [r#""id":1"#, r#""name":"a""#, r#""required":true"#, r#""type":"int""#] {
            let body = with_field(&format!(
                r#"{{"id":1,"name":"a","required":true,"type":"int",{}}}"#,
                escaped(member)
            ));
            refused_at(&body, &format!("`{}` is repeated", member.split('"').nth(1).unwrap()), r"\u00");
        }
    }

    #[test]
    fn names_that_only_look_alike_are_other_members() {
        for name in [
            r"read\u2010restrictions",
            r"read\\u002drestrictions",
            r"read-restrictions\u0000",
            r"read-restrictions\ud800",
            r"read-restrictions ",
            "Read-Restrictions",
            r"\/read-restrictions",
            r"\u0072\u0065\u0061\u0064\u002d\u0072\u0065\u0073\u0074\u0072\u0069\u0063\u0074\u0069\u006f\u006e\u0073 and more",
        ] {
            let table = read(with_member(&format!(r#""read-restrictions":1,"{name}":2"#))).unwrap();
            assert_eq!(table.read_restrictions(), Some("1"), "{name}");
        }
    }

    #[test]
    fn other_members_may_be_repeated() {
        assert!(read(with_member(r#""config":{},"config":{}"#)).is_ok());
        assert!(
            read(with_metadata(&format!(r#""x":1,"x":2,"current-schema-id":0,"schemas":[{SCHEMA}]"#)))
                .is_ok()
        );
    }

    #[test]
    fn schema_ids() {
        let body = with_schema(&format!("{SCHEMA},{SCHEMA}"));
        refused(&body, "`schema-id` is that of another schema", body.rfind(SCHEMA).unwrap());
        // Even if the repeated one is not current.
        let other = SCHEMA.replace(r#""schema-id":0"#, r#""schema-id":7"#);
        let body = with_schema(&format!("{other},{SCHEMA},{other}"));
        refused(&body, "`schema-id` is that of another schema", body.rfind(&other).unwrap());
    }
}

mod current_schema {
    use super::*;

    fn schema(id: i32, column: &str) -> String {
        format!(
            r#"{{"schema-id":{id},"type":"struct","fields":[{{"id":1,"name":"{column}","required":true,"type":"long"}}]}}"#
        )
    }

    fn v1(members: &str) -> String {
        format!(r#"{{"metadata":{{"format-version":1,{members}}}}}"#)
    }

    #[test]
    fn may_be_named_before_or_after_the_list() {
        let schemas = format!(r#""schemas":[{},{},{}]"#, schema(3, "a"), schema(1, "b"), schema(2, "c"));
        for members in [
            format!(r#""current-schema-id":1,{schemas}"#),
            format!(r#"{schemas},"current-schema-id":1"#),
            format!(r#""snapshots":[{{"schema-id":3}}],{schemas},"snapshot-log":[],"current-schema-id":1"#),
        ] {
            let table = read(with_metadata(&members)).unwrap();
            assert_eq!((table.schema().id(), column_names(table.schema())), (Some(1), vec!["b"]));
            let older = table.older_schemas().unwrap();
            assert_eq!(older.iter().map(Schema::id).collect::<Vec<_>>(), [Some(3), Some(2)]);
            assert_eq!(older.iter().flat_map(column_names).collect::<Vec<_>>(), ["a", "c"]);
        }
    }

    #[test]
    fn format_version_may_come_last() {
        let body =
            format!(r#"{{"metadata":{{"schemas":[{SCHEMA}],"current-schema-id":0,"format-version":2}}}}"#);
        assert!(read(body).is_ok());
    }

    #[test]
    fn is_missing() {
        let body = String::from_utf8(fixture_as_load_result(8)).unwrap();
        refused(&body, "`current-schema-id` names no schema", body.find("current-schema-id").unwrap());
        for id in [0, -1] {
            let body = with_metadata(&format!(r#""current-schema-id":{id},"schemas":[]"#));
            refused_at(&body, "`current-schema-id` names no schema", "current-schema-id");
        }
        refused(with_metadata(r#""current-schema-id":0"#), "`schemas` is missing", 12);
        refused(with_metadata(&format!(r#""schemas":[{SCHEMA}]"#)), "`current-schema-id` is missing", 12);
    }

    #[test]
    fn only_format_version_1_may_do_without_the_list() {
        for version in [2, 3, 4] {
            let body = format!(r#"{{"metadata":{{"format-version":{version},"schema":{SCHEMA}}}}}"#);
            refused(body, "`schemas` is missing", 12);
            let body = format!(
                r#"{{"metadata":{{"format-version":{version},"schema":{SCHEMA},"schemas":[{SCHEMA}]}}}}"#
            );
            refused(body, "`current-schema-id` is missing", 12);
        }
    }

    #[test]
    fn current_schema_id_is_a_plain_integer_or_nothing() {
        for id in [
            "0.0",
            "0e0",
            "0E+0",
            "-0",
            "\"0\"",
            "null",
            "true",
            "[0]",
            "{}",
            "2147483648",
            "1e999",
            "99999999999999999999",
        ] {
            let body = with_metadata(&format!(r#""current-schema-id":{id},"schemas":[{SCHEMA}]"#));
            refused_at(&body, "`current-schema-id` is not a plain integer", &format!("{id},\"schemas"));
        }
    }

    #[test]
    fn schema_id_is_a_plain_integer_and_there_since_format_version_2() {
        for id in ["0.0", "\"0\"", "null", "2147483648"] {
            let body = with_schema(&SCHEMA.replace(r#""schema-id":0"#, &format!(r#""schema-id":{id}"#)));
            refused_at(&body, "`schema-id` is not a plain integer", &format!("{id},\"fields"));
        }
        let nameless = SCHEMA.replace(r#""schema-id":0,"#, "");
        let body = with_schema(&format!("{SCHEMA},{nameless}"));
        refused(&body, "`schema-id` is missing", body.rfind(&nameless).unwrap());
        // Without an id it is schema 0 to Iceberg's readers, which makes it the same as another 0.
        assert!(read(v1(&format!(r#""current-schema-id":0,"schemas":[{nameless}]"#))).is_ok());
        let body = v1(&format!(r#""current-schema-id":0,"schemas":[{nameless},{SCHEMA}]"#));
        refused(&body, "`schema-id` is that of another schema", body.rfind(SCHEMA).unwrap());
    }

    #[test]
    fn format_version_is_a_plain_positive_integer() {
        let body = |version: &str| {
            format!(
                r#"{{"metadata":{{"format-version":{version},"current-schema-id":0,"schemas":[{SCHEMA}]}}}}"#
            )
        };
        assert!(["1", "2", "3", "4", "2147483647"].iter().all(|version| read(body(version)).is_ok()));
        for version in ["2.0", "\"2\"", "null", "2e0", "[2]"] {
            refused(body(version), "`format-version` is not a plain integer", 30);
        }
        for version in ["0", "-1"] {
            refused(body(version), "`format-version` is less than 1", 14);
        }
        refused(r#"{"metadata":{}}"#, "`format-version` is missing", 12);
    }

    #[test]
    fn format_version_1_with_only_schema() {
        let table = LoadResult::read_metadata(fixture(4)).unwrap();
        assert_eq!(table.schema().id(), None);
        assert_eq!(column_names(table.schema()), ["x", "y", "z"]);
        assert_eq!(table.older_schemas().unwrap(), []);
        refused(v1(r#""x":1"#), "`schema` is missing", 12);
    }

    #[test]
    fn format_version_1_with_schemas_but_no_current_schema_id() {
        let table = LoadResult::read_metadata(fixture(5)).unwrap();
        assert_eq!(table.schema().id(), None);
        assert_eq!(column_names(table.schema()), ["x", "y", "z"]);
        assert_eq!(table.older_schemas().unwrap(), []);

        let table = read(v1(&format!(
            r#""schemas":[{},{}],"schema":{}"#,
            schema(0, "a"),
            schema(1, "b"),
            schema(1, "b")
        )))
        .unwrap();
        assert_eq!((table.schema().id(), column_names(table.schema())), (Some(1), vec!["b"]));
        let older = table.older_schemas().unwrap();
        assert_eq!(older.iter().map(Schema::id).collect::<Vec<_>>(), [Some(0)]);

        assert!(read(v1(&format!(r#""schemas":[],"schema":{}"#, schema(1, "b")))).is_ok());
        assert!(read(v1(&format!(r#""schemas":[{}],"schema":{}"#, schema(0, "b"), schema(1, "b")))).is_ok());
        refused(v1(&format!(r#""schemas":[{}]"#, schema(0, "a"))), "`schema` is missing", 12);
    }

    #[test]
    fn format_version_1_whose_schema_differs_from_its_entry() {
        let field = |text: &str| format!(r#"{{"schema-id":0,"type":"struct","fields":[{text}]}}"#);
        let entry = field(r#"{"id":1,"name":"a","required":true,"type":"long","doc":"x"}"#);
        let body = |schema: &str| v1(&format!(r#""schemas":[{entry}],"schema":{schema}"#));
        assert!(read(body(&field(r#"{"type":"long","id":1,"required":true,"name":"\u0061"}"#))).is_ok());
        for other in [
            r#"{"id":2,"name":"a","required":true,"type":"long"}"#,
            r#"{"id":1,"name":"A","required":true,"type":"long"}"#,
            r#"{"id":1,"name":"a","required":false,"type":"long"}"#,
            r#"{"id":1,"name":"a","required":true,"type":"int"}"#,
            r#"{"id":1,"name":"a","required":true,"type":"long"},{"id":2,"name":"b","required":true,"type":"long"}"#,
            "",
        ] {
            let body = body(&field(other));
            refused(&body, "`schema` differs from the one in `schemas`", body.rfind(&field(other)).unwrap());
        }
        // Among several, the one with its id counts; none with its id is no better than a different one.
        let several = |schema: &str| {
            v1(&format!(r#""schemas":[{},{}],"schema":{schema}"#, self::schema(0, "a"), self::schema(1, "b")))
        };
        refused_at(&several(&schema(1, "a")), "`schema` differs from the one in `schemas`", &schema(1, "a"));
        refused_at(&several(&schema(2, "a")), "`schema` is not in `schemas`", &schema(2, "a"));
    }

    #[test]
    fn format_version_1_whose_current_schema_id_is_not_that_of_schema() {
        assert!(read(v1(&format!(r#""current-schema-id":1,"schema":{}"#, schema(1, "a")))).is_ok());
        let body = v1(&format!(r#""current-schema-id":2,"schema":{}"#, schema(1, "a")));
        refused_at(&body, "`schema` is not the one that `current-schema-id` names", &schema(1, "a"));
    }

    #[test]
    fn a_deprecated_schema_that_says_something_else_is_one_of_the_older() {
        let body = v1(&format!(
            r#""current-schema-id":1,"schemas":[{},{}],"schema":{}"#,
            schema(0, "a"),
            schema(1, "b"),
            schema(1, "c")
        ));
        let table = read(body).unwrap();
        assert_eq!(column_names(table.schema()), ["b"]);
        let older = table.older_schemas().unwrap();
        assert_eq!(older.iter().flat_map(column_names).collect::<Vec<_>>(), ["c", "a"]);
    }

    #[test]
    fn older_schemas_are_read_on_demand_and_as_strictly() {
        let broken = r#"{"schema-id":1,"type":"struct","fields":[{"id":1}]}"#;
        let body = with_schema(&format!("{SCHEMA},{broken}"));
        let table = read(&body).unwrap();
        let error = table.older_schemas().unwrap_err();
        assert_eq!(
            error.to_string(),
            format!("`name` is missing (byte {})", body.find(r#"{"id":1}"#).unwrap())
        );
    }
}

mod schema {
    use super::*;

    fn only_type(body: &str) -> Type {
        let table = read(body).unwrap_or_else(|error| panic!("{error}: {body}"));
        table.schema().fields().next().unwrap().r#type.clone()
    }

    fn nested(id: i32, name: &str, r#type: PrimitiveType, required: bool) -> NestedField {
        NestedField { id, name: name.into(), r#type: Type::Primitive(r#type), required }
    }

    #[test]
    fn fields_in_any_order_of_members() {
        let table = read(with_field(
            r#"{"doc":"x","type":"decimal(9,2)","required":true,"name":"a","initial-default":null,"id":2147483647}, {"name":"","id":0,"type":"int","required":false}"#,
        ))
        .unwrap();
        let decimal = Type::Primitive(PrimitiveType::Decimal { precision: 9, scale: 2 });
        let int = Type::Primitive(PrimitiveType::Int);
        assert_eq!(
            table.schema().fields().collect::<Vec<_>>(),
            [
                Field { id: i32::MAX, name: "a", r#type: &decimal, required: true },
                Field { id: 0, name: "", r#type: &int, required: false },
            ]
        );
    }

    #[test]
    fn names_are_decoded() {
        for (written, name) in [
            (r"\u0061", "a"),
            (r#"a\"b\\c\/d"#, "a\"b\\c/d"),
            (r"\b\f\n\r\t", "\u{8}\u{c}\n\r\t"),
            (r"\u00fc\u20AC", "ü€"),
            (r"\ud834\udd1e\uDBFF\uDFFF", "𝄞\u{10ffff}"),
            ("ü€𝄞", "ü€𝄞"),
            (r"a.b\u0000", "a.b\0"),
        ] {
            let table = read(with_field(&format!(
                r#"{{"id":1,"name":"{written}","required":true,"type":"\u0069nt"}}"#
            )))
            .unwrap();
            assert_eq!(column_names(table.schema()), [name]);
            assert_eq!(*table.schema().fields().next().unwrap().r#type, Type::Primitive(PrimitiveType::Int));
        }
    }

    #[test]
    fn names_with_lone_surrogates() {
        for name in
            [r"\ud800", r"a\udc00", r"\ud800\u0041", r"\ud800\ud800", r"\udc00\ud800", r"\ud800x\udc00"]
        {
            let body = with_field(&format!(r#"{{"id":1,"name":"{name}","required":true,"type":"int"}}"#));
            refused_at(&body, "`name` holds a lone surrogate", name);
        }
    }

    #[test]
    fn a_type_of_struct() {
        let missing = String::from_utf8(fixture_as_load_result(6)).unwrap();
        refused(&missing, "`type` is missing", missing.find(r#""schema": {"#).unwrap() + 10);
        for (kind, reason) in [
            (r#""list""#, "`type` of a schema is not `struct`"),
            (r#""Struct""#, "`type` of a schema is not `struct`"),
            ("null", "`type` is not a string"),
            ("{}", "`type` is not a string"),
        ] {
            let body = with_schema(&format!(r#"{{"schema-id":0,"fields":[],"type":{kind}}}"#));
            let at = body.rfind(kind).unwrap() + usize::from(kind.starts_with('"'));
            refused(&body, reason, at);
        }
        refused_at(
            &with_schema(r#"{"schema-id":0,"type":"struct"}"#),
            "`fields` is missing",
            r#"{"schema-id"#,
        );
        for fields in ["null", "{}", "\"\""] {
            let body = with_schema(&format!(r#"{{"schema-id":0,"type":"struct","fields":{fields}}}"#));
            refused(&body, "`fields` is not an array", body.len() - 4 - fields.len());
        }
    }

    #[test]
    fn field_ids() {
        for id in ["1.0", "1e0", "\"1\"", "null", "-0", "2147483648", "[1]", "true"] {
            let body = with_field(&format!(r#"{{"id":{id},"name":"a","required":true,"type":"int"}}"#));
            refused_at(&body, "`id` is not a plain integer", &format!("{id},\"name"));
        }
        refused_at(
            &with_field(r#"{"id":-1,"name":"a","required":true,"type":"int"}"#),
            "`id` is negative",
            "-1",
        );
        refused_at(
            &with_field(r#"{"name":"a","required":true,"type":"int"}"#),
            "`id` is missing",
            r#"{"name"#,
        );
        for field in ["null", "1", "[]", "\"a\""] {
            refused_at(&with_field(field), "`fields` is not an object", &format!("{field}]"));
        }
    }

    #[test]
    fn field_ids_are_unique_in_the_schema() {
        let body = with_field(
            r#"{"id":1,"name":"a","required":true,"type":"int"},{"id":2,"name":"b","required":true,"type":"int"},{"id":1,"name":"c","required":true,"type":"int"}"#,
        );
        refused_at(&body, "`id` is that of another field", r#"1,"name":"c""#);
        // Nested fields are fields of the schema too.
        let body = with_type(r#"{"type":"list","element-id":1,"element":"int","element-required":true}"#);
        refused_at(&body, "`id` is that of another field", r#"1,"element""#);
    }

    #[test]
    fn the_other_members_of_a_field() {
        for (field, reason, at) in [
            (r#"{"id":1,"required":true,"type":"int"}"#, "`name` is missing", "{\"id"),
            (r#"{"id":1,"name":"a","type":"int"}"#, "`required` is missing", "{\"id"),
            (r#"{"id":1,"name":"a","required":true}"#, "`type` is missing", "{\"id"),
            (r#"{"id":1,"name":null,"required":true,"type":"int"}"#, "`name` is not a string", "null"),
            (r#"{"id":1,"name":7,"required":true,"type":"int"}"#, "`name` is not a string", "7"),
            (
                r#"{"id":1,"name":"a","required":"true","type":"int"}"#,
                "`required` is not a boolean",
                "\"true",
            ),
            (r#"{"id":1,"name":"a","required":null,"type":"int"}"#, "`required` is not a boolean", "null"),
            (r#"{"id":1,"name":"a","required":1,"type":"int"}"#, "`required` is not a boolean", "1,\"type"),
            (r#"{"id":1,"name":"a","required":true,"type":null}"#, "`type` is not an object", "null"),
            (r#"{"id":1,"name":"a","required":true,"type":["int"]}"#, "`type` is not an object", "[\"int"),
        ] {
            refused_at(&with_field(field), reason, at);
        }
    }

    #[test]
    fn two_columns_of_one_name_are_for_binding_to_refuse() {
        let table = read(with_field(
            r#"{"id":1,"name":"a","required":true,"type":"int"},{"id":2,"name":"a","required":true,"type":"int"}"#,
        ))
        .unwrap();
        assert_eq!(table.schema().fields_by_name("a").count(), 2);
    }

    #[test]
    fn nested_types_in_any_order_of_members() {
        let list = r#"{"element-required":false,"element":"int","type":"list","element-id":7}"#;
        assert_eq!(
            only_type(&with_type(list)),
            Type::List(nested(7, "element", PrimitiveType::Int, false).into())
        );
        let map =
            r#"{"value-required":true,"value":"string","key":"uuid","value-id":0,"key-id":6,"type":"map"}"#;
        assert_eq!(
            only_type(&with_type(map)),
            Type::Map(
                nested(6, "key", PrimitiveType::Uuid, true).into(),
                nested(0, "value", PrimitiveType::String, true).into()
            )
        );
        let r#struct =
            r#"{"fields":[{"id":5,"name":"\u0062","required":false,"type":"date"}],"type":"\u0073truct"}"#;
        assert_eq!(
            only_type(&with_type(r#struct)),
            Type::Struct([nested(5, "b", PrimitiveType::Date, false)].into())
        );
        assert_eq!(only_type(&with_type(r#"{"type":"struct","fields":[]}"#)), Type::Struct([].into()));
    }

    #[test]
    fn nested_types_that_cannot_be_understood() {
        for (r#type, reason, at) in [
            (r#"{}"#, "`type` is missing", "{}"),
            (r#"{"type":"int"}"#, "`type` is no `struct`, `list` or `map`", "int"),
            (r#"{"type":"set","element-id":2}"#, "`type` is no `struct`, `list` or `map`", "set"),
            (r#"{"type":7}"#, "`type` is not a string", "7"),
            (r#"{"type":"struct"}"#, "`fields` is missing", "{\"type\":\"struct"),
            (r#"{"type":"struct","fields":[{"id":2}]}"#, "`name` is missing", "{\"id\":2"),
            (r#"{"type":"list","element":"int","element-required":true}"#, "`element` has no id", "{\"type"),
            (r#"{"type":"list","element-id":2,"element-required":true}"#, "`element` is missing", "{\"type"),
            (
                r#"{"type":"list","element-id":2,"element":"int"}"#,
                "`element` is neither required nor optional",
                "{\"type",
            ),
            (
                r#"{"type":"list","element-id":-2,"element":"int","element-required":true}"#,
                "`element-id` is negative",
                "-2",
            ),
            (r#"{"type":"list","element-id":2,"element":null}"#, "`element` is not an object", "null"),
            (
                r#"{"type":"list","element-id":2,"element-required":"no"}"#,
                "`element-required` is not a boolean",
                "\"no",
            ),
            (
                r#"{"type":"map","key":"int","value-id":3,"value":"int","value-required":true}"#,
                "`key` has no id",
                "{\"type",
            ),
            (
                r#"{"type":"map","key-id":2,"value-id":3,"value":"int","value-required":true}"#,
                "`key` is missing",
                "{\"type",
            ),
            (
                r#"{"type":"map","key-id":2,"key":"int","value":"int","value-required":true}"#,
                "`value` has no id",
                "{\"type",
            ),
            (
                r#"{"type":"map","key-id":2,"key":"int","value-id":3,"value-required":true}"#,
                "`value` is missing",
                "{\"type",
            ),
            (
                r#"{"type":"map","key-id":2,"key":"int","value-id":3,"value":"int"}"#,
                "`value` is neither required nor optional",
                "{\"type",
            ),
        ] {
            refused_at(&with_type(r#type), reason, at);
        }
    }

    #[test]
    fn spellings_of_types_that_are_not_known_stay_as_they_are() {
        let r#type = only_type(&with_type(r#""interval""#));
        assert_eq!(r#type, Type::Primitive(PrimitiveType::Unrecognized("interval".into())));
    }
}

mod facts {
    use super::*;

    #[test]
    fn table_uuid() {
        let uuid = |text: &str| {
            read(with_metadata(&format!(r#""table-uuid":{text},"current-schema-id":0,"schemas":[{SCHEMA}]"#)))
        };
        assert_eq!(uuid(r#""a\u002db""#).unwrap().table_uuid(), Some("a-b"));
        assert_eq!(uuid("null").unwrap().table_uuid(), None);
        assert_eq!(read(with_schema(SCHEMA)).unwrap().table_uuid(), None);
        for wrong in ["1", "[]", "{}", "true"] {
            assert!(
                uuid(wrong).unwrap_err().to_string().starts_with("`table-uuid` is not a string"),
                "{wrong}"
            );
        }
        assert!(
            uuid(r#""\ud800""#).unwrap_err().to_string().starts_with("`table-uuid` holds a lone surrogate")
        );
    }

    #[test]
    fn metadata_location() {
        let location = |text: &str| read(with_member(&format!(r#""metadata-location":{text}"#)));
        assert_eq!(location(r#""s3:\/\/b\/\u00fc""#).unwrap().metadata_location(), Some("s3://b/ü"));
        assert_eq!(location("null").unwrap().metadata_location(), None);
        assert_eq!(read(with_schema(SCHEMA)).unwrap().metadata_location(), None);
        for wrong in ["1", "[]", "{}", "false"] {
            refused(
                with_member(&format!(r#""metadata-location":{wrong}"#)),
                "`metadata-location` is not a string",
                21,
            );
        }
    }

    #[test]
    fn read_restrictions_are_given_as_they_are_written() {
        for value in ["null", "{}", r#"{ "required-row-filter" : false }"#, "[1, 2]", "\"ü\"", "1E5", "-0.0"]
        {
            let table = read(with_member(&format!("\"read-restrictions\" : \n{value}\t"))).unwrap();
            assert_eq!(table.read_restrictions(), Some(value));
        }
        // One that is not at the top is somebody else's.
        let elsewhere = format!(r#""read-restrictions":1,"current-schema-id":0,"schemas":[{SCHEMA}]"#);
        assert_eq!(read(with_metadata(&elsewhere)).unwrap().read_restrictions(), None);
    }
}

mod splice {
    use super::*;

    const MEMBER: &str = r#"{"required-row-filter":false}"#;

    fn spliced(body: &str) -> String {
        let parts = read(body).unwrap().splice(MEMBER);
        String::from_utf8(parts.concat()).unwrap()
    }

    #[test]
    fn puts_a_new_member_first() {
        let body = with_schema(SCHEMA);
        assert_eq!(spliced(&body), format!(r#"{{"read-restrictions":{MEMBER},{}"#, &body[1..]));
    }

    #[test]
    fn keeps_white_space_around_the_brace() {
        let body = format!("\n {{\r\n\t {} ", &with_schema(SCHEMA)[1..]);
        assert_eq!(spliced(&body), format!("\n {{\"read-restrictions\":{MEMBER},{}", &body[3..]));
    }

    #[test]
    fn replaces_the_member_that_is_there() {
        for old in ["null", "{}", r#"{"required-row-filter":true}"#] {
            let body = with_member(&format!("\"x\":1,\"read\\u002drestrictions\" : {old} "));
            let expected = with_member(&format!("\"x\":1,\"read\\u002drestrictions\" : {MEMBER} "));
            assert_eq!(spliced(&body), expected);
        }
    }

    #[test]
    fn copies_nothing_of_the_body() {
        for body in [with_schema(SCHEMA), with_member(r#""read-restrictions":null"#)] {
            let table = read(&body).unwrap();
            let start = table.body().as_ptr();
            let [before, _, after] = table.splice(MEMBER);
            assert_eq!(before.as_ptr(), start);
            assert_eq!(after.as_ptr_range().end, start.wrapping_add(body.len()));
        }
    }

    #[test]
    fn gives_a_load_result_with_the_member_once() {
        for number in 1..=2 {
            let parts = LoadResult::read(fixture(number)).unwrap().splice(MEMBER);
            let again = LoadResult::read(parts.concat().into()).unwrap();
            assert_eq!(again.read_restrictions(), Some(MEMBER));
        }
    }
}

fn fixture_as_load_result(number: u32) -> Vec<u8> {
    [b"{\"metadata\":", &fixture(number)[..], b"}"].concat()
}

/// Reading again what was read before.
mod known {
    use super::*;

    #[test]
    fn the_same_metadata_give_the_same_facts() {
        let known = LoadResult::read(fixture(1)).unwrap().known_metadata();
        assert!(known.size() >= fixture(1).len());
        let text = String::from_utf8(fixture(1).to_vec()).unwrap();
        // New credentials behind, another location before, and the metadata at another place.
        let body = text.replace("us-west-2", "eu-north-1").replacen("00001-5f2f", "00002-ab", 1);
        let table = LoadResult::read_knowing(body.clone().into(), Some(&known)).unwrap();
        assert_eq!(format!("{table:?}"), format!("{:?}", read(&body).unwrap()));
        assert_ne!(table.metadata(), read(&text).unwrap().metadata());
    }

    #[test]
    fn other_metadata_are_read() {
        let known = read(with_schema(SCHEMA)).unwrap().known_metadata();
        for body in [
            with_schema(&SCHEMA.replace("\"a\"", "\"b\"")),
            with_schema(SCHEMA).replace(":2", ": 2"),
            with_metadata(&format!(r#""current-schema-id":0,"schemas":[{SCHEMA}],"x":1"#)),
        ] {
            let table = LoadResult::read_knowing(body.clone().into(), Some(&known)).unwrap();
            assert_eq!(format!("{table:?}"), format!("{:?}", read(&body).unwrap()));
        }
    }

    #[test]
    fn schemas_that_are_the_same_are_not_read_again() {
        let other = SCHEMA.replace("\"schema-id\":0", "\"schema-id\":1");
        let metadata = |id: u32, rest: &str| {
            with_metadata(&format!(r#""current-schema-id":{id},"schemas":[{SCHEMA},{other}]{rest}"#))
        };
        let first = read(metadata(0, "")).unwrap();
        let known = first.known_metadata();
        for (body, same) in [
            (metadata(0, r#","snapshots":[]"#), true),
            (metadata(0, r#","snapshots":[]"#).replace("\"schemas\"", "\"x\":1,\"schemas\""), true),
            (metadata(1, ""), false),
            (metadata(0, "").replace("[{", "[ {"), false),
            (metadata(0, &format!(r#","schema":{SCHEMA}"#)), false),
            (metadata(0, "").replace(":2", ":3"), false),
            (metadata(0, "").replace("\"a\"", "\"b\""), false),
        ] {
            let table = LoadResult::read_knowing(body.clone().into(), Some(&known)).unwrap();
            assert_eq!(table.shares_schemas_with(&first), same, "{body}");
            assert_eq!(format!("{table:?}"), format!("{:?}", read(&body).unwrap()));
            assert_eq!(
                table.older_schemas().unwrap().len(),
                read(&body).unwrap().older_schemas().unwrap().len()
            );
        }
        for wrong in [metadata(2, ""), metadata(0, ",\"schemas\":[]"), metadata(0, "").replace(":2", ":0")] {
            let error = LoadResult::read_knowing(wrong.clone().into(), Some(&known)).unwrap_err();
            assert_eq!(error, read(&wrong).unwrap_err());
        }
    }

    /// What format version 1 says in two places, with one of them gone or come.
    #[test]
    fn a_list_of_schemas_or_a_single_one_that_is_gone_is_not_known() {
        let other = SCHEMA.replace("\"schema-id\":0", "\"schema-id\":1").replace("\"a\"", "\"b\"");
        let metadata = |members: &[&str]| with_metadata(&members.join(",")).replace(":2", ":1");
        let (listed, single) =
            (&*format!(r#""schemas":[{SCHEMA},{other}]"#), &*format!(r#""schema":{other}"#));
        let id = r#""current-schema-id":0"#;
        let twin = &*format!(r#""schema":{SCHEMA}"#);
        for (one, another) in [
            ([&[listed, twin][..], &[twin]], [2, 1]),
            ([&[id, listed, single], &[id, listed]], [3, 2]),
            ([&[id, listed, single], &[id, listed, twin]], [3, 2]),
        ]
        .map(|(bodies, schemas)| (bodies.map(&metadata), schemas))
        .iter()
        .map(|(bodies, schemas)| ((&bodies[0], schemas[0]), (&bodies[1], schemas[1])))
        {
            for ((first, _), (body, schemas)) in [(one, another), (another, one)] {
                let known = read(first).unwrap().known_metadata();
                let table = LoadResult::read_knowing(body.clone().into(), Some(&known)).unwrap();
                assert_eq!(format!("{table:?}"), format!("{:?}", read(body).unwrap()));
                assert_eq!(table.older_schemas().unwrap().len() + 1, schemas, "{body}");
            }
        }
    }

    #[test]
    fn what_is_kept_for_long_holds_no_credentials() {
        let snapshots = format!(r#","snapshots":["{}"]"#, "x".repeat(100_000));
        for (rest, member) in [("", Some("{}")), ("", None), (&*snapshots, Some("{}")), (&snapshots, None)] {
            for around in [
                [r#"{"config":{"key":"secret"},"#, "}"],
                ["{", r#","config":{"key":"secret"}}"#],
                [r#"{"read-restrictions":null,"config":{"key":"secret"},"#, "}"],
                ["{", r#","config":{"key":"secret"},"read-restrictions":null}"#],
            ] {
                let metadata = with_metadata(&format!(r#""current-schema-id":0,"schemas":[{SCHEMA}]{rest}"#));
                let body = [around[0], &metadata[1..metadata.len() - 1], around[1]].concat();
                let spliced = match member {
                    Some(member) => read(&body).unwrap().splice(member).concat(),
                    None => body.clone().into_bytes(),
                };
                let (slices, known) = read(&body).unwrap().into_slices(member);
                assert_eq!(slices.concat().escape_ascii().to_string(), spliced.escape_ascii().to_string());
                assert!(!format!("{known:?}").contains("secret"));
                assert!(known.size() < 2 * metadata.len() + 64, "{}", known.size());
                let again = LoadResult::read_knowing(body.clone().into(), Some(&known)).unwrap();
                assert!(again.has_metadata(&known));
            }
        }
    }

    #[test]
    fn a_long_text_is_not_copied_to_be_kept() {
        let snapshots = format!(r#","snapshots":["{}"]"#, "x".repeat(100_000));
        let body = with_metadata(&format!(r#""current-schema-id":0,"schemas":[{SCHEMA}]{snapshots}"#));
        let start = body.find(":{").unwrap() + 1;
        // Nobody else holds the buffer: all but the metadata is moved out.
        let bytes = Bytes::from(body.clone());
        let place = bytes[start..].as_ptr();
        let ([before, metadata, after], _) = LoadResult::read(bytes).unwrap().into_slices(Some("{}"));
        assert_eq!(metadata.as_ptr(), place);
        assert_eq!(before, [&body[..1], r#""read-restrictions":{},"metadata":"#].concat());
        assert_eq!(after, "}");
        // Somebody does: nothing is moved.
        let bytes = Bytes::from(body.clone());
        let place = bytes[1..].as_ptr();
        let ([before, _, after], _) = LoadResult::read(bytes.clone()).unwrap().into_slices(Some("{}"));
        assert_eq!((&*before, after.as_ptr()), (&b"{"[..], place));
        assert_eq!(bytes, body);
    }

    #[test]
    fn the_rest_is_checked_all_the_same() {
        let body = with_schema(SCHEMA);
        let known = read(&body).unwrap().known_metadata();
        let metadata = &body[1..body.len() - 1];
        for body in [
            format!("{{{metadata}"),
            format!("{{{metadata}}}}}"),
            format!("{{{metadata},{metadata}}}"),
            format!("{{{metadata},\"config\":{{}}"),
            format!("{{{metadata}\"config\":{{}}}}"),
            format!("{{\"read-restrictions\":{{}},{metadata},\"read-restrictions\":{{}}}}"),
        ] {
            let error = LoadResult::read_knowing(body.clone().into(), Some(&known)).unwrap_err();
            assert_eq!(error, read(&body).unwrap_err());
        }
    }
}

/// What the older schemas add to the current one.
mod history {
    use super::*;

    /// Schemas with the ids of their places in the list, each field given as `id name type`; the last is current.
    fn table(schemas: &[&[&str]]) -> LoadResult {
        let field = |field: &&str| {
            let [id, name, kind] = field.splitn(3, ' ').collect::<Vec<_>>()[..] else { panic!("{field}") };
            let kind = if kind.starts_with('{') { kind.to_owned() } else { format!("\"{kind}\"") };
            format!(r#"{{"id":{id},"name":"{name}","required":false,"type":{kind}}}"#)
        };
        let schema = |(id, fields): (usize, &&[&str])| {
            let fields: Vec<_> = fields.iter().map(field).collect();
            format!(r#"{{"type":"struct","schema-id":{id},"fields":[{}]}}"#, fields.join(","))
        };
        let listed: Vec<_> = schemas.iter().enumerate().map(schema).collect();
        let (current, listed) = (schemas.len() - 1, listed.join(","));
        read(with_metadata(&format!(r#""current-schema-id":{current},"schemas":[{listed}]"#))).unwrap()
    }

    fn past(table: &LoadResult) -> Vec<String> {
        let describe = |field: PastField<'_>| {
            let Field { id, name, r#type, .. } = field.latest();
            format!("{id} {name} {type} of {}", field.names().collect::<Vec<_>>().join("/"))
        };
        table.history().unwrap().past_fields().map(describe).collect()
    }

    #[test]
    fn a_field_that_was_dropped_keeps_all_its_names_and_its_last_type() {
        let table = table(&[
            &["1 a int", "2 b int", "9 z int"],
            &["1 a int", "2 c int", "9 z int"],
            &["1 a int", "2 b long"],
            &["1 a int"],
        ]);
        assert_eq!(past(&table), ["2 b long of b/c", "9 z int of z"]);
    }

    #[test]
    fn a_field_that_lives_on_is_not_past() {
        let table = table(&[&["1 a int", "2 b int"], &["2 b long", "1 c int"]]);
        assert_eq!(past(&table), [""; 0]);
        let history = table.history().unwrap();
        assert_eq!(history.former_name("a"), Some(Some(1)), "renamed");
        assert_eq!(history.former_name("b"), None, "current");
        assert_eq!(history.former_name("x"), None, "never heard of");
    }

    #[test]
    fn a_name_of_two_fields_is_that_of_the_one_that_lives_on() {
        let table = table(&[&["1 a int"], &["2 a int"], &["3 a int"], &["2 b int", "3 c int"]]);
        assert_eq!(table.history().unwrap().former_name("a"), Some(Some(2)));
        assert_eq!(past(&table), ["1 a int of a"]);
        // A current field has the name again.
        let table = self::table(&[&["1 a int"], &["2 a int"]]);
        assert_eq!(table.history().unwrap().former_name("a"), None);
        assert_eq!(past(&table), ["1 a int of a"]);
    }

    #[test]
    fn ids_below_the_top_level_are_those_of_any_schema() {
        let list = r#"{"type":"list","element-id":7,"element":"int","element-required":true}"#;
        let older = format!("1 a {list}");
        let newer = format!("1 a {}", list.replace('7', "8"));
        let table = table(&[&[&older], &[&newer]]);
        let history = table.history().unwrap();
        assert_eq!([1, 7, 8, 9].map(|id| history.has_nested_id(id)), [false, true, true, false]);
    }

    #[test]
    fn an_older_schema_that_cannot_be_read_is_an_error_each_time() {
        let broken = SCHEMA.replace("true", "1").replace("\"schema-id\":0", "\"schema-id\":1");
        let table =
            read(with_metadata(&format!(r#""current-schema-id":0,"schemas":[{SCHEMA},{broken}]"#))).unwrap();
        let error = table.older_schemas().unwrap_err();
        assert_eq!(table.history().unwrap_err(), error);
        assert_eq!(table.history().unwrap_err(), error);
    }

    #[test]
    fn it_is_the_same_for_all_who_know_the_schemas() {
        let body = with_schema(SCHEMA);
        let first = read(&body).unwrap();
        let second = LoadResult::read_knowing(body.into(), Some(&first.known_metadata())).unwrap();
        assert!(std::ptr::eq(first.history().unwrap(), second.history().unwrap()));
    }
}

mod recognition {
    use super::*;

    const METADATA: &str = r#"{"format-version":2,"schemas":[]}"#;

    fn is(body: impl AsRef<[u8]>) -> bool {
        is_load_result(body.as_ref())
    }

    #[test]
    fn load_results() {
        assert!(is(fixture(1)) && is(fixture(2)));
        assert!(is(r#"{"metadata":{"format-version":1,"schema":{}}}"#));
        assert!(is(
            r#"{"x":[{"metadata":1}],"metadata":{"y":{"z":[]},"schemas":null,"format-version":"2"}}"#
        ));
    }

    #[test]
    fn a_commit_result_is_one_by_definition() {
        assert!(is(fixture(3)));
    }

    #[test]
    fn answers_of_other_operations() {
        for body in [
            "",
            "null",
            "[]",
            "{}",
            "\"metadata\"",
            r#"{"identifiers":[{"namespace":["a"],"name":"metadata"}]}"#,
            r#"{"namespace":["a"],"properties":{"metadata":"{\"format-version\":2,\"schemas\":[]}"}}"#,
            r#"{"metadata":null,"format-version":2,"schemas":[]}"#,
            r#"{"metadata":[{"format-version":2,"schemas":[]}]}"#,
            r#"{"metadata":{"x":{"format-version":2,"schemas":[]}}}"#,
            r#"{"metadata":{"format-version":2},"schemas":[]}"#,
            r#"{"metadata":{"format-version":2,"x":["schemas","schema"]}}"#,
            r#"{"metadata":{"schemas":[{"format-version":2}]}}"#,
            r#"{"x":{"metadata":{"format-version":2,"schemas":[]}}}"#,
            r#"[{"metadata":{"format-version":2,"schemas":[]}}]"#,
            r#"{"metadata":{"format-version":2}}{"metadata":{"schemas":[]}}"#,
        ] {
            assert!(!is(body), "{body}");
        }
        // A table metadata document by itself, which is what a file server would give.
        assert!((4..=15).all(|number| !is(fixture(number))));
    }

    #[test]
    fn the_bare_metadata_in_a_load_result() {
        assert!((4..=15).all(|number| is(fixture_as_load_result(number))));
    }

    #[test]
    fn sloppy_bodies() {
        for body in [
            format!("\u{feff}{{\"metadata\":{METADATA}}}"),
            format!("{{\"metadata\":{METADATA}}} trailing"),
            format!("{{\"metadata\":{METADATA}"),
            format!("{{}}\n{{\"metadata\":{METADATA}}}"),
            format!("}}]{{\"metadata\":{METADATA}}}"),
            format!("{{\"metadata\":{METADATA},\"metadata\":null}}"),
            format!("{{\"metadata\":null,\"metadata\":{METADATA}}}"),
            format!("{{\"x\":NaN,\"metadata\":{METADATA},}}"),
            format!("{{\"x\":1 \"metadata\" : \n{METADATA}}}"),
            format!("{{\"x\":\"a\nb\\q\",\"metadata\":{METADATA}}}"),
            format!("{{\"x\":01e,\"metadata\":{METADATA}}}"),
            format!("{{\"x\":'\"',\"metadata\":{METADATA}}}"),
            format!("/* \" */{{ // '\n# \"\n\"metadata\":/**/{METADATA}}}"),
            format!("{{\"x\":{}{},\"metadata\":{METADATA}}}", "[".repeat(100_000), "]".repeat(100_000)),
            format!("{{\0\"metadata\":{METADATA}}}"),
            format!("{{x:/a/b,//\r\"metadata\":{METADATA}}}"),
            format!("callback({{\"metadata\":{METADATA}}});"),
            r#"{"metadata":{"format-version":2},"metadata":{"schemas":[]}}"#.to_owned(),
            r#"{"metadata":{"format-version":2,"schema":{"#.to_owned(),
            r#"{"Metadata":{"FORMAT-version":2,"ſchemas":[]}}"#.to_owned(),
            r#"{'metadata':{'format-version':2,'schemas':[]}}"#.to_owned(),
            r#"{metadata:{format-version:2,schemas:[]}}"#.to_owned(),
            r#"{"m\u0065tadata":{"format\u002dversion":2,"\x73chemas":[]}}"#.to_owned(),
            r#"{"m\etadata":{"format\-version":2,"schem\as":[]}}"#.to_owned(),
            r#"{"meta\ud800data":{"format-version":2,"sche\u0000mas":[]}}"#.to_owned(),
        ] {
            assert!(is(&body), "{}", &body[..body.len().min(200)]);
        }
        assert!(is(b"{\"x\":\"\xff\",\"meta\xffdata\":{\"format-version\":2,\"\xe2\x82schemas\":[]}}"));
    }

    #[test]
    fn any_bytes_come_to_an_end() {
        for first in 0..=u8::MAX {
            for second in 0..=u8::MAX {
                assert!(!is([first, second, b'x', first]));
            }
            let body = [&[first, b' '], &br#"{"metadata":{"format-version":2,"schemas":[]}}"#[..]].concat();
            // These open something that the rest is then a part of.
            let hides = [b'[', b'{', b'"', b'\'', b'#'].contains(&first);
            assert_eq!(is(body), !hides, "{first:#x}");
        }
    }

    #[test]
    fn other_unicode_encodings() {
        let body = format!(r#"{{"∢":"≜","metadata":{METADATA}}}"#);
        let encodings: [fn(&str) -> Vec<u8>; 4] = [
            |text| text.encode_utf16().flat_map(u16::to_le_bytes).collect(),
            |text| text.encode_utf16().flat_map(u16::to_be_bytes).collect(),
            |text| text.chars().flat_map(|character| u32::from(character).to_le_bytes()).collect(),
            |text| text.chars().flat_map(|character| u32::from(character).to_be_bytes()).collect(),
        ];
        for encode in encodings {
            assert!(is(encode(&body)));
            assert!(is(encode(&format!("\u{feff}{body}"))));
            assert!(!is(encode("{\"metadata\":{}}")));
        }
    }

    #[test]
    fn hidden_in_strings_and_comments_is_nothing() {
        for body in [
            r#"{"x":"\"},{\"metadata\":{\"format-version\":2,\"schemas\":[]}}"}"#,
            r#"{"x":1 /* ,"metadata":{"format-version":2,"schemas":[]} */}"#,
            r#"{"x":"\\","y":"{\"metadata\":{\"format-version\":2,\"schemas\":[]}}"}"#,
        ] {
            assert!(!is(body), "{body}");
        }
    }
}

/// What each file of `tests/fixtures/tables` is good for, by its README.
mod samples {
    use super::*;

    fn metadata(number: u32) -> LoadResult {
        LoadResult::read_metadata(fixture(number)).unwrap()
    }

    fn columns(schema: &Schema) -> Vec<(i32, &str, String, bool)> {
        schema
            .fields()
            .map(|field| (field.id, field.name, field.r#type.to_string(), field.required))
            .collect()
    }

    #[test]
    fn s02_a_create_result_with_a_required_column() {
        let table = LoadResult::read(fixture(2)).unwrap();
        assert_eq!(
            columns(table.schema()),
            [
                (1, "foo", "string".to_owned(), false),
                (2, "bar", "int".to_owned(), true),
                (3, "baz", "boolean".to_owned(), false)
            ]
        );
    }

    #[test]
    fn s03_a_commit_result_reads_like_a_load_result() {
        // Only the operation tells them apart: `config` is optional in a load result.
        assert_eq!(column_names(LoadResult::read(fixture(3)).unwrap().schema()), ["foo", "bar", "baz"]);
    }

    #[test]
    fn s06_a_schema_without_type() {
        let error = LoadResult::read_metadata(fixture(6)).unwrap_err();
        assert!(error.to_string().starts_with("`type` is missing"), "{error}");
    }

    #[test]
    fn s07_two_schemas() {
        let table = metadata(7);
        assert_eq!(table.schema().id(), Some(1));
        assert_eq!(column_names(table.schema()), ["x", "y", "z"]);
        let older = table.older_schemas().unwrap();
        assert_eq!(older.len(), 1);
        assert_eq!((older[0].id(), column_names(&older[0])), (Some(0), vec!["x"]));
    }

    #[test]
    fn s08_a_current_schema_that_is_not_there() {
        let error = LoadResult::read_metadata(fixture(8)).unwrap_err();
        assert!(error.to_string().starts_with("`current-schema-id` names no schema"), "{error}");
    }

    #[test]
    fn s09_s10_format_version_3() {
        assert_eq!(column_names(metadata(9).schema()), ["x"]);
        assert_eq!(column_names(metadata(10).schema()), ["x", "y", "z"]);
    }

    #[test]
    fn s11_primitive_types_with_defaults() {
        let table = metadata(11);
        let types: Vec<_> = table.schema().fields().map(|field| field.r#type.to_string()).collect();
        assert!(types.len() >= 15);
        assert!(
            !table
                .schema()
                .fields()
                .any(|field| matches!(field.r#type, Type::Primitive(PrimitiveType::Unrecognized(_))))
        );
        assert!(!table.older_schemas().unwrap().is_empty());
    }

    #[test]
    fn s12_names_that_differ_by_case() {
        assert_eq!(
            columns(metadata(12).schema()),
            [(1, "user_id", "long".to_owned(), true), (2, "uSeR_Id", "string".to_owned(), false)]
        );
    }

    #[test]
    fn s13_a_column_dropped_and_added_again() {
        let table = metadata(13);
        let b = |schema: &Schema| schema.fields_by_name("b").map(|field| field.id).collect::<Vec<_>>();
        assert_eq!(b(table.schema()), [3]);
        let older = table.older_schemas().unwrap();
        assert_eq!(older.len(), 2);
        assert!(older.iter().any(|schema| b(schema) == [2]));
    }

    #[test]
    fn s14_nanoseconds() {
        let table = metadata(14);
        let nanoseconds = |field: Field<'_>| *field.r#type == Type::Primitive(PrimitiveType::TimestamptzNs);
        assert!(table.schema().fields().any(nanoseconds));
    }

    #[test]
    fn s15_a_map_and_a_column_named_metadata() {
        let table = metadata(15);
        let map = table.schema().fields_by_name("metadata").next().unwrap();
        let Type::Map(key, value) = map.r#type else { panic!("{map:?}") };
        assert_eq!((map.id, key.id, value.id), (4, 5, 6));
        assert!(table.schema().has_nested_id(6) && table.schema().has_nested_path("metadata.value"));
    }

    #[test]
    fn bare_metadata_is_wrapped_and_nothing_else() {
        for number in [4, 5, 7, 9, 10, 11, 12, 13, 14, 15] {
            let document = fixture(number);
            let table = LoadResult::read_metadata(document.clone()).unwrap();
            assert_eq!(&table.body()[table.metadata()], document.trim_ascii());
            let whole = LoadResult::read(table.body().clone()).unwrap();
            assert_eq!(whole.schema(), table.schema());
            assert_eq!(whole.older_schemas(), table.older_schemas());
            assert_eq!((whole.metadata_location(), whole.read_restrictions()), (None, None));
        }
    }

    #[test]
    fn bare_metadata_is_one_document() {
        let smuggled =
            format!(r#"{},"read-restrictions":{{}}"#, String::from_utf8(fixture(4).to_vec()).unwrap());
        let error = LoadResult::read_metadata(smuggled.into()).unwrap_err();
        assert!(error.to_string().starts_with("bytes after the end of the document"), "{error}");
        assert!(LoadResult::read_metadata(fixture(1)).is_err());
    }
}

/// The files of `tests/fixtures/load_results`.
mod made_by_hand {
    use super::*;

    fn load_result(name: &str) -> LoadResult {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/load_results");
        LoadResult::read(fs::read(folder.join(name)).unwrap().into()).unwrap()
    }

    #[test]
    fn every_type() {
        let table = load_result("every-type.json");
        for field in table.schema().fields() {
            let expected = match field.name {
                "decimal" => "decimal(9, 2)",
                "decimal 38" => "decimal(38, 38)",
                "fixed" => "fixed[16]",
                "geometry 4326" => "geometry",
                "vector" => "vector[768]",
                "address" => "struct",
                "tags" => "list",
                "visits" => "map",
                name => name,
            };
            assert_eq!(field.r#type.to_string(), expected);
            let unrecognized = matches!(field.r#type, Type::Primitive(PrimitiveType::Unrecognized(_)));
            assert_eq!(unrecognized, field.name == "vector");
        }
        let schema = table.schema();
        assert!((25..=27).chain([29]).chain(31..=34).all(|id| schema.has_nested_id(id)));
        assert!(!(1..=24).chain([28, 30, 35]).any(|id| schema.has_nested_id(id)));
        for path in ["address.zip", "address.geo.lat", "tags.element", "visits.value.element.page"] {
            assert!(schema.has_nested_path(path), "{path}");
        }
    }

    #[test]
    fn schema_evolution() {
        let table = load_result("schema-evolution.json");
        assert_eq!(
            (table.schema().id(), column_names(table.schema())),
            (Some(5), vec!["email", "id", "note"])
        );
        let older: Vec<_> = table.older_schemas().unwrap();
        assert_eq!(older.iter().map(|schema| schema.id().unwrap()).collect::<Vec<_>>(), [1, 2, 3]);
        let ids = |schema: &Schema| schema.fields().map(|field| field.id).collect::<Vec<_>>();
        assert_eq!(ids(table.schema()), [2, 1, 4]);
        assert_eq!(older.iter().map(ids).collect::<Vec<_>>(), [vec![1, 2, 3], vec![1, 2], vec![2, 1]]);
        assert_eq!(older[0].field_by_id(1).unwrap().r#type.to_string(), "int");
        assert_eq!(older[0].field_by_id(3).unwrap().name, "note");
    }

    #[test]
    fn as_written() {
        let table = load_result("as-written.json");
        assert_eq!(table.metadata_location(), Some("s3://warehouse/über/metadata/00001.metadata.json"));
        assert_eq!(column_names(table.schema()), ["über 🧊"]);
        let upstream = table.read_restrictions().unwrap();
        assert_eq!(
            upstream,
            r#"{ "required-row-filter" : { "type":"not-null", "child":{"type":"reference","id":1} } }"#
        );
        let spliced = table.splice("{}").concat();
        let body = std::str::from_utf8(table.body()).unwrap();
        assert_eq!(std::str::from_utf8(&spliced).unwrap(), body.replace(upstream, "{}"));
    }
}
