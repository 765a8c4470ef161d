//! The columns of the page tables, for all tabular formats. They are made from the fields of records.

use argiope_core::crawl::record::{CrawlRecord, FieldKind, LazyRecord, Section};
use serde_json::Value;

/// The column with the number of pages that link to a page. It is not a field of records.
pub const INLINKS: &str = "inlinks";

/// The kind of the values of a column.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CellKind {
    Text,
    /// A time such as `2026-01-02T03:04:05.678Z`.
    Time,
    Integer,
    Float,
    /// True or false. An absent value is false.
    Flag,
    List(Box<CellKind>),
    /// Texts by name.
    Map,
    Struct(Vec<(String, CellKind)>),
    /// Values of several kinds, as JSON.
    Json,
}

impl From<FieldKind> for CellKind {
    fn from(kind: FieldKind) -> Self {
        match kind {
            FieldKind::Text | FieldKind::Name(_) => Self::Text,
            FieldKind::Time => Self::Time,
            FieldKind::Integer => Self::Integer,
            FieldKind::Float => Self::Float,
            FieldKind::Flag => Self::Flag,
            FieldKind::List(item) => Self::List(Box::new((*item).into())),
            FieldKind::TextMap => Self::Map,
            FieldKind::Object(fields) => {
                Self::Struct(fields.iter().map(|(name, kind)| ((*name).to_owned(), (*kind).into())).collect())
            }
            FieldKind::Json => Self::Json,
        }
    }
}

/// Where the values of a column are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CellSource {
    /// In a field of the record, by its position in [`CrawlRecord::FIELDS`], or in a field of the object in this field.
    Field(usize, Option<&'static str>),
    Inlinks,
    /// In the extracted data: the field, and the key in each of its items if the value is a list of items.
    Data(String, Option<String>),
}

/// A column of the page tables.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Column {
    pub name: String,
    pub kind: CellKind,
    pub source: CellSource,
}

/// The columns of the fields of records, in the order of the fields. An object has a column for each of its fields. The
/// field `data` has columns of its own: see `data`.
pub fn record_columns() -> Vec<Column> {
    let mut columns = Vec::new();
    for (position, field) in CrawlRecord::FIELDS.iter().enumerate() {
        match field.kind {
            FieldKind::Json => {}
            _ if field.section == Section::Kind => {}
            FieldKind::Object(parts) => columns.extend(parts.iter().map(|(part, kind)| Column {
                name: format!("{}_{part}", field.name),
                kind: (*kind).into(),
                source: CellSource::Field(position, Some(part)),
            })),
            kind => {
                let source = CellSource::Field(position, None);
                columns.push(Column { name: field.name.to_owned(), kind: kind.into(), source });
            }
        }
    }
    columns.push(Column { name: INLINKS.to_owned(), kind: CellKind::Integer, source: CellSource::Inlinks });
    columns
}

/// The value of a field of a record, or of a part of it.
pub fn field_value(record: &LazyRecord<'_>, position: usize, part: Option<&str>) -> Option<Value> {
    let value: Value = serde_json::from_str(record.raw(position)?).ok()?;
    match (part, value) {
        (Some(part), Value::Object(mut parts)) => parts.remove(part),
        (Some(_), _) => None,
        (None, value) => Some(value),
    }
}
