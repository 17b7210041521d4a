//! `policy check`: each diagnostic, with everything that it has to say.

mod program;

use std::{fs, path::Path};

use program::{Run, policy};
use serde_json::Value;
use tempfile::TempDir;

/// A table with the usual columns, one of them dropped and one renamed.
const ORDERS: &str = r#"{"metadata": {"format-version": 2, "current-schema-id": 1, "schemas": [
  {"type": "struct", "schema-id": 0, "fields": [
    {"id": 1, "name": "id", "required": true, "type": "long"},
    {"id": 6, "name": "card", "required": false, "type": "string"},
    {"id": 7, "name": "mail", "required": false, "type": "string"}]},
  {"type": "struct", "schema-id": 1, "fields": [
    {"id": 1, "name": "id", "required": true, "type": "long"},
    {"id": 2, "name": "region", "required": false, "type": "string"},
    {"id": 3, "name": "owner", "required": true, "type": "string"},
    {"id": 4, "name": "phone", "required": false, "type": "string"},
    {"id": 5, "name": "paid", "required": false, "type": "boolean"},
    {"id": 7, "name": "email", "required": false, "type": "string"}]}]}}"#;

struct Check {
    folder: TempDir,
}

impl Check {
    /// A governance file, and one table `prod.sales.orders`.
    fn of(governance: &str) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        fs::write(folder.path().join("governance.toml"), governance).expect("written");
        Self { folder }.with("tables/prod/sales/orders.json", ORDERS)
    }

    /// Row filters on the table, by name.
    fn of_filters(filters: &[(&str, &str)]) -> Self {
        Self::of(&model("system_row_filter", filters, "table = \"orders\"", ""))
    }

    /// Masks on a column of the table.
    fn of_masks(column: &str, masks: &[(&str, &str)]) -> Self {
        Self::of(&model("system_column_mask", masks, &format!("table = \"orders\", column = {column:?}"), ""))
    }

    fn with(self, path: &str, content: &str) -> Self {
        let path = self.folder.path().join(path);
        fs::create_dir_all(path.parent().expect("a parent")).expect("created");
        fs::write(path, content).expect("written");
        self
    }

    fn path(&self, name: &str) -> String {
        self.folder.path().join(name).to_str().expect("UTF-8").to_owned()
    }

    fn run(&self, more: &[&str]) -> Run {
        let mut arguments = vec!["check".to_owned(), "--governance".into(), self.path("governance.toml")];
        arguments.extend(["--tables".into(), self.path("tables")]);
        arguments.extend(more.iter().map(|argument| (*argument).to_owned()));
        policy(arguments)
    }

    fn findings(&self) -> Vec<Value> {
        self.run(&["--json"]).json()["findings"].as_array().expect("findings").clone()
    }

    /// The one finding whose message contains this.
    fn finding(&self, message: &str) -> Value {
        let findings = self.findings();
        let is = |finding: &&Value| finding["message"].as_str().is_some_and(|found| found.contains(message));
        let mut found = findings.iter().filter(is);
        match (found.next(), found.next()) {
            (Some(finding), None) => finding.clone(),
            _ => panic!("not one finding `{message}` in {findings:#?}"),
        }
    }

    fn assert_nothing(&self, message: &str) {
        let findings = self.findings();
        let found = findings.iter().find(|finding| finding["message"].as_str().unwrap().contains(message));
        assert!(found.is_none(), "{found:?}");
    }
}

/// Policies of one type, all bound to one tag that is on one object.
fn model(policy_type: &str, policies: &[(&str, &str)], object: &str, more: &str) -> String {
    let mut text = String::from("[[tags]]\nname = \"t\"\n");
    for (name, expression) in policies {
        text.push_str(&format!(
            "[[policies]]\nname = {name:?}\npolicyType = {policy_type:?}\nenabled = true\n\
             content.expression = '''{expression}'''\ntags = [{{ tag = \"t\" }}]\n"
        ));
    }
    text.push_str(&format!(
        "[[assignments]]\nobject = {{ catalog = \"prod\", namespace = [\"sales\"], {object} }}\ntag = \"t\"\n\
         [groups]\nauditors = [\"alice\"]\nclerks = [\"bob\"]\nguests = []\n{more}"
    ));
    text
}

fn severity(finding: &Value) -> &str {
    finding["severity"].as_str().expect("a severity")
}

