//! loadTable: the right restrictions for the caller, and not another byte changed.

mod support;

use http::header;
use iceberg_read_restrictions::layer::ReadRestrictionsLayer;
use serde_json::json;
use support::*;

#[tokio::test]
async fn each_caller_gets_their_own_restrictions() {
    let service = Inner::table().behind(layer());
    for user in ["alice", "bob", "o'neil"] {
        let answer = send(&service, load(ORDERS, user)).await;
        assert_eq!(answer.status, 200);
        assert_eq!(answer.restrictions(), restrictions_of(user), "{user}");
    }
}

#[tokio::test]
async fn every_other_byte_is_the_inner_services() {
    let service = Inner::table().behind(layer());
    let answer = send(&service, load(ORDERS, "alice")).await;
    let (before, rest) = answer.text().split_once("\"read-restrictions\":").unwrap();
    let mut member = serde_json::Deserializer::from_str(rest).into_iter::<serde_json::Value>();
    assert_eq!(member.next().unwrap().unwrap(), restrictions_of("alice"));
    let after = rest[member.byte_offset()..].strip_prefix(',').unwrap();
    assert_eq!(format!("{before}{after}"), TABLE);
}

#[tokio::test]
async fn a_table_without_policies_is_as_it_was() {
    let service = Inner::table().behind(layer());
    for user in ["alice", ""] {
        let answer = send(&service, request("GET", OPEN, user, &[])).await;
        assert_eq!((answer.status.as_u16(), answer.text()), (200, TABLE));
        assert_eq!(answer.etag(), "\"inner-1\"");
        assert_eq!(answer.header("x-inner"), "kept");
        assert!(!answer.headers.contains_key(header::VARY));
        assert!(!answer.headers.contains_key(header::CACHE_CONTROL));
    }
}

#[tokio::test]
async fn who_is_exempt_gets_the_body_as_it_is_with_our_tag() {
    let service = Inner::table().behind(layer());
    // `etl` is exempt from both policies; for `root` the filter is true, and is left out.
    for user in ["etl", "root"] {
        let answer = send(&service, request("GET", ORDERS, user, &[])).await;
        assert_eq!((answer.status.as_u16(), answer.text()), (200, TABLE), "{user}");
        assert!(answer.etag().starts_with("W/\"rr1."), "{user}");
        assert_eq!(answer.header(header::CACHE_CONTROL), "private, no-cache");
    }
}

#[tokio::test]
async fn a_governed_answer_has_the_headers_of_one() {
    let inner = Inner::new(|_| {
        let mut response = table_response(TABLE);
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_LENGTH, TABLE.len().into());
        headers.insert(header::VARY, "Accept-Encoding".parse().unwrap());
        headers.insert(header::CACHE_CONTROL, "public, max-age=60".parse().unwrap());
        for name in ["content-md5", "digest", "content-digest", "accept-ranges"] {
            headers.insert(name, "x".parse().unwrap());
        }
        response
    });
    let answer = send(&inner.behind(layer()), load(ORDERS, "alice")).await;
    assert_eq!(answer.header(header::CONTENT_LENGTH), answer.body.len().to_string());
    assert_eq!(
        answer.header(header::VARY),
        "Accept-Encoding, Authorization, X-Iceberg-Client-Capabilities, X-Gravitino-Client-Capabilities, \
         X-Gravitino-Read-Restrictions"
    );
    assert_eq!(answer.header(header::CACHE_CONTROL), "private, no-cache");
    assert_eq!(answer.headers.get_all(header::ETAG).iter().count(), 1);
    assert_eq!(answer.header("x-inner"), "kept");
    for name in ["content-md5", "digest", "content-digest", "accept-ranges"] {
        assert!(!answer.headers.contains_key(name), "{name}");
    }
}

