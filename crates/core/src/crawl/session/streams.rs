//! HTTP/2 connections: many concurrent jobs, one stream each.
//!
//! Head and data of each stream are passed to a [`Conn`] of its own. So limits, codings and
//! timeouts are the same for both versions. A stream pauses if the budget is exhausted or if there is much to
//! decompress. It then buffers what the server sends, at most its window, and its window is not extended. Other streams
//! continue.

use std::sync::Arc;
use std::time::Duration;

use crate::base::budget::BudgetCharge;
use crate::base::job::LaneHttp;
use crate::base::outcome::{ErrorKind, Failure};
use crate::base::time::Time;
use crate::crawl::fetch::Exchange;
use crate::crawl::rules::{HttpVersion, Rules};
use crate::http::conn::{Conn, Head, Limits, Receiver as _, Step, Tls};
use crate::http::h2::{H2Conn, H2Request, StreamEvents, StreamFault};

use super::{BACKPRESSURE_POLL, Completed, ConnKey, KEEP_ALIVE, SlotKey};

/// The free capacity that is reported while the server accepts streams. The lane limits how many are in flight.
const STREAM_CAPACITY: usize = 1 << 10;

/// How often an unprocessed request is sent again without counting as an attempt, if its connection processed no
/// request at all. If the connection processed some, there is no limit: servers may limit the requests per connection.
const MAX_UNPROCESSED: u8 = 3;

/// The receive window of a stream is at most the memory budget divided by this number. With a concurrency above 32 it is
/// smaller, so that the full windows of all streams together take at most half of the budget. [`H2Conn::new`] raises it
/// to the default of HTTP/2, 65,535 bytes, if it is smaller.
const MIN_BUDGET_DIVISOR: u64 = 64;
/// The receive window of a stream is at most this, however large the budget is.
const MAX_STREAM_WINDOW: u64 = 1 << 20;

/// How often deadlines are checked while bytes arrive. Deadlines are then extended by this time, because bytes of the
/// stream may be among those that are not read yet.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// An HTTP/2 connection and its jobs.
pub(super) struct Streams {
    h2: H2Conn,
    tls: Option<Box<Tls>>,
    peer: Option<std::net::IpAddr>,
    limits: Arc<Limits>,
    /// The deadline for writing pending bytes while there are no streams; [`Time::NEVER`] otherwise, because streams
    /// have deadlines of their own.
    flush_by: Time,
    streams: StreamTable,
    /// Keys of streams whose requests are not written yet.
    unsent: Vec<u32>,
    /// Completed jobs that `finished` has not returned yet.
    results: Vec<Completed>,
    slot: SlotKey,
    conn_key: ConnKey,
    /// When the connection is closed, if it stays idle.
    expires: Time,
    /// The time of the last event.
    now: Time,
    /// When deadlines are checked next while bytes arrive.
    check_at: Time,
}

/// The streams by key.
#[derive(Default)]
struct StreamTable {
    /// A stream's key is its index here.
    by_key: Vec<Option<Box<Stream>>>,
    count: usize,
    /// Keys of streams with new events.
    touched: Vec<u32>,
    /// The ends of streams whose results are not collected yet.
    ends: Vec<StreamEnd>,
    /// When paused streams are checked again.
    resume_at: Option<Time>,
}

/// One job and its response.
struct Stream {
    /// Parses the response. It has no socket; the data of the stream is fed to it.
    conn: Conn,
    exchange: Exchange,
    /// The stream does not consume data for now.
    is_paused: bool,
    /// The limit on the body, if it is not the usual one, was passed to the HTTP/2 connection.
    is_limit_set: bool,
    /// The server does not allow another stream yet: the request is not sent.
    is_waiting: bool,
    /// Whether the job may fall back to HTTP/1.1.
    may_fall_back: bool,
}

/// How a stream ended. Not a part of [`Stream`], because most streams are waiting.
struct StreamEnd {
    key: u32,
    /// The size of all frames of the stream.
    wire: u64,
    /// `None` if the server ended the stream, or if nothing more of the stream is needed.
    fault: Option<StreamFault>,
}

