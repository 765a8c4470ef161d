//! [`SessionCache`]: what was agreed on with which host, so that a reconnect costs half a handshake.
//!
//! The cache that rustls brings counts hosts, an eighth of what it is told, and forgets the one it met first. A crawl
//! meets thousands and comes back to all of them; and what a session takes is up to the server, because its ticket may
//! have 64 KiB, and the whole chain of certificates is kept with each. So this one counts bytes and forgets what was
//! used least recently.
//!
//! Nobody but rustls knows how large a session is. But all of it came over the wire: each connection has a [`ConnSessions`]
//! of its own, where it says how many bytes have arrived that were not the page, and a session weighs as much as all of
//! them. A session that goes on from another one has its chain from there.
//!
//! Invariant: the sessions that are kept take no more than [`ROOM`], whatever servers send.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use hashbrown::HashMap;
use rustls::NamedGroup;
use rustls::client::{ClientSessionStore, Tls12ClientSessionValue, Tls13ClientSessionValue};
use rustls::pki_types::ServerName;

/// Bytes for all sessions: some 6,000 hosts with chains of 3 kB and both tickets.
const ROOM: usize = 48 << 20;
/// Tickets of TLS 1.3 serve once; servers send two with each handshake, and a reconnect takes one.
const TICKETS: usize = 2;
/// A session without what came over the wire: secrets, and its place here.
const SESSION: usize = 256;
/// A host without its sessions.
const HOST: usize = 256;

/// The sessions of one identity: whoever speaks as somebody else has another cache.
pub(super) struct SessionCache {
    kept: Mutex<Kept>,
    room: usize,
}

#[derive(Default)]
struct Kept {
    hosts: HashMap<ServerName<'static>, Host>,
    /// The hosts by when they were last used, the oldest first.
    order: BTreeMap<u64, ServerName<'static>>,
    /// Counts uses.
    clock: u64,
    bytes: usize,
}

#[derive(Default)]
struct Host {
    used: u64,
    group: Option<NamedGroup>,
    tls12: Option<Weighed<Tls12ClientSessionValue>>,
    tls13: VecDeque<Weighed<Tls13ClientSessionValue>>,
}

/// A session, and no less than it takes.
struct Weighed<T> {
    session: T,
    /// Bytes that its chain of certificates takes at most.
    chain: usize,
    /// Bytes that all of it takes at most.
    bytes: usize,
}

impl Host {
    fn bytes(&self) -> usize {
        let tls12 = self.tls12.as_ref().map_or(0, |kept| kept.bytes);
        HOST + tls12 + self.tls13.iter().map(|kept| kept.bytes).sum::<usize>()
    }
}

impl Kept {
    /// Changes what is known of a host, and makes it the one that was used last.
    fn change(&mut self, name: ServerName<'static>, room: usize, change: impl FnOnce(&mut Host)) {
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
        while self.bytes > room
            && let Some((_, oldest)) = self.order.pop_first()
        {
            let gone = self.hosts.remove(&oldest).map_or(0, |host| host.bytes());
            self.bytes = self.bytes.saturating_sub(gone);
        }
    }
}

impl SessionCache {
    pub(super) fn new() -> Self {
        Self { kept: Mutex::default(), room: ROOM }
    }

    fn change(&self, name: ServerName<'static>, change: impl FnOnce(&mut Host)) {
        self.kept().change(name, self.room, change);
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Where one connection comes for sessions, and leaves its own.
pub(super) struct ConnSessions {
    sessions: Arc<SessionCache>,
    /// Bytes that arrived and were not the page: no less than what could be in a session.
    arrived: AtomicUsize,
    /// What the chain of the session takes that this connection goes on from.
    chain: AtomicUsize,
}

impl ConnSessions {
    pub(super) fn new(sessions: &Arc<SessionCache>) -> Self {
        Self { sessions: Arc::clone(sessions), arrived: AtomicUsize::new(0), chain: AtomicUsize::new(0) }
    }

    /// So many bytes arrived. To be told before anybody looks into them.
    pub(super) fn arrived(&self, bytes: usize) {
        self.arrived.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Of these it turned out that they were the page.
    pub(super) fn was_page(&self, bytes: usize) {
        self.arrived.fetch_sub(bytes, Ordering::Relaxed);
    }

    fn weigh<T>(&self, session: T) -> Weighed<T> {
        let (arrived, chain) = (self.arrived.load(Ordering::Relaxed), self.chain.load(Ordering::Relaxed));
        Weighed { session, chain: chain.max(arrived), bytes: SESSION + chain + arrived }
    }

    fn goes_on_from<T>(&self, kept: &Weighed<T>) {
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
        self.goes_on_from(found);
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
        kept.change(name.clone(), self.sessions.room, |host| taken = host.tls13.pop_back());
        let taken = taken?;
        self.goes_on_from(&taken);
        Some(taken.session)
    }
}

impl fmt::Debug for ConnSessions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Desk")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(number: usize) -> ServerName<'static> {
        ServerName::try_from(format!("h{number}.example")).unwrap()
    }

    /// A host costs its own bytes even without a session; with them it is tested in `tests/conn_trust.rs`.
    #[test]
    fn what_was_used_least_recently_goes_first() {
        let sessions = Arc::new(SessionCache { room: 3 * HOST, ..SessionCache::new() });
        let desk = ConnSessions::new(&sessions);
        for number in [1, 2, 3, 1, 4] {
            desk.set_kx_hint(name(number), NamedGroup::X25519);
        }
        let known: Vec<bool> = (1..=4).map(|number| desk.kx_hint(&name(number)).is_some()).collect();
        assert_eq!(known, [true, false, true, true]);
        let kept = sessions.kept();
        assert_eq!((kept.hosts.len(), kept.order.len(), kept.bytes), (3, 3, 3 * HOST));
    }

    #[test]
    fn a_session_weighs_what_came_for_it_and_the_chain_it_goes_on_from() {
        let sessions = Arc::new(SessionCache::new());
        let desk = ConnSessions::new(&sessions);
        desk.arrived(5_000);
        desk.arrived(20_000);
        desk.was_page(20_000);
        let first = desk.weigh(());
        assert_eq!((first.chain, first.bytes), (5_000, SESSION + 5_000));
        // However often it is gone on from, nothing adds up.
        let mut last = first;
        for _ in 0..100 {
            let desk = ConnSessions::new(&sessions);
            desk.goes_on_from(&last);
            desk.arrived(400);
            last = desk.weigh(());
            assert_eq!((last.chain, last.bytes), (5_000, SESSION + 5_400));
        }
    }
}
