//! The test suite of frontiers, which checks the contract of [`Frontier`]. `frontier_suite!` generates its tests for one
//! frontier.
//!
//! The last test applies long random histories of calls to a frontier and to a simple model, and compares the results.

use argiope_core::base::custom_request::{CustomRequest, Method};
use argiope_core::crawl::schedule::frontier::{
    CrawlEvent, NewHosts, Placement, ReturnTo, Settlement, Standing, put_all,
};
use argiope_core::{
    Counts, FinalOutcome, Frontier, LaneId, Link, LinkKind, LinkRef, Outcome, StoreError, StoreErrorKind, Url,
};
use std::collections::HashSet;
use std::sync::Arc;

use crate::sim::rng::SimRng;

/// Generates a module of tests for one frontier. `$make` returns an empty frontier; its argument is the fingerprint key.
#[macro_export]
macro_rules! frontier_suite {
    ($name:ident, $make:expr) => {
        mod $name {
            $crate::frontier_suite!(@tests $make;
                a_link_is_new_exactly_once,
                a_sitemap_file_and_a_page_with_one_url_are_two_links,
                links_are_taken_breadth_first_and_in_order_of_arrival,
                lanes_are_host_names,
                a_taken_link_equals_the_link_that_was_put,
                requests_with_equal_method_url_and_body_are_one_link,
                links_of_a_higher_priority_are_taken_first,
                a_link_that_was_given_back_is_taken_again_with_its_changes,
                a_settled_link_stays_known,
                only_a_leased_link_can_be_settled_or_given_back,
                a_long_queue_is_emptied_in_order,
                random_histories_agree_with_the_model,
            );
        }
    };
    (@tests $make:expr; $($test:ident,)*) => {
        $(#[test]
        fn $test() {
            $crate::frontier_suite::$test($make);
        })*
    };
}

