use std::{
    collections::{BTreeMap, HashMap},
    fmt,
    future::ready,
    sync::Arc,
};

use super::{
    builder::GovernanceBuilder,
    document::Format,
    error::{GovernanceError, Problems},
    model::{Assignment, PolicyObject, Relation, Tag},
    objects::{AssignmentIndex, Objects},
    read, revision,
    source::{
        EffectivePolicies, EffectivePolicy, NotSelected, NotSelectedReason, Policy, PolicySource, PolicyType,
        Selection, TableIdent, TableRequest,
    },
};
use crate::{
    identity::Groups,
    source::{BoxFuture, Revision, SourceError},
};

/// Counts the loads that a policy applied to.
#[cfg(feature = "metrics")]
pub(crate) const MATCHES_COUNTER: &str = "iceberg_read_restrictions_policy_matches_total";

/// A valid policy-on-tag model: one immutable snapshot of tags, policies, relations, assignments and groups.
///
/// Policies are bound to tags, and tags are assigned to objects: catalogs, namespaces, tables and columns.
///
/// # What makes a model invalid
///
/// - two tags, policies or groups of one name; two relations between one policy and one tag; two
///   assignments of one tag to one object;
/// - a relation or an assignment with a tag that is not declared, a relation of a policy that is not;
/// - values that are blank, longer than 256 characters, repeated, or not among the tag's `allowedValues`
///   (absent: any value is fine; empty: none is); blank or repeated names in `except` and in groups;
/// - a row filter whose content is not exactly `{"expression": "<a filter rule>"}`, a column mask whose
///   content is not exactly `{"expression": "<a mask rule>"}`, in disabled policies too. The content of
///   policies of other types is not looked at;
/// - a table without a namespace, a column without a table, an empty part in a name.
///
/// A selector whose value the tag does not allow is valid, and selects nothing.
///
/// # Effective tags
///
/// The chain of a column is: the column, its table, the namespace from the innermost level outwards, the
/// catalog. For each tag the nearest assignment wins as a whole: its values replace those further out and
/// are never merged with them.
///
/// # Effective policies
///
/// A policy is effective where an effective tag leads to it through a relation whose selector matches the
/// winning values. Policies that are disabled, or of a type that takes no part, are left out and reported
/// as not selected. A policy that several tags lead to comes once, with a selection for each tag.
/// Row filters come from the tags of the table, masks from those of each column, the inherited ones
/// included.
///
/// # Revisions
///
/// [`revision`](Self::revision) and [`identity_revision`](Self::identity_revision) are SHA-256 digests of
/// what the answers depend on: the same for TOML and JSON, in any order of the declarations, on every
/// replica. Comments, and the content of policies of other types, are not part of them.
///
/// # Example
///
/// ```
/// use iceberg_read_restrictions::policy::{
///     Assignment, Governance, ObjectName, PolicyObject, Relation, TableIdent, Tag,
/// };
///
/// let sales = ObjectName::namespace("prod", ["sales"]);
/// let risks = ObjectName::table("prod", ["sales"], "risks");
/// let governance = Governance::builder()
///     .tag(Tag::new("data_domain").with_allowed_values(["finance", "risk"]))
///     .policy(PolicyObject::row_filter("own", r#"filter := col("owner") == session_user()"#).enabled())
///     .relation(Relation::new("own", "data_domain").with_value("finance"))
///     .assignment(Assignment::new(sales, "data_domain").with_values(["finance"]))
///     .assignment(Assignment::new(risks, "data_domain").with_values(["risk"]))
///     .build()?;
///
/// let orders = governance.effective_policies_of(&TableIdent::new("prod", ["sales"], "orders"));
/// assert_eq!(&*orders.row_filters[0].policy.name, "own");
/// let risks = governance.effective_policies_of(&TableIdent::new("prod", ["sales"], "risks"));
/// assert!(!risks.is_governed());
/// # Ok::<_, iceberg_read_restrictions::policy::GovernanceError>(())
/// ```
pub struct Governance {
    tags: Vec<Tag>,
    policies: Vec<DeclaredPolicy>,
    relations: Vec<Relation>,
    assignments: Vec<Assignment>,
    groups: Arc<Groups>,
    revision: Revision,
    objects: Objects,
    /// Where each relation of a tag leads.
    leads: HashMap<Arc<str>, Vec<Lead>>,
}

/// A policy of the model.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct DeclaredPolicy {
    /// The name.
    pub name: Arc<str>,
    /// What people should know about it.
    pub comment: Option<String>,
    /// The policy type as it was declared.
    pub policy_type: String,
    /// Whether the policy applies at all.
    pub enabled: bool,
    /// The policy, compiled; `None` for a type that takes no part in resolution.
    pub compiled: Option<Arc<Policy>>,
}

impl DeclaredPolicy {
    pub(super) fn new(object: &PolicyObject, compiled: Option<Arc<Policy>>) -> Self {
        Self {
            name: Arc::clone(&object.name),
            comment: object.comment.clone(),
            policy_type: object.policy_type.clone(),
            enabled: object.enabled,
            compiled,
        }
    }
}

