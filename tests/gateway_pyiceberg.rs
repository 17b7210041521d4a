//! A real client through the gateway: PyIceberg, which `READERS_PYTHON` has. Skipped where it is missing,
//! unless `READERS_REQUIRED` is set.

mod gateway_support;

use std::{env, process::Command};

use gateway_support::Gateway;

#[tokio::test]
async fn pyiceberg_reads_and_writes_through_the_gateway() {
    let python = env::var_os("READERS_PYTHON").unwrap_or_else(|| "python3".into());
    let has_it = Command::new(&python).args(["-c", "import pyiceberg, pyarrow"]).output();
    if !has_it.is_ok_and(|output| output.status.success()) {
        assert!(env::var_os("READERS_REQUIRED").is_none(), "{python:?} has no PyIceberg");
        eprintln!("skipped: {python:?} has no PyIceberg");
        return;
    }
    let gateway = Gateway::start("embedded", "").await;
    let output = tokio::process::Command::new(python)
        .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/readers/gateway.py"))
        .arg(format!("http://{}", gateway.address))
        .arg(&gateway.folder)
        .output()
        .await
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}
