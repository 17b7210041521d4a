//! From a source text to what is sent, the way a catalog goes.

use std::sync::Arc;

use bytes::Bytes;
use iceberg_read_restrictions::{
    expression::Expression,
    identity::{Membership, Memberships, Subject},
    policy::{ContentError, EffectivePolicies, EffectivePolicy, ObjectName, Policy, PolicyType, Selection},
    resolve::{Resolution, ResolveRequest, Resolver},
    source::Revision,
    table::LoadResult,
};
use serde_json::{Value as Json, json};

use super::generate::Asker;

/// A bare load result of a table with these fields.
pub fn load_result(fields: &Json) -> LoadResult {
    let schema = json!({"type": "struct", "schema-id": 0, "fields": fields});
    let metadata = json!({"format-version": 3, "current-schema-id": 0, "schemas": [schema]});
    LoadResult::read(Bytes::from(json!({"metadata": metadata}).to_string())).expect("a load result")
}

/// The policies of a table that has one row filter.
pub fn row_filter(source: &str) -> EffectivePolicies {
    let mut policies = EffectivePolicies::none(Revision::new("1"));
    policies.row_filters.push(policy(PolicyType::RowFilter, source));
    policies
}

/// The policies of a table of which one column has a mask.
pub fn column_mask(column: &str, source: &str) -> EffectivePolicies {
    let mut policies = EffectivePolicies::none(Revision::new("1"));
    policies.columns.insert(column.into(), vec![policy(PolicyType::ColumnMask, source)]);
    policies
}

fn policy(policy_type: PolicyType, source: &str) -> EffectivePolicy {
    let from = ObjectName { catalog: "prod".into(), namespace: Vec::new(), table: None, column: None };
    let policy = Policy {
        name: "policy".into(),
        revision: Revision::new("1"),
        policy_type,
        enforce: true,
        expression: Expression::parse(source).map_err(ContentError::Expression),
    };
    let selection = Selection { tag: "tag".into(), values: Arc::new([]), from: Arc::new(from), except: None };
    EffectivePolicy { policy: Arc::new(policy), selections: vec![selection] }
}

/// What this asker gets. Refused is not among the answers that these tests expect.
pub fn resolve(policies: &EffectivePolicies, table: &LoadResult, asker: &Asker) -> Resolution {
    let revision = Revision::new("1");
    let subject = Subject::new(asker.name, revision.clone());
    let answer = |(group, member): (&str, bool)| {
        (group.to_owned(), if member { Membership::Member } else { Membership::NotMember })
    };
    let memberships = Memberships::new(revision, asker.groups.map(answer));
    let request =
        ResolveRequest { policies, subject: Some(&subject), memberships: Some(&memberships), table };
    Resolver::new().resolve(request).unwrap_or_else(|error| {
        let sources: Vec<_> = policies.all().map(|effective| &effective.policy.expression).collect();
        panic!("{error}\n{sources:#?}")
    })
}
