//! [`H2Conn`]: one HTTP/2 connection of a client, without its socket.
//!
//! Most requests have no bodies: their streams are half closed as soon as they are open. A body is sent as far as the
//! server's windows allow.
//!
//! Invariant: every stream ends with exactly one of these: the event `end`, the event `failed`, the event
//! `is_satisfied` that returns true, or a call of `cancel`. Of received bytes, only incomplete header blocks are
//! buffered, up to `Limits::max_head`, and a few bytes of an incomplete frame.

use std::sync::Arc;
use std::time::Duration;

use crate::base::budget::BudgetCharge;
use crate::base::outcome::{ErrorKind, Failure};
use crate::base::time::Time;
use crate::http::conn::{Head, Limits, Step};

use super::flow::{ConnWindow, FloodGuard, StreamWindow};
use super::frame::{self, DEFAULT_WINDOW, LOWER_31_BITS, MAX_PAYLOAD, MAX_WINDOW, code, flag, kind, setting};
use super::hpack;
use super::reader::Reader;

/// The rest of a cancelled body is read (drained) if it is at most this long, because servers count resets and penalise
/// clients for them. A stream with a longer rest is reset.
const MAX_DRAINED_BYTES: u64 = 16 << 10;

/// How many cancelled streams are drained at the same time.
const MAX_DRAINED_STREAMS: usize = 8;
/// How long a cancelled stream is drained, and how long the end of a stream with a complete body is awaited.
const DRAIN_TIME: Duration = Duration::from_secs(5);

/// Limit on bytes waiting to be written. Only a server that provokes replies without reading them reaches it.
pub(super) const MAX_OUT: usize = 256 << 10;

/// How many WINDOW_UPDATE frames a server may send for a DATA frame of ours: one for the stream, one for the
/// connection. [`BYTES_PER_UPDATE`] allows some more. All others count as frames without content.
const UPDATES_PER_FRAME: u32 = 2;
/// The server may send one more WINDOW_UPDATE frame each time we have sent this many bytes.
const BYTES_PER_UPDATE: u32 = 1 << 10;

/// How many streams are opened before the server's settings are known. A server may allow only one.
const STREAMS_BEFORE_SETTINGS: u32 = 1;

/// Receives the events of a connection's streams. A stream is identified by the key it was opened with.
pub trait StreamEvents {
    /// A head: interim ones (1xx), then the final one.
    fn head(&mut self, key: u32, head: &Head, now: Time);

    /// Bytes of the body. Returns how many of them were consumed. The receiver keeps the others and reports them to
    /// [`H2Conn::consumed`] later; until then the window stays smaller by that many bytes.
    fn data(&mut self, key: u32, bytes: &[u8], now: Time) -> usize;

    /// Whether the receiver needs nothing more of this stream. Called after every head and every piece of data. If this
    /// returns true, no further event of the stream is reported. `wire` is the total size of the stream's received
    /// frames so far. `is_complete`: as many bytes of the body arrived as the head declared.
    fn is_satisfied(&mut self, _key: u32, _wire: u64, _is_complete: bool) -> bool {
        false
    }

    /// A new memory charge for a header block that arrives in pieces; `None` if it is not charged to a budget.
    fn new_head_charge(&mut self, _key: u32) -> Option<BudgetCharge> {
        None
    }

    /// The body is complete. `wire` is the total size of the stream's received frames.
    fn end(&mut self, key: u32, wire: u64, now: Time);

    /// The stream ended before its body was complete.
    fn failed(&mut self, key: u32, wire: u64, fault: StreamFault, now: Time);
}

/// Why a stream failed. The variants differ in what the caller can do next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StreamFault {
    /// The request may be sent again on another connection: the server did not process it, or the connection was lost
    /// before a repeatable request got any response.
    Unprocessed(Failure),
    /// The server requires HTTP/1.1, or does not support HTTP/2.
    Http1(Failure),
    /// Everything else.
    Failed(Failure),
}

impl StreamFault {
    pub fn failure(self) -> Failure {
        match self {
            Self::Unprocessed(failure) | Self::Http1(failure) | Self::Failed(failure) => failure,
        }
    }
}

/// A request to be sent on a stream.
pub struct H2Request {
    /// The header block, from [`super::request_block`].
    pub block: Vec<u8>,
    /// Empty if the request has no body.
    pub body: Box<[u8]>,
    /// Whether the request may be sent again although the server may have processed it.
    pub is_repeatable: bool,
}