impl Streams {
    /// Takes over a connection after its TLS handshake, if any.
    pub(super) fn new(mut conn: Conn, rules: &Rules, (slot, conn_key): (SlotKey, ConnKey), now: Time) -> Self {
        let divisor = MIN_BUDGET_DIVISOR.max(2 * rules.concurrency as u64);
        let window = (rules.budget.limit() / divisor).min(MAX_STREAM_WINDOW) as u32;
        let limits = Arc::clone(&rules.limits);
        Self {
            h2: H2Conn::new(Arc::clone(&limits), window, now),
            peer: conn.peer,
            tls: conn.take_tls(),
            limits,
            flush_by: Time::NEVER,
            streams: StreamTable::default(),
            unsent: Vec::new(),
            results: Vec::new(),
            slot,
            conn_key,
            expires: Time::NEVER,
            now,
            check_at: now,
        }
    }

    /// Sends the request of an exchange on a new stream.
    pub(super) fn begin(&mut self, exchange: Exchange, now: Time) {
        let mut conn = Conn::plain(Arc::clone(&self.limits), now);
        conn.peer = self.peer;
        start_timeouts(&mut conn, &exchange, now);
        // The request must not be sent at all.
        if let Some(failure) = exchange.refusal(now) {
            conn.refuse(failure);
        }
        let is_refused = conn.step() == Step::Done;
        let request = H2Request {
            block: exchange.request_block(),
            body: exchange.request_body().into(),
            is_repeatable: exchange.job().link.is_repeatable(),
        };
        let may_fall_back = exchange.rules().http == HttpVersion::Auto;
        let key = self.streams.insert(Stream {
            conn,
            exchange,
            is_paused: false,
            is_limit_set: false,
            is_waiting: false,
            may_fall_back,
        });
        if is_refused {
            self.streams.touched.push(key);
        } else if self.h2.accepts() {
            self.h2.open(key, request);
            self.unsent.push(key);
            if let Some(stream) = self.streams.get(key) {
                stream.is_waiting = self.h2.is_waiting(key);
            }
        } else {
            let failure = Failure::new(ErrorKind::Reset, "the connection was closed before the request was sent");
            let wire = 0;
            self.streams.failed(key, wire, StreamFault::Unprocessed(failure), now);
        }
        self.collect_completed(now);
    }

    /// Allows all jobs to fall back to HTTP/1.1.
    #[cfg(test)]
    pub(super) fn allow_fallback(&mut self) {
        for stream in self.streams.by_key.iter_mut().flatten() {
            stream.may_fall_back = true;
        }
    }

    pub(super) fn free_capacity(&self) -> usize {
        if self.h2.accepts() { STREAM_CAPACITY } else { 0 }
    }

    pub(super) fn is_idle(&self) -> bool {
        self.streams.count == 0 && self.results.is_empty() && self.h2.accepts()
    }

    pub(super) fn slot(&self) -> Option<SlotKey> {
        self.h2.accepts().then_some(self.slot)
    }

    pub(super) fn key(&self) -> Option<ConnKey> {
        self.h2.accepts().then_some(self.conn_key)
    }

    pub(super) fn finished(&mut self) -> Option<Completed> {
        self.results.pop()
    }

