//! Decoding an answer that is compressed although `identity` was asked for.

use std::{borrow::Cow, convert::Infallible, future};

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Request, Response, header::CONTENT_ENCODING};
use http_body_util::Full;
use tower::{ServiceExt, service_fn};
use tower_http::decompression::Decompression;

use super::{body::Collected, headers};

/// Decodes a body of one known coding, to no more than `limit` bytes.
pub(super) async fn decompress(
    headers: &HeaderMap,
    body: &Bytes,
    limit: usize,
) -> Result<Bytes, Cow<'static, str>> {
    let mut codings = headers.get_all(CONTENT_ENCODING).iter();
    let (Some(coding), None) = (codings.next(), codings.next()) else {
        return Err("the body is compressed more than once".into());
    };
    let coding = HeaderValue::from_bytes(&coding.as_bytes().trim_ascii().to_ascii_lowercase())
        .map_err(|_| "the body is compressed in an unknown way")?;
    let encoded = service_fn(|_: Request<()>| {
        let mut response = Response::new(Full::new(body.clone()));
        response.headers_mut().insert(CONTENT_ENCODING, coding.clone());
        future::ready(Ok::<_, Infallible>(response))
    });
    let decoded = match Decompression::new(encoded).oneshot(Request::new(())).await {
        Ok(response) if !headers::is_encoded(response.headers()) => response.into_body(),
        Ok(_) => return Err("the body is compressed in an unknown way".into()),
        Err(error) => match error {},
    };
    let collected = Collected::collect(decoded, limit).await;
    let whole = collected.whole().cloned();
    whole.ok_or_else(|| format!("decoded, {}", collected.failure()).into())
}

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt;
    use tower_http::compression::Compression;

    use super::*;

    async fn compressed(coding: &'static str, text: &'static str) -> (HeaderMap, Bytes) {
        let plain = service_fn(move |_: Request<()>| {
            future::ready(Ok::<_, Infallible>(Response::new(Full::new(Bytes::from(text)))))
        });
        let mut request = Request::new(());
        request.headers_mut().insert("accept-encoding", HeaderValue::from_static(coding));
        let response = Compression::new(plain).oneshot(request).await.unwrap();
        let headers = response.headers().clone();
        assert_eq!(headers[CONTENT_ENCODING], coding);
        (headers, response.into_body().collect().await.unwrap().to_bytes())
    }

    const TEXT: &str =
        "one of many lines, one of many lines, one of many lines, one of many lines, one of many lines";

    #[tokio::test]
    async fn known_codings_are_decoded_up_to_the_limit() {
        for coding in ["gzip", "deflate", "br", "zstd"] {
            let (headers, body) = compressed(coding, TEXT).await;
            assert!(body.len() < TEXT.len());
            assert_eq!(decompress(&headers, &body, TEXT.len()).await.unwrap(), TEXT, "{coding}");
            assert!(decompress(&headers, &body, TEXT.len() - 1).await.is_err(), "{coding}");
            assert!(decompress(&headers, &body.slice(..body.len() / 2), 1000).await.is_err(), "{coding}");
        }
    }

    #[tokio::test]
    async fn anything_else_is_an_error() {
        let (_, body) = compressed("gzip", TEXT).await;
        for codings in [&["x-odd"][..], &["gzip, gzip"], &["gzip", "gzip"], &["br"]] {
            let mut headers = HeaderMap::new();
            for coding in codings {
                headers.append(CONTENT_ENCODING, HeaderValue::from_static(coding));
            }
            assert!(decompress(&headers, &body, 1000).await.is_err(), "{codings:?}");
        }
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_ENCODING, HeaderValue::from_static(" GZIP "));
        assert_eq!(decompress(&headers, &body, 1000).await.unwrap(), TEXT);
    }
}