#[tokio::test]
async fn the_inner_service_is_asked_for_the_whole_plain_body() {
    let inner = Inner::table();
    let headers = [
        CAPABLE,
        ("if-none-match", "\"x\""),
        ("if-modified-since", "Thu, 01 Jan 1970 00:00:00 GMT"),
        ("range", "bytes=0-1"),
        ("accept-encoding", "gzip"),
        ("x-http-method-override", "POST"),
        ("x-method-override", "POST"),
        ("x-iceberg-access-delegation", "vended-credentials"),
        ("authorization", "Bearer x"),
    ];
    let uri = format!("{ORDERS}?snapshots=refs");
    let answer = send(&inner.behind(layer()), request("GET", &uri, "alice", &headers)).await;
    assert_eq!(answer.status, 200);
    let seen = inner.take_seen();
    assert_eq!(seen.len(), 1);
    for gone in ["if-none-match", "if-modified-since", "range", "x-http-method-override", "x-method-override"]
    {
        assert!(!seen[0].headers.contains_key(gone), "{gone}");
    }
    assert_eq!(seen[0].header("accept-encoding"), "identity");
    assert_eq!(seen[0].header("x-iceberg-access-delegation"), "vended-credentials");
    assert_eq!(seen[0].header("authorization"), "Bearer x");
    assert_eq!(seen[0].uri.to_string(), uri);
}

#[tokio::test]
async fn the_table_is_the_one_that_the_path_names() {
    let inner = Inner::table();
    let governance = governance_of(
        r#"
        tags = [{ name = "t" }]
        policies = [{ name = "p", policyType = "system_row_filter", enabled = true,
                      content.expression = 'filter := false', tags = [{ tag = "t" }] }]
        assignments = [
          { object = { catalog = "prod", namespace = ["a", "b"], table = "t" }, tag = "t" },
          { object = { catalog = "prod", namespace = ["n/s"], table = "t" }, tag = "t" },
          { object = { catalog = "prod", namespace = ["ns"], table = "a%2Fb" }, tag = "t" },
          { object = { catalog = "prod", namespace = ["ns"], table = "a+b" }, tag = "t" },
          { object = { catalog = "prod", namespace = ["ns"], table = "tables" }, tag = "t" },
        ]"#,
    );
    let identity = directory(&governance);
    let layer = ReadRestrictionsLayer::builder(governance, identity);
    let service = inner.behind(layer.catalog("prod"));
    for (path, governed) in [
        ("/v1/namespaces/a%1Fb/tables/t", true),
        ("/v1/namespaces/a%1fb/tables/%74", true),
        ("/v1/any/prefix/namespaces/a%1Fb/tables/t", true),
        ("/api/catalog/v1/namespaces/a%1Fb/tables/t", true),
        ("/namespaces/a%1Fb/tables/t", true),
        ("http://host.example/v1/namespaces/a%1Fb/tables/t", true),
        ("/v1/namespaces/a.b/tables/t", false),
        ("/v1/namespaces/n%2Fs/tables/t", true),
        ("/v1/namespaces/ns/tables/a%252Fb", true),
        ("/v1/namespaces/ns/tables/a+b", true),
        ("/v1/namespaces/ns/tables/a%20b", false),
        ("/v1/namespaces/ns/tables/tables", true),
    ] {
        let answer = send(&service, load(path, "alice")).await;
        assert_eq!(answer.status, 200, "{path}");
        let restrictions = if governed { json!({"required-row-filter": false}) } else { json!(null) };
        assert_eq!(answer.restrictions(), restrictions, "{path}");
    }
}

