//! `argiope export DIR --format F`: a crawl in the forms that other programs read.
//!
//! Invariant: a file that is there is replaced only by a whole export.

use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use crate::export;
use crate::history::Fault;
use argiope_runtime::atomic_file::AtomicFile;
use clap::{Args, ValueEnum};

use super::config::Usage;
use super::escape::visible;
use super::{FAILED, complain};

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
    pub format: Format,
    /// Write to this file instead of standard output
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
}

#[derive(ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
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
pub fn run(args: &ExportArgs) -> Result<ExitCode, Usage> {
    let done = match &args.output {
        Some(path) if path != Path::new("-") => to_file(args, path),
        _ => {
            let mut out = BufWriter::with_capacity(BUFFER, io::stdout());
            write(args, None, &mut out).map_err(|fault| (fault, "standard output".to_owned()))
        }
    };
    match done {
        Ok(()) => Ok(ExitCode::SUCCESS),
        Err((fault, _)) if fault.is_broken_pipe() => Ok(ExitCode::SUCCESS),
        Err((fault, name)) => {
            let why = match fault {
                Fault::Output(error) => format!("{name} cannot be written: {error}"),
                fault => fault.to_string(),
            };
            complain(&visible(&why));
            Ok(ExitCode::from(FAILED))
        }
    }
}

/// Aside first, then under its name. Devices and pipes are written to as they are.
fn to_file(args: &ExportArgs, path: &Path) -> Result<(), (Fault, String)> {
    let export = || -> Result<(), Fault> {
        let mut out = BufWriter::with_capacity(BUFFER, AtomicFile::create(path)?);
        write(args, Some(path), &mut out)?;
        let aside = out.into_inner().map_err(io::IntoInnerError::into_error)?;
        Ok(aside.place()?)
    };
    export().map_err(|fault| (fault, path.display().to_string()))
}

fn write(args: &ExportArgs, path: Option<&Path>, out: &mut (impl Write + Send)) -> Result<(), Fault> {
    let directory = &args.directory;
    let is_graphml = path.and_then(Path::extension).is_some_and(|end| end.eq_ignore_ascii_case("graphml"));
    match args.format {
        Format::Jsonl => export::jsonl(directory, out),
        Format::Csv => export::csv(directory, out),
        Format::Parquet => export::parquet(directory, out),
        Format::Links if is_graphml => export::graphml(directory, out),
        Format::Links => export::links(directory, out),
        Format::Graphml => export::graphml(directory, out),
        Format::Sitemap => export::sitemap(directory, out, path),
        Format::Cdxj => export::cdxj(directory, out),
    }
}
