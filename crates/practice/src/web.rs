//! A web: sites, the threads that serve them, and a handle for tests and commands.
//!
//! Invariant: when `start` returns, every site accepts connections. When `stop` or `drop` returns, all threads have
//! ended, unless one of them failed.

use crate::certificate::{SiteTls, TestAuthority};
use crate::http2::{self, Http2Thread};
use crate::log::{PolitenessLimits, RequestLog, SeenRequest, Stats};
use crate::server::ServerThread;
use crate::site::Site;
use crate::web_state::{OpenSite, WebState};
use rustix::event::EventfdFlags;
use rustix::fd::OwnedFd;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use tokio::sync::watch;

/// Sites to be served.
pub struct PracticeWeb {
    sites: Vec<Site>,
    threads: usize,
    keep_log: bool,
    keep_headers: bool,
    politeness: PolitenessLimits,
    authority: Option<Arc<TestAuthority>>,
}

impl Default for PracticeWeb {
    fn default() -> PracticeWeb {
        PracticeWeb::new()
    }
}

impl PracticeWeb {
    /// A web without sites, served by one thread, with a log of every request.
    pub fn new() -> PracticeWeb {
        PracticeWeb {
            sites: Vec::new(),
            threads: 1,
            keep_log: true,
            keep_headers: false,
            politeness: PolitenessLimits::default(),
            authority: None,
        }
    }

    /// Adds a site.
    pub fn site(mut self, site: Site) -> PracticeWeb {
        self.sites.push(site);
        self
    }

    /// The number of server threads (at least one).
    pub fn threads(mut self, threads: usize) -> PracticeWeb {
        self.threads = threads.max(1);
        self
    }

    /// Keeps only counters, no entry per request: for runs of millions of requests.
    pub fn without_request_log(mut self) -> PracticeWeb {
        self.keep_log = false;
        self
    }

    /// Keeps all headers and the body of every request in the log.
    pub fn keep_headers(mut self) -> PracticeWeb {
        self.keep_headers = true;
        self
    }

    /// Sets the limits that crawlers must respect; see [`Stats::violations`].
    pub fn politeness(mut self, politeness: PolitenessLimits) -> PracticeWeb {
        self.politeness = politeness;
        self
    }

    /// Uses this authority instead of a new one.
    pub fn authority(mut self, authority: Arc<TestAuthority>) -> PracticeWeb {
        self.authority = Some(authority);
        self
    }

    /// Starts serving.
    pub fn start(self) -> io::Result<RunningWeb> {
        let authority = match self.authority {
            Some(authority) => authority,
            None => Arc::new(TestAuthority::new()?),
        };
        let open = |site: Site| -> io::Result<OpenSite> {
            let tls = match site.tls {
                Some(kind) => Some(SiteTls::new(&authority, kind, &site)?),
                None => None,
            };
            Ok(OpenSite {
                content: site.content(),
                listener: site.listener,
                address: site.address,
                tls,
                http2: site.http2,
            })
        };
        let sites = self.sites.into_iter().map(open).collect::<io::Result<Vec<_>>>()?;
        let log = Arc::new(RequestLog::new(sites.len(), self.keep_log, self.keep_headers, self.politeness));
        let shared =
            Arc::new(WebState { sites, log, stop: AtomicBool::new(false), released: watch::Sender::new(false) });
        let wake = rustix::event::eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        let mut running = RunningWeb { shared, authority, wake, threads: Vec::new(), http2: None };
        let mut to_http2 = None;
        if running.shared.sites.iter().any(|site| site.http2.is_some()) {
            let (sender, inbox) = http2::channel();
            running.http2 = Some(Http2Thread::start(&running.shared, inbox)?);
            to_http2 = Some(sender);
        }
        for index in 0..self.threads {
            let server = ServerThread::new(&running.shared, &running.wake, to_http2.clone())?;
            let thread = std::thread::Builder::new().name(format!("practice-{index}")).spawn(move || server.run())?;
            running.threads.push(thread);
        }
        Ok(running)
    }
}

