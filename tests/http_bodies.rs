//! Bodies of every shape: chunked, large, broken, compressed, partial, absent.

mod support;

use std::{convert::Infallible, io};

use axum::body::Body;
use bytes::Bytes;
use futures_util::{StreamExt, stream};
use http::{HeaderMap, HeaderValue, Response, header};
use http_body::Frame;
use http_body_util::{BodyExt, StreamBody};
use iceberg_read_restrictions::layer::ReadRestrictionsLayer;
use support::*;
use tower::ServiceExt;

fn chunked(body: &str, size: usize) -> Body {
    let chunks: Vec<_> = body.as_bytes().chunks(size).map(Bytes::copy_from_slice).collect();
    Body::from_stream(stream::iter(chunks.into_iter().map(Ok::<_, Infallible>)))
}

fn broken(body: &'static str) -> Body {
    let chunks = [Ok(Bytes::from(body)), Err(io::Error::other("broken"))];
    Body::from_stream(stream::iter(chunks))
}

#[tokio::test]
async fn chunks_of_any_size_come_together() {
    for size in [1, 2, 7, 64, 1000, TABLE.len()] {
        let inner = Inner::new(move |_| table_response(chunked(TABLE, size)));
        let service = inner.behind(layer());
        let answer = send(&service, load(ORDERS, "alice")).await;
        assert_eq!(answer.restrictions(), restrictions_of("alice"), "{size}");
        assert_eq!(answer.header(header::CONTENT_LENGTH), answer.body.len().to_string());
        assert_eq!(send(&service, load(OPEN, "alice")).await.text(), TABLE, "{size}");
    }
}

#[tokio::test]
async fn a_wrong_content_length_is_put_right() {
    let inner = Inner::new(|_| {
        let mut response = table_response(TABLE);
        response.headers_mut().insert(header::CONTENT_LENGTH, 7.into());
        response
    });
    for user in ["alice", "etl"] {
        let answer = send(&inner.behind(layer()), load(ORDERS, user)).await;
        assert_eq!(answer.header(header::CONTENT_LENGTH), answer.body.len().to_string());
    }
}

#[tokio::test]
async fn a_body_at_the_limit_is_read_and_one_above_is_not() {
    for (limit, status) in [(TABLE.len(), 200), (TABLE.len() - 1, 502)] {
        for size in [100, TABLE.len()] {
            let inner = Inner::new(move |_| table_response(chunked(TABLE, size)));
            let service = inner.behind(layer().max_body_bytes(limit));
            assert_eq!(send(&service, load(ORDERS, "alice")).await.status, status, "{limit} {size}");
            assert_eq!(send(&service, load(OPEN, "alice")).await.text(), TABLE, "{limit} {size}");
        }
        let service = Inner::table().behind(layer().max_body_bytes(limit));
        assert_eq!(send(&service, load(ORDERS, "alice")).await.status, status, "{limit}");
        assert_eq!(send(&service, load(OPEN, "alice")).await.text(), TABLE, "{limit}");
    }
}

/// 64 MiB is the limit unless another is set.
#[tokio::test]
async fn a_body_of_the_greatest_size_is_read() {
    for (more, status) in [(0, 200), (1, 502)] {
        let inner = Inner::new(move |_| {
            let rest = (64 << 20) + more - TABLE.len();
            let blanks = vec![Bytes::from_static(&[b' '; 1 << 16]); rest >> 16];
            let last = Bytes::from(" ".repeat(rest & 0xffff));
            let chunks = std::iter::once(Bytes::from(TABLE)).chain(blanks).chain([last]);
            table_response(Body::from_stream(stream::iter(chunks.map(Ok::<_, Infallible>))))
        });
        let answer = send(&inner.behind(layer()), load(ORDERS, "alice")).await;
        assert_eq!(answer.status, status, "{more}");
        match status {
            200 => {
                assert!(answer.body.len() > 64 << 20 && answer.body.starts_with(b"{\"read-restrictions\":"))
            }
            _ => assert_eq!(answer.refusal(), "upstream-invalid"),
        }
    }
}

