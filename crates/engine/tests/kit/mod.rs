//! A worker pool of any kind, jobs for it, and a scripted server on plain sockets.

use std::io::{BufRead, BufReader, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

use argiope_core::base::job::{Job, LaneId, Purpose};
use argiope_core::crawl::fetcher::{Fetcher as _, FetcherContext, PartSender};
use argiope_core::crawl::rules::{Config, Rules, Span};
use argiope_core::crawl::visit::Visit;
use argiope_core::{Link, Time, Url};
use argiope_engine::{Clock, EngineKind, StopMode, VisitSender, WorkerPool};

/// Generates every case for every engine, in a module with the name of the engine. `./test` skips `uring` where
/// io_uring is missing.
macro_rules! every_engine {
    ($($case:ident)+) => {
        every_engine!(tokio Tokio, $($case)+);
        every_engine!(coroutines Coroutines, $($case)+);
        every_engine!(callbacks Callbacks, $($case)+);
        every_engine!(threads Threads, $($case)+);
        every_engine!(uring Uring, $($case)+);
    };
    ($name:ident $kind:ident, $($case:ident)+) => {
        mod $name {
            $(#[test]
            fn $case() {
                super::$case(argiope_engine::EngineKind::$kind);
            })+
        }
    };
}

/// A running worker pool and its visits.
pub struct Bench {
    pub pool: WorkerPool,
    pub visits: mpsc::Receiver<Box<Visit>>,
}

/// The default settings, with `adapt` applied to them.
pub fn config(adapt: impl FnOnce(&mut Config)) -> Config {
    let mut config = Config { roots: vec!["http://127.0.0.1/".into()], ..Config::default() };
    config.connect_timeout = Span(Duration::from_secs(5));
    adapt(&mut config);
    config
}

/// The default rules, with `adapt` applied to the settings.
pub fn rules(adapt: impl FnOnce(&mut Config)) -> Rules {
    let fingerprint_key = 7;
    config(adapt).compile(fingerprint_key).unwrap()
}

/// A pool whose workers run.
pub fn start_pool(kind: EngineKind, rules: Rules, visits: VisitSender) -> WorkerPool {
    let mut pool = WorkerPool::new(kind, Clock::start());
    pool.start(&FetcherContext { rules: Arc::new(rules), visits, parts: PartSender::none() }).unwrap();
    pool.wait_ready().unwrap();
    pool
}

/// Sends a job to its worker.
pub fn send(pool: &mut WorkerPool, job: Job) {
    assert!(pool.accept(job, Time::ZERO).is_ok(), "an engine accepts every job");
    pool.flush();
}

impl Bench {
    pub fn new(kind: EngineKind, rules: Rules) -> Self {
        let (sender, visits) = mpsc::channel();
        let visit_sender = VisitSender::new(move |batch: &mut Vec<Box<Visit>>| {
            for visit in batch.drain(..) {
                // The receiver may be dropped while the workers still run.
                let _ = sender.send(visit);
            }
        });
        Self { pool: start_pool(kind, rules, visit_sender), visits }
    }

    pub fn send(&mut self, job: Job) {
        send(&mut self.pool, job);
    }

    /// Waits for the next visit.
    pub fn visit(&self) -> Box<Visit> {
        self.visits.recv_timeout(Duration::from_secs(30)).expect("every job has a visit")
    }

    pub fn fetch(&mut self, job: Job) -> Box<Visit> {
        self.send(job);
        self.visit()
    }

    pub fn stop(mut self, mode: StopMode) {
        self.pool.stop(mode);
        assert!(self.pool.join_all().is_none());
    }
}

/// A job for a page of the server at this address.
pub fn job(lane: u32, address: SocketAddr, path: &str) -> Job {
    job_at(lane, &[address.ip()], address.port(), path)
}

pub fn job_at(lane: u32, addresses: &[IpAddr], port: u16, path: &str) -> Job {
    let url = Url::parse(&format!("http://host-{lane}.test:{port}{path}")).unwrap();
    let max_redirects = 10;
    Job { lane: LaneId(lane), ..Job::detached(Link::root(url, max_redirects), Purpose::Page, addresses) }
}

/// A server that responds to each request by its path. It has one thread per connection, and counts its connections.
pub struct Server {
    pub address: SocketAddr,
    pub connections: Arc<AtomicUsize>,
}

impl Server {
    /// `respond` gets the path of a request, writes the response, and returns whether the connection stays open.
    pub fn start(respond: impl Fn(&str, &mut TcpStream) -> bool + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let connections = Arc::new(AtomicUsize::new(0));
        let (count, respond) = (Arc::clone(&connections), Arc::new(respond));
        thread::spawn(move || {
            loop {
                // A test limits the file descriptors. If none is left, one will be closed soon.
                let Ok((stream, _)) = listener.accept() else {
                    thread::yield_now();
                    continue;
                };
                count.fetch_add(1, Ordering::SeqCst);
                let respond = Arc::clone(&respond);
                thread::spawn(move || serve_connection(stream, &*respond));
            }
        });
        Self { address, connections }
    }

    pub fn connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }
}

fn serve_connection(mut stream: TcpStream, respond: &dyn Fn(&str, &mut TcpStream) -> bool) {
    // The socket is not cloned, because one of the tests limits the file descriptors.
    let mut lines = Vec::new();
    loop {
        lines.clear();
        // A buffer of one byte, so that no bytes after the head are read and lost.
        let mut head = BufReader::with_capacity(1, &stream);
        while !lines.ends_with(b"\r\n\r\n") {
            match head.read_until(b'\n', &mut lines) {
                Ok(0) | Err(_) => return,
                Ok(_) => {}
            }
        }
        let head = String::from_utf8_lossy(&lines);
        let path = head.split(' ').nth(1).unwrap_or_default().to_owned();
        if !respond(&path, &mut stream) {
            return;
        }
    }
}

/// Writes a page with its length. Returns whether the connection stays open.
pub fn page(stream: &mut TcpStream, body: &str) -> bool {
    let head = format!("HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: {}\r\n\r\n", body.len());
    stream.write_all(head.as_bytes()).is_ok() && stream.write_all(body.as_bytes()).is_ok()
}