/// A running web. Dropping it stops it.
pub struct RunningWeb {
    shared: Arc<WebState>,
    authority: Arc<TestAuthority>,
    /// An eventfd that wakes all server threads.
    wake: OwnedFd,
    threads: Vec<JoinHandle<io::Result<()>>>,
    http2: Option<Http2Thread>,
}

impl RunningWeb {
    /// The addresses of the sites, in the order they were added.
    pub fn addresses(&self) -> Vec<SocketAddr> {
        self.shared.sites.iter().map(|site| site.address).collect()
    }

    /// The authority's certificate, as PEM.
    pub fn ca_pem(&self) -> String {
        self.authority.pem()
    }

    /// The authority that signs the sites' certificates.
    pub fn authority(&self) -> &Arc<TestAuthority> {
        &self.authority
    }

    /// All requests so far, in the order of arrival (empty with [`PracticeWeb::without_request_log`]).
    pub fn log(&self) -> Vec<SeenRequest> {
        self.shared.log.entries()
    }

    /// The start time that the times in the log are relative to.
    pub fn started(&self) -> Instant {
        self.shared.log.started()
    }

    /// Sends all held responses ([`Response::held`](crate::Response::held)), and holds none from now on.
    pub fn release(&self) -> io::Result<()> {
        self.shared.released.send_replace(true);
        rustix::io::write(&self.wake, &1u64.to_ne_bytes())?;
        Ok(())
    }

    /// All counts.
    pub fn stats(&self) -> Stats {
        self.shared.log.stats()
    }

    /// Requests seen so far.
    pub fn requests(&self) -> u64 {
        self.shared.log.requests()
    }

    /// Connections open now.
    pub fn open(&self) -> u64 {
        self.shared.log.open()
    }

    /// Blocks until this many requests have arrived; returns `false` on timeout.
    #[must_use = "it may have timed out"]
    pub fn wait_requests(&self, count: u64, timeout: Duration) -> bool {
        self.shared.log.wait(timeout, || self.shared.log.requests() >= count)
    }

    /// Blocks until this many responses were sent as scripted; returns `false` on timeout.
    #[must_use = "it may have timed out"]
    pub fn wait_answered(&self, count: u64, timeout: Duration) -> bool {
        self.shared.log.wait(timeout, || self.shared.log.answered() >= count)
    }

    /// Blocks until exactly this number of connections is open; returns `false` on timeout.
    #[must_use = "it may have timed out"]
    pub fn wait_open(&self, count: u64, timeout: Duration) -> bool {
        self.shared.log.wait(timeout, || self.shared.log.open() == count)
    }

    /// Blocks until `condition` returns true. It is called after every event of the web, and at least every 50 ms.
    /// Returns `false` on timeout.
    #[must_use = "it may have timed out"]
    pub fn wait_until(&self, timeout: Duration, mut condition: impl FnMut(&RunningWeb) -> bool) -> bool {
        self.shared.log.wait(timeout, || condition(self))
    }

    /// Stops serving and waits for the threads. Returns the error of a thread that ended early.
    pub fn stop(mut self) -> io::Result<()> {
        self.stop_threads()
    }

    fn stop_threads(&mut self) -> io::Result<()> {
        self.shared.stop.store(true, SeqCst);
        rustix::io::write(&self.wake, &1u64.to_ne_bytes())?;
        for thread in self.threads.drain(..) {
            thread.join().map_err(|_| io::Error::other("a thread of the practice web panicked"))??;
        }
        // The HTTP/2 thread ends when the server threads have dropped their senders.
        if let Some(http2) = self.http2.take() {
            http2.join()?;
        }
        Ok(())
    }
}

impl Drop for RunningWeb {
    fn drop(&mut self) {
        // Errors are ignored here; `stop` returns them.
        let _ = self.stop_threads();
    }
}
