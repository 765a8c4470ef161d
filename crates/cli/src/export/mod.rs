//! Exports of a crawl.
//!
//! Invariant: records and bodies are streamed, and sorting is external (`crate::sorted`). Some formats keep a small entry per
//! page in memory: file names (text files, `site`), link counts (CSV, Parquet), digests (text from revisit records).
//!
//! An export takes no lock. If the crawl is running, the export contains the records that are committed when it reads them.

mod archive_files;
mod archive_scan;
mod archived;
#[cfg(feature = "arrow")]
pub mod arrow;
mod cdxj;
pub mod columns;
pub mod csv;
mod data;
mod file_names;
mod file_types;
mod links;
#[cfg(feature = "parquet")]
mod parquet;
mod screenshots;
mod site;
mod sitemap;
#[cfg(feature = "sqlite")]
mod sqlite;
mod surt;
mod texts;
mod wacz;
mod zip;

use std::io::{self, Write};
use std::path::Path;

use argiope_content::{ContentPart, Extraction, TextRequest};
use argiope_core::base::escape::{is_unsafe_char, write_json, write_markup_text};
use argiope_core::crawl::record::LazyRecord;
use argiope_core::crawl::schedule::keeper::Change;

use crate::formats::{Audience, Format};
use crate::records::{self, ReadError};
use crate::results::Results;
use crate::ticker::Ticker;
use crate::wording;

#[cfg(feature = "arrow")]
use arrow::write_arrow;
pub use data::{PageTable, Rows, TableOptions};
#[cfg(feature = "parquet")]
use parquet::write_parquet;
#[cfg(feature = "sqlite")]
use sqlite::write_sqlite;

/// What is exported.
pub struct Export<'a> {
    pub results: &'a Results,
    pub table: TableOptions<'a>,
    pub formulas: csv::Formulas,
    /// The part of pages that texts are of.
    pub part: ContentPart,
    /// The file that is written, if it is not standard output. A sitemap of several files has the others next to it.
    pub file: Option<&'a Path>,
}

/// How a format is written; as a stream of bytes, below a folder, or either.
pub struct ExportWriter {
    pub stream: Option<StreamWriter>,
    /// Returns what the user is told.
    pub folder: Option<FolderWriter>,
}

