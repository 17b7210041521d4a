//! The productions of the language as they stand on its page, one function each, over whole words.

type Rest<'w> = Option<&'w [&'static str]>;

/// Whether the words are a filter rule.
pub fn accepts(words: &[&'static str]) -> bool {
    filter_rule(words) == Some(&[])
}

fn filter_rule<'w>(words: &'w [&'static str]) -> Rest<'w> {
    let rest = expr(word(words, "filter :=")?)?;
    match word(rest, "if") {
        None => Some(rest),
        Some(rest) => filter_else(expr(rest)?),
    }
}

/// `filterElse* filterFallback`
fn filter_else<'w>(words: &'w [&'static str]) -> Rest<'w> {
    let rest = expr(word(words, "else :=")?)?;
    match word(rest, "if") {
        None => Some(rest),
        Some(rest) => filter_else(expr(rest)?),
    }
}

fn expr<'w>(words: &'w [&'static str]) -> Rest<'w> {
    let rest = and_expr(words)?;
    word(rest, "or").map_or(Some(rest), expr)
}

fn and_expr<'w>(words: &'w [&'static str]) -> Rest<'w> {
    let rest = not_expr(words)?;
    word(rest, "and").map_or(Some(rest), and_expr)
}

fn not_expr<'w>(words: &'w [&'static str]) -> Rest<'w> {
    match word(words, "not") {
        Some(rest) => not_expr(rest),
        None => compare_expr(words),
    }
}

fn compare_expr<'w>(words: &'w [&'static str]) -> Rest<'w> {
    let rest = primary(words)?;
    word(rest, "==").or_else(|| word(rest, "in")).map_or(Some(rest), primary)
}

fn primary<'w>(words: &'w [&'static str]) -> Rest<'w> {
    match words.split_first()? {
        (&"(", rest) => word(expr(rest)?, ")"),
        (&("true" | "false" | "1" | "[1]" | "col(\"a\")" | "is_group_member(\"g\")"), rest) => Some(rest),
        _ => None,
    }
}

fn word<'w>(words: &'w [&'static str], wanted: &str) -> Rest<'w> {
    words.split_first().filter(|(first, _)| **first == wanted).map(|(_, rest)| rest)
}
