//! Load results of any size, as catalogs write them, made by a formula so that every run has the same.

#![allow(dead_code, reason = "each test and each bench uses a part of it")]

/// How much there is in a load result, and in which order.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    pub columns: usize,
    pub schemas: usize,
    pub snapshots: usize,
    pub order: Order,
}

/// Where the metadata says which schema is current. Java writes it before the schemas, Rust behind them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Order {
    IdFirst,
    SchemasFirst,
    BehindSnapshots,
}

/// About 4 KB.
pub const SMALL: Shape = Shape { columns: 10, schemas: 1, snapshots: 4, order: Order::IdFirst };
/// About 310 KB.
pub const MEDIUM: Shape = Shape { columns: 100, schemas: 5, snapshots: 500, order: Order::IdFirst };
/// About 6.5 MB.
pub const LARGE: Shape = Shape { columns: 300, schemas: 50, snapshots: 10_000, order: Order::IdFirst };
/// About 60 MB.
pub const HUGE: Shape = Shape { columns: 300, schemas: 50, snapshots: 95_000, order: Order::IdFirst };

impl Shape {
    pub fn with_order(self, order: Order) -> Self {
        Self { order, ..self }
    }

    /// The load result, without white space.
    pub fn load_result(&self) -> String {
        let (id, schemas) = (self.schemas - 1, self.schemas());
        let (head, tail) = match self.order {
            Order::IdFirst => (format!(r#""current-schema-id":{id},"schemas":{schemas},"#), String::new()),
            Order::SchemasFirst => {
                (format!(r#""schemas":{schemas},"current-schema-id":{id},"#), String::new())
            }
            Order::BehindSnapshots => {
                (String::new(), format!(r#","schemas":{schemas},"current-schema-id":{id}"#))
            }
        };
        let last = self.snapshots.saturating_sub(1);
        format!(
            concat!(
                r#"{{"metadata-location":"s3://warehouse/sales/orders/metadata/00017-0f3b8ad4-9a5b-4f1e-9f0e-1c6f2b7f3a11.metadata.json","#,
                r#""metadata":{{"format-version":2,"table-uuid":"b55d9dda-6561-423a-8bfc-787980ce421f","#,
                r#""location":"s3://warehouse/sales/orders","last-sequence-number":{last},"last-updated-ms":1717171717171,"#,
                r#""last-column-id":{columns},{head}"default-spec-id":0,"partition-specs":[{{"spec-id":0,"fields":"#,
                r#"[{{"name":"column_1_day","transform":"day","source-id":1,"field-id":1000}}]}}],"last-partition-id":1000,"#,
                r#""default-sort-order-id":0,"sort-orders":[{{"order-id":0,"fields":[]}}],"#,
                r#""properties":{{"owner":"sales","write.parquet.compression-codec":"zstd"}},"#,
                r#""current-snapshot-id":{current},"refs":{{"main":{{"snapshot-id":{current},"type":"branch"}}}},"#,
                r#""snapshots":[{snapshots}],"statistics":[],"snapshot-log":[{log}],"metadata-log":[]{tail}}},"#,
                r#""config":{{"client.region":"eu-central-1","s3.access-key-id":"ASIAEXAMPLE","s3.secret-access-key":"wJalrXUtnFEMI/K7MDENG+bPxRfiCY"}}}}"#,
            ),
            last = last,
            columns = self.columns,
            head = head,
            tail = tail,
            current = snapshot_id(last),
            snapshots = join(self.snapshots, |at| self.snapshot(at)),
            log = join(self.snapshots, |at| {
                format!(r#"{{"timestamp-ms":{},"snapshot-id":{}}}"#, timestamp(at), snapshot_id(at))
            }),
        )
    }

    fn schemas(&self) -> String {
        let schema = |id: usize| {
            // Later schemas have more columns, up to what was asked for.
            let columns = self.columns.saturating_sub(self.schemas - 1 - id).max(1);
            format!(
                r#"{{"type":"struct","schema-id":{id},"fields":[{}]}}"#,
                join(columns, |at| column(at + 1))
            )
        };
        format!("[{}]", join(self.schemas, schema))
    }

    fn snapshot(&self, at: usize) -> String {
        let parent = match at {
            0 => String::new(),
            _ => format!(r#""parent-snapshot-id":{},"#, snapshot_id(at - 1)),
        };
        format!(
            concat!(
                r#"{{"sequence-number":{number},"snapshot-id":{id},{parent}"timestamp-ms":{timestamp},"summary":{{"#,
                r#""operation":"append","spark.app.id":"local-{timestamp}","added-data-files":"{files}","added-records":"{records}","#,
                r#""added-files-size":"{size}","changed-partition-count":"1","total-records":"{total}","total-data-files":"{number}"}},"#,
                r#""manifest-list":"s3://warehouse/sales/orders/metadata/snap-{id}-1-c4f68204-666b-4e50-a9df-b10c34bf6b82.avro","#,
                r#""schema-id":{schema}}}"#,
            ),
            number = at + 1,
            id = snapshot_id(at),
            parent = parent,
            timestamp = timestamp(at),
            files = at % 17 + 1,
            records = at * 7919 % 100_000,
            size = at * 104_729 % 10_000_000,
            total = at * 50_000,
            schema = at * self.schemas / self.snapshots,
        )
    }
}

/// The same text with white space, two blanks a level, as many servers write it.
pub fn pretty(text: &str) -> String {
    let (mut out, mut depth, mut in_string, mut escaped) = (String::new(), 0, false, false);
    for character in text.chars() {
        let closes = !in_string && matches!(character, '}' | ']');
        if closes {
            depth -= 1;
            out.push('\n');
            out.push_str(&"  ".repeat(depth));
        }
        out.push(character);
        match character {
            '"' if !escaped => in_string = !in_string,
            ':' if !in_string => out.push(' '),
            ',' | '{' | '[' if !in_string => {
                depth += usize::from(character != ',');
                out.push('\n');
                out.push_str(&"  ".repeat(depth));
            }
            _ => {}
        }
        escaped = in_string && character == '\\' && !escaped;
    }
    out
}

/// The same text with escapes in every string, in names too. It must have none yet.
pub fn escaped(text: &str) -> String {
    let (mut out, mut in_string) = (String::new(), false);
    for character in text.chars() {
        in_string ^= character == '"';
        match character {
            '/' if in_string => out.push_str(r"\/"),
            'e' | 'a' | '-' if in_string => out.push_str(&format!(r"\u{:04x}", u32::from(character))),
            _ => out.push(character),
        }
    }
    out
}

fn column(id: usize) -> String {
    let types = ["long", "string", "int", "decimal(9, 2)", "timestamptz", "boolean", "double", "date"];
    let name = format!("column_{id}");
    match id % 25 {
        0 => format!(
            r#"{{"id":{id},"name":"{name}","required":false,"type":{{"type":"list","element-id":{},"element":"string","element-required":false}}}}"#,
            id + 100_000
        ),
        7 => format!(
            r#"{{"id":{id},"name":"{name}","required":false,"type":"string","doc":"What was said about it, in so many words"}}"#
        ),
        _ => format!(
            r#"{{"id":{id},"name":"{name}","required":{},"type":"{}"}}"#,
            id % 10 == 1,
            types[id % types.len()]
        ),
    }
}

fn snapshot_id(at: usize) -> u64 {
    (at as u64 + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 1
}

fn timestamp(at: usize) -> u64 {
    1_700_000_000_000 + at as u64 * 86_413
}

fn join(count: usize, each: impl Fn(usize) -> String) -> String {
    (0..count).map(each).collect::<Vec<_>>().join(",")
}
