//! Commits and the existence test: they pass, but what a governed table's answer says to caches does not; and commits
//! by subjects that read a table masked or filtered may be refused, because masked values would be written back.

use http::{Method, Request, StatusCode, header, request::Parts};
use serde::Deserialize;

use super::{
    body::{RequestBody, ResponseBody},
    error::{Refusal, RefusalCode},
    exchange::{Exchange, Outcomes, Reply},
    gate::Looked,
    headers,
    inner::Inner,
    names::NameSyntax,
    route::{Operation, OperationKind, Route},
};
use crate::policy::{EffectivePolicies, TableIdent};

/// Whether subjects with an active mask or filter may commit to a table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum RestrictedCommits {
    /// They may.
    #[default]
    Allow,
    /// They are refused with 403 `restricted-commit`.
    Refuse,
}

impl<I: Inner> Exchange<I> {
    /// A commit to one table.
    pub(super) async fn commit_table(
        &mut self,
        request: Request<RequestBody<I::RequestBody>>,
    ) -> Outcomes<I, Reply<I>> {
        let (head, body) = request.into_parts();
        if self.shared.restricted_commits == RestrictedCommits::Refuse
            && let Some(reply) = self.refuse_restricted_commit(&head).await?
        {
            return Ok(reply);
        }
        let reply = self.pass(Request::from_parts(head, body)).await?;
        Ok(self.without_inner_tag(reply).await)
    }

    /// A commit to several tables at once: each of them is looked at.
    pub(super) async fn commit_transaction(
        &mut self,
        request: Request<RequestBody<I::RequestBody>>,
    ) -> Outcomes<I, Reply<I>> {
        let (head, body) = self.read_request(request).await?;
        let tables = Transaction::read(&body)?.tables(&self.load.table().catalog);
        let paths: Vec<_> = tables
            .iter()
            .map(|table| path_to_load(&self.shared.names, self.load.lead(), table))
            .collect::<Result<_, _>>()?;
        for (table, path) in tables.into_iter().zip(paths) {
            self.load = self.load.of_table(table, &path);
            if let Some(reply) = self.refuse_restricted_commit(&head).await? {
                return Ok(reply);
            }
        }
        self.pass(Request::from_parts(head, RequestBody::whole(body))).await
    }

    /// HEAD on a table.
    pub(super) async fn table_exists(
        &mut self,
        mut request: Request<RequestBody<I::RequestBody>>,
    ) -> Outcomes<I, Reply<I>> {
        let if_none_match = headers::take_validators(request.headers_mut());
        let reply = self.pass(request).await?;
        if reply.status() == StatusCode::NOT_MODIFIED {
            return Err(Refusal::stray_not_modified().into());
        }
        let mut reply = self.without_inner_tag(reply).await;
        if reply.status().is_success() && if_none_match.matches_inner(reply.headers()) {
            *reply.status_mut() = StatusCode::NOT_MODIFIED;
            headers::remove_content(reply.headers_mut());
        }
        Ok(reply)
    }

    /// Refuses the commit of a subject that reads the table restricted. The answer is the inner service's own if it
    /// would not give the table to this caller; a table that is not there yet may be committed to.
    async fn refuse_restricted_commit(&mut self, request: &Parts) -> Outcomes<I, Option<Reply<I>>> {
        match self.look_at_table(request).await? {
            Looked::Refused(response) if response.status() == StatusCode::NOT_FOUND => Ok(None),
            Looked::Refused(response) => Ok(Some(response.map(ResponseBody::untouched))),
            Looked::Governed(resolved) if resolved.resolution.member().is_some() => {
                Err(Refusal::new(RefusalCode::RestrictedCommit, "the subject reads the table restricted")
                    .into())
            }
            Looked::Governed(_) | Looked::Ungoverned => Ok(None),
        }
    }

    /// A client would use the tag for its next load. Whether the table is governed counts only if there is one, and
    /// where that cannot be told the tag goes too: the commit itself has happened.
    async fn without_inner_tag(&mut self, mut reply: Reply<I>) -> Reply<I> {
        if reply.headers().contains_key(header::ETAG)
            && !matches!(&self.policies_by_name().await, Ok(policies) if !EffectivePolicies::is_governed(policies))
        {
            reply.headers_mut().remove(header::ETAG);
        }
        reply
    }
}

/// What counts in the body of a commit to several tables.
#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct Transaction {
    table_changes: Vec<TableChange>,
}

#[derive(Deserialize)]
struct TableChange {
    identifier: Identifier,
}

#[derive(Deserialize)]
struct Identifier {
    namespace: Vec<String>,
    name: String,
}

