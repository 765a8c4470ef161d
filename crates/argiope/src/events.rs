//! Events of a crawl for the crate `tracing`, with the feature of this name. Without the feature, these functions are
//! empty.
//!
//! All events have the target `argiope` and the field `crawl`, a number that is unique in the process. Pages and the end
//! are recorded where they are awaited, so they are in the current span of the reader. The start is recorded on the thread
//! that starts the crawl. A crawl that is dropped has no end.

#[cfg(feature = "tracing")]
mod recorded {
    use argiope_core::Outcome;
    use argiope_runtime::Error;
    use argiope_runtime::keeper_thread::Summary;

    use crate::Page;

    /// A crawl was started.
    pub fn started(crawl: u64, directory: Option<&std::path::Path>) {
        let directory = directory.map(tracing::field::debug);
        tracing::info!(target: "argiope", crawl, directory, "the crawl started");
    }

    /// A page is delivered: at the level debug, or warn if it failed.
    pub fn page(crawl: u64, page: &Page) {
        let (url, outcome, status, attempts) = (page.url().as_str(), page.outcome(), page.status(), page.link().tries);
        let took = page.facts().timings.total.map(|total| total.as_millis() as u64);
        match page.error() {
            Some(error) if outcome == Outcome::Failed => {
                tracing::warn!(target: "argiope", crawl, url, %outcome, status, attempts, took, %error, "a page failed");
            }
            _ => tracing::debug!(target: "argiope", crawl, url, %outcome, status, attempts, took, "a page"),
        }
    }

    /// The crawl is over.
    pub fn ended(crawl: u64, result: &Result<Summary, Error>) {
        match result {
            Ok(Summary { end, left, unread, elapsed, .. }) => {
                let elapsed = elapsed.as_millis() as u64;
                tracing::info!(target: "argiope", crawl, ?end, left, unread, elapsed, "the crawl ended");
            }
            Err(error) => tracing::error!(target: "argiope", crawl, %error, "the crawl ended early"),
        }
    }
}

#[cfg(not(feature = "tracing"))]
mod recorded {
    use argiope_runtime::Error;
    use argiope_runtime::keeper_thread::Summary;

    use crate::Page;

    pub fn started(_crawl: u64, _directory: Option<&std::path::Path>) {}

    pub fn page(_crawl: u64, _page: &Page) {}

    pub fn ended(_crawl: u64, _result: &Result<Summary, Error>) {}
}

pub(crate) use recorded::{ended, page, started};

/// The number of a new crawl.
pub(crate) fn next_number() -> u64 {
    use std::sync::atomic::{AtomicU64, Ordering};
    static LAST: AtomicU64 = AtomicU64::new(0);
    LAST.fetch_add(1, Ordering::Relaxed) + 1
}
