//! Promise: each governed load leaves one decision event, inside of one span, and a load of a table without policies
//! leaves none.

mod support;

use std::{
    fs, io,
    sync::{Arc, Mutex},
};

use iceberg_read_restrictions::{ReadRestrictionsLayer, identity::RequestUser, policy::GovernanceFile};
use serde_json::Value;
use support::*;
use tracing_subscriber::fmt::{MakeWriter, format::FmtSpan};

/// What was written, for a test to look at.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for Log {
    type Writer = Self;

    fn make_writer(&'a self) -> Self {
        self.clone()
    }
}

impl Log {
    fn take(&self) -> Vec<Value> {
        let written = std::mem::take(&mut *self.0.lock().unwrap());
        let lines = serde_json::Deserializer::from_slice(&written).into_iter();
        lines.map(|line| line.expect("JSON")).collect()
    }
}

#[tokio::test]
async fn a_governed_load_leaves_one_event_inside_of_one_span() {
    let log = Log::default();
    let subscriber =
        tracing_subscriber::fmt().json().with_span_events(FmtSpan::NEW).with_writer(log.clone()).finish();
    let _default = tracing::subscriber::set_default(subscriber);
    let service = Inner::table().behind(layer());
    let plan = format!("{ORDERS}/plan");
    for (method, path, user, headers, outcome, code) in [
        ("GET", ORDERS, "alice", &[CAPABLE][..], "Restricted", None),
        ("GET", ORDERS, "etl", &[], "Unrestricted", None),
        ("GET", ORDERS, "bob", &[], "Refused", Some("capability-required")),
        ("GET", ORDERS, "", &[CAPABLE], "Refused", Some("subject-missing")),
        ("GET", BROKEN, "alice", &[CAPABLE], "Refused", Some("restrictions-unresolvable")),
        ("POST", &plan, "alice", &[], "Refused", Some("capability-required")),
    ] {
        send(&service, request(method, path, user, headers)).await;
        let lines = log.take();
        let of = |target: &str| lines.iter().filter(|line| line["target"] == target).collect::<Vec<_>>();
        let spans: Vec<_> = lines.iter().filter(|line| line["fields"]["message"] == "new").collect();
        let [span] = &*spans else { panic!("{path} {user}: {lines:#?}") };
        assert_eq!(span["span"]["name"], "read_restrictions");
        let [event] = &*of("iceberg_read_restrictions::decision") else {
            panic!("{path} {user}: {lines:#?}")
        };
        assert_eq!(event["span"], span["span"], "{path} {user}");
        assert_eq!(event["level"], "INFO");
        let fields = &event["fields"];
        assert_eq!(fields["outcome"], outcome, "{path} {user}");
        assert_eq!(fields.get("code").and_then(Value::as_str), code, "{path} {user}");
        assert_eq!(fields["catalog"], "prod");
        assert_eq!(fields["table"], path.split('/').nth(5).unwrap());
        assert!(fields["policy_revision"].as_str().unwrap().starts_with("sha256:"));
        if !user.is_empty() {
            assert_eq!(fields["subject"], user);
            assert!(fields["identity_revision"].as_str().unwrap().starts_with("sha256:"));
        }
        // What was resolved is told also of a reader who may not receive it.
        let resolved = outcome == "Restricted" || code == Some("capability-required");
        assert_eq!(fields["signature"].is_string(), resolved, "{path} {user}");
        assert_eq!(fields["policies"].as_str().unwrap().contains("secret_mask"), resolved, "{path} {user}");
    }

    send(&service, load(OPEN, "alice")).await;
    send(&service, request("GET", "/v1/config", "alice", &[])).await;
    let lines = log.take();
    assert!(lines.iter().all(|line| line["target"] != "iceberg_read_restrictions::decision"), "{lines:#?}");
}

#[tokio::test]
async fn a_304_and_what_is_gated_leave_one_event_with_everything_in_it() {
    let log = Log::default();
    let subscriber = tracing_subscriber::fmt().json().with_writer(log.clone()).finish();
    let _default = tracing::subscriber::set_default(subscriber);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("governance.toml");
    fs::write(&path, include_str!("fixtures/http/governance.toml")).unwrap();
    let governance = GovernanceFile::watch(&path).unwrap();
    let users = governance.directory(RequestUser::header("x-user".parse().unwrap()));
    let revision = governance.current().revision().to_string();
    let service = Inner::table().behind(ReadRestrictionsLayer::builder(governance, users).catalog("prod"));
    let etag = send(&service, load(ORDERS, "alice")).await.etag().to_owned();
    log.take();

    let credentials = format!("{ORDERS}/credentials");
    let create = r#"{"name": "orders", "schema": {"fields": []}}"#;
    let id = ("x-request-id", "r-1");
    for (method, path, headers, body, operation, status, refused) in [
        ("GET", ORDERS, &[id, CAPABLE, ("if-none-match", &*etag)][..], "", "loadTable", 304, false),
        ("GET", &credentials, &[id, CAPABLE], "", "loadCredentials", 200, false),
        ("GET", &credentials, &[id], "", "loadCredentials", 406, true),
        ("POST", "/v1/namespaces/sales/tables", &[id], create, "createTable", 406, true),
    ] {
        let answer = send(&service, request_with(method, path, "alice", headers, body)).await;
        assert_eq!(answer.status, status, "{path}");
        let lines = log.take();
        let target = "iceberg_read_restrictions::decision";
        let events: Vec<_> = lines.iter().filter(|line| line["target"] == target).collect();
        let [event] = &*events else { panic!("{path}: {lines:#?}") };
        let fields = &event["fields"];
        assert_eq!((&fields["operation"], &fields["status"]), (&operation.into(), &status.into()), "{path}");
        assert_eq!(fields["outcome"], if refused { "Refused" } else { "Restricted" }, "{path}");
        assert_eq!(fields["reason"].is_string(), refused, "why in full, {path}");
        assert_eq!(fields["request_id"], "r-1");
        assert_eq!(fields["namespace"], r#"["sales"]"#);
        assert_eq!((&fields["exempt"], &fields["report_only"]), (&"[]".into(), &"[]".into()));
        assert_eq!(fields["policy_revision"], *revision);
        let age = fields["source_age_ms"].as_u64().or_else(|| fields["source_age_ms"].as_str()?.parse().ok());
        assert!(age.is_some_and(|age| age < 60_000), "{path}: {event}");
    }
}
