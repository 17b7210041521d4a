//! What holds for any bytes at all in the parsers that read what strangers send. The fuzz targets of the `fuzz` package
//! run it on inputs of their choice, the tests below on a short deterministic stream.

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Method, header};

use super::{
    capability::Capability,
    etag::{EntityTag, IfNoneMatch},
    names::NameSyntax,
    route::{OperationKind, Route},
};
use crate::table::{LoadResult, is_load_result};

/// A tag of ours that no input has, unless it spells it.
const TAG: &[u8] = b"W/\"rr1.0123456789abcdef.InYi\"";

/// `If-None-Match`, a line of it for each line of the input.
pub fn entity_tags(input: &[u8]) {
    let lines: Vec<_> =
        input.split(|byte| *byte == b'\n').filter_map(|line| HeaderValue::from_bytes(line).ok()).collect();
    let if_none_match = |tag: Option<&'static [u8]>| {
        let mut headers = HeaderMap::new();
        for line in &lines {
            headers.append(header::IF_NONE_MATCH, line.clone());
        }
        headers.extend(
            tag.map(|tag| (header::IF_NONE_MATCH, HeaderValue::from_bytes(tag).expect("header text"))),
        );
        IfNoneMatch::take(&mut headers)
    };
    let opaque = EntityTag::parse(TAG).expect("a tag").as_bytes()[3..].to_vec();
    let spelled = lines.iter().any(|line| line.as_bytes().windows(opaque.len()).any(|part| part == opaque));
    let tag = HeaderValue::from_bytes(TAG).expect("header text");
    assert!(spelled || !if_none_match(None).matches_ours(&tag), "a tag that the client never sent matches");

    // Whatever stands beside it, what is sent inwards is a list of tags with the carried one in it.
    if let Some(inwards) = if_none_match(Some(TAG)).carried().if_none_match() {
        let mut request = HeaderMap::from_iter([(header::IF_NONE_MATCH, inwards)]);
        let response = HeaderMap::from_iter([(header::ETAG, HeaderValue::from_static("\"v\""))]);
        assert!(IfNoneMatch::take(&mut request).matches_inner(&response), "the carried tag got lost");
    }
}

/// The capability headers: name and value stand on each line, with a colon between them.
pub fn capabilities(input: &[u8]) {
    let mut headers = HeaderMap::new();
    for line in input.split(|byte| *byte == b'\n') {
        let Some(colon) = line.iter().position(|byte| *byte == b':') else { continue };
        let name = HeaderName::from_bytes(&line[..colon]);
        if let (Ok(name), Ok(value)) = (name, HeaderValue::from_bytes(&line[colon + 1..])) {
            headers.append(name, value);
        }
    }
    for capability in Capability::defaults() {
        let lines = headers.get_all(capability.header()).iter();
        let mut tokens = lines.flat_map(|line| line.as_bytes().split(|byte| *byte == b','));
        let sent = tokens.any(|token| token.trim_ascii() == capability.token().as_bytes());
        assert!(sent || !capability.is_declared_in(&headers), "{capability:?} was not declared: {headers:?}");
    }
}

/// The route recogniser, against a router that decodes once, drops what is empty and resolves dots.
pub fn route(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else { return };
    let path = format!("/{}", text.trim_start_matches('/'));
    if path.parse::<http::Uri>().is_err() {
        return;
    }
    let path = path.split(['?', '#']).next().unwrap_or_default();
    for method in [Method::GET, Method::POST] {
        let route = Route::of(&method, path);
        let Some(table) = lenient_load(&method, path) else { continue };
        match route {
            Route::Ambiguous => {}
            Route::Operation(operation) => {
                assert_eq!(operation.kind, OperationKind::LoadTable, "{path}");
                let names = NameSyntax { plus_as_space: false, separators: Vec::new() };
                let read = names.namespace(operation.namespace).zip(names.name(operation.table));
                assert!(read.is_none_or(|(_, name)| name == table), "{path} is another table: {table}");
            }
            other => {
                panic!("{method} {path} loads table {table} in a lenient router, and here it is {other:?}")
            }
        }
    }
}

