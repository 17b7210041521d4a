//! The nine actions over Arrow arrays, and the way down to fields inside structs, lists and maps.

use std::sync::Arc;

use arrow_array::{
    Array, ArrayRef, BooleanArray, FixedSizeBinaryArray, LargeBinaryArray, ListArray, MapArray,
    PrimitiveArray, RecordBatch, StringArray, StructArray,
    cast::AsArray,
    new_null_array,
    types::{
        ArrowPrimitiveType, Date32Type, Decimal128Type, Float32Type, Float64Type, Int32Type, Int64Type,
        Time64MicrosecondType, TimestampMicrosecondType, TimestampNanosecondType,
    },
};
use arrow_buffer::OffsetBuffer;
use arrow_schema::{ArrowError, DataType, TimeUnit};
use iceberg::spec::{NestedFieldRef, Schema, Type};
use sha2::{Digest, Sha256};

use crate::{
    Refusal, column,
    literal::{date_from_days, days_since_epoch},
    restrictions::{Action, Restrictions},
};

/// Applies the actions to every column of a batch. The salt is one query's own.
///
/// # Errors
///
/// When an action cannot be applied: the type is not one it is defined for, or the result is out of the type's range.
pub fn apply(
    restrictions: &Restrictions,
    schema: &Schema,
    batch: &RecordBatch,
    salt: &[u8],
) -> Result<RecordBatch, Refusal> {
    let masks = Masks { restrictions, salt };
    let columns = batch.schema_ref().fields().iter().map(|arrow_field| {
        let id = crate::field_id(arrow_field)?;
        let field = schema.as_struct().field_by_id(id);
        let field = field.ok_or_else(|| Refusal::new(format!("field {id} is not in the schema")))?;
        masks.field(field, column(batch, id)?)
    });
    let columns = columns.collect::<Result<Vec<_>, _>>()?;
    Ok(RecordBatch::try_new(batch.schema(), columns)?)
}

struct Masks<'a> {
    restrictions: &'a Restrictions,
    salt: &'a [u8],
}

impl Masks<'_> {
    /// The values of a field with its own action, or with those of the fields inside it.
    fn field(&self, field: &NestedFieldRef, values: &ArrayRef) -> Result<ArrayRef, Refusal> {
        match self.restrictions.action(field.id) {
            Some(action) => masked(action, values, self.salt),
            None => self.inside(&field.field_type, values),
        }
    }

    fn inside(&self, r#type: &Type, values: &ArrayRef) -> Result<ArrayRef, Refusal> {
        let mismatch =
            || Refusal::new(format!("values of {} where the table has {type}", values.data_type()));
        match r#type {
            Type::Primitive(_) => Ok(values.clone()),
            Type::Struct(fields) => {
                let array = values.as_struct_opt().ok_or_else(mismatch)?;
                let columns = fields.fields().iter().zip(array.columns());
                let columns =
                    columns.map(|(field, column)| self.field(field, column)).collect::<Result<_, _>>()?;
                Ok(Arc::new(StructArray::try_new(array.fields().clone(), columns, array.nulls().cloned())?))
            }
            Type::List(list) => {
                let array = values.as_list_opt::<i32>().ok_or_else(mismatch)?;
                let DataType::List(element) = array.data_type() else { return Err(mismatch()) };
                let elements = self.field(&list.element_field, array.values())?;
                let (offsets, nulls) = (array.offsets().clone(), array.nulls().cloned());
                Ok(Arc::new(ListArray::try_new(element.clone(), offsets, elements, nulls)?))
            }
            Type::Map(map) => {
                let array = values.as_map_opt().ok_or_else(mismatch)?;
                let DataType::Map(entry, sorted) = array.data_type() else { return Err(mismatch()) };
                let entries = array.entries();
                let columns = vec![array.keys().clone(), self.field(&map.value_field, array.values())?];
                let entries =
                    StructArray::try_new(entries.fields().clone(), columns, entries.nulls().cloned())?;
                let (offsets, nulls) = (array.offsets().clone(), array.nulls().cloned());
                Ok(Arc::new(MapArray::try_new(entry.clone(), offsets, entries, nulls, *sorted)?))
            }
        }
    }
}

