//! Priorities of links: compared with an exact best-first crawl of the same width, in virtual time.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashSet};
use std::time::Duration;

use argiope::LinkVerdict::{Later, Skip, With};
use argiope::{CannedResponse, CannedWeb, Crawl, CrawlBuilder, LinkVerdict, Pace, Request, ScopeKind};

const PAGES: usize = 1_200;
const LINKS: usize = 12;
const MAX_PAGES: usize = 60;

/// A random number that depends on these two only.
fn random(seed: usize, number: usize) -> usize {
    let mut value = (seed as u64) << 32 | number as u64;
    for _ in 0..3 {
        value = (value ^ (value >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9).wrapping_add(0x9E37_79B9_7F4A_7C15);
    }
    (value >> 33) as usize
}

/// A web in which one page in six is about spiders. Such pages link to each other more often than other pages do.
struct Web {
    hosts: usize,
}

impl Web {
    fn url(&self, page: usize) -> String {
        format!("https://h{}.example/{page}", page % self.hosts)
    }

    fn is_relevant(&self, page: usize) -> bool {
        page > 0 && random(1, page).is_multiple_of(6)
    }

    fn links(&self, page: usize) -> Vec<usize> {
        let mut links: Vec<usize> = (0..LINKS).map(|index| random(page + 2, index) % PAGES).collect();
        if self.is_relevant(page) {
            links.extend(
                (0..200).map(|index| random(page + 2, 50 + index) % PAGES).filter(|to| self.is_relevant(*to)).take(3),
            );
        }
        links.sort_unstable();
        links.dedup();
        links.retain(|to| *to != page);
        links
    }

    /// What a link to a page says. One link in four says nothing.
    fn label(&self, from: usize, to: usize) -> &'static str {
        match (self.is_relevant(to), random(from, to) % 4) {
            (_, 0) => "more",
            (true, _) => "all about spiders",
            (false, _) => "something else",
        }
    }

    fn latency(&self, page: usize) -> Duration {
        Duration::from_micros(200_000 + random(7, page) as u64 % 150_000)
    }

    fn priority(&self, from: usize, to: usize) -> i16 {
        let page = if self.is_relevant(from) { 5 } else { 0 };
        page + if self.label(from, to).contains("spiders") { 10 } else { 0 }
    }

    fn crawl(&self) -> CrawlBuilder {
        let page = |page: usize| {
            let links: String = self
                .links(page)
                .iter()
                .map(|to| format!("<a href='{}'>{}</a> ", self.url(*to), self.label(page, *to)))
                .collect();
            let topic = if self.is_relevant(page) { "On the life of spiders" } else { "On nothing in particular" };
            let html = format!("<title>{page}</title><p>{topic}, page {page}.</p>{links}");
            (self.url(page), CannedResponse::html(html).latency(self.latency(page)))
        };
        let web: CannedWeb = (0..PAGES).map(page).collect();
        Crawl::builder(self.url(0))
            .with_transport(web)
            .scope(ScopeKind::Any)
            .pace(Pace::Full)
            .max_pages(MAX_PAGES as u64)
            .configure(|config| config.traps = "ignore".parse().expect("a policy"))
    }

    /// How many relevant pages an exact best-first crawl fetches that has all links in one queue.
    fn best_first(&self, width: usize) -> usize {
        let mut known = HashSet::from([0]);
        let (mut queue, mut flying) = (BinaryHeap::from([(0_i16, Reverse(0_usize), 0_usize)]), BinaryHeap::new());
        let (mut now, mut started, mut relevant, mut order) = (Duration::ZERO, 0, 0, 0);
        loop {
            while flying.len() < width
                && started < MAX_PAGES
                && let Some((_, _, page)) = queue.pop()
            {
                started += 1;
                relevant += usize::from(self.is_relevant(page));
                flying.push(Reverse((now + self.latency(page), page)));
            }
            let Some(Reverse((time, page))) = flying.pop() else { return relevant };
            now = time;
            for to in self.links(page) {
                if known.insert(to) {
                    order += 1;
                    queue.push((self.priority(page, to), Reverse(order), to));
                }
            }
        }
    }
}

