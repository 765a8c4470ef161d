//! Tests of how each engine uses its sockets, from the side of the server. How pages are examined is tested elsewhere,
//! because it does not depend on the engine.

#[macro_use]
mod kit;

use std::io::{Read, Write};
use std::net::{IpAddr, TcpListener};
use std::sync::{Arc, Barrier, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use argiope_core::crawl::fetcher::Fetcher as _;
use argiope_core::crawl::rules::{Config, Environment, ProgramSettings, Size, Span};
use argiope_core::{ErrorKind, Outcome};
use argiope_engine::{EngineKind, StopMode};

use kit::{Bench, Server, config, job, job_at, page, rules};

/// A timeout that no test reaches.
const UNREACHED_TIMEOUT: Duration = Duration::from_secs(3_600);

every_engine! {
    a_page_is_fetched
    an_idle_connection_is_reused
    a_connection_is_not_reused_for_another_port
    a_closed_idle_connection_is_replaced_without_another_attempt
    an_idle_connection_is_closed_when_the_host_closes_it
    a_closed_port_is_reported_as_refused
    the_second_address_is_tried_after_the_first
    a_host_that_never_responds_times_out
    a_trickle_is_read_to_its_end
    a_large_page_is_read_whole
    many_fetches_wait_at_once
    bodies_wait_for_the_budget
    draining_finishes_the_jobs_in_flight
    an_immediate_stop_closes_all_connections
    a_body_cut_off_by_the_server_is_reported
}

fn a_page_is_fetched(kind: EngineKind) {
    let server = Server::start(|path, stream| page(stream, &format!("<title>{path}</title>")));
    let mut bench = Bench::new(kind, rules(|_| {}));
    let visit = bench.fetch(job(1, server.address, "/one"));
    assert_eq!((visit.facts.status, visit.facts.outcome), (Some(200), Outcome::Ok));
    assert_eq!(visit.findings.title.as_deref(), Some("/one"));
    assert_eq!(visit.facts.ip, Some(server.address.ip()));
    assert!(visit.facts.timings.connect.is_some() && visit.facts.timings.total.is_some());
}

fn an_idle_connection_is_reused(kind: EngineKind) {
    let server = Server::start(|_, stream| page(stream, "x"));
    let mut bench = Bench::new(kind, rules(|_| {}));
    for number in 0..20 {
        let visit = bench.fetch(job(1, server.address, "/"));
        assert_eq!(visit.facts.status, Some(200));
        assert_eq!(visit.facts.timings.connect.is_some(), number == 0);
    }
    assert_eq!(server.connections(), 1);
}

fn a_connection_is_not_reused_for_another_port(kind: EngineKind) {
    let servers = [Server::start(|_, stream| page(stream, "a")), Server::start(|_, stream| page(stream, "bb"))];
    let mut bench = Bench::new(kind, rules(|_| {}));
    for (server, length) in servers.iter().zip([1, 2]) {
        assert_eq!(bench.fetch(job(1, server.address, "/")).facts.bytes_body, length);
    }
}

fn a_closed_idle_connection_is_replaced_without_another_attempt(kind: EngineKind) {
    // The server offers keep-alive and then closes the connection.
    let server = Server::start(|_, stream| {
        page(stream, "x");
        false
    });
    let mut bench = Bench::new(kind, rules(|_| {}));
    for number in 1..=10 {
        let visit = bench.fetch(job(1, server.address, "/"));
        assert_eq!((visit.facts.status, visit.link.tries), (Some(200), 1), "{:?}", visit.facts.error);
        assert_eq!(server.connections(), number);
    }
}

fn an_idle_connection_is_closed_when_the_host_closes_it(kind: EngineKind) {
    let (sender, closed) = mpsc::channel();
    let server = Server::start(move |_, stream| {
        page(stream, "x");
        stream.shutdown(std::net::Shutdown::Write).unwrap();
        // The read ends with 0 bytes when the client has closed the connection.
        let read = stream.read(&mut [0; 64]);
        sender.send(matches!(read, Ok(0))).unwrap();
        false
    });
    let mut bench = Bench::new(kind, rules(|_| {}));
    bench.fetch(job(1, server.address, "/"));
    assert!(closed.recv_timeout(Duration::from_secs(10)).unwrap());
}

fn a_closed_port_is_reported_as_refused(kind: EngineKind) {
    let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let mut bench = Bench::new(kind, rules(|_| {}));
    let visit = bench.fetch(job(1, address, "/"));
    assert_eq!(visit.facts.outcome, Outcome::Failed);
    assert_eq!(visit.facts.error.as_ref().unwrap().kind, ErrorKind::ConnectRefused);
    assert_eq!(visit.for_keeper.slot(), Some((argiope_core::base::job::LaneId(1), 0)));
}

fn the_second_address_is_tried_after_the_first(kind: EngineKind) {
    let server = Server::start(|_, stream| page(stream, "x"));
    let mut bench = Bench::new(kind, rules(|_| {}));
    // No server listens at these addresses. One refuses at once, the other may be silent; the next address is tried.
    for dead in ["127.0.0.9", "192.0.2.1"] {
        let addresses: [IpAddr; 2] = [dead.parse().unwrap(), server.address.ip()];
        let visit = bench.fetch(job_at(1, &addresses, server.address.port(), "/"));
        assert_eq!(visit.facts.status, Some(200), "{:?}", visit.facts.error);
    }
}

fn a_host_that_never_responds_times_out(kind: EngineKind) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut bench = Bench::new(
        kind,
        rules(|config| {
            config.idle_timeout = Span(Duration::from_millis(300));
            config.timeout = Span(UNREACHED_TIMEOUT);
        }),
    );
    let start = Instant::now();
    let visit = bench.fetch(job(1, listener.local_addr().unwrap(), "/"));
    assert_eq!(visit.facts.error.as_ref().unwrap().kind, ErrorKind::TimeoutFirstByte);
    assert!(start.elapsed() >= Duration::from_millis(300));
}

