//! The columns of extracted data: one per field. If the value of a field is a list of items, it has one column per key of
//! the items, and each item has its own row.

use std::borrow::Cow;
use std::path::Path;

use argiope_content::Extraction;
use argiope_core::base::url::Url;
use argiope_core::page::page_budget::PageBudget;
use argiope_fleet::segments::open_graph;
use argiope_store::disk::{GraphRound, Inlinks};
use serde_json::{Map, Value};

use super::archived::ArchivedPages;
use crate::records::{self, ReadError, StoredRecord};

/// Maximum number of columns; further fields are left out.
const MAX_COLUMNS: usize = 1_000;

/// A column of extracted data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DataColumn {
    /// The name in the table: `data_price`, `data_products_price`.
    pub name: String,
    /// The field in the data of a record.
    field: String,
    /// The key in each item, if the value of the field is a list of items.
    inner: Option<String>,
    /// Whether every value is a number.
    pub is_number: bool,
}

/// Page records with their data: either as recorded, or extracted from the archive now.
pub struct DataSource<'a> {
    directory: &'a Path,
    /// How many pages link to each page; set by [`Self::columns`].
    inlinks: Option<Inlinks>,
    /// The rules and the archive, if data is extracted now.
    extraction: Option<(&'a Extraction, ArchivedPages)>,
    /// The columns that the table has even if no page has a value for them, in this order. `products.price` is a key of items.
    expected: Vec<String>,
}

impl<'a> DataSource<'a> {
    /// Without `extraction`, the data in the records is used.
    pub fn new(directory: &'a Path, extraction: Option<&'a Extraction>) -> Result<Self, ReadError> {
        let archive = extraction.map(|rules| Ok::<_, ReadError>((rules, ArchivedPages::open(directory)?)));
        let expected = extraction.map(Extraction::columns).unwrap_or_default();
        Ok(Self { directory, inlinks: None, extraction: archive.transpose()?, expected })
    }

    /// Adds columns that the table has even if no page has a value for them.
    pub fn with_columns(mut self, columns: &[String]) -> Self {
        self.expected.extend_from_slice(columns);
        self
    }

    /// Calls `each` with the page records of the latest round. Their field `inlinks` is set if [`Self::columns`] was called
    /// before.
    pub fn pages(&mut self, mut each: impl FnMut(&StoredRecord) -> Result<(), ReadError>) -> Result<(), ReadError> {
        let Self { directory, inlinks, extraction, .. } = self;
        records::take_latest_pages(directory, |mut record| {
            record.inlinks = inlinks.as_ref().and_then(|inlinks| inlinks.of(&record.url));
            if let Some((rules, archive)) = extraction {
                record.data = extract(rules, archive, &record)?;
            }
            each(&record)
        })?;
        Ok(())
    }

    /// The columns of the data: the expected ones in their order, then those of other fields in the records.
    pub fn columns(&mut self) -> Result<Vec<DataColumn>, ReadError> {
        let mut columns: Vec<DataColumn> = Vec::new();
        let mut graph = open_graph(self.directory, GraphRound::Latest)?;
        let mut page_keys = Vec::new();
        self.pages(|record| {
            page_keys.push(graph.url_key(&record.url));
            for (field, value) in record.data.iter().flatten() {
                match items(value) {
                    Some(items) => {
                        for (inner, value) in items.iter().filter_map(Value::as_object).flatten() {
                            add_column(&mut columns, field, Some(inner), value);
                        }
                    }
                    None => add_column(&mut columns, field, None, value),
                }
            }
            Ok(())
        })?;
        self.inlinks = Some(graph.inlinks(page_keys)?);
        for name in &self.expected {
            let (field, inner) =
                name.split_once('.').map_or((name.as_str(), None), |(field, inner)| (field, Some(inner)));
            if !columns.iter().any(|column| column.matches(field, inner)) {
                columns.push(DataColumn::new(field, inner, false));
            }
        }
        let expected_position = |column: &DataColumn| self.expected.iter().position(|name| *name == column.path());
        columns.sort_by_key(|column| expected_position(column).unwrap_or(usize::MAX));
        Ok(columns)
    }
}

