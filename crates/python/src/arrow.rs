//! Rows of a table as Arrow arrays.

use std::sync::Arc;

use argiope_cli::stored::{CellKind, civil_date, days_since_epoch, timestamp_millis};
use arrow_array::{
    ArrayRef, BooleanArray, Date32Array, Float64Array, Int64Array, ListArray, MapArray, StringArray, StructArray,
    TimestampMillisecondArray,
};
use arrow_buffer::{NullBuffer, OffsetBuffer};
use arrow_schema::{DataType, Field, FieldRef, Fields, TimeUnit};
use serde_json::{Map, Value};

/// The field of a column. Every value may be absent.
pub fn field(name: &str, kind: &CellKind) -> Field {
    Field::new(name, data_type(kind), true)
}

fn data_type(kind: &CellKind) -> DataType {
    match kind {
        CellKind::Text | CellKind::Json => DataType::Utf8,
        CellKind::Integer => DataType::Int64,
        CellKind::Float => DataType::Float64,
        CellKind::Flag => DataType::Boolean,
        CellKind::Date => DataType::Date32,
        CellKind::Time => DataType::Timestamp(TimeUnit::Millisecond, Some("UTC".into())),
        CellKind::List(item) => DataType::List(item_field(item)),
        CellKind::Map => DataType::Map(entries_field(), false),
        CellKind::Struct(fields) => DataType::Struct(struct_fields(fields)),
    }
}

fn item_field(item: &CellKind) -> FieldRef {
    Arc::new(field("item", item))
}

fn entry_fields() -> Fields {
    vec![Field::new("key", DataType::Utf8, false), field("value", &CellKind::Text)].into()
}

fn entries_field() -> FieldRef {
    Arc::new(Field::new("entries", DataType::Struct(entry_fields()), false))
}

fn struct_fields(fields: &[(String, CellKind)]) -> Fields {
    fields.iter().map(|(name, kind)| field(name, kind)).collect()
}

/// The values of a column. A value of another kind is absent.
pub fn array(kind: &CellKind, values: &[Option<&Value>]) -> ArrayRef {
    let present = || values.iter().map(|value| value.filter(|value| !value.is_null()));
    match kind {
        CellKind::Text | CellKind::Json => Arc::new(present().map(|value| value.map(text)).collect::<StringArray>()),
        CellKind::Integer => Arc::new(present().map(|value| value?.as_i64()).collect::<Int64Array>()),
        CellKind::Float => Arc::new(present().map(|value| value?.as_f64()).collect::<Float64Array>()),
        CellKind::Flag => Arc::new(present().map(|value| value?.as_bool()).collect::<BooleanArray>()),
        CellKind::Date => {
            let days = present().map(|value| days_since_epoch(civil_date(value?.as_str()?)?));
            Arc::new(days.collect::<Date32Array>())
        }
        CellKind::Time => {
            let times = present().map(|value| timestamp_millis(value?.as_str()?));
            Arc::new(times.collect::<TimestampMillisecondArray>().with_timezone("UTC"))
        }
        CellKind::List(item) => lists(item, &present().map(|value| value?.as_array()).collect::<Vec<_>>()),
        CellKind::Map => maps(&present().map(|value| value?.as_object()).collect::<Vec<_>>()),
        CellKind::Struct(fields) => structs(fields, &present().map(|value| value?.as_object()).collect::<Vec<_>>()),
    }
}

fn text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// Which values are present.
fn nulls<T>(values: &[Option<T>]) -> NullBuffer {
    values.iter().map(Option::is_some).collect()
}

fn lists(item: &CellKind, lists: &[Option<&Vec<Value>>]) -> ArrayRef {
    let offsets = OffsetBuffer::from_lengths(lists.iter().map(|list| list.map_or(0, Vec::len)));
    let items: Vec<Option<&Value>> = lists.iter().copied().flatten().flatten().map(Some).collect();
    Arc::new(ListArray::new(item_field(item), offsets, array(item, &items), Some(nulls(lists))))
}

fn maps(maps: &[Option<&Map<String, Value>>]) -> ArrayRef {
    let offsets = OffsetBuffer::from_lengths(maps.iter().map(|map| map.map_or(0, Map::len)));
    let entries = || maps.iter().copied().flatten().flatten();
    let keys: ArrayRef = Arc::new(entries().map(|(key, _)| Some(key.as_str())).collect::<StringArray>());
    let values: Vec<Option<&Value>> = entries().map(|(_, value)| Some(value)).collect();
    let entries = StructArray::new(entry_fields(), vec![keys, array(&CellKind::Text, &values)], None);
    Arc::new(MapArray::new(entries_field(), offsets, entries, Some(nulls(maps)), false))
}

fn structs(fields: &[(String, CellKind)], objects: &[Option<&Map<String, Value>>]) -> ArrayRef {
    let part = |(name, kind): &(String, CellKind)| {
        let values: Vec<Option<&Value>> =
            objects.iter().map(|object| object.and_then(|object| object.get(name))).collect();
        array(kind, &values)
    };
    let arrays = fields.iter().map(part).collect();
    Arc::new(StructArray::new(struct_fields(fields), arrays, Some(nulls(objects))))
}
