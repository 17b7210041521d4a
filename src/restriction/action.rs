/// What a reader must do to the values of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Action {
    /// `mask-alphanum`
    MaskAlphanum,
    /// `mask-to-fixed-value`
    MaskToFixedValue,
    /// `replace-with-null`
    ReplaceWithNull,
    /// `show-first-4`
    ShowFirst4,
    /// `show-last-4`
    ShowLast4,
    /// `truncate-to-year`
    TruncateToYear,
    /// `truncate-to-month`
    TruncateToMonth,
    /// `sha-256-global`
    Sha256Global,
    /// `sha-256-query-local`
    Sha256QueryLocal,
}

/// An action on a top-level field.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Projection {
    /// The field id.
    pub field_id: i32,
    /// The action.
    pub action: Action,
}
