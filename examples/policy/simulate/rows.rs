//! Whether a row filter lets rows pass that another one does not.
//!
//! A predicate looks at each field only through tests against literals, for null and for NaN. Between two
//! neighbouring literals all values of a field are alike, so a few values stand for all: null, NaN, each
//! literal, and one value below, between and above them where there is one. Over all combinations of these
//! the reference evaluator gives the exact answer. When there are too many, what can be shown without
//! looking at rows, and a search through some of them, have to do.

use std::collections::{BTreeMap, BTreeSet};

use iceberg_read_restrictions::restriction::{Literal, Predicate, Reference, Value, evaluate};

/// The most rows that are tried.
const MOST_ROWS: usize = 20_000;

/// Whether rows become visible.
#[derive(Debug, PartialEq)]
pub enum Widening {
    /// Certainly none.
    None,
    /// This one, by field id, in words.
    Witness(Vec<(i32, String)>),
    /// Not known.
    Unknown,
}

/// Looks for rows that `after` lets pass and `before` does not.
pub fn widening(before: &Predicate, after: &Predicate) -> Widening {
    if implies(after, before) {
        return Widening::None;
    }
    let mut fields = BTreeMap::new();
    collect(before, &mut fields);
    collect(after, &mut fields);
    let domains: Vec<_> = fields.into_iter().map(|(id, tests)| (id, tests.representatives())).collect();
    let combinations = domains.iter().try_fold(1_usize, |all, (_, values)| all.checked_mul(values.len()));
    let is_exhaustive = combinations.is_some_and(|combinations| combinations <= MOST_ROWS);
    for row in Rows::new(&domains).take(MOST_ROWS) {
        let values: BTreeMap<i32, Value> =
            row.iter().map(|(id, choice)| (*id, choice.value.clone())).collect();
        match (evaluate(after, &values), evaluate(before, &values)) {
            (Ok(true), Ok(false)) => {
                let words = row.iter().map(|(id, choice)| (*id, choice.words.clone()));
                return Widening::Witness(words.collect());
            }
            (Ok(_), Ok(_)) => {}
            // A predicate that has no answer is not understood here.
            _ => return Widening::Unknown,
        }
    }
    if is_exhaustive { Widening::None } else { Widening::Unknown }
}

/// Whether every row that passes `a` passes `b`, as far as their shape tells.
fn implies(a: &Predicate, b: &Predicate) -> bool {
    match (a, b) {
        (a, b) if a == b => true,
        (Predicate::Constant(false), _) | (_, Predicate::Constant(true)) => true,
        (Predicate::Or(children), b) => children.iter().all(|child| implies(child, b)),
        (a, Predicate::And(children)) => children.iter().all(|child| implies(a, child)),
        (Predicate::And(children), b) if children.iter().any(|child| implies(child, b)) => true,
        (a, Predicate::Or(children)) => children.iter().any(|child| implies(a, child)),
        _ => false,
    }
}

/// How two predicates look at one field.
#[derive(Default)]
struct Tests {
    required: bool,
    literals: BTreeSet<Literal>,
}

fn collect(predicate: &Predicate, fields: &mut BTreeMap<i32, Tests>) {
    let mut add = |reference: &Reference, literals: &[Literal]| {
        let tests = fields.entry(reference.id).or_default();
        tests.required = reference.required;
        tests.literals.extend(literals.iter().cloned());
    };
    match predicate {
        Predicate::Constant(_) => {}
        Predicate::And(children) | Predicate::Or(children) => {
            for child in children {
                collect(child, fields);
            }
        }
        Predicate::Unary { reference, .. } => add(reference, &[]),
        Predicate::Comparison { reference, literal, .. } => add(reference, std::slice::from_ref(literal)),
        Predicate::Set { reference, literals, .. } => add(reference, literals),
    }
}

/// A value that stands for all that the predicates cannot tell from it.
#[derive(Clone)]
struct Choice {
    value: Value,
    /// The values in words, behind the name of the field.
    words: String,
}

impl Tests {
    fn representatives(&self) -> Vec<Choice> {
        let mut choices = Vec::new();
        let mut add = |value, words: String| choices.push(Choice { value, words });
        if !self.required {
            add(Value::Null, "is null".to_owned());
        }
        // In ascending order.
        let tested: Vec<_> = self.literals.iter().map(|literal| (literal, Value::from(literal))).collect();
        let Some((least, least_value)) = tested.first() else {
            // Only its nullness is looked at, so any value will do.
            add(Value::Boolean(true), "is not null".to_owned());
            return choices;
        };
        match least_value {
            Value::Float(_) => add(Value::Float(f32::NAN), "is NaN".to_owned()),
            Value::Double(_) => add(Value::Double(f64::NAN), "is NaN".to_owned()),
            _ => {}
        }
        if let Some(value) = between(None, Some(least_value)) {
            add(value, format!("below {least}"));
        }
        for (index, (literal, value)) in tested.iter().enumerate() {
            add(value.clone(), format!("= {literal}"));
            let next = tested.get(index + 1);
            if let Some(value) = between(Some(value), next.map(|(_, value)| value)) {
                let words = match next {
                    Some((next, _)) => format!("between {literal} and {next}"),
                    None => format!("above {literal}"),
                };
                add(value, words);
            }
        }
        choices
    }
}

