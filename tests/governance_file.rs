//! The governance file: what is refused at start-up, and what happens when the file changes.

use std::{
    fs,
    path::{Path, PathBuf},
    thread,
    time::{Duration, Instant},
};

use futures_util::future::FutureExt;
use http::Request;
use iceberg_read_restrictions::{
    identity::{IdentitySource, Membership, Memberships, RequestUser, Subject},
    policy::{Columns, GovernanceFile, PolicySource, TableIdent, TableRequest},
};
use tempfile::TempDir;

const POLL: Duration = Duration::from_millis(10);

const RESTRICTED: &str = r#"
tags = [{ name = "t" }]
assignments = [{ object = { catalog = "prod" }, tag = "t" }]

[[policies]]
name = "nothing"
policyType = "system_row_filter"
enabled = true
content.expression = "filter := false"
tags = [{ tag = "t" }]

[groups]
auditors = ["alice"]
"#;

const OPEN: &str = r#"
tags = [{ name = "t" }]

[groups]
auditors = ["bob"]
"#;

struct Folder(TempDir);

impl Folder {
    fn new() -> Self {
        Self(TempDir::new().unwrap())
    }

    fn write(&self, name: &str, content: &str) -> PathBuf {
        let path = self.0.path().join(name);
        fs::write(&path, content).unwrap();
        path
    }

    /// The text of an error, with the folder left out.
    fn shown(&self, text: &str) -> String {
        text.replace(&format!("{}/", self.0.path().display()), "")
    }
}

/// Waits until it is so; a broken promise shows as a failure after a long while.
#[track_caller]
fn eventually(is_so: impl Fn() -> bool) {
    let start = Instant::now();
    while !is_so() {
        assert!(start.elapsed() < Duration::from_secs(60), "still not so");
        thread::sleep(Duration::from_millis(1));
    }
}

fn is_governed(file: &GovernanceFile) -> bool {
    let table = TableIdent::new("prod", ["sales"], "orders");
    let request = TableRequest { table: &table, uuid: None, columns: Columns::Known(&["id"]) };
    file.effective_policies(request).now_or_never().unwrap().unwrap().is_governed()
}

fn subject(identity: &impl IdentitySource) -> Subject {
    let (parts, ()) = Request::new(()).into_parts();
    identity.subject(&parts).now_or_never().unwrap().unwrap().unwrap()
}

fn memberships(identity: &impl IdentitySource, subject: &Subject) -> Memberships {
    identity.memberships(subject, &["auditors"]).now_or_never().unwrap().unwrap()
}

fn refused(path: &Path) -> String {
    GovernanceFile::watch(path).unwrap_err().to_string()
}

