//! `argiope export DIR --format F`: a crawl in the forms that other programs read.
//!
//! Invariant: a file that is there is replaced only by a whole export.

use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use crate::export;
use crate::records::ReadError;
use argiope_runtime::atomic_file::AtomicFile;
use clap::{Args, ValueEnum};

use super::{FAILED, print_error};
use crate::flags::config_file::UsageError;
use argiope_core::output::escape::visible;

/// Bytes are collected up to this before they are written.
const BUFFER: usize = 64 << 10;

#[derive(Args, Debug, PartialEq, Eq)]
#[command(after_help = "Examples:
  argiope export ./example.com.crawl --format csv -o pages.csv
  argiope export ./example.com.crawl --format links -o graph.graphml
      the graph as GraphML; any other name gets CSV")]
pub struct ExportArgs {
    /// The crawl directory
    #[arg(value_name = "DIR")]
    pub directory: PathBuf,
    #[arg(long, value_name = "FORMAT")]
    pub format: ExportFormat,
    /// Write to this file instead of standard output
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
}

#[derive(ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExportFormat {
    /// One JSON object a line
    Jsonl,
    /// A table, for spreadsheets
    Csv,
    /// A table, for DuckDB, Spark and the like
    Parquet,
    /// The graph: which page links to which, as CSV
    Links,
    /// The graph as GraphML
    Graphml,
    /// A sitemap of what was found
    Sitemap,
    /// An index of the archives
    Cdxj,
}

/// Writes the export where it was asked for.
pub fn run(args: &ExportArgs) -> Result<ExitCode, UsageError> {
    let done = match &args.output {
        Some(path) if path != Path::new("-") => to_file(args, path),
        _ => {
            let opened = super::standard_output::open().map_err(ReadError::Output);
            let written = opened.and_then(|out| write(args, None, &mut BufWriter::with_capacity(BUFFER, out)));
            written.map_err(|fault| (fault, "standard output".to_owned()))
        }
    };
    match done {
        Ok(()) => Ok(ExitCode::SUCCESS),
        Err((fault, _)) if fault.is_broken_pipe() => Ok(ExitCode::SUCCESS),
        Err((fault, name)) => {
            let why = match fault {
                ReadError::Output(error) => format!("{name} cannot be written: {error}"),
                fault => fault.to_string(),
            };
            print_error(&visible(&why));
            Ok(ExitCode::from(FAILED))
        }
    }
}

/// Aside first, then under its name. Devices and pipes are written to as they are.
fn to_file(args: &ExportArgs, path: &Path) -> Result<(), (ReadError, String)> {
    let export = || -> Result<(), ReadError> {
        let mut out = BufWriter::with_capacity(BUFFER, AtomicFile::create(path)?);
        write(args, Some(path), &mut out)?;
        let aside = out.into_inner().map_err(io::IntoInnerError::into_error)?;
        Ok(aside.place()?)
    };
    export().map_err(|fault| (fault, path.display().to_string()))
}

fn write(args: &ExportArgs, path: Option<&Path>, out: &mut (impl Write + Send)) -> Result<(), ReadError> {
    let directory = &args.directory;
    let is_graphml = path.and_then(Path::extension).is_some_and(|end| end.eq_ignore_ascii_case("graphml"));
    match args.format {
        ExportFormat::Jsonl => export::jsonl(directory, out),
        ExportFormat::Csv => export::csv(directory, out),
        ExportFormat::Parquet => export::parquet(directory, out),
        ExportFormat::Links if is_graphml => export::graphml(directory, out),
        ExportFormat::Links => export::links(directory, out),
        ExportFormat::Graphml => export::graphml(directory, out),
        ExportFormat::Sitemap => export::sitemap(directory, out, path),
        ExportFormat::Cdxj => export::cdxj(directory, out),
    }
}
