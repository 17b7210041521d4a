//! A catalog that reads paths as leniently as servers do: it decodes segments, drops empty ones, resolves dots, cuts
//! `;parameters`, ignores a trailing slash and the case of letters.

use axum::{body::Body, response::Response};
use http::{Method, StatusCode};
use percent_encoding::percent_decode_str;

use super::{Inner, TABLE, strict::CREDENTIALS, table_response};

/// How lenient it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Leniency {
    /// Decodes the whole path before it splits it.
    pub decodes_first: bool,
    /// Takes a backslash for a slash.
    pub backslashes: bool,
    /// Resolves dots before it drops empty segments.
    pub dots_first: bool,
    /// Leaves `;parameters` where they are.
    pub keeps_parameters: bool,
}

impl Leniency {
    /// Every combination.
    pub fn all() -> impl Iterator<Item = Self> {
        (0..16_u8).map(|bits| Self {
            decodes_first: bits & 1 != 0,
            backslashes: bits & 2 != 0,
            dots_first: bits & 4 != 0,
            keeps_parameters: bits & 8 != 0,
        })
    }

    /// The segments of a path as this catalog reads it.
    pub fn segments(self, path: &str) -> Vec<String> {
        let decode = |text: &str| percent_decode_str(text).decode_utf8_lossy().into_owned();
        let is_slash = |letter: char| letter == '/' || self.backslashes && letter == '\\';
        let text = if self.decodes_first { decode(path) } else { path.to_owned() };
        let mut segments: Vec<String> = text
            .split(is_slash)
            .map(|segment| if self.decodes_first { segment.to_owned() } else { decode(segment) })
            .map(|segment| match segment.split_once(';') {
                Some((name, _)) if !self.keeps_parameters => name.to_owned(),
                _ => segment,
            })
            .collect();
        if self.dots_first {
            resolve_dots(&mut segments);
        }
        segments.retain(|segment| !segment.is_empty());
        resolve_dots(&mut segments);
        segments
    }

    /// What a path is to this catalog, as far as reading a table goes.
    pub fn answer(self, method: &Method, path: &str) -> Option<&'static str> {
        let segments = self.segments(path);
        let lower: Vec<String> = segments.iter().map(|segment| ignoring_case(segment)).collect();
        let lower: Vec<&str> = lower.iter().map(String::as_str).collect();
        let mut answers = (0..lower.len()).filter(|at| lower[*at] == "namespaces").filter_map(|at| {
            let exists = segments.get(at + 1).is_some_and(|ns| ns == "sales")
                && segments.get(at + 3).is_none_or(|table| table == "orders" || table == "open");
            match (method.as_str(), &lower[at + 1..]) {
                ("POST", [_, "tables" | "register"]) if exists => Some(TABLE),
                ("GET", [_, "tables", _]) if exists => Some(TABLE),
                (_, [_, "tables", _, "credentials" | "plan" | "tasks" | "sign"]) if exists => {
                    Some(CREDENTIALS)
                }
                (_, [_, "tables", _, "plan", _]) if exists => Some(CREDENTIALS),
                _ => None,
            }
        });
        answers.next()
    }

    pub fn service(self) -> Inner {
        Inner::new(move |seen| match self.answer(&seen.method, seen.uri.path()) {
            Some(TABLE) => table_response(TABLE),
            Some(body) => Response::new(Body::from(body)),
            None => Response::builder().status(StatusCode::NOT_FOUND).body(Body::from("{}")).unwrap(),
        })
    }
}

/// A text of which only the letters matter: as in many languages, upper case first, and then lower case.
pub fn ignoring_case(text: &str) -> String {
    text.to_uppercase().to_lowercase()
}

fn resolve_dots(segments: &mut Vec<String>) {
    let mut resolved = Vec::new();
    for segment in segments.drain(..) {
        match &*segment {
            "." => {}
            ".." => drop(resolved.pop()),
            _ => resolved.push(segment),
        }
    }
    *segments = resolved;
}
