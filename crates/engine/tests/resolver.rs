//! The resolver against a small DNS server on loopback, over real sockets.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

use argiope_core::ErrorKind;
use argiope_core::schedule::job::LaneId;
use argiope_engine::resolver::{DnsAnswer, DnsQuery, DnsResult, Resolver, ResolverSettings};

const A: u16 = 1;
const AAAA: u16 = 28;

/// How the scripted server answers for a name: not at all, with a response code, or with addresses and a time to live.
enum Says {
    Nothing,
    Code(u8),
    Four(&'static [[u8; 4]], u32),
    Six(Ipv6Addr, u32),
}

fn script(name: &str, kind: u16) -> Says {
    match (name.split('.').next().unwrap_or_default(), kind) {
        ("four", A) => Says::Four(&[[192, 0, 2, 1], [192, 0, 2, 2]], 300),
        ("four", _) => Says::Code(0),
        ("both", A) => Says::Four(&[[192, 0, 2, 3]], 300),
        ("both", AAAA) => Says::Six(Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 7), 300),
        ("brief", A) => Says::Four(&[[192, 0, 2, 4]], 0),
        ("lasting", A) => Says::Four(&[[192, 0, 2, 5]], 4_000_000),
        ("half", A) => Says::Four(&[[192, 0, 2, 6]], 300),
        ("half", _) => Says::Nothing,
        ("broken", _) => Says::Code(2),
        ("servfail4", A) => Says::Code(2),
        ("refused4", A) => Says::Code(5),
        ("formerr4", A) => Says::Code(1),
        ("silent4", A) => Says::Nothing,
        ("servfail4" | "refused4" | "formerr4" | "silent4", _) => Says::Code(3),
        ("missing", _) => Says::Code(3),
        ("silent", _) => Says::Nothing,
        (name, A) if name.starts_with("many") => Says::Four(&[[192, 0, 2, 9]], 60),
        _ => Says::Code(0),
    }
}

/// A name server that answers by the script and counts the queries for IPv4 addresses.
fn name_server() -> (SocketAddr, Arc<AtomicUsize>) {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let address = socket.local_addr().unwrap();
    let questions = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&questions);
    thread::spawn(move || {
        let mut packet = [0; 1_500];
        while let Ok((length, asker)) = socket.recv_from(&mut packet) {
            if let Some(reply) = answer(&packet[..length], &count) {
                socket.send_to(&reply, asker).unwrap();
            }
        }
    });
    (address, questions)
}

fn answer(question: &[u8], count: &AtomicUsize) -> Option<Vec<u8>> {
    let (mut name, mut at) = (String::new(), 12);
    while question[at] != 0 {
        let label = &question[at + 1..][..usize::from(question[at])];
        name.push_str(std::str::from_utf8(label).unwrap());
        name.push('.');
        at += 1 + label.len();
    }
    let kind = u16::from_be_bytes([question[at + 1], question[at + 2]]);
    if kind == A {
        count.fetch_add(1, Ordering::SeqCst);
    }
    let (code, ttl, records): (u8, u32, Vec<Vec<u8>>) = match script(&name, kind) {
        Says::Nothing => return None,
        Says::Code(code) => (code, 0, Vec::new()),
        Says::Four(addresses, ttl) => (0, ttl, addresses.iter().map(|address| address.to_vec()).collect()),
        Says::Six(address, ttl) => (0, ttl, vec![address.octets().to_vec()]),
    };
    let mut reply = question[..at + 5].to_vec();
    reply[2..12].copy_from_slice(&[0x81, 0x80 | code, 0, 1, 0, records.len() as u8, 0, 0, 0, 0]);
    for record in records {
        reply.extend([0xc0, 12]);
        reply.extend(kind.to_be_bytes());
        reply.extend([0, 1]);
        reply.extend(ttl.to_be_bytes());
        reply.extend((record.len() as u16).to_be_bytes());
        reply.extend(record);
    }
    Some(reply)
}

struct Bench {
    resolver: Resolver,
    answers: mpsc::Receiver<DnsAnswer>,
}

fn bench(server: SocketAddr, timeout: Duration) -> Bench {
    let (sender, answers) = mpsc::channel();
    let settings = ResolverSettings { timeout, server: Some(server) };
    let resolver = Resolver::with(settings, move |answer| sender.send(answer).unwrap());
    Bench { resolver, answers }
}

