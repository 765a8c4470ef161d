//! Endless webs in virtual time, mostly with default settings: each crawl ends by itself, and an ordinary host beside
//! the trap is crawled completely. Ordinary webs that resemble traps are crawled completely too.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use argiope_core::base::job::{Job, Purpose};
use argiope_core::crawl::rules::{Config, ScopeKind, TrapPolicy};
use argiope_core::crawl::schedule::keeper::End;
use argiope_core::crawl::schedule::trap::TrapRule;
use argiope_core::page::sitemap::{Sitemap, SitemapEntry, SitemapFormat};
use argiope_core::{LinkKind, LinkList, Outcome, Time, Url};
use argiope_testkit::sim::{ResolveResult, Sim, SimReply, SimReport, SimResponse, SimWeb};

/// The links of the simulated pages may be followed.
const WITHOUT_NOFOLLOW: bool = false;
const FINGERPRINT_KEY: u64 = 3;

const ORDINARY_PAGES: usize = 300;

/// An ordinary host, and a trap: all other hosts, whose replies come from this function.
struct OrdinaryAndTrap<F>(F);

impl<F: FnMut(&str, &str) -> SimResponse> SimWeb for OrdinaryAndTrap<F> {
    fn resolve(&mut self, host: &str, _now: Time) -> (Duration, ResolveResult) {
        let last_byte = host.bytes().fold(7u8, |sum, byte| sum.wrapping_mul(31).wrapping_add(byte));
        (Duration::from_millis(5), Ok((vec![IpAddr::from([93, 184, 216, last_byte])], Duration::from_secs(3_600))))
    }

    fn reply(&mut self, job: &Job, _now: Time) -> SimReply {
        let url = &job.link.url;
        let response = match (&job.purpose, url.host()) {
            (Purpose::Robots(_), _) => SimResponse::Status(404),
            (_, "ordinary.example") => ordinary(url.path()),
            (_, host) => (self.0)(host, url.target()),
        };
        SimReply::new(Duration::from_millis(50), job.addresses.first().copied(), response)
    }
}

/// Pages `/0` to `/299`, each with its own text and links to the next and to the first.
fn ordinary(path: &str) -> SimResponse {
    let number: usize = path.trim_start_matches('/').parse().unwrap_or(0);
    let links = [
        format!("http://ordinary.example/{}", (number + 1).min(ORDINARY_PAGES - 1)),
        "http://ordinary.example/0".into(),
    ];
    page(&format!("A page of its own, which has the name {}, and says what no other page says.", word(number)), links)
}

/// A page with this text and these links.
fn page(text: &str, links: impl IntoIterator<Item = String>) -> SimResponse {
    let mut list = LinkList::default();
    for link in links {
        list.push(&link, LinkKind::Anchor, WITHOUT_NOFOLLOW);
    }
    SimResponse::Text(list, text.to_owned())
}

/// A number written in letters, because the trap detection treats all numbers alike.
fn word(number: usize) -> String {
    number.to_string().bytes().map(|digit| char::from(digit - b'0' + b'a')).collect()
}

/// A text that is long enough to recognize a page by it.
const TEXT: &str = "Some text that is long enough for a page to be known by it when it comes again.";

/// Crawls the ordinary host and the trap. `respond` replies for all hosts of the trap, and gets the host and the path
/// with the query. Returns the report, the rules that skipped links, and the number of requests to the trap.
fn crawl(
    respond: impl FnMut(&str, &str) -> SimResponse,
    change: impl FnOnce(&mut Config),
) -> (SimReport, Vec<TrapRule>, usize) {
    let mut config = Config {
        roots: vec!["http://trap.example/".into(), "http://ordinary.example/0".into()],
        scope: ScopeKind::Domain,
        ..Config::default()
    };
    change(&mut config);
    let rules = Arc::new(config.compile(FINGERPRINT_KEY).expect("valid settings"));
    let mut sim = Sim::new(rules, OrdinaryAndTrap(respond));
    let report = sim.run().expect("a crawl that ends");
    assert_eq!(sim.politeness.violations(), [] as [String; 0]);
    assert_eq!((report.end, report.counts.queued, report.counts.leased), (End::Finished, 0, 0));
    let ordinary_pages = report.settled.iter().filter(|settled| {
        settled.visit.link.url.host() == "ordinary.example"
            && settled.visit.facts.outcome == Outcome::Ok
            && settled.visit.is_page()
    });
    assert_eq!(ordinary_pages.count(), ORDINARY_PAGES, "the ordinary host is crawled completely");
    let trap_requests = report.fetches.iter().filter(|fetch| fetch.url.host() != "ordinary.example").count();
    let rules = sim.keeper.cuts().iter().map(|cut| cut.rule).collect();
    (report, rules, trap_requests)
}

