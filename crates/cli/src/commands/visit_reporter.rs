//! [`VisitReporter`]: prints the record and the log line of every finished visit, and builds the report.
//!
//! Visits arrive here after their records are durable. If a crawl with a crawl directory writes its records to a
//! regular file, the writer thread has written them there, and the reporter does not print them.
//!
//! Invariant: if a record cannot be printed, all later records are dropped and the crawl is stopped. A gap within the
//! records would be worse than an early end.

use std::sync::Arc;
use std::time::Duration;

use crate::report::{Backlinks, CrawlReport, End, FaultySitemap, PageSummary};
use argiope_core::base::job::Purpose;
use argiope_core::crawl::rules::Rules;
use argiope_core::crawl::schedule::keeper::Settled;
use argiope_core::crawl::visit::Visit;

use super::record_stream::{RecordStream, RecordStreamFault};
use super::report;
use crate::screen::json_log;
use crate::screen::live::LiveView;

/// Which lines are logged about visits, and in which format.
#[derive(Clone, Copy, Debug, Default)]
pub struct Verbosity {
    /// One line per page.
    pub pages: bool,
    /// One line per link that is not followed.
    pub skips: bool,
    /// The lines are JSON objects.
    pub json: bool,
}

/// Prints what is known about finished visits, and builds the report.
pub struct VisitReporter {
    rules: Arc<Rules>,
    /// Where records are printed.
    output: Option<RecordStream>,
    verbosity: Verbosity,
    live: Arc<LiveView>,
    report: CrawlReport,
    /// Whether the report collects the links of pages. A crawl directory stores them in its link graph.
    keeps_links: bool,
    /// Why records can no longer be written.
    fault: Option<RecordStreamFault>,
    /// Called when `fault` is set.
    on_fault: Box<dyn FnMut() + Send>,
}

impl VisitReporter {
    /// `on_fault` is called once, when records can no longer be written.
    pub fn new(
        rules: Arc<Rules>,
        output: Option<RecordStream>,
        verbosity: Verbosity,
        live: Arc<LiveView>,
        keeps_links: bool,
        on_fault: impl FnMut() + Send + 'static,
    ) -> Self {
        let on_fault = Box::new(on_fault);
        Self { rules, output, verbosity, live, report: CrawlReport::default(), keeps_links, fault: None, on_fault }
    }

    /// Writes a line that does not belong to a visit, such as the first `run` record.
    pub fn write_line(&mut self, line: &[u8]) {
        if self.fault.is_none()
            && let Some(output) = &mut self.output
            && let Err(fault) = output.write(line)
        {
            self.set_fault(fault);
        }
    }

    /// Prints and counts a finished visit.
    pub fn take(&mut self, settled: &Settled) {
        self.report_visit(&settled.visit, &settled.line);
        if let Some(change) = settled.change {
            self.report.changes.get_or_insert_default().add_url(change, settled.visit.link.url.as_str());
        }
    }

    fn report_visit(&mut self, visit: &Visit, line: &[u8]) {
        self.write_line(line);
        if visit.purpose == Purpose::Sitemap {
            FaultySitemap::of_visit(visit).into_iter().for_each(|sitemap| self.report.add_sitemap(sitemap));
        }
        if visit.purpose == Purpose::Probe {
            self.report.hosts_without_404 += u64::from(visit.facts.status == Some(200));
        }
        if !visit.is_page() {
            return;
        }
        let page = PageSummary::of(visit, &self.rules);
        let Verbosity { pages, skips, json } = self.verbosity;
        if pages {
            self.live.print_line(if json { json_log::page(&page) } else { report::page_line(&page) });
        }
        if skips {
            for (url, reason) in visit.findings.skipped.iter() {
                let line = if json { json_log::skip(url, reason, page.url) } else { report::skip_line(url, reason) };
                self.live.print_line(line);
            }
        }
        self.report.add(&page);
        if self.keeps_links {
            let links = visit.for_keeper.found().iter().map(|(url, _)| Backlinks::fingerprint(url));
            self.report.add_links(page.url, links);
        }
    }

    /// Flushes the output after a batch of visits, for readers that follow it.
    pub fn flush(&mut self) {
        if self.fault.is_none()
            && let Some(output) = &mut self.output
            && let Err(fault) = output.flush()
        {
            self.set_fault(fault);
        }
    }

