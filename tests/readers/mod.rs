//! Real clients from PyPI and npm, run as the programs that they are.
//!
//! `READERS_PYTHON` names a Python with the packages of `requirements.txt`, `READERS_NODE_MODULES` a folder with
//! `iceberg-js`. Without them the tests say loudly that they are skipped, unless `READERS_REQUIRED` is set: then they
//! fail.

#![allow(dead_code)]

use std::{env, ffi::OsStr, path::PathBuf, process::Command};

use serde_json::{Value, json};

/// The header that says who is asking.
pub const USER: &str = "x-user";

/// The header by which a client declares that it enforces.
pub const CAPABLE: (&str, &str) = ("X-Iceberg-Client-Capabilities", "read-restrictions");

/// A client's headers, as JSON.
pub fn headers(user: &str, capable: bool) -> String {
    let mut headers = json!({ USER: user });
    if capable {
        headers[CAPABLE.0] = CAPABLE.1.into();
    }
    headers.to_string()
}

/// A script beside this file, run by Python. `None`: there is no such Python here.
pub fn python<A: AsRef<OsStr>>(script: &str, arguments: impl IntoIterator<Item = A>) -> Option<Value> {
    run(python_program(script)?, script, arguments)
}

/// That Python, beside which the other programs of `requirements.txt` lie. `None`: there is none here.
pub fn python_program(script: &str) -> Option<PathBuf> {
    program("READERS_PYTHON", script)
}

/// The same by Node.js.
pub fn node<A: AsRef<OsStr>>(script: &str, arguments: impl IntoIterator<Item = A>) -> Option<Value> {
    program("READERS_NODE_MODULES", script)?;
    run("node".into(), script, arguments)
}

fn program(variable: &str, script: &str) -> Option<PathBuf> {
    if let Some(program) = env::var_os(variable) {
        return Some(program.into());
    }
    assert!(env::var_os("READERS_REQUIRED").is_none(), "{variable} is not set, and READERS_REQUIRED is");
    eprintln!("\n*** SKIPPED: {script} needs {variable}; see tests/readers/mod.rs ***\n");
    None
}

fn run<A: AsRef<OsStr>>(
    program: PathBuf,
    script: &str,
    arguments: impl IntoIterator<Item = A>,
) -> Option<Value> {
    let script = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/readers").join(script);
    let output =
        Command::new(program).arg(&script).args(arguments).output().expect("the program can be started");
    let (stdout, stderr) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{}:\n{stdout}\n{stderr}", script.display());
    let last = stdout.lines().last().unwrap_or_default();
    Some(serde_json::from_str(last).unwrap_or_else(|error| panic!("{error}: {stdout}\n{stderr}")))
}
