//! Which mask shows more than which.
//!
//! A mask shows no more than another when its result can be worked out from the other's: then whoever sees
//! the first could have had it from the second.

use iceberg_read_restrictions::restriction::Action;

use super::visible::Effect;

/// What it does to a column when one mask takes the place of another; `None` is no mask.
pub fn effect(before: Option<Action>, after: Option<Action>) -> Effect {
    match (follows_from(after, before), follows_from(before, after)) {
        (true, true) => Effect::Same,
        (true, false) => Effect::Narrows,
        (false, true) => Effect::Widens,
        (false, false) => Effect::MayWiden,
    }
}

/// Whether what `mask` shows can be worked out from what `other` shows, for every value.
fn follows_from(mask: Option<Action>, other: Option<Action>) -> bool {
    use Action::{
        MaskAlphanum, MaskToFixedValue, ReplaceWithNull, ShowFirst4, ShowLast4, TruncateToMonth,
        TruncateToYear,
    };
    match (mask, other) {
        (mask, other) if mask == other => true,
        // A value that is always the same says nothing.
        (Some(ReplaceWithNull | MaskToFixedValue), _) => true,
        (_, Some(ReplaceWithNull | MaskToFixedValue)) => false,
        (Some(_), None) => true,
        (None, Some(_)) => false,
        // January of the year of a first of a month; the masked form of what is left in clear.
        (Some(TruncateToYear), Some(TruncateToMonth)) => true,
        (Some(MaskAlphanum), Some(ShowFirst4 | ShowLast4)) => true,
        // The two ends of a text, a hash, a hash with a salt: each tells something that the other does not.
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use iceberg_read_restrictions::restriction::Action::*;

    use super::*;

    #[test]
    fn taking_a_mask_away_widens_and_putting_one_on_narrows() {
        for action in Action::ALL {
            assert_eq!(effect(Some(action), None), Effect::Widens, "{action}");
            assert_eq!(effect(None, Some(action)), Effect::Narrows, "{action}");
            assert_eq!(effect(Some(action), Some(action)), Effect::Same, "{action}");
        }
    }

    #[test]
    fn weaker_masks_widen() {
        for (strong, weak) in [
            (ReplaceWithNull, ShowLast4),
            (MaskToFixedValue, Sha256Global),
            (TruncateToYear, TruncateToMonth),
            (MaskAlphanum, ShowFirst4),
            (MaskAlphanum, ShowLast4),
        ] {
            assert_eq!(effect(Some(strong), Some(weak)), Effect::Widens, "{strong} -> {weak}");
            assert_eq!(effect(Some(weak), Some(strong)), Effect::Narrows, "{weak} -> {strong}");
        }
        assert_eq!(effect(Some(ReplaceWithNull), Some(MaskToFixedValue)), Effect::Same);
    }

    #[test]
    fn masks_that_show_different_things_may_widen() {
        for (before, after) in
            [(ShowFirst4, ShowLast4), (Sha256Global, MaskAlphanum), (Sha256Global, Sha256QueryLocal)]
        {
            assert_eq!(effect(Some(before), Some(after)), Effect::MayWiden, "{before} -> {after}");
        }
    }
}
