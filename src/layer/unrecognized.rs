//! The last line of defence: an answer to a request that nobody recognised is looked at, in case it is a load result.

use http::{HeaderMap, Request, Response, StatusCode, header, response::Parts};

use super::{
    body::{Collected, RequestBody, ResponseBody},
    error::Refusal,
    exchange::{Reply, Stop},
    headers,
    inner::Inner,
};
use crate::table::is_load_result;

/// Calls the inner service, and refuses a load result.
pub(super) async fn watch<I: Inner>(
    mut inner: I,
    mut request: Request<RequestBody<I::RequestBody>>,
    limit: usize,
) -> Result<Reply<I>, Stop<I::Error>> {
    headers::take_validators(request.headers_mut());
    headers::ask_for_the_whole_body(request.headers_mut());
    let response = inner.call(request).await.map_err(Stop::Inner)?;
    if response.status() == StatusCode::NOT_MODIFIED {
        return Err(Refusal::stray_not_modified().into());
    }
    if !response.status().is_success() {
        return Ok(response.map(ResponseBody::untouched));
    }
    let (head, body) = response.into_parts();
    if headers::is_encoded(&head.headers) {
        return Err(Refusal::upstream_invalid("a compressed answer to an unrecognised request").into());
    }
    let may_be_json = says_json(&head.headers);
    let collected = match may_be_json {
        true => Collected::collect(body, limit).await,
        false => Collected::collect_while(body, limit, |read| may_begin_an_object(read)).await,
    };
    let refuse = |reason| refuse(&head, reason);
    match collected.whole() {
        Some(body) if is_load_result(body) => return Err(refuse("a load result").into()),
        Some(_) => {}
        None if may_be_json || may_begin_an_object(collected.bytes()) => {
            return Err(refuse(collected.failure()).into());
        }
        None => {}
    }
    Ok(Response::from_parts(head, collected.replay()))
}

fn refuse(head: &Parts, reason: &'static str) -> Refusal {
    Refusal::upstream_invalid(format!("{reason}, status {}, to an unrecognised request", head.status))
}

/// Whether an answer says that it is JSON, or does not say what it is.
fn says_json(headers: &HeaderMap) -> bool {
    let Some(content_type) = headers.get(header::CONTENT_TYPE) else { return true };
    content_type.as_bytes().to_ascii_lowercase().windows(4).any(|word| word == b"json")
}

/// Whether what was read of a body is the beginning of a JSON object in some encoding, or nothing yet.
fn may_begin_an_object<'a>(read: impl IntoIterator<Item = &'a u8>) -> bool {
    let first = read.into_iter().find(|byte| !byte.is_ascii_whitespace());
    // A brace, a comment, a byte order mark, or the zero bytes of a wide encoding.
    matches!(first, None | Some(b'{' | b'/' | b'#' | 0xef | 0xfe | 0xff | 0))
}
