//! [`SessionCache`]: TLS sessions by host, so that a reconnect can resume a session instead of a full handshake.
//!
//! The cache of rustls is limited by a number of hosts and evicts in order of insertion. A crawl connects to thousands
//! of hosts repeatedly, and the server decides how large a session is: a ticket may have 64 KiB, and the whole
//! certificate chain is stored with each session. So this cache is limited by bytes and evicts the least recently used
//! host.
//!
//! Only rustls knows the size of a session, but everything in it came over the wire. So each connection has a
//! [`ConnSessions`], which counts received bytes that were not page content and charges all of them to its sessions. A
//! resumed session shares the chain of the one it was resumed from.
//!
//! Invariant: the stored sessions take at most [`CAPACITY`] bytes, whatever servers send.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use hashbrown::HashMap;
use rustls::NamedGroup;
use rustls::client::{ClientSessionStore, Tls12ClientSessionValue, Tls13ClientSessionValue};
use rustls::pki_types::ServerName;

/// Bytes for all sessions: about 6,000 hosts with chains of 3 kB and two tickets.
const CAPACITY: usize = 48 << 20;
/// A TLS 1.3 ticket is used once. Servers send two with each handshake, and a reconnect uses one.
const TICKETS: usize = 2;
/// Size of a session without the bytes from the wire: secrets and bookkeeping.
const SESSION: usize = 256;
/// Size of a host entry without its sessions.
const HOST: usize = 256;

/// The sessions of one identity. Other identities have caches of their own.
pub(super) struct SessionCache {
    kept: Mutex<Kept>,
    capacity: usize,
}

/// The stored sessions of all hosts.
#[derive(Default)]
struct Kept {
    hosts: HashMap<ServerName<'static>, Host>,
    /// Host names by time of last use, oldest first.
    order: BTreeMap<u64, ServerName<'static>>,
    /// A logical clock: counts uses.
    clock: u64,
    bytes: usize,
}

/// The stored sessions of one host.
#[derive(Default)]
struct Host {
    /// The value of the logical clock at the last use.
    used: u64,
    /// The key exchange group of the last handshake.
    group: Option<NamedGroup>,
    tls12: Option<Weighed<Tls12ClientSessionValue>>,
    tls13: VecDeque<Weighed<Tls13ClientSessionValue>>,
}

/// A session and an upper bound of its size.
struct Weighed<T> {
    session: T,
    /// Upper bound of the certificate chain in bytes.
    chain: usize,
    /// Upper bound of the total in bytes.
    bytes: usize,
}

impl Host {
    fn bytes(&self) -> usize {
        let tls12 = self.tls12.as_ref().map_or(0, |kept| kept.bytes);
        HOST + tls12 + self.tls13.iter().map(|kept| kept.bytes).sum::<usize>()
    }
}

impl Kept {
    /// Changes the entry of a host and marks it as the most recently used.
    fn change(&mut self, name: ServerName<'static>, capacity: usize, change: impl FnOnce(&mut Host)) {
        self.clock += 1;
        let host = self.hosts.entry(name.clone()).or_default();
        if host.used > 0 {
            self.order.remove(&host.used);
            self.bytes = self.bytes.saturating_sub(host.bytes());
        }
        change(host);
        host.used = self.clock;
        self.bytes += host.bytes();
        self.order.insert(self.clock, name);
        while self.bytes > capacity
            && let Some((_, oldest)) = self.order.pop_first()
        {
            let gone = self.hosts.remove(&oldest).map_or(0, |host| host.bytes());
            self.bytes = self.bytes.saturating_sub(gone);
        }
    }
}

impl SessionCache {
    pub(super) fn new() -> Self {
        Self { kept: Mutex::default(), capacity: CAPACITY }
    }

