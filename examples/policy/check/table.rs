//! What is wrong with the policies of one table, for every subject and in every branch.

use std::{path::Path, sync::Arc};

use iceberg_read_restrictions::{
    expression::ExpressionError,
    policy::{Assignment, EffectivePolicies, EffectivePolicy, TableIdent},
    resolve::{DiagnoseRequest, Diagnosis, ResolveError, Resolver},
    restriction::Action,
    table::{LoadResult, Schema},
};

use super::{
    super::{
        input::{Sources, Table},
        names::did_you_mean,
        output::Failure,
    },
    finding::{Finding, Report, Severity},
    leaves::{actions, column_at},
    nulls::true_for_null,
    subjects::Subjects,
};

/// Checks tables one after the other.
pub struct TableCheck<'a> {
    pub sources: &'a Sources,
    pub resolver: Resolver,
    /// Whether somebody may be in groups in which the governance file has nobody.
    pub groups_elsewhere: bool,
    /// The subjects of the last policies; neighbouring tables mostly have the same.
    subjects: Option<(Arc<EffectivePolicies>, Subjects)>,
}

impl<'a> TableCheck<'a> {
    pub fn new(sources: &'a Sources, resolver: Resolver, groups_elsewhere: bool) -> Self {
        Self { sources, resolver, groups_elsewhere, subjects: None }
    }

    /// Reports everything about one table, and gives the policies that are effective there.
    pub fn check<'b>(
        &mut self,
        ident: &TableIdent,
        path: &Path,
        table: &Table,
        named_columns: impl Iterator<Item = &'b Assignment>,
        report: &mut Report<'_, '_>,
    ) -> Result<Arc<EffectivePolicies>, Failure> {
        let policies = self.sources.policies(ident, table)?;
        match table {
            Err(error) => report.push(unusable(&policies, error).table(ident).file(path))?,
            Ok(table) => {
                self.diagnose(ident, table, &policies, report)?;
                unnoticed_columns(ident, table, &policies, named_columns, report)?;
                information(ident, table.schema(), &policies, report)?;
            }
        }
        Ok(policies)
    }

    fn diagnose(
        &mut self,
        ident: &TableIdent,
        table: &LoadResult,
        policies: &Arc<EffectivePolicies>,
        report: &mut Report<'_, '_>,
    ) -> Result<(), Failure> {
        if policies.all().next().is_none() {
            return Ok(());
        }
        let known = self.subjects.take().filter(|(last, _)| Arc::ptr_eq(last, policies));
        let (_, subjects) = self.subjects.insert(known.unwrap_or_else(|| {
            let subjects = Subjects::of(policies, self.sources.0.groups());
            (Arc::clone(policies), subjects)
        }));
        let request = DiagnoseRequest { policies, table, subjects: &subjects.subjects };
        for diagnosis in self.resolver.diagnose(request) {
            let finding = finding(&diagnosis, policies, subjects, self.groups_elsewhere, table.schema());
            report.push(finding.table(ident))?;
        }
        Ok(())
    }
}

/// Assignments to columns that no schema has, where no mask makes that an error.
fn unnoticed_columns<'a>(
    ident: &TableIdent,
    table: &LoadResult,
    policies: &EffectivePolicies,
    named: impl Iterator<Item = &'a Assignment>,
    report: &mut Report<'_, '_>,
) -> Result<(), Failure> {
    let exists = |schema: &Schema, column: &str| schema.fields_by_name(column).next().is_some();
    for assignment in named {
        let Some(column) = &assignment.object.column else { continue };
        if exists(table.schema(), column) {
            continue;
        }
        let masks = policies.columns.get(&**column).into_iter().flatten();
        let mut selections = masks.flat_map(|effective| &effective.selections);
        let is_error = selections.any(|selection| selection.from.column.is_some());
        let older = table.older_schemas().unwrap_or_default();
        if is_error || older.iter().any(|schema| exists(schema, column)) {
            continue;
        }
        let hint = did_you_mean(column, table.schema().fields().map(|field| field.name));
        let message =
            format!("tag `{}` is on a column that no schema of the table has{hint}", assignment.tag);
        report.push(Finding::warning(message).table(ident).column(column))?;
    }
    Ok(())
}