#[tokio::test]
async fn what_a_body_says_it_is_makes_no_difference() {
    for content_type in [
        None,
        Some("text/html"),
        Some("text/plain; charset=utf-16"),
        Some("application/octet-stream"),
        Some(""),
    ] {
        let inner = Inner::new(move |_| {
            let mut response = table_response(TABLE);
            response.headers_mut().remove(header::CONTENT_TYPE);
            response.headers_mut().extend(content_type.map(|it| (header::CONTENT_TYPE, it.parse().unwrap())));
            response
        });
        let service = inner.behind(layer());
        let answer = send(&service, load(ORDERS, "alice")).await;
        assert_eq!(answer.restrictions(), restrictions_of("alice"), "{content_type:?}");
        assert_eq!(answer.headers.get(header::CONTENT_TYPE).is_some(), content_type.is_some());
        assert_eq!(
            send(&service, request("GET", ORDERS, "alice", &[])).await.refusal(),
            "capability-required"
        );
        assert_eq!(send(&service, load(OPEN, "alice")).await.text(), TABLE, "{content_type:?}");
    }
}

#[tokio::test]
async fn what_cannot_be_understood_is_refused_on_a_governed_table_only() {
    let half = &TABLE[..TABLE.len() / 2];
    let bom = format!("\u{feff}{TABLE}");
    let trailing = format!("{TABLE}x");
    let schema_gone = TABLE.replace("\"current-schema-id\": 1", "\"current-schema-id\": 7");
    let two = TABLE.replace("\"config\"", "\"met\\u0061data\"");
    for body in ["", " ", "null", "[]", "{}", "\"metadata\"", half, &bom, &trailing, &schema_gone, &two] {
        let sent = body.to_owned();
        let inner = Inner::new(move |_| table_response(sent.clone()));
        let service = inner.behind(layer());
        let answer = send(&service, load(ORDERS, "alice")).await;
        assert_eq!((answer.status.as_u16(), &*answer.refusal()), (502, "upstream-invalid"), "{body}");
        let answer = send(&service, load(OPEN, "alice")).await;
        assert_eq!((answer.status.as_u16(), answer.text(), answer.etag()), (200, body, "\"inner-1\""));
    }
}

#[tokio::test]
async fn a_compressed_body_is_refused_on_a_governed_table_only() {
    for coding in ["gzip", "br", "deflate", "zstd", "x-odd", "identity, gzip"] {
        let inner = Inner::new(move |_| {
            let mut response = table_response("not really compressed");
            response.headers_mut().insert(header::CONTENT_ENCODING, coding.parse().unwrap());
            response
        });
        let service = inner.behind(layer());
        let answer = send(&service, load(ORDERS, "alice")).await;
        assert_eq!(answer.refusal(), "upstream-invalid", "{coding}");
        let answer = send(&service, load(OPEN, "alice")).await;
        assert_eq!(
            (answer.text(), answer.header(header::CONTENT_ENCODING)),
            ("not really compressed", coding)
        );
    }
    let inner = Inner::new(|_| {
        let mut response = table_response(TABLE);
        response.headers_mut().insert(header::CONTENT_ENCODING, "identity".parse().unwrap());
        response
    });
    assert_eq!(
        send(&inner.behind(layer()), load(ORDERS, "alice")).await.restrictions(),
        restrictions_of("alice")
    );
}

#[tokio::test]
async fn a_body_that_breaks_off_is_refused_or_breaks_off() {
    let service = Inner::new(|_| table_response(broken(TABLE))).behind(layer());
    assert_eq!(send(&service, load(ORDERS, "alice")).await.refusal(), "upstream-invalid");
    let response = service.clone().oneshot(load(OPEN, "alice")).await.unwrap();
    let mut body = response.into_body();
    let read = body.frame().await.unwrap().unwrap().into_data().unwrap();
    assert_eq!(read, TABLE);
    assert!(body.frame().await.unwrap().is_err());
}

