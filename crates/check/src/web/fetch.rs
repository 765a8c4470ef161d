//! Runs the crawler, so that checks use its politeness, retries, proxies and TLS.

use std::sync::Arc;

use argiope_core::page::reader::DeliveredBodies;
use argiope_core::rules::{Config, Root, Rules, ScopeKind};
use argiope_core::schedule::keeper::Settled;
use argiope_core::visit::Visit;
use argiope_core::{LinkKind, Time, Url};
use argiope_runtime::directory::Directory;
use argiope_runtime::keeper_thread::{Clock, CrawlSetup, KeeperHandle, MemoryFrontier, VisitConsumer, wall_clock};
use argiope_runtime::writer_thread::{CommitFrontier, OutputTarget};
use argiope_runtime::{Error, engine_kind, run_lines};

/// A placeholder root for rules that need one although it is never fetched. `invalid` is reserved (RFC 2606).
const NO_ROOT: &str = "https://folder.invalid/";
/// Maximum bytes of a body that is fetched only for its status.
const MAX_STATUS_BODY: u64 = 64 << 10;

/// What URLs are requested for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FetchGoal {
    /// For the status alone: HEAD first, GET where the answer to HEAD is not good.
    Status,
    /// The page, for its anchors.
    Page,
}

/// Crawls a site and passes every visit to `take`.
pub(super) fn crawl(config: &Config, take: impl FnMut(&mut Visit) + Send + 'static) -> Result<(), Error> {
    let mut rules = argiope_runtime::rules(config)?;
    rules.bodies.delivered = DeliveredBodies::Html;
    let Some(path) = &config.out else {
        let frontier = MemoryFrontier::new(rules.fingerprint_key);
        return run(config, rules, Clock::start(), frontier, OutputTarget::default(), take);
    };
    let directory = match config.fresh {
        true => Directory::start_over(path, &rules, config)?.0,
        false => Directory::open(path, &rules, config)?,
    };
    let clock = Clock::start();
    let first_line = run_lines::first(config, &wall_clock(&clock).text(Time::ZERO));
    let (frontier, target) = directory.into_parts(None, first_line)?;
    run(config, rules, clock, frontier, target, take)
}

/// Requests each URL once, follows only redirects, and passes every visit to `take`.
pub(super) fn ask(
    config: &Config,
    urls: Vec<Url>,
    goal: FetchGoal,
    per_host: Option<usize>,
    take: impl FnMut(&mut Visit) + Send + 'static,
) -> Result<(), Error> {
    let mut config = Config {
        scope: ScopeKind::Any,
        strict: false,
        lenient: false,
        include: Vec::new(),
        exclude: Vec::new(),
        depth: Some(0),
        max_pages: None,
        max_pages_per_host: None,
        sitemap: false,
        no_sitemap: true,
        assets: false,
        out: None,
        jsonl: None,
        csv: None,
        warc: false,
        ..config.clone()
    };
    if per_host.is_some() {
        config.per_host = per_host;
    }
    if config.roots.is_empty() {
        config.roots.push(NO_ROOT.to_owned());
    }
    if goal == FetchGoal::Status {
        config.max_size.0 = config.max_size.0.min(MAX_STATUS_BODY);
    }
    // Compiled with the user's roots: only they may be private and receive headers and logins.
    let mut rules = argiope_runtime::rules(&config)?;
    rules.roots = urls.into_iter().map(|url| Root { candidates: vec![url], requests: Vec::new() }).collect();
    rules.head_first = goal == FetchGoal::Status;
    rules.bodies.delivered = match goal {
        FetchGoal::Status => DeliveredBodies::None,
        FetchGoal::Page => DeliveredBodies::Html,
    };
    let frontier = MemoryFrontier::new(rules.fingerprint_key);
    run(&config, rules, Clock::start(), frontier, OutputTarget::default(), take)
}

fn run<F: CommitFrontier + Send + 'static>(
    config: &Config,
    rules: Rules,
    clock: Clock,
    frontier: F,
    target: OutputTarget,
    take: impl FnMut(&mut Visit) + Send + 'static,
) -> Result<(), Error> {
    let (engine, rules) = (engine_kind(config.engine), Arc::new(rules));
    let consumer = Taker(take);
    KeeperHandle::start(CrawlSetup { frontier, rules, engine, clock, consumer, target, accepts_links: false })?
        .join()
        .map(drop)
}

struct Taker<F>(F);

impl<F: FnMut(&mut Visit) + Send> VisitConsumer for Taker<F> {
    fn take(&mut self, mut settled: Settled) {
        if settled.visit.is_page() && settled.visit.link.kind != LinkKind::SitemapFile {
            (self.0)(&mut settled.visit);
        }
    }

    fn flush(&mut self) {}
}