    pub(super) fn step(&mut self) -> Step<'_> {
        self.flush();
        if self.has_output() {
            Step::Write(self.pending())
        } else if self.streams.count == 0 && !self.h2.accepts() {
            Step::Done
        } else if self.h2.is_over() || !self.may_read() {
            // The connection is over, and responses that have arrived wait for memory. Or an incomplete header block
            // waits for memory.
            Step::Pause
        } else {
            Step::Read
        }
    }

    /// Whether the memory budget allows to read more. One response at a time may exceed the budget. If it belongs to
    /// this connection, the connection must be read, so that the response can finish.
    fn may_read(&mut self) -> bool {
        self.h2.may_read() || self.streams.iter().any(|stream| stream.exchange.has_overdraft())
    }

    /// How long [`Step::Pause`] lasts.
    pub(super) fn pause_duration(&self) -> Duration {
        let is_due = self.streams.resume_at.is_some_and(|at| at <= self.now);
        if is_due { Duration::ZERO } else { BACKPRESSURE_POLL }
    }

    /// Whether there are bytes to be written or encrypted.
    fn has_output(&self) -> bool {
        !self.pending().is_empty() || !self.h2.pending().is_empty()
    }

    fn pending(&self) -> &[u8] {
        self.tls.as_ref().map_or_else(|| self.h2.pending(), |tls| tls.pending())
    }

    pub(super) fn wrote(&mut self, bytes: usize, now: Time) {
        match &mut self.tls {
            Some(tls) => tls.wrote(bytes),
            None => self.h2.wrote(bytes),
        }
        if !self.has_output() {
            self.h2.send_bodies();
        }
        if !self.has_output() && !self.unsent.is_empty() {
            let Self { h2, streams, unsent, .. } = self;
            unsent.retain(|key| {
                let is_waiting = h2.is_waiting(*key);
                if let Some(stream) = streams.get(*key).filter(|_| !is_waiting) {
                    if std::mem::take(&mut stream.is_waiting) {
                        start_timeouts(&mut stream.conn, &stream.exchange, now);
                    }
                    stream.exchange.job().report_sent(now);
                }
                is_waiting
            });
            if unsent.is_empty() && self.streams.count > 1 {
                // Free the memory: the streams may wait long for their responses.
                *unsent = Vec::new();
            }
        }
    }

    pub(super) fn feed(&mut self, bytes: &[u8], now: Time) {
        let Self { h2, tls, streams, .. } = self;
        match tls {
            None => h2.feed(bytes, now, streams),
            Some(tls) => {
                let mut rest = bytes;
                loop {
                    while let Some(plaintext) = tls.plaintext() {
                        let len = plaintext.len();
                        h2.feed(plaintext, now, streams);
                        tls.consume(len);
                    }
                    if rest.is_empty() {
                        break;
                    }
                    match tls.read(&mut rest) {
                        Ok(true) => {}
                        // Nothing was consumed.
                        Ok(false) => break,
                        Err(failure) => {
                            h2.broke(&failure, now, streams);
                            break;
                        }
                    }
                }
                if tls.is_closed_cleanly() {
                    h2.closed(now, streams);
                }
            }
        }
        self.collect_completed(now);
        // Engines check deadlines only when nothing arrives. Continuous input must not suspend the deadlines.
        if now >= self.check_at {
            self.check_at = now + CHECK_INTERVAL;
            if now >= self.deadline() + CHECK_INTERVAL {
                self.expire(now);
            }
        }
    }

    pub(super) fn closed(&mut self, now: Time) {
        self.h2.closed(now, &mut self.streams);
        self.collect_completed(now);
    }

    pub(super) fn broke(&mut self, failure: &Failure) {
        self.h2.broke(failure, self.now, &mut self.streams);
        // Drop the output: the socket cannot be written to any more.
        self.h2.take_output();
        if let Some(tls) = &mut self.tls {
            let written = tls.pending().len();
            tls.wrote(written);
        }
        self.collect_completed(self.now);
        // Streams that were cancelled just now may have added output.
        self.h2.take_output();
    }

    pub(super) fn deadline(&self) -> Time {
        let stream = self.streams.iter().map(Stream::deadline).min().unwrap_or(Time::NEVER);
        let idle = if self.is_idle() { self.expires } else { Time::NEVER };
        let resume = self.streams.resume_at.unwrap_or(Time::NEVER);
        stream.min(idle).min(self.flush_by).min(self.h2.deadline()).min(resume)
    }

    pub(super) fn expire(&mut self, now: Time) {
        self.h2.expire(now, &mut self.streams);
        if self.flush_by <= now || (self.is_idle() && self.expires <= now) {
            self.now = now;
            self.broke(&Failure::new(ErrorKind::TimeoutIdle, "idle for too long"));
        }
        for key in 0..self.streams.by_key.len() as u32 {
            let Some(stream) = self.streams.get(key).filter(|stream| stream.deadline() <= now) else { continue };
            stream.exchange.catching_panics(&mut stream.conn, |conn, exchange| conn.expire(now, exchange));
            if stream.conn.step() == Step::Done {
                let has_no_response = !stream.exchange.has_response();
                self.streams.touched.push(key);
                if has_no_response {
                    self.h2.retire_if_silent(self.limits.idle, now);
                }
            }
        }
        self.resume(now);
        self.collect_completed(now);
    }

    /// Resumes paused streams with their buffered input, if that is due.
    fn resume(&mut self, now: Time) {
        if self.streams.resume_at.is_none_or(|at| now < at) {
            return;
        }
        self.streams.resume_at = None;
        for key in 0..self.streams.by_key.len() as u32 {
            let Some(stream) = self.streams.get(key) else { continue };
            if !stream.is_paused {
                continue;
            }
            stream.conn.set_paused(false, now);
            stream.is_paused = false;
            let rest = stream.exchange.take_rest().unwrap_or_default();
            let used = stream.feed_slice(&rest, now);
            self.streams.pause_if_needed(key, now);
            self.h2.consumed(key, used);
            self.streams.touched.push(key);
        }
    }

    /// Handles the streams with new events: moves completed jobs to `results`, and cancels the streams of those that
    /// need no more data.
    fn collect_completed(&mut self, now: Time) {
        self.now = now;
        let was_busy = self.streams.count > 0;
        for key in std::mem::take(&mut self.streams.touched) {
            let max_streams = self.h2.stream_limit();
            let Some(stream) = self.streams.get(key) else { continue };
            if let Some(body_limit) = stream.conn.custom_body_limit()
                && !std::mem::replace(&mut stream.is_limit_set, true)
            {
                self.h2.set_body_limit(key, body_limit);
            }
            let StreamTable { by_key, ends, .. } = &mut self.streams;
            let Some(stream) = by_key.get_mut(key as usize).and_then(Option::as_deref_mut) else { continue };
            let end = ends.iter().find(|end| end.key == key);
            stream.end_response_if_complete(end, now);
            if stream.conn.step() != Step::Done {
                continue;
            }
            // Until the stream ends, data beyond the declared length could make a complete response malformed.
            let is_final = end.is_some() || stream.conn.is_head_response_complete();
            if !is_final && stream.conn.is_whole() && self.h2.wait_for_end(key, now) {
                continue;
            }
            let Some(stream) = self.streams.get(key) else { continue };
            if !stream.exchange.reserve_links() {
                // The memory budget has no room for the links of the page now.
                stream.is_paused = true;
                self.streams.resume_by(now + BACKPRESSURE_POLL);
                continue;
            }
            // After the end of the stream, the HTTP/2 connection has already removed it. Then `cancel` does nothing.
            let wire = self.h2.cancel(key, now);
            let Some((stream, end)) = self.streams.remove(key) else { continue };
            let end = end.unwrap_or(StreamEnd { key, wire, fault: None });
            let tls = self.tls.as_ref();
            let has_processed = self.h2.has_processed();
            let mut result = stream.into_result(end, self.peer, tls.map(|tls| &**tls), has_processed, now);
            if let Completed::Visit(visit) = &mut result {
                visit.for_keeper.streams = max_streams;
            }
            self.results.push(result);
        }
        if was_busy && self.streams.count == 0 {
            self.expires = now + KEEP_ALIVE;
        }
        // Later events do not postpone the deadline, hence `min`.
        let must_flush = self.streams.count == 0 && self.has_output();
        self.flush_by = if must_flush { self.flush_by.min(now + self.limits.idle) } else { Time::NEVER };
    }

    /// Passes the output of HTTP/2 to TLS, all frames together, once all earlier ciphertext is written to the socket.
    fn flush(&mut self) {
        if let Some(tls) = &mut self.tls
            && tls.pending().is_empty()
            && !self.h2.pending().is_empty()
        {
            tls.send(&self.h2.take_output());
        }
    }
}

