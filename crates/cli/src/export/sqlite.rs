//! Pages, links and extracted data as a database of SQLite.
//!
//! The database is built in an unnamed temporary file, in one transaction and without a journal, and then copied to the
//! output. SQLite itself keeps a few megabytes of pages in memory.

use std::borrow::Cow;
use std::io::{self, Seek as _, Write};

use rusqlite::types::{ToSqlOutput, Value as SqlValue, ValueRef};
use rusqlite::{Connection, ErrorCode, params, params_from_iter};
use serde_json::Value;

use super::columns::{CellKind, CellSource, Column};
use super::data::PageTable;
use crate::records::ReadError;
use crate::temporary::TemporaryFile;

/// Settings of the connection. An incomplete database is deleted, so it needs no journal and no sync. The cache is in KiB.
const SETTINGS: &str = "PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF; PRAGMA locking_mode = EXCLUSIVE; \
                        PRAGMA cache_size = -8192; BEGIN";

const LINKS: &str = "CREATE TABLE links \
                     (source TEXT NOT NULL, target TEXT NOT NULL, kind TEXT NOT NULL, nofollow BOOLEAN NOT NULL, anchor TEXT)";

/// The indexes are created last, which is faster than to keep them up to date.
const INDEXES: &str = "CREATE INDEX links_by_source ON links (source); CREATE INDEX links_by_target ON links (target); \
                       CREATE INDEX data_by_page ON data (page_id); COMMIT";

/// Writes the pages in the order in which they were finished, the items of their data, and all links.
pub fn write_sqlite(mut table: PageTable<'_>, out: &mut (dyn Write + Send)) -> Result<(), ReadError> {
    let open = |path: &std::path::Path| Connection::open(path).map_err(|error| io::Error::other(error.to_string()));
    let (mut file, connection) = TemporaryFile::create_named(open)?;
    connection.execute_batch(SETTINGS).map_err(database_error)?;
    write_pages(&mut table, &connection)?;
    write_links(&table, &connection)?;
    connection.execute_batch(INDEXES).map_err(database_error)?;
    connection.close().map_err(|(_, error)| database_error(error))?;
    file.0.rewind()?;
    io::copy(&mut file.0, out)?;
    Ok(out.flush()?)
}

/// Writes the tables `pages` and `data`. A page has a row in `data` for each of its items that has a value.
fn write_pages(table: &mut PageTable<'_>, connection: &Connection) -> Result<(), ReadError> {
    let is_data = |column: &Column| matches!(column.source, CellSource::Data(..));
    let (of_data, of_pages): (Vec<_>, Vec<_>) =
        table.columns.iter().cloned().enumerate().partition(|(_, column)| is_data(column));
    let pages = SqlTable::create(connection, "pages", &["id"], &of_pages)?;
    let data = SqlTable::create(connection, "data", &["page_id", "item"], &of_data)?;
    if of_pages.iter().any(|(_, column)| column.name == "url") {
        connection.execute_batch("CREATE INDEX pages_by_url ON pages (url)").map_err(database_error)?;
    }
    let mut insert_page = connection.prepare(&pages.insert).map_err(database_error)?;
    let mut insert_data = connection.prepare(&data.insert).map_err(database_error)?;
    let mut page_id = 0_i64;
    table.numbered_rows(|item, values| {
        if item == 0 {
            page_id += 1;
            let cells = [Cell::integer(page_id)].into_iter().chain(pages.cells(values));
            insert_page.execute(params_from_iter(cells)).map_err(database_error)?;
        }
        if data.positions.iter().any(|(position, _)| values.get(*position).is_some_and(Option::is_some)) {
            let number = i64::try_from(item).unwrap_or(i64::MAX).saturating_add(1);
            let cells = [Cell::integer(page_id), Cell::integer(number)].into_iter().chain(data.cells(values));
            insert_data.execute(params_from_iter(cells)).map_err(database_error)?;
        }
        Ok(())
    })
}

/// Writes the table `links`: every link of every page of the latest round.
fn write_links(table: &PageTable<'_>, connection: &Connection) -> Result<(), ReadError> {
    connection.execute_batch(LINKS).map_err(database_error)?;
    let mut insert = connection.prepare("INSERT INTO links VALUES (?1, ?2, ?3, ?4, ?5)").map_err(database_error)?;
    table.links(|source, edge| {
        let row = params![source, edge.target, edge.kind.as_str(), edge.nofollow, edge.anchor];
        insert.execute(row).map(drop).map_err(database_error)
    })
}

/// A table of the database that has some of the columns of a row.
struct SqlTable {
    /// The statement that inserts a row.
    insert: String,
    /// The position in a row and the kind of each of these columns.
    positions: Vec<(usize, CellKind)>,
}

