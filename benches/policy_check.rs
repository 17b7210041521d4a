//! `policy check` of 200 policies against 1,000 tables of 100 columns: every branch, every column, for every
//! kind of subject. How much memory it takes does not depend on the number of tables.

use std::{fmt::Write as _, fs, hint::black_box, io, path::Path};

use criterion::{Criterion, criterion_group, criterion_main};

#[allow(dead_code, reason = "the program's own entry is not used")]
#[path = "../examples/policy/main.rs"]
mod policy;

const TABLES: usize = 1_000;
const POLICIES: usize = 200;
const GROUPS: usize = 7;

/// Half the policies filter the rows of a namespace each, the other half mask single columns.
fn governance() -> String {
    let mut text = String::new();
    for number in 0..POLICIES {
        let (kind, rule) = match number % 2 {
            0 => (
                "system_row_filter",
                "filter := col(\"c1\") == \"US\" if is_group_member(\"GROUP\") else := col(\"c2\") == session_user()",
            ),
            _ => (
                "system_column_mask",
                "mask := action(\"sha-256-global\") if is_group_member(\"GROUP\") else := action(\"replace-with-null\")",
            ),
        };
        let rule = rule.replace("GROUP", &format!("g{}", number % GROUPS));
        let _ = write!(
            text,
            "[[tags]]\nname = \"t{number}\"\n[[policies]]\nname = \"p{number}\"\npolicyType = \"{kind}\"\n\
             enabled = true\ncontent.expression = '{rule}'\ntags = [{{ tag = \"t{number}\" }}]\n"
        );
    }
    for table in 0..TABLES {
        let (namespace, name) = place(table);
        for column in 0..5 {
            let tag = (namespace * 2 + column * 2 + 1) % POLICIES;
            let _ = write!(
                text,
                "[[assignments]]\ntag = \"t{tag}\"\nobject = {{ catalog = \"prod\", namespace = [\"n{namespace}\"], \
                 table = \"{name}\", column = \"c{column}\" }}\n"
            );
        }
    }
    for namespace in 0..POLICIES / 2 {
        let _ = write!(
            text,
            "[[assignments]]\ntag = \"t{}\"\nobject = {{ catalog = \"prod\", namespace = [\"n{namespace}\"] }}\n",
            namespace * 2
        );
    }
    text.push_str("[groups]\n");
    for group in 0..GROUPS {
        let _ = writeln!(text, "g{group} = [\"user{group}\"]");
    }
    text
}

/// The namespace and the name of a table.
fn place(table: usize) -> (usize, String) {
    (table % (POLICIES / 2), format!("t{table}"))
}

fn load_result() -> String {
    let fields: Vec<_> = (0..100)
        .map(|id| format!(r#"{{"id": {id}, "name": "c{id}", "required": false, "type": "string"}}"#))
        .collect();
    format!(
        r#"{{"metadata": {{"format-version": 2, "current-schema-id": 0, "schemas": [{{"type": "struct", "schema-id": 0, "fields": [{}]}}]}}}}"#,
        fields.join(", ")
    )
}

fn prepare(folder: &Path) -> io::Result<()> {
    fs::write(folder.join("governance.toml"), governance())?;
    for table in 0..TABLES {
        let (namespace, name) = place(table);
        let namespace = folder.join(format!("tables/prod/n{namespace}"));
        fs::create_dir_all(&namespace)?;
        fs::write(namespace.join(name + ".json"), load_result())?;
    }
    Ok(())
}

fn policy_check(criterion: &mut Criterion) {
    let folder = tempfile::tempdir().expect("a folder for the tables");
    prepare(folder.path()).expect("the tables are written");
    let path = |name: &str| folder.path().join(name).into_os_string();
    let arguments = [
        "policy".into(),
        "check".into(),
        "--governance".into(),
        path("governance.toml"),
        "--tables".into(),
        path("tables"),
    ];
    let mut group = criterion.benchmark_group("policy_check");
    group.sample_size(10);
    group.bench_function("200 policies, 1,000 tables", |bencher| {
        bencher.iter(|| {
            let code = policy::run(arguments.clone(), &mut io::sink(), &mut io::stderr(), false);
            assert_eq!(black_box(code), 0, "the tables fit the policies");
        });
    });
    group.finish();
}

criterion_group!(benches, policy_check);
criterion_main!(benches);