impl H2Request {
    /// A repeatable request without a body.
    pub fn plain(block: Vec<u8>) -> Self {
        Self { block, body: Box::default(), is_repeatable: true }
    }
}

/// One HTTP/2 connection of a client, without its socket.
pub struct H2Conn {
    pub(super) limits: Arc<Limits>,
    /// Bytes to be written.
    pub(super) out: Vec<u8>,
    /// How many bytes of `out` were written.
    sent: usize,
    pub(super) reader: Reader,
    /// Open streams in the order of their identifiers, then streams that wait until the server allows another one.
    pub(super) streams: Vec<Stream>,
    /// The identifier of the next stream: an odd number.
    next_id: u32,
    /// How many streams the server allows at a time. Not valid before its settings arrive.
    pub(super) max_streams: u32,
    pub(super) window: ConnWindow,
    /// The largest receive window of a stream.
    pub(super) max_stream_window: u32,
    /// How many bytes of request bodies the server accepts now, on all streams together.
    pub(super) send_window: u32,
    /// The initial send window of each stream, set by the server.
    pub(super) initial_send_window: u32,
    pub(super) flood_guard: FloodGuard,
    /// The server's first SETTINGS frame has arrived.
    pub(super) has_settings: bool,
    /// No further streams are opened, because the server refuses them or is silent.
    pub(super) is_closing: bool,
    /// The connection cannot be used any more.
    pub(super) is_over: bool,
    /// The server has ended a stream without a reset, or has sent as much of a response as its receiver needs.
    pub(super) has_served: bool,
    /// The last stream that the server processes, according to GOAWAY. A later GOAWAY can only lower it.
    pub(super) last_processed: Option<u32>,
    /// There are unwanted streams, without a key, that are neither drained nor reset yet.
    pub(super) has_unwanted: bool,
    last_read: Time,
    /// Bytes that the server may still send on streams that we have reset, because it may not know of the reset yet.
    pub(super) stray_allowance: u64,
    /// How many WINDOW_UPDATE frames the server may still send for the bodies that we sent.
    pub(super) update_credit: u32,
}

/// One stream.
pub(super) struct Stream {
    /// [`WAITING`] until the stream is open.
    pub(super) id: u32,
    /// The key of the caller; `None` if nothing more of the stream is wanted. Its rest is then drained or reset.
    pub(super) key: Option<u32>,
    pub(super) window: StreamWindow,
    /// See [`Stream::body_left`].
    body_left: u64,
    /// Bytes of the body received so far.
    pub(super) received: u64,
    /// Total size of the stream's received frames so far.
    pub(super) wire: u64,
    /// The send window of the stream minus the initial one: what the server added by WINDOW_UPDATE frames, minus what
    /// was sent.
    pub(super) send_delta: i32,
    /// The final head of the response has arrived.
    pub(super) has_head: bool,
    pub(super) is_repeatable: bool,
    /// The request, until it is sent. Boxed because most streams wait for their response.
    unsent: Option<Box<UnsentRequest>>,
    /// Until when the rest of a cancelled stream is drained, or the end of a complete one is awaited; [`Time::NEVER`]
    /// otherwise.
    drain_until: Time,
}

/// The part of a request that is not sent yet.
struct UnsentRequest {
    /// The header block, until it is sent.
    block: Box<[u8]>,
    /// Empty if the request has no body.
    body: Box<[u8]>,
    /// Bytes of the body that were sent.
    body_sent: u32,
}

impl Stream {
    /// Whether a part of the request's body is not sent yet.
    pub(super) fn has_unsent_body(&self) -> bool {
        self.unsent.as_ref().is_some_and(|unsent| !unsent.body.is_empty())
    }

    /// Bytes of the body that are still to come; `None` if the server did not declare its length.
    pub(super) fn body_left(&self) -> Option<u64> {
        (self.body_left != UNKNOWN_LENGTH).then_some(self.body_left)
    }

    pub(super) fn set_body_left(&mut self, left: Option<u64>) {
        self.body_left = left.map_or(UNKNOWN_LENGTH, |left| left.min(UNKNOWN_LENGTH - 1));
    }
}

/// Stands for a body whose length the server did not declare.
const UNKNOWN_LENGTH: u64 = u64::MAX;

/// The identifier of a stream that is not open yet.
pub(super) const WAITING: u32 = u32::MAX;