#[test]
fn the_extension_tells_the_format() {
    let folder = Folder::new();
    assert!(GovernanceFile::watch(folder.write("a.toml", "tags = []")).is_ok());
    assert!(GovernanceFile::watch(folder.write("a.json", r#"{"tags": []}"#)).is_ok());
    assert!(refused(&folder.write("b.json", "tags = []")).contains("b.json:1:2: not JSON"));
    assert!(refused(&folder.write("b.toml", r#"{"tags": []}"#)).contains("b.toml:1:1: not TOML"));
    for name in ["c.yaml", "c.TOML", "c", ".toml"] {
        let error = refused(&folder.write(name, "tags = []"));
        assert_eq!(folder.shown(&error), format!("{name}: expected a name that ends in .toml or .json"));
    }
}

#[test]
fn an_empty_file_is_valid_at_start_up() {
    let folder = Folder::new();
    for name in ["empty.toml", "empty.json"] {
        let file = GovernanceFile::watch(folder.write(name, "")).unwrap();
        assert!(!is_governed(&file));
        assert_eq!(file.status().error, None);
    }
}

#[test]
fn a_file_that_is_invalid_or_missing_stops_the_start_up() {
    let folder = Folder::new();
    let path = folder.write(
        "governance.toml",
        r#"
[[policies]]
name = "restrict_orders"
policyType = "system_row_filter"
content.expression = '''
filter := col("region") == "US" if is_group_member("auditors")
else := col("owner")
'''
tags = [{ tag = "data_domain" }]
"#,
    );
    let error = GovernanceFile::watch(&path).unwrap_err();
    assert_eq!(error.file(), Some(&*path));
    assert_eq!(
        folder.shown(&error.render()),
        r#"governance.toml:7:9: policy `restrict_orders`: expression line 2, column 9: a bare column is not a predicate; write `col("owner") == true`
    |
  2 | else := col("owner")
    |         ^^^^^^^^^^^^
governance.toml:9:9: policy `restrict_orders`: tag `data_domain` is not declared
"#
    );
    let [expression, relation] = error.problems() else { panic!("{error}") };
    assert_eq!((expression.policy(), expression.position()), (Some("restrict_orders"), Some((7, 9))));
    assert_eq!(expression.expression().map(|error| error.position()), Some((2, 9)));
    assert_eq!(relation.expression(), None);

    let missing = refused(&folder.0.path().join("missing.toml"));
    assert!(folder.shown(&missing).starts_with("missing.toml: cannot be read: "), "{missing}");
}

#[test]
fn a_change_takes_effect_whole() {
    let folder = Folder::new();
    let path = folder.write("governance.toml", RESTRICTED);
    let file = GovernanceFile::watch_every(&path, POLL).unwrap();
    let same = file.clone();
    let (revision, identity) =
        (file.current().revision().clone(), file.current().identity_revision().clone());
    assert!(is_governed(&file));

    folder.write("governance.toml", OPEN);
    eventually(|| !is_governed(&file));
    assert!(!is_governed(&same));
    assert_ne!(file.current().revision(), &revision);
    assert_ne!(file.current().identity_revision(), &identity);
    assert_eq!(file.current().groups().members("auditors").unwrap().first().unwrap(), "bob");

    folder.write("governance.toml", RESTRICTED);
    eventually(|| is_governed(&file));
    assert_eq!(file.current().revision(), &revision, "equal content, equal revision");
    assert_eq!(file.current().identity_revision(), &identity);
}

#[test]
fn the_last_good_content_stays_in_force_with_its_age_visible() {
    let folder = Folder::new();
    let path = folder.write("governance.toml", RESTRICTED);
    let file = GovernanceFile::watch_every(&path, POLL).unwrap();
    let bad = [RESTRICTED.replace("false", "col(\"x\")"), String::new(), "tags = [".to_owned()];
    for bad in bad {
        folder.write("governance.toml", &bad);
        eventually(|| file.status().error.is_some());
        assert!(is_governed(&file));
        // The age grows as long as the file stays as it is.
        let age = file.status().age.unwrap();
        eventually(|| file.status().age.unwrap() > age + 3 * POLL);
        folder.write("governance.toml", RESTRICTED);
        eventually(|| file.status().error.is_none());
        assert!(is_governed(&file));
    }
    fs::remove_file(&path).unwrap();
    eventually(|| file.status().error.is_some());
    assert!(is_governed(&file));
    let new = folder.write("new", OPEN);
    fs::rename(new, &path).unwrap();
    eventually(|| !is_governed(&file));
    assert_eq!(file.status().error, None);
}

#[test]
fn a_directory_follows_the_groups_of_the_file() {
    let folder = Folder::new();
    let path = folder.write("governance.toml", RESTRICTED);
    let file = GovernanceFile::watch_every(&path, POLL).unwrap();
    let directory = file.directory(RequestUser::fixed("alice"));
    let before = subject(&directory);
    assert_eq!(memberships(&directory, &before).of("auditors"), Membership::Member);

    folder.write("governance.toml", OPEN);
    eventually(|| !is_governed(&file));
    let answers = memberships(&directory, &before);
    assert_eq!(answers.of("auditors"), Membership::Member, "from the snapshot of the subject");
    assert_eq!(answers.revision(), before.revision());

    let after = subject(&directory);
    assert_ne!(after.revision(), before.revision());
    assert_eq!(memberships(&directory, &after).of("auditors"), Membership::NotMember);

    folder.write("governance.toml", "tags = [{ name = \"t\" }]");
    eventually(|| file.current().groups().names().next().is_none());
    let without = subject(&directory);
    assert_eq!(memberships(&directory, &without).of("auditors"), Membership::UnknownGroup);
}
