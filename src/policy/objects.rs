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

pub(super) type Answer = OnceLock<Arc<EffectivePolicies>>;

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

    /// The place of the answer about a table, whether or not the tree knows it.
    pub(super) fn answer(&self, ident: &TableIdent) -> &Answer {
        match self.walk(ident, |_| {}) {
            Reached::Table(table) => &table.answer,
            Reached::Level(level) => &level.answer,
        }
    }

    /// The chain of a table, whether or not the tree knows it.
    pub(super) fn chain(&self, ident: &TableIdent) -> Chain<'_> {
        let mut assigned = Vec::with_capacity(ident.namespace.len() + 2);
        match self.walk(ident, |level| assigned.push(&*level.assigned)) {
            Reached::Table(table) => {
                assigned.push(&table.assigned);
                Chain { assigned, columns: Some(&table.columns) }
            }
            Reached::Level(_) => Chain { assigned, columns: None },
        }
    }

    /// Goes from the catalog towards a table, as far as the tree reaches, and shows every level on the way.
    fn walk<'a>(&'a self, ident: &TableIdent, mut pass: impl FnMut(&'a Level)) -> Reached<'a> {
        let mut level = &self.root;
        for name in [&ident.catalog].into_iter().chain(&ident.namespace) {
            match level.levels.get(name) {
                Some(inner) => level = inner,
                None => return Reached::Level(level),
            }
            pass(level);
        }
        match level.tables.get(&ident.name) {
            Some(table) => Reached::Table(table),
            None => Reached::Level(level),
        }
    }
}

/// Where the way to a table ends.
enum Reached<'a> {
    Table(&'a Table),
    Level(&'a Level),
}