/// A value strictly between two of one type, one of which may be open; `None` when there is none.
fn between(low: Option<&Value>, high: Option<&Value>) -> Option<Value> {
    match low.or(high)? {
        Value::Float(_) => {
            let value = match low {
                Some(Value::Float(low)) => low.next_up(),
                _ => f32::NEG_INFINITY,
            };
            let fits = !matches!(high, Some(Value::Float(high)) if value >= *high);
            fits.then_some(Value::Float(value))
        }
        Value::Double(_) => {
            let value = match low {
                Some(Value::Double(low)) => low.next_up(),
                _ => f64::NEG_INFINITY,
            };
            let fits = !matches!(high, Some(Value::Double(high)) if value >= *high);
            fits.then_some(Value::Double(value))
        }
        Value::String(_) => {
            // Between a text and the same with the least character behind it lies nothing; no literal has
            // that character.
            let value = match low {
                Some(Value::String(low)) => format!("{low}\0"),
                _ => String::new(),
            };
            let fits = !matches!(high, Some(Value::String(high)) if value >= *high);
            fits.then_some(Value::String(value))
        }
        discrete => {
            let line = Line::of(discrete)?;
            let first = low.map_or(Some(line.first), |low| Some(Line::of(low)?.place + 1))?;
            let last = high.map_or(Some(line.last), |high| Some(Line::of(high)?.place - 1))?;
            // The end that is not open, so that the value stays close to what people wrote.
            let place = if low.is_some() { first } else { last };
            (first <= last).then(|| at(discrete, place))?
        }
    }
}

/// Where a value of a discrete type stands among all values of the type.
struct Line {
    place: i128,
    first: i128,
    last: i128,
}

impl Line {
    fn of(value: &Value) -> Option<Self> {
        let (place, first, last) = match *value {
            Value::Boolean(value) => (value.into(), 0, 1),
            Value::Int(value) | Value::Date(value) => (value.into(), i32::MIN.into(), i32::MAX.into()),
            Value::Long(value) | Value::Timestamp(value) => (value.into(), i64::MIN.into(), i64::MAX.into()),
            Value::Time(micros) => (micros.into(), 0, 86_399_999_999),
            Value::Decimal { unscaled, precision, .. } => {
                let limit = 10_i128.checked_pow(precision.into())? - 1;
                (unscaled, -limit, limit)
            }
            _ => return None,
        };
        Some(Self { place, first, last })
    }
}

/// The value of the same type at a place.
fn at(like: &Value, place: i128) -> Option<Value> {
    Some(match *like {
        Value::Boolean(_) => Value::Boolean(place != 0),
        Value::Int(_) => Value::Int(place.try_into().ok()?),
        Value::Date(_) => Value::Date(place.try_into().ok()?),
        Value::Long(_) => Value::Long(place.try_into().ok()?),
        Value::Timestamp(_) => Value::Timestamp(place.try_into().ok()?),
        Value::Time(_) => Value::Time(place.try_into().ok()?),
        Value::Decimal { precision, scale, .. } => Value::Decimal { unscaled: place, precision, scale },
        _ => return None,
    })
}

/// All combinations of one choice for each field.
struct Rows<'a> {
    domains: &'a [(i32, Vec<Choice>)],
    /// The choice for each field that comes next; `None` when all were given.
    next: Option<Vec<usize>>,
}

impl<'a> Rows<'a> {
    fn new(domains: &'a [(i32, Vec<Choice>)]) -> Self {
        let is_empty = domains.iter().any(|(_, choices)| choices.is_empty());
        Self { domains, next: (!is_empty).then(|| vec![0; domains.len()]) }
    }
}

impl<'a> Iterator for Rows<'a> {
    type Item = Vec<(i32, &'a Choice)>;

    fn next(&mut self) -> Option<Self::Item> {
        let chosen = self.next.take()?;
        let row =
            self.domains.iter().zip(&chosen).map(|((id, choices), index)| (*id, &choices[*index])).collect();
        let mut following = chosen;
        for (index, (_, choices)) in following.iter_mut().zip(self.domains) {
            *index += 1;
            if *index < choices.len() {
                self.next = Some(following);
                break;
            }
            *index = 0;
        }
        Some(row)
    }
}
