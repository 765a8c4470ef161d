//! Pages as Arrow tables: as a file, and as record batches for the Python package.
//!
//! The file has the streaming format of Arrow IPC, which can also be read from a pipe. Rows are collected into batches of
//! limited size, which bounds the memory.

use std::io::Write;
use std::mem;
use std::sync::Arc;

use arrow_array::{
    ArrayRef, BooleanArray, Date32Array, Float64Array, Int64Array, ListArray, MapArray, RecordBatch, StringArray,
    StructArray, TimestampMillisecondArray,
};
use arrow_buffer::{NullBuffer, OffsetBuffer};
use arrow_ipc::writer::StreamWriter;
use arrow_schema::{ArrowError, DataType, Field, FieldRef, Fields, Schema, SchemaRef, TimeUnit};
use serde_json::{Map, Value};

use super::columns::{CellKind, Column, civil_date, days_since_epoch, timestamp_millis};
use super::data::PageTable;
use crate::records::ReadError;

/// Maximum number of rows in a batch.
const MAX_BATCH_ROWS: usize = 8_192;
/// A batch ends with the row that makes it larger than this.
const MAX_BATCH_BYTES: usize = 16 << 20;

/// Writes the rows of a table, in the order in which pages were finished.
pub fn write_arrow(mut table: PageTable<'_>, out: &mut (dyn Write + Send)) -> Result<(), ReadError> {
    let mut file = StreamWriter::try_new(&mut *out, &schema(&table.columns)).map_err(output_error)?;
    batches(&mut table, |batch| file.write(&batch.map_err(output_error)?).map_err(output_error))?;
    file.finish().map_err(output_error)?;
    drop(file);
    Ok(out.flush()?)
}

/// The schema of a table with these columns.
pub fn schema(columns: &[Column]) -> SchemaRef {
    Arc::new(Schema::new(columns.iter().map(|column| field(&column.name, &column.kind)).collect::<Vec<_>>()))
}

/// Calls `each` with the rows of a table, in batches.
pub fn batches(
    table: &mut PageTable<'_>,
    mut each: impl FnMut(Result<RecordBatch, ArrowError>) -> Result<(), ReadError>,
) -> Result<(), ReadError> {
    let schema = schema(&table.columns);
    let kinds: Vec<CellKind> = table.columns.iter().map(|column| column.kind.clone()).collect();
    let (mut rows, mut bytes) = (Vec::new(), 0);
    table.rows(|values| {
        bytes += values.iter().flatten().map(size_of_value).sum::<usize>();
        rows.push(values.to_vec());
        if rows.len() >= MAX_BATCH_ROWS || bytes >= MAX_BATCH_BYTES {
            bytes = 0;
            each(batch(&schema, &kinds, &mem::take(&mut rows)))?;
        }
        Ok(())
    })?;
    if rows.is_empty() { Ok(()) } else { each(batch(&schema, &kinds, &rows)) }
}

fn batch(schema: &SchemaRef, kinds: &[CellKind], rows: &[Vec<Option<Value>>]) -> Result<RecordBatch, ArrowError> {
    let column = |(index, kind): (usize, &CellKind)| {
        // An absent flag of a record is false.
        let absent = (*kind == CellKind::Flag).then_some(&Value::Bool(false));
        let values: Vec<Option<&Value>> =
            rows.iter().map(|row| row.get(index).and_then(Option::as_ref).or(absent)).collect();
        array(kind, &values)
    };
    RecordBatch::try_new(Arc::clone(schema), kinds.iter().enumerate().map(column).collect())
}

/// An estimate of the memory of a value.
fn size_of_value(value: &Value) -> usize {
    size_of::<Value>()
        + match value {
            Value::Null | Value::Bool(_) | Value::Number(_) => 0,
            Value::String(text) => text.len(),
            Value::Array(values) => values.iter().map(size_of_value).sum(),
            Value::Object(fields) => fields.iter().map(|(name, value)| name.len() + size_of_value(value)).sum(),
        }
}

/// Converts an error. The I/O errors of the output are inside of errors of the Arrow library.
fn output_error(error: ArrowError) -> ReadError {
    ReadError::Output(match error {
        ArrowError::IoError(_, error) => error,
        other => std::io::Error::other(other),
    })
}

/// The field of a column. Every value may be absent.
fn field(name: &str, kind: &CellKind) -> Field {
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
fn array(kind: &CellKind, values: &[Option<&Value>]) -> ArrayRef {
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
