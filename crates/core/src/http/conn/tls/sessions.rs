//! [`SessionCache`]: TLS sessions by host. A reconnect can resume a session, which is cheaper than a full handshake.
//!
//! The cache of rustls is limited by a number of hosts and evicts in order of insertion. A crawl connects to thousands
//! of hosts repeatedly, and the server decides how large a session is: a ticket may have 64 KiB, and the whole
//! certificate chain is stored with each session. So this cache is limited by bytes and evicts the least recently used
//! host.
//!
//! The size of a session is private to rustls, but everything in a session was received from the server. So each
//! connection has a [`ConnSessions`], which counts received bytes that were not page content. Their number is used as
//! the size of each session of this connection. A resumed session shares the chain of the one it was resumed from, so
//! the size of that chain is added.
//!
//! Invariant: the sessions in one cache take at most [`MAX_BYTES`] bytes, whatever servers send.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use hashbrown::HashMap;
use rustls::NamedGroup;
use rustls::client::{ClientSessionStore, Tls12ClientSessionValue, Tls13ClientSessionValue};
use rustls::pki_types::ServerName;

/// Bytes for all sessions of one cache: about 6,000 hosts with chains of 3 kB and two tickets.
const MAX_BYTES: usize = 48 << 20;
/// Tickets that are kept per host. A TLS 1.3 ticket is used once. Servers send two with each handshake, and a reconnect
/// uses one.
const MAX_TICKETS: usize = 2;
/// Size of a session without the received bytes: secrets and bookkeeping.
const SESSION_OVERHEAD: usize = 256;
/// Size of a host entry without its sessions.
const HOST_OVERHEAD: usize = 256;

/// The sessions with one client identity (with or without the client certificate). Each identity has its own cache.
pub(super) struct SessionCache {
    stored: Mutex<StoredSessions>,
    max_bytes: usize,
}

/// The stored sessions of all hosts.
#[derive(Default)]
struct StoredSessions {
    hosts: HashMap<ServerName<'static>, Host>,
    /// Host names by their last use, oldest first.
    by_last_use: BTreeMap<u64, ServerName<'static>>,
    /// A logical clock: the number of uses so far.
    uses: u64,
    bytes: usize,
}

/// The stored sessions of one host.
#[derive(Default)]
struct Host {
    /// The value of the logical clock at the last use; 0 for a new entry.
    last_use: u64,
    /// The key exchange group of the last handshake.
    group: Option<NamedGroup>,
    tls12: Option<SizedSession<Tls12ClientSessionValue>>,
    tls13: VecDeque<SizedSession<Tls13ClientSessionValue>>,
}

/// A session and an upper bound of its size.
struct SizedSession<T> {
    session: T,
    /// Upper bound of the size of the certificate chain.
    chain_bytes: usize,
    /// Upper bound of the total size.
    bytes: usize,
}

impl Host {
    fn bytes(&self) -> usize {
        let tls12 = self.tls12.as_ref().map_or(0, |sized| sized.bytes);
        HOST_OVERHEAD + tls12 + self.tls13.iter().map(|sized| sized.bytes).sum::<usize>()
    }
}

impl StoredSessions {
    /// Changes the entry of a host and marks it as the most recently used. Then evicts hosts down to `max_bytes`.
    fn change(&mut self, name: ServerName<'static>, max_bytes: usize, change: impl FnOnce(&mut Host)) {
        self.uses += 1;
        let host = self.hosts.entry(name.clone()).or_default();
        if host.last_use > 0 {
            self.by_last_use.remove(&host.last_use);
            self.bytes = self.bytes.saturating_sub(host.bytes());
        }
        change(host);
        host.last_use = self.uses;
        self.bytes += host.bytes();
        self.by_last_use.insert(self.uses, name);
        while self.bytes > max_bytes
            && let Some((_, oldest)) = self.by_last_use.pop_first()
        {
            let evicted = self.hosts.remove(&oldest).map_or(0, |host| host.bytes());
            self.bytes = self.bytes.saturating_sub(evicted);
        }
    }
}

impl SessionCache {
    pub(super) fn new() -> Self {
        Self { stored: Mutex::default(), max_bytes: MAX_BYTES }
    }

    fn change(&self, name: ServerName<'static>, change: impl FnOnce(&mut Host)) {
        self.stored().change(name, self.max_bytes, change);
    }

