//! Tests of the resolver with a small DNS server on loopback, over real sockets.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

use argiope_core::ErrorKind;
use argiope_core::base::job::LaneId;
use argiope_engine::resolver::{DnsAnswer, DnsQuery, DnsResult, Resolver, ResolverSettings};

/// A timeout that no test reaches.
const UNREACHED_TIMEOUT: Duration = Duration::from_secs(3_600);
/// The timeout for names without a reply.
const SHORT_TIMEOUT: Duration = Duration::from_millis(600);

const A: u16 = 1;
const AAAA: u16 = 28;

/// The reply of the scripted server for a name: none, a response code, or addresses and a time to live in seconds.
enum ScriptedReply {
    Nothing,
    Code(u8),
    Ipv4(&'static [[u8; 4]], u32),
    Ipv6(Ipv6Addr, u32),
}

/// Response codes (RFC 1035, 4.1.1).
const NO_ERROR: u8 = 0;
const FORMERR: u8 = 1;
const SERVFAIL: u8 = 2;
const NXDOMAIN: u8 = 3;
const REFUSED: u8 = 5;

/// The reply to a query of this record type. The first label of the name selects the case.
fn script(name: &str, kind: u16) -> ScriptedReply {
    match (name.split('.').next().unwrap_or_default(), kind) {
        ("four", A) => ScriptedReply::Ipv4(&[[192, 0, 2, 1], [192, 0, 2, 2]], 300),
        ("four", _) => ScriptedReply::Code(NO_ERROR),
        ("both", A) => ScriptedReply::Ipv4(&[[192, 0, 2, 3]], 300),
        ("both", AAAA) => ScriptedReply::Ipv6(Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 7), 300),
        ("brief", A) => ScriptedReply::Ipv4(&[[192, 0, 2, 4]], 0),
        ("lasting", A) => ScriptedReply::Ipv4(&[[192, 0, 2, 5]], 4_000_000),
        ("half", A) => ScriptedReply::Ipv4(&[[192, 0, 2, 6]], 300),
        ("half", _) => ScriptedReply::Nothing,
        ("broken", _) => ScriptedReply::Code(SERVFAIL),
        ("servfail4", A) => ScriptedReply::Code(SERVFAIL),
        ("refused4", A) => ScriptedReply::Code(REFUSED),
        ("formerr4", A) => ScriptedReply::Code(FORMERR),
        ("silent4", A) => ScriptedReply::Nothing,
        ("servfail4" | "refused4" | "formerr4" | "silent4", _) => ScriptedReply::Code(NXDOMAIN),
        ("missing", _) => ScriptedReply::Code(NXDOMAIN),
        ("silent", _) => ScriptedReply::Nothing,
        (name, A) if name.starts_with("many") => ScriptedReply::Ipv4(&[[192, 0, 2, 9]], 60),
        _ => ScriptedReply::Code(NO_ERROR),
    }
}

/// A name server that answers by the script and counts the queries for IPv4 addresses.
fn name_server() -> (SocketAddr, Arc<AtomicUsize>) {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let address = socket.local_addr().unwrap();
    let queries = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&queries);
    thread::spawn(move || {
        let mut packet = [0; 1_500];
        while let Ok((length, client)) = socket.recv_from(&mut packet) {
            if let Some(reply) = reply_to(&packet[..length], &count) {
                socket.send_to(&reply, client).unwrap();
            }
        }
    });
    (address, queries)
}

