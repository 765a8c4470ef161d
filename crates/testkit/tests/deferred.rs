//! Links to hosts for which memory has no room are deferred. A crawl with a higher limit fetches them.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use argiope_core::base::link::LinkKind;
use argiope_core::base::time::WallClock;
use argiope_core::crawl::rules::{Config, RobotsPolicy, ScopeKind};
use argiope_core::crawl::schedule::keeper::{End, Keeper, Next};
use argiope_core::crawl::visit::Visit;
use argiope_core::page::follow_list::FollowList;
use argiope_core::{Frontier, Outcome, Time, Url};
use argiope_store::disk::{CrawlSettings, DiskFrontier, UrlTracer, open_within};
use argiope_testkit::crash_files::CrashFiles;

const FINGERPRINT_KEY: u64 = 1;
/// A memory limit with which the frontier keeps as little as possible in memory.
const NO_MEMORY: usize = 0;
const ROOT: &str = "http://h.example/";
/// The links of the root page.
const LINKS: [&str; 4] =
    ["http://h.example/1", "http://a.example/", "https://b.example:8443/x?y", "http://a.example/2"];

/// Runs a crawl in which only the root page has links. Returns the keeper, the fetched URLs and why the crawl ended.
fn crawl(frontier: DiskFrontier, is_full_of_hosts: bool) -> (Keeper<DiskFrontier>, BTreeSet<String>, End) {
    let config = Config {
        roots: vec![ROOT.into()],
        robots: RobotsPolicy::Ignore,
        scope: ScopeKind::Any,
        allow_private: true,
        ..Config::default()
    };
    let rules = Arc::new(config.compile(FINGERPRINT_KEY).expect("the settings are valid"));
    let mut keeper = Keeper::new(frontier, rules, WallClock { start: 0 });
    let (mut now, mut fetched) = (Time::ZERO, BTreeSet::new());
    keeper.begin(now).expect("the crawl begins");
    keeper.set_full_of_hosts(is_full_of_hosts);
    let end = loop {
        match keeper.next(now).expect("the frontier works") {
            Next::Resolve(lane, _) => {
                keeper.resolved(lane, Ok((vec![[203, 0, 113, 1].into()], Duration::from_secs(9_999))), now);
            }
            Next::Fetch(job) => {
                assert!(fetched.insert(job.link.url.as_str().to_owned()), "{} is fetched once", job.link.url);
                let mut visit = Visit::requested(job, Outcome::Ok, now);
                visit.facts.status = Some(200);
                if visit.link.url.as_str() == ROOT {
                    let (link_key, depth, redirects) = (0, 1, 10);
                    let mut found = FollowList::new(link_key, depth, redirects);
                    for link in LINKS {
                        found.push(Url::parse(link).expect("a URL").as_ref(), LinkKind::Anchor);
                    }
                    visit.for_keeper.set_found(found);
                }
                keeper.finished(Box::new(visit), now).expect("the frontier works");
            }
            Next::Wait(until) => now = until,
            Next::Done(end) => break end,
        }
        keeper.take_settled();
    };
    (keeper, fetched, end)
}

#[test]
fn links_to_hosts_beyond_the_memory_limit_wait_for_a_run_with_more_memory() {
    let files = CrashFiles::default();
    let mut all = BTreeSet::new();
    // A second run with the same limit changes nothing; a third has enough memory.
    for (is_full_of_hosts, expected_end, expected_fetched, expected_deferred) in
        [(true, End::MaxMemory, 2, 3), (true, End::MaxMemory, 0, 3), (false, End::Finished, 3, 0)]
    {
        let opened = open_within(Arc::new(files.clone()), &CrawlSettings::new(), NO_MEMORY).expect("opens");
        let mut writer = opened.writer;
        let (mut keeper, fetched, end) = crawl(opened.frontier, is_full_of_hosts);
        assert_eq!((end, fetched.len()), (expected_end, expected_fetched), "{fetched:?}");
        all.extend(fetched);
        let frontier = keeper.frontier_mut();
        assert_eq!((frontier.counts().deferred, frontier.counts().queued), (expected_deferred, expected_deferred));
        if let Some(batch) = frontier.commit_at_end(&[]).expect("commits") {
            writer.write(&batch).expect("writes");
        }
        // `explain` finds a link while it is deferred, and after it was moved to the lane of its host.
        let mut tracer = UrlTracer::open_in(Arc::new(files.clone())).expect("a crawl directory");
        let trace = tracer.url(LINKS[2]).expect("reads");
        let found: Vec<_> = trace.links.iter().map(|link| (link.via.as_deref(), link.depth, link.kind)).collect();
        assert_eq!(found, [(Some(ROOT), 1, LinkKind::Anchor)]);
        assert_eq!(trace.records.len(), usize::from(end == End::Finished));
    }
    assert_eq!(all, LINKS.into_iter().chain([ROOT]).map(str::to_owned).collect());
}
