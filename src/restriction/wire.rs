//! The `read-restrictions` object as readers get it.
//!
//! Readers disagree about nulls, NaN and the sign of zero in comparisons, so a leaf on which they do goes out
//! with guards that make those alike that follow the published expression specification or the classic Java
//! evaluator. The README names readers that follow neither.

use std::{
    fmt::{self, Write},
    slice,
};

use super::{
    action::{Action, Projection},
    literal::Literal,
    predicate::{ComparisonOperator, Connective, Predicate, Reference, SetOperator, UnaryOperator},
    syntax,
};

/// A short row filter with everything around it.
const USUAL_FILTER: usize = 256;

/// `,{"action":"mask-to-fixed-value","field-id":2147483647}`, and some.
const LONGEST_PROJECTION: usize = 64;

/// What a reader has to enforce on one table: which rows it may show, and what it must do to which columns.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ReadRestrictions {
    row_filter: Option<Predicate>,
    projections: Vec<Projection>,
}

impl ReadRestrictions {
    /// Takes the row filter to its canonical form, leaves out one that is constantly true, and sorts the
    /// projections by field id.
    ///
    /// # Errors
    ///
    /// When a field id has two different actions.
    pub fn new(
        row_filter: Option<Predicate>,
        projections: impl IntoIterator<Item = Projection>,
    ) -> Result<Self, ActionConflict> {
        let mut projections: Vec<_> = projections.into_iter().collect();
        projections.sort_unstable();
        projections.dedup();
        match projections.windows(2).find(|pair| pair[0].field_id == pair[1].field_id) {
            Some(pair) => {
                Err(ActionConflict { field_id: pair[0].field_id, actions: [pair[0].action, pair[1].action] })
            }
            None => Ok(Self {
                row_filter: row_filter
                    .map(Predicate::canonical)
                    .filter(|filter| *filter != Predicate::Constant(true)),
                projections,
            }),
        }
    }

    /// The row filter in canonical form, never constantly true.
    pub fn row_filter(&self) -> Option<&Predicate> {
        self.row_filter.as_ref()
    }

    /// The projections, sorted by field id, one per field id.
    pub fn projections(&self) -> &[Projection] {
        &self.projections
    }

    /// Whether there is nothing to enforce, so that nothing is sent.
    pub fn is_empty(&self) -> bool {
        self.row_filter.is_none() && self.projections.is_empty()
    }

    /// The object as compact JSON, empty parts left out.
    pub fn to_json(&self) -> String {
        let row_filter = self.row_filter.as_ref().map(Wire);
        Member { projections: &self.projections, row_filter }.to_json()
    }
}

/// The object from its two parts, empty ones left out.
pub(super) struct Member<'a, F> {
    pub(super) projections: &'a [Projection],
    pub(super) row_filter: Option<F>,
}

impl<F: fmt::Display> Member<'_, F> {
    /// Straight into a string, because there may be a projection for each of a thousand columns.
    pub(super) fn to_json(&self) -> String {
        let mut json = String::with_capacity(USUAL_FILTER + LONGEST_PROJECTION * self.projections.len());
        json.push('{');
        if !self.projections.is_empty() {
            json.push_str(r#""required-column-projections":["#);
            for (index, Projection { field_id, action }) in self.projections.iter().enumerate() {
                json.push_str(if index == 0 { r#"{"action":""# } else { r#",{"action":""# });
                json.push_str(action.name());
                json.push_str(r#"","field-id":"#);
                push(&mut json, field_id);
                json.push('}');
            }
            json.push(']');
        }
        if let Some(row_filter) = &self.row_filter {
            json.push_str(if self.projections.is_empty() { "" } else { "," });
            json.push_str(r#""required-row-filter":"#);
            push(&mut json, row_filter);
        }
        json.push('}');
        json
    }
}

fn push(json: &mut String, value: &impl fmt::Display) {
    // A string takes everything.
    let _ = write!(json, "{value}");
}

/// One field id, two actions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ActionConflict {
    /// The field id.
    pub field_id: i32,
    /// The actions.
    pub actions: [Action; 2],
}

impl fmt::Display for ActionConflict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { field_id, actions: [first, second] } = self;
        write!(f, "field id {field_id} has two actions, {first} and {second}")
    }
}

impl std::error::Error for ActionConflict {}

/// A canonical predicate in the wire form.
pub(super) struct Wire<'a>(pub(super) &'a Predicate);

