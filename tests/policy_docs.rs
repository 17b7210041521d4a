//! `docs/governance.md` does what it says: its files are written, its commands are run, the gateway is started, and the
//! answers are those on the page.

mod gateway_support;
mod program;

use std::{env, fs, path::Path};

use gateway_support::{Gateway, folder};
use program::policy;
use serde_json::Value;

fn page() -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/governance.md")).expect("the page")
}

/// A fenced block of the page.
struct Block<'a> {
    /// What stands behind the fence: a language, and for a file its path.
    info: &'a str,
    content: String,
}

fn blocks(page: &str) -> Vec<Block<'_>> {
    let mut blocks = Vec::new();
    let mut lines = page.lines();
    while let Some(line) = lines.next() {
        if let Some(info) = line.strip_prefix("```") {
            let content: Vec<_> = lines.by_ref().take_while(|line| *line != "```").collect();
            blocks.push(Block { info, content: content.join("\n") + "\n" });
        }
    }
    blocks
}

/// Whether an answer is the one on the page, where `…` at the end of a line stands for any rest of it, and by
/// itself for any lines.
fn is_as_shown(answer: &str, shown: &str) -> bool {
    let mut answer = answer.lines();
    for line in shown.lines() {
        if line == "…" {
            return true;
        }
        let Some(found) = answer.next() else { return false };
        let fits = match line.strip_suffix('…') {
            Some(start) => found.starts_with(start),
            None => found == line,
        };
        if !fits {
            return false;
        }
    }
    answer.next().is_none()
}

/// Runs the commands of a block, each followed by its answer.
fn run(console: &str) -> usize {
    let mut commands = console.split("$ ").skip(1).peekable();
    let mut code = 0;
    let mut count = 0;
    while let Some(command) = commands.next() {
        let (command, shown) = command.split_once('\n').expect("a line");
        match command.strip_prefix("policy ") {
            Some(arguments) => {
                let run = policy(arguments.split(' '));
                assert!(is_as_shown(&run.stdout, shown), "{command}\n{}{}", run.stdout, run.stderr);
                assert_eq!(run.stderr, "", "{command}");
                // A code that is not 0 is shown.
                let is_shown = commands.peek().is_some_and(|next| next.starts_with("echo $?"));
                assert!(run.code == 0 || is_shown || shown.starts_with("error"), "{command}: {}", run.code);
                code = run.code;
            }
            None => {
                assert_eq!(command, "echo $?");
                assert_eq!(shown.trim(), code.to_string());
            }
        }
        count += 1;
    }
    count
}

#[test]
fn the_walk_through_works() {
    let page = page();
    let folder = tempfile::tempdir().expect("a folder");
    // The only test of this file that looks at the current folder.
    env::set_current_dir(folder.path()).expect("entered");
    let (mut commands, mut pipeline) = (0, Vec::new());
    for Block { info, content } in blocks(&page) {
        match info.split_once(' ') {
            Some((_, path)) => {
                let path = Path::new(path);
                fs::create_dir_all(folder.path().join(path.parent().expect("a parent"))).expect("created");
                fs::write(path, content).expect("written");
            }
            None if info == "console" => commands += run(&content),
            None => {
                assert_eq!(info, "text", "a block that is neither shown nor run");
                pipeline
                    .extend(content.lines().filter(|line| line.starts_with("policy ")).map(str::to_owned));
            }
        }
    }
    // In the pipeline the proposal stands beside what is in force.
    fs::create_dir("main").expect("created");
    fs::rename("governance.toml", "main/governance.toml").expect("moved");
    fs::copy("proposed.toml", "governance.toml").expect("copied");
    let codes: Vec<_> = pipeline.iter().map(|command| policy(command.split(' ').skip(1)).code).collect();
    // The slip in it makes the check of expectations and the simulation say no.
    assert_eq!(codes, [0, 1, 1], "{pipeline:?}");
    fs::rename("main/governance.toml", "governance.toml").expect("moved back");
    assert!(commands >= 8, "{commands}");
    for file in ["governance.toml", "proposed.toml"] {
        assert_eq!(policy(["format", "--check", file]).code, 0, "{file} is in canonical layout");
    }
}

/// The path and the headers of a `curl` command over two lines.
fn curl(page: &str) -> (&str, Vec<(&str, &str)>) {
    let (_, command) = page.split_once("curl -i http://").expect("the command");
    let (command, _) = command.split_once("\n```").expect("the end of the block");
    let (target, headers) = command.split_once(' ').expect("headers");
    let path = &target[target.find('/').expect("a path")..];
    let headers = headers.split('\'').skip(1).step_by(2);
    (path, headers.map(|header| header.split_once(": ").expect("a header")).collect())
}

#[tokio::test]
async fn the_gateway_of_the_page_sends_what_explain_showed() {
    let page = page();
    let file = |name: &str| {
        let is_it = |block: &Block<'_>| block.info.split_once(' ').is_some_and(|(_, path)| path == name);
        blocks(&page).into_iter().rfind(is_it).unwrap_or_else(|| panic!("no {name}")).content
    };
    let folder = folder();
    fs::write(folder.join("governance.toml"), file("governance.toml")).expect("written");
    let configuration = file("gateway.toml").replacen(
        "listen = \"127.0.0.1:8181\"",
        "listen = \"127.0.0.1:0\"\nadmin_listen = \"127.0.0.1:0\"",
        1,
    );
    let gateway = Gateway::start_in(folder, &configuration, &[]).await;
    let (path, headers) = curl(&page);
    let shown =
        page.lines().find_map(|line| line.strip_prefix("  {\"required-row-filter\"")).expect("the member");
    let shown: Value = serde_json::from_str(&format!("{{\"required-row-filter\"{shown}")).expect("JSON");
    assert_eq!(gateway.get(path, &headers).await.restrictions(), Some(shown));
}
