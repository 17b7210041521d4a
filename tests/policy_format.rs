//! `policy format`: one layout, the same meaning, the same comments.

mod program;

use std::fs;

use iceberg_read_restrictions::policy::{Format, Governance};
use program::{Run, example, policy};

/// Formats a text as a file of this name would be.
fn format(name: &str, text: &str, more: &[&str]) -> (Run, String) {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join(name);
    fs::write(&path, text).expect("written");
    let path_text = path.to_str().expect("UTF-8");
    let run = policy([&["format", path_text], more].concat());
    (run, fs::read_to_string(&path).expect("readable"))
}

fn formatted(name: &str, text: &str) -> String {
    let (run, left) = format(name, text, &[]);
    assert_eq!((run.code, &*run.stderr, &*left), (0, "", text), "printing changes no file");
    run.stdout
}

/// Everything that can stand in a file, in an order and a layout that nobody would choose.
const MESSY: &str = r##"# About the file.
#   Indented.

# About the first assignment.
[[assignments]] # beside its header
tag="pii"
object = { namespace = ["sales"], catalog = "prod" } # beside the object
values = [ "a", # beside a
  # above b
  "b"
  # below b
]


# ----- policies -----

# About p1.
[[policies]]
enabled = true
tags = [ { except = { users = ["x'y", 'q"r'] }, tag = "pii" }, {tag="a_tag_with_quite_a_long_name", selector = {value="a_value", type = "TAG_VALUE"}} ]
# above content
content.expression = "filter := col(\"a\") == \"O'Brien\""   # beside the expression
policyType = "system_row_filter"
name = "p1"
comment = "it's"

[[policies]]
name = "p2"
policyType = "custom"
[policies.content] # of another type
z = 1
a = { k = [1, 2] } # beside a member
[[policies.tags]]
# in the relation
tag = "pii"

[[policies]]
policyType = "system_column_mask"
name = "p3"
content = { expression = """
mask := action("mask-alphanum") if is_group_member("b")
else := action("replace-with-null")
""" }

[groups]
# above b
b = ["x"]
a = [] # beside a group

[[tags]]
name = "pii"
[[tags]]
allowedValues = ["a_value"]
name = "a_tag_with_quite_a_long_name"
# the end
"##;

const TIDY: &str = r##"# About the file.
#   Indented.

[[tags]]
name = "pii"

[[tags]]
name = "a_tag_with_quite_a_long_name"
allowedValues = ["a_value"]

# ----- policies -----

# About p1.
[[policies]]
name = "p1"
comment = "it's"
policyType = "system_row_filter"
enabled = true
# above content
content.expression = '''filter := col("a") == "O'Brien"''' # beside the expression
tags = [
    { tag = "pii", except = { users = ["x'y", 'q"r'] } },
    { tag = "a_tag_with_quite_a_long_name", selector = { type = "TAG_VALUE", value = "a_value" } },
]

[[policies]]
name = "p2"
policyType = "custom"
# of another type
content.z = 1
content.a = { k = [1, 2] } # beside a member
tags = [
    # in the relation
    { tag = "pii" },
]

[[policies]]
name = "p3"
policyType = "system_column_mask"
content.expression = '''
mask := action("mask-alphanum") if is_group_member("b")
else := action("replace-with-null")
'''

# About the first assignment.
[[assignments]] # beside its header
object = { catalog = "prod", namespace = ["sales"] } # beside the object
tag = "pii"
values = [
    "a", # beside a
    # above b
    "b",
    # below b
]

[groups]
# above b
b = ["x"]
a = [] # beside a group

# the end
"##;

fn comments(text: &str) -> Vec<&str> {
    let mut comments: Vec<_> =
        text.lines().filter_map(|line| line.find('#').map(|start| line[start..].trim_end())).collect();
    comments.sort_unstable();
    comments
}

fn revisions(text: &str, format: Format) -> (String, String) {
    let governance = Governance::parse(text, format).expect("valid");
    (governance.revision().to_string(), governance.identity_revision().to_string())
}

#[test]
fn everything_finds_its_place() {
    let text = formatted("g.toml", MESSY);
    assert_eq!(text, TIDY);
    assert_eq!(comments(&text), comments(MESSY), "no comment is lost");
}