impl fmt::Display for Wire<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let chain = |connective, children| syntax::Chain { connective, children, written: Wire };
        match self.0 {
            Predicate::Constant(value) => value.fmt(f),
            Predicate::And(children) => chain(Connective::And, children).fmt(f),
            Predicate::Or(children) => chain(Connective::Or, children).fmt(f),
            &Predicate::Unary { operator, reference } => syntax::unary(f, operator, reference),
            Predicate::Comparison { operator, reference, literal } => {
                comparison(*operator, *reference, literal).fmt(f)
            }
            Predicate::Set { operator, reference, literals } => set(*operator, *reference, literals).fmt(f),
        }
    }
}

/// A leaf with the guards that it still needs.
#[derive(Clone, Copy)]
struct Leaf<'a> {
    reference: Reference,
    test: Test<'a>,
    /// `or(is-null(x), …)`: the leaf is true for null, which a bare one is to some readers only.
    or_null: bool,
    /// `and(not-nan(x), …)`: the leaf is false for NaN, which some readers order above every number.
    not_nan: bool,
}

#[derive(Clone, Copy)]
enum Test<'a> {
    Comparison(ComparisonOperator, &'a Literal),
    Set(SetOperator, &'a [Literal]),
}

fn comparison(operator: ComparisonOperator, reference: Reference, literal: &Literal) -> Leaf<'_> {
    use ComparisonOperator::{Eq, Lt, LtEq, NotEq};

    // Both zeros are one value, and only a set can name both.
    match operator {
        Eq if literal.is_floating_zero() => return set(SetOperator::In, reference, slice::from_ref(literal)),
        NotEq if literal.is_floating_zero() => {
            return set(SetOperator::NotIn, reference, slice::from_ref(literal));
        }
        _ => {}
    }
    Leaf {
        reference,
        test: Test::Comparison(operator, literal),
        or_null: matches!(operator, Lt | LtEq) && !reference.required,
        not_nan: operator.is_ordering() && literal.is_floating(),
    }
}

fn set(operator: SetOperator, reference: Reference, literals: &[Literal]) -> Leaf<'_> {
    Leaf {
        reference,
        test: Test::Set(operator, literals),
        or_null: operator == SetOperator::NotIn && !reference.required,
        not_nan: false,
    }
}

impl fmt::Display for Leaf<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let reference = self.reference;
        if self.or_null {
            let guard = Predicate::Unary { operator: UnaryOperator::IsNull, reference };
            return syntax::logical(f, Connective::Or, Wire(&guard), Self { or_null: false, ..*self });
        }
        if self.not_nan {
            let guard = Predicate::Unary { operator: UnaryOperator::NotNan, reference };
            return syntax::logical(f, Connective::And, Wire(&guard), Self { not_nan: false, ..*self });
        }
        match self.test {
            Test::Comparison(operator, literal) => {
                syntax::comparison(f, operator, reference, literal, Value::compared(operator, literal))
            }
            Test::Set(operator, literals) => match literals.first() {
                Some(first) => {
                    syntax::set(f, operator, reference, first, literals.iter().flat_map(Value::elements))
                }
                None => operator.of_nothing().fmt(f),
            },
        }
    }
}

/// A literal's value with the sign that its zero needs: some readers order `-0.0` below `0.0`, here they are
/// one value.
enum Value<'a> {
    NegativeZero,
    Plain(&'a Literal),
}

impl<'a> Value<'a> {
    fn compared(operator: ComparisonOperator, literal: &'a Literal) -> Self {
        let below_both = matches!(operator, ComparisonOperator::Lt | ComparisonOperator::GtEq);
        if below_both && literal.is_floating_zero() { Self::NegativeZero } else { Self::Plain(literal) }
    }

