use argiope_core::crawl::canned::{CannedResponse, CannedWeb};
use argiope_core::crawl::fetcher::StopMode;
use argiope_core::crawl::rules::{Config, EngineName, Pace, RobotsPolicy};
use argiope_core::crawl::schedule::keeper::Next;
use argiope_core::crawl::schedule::keeper::Settled;
use argiope_core::{Link, Outcome, Url};

use super::*;
use crate::directory::{Directory, DirectoryParts};

struct Discard;

impl VisitConsumer for Discard {
    fn take(&mut self, _: Settled) {}
    fn flush(&mut self) {}
}

#[test]
fn visits_that_arrived_before_the_deadline_are_still_processed() {
    const PAGES: usize = 40;
    let config = Config {
        roots: (0..PAGES).map(|page| format!("http://93.184.216.1/{page}")).collect(),
        robots: RobotsPolicy::Ignore,
        pace: Pace::Full,
        per_host: Some(PAGES),
        max_time: Some("1s".parse().expect("a span")),
        ..Config::default()
    };
    let (inbox, messages) = Mailbox::open(false);
    let setup = CrawlSetup {
        frontier: MemoryFrontier::new(0),
        rules: Arc::new(config.compile(0).expect("the settings are valid")),
        fetchers: Fetchers::engine(EngineName::Threads),
        clock: Clock::start(),
        consumer: Discard,
        target: OutputTarget::default(),
        accepts_links: false,
    };
    let mut running = KeeperLoop::new(setup, &inbox).expect("the engine starts");
    running.clock = CrawlClock::new(Clock::start(), true);
    let mut visits = Vec::new();
    loop {
        match running.keeper.next(Time::ZERO).expect("a frontier in memory does not fail") {
            Next::Fetch(job) => {
                let mut visit = Visit::requested(job, Outcome::Ok, Time::ZERO);
                visit.facts.status = Some(200);
                visits.push(Box::new(visit));
            }
            Next::Resolve(lane, _) => {
                let ip = "93.184.216.1".parse().expect("an address");
                running.keeper.resolved(lane, Ok((vec![ip], Duration::MAX)), Time::ZERO);
            }
            Next::Wait(_) | Next::Done(_) => break,
        }
    }
    assert_eq!(visits.len(), PAGES);
    // Half of the visits are in the fair queue. The other half is still in the inbox.
    running.receive(KeeperMessage::Visits(visits.split_off(PAGES / 2))).expect("a frontier in memory does not fail");
    inbox.send(KeeperMessage::Visits(visits)).expect("the receiver is alive");
    running.clock.advance_to(Time::ZERO + Duration::from_secs(1));
    let end = run_blocking(running.run(&messages)).expect("a frontier in memory does not fail");
    assert_eq!((end, running.keeper.progress().pages), (End::MaxTime, 0));
    running.process_rest(&messages).expect("a frontier in memory does not fail");
    assert_eq!(running.keeper.progress().pages, PAGES as u64);
    assert_eq!(running.keeper.unfinished(), 0);
    running.fetchers.shut_down(StopMode::Now);
    running.commits.end().expect("a frontier in memory does not fail");
}

#[test]
fn a_link_that_is_added_after_the_last_page_makes_the_end_an_interruption() {
    let folder = tempfile::tempdir().expect("a folder");
    let root = "https://h.example/";
    let config = Config { roots: vec![root.into()], robots: RobotsPolicy::Ignore, ..Config::default() };
    let rules = || config.compile(0).expect("the settings are valid");
    let start = |inbox: &Inbox| {
        let directory = Directory::open(folder.path(), &rules(), &config).expect("a directory");
        let DirectoryParts { frontier, target, rules } =
            directory.into_parts(rules(), None, Vec::new()).expect("a directory");
        let web = CannedWeb::new().page(root, CannedResponse::html("x"));
        let setup = CrawlSetup {
            frontier,
            rules: Arc::new(rules),
            fetchers: Fetchers::transport(Box::new(web)),
            clock: Clock::start(),
            consumer: Discard,
            target,
            accepts_links: false,
        };
        KeeperLoop::new(setup, inbox).expect("it starts")
    };
    let (inbox, messages) = Mailbox::open(false);
    let first = run_blocking(start(&inbox).run_to_end(&messages)).expect("the crawl ends");
    assert_eq!((first.end, first.left), (End::Finished, 0));
    let (inbox, messages) = Mailbox::open(false);
    let second = start(&inbox);
    let late = Link::root(Url::parse("https://h.example/late").expect("a URL"), 0);
    inbox.send(KeeperMessage::Feed(vec![late], Box::new(|new| assert_eq!(new, [true])))).expect("it is alive");
    let second = run_blocking(second.run_to_end(&messages)).expect("the crawl ends");
    assert_eq!((second.end, second.left), (End::Interrupted, 1));
}
