//! Requests with large bodies wait in the frontier. A lane holds only a few of them, and their bodies are charged to
//! the memory budget.

use std::sync::Arc;
use std::time::Duration;

use argiope_core::base::custom_request::{CustomRequest, Method};
use argiope_core::base::link::Link;
use argiope_core::base::time::WallClock;
use argiope_core::crawl::rules::{Config, RobotsPolicy};
use argiope_core::crawl::schedule::keeper::{Keeper, Next};
use argiope_core::crawl::visit::Visit;
use argiope_core::{Outcome, Time, Url};
use argiope_store::MemoryFrontier;

const FINGERPRINT_KEY: u64 = 1;
const MAX_REDIRECTS: u8 = 5;
const BODY_BYTES: usize = 1 << 20;
const FORMS: usize = 60;

#[test]
fn a_lane_holds_few_large_requests_and_all_are_sent() {
    let config = Config {
        roots: vec!["http://h.example/".into()],
        robots: RobotsPolicy::Ignore,
        allow_private: true,
        per_host: Some(1),
        ..Config::default()
    };
    let rules = Arc::new(config.compile(FINGERPRINT_KEY).expect("the settings are valid"));
    let mut keeper = Keeper::new(MemoryFrontier::new(FINGERPRINT_KEY), rules, WallClock { start: 0 });
    let mut now = Time::ZERO;
    keeper.begin(now).expect("the crawl begins");
    for number in 0..FORMS {
        let url = Url::parse(&format!("http://h.example/{number}")).expect("a URL");
        let request =
            CustomRequest { method: Method::Post, body: vec![b'x'; BODY_BYTES].into(), ..CustomRequest::default() };
        let link = Link { request: Some(Arc::new(request)), ..Link::root(url, MAX_REDIRECTS) };
        keeper.put(vec![link], now).expect("the frontier works");
    }
    let (mut sent, mut max_held) = (0, 0);
    loop {
        let held: usize = keeper.bench_mut().lanes().map(|(_, lane)| lane.queue.len()).sum();
        max_held = max_held.max(held);
        match keeper.next(now).expect("the frontier works") {
            Next::Resolve(lane, _) => {
                keeper.resolved(lane, Ok((vec![[203, 0, 113, 1].into()], Duration::from_secs(9_999))), now);
            }
            Next::Fetch(job) => {
                sent += usize::from(job.link.request.is_some());
                let mut visit = Visit::requested(job, Outcome::Ok, now);
                visit.facts.status = Some(200);
                assert!(visit.link.request.is_none() || visit.heap_bytes() >= BODY_BYTES, "the body is charged");
                keeper.finished(Box::new(visit), now).expect("the frontier works");
            }
            Next::Wait(until) => now = until,
            Next::Done(_) => break,
        }
        keeper.take_settled();
    }
    assert_eq!(sent, FORMS);
    // A lane holds at most 4 MiB of requests.
    assert!(max_held <= 4, "a lane held {max_held} bodies of 1 MiB");
}