/// Extracts the data of a page from the archive. `None` if no rule gives a value.
fn extract(
    rules: &Extraction,
    archive: &mut ArchivedPages,
    record: &StoredRecord,
) -> Result<Option<Map<String, Value>>, ReadError> {
    if !rules.applies_to(&record.url) || !record.is_success() {
        return Ok(None);
    }
    let Some(page) = archive.page(record)?.filter(|page| page.is_html()) else { return Ok(None) };
    // How often each field matched is not needed here.
    let mut tally = rules.tally();
    let html = page.text();
    let data = rules.read(&html, (&page.url, page.charset), &PageBudget::for_page(html.len()), &mut tally).data;
    Ok(Some(data).filter(|data| !data.is_empty()))
}

/// Like `extract`, for JSON Lines: a record whose URL is not valid has no data.
pub fn extract_from(
    rules: &Extraction,
    archive: &mut ArchivedPages,
    record: &StoredRecord,
) -> Result<Option<Map<String, Value>>, ReadError> {
    if Url::parse(&record.url).is_err() { Ok(None) } else { extract(rules, archive, record) }
}

impl DataColumn {
    fn new(field: &str, inner: Option<&str>, is_number: bool) -> Self {
        let name = inner.map_or_else(|| format!("data_{field}"), |inner| format!("data_{field}_{inner}"));
        Self { name, field: field.to_owned(), inner: inner.map(str::to_owned), is_number }
    }

    fn matches(&self, field: &str, inner: Option<&str>) -> bool {
        self.field == field && self.inner.as_deref() == inner
    }

    /// The name in the form of `expected`: the field, or the field and the key with a dot.
    fn path(&self) -> String {
        self.inner.as_ref().map_or_else(|| self.field.clone(), |inner| format!("{}.{inner}", self.field))
    }

    /// The value in one row of a page.
    pub fn value<'r>(&self, record: &'r StoredRecord, row: usize) -> Option<&'r Value> {
        let value = record.data.as_ref()?.get(&self.field)?;
        match (&self.inner, items(value)) {
            (Some(inner), Some(items)) => items.get(row)?.get(inner),
            (None, None) => Some(value),
            _ => None,
        }
    }
}

/// Adds the column of a value, unless it exists. A column is numeric only if all its values are numbers.
fn add_column(columns: &mut Vec<DataColumn>, field: &str, inner: Option<&str>, value: &Value) {
    let is_number = value.is_number();
    if let Some(column) = columns.iter_mut().find(|column| column.matches(field, inner)) {
        column.is_number &= is_number;
    } else if columns.len() < MAX_COLUMNS {
        columns.push(DataColumn::new(field, inner, is_number));
    }
}

/// The items of a field, if its value is a list of objects.
fn items(value: &Value) -> Option<&[Value]> {
    let values = value.as_array()?;
    values.first().is_some_and(Value::is_object).then_some(values.as_slice())
}

/// The number of rows of a page: one, or one per item of its longest list of items.
pub fn row_count(record: &StoredRecord) -> usize {
    record.data.iter().flatten().filter_map(|(_, value)| items(value)).map(<[Value]>::len).max().unwrap_or(1).max(1)
}

/// A value as one text: lists are separated by semicolons, objects are JSON.
pub fn text(value: &Value) -> Cow<'_, str> {
    match value {
        Value::String(text) => Cow::Borrowed(text),
        Value::Array(values) if !values.iter().any(|value| value.is_array() || value.is_object()) => {
            Cow::Owned(values.iter().map(text).collect::<Vec<_>>().join("; "))
        }
        other => Cow::Owned(other.to_string()),
    }
}