#[test]
fn an_endless_calendar_ends() {
    const MONTHS: [&str; 12] = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let respond = |_: &str, target: &str| {
        let month: usize = target.rsplit('/').next().and_then(|text| text.parse().ok()).unwrap_or(2_000 * 12);
        let text = format!(
            "{} {}: 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17. No events are planned in this month.",
            MONTHS[month % 12],
            month / 12
        );
        page(&text, [month - 1, month + 1].map(|month| format!("http://trap.example/calendar/{month}")))
    };
    let (_, rules, trap_requests) = crawl(respond, |_| {});
    assert_eq!(rules, [TrapRule::AlikePattern]);
    // Four times the budget of 4,096, and a few more links.
    assert!((4 * 4_096..17_000).contains(&trap_requests), "{trap_requests}");
}

#[test]
fn a_soft_404_ends() {
    let mut next_number = 0;
    let respond = move |_: &str, _: &str| {
        next_number += 10;
        page(TEXT, (next_number..next_number + 10).map(|number| format!("http://trap.example/{}", word(number))))
    };
    let (_, rules, trap_requests) = crawl(respond, |_| {});
    assert_eq!(rules, [TrapRule::StalePattern]);
    // The root, its ten links, the budget, and robots.txt.
    assert_eq!(trap_requests, 1 + 10 + 4_096 + 1);
}

#[test]
fn a_maze_of_new_texts_ends() {
    let mut next_number = 0;
    let respond = move |_: &str, _: &str| {
        next_number += 38;
        let links = (next_number..next_number + 38).map(|number| format!("http://trap.example/{}", word(number)));
        page(&format!("{} {TEXT}", word(next_number)), links)
    };
    let (_, rules, trap_requests) = crawl(respond, |config| config.trap_budget = 64);
    assert_eq!(rules, [TrapRule::EndlessHost]);
    // 256 times the budget of a pattern.
    assert!((64 * 256..64 * 256 + 100).contains(&trap_requests), "{trap_requests}");
}

#[test]
fn endless_subdomains_end() {
    let mut next_number = 0;
    let respond = move |_: &str, _: &str| {
        next_number += 10;
        let links = (next_number..next_number + 10).map(|number| format!("http://n{number}.trap.example/"));
        page(&format!("{} {TEXT}", word(next_number)), links)
    };
    let (report, rules, _) = crawl(respond, |_| {});
    assert_eq!(rules, [TrapRule::DomainHosts]);
    let hosts: BTreeSet<&str> = report.fetches.iter().map(|fetch| fetch.url.host()).collect();
    // The hosts of the two roots, and the hosts that every domain may have: the budget of 4,096 divided by 64.
    assert_eq!(hosts.len(), 2 + 64);
}

#[test]
fn every_host_of_a_domain_of_many_useful_hosts_is_crawled() {
    const HOSTS: usize = 300;
    // One page links to all hosts; each has a few pages.
    let respond = move |host: &str, target: &str| {
        let links: Vec<String> = match (host, target) {
            ("trap.example", _) => (0..HOSTS).map(|number| format!("http://n{number}.trap.example/0")).collect(),
            (_, "/0") => (1..6).map(|number| format!("http://{host}/{number}")).collect(),
            _ => Vec::new(),
        };
        page(
            &format!("{host}{target} is a page that says what no other page says: {} {TEXT}", word(target.len())),
            links,
        )
    };
    let (report, ..) = crawl(respond, |_| {});
    let hosts: BTreeSet<&str> = report.fetches.iter().map(|fetch| fetch.url.host()).collect();
    assert_eq!(hosts.len(), 2 + HOSTS);
}

