//! Random tables, rows, subjects and filter rules. A rule is a tree of its own here, printed as source: what the
//! source means is known without parsing it.

use std::fmt::{self, Write};

use iceberg_read_restrictions::restriction::Value;
use serde_json::{Value as Json, json};

use super::random::Random;

/// What a table's columns can be of: the name of the type, the values that rows get, and literals that fit, each
/// with the value that it is.
pub struct Domain {
    pub data_type: &'static str,
    pub values: Vec<Value>,
    pub literals: Vec<(String, Value)>,
}

/// Every type that has literals. Values lie at, beside and between the literals, and at the ends of the type.
pub fn domains() -> Vec<Domain> {
    fn of(data_type: &'static str, values: Vec<Value>, literals: Vec<(&str, Value)>) -> Domain {
        let literals = literals.into_iter().map(|(text, value)| (text.to_owned(), value)).collect();
        Domain { data_type, values, literals }
    }
    fn quoted<T: Copy>(
        data_type: &'static str,
        make: fn(T) -> Value,
        more: &[T],
        literals: &[(&str, T)],
    ) -> Domain {
        let values = literals.iter().map(|literal| literal.1).chain(more.iter().copied()).map(make).collect();
        let literals = literals.iter().map(|&(text, value)| (json!(text).to_string(), make(value))).collect();
        Domain { data_type, values, literals }
    }

    let decimal = |unscaled| Value::Decimal { unscaled, precision: 9, scale: 2 };
    let wide = |unscaled| Value::Decimal { unscaled, precision: 38, scale: 10 };
    let widest = 10_i128.pow(38) - 1;
    vec![
        of(
            "boolean",
            vec![Value::Boolean(true), Value::Boolean(false)],
            vec![("true", Value::Boolean(true)), ("false", Value::Boolean(false))],
        ),
        of(
            "int",
            [i32::MIN, -2, -1, 0, 1, 41, 42, 43, i32::MAX].map(Value::Int).to_vec(),
            vec![
                ("-2147483648", Value::Int(i32::MIN)),
                ("-1", Value::Int(-1)),
                ("-0", Value::Int(0)),
                ("42.00", Value::Int(42)),
                ("42", Value::Int(42)),
                ("2147483647", Value::Int(i32::MAX)),
            ],
        ),
        of(
            "long",
            [i64::MIN, i64::MIN + 1, -1, 0, 1 << 53, (1 << 53) + 1, i64::MAX - 1, i64::MAX]
                .map(Value::Long)
                .to_vec(),
            vec![
                ("-9223372036854775808", Value::Long(i64::MIN)),
                ("0", Value::Long(0)),
                ("9007199254740993", Value::Long((1 << 53) + 1)),
                ("9223372036854775807", Value::Long(i64::MAX)),
            ],
        ),
        of(
            "float",
            [
                f32::NAN,
                -f32::NAN,
                f32::NEG_INFINITY,
                f32::MIN,
                -1.5,
                -1e-45,
                -0.0,
                0.0,
                1e-45,
                0.1,
                1.5,
                f32::INFINITY,
            ]
            .map(Value::Float)
            .to_vec(),
            vec![
                ("-1.5", Value::Float(-1.5)),
                ("-0.0", Value::Float(0.0)),
                ("0", Value::Float(0.0)),
                ("0.10", Value::Float(0.1)),
                ("16777216", Value::Float(16_777_216.0)),
            ],
        ),
        of(
            "double",
            [
                f64::NAN,
                -f64::NAN,
                f64::NEG_INFINITY,
                f64::MIN,
                -1.5,
                -5e-324,
                -0.0,
                0.0,
                5e-324,
                0.1,
                0.3,
                f64::INFINITY,
            ]
            .map(Value::Double)
            .to_vec(),
            vec![
                ("-1.5", Value::Double(-1.5)),
                ("-0", Value::Double(0.0)),
                ("0.0", Value::Double(0.0)),
                ("0.1", Value::Double(0.1)),
                ("0.30", Value::Double(0.3)),
            ],
        ),
        of(
            "decimal(9, 2)",
            [-999_999_999, -150, -1, 0, 1, 149, 150, 999_999_999].map(decimal).to_vec(),
            vec![
                ("-1.5", decimal(-150)),
                ("-0.0", decimal(0)),
                ("0.01", decimal(1)),
                ("1.50", decimal(150)),
                ("1.5", decimal(150)),
            ],
        ),
        of(
            "decimal(38, 10)",
            [-widest, -1, 0, 1, 12_345_678_901_234_567_891, widest - 1, widest].map(wide).to_vec(),
            vec![
                ("0", wide(0)),
                ("1234567890.1234567891", wide(12_345_678_901_234_567_891)),
                ("9999999999999999999999999999.9999999999", wide(widest)),
            ],
        ),
        quoted(
            "date",
            Value::Date,
            &[-719_161, 1, 19_781, 19_783],
            &[
                ("0001-01-01", -719_162),
                ("1969-12-31", -1),
                ("1970-01-01", 0),
                ("2024-02-29", 19_782),
                ("9999-12-31", 2_932_896),
            ],
        ),
        quoted(
            "time",
            Value::Time,
            &[1, 45_000_000_001],
            &[
                ("00:00:00", 0),
                ("12:30:00", 45_000_000_000),
                ("12:30:00.0", 45_000_000_000),
                ("23:59:59.999999", 86_399_999_999),
            ],
        ),
        quoted(
            "timestamp",
            Value::Timestamp,
            &[1, 1_709_209_800_123_455],
            &[
                ("1969-12-31T23:59:59.999999", -1),
                ("1970-01-01T00:00:00", 0),
                ("2024-02-29T12:30:00.123456", 1_709_209_800_123_456),
                ("9999-12-31T23:59:59.999999", 253_402_300_799_999_999),
            ],
        ),
        quoted(
            "string",
            |text: &str| Value::String(text.into()),
            &["us", "US ", "e\u{301}", "\u{1f600}"],
            &[
                ("", ""),
                ("US", "US"),
                ("alice", "alice"),
                ("\u{e9}", "\u{e9}"),
                ("\u{ffff}", "\u{ffff}"),
                ("\"\\\n", "\"\\\n"),
            ],
        ),
    ]
}

