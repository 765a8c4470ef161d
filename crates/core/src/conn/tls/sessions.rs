//! [`Sessions`]: what was agreed on with which host, so that a reconnect costs half a handshake.
//!
//! The cache that rustls brings counts hosts, an eighth of what it is told, and forgets the one it met first. A crawl
//! meets thousands and comes back to all of them; and what a session takes is up to the server, because the whole
//! chain of certificates is kept with each. So this one counts bytes and forgets what was used least recently.
//!
//! Invariant: the sessions that are kept take no more than [`ROOM`], whatever servers send.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};

use hashbrown::HashMap;
use rustls::NamedGroup;
use rustls::client::{ClientSessionStore, Tls12ClientSessionValue, Tls13ClientSessionValue};
use rustls::pki_types::ServerName;

/// Bytes for all sessions: some 7,000 hosts with chains of 3 kB and both tickets.
const ROOM: usize = 48 << 20;
/// Tickets of TLS 1.3 serve once; servers send two with each handshake, and a reconnect takes one.
const TICKETS: usize = 2;
/// A session without its chain of certificates: ticket, secrets, and its place here.
const SESSION: usize = 512;
/// A host without its sessions.
const HOST: usize = 256;
/// What a chain takes where it was not seen: a session that was resumed brings it along.
const USUAL_CHAIN: usize = 4 << 10;

/// The sessions of one identity: whoever speaks as somebody else has another cache.
pub(super) struct Sessions {
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
    /// Bytes of its chain of certificates; 0 where it was not seen.
    chain: usize,
    group: Option<NamedGroup>,
    tls12: Option<Tls12ClientSessionValue>,
    tls13: VecDeque<Tls13ClientSessionValue>,
}

impl Host {
    fn bytes(&self) -> usize {
        let chain = if self.chain == 0 { USUAL_CHAIN } else { self.chain };
        let sessions = self.tls13.len() + usize::from(self.tls12.is_some());
        HOST + sessions * (SESSION + chain)
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

impl Sessions {
    pub(super) fn new() -> Self {
        Self { kept: Mutex::default(), room: ROOM }
    }

    /// How large the chain of a host is that has just been verified.
    pub(super) fn note_chain(&self, name: &ServerName<'_>, bytes: usize) {
        // What is kept may have another chain: the larger one counts.
        self.change(name.to_owned(), |host| host.chain = host.chain.max(bytes));
    }

    fn change(&self, name: ServerName<'static>, change: impl FnOnce(&mut Host)) {
        self.kept().change(name, self.room, change);
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ClientSessionStore for Sessions {
    fn set_kx_hint(&self, name: ServerName<'static>, group: NamedGroup) {
        self.change(name, |host| host.group = Some(group));
    }

    fn kx_hint(&self, name: &ServerName<'_>) -> Option<NamedGroup> {
        self.kept().hosts.get(name).and_then(|host| host.group)
    }

    fn set_tls12_session(&self, name: ServerName<'static>, session: Tls12ClientSessionValue) {
        self.change(name, |host| host.tls12 = Some(session));
    }

    fn tls12_session(&self, name: &ServerName<'_>) -> Option<Tls12ClientSessionValue> {
        self.kept().hosts.get(name).and_then(|host| host.tls12.clone())
    }

    fn remove_tls12_session(&self, name: &ServerName<'static>) {
        self.change(name.clone(), |host| host.tls12 = None);
    }

    fn insert_tls13_ticket(&self, name: ServerName<'static>, ticket: Tls13ClientSessionValue) {
        self.change(name, |host| {
            if host.tls13.len() == TICKETS {
                host.tls13.pop_front();
            }
            host.tls13.push_back(ticket);
        });
    }

    fn take_tls13_ticket(&self, name: &ServerName<'static>) -> Option<Tls13ClientSessionValue> {
        let mut kept = self.kept();
        if kept.hosts.get(name).is_none_or(|host| host.tls13.is_empty()) {
            return None;
        }
        let mut ticket = None;
        kept.change(name.clone(), self.room, |host| ticket = host.tls13.pop_back());
        ticket
    }
}

impl fmt::Debug for Sessions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Sessions")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(number: usize) -> ServerName<'static> {
        ServerName::try_from(format!("h{number}.example")).unwrap()
    }

    /// A host costs its own bytes even without a session; with them it is tested in `tests/conn_tls.rs`.
    #[test]
    fn what_was_used_least_recently_goes_first() {
        let sessions = Sessions { room: 3 * HOST, ..Sessions::new() };
        for number in [1, 2, 3, 1, 4] {
            sessions.set_kx_hint(name(number), NamedGroup::X25519);
        }
        let known: Vec<bool> = (1..=4).map(|number| sessions.kx_hint(&name(number)).is_some()).collect();
        assert_eq!(known, [true, false, true, true]);
        let kept = sessions.kept();
        assert_eq!((kept.hosts.len(), kept.order.len(), kept.bytes), (3, 3, 3 * HOST));
    }

    #[test]
    fn the_largest_chain_counts() {
        let sessions = Sessions::new();
        sessions.note_chain(&name(1), 60_000);
        sessions.note_chain(&name(1), 3_000);
        let kept = sessions.kept();
        assert_eq!((kept.hosts.len(), kept.hosts[&name(1)].chain, kept.bytes), (1, 60_000, HOST));
    }
}
