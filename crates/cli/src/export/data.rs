//! The rows of the page tables: the fields of records, and the columns of extracted data, one per field. If the value of a
//! field is a list of items, it has one column per key of the items, and each item has its own row, unless the user wants
//! one row for each page.

use argiope_content::{DataColumn, Extraction, ValueType};
use argiope_core::base::url::Url;
use argiope_core::crawl::record::LazyRecord;
use argiope_core::crawl::schedule::keeper::Change;
use argiope_core::crawl::schedule::run_record::RunRecord;
use argiope_core::page::page_budget::PageBudget;
use argiope_runtime::content_reader;
use argiope_store::disk::{GraphEdge, GraphRound, Inlinks};
use clap::ValueEnum;
use serde_json::{Map, Value};

use super::archived::ArchivedPages;
use super::columns::{self, CellKind, CellSource, Column, field_value, record_columns};
use super::has_change;
use crate::records::{self, ReadError, StoredRecord};
use crate::results::Results;
use crate::ticker::Ticker;

/// Maximum number of columns of extracted data; further fields are left out.
const MAX_COLUMNS: usize = 1_000;

/// What the rows of a table are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Rows {
    /// Every page; a page with a list of items has one row for each item
    #[default]
    Items,
    /// As items, without pages that have no data
    Data,
    /// Every page, in one row
    Pages,
}

/// What the user wants of a table.
#[derive(Clone, Copy, Default)]
pub struct TableOptions<'a> {
    /// The rules by which data is extracted from the archive now. Without them, the data in the records is used.
    pub rules: Option<&'a Extraction>,
    /// The columns, in this order; all if it is empty.
    pub columns: &'a [String],
    pub rows: Rows,
    /// Only pages with one of these changes; all if it is empty.
    pub changes: &'a [Change],
}

/// The pages of a crawl as rows, with their data: either as recorded, or extracted from the archive now.
pub struct PageTable<'a> {
    results: &'a Results,
    /// The rules and the archive, if data is extracted now.
    extraction: Option<(&'a Extraction, ArchivedPages)>,
    rows: Rows,
    changes: &'a [Change],
    pub columns: Vec<Column>,
    /// How many pages link to each page.
    inlinks: Option<Inlinks>,
}

impl<'a> PageTable<'a> {
    /// Reads all pages of the latest round to find the columns. The columns of extracted data are in the order of the
    /// rules, also those that no page has a value for.
    pub fn open(results: &'a Results, options: TableOptions<'a>) -> Result<Self, ReadError> {
        let TableOptions { rules, columns, rows, changes } = options;
        let archive = rules.map(|rules| Ok::<_, ReadError>((rules, ArchivedPages::open(results)?)));
        let all = record_columns();
        let extraction = archive.transpose()?;
        let mut table = Self { results, extraction, rows, changes, columns: all, inlinks: None };
        let expected = rules.map_or_else(|| recorded_columns(results), |rules| Ok(rules.columns()))?;
        let data_columns = table.read_columns(&expected)?;
        table.columns.extend(data_columns);
        if !columns.is_empty() {
            table.columns = columns::select(&table.columns, columns)?;
        }
        Ok(table)
    }

    /// Calls `each` with the values of each row, in the order of the columns and of the pages.
    pub fn rows(&mut self, mut each: impl FnMut(&[Option<Value>]) -> Result<(), ReadError>) -> Result<(), ReadError> {
        self.numbered_rows(|_, values| each(values))
    }

    /// As [`Self::rows`], with the number of each row among the rows of its page, from 0.
    pub fn numbered_rows(
        &mut self,
        mut each: impl FnMut(usize, &[Option<Value>]) -> Result<(), ReadError>,
    ) -> Result<(), ReadError> {
        let columns = std::mem::take(&mut self.columns);
        let inlinks = self.inlinks.take();
        let rows = self.rows;
        let result = self.pages(|record, data| {
            let count = match rows {
                Rows::Data if data.is_none_or(Map::is_empty) => 0,
                Rows::Items | Rows::Data => item_count(data),
                Rows::Pages => 1,
            };
            (0..count).try_for_each(|row| {
                let values: Vec<Option<Value>> = columns
                    .iter()
                    .map(|column| match &column.source {
                        CellSource::Field(position, part) => field_value(record, *position, *part),
                        CellSource::Inlinks => inlinks.as_ref()?.of(&record.url()).map(Value::from),
                        CellSource::Data(field, None) if rows == Rows::Pages => data?.get(field).cloned(),
                        CellSource::Data(field, key) => data_value(data?, field, key.as_deref(), row).cloned(),
                    })
                    .collect();
                each(row, &values)
            })
        });
        (self.columns, self.inlinks) = (columns, inlinks);
        result
    }