impl SqlTable {
    /// Creates the table: the keys, which are integers, then the columns.
    fn create(
        connection: &Connection,
        name: &str,
        keys: &[&str],
        columns: &[(usize, Column)],
    ) -> Result<Self, ReadError> {
        let mut names: Vec<String> = keys.iter().map(|key| (*key).to_owned()).collect();
        let mut definitions: Vec<String> = match keys {
            [key] => vec![format!("{key} INTEGER PRIMARY KEY")],
            keys => keys.iter().map(|key| format!("{key} INTEGER NOT NULL")).collect(),
        };
        for (_, column) in columns {
            let column_name = unused_name(&names, column_name(column));
            definitions.push(format!("\"{}\" {}", column_name.replace('"', "\"\""), sql_type(&column.kind)));
            names.push(column_name);
        }
        let create = format!("CREATE TABLE {name} ({})", definitions.join(", "));
        connection.execute_batch(&create).map_err(database_error)?;
        let insert = format!("INSERT INTO {name} VALUES ({})", vec!["?"; names.len()].join(", "));
        let positions = columns.iter().map(|(position, column)| (*position, column.kind.clone())).collect();
        Ok(Self { insert, positions })
    }

    fn cells<'r>(&'r self, values: &'r [Option<Value>]) -> impl Iterator<Item = Cell<'r>> {
        self.positions.iter().map(|(position, kind)| Cell::of(kind, values.get(*position).and_then(Option::as_ref)))
    }
}

/// The name of a column. In the table `data`, it has no prefix. SQLite has no NUL in names.
fn column_name(column: &Column) -> String {
    let name = match &column.source {
        CellSource::Data(field, None) => field.clone(),
        CellSource::Data(field, Some(key)) => format!("{field}_{key}"),
        CellSource::Field(..) | CellSource::Inlinks => column.name.clone(),
    };
    name.replace('\0', "\u{fffd}")
}

/// The name, with a number if another column has it. Names that differ only in the case of ASCII letters are the same.
fn unused_name(names: &[String], name: String) -> String {
    let is_used = |name: &str| names.iter().any(|used| used.eq_ignore_ascii_case(name));
    if !is_used(&name) {
        return name;
    }
    let numbered = (2_u64..).map(|number| format!("{name}_{number}"));
    numbered.into_iter().find(|name| !is_used(name)).unwrap_or(name)
}

/// The declared type. Values of DATE, DATETIME and BOOLEAN are texts and integers; SQLite has no such types of its own.
fn sql_type(kind: &CellKind) -> &'static str {
    match kind {
        CellKind::Integer => "INTEGER",
        CellKind::Float => "REAL",
        CellKind::Flag => "BOOLEAN",
        CellKind::Date => "DATE",
        CellKind::Time => "DATETIME",
        CellKind::Text | CellKind::List(_) | CellKind::Map | CellKind::Struct(_) | CellKind::Json => "TEXT",
    }
}

/// A value of a row.
struct Cell<'r>(ToSqlOutput<'r>);

impl<'r> Cell<'r> {
    fn integer(number: i64) -> Self {
        Self(ToSqlOutput::Owned(SqlValue::Integer(number)))
    }

    fn text(text: Cow<'r, str>) -> Self {
        Self(match text {
            Cow::Borrowed(text) => ToSqlOutput::Borrowed(ValueRef::Text(text.as_bytes())),
            Cow::Owned(text) => ToSqlOutput::Owned(SqlValue::Text(text)),
        })
    }

    /// The value of a column: lists and objects as JSON. An absent flag is false.
    fn of(kind: &CellKind, value: Option<&'r Value>) -> Self {
        match value {
            None | Some(Value::Null) if *kind == CellKind::Flag => Self::integer(0),
            None | Some(Value::Null) => Self(ToSqlOutput::Owned(SqlValue::Null)),
            Some(Value::Bool(flag)) if *kind == CellKind::Flag => Self::integer(i64::from(*flag)),
            Some(Value::String(text)) => Self::text(Cow::Borrowed(text)),
            Some(Value::Number(number)) if matches!(kind, CellKind::Integer | CellKind::Float) => {
                match (kind, number.as_i64(), number.as_f64()) {
                    (CellKind::Integer, Some(integer), _) => Self::integer(integer),
                    (_, _, Some(float)) => Self(ToSqlOutput::Owned(SqlValue::Real(float))),
                    _ => Self::text(Cow::Owned(number.to_string())),
                }
            }
            Some(value) => Self::text(Cow::Owned(value.to_string())),
        }
    }
}

impl rusqlite::ToSql for Cell<'_> {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(self.0.clone())
    }
}

/// An error of SQLite. If its temporary file does not fit, the error names the folder.
fn database_error(error: rusqlite::Error) -> ReadError {
    let kind = match error.sqlite_error_code() {
        Some(ErrorCode::DiskFull) => io::ErrorKind::StorageFull,
        _ => io::ErrorKind::Other,
    };
    ReadError::Output(crate::temporary::in_folder(io::Error::new(kind, error)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_columns_differ_not_only_in_case() {
        let names = ["id", "Price", "price_2"].map(str::to_owned);
        assert_eq!(unused_name(&names, "title".into()), "title");
        assert_eq!(unused_name(&names, "PRICE".into()), "PRICE_3");
        assert_eq!(unused_name(&names, "ID".into()), "ID_2");
    }
}
