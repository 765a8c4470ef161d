//! Pages as Parquet, for DuckDB, Spark and the like.
//!
//! Pages are gathered column by column and written in groups, so that a group's texts are all that is in memory.

use std::io::Write;
use std::path::Path;
use std::sync::Arc;

use parquet::basic::Compression;
use parquet::data_type::{BoolType, ByteArray, ByteArrayType, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::parser::parse_message_type;

use super::columns::{COLUMNS, Value};
use crate::records::{self, ReadError, StoredRecord};

/// Pages in one group,
const ROWS: usize = 100_000;
/// or bytes of text in it, whichever comes first.
const BYTES: usize = 64 << 20;

/// One row per page of the latest round, in the order of completion.
pub fn parquet(directory: &Path, out: &mut (dyn Write + Send)) -> Result<(), ReadError> {
    let schema = Arc::new(parse_message_type(&schema()).map_err(fault)?);
    let version = concat!("argiope ", env!("CARGO_PKG_VERSION")).to_owned();
    let properties = WriterProperties::builder().set_compression(Compression::SNAPPY).set_created_by(version).build();
    let mut file = SerializedFileWriter::new(&mut *out, schema, Arc::new(properties)).map_err(fault)?;
    let mut group = Group::new();
    records::latest_pages(directory, |line| {
        group.add(line);
        if group.rows >= ROWS || group.bytes >= BYTES {
            group.write(&mut file).map_err(fault)?;
        }
        Ok(())
    })?;
    group.write(&mut file).map_err(fault)?;
    file.close().map_err(fault)?;
    Ok(out.flush()?)
}

fn schema() -> String {
    let blank = StoredRecord::default();
    let columns = COLUMNS.iter().map(|column| match (column.value)(&blank) {
        Value::Text(_) => format!("OPTIONAL BYTE_ARRAY {} (UTF8);", column.name),
        Value::Number(_) => format!("OPTIONAL INT64 {};", column.name),
        Value::Flag(_) => format!("REQUIRED BOOLEAN {};", column.name),
        Value::Moment(_) => format!("OPTIONAL INT64 {} (TIMESTAMP(MILLIS,true));", column.name),
    });
    format!("message page {{ {} }}", columns.collect::<Vec<_>>().join(" "))
}

/// A failure to write is the output's; anything else would be ours.
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

/// The values of one column; a level of 0 is an absent one.
enum Values {
    Texts(Vec<ByteArray>, Vec<i16>),
    Numbers(Vec<i64>, Vec<i16>),
    Flags(Vec<bool>),
}

struct Group {
    columns: Vec<Values>,
    rows: usize,
    bytes: usize,
}

impl Group {
    fn new() -> Self {
        let blank = StoredRecord::default();
        let columns = COLUMNS.iter().map(|column| match (column.value)(&blank) {
            Value::Text(_) => Values::Texts(Vec::new(), Vec::new()),
            Value::Number(_) | Value::Moment(_) => Values::Numbers(Vec::new(), Vec::new()),
            Value::Flag(_) => Values::Flags(Vec::new()),
        });
        Self { columns: columns.collect(), rows: 0, bytes: 0 }
    }

    fn add(&mut self, line: &StoredRecord) {
        self.rows += 1;
        for (column, values) in COLUMNS.iter().zip(&mut self.columns) {
            match ((column.value)(line), values) {
                (Value::Text(text), Values::Texts(texts, levels)) => {
                    levels.push(text.is_some().into());
                    self.bytes += text.map_or(0, str::len);
                    texts.extend(text.map(ByteArray::from));
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
                // A column has one kind of value, whatever the page.
                _ => {}
            }
        }
    }

    fn write<W: Write + Send>(&mut self, file: &mut SerializedFileWriter<W>) -> Result<(), ParquetError> {
        if self.rows == 0 {
            return Ok(());
        }
        let mut group = file.next_row_group()?;
        for values in &self.columns {
            write_column(&mut group, values)?;
        }
        group.close()?;
        *self = Self::new();
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
        Values::Numbers(numbers, levels) => column.typed::<Int64Type>().write_batch(numbers, Some(levels), None)?,
        Values::Flags(flags) => column.typed::<BoolType>().write_batch(flags, None, None)?,
    };
    column.close()
}
