//! The worked example: it is what its files say, and any damage to it is found and pointed at.

mod program;

use std::{fs, path::Path};

use iceberg_read_restrictions::policy::{Format, Governance};
use program::{Run, example, policy};
use serde_json::Value;
use tempfile::TempDir;

fn governance() -> String {
    fs::read_to_string(example("governance.toml")).expect("readable")
}

fn check(governance: &Path) -> Run {
    let (tables, expected) = (example("tables"), example("expected.toml"));
    let [check, file, folder, expect] = ["check", "--governance", "--tables", "--expect"].map(str::as_ref);
    policy([
        check,
        file,
        governance.as_os_str(),
        folder,
        tables.as_os_str(),
        expect,
        expected.as_os_str(),
        "--strict".as_ref(),
        "--json".as_ref(),
    ])
}

#[test]
fn it_is_valid_and_everybody_gets_what_is_expected() {
    for file in ["governance.toml", "proposed.toml"] {
        assert!(
            Governance::parse(&fs::read_to_string(example(file)).unwrap(), Format::Toml).is_ok(),
            "{file}"
        );
    }
    let run = check(&example("governance.toml"));
    assert_eq!((run.code, &*run.stderr), (0, ""), "{run:?}");
    let told: Vec<_> =
        findings(&run).into_iter().filter(|finding| finding["severity"] != "information").collect();
    assert_eq!(told, [] as [Value; 0]);
}

/// Errors and warnings, and all that they say as one text.
fn findings(run: &Run) -> Vec<Value> {
    run.json()["findings"].as_array().expect("findings").clone()
}

struct Damage {
    folder: TempDir,
    undamaged: Governance,
}

impl Damage {
    fn new() -> Self {
        let undamaged = Governance::parse(&governance(), Format::Toml).expect("valid");
        Self { folder: tempfile::tempdir().expect("a folder"), undamaged }
    }

    /// Whether the text still means the same.
    fn means_the_same(&self, text: &str) -> bool {
        Governance::parse(text, Format::Toml).is_ok_and(|damaged| {
            damaged.revision() == self.undamaged.revision()
                && damaged.identity_revision() == self.undamaged.identity_revision()
        })
    }

    /// Checks a text that was damaged in one line. A finding must name that place of the file, or something
    /// that the declaration there is about, as it is or as it was.
    fn assert_found(&self, text: &str, undamaged: &str, line: usize) {
        if self.means_the_same(text) {
            return;
        }
        let path = self.folder.path().join("governance.toml");
        fs::write(&path, text).expect("written");
        let run = check(&path);
        let what = text.lines().nth(line - 1).unwrap_or_default();
        assert_eq!(run.code, 1, "line {line}: {what}\n{run:?}");
        let block = Block::around(undamaged, line);
        let words = [&block.words[..], &Block::around(text, line).words].concat();
        let points_at = |finding: &Value| {
            // A quote or a bracket that is missing is noticed where the next one makes no sense.
            let is_syntax =
                finding["message"].as_str().is_some_and(|message| message.starts_with("not TOML"));
            let place = finding["file"]["line"].as_u64();
            let at_line = place.is_some_and(|place| block.has(place) || (is_syntax && place > line as u64));
            let found = finding.to_string();
            finding["severity"] != "information" && (at_line || words.iter().any(|word| found.contains(word)))
        };
        assert!(findings(&run).iter().any(points_at), "{words:?}, line {line}: {what}\n{run:#?}");
    }
}

/// A declaration of the file: from its header to the next.
struct Block<'a> {
    first_line: usize,
    last_line: usize,
    /// What stands in quotes. The catalog and the one namespace are in most findings about a table, so they point at nothing.
    words: Vec<&'a str>,
}

impl<'a> Block<'a> {
    fn around(text: &'a str, line: usize) -> Self {
        let lines: Vec<_> = text.lines().collect();
        // Where the last line is gone, the one before stands for it.
        let line = line.min(lines.len());
        let is_header = |line: &&str| line.starts_with('[');
        let start = lines[..line].iter().rposition(is_header).unwrap_or(0);
        let end = lines[line..].iter().position(is_header).map_or(lines.len(), |end| line + end);
        let block =
            lines[start..end].iter().filter(|line| !line.starts_with('#') && !line.starts_with("comment"));
        let words = block.flat_map(|line| line.split('"').skip(1).step_by(2));
        let words = words.filter(|word| !word.is_empty() && !["prod", "sales"].contains(word)).collect();
        Self { first_line: start + 1, last_line: end, words }
    }