#[tokio::test]
async fn a_large_body_of_an_ungoverned_table_is_not_held_back() {
    // An endless body: whoever waits for its end waits for ever.
    let inner = Inner::new(|_| {
        let chunks = stream::repeat_with(|| Ok::<_, Infallible>(Bytes::from_static(&[b' '; 1024])));
        table_response(Body::from_stream(chunks))
    });
    let service = inner.behind(layer().max_body_bytes(10_000));
    let response = service.clone().oneshot(load(OPEN, "alice")).await.unwrap();
    let mut body = response.into_body();
    let mut read = 0;
    while read < 100_000 {
        read += body.frame().await.unwrap().unwrap().into_data().unwrap().len();
    }
    assert_eq!(send(&service, load(ORDERS, "alice")).await.refusal(), "upstream-invalid");
}

#[tokio::test]
async fn trailers_pass_on_an_ungoverned_table_and_are_dropped_on_a_governed_one() {
    let inner = Inner::new(|_| {
        let trailers = HeaderMap::from_iter([("digest".parse().unwrap(), HeaderValue::from_static("x"))]);
        let frames = [Ok::<_, Infallible>(Frame::data(Bytes::from(TABLE))), Ok(Frame::trailers(trailers))];
        table_response(Body::new(StreamBody::new(stream::iter(frames))))
    });
    let service = inner.behind(layer());
    let trailers_of = async |path| {
        let response = service.clone().oneshot(load(path, "alice")).await.unwrap();
        response.into_body().collect().await.unwrap().trailers().cloned()
    };
    assert!(trailers_of(OPEN).await.is_some());
    assert!(trailers_of(ORDERS).await.is_none());
}

#[tokio::test]
async fn statuses_without_a_load_result() {
    for (code, body, status) in [
        (204, "", 204),
        (204, TABLE, 204),
        (301, TABLE, 301),
        (302, TABLE, 302),
        (304, "", 502),
        (206, TABLE, 502),
        (205, "", 502),
        (200, "", 502),
        (201, TABLE, 201),
        (202, TABLE, 202),
    ] {
        let inner = Inner::new(move |_| {
            let mut response = table_response(body);
            *response.status_mut() = code.try_into().unwrap();
            response
        });
        let service = inner.behind(layer());
        let answer = send(&service, load(ORDERS, "alice")).await;
        assert_eq!(answer.status, status, "{code}");
        match status {
            502 => assert_eq!(answer.refusal(), "upstream-invalid", "{code}"),
            204 => assert!(answer.body.is_empty(), "{code}"),
            301 | 302 => assert_eq!(answer.text(), body),
            _ => assert_eq!(answer.restrictions(), restrictions_of("alice"), "{code}"),
        }
        if code != 204 && code != 304 {
            let answer = send(&service, load(OPEN, "alice")).await;
            assert_eq!((answer.status.as_u16(), answer.text()), (code, body), "ungoverned {code}");
        }
    }
}

#[tokio::test]
async fn what_skipped_members_hold_is_nobodys_business() {
    let odd = TABLE.replace(
        "\"unknown-member\": [1.0,",
        &format!("\"unknown-member\": [{}, \"\\udfff\", 1e999,", "9".repeat(400)),
    );
    assert_ne!(odd, TABLE);
    let inner = Inner::new(move |_| table_response(odd.clone()));
    let answer = send(&inner.behind(layer()), load(ORDERS, "alice")).await;
    assert_eq!(answer.status, 200);
    assert!(answer.text().contains(&"9".repeat(400)));
}

#[tokio::test]
async fn real_load_results_keep_their_bytes() {
    let everything = governance_of(
        r#"
        tags = [{ name = "t" }]
        policies = [{ name = "p", policyType = "system_row_filter", enabled = true,
                      content.expression = 'filter := false', tags = [{ tag = "t" }] }]
        assignments = [{ object = { catalog = "prod" }, tag = "t" }]"#,
    );
    for file in ["01-iceberg-rust-load_table_response.json", "02-iceberg-rust-create_table_response.json"] {
        let text =
            std::fs::read_to_string(format!("{}/tests/fixtures/tables/{file}", env!("CARGO_MANIFEST_DIR")))
                .unwrap();
        let sent = text.clone();
        let inner = Inner::new(move |_| table_response(sent.clone()));
        let identity = directory(&everything);
        let layer = ReadRestrictionsLayer::builder(everything.clone(), identity);
        let answer = send(&inner.behind(layer.catalog("prod")), load(ORDERS, "alice")).await;
        let member = r#""read-restrictions":{"required-row-filter":false},"#;
        assert_eq!(answer.text().matches(member).count(), 1, "{file}");
        assert_eq!(answer.text().replace(member, ""), text, "{file}");
    }
}