pub struct Column {
    pub name: String,
    pub domain: usize,
    pub required: bool,
}

/// A table: some columns and some rows with a value for each.
pub struct Table {
    pub columns: Vec<Column>,
    pub rows: Vec<Vec<Value>>,
}

impl Table {
    pub fn random(random: &mut Random, domains: &[Domain], rows: usize) -> Self {
        // At least one string column, so that the user's name can be compared with something.
        let string = domains.iter().position(|domain| domain.data_type == "string").expect("strings");
        let columns: Vec<_> = (0..2 + random.below(4))
            .map(|index| Column {
                name: format!("c{index}"),
                domain: if index == 0 { string } else { random.below(domains.len()) },
                required: random.once_in(3),
            })
            .collect();
        let mut value = |column: &Column| {
            let null = !column.required && random.once_in(5);
            if null { Value::Null } else { random.choose(&domains[column.domain].values).clone() }
        };
        let rows = (0..rows).map(|_| columns.iter().map(&mut value).collect()).collect();
        Self { columns, rows }
    }

    /// The field id of a column.
    pub fn id(column: usize) -> i32 {
        column as i32 + 1
    }

    /// The fields in the JSON of the table specification.
    pub fn fields(&self, domains: &[Domain]) -> Json {
        let field = |(index, column): (usize, &Column)| {
            let data_type = domains[column.domain].data_type;
            json!({"id": Self::id(index), "name": column.name, "type": data_type, "required": column.required})
        };
        self.columns.iter().enumerate().map(field).collect()
    }
}

