//! Rows as Arrow arrays of the types that iceberg-rust reads them in.

use std::sync::Arc;

use arrow_array::{
    Array, ArrayRef, ArrowPrimitiveType, BooleanArray, FixedSizeBinaryArray, LargeBinaryArray, ListArray,
    MapArray, PrimitiveArray, RecordBatch, StringArray, StructArray,
    types::{
        Date32Type, Decimal128Type, Float32Type, Float64Type, Int32Type, Int64Type, Time64MicrosecondType,
        TimestampMicrosecondType, TimestampNanosecondType,
    },
};
use arrow_buffer::{NullBuffer, OffsetBuffer};
use arrow_schema::{DataType, TimeUnit};
use iceberg::{arrow::schema_to_arrow_schema, spec::Schema};
use iceberg_read_restrictions::restriction::Value;

pub fn batch(rows: &[Vec<Value>], schema: &Schema) -> RecordBatch {
    let arrow_schema = Arc::new(schema_to_arrow_schema(schema).expect("types that Arrow has"));
    let column = |(index, field): (usize, &Arc<arrow_schema::Field>)| {
        array(&rows.iter().map(|row| &row[index]).collect::<Vec<_>>(), field.data_type())
    };
    let columns = arrow_schema.fields().iter().enumerate().map(column).collect();
    RecordBatch::try_new(arrow_schema, columns).expect("rows of the schema")
}

fn array(values: &[&Value], data_type: &DataType) -> ArrayRef {
    fn primitive<T: ArrowPrimitiveType>(
        values: &[&Value],
        data_type: &DataType,
        native: fn(&Value) -> Option<T::Native>,
    ) -> ArrayRef {
        let natives = values.iter().map(|value| {
            let native = native(value);
            assert!(native.is_some() || **value == Value::Null, "{value:?} is not of {data_type}");
            native
        });
        Arc::new(natives.collect::<PrimitiveArray<T>>().with_data_type(data_type.clone()))
    }
    /// `natives!(Int32Type, Int)`: the values of one variant.
    macro_rules! natives {
        ($arrow:ty, $($pattern:pat => $native:expr),+) => {
            primitive::<$arrow>(values, data_type, |value| match value { $($pattern => Some($native),)+ _ => None })
        };
    }

    let bytes = || {
        values.iter().map(|value| match value {
            Value::Null => None,
            Value::Binary(bytes) | Value::Fixed(bytes) => Some(bytes.as_slice()),
            Value::Uuid(bytes) => Some(bytes.as_slice()),
            other => panic!("{other:?} is not of {data_type}"),
        })
    };
    match data_type {
        DataType::Boolean => Arc::new(
            values
                .iter()
                .map(|value| match value {
                    Value::Null => None,
                    Value::Boolean(value) => Some(*value),
                    other => panic!("{other:?} is not of {data_type}"),
                })
                .collect::<BooleanArray>(),
        ),
        DataType::Int32 => natives!(Int32Type, Value::Int(v) => *v),
        DataType::Int64 => natives!(Int64Type, Value::Long(v) => *v),
        DataType::Float32 => natives!(Float32Type, Value::Float(v) => *v),
        DataType::Float64 => natives!(Float64Type, Value::Double(v) => *v),
        DataType::Decimal128(..) => natives!(Decimal128Type, Value::Decimal { unscaled, .. } => *unscaled),
        DataType::Date32 => natives!(Date32Type, Value::Date(v) => *v),
        DataType::Time64(TimeUnit::Microsecond) => natives!(Time64MicrosecondType, Value::Time(v) => *v),
        DataType::Timestamp(TimeUnit::Microsecond, _) => {
            natives!(TimestampMicrosecondType, Value::Timestamp(v) => *v, Value::Timestamptz(v) => *v)
        }
        DataType::Timestamp(TimeUnit::Nanosecond, _) => {
            natives!(TimestampNanosecondType, Value::TimestampNs(v) => *v, Value::TimestamptzNs(v) => *v)
        }
        DataType::Utf8 => Arc::new(
            values
                .iter()
                .map(|value| match value {
                    Value::Null => None,
                    Value::String(text) => Some(text.as_str()),
                    other => panic!("{other:?} is not of {data_type}"),
                })
                .collect::<StringArray>(),
        ),
        DataType::LargeBinary => Arc::new(bytes().collect::<LargeBinaryArray>()),
        DataType::FixedSizeBinary(width) => {
            let array = FixedSizeBinaryArray::try_from_sparse_iter_with_size(bytes(), *width);
            Arc::new(array.expect("values of the width"))
        }
        DataType::Struct(fields) => {
            let children = |value: &&Value| match value {
                Value::Struct(children) => Some(children.clone()),
                Value::Null => None,
                other => panic!("{other:?} is no struct"),
            };
            let structs: Vec<_> = values.iter().map(children).collect();
            let column = |(index, field): (usize, &Arc<arrow_schema::Field>)| {
                // Below a null struct something has to stand even for a required field.
                let values: Vec<_> = structs
                    .iter()
                    .map(|children| match children {
                        Some(children) => children[index].clone(),
                        None => zero(field.data_type()),
                    })
                    .collect();
                array(&values.iter().collect::<Vec<_>>(), field.data_type())
            };
            let columns = fields.iter().enumerate().map(column).collect();
            Arc::new(StructArray::new(fields.clone(), columns, nulls(values)))
        }
        DataType::List(element) => {
            let lists = values.iter().map(|value| match value {
                Value::List(elements) => elements.iter().collect(),
                Value::Null => Vec::new(),
                other => panic!("{other:?} is no list"),
            });
            let lists: Vec<Vec<&Value>> = lists.collect();
            let elements = array(&lists.concat(), element.data_type());
            let offsets = OffsetBuffer::from_lengths(lists.iter().map(Vec::len));
            Arc::new(ListArray::new(element.clone(), offsets, elements, nulls(values)))
        }
        DataType::Map(entry, sorted) => {
            let maps = values.iter().map(|value| match value {
                Value::Map(entries) => {
                    entries.iter().map(|(k, v)| Value::Struct(vec![k.clone(), v.clone()])).collect()
                }
                Value::Null => Vec::new(),
                other => panic!("{other:?} is no map"),
            });
            let maps: Vec<Vec<Value>> = maps.collect();
            let entries: Vec<_> = maps.iter().flatten().collect();
            let entries = array(&entries, entry.data_type());
            let entries =
                entries.as_any().downcast_ref::<StructArray>().expect("entries are structs").clone();
            let offsets = OffsetBuffer::from_lengths(maps.iter().map(Vec::len));
            Arc::new(MapArray::new(entry.clone(), offsets, entries, nulls(values), *sorted))
        }
        other => panic!("no values of {other} here"),
    }
}

fn nulls(values: &[&Value]) -> Option<NullBuffer> {
    Some(values.iter().map(|value| **value != Value::Null).collect::<Vec<_>>().into())
}

fn zero(data_type: &DataType) -> Value {
    match data_type {
        DataType::Int32 => Value::Int(0),
        DataType::Struct(fields) => {
            Value::Struct(fields.iter().map(|field| zero(field.data_type())).collect())
        }
        _ => Value::Null,
    }
}
