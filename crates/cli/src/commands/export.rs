//! `argiope export DIR --format F`: writes a crawl in formats that other programs read.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use argiope_core::base::escape::{pretty_json, visible};
use argiope_core::crawl::rules::Config;
use argiope_core::crawl::schedule::keeper::Change;
use argiope_core::crawl::settings::EXPORT;
use argiope_runtime::content_reader;
use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};

use super::output::{Output, OutputFault};
use super::push;
use crate::export::csv::Formulas;
use crate::export::{ArchiveGaps, Export, ExportWriter, FORMATS, Rows, TableOptions};
use crate::flags::SettingFlags;
use crate::flags::config_file::UsageError;
use crate::flags::settings::CommandIo;
use crate::formats::{self, Audience, Format};
use crate::locale::localized;
use crate::records::ReadError;
use crate::results::Results;
use crate::wording;

/// The part of pages that texts are of by default.
const MAIN: &str = "main";

#[derive(Args, Debug)]
#[command(after_help = "Examples:
  argiope export ./example.com.crawl --format csv -o pages.csv
  argiope export ./example.com.crawl --format csv --extract price=.price -o prices.csv
  argiope export ./example.com.crawl --format csv --columns url,data.* --rows data -o data.csv
      a table of the extracted data only
  argiope export --print-schema --extract-file shop.toml
      the types of what the rules extract, as JSON Schema
  argiope export ./example.com.crawl --format jsonl --status new,changed
      after a --recrawl: the pages that are new or different
  argiope export ./example.com.crawl --format markdown -o pages/
      one Markdown file per page; needs a crawl with --warc
  argiope export ./example.com.crawl --format site -o copy/
      a folder that opens in a browser offline; needs a crawl with --warc --assets
  argiope export ./example.com.crawl --format sqlite -o pages.sqlite
      a database with pages, links and extracted data
  argiope export ./example.com.crawl --to https://receiver.example/records
      sends the records of all pages over HTTP, each until it is acknowledged
  argiope export ./example.com.crawl --format links -o graph.graphml
      the link graph as GraphML; without .graphml in the name, as CSV")]
pub struct ExportArgs {
    /// The crawl directory
    #[arg(value_name = "DIR", required_unless_present = "print_schema")]
    pub directory: Option<PathBuf>,
    /// Format of the output
    #[arg(long, conflicts_with = "to", value_name = "FORMAT", value_parser = formats::parser(FORMATS), required_unless_present_any = ["to", "print_schema"])]
    pub format: Option<&'static Format<ExportWriter>>,
    /// Write to this file instead of standard output; for text, markdown and site to a folder, such as pages/
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Extract a field from every archived page, as crawl does; for jsonl and tables (repeatable)
    #[arg(long, value_name = "NAME=SELECTOR")]
    pub extract: Vec<String>,
    /// Extract fields from archived pages by the rules in a TOML file
    #[arg(long, value_name = "FILE")]
    pub extract_file: Option<PathBuf>,
    /// Print the JSON Schema of the data that these rules extract, and exit; needs no crawl
    #[arg(long, conflicts_with_all = ["directory", "format", "to"])]
    pub print_schema: bool,
    /// For text and markdown: the part of a page, which is main, full or a CSS selector
    ///
    /// `main` is the main content without navigation, footers and banners. `full` is the whole page in reading order,
    /// without scripts and styles. A selector gives the elements that it matches; the element `main` is `:is(main)`.
    #[arg(long, value_name = "PART", default_value = MAIN)]
    pub content: String,
    /// For csv and links: write cells that a spreadsheet would run as formulas unchanged
    ///
    /// By default they get a leading apostrophe. Control characters are escaped in any case.
    #[arg(long)]
    pub raw_csv: bool,
    /// For tables (csv, parquet, arrow, sqlite): these columns in this order, such as url,title,data.* (see the book for all names)
    ///
    /// data.price is a field of extracted data, data.* are all of them.
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    pub columns: Vec<String>,
    /// For tables: what the rows are [default: items]
    #[arg(long, value_name = "ROWS", hide_default_value = true, default_value = "items")]
    pub rows: Rows,
    /// For jsonl, tables, text, markdown and --to: only pages of the latest round with these changes, such as new,changed
    ///
    /// Pages of the first round are new.
    #[arg(long, value_name = "STATUS", value_delimiter = ',', value_parser = change_parser())]
    pub status: Vec<Change>,
    #[command(flatten)]
    push: SettingFlags<CommandIo, EXPORT>,
    #[command(flatten)]
    network: SettingFlags<Config, EXPORT>,
}

impl ExportArgs {
    /// Always present here: clap requires it unless the schema of rules is printed.
    fn directory(&self) -> &Path {
        self.directory.as_deref().unwrap_or(Path::new("."))
    }
}

/// Parses a change. Help lists the words.
fn change_parser() -> impl TypedValueParser<Value = Change> {
    let words = ["new", "changed", "gone", "same"];
    PossibleValuesParser::new(words).try_map(|word| serde_json::from_value::<Change>(word.into()))
}

