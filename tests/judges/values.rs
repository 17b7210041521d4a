//! Values in the JSON of the table specification, and NaN and the infinities, which JSON lacks, as strings.

use iceberg_read_restrictions::{
    restriction::Value,
    table::{PrimitiveType, Type},
};
use jiff::{
    SignedDuration,
    civil::{Date, DateTime, Time, date},
};
use serde_json::{Number, Value as Json, json};

const MICROS_A_DAY: i64 = 86_400_000_000;

/// Reads a value of a type, at any depth.
pub fn value(json: &Json, r#type: &Type) -> Value {
    match r#type {
        _ if json.is_null() => Value::Null,
        Type::Primitive(primitive) => single_value(json, primitive),
        Type::Struct(fields) => Value::Struct(
            fields.iter().map(|field| value(&json[field.id.to_string()], &field.r#type)).collect(),
        ),
        Type::List(element) => {
            let elements = json.as_array().expect("a list").iter();
            Value::List(elements.map(|json| value(json, &element.r#type)).collect())
        }
        Type::Map(key_field, value_field) => {
            let side = |name: &str| json[name].as_array().expect("keys and values").iter();
            let entry = |(k, v)| (value(k, &key_field.r#type), value(v, &value_field.r#type));
            Value::Map(side("keys").zip(side("values")).map(entry).collect())
        }
    }
}

/// Reads a value of a primitive type.
pub fn single_value(json: &Json, data_type: &PrimitiveType) -> Value {
    use PrimitiveType as P;
    let text = || json.as_str().unwrap_or_else(|| panic!("{json} is not text"));
    let integer = || json.as_i64().unwrap_or_else(|| panic!("{json} is not an integer"));
    match data_type {
        P::Boolean => Value::Boolean(json.as_bool().expect("a Boolean")),
        P::Int => Value::Int(integer().try_into().expect("an int")),
        P::Long => Value::Long(integer()),
        P::Float => Value::Float(double(json) as f32),
        P::Double => Value::Double(double(json)),
        &P::Decimal { precision, scale } => {
            let unscaled = text().replace('.', "").parse().expect("digits");
            Value::Decimal { unscaled, precision, scale }
        }
        P::Date => Value::Date(days(text())),
        P::Time => Value::Time(since_midnight(text(), 1_000)),
        P::Timestamp => Value::Timestamp(since_epoch(text(), 1_000)),
        P::Timestamptz => Value::Timestamptz(since_epoch(utc(text()), 1_000)),
        P::TimestampNs => Value::TimestampNs(since_epoch(text(), 1)),
        P::TimestamptzNs => Value::TimestamptzNs(since_epoch(utc(text()), 1)),
        P::String => Value::String(text().into()),
        P::Uuid => Value::Uuid(bytes(&text().replace('-', "")).try_into().expect("16 bytes")),
        P::Fixed(_) => Value::Fixed(bytes(text())),
        P::Binary => Value::Binary(bytes(text())),
        // The empty object as Parquet encodes it. Other variants need only be different.
        P::Variant if *json == json!({}) => Value::Variant { metadata: vec![1, 0, 0], value: vec![2, 0, 0] },
        P::Variant => Value::Variant { metadata: vec![1, 0, 0], value: json.to_string().into_bytes() },
        P::Unknown | P::Geometry | P::Geography | P::Unrecognized(_) => {
            panic!("the kit has no value of {data_type}")
        }
    }
}

fn double(json: &Json) -> f64 {
    match json.as_str() {
        Some("NaN") => f64::NAN,
        Some("Infinity") => f64::INFINITY,
        Some("-Infinity") => f64::NEG_INFINITY,
        _ => json.as_f64().unwrap_or_else(|| panic!("{json} is not a number")),
    }
}

fn days(text: &str) -> i32 {
    let day: Date = text.parse().expect("a date");
    (day.duration_since(date(1970, 1, 1)).as_hours() / 24).try_into().expect("days")
}

fn since_midnight(text: &str, nanos_a_unit: i64) -> i64 {
    let time: Time = text.parse().expect("a time");
    let nanos = time.duration_since(Time::midnight()).as_nanos();
    i64::try_from(nanos).expect("a day's nanoseconds") / nanos_a_unit
}

fn since_epoch(text: &str, nanos_a_unit: i64) -> i64 {
    let (day, clock) = text.split_once('T').expect("a timestamp");
    let units_a_day = MICROS_A_DAY * 1_000 / nanos_a_unit;
    let units =
        i128::from(days(day)) * i128::from(units_a_day) + i128::from(since_midnight(clock, nanos_a_unit));
    units.try_into().expect("a timestamp in range")
}

fn utc(text: &str) -> &str {
    text.strip_suffix("+00:00").expect("a zone of +00:00")
}

fn bytes(hex: &str) -> Vec<u8> {
    (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(&hex[at..at + 2], 16).expect("hex")).collect()
}

/// Writes a value of a type that has literals.
pub fn to_json(value: &Value) -> Json {
    match value {
        Value::Null => Json::Null,
        Value::Boolean(value) => json!(value),
        Value::Int(value) => json!(value),
        Value::Long(value) => json!(value),
        Value::Float(value) => float(*value, value.to_string()),
        Value::Double(value) => float(*value, value.to_string()),
        &Value::Decimal { unscaled, scale, .. } => {
            let digits = format!("{:0>width$}", unscaled.unsigned_abs(), width = usize::from(scale) + 1);
            let (whole, fraction) = digits.split_at(digits.len() - usize::from(scale));
            let sign = if unscaled < 0 { "-" } else { "" };
            json!(if scale == 0 { format!("{sign}{whole}") } else { format!("{sign}{whole}.{fraction}") })
        }
        Value::Date(days) => json!(format!("{}", civil(i64::from(*days) * MICROS_A_DAY).date())),
        Value::Time(micros) => json!(format!("{:.6}", civil(*micros).time())),
        Value::Timestamp(micros) => json!(format!("{:.6}", civil(*micros))),
        Value::String(text) => json!(text),
        other => panic!("no generated column holds {other:?}"),
    }
}

/// The shortest text of a float, so that a float stays the number that people wrote.
fn float(value: impl Into<f64>, shortest: String) -> Json {
    let value = value.into();
    if value.is_nan() {
        json!("NaN")
    } else if value.is_infinite() {
        json!(if value > 0.0 { "Infinity" } else { "-Infinity" })
    } else {
        let number: f64 = shortest.parse().expect("a float");
        Json::Number(Number::from_f64(number).expect("a finite number"))
    }
}

fn civil(micros: i64) -> DateTime {
    let epoch = date(1970, 1, 1).to_datetime(Time::midnight());
    epoch.checked_add(SignedDuration::from_micros(micros)).expect("a year of four digits")
}
