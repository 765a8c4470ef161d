//! `argiope export DIR --format F`: writes a crawl in formats that other programs read.
//!
//! Invariant: an existing file is replaced only by a complete export.

use std::io::{self, BufWriter, IsTerminal as _, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use crate::export::csv::Formulas;
use crate::export::{self, PageTable, Rows, TableOptions};
use crate::records::ReadError;
use crate::results::Results;
use argiope_runtime::atomic_file::AtomicFile;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, ValueEnum};

use super::{FAILED, print_error};
use crate::flags::config_file::UsageError;
use crate::locale::localized;
use crate::wording;
use argiope_content::{Extraction, TextRequest};
use argiope_core::base::escape::visible;
use argiope_core::crawl::schedule::keeper::Change;
use argiope_runtime::content_reader;

/// Size of the write buffer.
const BUFFER: usize = 64 << 10;

#[derive(Args, Debug, PartialEq, Eq)]
#[command(after_help = "Examples:
  argiope export ./example.com.crawl --format csv -o pages.csv
  argiope export ./example.com.crawl --format csv --extract price=.price -o prices.csv
  argiope export ./example.com.crawl --format csv --columns url,data.* --rows data -o data.csv
  argiope export ./example.com.crawl --format jsonl --status new,changed
      after a --recrawl: the pages that are new or different
      a table of the extracted data only
  argiope export ./example.com.crawl --format markdown -o pages/
      one Markdown file per page; needs a crawl with --warc
  argiope export ./example.com.crawl --format site -o copy/
      a folder that opens in a browser offline; needs a crawl with --warc --assets
  argiope export ./example.com.crawl --format links -o graph.graphml
      the link graph as GraphML; without .graphml in the name, as CSV")]
pub struct ExportArgs {
    /// The crawl directory
    #[arg(value_name = "DIR")]
    pub directory: PathBuf,
    /// Format of the output
    #[arg(long, value_name = "FORMAT")]
    pub format: ExportFormat,
    /// Write to this file instead of standard output; for text, markdown and site to a folder, such as pages/
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Extract a field from every archived page, as crawl does; for jsonl, csv and parquet (repeatable)
    #[arg(long, value_name = "NAME=SELECTOR")]
    pub extract: Vec<String>,
    /// Extract fields from archived pages by the rules in a TOML file
    #[arg(long, value_name = "FILE")]
    pub extract_file: Option<PathBuf>,
    /// For text and markdown: the part of a page, which is main, full or a CSS selector
    ///
    /// `main` is the main content without navigation, footers and banners. `full` is the whole page in reading order,
    /// without scripts and styles. A selector gives the elements that it matches; the element `main` is `:is(main)`.
    #[arg(long, value_name = "PART", default_value = "main")]
    pub content: String,
    /// For csv and links: write cells that a spreadsheet would run as formulas unchanged
    ///
    /// By default they get a leading apostrophe. Control characters are escaped in any case.
    #[arg(long)]
    pub raw_csv: bool,
    /// For csv and parquet: these columns in this order, such as url,title,data.* (see the book for all names)
    ///
    /// data.price is a field of extracted data, data.* are all of them.
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    pub columns: Vec<String>,
    /// For csv and parquet: what the rows are [default: items]
    #[arg(long, value_name = "ROWS", hide_default_value = true, default_value = "items")]
    pub rows: Rows,
    /// For jsonl, csv and parquet: only pages of the latest round with these changes, such as new,changed
    ///
    /// Pages of the first round are new.
    #[arg(long, value_name = "STATUS", value_delimiter = ',', value_parser = change_parser())]
    pub status: Vec<Change>,
}

/// Parses a change. Help lists the words.
fn change_parser() -> impl TypedValueParser<Value = Change> {
    let words = ["new", "changed", "gone", "same"];
    PossibleValuesParser::new(words).try_map(|word| serde_json::from_value::<Change>(word.into()))
}

#[derive(ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExportFormat {
    /// JSON Lines, one object per record
    Jsonl,
    /// Table of pages for spreadsheets
    Csv,
    /// Table of pages for DuckDB, Spark and similar tools
    Parquet,
    /// Link graph as CSV
    Links,
    /// Link graph as GraphML
    Graphml,
    /// Sitemap of the pages found
    Sitemap,
    /// Index of the WARC archives
    Cdxj,
    /// The main text of pages; one file per page with -o DIR/, JSON Lines otherwise
    Text,
    /// The main text of pages as Markdown; one file per page with -o DIR/, JSON Lines otherwise
    Markdown,
    /// A folder that opens in a browser offline (-o DIR/); needs a crawl with --warc --assets
    Site,
    /// Archives, index and pages in one file, for replay (WACZ); needs a crawl with --warc
    Wacz,
}

