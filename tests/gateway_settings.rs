//! Every setting of the configuration reaches the layer.

mod gateway_support;

use axum::body::Body;
use gateway_support::{CAPABLE, Gateway, ORDERS, Upstream, configuration, folder};
use http::{HeaderValue, Request, Response};
use hyper::body::Incoming;
use serde_json::{Value, json};

const ALICE: [(&str, &str); 2] = [("x-forwarded-user", "alice"), CAPABLE];

/// A load result with the columns that the governance names, and restrictions of its own.
const RESTRICTED_UPSTREAM: &str = r#"{
  "metadata": {"format-version": 2, "current-schema-id": 0, "schemas": [{"type": "struct", "schema-id": 0, "fields": [
    {"id": 2, "name": "region", "required": false, "type": "string"},
    {"id": 3, "name": "owner", "required": false, "type": "string"},
    {"id": 4, "name": "phone", "required": false, "type": "string"}
  ]}]},
  "read-restrictions": {"required-column-projections": [{"action": "mask-alphanum", "field-id": 3}]}
}"#;

/// Puts two masks with one action on the phone number.
fn two_equal_masks() -> String {
    let second = "\n[[policies]]\nname = \"second_mask\"\npolicyType = \"system_column_mask\"\nenabled = true\n\
                  content.expression = 'mask := action(\"show-last-4\")'\ntags = [{ tag = \"pii\" }]\n\n[[assignments]]";
    gateway_support::GOVERNANCE.replacen("\n[[assignments]]", second, 1)
}

#[tokio::test]
async fn capability() {
    let rest = "[capability]\naccept = [{ header = \"X-Enforces\", token = \"all\" }]\nrefuse_with = 403\n";
    let gateway = Gateway::start("embedded", rest).await;
    let undeclared = gateway.get(ORDERS, &ALICE).await;
    undeclared.assert_refused(403, "ForbiddenException", "capability-required");
    let declared = [("x-forwarded-user", "alice"), ("x-enforces", "all")];
    assert!(gateway.get(ORDERS, &declared).await.restrictions().is_some());
}

#[tokio::test]
async fn catalog_from_prefix() {
    let configuration = configuration("embedded", "")
        .replace("catalog = \"prod\"", "catalog_from_prefix = [\"prod\", \"dev\"]");
    let gateway = Gateway::start_in(folder(), &configuration, &[]).await;
    let orders = async |root: &str| gateway.get(&ORDERS.replace("/v1", root), &ALICE).await;
    assert!(orders("/v1/prod").await.restrictions().is_some());
    assert_eq!(orders("/v1/dev").await.restrictions(), None, "nothing is tagged in the catalog dev");
    for root in ["/v1/test", "/v1/PROD", "/v1/prod/dev", "/v1"] {
        orders(root).await.assert_refused(404, "NotFoundException", "unknown-catalog");
    }
    assert_eq!(gateway.get("/v1/config", &[]).await.status, 200);
}

#[tokio::test]
async fn conflict() {
    for (setting, refused) in [("by-signature", false), ("by-policy", true)] {
        let folder = folder();
        std::fs::write(folder.join("governance.toml"), two_equal_masks()).unwrap();
        let configuration = configuration("embedded", &format!("[settings]\nconflict = \"{setting}\"\n"));
        let answer = Gateway::start_in(folder, &configuration, &[]).await.orders("alice").await;
        match refused {
            true => answer.assert_refused(403, "ForbiddenException", "restrictions-unresolvable"),
            false => assert!(answer.restrictions().is_some()),
        }
    }
}

#[tokio::test]
async fn upstream_restrictions() {
    let upstream = Upstream::fixed(RESTRICTED_UPSTREAM).await;
    let gateway = Gateway::start(&upstream.url(), "").await;
    let refused = gateway.orders("alice").await;
    refused.assert_refused(403, "ForbiddenException", "restrictions-unresolvable");

    let gateway = Gateway::start(&upstream.url(), "[settings]\nupstream_restrictions = \"conjoin\"\n").await;
    assert_eq!(
        gateway.orders("alice").await.restrictions().unwrap()["required-column-projections"],
        json!([{"action": "mask-alphanum", "field-id": 3}, {"action": "show-last-4", "field-id": 4}])
    );
}

#[tokio::test]
async fn restricted_commits() {
    let commit = || json!({"requirements": [], "updates": []}).to_string();
    let gateway = Gateway::start("embedded", "").await;
    assert_eq!(gateway.post(ORDERS, &ALICE, commit()).await.status, 200);
    let gateway = Gateway::start("embedded", "[settings]\nrestricted_commits = \"refuse\"\n").await;
    let refused = gateway.post(ORDERS, &ALICE, commit()).await;
    refused.assert_refused(403, "ForbiddenException", "restricted-commit");
}

#[tokio::test]
async fn names_in_paths() {
    let upstream = Upstream::fixed(RESTRICTED_UPSTREAM).await;
    let governance = gateway_support::GOVERNANCE
        .replace("[\"sales\"], table = \"orders\"", "[\"a b\", \"c\"], table = \"orders\"");
    let outcome = async |settings: &str, namespace: &str| -> Option<Value> {
        let folder = folder();
        std::fs::write(folder.join("governance.toml"), &governance).unwrap();
        let settings = format!("[settings]\nupstream_restrictions = \"conjoin\"\n{settings}");
        let gateway = Gateway::start_in(folder, &configuration(&upstream.url(), &settings), &[]).await;
        let answer = gateway.get(&format!("/v1/namespaces/{namespace}/tables/orders"), &ALICE).await;
        answer.restrictions().unwrap().get("required-row-filter").cloned()
    };
    assert!(outcome("", "a%20b%1Fc").await.is_some());
    assert!(outcome("", "a+b%1Fc").await.is_none());
    assert!(outcome("plus_as_space = true\n", "a+b%1Fc").await.is_some());
    assert!(outcome("", "a%20b%2Ec").await.is_none());
    assert!(outcome("namespace_separators = [\"%2E\"]\n", "a%20b%2Ec").await.is_some());
}

#[tokio::test]
async fn max_body_bytes() {
    let gateway = Gateway::start("embedded", "[settings]\nmax_body_bytes = 100\n").await;
    gateway.orders("alice").await.assert_refused(502, "BadGatewayException", "upstream-invalid");
}

/// The upstream is asked for the whole load again when nothing was kept to answer a conditional one from.
#[tokio::test]
async fn cache_bytes() {
    let upstream = Upstream::start(|request: Request<Incoming>| {
        let mut response = match request.headers().contains_key("if-none-match") {
            true => Response::builder().status(304).body(Body::empty()).unwrap(),
            false => gateway_support::json(RESTRICTED_UPSTREAM),
        };
        response.headers_mut().insert("etag", HeaderValue::from_static("\"1\""));
        async { response }
    })
    .await;
    for (setting, asked) in [("", 1), ("cache_bytes = 0\n", 2)] {
        let settings = format!("[settings]\nupstream_restrictions = \"conjoin\"\n{setting}");
        let gateway = Gateway::start(&upstream.url(), &settings).await;
        let tag = gateway.orders("alice").await.headers["etag"].clone();
        upstream.received();
        let headers = [ALICE[0], ALICE[1], ("if-none-match", tag.to_str().unwrap())];
        assert_eq!(gateway.get(ORDERS, &headers).await.status, 304, "{setting}");
        assert_eq!(upstream.received().len(), asked, "{setting}");
    }
}
