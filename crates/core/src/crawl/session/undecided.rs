//! A connection whose TLS handshake selects the version of HTTP.

use std::sync::Arc;

use crate::base::job::{Job, LaneHttp};
use crate::base::outcome::{ErrorKind, Failure};
use crate::base::time::Time;
use crate::crawl::fetch::{Exchange, FetchStart};
use crate::crawl::rules::{HttpVersion, Rules};
use crate::http::conn::Conn;

use super::{Completed, ConnKey, SlotKey, slot_key};

/// How many jobs may wait for a handshake.
const MAX_QUEUE: usize = 256;

/// A connection whose handshake is in progress.
pub(super) struct Undecided {
    pub(super) conn: Conn,
    /// The first job; `None` once its failure was returned.
    pub(super) exchange: Option<Exchange>,
    /// The other jobs, which wait for the result of the handshake.
    pub(super) queue: Vec<Exchange>,
    /// Received bytes after the end of the handshake. They are passed on to the selected protocol.
    pub(super) rest: Vec<u8>,
    pub(super) slot: SlotKey,
    pub(super) key: ConnKey,
    /// HTTP/1.1 is not allowed (`--http 2`).
    is_http2_required: bool,
}

/// The result of the handshake.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Decision {
    Http1,
    Http2,
    Failed,
}

impl Undecided {
    pub(super) fn new(job: Box<Job>, mut conn: Conn, rules: &Arc<Rules>, start: FetchStart, now: Time) -> Self {
        let (slot, key) = (slot_key(&job), ConnKey::of(&job));
        let exchange = Exchange::new(job, Arc::clone(rules), start);
        conn.start_handshake(exchange.deadline(), now);
        let is_http2_required = rules.http == HttpVersion::Http2;
        Self { conn, exchange: Some(exchange), queue: Vec::new(), rest: Vec::new(), slot, key, is_http2_required }
    }

    pub(super) fn free_capacity(&self) -> usize {
        match self.decision() {
            None | Some(Decision::Http2) => MAX_QUEUE.saturating_sub(self.queue.len()),
            Some(Decision::Http1 | Decision::Failed) => 0,
        }
    }

    pub(super) fn accept(&mut self, job: Box<Job>, rules: &Arc<Rules>, start: FetchStart) {
        self.queue.push(Exchange::new(job, Arc::clone(rules), start));
    }

    pub(super) fn feed(&mut self, bytes: &[u8], now: Time) {
        let mut used = bytes.len();
        self.with_exchange(|conn, exchange| used = conn.feed_some(bytes, now, exchange));
        self.rest.extend_from_slice(bytes.get(used..).unwrap_or_default());
    }

    /// Calls `process` with the connection and the first job.
    pub(super) fn with_exchange(&mut self, process: impl FnOnce(&mut Conn, &mut Exchange)) {
        if let Some(exchange) = &mut self.exchange {
            exchange.catching_panics(&mut self.conn, process);
        }
    }

    /// The result of the handshake; `None` while it is in progress.
    pub(super) fn decision(&self) -> Option<Decision> {
        // The first job is returned only after a failure. `Conn::end` has then cleared the failure of the connection.
        if self.exchange.is_none() || self.conn.has_failed_before_request() {
            return Some(Decision::Failed);
        }
        if self.conn.is_handshaking() {
            return None;
        }
        // Without TLS there is no negotiation: with `--http 2`, the connection starts with HTTP/2 at once.
        let is_http2 = if self.conn.is_tls() { self.conn.alpn() == Some(b"h2") } else { self.is_http2_required };
        Some(match (is_http2, self.is_http2_required) {
            (true, _) => Decision::Http2,
            (false, true) => Decision::Failed,
            (false, false) => Decision::Http1,
        })
    }

    /// Returns the next job that cannot use this connection: to be retried elsewhere, or as a failed visit.
    pub(super) fn next_rejected(&mut self, now: Time) -> Option<Completed> {
        match self.decision()? {
            Decision::Http2 => None,
            Decision::Http1 => {
                self.queue.pop().map(|exchange| Completed::Retry(exchange.into_job_for(LaneHttp::Serial)))
            }
            Decision::Failed => {
                if self.exchange.is_some() && !self.conn.has_failed_before_request() {
                    let message = "the server does not support HTTP/2, and the crawl uses nothing else";
                    self.conn.refuse(Failure::new(ErrorKind::Protocol, message));
                }
                let peer = self.conn.peer;
                if let Some(exchange) = self.queue.pop() {
                    return Some(Completed::Visit(exchange.into_failed(self.conn.failure(), peer, now)));
                }
                let exchange = self.exchange.take()?;
                let (end, is_tls) = (self.conn.end(), self.conn.is_tls());
                let no_tls_info = || None;
                Some(Completed::Visit(exchange.finish(end, peer, is_tls, no_tls_info, now)))
            }
        }
    }
}