/// Writes the export to a file, a folder or standard output.
pub fn run(args: &ExportArgs) -> Result<ExitCode, UsageError> {
    let rules = content_reader::extraction(&args.extract, args.extract_file.as_deref())?;
    let can_extract = matches!(args.format, ExportFormat::Jsonl | ExportFormat::Csv | ExportFormat::Parquet);
    if !rules.is_empty() && !can_extract {
        return Err(UsageError("--extract is for --format jsonl, csv and parquet".to_owned()));
    }
    if args.raw_csv && !writes_csv(args) {
        return Err(UsageError("--raw-csv is for --format csv and links".to_owned()));
    }
    let text = text_request(args)?;
    let is_table = matches!(args.format, ExportFormat::Csv | ExportFormat::Parquet);
    if !is_table && (!args.columns.is_empty() || args.rows != Rows::default()) {
        return Err(UsageError("--columns and --rows are for --format csv and parquet".to_owned()));
    }
    if !can_extract && !args.status.is_empty() {
        return Err(UsageError("--status is for --format jsonl, csv and parquet".to_owned()));
    }
    let rules = Some(&rules).filter(|rules| !rules.is_empty());
    let exported = match &args.output {
        Some(path) if args.format == ExportFormat::Site && path != Path::new("-") => export_site(args, path),
        _ if args.format == ExportFormat::Site => {
            return Err(UsageError("--format site writes a folder: add -o DIR/".to_owned()));
        }
        Some(path) if text.is_some() && is_folder(path) => export_to_folder(args, text.as_ref(), path),
        Some(path) if path != Path::new("-") => export_to_file(args, (rules, text.as_ref()), path),
        _ if args.format == ExportFormat::Parquet && io::stdout().is_terminal() => {
            let why =
                "Parquet is a binary format and is not written to a terminal; give -o FILE, or redirect the output";
            return Err(UsageError(why.to_owned()));
        }
        _ => {
            let opened = super::standard_output::open().map_err(ReadError::Output);
            let written = opened
                .and_then(|out| write(args, (rules, text.as_ref()), None, &mut BufWriter::with_capacity(BUFFER, out)));
            written.map_err(|error| (error, "standard output".to_owned()))
        }
    };
    let reads_archive = rules.is_some() || args.format == ExportFormat::Site || text.is_some();
    match exported.and_then(|()| if reads_archive { tell_unarchived(args) } else { Ok(()) }) {
        Ok(()) => Ok(ExitCode::SUCCESS),
        Err((error, _)) if error.is_broken_pipe() => Ok(ExitCode::SUCCESS),
        Err((ReadError::Usage(why), _)) => Err(UsageError(why)),
        Err((error, name)) => {
            let why = match error {
                ReadError::Output(error) => format!("{name} cannot be written: {error}"),
                error => error.to_string(),
            };
            print_error(&visible(&why));
            Ok(ExitCode::from(FAILED))
        }
    }
}

/// Tells the user how many pages are missing in the export, because the last round fetched them without `--warc`.
fn tell_unarchived(args: &ExportArgs) -> Result<(), (ReadError, String)> {
    let count = export::unarchived_pages(&results(args)).map_err(|error| (error, "standard error".to_owned()))?;
    if count > 0 {
        let pages = wording::plural(count, "page");
        // Ignored: if standard error is closed, the message has no reader.
        let _ = writeln!(io::stderr(), "left out: {pages} of the last round, which did not use --warc");
    }
    Ok(())
}

/// Writes to a temporary file and renames it. Devices and pipes are written directly. An error is returned together with
/// the name of the target.
fn export_to_file(args: &ExportArgs, what: Wanted<'_>, path: &Path) -> Result<(), (ReadError, String)> {
    let export = || -> Result<(), ReadError> {
        results(args).check()?;
        let mut out = BufWriter::with_capacity(BUFFER, AtomicFile::create_output(path)?);
        write(args, what, Some(path), &mut out)?;
        let file = out.into_inner().map_err(io::IntoInnerError::into_error)?;
        Ok(file.rename_into_place()?)
    };
    export().map_err(|error| (error, path.display().to_string()))
}