/// A fault that ends the connection.
pub(super) struct ConnFault {
    pub(super) code: u32,
    pub(super) kind: ErrorKind,
    pub(super) why: &'static str,
    /// The stream that caused the fault; `None` if it concerns the whole connection.
    pub(super) stream: Option<u32>,
    /// The peer does not use HTTP/2.
    pub(super) is_other_protocol: bool,
}

impl H2Conn {
    /// A new connection. `window` is the receive window of the connection, and the largest one of each stream. It is at
    /// least [`DEFAULT_WINDOW`].
    pub fn new(limits: Arc<Limits>, window: u32, now: Time) -> Self {
        let size = window.clamp(DEFAULT_WINDOW, MAX_WINDOW);
        let mut out = Vec::with_capacity(128);
        out.extend_from_slice(frame::PREFACE);
        let list_size = u32::try_from(limits.max_head).unwrap_or(u32::MAX);
        frame::push_settings(
            &mut out,
            &[(setting::HEADER_TABLE_SIZE, 0), (setting::ENABLE_PUSH, 0), (setting::MAX_HEADER_LIST_SIZE, list_size)],
        );
        if size > DEFAULT_WINDOW {
            frame::push_window_update(&mut out, 0, size - DEFAULT_WINDOW);
        }
        Self {
            limits,
            out,
            sent: 0,
            reader: Reader::default(),
            streams: Vec::new(),
            next_id: 1,
            max_streams: u32::MAX,
            window: ConnWindow::new(size),
            max_stream_window: size,
            send_window: DEFAULT_WINDOW,
            initial_send_window: DEFAULT_WINDOW,
            flood_guard: FloodGuard::new(now),
            has_settings: false,
            is_closing: false,
            is_over: false,
            has_served: false,
            last_processed: None,
            has_unwanted: false,
            last_read: now,
            stray_allowance: 0,
            update_credit: 0,
        }
    }

    /// Whether another request may be started. Requests beyond the server's limit on streams wait.
    pub fn accepts(&self) -> bool {
        // Each waiting stream needs an identifier, and identifiers are odd.
        let has_free_ids = self.next_id < LOWER_31_BITS - 2 * self.streams.len() as u32;
        !self.is_over && !self.is_closing && has_free_ids
    }

    /// Whether the server has processed any stream, or has announced in GOAWAY that it processes one.
    pub fn has_processed(&self) -> bool {
        self.has_served || self.last_processed.is_some_and(|last| last > 0)
    }

    /// Whether the connection can neither send nor receive any more.
    pub fn is_over(&self) -> bool {
        self.is_over
    }

    /// How many streams the server allows at a time; `None` before its settings arrive.
    pub fn stream_limit(&self) -> Option<u32> {
        self.has_settings.then_some(self.max_streams)
    }

    /// Whether no request waits or awaits its response. Cancelled streams may still be draining.
    pub fn is_idle(&self) -> bool {
        self.streams.iter().all(|stream| stream.key.is_none())
    }

    /// Starts a request under a key of the caller's choice.
    pub fn open(&mut self, key: u32, request: H2Request) {
        let H2Request { block, body, is_repeatable } = request;
        // One byte more than the limit distinguishes a body that just fits from one that is too large.
        let window = StreamWindow::new(DEFAULT_WINDOW, self.limits.max_wire.saturating_add(1));
        if self.streams.len() == self.streams.capacity() {
            // Smaller steps than by doubling: most connections have a handful of streams, and thousands may wait.
            self.streams.reserve_exact(self.streams.len() / 4 + 1);
        }
        self.streams.push(Stream {
            id: WAITING,
            key: Some(key),
            window,
            body_left: UNKNOWN_LENGTH,
            received: 0,
            wire: 0,
            send_delta: 0,
            has_head: false,
            is_repeatable,
            unsent: Some(Box::new(UnsentRequest { block: block.into_boxed_slice(), body, body_sent: 0 })),
            drain_until: Time::NEVER,
        });
        self.open_waiting();
    }

