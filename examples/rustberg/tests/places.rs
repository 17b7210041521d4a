//! What holds for Rustberg with the layer in either place, over real sockets.

mod support;

use std::{io::Read, path::Path};

use iceberg_read_restrictions::{
    layer::ReadRestrictionsLayer,
    policy::{Format, Governance, InMemoryGovernance},
};
use reqwest::{StatusCode, header};
use rustberg::{App, auth::ApiKeyBuilder};
use rustberg_with_read_restrictions::{
    CATALOG, CredentialIdentity, PrincipalIdentity, around, orders, restrictions,
};
use serde_json::{Value, json};
use support::{GOVERNANCE, ORDERS, PLACES, Server, capable, listen, send};

fn eq(field_id: i32, literal: Value) -> Value {
    json!({"type": "eq", "left": {"type": "reference", "id": field_id}, "right": literal})
}

fn string(value: &str) -> Value {
    json!({"type": "literal", "value": value, "data-type": "string"})
}

#[tokio::test]
async fn the_name_is_the_subject_and_the_roles_are_its_groups() {
    for place in PLACES {
        let server = Server::with_orders(place).await;
        let alice = server.orders(&server.keys.alice).await;
        assert_eq!(
            alice.restrictions(),
            Some(json!({
                "required-column-projections": [{"action": "show-last-4", "field-id": 4}],
                "required-row-filter": eq(2, string("US")),
            })),
            "{place:?}"
        );
        assert_eq!(server.orders(&server.keys.etl).await.restrictions(), None, "exempt, {place:?}");
    }
}

#[tokio::test]
async fn rustbergs_own_restrictions_are_joined_in_their_own_words() {
    for place in PLACES {
        let server = Server::with_orders(place).await;
        let without = listen(server.app.clone().into_router()).await;
        let load = reqwest::Client::new().get(format!("http://{without}/v1/{ORDERS}"));
        let own = send(load.bearer_auth(&server.keys.bob)).await.restrictions().unwrap();
        assert_eq!(own["required-row-filter"], eq(2, json!({"type": "literal", "value": "EU"})));
        assert_eq!(
            own["required-column-projections"],
            json!([{"action": "replace-with-null", "field-id": 5}])
        );

        let joined = server.orders(&server.keys.bob).await.restrictions().unwrap();
        assert_eq!(
            joined["required-row-filter"],
            json!({"type": "and", "left": own["required-row-filter"], "right": eq(3, string("bob"))}),
            "{place:?}"
        );
        assert_eq!(
            joined["required-column-projections"],
            json!([
                {"action": "replace-with-null", "field-id": 4},
                {"action": "replace-with-null", "field-id": 5},
            ]),
            "{place:?}"
        );
    }
}

/// Every form that Rustberg makes of the predicates in its policies can stand in a conjunction.
#[tokio::test]
async fn every_predicate_of_a_rustberg_policy_can_be_joined() {
    const DENIAL: &str = r#"{"type":"false"}"#;
    const WITHOUT_ITS_COLUMN: &str = r#"{"type":"eq","term":"no_such_column","value":1}"#;
    let predicates = [
        "true",
        DENIAL,
        r#"{"type":"is-null","term":"region"}"#,
        r#"{"type":"not","child":{"type":"not-null","child":{"type":"reference","name":"region"}}}"#,
        r#"{"type":"in","term":"region","values":["EU","US"]}"#,
        r#"{"type":"not-in","term":"id","values":{"type":"literals","values":[1,2],"data-type":"long"}}"#,
        r#"{"type":"starts-with","term":"region","value":"E"}"#,
        r#"{"type":"not-starts-with","left":{"type":"reference","id":2},"right":"E"}"#,
        r#"{"type":"lt","term":"id","value":{"type":"literal","value":9,"data-type":"long"}}"#,
        r#"{"type":"or","left":{"type":"gt-eq","term":"id","value":7},"right":{"type":"not-eq","term":"region","value":"EU"}}"#,
        WITHOUT_ITS_COLUMN,
    ];
    let folder = tempfile::tempdir().unwrap();
    for (at, predicate) in predicates.into_iter().enumerate() {
        let (app, key) = with_row_filter(&folder.path().join(at.to_string()), predicate).await;
        let policies = InMemoryGovernance::new(Governance::parse(GOVERNANCE, Format::Toml).unwrap());
        let identity = CredentialIdentity::new(app.state().authenticator.clone());
        let address = listen(around(app.into_router(), restrictions(policies, identity))).await;
        let client = reqwest::Client::new();
        for (path, body) in
            [("namespaces", orders::namespace()), ("namespaces/sales/tables", orders::table())]
        {
            let request = client.post(format!("http://{address}/v1/{path}")).json(&body);
            let answer = send(capable(request).bearer_auth(&key)).await;
            assert_eq!(answer.status, StatusCode::OK, "{}", answer.text());
        }
        let load = capable(client.get(format!("http://{address}/v1/{ORDERS}")));
        let filter = send(load.bearer_auth(&key)).await.restrictions().unwrap()["required-row-filter"].take();
        let ours = eq(3, string("partner"));
        match predicate {
            "true" => assert_eq!(filter, ours, "constantly true restricts nothing"),
            DENIAL | WITHOUT_ITS_COLUMN => assert_eq!(filter, false, "{predicate} shows no row"),
            _ => assert_eq!(
                (&filter["type"], &filter["right"]),
                (&json!("and"), &ours),
                "{predicate}: {filter}"
            ),
        }
    }
}

