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

use super::columns::{COLUMNS, Value};
use super::data::{self, DataColumn, DataSource};
use crate::records::{ReadError, StoredRecord};
use argiope_content::Extraction;

/// Maximum number of rows in a row group.
const MAX_GROUP_ROWS: usize = 100_000;
/// Maximum bytes of text in a row group.
const MAX_GROUP_BYTES: usize = 64 << 20;

/// Writes one row per page of the latest round, in the order in which pages were finished. A page with extracted items has
/// one row per item.
pub fn parquet(directory: &Path, rules: Option<&Extraction>, out: &mut (dyn Write + Send)) -> Result<(), ReadError> {
    let mut source = DataSource::new(directory, rules)?;
    let extracted = source.columns()?;
    let schema = Arc::new(parse_message_type(&schema(&extracted)).map_err(output_error)?);
    let version = concat!("argiope ", env!("CARGO_PKG_VERSION")).to_owned();
    let properties = WriterProperties::builder().set_compression(Compression::SNAPPY).set_created_by(version).build();
    let mut file = SerializedFileWriter::new(&mut *out, schema, Arc::new(properties)).map_err(output_error)?;
    let mut group = RowGroup::new(&extracted);
    source.pages(|record| {
        for row in 0..data::row_count(record) {
            group.add(record, &extracted, row);
        }
        if group.rows >= MAX_GROUP_ROWS || group.bytes >= MAX_GROUP_BYTES {
            group.write(&mut file, &extracted).map_err(output_error)?;
        }
        Ok(())
    })?;
    group.write(&mut file, &extracted).map_err(output_error)?;
    file.close().map_err(output_error)?;
    Ok(out.flush()?)
}

/// The schema of the file: the columns of all page tables, then those of the extracted data. The type of a column follows
/// from the variant of its [`Value`], which is the same for all records. So an empty record is sufficient to determine it.
fn schema(extracted: &[DataColumn]) -> String {
    let empty_record = StoredRecord::default();
    let columns = COLUMNS.iter().map(|column| match (column.value)(&empty_record) {
        Value::Text(_) | Value::List(_) | Value::Map(_) => format!("OPTIONAL BYTE_ARRAY {} (UTF8);", column.name),
        Value::Number(_) => format!("OPTIONAL INT64 {};", column.name),
        Value::Flag(_) => format!("REQUIRED BOOLEAN {};", column.name),
        Value::Time(_) => format!("OPTIONAL INT64 {} (TIMESTAMP(MILLIS,true));", column.name),
    });
    let extracted = extracted.iter().map(|column| match column.is_number {
        true => format!("OPTIONAL DOUBLE {};", column.name),
        false => format!("OPTIONAL BYTE_ARRAY {} (UTF8);", column.name),
    });
    format!("message page {{ {} }}", columns.chain(extracted).collect::<Vec<_>>().join(" "))
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
    fn new(extracted: &[DataColumn]) -> Self {
        let empty_record = StoredRecord::default();
        let columns = COLUMNS.iter().map(|column| match (column.value)(&empty_record) {
            Value::Text(_) | Value::List(_) | Value::Map(_) => Values::Texts(Vec::new(), Vec::new()),
            Value::Number(_) | Value::Time(_) => Values::Numbers(Vec::new(), Vec::new()),
            Value::Flag(_) => Values::Flags(Vec::new()),
        });
        let extracted = extracted.iter().map(|column| match column.is_number {
            true => Values::Doubles(Vec::new(), Vec::new()),
            false => Values::Texts(Vec::new(), Vec::new()),
        });
        Self { columns: columns.chain(extracted).collect(), rows: 0, bytes: 0 }
    }

    /// Adds one row of a page.
    fn add(&mut self, record: &StoredRecord, extracted: &[DataColumn], row: usize) {
        self.rows += 1;
        for (column, values) in extracted.iter().zip(self.columns.iter_mut().skip(COLUMNS.len())) {
            let value = column.value(record, row);
            match values {
                Values::Doubles(numbers, levels) => {
                    let number = value.and_then(serde_json::Value::as_f64);
                    levels.push(number.is_some().into());
                    numbers.extend(number);
                }
                Values::Texts(texts, levels) => {
                    let text = value.map(data::text);
                    levels.push(text.is_some().into());
                    self.bytes += text.as_ref().map_or(0, |text| text.len());
                    texts.extend(text.as_deref().map(ByteArray::from));
                }
                // Extracted values are texts or numbers.
                Values::Numbers(..) | Values::Flags(_) => {}
            }
        }
        for (column, values) in COLUMNS.iter().zip(&mut self.columns) {
            match ((column.value)(record), values) {
                (value @ (Value::Text(_) | Value::List(_) | Value::Map(_)), Values::Texts(texts, levels)) => {
                    let text = value.text();
                    levels.push(text.is_some().into());
                    self.bytes += text.as_ref().map_or(0, |text| text.len());
                    texts.extend(text.as_deref().map(ByteArray::from));
                }
                (Value::Number(number), Values::Numbers(numbers, levels)) => {
                    let number = number.and_then(|number| i64::try_from(number).ok());
                    levels.push(number.is_some().into());
                    numbers.extend(number);
                }
                (Value::Time(time), Values::Numbers(numbers, levels)) => {
                    let time = time.and_then(|text| text.parse::<jiff::Timestamp>().ok());
                    levels.push(time.is_some().into());
                    numbers.extend(time.map(jiff::Timestamp::as_millisecond));
                }
                (Value::Flag(flag), Values::Flags(flags)) => flags.push(flag),
                // A column has one type of value for all pages.
                _ => {}
            }
        }
    }

    /// Writes the rows as one row group, and starts a new one.
    fn write<W: Write + Send>(
        &mut self,
        file: &mut SerializedFileWriter<W>,
        extracted: &[DataColumn],
    ) -> Result<(), ParquetError> {
        if self.rows == 0 {
            return Ok(());
        }
        let mut group = file.next_row_group()?;
        for values in &self.columns {
            write_column(&mut group, values)?;
        }
        group.close()?;
        *self = Self::new(extracted);
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
