//! Entity tags: reading those of clients and of the inner service, and making our own.

use std::ops::Range;

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use bytes::Bytes;
use http::{HeaderMap, HeaderValue, header};
use sha2::{Digest, Sha256};

use super::capability::{Reader, trim_blanks};
use crate::{policy::TableIdent, resolve::Resolution, source::Revision, table::LoadResult};

/// Begins the opaque part of every tag of ours.
const OURS: &[u8] = b"rr1.";

/// Begins every tag of ours.
const BEFORE: &str = "W/\"rr1.";

/// The length of a SHA-256 in base64 without padding.
const ENCODED_HASH: usize = 43;

/// Inner tags longer than this are not carried.
const LONGEST_CARRIED: usize = 256;

/// More inner tags than this are not sent inwards; the table is loaded in full instead.
const MOST_CARRIED: usize = 16;

/// An entity tag (RFC 9110, section 8.8.3), borrowed from a header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct EntityTag<'a> {
    /// As it stands in the header, with quotes and a possible `W/`.
    text: &'a [u8],
    /// What is between the quotes.
    opaque: &'a [u8],
}

impl<'a> EntityTag<'a> {
    /// Splits a tag off the beginning of `text`.
    fn split(text: &'a [u8]) -> Option<(Self, &'a [u8])> {
        let quoted = text.strip_prefix(b"W/").unwrap_or(text).strip_prefix(b"\"")?;
        let length = quoted.iter().position(|byte| *byte == b'"')?;
        let (opaque, rest) = (&quoted[..length], &quoted[length + 1..]);
        let is_etagc = |byte: &u8| matches!(byte, 0x21 | 0x23..=0x7e | 0x80..);
        opaque.iter().all(is_etagc).then(|| (Self { text: &text[..text.len() - rest.len()], opaque }, rest))
    }

    /// A whole header value that is exactly one tag.
    pub(super) fn parse(text: &'a [u8]) -> Option<Self> {
        match Self::split(trim_blanks(text))? {
            (tag, b"") => Some(tag),
            _ => None,
        }
    }

    /// The one tag of a response; several lines are none.
    pub(super) fn of(headers: &'a HeaderMap) -> Option<Self> {
        let mut lines = headers.get_all(header::ETAG).iter();
        match (lines.next(), lines.next()) {
            (Some(line), None) => Self::parse(line.as_bytes()),
            _ => None,
        }
    }

    pub(super) fn as_bytes(self) -> &'a [u8] {
        self.text
    }

    /// Whether a tag of ours carries this one.
    pub(super) fn is_carried(self) -> bool {
        self.text.len() <= LONGEST_CARRIED
    }

    fn weakly_equals(self, other: Self) -> bool {
        self.opaque == other.opaque
    }

    /// The inner tag that a tag of ours carries.
    fn carried(self) -> Option<Vec<u8>> {
        let ours = self.opaque.strip_prefix(OURS)?;
        let dot = ours.iter().position(|byte| *byte == b'.')?;
        let inner = URL_SAFE_NO_PAD.decode(&ours[dot + 1..]).ok()?;
        (inner.len() <= LONGEST_CARRIED && EntityTag::parse(&inner).is_some_and(|tag| tag.text == inner))
            .then_some(inner)
    }
}

/// The validators of a request, which the layer answers in the inner service's stead.
#[derive(Debug, Default)]
pub(super) struct IfNoneMatch {
    lines: Vec<HeaderValue>,
}

/// What an `If-None-Match` says.
enum Condition<'a> {
    Any,
    /// The tags in order. A malformed list has none.
    Tags(Vec<EntityTag<'a>>),
}

impl IfNoneMatch {
    /// Takes the header's lines out of a request.
    pub(super) fn take(headers: &mut HeaderMap) -> Self {
        let lines = match headers.entry(header::IF_NONE_MATCH) {
            header::Entry::Occupied(entry) => entry.remove_entry_mult().1.collect(),
            header::Entry::Vacant(_) => Vec::new(),
        };
        Self { lines }
    }