/// Who asks.
pub struct Asker {
    pub name: &'static str,
    pub groups: [(&'static str, bool); 2],
}

/// Every combination that makes a difference to the generated rules.
pub fn askers() -> Vec<Asker> {
    let groups = [(false, false), (true, false), (false, true), (true, true)];
    let asker =
        |name, (auditors, owners)| Asker { name, groups: [("auditors", auditors), ("owners", owners)] };
    ["alice", "US"].into_iter().flat_map(|name| groups.map(|membership| asker(name, membership))).collect()
}

/// A filter rule as its author thinks of it.
pub struct Rule {
    pub branches: Vec<(Tree, Tree)>,
    pub fallback: Tree,
}

pub enum Tree {
    Constant(bool),
    Not(Box<Tree>),
    And(Vec<Tree>),
    Or(Vec<Tree>),
    Leaf(Leaf),
}

/// `flipped` puts the operands the other way round, which changes nothing.
pub enum Leaf {
    Compare { column: usize, operator: Operator, literal: usize, flipped: bool },
    IsNull { column: usize, negated: bool, flipped: bool },
    In { column: usize, literals: Vec<usize> },
    ColumnIsUser { column: usize, negated: bool, flipped: bool },
    UserIs { name: &'static str, negated: bool, flipped: bool },
    UserIn(Vec<&'static str>),
    Member(&'static str),
}

#[derive(Clone, Copy, PartialEq)]
pub enum Operator {
    Eq,
    NotEq,
    Lt,
    LtEq,
    Gt,
    GtEq,
}

impl Operator {
    pub const ALL: [Self; 6] = [Self::Eq, Self::NotEq, Self::Lt, Self::LtEq, Self::Gt, Self::GtEq];

    pub fn symbol(self) -> &'static str {
        match self {
            Self::Eq => "==",
            Self::NotEq => "!=",
            Self::Lt => "<",
            Self::LtEq => "<=",
            Self::Gt => ">",
            Self::GtEq => ">=",
        }
    }

    fn mirrored(self) -> Self {
        match self {
            Self::Eq | Self::NotEq => self,
            Self::Lt => Self::Gt,
            Self::LtEq => Self::GtEq,
            Self::Gt => Self::Lt,
            Self::GtEq => Self::LtEq,
        }
    }
}

impl Rule {
    /// A rule of up to four branches with trees of a depth.
    pub fn random(random: &mut Random, table: &Table, domains: &[Domain], depth: usize) -> Self {
        let mut trees = Trees { random, table, domains };
        let branches = (0..trees.random.below(4)).map(|_| (trees.tree(depth), trees.tree(depth))).collect();
        Self { branches, fallback: trees.tree(depth) }
    }

    /// The source text, with brackets only where the precedence of the language asks for them.
    pub fn source(&self, table: &Table, domains: &[Domain]) -> String {
        let printed = |tree| Printed { tree, table, domains, within: Precedence::Or };
        let mut source = "filter := ".to_owned();
        for (result, condition) in &self.branches {
            write!(source, "{} if {}\nelse := ", printed(result), printed(condition))
                .expect("a string takes all");
        }
        source + &printed(&self.fallback).to_string()
    }
}

struct Trees<'a> {
    random: &'a mut Random,
    table: &'a Table,
    domains: &'a [Domain],
}

impl Trees<'_> {
    fn tree(&mut self, depth: usize) -> Tree {
        if depth == 0 || self.random.once_in(3) {
            return self.leaf();
        }
        match self.random.below(3) {
            0 => Tree::Not(Box::new(self.tree(depth - 1))),
            kind => {
                let children = (0..2 + self.random.below(2)).map(|_| self.tree(depth - 1)).collect();
                if kind == 1 { Tree::And(children) } else { Tree::Or(children) }
            }
        }
    }

    fn leaf(&mut self) -> Tree {
        let (negated, flipped) = (self.random.coin(), self.random.once_in(4));
        let name = *self.random.choose(&["alice", "US", "bob"]);
        Tree::Leaf(match self.random.below(16) {
            0 => return Tree::Constant(self.random.coin()),
            1 => Leaf::UserIs { name, negated, flipped },
            2 => Leaf::UserIn(
                (0..1 + self.random.below(3)).map(|_| *self.random.choose(&["alice", "US", "bob"])).collect(),
            ),
            3 | 4 => Leaf::Member(self.random.choose::<&str>(&["auditors", "owners"])),
            5 => Leaf::ColumnIsUser { column: 0, negated, flipped },
            6..=8 => self.is_null(negated, flipped),
            9..=11 => {
                let column = self.column();
                let literals = (0..1 + self.random.below(4)).map(|_| self.literal(column)).collect();
                Leaf::In { column, literals }
            }
            _ => self.compare(flipped),
        })
    }

    fn is_null(&mut self, negated: bool, flipped: bool) -> Leaf {
        // The language has null tests for optional columns only.
        let column = self.column();
        if self.table.columns[column].required {
            self.compare(flipped)
        } else {
            Leaf::IsNull { column, negated, flipped }
        }
    }

    fn compare(&mut self, flipped: bool) -> Leaf {
        let column = self.column();
        let ordered = self.domains[self.table.columns[column].domain].data_type != "boolean";
        let operators = if ordered { &Operator::ALL[..] } else { &Operator::ALL[..2] };
        Leaf::Compare {
            column,
            operator: *self.random.choose(operators),
            literal: self.literal(column),
            flipped,
        }
    }

    fn column(&mut self) -> usize {
        self.random.below(self.table.columns.len())
    }

    fn literal(&mut self, column: usize) -> usize {
        self.random.below(self.domains[self.table.columns[column].domain].literals.len())
    }
}

/// Loosest first.
#[derive(Clone, Copy, PartialEq, PartialOrd)]
enum Precedence {
    Or,
    And,
    Not,
    Comparison,
}

/// A tree as source, as an operand of something that binds as `within` does.
struct Printed<'a> {
    tree: &'a Tree,
    table: &'a Table,
    domains: &'a [Domain],
    within: Precedence,
}

impl fmt::Display for Printed<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let own = match self.tree {
            Tree::Or(_) => Precedence::Or,
            Tree::And(_) => Precedence::And,
            Tree::Not(_) => Precedence::Not,
            Tree::Constant(_) | Tree::Leaf(_) => Precedence::Comparison,
        };
        if own < self.within {
            return write!(f, "({})", Printed { within: Precedence::Or, ..*self });
        }
        let operand = |tree, within| Printed { tree, within, ..*self };
        match self.tree {
            Tree::Constant(value) => write!(f, "{value}"),
            Tree::Not(child) => write!(f, "not {}", operand(child, Precedence::Not)),
            // A chain inside a chain of its kind keeps its brackets, so that the tree stays what it is.
            Tree::And(children) => {
                chain(f, " and ", children.iter().map(|child| operand(child, Precedence::Not)))
            }
            Tree::Or(children) => {
                chain(f, " or ", children.iter().map(|child| operand(child, Precedence::And)))
            }
            Tree::Leaf(leaf) => f.write_str(&leaf.source(self.table, self.domains)),
        }
    }
}