/// The text that is wanted, for the formats that contain only that.
fn text_request(args: &ExportArgs) -> Result<Option<TextRequest>, UsageError> {
    let part = content_reader::content_part(&args.content)?;
    match args.format {
        ExportFormat::Text => Ok(Some(TextRequest { part, plain: true, markdown: false })),
        ExportFormat::Markdown => Ok(Some(TextRequest { part, plain: false, markdown: true })),
        _ if args.content != "main" => Err(UsageError("--content is for --format text and markdown".to_owned())),
        _ => Ok(None),
    }
}

fn results(args: &ExportArgs) -> Results {
    Results::at(&args.directory)
}

/// Whether the output is a CSV table.
fn writes_csv(args: &ExportArgs) -> bool {
    match args.format {
        ExportFormat::Csv => true,
        ExportFormat::Links => !args.output.as_deref().is_some_and(is_graphml),
        _ => false,
    }
}

/// Whether the name of a file chooses GraphML for the link graph.
fn is_graphml(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("graphml"))
}

/// Whether a path names a folder: it ends with a slash, or is one.
fn is_folder(path: &Path) -> bool {
    path.as_os_str().as_encoded_bytes().ends_with(b"/") || path.is_dir()
}

/// Writes one file per page.
fn export_to_folder(args: &ExportArgs, text: Option<&TextRequest>, folder: &Path) -> Result<(), (ReadError, String)> {
    let Some(text) = text else { return Ok(()) };
    let written = export::text_files(&results(args), text, folder);
    let count = written.map_err(|error| (error, folder.display().to_string()))?;
    // Ignored: if standard error is closed, the message has no reader.
    let _ = writeln!(io::stderr(), "{}: {}", visible(&folder.display().to_string()), wording::plural(count, "file"));
    Ok(())
}

/// Writes a folder that opens in a browser.
fn export_site(args: &ExportArgs, folder: &Path) -> Result<(), (ReadError, String)> {
    let name = folder.display().to_string();
    let count = export::site(&results(args), folder).map_err(|error| (error, name.clone()))?;
    let mut message = format!("{}: {}", visible(&name), wording::plural(count.files, "file"));
    if count.missing > 0 {
        let are = if count.missing == 1 { "is" } else { "are" };
        let missing = wording::plural(count.missing, "resource");
        message.push_str(&format!("; {missing} {are} not in the archive (crawl with --assets to fetch them)"));
    }
    // Ignored: if standard error is closed, the message has no reader.
    let _ = writeln!(io::stderr(), "{}", localized(&message));
    Ok(())
}

/// The rules by which fields are extracted, and the text that is wanted.
type Wanted<'a> = (Option<&'a Extraction>, Option<&'a TextRequest>);

/// Writes the export to `out`. `path` is the file, if the output is one.
fn write(
    args: &ExportArgs,
    (rules, text): Wanted<'_>,
    path: Option<&Path>,
    out: &mut (impl Write + Send),
) -> Result<(), ReadError> {
    let results = &results(args);
    if let Some(text) = text {
        return export::text_lines(results, text, out);
    }
    let formulas = Formulas::from_flag(args.raw_csv);
    let options = TableOptions { rules, columns: &args.columns, rows: args.rows, changes: &args.status };
    let table = || PageTable::open(results, options);
    match args.format {
        ExportFormat::Jsonl => match rules {
            Some(rules) => export::jsonl_extracted(results, rules, &args.status, out),
            None => export::jsonl(results, &args.status, out),
        },
        ExportFormat::Csv => export::csv(table()?, formulas, out),
        ExportFormat::Parquet => export::parquet(table()?, out),
        ExportFormat::Links if path.is_some_and(is_graphml) => export::graphml(results, out),
        ExportFormat::Links => export::links(results, formulas, out),
        ExportFormat::Graphml => export::graphml(results, out),
        ExportFormat::Sitemap => export::sitemap(results, out, path),
        ExportFormat::Cdxj => export::cdxj(results, out),
        ExportFormat::Wacz => export::wacz(results, out),
        // `run` calls `export_site` for the first, and the others have a text.
        ExportFormat::Site | ExportFormat::Text | ExportFormat::Markdown => {
            Err(ReadError::Refused("a site is a folder, not a file".to_owned()))
        }
    }
}