    fn condition(&self) -> Condition<'_> {
        let mut tags = Vec::new();
        for line in &self.lines {
            let mut rest = line.as_bytes();
            if trim_blanks(rest) == b"*" && self.lines.len() == 1 {
                return Condition::Any;
            }
            loop {
                rest = trim_blanks(rest);
                if let Some(next) = rest.strip_prefix(b",") {
                    rest = next;
                    continue;
                }
                if rest.is_empty() {
                    break;
                }
                match EntityTag::split(rest) {
                    Some((tag, next)) if matches!(trim_blanks(next).first(), None | Some(b',')) => {
                        tags.push(tag);
                        rest = next;
                    }
                    _ => return Condition::Tags(Vec::new()),
                }
            }
        }
        Condition::Tags(tags)
    }

    /// Whether the client has this representation of a governed table; `*` says nothing about that.
    pub(super) fn matches_ours(&self, tag: &HeaderValue) -> bool {
        let (Condition::Tags(tags), Some(tag)) = (self.condition(), EntityTag::parse(tag.as_bytes())) else {
            return false;
        };
        tags.iter().any(|candidate| candidate.weakly_equals(tag))
    }

    /// Whether the client has the inner service's representation of an ungoverned table.
    pub(super) fn matches_inner(&self, response: &HeaderMap) -> bool {
        let Some(tag) = EntityTag::of(response) else { return false };
        match self.condition() {
            Condition::Any => true,
            Condition::Tags(tags) => tags.iter().any(|candidate| candidate.weakly_equals(tag)),
        }
    }

    /// The inner tags that the client's tags of ours carry, each once; none when there are too many.
    pub(super) fn carried(&self) -> CarriedTags {
        let mut carried = Vec::new();
        if let Condition::Tags(tags) = self.condition() {
            for inner in tags.into_iter().filter_map(EntityTag::carried) {
                if !carried.contains(&inner) {
                    carried.push(inner);
                }
                if carried.len() > MOST_CARRIED {
                    return CarriedTags::default();
                }
            }
        }
        CarriedTags(carried)
    }
}

/// Inner tags that a client got from us inside of ours.
#[derive(Debug, Default)]
pub(super) struct CarriedTags(Vec<Vec<u8>>);

impl CarriedTags {
    /// The `If-None-Match` that asks the inner service for them, byte for byte.
    pub(super) fn if_none_match(&self) -> Option<HeaderValue> {
        match &*self.0 {
            [] => None,
            tags => HeaderValue::from_bytes(&tags.join(&b", "[..])).ok(),
        }
    }

    /// Which of them an inner 304 is about: the one that it names, or the only one that was sent.
    pub(super) fn confirmed_by(&self, response: &HeaderMap) -> Option<&[u8]> {
        if !response.contains_key(header::ETAG) {
            let [only] = &*self.0 else { return None };
            return Some(only);
        }
        let named = EntityTag::of(response)?;
        let weakly_equals =
            |inner: &&Vec<u8>| EntityTag::parse(inner).is_some_and(|tag| tag.weakly_equals(named));
        self.0.iter().find(weakly_equals).map(Vec::as_slice)
    }
}

/// Everything that a representation of a governed table depends on.
#[derive(Clone, Copy, Debug)]
pub(super) struct Representation<'a> {
    /// The operation that made it: answers to create and register never match a load.
    pub operation: &'static str,
    pub table: &'a TableIdent,
    /// The mount and the prefix.
    pub lead: &'a str,
    pub inner: InnerState,
    pub metadata_location: Option<&'a str>,
    pub query: Option<&'a str>,
    /// All lines of `X-Iceberg-Access-Delegation`.
    pub delegation: Option<&'a [u8]>,
    pub subject: &'a str,
    pub identity_revision: &'a Revision,
    pub policy_revision: &'a Revision,
    pub schema_id: Option<i32>,
    /// The [digest](digest_of) of what was resolved.
    pub restrictions: &'a [u8; 32],
    pub reader: Reader,
}