/// The table that a lenient router would load.
fn lenient_load(method: &Method, path: &str) -> Option<String> {
    let mut segments: Vec<String> = Vec::new();
    for segment in path.split('/') {
        let decoded = percent_encoding::percent_decode_str(segment).decode_utf8().ok()?;
        match &*decoded {
            "" | "." => {}
            ".." => drop(segments.pop()),
            name => segments.push(name.to_owned()),
        }
    }
    match &segments[..] {
        [version, namespaces, _, tables, table]
            if *method == Method::GET
                && version == "v1"
                && namespaces == "namespaces"
                && tables == "tables" =>
        {
            Some(table.clone())
        }
        _ => None,
    }
}

/// The body scanner, against `serde_json`.
pub fn load_result(input: &[u8]) {
    let Ok(load) = LoadResult::read(Bytes::copy_from_slice(input)) else { return };
    assert!(is_load_result(input), "what can be read as a load result is one");
    let text = std::str::from_utf8(input).expect("a load result is UTF-8");
    serde_json::from_str::<serde::de::IgnoredAny>(text).expect("a load result is JSON");
    let spliced = load.splice("{\"required-row-filter\":false}").concat();
    let again = LoadResult::read(Bytes::from(spliced)).expect("a spliced load result is one");
    assert_eq!(again.read_restrictions(), Some("{\"required-row-filter\":false}"));
    assert_eq!(again.schema(), load.schema());
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A short stream of inputs, the same in every run: seeds, changed and glued together.
    fn run(seeds: &[&str], target: fn(&[u8])) {
        let mut state = 0x9e37_79b9_7f4a_7c15_u64;
        let mut next = move |below: usize| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state % below as u64) as usize
        };
        for seed in seeds {
            target(seed.as_bytes());
        }
        for _ in 0..3_000 {
            let mut input = seeds[next(seeds.len())].as_bytes().to_vec();
            for _ in 0..=next(4) {
                let at = next(input.len() + 1);
                match next(5) {
                    0 => input.truncate(at),
                    1 => input.insert(at, b"\"/%.;,*\\{}[]: \n0aA\xff"[next(19)]),
                    2 if at < input.len() => input[at] = next(256) as u8,
                    3 if at < input.len() => drop(input.remove(at)),
                    _ => {
                        let other = seeds[next(seeds.len())].as_bytes();
                        input.splice(at..at, other[next(other.len() + 1)..].iter().copied());
                    }
                }
            }
            target(&input);
        }
    }

    #[test]
    fn entity_tags_hold_on_a_short_run() {
        run(
            &[
                "*",
                "\"a\", W/\"b,c\"",
                "W/\"rr1.0123456789abcdef.InYi\"",
                "W/\"rr1.x.InYi\"\nW/\"rr1.y.Vy8iYSI\"",
                "\"rr1..\"",
            ],
            entity_tags,
        );
    }

    #[test]
    fn capabilities_hold_on_a_short_run() {
        run(
            &[
                "x-iceberg-client-capabilities: read-restrictions , a.b\nconnection: close",
                "x-gravitino-client-capabilities:read-restrictions.v1",
                "x-gravitino-read-restrictions: v1\nConnection: x-gravitino-read-restrictions",
            ],
            capabilities,
        );
    }

    #[test]
    fn routes_hold_on_a_short_run() {
        run(
            &[
                "v1/namespaces/a/tables/b",
                "v1/%6eamespaces/a%1Fb/tables/b/",
                "v1//namespaces/./a/x/../tables/b",
                "v1/namespaces/a%2Fb/tables/%2e%2e",
                "v1/namespaces/a/tables/b;x/plan",
            ],
            route,
        );
    }

    #[test]
    fn load_results_hold_on_a_short_run() {
        run(
            &[
                r#"{"metadata":{"format-version":2,"current-schema-id":0,"schemas":[{"type":"struct","schema-id":0,"fields":[{"id":1,"name":"a","type":"int","required":true}]}]}}"#,
                r#" { "read-restrictions" : null, "metadata" : {"format-version":1,"schema":{"type":"struct","fields":[]}, "x":[1e5,"\ud800"]} } "#,
            ],
            load_result,
        );
    }
}