/// The values of a field after its action.
fn masked(action: Action, values: &ArrayRef, salt: &[u8]) -> Result<ArrayRef, Refusal> {
    match action {
        Action::ReplaceWithNull => Ok(new_null_array(values.data_type(), values.len())),
        Action::MaskToFixedValue => Ok(fixed_value(values.data_type(), values.len())?),
        Action::MaskAlphanum => map_text(values, mask_alphanum),
        Action::ShowFirst4 => map_text(values, show_first_4),
        Action::ShowLast4 => map_text(values, show_last_4),
        Action::TruncateToYear => truncated(values, Precision::Year),
        Action::TruncateToMonth => truncated(values, Precision::Month),
        Action::Sha256Global => hashed(values, &[]),
        Action::Sha256QueryLocal => hashed(values, salt),
    }
}

fn unfit(values: &ArrayRef) -> Refusal {
    Refusal::new(format!("the action does not fit values of {}", values.data_type()))
}

/// An array of nothing but the type's fixed value, nulls replaced as well.
fn fixed_value(data_type: &DataType, rows: usize) -> Result<ArrayRef, ArrowError> {
    fn zeros<T: ArrowPrimitiveType<Native: Default>>(data_type: &DataType, rows: usize) -> ArrayRef {
        let values = vec![T::Native::default(); rows];
        Arc::new(PrimitiveArray::<T>::new(values.into(), None).with_data_type(data_type.clone()))
    }

    Ok(match data_type {
        DataType::Boolean => Arc::new(BooleanArray::from(vec![false; rows])),
        DataType::Int32 => zeros::<Int32Type>(data_type, rows),
        DataType::Int64 => zeros::<Int64Type>(data_type, rows),
        DataType::Float32 => zeros::<Float32Type>(data_type, rows),
        DataType::Float64 => zeros::<Float64Type>(data_type, rows),
        DataType::Decimal128(..) => zeros::<Decimal128Type>(data_type, rows),
        DataType::Date32 => zeros::<Date32Type>(data_type, rows),
        DataType::Time64(TimeUnit::Microsecond) => zeros::<Time64MicrosecondType>(data_type, rows),
        DataType::Timestamp(TimeUnit::Microsecond, _) => zeros::<TimestampMicrosecondType>(data_type, rows),
        DataType::Timestamp(TimeUnit::Nanosecond, _) => zeros::<TimestampNanosecondType>(data_type, rows),
        DataType::Utf8 => Arc::new(StringArray::from(vec!["XXXXXXXX"; rows])),
        DataType::LargeBinary => Arc::new(LargeBinaryArray::from(vec![&b""[..]; rows])),
        DataType::FixedSizeBinary(width) => {
            let bytes = vec![0_u8; rows * usize::try_from(*width).unwrap_or_default()];
            Arc::new(FixedSizeBinaryArray::try_new(*width, bytes.into(), None)?)
        }
        DataType::Struct(fields) => {
            let columns =
                fields.iter().map(|field| fixed_value(field.data_type(), rows)).collect::<Result<_, _>>()?;
            Arc::new(StructArray::try_new_with_length(fields.clone(), columns, None, rows)?)
        }
        DataType::List(element) => {
            let nothing = new_null_array(element.data_type(), 0);
            Arc::new(ListArray::try_new(element.clone(), OffsetBuffer::new_zeroed(rows), nothing, None)?)
        }
        DataType::Map(entry, sorted) => {
            let nothing = new_null_array(entry.data_type(), 0).as_struct().clone();
            Arc::new(MapArray::try_new(
                entry.clone(),
                OffsetBuffer::new_zeroed(rows),
                nothing,
                None,
                *sorted,
            )?)
        }
        other => return Err(ArrowError::NotYetImplemented(format!("a fixed value for {other}"))),
    })
}

