//! [`Conn`]: the protocol state of one connection, TLS and HTTP/1.1, without the socket.
//!
//! The caller gets the next step from [`Conn::step`], does it, and reports the result with `wrote`, `feed`, `closed`,
//! `broke` or `expire`. The response is passed to a [`Receiver`] in pieces.
//!
//! ```
//! use argiope_core::Time;
//! use argiope_core::http::conn::{Conn, Head, Limits, Receiver, Step, Want};
//!
//! struct Page(Vec<u8>);
//!
//! impl Receiver for Page {
//!     fn head(&mut self, head: &Head, _now: Time) -> Want {
//!         if head.status == 200 { Want::Body } else { Want::Nothing }
//!     }
//!     fn wire(&mut self, _raw: &[u8]) {}
//!     fn body(&mut self, decoded: &[u8]) {
//!         self.0.extend_from_slice(decoded);
//!     }
//! }
//!
//! let (now, limits) = (Time::ZERO, Limits::default());
//! let (deadline, mut page) = (now + limits.total, Page(Vec::new()));
//! let mut conn = Conn::plain(limits.into(), now);
//! conn.request(b"GET / HTTP/1.1\r\nHost: example.org\r\n\r\n".to_vec(), deadline, now);
//! let mut socket = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello".chunks(7);
//! loop {
//!     match conn.step() {
//!         Step::Write(bytes) => {
//!             let written = bytes.len(); // A real socket may accept fewer bytes.
//!             conn.wrote(written, now);
//!         }
//!         Step::Read => match socket.next() {
//!             Some(bytes) => conn.feed(bytes, now, &mut page),
//!             None => conn.closed(now, &mut page),
//!         },
//!         Step::Pause | Step::Done => break,
//!     }
//! }
//! assert!(conn.end().reusable);
//! assert_eq!(page.0, b"hello");
//! ```
//!
//! Invariant: no input makes a `Conn` panic, wait without a deadline, or buffer more than its [`Limits`] allow. The
//! result does not depend on how the response is split into reads.

mod coding;
mod deadline;
mod framing;
mod head;
mod interface;
mod limits;
pub mod request;
mod response;
mod tls;
mod tunnel;

use std::net::IpAddr;
use std::num::NonZeroU64;
use std::sync::Arc;

use crate::base::budget::BudgetCharge;
use crate::base::outcome::{ErrorKind, Failure, Truncated};
use crate::base::time::Time;

pub use coding::CodingDefects;
#[cfg(test)]
pub(crate) use coding::ZSTD_WINDOW_LOG;
pub(crate) use head::HeadFields;
pub use head::{Head, Headers, Version};
pub use interface::{ExchangeEnd, Receiver, Step, Want};
pub use limits::Limits;
pub(crate) use limits::UNCHARGED_HEAD;
use response::DECODE_SLICE;
#[cfg(test)]
pub(crate) use response::MAX_DRAIN;
#[cfg(test)]
pub(crate) use tls::MAX_INTERMEDIATES;
pub use tls::certificate::CertificateSummary;
pub use tls::trust::{ClientIdentity, ClientIdentityError, TimeOfDay, TlsConfigs, TlsSource, Trust, authorities};
pub use tls::{TlsConfig, TlsInfo};
#[cfg(test)]
pub(crate) use tunnel::MAX_PROXY_HEAD;
pub use tunnel::Tunnel;
pub(crate) use tunnel::refused_by_proxy;

use coding::Decoder;
use deadline::{Expired, MAX_PAUSE, ReadDeadlines};
use framing::BodyFraming;
use response::too_slow;
pub(crate) use tls::Tls;

