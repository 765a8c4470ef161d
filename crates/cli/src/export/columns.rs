//! The columns of the page tables, for all tabular formats. They are made from the fields of records.

use argiope_core::crawl::record::{CrawlRecord, FieldKind, LazyRecord, Section};
use serde_json::Value;

use crate::records::ReadError;
use argiope_core::base::escape::visible;

/// The column with the number of pages that link to a page. It is not a field of records.
pub const INLINKS: &str = "inlinks";

/// The kind of the values of a column.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CellKind {
    Text,
    /// A time such as `2026-01-02T03:04:05.678Z`.
    Time,
    /// A date such as `2026-01-02`.
    Date,
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

/// Maximum number of fields of a [`CellKind::Struct`]; larger objects are JSON.
const MAX_FIELDS: usize = 100;

impl CellKind {
    /// The kind of a value; `None` for null. A number is a float, so that the kind does not depend on which numbers a
    /// crawl has found.
    pub fn of(value: &Value) -> Option<Self> {
        Some(match value {
            Value::Null => return None,
            Value::Bool(_) => Self::Flag,
            Value::Number(_) => Self::Float,
            Value::String(text) if civil_date(text).is_some() => Self::Date,
            Value::String(text) if timestamp_millis(text).is_some() => Self::Time,
            Value::String(_) => Self::Text,
            Value::Array(values) => {
                Self::List(Box::new(values.iter().filter_map(Self::of).reduce(Self::merged).unwrap_or(Self::Text)))
            }
            Value::Object(fields) => {
                let fields = fields.iter().filter_map(|(name, value)| Some((name.clone(), Self::of(value)?)));
                Self::of_fields(fields.collect())
            }
        })
    }

    fn of_fields(fields: Vec<(String, Self)>) -> Self {
        if (1..=MAX_FIELDS).contains(&fields.len()) { Self::Struct(fields) } else { Self::Json }
    }

    /// The kind of a column with values of two kinds.
    pub fn merged(self, other: Self) -> Self {
        match (self, other) {
            (one, other) if one == other => one,
            (Self::Text | Self::Date | Self::Time, Self::Text | Self::Date | Self::Time) => Self::Text,
            (Self::List(one), Self::List(other)) => Self::List(Box::new(one.merged(*other))),
            (Self::Struct(mut fields), Self::Struct(others)) => {
                for (name, kind) in others {
                    match fields.iter_mut().find(|(known, _)| *known == name) {
                        Some((_, known)) => *known = std::mem::replace(known, Self::Json).merged(kind),
                        None => fields.push((name, kind)),
                    }
                }
                Self::of_fields(fields)
            }
            _ => Self::Json,
        }
    }
}

/// The date of a text such as `2026-01-02`.
pub fn civil_date(text: &str) -> Option<jiff::civil::Date> {
    text.parse().ok().filter(|_| text.len() == "2026-01-02".len())
}

/// The number of a date, counted from 1970-01-01.
#[cfg(any(feature = "arrow", feature = "parquet"))]
pub fn days_since_epoch(date: jiff::civil::Date) -> Option<i32> {
    jiff::civil::date(1970, 1, 1).until(date).ok().map(|span| span.get_days())
}

/// The milliseconds since the Unix epoch of a text such as `2026-01-02T03:04:05.678Z`.
pub fn timestamp_millis(text: &str) -> Option<i64> {
    text.ends_with('Z').then(|| text.parse().ok().map(jiff::Timestamp::as_millisecond)).flatten()
}

/// Where the values of a column are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CellSource {
    /// In a field of the record, by its position in [`CrawlRecord::FIELDS`], or in a field of the object in this field.
    Field(usize, Option<&'static str>),
    Inlinks,
    /// In the extracted data: the field, and the key in each of its items if the items are rows.
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

/// The columns that the user chooses, in this order: names such as `url` and `ms_total`, `data.price` for extracted data,
/// and `data.*` for all that begin so. A name of extracted data that no page has gives an empty column.
pub fn select(columns: &[Column], wanted: &[String]) -> Result<Vec<Column>, ReadError> {
    let mut selected: Vec<Column> = Vec::new();
    for name in wanted {
        let plain = name.replace('.', "_");
        let found: Vec<Column> = match plain.strip_suffix('*') {
            Some(start) => columns.iter().filter(|column| column.name.starts_with(start)).cloned().collect(),
            None => columns.iter().filter(|column| column.name == plain).cloned().collect(),
        };
        if found.is_empty() && !plain.starts_with("data_") {
            let all = columns.iter().map(|column| column.name.as_str());
            let nearest = all.min_by_key(|known| strsim::osa_distance(known, &plain)).unwrap_or_default();
            let why = format!("--columns: there is no column {:?}; the most similar name is {nearest}", visible(name));
            return Err(ReadError::Usage(why));
        }
        if found.is_empty() && !plain.ends_with('*') {
            let rest = name.get("data_".len()..).unwrap_or_default();
            let (field, key) = rest.split_once('.').map_or((rest, None), |(field, key)| (field, Some(key)));
            selected.push(Column::of_data(field, key, CellKind::Text));
        }
        for column in found {
            if !selected.contains(&column) {
                selected.push(column);
            }
        }
    }
    Ok(selected)
}

impl Column {
    /// A column of extracted data.
    pub fn of_data(field: &str, key: Option<&str>, kind: CellKind) -> Self {
        let name = key.map_or_else(|| format!("data_{field}"), |key| format!("data_{field}_{key}"));
        Self { name, kind, source: CellSource::Data(field.to_owned(), key.map(str::to_owned)) }
    }
}