/// The reply to a packet with one query, according to the script. Counts queries for IPv4 addresses.
fn reply_to(query: &[u8], count: &AtomicUsize) -> Option<Vec<u8>> {
    // The header takes 12 bytes.
    let (mut name, mut at) = (String::new(), 12);
    while query[at] != 0 {
        let label = &query[at + 1..][..usize::from(query[at])];
        name.push_str(std::str::from_utf8(label).unwrap());
        name.push('.');
        at += 1 + label.len();
    }
    let kind = u16::from_be_bytes([query[at + 1], query[at + 2]]);
    if kind == A {
        count.fetch_add(1, Ordering::SeqCst);
    }
    let (code, ttl, records): (u8, u32, Vec<Vec<u8>>) = match script(&name, kind) {
        ScriptedReply::Nothing => return None,
        ScriptedReply::Code(code) => (code, 0, Vec::new()),
        ScriptedReply::Ipv4(addresses, ttl) => (0, ttl, addresses.iter().map(|address| address.to_vec()).collect()),
        ScriptedReply::Ipv6(address, ttl) => (0, ttl, vec![address.octets().to_vec()]),
    };
    // The header and the question: its name up to the zero byte, its type and its class. In the header, the identifier
    // stays. After it come the flags of a response and the numbers of questions, answers, authorities and additional
    // records.
    let mut reply = query[..at + 5].to_vec();
    reply[2..12].copy_from_slice(&[0x81, 0x80 | code, 0, 1, 0, records.len() as u8, 0, 0, 0, 0]);
    for record in records {
        // A pointer to the name of the query, the record type, and the class IN.
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
    let resolver = Resolver::with_settings(settings, move |answer| sender.send(answer).unwrap());
    Bench { resolver, answers }
}

impl Bench {
    fn resolve(&self, host: &str) -> DnsResult {
        self.resolver.query(DnsQuery { host: host.into(), lane: LaneId(42) });
        let answer = self.answers.recv_timeout(Duration::from_secs(20)).expect("every query has an answer");
        assert_eq!(answer.lane, LaneId(42));
        answer.result
    }

    fn addresses(&self, host: &str) -> Vec<String> {
        self.resolve(host).unwrap().0.iter().map(ToString::to_string).collect()
    }

    fn ttl_seconds(&self, host: &str) -> u64 {
        self.resolve(host).unwrap().1.as_secs_f64().round() as u64
    }

    fn failure(&self, host: &str) -> ErrorKind {
        self.resolve(host).unwrap_err().kind
    }
}

#[test]
fn ip_literals_are_resolved_without_a_server() {
    // There is no server: a query would fail.
    let bench = bench(SocketAddr::from((Ipv4Addr::LOCALHOST, 1)), Duration::from_millis(200));
    assert_eq!(bench.addresses("192.0.2.8"), ["192.0.2.8"]);
    assert_eq!(bench.addresses("[2001:db8::5]"), ["2001:db8::5"]);
    assert!(bench.resolve("other.test").is_err());
}

#[test]
fn addresses_of_both_families_come_with_ipv6_first() {
    let bench = bench(name_server().0, Duration::from_secs(10));
    assert_eq!(bench.addresses("four.test"), ["192.0.2.1", "192.0.2.2"]);
    assert_eq!(bench.addresses("both.test"), ["2001:db8::7", "192.0.2.3"]);
}

#[test]
fn the_time_to_live_is_that_of_the_server_within_bounds() {
    let bench = bench(name_server().0, Duration::from_secs(10));
    assert_eq!(bench.ttl_seconds("four.test"), 300);
    assert_eq!(bench.ttl_seconds("brief.test"), 5);
    assert_eq!(bench.ttl_seconds("lasting.test"), 86_400);
}

#[test]
fn each_kind_of_failure_is_recognised() {
    let (server, _) = name_server();
    assert_eq!(bench(server, SHORT_TIMEOUT).failure("silent.test"), ErrorKind::DnsTimeout);
    let bench = bench(server, UNREACHED_TIMEOUT);
    assert_eq!(bench.failure("missing.test"), ErrorKind::DnsNxdomain);
    assert_eq!(bench.failure("empty.test"), ErrorKind::DnsNxdomain);
    assert_eq!(bench.failure("broken.test"), ErrorKind::DnsServfail);
    assert_eq!(bench.failure("a..test"), ErrorKind::DnsInvalid);
    // A label has at most 63 bytes.
    assert_eq!(bench.failure(&format!("{}.test", "x".repeat(64))), ErrorKind::DnsInvalid);
}

#[test]
fn a_temporary_failure_of_one_family_outranks_nxdomain_of_the_other() {
    let (server, _) = name_server();
    for host in ["servfail4.test", "refused4.test", "formerr4.test", "silent4.test"] {
        let timeout = if host == "silent4.test" { SHORT_TIMEOUT } else { UNREACHED_TIMEOUT };
        let kind = bench(server, timeout).failure(host);
        assert!(argiope_core::crawl::schedule::retry::is_transient(kind), "{host}: {kind}");
    }
}

#[test]
fn a_family_without_a_reply_does_not_delay_the_other() {
    // If the resolver waited for the silent family, this would take an hour.
    let bench = bench(name_server().0, UNREACHED_TIMEOUT);
    assert_eq!(bench.addresses("half.test"), ["192.0.2.6"]);
}

#[test]
fn a_name_that_is_being_resolved_is_not_queried_again() {
    let (server, queries) = name_server();
    let bench = bench(server, Duration::from_secs(10));
    for lane in 0..100 {
        bench.resolver.query(DnsQuery { host: "four.test".into(), lane: LaneId(lane) });
    }
    let mut lanes: Vec<u32> = (0..100).map(|_| bench.answers.recv().unwrap().lane.0).collect();
    lanes.sort_unstable();
    assert!(lanes.into_iter().eq(0..100));
    assert_eq!(queries.load(Ordering::SeqCst), 1);
}

#[test]
fn thousands_of_names_can_be_queried_at_once() {
    let bench = bench(name_server().0, Duration::from_secs(30));
    for lane in 0..3_000 {
        bench.resolver.query(DnsQuery { host: format!("many{lane}.test").into(), lane: LaneId(lane) });
    }
    for _ in 0..3_000 {
        let answer = bench.answers.recv_timeout(Duration::from_secs(30)).unwrap();
        assert!(answer.result.is_ok(), "{answer:?}");
    }
}

#[test]
fn localhost_is_resolved_from_the_hosts_file() {
    let bench = bench(name_server().0, Duration::from_secs(10));
    assert!(bench.resolve("localhost").unwrap().0.iter().all(IpAddr::is_loopback));
}
