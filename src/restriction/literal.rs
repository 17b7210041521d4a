/// A literal of the type of the field that it is compared with.
#[derive(Clone, Debug, PartialEq)]
pub enum Literal {
    /// `boolean`
    Boolean(bool),
    /// `int`
    Int(i32),
    /// `long`
    Long(i64),
    /// `float`: finite, never `-0.0`
    Float(f32),
    /// `double`: finite, never `-0.0`
    Double(f64),
    /// `decimal(precision, scale)`
    Decimal {
        /// The value times ten to the power of `scale`.
        unscaled: i128,
        /// Digits in all.
        precision: u8,
        /// Digits of the fraction.
        scale: u8,
    },
    /// `date`: days since 1970-01-01
    Date(i32),
    /// `time`: microseconds since midnight
    Time(i64),
    /// `timestamp`: microseconds since 1970-01-01T00:00:00
    Timestamp(i64),
    /// `string`
    String(Box<str>),
}