/// A catalog with one key, whose role reads and writes under this row filter.
async fn with_row_filter(folder: &Path, predicate: &str) -> (App, String) {
    let (key, secret) = ApiKeyBuilder::new("partner", "acme").with_role("partners").build();
    let policy = format!(
        "@row_filter({predicate:?}) permit(principal in Rustberg::Group::\"partners\", action, resource);"
    );
    let (app, _) = App::builder()
        .with_catalog_url(format!("file://{}", folder.join("catalog").display()))
        .with_warehouse_location(format!("file://{}", folder.join("warehouse").display()))
        .with_default_tenant_id("acme")
        .with_policies(policy)
        .with_api_keys([key])
        .build_with_api_keys()
        .await
        .unwrap();
    (app, secret.to_string())
}

#[tokio::test]
async fn unless_they_are_joined_rustbergs_own_stand_beside_nothing_of_ours() {
    let server = Server::serving(|app, policies| {
        let identity = CredentialIdentity::new(app.state().authenticator.clone());
        let layer = ReadRestrictionsLayer::builder(policies, identity).catalog(CATALOG).build();
        around(app.into_router(), layer)
    })
    .await;
    server.create_orders().await;
    server.orders(&server.keys.bob).await.assert_refused(403, "restrictions-unresolvable");
    assert!(server.orders(&server.keys.alice).await.restrictions().is_some(), "Rustberg sends none for her");
}

#[tokio::test]
async fn an_ungoverned_table_is_rustbergs_alone() {
    for place in PLACES {
        let server = Server::with_orders(place).await;
        server.policies.replace(Governance::parse("", Format::Toml).unwrap());
        let restrictions =
            send(server.get(ORDERS).bearer_auth(&server.keys.bob)).await.restrictions().unwrap();
        assert_eq!(restrictions["required-row-filter"], eq(2, json!({"type": "literal", "value": "EU"})));
        assert_eq!(send(server.get(ORDERS).bearer_auth(&server.keys.alice)).await.restrictions(), None);
    }
}

#[tokio::test]
async fn who_declares_nothing_or_is_nobody_gets_nothing() {
    for place in PLACES {
        let server = Server::with_orders(place).await;
        let undeclared = send(server.get(ORDERS).bearer_auth(&server.keys.alice)).await;
        undeclared.assert_refused(406, "capability-required");
        for request in
            [capable(server.get(ORDERS)), capable(server.get(ORDERS)).bearer_auth("rb_0123456789abcdef")]
        {
            let answer = send(request).await;
            assert_eq!(answer.status, StatusCode::UNAUTHORIZED, "Rustberg's own answer, {place:?}");
            assert!(!answer.text().contains("metadata"), "{}", answer.text());
        }
        let plan = |key: &str| server.post(&format!("{ORDERS}/plan"), &json!({})).bearer_auth(key);
        send(plan(&server.keys.alice)).await.assert_refused(406, "capability-required");
        assert_eq!(send(capable(plan(&server.keys.alice))).await.status, StatusCode::OK, "{place:?}");
        assert_eq!(send(plan(&server.keys.etl)).await.status, StatusCode::OK, "{place:?}");
    }
}