impl Representation<'_> {
    /// The tag, carrying `inner` for revalidation.
    pub(super) fn tag(&self, inner: Option<EntityTag<'_>>) -> HeaderValue {
        let inner = inner.filter(|inner| inner.is_carried());
        let hash = self.hash();
        // Exactly as long as it gets, so that it need not move to become a header value.
        let carried = inner.map_or(0, |inner| 1 + base64::encoded_len(inner.text.len(), false).unwrap_or(0));
        let mut tag = String::with_capacity(BEFORE.len() + ENCODED_HASH + carried + 1);
        tag.push_str(BEFORE);
        URL_SAFE_NO_PAD.encode_string(hash, &mut tag);
        if let Some(inner) = inner {
            tag.push('.');
            URL_SAFE_NO_PAD.encode_string(inner.text, &mut tag);
        }
        tag.push('"');
        // Letters, digits and `W/".-_` are always header text.
        HeaderValue::from_maybe_shared(Bytes::from(tag)).expect("an entity tag is header text")
    }

    fn hash(&self) -> [u8; 32] {
        let mut slots = Slots::new();
        slots.text("iceberg-read-restrictions entity tag 2");
        slots.text(self.operation);
        slots.text(&self.table.catalog);
        slots.list(self.table.namespace.iter().map(String::as_bytes));
        slots.text(&self.table.name);
        slots.text(self.lead);
        slots.optional(self.metadata_location.map(str::as_bytes));
        slots.bytes(&self.inner.0);
        slots.optional(self.query.map(str::as_bytes));
        slots.optional(self.delegation);
        slots.text(self.subject);
        slots.text(self.identity_revision.as_str());
        slots.text(self.policy_revision.as_str());
        slots.optional(self.schema_id.map(i32::to_be_bytes).as_ref().map(|id| &id[..]));
        slots.bytes(self.restrictions);
        slots.text(match self.reader {
            Reader::Undeclared => "undeclared",
            Reader::Untrusted => "untrusted",
            Reader::Trusted => "trusted",
        });
        slots.finish()
    }
}

/// A digest of what an inner answer says about its own state, beside the metadata location: all its entity tags, and
/// the body without its `metadata`; with it when neither a tag nor a location tells one state of the table from the
/// next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct InnerState([u8; 32]);

impl InnerState {
    pub(super) fn of(response: &HeaderMap, load: &LoadResult) -> Self {
        let with_metadata = !response.contains_key(header::ETAG) && load.metadata_location().is_none();
        Self::of_parts(response, load.body(), load.metadata(), with_metadata)
    }

    fn of_parts(response: &HeaderMap, body: &[u8], metadata: Range<usize>, with_metadata: bool) -> Self {
        let mut slots = Slots::new();
        let tags = response.get_all(header::ETAG);
        slots.count(tags.iter().count());
        tags.iter().for_each(|tag| slots.bytes(tag.as_bytes()));
        slots.bytes(&body[..metadata.start]);
        slots.bytes(&body[metadata.end..]);
        slots.optional(with_metadata.then(|| &body[metadata]));
        Self(slots.finish())
    }
}

/// A digest of what was resolved: it differs whenever the restrictions or the exemptions do.
pub(super) fn digest_of(resolution: &Resolution) -> [u8; 32] {
    let mut slots = Slots::new();
    slots.optional(resolution.member().map(str::as_bytes));
    slots.list(resolution.exempt().iter().map(|policy| policy.as_bytes()));
    slots.finish()
}

/// A hash over slots that are framed by their lengths, so that no two lists of slots share their bytes.
struct Slots(Sha256);

impl Slots {
    fn new() -> Self {
        Self(Sha256::new())
    }

    fn finish(self) -> [u8; 32] {
        self.0.finalize().into()
    }

    fn bytes(&mut self, bytes: &[u8]) {
        self.count(bytes.len());
        self.0.update(bytes);
    }

    fn text(&mut self, text: &str) {
        self.bytes(text.as_bytes());
    }

    fn optional(&mut self, bytes: Option<&[u8]>) {
        self.list(bytes.into_iter());
    }

