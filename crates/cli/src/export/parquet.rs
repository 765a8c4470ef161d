//! Pages as Parquet, for DuckDB, Spark and similar tools.
//!
//! Rows are buffered by column and written in row groups. The size of a group is limited, which bounds the memory. Lists,
//! maps and objects become the nested types of Parquet: each leaf of such a type is a column of its own, whose values have
//! levels that say where lists begin and which part of the path to the leaf is absent (the Dremel encoding).

use std::io::Write;
use std::sync::Arc;

use parquet::basic::{Compression, LogicalType, Repetition, TimeUnit, Type as PhysicalType};
use parquet::data_type::{BoolType, ByteArray, ByteArrayType, DoubleType, Int32Type, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::types::{Type, TypePtr};
use serde_json::Value;

use super::columns::{CellKind, civil_date, days_since_epoch, timestamp_millis};
use super::data::PageTable;
use crate::records::ReadError;

/// Maximum number of rows in a row group.
const MAX_GROUP_ROWS: usize = 100_000;
/// Maximum bytes of values in a row group.
const MAX_GROUP_BYTES: usize = 64 << 20;
/// Estimated bytes of a value besides its text, with its levels.
const VALUE_BYTES: usize = 24;

/// Writes the rows of a table, in the order in which pages were finished.
pub fn write_parquet(mut table: PageTable<'_>, out: &mut (dyn Write + Send)) -> Result<(), ReadError> {
    let columns: Vec<(String, CellKind)> =
        table.columns.iter().map(|column| (column.name.clone(), column.kind.clone())).collect();
    let fields = columns.iter().map(|(name, kind)| schema(name, kind)).collect::<Result<Vec<_>, _>>();
    let schema = fields.and_then(|fields| Type::group_type_builder("page").with_fields(fields).build());
    let version = concat!("argiope ", env!("CARGO_PKG_VERSION")).to_owned();
    let properties = WriterProperties::builder().set_compression(Compression::SNAPPY).set_created_by(version).build();
    let mut file = SerializedFileWriter::new(&mut *out, Arc::new(schema.map_err(output_error)?), Arc::new(properties))
        .map_err(output_error)?;
    let mut group = RowGroup::new(&columns);
    table.rows(|values| {
        group.add(&columns, values);
        if group.rows >= MAX_GROUP_ROWS || group.bytes >= MAX_GROUP_BYTES {
            group.write(&mut file).map_err(output_error)?;
            group = RowGroup::new(&columns);
        }
        Ok(())
    })?;
    group.write(&mut file).map_err(output_error)?;
    file.close().map_err(output_error)?;
    Ok(out.flush()?)
}

/// The type of a column. Every value may be absent.
fn schema(name: &str, kind: &CellKind) -> Result<TypePtr, ParquetError> {
    let leaf = |physical, logical| {
        Type::primitive_type_builder(name, physical)
            .with_repetition(Repetition::OPTIONAL)
            .with_logical_type(logical)
            .build()
    };
    let group = |repetition, name: &str, logical, fields| {
        Type::group_type_builder(name)
            .with_repetition(repetition)
            .with_logical_type(logical)
            .with_fields(fields)
            .build()
            .map(Arc::new)
    };
    let optional = Repetition::OPTIONAL;
    let built = match kind {
        CellKind::Text | CellKind::Json => leaf(PhysicalType::BYTE_ARRAY, Some(LogicalType::String)),
        CellKind::Integer => leaf(PhysicalType::INT64, None),
        CellKind::Float => leaf(PhysicalType::DOUBLE, None),
        CellKind::Flag => leaf(PhysicalType::BOOLEAN, None),
        CellKind::Date => leaf(PhysicalType::INT32, Some(LogicalType::Date)),
        CellKind::Time => leaf(PhysicalType::INT64, Some(LogicalType::timestamp(true, TimeUnit::MILLIS))),
        CellKind::List(item) => {
            let list = group(Repetition::REPEATED, "list", None, vec![schema("element", item)?])?;
            return group(optional, name, Some(LogicalType::List), vec![list]);
        }
        CellKind::Map => {
            let key = Type::primitive_type_builder("key", PhysicalType::BYTE_ARRAY)
                .with_repetition(Repetition::REQUIRED)
                .with_logical_type(Some(LogicalType::String))
                .build()?;
            let entry = vec![Arc::new(key), schema("value", &CellKind::Text)?];
            let entries = group(Repetition::REPEATED, "key_value", None, entry)?;
            return group(optional, name, Some(LogicalType::Map), vec![entries]);
        }
        CellKind::Struct(fields) => {
            let fields = fields.iter().map(|(name, kind)| schema(name, kind)).collect::<Result<Vec<_>, _>>()?;
            return group(optional, name, None, fields);
        }
    };
    built.map(Arc::new)
}

/// Converts an error. The I/O errors of the output are inside of errors of the Parquet library.
fn output_error(error: ParquetError) -> ReadError {
    let error = match error {
        ParquetError::External(inner) => match inner.downcast::<std::io::Error>() {
            Ok(error) => *error,
            Err(other) => std::io::Error::other(other),
        },
        other => std::io::Error::other(other),
    };
    ReadError::Output(error)
}

/// The values of a leaf.
enum Values {
    Texts(Vec<ByteArray>),
    Integers(Vec<i64>),
    Doubles(Vec<f64>),
    Flags(Vec<bool>),
    Days(Vec<i32>),
}

/// A leaf of the type of a column.
struct Leaf {
    values: Values,
    /// For each value, also absent ones: how many of the optional and repeated parts of the path to the leaf are present.
    definition: Vec<i16>,
    /// For each value: which of the lists on the path goes on with it; 0 at the start of a row.
    repetition: Vec<i16>,
}

impl Leaf {
    fn of(values: Values) -> Self {
        Self { values, definition: Vec::new(), repetition: Vec::new() }
    }

    /// Adds the leaves of a kind.
    fn add_leaves(kind: &CellKind, leaves: &mut Vec<Self>) {
        let values = match kind {
            CellKind::Text | CellKind::Json => Values::Texts(Vec::new()),
            CellKind::Integer | CellKind::Time => Values::Integers(Vec::new()),
            CellKind::Float => Values::Doubles(Vec::new()),
            CellKind::Flag => Values::Flags(Vec::new()),
            CellKind::Date => Values::Days(Vec::new()),
            CellKind::List(item) => return Self::add_leaves(item, leaves),
            CellKind::Map => {
                leaves.push(Self::of(Values::Texts(Vec::new())));
                Values::Texts(Vec::new())
            }
            CellKind::Struct(fields) => {
                return fields.iter().for_each(|(_, kind)| Self::add_leaves(kind, leaves));
            }
        };
        leaves.push(Self::of(values));
    }

    /// Adds a value, and returns its size. Whether the value could be converted is the last part of its path.
    fn push(&mut self, value: &Value, at: Levels) -> usize {
        let mut bytes = VALUE_BYTES;
        let is_added = match &mut self.values {
            Values::Texts(texts) => {
                let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
                bytes += text.len();
                texts.push(text.as_str().into());
                true
            }
            Values::Integers(numbers) => push_some(
                numbers,
                match value {
                    Value::String(time) => timestamp_millis(time),
                    number => number.as_i64(),
                },
            ),
            Values::Doubles(numbers) => push_some(numbers, value.as_f64()),
            Values::Flags(flags) => push_some(flags, value.as_bool()),
            Values::Days(days) => push_some(days, value.as_str().and_then(civil_date).and_then(days_since_epoch)),
        };
        self.push_levels(Levels { definition: at.definition + i16::from(is_added), ..at });
        bytes
    }

    fn push_levels(&mut self, at: Levels) {
        self.definition.push(at.definition);
        self.repetition.push(at.repetition);
    }
}

fn push_some<T>(values: &mut Vec<T>, value: Option<T>) -> bool {
    let is_some = value.is_some();
    values.extend(value);
    is_some
}

/// The levels of a value.
#[derive(Clone, Copy)]
struct Levels {
    definition: i16,
    repetition: i16,
    /// The number of lists on the path so far.
    lists: i16,
}

/// The rows that are not written yet.
struct RowGroup {
    /// The leaves of all columns, in the order of the schema.
    leaves: Vec<Leaf>,
    rows: usize,
    /// Estimated bytes of the values.
    bytes: usize,
}

impl RowGroup {
    fn new(columns: &[(String, CellKind)]) -> Self {
        let mut leaves = Vec::new();
        columns.iter().for_each(|(_, kind)| Leaf::add_leaves(kind, &mut leaves));
        Self { leaves, rows: 0, bytes: 0 }
    }

    /// Adds a row.
    fn add(&mut self, columns: &[(String, CellKind)], values: &[Option<Value>]) {
        self.rows += 1;
        let start = Levels { definition: 0, repetition: 0, lists: 0 };
        let mut leaves = self.leaves.as_mut_slice();
        for ((_, kind), value) in columns.iter().zip(values) {
            let absent_flag = (*kind == CellKind::Flag).then_some(&Value::Bool(false));
            let (own, others) = leaves.split_at_mut(leaf_count(kind).min(leaves.len()));
            self.bytes += shred(kind, value.as_ref().or(absent_flag), start, own);
            leaves = others;
        }
    }

    /// Writes the rows as one row group.
    fn write<W: Write + Send>(&self, file: &mut SerializedFileWriter<W>) -> Result<(), ParquetError> {
        if self.rows == 0 {
            return Ok(());
        }
        let mut group = file.next_row_group()?;
        self.leaves.iter().try_for_each(|leaf| write_leaf(&mut group, leaf))?;
        group.close().map(drop)
    }
}

/// Adds a value to the leaves of its kind, and returns its size. A value of another kind is absent.
fn shred(kind: &CellKind, value: Option<&Value>, at: Levels, leaves: &mut [Leaf]) -> usize {
    let present = Levels { definition: at.definition + 1, ..at };
    // In an entry of a list, both the list and its repeated group are present.
    let entry = |number: usize| Levels {
        definition: at.definition + 2,
        repetition: if number == 0 { at.repetition } else { at.lists + 1 },
        lists: at.lists + 1,
    };
    match (kind, value.filter(|value| !value.is_null())) {
        (CellKind::List(_), Some(Value::Array(values))) if values.is_empty() => add_absent(leaves, present),
        (CellKind::List(item), Some(Value::Array(values))) => {
            values.iter().enumerate().map(|(number, value)| shred(item, Some(value), entry(number), leaves)).sum()
        }
        (CellKind::Map, Some(Value::Object(entries))) if entries.is_empty() => add_absent(leaves, present),
        (CellKind::Map, Some(Value::Object(entries))) => {
            let [keys, values] = leaves else { return 0 };
            let mut bytes = 0;
            for (number, (key, value)) in entries.iter().enumerate() {
                let at = entry(number);
                // A key is required: it has no level of its own.
                bytes += keys.push(&Value::from(key.as_str()), Levels { definition: at.definition - 1, ..at });
                bytes += values.push(value, at);
            }
            bytes
        }
        (CellKind::Struct(fields), Some(Value::Object(values))) => {
            let (mut rest, mut bytes) = (leaves, 0);
            for (name, kind) in fields {
                let (own, others) = rest.split_at_mut(leaf_count(kind).min(rest.len()));
                bytes += shred(kind, values.get(name), present, own);
                rest = others;
            }
            bytes
        }
        (CellKind::List(_) | CellKind::Map | CellKind::Struct(_), _) | (_, None) => add_absent(leaves, at),
        (_, Some(value)) => leaves.first_mut().map_or(0, |leaf| leaf.push(value, at)),
    }
}

/// Adds an absent value to each of these leaves, and returns its size.
fn add_absent(leaves: &mut [Leaf], at: Levels) -> usize {
    leaves.iter_mut().for_each(|leaf| leaf.push_levels(at));
    leaves.len() * size_of::<Levels>()
}

fn leaf_count(kind: &CellKind) -> usize {
    match kind {
        CellKind::List(item) => leaf_count(item),
        CellKind::Map => 2,
        CellKind::Struct(fields) => fields.iter().map(|(_, kind)| leaf_count(kind)).sum(),
        _ => 1,
    }
}

fn write_leaf<W: Write + Send>(group: &mut SerializedRowGroupWriter<'_, W>, leaf: &Leaf) -> Result<(), ParquetError> {
    let Some(mut column) = group.next_column()? else { return Ok(()) };
    let levels = (Some(leaf.definition.as_slice()), Some(leaf.repetition.as_slice()));
    match &leaf.values {
        Values::Texts(values) => column.typed::<ByteArrayType>().write_batch(values, levels.0, levels.1)?,
        Values::Integers(values) => column.typed::<Int64Type>().write_batch(values, levels.0, levels.1)?,
        Values::Doubles(values) => column.typed::<DoubleType>().write_batch(values, levels.0, levels.1)?,
        Values::Flags(values) => column.typed::<BoolType>().write_batch(values, levels.0, levels.1)?,
        Values::Days(values) => column.typed::<Int32Type>().write_batch(values, levels.0, levels.1)?,
    };
    column.close()
}
