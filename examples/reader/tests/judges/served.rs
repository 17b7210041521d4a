//! A catalog of one load result.

use arrow_array::{cast::AsArray, types::Int32Type};
use axum::{Router, routing::get};
use iceberg::{TableIdent, table::Table};
use reader::{Reader, Refusal};
use serde_json::{Value as Json, json};

/// Answers every load of `sales.orders` with this text, and gives the catalog's base URL.
pub async fn served(load_result: String) -> String {
    let load = get(move || async move { load_result });
    let app = Router::new().route("/v1/namespaces/sales/tables/orders", load);
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let url = format!("http://{}", listener.local_addr().expect("an address"));
    tokio::spawn(async move { axum::serve(listener, app).await });
    url
}

/// The rows that this reader shows of a table with these restrictions, by the numbers in the column `row`.
pub async fn read(table: &Table, restrictions: &Json) -> Result<Vec<usize>, Refusal> {
    let load_result = json!({"metadata": table.metadata(), "read-restrictions": restrictions});
    let reader = Reader::new(served(load_result.to_string()).await, "alice");
    let rows = reader.read(&TableIdent::from_strs(["sales", "orders"]).expect("a name")).await?;
    let numbers = rows["row"].as_primitive::<Int32Type>().values();
    Ok(numbers.iter().map(|number| usize::try_from(*number).expect("a row's number")).collect())
}
