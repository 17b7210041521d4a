//! `policy check` reads the folder of tables one file at a time.
#![allow(unsafe_code, reason = "an allocator that counts cannot be had without")]

mod program;

use std::{
    alloc::{GlobalAlloc, Layout, System},
    fs,
    path::Path,
    sync::atomic::{AtomicUsize, Ordering::Relaxed},
};

use program::policy;

/// Counts what is allocated now and what was at the most.
struct Counting;

static NOW: AtomicUsize = AtomicUsize::new(0);
static MOST: AtomicUsize = AtomicUsize::new(0);

// SAFETY: everything is the system allocator's.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let now = NOW.fetch_add(layout.size(), Relaxed) + layout.size();
        MOST.fetch_max(now, Relaxed);
        // SAFETY: the caller's promise is passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        NOW.fetch_sub(layout.size(), Relaxed);
        // SAFETY: the caller's promise is passed on.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

const GOVERNANCE: &str = r#"
tags = [{ name = "t" }]
policies = [{ name = "p", policyType = "system_row_filter", enabled = true, tags = [{ tag = "t" }],
  content.expression = 'filter := col("c1") == session_user() if is_group_member("g") else := false' }]
assignments = [{ object = { catalog = "prod" }, tag = "t" }]
groups = { g = ["alice"] }
"#;

/// The most memory that a check of this many tables takes at any time.
fn peak(folder: &Path, tables: usize) -> usize {
    let path = |name: &str| folder.join(name).to_str().expect("UTF-8").to_owned();
    let fields: Vec<_> = (0..200)
        .map(|id| format!(r#"{{"id": {id}, "name": "c{id}", "required": false, "type": "string"}}"#))
        .collect();
    let table = format!(
        r#"{{"metadata": {{"format-version": 2, "current-schema-id": 0, "schemas": [{{"type": "struct", "schema-id": 0, "fields": [{}]}}]}}}}"#,
        fields.join(",")
    );
    for number in 0..tables {
        let namespace = path(&format!("tables/prod/n{}", number / 10));
        fs::create_dir_all(&namespace).expect("created");
        fs::write(format!("{namespace}/t{number}.json"), &table).expect("written");
    }
    fs::write(path("governance.toml"), GOVERNANCE).expect("written");
    let arguments = [
        "check".to_owned(),
        "--governance".into(),
        path("governance.toml"),
        "--tables".into(),
        path("tables"),
    ];
    let before = NOW.load(Relaxed);
    MOST.store(before, Relaxed);
    let run = policy(&arguments);
    assert_eq!(
        (run.code, run.stdout),
        (0, format!("1 policy and {tables} tables: 0 errors, 0 warnings, 0 for information\n"))
    );
    MOST.load(Relaxed) - before
}

#[test]
fn memory_does_not_grow_with_the_number_of_tables() {
    let (few, many) = (tempfile::tempdir().expect("a folder"), tempfile::tempdir().expect("a folder"));
    // The first run pays for what is made once.
    peak(few.path(), 10);
    let (few, many) = (peak(few.path(), 10), peak(many.path(), 500));
    assert!(many < few + few / 5, "{few} bytes for 10 tables, {many} for 500");
}
