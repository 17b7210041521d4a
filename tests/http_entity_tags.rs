//! Entity tags: ours on governed tables, and a 304 only for exactly the representation that would be sent.

mod support;

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use http::header;
use iceberg_read_restrictions::{
    layer::ReadRestrictionsLayer,
    policy::{EffectivePolicies, Format, Governance, InMemoryGovernance, PolicySource, TableRequest},
    source::{BoxFuture, SourceError},
};
use support::{etagger::Etagger, *};

/// A load by `user` with these validators, who declares the capability.
fn conditional(uri: &str, user: &str, tags: &[&str]) -> http::Request<axum::body::Body> {
    let mut request = load(uri, user);
    for tag in tags {
        request.headers_mut().append(header::IF_NONE_MATCH, tag.parse().unwrap());
    }
    request
}

#[tokio::test]
async fn the_tag_is_deterministic_and_depends_on_everything() {
    let service = Inner::table().behind(layer());
    let tag = send(&service, load(ORDERS, "alice")).await.etag().to_owned();
    let replica = Inner::table().behind(layer());
    assert_eq!(send(&replica, load(ORDERS, "alice")).await.etag(), tag);

    let mut tags = vec![tag];
    let with = |name, value| {
        let mut request = load(ORDERS, "alice");
        request.headers_mut().insert(name, http::HeaderValue::from_static(value));
        request
    };
    for request in [
        load(ORDERS, "bob"),
        load(&format!("{ORDERS}?snapshots=refs"), "alice"),
        load(&format!("{ORDERS}?"), "alice"),
        with("x-iceberg-access-delegation", "vended-credentials"),
        with("x-iceberg-access-delegation", "remote-signing"),
    ] {
        tags.push(send(&service, request).await.etag().to_owned());
    }
    let otherwise = |change: fn(String) -> String| {
        Inner::new(move |_| table_response(change(TABLE.to_owned()))).behind(layer())
    };
    for service in [
        otherwise(|table| table.replace("00002-a", "00003-b")),
        otherwise(|table| table.replace("secret-credential", "fresh-credential")),
        otherwise(|table| table.replace("[1.0,", "[2.0,")),
        otherwise(|table| format!("{table} ")),
    ] {
        tags.push(send(&service, load(ORDERS, "alice")).await.etag().to_owned());
    }
    let other_tag = Inner::new(|_| {
        let mut response = table_response(TABLE);
        response.headers_mut().insert(header::ETAG, "\"inner-2\"".parse().unwrap());
        response
    });
    tags.push(send(&other_tag.behind(layer()), load(ORDERS, "alice")).await.etag().to_owned());
    let distinct: std::collections::BTreeSet<_> = tags.iter().collect();
    assert_eq!(distinct.len(), tags.len(), "{tags:#?}");
    assert!(tags.iter().all(|tag| tag.starts_with("W/\"rr1.")));
}

/// Everything that callers, administrators and the catalog may vary, in every combination: 32 tags, in one order.
async fn tags_of_all_combinations() -> Vec<String> {
    let governance = include_str!("fixtures/http/governance.toml");
    // Neither of them changes what anybody is shown: only the revision tells.
    let more_policies = ["", "[[policies]]\nname = \"other\"\npolicyType = \"custom\"\n"];
    let more_groups = ["", "\nnobody = []\n"];
    let mut tags = Vec::new();
    for (policies, groups) in more_policies.iter().flat_map(|policies| more_groups.map(|it| (policies, it))) {
        let governance = governance_of(&format!("{policies}{governance}{groups}"));
        for credential in ["secret-credential", "another-credential"] {
            let inner = Inner::new(move |_| table_response(TABLE.replace("secret-credential", credential)));
            let layer = ReadRestrictionsLayer::builder(governance.clone(), directory(&governance));
            let service = inner.behind(layer.catalog("prod"));
            for (subject, query) in
                ["alice", "bob"].into_iter().flat_map(|it| ["", "?snapshots=refs"].map(|query| (it, query)))
            {
                let answer = send(&service, load(&format!("{ORDERS}{query}"), subject)).await;
                assert_eq!(answer.restrictions(), restrictions_of(subject));
                tags.push(answer.etag().to_owned());
            }
        }
    }
    tags
}

