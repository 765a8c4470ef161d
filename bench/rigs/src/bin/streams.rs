//! Measures the memory of waiting HTTP/2 connections, without sockets and TLS. `streams CONNECTIONS STREAMS` opens
//! CONNECTIONS connections, each with STREAMS requests that get no response, and divides the growth of resident memory
//! by the number of connections or streams. Jobs and URLs are included. The allocator is that of the command.

#![allow(clippy::print_stdout, reason = "it prints what it measures")]

use std::net::IpAddr;
use std::sync::Arc;

use argiope_core::base::job::{Job, LaneHttp, Purpose};
use argiope_core::crawl::rules::{Config, HttpVersion, Rules};
use argiope_core::crawl::session::{Completed, Session};
use argiope_core::http::conn::Step;
use argiope_core::http::h2::{frame, hpack};
use argiope_core::{LaneId, Link, Time, Url};
use argiope_rigs::kernel;

#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

const NOW: Time = Time::ZERO;

fn main() -> Result<(), String> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let numbers: Option<Vec<usize>> = arguments.iter().map(|text| text.parse().ok()).collect();
    let Some(&[connections, streams]) = numbers.as_deref() else {
        return Err("usage: streams CONNECTIONS STREAMS".into());
    };
    let config = Config { roots: vec!["http://h.example/".into()], http: HttpVersion::Http2, ..Config::default() };
    let fingerprint_key = 1;
    let rules = Arc::new(config.compile(fingerprint_key).map_err(|fault| fault.to_string())?);
    let addresses: Arc<[IpAddr]> = [IpAddr::from([127, 0, 0, 1])].into();
    // Warm up: the first sessions make the allocator and static tables grow, which must not count.
    let warm_up: Vec<Session> = (0..100).map(|n| idle_connection(n, &rules, &addresses)).collect();
    let mut last = kernel::resident();
    let mut growth = || {
        let now = kernel::resident();
        (now - std::mem::replace(&mut last, now)) as f64
    };
    // Both lists are allocated before measuring. Their memory still counts when it is first used: two words per
    // connection.
    let (mut idle_connections, mut busy_connections) =
        (Vec::with_capacity(connections), Vec::with_capacity(connections));
    idle_connections.extend((0..connections).map(|n| idle_connection(n, &rules, &addresses)));
    println!("an idle connection: {:.0} bytes", growth() / connections as f64);
    busy_connections.extend((0..connections).map(|n| connection_with_request(n, &rules, &addresses)));
    println!("a connection with one waiting stream: {:.0} bytes", growth() / connections as f64);
    for n in 1..streams {
        for (at, session) in busy_connections.iter_mut().enumerate() {
            let accepted = session.accept(job(at * streams + n, &addresses), &rules, NOW);
            assert!(accepted.is_ok(), "the connection accepts another stream");
            write_all(session);
        }
    }
    if streams > 1 {
        println!("a further stream: {:.0} bytes", growth() / (connections * (streams - 1)) as f64);
    }
    let jobs: Vec<Box<Job>> = (0..connections * 10).map(|n| job(n, &addresses)).collect();
    println!("of that, the job with its URL: {:.0} bytes", growth() / jobs.len() as f64 - size_of::<usize>() as f64);
    drop((warm_up, idle_connections, busy_connections, jobs));
    Ok(())
}

fn job(number: usize, addresses: &Arc<[IpAddr]>) -> Box<Job> {
    let url = Url::parse(&format!("http://h.example/folder/page-{number:07}.html")).expect("a URL");
    let redirects = 1;
    let job = Job::detached(Link::root(url, redirects), Purpose::Page, Arc::clone(addresses));
    Box::new(Job { lane: LaneId(7), http: LaneHttp::Multiplexed, ..job })
}

/// A connection whose settings were exchanged, with one request that was sent.
fn connection_with_request(number: usize, rules: &Arc<Rules>, addresses: &Arc<[IpAddr]>) -> Session {
    let peer = IpAddr::from([127, 0, 0, 1]);
    let opened = Session::open(job(number, addresses), rules, NOW, peer, NOW);
    let mut session = opened.unwrap_or_else(|visit| panic!("{:?}", visit.facts.error));
    assert!(session.finished(NOW).is_none());
    write_all(&mut session);
    let mut settings = Vec::new();
    frame::push_settings(&mut settings, &[(frame::setting::MAX_CONCURRENT_STREAMS, 128)]);
    frame::push(&mut settings, frame::kind::SETTINGS, frame::flag::ACK, 0, &[]);
    session.feed(&settings, NOW);
    write_all(&mut session);
    session
}

/// A connection whose only request has its response.
fn idle_connection(number: usize, rules: &Arc<Rules>, addresses: &Arc<[IpAddr]>) -> Session {
    let mut session = connection_with_request(number, rules, addresses);
    let (mut block, mut page) = (Vec::new(), Vec::new());
    hpack::encode(&mut block, b":status", b"200");
    // The first stream of a client has the number 1.
    frame::push(&mut page, frame::kind::HEADERS, frame::flag::END_HEADERS, 1, &block);
    frame::push(&mut page, frame::kind::DATA, frame::flag::END_STREAM, 1, b"page");
    session.feed(&page, NOW);
    assert!(matches!(session.finished(NOW), Some(Completed::Visit(_))));
    assert!(session.is_idle());
    session
}

fn write_all(session: &mut Session) {
    while let Step::Write(bytes) = session.step() {
        let count = bytes.len();
        session.wrote(count, NOW);
    }
}
