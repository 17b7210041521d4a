//! Prints a table as one subject sees it; without arguments, a table of its own as three subjects see it.

use std::process::ExitCode;

use arrow_array::RecordBatch;
use arrow_cast::{display::FormatOptions, pretty::pretty_format_batches_with_options};
use clap::Parser;
use iceberg::{NamespaceIdent, TableIdent};
use reader::{
    Reader, Refusal,
    demo::{Demo, GOVERNANCE},
};

/// Reads a table through a catalog and enforces the restrictions that come with it.
#[derive(Parser)]
struct Arguments {
    /// The catalog's base URL, up to and without `/v1`; without it, a catalog and a table are made for the occasion
    #[arg(requires_all = ["namespace", "table", "subject"])]
    catalog: Option<String>,
    /// The namespace, one level each
    #[arg(long, requires = "catalog")]
    namespace: Vec<String>,
    /// The table
    #[arg(long, requires = "catalog")]
    table: Option<String>,
    /// Who reads, sent as `X-Forwarded-User`
    #[arg(long, requires = "catalog")]
    subject: Option<String>,
}

#[tokio::main]
async fn main() -> ExitCode {
    match run(Arguments::parse()).await {
        Ok(text) => {
            println!("{text}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn run(arguments: Arguments) -> Result<String, Box<dyn std::error::Error>> {
    let Arguments { catalog: Some(catalog), namespace, table: Some(table), subject: Some(subject) } =
        arguments
    else {
        return demo().await;
    };
    let table = TableIdent::new(NamespaceIdent::from_vec(namespace)?, table);
    Ok(shown(&Reader::new(catalog, subject).read(&table).await?)?)
}

fn shown(rows: &RecordBatch) -> Result<String, Refusal> {
    let options = FormatOptions::new().with_null("null");
    Ok(pretty_format_batches_with_options(std::slice::from_ref(rows), &options)?.to_string())
}

async fn demo() -> Result<String, Box<dyn std::error::Error>> {
    let catalog = Demo::start(GOVERNANCE).await?;
    let orders = TableIdent::from_strs(["sales", "orders"])?;
    let mut views = Vec::new();
    for (subject, who) in [
        ("admin", "an administrator, exempt"),
        ("alice", "an auditor: one region, last digits, months"),
        ("olga", "an owner: own rows, no phones, months"),
    ] {
        let rows = Reader::new(&catalog.url, subject).read(&orders).await?;
        views.push(format!("{subject}, {who}\n{}", shown(&rows)?));
    }
    Ok(side_by_side(&views))
}

/// Blocks of text in columns.
fn side_by_side(blocks: &[String]) -> String {
    let columns: Vec<Vec<&str>> = blocks.iter().map(|block| block.lines().collect()).collect();
    let height = columns.iter().map(Vec::len).max().unwrap_or_default();
    let widths: Vec<_> = columns
        .iter()
        .map(|lines| lines.iter().map(|line| line.chars().count()).max().unwrap_or_default())
        .collect();
    let row = |index: usize| {
        let cells = columns.iter().zip(&widths);
        let cells =
            cells.map(|(lines, width)| format!("{:width$}", lines.get(index).copied().unwrap_or_default()));
        cells.collect::<Vec<_>>().join("   ").trim_end().to_owned()
    };
    (0..height).map(row).collect::<Vec<_>>().join("\n")
}