/// Policy, table and column of a finding.
fn about(finding: &Value) -> [Option<&str>; 3] {
    [finding["policy"].as_str(), finding["table"]["table"].as_str(), finding["column"].as_str()]
}

/// The part of the expression that the carets stand under.
fn pointed_at(finding: &Value) -> String {
    let shown: Vec<_> = finding["expression"]["shown"]
        .as_array()
        .expect("a place")
        .iter()
        .map(|line| line.as_str().unwrap())
        .collect();
    let [_, line, carets] = shown[..] else { panic!("{shown:?}") };
    let start = carets.find('^').expect("carets");
    line.chars().skip(start).take(carets.matches('^').count()).collect()
}

#[test]
fn a_missing_column_in_any_branch() {
    let check = Check::of_filters(&[(
        "p",
        "filter := true if is_group_member(\"auditors\")\nelse := col(\"Region\") == \"US\" and col(\"no\") == 1",
    )]);
    let finding = check.finding("no column `Region`; did you mean `region`?");
    assert_eq!((severity(&finding), about(&finding)), ("error", [Some("p"), Some("orders"), Some("Region")]));
    assert_eq!(pointed_at(&finding), "col(\"Region\")");
    assert_eq!((&finding["expression"]["line"], &finding["expression"]["column"]), (&2.into(), &9.into()));
    let other = check.finding("no column `no`");
    assert_eq!(pointed_at(&other), "col(\"no\")");
    assert_eq!(check.run(&[]).code, 1);
}

#[test]
fn a_literal_that_does_not_fit() {
    let check = Check::of_filters(&[("p", "filter := col(\"id\") == \"x\" or col(\"id\") in [1, 1.5]")]);
    for (message, place) in [("a number", "\"x\""), ("not an integer", "1.5")] {
        let finding = check.finding(message);
        assert_eq!((severity(&finding), about(&finding)), ("error", [Some("p"), Some("orders"), Some("id")]));
        assert_eq!(pointed_at(&finding), place);
    }
}

#[test]
fn a_null_test_of_a_required_column_and_an_order_of_a_boolean_one() {
    let check = Check::of_filters(&[("p", "filter := col(\"owner\") != null and col(\"paid\") < true")]);
    assert_eq!(about(&check.finding("never null"))[2], Some("owner"));
    assert_eq!(about(&check.finding("boolean"))[2], Some("paid"));
}

#[test]
fn an_action_that_does_not_fit_in_any_branch() {
    let check = Check::of_masks(
        "id",
        &[(
            "p",
            "mask := action(\"sha-256-global\") if is_group_member(\"auditors\") else := action(\"mask-alphanum\")",
        )],
    );
    let finding = check.finding("does not fit a column of type long");
    assert_eq!((severity(&finding), about(&finding)), ("error", [Some("p"), Some("orders"), Some("id")]));
    assert_eq!(pointed_at(&finding), "action(\"mask-alphanum\")");
    assert!(finding["message"].as_str().unwrap().contains("tag `t`"), "{finding}");
}

#[test]
fn a_required_column_with_replace_with_null() {
    let check = Check::of_masks("owner", &[("p", "mask := action(\"replace-with-null\")")]);
    let finding = check.finding("does not fit a required column");
    assert_eq!((severity(&finding), about(&finding)), ("error", [Some("p"), Some("orders"), Some("owner")]));
    assert_eq!(pointed_at(&finding), "action(\"replace-with-null\")");
}

#[test]
fn a_named_column_that_is_nowhere_or_was_renamed() {
    let nowhere = Check::of_masks("Phone", &[("p", "mask := action(\"mask-alphanum\")")]);
    let finding = nowhere.finding("did you mean `phone`?");
    assert_eq!((severity(&finding), about(&finding)), ("error", [Some("p"), Some("orders"), Some("Phone")]));
    let renamed = Check::of_masks("mail", &[("p", "mask := action(\"mask-alphanum\")")]);
    let finding = renamed.finding("renamed to `email`");
    assert_eq!((severity(&finding), about(&finding)), ("error", [Some("p"), Some("orders"), Some("mail")]));
    let dropped = Check::of_masks("card", &[("p", "mask := action(\"mask-alphanum\")")]);
    assert_eq!(dropped.findings(), [] as [Value; 0]);
}

