//! What a subject can see of a table, and how two such views compare.

use std::collections::{BTreeMap, BTreeSet};

use iceberg_read_restrictions::{
    resolve::{ExplainRequest, Explanation, Outcome, ResolveRequest, Resolver},
    restriction::{Action, Predicate},
    table::LoadResult,
};
use serde::Serialize;

use super::{
    masks,
    rows::{self, Widening},
};

/// What a subject can see.
#[derive(Clone, Debug)]
pub enum Visible {
    /// The load is refused.
    Nothing,
    /// These rows, and these columns not as they are.
    Table { rows: Predicate, masks: BTreeMap<i32, Action> },
}

impl Visible {
    /// What the local policies leave visible.
    pub fn of(resolver: &Resolver, request: &ExplainRequest<'_>, explanation: &Explanation) -> Self {
        let everything = || Self::Table { rows: Predicate::Constant(true), masks: BTreeMap::new() };
        let ExplainRequest { policies, subject, memberships, table } = *request;
        match (explanation.outcome, table) {
            (Outcome::Refused, _) => Self::Nothing,
            (Outcome::Ungoverned, _) => everything(),
            // A table that cannot be read is either ungoverned or refused.
            (_, Err(_)) => Self::Nothing,
            (Outcome::Unrestricted | Outcome::Restricted, Ok(table)) => {
                let request = ResolveRequest { policies, subject, memberships, table };
                match resolver.resolve(request) {
                    Err(_) => Self::Nothing,
                    Ok(resolution) => {
                        let filter = resolution.row_filter().map(|filter| filter.predicate.clone());
                        let masks = resolution.column_masks().iter().map(|mask| mask.projection);
                        Self::Table {
                            rows: filter.unwrap_or(Predicate::Constant(true)),
                            masks: masks.map(|mask| (mask.field_id, mask.action)).collect(),
                        }
                    }
                }
            }
        }
    }
}

/// What a change does, the worst last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Effect {
    Same,
    Narrows,
    MayWiden,
    Widens,
}

impl Effect {
    pub fn words(self) -> &'static str {
        match self {
            Self::Same => "same visible",
            Self::Narrows => "narrows",
            Self::MayWiden => "MAY WIDEN",
            Self::Widens => "WIDENS",
        }
    }
}

/// The worst effect, and every effect with what it is about.
#[derive(Debug, Serialize)]
pub struct Comparison {
    pub effect: Effect,
    pub reasons: Vec<String>,
}

/// Compares what was visible with what becomes visible.
pub fn compare(before: &Visible, after: &Visible, table: Option<&LoadResult>) -> Comparison {
    let mut comparison = Comparison { effect: Effect::Same, reasons: Vec::new() };
    match (before, after) {
        (Visible::Nothing, Visible::Nothing) => {}
        (Visible::Nothing, Visible::Table { .. }) => {
            comparison.add(Effect::Widens, "the table was refused, and can be loaded");
        }
        (Visible::Table { .. }, Visible::Nothing) => {
            comparison.add(Effect::Narrows, "the table could be loaded, and is refused");
        }
        (
            Visible::Table { rows: rows_before, masks: masks_before },
            Visible::Table { rows: rows_after, masks: masks_after },
        ) => {
            let names = Names(table);
            comparison.rows(rows_before, rows_after, &names);
            // Of no row, no value can be seen.
            if *rows_after == Predicate::Constant(false) {
                return comparison;
            }
            let fields: BTreeSet<_> = masks_before.keys().chain(masks_after.keys()).collect();
            for field in fields {
                let [before, after] = [masks_before, masks_after].map(|masks| masks.get(field).copied());
                let shown = |action: Option<Action>| {
                    action.map_or_else(|| "in clear".to_owned(), |action| action.to_string())
                };
                let effect = masks::effect(before, after);
                if before != after {
                    let reason =
                        format!("column {}: {} -> {}", names.of(*field), shown(before), shown(after));
                    comparison.add(effect, reason);
                }
            }
        }
    }
    comparison
}

impl Comparison {
    fn add(&mut self, effect: Effect, reason: impl Into<String>) {
        self.effect = self.effect.max(effect);
        self.reasons.push(format!("{}: {}", effect.words(), reason.into()));
    }

    fn rows(&mut self, before: &Predicate, after: &Predicate, names: &Names<'_>) {
        if before == after {
            return;
        }
        match rows::widening(before, after) {
            Widening::Witness(row) => {
                self.add(Effect::Widens, format!("rows become visible, such as {}", names.row(&row)));
            }
            Widening::Unknown => self.add(Effect::MayWiden, "it is not certain that no row becomes visible"),
            Widening::None => {}
        }
        match rows::widening(after, before) {
            Widening::Witness(row) => {
                self.add(Effect::Narrows, format!("rows are hidden, such as {}", names.row(&row)));
            }
            Widening::Unknown => self.add(Effect::Narrows, "rows may be hidden"),
            Widening::None => {}
        }
    }
}

/// The names of the fields, those of dropped ones included.
struct Names<'a>(Option<&'a LoadResult>);

impl Names<'_> {
    fn of(&self, field_id: i32) -> String {
        let current = self.0.and_then(|table| Some(table.schema().field_by_id(field_id)?.name.to_owned()));
        current.or_else(|| self.dropped(field_id)).unwrap_or_else(|| format!("field {field_id}"))
    }

    fn dropped(&self, field_id: i32) -> Option<String> {
        let older = self.0?.older_schemas().ok()?;
        older.iter().rev().find_map(|schema| Some(schema.field_by_id(field_id)?.name.to_owned()))
    }

    fn row(&self, row: &[(i32, String)]) -> String {
        if row.is_empty() {
            return "every one".to_owned();
        }
        let values: Vec<_> =
            row.iter().map(|(field, value)| format!("{} {value}", self.of(*field))).collect();
        values.join(", ")
    }
}
