//! Which policies and assignments reach a table of the folder.

use std::{
    collections::{BTreeSet, HashMap},
    path::Path,
    sync::Arc,
};

use iceberg_read_restrictions::policy::{Assignment, EffectivePolicies, Governance, ObjectName, TableIdent};

use super::{
    super::{
        input::{Entry, walk},
        names::is_close,
        output::Failure,
    },
    finding::{Finding, Report},
};

/// What was reached so far. It grows with the model, never with the number of tables.
pub struct Reach<'a> {
    governance: &'a Governance,
    /// The assignments on each object; those on columns stand with their table.
    by_object: HashMap<ObjectName, Vec<usize>>,
    assignments: Vec<bool>,
    policies: BTreeSet<Arc<str>>,
}

impl<'a> Reach<'a> {
    pub fn new(governance: &'a Governance) -> Self {
        let mut by_object: HashMap<ObjectName, Vec<usize>> = HashMap::new();
        for (index, assignment) in governance.assignments().iter().enumerate() {
            let object = ObjectName { column: None, ..(*assignment.object).clone() };
            by_object.entry(object).or_default().push(index);
        }
        let assignments = vec![false; governance.assignments().len()];
        Self { governance, by_object, assignments, policies: BTreeSet::new() }
    }

    /// A table was found, and these policies are effective there.
    pub fn table(&mut self, ident: &TableIdent, policies: &EffectivePolicies) {
        for object in chain(ident) {
            for index in self.by_object.get(&object).into_iter().flatten() {
                self.assignments[*index] = true;
            }
        }
        for effective in policies.all() {
            if !self.policies.contains(&effective.policy.name) {
                self.policies.insert(effective.policy.name.clone());
            }
        }
    }

    /// The assignments to columns of this table.
    pub fn named_columns(&self, ident: &TableIdent) -> impl Iterator<Item = &'a Assignment> {
        let table = ObjectName::table(&ident.catalog, &ident.namespace, &ident.name);
        let indexes = self.by_object.get(&table).into_iter().flatten();
        indexes
            .map(|index| &self.governance.assignments()[*index])
            .filter(|assignment| assignment.object.column.is_some())
    }

    /// Reports what reached nothing; `idle` are the policies for which that was said already.
    pub fn finish(
        self,
        folder: &Path,
        idle: &BTreeSet<&str>,
        report: &mut Report<'_, '_>,
    ) -> Result<(), Failure> {
        let missed: Vec<_> = self
            .governance
            .assignments()
            .iter()
            .zip(&self.assignments)
            .filter(|(_, reached)| !**reached)
            .collect();
        let mut candidates = vec![None; missed.len()];
        if !missed.is_empty() {
            // The names of all tables are not kept, so they are read once more.
            for entry in walk(folder)? {
                // What cannot be read was reported the first time.
                let Ok(Entry::Table { ident, .. }) = entry else { continue };
                for ((assignment, _), candidate) in missed.iter().zip(&mut candidates) {
                    if candidate.is_none() {
                        *candidate = meant(&assignment.object, &ident);
                    }
                }
            }
        }
        for ((assignment, _), candidate) in missed.into_iter().zip(candidates) {
            let hint = candidate.map_or_else(String::new, |object| format!("; did you mean {object}?"));
            let message = format!(
                "the assignment of tag `{}` to {} reaches no table of the folder{hint}",
                assignment.tag, assignment.object
            );
            report.push(Finding::warning(message))?;
        }
        for policy in self.governance.policies() {
            if !self.policies.contains(&policy.name) && !idle.contains(&*policy.name) {
                report.push(Finding::warning("reaches no table of the folder").policy(&policy.name))?;
            }
        }
        Ok(())
    }
}

/// The table, its namespaces and its catalog.
fn chain(ident: &TableIdent) -> impl Iterator<Item = ObjectName> + '_ {
    let levels = (0..=ident.namespace.len()).map(|depth| match depth {
        0 => ObjectName::catalog(&ident.catalog),
        _ => ObjectName::namespace(&ident.catalog, &ident.namespace[..depth]),
    });
    levels.chain([ObjectName::table(&ident.catalog, &ident.namespace, &ident.name)])
}

/// The object of the table's chain that differs from this one in one name, and there by a slip only.
fn meant(object: &ObjectName, ident: &TableIdent) -> Option<ObjectName> {
    let wanted = parts(object);
    chain(ident).find_map(|candidate| {
        let found = parts(&candidate);
        let same_kind = wanted.len() == found.len() && object.table.is_some() == candidate.table.is_some();
        let mut different = wanted.iter().zip(&found).filter(|(a, b)| a != b);
        let close = different.next().is_some_and(|(a, b)| is_close(a, b)) && different.next().is_none();
        (same_kind && close).then(|| ObjectName { column: object.column.clone(), ..candidate })
    })
}

/// All parts but the column.
fn parts(object: &ObjectName) -> Vec<&str> {
    let parts = std::iter::once(&object.catalog).chain(&object.namespace).chain(&object.table);
    parts.map(String::as_str).collect()
}