    fn has(&self, line: u64) -> bool {
        (self.first_line as u64..=self.last_line as u64).contains(&line)
    }
}

/// Damages each character of the file that is no comment, and gives how many were tried.
fn damage_each(wanted: impl Fn(char) -> bool, damaged: impl Fn(char) -> Option<&'static str>) -> usize {
    let damage = Damage::new();
    let text = governance();
    let mut line = 1;
    let mut tried = 0;
    for (offset, character) in text.char_indices() {
        if character == '\n' {
            line += 1;
        }
        let in_line = text.lines().nth(line - 1).unwrap_or_default();
        // Another name for a policy is another name and no damage, and a comment says nothing to the program.
        let is_policy_name = in_line.starts_with("name = ")
            && text[..offset].rfind("[[policies]]") > text[..offset].rfind("[[tags]]");
        let is_comment = in_line.starts_with('#') || in_line.starts_with("comment = ");
        if character.is_whitespace() || is_policy_name || is_comment || !wanted(character) {
            continue;
        }
        let mut text = text.clone();
        text.replace_range(offset..offset + character.len_utf8(), damaged(character).unwrap_or_default());
        damage.assert_found(&text, &governance(), line);
        tried += 1;
    }
    tried
}

#[test]
fn one_wrong_character_is_found() {
    let tried = damage_each(|_| true, |character| Some(if character == 'q' { "z" } else { "q" }));
    assert!(tried > 2200, "{tried}");
}

#[test]
fn one_missing_character_is_found() {
    let tried = damage_each(|character| !character.is_ascii_alphanumeric(), |_| None);
    assert!(tried > 600, "{tried}");
}

#[test]
fn one_missing_member_is_found() {
    let damage = Damage::new();
    let text = governance();
    let lines: Vec<_> = text.lines().collect();
    let mut first = 0;
    while first < lines.len() {
        let end = member_end(&lines, first);
        // Without `allowedValues` a tag takes any value, which changes nothing for anybody.
        let is_member = !lines[first].is_empty() && !lines[first].starts_with('#');
        if is_member && !lines[first].starts_with("allowedValues") {
            let damaged = [&lines[..first], &lines[end..]].concat().join("\n");
            damage.assert_found(&damaged, &text, first + 1);
        }
        first = end;
    }
}

/// Behind the last line of the member that begins in this line.
fn member_end(lines: &[&str], first: usize) -> usize {
    let closing = match lines[first] {
        line if line.ends_with("= '''") => "'''",
        line if line.ends_with("= [") => "]",
        _ => return first + 1,
    };
    let length = lines[first..].iter().position(|line| *line == closing).expect("the end of the value");
    first + length + 1
}

#[test]
fn the_proposed_change_widens_for_auditors_only() {
    let [before, after, tables] = ["governance.toml", "proposed.toml", "tables"].map(example);
    let [simulate, b, a, t, s] =
        ["simulate", "--before", "--after", "--tables", "--subjects"].map(str::as_ref);
    let run = policy([
        simulate,
        b,
        before.as_os_str(),
        a,
        after.as_os_str(),
        t,
        tables.as_os_str(),
        s,
        "alice,sam,eve".as_ref(),
        "--json".as_ref(),
    ]);
    assert_eq!(run.code, 1, "{run:?}");
    let effects: Vec<_> = run.json()["changes"]
        .as_array()
        .expect("changes")
        .iter()
        .map(|change| {
            let text = |value: &Value| value.as_str().unwrap().to_owned();
            (text(&change["table"]["table"]), text(&change["subject"]), text(&change["effect"]))
        })
        .collect();
    let expected = [
        ("customers", "alice", "widens"),
        ("customers", "eve", "narrows"),
        ("orders", "alice", "widens"),
        ("orders", "eve", "narrows"),
    ];
    assert_eq!(
        effects,
        expected.map(|(table, subject, effect)| (table.into(), subject.into(), effect.into()))
    );
}
