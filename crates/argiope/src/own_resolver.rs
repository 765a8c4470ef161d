//! [`OwnResolver`]: looks host names up with a closure of the user. It is a fetcher that accepts no jobs.

use std::fmt;
use std::io;
use std::net::IpAddr;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use argiope_core::base::job::Job;
use argiope_core::crawl::fetcher::{Fetcher, FetcherContext, StopMode};
use argiope_core::http::address::DnsResult;
use argiope_core::{ErrorKind, Failure, Time};

/// How long an address stays valid. Then the closure is asked again.
const ADDRESS_LIFE: Duration = Duration::from_secs(60);

/// The closure of [`CrawlBuilder::resolve_with`](crate::CrawlBuilder::resolve_with).
#[derive(Clone)]
pub(crate) struct OwnResolver(pub Arc<Resolve>);

type Resolve = dyn Fn(&str) -> Option<Vec<IpAddr>> + Send + Sync;

impl fmt::Debug for OwnResolver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("OwnResolver")
    }
}

impl Fetcher for OwnResolver {
    fn start(&mut self, _crawl: &FetcherContext) -> io::Result<()> {
        Ok(())
    }

    fn accept(&mut self, job: Job, _now: Time) -> Result<(), Job> {
        Err(job)
    }

    fn resolve(&self, host: &str) -> Option<DnsResult> {
        match catch_unwind(AssertUnwindSafe(|| (self.0)(host))) {
            Ok(None) => None,
            Ok(Some(addresses)) if addresses.is_empty() => Some(Err(Failure::new(
                ErrorKind::DnsNxdomain,
                format!("the resolver of the program has no host {host}"),
            ))),
            Ok(Some(addresses)) => Some(Ok((addresses, ADDRESS_LIFE))),
            Err(_) => Some(Err(Failure::new(ErrorKind::DnsInvalid, "the closure resolve_with panicked"))),
        }
    }

    fn stop(&mut self, _mode: StopMode) {}
}