    fn elements(literal: &'a Literal) -> impl Iterator<Item = Self> {
        let negative = literal.is_floating_zero().then_some(Self::NegativeZero);
        negative.into_iter().chain([Self::Plain(literal)])
    }
}

impl fmt::Display for Value<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NegativeZero => f.write_str("-0.0"),
            Self::Plain(literal) => literal.wire_value().fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::PrimitiveType;

    const OPTIONAL: Reference = Reference { id: 7, required: false };
    const REQUIRED: Reference = Reference { id: 7, required: true };
    const ALL: [ComparisonOperator; 6] = [
        ComparisonOperator::Lt,
        ComparisonOperator::LtEq,
        ComparisonOperator::Gt,
        ComparisonOperator::GtEq,
        ComparisonOperator::Eq,
        ComparisonOperator::NotEq,
    ];

    fn number(text: &str, data_type: PrimitiveType) -> Literal {
        Literal::from_number(text, &data_type).unwrap()
    }

    /// The wire form in short: `or(is-null, and(not-nan, lt 1.5))`.
    fn short(predicate: &Predicate) -> String {
        fn walk(json: &serde_json::Value) -> String {
            let name = json["type"].as_str().unwrap_or_default();
            match name {
                "and" | "or" => format!("{name}({}, {})", walk(&json["left"]), walk(&json["right"])),
                "in" | "not-in" => format!("{name} {}", json["values"]["values"]),
                "is-null" | "not-null" | "is-nan" | "not-nan" => name.to_owned(),
                _ => format!("{name} {}", json["right"]["value"]),
            }
        }
        walk(&serde_json::from_str(&Wire(predicate).to_string()).unwrap())
    }

    fn compared(reference: Reference, literal: &Literal) -> [String; 6] {
        ALL.map(|operator| short(&Predicate::Comparison { operator, reference, literal: literal.clone() }))
    }

    fn within(operator: SetOperator, reference: Reference, literals: &[Literal]) -> String {
        short(&Predicate::Set { operator, reference, literals: literals.to_vec() })
    }

    #[test]
    fn orderings_that_are_true_for_null_say_so_on_an_optional_field() {
        let literal = number("5", PrimitiveType::Int);
        assert_eq!(
            compared(OPTIONAL, &literal),
            ["or(is-null, lt 5)", "or(is-null, lt-eq 5)", "gt 5", "gt-eq 5", "eq 5", "not-eq 5"]
        );
        assert_eq!(compared(REQUIRED, &literal), ["lt 5", "lt-eq 5", "gt 5", "gt-eq 5", "eq 5", "not-eq 5"]);
    }

    #[test]
    fn orderings_of_floats_exclude_nan() {
        for data_type in [PrimitiveType::Float, PrimitiveType::Double] {
            let literal = number("1.5", data_type);
            assert_eq!(
                compared(OPTIONAL, &literal),
                [
                    "or(is-null, and(not-nan, lt 1.5))",
                    "or(is-null, and(not-nan, lt-eq 1.5))",
                    "and(not-nan, gt 1.5)",
                    "and(not-nan, gt-eq 1.5)",
                    "eq 1.5",
                    "not-eq 1.5",
                ]
            );
            assert_eq!(
                compared(REQUIRED, &literal),
                [
                    "and(not-nan, lt 1.5)",
                    "and(not-nan, lt-eq 1.5)",
                    "and(not-nan, gt 1.5)",
                    "and(not-nan, gt-eq 1.5)",
                    "eq 1.5",
                    "not-eq 1.5",
                ]
            );
        }
    }

    #[test]
    fn not_in_is_true_for_null_and_in_is_not() {
        let literals = ["1", "2"].map(|text| number(text, PrimitiveType::Long));
        assert_eq!(within(SetOperator::In, OPTIONAL, &literals), "in [1,2]");
        assert_eq!(within(SetOperator::In, REQUIRED, &literals), "in [1,2]");
        assert_eq!(within(SetOperator::NotIn, OPTIONAL, &literals), "or(is-null, not-in [1,2])");
        assert_eq!(within(SetOperator::NotIn, REQUIRED, &literals), "not-in [1,2]");
    }

    #[test]
    fn zero_goes_out_with_the_sign_that_takes_both_zeros_in_or_leaves_both_out() {
        for data_type in [PrimitiveType::Float, PrimitiveType::Double] {
            let zero = number("0", data_type);
            assert_eq!(
                compared(OPTIONAL, &zero),
                [
                    "or(is-null, and(not-nan, lt -0.0))",
                    "or(is-null, and(not-nan, lt-eq 0.0))",
                    "and(not-nan, gt 0.0)",
                    "and(not-nan, gt-eq -0.0)",
                    "in [-0.0,0.0]",
                    "or(is-null, not-in [-0.0,0.0])",
                ]
            );
            assert_eq!(compared(REQUIRED, &zero)[4..], ["in [-0.0,0.0]", "not-in [-0.0,0.0]"]);
        }
    }

    #[test]
    fn sets_with_zero_hold_both_zeros() {
        let literals = ["-1", "0", "2"].map(|text| number(text, PrimitiveType::Double));
        assert_eq!(within(SetOperator::In, OPTIONAL, &literals), "in [-1.0,-0.0,0.0,2.0]");
        assert_eq!(
            within(SetOperator::NotIn, OPTIONAL, &literals),
            "or(is-null, not-in [-1.0,-0.0,0.0,2.0])"
        );
    }

    #[test]
    fn zero_of_other_types_is_plain() {
        let decimal = number("0", PrimitiveType::Decimal { precision: 9, scale: 2 });
        assert_eq!(compared(REQUIRED, &decimal)[4], "eq \"0.00\"");
        assert_eq!(compared(REQUIRED, &number("0", PrimitiveType::Int))[0], "lt 0");
    }

    #[test]
    fn tests_of_a_field_alone_go_out_as_they_are() {
        for operator in
            [UnaryOperator::IsNull, UnaryOperator::NotNull, UnaryOperator::IsNan, UnaryOperator::NotNan]
        {
            let predicate = Predicate::Unary { operator, reference: OPTIONAL };
            assert_eq!(short(&predicate), operator.name());
        }
    }

    #[test]
    fn leaves_have_exactly_the_members_of_the_schema() {
        let decimal = number("1.5", PrimitiveType::Decimal { precision: 9, scale: 2 });
        let eq = |literal| Predicate::Comparison {
            operator: ComparisonOperator::Eq,
            reference: OPTIONAL,
            literal,
        };
        assert_eq!(
            Wire(&eq(decimal)).to_string(),
            r#"{"type":"eq","left":{"type":"reference","id":7},"right":{"type":"literal","value":"1.50","data-type":"decimal(9, 2)"}}"#
        );
        // The shortest form of the float, not of the double next to it.
        let float = Wire(&eq(number("0.1", PrimitiveType::Float))).to_string();
        assert!(float.contains(r#""value":0.1,"data-type":"float""#), "{float}");
    }

    #[test]
    fn deny_all_is_a_bare_false_and_a_constant_true_is_not_sent() {
        let filter = |value| ReadRestrictions::new(Some(Predicate::Constant(value)), []).unwrap();
        assert_eq!(filter(false).to_json(), r#"{"required-row-filter":false}"#);
        assert!(!filter(false).is_empty());
        assert_eq!(filter(true).to_json(), "{}");
        assert!(filter(true).is_empty());
        assert!(ReadRestrictions::default().is_empty());
    }

    #[test]
    fn projections_are_sorted_and_one_per_field_id() {
        let projection = |field_id, action| Projection { field_id, action };
        let (eight, four) = (projection(8, Action::TruncateToYear), projection(4, Action::ShowLast4));
        let restrictions = ReadRestrictions::new(None, [eight, four, eight]).unwrap();
        assert_eq!(
            restrictions.to_json(),
            r#"{"required-column-projections":[{"action":"show-last-4","field-id":4},{"action":"truncate-to-year","field-id":8}]}"#
        );
        let conflict =
            ReadRestrictions::new(None, [four, projection(4, Action::ReplaceWithNull)]).unwrap_err();
        assert_eq!(conflict.to_string(), "field id 4 has two actions, replace-with-null and show-last-4");
    }
}
