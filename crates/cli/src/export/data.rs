//! The rows of the page tables: the fields of records, and the columns of extracted data, one per field. If the value of a
//! field is a list of items, it has one column per key of the items, and each item has its own row.

use std::path::Path;

use argiope_content::Extraction;
use argiope_core::base::url::Url;
use argiope_core::crawl::record::LazyRecord;
use argiope_core::page::page_budget::PageBudget;
use argiope_fleet::segments::open_graph;
use argiope_store::disk::{GraphRound, Inlinks};
use serde_json::{Map, Value};

use super::archived::ArchivedPages;
use super::columns::{CellKind, CellSource, Column, field_value, record_columns};
use crate::records::{self, ReadError, StoredRecord};

/// Maximum number of columns of extracted data; further fields are left out.
const MAX_COLUMNS: usize = 1_000;

/// The pages of a crawl as rows, with their data: either as recorded, or extracted from the archive now.
pub struct PageTable<'a> {
    directory: &'a Path,
    /// The rules and the archive, if data is extracted now.
    extraction: Option<(&'a Extraction, ArchivedPages)>,
    pub columns: Vec<Column>,
    /// How many pages link to each page.
    inlinks: Option<Inlinks>,
}

impl<'a> PageTable<'a> {
    /// Reads all pages of the latest round to find the columns. Without `extraction`, the data in the records is used.
    /// The table has the columns of extracted data that `expected` names, even if no page has a value for them.
    /// `products.price` is a key of items.
    pub fn open(
        directory: &'a Path,
        extraction: Option<&'a Extraction>,
        expected: &[String],
    ) -> Result<Self, ReadError> {
        let archive = extraction.map(|rules| Ok::<_, ReadError>((rules, ArchivedPages::open(directory)?)));
        let mut table = Self { directory, extraction: archive.transpose()?, columns: record_columns(), inlinks: None };
        let mut expected = expected.to_vec();
        expected.extend(extraction.map(Extraction::columns).unwrap_or_default());
        let columns = table.read_columns(&expected)?;
        table.columns.extend(columns);
        Ok(table)
    }

    /// Calls `each` with the values of each row, in the order of the columns and of the pages.
    pub fn rows(&mut self, mut each: impl FnMut(&[Option<Value>]) -> Result<(), ReadError>) -> Result<(), ReadError> {
        let columns = std::mem::take(&mut self.columns);
        let inlinks = self.inlinks.take();
        let result = self.pages(|record, data| {
            let inlinks = inlinks.as_ref().and_then(|inlinks| inlinks.of(&record.url()));
            (0..row_count(data)).try_for_each(|row| {
                let values: Vec<Option<Value>> = columns
                    .iter()
                    .map(|column| match &column.source {
                        CellSource::Field(position, part) => field_value(record, *position, *part),
                        CellSource::Inlinks => inlinks.map(Value::from),
                        CellSource::Data(field, key) => data_value(data?, field, key.as_deref(), row).cloned(),
                    })
                    .collect();
                each(&values)
            })
        });
        (self.columns, self.inlinks) = (columns, inlinks);
        result
    }

    /// Calls `each` with the page records of the latest round and their data.
    fn pages(
        &mut self,
        mut each: impl FnMut(&LazyRecord<'_>, Option<&Map<String, Value>>) -> Result<(), ReadError>,
    ) -> Result<(), ReadError> {
        let Self { directory, extraction, .. } = self;
        records::latest_page_lines(directory, |line| {
            let record = records::read_lazily(line)?;
            let data = match extraction {
                Some((rules, archive)) => extract(rules, archive, &records::read(line)?)?,
                None => record.data().map(std::borrow::Cow::into_owned),
            };
            each(&record, data.as_ref())
        })?;
        Ok(())
    }

    /// The columns of the data: the expected ones in their order, then those of other fields in the records. Also counts
    /// the links to each page.
    fn read_columns(&mut self, expected: &[String]) -> Result<Vec<Column>, ReadError> {
        let mut columns: Vec<Column> = Vec::new();
        let mut graph = open_graph(self.directory, GraphRound::Latest)?;
        let mut page_keys = Vec::new();
        self.pages(|record, data| {
            page_keys.push(graph.url_key(&record.url()));
            for (field, value) in data.into_iter().flatten() {
                match items(value) {
                    Some(items) => {
                        for (key, value) in items.iter().filter_map(Value::as_object).flatten() {
                            add_column(&mut columns, field, Some(key), value);
                        }
                    }
                    None => add_column(&mut columns, field, None, value),
                }
            }
            Ok(())
        })?;
        self.inlinks = Some(graph.inlinks(page_keys)?);
        for name in expected {
            let (field, key) = name.split_once('.').map_or((name.as_str(), None), |(field, key)| (field, Some(key)));
            let column = data_column(field, key, CellKind::Text);
            if !columns.iter().any(|known| known.source == column.source) {
                columns.push(column);
            }
        }
        let position = |column: &Column| expected.iter().position(|name| data_name(&column.source, '.') == *name);
        columns.sort_by_key(|column| position(column).unwrap_or(usize::MAX));
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

fn data_column(field: &str, key: Option<&str>, kind: CellKind) -> Column {
    let source = CellSource::Data(field.to_owned(), key.map(str::to_owned));
    Column { name: format!("data_{}", data_name(&source, '_')), kind, source }
}

/// The field, or the field and the key of its items.
fn data_name(source: &CellSource, separator: char) -> String {
    match source {
        CellSource::Data(field, Some(key)) => format!("{field}{separator}{key}"),
        CellSource::Data(field, None) => field.clone(),
        CellSource::Field(..) | CellSource::Inlinks => String::new(),
    }
}

/// Adds the column of a value, unless it exists. A column is numeric only if all its values are numbers.
fn add_column(columns: &mut Vec<Column>, field: &str, key: Option<&str>, value: &Value) {
    let kind = if value.is_number() { CellKind::Float } else { CellKind::Text };
    let column = data_column(field, key, kind);
    if let Some(known) = columns.iter_mut().find(|known| known.source == column.source) {
        if known.kind != column.kind {
            known.kind = CellKind::Text;
        }
    } else if columns.len() < MAX_COLUMNS {
        columns.push(column);
    }
}

/// The value of a column of extracted data in one row of a page.
fn data_value<'r>(data: &'r Map<String, Value>, field: &str, key: Option<&str>, row: usize) -> Option<&'r Value> {
    let value = data.get(field)?;
    match (key, items(value)) {
        (Some(key), Some(items)) => items.get(row)?.get(key),
        (None, None) => Some(value),
        _ => None,
    }
}

/// The items of a field, if its value is a list of objects.
fn items(value: &Value) -> Option<&[Value]> {
    let values = value.as_array()?;
    values.first().is_some_and(Value::is_object).then_some(values.as_slice())
}

/// The number of rows of a page: one, or one per item of its longest list of items.
fn row_count(data: Option<&Map<String, Value>>) -> usize {
    data.into_iter().flatten().filter_map(|(_, value)| items(value)).map(<[Value]>::len).max().unwrap_or(1).max(1)
}
