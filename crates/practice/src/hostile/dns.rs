//! A name server for the hostile web. Its zone sets the replies, which may be arbitrary packets.
//!
//! Queries arrive over UDP; a reply that does not fit is truncated there and sent completely over TCP.
//!
//! Invariant: a dropped server has ended its threads and closed its sockets.

use std::collections::HashMap;
use std::io::{self, Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

/// The reply for one name.
#[derive(Clone)]
pub enum DnsReply {
    /// These addresses, each for queries of its family, with a TTL of one minute.
    Addresses(Vec<IpAddr>),
    /// These addresses in turn, one per A query; the last one repeats. TTL 0.
    InTurn(Vec<IpAddr>),
    /// A CNAME.
    Alias(String),
    /// NXDOMAIN.
    NoSuchName,
    /// SERVFAIL.
    Failure,
    /// No reply.
    Silence,
    /// A custom packet, made from the query.
    Packet(fn(&[u8]) -> Vec<u8>),
}

impl DnsReply {
    /// One address.
    pub fn address(address: impl Into<IpAddr>) -> DnsReply {
        DnsReply::Addresses(vec![address.into()])
    }
}

/// Names and their replies. `*.trap.test` matches every name below `trap.test`. Other names do not exist.
#[derive(Clone, Default)]
pub struct Zone {
    names: HashMap<String, DnsReply>,
}

impl Zone {
    pub fn name(&mut self, name: &str, reply: DnsReply) {
        self.names.insert(name.to_ascii_lowercase(), reply);
    }

    pub fn is_empty(&self) -> bool {
        self.names.is_empty()
    }

    /// The reply for a name, and the entry that it comes from: the name itself, or a wildcard.
    fn find(&self, name: &str) -> Option<(&str, &DnsReply)> {
        if let Some((name, reply)) = self.names.get_key_value(name) {
            return Some((name, reply));
        }
        let wildcards = name.match_indices('.').map(|(at, _)| format!("*{}", &name[at..]));
        wildcards
            .into_iter()
            .find_map(|name| self.names.get_key_value(&name))
            .map(|(name, reply)| (name.as_str(), reply))
    }
}

/// A zone that is being served.
pub struct NameServer {
    address: SocketAddr,
    shared: Arc<NameServerState>,
    threads: Vec<JoinHandle<()>>,
}

/// The state that the threads share.
struct NameServerState {
    zone: Zone,
    /// For each name, the number of replies from [`DnsReply::InTurn`].
    turns: HashMap<String, AtomicUsize>,
    /// The name of every query.
    queried: Mutex<Vec<String>>,
    stop: AtomicBool,
}

/// Maximum bytes of a reply over UDP. A packet of this size is not fragmented.
const MAX_UDP_REPLY: usize = 1232;
// Types of DNS records.
const A: u16 = 1;
const CNAME: u16 = 5;
const AAAA: u16 = 28;
/// The time to live of most records.
const TTL_SECONDS: u32 = 60;
// Response codes.
const SERVFAIL: u8 = 2;
const NXDOMAIN: u8 = 3;

impl NameServer {
    /// Serves the zone on a free port of 127.0.0.1, over UDP and TCP.
    pub fn start(zone: Zone) -> io::Result<NameServer> {
        let turns = zone.names.keys().map(|name| (name.clone(), AtomicUsize::new(0))).collect();
        let (udp, tcp) = bind()?;
        let address = udp.local_addr()?;
        let shared = Arc::new(NameServerState { zone, turns, queried: Mutex::default(), stop: AtomicBool::new(false) });
        let mut server = NameServer { address, shared, threads: Vec::new() };
        let (for_udp, for_tcp) = (Arc::clone(&server.shared), Arc::clone(&server.shared));
        let builder = || std::thread::Builder::new().name("name server".to_owned());
        server.threads.push(builder().spawn(move || serve_udp(&udp, &for_udp))?);
        server.threads.push(builder().spawn(move || serve_tcp(&tcp, &for_tcp))?);
        Ok(server)
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Every name queried so far, once per query, in lower case.
    pub fn queried_names(&self) -> Vec<String> {
        self.shared.queried.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Drop for NameServer {
    fn drop(&mut self) {
        self.shared.stop.store(true, SeqCst);
        // One packet and one connection wake the threads, which then read the stop flag.
        if let Ok(socket) = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)) {
            let _ = socket.send_to(&[0], self.address);
        }
        let _ = TcpStream::connect(self.address);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

/// Binds UDP and TCP to the same port. A port that is free for UDP may be in use for TCP, so several are tried.
fn bind() -> io::Result<(UdpSocket, TcpListener)> {
    let mut last_error = None;
    for _ in 0..16 {
        let udp = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
        match TcpListener::bind(udp.local_addr()?) {
            Ok(tcp) => return Ok((udp, tcp)),
            Err(error) => last_error = Some(error),
        }
    }
    Err(last_error.unwrap_or_else(|| io::Error::other("no port is free")))
}

fn serve_udp(socket: &UdpSocket, shared: &NameServerState) {
    let mut packet = [0; 4096];
    while let Ok((n, peer)) = socket.recv_from(&mut packet) {
        if shared.stop.load(SeqCst) {
            return;
        }
        if let Some(reply) = shared.reply_to(&packet[..n], MAX_UDP_REPLY) {
            let _ = socket.send_to(&reply, peer);
        }
    }
}

fn serve_tcp(listener: &TcpListener, shared: &NameServerState) {
    while let Ok((mut stream, _)) = listener.accept() {
        if shared.stop.load(SeqCst) {
            return;
        }
        // One client at a time is sufficient, as long as none can block the others.
        let _ = stream.set_read_timeout(Some(Duration::from_millis(200)));
        let _ = stream.set_write_timeout(Some(Duration::from_millis(200)));
        let mut length = [0; 2];
        while stream.read_exact(&mut length).is_ok() {
            let mut packet = vec![0; usize::from(u16::from_be_bytes(length))];
            if stream.read_exact(&mut packet).is_err() {
                break;
            }
            let Some(reply) = shared.reply_to(&packet, usize::from(u16::MAX)) else { break };
            let length = u16::try_from(reply.len()).unwrap_or(u16::MAX).to_be_bytes();
            if stream.write_all(&[&length[..], &reply].concat()).is_err() {
                break;
            }
        }
    }
}

impl NameServerState {
    /// The reply to a packet, truncated at `limit`; `None` for no reply.
    fn reply_to(&self, packet: &[u8], limit: usize) -> Option<Vec<u8>> {
        let question = Question::parse(packet)?;
        self.queried.lock().unwrap_or_else(PoisonError::into_inner).push(question.name.clone());
        let mut reply = Message::reply_to(packet, &question);
        match self.zone.find(&question.name) {
            None | Some((_, DnsReply::NoSuchName)) => reply.code(NXDOMAIN),
            Some((_, DnsReply::Failure)) => reply.code(SERVFAIL),
            Some((_, DnsReply::Silence)) => return None,
            Some((_, DnsReply::Packet(make))) => return Some(make(packet)),
            Some((_, DnsReply::Alias(name))) => reply.record(CNAME, TTL_SECONDS, &labels(name)),
            Some((_, DnsReply::Addresses(addresses))) => {
                for address in addresses {
                    reply.address(question.kind, TTL_SECONDS, *address);
                }
            }
            Some((key, DnsReply::InTurn(addresses))) if question.kind == A => {
                let turn = self.turns.get(key).map_or(0, |turn| turn.fetch_add(1, SeqCst));
                if let Some(address) = addresses.get(turn).or(addresses.last()) {
                    // TTL 0, so that the next query gets the next address.
                    reply.address(question.kind, 0, *address);
                }
            }
            Some((_, DnsReply::InTurn(_))) => {}
        }
        Some(reply.truncate_to(limit, question.end))
    }
}

/// The question of a packet.
struct Question {
    name: String,
    /// The type of the requested records.
    kind: u16,
    /// Its end within the packet.
    end: usize,
}

impl Question {
    fn parse(packet: &[u8]) -> Option<Question> {
        // The header has twelve bytes.
        let mut at = 12;
        let mut name = String::new();
        loop {
            let length = usize::from(*packet.get(at)?);
            at += 1;
            if length == 0 {
                break;
            }
            if !name.is_empty() {
                name.push('.');
            }
            name.push_str(&String::from_utf8_lossy(packet.get(at..at + length)?).to_ascii_lowercase());
            at += length;
        }
        let kind = u16::from_be_bytes([*packet.get(at)?, *packet.get(at + 1)?]);
        // Type and class follow the name.
        Some(Question { name, kind, end: at + 4 })
    }
}

/// A reply under construction.
struct Message {
    bytes: Vec<u8>,
}

impl Message {
    fn reply_to(packet: &[u8], question: &Question) -> Message {
        let mut bytes = packet.get(..question.end).unwrap_or(packet).to_vec();
        // An authoritative reply with recursion available, one question, no records yet.
        bytes[2..12].copy_from_slice(&[0x85, 0x80, 0, 1, 0, 0, 0, 0, 0, 0]);
        Message { bytes }
    }

    /// Sets the response code.
    fn code(&mut self, code: u8) {
        self.bytes[3] |= code;
    }

    /// Adds the address, if it has the type of the query.
    fn address(&mut self, query_kind: u16, seconds: u32, address: IpAddr) {
        match address {
            IpAddr::V4(v4) if query_kind == A => self.record(A, seconds, &v4.octets()),
            IpAddr::V6(v6) if query_kind == AAAA => self.record(AAAA, seconds, &v6.octets()),
            _ => {}
        }
    }

    /// Adds a record for the name of the question, with this TTL.
    fn record(&mut self, kind: u16, seconds: u32, data: &[u8]) {
        // A pointer to the name in the question.
        self.bytes.extend_from_slice(&[0xc0, 12]);
        self.bytes.extend_from_slice(&kind.to_be_bytes());
        // Class IN.
        self.bytes.extend_from_slice(&[0, 1]);
        self.bytes.extend_from_slice(&seconds.to_be_bytes());
        self.bytes.extend_from_slice(&u16::try_from(data.len()).unwrap_or(u16::MAX).to_be_bytes());
        self.bytes.extend_from_slice(data);
        // The number of records in the answer section.
        let count = u16::from_be_bytes([self.bytes[6], self.bytes[7]]).wrapping_add(1);
        self.bytes[6..8].copy_from_slice(&count.to_be_bytes());
    }

    /// If the reply is longer than `limit`, drops all records and sets the flag that makes the client retry over TCP.
    fn truncate_to(mut self, limit: usize, question_end: usize) -> Vec<u8> {
        if self.bytes.len() > limit {
            self.bytes.truncate(question_end);
            // TC, truncated.
            self.bytes[2] |= 2;
            // No records.
            self.bytes[6..8].copy_from_slice(&[0, 0]);
        }
        self.bytes
    }
}

/// A name in wire format.
fn labels(name: &str) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(name.len() + 2);
    for label in name.split('.').filter(|label| !label.is_empty()) {
        bytes.push(u8::try_from(label.len()).unwrap_or(u8::MAX));
        bytes.extend_from_slice(label.as_bytes());
    }
    bytes.push(0);
    bytes
}
