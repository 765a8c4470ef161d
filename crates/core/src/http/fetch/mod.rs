//! [`Fetch`]: one job on one HTTP/1.1 connection, from the request to the visit.
//!
//! An engine does three things: on [`Step::Write`] write the bytes and report how many; on [`Step::Read`] wait, read
//! into its own buffer and feed the bytes; on [`Step::Done`] take the visit. TLS, redirects, codings and links are
//! invisible to it.
//!
//! | file | content |
//! |---|---|
//! | `page` | the state of one response, shared with the streams of HTTP/2 |
//! | `result` | the visit that an exchange results in |
//!
//! Invariant: a waiting fetch owns no read buffer. A body is examined as it arrives and kept only if an output needs
//! it.

mod page;
mod result;

use std::sync::Arc;

use crate::http::conn::{Conn, Step};
use crate::outcome::Failure;
use crate::rules::Rules;
use crate::schedule::job::{Job, LaneHttp};
use crate::time::Time;
use crate::visit::Visit;

pub(crate) use page::FREE_HEAD;
pub(super) use page::Page;
#[cfg(test)]
pub(crate) use page::{MAX_ATTRIBUTES, MAX_VALIDATOR};

/// One job on one connection. A single box, so that an engine with ten thousand waiting fetches holds ten thousand
/// pointers.
pub struct Fetch(Box<Exchange>);

struct Exchange {
    conn: Conn,
    page: Page,
}

/// The result of a fetch.
pub enum Finished {
    /// A visit, and the connection if it can be reused.
    Visit(Box<Visit>, Option<Box<Conn>>),
    /// The kept-alive connection was closed before the host responded: repeat the job on a new connection. Does not
    /// count as an attempt.
    Again(Box<Job>),
}

/// Times of the start of a fetch.
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
        Self::begin(Page::new(job, rules, start), conn, now)
    }

    /// Starts the request of a page on a connection.
    pub(super) fn begin(page: Page, mut conn: Conn, now: Time) -> Self {
        let mut request = page.request();
        request.extend_from_slice(page.request_body());
        conn.ask(request, page.deadline(), now);
        if let Some(failure) = page.refusal(now) {
            conn.refuse(failure);
        }
        Self(Box::new(Exchange { conn, page }))
    }

    pub fn step(&mut self) -> Step<'_> {
        let Exchange { conn, page } = &mut *self.0;
        if matches!(conn.step(), Step::Done) && !page.reserve_links() {
            return Step::Pause;
        }
        conn.step()
    }

    pub fn wrote(&mut self, n: usize, now: Time) {
        self.guarded(|conn, page| {
            let was_sending = conn.is_sending();
            conn.wrote(n, now);
            if was_sending && !conn.is_sending() {
                page.job().report_sent(now);
            }
        });
    }

    pub fn feed(&mut self, bytes: &[u8], now: Time) {
        self.read(bytes, now);
        self.hold(now);
    }

    /// Processes some of the bytes and keeps the rest for [`Fetch::resume`].
    fn read(&mut self, bytes: &[u8], now: Time) {
        self.guarded(|conn, page| {
            let used = conn.feed_some(bytes, now, page);
            let rest = bytes.get(used..).unwrap_or_default();
            if !rest.is_empty() || conn.has_more() {
                page.set_rest(rest);
            }
        });
    }

    /// True if it paused only to yield to other fetches and can continue at once.
    pub fn is_yielding(&self) -> bool {
        self.0.page.has_rest() && !self.0.conn.awaits_memory()
    }

    /// The host closed its side of the connection.
    pub fn closed(&mut self, now: Time) {
        self.guarded(|conn, page| conn.closed(now, page));
    }

    /// The socket failed.
    pub fn broke(&mut self, failure: Failure) {
        self.guarded(|conn, page| conn.broke(failure, page));
    }

    fn guarded(&mut self, read: impl FnOnce(&mut Conn, &mut Page)) {
        let Exchange { conn, page } = &mut *self.0;
        page.guarded(conn, read);
    }

    /// When to call [`Fetch::expire`] if nothing else happens before.
    pub fn deadline(&self) -> Time {
        self.0.conn.deadline()
    }

    pub fn expire(&mut self, now: Time) {
        self.guarded(|conn, page| conn.expire(now, page));
    }

    /// After [`Step::Pause`]: continues with kept input, and resumes reading if the budget allows. Returns whether it
    /// does.
    pub fn resume(&mut self, now: Time) -> bool {
        if let Some(rest) = self.0.page.take_rest() {
            self.0.conn.hold(false, now);
            self.read(&rest, now);
        }
        self.hold(now)
    }

    /// Pauses the connection while the budget or the slice is used up. Returns whether reading continues.
    fn hold(&mut self, now: Time) -> bool {
        let yields = self.is_yielding();
        let Exchange { conn, page } = &mut *self.0;
        let moves = !yields && page.may_read(conn);
        conn.hold(!moves, now);
        moves
    }

    pub fn job(&self) -> &Job {
        self.0.page.job()
    }

    /// Returns the result, after [`Step::Done`].
    pub fn finish(self, now: Time) -> Finished {
        let Exchange { mut conn, page } = *self.0;
        let end = conn.end();
        if end.stale && end.failure.is_some() && !page.has_answer() && page.job().link.is_repeatable() {
            return Finished::Again(page.into_job());
        }
        let (reusable, peer, http) = (end.reusable, conn.peer, page.job().http);
        let mut visit = page.finish(end, peer, conn.is_tls(), || conn.tls_info(), now);
        visit.message.http = Some(if http == LaneHttp::Http1Only { http } else { LaneHttp::Single });
        Finished::Visit(visit, reusable.then(|| Box::new(conn)))
    }
}

#[cfg(test)]
mod tests;
