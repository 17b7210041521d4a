//! The `policy` program, run in this process.

#![allow(dead_code, reason = "each test file uses its own part, and none the program's own entry")]

#[path = "../../examples/policy/main.rs"]
mod policy;

use std::path::{Path, PathBuf};

/// What a run of the program left behind.
#[derive(Debug)]
pub struct Run {
    pub code: u8,
    pub stdout: String,
    pub stderr: String,
}

impl Run {
    pub fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }
}

/// Runs `policy` with these arguments.
pub fn policy<T: AsRef<std::ffi::OsStr>>(arguments: impl IntoIterator<Item = T>) -> Run {
    run(arguments, false)
}

/// The same, with somebody looking at it.
pub fn policy_on_terminal<T: AsRef<std::ffi::OsStr>>(arguments: impl IntoIterator<Item = T>) -> Run {
    run(arguments, true)
}

fn run<T: AsRef<std::ffi::OsStr>>(arguments: impl IntoIterator<Item = T>, colour: bool) -> Run {
    let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
    let arguments = arguments.into_iter().map(|argument| argument.as_ref().to_owned());
    let code =
        policy::run(std::iter::once("policy".into()).chain(arguments), &mut stdout, &mut stderr, colour);
    let text = |bytes| String::from_utf8(bytes).expect("UTF-8");
    Run { code, stdout: text(stdout), stderr: text(stderr) }
}

/// A file of the worked example.
pub fn example(path: impl AsRef<Path>) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/governance").join(path)
}
