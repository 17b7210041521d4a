use std::{
    collections::{BTreeMap, HashMap},
    sync::{Arc, OnceLock},
};

use super::source::{EffectivePolicies, ObjectName, TableIdent};

/// The objects that carry tags, as a tree of catalogs, namespaces and tables, so that finding the chain of
/// a table touches nothing beside it.
///
/// Everything that is asked about one place has one answer, kept at that place once it was worked out:
/// as many answers as there are objects, and no more.
#[derive(Debug, Default)]
pub(super) struct Objects {
    /// Above all catalogs; it carries no tags.
    root: Level,
}

/// An index into the assignments of the model.
pub(super) type AssignmentIndex = usize;

type Answer = OnceLock<Arc<EffectivePolicies>>;

/// A catalog or a namespace.
#[derive(Debug, Default)]
struct Level {
    assigned: Vec<AssignmentIndex>,
    levels: HashMap<String, Level>,
    tables: HashMap<String, Table>,
    /// The answer for every table below that is not in the tree.
    answer: Answer,
}

#[derive(Debug, Default)]
struct Table {
    assigned: Vec<AssignmentIndex>,
    columns: BTreeMap<Arc<str>, Vec<AssignmentIndex>>,
    answer: Answer,
}

/// What the tree knows about one table.
pub(super) struct Chain<'a> {
    /// The assignments on the catalog, on each level of the namespace and on the table: from the outermost
    /// object to the innermost.
    pub(super) assigned: Vec<&'a [AssignmentIndex]>,
    /// The assignments on its columns.
    pub(super) columns: Option<&'a BTreeMap<Arc<str>, Vec<AssignmentIndex>>>,
    /// The place of the answer.
    pub(super) answer: &'a Answer,
}

impl Objects {
    /// Puts an assignment on its object.
    pub(super) fn assign(&mut self, object: &ObjectName, index: AssignmentIndex) {
        let mut level = &mut self.root;
        for name in [&object.catalog].into_iter().chain(&object.namespace) {
            level = level.levels.entry(name.clone()).or_default();
        }
        let assigned = match (&object.table, &object.column) {
            (None, _) => &mut level.assigned,
            (Some(table), None) => &mut level.tables.entry(table.clone()).or_default().assigned,
            (Some(table), Some(column)) => {
                let table = level.tables.entry(table.clone()).or_default();
                table.columns.entry(column.as_str().into()).or_default()
            }
        };
        assigned.push(index);
    }

    /// The chain of a table, whether or not the tree knows it.
    pub(super) fn chain(&self, ident: &TableIdent) -> Chain<'_> {
        let mut level = &self.root;
        let mut assigned = Vec::with_capacity(ident.namespace.len() + 2);
        for name in [&ident.catalog].into_iter().chain(&ident.namespace) {
            let Some(inner) = level.levels.get(name) else {
                return Chain { assigned, columns: None, answer: &level.answer };
            };
            level = inner;
            assigned.push(&*level.assigned);
        }
        match level.tables.get(&ident.name) {
            None => Chain { assigned, columns: None, answer: &level.answer },
            Some(table) => {
                assigned.push(&table.assigned);
                Chain { assigned, columns: Some(&table.columns), answer: &table.answer }
            }
        }
    }
}
