/// `"; did you mean `x`?"` when one of the candidates differs from `name` by case or by one letter only,
/// else nothing.
pub(super) fn did_you_mean<'a>(name: &str, candidates: impl Iterator<Item = &'a str> + Clone) -> String {
    let folded = name.to_lowercase();
    candidates
        .clone()
        .find(|candidate| candidate.to_lowercase() == folded)
        .or_else(|| candidates.clone().find(|candidate| differs_by_one_edit(name, candidate)))
        .map_or_else(String::new, |candidate| format!("; did you mean `{candidate}`?"))
}

/// One letter put in, left out, replaced, or swapped with its neighbour.
fn differs_by_one_edit(a: &str, b: &str) -> bool {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    if a.len() < 2 || b.len() < 2 {
        return false;
    }
    let prefix = a.iter().zip(&b).take_while(|(x, y)| x == y).count();
    let (a, b) = (&a[prefix..], &b[prefix..]);
    let (Some(a_rest), Some(b_rest)) = (a.get(1..), b.get(1..)) else {
        return a.len().abs_diff(b.len()) == 1;
    };
    a_rest == b_rest
        || a_rest == b
        || a == b_rest
        || (a_rest.get(1..) == b_rest.get(1..) && a.first() == b_rest.first() && b.first() == a_rest.first())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn suggests_what_differs_by_case_or_one_letter() {
        let columns = ["region", "owner", "phone"];
        for (name, suggestion) in [
            ("Region", "; did you mean `region`?"),
            ("regon", "; did you mean `region`?"),
            ("reggion", "; did you mean `region`?"),
            ("regian", "; did you mean `region`?"),
            ("regoin", "; did you mean `region`?"),
            ("regions", "; did you mean `region`?"),
            ("phon", "; did you mean `phone`?"),
            ("rgn", ""),
            ("x", ""),
            ("", ""),
        ] {
            assert_eq!(did_you_mean(name, columns.into_iter()), suggestion, "{name}");
        }
    }
}