#[tokio::test]
async fn names_are_read_as_the_inner_service_reads_them() {
    let governance = governance_of(
        r#"
        tags = [{ name = "t" }]
        policies = [{ name = "p", policyType = "system_row_filter", enabled = true,
                      content.expression = 'filter := false', tags = [{ tag = "t" }] }]
        assignments = [
          { object = { catalog = "prod", namespace = ["a b"], table = "c d" }, tag = "t" },
          { object = { catalog = "prod", namespace = ["x", "y"], table = "t" }, tag = "t" },
          { object = { catalog = "prod", namespace = ["x.y"], table = "u" }, tag = "t" },
        ]"#,
    );
    let builder =
        || ReadRestrictionsLayer::builder(governance.clone(), directory(&governance)).catalog("prod");
    let plain = Inner::table().behind(builder());
    let plus = Inner::table().behind(builder().plus_as_space(true));
    let dots = Inner::table().behind(builder().namespace_separators(["."]));
    let encoded_dots = Inner::table().behind(builder().namespace_separators(["%2E"]));
    for (path, governed) in [
        ("/v1/namespaces/a+b/tables/c+d", [false, true, false, false]),
        ("/v1/namespaces/a%20b/tables/c%20d", [true; 4]),
        ("/v1/namespaces/a%2Bb/tables/c%2Bd", [false; 4]),
        ("/v1/namespaces/x%1Fy/tables/t", [true; 4]),
        ("/v1/namespaces/x.y/tables/t", [false, false, true, false]),
        ("/v1/namespaces/x%2Ey/tables/t", [false, false, false, true]),
        ("/v1/namespaces/x%2ey/tables/t", [false, false, false, true]),
        ("/v1/namespaces/x.y/tables/u", [true, true, false, true]),
        ("/v1/namespaces/x%2Ey/tables/u", [true, true, true, false]),
    ] {
        for (service, governed) in [&plain, &plus, &dots, &encoded_dots].into_iter().zip(governed) {
            let answer = send(service, load(path, "alice")).await;
            assert_eq!(answer.status, 200, "{path}");
            assert_eq!(answer.restrictions().is_object(), governed, "{path}");
            let credentials = request("GET", &format!("{path}/credentials"), "alice", &[]);
            assert_eq!(send(service, credentials).await.status, if governed { 406 } else { 200 }, "{path}");
        }
    }
}

#[tokio::test]
async fn the_catalog_is_taken_from_the_prefix_only_where_it_is_a_known_one() {
    let governance = governance();
    let identity = directory(&governance);
    let layer = ReadRestrictionsLayer::builder(governance, identity);
    let inner = Inner::table();
    let service = inner.behind(layer.catalog_from_prefix(["prod", "dev"]));
    let answer = send(&service, load("/v1/prod/namespaces/sales/tables/orders", "alice")).await;
    assert_eq!(answer.restrictions(), restrictions_of("alice"));
    let answer = send(&service, load("/v1/dev/namespaces/sales/tables/orders", "alice")).await;
    assert_eq!(answer.text(), TABLE);
    inner.take_seen();
    for path in [
        "/v1/test/namespaces/sales/tables/orders",
        "/v1/namespaces/sales/tables/orders",
        "/v1/PROD/namespaces/sales/tables/orders",
        "/v1/test/namespaces/sales/tables",
        "/v1/test/namespaces/sales/views/v",
    ] {
        let answer = send(&service, load(path, "alice")).await;
        assert_eq!((answer.status.as_u16(), &*answer.refusal()), (404, "unknown-catalog"), "{path}");
    }
    assert!(inner.take_seen().is_empty());
    let answer = send(&service, load("/v1/config?warehouse=test", "alice")).await;
    assert_eq!(answer.text(), TABLE, "not below namespaces");
}

#[tokio::test]
async fn the_catalog_may_be_what_a_closure_says() {
    let governance = governance();
    let identity = directory(&governance);
    let layer = ReadRestrictionsLayer::builder(governance, identity)
        .catalog_with(|request| Some(request.headers.get("x-catalog")?.to_str().ok()?.to_owned()));
    let service = Inner::table().behind(layer);
    let ask = |catalog: &'static str| request("GET", ORDERS, "bob", &[CAPABLE, ("x-catalog", catalog)]);
    assert_eq!(send(&service, ask("prod")).await.restrictions(), restrictions_of("bob"));
    assert_eq!(send(&service, ask("dev")).await.text(), TABLE);
    assert_eq!(send(&service, load(ORDERS, "bob")).await.refusal(), "unknown-catalog");
}

#[tokio::test]
async fn a_governed_table_needs_a_subject() {
    let service = Inner::table().behind(layer());
    for user in ["", " "] {
        let answer = send(&service, load(ORDERS, user)).await;
        assert_eq!((answer.status.as_u16(), &*answer.refusal()), (403, "subject-missing"));
    }
}

#[tokio::test]
async fn what_does_not_resolve_is_refused() {
    let service = Inner::table().behind(layer());
    let answer = send(&service, load(BROKEN, "alice")).await;
    assert_eq!((answer.status.as_u16(), &*answer.refusal()), (403, "restrictions-unresolvable"));
}