#[tokio::test]
async fn a_role_that_nobody_declared_is_an_unknown_group() {
    for place in PLACES {
        let server = Server::with_orders(place).await;
        let renamed = GOVERNANCE.replace(r#"is_group_member("auditors")"#, r#"is_group_member("auditor")"#);
        server.policies.replace(Governance::parse(&renamed, Format::Toml).unwrap());
        server.orders(&server.keys.alice).await.assert_refused(403, "restrictions-unresolvable");
    }
}

#[tokio::test]
async fn who_takes_gzip_gets_gzip() {
    for place in PLACES {
        let server = Server::with_orders(place).await;
        let request = capable(server.get(ORDERS)).header(header::ACCEPT_ENCODING, "gzip");
        let answer = send(request.bearer_auth(&server.keys.alice)).await;
        assert_eq!(answer.headers[header::CONTENT_ENCODING], "gzip", "{place:?}");
        let mut body = String::new();
        flate2::read::GzDecoder::new(&*answer.body).read_to_string(&mut body).unwrap();
        let body: Value = serde_json::from_str(&body).unwrap();
        assert_eq!(body, server.orders(&server.keys.alice).await.json(), "{place:?}");
    }
}

#[tokio::test]
async fn a_copy_is_good_until_the_table_or_the_policies_change() {
    for place in PLACES {
        let server = Server::with_orders(place).await;
        let first = server.orders(&server.keys.alice).await;
        let tag = first.headers[header::ETAG].clone();
        let conditional = |key: &str| {
            let request = capable(server.get(ORDERS)).header(header::IF_NONE_MATCH, tag.clone());
            send(request.bearer_auth(key))
        };
        assert_eq!(conditional(&server.keys.alice).await.status, StatusCode::NOT_MODIFIED, "{place:?}");
        assert!(conditional(&server.keys.bob).await.restrictions().is_some(), "another's tag, {place:?}");

        let changed = GOVERNANCE.replace("show-last-4", "mask-alphanum");
        server.policies.replace(Governance::parse(&changed, Format::Toml).unwrap());
        let restrictions = conditional(&server.keys.alice).await.restrictions().unwrap();
        assert_eq!(restrictions["required-column-projections"][0]["action"], "mask-alphanum", "{place:?}");
    }
}

/// The layer in front of authentication with the identity source that belongs behind it: there is no principal yet.
#[tokio::test]
async fn the_wrong_order_refuses_what_is_governed() {
    let server =
        Server::serving(|app, policies| around(app.into_router(), restrictions(policies, PrincipalIdentity)))
            .await;
    let namespace = server.post("namespaces", &orders::namespace()).bearer_auth(&server.keys.etl);
    assert_eq!(send(namespace).await.status, StatusCode::OK);
    let create = |table: &Value| server.post("namespaces/sales/tables", table).bearer_auth(&server.keys.etl);
    send(create(&orders::table())).await.assert_refused(403, "subject-missing");
    let nothing = send(server.get("namespaces/sales/tables").bearer_auth(&server.keys.etl)).await;
    assert_eq!(nothing.json()["identifiers"], json!([]), "nothing was created behind the refusal");

    // Created past the layer, the table cannot be read through it, whoever asks.
    let without = listen(server.app.clone().into_router()).await;
    let create = reqwest::Client::new().post(format!("http://{without}/v1/namespaces/sales/tables"));
    assert_eq!(
        send(create.json(&orders::table()).bearer_auth(&server.keys.etl)).await.status,
        StatusCode::OK
    );
    for key in [&server.keys.etl, &server.keys.alice, &server.keys.bob] {
        server.orders(key).await.assert_refused(403, "subject-missing");
    }
}

/// `Router::layer` goes round each route: what the layer asks of the inner service never reaches another route.
#[tokio::test]
async fn inside_the_router_loads_are_governed_and_gates_stay_shut() {
    let server = Server::serving(|app, policies| {
        let identity = CredentialIdentity::new(app.state().authenticator.clone());
        app.into_router().layer(restrictions(policies, identity))
    })
    .await;
    server.create_orders().await;
    assert!(server.orders(&server.keys.alice).await.restrictions().is_some());
    send(server.get(ORDERS).bearer_auth(&server.keys.alice)).await.assert_refused(406, "capability-required");
    for key in [&server.keys.alice, &server.keys.etl] {
        let plan = server.post(&format!("{ORDERS}/plan"), &json!({}));
        let answer = send(capable(plan).bearer_auth(key)).await;
        assert!(answer.status.is_client_error() || answer.status.is_server_error(), "{}", answer.text());
    }
}
