//! Tests of the trap rules, page by page.

use super::charges::{FREE_COMBINATIONS, MAX_PATTERNS, MAX_TRACKED, PATTERNS_PER_HOST, REFUND};
use super::cuts::{MAX_CUTS, MAX_EXAMPLE};
use super::*;
use crate::base::link::LinkKind;
use crate::crawl::rules::Config;
use crate::page::follow_list::FollowList;
use crate::page::sitemap::Sitemap;
use crate::{Outcome, Time};
use std::collections::HashSet;

/// The `--trap-budget` of a [`TestCrawl`], unless a test changes it.
const TRAP_BUDGET: usize = 64;

/// The budgets of a crawl, with a set of known URLs in place of a frontier.
struct TestCrawl {
    traps: Traps,
    known: HashSet<String>,
}

impl TestCrawl {
    fn new(edit: impl FnOnce(&mut Config)) -> Self {
        let mut config =
            Config { roots: vec!["http://h.example/".into()], trap_budget: TRAP_BUDGET as u32, ..Config::default() };
        edit(&mut config);
        Self { traps: Traps::new(&config.compile(1).expect("valid settings")), known: HashSet::new() }
    }

    /// Visits a page with these links. `text` contains its fingerprints (text and sketch). Returns the rules by which
    /// links were skipped.
    fn page(&mut self, lane: u32, url: &str, depth: u32, text: Option<(u64, u64)>, links: &[String]) -> Vec<TrapRule> {
        let link = Link { depth, ..Link::root(Url::parse(url).expect("a valid URL"), 9) };
        let mut visit = Visit::with_outcome(link, crate::base::job::Purpose::Page, Outcome::Ok, Time::ZERO);
        visit.for_keeper.slot = Some((LaneId(lane), 0));
        (visit.facts.status, visit.facts.bytes_wire) = (Some(200), 5_000);
        visit.for_keeper.likeness = text.map(|(text, sketch)| Likeness { text, sketch });
        visit.for_keeper.found = FollowList::new(0, depth + 1, 9);
        for text in links {
            visit.for_keeper.found.push(Url::parse(text).expect("a valid URL").as_ref(), LinkKind::Anchor);
        }
        let mut judging = self.traps.open(&visit);
        let mut skipped = Vec::new();
        for text in links {
            let link = Link {
                depth: depth + 1,
                kind: LinkKind::Anchor,
                ..Link::root(Url::parse(text).expect("a valid URL"), 9)
            };
            match self.traps.judge(&mut judging, LinkRef::from(&link), self.known.contains(text)) {
                Some(rule) => skipped.push(rule),
                None if self.known.insert(text.clone()) => Traps::entered(&mut judging, LinkRef::from(&link)),
                None => {}
            }
        }
        self.traps.close(&judging);
        skipped
    }
}

/// URLs of `count` pages of one host, numbered from `from` on.
fn page_urls(from: usize, count: usize) -> Vec<String> {
    (from..from + count).map(|number| format!("http://h.example/p/{number}")).collect()
}

#[test]
fn links_on_pages_with_new_text_are_free() {
    let mut crawl = TestCrawl::new(|_| {});
    for number in 0..2_000 {
        let mut links = page_urls(number * 5, 8);
        links.push("http://h.example/".into());
        let page = crawl.page(0, "http://h.example/p/1", 500, Some((number as u64, number as u64)), &links);
        assert_eq!(page, []);
    }
    assert_eq!(crawl.traps.cuts(), []);
}

#[test]
fn links_on_pages_with_the_same_text_are_limited() {
    let mut crawl = TestCrawl::new(|_| {});
    let mut skipped = 0;
    for number in 0..100 {
        skipped += crawl.page(0, "http://h.example/p/1", 1, Some((1, 1)), &page_urls(number * 10, 10)).len();
    }
    // The first page was new, and its links were free.
    assert_eq!(crawl.known.len(), 10 + TRAP_BUDGET);
    let cuts = crawl.traps.cuts();
    assert_eq!((cuts.len(), cuts[0].rule, cuts[0].skipped), (1, TrapRule::StalePattern, skipped as u64));
    assert_eq!(&*cuts[0].at, "h.example/*/#");
    assert!(cuts[0].covers(Url::parse("http://h.example/x/9").expect("a valid URL").as_ref()));
    assert!(!cuts[0].covers(Url::parse("http://h.example/x/y").expect("a valid URL").as_ref()));
    // A page of the pattern with new text refunds charges.
    crawl.page(0, "http://h.example/p/2", 1, Some((2, 2)), &[]);
    assert_eq!(
        crawl.page(0, "http://h.example/p/3", 1, Some((1, 1)), &page_urls(5_000, 20)).len(),
        20 - REFUND as usize
    );
}

