//! Graphs over sockets: a simple crawl finds what the oracle expects, and many slow responses are served in parallel.

mod client;

use argiope_practice::{
    CrawlReach, ExpectedRecord, Graph, GraphPlan, PageId, PageKind, PracticeWeb, RunningWeb, Shape, Site, spawn_child,
};
use client::*;
use std::collections::BTreeMap;
use std::io::Write;
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Serves a graph; returns its port too.
fn serve_plan(plan: GraphPlan) -> (RunningWeb, Arc<Graph>, u16) {
    let site = Site::http("0.0.0.0:0").unwrap();
    let port = site.address().port();
    let is_https = false;
    let graph = Arc::new(Graph::new(plan, port, is_https));
    (PracticeWeb::new().site(site.graph(&graph)).start().unwrap(), graph, port)
}

/// The address, the host and the path of a URL.
fn split(url: &str) -> (SocketAddr, &str, &str) {
    let rest = url.strip_prefix("http://").unwrap();
    let slash = rest.find('/').unwrap();
    (rest[..slash].parse().unwrap(), &rest[..slash], &rest[slash..])
}

/// Crawls one page after the other, with one connection per host.
fn crawl(roots: Vec<String>) -> BTreeMap<String, ExpectedRecord> {
    let mut connections: BTreeMap<SocketAddr, TcpStream> = BTreeMap::new();
    let mut found = BTreeMap::new();
    let mut queue = roots;
    while let Some(url) = queue.pop() {
        if found.contains_key(&url) {
            continue;
        }
        let (address, host, path) = split(&url);
        let stream = connections.entry(address).or_insert_with(|| connect(address));
        write!(stream, "GET {path} HTTP/1.1\r\nHost: {host}\r\n\r\n").unwrap();
        let (head, body) = read_response(stream);
        let text = String::from_utf8(body).unwrap();
        let mut links: Vec<String> = text
            .split("href=\"")
            .skip(1)
            .filter_map(|piece| piece.split('"').next())
            .map(|href| if href.starts_with('/') { format!("http://{host}{href}") } else { href.to_owned() })
            .collect();
        links.sort();
        links.dedup();
        let redirect = header(&head, "location").map(str::to_owned);
        let links_found = links.len() as u32;
        queue.extend(links.into_iter().chain(redirect.clone()));
        found.insert(url, ExpectedRecord { status: status(&head), links: links_found, redirect });
    }
    found
}

#[test]
fn a_crawl_finds_the_pages_of_the_oracle() {
    let random = GraphPlan {
        hosts: 12,
        pages: 40,
        cross: 100,
        missing: 50,
        broken: 30,
        redirects: 100,
        zipf: 1.1,
        ..GraphPlan::default()
    };
    let blog = GraphPlan { shape: Shape::Blog, pages: 200, size: 8192, ..GraphPlan::default() };
    for plan in [random, blog] {
        let (web, graph, _) = serve_plan(plan);
        let expected = graph.reachable(graph.roots(), CrawlReach::Everywhere);
        let found = crawl(graph.roots().map(|id| graph.url(id)).collect());
        assert_eq!(found.len() as u64, graph.total_pages());
        assert_eq!(found, expected);
        assert_eq!(web.requests(), graph.total_pages());
    }
}

#[test]
fn the_latency_is_never_shorter_than_planned() {
    let (_web, graph, _) = serve_plan(GraphPlan { latency_us: (20_000, 40_000), ..GraphPlan::default() });
    let mut total = Duration::ZERO;
    let started = Instant::now();
    for page in 0..10 {
        let id = PageId { host: 0, page };
        let url = graph.url(id);
        let (address, host, path) = split(&url);
        total += graph.latency(id);
        let mut stream = connect(address);
        write!(stream, "GET {path} HTTP/1.1\r\nHost: {host}\r\n\r\n").unwrap();
        read_response(&mut stream);
    }
    assert!(started.elapsed() >= total && total >= Duration::from_millis(200), "{total:?}");
}

#[test]
fn a_dripping_page_arrives_completely_and_late() {
    let (_web, graph, port) = serve_plan(GraphPlan { size: 3000, drip: (10, 5_000), ..GraphPlan::default() });
    let address = graph.address_of(0);
    let mut stream = connect((address, port).into());
    let started = Instant::now();
    write!(stream, "GET / HTTP/1.1\r\nHost: {address}\r\n\r\n").unwrap();
    assert_eq!(read_response(&mut stream).1.len(), 3000);
    assert!(started.elapsed() >= Duration::from_millis(45), "nine pauses between ten bytes");
}

