//! [`WholeResponse`]: a response that is there as a whole, before its page is read. [`Playback`] reads it in time.
//!
//! Engines pass a response on in the pieces in which it arrives ([`Session`](crate::crawl::session::Session)). Fetchers
//! without a connection have all of it: from an archive, or from a test. The same code reads both.

use std::net::IpAddr;
use std::sync::Arc;

use crate::base::job::{Job, JobExtras, LaneId};
use crate::base::outcome::{ErrorKind, Failure, Outcome, Truncated};
use crate::base::time::Time;
use crate::crawl::fetch::{Fetch, FetchStart, Finished};
use crate::crawl::rules::Rules;
use crate::crawl::session::BACKPRESSURE_POLL;
use crate::crawl::visit::{KeeperPart, Visit};
use crate::http::conn::{Conn, Step};

/// Head, body, end and times of one exchange.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WholeResponse {
    /// Status line and header fields in the syntax of HTTP/1.1, with the empty line at their end.
    pub head: Vec<u8>,
    /// The body as transferred: with the content coding and the framing that the head declares.
    pub body: Vec<u8>,
    /// Why the body is incomplete; `None` if the host ended it here.
    pub truncated: Option<Truncated>,
    /// The address that answered.
    pub ip: Option<IpAddr>,
    /// When the fetch began.
    pub started: Time,
    /// When the head arrived.
    pub arrived: Time,
    /// When the body was complete.
    pub ended: Time,
}

impl WholeResponse {
    /// Reads the page at once, and returns the visit of the job.
    pub fn into_visit(self, job: Job, rules: &Arc<Rules>) -> Box<Visit> {
        let mut now = self.started;
        let mut playback = Playback::new(self, job, rules);
        while let Some(due) = playback.advance(now) {
            now = due;
        }
        playback.finish(now)
    }

    /// Reads this document in place of the page of `visit`: its findings, links and body replace those of the visit. What
    /// is known about the exchange stays. If the document cannot be read, the visit stays as it is; returns whether it was
    /// replaced.
    pub fn replace_page_of(self, visit: &mut Visit, rules: &Arc<Rules>) -> bool {
        let (lane, slot) = visit.for_keeper.slot.unwrap_or((LaneId(0), 0));
        let job = Job {
            lane,
            slot,
            extras: Some(Box::new(JobExtras { is_document: true, ..JobExtras::default() })),
            ..Job::detached(visit.link.clone(), visit.purpose.clone(), [])
        };
        let Visit { findings, facts, body, for_keeper, .. } = *self.into_visit(job, rules);
        if facts.outcome != Outcome::Ok {
            return false;
        }
        let KeeperPart { found, edges, charge, likeness, .. } = for_keeper;
        (visit.findings, visit.body) = (findings, body);
        visit.for_keeper = KeeperPart { found, edges, charge, likeness, ..std::mem::take(&mut visit.for_keeper) };
        true
    }
}

/// A response that arrives in time, as if over a connection. Limits, timeouts and backpressure apply to it.
pub struct Playback {
    fetch: Fetch,
    response: WholeResponse,
    next: Input,
}

/// What arrives next.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Input {
    Head,
    Body,
    End,
}

impl Playback {
    /// Begins at [`WholeResponse::started`].
    pub fn new(response: WholeResponse, job: Job, rules: &Arc<Rules>) -> Self {
        let started = response.started;
        let mut conn = Conn::plain(Arc::clone(&rules.limits), started);
        conn.peer = response.ip;
        let start = FetchStart { started, connected: None };
        let fetch = Fetch::new(Box::new(job), conn, Arc::clone(rules), start, started);
        Self { fetch, response, next: Input::Head }
    }

    /// Does what is due. Returns when to call this again; `None` if the response is complete.
    pub fn advance(&mut self, now: Time) -> Option<Time> {
        loop {
            let input_at = if self.next == Input::Head { self.response.arrived } else { self.response.ended };
            let is_yielding = self.fetch.is_yielding();
            match self.fetch.step() {
                Step::Write(bytes) => {
                    let count = bytes.len();
                    self.fetch.wrote(count, now);
                }
                Step::Read if input_at <= now => self.feed(now),
                Step::Read => {
                    self.fetch.expire(now);
                    let deadline = self.fetch.deadline();
                    if self.fetch.step() != Step::Done {
                        return Some(input_at.min(deadline));
                    }
                }
                Step::Pause if is_yielding => drop(self.fetch.resume(now)),
                Step::Pause => {
                    self.fetch.expire(now);
                    self.fetch.resume(now);
                    if self.fetch.step() == Step::Pause {
                        return Some(now + BACKPRESSURE_POLL);
                    }
                }
                Step::Done => return None,
            }
        }
    }

    /// Passes the next input to the fetch.
    fn feed(&mut self, now: Time) {
        match (self.next, self.response.truncated) {
            (Input::Head, _) => {
                self.next = Input::Body;
                self.fetch.feed(&std::mem::take(&mut self.response.head), now);
            }
            (Input::Body, _) => {
                self.next = Input::End;
                self.fetch.feed(&std::mem::take(&mut self.response.body), now);
            }
            (Input::End, None) => self.fetch.closed(now),
            (Input::End, Some(truncated)) => self.fetch.cut(cut_failure(truncated), truncated),
        }
    }

    /// The visit, once the response is complete.
    pub fn finish(self, now: Time) -> Box<Visit> {
        let started = self.response.started;
        match self.fetch.finish(now) {
            Finished::Visit(visit, _) => visit,
            // Only a connection that was used before can be found closed.
            Finished::Retry(job) => {
                let failure = Failure::new(ErrorKind::EmptyReply, "there is no response");
                Box::new(Visit::failed(*job, failure, started, now))
            }
        }
    }
}

/// The failure that ends a body for this reason.
fn cut_failure(truncated: Truncated) -> Failure {
    let (kind, why) = match truncated {
        Truncated::Length => (ErrorKind::TooLarge, "it exceeded a limit on its size"),
        Truncated::Time => (ErrorKind::TimeoutTotal, "it did not arrive in time"),
        Truncated::Disconnect => (ErrorKind::Reset, "the connection was closed"),
        Truncated::Decode => (ErrorKind::Decode, "its coding was invalid"),
        Truncated::Hook => (ErrorKind::Hook, "a hook stopped it"),
    };
    Failure::new(kind, format!("the body is incomplete: {why}"))
}