#[test]
fn the_example_of_a_deep_path_is_that_path() {
    let config = Config { roots: vec!["http://h.example/".into()], ..Config::default() };
    let rules = config.compile(1).expect("valid settings");
    let deep = format!("http://h.example{}/", "/a/b".repeat(20));
    let longer_than_an_example = deep.replace('b', &"b".repeat(90));
    for location in [deep, longer_than_an_example] {
        let link = Link::root(Url::parse("http://h.example/page").expect("a valid URL"), 9);
        let mut visit = Visit::with_outcome(link, crate::base::job::Purpose::Page, Outcome::Redirect, Time::ZERO);
        visit.for_keeper.slot = Some((LaneId(0), 0));
        visit.follow_redirect(location.as_bytes(), &rules);
        let mut traps = Traps::new(&rules);
        traps.open(&visit);
        let cuts = traps.cuts();
        assert_eq!((cuts.len(), cuts[0].skipped), (1, 1), "{cuts:?}");
        assert_eq!(&*cuts[0].example, &location[..location.len().min(MAX_EXAMPLE)]);
    }
}

#[test]
fn a_host_has_a_small_budget_for_paths_that_repeat_themselves() {
    let mut crawl = TestCrawl::new(|config| config.trap_budget = 4_096);
    let repeating =
        |from: usize| (from..from + 10).map(|n| format!("http://h.example/a{n}/a{n}/a{n}")).collect::<Vec<_>>();
    let page = |crawl: &mut TestCrawl, number: u64, links: &[String]| {
        crawl.page(0, "http://h.example/p/1", 1, Some((number, number)), links)
    };
    // A known URL is not charged again, and pages with new texts refund nothing.
    for number in 0..100 {
        assert_eq!(page(&mut crawl, number, &repeating(0)), []);
    }
    assert_eq!(page(&mut crawl, 100, &repeating(10)), [TrapRule::PathRepeats; 4]);
    assert_eq!(page(&mut crawl, 101, &page_urls(0, 10)), []);
    let elsewhere = ["http://other.example/x/y/x/y/x/y".to_owned()];
    assert_eq!(page(&mut crawl, 102, &elsewhere), []);
    let cuts = crawl.traps.cuts();
    assert_eq!((cuts.len(), cuts[0].rule, cuts[0].skipped), (1, TrapRule::PathRepeats, 4));
    assert_eq!((&*cuts[0].at, &*cuts[0].example), ("h.example", "http://h.example/a16/a16/a16"));
    let mut ignoring = TestCrawl::new(|config| config.traps = TrapPolicy::Ignore);
    assert_eq!((0..50).map(|n| page(&mut ignoring, n, &repeating(n as usize * 10)).len()).sum::<usize>(), 0);
}

#[test]
fn texts_are_compared_within_one_host() {
    let mut crawl = TestCrawl::new(|_| {});
    for lane in 0..200 {
        assert_eq!(crawl.page(lane, "http://h.example/p/1", 1, Some((1, 1)), &page_urls(lane as usize * 10, 10)), []);
    }
}

#[test]
fn endless_patterns_are_charged_to_their_host() {
    let mut crawl = TestCrawl::new(|_| {});
    for number in 0..3_000 {
        let link = format!("http://h.example/?{}=1", letters(number));
        crawl.page(0, "http://h.example/", 1, Some((1, 1)), &[link]);
    }
    assert_eq!(crawl.known.len(), 1 + TRAP_BUDGET * PATTERNS_PER_HOST as usize);
    assert_eq!(crawl.traps.cuts()[0].rule, TrapRule::StaleHost);
}

#[test]
fn nearly_equal_pages_are_charged_only_at_a_large_depth() {
    let mut crawl = TestCrawl::new(|_| {});
    // A wide site of numbered pages is not limited.
    for number in 0..5_000_usize {
        let mut links = page_urls(number, 3);
        links.push("http://h.example/".into());
        assert_eq!(crawl.page(0, "http://h.example/p/1", 5, Some((number as u64, 1)), &links), []);
    }
    let mut crawl = TestCrawl::new(|_| {});
    let mut last = 0;
    // An endless calendar.
    for number in 0..5_000_usize {
        if crawl
            .page(0, "http://h.example/p/1", number as u32, Some((number as u64, 1)), &page_urls(number, 1))
            .is_empty()
        {
            last = number;
        }
    }
    // The budget for nearly equal pages is four times `--trap-budget`.
    assert_eq!(last, FAR_DEPTH as usize + TRAP_BUDGET * 4 - 1);
    assert_eq!(crawl.traps.cuts()[0].rule, TrapRule::AlikePattern);
}