    fn list<'a>(&mut self, items: impl ExactSizeIterator<Item = &'a [u8]>) {
        self.count(items.len());
        items.for_each(|item| self.bytes(item));
    }

    fn count(&mut self, count: usize) {
        self.0.update((count as u64).to_be_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn if_none_match(lines: &[&'static str]) -> IfNoneMatch {
        let mut headers = HeaderMap::new();
        for line in lines {
            headers.append(header::IF_NONE_MATCH, HeaderValue::from_bytes(line.as_bytes()).unwrap());
        }
        IfNoneMatch::take(&mut headers)
    }

    fn matches(lines: &[&'static str], tag: &'static str) -> bool {
        if_none_match(lines).matches_ours(&HeaderValue::from_static(tag))
    }

    fn response(tags: &[&'static str]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for tag in tags {
            headers.append(header::ETAG, HeaderValue::from_static(tag));
        }
        headers
    }

    #[test]
    fn comparison_is_weak_over_lists_and_lines() {
        let tag = r#"W/"rr1.abc""#;
        for lines in [
            &[r#"W/"rr1.abc""#][..],
            &[r#""rr1.abc""#],
            &[r#""x", W/"rr1.abc""#],
            &[r#" , "x" ,, W/"rr1.abc" , "#],
            &[r#""x""#, r#""rr1.abc""#],
            &[r#""a,b","rr1.abc""#],
        ] {
            assert!(matches(lines, tag), "{lines:?}");
        }
    }

    #[test]
    fn what_is_not_the_tag_matches_nothing() {
        let tag = r#"W/"rr1.abc""#;
        for lines in [
            &[][..],
            &["*"],
            &[r#"*, W/"rr1.abc""#],
            &["rr1.abc"],
            &[r#"w/"rr1.abc""#],
            &[r#"W/rr1.abc"#],
            &[r#""rr1.abc"#],
            &[r#""rr1.abc" "x""#],
            &[r#""x"x, "rr1.abc""#],
            &[r#""rr1.abc-gzip""#],
            &[r#""rr1.ab""#],
            &[r#""x,rr1.abc""#],
            &[r#""a b", "rr1.abc""#],
            &["garbage", r#""rr1.abc""#],
        ] {
            assert!(!matches(lines, tag), "{lines:?}");
        }
    }

    #[test]
    fn the_inner_tag_of_an_ungoverned_table_matches_with_a_star_too() {
        let inner = response(&[r#""v1""#]);
        assert!(if_none_match(&[r#"W/"v1""#]).matches_inner(&inner));
        assert!(if_none_match(&["*"]).matches_inner(&inner));
        assert!(!if_none_match(&[r#""v2""#]).matches_inner(&inner));
        assert!(!if_none_match(&["*"]).matches_inner(&response(&[])));
        assert!(!if_none_match(&[r#""v1""#]).matches_inner(&response(&[r#""v1""#, r#""v1""#])));
    }

    #[test]
    fn two_thousand_tags_are_read_in_one_pass() {
        let line = format!("{}\"rr1.abc\"", "\"rr1.x.IiJ2MSIi\", ".repeat(2000));
        let mut headers = HeaderMap::new();
        headers.append(header::IF_NONE_MATCH, line.parse().unwrap());
        let tags = IfNoneMatch::take(&mut headers);
        assert!(headers.is_empty());
        assert!(tags.matches_ours(&HeaderValue::from_static(r#"W/"rr1.abc""#)));
    }

    fn table(namespace: &[&str], name: &str) -> TableIdent {
        let namespace = namespace.iter().map(|level| level.to_string()).collect();
        TableIdent { catalog: "prod".into(), namespace, name: name.into() }
    }

    fn inner(tag: &'static str, body: &str) -> InnerState {
        InnerState::of_parts(&response(&[tag]), body.as_bytes(), 1..2, false)
    }

    fn representation<'a>(
        table: &'a TableIdent,
        revision: &'a Revision,
        inner: InnerState,
    ) -> Representation<'a> {
        Representation {
            operation: "loadTable",
            table,
            lead: "/v1",
            inner,
            metadata_location: Some("s3://x"),
            query: None,
            delegation: None,
            subject: "alice",
            identity_revision: revision,
            policy_revision: revision,
            schema_id: Some(0),
            restrictions: &[0; 32],
            reader: Reader::Trusted,
        }
    }

    #[test]
    fn every_slot_changes_the_tag() {
        let (revision, other) = (Revision::new("1"), Revision::new("2"));
        let orders = table(&["sales"], "orders");
        let (levels, name) = (table(&["sal", "es"], "orders"), table(&["sales"], "order"));
        let plain = inner("\"a\"", "{m}");
        let (other_tag, other_body) = (inner("\"b\"", "{m}"), inner("\"a\"", "{m]"));
        let no_tag = InnerState::of_parts(&response(&[]), b"{m}", 1..2, false);
        let two_tags = InnerState::of_parts(&response(&["\"a\"", "\"b\""]), b"{m}", 1..2, false);
        let base = || representation(&orders, &revision, plain);
        let tags = [
            base(),
            Representation { operation: "createTable", ..base() },
            Representation { table: &levels, ..base() },
            Representation { table: &name, ..base() },
            Representation { inner: other_tag, ..base() },
            Representation { inner: other_body, ..base() },
            Representation { inner: no_tag, ..base() },
            Representation { inner: two_tags, ..base() },
            Representation { metadata_location: None, ..base() },
            Representation { metadata_location: Some("s3://y"), ..base() },
            Representation { lead: "/v1/p2", ..base() },
            Representation { query: Some(""), ..base() },
            Representation { query: Some("snapshots=refs"), ..base() },
            Representation { delegation: Some(b"vended-credentials"), ..base() },
            Representation { subject: "bob", ..base() },
            Representation { identity_revision: &other, ..base() },
            Representation { policy_revision: &other, ..base() },
            Representation { schema_id: None, ..base() },
            Representation { schema_id: Some(1), ..base() },
            Representation { restrictions: &[1; 32], ..base() },
            Representation { reader: Reader::Undeclared, ..base() },
            Representation { reader: Reader::Untrusted, ..base() },
        ]
        .map(|representation| representation.tag(None));
        for (at, tag) in tags.iter().enumerate() {
            assert!(!tags[..at].contains(tag), "tag {at} repeats an earlier one");
        }
        assert_eq!(tags[0], base().tag(None), "equal input, equal tag");
    }

    #[test]
    fn the_digest_covers_what_is_outside_of_the_metadata() {
        let digest = |body: &str, with_metadata| {
            let start = body.find('m').unwrap();
            InnerState::of_parts(
                &HeaderMap::new(),
                body.as_bytes(),
                start..body.rfind('m').unwrap() + 1,
                with_metadata,
            )
        };
        assert_eq!(digest("{m1m}", false), digest("{m2m}", false));
        assert_ne!(digest("{m1m}", true), digest("{m2m}", true));
        assert_ne!(digest("{m1m}", false), digest("{m1m }", false));
        assert_ne!(digest("{ m1m}", false), digest("{m1m }", false));
    }

    #[test]
    fn the_inner_tag_comes_back_byte_for_byte() {
        for inner in [r#""v1""#, r#"W/"a,b""#, "\"\u{e9}!\""] {
            let mut headers = HeaderMap::new();
            headers.insert(header::ETAG, HeaderValue::from_bytes(inner.as_bytes()).unwrap());
            let (table, revision) = (table(&["a"], "t"), Revision::new("1"));
            let state = super::tests::inner("\"a\"", "{m}");
            let representation = representation(&table, &revision, state);
            let tag = representation.tag(EntityTag::of(&headers));
            assert!(!tag.as_bytes().contains(&b','));
            assert_eq!(tag.as_bytes().iter().filter(|byte| **byte == b'"').count(), 2);
            let mut request = HeaderMap::new();
            request.append(header::IF_NONE_MATCH, tag);
            let carried = IfNoneMatch::take(&mut request).carried();
            assert_eq!(carried.if_none_match().unwrap().as_bytes(), inner.as_bytes());
            assert_eq!(carried.confirmed_by(&headers), Some(inner.as_bytes()));
            assert_eq!(carried.confirmed_by(&response(&[])), Some(inner.as_bytes()));
            assert_eq!(carried.confirmed_by(&response(&[r#""other""#])), None);
        }
    }

    #[test]
    fn forged_tags_carry_nothing_but_one_well_formed_tag() {
        let carrying =
            |inner: &str| format!("\"rr1.hash.{}\"", URL_SAFE_NO_PAD.encode(inner)).leak() as &'static str;
        for inner in ["*", "", "v1", "\"a\", \"b\"", "\"a", " \"a\"", "\"a\"\r\nX: y", "\"a\"\n"] {
            let tags = if_none_match(&[carrying(inner)]);
            assert!(tags.carried().if_none_match().is_none(), "{inner:?}");
        }
        for tag in [r#""rr1.hash""#, r#""rr1.hash.""#, r#""rr1.hash.%%""#, r#""rr2.hash.IiJ2MSIi""#] {
            assert!(if_none_match(&[tag]).carried().if_none_match().is_none(), "{tag}");
        }
    }

    #[test]
    fn several_carried_tags_go_inwards_as_a_list_until_there_are_too_many() {
        let mut headers = HeaderMap::new();
        for number in 0..MOST_CARRIED {
            let inner = URL_SAFE_NO_PAD.encode(format!("\"v{number}\""));
            headers.append(header::IF_NONE_MATCH, format!("W/\"rr1.h.{inner}\"").parse().unwrap());
        }
        let many = IfNoneMatch::take(&mut headers.clone()).carried();
        assert!(many.if_none_match().unwrap().as_bytes().starts_with(b"\"v0\", \"v1\""));
        assert_eq!(many.confirmed_by(&response(&[r#"W/"v3""#])), Some(&b"\"v3\""[..]));
        assert_eq!(many.confirmed_by(&response(&[])), None, "nobody says which");
        headers.append(header::IF_NONE_MATCH, HeaderValue::from_static("\"rr1.h.Im9uZSBtb3JlIg\""));
        headers.append(header::IF_NONE_MATCH, HeaderValue::from_static("\"rr1.h.Im1vcmUi\""));
        assert!(IfNoneMatch::take(&mut headers).carried().if_none_match().is_none());
    }
}
