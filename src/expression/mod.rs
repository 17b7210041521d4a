//! The policy expression language, *restricted Rego* (`restricted-rego-v1`): source text to a checked rule.
//!
//! A rule knows names, conditionals and the two context functions. It knows no table and no subject;
//! [`resolve`](crate::resolve) binds it to both.
//!
//! # Grammar
//!
//! ```text
//! program   := "filter" ":=" expr   ("if" expr "else" ":=" expr)*
//!            | "mask"   ":=" action ("if" expr "else" ":=" action)*     no col(...) in the conditions
//! action    := "action" "(" string ")"
//! expr      := and ("or" and)*
//! and       := not ("and" not)*
//! not       := "not" not | compare
//! compare   := primary (("==" | "!=" | "<" | "<=" | ">" | ">=" | "in") primary)?
//! primary   := "col" "(" string ")" | "session_user" "(" ")" | "is_group_member" "(" string ")"
//!            | literal | array | "(" expr ")"
//! array     := "[" literal ("," literal)* "]"
//! literal   := string | number | "true" | "false" | "null"
//! number    := "-"? ("0" | [1-9][0-9]*) ("." [0-9]+)?
//! string    := a JSON string, without U+0000
//! ```
//!
//! White space is space, tab, line feed and carriage return. A word is a maximal run of ASCII letters, digits and `_`:
//! `1and` and `notcol("x")` are errors, `filter:=true` is not.
//!
//! # What may stand where
//!
//! | form | operators |
//! |---|---|
//! | Boolean operands | `and` `or` `not` |
//! | column and literal, either order | `==` `!=` `<` `<=` `>` `>=` |
//! | column and `null`, either order | `==` `!=` |
//! | column and `session_user()`, either order | `==` `!=` |
//! | `session_user()` and string, either order | `==` `!=` |
//! | column before an array of one kind of literal, no null | `in` |
//! | `session_user()` before an array of strings | `in` |
//! | `is_group_member("g")` | none: it is Boolean itself |
//!
//! Everything else is an error, in every branch. A bare column is not a predicate, not even a Boolean one.
//!
//! # Limits
//!
//! | limit | value |
//! |---|---|
//! | source | 16 KiB |
//! | string, decoded | 4 KiB |
//! | number | 256 bytes |
//! | elements of an array | 256 |
//! | operators, calls, scalar literals and arrays in all | 256; a chain `a and b and c` is one operator |
//! | operations inside one another | 8; a comparison is 1, and `not`, `and` and `or` add 1 each |
//! | open grouping brackets at once | 256 |

mod ast;
mod check;
mod error;
mod limits;
mod parse;
mod precedence;
mod rule;
mod token;

use error::Refusal;

pub use error::ExpressionError;
pub use rule::{
    ActionCall, Branch, Column, ComparisonOperator, Condition, Group, Literal, LiteralValue, Rule, Span,
};

use std::sync::Arc;

/// A policy expression that was parsed and checked.
#[derive(Clone, Debug, PartialEq)]
pub struct Expression {
    source: Arc<str>,
    rule: Rule,
}

impl Expression {
    /// Parses and checks a source text.
    ///
    /// Whether its columns, groups and actions exist is not known here.
    ///
    /// ```
    /// # use iceberg_read_restrictions::expression::{Expression, Rule};
    /// let expression = Expression::parse(r#"filter := col("region") == "US" and col("amount") > 10"#)?;
    /// assert!(matches!(expression.rule(), Rule::Filter { .. }));
    /// # Ok::<_, iceberg_read_restrictions::expression::ExpressionError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// The source is not of the language, a form stands where it must not, or a limit is exceeded. No source,
    /// however deeply nested, overflows the stack.
    pub fn parse(source: &str) -> Result<Self, ExpressionError> {
        let text = Arc::from(source);
        match read(source) {
            Ok(rule) => Ok(Self { source: text, rule }),
            Err(refusal) => Err(refusal.of(text)),
        }
    }

    /// The source text.
    pub fn source(&self) -> &Arc<str> {
        &self.source
    }

    /// What it says.
    pub fn rule(&self) -> &Rule {
        &self.rule
    }
}

/// From the text to its tokens, to the tree as written, to the checked rule.
fn read(source: &str) -> Result<Rule, Refusal> {
    limits::source(source)?;
    let tokens = token::tokens(source);
    let program = parse::program(&tokens, source.len())?;
    limits::tokens(&tokens)?;
    limits::program(&program)?;
    check::rule(program)
}