    /// Completes the report at the end of the crawl. The second value is an error if not all records were printed.
    pub fn close(mut self, elapsed: Duration, queued: u64, end: End) -> (CrawlReport, Result<(), RecordStreamFault>) {
        self.report.close(elapsed, queued, end);
        (self.report, self.fault.map_or(Ok(()), Err))
    }

    fn set_fault(&mut self, fault: RecordStreamFault) {
        self.fault = Some(fault);
        (self.on_fault)();
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::sync::atomic::{AtomicU32, Ordering};

    use argiope_core::crawl::rules::Config;
    use argiope_core::crawl::status::Status;
    use argiope_core::{FollowList, Link, Outcome, Time, Url};

    use super::*;
    use crate::records::ANY_FINGERPRINT_KEY;
    use crate::screen::live::View;

    /// How many redirects the links may follow. The tests do not depend on it.
    const MAX_REDIRECTS: u8 = 10;

    /// A reporter that prints to `path` and counts the calls of `on_fault`.
    fn reporter(path: &Path, fault_count: &Arc<AtomicU32>) -> VisitReporter {
        let config = Config { roots: vec!["https://h/".into()], ..Config::default() };
        let live = Arc::new(LiveView::start(View::None, Status::default).unwrap());
        let fault_count = Arc::clone(fault_count);
        let output = RecordStream::open(path).unwrap();
        let keeps_links = true;
        VisitReporter::new(
            Arc::new(config.compile(ANY_FINGERPRINT_KEY).unwrap()),
            Some(output),
            Verbosity::default(),
            live,
            keeps_links,
            move || {
                fault_count.fetch_add(1, Ordering::SeqCst);
            },
        )
    }

    fn disallowed_visit() -> Visit {
        Visit::not_fetched(
            Link::root(Url::parse("https://h/").unwrap(), MAX_REDIRECTS),
            Outcome::Robots,
            None,
            Time::ZERO,
        )
    }

    #[test]
    fn a_visit_is_printed_and_counted_in_the_report() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("r.jsonl");
        let fault_count = Arc::default();
        let mut reporter = reporter(&path, &fault_count);
        reporter.write_line(b"{\"first\":1}\n");
        reporter.report_visit(&disallowed_visit(), b"{\"page\":1}\n");
        reporter.flush();
        let (report, written) = reporter.close(Duration::from_secs(1), 5, End::MaxPages);
        assert_eq!(written, Ok(()));
        assert_eq!((report.outcomes.get(Outcome::Robots), report.queued), (1, 5));
        let text = std::fs::read_to_string(&path).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines, ["{\"first\":1}", "{\"page\":1}"]);
    }

    #[test]
    fn the_report_names_all_pages_with_a_broken_link() {
        let fault_count = Arc::default();
        let mut reporter = reporter(Path::new("/dev/null"), &fault_count);
        let gone = Link {
            via: Some(Url::parse("https://h/1").unwrap()),
            ..Link::root(Url::parse("https://h/gone").unwrap(), MAX_REDIRECTS)
        };
        for page in ["https://h/1", "https://h/2"] {
            let link = Link::root(Url::parse(page).unwrap(), MAX_REDIRECTS);
            let mut found = FollowList::default();
            found.push(gone.url.as_ref(), gone.kind);
            let mut visit = Visit::not_fetched(link, Outcome::Ok, None, Time::ZERO);
            visit.for_keeper.set_found(found);
            reporter.report_visit(&visit, b"{}\n");
        }
        let mut broken = Visit::not_fetched(gone, Outcome::HttpError, None, Time::ZERO);
        broken.facts.status = Some(404);
        reporter.report_visit(&broken, b"{}\n");
        let (report, _) = reporter.close(Duration::ZERO, 0, End::Finished);
        let referrers: Vec<&str> = report.broken[0].on_pages.iter().map(|page| &**page).collect();
        assert_eq!(referrers, ["https://h/1", "https://h/2"]);
    }

    #[test]
    fn a_full_disk_calls_on_fault_once() {
        let fault_count = Arc::default();
        let mut reporter = reporter(Path::new("/dev/full"), &fault_count);
        for _ in 0..3 {
            reporter.report_visit(&disallowed_visit(), b"{}\n");
            reporter.flush();
        }
        let (report, written) = reporter.close(Duration::ZERO, 0, End::Interrupted);
        assert_eq!(fault_count.load(Ordering::SeqCst), 1);
        let RecordStreamFault::Failed(why) = written.unwrap_err() else { panic!("expected a write error") };
        assert!(why.starts_with("/dev/full cannot be written"));
        assert_eq!(report.outcomes.total(), 3);
    }
}