impl Bench {
    fn ask(&self, host: &str) -> DnsResult {
        self.resolver.ask(DnsQuery { host: host.into(), lane: LaneId(42) });
        let answer = self.answers.recv_timeout(Duration::from_secs(20)).expect("every question has an answer");
        assert_eq!(answer.lane, LaneId(42));
        answer.result
    }

    fn addresses(&self, host: &str) -> Vec<String> {
        self.ask(host).unwrap().0.iter().map(ToString::to_string).collect()
    }

    fn lifetime(&self, host: &str) -> u64 {
        self.ask(host).unwrap().1.as_secs_f64().round() as u64
    }

    fn failure(&self, host: &str) -> ErrorKind {
        self.ask(host).unwrap_err().kind
    }
}

#[test]
fn literals_need_no_server() {
    // There is no server: a query would fail.
    let bench = bench(SocketAddr::from((Ipv4Addr::LOCALHOST, 1)), Duration::from_millis(200));
    assert_eq!(bench.addresses("192.0.2.8"), ["192.0.2.8"]);
    assert_eq!(bench.addresses("[2001:db8::5]"), ["2001:db8::5"]);
    assert!(bench.ask("other.test").is_err());
}

#[test]
fn addresses_of_both_families_come_with_ipv6_first() {
    let bench = bench(name_server().0, Duration::from_secs(10));
    assert_eq!(bench.addresses("four.test"), ["192.0.2.1", "192.0.2.2"]);
    assert_eq!(bench.addresses("both.test"), ["2001:db8::7", "192.0.2.3"]);
}

#[test]
fn answers_live_as_long_as_the_server_says_within_bounds() {
    let bench = bench(name_server().0, Duration::from_secs(10));
    assert_eq!(bench.lifetime("four.test"), 300);
    assert_eq!(bench.lifetime("brief.test"), 5);
    assert_eq!(bench.lifetime("lasting.test"), 86_400);
}

#[test]
fn failures_are_told_apart() {
    let bench = bench(name_server().0, Duration::from_millis(600));
    assert_eq!(bench.failure("missing.test"), ErrorKind::DnsNxdomain);
    assert_eq!(bench.failure("empty.test"), ErrorKind::DnsNxdomain);
    assert_eq!(bench.failure("broken.test"), ErrorKind::DnsServfail);
    assert_eq!(bench.failure("silent.test"), ErrorKind::DnsTimeout);
    assert_eq!(bench.failure("a..test"), ErrorKind::DnsInvalid);
    assert_eq!(bench.failure(&format!("{}.test", "x".repeat(64))), ErrorKind::DnsInvalid);
}

#[test]
fn a_temporary_failure_of_one_family_outranks_nxdomain_of_the_other() {
    let bench = bench(name_server().0, Duration::from_millis(600));
    for host in ["servfail4.test", "refused4.test", "formerr4.test", "silent4.test"] {
        let kind = bench.failure(host);
        assert!(argiope_core::schedule::retry::is_transient(kind), "{host}: {kind}");
    }
}

#[test]
fn a_family_that_stays_silent_does_not_hold_up_the_other() {
    // If the resolver waited for the silent family, this would take an hour.
    let bench = bench(name_server().0, Duration::from_secs(3_600));
    assert_eq!(bench.addresses("half.test"), ["192.0.2.6"]);
}

#[test]
fn a_name_that_is_under_way_is_not_asked_for_again() {
    let (server, questions) = name_server();
    let bench = bench(server, Duration::from_secs(10));
    for lane in 0..100 {
        bench.resolver.ask(DnsQuery { host: "four.test".into(), lane: LaneId(lane) });
    }
    let mut lanes: Vec<u32> = (0..100).map(|_| bench.answers.recv().unwrap().lane.0).collect();
    lanes.sort_unstable();
    assert!(lanes.into_iter().eq(0..100));
    assert_eq!(questions.load(Ordering::SeqCst), 1);
}

#[test]
fn thousands_of_names_are_in_flight_at_once() {
    let bench = bench(name_server().0, Duration::from_secs(30));
    for lane in 0..3_000 {
        bench.resolver.ask(DnsQuery { host: format!("many{lane}.test").into(), lane: LaneId(lane) });
    }
    for _ in 0..3_000 {
        let answer = bench.answers.recv_timeout(Duration::from_secs(30)).unwrap();
        assert!(answer.result.is_ok(), "{answer:?}");
    }
}

#[test]
fn the_hosts_file_knows_localhost() {
    let bench = bench(name_server().0, Duration::from_secs(10));
    assert!(bench.ask("localhost").unwrap().0.iter().all(IpAddr::is_loopback));
}