/// The protocol state of one connection.
///
/// # The state machine
///
/// ```text
///       request          1xx
///          |            +---+
///          v            |   v
/// Idle --------------> Head ------> Body -----> Done
///  ^                    |                        ^ |
///  |                    +--- no body, failure ---+ |
///  +------------------------ end ------------------+
/// ```
///
/// The server's bytes cause the transitions from `Head` to `Body` to `Done`. `request` leaves `Idle`, and `end` leaves
/// `Done`. Every error calls `stop`, which moves to `Done` from any phase, except an error of decoding: then the rest
/// of the body is still read. The first failure counts; later events only set `is_unusable`. The TLS handshake and the
/// conversation with a proxy are not phases of their own: they are additional writing and reading during `Head`, or
/// during `Idle` if `start_handshake` was called.
///
/// Two flags decide about reuse. `may_reuse` is what head and framing of the response allow. `is_unusable` means that
/// the peer closed the connection or sent unexpected bytes, or that an earlier exchange did not end reusable. In
/// addition, the request must be completely sent.
pub struct Conn {
    /// The address of the host; `None` if it is unknown, for example because a proxy resolves the name.
    pub peer: Option<IpAddr>,
    limits: Arc<Limits>,
    tls: Option<Box<Tls>>,
    /// The conversation with a proxy, while it lasts.
    tunnel: Option<Box<Tunnel>>,
    /// The part of the request that is not written yet. With TLS the TLS session buffers it instead.
    out: Vec<u8>,
    /// The start of a head that is split across reads. Boxed, because most waiting connections have none.
    partial: Option<Box<PartialHead>>,
    phase: Phase,
    body_use: BodyUse,
    decoder: Option<Box<Decoder>>,
    deadlines: ReadDeadlines,
    /// When the first byte of the response arrived; [`Time::NEVER`] before that.
    first_byte: Time,
    /// See [`ExchangeEnd::bytes_wire`] and [`ExchangeEnd::bytes_body`].
    bytes_wire: u64,
    bytes_body: u64,
    /// Size of the body before decoding, without framing.
    payload_bytes: u64,
    /// The limit on this body, if it is not the usual one ([`Want::UpTo`]).
    body_limit: Option<NonZeroU64>,
    failure: Option<Box<Failure>>,
    truncated: Option<Truncated>,
    coding_defects: CodingDefects,
    /// Number of interim responses so far.
    interim_responses: u8,
    /// Seconds by which the next slot check is postponed ([`ReadDeadlines::slot_check`]). This check ends a silent or
    /// slow exchange if other requests wait for its slot.
    slot_check_delay: u16,
    /// The request is not completely sent yet.
    is_sending: bool,
    /// Since when reading is paused; [`Time::NEVER`] if it is not.
    paused_since: Time,
    may_reuse: bool,
    /// The request was HEAD: the response has no body, whatever its head announces.
    is_head_request: bool,
    is_unusable: bool,
    /// An earlier exchange used this connection.
    is_reused: bool,
    /// See [`ExchangeEnd::stale`].
    is_stale: bool,
    /// The protocol after the handshake is not decided yet: bytes after the handshake are left to the caller.
    is_handshake_only: bool,
}

/// The start of a head.
#[derive(Default)]
struct PartialHead {
    bytes: Vec<u8>,
    /// The memory charge for `bytes`, if the head is long.
    charge: Option<BudgetCharge>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Idle,
    Head,
    Body(BodyFraming),
    Done,
}

/// How the bytes of a body are processed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum BodyUse {
    /// Decoded and passed to [`Receiver::body`].
    Decode,
    /// Not decodable: only [`Receiver::wire`] receives them.
    Raw,
    /// Discarded.
    Drop,
}

impl Conn {
    /// A connection without TLS.
    pub fn plain(limits: Arc<Limits>, now: Time) -> Self {
        Self {
            peer: None,
            limits,
            tls: None,
            tunnel: None,
            out: Vec::new(),
            partial: None,
            phase: Phase::Idle,
            body_use: BodyUse::Decode,
            decoder: None,
            deadlines: ReadDeadlines::new(Time::NEVER, now),
            first_byte: Time::NEVER,
            bytes_wire: 0,
            bytes_body: 0,
            payload_bytes: 0,
            body_limit: None,
            failure: None,
            truncated: None,
            coding_defects: CodingDefects::default(),
            interim_responses: 0,
            slot_check_delay: 0,
            is_sending: false,
            paused_since: Time::NEVER,
            may_reuse: false,
            is_head_request: false,
            is_unusable: false,
            is_reused: false,
            is_stale: false,
            is_handshake_only: false,
        }
    }

    pub fn is_tls(&self) -> bool {
        self.tls.is_some()
    }