fn a_trickle_is_read_to_its_end(kind: EngineKind) {
    let server = Server::start(|_, stream| {
        for byte in b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n" {
            stream.write_all(&[*byte]).unwrap();
            thread::sleep(Duration::from_millis(1));
        }
        true
    });
    let mut bench = Bench::new(kind, rules(|_| {}));
    for _ in 0..2 {
        let visit = bench.fetch(job(1, server.address, "/"));
        assert_eq!((visit.facts.bytes_body, visit.facts.truncated), (3, None));
    }
    assert_eq!(server.connections(), 1);
}

fn a_large_page_is_read_whole(kind: EngineKind) {
    let server = Server::start(|_, stream| page(stream, &"<p>text</p>".repeat(500_000)));
    let mut bench = Bench::new(kind, rules(|_| {}));
    let visit = bench.fetch(job(1, server.address, "/"));
    assert_eq!((visit.facts.bytes_body, visit.facts.truncated), (5_500_000, None));
}

fn many_fetches_wait_at_once(kind: EngineKind) {
    // No request is answered before all have arrived.
    let all = Barrier::new(200);
    let server = Server::start(move |_, stream| {
        all.wait();
        page(stream, "x")
    });
    let mut bench = Bench::new(kind, rules(|_| {}));
    for lane in 0..200 {
        bench.send(job(lane, server.address, "/"));
    }
    for _ in 0..200 {
        assert_eq!(bench.visit().facts.status, Some(200));
    }
    assert_eq!(server.connections(), 200);
}

fn bodies_wait_for_the_budget(kind: EngineKind) {
    let server = Server::start(|_, stream| page(stream, &"x".repeat(300_000)));
    // Of this limit, responses may use half.
    let config = Config { max_memory: Some(Size(200_000)), ..config(|_| {}) };
    let program = ProgramSettings { keep_wire: true, ..ProgramSettings::default() };
    let rules = config.compile_in(Environment::default(), program).unwrap();
    let budget = rules.budget.clone();
    assert_eq!(budget.limit(), 100_000);
    let mut bench = Bench::new(kind, rules);
    for lane in 0..10 {
        bench.send(job(lane, server.address, "/"));
    }
    for _ in 0..10 {
        let visit = bench.visit();
        assert_eq!((visit.facts.bytes_body, visit.facts.truncated), (300_000, None));
        assert!(visit.wire.as_ref().unwrap().response.len() > 300_000);
    }
    bench.stop(StopMode::Drain);
    assert_eq!(budget.response_bytes(), 0);
}

fn draining_finishes_the_jobs_in_flight(kind: EngineKind) {
    let (arrived, arrivals) = mpsc::channel();
    // The five responses are sent when this thread waits too.
    let release = Arc::new(Barrier::new(6));
    let released = Arc::clone(&release);
    let server = Server::start(move |_, stream| {
        arrived.send(()).unwrap();
        released.wait();
        page(stream, "x")
    });
    let mut bench = Bench::new(kind, rules(|_| {}));
    for lane in 0..5 {
        bench.send(job(lane, server.address, "/"));
    }
    for _ in 0..5 {
        arrivals.recv_timeout(Duration::from_secs(30)).unwrap();
    }
    bench.pool.stop(StopMode::Drain);
    release.wait();
    assert!(bench.pool.join_all().is_none());
    assert_eq!(bench.visits.try_iter().filter(|visit| visit.facts.status == Some(200)).count(), 5);
}

fn an_immediate_stop_closes_all_connections(kind: EngineKind) {
    let (sender, closed) = mpsc::channel();
    let (arrived, arrivals) = mpsc::channel();
    let server = Server::start(move |_, stream| {
        arrived.send(()).unwrap();
        // An engine may also end its connections with a reset.
        let is_closed = match stream.read(&mut [0; 64]) {
            Ok(count) => count == 0,
            Err(error) => error.kind() == std::io::ErrorKind::ConnectionReset,
        };
        sender.send(is_closed).unwrap();
        false
    });
    let without_timeouts = rules(|config| {
        config.idle_timeout = Span(UNREACHED_TIMEOUT);
        config.timeout = Span(UNREACHED_TIMEOUT);
    });
    let mut bench = Bench::new(kind, without_timeouts);
    for lane in 0..20 {
        bench.send(job(lane, server.address, "/"));
    }
    // The server would not notice a connection that is dropped before its request arrives.
    for _ in 0..20 {
        arrivals.recv_timeout(Duration::from_secs(30)).unwrap();
    }
    // If this waited for the server, it would take an hour.
    bench.stop(StopMode::Now);
    for _ in 0..20 {
        assert!(closed.recv_timeout(Duration::from_secs(10)).unwrap());
    }
}

fn a_body_cut_off_by_the_server_is_reported(kind: EngineKind) {
    let server = Server::start(|_, stream| {
        stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf").unwrap();
        false
    });
    let mut bench = Bench::new(kind, rules(|_| {}));
    let visit = bench.fetch(job(1, server.address, "/"));
    assert_eq!(visit.facts.status, Some(200));
    assert!(visit.facts.truncated.is_some() && visit.facts.error.is_some());
}