/// One relation seen from its tag: indexes of the relation and of its policy.
#[derive(Clone, Copy, Debug)]
struct Lead {
    relation: usize,
    policy: PolicyIndex,
}

/// The winning assignment for each tag name.
type EffectiveTags<'a> = BTreeMap<&'a str, &'a Assignment>;

/// What became of each policy that an effective tag leads to: why it is left out, or `None` when it is
/// effective anywhere.
type Outcomes = BTreeMap<PolicyIndex, Option<NotSelectedReason>>;

/// An index into the policies of the model, which are in the order of their names.
type PolicyIndex = usize;

impl Governance {
    /// A model to be put together in memory.
    pub fn builder() -> GovernanceBuilder {
        GovernanceBuilder::default()
    }

    /// Reads a model from the text of a governance file. An empty text is a model that governs nothing.
    ///
    /// # Errors
    ///
    /// With all that is wrong and where it stands; members that are not known are errors everywhere.
    pub fn parse(text: &str, format: Format) -> Result<Self, GovernanceError> {
        let mut problems = Problems::in_text(text);
        read::read(text, format, &mut problems).validate(problems)
    }

    /// A snapshot of declarations that are valid together.
    pub(super) fn new(
        tags: Vec<Tag>,
        mut policies: Vec<DeclaredPolicy>,
        mut relations: Vec<Relation>,
        assignments: Vec<Assignment>,
        groups: Groups,
    ) -> Self {
        for relation in &mut relations {
            relation.except.take_if(|except| except.is_empty());
        }
        policies.sort_by(|one, other| one.name.cmp(&other.name));
        let mut objects = Objects::default();
        for (index, assignment) in assignments.iter().enumerate() {
            objects.assign(&assignment.object, index);
        }
        let mut leads: HashMap<Arc<str>, Vec<Lead>> = HashMap::new();
        for (index, relation) in relations.iter().enumerate() {
            // Validation found the policy of every relation; without one there would be nothing to lead to.
            if let Ok(policy) = policies.binary_search_by(|policy| policy.name.cmp(&relation.policy)) {
                leads.entry(Arc::clone(&relation.tag)).or_default().push(Lead { relation: index, policy });
            }
        }
        let revision = revision::of_model(&tags, &policies, &relations, &assignments);
        Self { tags, policies, relations, assignments, groups: Arc::new(groups), revision, objects, leads }
    }

    /// The tags, in the order of their declaration.
    pub fn tags(&self) -> &[Tag] {
        &self.tags
    }

    /// The policies, in the order of their names.
    pub fn policies(&self) -> &[DeclaredPolicy] {
        &self.policies
    }

    /// The relations between policies and tags, in the order of their declaration.
    pub fn relations(&self) -> &[Relation] {
        &self.relations
    }

    /// The assignments of tags to objects, in the order of their declaration.
    pub fn assignments(&self) -> &[Assignment] {
        &self.assignments
    }

    /// The groups; when the model defines none, no group exists.
    pub fn groups(&self) -> &Arc<Groups> {
        &self.groups
    }

    /// The policy-and-tag revision. Groups are not part of it.
    pub fn revision(&self) -> &Revision {
        &self.revision
    }

    /// The revision of the groups.
    pub fn identity_revision(&self) -> &Revision {
        self.groups.revision()
    }

    /// The effective tags of a table, or of one of its columns: for each tag name the assignment that wins,
    /// in the order of the names.
    pub fn effective_tags(&self, table: &TableIdent, column: Option<&str>) -> Vec<&Assignment> {
        let chain = self.objects.chain(table);
        let mut tags = self.inherited_tags(&chain.assigned);
        if let Some(direct) = column.and_then(|column| chain.columns?.get(column)) {
            self.override_with(&mut tags, direct);
        }
        tags.into_values().collect()
    }

    /// The effective policies of a table and of every column that it could have: what
    /// [`PolicySource::effective_policies`] answers.
    ///
    /// Worked out once for each object that carries tags; later calls clone an `Arc`.
    pub fn effective_policies_of(&self, table: &TableIdent) -> Arc<EffectivePolicies> {
        let answer = self.objects.answer(table).get_or_init(|| {
            let chain = self.objects.chain(table);
            Arc::new(self.work_out(&chain.assigned, chain.columns))
        });
        Arc::clone(answer)
    }