#[tokio::test]
async fn subjects_policies_identities_queries_and_credentials_tell_tags_apart() {
    let tags = tags_of_all_combinations().await;
    let distinct: std::collections::BTreeSet<_> = tags.iter().collect();
    assert_eq!((tags.len(), distinct.len()), (32, 32), "{tags:#?}");
    assert_eq!(tags_of_all_combinations().await, tags, "another replica");
    // The same in every process: a change of what is hashed, or how, takes a new domain.
    assert_eq!(tags[0], r#"W/"rr1.r1iEtq2L1uFzQEMFwcis_caS7Q3TSigLhvBiGvT-FEM.ImlubmVyLTEi""#);
}

#[tokio::test]
async fn slots_never_run_into_one_another() {
    let everywhere = governance_of(
        r#"
        tags = [{ name = "t" }]
        policies = [{ name = "p", policyType = "system_row_filter", enabled = true,
                      content.expression = 'filter := false', tags = [{ tag = "t" }] }]
        assignments = [{ object = { catalog = "prod" }, tag = "t" }]"#,
    );
    let layer = ReadRestrictionsLayer::builder(everywhere.clone(), directory(&everywhere)).catalog("prod");
    let service = Inner::table().behind(layer);
    let mut tags = std::collections::BTreeMap::new();
    for (uri, user, delegation) in [
        ("/v1/namespaces/ab/tables/c", "u", &[][..]),
        ("/v1/namespaces/a/tables/bc", "u", &[]),
        ("/v1/namespaces/a%1Fb/tables/c", "u", &[]),
        ("/v1/namespaces/a/tables/b%1Fc", "u", &[]),
        ("/v1/namespaces/a%1Fb%1Fc/tables/c", "u", &[]),
        ("/v1/ab/namespaces/ab/tables/c", "u", &[]),
        ("/v1/a/b/namespaces/ab/tables/c", "u", &[]),
        ("/v1/namespaces/ab/tables/cu", "u", &[]),
        ("/v1/namespaces/ab/tables/c", "uu", &[]),
        ("/v1/namespaces/ab/tables/c?", "u", &[]),
        ("/v1/namespaces/ab/tables/c?u", "u", &[]),
        ("/v1/namespaces/ab/tables/c?uu", "u", &[]),
        ("/v1/namespaces/ab/tables/c", "u", &[""]),
        ("/v1/namespaces/ab/tables/c", "u", &["u"]),
        ("/v1/namespaces/ab/tables/c", "u", &["u", "u"]),
        ("/v1/namespaces/ab/tables/c", "u", &["u,u"]),
        ("/v1/namespaces/ab/tables/c", "u", &["uu"]),
        ("/v1/namespaces/ab/tables/c?u", "u", &["u"]),
    ] {
        let mut request = load(uri, user);
        for line in delegation {
            request.headers_mut().append("x-iceberg-access-delegation", line.parse().unwrap());
        }
        let answer = send(&service, request).await;
        assert_eq!(answer.status, 200, "{uri}");
        let case = (uri, user, delegation);
        if let Some(other) = tags.insert(answer.etag().to_owned(), case) {
            panic!("{case:?} has the tag of {other:?}");
        }
    }
}

/// Sends the table with these lines of `ETag`, and a 304 to whoever has one of them.
fn tagged(lines: &'static [&'static str]) -> Inner {
    Inner::new(move |seen| {
        let mut response = match lines.contains(&seen.header(header::IF_NONE_MATCH)) {
            true => status(304),
            false => table_response(TABLE),
        };
        response.headers_mut().remove(header::ETAG);
        for line in lines {
            response.headers_mut().append(header::ETAG, line.parse().unwrap());
        }
        response
    })
}