#[test]
fn a_conflict_for_everybody() {
    let check = Check::of_filters(&[("a", "filter := col(\"region\") == \"US\""), ("b", "filter := true")]);
    let finding = check.finding("conflicting row filters: `a`, `b`");
    assert_eq!((severity(&finding), about(&finding)), ("error", [None, Some("orders"), None]));
    assert!(finding["message"].as_str().unwrap().ends_with("for every subject"), "{finding}");
}

#[test]
fn a_conflict_for_those_in_a_group() {
    let check = Check::of_masks(
        "phone",
        &[
            (
                "a",
                "mask := action(\"show-last-4\") if is_group_member(\"auditors\") else := action(\"replace-with-null\")",
            ),
            ("b", "mask := action(\"replace-with-null\")"),
        ],
    );
    let finding =
        check.finding("conflicting masks on column `phone`: `a`, `b`, for `alice`, who is in `auditors`");
    assert_eq!((severity(&finding), about(&finding)), ("error", [None, Some("orders"), Some("phone")]));
}

#[test]
fn a_conflict_for_those_in_a_group_that_has_no_members_yet() {
    let check =
        Check::of_filters(&[("a", "filter := is_group_member(\"guests\")"), ("b", "filter := false")]);
    let finding = check.finding("conflicting row filters");
    assert_eq!(severity(&finding), "warning");
    assert!(
        finding["message"].as_str().unwrap().contains("`guests`, which nobody is at present"),
        "{finding}"
    );
    let elsewhere = check.run(&["--json", "--groups-elsewhere"]).json();
    assert_eq!(elsewhere["findings"][0]["severity"], "error", "{elsewhere}");
}

#[test]
fn policies_that_mean_the_same_conflict_by_policy_only() {
    let check = Check::of_filters(&[("a", "filter := false"), ("b", "filter := not true")]);
    assert_eq!(check.findings(), [] as [Value; 0]);
    assert_eq!(check.run(&["--conflict", "by-policy"]).code, 1);
}

#[test]
fn what_is_wrong_with_one_policy_does_not_hide_another() {
    let check = Check::of_filters(&[
        ("a", "filter := col(\"no\") == 1"),
        ("b", "filter := col(\"never\") == 1"),
        ("c", "filter := true"),
        ("d", "filter := false"),
    ]);
    for message in ["no column `no`", "no column `never`", "conflicting row filters: `c`, `d`"] {
        check.finding(message);
    }
}

#[test]
fn a_group_that_nobody_defined() {
    let check = Check::of_filters(&[("p", "filter := is_group_member(\"Auditors\")")]);
    let finding = check.finding("group `Auditors` is defined by nobody; did you mean `auditors`?");
    assert_eq!((severity(&finding), about(&finding)[0]), ("error", Some("p")));
    assert_eq!(pointed_at(&finding), "is_group_member(\"Auditors\")");
    assert_eq!(check.run(&[]).code, 1);
    assert_eq!(check.run(&["--groups-elsewhere"]).code, 0);
}

#[test]
fn a_group_in_an_exemption_that_nobody_defined() {
    let check = Check::of(
        &model("system_row_filter", &[("p", "filter := true")], "table = \"orders\"", "")
            .replace("tags = [{ tag = \"t\" }]", "tags = [{ tag = \"t\", except = { groups = [\"etl\"] } }]"),
    );
    let finding = check.finding("group `etl` is defined by nobody");
    assert_eq!((severity(&finding), about(&finding)[0]), ("error", Some("p")));
}

#[test]
fn policies_and_tags_that_reach_nothing() {
    let policies = [("p", "filter := false")];
    let elsewhere = Check::of(&model("system_row_filter", &policies, "table = \"Orders\"", ""));
    assert_eq!(
        severity(&elsewhere.finding("did you mean table \"orders\" in namespace [\"sales\"]")),
        "warning"
    );
    let policy =
        elsewhere.findings().into_iter().find(|finding| finding["policy"] == "p").expect("a finding");
    assert_eq!(policy["message"], "reaches no table of the folder");

    let unbound = model("system_row_filter", &policies, "table = \"orders\"", "")
        .replace("tags = [{ tag = \"t\" }]", "");
    let unbound = Check::of(&unbound);
    assert_eq!(about(&unbound.finding("bound to no tag"))[0], Some("p"));
    unbound.finding("tag `t` reaches nothing: no policy is bound to it");

    let value = model("system_row_filter", &policies, "table = \"orders\"", "")
        .replace("{ tag = \"t\" }", "{ tag = \"t\", selector = { type = \"TAG_VALUE\", value = \"Risk\" } }")
        .replace("[groups]", "values = [\"risk\"]\n[groups]");
    let finding = Check::of(&value).finding("has the value `Risk`; did you mean `risk`?");
    assert_eq!((severity(&finding), about(&finding)[0]), ("warning", Some("p")));

    let on_column =
        Check::of(&model("system_row_filter", &policies, "table = \"orders\", column = \"phone\"", ""));
    on_column.finding("on columns only, which play no part for a row filter");
}

