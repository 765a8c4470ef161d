//! A fault of our own in whoever takes the records: the crawl learns of it at once, not at its end.

use std::sync::Arc;

use argiope_core::rules::Config;
use argiope_core::schedule::keeper::Settled;
use argiope_engine::{Clock, EngineKind};
use argiope_practice::{PracticeWeb, Response, Site};
use argiope_runtime::keeping::{Keeping, Setting, Taker};
use argiope_runtime::writing::Desk;
use argiope_store::MemoryFrontier;

struct Faulty;

impl Taker for Faulty {
    fn take(&mut self, _settled: Settled) {
        panic!("a fault of ours, on purpose");
    }

    fn rest(&mut self) {}
}

#[test]
fn a_writer_that_panics_ends_the_crawl() {
    let site = Site::http("127.5.3.1:0").expect("a loopback address");
    // The second page hangs for much longer than anybody waits for a test.
    let site = site.page("/", Response::links(["/hang"])).page("/hang", Response::hang());
    let root = site.url("/");
    let _web = PracticeWeb::new().site(site).start().expect("the practice web starts");
    let config = Config { roots: vec![root], ..Config::default() };
    let rules = Arc::new(argiope_runtime::rules(&config).expect("settings that make sense"));
    let (frontier, engine) = (MemoryFrontier::new(rules.fingerprint_key), EngineKind::Tokio);
    let (clock, desk) = (Clock::start(), Desk::default());
    let setting = Setting { frontier, rules, engine, clock, taker: Faulty, desk, open: false };
    let fault = Keeping::start(setting).expect("it starts").join().expect_err("the records are lost");
    assert!(fault.message.contains("while records were written"), "{}", fault.message);
}