    /// Opens waiting streams up to the server's limit.
    pub(super) fn open_waiting(&mut self) {
        if self.is_over || self.is_closing {
            return;
        }
        let mut open_count = self.streams.iter().take_while(|stream| stream.id != WAITING).count();
        let max_streams = if self.has_settings { self.max_streams } else { STREAMS_BEFORE_SETTINGS };
        while open_count < max_streams as usize
            && let Some(stream) = self.streams.get_mut(open_count)
        {
            stream.id = self.next_id;
            self.next_id += 2;
            if let Some(unsent) = &mut stream.unsent {
                let mut block = std::mem::take(&mut unsent.block).into_vec();
                if stream.id == 1 {
                    // Servers that lower HEADER_TABLE_SIZE expect this update, others accept it (RFC 7541, 4.2).
                    block.insert(0, hpack::EMPTY_TABLE);
                }
                frame::push_headers(&mut self.out, stream.id, &block, unsent.body.is_empty());
            }
            open_count += 1;
        }
        self.send_bodies();
    }

    /// Moves parts of request bodies to the output, as far as the server's windows and the limit on pending output
    /// allow. Returns whether there were any.
    pub fn send_bodies(&mut self) -> bool {
        let Self { streams, out, sent, send_window, initial_send_window, update_credit, .. } = self;
        let mut has_sent = false;
        for stream in streams.iter_mut().filter(|stream| stream.id != WAITING) {
            let Some(unsent) = &mut stream.unsent else { continue };
            // The other half of the output is left to replies.
            while (unsent.body_sent as usize) < unsent.body.len() && out.len() - *sent < MAX_OUT / 2 {
                let window =
                    (i64::from(*initial_send_window) + i64::from(stream.send_delta)).clamp(0, i64::from(*send_window));
                let rest = unsent.body.get(unsent.body_sent as usize..).unwrap_or_default();
                let length = usize::try_from(window).unwrap_or(usize::MAX).min(MAX_PAYLOAD).min(rest.len());
                let Some(piece) = rest.get(..length).filter(|piece| !piece.is_empty()) else { break };
                let flags = if length == rest.len() { flag::END_STREAM } else { 0 };
                frame::push(out, kind::DATA, flags, stream.id, piece);
                unsent.body_sent += length as u32;
                stream.send_delta = stream.send_delta.saturating_sub(length as i32);
                *send_window -= length as u32;
                *update_credit = update_credit.saturating_add(UPDATES_PER_FRAME + length as u32 / BYTES_PER_UPDATE);
                has_sent = true;
            }
            if unsent.body_sent as usize == unsent.body.len() {
                // Free the memory of a request that was sent.
                stream.unsent = None;
            }
        }
        has_sent
    }

    /// Whether this request still waits until the server allows another stream.
    pub fn is_waiting(&self, key: u32) -> bool {
        self.index_of_key(key).and_then(|index| self.streams.get(index)).is_some_and(|stream| stream.id == WAITING)
    }