    fn stored(&self) -> MutexGuard<'_, StoredSessions> {
        self.stored.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The session store of one connection.
pub(super) struct ConnSessions {
    sessions: Arc<SessionCache>,
    /// Received bytes that were not page content: an upper bound of what a session can contain.
    received: AtomicUsize,
    /// Size of the certificate chain of the session that this connection was resumed from.
    chain_bytes: AtomicUsize,
}

impl ConnSessions {
    pub(super) fn new(sessions: &Arc<SessionCache>) -> Self {
        Self { sessions: Arc::clone(sessions), received: AtomicUsize::new(0), chain_bytes: AtomicUsize::new(0) }
    }

    /// Counts received bytes. Must be called before they are processed, because processing may store a session.
    pub(super) fn add_received(&self, bytes: usize) {
        self.received.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Subtracts received bytes that were page content.
    pub(super) fn subtract_page_content(&self, bytes: usize) {
        self.received.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// Adds the upper bound of its size to a session.
    fn with_size<T>(&self, session: T) -> SizedSession<T> {
        let (received, chain) = (self.received.load(Ordering::Relaxed), self.chain_bytes.load(Ordering::Relaxed));
        SizedSession { session, chain_bytes: chain.max(received), bytes: SESSION_OVERHEAD + chain + received }
    }

    /// Stores the chain size of the session that this connection may resume.
    fn resume_from<T>(&self, resumed: &SizedSession<T>) {
        self.chain_bytes.fetch_max(resumed.chain_bytes, Ordering::Relaxed);
    }
}

impl ClientSessionStore for ConnSessions {
    fn set_kx_hint(&self, name: ServerName<'static>, group: NamedGroup) {
        self.sessions.change(name, |host| host.group = Some(group));
    }

    fn kx_hint(&self, name: &ServerName<'_>) -> Option<NamedGroup> {
        self.sessions.stored().hosts.get(name).and_then(|host| host.group)
    }

    fn set_tls12_session(&self, name: ServerName<'static>, session: Tls12ClientSessionValue) {
        self.sessions.change(name, |host| host.tls12 = Some(self.with_size(session)));
    }

    fn tls12_session(&self, name: &ServerName<'_>) -> Option<Tls12ClientSessionValue> {
        let stored = self.sessions.stored();
        let found = stored.hosts.get(name)?.tls12.as_ref()?;
        self.resume_from(found);
        Some(found.session.clone())
    }

    fn remove_tls12_session(&self, name: &ServerName<'static>) {
        self.sessions.change(name.clone(), |host| host.tls12 = None);
    }

    fn insert_tls13_ticket(&self, name: ServerName<'static>, ticket: Tls13ClientSessionValue) {
        self.sessions.change(name, |host| {
            if host.tls13.len() == MAX_TICKETS {
                host.tls13.pop_front();
            }
            host.tls13.push_back(self.with_size(ticket));
        });
    }

    fn take_tls13_ticket(&self, name: &ServerName<'static>) -> Option<Tls13ClientSessionValue> {
        let mut stored = self.sessions.stored();
        if stored.hosts.get(name).is_none_or(|host| host.tls13.is_empty()) {
            return None;
        }
        let mut taken = None;
        stored.change(name.clone(), self.sessions.max_bytes, |host| taken = host.tls13.pop_back());
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
    fn the_least_recently_used_host_is_evicted_first() {
        let sessions = Arc::new(SessionCache { max_bytes: 3 * HOST_OVERHEAD, ..SessionCache::new() });
        let conn = ConnSessions::new(&sessions);
        for number in [1, 2, 3, 1, 4] {
            conn.set_kx_hint(name(number), NamedGroup::X25519);
        }
        let known: Vec<bool> = (1..=4).map(|number| conn.kx_hint(&name(number)).is_some()).collect();
        assert_eq!(known, [true, false, true, true]);
        let stored = sessions.stored();
        assert_eq!((stored.hosts.len(), stored.by_last_use.len(), stored.bytes), (3, 3, 3 * HOST_OVERHEAD));
    }

    #[test]
    fn the_size_of_a_session_includes_received_bytes_and_the_resumed_chain() {
        let sessions = Arc::new(SessionCache::new());
        let conn = ConnSessions::new(&sessions);
        conn.add_received(5_000);
        conn.add_received(20_000);
        conn.subtract_page_content(20_000);
        let first = conn.with_size(());
        assert_eq!((first.chain_bytes, first.bytes), (5_000, SESSION_OVERHEAD + 5_000));
        // Repeated resumption must not accumulate size.
        let mut last = first;
        for _ in 0..100 {
            let conn = ConnSessions::new(&sessions);
            conn.resume_from(&last);
            conn.add_received(400);
            last = conn.with_size(());
            assert_eq!((last.chain_bytes, last.bytes), (5_000, SESSION_OVERHEAD + 5_400));
        }
    }
}