type StreamWriter = fn(&Export<'_>, &mut (dyn Write + Send)) -> Result<(), ReadError>;
type FolderWriter = fn(&Export<'_>, &Path) -> Result<String, ReadError>;

/// The flags of formats that have the data of pages.
const DATA: &[&str] = &["extract", "status"];

/// The flags of tables of pages.
const TABLE: &[&str] = &["extract", "status", "columns", "rows"];

/// The formats of `argiope export`.
pub const FORMATS: &[Format<ExportWriter>] = &[
    Format {
        flags: DATA,
        ..stream("jsonl", "JSON Lines, one object per record", |export, out| {
            let TableOptions { rules, changes, .. } = export.table;
            match rules {
                Some(rules) => jsonl_extracted(export.results, rules, changes, out),
                None => jsonl(export.results, changes, out),
            }
        })
    },
    Format {
        flags: &["extract", "status", "columns", "rows", "raw-csv"],
        ..stream("csv", "Table of pages for spreadsheets", |export, out| {
            csv::csv(PageTable::open(export.results, export.table)?, export.formulas, out)
        })
    },
    Format {
        audience: Audience::BinaryProgram,
        flags: TABLE,
        ..stream("parquet", "Table of pages for DuckDB, Spark and similar tools", |export, out| {
            write_parquet(PageTable::open(export.results, export.table)?, out)
        })
    },
    Format {
        audience: Audience::BinaryProgram,
        flags: TABLE,
        ..stream("arrow", "Table of pages for pyarrow, polars and DuckDB, as a stream of Arrow IPC", |export, out| {
            write_arrow(PageTable::open(export.results, export.table)?, out)
        })
    },
    Format {
        audience: Audience::BinaryProgram,
        flags: TABLE,
        ..stream("sqlite", "Database of SQLite with the tables pages, links and data", |export, out| {
            write_sqlite(PageTable::open(export.results, export.table)?, out)
        })
    },
    Format {
        flags: &["raw-csv"],
        ..stream("links", "Link graph as CSV", |export, out| links::links(export.results, export.formulas, out))
    },
    stream("graphml", "Link graph as GraphML", |export, out| links::graphml(export.results, out)),
    stream("sitemap", "Sitemap of the pages found", |export, out| sitemap::sitemap(export.results, out, export.file)),
    stream("cdxj", "Index of the WARC archives", |export, out| cdxj::cdxj(export.results, out)),
    Format {
        name: "text",
        help: "The main text of pages; one file per page with -o DIR/, JSON Lines otherwise",
        audience: Audience::Program,
        flags: &["content", "status"],
        write: ExportWriter {
            stream: Some(|export, out| {
                texts::text_lines(export.results, &export.text(false), export.table.changes, out)
            }),
            folder: Some(|export, folder| text_files(export, false, folder)),
        },
    },
    Format {
        name: "markdown",
        help: "The main text of pages as Markdown; one file per page with -o DIR/, JSON Lines otherwise",
        audience: Audience::Program,
        flags: &["content", "status"],
        write: ExportWriter {
            stream: Some(|export, out| {
                texts::text_lines(export.results, &export.text(true), export.table.changes, out)
            }),
            folder: Some(|export, folder| text_files(export, true, folder)),
        },
    },
    Format {
        name: "site",
        help: "A folder that opens in a browser offline (-o DIR/); needs a crawl with --warc --assets",
        audience: Audience::Reader,
        flags: &[],
        write: ExportWriter { stream: None, folder: Some(|export, folder| site::site(export.results, folder)) },
    },
    Format {
        name: "screenshots",
        help: "Pictures of rendered pages, one PNG file per page (-o DIR/); needs a crawl with --warc --screenshot",
        audience: Audience::Reader,
        flags: &[],
        write: ExportWriter {
            stream: None,
            folder: Some(|export, folder| screenshots::screenshots(export.results, folder)),
        },
    },
    Format {
        audience: Audience::BinaryProgram,
        ..stream(
            "wacz",
            "Archives, index and pages in one file, for replay (WACZ); needs a crawl with --warc",
            |export, out| wacz::wacz(export.results, out),
        )
    },
];

/// A format that is a stream of text for programs.
const fn stream(name: &'static str, help: &'static str, write: StreamWriter) -> Format<ExportWriter> {
    let write = ExportWriter { stream: Some(write), folder: None };
    Format { name, help, audience: Audience::Program, flags: &[], write }
}

impl Export<'_> {
    fn text(&self, markdown: bool) -> TextRequest {
        TextRequest { part: self.part.clone(), plain: !markdown, markdown }
    }
}

fn text_files(export: &Export<'_>, markdown: bool, folder: &Path) -> Result<String, ReadError> {
    let count = texts::text_files(export.results, &export.text(markdown), export.table.changes, folder)?;
    Ok(wording::plural(count, "file"))
}

/// Writes the pages of a finished crawl as CSV, with the data that the crawl has extracted.
pub fn pages_csv(results: &Results, formulas: csv::Formulas, out: &mut dyn Write) -> Result<(), ReadError> {
    csv::csv(PageTable::open(results, TableOptions::default())?, formulas, out)
}

/// How pages of the last round that were fetched differ from the archive.
#[derive(Debug, Default)]
pub struct ArchiveGaps {
    /// Number of pages that are not in the archive.
    pub missing: u64,
    /// Number of pages that were rendered, and that the archive has without what their scripts made.
    pub rendered: u64,
}

impl ArchiveGaps {
    pub fn of(results: &Results) -> Result<Self, ReadError> {
        let mut gaps = Self::default();
        results.latest_pages(|record| {
            let (is_success, is_archived) = (record.is_success(), record.warc.is_some());
            gaps.missing += u64::from(is_success && !is_archived);
            let has_document = record.render.as_ref().is_some_and(|facts| facts.without_scripts.is_some());
            let is_document_archived = record.warc.as_ref().is_some_and(|warc| warc.rendered_document().is_some());
            gaps.rendered += u64::from(is_success && is_archived && has_document && !is_document_archived);
            Ok(())
        })?;
        Ok(gaps)
    }
}

/// Calls `each` with the records of all rounds, or with those pages of the latest round that have one of these changes.
fn lines(
    results: &Results,
    changes: &[Change],
    mut each: impl FnMut(&[u8]) -> Result<(), ReadError>,
) -> Result<(), ReadError> {
    let mut ticker = Ticker::start();
    if changes.is_empty() {
        return results.lines(|line| {
            ticker.advance();
            each(line)
        });
    }
    results.latest_page_lines(|line| {
        ticker.advance();
        if has_change(&records::read_lazily(line)?, changes) { each(line) } else { Ok(()) }
    })
}

/// Whether a page has one of these changes since the previous round. In the first round, every page is new. Without
/// `changes`, every page is meant.
pub fn has_change(record: &LazyRecord<'_>, changes: &[Change]) -> bool {
    is_among(record.change(), changes)
}

/// Whether a change is one of these; every change is if there are none.
fn is_among(change: Option<Change>, changes: &[Change]) -> bool {
    changes.is_empty() || changes.contains(&change.unwrap_or(Change::New))
}

/// Writes the records of all rounds unchanged: runs, pages, robots.txt and sitemaps.
fn jsonl(results: &Results, changes: &[Change], out: &mut dyn Write) -> Result<(), ReadError> {
    lines(results, changes, |line| {
        out.write_all(line)?;
        Ok(out.write_all(b"\n")?)
    })?;
    Ok(out.flush()?)
}

/// Like [`jsonl`], with the data of pages extracted from the archive now.
fn jsonl_extracted(
    results: &Results,
    rules: &Extraction,
    changes: &[Change],
    out: &mut dyn Write,
) -> Result<(), ReadError> {
    let mut archive = archived::ArchivedPages::open(results)?;
    lines(results, changes, |line| {
        let record = records::read(line)?;
        let mut json: serde_json::Map<String, serde_json::Value> =
            serde_json::from_slice(line).map_err(std::io::Error::other)?;
        if record.is_page() {
            json.remove("data");
            if let Some(data) = data::extract_from(rules, &mut archive, &record)? {
                json.insert("data".into(), data.into());
            }
        }
        let mut bytes = Vec::new();
        write_json(&mut bytes, &json).map_err(std::io::Error::other)?;
        bytes.push(b'\n');
        Ok(out.write_all(&bytes)?)
    })?;
    Ok(out.flush()?)
}

#[cfg(not(feature = "parquet"))]
fn write_parquet(_table: PageTable<'_>, _out: &mut (dyn Write + Send)) -> Result<(), ReadError> {
    Err(left_out("Parquet", "parquet"))
}

#[cfg(not(feature = "arrow"))]
fn write_arrow(_table: PageTable<'_>, _out: &mut (dyn Write + Send)) -> Result<(), ReadError> {
    Err(left_out("Arrow", "arrow"))
}

#[cfg(not(feature = "sqlite"))]
fn write_sqlite(_table: PageTable<'_>, _out: &mut (dyn Write + Send)) -> Result<(), ReadError> {
    Err(left_out("SQLite", "sqlite"))
}

/// The error of a format that this build cannot write.
#[cfg(not(all(feature = "arrow", feature = "parquet", feature = "sqlite")))]
fn left_out(format: &str, feature: &str) -> ReadError {
    ReadError::Usage(format!(
        "this program was built without {format}; build it with the cargo feature `{feature}`, or use --format csv"
    ))
}

/// The error of writing one file of an export that has several, with the name of that file.
fn of_file(path: &Path, error: io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{}: {error}", path.display()))
}

/// Text escaped for XML, in or out of attributes. Characters that XML does not allow are dropped.
struct Xml<'a>(&'a str);

impl std::fmt::Display for Xml<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        use std::fmt::Write as _;
        write_markup_text(f, self.0, |f, c| match c {
            '\t' | '\n' | '\r' => write!(f, "&#{};", u32::from(c)),
            '\0'..='\x1f' | '\u{fffe}' | '\u{ffff}' => Ok(()),
            c if is_unsafe_char(c) => write!(f, "&#x{:x};", u32::from(c)),
            c => f.write_char(c),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_in_xml_is_escaped() {
        assert_eq!(Xml("a<b>&\"'\0\x1b\n\u{9b}").to_string(), "a&lt;b&gt;&amp;&quot;&#39;&#10;&#x9b;");
    }
}
