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