#[test]
fn an_assignment_to_a_column_that_no_schema_has() {
    let check = Check::of(&model("system_row_filter", &[("p", "filter := true")], "table = \"orders\"", "").replace(
        "[groups]",
        "[[assignments]]\nobject = { catalog = \"prod\", namespace = [\"sales\"], table = \"orders\", column = \"phome\" }\n\
         tag = \"t\"\n[groups]",
    ));
    let finding = check.finding("no schema of the table has; did you mean `phone`?");
    assert_eq!((severity(&finding), about(&finding)[2]), ("warning", Some("phome")));
}

#[test]
fn report_only_and_disabled_policies_are_warned_of() {
    let filters = [("p", "filter := col(\"no\") == 1")];
    let text = model("system_row_filter", &filters, "table = \"orders\"", "");
    let report_only = Check::of(&text.replace("enabled = true", "enabled = true\nenforce = false"));
    assert_eq!(severity(&report_only.finding("REPORT-ONLY")), "warning");
    assert_eq!(severity(&report_only.finding("no column `no`")), "warning", "no load is refused for it");
    assert_eq!((report_only.run(&[]).code, report_only.run(&["--strict"]).code), (0, 1));

    let disabled = Check::of(&text.replace("enabled = true", ""));
    assert_eq!(severity(&disabled.finding("not enabled")), "warning");
    disabled.assert_nothing("no column");
    let foreign = Check::of(&text.replace("system_row_filter", "system_row_filte"));
    foreign.finding("did you mean `system_row_filter`?");
}

#[test]
fn comparisons_that_keep_rows_with_a_null() {
    for (expression, place) in [
        ("filter := col(\"region\") != \"US\"", Some("col(\"region\") != \"US\"")),
        ("filter := col(\"region\") < \"US\"", Some("col(\"region\") < \"US\"")),
        ("filter := not (\"US\" < col(\"region\"))", Some("\"US\" < col(\"region\")")),
        ("filter := not col(\"region\") in [\"US\", \"DE\"]", Some("col(\"region\") in [\"US\", \"DE\"")),
        ("filter := col(\"region\") != session_user()", Some("col(\"region\")")),
        ("filter := true if col(\"region\") <= \"US\" else := false", Some("col(\"region\") <= \"US\"")),
        ("filter := col(\"region\") == \"US\"", None),
        ("filter := col(\"region\") > \"US\"", None),
        ("filter := not (col(\"region\") <= \"US\")", None),
        ("filter := col(\"owner\") != \"x\"", None),
        ("filter := col(\"region\") != \"US\" and col(\"region\") != null", None),
        ("filter := not (col(\"region\") == \"US\" or col(\"region\") == null)", None),
        ("filter := false if col(\"region\") == null else := col(\"region\") != \"US\"", None),
        ("filter := col(\"region\") != \"US\" and col(\"region\") > \"A\"", None),
    ] {
        let check = Check::of_filters(&[("p", expression)]);
        match place {
            None => check.assert_nothing("null"),
            Some(place) => {
                let finding = check.finding("with a null `region`");
                assert_eq!(severity(&finding), "information");
                assert_eq!(about(&finding), [Some("p"), Some("orders"), Some("region")]);
                assert_eq!(pointed_at(&finding), place);
            }
        }
    }
}

#[test]
fn masks_that_show_four_characters() {
    let check = Check::of_masks("phone", &[("p", "mask := action(\"show-first-4\")")]);
    let finding = check.finding("in clear");
    assert_eq!(
        (severity(&finding), about(&finding)),
        ("information", [Some("p"), Some("orders"), Some("phone")])
    );
    assert_eq!(check.run(&["--strict"]).code, 0, "information is no warning");
}