#[test]
fn a_host_that_links_only_to_unknown_pages_is_limited() {
    let mut crawl = TestCrawl::new(|config| config.trap_budget = 4);
    for number in 0..1_000 {
        // Every page has new text.
        crawl.page(0, "http://h.example/p/1", 3, Some((number as u64, number as u64)), &page_urls(number * 40, 40));
    }
    // The budget is 256 times `--trap-budget`. The links of the page on which it runs out still enter.
    assert_eq!(crawl.known.len(), (4 * 256_usize).div_ceil(40) * 40);
    assert_eq!(crawl.traps.cuts()[0].rule, TrapRule::EndlessHost);
}

#[test]
fn combinations_of_parameters_are_limited_per_path() {
    let mut crawl = TestCrawl::new(|_| {});
    let mut number = 0u64;
    for mask in 0u32..1 << 10 {
        let names: Vec<String> =
            (0..10).filter(|bit| mask >> bit & 1 == 1).map(|bit| format!("{}=1", (b'a' + bit) as char)).collect();
        number += 1;
        let url = format!("http://h.example/list?{}", names.join("&"));
        crawl.page(0, "http://h.example/list", 2, Some((number, number)), &[url, "http://h.example/".into()]);
    }
    let cuts = crawl.traps.cuts();
    assert_eq!((cuts.len(), cuts[0].rule, &*cuts[0].at), (1, TrapRule::QueryVariants, "h.example/list"));
    // The page `/`, no name and each of the ten names alone are free, and so are the first combinations. The budget
    // allows four times `--trap-budget` more.
    assert_eq!(crawl.known.len(), 1 + 1 + 10 + FREE_COMBINATIONS + TRAP_BUDGET * 4);
}

#[test]
fn a_script_with_few_combinations_of_parameters_is_not_limited() {
    let mut crawl = TestCrawl::new(|_| {});
    for number in 0..20_000u64 {
        let url = format!("http://h.example/view.php?forum={}&topic={number}&page={}", number % 7, number % 3);
        let links = [url, "http://h.example/".to_owned()];
        assert_eq!(crawl.page(0, "http://h.example/view.php", 2, Some((number, number)), &links), []);
    }
}

#[test]
fn useful_hosts_raise_the_limit_of_their_domain() {
    let mut crawl = TestCrawl::new(|config| {
        config.trap_budget = 64 * 3;
        config.scope = ScopeKind::Domain;
    });
    let host = |number: usize| format!("http://h{number}.h.example/");
    let links: Vec<String> = (0..20).map(host).collect();
    // With this budget a domain may have three hosts.
    assert_eq!(crawl.page(0, "http://h.example/", 0, Some((0, 0)), &links).len(), 20 - 3);
    assert_eq!(crawl.traps.cuts()[0].rule, TrapRule::DomainHosts);
    assert_eq!(&*crawl.traps.cuts()[0].at, "h.example");
    assert!(crawl.traps.take_released().is_empty());
    for page in 1..=4u64 {
        crawl.page(1, &host(0), 1, Some((page, page)), &[]);
    }
    let released: Vec<String> = crawl.traps.take_released().iter().map(|link| link.url.to_string()).collect();
    assert_eq!(released, [host(3), host(4), host(5), host(6)]);
    // Pages with the same text do not make a host useful.
    for page in 0..100 {
        crawl.page(2, &host(1), 1, Some((7, 7)), &[host(100 + page)]);
    }
    assert!(crawl.traps.take_released().is_empty());
}

#[test]
fn max_pages_per_host_applies_even_if_traps_are_ignored() {
    for policy in [TrapPolicy::Avoid, TrapPolicy::Ignore] {
        let mut crawl = TestCrawl::new(|config| {
            config.max_pages_per_host = Some(10);
            config.traps = policy;
        });
        crawl.traps.admit_uncharged("h.example");
        assert_eq!(crawl.page(0, "http://h.example/", 0, None, &page_urls(0, 20)), [TrapRule::MaxPagesPerHost; 11]);
        assert_eq!(crawl.traps.pages_to_note("h.example"), Some(10));
    }
}

#[test]
fn no_link_is_skipped_if_traps_are_ignored() {
    let mut crawl = TestCrawl::new(|config| config.traps = TrapPolicy::Ignore);
    for number in 0..1_000 {
        assert_eq!(crawl.page(0, "http://h.example/", 100, Some((1, 1)), &page_urls(number * 9, 9)), []);
    }
}