#[tokio::test]
async fn inner_tags_of_every_kind() {
    // The lines of the inner tag, and what of them can be sent inwards.
    for (lines, carried) in [
        (&["\"strong\""][..], "\"strong\""),
        (&["W/\"weak\""], "W/\"weak\""),
        (&["\"with, comma\""], ""),
        (&["\"with,comma\""], "\"with,comma\""),
        (&["\"\""], "\"\""),
        (&["unquoted"], ""),
        (&["w/\"small\""], ""),
        (&["\"open"], ""),
        (&["*"], ""),
        (&["\"one\"", "\"two\""], ""),
        (&[], ""),
    ] {
        let inner = tagged(lines);
        let service = inner.behind(layer());
        let full = send(&service, load(ORDERS, "alice")).await;
        assert_eq!(full.restrictions(), restrictions_of("alice"), "{lines:?}");
        assert_eq!(full.headers.get_all(header::ETAG).iter().count(), 1, "{lines:?}");
        assert!(full.etag().starts_with("W/\"rr1.") && full.etag().matches('"').count() == 2, "{lines:?}");
        inner.take_seen();
        let again = send(&service, conditional(ORDERS, "alice", &[full.etag()])).await;
        assert_eq!((again.status.as_u16(), again.etag()), (304, full.etag()), "{lines:?}");
        let [seen] = &*inner.take_seen() else { panic!("{lines:?}: one call") };
        assert_eq!(seen.header(header::IF_NONE_MATCH), carried, "{lines:?}");
        for line in lines {
            let answer = send(&service, conditional(ORDERS, "alice", &[line])).await;
            assert_eq!(
                answer.restrictions(),
                restrictions_of("alice"),
                "{lines:?}: the inner tag is not ours"
            );
        }

        // Without policies the lines are the inner service's, and match if they are one tag.
        let full = send(&service, load(OPEN, "alice")).await;
        assert_eq!(full.headers.get_all(header::ETAG).iter().collect::<Vec<_>>(), lines);
        if let [line] = lines {
            let answer = send(&service, conditional(OPEN, "alice", &[line])).await;
            assert_eq!(answer.status, if carried.is_empty() { 200 } else { 304 }, "{lines:?}");
        }
    }
}

#[tokio::test]
async fn without_tag_and_location_the_metadata_count() {
    let tag_of = |ratio: &'static str| async move {
        let inner = Inner::new(move |_| {
            let table = TABLE.replace("\"metadata-location\"", "\"other\"").replace("117.6", ratio);
            let mut response = table_response(table);
            response.headers_mut().remove(header::ETAG);
            response
        });
        send(&inner.behind(layer()), load(ORDERS, "alice")).await.etag().to_owned()
    };
    assert_ne!(tag_of("117.6").await, tag_of("117.7").await);
    assert_eq!(tag_of("117.6").await, tag_of("117.6").await);
}

#[tokio::test]
async fn our_tag_is_answered_with_304_and_the_headers_of_the_200() {
    let service = Inner::table().behind(layer());
    let full = send(&service, load(ORDERS, "alice")).await;
    let strong = full.etag().trim_start_matches("W/").to_owned();
    for tags in
        [&[full.etag()][..], &[&*strong], &["\"x\"", full.etag()], &[&format!("\"a,b\" , {} ,", full.etag())]]
    {
        let answer = send(&service, conditional(ORDERS, "alice", tags)).await;
        assert_eq!(answer.status, 304, "{tags:?}");
        assert!(answer.body.is_empty());
        for name in ["etag", "vary", "cache-control", "x-inner"] {
            assert_eq!(answer.header(name), full.header(name), "{name}");
        }
        for name in ["content-type", "content-length", "content-encoding"] {
            assert!(!answer.headers.contains_key(name), "{name}");
        }
    }
}

#[tokio::test]
async fn what_is_not_our_tag_for_this_representation_gets_the_whole() {
    let service = Inner::table().behind(layer());
    let alice = send(&service, load(ORDERS, "alice")).await;
    let bob = send(&service, load(ORDERS, "bob")).await;
    let suffixed = format!("{}-gzip\"", alice.etag().trim_end_matches('"'));
    for tag in [
        "*",
        "\"inner-1\"",
        "W/\"inner-1\"",
        "\"inner-1-gzip\"",
        bob.etag(),
        &suffixed,
        alice.etag().trim_matches('"'),
        &alice.etag().to_lowercase(),
        &format!("*, {}", alice.etag()),
        &format!("{} {}", alice.etag(), alice.etag()),
        "W/\"rr1.x.ImlubmVyLTEi\"",
    ] {
        let answer = send(&service, conditional(ORDERS, "alice", &[tag])).await;
        assert_eq!(answer.status, 200, "{tag}");
        assert_eq!(answer.restrictions(), restrictions_of("alice"), "{tag}");
    }
}