/// The body comes through as the inner service makes it, one chunk at a time.
#[tokio::test]
async fn other_answers_stream() {
    let (sender, receiver) = chunks();
    let receiver = std::sync::Mutex::new(Some(receiver));
    let inner = Inner::new(move |_| {
        let chunks = receiver.lock().unwrap().take().unwrap();
        Response::new(Body::from_stream(chunks.map(Ok::<_, Infallible>)))
    });
    let service = inner.behind(layer());
    let response = service.clone().oneshot(load("/v1/namespaces/sales/views/v", "alice")).await.unwrap();
    let mut body = response.into_body();
    for chunk in ["one", "two"] {
        sender.send(Bytes::from(chunk)).unwrap();
        assert_eq!(body.frame().await.unwrap().unwrap().into_data().unwrap(), chunk);
    }
}

fn chunks() -> (tokio::sync::mpsc::UnboundedSender<Bytes>, impl futures_util::Stream<Item = Bytes> + Send) {
    let (sender, mut receiver) = tokio::sync::mpsc::unbounded_channel();
    (sender, stream::poll_fn(move |context| receiver.poll_recv(context)))
}

/// A body that is really compressed.
#[cfg(feature = "decompression")]
async fn compressed(coding: &'static str, text: String) -> Bytes {
    use tower_http::compression::Compression;
    let plain = tower::service_fn(move |_: http::Request<()>| {
        std::future::ready(Ok::<_, Infallible>(Response::new(Body::from(text.clone()))))
    });
    let request = http::Request::builder().header(header::ACCEPT_ENCODING, coding).body(()).unwrap();
    let response = Compression::new(plain).oneshot(request).await.unwrap();
    assert_eq!(response.headers()[header::CONTENT_ENCODING], coding);
    response.into_body().collect().await.unwrap().to_bytes()
}

#[cfg(feature = "decompression")]
#[tokio::test]
async fn a_compressed_body_is_decoded_where_something_is_put_into_it() {
    for coding in ["gzip", "deflate", "br", "zstd"] {
        let body = compressed(coding, TABLE.to_owned()).await;
        let sent = body.clone();
        let inner = Inner::new(move |_| {
            let mut response = table_response(sent.clone());
            response.headers_mut().insert(header::CONTENT_ENCODING, coding.parse().unwrap());
            response
        });
        let service = inner.behind(layer());
        let answer = send(&service, load(ORDERS, "alice")).await;
        assert_eq!(answer.restrictions(), restrictions_of("alice"), "{coding}");
        assert!(!answer.headers.contains_key(header::CONTENT_ENCODING));
        assert_eq!(answer.header(header::CONTENT_LENGTH), answer.body.len().to_string());
        for (path, user) in [(ORDERS, "etl"), (OPEN, "alice")] {
            let answer = send(&service, load(path, user)).await;
            assert_eq!((&answer.body, answer.header(header::CONTENT_ENCODING)), (&body, coding));
        }
        let plan = request_with("POST", &format!("{ORDERS}/plan"), "alice", &[], "{}");
        assert_eq!(send(&service, plan).await.refusal(), "capability-required");
    }
}

#[cfg(feature = "decompression")]
#[tokio::test]
async fn a_bomb_does_not_go_off() {
    let bomb = TABLE.replace("\"unknown-member\"", &format!("\"x\":\"{}\",\"y\"", " ".repeat(10 << 20)));
    let body = compressed("gzip", bomb).await;
    assert!(body.len() < 100_000);
    let inner = Inner::new(move |_| {
        let mut response = table_response(body.clone());
        response.headers_mut().insert(header::CONTENT_ENCODING, "gzip".parse().unwrap());
        response
    });
    let answer = send(&inner.behind(layer().max_body_bytes(1 << 20)), load(ORDERS, "alice")).await;
    assert_eq!(answer.refusal(), "upstream-invalid");
}