#[test]
fn the_layout_is_stable_and_means_the_same() {
    for text in
        [MESSY, TIDY, "", "# nothing but a comment", "# a\n\n# b\n", "tags = []\n[groups]\n", "policies = []"]
    {
        let once = formatted("g.toml", text);
        assert_eq!(formatted("g.toml", &once), once, "from {text:?}");
        assert_eq!(revisions(&once, Format::Toml), revisions(text, Format::Toml));
        assert_eq!(comments(&once), comments(text));
    }
}

#[test]
fn strings_keep_their_value_in_any_notation() {
    for name in [
        "plain",
        "it's",
        "q\"q",
        "'\"",
        "'''",
        "a\nb",
        "tab\tbed",
        "\u{7f}",
        "\\",
        "ends'",
        "\u{1}\n'''",
        " ",
    ] {
        let tag = serde_json::to_string(&format!("x{name}")).unwrap().replace('\u{7f}', "\\u007f");
        let text = format!(
            "tags = [{{ name = {tag} }}]\nassignments = [{{ object = {{ catalog = {tag} }}, tag = {tag} }}]"
        );
        let once = formatted("g.toml", &text);
        assert_eq!(revisions(&once, Format::Toml), revisions(&text, Format::Toml), "{once}");
        assert_eq!(formatted("g.toml", &once), once);
    }
}

#[test]
fn json_has_a_layout_too() {
    let text = r#"{"groups":{"b":["x","y"],"a":[]},"policies":[{"tags":[{"selector":{"value":"v","type":"TAG_VALUE"},"tag":"t"}],
        "content":{"expression":"filter := col(\"a\") == 1"},"policyType":"system_row_filter","name":"p","enabled":true},
        {"name":"q","policyType":"custom","content":{"z":1e400,"a":{}}}],"tags":[{"name":"t"}]}"#;
    let once = formatted("g.json", text);
    assert_eq!(
        once,
        r#"{
  "tags": [
    {
      "name": "t"
    }
  ],
  "policies": [
    {
      "name": "p",
      "policyType": "system_row_filter",
      "enabled": true,
      "content": {
        "expression": "filter := col(\"a\") == 1"
      },
      "tags": [
        {
          "tag": "t",
          "selector": {
            "type": "TAG_VALUE",
            "value": "v"
          }
        }
      ]
    },
    {
      "name": "q",
      "policyType": "custom",
      "content": {
        "z": 1e400,
        "a": {}
      }
    }
  ],
  "groups": {
    "b": ["x", "y"],
    "a": []
  }
}
"#
    );
    assert_eq!(formatted("g.json", &once), once);
    assert_eq!(revisions(&once, Format::Json), revisions(text, Format::Json));
}

#[test]
fn files_are_written_or_checked_when_asked() {
    let (run, left) = format("g.toml", MESSY, &["--write"]);
    assert_eq!((run.code, &*run.stdout, &*left), (0, "", TIDY));
    let (run, left) = format("g.toml", MESSY, &["--check"]);
    assert_eq!((run.code, &*left), (1, MESSY));
    assert!(run.stdout.contains("not in canonical layout"), "{run:?}");
    let (run, _) = format("g.toml", TIDY, &["--check"]);
    assert_eq!((run.code, &*run.stdout), (0, ""));
    let (run, _) = format("g.toml", MESSY, &["--json"]);
    assert_eq!((run.json()["changed"].as_bool(), run.json()["text"].as_str()), (Some(true), Some(TIDY)));
}

#[test]
fn an_invalid_file_is_left_alone() {
    for text in
        ["[[tags]]\nnam = 1", "tags = [", "[[policies]]\nname = \"p\"\npolicyType = \"system_row_filter\""]
    {
        let (run, left) = format("g.toml", text, &["--write"]);
        assert_eq!((run.code, &*run.stdout, &*left), (2, "", text));
        assert!(run.stderr.contains("g.toml"), "{run:?}");
    }
    assert_eq!(policy(["format", "no-such.toml"]).code, 2);
}

#[test]
fn the_worked_example_is_in_canonical_layout() {
    for file in ["governance.toml", "proposed.toml"] {
        let path = example(file);
        assert_eq!(policy(["format".as_ref(), "--check".as_ref(), path.as_os_str()]).code, 0, "{file}");
    }
}