/// Writes the export to a file, a folder or standard output.
pub fn run(args: &ExportArgs) -> Result<ExitCode, UsageError> {
    if args.print_schema {
        return print_schema(args);
    }
    let Some(wanted) = args.format else { return push_records(args) };
    let output = Output::of(args.output.as_deref());
    let format = match output.file().filter(|_| wanted.name == "links").and_then(Path::extension) {
        Some(extension) if extension.eq_ignore_ascii_case("graphml") => Format::named(FORMATS, "graphml"),
        _ => None,
    };
    let format = format.unwrap_or(wanted);
    let rules = content_reader::extraction(&args.extract, args.extract_file.as_deref())?;
    let flags = [
        ("extract", !rules.is_empty()),
        ("content", args.content != MAIN),
        ("raw-csv", args.raw_csv),
        ("columns", !args.columns.is_empty()),
        ("rows", args.rows != Rows::default()),
        ("status", !args.status.is_empty()),
    ];
    format.check_flags(FORMATS, &flags).map_err(UsageError)?;
    let rules = Some(&rules).filter(|rules| !rules.is_empty());
    let export = Export {
        results: &Results::at(args.directory()),
        table: TableOptions { rules, columns: &args.columns, rows: args.rows, changes: &args.status },
        formulas: Formulas::from_flag(args.raw_csv),
        part: content_reader::content_part(&args.content)?,
        file: output.file(),
    };
    let written = match (format.write.folder, format.write.stream, output.folder(), output.file()) {
        // A format that is only a folder may name one that does not exist.
        (Some(write), _, Some(folder), _) | (Some(write), None, None, Some(folder)) => {
            write(&export, folder).map_err(|error| output.fault(error)).map(|message| {
                let folder = folder.display().to_string();
                tell(&format!("{}: {message}", visible(&folder)));
            })
        }
        (_, Some(write), _, _) => export.results.check().map_err(|error| output.fault(error)).and_then(|()| {
            output.write(format.audience, |out| write(&export, out))?;
            Ok(())
        }),
        _ => {
            return Err(UsageError(format!("--format {} writes a folder: add -o DIR/", format.name)));
        }
    };
    // Formats that can be a folder, and extracted data, consist of archived pages.
    let reads_archive = rules.is_some() || format.write.folder.is_some();
    let told = written.and_then(|()| match reads_archive {
        true => tell_gaps(export.results).map_err(|error| output.fault(error)),
        false => Ok(()),
    });
    told.map_or_else(OutputFault::print, |()| Ok(ExitCode::SUCCESS))
}

/// Prints the JSON Schema of what the rules extract.
fn print_schema(args: &ExportArgs) -> Result<ExitCode, UsageError> {
    let rules = content_reader::extraction(&args.extract, args.extract_file.as_deref())?;
    if rules.is_empty() {
        return Err(UsageError(
            "--print-schema needs rules: add --extract-file FILE or --extract NAME=SELECTOR".into(),
        ));
    }
    let text = pretty_json(&rules.json_schema()) + "\n";
    let output = Output::of(args.output.as_deref());
    let written = output.write_all(Audience::Program, text.as_bytes());
    written.map_or_else(OutputFault::print, |_| Ok(ExitCode::SUCCESS))
}

/// Sends the records to a receiver.
fn push_records(args: &ExportArgs) -> Result<ExitCode, UsageError> {
    let others = [
        ("extract", !args.extract.is_empty() || args.extract_file.is_some()),
        ("output", args.output.is_some()),
        ("columns", !args.columns.is_empty()),
        ("rows", args.rows != Rows::default()),
        ("raw-csv", args.raw_csv),
        ("content", args.content != MAIN),
    ];
    if let Some((flag, _)) = others.into_iter().find(|(_, is_given)| *is_given) {
        return Err(UsageError(format!("--{flag} has no effect on --to, which sends records as they are")));
    }
    let (mut io, mut config) = (CommandIo::default(), Config::default());
    args.push.apply_to(&mut io)?;
    args.network.apply_to(&mut config)?;
    if config.insecure {
        super::warn_insecure();
    }
    push::export(&Results::at(args.directory()), &io, &args.status, &config)
}

/// Tells the user how many pages are missing in the export, because the last round fetched them without `--warc`, and how
/// many are in it without what their scripts made.
fn tell_gaps(results: &Results) -> Result<(), ReadError> {
    let ArchiveGaps { missing, rendered } = ArchiveGaps::of(results)?;
    if missing > 0 {
        let pages = wording::plural(missing, "page");
        tell(&format!("left out: {pages} of the last round, which did not use --warc"));
    }
    if rendered > 0 {
        let pages = wording::plural(rendered, "rendered page");
        tell(&format!("without what scripts made: {pages}; the archive has the responses of the servers"));
    }
    Ok(())
}

fn tell(message: &str) {
    // Ignored: if standard error is closed, the message has no reader.
    let _ = writeln!(io::stderr(), "{}", localized(message));
}
