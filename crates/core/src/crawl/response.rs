//! [`WholeResponse`]: a response that is there as a whole, before its page is read.
//!
//! Engines pass a response on in the pieces in which it arrives ([`Session`](crate::crawl::session::Session)). Fetchers
//! without a connection have all of it: from an archive, or from a test. The same code reads both.

use std::net::IpAddr;
use std::sync::Arc;

use crate::base::job::{Job, LaneHttp, LaneId};
use crate::base::outcome::{ErrorKind, Failure, Truncated};
use crate::base::time::Time;
use crate::crawl::fetch::{Fetch, FetchStart, Finished};
use crate::crawl::rules::Rules;
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
    /// Reads the page, and returns the visit of the job.
    pub fn into_visit(self, job: Job, rules: &Arc<Rules>) -> Box<Visit> {
        let mut conn = Conn::plain(Arc::clone(&rules.limits), self.started);
        conn.peer = self.ip;
        let start = FetchStart { started: self.started, connected: None };
        let mut fetch = Fetch::new(Box::new(job), conn, Arc::clone(rules), start, self.started);
        while let Step::Write(bytes) = fetch.step() {
            let count = bytes.len();
            fetch.wrote(count, self.started);
        }
        feed(&mut fetch, &self.head, self.arrived);
        feed(&mut fetch, &self.body, self.ended);
        match self.truncated {
            None => fetch.closed(self.ended),
            Some(truncated) => fetch.cut(cut_failure(truncated), truncated),
        }
        while fetch.is_yielding() {
            fetch.resume(self.ended);
        }
        match fetch.finish(self.ended) {
            Finished::Visit(visit, _) => visit,
            // Only a connection that was used before can be found closed.
            Finished::Retry(job) => Box::new(Visit::failed(*job, no_response(), self.started, self.ended)),
        }
    }
}

impl WholeResponse {
    /// Reads this document in place of the page of `visit`: its findings, links and body replace those of the visit. What
    /// is known about the exchange stays.
    pub fn replace_page_of(self, visit: &mut Visit, rules: &Arc<Rules>) {
        let (lane, slot) = visit.for_keeper.slot.unwrap_or((LaneId(0), 0));
        let job = Job {
            link: visit.link.clone(),
            purpose: visit.purpose.clone(),
            lane,
            slot,
            http: LaneHttp::Serial,
            unprocessed: 0,
            addresses: Arc::new([]),
            extras: None,
        };
        let read = self.into_visit(job, rules);
        let Visit { findings, body, for_keeper, .. } = *read;
        let KeeperPart { found, edges, charge, likeness, .. } = for_keeper;
        (visit.findings, visit.body) = (findings, body);
        visit.for_keeper = KeeperPart { found, edges, charge, likeness, ..std::mem::take(&mut visit.for_keeper) };
    }
}

/// A fetch pauses in long bodies, so that other fetches get their turn. Here it is resumed at once.
fn feed(fetch: &mut Fetch, bytes: &[u8], now: Time) {
    fetch.feed(bytes, now);
    while fetch.is_yielding() {
        fetch.resume(now);
    }
}

fn no_response() -> Failure {
    Failure::new(ErrorKind::EmptyReply, "there is no response")
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