#[test]
fn memory_for_charges_is_bounded() {
    let mut crawl = TestCrawl::new(|_| {});
    for number in 0..10_000usize {
        let word = letters(number);
        let links = [format!("http://h.example/{word}?a=1&b=2&c=3"), format!("http://h.example/?{word}=1")];
        crawl.page(0, "http://h.example/", 1, Some((1, 1)), &links);
    }
    assert!(crawl.traps.charges.len() <= MAX_TRACKED + 1);
    // A thousand patterns were charged before the host's own budget was spent.
    let patterns: Vec<usize> = crawl.traps.charges.values().map(|host| host.patterns.len()).collect();
    assert_eq!(patterns, [MAX_PATTERNS]);
    assert!(crawl.traps.variants.len() <= MAX_TRACKED);
    assert!(crawl.traps.cuts().len() <= MAX_CUTS + 10);
}

/// `number` in the letters from `a` (0) to `j` (9): digits would be one pattern.
fn letters(number: usize) -> String {
    number.to_string().bytes().map(|digit| char::from(digit - b'0' + b'a')).collect()
}

#[test]
fn a_host_with_endless_patterns_uses_only_its_own_budget() {
    let mut crawl = TestCrawl::new(|config| config.trap_budget = 1_024);
    let links: Vec<String> = (0..9_900).map(|n| format!("http://bad.example/q?{}=1", letters(n))).collect();
    crawl.page(0, "http://bad.example/", 1, Some((1, 1)), &[]);
    crawl.page(0, "http://bad.example/2", 1, Some((1, 1)), &links);
    crawl.page(1, "http://h.example/", 1, Some((1, 1)), &[]);
    assert_eq!(crawl.page(1, "http://h.example/2", 1, Some((1, 1)), &page_urls(0, 1_000)), []);
}

#[test]
fn a_host_with_many_cuts_does_not_hide_those_of_others() {
    let mut crawl = TestCrawl::new(|_| {});
    for number in 0..2 * MAX_CUTS {
        let at = format!("bad.example/{}", letters(number));
        crawl.traps.cuts.add(TrapRule::StalePattern, &at, 1, "http://bad.example/");
    }
    crawl.traps.cuts.add(TrapRule::StaleHost, "h.example", 1, "http://h.example/");
    let cuts = crawl.traps.cuts();
    assert!(cuts.iter().any(|cut| &*cut.at == "h.example"));
    let last = Url::parse("http://bad.example/last").expect("a valid URL");
    assert!(cuts.iter().any(|cut| cut.covers(last.as_ref())), "it may be one of those elsewhere");
}

#[test]
fn combinations_stay_limited_after_many_paths() {
    let mut crawl = TestCrawl::new(|_| {});
    let combinations = |path: &str, count: usize| -> Vec<String> {
        (0..count).map(|n| format!("{path}?a=1&{}=1", letters(n))).collect()
    };
    for number in 0..MAX_TRACKED {
        let links = combinations(&format!("http://bad.example/{number}"), FREE_COMBINATIONS + 1);
        crawl.page(0, "http://bad.example/", 1, None, &links);
    }
    let out = crawl.page(1, "http://h.example/", 1, None, &combinations("http://h.example/s", 1_000));
    assert!(out.contains(&TrapRule::QueryVariants));
    assert!(crawl.traps.variants.len() + crawl.traps.older_variants.len() <= 2 * MAX_TRACKED);
}

#[test]
fn fingerprints_of_different_hosts_cannot_be_made_to_collide() {
    let mut crawl = TestCrawl::new(|config| config.trap_budget = 1);
    let forged = 7 ^ mix(0) ^ mix(1);
    crawl.page(0, "http://bad.example/", 1, Some((forged, forged)), &[]);
    assert_eq!(crawl.page(1, "http://h.example/", 1, Some((7, 7)), &page_urls(0, 100)), []);
}

#[test]
fn a_waiting_host_stays_waiting_after_a_resume_over_the_limit() {
    let mut domains = Domains::new(1);
    for number in 0..6 {
        domains.recall(&format!("old{number}.example.com"));
    }
    domains.wait(LinkRef::from(&Link::root(Url::parse("http://new.example.com/").expect("a valid URL"), 9)));
    let mut useful_host = |lane: u32| {
        for _ in 0..4 {
            domains.count_useful_page(LaneId(lane), "old1.example.com");
        }
        domains.take_released().len()
    };
    assert_eq!((useful_host(0), useful_host(1)), (0, 1));
}

