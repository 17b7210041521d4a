//! What it costs to read a large policy-on-tag model, and to ask it about one table.
//!
//! `cargo bench --bench policy_on_tag`

use std::{
    env,
    fmt::Write as _,
    hint::black_box,
    time::{Duration, Instant},
};

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use iceberg_read_restrictions::policy::{Format, Governance, TableIdent};

/// A model of so many assignments, a tenth as many policies and a hundredth as many tags.
#[derive(Clone, Copy)]
struct Model {
    assignments: usize,
}

const LARGE: Model = Model { assignments: 100_000 };

/// On the table itself and on four of its columns.
const ASSIGNMENTS_OF_A_TABLE: usize = 5;
const NAMESPACES: usize = 100;
const VALUES: usize = 10;

impl Model {
    fn policies(self) -> usize {
        self.assignments / 10
    }

    fn tags(self) -> usize {
        self.assignments / 100
    }

    fn tables(self) -> usize {
        (self.assignments - NAMESPACES) / ASSIGNMENTS_OF_A_TABLE
    }

    fn table(self, number: usize) -> TableIdent {
        TableIdent::new("prod", [format!("namespace_{}", number % NAMESPACES)], format!("table_{number}"))
    }

    /// The tags of the first half lead to filters, those of the second to masks; each has a policy for each of ten
    /// values.
    fn text(self) -> String {
        let mut text = String::new();
        for tag in 0..self.tags() {
            let _ = writeln!(text, "[[tags]]\nname = \"tag_{tag}\"");
        }
        for number in 0..self.policies() {
            let (tag, value) = (number % self.tags(), number / self.tags());
            let (kind, rule) = if tag < self.tags() / 2 {
                (
                    "system_row_filter",
                    "filter := col(\"region\") == \"US\" if is_group_member(\"auditors\") else := col(\"owner\") == session_user()",
                )
            } else {
                (
                    "system_column_mask",
                    "mask := action(\"show-last-4\") if is_group_member(\"auditors\") else := action(\"replace-with-null\")",
                )
            };
            let _ = writeln!(
                text,
                "[[policies]]\nname = \"policy_{number}\"\npolicyType = \"{kind}\"\nenabled = true\n\
                 content.expression = '{rule}'\n\
                 tags = [{{ tag = \"tag_{tag}\", selector = {{ type = \"TAG_VALUE\", value = \"value_{value}\" }} }}]"
            );
        }
        for number in 0..NAMESPACES {
            // Another tag than on the tables with the same number, so that they have both.
            self.assign(&mut text, number + 1, &format!("namespace = [\"namespace_{number}\"]"), 0);
        }
        for number in 0..self.tables() {
            let table = self.table(number);
            let object = format!("namespace = [\"{}\"], table = \"{}\"", table.namespace[0], table.name);
            self.assign(&mut text, number, &object, 0);
            for column in 1..ASSIGNMENTS_OF_A_TABLE {
                let half = self.tags() / 2;
                self.assign(
                    &mut text,
                    number * 4 + column,
                    &format!("{object}, column = \"column_{column}\""),
                    half,
                );
            }
        }
        text.push_str("[groups]\nauditors = [\"alice\"]\n");
        text
    }

    /// Puts a tag of one half on an object.
    fn assign(self, text: &mut String, number: usize, object: &str, half: usize) {
        let (tag, value) = (half + number % (self.tags() / 2), number % VALUES);
        let _ = writeln!(
            text,
            "[[assignments]]\nobject = {{ catalog = \"prod\", {object} }}\ntag = \"tag_{tag}\"\nvalues = [\"value_{value}\"]"
        );
    }
}

/// How long an answer takes about a table that was never asked about before: the mean over all tables of the model.
fn first_answer(model: Model, text: &str) -> Duration {
    let governance = Governance::parse(text, Format::Toml).expect("a valid model");
    let tables: Vec<_> = (0..model.tables()).map(|number| model.table(number)).collect();
    let start = Instant::now();
    for table in &tables {
        black_box(governance.effective_policies_of(table));
    }
    start.elapsed().div_f64(tables.len() as f64)
}

fn policy_on_tag(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("policy_on_tag");
    // When benches are only tried out, the large model would take most of the time and show nothing more.
    let is_trial = !env::args().any(|argument| argument == "--bench");
    for part in [100, 10, 1].into_iter().filter(|part| !is_trial || *part == 100) {
        let model = Model { assignments: LARGE.assignments / part };
        let text = model.text();
        let governance = Governance::parse(&text, Format::Toml).expect("a valid model");
        assert_eq!(
            [governance.policies().len(), governance.tags().len(), governance.assignments().len()],
            [model.policies(), model.tags(), model.assignments]
        );
        let answer = governance.effective_policies_of(&model.table(1));
        assert_eq!((answer.row_filters.len(), answer.columns.len()), (2, 4));

        group.throughput(Throughput::Bytes(text.len() as u64));
        group.bench_function(BenchmarkId::new("parse and validate", model.assignments), |bencher| {
            bencher.iter(|| black_box(Governance::parse(&text, Format::Toml)));
        });
        group.throughput(Throughput::Elements(1));
        group.bench_function(BenchmarkId::new("one table, first", model.assignments), |bencher| {
            bencher.iter_custom(|times| first_answer(model, &text).mul_f64(times as f64));
        });
        let table = model.table(1);
        group.bench_function(BenchmarkId::new("one table, again", model.assignments), |bencher| {
            bencher.iter(|| black_box(governance.effective_policies_of(black_box(&table))));
        });
    }
    group.finish();
}

criterion_group! {
    name = benches;
    config = Criterion::default()
        .sample_size(10)
        .warm_up_time(Duration::from_millis(100))
        .measurement_time(Duration::from_millis(500));
    targets = policy_on_tag
}
criterion_main!(benches);
