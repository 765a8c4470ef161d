//! Pages as Parquet, for DuckDB, Spark and similar tools.
//!
//! Rows are buffered by column and written in row groups. The size of a group is limited, which bounds the memory.

use std::io::Write;
use std::path::Path;
use std::sync::Arc;

use parquet::basic::Compression;
use parquet::data_type::{BoolType, ByteArray, ByteArrayType, DoubleType, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::parser::parse_message_type;

use super::columns::{CellKind, Column};
use super::data::PageTable;
use crate::records::ReadError;
use argiope_content::Extraction;
use serde_json::Value;

/// Maximum number of rows in a row group.
const MAX_GROUP_ROWS: usize = 100_000;
/// Maximum bytes of text in a row group.
const MAX_GROUP_BYTES: usize = 64 << 20;

/// Writes one row per page of the latest round, in the order in which pages were finished. A page with extracted items has
/// one row per item.
pub fn parquet(directory: &Path, rules: Option<&Extraction>, out: &mut (dyn Write + Send)) -> Result<(), ReadError> {
    let mut table = PageTable::open(directory, rules, &[])?;
    let columns = table.columns.clone();
    let schema = Arc::new(parse_message_type(&schema(&columns)).map_err(output_error)?);
    let version = concat!("argiope ", env!("CARGO_PKG_VERSION")).to_owned();
    let properties = WriterProperties::builder().set_compression(Compression::SNAPPY).set_created_by(version).build();
    let mut file = SerializedFileWriter::new(&mut *out, schema, Arc::new(properties)).map_err(output_error)?;
    let mut group = RowGroup::new(&columns);
    table.rows(|values| {
        group.add(values);
        if group.rows >= MAX_GROUP_ROWS || group.bytes >= MAX_GROUP_BYTES {
            group.write(&mut file, &columns).map_err(output_error)?;
        }
        Ok(())
    })?;
    group.write(&mut file, &columns).map_err(output_error)?;
    file.close().map_err(output_error)?;
    Ok(out.flush()?)
}

/// The schema of the file.
fn schema(columns: &[Column]) -> String {
    let columns = columns.iter().map(|Column { name, kind, .. }| match kind {
        CellKind::Integer => format!("OPTIONAL INT64 {name};"),
        CellKind::Float => format!("OPTIONAL DOUBLE {name};"),
        CellKind::Flag => format!("REQUIRED BOOLEAN {name};"),
        CellKind::Time => format!("OPTIONAL INT64 {name} (TIMESTAMP(MILLIS,true));"),
        _ => format!("OPTIONAL BYTE_ARRAY {name} (UTF8);"),
    });
    format!("message page {{ {} }}", columns.collect::<Vec<_>>().join(" "))
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

/// The values of one column. The second vector has the definition levels of all rows: 1 if the row has a value, 0 if not.
enum Values {
    Texts(Vec<ByteArray>, Vec<i16>),
    Numbers(Vec<i64>, Vec<i16>),
    Doubles(Vec<f64>, Vec<i16>),
    Flags(Vec<bool>),
}

/// The rows that are not written yet.
struct RowGroup {
    columns: Vec<Values>,
    rows: usize,
    /// Bytes of the texts.
    bytes: usize,
}

impl RowGroup {
    fn new(columns: &[Column]) -> Self {
        let columns = columns.iter().map(|column| match column.kind {
            CellKind::Integer | CellKind::Time => Values::Numbers(Vec::new(), Vec::new()),
            CellKind::Float => Values::Doubles(Vec::new(), Vec::new()),
            CellKind::Flag => Values::Flags(Vec::new()),
            _ => Values::Texts(Vec::new(), Vec::new()),
        });
        Self { columns: columns.collect(), rows: 0, bytes: 0 }
    }

    /// Adds a row.
    fn add(&mut self, values: &[Option<Value>]) {
        self.rows += 1;
        for (column, value) in self.columns.iter_mut().zip(values) {
            match column {
                Values::Doubles(numbers, levels) => {
                    let number = value.as_ref().and_then(Value::as_f64);
                    levels.push(number.is_some().into());
                    numbers.extend(number);
                }
                Values::Texts(texts, levels) => {
                    let text =
                        value.as_ref().map(|value| value.as_str().map_or_else(|| value.to_string(), str::to_owned));
                    levels.push(text.is_some().into());
                    self.bytes += text.as_ref().map_or(0, String::len);
                    texts.extend(text.as_deref().map(ByteArray::from));
                }
                Values::Numbers(numbers, levels) => {
                    let number = value.as_ref().and_then(|value| match value {
                        Value::String(time) => time.parse().ok().map(jiff::Timestamp::as_millisecond),
                        number => number.as_i64(),
                    });
                    levels.push(number.is_some().into());
                    numbers.extend(number);
                }
                Values::Flags(flags) => flags.push(value.as_ref().and_then(Value::as_bool).unwrap_or(false)),
            }
        }
    }

    /// Writes the rows as one row group, and starts a new one.
    fn write<W: Write + Send>(
        &mut self,
        file: &mut SerializedFileWriter<W>,
        columns: &[Column],
    ) -> Result<(), ParquetError> {
        if self.rows == 0 {
            return Ok(());
        }
        let mut group = file.next_row_group()?;
        for values in &self.columns {
            write_column(&mut group, values)?;
        }
        group.close()?;
        *self = Self::new(columns);
        Ok(())
    }
}

fn write_column<W: Write + Send>(
    group: &mut SerializedRowGroupWriter<'_, W>,
    values: &Values,
) -> Result<(), ParquetError> {
    let Some(mut column) = group.next_column()? else { return Ok(()) };
    // The last argument is the repetition levels, which only columns of lists have. Required columns have no definition
    // levels either.
    match values {
        Values::Texts(texts, levels) => column.typed::<ByteArrayType>().write_batch(texts, Some(levels), None)?,
        Values::Doubles(numbers, levels) => column.typed::<DoubleType>().write_batch(numbers, Some(levels), None)?,
        Values::Numbers(numbers, levels) => column.typed::<Int64Type>().write_batch(numbers, Some(levels), None)?,
        Values::Flags(flags) => column.typed::<BoolType>().write_batch(flags, None, None)?,
    };
    column.close()
}