/// The path to load a table that was named in another way. What every other request would take for the path of
/// another table, or of none, is refused: the two would share what is known of them.
fn path_to_load(names: &NameSyntax, lead: &str, table: &TableIdent) -> Result<String, Refusal> {
    let path = names.path_of(lead, table);
    let is_its_own = matches!(
        Route::of(&Method::GET, &path),
        Route::Operation(Operation { kind: OperationKind::LoadTable, namespace, table: name, .. })
            if names.namespace(namespace).as_ref() == Some(&table.namespace)
                && names.name(name).as_ref() == Some(&table.name)
    );
    match is_its_own {
        true => Ok(path),
        false => Err(ambiguous("no path names a table of the transaction".into())),
    }
}

fn ambiguous(reason: String) -> Refusal {
    Refusal::new(RefusalCode::AmbiguousRequest, reason)
}

impl Transaction {
    /// Reads strictly: repeated members are errors.
    fn read(body: &[u8]) -> Result<Self, Refusal> {
        let text = std::str::from_utf8(body).map_err(|error| ambiguous(error.to_string()))?;
        serde_json::from_str(text).map_err(|error| ambiguous(error.to_string()))
    }

    /// The tables, each once.
    fn tables(self, catalog: &str) -> Vec<TableIdent> {
        let mut tables: Vec<TableIdent> = Vec::with_capacity(self.table_changes.len());
        for TableChange { identifier: Identifier { namespace, name } } in self.table_changes {
            let table = TableIdent { catalog: catalog.to_owned(), namespace, name };
            if !tables.contains(&table) {
                tables.push(table);
            }
        }
        tables
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_transaction_names_its_tables() {
        let body = br#"{"table-changes":[
            {"identifier":{"namespace":["a","b"],"name":"t"},"updates":[{"name":"x"}]},
            {"identifier":{"name":"t","namespace":["a","b"]}},
            {"identifier":{"namespace":["a"],"name":"u"}}]}"#;
        let tables = Transaction::read(body).unwrap_or_else(|_| panic!("must be read")).tables("prod");
        assert_eq!(tables, [TableIdent::new("prod", ["a", "b"], "t"), TableIdent::new("prod", ["a"], "u")]);
    }

    #[test]
    fn a_transaction_that_can_be_read_in_two_ways_is_refused() {
        for body in [
            &br#"{}"#[..],
            br#"{"table-changes":[{}]}"#,
            br#"{"table-changes":[],"table-changes":[]}"#,
            br#"{"table-changes":[{"identifier":{"namespace":["a"],"name":"t","name":"u"}}]}"#,
            br#"{"table-changes":[{"identifier":{"namespace":"a","name":"t"}}]}"#,
            br#"{"table-changes":[]} x"#,
            b"\xff",
        ] {
            let refusal = Transaction::read(body).err().expect("is refused");
            assert_eq!(refusal.code, RefusalCode::AmbiguousRequest, "{}", body.escape_ascii());
        }
    }

    #[test]
    fn a_path_to_load_is_read_as_the_table_that_it_was_made_for() {
        let names = |plus_as_space, separators: &[&str]| NameSyntax {
            plus_as_space,
            separators: separators.iter().map(|separator| separator.to_string()).collect(),
        };
        let path = |names: &NameSyntax, namespace: &[&str], name: &str| {
            let table = TableIdent::new("prod", namespace.iter().copied(), name);
            path_to_load(names, "/v1/my%20prod", &table).ok()
        };
        let plain = names(false, &[]);
        let dots = names(false, &["."]);
        let encoded_dots = names(true, &["%2E"]);
        for (names, namespace, name, end) in [
            (&plain, &["a", "b"][..], "t", "a%1Fb/tables/t"),
            (&plain, &["a.b"], "50%€ ~t", "a.b/tables/50%25%E2%82%AC%20~t"),
            (&dots, &["a", "b"], "c.d", "a.b/tables/c.d"),
            (&encoded_dots, &["a+", "b"], "t+", "a%2B%2Eb/tables/t%2B"),
        ] {
            let path = path(names, namespace, name);
            assert_eq!(path, Some(format!("/v1/my%20prod/namespaces/{end}")));
        }
        for (names, namespace, name) in [
            (&plain, &[][..], "t"),
            (&plain, &[""], "t"),
            (&plain, &["a", ""], "t"),
            (&plain, &["a"], ""),
            (&plain, &["a\u{1f}b"], "t"),
            (&plain, &["a%1fb"], "t"),
            (&plain, &["a"], ".."),
            (&plain, &[".."], "t"),
            (&plain, &["a"], "t;x"),
            (&plain, &["a"], "t/credentials"),
            (&dots, &["a.b"], "t"),
            (&encoded_dots, &["a%2eb"], "t"),
        ] {
            assert_eq!(path(names, namespace, name), None, "{namespace:?} {name}");
        }
    }
}
