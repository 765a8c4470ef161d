//! Properties of every crawl, checked on random webs in virtual time.

use std::collections::HashMap;
use std::sync::Arc;

use argiope_core::crawl::rules::{Config, Pace, Rate, RobotsPolicy, Rules, ScopeKind, Size, Span};
use argiope_core::crawl::schedule::keeper::End;
use argiope_core::{ErrorKind, Outcome, Time, Url};
use argiope_testkit::sim::model::{ExpectedResult, WebModel, WebPlan};
use argiope_testkit::sim::{Sim, SimReport};
use proptest::prelude::*;

const FINGERPRINT_KEY: u64 = 42;

const MAX_TRIES: u8 = 4;

/// Random webs.
fn plans() -> impl Strategy<Value = WebPlan> {
    (any::<u64>(), 1..8usize, 1..25usize, 1..5usize, 0..60u64).prop_map(
        |(seed, hosts, pages, addresses, fault_percent)| WebPlan { seed, hosts, pages, addresses, fault_percent },
    )
}

/// Random settings that a crawl may have.
fn settings() -> impl Strategy<Value = Config> {
    let pace = prop_oneof![Just(Pace::Gentle), Just(Pace::Steady), Just(Pace::Full)];
    let delay = prop_oneof![3 => Just(0), 1 => Just(100), 1 => Just(1_500)];
    // `concurrency`, `per_host`, `per_ip`.
    let limits = (1..24usize, prop::option::of(1..8usize), prop::option::of(0..5usize));
    let robots = prop_oneof![4 => Just(RobotsPolicy::Obey), 1 => Just(RobotsPolicy::Ignore)];
    let rate = prop::option::weighted(0.2, 1..50u32);
    (pace, delay, limits, robots, rate).prop_map(|(pace, delay, (concurrency, per_host, per_ip), robots, rate)| {
        Config {
            scope: ScopeKind::Any,
            exclude: WebModel::exclude(),
            pace,
            delay: Span::from_millis(delay),
            concurrency,
            per_host,
            per_ip,
            robots,
            rate: rate.map(|rate| Rate { per_second: f64::from(rate) }),
            max_tries: MAX_TRIES,
            retry_wait: Span::from_millis(500),
            ..Config::default()
        }
    })
}

/// At least 400 webs, or more if `PROPTEST_CASES` is larger. A failure prints its plan, from which the web can be
/// generated again.
fn config() -> ProptestConfig {
    let usual = ProptestConfig::default();
    ProptestConfig { cases: usual.cases.max(400), failure_persistence: None, ..usual }
}

/// A finished crawl.
struct Crawled {
    report: SimReport,
    oracle: HashMap<Url, ExpectedResult>,
    sim: Sim<WebModel>,
}

fn rules(config: &Config, model: &WebModel) -> Arc<Rules> {
    let config = Config { roots: model.roots(), ..config.clone() };
    Arc::new(config.compile(FINGERPRINT_KEY).expect("valid settings"))
}

fn crawl(plan: &WebPlan, config: &Config) -> Crawled {
    crawl_with(plan, config, |_| {})
}

/// Crawls the web of a plan. `prepare` changes the simulation before it starts.
fn crawl_with(plan: &WebPlan, config: &Config, prepare: impl FnOnce(&mut Sim<WebModel>)) -> Crawled {
    let model = WebModel::new(plan.clone(), MAX_TRIES);
    let rules = rules(config, &model);
    let oracle = model.oracle(&rules);
    let mut sim = Sim::new(rules, model);
    prepare(&mut sim);
    let report = sim.run().expect("a crawl that ends");
    Crawled { report, oracle, sim }
}

/// The settled pages. Each must occur once.
fn records(report: &SimReport) -> HashMap<Url, ExpectedResult> {
    let mut records = HashMap::new();
    for settled in report.settled.iter().filter(|settled| settled.visit.is_page()) {
        let visit = &settled.visit;
        // The order of fetches decides which member of a redirect loop gets this error, so it is not compared.
        let error =
            visit.facts.error.as_ref().map(|failure| failure.kind).filter(|kind| *kind != ErrorKind::RedirectLoop);
        // A record does not say whether the URL was requested.
        let record = ExpectedResult { outcome: visit.facts.outcome, error, is_requested: false };
        assert!(records.insert(visit.link.url.clone(), record).is_none(), "{} was settled twice", visit.link.url);
    }
    records
}

/// Checks that no request was impolite, and that the counts of the frontier agree.
fn check_politeness(crawled: &Crawled) -> Result<(), TestCaseError> {
    let violations = crawled.sim.politeness.violations();
    let first = violations.get(..violations.len().min(5));
    prop_assert!(violations.is_empty(), "{} violations, first {first:#?}", violations.len());
    let counts = crawled.report.counts;
    prop_assert_eq!(counts.known, counts.queued + counts.leased + counts.settled);
    Ok(())
}

