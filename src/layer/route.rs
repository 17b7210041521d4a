//! Which operation a request is, on which table, and whether every router would agree.
//!
//! The exact spelling of an operation is recognised by its fixed words alone, whatever stands before
//! `namespaces`, so that the layer works behind any mount and inside a nested router. A path that is not an
//! exact spelling, but would be an operation to a router that reads paths leniently, is [`Route::Ambiguous`].

use http::Method;

use super::reading::{self, Lenient};

/// What a request asks for, as far as the layer tells requests apart. All parts are raw slices of the path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Route<'a> {
    /// Not below `namespaces`: nothing of ours.
    Elsewhere,
    /// An operation below `namespaces` that is known never to answer with a load result.
    Passing {
        /// What stands before `namespaces`: the mount and the prefix.
        lead: &'a str,
    },
    /// Below `namespaces`, and no operation that anybody has heard of.
    Unrecognized {
        /// What stands before `namespaces`; `None` where only a lenient router would find that word.
        lead: Option<&'a str>,
    },
    /// One of the operations on a table that the layer governs, in its exact spelling.
    Operation(Operation<'a>),
    /// Two routers could read this path differently, and one of them would find an operation.
    Ambiguous,
}

/// An operation with the places of the names that it is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Operation<'a> {
    /// Which one.
    pub kind: OperationKind,
    /// What stands before `namespaces` (or before `transactions`).
    pub lead: &'a str,
    /// The namespace, still encoded; empty for [`OperationKind::CommitTransaction`].
    pub namespace: &'a str,
    /// The table, still encoded; empty where the path names none.
    pub table: &'a str,
}

/// The operations of the Iceberg REST catalog that the layer governs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum OperationKind {
    LoadTable,
    TableExists,
    CreateTable,
    RegisterTable,
    LoadCredentials,
    PlanTableScan,
    FetchPlanningResult,
    FetchScanTasks,
    Sign,
    CommitTable,
    CommitTransaction,
}

impl OperationKind {
    /// The operation's name, as in Iceberg's OpenAPI document where it has one.
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::LoadTable => "loadTable",
            Self::TableExists => "tableExists",
            Self::CreateTable => "createTable",
            Self::RegisterTable => "registerTable",
            Self::LoadCredentials => "loadCredentials",
            Self::PlanTableScan => "planTableScan",
            Self::FetchPlanningResult => "fetchPlanningResult",
            Self::FetchScanTasks => "fetchScanTasks",
            Self::Sign => "sign",
            Self::CommitTable => "updateTable",
            Self::CommitTransaction => "commitTransaction",
        }
    }
}

impl Operation<'_> {
    /// How much of the path is that of the table; nothing where it names none.
    pub(super) fn table_path_length(&self) -> usize {
        if self.table.is_empty() {
            return 0;
        }
        let names = ["/namespaces/", self.namespace, "/tables/", self.table];
        self.lead.len() + names.map(str::len).iter().sum::<usize>()
    }
}

impl<'a> Route<'a> {
    /// Recognises a request by its method and the raw path of its URI.
    pub(super) fn of(method: &Method, path: &'a str) -> Self {
        let exact = Self::exact(method, path);
        if !reading::is_doubtful(path) {
            return exact;
        }
        let operation = match exact {
            Self::Operation(operation) => Some(operation),
            _ => None,
        };
        let spelled_badly =
            operation.is_some_and(|operation| !reading::is_exactly_spelled(path, operation.lead));
        if spelled_badly {
            return Self::Ambiguous;
        }
        match (reading::read_leniently(method, path, operation), exact) {
            (Lenient::AnotherOperation, _) => Self::Ambiguous,
            (Lenient::BelowNamespaces, Self::Elsewhere) => Self::Unrecognized { lead: None },
            (Lenient::BelowNamespaces | Lenient::Nothing, exact) => exact,
        }
    }