#[test]
fn long_links_are_limited_by_the_credits_of_their_site() {
    let mut crawl = TestCrawl::new(|config| config.trap_budget = 256);
    let long = "x".repeat(2_000);
    for number in 0..50 {
        let links: Vec<String> = (0..100).map(|link| format!("http://h.example/{long}/{number}/{link}")).collect();
        // Every page has new text.
        crawl.page(0, "http://h.example/p/1", 3, Some((number, number)), &links);
    }
    // In bytes of the log: a link costs its length and 24. The site may use 4,096 times the budget, and gets credit for
    // each response: four times its 5,000 bytes, and 16,384.
    let each = 2_024 + "http://h.example//10/10".len();
    let credited = (256 * 4_096 + 50 * (4 * 5_000 + 16_384)) / each;
    let known = crawl.known.len();
    assert!(
        (credited..=credited + 50).contains(&known),
        "{known} links were followed, {credited} are covered by credits"
    );
    let cut = &crawl.traps.cuts()[0];
    assert_eq!((cut.rule, cut.skipped), (TrapRule::LogBytes, 5_000 - known as u64));
}

#[test]
fn new_hosts_are_limited_by_the_credits_of_the_linking_site() {
    let mut crawl = TestCrawl::new(|config| (config.scope, config.trap_budget) = (ScopeKind::Any, 256));
    for number in 0..10 {
        let links: Vec<String> = (0..1_000).map(|host| format!("http://invented-{number}-{host}.example/")).collect();
        crawl.page(0, "http://h.example/p/1", 3, Some((number, number)), &links);
    }
    // A site may link to a quarter of the budget of new hosts, and to 16 more for each further page with new text.
    assert_eq!(crawl.known.len(), 256 / 4 + 9 * 16);
    assert_eq!(crawl.traps.cuts()[0].rule, TrapRule::SourceHosts);
}

#[test]
fn sitemap_files_entries_and_bytes_are_limited() {
    let mut traps = Traps::new(
        &Config { roots: vec!["http://h.example/".into()], trap_budget: 16, ..Config::default() }
            .compile(1)
            .expect("valid settings"),
    );
    let links = |kind, count: usize, length: usize| -> Vec<Link> {
        let text = |number| format!("http://h.example/{}{number}", "x".repeat(length));
        let link = |number| Link { kind, ..Link::root(Url::parse(&text(number)).expect("a valid URL"), 1) };
        (0..count).map(link).collect()
    };
    let mut files = links(LinkKind::SitemapFile, 10, 0);
    traps.limit_sitemap("h.example", &mut files);
    assert_eq!(files.len(), 16 / 4);
    traps.charge_sitemap("h.example", files.iter());
    let mut pages = links(LinkKind::Sitemap, 10_000, 0);
    traps.limit_sitemap("h.example", &mut pages);
    assert_eq!(pages.len(), 16 * 256);
    // Long URLs are charged for their excess length.
    let mut long = links(LinkKind::Sitemap, 1_000, 1_000);
    traps.limit_sitemap("h.example", &mut long);
    assert!((60..80).contains(&long.len()), "{}", long.len());
    let rules: std::collections::BTreeSet<TrapRule> = traps.cuts().iter().map(|cut| cut.rule).collect();
    assert!(rules.into_iter().eq([TrapRule::LogBytes, TrapRule::SitemapFiles, TrapRule::SitemapEntries]));
    let empty = Sitemap::default();
    assert!(!traps.charge_sitemap_bytes("h.example", 200_000, &empty) && !traps.is_sitemap_spent("h.example"));
    assert!(traps.charge_sitemap_bytes("h.example", 100_000, &empty) && traps.is_sitemap_spent("h.example"));
    assert!(!traps.is_sitemap_spent("other.example"));
}

#[test]
fn requests_of_rendered_pages_add_few_hosts_and_none_when_memory_is_full() {
    let mut crawl = TestCrawl::new(|config| config.scope = ScopeKind::Any);
    let part = |host: usize| {
        let url = |text: &str| Url::parse(text).expect("a valid URL");
        let via = Some(url("http://h.example/"));
        Link { via, ..Link::root(url(&format!("http://h{host}.cdn.example/x.js")), 0) }
    };
    assert_eq!(crawl.traps.judge_part(&part(0), false), None);
    assert_eq!(crawl.traps.judge_part(&part(1), true), Some(TrapRule::HostMemory));
    let rules: Vec<_> = (0..1_000).filter_map(|host| crawl.traps.judge_part(&part(host), false)).collect();
    // The budget of a domain without useful hosts is one for this budget of links.
    assert_eq!(rules, [TrapRule::DomainHosts; 999]);
    assert_eq!(crawl.traps.judge_part(&part(0), true), None, "the host is known");
    assert!(crawl.traps.take_released().is_empty(), "a part is not a link to follow");
}
