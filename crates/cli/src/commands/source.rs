//! A crawl directory as the data source of the dashboard: explanations, the report, and the status of the running crawl
//! if there is one.

use std::path::{Path, PathBuf};

use argiope_core::crawl::control::{Control, CrawlSource};
use argiope_core::crawl::status::Status;

use super::control_socket::{self, ControlRequest};
use super::{explain, report};
use crate::results::Results;

/// A crawl directory; a running crawl is reached through its socket.
pub struct DirectorySource(pub PathBuf);

impl CrawlSource for DirectorySource {
    fn status(&self) -> Option<Status> {
        control_socket::request(&self.0, &ControlRequest::Status).ok()?.status
    }

    fn control(&self, control: Control) -> Result<(), String> {
        control_socket::request(&self.0, &ControlRequest::Control(control)).map(drop)
    }

    fn explain(&self, url: &str) -> Result<String, String> {
        explain(Some(&self.0), url)
    }

    fn report(&self) -> Result<String, String> {
        report(Some(&self.0))
    }
}

const NO_DIRECTORY: &str = "this crawl has no crawl directory";

/// Explains why a URL was or was not fetched.
pub fn explain(directory: Option<&Path>, url: &str) -> Result<String, String> {
    let directory = directory.ok_or(NO_DIRECTORY)?;
    let explanation =
        crate::explain::explain(&Results::at(directory), url.trim()).map_err(|error| error.to_string())?;
    Ok(explain::render(&explanation))
}

/// Renders the report of the committed records as an HTML page.
pub fn report(directory: Option<&Path>) -> Result<String, String> {
    let directory = directory.ok_or(NO_DIRECTORY)?;
    report::html_page(&Results::at(directory)).map_err(|error| error.to_string())
}
