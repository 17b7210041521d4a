//! From the raw parts of a path to a [`TableIdent`], and back.

use std::{borrow::Cow, collections::BTreeSet, fmt};

use http::request::Parts;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};

use crate::policy::TableIdent;

/// Everything but RFC 3986's unreserved characters.
const RESERVED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

const UNIT_SEPARATOR: &str = "%1F";

/// Where the catalog's name comes from.
pub(super) enum CatalogName {
    Fixed(String),
    /// The decoded prefix of the path, which must be one of these.
    FromPrefix(BTreeSet<String>),
    #[expect(clippy::type_complexity, reason = "a closure of the user's, named nowhere else")]
    With(Box<dyn Fn(&Parts) -> Option<String> + Send + Sync>),
}

impl CatalogName {
    /// The catalog of a request, or `None` when there is none of that name.
    pub(super) fn of<'a>(&'a self, lead: &str, request: &Parts) -> Option<Cow<'a, str>> {
        match self {
            Self::Fixed(name) => Some(Cow::Borrowed(name)),
            Self::FromPrefix(names) => from_prefix(names, lead).map(Cow::Borrowed),
            Self::With(name) => name(request).map(Cow::Owned),
        }
    }

    /// Whether two requests with one path are about one catalog.
    pub(super) fn is_settled_by_path(&self) -> bool {
        match self {
            Self::Fixed(_) | Self::FromPrefix(_) => true,
            Self::With(_) => false,
        }
    }

    /// Whether requests that are no operations may pass below this lead: a server that ignores its prefix would
    /// answer them under any. A lead that cannot be told is none of the set.
    pub(super) fn admits(&self, lead: Option<&str>) -> bool {
        match self {
            Self::FromPrefix(names) => lead.is_some_and(|lead| from_prefix(names, lead).is_some()),
            Self::Fixed(_) | Self::With(_) => true,
        }
    }
}

impl fmt::Debug for CatalogName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fixed(name) => f.debug_tuple("Fixed").field(name).finish(),
            Self::FromPrefix(names) => f.debug_tuple("FromPrefix").field(names).finish(),
            Self::With(_) => f.write_str("With(..)"),
        }
    }
}

/// The one name of the set that the prefix is: what follows `v1`, or all of it behind a nested router, where no `v1` is
/// left. With two of them it depends on the server which one begins the prefix, and with a `namespaces` where the
/// prefix ends; nobody's prefix is one of the set then.
fn from_prefix<'a>(names: &'a BTreeSet<String>, lead: &str) -> Option<&'a str> {
    let lead = lead.strip_prefix('/').unwrap_or(lead);
    let mut versions = lead.split('/').filter(|segment| *segment == "v1");
    let prefix = match (versions.next(), versions.next()) {
        (None, _) => lead,
        (Some(_), None) if lead.starts_with("v1/") => &lead["v1/".len()..],
        (Some(_), None) => lead.split_once("/v1/")?.1,
        (Some(_), Some(_)) => return None,
    };
    if prefix.split('/').any(|segment| segment == "namespaces") {
        return None;
    }
    let decoded = percent_decode_str(prefix).decode_utf8().ok()?;
    names.get(&*decoded).map(String::as_str)
}

/// How the inner service reads names in paths.
#[derive(Clone, Debug)]
pub(super) struct NameSyntax {
    /// Whether `+` stands for a blank.
    pub plus_as_space: bool,
    /// What separates namespace levels beside `%1F`, as it stands in a raw path.
    pub separators: Vec<String>,
}

impl NameSyntax {
    /// The levels of a namespace: split in the raw text, then decoded once.
    pub(super) fn namespace(&self, raw: &str) -> Option<Vec<String>> {
        let mut levels = Vec::with_capacity(1);
        let mut rest = raw;
        while let Some((at, length)) = self.next_separator(rest) {
            levels.push(self.level(&rest[..at])?);
            rest = &rest[at + length..];
        }
        levels.push(self.level(rest)?);
        Some(levels)
    }

    /// A level must not be empty, nor hold a separator that is still encoded: servers that decode the whole
    /// segment before they split it would split there.
    fn level(&self, raw: &str) -> Option<String> {
        let level = self.name(raw)?;
        self.next_encoded_separator(&level).is_none().then_some(level)
    }

    pub(super) fn name(&self, raw: &str) -> Option<String> {
        let raw: Cow<'_, str> = match self.plus_as_space && raw.contains('+') {
            true => raw.replace('+', " ").into(),
            false => raw.into(),
        };
        let name = percent_decode_str(&raw).decode_utf8().ok()?;
        (!name.is_empty()).then(|| name.into_owned())
    }

    /// Where the first separator stands in raw text and how long it is.
    fn next_separator(&self, raw: &str) -> Option<(usize, usize)> {
        self.all_separators().filter_map(|separator| Some((find(raw, separator)?, separator.len()))).min()
    }

    fn next_encoded_separator(&self, level: &str) -> Option<usize> {
        self.all_separators()
            .filter(|separator| separator.starts_with('%'))
            .find_map(|separator| find(level, separator))
    }

    fn all_separators(&self) -> impl Iterator<Item = &str> {
        std::iter::once(UNIT_SEPARATOR).chain(self.separators.iter().map(String::as_str))
    }

    /// The path of a table below `lead`, as the inner service reads it.
    pub(super) fn path_of(&self, lead: &str, table: &TableIdent) -> String {
        let separator = self.separators.first().map_or(UNIT_SEPARATOR, String::as_str);
        let encode = |name: &str| utf8_percent_encode(name, RESERVED).to_string();
        let levels: Vec<String> = table.namespace.iter().map(|level| encode(level)).collect();
        format!("{lead}/namespaces/{}/tables/{}", levels.join(separator), encode(&table.name))
    }
}