    /// The reading of a router that compares raw segments, keeps empty ones and resolves nothing.
    fn exact(method: &Method, path: &'a str) -> Self {
        let mut found = Self::Elsewhere;
        let mut start = 0;
        for segment in path.split('/') {
            let end = start + segment.len();
            let here = match segment {
                "namespaces" => Self::below_namespaces(method, lead(path, start), path.get(end + 1..)),
                "transactions" if *method == Method::POST && path[end..] == *"/commit" => {
                    Self::Operation(Operation {
                        kind: OperationKind::CommitTransaction,
                        lead: lead(path, start),
                        namespace: "",
                        table: "",
                    })
                }
                _ => Self::Elsewhere,
            };
            found = found.and(here);
            start = end + 1;
        }
        found
    }

    /// What a path with the word `namespaces` at two places is, `self` being the reading at the first one: two
    /// operations are ambiguous, and so is one behind a path that nobody recognises, for it need not be a mount.
    /// One operation is that operation, and only what passes under every reading passes.
    fn and(self, other: Self) -> Self {
        match (self, other) {
            (Self::Elsewhere, route) | (route, Self::Elsewhere) => route,
            (Self::Ambiguous, _)
            | (_, Self::Ambiguous)
            | (Self::Operation(_) | Self::Unrecognized { .. }, Self::Operation(_)) => Self::Ambiguous,
            (route @ Self::Operation(_), _) | (_, route @ Self::Operation(_)) => route,
            (route @ Self::Unrecognized { .. }, _) | (_, route @ Self::Unrecognized { .. }) => route,
            (route @ Self::Passing { .. }, Self::Passing { .. }) => route,
        }
    }

    fn below_namespaces(method: &Method, lead: &'a str, rest: Option<&'a str>) -> Self {
        let Some(rest) = rest else { return Self::Passing { lead } };
        let (segments, count) = split::<6>(rest);
        match classify(method, &segments[..count]) {
            Shape::Passing => Self::Passing { lead },
            Shape::Unrecognized => Self::Unrecognized { lead: Some(lead) },
            Shape::Operation(kind) => {
                let table = if count > 2 { segments[2] } else { "" };
                Self::Operation(Operation { kind, lead, namespace: segments[0], table })
            }
        }
    }
}

/// What stands before the segment that begins at `start`, without the slash between them.
fn lead(path: &str, start: usize) -> &str {
    &path[..start.saturating_sub(1)]
}

/// The first `N` segments and how many there are, at most `N`.
fn split<const N: usize>(rest: &str) -> ([&str; N], usize) {
    let mut segments = [""; N];
    let mut count = 0;
    for segment in rest.split('/').take(N) {
        segments[count] = segment;
        count += 1;
    }
    (segments, count)
}

/// What the segments behind `namespaces` say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shape {
    Passing,
    Unrecognized,
    Operation(OperationKind),
}