/// The size is such that most of the filler is not rendered with the page.
#[test]
fn a_large_dripping_page_has_the_same_bytes_as_one_that_does_not_drip() {
    let get = |drip: (u32, u64)| {
        let (_web, graph, port) = serve_plan(GraphPlan { size: 200_000, drip, ..GraphPlan::default() });
        let address = graph.address_of(0);
        let mut stream = connect((address, port).into());
        write!(stream, "GET / HTTP/1.1\r\nHost: {address}\r\n\r\n").unwrap();
        read_response(&mut stream).1
    };
    let expected = get((0, 0));
    assert_eq!(expected.len(), 200_000);
    assert!(get((20, 100)) == expected, "the last bytes of the filler drip");
}

#[test]
fn connections_are_closed_if_the_plan_says_so() {
    let (web, graph, port) = serve_plan(GraphPlan { close: true, ..GraphPlan::default() });
    let address = graph.address_of(0);
    let mut stream = connect((address, port).into());
    write!(stream, "GET / HTTP/1.1\r\nHost: {address}\r\n\r\n").unwrap();
    let bytes = read_to_end(&mut stream).unwrap();
    assert!(String::from_utf8(bytes).unwrap().contains("Connection: close\r\n"));
    assert!(web.wait_open(0, TIMEOUT));
}

#[test]
fn unknown_hosts_and_pages_and_robots_txt_are_404() {
    let (_web, graph, port) = serve_plan(GraphPlan { pages: 10, ..GraphPlan::default() });
    let address = graph.address_of(0);
    let mut stream = connect((address, port).into());
    for (host, path, expected) in [
        ("127.1.0.1", "/p9", 200),
        ("127.1.0.1", "/p10", 404),
        ("127.1.0.1", "/p09", 404),
        ("127.1.0.1", "/robots.txt", 404),
        ("127.1.0.2", "/", 404),
        ("localhost", "/", 404),
    ] {
        write!(stream, "GET {path} HTTP/1.1\r\nHost: {host}:{port}\r\n\r\n").unwrap();
        assert_eq!(status(&read_response(&mut stream).0), expected, "{host}{path}");
    }
}

#[test]
fn dead_hosts_accept_requests_and_never_respond() {
    let (web, graph, port) = serve_plan(GraphPlan { hosts: 50, root_hosts: 50, dead: 500, ..GraphPlan::default() });
    let dead = (0..50).find(|&host| graph.kind(PageId { host, page: 0 }) == PageKind::Dead).unwrap();
    let address = graph.address_of(dead);
    let mut stream = connect((address, port).into());
    write!(stream, "GET /robots.txt HTTP/1.1\r\nHost: {address}\r\n\r\n").unwrap();
    assert!(web.wait_requests(1, TIMEOUT));
    assert_eq!((web.log()[0].status, web.stats().answered), (0, 0));
    let found = graph.reachable(graph.roots(), CrawlReach::RootHosts);
    assert_eq!(found[&graph.url(PageId { host: dead, page: 0 })].status, 0);
}

/// Many slow responses in parallel take as long as one.
#[test]
fn slow_responses_wait_in_parallel() {
    let binary = Path::new(env!("CARGO_BIN_EXE_argiope-practice"));
    let args = ["serve", "--hosts", "400", "--seeds", "400", "--latency-ms", "1000"];
    let mut child = spawn_child(binary, args).unwrap();
    let roots = child.ready().roots.clone();
    let started = Instant::now();
    let mut streams: Vec<TcpStream> = roots
        .iter()
        .map(|root| {
            let (address, host, path) = split(root);
            let mut stream = connect(address);
            write!(stream, "GET {path} HTTP/1.1\r\nHost: {host}\r\n\r\n").unwrap();
            stream
        })
        .collect();
    for stream in &mut streams {
        assert_eq!(status(&read_response(stream).0), 200);
    }
    let elapsed = started.elapsed();
    // One after the other, they would take 400 seconds.
    assert!(elapsed >= Duration::from_millis(995) && elapsed < Duration::from_secs(100), "{elapsed:?}");
    let stats = child.stats().unwrap();
    assert_eq!((stats.requests, stats.peak_open), (400, 400));
    assert!(stats.max_at_once > 1, "requests were in flight together");
}