impl StreamTable {
    /// Adds a stream and returns its key.
    fn insert(&mut self, stream: Stream) -> u32 {
        self.count += 1;
        let stream = Some(Box::new(stream));
        match self.by_key.iter().position(Option::is_none) {
            Some(free) => {
                if let Some(entry) = self.by_key.get_mut(free) {
                    *entry = stream;
                }
                free as u32
            }
            None => {
                if self.by_key.len() == self.by_key.capacity() {
                    // In smaller steps than by doubling, as in `H2Conn::open`.
                    self.by_key.reserve_exact(self.by_key.len() / 4 + 1);
                }
                self.by_key.push(stream);
                self.by_key.len() as u32 - 1
            }
        }
    }

    fn get(&mut self, key: u32) -> Option<&mut Stream> {
        self.by_key.get_mut(key as usize)?.as_deref_mut()
    }

    fn remove(&mut self, key: u32) -> Option<(Box<Stream>, Option<StreamEnd>)> {
        let stream = self.by_key.get_mut(key as usize)?.take()?;
        let end = self.ends.iter().position(|end| end.key == key).map(|at| self.ends.swap_remove(at));
        self.count -= 1;
        if self.count == 0 {
            (self.by_key, self.ends) = (Vec::new(), Vec::new());
        }
        Some((stream, end))
    }