    /// Starts an exchange on a new connection, or on one whose last exchange ended `reusable`.
    pub fn request(&mut self, request: Vec<u8>, deadline_total: Time, now: Time) {
        self.deadlines = ReadDeadlines::new(deadline_total, now);
        self.is_handshake_only = false;
        if self.phase == Phase::Done {
            // The handshake has failed already.
            return;
        }
        self.phase = Phase::Head;
        self.is_sending = true;
        self.is_head_request = request.starts_with(b"HEAD ");
        match &mut self.tls {
            Some(tls) => tls.send(&request),
            None => self.out = request,
        }
        if self.is_unusable {
            let failure = Failure::new(
                ErrorKind::Reset,
                "the kept-alive connection was closed or received unexpected bytes while idle",
            );
            self.is_stale = self.is_reused;
            self.stop(Some(failure), None);
        }
    }

    /// Marks the request as HEAD. Needed for HTTP/2, where the request is sent as frames and `request` gets no bytes.
    pub(crate) fn set_head_request(&mut self) {
        self.is_head_request = true;
    }

    /// Whether the response to a HEAD request is complete. What the server sends after it does not matter.
    pub(crate) fn is_head_response_complete(&self) -> bool {
        self.is_head_request && self.phase == Phase::Done
    }

    /// Whether the request is not completely written yet.
    pub fn is_sending(&self) -> bool {
        self.is_sending
    }

    /// Ends the exchange with this failure and without a usable body.
    pub fn refuse(&mut self, failure: Failure) {
        self.stop(Some(failure), None);
    }

    /// Ends the body before its end, for this reason.
    pub(crate) fn cut(&mut self, failure: Failure, truncated: Truncated) {
        if matches!(self.phase, Phase::Body(_)) {
            self.stop(Some(failure), Some(truncated));
        } else {
            self.connection_lost(failure);
        }
    }

    /// Starts the handshake without a request, because the handshake decides which protocol follows. After it, either
    /// `request` is called (HTTP/1.1), or HTTP/2 continues with the TLS session from [`Conn::take_tls`].
    pub(crate) fn start_handshake(&mut self, deadline_total: Time, now: Time) {
        self.deadlines = ReadDeadlines::new(deadline_total, now);
        self.is_handshake_only = true;
    }

    /// The protocol that the TLS handshake negotiated.
    pub(crate) fn alpn(&self) -> Option<&[u8]> {
        self.tls.as_ref()?.alpn()
    }

    /// The TLS session, for the protocol that follows the handshake.
    pub(crate) fn take_tls(&mut self) -> Option<Box<Tls>> {
        self.tls.take()
    }

    /// Whether the connection failed before a request was sent. Only for use before [`Conn::request`]: afterwards,
    /// [`Phase::Done`] may also mean that the response is complete.
    pub(crate) fn has_failed_before_request(&self) -> bool {
        self.phase == Phase::Done
    }

    /// Why the connection failed.
    pub(crate) fn failure(&self) -> Failure {
        let unknown = || Failure::new(ErrorKind::Reset, "the connection failed");
        self.failure.as_deref().cloned().unwrap_or_else(unknown)
    }

    /// Ends a response as truncated, even if its body looks complete. An unwanted body, which is discarded, is not
    /// marked as truncated.
    pub(crate) fn truncate_body(&mut self, failure: Failure) {
        self.connection_lost(failure.clone());
        if self.failure.is_none() && self.body_use != BodyUse::Drop {
            self.failure = Some(Box::new(failure));
            self.truncated = Some(Truncated::Disconnect);
        }
    }

    /// Whether the exchange is over without a failure: the response is complete, or its body is not wanted.
    pub(crate) fn is_whole(&self) -> bool {
        self.phase == Phase::Done && self.failure.is_none()
    }

    /// Whether a part of the body was received.
    pub(crate) fn has_body(&self) -> bool {
        self.payload_bytes > 0
    }

    /// The limit on this body, if it is not the usual one ([`Want::UpTo`]).
    pub(crate) fn custom_body_limit(&self) -> Option<u64> {
        self.body_limit.map(NonZeroU64::get)
    }