    /// The answer of a [`PolicySource`]; the future borrows nothing.
    pub(super) fn answer<'a>(
        &self,
        request: TableRequest<'_>,
    ) -> BoxFuture<'a, Result<Arc<EffectivePolicies>, SourceError>> {
        Box::pin(ready(Ok(self.effective_policies_of(request.table))))
    }

    /// Starts a counter for every policy that could apply, so that one which never does is seen as a zero.
    #[cfg(feature = "metrics")]
    pub(super) fn count_from_zero(&self) {
        for policy in self.policies.iter().filter(|policy| policy.enabled && policy.compiled.is_some()) {
            metrics::counter!(MATCHES_COUNTER, "policy" => policy.name.to_string()).increment(0);
        }
    }

    #[cfg(not(feature = "metrics"))]
    pub(super) fn count_from_zero(&self) {}

    /// Whether nothing at all is declared.
    pub(super) fn is_empty(&self) -> bool {
        self.tags.is_empty()
            && self.policies.is_empty()
            && self.assignments.is_empty()
            && self.groups.names().next().is_none()
    }

    fn work_out(
        &self,
        assigned: &[&[AssignmentIndex]],
        columns: Option<&BTreeMap<Arc<str>, Vec<AssignmentIndex>>>,
    ) -> EffectivePolicies {
        let mut outcomes = Outcomes::new();
        let inherited = self.inherited_tags(assigned);
        let row_filters = self.select(&inherited, PolicyType::RowFilter, &mut outcomes);
        let column_masks = self.select(&inherited, PolicyType::ColumnMask, &mut outcomes);
        let mut by_column = BTreeMap::new();
        for (column, direct) in columns.into_iter().flatten() {
            let mut tags = inherited.clone();
            self.override_with(&mut tags, direct);
            let masks = self.select(&tags, PolicyType::ColumnMask, &mut outcomes);
            by_column.insert(Arc::clone(column), masks);
        }
        let not_selected = outcomes
            .into_iter()
            .filter_map(|(policy, reason)| {
                Some(NotSelected { policy: Arc::clone(&self.policies[policy].name), reason: reason? })
            })
            .collect();
        EffectivePolicies {
            revision: self.revision.clone(),
            row_filters,
            column_masks,
            columns: by_column,
            not_selected,
        }
    }

    /// The effective tags at the end of a chain that is given from the outermost object inwards.
    fn inherited_tags(&self, assigned: &[&[AssignmentIndex]]) -> EffectiveTags<'_> {
        let mut tags = EffectiveTags::new();
        for object in assigned {
            self.override_with(&mut tags, object);
        }
        tags
    }

    /// The assignments of a nearer object replace those of the same tags further out, values and all.
    fn override_with<'a>(&'a self, tags: &mut EffectiveTags<'a>, nearer: &[AssignmentIndex]) {
        tags.extend(
            nearer.iter().map(|index| &self.assignments[*index]).map(|nearer| (&*nearer.tag, nearer)),
        );
    }

    /// The effective policies of one type, in the order of their names.
    fn select(
        &self,
        tags: &EffectiveTags<'_>,
        policy_type: PolicyType,
        outcomes: &mut Outcomes,
    ) -> Vec<EffectivePolicy> {
        let mut effective: BTreeMap<PolicyIndex, EffectivePolicy> = BTreeMap::new();
        for (tag, winner) in tags {
            for lead in self.leads.get(*tag).into_iter().flatten() {
                let declared = &self.policies[lead.policy];
                let relation = &self.relations[lead.relation];
                match declared.selected_by(relation, winner, policy_type) {
                    Selected::Yes(policy) => {
                        outcomes.insert(lead.policy, None);
                        let entry = effective.entry(lead.policy).or_insert_with(|| EffectivePolicy {
                            policy: Arc::clone(policy),
                            selections: Vec::new(),
                        });
                        entry.selections.push(selection(relation, winner));
                    }
                    Selected::No(reason) => {
                        outcomes.entry(lead.policy).or_insert(Some(reason));
                    }
                    Selected::NotAsked => {}
                }
            }
        }
        effective.into_values().collect()
    }
}

/// Whether a winning assignment leads to a policy.
enum Selected<'a> {
    Yes(&'a Arc<Policy>),
    No(NotSelectedReason),
    /// The policy has the other type, whose turn comes separately.
    NotAsked,
}

impl DeclaredPolicy {
    fn selected_by(&self, relation: &Relation, winner: &Assignment, policy_type: PolicyType) -> Selected<'_> {
        let Some(policy) = &self.compiled else { return Selected::No(NotSelectedReason::OtherType) };
        if policy.policy_type != policy_type {
            Selected::NotAsked
        } else if !self.enabled {
            Selected::No(NotSelectedReason::Disabled)
        } else if !relation.selector.matches(&winner.values) {
            Selected::No(NotSelectedReason::Selector)
        } else {
            Selected::Yes(policy)
        }
    }
}

fn selection(relation: &Relation, winner: &Assignment) -> Selection {
    Selection {
        tag: Arc::clone(&winner.tag),
        values: Arc::clone(&winner.values),
        from: Arc::clone(&winner.object),
        except: relation.except.clone(),
    }
}

impl PolicySource for Governance {
    fn effective_policies<'a>(
        &'a self,
        request: TableRequest<'a>,
    ) -> BoxFuture<'a, Result<Arc<EffectivePolicies>, SourceError>> {
        self.answer(request)
    }
}

impl fmt::Debug for Governance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Governance")
            .field("revision", &self.revision)
            .field("identity_revision", self.identity_revision())
            .finish_non_exhaustive()
    }
}
