//! Serves one Rustberg catalog twice, with the layer in either place, and shows what three callers get.
//!
//! ```sh
//! cargo run            # tells the story and ends
//! cargo run -- --serve # and keeps both servers running
//! ```

use std::{error::Error, net::SocketAddr};

use axum::Router;
use iceberg_read_restrictions::policy::{Format, Governance, InMemoryGovernance};
use reqwest::{Client, RequestBuilder, Response, header};
use rustberg_with_read_restrictions::{ApiKeys, around_everything, behind_authentication, open, orders};
use serde_json::Value;
use tokio::net::TcpListener;

const GOVERNANCE: &str = include_str!("../governance.toml");
const CAPABILITY: (&str, &str) = ("X-Iceberg-Client-Capabilities", "read-restrictions");

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let serve_on = std::env::args().skip(1).any(|argument| argument == "--serve");
    let folder = tempfile::tempdir()?;
    let (app, keys) = open(folder.path()).await?;
    let policies = InMemoryGovernance::new(Governance::parse(GOVERNANCE, Format::Toml)?);

    let behind = serve(behind_authentication(app.clone(), policies.clone())).await?;
    let around = serve(around_everything(app, policies)).await?;
    create_orders(behind, &keys).await?;

    println!("One catalog, the layer between authentication and the handlers: http://{behind}");
    tell(behind, &keys).await?;
    println!("\nThe same catalog, the layer round everything: http://{around}");
    tell(around, &keys).await?;

    if serve_on {
        println!("\nKeys: etl {}, alice {}, bob {}. Stop with Ctrl-C.", keys.etl, keys.alice, keys.bob);
        tokio::signal::ctrl_c().await?;
    }
    Ok(())
}

async fn serve(router: Router) -> Result<SocketAddr, Box<dyn Error>> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    // Rustberg reads the address of the caller.
    let service = router.into_make_service_with_connect_info::<SocketAddr>();
    tokio::spawn(axum::serve(listener, service).into_future());
    Ok(address)
}

/// The job that writes is exempt from the policies, so it declares nothing.
async fn create_orders(server: SocketAddr, keys: &ApiKeys) -> Result<(), Box<dyn Error>> {
    let client = Client::new();
    for (path, body) in [("namespaces", orders::namespace()), ("namespaces/sales/tables", orders::table())] {
        let request = client.post(format!("http://{server}/v1/{path}"));
        request.bearer_auth(&keys.etl).json(&body).send().await?.error_for_status()?;
    }
    Ok(())
}

async fn tell(server: SocketAddr, keys: &ApiKeys) -> Result<(), Box<dyn Error>> {
    let client = Client::new();
    let load = || client.get(format!("http://{server}/v1/namespaces/sales/tables/orders"));
    let declared = || load().header(CAPABILITY.0, CAPABILITY.1);

    show("etl, which is exempt", load().bearer_auth(&keys.etl)).await?;
    show("alice, an auditor: the layer restricts", declared().bearer_auth(&keys.alice)).await?;
    show("bob, a partner: Rustberg and the layer restrict", declared().bearer_auth(&keys.bob)).await?;
    show("alice, whose client declares nothing", load().bearer_auth(&keys.alice)).await?;
    show("nobody", declared()).await?;
    let compressed =
        declared().bearer_auth(&keys.alice).header(header::ACCEPT_ENCODING, "gzip").send().await?;
    let encoding = compressed.headers().get(header::CONTENT_ENCODING);
    println!("  alice, who takes gzip: {}, content-encoding {encoding:?}", compressed.status());
    Ok(())
}

async fn show(caller: &str, request: RequestBuilder) -> Result<(), Box<dyn Error>> {
    let response: Response = request.send().await?;
    let status = response.status();
    let body: Value = response.json().await?;
    println!("  {caller}: {status}");
    match (body.get("read-restrictions"), body.get("error")) {
        (Some(restrictions), _) => println!("    {restrictions}"),
        (None, Some(error)) => println!("    {}", error["message"]),
        (None, None) => println!("    no restrictions"),
    }
    Ok(())
}
