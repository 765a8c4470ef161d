//! A fake crawl to serve, and an HTTP client that sends exactly the bytes of a test.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use argiope_core::crawl::control::Control;
use argiope_core::crawl::status::{
    CrawlState, FleetStatus, HostStatus, ProcessStatus, RecentError, Status, WaitReason, WidthReason,
};
use argiope_core::{ErrorKind, Outcome};
use argiope_dashboard::{CrawlSource, Server, ServerOptions};

/// A URL that would inject a script into a page without escaping.
pub const HOSTILE_URL: &str = "http://h.example/<img src=x onerror=\"document.title='owned'\">";

/// A fake crawl whose numbers grow with every status, and that obeys controls.
#[derive(Default)]
pub struct FakeCrawl {
    /// How often the status was requested.
    pub status_requests: AtomicU64,
    pub controls: Mutex<Vec<Control>>,
    /// Whether the crawl has ended, so that it has no status.
    pub ended: std::sync::atomic::AtomicBool,
    /// Whether other processes work on the same crawl.
    pub is_shared: std::sync::atomic::AtomicBool,
    /// How many reports were made.
    pub reports: AtomicU64,
    /// No report is made while this is locked.
    pub hold_reports: Mutex<()>,
}

impl CrawlSource for FakeCrawl {
    fn status(&self) -> Option<Status> {
        let status_requests = self.status_requests.fetch_add(1, Ordering::Relaxed) + 1;
        if self.ended.load(Ordering::Relaxed) {
            return None;
        }
        let mut status = Status {
            elapsed: Duration::from_millis(status_requests * 400),
            outcomes: [
                (Outcome::Ok, status_requests * 10),
                (Outcome::HttpError, status_requests),
                (Outcome::Robots, 2),
            ]
            .into_iter()
            .collect(),
            pages: status_requests * 11,
            status_classes: [0, status_requests * 10, 0, status_requests, 0],
            error_kinds: [(ErrorKind::Reset, 3)].into_iter().collect(),
            in_flight: 7,
            queued: 1_234,
            bytes: status_requests * 5_000,
            pages_per_second: 25.0,
            hosts: 2,
            busiest: vec![HostStatus {
                host: "h.example".into(),
                in_flight: 4,
                width: 6,
                width_reason: WidthReason::Limit,
                rate_cap: None,
                spacing: Duration::from_millis(100),
                queued: 900,
                mean_ttfb: Some(Duration::from_millis(120)),
                reason: Some(WaitReason::Responses),
                next_in: Duration::ZERO,
            }],
            errors: vec![RecentError {
                url: HOSTILE_URL.into(),
                outcome: Outcome::Failed,
                status: None,
                kind: Some(ErrorKind::Reset),
                at: Duration::from_secs(1),
            }],
            memory_bytes: 50_000_000,
            disk_bytes: 9_000_000,
            fleet: self.is_shared.load(Ordering::Relaxed).then(|| FleetStatus {
                round: 2,
                buckets: 64,
                free_buckets: 4,
                queued: 1_234,
                pages_per_second: 50.5,
                processes: vec![
                    ProcessStatus {
                        id: "aaa".into(),
                        is_this: true,
                        buckets: 30,
                        pages: status_requests,
                        ..Default::default()
                    },
                    ProcessStatus { id: "<b>bbb</b>".into(), buckets: 30, silent_seconds: 12.0, ..Default::default() },
                ],
                ..FleetStatus::default()
            }),
            ..Status::default()
        };
        for control in self.controls.lock().expect("no panic").iter() {
            match control {
                Control::Pause => status.state = CrawlState::Paused,
                Control::Resume => status.state = CrawlState::Running,
                Control::Stop => status.state = CrawlState::Draining,
                Control::Pace { pace } => status.pace = *pace,
                Control::Rate { rate } => status.rate = rate.map(|rate| rate.per_second),
                Control::Exclude { .. } | Control::ExcludeHost { .. } => {
                    status.excludes.extend(control.exclude_pattern().map(Into::into));
                }
            }
        }
        Some(status)
    }