/// Finds a separator; the case of hexadecimal digits makes no difference.
fn find(text: &str, separator: &str) -> Option<usize> {
    let (text, separator) = (text.as_bytes(), separator.as_bytes());
    if separator.is_empty() {
        return None;
    }
    text.windows(separator.len()).position(|window| window.eq_ignore_ascii_case(separator))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn syntax(plus_as_space: bool, separators: &[&str]) -> NameSyntax {
        NameSyntax { plus_as_space, separators: separators.iter().map(|text| text.to_string()).collect() }
    }

    #[test]
    fn levels_are_split_in_the_raw_text_and_decoded_once() {
        let plain = syntax(false, &[]);
        for (raw, levels) in [
            ("a", &["a"][..]),
            ("a%1Fb", &["a", "b"]),
            ("a%1fb%1Fc", &["a", "b", "c"]),
            ("n%2Fs", &["n/s"]),
            ("a%252Fb", &["a%2Fb"]),
            ("a.b+c", &["a.b+c"]),
            ("%E2%82%AC%20x", &["€ x"]),
        ] {
            assert_eq!(plain.namespace(raw).unwrap(), levels, "{raw}");
        }
        for raw in ["", "%1F", "a%1F", "%1fb", "a%1F%1Fb", "%FF", "a%251Fb"] {
            assert_eq!(plain.namespace(raw), None, "{raw}");
        }
    }

    #[test]
    fn configured_separators_split_too() {
        let dotted = syntax(false, &["%2E"]);
        assert_eq!(dotted.namespace("a%2eb%1Fc").unwrap(), ["a", "b", "c"]);
        assert_eq!(dotted.namespace("a.b").unwrap(), ["a.b"]);
        assert_eq!(syntax(false, &["."]).namespace("a.b%2Ec").unwrap(), ["a", "b.c"]);
    }

    #[test]
    fn a_plus_is_a_blank_only_where_the_inner_service_says_so() {
        assert_eq!(syntax(false, &[]).name("a+b").unwrap(), "a+b");
        assert_eq!(syntax(true, &[]).name("a+b%2Bc").unwrap(), "a b+c");
    }

    #[test]
    fn paths_of_tables_are_read_back_as_the_same_table() {
        for (syntax, separator) in [(syntax(false, &[]), "%1F"), (syntax(true, &["%2E"]), "%2E")] {
            let table = TableIdent {
                catalog: "prod".into(),
                namespace: vec!["a/b".into(), "c;+ d".into()],
                name: "50%€~t".into(),
            };
            let path = syntax.path_of("/v1/x", &table);
            assert_eq!(path, format!("/v1/x/namespaces/a%2Fb{separator}c%3B%2B%20d/tables/50%25%E2%82%AC~t"));
            let (namespace, name) = path["/v1/x/namespaces/".len()..].split_once("/tables/").unwrap();
            assert_eq!(syntax.namespace(namespace).unwrap(), table.namespace);
            assert_eq!(syntax.name(name).unwrap(), table.name);
        }
    }

    #[test]
    fn the_prefix_must_be_one_of_the_set() {
        let names = ["prod", "dev", "a/b", "my cat"].map(String::from).into();
        let catalog = CatalogName::FromPrefix(names);
        let (request, _) = http::Request::new(()).into_parts();
        for (lead, name) in [
            ("/v1/prod", Some("prod")),
            ("/api/catalog/v1/dev", Some("dev")),
            ("/v1/a/b", Some("a/b")),
            ("/v1/a%2Fb", Some("a/b")),
            ("/v1/my%20cat", Some("my cat")),
            ("/prod", Some("prod")),
            ("/v1", None),
            ("", None),
            ("/v1/Prod", None),
            ("/v1/prod/x", None),
            ("/v1/x/prod", None),
            ("/prod/v1", None),
            ("/xv1/prod", None),
            // Which `v1` begins the prefix, and where does it end?
            ("/v1/prod/v1/dev", None),
            ("/iceberg/v1/restcatalog/v1/prod", None),
            ("/v1/prod/namespaces/x/v1/dev", None),
            ("/v1/prod/namespaces/dev", None),
        ] {
            assert_eq!(catalog.of(lead, &request).as_deref(), name, "{lead}");
            assert_eq!(catalog.admits(Some(lead)), name.is_some(), "{lead}");
        }
    }
}
