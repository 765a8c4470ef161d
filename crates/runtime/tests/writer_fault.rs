//! A panic in the consumer of the records ends the crawl at once.

use std::sync::Arc;

use argiope_core::crawl::rules::{Config, EngineName, ProgramSettings};
use argiope_core::crawl::schedule::keeper::Settled;
use argiope_engine::Clock;
use argiope_practice::{PracticeWeb, Response, Site};
use argiope_runtime::fetchers::Fetchers;
use argiope_runtime::keeper_thread::{CrawlSetup, KeeperHandle, VisitConsumer};
use argiope_runtime::writer_thread::OutputTarget;
use argiope_store::MemoryFrontier;

struct PanickingConsumer;

impl VisitConsumer for PanickingConsumer {
    fn take(&mut self, _settled: Settled) {
        panic!("the consumer panics on purpose");
    }

    fn flush(&mut self) {}
}

#[test]
fn a_panic_in_the_writer_thread_ends_the_crawl() {
    let site = Site::http("127.5.3.1:0").expect("a loopback address");
    // The second page hangs for much longer than a test may take.
    let site = site.page("/", Response::links(["/hang"])).page("/hang", Response::hang());
    let root = site.url("/");
    let _web = PracticeWeb::new().site(site).start().expect("the practice web starts");
    let config = Config { roots: vec![root], ..Config::default() };
    let rules = Arc::new(argiope_runtime::rules(&config, ProgramSettings::default()).expect("the settings are valid"));
    let (frontier, fetchers) = (MemoryFrontier::new(rules.fingerprint_key), Fetchers::engine(EngineName::Tokio));
    let (clock, target) = (Clock::start(), OutputTarget::default());
    let setup =
        CrawlSetup { frontier, rules, fetchers, clock, consumer: PanickingConsumer, target, accepts_links: false };
    let fault = KeeperHandle::start(setup).expect("it starts").join().expect_err("the panic is an error of the crawl");
    assert!(fault.is_internal() && fault.to_string().contains("while records were written"), "{fault}");
}
