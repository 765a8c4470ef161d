//! The command `argiope`, for its program and for the Python package. Not an interface: use the crate `argiope`.

mod audit;
mod commands;
mod diff;
mod explain;
mod export;
mod flags;
mod formats;
mod locale;
mod push;
mod records;
mod report;
mod report_page;
mod results;
mod screen;
mod single_request;
mod soft_404;
mod sorted;
mod temporary;
mod ticker;
mod wording;

/// What the Python package reads of a crawl directory: the same records, tables and explanations as the command.
pub mod stored {
    #[cfg(feature = "arrow")]
    pub use crate::export::arrow::{batches, schema};
    pub use crate::export::{PageTable, Rows, TableOptions};
    pub use crate::records::ReadError;
    pub use crate::results::Results;
    use crate::{commands, explain};

    /// What `argiope explain` prints about a URL.
    ///
    /// # Errors
    ///
    /// The message: it is not a URL, or the crawl directory cannot be read.
    pub fn explanation(results: &Results, url: &str) -> Result<String, String> {
        match explain::explain(results, url) {
            Ok(explanation) => Ok(commands::explain::render(&explanation)),
            Err(error) => Err(error.to_string()),
        }
    }
}

/// Runs one command line.
pub fn run(arguments: impl IntoIterator<Item = std::ffi::OsString>) -> std::process::ExitCode {
    // With a handler for SIGXFSZ, a file that reaches the file size limit (`ulimit -f`) causes a write error. Without one,
    // the signal would end the process.
    let _ = signal_hook::flag::register(signal_hook::consts::SIGXFSZ, std::sync::Arc::default());
    commands::run(arguments)
}