/// How many relevant pages the crawl fetched.
fn relevant(web: &Web, builder: CrawlBuilder) -> usize {
    let mut pages = builder.start_blocking().expect("the crawl starts");
    let numbers: Vec<usize> = pages.by_ref().map(|page| page.url().path()[1..].parse().expect("a number")).collect();
    pages.close().expect("the crawl ends");
    assert_eq!(numbers.len(), MAX_PAGES);
    numbers.into_iter().filter(|page| web.is_relevant(*page)).count()
}

fn judged(builder: CrawlBuilder) -> CrawlBuilder {
    builder.judge(|link, page| {
        let from_topic = if page.text().contains("spiders") { 5 } else { 0 };
        With(from_topic + if link.text.contains("spiders") { 10 } else { 0 })
    })
}

#[test]
fn links_of_one_host_are_fetched_best_first() {
    let web = Web { hosts: 1 };
    for width in [1, 2, 6] {
        let crawl = judged(web.crawl()).configure(|config| config.per_host = Some(width));
        let (reached, exact) = (relevant(&web, crawl), web.best_first(width));
        let breadth_first = relevant(&web, web.crawl().configure(|config| config.per_host = Some(width)));
        assert!(reached * 100 >= exact * 95, "width {width}: {reached} relevant pages of {exact}");
        assert!(reached > 2 * breadth_first, "width {width}: {reached} with priorities, {breadth_first} without");
    }
}

#[test]
fn links_of_many_hosts_are_fetched_best_first() {
    let web = Web { hosts: 40 };
    for width in [2, 6] {
        let (reached, exact) = (relevant(&web, judged(web.crawl()).concurrency(width)), web.best_first(width));
        // The order of hosts is a soft one: a robots.txt is fetched before the first page of a host.
        assert!(reached * 100 >= exact * 95, "width {width}: {reached} relevant pages of {exact}");
    }
}

#[test]
fn links_are_skipped_or_fetched_last() {
    let judge = |text: &str| -> LinkVerdict {
        match text {
            "no" => Skip,
            "late" => Later,
            _ => With(text.len() as i16),
        }
    };
    let links = "<a href=/late>late</a><a href=/no>no</a><a href=/b>bb</a><a href=/a>a</a><a href=/c>ccc</a>";
    let names = ["late", "no", "a", "b", "c"];
    let web: CannedWeb =
        names.map(|name| (format!("https://h.example/{name}"), CannedResponse::html("x"))).into_iter().collect();
    let crawl = Crawl::builder("https://h.example/")
        .with_transport(web.page("https://h.example/", CannedResponse::html(links)))
        .configure(|config| config.per_host = Some(1))
        .judge(move |link, _| judge(link.text));
    let mut pages = crawl.start_blocking().expect("the crawl starts");
    let order: Vec<String> = pages.by_ref().map(|page| page.url().path().to_owned()).collect();
    assert_eq!(order, ["/", "/c", "/b", "/a", "/late"]);
}

#[test]
fn a_request_with_a_priority_precedes_the_links_that_are_queued() {
    let links: String = (0..100).map(|page| format!("<a href=/{page}>")).collect();
    let page = |body: &str| CannedResponse::html(body).latency(Duration::from_millis(100));
    let web: CannedWeb = (0..200).map(|number| (format!("https://h.example/{number}"), page("x"))).collect();
    let crawl = Crawl::builder("https://h.example/")
        .with_transport(web.page("https://h.example/", page(&links)))
        .configure(|config| config.per_host = Some(1));
    let mut pages = crawl.start_blocking().expect("the crawl starts");
    let mut order = Vec::new();
    while let Some(page) = pages.next() {
        order.push(page.url().path().to_owned());
        if order.len() == 3 {
            let urgent = [150, 160].map(|number| {
                Request::get(&format!("https://h.example/{number}")).expect("a URL").priority(number - 100)
            });
            assert_eq!(pages.feed(urgent).expect("the crawl is open").wait().added(), 2);
        }
    }
    // One request is in flight when they are added, and at most one link was taken from the queue.
    let place = |path: &str| order.iter().position(|other| other == path).expect("it was fetched");
    assert!(place("/160") < place("/150") && place("/150") <= 6, "{:?}", &order[..10]);
}