    fn end_of(&self, key: u32) -> Option<&StreamEnd> {
        self.ends.iter().find(|end| end.key == key)
    }

    /// Marks a stream as ended. If it is marked several times, the first fault and the last size are kept.
    fn mark_ended(&mut self, key: u32, wire: u64, fault: Option<StreamFault>) {
        if self.get(key).is_none() {
            return;
        }
        match self.ends.iter_mut().find(|end| end.key == key) {
            Some(end) => {
                end.wire = wire;
                end.fault = end.fault.take().or(fault);
            }
            None => self.ends.push(StreamEnd { key, wire, fault }),
        }
        self.touched.push(key);
    }

    fn iter(&self) -> impl Iterator<Item = &Stream> {
        self.by_key.iter().flatten().map(|stream| &**stream)
    }

    /// Pauses a stream that has kept input or waits for memory, and schedules its next check.
    fn pause_if_needed(&mut self, key: u32, now: Time) {
        let Some(stream) = self.get(key) else { return };
        let (has_rest, may_read) = (stream.exchange.has_rest(), stream.exchange.may_read(&mut stream.conn));
        if !has_rest && may_read {
            return;
        }
        stream.is_paused = true;
        stream.conn.set_paused(true, now);
        // A stream that only yields resumes at once. A stream that waits for memory is polled.
        let at = if has_rest && may_read { now } else { now + BACKPRESSURE_POLL };
        self.resume_by(at);
    }

    /// Checks paused streams at this time at the latest.
    fn resume_by(&mut self, at: Time) {
        self.resume_at = Some(self.resume_at.map_or(at, |before| before.min(at)));
    }
}

impl StreamEvents for StreamTable {
    fn head(&mut self, key: u32, head: &Head, now: Time) {
        let Some(stream) = self.get(key) else { return };
        // 421 Misdirected Request: the server does not serve this origin on this connection.
        if head.status == 421 && stream.may_fall_back {
            let failure = Failure::new(ErrorKind::Protocol, "421: not on this connection");
            let wire = 0;
            self.mark_ended(key, wire, Some(StreamFault::Http1(failure)));
        } else {
            stream.exchange.process(&mut stream.conn, |conn, exchange| conn.feed_head(head, now, exchange));
        }
        self.pause_if_needed(key, now);
        self.touched.push(key);
    }

    fn data(&mut self, key: u32, bytes: &[u8], now: Time) -> usize {
        let has_ended = self.end_of(key).is_some();
        let Some(stream) = self.get(key).filter(|_| !has_ended) else { return bytes.len() };
        if stream.is_paused {
            stream.exchange.extend_rest(bytes);
            return 0;
        }
        let used = stream.feed_slice(bytes, now);
        self.pause_if_needed(key, now);
        self.touched.push(key);
        used
    }

    fn is_satisfied(&mut self, key: u32, wire: u64, is_complete: bool) -> bool {
        let has_ended = self.end_of(key).is_some();
        let Some(stream) = self.get(key) else { return true };
        // More data than declared would make a complete response malformed, so the end of the stream is awaited.
        let awaits_end = is_complete && stream.conn.is_whole() && !stream.conn.is_head_response_complete();
        let is_satisfied = has_ended || (stream.conn.step() == Step::Done && !awaits_end);
        if is_satisfied {
            self.mark_ended(key, wire, None);
        }
        is_satisfied
    }