    fn change(&self, name: ServerName<'static>, change: impl FnOnce(&mut Host)) {
        self.kept().change(name, self.capacity, change);
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The session store of one connection.
pub(super) struct ConnSessions {
    sessions: Arc<SessionCache>,
    /// Received bytes that were not page content: an upper bound of what a session can contain.
    arrived: AtomicUsize,
    /// Size of the chain of the session that this connection was resumed from.
    chain: AtomicUsize,
}

impl ConnSessions {
    pub(super) fn new(sessions: &Arc<SessionCache>) -> Self {
        Self { sessions: Arc::clone(sessions), arrived: AtomicUsize::new(0), chain: AtomicUsize::new(0) }
    }

    /// Counts received bytes. Must be called before they are processed.
    pub(super) fn arrived(&self, bytes: usize) {
        self.arrived.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Subtracts bytes that turned out to be page content.
    pub(super) fn was_page(&self, bytes: usize) {
        self.arrived.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// Computes the upper bound of a session's size.
    fn weigh<T>(&self, session: T) -> Weighed<T> {
        let (arrived, chain) = (self.arrived.load(Ordering::Relaxed), self.chain.load(Ordering::Relaxed));
        Weighed { session, chain: chain.max(arrived), bytes: SESSION + chain + arrived }
    }

    fn resume_from<T>(&self, kept: &Weighed<T>) {
        self.chain.fetch_max(kept.chain, Ordering::Relaxed);
    }
}

impl ClientSessionStore for ConnSessions {
    fn set_kx_hint(&self, name: ServerName<'static>, group: NamedGroup) {
        self.sessions.change(name, |host| host.group = Some(group));
    }

    fn kx_hint(&self, name: &ServerName<'_>) -> Option<NamedGroup> {
        self.sessions.kept().hosts.get(name).and_then(|host| host.group)
    }

    fn set_tls12_session(&self, name: ServerName<'static>, session: Tls12ClientSessionValue) {
        self.sessions.change(name, |host| host.tls12 = Some(self.weigh(session)));
    }

    fn tls12_session(&self, name: &ServerName<'_>) -> Option<Tls12ClientSessionValue> {
        let kept = self.sessions.kept();
        let found = kept.hosts.get(name)?.tls12.as_ref()?;
        self.resume_from(found);
        Some(found.session.clone())
    }

    fn remove_tls12_session(&self, name: &ServerName<'static>) {
        self.sessions.change(name.clone(), |host| host.tls12 = None);
    }

    fn insert_tls13_ticket(&self, name: ServerName<'static>, ticket: Tls13ClientSessionValue) {
        self.sessions.change(name, |host| {
            if host.tls13.len() == TICKETS {
                host.tls13.pop_front();
            }
            host.tls13.push_back(self.weigh(ticket));
        });
    }

    fn take_tls13_ticket(&self, name: &ServerName<'static>) -> Option<Tls13ClientSessionValue> {
        let mut kept = self.sessions.kept();
        if kept.hosts.get(name).is_none_or(|host| host.tls13.is_empty()) {
            return None;
        }
        let mut taken = None;
        kept.change(name.clone(), self.sessions.capacity, |host| taken = host.tls13.pop_back());
        let taken = taken?;
        self.resume_from(&taken);
        Some(taken.session)
    }
}

impl fmt::Debug for ConnSessions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ConnSessions")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(number: usize) -> ServerName<'static> {
        ServerName::try_from(format!("h{number}.example")).unwrap()
    }

    /// A host entry has a size of its own even without sessions; sessions are tested in `tests/conn_trust.rs`.
    #[test]
    fn what_was_used_least_recently_goes_first() {
        let sessions = Arc::new(SessionCache { capacity: 3 * HOST, ..SessionCache::new() });
        let conn = ConnSessions::new(&sessions);
        for number in [1, 2, 3, 1, 4] {
            conn.set_kx_hint(name(number), NamedGroup::X25519);
        }
        let known: Vec<bool> = (1..=4).map(|number| conn.kx_hint(&name(number)).is_some()).collect();
        assert_eq!(known, [true, false, true, true]);
        let kept = sessions.kept();
        assert_eq!((kept.hosts.len(), kept.order.len(), kept.bytes), (3, 3, 3 * HOST));
    }

    #[test]
    fn the_size_of_a_session_includes_received_bytes_and_the_resumed_chain() {
        let sessions = Arc::new(SessionCache::new());
        let conn = ConnSessions::new(&sessions);
        conn.arrived(5_000);
        conn.arrived(20_000);
        conn.was_page(20_000);
        let first = conn.weigh(());
        assert_eq!((first.chain, first.bytes), (5_000, SESSION + 5_000));
        // Repeated resumption must not accumulate size.
        let mut last = first;
        for _ in 0..100 {
            let conn = ConnSessions::new(&sessions);
            conn.resume_from(&last);
            conn.arrived(400);
            last = conn.weigh(());
            assert_eq!((last.chain, last.bytes), (5_000, SESSION + 5_400));
        }
    }
}
