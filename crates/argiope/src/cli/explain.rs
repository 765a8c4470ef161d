//! `argiope explain DIR URL`: why this URL was or was not fetched.

use std::path::PathBuf;

use clap::Args;

#[derive(Args, Debug, PartialEq, Eq)]
#[command(after_help = "Example:\n  argiope explain ./example.com.crawl https://example.com/missing")]
pub struct ExplainArgs {
    /// The crawl directory
    #[arg(value_name = "DIR")]
    pub directory: PathBuf,
    /// The URL in question
    #[arg(value_name = "URL")]
    pub url: String,
}