    fn new_head_charge(&mut self, key: u32) -> Option<BudgetCharge> {
        self.get(key)?.exchange.new_head_charge()
    }

    fn end(&mut self, key: u32, wire: u64, _now: Time) {
        self.mark_ended(key, wire, None);
    }

    fn failed(&mut self, key: u32, wire: u64, fault: StreamFault, _now: Time) {
        self.mark_ended(key, wire, Some(fault));
    }
}

/// Starts the timeouts of a request that is sent now. `conn` gets an empty request, because the HTTP/2 connection sends
/// the real one as frames.
fn start_timeouts(conn: &mut Conn, exchange: &Exchange, now: Time) {
    conn.request(Vec::new(), exchange.deadline(), now);
    if exchange.is_head_request() {
        conn.set_head_request();
    }
    conn.wrote(0, now);
}

impl Stream {
    /// The next deadline. While the request waits to be sent, only the time limit of the whole fetch applies.
    fn deadline(&self) -> Time {
        if self.is_waiting { self.exchange.deadline() } else { self.conn.deadline() }
    }

    /// Processes bytes of the body, but at most one slice of decoded output (see [`Conn::feed_some`]), and keeps the
    /// rest. Returns how many bytes were consumed.
    fn feed_slice(&mut self, bytes: &[u8], now: Time) -> usize {
        let mut used = bytes.len();
        self.exchange.process(&mut self.conn, |conn, exchange| {
            used = conn.feed_some(bytes, now, exchange);
            let rest = bytes.get(used..).unwrap_or_default();
            if conn.step() == Step::Done {
                used = bytes.len();
            } else if !rest.is_empty() || conn.has_more() {
                exchange.set_rest(rest);
            }
        });
        used
    }

    /// Ends the response if the stream has ended and all its data was processed.
    fn end_response_if_complete(&mut self, end: Option<&StreamEnd>, now: Time) {
        let Some(end) = end.filter(|_| !self.exchange.has_rest() && !self.conn.is_head_response_complete()) else {
            return;
        };
        if let Some(fault) = &end.fault {
            let failure = fault.clone().failure();
            self.conn.set_paused(false, now);
            self.exchange.catching_panics(&mut self.conn, |conn, exchange| {
                // After a protocol violation before the first byte of the body, the response is not usable.
                if failure.kind == ErrorKind::Protocol && !conn.has_body() {
                    conn.refuse(failure);
                } else if failure.kind == ErrorKind::Protocol {
                    conn.truncate_body(failure);
                } else {
                    conn.broke(failure, exchange);
                }
            });
        } else {
            self.exchange.process(&mut self.conn, |conn, exchange| conn.closed(now, exchange));
        }
    }

    /// The result of a stream that has ended: a visit, or its job to be sent again. `has_processed`: the server has
    /// processed at least one request of the connection.
    fn into_result(
        self: Box<Self>,
        end: StreamEnd,
        peer: Option<std::net::IpAddr>,
        tls: Option<&Tls>,
        has_processed: bool,
        now: Time,
    ) -> Completed {
        let Self { mut conn, mut exchange, may_fall_back, .. } = *self;
        let wire = end.wire;
        match end.fault {
            Some(StreamFault::Http1(_)) if may_fall_back => {
                return Completed::Retry(exchange.into_job_for(LaneHttp::Http1Only));
            }
            Some(StreamFault::Unprocessed(_))
                if !exchange.has_response() && (has_processed || exchange.count_unprocessed(MAX_UNPROCESSED)) =>
            {
                return Completed::Retry(exchange.into_job());
            }
            _ => {}
        }
        let mut end = conn.end();
        end.bytes_wire = wire;
        end.is_http2 = true;
        end.tls_done = tls.and_then(Tls::done);
        let mut visit = exchange.finish(end, peer, tls.is_some(), || tls.and_then(Tls::tls_info), now);
        visit.for_keeper.http = Some(LaneHttp::Multiplexed);
        Completed::Visit(visit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_waiting_stream_takes_at_most_256_bytes() {
        // The next larger size class of the allocator is 320 bytes.
        assert!(size_of::<Stream>() <= 256, "{} bytes", size_of::<Stream>());
    }
}
