//! createTable and registerTable: what is created must not end behind an error, so a caller who may not receive the
//! restrictions of the new table is refused before the inner service hears of it.

use std::{fmt, sync::Arc};

use bytes::Bytes;
use http::{Request, request::Parts};
use serde::{
    Deserialize,
    de::{self, Deserializer, IgnoredAny, MapAccess, Visitor},
};
use serde_json::value::RawValue;

use super::{
    body::{Collected, RequestBody},
    error::{Refusal, RefusalCode},
    etag::IfNoneMatch,
    exchange::{Exchange, Outcomes, Reply},
    headers,
    inner::Inner,
    route::OperationKind,
};
use crate::{
    policy::{EffectivePolicies, TableIdent},
    resolve::Resolver,
    table::LoadResult,
};

impl<I: Inner> Exchange<I> {
    /// createTable and registerTable.
    pub(super) async fn create_table(
        &mut self,
        request: Request<RequestBody<I::RequestBody>>,
    ) -> Outcomes<I, Reply<I>> {
        let (mut head, body) = self.read_request(request).await?;
        let table = NewTable::read(&body)?;
        let ident = TableIdent { name: table.name.clone(), ..self.load.table().clone() };
        self.load = self.load.of_table(ident, self.load.path());
        match self.operation {
            OperationKind::RegisterTable => self.admit_new_table(None).await?,
            _ => self.admit_new_table(table.schema.as_deref()).await?,
        }
        headers::take_validators(&mut head.headers);
        headers::ask_for_the_whole_body(&mut head.headers);
        let response = self.call(Request::from_parts(head, RequestBody::whole(body))).await?;
        self.answer(response, &IfNoneMatch::default()).await
    }

    /// Reads the body of a request whose contents decide which table it is about.
    pub(super) async fn read_request(
        &mut self,
        request: Request<RequestBody<I::RequestBody>>,
    ) -> Result<(Parts, Bytes), Refusal> {
        let ambiguous = |reason: &'static str| Refusal::new(RefusalCode::AmbiguousRequest, reason);
        if headers::is_encoded(request.headers()) {
            return Err(ambiguous("the body of the request is compressed"));
        }
        let (head, body) = request.into_parts();
        let collected = Collected::collect(body, self.shared.max_body_bytes).await;
        let body = collected.whole().ok_or_else(|| ambiguous(collected.failure()))?.clone();
        Ok((head, body))
    }

    /// Refuses what would be refused once the table exists, as far as that can be told from its name and the schema
    /// in the request.
    async fn admit_new_table(&mut self, schema: Option<&RawValue>) -> Result<(), Refusal> {
        let load = schema.and_then(as_load_result);
        let policies = match &load {
            Some(load) => self.policies_of(load).await?,
            None => self.policies_by_name().await?,
        };
        let is_governed = match &load {
            Some(load) => Resolver::governs(&policies, load),
            None => policies.is_governed(),
        };
        if !is_governed {
            return Ok(());
        }
        match &load {
            Some(load) => {
                let resolved = self.resolve(&policies, load).await?;
                self.admit(&resolved.resolution)
            }
            None if self.is_exempt(&policies).await? => Ok(()),
            None => self.admit_reader(),
        }
    }

    /// Whether every enforced policy exempts the subject, which can be told without a schema.
    async fn is_exempt(&mut self, policies: &Arc<EffectivePolicies>) -> Result<bool, Refusal> {
        let identity = self.identify(policies).await?;
        Ok(Resolver::exempts(policies, &identity.subject, identity.memberships.as_ref())?)
    }
}

/// A schema without table, as the load result of a table that has nothing but this schema.
fn as_load_result(schema: &RawValue) -> Option<LoadResult> {
    let metadata = format!(r#"{{"format-version":1,"schema":{}}}"#, schema.get());
    LoadResult::read_metadata(metadata.into()).ok()
}

/// What counts in the body of createTable and registerTable.
#[derive(Debug)]
struct NewTable {
    name: String,
    schema: Option<Box<RawValue>>,
}

impl NewTable {
    /// Reads strictly: two readers must not find two names.
    fn read(body: &[u8]) -> Result<Self, Refusal> {
        let ambiguous = |reason: String| Refusal::new(RefusalCode::AmbiguousRequest, reason);
        // The parser does not look into strings that it skips.
        let text = std::str::from_utf8(body).map_err(|error| ambiguous(error.to_string()))?;
        let table: Self = serde_json::from_str(text).map_err(|error| ambiguous(error.to_string()))?;
        if table.name.is_empty() {
            return Err(ambiguous("the name of the table is empty".into()));
        }
        Ok(table)
    }
}

impl<'de> Deserialize<'de> for NewTable {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(NewTableVisitor)
    }
}

struct NewTableVisitor;

impl<'de> Visitor<'de> for NewTableVisitor {
    type Value = NewTable;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object with a name")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<NewTable, A::Error> {
        let (mut name, mut schema) = (None, None);
        while let Some(member) = members.next_key::<String>()? {
            let repeated = match &*member {
                "name" => name.replace(members.next_value::<String>()?).is_some(),
                "schema" => schema.replace(members.next_value::<Box<RawValue>>()?).is_some(),
                // Some readers do not care about the case of letters.
                other if other.eq_ignore_ascii_case("name") || other.eq_ignore_ascii_case("schema") => true,
                _ => {
                    members.next_value::<IgnoredAny>()?;
                    false
                }
            };
            if repeated {
                return Err(de::Error::custom(format_args!("the member `{member}` is repeated")));
            }
        }
        Ok(NewTable { name: name.ok_or_else(|| de::Error::missing_field("name"))?, schema })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_is_read_strictly() {
        assert_eq!(NewTable::read(br#"{"schema":{},"n\u0061me":"t","x":[{"name":1}]}"#).unwrap().name, "t");
        for body in [
            &b""[..],
            b"{}",
            br#"{"name":""}"#,
            br#"{"name":1}"#,
            br#"{"name":null}"#,
            br#"["t"]"#,
            br#"{"name":"a","name":"a"}"#,
            br#"{"name":"a","n\u0061me":"b"}"#,
            br#"{"name":"a","Name":"b"}"#,
            br#"{"name":"a","schema":{},"schema":{}}"#,
            br#"{"name":"a"} {"name":"b"}"#,
            br#"{"name":"a",}"#,
            br#"{'name':'a'}"#,
            br#"{"name":"\ud800"}"#,
            b"\xef\xbb\xbf{\"name\":\"a\"}",
            b"{\"name\":\"a\",\"x\":\"\xff\"}",
            b"{\"name\":\"\xff\"}",
            b"name=a",
        ] {
            let refusal = NewTable::read(body).unwrap_err();
            assert_eq!(refusal.code, RefusalCode::AmbiguousRequest, "{}", body.escape_ascii());
        }
    }

    #[test]
    fn the_schema_of_a_request_can_be_read_like_that_of_a_table() {
        let raw = |text: &str| serde_json::from_str::<Box<RawValue>>(text).unwrap();
        let schema = raw(
            r#"{"type":"struct","schema-id":7,"fields":[{"id":1,"name":"a","type":"int","required":false}]}"#,
        );
        let load = as_load_result(&schema).unwrap();
        assert_eq!(load.schema().fields().map(|field| field.name).collect::<Vec<_>>(), ["a"]);
        assert!(as_load_result(&raw("null")).is_none());
        assert!(as_load_result(&raw(r#"{"fields":[{"name":"a"}]}"#)).is_none());
    }
}