    /// Calls `each` with every link of every page of the latest round: its source, and the edge.
    pub fn links(&self, mut each: impl FnMut(&str, GraphEdge<'_>) -> Result<(), ReadError>) -> Result<(), ReadError> {
        let mut graph = self.results.graph(GraphRound::Latest)?;
        let mut ticker = Ticker::start();
        graph.pages(|page| {
            ticker.advance();
            page.edges().try_for_each(|edge| each(page.source, edge))
        })
    }

    /// Calls `each` with the page records of the latest round and their data. Shows the progress.
    fn pages(
        &mut self,
        mut each: impl FnMut(&LazyRecord<'_>, Option<&Map<String, Value>>) -> Result<(), ReadError>,
    ) -> Result<(), ReadError> {
        let Self { results, extraction, changes, .. } = self;
        let mut ticker = Ticker::start();
        results.latest_page_lines(|line| {
            ticker.advance();
            let record = records::read_lazily(line)?;
            if !has_change(&record, changes) {
                return Ok(());
            }
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
    fn read_columns(&mut self, expected: &[DataColumn]) -> Result<Vec<Column>, ReadError> {
        let mut columns: Vec<Column> = Vec::new();
        let mut graph = self.results.graph(GraphRound::Latest)?;
        let mut page_keys = Vec::new();
        let rows = self.rows;
        self.pages(|record, data| {
            page_keys.push(graph.url_key(&record.url()));
            for (field, value) in data.into_iter().flatten() {
                match items(value).filter(|_| rows != Rows::Pages) {
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
        let mut ordered: Vec<Column> = Vec::new();
        for DataColumn { name, value, many, .. } in expected {
            let (field, key) = name.split_once('.').map_or((name.as_str(), None), |(field, key)| (field, Some(key)));
            let key_column = key.filter(|_| rows != Rows::Pages);
            // Items of which there are none have no fields to be columns of.
            let kind = if key_column == key { kind_of(*value, *many) } else { CellKind::Json };
            let column = Column::of_data(field, key_column, kind);
            if ordered.iter().all(|known| known.source != column.source) {
                let found = columns.iter().position(|known| known.source == column.source);
                ordered.push(found.map_or(column, |found| columns.remove(found)));
            }
        }
        columns.splice(..0, ordered);
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
    let Some(page) = archive.shown_page(record)?.filter(|page| page.is_html()) else { return Ok(None) };
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

/// Adds the column of a value, unless it exists. The kind of a column follows from all its values.
fn add_column(columns: &mut Vec<Column>, field: &str, key: Option<&str>, value: &Value) {
    let Some(kind) = CellKind::of(value) else { return };
    let column = Column::of_data(field, key, kind);
    if let Some(known) = columns.iter_mut().find(|known| known.source == column.source) {
        known.kind = std::mem::replace(&mut known.kind, CellKind::Json).merged(column.kind);
    } else if columns.len() < MAX_COLUMNS {
        columns.push(column);
    }
}

/// The kind of a column whose field has no values.
fn kind_of(value: ValueType, many: bool) -> CellKind {
    let kind = match value {
        ValueType::Number => CellKind::Float,
        ValueType::Date => CellKind::Date,
        _ => CellKind::Text,
    };
    if many { CellKind::List(Box::new(kind)) } else { kind }
}

/// The columns of the data that the last run extracted, in the order of its rules. Empty if they are not known any more.
fn recorded_columns(results: &Results) -> Result<Vec<DataColumn>, ReadError> {
    let runs = results.tracer()?.runs()?;
    let config = runs.iter().rev().find_map(|run| records::settings_of(&RunRecord::read(run)?)).unwrap_or_default();
    let rules = content_reader::extraction(&config.extract, config.extract_file.as_deref());
    Ok(rules.map(|rules| rules.columns()).unwrap_or_default())
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
fn item_count(data: Option<&Map<String, Value>>) -> usize {
    data.into_iter().flatten().filter_map(|(_, value)| items(value)).map(<[Value]>::len).max().unwrap_or(1).max(1)
}