    /// What the connection needs next.
    pub fn step(&self) -> Step<'_> {
        let pending = match (&self.tunnel, &self.tls) {
            (Some(tunnel), _) => tunnel.pending(),
            (None, Some(tls)) => tls.pending(),
            (None, None) => &self.out,
        };
        match self.phase {
            Phase::Done => Step::Done,
            _ if !pending.is_empty() => Step::Write(pending),
            Phase::Idle if !self.is_handshaking() => Step::Done,
            Phase::Body(_) if self.is_paused() => Step::Pause,
            Phase::Idle | Phase::Head | Phase::Body(_) => Step::Read,
        }
    }

    /// Reports how many bytes of [`Step::Write`] were written.
    pub fn wrote(&mut self, bytes: usize, now: Time) {
        if let Some(tunnel) = &mut self.tunnel {
            return tunnel.wrote(bytes);
        }
        match &mut self.tls {
            Some(tls) => tls.wrote(bytes),
            None => {
                if bytes >= self.out.len() {
                    self.out = Vec::new();
                } else {
                    self.out.drain(..bytes);
                }
            }
        }
        self.note_if_sent(now);
    }

    /// Pauses or resumes reading, for backpressure. While a connection is paused within a body, its next step is
    /// [`Step::Pause`] and its timers stop, so that a slow reader does not truncate bodies. A pause that is longer than
    /// an hour, and longer than the time left for the exchange, ends the body.
    pub fn set_paused(&mut self, pause: bool, now: Time) {
        match (self.is_paused(), pause) {
            (false, true) => self.paused_since = now,
            (true, false) => {
                if matches!(self.phase, Phase::Body(_)) {
                    self.deadlines.exclude_pause(self.paused_since, now);
                }
                self.paused_since = Time::NEVER;
            }
            (true, true) | (false, false) => {}
        }
    }

    fn is_paused(&self) -> bool {
        !self.paused_since.is_never()
    }

    /// Processes bytes read from the socket.
    pub fn feed(&mut self, bytes: &[u8], now: Time, receiver: &mut dyn Receiver) {
        let mut rest = bytes;
        loop {
            let used = self.feed_some(rest, now, receiver);
            rest = rest.get(used..).unwrap_or_default();
            if rest.is_empty() && !self.has_more() {
                return;
            }
        }
    }

    /// Like `feed`, but stops after a limited amount of decoded output (a slice). So an input that expands to megabytes
    /// does not block other connections. Returns how many bytes were consumed. The caller feeds the rest again. While
    /// [`Conn::has_more`] is true, the caller calls this again even if no bytes are left.
    pub fn feed_some(&mut self, bytes: &[u8], now: Time, receiver: &mut dyn Receiver) -> usize {
        if let Some(tunnel) = &mut self.tunnel {
            match tunnel.feed(bytes) {
                Ok(None) => {}
                Ok(Some(rest)) => {
                    self.tunnel = None;
                    self.deadlines.restart(now);
                    if let Some(tls) = &mut self.tls {
                        tls.set_deadline(now + self.limits.connect);
                    }
                    if !rest.is_empty() {
                        self.feed(&rest, now, receiver);
                    }
                }
                Err(failure) => self.connection_lost(failure),
            }
            return bytes.len();
        }
        let until = self.decoded_bytes(receiver) + DECODE_SLICE;
        self.decode_more(until, receiver);
        match self.tls.take() {
            None => self.process_response(bytes, until, now, receiver),
            Some(mut tls) => {
                let used = self.decrypt(&mut tls, bytes, until, now, receiver);
                let is_closed_cleanly = tls.is_closed_cleanly();
                self.tls = Some(tls);
                self.note_if_sent(now);
                match used {
                    Err(failure) => self.connection_lost(failure),
                    Ok(used) if used < bytes.len() || self.has_more() => return used,
                    Ok(_) if is_closed_cleanly => self.peer_closed(is_closed_cleanly, receiver),
                    Ok(_) => {}
                }
                bytes.len()
            }
        }
    }

    /// Processes a head of HTTP/2. The data of its stream is fed as the body.
    pub(crate) fn feed_head(&mut self, head: &Head, now: Time, receiver: &mut dyn Receiver) {
        if self.phase == Phase::Head {
            self.first_byte = self.first_byte.min(now);
            match head.check_count(&self.limits) {
                Ok(()) => self.on_head(head, now, receiver),
                Err(failure) => self.stop(Some(failure), None),
            }
        }
    }

    /// True if input that was fed already can produce more output.
    pub fn has_more(&mut self) -> bool {
        self.has_more_to_decode() || self.tls.as_mut().is_some_and(|tls| tls.plaintext().is_some())
    }

    /// False if a head that arrives in pieces must not grow, because the budget has no room for it.
    pub fn may_head_grow(&mut self) -> bool {
        self.partial.as_mut().and_then(|partial| partial.charge.as_mut()).is_none_or(BudgetCharge::may_grow)
    }

    /// True if decoding waits for memory that [`Receiver::reserve`] refused. Decoding is retried on the next `feed`,
    /// even with no bytes.
    pub fn awaits_memory(&self) -> bool {
        self.decoder.as_ref().is_some_and(|decoder| decoder.memory_needed() > 0)
    }

    /// The peer closed its side: no more bytes will arrive.
    pub fn closed(&mut self, _now: Time, receiver: &mut dyn Receiver) {
        if self.is_handshaking() && self.phase != Phase::Done {
            let message = if self.tunnel.is_some() {
                "the proxy closed the connection before the tunnel was established"
            } else {
                "the server closed the connection during the TLS handshake"
            };
            self.stop(Some(self.of_handshake(Failure::new(ErrorKind::Reset, message))), None);
        }
        // Over TLS, a close without close_notify may be an attack that truncates the body.
        let cleanly = !self.is_tls();
        self.peer_closed(cleanly, receiver);
    }

    /// The socket failed.
    pub fn broke(&mut self, failure: Failure, _receiver: &mut dyn Receiver) {
        self.connection_lost(self.of_handshake(failure));
    }

    /// When to call `expire` if nothing else happens before. The call may do nothing but set a later deadline.
    pub fn deadline(&self) -> Time {
        if let (Some(tunnel), true) = (&self.tunnel, self.phase != Phase::Done) {
            return self.deadlines.total().min(tunnel.deadline);
        }
        match (self.phase, &self.tls) {
            (Phase::Done, _) => Time::NEVER,
            (_, Some(tls)) if tls.is_handshaking() => self.deadlines.total().min(tls.deadline()),
            (Phase::Idle, _) => Time::NEVER,
            (Phase::Head, _) => self.deadlines.head_deadline(&self.limits).min(self.slot_check()),
            (Phase::Body(_), _) if self.is_paused() => self.deadlines.total().max(self.paused_since + MAX_PAUSE),
            (Phase::Body(_), _) => self.deadlines.body_deadline(&self.limits).min(self.slot_check()),
        }
    }

    /// Applies timeouts. Does nothing before the deadline.
    pub fn expire(&mut self, now: Time, receiver: &mut dyn Receiver) {
        if now < self.deadline() {
            return;
        }
        let limits = &self.limits;
        let in_body = matches!(self.phase, Phase::Body(_));
        let expired = if self.is_handshaking() {
            (self.deadlines.total() <= now).then_some(Expired::Total)
        } else if in_body && self.is_paused() {
            Some(Expired::Total)
        } else if in_body {
            self.deadlines.body_expired(now, limits)
        } else {
            self.deadlines.head_expired(now, limits)
        };
        if expired.is_none() && !self.is_handshaking() {
            return self.check_slot(now, receiver.slow_response_quota());
        }
        // `None`: none of these timers expired, so the tunnel or the TLS handshake has reached its own deadline.
        let (kind, message) = match expired {
            Some(Expired::Total) => (ErrorKind::TimeoutTotal, format!("not complete after {:?}", limits.total)),
            Some(Expired::Slow) => return self.stop(too_slow(limits), Some(Truncated::Time)),
            Some(Expired::Idle) if in_body => (ErrorKind::TimeoutIdle, format!("no data for {:?}", limits.idle)),
            Some(Expired::Idle) => (ErrorKind::TimeoutFirstByte, format!("no complete head after {:?}", limits.idle)),
            None if self.tunnel.is_some() => {
                (ErrorKind::ConnectTimeout, format!("the proxy made no connection within {:?}", limits.connect))
            }
            None => (ErrorKind::ConnectTimeout, format!("TLS handshake not complete after {:?}", limits.connect)),
        };
        let failure = self.of_handshake(Failure::new(kind, message));
        if in_body {
            self.stop(Some(failure), Some(Truncated::Time));
        } else {
            self.fail_head(failure);
            // A silent server is a timeout, not a connection that was closed while idle.
            self.is_stale = false;
        }
    }

    /// Returns the result of the exchange, after [`Step::Done`], and resets the connection. If the result is
    /// `reusable`, the connection accepts the next `request`.
    pub fn end(&mut self) -> ExchangeEnd {
        let tls_done = self.tls.as_ref().and_then(|tls| tls.done());
        // A response may be complete before the request is completely sent.
        let is_complete = !self.is_sending && self.phase == Phase::Done;
        let end = ExchangeEnd {
            failure: self.failure.take().map(|failure| *failure),
            truncated: self.truncated.take(),
            bytes_wire: std::mem::take(&mut self.bytes_wire),
            bytes_body: std::mem::take(&mut self.bytes_body),
            reusable: self.may_reuse && !self.is_unusable && is_complete,
            stale: std::mem::take(&mut self.is_stale),
            ttfb: (!self.first_byte.is_never()).then_some(self.first_byte),
            tls_done,
            coding_defects: std::mem::take(&mut self.coding_defects),
            is_http2: false,
        };
        self.phase = Phase::Idle;
        self.body_use = BodyUse::Decode;
        self.first_byte = Time::NEVER;
        self.payload_bytes = 0;
        self.interim_responses = 0;
        self.slot_check_delay = 0;
        self.paused_since = Time::NEVER;
        self.may_reuse = false;
        self.is_reused = true;
        self.is_unusable |= !end.reusable;
        end
    }

    /// Heap bytes of this connection while it waits, without the tunnel and the internal memory of TLS sessions and
    /// decoders.
    pub fn heap_bytes(&self) -> usize {
        let tls = self.tls.as_ref().map_or(0, |tls| size_of_val(&**tls) + tls.pending().len());
        let decoder = self.decoder.as_ref().map_or(0, |decoder| decoder.heap_bytes());
        let partial = self.partial.as_ref().map_or(0, |partial| size_of::<PartialHead>() + partial.bytes.capacity());
        self.out.capacity() + partial + tls + decoder
    }

    /// Whether the conversation with a proxy or the TLS handshake is still to be completed.
    pub(crate) fn is_handshaking(&self) -> bool {
        self.tunnel.is_some() || self.tls.as_ref().is_some_and(|tls| tls.is_handshaking())
    }

    /// Marks the failure of a connection if it failed during the TLS handshake.
    fn of_handshake(&self, failure: Failure) -> Failure {
        match &self.tls {
            Some(tls) if self.tunnel.is_none() && tls.is_handshaking() => failure.with_tls(tls.broken_handshake()),
            _ => failure,
        }
    }

    /// Starts the read timeouts if the request is now completely sent.
    fn note_if_sent(&mut self, now: Time) {
        let is_pending = match &self.tls {
            _ if self.tunnel.is_some() => true,
            Some(tls) => tls.is_handshaking() || !tls.pending().is_empty(),
            None => !self.out.is_empty(),
        };
        if self.is_sending && !is_pending {
            self.is_sending = false;
            if self.phase == Phase::Head {
                self.deadlines.restart(now);
            }
        }
    }

    /// Decrypts records and processes their plaintext, until the decoded body reaches `until`. Returns how many bytes
    /// of ciphertext were consumed.
    fn decrypt(
        &mut self,
        tls: &mut Tls,
        ciphertext: &[u8],
        until: u64,
        now: Time,
        receiver: &mut dyn Receiver,
    ) -> Result<usize, Failure> {
        let mut bytes = ciphertext;
        loop {
            if self.is_handshake_only && !tls.is_handshaking() {
                return Ok(ciphertext.len() - bytes.len());
            }
            while let Some(plaintext) = tls.plaintext() {
                let (len, used) = (plaintext.len(), self.process_response(plaintext, until, now, receiver));
                tls.consume(used);
                if used < len {
                    return Ok(ciphertext.len() - bytes.len());
                }
            }
            // Records are decrypted one by one, so plaintext before a failure has been processed already.
            if bytes.is_empty() || !tls.read(&mut bytes)? {
                return Ok(ciphertext.len());
            }
            if tls.note_done(now) {
                self.deadlines.restart(now);
            }
        }
    }
}
