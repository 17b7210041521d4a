//! Commits and the existence test: they pass, but what a governed table's answer says to caches does not; and commits
//! by subjects that read a table masked or filtered may be refused, because masked values would be written back.

use http::{Request, StatusCode, header, request::Parts};
use serde::Deserialize;

use super::{
    body::{RequestBody, ResponseBody},
    error::{Refusal, RefusalCode},
    exchange::{Exchange, Outcomes, Reply},
    gate::Looked,
    headers,
    inner::Inner,
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
        for table in Transaction::read(&body)?.tables(&self.load.table().catalog) {
            let path = self.shared.names.path_of(self.load.lead(), &table);
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

impl Identifier {
    /// Servers that join the levels of a namespace would take a level that holds the separator for two, and the table
    /// for another one.
    fn is_spelled_by_a_path(&self) -> bool {
        let is_level = |level: &String| !level.is_empty() && !level.contains('\u{1f}');
        !self.name.is_empty() && !self.namespace.is_empty() && self.namespace.iter().all(is_level)
    }
}

impl Transaction {
    /// Reads strictly: repeated members are errors, and so are names that no path spells.
    fn read(body: &[u8]) -> Result<Self, Refusal> {
        let ambiguous = |reason: String| Refusal::new(RefusalCode::AmbiguousRequest, reason);
        let text = std::str::from_utf8(body).map_err(|error| ambiguous(error.to_string()))?;
        let transaction: Self = serde_json::from_str(text).map_err(|error| ambiguous(error.to_string()))?;
        match transaction.table_changes.iter().all(|change| change.identifier.is_spelled_by_a_path()) {
            true => Ok(transaction),
            false => Err(ambiguous("the name of a table is empty, or holds a separator".into())),
        }
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
            br#"{"table-changes":[{"identifier":{"namespace":["a\u001fb"],"name":"t"}}]}"#,
            br#"{"table-changes":[{"identifier":{"namespace":["a",""],"name":"t"}}]}"#,
            br#"{"table-changes":[{"identifier":{"namespace":[],"name":"t"}}]}"#,
            br#"{"table-changes":[{"identifier":{"namespace":["a"],"name":""}}]}"#,
            br#"{"table-changes":[]} x"#,
            b"\xff",
        ] {
            let refusal = Transaction::read(body).err().expect("is refused");
            assert_eq!(refusal.code, RefusalCode::AmbiguousRequest, "{}", body.escape_ascii());
        }
    }
}