#[test]
fn a_redirect_maze_ends() {
    let mut next_number = 0;
    let respond = move |_: &str, target: &str| match target {
        "/" => page(TEXT, (0..5).map(|number| format!("http://trap.example/maze/{number}"))),
        _ => {
            next_number += 1;
            SimResponse::Redirect(format!("/maze/on/{next_number}"))
        }
    };
    let (report, rules, trap_requests) = crawl(respond, |_| {});
    assert_eq!(rules, []);
    // robots.txt, the root, and five links with ten redirects each.
    assert_eq!(trap_requests, 2 + 5 * 11);
    let failed = report.settled.iter().filter(|settled| settled.visit.facts.error.is_some()).count();
    assert_eq!(failed, 5);
}

#[test]
fn many_pages_that_differ_by_a_number_are_an_ordinary_site() {
    // A catalogue whose pages differ only in a number: a tree, in which each page has ten children and a link to the
    // root.
    const PAGES: usize = 30_000;
    let respond = |_: &str, target: &str| {
        let number: usize = target.trim_start_matches("/p").parse().unwrap_or(0);
        let children = (number * 10 + 1..=number * 10 + 10).filter(|child| *child < PAGES);
        let links = children.map(|child| format!("http://trap.example/p{child}"));
        page(&format!("Product {number}. {TEXT}"), links.chain(["http://trap.example/".to_owned()]))
    };
    let (_, rules, trap_requests) = crawl(respond, |_| {});
    assert_eq!(rules, []);
    // The pages, and robots.txt.
    assert_eq!(trap_requests, PAGES + 1);
}

#[test]
fn nothing_is_skipped_if_traps_are_ignored() {
    let mut next_number = 0;
    let respond = move |_: &str, _: &str| {
        next_number += 10;
        let links = (next_number..next_number + 10).map(|number| format!("http://trap.example/{}", word(number)));
        page(TEXT, links.filter(|_| next_number < 20_000))
    };
    let (_, rules, trap_requests) = crawl(respond, |config| config.traps = TrapPolicy::Ignore);
    assert_eq!(rules, []);
    assert!(trap_requests > 15_000, "{trap_requests}");
}

/// An index of many indexes of many sitemaps, with `--sitemap`.
#[test]
fn an_index_of_indexes_of_sitemaps_ends() {
    let respond = |_: &str, target: &str| {
        let Some(name) = target.strip_suffix(".xml") else {
            return page(&format!("{TEXT} {target}"), (0..4).map(|page| format!("http://trap.example/{page}")));
        };
        let child = |number| SitemapEntry {
            url: Url::parse(&format!("http://trap.example{name}-{number}.xml")).expect("a URL"),
            lastmod: None,
            priority: None,
            changefreq: None,
        };
        let children = (0..20_000).map(child).collect();
        SimResponse::Sitemap(Sitemap { format: Some(SitemapFormat::Index), children, ..Sitemap::default() })
    };
    let (_, rules, trap_requests) = crawl(respond, |config| config.sitemap = true);
    assert!(rules.contains(&TrapRule::SitemapBytes) || rules.contains(&TrapRule::SitemapFiles), "{rules:?}");
    assert!(trap_requests < 200, "{trap_requests} requests");
}

/// Pages that each link to many host names, which all resolve to an address and have no pages.
#[test]
fn a_crawl_with_links_to_invented_hosts_ends() {
    let mut page_number = 0;
    let respond = |host: &str, target: &str| {
        if host != "trap.example" {
            return SimResponse::Status(404);
        }
        page_number += 1;
        let hosts = (0..500).map(|host| format!("http://invented-{page_number}-{host}.example/"));
        let links = hosts.chain([format!("http://trap.example/{}", page_number % 20)]);
        page(&format!("{TEXT} {} {target}", word(page_number)), links)
    };
    let (report, rules, _) = crawl(respond, |config| (config.scope, config.trap_budget) = (ScopeKind::Any, 512));
    assert!(rules.contains(&TrapRule::SourceHosts), "{rules:?}");
    assert!(report.counts.known < 5_000, "{} URLs", report.counts.known);
}
