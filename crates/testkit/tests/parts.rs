//! The keeper and the parts of rendered pages: what is not requested yet when a page ends is refused.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use argiope_core::base::budget::MemoryPart;
use argiope_core::base::custom_request::{CustomRequest, Method};
use argiope_core::base::job::{Job, PageCookies, PagePart, PartAccess, Purpose};
use argiope_core::base::link::Link;
use argiope_core::base::time::WallClock;
use argiope_core::crawl::rules::{Config, Pace, RobotsPolicy, Rules};
use argiope_core::crawl::schedule::keeper::{Keeper, Next};
use argiope_core::crawl::visit::Visit;
use argiope_core::{Outcome, Time, Url};
use argiope_store::MemoryFrontier;

const BODY_BYTES: usize = 1 << 20;

fn keeper() -> (Keeper<MemoryFrontier>, Arc<Rules>) {
    let config = Config {
        roots: vec!["http://h.example/".to_owned()],
        robots: RobotsPolicy::Ignore,
        no_sitemap: true,
        per_host: Some(1),
        pace: Pace::Full,
        ..Config::default()
    };
    let rules = Arc::new(config.compile(1).expect("the settings are valid"));
    let mut keeper = Keeper::new(MemoryFrontier::new(1), Arc::clone(&rules), WallClock { start: 0 });
    keeper.begin(Time::ZERO).expect("the crawl begins");
    (keeper, rules)
}

/// The jobs that are handed out now.
fn jobs(keeper: &mut Keeper<MemoryFrontier>) -> Vec<Job> {
    let mut jobs = Vec::new();
    loop {
        match keeper.next(Time::ZERO).expect("the frontier works") {
            Next::Resolve(lane, _) => {
                keeper.resolved(lane, Ok((vec![[203, 0, 113, 1].into()], Duration::from_secs(9_999))), Time::ZERO);
            }
            Next::Fetch(job) => jobs.push(job),
            Next::Wait(_) | Next::Done(_) => return jobs,
        }
    }
}

/// The page with this number sends a form.
fn ask(keeper: &mut Keeper<MemoryFrontier>, tab: u64, request: u64) {
    let mut link = Link::root(Url::parse(&format!("http://h.example/{tab}/{request}")).expect("a URL"), 0);
    let body = vec![b'x'; BODY_BYTES].into();
    link.request = Some(Arc::new(CustomRequest { method: Method::Post, body, ..CustomRequest::default() }));
    let (access, cookies) = (PartAccess::SameOrigin, PageCookies::default());
    let part = PagePart { tab, request, kind: "xhr", access, cookies };
    keeper.ask_part(link, part, Time::ZERO).expect("the frontier works");
}

/// The parts that have ended since the last call, by page: their outcomes.
fn ended(keeper: &mut Keeper<MemoryFrontier>) -> BTreeMap<u64, Vec<Outcome>> {
    let mut ended: BTreeMap<u64, Vec<Outcome>> = BTreeMap::new();
    for settled in keeper.take_settled() {
        if let Purpose::Part(part) = &settled.visit.purpose {
            ended.entry(part.tab).or_default().push(settled.visit.facts.outcome);
        }
    }
    ended
}

#[test]
fn parts_that_wait_are_refused_when_their_page_ends() {
    let (mut keeper, rules) = keeper();
    // The host has one slot, which the root uses.
    let root = jobs(&mut keeper).pop().expect("the root");
    for (tab, request) in [(1, 1), (2, 1), (1, 2), (2, 2)] {
        ask(&mut keeper, tab, request);
    }
    assert_eq!(jobs(&mut keeper).len(), 0);
    let lanes = || rules.budget.part(MemoryPart::Lanes);
    keeper.report_memory();
    assert!(lanes() > 4 * BODY_BYTES as u64, "parts that wait are charged: {}", lanes());
    keeper.end_parts(1, Time::ZERO);
    assert_eq!(jobs(&mut keeper).len(), 0);
    assert_eq!(ended(&mut keeper), BTreeMap::from([(1, vec![Outcome::Refused; 2])]));
    keeper.report_memory();
    assert!((2..3).contains(&(lanes() / BODY_BYTES as u64)), "two parts wait: {}", lanes());
    let mut visit = Some(Visit::requested(root, Outcome::Ok, Time::ZERO));
    let mut requested = Vec::new();
    while let Some(ended) = visit.take() {
        keeper.finished(Box::new(ended), Time::ZERO).expect("the frontier works");
        visit = jobs(&mut keeper).pop().map(|job| {
            requested.push(job.link.url.path().to_owned());
            Visit::requested(job, Outcome::Ok, Time::ZERO)
        });
    }
    assert_eq!(requested, ["/2/1", "/2/2"], "the other page still needs its parts");
    assert_eq!(ended(&mut keeper), BTreeMap::from([(2, vec![Outcome::Ok; 2])]));
}