fn map_text(values: &ArrayRef, f: impl Fn(&str) -> String) -> Result<ArrayRef, Refusal> {
    let texts = values.as_string_opt::<i32>().ok_or_else(|| unfit(values))?;
    Ok(Arc::new(texts.iter().map(|text| text.map(&f)).collect::<StringArray>()))
}

fn mask_alphanum(text: &str) -> String {
    text.chars().map(redacted).collect()
}

fn redacted(code_point: char) -> char {
    match code_point {
        '0'..='9' => 'n',
        '(' | ')' | ',' | '.' | '-' | '@' => code_point,
        _ => 'x',
    }
}

fn show_first_4(text: &str) -> String {
    text.chars().enumerate().map(|(index, c)| if index < 4 { c } else { redacted(c) }).collect()
}

fn show_last_4(text: &str) -> String {
    let hidden = text.chars().count().saturating_sub(4);
    text.chars().enumerate().map(|(index, c)| if index < hidden { redacted(c) } else { c }).collect()
}

#[derive(Clone, Copy)]
enum Precision {
    Year,
    Month,
}

fn truncated(values: &ArrayRef, precision: Precision) -> Result<ArrayRef, Refusal> {
    let micros = |micros| start_of_period(micros, 86_400_000_000, precision);
    let nanos = |nanos| start_of_period(nanos, 86_400_000_000_000, precision);
    match values.data_type() {
        DataType::Date32 => {
            try_map::<Date32Type>(values, |days| start_of_period(days.into(), 1, precision)?.try_into().ok())
        }
        DataType::Timestamp(TimeUnit::Microsecond, _) => try_map::<TimestampMicrosecondType>(values, micros),
        DataType::Timestamp(TimeUnit::Nanosecond, _) => try_map::<TimestampNanosecondType>(values, nanos),
        _ => Err(unfit(values)),
    }
}

fn try_map<T: ArrowPrimitiveType>(
    values: &ArrayRef,
    f: impl Fn(T::Native) -> Option<T::Native>,
) -> Result<ArrayRef, Refusal> {
    let out_of_range = || Refusal::new(format!("the result is out of the range of {}", values.data_type()));
    let mapped =
        values.as_primitive::<T>().try_unary::<_, T, _>(|value| f(value).ok_or_else(out_of_range))?;
    Ok(Arc::new(mapped.with_data_type(values.data_type().clone())))
}

/// The first moment of the year or month of a time since 1970, which is counted in units of which a day has so many.
fn start_of_period(since_epoch: i64, units_a_day: i64, precision: Precision) -> Option<i64> {
    let date = date_from_days(since_epoch.div_euclid(units_a_day))?;
    let first = match precision {
        Precision::Year => date.first_of_year(),
        Precision::Month => date.first_of_month(),
    };
    i64::from(days_since_epoch(first)).checked_mul(units_a_day)
}

fn hashed(values: &ArrayRef, salt: &[u8]) -> Result<ArrayRef, Refusal> {
    let digest =
        |bytes: &[u8]| <[u8; 32]>::from(Sha256::new().chain_update(salt).chain_update(bytes).finalize());
    match values.data_type() {
        DataType::Utf8 => map_text(values, |text| hex(&digest(text.as_bytes()))),
        DataType::LargeBinary => {
            let hashes = values.as_binary::<i64>().iter().map(|bytes| bytes.map(digest));
            Ok(Arc::new(hashes.collect::<LargeBinaryArray>()))
        }
        DataType::Int32 => Ok(Arc::new(values.as_primitive::<Int32Type>().unary::<_, Int32Type>(|value| {
            let [a, b, c, d, ..] = digest(&value.to_le_bytes());
            i32::from_le_bytes([a, b, c, d])
        }))),
        DataType::Int64 => Ok(Arc::new(values.as_primitive::<Int64Type>().unary::<_, Int64Type>(|value| {
            let [a, b, c, d, e, f, g, h, ..] = digest(&value.to_le_bytes());
            i64::from_le_bytes([a, b, c, d, e, f, g, h])
        }))),
        _ => Err(unfit(values)),
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
