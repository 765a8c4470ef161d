//! Pages as Parquet, for DuckDB, Spark and similar tools.
//!
//! Pages are buffered column by column and written in row groups; memory use is limited to one group.

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

/// Maximum number of pages in a row group.
const ROWS: usize = 100_000;
/// Maximum bytes of text in a row group.
const BYTES: usize = 64 << 20;

/// One row per page of the latest round, in the order of completion.
pub fn parquet(directory: &Path, rules: Option<&Extraction>, out: &mut (dyn Write + Send)) -> Result<(), ReadError> {
    let mut source = DataSource::new(directory, rules)?;
    let columns = source.columns()?;
    let schema = Arc::new(parse_message_type(&schema(&columns)).map_err(fault)?);
    let version = concat!("argiope ", env!("CARGO_PKG_VERSION")).to_owned();
    let properties = WriterProperties::builder().set_compression(Compression::SNAPPY).set_created_by(version).build();
    let mut file = SerializedFileWriter::new(&mut *out, schema, Arc::new(properties)).map_err(fault)?;
    let mut group = Group::new(&columns);
    source.pages(|line| {
        for row in 0..data::rows(line) {
            group.add(line, &columns, row);
        }
        if group.rows >= ROWS || group.bytes >= BYTES {
            group.write(&mut file, &columns).map_err(fault)?;
        }
        Ok(())
    })?;
    group.write(&mut file, &columns).map_err(fault)?;
    file.close().map_err(fault)?;
    Ok(out.flush()?)
}

fn schema(data: &[DataColumn]) -> String {
    let blank = StoredRecord::default();
    let columns = COLUMNS.iter().map(|column| match (column.value)(&blank) {
        Value::Text(_) | Value::List(_) | Value::Map(_) => format!("OPTIONAL BYTE_ARRAY {} (UTF8);", column.name),
        Value::Number(_) => format!("OPTIONAL INT64 {};", column.name),
        Value::Flag(_) => format!("REQUIRED BOOLEAN {};", column.name),
        Value::Moment(_) => format!("OPTIONAL INT64 {} (TIMESTAMP(MILLIS,true));", column.name),
    });
    let data = data.iter().map(|column| match column.is_number {
        true => format!("OPTIONAL DOUBLE {};", column.name),
        false => format!("OPTIONAL BYTE_ARRAY {} (UTF8);", column.name),
    });
    format!("message page {{ {} }}", columns.chain(data).collect::<Vec<_>>().join(" "))
}

/// Separates I/O errors of the output from internal ones.
fn fault(error: ParquetError) -> ReadError {
    let error = match error {
        ParquetError::External(inner) => match inner.downcast::<std::io::Error>() {
            Ok(error) => *error,
            Err(other) => std::io::Error::other(other),
        },
        other => std::io::Error::other(other),
    };
    ReadError::Output(error)
}

/// The values of one column; definition level 0 means absent.
enum Values {
    Texts(Vec<ByteArray>, Vec<i16>),
    Numbers(Vec<i64>, Vec<i16>),
    Doubles(Vec<f64>, Vec<i16>),
    Flags(Vec<bool>),
}

struct Group {
    columns: Vec<Values>,
    rows: usize,
    bytes: usize,
}

impl Group {
    fn new(data: &[DataColumn]) -> Self {
        let blank = StoredRecord::default();
        let columns = COLUMNS.iter().map(|column| match (column.value)(&blank) {
            Value::Text(_) | Value::List(_) | Value::Map(_) => Values::Texts(Vec::new(), Vec::new()),
            Value::Number(_) | Value::Moment(_) => Values::Numbers(Vec::new(), Vec::new()),
            Value::Flag(_) => Values::Flags(Vec::new()),
        });
        let data = data.iter().map(|column| match column.is_number {
            true => Values::Doubles(Vec::new(), Vec::new()),
            false => Values::Texts(Vec::new(), Vec::new()),
        });
        Self { columns: columns.chain(data).collect(), rows: 0, bytes: 0 }
    }

    fn add(&mut self, line: &StoredRecord, extracted: &[DataColumn], row: usize) {
        self.rows += 1;
        for (column, values) in extracted.iter().zip(self.columns.iter_mut().skip(COLUMNS.len())) {
            let value = column.value(line, row);
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
                // Data is text or a number.
                Values::Numbers(..) | Values::Flags(_) => {}
            }
        }
        for (column, values) in COLUMNS.iter().zip(&mut self.columns) {
            match ((column.value)(line), values) {
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
                (Value::Moment(moment), Values::Numbers(numbers, levels)) => {
                    let moment = moment.and_then(|text| text.parse::<jiff::Timestamp>().ok());
                    levels.push(moment.is_some().into());
                    numbers.extend(moment.map(jiff::Timestamp::as_millisecond));
                }
                (Value::Flag(flag), Values::Flags(flags)) => flags.push(flag),
                // A column has one type of value for all pages.
                _ => {}
            }
        }
    }

    fn write<W: Write + Send>(
        &mut self,
        file: &mut SerializedFileWriter<W>,
        data: &[DataColumn],
    ) -> Result<(), ParquetError> {
        if self.rows == 0 {
            return Ok(());
        }
        let mut group = file.next_row_group()?;
        for values in &self.columns {
            write_column(&mut group, values)?;
        }
        group.close()?;
        *self = Self::new(data);
        Ok(())
    }
}

fn write_column<W: Write + Send>(
    group: &mut SerializedRowGroupWriter<'_, W>,
    values: &Values,
) -> Result<(), ParquetError> {
    let Some(mut column) = group.next_column()? else { return Ok(()) };
    match values {
        Values::Texts(texts, levels) => column.typed::<ByteArrayType>().write_batch(texts, Some(levels), None)?,
        Values::Doubles(numbers, levels) => column.typed::<DoubleType>().write_batch(numbers, Some(levels), None)?,
        Values::Numbers(numbers, levels) => column.typed::<Int64Type>().write_batch(numbers, Some(levels), None)?,
        Values::Flags(flags) => column.typed::<BoolType>().write_batch(flags, None, None)?,
    };
    column.close()
}