/// A table that the layer could not use.
fn unusable(policies: &EffectivePolicies, error: &impl std::fmt::Display) -> Finding {
    match policies.is_governed() {
        true => Finding::error(format!("the load result cannot be used, every load is refused: {error}")),
        false => {
            Finding::information(format!("the load result cannot be used, and is not governed: {error}"))
        }
    }
}

fn finding(
    diagnosis: &Diagnosis,
    policies: &EffectivePolicies,
    subjects: &Subjects,
    groups_elsewhere: bool,
    schema: &Schema,
) -> Finding {
    let Diagnosis { error, enforced, subject, .. } = diagnosis;
    let known = subject.and_then(|index| subjects.known.get(index));
    let happens = known.is_none_or(|known| known.exists || groups_elsewhere);
    let severity = if *enforced && happens { Severity::Error } else { Severity::Warning };
    let column = error.column().map(|column| &**column).or_else(|| column_of(error, policies));
    let mut message = message(error, column, schema);
    if let Some(known) = known {
        message.push_str(&format!(", for {}", known.description));
    }
    let mut finding = Finding::new(severity, message);
    if let Some(policy) = error.policy() {
        finding = finding.policy(policy);
    }
    if let Some(column) = column {
        finding = finding.column(column);
    }
    match error.expression() {
        Some(place) => finding.at(place),
        None => finding,
    }
}

/// The column in an expression that an error lies at.
fn column_of<'a>(error: &ResolveError, policies: &'a EffectivePolicies) -> Option<&'a str> {
    let (name, place) = (error.policy()?, error.expression()?);
    let policy = &policies.all().find(|effective| effective.policy.name == *name)?.policy;
    column_at(policy.expression.as_ref().ok()?.rule(), place.span())
}

/// What is wrong, without what the finding says beside it.
fn message(error: &ResolveError, column: Option<&str>, schema: &Schema) -> String {
    match error {
        ResolveError::Expression { error, .. } => {
            let message = error.message();
            match column {
                Some(column) => {
                    message.strip_prefix(&format!("column `{column}`: ")).unwrap_or(message).to_owned()
                }
                None => message.to_owned(),
            }
        }
        ResolveError::Action(misfit) => {
            format!("{}; it comes through {}", misfit.error, misfit.reached_through)
        }
        ResolveError::ColumnNotFound { column, .. } => {
            let hint = did_you_mean(column, schema.fields().map(|field| field.name));
            format!("an assignment names this column, and no schema of the table has it{hint}")
        }
        ResolveError::ColumnRenamed { now, .. } => {
            format!("an assignment names this column, which was renamed to `{now}`: move the tag")
        }
        error => error.to_string(),
    }
}

/// What is right and good to know.
fn information(
    ident: &TableIdent,
    schema: &Schema,
    policies: &EffectivePolicies,
    report: &mut Report<'_, '_>,
) -> Result<(), Failure> {
    for EffectivePolicy { policy, .. } in &policies.row_filters {
        let Ok(expression) = &policy.expression else { continue };
        for found in true_for_null(expression, schema) {
            let finding = Finding::information(found.error.message()).policy(&policy.name).table(ident);
            report.push(finding.column(&found.column).at(&found.error))?;
        }
    }
    // Most columns have the masks that they inherit.
    let inherited = shows_four(&policies.column_masks);
    for field in schema.fields() {
        let own = policies.columns.get(field.name).map(|masks| shows_four(masks));
        for (policy, action, error) in own.as_ref().unwrap_or(&inherited) {
            if action.check(field).is_ok() {
                let finding = Finding::information(error.message()).policy(policy).table(ident);
                report.push(finding.column(field.name).at(error))?;
            }
        }
    }
    Ok(())
}

/// The masks with a branch that leaves short values as they are.
fn shows_four(masks: &[EffectivePolicy]) -> Vec<(&str, Action, ExpressionError)> {
    let mut found = Vec::new();
    for EffectivePolicy { policy, .. } in masks {
        let Ok(expression) = &policy.expression else { continue };
        let shows = actions(expression.rule()).into_iter().find_map(|call| {
            let action: Action = call.name.parse().ok()?;
            matches!(action, Action::ShowFirst4 | Action::ShowLast4).then_some((action, call.span))
        });
        if let Some((action, span)) = shows {
            let message = format!("{action} leaves values of four characters or fewer in clear");
            let error = ExpressionError::new(expression.source().clone(), span, message);
            found.push((&*policy.name, action, error));
        }
    }
    found
}
