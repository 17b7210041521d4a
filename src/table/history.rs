use std::collections::{BTreeMap, BTreeSet};

use super::{
    schema::{Field, Schema},
    types::Type,
};

/// What the older schemas of a table add to the current one.
#[derive(Clone, Debug, Default)]
pub struct History {
    past: BTreeMap<i32, Past>,
    /// The names that only older schemas have, each with the current field that once had it, if there is one.
    former_names: BTreeMap<Box<str>, Option<i32>>,
    /// The ids of all fields below the top level, in any schema. Sorted once it is finished.
    nested_ids: Vec<i32>,
}

/// A top-level field that the current schema does not have.
#[derive(Clone, Copy, Debug)]
pub struct PastField<'a>(i32, &'a Past);

#[derive(Clone, Debug)]
struct Past {
    names: BTreeSet<Box<str>>,
    latest_name: Box<str>,
    latest_type: Type,
    required: bool,
}

impl History {
    /// The top-level fields that only older schemas have, in the order of their ids.
    pub fn past_fields(&self) -> impl Iterator<Item = PastField<'_>> {
        self.past.iter().map(|(id, past)| PastField(*id, past))
    }

    /// Whether any older schema had a top-level field of a name that the current schema does not have; and
    /// which current field, by id, lives on under another one.
    pub fn former_name(&self, name: &str) -> Option<Option<i32>> {
        self.former_names.get(name).copied()
    }

    /// Whether a field below the top level of any schema has this id.
    pub fn has_nested_id(&self, id: i32) -> bool {
        self.nested_ids.binary_search(&id).is_ok()
    }
}

impl<'a> PastField<'a> {
    /// The field as the last schema of the list that holds it has it.
    pub fn latest(self) -> Field<'a> {
        let Self(id, Past { latest_name, latest_type, required, .. }) = self;
        Field { id, name: latest_name, r#type: latest_type, required: *required }
    }

    /// Every name that it had.
    pub fn names(self) -> impl ExactSizeIterator<Item = &'a str> + Clone {
        self.1.names.iter().map(|name| &**name)
    }
}

/// Puts a [`History`] together.
pub(super) struct HistoryBuilder<'a> {
    schema: &'a Schema,
    /// The ids and names of the current fields, sorted. Most tables have one schema, and nobody needs them.
    current: Vec<(i32, &'a str)>,
    /// The names alone, sorted.
    names: Vec<&'a str>,
    history: History,
}

impl<'a> HistoryBuilder<'a> {
    pub(super) fn new(schema: &'a Schema) -> Self {
        let history = History { nested_ids: schema.nested_ids(), ..History::default() };
        Self { schema, current: Vec::new(), names: Vec::new(), history }
    }

    fn sort_current(&mut self) {
        self.current.extend(self.schema.fields().map(|field| (field.id, field.name)));
        self.current.sort_unstable();
        self.names.extend(self.current.iter().map(|(_, name)| *name));
        self.names.sort_unstable();
    }

    /// Takes in an older schema; they have to come in the order of the list.
    pub(super) fn add(&mut self, older: &Schema) {
        if self.current.is_empty() {
            self.sort_current();
        }
        for field in older.fields() {
            let current_name = self.current_name(field.id);
            if current_name == Some(field.name) {
                continue;
            }
            if self.names.binary_search(&field.name).is_err() {
                self.history.add_former_name(field.name, current_name.map(|_| field.id));
            }
            if current_name.is_none() {
                self.history.add_past_field(field);
            }
        }
        self.history.nested_ids.extend(older.nested_ids());
    }

    pub(super) fn build(mut self) -> History {
        self.history.nested_ids.sort_unstable();
        self.history.nested_ids.dedup();
        self.history
    }

    fn current_name(&self, id: i32) -> Option<&'a str> {
        let found = self.current.binary_search_by_key(&id, |(id, _)| *id).ok()?;
        Some(self.current[found].1)
    }
}

impl History {
    fn add_former_name(&mut self, name: &str, lives_on: Option<i32>) {
        match self.former_names.get_mut(name) {
            Some(known) => *known = known.or(lives_on),
            None => drop(self.former_names.insert(name.into(), lives_on)),
        }
    }

    fn add_past_field(&mut self, field: Field<'_>) {
        let past = self.past.entry(field.id).or_insert_with(|| Past {
            names: BTreeSet::new(),
            latest_name: field.name.into(),
            latest_type: field.r#type.clone(),
            required: field.required,
        });
        if !past.names.contains(field.name) {
            past.names.insert(field.name.into());
        }
        if past.latest_name.as_ref() != field.name {
            past.latest_name = field.name.into();
        }
        past.latest_type.clone_from(field.r#type);
        past.required = field.required;
    }
}