#[tokio::test]
async fn two_thousand_tags_in_one_line() {
    let service = Inner::table().behind(layer());
    let tag = send(&service, load(ORDERS, "alice")).await.etag().to_owned();
    let many =
        (0..2000).map(|number| format!("W/\"rr1.{number}.ImlubmVyLTEi\"")).collect::<Vec<_>>().join(",");
    let answer = send(&service, conditional(ORDERS, "alice", &[&many])).await;
    assert_eq!(answer.status, 200);
    let answer = send(&service, conditional(ORDERS, "alice", &[&format!("{many},{tag}")])).await;
    assert_eq!(answer.status, 304);
}

#[tokio::test]
async fn a_304_needs_the_capability_and_the_restrictions_of_now() {
    let governance = governance();
    let identity = directory(&governance);
    let layer = ReadRestrictionsLayer::builder(governance.clone(), identity);
    let service = Inner::table().behind(layer.catalog("prod"));
    let tag = send(&service, load(ORDERS, "alice")).await.etag().to_owned();

    let undeclared = request("GET", ORDERS, "alice", &[("if-none-match", &tag)]);
    assert_eq!(send(&service, undeclared).await.refusal(), "capability-required");
    assert_eq!(send(&service, conditional(ORDERS, "", &[&tag])).await.refusal(), "subject-missing");
    assert_eq!(
        send(&service, conditional(ORDERS, "bob", &[&tag])).await.restrictions(),
        restrictions_of("bob")
    );
    assert_eq!(send(&service, conditional(ORDERS, "alice", &[&tag])).await.status, 304);

    let text = include_str!("fixtures/http/governance.toml");
    let other = text.replace("\"US\"", "\"EU\"");
    governance.replace(Governance::parse(&other, Format::Toml).unwrap());
    let answer = send(&service, conditional(ORDERS, "alice", &[&tag])).await;
    assert_eq!(answer.status, 200);
    assert!(answer.restrictions().to_string().contains("\"EU\""));
    assert_ne!(answer.etag(), tag);
}

#[tokio::test]
async fn an_ungoverned_table_keeps_the_inner_tag_and_its_304() {
    let service = Inner::table().behind(layer());
    let full = send(&service, load(OPEN, "alice")).await;
    assert_eq!(full.etag(), "\"inner-1\"");
    for tag in ["\"inner-1\"", "W/\"inner-1\"", "\"x\", \"inner-1\"", "*"] {
        let answer = send(&service, conditional(OPEN, "alice", &[tag])).await;
        assert_eq!((answer.status.as_u16(), answer.etag()), (304, "\"inner-1\""), "{tag}");
        assert!(answer.body.is_empty());
    }
    for tag in ["\"inner-2\"", "inner-1", "\"inner-1-gzip\"", "W/\"rr1.x\""] {
        assert_eq!(send(&service, conditional(OPEN, "alice", &[tag])).await.text(), TABLE, "{tag}");
    }
}

#[tokio::test]
async fn a_stray_304_is_refused() {
    let service = Inner::new(|_| status(304)).behind(layer());
    for (method, path) in [
        ("GET", ORDERS),
        ("GET", OPEN),
        ("HEAD", ORDERS),
        ("POST", "/v1/namespaces/sales/register"),
        ("GET", "/v1/namespaces/sales/tables/orders/credentials"),
    ] {
        let body = if method == "POST" { "{\"name\":\"orders\"}" } else { "" };
        let mut request = request_with(method, path, "alice", &[CAPABLE], body);
        request.headers_mut().insert(header::IF_NONE_MATCH, "\"x\"".parse().unwrap());
        let answer = send(&service, request).await;
        assert_eq!(
            (answer.status.as_u16(), &*answer.refusal()),
            (502, "upstream-invalid"),
            "{method} {path}"
        );
    }
}

