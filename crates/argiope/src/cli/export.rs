//! `argiope export DIR --format F`: a crawl in the forms that other programs read.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

#[derive(Args, Debug, PartialEq, Eq)]
#[command(after_help = "Example:\n  argiope export ./example.com.crawl --format csv -o pages.csv")]
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
    /// The graph: which page links to which
    Links,
    /// A sitemap of what was found
    Sitemap,
    /// An index of the archives
    Cdxj,
}