/// An outcome for tests in which it does not matter.
pub const FINAL_OUTCOME: FinalOutcome<'static> =
    FinalOutcome { outcome: Outcome::Ok, status: Some(200), record: br#"{"v":1}"#, is_fetched_page: true };

/// A link as found on a page.
pub fn link(address: &str, depth: u32) -> Link {
    let via = (depth > 0).then(|| url("https://via.example/page"));
    Link { url: url(address), via, depth, redirects: 10, tries: 0, kind: LinkKind::Anchor, request: None }
}

fn url(address: &str) -> Url {
    Url::parse(address).expect("a valid URL")
}

/// Whether a frontier knows a link. Links that are offered and rejected stay unknown.
fn is_known<F: Frontier>(frontier: &mut F, link: &Link) -> Result<bool, StoreError> {
    let mut found = Standing::Known;
    frontier.put(&[LinkRef::from(link)], NewHosts::GetLanes, &mut |_, standing| {
        found = standing;
        false
    })?;
    Ok(found == Standing::Known)
}

/// Settles one link.
pub fn settle<F: Frontier>(frontier: &mut F, link: &Link) -> Result<(), StoreError> {
    frontier.settle(&mut [Settlement::of(link, FINAL_OUTCOME)])
}

fn give_back<F: Frontier>(frontier: &mut F, link: Link) -> Result<(), StoreError> {
    frontier.give_back(vec![link], ReturnTo::End)
}

fn queued_in<F: Frontier>(frontier: &F, lane: LaneId) -> u64 {
    frontier.lane(lane).expect("a lane").queued
}

fn addresses(links: &[Link]) -> Vec<&str> {
    links.iter().map(|link| link.url.as_str()).collect()
}

pub fn a_link_is_new_exactly_once<F: Frontier>(make: impl Fn(u64) -> F) {
    let mut frontier = make(1);
    let (a, b) = (link("https://h.example/a", 0), link("https://h.example/b", 1));
    let put = put_all(&mut frontier, &[a.clone(), b.clone(), a.clone()]).expect("put");
    assert_eq!((put.new.as_slice(), put.count()), ([true, true, false].as_slice(), 2));
    let lane = frontier.lane_of("h.example").expect("a lane");
    assert_eq!(put.lanes, [lane]);
    let repeated = Link { depth: 7, kind: LinkKind::Redirect, via: None, ..b };
    let put = put_all(&mut frontier, &[repeated, a]).expect("put");
    assert_eq!((put.count(), put.lanes), (0, vec![]));
    assert!(is_known(&mut frontier, &Link { kind: LinkKind::Frame, ..link("https://h.example/a", 3) }).expect("reads"));
    assert!(!is_known(&mut frontier, &Link { kind: LinkKind::Frame, ..link("http://h.example/a", 3) }).expect("reads"));
    assert_eq!(frontier.counts(), Counts { known: 2, queued: 2, leased: 0, settled: 0, deferred: 0 });
}

pub fn a_sitemap_file_and_a_page_with_one_url_are_two_links<F: Frontier>(make: impl Fn(u64) -> F) {
    let mut frontier = make(2);
    let page = link("https://h.example/sitemap.xml", 1);
    let file = Link { kind: LinkKind::SitemapFile, ..page.clone() };
    let put = put_all(&mut frontier, &[page.clone(), file.clone(), page, file]).expect("put");
    assert_eq!(put.new, [true, true, false, false]);
    let taken = frontier.take(put.lanes[0], 9).expect("take");
    assert_eq!(taken.iter().map(|link| link.kind).collect::<Vec<_>>(), [LinkKind::Anchor, LinkKind::SitemapFile]);
    for link in &taken {
        settle(&mut frontier, link).expect("settle");
    }
    assert!(frontier.counts().is_done());
}

pub fn links_are_taken_breadth_first_and_in_order_of_arrival<F: Frontier>(make: impl Fn(u64) -> F) {
    let mut frontier = make(3);
    let put = put_all(
        &mut frontier,
        &[
            link("https://h.example/2a", 2),
            link("https://h.example/1a", 1),
            link("https://h.example/9a", 9),
            link("https://h.example/2b", 2),
            link("https://h.example/1b", 1),
        ],
    );
    let lane = put.expect("put").lanes[0];
    assert_eq!(queued_in(&frontier, lane), 5);
    let first = frontier.take(lane, 3).expect("take");
    assert_eq!(addresses(&first), ["https://h.example/1a", "https://h.example/1b", "https://h.example/2a"]);
    put_all(&mut frontier, &[link("https://h.example/0", 0), link("https://h.example/2c", 2)]).expect("put");
    let rest = frontier.take(lane, 99).expect("take");
    assert_eq!(
        addresses(&rest),
        ["https://h.example/0", "https://h.example/2b", "https://h.example/2c", "https://h.example/9a"]
    );
    assert!(frontier.take(lane, 1).expect("take").is_empty());
    assert_eq!(frontier.counts(), Counts { known: 7, queued: 0, leased: 7, settled: 0, deferred: 0 });
}

pub fn lanes_are_host_names<F: Frontier>(make: impl Fn(u64) -> F) {
    let mut frontier = make(4);
    let put = put_all(
        &mut frontier,
        &[
            link("https://b.example/", 0),
            link("http://b.example:8080/", 0),
            link("https://a.example/", 0),
            link("http://[2001:db8::1]:81/", 0),
        ],
    );
    let lanes = put.expect("put").lanes;
    assert_eq!(lanes.len(), 3);
    let mut names: Vec<_> = lanes.iter().map(|lane| frontier.lane(*lane).expect("a lane").name.to_owned()).collect();
    names.sort_unstable();
    assert_eq!(names, ["[2001:db8::1]", "a.example", "b.example"]);
    assert_eq!(frontier.lanes_with_work(), lanes);
    let b = frontier.lane_of("b.example").expect("a lane");
    assert_eq!(queued_in(&frontier, b), 2);
    frontier.take(b, 2).expect("take");
    assert_eq!((queued_in(&frontier, b), frontier.lanes_with_work().len()), (0, 2));
    let idle = frontier.lane_of("idle.example").expect("a lane");
    assert!(!lanes.contains(&idle) && frontier.lane_of("idle.example") == Ok(idle));
    assert!(frontier.take(idle, 5).expect("take").is_empty());
    assert_eq!(frontier.lane(LaneId(4_000_000)), None);
    assert!(frontier.take(LaneId(4_000_000), 5).expect("take").is_empty());
}

pub fn a_taken_link_equals_the_link_that_was_put<F: Frontier>(make: impl Fn(u64) -> F) {
    let mut frontier = make(5);
    let long = format!("https://h.example/{}", "x".repeat(50_000));
    let addresses = [
        "http://h.example/",
        "https://h.example:8443/?",
        "https://h.example/p?q=%C3%A9&r=/:?",
        "http://h.example:1/a",
        &long,
    ];
    let kinds = LinkKind::ALL.iter().cycle();
    let links: Vec<Link> = (0..)
        .zip(addresses.iter().zip(kinds))
        .map(|(number, (address, kind))| Link {
            url: url(address),
            via: (number % 2 == 0).then(|| url("https://elsewhere.example/?from")),
            depth: number * 1000,
            redirects: number as u8,
            tries: 255 - number as u8,
            kind: *kind,
            request: None,
        })
        .collect();
    let lane = put_all(&mut frontier, &links).expect("put").lanes[0];
    assert_eq!(frontier.take(lane, 99).expect("take"), links);
}

pub fn requests_with_equal_method_url_and_body_are_one_link<F: Frontier>(make: impl Fn(u64) -> F) {
    let mut frontier = make(11);
    let plain = link("http://h.example/form", 1);
    let form = |body: &str, data: u32| {
        let (method, data) = (Method::Post, serde_json::json!({"number": data}));
        let headers = vec![("X-Name".into(), "value".into())];
        let request = CustomRequest { method, headers, body: body.as_bytes().into(), data, ..CustomRequest::default() };
        Link { request: Some(Arc::new(request)), ..plain.clone() }
    };
    let put = put_all(&mut frontier, &[plain.clone(), form("a", 1), form("b", 2), form("a", 3)]).expect("put");
    assert_eq!(put.new, [true, true, true, false], "user data is not a part of the identity");
    let lane = put.lanes[0];
    assert_eq!(frontier.take(lane, 9).expect("take"), [plain.clone(), form("a", 1), form("b", 2)]);
    settle(&mut frontier, &form("b", 2)).expect("settle");
    frontier.tell(CrawlEvent::Sending(&form("a", 1))).expect("it is leased");
    give_back(&mut frontier, form("a", 1)).expect("give back");
    assert_eq!(frontier.take(lane, 9).expect("take"), [form("a", 1)]);
    assert_eq!(frontier.counts(), Counts { known: 3, queued: 0, leased: 2, settled: 1, deferred: 0 });
}

pub fn links_of_a_higher_priority_are_taken_first<F: Frontier>(make: impl Fn(u64) -> F) {
    let mut frontier = make(12);
    let with_priority = |number: u32, depth, priority| {
        let request = CustomRequest { priority, ..CustomRequest::default() };
        let plain = link(&format!("http://h.example/{number}"), depth);
        Link { request: (priority != 0).then(|| Arc::new(request)), ..plain }
    };
    let priorities = [0, 0, 5, -1, 5, 0, i16::MAX, i16::MIN, 1];
    let all: Vec<Link> =
        (0..).zip(priorities).map(|(number, priority)| with_priority(number, number % 2, priority)).collect();
    let lane = put_all(&mut frontier, &all).expect("put").lanes[0];
    let order = frontier.take(lane, 99).expect("take");
    let numbers: Vec<usize> = order.iter().filter_map(|link| all.iter().position(|other| other == link)).collect();
    assert_eq!(numbers, [6, 2, 4, 8, 0, 1, 5, 3, 7]);
    // A link that is put back returns to its place in the queue.
    let unsent = [2, 8, 0].map(|number: usize| all[number].clone());
    frontier.give_back(unsent.to_vec(), ReturnTo::OldPlace).expect("give back");
    let repeated = frontier.take(lane, 99).expect("take");
    assert_eq!(repeated, [all[2].clone(), all[8].clone(), all[0].clone()]);
}

pub fn a_link_that_was_given_back_is_taken_again_with_its_changes<F: Frontier>(make: impl Fn(u64) -> F) {
    let mut frontier = make(6);
    let links = ["https://h.example/a", "https://h.example/b", "https://h.example/c"].map(|text| link(text, 1));
    let lane = put_all(&mut frontier, &links).expect("put").lanes[0];
    let mut taken = frontier.take(lane, 2).expect("take");
    let (b, mut a) = (taken.pop().expect("two"), taken.pop().expect("two"));
    a.tries = 3;
    give_back(&mut frontier, a.clone()).expect("give back");
    assert_eq!(frontier.counts(), Counts { known: 3, queued: 2, leased: 1, settled: 0, deferred: 0 });
    assert_eq!(frontier.lanes_with_work(), [lane]);
    assert_eq!(put_all(&mut frontier, &[a.clone()]).expect("put").count(), 0);
    settle(&mut frontier, &b).expect("settle");
    assert_eq!(frontier.take(lane, 9).expect("take"), [links[2].clone(), a]);
}

pub fn a_settled_link_stays_known<F: Frontier>(make: impl Fn(u64) -> F) {
    let mut frontier = make(7);
    let root = link("https://h.example/", 0);
    assert!(frontier.counts().is_done());
    let lane = put_all(&mut frontier, std::slice::from_ref(&root)).expect("put").lanes[0];
    assert!(!frontier.counts().is_done());
    let taken = frontier.take(lane, 1).expect("take");
    assert!(!frontier.counts().is_done());
    settle(&mut frontier, &taken[0]).expect("settle");
    assert!(frontier.counts().is_done() && is_known(&mut frontier, &root).expect("reads"));
    assert_eq!(put_all(&mut frontier, &[root]).expect("put").count(), 0);
    assert_eq!(frontier.counts(), Counts { known: 1, queued: 0, leased: 0, settled: 1, deferred: 0 });
}

pub fn only_a_leased_link_can_be_settled_or_given_back<F: Frontier>(make: impl Fn(u64) -> F) {
    let mut frontier = make(8);
    let root = link("https://h.example/", 0);
    let is_misuse = |result: Result<(), argiope_core::StoreError>| {
        result.err().map(|error| error.kind) == Some(StoreErrorKind::Misuse)
    };
    assert!(is_misuse(settle(&mut frontier, &root)) && is_misuse(give_back(&mut frontier, root.clone())));
    let lane = put_all(&mut frontier, std::slice::from_ref(&root)).expect("put").lanes[0];
    assert!(is_misuse(settle(&mut frontier, &root)) && is_misuse(give_back(&mut frontier, root.clone())));
    frontier.take(lane, 1).expect("take");
    settle(&mut frontier, &root).expect("settle");
    assert!(is_misuse(settle(&mut frontier, &root)) && is_misuse(give_back(&mut frontier, root)));
    assert_eq!(frontier.counts(), Counts { known: 1, queued: 0, leased: 0, settled: 1, deferred: 0 });
}

pub fn a_long_queue_is_emptied_in_order<F: Frontier>(make: impl Fn(u64) -> F) {
    a_queue_is_emptied_in_order(make, 20_000);
}

/// Like `a_long_queue_is_emptied_in_order`, for a queue of this length, which must be a multiple of 50.
pub fn a_queue_is_emptied_in_order<F: Frontier>(make: impl Fn(u64) -> F, length: u32) {
    // The links have four depths.
    let per_depth = length / 4;
    let mut frontier = make(9);
    let address = |number: u32| format!("https://h.example/{number}/{}", "x".repeat((number % 97) as usize));
    let mut lane = LaneId(0);
    for start in (0..length).step_by(50) {
        let links: Vec<Link> = (start..start + 50).map(|number| link(&address(number), number / per_depth)).collect();
        lane = put_all(&mut frontier, &links).expect("put").lanes[0];
    }
    let mut expected = 0;
    loop {
        let taken = frontier.take(lane, 37).expect("take");
        if taken.is_empty() {
            break;
        }
        for link in taken {
            assert_eq!((link.url.as_str(), link.depth), (address(expected).as_str(), expected / per_depth));
            settle(&mut frontier, &link).expect("settle");
            expected += 1;
        }
    }
    assert_eq!((expected, frontier.counts().is_done()), (length, true));
}

pub fn random_histories_agree_with_the_model<F: Frontier>(make: impl Fn(u64) -> F) {
    histories_agree_with_the_model(make, 0..40);
}

/// Like `random_histories_agree_with_the_model`, for these seeds.
pub fn histories_agree_with_the_model<F: Frontier>(make: impl Fn(u64) -> F, seeds: std::ops::Range<u64>) {
    for seed in seeds {
        FrontierHistory::new(seed).run(&mut make(seed), 400);
    }
}

/// A reference model of a frontier, implemented in the simplest way. Links are numbered in order of arrival.
#[derive(Clone, Default)]
pub struct FrontierModel {
    /// The URLs that were put, and whether as a sitemap file.
    known: HashSet<(Url, bool)>,
    queued: Vec<(u64, Link)>,
    deferred: Vec<(u64, Link)>,
    leased: Vec<(u64, Link)>,
    settled: u64,
    /// Number of times that a link was queued or deferred.
    arrivals: u64,
}

impl FrontierModel {
    fn queue(&mut self, link: Link) {
        self.arrivals += 1;
        self.queued.push((self.arrivals, link));
    }

    /// Adds a link; returns whether it is new.
    fn offer(&mut self, link: &Link) -> bool {
        let is_new = self.known.insert((link.url.clone(), link.kind == LinkKind::SitemapFile));
        if is_new {
            self.queue(link.clone());
        }
        is_new
    }

    fn knows(&self, link: &Link) -> bool {
        self.known.contains(&(link.url.clone(), link.kind == LinkKind::SitemapFile))
    }

    /// Adds a link that waits for its admission; returns whether it is new.
    fn defer(&mut self, link: &Link) -> bool {
        let is_new = self.known.insert((link.url.clone(), link.kind == LinkKind::SitemapFile));
        if is_new {
            self.arrivals += 1;
            self.deferred.push((self.arrivals, link.clone()));
        }
        is_new
    }

    /// Queues deferred links in the order in which they would be taken.
    fn admit_deferred(&mut self, max_links: usize) {
        self.deferred.sort_by_key(|(arrival, link)| (link.depth, *arrival));
        let count = self.deferred.len().min(max_links);
        for (_, link) in self.deferred.drain(..count).collect::<Vec<_>>() {
            self.queue(link);
        }
    }

    /// Leases queued links of a host, the lowest depth first, then in order of arrival.
    fn take(&mut self, host: &str, max_links: usize) -> Vec<Link> {
        let mut taken = Vec::new();
        while taken.len() < max_links {
            let of_host = self.queued.iter().enumerate().filter(|(_, (_, link))| link.url.host() == host);
            let Some((first, _)) = of_host.min_by_key(|(_, (arrival, link))| (link.depth, *arrival)) else { break };
            let (arrival, link) = self.queued.remove(first);
            self.leased.push((arrival, link.clone()));
            taken.push(link);
        }
        taken
    }

    pub fn counts(&self) -> Counts {
        let [known, queued, leased] =
            [self.known.len(), self.queued.len() + self.deferred.len(), self.leased.len()].map(|count| count as u64);
        Counts { known, queued, leased, settled: self.settled, deferred: self.deferred.len() as u64 }
    }

    fn hosts_with_work(&self) -> Vec<String> {
        let mut hosts: Vec<String> = self.queued.iter().map(|(_, link)| link.url.host().to_owned()).collect();
        hosts.sort_unstable();
        hosts.dedup();
        hosts
    }

    /// Simulates a restart: leased links are queued again, at their old positions.
    pub fn restart(&mut self) {
        self.queued.append(&mut self.leased);
    }

    /// Whether all URLs that were ever put are known to a frontier.
    pub fn knows_all_urls<F: Frontier>(&self, frontier: &mut F) -> Result<bool, StoreError> {
        for (url, is_sitemap) in &self.known {
            let kind = if *is_sitemap { LinkKind::SitemapFile } else { LinkKind::Anchor };
            if !is_known(frontier, &Link { kind, ..Link::root(url.clone(), 0) })? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Compares a frontier with the model, and takes all links out of both.
    pub fn compare_all<F: Frontier>(mut self, frontier: &mut F) {
        assert_eq!(frontier.counts(), self.counts());
        assert!(self.knows_all_urls(frontier).expect("reads"));
        frontier.tell(CrawlEvent::RoomForHosts(usize::MAX)).expect("admits");
        self.admit_deferred(usize::MAX);
        for host in self.hosts_with_work() {
            let lane = frontier.lane_of(&host).expect("a lane");
            assert_eq!(frontier.take(lane, usize::MAX).expect("take"), self.take(&host, usize::MAX), "{host}");
        }
        assert_eq!(frontier.counts(), self.counts());
    }
}

/// A random history of calls, the same for the same seed, applied to a frontier and to the model.
pub struct FrontierHistory {
    pub model: FrontierModel,
    seed: u64,
    rng: SimRng,
}

impl FrontierHistory {
    pub fn new(seed: u64) -> Self {
        Self { model: FrontierModel::default(), seed, rng: SimRng::new(seed) }
    }

    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// A random number below `bound`.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.rng.next_u64() % bound
    }

    /// Makes `calls` random calls. Compares results and counts of frontier and model after each call, and the lanes
    /// with work at the end.
    pub fn run<F: Frontier>(&mut self, frontier: &mut F, calls: usize) {
        for call in 0..calls {
            self.call(frontier);
            let found = frontier.counts();
            assert_eq!(found, self.model.counts(), "after call {call} of seed {}", self.seed);
            assert_eq!(found.known, found.queued + found.leased + found.settled);
        }
        let expected = self.model.hosts_with_work();
        let lanes = frontier.lanes_with_work();
        let mut found: Vec<_> = lanes.iter().filter_map(|lane| frontier.lane(*lane)).map(|lane| lane.name).collect();
        found.sort_unstable();
        assert_eq!(found, expected, "lanes with work, seed {}", self.seed);
    }

    /// Makes one random call. Sometimes a call about deferred links comes before it.
    pub fn call<F: Frontier>(&mut self, frontier: &mut F) {
        if self.below(5) == 0 {
            self.call_deferred(frontier);
        }
        // 0 to 3: put; 4 to 6: take; 7 and 8: settle; 9: give back.
        match self.below(10) {
            0..4 => {
                let links: Vec<Link> = (0..self.below(12)).map(|_| self.random_link()).collect();
                let expected: Vec<bool> = links.iter().map(|link| self.model.offer(link)).collect();
                assert_eq!(put_all(frontier, &links).expect("put").new, expected, "new links, seed {}", self.seed);
            }
            4..7 => {
                // Hosts with an `h` have links that were put, hosts with a `d` links that were deferred.
                let host = format!("{}{}.example", ["h", "h", "d"][self.below(3) as usize], self.below(5));
                let max_links = self.below(6) as usize;
                let lane = frontier.lane_of(&host).expect("a lane");
                let taken = frontier.take(lane, max_links).expect("take");
                assert_eq!(taken, self.model.take(&host, max_links), "taken from {host}, seed {}", self.seed);
                let left = self.model.queued.iter().filter(|(_, link)| link.url.host() == host).count();
                assert_eq!(queued_in(frontier, lane), left as u64);
            }
            action if !self.model.leased.is_empty() => {
                let pick = self.below(self.model.leased.len() as u64) as usize;
                let (_, mut link) = self.model.leased.swap_remove(pick);
                if action < 9 {
                    settle(frontier, &link).expect("settle");
                    self.model.settled += 1;
                } else {
                    link.tries = link.tries.saturating_add(1);
                    give_back(frontier, link.clone()).expect("give back");
                    self.model.queue(link);
                }
            }
            _ => {}
        }
    }

    /// Adds links while memory has no room for hosts, or moves deferred ones to their lanes.
    fn call_deferred<F: Frontier>(&mut self, frontier: &mut F) {
        if self.below(2) == 0 {
            let links: Vec<Link> = (0..self.below(6)).map(|_| self.random_link_to("d")).collect();
            let refs: Vec<LinkRef<'_>> = links.iter().map(LinkRef::from).collect();
            let mut standings = Vec::new();
            let placements = frontier.put(&refs, NewHosts::AreDeferred, &mut |index, standing| {
                assert_eq!(index, standings.len(), "links are tested in order");
                standings.push(standing);
                true
            });
            for ((link, standing), placement) in links.iter().zip(standings).zip(placements.expect("put")) {
                let is_expected = match placement {
                    Placement::Deferred => self.model.defer(link),
                    Placement::Queued(_) => self.model.offer(link),
                    // Such a frontier cannot defer links, and none of this host is known.
                    Placement::NotAdded if standing == Standing::NoRoom => !self.model.knows(link),
                    Placement::NotAdded => self.model.knows(link),
                    Placement::Pending => false,
                };
                assert!(is_expected, "{placement:?} of {}, seed {}", link.url, self.seed);
            }
        } else {
            let max_links = self.below(5) as usize;
            frontier.tell(CrawlEvent::RoomForHosts(max_links)).expect("admits");
            self.model.admit_deferred(max_links);
        }
    }

    fn random_link(&mut self) -> Link {
        self.random_link_to("h")
    }

    /// A link to one of five hosts whose names begin with `prefix`.
    fn random_link_to(&mut self, prefix: &str) -> Link {
        let scheme = ["http", "https"][self.below(2) as usize];
        let address = format!("{scheme}://{prefix}{}.example/{}", self.below(5), self.below(60));
        let via = (self.below(4) > 0).then(|| url(&format!("https://v.example/{}", self.below(3))));
        let kind = [LinkKind::Anchor, LinkKind::Redirect, LinkKind::SitemapFile][self.below(3) as usize];
        Link {
            url: url(&address),
            via,
            depth: self.below(4) as u32,
            redirects: self.below(11) as u8,
            tries: 0,
            kind,
            request: None,
        }
    }
}