fn chain<'a>(
    f: &mut fmt::Formatter<'_>,
    word: &str,
    operands: impl Iterator<Item = Printed<'a>>,
) -> fmt::Result {
    for (index, operand) in operands.enumerate() {
        write!(f, "{}{operand}", if index == 0 { "" } else { word })?;
    }
    Ok(())
}

impl Leaf {
    pub fn source(&self, table: &Table, domains: &[Domain]) -> String {
        self.source_with(table, |column, literal| {
            domains[table.columns[column].domain].literals[literal].0.clone()
        })
    }

    /// The source with literals of a column spelled by the caller.
    pub fn source_with(&self, table: &Table, literal: impl Fn(usize, usize) -> String) -> String {
        let col = |column: &usize| format!("col({})", json!(table.columns[*column].name));
        let equality = |negated: &bool| if *negated { Operator::NotEq } else { Operator::Eq };
        let user = || "session_user()".to_owned();
        match self {
            Self::Compare { column, operator, literal: index, flipped } => {
                infix(col(column), *operator, literal(*column, *index), *flipped)
            }
            Self::IsNull { column, negated, flipped } => {
                infix(col(column), equality(negated), "null".into(), *flipped)
            }
            Self::In { column, literals } => {
                let literals: Vec<_> = literals.iter().map(|index| literal(*column, *index)).collect();
                format!("{} in [{}]", col(column), literals.join(", "))
            }
            Self::ColumnIsUser { column, negated, flipped } => {
                infix(col(column), equality(negated), user(), *flipped)
            }
            Self::UserIs { name, negated, flipped } => {
                infix(user(), equality(negated), json!(name).to_string(), *flipped)
            }
            Self::UserIn(names) => format!("{} in {}", user(), json!(names)),
            Self::Member(group) => format!("is_group_member({})", json!(group)),
        }
    }
}

fn infix(left: String, operator: Operator, right: String, flipped: bool) -> String {
    if flipped {
        format!("{right} {} {left}", operator.mirrored().symbol())
    } else {
        format!("{left} {} {right}", operator.symbol())
    }
}
