//! Runs the crawler, so that checks use its politeness, retries, proxies and TLS.

use std::sync::Arc;
use std::time::Duration;

use argiope_core::crawl::rules::{Config, ProgramSettings, RenderMode, Root, Rules, ScopeKind, Soft404};
use argiope_core::crawl::schedule::keeper::Settled;
use argiope_core::crawl::visit::Visit;
use argiope_core::page::reader::DeliveredBodies;
use argiope_core::{LinkKind, Time, Url};
use argiope_runtime::directory::{Directory, DirectoryParts};
use argiope_runtime::fetchers::Fetchers;
use argiope_runtime::keeper_thread::{Clock, CrawlSetup, KeeperHandle, MemoryFrontier, VisitConsumer, wall_clock};
use argiope_runtime::writer_thread::OutputTarget;
use argiope_runtime::{Error, Store, run_lines};

use crate::options::CheckLimits;

/// A placeholder for the roots, without which the settings are not valid. It is never fetched. `invalid` is reserved
/// (RFC 2606).
const NO_ROOT: &str = "https://folder.invalid/";
/// The file of a crawl directory with the findings of the check that made it, as one JSON document.
pub const CHECK_FILE: &str = "check.json";
/// Maximum bytes of a body that is fetched only for its status.
const MAX_STATUS_BODY: u64 = 64 << 10;

/// Another host that asks for a longer wait is not asked again: a check must end.
const LONGEST_WAIT: Duration = Duration::from_mins(1);

/// The purpose of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum FetchGoal {
    /// Only the status. HEAD is sent first, and GET if the response to HEAD is not good.
    Status,
    /// The page with its anchors.
    Page,
}

/// Crawls a site and passes every visit to `handle`.
pub(super) fn crawl(config: &Config, handle: impl FnMut(&mut Visit) + Send + 'static) -> Result<(), Error> {
    let program = ProgramSettings {
        delivered_bodies: DeliveredBodies::Html,
        keep_static_pages: true,
        ..ProgramSettings::default()
    };
    let rules = argiope_runtime::rules(config, program)?;
    // Before anything is created.
    let fetchers = fetchers(config, &rules)?;
    let Some(path) = &config.out else {
        let frontier = MemoryFrontier::new(rules.fingerprint_key);
        return run(fetchers, rules, Clock::start(), frontier, OutputTarget::default(), handle);
    };
    let mut directory = Directory::open(path, &rules, config)?;
    directory.begin(config.recrawl)?;
    record_findings_file(&mut directory)?;
    let clock = Clock::start();
    let first_line = run_lines::first(config, &wall_clock(&clock).text(Time::ZERO));
    let DirectoryParts { frontier, target, rules } = directory.into_parts(rules, None, first_line)?;
    run(fetchers, rules, clock, frontier, target, handle)
}

/// Records the file of the findings as one of this crawl, which `--fresh` removes. Refuses a file that this crawl did not
/// write.
fn record_findings_file(directory: &mut Directory) -> Result<(), Error> {
    let file = directory.path.join(CHECK_FILE);
    if !directory.frontier.has_created(CHECK_FILE) && file.symlink_metadata().is_ok() {
        let message = format!("{} was not written by this crawl; move it, or use another directory", file.display());
        return Err(Error::system(std::io::Error::other(message)));
    }
    Ok(directory.frontier.record_created(CHECK_FILE)?)
}

/// Requests each URL once, follows only redirects, and passes every visit to `handle`. `external`: the URLs are of other
/// hosts, which get one request at a time, and on each of which so many redirects are followed.
pub(super) fn request(
    config: &Config,
    urls: Vec<Url>,
    goal: FetchGoal,
    external: Option<&CheckLimits>,
    handle: impl FnMut(&mut Visit) + Send + 'static,
) -> Result<(), Error> {
    let mut config = Config {
        scope: ScopeKind::Any,
        include: Vec::new(),
        exclude: Vec::new(),
        depth: Some(0),
        max_pages: None,
        max_pages_per_host: external.map(|limits| limits.host_urls.max(1) as u64),
        max_bytes: None,
        max_time: None,
        max_disk: None,
        sitemap: false,
        no_sitemap: true,
        assets: false,
        soft_404: Soft404::Never,
        out: None,
        jsonl: None,
        warc: false,
        ..config.clone()
    };
    if external.is_some() {
        config.per_host = Some(1);
    }
    // Pages of other hosts get one request, and their status needs no scripts.
    if external.is_some() || goal == FetchGoal::Status {
        config.render = RenderMode::Never;
    }
    if config.roots.is_empty() {
        config.roots.push(NO_ROOT.to_owned());
    }
    if goal == FetchGoal::Status {
        config.max_size.0 = config.max_size.0.min(MAX_STATUS_BODY);
    }
    // The settings keep the roots of the user, because only these may have private addresses and get headers and logins.
    let program = ProgramSettings {
        roots: Some(urls.into_iter().map(|url| Root { candidates: vec![url], requests: Vec::new() }).collect()),
        head_first: goal == FetchGoal::Status,
        longest_wait: external.map(|_| LONGEST_WAIT),
        keep_static_pages: true,
        delivered_bodies: match goal {
            FetchGoal::Status => DeliveredBodies::None,
            FetchGoal::Page => DeliveredBodies::Html,
        },
        ..ProgramSettings::default()
    };
    let rules = argiope_runtime::rules(&config, program)?;
    let frontier = MemoryFrontier::new(rules.fingerprint_key);
    let fetchers = fetchers(&config, &rules)?;
    run(fetchers, rules, Clock::start(), frontier, OutputTarget::default(), handle)
}

/// The engine, and a browser if pages are rendered.
fn fetchers(config: &Config, rules: &Rules) -> Result<Fetchers, Error> {
    Fetchers::engine(config.engine).with_browser(rules).map_err(|why| Error::input(why.to_string()))
}

fn run<F: Store + Send + 'static>(
    fetchers: Fetchers,
    rules: Rules,
    clock: Clock,
    frontier: F,
    target: OutputTarget,
    handle: impl FnMut(&mut Visit) + Send + 'static,
) -> Result<(), Error> {
    let rules = Arc::new(rules);
    let consumer = VisitHandler(handle);
    KeeperHandle::start(CrawlSetup { frontier, rules, fetchers, clock, consumer, target, accepts_links: false })?
        .join()
        .map(drop)
}

/// Passes pages to a closure, but not site files.
struct VisitHandler<F>(F);

impl<F: FnMut(&mut Visit) + Send> VisitConsumer for VisitHandler<F> {
    fn take(&mut self, mut settled: Settled) {
        if settled.visit.is_page() && settled.visit.link.kind != LinkKind::SitemapFile {
            (self.0)(&mut settled.visit);
        }
    }

    fn flush(&mut self) {}
}