#[tokio::test]
async fn tags_of_create_and_register_never_match() {
    let service = Inner::table().behind(layer());
    for (path, body) in [
        ("/v1/namespaces/sales/register", r#"{"name":"orders"}"#),
        ("/v1/namespaces/sales/tables", r#"{"name":"orders","schema":null}"#),
    ] {
        let created = request_with("POST", path, "alice", &[CAPABLE], body);
        let created = send(&service, created).await;
        assert_eq!(created.status, 200);
        assert!(created.etag().starts_with("W/\"rr1."));
        let loaded = send(&service, conditional(ORDERS, "alice", &[created.etag()])).await;
        assert_eq!(loaded.status, 200);
        assert_ne!(loaded.etag(), created.etag());
    }
}

// ---- revalidation without the body ----------------------------------------------------------------

#[tokio::test]
async fn an_inner_304_spares_the_body() {
    let etagger = Etagger::new();
    let inner = etagger.service();
    let service = inner.behind(layer());
    let full = send(&service, load(ORDERS, "alice")).await;
    inner.take_seen();
    for _ in 0..3 {
        let answer = send(&service, conditional(ORDERS, "alice", &[full.etag()])).await;
        assert_eq!(answer.status, 304);
        assert!(answer.body.is_empty());
        for name in ["etag", "vary", "cache-control"] {
            assert_eq!(answer.header(name), full.header(name), "{name}");
        }
        let seen = inner.take_seen();
        assert_eq!(seen.len(), 1);
        assert_eq!(seen[0].header("if-none-match"), etagger.tag());
    }
    assert_eq!(etagger.loads(), 1);

    etagger.commit();
    let answer = send(&service, conditional(ORDERS, "alice", &[full.etag()])).await;
    assert_eq!(answer.status, 200);
    assert_eq!(answer.restrictions(), restrictions_of("alice"));
    assert_eq!((inner.take_seen().len(), etagger.loads()), (1, 2));
}

#[tokio::test]
async fn the_same_inner_tag_for_another_body_is_loaded_in_full() {
    let service = Etagger::new().service().behind(layer());
    let all = send(&service, load(ORDERS, "alice")).await;
    let refs = format!("{ORDERS}?snapshots=refs");
    let answer = send(&service, conditional(&refs, "alice", &[all.etag()])).await;
    assert_eq!(answer.status, 200);
    assert!(answer.text().contains("not-snapshots"));
    assert_eq!(send(&service, conditional(&refs, "alice", &[answer.etag()])).await.status, 304);
    assert_eq!(send(&service, conditional(&refs, "alice", &[all.etag(), answer.etag()])).await.status, 304);
    assert_eq!(send(&service, conditional(ORDERS, "alice", &[answer.etag()])).await.status, 200);
}

#[tokio::test]
async fn a_replica_that_has_not_seen_the_table_loads_it_in_full() {
    let etagger = Etagger::new();
    let tag = send(&etagger.service().behind(layer()), load(ORDERS, "alice")).await.etag().to_owned();
    let inner = etagger.service();
    let replica = inner.behind(layer());
    let answer = send(&replica, conditional(ORDERS, "alice", &[&tag])).await;
    assert_eq!(answer.status, 304, "the full load gives the same tag");
    let seen = inner.take_seen();
    assert_eq!(seen.len(), 2);
    assert!(!seen[1].headers.contains_key(header::IF_NONE_MATCH));
    assert_eq!(send(&replica, conditional(ORDERS, "alice", &[&tag])).await.status, 304);
    assert_eq!(inner.take_seen().len(), 1, "now it has");
}

#[tokio::test]
async fn another_caller_with_a_stolen_tag_gets_their_own_restrictions() {
    let service = Etagger::new().service().behind(layer());
    let alice = send(&service, load(ORDERS, "alice")).await;
    send(&service, load(ORDERS, "bob")).await;
    let answer = send(&service, conditional(ORDERS, "bob", &[alice.etag()])).await;
    assert_eq!(answer.restrictions(), restrictions_of("bob"));
    let undeclared = request("GET", ORDERS, "alice", &[("if-none-match", alice.etag())]);
    assert_eq!(send(&service, undeclared).await.refusal(), "capability-required");
}

/// The hash of one representation with the inner tag of another one, as the layer gave it to nobody.
#[tokio::test]
async fn a_hash_that_carries_another_inner_tag_matches_nothing() {
    let etagger = Etagger::new();
    let service = etagger.service().behind(layer());
    let first = send(&service, load(ORDERS, "alice")).await.etag().to_owned();
    etagger.commit();
    let second = send(&service, load(ORDERS, "alice")).await.etag().to_owned();
    let (hash, inner) = (first.rsplit_once('.').unwrap().0, second.rsplit_once('.').unwrap().1);
    let mixed = format!("{hash}.{inner}");
    assert_eq!(send(&service, conditional(ORDERS, "alice", &[&mixed])).await.status, 200);
    // The last one that was seen is not the one that the catalog has now.
    let (hash, inner) = (second.rsplit_once('.').unwrap().0, first.rsplit_once('.').unwrap().1);
    etagger.go_back();
    let mixed = format!("{hash}.{inner}");
    assert_eq!(send(&service, conditional(ORDERS, "alice", &[&mixed])).await.status, 200);
}

#[tokio::test]
async fn fresh_credentials_give_a_fresh_tag() {
    let mut etagger = Etagger::new();
    etagger.fresh_credentials = true;
    let service = etagger.service().behind(layer());
    let first = send(&service, load(ORDERS, "alice")).await;
    assert_eq!(send(&service, conditional(ORDERS, "alice", &[first.etag()])).await.status, 304);
    let second = send(&service, load(ORDERS, "alice")).await;
    assert_ne!(first.etag(), second.etag());
    let answer = send(&service, conditional(ORDERS, "alice", &[first.etag()])).await;
    assert_eq!(answer.status, 200, "the first body is not the last one that was seen");
}

#[tokio::test]
async fn a_304_that_names_no_tag_is_about_the_only_one_that_was_sent() {
    let mut etagger = Etagger::new();
    etagger.names_tag = false;
    let inner = etagger.service();
    let service = inner.behind(layer());
    let full = send(&service, load(ORDERS, "alice")).await;
    assert_eq!(send(&service, conditional(ORDERS, "alice", &[full.etag()])).await.status, 304);
    assert_eq!(etagger.loads(), 1);
    // With a second one nobody knows which.
    let two = [full.etag(), "\"rr1.x.Im90aGVyIg\""];
    assert_eq!(send(&service, conditional(ORDERS, "alice", &two)).await.status, 304);
    assert_eq!(etagger.loads(), 2);
}

#[tokio::test]
async fn a_table_that_is_no_longer_governed_is_loaded_in_full() {
    let governance = governance();
    let identity = directory(&governance);
    let layer = ReadRestrictionsLayer::builder(governance.clone(), identity);
    let service = Etagger::new().service().behind(layer.catalog("prod"));
    let full = send(&service, load(ORDERS, "alice")).await;
    governance.replace(Governance::parse("[groups]\nx = []", Format::Toml).unwrap());
    let answer = send(&service, conditional(ORDERS, "alice", &[full.etag()])).await;
    assert_eq!(answer.status, 200);
    assert!(answer.restrictions().is_null());
    assert_eq!(answer.etag(), "\"location-0\"");
}

/// Counts the calls of the usual policy source.
#[derive(Clone)]
struct Counted(InMemoryGovernance, Arc<AtomicUsize>);

impl PolicySource for Counted {
    fn effective_policies<'a>(
        &'a self,
        request: TableRequest<'a>,
    ) -> BoxFuture<'a, Result<Arc<EffectivePolicies>, SourceError>> {
        self.1.fetch_add(1, Ordering::SeqCst);
        self.0.effective_policies(request)
    }
}

#[tokio::test]
async fn the_policy_source_is_asked_once_for_each_load() {
    let governance = governance();
    let calls = Arc::new(AtomicUsize::new(0));
    let counted = Counted(governance.clone(), calls.clone());
    let layer = ReadRestrictionsLayer::builder(counted, directory(&governance)).catalog("prod");
    let etagger = Etagger::new();
    let service = etagger.service().behind(layer);
    let full = send(&service, load(ORDERS, "alice")).await;
    for (says, request, status) in [
        ("in full", load(ORDERS, "alice"), 200),
        ("an inner 304", conditional(ORDERS, "alice", &[full.etag()]), 304),
        ("an inner 304 to another's tag", conditional(ORDERS, "bob", &[full.etag()]), 200),
        ("the same, once more is known", conditional(ORDERS, "bob", &[full.etag()]), 200),
        ("ungoverned", load(OPEN, "alice"), 200),
    ] {
        calls.store(0, Ordering::SeqCst);
        assert_eq!(send(&service, request).await.status, status, "{says}");
        assert_eq!(calls.load(Ordering::SeqCst), 1, "{says}");
    }
}