/// Tells the shapes of the REST specification apart by their fixed words, spelled exactly.
///
/// The gates take any method but `OPTIONS`: a server that hands out credentials on `POST` hands out the
/// same credentials.
pub(super) fn classify(method: &Method, segments: &[&str]) -> Shape {
    use OperationKind::*;
    let (get, post, delete) = (Method::GET, Method::POST, Method::DELETE);
    let gate = |kind| match *method {
        Method::OPTIONS => Shape::Unrecognized,
        _ => Shape::Operation(kind),
    };
    let passing_if = |methods: &[&Method]| match methods.contains(&method) {
        true => Shape::Passing,
        false => Shape::Unrecognized,
    };
    match *segments {
        [_] => passing_if(&[&get, &Method::HEAD, &delete]),
        [_, "properties"] => passing_if(&[&post]),
        [_, "tables"] if *method == post => Shape::Operation(CreateTable),
        [_, "tables"] => passing_if(&[&get]),
        // The list with a trailing slash, not a table without a name.
        [_, "tables", ""] => Shape::Unrecognized,
        [_, "register"] if *method == post => Shape::Operation(RegisterTable),
        [_, "tables", _] => match *method {
            Method::GET => Shape::Operation(LoadTable),
            Method::HEAD => Shape::Operation(TableExists),
            Method::POST => Shape::Operation(CommitTable),
            Method::DELETE => Shape::Passing,
            _ => Shape::Unrecognized,
        },
        [_, "tables", _, "credentials"] => gate(LoadCredentials),
        [_, "tables", _, "plan"] => gate(PlanTableScan),
        [_, "tables", _, "plan", _] if *method == delete => Shape::Passing,
        [_, "tables", _, "plan", _] => gate(FetchPlanningResult),
        [_, "tables", _, "tasks"] => gate(FetchScanTasks),
        [_, "tables", _, "sign"] => gate(Sign),
        [_, "tables", _, "metrics" | "unregister"] => passing_if(&[&post]),
        [_, "views"] => passing_if(&[&get, &post]),
        [_, "views", _] => passing_if(&[&get, &Method::HEAD, &post, &delete]),
        [_, "register-view"] => passing_if(&[&post]),
        [_, "functions"] | [_, "functions", _] => passing_if(&[&get]),
        _ => Shape::Unrecognized,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn route(method: &str, path: &'static str) -> Route<'static> {
        Route::of(&method.parse().unwrap(), path)
    }

    fn operation(
        method: &str,
        path: &'static str,
    ) -> (OperationKind, &'static str, &'static str, &'static str) {
        match route(method, path) {
            Route::Operation(Operation { kind, lead, namespace, table }) => (kind, lead, namespace, table),
            other => panic!("{method} {path}: {other:?}"),
        }
    }

    #[test]
    fn operations_are_found_behind_any_mount_and_prefix() {
        use OperationKind::*;
        for lead in ["", "/v1", "/v1/prod", "/v1/a/b", "/api/catalog/v1", "/api/catalog/v1/my%20prod"] {
            for (method, rest, kind, table) in [
                ("GET", "/namespaces/ns/tables/t", LoadTable, "t"),
                ("HEAD", "/namespaces/ns/tables/t", TableExists, "t"),
                ("POST", "/namespaces/ns/tables/t", CommitTable, "t"),
                ("POST", "/namespaces/ns/tables", CreateTable, ""),
                ("POST", "/namespaces/ns/register", RegisterTable, ""),
                ("GET", "/namespaces/ns/tables/t/credentials", LoadCredentials, "t"),
                ("POST", "/namespaces/ns/tables/t/plan", PlanTableScan, "t"),
                ("GET", "/namespaces/ns/tables/t/plan/7-a", FetchPlanningResult, "t"),
                ("POST", "/namespaces/ns/tables/t/tasks", FetchScanTasks, "t"),
                ("POST", "/namespaces/ns/tables/t/sign", Sign, "t"),
                ("PUT", "/namespaces/ns/tables/t/sign", Sign, "t"),
            ] {
                let path: &'static str = format!("{lead}{rest}").leak();
                assert_eq!(operation(method, path), (kind, lead, "ns", table), "{method} {path}");
            }
            let path: &'static str = format!("{lead}/transactions/commit").leak();
            assert_eq!(operation("POST", path), (CommitTransaction, lead, "", ""));
        }
    }

    #[test]
    fn what_never_answers_with_a_load_result_passes() {
        for (method, path) in [
            ("GET", "/v1/namespaces"),
            ("POST", "/v1/namespaces"),
            ("GET", "/v1/namespaces/"),
            ("GET", "/v1/namespaces/a%1Fb"),
            ("GET", "/v1/namespaces/ns/tables"),
            ("DELETE", "/v1/namespaces/ns/tables/t"),
            ("DELETE", "/v1/namespaces/ns/tables/t/plan/1"),
            ("POST", "/v1/namespaces/ns/tables/t/metrics"),
            ("POST", "/v1/namespaces/ns/tables/t/unregister"),
            ("GET", "/v1/namespaces/ns/views/namespaces"),
            ("POST", "/v1/namespaces/ns/views/v"),
            ("GET", "/v1/namespaces/ns/functions"),
        ] {
            assert!(matches!(route(method, path), Route::Passing { .. }), "{method} {path}");
        }
        for (method, path) in [
            ("GET", "/"),
            ("GET", "/v1/config"),
            ("POST", "/v1/prod/tables/rename"),
            ("POST", "/v1/oauth/tokens"),
            ("GET", "/v1/transactions/commit"),
            ("GET", "//odd/../%2e/;x"),
            ("GET", "/v1/tables/t"),
            ("OPTIONS", "*"),
        ] {
            assert_eq!(route(method, path), Route::Elsewhere, "{method} {path}");
        }
    }

    #[test]
    fn other_paths_and_methods_below_namespaces_are_not_recognized() {
        for (method, path) in [
            ("PUT", "/v1/namespaces/ns/tables/t"),
            ("get", "/v1/namespaces/ns/tables/t"),
            ("GET", "/v1/namespaces/ns/tables/"),
            ("GET", "/v1/namespaces/ns/generic-tables/t"),
            ("GET", "/v1/namespaces/ns/tables/t/snapshots"),
            ("GET", "/v1/namespaces/a/tables/n%2Fs/x"),
            ("OPTIONS", "/v1/namespaces/ns/tables/t/credentials"),
        ] {
            assert!(matches!(route(method, path), Route::Unrecognized { .. }), "{method} {path}");
        }
    }

    #[test]
    fn names_that_are_fixed_words_are_names_where_a_name_stands() {
        use OperationKind::*;
        for word in
            ["tables", "register", "plan", "namespaces", "v1", "Tables", "V1", "commit", "transactions"]
        {
            let path: &'static str = format!("/v1/namespaces/ns/tables/{word}").leak();
            assert_eq!(operation("GET", path), (LoadTable, "/v1", "ns", word));
            let path: &'static str = format!("/v1/namespaces/{word}/tables/t").leak();
            assert_eq!(operation("GET", path), (LoadTable, "/v1", word, "t"));
            let path: &'static str = format!("/v1/namespaces/ns/tables/{word}/plan").leak();
            assert_eq!(operation("POST", path), (PlanTableScan, "/v1", "ns", word));
        }
    }

    #[test]
    fn a_path_that_is_two_operations_is_ambiguous() {
        // Table `tables` in namespace `namespaces`, or table `plan` in namespace `tables` below the prefix `namespaces`.
        assert_eq!(route("POST", "/v1/namespaces/namespaces/tables/tables/plan"), Route::Ambiguous);
        assert_eq!(route("POST", "/v1/namespaces/namespaces/tables/register"), Route::Ambiguous);
    }

    #[test]
    fn an_operation_behind_an_unknown_path_below_namespaces_is_ambiguous() {
        for path in [
            "/v1/namespaces/a/tables/t/namespaces/b/tables/u",
            "/v1/namespaces/a/tables/t/v1/namespaces/b/tables/u",
            "/v1/namespaces/a/v1/namespaces/b/tables/u",
        ] {
            assert_eq!(route("GET", path), Route::Ambiguous, "{path}");
        }
    }

    #[test]
    fn encoded_names_are_exact_spellings() {
        for path in [
            "/v1/namespaces/n%2Fs/tables/t",
            "/v1/namespaces/a%1Fb/tables/a%252Fb",
            "/v1/namespaces/s%61les/tables/%E2%82%AC",
            "/v1/namespaces/ns/tables/a+b%20c",
            "/v1/namespaces/ns/tables/a.b",
            "/v1/namespaces/ns/tables/a%5Cb",
            "/v1/namespaces/sat%C4%B1%C5%9F/tables/%C4%B0l",
            "/v1/namespaces/ns/tables/reg\u{131}ster",
            "/v1/a%2Fb/namespaces/ns/tables/t",
        ] {
            assert_eq!(operation("GET", path).0, OperationKind::LoadTable, "{path}");
        }
    }

    #[test]
    fn lenient_spellings_are_ambiguous() {
        for path in [
            "/v1/%6eamespaces/ns/tables/t",
            "/v1/namespaces/ns/t%61bles/t",
            "/v1/n%2561mespaces/ns/tables/t",
            "/v1/Namespaces/ns/tables/t",
            "/v1/namespaces/ns/TABLES/t",
            "/V1/namespaces/ns/tables/t",
            "/%761/namespaces/ns/tables/t",
            "/api/%70rod/namespaces/ns/tables/t",
            "//v1/namespaces/ns/tables/t",
            "/v1//namespaces/ns/tables/t",
            "/v1/namespaces//ns/tables/t",
            "/v1/namespaces/ns//tables//t",
            "/v1/namespaces/ns/tables/t/",
            "/v1/namespaces/ns/tables/t//",
            "/v1/./namespaces/ns/tables/t",
            "/v1/x/../namespaces/ns/tables/t",
            "/api/..;x/v1/namespaces/ns/tables/t",
            "/v1/namespaces/ns/tables/x/../t",
            "/v1/namespaces/ns/tables/x/%2e%2E/t",
            "/v1/namespaces/ns/tables/x/%252e%252e/t",
            "/v1/namespaces/ns/tables/x/..;y/t",
            "/v1/namespaces/ns/tables/t/x//..",
            "/v1/namespaces/ns/tables/t/.",
            "/v1/namespaces/ns/tables/..",
            "/v1/namespaces/%2e/tables/t",
            "/v1/namespaces//tables/t",
            "/v1/namespaces/ns/tables/t;x=1",
            "/v1/namespaces/ns/tables/t%3Bx",
            "/v1/namespaces;x/ns/tables/t",
            "/v1;x/namespaces/ns/tables/t",
            "/v1/namespaces/ns/tables/t/;x",
            "/v1/namespaces/ns/tables/%FF",
            "/v1/namespaces/ns/tables/t%00",
            "/v1/namespaces/ns/tables/t%zz",
            "/v1/namespaces/ns/tables/t%",
            "/v1/namespaces%2Fns/tables/t",
            "/v1%2Fnamespaces%2Fns%2Ftables%2Ft",
            "/v1/namespaces/ns%2Ftables%2Ft",
            "/v1/namespaces/ns/tables%2Ft",
            "/v1\\namespaces\\ns\\tables\\t",
            "/v1/namespaces/ns/tables/x%5C..%5Ct",
            "/v1/namespaces/ns/views/..%2Ftables%2Ft",
            "/v1/namespaces/a%2Fnamespaces%2Fb/tables/t",
            "/v1/%2e%2e%2fv1/namespaces/ns/tables/t",
            "/v1/name%C5%BFpaces/ns/tables/t",
            "/v1/name\u{17f}paces/ns/tables/t",
            "/v1/name%C5%BFpaces/ns/tables/%FF/../t",
            "/v1/namespaces/ns/table%C5%BF/t",
            "/v1/namespaces/ns/tables/t/ta%C5%BFks",
            "/v1/namespaces/ns/tables/t/tas%E2%84%AAs",
            "/v1/namespaces/ns/tables/t/s%C4%B0gn",
            "/v1/namespaces/ns/tables/t/s%25C4%25B1gn",
        ] {
            assert_eq!(route("GET", path), Route::Ambiguous, "{path}");
        }
        for path in [
            "/v1/namespaces/ns/tables/",
            "/v1/namespaces/ns/register/",
            "/v1/namespaces/ns/Register",
            "/v1/namespaces/ns/tables/t/plan/",
            "/v1/namespaces/ns/tables/t/PLAN",
            "/v1/namespaces/ns/tables//plan",
            "/v1/transactions/commit/",
            "/v1/transactions//commit",
            "/v1/Transactions/commit",
            "/v1/transact%C4%B1ons/commit",
            "/v1/namespaces/ns/reg%C4%B0ster",
        ] {
            assert_eq!(route("POST", path), Route::Ambiguous, "{path}");
        }
    }

    #[test]
    fn what_only_a_lenient_router_finds_below_namespaces_is_not_recognized() {
        for path in [
            "/v1/%6eamespaces/ns/odd/t",
            "/v1/Namespaces/ns/tables/t/odd",
            "/v1//x/../NAMESPACES/ns",
            "/v1/name%C5%BFpaces/ns",
        ] {
            assert_eq!(route("GET", path), Route::Unrecognized { lead: None }, "{path}");
        }
        for path in [
            "/docs/%6eamespaces.html",
            "/docs/Namespaces-of-note/",
            "/v1/Views",
            "/docs/name%C5%BFpaces-of-note",
        ] {
            assert_eq!(route("GET", path), Route::Elsewhere, "{path}");
        }
    }

    #[test]
    fn long_doubtful_paths_are_refused_without_reading_them_in_every_way() {
        let path = format!("/v1/namespaces/{}", "%252e%252e/;/".repeat(4000));
        assert_eq!(Route::of(&Method::GET, &path), Route::Ambiguous);
        for name in ["a".repeat(20_000), "%E2%82%AC".repeat(2000)] {
            let path = format!("/v1/namespaces/{name}/tables/t");
            assert!(matches!(Route::of(&Method::GET, &path), Route::Operation(_)));
        }
    }
}
