//! [`Fetch`]: one job on one HTTP/1.1 connection, from the request to the visit.
//!
//! The caller does what [`Fetch::step`] returns. On [`Step::Write`] it writes the bytes and reports how many were
//! written. On [`Step::Read`] it waits, reads into its own buffer and feeds the bytes. On [`Step::Pause`] it calls
//! [`Fetch::resume`] later. On [`Step::Done`] it takes the visit. The fetch handles TLS, redirects, codings and links.
//!
//! | file | content |
//! |---|---|
//! | `exchange` | one job and its response, shared with the streams of HTTP/2 |
//! | `fields` | header fields that decide how a response is read |
//! | `result` | the visit that an exchange results in |
//!
//! Invariant: a waiting fetch owns no read buffer. A body is examined as it arrives, and buffered only if an output
//! needs it.

mod exchange;
mod fields;
mod result;

use std::sync::Arc;

use crate::base::job::{Job, LaneHttp};
use crate::base::outcome::{Failure, Truncated};
use crate::base::time::Time;
use crate::crawl::rules::Rules;
use crate::crawl::visit::Visit;
use crate::http::conn::{Conn, Step};

pub(super) use exchange::Exchange;
#[cfg(test)]
pub(crate) use exchange::MAX_VALIDATOR;

/// One job on one connection. It is only a pointer, because an engine holds and moves thousands of fetches.
pub struct Fetch(Box<FetchState>);

struct FetchState {
    conn: Conn,
    exchange: Exchange,
}

/// The result of a fetch.
pub enum Finished {
    /// A visit, and the connection if it can be reused.
    Visit(Box<Visit>, Option<Box<Conn>>),
    /// The kept-alive connection failed before the host responded, see [`ExchangeEnd::stale`]: repeat the job on a new
    /// connection. The repeated request does not count as another attempt.
    ///
    /// [`ExchangeEnd::stale`]: crate::http::conn::ExchangeEnd::stale
    Retry(Box<Job>),
}

/// When a fetch started, and when its connection was open.
#[derive(Clone, Copy, Debug)]
pub struct FetchStart {
    /// When the worker started the job.
    pub started: Time,
    /// When TCP was connected; `None` on a kept-alive connection.
    pub connected: Option<Time>,
}

impl Fetch {
    /// Starts a request for the job's link on a connection.
    pub fn new(job: Box<Job>, conn: Conn, rules: Arc<Rules>, start: FetchStart, now: Time) -> Self {
        Self::begin(Exchange::new(job, rules, start), conn, now)
    }

    /// Starts the request of an exchange on a connection.
    pub(super) fn begin(exchange: Exchange, mut conn: Conn, now: Time) -> Self {
        let mut request = exchange.request();
        request.extend_from_slice(exchange.request_body());
        conn.request(request, exchange.deadline(), now);
        if let Some(failure) = exchange.refusal(now) {
            conn.refuse(failure);
        }
        Self(Box::new(FetchState { conn, exchange }))
    }

    pub fn step(&mut self) -> Step<'_> {
        let FetchState { conn, exchange } = &mut *self.0;
        // The links of a complete page wait for memory before the visit is built.
        if matches!(conn.step(), Step::Done) && !exchange.reserve_links() {
            return Step::Pause;
        }
        conn.step()
    }

    pub fn wrote(&mut self, count: usize, now: Time) {
        self.catching_panics(|conn, exchange| {
            let was_sending = conn.is_sending();
            conn.wrote(count, now);
            if was_sending && !conn.is_sending() {
                exchange.job().report_sent(now);
            }
        });
    }

    pub fn feed(&mut self, bytes: &[u8], now: Time) {
        self.feed_slice(bytes, now);
        self.update_pause(now);
    }

    /// Processes bytes until the decode slice is used up (see [`Conn::feed_some`]), and keeps the rest for
    /// [`Fetch::resume`].
    fn feed_slice(&mut self, bytes: &[u8], now: Time) {
        self.process(|conn, exchange| {
            let used = conn.feed_some(bytes, now, exchange);
            let rest = bytes.get(used..).unwrap_or_default();
            if !rest.is_empty() || conn.has_more() {
                exchange.set_rest(rest);
            }
        });
    }

    /// True if the fetch paused only to yield to other fetches and can continue at once.
    pub fn is_yielding(&self) -> bool {
        self.0.exchange.has_rest() && !self.0.conn.awaits_memory()
    }

    /// The host closed its side of the connection.
    pub fn closed(&mut self, now: Time) {
        self.process(|conn, exchange| conn.closed(now, exchange));
    }

    /// The socket failed.
    pub fn broke(&mut self, failure: Failure) {
        self.catching_panics(|conn, exchange| conn.broke(failure, exchange));
    }

    /// The body ends here, before its end, for this reason.
    pub(super) fn cut(&mut self, failure: Failure, truncated: Truncated) {
        self.0.conn.cut(failure, truncated);
    }

    fn process(&mut self, process: impl FnOnce(&mut Conn, &mut Exchange)) {
        let FetchState { conn, exchange } = &mut *self.0;
        exchange.process(conn, process);
    }

    fn catching_panics(&mut self, process: impl FnOnce(&mut Conn, &mut Exchange)) {
        let FetchState { conn, exchange } = &mut *self.0;
        exchange.catching_panics(conn, process);
    }

    /// When to call [`Fetch::expire`] if nothing else happens before.
    pub fn deadline(&self) -> Time {
        self.0.conn.deadline()
    }

    pub fn expire(&mut self, now: Time) {
        self.catching_panics(|conn, exchange| conn.expire(now, exchange));
    }

    /// Continues after [`Step::Pause`] with kept input, and resumes reading if the budget has room. Returns whether
    /// reading is resumed.
    pub fn resume(&mut self, now: Time) -> bool {
        if let Some(rest) = self.0.exchange.take_rest() {
            self.0.conn.set_paused(false, now);
            self.feed_slice(&rest, now);
        }
        self.update_pause(now)
    }

    /// Pauses the connection while the budget or the decode slice is used up, otherwise resumes it. Returns whether
    /// reading continues.
    fn update_pause(&mut self, now: Time) -> bool {
        let is_yielding = self.is_yielding();
        let FetchState { conn, exchange } = &mut *self.0;
        let may_read = !is_yielding && exchange.may_read(conn);
        conn.set_paused(!may_read, now);
        may_read
    }

    pub fn job(&self) -> &Job {
        self.0.exchange.job()
    }

    /// Returns the result, after [`Step::Done`].
    pub fn finish(self, now: Time) -> Finished {
        let FetchState { mut conn, exchange } = *self.0;
        let end = conn.end();
        if end.stale && end.failure.is_some() && !exchange.has_response() && exchange.job().link.is_repeatable() {
            return Finished::Retry(exchange.into_job());
        }
        let (reusable, peer, http) = (end.reusable, conn.peer, exchange.job().http);
        let mut visit = exchange.finish(end, peer, conn.is_tls(), || conn.tls_info(), now);
        // Only HTTP/1.1 was used. A host that requires it keeps that mark.
        visit.for_keeper.http = Some(if http == LaneHttp::Http1Only { http } else { LaneHttp::Serial });
        Finished::Visit(visit, reusable.then(|| Box::new(conn)))
    }
}

#[cfg(test)]
mod tests;