    fn control(&self, control: Control) -> Result<(), String> {
        if control.exclude_pattern().is_some_and(|pattern| regex::Regex::new(&pattern).is_err()) {
            return Err("the pattern cannot be used".into());
        }
        self.controls.lock().expect("no panic").push(control);
        Ok(())
    }

    fn explain(&self, url: &str) -> Result<String, String> {
        if url.contains("unknown") {
            Err("this URL was never found".into())
        } else {
            Ok(format!("{url}\n  fetched <b>once</b>"))
        }
    }

    fn report(&self) -> Result<String, String> {
        drop(self.hold_reports.lock().expect("no panic"));
        self.reports.fetch_add(1, Ordering::Relaxed);
        Ok("<!doctype html><title>Report</title>".into())
    }
}

/// Serves a fake crawl with the name `h.example` on a free port.
pub fn serve(token: Option<&str>) -> (Server, Arc<FakeCrawl>) {
    let crawl = Arc::new(FakeCrawl::default());
    let options = ServerOptions {
        address: "127.0.0.1:0".parse().expect("an address"),
        token: token.map(ToOwned::to_owned),
        name: "h.example".into(),
    };
    let server = Server::start(options, Arc::clone(&crawl) as Arc<dyn CrawlSource>).expect("a free port");
    (server, crawl)
}

pub struct Response {
    pub status: u16,
    pub head: String,
    pub body: String,
}

impl Response {
    pub fn header(&self, name: &str) -> Option<&str> {
        let mut lines = self.head.lines().filter_map(|line| line.split_once(": "));
        lines.find(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value)
    }
}

/// Sends one request with these headers. `Host` is added if `headers` does not contain it.
pub fn request(server: &Server, method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> Response {
    let address = server.address();
    let mut stream = connect(address);
    let mut text = format!("{method} {path} HTTP/1.1\r\nConnection: close\r\n");
    if !headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("host")) {
        text.push_str(&format!("Host: {address}\r\n"));
    }
    for (name, value) in headers {
        text.push_str(&format!("{name}: {value}\r\n"));
    }
    if !body.is_empty() {
        text.push_str(&format!("Content-Length: {}\r\n", body.len()));
    }
    text.push_str("\r\n");
    text.push_str(body);
    stream.write_all(text.as_bytes()).expect("a server that reads");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("a response in UTF-8");
    let (head, body) = answer.split_once("\r\n\r\n").expect("a head");
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).expect("a status");
    Response { status, head: head.to_owned(), body: body.to_owned() }
}

pub fn get(server: &Server, path: &str) -> Response {
    request(server, "GET", path, &[], "")
}

pub fn control(server: &Server, body: &str) -> Response {
    request(server, "POST", "/api/v1/control", &[("Content-Type", "application/json")], body)
}

pub fn connect(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).expect("a server that listens");
    stream.set_read_timeout(Some(Duration::from_secs(20))).expect("a timeout");
    stream
}

/// A reader of server-sent events.
pub struct Events(BufReader<TcpStream>);

impl Events {
    pub fn open(server: &Server) -> Self {
        Self::open_with(server, "")
    }

    /// Opens the stream with more lines in the head of the request.
    pub fn open_with(server: &Server, headers: &str) -> Self {
        let mut stream = connect(server.address());
        let head = format!("GET /api/v1/events HTTP/1.1\r\nHost: {}\r\n{headers}\r\n", server.address());
        stream.write_all(head.as_bytes()).expect("a server that reads");
        Self(BufReader::new(stream))
    }

    /// The next event: its name and its data.
    pub fn next(&mut self) -> (String, serde_json::Value) {
        let mut name = String::new();
        loop {
            let mut line = String::new();
            assert!(self.0.read_line(&mut line).expect("an open stream") > 0, "the stream ended");
            if let Some(value) = line.trim_end().strip_prefix("event: ") {
                value.clone_into(&mut name);
            } else if let Some(data) = line.trim_end().strip_prefix("data: ") {
                return (name, serde_json::from_str(data).expect("JSON"));
            }
        }
    }
}
