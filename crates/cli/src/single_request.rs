//! Sends single requests in the same way as a crawl, with its rules and fetchers, but without a crawl directory.

use std::sync::{Arc, Mutex, PoisonError};

use argiope_core::crawl::rules::Rules;
use argiope_core::crawl::schedule::keeper::Settled;
use argiope_runtime::Error;
use argiope_runtime::fetchers::Fetchers;
use argiope_runtime::keeper_thread::{Clock, CrawlSetup, KeeperHandle, MemoryFrontier, VisitConsumer};
use argiope_runtime::writer_thread::OutputTarget;

/// Sends the requests of the roots, and returns their visits.
pub fn send(rules: Rules, fetchers: Fetchers) -> Result<Vec<Settled>, Error> {
    let visits = Arc::new(Mutex::new(Vec::new()));
    let started = KeeperHandle::start(CrawlSetup {
        frontier: MemoryFrontier::new(rules.fingerprint_key),
        rules: Arc::new(rules),
        fetchers,
        clock: Clock::start(),
        consumer: CollectVisits(Arc::clone(&visits)),
        target: OutputTarget::default(),
        accepts_links: false,
    });
    started.and_then(KeeperHandle::join)?;
    Ok(std::mem::take(&mut *visits.lock().unwrap_or_else(PoisonError::into_inner)))
}

/// Collects the visits of the crawl.
struct CollectVisits(Arc<Mutex<Vec<Settled>>>);

impl VisitConsumer for CollectVisits {
    fn take(&mut self, settled: Settled) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(settled);
    }

    fn flush(&mut self) {}
}
