//! Promise: the built `policy` keeps to its exit codes and streams, and to those that read them.

mod gateway_support;
mod program;

use std::{
    fs,
    path::PathBuf,
    process::{Command, Output, Stdio},
};

use tempfile::TempDir;

const TABLE: &str = r#"{"metadata": {"format-version": 2, "current-schema-id": 0, "schemas": [
  {"type": "struct", "schema-id": 0, "fields": [{"id": 1, "name": "id", "required": true, "type": "long"}]}]}}"#;

/// A governance file that fits the one table, and one that does not.
fn folder() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let tables = folder.path().join("tables/prod/sales");
    fs::create_dir_all(&tables).unwrap();
    fs::write(tables.join("orders.json"), TABLE).unwrap();
    for (name, column) in [("fits.toml", "id"), ("misfit.toml", "Id")] {
        let governance = format!(
            "[[tags]]\nname = \"t\"\n[[policies]]\nname = \"p\"\npolicyType = \"system_row_filter\"\nenabled = true\n\
             content.expression = 'filter := col(\"{column}\") == 1'\ntags = [{{ tag = \"t\" }}]\n\
             [[assignments]]\nobject = {{ catalog = \"prod\" }}\ntag = \"t\"\n"
        );
        fs::write(folder.path().join(name), governance).unwrap();
    }
    folder
}

fn binary() -> PathBuf {
    gateway_support::example("policy")
}

fn check(folder: &TempDir, governance: &str) -> Command {
    let mut command = Command::new(binary());
    command.current_dir(folder).args(["check", "--tables", "tables", "--governance", governance]);
    command
}

fn text(output: &Output) -> (Option<i32>, String, String) {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    (output.status.code(), text(&output.stdout), text(&output.stderr))
}

#[test]
fn results_go_to_stdout_and_errors_to_stderr_with_their_exit_codes() {
    let folder = folder();
    let (code, stdout, stderr) = text(&check(&folder, "fits.toml").output().unwrap());
    assert_eq!((code, &*stderr), (Some(0), ""), "{stdout}");
    assert_eq!(stdout, "1 policy and 1 table: 0 errors, 0 warnings, 0 for information\n");
    let (code, stdout, stderr) = text(&check(&folder, "misfit.toml").output().unwrap());
    assert_eq!((code, &*stderr), (Some(1), ""), "{stdout}");
    assert!(stdout.starts_with("error: policy `p`, table prod.sales.orders, column `Id`"), "{stdout}");
    let (code, stdout, stderr) = text(&check(&folder, "missing.toml").output().unwrap());
    assert_eq!((code, &*stdout), (Some(2), ""), "{stderr}");
    assert!(
        stderr.starts_with("policy: missing.toml cannot be read") && stderr.lines().count() == 1,
        "{stderr}"
    );
    let (code, stdout, stderr) = text(&Command::new(binary()).arg("--help").output().unwrap());
    assert_eq!((code, &*stderr), (Some(0), ""));
    assert!(stdout.contains("Exit codes: 0"), "{stdout}");
}

#[test]
fn colour_is_for_terminals_only() {
    let folder = folder();
    for colours in [None, Some("always"), Some("1")] {
        let mut command = check(&folder, "misfit.toml");
        command.envs(colours.map(|wish| ("CLICOLOR_FORCE", wish)));
        assert!(!text(&command.output().unwrap()).1.contains('\x1b'), "a pipe is no terminal");
    }
    let path = |name: &str| folder.path().join(name).into_os_string();
    let arguments =
        ["check".into(), "--governance".into(), path("misfit.toml"), "--tables".into(), path("tables")];
    let plain = program::policy(&arguments).stdout;
    let painted = program::policy_on_terminal(&arguments).stdout;
    assert!(painted.starts_with("\x1b[1;31merror\x1b[0m: policy `p`"), "{painted:?}");
    assert_eq!(painted.replace("\x1b[1;31m", "").replace("\x1b[0m", ""), plain);
}

#[test]
fn a_reader_that_went_away_is_no_reason_to_complain() {
    let folder = folder();
    for arguments in [&["--json"][..], &[]] {
        let mut child = check(&folder, "misfit.toml")
            .args(arguments)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        drop(child.stdout.take());
        let (code, _, stderr) = text(&child.wait_with_output().unwrap());
        assert_eq!((code, &*stderr), (Some(2), ""), "{arguments:?}");
    }
}

#[cfg(target_os = "linux")]
#[test]
fn results_that_cannot_be_written_are_no_success() {
    let folder = folder();
    let full = || fs::File::options().write(true).open("/dev/full").unwrap();
    let (code, _, stderr) = text(&check(&folder, "fits.toml").stdout(full()).output().unwrap());
    assert_eq!(code, Some(2));
    assert!(stderr.starts_with("policy: cannot write the results"), "{stderr}");
    let help = Command::new(binary()).arg("--help").stdout(full()).output().unwrap();
    assert_eq!(help.status.code(), Some(2));
}