    /// What is needed next.
    pub fn step(&self) -> Step<'_> {
        match self.pending() {
            [] if self.is_over || (self.is_closing && self.streams.is_empty()) => Step::Done,
            [] => Step::Read,
            bytes => Step::Write(bytes),
        }
    }

    /// The bytes to be written.
    pub fn pending(&self) -> &[u8] {
        self.out.get(self.sent..).unwrap_or_default()
    }

    /// Takes the bytes to be written, to encrypt or discard them.
    pub fn take_output(&mut self) -> Vec<u8> {
        let mut out = std::mem::take(&mut self.out);
        out.drain(..std::mem::take(&mut self.sent).min(out.len()));
        out
    }

    /// Reports how many of the pending bytes were written.
    pub fn wrote(&mut self, bytes: usize) {
        self.sent += bytes;
        if self.sent >= self.out.len() {
            self.out = Vec::new();
            self.sent = 0;
        }
    }

    /// Processes bytes read from the socket.
    pub fn feed(&mut self, bytes: &[u8], now: Time, events: &mut dyn StreamEvents) {
        self.last_read = now;
        match self.read(bytes, now, events) {
            Ok(()) => self.drain_or_reset_unwanted(now),
            Err(fault) => self.stop(&fault, now, events),
        }
    }

    /// False if a header block that arrives in pieces waits for memory: do not read from the socket.
    pub fn may_read(&mut self) -> bool {
        self.reader.may_grow()
    }

    /// The server closed the connection.
    pub fn closed(&mut self, now: Time, events: &mut dyn StreamEvents) {
        let failure = Failure::new(ErrorKind::Reset, "the server closed the connection");
        self.fail_all(&failure, now, events);
    }

    /// The socket failed.
    pub fn broke(&mut self, failure: &Failure, now: Time, events: &mut dyn StreamEvents) {
        self.fail_all(failure, now, events);
    }

    /// Fails all streams, because the connection is lost. A request that was never sent may be sent again. A repeatable
    /// request may be sent again too, if nothing of its response arrived and the connection worked before.
    fn fail_all(&mut self, failure: &Failure, now: Time, events: &mut dyn StreamEvents) {
        self.is_over = true;
        self.reader = Reader::default();
        let has_served = self.has_served;
        for stream in self.streams.drain(..) {
            let Some(key) = stream.key else { continue };
            let fault = if stream.id == WAITING || (has_served && stream.wire == 0 && stream.is_repeatable) {
                StreamFault::Unprocessed(failure.clone())
            } else if !self.has_settings && failure.kind == ErrorKind::Reset {
                // The connection ended before the server's first frame was complete.
                StreamFault::Failed(Failure::new(ErrorKind::EmptyReply, failure.message.clone()))
            } else {
                StreamFault::Failed(failure.clone())
            };
            events.failed(key, stream.wire, fault, now);
        }
    }

    /// Reports that the consumer has processed this many more bytes of a stream's body.
    pub fn consumed(&mut self, key: u32, bytes: usize) {
        if let Some(index) = self.index_of_key(key) {
            if let Some(stream) = self.streams.get_mut(index) {
                stream.window.consume(u32::try_from(bytes).unwrap_or(u32::MAX));
            }
            self.grant(index);
        }
    }

    /// Replaces the usual limit on a stream's body.
    pub fn set_body_limit(&mut self, key: u32, body_limit: u64) {
        if let Some(index) = self.index_of_key(key) {
            if let Some(stream) = self.streams.get_mut(index) {
                // One byte more, as in `open`.
                stream.window.set_body_limit(body_limit.saturating_add(1), stream.received);
            }
            self.grant(index);
        }
    }

    /// Enlarges a stream's window if that is worth a frame and more data is expected.
    pub(super) fn grant(&mut self, index: usize) {
        let Some(stream) = self.streams.get_mut(index) else { return };
        // The stream is unwanted, or the server may already send all that it declared.
        let needs_no_grant = stream.key.is_none() || stream.body_left().is_some_and(|left| stream.window.covers(left));
        if stream.id == WAITING || needs_no_grant || self.is_over {
            return;
        }
        if let Some(grant) = stream.window.grant(self.max_stream_window).filter(|grant| *grant > 0) {
            frame::push_window_update(&mut self.out, stream.id, grant);
        }
    }

    /// Cancels a stream whose rest is not wanted: it is drained or reset. Returns the total size of its frames so far;
    /// 0 if there is no such stream.
    pub fn cancel(&mut self, key: u32, now: Time) -> u64 {
        let Some(stream) = self.index_of_key(key).and_then(|index| self.streams.get_mut(index)) else { return 0 };
        let wire = stream.wire;
        stream.key = None;
        self.has_unwanted = true;
        self.drain_or_reset_unwanted(now);
        wire
    }

    /// Drains or resets unwanted streams. Called after all received bytes are processed: they often contain the end of
    /// the stream, and then neither is needed.
    fn drain_or_reset_unwanted(&mut self, now: Time) {
        if !std::mem::take(&mut self.has_unwanted) {
            return;
        }
        let is_drained = |stream: &&Stream| stream.key.is_none() && !stream.drain_until.is_never();
        let mut drained = self.streams.iter().filter(is_drained).count();
        let Self { out, streams, stray_allowance, is_over, .. } = self;
        streams.retain_mut(|stream| {
            if stream.key.is_some() || !stream.drain_until.is_never() {
                return true;
            }
            let is_short = !stream.has_unsent_body()
                && stream.body_left().is_some_and(|left| left <= MAX_DRAINED_BYTES && stream.window.covers(left));
            if is_short && drained < MAX_DRAINED_STREAMS {
                drained += 1;
                stream.drain_until = now + DRAIN_TIME;
                return true;
            }
            if stream.id != WAITING && !*is_over {
                *stray_allowance += u64::from(stream.window.available());
                frame::push_reset(out, stream.id, code::CANCEL);
            }
            false
        });
        self.open_waiting();
    }

    /// Waits some seconds for the end of a stream whose body is complete. Returns false if this is not such a stream.
    ///
    /// Data beyond the declared length makes the response malformed. Without the wait, the result would depend on how
    /// the bytes are split into reads.
    pub fn wait_for_end(&mut self, key: u32, now: Time) -> bool {
        let stream = self.index_of_key(key).and_then(|index| self.streams.get_mut(index));
        let Some(stream) = stream.filter(|stream| stream.body_left() == Some(0)) else { return false };
        if stream.drain_until.is_never() {
            stream.drain_until = now + DRAIN_TIME;
        }
        true
    }

    /// Accepts no further streams if nothing was received for `idle`: the connection may be dead.
    pub fn retire_if_silent(&mut self, idle: Duration, now: Time) {
        if now.since(self.last_read) >= idle {
            self.is_closing = true;
        }
    }

    /// When to call [`H2Conn::expire`], if nothing happens until then.
    pub fn deadline(&self) -> Time {
        self.streams.iter().map(|stream| stream.drain_until).min().unwrap_or(Time::NEVER)
    }

    /// Resets streams whose rest or end did not arrive in time. Reports `end` for those that were not cancelled: their
    /// bodies are complete.
    pub fn expire(&mut self, now: Time, events: &mut dyn StreamEvents) {
        let Self { out, streams, stray_allowance, .. } = self;
        streams.retain(|stream| {
            let is_late = stream.drain_until <= now;
            if is_late {
                *stray_allowance += u64::from(stream.window.available());
                frame::push_reset(out, stream.id, code::CANCEL);
                if let Some(key) = stream.key {
                    events.end(key, stream.wire, now);
                }
            }
            !is_late
        });
        self.open_waiting();
    }

    /// Heap bytes of this connection.
    pub fn heap_bytes(&self) -> usize {
        let requests: usize = self
            .streams
            .iter()
            .filter_map(|stream| stream.unsent.as_ref())
            .map(|unsent| size_of::<UnsentRequest>() + unsent.block.len() + unsent.body.len())
            .sum();
        self.out.capacity() + self.reader.heap_bytes() + self.streams.capacity() * size_of::<Stream>() + requests
    }

    fn index_of_key(&self, key: u32) -> Option<usize> {
        self.streams.iter().position(|stream| stream.key == Some(key))
    }

    /// The index of an open stream.
    pub(super) fn index_of(&self, id: u32) -> Option<usize> {
        self.streams.binary_search_by_key(&id, |stream| stream.id).ok().filter(|_| id != WAITING)
    }

    /// Whether a stream with this identifier was ever opened.
    pub(super) fn was_opened(&self, id: u32) -> bool {
        id % 2 == 1 && id < self.next_id
    }

    /// Ends one stream and reports the fault to the receiver. If `reset` is an error code, also resets the stream.
    pub(super) fn fail_stream(
        &mut self,
        index: usize,
        fault: StreamFault,
        reset: Option<u32>,
        now: Time,
        events: &mut dyn StreamEvents,
    ) {
        if index >= self.streams.len() {
            return;
        }
        let stream = self.streams.remove(index);
        if let Some(code) = reset {
            self.stray_allowance += u64::from(stream.window.available());
            frame::push_reset(&mut self.out, stream.id, code);
        }
        if let Some(key) = stream.key {
            events.failed(key, stream.wire, fault, now);
        }
        self.open_waiting();
    }

    /// Ends the connection because of a fault of the server.
    fn stop(&mut self, fault: &ConnFault, now: Time, events: &mut dyn StreamEvents) {
        // So much pending output means that the server does not read our replies: drop them. If some bytes were
        // written, the rest may begin in the middle of a frame, and is kept.
        if self.sent == 0 && self.out.len() > MAX_OUT {
            self.out.clear();
        }
        frame::push_goaway(&mut self.out, fault.code);
        self.is_over = true;
        self.reader = Reader::default();
        for stream in std::mem::take(&mut self.streams) {
            let Some(key) = stream.key else { continue };
            let is_cause = fault.stream.is_none_or(|id| id == stream.id);
            let fault = if fault.is_other_protocol {
                StreamFault::Http1(Failure::new(fault.kind, fault.why))
            } else if stream.id == WAITING {
                StreamFault::Unprocessed(Failure::new(fault.kind, fault.why))
            } else if is_cause {
                StreamFault::Failed(Failure::new(fault.kind, fault.why))
            } else {
                let message = format!("the connection was ended because of another stream: {}", fault.why);
                StreamFault::Failed(Failure::new(ErrorKind::Reset, message))
            };
            events.failed(key, stream.wire, fault, now);
        }
    }
}