#[test]
fn an_invalid_file_is_told_with_every_problem() {
    let check = Check::of(
        "[[tags]]\nname = \"t\"\nnam = 1\n[[policies]]\nname = \"p\"\npolicyType = \"system_row_filter\"\n\
                           content.expression = 'filter := col(\"a\") =='\n",
    );
    let run = check.run(&["--json"]);
    assert_eq!(run.code, 1);
    let findings = run.json()["findings"].as_array().unwrap().clone();
    assert_eq!(findings.len(), 2, "{findings:#?}");
    assert_eq!(findings[0]["file"]["line"], 3);
    assert_eq!((&findings[1]["policy"], &findings[1]["file"]["line"]), (&"p".into(), &7.into()));
    assert!(findings[1]["expression"]["shown"].is_array());
    let text = check.run(&[]).stdout;
    assert!(text.contains("governance.toml:7:"), "{text}");
}

#[test]
fn unreadable_input_does_not_stop_the_check() {
    let check = Check::of_filters(&[("p", "filter := col(\"no\") == 1")])
        .with("tables/prod/sales/broken.json", "{")
        .with("tables/prod/stray.json", "{}")
        .with("tables/prod/sales/readme.md", "no table")
        .with("tables/prod/sales/%ff.json", ORDERS)
        .with("tables/prod/sales/zebra.json", ORDERS);
    assert_eq!(severity(&check.finding("is not JSON")), "error");
    assert_eq!(severity(&check.finding("a table lies at")), "warning");
    assert_eq!(severity(&check.finding("its name is not UTF-8")), "warning");
    check.finding("no column `no`");
    let run = check.run(&["--json"]);
    assert_eq!((run.code, &run.json()["tables"]), (2, &3.into()));
    assert_eq!(policy(["check", "--governance", "no-such.toml"]).code, 2);
    assert_eq!(check.run(&["--expect", "no-such.toml"]).code, 2);
}

#[test]
fn a_load_result_that_cannot_be_used() {
    let unusable = r#"{"metadata": {"format-version": 2, "current-schema-id": 9, "schemas": []}}"#;
    let governed =
        Check::of_filters(&[("p", "filter := false")]).with("tables/prod/sales/orders.json", unusable);
    assert_eq!(severity(&governed.finding("cannot be used, every load is refused")), "error");
    let ungoverned =
        Check::of_filters(&[("p", "filter := false")]).with("tables/prod/other/t.json", unusable);
    assert_eq!(severity(&ungoverned.finding("is not governed")), "information");
}

#[test]
fn restrictions_of_the_catalog_itself() {
    let upstream = ORDERS.replacen('{', r#"{"read-restrictions": {"required-row-filter": false},"#, 1);
    let check = Check::of_filters(&[("p", "filter := is_group_member(\"auditors\")")])
        .with("tables/prod/sales/orders.json", &upstream);
    // Equal for a stranger, and nothing beside it for `alice`.
    assert_eq!(check.findings(), [] as [Value; 0]);
    let differs = Check::of_filters(&[("p", "filter := col(\"owner\") == session_user()")])
        .with("tables/prod/sales/orders.json", &upstream);
    assert_eq!(differs.run(&[]).code, 1);
    assert_eq!(differs.run(&["--upstream-restrictions", "conjoin"]).code, 0);
}

#[test]
fn names_of_folders_are_percent_decoded() {
    let check =
        Check::of(&model("system_row_filter", &[("p", "filter := col(\"no\") == 1")], "table = \"a/b\"", ""))
            .with("tables/prod/sales/a%2Fb.json", ORDERS);
    assert_eq!(about(&check.finding("no column `no`"))[1], Some("a/b"));
}

#[test]
fn without_tables_the_model_alone_is_checked() {
    let check = Check::of_filters(&[("p", "filter := col(\"no\") == 1")]);
    let run = policy(["check", "--governance", &check.path("governance.toml")]);
    assert_eq!(
        (run.code, &*run.stdout),
        (0, "1 policy and 0 tables: 0 errors, 0 warnings, 0 for information\n")
    );
    assert!(Path::new(&check.path("tables")).exists());
}

#[test]
fn one_line_each_for_people() {
    let check = Check::of_filters(&[("p", "filter := col(\"regio\") == \"US\"")]);
    assert_eq!(
        check.run(&[]).stdout,
        "error: policy `p`, table prod.sales.orders, column `regio`: the table has no column `regio`; did you mean \
         `region`? (line 1, column 11 of the expression)\n\
         \x20     |\n\
         \x20   1 | filter := col(\"regio\") == \"US\"\n\
         \x20     |           ^^^^^^^^^^^^\n\
         1 policy and 1 table: 1 error, 0 warnings, 0 for information\n"
    );
}