/// Checks that all settled pages agree with the oracle.
fn check_against_oracle(crawled: &Crawled) -> Result<(), TestCaseError> {
    for (url, record) in records(&crawled.report) {
        let expected = crawled.oracle.get(&url).copied();
        prop_assert!(expected.is_some(), "{} should not have been found", url);
        prop_assert_eq!(
            Some(record),
            expected.map(|expected| ExpectedResult { is_requested: false, ..expected }),
            "{}",
            url
        );
    }
    Ok(())
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn every_reachable_page_is_settled_once_and_politely(plan in plans(), config in settings()) {
        let crawled = crawl(&plan, &config);
        check_politeness(&crawled)?;
        check_against_oracle(&crawled)?;
        let records = records(&crawled.report);
        for url in crawled.oracle.keys() {
            prop_assert!(records.contains_key(url), "{} was never settled", url);
        }
        let requested: std::collections::HashSet<&Url> =
            crawled.oracle.iter().filter(|(_, expected)| expected.is_requested).map(|(url, _)| url).collect();
        let pages = crawled.sim.politeness.requested_pages();
        prop_assert_eq!(requested.len(), pages.len());
        prop_assert!(pages.iter().all(|url| requested.contains(url)));
        let SimReport { end, ended, last_event, counts, .. } = crawled.report;
        prop_assert_eq!(end, End::Finished);
        prop_assert_eq!(ended, last_event, "the crawl ends with its last event");
        prop_assert_eq!((counts.queued, counts.leased), (0, 0));
    }

    #[test]
    fn the_limit_on_pages_is_exact(plan in plans(), config in settings(), max in 1..40u64) {
        let config = Config { max_pages: Some(max), ..config };
        let crawled = crawl(&plan, &config);
        check_politeness(&crawled)?;
        check_against_oracle(&crawled)?;
        // A page without a connection is tried, but does not count.
        let is_unconnected = |kind| matches!(kind, ErrorKind::ConnectRefused | ErrorKind::ConnectTimeout);
        let counts = |expected: &&ExpectedResult| expected.is_requested && !expected.error.is_some_and(is_unconnected);
        let fetchable = crawled.oracle.values().filter(counts).count() as u64;
        prop_assert_eq!(crawled.sim.politeness.counted_pages(), fetchable.min(max));
        let SimReport { end, ended, last_event, counts, .. } = crawled.report;
        prop_assert_eq!(ended, last_event, "the crawl ends with its last event");
        prop_assert_eq!(end == End::Finished, counts.queued == 0);
        prop_assert_eq!(counts.leased, 0);
        // If the numbers are equal, either end is correct.
        if fetchable < max {
            prop_assert_eq!(end, End::Finished);
        } else if fetchable > max {
            prop_assert_eq!(end, End::MaxPages);
        }
    }

    #[test]
    fn no_fetch_starts_after_the_limit_on_bytes(plan in plans(), config in settings(), max in 1..60_000u64) {
        let crawled = crawl(&plan, &Config { max_bytes: Some(Size(max)), ..config });
        check_politeness(&crawled)?;
        check_against_oracle(&crawled)?;
        let SimReport { end, ended, last_event, counts, .. } = crawled.report;
        prop_assert!(matches!(end, End::Finished | End::MaxBytes));
        prop_assert_eq!(ended, last_event);
        prop_assert_eq!(end == End::Finished, counts.queued == 0);
        prop_assert_eq!(counts.leased, 0);
    }

    #[test]
    fn the_limit_on_time_ends_the_crawl_at_its_deadline(plan in plans(), config in settings(), max_ms in 1..20_000u64) {
        let crawled = crawl(&plan, &Config { max_time: Some(Span::from_millis(max_ms)), ..config });
        check_politeness(&crawled)?;
        check_against_oracle(&crawled)?;
        let SimReport { end, ended, counts, .. } = crawled.report;
        let deadline = Time::from_micros(max_ms * 1_000);
        if end == End::Finished {
            prop_assert!(ended <= deadline);
            prop_assert_eq!((counts.queued, counts.leased), (0, 0));
        } else {
            prop_assert_eq!((end, ended), (End::MaxTime, deadline));
            prop_assert!(counts.queued + counts.leased > 0);
        }
    }

    #[test]
    fn a_crawl_that_is_stopped_gives_back_leased_links(plan in plans(), config in settings(), stop_ms in 0..20_000u64) {
        let stop_time = Time::from_micros(stop_ms * 1_000);
        let crawled = crawl_with(&plan, &config, |sim| sim.stop_at(stop_time, End::Interrupted));
        check_politeness(&crawled)?;
        check_against_oracle(&crawled)?;
        let SimReport { end, ended, last_event, counts, .. } = crawled.report;
        prop_assert_eq!(counts.leased, 0);
        prop_assert_eq!(end == End::Finished, counts.queued == 0);
        prop_assert_eq!(ended, last_event);
    }

    #[test]
    fn the_clock_may_start_at_any_value(plan in plans(), config in settings(), start in any::<u64>()) {
        let model = WebModel::new(plan, MAX_TRIES);
        let rules = rules(&config, &model);
        let expected = model.oracle(&rules).len();
        // Half, so that later times do not overflow.
        let mut sim = Sim::new(rules, model).begin_at(Time::from_micros(start / 2));
        let report = sim.run().expect("a crawl that ends");
        prop_assert_eq!(records(&report).len(), expected);
    }
}

#[test]
fn the_random_webs_cause_all_outcomes_except_not_modified() {
    let mut counts: HashMap<Outcome, u32> = HashMap::new();
    for seed in 0..60 {
        let plan = WebPlan { seed, hosts: 6, pages: 12, addresses: 3, fault_percent: 40 };
        let config = Config { scope: ScopeKind::Any, exclude: WebModel::exclude(), ..Config::default() };
        for record in records(&crawl(&plan, &config).report).values() {
            *counts.entry(record.outcome).or_default() += 1;
        }
    }
    let expected =
        [Outcome::Ok, Outcome::Redirect, Outcome::HttpError, Outcome::Failed, Outcome::Robots, Outcome::Refused];
    assert!(expected.iter().all(|outcome| counts.get(outcome).is_some_and(|count| *count > 5)), "{counts:?}");
}
